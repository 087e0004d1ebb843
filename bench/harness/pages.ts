/**
 * Writes the tables of documents between their markers, from the newest results of each suite.
 *
 * @module
 */
import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { readText, root, writeTable } from "../../scripts/tools.ts";
import { loadSuite, SUITES } from "../suites/mod.ts";
import { type Line, linesOf, oursOf, overallOf, type Results, threadsOf } from "./results.ts";
import {
  about,
  formatRatio,
  formatThreads,
  shortTable,
  toMarkdown,
  toPage,
  wrap,
} from "./tables.ts";

const FOLDER = "bench/results";

/** The name of the file of a run: runs of a part of the rows, or of JavaScript, have their own. */
export function fileOf({ suite, date, level, backend }: Results, part: boolean): string {
  const marks = [level, backend === "native" ? undefined : backend, part ? "part" : undefined];
  return `${FOLDER}/${[date, suite, ...marks].filter((mark) => mark !== undefined).join("-")}.json`;
}

/** The newest whole run of a suite. */
export function newest(suite: string, level?: "v3"): Results | undefined {
  const end = `-${suite}${level === undefined ? "" : `-${level}`}.json`;
  const file = readdirSync(join(root, FOLDER))
    .filter((name) => /^\d{4}-\d\d-\d\d-/.test(name) && name.slice(10) === end)
    .sort().at(-1);
  return file === undefined ? undefined : JSON.parse(readText(`${FOLDER}/${file}`)) as Results;
}

/** A block of a page: the file, the name of its markers, the text between them. */
export interface Block {
  readonly file: string;
  readonly name: string;
  readonly text: string;
}

/** The columns of ours in a short table. */
async function headings(results: Results): Promise<string[]> {
  const { short } = await loadSuite(results.suite);
  const names = oursOf(results).map((side) => results.sides[side]!.name)
    .filter((name) => short === undefined || short.includes(name));
  return threadsOf(results).flatMap((threads) =>
    names.map((name) => `${name}, ${formatThreads(threads)}`)
  );
}

/** The wall times of a line relative to the peer's. */
const ratiosOf = ({ ratios }: Line): string[] =>
  ratios.flat().map((ratio) => ratio === undefined ? "–" : `${ratio.wall.toFixed(2)}×`);

/** On what runs were measured, and when, in a few words. */
function briefly(runs: readonly Results[]): string {
  const commits = new Map<string, Set<string>>();
  for (const { machine, date, commit } of runs) {
    const processor = machine.processor.replace(/\((R|TM)\)/g, "").replace(/ (Processor|@).*/, "");
    const key = `${processor}, ${machine.instructions.replace(" and ", ", ")}, ${date}`;
    commits.set(key, (commits.get(key) ?? new Set()).add(commit.split(" ")[0]!.slice(0, 8)));
  }
  return [...commits].map(([key, all]) => `${key}, ${[...all].join(" and ")}`).join("; ");
}

/** README's lines of models: the suite, the line, the peer, and the name in README. */
const MODELS: readonly (readonly [suite: string, line: RegExp, peer: string, name: string])[] = [
  ["programs", /^ResNet-18$/, "ONNX Runtime", "ResNet-18, ONNX Runtime"],
  ["programs", /^encoder$/, "ONNX Runtime", "BERT-like encoder, ONNX Runtime"],
  ["texts", /: 8 texts$/, "transformers.js", "MiniLM, 8 texts, transformers.js"],
  ...["Q4_1", "Q8_0"].map((format) =>
    [
      ...["generation", new RegExp(`${format}: token after 64$`, "i"), "node-llama-cpp"] as const,
      `SmolLM2 ${format}, a token, llama.cpp (in Node)`,
    ] as const
  ),
];

/** README's figures: the groups of primitives that count, the chart, and the models. */
async function readme(): Promise<string | undefined> {
  const results = newest("primitives");
  if (results === undefined) return undefined;
  const suite = await loadSuite("primitives");
  const header = await headings(results);
  const groups = linesOf(results, suite)
    .filter(({ name }) => name === "overall" || suite.overall!.includes(name))
    .map((line) => [line.name === "overall" ? "**overall**" : line.name, ...ratiosOf(line)]);
  const used: Results[] = [];
  const models: string[][] = [];
  for (const [name, pattern, peer, label] of MODELS) {
    const run = newest(name);
    if (run === undefined || (await headings(run)).length !== header.length) continue;
    const line = linesOf(run, await loadSuite(name))
      .find(({ name, beside }) => pattern.test(name) && beside === peer);
    if (line === undefined) continue;
    if (!used.some(({ suite }) => suite === run.suite)) used.push(run);
    models.push([label, ...ratiosOf(line)]);
  }
  const table = (cells: string[][]): string => toMarkdown({ cells, names: 1, texts: 0 });
  return [
    wrap(`Time relative to the faster of NumPy and PyTorch, ${briefly([results])}:`),
    "![Time relative to the faster of NumPy and PyTorch by group, one thread](docs/benchmarks.svg)",
    table([["Group", ...header], ...groups]),
    ...(models.length === 0 ? [] : [
      wrap(`Models, relative to the peer, ${briefly(used)}:`),
      table([["Model and peer", ...header], ...models]),
    ]),
  ].join("\n\n");
}

/** The runs that were held to AVX2: a line for each suite and peer. */
async function avx2(): Promise<string | undefined> {
  const cells: string[][] = [];
  const notes: string[] = [];
  let header: string[] | undefined;
  for (const name of SUITES) {
    const results = newest(name, "v3");
    if (results === undefined) continue;
    const own = await headings(results);
    header ??= ["Suite", "beside", ...own];
    if (own.length + 2 !== header.length) continue;
    for (const { beside, ratios } of overallOf(results, await loadSuite(name))) {
      cells.push([name, beside ?? "the fastest", ...ratios.flat().map(formatRatio)]);
    }
    notes.push(`${name}: ${about(results)}.`);
  }
  return header && `${wrap(notes.join(" "))}\n\n` +
      toMarkdown({ cells: [header, ...cells], names: 2, texts: 0 });
}

/** All blocks that the saved runs give. */
export async function blocks(): Promise<Block[]> {
  const made: Block[] = [];
  const add = (file: string, name: string, text: string | undefined): void => {
    if (text !== undefined && readText(file).includes(`<!-- ${name} -->`)) {
      made.push({ file, name, text });
    }
  };
  for (const name of SUITES) {
    const results = newest(name);
    if (results === undefined) continue;
    const suite = await loadSuite(name);
    // Documents compare groups with the fastest peer of each row; the page of a suite, with each.
    const short = shortTable(
      results,
      suite.lines === "group" ? { ...suite, beside: "fastest" } : suite,
    );
    if (short === undefined) continue;
    const link = `[All figures](../${FOLDER}/${name}.md).`;
    const text = `${wrap(`${about(results)}. ${link}`)}\n\n${toMarkdown(short)}`;
    add("docs/benchmarks.md", name, text);
    if (name === "server") {
      add("docs/serving.md", "table", `${wrap(`${about(results)}.`)}\n\n${toMarkdown(short)}`);
    }
  }
  add("docs/benchmarks.md", "avx2", await avx2());
  add("README.md", "table", await readme());
  return made;
}

/** The page of all figures of a suite; undefined if none are saved. */
export async function pageOf(name: string): Promise<string | undefined> {
  const results = newest(name);
  return results && toPage(results, await loadSuite(name));
}

/** Writes the blocks, the pages of all figures, and the chart. */
export async function writePages(): Promise<void> {
  for (const { file, name, text } of await blocks()) writeTable(file, text, name);
  for (const name of SUITES) {
    const page = await pageOf(name);
    if (page !== undefined) writeFileSync(join(root, FOLDER, `${name}.md`), page);
  }
  if (existsSync(join(root, "docs/benchmarks.svg"))) {
    const { writeChart } = await import("../chart.ts");
    await writeChart();
  }
}

/**
 * Mutation testing: puts one small fault at a time into a copy of src, and shows which no test
 * notices.
 *
 * Mutants come from the syntax trees of src and from the op table; a sample of them is judged, up to
 * {@link MOST} of each function, by the tests that reach them. Exits with 1 when one
 * survives that is not in survivors.ts, or when what is there is out of date.
 *
 * - `--list` names the mutants and what comments leave out, and runs nothing;
 * - `--file=`, once or more, and `--name=` choose by a part of the file's path, and of the key;
 * - `--all` judges all, not a sample, and known survivors too;
 * - `--seconds=` is when no more are begun (3300), `--jobs=` how many run at once (2);
 * - `--json=` writes a report.
 *
 * @module
 */

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { parseArgs } from "node:util";
import ts from "typescript";
import { LIBRARY_FILE } from "../../src/backend/ffi/load.ts";
import { TABLE } from "../../src/table/table.ts";
import { ensureInstalled, root as here } from "../tools.ts";
import {
  Copy,
  findJudges,
  type Judge,
  type Judges,
  judgesOf,
  nameOf,
  onCopies,
  sourceFiles,
} from "./judges.ts";
import { type LeftOut, type Mutant, mutantsOf, sample } from "./operators.ts";
import { SURVIVORS } from "./survivors.ts";
import { isInEntry, opMutants, TABLE_FILE } from "./table.ts";

/** How many mutants of a function are judged; of a type fewer, since each takes a type check. */
const MOST = { code: 1, op: 1, type: 1 };

/** Files, and functions in them, that no judge can run, as judges run in Deno. */
const ONLY_IN_BUN = [
  "src/backend/ffi/bun.ts",
  "src/backend/ffi/jsc.ts",
  "src/backend/js/primitives.ts isInt32",
  "src/backend/js/primitives.ts powInteger",
  "src/backend/js/primitives.ts productError",
  "src/backend/js/primitives.ts wrappingFloordiv",
  "src/io/file.ts openFile.read",
  "src/memory/pool.ts smallArray",
];

/** How a mutant ended. */
export interface Result {
  readonly file: string;
  readonly key: string;
  readonly line: number;
  readonly status: "caught" | "timed out" | "survived" | "not reached" | "known";
  /** The tests that noticed. */
  readonly by: string;
  readonly seconds: number;
}

/** What a run says. */
export interface Report {
  readonly made: number;
  readonly sampled: number;
  readonly results: readonly Result[];
  readonly leftOut: readonly LeftOut[];
  /** Keys of known survivors that are no mutant's. */
  readonly stale: readonly string[];
  readonly minutes: number;
}

/** What is run, and how. */
export interface Options {
  /** Parts of paths, of which one is enough. */
  readonly files: readonly string[];
  readonly name: string;
  readonly all: boolean;
  readonly seconds: number;
  readonly jobs: number;
  readonly known: typeof SURVIVORS;
}

/** The mutants of a tree: all, and those of the sample. */
export function makeMutants(
  root: string,
  { files: parts, name, all }: Options,
): { made: Mutant[]; chosen: Mutant[]; leftOut: LeftOut[] } {
  const files = sourceFiles(root);
  const program = ts.createProgram(files.map((path) => join(root, path)), {
    target: ts.ScriptTarget.ESNext,
    module: ts.ModuleKind.ESNext,
    moduleResolution: ts.ModuleResolutionKind.Bundler,
    lib: ["lib.esnext.d.ts", "lib.dom.d.ts"],
    types: ["node"],
    strict: true,
    noEmit: true,
    allowImportingTsExtensions: true,
  });
  const leftOut: LeftOut[] = [];
  const leaveOut = (file: string, place: string): number =>
    leftOut.push({ file, place, line: 1, text: place || "all", reason: "only Bun runs it" });
  const trees = files.flatMap((path) => {
    if (ONLY_IN_BUN.includes(path)) {
      leaveOut(path, "");
      return [];
    }
    const of = mutantsOf(program, join(root, path), path);
    leftOut.push(...of.leftOut);
    const skipped = ONLY_IN_BUN.filter((name) => name.startsWith(`${path} `));
    for (const name of skipped) leaveOut(path, name.slice(path.length + 1));
    return of.mutants.filter(({ place }) => !skipped.includes(`${path} ${place}`));
  });
  const table = program.getSourceFile(join(root, TABLE_FILE));
  const ops = table === undefined ? [] : opMutants(TABLE, table);
  const made = [...trees.filter((mutant) => !isInEntry(mutant, ops)), ...ops];
  const isChosen = ({ file, key }: Mutant): boolean =>
    parts.some((part) => file.includes(part)) && key.includes(name);
  const drawn = all
    ? made
    : (["code", "op", "type"] as const).flatMap((kind) =>
      sample(made.filter((mutant) => mutant.kind === kind), MOST[kind])
    );
  return { made, chosen: drawn.filter(isChosen), leftOut };
}

/** How many mutants of a file each judge has caught, by file and name. */
type Catches = Map<string, number>;

/** Judges one mutant in a copy of the tree, whose file is as it was afterwards. */
async function judge(
  mutant: Mutant,
  judges: Judges,
  copy: Copy,
  catches: Catches,
): Promise<Result> {
  const { file, key, line, from, to, by } = mutant;
  const begin = performance.now();
  const end = (status: Result["status"], test = ""): Result => {
    const seconds = Math.round((performance.now() - begin) / 10) / 100;
    return { file, key, line, status, by: test, seconds };
  };
  const rate = (one: Judge): number => (catches.get(`${file} ${nameOf(one)}`) ?? 0) / one.seconds;
  // What has caught most of the file's mutants in the least time is likeliest to catch this one.
  const able = judgesOf(mutant, judges).sort((a, b) => rate(b) - rate(a));
  if (able.length === 0) return end("not reached");
  const path = join(copy.folder, file);
  const text = readFileSync(path, "utf8");
  writeFileSync(path, text.slice(0, from) + by + text.slice(to));
  try {
    for (const one of able) {
      const { code, late } = await copy.judge(one);
      if (late) return end("timed out", nameOf(one));
      if (code === 0) continue;
      const name = `${file} ${nameOf(one)}`;
      catches.set(name, (catches.get(name) ?? 0) + 1);
      return end("caught", nameOf(one));
    }
    return end("survived");
  } finally {
    writeFileSync(path, text);
  }
}

/** Makes the mutants of a tree, and judges those that are chosen. */
export async function mutate(root: string, options: Options): Promise<Report> {
  const begin = performance.now();
  const secondsSince = (): number => (performance.now() - begin) / 1000;
  const { made, chosen, leftOut } = makeMutants(root, options);
  const reasons = new Map(
    Object.entries(options.known).flatMap(([file, keys]) =>
      Object.keys(keys).map((key): [string, boolean] => [`${file} ${key}`, false])
    ),
  );
  const nameOfMutant = ({ file, key }: Mutant | Result): string => `${file} ${key}`;
  for (const mutant of made) {
    if (reasons.has(nameOfMutant(mutant))) reasons.set(nameOfMutant(mutant), true);
  }
  const stale = [...reasons].filter(([, found]) => !found).map(([name]) => name);

  const copies = Array.from({ length: options.jobs }, () => new Copy(root));
  const results: Result[] = [];
  const catches: Catches = new Map();
  try {
    const judges = await findJudges(root, copies);
    console.log(`${made.length} mutants, ${chosen.length} chosen, ${judges.list.length} judges`);
    await onCopies(copies, chosen, async (mutant, copy) => {
      const isKnown = reasons.has(nameOfMutant(mutant));
      if (isKnown && !options.all) {
        const { file, key, line } = mutant;
        results.push({ file, key, line, status: "known", by: "", seconds: 0 });
        return;
      }
      if (secondsSince() > options.seconds) return;
      const result = await judge(mutant, judges, copy, catches);
      const isMissed = result.status === "survived" || result.status === "not reached";
      results.push(isKnown && isMissed ? { ...result, status: "known" } : result);
      if (isMissed && !isKnown) console.log(`${result.status}: ${nameOfMutant(result)}`);
      if (isKnown && !isMissed) stale.push(`${nameOfMutant(result)} (caught by ${result.by})`);
      if (results.length % 100 === 0) {
        console.log(`${results.length} done in ${Math.round(secondsSince() / 60)} minutes`);
      }
    });
  } finally {
    for (const copy of copies) copy.remove();
  }
  const minutes = Math.round(secondsSince() / 6) / 10;
  return { made: made.length, sampled: chosen.length, results, leftOut, stale, minutes };
}

/** Prints a report; gives the exit code. */
function conclude({ made, sampled, results, leftOut, stale, minutes }: Report): number {
  const of = (...statuses: Result["status"][]): Result[] =>
    results.filter(({ status }) => statuses.includes(status));
  const missed = of("survived", "not reached");
  const files = new Map<string, number>();
  for (const { file } of missed) files.set(file, (files.get(file) ?? 0) + 1);
  if (files.size > 0) console.log("\nSurvivors without a reason, by file:");
  for (const [file, count] of [...files].sort()) console.log(`  ${file}: ${count}`);
  if (stale.length > 0) console.log("\nOut of date in survivors.ts:");
  for (const name of stale) console.log(`  ${name}`);
  if (leftOut.length > 0) console.log(`\n${leftOut.length} places are left out`);
  const unjudged = sampled - results.length;
  console.log(
    `\n${made} mutants made, ${sampled} chosen, ${of("caught", "timed out").length} caught ` +
      `(${of("timed out").length} by the time limit), ${missed.length} survived ` +
      `(${of("not reached").length} are reached by no test), ${of("known").length} known` +
      `${unjudged > 0 ? `, ${unjudged} not judged for want of time` : ""}; ${minutes} minutes`,
  );
  return missed.length > 0 || stale.length > 0 ? 1 : 0;
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      list: { type: "boolean", default: false },
      all: { type: "boolean", default: false },
      file: { type: "string", multiple: true, default: [""] },
      name: { type: "string", default: "" },
      jobs: { type: "string", default: "2" },
      seconds: { type: "string", default: "3300" },
      json: { type: "string" },
    },
  });
  const { seconds, jobs, file: files, name, all } = values;
  const options = {
    files,
    name,
    all,
    seconds: Number(seconds),
    jobs: Number(jobs),
    known: SURVIVORS,
  };
  await ensureInstalled();
  if (values.list) {
    const { made, chosen, leftOut } = makeMutants(here, options);
    for (const { file, key } of chosen) console.log(`${file} ${key}`);
    for (const { file, line, text, reason } of leftOut) {
      console.log(`left out: ${file}:${line} ${text} (${reason})`);
    }
    console.log(`${made.length} mutants, ${chosen.length} chosen`);
  } else {
    const library = join(here, "zig-out", "lib", LIBRARY_FILE);
    if (!existsSync(library)) throw new Error(`${library} has to be built first`);
    const report = await mutate(here, options);
    if (values.json) writeFileSync(values.json, JSON.stringify(report, null, 2) + "\n");
    process.exitCode = conclude(report);
  }
}

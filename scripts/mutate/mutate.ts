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
 * - `--suite=all` judges by what `npm run test:all` runs in Deno, not by what `npm test` runs;
 * - `--count=` judges as many mutants, drawn from all by their names, except known survivors; a
 *   survivor is no failure then. The judges of one may take longer: {@link SECONDS_OF_COUNT};
 * - `--caught=REPORT` takes what npm test caught, in such a report, as caught by test:all too;
 * - `--seconds=` is when no more are begun (3300; 5400 with `--count`), `--jobs=` how many run at
 *   once (2);
 * - `--json=` writes a report;
 * - `--compare=TEST,ALL` only compares two reports, and exits with 1 when the shares that were caught
 *   are more than {@link MOST_POINTS} points apart.
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
import type { Suite } from "../../tests/plan.ts";
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
import { draw, type LeftOut, type Mutant, mutantsOf, sample } from "./operators.ts";
import { SURVIVORS } from "./survivors.ts";
import { isInEntry, opMutants, TABLE_FILE } from "./table.ts";

/** How many mutants of a function are judged; of a type fewer, since each takes a type check. */
const MOST = { code: 1, op: 1, type: 1 };

/** What the judges of one mutant may take in all, in seconds; and with `--count`. */
const SECONDS = 20;
const SECONDS_OF_COUNT = 60;

/** How far the shares that two suites catch may be apart, in points of a hundred. */
const MOST_POINTS = 3;

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
  readonly suite: Suite;
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
  /** What judges. */
  readonly suite: Suite;
  /** How many are drawn from all, in place of the usual sample. */
  readonly count?: number | undefined;
  /** What another suite's report says of mutants that this one catches too. */
  readonly caught?: readonly Result[] | undefined;
  readonly seconds: number;
  readonly jobs: number;
  readonly known: typeof SURVIVORS;
}

/** The mutants of a tree: all, and those of the sample. */
export function makeMutants(
  root: string,
  { files: parts, name, all, count, known }: Options,
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
  if (count !== undefined) {
    const unknown = made.filter((mutant) => known[mutant.file]?.[mutant.key] === undefined);
    return { made, chosen: draw(unknown.filter(isChosen), count), leftOut };
  }
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
  most: number,
): Promise<Result> {
  const { file, key, line, from, to, by } = mutant;
  const begin = performance.now();
  const end = (status: Result["status"], test = ""): Result => {
    const seconds = Math.round((performance.now() - begin) / 10) / 100;
    return { file, key, line, status, by: test, seconds };
  };
  const rate = (one: Judge): number => (catches.get(`${file} ${nameOf(one)}`) ?? 0) / one.seconds;
  // What has caught most of the file's mutants in the least time is likeliest to catch this one.
  const able = judgesOf(mutant, judges, most).sort((a, b) => rate(b) - rate(a));
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

  const copies = Array.from({ length: options.jobs }, () => new Copy(root, options.suite));
  const most = options.count === undefined ? SECONDS : SECONDS_OF_COUNT;
  const given = new Map(
    options.caught?.filter(isCaught).map((result) => [nameOfMutant(result), result]),
  );
  const results: Result[] = [];
  const catches: Catches = new Map();
  try {
    const judges = await findJudges(root, options.suite, copies);
    console.log(`${made.length} mutants, ${chosen.length} chosen, ${judges.list.length} judges`);
    await onCopies(copies, chosen, async (mutant, copy) => {
      const isKnown = reasons.has(nameOfMutant(mutant));
      if (isKnown && !options.all) {
        const { file, key, line } = mutant;
        results.push({ file, key, line, status: "known", by: "", seconds: 0 });
        return;
      }
      const before = given.get(nameOfMutant(mutant));
      if (before !== undefined) {
        results.push({ ...before, seconds: 0 });
        return;
      }
      if (secondsSince() > options.seconds) return;
      const result = await judge(mutant, judges, copy, catches, most);
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
  return {
    suite: options.suite,
    made: made.length,
    sampled: chosen.length,
    results,
    leftOut,
    stale,
    minutes,
  };
}

/** Whether a test noticed. */
function isCaught({ status }: Result): boolean {
  return status === "caught" || status === "timed out";
}

/** What two reports of the same mutants say of each other. */
export interface Comparison {
  /** How many mutants both judged. */
  readonly judged: number;
  /** The shares that each caught, in percent. */
  readonly shares: readonly [number, number];
  /** Mutants that only one of them caught. */
  readonly onlyFirst: readonly Result[];
  readonly onlySecond: readonly Result[];
}

/** Compares what two runs caught, of the mutants that both judged. */
export function compare(first: Report, second: Report): Comparison {
  const nameOfResult = ({ file, key }: Result): string => `${file} ${key}`;
  const others = new Map(second.results.map((result) => [nameOfResult(result), result]));
  const pairs = first.results.flatMap((one) => {
    const other = others.get(nameOfResult(one));
    return other === undefined || one.status === "known" || other.status === "known"
      ? []
      : [[one, other] as const];
  });
  const share = (at: 0 | 1): number =>
    100 * pairs.filter((pair) => isCaught(pair[at])).length / pairs.length;
  return {
    judged: pairs.length,
    shares: [share(0), share(1)],
    onlyFirst: pairs.flatMap(([one, other]) => isCaught(one) && !isCaught(other) ? [one] : []),
    onlySecond: pairs.flatMap(([one, other]) => isCaught(other) && !isCaught(one) ? [other] : []),
  };
}

/** Prints a comparison; gives the exit code. */
function showComparison(first: Report, second: Report): number {
  const { judged, shares: [a, b], onlyFirst, onlySecond } = compare(first, second);
  const list = (suite: Suite, results: readonly Result[]): void => {
    if (results.length > 0) console.log(`Only ${suite} catches:`);
    for (const { file, key, by } of results) console.log(`  ${file} ${key} (${by})`);
  };
  list(first.suite, onlyFirst);
  list(second.suite, onlySecond);
  console.log(
    `${judged} mutants; ${first.suite} catches ${a.toFixed(1)}% in ${first.minutes} minutes, ` +
      `${second.suite} ${b.toFixed(1)}% in ${second.minutes}: ` +
      `${Math.abs(b - a).toFixed(1)} points apart`,
  );
  return judged > 0 && Math.abs(b - a) <= MOST_POINTS ? 0 : 1;
}

/** Prints a report; gives the exit code. */
function conclude(report: Report, isCount: boolean): number {
  const { made, sampled, results, leftOut, stale, minutes } = report;
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
  if (isCount) return unjudged > 0 ? 1 : 0;
  return missed.length > 0 || stale.length > 0 ? 1 : 0;
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      list: { type: "boolean", default: false },
      all: { type: "boolean", default: false },
      file: { type: "string", multiple: true, default: [""] },
      name: { type: "string", default: "" },
      suite: { type: "string", default: "test" },
      count: { type: "string" },
      caught: { type: "string" },
      jobs: { type: "string", default: "2" },
      seconds: { type: "string" },
      json: { type: "string" },
      compare: { type: "string" },
    },
  });
  const { suite, count, caught, seconds, jobs, file: files, name, all, compare: both } = values;
  const read = (path: string): Report => JSON.parse(readFileSync(path, "utf8"));
  const [first, second, ...others] = both?.split(",") ?? [];
  const isWrong = (suite !== "test" && suite !== "all") || others.length > 0 ||
    (both !== undefined && second === undefined) || (count !== undefined && !(Number(count) > 0));
  if (isWrong) {
    console.error("usage: mutate.ts [--suite=test|all] [--count=N] ... | --compare=TEST,ALL");
    process.exit(2);
  }
  if (first !== undefined && second !== undefined) {
    process.exit(showComparison(read(first), read(second)));
  }
  const options: Options = {
    files,
    name,
    all,
    suite,
    count: count === undefined ? undefined : Number(count),
    caught: caught === undefined ? undefined : read(caught).results,
    seconds: Number(seconds ?? (count === undefined ? 3300 : 5400)),
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
    process.exitCode = conclude(report, count !== undefined);
  }
}

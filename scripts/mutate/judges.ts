/**
 * Finds the tests that can judge a mutant: those that reach its code, cheapest and likeliest first.
 *
 * Each test file runs once in a copy of the tree whose sources note what is reached. What that shows
 * is kept in tmp/mutate/judges.json, for each test file under a hash of src, of what tests share, and
 * of the file itself, and apart for each suite where the file does more in one of them. Knows nothing
 * of how mutants are made.
 *
 * @module
 */

import { createHash } from "node:crypto";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import process from "node:process";
import ts from "typescript";
import { TABLE } from "../../src/table/table.ts";
import { runtimesOf, type Suite } from "../../tests/plan.ts";
import { findTool, start, testFiles, type Tool, writeWhole } from "../tools.ts";
import type { Mutant } from "./operators.ts";
import { notesModule, type Part, partAt, withNotes } from "./reach.ts";

/** A test file, or some of its tests. */
export interface Judge {
  /** The file's path from the root. */
  readonly file: string;
  /** Its tests whose names match, where these do not take all. */
  readonly filter?: string;
  /** What a run without a mutant takes. */
  readonly seconds: number;
  /** The parts of src that it reaches: see {@link Judges.noteOf}. */
  readonly notes: readonly number[];
}

/** The judges of a tree. */
export interface Judges {
  readonly list: readonly Judge[];
  /** The number of the part of src at a position in a file. */
  noteOf(file: string, position: number): number;
  /** How much of a file a judge reaches, up to 1. */
  shareOf(file: string, judge: Judge): number;
}

/**
 * Tests that judge nothing: they are about what is around src, need packages, servers or builds, or
 * compare src with its types or with generated text, and would notice any change at all.
 */
const NO_JUDGES = [
  /^tests\/(project|server|gpu|emulator|lint|site)\//,
  /^tests\/package\/(?!cache_)/,
  /^tests\/(native\/(arm64|breakpoint|driver|sanitized)|cuda\/prebuilt)_test/,
  /^examples\/server\//,
  /^tests\/(types\/strict|llm\/types)_test/,
  /^tests\/ops\/(ops_def|add_an_op)_test/,
];

/** The tests of the types; they alone see mutants of types, and only those. */
const TYPES = "tests/types/types_test.ts";

/** The module that tells tests which suite runs. */
const AMOUNT = "tests/support/amount.ts";

/** The tests of each op of the table. */
const OP_TESTS = TABLE.map(({ name }) => opTests(name));

/** A filter for the tests of an op: `add: js`. */
function opTests(name: string): string {
  return `/^${name}: /`;
}

/** Files of which only some tests judge, or whose tests take long together: a judge for each. */
export const FILTERS: Readonly<Record<string, readonly string[]>> = {
  "tests/ops/table_test.ts": [...OP_TESTS, "/^(casts|all patterns|sums)/"],
  "tests/cuda/table_test.ts": [...OP_TESTS, "/^(casts|all patterns|sums)/"],
  "tests/cuda/programs_test.ts": [
    "/^on CUDA: (memory|graphs)/",
    "/^on CUDA: (elementwise|reductions)/",
    "/^on CUDA: (norms|linear)/",
    "/^on CUDA: (creation|views|indexing|joining|rows|products|ownership|where|moving)/",
  ],
  // Not the one that checks types.
  "tests/docs/docs_test.ts": ["/^example at /"],
};

/** Sources that tests run in programs which may not write, and so note nothing, with those tests. */
export const WITHOUT_NOTES: Readonly<Record<string, string>> = {
  "src/backend/ffi/cache.ts": "tests/package/cache_test.ts",
};

/** What copies have of their own, besides files: what is mutated, and what imports it. */
const COPIED = new Set(["src", "tests", "examples", "scripts"]);
/** What copies do not have. Everything else they have as a link: the library, packages, shim … */
const NOT_COPIED = new Set([".git", ".zig-cache", "tmp"]);

/** What a program runs as in a copy. */
interface RunOptions {
  readonly onLine?: (line: string) => void;
  readonly tool?: Tool;
  /** How much tests do, if not as much as in the copy's suite. */
  readonly suite?: Suite;
}

/** A copy of the tree, in which one fault at a time is put. */
export class Copy {
  readonly #suite: Suite;
  readonly #base: string;
  /** The tree. */
  readonly folder: string;
  /** Where tests, and what they start, have their temporary files. */
  readonly temporary: string;
  /** The file in which sources note what is reached. */
  readonly notes: string;
  readonly #kernels: string;

  /**
   * Copies the tree in `root`, into a temporary folder or into `base`; tests in it do as much as in
   * `suite`.
   */
  constructor(root: string, suite: Suite, base?: string) {
    this.#suite = suite;
    // Errors, which tests check, shorten long paths.
    this.#base = base ?? mkdtempSync(join(tmpdir(), "rmm-"));
    const inBase = (name: string): string => join(this.#base, name);
    this.folder = inBase("tree");
    // Packages that tests put there must not lie in the tree of `root`.
    this.temporary = base === undefined ? inBase("t") : mkdtempSync(join(tmpdir(), "rmf-"));
    this.notes = inBase("notes");
    this.#kernels = inBase("kernels");
    for (const folder of [this.folder, this.#kernels]) {
      rmSync(folder, { recursive: true, force: true });
      mkdirSync(folder, { recursive: true });
    }
    mkdirSync(this.temporary, { recursive: true });
    for (const entry of readdirSync(root, { withFileTypes: true })) {
      const [from, to] = [join(root, entry.name), join(this.folder, entry.name)];
      if (NOT_COPIED.has(entry.name)) continue;
      if (COPIED.has(entry.name) || /\.(ts|json)$/.test(entry.name)) {
        cpSync(from, to, { recursive: true });
      } else symlinkSync(from, to, entry.isFile() ? "file" : "junction");
    }
    // What the emulator compiles of mutants is not to stay.
    const compiled = join(root, "zig-out", "emulator", "kernels");
    if (existsSync(compiled)) cpSync(compiled, this.#kernels, { recursive: true });
  }

  /** Runs a program in the copy; gives its exit code, and whether it ran past `seconds`. */
  async run(
    args: string[],
    seconds: number,
    { onLine = () => {}, tool = "deno", suite = this.#suite }: RunOptions = {},
  ): Promise<{ code: number; late: boolean }> {
    let late = false;
    const { ROWMAJOR_TEST_ALL: _, ...env } = process.env;
    const code = await start(findTool(tool), args, {
      cwd: this.folder,
      stdio: ["ignore", "pipe", "pipe"],
      env: {
        ...env,
        ...(suite === "all" && { ROWMAJOR_TEST_ALL: "1" }),
        NO_COLOR: "1",
        TMPDIR: this.temporary,
        ROWMAJOR_TEST_CUDA: "emulator",
        ROWMAJOR_EMULATOR_CACHE: this.#kernels,
      },
      onLine,
      limit: { seconds, onReached: () => void (late = true) },
    });
    return { code, late };
  }

  /** Runs what `judge` stands for. */
  judge({ file, filter, seconds }: Judge): Promise<{ code: number; late: boolean }> {
    const chosen = filter === undefined ? [] : ["--filter", filter];
    // Other work on the machine, and kernels to compile, are no fault.
    const limit = 10 + 5 * seconds;
    return this.run(["test", "-A", "--no-check", "--fail-fast", ...chosen, file], limit);
  }

  /** Removes the copy, but for a tree whose place was given. */
  remove(): void {
    const isGiven = dirname(this.temporary) !== this.#base;
    rmSync(isGiven ? this.temporary : this.#base, { recursive: true, force: true });
  }
}

/** Runs `work` on each of `items`, as many at once as there are copies; ends at the first error. */
export async function onCopies<T>(
  copies: readonly Copy[],
  items: readonly T[],
  work: (item: T, copy: Copy) => Promise<void>,
): Promise<void> {
  const waiting = [...items];
  await Promise.all(copies.map(async (copy) => {
    for (let item = waiting.shift(); item !== undefined; item = waiting.shift()) {
      await work(item, copy);
    }
  }));
}

/** The name of the module that sources import to note what is reached. */
const NOTES = "src/reached.ts";

/** Runs a judge's tests in a copy whose sources note what is reached. */
async function record(file: string, filter: string | undefined, copy: Copy): Promise<Judge> {
  writeFileSync(copy.notes, "");
  const chosen = filter === undefined ? [] : ["--filter", filter];
  const output: string[] = [];
  const begin = performance.now();
  const { code } = await copy.run(
    ["test", "-A", "--no-check", ...chosen, file],
    900,
    { onLine: (line) => output.push(line) },
  );
  const seconds = Math.round((performance.now() - begin) / 10) / 100;
  // A sample may hold none of the tests that a filter takes.
  const isEmpty = output.some((line) => /^ok \| 0 passed/.test(line));
  if (code !== 0) {
    throw new Error(`Without a mutant ${file} fails already:\n${output.slice(-40).join("\n")}`);
  }
  const notes = new Set(readFileSync(copy.notes, "utf8").split("\n").slice(0, -1).map(Number));
  return {
    file,
    ...(filter !== undefined && { filter }),
    seconds,
    notes: isEmpty ? [] : [...notes],
  };
}

/** A file with notes. */
interface Noted {
  /** The number of the first note. */
  readonly first: number;
  readonly parts: readonly Part[];
  readonly text: string;
}

/** The files of src, except those of types, with notes. */
function noteAll(root: string): Map<string, Noted> {
  const files = new Map<string, Noted>();
  let first = 0;
  for (const file of sourceFiles(root).filter((path) => !path.startsWith("src/types/"))) {
    const text = readFileSync(join(root, file), "utf8");
    const source = ts.createSourceFile(file, text, ts.ScriptTarget.ESNext, true);
    const noted = { first, ...withNotes(source, first) };
    files.set(file, noted);
    first += noted.parts.length;
  }
  return files;
}

/** The paths of the sources, in order. */
export function sourceFiles(root: string): string[] {
  return readdirSync(join(root, "src"), { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(".ts"))
    .map((path) => `src/${path.replaceAll("\\", "/")}`)
    .sort();
}

/** Runs `work` while the sources of `copies` note what is reached. */
async function whileNoting(
  copies: readonly Copy[],
  files: ReadonlyMap<string, Noted>,
  work: () => Promise<void>,
): Promise<void> {
  const count = [...files.values()].reduce((sum, { parts }) => sum + parts.length, 0);
  const plain = [...files.keys()].map((file) =>
    [file, readFileSync(join(copies[0]!.folder, file))] as const
  );
  for (const copy of copies) {
    writeFileSync(join(copy.folder, NOTES), notesModule(copy.notes, count));
    for (const [file, { text }] of files) {
      const up = "../".repeat(file.split("/").length - 2) || "./";
      // Notes are no good for types, which one of the tests checks.
      const head = `// @ts-nocheck\nimport { __reached, __reach } from "${up}${
        basename(NOTES)
      }";\n`;
      writeFileSync(join(copy.folder, file), head + text);
    }
  }
  try {
    await work();
  } finally {
    for (const copy of copies) {
      for (const [file, text] of plain) writeFileSync(join(copy.folder, file), text);
      rmSync(join(copy.folder, NOTES));
    }
  }
}

/** A hash of all files of a tree on which what tests reach depends, except the tests' own. */
function hashShared(root: string): string {
  const hash = createHash("sha256");
  for (const folder of ["src", "shim", "tests", "examples"]) {
    if (!existsSync(join(root, folder))) continue;
    const names = readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && !entry.name.endsWith("_test.ts"))
      .map((entry) => join(entry.parentPath, entry.name));
    for (const path of names.sort()) hash.update(readFileSync(path));
  }
  return hash.digest("hex");
}

/** Whether a test does more in one suite than in the other: it imports {@link AMOUNT}. */
function dependsOnSuite(root: string, test: string): boolean {
  const seen = new Set([test]);
  for (const file of seen) {
    if (file === AMOUNT) return true;
    const { importedFiles } = ts.preProcessFile(readFileSync(join(root, file), "utf8"));
    for (const { fileName } of importedFiles) {
      const path = join(dirname(file), fileName).replaceAll("\\", "/");
      const isOfTests = fileName.startsWith(".") && !path.startsWith("src/");
      if (isOfTests && path.endsWith(".ts") && existsSync(join(root, path))) seen.add(path);
    }
  }
  return false;
}

/** What is to judge in a suite, and the keys under which it is kept. */
function wantedJudges(
  root: string,
  suite: Suite,
): { file: string; filter: string | undefined; key: string }[] {
  const shared = hashShared(root);
  return testFiles(root).filter((file) =>
    !NO_JUDGES.some((test) => test.test(file)) && runtimesOf(file, suite).includes("deno")
  ).flatMap((file) => {
    const hash = createHash("sha256").update(shared).update(readFileSync(join(root, file)));
    if (suite === "all" && dependsOnSuite(root, file)) hash.update(suite);
    const digits = hash.digest("hex").slice(0, 16);
    return (FILTERS[file] ?? [undefined]).map((filter) => ({
      file,
      filter,
      key: `${file} ${filter ?? ""} ${digits}`,
    }));
  });
}

/** The judges of a tree in a suite, from what was kept or from runs in the copies. */
export async function findJudges(
  root: string,
  suite: Suite,
  copies: readonly Copy[],
): Promise<Judges> {
  const kept = join(root, "tmp", "mutate", "judges.json");
  const known: Record<string, Judge> = existsSync(kept)
    ? JSON.parse(readFileSync(kept, "utf8"))
    : {};
  const wanted = wantedJudges(root, suite);
  const missing = wanted.filter(({ key }) => known[key] === undefined);
  const files = noteAll(root);
  const failed: string[] = [];
  if (missing.length > 0) {
    console.log(`Recording what ${missing.length} tests reach ...`);
    try {
      await whileNoting(
        copies,
        files,
        () =>
          onCopies(copies, missing, async ({ file, filter, key }, copy) => {
            // A busy machine may have made it late.
            const judge = await record(file, filter, copy).catch(() => record(file, filter, copy))
              .catch((error) => void failed.push(String(error)));
            if (judge !== undefined) known[key] = judge;
          }),
      );
    } finally {
      const both = [...wanted, ...wantedJudges(root, suite === "all" ? "test" : "all")];
      const lasting = both.flatMap(({ key }) => known[key] ? [[key, known[key]]] : []);
      mkdirSync(dirname(kept), { recursive: true });
      writeWhole(kept, JSON.stringify(Object.fromEntries(lasting)));
    }
    // What the others reach is kept, so that the next run begins there.
    if (failed.length > 0) throw new Error(failed.join("\n"));
  }
  return {
    list: wanted.map(({ key }) => known[key]!),
    noteOf: (file, position) => {
      const noted = files.get(file);
      return noted === undefined ? -1 : noted.first + partAt(noted.parts, position);
    },
    shareOf: (file, { notes }) => {
      const { first, parts } = files.get(file) ?? { first: 0, parts: [] };
      if (parts.length === 0) return 1;
      return notes.filter((note) => note >= first && note < first + parts.length).length /
        parts.length;
    },
  };
}

/**
 * The judges of `mutant`, in their order; none where no test reaches it. Those that reach more of its
 * file are likelier to notice, and come before others that take as long.
 *
 * Together they take no longer than `most` seconds. One that takes longer alone judges only where
 * nothing cheaper reaches the mutant, or where it reaches most of the file.
 */
export function judgesOf(mutant: Mutant, judges: Judges, most: number): Judge[] {
  const { file, from, kind, place } = mutant;
  const note = judges.noteOf(file, from);
  const able = judges.list.filter((judge) => canJudge(judge, mutant, note)).map((judge) => {
    // The tests of its own op first.
    const isOwn = kind === "op" && judge.filter === opTests(place) && !/cuda/.test(judge.file);
    const share = judges.shareOf(file, judge);
    return { judge, share, cost: isOwn ? 0 : judge.seconds / share ** 2 };
  });
  // Those that reach most of the file, whatever they cost: they are the tests of its subject.
  const likeliest = able.toSorted((a, b) => b.share - a.share).slice(0, 2);
  let sum = 0;
  return able.sort((a, b) => a.cost - b.cost)
    .filter((one, i) => (sum += one.judge.seconds) <= most || i === 0 || likeliest.includes(one))
    .map(({ judge }) => judge);
}

function canJudge({ file, filter, notes }: Judge, mutant: Mutant, note: number): boolean {
  if (mutant.kind === "type" || file === TYPES) return mutant.kind === "type" && file === TYPES;
  // Other tests import these files, and no more.
  if (mutant.file.startsWith("src/backend/cuda/") && !file.startsWith("tests/cuda/")) return false;
  // Tests of other ops import this one's entry, and no more.
  if (mutant.kind === "op" && filter !== undefined && filter !== opTests(mutant.place)) {
    return false;
  }
  return notes.includes(note) || WITHOUT_NOTES[mutant.file] === file;
}

/** How a judge is called in reports. */
export function nameOf({ file, filter }: Judge): string {
  return filter === undefined ? basename(file) : `${basename(file)} ${filter}`;
}

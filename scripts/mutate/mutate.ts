/**
 * Mutation testing: puts one small fault at a time into a copy of src and shows which test notices.
 *
 * `--list` names the mutants, `--group=` and `--name=` choose among them by a part of their names,
 * `--quick` takes every eighth, `--jobs=` says how many run at once, `--json=` writes a report.
 * Exits with 1 when a mutant survives, when its text is no longer in src exactly once, or when it
 * keeps src from loading, which would be no test's merit. The mutants are in mutants/; this file
 * knows only how to run them.
 *
 * @module
 */

import { execFileSync, spawn } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { parseArgs } from "node:util";
import { LIBRARY_FILE } from "../../src/backend/ffi/load.ts";
import { ROWS } from "../../src/ops/table.ts";
import type { Mutant } from "./mutants/core.ts";
import { allMutants } from "./mutants/mod.ts";
import { ensureInstalled, findTool, root } from "../tools.ts";

/**
 * Tests that cannot judge a mutant: they compare src with the C side, with generated text or with
 * its own types, and would notice any change at all. (Copies hold no native library.)
 */
const NO_JUDGES = ["native", "ops_def", "layers", "types", "generated"];
/** These need a device, and so the library of this tree; they judge the mutants that name them. */
const ON_DEVICE = ["cuda_programs"];
/** These take seconds, and come last. */
const SLOW = ["table", "io_fuzz", "io_npz", "digits"];

/** How a mutant ended. */
interface Result {
  readonly name: string;
  readonly group: string;
  readonly file: string;
  readonly status: "caught" | "survived" | "stale" | "does not load";
  /** The test that noticed. */
  readonly by: string;
  readonly seconds: number;
}

const library = join(root, "zig-out", "lib", LIBRARY_FILE);

/** The file of tests of a name of {@link Mutant.tests}. */
function fileOf(test: string): string {
  return test.split(":")[0]!;
}

/** A copy of the working tree: what git tracks and what it does not ignore. */
function makeCopy(): string {
  const folder = mkdtempSync(join(tmpdir(), "rowmajor-mutants-"));
  const list = execFileSync("git", ["ls-files", "-z", "-co", "--exclude-standard"], {
    cwd: root,
    encoding: "utf8",
  });
  for (const path of new Set(list.split("\0"))) {
    if (path !== "" && existsSync(join(root, path))) {
      cpSync(join(root, path), join(folder, path));
    }
  }
  // The emulator and what it has compiled are in the latter.
  for (const name of ["node_modules", "zig-out"]) {
    symlinkSync(join(root, name), join(folder, name), "junction");
  }
  return folder;
}

interface Run {
  readonly passed: boolean;
  readonly loaded: boolean;
  readonly by: string;
}

/** Runs some test files of a copy until one fails. */
function runTests(folder: string, args: string[]): Promise<Run> {
  const onDevice = args.some((arg) => ON_DEVICE.some((name) => arg.includes(`/${name}_test`)));
  const ROWMAJOR_LIB = onDevice ? library : join(folder, "none");
  const child = spawn(findTool("deno"), ["test", "-A", "--no-check", "--fail-fast", ...args], {
    cwd: folder,
    env: { ...process.env, NO_COLOR: "1", ROWMAJOR_LIB },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  const take = (text: string) => void (output += text);
  child.stdout.setEncoding("utf8").on("data", take);
  child.stderr.setEncoding("utf8").on("data", take);
  return new Promise((resolve, reject) => {
    // A fault may well make a loop endless.
    let late = false;
    const timer = setTimeout(() => (late = true, child.kill("SIGKILL")), 240_000);
    child.on("error", reject);
    child.on("close", (code) => {
      clearTimeout(timer);
      if (late) return resolve({ passed: false, loaded: true, by: "time limit" });
      const loaded = /^running \d/m.test(output) && !output.includes("(uncaught error)");
      // With --fail-fast the file that began last is the one that failed.
      const file = [...output.matchAll(/^running .* from \.\/(\S+)$/gm)].at(-1)?.[1] ?? "";
      const failures = /FAILURES\s*\n([\s\S]*?)\n\s*\n/.exec(output)?.[1]?.trim().split("\n") ?? [];
      const names = failures.map((line) => line.split(" => ")[0]!);
      // Two type checks at once take their time, which is no mutant's fault.
      const slow = names.length > 0 && names.every((name) => /less than \d+ seconds/.test(name));
      const by = `${file}: ${names[0] ?? output.trim().split("\n").at(-1)}`;
      resolve({ passed: code === 0 || slow, loaded, by });
    });
  });
}

/** The runs for a mutant, likeliest first; every test file that may judge is in one of them. */
function* runsFor(mutant: Mutant, all: readonly string[]): Generator<string[]> {
  const path = (name: string): string => `./tests/${name}_test.ts`;
  const chosen = mutant.tests.filter((name) => all.includes(fileOf(name)));
  const first = chosen.filter((name) => !name.includes(":"));
  for (const test of chosen) {
    const pattern = test.slice(test.indexOf(":") + 1);
    if (test.includes(":")) yield ["--filter", pattern, path(fileOf(test))];
  }
  if (first.length > 0) yield first.map(path);
  if (mutant.group === "type") return;
  const rest = all.filter((name) =>
    !first.includes(name) && !NO_JUDGES.includes(name) && !ON_DEVICE.includes(name)
  );
  yield rest.filter((name) => !SLOW.includes(name)).map(path);
  yield rest.filter((name) => SLOW.includes(name)).map(path);
}

async function judge(mutant: Mutant, folder: string, all: readonly string[]): Promise<Result> {
  const { name, group, file, find, replace } = mutant;
  const begin = performance.now();
  const end = (status: Result["status"], by = ""): Result => ({
    name,
    group,
    file,
    status,
    by,
    seconds: Math.round((performance.now() - begin) / 100) / 10,
  });
  const path = join(folder, file);
  const source = readFileSync(path, "utf8");
  if (source.split(find).length !== 2) return end("stale");
  writeFileSync(path, source.replace(find, () => replace));
  try {
    for (const args of runsFor(mutant, all)) {
      const { passed, loaded, by } = await runTests(folder, args);
      if (!loaded) return end("does not load", by);
      if (!passed) return end("caught", by);
    }
    return end("survived");
  } finally {
    writeFileSync(path, source);
  }
}

const { values: options } = parseArgs({
  options: {
    list: { type: "boolean" },
    quick: { type: "boolean" },
    group: { type: "string", default: "" },
    name: { type: "string", default: "" },
    jobs: { type: "string", default: "2" },
    json: { type: "string" },
  },
});

await ensureInstalled();
const every = allMutants(ROWS, readFileSync(join(root, "src/ops/table.ts"), "utf8"));
const mutants = every
  .filter(({ group }) => group.includes(options.group))
  .filter(({ name, file }) => `${file} ${name}`.includes(options.name))
  .filter((_, i) => !options.quick || i % 8 === 0);

if (options.list) {
  for (const { group, file, name } of mutants) console.log(`${group}: ${file}: ${name}`);
  console.log(`${mutants.length} mutants`);
  process.exit(0);
}

const all = readdirSync(join(root, "tests"))
  .filter((name) => name.endsWith("_test.ts"))
  .map((name) => name.slice(0, -"_test.ts".length))
  .sort();
const jobs = Math.min(Number(options.jobs), mutants.length);
const folders = Array.from({ length: jobs }, makeCopy);
const results: Result[] = [];
const begin = performance.now();
try {
  // A suite that fails by itself would catch every mutant.
  const named = new Set(mutants.flatMap(({ tests }) => tests.map(fileOf)));
  const judges = all.filter((name) =>
    named.has(name) || !(NO_JUDGES.includes(name) || ON_DEVICE.includes(name))
  );
  if (ON_DEVICE.some((name) => named.has(name)) && !existsSync(library)) {
    throw new Error(`Without ${library} nothing can judge some of these: build it first`);
  }
  for (const device of [false, true]) {
    const names = judges.filter((name) => ON_DEVICE.includes(name) === device);
    if (names.length === 0) continue;
    const { passed, by } = await runTests(
      folders[0]!,
      names.map((name) => `./tests/${name}_test.ts`),
    );
    if (!passed) throw new Error(`Without a mutant the tests fail already: ${by}`);
  }
  console.log(`The tests pass without a mutant; ${mutants.length} mutants, ${jobs} at a time`);

  const queue = [...mutants];
  await Promise.all(folders.map(async (folder) => {
    for (let mutant = queue.shift(); mutant !== undefined; mutant = queue.shift()) {
      const result = await judge(mutant, folder, all);
      results.push(result);
      const { status, group, name, by, seconds } = result;
      const verdict = status === "caught" ? "caught" : status.toUpperCase();
      console.log(`${verdict.padEnd(9)} ${seconds.toFixed(1).padStart(5)} s  ${group}: ${name}`);
      if (by !== "") console.log(`                   ${by}`);
    }
  }));
} finally {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
}

const count = (status: Result["status"]): number =>
  results.filter((result) => result.status === status).length;
if (options.json) writeFileSync(options.json, JSON.stringify({ results }, null, 2) + "\n");
const bad = results.filter(({ status }) => status !== "caught");
if (bad.length > 0) console.log("\nNot caught:");
for (const { status, file, name } of bad) console.log(`  ${status}: ${file}: ${name}`);
const others = (["stale", "does not load"] as const).filter((status) => count(status) > 0)
  .map((status) => `, ${count(status)} ${status}`).join("");
console.log(`\n${Math.round((performance.now() - begin) / 1000)} s`);
console.log(
  `${results.length} mutants, ${count("caught")} caught, ${count("survived")} survived${others}`,
);
process.exitCode = bad.length > 0 || results.length === 0 ? 1 : 0;

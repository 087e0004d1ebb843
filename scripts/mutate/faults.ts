/**
 * Puts hand-made faults, one at a time, into a copy of the tree, and shows which suite catches each:
 * `npm test`, `npm run test:all` alone, or none. They are faults that mutants of src do not show: in
 * C, in CUDA sources, in code of Bun, in packages, in distributed programs and in the site.
 *
 * fault_list.ts has the faults, and the tests that are to notice them. Exits with 1 when a fault is
 * not caught as the list says, and when such a test fails without a fault.
 *
 * - `--name=`, once or more, chooses by a part of the name or subject; `--list` only names them;
 * - `--no-clean` leaves out the runs without a fault.
 *
 * The copy is in tmp/faults, where the objects that zig has built serve again.
 *
 * @module
 */

import {
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { basename, join } from "node:path";
import process from "node:process";
import { parseArgs } from "node:util";
import { LIBRARY_FILE } from "../../src/backend/ffi/load.ts";
import { runtimesOf, type Suite } from "../../tests/plan.ts";
import { ensureInstalled, root } from "../tools.ts";
import { type Fault, FAULTS, type Run } from "./fault_list.ts";
import { Copy } from "./judges.ts";

/** The folder of installed packages. */
const PACKAGES = "node_modules";
/** What the copy has as links: what no fault and no build changes. */
const LINKED = new Set([PACKAGES, ".mpi", ".venv", "models"]);
/** Parts of zig-out that tests read: not the libraries of other machines, which are not built anew. */
const BUILT = [`lib/${LIBRARY_FILE}`, "lib/rowmajor-ptx.bin", "emulator"];

/** Seconds that a test may take: one that hangs has noticed. */
const LIMITS: Readonly<Record<Suite, number>> = { test: 900, all: 3600 };

/** The most lines shown of a test that noticed. */
const MOST_LINES = 12;

/** A copy of the tree with everything that a fault can be in, and a build of its own. */
function makeCopy(): Copy {
  const copy = new Copy(root, "test", join(root, "tmp", "faults"));
  for (const name of readdirSync(copy.folder)) {
    const path = join(copy.folder, name);
    if (!lstatSync(path).isSymbolicLink() || LINKED.has(name)) continue;
    rmSync(path);
    if (name !== "zig-out") copyFolder(join(root, name), path);
  }
  for (const name of BUILT) {
    const from = join(root, "zig-out", name);
    if (existsSync(from)) cpSync(from, join(copy.folder, "zig-out", name), { recursive: true });
  }
  const cache = join(root, ".zig-cache");
  mkdirSync(cache, { recursive: true });
  symlinkSync(cache, join(copy.folder, ".zig-cache"), "junction");
  return copy;
}

/** Copies a file or a folder; packages in it become links. */
function copyFolder(from: string, to: string): void {
  cpSync(from, to, { recursive: true, filter: (path) => basename(path) !== PACKAGES });
  const packages = join(from, PACKAGES);
  if (existsSync(packages)) symlinkSync(packages, join(to, PACKAGES), "junction");
}

/** Builds the library of this machine in the copy. */
async function build(copy: Copy): Promise<void> {
  const lines: string[] = [];
  const { code } = await copy.run(["build"], 3600, {
    tool: "zig",
    onLine: (line) => lines.push(line),
  });
  if (code !== 0) throw new Error(`zig build exited with ${code}:\n${lines.join("\n")}`);
}

/** How a run ended: the last lines of one that failed. */
type Outcome = { readonly isNoticed: false } | {
  readonly isNoticed: true;
  readonly lines: readonly string[];
};

/** Runs tests in the copy. */
async function runTests(
  copy: Copy,
  { runtime, file, filter }: Run,
  suite: Suite,
): Promise<Outcome> {
  const args = runtime === "deno"
    ? ["test", "-A", "--no-check", ...filter === undefined ? [] : ["--filter", `/${filter}/`]]
    : ["test", `--timeout=${1000 * LIMITS[suite]}`, ...filter === undefined ? [] : ["-t", filter]];
  const lines: string[] = [];
  const { code, late } = await copy.run([...args, `./${file}`], LIMITS[suite], {
    tool: runtime,
    suite,
    onLine: (line) => lines.push(line),
  });
  if (late) lines.push(`not ended after ${LIMITS[suite]} seconds`);
  const isEmpty = lines.some((line) => /^ok \| 0 passed|matched 0 tests/.test(line));
  if (isEmpty) throw new Error(`${runtime} ${file} runs no test${filter ? ` of /${filter}/` : ""}`);
  return code === 0 ? { isNoticed: false } : { isNoticed: true, lines };
}

/** What a test says that fails: its name and its error. */
function reasonOf(lines: readonly string[]): string[] {
  const telling = lines.filter((line) =>
    /FAILED|^\(fail\)|\bError\b|^error|not ended|exited with/.test(line)
  );
  return (telling.length > 0 ? telling : lines.slice(-MOST_LINES)).slice(0, MOST_LINES);
}

/** The suites in which a file runs in a runtime, the one that runs less first. */
function suitesOf({ runtime, file }: Run): Suite[] {
  return (["test", "all"] as const).filter((suite) => runtimesOf(file, suite).includes(runtime));
}

/** What caught a fault. */
type Caught = Suite | "none";

/** Finds what catches the fault that is in the copy. */
async function judge(copy: Copy, fault: Fault): Promise<Caught> {
  for (const suite of ["test", "all"] as const) {
    for (const run of fault.tests.filter((run) => suitesOf(run).includes(suite))) {
      const outcome = await runTests(copy, run, suite);
      if (!outcome.isNoticed) continue;
      for (const line of reasonOf(outcome.lines)) console.log(`    ${line.trim().slice(0, 160)}`);
      return suite;
    }
  }
  return "none";
}

/** Whether the tests of a fault pass without one, in the suite that is to catch it. */
async function passWithout(copy: Copy, fault: Fault, passed: Set<string>): Promise<boolean> {
  for (const run of fault.tests.filter((run) => suitesOf(run).includes(fault.suite))) {
    const key = JSON.stringify([run, fault.suite]);
    if (passed.has(key)) continue;
    const outcome = await runTests(copy, run, fault.suite);
    if (outcome.isNoticed) {
      console.log(`  ${run.runtime} ${run.file} fails without a fault:`);
      for (const line of outcome.lines.slice(-4 * MOST_LINES)) console.log(`    ${line}`);
      return false;
    }
    passed.add(key);
  }
  return true;
}

/** Puts a fault into a text. */
function withFault(text: string, { name, from, to }: Fault): string {
  const parts = text.split(from);
  if (parts.length !== 2) throw new Error(`${name}: its text is ${parts.length - 1} times there`);
  return parts.join(to);
}

const NAMES: Readonly<Record<Caught, string>> = {
  test: "npm test",
  all: "test:all",
  none: "not caught",
};

/** Puts a fault into the copy, and finds what catches it; leaves the copy as it was. */
async function judgeIn(copy: Copy, fault: Fault, library: string): Promise<Caught> {
  const path = join(copy.folder, fault.file);
  const text = readFileSync(path, "utf8");
  const clean = readFileSync(library);
  writeFileSync(path, withFault(text, fault));
  try {
    if (fault.builds) await build(copy);
    return await judge(copy, fault);
  } finally {
    writeFileSync(path, text);
    // After the source, as tests build what is older.
    if (fault.builds) writeFileSync(library, clean);
  }
}

/** What the table says of a fault, and whether that is what the list says. */
async function verdictOn(
  copy: Copy,
  fault: Fault,
  library: string,
  passed: Set<string> | undefined,
): Promise<{ isRight: boolean; verdict: string }> {
  const missing = fault.missing?.();
  if (missing !== undefined) return { isRight: false, verdict: `not judged: ${missing}` };
  if (passed !== undefined && !await passWithout(copy, fault, passed)) {
    return { isRight: false, verdict: "its tests fail without it" };
  }
  const caught = await judgeIn(copy, fault, library);
  return caught === fault.suite
    ? { isRight: true, verdict: NAMES[caught] }
    : { isRight: false, verdict: `${NAMES[caught]}, not ${NAMES[fault.suite]}` };
}

/** Judges faults in turn; gives the exit code. */
async function judgeAll(faults: readonly Fault[], isClean: boolean): Promise<number> {
  const copy = makeCopy();
  const rows: string[] = [];
  let wrong = 0;
  try {
    const library = join(copy.folder, "zig-out", "lib", LIBRARY_FILE);
    // Otherwise the library of the tree serves.
    if (faults.some(({ builds }) => builds)) await build(copy);
    const passed = isClean ? new Set<string>() : undefined;
    for (const fault of faults) {
      const begin = performance.now();
      console.log(`${fault.subject}: ${fault.name}`);
      const { isRight, verdict } = await verdictOn(copy, fault, library, passed);
      if (!isRight) wrong++;
      const seconds = Math.round((performance.now() - begin) / 1000);
      console.log(`  ${verdict}, ${seconds} s`);
      rows.push(`| ${fault.subject} | ${fault.name} | ${verdict} |`);
    }
  } finally {
    copy.remove();
  }
  console.log(["", "| Subject | Fault | Caught by |", "|---|---|---|", ...rows].join("\n"));
  console.log(`\n${faults.length} faults, ${wrong} not caught as the list says`);
  return wrong === 0 ? 0 : 1;
}

if (import.meta.main) {
  const { values } = parseArgs({
    allowNegative: true,
    options: {
      name: { type: "string", multiple: true, default: [""] },
      list: { type: "boolean", default: false },
      clean: { type: "boolean", default: true },
    },
  });
  const faults = FAULTS.filter(({ name, subject }) =>
    values.name.some((part) => `${subject}: ${name}`.includes(part))
  );
  if (values.list) {
    for (const { subject, name, file, suite } of faults) {
      console.log(`${subject}: ${name} (${file}; ${NAMES[suite]})`);
    }
  } else {
    await ensureInstalled();
    process.exitCode = faults.length === 0 ? 1 : await judgeAll(faults, values.clean);
  }
}

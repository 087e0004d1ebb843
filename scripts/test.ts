/**
 * Runs the test files under Deno and under Bun, shows what fails, and counts.
 *
 * tests/plan.ts names the files and runtimes of `npm test`; `--all` runs everything. Arguments select
 * the files whose paths contain one of them, also those that only `--all` runs else;
 * `--runtime=deno` or `--runtime=bun` runs one runtime only. `--device cuda` runs the CUDA tests, on
 * this machine's device if there is a driver, else on the emulator; `ROWMAJOR_TEST_CUDA`, `device` or
 * `emulator`, overrides that.
 *
 * Each file runs in a process of its own, with as many in parallel as the machine has cores. A file
 * that takes longer than `--minutes` (15) is killed, and fails with a description of its processes.
 * Counts come from the runtimes' JUnit reports, and a file that ran no test counts as a failure.
 * Then come the 20 slowest files, each subject's processor time beside its budget, the files over
 * their budgets, and once more those that failed. The last line is the total, alone: `N passed, N failed[, N skipped]`.
 *
 * @module
 */

import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { parseArgs } from "node:util";
import { budgetOf, type Runtime as Name, runtimesOf, subjectOf, SUBJECTS } from "../tests/plan.ts";
import { ensureInstalled, findTool, start, testFiles } from "./tools.ts";

interface Counts {
  passed: number;
  failed: number;
  skipped: number;
}

interface Runtime {
  name: Name;
  args: (report: string, file: string) => string[];
  /** Lines of the runtime's output without information. */
  quiet: RegExp;
}

const runtimes: Runtime[] = [
  {
    name: "deno",
    // An earlier step checks the types of all files.
    args: (report, file) => ["test", "-A", "--no-check", `--junit-path=${report}`, file],
    quiet:
      /\.\.\. (ok|ignored) \(|\.\.\.$|^running \d+ tests? from|^-+ .*output|^ok \| |^(Check|Download) |^\s*$/,
  },
  {
    name: "bun",
    args: (report, file) => [
      "test",
      // Not its default of five seconds, which a busy machine exceeds; long tests take minutes.
      `--timeout=${process.env.ROWMAJOR_TEST_ALL === "1" ? 900_000 : 120_000}`,
      "--reporter=junit",
      `--reporter-outfile=${report}`,
      file,
    ],
    quiet:
      /^bun test v|^\((pass|skip|todo)\) |^(tests|examples)[\\/][\w\\/]+\.ts:$|^ *\d+ (pass|fail|skip|todo|expect)|^Ran \d|^\s*$/,
  },
];

/** Reads a JUnit report; of nested tests, counts the innermost ones. */
function readReport(path: string): Counts {
  const counts = { passed: 0, failed: 0, skipped: 0 };
  let xml = "";
  try {
    xml = readFileSync(path, "utf8");
  } catch {
    // Without a report no test ran, as the counts show.
  }
  const cases = [...xml.matchAll(/<testcase ([^>]*?)(?:\/>|>([\s\S]*?)<\/testcase>)/g)]
    .map(([, head, body = ""]) => ({ name: /\bname="([^"]*)"/.exec(head!)?.[1] ?? "", body }));
  // Deno lists a group next to its members: "group" and "group > member" (written &gt;).
  const groups = new Set<string>();
  for (const { name } of cases) {
    const parts = name.split(" &gt; ");
    for (let n = 1; n < parts.length; n++) groups.add(parts.slice(0, n).join(" &gt; "));
  }
  for (const { name, body } of cases) {
    if (groups.has(name)) continue;
    if (/<(failure|error)\b/.test(body)) counts.failed++;
    else if (/<skipped\b/.test(body)) counts.skipped++;
    else counts.passed++;
  }
  return counts;
}

/** What a file took in one runtime. */
interface Time {
  readonly runtime: Name;
  readonly file: string;
  /** Seconds until its end. */
  readonly wall: number;
  /** Seconds of one core, of all its processes; elsewhere than on Linux those until its end. */
  readonly core: number;
}
const times: Time[] = [];

/** The files that failed with the last lines of their output, of which a long log may show the end only. */
const failures: string[] = [];
const MOST_LINES = 20;

/** A command line that writes the processor time of a program to a file, and the program's own. */
function timed(path: string, args: string[], into: string): [string, string[]] {
  if (process.platform !== "linux") return [path, args];
  return ["/bin/sh", ["-c", '"$@"; code=$?; times > "$0"; exit $code', into, path, ...args]];
}

/** Adds the times of the shell's children, `1m2.5s 0m1.0s`, in the last line of a file. */
function readTimes(path: string): number | undefined {
  try {
    const line = readFileSync(path, "utf8").trim().split("\n").at(-1)!;
    const parts = [...line.matchAll(/(\d+)m([\d.,]+)s/g)];
    return parts.reduce((sum, [, m, s]) => sum + 60 * Number(m) + Number(s!.replace(",", ".")), 0);
  } catch {
    // Not Linux, or the program was killed.
    return undefined;
  }
}

/** Runs a file, and shows its output unless it only reports success. */
async function runFile(runtime: Runtime, file: string, folder: string): Promise<Counts> {
  const report = join(folder, `${runtime.name}-${file.replace(/\W/g, "-")}.xml`);
  const begin = performance.now();
  const lines: string[] = [];
  let last = "";
  const line = timed(
    findTool(runtime.name),
    runtime.args(report, `./${file}`),
    `${report}.times`,
  );
  const code = await start(...line, {
    env: { ...process.env, NO_COLOR: "1" },
    onLine: (line) => {
      last = line;
      if (!runtime.quiet.test(line)) lines.push(line);
    },
    limit: {
      seconds: 60 * minutes,
      onReached: (processes) => {
        lines.push(`not ended after ${minutes} minutes; its last line is:`, last);
        lines.push(...processes);
      },
    },
  });
  const counts = readReport(report);
  const none = counts.passed + counts.failed + counts.skipped === 0;
  if (none) lines.push("ran no test");
  if (code !== 0) lines.push(`exited with ${code}`);
  if ((none || code !== 0) && counts.failed === 0) counts.failed++;
  const wall = (performance.now() - begin) / 1000;
  const core = readTimes(`${report}.times`) ?? wall;
  times.push({ runtime: runtime.name, file, wall, core });
  console.log(
    `${runtime.name} ${file}: ${inWords(counts)} (${wall.toFixed(1)} s, core ${core.toFixed(1)} s)`,
  );
  for (const line of lines) console.log(`  ${line}`);
  if (counts.failed > 0) {
    failures.push(`failed: ${runtime.name} ${file}`, ...lines.slice(-MOST_LINES));
  }
  return counts;
}

/**
 * Runs all files in their runtimes, in parallel, but no file in two runtimes at once, as some build
 * in one fixed folder. Returns the counts of each runtime.
 */
async function runAll(files: string[], folder: string): Promise<Map<Runtime, Counts>> {
  const waiting = chosen.flatMap((runtime) =>
    files.filter((file) => runs(file, runtime.name)).map((file) => ({ runtime, file }))
  );
  // A long file that starts last would run alone.
  waiting.sort((a, b) => budgetOf(b.file) - budgetOf(a.file));
  const counts = new Map(chosen.map((runtime) => [runtime, { passed: 0, failed: 0, skipped: 0 }]));
  const running = new Set<string>();
  const work = async (): Promise<void> => {
    for (;;) {
      const at = waiting.findIndex(({ file }) => !running.has(file));
      // The worker that runs the file continues with it.
      if (at < 0) return;
      const { runtime, file } = waiting.splice(at, 1)[0]!;
      running.add(file);
      const add = await runFile(runtime, file, folder);
      running.delete(file);
      const sum = counts.get(runtime)!;
      for (const key of ["passed", "failed", "skipped"] as const) sum[key] += add[key];
    }
  };
  await Promise.all(Array.from({ length: availableParallelism() }, work));
  return counts;
}

/** Shows the slowest files, each subject's processor time, and what exceeds its budget. */
function showTimes(): void {
  const row = ({ runtime, file, wall, core }: Time): string =>
    `${core.toFixed(1).padStart(7)} ${wall.toFixed(1).padStart(7)}  ${runtime} ${file}`;
  console.log("\nThe slowest files, in seconds of one core and until their ends:");
  const slowest = times.toSorted((a, b) => b.core - a.core);
  for (const time of slowest.slice(0, 20)) console.log(row(time));
  if (all || names.length > 0 || onCuda) return;
  console.log("\nSubjects, in seconds of one core:");
  for (const subject of SUBJECTS) {
    const own = times.filter(({ file }) => subjectOf(file) === subject);
    const core = own.reduce((sum, time) => sum + time.core, 0);
    const over = core > subject.budget ? "  over its budget" : "";
    console.log(`${core.toFixed(0).padStart(5)} of ${subject.budget}  ${subject.name}${over}`);
  }
  const over = slowest.filter(({ file, core }) => core > budgetOf(file));
  for (const time of over) {
    console.log(
      `over its budget of ${budgetOf(time.file)} s: ${time.runtime} ${time.file}, ` +
        `${time.core.toFixed(1)} s`,
    );
  }
}

function inWords({ passed, failed, skipped }: Counts): string {
  return `${passed} passed, ${failed} failed${skipped ? `, ${skipped} skipped` : ""}`;
}

/** Whether a driver of NVIDIA is installed, according to its files. */
function hasDriver(): boolean {
  const { platform, env: { SystemRoot = "C:\\Windows" } } = process;
  return platform === "win32"
    ? existsSync(join(SystemRoot, "System32", "nvcuda.dll"))
    : existsSync("/dev/nvidiactl") || existsSync("/dev/dxg");
}

const { values: { runtime: only, device, all, minutes: most }, positionals: names } = parseArgs({
  allowPositionals: true,
  options: {
    runtime: { type: "string", multiple: true },
    device: { type: "string" },
    all: { type: "boolean", default: false },
    minutes: { type: "string", default: "15" },
  },
});
const minutes = Number(most);
const chosen = runtimes.filter(({ name }) => only?.includes(name) ?? true);
if (
  chosen.length < (only?.length ?? 1) || ![undefined, "cuda"].includes(device) || !(minutes > 0)
) {
  console.error(
    "usage: test.ts [--all] [--runtime=deno|bun] [--device cuda] [--minutes N] [part of a file name ...]",
  );
  process.exit(2);
}
const onCuda = device === "cuda";
if (all || onCuda) process.env.ROWMAJOR_TEST_ALL = "1";
if (onCuda) process.env.ROWMAJOR_TEST_CUDA ??= hasDriver() ? "device" : "emulator";

/** Whether a file runs in a runtime. */
function runs(file: string, runtime: Name): boolean {
  const usual = runtimesOf(file, all || onCuda ? "all" : "test");
  // A file that is asked for by name runs, even if npm test leaves it to test:all.
  const own = usual.length === 0 && names.length > 0 ? runtimesOf(file, "all") : usual;
  return own.includes(runtime);
}

/** Builds the shim, so that the native backend is tested too. */
async function buildShim(): Promise<void> {
  let zig: string;
  try {
    zig = findTool("zig");
  } catch {
    console.log(
      "no zig for this machine: the native backend is tested only if it was built before",
    );
    return;
  }
  const code = await start(zig, ["build"], { onLine: (line) => console.log(line) });
  if (code !== 0) console.log(`zig build exited with ${code}: the native backend is not tested`);
}

await ensureInstalled();
await buildShim();
const files = testFiles()
  .filter((path) => !onCuda || path.startsWith("tests/cuda/"))
  .filter((path) => names.length === 0 || names.some((part) => path.includes(part)));

if (onCuda) {
  const device = process.env.ROWMAJOR_TEST_CUDA === "device";
  console.log(`cuda: ${device ? "the device of this machine" : "the emulator, on the CPU"}`);
}
const total: Counts = { passed: 0, failed: 0, skipped: 0 };
const lines: string[] = [];
const folder = mkdtempSync(join(tmpdir(), "rowmajor-test-"));
try {
  if (files.length > 0 && await start(findTool("deno"), ["check", "--quiet", ...files]) !== 0) {
    console.log("The types of the tests are not right");
    total.failed++;
  }
  for (const [{ name }, counts] of await runAll(files, folder)) {
    lines.push(`${name}: ${inWords(counts)}`);
    for (const key of ["passed", "failed", "skipped"] as const) total[key] += counts[key];
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
if (times.length > 1) {
  showTimes();
  if (failures.length > 0) console.log(["", ...failures].join("\n"));
}
if (files.length === 0) console.log(`No test file matches ${names.join(", ")}`);
console.log(["", ...lines, inWords(total)].join("\n"));
process.exitCode = total.failed > 0 || total.passed === 0 ? 1 : 0;

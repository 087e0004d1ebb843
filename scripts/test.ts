/**
 * Runs every tests/*_test.ts under Deno and under Bun, shows what fails, and counts.
 *
 * Arguments pick the files whose names contain one of them; `--runtime=deno` or `--runtime=bun`
 * runs one runtime only. `--device cuda` runs what is about CUDA, on this machine's device where
 * there is a driver, else on the emulator; `ROWMAJOR_TEST_CUDA`, `device` or `emulator`, decides
 * otherwise. Counts come from the runtimes' JUnit reports, and a file that ran no test
 * counts as a failure. The last line is the total, alone: `N passed, N failed[, N skipped]`.
 *
 * @module
 */

import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { parseArgs } from "node:util";
import { ensureInstalled, findTool, root, start } from "./tools.ts";

interface Counts {
  passed: number;
  failed: number;
  skipped: number;
}

interface Runtime {
  name: "deno" | "bun";
  args: (report: string, files: string[]) => string[];
  /** Lines of the runtime's output that say nothing went wrong. */
  quiet: RegExp;
}

const runtimes: Runtime[] = [
  {
    name: "deno",
    args: (report, files) => ["test", "-A", "--parallel", `--junit-path=${report}`, ...files],
    quiet: /\.\.\. (ok|ignored) \(|\.\.\.$|^running \d+ tests? from|^(Check|Download) |^\s*$/,
  },
  {
    name: "bun",
    args: (report, files) => [
      "test",
      // Not its own five seconds, which a busy machine does not keep.
      "--timeout=120000",
      "--only-failures",
      "--reporter=junit",
      `--reporter-outfile=${report}`,
      ...files,
    ],
    quiet: /^bun test v|^ *\d+ (pass|fail|skip|todo|expect)|^Ran \d|^\s*$/,
  },
];

/** Reads a JUnit report; of nested tests the innermost count. */
function readReport(path: string, files: string[]): Counts {
  const counts = { passed: 0, failed: 0, skipped: 0 };
  let xml = "";
  try {
    xml = readFileSync(path, "utf8");
  } catch {
    // Without a report no file ran, which is what the count below says.
  }
  const cases = [...xml.matchAll(/<testcase ([^>]*?)(?:\/>|>([\s\S]*?)<\/testcase>)/g)];
  const attribute = (text: string, key: string) =>
    new RegExp(`\\b${key}="([^"]*)"`).exec(text)?.[1] ?? "";
  // Deno lists a group beside its members: "group" and "group > member" (written &gt;).
  const groups = new Set<string>();
  for (const [, head] of cases) {
    const parts = attribute(head, "name").split(" &gt; ");
    for (let n = 1; n < parts.length; n++) groups.add(parts.slice(0, n).join(" &gt; "));
  }
  const seen = new Set<string>();
  for (const [, head, body = ""] of cases) {
    const file = attribute(head, "file") || attribute(head, "classname");
    seen.add(file.replaceAll("\\", "/").replace(/^\.\//, ""));
    if (groups.has(attribute(head, "name"))) continue;
    if (/<(failure|error)\b/.test(body)) counts.failed++;
    else if (/<skipped\b/.test(body)) counts.skipped++;
    else counts.passed++;
  }
  for (const file of files) {
    if (seen.has(file)) continue;
    console.log(`${file}: ran no test`);
    counts.failed++;
  }
  return counts;
}

async function runTests(runtime: Runtime, files: string[], folder: string): Promise<Counts> {
  const report = join(folder, `${runtime.name}.xml`);
  const paths = files.map((file) => `./${file}`);
  const code = await start(findTool(runtime.name), runtime.args(report, paths), {
    env: { ...process.env, NO_COLOR: "1" },
    onLine: (line) => runtime.quiet.test(line) || console.log(line),
  });
  const counts = readReport(report, files);
  if (code !== 0 && counts.failed === 0) {
    console.log(`${runtime.name} exited with ${code}`);
    counts.failed++;
  }
  return counts;
}

function inWords({ passed, failed, skipped }: Counts): string {
  return `${passed} passed, ${failed} failed${skipped ? `, ${skipped} skipped` : ""}`;
}

/** Whether a driver of NVIDIA is here, as far as files tell. */
function hasDriver(): boolean {
  const { platform, env: { SystemRoot = "C:\\Windows" } } = process;
  return platform === "win32"
    ? existsSync(join(SystemRoot, "System32", "nvcuda.dll"))
    : existsSync("/dev/nvidiactl") || existsSync("/dev/dxg");
}

const { values: { runtime: only, device }, positionals: names } = parseArgs({
  allowPositionals: true,
  options: { runtime: { type: "string", multiple: true }, device: { type: "string" } },
});
const chosen = runtimes.filter(({ name }) => only?.includes(name) ?? true);
if (chosen.length < (only?.length ?? 1) || ![undefined, "cuda"].includes(device)) {
  console.error("usage: test.ts [--runtime=deno|bun] [--device cuda] [part of a file name ...]");
  process.exit(2);
}
const onCuda = device === "cuda";
if (onCuda) process.env.ROWMAJOR_TEST_CUDA ??= hasDriver() ? "device" : "emulator";

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
const files = readdirSync(join(root, "tests"))
  .filter((name) => name.endsWith("_test.ts") && (!onCuda || name.startsWith("cuda_")))
  .filter((name) => names.length === 0 || names.some((part) => name.includes(part)))
  .sort()
  .map((name) => `tests/${name}`);

if (onCuda) {
  const device = process.env.ROWMAJOR_TEST_CUDA === "device";
  console.log(`cuda: ${device ? "the device of this machine" : "the emulator, on the CPU"}`);
}
const total: Counts = { passed: 0, failed: 0, skipped: 0 };
const lines: string[] = [];
const folder = mkdtempSync(join(tmpdir(), "rowmajor-test-"));
try {
  for (const runtime of files.length === 0 ? [] : chosen) {
    console.log(`${runtime.name}: ${files.length} files ...`);
    const begin = performance.now();
    const counts = await runTests(runtime, files, folder);
    const seconds = ((performance.now() - begin) / 1000).toFixed(1);
    lines.push(`${runtime.name}: ${inWords(counts)} (${seconds} s)`);
    console.log(lines.at(-1));
    for (const key of ["passed", "failed", "skipped"] as const) total[key] += counts[key];
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
if (files.length === 0) console.log(`No test file matches ${names.join(", ")}`);
console.log(["", ...lines, inWords(total)].join("\n"));
process.exitCode = total.failed > 0 || total.passed === 0 ? 1 : 0;

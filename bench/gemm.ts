/**
 * Times float32 products of square matrices next to a C program that calls the same OpenBLAS:
 * rowmajor with its defaults, and with its own kernels only.
 *
 *     deno task bench:gemm [--size=1024] [--rounds=7]
 *
 * Needs OpenBLAS and Linux or macOS. Every timing is a process of its own, the median of 20 calls,
 * and takes turns with the others. The output is the medians over the rounds, in GFLOP/s (2 n³
 * operations), and the ratio to the C program's speed. The goals at 1024 are 90% and 60%.
 *
 * @module
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { findNative } from "../src/backend/cpu.ts";
import { ensureInstalled, findTool, root, type Tool } from "../scripts/tools.ts";
import { median } from "./report.ts";

const CALLS = 20;
/** The goals as parts of the C program's speed: with defaults, and without OpenBLAS. */
const GOALS = { usual: 0.9, own: 0.6 };

/** Prints the same as the C program. */
const program = `import { full, setThreads } from ${
  JSON.stringify(pathToFileURL(join(root, "mod.ts")).href)
};
import process from "node:process";
const [size, threads, calls] = process.argv.slice(2).map(Number) as [number, number, number];
setThreads(threads);
const [a, b, out] = [2, 3, 0].map((value) => full([size, size], value)) as any;
const times: number[] = [];
for (let i = -3; i < calls; i++) {
  const begin = performance.now();
  a.matmul(b, { out });
  if (i >= 0) times.push(performance.now() - begin);
}
console.log(times.sort((x, y) => x - y)[calls >> 1]! * 1e6);
`;

/** Runs a program and returns the number that it prints. */
function numberOf(path: string, args: string[], env: Record<string, string> = {}): number {
  const { status, stdout, stderr } = spawnSync(path, args, {
    encoding: "utf8",
    env: { ...process.env, ...env },
  });
  if (status !== 0) throw new Error(stderr);
  return Number(stdout);
}

const { values } = parseArgs({
  options: {
    size: { type: "string", default: "1024" },
    rounds: { type: "string", default: "7" },
  },
});
const [size, rounds] = [Number(values.size), Number(values.rounds)];
await ensureInstalled();
const native = findNative();
if (typeof native === "string") throw new Error(native);
const blas = native.blas();
if ("reason" in blas) throw new Error(blas.reason);
const folder = mkdtempSync(join(tmpdir(), "rowmajor-gemm-"));
try {
  const [path, compiled] = [join(folder, "gemm.ts"), join(folder, "gemm")];
  writeFileSync(path, program);
  const { status, stderr } = spawnSync(
    findTool("zig"),
    ["cc", "-O2", join(root, "bench", "gemm.c"), "-ldl", "-o", compiled],
    { encoding: "utf8" },
  );
  if (status !== 0) throw new Error(stderr);
  console.log(`${blas.config}\n${blas.path}\nfloat32 [${size}, ${size}], GFLOP/s`);
  for (const threads of new Set([1, availableParallelism()])) {
    const numbers = [size, threads, CALLS].map(String);
    const own = { ROWMAJOR_OPENBLAS: join(folder, "none") };
    const run = (tool: Tool, env?: Record<string, string>) => () =>
      numberOf(
        findTool(tool),
        [...(tool === "deno" ? ["run", "-A", "--no-check"] : []), path, ...numbers],
        env,
      );
    const rows: [name: string, goal: number, time: () => number][] = [
      ["C with OpenBLAS", 0, () => numberOf(compiled, [blas.path, ...numbers])],
      ["Deno", GOALS.usual, run("deno")],
      ["Bun", GOALS.usual, run("bun")],
      ["Deno, own kernels", GOALS.own, run("deno", own)],
      ["Bun, own kernels", GOALS.own, run("bun", own)],
    ];
    const times = rows.map((): number[] => []);
    for (let round = 0; round < rounds; round++) {
      rows.forEach(([, , time], i) => times[i]!.push(time()));
    }
    const speeds = times.map((all) => 2 * size ** 3 / median(all));
    console.log(`${threads} ${threads === 1 ? "thread" : "threads"}`);
    for (const [i, [name, goal]] of rows.entries()) {
      const part = speeds[i]! / speeds[0]!;
      const verdict = goal === 0 ? "" : `  ≥ ${goal * 100}%${part < goal ? " missed" : ""}`;
      const cells = [speeds[i]!.toFixed(1).padStart(8), `${(part * 100).toFixed(0)}%`.padStart(7)];
      console.log(`  ${name.padEnd(20)}${cells.join("")}${verdict}`);
      if (part < goal && size === 1024) process.exitCode = 1;
    }
  }
} finally {
  rmSync(folder, { recursive: true });
}

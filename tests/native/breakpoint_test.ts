/**
 * Debuggers can step through the C code: one stops at a line of the loop of the float32 addition,
 * and shows the elements there.
 *
 * Builds the CPU part unstripped, with little optimization, for one instruction set.
 *
 * @module
 */
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { spawnSync } from "node:child_process";
import { dirname, join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { readText, runZig } from "../../scripts/tools.ts";
import { findZig, inDeno, installed, shimFolders, shimSources, when } from "./support.ts";

const program = join(dirname(fileURLToPath(import.meta.url)), "c", "breakpoint.c");
const onX64 = process.platform === "linux" && process.arch === "x64";
const conditions = {
  "Deno": inDeno,
  "x86-64 Linux": onX64,
  "zig": findZig() !== undefined,
  "gdb": installed("gdb"),
};

/** Builds the CPU part and `program` for x86-64-v2, with debug information. */
function build(folder: string): string {
  const path = join(folder, "breakpoint");
  const sources = shimSources().filter((file) =>
    /[\\/]shim[\\/](core|cpu|distributed|program)[\\/].*\.c$/.test(file)
  );
  const includes = shimFolders().flatMap((name) => ["-I", name]);
  const flags = ["-std=gnu11", "-fwrapv", "-ffp-contract=off", "-fno-math-errno", "-O1", "-g"];
  flags.push("-DRM_DEBUG", "-fno-vectorize", "-fno-unroll-loops", "-Wno-pass-failed");
  // One instruction set stands for all three.
  const names = ["-DRM_ISA=v2", "-Drm_kernels_v3=rm_kernels_v2", "-Drm_kernels_v4=rm_kernels_v2"];
  const target = ["-target", "x86_64-linux-gnu", "-mcpu=x86_64_v2", "-fno-sanitize=all"];
  const from = [...includes, program, ...sources];
  runZig(["cc", ...flags, ...names, ...target, ...from, "-lm", "-lpthread", "-ldl", "-o", path]);
  return path;
}

/** The number of the line of a header of the shim that comes first after some text in it. */
function lineOf(file: string, after: string, text: string): number {
  const lines = readText(file).split("\n");
  const begin = lines.findIndex((line) => line.includes(after));
  const at = lines.findIndex((line, i) => i > begin && line.includes(text));
  assertEquals(begin >= 0 && at >= 0, true, `${file} has no ${text} after ${after}`);
  return at + 1;
}

test(...when(conditions, "a debugger stops in the loop of the float32 addition", (folder) => {
  const path = build(folder);
  const line = lineOf("shim/cpu/map/map_loops.h", "LOOP(binary_same)", "o[i] = ");
  // x and y themselves are in no register known to debuggers.
  const values = "i, ((const float *)a)[i], ((const float *)b)[i]";
  const show = ["-ex", `printf "stopped at i = %ld, x = %g, y = %g\\n", ${values}`];
  const { stdout, stderr, status } = spawnSync("gdb", [
    ...["-q", "-nx", "-batch", "-ex", "set confirm off", "-ex", `break map_loops.h:${line}`],
    ...["-ex", "run", "-ex", "backtrace 3", ...show, "-ex", "continue", ...show],
    ...["-ex", "delete", "-ex", "continue", path],
  ], { encoding: "utf8", env: { ...process.env, ROWMAJOR_THREADS: "1" } });
  const output = `${stdout}\n${stderr}`;
  assertEquals(status, 0, output);
  assertMatch(output, new RegExp(`\\bmap_loops\\.h:${line}\\b`));
  // The kernel inlines the loop, and shows as its caller.
  assertMatch(output, /#1 .*\badd_f32 \(/);
  assertStringIncludes(output, "stopped at i = 0, x = 1, y = 10\n");
  assertStringIncludes(output, "stopped at i = 1, x = 2, y = 20\n");
  assertStringIncludes(output, "status 0: 11 22 33 44\n");
}));

/**
 * The C code alone: native/c/driver.c calls every entry point with buffers of the exact required
 * length, between protected pages, under valgrind, with the undefined-behavior sanitizer, and on
 * arm64. The pool of threads, the queue thread, and the buffers that collectors free on their own
 * threads also run under the thread sanitizer.
 *
 * No JavaScript is involved, so one runtime is enough. Tests of tools that are not installed are
 * skipped, with the reason.
 *
 * @module
 */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { test } from "node:test";
import { root, runZig } from "../../scripts/tools.ts";
import {
  findZig,
  inDeno,
  installed,
  LEVELS,
  library,
  shimFolders,
  shimSources,
  when,
} from "./support.ts";

const here = dirname(fileURLToPath(import.meta.url));
const driver = join(here, "c", "driver.c");
const includes = shimFolders().flatMap((folder) => ["-I", folder]);
const zig = findZig();
const { arch, platform } = process;

const FLAGS = ["-std=gnu11", "-fwrapv", "-ffp-contract=off", "-fno-math-errno"];
/** The sources without CUDA. */
const SOURCES = shimSources().filter((path) =>
  /[\\/]shim[\\/](core|cpu|distributed|program)[\\/].*\.c$/.test(path)
);

/** Runs a program and returns its output; throws its error messages if it fails. */
function run(program: string, args: string[]): string {
  const { status, stdout, stderr, error } = spawnSync(program, args, { encoding: "utf8" });
  if (error !== undefined) throw error;
  assertEquals(status, 0, `${program} ${args.join(" ")}\n${stdout}\n${stderr}`);
  return stdout;
}

/** Builds the driver with the shipped library, for the baseline CPU, which valgrind supports. */
function buildOnLibrary(folder: string): string {
  const program = join(folder, "driver");
  const args = [
    "cc",
    ...FLAGS,
    "-O1",
    "-fno-sanitize=all",
    "-mcpu=baseline",
    ...includes,
    driver,
    library,
  ];
  runZig([...args, `-Wl,-rpath,${dirname(library)}`, "-lm", "-o", program]);
  return program;
}

/** Builds the driver and the shim's sources into one program, for one instruction set. */
function buildWhole(folder: string, args: string[]): string {
  const program = join(folder, "driver");
  const own = [...includes, "-lc", `-femit-bin=${program}`, "--cache-dir", join(folder, "cache")];
  const at = args.indexOf("--");
  const flags = ["-cflags", ...FLAGS, ...args.slice(0, at), "--"];
  runZig(["build-exe", ...flags, driver, ...SOURCES, ...args.slice(at + 1), ...own]);
  return program;
}

const always = { "Deno": inDeno, "zig": zig !== undefined };
const onX64 = { ...always, "x86-64 Linux": platform === "linux" && arch === "x64" };

// For Windows there is no import library to link with.
test(
  ...when({ ...always, "Linux or macOS": platform !== "win32" }, "the driver passes", (folder) => {
    const output = run(buildOnLibrary(folder), ["0", "fenced"]);
    assertStringIncludes(output, `${LEVELS.length} levels, `);
    const [, calls, served, compared] = /(\d+) calls, (\d+) served, (\d+) compared/.exec(output)!;
    assertEquals(
      Number(calls) > 1e5 && Number(served) > 1e5 && Number(compared) > 2e4,
      true,
      output,
    );
  }),
);

test(...when(
  { ...always, "valgrind": installed("valgrind"), "Linux": platform === "linux" },
  "the driver passes under valgrind",
  (folder) => {
    const args = ["-q", "--error-exitcode=9", "--leak-check=full", "--show-leak-kinds=definite"];
    const leaks = "--errors-for-leak-kinds=definite";
    // It knows no AVX-512.
    const level = String(Math.min(3, ...LEVELS.slice(-1)));
    run("valgrind", [...args, leaks, buildOnLibrary(folder), level, "short"]);
  },
));

test(...when(
  onX64,
  "the driver passes with the undefined-behaviour sanitizer",
  (folder) => {
    // The best instruction set represents all three, which takes a third of the time to build.
    const names = ["-Drm_kernels_v3=rm_kernels_v2", "-Drm_kernels_v4=rm_kernels_v2"];
    const program = buildWhole(folder, [
      "-O0",
      "-DRM_ISA=v2",
      ...names,
      "--",
      "-ODebug",
      "-fsanitize-c=full",
      "-target",
      "x86_64-linux-gnu",
      "-mcpu",
      `x86_64_v${Math.max(...LEVELS)}`,
    ]);
    assertStringIncludes(run(program, ["2", "short"]), "1 levels, ");
  },
));

test(...when(
  { ...always, "qemu-aarch64": installed("qemu-aarch64") },
  "the driver passes on arm64",
  (folder) => {
    const program = buildWhole(folder, [
      "-O2",
      "-DRM_ISA=base",
      "--",
      "-OReleaseFast",
      "-fno-sanitize-c",
      "-target",
      "aarch64-linux-musl",
      "-static",
    ]);
    assertStringIncludes(run("qemu-aarch64", [program, "1", "short"]), "1 levels, ");
  },
));

/** Builds a program of native/ with some of the shim's sources. */
function buildPart(folder: string, name: string, parts: string[], flags: string[]): string {
  const program = join(folder, name);
  const sources = [join(here, "c", `${name}.c`), ...parts.map((part) => join(root, "shim", part))];
  runZig(["cc", ...FLAGS, "-O1", ...flags, "-rdynamic", ...includes, ...sources, "-o", program]);
  return program;
}

const THREADS = ["core/threads.c", "core/environment.c", "core/error.c"];
const BUFFERS = ["core/buffers.c", "program/node_api.c", ...THREADS];
const FILES = ["core/files.c", "program/node_api.c", ...THREADS];
const QUEUE = ["program/queue.c", "program/node_api.c", ...THREADS];
const LOOPS = ["program/program.c", ...THREADS];
const PLAIN = ["-fno-sanitize=all", "-mcpu=baseline"];

test(
  ...when(onX64, "loops of programs run all tiles, and stop with their own message", (folder) => {
    const program = buildPart(folder, "loops", LOOPS, PLAIN);
    assertStringIncludes(run(program, []), "1280 tiles");
  }),
);

test(...when(
  { ...onX64, "valgrind": installed("valgrind") },
  "loops of programs run under valgrind",
  (folder) => {
    const program = buildPart(folder, "loops", LOOPS, PLAIN);
    run("valgrind", ["-q", "--error-exitcode=9", program]);
  },
));

test(...when(onX64, "buffers come back to the owner that has lost them", (folder) => {
  const program = buildPart(folder, "buffers", BUFFERS, PLAIN);
  assertStringIncludes(run(program, []), "80000 rounds");
  assertStringIncludes(run(program, ["limits"]), "limits");
  assertStringIncludes(run(program, ["memory"]), "memory");
  assertStringIncludes(run(program, ["groups", folder]), "groups");
  const pages = buildPart(folder, "pages", THREADS, PLAIN);
  assertStringIncludes(run(pages, []), "large pages: ");
}));

test(...when(
  { ...onX64, "valgrind": installed("valgrind") },
  "buffers come back under valgrind",
  (folder) => {
    const program = buildPart(folder, "buffers", BUFFERS, PLAIN);
    run("valgrind", ["-q", "--error-exitcode=9", "--leak-check=full", program]);
  },
));

test(...when(onX64, "mapped files stay as long as arrays on them", (folder) => {
  const program = buildPart(folder, "files", FILES, PLAIN);
  assertStringIncludes(run(program, []), "80000 arrays");
}));

test(...when(
  { ...onX64, "valgrind": installed("valgrind") },
  "mapped files come and go under valgrind",
  (folder) => {
    const program = buildPart(folder, "files", FILES, PLAIN);
    run("valgrind", ["-q", "--error-exitcode=9", "--leak-check=full", program]);
  },
));

test(...when(
  { ...onX64, "valgrind": installed("valgrind") },
  "environments queue jobs, and end, under valgrind",
  (folder) => {
    const program = buildPart(folder, "queue", QUEUE, PLAIN);
    run("valgrind", ["-q", "--error-exitcode=9", program]);
  },
));

/**
 * Whether programs with the thread sanitizer run here: it needs addresses that some kernels use
 * otherwise, and not all containers permit the workaround.
 */
function sanitizesThreads(): boolean {
  if (Object.values(onX64).includes(false)) return false;
  const folder = mkdtempSync(join(tmpdir(), "rowmajor-test-"));
  try {
    const [source, program] = [join(folder, "empty.c"), join(folder, "empty")];
    writeFileSync(source, "int main(void) { return 0; }\n");
    runZig(["cc", "-fsanitize=thread", source, "-o", program]);
    const { status, stderr } = spawnSync(program, [], { encoding: "utf8" });
    if (stderr.includes("unexpected memory mapping")) return false;
    assertEquals(status, 0, stderr);
    return true;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const withSanitizer = { ...onX64, "room for the thread sanitizer": sanitizesThreads() };

function runSanitized(folder: string, name: string, parts: string[]): string {
  const program = buildPart(folder, name, parts, ["-fsanitize=thread"]);
  const env = { ...process.env, TSAN_OPTIONS: "allocator_may_return_null=1" };
  const { status, stdout, stderr } = spawnSync(program, [], { encoding: "utf8", env });
  assertEquals(status, 0, stdout + stderr);
  return stdout;
}

test(...when(
  withSanitizer,
  "the pool of threads passes with the thread sanitizer",
  (folder) => assertStringIncludes(runSanitized(folder, "pool", THREADS), "9000 jobs"),
));

test(...when(
  withSanitizer,
  "loops of programs run with the thread sanitizer",
  (folder) => assertStringIncludes(runSanitized(folder, "loops", LOOPS), "1280 tiles"),
));

test(...when(
  withSanitizer,
  "buffers come back with the thread sanitizer",
  (folder) => assertStringIncludes(runSanitized(folder, "buffers", BUFFERS), "80000 rounds"),
));

test(...when(
  withSanitizer,
  "mapped files come and go with the thread sanitizer",
  (folder) => assertStringIncludes(runSanitized(folder, "files", FILES), "80000 arrays"),
));

test(...when(
  withSanitizer,
  "environments queue jobs, and end, with the thread sanitizer",
  (folder) => assertStringIncludes(runSanitized(folder, "queue", QUEUE), "6002 jobs"),
));

/**
 * Programs of native/c: how tests build and run them, with which sanitizers, and which there are.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { root, runZig } from "../../scripts/tools.ts";
import { findZig, shimFolders, shimSources } from "./support.ts";

const here = dirname(fileURLToPath(import.meta.url));
const includes = shimFolders().flatMap((folder) => ["-I", folder]);
const { arch, platform } = process;

const FLAGS = ["-std=gnu11", "-fwrapv", "-ffp-contract=off", "-fno-math-errno"];

/** What every program needs. */
export const withZig = { "zig": findZig() !== undefined };
export const onLinux = { ...withZig, "Linux": platform === "linux" };
export const onX64 = { ...withZig, "x86-64 Linux": platform === "linux" && arch === "x64" };

/** Folders of the shared libraries of GCC on Linux. */
const LIBRARIES = [
  `/usr/lib/${arch === "arm64" ? "aarch64" : "x86_64"}-linux-gnu`,
  "/usr/lib64",
  "/usr/lib",
];
/** The first version of {@link addressSanitizer} that is known to work: that of GCC 12. */
const OLDEST = 8;

/** The runtime of the address sanitizer, which zig does not bring; undefined if there is none. */
function findAddressSanitizer(): string | undefined {
  for (const folder of LIBRARIES.filter((path) => existsSync(path))) {
    const versions = readdirSync(folder)
      .map((name) => Number(/^libasan\.so\.(\d+)$/.exec(name)?.[1] ?? 0));
    const best = Math.max(...versions);
    if (best >= OLDEST) return join(folder, `libasan.so.${best}`);
  }
  return undefined;
}

/** The runtime of the address sanitizer: GCC's. */
export const addressSanitizer: string | undefined = findAddressSanitizer();

/** What programs with the address sanitizer need. */
export const withAddressSanitizer = {
  ...onLinux,
  [`libasan.so.${OLDEST} of GCC 12, or a later one`]: addressSanitizer !== undefined,
};

/** Without sanitizers, for a processor that every machine has. */
export const PLAIN: readonly string[] = ["-fno-sanitize=all", "-mcpu=baseline"];
/** For the sanitizers of addresses and of undefined behavior. The runtime has to come first. */
export const SANITIZED: readonly string[] = [
  "-g",
  "-fsanitize=address,undefined",
  addressSanitizer ?? "",
];

/** Runs a program and returns its output; throws its error messages if it fails. */
export function run(
  program: string,
  args: string[],
  env: Readonly<Record<string, string>> = {},
): string {
  const { status, stdout, stderr, error } = spawnSync(program, args, {
    encoding: "utf8",
    cwd: root,
    env: { ...process.env, ...env },
  });
  if (error !== undefined) throw error;
  assertEquals(status, 0, `${program} ${args.join(" ")}\n${stdout}\n${stderr}`);
  return stdout;
}

/** Builds the driver with a library. */
export function buildOnLibrary(
  folder: string,
  library: string,
  flags: readonly string[] = PLAIN,
): string {
  const program = join(folder, "driver");
  const source = join(here, "c", "driver.c");
  const args = ["cc", ...FLAGS, "-O1", ...flags, ...includes, source, library];
  runZig([...args, `-Wl,-rpath,${dirname(library)}`, "-lm", "-o", program]);
  return program;
}

/** Builds the driver and the shim's sources without CUDA into one program, for one target. */
export function buildWhole(folder: string, flags: string[], args: string[]): string {
  const program = join(folder, "driver");
  const sources = shimSources().filter((path) =>
    /[\\/]shim[\\/](core|cpu|distributed|program)[\\/].*\.c$/.test(path)
  );
  const own = [...includes, "-lc", `-femit-bin=${program}`];
  const from = [join(here, "c", "driver.c"), ...sources];
  runZig(["build-exe", "-cflags", ...FLAGS, ...flags, "--", ...from, ...args, ...own]);
  return program;
}

/** A program of native/c with a part of the shim. */
export interface Part {
  readonly name: string;
  /** What it shows, as the name of a test. */
  readonly what: string;
  readonly sources: readonly string[];
  /** A part of its output. */
  readonly prints: string;
  /** Whether it leaves memory behind on purpose. */
  readonly leaks?: boolean;
}

const THREADS = ["core/threads.c", "core/environment.c", "core/error.c"];

export const PARTS = {
  pool: {
    name: "pool",
    what: "the pool of threads runs each task of many jobs once",
    sources: THREADS,
    prints: "9000 jobs",
  },
  loops: {
    name: "loops",
    what: "loops of programs run all tiles, and stop with their own message",
    sources: ["program/program.c", ...THREADS],
    prints: "1280 tiles",
  },
  buffers: {
    name: "buffers",
    what: "buffers come back to the owner that has lost them",
    sources: ["core/buffers.c", "program/node_api.c", ...THREADS],
    prints: "80000 rounds",
  },
  files: {
    name: "files",
    what: "mapped files stay as long as arrays on them",
    sources: ["core/files.c", "program/node_api.c", ...THREADS],
    prints: "80000 arrays",
  },
  queue: {
    name: "queue",
    what: "environments queue jobs, and end",
    sources: ["program/queue.c", "program/node_api.c", ...THREADS],
    prints: "6002 jobs",
    // Environments are never freed.
    leaks: true,
  },
  pages: {
    name: "pages",
    what: "large buffers are in large pages",
    sources: THREADS,
    prints: "large pages: ",
  },
} as const satisfies Readonly<Record<string, Part>>;

/** Builds a program with its part of the shim. */
export function buildPart(folder: string, part: Part, flags: readonly string[]): string {
  const program = join(folder, part.name);
  const shim = part.sources.map((path) => join(root, "shim", path));
  const sources = [join(here, "c", `${part.name}.c`), ...shim];
  runZig(["cc", ...FLAGS, "-O1", ...flags, "-rdynamic", ...includes, ...sources, "-o", program]);
  return program;
}

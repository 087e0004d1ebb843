/**
 * Builds the emulator, once for each state of its files, and returns the paths of its libraries.
 *
 * Several processes may build at a time: each builds in a folder of its own, and the first rename
 * wins. Must not know what the emulator does.
 *
 * @module
 */
import { createHash } from "node:crypto";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { findTool, root, runZig } from "../../scripts/tools.ts";

const here = dirname(fileURLToPath(import.meta.url));
const output = join(root, "zig-out");
// The output contains its own path, which has to last: copies of the tree have a link here.
const home = join(existsSync(output) ? realpathSync(output) : output, "emulator");
const LIBRARY = "librowmajor-emulator.so";
const FAULTS = "librowmajor-emulator-faults.so";
const BUILTINS = "libnvrtc-builtins.so.13.0";

/** The names of the one library. */
export const NAMES = [
  "libcudart.so.13",
  "libcuda.so.1",
  "libnvrtc.so.13",
  "libcublas.so.13",
  "libcublasLt.so.13",
  "libcufft.so.12",
  "libcusolver.so.12",
  "libnccl.so.2",
] as const;

const SOURCES = [
  "state.c",
  "fibers.c",
  "cudart.c",
  "libcuda.c",
  "nvrtc.c",
  "libraries/cublas.c",
  "libraries/cufft.c",
  "libraries/cusolver.c",
  "libraries/nccl.c",
  "faults.c",
];
const HEADERS = ["abi.h", "device.h", "macros.h", "std.h", "emulator.h", "faults.h", "image.h"];

const FLAGS = [
  "-shared",
  "-fPIC",
  "-std=gnu11",
  "-O2",
  "-Wall",
  "-Wextra",
  "-Werror",
  "-fno-sanitize=all",
  "-U_FORTIFY_SOURCE",
  "-fvisibility=hidden",
  "-ffp-contract=off",
  // A call of dlclose must not unload it: handlers and queues remain.
  "-Wl,-z,nodelete",
];

/** Why there is no emulator on this machine; undefined if there is one. */
export function whyNoEmulator(): string | undefined {
  if (process.platform !== "linux") return "the emulator needs Linux";
  if (process.arch !== "x64" && process.arch !== "arm64") return "the emulator needs x64 or arm64";
  try {
    findTool("zig");
  } catch {
    return "the emulator needs zig";
  }
}

/** The flags of kernels: fast compilation, with traps where the device would trap. */
function kernelFlags(): string[] {
  const machine = process.arch === "x64" ? "x86_64" : "aarch64";
  const vectors = process.arch === "x64" &&
    /^flags\s*:(?=.*\bfma\b)(?=.*\bavx2\b)(?=.*\bbmi2\b)/m.test(
      readFileSync("/proc/cpuinfo", "utf8"),
    );
  return [
    "-x",
    "c++",
    "-std=c++17",
    "-target",
    `${machine}-linux-gnu`,
    ...(vectors ? ["-march=x86-64-v3"] : []),
    "-nostdinc",
    "-O0",
    "-fPIC",
    "-fvisibility=hidden",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-strict-aliasing",
    "-fwrapv",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-asynchronous-unwind-tables",
    "-fsanitize=alignment,array-bounds",
    "-fsanitize-trap=all",
    "-w",
  ];
}

/** Text as a C string. */
function quote(text: string): string {
  return JSON.stringify(text).replaceAll("\\u0001", "\\001");
}

/** Fills `folder`, which is renamed to `final` afterwards. */
function buildIn(folder: string, final: string, hash: string): void {
  const flags = kernelFlags();
  const values = {
    EMU_ZIG: findTool("zig"),
    EMU_FLAGS: flags.join("\u0001"),
    EMU_HEADERS: final,
    EMU_PCH: join(final, "device.pch"),
    EMU_LIBM: join(final, "link", "libm.so.6"),
    EMU_CACHE: join(home, "kernels"),
    EMU_HASH: hash,
  };
  const lines = Object.entries(values).map(([name, value]) => `#define ${name} ${quote(value)}\n`);
  writeFileSync(join(folder, "config.h"), lines.join(""));
  const read = (name: string): string => readFileSync(join(here, name), "utf8");
  writeFileSync(join(folder, "macros.h"), read("macros.h"));
  for (const name of ["math.h", "stdint.h", "string.h"]) {
    writeFileSync(join(folder, name), read("std.h"));
  }
  const build = (path: string, ...rest: string[]): string =>
    runZig(["cc", ...FLAGS, "-o", join(folder, path), `-Wl,-soname,${basename(path)}`, ...rest]);
  build(FAULTS, join(here, "faults.c"));
  build(
    LIBRARY,
    "-include",
    join(folder, "config.h"),
    ...SOURCES.filter((name) => name !== "faults.c").map((name) => join(here, name)),
    join(folder, FAULTS),
    "-Wl,-rpath,$ORIGIN",
    "-lm",
    "-ldl",
    "-lpthread",
  );
  // A name to link with; the system's library is used at run time.
  writeFileSync(join(folder, "empty.c"), "int rowmajor_emulator_empty;\n");
  mkdirSync(join(folder, "link"));
  build("link/libm.so.6", join(folder, "empty.c"));
  build(BUILTINS, join(folder, "empty.c"));
  // From its text, as clang would look for the file under its first name.
  const device = read("abi.h") + read("device.h").replace('#include "abi.h"', "");
  runZig(["clang", ...flags, "-x", "c++-header", "-", "-o", join(folder, "device.pch")], device);
  for (const name of NAMES) symlinkSync(LIBRARY, join(folder, name));
}

/** Removes compiled kernels that no build has used for a week. */
function tidy(): void {
  const kernels = join(home, "kernels");
  mkdirSync(kernels, { recursive: true });
  for (const name of readdirSync(kernels)) {
    const path = join(kernels, name);
    try {
      if (Date.now() - statSync(path).mtimeMs > 7 * 86400e3) rmSync(path, { recursive: true });
    } catch {
      // Another process was faster.
    }
  }
}

let known: string | undefined;

/**
 * The folder of the libraries, built if necessary. Throws the reason of `whyNoEmulator()`.
 *
 * `ROWMAJOR_CUDA_LIB_DIR` may name it, or `rm_cuda_open`.
 */
export function emulatorFolder(): string {
  if (known !== undefined) return known;
  const reason = whyNoEmulator();
  if (reason !== undefined) throw new Error(reason);
  const hash = createHash("sha256").update(findTool("zig")).update(kernelFlags().join(" "));
  for (const name of [...SOURCES, ...HEADERS, "build.ts"]) {
    hash.update(readFileSync(join(here, name)));
  }
  const digits = hash.digest("hex").slice(0, 16);
  const final = join(home, digits);
  if (!existsSync(final)) {
    tidy();
    const folder = mkdtempSync(join(home, "build-"));
    try {
      buildIn(folder, final, digits);
      renameSync(folder, final);
    } catch (error) {
      rmSync(folder, { recursive: true, force: true });
      if (!existsSync(final)) throw error;
    }
  }
  return known = final;
}

/**
 * Fills the empty folder `into` with a copy of the emulator, whose state is separate from the one
 * that the public functions use; some files or symbols may be omitted.
 */
export function emulatorCopy(
  into: string,
  without: { files?: readonly string[]; symbols?: readonly string[] } = {},
): string {
  const folder = emulatorFolder();
  const bytes = readFileSync(join(folder, LIBRARY));
  for (const symbol of without.symbols ?? []) {
    const at = bytes.indexOf(`\0${symbol}\0`);
    if (at < 0) throw new Error(`The emulator has no symbol ${symbol}`);
    bytes[at + 1] = "X".charCodeAt(0);
  }
  writeFileSync(join(into, LIBRARY), bytes);
  for (const name of [FAULTS, BUILTINS]) copyFileSync(join(folder, name), join(into, name));
  for (const name of NAMES) symlinkSync(LIBRARY, join(into, name));
  for (const name of without.files ?? []) unlinkSync(join(into, name));
  return into;
}

if (import.meta.main) console.log(emulatorFolder());

/**
 * Writes zig-out/lib/rowmajor-ptx.bin: the kernels for machines that have a driver but no NVRTC, as
 * PTX from the clang of the pinned zig. `zig build ptx` runs it.
 *
 * Each kernel is a module of its own, with the functions and variables that it uses, so that a
 * driver compiles only the kernels that a program calls; kernels of several dtypes often have the
 * same text. shim/cuda/modules/aot.c describes the file format.
 *
 * @module
 */
import { spawn } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { constants, zstdCompressSync } from "node:zlib";
import { prebuiltFamilies } from "../../src/backend/cuda/families.ts";
import { tableHash } from "../../src/backend/ffi/abi.ts";
import { embeddedHeaders } from "../gpu/embedded_headers.ts";
import { findTool, root, writeWhole } from "../tools.ts";

/** The oldest supported devices, and the PTX version of their first drivers. */
const TARGET = ["--cuda-gpu-arch=sm_75", "--cuda-feature=+ptx64"];

const FLAGS = [
  ...["-x", "cuda", "--cuda-device-only", ...TARGET],
  // CUDA is not installed, and nothing of the system may be used.
  ...["--cuda-path=/nonexistent", "-nocudainc", "-nocudalib", "-nostdinc"],
  ...["-std=c++17", "-O2", "-ffp-contract=off", "-fno-math-errno", "-Werror"],
  // The devices have no vector arithmetic, and this pass crashes on some kernels.
  "-fno-slp-vectorize",
  // Warnings about words for NVRTC, unused functions of vecmath.h, and tests for NaN.
  ...["-Wno-unknown-pragmas", "-Wno-cuda-compat", "-Wno-undefined-internal"],
  ...["-Wno-tautological-compare", "-Wno-pass-failed"],
  ...[
    "-I",
    "shim/cuda/kernels",
    "-I",
    "shim/math",
    "-I",
    "shim/math/complex",
    "-I",
    "shim/math/special",
    "-include",
    "shim/cuda/kernels/clang.h",
    "-S",
  ],
];

/** A kernel as a module of its own. */
export interface Kernel {
  /** Its name. */
  readonly name: string;
  /** Its name in the module. */
  readonly entry: string;
  /** The module. */
  readonly text: string;
}

const folder = join(root, "zig-out", "ptx");

/** Compiles C to PTX. */
function compile(zig: string, name: string, source: string): Promise<string> {
  const path = join(folder, name);
  writeFileSync(`${path}.cu`, source);
  const args = ["clang", ...FLAGS, "-o", `${path}.ptx`, `${path}.cu`];
  return new Promise((resolve, reject) => {
    const child = spawn(zig, args, { cwd: root, stdio: ["ignore", "ignore", "pipe"] });
    let said = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => said += text);
    child.on("error", reject);
    child.on("close", (code) => {
      if (code === 0) resolve(readFileSync(`${path}.ptx`, "utf8"));
      else reject(new Error(`clang cannot compile ${path}.cu:\n${said}`));
    });
  });
}

/** Shortens PTX. Labels and parameters are local to their function. */
function shorten(ptx: string): string {
  return ptx.replace(/\/\/.*/g, "")
    .replace(/\w+_param_(\d+)/g, "p$1")
    .replace(/\$L__BB\d+_/g, "$")
    .replace(/\s*\n\s*/g, "\n").replace(/[ \t]+/g, " ").replaceAll(", ", ",").trim();
}

/** The parts of a module: directives, variables, functions and their declarations. */
function partsOf(ptx: string): string[] {
  const parts: string[] = [];
  let lines: string[] = [], depth = 0;
  for (const line of shorten(ptx).split("\n")) {
    lines.push(line);
    for (const c of line) depth += "{(".includes(c) ? 1 : "})".includes(c) ? -1 : 0;
    if (depth > 0 || !/[;}]$|^\.(version|target|address_size)/.test(line)) continue;
    parts.push(`${lines.join("\n")}\n`);
    lines = [];
  }
  if (lines.length > 0) throw new Error(`Cannot take PTX apart: ${lines[0]}`);
  return parts;
}

/** The symbol that a part defines or declares. */
function symbolOf(part: string): string | undefined {
  const match = /^[^({]*\.(?:entry|func)(?: \([^)]*\))? ([\w$]+)/.exec(part) ??
    /^\.(?:visible |extern )?\.?(?:shared|const|global)[^[=;]* ([\w$]+)/.exec(part);
  return match?.[1];
}

/** The kernels of a module, each as a module of its own. */
export function split(ptx: string): Kernel[] {
  const parts = partsOf(ptx);
  const symbols = parts.map(symbolOf);
  const words = parts.map((part) => new Set(part.match(/[\w$]+/g)));
  const kernels: Kernel[] = [];
  parts.forEach((part, k) => {
    if (!part.includes(".entry ")) return;
    const name = symbols[k]!;
    const used = new Set([k]);
    for (const of of used) {
      symbols.forEach((symbol, i) => {
        if (symbol !== undefined && words[of]!.has(symbol)) used.add(i);
      });
    }
    const own = parts.filter((_, i) => used.has(i) || symbols[i] === undefined).join("");
    // The same names for the same code.
    const short = new Map([[name, "k"]]);
    for (const i of [...used].sort((a, b) => a - b)) {
      if (!short.has(symbols[i]!)) short.set(symbols[i]!, `s${short.size}`);
    }
    const text = own.replace(/[\w$]+/g, (word) => short.get(word) ?? word);
    kernels.push({ name, entry: "k", text });
  });
  return kernels;
}

/** Similar modules are close together: those of one kind and dtype. */
function orderOf({ name }: Kernel): string {
  const [, row, dtypes, kind] = /^([a-zA-Z0-9]+)_?(.*?)_?([a-z]+(?:_generic)?)?$/.exec(name) ?? [];
  return `${kind} ${dtypes} ${row}`;
}

/** FNV-1a. */
function sumOf(parts: readonly Uint8Array[]): number {
  let sum = 0x811c9dc5;
  for (const bytes of parts) for (const byte of bytes) sum = Math.imul(sum ^ byte, 0x01000193);
  return sum >>> 0;
}

/** Changes with the headers in the library, and with the op table. */
function stamp(): number {
  const texts = embeddedHeaders().map(({ text }) => new TextEncoder().encode(text));
  return (sumOf(texts) ^ tableHash()) >>> 0;
}

/** A Zstandard stream, with a window that reaches all of the bytes. */
function compress(bytes: Uint8Array): Uint8Array {
  const { ZSTD_c_compressionLevel: level, ZSTD_c_windowLog: window } = constants;
  return zstdCompressSync(bytes, { params: { [level]: 22, [window]: 24 } });
}

/** The file of `kernels`. */
export function pack(kernels: readonly Kernel[]): Uint8Array {
  const places = new Map<string, number>();
  const texts: string[] = [];
  let lines = "", at = 0;
  for (const { name, entry, text } of kernels) {
    let place = places.get(text);
    if (place === undefined) {
      places.set(text, place = at);
      texts.push(text);
      at += text.length + 1;
    }
    lines += `${name} ${entry} ${place}\n`;
  }
  // One byte per character, also for images, which are not text.
  const raw = Uint8Array.from(
    `${lines}\0${texts.map((text) => `${text}\0`).join("")}`,
    (c) => c.charCodeAt(0),
  );
  const packed = compress(raw);
  const head = `rowmajor-ptx ${stamp()} ${packed.length} ${raw.length} ${sumOf([packed])}\n`;
  return Uint8Array.from([...new TextEncoder().encode(head), ...packed]);
}

async function main(): Promise<void> {
  const zig = findTool("zig");
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const families = prebuiltFamilies();
  const made: Kernel[][] = [];
  let next = 0;
  const work = async (): Promise<void> => {
    while (next < families.length) {
      const k = next++, { source, names } = families[k]!;
      const kernels = split(await compile(zig, `${k}_${names[0]}`, source));
      const missing = names.find((name) => !kernels.some((kernel) => kernel.name === name));
      if (missing !== undefined) throw new Error(`${missing} is not among what clang made`);
      made[k] = kernels;
    }
  };
  await Promise.all(Array.from({ length: availableParallelism() }, work));
  const kernels = made.flat()
    .map((kernel) => [orderOf(kernel), kernel] as const)
    .sort(([a], [b]) => a < b ? -1 : a > b ? 1 : 0).map(([, kernel]) => kernel);
  const file = pack(kernels);
  const path = join(root, "zig-out", "lib", "rowmajor-ptx.bin");
  mkdirSync(join(root, "zig-out", "lib"), { recursive: true });
  writeWhole(path, file);
  console.log(`${kernels.length} kernels, ${file.length} bytes: zig-out/lib/rowmajor-ptx.bin`);
}

if (import.meta.main) {
  await main();
  process.exit(0);
}

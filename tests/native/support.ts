/**
 * Shared code of the tests of the native backend: the library, backends, storages in every layout,
 * and programs in processes of their own.
 *
 * The number of threads and the instruction set of the library are per process, for public
 * functions too: each file therefore opens its own copy of the library.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { spawnSync } from "node:child_process";
import {
  copyFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { findTool, root, runZig } from "../../scripts/tools.ts";
import { JsBackend } from "../../src/backend/js/backend.ts";
import type { Shim } from "../../src/backend/ffi/abi.ts";
import { NativeBackend } from "../../src/backend/native/backend.ts";
import { LIBRARY_FILE, openShim } from "../../src/backend/ffi/load.ts";
import { DTYPE, type DType } from "../../src/base/dtype.ts";
import { readElement, writeElement } from "../../src/memory/element.ts";
import { Layout } from "../../src/base/layout.ts";
import type { MapOp } from "../../src/table/op.ts";
import { allocate, wrapExternal } from "../../src/memory/pool.ts";
import type { Storage } from "../../src/memory/storage.ts";
import { type Affine, BackendCalls } from "../calls.ts";
import { assertSame as assertNear, mapUlp, spacing, type Tolerance } from "../ops/table/compare.ts";
import { goldenEntry } from "../ops/table/golden.ts";
import { generator, sample } from "../ops/table/operands.ts";

/** The tested library: the value of `ROWMAJOR_LIB`, else the one in zig-out. */
export const library: string = process.env.ROWMAJOR_LIB ||
  join(root, "zig-out", "lib", LIBRARY_FILE);

/** The path of zig, or undefined if it is not installed. */
export function findZig(): string | undefined {
  try {
    return findTool("zig");
  } catch {
    return undefined;
  }
}

function modified(path: string): number {
  return existsSync(path) ? statSync(path).mtimeMs : 0;
}

/** The sources of the shim. */
export function shimSources(): string[] {
  const shim = join(root, "shim");
  const names = readdirSync(shim, { recursive: true, encoding: "utf8" });
  return [join(root, "build.zig"), ...names.map((name) => join(shim, name))];
}

/** Whether a tool can be started. */
export function installed(tool: string): boolean {
  return spawnSync(tool, ["--version"], { stdio: "ignore" }).status === 0;
}

/**
 * The folders of the shim whose headers are included by their plain names: all except the kernels'.
 */
export function shimFolders(): string[] {
  const entries = readdirSync(join(root, "shim"), { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isDirectory() && entry.name !== "kernels")
    .map((entry) => join(entry.parentPath, entry.name));
}

/** True if `path` exists and no source of the shim is newer. */
export function isFresh(path: string): boolean {
  return existsSync(path) && Math.max(...shimSources().map(modified)) <= modified(path);
}

/** Builds the library if a source is newer; true if there is one. */
function build(): boolean {
  if (process.env.ROWMAJOR_LIB || isFresh(library)) return existsSync(library);
  if (findZig() === undefined) return existsSync(library);
  runZig(["build"]);
  return true;
}

/** Removes a folder; on Windows, where open files cannot be removed, leaves it. */
export function removeFolder(folder: string): void {
  try {
    rmSync(folder, { recursive: true });
  } catch (error) {
    if (process.platform !== "win32") throw error;
  }
}

/** A copy of the library, with settings of its own. */
function openCopy(): Shim {
  const folder = mkdtempSync(join(tmpdir(), "rowmajor-native-"));
  try {
    const copy = join(folder, basename(library));
    copyFileSync(library, copy);
    const opened = openShim(copy);
    if ("reason" in opened) throw new Error(opened.reason);
    return opened;
  } finally {
    removeFolder(folder);
  }
}

/** Whether there is a library. */
export const found: boolean = build();
if (!found) console.log(`The native backend is not tested: there is no ${library}, and no zig`);

/** `test`, or `test.skip` without a library. */
export const check: typeof test | typeof test.skip = found ? test : test.skip;

/**
 * The arguments of `test` for a test with a folder for its duration, or for a skipped one that
 * names its unmet condition. (Reports show the caller of `test` as the place of the test.)
 */
export function when(
  conditions: Readonly<Record<string, boolean>>,
  name: string,
  body: (folder: string) => void | Promise<void>,
): [name: string, options: { skip: boolean }, body: () => Promise<void>] {
  const needed = { "the native library": found, ...conditions };
  const missing = Object.entries(needed).filter(([, met]) => !met).map(([what]) => what);
  const skip = missing.length > 0;
  return [skip ? `${name} (needs ${missing.join(", ")})` : name, { skip }, async () => {
    const folder = mkdtempSync(join(tmpdir(), "rowmajor-test-"));
    try {
      await body(folder);
    } finally {
      removeFolder(folder);
    }
  }];
}

/** The functions of the library. Undefined if {@link check} skips. */
export const shim: Shim = found ? openCopy() : undefined as unknown as Shim;

/** The JavaScript backend without generated loops: accepts any plan, and is the definition. */
export const js: BackendCalls = new BackendCalls(new JsBackend(false), new JsBackend(false));

/** Calls of a native backend, and its settings. */
export class NativeCalls extends BackendCalls {
  /** Passes calls without a kernel to the JavaScript backend. */
  constructor(readonly native: NativeBackend) {
    super(native, new JsBackend());
  }

  /** The instruction set in use. */
  get level(): string {
    return this.native.level;
  }

  /** Runs `f` and returns how many of its calls were passed on. */
  handedOnBy(f: () => void): number {
    const before = this.handedOn;
    f();
    return this.handedOn - before;
  }
}

/** Calls of the tested native backend, which sends arrays of any length to the library. */
export const calls: NativeCalls = found
  ? new NativeCalls(new NativeBackend(shim, { crossover: 0 }))
  : undefined as unknown as NativeCalls;

/** The tested native backend. */
export const native: NativeBackend = calls?.native;

/** Runs `f` and returns how many of its calls were passed on. */
export function handedOn(f: () => void): number {
  return calls.handedOnBy(f);
}

function findLevels(): number[] {
  if (!found) return [];
  const best = native.setLevel(0);
  const levels = [];
  for (let level = best === 1 ? 1 : 2; level <= best; level++) levels.push(level);
  return levels;
}

/** The instruction sets of this machine, by their numbers, the best one last. */
export const LEVELS: readonly number[] = findLevels();

/** No scale and no shift. */
export const NO_AFFINE: Affine = { weight: null, bias: null, epsilon: 0 };

// ---- storages ----------------------------------------------------------------------------------

/** The number of elements before and after those of a layout, to detect stray writes. */
export const MARGIN = 5;

const pools = new Map<string, Storage>();
const POOL = 4093;
const draw = generator(11);

/** A storage of `length` elements from `domain`; with `special`, every third one is unusual. */
export function fill(
  dtype: DType,
  length: number,
  special: boolean,
  domain: readonly [number, number] = [-8, 8],
): Storage {
  const key = `${dtype} ${special} ${domain}`;
  let pool = pools.get(key);
  if (pool === undefined) {
    pools.set(key, pool = allocate(dtype, POOL, false));
    sample(dtype, domain, POOL, 5, special).forEach((value, i) => writeElement(pool!, i, value));
  }
  const array = new DTYPE[dtype].array(length) as Float64Array;
  const source = pool.array as Float64Array;
  let from = Math.floor(draw() * POOL);
  for (let at = 0; at < length;) {
    const part = source.subarray(from, from + length - at);
    array.set(part, at);
    at += part.length;
    from = 0;
  }
  return wrapExternal(dtype, array);
}

/** The same elements in memory of their own. */
export function copyOf(storage: Storage): Storage {
  return wrapExternal(storage.info.name, (storage.array as Float64Array).slice());
}

/** Ways to lay out `shape`; all leave a margin. */
export const LAYOUTS: Readonly<Record<string, (shape: readonly number[]) => Layout>> = {
  contiguous: (shape) => Layout.contiguous(shape, MARGIN),
  transposed: (shape) => Layout.contiguous([...shape].reverse(), MARGIN).transpose(),
  sliced: (shape) => {
    let layout = Layout.contiguous(shape.map((n) => 2 * n + 1), MARGIN);
    shape.forEach((n, axis) => layout = layout.sliceAxis(axis, 1, n, 2));
    return layout;
  },
  flipped: (shape) => Layout.contiguous(shape, MARGIN).flip(),
  halfFlipped: (shape) => Layout.contiguous(shape, MARGIN).flip(shape.length > 0 ? [0] : []),
  row: (shape) =>
    Layout.contiguous(shape.map((n, axis) => axis === shape.length - 1 ? n : 1), MARGIN)
      .broadcastTo(shape),
  column: (shape) =>
    Layout.contiguous(shape.map((n, axis) => axis === 0 ? n : 1), MARGIN).broadcastTo(shape),
  scalar: (shape) => Layout.contiguous([], MARGIN).broadcastTo(shape),
};

/** The names of {@link LAYOUTS}; outputs support the first {@link OUTPUTS}. */
export const KINDS: readonly string[] = Object.keys(LAYOUTS);
/** The number of {@link KINDS} that an output supports. */
export const OUTPUTS = 5;

/** A storage that `layout` and its margins fit. */
export function storageFor(
  layout: Layout,
  dtype: DType,
  special = true,
  domain?: readonly [number, number],
): Storage {
  return fill(dtype, layout.extent()[1] + 1 + MARGIN, special, domain);
}

/** A storage of dense rows of `length` elements, without margins. */
export function denseStorage(dtype: DType, length: number, special = false): Storage {
  return fill(dtype, length, special);
}

// ---- comparisons -------------------------------------------------------------------------------

/** Throws unless both have the same elements, within `tolerance`; all NaN are equal. */
export function assertSame(
  actual: Storage,
  expected: Storage,
  what: string,
  tolerance: Tolerance = { ulp: 0 },
): void {
  assertEquals(actual.array.length, expected.array.length, what);
  const { name } = expected.info;
  const floats = DTYPE[name].kind === "f";
  for (let i = 0; i < expected.array.length; i++) {
    const [x, y] = [actual.array[i], expected.array[i]];
    if (Object.is(x, y)) continue;
    if (!floats) throw new Error(`${what}: element ${i} is ${x}, expected ${y}`);
    const at = (): string => `${what}: at ${i}`;
    assertNear(at, [readElement(actual, i)], [readElement(expected, i)], name, tolerance);
  }
}

/** Throws unless both hold the same bytes. */
export function assertSameBytes(actual: Storage, expected: Storage, what: string): void {
  const bytes = ({ array }: Storage): Uint8Array =>
    new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
  const [x, y] = [bytes(actual), bytes(expected)];
  assertEquals(x.length, y.length, what);
  for (let i = 0; i < x.length; i++) {
    if (x[i] !== y[i]) {
      const at = Math.floor(i / actual.info.bytes);
      throw new Error(`${what}: element ${at} is ${actual.array[at]}, not ${expected.array[at]}`);
    }
  }
}

/** The largest difference of two backends on `row`: the sum of their errors. */
export function mapTolerance(row: MapOp, dtype: DType): Tolerance {
  const { result, cancels, eitherZero } = goldenEntry(row, dtype);
  const ulp = mapUlp(row, result, true);
  if (ulp === 0) return { ulp };
  const slack = cancels ? (ulp + 1) * spacing(row.domain[1], result) : 0;
  return { ulp: ulp + 1, slack, eitherZero };
}

// ---- processes ---------------------------------------------------------------------------------

/** True if Deno runs the tests. */
export const inDeno: boolean = "Deno" in globalThis;

interface DenoCommand {
  Command: new (path: string, options: object) => {
    outputSync(): { success: boolean; stdout: Uint8Array; stderr: Uint8Array };
  };
}

/** The address of a file of this repository, as a literal of a program. */
export function moduleAt(path: string): string {
  return JSON.stringify(new URL(`../../${path}`, import.meta.url).href);
}

/**
 * Runs `program` in a process of its own, under the current runtime, and returns its output. Deno
 * gets the given permissions only, and never prompts. Throws the program's error messages if it
 * fails.
 */
export function runApart(
  program: string,
  env: Readonly<Record<string, string>> = {},
  permissions: readonly string[] = ["--allow-ffi", "--allow-env"],
): string {
  const folder = mkdtempSync(join(tmpdir(), "rowmajor-native-"));
  try {
    const path = join(folder, "program.ts");
    writeFileSync(path, program);
    const all: Record<string, string | undefined> = { ROWMAJOR_LIB: library, ...env };
    if (!inDeno) {
      const options = { cwd: root, encoding: "utf8", env: { ...process.env, ...all } } as const;
      const { stdout, stderr, status } = spawnSync(process.execPath, [path], options);
      assertEquals(status, 0, stderr);
      return stdout;
    }
    // Deno's node:child_process would add all permissions.
    const { Command } = (globalThis as unknown as { Deno: DenoCommand }).Deno;
    const args = ["run", "--quiet", "--no-check", "--no-prompt", ...permissions, path];
    const result = new Command(process.execPath, { args, cwd: root, env: all, stdin: "null" })
      .outputSync();
    const [stdout, stderr] = [result.stdout, result.stderr].map((b) => new TextDecoder().decode(b));
    assert(result.success, stderr);
    assertEquals(stderr, "");
    return stdout!;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

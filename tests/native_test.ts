/**
 * The native backend against the js backend, call by call, below dispatch.
 *
 * It needs the shim: built here by zig where zig is installed, else the one in zig-out; with
 * neither, everything is skipped. Products are compared through OpenBLAS where that is found.
 *
 * @module
 */
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { plainMap, plainReduce } from "../scripts/gen_ops_def.ts";
import { findTool, root } from "../scripts/tools.ts";
import type { Backend, MatrixRef } from "../src/backend.ts";
import { JsBackend } from "../src/backends/js/backend.ts";
import { type Shim, STATUS } from "../src/backends/native/abi.ts";
import { NativeBackend } from "../src/backends/native/backend.ts";
import { openShim } from "../src/backends/native/load.ts";
import { arange, DeviceError, info, setBackend } from "../mod.ts";
import { DTYPE, type DType, type TypedArray } from "../src/dtype.ts";
import { NativeError } from "../src/errors.ts";
import { Layout } from "../src/layout.ts";
import { MAP, type MapRow, REDUCE, type ReduceRow } from "../src/ops.ts";
import { ATTRIBUTES, planMap, planReduce } from "../src/plan.ts";
import { adopt, allocateShared, type Storage } from "../src/storage.ts";

const names: Record<string, string> = { win32: "rowmajor.dll", darwin: "librowmajor.dylib" };
const library = join(root, "zig-out", "lib", names[process.platform] ?? "librowmajor.so");

function modified(path: string): number {
  return existsSync(path) ? statSync(path).mtimeMs : 0;
}

/** Builds the library when a source is newer; true when there is one. */
function build(): boolean {
  const shim = join(root, "shim");
  const sources = [join(root, "build.zig"), ...readdirSync(shim).map((name) => join(shim, name))];
  if (Math.max(...sources.map(modified)) > modified(library)) {
    let zig: string;
    try {
      zig = findTool("zig");
    } catch {
      return existsSync(library);
    }
    const { status, stderr } = spawnSync(zig, ["build"], { cwd: root, encoding: "utf8" });
    if (status !== 0) throw new Error(`zig build failed:\n${stderr}`);
  }
  return true;
}

const opened = build() ? openShim(library) : undefined;
if (opened !== undefined && "reason" in opened) throw new Error(opened.reason);
const shim = opened as Shim;
const check = opened === undefined ? test.skip : test;

/** The js backend, and how often it was asked. */
class Counting extends JsBackend {
  calls = 0;
  override map(...args: Parameters<Backend["map"]>): void {
    this.calls++;
    super.map(...args);
  }
  override reduce(...args: Parameters<Backend["reduce"]>): void {
    this.calls++;
    super.reduce(...args);
  }
  override matmul(...args: Parameters<Backend["matmul"]>): void {
    this.calls++;
    super.matmul(...args);
  }
}

const js = new JsBackend();
const fallback = new Counting();
const native = shim && new NativeBackend(shim, fallback, { crossover: 0 });

/** Runs `f` and gives how many of its calls were handed on. */
function handedOn(f: () => void): number {
  const before = fallback.calls;
  f();
  return fallback.calls - before;
}

let seed = 1;
function random(): number {
  seed = Math.imul(seed ^ (seed >>> 15), 0x2c1b3c6d) + 0x9e3779b9 | 0;
  return ((seed ^ (seed >>> 13)) >>> 0) / 2 ** 32;
}

const FLOATS = [0, -0, 1, -1, NaN, Infinity, -Infinity, 1e-40, -3e38, 5e-324];
const INTS = [0, 1, -1, 2147483647, -2147483648, 65536];

/** Elements of `dtype`: with `special`, every third one is an unusual one. */
function fill(dtype: DType, length: number, special: boolean): Storage {
  const array = new DTYPE[dtype].array(length) as Float64Array;
  const unusual = DTYPE[dtype].kind === "f" ? FLOATS : INTS;
  for (let i = 0; i < length; i++) {
    const pick = special && i % 3 === 1;
    const x = pick ? unusual[Math.floor(random() * unusual.length)]! : random() * 16 - 8;
    array[i] = dtype === "bool" ? (random() < 0.5 ? 1 : 0) : x;
  }
  return adopt(dtype, array);
}

const SHAPES = [[], [1], [0], [3, 0], [7], [1000], [5, 17], [33, 40], [3, 4, 5], [2, 3, 2, 5, 3]];
const MARGIN = 5;

/** Ways to lay out `shape`; all leave a margin, so that stray writes show. */
const LAYOUTS: Record<string, (shape: number[]) => Layout> = {
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
const kinds = Object.keys(LAYOUTS);
/** Those that an output can have. */
const OUTPUTS = 5;

function storageFor(layout: Layout, dtype: DType, special = true): Storage {
  return fill(dtype, layout.extent()[1] + 1 + MARGIN, special);
}

function copyOf(storage: Storage): Storage {
  return adopt(storage.info.name, (storage.array as Float64Array).slice());
}

/** Throws unless both hold the same elements: NaN is NaN, and −0 is not 0. */
function assertSame(actual: Storage, expected: Storage, what: string): void {
  for (let i = 0; i < expected.array.length; i++) {
    const [x, y] = [actual.array[i], expected.array[i]];
    if (!Object.is(x, y)) throw new Error(`${what}: element ${i} is ${x}, expected ${y}`);
  }
}

function checkMap(row: MapRow, dtype: DType, shape: number[], turn: number): void {
  const pick = (k: number, among: number): string => kinds[(turn * (2 * k + 1) + k) % among]!;
  const outLayout = LAYOUTS[pick(0, OUTPUTS)]!(shape);
  const out = storageFor(outLayout, row.result === "bool" ? "bool" : dtype);
  const expected = copyOf(out);
  const layouts: (Layout | null)[] = [null, null, null];
  const inputs: (Storage | null)[] = [null, null, null];
  for (let k = 0; k < row.arity; k++) {
    const layout = layouts[k] = LAYOUTS[pick(k + 1, kinds.length)]!(shape);
    inputs[k] = storageFor(layout, row.condition && k === 0 ? "bool" : dtype);
  }
  const what = `${row.name} ${dtype} [${shape}] ${[0, 1, 2, 3].map((k) => pick(k, kinds.length))}`;
  const plan = planMap(outLayout, layouts[0]!, layouts[1]!, layouts[2]!);
  const asked = handedOn(() =>
    native.map(row, dtype, plan, out, inputs[0]!, inputs[1]!, inputs[2]!)
  );
  assertEquals(asked, shape.includes(0) ? 1 : 0, `${what}: calls of the js backend`);
  js.map(row, dtype, plan, expected, inputs[0]!, inputs[1]!, inputs[2]!);
  assertSame(out, expected, what);
}

const DTYPES = ["float32", "float64", "int32"] as const;

for (const dtype of DTYPES) {
  check(`elementwise rows of ${dtype} agree with js bit for bit in every layout`, () => {
    const { kind } = DTYPE[dtype];
    const rows = Object.values<MapRow>(MAP).filter((row) => plainMap(row, kind) !== undefined);
    assert(rows.length >= 15, `only ${rows.length} rows`);
    for (const row of rows) {
      for (const shape of SHAPES) {
        for (let turn = 0; turn < kinds.length; turn++) checkMap(row, dtype, shape, turn);
      }
    }
  });
}

check("dense and scalar operands agree with js at every length up to 70", () => {
  for (const dtype of DTYPES) {
    for (let n = 1; n <= 70; n++) {
      const [dense, one] = [Layout.contiguous([n], MARGIN), Layout.contiguous([], MARGIN)];
      for (const [la, lb] of [[dense, dense], [dense, one], [one, dense], [one, one]] as const) {
        const [a, b] = [storageFor(la, dtype), storageFor(lb, dtype)];
        const out = storageFor(dense, dtype);
        const expected = copyOf(out);
        const plan = planMap(dense, la, lb, null);
        native.map(MAP.sub, dtype, plan, out, a, b, null);
        js.map(MAP.sub, dtype, plan, expected, a, b, null);
        assertSame(out, expected, `sub ${dtype} of ${n}`);
      }
    }
  }
});

check("an output may be an input, element for element", () => {
  const layout = LAYOUTS.transposed!([33, 40]);
  const a = storageFor(layout, "float32");
  const b = storageFor(layout, "float32");
  const expected = copyOf(a);
  const plan = planMap(layout, layout, layout, null);
  native.map(MAP.add, "float32", plan, a, a, b, null);
  js.map(MAP.add, "float32", plan, expected, expected, b, null);
  assertSame(a, expected, "a += b");
});

check("shared memory works like any other", () => {
  const out = allocateShared("float32", 100);
  const a = allocateShared("float32", 100);
  (a.array as Float32Array).fill(2);
  const layout = Layout.contiguous([100]);
  const plan = planMap(layout, layout, layout, null);
  assertEquals(handedOn(() => native.map(MAP.add, "float32", plan, out, a, a, null)), 0);
  assertEquals([...out.array as Float32Array], new Array(100).fill(4));
});

check("small exactly rounded ops and whatever the shim lacks are handed on", () => {
  const backend = new NativeBackend(shim, fallback);
  const run = (row: MapRow, dtype: DType, n: number): number => {
    const layout = Layout.contiguous([n]);
    const [out, a, b] = [fill(dtype, n, true), fill(dtype, n, true), fill(dtype, n, true)];
    const second = row.arity === 2;
    const plan = planMap(layout, layout, second ? layout : null, null);
    return handedOn(() => backend.map(row, dtype, plan, out, a, second ? b : null, null));
  };
  assertEquals(run(MAP.add, "float32", 2), 1);
  assertEquals(run(MAP.add, "float32", 5000), 0);
  for (let again = 0; again < 2; again++) {
    assertEquals(run(MAP.exp, "float32", 5000), 1);
    assertEquals(run(MAP.add, "int16", 5000), 1);
  }
});

/** Compares floats up to one rounding to their dtype and `error`, that of their accumulators. */
function assertClose(
  actual: Storage,
  expected: Storage,
  error: (y: number) => number,
  what: string,
): void {
  const eps = expected.info.name === "float32" ? 2 ** -23 : 2 ** -52;
  for (let i = 0; i < expected.array.length; i++) {
    const [x, y] = [Number(actual.array[i]), Number(expected.array[i])];
    const bound = eps * Math.abs(y) + error(y);
    const close = x === y || (Number.isNaN(x) && Number.isNaN(y)) || Math.abs(x - y) <= bound;
    if (!close) throw new Error(`${what}: element ${i} is ${x}, expected ${y}`);
  }
}

/** The largest finite magnitude. */
function largestOf(storage: Storage): number {
  let largest = 0;
  for (const x of storage.array as Float64Array) {
    if (Number.isFinite(x)) largest = Math.max(largest, Math.abs(x));
  }
  return largest;
}

function checkReduce(
  row: ReduceRow,
  dtype: DType,
  shape: number[],
  kind: string,
  axes: number,
  special: boolean,
): void {
  const layout = LAYOUTS[kind]!(shape);
  const reduced = shape.map((_, axis) => (axes >> axis & 1) === 1);
  const small = shape.map((n, axis) => reduced[axis] ? 1 : n);
  const outLayout = LAYOUTS.flipped!(small);
  const a = storageFor(layout, dtype, special);
  const second = row.arity === 2 ? LAYOUTS.contiguous!(small) : null;
  const b = second === null ? null : storageFor(second, dtype, special);
  const out = storageFor(outLayout, dtype);
  const expected = copyOf(out);
  const plan = planReduce(outLayout, layout, second, reduced, false);
  plan.data[ATTRIBUTES] = 7;
  const what = `${row.name} ${dtype} [${shape}] ${kind} over ${reduced}`;
  const asked = handedOn(() => native.reduce(row, plan, out, a, b));
  assertEquals(asked, shape.includes(0) ? 1 : 0, `${what}: calls of the js backend`);
  js.reduce(row, plan, expected, a, b);
  // Sums and products are taken in another order, in doubles.
  const steps = 2 ** -52 * layout.size;
  const largest = largestOf(a) + (b === null ? 0 : largestOf(b));
  const partial = steps * (row.arity === 2 ? largest ** 2 : largest);
  assertClose(
    out,
    expected,
    row.name === "prod" ? (y) => steps * Math.abs(y) : () => partial,
    what,
  );
}

for (const dtype of ["float32", "float64"] as const) {
  check(`reductions of ${dtype} agree with js over every choice of axes`, () => {
    const rows = Object.values<ReduceRow>(REDUCE).filter((row) => plainReduce(row) !== null);
    assert(rows.some(({ name }) => name === "sum"));
    for (const row of rows) {
      for (const shape of SHAPES) {
        if (shape.includes(0) && row.nonEmpty) continue;
        for (let axes = 0; axes < 1 << shape.length; axes++) {
          for (const kind of kinds) {
            checkReduce(row, dtype, shape, kind, axes, false);
            // Products of huge numbers overflow or not, as their order has it.
            if (row.name !== "prod") checkReduce(row, dtype, shape, kind, axes, true);
          }
        }
      }
    }
  });
}

check("sums keep their precision and their infinities", () => {
  const n = 1_000_000;
  const layout = Layout.contiguous([n]);
  const sum = (dtype: DType, array: TypedArray): number => {
    const out = fill(dtype, 1, false);
    const plan = planReduce(Layout.contiguous([1]), layout, null, [true], false);
    assertEquals(
      handedOn(() => native.reduce(REDUCE.sum, plan, out, adopt(dtype, array), null)),
      0,
    );
    return Number(out.array[0]);
  };
  const tenths = new Float64Array(n).fill(0.1);
  const error = Math.abs(sum("float64", tenths) - 1e5);
  assert(error <= 1e-9, `it is ${error} off; a plain sum is 1e-6`);
  const small = new Float32Array(n).fill(2 ** -24);
  small[0] = 2;
  assertEquals(sum("float32", small), Math.fround(2 + (n - 1) * 2 ** -24));
  tenths[n - 7] = Infinity;
  assertEquals(sum("float64", tenths), Infinity);
  tenths[3] = -Infinity;
  assertEquals(sum("float64", tenths), NaN);
});

check("plans that leave a storage are refused before anything is written", () => {
  const out = fill("float32", 10, false);
  const before = copyOf(out);
  const inside = Layout.contiguous([10]);
  const cases: [Layout, Layout][] = [
    [Layout.contiguous([10], 1), inside],
    [inside, Layout.contiguous([10], 1)],
    [inside, new Layout([10], [-1], 8)],
    [new Layout([2, 5], [6, 1], 0), Layout.contiguous([2, 5])],
    [inside, new Layout([10], [2], 0)],
    [inside, new Layout([10], [1], NaN)],
  ];
  for (const [to, from] of cases) {
    const plan = planMap(to, from, null, null);
    const source = fill("float32", 10, false);
    const error = assertThrows(
      () => native.map(MAP.neg, "float32", plan, out, source, null, null),
      NativeError,
    );
    assertEquals([error.symbol, error.status], ["rm_map", STATUS.bounds]);
    assertSame(out, before, "the output");
  }
  const over = planReduce(Layout.contiguous([1]), Layout.contiguous([11]), null, [true], false);
  assertThrows(
    () => native.reduce(REDUCE.sum, over, out, before, null),
    NativeError,
    "0 to 10 of 10",
  );
  const gone = new Float32Array(10);
  structuredClone(gone, { transfer: [gone.buffer] });
  const plan = planMap(inside, inside, null, null);
  assertThrows(
    () => native.map(MAP.neg, "float32", plan, out, adopt("float32", gone), null, null),
    NativeError,
    "of 0",
  );
  if ("reason" in native.blas()) return;
  const ref = (storage: Storage, offset: number): MatrixRef => ({
    storage,
    offsets: [offset],
    rowStride: 3,
    columnStride: 1,
  });
  const multiply = (c: number, a: number, b: number): void =>
    native.matmul(3, 3, 3, ref(out, c), ref(before, a), ref(before, b));
  for (const [c, a, b] of [[2, 0, 0], [0, 2, 0], [0, 0, -1]] as const) {
    assertThrows(() => multiply(c, a, b), NativeError, "rm_matmul");
  }
});

/** Ways to lay matrices out; whether GEMM can read them as they are. */
const MATRICES: Record<string, [direct: boolean, (rows: number, columns: number) => Layout]> = {
  rowMajor: [true, (r, c) => Layout.contiguous([r, c], MARGIN)],
  columnMajor: [true, (r, c) => Layout.contiguous([c, r], MARGIN).transpose()],
  wideRows: [true, (r, c) => new Layout([r, c], [c + 3, 1], MARGIN)],
  wideColumns: [true, (r, c) => new Layout([r, c], [1, r + 2], MARGIN)],
  strided: [false, (r, c) => new Layout([r, c], [2 * c + 1, 2], MARGIN)],
  reversed: [false, (r, c) => Layout.contiguous([r, c], MARGIN).flip()],
  repeatedRows: [false, (r, c) => Layout.contiguous([1, c], MARGIN).broadcastTo([r, c])],
};

function matrices(layout: Layout, dtype: DType, batch: number, step: number): MatrixRef {
  const length = layout.extent()[1] + 1 + MARGIN;
  const storage = fill(dtype, length + (batch - 1) * step * length, false);
  return {
    storage,
    offsets: Array.from({ length: batch }, (_, i) => layout.offset + i * step * length),
    rowStride: layout.strides[0]!,
    columnStride: layout.strides[1]!,
  };
}

/** Multiplies in both backends; gives how many calls `backend` handed on. */
function checkMatmul(
  backend: NativeBackend,
  dtype: DType,
  [m, n, k]: number[],
  [kindC, kindA, kindB]: string[],
  batch = 1,
): number {
  const a = matrices(MATRICES[kindA!]![1](m!, k!), dtype, batch, 1);
  // The second operand is the same one for the whole batch.
  const b = matrices(MATRICES[kindB!]![1](k!, n!), dtype, batch, 0);
  const c = matrices(MATRICES[kindC!]![1](m!, n!), dtype, batch, 1);
  // What a product does not write stays NaN, and nothing may read it.
  (c.storage.array as Float64Array).fill(NaN);
  const expected = { ...c, storage: copyOf(c.storage) };
  const asked = handedOn(() => backend.matmul(m!, n!, k!, c, a, b));
  js.matmul(m!, n!, k!, expected, a, b);
  const what = `${dtype} [${m}, ${k}] ${kindA} @ [${k}, ${n}] ${kindB} to ${kindC}`;
  // k roundings of sums of up to k products of elements up to 8.
  const bound = (dtype === "float32" ? 2 ** -24 : 2 ** -53) * (k! + 1) * 64 * k!;
  for (let i = 0; i < c.storage.array.length; i++) {
    const [x, y] = [Number(c.storage.array[i]), Number(expected.storage.array[i])];
    const close = (Number.isNaN(x) && Number.isNaN(y)) || Math.abs(x - y) <= bound;
    if (!close) throw new Error(`${what}: element ${i} is ${x}, expected ${y}`);
  }
  return asked;
}

const PRODUCTS = [[3, 2, 3], [1, 1, 1], [1, 5, 7], [5, 1, 7], [5, 7, 1], [17, 33, 65], [
  64,
  64,
  64,
]];

check("products of every layout agree with js, and BLAS reads in place what it can", () => {
  const found = !("reason" in native.blas());
  for (const dtype of ["float32", "float64"] as const) {
    for (const sizes of PRODUCTS) {
      for (const kindA of Object.keys(MATRICES)) {
        for (const kindB of Object.keys(MATRICES)) {
          for (const kindC of ["rowMajor", "columnMajor", "wideRows", "wideColumns"]) {
            const asked = checkMatmul(native, dtype, sizes, [kindC, kindA, kindB]);
            // Axes of size 1 make some of the other layouts readable, too.
            const direct = MATRICES[kindA]![0] && MATRICES[kindB]![0];
            if (direct || !found) assertEquals(asked, found ? 0 : 1, `${sizes} ${kindA} ${kindB}`);
            else if (Math.min(...sizes) > 1) assertEquals(asked, 1, `${sizes} ${kindA} ${kindB}`);
          }
        }
      }
    }
    const batched = checkMatmul(
      native,
      dtype,
      [6, 7, 8],
      ["rowMajor", "rowMajor", "columnMajor"],
      40,
    );
    assertEquals(batched, found ? 0 : 1);
  }
});

check("empty and integer products are handed on", () => {
  const kind = ["rowMajor", "rowMajor", "rowMajor"];
  assertEquals(checkMatmul(native, "float32", [3, 4, 0], kind), 1);
  assertEquals(checkMatmul(native, "float32", [0, 4, 3], kind), 1);
  assertEquals(checkMatmul(native, "int32", [3, 4, 5], kind), 1);
});

check("without a BLAS products are handed on", () => {
  const without: Shim = { ...shim, rm_blas_open: () => STATUS.notFound };
  const backend = new NativeBackend(without, fallback);
  assertEquals(Object.keys(backend.blas()), ["reason"]);
  assertEquals(
    checkMatmul(backend, "float32", [17, 33, 65], ["rowMajor", "rowMajor", "rowMajor"]),
    1,
  );
});

check("setBackend chooses what serves the cpu, and tensors work on both", () => {
  const before = info().devices.cpu;
  const compute = (): unknown => {
    const x = arange(600).reshape([20, 30]);
    return [
      x.T.add(1).sum(0).toArray(),
      x.matmul(x.T).slice(0, 0).item(),
      x.exp().isinf().any().item(),
    ];
  };
  const expected = compute();
  try {
    setBackend("native");
    assertEquals(info().devices.cpu, "native");
    assertEquals(info().backends.native, "in use");
    assertEquals(compute(), expected);
  } finally {
    setBackend("js");
  }
  assertEquals(info().devices.cpu, before);
  assertThrows(() => setBackend("abacus" as "js"), DeviceError, "abacus");
});

check("what is no library, or another one, gives a reason", () => {
  for (const path of [join(root, "missing.so"), join(root, "package.json"), ""]) {
    const result = openShim(path);
    assert("reason" in result && result.reason.length > 0, path);
  }
});

const inDeno = "Deno" in globalThis;

interface DenoCommand {
  Command: new (path: string, options: object) => {
    outputSync(): { success: boolean; stdout: Uint8Array; stderr: Uint8Array };
  };
}

/** Runs a program in a process of its own, with only the given permissions; gives its output. */
function runApart(code: string, env: Record<string, string>, permissions: string[]): string {
  const url = (path: string): string => JSON.stringify(new URL(path, import.meta.url).href);
  const folder = mkdtempSync(join(tmpdir(), "rowmajor-native-"));
  try {
    const program = join(folder, "program.ts");
    writeFileSync(
      program,
      `import { openNative } from ${url("../src/backends/native/load.ts")};
      import { JsBackend } from ${url("../src/backends/js/backend.ts")};
      const native: any = openNative(new JsBackend());\n${code}`,
    );
    if (!inDeno) {
      const options = { cwd: root, encoding: "utf8", env: { ...process.env, ...env } } as const;
      const { stdout, stderr, status } = spawnSync(process.execPath, [program], options);
      assertEquals(status, 0, stderr);
      return stdout;
    }
    // Deno's node:child_process would add all permissions.
    const { Command } = (globalThis as unknown as { Deno: DenoCommand }).Deno;
    const args = ["run", "--quiet", "--no-check", ...permissions, program];
    const result = new Command(process.execPath, { args, cwd: root, env, stdin: "null" })
      .outputSync();
    const [stdout, stderr] = [result.stdout, result.stderr].map((b) => new TextDecoder().decode(b));
    assert(result.success, stderr);
    assertEquals(stderr, "");
    return stdout!;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

check("a BLAS that is named and not there gives a reason that names it", () => {
  const env = { ROWMAJOR_OPENBLAS: join(root, "missing.so"), ROWMAJOR_LIB: library };
  const output = runApart("console.log(native.blas().reason)", env, [
    "--allow-ffi",
    "--allow-env=ROWMAJOR_LIB",
  ]);
  assertStringIncludes(output, "missing.so");
});

check("ROWMAJOR_LIB names the library", () => {
  const env = { ROWMAJOR_LIB: join(root, "missing.so") };
  const permissions = ["--allow-ffi", "--allow-env=ROWMAJOR_LIB"];
  assertStringIncludes(runApart("console.log(native.reason)", env, permissions), "missing.so");
});

if (inDeno) {
  check("without a permission there is a reason, and no question", () => {
    const code = "console.log(native.reason ?? native.name)";
    // Even the name of the library is not asked for.
    assertStringIncludes(runApart(code, {}, []), "use --allow-ffi");
    assertStringIncludes(runApart(code, {}, ["--deny-ffi"]), "use --allow-ffi");
    assertStringIncludes(runApart(code, {}, [`--allow-ffi=${library}`]), "native");
  });
}

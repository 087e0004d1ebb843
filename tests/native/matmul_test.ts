/**
 * Matrix products on the native backend: every layout and dtype against the js backend, and the
 * calls of BLAS, counted by a mock.
 *
 * The shim's own kernels are tested first, before any test opens a BLAS.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { test } from "node:test";
import { runZig } from "../../scripts/tools.ts";
import { type MatrixBatch, matrixBatch } from "../../src/ops/matmul/problem.ts";
import { STATUS } from "../../src/backend/ffi/abi.ts";
import { NativeBackend } from "../../src/backend/native/backend.ts";
import { DTYPE, type DType, DTYPES } from "../../src/base/dtype.ts";
import { readElement, writeElement } from "../../src/memory/element.ts";
import { Layout } from "../../src/base/layout.ts";
import { isSampled, RUNS_ALL } from "../support/amount.ts";
import {
  assertSameBytes,
  calls,
  check,
  copyOf,
  fill,
  findZig,
  js,
  LEVELS,
  MARGIN,
  moduleAt,
  native,
  NativeCalls,
  runApart,
  shim,
  when,
} from "./support.ts";

/** Ways to lay matrices out. */
const MATRICES: Record<string, (rows: number, columns: number) => Layout> = {
  rowMajor: (r, c) => Layout.contiguous([r, c], MARGIN),
  columnMajor: (r, c) => Layout.contiguous([c, r], MARGIN).transpose(),
  wideRows: (r, c) => new Layout([r, c], [c + 3, 1], MARGIN),
  wideColumns: (r, c) => new Layout([r, c], [1, r + 2], MARGIN),
  strided: (r, c) => new Layout([r, c], [2 * c + 1, 2], MARGIN),
  reversed: (r, c) => Layout.contiguous([r, c], MARGIN).flip(),
  repeatedRows: (r, c) => Layout.contiguous([1, c], MARGIN).broadcastTo([r, c]),
};
const KINDS = Object.keys(MATRICES);
/** The number of layouts that a product can be written to. */
const OUTPUTS = 6;

function matrices(layout: Layout, dtype: DType, batch: number, step: number): MatrixBatch {
  const length = layout.extent()[1] + 1 + MARGIN;
  // Integers wrap, floats stay finite.
  const storage = fill(dtype, length + (batch - 1) * step * length, DTYPE[dtype].kind !== "f");
  const { shape, strides, offset } = layout;
  return matrixBatch(
    storage,
    new Layout([batch, ...shape], [step * length, ...strides], offset),
  );
}

/** The relative error of one rounding. */
const EPSILON: Partial<Record<DType, number>> = {
  float16: 2 ** -11,
  bfloat16: 2 ** -8,
  float32: 2 ** -24,
  float64: 2 ** -53,
};

/** Multiplies in both backends. `steps`: whether a and b have a matrix for each of the batch. */
function checkMatmul(
  backend: NativeCalls,
  dtype: DType,
  [m, n, k]: readonly [number, number, number],
  [kindC, kindA, kindB]: readonly [string, string, string],
  batch = 1,
  steps: readonly [number, number] = [1, 1],
): void {
  const a = matrices(MATRICES[kindA]!(m, k), dtype, batch, steps[0]);
  const b = matrices(MATRICES[kindB]!(k, n), dtype, batch, steps[1]);
  const c = matrices(MATRICES[kindC]!(m, n), dtype, batch, 1);
  const before = [copyOf(a.storage), copyOf(b.storage)];
  // The previous contents of the output must not be read, which a product with NaN would show.
  const floats = DTYPE[dtype].kind === "f";
  if (floats) { for (let i = 0; i < c.storage.array.length; i++) writeElement(c.storage, i, NaN); }
  const expected = { ...c, storage: copyOf(c.storage) };
  const what = `${dtype} [${m}, ${k}] ${kindA} @ [${k}, ${n}] ${kindB} to ${kindC}, ` +
    `batch of ${batch}, level ${backend.level}`;
  assertEquals(backend.handedOnBy(() => backend.matmul(c, a, b)), 0, what);
  js.matmul(expected, a, b);
  assertSameBytes(a.storage, before[0]!, `${what}: a`);
  assertSameBytes(b.storage, before[1]!, `${what}: b`);
  if (!floats) return assertSameBytes(c.storage, expected.storage, what);
  // The roundings of sums of up to k products of elements up to 8, in float32 at least; and the
  // result's own.
  const sums = dtype === "float64" ? 2 ** -53 : 2 ** -24;
  const bound = sums * (k + 1) * 64 * k;
  for (let i = 0; i < c.storage.array.length; i++) {
    const x = Number(readElement(c.storage, i));
    const y = Number(readElement(expected.storage, i));
    const close = (Number.isNaN(x) && Number.isNaN(y)) ||
      Math.abs(x - y) <= bound + 2 * EPSILON[dtype]! * Math.abs(y);
    if (!close) throw new Error(`${what}: element ${i} is ${x}, expected ${y}`);
  }
}

const SIZES: [number, number, number][] = [
  [3, 2, 3],
  [1, 1, 1],
  [1, 5, 7],
  [5, 1, 7],
  [5, 7, 1],
  [1, 1, 70],
  [17, 33, 65],
  [48, 40, 37],
];

function checkLayouts(backend: NativeCalls, dtype: DType): void {
  let turn = 0;
  for (const sizes of SIZES) {
    for (const kindA of KINDS) {
      for (const kindB of KINDS) {
        const level = LEVELS[turn % LEVELS.length]!, kindC = KINDS[turn++ % OUTPUTS]!;
        if (!isSampled(`${dtype} [${sizes}] of ${kindA} and ${kindB}`, 4)) continue;
        backend.native.setLevel(level);
        checkMatmul(backend, dtype, sizes, [kindC, kindA, kindB]);
      }
    }
  }
  for (const level of LEVELS) {
    backend.native.setLevel(level);
    for (const steps of [[1, 1], [1, 0], [0, 1], [0, 0]] as const) {
      for (const sizes of [[6, 7, 8], [1, 9, 5], [40, 1, 33]] as [number, number, number][]) {
        checkMatmul(backend, dtype, sizes, ["rowMajor", "rowMajor", "columnMajor"], 11, steps);
        checkMatmul(backend, dtype, sizes, ["columnMajor", "strided", "wideRows"], 3, steps);
      }
    }
  }
}

/** Of c, a and b. The last has rows of a that are copied, and sums stored apart from the result. */
const LARGE: readonly [string, string, string][] = [
  ["rowMajor", "rowMajor", "rowMajor"],
  ["wideColumns", "reversed", "strided"],
  ["strided", "wideColumns", "rowMajor"],
];

/** Products of several blocks, in each direction. */
function checkLarge(backend: NativeCalls, dtypes: readonly DType[]): void {
  let turn = 0;
  for (const dtype of dtypes) {
    const sizes: [number, number, number][] = [[150, 170, 600], [7, 530, 90], [530, 3, 40]];
    if (dtype !== "int64") sizes.push([520, 90, 70], [1, 700, 3000], [700, 1, 3000]);
    for (const size of sizes) {
      backend.native.setLevel(LEVELS[turn % LEVELS.length]!);
      for (const kinds of RUNS_ALL ? LARGE : [LARGE[(turn + DTYPE[dtype].id) % LARGE.length]!]) {
        checkMatmul(backend, dtype, size, kinds);
      }
      turn++;
    }
  }
}

/** Matrices whose rows and columns are not multiples of a kernel's block. */
function checkEdges(backend: NativeCalls, dtype: DType): void {
  for (const level of LEVELS) {
    backend.native.setLevel(level);
    for (let size = 2; size <= 70; size++) {
      checkMatmul(backend, dtype, [size, 71 - size, 5], ["rowMajor", "rowMajor", "rowMajor"]);
      checkMatmul(backend, dtype, [14, size, 40], ["wideRows", "columnMajor", "columnMajor"]);
    }
    for (const m of [1, 2, 3, 4, 5, 7, 8, 32, 33]) {
      for (let n = 1; n <= 33; n += n === 18 ? 13 : 1) {
        for (const k of [1, 4, 8, 9, 32]) {
          if (!isSampled(`${dtype} [${m}, ${n}, ${k}]`, 4)) continue;
          const a = k % 2 === 0 ? "wideRows" : "columnMajor";
          checkMatmul(backend, dtype, [m, n, k], ["rowMajor", a, "rowMajor"], 3);
          checkMatmul(backend, dtype, [m, n, k], ["columnMajor", "columnMajor", a], 2, [1, 0]);
        }
      }
    }
    // Rows of every length times a vector, and many rows times a small matrix.
    for (let k = 1; k <= 70; k++) {
      checkMatmul(backend, dtype, [9, 1, k], ["rowMajor", "rowMajor", "rowMajor"]);
      checkMatmul(backend, dtype, [1, 7, k], ["strided", "strided", "columnMajor"]);
    }
    checkMatmul(backend, dtype, [5001, 3, 3], ["rowMajor", "rowMajor", "rowMajor"]);
    checkMatmul(backend, dtype, [5001, 5, 4], ["wideRows", "wideColumns", "columnMajor"]);
    checkMatmul(backend, dtype, [4, 702, 16], ["columnMajor", "rowMajor", "columnMajor"], 2);
    checkMatmul(backend, dtype, [2, 300, 3], ["rowMajor", "rowMajor", "rowMajor"]);
    checkMatmul(backend, dtype, [2, 250, 3], ["rowMajor", "columnMajor", "columnMajor"]);
    checkMatmul(backend, dtype, [135, 140, 300], ["wideRows", "wideColumns", "wideRows"]);
  }
}

/** Runs on its own kernels, as long as no other test of this file has opened a BLAS. */
const own = shim &&
  new NativeCalls(new NativeBackend({ ...shim, rm_blas_open: () => STATUS.notFound }));

for (const dtype of DTYPES.filter((dtype) => dtype !== "bool")) {
  check(`products of ${dtype} in every layout agree with js`, () => checkLayouts(own, dtype));
}

check("products of every width and height agree with js", () => {
  for (const dtype of ["float32", "float64", "float16", "int16", "int64"] as const) {
    checkEdges(own, dtype);
  }
});

check("products larger than the kernels' blocks agree with js", () => {
  checkLarge(own, ["float32", "float64", "float16", "int32", "int8", "int64"]);
});

check("Matmul through OpenBLAS: products agree with js, where there is one", () => {
  const blas = native.blas();
  if ("reason" in blas) return console.log(`Not through OpenBLAS: ${blas.reason}`);
  for (const dtype of ["float32", "float64"] as const) checkLayouts(calls, dtype);
  checkLarge(calls, ["float32", "float64"]);
});

check("without a BLAS the shim's own kernels serve, as exactly", () => {
  const output = runApart(
    `import { zeros, arange, info, fromBuffer } from ${moduleAt("mod.ts")};
    const { openblas } = info().backends;
    if (!openblas.includes("nowhere")) throw new Error(openblas);
    const lines: unknown[] = [];
    for (const dtype of ["float32", "float64", "float16", "int32"] as const) {
      for (const n of [3, 40, 130]) {
        const x = arange(0, n * n, 1, { dtype: "int32" }).remainder(13).sub(6).reshape([n, n])
          .astype(dtype);
        const y = x.T.add(1);
        lines.push([dtype, n, x.matmul(y).astype("float64").sum().item(),
          x.matmul(y).slice(1, 2).item(), x.slice(0).matmul(y).astype("float64").sum().item()]);
      }
    }
    console.log(JSON.stringify(lines));`,
    { ROWMAJOR_OPENBLAS: "/nowhere/libopenblas.so" },
  );
  const lines = JSON.parse(output) as [DType, number, ...unknown[]][];
  assertEquals(lines.length, 12);
  for (const [dtype, n, sum, one, row] of lines) {
    const x = (i: number, j: number): number => (i * n + j) % 13 - 6;
    // Small integers: exact in every dtype except for the rounding of float16 results.
    if (dtype === "float16") continue;
    let [total, first] = [0, 0];
    for (let i = 0; i < n; i++) {
      for (let j = 0; j < n; j++) {
        let product = 0;
        for (let p = 0; p < n; p++) product += x(i, p) * (x(j, p) + 1);
        total += product;
        if (i === 0) first += product;
        if (i === 1 && j === 2) assertEquals(one, product, `${dtype} ${n}`);
      }
    }
    assertEquals([sum, row], [total, first], `${dtype} ${n}`);
  }
});

// ---- what reaches BLAS -------------------------------------------------------------------------

const FUNCTIONS = ["sgemm", "dgemm", "sgemv", "dgemv", "sdot", "ddot"];

interface Noted {
  name: string;
  calls: number[];
  last: number[];
  right: boolean;
}

/** Multiplies each case in a process with the mock BLAS. */
function noteCalls(mock: string, cases: unknown[]): Noted[] {
  const output = runApart(
    `import { findNative } from ${moduleAt("src/backend/cpu.ts")};
    import { JsBackend } from ${moduleAt("src/backend/js/backend.ts")};
    import { BackendCalls } from ${moduleAt("tests/calls.ts")};
    import { matrixBatch } from ${moduleAt("src/ops/matmul/problem.ts")};
    import { Layout } from ${moduleAt("src/base/layout.ts")};
    import { allocate } from ${moduleAt("src/memory/pool.ts")};
    import { openLibrary } from ${moduleAt("tests/native/ffi.ts")};
    const js = new BackendCalls(new JsBackend(), new JsBackend());
    const native: any = findNative();
    const products = new BackendCalls(native, native);
    const blas = native.blas();
    if (blas.config !== "OpenBLAS mock") throw new Error(JSON.stringify(blas));
    const mock: any = openLibrary(${JSON.stringify(mock)}, {
      mock_calls: ["i32", "i32"],
      mock_last: ["void", "buffer"],
    });
    if (mock.mock_calls(6) !== 1) throw new Error("it was not told the number of threads");
    const results: unknown[] = [];
    for (const { name, dtype, c, a, b } of ${JSON.stringify(cases)} as any) {
      const make = ({ shape, strides, offset, length }: any): any => {
        const storage = allocate(dtype, length, true);
        for (let i = 0; i < length; i++) storage.array[i] = i * 7 % 11 - 5;
        return matrixBatch(storage, new Layout(shape, strides, offset));
      };
      const [to, other, left, right] = [c, c, a, b].map(make);
      to.storage.array.fill(NaN);
      mock.mock_calls(-1);
      products.matmul(to, left, right);
      other.storage.array.fill(NaN);
      js.matmul(other, left, right);
      const last = new Int32Array(8);
      mock.mock_last(last);
      const calls = [0, 1, 2, 3, 4, 5].map((which) => mock.mock_calls(which));
      const expected = other.storage.array;
      const same = expected.every((x: number, i: number) => Object.is(x, to.storage.array[i]));
      results.push({ name, calls, last: [...last], right: same });
    }
    console.log(JSON.stringify(results));`,
    { ROWMAJOR_OPENBLAS: mock, ROWMAJOR_BLAS_ALWAYS: "1" },
  );
  return JSON.parse(output) as Noted[];
}

const zig = findZig();

// Building that library takes zig.
test(...when(
  { zig: zig !== undefined },
  "Matmul through OpenBLAS: it reads in place what it can, and nothing else reaches it",
  (folder) => {
    const suffix = process.platform === "win32" ? "dll" : "so";
    const mock = join(folder, `mock_blas.${suffix}`);
    const source = fileURLToPath(new URL("c/mock_blas.c", import.meta.url));
    const args = ["cc", "-shared", "-fPIC", "-O1", "-o", mock, source];
    runZig(args);

    const [m, n, k] = [5, 6, 7];
    const batch = 3;
    /** A matrix with room for `count` of itself, `step` apart. */
    const matrix = (
      rows: number,
      columns: number,
      strides: [number, number],
      count = 1,
      step = 0,
    ) => {
      const reach = (rows - 1) * Math.abs(strides[0]) + (columns - 1) * Math.abs(strides[1]);
      const low = Math.min(0, (rows - 1) * strides[0]) + Math.min(0, (columns - 1) * strides[1]);
      return {
        shape: [count, rows, columns],
        strides: [step, ...strides],
        offset: 2 - low,
        length: reach + 4 + (count - 1) * step,
      };
    };
    const layouts: Record<string, (r: number, c: number) => ReturnType<typeof matrix>> = {
      "row-major": (r, c) => matrix(r, c, [c, 1]),
      "column-major": (r, c) => matrix(r, c, [1, r]),
      "strided rows": (r, c) => matrix(r, c, [c + 4, 1]),
      "strided columns": (r, c) => matrix(r, c, [1, r + 2]),
      "strided inside": (r, c) => matrix(r, c, [2 * c, 2]),
      "reversed": (r, c) => matrix(r, c, [-c, -1]),
      "overlapping rows": (r, c) => matrix(r, c, [1, 1]),
      "repeated rows": (r, c) => matrix(r, c, [0, 1]),
    };
    const direct = ["row-major", "column-major", "strided rows", "strided columns"];
    interface Case {
      name: string;
      dtype: string;
      sizes: number[];
      c: unknown;
      a: unknown;
      b: unknown;
      expected: number;
    }
    const cases: Case[] = [];
    for (const dtype of ["float32", "float64"]) {
      for (const [kindA, layA] of Object.entries(layouts)) {
        for (const [kindB, layB] of Object.entries(layouts)) {
          for (const kindC of direct) {
            cases.push({
              name: `${dtype} ${kindA} @ ${kindB} to ${kindC}`,
              dtype,
              sizes: [m, n, k],
              c: layouts[kindC]!(m, n),
              a: layA(m, k),
              b: layB(k, n),
              expected: direct.includes(kindA) && direct.includes(kindB) ? 1 : 0,
            });
          }
        }
      }
      const dense = (r: number, c: number) => matrix(r, c, [c, 1], batch, r * c);
      const still = (r: number, c: number) => matrix(r, c, [c, 1], batch, 0);
      const apart = (r: number, c: number) => matrix(r, c, [c, 1], batch, r * c + 2);
      const columns = (r: number, c: number) => matrix(r, c, [1, r], batch, r * c);
      const batches: [string, number, typeof dense, typeof dense, typeof dense][] = [
        ["a batch", batch, dense, dense, dense],
        ["a batch of transposed ones", batch, dense, columns, columns],
        // One tall product.
        ["b for the whole batch", 1, dense, dense, still],
        ["b for the whole batch, a with gaps", batch, dense, apart, still],
        ["a for the whole batch", batch, dense, still, dense],
        // One wide product.
        ["a for the whole batch, columns", 1, columns, still, columns],
      ];
      for (const [name, expected, c, a, b] of batches) {
        cases.push({
          name: `${dtype} ${name}`,
          dtype,
          sizes: [m, n, k],
          c: c(m, n),
          a: a(m, k),
          b: b(k, n),
          expected,
        });
      }
      // Products with a vector, and of two.
      for (const sizes of [[1, n, k], [m, 1, k], [1, 1, k], [m, n, 1]]) {
        const [r, s, q] = sizes as [number, number, number];
        cases.push({
          name: `${dtype} [${sizes}]`,
          dtype,
          sizes,
          c: matrix(r, s, [s, 1]),
          a: matrix(r, q, [q, 1]),
          b: matrix(q, s, [s, 1]),
          expected: 1,
        });
      }
    }
    const noted = noteCalls(mock, cases);
    assertEquals(noted.length, cases.length);
    noted.forEach(({ name, calls, last, right }, i) => {
      const { dtype, sizes, expected } = cases[i]!;
      assert(right, `${name}: another result`);
      const total = calls.reduce((p, q) => p + q, 0);
      assertEquals(total, expected, `${name}: calls of ${FUNCTIONS} are ${calls}`);
      // The functions of the dtype, and no others.
      const own = dtype === "float32" ? 0 : 1;
      calls.forEach((count, which) => assert(count === 0 || which % 2 === own, `${name} ${calls}`));
      if (calls[own] !== 1 || sizes.includes(1) || name.includes("batch")) return;
      const [rows, columns] = [last[2]!, last[3]!];
      assertEquals([rows * columns, last[4]], [m * n, k], `${name}: m, n and k are ${last}`);
    });
    const transposed = noted.find(({ name }) =>
      name === "float32 column-major @ row-major to strided rows"
    )!;
    // Transposed a, plain b; the leading dimensions are their strides.
    assertEquals(transposed.last, [112, 111, m, n, k, m, n, n + 4]);

    // With the names of the build for Python.
    const renamed = join(folder, `scipy_blas.${suffix}`);
    const names = ["cblas_sgemm", "cblas_dgemm", "openblas_get_config", "openblas_set_num_threads"];
    runZig([...args.with(args.indexOf(mock), renamed), ...names.map((n) => `-D${n}=scipy_${n}`)]);
    assertEquals(noteCalls(renamed, cases.slice(0, 1)), noted.slice(0, 1));
  },
));

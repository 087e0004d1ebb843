/**
 * The native backend runs every op, dtype and layout itself, writes the same as the js backend, and
 * writes nothing else.
 *
 * Calls go below dispatch. The other files of this folder test matrix products, threads, plans that
 * leave a storage, and opening the library. zig builds the library if it is installed; without a
 * library everything is skipped. `npm test` runs a sample of the cases of the longest tests.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import type { IndexVector } from "../../src/ops/index/kernels.ts";
import { matrixBatch } from "../../src/ops/matmul/problem.ts";
import { ROW_KERNELS } from "../../src/ops/softmax_norm/problem.ts";
import { STATUS } from "../../src/backend/ffi/abi.ts";
import { NativeBackend } from "../../src/backend/native/backend.ts";
import { checkStore } from "../../src/core/write.ts";
import { DTYPE, type DType, DTYPES, promoteTypes } from "../../src/base/dtype.ts";
import { attempt, NativeError } from "../../src/base/errors.ts";
import { Layout } from "../../src/base/layout.ts";
import { accumulates, computeOf, resultOf, takes } from "../../src/table/infer.ts";
import type { AxisOp, MapOp, ReduceOp, TableOp } from "../../src/table/op.ts";
import { ARG_REDUCE, MAP, REDUCE, SCAN } from "../../src/table/table.ts";
import { ATTRIBUTES, type Plan, planMap, planReduce } from "../../src/base/plan.ts";
import * as random from "../../src/api/random.ts";
import { allocate, allocateShared, wrapExternal } from "../../src/memory/pool.ts";
import type { Storage } from "../../src/memory/storage.ts";
import {
  assertSame,
  assertSameBytes,
  calls,
  check,
  copyOf,
  denseStorage,
  fill,
  handedOn,
  js,
  KINDS,
  LAYOUTS,
  LEVELS,
  mapTolerance,
  MARGIN,
  native,
  NativeCalls,
  NO_AFFINE,
  OUTPUTS,
  shim,
  storageFor,
} from "./support.ts";
import { JsBackend } from "../../src/backend/js/backend.ts";
import { BackendCalls } from "../calls.ts";
import { isSampled, RUNS_ALL } from "../support/amount.ts";
import { foldTolerance, MANY, type Tolerance } from "../ops/table/compare.ts";
import { parametersOf } from "../ops/table/golden.ts";
import { positions } from "../ops/table/operands.ts";
import { readElement, writeElement } from "../../src/memory/element.ts";

/** Loops made for each kind of call, which are faster than the interpreter. */
const loops = new BackendCalls(new JsBackend(), new JsBackend());

function taken(row: TableOp): DType[] {
  return DTYPES.filter((dtype) => takes(row, dtype));
}

function setParameters(plan: Plan, row: TableOp, dtype: DType, count: number): void {
  parametersOf(row, dtype, count).forEach((value, i) => plan.data[ATTRIBUTES + i] = value);
}

// ---- elementwise -------------------------------------------------------------------------------

/** From a single element to tiles, short rows and rows of more than one block. */
const SHAPES = [
  [],
  [1],
  [0],
  [3, 0],
  [7],
  [70],
  [5, 17],
  [33, 40],
  [3, 4, 5],
  [2, 3, 2, 5, 3],
  [300, 3],
  [3, 1030],
];

/** Runs `row` on both backends, with operands of the given dtypes, the output's first. */
function checkMap(
  row: MapOp,
  compute: DType,
  dtypes: readonly DType[],
  shape: readonly number[],
  turn: number,
  tolerance: Tolerance,
): void {
  const pick = (k: number, among: number): string => KINDS[(turn * (2 * k + 1) + k) % among]!;
  const layouts: (Layout | null)[] = [LAYOUTS[pick(0, OUTPUTS)]!(shape), null, null, null];
  const out = storageFor(layouts[0]!, dtypes[0]!);
  const expected = copyOf(out);
  const inputs: (Storage | null)[] = [null, null, null];
  const before: Storage[] = [];
  for (let k = 1; k <= row.arity; k++) {
    const layout = layouts[k] = LAYOUTS[pick(k, KINDS.length)]!(shape);
    inputs[k - 1] = storageFor(layout, dtypes[k]!, true, row.domain);
    before.push(copyOf(inputs[k - 1]!));
  }
  const level = native.setLevel(LEVELS[turn % LEVELS.length]!);
  const kinds = [0, 1, 2, 3].slice(0, row.arity + 1)
    .map((k) => pick(k, k === 0 ? OUTPUTS : KINDS.length));
  const what = `${row.name} of ${dtypes} in ${compute}, [${shape}] ${kinds}, level ${level}`;
  const plan = planMap(layouts[0]!, layouts[1]!, layouts[2]!, layouts[3]!);
  setParameters(plan, row, compute, 0);
  const [a, b, c] = inputs;
  const asked = handedOn(() => calls.map(row, compute, plan, out, a!, b!, c!));
  assertEquals(asked, shape.includes(0) ? 1 : 0, `${what}: calls of the js backend`);
  loops.map(row, compute, plan, expected, a!, b!, c!);
  assertSame(out, expected, what, tolerance);
  before.forEach((storage, k) => assertSameBytes(inputs[k]!, storage, `${what}, operand ${k}`));
}

for (const dtype of DTYPES) {
  check(`elementwise rows of ${dtype} are served, and agree with js in every layout`, () => {
    const rows = Object.values<MapOp>(MAP).filter((row) => taken(row).includes(dtype));
    assert(rows.length >= 10, `only ${rows.length} rows`);
    for (const row of rows) {
      const operands = new Array<DType>(3).fill(dtype);
      if (row.condition) operands[0] = "bool";
      const dtypes = [resultOf(row, dtype), ...operands];
      SHAPES.forEach((shape, i) => {
        const times = shape.length < 2 ? 1 : 3;
        for (let t = 0; t < times; t++) {
          if (!isSampled(`${row.name} of ${dtype}, [${shape}], ${t}`, 12)) continue;
          const turn = row.id + i * 5 + t * 3;
          checkMap(row, computeOf(row, dtype), dtypes, shape, turn, mapTolerance(row, dtype));
        }
      });
    }
  });
}

check("casts on the way in and out are served for every pair of dtypes", () => {
  let cases = 0;
  for (const row of Object.values<MapOp>(MAP)) {
    for (const dtype of taken(row)) {
      const compute = computeOf(row, dtype);
      const result = resultOf(row, dtype);
      for (const other of DTYPES) {
        const turn = cases;
        const tries = isSampled(`${row.name} of ${dtype} to ${other}`, 24) ? checkMap : () => {};
        const operands = new Array<DType>(3).fill(dtype);
        if (row.condition) operands[0] = "bool";
        // Into an output of another dtype; copies cast to any.
        if (row === MAP.copy || !attempt(() => checkStore(DTYPE[result], DTYPE[other], "")).error) {
          const tolerance = mapTolerance(row, dtype);
          // An error in units of one float dtype may be any number of units of another.
          const other16 = DTYPE[other].bytes === 2 && DTYPE[result].bytes === 2;
          const finer = DTYPE[other].bytes > DTYPE[result].bytes || (other16 && other !== result);
          const close = tolerance.ulp > 0 && finer ? { ...tolerance, ulp: Infinity } : tolerance;
          tries(row, compute, [other, ...operands], [3, 19], turn, close);
          cases++;
        }
        // Next to an operand that is promoted.
        const to = attempt(() => promoteTypes(dtype, other)).value;
        if (row.arity < 2 || to === undefined || !taken(row).includes(to)) continue;
        operands[row.arity - 1] = other;
        const into = resultOf(row, to);
        tries(
          row,
          computeOf(row, to),
          [into, ...operands],
          [2, 23],
          turn,
          mapTolerance(row, to),
        );
        cases++;
      }
    }
  }
  assert(cases > 5000, `only ${cases} cases`);
});

check("dense and scalar operands agree with js at every length up to 70, and around blocks", () => {
  const lengths = [...Array.from({ length: 70 }, (_, i) => i + 1), 1023, 1024, 1025, 2049];
  for (const level of LEVELS) {
    native.setLevel(level);
    for (const dtype of DTYPES) {
      if (!taken(MAP.sub).includes(dtype)) continue;
      for (const n of lengths) {
        const [dense, one] = [Layout.contiguous([n], MARGIN), Layout.contiguous([], MARGIN)];
        for (const [la, lb] of [[dense, dense], [dense, one], [one, dense], [one, one]] as const) {
          const [a, b] = [storageFor(la, dtype), storageFor(lb, dtype)];
          const out = storageFor(dense, dtype);
          const expected = copyOf(out);
          const plan = planMap(dense, la, lb, null);
          calls.map(MAP.sub, dtype, plan, out, a, b, null);
          loops.map(MAP.sub, dtype, plan, expected, a, b, null);
          assertSame(out, expected, `sub ${dtype} of ${n}, level ${level}`);
        }
      }
    }
  }
});

check("an element is written to rows of every length, whatever its bytes, and nowhere else", () => {
  const lengths = [...Array.from({ length: 140 }, (_, i) => i + 1), 1025, 40_000, 400_001];
  for (const level of LEVELS) {
    native.setLevel(level);
    for (const dtype of ["bool", "int8", "uint16", "float16", "float32", "int64"] as const) {
      // Zeros, the same byte throughout, and others; each row has its own in the second plan.
      const elements = storageFor(Layout.contiguous([3], MARGIN), dtype);
      const bytes = new Uint8Array(elements.array.buffer, elements.array.byteOffset);
      const size = DTYPE[dtype].bytes;
      const values = dtype === "bool"
        ? [0, 1, 1]
        : [0, dtype.startsWith("float") ? 0x35 : 0xff, 0x35];
      values.forEach((value, i) => bytes.fill(value, (MARGIN + i) * size, (MARGIN + i + 1) * size));
      if (dtype !== "bool") bytes[(MARGIN + 2) * size] = 0x36;
      for (const n of lengths) {
        const rows = new Layout([3, n], [n + 5, 1], MARGIN);
        const each = new Layout([3, n], [1, 0], MARGIN);
        for (const from of [each, ...[0, 1, 2].map((i) => new Layout([], [], MARGIN + i))]) {
          const to = from === each ? rows : Layout.contiguous([n], MARGIN + 3);
          const out = storageFor(to, dtype);
          const expected = copyOf(out);
          const plan = planMap(to, from, null, null);
          calls.map(MAP.copy, dtype, plan, out, elements, null, null);
          loops.map(MAP.copy, dtype, plan, expected, elements, null, null);
          assertSameBytes(
            out,
            expected,
            `${dtype}, ${n} of ${from.offset - MARGIN}, level ${level}`,
          );
        }
      }
    }
  }
});

check("planes are merged into elements, and elements parted into planes, however many", () => {
  const pairs: [from: DType, to: DType][] = [
    ["uint8", "uint8"],
    ["float16", "float16"],
    ["float32", "float32"],
    ["int64", "int64"],
    ["uint8", "float32"],
    ["float32", "uint8"],
  ];
  for (const [from, to] of pairs) {
    for (let planes = 2; planes <= 17; planes++) {
      if (!isSampled(`${planes} planes of ${from} to ${to}`, 8)) continue;
      const lengths = [1, 7, 8, 9, 31, 127, 128, 130, 1024, 1031];
      // Long enough for threads to share them.
      if (planes % 5 === 3) lengths.push(90_001);
      for (const [turn, n] of lengths.entries()) {
        native.setLevel(LEVELS[(turn + planes) % LEVELS.length]!);
        const apart = n + turn % 3;
        const dense = Layout.contiguous([n, planes], MARGIN);
        const each = new Layout([n, planes], [1, apart], MARGIN + turn % 4);
        for (const axes of [[], [0], [1], [0, 1]]) {
          for (const [target, source] of [[dense, each], [each, dense], [each, each]] as const) {
            // The plan decides the order of axes.
            const [out, a] = turn % 2
              ? [target, source]
              : [target.permute([1, 0]), source.permute([1, 0])];
            const input = a.flip(axes);
            const plan = planMap(out, input, null, null);
            const x = storageFor(input, from, false, [0, 200]), y = storageFor(out, to);
            const expected = copyOf(y);
            calls.map(MAP.copy, from, plan, y, x, null, null);
            loops.map(MAP.copy, from, plan, expected, x, null, null);
            const what = `${planes} of ${n} ${from} to ${to}, flipped ${axes}: ${target.strides}`;
            assertSameBytes(y, expected, what);
          }
        }
      }
    }
  }
});

check("large arrays, which threads share, agree with js in every layout", () => {
  const shapes = [[300_003], [551, 557], [100_003, 3], [3, 100_003], [70, 67, 71]];
  for (const row of [MAP.add, MAP.where] as MapOp[]) {
    for (const dtype of ["float32", "int8", "float64"] as const) {
      const operands = [row.condition ? "bool" : dtype, dtype, dtype] as const;
      const dtypes = [resultOf(row, dtype), ...operands];
      shapes.forEach((shape, i) => {
        if (!isSampled(`${row.name} of ${dtype}, [${shape}]`, 3)) return;
        checkMap(row, dtype, dtypes, shape, row.id + DTYPE[dtype].id * 3 + i, { ulp: 0 });
      });
    }
  }
});

check("outputs that are too large for the caches agree with js, wherever they begin", () => {
  const [rows, columns] = [4200, 1003];
  const dense = (offset: number) => Layout.contiguous([rows, columns], offset);
  const one = new Layout([rows, columns], [0, 0], 2);
  const column = new Layout([rows, columns], [1, 0], 1);
  const cases: [row: MapOp, dtype: DType, out: Layout, inputs: Layout[]][] = [
    [MAP.add, "float32", dense(3), [dense(0), column]],
    [MAP.sub, "float64", dense(5), [column, dense(1)]],
    [MAP.maximum, "int32", dense(1), [one, dense(1)]],
    [MAP.exp, "float32", dense(7), [dense(7)]],
    [MAP.mul, "float16", Layout.contiguous([2 * rows, columns], 1), [
      Layout.contiguous([2 * rows, columns], 4),
      new Layout([2 * rows, columns], [1, 0], 0),
    ]],
    [MAP.where, "float32", dense(0), [dense(3), column, dense(2)]],
  ];
  for (const [turn, [row, dtype, to, from]] of cases.entries()) {
    assert(to.size * DTYPE[dtype].bytes >= 1 << 24, "too small to pass by the caches");
    if (!isSampled(`${row.name} of ${dtype}`, 4)) continue;
    const [la, lb = null, lc = null] = from;
    const [a, b = null, c = null] = from.map((layout, k) =>
      storageFor(layout, row.condition && k === 0 ? "bool" : dtype)
    );
    const plan = planMap(to, la!, lb, lc);
    const before = storageFor(to, dtype);
    const expected = copyOf(before);
    loops.map(row, dtype, plan, expected, a!, b, c);
    for (const level of RUNS_ALL ? LEVELS : [LEVELS.at(-1 - (turn >> 1) % LEVELS.length)!]) {
      native.setLevel(level);
      const out = copyOf(before);
      assertEquals(handedOn(() => calls.map(row, dtype, plan, out, a!, b, c)), 0);
      assertSame(
        out,
        expected,
        `${row.name} of ${dtype}, level ${level}`,
        mapTolerance(row, dtype),
      );
    }
  }
});

check("an output may be an input, element for element", () => {
  for (const [kind, shape] of [["transposed", [33, 40]], ["contiguous", [500, 700]]] as const) {
    const layout = LAYOUTS[kind]!(shape);
    for (const dtype of ["float32", "bfloat16", "int16", "uint64"] as const) {
      const [a, b] = [storageFor(layout, dtype), storageFor(layout, dtype)];
      const expected = copyOf(a);
      const plan = planMap(layout, layout, layout, null);
      calls.map(MAP.add, dtype, plan, a, a, b, null);
      loops.map(MAP.add, dtype, plan, expected, expected, b, null);
      assertSame(a, expected, `a += b of ${dtype}, ${kind}`);
      calls.map(MAP.sub, dtype, plan, b, a, b, null);
      loops.map(MAP.sub, dtype, plan, expected, a, copyOf(b), null);
    }
  }
});

check("rows that are kept for the next block are as wide as that one", () => {
  // Windows that overlap: the last tile of one plane begins where the first one of the next does.
  const [planes, rows, columns, step] = [55, 31, 127, 64];
  const windows = new Layout([planes, rows, columns], [step, 0, 1], 0);
  const across = Layout.contiguous([planes, columns, rows]).permute([0, 2, 1]);
  const target = Layout.contiguous([planes, rows, columns]);
  const a = fill("float32", target.size, false);
  const b = fill("float16", step * (planes - 1) + columns, false);
  const [out, expected] = [
    denseStorage("float32", target.size),
    denseStorage("float32", target.size),
  ];
  for (const level of LEVELS) {
    native.setLevel(level);
    calls.map(MAP.add, "float32", planMap(target, across, windows, null), out, a, b, null);
    loops.map(MAP.add, "float32", planMap(target, across, windows, null), expected, a, b, null);
    assertSameBytes(out, expected, `level ${level}`);
  }
});

check("values of functions depend neither on the length nor on what is written over", () => {
  const most = 1041;
  const long = Layout.contiguous([most], MARGIN);
  for (const level of LEVELS) {
    native.setLevel(level);
    for (const row of [MAP.exp, MAP.sin, MAP.hypot] as MapOp[]) {
      for (const dtype of ["float32", "float64", "bfloat16"] as const) {
        const a = storageFor(long, dtype);
        const b = row.arity > 1 ? storageFor(long, dtype) : null;
        // The C library computes sines of large numbers.
        if (dtype !== "bfloat16") (a.array as Float64Array).set([1e30, -1e25], MARGIN + 5);
        const expected = storageFor(long, dtype);
        calls.map(row, dtype, planMap(long, long, b && long, null), expected, a, b, null);
        for (const n of [...Array.from({ length: 40 }, (_, i) => i + 1), most]) {
          const layout = Layout.contiguous([n], MARGIN);
          const own = copyOf(a);
          calls.map(row, dtype, planMap(layout, layout, b && layout, null), own, own, b, null);
          const [got, wanted] = [own, expected].map(({ array }) =>
            array.subarray(MARGIN, MARGIN + n)
          );
          assertEquals(got, wanted, `${row.name} of ${n} ${dtype}, level ${level}`);
        }
      }
    }
  }
});

check("values do not depend on where in a line of the cache operands and results begin", () => {
  const n = 4099, span = 4224;
  for (const level of LEVELS) {
    native.setLevel(level);
    for (const row of [MAP.add, MAP.exp, MAP.sin, MAP.hypot, MAP.neg, MAP.minimum] as MapOp[]) {
      for (const dtype of ["float32", "float64", "bfloat16", "int8", "int32"] as const) {
        if (!takes(row, dtype) || computeOf(row, dtype) !== dtype) continue;
        const [a, b] = [fill(dtype, n, true), fill(dtype, n, true)];
        // All in one storage, a multiple of lines apart.
        const run = (offsets: readonly [number, number, number]): Storage["array"] => {
          const all = fill(dtype, 3 * span, true);
          const array = all.array as Float64Array;
          const [out, x, y] = offsets.map((offset, k) => Layout.contiguous([n], k * span + offset));
          array.set(a.array as Float64Array, x!.offset);
          array.set(b.array as Float64Array, y!.offset);
          const before = copyOf(all);
          const two = row.arity > 1;
          const plan = planMap(out!, x!, two ? y! : null, null);
          calls.map(row, dtype, plan, all, all, two ? all : null, null);
          const made = array.slice(out!.offset, out!.offset + n);
          array.set(before.array.subarray(out!.offset, out!.offset + n) as never, out!.offset);
          assertSameBytes(all, before, `around ${row.name} of ${dtype} at ${offsets}`);
          return made as Storage["array"];
        };
        const expected = run([0, 1, 3]);
        for (const offset of [0, 1, 3, 4, 8, 12, 15, 16, 37, 63]) {
          assertEquals(
            run([offset, offset, offset]),
            expected,
            `${row.name} ${dtype} at ${offset}`,
          );
        }
      }
    }
  }
});

check("an unusual operand changes the results of no others", () => {
  const positive = [0, -0, -1, 2 ** -140, Infinity, -Infinity, NaN];
  const turning = [2 ** 20 + 1, -1e30, Infinity, NaN];
  const rows: readonly (readonly [MapOp, DType, readonly number[]])[] = [
    ...[MAP.log, MAP.log2, MAP.log10].map((row) => [row, "float32", positive] as const),
    ...[MAP.sin, MAP.cos, MAP.tan].flatMap((row) => [
      [row, "float32", turning] as const,
      [row, "float64", turning] as const,
    ]),
  ];
  const layout = Layout.contiguous([600]);
  const plan = planMap(layout, layout, null, null);
  for (const level of LEVELS) {
    native.setLevel(level);
    for (const [row, dtype, unusual] of rows) {
      const usual = fill(dtype, 600, false, row.domain);
      (usual.array as Float64Array).forEach((x, i, all) => all[i] = x || 1);
      const expected = copyOf(usual);
      calls.map(row, dtype, plan, expected, usual, null, null);
      unusual.forEach((value, k) => {
        const at = 100 + 60 * k;
        const [a, out, js] = [copyOf(usual), copyOf(usual), copyOf(usual)];
        a.array[at] = value;
        calls.map(row, dtype, plan, out, a, null, null);
        loops.map(row, dtype, plan, js, a, null, null);
        const what = `${row.name} of ${dtype} with ${value}, level ${level}`;
        assertSame(out, js, what, mapTolerance(row, dtype));
        out.array[at] = expected.array[at]!;
        assertSameBytes(out, expected, what);
      });
    }
  }
});

check("short arrays of rows with one right answer stay in JavaScript", () => {
  const backend = new NativeCalls(new NativeBackend(shim));
  const run = (row: MapOp, n: number): number => {
    const layout = Layout.contiguous([n]);
    const [out, a] = [fill("float32", n, true), fill("float32", n, true)];
    const second = row.arity === 2;
    const plan = planMap(layout, layout, second ? layout : null, null);
    return backend.handedOnBy(() =>
      backend.map(row, "float32", plan, out, a, second ? a : null, null)
    );
  };
  assertEquals(run(MAP.add, 2), 1);
  assertEquals(run(MAP.add, 5000), 0);
  // Rounding must not depend on the length.
  assertEquals(run(MAP.exp, 2), 0);
});

// ---- folds -------------------------------------------------------------------------------------

const FOLD_SHAPES = [
  [],
  [1],
  [0, 3],
  [7],
  [1031],
  [5, 17],
  [17, 300],
  [3, 4, 5],
  [2, 3, 2, 5, 3],
  [60, 70],
];

/** Values whose folds depend on their order only by roundings. */
function foldValues(row: AxisOp, dtype: DType, layout: Layout): Storage {
  if (DTYPE[dtype].kind !== "f") return storageFor(layout, dtype);
  if (row.expr === "a * x") {
    const storage = storageFor(layout, dtype, false, [0.75, 1.25]);
    return storage;
  }
  return storageFor(layout, dtype, row.result === "same" || row.result === "int32", row.domain);
}

/** Folds the axes whose bits are set in `axes` on both backends. */
function checkFold(
  row: AxisOp,
  dtype: DType,
  to: DType,
  shape: readonly number[],
  axes: number,
  turn: number,
  reference: BackendCalls = js,
): void {
  const kind = KINDS[turn % KINDS.length]!;
  const layout = LAYOUTS[kind]!(shape);
  const reduced = shape.map((_, axis) => (axes >> axis & 1) === 1);
  const kept = shape.map((n, axis) => reduced[axis] ? 1 : n);
  const outKind = KINDS[turn % OUTPUTS]!;
  const outLayout = LAYOUTS[outKind]!(row.kind === "scan" ? shape : kept);
  const a = foldValues(row, dtype, layout);
  const paired = row.kind === "reduce" && row.arity === 2;
  const second = paired ? LAYOUTS[KINDS[(turn * 3 + 1) % OUTPUTS]!]!(kept) : null;
  const { kind: sort, bytes } = DTYPE[dtype];
  // As wide as the composites of these ops make it.
  const wide = sort !== "f" ? "float64" : bytes === 2 ? "float32" : dtype;
  const b = second && storageFor(second, wide, false, [-2, 2]);
  const out = storageFor(outLayout, to);
  const expected = copyOf(out);
  const before = copyOf(a);
  const plan = planReduce(outLayout, layout, second, reduced, row.kind !== "reduce");
  const count = shape.reduce((n, size, axis) => reduced[axis] ? n * size : n, 1);
  setParameters(plan, row, dtype, count);
  const level = native.setLevel(LEVELS[turn % LEVELS.length]!);
  const what = `${row.name} of ${dtype} to ${to}, [${shape}] ${kind} over [${reduced}], ` +
    `level ${level}`;
  const asked = handedOn(() => calls.fold(row, plan, out, a, b));
  // C compares integers as int64.
  const isLeft = dtype === "uint64" && (row === SCAN.cumulativeMax || row === SCAN.cumulativeMin);
  assertEquals(asked, shape.includes(0) || isLeft ? 1 : 0, `${what}: calls of the js backend`);
  reference.fold(row, plan, expected, a, b);
  const values = positions(layout).map((at) => readElement(a, at));
  const tolerance = foldTolerance(row, to, values, dtype);
  // Both may be off.
  assertSame(out, expected, what, { ...tolerance, ulp: tolerance.ulp && 2 * tolerance.ulp + 1 });
  assertSameBytes(a, before, `${what}: the input`);
}

/** The dtypes of folds of `dtype`: the op's default, and those of the option `dtype`. */
function foldResults(row: AxisOp, dtype: DType): DType[] {
  const usual = resultOf(row, dtype);
  return accumulates(row) && usual !== dtype && dtype !== "bool" ? [usual, dtype] : [usual];
}

const FOLDS: AxisOp[] = [
  ...Object.values(REDUCE),
  ...Object.values(ARG_REDUCE),
  ...Object.values(SCAN),
];

for (const row of FOLDS) {
  check(`${row.name} is served, and agrees with js over every choice of axes`, () => {
    let turn = 0;
    for (const dtype of taken(row)) {
      for (const to of foldResults(row, dtype)) {
        for (const shape of FOLD_SHAPES) {
          const subsets = 1 << shape.length;
          for (let axes = 0; axes < subsets; axes++) {
            // Scans go along one axis, indexes over one or all.
            const one = axes !== 0 && (axes & (axes - 1)) === 0;
            if (row.kind === "scan" && !one) continue;
            if (row.kind === "argReduce" && !one && axes !== subsets - 1) continue;
            const nothing = shape.some((n, axis) => n === 0 && (axes >> axis & 1) === 1);
            if (nothing && row.kind !== "scan") {
              if (row.kind === "argReduce" || row.nonEmpty) continue;
            }
            turn++;
            if (!isSampled(`${row.name} of ${dtype} to ${to}, [${shape}] ${axes}`, 5)) continue;
            checkFold(row, dtype, to, shape, axes, turn);
          }
        }
      }
    }
  });
}

check("large arrays fold as in js, whichever axes are kept", () => {
  for (const row of [REDUCE.sum, REDUCE.max, ARG_REDUCE.argmin, SCAN.cumulativeSum] as AxisOp[]) {
    for (const dtype of ["float32", "int16"] as const) {
      const to = resultOf(row, dtype);
      for (const [shape, axes] of [[[300_007], 1], [[500, 601], 1], [[500, 601], 2]] as const) {
        for (const turn of [0, 1]) {
          if (!isSampled(`${row.name} of ${dtype}, [${shape}] ${axes}, ${turn}`, 4)) continue;
          checkFold(row, dtype, to, shape, axes, turn, loops);
        }
      }
    }
  }
});

check("many rows of a few elements fold as in js", () => {
  const rows = [REDUCE.sum, REDUCE.mean, REDUCE.max, SCAN.cumulativeSum, SCAN.cumulativeProd];
  for (const row of rows as AxisOp[]) {
    for (const dtype of ["uint8", "int16", "uint32", "int64", "float32", "float64"] as const) {
      const to = resultOf(row, dtype);
      for (const columns of [1, 2, 3, 4, 7, 15, 16]) {
        if (!isSampled(`${row.name} of ${dtype}, ${columns} columns`, 6)) continue;
        for (const turn of [0, 1]) checkFold(row, dtype, to, [2100, columns], 1, turn, loops);
        checkFold(row, dtype, to, [2, 1050, columns], 2, columns, loops);
      }
    }
  }
});

check("rows that overlap fold as in js, the last few columns too", () => {
  const [rows, columns, step] = [100, 1030, 6];
  const windows = new Layout([rows, columns], [step, 1], 0);
  const to = Layout.contiguous([1, columns]);
  for (const row of [REDUCE.sum, REDUCE.max, ARG_REDUCE.argmax, ARG_REDUCE.argmin] as AxisOp[]) {
    for (const dtype of ["float32", "int8", "float64"] as const) {
      const a = fill(dtype, step * rows + columns, false);
      const out = denseStorage(resultOf(row, dtype), columns);
      const expected = copyOf(out);
      const reduced = planReduce(to, windows, null, [true, false], row.kind !== "reduce");
      for (const level of LEVELS) {
        native.setLevel(level);
        assertEquals(handedOn(() => calls.fold(row, reduced, out, a, null)), 0);
        loops.fold(row, reduced, expected, a, null);
        const what = `${row.name} of ${dtype}, level ${level}`;
        const values = positions(Layout.contiguous([a.array.length])).map((at) =>
          readElement(a, at)
        );
        assertSame(out, expected, what, foldTolerance(row, dtype, values, dtype));
      }
    }
  }
});

check("dense rows of few elements fold as in js, whatever their number", () => {
  const rows = [REDUCE.sum, REDUCE.mean, REDUCE.max, REDUCE.min, REDUCE.prod, REDUCE.norm2];
  let cases = 0;
  for (const row of rows as AxisOp[]) {
    for (const dtype of ["float32", "float64", "int32", "int64", "uint32"] as const) {
      if (!taken(row).includes(dtype)) continue;
      const to = resultOf(row, dtype);
      for (const n of [1, 2, 3, 4, 7, 8, 15, 16]) {
        // Products of many elements exceed the range of float32.
        const lengths = row === REDUCE.prod ? [30, 47] : [30, 47, 64, 517, 20_001];
        for (const length of lengths) {
          // Contiguous ones, at each level in turn.
          const turn = cases++ % LEVELS.length * KINDS.length;
          if (!isSampled(`${row.name} of ${dtype}, ${length} rows of ${n}`, 10)) continue;
          checkFold(row, dtype, to, [length, n], 1, turn, loops);
          if (length < 100) checkFold(row, dtype, to, [3, length, n], 2, turn, loops);
        }
      }
    }
  }
});

check("sums keep their precision and their infinities", () => {
  const n = 1_000_000;
  const layout = Layout.contiguous([n]);
  const sum = (dtype: DType, array: Float32Array | Float64Array): number => {
    const out = fill(dtype, 1, false);
    const plan = planReduce(Layout.contiguous([1]), layout, null, [true], false);
    calls.fold(REDUCE.sum, plan, out, wrapExternal(dtype, array), null);
    return Number(out.array[0]);
  };
  for (const level of LEVELS) {
    native.setLevel(level);
    const tenths = new Float64Array(n).fill(0.1);
    const error = Math.abs(sum("float64", tenths) - 1e5);
    assert(error <= 1e-9, `it is ${error} off; a plain sum is 1e-6`);
    const small = new Float32Array(n).fill(2 ** -24);
    small[0] = 2;
    // In float32, nothing remains of the three added to the 2.
    assertEquals(sum("float32", small), Math.fround(2 + (n - 4) * 2 ** -24));
    tenths[n - 7] = Infinity;
    assertEquals(sum("float64", tenths), Infinity);
    tenths[3] = -Infinity;
    assertEquals(sum("float64", tenths), NaN);
  }
});

check("sums of float32 have the same bits at all levels, whatever is in them", () => {
  const limits = [
    3.4e38,
    -3.4e38,
    2 ** 127,
    1e30,
    -1e30,
    2 ** 64,
    2 ** -126,
    -(2 ** -126),
    2 ** -149,
  ];
  const odd = [...limits, Infinity, -Infinity, NaN, -NaN, 0, -0, 2 ** -127, -3 * 2 ** -149];
  let seed = 7;
  const words = new Int32Array(6000).map(() => seed = Math.imul(seed, 1664525) + 1013904223 | 0);
  const tiny = Float32Array.from(words, (bits) => (bits >> 8) * 2 ** -149);
  const wide = new Float32Array(words.map((bits) => bits & 0xbfffffff).buffer);
  const even = Float32Array.from(words, (bits) => bits / 2 ** 32);
  // Along the last axis, and down columns.
  const sum = (row: ReduceOp, array: Float32Array, columns: number): Float64Array => {
    const out = fill("float64", columns, false);
    const layout = Layout.contiguous([array.length / columns, columns]);
    const plan = planReduce(Layout.contiguous([1, columns]), layout, null, [true, false], false);
    calls.fold(row, plan, out, wrapExternal("float32", array), null);
    return out.array as Float64Array;
  };
  const compare = (array: Float32Array, what: string, columns = 1) => {
    const rows = array.length / columns;
    for (const row of [REDUCE.sum, REDUCE.norm1, REDUCE.norm2]) {
      const [first, ...others] = LEVELS.map((level) => {
        native.setLevel(level);
        return sum(row, array, columns);
      });
      for (const other of others) assertEquals(other, first, `${row.name}, ${what}`);
      for (const [column, result] of first!.entries()) {
        const elements = Float32Array.from(
          { length: rows },
          (_, i) => array[i * columns + column]!,
        );
        const all = row === REDUCE.norm2
          ? Math.sqrt(elements.reduce((s, x) => s + x * x, 0))
          : elements.reduce((s, x) => s + Math.abs(x), 0);
        const exact = row === REDUCE.sum ? elements.reduce((s, x) => s + x, 0) : all;
        if (!Number.isFinite(exact)) assertEquals(result, exact, what);
        else {
          const most = (rows < MANY ? 0 : 2 ** -23) + 1e-15 * rows;
          assert(Math.abs(result - exact) <= most * all, `${row.name}, ${what}: ${result}`);
        }
      }
    }
  };
  for (const [kind, array] of Object.entries({ tiny, wide, even })) {
    for (const n of [1, 8, 15, 16, 63, 64, 65, 79, 80, 127, 128, 136, 255, 256, 1000, 6000]) {
      compare(array.slice(0, n), `${n} ${kind}`);
    }
    for (
      const [rows, columns] of [[63, 17], [64, 17], [67, 16], [300, 20], [4, 1500]] as const
    ) {
      compare(array.slice(0, rows * columns), `${rows} rows of ${columns} ${kind}`, columns);
    }
  }
  for (const [turn, x] of odd.entries()) {
    for (const n of [128, 300, 319]) {
      for (let at = turn % 7; at < n; at += 7) {
        if (!isSampled(`${x} at ${at} of ${n}`, 20)) continue;
        const array = even.slice(turn, turn + n);
        array[at] = x;
        compare(array, `${x} at ${at} of ${n}`);
        array[(at * 3 + 32) % n] = -x;
        compare(array, `${x} at ${at} of ${n} and its opposite`);
        array[(at + 32) % n] = x;
        compare(array, `two of ${x} at ${at} of ${n} and their opposite`);
      }
    }
    for (const columns of [16, 19, 31]) {
      const array = even.slice(turn, turn + 66 * columns);
      const before = sum(REDUCE.sum, array, columns);
      array[5 * columns] = x;
      const after = sum(REDUCE.sum, array, columns);
      assertEquals(after.subarray(1), before.subarray(1), `other columns than that with ${x}`);
      for (let row = 0; row < 66; row += 3) array[row * columns + (row + turn) % columns] = x;
      for (let row = 1; row < 66; row += 3) array[row * columns + (row + turn) % columns] = -x;
      compare(array, `${x} and its opposite in ${columns} columns`, columns);
    }
  }
});

check("zeros of both signs are one place, and NaN of either sign is beyond all", () => {
  const shape = [3, 1201];
  const layout = Layout.contiguous(shape);
  const rows = [REDUCE.max, REDUCE.min, ARG_REDUCE.argmax, ARG_REDUCE.argmin] as AxisOp[];
  // The largest of two zeros depends on the order of the fold.
  const values = (storage: Storage, count: number): number[] =>
    Array.from({ length: count }, (_, at) => Number(readElement(storage, at)) + 0);
  for (const dtype of ["float16", "bfloat16"] as const) {
    const infinity = dtype === "float16" ? 0x7c00 : 0x7f80;
    const [zeros, nan] = [[0, 0x8000], [infinity + 1, 0xffff]];
    const draws = [zeros, [...zeros, 0x0001], [...zeros, 0x8001], [infinity, infinity | 0x8000]];
    for (const [turn, some] of [...draws, [...draws.flat(), ...nan]].entries()) {
      const a = fill(dtype, layout.size, false);
      const bits = new Uint16Array(a.array.buffer, a.array.byteOffset, layout.size);
      for (let i = 0; i < bits.length; i++) bits[i] = some[i * i % 101 * 7 % some.length]!;
      for (const reduced of [[true, true], [true, false], [false, true]]) {
        const kept = Layout.contiguous(shape.map((n, axis) => reduced[axis] ? 1 : n));
        for (const row of rows) {
          const out = denseStorage(resultOf(row, dtype), kept.size);
          const expected = copyOf(out);
          const plan = () => planReduce(kept, layout, null, reduced, row.kind === "argReduce");
          js.fold(row, plan(), expected, a, null);
          for (const level of LEVELS) {
            native.setLevel(level);
            calls.fold(row, plan(), out, a, null);
            const what = `${row.name} of ${dtype} ${turn}, level ${level}`;
            assertEquals(values(out, kept.size), values(expected, kept.size), what);
          }
        }
      }
    }
  }
});

// ---- the other calls ---------------------------------------------------------------------------

check("softmax of dense rows is served, within a few units of the exact result", () => {
  const sizes = [[1, 1], [3, 1], [1, 7], [5, 17], [2, 1024], [3, 2500], [70, 64], [400, 1000]];
  for (const level of LEVELS) {
    native.setLevel(level);
    for (const dtype of ["float32", "float64"] as const) {
      for (const [rows, columns] of sizes as [number, number][]) {
        for (const log of [false, true]) {
          if (!isSampled(`${dtype} [${rows}, ${columns}], ${log}, ${level}`, 3)) continue;
          const n = rows * columns;
          const a = denseStorage(dtype, n + 2 * MARGIN);
          const out = denseStorage(dtype, n + MARGIN);
          const before = copyOf(out);
          const what = `${log ? "log" : ""}softmax of ${dtype} [${rows}, ${columns}], ${level}`;
          let done = false;
          const kernel = log ? "logSoftmax" : "softmax";
          const run = (): void => {
            done = calls.alongRows(kernel, rows, columns, out, a, MARGIN, NO_AFFINE);
          };
          assertEquals([handedOn(run), done], [0, true], what);
          for (let r = 0; r < rows; r++) softmaxRow(a, before, r * columns, columns, log);
          // Differences of up to 16 are rounded before the exponential.
          assertSame(out, before, what, { ulp: 12, slack: log ? 2 ** -21 : 0 });
        }
      }
    }
  }
});

/** Writes the softmax of a row that begins {@link MARGIN} elements later in `a`, in doubles. */
function softmaxRow(a: Storage, out: Storage, from: number, columns: number, log: boolean): void {
  const [x, y] = [a.array as Float64Array, out.array as Float64Array];
  const row = Array.from(x.subarray(MARGIN + from, MARGIN + from + columns));
  const most = row.reduce((p, q) => Math.max(p, q));
  const powers = row.map((value) => Math.exp(value - most));
  // With the rounding error of each addition, so that the sum is nearly exact.
  let [sum, lost] = [0, 0];
  for (const power of powers) {
    const next = sum + power;
    lost += sum >= power ? sum - next + power : power - next + sum;
    sum = next;
  }
  sum += lost;
  row.forEach((value, i) => y[from + i] = log ? value - most - Math.log(sum) : powers[i]! / sum);
}

check("rows of 16-bit floats are those of float32, rounded once", () => {
  for (const level of LEVELS) {
    native.setLevel(level);
    for (const dtype of ["float16", "bfloat16"] as const) {
      for (const [rows, columns] of [[3, 1], [70, 17], [9, 1000], [2, 8192]] as const) {
        const n = rows * columns;
        const a = denseStorage(dtype, n + MARGIN);
        const wide = allocate("float32", n + MARGIN, false);
        cast(wide, a);
        const affine = {
          weight: denseStorage("float32", columns),
          bias: denseStorage("float32", columns),
          epsilon: 0.25,
        };
        for (const kernel of ROW_KERNELS) {
          const out = denseStorage(dtype, n + MARGIN);
          const [expected, exact] = [copyOf(out), allocate("float32", n, false)];
          calls.alongRows(kernel, rows, columns, exact, wide, MARGIN, affine);
          cast(expected, exact);
          const run = (): boolean => calls.alongRows(kernel, rows, columns, out, a, MARGIN, affine);
          assertEquals(run(), true);
          assertSame(out, expected, `${kernel} of ${dtype} [${rows}, ${columns}], ${level}`);
        }
      }
    }
  }
});

/** Casts as many dense elements as `source` has. */
function cast(target: Storage, source: Storage): void {
  const layout = Layout.contiguous([source.array.length]);
  const plan = planMap(layout, layout, null, null);
  js.map(MAP.copy, source.info.name, plan, target, source, null, null);
}

check(
  "rows of other dtypes, and long ones of 16 bits, are left to the ops they are made of",
  () => {
    const [a, out] = [denseStorage("float32", 6), denseStorage("float64", 6)];
    for (const kernel of ROW_KERNELS) {
      assertEquals(calls.alongRows(kernel, 2, 3, out, a, 0, NO_AFFINE), false);
      assertEquals(calls.alongRows(kernel, 0, 3, a, a, 0, NO_AFFINE), false);
      const whole = denseStorage("int32", 6);
      assertEquals(calls.alongRows(kernel, 2, 3, whole, whole, 0, NO_AFFINE), false);
      const long = denseStorage("float16", 8193);
      assertEquals(calls.alongRows(kernel, 1, 8193, copyOf(long), long, 0, NO_AFFINE), false);
    }
  },
);

check("sorts are served, and agree with js for every dtype", () => {
  const sizes = [
    ...[[1, 1], [3, 2], [7, 16], [2, 31], [3, 33], [5, 255], [2, 256], [3, 1025], [1, 9000]],
    // Enough to sort in parallel.
    ...[[16, 2], [17, 3], [33, 31], [50, 64], [40, 100], [16, 128], [17, 129], [19, 256]],
    ...[[16, 257], [16, 512], [18, 513], [16, 1000], [31, 1024], [16, 1025]],
  ];
  const compare = (dtype: DType, runs: number, size: number, level: number) => {
    native.setLevel(level);
    for (const descending of [false, true]) {
      for (const special of [false, true]) {
        const values = denseStorage(dtype, runs * size + 2 * MARGIN, special);
        const expected = copyOf(values);
        const before = copyOf(values);
        const order = denseStorage("int32", runs * size + MARGIN);
        const expectedOrder = copyOf(order);
        const what = `sort of ${dtype}, ${runs} runs of ${size}, ${descending}, level ${level}`;
        const asked = handedOn(() => {
          calls.sort(values, MARGIN, runs, size, descending, order);
          assertSameBytes(values, before, `${what}: the values`);
          calls.sort(values, MARGIN, runs, size, descending, null);
        });
        assertEquals(asked, 0, what);
        js.sort(expected, MARGIN, runs, size, descending, expectedOrder);
        assertSame(order, expectedOrder, `${what}: the order`);
        js.sort(expected, MARGIN, runs, size, descending, null);
        assertSame(values, expected, what, { ulp: 0, eitherZero: true });
      }
    }
  };
  for (const dtype of DTYPES) {
    sizes.forEach(([runs, size], i) => {
      const levels = runs! >= 16 ? LEVELS : [LEVELS[i % LEVELS.length]!];
      for (const level of levels) {
        if (isSampled(`${dtype}, ${runs} of ${size}, ${level}`, 12)) {
          compare(dtype, runs!, size!, level);
        }
      }
    });
  }
});

const INTEGERS = DTYPES.filter((dtype) => "iu".includes(DTYPE[dtype].kind));

/** Indexes from 0 to 10, also as -11 to -1 if the dtype has them, some of them twice. */
function picksFrom(dtype: DType, count: number, stride: number): IndexVector {
  const indexes = fill(dtype, MARGIN + count, false);
  const back = DTYPE[dtype].kind === "i" ? 11 : 0;
  for (let i = 0; i < count; i++) {
    writeElement(indexes, MARGIN + i, i * 7 % 11 - (i % 3 === 0 ? back : 0));
  }
  return { indices: indexes, offset: MARGIN, count, size: 11, stride };
}

/** 23 blocks of `shape` that move to or from the places of picks. */
function blocks(
  dtype: DType,
  shape: readonly number[],
  kind: string,
  by: DType,
  scatter: boolean,
): [plan: Plan, out: Storage, source: Storage, picks: IndexVector, step: number] {
  const dense = Layout.contiguous(shape, MARGIN);
  const placed = LAYOUTS[kind]!(shape);
  const span = placed.extent()[1] + 1;
  const picks = picksFrom(by, 23, span);
  const near = fill(dtype, dense.size * picks.count + 2 * MARGIN, true);
  const far = fill(dtype, span * 11 + MARGIN, true);
  const plan = scatter ? planMap(placed, dense, null, null) : planMap(dense, placed, null, null);
  return [plan, scatter ? far : near, scatter ? near : far, picks, dense.size];
}

check("gathers and scatters are served, and agree with js for every dtype and block", () => {
  let turn = 0;
  for (const dtype of DTYPES) {
    for (const shape of [[], [1], [5], [64], [300], [3, 7], [20, 20]]) {
      for (const kind of KINDS) {
        // Each dtype of indexes comes after the other.
        const by = INTEGERS[turn++ % INTEGERS.length]!;
        const what = `${dtype} blocks of [${shape}] ${kind} by ${by}`;
        const [plan, out, source, picks, step] = blocks(dtype, shape, kind, by, false);
        let expected = copyOf(out);
        const gather = (): void => {
          assertEquals(calls.gather(plan, out, source, picks, step), -1);
        };
        assertEquals(handedOn(gather), 0, `gather of ${what}`);
        assertEquals(js.gather(plan, expected, source, picks, step), -1);
        assertSameBytes(out, expected, `gather of ${what}`);
        if (KINDS.indexOf(kind) >= OUTPUTS) continue;
        for (const add of dtype === "bool" ? [false] : [false, true]) {
          const [back, target, values, places, stride] = blocks(dtype, shape, kind, by, true);
          expected = copyOf(target);
          const scatter = (): void => {
            assertEquals(calls.scatter(back, target, values, places, stride, add), -1);
          };
          assertEquals(handedOn(scatter), 0, `scatter of ${what}`);
          assertEquals(js.scatter(back, expected, values, places, stride, add), -1);
          // The sign of a NaN from an addition is undefined.
          if (add) assertSame(target, expected, `sums at places of ${what}`);
          else assertSameBytes(target, expected, `scatter of ${what}`);
        }
      }
    }
  }
});

/** Just too few for tables of sums, enough for two, and for three, the last one shorter. */
const SUMMED = [2 ** 15 - 1, 2 ** 15, 2 ** 15 + 2 ** 14 + 1];

check("sums of many blocks at few places agree with js, and touch nothing else", () => {
  let turn = 0;
  for (const dtype of DTYPES) {
    if (dtype === "bool") continue;
    // Floats whose sums at one place are exact in every dtype, so that their order does not matter.
    const few = DTYPE[dtype].kind === "f" ? [-1, -0, 0, 1] : [0, 1, 2, 100];
    for (const shape of [[], [], [], [], [], [1], [2], [2, 3], [31], [32]]) {
      const kind = KINDS[turn % OUTPUTS]!, by = INTEGERS[turn % INTEGERS.length]!;
      const count = SUMMED[turn++ % SUMMED.length]!;
      const what = `${count} ${dtype} blocks of [${shape}] ${kind} by ${by}`;
      if (!isSampled(what, 8)) continue;
      const placed = LAYOUTS[kind]!(shape), dense = Layout.contiguous(shape, MARGIN);
      const span = placed.extent()[1] + 1;
      // The last of the places stays unused.
      const top = DTYPE[by].bytes === 1 ? 127 : 999;
      const picks = { ...picksFrom(by, count, span), size: 1000 };
      for (let i = 0; i < count; i++) writeElement(picks.indices, MARGIN + i, i * 31 % top);
      const target = fill(dtype, span * 1000 + MARGIN, false);
      const values = fill(dtype, dense.size * count + 2 * MARGIN, false);
      for (const storage of [target, values]) {
        for (let i = 0; i < storage.length; i++) {
          writeElement(storage, i, few[(i * 7 + (i >> 5)) % 4]!);
        }
      }
      const plan = planMap(placed, dense, null, null);
      // One block for all, or as many.
      const step = turn % 4 === 0 && top > 127 ? 0 : dense.size;
      const expected = copyOf(target);
      const add = (): void => {
        assertEquals(calls.scatter(plan, target, values, picks, step, true), -1);
      };
      assertEquals(handedOn(add), 0, what);
      js.scatter(plan, expected, values, picks, step, true);
      assertSameBytes(target, expected, what);
    }
  }
});

check("elements are picked along any axis, whatever lies outside and inside of it", () => {
  let turn = 0;
  for (const dtype of ["uint8", "float16", "float32", "int64"] as const) {
    for (const outer of [1, 3, 70, 1500]) {
      for (const inner of [1, 3, 40]) {
        for (const count of [0, 1, 5, 1030, 3000]) {
          if (outer * inner * count > 500_000) continue;
          const by = INTEGERS[turn++ % INTEGERS.length]!;
          const what = `${count} by ${by} of [${outer}, 11, ${inner}] ${dtype}`;
          if (!isSampled(what, 3)) continue;
          const picks = picksFrom(by, count, inner);
          const far = new Layout([outer, inner], [11 * inner, 1], MARGIN);
          const near = new Layout([outer, inner], [count * inner, 1], MARGIN);
          const source = fill(dtype, outer * 11 * inner + 2 * MARGIN, true);
          const out = fill(dtype, outer * count * inner + 2 * MARGIN, true);
          let expected = copyOf(out);
          assertEquals(
            calls.gather(planMap(near, far, null, null), out, source, picks, inner),
            -1,
          );
          js.gather(planMap(near, far, null, null), expected, source, picks, inner);
          assertSameBytes(out, expected, `gather of ${what}`);
          // Several go to one place, and the last one wins.
          expected = copyOf(source);
          calls.scatter(planMap(far, near, null, null), source, out, picks, inner, false);
          js.scatter(planMap(far, near, null, null), expected, out, picks, inner, false);
          assertSameBytes(source, expected, `scatter of ${what}`);
        }
      }
    }
  }
});

check("long rows are copied right at all distances within a page", () => {
  const [rows, columns] = [3, 2500];
  const buffer = new ArrayBuffer(40_000);
  const source = new Uint8Array(buffer, 64, rows * columns);
  source.forEach((_, i) => source[i] = i * 7 + (i >> 8));
  for (let distance = -70; distance <= 70; distance++) {
    const target = new Uint8Array(buffer, 64 + 3 * 4096 + distance, rows * (columns + 3));
    target.fill(9);
    const to = new Layout([rows, columns], [columns + 3, 1], 0);
    const plan = planMap(to, Layout.contiguous([rows, columns]), null, null);
    calls.map(
      MAP.copy,
      "uint8",
      plan,
      wrapExternal("uint8", target),
      wrapExternal("uint8", source),
      null,
      null,
    );
    for (let row = 0; row < rows; row++) {
      const from = source.subarray(row * columns, (row + 1) * columns);
      const begin = row * (columns + 3);
      assertEquals(target.subarray(begin, begin + columns), from, `row ${row}, ${distance} behind`);
      assertEquals([...target.subarray(begin + columns, begin + columns + 3)], [9, 9, 9]);
    }
  }
});

check("mirror images of pixels are those of js, and write nothing beside them", () => {
  for (const level of LEVELS) {
    native.setLevel(level);
    for (let width = 1; width <= 24; width++) {
      const plain = new Layout([2, width, 3], [3 * width + 5, 3, 1], 4);
      const mirrored = plain.sliceAxis(1, width - 1, width, -1);
      const [from, to] = [storageFor(plain, "uint8"), storageFor(plain, "uint8")];
      const expected = copyOf(to);
      const plan = planMap(plain, mirrored, null, null);
      const move = () => calls.map(MAP.copy, "uint8", plan, to, from, null, null);
      assertEquals(handedOn(move), 0);
      loops.map(MAP.copy, "uint8", plan, expected, from, null, null);
      assertEquals(to.array, expected.array, `${width} pixels, level ${level}`);
    }
  }
});

check("numbers too small for most formulas keep their last digit", () => {
  const least = { float32: 2 ** -149, float64: 2 ** -1074 } as const;
  for (const level of LEVELS) {
    native.setLevel(level);
    for (const dtype of ["float32", "float64"] as const) {
      const layout = Layout.contiguous([40]);
      const a = storageFor(layout, dtype);
      for (let i = 0; i < 40; i++) writeElement(a, i, (i - 20) * least[dtype]);
      for (const name of ["sinh", "expm1", "tanh", "asinh", "atanh", "sin", "tan"] as const) {
        const out = storageFor(layout, dtype);
        calls.map(MAP[name], dtype, planMap(layout, layout, null, null), out, a, null, null);
        const what = `${name} of ${dtype}, level ${level}`;
        assertEquals(out.array.slice(0, 40), a.array.slice(0, 40), what);
      }
    }
  }
});

check("gelu has its digits on both sides of 0, in each piece, and at their ends", () => {
  const x: number[] = [];
  for (let i = -(2 ** 16); i <= 2 ** 16; i++) x.push(i * 1.0009765625 / 2 ** 12);
  for (let eighths = 8; eighths < 16; eighths++) {
    for (const power of [1, 2, 4, 8]) {
      const end = power * eighths / 8 - 1;
      for (const at of [end - 2 ** -24, end, end + 2 ** -20, 2 ** -30 * power * eighths]) {
        x.push(at, -at);
      }
    }
  }
  x.push(14.4, -14.4, 3e38, -3e38, 2 ** -149, -(2 ** -149), Infinity, -Infinity, NaN);
  const layout = Layout.contiguous([x.length]);
  const plan = planMap(layout, layout, null, null);
  const a = wrapExternal("float32", Float32Array.from(x));
  const expected = allocate("float32", x.length, true);
  loops.map(MAP.gelu, "float32", plan, expected, a, null, null);
  for (const level of LEVELS) {
    native.setLevel(level);
    const out = allocate("float32", x.length, true);
    calls.map(MAP.gelu, "float32", plan, out, a, null, null);
    assertSame(out, expected, `gelu, level ${level}`, { ulp: 3 });
  }
});

check("powers of one exponent are those of js, whichever kernel takes them", () => {
  for (const level of LEVELS) {
    native.setLevel(level);
    for (const dtype of ["float16", "bfloat16", "float32", "float64"] as const) {
      for (const exponent of [2, -1, 0.5, 3, 1, 0, -2, 1.5, NaN, Infinity]) {
        for (const layout of [Layout.contiguous([1000]), new Layout([30, 40], [2, 61], 1)]) {
          const one = new Layout(layout.shape, layout.shape.map(() => 0), 1);
          const a = storageFor(layout, dtype);
          const special = [0, -0, 1, -1, Infinity, -Infinity, NaN, 0.5, -2.5, 1e-30, -1e30];
          positions(layout).slice(0, 300).forEach((at, i) =>
            writeElement(a, at, special[i % special.length]!)
          );
          const y = storageFor(one, dtype);
          writeElement(y, 1, exponent);
          const to = Layout.contiguous(layout.shape);
          const out = storageFor(to, dtype);
          const expected = copyOf(out);
          const plan = planMap(to, layout, one, null);
          assertEquals(handedOn(() => calls.map(MAP.pow, dtype, plan, out, a, y, null)), 0);
          loops.map(MAP.pow, dtype, plan, expected, a, y, null);
          const what = `${dtype} to the power of ${exponent}, level ${level}`;
          assertSame(out, expected, what, mapTolerance(MAP.pow, dtype));
        }
      }
    }
  }
});

/** Integers at the limits of a dtype, around powers of two, and between; of 8 bits, all. */
function telling(dtype: DType, count: number): (number | bigint)[] {
  const { min, max, bytes } = DTYPE[dtype];
  const [least, most] = [BigInt(min), BigInt(max)];
  const all: bigint[] = [];
  if (bytes === 1) { for (let i = least; i <= most; i++) all.push(i); }
  else {
    for (let power = 1n; power <= most + 1n; power *= 2n) {
      for (const i of [power - 1n, power, power + 1n, power * 3n]) all.push(i, -i, most - i);
    }
    const key = random.key(bytes);
    for (const bits of random.bits(key, [count]).toArray()) {
      all.push(BigInt(bits) ** 2n % (most + 1n), -(BigInt(bits) % (most + 1n)));
    }
  }
  const within = all.filter((i) => i >= least && i <= most);
  return DTYPE[dtype].wide ? within : within.map(Number);
}

check("quotients by one integer, and its powers, are those of js", () => {
  for (const dtype of INTEGERS) {
    const all = telling(dtype, 1500);
    const divisors = DTYPE[dtype].bytes === 1 ? all : telling(dtype, 20);
    const few = [...divisors.slice(-6), ...[0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 13, 31, 63, 64, 100]];
    const line = Layout.contiguous([all.length]);
    const one = new Layout([all.length], [0], 0);
    const plan = planMap(line, line, one, null);
    const x = storageFor(line, dtype);
    all.forEach((value, i) => writeElement(x, i, value));
    // Small ones too, as a block of 64-bit integers may hold no large one.
    const small = copyOf(x);
    all.forEach((value, i) => writeElement(small, i, BigInt(value) % 1000n));
    const { bytes, min } = DTYPE[dtype];
    const most = 1n << (bytes === 8 ? 50n : BigInt(8 * bytes - 1));
    const cases = [
      ...divisors.map((y) => [MAP.floorDivide, y] as const),
      ...few.map((y) => [MAP.pow, y] as const),
    ];
    for (const [turn, [row, number]] of cases.entries()) {
      // All levels divide by 7.
      if (number !== 7 && !isSampled(`${row.name} of ${dtype} by ${number}`, 20)) continue;
      const y = storageFor(Layout.contiguous([1]), dtype);
      writeElement(y, 0, number);
      // Around multiples, as large as they may be for reciprocals.
      const near = copyOf(x);
      const by = BigInt(number) || 1n;
      for (let i = 0; i < all.length; i++) {
        const multiple = (most / by - BigInt(i >> 3)) * by + BigInt(i % 3 - 1);
        const value = i % 2 === 0 || min === 0 || min === 0n ? multiple : -multiple;
        writeElement(near, i, value < most && value > -most ? value : BigInt(i));
      }
      for (const a of [x, small, near]) {
        const expected = copyOf(a);
        loops.map(row, dtype, plan, expected, a, y, null);
        // A level each; all of them for the ordinary ones.
        const levels = number === 7 ? LEVELS : [LEVELS[turn % LEVELS.length]!];
        for (const level of levels) {
          native.setLevel(level);
          const out = copyOf(a);
          const own = turn % 3 === 0 ? out : a;
          assertEquals(handedOn(() => calls.map(row, dtype, plan, out, own, y, null)), 0);
          assertSameBytes(out, expected, `${row.name} of ${dtype} by ${number}, level ${level}`);
        }
      }
    }
  }
});

check("quotients of floats are right near integers, and where they are not short", () => {
  const unusual = [
    [1, 0],
    [-1, -0],
    [0, 0],
    [1, Infinity],
    [-1, Infinity],
    [Infinity, 1],
    [NaN, 1],
    [1, NaN],
    [-0, 3],
    [3e37, 1e-7],
    [-3e37, 7],
    [1e-40, -2e-39],
  ] as const;
  const n = 3000;
  const line = Layout.contiguous([n]);
  const plan = planMap(line, line, line, null);
  for (const dtype of ["float16", "float32", "float64"] as const) {
    const y = fill(dtype, n, false);
    const x = copyOf(y);
    for (let i = 0; i < n; i++) {
      const by = Number(readElement(y, i)) || 1;
      const times = Math.round((i % 41) ** (i % 7)) * (i % 3 - 1) + (i % 5 === 0 ? 0.5 : 0);
      writeElement(y, i, by);
      // Multiples, rounded to the dtype, halves between them, and others.
      writeElement(x, i, i % 11 === 0 ? by * 1.37 : by * times);
    }
    for (const strange of [[], unusual]) {
      strange.forEach(([a, b], i) => {
        writeElement(x, 1000 + 77 * i, a);
        writeElement(y, 1000 + 77 * i, b);
      });
      for (const row of [MAP.floorDivide, MAP.remainder]) {
        const expected = copyOf(x);
        loops.map(row, dtype, plan, expected, x, y, null);
        for (const level of LEVELS) {
          native.setLevel(level);
          for (const own of [false, true]) {
            const out = copyOf(own ? x : y);
            const [a, b] = own ? [out, y] : [x, out];
            assertEquals(handedOn(() => calls.map(row, dtype, plan, out, a, b, null)), 0);
            assertSame(out, expected, `${row.name} of ${dtype}, level ${level}`);
          }
        }
      }
    }
  }
});

check("limits that are numbers are those of js, NaN and zeros of both signs too", () => {
  const special = [0, -0, 1, -1, 0.5, Infinity, -Infinity, NaN];
  const line = Layout.contiguous([150]);
  const one = new Layout([150], [0], 0);
  const plan = planMap(line, line, one, one);
  for (const dtype of ["float16", "bfloat16", "float32", "float64"] as const) {
    const x = storageFor(line, dtype);
    special.forEach((value, i) => writeElement(x, 9 * i, value));
    for (const low of special) {
      for (const high of special) {
        const [a, b] = [denseStorage(dtype, 1), denseStorage("float64", 1)];
        writeElement(a, 0, low);
        writeElement(b, 0, high);
        const expected = copyOf(x);
        loops.map(MAP.clip, dtype, plan, expected, x, a, b);
        for (const level of LEVELS) {
          native.setLevel(level);
          const out = copyOf(x);
          assertEquals(handedOn(() => calls.map(MAP.clip, dtype, plan, out, out, a, b)), 0);
          assertSame(out, expected, `${dtype} from ${low} to ${high}, level ${level}`);
        }
      }
    }
  }
});

/**
 * The number of indexes, and the wrong one in addition to the last: few of them, enough for several
 * tasks, and enough for several tables of sums.
 */
const INDEXED: [number, number][] = [
  [1, 0],
  [30, 29],
  [1024, 7],
  [3000, 1024],
  [3000, 2999],
  [70_000, 40_000],
];

check("the first index out of range is named, and nothing is written", () => {
  const two = Layout.contiguous([2]);
  const plan = planMap(two, two, null, null);
  for (const dtype of INTEGERS) {
    const { kind, bytes } = DTYPE[dtype];
    const most = 2n ** BigInt(8 * bytes - (kind === "i" ? 1 : 0)) - 1n;
    const wrong = [11n, most, ...kind === "i" ? [-12n, -most - 1n] : [most - 10n]];
    for (const bad of wrong) {
      for (const [count, at] of INDEXED) {
        const picks = picksFrom(dtype, count, 2);
        const array = picks.indices.array as BigInt64Array;
        for (const i of [at, count - 1]) {
          array[MARGIN + i] = (DTYPE[dtype].wide ? bad : Number(bad)) as never;
        }
        const [near, far] = [fill("int16", 2 * count, true), fill("int16", 22, true)];
        const [nearBefore, farBefore] = [copyOf(near), copyOf(far)];
        const what = `${bad} as ${dtype} at ${at} of ${count}`;
        for (const backend of [calls, js]) {
          assertEquals(backend.gather(plan, near, far, picks, 2), at, what);
          assertEquals(backend.scatter(plan, far, near, picks, 2, false), at, what);
          assertEquals(backend.scatter(plan, far, near, picks, 2, true), at, what);
        }
        assertSameBytes(near, nearBefore, what);
        assertSameBytes(far, farBefore, what);
      }
    }
  }
});

check("indexes become positions as in js, and the first wrong one is named", () => {
  for (const dtype of INTEGERS) {
    for (const shape of [[1], [70], [1025], [33, 40], [3, 4, 5]]) {
      for (const kind of KINDS) {
        for (const [size, wide] of [[9, false], [9, true], [5, false]] as const) {
          const layout = LAYOUTS[kind]!(shape);
          // From 0 or -8 to 8: all within 9, not all within 5.
          const index = storageFor(layout, dtype, false);
          const positions = fill(wide ? "int64" : "int32", layout.size, false);
          positions.array.fill((wide ? 3n : 3) as never);
          const expected = copyOf(positions);
          const plan = planMap(Layout.contiguous(shape), layout, null, null);
          let first = -2;
          const run = (): void => {
            first = calls.ravelIndex(plan, positions, index, size, 4);
          };
          const what = `${dtype} indexes [${shape}] ${kind} of ${size}`;
          assertEquals(handedOn(run), 0, what);
          assertEquals(first, js.ravelIndex(plan, expected, index, size, 4), what);
          if (first === -1) assertSameBytes(positions, expected, what);
        }
      }
    }
  }
});

check("the log of many exponentials is within what is promised", () => {
  for (const n of [3, 100, 300, 20_000, 200_000]) {
    for (const largest of [0, 0.24151562, -7.3]) {
      // Each is as large as the sum of all others, where the error of their difference counts most.
      const array = new Float32Array(n).fill(largest - Math.log(n) - 0.1);
      array[n >> 1] = largest;
      const shift = wrapExternal("float32", Float32Array.of(largest));
      const one = Layout.contiguous([1]);
      const plan = planReduce(one, Layout.contiguous([n]), one, [true], false);
      const out = fill("float64", 1, false);
      calls.fold(REDUCE.logSumExp, plan, out, wrapExternal("float32", array), shift);
      const top = shift.array[0] as number;
      const exact = Math.log(array.reduce((sum, x) => sum + Math.exp(x - top), 0));
      const error = Math.abs(out.array[0] as number - exact);
      assert(error <= 2 ** -22 + Math.log(n) * 2 ** -25, `${n}, ${largest}: ${error}`);
    }
  }
});

check("elements are taken along axes as in js, and the first wrong index is named", () => {
  for (const [turn, dtype] of INTEGERS.entries()) {
    const long = dtype === "int32" ? [[64, 9000]] : [];
    for (const shape of [[1], [70], [20000], [33, 40], [40, 3000], [3, 4, 5], ...long]) {
      for (const kind of KINDS) {
        for (const [size, along] of [[9, -1], [9, 0], [5, -1]] as const) {
          const what = `by ${dtype} [${shape}] ${kind} of ${size}, ${along}`;
          if (!isSampled(what, 7)) continue;
          const layout = LAYOUTS[kind]!(shape);
          // From 0 or -8 to 8: all within 9, not all within 5.
          const indexes = storageFor(layout, dtype, false);
          const axis = along + (along < 0 ? shape.length : 0);
          const dense = Layout.contiguous(shape.with(axis, size));
          const source = fill(
            DTYPES[(turn + size + shape.length) % DTYPES.length]!,
            dense.size,
            true,
          );
          const stride = dense.strides[axis]!;
          const first = new Layout(shape.with(axis, 1), dense.strides.with(axis, 0), 0);
          const target = Layout.contiguous(shape);
          const out = fill(source.info.name, target.size, true);
          const expected = copyOf(out);
          const plan = planMap(target, first.broadcastTo(shape), layout, null);
          let wrong = -2;
          const run = (): void => {
            wrong = calls.takeAlongAxis(plan, out, source, indexes, size, stride);
          };
          assertEquals(handedOn(run), 0, what);
          assertEquals(
            wrong,
            js.takeAlongAxis(plan, expected, source, indexes, size, stride),
            what,
          );
          if (wrong === -1) assertSameBytes(out, expected, what);
        }
      }
    }
  }
});

check("nonzero is served for every dtype", () => {
  for (const dtype of DTYPES) {
    for (const n of [1, 2, 31, 64, 255, 256, 257, 1025, 5000]) {
      const input = fill(dtype, n + MARGIN, true);
      for (let i = 0; i < n; i += 3) input.array[i] = (DTYPE[dtype].wide ? 0n : 0) as never;
      const all = fill("int32", n, false);
      all.array.fill(-1 as never);
      js.nonzero(all, input, 2, n);
      const count = all.array.indexOf(-1 as never);
      // The last of them has no room after it.
      const out = wrapExternal("int32", new Int32Array(count < 0 ? n : count));
      const run = (): void => calls.nonzero(out, input, 2, n);
      assertEquals(handedOn(run), 0, dtype);
      assertSameBytes(
        out,
        wrapExternal("int32", (all.array as Int32Array).slice(0, out.array.length)),
        `nonzero of ${n} ${dtype}`,
      );
    }
  }
});

check("random numbers are served, and those of js but for a few units in normal ones", () => {
  const kinds = { bits: "u", integers: "biu", uniform: "f", normal: "f" } as const;
  for (const level of LEVELS) {
    native.setLevel(level);
    for (const [kind, takes] of Object.entries(kinds) as [keyof typeof kinds, string][]) {
      for (const dtype of DTYPES) {
        if (!takes.includes(DTYPE[dtype].kind) || (kind === "bits" && dtype !== "uint32")) continue;
        for (const n of [1, 2, 3, 31, 33, 64, 1023, 1025, 40_001]) {
          const [low, high] = dtype === "bool" ? [0n, 2n] : [BigInt(n % 3), 3n + BigInt(n % 97)];
          const out = fill(dtype, n, false);
          const expected = copyOf(out);
          const run = (): void => calls.random(out, kind, 12345, -n, low, high);
          assertEquals(handedOn(run), 0, `${kind} of ${dtype}`);
          js.random(expected, kind, 12345, -n, low, high);
          const what = `${kind} of ${n} ${dtype}, level ${level}`;
          if (kind === "normal") assertSame(out, expected, what, { ulp: 4 });
          else assertSameBytes(out, expected, what);
        }
      }
    }
    const [out, expected] = [fill("int64", 100, false), fill("int64", 100, false)];
    const [low, high] = [-(2n ** 63n), 2n ** 63n];
    calls.random(out, "integers", 1, 2, low, high);
    js.random(expected, "integers", 1, 2, low, high);
    assertSameBytes(out, expected, "integers from all of int64");
  }
});

// ---- memory ------------------------------------------------------------------------------------

check("shared memory works like any other", () => {
  const out = allocateShared("float32", 100);
  const a = allocateShared("float32", 100);
  (a.array as Float32Array).fill(2);
  const layout = Layout.contiguous([100]);
  const plan = planMap(layout, layout, layout, null);
  assertEquals(handedOn(() => calls.map(MAP.add, "float32", plan, out, a, a, null)), 0);
  assertEquals([...out.array as Float32Array], new Array(100).fill(4));
});

check("arrays without elements, and detached ones, are never handed over", () => {
  const empty = (dtype: DType): Storage => wrapExternal(dtype, new DTYPE[dtype].array(0));
  const nothing = Layout.contiguous([0]);
  const plan = planMap(nothing, nothing, nothing, null);
  const run = (): void =>
    calls.map(
      MAP.add,
      "float32",
      plan,
      empty("float32"),
      empty("float32"),
      empty("float32"),
      null,
    );
  assertEquals(handedOn(run), 1);
  const positions = empty("int32");
  const [one, two] = [fill("float32", 3, false), fill("float32", 3, false)];
  const single = planMap(Layout.contiguous([1]), Layout.contiguous([1]), null, null);
  const picks = { indices: positions, offset: 0, count: 0, size: 3, stride: 1 };
  assertEquals(handedOn(() => calls.gather(single, one, two, picks, 1)), 1);
  assertEquals(handedOn(() => calls.sort(empty("int8"), 0, 0, 5, false, null)), 1);
  assertEquals(handedOn(() => calls.sort(empty("int8"), 0, 5, 0, false, null)), 1);
  assertEquals(handedOn(() => calls.nonzero(positions, empty("int8"), 0, 0)), 1);
  assertEquals(handedOn(() => calls.random(empty("float32"), "normal", 1, 2, 0n, 0n)), 1);

  const gone = new Float32Array(10);
  structuredClone(gone, { transfer: [gone.buffer] });
  const lost = wrapExternal("float32", gone);
  const ten = Layout.contiguous([10]);
  const [out, before] = [fill("float32", 10, true), fill("float32", 10, true)];
  const refused = (call: () => void): void => {
    const error = assertThrows(call, NativeError);
    assertEquals(error.status, STATUS.bounds);
    assert(error.message.includes("of 0"), error.message);
  };
  const kept = copyOf(out);
  const dense = planMap(ten, ten, null, null);
  refused(() => calls.map(MAP.neg, "float32", dense, out, lost, null, null));
  refused(() => calls.map(MAP.neg, "float32", dense, lost, before, null, null));
  const over = planReduce(Layout.contiguous([1]), ten, null, [true], false);
  refused(() => calls.fold(REDUCE.sum, over, out, lost, null));
  refused(() => calls.alongRows("softmax", 2, 5, out, lost, 0, NO_AFFINE));
  refused(() => calls.alongRows("rmsNorm", 2, 5, out, before, 0, { ...NO_AFFINE, weight: lost }));
  refused(() => calls.sort(lost, 0, 1, 10, false, null));
  refused(() => calls.nonzero(wrapExternal("int32", new Int32Array(10)), lost, 0, 10));
  const [c, a, b] = [out, before, lost].map((one) => matrixBatch(one, Layout.contiguous([2, 2])));
  refused(() => calls.matmul(c!, b!, a!));
  refused(() => calls.matmul(c!, a!, b!));
  assertSameBytes(out, kept, "the output of refused calls");
});

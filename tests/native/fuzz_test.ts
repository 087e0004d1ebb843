/**
 * Random plans for every call of the native backend, half of which exceed a storage slightly.
 *
 * These tests visit every position to decide whether a plan stays inside. Plans that do not must
 * fail before any write; the others must give the results of the js backend.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { type MatrixBatch, matrixBatch } from "../../src/ops/matmul/problem.ts";
import { ROW_KERNELS } from "../../src/ops/softmax_norm/problem.ts";
import { STATUS } from "../../src/backend/ffi/abi.ts";
import { DTYPE, type DType, DTYPES } from "../../src/base/dtype.ts";
import { writeElement } from "../../src/memory/element.ts";
import { NativeError } from "../../src/base/errors.ts";
import { Layout } from "../../src/base/layout.ts";
import { accumulates, resultOf, takes } from "../../src/table/infer.ts";
import type { ArgReduceOp, MapOp, ReduceOp, ScanOp } from "../../src/table/op.ts";
import { ARG_REDUCE, MAP, REDUCE, SCAN } from "../../src/table/table.ts";
import { ATTRIBUTES, KEPT, OFFSETS, OPERANDS, Plan, RANK } from "../../src/base/plan.ts";
import type { Storage } from "../../src/memory/storage.ts";
import {
  assertSame,
  assertSameBytes,
  calls,
  check,
  copyOf,
  fill,
  js,
  LEVELS,
  native,
} from "./support.ts";
import type { BackendCalls } from "../calls.ts";
import { generator } from "../ops/table/operands.ts";

let random = generator(1);

function below(n: number): number {
  return Math.floor(random() * n);
}

function pick<T>(list: readonly T[]): T {
  return list[below(list.length)]!;
}

/** The movement of an operand: its strides along the axes of a plan. */
type Strides = number[];

/** Strides of an output: no two positions are the same element. */
function apart(shape: readonly number[]): Strides {
  const order = shape.map((_, axis) => axis).sort(() => random() - 0.5);
  const strides: Strides = shape.map(() => 0);
  let step = 1 + below(2);
  for (const axis of order) {
    strides[axis] = random() < 0.3 ? -step : step;
    step *= Math.max(1, shape[axis]!);
    if (random() < 0.3) step += 1 + below(3);
  }
  return strides;
}

/** Strides of an input: anything. */
function anyStrides(shape: readonly number[]): Strides {
  return random() < 0.4 ? apart(shape) : shape.map(() => below(9) - 4);
}

/** Every position that an operand visits, relative to its offset. */
function visit(shape: readonly number[], strides: Strides): number[] {
  let at = [0];
  shape.forEach((size, axis) => {
    at = at.flatMap((from) => Array.from({ length: size }, (_, i) => from + i * strides[axis]!));
  });
  return at;
}

/** A storage and an offset in it for positions; with `outside`, some exceed it by up to 3. */
interface Placed {
  storage: Storage;
  offset: number;
  outside: boolean;
}

function place(dtype: DType, relative: readonly number[], outside: boolean): Placed {
  const low = Math.min(...relative), high = Math.max(...relative);
  if (!outside) {
    const offset = below(4) - low;
    const length = offset + high + 1 + below(3);
    return { storage: fill(dtype, length, true), offset, outside: false };
  }
  const away = 1 + below(3);
  const kind = below(8);
  // Past the end, before the beginning, or at an invalid offset.
  if (kind < 4) {
    const offset = below(4) - low;
    const length = Math.max(0, offset + high + 1 - away);
    return { storage: fill(dtype, length, true), offset, outside: true };
  }
  const storage = fill(dtype, high - low + 8, true);
  const offset = kind < 7 ? -low - away : pick([NaN, Infinity, -Infinity, 1e15, 2 ** 53]);
  return { storage, offset, outside: true };
}

interface Operand extends Placed {
  strides: Strides;
}

function makePlan(shape: readonly number[], kept: number, operands: readonly Operand[]): Plan {
  const plan = new Plan();
  const { length: rank } = shape;
  const { data } = plan;
  plan.rank = data[RANK] = rank;
  plan.operands = data[OPERANDS] = operands.length;
  plan.kept = data[KEPT] = kept;
  plan.size = shape.reduce((n, size) => n * size, 1);
  let at = OFFSETS;
  for (const { offset } of operands) data[at++] = offset;
  for (const size of shape) data[at++] = size;
  for (const { strides } of operands) for (const stride of strides) data[at++] = stride;
  return plan;
}

function anyShape(rank: number): number[] {
  const most = [0, 200, 20, 7, 5][rank]!;
  return Array.from({ length: rank }, () => random() < 0.15 ? 1 : 1 + below(most));
}

let refused = 0;
let served = 0;

/**
 * Runs `call` on the native backend and, if no operand leaves its storage, `expect` on js, which
 * writes to copies. Both write `written` and read `read`.
 */
function compare(
  what: string,
  outside: boolean,
  written: readonly Storage[],
  read: readonly Storage[],
  call: (backend: BackendCalls, written: readonly Storage[]) => void,
): void {
  native.setLevel(pick(LEVELS));
  const before = written.map(copyOf);
  const inputs = read.map(copyOf);
  if (outside) {
    const error = assertThrows(() => call(calls, written), NativeError, undefined, what);
    assertEquals(error.status, STATUS.bounds, `${what}: ${error.message}`);
    written.forEach((storage, k) => assertSameBytes(storage, before[k]!, `${what}: written`));
    refused++;
  } else {
    call(js, before);
    call(calls, written);
    written.forEach((storage, k) => {
      const { name, kind } = storage.info;
      const ulp = kind === "f" ? (name === "float64" ? 200 : 4) : 0;
      assertSame(storage, before[k]!, what, { ulp, eitherZero: true });
    });
    served++;
  }
  read.forEach((storage, k) => assertSameBytes(storage, inputs[k]!, `${what}: input ${k}`));
}

/** Runs `times` cases, each with a seed of its own, which a failure reports. */
function cases(name: string, times: number, body: (what: string) => void): void {
  [refused, served] = [0, 0];
  for (let seed = 1; seed <= times; seed++) {
    random = generator(seed * 7 + name.length);
    body(`${name}, seed ${seed}`);
  }
  assertEquals(refused + served, times);
  assert(Math.min(refused, served) > times / 5, `${refused} refused, ${served} served`);
}

const MAPS: MapOp[] = [
  MAP.copy,
  MAP.neg,
  MAP.abs,
  MAP.isnan,
  MAP.add,
  MAP.mul,
  MAP.less,
  MAP.maximum,
  MAP.bitwiseXor,
  MAP.logicalOr,
  MAP.where,
  MAP.clip,
];

check("maps: random plans are refused, or give what js gives", () => {
  cases("map", 1500, (name) => {
    const row = pick(MAPS);
    const dtype = pick(DTYPES.filter((dtype) => takes(row, dtype)));
    const shape = anyShape(1 + below(4));
    const wrong = random() < 0.5 ? below(row.arity + 1) : -1;
    const operands = Array.from({ length: row.arity + 1 }, (_, k): Operand => {
      const strides = k === 0 ? apart(shape) : anyStrides(shape);
      const own = k === 0 ? resultOf(row, dtype) : row.condition && k === 1 ? "bool" : dtype;
      return { strides, ...place(own, visit(shape, strides), k === wrong) };
    });
    const plan = makePlan(shape, 0, operands);
    const [out, a, b, c] = operands.map(({ storage }) => storage);
    compare(
      `${name}: ${row.name} of ${dtype} [${shape}], operand ${wrong} outside`,
      wrong >= 0,
      [out!],
      [a!, b, c].filter((storage) => storage !== undefined),
      (backend, [to]) => backend.map(row, dtype, plan, to!, a!, b ?? null, c ?? null),
    );
  });
});

type AxisOp = ReduceOp | ArgReduceOp | ScanOp;

const FOLDS: AxisOp[] = [
  REDUCE.max,
  REDUCE.any,
  REDUCE.countNonzero,
  REDUCE.sum,
  REDUCE.var,
  ARG_REDUCE.argmin,
  SCAN.cumulativeSum,
];

check("folds: random plans are refused, or give what js gives", () => {
  cases("fold", 900, (name) => {
    const row = pick(FOLDS);
    const exact = !accumulates(row) && row.result !== "float";
    // Sums of specials depend on their order.
    const integers: DType[] = ["int8", "int32", "uint16", "int64", "uint64"];
    const dtype = row === REDUCE.var
      ? pick(["int16", "uint8"] as const)
      : pick(exact ? DTYPES.filter((d) => takes(row, d)) : integers);
    const rank = below(5);
    const shape = anyShape(rank);
    const kept = row.kind === "scan" ? Math.max(0, rank - 1) : below(rank + 1);
    const paired = row === REDUCE.var;
    const count = paired ? 3 : 2;
    const wrong = random() < 0.5 ? below(count) : -1;
    const operands = Array.from({ length: count }, (_, k): Operand => {
      // The output and the second input have stride 0 along the folded axes.
      const axes = k === 1 || row.kind === "scan" ? shape : shape.slice(0, kept);
      const moving = k === 0 ? apart(axes) : anyStrides(axes);
      const strides = shape.map((_, axis) => moving[axis] ?? 0);
      const own = k === 0 ? resultOf(row, dtype) : k === 1 ? dtype : "float64";
      const placed = place(own, visit(shape, strides), k === wrong);
      if (k === 2) placed.storage.array.fill(0.5 as never);
      return { strides, ...placed };
    });
    const plan = makePlan(shape, kept, operands);
    plan.data[ATTRIBUTES] = 3;
    const [out, a, b] = operands.map(({ storage }) => storage);
    compare(
      `${name}: ${row.name} of ${dtype} [${shape}], ${kept} kept, operand ${wrong} outside`,
      wrong >= 0,
      [out!],
      b === undefined ? [a!] : [a!, b],
      (backend, [to]) => {
        backend.fold(row, plan, to!, a!, b ?? null);
      },
    );
  });
});

check("gathers and scatters: random plans and positions are refused, or give what js gives", () => {
  cases("move", 900, (name) => {
    const scatter = random() < 0.5, add = scatter && random() < 0.5;
    const dtype = pick(DTYPES.filter((dtype) => !add || dtype !== "bool"));
    const shape = anyShape(1 + below(3));
    const count = 1 + below(20);
    // One operand is read in order, the other at the given positions; targets do not overlap
    // themselves.
    const dense = apart(shape);
    const far = scatter ? apart(shape) : anyStrides(shape);
    const span = (strides: Strides): number => {
      const at = visit(shape, strides);
      return Math.max(...at) - Math.min(...at) + 1;
    };
    const step = (random() < 0.2 ? -1 : 1) * (span(dense) + below(3));
    const unit = scatter ? span(far) : 1;
    const stride = (random() < 0.3 ? -1 : 1) * unit;
    const size = 1 + below(6);
    const wrong = random() < 0.5 ? below(3) : -1;
    const stepped = visit(shape, dense)
      .flatMap((at) => [at, at + (count - 1) * step]);
    const placed = visit(shape, far).flatMap((at) => [at, at + (size - 1) * stride]);
    const near = { strides: dense, ...place(dtype, stepped, wrong === 0) };
    const other = { strides: far, ...place(dtype, placed, wrong === 1) };
    const by = pick(DTYPES.filter((dtype) => "iu".includes(DTYPE[dtype].kind)));
    const offset = below(3);
    const indexes = fill(by, offset + count + below(2), false);
    for (let i = 0; i < count; i++) {
      const one = below(size) - (DTYPE[by].kind === "i" ? below(2) * size : 0);
      writeElement(indexes, offset + i, one);
    }
    // Fewer indexes than requested.
    const asked = wrong === 2 ? indexes.array.length - offset + 1 : count;
    const picks = { indices: indexes, offset, count: asked, size, stride };
    const [target, source] = scatter ? [other, near] : [near, other];
    const plan = makePlan(shape, 0, [target, source]);
    compare(
      `${name}: ${
        add ? "sums" : scatter ? "scatter" : "gather"
      } of ${dtype}, ${count} blocks [${shape}], ` +
        `${wrong} outside`,
      wrong >= 0,
      [target.storage],
      [source.storage, indexes],
      (backend, [to]) => {
        const bad = scatter
          ? backend.scatter(plan, to!, source.storage, picks, step, add)
          : backend.gather(plan, to!, source.storage, picks, step);
        assertEquals(bad, -1, name);
      },
    );
  });
});

check("indexes: random plans are refused, or give what js gives", () => {
  cases("position", 300, (name) => {
    const dtype = pick(DTYPES.filter((dtype) => "iu".includes(DTYPE[dtype].kind)));
    const shape = anyShape(1 + below(3));
    const wrong = random() < 0.5 ? below(2) : -1;
    const wide = random() < 0.5 ? "int64" : "int32";
    const operands = [0, 1].map((k): Operand => {
      const strides = k === 0 ? apart(shape) : anyStrides(shape);
      return { strides, ...place(k === 0 ? wide : dtype, visit(shape, strides), k === wrong) };
    });
    const [positions, index] = operands.map(({ storage }) => storage);
    positions!.array.fill((wide === "int64" ? 2n : 2) as never);
    for (let i = 0; i < index!.array.length; i++) {
      const one = below(7) - (DTYPE[dtype].kind === "i" ? 3 : 0);
      index!.array[i] = (DTYPE[dtype].wide ? BigInt(one) : one) as never;
    }
    const plan = makePlan(shape, 0, operands);
    const found: number[] = [];
    compare(
      `${name}: ${dtype} indexes [${shape}], operand ${wrong} outside`,
      wrong >= 0,
      [positions!],
      [index!],
      (backend, [to]) => {
        found.push(backend.ravelIndex(plan, to!, index!, 7, 3));
      },
    );
    if (wrong < 0) assertEquals(found, [-1, -1], name);
  });
});

check("takes along axes: random plans are refused, or give what js gives", () => {
  cases("takeAlong", 300, (name) => {
    const dtype = pick(DTYPES.filter((dtype) => "iu".includes(DTYPE[dtype].kind)));
    const of = pick(DTYPES);
    const shape = anyShape(1 + below(3));
    const wrong = random() < 0.5 ? below(3) : -1;
    const [size, stride] = [1 + below(7), below(9) - 4];
    const operands = [0, 1, 2].map((k): Operand => {
      const strides = k === 0 ? apart(shape) : anyStrides(shape);
      const once = visit(shape, strides);
      const all = k !== 1
        ? once
        : once.flatMap((at) => Array.from({ length: size }, (_, i) => at + i * stride));
      return { strides, ...place(k === 2 ? dtype : of, all, k === wrong) };
    });
    const [out, source, index] = operands.map(({ storage }) => storage);
    for (let i = 0; i < index!.array.length; i++) {
      const one = below(size) - (DTYPE[dtype].kind === "i" && random() < 0.3 ? size : 0);
      index!.array[i] = (DTYPE[dtype].wide ? BigInt(one) : one) as never;
    }
    const plan = makePlan(shape, 0, operands);
    const found: number[] = [];
    compare(
      `${name}: ${of} by ${dtype} [${shape}], operand ${wrong} outside`,
      wrong >= 0,
      [out!],
      [source!, index!],
      (backend, [to]) => {
        found.push(backend.takeAlongAxis(plan, to!, source!, index!, size, stride));
      },
    );
    if (wrong < 0) assertEquals(found, [-1, -1], name);
  });
});

check("products: random matrices are refused, or give what js gives", () => {
  cases("matmul", 500, (name) => {
    const dtype = pick(["int8", "int32", "int64", "uint16", "float32", "float64"] as const);
    const [m, n, k] = [1 + below(9), 1 + below(9), 1 + below(9)];
    const batch = 1 + below(3);
    const wrong = random() < 0.5 ? below(3) : -1;
    const refs = [[m, n], [m, k], [k, n]].map((shape, which): MatrixBatch => {
      const strides = which === 0 ? apart(shape) : anyStrides(shape);
      const once = visit(shape, strides);
      const step = which === 0 || random() < 0.5
        ? Math.max(...once) - Math.min(...once) + 1 + below(3)
        : 0;
      const all = once.flatMap((at) => Array.from({ length: batch }, (_, i) => at + i * step));
      const { storage, offset } = place(dtype, all, which === wrong);
      // Small integers: sums are exact in every order.
      for (let i = 0; i < storage.array.length; i++) {
        storage.array[i] = (DTYPE[dtype].wide ? BigInt(below(9)) : below(9)) as never;
      }
      return matrixBatch(storage, new Layout([batch, ...shape], [step, ...strides], offset));
    });
    const [c, a, b] = refs as [MatrixBatch, MatrixBatch, MatrixBatch];
    compare(
      `${name}: ${dtype} [${m}, ${k}] @ [${k}, ${n}], batch ${batch}, matrix ${wrong} outside`,
      wrong >= 0,
      [c.storage],
      [a.storage, b.storage],
      (backend, [to]) => backend.matmul({ ...c, storage: to! }, a, b),
    );
  });
});

check("sorts, nonzero and rows: random runs are refused, or give what js gives", () => {
  cases("runs", 600, (name) => {
    const dtype = pick(DTYPES);
    const [runs, size] = [1 + below(5), 1 + below(60)];
    const length = runs * size;
    const relative = [0, length - 1];
    const which = below(4);
    const wrong = random() < 0.5;
    const descending = random() < 0.5;
    const what = `${name}: ${which} of ${dtype}, ${runs} runs of ${size}, outside ${wrong}`;
    if (which === 0) {
      const { storage, offset } = place(dtype, relative, wrong);
      return compare(what, wrong, [storage], [], (backend, [to]) => {
        backend.sort(to!, offset, runs, size, descending, null);
      });
    }
    if (which === 1) {
      const many = random() < 0.5;
      const { storage, offset } = place(dtype, relative, wrong && many);
      const order = fill("int32", length - (wrong && !many ? 1 : 0), false);
      return compare(what, wrong, [order], [storage], (backend, [to]) => {
        backend.sort(storage, offset, runs, size, descending, to!);
      });
    }
    if (which === 2) {
      const { storage, offset } = place(dtype, relative, wrong);
      const room = fill("int32", length, false);
      return compare(what, wrong, [room], [storage], (backend, [to]) => {
        backend.nonzero(to!, storage, offset, length);
      });
    }
    const float = pick(["float16", "bfloat16", "float32", "float64"] as const);
    const wide: DType = float === "float64" ? float : "float32";
    const mine = wrong ? below(4) : -1;
    const kernel = pick(mine > 1 ? ["layerNorm", "rmsNorm"] as const : ROW_KERNELS);
    const a = place(float, relative, mine === 0);
    const short = 1 + below(size);
    const [out, weight, bias] = ([float, wide, wide] as const).map((to, k) =>
      fill(to, (k === 0 ? length : size) - (mine === k + 1 ? short : 0), false)
    ) as [Storage, Storage, Storage];
    // Of rows of ones each kernel has one result: with this epsilon, half of the weight.
    for (let i = 0; i < a.storage.array.length; i++) writeElement(a.storage, i, 1);
    const norm = kernel === "layerNorm" ? 0 : 0.5;
    const value = kernel === "softmax" ? 1 / size : -Math.log(size);
    compare(what, wrong, [out], [a.storage, weight, bias], (backend, [to]) => {
      const affine = { weight, bias, epsilon: 3 };
      if (backend.alongRows(kernel, runs, size, to!, a.storage, a.offset, affine)) return;
      for (let i = 0; i < length; i++) {
        const [w, b] = [weight, bias].map((one) => one.array[i % size] as number);
        writeElement(to!, i, kernel.endsWith("oftmax") ? value : norm * w! + b!);
      }
    });
  });
});

check("nonzero writes no more than its output holds", () => {
  const input = fill("int32", 30, false);
  input.array.fill(1 as never);
  const memory = fill("int32", 40, false);
  const before = copyOf(memory);
  const part = { ...memory, array: (memory.array as Int32Array).subarray(0, 10) };
  const room = Object.setPrototypeOf(part, Object.getPrototypeOf(memory)) as Storage;
  calls.nonzero(room, input, 0, 30);
  for (let i = 0; i < 40; i++) assertEquals(memory.array[i], i < 10 ? i : before.array[i]);
  // Another thread may have changed elements since they were counted: the rest is set to 0.
  input.array.fill(0 as never, 4);
  calls.nonzero(room, input, 0, 30);
  assertEquals([...memory.array.subarray(0, 10) as Int32Array], [0, 1, 2, 3, 0, 0, 0, 0, 0, 0]);
});

check("plans with fewer operands than the call are refused", () => {
  const storage = fill("float32", 10, false);
  const operand: Operand = { storage, strides: [1], offset: 0, outside: false };
  const plan = makePlan([4], 0, [operand, operand]);
  assertThrows(
    () => calls.map(MAP.add, "float32", plan, storage, storage, storage, null),
    NativeError,
  );
});

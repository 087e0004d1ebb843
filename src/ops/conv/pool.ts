/**
 * The ops of pooling: axis by axis, by chains of strided parts of the input.
 *
 * A window of 3 × 3 elements costs 2 + 2 steps in place of 8, and nothing is padded: windows that
 * reach into the padding are regions of their own.
 *
 * @module
 */
import { DTYPE, type DTypeInfo, iinfo } from "../../base/dtype.ts";
import { ShapeError } from "../../base/errors.ts";
import type { Layout } from "../../base/layout.ts";
import { formatShape } from "../../base/shape.ts";
import { cast, writeValue } from "../../core/copy.ts";
import { apply } from "../../core/apply.ts";
import { dispatchAll } from "../../core/dispatch.ts";
import { tidy } from "../../core/handles.ts";
import { fromData } from "../create/from_data.ts";
import { rowDType } from "../softmax_norm/problem.ts";
import type { Operand } from "../../memory/operand.ts";
import { checkKind, checkOperand } from "../../table/infer.ts";
import { type Call, makeOp, type Op } from "../../table/op.ts";
import { MAP, REDUCE } from "../../table/table.ts";
import { empty, part } from "../../core/composite.ts";
import { reduce } from "../reduce/op.ts";
import { Chain, MAX_OPERANDS } from "../chain/build.ts";
import {
  adaptiveRegions,
  countWindows,
  type Sliding,
  slidingRegions,
  type WindowRegion,
} from "./sliding.ts";

/** The attributes of the ops of pooling. */
export interface PoolAttributes {
  /** The windows of each of the last axes; a number of windows that divide the axis. */
  readonly windows: readonly (Sliding | number)[];
  /** What sums of windows are divided by, in place of the number of their elements. */
  readonly divisor?: number | undefined;
}

/** A few windows of many elements cost a reduction less than a chain. */
const LONG_WINDOW = 16;

function regionsOf(n: number, windows: Sliding | number): WindowRegion[] {
  return typeof windows === "number" ? adaptiveRegions(n, windows) : slidingRegions(n, windows);
}

/** The shape of the results of a call's windows. */
export function pooledShape(call: Call): number[] {
  const { shape } = call.operand(0).layout;
  const { windows } = call.attributes as PoolAttributes;
  const first = shape.length - windows.length;
  return shape.map((n, axis) => {
    if (axis < first) return n;
    const own = windows[axis - first]!;
    const fail = (why: string): ShapeError =>
      new ShapeError(`Cannot ${call.name} axis ${axis} of shape ${formatShape(shape)}: ${why}`);
    if (n === 0) throw fail("it is empty");
    if (typeof own === "number") return own;
    const count = countWindows(n, own);
    if (count >= 1) return count;
    const { size, dilation, before, after } = own;
    const apart = dilation === 1 ? "" : ` with dilation ${dilation}`;
    throw fail(
      `it has size ${n}, with padding ${n + before + after}, and windows have ${size}${apart}`,
    );
  });
}

function poolOp(
  name: string,
  kinds: string,
  decompose: (x: Operand, attributes: PoolAttributes, shape: readonly number[]) => Operand,
): Op {
  return makeOp({
    kind: "kernel",
    name,
    contiguous: [0],
    outOffset: true,
    infer(call) {
      const [x] = call.inputs;
      checkOperand(x, call.name);
      checkKind(x.storage.info, kinds, call.name);
      return call.result(pooledShape(call), x.storage.info);
    },
    decompose(call) {
      const x = call.operand(0);
      const attributes = call.attributes as PoolAttributes;
      const { shape } = call.specs[0]!;
      if (call.specs[0]!.shape.includes(0)) return empty(shape, x);
      return decompose(x, attributes, shape);
    },
  });
}

/** An axis of windows that slide. */
export interface PoolAxis {
  readonly size: number;
  /** How many windows there are. */
  readonly count: number;
  /** The elements of a window. */
  readonly kernel: number;
  readonly stride: number;
  /** The padding before the first element. */
  readonly before: number;
  readonly dilation: number;
}

/** The axes of a call whose windows slide. */
export function poolAxes(call: Call): PoolAxis[] {
  const { shape } = call.operand(0).layout;
  const { windows } = call.attributes as PoolAttributes;
  const first = shape.length - windows.length;
  return (windows as readonly Sliding[]).map((own, i) => {
    const { size: kernel, stride, before, dilation } = own;
    const size = shape[first + i]!;
    return { size, count: countWindows(size, own), kernel, stride, before, dilation };
  });
}

// ---- windows of one axis -----------------------------------------------------------------------

/** The elements at place `k` of each window of a region. */
function elementsAt(x: Operand, axis: number, region: WindowRegion, k: number): Operand {
  const { start, step, dilation, length } = region;
  return part(x, x.layout.sliceAxis(axis, start + k * dilation, length, step));
}

/** The results of the windows of a region. */
function resultsOf(made: Operand, axis: number, { first, every, length }: WindowRegion): Operand {
  return part(made, made.layout.sliceAxis(axis, first, length, every));
}

/** Combines the elements of each window of `region` by `op`, and divides by `divisor`. */
function combine(
  op: typeof MAP.maximum | typeof MAP.add,
  x: Operand,
  axis: number,
  region: WindowRegion,
  out: Operand,
  divisor: number,
): void {
  const { size } = region;
  const { shape } = out.layout;
  const { info } = out.storage;
  if (size > LONG_WINDOW && region.length === 1) {
    return reduceWindow(op, x, axis, region, out, divisor);
  }
  for (let done = 0; done < size;) {
    const chain = new Chain(info);
    let value = chain.input(done === 0 ? elementsAt(x, axis, region, 0) : out);
    const end = Math.min(size, done + MAX_OPERANDS - (done === 0 ? 0 : 1));
    for (let k = done === 0 ? 1 : done; k < end; k++) {
      value = chain.step(op, value, chain.input(elementsAt(x, axis, region, k)));
    }
    done = end;
    if (done === size && divisor !== 1) value = chain.step(MAP.div, value, chain.input(divisor));
    // A window of one element.
    if (value >= 0) value = chain.step(MAP.positive, value);
    chain.run(value, shape, out);
  }
}

/** {@link combine} for one window of many elements. */
function reduceWindow(
  op: typeof MAP.maximum | typeof MAP.add,
  x: Operand,
  axis: number,
  { start, size, dilation }: WindowRegion,
  out: Operand,
  divisor: number,
): void {
  const row = part(x, x.layout.sliceAxis(axis, start, size, dilation));
  reduce(op === MAP.add ? REDUCE.sum : REDUCE.max, row, axis, { keepDims: true, out });
  if (divisor === 1) return;
  const chain = new Chain(out.storage.info);
  chain.run(chain.step(MAP.div, chain.input(out), chain.input(divisor)), out.layout.shape, out);
}

/** The smallest value of a dtype. */
function lowestOf({ name, kind }: DTypeInfo): number | bigint {
  return kind === "f" ? -Infinity : iinfo(name).min;
}

/** The axis at which the windows begin, and the regions of each. */
function axesOf(x: Operand, { windows }: PoolAttributes): [number, WindowRegion[][]] {
  const { shape } = x.layout;
  const first = shape.length - windows.length;
  return [first, windows.map((own, i) => regionsOf(shape[first + i]!, own))];
}

/** The part of `x` that is the only window; null if there are several. */
function onlyWindow(
  x: Operand,
  first: number,
  regions: readonly (readonly WindowRegion[])[],
): Operand | null {
  const single = regions.every(([region, ...more]) =>
    more.length === 0 && region!.length === 1 && region!.size > 0
  );
  if (!single) return null;
  return part(
    x,
    regions.reduce(
      (layout, [region], i) =>
        layout.sliceAxis(first + i, region!.start, region!.size, region!.dilation),
      x.layout,
    ),
  );
}

// ---- the ops -----------------------------------------------------------------------------------

/** The largest element of each window. */
export const MAX_POOL: Op = poolOp("maxPool", "iuf", (x, attributes, shape) => {
  const [first, regions] = axesOf(x, attributes);
  const whole = onlyWindow(x, first, regions);
  if (whole !== null) {
    return reduce(REDUCE.max, whole, regions.map((_, i) => first + i), { keepDims: true });
  }
  return regions.reduce((from, own, i) => {
    const axis = first + i;
    const made = empty(from.layout.shape.with(axis, shape[axis]!), x);
    for (const region of own) {
      const out = resultsOf(made, axis, region);
      // Only padding.
      if (region.size === 0) writeValue(out, lowestOf(x.storage.info));
      else combine(MAP.maximum, from, axis, region, out, 1);
    }
    return made;
  }, x);
});

/**
 * The largest element of each window, and its place in the plane of the last axes, int64. The first of
 * equal ones; NaN is larger than all numbers.
 */
export const MAX_POOL_INDICES: Op = makeOp({
  kind: "kernel",
  name: "maxPoolIndices",
  contiguous: [0],
  infer(call) {
    const [x] = call.inputs;
    checkOperand(x, call.name);
    const { info } = x.storage;
    checkKind(info, "iuf", call.name);
    const shape = pooledShape(call);
    return [{ shape, dtype: info }, { shape, dtype: DTYPE.int64 }];
  },
});

/** Windows of an axis whose sums are divided by one number. */
interface Divided {
  readonly first: number;
  readonly every: number;
  readonly length: number;
  readonly count: number;
}

/** The windows of the regions of an axis, by what divides them. */
function dividedBy(regions: readonly WindowRegion[]): Divided[] {
  const made: Divided[] = [];
  for (const { first, every, length, count } of regions) {
    const last = made.at(-1);
    const joins = last?.count === count && every === 1 && last.every === 1;
    if (joins) made[made.length - 1] = { ...last, length: last.length + length };
    else made.push({ first, every, length, count });
  }
  return made;
}

/** The sum of each window along one axis. */
function sums(x: Operand, axis: number, regions: readonly WindowRegion[], n: number): Operand {
  const made = empty(x.layout.shape.with(axis, n), x);
  for (const region of regions) combine(MAP.add, x, axis, region, resultsOf(made, axis, region), 1);
  return made;
}

/** The mean of each window along the last axis, of sums along the other ones. */
function means(
  x: Operand,
  first: number,
  regions: readonly (readonly WindowRegion[])[],
  made: Operand,
  divisor: number | undefined,
): void {
  const last = regions.length - 1;
  const visit = (i: number, from: Layout, to: Layout, count: number): void => {
    const axis = first + i;
    const [source, target] = [part(x, from), part(made, to)];
    if (i === last) {
      for (const region of regions[last]!) {
        const by = divisor ?? count * region.count;
        combine(MAP.add, source, axis, region, resultsOf(target, axis, region), by);
      }
      return;
    }
    const all = divisor === undefined ? dividedBy(regions[i]!) : [];
    if (all.length === 0) return visit(i + 1, from, to, 1);
    for (const { first: at, every, length, count: own } of all) {
      const cut = (layout: Layout): Layout => layout.sliceAxis(axis, at, length, every);
      visit(i + 1, cut(from), cut(to), count * own);
    }
  };
  visit(0, x.layout, made.layout, 1);
}

/** The mean of each window. */
export const AVG_POOL: Op = poolOp("avgPool", "f", (given, attributes, shape) => {
  const { info } = given.storage;
  // Sums of 16-bit floats are kept in 32 bits.
  const x = cast(given, rowDType(info).name);
  const { divisor } = attributes;
  const [first, regions] = axesOf(x, attributes);
  const whole = onlyWindow(x, first, regions);
  const elements = regions.reduce((product, [region]) => product * region!.size, 1);
  const count = divisor ?? regions.reduce((product, [region]) => product * region!.count, 1);
  if (whole !== null && elements === count) {
    const axes = regions.map((_, i) => first + i);
    return cast(reduce(REDUCE.mean, whole, axes, { keepDims: true }), info.name);
  }
  const last = regions.length - 1;
  const summed = regions.slice(0, last).reduce(
    (from, own, i) => sums(from, first + i, own, shape[first + i]!),
    x,
  );
  const made = empty(shape, x);
  means(summed, first, regions, made, divisor);
  return cast(made, info.name);
});

/** How {@link maxPoolIndices} counts places. */
export interface PlaceOptions {
  /** Whether places count along the first axis of space first. */
  readonly columnMajor?: boolean;
  /** Whether places count in the whole tensor, not in a plane. */
  readonly whole?: boolean;
}

/** The largest element of each window and its place, as {@link MAX_POOL_INDICES}; ONNX's are `whole`. */
export function maxPoolIndices(
  name: string,
  x: Operand,
  windows: readonly Sliding[],
  { columnMajor = false, whole = false }: PlaceOptions = {},
): [values: Operand, indices: Operand] {
  return tidy(() => {
    const [values, found] = dispatchAll(MAX_POOL_INDICES, [x], { windows }, name) as [
      Operand,
      Operand,
    ];
    const { shape } = x.layout;
    const first = shape.length - windows.length;
    const sizes = shape.slice(first);
    let indices = found;
    if (columnMajor && windows.length > 1) {
      let rest = found, stride = sizes.reduce((a, b) => a * b, 1);
      let sum: Operand | undefined;
      for (let i = sizes.length - 1; i >= 0; i--) {
        stride /= sizes[i]!;
        const own = apply(MAP.mul, apply(MAP.remainder, rest, sizes[i]!), stride);
        sum = sum === undefined ? own : apply(MAP.add, sum, own);
        rest = apply(MAP.floorDivide, rest, sizes[i]!);
      }
      indices = sum!;
    }
    if (!whole) return [values, indices];
    const plane = sizes.reduce((a, b) => a * b, 1);
    const planes = shape.slice(0, first).reduce((a, b) => a * b, 1);
    const { device } = x.storage;
    const starts = fromData(BigInt64Array.from({ length: planes }, (_, i) => BigInt(i * plane)), {
      shape: shape.map((n, i) => i < first ? n : 1),
      dtype: "int64",
      device: device as "cpu",
    });
    return [values, apply(MAP.add, indices, starts)];
  });
}

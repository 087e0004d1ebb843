/**
 * Repeats, rolls, pads and takes triangles and differences: mostly copies between layouts.
 *
 * Knows nothing of the class Tensor.
 *
 * @module
 */
import { checkScalar, type Scalar } from "../../base/dtype.ts";
import { describe } from "../../base/text.ts";
import { ArgumentError, AxisError, ShapeError } from "../../base/errors.ts";
import { Layout } from "../../base/layout.ts";
import {
  checkShape,
  formatShape,
  listIn,
  normalizeAxis,
  ownAxes,
  type Shape,
} from "../../base/shape.ts";
import { contiguousCopy, writeCopy, writeValue } from "../../core/copy.ts";
import { apply, applyView } from "../../core/apply.ts";
import { dispatch } from "../../core/dispatch.ts";
import { ownOperand } from "../../core/foreign.ts";
import { tidy, wrap } from "../../core/handles.ts";
import type { Operand } from "../../memory/operand.ts";
import { checkOperand, checkOptions } from "../../table/infer.ts";
import type { Call, MapOp, Op } from "../../table/op.ts";
import { MAP } from "../../table/table.ts";
import { VIEWS } from "../../table/views.ts";
import { take } from "../index/op.ts";
import { indicesBy, iota } from "../index/selection.ts";
import { composite, copyAs, empty, part } from "../../core/composite.ts";
import { concat } from "../join/op.ts";

// ---- repeating ---------------------------------------------------------------------------------

/**
 * Inserts an axis of stride 0 and size `n` before `axis`, so that a copy repeats the following
 * axes.
 */
function repeated(layout: Layout, axis: number, n: number, name: string): Layout {
  const shape = layout.shape.toSpliced(axis, 0, n);
  return new Layout(checkShape(shape, name), layout.strides.toSpliced(axis, 0, 0), layout.offset);
}

/** The layout and the counts of a tiling, both extended to the rank of the longer one. */
function tiling(x: Operand, counts: readonly number[]): { layout: Layout; counts: number[] } {
  let { layout } = x;
  const all = counts.slice();
  while (layout.shape.length < all.length) layout = layout.expandDims(0);
  while (all.length < layout.shape.length) all.unshift(1);
  return { layout, counts: all };
}

const TILE = composite("tile", (call, x) => {
  const { layout, counts } = tiling(x, checkShape(call.attributes.repeats, "tile by"));
  const shape = checkShape(layout.shape.map((n, i) => n * counts[i]!), call.name);
  return [{ shape, dtype: x.storage.info }];
}, (call, x) => {
  let { layout, counts } = tiling(x, call.attributes.repeats);
  for (let axis = counts.length - 1; axis >= 0; axis--) {
    layout = repeated(layout, axis, counts[axis]!, call.name);
  }
  return copyAs(part(x, layout), call.specs[0]!.shape);
});

/** The whole tensor repeated along each axis, as often as `repeats` says. */
export function tile(x: Operand, repeats: readonly number[]): Operand {
  return dispatch(TILE, [x], { repeats: ownAxes(repeats, "tile") });
}

interface RepeatAttributes {
  readonly repeats: number | readonly number[];
  readonly axis: number | undefined;
}

/** Throws unless `count` is a nonnegative integer. Not a size: the product of counts has no limit. */
function checkedCount(count: unknown): number {
  if (Number.isInteger(count) && count as number >= 0) return count as number;
  throw new ShapeError(`Cannot repeat by ${describe(count)}: a count is an integer of at least 0`);
}

/** One count or several, checked; several are copied. */
function countsOf(repeats: number | readonly number[]): number | readonly number[] {
  const several = listIn(repeats, checkedCount);
  if (several !== undefined) return several;
  if (typeof repeats !== "number") {
    throw new ShapeError(
      `Cannot repeat by ${describe(repeats)}: it takes a count or an array of them`,
    );
  }
  return checkedCount(repeats);
}

const REPEAT = composite("repeat", (call, x) => {
  const { repeats, axis } = call.attributes as RepeatAttributes;
  const counts = typeof repeats === "number" ? [repeats] : repeats;
  const { name } = call;
  const shape = axis === undefined ? [x.layout.size] : x.layout.shape;
  const along = normalizeAxis(name, axis ?? 0, shape.length);
  const n = shape[along]!;
  if (counts.length !== 1 && counts.length !== n) {
    throw new ShapeError(
      `Cannot ${name} axis ${along} of shape ${
        formatShape(shape)
      }: it has size ${n}, and ${counts.length} counts are given`,
    );
  }
  const size = counts.reduce((sum, count) => sum + count, 0) * (counts.length === 1 ? n : 1);
  checkShape([size], `${name} to`);
  return [{ shape: shape.with(along, size), dtype: x.storage.info }];
}, (call, given) => {
  const { repeats, axis } = call.attributes as RepeatAttributes;
  const counts = typeof repeats === "number" ? [repeats] : repeats;
  const x = axis === undefined ? applyView(VIEWS.flatten, given, "flatten") : given;
  const along = normalizeAxis(call.name, axis ?? 0, x.layout.shape.length);
  const { shape } = call.specs[0]!;
  if (counts.length === 1) {
    return copyAs(part(x, repeated(x.layout, along + 1, counts[0]!, call.name)), shape);
  }
  let i = -1;
  let end = 0;
  const indices = indicesBy(x.storage, shape[along]!, (at) => {
    while (at >= end) end += counts[++i]!;
    return i;
  });
  return take(x, indices, along);
});

/** Each element repeated along `axis`, by one number or one per element; flat without axis. */
export function repeat(x: Operand, repeats: number | readonly number[], axis?: number): Operand {
  checkOperand(x, "repeat");
  return dispatch(REPEAT, [x], { repeats: countsOf(repeats), axis });
}

// ---- rolling -----------------------------------------------------------------------------------

interface RollAttributes {
  readonly shift: number | readonly number[];
  readonly axis: number | readonly number[] | undefined;
}

/** The shift of each rolled axis. */
function rolls(call: Call, rank: number): { axis: number; shift: number }[] {
  const { shift, axis } = call.attributes as RollAttributes;
  const { name } = call;
  if (axis === undefined && Array.isArray(shift)) {
    throw new AxisError(`Cannot ${name} by several shifts without axes`);
  }
  const axes: readonly number[] = axis === undefined ? [0] : Array.isArray(axis) ? axis : [axis];
  const shifts: readonly number[] = Array.isArray(shift) ? shift : axes.map(() => shift);
  if (shifts.length !== axes.length) {
    throw new AxisError(`Cannot ${name} ${axes.length} axes by ${shifts.length} shifts`);
  }
  return axes.map((one, i) => {
    const by = shifts[i]!;
    const along = normalizeAxis(name, one, axis === undefined ? 1 : rank);
    if (!Number.isInteger(by)) {
      throw new ArgumentError(`Cannot ${name} by ${describe(by)}: a shift is an integer number`);
    }
    return { axis: along, shift: by };
  });
}

const ROLL = composite("roll", (call, x) => {
  rolls(call, x.layout.shape.length);
  return [{ shape: x.layout.shape, dtype: x.storage.info }];
}, (call, x) => {
  const { shape } = x.layout;
  const flat = call.attributes.axis === undefined;
  let made = flat ? applyView(VIEWS.flatten, x, "flatten") : x;
  const layout = Layout.contiguous(made.layout.shape);
  for (const { axis, shift } of rolls(call, shape.length)) {
    const n = layout.shape[axis]!;
    const by = n === 0 ? 0 : ((shift % n) + n) % n;
    const rolled = empty(layout.shape, x);
    const copyPart = (to: number, from: number, length: number): void =>
      writeCopy(
        part(rolled, layout.sliceAxis(axis, to, length, 1)),
        part(made, made.layout.sliceAxis(axis, from, length, 1)),
      );
    copyPart(by, 0, n - by);
    copyPart(0, n - by, by);
    made = rolled;
  }
  if (made === x) return contiguousCopy(x);
  return flat ? wrap(made.storage, Layout.contiguous(shape)) : made;
});

/** Elements moved along axes by `shift`, cyclically. */
export function roll(
  x: Operand,
  shift: number | readonly number[],
  axis?: number | readonly number[],
): Operand {
  return dispatch(ROLL, [x], { shift: ownAxes(shift, "roll"), axis: ownAxes(axis, "roll") });
}

// ---- padding -----------------------------------------------------------------------------------

/** The elements that `pad` adds. */
export type PadMode = "constant" | "edge" | "reflect" | "symmetric" | "wrap";

/** Options of `pad`. */
export interface PadOptions {
  /**
   * Pads with a value, the edge's element, a mirror image without the edge (`"reflect"`) or with it
   * (`"symmetric"`), or the other end.
   */
  readonly mode?: PadMode;
  /** The value of mode `"constant"`; 0. */
  readonly value?: Scalar;
}

/** The number of elements to add: everywhere, before and after, or before and after each axis. */
export type PadWidths = number | readonly [number, number] | readonly (readonly [number, number])[];

interface PadAttributes {
  readonly widths: PadWidths;
  readonly mode: PadMode;
  readonly value: Scalar;
}

const PAD = composite("pad", (call, x) => {
  const { widths, mode, value } = call.attributes as PadAttributes;
  const { name } = call;
  const { shape } = x.layout;
  const pairs = padPairs(widths, shape);
  if (mode === "constant") checkScalar(x.storage.info.name, value, name);
  else if (mode !== "edge" && mode !== "reflect" && mode !== "symmetric" && mode !== "wrap") {
    throw new ArgumentError(
      `Cannot ${name} with mode ${describe(mode)}: it is "constant", "edge", "reflect", ` +
        '"symmetric" or "wrap"',
    );
  } else {
    const axis = shape.findIndex((n, i) => n === 0 && pairs[i]!.some((width) => width > 0));
    if (axis !== -1) {
      throw new ShapeError(
        `Cannot ${name} axis ${axis} of shape ${formatShape(shape)}: it is empty`,
      );
    }
  }
  const padded = checkShape(shape.map((n, i) => n + pairs[i]![0]! + pairs[i]![1]!), name);
  return [{ shape: padded, dtype: x.storage.info }];
}, (call, x) => {
  const { widths, mode, value } = call.attributes as PadAttributes;
  const { shape } = x.layout;
  const pairs = padPairs(widths, shape);
  const made = empty(call.specs[0]!.shape, x);
  if (mode === "constant") writeValue(made, value);
  /** The result's layout, cut to the elements of `x` along the axes from `axis` on. */
  const from = (axis: number): Layout =>
    shape.reduce(
      (inner, n, i) => i < axis ? inner : inner.sliceAxis(i, pairs[i]![0]!, n, 1),
      made.layout,
    );
  writeCopy(part(made, from(0)), x);
  if (mode === "constant") return made;
  shape.forEach((n, axis) => {
    const lines = from(axis + 1);
    const copy = (to: number, at: number, length: number, step: 1 | 0 | -1): void => {
      if (length === 0) return;
      const source = step === 0
        ? lines.sliceAxis(axis, at, 1, 1).broadcastTo(
          lines.shape.map((size, i) => i === axis ? length : size),
        )
        : lines.sliceAxis(axis, at, length, step);
      writeCopy(part(made, lines.sliceAxis(axis, to, length, 1)), part(made, source));
    };
    extend(copy, pairs[axis]![0]!, n, pairs[axis]![1]!, mode);
  });
  return made;
});

/** `x` with elements added before and after along its axes. */
export function pad(x: Operand, widths: PadWidths, options: PadOptions = {}): Operand {
  checkOperand(x, "pad");
  checkOptions("pad", options, ["mode", "value"]);
  const { mode = "constant", value = 0 } = options;
  const own = ownAxes(widths, "pad");
  const pairs = listIn(own, (pair) => ownAxes(pair, "pad")) ?? own;
  return dispatch(PAD, [x], { widths: pairs, mode, value });
}

/**
 * Fills an axis on both sides of the `n` elements that begin at `before`, by `copy`, which copies
 * elements that it reads with a step of 1, 0 or -1.
 */
function extend(
  copy: (to: number, from: number, length: number, step: 1 | 0 | -1) => void,
  before: number,
  n: number,
  after: number,
  mode: Exclude<PadMode, "constant">,
): void {
  const end = before + n + after;
  if (end === n) return;
  if (mode === "edge" || (mode === "reflect" && n === 1)) {
    copy(0, before, before, 0);
    copy(before + n, before + n - 1, after, 0);
    return;
  }
  let [low, high] = [before, before + n];
  let period = n;
  if (mode === "reflect") {
    period = 2 * (n - 1);
    const [left, right] = [Math.min(n - 1, before), Math.min(n - 1, after)];
    copy(low - left, low + left, left, -1);
    copy(high, high - 2, right, -1);
    low -= left;
    high += right;
  }
  if (mode === "symmetric") {
    period = 2 * n;
    const [left, right] = [Math.min(n, before), Math.min(n, after)];
    copy(low - left, low + left - 1, left, -1);
    copy(high, high - 1, right, -1);
    low -= left;
    high += right;
  }
  // Copies repeated elements in whole periods, doubling each time.
  while (high < end) {
    const whole = Math.floor((high - low) / period) * period;
    const length = Math.min(whole, end - high);
    copy(high, high - whole, length, 1);
    high += length;
  }
  while (low > 0) {
    const whole = Math.floor((high - low) / period) * period;
    const length = Math.min(whole, low);
    copy(low - length, low - length + whole, length, 1);
    low -= length;
  }
}

/** The error for widths `by`, of one axis or of all. */
function badWidths(shape: Shape, axis: number | undefined, by: unknown, why: string): ShapeError {
  const where = axis === undefined ? "" : `axis ${axis} of `;
  return new ShapeError(
    `Cannot pad ${where}shape ${formatShape(shape)} by ${formatShape(by as Shape)}: ${why}`,
  );
}

/** Throws unless `width` is a nonnegative integer; `by` is the argument that it is a part of. */
function checkWidth(width: unknown, shape: Shape, axis: number | undefined, by: unknown): void {
  if (Number.isInteger(width) && width as number >= 0) return;
  const advice = typeof width === "number" && width < 0 ? "; slice() takes elements away" : "";
  throw badWidths(shape, axis, by, `a width is an integer of at least 0${advice}`);
}

/** [before, after] for each axis of `shape`. */
export function padPairs(widths: PadWidths, shape: Shape): (readonly number[])[] {
  if (typeof widths === "number") {
    checkWidth(widths, shape, undefined, widths);
    return shape.map(() => [widths, widths]);
  }
  if (!Array.isArray(widths)) {
    const why = "it takes a number, [before, after], or such a pair for each axis";
    throw badWidths(shape, undefined, widths, why);
  }
  const same = widths.length > 0 && !Array.isArray(widths[0]);
  if (!same && widths.length !== shape.length) {
    throw new ShapeError(
      `Cannot pad shape ${formatShape(shape)}: ${widths.length} pairs for ${shape.length} axes`,
    );
  }
  const pairs: (readonly number[])[] = same ? [widths] : widths;
  pairs.forEach((pair, i) => {
    const axis = same ? undefined : i;
    if (!Array.isArray(pair) || pair.length !== 2) {
      throw badWidths(shape, axis, pair, "a pair is [before, after]");
    }
    for (const width of pair) checkWidth(width, shape, axis, pair);
  });
  return same ? shape.map(() => pairs[0]!) : pairs;
}

// ---- triangles ---------------------------------------------------------------------------------

function triangleOp(name: string, keeps: MapOp): Op {
  return composite(name, (call, x) => {
    const { shape } = x.layout;
    const { k } = call.attributes as { k: number };
    if (shape.length < 2) {
      throw new ShapeError(
        `Cannot ${name} shape ${formatShape(shape)}: it takes at least two axes`,
      );
    }
    if (!Number.isInteger(k)) {
      throw new ArgumentError(`${name}() needs an integer as k, got ${describe(k)}`);
    }
    return [{ shape, dtype: x.storage.info }];
  }, (call, x) => {
    const [rows, columns] = x.layout.shape.slice(-2) as [number, number];
    // Beyond the corners the result is constant, while int32 would overflow.
    const k = Math.max(-rows, Math.min(columns, call.attributes.k));
    const shifted = apply(MAP.add, iota(x.storage, rows), k);
    const lines = part(shifted, shifted.layout.expandDims(1));
    const mask = apply(keeps, iota(x.storage, columns), lines);
    return apply(MAP.where, mask, x, x.storage.info.kind === "b" ? false : 0);
  });
}

const TRIL = triangleOp("tril", MAP.lessEqual);
const TRIU = triangleOp("triu", MAP.greaterEqual);

/** The elements on one side of the diagonal `k` of the last two axes; zero elsewhere. */
export function triangle(name: "tril" | "triu", x: Operand, k = 0): Operand {
  return dispatch(name === "tril" ? TRIL : TRIU, [x], { k });
}

// ---- differences -------------------------------------------------------------------------------

const DIFF = composite("diff", (call, x) => {
  const { n, axis } = call.attributes as { n: number; axis: number };
  if (!Number.isInteger(n) || n < 0) {
    throw new ArgumentError(
      `${call.name}() needs an integer of at least 0 as n, got ${describe(n)}`,
    );
  }
  const { shape } = x.layout;
  const along = normalizeAxis(call.name, axis, shape.length);
  return [{ shape: shape.with(along, Math.max(0, shape[along]! - n)), dtype: x.storage.info }];
}, (call, x) => {
  const { n, axis } = call.attributes as { n: number; axis: number };
  const along = normalizeAxis(call.name, axis, x.layout.shape.length);
  let made = x;
  for (let i = 0; i < n && made.layout.shape[along]! > 0; i++) {
    const length = made.layout.shape[along]! - 1;
    const op = made.storage.info.kind === "b" ? MAP.notEqual : MAP.sub;
    const later = applyView(VIEWS.narrow, made, "narrow", along, 1, length);
    const earlier = applyView(VIEWS.narrow, made, "narrow", along, 0, length);
    made = apply(op, later, earlier);
  }
  return made === x ? contiguousCopy(x) : made;
});

/** Options of `diff`. */
export interface DiffOptions {
  /** Elements before the first ones: a number, or a tensor. */
  readonly prepend?: Operand | Scalar;
  /** Elements after the last ones: a number, or a tensor. */
  readonly append?: Operand | Scalar;
}

/** Elements beside those of `x` along `axis`: a number counts as one element. */
function besides(x: Operand, given: Operand | Scalar, axis: number): Operand {
  const sizes = x.layout.shape;
  const line = sizes.with(axis, 1);
  if (typeof given !== "object") {
    checkScalar(x.storage.info.name, given, "diff");
    const made = empty(line, x);
    writeValue(made, given);
    return made;
  }
  const own = ownOperand(given, "diff");
  checkOperand(own, "diff");
  if (own.layout.shape.length > 0) return own;
  return applyView(VIEWS.broadcastTo, own, "broadcastTo", line);
}

/** The n-th differences between neighbors along `axis`. */
export function diff(x: Operand, n = 1, axis = -1, options?: DiffOptions): Operand {
  if (options !== undefined) checkOptions("diff", options, ["prepend", "append"]);
  // No differences are those of x alone, as in NumPy.
  if (options === undefined || n === 0) return dispatch(DIFF, [x], { n, axis });
  checkOperand(x, "diff");
  const along = normalizeAxis("diff", axis, x.layout.shape.length);
  const { prepend, append } = options;
  return tidy(() => {
    const parts = [x];
    if (prepend !== undefined) parts.unshift(besides(x, prepend, along));
    if (append !== undefined) parts.push(besides(x, append, along));
    const whole = parts.length === 1 ? x : concat(parts, along);
    return dispatch(DIFF, [whole], { n, axis });
  });
}

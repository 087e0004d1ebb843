/**
 * Basic indexing: numbers, slices, ranges, new axes and index strings, applied to a layout.
 *
 * Never touches elements; masks and index tensors, which pick elements, are handled elsewhere.
 *
 * @module
 */
import { describe } from "./text.ts";
import { IndexError } from "./errors.ts";
import { Layout } from "./layout.ts";
import { checkRank, formatShape, normalizeAxis } from "./shape.ts";
import { BRAND, brandFor, brandOf, nameOfCopy, PROTOCOL, THIS_COPY } from "./version.ts";

/**
 * The elements from `start` up to, not including, `stop`, `stepSize` apart, as Python's `slice`:
 * negative bounds count from the end, `null` is an open end, and bounds outside are clipped.
 *
 * ```ts
 * Slice.from(1).to(8).step(3); // 1, 4, 7
 * Slice.full().step(-1); // last to first
 * ```
 */
export class Slice {
  /** The class name, as a bundler may shorten the class's own. @ignore */
  static get name(): string {
    return "Slice";
  }

  /** The first index; `null` is the end at which the step starts. */
  readonly start: number | null;
  /** The index to stop before; `null` continues to the end. */
  readonly stop: number | null;
  /** The distance between neighbors; negative goes backwards. */
  readonly stepSize: number;

  /** Throws an {@link IndexError} for a step of 0 and for values that are not integers. */
  constructor(start: number | null = null, stop: number | null = null, step = 1) {
    if (start !== null) checkInteger("slice", "start", start);
    if (stop !== null) checkInteger("slice", "stop", stop);
    checkInteger("slice", "step", step);
    if (step === 0) throw new IndexError("Cannot slice with step 0");
    this.start = start;
    this.stop = stop;
    this.stepSize = step;
  }

  /** Everything. */
  static full(): Slice {
    return new Slice();
  }

  /** From index `start` on. */
  static from(start: number): Slice {
    return new Slice(start);
  }

  /** Up to, not including, index `stop`. */
  static to(stop: number): Slice {
    return new Slice(null, stop);
  }

  /** Every `step`-th element; from the end when negative. */
  static step(step: number): Slice {
    return new Slice(null, null, step);
  }

  /** Both ends open, the same step. */
  full(): Slice {
    return new Slice(null, null, this.stepSize);
  }

  /** The same slice with another start. */
  from(start: number): Slice {
    return new Slice(start, this.stop, this.stepSize);
  }

  /** The same slice with another stop. */
  to(stop: number): Slice {
    return new Slice(this.start, stop, this.stepSize);
  }

  /** The same slice with another step. */
  step(step: number): Slice {
    return new Slice(this.start, this.stop, step);
  }
}

/** Consecutive indexes between two bounds, backwards when the first is above the second. */
export class Range {
  /** The class name, as a bundler may shorten the class's own. @ignore */
  static get name(): string {
    return "Range";
  }

  /** The first index. */
  readonly start: number;
  /** The index to stop before, or at. */
  readonly stop: number;
  /** Whether `stop` itself belongs to the range. */
  readonly inclusive: boolean;

  /** Throws an {@link IndexError} for bounds that are not integers; {@link range} makes these. */
  constructor(start: number, stop: number, inclusive: boolean) {
    checkInteger("slice by a range", "start", start);
    checkInteger("slice by a range", "stop", stop);
    this.start = start;
    this.stop = stop;
    this.inclusive = inclusive;
  }
}

// By which other copies of the library know them.
Object.defineProperty(Slice.prototype, BRAND, { value: brandFor("slice") });
Object.defineProperty(Range.prototype, BRAND, { value: brandFor("range") });

/** The same slice or range, if `index` is one of another copy of the library; else `index`. */
export function ownSlice<T>(index: T, op: string): T {
  if (typeof index !== "object" || index instanceof Slice || index instanceof Range) return index;
  const brand = brandOf(index, "slice") ?? brandOf(index, "range");
  if (brand === undefined) return index;
  if (brand.protocol !== PROTOCOL) {
    throw new IndexError(
      `Cannot ${op} by a ${brand.kind} of another copy of rowmajor: ${nameOfCopy(brand)} made ` +
        `it, and this is ${THIS_COPY}; load one version`,
    );
  }
  const { start, stop, stepSize, inclusive } = index as T & Slice & Range;
  const made = brand.kind === "slice"
    ? new Slice(start, stop, stepSize)
    : new Range(start, stop, inclusive);
  return made as T;
}

/**
 * The indexes from `start` up or down to, not including, `stop`: `range(2, 5)` gives 2, 3, 4 and
 * `range(5, 2)` gives 5, 4, 3.
 *
 * Negative bounds count from the end, which determines the direction; then indexes outside the axis
 * are clipped.
 */
export function range(start: number, stop: number): Range {
  return new Range(start, stop, false);
}

/** As {@link range}, with `stop`: `rangeInclusive(2, 5)` gives 2, 3, 4, 5. */
export function rangeInclusive(start: number, stop: number): Range {
  return new Range(start, stop, true);
}

function checkInteger(op: string, what: string, value: unknown): void {
  if (!Number.isInteger(value)) {
    throw new IndexError(`Cannot ${op} with ${what} ${describe(value)}: it is not an integer`);
  }
}

/** One axis of a view: `length` indexes from `start` on, `step` apart. */
export interface Span {
  /** The first index; undefined meaning if `length` is 0. */
  readonly start: number;
  /** The number of indexes. */
  readonly length: number;
  /** The distance between neighbors. */
  readonly step: number;
}

/** The span that a slice or a range selects of an axis of `size` elements. */
export function resolveSlice(slice: Slice | Range, size: number): Span {
  if (slice instanceof Slice) resolveStepped(slice, size);
  else resolveRange(slice, size);
  return { start: spanStart, length: spanLength, step: spanStep };
}

// The last resolved span, here rather than in an object, as slicing dominates the cost of views.
let spanStart = 0;
let spanLength = 0;
let spanStep = 1;

function resolveStepped(slice: Slice, size: number): void {
  const step = slice.stepSize;
  const a = slice.start, b = slice.stop;
  const low = step > 0 ? 0 : -1;
  const high = step > 0 ? size : size - 1;
  const first = a === null ? (step > 0 ? low : high) : clip(a, size, low, high);
  const end = b === null ? (step > 0 ? high : low) : clip(b, size, low, high);
  const length = step > 0 ? end - first : first - end;
  spanStart = first;
  spanStep = step;
  spanLength = length <= 0 ? 0 : step === 1 ? length : Math.ceil(length / Math.abs(step));
}

function clip(bound: number, size: number, low: number, high: number): number {
  const index = bound < 0 ? bound + size : bound;
  return index < low ? low : index > high ? high : index;
}

function resolveRange(range: Range, size: number): void {
  const { start, stop, inclusive } = range;
  const first = start < 0 ? start + size : start;
  const last = stop < 0 ? stop + size : stop;
  const extra = inclusive ? 1 : 0;
  if (first > last) {
    spanStart = Math.min(first, size - 1);
    spanLength = Math.max(0, spanStart - Math.max(last - extra, -1));
    spanStep = -1;
    return;
  }
  spanStart = Math.max(first, 0);
  spanLength = Math.max(0, Math.min(last + extra, size) - spanStart);
  spanStep = 1;
}

/**
 * A basic index of an axis: an index (drops the axis), a {@link Slice}, a range, `null` for a new
 * axis, or a string: `"3"`, `"1:8:3"`, `"..."` for all axes without an index.
 */
export type BasicIndex = number | string | Slice | Range | null;

const PARSED = new Map<string, readonly BasicIndex[]>();
const PARSED_LIMIT = 4096;

/**
 * Parses an index string for all axes, such as `"2:, 3, :, 1"`, into its parts: numbers, slices,
 * `null` for `None` or `newaxis`, and `"..."`.
 *
 * Throws an {@link IndexError} for any other part, and for step 0.
 */
export function parseIndexString(text: string, op = "slice"): readonly BasicIndex[] {
  let parts = PARSED.get(text);
  if (parts === undefined) {
    parts = text.split(",").map((part) => parsePart(part.trim(), text, op));
    if (PARSED.size >= PARSED_LIMIT) PARSED.clear();
    PARSED.set(text, parts);
  }
  return parts;
}

const INTEGER = /^-?\d{1,15}$/;

function parsePart(part: string, text: string, op: string): BasicIndex {
  if (part === "...") return part;
  if (part === "None" || part === "newaxis") return null;
  if (INTEGER.test(part)) return Number(part) + 0;
  const fields = part.split(":").map((field) => field.trim());
  if (
    fields.length < 2 || fields.length > 3 ||
    fields.some((field) => field !== "" && !INTEGER.test(field))
  ) {
    const why = `${describe(part)} is not an index, start:stop:step, "..." or None`;
    throw new IndexError(`Cannot ${op} by ${describe(text)}: ${why}`);
  }
  const [start, stop, step] = fields.map((field) => field === "" ? null : Number(field));
  return new Slice(start, stop, step ?? 1);
}

/** Parses the strings of an index; a lone string may cover all axes, others cover one each. */
function parseStrings(index: readonly BasicIndex[], op: string): readonly BasicIndex[] {
  if (index.length === 1) return parseIndexString(index[0] as string, op);
  const result: BasicIndex[] = new Array(index.length);
  for (let i = 0; i < index.length; i++) {
    const arg = index[i]!;
    if (typeof arg !== "string") {
      result[i] = arg;
      continue;
    }
    result[i] = parseOne(arg, op);
  }
  return result;
}

/** Parses a string for one axis, given next to other indexes. */
export function parseOne(text: string, op: string): BasicIndex {
  const parts = parseIndexString(text, op);
  if (parts.length !== 1) {
    throw new IndexError(
      `Cannot ${op} by ${describe(text)} beside other indexes: a string for all axes stands alone`,
    );
  }
  return parts[0]!;
}

/** The view at numbers for the first axes, as in most loops over a tensor. */
function selectLeading(layout: Layout, index: readonly number[], op: string): Layout {
  const count = index.length;
  const rank = layout.shape.length - count;
  let { offset, size } = layout;
  for (let axis = 0; axis < count; axis++) {
    offset += layout.checkIndex(op, axis, index[axis]!) * layout.strides[axis]!;
    size /= layout.shape[axis]!;
  }
  const shape: number[] = new Array(rank);
  const strides: number[] = new Array(rank);
  for (let i = 0; i < rank; i++) {
    shape[i] = layout.shape[count + i]!;
    strides[i] = layout.strides[count + i]!;
  }
  // An empty view keeps the offset of its source, as everywhere in Layout.
  const start = size === 0 ? layout.offset : offset;
  // Leading indexes keep a dense layout dense; other layouts need a check.
  if (layout.contiguous) return new Layout(shape, strides, start, size, true);
  return new Layout(shape, strides, start, size);
}

/** The error for a second "..." or, without one, for more indexes than axes. */
export function notAnIndex(
  op: string,
  shape: readonly number[],
  indexes: number,
  ellipses: number,
): IndexError {
  if (ellipses > 1) return new IndexError(`Cannot ${op} with more than one "..."`);
  return new IndexError(
    `Cannot ${op} shape ${formatShape(shape)} by ${indexes} indexes: it has rank ${shape.length}`,
  );
}

/**
 * The view of `layout` at `index`: one entry per axis from the left, remaining axes whole, or one
 * string for all axes.
 *
 * Throws an {@link IndexError} for an index outside its axis, too many indexes, a second `"..."`,
 * and anything that is not a {@link BasicIndex}.
 */
export function sliceBasic(layout: Layout, index: readonly BasicIndex[], op = "slice"): Layout {
  const count = index.length;
  let numbers = 0;
  while (numbers < count && typeof index[numbers] === "number") numbers++;
  if (numbers === count && count <= layout.shape.length) {
    return selectLeading(layout, index as readonly number[], op);
  }
  // Axes of the result, and axes without an index: "..." stands for these, or else the end does.
  let rank = layout.shape.length;
  let rest = rank;
  let ellipses = 0;
  for (let i = 0; i < count; i++) {
    const arg = index[i]!;
    if (typeof arg === "number") {
      rank--;
      rest--;
    } else if (arg instanceof Slice || arg instanceof Range) rest--;
    else if (arg === null) rank++;
    else if (arg === "...") ellipses++;
    else if (typeof arg === "string") return sliceBasic(layout, parseStrings(index, op), op);
    else {
      const own = index.map((one) => ownSlice(one, op));
      if (own[i] !== arg) return sliceBasic(layout, own, op);
      throw new IndexError(
        `Cannot ${op} by ${describe(arg)}: it is not an index, slice or range`,
      );
    }
  }
  if (ellipses > 1 || rest < 0) {
    throw notAnIndex(op, layout.shape, layout.shape.length - rest, ellipses);
  }
  checkRank(rank, op);
  const shape: number[] = new Array(rank);
  const strides: number[] = new Array(rank);
  let offset = layout.offset;
  let size = 1;
  let axis = 0;
  let out = 0;
  for (let i = 0; i <= count; i++) {
    const arg = i < count ? index[i]! : "...";
    if (typeof arg === "number") {
      offset += layout.checkIndex(op, axis, arg) * layout.strides[axis]!;
      axis++;
    } else if (arg === null) {
      shape[out] = 1;
      strides[out] = 0;
      out++;
    } else if (typeof arg === "string") {
      for (; rest > 0; rest--) {
        shape[out] = layout.shape[axis]!;
        strides[out] = layout.strides[axis]!;
        size *= shape[out]!;
        axis++;
        out++;
      }
    } else {
      if (arg instanceof Slice) resolveStepped(arg, layout.shape[axis]!);
      else resolveRange(arg as Range, layout.shape[axis]!);
      const stride = layout.strides[axis]!;
      shape[out] = spanLength;
      strides[out] = stride * spanStep + 0; // 0 * -1 is -0
      size *= spanLength;
      offset += spanStart * stride;
      axis++;
      out++;
    }
  }
  // An empty view keeps the offset of its source, as everywhere in Layout.
  return new Layout(shape, strides, size === 0 ? layout.offset : offset, size);
}

/**
 * The view of `layout` at `arg` along one axis: an index drops the axis. If `layout` is one axis of
 * another, `shown` is its number there.
 *
 * Throws an {@link IndexError} for an index outside the axis or an invalid argument, and an
 * AxisError for an axis that does not exist.
 */
export function sliceAxisBy(
  layout: Layout,
  axis: number,
  arg: BasicIndex,
  op = "slice",
  shown: number = axis,
): Layout {
  const at = normalizeAxis(op, axis, layout.shape.length);
  let one = ownSlice(arg, op);
  if (typeof one === "string") {
    const parts = parseIndexString(one, op);
    if (parts.length === 1) one = parts[0]!;
  }
  if (typeof one === "number") return layout.selectAxis(at, layout.checkIndex(op, at, one));
  if (!(one instanceof Slice || one instanceof Range)) {
    throw new IndexError(
      `Cannot ${op} axis ${shown} by ${describe(arg)}: it is not an index, slice or range`,
    );
  }
  const { start, length, step } = resolveSlice(one, layout.shape[at]!);
  return layout.sliceAxis(at, start, length, step);
}

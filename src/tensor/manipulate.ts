/**
 * Joining, splitting, repeating, padding and sorting, on operands.
 *
 * Mostly copies between layouts; knows nothing of the class Tensor.
 *
 * @module
 */
import { backendFor } from "../core/backend.ts";
import {
  checkScalar,
  describe,
  DTYPE,
  type DType,
  promoteTypes,
  type Scalar,
} from "../base/dtype.ts";
import {
  apply,
  checkDevice,
  checkOperand,
  checkOptions,
  contiguousCopy,
  delivered,
  fill,
  fillScalar,
  lens,
  type Operand,
  type OpOptions,
  prepareOut,
  result,
  tidily,
  withDense,
} from "../core/dispatch.ts";
import { AxisError, IndexError, ShapeError } from "../base/errors.ts";
import { indexesBy, iota, take } from "./indexing.ts";
import { Layout } from "../base/layout.ts";
import { MAP } from "../ops/table.ts";
import { checkShape, formatShape, normalizeAxis, sameShape } from "../base/shape.ts";
import { allocateIn, type Storage } from "../memory/storage.ts";

/** A dense copy of `x` in another shape of as many elements; the only handle on its memory. */
function copyAs(x: Operand, shape: readonly number[]): Operand {
  const storage = allocateIn(x.storage.memory, x.storage.info, x.layout.size, false);
  fill(storage, Layout.contiguous(x.layout.shape), x);
  return result(storage, Layout.contiguous(shape));
}

/** `x` in one dimension: a lens where strides allow, else a copy. */
export function flatten(x: Operand): Operand {
  return reshape(x, [x.layout.size]);
}

/** `x` in another shape of as many elements: a lens where strides allow, else a copy. */
export function reshape(x: Operand, shape: readonly number[]): Operand {
  checkOperand(x, "reshape");
  const layout = x.layout.reshape(shape);
  if (layout !== null) return lens(x, layout);
  return copyAs(x, Layout.contiguous(x.layout.shape).reshape(shape)!.shape);
}

/** Checks what is to be joined. */
function checkJoined(op: string, xs: readonly Operand[], options: OpOptions): void {
  checkOptions(op, options, ["out"]);
  if (!Array.isArray(xs) || xs.length === 0) {
    throw new ShapeError(`Cannot ${op}: it takes an array of at least one tensor`);
  }
  for (const x of xs) checkOperand(x, op);
}

/** What tensors on one device promote to. */
function joinedDType(op: string, xs: readonly Operand[]): DType {
  let dtype: DType = xs[0]!.storage.info.name;
  for (const { storage } of xs) {
    checkDevice(xs[0]!.storage, storage, op);
    if (storage.info.name !== dtype) dtype = promoteTypes(dtype, storage.info.name, op);
  }
  return dtype;
}

/** A tensor of `shape` and `dtype`, or `out`, in which each of `xs` fills the part that is its own. */
function joined(
  op: string,
  xs: readonly Operand[],
  shape: readonly number[],
  dtype: DType,
  { out }: OpOptions,
  partOf: (whole: Layout, x: Operand, i: number) => Layout,
): Operand {
  const like = xs[0]!.storage;
  const whole = Layout.contiguous(checkShape(shape, op));
  if (out !== undefined) prepareOut(out, whole.shape, dtype, like, op);
  const storage = allocateIn(like.memory, DTYPE[dtype], whole.size, false);
  xs.forEach((x, i) => fill(storage, partOf(whole, x, i), x));
  return delivered(storage, whole.shape, out);
}

/** Joins tensors along an existing axis; with `axis` null, all elements in a row. */
export function concat(
  xs: readonly Operand[],
  axis: number | null = 0,
  options: OpOptions = {},
): Operand {
  checkJoined("concat", xs, options);
  if (axis === null) return tidily(() => concat(xs.map(flatten), 0, options));
  const { shape } = xs[0]!.layout;
  const along = normalizeAxis("concat", axis, shape.length);
  const dtype = joinedDType("concat", xs);
  const total = shape.slice();
  total[along] = 0;
  for (const { layout: { shape: other } } of xs) {
    const apart = shape.findIndex((size, i) => i !== along && size !== other[i]);
    if (apart >= 0 || shape.length !== other.length) {
      throw new ShapeError(
        `Cannot concat shapes ${formatShape(shape)} and ${formatShape(other)}: ` + (
          shape.length !== other.length
            ? "the ranks differ"
            : `axis ${apart} has sizes ${shape[apart]} and ${other[apart]}`
        ),
      );
    }
    total[along]! += other[along]!;
  }
  let end = 0;
  return joined("concat", xs, total, dtype, options, (whole, { layout }) => {
    const size = layout.shape[along]!;
    end += size;
    return whole.sliceAxis(along, end - size, size, 1);
  });
}

/** Joins tensors of one shape along a new axis. */
export function stack(xs: readonly Operand[], axis = 0, options: OpOptions = {}): Operand {
  checkJoined("stack", xs, options);
  const { shape } = xs[0]!.layout;
  for (const { layout: { shape: other } } of xs) {
    if (!sameShape(shape, other)) {
      throw new ShapeError(
        `Cannot stack shapes ${formatShape(shape)} and ${formatShape(other)}: they must be equal`,
      );
    }
  }
  const at = normalizeAxis("stack", axis, shape.length + 1);
  const dtype = joinedDType("stack", xs);
  const total = shape.toSpliced(at, 0, xs.length);
  return joined("stack", xs, total, dtype, options, (whole, _, i) => whole.selectAxis(at, i));
}

/** More views than this are refused, rather than left to run out of memory. */
const MAX_VIEWS = 2 ** 22;

function checkViews(op: string, count: number, { shape }: Layout, axis: number): void {
  if (count > MAX_VIEWS) {
    throw new ShapeError(
      `Cannot ${op} shape ${formatShape(shape)} along axis ${axis}: ${count} views are more than ` +
        `${MAX_VIEWS}`,
    );
  }
}

/** Lenses on `x` along `axis`: so many equal parts, or cut before each of the given indexes. */
export function split(x: Operand, parts: number | readonly number[], axis = 0): Operand[] {
  checkOperand(x, "split");
  const { layout } = x;
  const along = normalizeAxis("split", axis, layout.shape.length);
  const n = layout.shape[along]!;
  let cuts: number[];
  if (typeof parts === "number") {
    if (!Number.isInteger(parts) || parts < 1 || n % parts !== 0) {
      throw new ShapeError(
        `Cannot split shape ${formatShape(layout.shape)} along axis ${along}: ` +
          `size ${n} is not a multiple of ${parts}`,
      );
    }
    checkViews("split", parts, layout, along);
    cuts = Array.from({ length: parts - 1 }, (_, i) => (i + 1) * (n / parts));
  } else {
    if (!Array.isArray(parts)) {
      throw new ShapeError(
        `Cannot split shape ${formatShape(layout.shape)} by ${describe(parts)}: ` +
          "it takes a number of parts or an array of indexes",
      );
    }
    cuts = parts.map((cut) => {
      if (!Number.isInteger(cut)) {
        throw new IndexError(`Cannot split at ${describe(cut)}: an index is an integer`);
      }
      return Math.min(n, Math.max(0, cut < 0 ? cut + n : cut));
    });
  }
  const starts = [0, ...cuts];
  return starts.map((start, i) => {
    const end = Math.max(start, cuts[i] ?? n);
    return lens(x, layout.sliceAxis(along, start, end - start, 1));
  });
}

/** Every sub-tensor along `axis`, as lenses. */
export function unstack(x: Operand, axis = 0): Operand[] {
  checkOperand(x, "unstack");
  const along = normalizeAxis("unstack", axis, x.layout.shape.length);
  const length = x.layout.shape[along]!;
  checkViews("unstack", length, x.layout, along);
  return Array.from(
    { length },
    (_, i) => lens(x, x.layout.selectAxis(along, i)),
  );
}

/** Inserts an axis of stride 0 and size `n` before `axis`, so that a copy repeats what follows. */
function repeated(layout: Layout, axis: number, n: number, op: string): Layout {
  const shape = layout.shape.slice();
  const strides = layout.strides.slice();
  shape.splice(axis, 0, n);
  strides.splice(axis, 0, 0);
  return new Layout(checkShape(shape, op), strides, layout.offset);
}

/** The whole tensor repeated along each axis, as often as `repeats` says. */
export function tile(x: Operand, repeats: readonly number[]): Operand {
  checkOperand(x, "tile");
  const counts = checkShape(repeats, "tile by");
  let { layout } = x;
  while (layout.shape.length < counts.length) layout = layout.expandDims(0);
  while (counts.length < layout.shape.length) counts.unshift(1);
  const shape = layout.shape.map((n, i) => n * counts[i]!);
  for (let axis = counts.length - 1; axis >= 0; axis--) {
    layout = repeated(layout, axis, counts[axis]!, "tile");
  }
  return copyAs(lens(x, layout), checkShape(shape, "tile"));
}

/** Each element repeated along `axis`, so often or as often as an array says; flat without axis. */
export function repeat(
  x: Operand,
  repeats: number | readonly number[],
  axis?: number,
): Operand {
  checkOperand(x, "repeat");
  if (axis === undefined) return tidily(() => repeat(flatten(x), repeats, 0));
  const along = normalizeAxis("repeat", axis, x.layout.shape.length);
  const n = x.layout.shape[along]!;
  const counts: readonly number[] = typeof repeats === "number" ? [repeats] : repeats;
  // Not a shape: the sum of counts is bounded, not their product.
  if (!Array.isArray(counts)) {
    throw new ShapeError(
      `Cannot repeat by ${describe(counts)}: it takes a count or an array of them`,
    );
  }
  let total = 0;
  for (const count of counts) {
    if (!Number.isInteger(count) || count < 0) {
      throw new ShapeError(
        `Cannot repeat by ${describe(count)}: a count is an integer of at least 0`,
      );
    }
    total += count;
  }
  if (counts.length === 1) {
    const shape = x.layout.shape.slice();
    shape[along]! *= counts[0]!;
    return copyAs(lens(x, repeated(x.layout, along + 1, counts[0]!, "repeat")), shape);
  }
  if (counts.length !== n) {
    throw new ShapeError(
      `Cannot repeat axis ${along} of shape ${
        formatShape(x.layout.shape)
      }: it has size ${n}, and ${counts.length} counts are given`,
    );
  }
  checkShape([total], "repeat to");
  let i = -1;
  let end = 0;
  return tidily(() => {
    const places = indexesBy(x.storage, total, (at) => {
      while (at >= end) end += counts[++i]!;
      return i;
    });
    return take(x, places, along);
  });
}

/** Elements moved along axes by `shift`, those that fall off coming in at the other end. */
export function roll(
  x: Operand,
  shift: number | readonly number[],
  axis?: number | readonly number[],
): Operand {
  checkOperand(x, "roll");
  if (axis === undefined) {
    if (typeof shift !== "number") {
      throw new AxisError("Cannot roll by several shifts without axes");
    }
    return tidily(() => rollAxes(flatten(x), [shift], [0], x.layout.shape));
  }
  const axes = Array.isArray(axis) ? axis : [axis];
  const shifts = Array.isArray(shift) ? shift : axes.map(() => shift);
  if (shifts.length !== axes.length) {
    throw new AxisError(`Cannot roll ${axes.length} axes by ${shifts.length} shifts`);
  }
  return tidily(() => rollAxes(x, shifts, axes, x.layout.shape));
}

/** Rolls `x` and gives what comes of it in `shape`. */
function rollAxes(
  x: Operand,
  shifts: readonly number[],
  axes: readonly number[],
  shape: readonly number[],
): Operand {
  const layout = Layout.contiguous(x.layout.shape);
  let made = x;
  axes.forEach((one, i) => {
    const along = normalizeAxis("roll", one, layout.shape.length);
    if (!Number.isInteger(shifts[i])) {
      throw new IndexError(`Cannot roll by ${describe(shifts[i])}: not an integer`);
    }
    const n = layout.shape[along]!;
    const by = n === 0 ? 0 : ((shifts[i]! % n) + n) % n;
    const storage = allocateIn(x.storage.memory, x.storage.info, layout.size, false);
    const part = (from: Layout, start: number, length: number): Layout =>
      from.sliceAxis(along, start, length, 1);
    fill(storage, part(layout, by, n - by), lens(made, part(made.layout, 0, n - by)));
    fill(storage, part(layout, 0, by), lens(made, part(made.layout, n - by, by)));
    made = result(storage, i === axes.length - 1 ? Layout.contiguous(shape) : layout);
  });
  return made === x ? contiguousCopy(x) : made;
}

/** How `pad` fills. */
export interface PadOptions {
  /** With a value, the edge's element, a mirror image without the edge, or the other end. */
  readonly mode?: "constant" | "edge" | "reflect" | "wrap";
  /** The value of mode `"constant"`; 0. */
  readonly value?: Scalar;
}

/** How many elements to add: everywhere, before and after, or before and after each axis. */
export type PadWidths = number | readonly [number, number] | readonly (readonly [number, number])[];

/** `x` with elements added before and after along its axes. */
export function pad(x: Operand, widths: PadWidths, options: PadOptions = {}): Operand {
  checkOperand(x, "pad");
  checkOptions("pad", options, ["mode", "value"]);
  const { mode = "constant", value = 0 } = options;
  const { shape } = x.layout;
  const pairs = padPairs(widths, shape);
  if (mode === "constant") checkScalar(x.storage.info.name, value, "pad");
  else if (mode !== "edge" && mode !== "reflect" && mode !== "wrap") {
    throw new ShapeError(
      `Cannot pad with mode ${describe(mode)}: it is "constant", "edge", "reflect" or "wrap"`,
    );
  } else {
    const axis = shape.findIndex((n, i) => n === 0 && pairs[i]!.some((width) => width > 0));
    if (axis !== -1) {
      throw new ShapeError(`Cannot pad axis ${axis} of shape ${formatShape(shape)}: it is empty`);
    }
  }
  const layout = Layout.contiguous(
    checkShape(shape.map((n, i) => n + pairs[i]![0]! + pairs[i]![1]!), "pad"),
  );
  const storage = allocateIn(x.storage.memory, x.storage.info, layout.size, false);
  if (mode === "constant") fillScalar(storage, layout, value);
  /** The result where it lies along the axes from `axis` on as in `x`, and is whole along others. */
  const from = (axis: number): Layout =>
    shape.reduce(
      (inner, n, i) => i < axis ? inner : inner.sliceAxis(i, pairs[i]![0]!, n, 1),
      layout,
    );
  fill(storage, from(0), x);
  const made = result(storage, layout);
  if (mode !== "constant") {
    shape.forEach((n, axis) => {
      const lines = from(axis + 1);
      const copy = (to: number, at: number, length: number, step: 1 | 0 | -1): void => {
        if (length === 0) return;
        const source = step === 0
          ? lines.sliceAxis(axis, at, 1, 1).broadcastTo(
            lines.shape.map((size, i) => i === axis ? length : size),
          )
          : lines.sliceAxis(axis, at, length, step);
        fill(storage, lines.sliceAxis(axis, to, length, 1), lens(made, source));
      };
      extend(copy, pairs[axis]![0]!, n, pairs[axis]![1]!, mode);
    });
  }
  return made;
}

/**
 * Fills an axis on both sides of the `n` elements that begin at `before`, by `copy`, which moves a
 * number of elements, read with a step of 1, 0 or -1.
 */
function extend(
  copy: (to: number, from: number, length: number, step: 1 | 0 | -1) => void,
  before: number,
  n: number,
  after: number,
  mode: "edge" | "reflect" | "wrap",
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
  // What repeats is copied in whole periods, each time as many as there are.
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

/** [before, after] for each axis of `shape`. */
function padPairs(widths: PadWidths, shape: readonly number[]): (readonly number[])[] {
  if (typeof widths === "number") {
    checkShape([widths], "pad by");
    return shape.map(() => [widths, widths]);
  }
  if (!Array.isArray(widths)) {
    throw new ShapeError(
      `Cannot pad shape ${formatShape(shape)} by ${describe(widths)}: ` +
        "it takes a number, [before, after], or such a pair for each axis",
    );
  }
  const same = widths.length > 0 && !Array.isArray(widths[0]);
  if (!same && widths.length !== shape.length) {
    throw new ShapeError(
      `Cannot pad shape ${formatShape(shape)}: ${widths.length} pairs for ${shape.length} axes`,
    );
  }
  const pairs: number[][] = (same ? [widths] : widths).map((pair) => checkShape(pair, "pad by"));
  for (const pair of pairs) {
    if (pair.length !== 2) {
      throw new ShapeError(
        `Cannot pad shape ${formatShape(shape)} by ${formatShape(pair)}: ` +
          "a pair is [before, after]",
      );
    }
  }
  return same ? shape.map(() => pairs[0]!) : pairs;
}

/** The elements on one side of the diagonal `k` of the last two axes; zero elsewhere. */
export function triangle(op: "tril" | "triu", x: Operand, k = 0): Operand {
  checkOperand(x, op);
  const { shape } = x.layout;
  if (shape.length < 2) {
    throw new ShapeError(`Cannot ${op} shape ${formatShape(shape)}: it takes at least two axes`);
  }
  if (!Number.isInteger(k)) throw new IndexError(`Cannot ${op} at diagonal ${describe(k)}`);
  const [rows, columns] = [shape[shape.length - 2]!, shape[shape.length - 1]!];
  return tidily(() => {
    const row = iota(x.storage, rows);
    const column = iota(x.storage, columns);
    // Beyond the corners nothing changes any more, while int32 would end.
    const shifted = apply(MAP.add, row, Math.max(-rows, Math.min(columns, k)));
    const lines = lens(shifted, shifted.layout.expandDims(1));
    const mask = apply(op === "tril" ? MAP.lessEqual : MAP.greaterEqual, column, lines);
    return apply(MAP.where, mask, x, x.storage.info.kind === "b" ? false : 0);
  });
}

/** Options of `sort` and `argsort`. */
export interface SortOptions {
  /** Largest first. NaN goes last all the same. */
  readonly descending?: boolean;
}

/** The elements along `axis` in order, or (`op` argsort) their indexes as int32. Stable. */
export function sort(
  op: "sort" | "argsort",
  x: Operand,
  axis = -1,
  options: SortOptions = {},
): Operand {
  checkOperand(x, op);
  checkOptions(op, options, ["descending"]);
  const { descending = false } = options;
  const along = normalizeAxis(op, axis, x.layout.shape.length);
  const last = x.layout.shape.length - 1;
  if (along !== last) {
    return tidily(() => {
      const sorted = sort(op, lens(x, x.layout.moveAxis(along, -1)), -1, options);
      return contiguousCopy(lens(sorted, sorted.layout.moveAxis(-1, along)));
    });
  }
  const sortRows = ({ storage, layout }: Operand, order: Storage | null): void => {
    const n = layout.shape[last]!;
    if (layout.size === 0) return;
    const rows = layout.size / n;
    backendFor(storage).sort(storage, layout.offset, rows, n, descending, order);
  };
  // Values are sorted in a copy of their own; orders only read.
  if (op === "sort") {
    const made = contiguousCopy(x);
    sortRows(made, null);
    return made;
  }
  return withDense(x, (dense) => {
    const order = allocateIn(x.storage.memory, DTYPE.int32, x.layout.size, false);
    sortRows(dense, order);
    return result(order, Layout.contiguous(x.layout.shape));
  });
}

/** The n-th differences between neighbours along `axis`. */
export function diff(x: Operand, n = 1, axis = -1): Operand {
  checkOperand(x, "diff");
  if (!Number.isInteger(n) || n < 0) throw new ShapeError(`Cannot diff ${describe(n)} times`);
  const along = normalizeAxis("diff", axis, x.layout.shape.length);
  return tidily(() => {
    let made = x;
    for (let i = 0; i < n && made.layout.shape[along]! > 0; i++) {
      const { layout } = made;
      const length = layout.shape[along]! - 1;
      const row = made.storage.info.kind === "b" ? MAP.notEqual : MAP.sub;
      made = apply(
        row,
        lens(made, layout.sliceAxis(along, 1, length, 1)),
        lens(made, layout.sliceAxis(along, 0, length, 1)),
      );
    }
    return made === x ? contiguousCopy(x) : made;
  });
}

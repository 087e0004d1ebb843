/**
 * From layouts to loops: broadcasting, flipping, sorting and merging axes, once for all operands.
 *
 * A {@link Plan} is pure data that every backend can run. Knows nothing of dtypes, storages or ops.
 *
 * @module
 */
import { Layout } from "./layout.ts";

/** Position of the number of axes in {@link Plan.data}. */
export const RANK = 0;
/** Position of the number of operands. */
export const OPERANDS = 1;
/** Position of the number of axes that a reduction keeps. */
export const KEPT = 2;
/** First position of the attributes of the call, up to eight numbers, in {@link Plan.data}. */
export const ATTRIBUTES = 3;
/** First position of the offsets of the operands in {@link Plan.data}; shape and strides follow. */
export const OFFSETS = 11;

const INT64_INDEX_FROM = 2 ** 30;

/** Two axes at least this long are processed in tiles if an operand runs across them. */
const TILE_LEAST = 16;

/**
 * The data that a backend needs to run one op:
 * `[rank, operands, kept, 8 attributes, offsets…, shape…, strides of operand 0…, of operand 1…]`.
 * Operand 0 is the output. Offsets, sizes and strides are in elements. Axes run from the outermost
 * to the innermost. For reductions the first `kept` axes are those of the output, and the output's
 * strides along the others are 0.
 */
export class Plan {
  /** The numbers, in the format that C reads. Valid up to {@link Plan.length}. */
  data: Float64Array = new Float64Array(64);
  /** The number of axes after merging, at least 1 for maps. */
  rank = 0;
  /** The number of positions: the product of the sizes. */
  size = 0;
  /** The number of operands, the output included. */
  operands = 0;
  /** For reductions, the number of axes of the output. */
  kept = 0;
  /** The innermost stride of each operand as a base-3 digit: 0, 1 or anything else (2). */
  innerStrideKey = 0;
  /**
   * True if sizes or positions, in 32-bit words for 64-bit elements, may not fit 32-bit integers.
   */
  needsInt64Index = false;
  /** True if iterating over the two innermost axes in tiles is best. */
  tiled = false;
  /**
   * For maps, the four fields above and {@link innerStrideKey} in one number: plans of one kind
   * share it.
   */
  variant = 0;

  /** The number of valid entries of {@link Plan.data}. */
  get length(): number {
    return OFFSETS + this.operands + this.rank * (1 + this.operands);
  }
}

/** The variant of two dense operands: rank 1, not tiled, 32-bit indices, strides of 1. */
const DENSE_PAIR = 4 * 81 + 13;

/** The plan of synchronous calls: each call finishes with it before the next begins. */
const shared: Plan = new Plan();

// Scratch of the general path: the axes during sorting and merging.
let rank = 0;
let count = 0;
const sizes: number[] = [];
const steps: number[][] = [[], [], [], []];
const starts: number[] = [0, 0, 0, 0];
const order: number[] = [];

/**
 * Plans an elementwise op from up to three inputs to `out`; each input broadcasts to `out`'s shape
 * (already checked).
 */
export function planMap(out: Layout, a: Layout, b: Layout | null, c: Layout | null): Plan {
  const plan = shared;
  // Two dense operands of the result's shape: so common that they have a path of their own.
  if (
    b !== null && c === null && out.contiguous && a.contiguous && b.contiguous &&
    a.size === out.size && b.size === out.size
  ) {
    const { data } = plan;
    data[RANK] = plan.rank = 1;
    data[OPERANDS] = plan.operands = 3;
    plan.tiled = false;
    plan.size = out.size;
    plan.needsInt64Index = out.size + out.offset + a.offset + b.offset >= INT64_INDEX_FROM;
    data[OFFSETS] = out.offset;
    data[OFFSETS + 1] = a.offset;
    data[OFFSETS + 2] = b.offset;
    data[OFFSETS + 3] = out.size;
    data[OFFSETS + 4] = data[OFFSETS + 5] = data[OFFSETS + 6] = 1;
    plan.innerStrideKey = 13;
    plan.variant = plan.needsInt64Index ? DENSE_PAIR + 81 : DENSE_PAIR;
    return plan;
  }
  const operands = c !== null ? 4 : b !== null ? 3 : 2;
  // The common case, in a few comparisons: every operand dense and of one shape, or a single
  // element.
  if (
    out.contiguous && dense(a, out) && (b === null || dense(b, out)) &&
    (c === null || dense(c, out))
  ) {
    const data = plan.data;
    plan.rank = 1;
    plan.operands = data[OPERANDS] = operands;
    plan.tiled = false;
    plan.size = out.size;
    data[RANK] = 1;
    data[OFFSETS] = out.offset;
    data[OFFSETS + 1] = a.offset;
    let at = OFFSETS + 2;
    if (b !== null) data[at++] = b.offset;
    if (c !== null) data[at++] = c.offset;
    data[at++] = out.size;
    data[at++] = 1;
    // Offsets and sizes are at least 0, so their sum is an upper bound of each.
    plan.needsInt64Index =
      out.size + out.offset + a.offset + (b?.offset ?? 0) + (c?.offset ?? 0) >= INT64_INDEX_FROM;
    let innerStrideKey = 3 + (data[at++] = a.size === 1 ? 0 : 1);
    if (b !== null) innerStrideKey = innerStrideKey * 3 + (data[at++] = b.size === 1 ? 0 : 1);
    if (c !== null) innerStrideKey = innerStrideKey * 3 + (data[at++] = c.size === 1 ? 0 : 1);
    plan.innerStrideKey = innerStrideKey;
    plan.variant = variantOf(plan);
    return plan;
  }
  begin(out, operands);
  addOperand(0, out, out.shape);
  addOperand(1, a, out.shape);
  if (b !== null) addOperand(2, b, out.shape);
  if (c !== null) addOperand(3, c, out.shape);
  for (let i = 0; i < rank; i++) sizes[i] = out.shape[i]!;
  return finishMap();
}

/**
 * Plans an elementwise op of any number of `outputs`, all of one shape, and `inputs`, which broadcast
 * to it. The operands of the plan are in that order.
 */
export function planMaps(outputs: readonly Layout[], inputs: readonly Layout[]): Plan {
  const [first] = outputs;
  const { shape } = first!;
  begin(first!, outputs.length + inputs.length);
  while (steps.length < count) steps.push([]);
  outputs.forEach((layout, k) => addOperand(k, layout, shape));
  inputs.forEach((layout, k) => addOperand(outputs.length + k, layout, shape));
  for (let i = 0; i < rank; i++) sizes[i] = shape[i]!;
  return finishMap();
}

/**
 * Plans the loop over one block: the elements of `out` and `a` at the first position along axes of
 * each, `outAxes` and `aAxes` many from `axis` on. The others have the same sizes in both.
 */
export function planBlocks(
  out: Layout,
  outAxes: number,
  a: Layout,
  aAxes: number,
  axis: number,
): Plan {
  count = 2;
  rank = out.shape.length - outAxes;
  starts[0] = out.offset;
  starts[1] = a.offset;
  for (let i = 0; i < rank; i++) {
    const inOut = i < axis ? i : i + outAxes;
    sizes[i] = out.shape[inOut]!;
    steps[0]![i] = out.strides[inOut]!;
    steps[1]![i] = a.strides[i < axis ? i : i + aAxes]!;
  }
  return finishMap();
}

/**
 * Plans a reduction of `a` (and `b`) over the axes where `reduced` is true. `out` has the input's
 * rank, with size 1 along the reduced axes (or, for a scan, the input's size), or only the kept
 * axes; `b` has the input's rank, with size 1 where it broadcasts. With `ordered`, elements are
 * visited in row-major order of the reduced axes, as index results and scans need.
 */
export function planReduce(
  out: Layout,
  a: Layout,
  b: Layout | null,
  reduced: readonly boolean[],
  ordered: boolean,
): Plan {
  const plan = shared;
  // One run that is folded to one element: dense, or along one axis.
  if (b === null && out.size === 1 && (a.contiguous || isRun(a))) {
    const stride = a.contiguous ? 1 : a.strides[0]!;
    const data = plan.data;
    data[RANK] = plan.rank = 1;
    data[OPERANDS] = plan.operands = 2;
    data[KEPT] = plan.kept = 0;
    plan.tiled = false;
    plan.size = a.size;
    plan.needsInt64Index = a.size * stride + out.offset + a.offset >= INT64_INDEX_FROM;
    data[OFFSETS] = out.offset;
    data[OFFSETS + 1] = a.offset;
    data[OFFSETS + 2] = a.size;
    data[OFFSETS + 3] = 0;
    data[OFFSETS + 4] = stride;
    plan.innerStrideKey = stride === 1 ? 1 : 2;
    return plan;
  }
  begin(a, b === null ? 2 : 3);
  let keptAxes = 0;
  for (let axis = 0; axis < rank; axis++) if (!reduced[axis]) order[keptAxes++] = axis;
  let end = keptAxes;
  for (let axis = 0; axis < rank; axis++) if (reduced[axis]) order[end++] = axis;
  for (let i = 0; i < rank; i++) sizes[i] = a.shape[order[i]!]!;
  if (out.shape.length === rank) addAlong(0, out);
  else {
    starts[0] = out.offset;
    for (let i = 0; i < rank; i++) steps[0]![i] = i < keptAxes ? out.strides[i]! : 0;
  }
  addAlong(1, a);
  if (b !== null) addAlong(2, b);
  let kept = dropUnits(0, keptAxes);
  const removed = keptAxes - kept;
  for (let i = keptAxes; i < rank; i++) moveAxis(i, i - removed);
  rank -= removed;
  rank = dropUnits(kept, rank);
  flipNegative(0, kept);
  sortAxes(0, kept);
  if (!ordered) {
    flipNegative(kept, rank);
    sortAxes(kept, rank);
  }
  rank = mergeAxes(kept, rank);
  const keptMerged = mergeAxes(0, kept);
  for (let i = kept; i < rank; i++) moveAxis(i, i - (kept - keptMerged));
  rank -= kept - keptMerged;
  kept = keptMerged;
  return finish(plan, kept, false);
}

/** Whether elements lie along one axis, in ascending order. */
function isRun({ shape, strides, size }: Layout): boolean {
  return shape.length === 1 && size > 1 && strides[0]! > 0;
}

/**
 * Adds the strides of an operand in the order of the axes of a reduction: 0 where it broadcasts.
 */
function addAlong(k: number, { shape, strides, offset }: Layout): void {
  starts[k] = offset;
  const step = steps[k]!;
  for (let i = 0; i < rank; i++) {
    const axis = order[i]!;
    step[i] = shape[axis] === sizes[i] ? strides[axis]! : 0;
  }
}

/** The stride of operand `k` along `axis`. */
export function strideOf({ data, rank, operands }: Plan, k: number, axis: number): number {
  return data[OFFSETS + operands + rank * (k + 1) + axis]!;
}

/** The layout of operand `k` in `plan`, along the first `axes` axes. */
export function layoutOf(plan: Plan, k: number, axes: number = plan.rank): Layout {
  const { data, operands } = plan;
  const shape = OFFSETS + operands;
  return new Layout(
    Array.from(data.subarray(shape, shape + axes)),
    Array.from({ length: axes }, (_, axis) => strideOf(plan, k, axis)),
    data[OFFSETS + k]!,
  );
}

function variantOf({ rank, tiled, needsInt64Index, innerStrideKey }: Plan): number {
  return ((rank * 2 + (tiled ? 1 : 0)) * 2 + (needsInt64Index ? 1 : 0)) * 81 + innerStrideKey;
}

function dense(layout: Layout, out: Layout): boolean {
  return layout.size === 1 || (layout.contiguous && layout.size === out.size);
}

function begin(like: Layout, operands: number): void {
  rank = like.shape.length;
  count = operands;
}

/** Adds the strides of an operand against `shape`: 0 where it broadcasts. */
function addOperand(k: number, layout: Layout, shape: readonly number[]): void {
  starts[k] = layout.offset;
  const missing = shape.length - layout.shape.length;
  const step = steps[k]!;
  for (let i = 0; i < shape.length; i++) {
    step[i] = i < missing || (layout.shape[i - missing] === 1 && shape[i] !== 1)
      ? 0
      : layout.strides[i - missing]!;
  }
}

/** Drops the axes of size 1; makes a single empty axis if one is empty. */
function dropUnitAxes(): boolean {
  for (let i = 0; i < rank; i++) {
    if (sizes[i] === 0) {
      rank = 1;
      sizes[0] = 0;
      for (let k = 0; k < count; k++) steps[k]![0] = 1;
      return false;
    }
  }
  rank = dropUnits(0, rank);
  if (rank === 0) {
    rank = 1;
    sizes[0] = 1;
    for (let k = 0; k < count; k++) steps[k]![0] = 1;
  }
  return true;
}

/** Drops the axes of size 1 in [from, to); returns the new end. */
function dropUnits(from: number, to: number): number {
  let end = from;
  for (let i = from; i < to; i++) if (sizes[i] !== 1) moveAxis(i, end++);
  return end;
}

function moveAxis(from: number, to: number): void {
  if (from === to) return;
  sizes[to] = sizes[from]!;
  for (let k = 0; k < count; k++) steps[k]![to] = steps[k]![from]!;
}

/** Reverses an axis if the stride of every operand along it is negative or 0. */
function flipNegative(from: number, to: number): void {
  for (let i = from; i < to; i++) {
    let negative = false;
    let positive = false;
    for (let k = 0; k < count; k++) {
      if (steps[k]![i]! < 0) negative = true;
      else if (steps[k]![i]! > 0) positive = true;
    }
    if (!negative || positive || sizes[i] === 0) continue;
    for (let k = 0; k < count; k++) {
      starts[k]! += (sizes[i]! - 1) * steps[k]![i]!;
      steps[k]![i] = 0 - steps[k]![i]!;
    }
  }
}

/** True if axis `i` belongs outside axis `j`: by the output's stride, then the inputs'. */
function isOuter(i: number, j: number): boolean {
  for (let k = 0; k < count; k++) {
    const step = steps[k]!;
    const si = Math.abs(step[i]!);
    const sj = Math.abs(step[j]!);
    if (si !== sj && si !== 0 && sj !== 0) return si > sj;
  }
  return false;
}

function swapAxes(i: number, j: number): void {
  const size = sizes[i]!;
  sizes[i] = sizes[j]!;
  sizes[j] = size;
  for (let k = 0; k < count; k++) {
    const step = steps[k]!;
    const stride = step[i]!;
    step[i] = step[j]!;
    step[j] = stride;
  }
}

function sortAxes(from: number, to: number): void {
  for (let i = from + 1; i < to; i++) {
    for (let j = i; j > from && isOuter(j, j - 1); j--) swapAxes(j, j - 1);
  }
}

/** Merges each pair of axes that all operands cross without a gap; returns the new end. */
function mergeAxes(from: number, to: number): number {
  if (to - from < 2) return to;
  let end = from;
  for (let i = from + 1; i < to; i++) {
    let fits = true;
    for (let k = 0; k < count && fits; k++) {
      fits = steps[k]![end] === steps[k]![i]! * sizes[i]!;
    }
    if (fits) {
      const n = sizes[end]!;
      moveAxis(i, end);
      sizes[end] = sizes[i]! * n;
    } else {
      moveAxis(i, ++end);
    }
  }
  return end + 1;
}

/** A loop of two or three elements inside a long one costs more than the reverse. */
function lengthenInnermost(): void {
  if (rank < 2) return;
  const inner = rank - 1;
  if (sizes[inner]! < 8 && sizes[inner - 1]! > 4 * sizes[inner]!) swapAxes(inner, inner - 1);
}

/**
 * If an input is dense along an axis other than the innermost, moves that axis next to the
 * innermost and requests tiles over the two.
 */
function chooseTiles(): boolean {
  if (rank < 2) return false;
  const inner = rank - 1;
  if (sizes[inner]! < TILE_LEAST) return false;
  for (let k = 1; k < count; k++) {
    const step = steps[k]!;
    const across = Math.abs(step[inner]!);
    if (across < 2) continue;
    for (let i = 0; i < inner; i++) {
      const along = Math.abs(step[i]!);
      if (along === 0 || along >= across || sizes[i]! < TILE_LEAST) continue;
      for (let j = i; j < inner - 1; j++) swapAxes(j, j + 1);
      return true;
    }
  }
  return false;
}

/** Orders and merges the axes of a map, and writes its plan. */
function finishMap(): Plan {
  if (!dropUnitAxes()) return finish(shared, 0, false);
  flipNegative(0, rank);
  sortAxes(0, rank);
  rank = mergeAxes(0, rank);
  lengthenInnermost();
  return finish(shared, 0, chooseTiles());
}

function finish(plan: Plan, kept: number, tiled: boolean): Plan {
  plan.rank = rank;
  plan.operands = count;
  plan.kept = kept;
  plan.tiled = tiled;
  const needed = OFFSETS + count + rank * (1 + count);
  if (plan.data.length < needed) plan.data = new Float64Array(needed * 2);
  const data = plan.data;
  data[RANK] = rank;
  data[OPERANDS] = count;
  data[KEPT] = kept;
  let at = OFFSETS;
  for (let k = 0; k < count; k++) data[at++] = starts[k]!;
  for (let i = 0; i < rank; i++) data[at++] = sizes[i]!;
  let innerStrideKey = 0;
  let largest = 0;
  let size = 1;
  for (let i = 0; i < rank; i++) {
    size *= sizes[i]!;
    largest = Math.max(largest, sizes[i]!);
  }
  plan.size = size;
  for (let k = 0; k < count; k++) {
    const step = steps[k]!;
    let reach = starts[k]!;
    for (let i = 0; i < rank; i++) {
      data[at++] = step[i]!;
      reach += Math.abs(step[i]!) * sizes[i]!;
    }
    if (reach > largest) largest = reach;
    const last = rank === 0 ? 1 : step[rank - 1]!;
    innerStrideKey = innerStrideKey * 3 + (last === 0 ? 0 : last === 1 ? 1 : 2);
  }
  plan.innerStrideKey = innerStrideKey;
  plan.needsInt64Index = largest >= INT64_INDEX_FROM;
  plan.variant = variantOf(plan);
  return plan;
}

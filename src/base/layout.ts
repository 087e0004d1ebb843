/**
 * The arrangement of elements in a buffer: shape, strides and offset. Every view is arithmetic on
 * these.
 *
 * Counts in elements, and knows nothing of buffers, dtypes or tensors.
 *
 * The methods run once per view, in a few nanoseconds: hence plain loops and one object shape.
 *
 * @module
 */
import { describe } from "./text.ts";
import { ArgumentError, AxisError, IndexError, ShapeError } from "./errors.ts";
import {
  checkRank,
  checkShape,
  formatShape,
  normalizeAxes,
  normalizeAxis,
  resolveReshape,
  sameShape,
  type Shape,
  sizeOf,
} from "./shape.ts";

function isContiguous(shape: Shape, strides: readonly number[], size: number): boolean {
  if (size === 0) return true;
  let expected = 1;
  for (let i = shape.length - 1; i >= 0; i--) {
    const n = shape[i]!;
    if (n === 1) continue;
    if (strides[i] !== expected) return false;
    expected *= n;
  }
  return true;
}

/** Strides of a dense row-major array: (2, 3, 4) gives [12, 4, 1]. */
function rowMajorStrides(shape: Shape): number[] {
  const strides: number[] = new Array(shape.length);
  let stride = 1;
  for (let i = shape.length - 1; i >= 0; i--) {
    strides[i] = stride;
    // A 0 counts as 1, so that the strides of an empty array are still those of its other axes.
    if (shape[i]! > 1) stride *= shape[i]!;
  }
  return strides;
}

/** Four times as fast as `slice()` in V8 for arrays as short as these. */
function copy(sizes: readonly number[]): number[] {
  const result: number[] = new Array(sizes.length);
  for (let i = 0; i < sizes.length; i++) result[i] = sizes[i]!;
  return result;
}

/**
 * A frozen copy of `sizes`, or the previous one, `last`, if it is equal: freezing takes JSC a
 * microsecond, and views in a loop have one shape.
 */
function frozen(sizes: readonly number[], last: readonly number[]): readonly number[] {
  return sameShape(sizes, last) ? last : Object.freeze(copy(sizes));
}

let lastShape: readonly number[] = Object.freeze([]);
let lastStrides: readonly number[] = Object.freeze([]);

function badIndex(op: string, shape: Shape, axis: number, index: unknown): IndexError {
  const why = Number.isInteger(index) ? `it has size ${shape[axis]}` : "an index is an integer";
  return new IndexError(
    `Cannot ${op} axis ${axis} of shape ${formatShape(shape)} at ${describe(index)}: ${why}`,
  );
}

function badBroadcast(shape: Shape, target: Shape, why: string): ShapeError {
  return new ShapeError(
    `Cannot broadcast shape ${formatShape(shape)} to ${formatShape(target)}: ${why}`,
  );
}

/**
 * Shape, strides and offset of a tensor; immutable, so that views may share its arrays.
 *
 * An empty view keeps the offset of its source: an offset should be inside the buffer even if it is
 * never used.
 */
export class Layout {
  /** The class name, as a bundler may shorten the class's own. @ignore */
  static get name(): string {
    return "Layout";
  }

  /** The size of each axis. */
  readonly shape: readonly number[];
  /** The distance between neighbors along each axis, in elements; negative or 0 in some views. */
  readonly strides: readonly number[];
  /** The position of element (0, 0, …) in the buffer, in elements. */
  readonly offset: number;
  /** The number of elements. */
  readonly size: number;
  /**
   * True if the elements are dense in row-major order; axes of size 1 and empty layouts do not
   * count.
   */
  readonly contiguous: boolean;
  /** A frozen copy of {@link shape}, made on first use. */
  #frozenShape: readonly number[] | null = null;

  /**
   * Describes elements by checked `shape` and `strides` (taken over, not copied).
   *
   * `size` and `contiguous` are computed unless the caller knows them.
   */
  constructor(
    shape: readonly number[],
    strides: readonly number[],
    offset: number,
    size: number = sizeOf(shape),
    contiguous: boolean = isContiguous(shape, strides, size),
  ) {
    this.shape = shape;
    this.strides = strides;
    this.offset = offset;
    this.size = size;
    this.contiguous = contiguous;
  }

  /** The dense row-major layout of a checked `shape` (taken over, not copied). */
  static contiguous(shape: readonly number[], offset = 0): Layout {
    return new Layout(shape, rowMajorStrides(shape), offset, sizeOf(shape), true);
  }

  /**
   * {@link shape}, protected from writes by the caller.
   *
   * A copy, since engines read frozen arrays two to six times slower, and every op reads the arrays
   * of the layout.
   */
  get frozenShape(): readonly number[] {
    if (this.#frozenShape === null) {
      this.#frozenShape = lastShape = frozen(this.shape, lastShape);
    }
    return this.#frozenShape;
  }

  /** {@link strides} in the same way. */
  get frozenStrides(): readonly number[] {
    return lastStrides = frozen(this.strides, lastStrides);
  }

  /** The number of axes. */
  get rank(): number {
    return this.shape.length;
  }

  /** True if the elements are dense with the first axis fastest, as in Fortran. */
  get isColumnMajor(): boolean {
    if (this.size === 0) return true;
    let expected = 1;
    for (let i = 0; i < this.shape.length; i++) {
      if (this.shape[i] === 1) continue;
      if (this.strides[i] !== expected) return false;
      expected *= this.shape[i]!;
    }
    return true;
  }

  /**
   * True if several indexes may reach one element, which forbids writes.
   *
   * False if each stride exceeds the combined reach of the smaller ones, as in every view of a
   * dense array that repeats nothing. A few other sets of strides (2 and 3 for [2, 2]) also reach
   * each element once; detecting them is not worth a search.
   */
  get overlapsItself(): boolean {
    if (this.contiguous || this.size <= 1) return false;
    const { shape, strides } = this;
    let reach = 0;
    for (let last = 0;;) {
      let next = Infinity;
      let length = 0;
      for (let i = 0; i < shape.length; i++) {
        if (shape[i] === 1) continue;
        const stride = Math.abs(strides[i]!);
        if (stride === 0 || stride === next) return true;
        if (stride > last && stride < next) {
          next = stride;
          length = shape[i]!;
        }
      }
      if (length === 0) return false;
      if (next <= reach) return true;
      reach += (length - 1) * next;
      last = next;
    }
  }

  /** The first and the last buffer position in use, both inclusive; `[offset, offset - 1]` if empty. */
  extent(): [min: number, max: number] {
    let min = this.offset;
    let max = this.offset;
    if (this.size === 0) return [min, max - 1];
    for (let i = 0; i < this.shape.length; i++) {
      const reach = (this.shape[i]! - 1) * this.strides[i]!;
      if (reach < 0) min += reach;
      else max += reach;
    }
    return [min, max];
  }

  /**
   * The buffer position of the element at `index`: offset + Σ index · stride.
   *
   * Throws an {@link IndexError} unless there is one integer per axis, each inside its axis
   * (negative ones count from the end).
   */
  flatIndex(op: string, index: readonly number[]): number {
    const shape = this.shape;
    const strides = this.strides;
    const rank = shape.length;
    if (index.length !== rank) {
      throw new IndexError(
        `Cannot ${op} an element of shape ${formatShape(shape)} at ${formatShape(index)}: ` +
          `it takes ${rank} indexes, not ${index.length}`,
      );
    }
    let position = this.offset;
    for (let axis = 0; axis < rank; axis++) {
      position += this.checkIndex(op, axis, index[axis]!) * strides[axis]!;
    }
    return position;
  }

  /** Turns an index along a normalized `axis`, which may be negative, into one from 0 to size - 1. */
  checkIndex(op: string, axis: number, index: number): number {
    const n = this.shape[axis]!;
    if (!Number.isInteger(index) || index < -n || index >= n) {
      throw badIndex(op, this.shape, axis, index);
    }
    return index < 0 ? index + n : index + 0;
  }

  /** The axes in another order: (1, 2, 3) by [2, 0, 1] gives (3, 1, 2). */
  permute(axes: readonly number[], op = "permute"): Layout {
    const rank = this.shape.length;
    if (axes.length !== rank) {
      const [first] = axes;
      throw new AxisError(
        Array.isArray(first)
          ? `Cannot ${op} by an array: axes are arguments of their own, ${op}(${
            formatShape(first).slice(1, -1)
          })`
          : `Cannot ${op} shape ${formatShape(this.shape)} by ${formatShape(axes)}: ` +
            `it has ${rank} axes, and ${axes.length} are named`,
      );
    }
    return reorder(this, normalizeAxes(op, axes, rank));
  }

  /** The axes in reverse order. */
  transpose(): Layout {
    const rank = this.shape.length;
    const shape: number[] = new Array(rank);
    const strides: number[] = new Array(rank);
    for (let i = 0, j = rank - 1; i < rank; i++, j--) {
      shape[i] = this.shape[j]!;
      strides[i] = this.strides[j]!;
    }
    return new Layout(shape, strides, this.offset, this.size);
  }

  /** Exchanges two axes. */
  swapAxes(axis1: number, axis2: number): Layout {
    const rank = this.shape.length;
    const a = normalizeAxis("swapAxes", axis1, rank);
    const b = normalizeAxis("swapAxes", axis2, rank);
    const shape = copy(this.shape);
    const strides = copy(this.strides);
    shape[a] = this.shape[b]!;
    shape[b] = this.shape[a]!;
    strides[a] = this.strides[b]!;
    strides[b] = this.strides[a]!;
    return new Layout(shape, strides, this.offset, this.size);
  }

  /** Moves one axis to another place; the others keep their order. */
  moveAxis(source: number, destination: number): Layout {
    const rank = this.shape.length;
    const from = normalizeAxis("moveAxis", source, rank);
    const to = normalizeAxis("moveAxis", destination, rank);
    const order: number[] = [];
    for (let axis = 0; axis < rank; axis++) if (axis !== from) order.push(axis);
    order.splice(to, 0, from);
    return reorder(this, order);
  }

  /** A new axis of size 1 before `axis`: (3, 4) at 2 gives (3, 4, 1). */
  expandDims(axis = 0, op = "expandDims"): Layout {
    const rank = this.shape.length;
    const at = normalizeAxis(op, axis, rank + 1);
    checkRank(rank + 1, op);
    const shape: number[] = new Array(rank + 1);
    const strides: number[] = new Array(rank + 1);
    for (let i = 0; i < at; i++) {
      shape[i] = this.shape[i]!;
      strides[i] = this.strides[i]!;
    }
    shape[at] = 1;
    // Any stride is correct; this one gives a dense array the usual row-major strides.
    strides[at] = at < rank ? this.shape[at]! * this.strides[at]! + 0 : 1; // 0 * -1 is -0
    for (let i = at; i < rank; i++) {
      shape[i + 1] = this.shape[i]!;
      strides[i + 1] = this.strides[i]!;
    }
    return new Layout(shape, strides, this.offset, this.size, this.contiguous);
  }

  /**
   * Without the given axes, or without every axis of size 1.
   *
   * Throws a {@link ShapeError} for a given axis whose size is not 1.
   */
  squeeze(axes?: number | readonly number[] | null): Layout {
    const rank = this.shape.length;
    const given = axes === undefined || axes === null ? null : normalizeAxes("squeeze", axes, rank);
    const shape: number[] = [];
    const strides: number[] = [];
    for (let axis = 0; axis < rank; axis++) {
      const n = this.shape[axis]!;
      if (given === null ? n === 1 : given.includes(axis)) {
        if (n === 1) continue;
        throw new ShapeError(
          `Cannot squeeze axis ${axis} of shape ${
            formatShape(this.shape)
          }: it has size ${n}, not 1`,
        );
      }
      shape.push(n);
      strides.push(this.strides[axis]!);
    }
    return new Layout(shape, strides, this.offset, this.size, this.contiguous);
  }

  /**
   * Repeated to `shape` without a copy: stride 0 along every axis that is new or grows from 1.
   *
   * Throws a {@link ShapeError} if an axis has neither the wanted size nor size 1.
   */
  broadcastTo(shape: Shape): Layout {
    const target = checkShape(shape, "broadcast to");
    if (sameShape(this.shape, target)) return this;
    const rank = target.length;
    const added = rank - this.shape.length;
    if (added < 0) throw badBroadcast(this.shape, target, `rank ${this.rank} is above ${rank}`);
    const strides: number[] = new Array(rank);
    for (let i = 0; i < rank; i++) {
      const n = i < added ? 1 : this.shape[i - added]!;
      if (n === target[i]) strides[i] = i < added ? 0 : this.strides[i - added]!;
      else if (n === 1) strides[i] = 0;
      else {
        throw badBroadcast(this.shape, target, `axis ${i - rank} has sizes ${n} and ${target[i]}`);
      }
    }
    return new Layout(target, strides, this.offset);
  }

  /**
   * The same elements in another shape, one size of which may be -1; `null` if the strides require
   * a copy.
   *
   * Throws a {@link ShapeError} if the product of the sizes is not the size of this layout.
   */
  reshape(shape: Shape): Layout | null {
    const target = resolveReshape(shape, this.size, this.shape);
    if (this.contiguous) {
      return new Layout(target, rowMajorStrides(target), this.offset, this.size, true);
    }
    const strides = viewStrides(this.shape, this.strides, target);
    return strides && new Layout(target, strides, this.offset, this.size, false);
  }

  /** Reverses the order of the elements along the given axes, or along all. */
  flip(axes?: number | readonly number[] | null): Layout {
    const given = normalizeAxes("flip", axes, this.shape.length);
    const strides = copy(this.strides);
    let offset = this.offset;
    for (let i = 0; i < given.length; i++) {
      const axis = given[i]!;
      const n = this.shape[axis]!;
      if (n <= 1) continue;
      offset += (n - 1) * strides[axis]!;
      strides[axis] = 0 - strides[axis]!; // not -stride, which makes -0 of 0
    }
    if (this.size === 0) offset = this.offset;
    return new Layout(this.shape, strides, offset, this.size);
  }

  /**
   * The diagonals of the planes of two axes, as a new last axis: a: [..., M, N] gives [..., min(M,
   * N)]; a positive `offset` moves to the right, a negative one down.
   */
  diagonal(offset = 0, axis1 = 0, axis2 = 1): Layout {
    const rank = this.shape.length;
    if (!Number.isSafeInteger(offset)) {
      throw new ArgumentError(`diagonal() needs an integer as offset, got ${describe(offset)}`);
    }
    const [a, b] = normalizeAxes("diagonal", [axis1, axis2], rank) as [number, number];
    const rows = this.shape[a]! + (offset < 0 ? offset : 0);
    const columns = this.shape[b]! - (offset > 0 ? offset : 0);
    const length = Math.max(0, Math.min(rows, columns));
    const shift = length === 0 || this.size === 0
      ? 0
      : Math.abs(offset) * this.strides[offset < 0 ? a : b]!;
    const shape: number[] = [];
    const strides: number[] = [];
    for (let axis = 0; axis < rank; axis++) {
      if (axis === a || axis === b) continue;
      shape.push(this.shape[axis]!);
      strides.push(this.strides[axis]!);
    }
    shape.push(length);
    strides.push(this.strides[a]! + this.strides[b]!);
    return new Layout(shape, strides, this.offset + shift);
  }

  /** `length` elements along `axis` from `start` on, `step` apart; all four are already checked. */
  sliceAxis(axis: number, start: number, length: number, step: number): Layout {
    const shape = copy(this.shape);
    const strides = copy(this.strides);
    const stride = strides[axis]!;
    shape[axis] = length;
    strides[axis] = stride * step + 0; // 0 * -1 is -0
    const shift = this.size === 0 || length === 0 ? 0 : start * stride;
    return new Layout(shape, strides, this.offset + shift);
  }

  /** The elements at `index` along `axis`, without that axis; both are already checked. */
  selectAxis(axis: number, index: number): Layout {
    const rank = this.shape.length - 1;
    const shape: number[] = new Array(rank);
    const strides: number[] = new Array(rank);
    for (let i = 0; i < rank; i++) {
      const from = i < axis ? i : i + 1;
      shape[i] = this.shape[from]!;
      strides[i] = this.strides[from]!;
    }
    const size = this.size / this.shape[axis]!;
    const shift = size === 0 ? 0 : index * this.strides[axis]!;
    const offset = this.offset + shift;
    // Rows of a dense array are dense; other layouts need a check.
    if (axis === 0 && this.contiguous) return new Layout(shape, strides, offset, size, true);
    return new Layout(shape, strides, offset, size);
  }
}

function reorder(layout: Layout, order: readonly number[]): Layout {
  const rank = order.length;
  const shape: number[] = new Array(rank);
  const strides: number[] = new Array(rank);
  for (let i = 0; i < rank; i++) {
    const axis = order[i]!;
    shape[i] = layout.shape[axis]!;
    strides[i] = layout.strides[axis]!;
  }
  return new Layout(shape, strides, layout.offset, layout.size);
}

/**
 * Strides under which `shape` with `strides` reads as `target`, or `null` if there are none.
 *
 * Cuts both shapes into the shortest runs of axes with equal products. A run must have evenly
 * spaced elements in the old shape; then any sizes are valid in the new one.
 */
function viewStrides(shape: Shape, strides: readonly number[], target: Shape): number[] | null {
  const result: number[] = new Array(target.length);
  let axis = shape.length - 1;
  let end = target.length - 1;
  while (end >= 0) {
    while (axis >= 0 && shape[axis] === 1) axis--;
    let stride = axis >= 0 ? strides[axis]! : 1;
    let expected = stride;
    let have = 1;
    let want = target[end]!;
    let begin = end;
    while (have !== want) {
      if (have > want) {
        want *= target[--begin]!;
        continue;
      }
      const n = shape[axis]!;
      if (n !== 1) {
        if (strides[axis] !== expected) return null;
        expected *= n;
        have *= n;
      }
      axis--;
    }
    for (; end >= begin; end--) {
      result[end] = stride;
      stride *= target[end]!;
    }
  }
  return result;
}

/**
 * Shapes: checks, broadcasting, axes and reshaping, as functions on plain arrays of sizes.
 *
 * Knows nothing of tensors and strides.
 *
 * @module
 */
import { AxisError, ShapeError } from "./errors.ts";
import { typeError } from "./stack.ts";
import { describe, describeAll } from "./text.ts";

/** The sizes of a tensor, outermost axis first; `[]` is the shape of a single element. */
export type Shape = readonly number[];

/** Writes a shape as messages show it: `[2, 3]`. */
export function formatShape(shape: Shape): string {
  // The caller's value may not be an array, or contain elements that join() rejects.
  return Array.isArray(shape) ? `[${describeAll(shape, describe).join(", ")}]` : describe(shape);
}

/** The number of elements of a shape: the product of its sizes, 1 for `[]`. */
export function sizeOf(shape: Shape): number {
  let size = 1;
  for (let i = 0; i < shape.length; i++) size *= shape[i]!;
  return size;
}

/** True if both shapes have the same rank and the same sizes. */
export function sameShape(a: Shape, b: Shape): boolean {
  if (a === b) return true;
  const rank = a.length;
  if (rank !== b.length) return false;
  for (let i = 0; i < rank; i++) if (a[i] !== b[i]) return false;
  return true;
}

/**
 * Checks the caller's shape for `op`, and returns a copy of it.
 *
 * Throws a {@link ShapeError} if it is not an array of nonnegative integers, or if their product
 * exceeds 2^53 - 1 (ignoring sizes of 0, so that strides stay exact too).
 */
export function checkShape(shape: unknown, op: string): number[] {
  if (!Array.isArray(shape)) throw noShape(`Cannot ${op} shape`, shape);
  const rank = shape.length;
  checkRank(rank, op);
  const result: number[] = new Array(rank);
  let size = 1;
  for (let i = 0; i < rank; i++) {
    const n = shape[i];
    if (!Number.isInteger(n) || n < 0) {
      throw new ShapeError(
        `Cannot ${op} shape ${formatShape(shape)}: axis ${i} has size ${describe(n)}, ` +
          "which is not an integer of at least 0",
      );
    }
    result[i] = n + 0; // -0 becomes 0
    if (n > 1) size *= n;
  }
  if (size > Number.MAX_SAFE_INTEGER) throw tooLarge(op, shape);
  return result;
}

/** The error for an argument in the place of a shape, such as the first of several sizes. */
function noShape(what: string, shape: unknown): ShapeError {
  const such = typeof shape === "number" ? `, such as [${shape}] or [${shape}, ...]` : "";
  return new ShapeError(`${what} ${describe(shape)}: a shape is an array of sizes${such}`);
}

/** The most axes of a tensor: NumPy's limit. */
export const MAX_RANK = 64;

/** Throws unless a tensor may have `rank` axes. */
export function checkRank(rank: number, op: string): void {
  if (rank > MAX_RANK) {
    throw new ShapeError(`Cannot ${op}: ${rank} axes, but a tensor has at most ${MAX_RANK}`);
  }
}

/** `shape` with the axes of indices, `picked`, in the place of `axis`. */
export function pickedShape(
  shape: readonly number[],
  axis: number,
  picked: readonly number[],
  op: string,
): number[] {
  checkRank(shape.length - 1 + picked.length, op);
  // Faster than to splice.
  const made: number[] = [];
  for (let i = 0; i < axis; i++) made.push(shape[i]!);
  for (let i = 0; i < picked.length; i++) made.push(picked[i]!);
  for (let i = axis + 1; i < shape.length; i++) made.push(shape[i]!);
  return made;
}

/** The length of an array of the caller; undefined if it is none. */
export function lengthOf(given: unknown): number | undefined {
  return Array.isArray(given) ? given.length : undefined;
}

/**
 * A copy of an array of the caller, whose elements are read once: a getter may return something else
 * after a check. Holes become undefined: `every`, `map` and their like skip holes, and so would not
 * check them. `own` returns what to keep of an element, and throws if the op does not accept it; so
 * an array of any length is read up to its first wrong element only. `count` is the length if it was
 * checked before: {@link lengthOf} may not return the same twice.
 */
export function listOf<T, R = T>(
  given: readonly T[],
  own: (one: T, at: number) => R,
  count: number = given.length,
): R[] {
  const list: R[] = [];
  for (let i = 0; i < count; i++) list.push(own(given[i]!, i));
  return list;
}

/** {@link listOf} of any value of the caller; undefined if it is no array. */
export function listIn<R>(
  given: unknown,
  own: (one: unknown, at: number) => R,
  count?: number,
): R[] | undefined {
  return Array.isArray(given) ? listOf<unknown, R>(given, own, count) : undefined;
}

/** {@link listIn} of an option that is an array of names, or undefined. */
export function ownNames(op: string, what: string, given: unknown): string[] | undefined {
  const list = listIn(given, (name) => {
    if (typeof name === "string") return name;
    throw typeError(`Cannot ${op} with ${what} of ${describe(name)}: they are names`);
  });
  if (list !== undefined || given === undefined) return list;
  throw typeError(`Cannot ${op} with ${what} ${describe(given)}: it takes an array of names`);
}

/**
 * A copy of an array of sizes or axes, as {@link listOf} makes it; anything else is returned for the
 * op's own checks.
 */
export function ownAxes<T>(given: T, op: string): T {
  if (!Array.isArray(given)) return given;
  const { length } = given;
  checkRank(length, op);
  const list: unknown[] = [];
  for (let i = 0; i < length; i++) list.push(given[i]);
  return list as T;
}

function tooLarge(op: string, shape: Shape): ShapeError {
  return new ShapeError(
    `Cannot ${op} shape ${formatShape(shape)}: it has more than 2^53 - 1 elements`,
  );
}

function joinShapes(shapes: readonly Shape[]): string {
  const texts = describeAll(shapes, formatShape);
  const last = texts.pop();
  return `${texts.join(", ")} and ${last}`;
}

/**
 * The shape that `a` and `b` broadcast to: aligned at the right, sizes equal or 1 (0 with 1 gives 0).
 *
 * Throws a {@link ShapeError} that names the first axis from the right with a mismatch.
 */
export function broadcastShapes(op: string, a: Shape, b: Shape): Shape {
  if (sameShape(a, b)) return a;
  const rank = a.length > b.length ? a.length : b.length;
  const shiftA = a.length - rank;
  const shiftB = b.length - rank;
  const result: number[] = new Array(rank);
  let size = 1;
  for (let i = rank - 1; i >= 0; i--) {
    const m = i + shiftA >= 0 ? a[i + shiftA]! : 1;
    const n = i + shiftB >= 0 ? b[i + shiftB]! : 1;
    if (m !== n && m !== 1 && n !== 1) throw mismatch(op, [a, b], i - rank, m, n);
    const length = m === 1 ? n : m;
    result[i] = length;
    if (length > 1) size *= length;
  }
  if (size > Number.MAX_SAFE_INTEGER) throw tooLarge(op, result);
  return result;
}

/** The shape that all `shapes` broadcast to, `[]` for none; errors as {@link broadcastShapes}. */
export function broadcastAll(op: string, shapes: readonly Shape[]): Shape {
  let result: Shape = shapes.length === 0 ? [] : shapes[0]!;
  for (let k = 1; k < shapes.length; k++) {
    const shape = shapes[k]!;
    for (let axis = -1; axis >= -Math.min(result.length, shape.length); axis--) {
      const m = result[result.length + axis]!;
      const n = shape[shape.length + axis]!;
      // Checked here, so that the message shows the shapes as given and not a partial result.
      if (m !== n && m !== 1 && n !== 1) throw mismatch(op, shapes, axis, m, n);
    }
    result = broadcastShapes(op, result, shape);
  }
  return result;
}

function mismatch(
  op: string,
  shapes: readonly Shape[],
  axis: number,
  m: number,
  n: number,
): ShapeError {
  return new ShapeError(
    `Cannot ${op} shapes ${joinShapes(shapes)}: axis ${axis} has sizes ${m} and ${n}`,
  );
}

/**
 * Converts an axis, which may count from the end, to one from 0 to `rank - 1`.
 *
 * Throws an {@link AxisError} if it is not an integer or the axis does not exist.
 */
export function normalizeAxis(op: string, axis: number, rank: number): number {
  if (!Number.isInteger(axis) || axis < -rank || axis >= rank) {
    if (typeof axis === "object" && axis !== null) throw noAxis(op, axis);
    throw new AxisError(
      `Cannot ${op} along axis ${describe(axis)}: ` +
        (rank === 0 ? "rank 0 has no axes" : `rank ${rank} has axes ${-rank} to ${rank - 1}`),
    );
  }
  return axis < 0 ? axis + rank : axis + 0;
}

/** The error for an argument in the place of an axis, such as options that name one. */
export function noAxis(op: string, axis: unknown, more = ""): AxisError {
  return new AxisError(
    `Cannot ${op} along axis ${
      describe(axis)
    }: an axis is an integer${more}, and comes before the ` +
      `options: ${op}(..., axis, options)`,
  );
}

/**
 * Converts one axis, several (in their order) or none (all of them, in order) to axes from 0 to
 * `rank - 1`.
 *
 * Throws an {@link AxisError} for an axis that does not exist or is listed twice.
 */
export function normalizeAxes(
  op: string,
  axes: number | readonly number[] | undefined | null,
  rank: number,
): number[] {
  if (typeof axes === "number") return [normalizeAxis(op, axes, rank)];
  if (axes === undefined || axes === null) {
    const all: number[] = new Array(rank);
    for (let i = 0; i < rank; i++) all[i] = i;
    return all;
  }
  if (!Array.isArray(axes)) throw noAxis(op, axes, ", an array of them, or null for all");
  const count = axes.length;
  const result: number[] = new Array(count);
  for (let i = 0; i < count; i++) {
    const axis = normalizeAxis(op, axes[i], rank);
    for (let j = 0; j < i; j++) {
      if (result[j] === axis) {
        throw new AxisError(
          `Cannot ${op} along axes ${
            formatShape(axes)
          }: axis ${axis} of rank ${rank} is named twice`,
        );
      }
    }
    result[i] = axis;
  }
  return result;
}

/**
 * Completes a new shape for `size` elements of the shape `from`: one size may be -1 and is
 * inferred. Returns a copy.
 *
 * Throws a {@link ShapeError} if the sizes are invalid, do not multiply to `size`, or leave -1
 * ambiguous (a second -1, or a 0 next to it, as in NumPy).
 */
export function resolveReshape(shape: Shape, size: number, from: Shape): number[] {
  if (!Array.isArray(shape)) throw noShape(`Cannot reshape ${formatShape(from)} to`, shape);
  const rank = shape.length;
  checkRank(rank, "reshape");
  const result: number[] = new Array(rank);
  let known = 1;
  let inferred = -1;
  for (let i = 0; i < rank; i++) {
    const n = shape[i];
    if (!Number.isInteger(n) || n < 0) {
      if (n !== -1) {
        throw badReshape(
          from,
          shape,
          `axis ${i} has size ${describe(n)}, which is not -1 or an integer of at least 0`,
        );
      }
      if (inferred >= 0) throw badReshape(from, shape, "more than one size is -1");
      inferred = i;
      result[i] = 1;
    } else {
      known *= n;
      result[i] = n + 0;
    }
  }
  if (inferred < 0) {
    if (known !== size) {
      // NaN results from an overflow to infinity, multiplied by 0.
      const count = known <= Number.MAX_SAFE_INTEGER ? `${known}` : "more than 2^53 - 1";
      throw badReshape(from, shape, `they have ${size} and ${count} elements`);
    }
    if (size === 0) checkShape(result, "reshape to");
    return result;
  }
  if (known === 0) throw badReshape(from, shape, "-1 beside a size of 0 has no single answer");
  if (known > Number.MAX_SAFE_INTEGER || size % known !== 0) {
    throw badReshape(from, shape, `${size} elements do not divide by ${known}`);
  }
  result[inferred] = size / known;
  return result;
}

function badReshape(from: Shape, to: Shape, why: string): ShapeError {
  return new ShapeError(`Cannot reshape ${formatShape(from)} to ${formatShape(to)}: ${why}`);
}

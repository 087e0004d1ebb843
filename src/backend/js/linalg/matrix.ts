/**
 * Matrices of the definitions of linear algebra: columns of doubles, and their imaginary parts for
 * complex ones.
 *
 * @module
 */

import { exponentOf, timesPower } from "../../../ops/linalg/product.ts";

/** Sums and products of numbers below 2 to this power, and above its inverse, keep their digits. */
const MOST_EXPONENT = 900;

/** A matrix, column by column. */
export interface Matrix {
  readonly rows: number;
  readonly columns: number;
  /** The real parts: element (i, j) is at j * rows + i. */
  readonly re: Float64Array;
  /** The imaginary parts; null for a real matrix. */
  readonly im: Float64Array | null;
}

/** The relative distance of doubles. */
export const EPSILON = 2 ** -52;

/** A matrix of zeros. */
export function zeros(rows: number, columns: number, isComplex: boolean): Matrix {
  const size = rows * columns;
  return {
    rows,
    columns,
    re: new Float64Array(size),
    im: isComplex ? new Float64Array(size) : null,
  };
}

/** The identity, of any number of columns. */
export function identity(rows: number, columns: number, isComplex: boolean): Matrix {
  const made = zeros(rows, columns, isComplex);
  for (let i = 0; i < Math.min(rows, columns); i++) made.re[i * rows + i] = 1;
  return made;
}

/** A copy. */
export function copy({ rows, columns, re, im }: Matrix): Matrix {
  return { rows, columns, re: re.slice(), im: im && im.slice() };
}

/** The conjugate transpose. */
export function adjoint({ rows, columns, re, im }: Matrix): Matrix {
  const made = zeros(columns, rows, im !== null);
  for (let j = 0; j < columns; j++) {
    for (let i = 0; i < rows; i++) {
      made.re[i * columns + j] = re[j * rows + i]!;
      if (im !== null) made.im![i * columns + j] = -im[j * rows + i]!;
    }
  }
  return made;
}

/** The first `count` columns. */
export function firstColumns({ rows, re, im }: Matrix, count: number): Matrix {
  const size = rows * count;
  return { rows, columns: count, re: re.slice(0, size), im: im && im.slice(0, size) };
}

/** True if no element is NaN or infinite. */
export function isFinite({ re, im }: Matrix): boolean {
  return re.every(Number.isFinite) && (im === null || im.every(Number.isFinite));
}

/** The real part of the last {@link dot} or {@link divide}. */
export let real = 0;
/** Its imaginary part. */
export let imaginary = 0;

/** (a + b i) / (c + d i), without overflow. */
export function divide(a: number, b: number, c: number, d: number): void {
  if (Math.abs(c) >= Math.abs(d)) {
    const r = d / c, by = c + d * r;
    real = (a + b * r) / by;
    imaginary = (b - a * r) / by;
  } else {
    const r = c / d, by = c * r + d;
    real = (a * r + b) / by;
    imaginary = (b * r - a) / by;
  }
  if (d === 0) [real, imaginary] = [a / c, b / c];
}

/** The sum of conj(x) y over n elements, from `i` and `j` on. */
export function dot(n: number, x: Matrix, i: number, y: Matrix, j: number): void {
  let sum = 0;
  for (let k = 0; k < n; k++) sum += x.re[i + k]! * y.re[j + k]!;
  real = sum;
  imaginary = 0;
  if (x.im === null || y.im === null) return;
  for (let k = 0; k < n; k++) {
    real += x.im[i + k]! * y.im[j + k]!;
    imaginary += x.re[i + k]! * y.im[j + k]! - x.im[i + k]! * y.re[j + k]!;
  }
}

/** y += (a + b i) x over n elements. */
export function axpy(
  n: number,
  a: number,
  b: number,
  x: Matrix,
  i: number,
  y: Matrix,
  j: number,
): void {
  const [from, to] = [x.re, y.re];
  for (let k = 0; k < n; k++) to[j + k]! += a * from[i + k]!;
  if (x.im === null || y.im === null) return;
  for (let k = 0; k < n; k++) {
    to[j + k]! -= b * x.im[i + k]!;
    y.im[j + k]! += a * x.im[i + k]! + b * from[i + k]!;
  }
}

/** x *= a + b i over n elements. */
export function scale(n: number, a: number, b: number, x: Matrix, i: number): void {
  for (let k = i; k < i + n; k++) {
    const re = x.re[k]!;
    if (x.im === null) x.re[k] = a * re;
    else {
      const im = x.im[k]!;
      x.re[k] = a * re - b * im;
      x.im[k] = a * im + b * re;
    }
  }
}

/** Divides elements by a power of two near the largest one if products of several could overflow or
 * vanish; returns it. */
export function normalize(x: Matrix): number {
  let largest = 0;
  for (const part of x.re) largest = Math.max(largest, Math.abs(part));
  for (const part of x.im ?? []) largest = Math.max(largest, Math.abs(part));
  if (!(largest > 0 && largest < Infinity) || (largest > 1e-30 && largest < 1e30)) return 1;
  const exponent = Math.max(-1000, Math.min(1000, Math.floor(Math.log2(largest))));
  scale(x.re.length, 2 ** -exponent, 0, x, 0);
  return 2 ** exponent;
}

/**
 * Multiplies rows of so large or small numbers that elimination could lose them by powers of two;
 * returns the exponent of what a determinant has beyond that of the result.
 */
export function balanceRows(a: Matrix): number {
  const { rows, columns, re, im } = a;
  let sum = 0;
  for (let i = 0; i < rows; i++) {
    let most = 0;
    for (let j = 0; j < columns; j++) most = Math.max(most, size1(a, j * rows + i));
    const exponent = exponentOf(most);
    if (Math.abs(exponent) < MOST_EXPONENT) continue;
    for (let at = i; at < rows * columns; at += rows) {
      re[at] = timesPower(re[at]!, -exponent);
      if (im !== null) im[at] = timesPower(im[at]!, -exponent);
    }
    sum += exponent;
  }
  return sum;
}

/** The 2-norm of n elements. */
export function norm(n: number, x: Matrix, i: number): number {
  let largest = 0;
  for (let k = i; k < i + n; k++) {
    largest = Math.max(largest, Math.abs(x.re[k]!), x.im === null ? 0 : Math.abs(x.im[k]!));
  }
  if (largest === 0 || !Number.isFinite(largest)) return largest;
  let sum = 0;
  for (let k = i; k < i + n; k++) {
    sum += (x.re[k]! / largest) ** 2;
    if (x.im !== null) sum += (x.im[k]! / largest) ** 2;
  }
  return largest * Math.sqrt(sum);
}

/** |re| + |im| of an element. */
export function size1(x: Matrix, i: number): number {
  return Math.abs(x.re[i]!) + (x.im === null ? 0 : Math.abs(x.im[i]!));
}

/** Exchanges n elements, `step` apart. */
export function swap(n: number, x: Matrix, i: number, j: number, step = 1): void {
  if (i === j) return;
  for (let k = 0; k < n; k++, i += step, j += step) {
    [x.re[i], x.re[j]] = [x.re[j]!, x.re[i]!];
    if (x.im !== null) [x.im[i], x.im[j]] = [x.im[j]!, x.im[i]!];
  }
}

/** a @ b. */
export function multiply(a: Matrix, b: Matrix): Matrix {
  const isComplex = a.im !== null || b.im !== null;
  const made = zeros(a.rows, b.columns, isComplex);
  const left = isComplex && a.im === null ? { ...a, im: new Float64Array(a.re.length) } : a;
  for (let j = 0; j < b.columns; j++) {
    for (let k = 0; k < a.columns; k++) {
      const at = j * b.rows + k;
      axpy(a.rows, b.re[at]!, b.im === null ? 0 : b.im[at]!, left, k * a.rows, made, j * a.rows);
    }
  }
  return made;
}

/**
 * Columns p and q times the rotation [c, s; -s, c], after the second one was multiplied by the
 * phase a + b i.
 */
export function rotate(
  x: Matrix,
  p: number,
  q: number,
  c: number,
  s: number,
  a = 1,
  b = 0,
): void {
  const { rows, re, im } = x;
  for (let i = p * rows, j = q * rows; i < (p + 1) * rows; i++, j++) {
    let v = re[j]!;
    if (im !== null) {
      const w = im[j]!, y = im[i]!;
      const turned = a * w + b * v;
      v = a * v - b * w;
      im[i] = c * y - s * turned;
      im[j] = s * y + c * turned;
    } else v *= a;
    const u = re[i]!;
    re[i] = c * u - s * v;
    re[j] = s * u + c * v;
  }
}

/** The columns of x in another order. */
export function permuteColumns(x: Matrix, order: ArrayLike<number>): Matrix {
  const { rows } = x;
  const made = zeros(rows, order.length, x.im !== null);
  for (let j = 0; j < order.length; j++) {
    const from = order[j]! * rows;
    made.re.set(x.re.subarray(from, from + rows), j * rows);
    if (x.im !== null) made.im!.set(x.im.subarray(from, from + rows), j * rows);
  }
  return made;
}

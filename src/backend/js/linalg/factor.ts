/**
 * Factors of matrices: LU, Cholesky, QR, and systems of equations.
 *
 * @module
 */
import {
  axpy,
  divide,
  dot,
  identity,
  imaginary,
  type Matrix,
  norm,
  real,
  scale,
  size1,
  swap,
} from "./matrix.ts";

/** The result of {@link luInPlace}. */
export interface Pivots {
  /** Row i of L U is row `rows[i]` of the matrix. */
  readonly rows: Int32Array;
  /** 1 for an even permutation, else −1. */
  readonly sign: number;
  /** The first pivot that is 0; −1 if there is none. */
  readonly zero: number;
}

/** Replaces `a` by L and U with partial pivoting. */
export function luInPlace(a: Matrix): Pivots {
  const { rows: m, columns: n, re, im } = a;
  const rows = Int32Array.from({ length: m }, (_, i) => i);
  let sign = 1, zero = -1;
  for (let k = 0; k < Math.min(m, n); k++) {
    const column = k * m;
    let best = k;
    for (let i = k + 1; i < m; i++) {
      const [there, here] = [size1(a, column + best), size1(a, column + i)];
      if (here > there || (here !== here && there === there)) best = i;
    }
    if (best !== k) {
      swap(n, a, k, best, m);
      [rows[k], rows[best]] = [rows[best]!, rows[k]!];
      sign = -sign;
    }
    if (size1(a, column + k) === 0) {
      if (zero < 0) zero = k;
      continue;
    }
    for (let i = column + k + 1; i < column + m; i++) {
      if (im === null) re[i]! /= re[column + k]!;
      else {
        divide(re[i]!, im[i]!, re[column + k]!, im[column + k]!);
        re[i] = real;
        im[i] = imaginary;
      }
    }
    for (let j = k + 1; j < n; j++) {
      const at = j * m + k;
      axpy(m - k - 1, -re[at]!, im === null ? 0 : -im[at]!, a, column + k + 1, a, at + 1);
    }
  }
  return { rows, sign, zero };
}

/** Options of {@link solveTriangularInPlace}. */
export interface Triangle {
  readonly upper: boolean;
  readonly unit: boolean;
}

/** The first 0 on the diagonal of a square matrix; −1 if there is none. */
export function zeroPivot(a: Matrix): number {
  for (let i = 0; i < a.columns; i++) if (size1(a, i * a.rows + i) === 0) return i;
  return -1;
}

/** Replaces b by the solution x of a x = b. */
export function solveTriangularInPlace(a: Matrix, b: Matrix, { upper, unit }: Triangle): void {
  const { columns: n, rows: m } = a;
  for (let j = 0; j < b.columns; j++) {
    for (let step = 0; step < n; step++) {
      const k = upper ? n - 1 - step : step;
      const at = j * b.rows + k, pivot = k * m + k;
      if (!unit) {
        if (a.im === null || b.im === null) b.re[at]! /= a.re[pivot]!;
        else {
          divide(b.re[at]!, b.im[at]!, a.re[pivot]!, a.im[pivot]!);
          b.re[at] = real;
          b.im[at] = imaginary;
        }
      }
      const [x, y] = [-b.re[at]!, b.im === null ? 0 : -b.im[at]!];
      if (upper) axpy(k, x, y, a, k * m, b, j * b.rows);
      else axpy(n - k - 1, x, y, a, pivot + 1, b, at + 1);
    }
  }
}

/** Replaces b by the solution of a x = b, for the factors of a. */
export function solveFactored(lu: Matrix, { rows }: Pivots, b: Matrix): void {
  const before = { re: b.re.slice(), im: b.im && b.im.slice() };
  for (let j = 0; j < b.columns; j++) {
    for (let i = 0; i < b.rows; i++) {
      b.re[j * b.rows + i] = before.re[j * b.rows + rows[i]!]!;
      if (b.im !== null) b.im[j * b.rows + i] = before.im![j * b.rows + rows[i]!]!;
    }
  }
  solveTriangularInPlace(lu, b, { upper: false, unit: true });
  solveTriangularInPlace(lu, b, { upper: true, unit: false });
}

/** Replaces the lower triangle of `a` by its Cholesky factor; returns a bad pivot, or −1. */
export function choleskyInPlace(a: Matrix): number {
  const { rows: n, re, im } = a;
  for (let j = 0; j < n; j++) {
    const at = j * n + j;
    if (re[at]! <= 0) return j;
    const root = Math.sqrt(re[at]!);
    scale(n - j, 1 / root, 0, a, at);
    re[at] = root;
    if (im !== null) im[at] = 0;
    for (let k = j + 1; k < n; k++) {
      const by = j * n + k;
      axpy(n - k, -re[by]!, im === null ? 0 : im[by]!, a, by, a, k * n + k);
    }
    re.fill(0, j * n, at);
    im?.fill(0, j * n, at);
  }
  return -1;
}

/** A reflection I − tau v vᴴ. */
export interface Reflector {
  readonly re: number;
  readonly im: number;
}

/**
 * Replaces n elements from `i` on by the vector v of a reflection, whose first element is 1, but has
 * the image of the vector instead.
 */
export function reflect(n: number, x: Matrix, i: number): Reflector {
  const { re, im } = x;
  const rest = norm(n - 1, x, i + 1);
  const [a, b] = [re[i]!, im === null ? 0 : im[i]!];
  if (rest === 0 && b === 0) return { re: 0, im: 0 };
  const size = Math.hypot(a, b, rest), image = a > 0 ? -size : size;
  if (size < 1e-290) {
    // Subnormal numbers have few digits, and 1 / (a - image) would overflow.
    scale(n, 2 ** 600, 0, x, i);
    const made = reflect(n, x, i);
    re[i]! *= 2 ** -600;
    return made;
  }
  divide(1, 0, a - image, b);
  scale(n - 1, real, imaginary, x, i + 1);
  re[i] = image;
  if (im !== null) im[i] = 0;
  return { re: (image - a) / image, im: -b / image };
}

/** Applies a reflection by v, from `i` on in `x`, to n elements of the columns `from` to `to` of y. */
export function applyReflector(
  n: number,
  x: Matrix,
  i: number,
  { re: a, im: b }: Reflector,
  y: Matrix,
  row: number,
  from: number,
  to: number,
): void {
  if (a === 0 && b === 0) return;
  const [first, second] = [x.re[i]!, x.im === null ? 0 : x.im[i]!];
  x.re[i] = 1;
  if (x.im !== null) x.im[i] = 0;
  for (let j = from; j < to; j++) {
    const at = j * y.rows + row;
    dot(n, x, i, y, at);
    const [p, q] = [real, imaginary];
    axpy(n, -(a * p - b * q), -(a * q + b * p), x, i, y, at);
  }
  x.re[i] = first;
  if (x.im !== null) x.im[i] = second;
}

/** Replaces `a` by R and the vectors of reflections whose product is Q. */
export function qrInPlace(a: Matrix): Reflector[] {
  const { rows: m, columns: n } = a;
  const reflectors: Reflector[] = [];
  for (let k = 0; k < Math.min(m, n); k++) {
    const at = k * m + k;
    const one = reflect(m - k, a, at);
    reflectors.push(one);
    applyReflector(m - k, a, at, { re: one.re, im: -one.im }, a, k, k + 1, n);
  }
  return reflectors;
}

/** The first `count` columns of Q, from reflections whose vectors begin `shift` rows below. */
export function makeQ(
  a: Matrix,
  reflectors: readonly Reflector[],
  count: number,
  shift = 0,
): Matrix {
  const q = identity(a.rows, count, a.im !== null);
  for (let k = reflectors.length - 1; k >= 0; k--) {
    const row = k + shift;
    applyReflector(a.rows - row, a, k * a.rows + row, reflectors[k]!, q, row, row, count);
  }
  return q;
}

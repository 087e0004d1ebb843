/**
 * Eigenvalues of Hermitian matrices, by tridiagonal ones, and singular values, by rotations of
 * columns.
 *
 * @module
 */
import { makeQ, qrInPlace, reflect, type Reflector } from "./factor.ts";
import {
  adjoint,
  axpy,
  copy,
  dot,
  EPSILON,
  firstColumns,
  identity,
  imaginary,
  type Matrix,
  multiply,
  norm,
  normalize,
  permuteColumns,
  real,
  rotate,
  scale,
  zeros,
} from "./matrix.ts";

/** A Hermitian matrix as Q T Qᴴ: replaces `a` by reflections; T has real diagonals d and e. */
function tridiagonalize(a: Matrix, d: Float64Array, e: Float64Array): Reflector[] {
  const { rows: n, re, im } = a;
  const w = zeros(n, 1, im !== null);
  const reflectors: Reflector[] = [];
  for (let k = 0; k < n; k++) {
    d[k] = re[k * n + k]!;
    if (k === n - 1) break;
    const at = k * n + k + 1, size = n - k - 1;
    const tau = reflect(size, a, at);
    reflectors.push(tau);
    e[k] = re[at]!;
    if (tau.re === 0 && tau.im === 0) continue;
    re[at] = 1;
    if (im !== null) im[at] = 0;
    // w = tau A v − (tau wᴴ v / 2) v; A −= v wᴴ + w vᴴ.
    w.re.fill(0);
    w.im?.fill(0);
    for (let j = 0; j < size; j++) {
      const column = (k + 1 + j) * n + k + 1;
      axpy(size, re[at + j]!, im === null ? 0 : im[at + j]!, a, column, w, 0);
    }
    scale(size, tau.re, tau.im, w, 0);
    dot(size, w, 0, a, at);
    const half = -(tau.re * real - tau.im * imaginary) / 2;
    axpy(size, half, 0, a, at, w, 0);
    for (let j = 0; j < size; j++) {
      const column = (k + 1 + j) * n + k + 1;
      axpy(size, -w.re[j]!, w.im === null ? 0 : w.im[j]!, a, at, a, column);
      axpy(size, -re[at + j]!, im === null ? 0 : im[at + j]!, w, 0, a, column);
    }
    re[at] = e[k]!;
  }
  return reflectors;
}

/** One step of the implicit QR iteration for the block from `low` to `high`. */
function chase(
  low: number,
  high: number,
  d: Float64Array,
  e: Float64Array,
  z: Matrix | null,
): void {
  const half = (d[high - 1]! - d[high]!) / 2;
  const off = e[high - 1]!;
  const shift = d[high]! - off / ((half + (half < 0 ? -1 : 1) * Math.hypot(half, off)) / off);
  let x = d[low]! - shift, y = e[low]!;
  for (let k = low; k < high; k++) {
    const r = Math.hypot(x, y);
    const c = r === 0 ? 1 : x / r, s = r === 0 ? 0 : y / r;
    if (k > low) e[k - 1] = r;
    const between = e[k]!;
    const t = s * (d[k + 1]! - d[k]!) + 2 * c * between;
    d[k]! += s * t;
    d[k + 1]! -= s * t;
    e[k] = c * t - between;
    if (k < high - 1) {
      x = e[k]!;
      y = s * e[k + 1]!;
      e[k + 1]! *= c;
    }
    if (z !== null) rotate(z, k, k + 1, c, -s);
  }
}

/** Makes a real tridiagonal matrix diagonal. False if that does not converge. */
function diagonalize(d: Float64Array, e: Float64Array, z: Matrix | null): boolean {
  const n = d.length;
  let left = 60 * n;
  // Between equal eigenvalues, rounding errors can keep an element above the limit; it is doubled after
  // as many steps for one of them.
  const mostSteps = 8;
  let steps = 0, near = EPSILON;
  for (let high = n - 1; high > 0;) {
    let low = high;
    while (low > 0) {
      if (Math.abs(e[low - 1]!) <= near * (Math.abs(d[low - 1]!) + Math.abs(d[low]!))) {
        e[low - 1] = 0;
        break;
      }
      low--;
    }
    if (low === high) {
      high--;
      steps = 0;
      near = EPSILON;
    } else {
      if (left-- === 0) return false;
      if (++steps % mostSteps === 0) near *= 2;
      chase(low, high, d, e, z);
    }
  }
  return true;
}

/** Eigenvalues in ascending order, and eigenvectors as columns; null without convergence. */
export function eigh(
  a: Matrix,
  hasVectors: boolean,
): { values: Float64Array; vectors: Matrix | null } | null {
  const n = a.rows;
  const size = normalize(a);
  const d = new Float64Array(n), e = new Float64Array(n);
  const reflectors = tridiagonalize(a, d, e);
  const z = hasVectors ? makeQ(a, reflectors, n, 1) : null;
  if (!diagonalize(d, e, z)) return null;
  const order = Array.from(d, (_, i) => i).sort((i, j) => d[i]! - d[j]!);
  return {
    values: Float64Array.from(order, (i) => d[i]! * size),
    vectors: z && permuteColumns(z, order),
  };
}

/** The singular value decomposition of {@link svd}. */
export interface Svd {
  /** Left singular vectors as columns. */
  readonly u: Matrix;
  /** Singular values, largest first. */
  readonly s: Float64Array;
  /** Right singular vectors as columns. */
  readonly v: Matrix;
}

/** Rotates columns of `a`, and of `v` with them, until they are orthogonal. */
function orthogonalize(a: Matrix, v: Matrix): boolean {
  const { rows: m, columns: n } = a;
  for (let sweep = 0; sweep < 60; sweep++) {
    let isDone = true;
    let largest = 0;
    for (let j = 0; j < n; j++) largest = Math.max(largest, norm(m, a, j * m));
    const tiny = (n * EPSILON * largest) ** 2;
    for (let p = 0; p < n - 1; p++) {
      for (let q = p + 1; q < n; q++) {
        dot(m, a, p * m, a, p * m);
        const x = real;
        dot(m, a, q * m, a, q * m);
        const y = real;
        dot(m, a, p * m, a, q * m);
        const r = Math.hypot(real, imaginary);
        if (r <= EPSILON * Math.sqrt(x) * Math.sqrt(y) * 4 || Math.min(x, y) <= tiny || r === 0) {
          continue;
        }
        isDone = false;
        const theta = (y - x) / (2 * r);
        const t = (theta < 0 ? -1 : 1) / (Math.abs(theta) + Math.hypot(theta, 1));
        const c = 1 / Math.hypot(t, 1);
        const [a1, b1] = [real / r, -imaginary / r];
        rotate(a, p, q, c, c * t, a1, b1);
        rotate(v, p, q, c, c * t, a1, b1);
      }
    }
    if (isDone) return true;
  }
  return false;
}

/** Appends columns to orthonormal ones: `count` orthonormal columns in all. */
function complete(q: Matrix, count: number): Matrix {
  if (count === q.columns) return q;
  const { rows, columns } = q;
  const whole = makeQ(...reflectorsOf(q), count);
  whole.re.set(q.re.subarray(0, rows * columns));
  if (q.im !== null) whole.im!.set(q.im);
  return whole;
}

function reflectorsOf(q: Matrix): [Matrix, Reflector[]] {
  const work = copy(q);
  return [work, qrInPlace(work)];
}

/** A = U diag(s) Vᴴ; with `full`, U and V are square. Null without convergence. */
export function svd(a: Matrix, full: boolean): Svd | null {
  const { rows: m, columns: n } = a;
  if (m < n) {
    const other = svd(adjoint(a), full);
    return other && { u: other.v, s: other.s, v: other.u };
  }
  let work = copy(a);
  const size = normalize(work);
  let q: Matrix | null = null;
  if (m > n) {
    const reflectors = qrInPlace(work);
    q = makeQ(work, reflectors, n);
    const r = zeros(n, n, a.im !== null);
    for (let j = 0; j < n; j++) {
      r.re.set(work.re.subarray(j * m, j * m + j + 1), j * n);
      if (work.im !== null) r.im!.set(work.im.subarray(j * m, j * m + j + 1), j * n);
    }
    work = r;
  }
  const v = identity(n, n, a.im !== null);
  if (!orthogonalize(work, v)) return null;
  const norms = Float64Array.from({ length: n }, (_, j) => norm(n, work, j * n));
  const order = Array.from(norms, (_, i) => i).sort((i, j) => norms[j]! - norms[i]!);
  const s = Float64Array.from(order, (i) => norms[i]! * size);
  let u = permuteColumns(work, order);
  const tiny = 2 * n * EPSILON * (n > 0 ? norms[order[0]!]! : 0);
  const rank = order.filter((i) => norms[i]! > tiny).length;
  for (let j = 0; j < rank; j++) scale(n, 1 / norms[order[j]!]!, 0, u, j * n);
  u = complete(firstColumns(u, rank), n);
  if (q !== null) u = complete(multiply(q, u), full ? m : n);
  return { u, s, v: permuteColumns(v, order) };
}

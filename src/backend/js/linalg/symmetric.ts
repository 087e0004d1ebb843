/**
 * Eigenvalues of Hermitian matrices, by tridiagonal ones.
 *
 * @module
 */
import { makeQ, reflect, type Reflector } from "./factor.ts";
import {
  axpy,
  dot,
  EPSILON,
  imaginary,
  type Matrix,
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
    // The errors of hypot are of one sign, and add up.
    const r = Math.sqrt(x * x + y * y);
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

/**
 * Singular values, by bidiagonal matrices: the algorithm of Golub and Kahan, with the shifts of
 * Demmel and Kahan, as in shim/cpu/eigen.
 *
 * @module
 */
import { applyReflector, makeQ, qrInPlace, reflect, type Reflector } from "./factor.ts";
import {
  adjoint,
  axpy,
  copy,
  EPSILON,
  firstColumns,
  type Matrix,
  multiply,
  normalize,
  permuteColumns,
  rotate,
  scale,
  zeros,
} from "./matrix.ts";

/** A singular value decomposition. */
export interface Svd {
  /** Left singular vectors as columns. */
  readonly u: Matrix;
  /** Singular values, largest first. */
  readonly s: Float64Array;
  /** Right singular vectors as columns. */
  readonly v: Matrix;
}

/** The singular values of {@link decompose}, and its vectors unless only values were wanted. */
type Parts = { readonly s: Float64Array; readonly vectors: { u: Matrix; v: Matrix } | null };

/** The diagonals of a real bidiagonal matrix. */
interface Bidiagonal {
  readonly d: Float64Array;
  /** Beside the diagonal. */
  readonly e: Float64Array;
}

/** Multiplies rows of `a` from `row` on, and columns from there, by I − tau y yᴴ from the right. */
function reflectRows(a: Matrix, row: number, y: Matrix, from: number, tau: Reflector): void {
  const { rows: m, columns: n } = a;
  const size = m - row, product = zeros(size, 1, a.im !== null);
  const part = (j: number): [number, number] => [
    y.re[from + j - row]!,
    y.im === null ? 0 : y.im[from + j - row]!,
  ];
  for (let j = row; j < n; j++) axpy(size, ...part(j), a, j * m + row, product, 0);
  for (let j = row; j < n; j++) {
    const [re, im] = part(j);
    // Minus tau times the conjugate.
    const [p, q] = [-(tau.re * re + tau.im * im), tau.re * im - tau.im * re];
    axpy(size, p, q, product, 0, a, j * m + row);
  }
}

/**
 * Makes `a`, which has at least as many rows as columns, real and bidiagonal by reflections of columns,
 * whose vectors it keeps, and of rows.
 */
function bidiagonalize(a: Matrix): Bidiagonal & {
  readonly left: Reflector[];
  readonly rows: Matrix;
  readonly right: Reflector[];
} {
  const { rows: m, columns: n, re, im } = a;
  const d = new Float64Array(n), e = new Float64Array(n);
  const left: Reflector[] = [], right: Reflector[] = [], rows = zeros(n, n, im !== null);
  for (let k = 0; k < n; k++) {
    const at = k * m + k;
    const one = reflect(m - k, a, at);
    left.push(one);
    d[k] = re[at]!;
    applyReflector(m - k, a, at, { re: one.re, im: -one.im }, a, k, k + 1, n);
    if (k === n - 1) break;
    const to = k * n + k + 1;
    for (let j = k + 1; j < n; j++) {
      rows.re[k * n + j] = re[j * m + k]!;
      if (im !== null) rows.im![k * n + j] = -im[j * m + k]!;
    }
    const other = reflect(n - k - 1, rows, to);
    right.push(other);
    e[k] = rows.re[to]!;
    if (other.re === 0 && other.im === 0) continue;
    rows.re[to] = 1;
    reflectRows(a, k + 1, rows, to, other);
    rows.re[to] = e[k]!;
  }
  return { d, e, left, rows, right };
}

/** The cosine and sine of the last {@link rotation}. */
let c = 1, s = 0;

/** Finds the rotation that turns (x, y) into (r, 0); returns r. */
function rotation(x: number, y: number): number {
  const r = y === 0 ? x : Math.sqrt(x * x + y * y);
  [c, s] = r === 0 || y === 0 ? [1, 0] : [x / r, y / r];
  return r;
}

/** The smaller singular value of [p, q; 0, r]. */
function smaller(p: number, q: number, r: number): number {
  const root = Math.sqrt(((p - r) ** 2 + q * q) * ((p + r) ** 2 + q * q));
  const most = Math.sqrt((p * p + q * q + r * r + root) / 2);
  return most === 0 ? 0 : Math.abs(p * r) / most;
}

/** One step without a shift, which keeps the digits of small values. */
function chaseZero({ d, e }: Bidiagonal, low: number, high: number, turn: Turn): void {
  let [c1, c2, s2] = [1, 1, 0];
  for (let i = low; i < high; i++) {
    const r = rotation(d[i]! * c1, e[i]!);
    turn(1, i, c, s);
    c1 = c;
    if (i > low) e[i - 1] = s2 * r;
    d[i] = rotation(c2 * r, d[i + 1]! * s);
    turn(0, i, c, s);
    [c2, s2] = [c, s];
  }
  const h = d[high]! * c1;
  d[high] = h * c2;
  e[high - 1] = h * s2;
}

/** One step of the implicit QR iteration. */
function chase(
  { d, e }: Bidiagonal,
  low: number,
  high: number,
  shift: number,
  turn: Turn,
): void {
  const first = d[low]!;
  let f = (Math.abs(first) - shift) * ((first < 0 ? -1 : 1) + shift / first), g = e[low]!;
  for (let i = low; i < high; i++) {
    const r = rotation(f, g);
    turn(1, i, c, s);
    if (i > low) e[i - 1] = r;
    f = c * d[i]! + s * e[i]!;
    e[i] = c * e[i]! - s * d[i]!;
    g = s * d[i + 1]!;
    d[i + 1]! *= c;
    d[i] = rotation(f, g);
    turn(0, i, c, s);
    f = c * e[i]! + s * d[i + 1]!;
    d[i + 1] = c * d[i + 1]! - s * e[i]!;
    if (i < high - 1) {
      g = s * e[i + 1]!;
      e[i + 1]! *= c;
    }
  }
  e[high - 1] = f;
}

/** Turns columns k and k + 1 of the left vectors (0) or of the right ones (1). */
type Turn = (side: 0 | 1, k: number, cosine: number, sine: number) => void;

/** Makes a bidiagonal matrix diagonal. False if that does not converge. */
function diagonalize({ d, e }: Bidiagonal, turn: Turn): boolean {
  const n = d.length, eps = EPSILON / 2;
  let left = 60 * n, size = 0;
  for (let i = 0; i < n; i++) size = Math.max(size, Math.abs(d[i]!), Math.abs(e[i]!));
  // No part of the largest value beside it: small values keep their digits.
  const tiny = size * 1e-140;
  // Between equal values, rounding errors can keep an element above the limit; it is doubled after as
  // many steps for one of them.
  const mostSteps = 8;
  let steps = 0, near = eps;
  for (let high = n - 1; high > 0;) {
    let low = high;
    for (; low > 0; low--) {
      const one = Math.abs(e[low - 1]!);
      if (one <= near * (Math.abs(d[low - 1]!) + Math.abs(d[low]!)) || one <= tiny) {
        e[low - 1] = 0;
        break;
      }
    }
    if (low === high) {
      high--;
      steps = 0;
      near = eps;
      continue;
    }
    if (left-- === 0) return false;
    if (++steps % mostSteps === 0) near *= 2;
    const shift = smaller(d[high - 1]!, e[high - 1]!, d[high]!);
    const part = d[low] === 0 ? 0 : shift / Math.abs(d[low]!);
    let least = size, most = 0;
    for (let i = low; i <= high; i++) {
      least = Math.min(least, Math.abs(d[i]!));
      most = Math.max(most, Math.abs(d[i]!), i < high ? Math.abs(e[i]!) : 0);
    }
    if (part * part < eps || least <= eps * most) chaseZero({ d, e }, low, high, turn);
    else chase({ d, e }, low, high, shift, turn);
  }
  return true;
}

/** The decomposition of a matrix that has at least as many rows as columns; `columns` of U. */
function decompose(a: Matrix, columns: number, hasVectors: boolean): Parts | null {
  const { columns: n } = a;
  const { d, e, left, rows, right } = bidiagonalize(a);
  const vectors = hasVectors ? { u: makeQ(a, left, columns), v: makeQ(rows, right, n, 1) } : null;
  const turn: Turn = vectors === null
    ? () => {}
    : (side, k, cosine, sine) =>
      rotate(side === 0 ? vectors.u : vectors.v, k, k + 1, cosine, -sine);
  if (!diagonalize({ d, e }, turn)) return null;
  const order = Array.from(d, (_, i) => i).sort((i, j) => Math.abs(d[j]!) - Math.abs(d[i]!));
  if (vectors !== null) {
    for (let j = 0; j < n; j++) if (d[j]! < 0) scale(n, -1, 0, vectors.v, j * n);
    const rest = Array.from({ length: columns - n }, (_, j) => n + j);
    vectors.u = permuteColumns(vectors.u, [...order, ...rest]);
    vectors.v = permuteColumns(vectors.v, order);
  }
  return { s: Float64Array.from(order, (i) => Math.abs(d[i]!)), vectors };
}

/** The decomposition of R of a tall matrix, and its left vectors turned by Q. */
function decomposeTall(a: Matrix, columns: number, hasVectors: boolean): Parts | null {
  const { rows: m, columns: n } = a;
  const reflectors = qrInPlace(a);
  const r = zeros(n, n, a.im !== null);
  for (let j = 0; j < n; j++) {
    r.re.set(a.re.subarray(j * m, j * m + j + 1), j * n);
    if (a.im !== null) r.im!.set(a.im.subarray(j * m, j * m + j + 1), j * n);
  }
  const made = decompose(r, n, hasVectors);
  if (made === null || made.vectors === null) return made;
  const q = makeQ(a, reflectors, columns);
  const turned = multiply(firstColumns(q, n), made.vectors.u);
  q.re.set(turned.re);
  if (q.im !== null) q.im.set(turned.im!);
  made.vectors.u = q;
  return made;
}

function find(a: Matrix, full: boolean, hasVectors: boolean): Parts | null {
  const { rows: m, columns: n } = a;
  if (m < n) {
    const made = find(adjoint(a), full, hasVectors);
    if (made !== null && made.vectors !== null) {
      const { u, v } = made.vectors;
      [made.vectors.u, made.vectors.v] = [v, u];
    }
    return made;
  }
  const work = copy(a), size = normalize(work);
  const made = (2 * m > 3 * n ? decomposeTall : decompose)(work, full ? m : n, hasVectors);
  made?.s.forEach((one, i, all) => all[i] = one * size);
  return made;
}

/** A = U diag(s) Vᴴ; with `full`, U and V are square. Null without convergence. */
export function svd(a: Matrix, full: boolean): Svd | null {
  const made = find(a, full, true);
  return made && { s: made.s, ...made.vectors! };
}

/** The singular values, largest first. Null without convergence. */
export function svdvals(a: Matrix): Float64Array | null {
  const made = find(a, false, false);
  return made && made.s;
}

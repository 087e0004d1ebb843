/**
 * Eigenvalues and eigenvectors of any square matrix, and its exponential.
 *
 * @module
 */
import { luInPlace, solveFactored } from "./factor.ts";
import { complexSchur, hessenberg, realSchur } from "./hessenberg.ts";
import {
  axpy,
  copy,
  divide,
  EPSILON,
  identity,
  imaginary,
  type Matrix,
  multiply,
  norm,
  normalize,
  real,
  scale,
  zeros,
} from "./matrix.ts";

/** The eigenvalues of a Schur form, as a column. */
function valuesOf({ rows: n, re, im }: Matrix): Matrix {
  const values = zeros(n, 1, true);
  for (let k = 0; k < n; k++) {
    const at = k * n + k;
    values.re[k] = re[at]!;
    if (im !== null) values.im![k] = im[at]!;
    else if (k + 1 < n && re[at + 1] !== 0) {
      const half = (re[at]! - re[at + n + 1]!) / 2;
      const root = Math.sqrt(-(half * half + re[at + 1]! * re[at + n]!));
      values.re[k] = values.re[k + 1] = (re[at]! + re[at + n + 1]!) / 2;
      values.im![k] = root;
      values.im![k + 1] = -root;
      k++;
    }
  }
  return values;
}

/** The complex numbers of a matrix of two rows: q, b; c, p. */
type Pair = [
  ...[qr: number, qi: number, br: number, bi: number],
  ...[cr: number, ci: number, pr: number, pi: number],
];

/**
 * Replaces elements i and i + 1 of x by the solution of a system of two equations, by elimination:
 * Cramer's rule has no digits where the matrix is almost singular.
 */
function solvePair(x: Matrix, i: number, given: Pair, small: number): void {
  let [qr, qi, br, bi, cr, ci, pr, pi] = given;
  let [ur, ui, vr, vi] = [x.re[i]!, x.im![i]!, x.re[i + 1]!, x.im![i + 1]!];
  if (Math.abs(cr) + Math.abs(ci) > Math.abs(qr) + Math.abs(qi)) {
    [qr, qi, br, bi, cr, ci, pr, pi] = [cr, ci, pr, pi, qr, qi, br, bi];
    [ur, ui, vr, vi] = [vr, vi, ur, ui];
  }
  if (Math.abs(qr) + Math.abs(qi) < small) [qr, qi] = [small, 0];
  divide(cr, ci, qr, qi);
  const [fr, fi] = [real, imaginary];
  pr -= fr * br - fi * bi;
  pi -= fr * bi + fi * br;
  if (Math.abs(pr) + Math.abs(pi) < small) [pr, pi] = [small, 0];
  divide(vr - fr * ur + fi * ui, vi - fr * ui - fi * ur, pr, pi);
  const [yr, yi] = [real, imaginary];
  divide(ur - br * yr + bi * yi, ui - br * yi - bi * yr, qr, qi);
  [x.re[i], x.im![i]] = [real, imaginary];
  [x.re[i + 1], x.im![i + 1]] = [yr, yi];
}

/** Solves for the eigenvector of value k of a Schur form, into x. */
function backSubstitute(t: Matrix, values: Matrix, k: number, x: Matrix, small: number): void {
  const { rows: n, re } = t;
  const [lr, li] = [values.re[k]!, values.im![k]!];
  x.re.fill(0);
  x.im!.fill(0);
  // The right side: x += column j times x_j, above row j.
  const eliminate = (j: number, count: number): void =>
    axpy(count, -x.re[j]!, -x.im![j]!, t, j * n, x, 0);
  x.re[k] = 1;
  let row = k - 1;
  if (t.im === zeroParts && li !== 0) {
    // The first of a pair, in rows k and k + 1.
    const [a, b, c, d] = [
      re[k * n + k]!,
      re[(k + 1) * n + k]!,
      re[k * n + k + 1]!,
      re[(k + 1) * n + k + 1]!,
    ];
    if (Math.abs(b) >= Math.abs(c)) {
      x.re[k + 1] = (lr - a) / b;
      x.im![k + 1] = li / b;
    } else {
      x.re[k + 1] = 1;
      x.re[k] = (lr - d) / c;
      x.im![k] = li / c;
    }
    eliminate(k + 1, k);
  }
  eliminate(k, k);
  for (; row >= 0; row--) {
    const at = row * n + row;
    const [pr, pi] = [re[at]! - lr, t.im![at]! - li];
    if (t.im !== zeroParts || row === 0 || re[at - n] === 0) {
      const isSmall = Math.abs(pr) + Math.abs(pi) < small;
      divide(x.re[row]!, x.im![row]!, isSmall ? small : pr, isSmall ? 0 : pi);
      x.re[row] = real;
      x.im![row] = imaginary;
    } else {
      // Rows row − 1 and row of a block.
      const up = (row - 1) * n + row - 1;
      solvePair(x, row - 1, [re[up]! - lr, -li, re[at - 1]!, 0, re[up + 1]!, 0, pr, pi], small);
      eliminate(row, row - 1);
      row--;
    }
    eliminate(row, row);
    const size = Math.abs(x.re[row]!) + Math.abs(x.im![row]!);
    if (size > 1e100) scale(n, 1 / size, 0, x, 0);
  }
}

/** The imaginary parts of the real matrix in use. */
let zeroParts: Float64Array | null = null;

/** Eigenvalues as a complex column, and eigenvectors of length 1; null without convergence. */
export function eig(
  matrix: Matrix,
  hasVectors: boolean,
): { values: Matrix; vectors: Matrix | null } | null {
  const n = matrix.rows;
  const t = copy(matrix);
  const size = normalize(t);
  const q = hessenberg(t, hasVectors);
  if (!(t.im === null ? realSchur(t, q) : complexSchur(t, q))) return null;
  const values = valuesOf(t);
  if (q === null) {
    scale(n, size, 0, values, 0);
    return { values, vectors: null };
  }
  const isReal = t.im === null;
  zeroParts = isReal ? new Float64Array(n * n) : null;
  const schur: Matrix = isReal ? { ...t, im: zeroParts } : t;
  const turned: Matrix = isReal ? { ...q, im: zeroParts } : q;
  const vectors = zeros(n, n, true);
  const x = zeros(n, 1, true);
  let largest = 0;
  for (let j = 0; j < n; j++) largest = Math.max(largest, norm(n, t, j * n));
  const small = Math.max(EPSILON * largest, 1e-300);
  for (let k = 0; k < n; k++) {
    backSubstitute(schur, values, k, x, small);
    const made = multiply(turned, x);
    normalizeVector(made);
    vectors.re.set(made.re, k * n);
    vectors.im!.set(made.im!, k * n);
    if (isReal && values.im![k] !== 0) {
      k++;
      vectors.re.set(made.re, k * n);
      vectors.im!.set(made.im!.map((b) => -b), k * n);
    }
  }
  scale(n, size, 0, values, 0);
  return { values, vectors };
}

/** Gives a column the length 1, and a real largest element. */
function normalizeVector(x: Matrix): void {
  const length = norm(x.rows, x, 0);
  if (length === 0) return;
  scale(x.rows, 1 / length, 0, x, 0);
  if (x.im!.every((b) => b === 0)) return;
  let best = 0, most = 0;
  for (let i = 0; i < x.rows; i++) {
    const size = Math.hypot(x.re[i]!, x.im![i]!);
    if (size > most) [best, most] = [i, size];
  }
  scale(x.rows, x.re[best]! / most, -x.im![best]! / most, x, 0);
  x.im![best] = 0;
}

/** The coefficients of the Padé approximant of order 13. */
const PADE = [
  ...[64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800],
  ...[129060195264000, 10559470521600, 670442572800, 33522128640, 1323241920, 40840800],
  ...[960960, 16380, 182, 1],
];
/** The norm up to which it is exact to double precision. */
const PADE_NORM = 5.371920351148152;

/** The exponential, by a Padé approximant of the scaled matrix, squared as often. */
export function expm(matrix: Matrix): Matrix {
  const n = matrix.rows;
  const isComplex = matrix.im !== null;
  let largest = 0;
  for (let j = 0; j < n; j++) {
    let sum = 0;
    for (let i = j * n; i < (j + 1) * n; i++) {
      sum += isComplex ? Math.hypot(matrix.re[i]!, matrix.im[i]!) : Math.abs(matrix.re[i]!);
    }
    largest = Math.max(largest, sum);
  }
  const squarings = largest > PADE_NORM
    ? Math.min(1030, Math.ceil(Math.log2(largest / PADE_NORM)))
    : 0;
  const a = copy(matrix);
  scale(n * n, 2 ** -squarings, 0, a, 0);
  const a2 = multiply(a, a), a4 = multiply(a2, a2), a6 = multiply(a4, a2);
  const one = identity(n, n, isComplex);
  const sum = (...parts: [number, Matrix][]): Matrix => {
    const made = zeros(n, n, isComplex);
    for (const [factor, part] of parts) axpy(n * n, factor, 0, part, 0, made, 0);
    return made;
  };
  const b = PADE as [number, ...number[]];
  const side = (k: number): Matrix =>
    sum(
      [1, multiply(a6, sum([b[12 + k]!, a6], [b[10 + k]!, a4], [b[8 + k]!, a2]))],
      [b[6 + k]!, a6],
      [b[4 + k]!, a4],
      [b[2 + k]!, a2],
      [b[k]!, one],
    );
  const odd = multiply(a, side(1)), even = side(0);
  const below = sum([1, even], [-1, odd]);
  let made = sum([1, even], [1, odd]);
  const pivots = luInPlace(below);
  solveFactored(below, pivots, made);
  for (let k = 0; k < squarings; k++) made = multiply(made, made);
  return made;
}

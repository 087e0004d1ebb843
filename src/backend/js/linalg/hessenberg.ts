/**
 * Matrices in Hessenberg and Schur form: the QR iteration of Francis for real matrices, and one with
 * rotations for complex ones.
 *
 * @module
 */
import { applyReflector, makeQ, reflect, type Reflector } from "./factor.ts";
import { adjoint, divide, EPSILON, imaginary, type Matrix, real } from "./matrix.ts";

/** Replaces `a` by Qᴴ a Q in Hessenberg form; returns Q. */
export function hessenberg(a: Matrix, hasVectors: boolean): Matrix | null {
  const { rows: n, re, im } = a;
  const reflectors: Reflector[] = [];
  for (let k = 0; k < n - 1; k++) {
    const at = k * n + k + 1, size = n - k - 1;
    const tau = reflect(size, a, at);
    reflectors.push(tau);
    applyReflector(size, a, at, { re: tau.re, im: -tau.im }, a, k + 1, k + 1, n);
    // The rows are the columns of the adjoint.
    const rows = adjoint(a);
    applyReflector(size, a, at, { re: tau.re, im: -tau.im }, rows, k + 1, 0, n);
    const back = adjoint(rows);
    const from = (k + 1) * n;
    re.set(back.re.subarray(from), from);
    im?.set(back.im!.subarray(from), from);
  }
  const q = hasVectors ? makeQ(a, reflectors, n, 1) : null;
  for (let j = 0; j < n; j++) {
    re.fill(0, j * n + j + 2, (j + 1) * n);
    im?.fill(0, j * n + j + 2, (j + 1) * n);
  }
  return q;
}

/** x -= tau v (vᵀ x) for `count` vectors of three elements, or two. */
function reflectRows(
  h: Float64Array,
  at: number,
  step: number,
  between: number,
  count: number,
  v: readonly number[],
  tau: number,
): void {
  const [, second = 0, third = 0] = v;
  for (let j = 0; j < count; j++, at += between) {
    const [b, c] = [at + step, at + 2 * step];
    let sum = h[at]! + second * h[b]!;
    if (v.length === 3) sum += third * h[c]!;
    sum *= tau;
    h[at]! -= sum;
    h[b]! -= sum * second;
    if (v.length === 3) h[c]! -= sum * third;
  }
}

/** The reflection of a short vector onto the first axis. */
function shortReflector(x: readonly number[]): { v: number[]; tau: number; image: number } {
  const largest = Math.max(...x.map(Math.abs));
  if (largest === 0) return { v: x.map((_, i) => i === 0 ? 1 : 0), tau: 0, image: 0 };
  const image = (x[0]! > 0 ? -1 : 1) * largest * Math.hypot(...x.map((one) => one / largest));
  const head = x[0]! - image;
  return { v: x.map((one, i) => i === 0 ? 1 : one / head), tau: -head / image, image };
}

/** One double step of the iteration for the block from `low` to `high`. */
function francis(
  { rows: n, re: h }: Matrix,
  q: Matrix | null,
  low: number,
  high: number,
  exceptional: boolean,
): void {
  const at = (i: number, j: number): number => h[j * n + i]!;
  // The shifts are the eigenvalues of [p, w; 1, r]. Differences come before products: those of almost
  // equal eigenvalues have few digits.
  let p = at(high - 1, high - 1), r = at(high, high);
  let w = at(high - 1, high) * at(high, high - 1);
  if (exceptional) {
    const size = Math.abs(at(high, high - 1)) + Math.abs(at(high - 1, high - 2));
    p = r += 0.75 * size;
    w = -0.4375 * size * size;
  }
  const first = at(low, low), below = at(low + 1, low);
  let x = [
    (p - first) * (r - first) - w + at(low, low + 1) * below,
    below * (at(low + 1, low + 1) - first - (p - first) - (r - first)),
    below * at(low + 2, low + 1),
  ];
  for (let k = low; k < high; k++) {
    const size = Math.min(3, high - k + 1);
    const { v, tau, image } = shortReflector(x.slice(0, size));
    if (k > low) {
      h[(k - 1) * n + k] = image;
      for (let i = 1; i < size; i++) h[(k - 1) * n + k + i] = 0;
    }
    reflectRows(h, k * n + k, 1, n, n - k, v, tau);
    reflectRows(h, k * n, n, 1, Math.min(k + 3, high) + 1, v, tau);
    if (q !== null) reflectRows(q.re, k * n, n, 1, n, v, tau);
    x = [at(k + 1, k), at(Math.min(k + 2, n - 1), k), at(Math.min(k + 3, n - 1), k)];
  }
}

/** Makes a block of two triangular if its eigenvalues are real. */
function split({ rows: n, re: h }: Matrix, q: Matrix | null, k: number): void {
  const [a, b, c, d] = [
    h[k * n + k]!,
    h[(k + 1) * n + k]!,
    h[k * n + k + 1]!,
    h[(k + 1) * n + k + 1]!,
  ];
  const half = (a - d) / 2, root = half * half + b * c;
  if (c === 0 || root < 0) return;
  const z = half + (half < 0 ? -1 : 1) * Math.sqrt(root);
  const r = Math.hypot(z, c), cos = z / r, sin = c / r;
  const turn = (
    x: Float64Array,
    at: number,
    step: number,
    between: number,
    count: number,
  ): void => {
    for (let j = 0; j < count; j++, at += between) {
      const [u, w] = [x[at]!, x[at + step]!];
      x[at] = cos * u + sin * w;
      x[at + step] = cos * w - sin * u;
    }
  };
  turn(h, k * n + k, 1, n, n - k);
  turn(h, k * n, n, 1, k + 2);
  if (q !== null) turn(q.re, k * n, n, 1, n);
  h[k * n + k + 1] = 0;
}

/**
 * The limit up to which an element below the diagonal counts as 0, beside the sum of the elements near
 * it. After many steps, what is negligible beside the largest element is enough: between equal
 * eigenvalues, rounding errors can keep an element above the usual limit.
 */
function negligible(near: number, largest: number, steps: number): number {
  return EPSILON * (steps >= 60 ? largest * (steps / 10) : near || largest);
}

/** Replaces a real Hessenberg matrix by its Schur form, with blocks of two for complex pairs. */
export function realSchur(a: Matrix, q: Matrix | null): boolean {
  const { rows: n, re: h } = a;
  const largest = h.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
  let steps = 0;
  for (let high = n - 1; high > 0;) {
    let low = high;
    while (low > 0) {
      const near = Math.abs(h[low * n + low]!) + Math.abs(h[(low - 1) * n + low - 1]!);
      if (Math.abs(h[(low - 1) * n + low]!) <= negligible(near, largest, steps)) {
        h[(low - 1) * n + low] = 0;
        break;
      }
      low--;
    }
    if (low >= high - 1) {
      if (low === high - 1) split(a, q, low);
      high = low - 1;
      steps = 0;
      continue;
    }
    if (steps++ === 300) return false;
    francis(a, q, low, high, steps % 10 === 0);
  }
  return true;
}

/** The shift: the eigenvalue of the last block of two that is closer to its last element. */
function wilkinson(a: Matrix, high: number): [number, number] {
  const { rows: n, re, im } = a;
  const p = (high - 1) * n + high - 1, b = high * n + high - 1, c = p + 1, d = b + 1;
  // With t = (a − d) / 2: d − b c / (t ± sqrt(t² + b c)).
  const [tr, ti] = [(re[p]! - re[d]!) / 2, (im![p]! - im![d]!) / 2];
  const [br, bi] = [
    re[b]! * re[c]! - im![b]! * im![c]!,
    re[b]! * im![c]! + im![b]! * re[c]!,
  ];
  const [sr, si] = [tr * tr - ti * ti + br, 2 * tr * ti + bi];
  const size = Math.sqrt(Math.hypot(sr, si));
  const angle = Math.atan2(si, sr) / 2;
  let [rr, ri] = [size * Math.cos(angle), size * Math.sin(angle)];
  if (tr * rr + ti * ri < 0) [rr, ri] = [-rr, -ri];
  if (tr + rr === 0 && ti + ri === 0) return [re[d]!, im![d]!];
  divide(br, bi, tr + rr, ti + ri);
  return [re[d]! - real, im![d]! - imaginary];
}

/** Replaces a complex Hessenberg matrix by its triangular Schur form. */
export function complexSchur(a: Matrix, q: Matrix | null): boolean {
  const { rows: n, re } = a;
  const im = a.im!;
  const size = (k: number): number => Math.abs(re[k]!) + Math.abs(im[k]!);
  let largest = 0;
  for (let k = 0; k < n * n; k++) largest = Math.max(largest, size(k));
  let steps = 0;
  for (let high = n - 1; high > 0;) {
    let low = high;
    while (low > 0) {
      const near = size(low * n + low) + size((low - 1) * n + low - 1);
      if (size((low - 1) * n + low) <= negligible(near, largest, steps)) {
        re[(low - 1) * n + low] = im[(low - 1) * n + low] = 0;
        break;
      }
      low--;
    }
    if (low === high) {
      high--;
      steps = 0;
      continue;
    }
    if (steps++ === 300) return false;
    const shift = wilkinson(a, high);
    let [sr] = shift;
    const [, si] = shift;
    if (steps % 10 === 0) sr += size((high - 1) * n + high);
    let [xr, xi] = [re[low * n + low]! - sr, im[low * n + low]! - si];
    let [yr, yi] = [re[low * n + low + 1]!, im[low * n + low + 1]!];
    for (let k = low; k < high; k++) {
      // The unitary [c, s; −conj(s), c] with c real turns (x, y) into (r, 0).
      const [nx, ny] = [Math.hypot(xr, xi), Math.hypot(yr, yi)];
      const r = Math.hypot(nx, ny);
      let c = 1, s = 0, t = 0;
      if (ny > 0) {
        // s = (x / |x|) conj(y) / r
        const [ur, ui] = nx === 0 ? [1, 0] : [xr / nx, xi / nx];
        c = nx / r;
        s = (ur * yr + ui * yi) / r;
        t = (ui * yr - ur * yi) / r;
      }
      turnRows(a, k, Math.max(k - 1, low), c, s, t);
      turnColumns(a, k, Math.min(k + 2, high) + 1, c, s, t);
      if (q !== null) turnColumns(q, k, n, c, s, t);
      if (k > low) re[(k - 1) * n + k + 1] = im[(k - 1) * n + k + 1] = 0;
      if (k === high - 1) break;
      [xr, xi] = [re[k * n + k + 1]!, im[k * n + k + 1]!];
      [yr, yi] = [re[k * n + k + 2]!, im[k * n + k + 2]!];
    }
  }
  return true;
}

/** Rows k and k + 1, from a column on: u' = c u + s w; w' = c w − conj(s) u. */
function turnRows(a: Matrix, k: number, from: number, c: number, s: number, t: number): void {
  const { rows: n, columns, re } = a;
  const im = a.im!;
  for (let i = from * n + k; i < columns * n; i += n) {
    const [u, v, w, x] = [re[i]!, im[i]!, re[i + 1]!, im[i + 1]!];
    re[i] = c * u + s * w - t * x;
    im[i] = c * v + s * x + t * w;
    re[i + 1] = c * w - s * u - t * v;
    im[i + 1] = c * x - s * v + t * u;
  }
}

/** Columns k and k + 1 times the adjoint: u' = c u + conj(s) w; w' = c w − s u. */
function turnColumns(a: Matrix, k: number, count: number, c: number, s: number, t: number): void {
  const { rows: n, re } = a;
  const im = a.im!;
  for (let i = k * n, j = i + n; i < k * n + count; i++, j++) {
    const [u, v, w, x] = [re[i]!, im[i]!, re[j]!, im[j]!];
    re[i] = c * u + s * w + t * x;
    im[i] = c * v + s * x - t * w;
    re[j] = c * w - s * u + t * v;
    im[j] = c * x - s * v - t * u;
  }
}

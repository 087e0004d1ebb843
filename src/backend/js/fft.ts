/**
 * Fourier transforms in JavaScript: the definition, in double precision, rounded once.
 *
 * Stockham's algorithm for the prime factors up to {@link LARGEST_RADIX}; lengths with larger ones are
 * a convolution with a chirp (Bluestein).
 *
 * @module
 */
import { fftOf, type FftSizes } from "../../ops/fft/problem.ts";

export { runsFft } from "../../ops/fft/problem.ts";
import type { Call } from "../../table/op.ts";

/** Real parts and imaginary parts. */
interface Parts {
  readonly re: Float64Array;
  readonly im: Float64Array;
}

/** How a length is transformed. */
interface LinePlan {
  readonly n: number;
  readonly radices: readonly number[];
  /** exp(-2 pi i k / n). */
  readonly roots: Parts;
  readonly room: Parts;
  /** For a convolution with a chirp. */
  readonly chirp: Chirp | null;
}

interface Chirp {
  /** exp(-pi i k^2 / n). */
  readonly factors: Parts;
  /** The transform of its conjugate, divided by its length. */
  readonly spectrum: Parts;
  readonly plan: LinePlan;
  readonly x: Parts;
}

/** The largest prime factor of a length that is transformed by its factors. */
const LARGEST_RADIX = 31;
/** The plans that are kept, and the longest of them. */
const MAX_PLANS = 16;
const MAX_KEPT = 1 << 17;

const plans: Map<number, LinePlan> = new Map();

const makeParts = (n: number): Parts => ({ re: new Float64Array(n), im: new Float64Array(n) });

/** Sets element `at` to exp(-2 pi i k / n), for 0 <= k < n, symmetric in all octants. */
function setRoot({ re, im }: Parts, at: number, k: number, n: number): void {
  const octant = Math.floor(8 * k / n);
  let rest = 8 * k - octant * n;
  if (octant % 2 === 1) rest = n - rest;
  const angle = Math.PI * rest / n / 4;
  let c = Math.cos(angle), s = Math.sin(angle);
  if (((octant + 1) & 2) !== 0) [c, s] = [s, c];
  re[at] = octant >= 2 && octant < 6 ? -c : c;
  im[at] = octant >= 4 ? s : -s;
}

/** The radices of a length, fours first; null if it has a large prime factor. */
function radicesOf(n: number): number[] | null {
  const radices: number[] = [];
  for (; n % 4 === 0; n /= 4) radices.push(4);
  for (let p = 2; p <= LARGEST_RADIX; p++) {
    for (; n % p === 0; n /= p) radices.push(p);
  }
  return n === 1 ? radices : null;
}

function makeChirp(n: number): Chirp {
  let m = 1;
  while (m < 2 * n - 1) m *= 2;
  const plan = planOf(m);
  const factors = makeParts(n), spectrum = makeParts(m);
  let square = 0;
  for (let k = 0; k < n; k++) {
    setRoot(factors, k, square, 2 * n);
    for (const at of [k, (m - k) % m]) {
      spectrum.re[at] = factors.re[k]! / m;
      spectrum.im[at] = -factors.im[k]! / m;
    }
    square = (square + 2 * k + 1) % (2 * n);
  }
  transform(plan, spectrum);
  return { factors, spectrum, plan, x: makeParts(m) };
}

function planOf(n: number): LinePlan {
  const found = plans.get(n);
  if (found !== undefined) {
    plans.delete(n);
    plans.set(n, found);
    return found;
  }
  const radices = radicesOf(n);
  const roots = makeParts(radices === null ? 0 : n);
  for (let k = 0; k < roots.re.length; k++) setRoot(roots, k, k, n);
  const made: LinePlan = {
    n,
    radices: radices ?? [],
    roots,
    room: makeParts(n),
    chirp: radices === null ? makeChirp(n) : null,
  };
  if (n > MAX_KEPT) return made;
  plans.set(n, made);
  for (const oldest of plans.keys()) {
    if (plans.size <= MAX_PLANS) break;
    plans.delete(oldest);
  }
  return made;
}

/** The numbers of one pass: y[q + s (r p + k)] is output k of the transform of x[q + s (p + m j)]. */
interface Pass {
  readonly x: Parts;
  readonly y: Parts;
  readonly roots: Parts;
  readonly r: number;
  readonly m: number;
  readonly s: number;
}

function passFour({ x, y, roots, m, s }: Pass): void {
  const { re, im } = x, { re: toRe, im: toIm } = y, { re: c, im: d } = roots;
  for (let p = 0; p < m; p++) {
    const [i1, i2, i3] = [p * s, 2 * p * s, 3 * p * s];
    const c1 = c[i1]!, d1 = d[i1]!, c2 = c[i2]!, d2 = d[i2]!, c3 = c[i3]!, d3 = d[i3]!;
    for (let q = 0; q < s; q++) {
      const from = q + s * p, step = s * m, to = q + 4 * s * p;
      const ar = re[from]!, ai = im[from]!;
      const br = re[from + step]!, bi = im[from + step]!;
      const cr = re[from + 2 * step]!, ci = im[from + 2 * step]!;
      const dr = re[from + 3 * step]!, di = im[from + 3 * step]!;
      const sr = ar + cr, si = ai + ci, tr = ar - cr, ti = ai - ci;
      const ur = br + dr, ui = bi + di, vr = br - dr, vi = bi - di;
      toRe[to] = sr + ur;
      toIm[to] = si + ui;
      const xr = tr + vi, xi = ti - vr, yr = sr - ur, yi = si - ui, zr = tr - vi, zi = ti + vr;
      if (p === 0) {
        // Not times 1 + 0i: 0 times infinity is NaN.
        toRe[to + s] = xr;
        toIm[to + s] = xi;
        toRe[to + 2 * s] = yr;
        toIm[to + 2 * s] = yi;
        toRe[to + 3 * s] = zr;
        toIm[to + 3 * s] = zi;
        continue;
      }
      toRe[to + s] = xr * c1 - xi * d1;
      toIm[to + s] = xr * d1 + xi * c1;
      toRe[to + 2 * s] = yr * c2 - yi * d2;
      toIm[to + 2 * s] = yr * d2 + yi * c2;
      toRe[to + 3 * s] = zr * c3 - zi * d3;
      toIm[to + 3 * s] = zr * d3 + zi * c3;
    }
  }
}

function passAny({ x, y, roots, r, m, s }: Pass): void {
  const { re, im } = x, { re: toRe, im: toIm } = y, { re: c, im: d } = roots;
  const n = r * m * s;
  for (let p = 0; p < m; p++) {
    for (let k = 0; k < r; k++) {
      const turn = p * k * s;
      const turnRe = c[turn]!, turnIm = d[turn]!;
      for (let q = 0; q < s; q++) {
        let sumRe = 0, sumIm = 0;
        for (let j = 0; j < r; j++) {
          const from = q + s * (p + m * j), root = j * k % r * (n / r);
          const a = re[from]!, b = im[from]!, u = c[root]!, v = d[root]!;
          // Not times 0: of infinity that is NaN.
          sumRe += v === 0 ? a * u : a * u - b * v;
          sumIm += v === 0 ? b * u : a * v + b * u;
        }
        const to = q + s * (r * p + k);
        toRe[to] = turnIm === 0 ? sumRe * turnRe : sumRe * turnRe - sumIm * turnIm;
        toIm[to] = turnIm === 0 ? sumIm * turnRe : sumRe * turnIm + sumIm * turnRe;
      }
    }
  }
}

/** Transforms the first elements of `line` in place. */
function transform(plan: LinePlan, line: Parts): void {
  const { n, radices, roots, room, chirp } = plan;
  if (chirp !== null) return convolve(n, chirp, line);
  let x = line, y = room, m = n, s = 1;
  for (const r of radices) {
    m /= r;
    const pass: Pass = { x, y, roots, r, m, s };
    if (r === 4) passFour(pass);
    else passAny(pass);
    s *= r;
    [x, y] = [y, x];
  }
  if (x === line) return;
  line.re.set(x.re);
  line.im.set(x.im);
}

function multiply({ re, im }: Parts, by: Parts, to: Parts, n: number): void {
  for (let i = 0; i < n; i++) {
    const a = re[i]!, b = im[i]!, c = by.re[i]!, d = by.im[i]!;
    to.re[i] = a * c - b * d;
    to.im[i] = a * d + b * c;
  }
}

function convolve(n: number, { factors, spectrum, plan, x }: Chirp, line: Parts): void {
  multiply(line, factors, x, n);
  x.re.fill(0, n);
  x.im.fill(0, n);
  transform(plan, x);
  multiply(x, spectrum, x, plan.n);
  // The parts exchanged, a transform is its inverse.
  transform(plan, { re: x.im, im: x.re });
  multiply(x, factors, line, n);
}

type Floats = Float32Array | Float64Array;

/** Reads a line that begins at element `from`, with its conjugate for negative `sign`. */
function readLine(sizes: FftSizes, x: Floats, from: number, sign: number, line: Parts): void {
  const { kind, n, inner, given } = sizes;
  const { re, im } = line;
  re.fill(0, given);
  im.fill(0, given);
  for (let i = 0; i < given; i++) {
    const at = from + i * inner;
    re[i] = kind === "fromReal" ? x[at]! : x[2 * at]!;
    im[i] = kind === "fromReal" ? 0 : x[2 * at + 1]! * sign;
  }
  if (kind !== "toReal") return;
  im[0] = 0;
  if (n % 2 === 0) im[n / 2] = 0;
  for (let i = 1; 2 * i < n; i++) {
    re[n - i] = re[i]!;
    im[n - i] = -im[i]!;
  }
}

/** The transforms along an axis. */
export function fft(call: Call): void {
  const sizes = fftOf(call);
  const { kind, n, inverse, scale, outer, inner, inLength, outLength } = sizes;
  const { storage, layout: { offset } } = call.operand(0);
  const { storage: made, layout: target } = call.outputs[0]!;
  const x = storage.array as Floats, y = made.array as Floats;
  const sign = inverse ? -1 : 1;
  const plan = planOf(n), line = makeParts(n);
  for (let i = 0; i < outer * inner; i++) {
    const block = Math.floor(i / inner), column = i % inner;
    readLine(sizes, x, offset + block * inLength * inner + column, sign, line);
    transform(plan, line);
    const to = target.offset + block * outLength * inner + column;
    for (let k = 0; k < outLength; k++) {
      const at = to + k * inner;
      if (kind === "toReal") y[at] = line.re[k]! * scale;
      else {
        y[2 * at] = line.re[k]! * scale;
        // Makes 0 of -0.
        y[2 * at + 1] = line.im[k]! * scale * sign + 0;
      }
    }
  }
}

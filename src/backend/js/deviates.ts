/**
 * Deviates that take a varying number of random words each: gamma, beta, Poisson, binomial,
 * truncated normal and categorical numbers.
 *
 * Element i uses the blocks with counter (i, attempt, lane): `attempt` counts its rejections, and
 * lane is 2, or 3 for the second gamma of a beta. An element depends on the key, its parameters and
 * i only. shim/cpu/deviates.c takes the same steps.
 *
 * Sources: Marsaglia and Tsang, "A simple method for generating gamma variables" (2000); Hörmann,
 * "The transformed rejection method for generating Poisson random variables" and "The generation of
 * binomial random variates" (1993); Wichura, "Algorithm AS 241" (1988).
 *
 * @module
 */
import type { Call } from "../../table/op.ts";
import type { CategoricalAttributes, DeviateAttributes } from "../../ops/random/op.ts";
import { generate, normalOf } from "./philox.ts";

/** Elements whose first blocks are made at once. */
const CHUNK = 512;
const FIRST = new Uint32Array(4 * CHUNK);
const NEXT = new Uint32Array(8);
const LOGS = new Float64Array(CHUNK);
const [LANE, SECOND_LANE] = [2, 3];
/** The attempt whose block has the factor of gammas with a shape below 1. */
const BOOST = 0xffffffff;
/** Means from this on are made by rejection, smaller ones by a search from 0. */
const LARGE_MEAN = 10;
/** A search of a mean below {@link LARGE_MEAN} ends here; the probability is below 1e-100. */
const LAST_COUNT = 200;

let key0 = 0;
let key1 = 0;
let lane = LANE;
let words = FIRST;
let at = 0;

/** Makes the first blocks of elements `start` and on. */
function beginChunk(start: number, n: number): void {
  generate(FIRST, n, key0, key1, start | 0, Math.floor(start / 2 ** 32), 0, lane);
}

/** Selects the block of an attempt of element `i`, whose first block is at `first`. */
function select(i: number, first: number, attempt: number): void {
  if (attempt > 0) return selectAlone(i, attempt);
  words = FIRST;
  at = 4 * first;
}

/** The same for an element whose first block has not been made. */
function selectAlone(i: number, attempt: number): void {
  generate(NEXT, 1, key0, key1, i | 0, Math.floor(i / 2 ** 32), attempt, lane);
  words = NEXT;
  at = 0;
}

/** The upper 53 bits of words w and w + 1 of the block, as an integer. */
function bits53(w: number): number {
  return words[at + w + 1]! * 2097152 + (words[at + w]! >>> 11);
}

/** A gamma number of a shape of at least 1. */
function gammaAbove(i: number, first: number, alpha: number): number {
  const d = alpha - 1 / 3;
  const c = 1 / Math.sqrt(9 * d);
  for (let attempt = 0;; attempt++) {
    select(i, first, attempt);
    const x = normalOf((words[at]! + 1) * 2 ** -32, words[at + 1]! * 2 ** -32);
    const root = 1 + c * x;
    if (root <= 0) continue;
    const v = root * root * root;
    const u = (bits53(2) + 1) * 2 ** -53;
    const xx = x * x;
    if (u < 1 - 0.0331 * xx * xx) return d * v;
    if (Math.log(u) < 0.5 * xx + d * (1 - v + Math.log(v))) return d * v;
  }
}

/** The logarithm of the factor that makes a gamma of shape alpha of one of alpha + 1. */
function logBoost(i: number, alpha: number): number {
  selectAlone(i, BOOST);
  return Math.log((bits53(2) + 1) * 2 ** -53) / alpha;
}

function gamma(i: number, first: number, alpha: number): number {
  if (alpha >= 1) return gammaAbove(i, first, alpha);
  if (alpha === 0) return 0;
  const above = gammaAbove(i, first, alpha + 1);
  return above * Math.exp(logBoost(i, alpha));
}

function logGamma(i: number, first: number, alpha: number): number {
  if (alpha >= 1) return Math.log(gammaAbove(i, first, alpha));
  const above = Math.log(gammaAbove(i, first, alpha + 1));
  return above + logBoost(i, alpha);
}

const TAILS = [
  0.08106146679532726,
  0.0413406959554093,
  0.02767792568499834,
  0.02079067210376509,
  0.0166446911898212,
  0.01387612882307075,
  0.0118967099458917,
  0.01041126526197209,
  0.009255462182712733,
  0.008330563433362871,
] as const;

/** ln k! - ((k + 1/2) ln(k + 1) - (k + 1) + ln(2 pi) / 2). */
function stirlingTail(k: number): number {
  if (k < 10) return TAILS[k]!;
  const s = 1 / ((k + 1) * (k + 1));
  return (1 / 12 - (1 / 360 - s / 1260) * s) / (k + 1);
}

function poisson(i: number, first: number, mean: number): number {
  if (mean < LARGE_MEAN) {
    select(i, first, 0);
    let u = bits53(2) * 2 ** -53;
    let p = Math.exp(-mean);
    let k = 0;
    while (u > p && k < LAST_COUNT) {
      u -= p;
      k++;
      p *= mean / k;
    }
    return k;
  }
  const root = Math.sqrt(mean);
  const b = 0.931 + 2.53 * root;
  const a = -0.059 + 0.02483 * b;
  for (let attempt = 0;; attempt++) {
    select(i, first, attempt);
    const u = bits53(0) * 2 ** -53 - 0.5;
    const v = (bits53(2) + 1) * 2 ** -53;
    const us = 0.5 - Math.abs(u) + 2 ** -54;
    const k = Math.floor((2 * a / us + b) * u + mean + 0.43);
    if (us >= 0.07 && v <= 0.9277 - 3.6224 / (b - 2)) return k;
    if (k < 0 || (us < 0.013 && v > us)) continue;
    const inverse = 1.1239 + 1.1328 / (b - 3.4);
    const left = Math.log(v * inverse / (a / (us * us) + b));
    const factorial = (k + 0.5) * Math.log(k + 1) - (k + 1) + 0.9189385332046728 + stirlingTail(k);
    if (left <= k * Math.log(mean) - mean - factorial) return k;
  }
}

/** For p up to 1/2. */
function successes(i: number, first: number, n: number, p: number): number {
  const r = p / (1 - p);
  const mean = n * p;
  if (mean < LARGE_MEAN) {
    select(i, first, 0);
    let u = bits53(2) * 2 ** -53;
    let q = Math.exp(n * Math.log1p(-p));
    let k = 0;
    const last = Math.min(n, LAST_COUNT);
    while (u > q && k < last) {
      u -= q;
      k++;
      q *= r * ((n - k + 1) / k);
    }
    return k;
  }
  const deviation = Math.sqrt(mean * (1 - p));
  const b = 1.15 + 2.53 * deviation;
  const a = -0.0873 + 0.0248 * b + 0.01 * p;
  const mode = Math.floor((n + 1) * p);
  for (let attempt = 0;; attempt++) {
    select(i, first, attempt);
    const u = bits53(0) * 2 ** -53 - 0.5;
    const v = (bits53(2) + 1) * 2 ** -53;
    const us = 0.5 - Math.abs(u) + 2 ** -54;
    const k = Math.floor((2 * a / us + b) * u + mean + 0.5);
    if (us >= 0.07 && v <= 0.92 - 4.2 / b) return k;
    if (k < 0 || k > n) continue;
    const left = Math.log(v * (2.83 + 5.1 / b) * deviation / (a / (us * us) + b));
    const right = (mode + 0.5) * Math.log((mode + 1) / (r * (n - mode + 1))) +
      (n + 1) * Math.log((n - mode + 1) / (n - k + 1)) +
      (k + 0.5) * Math.log(r * (n - k + 1) / (k + 1)) +
      (stirlingTail(mode) + stirlingTail(n - mode) - stirlingTail(k) - stirlingTail(n - k));
    if (left <= right) return k;
  }
}

function binomial(i: number, first: number, n: number, p: number): number {
  return p <= 0.5 ? successes(i, first, n, p) : n - successes(i, first, n, 1 - p);
}

/** The ratio of two polynomials of degree 7; the denominator's last coefficient is 1. */
function ratio(c: readonly number[], x: number): number {
  let above = c[0]!, below = c[8]!;
  for (let k = 1; k < 8; k++) above = above * x + c[k]!;
  for (let k = 9; k < 15; k++) below = below * x + c[k]!;
  return above / (below * x + 1);
}

const CENTRAL = [
  ...[2509.0809287301227, 33430.575583588128, 67265.770927008701, 45921.953931549871],
  ...[13731.693765509461, 1971.5909503065514, 133.14166789178438, 3.3871328727963666],
  ...[5226.4952788528545, 28729.085735721943, 39307.895800092711, 21213.794301586596],
  ...[5394.1960214247511, 687.18700749205790, 42.313330701600911],
];
const MIDDLE = [
  ...[7.7454501427834141e-4, 0.022723844989269184, 0.24178072517745061, 1.2704582524523684],
  ...[3.6478483247632045, 5.7694972214606914, 4.6303378461565456, 1.4234371107496835],
  ...[1.0507500716444169e-9, 5.475938084995345e-4, 0.015198666563616457, 0.14810397642748008],
  ...[0.68976733498510001, 1.6763848301838038, 2.053191626637759],
];
const FAR = [
  ...[2.0103343992922881e-7, 2.7115555687434876e-5, 0.0012426609473880784, 0.026532189526576124],
  ...[0.29656057182850489, 1.7848265399172913, 5.4637849111641144, 6.6579046435011038],
  ...[2.0442631033899397e-15, 1.4215117583164459e-7, 1.8463183175100547e-5, 7.8686913114561325e-4],
  ...[0.014875361290850615, 0.13692988092273581, 0.59983220655588794],
];

/** The x below which a standard normal number is with probability p. */
function normalQuantile(p: number): number {
  const q = p - 0.5;
  if (Math.abs(q) <= 0.425) return q * ratio(CENTRAL, 0.180625 - q * q);
  const r = Math.sqrt(-Math.log(q < 0 ? p : 1 - p));
  const x = r <= 5 ? ratio(MIDDLE, r - 1.6) : ratio(FAR, r - 5);
  return q < 0 ? -x : x;
}

/** The quantile of a uniform number between two probabilities. */
function truncated(i: number, first: number, low: number, width: number): number {
  select(i, first, 0);
  const u = ((bits53(2) - bits53(2) % 2) / 2 + 0.5) * 2 ** -52;
  return normalQuantile(low + u * width);
}

type Element = (i: number, first: number, a: number, b: number) => number;

const MAKERS: Record<string, Element> = { gamma, poisson, binomial, truncatedNormal: truncated };

/** Whether a deviate has these parameters. NaN fails every comparison. */
const DOMAINS: Record<string, (a: number, b: number) => boolean> = {
  gamma: (a) => a >= 0 && a < Infinity,
  // The logarithms of gammas of smaller parameters are infinite.
  beta: (a, b) => a > 0 && a < Infinity && b > 0 && b < Infinity && (a >= 1e-300 || b >= 1e-300),
  poisson: (a) => a >= 0 && a <= 1e9,
  binomial: (n, p) => n >= 0 && n < 2 ** 31 && Math.floor(n) === n && p >= 0 && p <= 1,
  truncatedNormal: () => true,
};

/** Logs of the gammas of one parameter of betas. */
function fillLogs(start: number, n: number, shapes: Float64Array, each: number): void {
  beginChunk(start, n);
  for (let k = 0; k < n; k++) LOGS[k] = logGamma(start + k, k, shapes[(start + k) * each]!);
}

function beta(start: number, n: number, call: Parameters, values: Float64Array): void {
  lane = SECOND_LANE;
  fillLogs(start, n, call.b, call.eachB);
  for (let k = 0; k < n; k++) values[k] = LOGS[k]!;
  lane = LANE;
  fillLogs(start, n, call.a, call.eachA);
  for (let k = 0; k < n; k++) values[k] = 1 / (1 + Math.exp(values[k]! - LOGS[k]!));
}

/** The parameters of a call: arrays of one number, or of one for each element. */
interface Parameters {
  readonly a: Float64Array;
  readonly b: Float64Array;
  readonly eachA: number;
  readonly eachB: number;
}

function parametersOf(call: Call): Parameters {
  const arrayOf = (k: number): Float64Array => {
    const { storage, layout: { offset, size } } = call.operand(k);
    return (storage.array as Float64Array).subarray(offset, offset + size);
  };
  const [a, b] = [arrayOf(1), arrayOf(2)];
  return { a, b, eachA: a.length === 1 ? 0 : 1, eachB: b.length === 1 ? 0 : 1 };
}

function takeKey(call: Call): void {
  const { storage, layout } = call.operand(0);
  const own = storage.array as Uint32Array;
  [key0, key1, lane] = [own[layout.offset]!, own[layout.offset + 1]!, LANE];
}

const VALUES = new Float64Array(CHUNK);

/** Writes numbers of a distribution; nothing if a parameter is out of its range. */
export function deviates(call: Call): void {
  const { distribution } = call.attributes as DeviateAttributes;
  const out = call.outputs[0]!;
  const { array, info } = out.storage;
  const { offset, size } = out.layout;
  const given = parametersOf(call);
  const { a, b, eachA, eachB } = given;
  if (size === 0) return;
  const isValid = DOMAINS[distribution]!;
  for (let i = 0; i < Math.max(a.length, b.length); i++) {
    if (isValid(a[i * eachA]!, b[i * eachB]!)) continue;
    call.badIndex = i;
    return;
  }
  takeKey(call);
  const make = MAKERS[distribution]!;
  for (let start = 0; start < size; start += CHUNK) {
    const n = Math.min(CHUNK, size - start);
    if (distribution === "beta") beta(start, n, given, VALUES);
    else {
      beginChunk(start, n);
      for (let k = 0; k < n; k++) {
        const i = start + k;
        VALUES[k] = make(i, k, a[i * eachA]!, b[i * eachB]!);
      }
    }
    if (info.name === "int64") {
      for (let k = 0; k < n; k++) (array as BigInt64Array)[offset + start + k] = BigInt(VALUES[k]!);
    } else for (let k = 0; k < n; k++) array[offset + start + k] = VALUES[k]!;
  }
}

/**
 * Writes the running sums of the weights of a row, or of the exponentials of its logits; false if
 * they have no finite positive sum.
 */
function fillSums(row: Float64Array, logits: boolean, sums: Float64Array): boolean {
  let sum = 0;
  if (!logits) {
    for (let k = 0; k < row.length; k++) {
      if (!(row[k]! >= 0)) return false;
      sums[k] = sum += row[k]!;
    }
    return sum > 0 && sum < Infinity;
  }
  let max = -Infinity;
  for (let k = 0; k < row.length; k++) {
    if (Number.isNaN(row[k]!)) return false;
    if (row[k]! > max) max = row[k]!;
  }
  if (Math.abs(max) === Infinity) return false;
  for (let k = 0; k < row.length; k++) sums[k] = sum += Math.exp(row[k]! - max);
  return true;
}

/** The first place of a running sum above `value`. */
function placeOf(sums: Float64Array, value: number): number {
  let low = 0, high = sums.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sums[middle]! > value) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Writes the drawn places along the rows of the weights; nothing if a row has no distribution. */
export function categorical(call: Call): void {
  const { logits, draws } = call.attributes as CategoricalAttributes;
  const { storage, layout: { offset, shape, size } } = call.operand(1);
  const out = call.outputs[0]!;
  const target = (out.storage.array as Int32Array).subarray(out.layout.offset);
  const length = shape.at(-1)!;
  const rows = size / length;
  const sums = new Float64Array(length);
  if (draws * rows === 0) return;
  const all = (storage.array as Float64Array).subarray(offset, offset + size);
  takeKey(call);
  // In two passes, so that nothing is written if a row is invalid.
  for (const draw of rows === 1 ? [true] : [false, true]) {
    for (let r = 0; r < rows; r++) {
      if (!fillSums(all.subarray(r * length, (r + 1) * length), logits, sums)) {
        call.badIndex = r;
        return;
      }
      if (!draw) continue;
      const total = sums[length - 1]!;
      for (let s = 0; s < draws; s++) {
        const i = s * rows + r;
        selectAlone(i, 0);
        target[i] = placeOf(sums, bits53(2) * 2 ** -53 * total);
      }
    }
  }
}

/** So many times more places than choices are kept in a hash table. */
const FEW = 16;

/**
 * Writes different places below `n`: the first steps of a shuffle of all. Step i takes words 2 i and
 * 2 i + 1 of the input.
 */
export function distinctPlaces(call: Call): void {
  const { n, count } = call.attributes as { readonly n: number; readonly count: number };
  const { storage, layout: { offset } } = call.outputs[0]!;
  const given = call.operand(0);
  const begin = given.layout.offset;
  const random = (given.storage.array as Uint32Array).subarray(begin, begin + 2 * count);
  const target = (storage.array as Int32Array).subarray(offset, offset + count);
  if (FEW * count > n) shuffleAll(target, random, n);
  else shuffleFew(target, random, n);
}

/** The place at which step `i` takes an element of those from `i` on. */
function stepTo(random: Uint32Array, i: number, n: number): number {
  const bits = random[2 * i + 1]! * 2097152 + (random[2 * i]! >>> 11);
  return i + (bits * 2 ** -53 * (n - i) | 0);
}

/** Shuffles an array of all places. */
function shuffleAll(target: Int32Array, random: Uint32Array, n: number): void {
  const all = new Int32Array(n);
  for (let i = 0; i < n; i++) all[i] = i;
  for (let i = 0; i < target.length; i++) {
    const j = stepTo(random, i, n);
    target[i] = all[j]!;
    all[j] = all[i]!;
  }
}

/**
 * Keeps only the places that the shuffle moves, those of the result in it and the others in a hash
 * table.
 */
function shuffleFew(target: Int32Array, random: Uint32Array, n: number): void {
  const count = target.length;
  const bits = Math.max(1, Math.ceil(Math.log2(2 * count + 1)));
  const mask = 2 ** bits - 1;
  // Places plus 1, and what is there now.
  const keys = new Uint32Array(mask + 1), values = new Int32Array(mask + 1);
  for (let i = 0; i < count; i++) target[i] = i;
  for (let i = 0; i < count; i++) {
    const j = stepTo(random, i, n);
    const own = target[i]!;
    if (j < count) {
      target[i] = target[j]!;
      target[j] = own;
      continue;
    }
    let slot = Math.imul(j, 0x9e3779b1) >>> (32 - bits);
    while (keys[slot] !== 0 && keys[slot] !== j + 1) slot = (slot + 1) & mask;
    target[i] = keys[slot] === 0 ? j : values[slot]!;
    keys[slot] = j + 1;
    values[slot] = own;
  }
}

/** Writes the lower triangular factor of a covariance matrix. */
export function covarianceFactor(call: Call): void {
  const { epsilon } = call.attributes as { readonly epsilon: number };
  const { storage, layout: { offset, shape: [n] } } = call.operand(0);
  const a = storage.array as Float64Array;
  const { storage: made, layout } = call.outputs[0]!;
  const d = n!;
  const l = (made.array as Float64Array).subarray(layout.offset, layout.offset + d * d);
  // Variances may differ by many orders of magnitude: all limits are relative to those of the row and
  // the column.
  const deviations = Float64Array.from(
    { length: d },
    (_, i) => Math.sqrt(Math.abs(a[offset + i * d + i]!)),
  );
  const close = Math.max(1e-6, epsilon);
  l.fill(0);
  for (let j = 0; j < d; j++) {
    for (let i = j; i < d; i++) {
      const value = a[offset + i * d + j]!;
      const scale = deviations[i]! * deviations[j]!;
      if (!(Math.abs(value - a[offset + j * d + i]!) <= close * scale)) {
        call.badIndex = j;
        return;
      }
      let sum = value;
      for (let k = 0; k < j; k++) sum -= l[i * d + k]! * l[j * d + k]!;
      if (i === j) {
        if (!(sum >= -close * scale && sum < Infinity)) {
          call.badIndex = j;
          return;
        }
        l[j * d + j] = sum <= epsilon * scale ? 0 : Math.sqrt(sum);
      } else {
        const pivot = l[j * d + j]!;
        if (pivot > 0) l[i * d + j] = sum / pivot;
        else if (Math.abs(sum) > Math.sqrt(close) * scale) {
          call.badIndex = j;
          return;
        }
      }
    }
  }
}

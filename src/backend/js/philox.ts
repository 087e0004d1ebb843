/**
 * Random words, numbers and keys by Philox4x32-10, a counter-based generator: an element depends
 * only on the key and its own position, so any part can be generated anywhere, in any order.
 *
 * Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). A block is four
 * 32-bit words from a 128-bit counter (c0, c1, c2, c3):
 *
 * - word w of a key is lane w % 4 of the block with counter (floor(w / 4), in c0 and c1; 0; 0);
 * - element e of a 32-bit filler uses word e; of a 64-bit filler words 2e (low) and 2e + 1 (high);
 * - c3 = 1 is reserved for keys derived from keys: {@link splitKey}, {@link foldIn};
 * - c3 = 2 and 3 for deviates (deviates.ts), where c2 counts the blocks of an element.
 *
 * Bits, integers and uniforms are the same on every backend. Fillers write `out[0 … count)` with the
 * elements from `start` on. Knows nothing of tensors, dtypes or seeds.
 *
 * @module
 */

/** A generator's key: two uint32. */
export type PhiloxKey = readonly [key0: number, key1: number];

const M0 = 0xd2511f53, M1 = 0xcd9e8d57;
const TWO_NEG_32 = 2 ** -32;

// Words are generated in chunks that fit the first-level cache. A multiple of 8: see `generate`.
const WORDS = new Uint32Array(2048);

// The upper half of a 64-bit product. The double product is off by less than 2^12, and without the
// lower half it is a multiple of 2^32.
function mulHigh(x: number, y: number): number {
  return (((x >>> 0) * (y >>> 0) - (Math.imul(x, y) >>> 0)) * TWO_NEG_32 + 0.5) >>> 0;
}

/**
 * Fills `out` with `blocks` blocks, rounded up to an even number, from a counter on. Two at a time
 * keep the processor busy, as each round of a block waits for the previous round.
 */
export function generate(
  out: Uint32Array,
  blocks: number,
  key0: number,
  key1: number,
  c0: number,
  c1: number,
  c2: number,
  c3: number,
): void {
  for (let at = 0; at < blocks * 4; at += 8) {
    let k0 = key0 | 0, k1 = key1 | 0;
    let a0 = c0 | 0, a1 = c1 | 0, a2 = c2 | 0, a3 = c3 | 0;
    let b0 = (a0 + 1) | 0, b1 = (b0 === 0 ? a1 + 1 : a1) | 0, b2 = a2, b3 = a3;
    c0 = (b0 + 1) | 0;
    c1 = (c0 === 0 ? b1 + 1 : b1) | 0;
    for (let round = 0; round < 10; round++) {
      const ah = mulHigh(M0, a0), bh = mulHigh(M0, b0);
      const al = Math.imul(M0, a0), bl = Math.imul(M0, b0);
      a0 = mulHigh(M1, a2) ^ a1 ^ k0;
      b0 = mulHigh(M1, b2) ^ b1 ^ k0;
      a1 = Math.imul(M1, a2);
      b1 = Math.imul(M1, b2);
      a2 = ah ^ a3 ^ k1;
      b2 = bh ^ b3 ^ k1;
      a3 = al;
      b3 = bl;
      k0 = (k0 + 0x9e3779b9) | 0;
      k1 = (k1 + 0xbb67ae85) | 0;
    }
    out[at] = a0;
    out[at + 1] = a1;
    out[at + 2] = a2;
    out[at + 3] = a3;
    out[at + 4] = b0;
    out[at + 5] = b1;
    out[at + 6] = b2;
    out[at + 7] = b3;
  }
}

/** The block of four words for a key and a counter, all uint32. */
export function philox4x32(
  key0: number,
  key1: number,
  c0: number,
  c1: number,
  c2: number,
  c3: number,
): Uint32Array {
  const out = new Uint32Array(8);
  generate(out, 1, key0, key1, c0, c1, c2, c3);
  return out.subarray(0, 4);
}

// Calls `use` for the words of `count` elements in chunks, `each` words per element, with the
// number of elements done, the chunk's elements, and the index in WORDS of the chunk's first word.
function chunks(
  each: 1 | 2,
  start: number,
  count: number,
  key0: number,
  key1: number,
  use: (done: number, n: number, at: number) => void,
): void {
  for (let done = 0; done < count;) {
    const word = (start + done) * each;
    const block = Math.floor(word / 4);
    const at = word - block * 4;
    const n = Math.min(count - done, Math.floor((WORDS.length - at) / each));
    const blocks = Math.ceil((at + n * each) / 4);
    generate(WORDS, blocks, key0, key1, block, Math.floor(block * TWO_NEG_32), 0, 0);
    use(done, n, at);
    done += n;
  }
}

/** Fills with uniform uint32: word e for element e. */
export function fillBits(
  out: Uint32Array,
  start: number,
  count: number,
  key0: number,
  key1: number,
): void {
  chunks(1, start, count, key0, key1, (done, n, at) => {
    for (let i = 0; i < n; i++) out[done + i] = WORDS[at + i]!;
  });
}

/**
 * Fills with uniform numbers in [0, 1): the word's upper `bits` bits, times 2^-bits. The default 24
 * are exact in float32; float16 takes 11 and bfloat16 8, so that no result rounds up to 1.
 */
export function fillUniform32(
  out: Float32Array | Float64Array,
  start: number,
  count: number,
  key0: number,
  key1: number,
  bits = 24,
): void {
  const shift = 32 - bits, scale = 2 ** -bits;
  chunks(1, start, count, key0, key1, (done, n, at) => {
    for (let i = 0; i < n; i++) out[done + i] = (WORDS[at + i]! >>> shift) * scale;
  });
}

// 53 bits from WORDS: the upper ones of `high * 2^32 + low`.
function bits53(at: number): number {
  return WORDS[at + 1]! * 2097152 + (WORDS[at]! >>> 11);
}

/** Fills with uniform numbers in [0, 1): the upper 53 bits of the element's two words, times 2^-53. */
export function fillUniform64(
  out: Float64Array,
  start: number,
  count: number,
  key0: number,
  key1: number,
): void {
  chunks(2, start, count, key0, key1, (done, n, at) => {
    for (let i = 0; i < n; i++) out[done + i] = bits53(at + 2 * i) * 2 ** -53;
  });
}

const PAIR = new Float64Array(2);

// Box-Muller for u in (0, 1], v in [0, 1): PAIR = sqrt(-2 ln u) * (cos 2πv, sin 2πv). An exact
// rotation by whole quarters leaves at most an eighth; there short polynomials
// (scripts/generate/fit_erf.py) are faster than Math.sin and keep the full relative accuracy.
function normalPair(u: number, v: number): void {
  const radius = Math.sqrt(-2 * Math.log(u));
  const quarter = Math.floor(4 * v + 0.5);
  const g = v - quarter * 0.25;
  const t = g * g;
  let sin = 3.7808689593022957;
  sin = sin * t - 15.093804209987114;
  sin = sin * t + 42.058685020160894;
  sin = sin * t - 76.70585970427454;
  sin = sin * t + 81.60524927594804;
  sin = sin * t - 41.341702240399634;
  sin = sin * t + 6.283185307179586;
  let cos = 7.810290968144191;
  cos = cos * t - 26.42425703488269;
  cos = cos * t + 60.24462008593029;
  cos = cos * t - 85.45681709034115;
  cos = cos * t + 64.93939402236538;
  cos = cos * t - 19.73920880217842;
  cos = cos * t + 1.0;
  sin *= radius * g;
  cos *= radius;
  const swap = (quarter & 1) !== 0;
  const x = swap ? sin : cos, y = swap ? cos : sin;
  PAIR[0] = ((quarter + 1) & 2) !== 0 ? -x : x;
  PAIR[1] = (quarter & 2) !== 0 ? -y : y;
}

/** The first number of the pair that Box-Muller makes of u in (0, 1] and v in [0, 1). */
export function normalOf(u: number, v: number): number {
  normalPair(u, v);
  return PAIR[0]!;
}

/**
 * Fills with standard normal numbers, by Box-Muller from words 2j and 2j + 1 for elements 2j (cosine)
 * and 2j + 1 (sine): u = ((word 2j >>> 8) + 1) * 2^-24, v = (word 2j+1 >>> 8) * 2^-24,
 * sqrt(-2 ln u) * (cos 2πv, sin 2πv). At most 5.77 in size.
 */
export function fillNormal32(
  out: Float32Array | Float64Array,
  start: number,
  count: number,
  key0: number,
  key1: number,
): void {
  chunks(1, start, count, key0, key1, (done, n, at) => {
    for (let i = -(at & 1); i < n; i += 2) {
      normalPair(((WORDS[at + i]! >>> 8) + 1) * 2 ** -24, (WORDS[at + i + 1]! >>> 8) * 2 ** -24);
      if (i >= 0) out[done + i] = PAIR[0]!;
      if (i + 1 < n) out[done + i + 1] = PAIR[1]!;
    }
  });
}

/**
 * Fills with standard normal numbers, by Box-Muller from block j for elements 2j (cosine) and 2j + 1
 * (sine): u = (a + 1) * 2^-53, v = b * 2^-53, with a and b the upper 53 bits of words 0, 1 and of
 * words 2, 3 (low, high). At most 8.5718 in size.
 */
export function fillNormal64(
  out: Float64Array,
  start: number,
  count: number,
  key0: number,
  key1: number,
): void {
  chunks(2, start, count, key0, key1, (done, n, at) => {
    for (let i = -(at >> 1); i < n; i += 2) {
      const word = at + 2 * i;
      normalPair((bits53(word) + 1) * 2 ** -53, bits53(word + 2) * 2 ** -53);
      if (i >= 0) out[done + i] = PAIR[0]!;
      if (i + 1 < n) out[done + i + 1] = PAIR[1]!;
    }
  });
}

// Results are computed into one kind of array: stores to arrays of changing kinds are slow.
const VALUES = new Int32Array(2 * WORDS.length);

/** The arrays that {@link fillIntegers} can fill. */
export type IntegerArray =
  | Int8Array
  | Int16Array
  | Int32Array
  | Uint8Array
  | Uint16Array
  | Uint32Array
  | BigInt64Array
  | BigUint64Array;

/**
 * Fills with integers in [low, high), the same for every dtype: low + the upper half of bits *
 * (high - low), without rejection. Ranges up to 2^16 take word e as bits, larger ones the two words
 * of a 64-bit element. Probabilities are therefore off by a factor of at most 1 ± range / 2^32, or
 * 1 ± range / 2^64: below 2^-16, or below 2^-32 for ranges up to 2^32.
 *
 * The caller has checked that low < high and that the dtype holds low and high - 1.
 */
export function fillIntegers(
  out: IntegerArray,
  start: number,
  count: number,
  key0: number,
  key1: number,
  low: number | bigint,
  high: number | bigint,
): void {
  const base = BigInt(low);
  const range = BigInt(high) - base;
  const baseLow = word(base), baseHigh = word(base >> 32n);
  const wide = out instanceof BigInt64Array || out instanceof BigUint64Array;
  const target = wide ? new Int32Array(out.buffer, out.byteOffset, 2 * count) : out;
  const each = wide ? 2 : 1;
  const put = (i: number, valueLow: number, valueHigh: number): void => {
    const sum = baseLow + valueLow;
    VALUES[each * i] = sum;
    if (wide) VALUES[2 * i + 1] = baseHigh + valueHigh + (sum > 0xffffffff ? 1 : 0);
  };
  const flush = (done: number, n: number): void =>
    target.set(VALUES.subarray(0, each * n), each * done);
  if (range <= 0x10000n) {
    const size = Number(range);
    chunks(1, start, count, key0, key1, (done, n, at) => {
      // The product is exact, as it has 48 bits.
      for (let i = 0; i < n; i++) put(i, Math.floor(WORDS[at + i]! * size * TWO_NEG_32), 0);
      flush(done, n);
    });
    return;
  }
  const everything = range === 2n ** 64n;
  const rangeLow = word(range), rangeHigh = word(range >> 32n);
  chunks(2, start, count, key0, key1, (done, n, at) => {
    for (let i = 0; i < n; i++) {
      const l = WORDS[at + 2 * i]!, h = WORDS[at + 2 * i + 1]!;
      if (everything) {
        put(i, l, h);
        continue;
      }
      // Columns of the schoolbook product of two words by two words; doubles hold their sums.
      const second = mulHigh(l, rangeLow) + (Math.imul(h, rangeLow) >>> 0) +
        (Math.imul(l, rangeHigh) >>> 0);
      const third = Math.floor(second * TWO_NEG_32) + mulHigh(h, rangeLow) + mulHigh(l, rangeHigh) +
        (Math.imul(h, rangeHigh) >>> 0);
      put(i, third >>> 0, mulHigh(h, rangeHigh) + Math.floor(third * TWO_NEG_32));
    }
    flush(done, n);
  });
}

function word(value: bigint): number {
  return Number(BigInt.asUintN(32, value));
}

/**
 * `count` independent keys derived from `key`: key i is words 0 and 1 of the block (i, 0, 0, 1).
 */
export function splitKey(key: PhiloxKey, count: number): PhiloxKey[] {
  return Array.from({ length: count }, (_, i) => childKey(key, BigInt(i), 0));
}

/**
 * A key derived from `key` and a number modulo 2^64: words 0 and 1 of the block (data's low word,
 * its high word, 1, 1). Throws a RangeError for a number that is not an integer.
 */
export function foldIn(key: PhiloxKey, data: number | bigint): PhiloxKey {
  return childKey(key, BigInt(data), 1);
}

function childKey(key: PhiloxKey, data: bigint, c2: number): PhiloxKey {
  const block = philox4x32(key[0], key[1], word(data), word(data >> 32n), c2, 1);
  return [block[0]!, block[1]!];
}

/**
 * Philox4x32-10: Random123's known answers, the documented formulas, statistics, and that any part
 * of a sequence can be generated on its own.
 *
 * @module
 */
import { assert, assertAlmostEquals, assertEquals, assertThrows } from "@std/assert";
import { describe, it } from "node:test";
import {
  fillBits,
  fillIntegers,
  fillNormal32,
  fillNormal64,
  fillUniform32,
  fillUniform64,
  foldIn,
  type IntegerArray,
  philox4x32,
  splitKey,
} from "../../src/backend/js/philox.ts";
import { FLOAT } from "../../src/backend/js/primitives.ts";

const KEY0 = 0x12345678, KEY1 = 0x9abcdef0;

/** Random123's format of words. */
const hex = (words: Iterable<number>): string =>
  [...words].map((w) => w.toString(16).padStart(8, "0")).join(" ");

function bits(count: number, start = 0): Uint32Array {
  const out = new Uint32Array(count);
  fillBits(out, start, count, KEY0, KEY1);
  return out;
}

type Fill = (out: never, start: number, count: number, key0: number, key1: number) => void;
const integers =
  (low: number | bigint, high: number | bigint) =>
  (out: IntegerArray, start: number, count: number, key0: number, key1: number): void =>
    fillIntegers(out, start, count, key0, key1, low, high);

const FILLERS: [name: string, make: (n: number) => ArrayLike<unknown>, fill: Fill][] = [
  ["fillBits", (n) => new Uint32Array(n), fillBits],
  ["fillUniform32", (n) => new Float32Array(n), fillUniform32],
  ["fillUniform64", (n) => new Float64Array(n), fillUniform64],
  ["fillNormal32", (n) => new Float32Array(n), fillNormal32],
  ["fillNormal64", (n) => new Float64Array(n), fillNormal64],
  ["fillIntegers, one word", (n) => new Int8Array(n), integers(-100, 100)],
  ["fillIntegers, two words", (n) => new Int32Array(n), integers(-1e9, 1e9)],
  ["fillIntegers, 64 bits", (n) => new BigInt64Array(n), integers(-(2n ** 62n), 2n ** 62n)],
];

describe("Philox4x32-10", () => {
  it("gives Random123's known answers", () => {
    assertEquals(hex(philox4x32(0, 0, 0, 0, 0, 0)), "6627e8d5 e169c58d bc57ac4c 9b00dbd8");
    const f = 0xffffffff;
    assertEquals(hex(philox4x32(f, f, f, f, f, f)), "408f276d 41c83b0e a20bc7c6 6d5451fd");
    assertEquals(
      hex(
        philox4x32(0xa4093822, 0x299f31d0, 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344),
      ),
      "d16cfe09 94fdcceb 5001e420 24126ea1",
    );
  });
  it("word w is lane w % 4 of block floor(w / 4), beyond 2^32 blocks too", () => {
    for (const start of [0, 1, 2, 3, 2 ** 34 - 6, 2 ** 34 - 3, 2 ** 45 + 1]) {
      const got = bits(12, start);
      for (let i = 0; i < 12; i++) {
        const block = Math.floor((start + i) / 4);
        const words = philox4x32(KEY0, KEY1, block % 2 ** 32, Math.floor(block / 2 ** 32), 0, 0);
        assertEquals(got[i], words[(start + i) % 4]);
      }
    }
  });
  for (const [name, make, fill] of FILLERS) {
    it(`${name} gives the same elements in parts as at once`, () => {
      const n = 5000;
      const whole = make(n), rest = make(n);
      fill(whole as never, 0, n, KEY0, KEY1);
      assert(new Set(Array.from(whole)).size > 100);
      for (const start of [1, 2, 3, 4, 7, 2045, 4999]) {
        fill(rest as never, start, n - start, KEY0, KEY1);
        for (let i = start; i < n; i++) assertEquals(rest[i - start], whole[i]);
        const one = make(1);
        fill(one as never, start, 1, KEY0, KEY1);
        assertEquals(one[0], whole[start]);
      }
    });
    it(`${name} writes count elements and no more`, () => {
      const out = make(8);
      fill(out as never, 3, 5, KEY0, KEY1);
      assertEquals(Array.from(out).slice(5).map(Number), [0, 0, 0]);
      assert(Array.from(out).slice(0, 5).some((v) => Number(v) !== 0));
    });
  }
});

describe("formulas", () => {
  const n = 1000;
  const word = bits(2 * n);
  const word53 = (e: number): number =>
    Number(((BigInt(word[2 * e + 1]!) << 32n) | BigInt(word[2 * e]!)) >> 11n);

  it("uniforms are the upper bits", () => {
    const [u32, u11, u64] = [new Float32Array(n), new Float32Array(n), new Float64Array(n)];
    fillUniform32(u32, 0, n, KEY0, KEY1);
    fillUniform32(u11, 0, n, KEY0, KEY1, 11);
    fillUniform64(u64, 0, n, KEY0, KEY1);
    for (let e = 0; e < n; e++) {
      assertEquals(u32[e], Math.floor(word[e]! / 2 ** 8) / 2 ** 24);
      assertEquals(u11[e], Math.floor(word[e]! / 2 ** 21) / 2 ** 11);
      assertEquals(u64[e], word53(e) / 2 ** 53);
    }
  });
  it("normals are Box-Muller", () => {
    const [n32, n64] = [new Float32Array(n), new Float64Array(n)];
    fillNormal32(n32, 0, n, KEY0, KEY1);
    fillNormal64(n64, 0, n, KEY0, KEY1);
    for (let e = 0; e < n; e++) {
      const first = e - e % 2;
      const turn = e % 2 === 0 ? Math.cos : Math.sin;
      const u = (Math.floor(word[first]! / 256) + 1) / 2 ** 24;
      const v = Math.floor(word[first + 1]! / 256) / 2 ** 24;
      assertAlmostEquals(n32[e]!, Math.sqrt(-2 * Math.log(u)) * turn(2 * Math.PI * v), 1e-6);
      const u64 = (word53(first) + 1) / 2 ** 53;
      const v64 = word53(first + 1) / 2 ** 53;
      assertAlmostEquals(n64[e]!, Math.sqrt(-2 * Math.log(u64)) * turn(2 * Math.PI * v64), 1e-14);
    }
  });
  const RANGES: [low: bigint, high: bigint][] = [
    [0n, 1n],
    [-3n, 7n],
    [0n, 65536n],
    [-40000n, 25537n],
    [-(2n ** 31n), 2n ** 31n],
    [0n, 2n ** 32n - 1n],
    [5n, 2n ** 32n + 6n],
    [-(2n ** 63n), 2n ** 63n - 1n],
    [-(2n ** 63n), 2n ** 63n],
    [-(2n ** 40n) - 1n, 3n * 2n ** 60n + 12345678901n],
  ];
  for (const [low, high] of RANGES) {
    it(`integers in [${low}, ${high}) are the upper half of bits * range`, () => {
      const out = new BigInt64Array(n);
      fillIntegers(out, 0, n, KEY0, KEY1, low, high);
      const range = high - low;
      for (let e = 0; e < n; e++) {
        const expected = range <= 65536n
          ? (BigInt(word[e]!) * range) >> 32n
          : (((BigInt(word[2 * e + 1]!) << 32n) | BigInt(word[2 * e]!)) * range) >> 64n;
        assertEquals(out[e], low + expected);
      }
    });
  }
  it("integers do not depend on the dtype", () => {
    const wide = new BigInt64Array(n), unsigned = new BigUint64Array(n);
    for (
      const [narrow, low, high] of [
        [new Int8Array(n), -128, 128],
        [new Uint8Array(n), 10, 250],
        [new Int16Array(n), -32768, 32767],
        [new Uint16Array(n), 0, 65536],
        [new Int32Array(n), -2147483648, 2147483647],
        [new Uint32Array(n), 7, 4294967296],
      ] as const
    ) {
      fillIntegers(narrow, 0, n, KEY0, KEY1, low, high);
      fillIntegers(wide, 0, n, KEY0, KEY1, BigInt(low), BigInt(high));
      assertEquals(Array.from(narrow, BigInt), Array.from(wide));
    }
    fillIntegers(unsigned, 0, n, KEY0, KEY1, 0n, 2n ** 64n);
    const pairs = new BigUint64Array(word.buffer);
    assertEquals(unsigned, pairs);
  });
});

/** The largest distance between the sample's distribution function and `cdf`, times sqrt(n). */
function kolmogorovSmirnov(
  sample: Float32Array | Float64Array,
  cdf: (x: number) => number,
): number {
  const sorted = sample.slice().sort();
  const n = sorted.length;
  let distance = 0;
  sorted.forEach((x, i) => {
    distance = Math.max(distance, Math.abs(cdf(x) - i / n), Math.abs(cdf(x) - (i + 1) / n));
  });
  return distance * Math.sqrt(n);
}

function moments(sample: Float32Array | Float64Array): [number, number, number, number] {
  const mean = (f: (x: number) => number): number => {
    let sum = 0;
    for (const x of sample) sum += f(x);
    return sum / sample.length;
  };
  const m = mean((x) => x);
  const sd = Math.sqrt(mean((x) => (x - m) ** 2));
  return [m, sd, mean((x) => ((x - m) / sd) ** 3), mean((x) => ((x - m) / sd) ** 4)];
}

describe("statistics", () => {
  const n = 100_000;
  // 1.95 has a probability of 0.1%; keys are fixed, so the outcome is too.
  const critical = 1.95;
  for (const make of [(k: number) => new Float32Array(k), (k: number) => new Float64Array(k)]) {
    const sample = make(n);
    const single = sample instanceof Float32Array;
    it(`uniforms of ${single ? 32 : 64} bits are uniform`, () => {
      if (single) fillUniform32(sample, 0, n, KEY0, KEY1);
      else fillUniform64(sample, 0, n, KEY0, KEY1);
      assert(sample.every((x) => x >= 0 && x < 1));
      assert(kolmogorovSmirnov(sample, (x) => x) < critical);
      const [mean, sd] = moments(sample);
      assertAlmostEquals(mean, 0.5, 0.004);
      assertAlmostEquals(sd, Math.sqrt(1 / 12), 0.003);
    });
    it(`normals of ${single ? 32 : 64} bits are normal, neighbours uncorrelated`, () => {
      if (single) fillNormal32(sample, 0, n, KEY0, KEY1);
      else fillNormal64(sample, 0, n, KEY0, KEY1);
      assert(kolmogorovSmirnov(sample, (x) => 0.5 * (1 + FLOAT.erf!(x * Math.SQRT1_2))) < critical);
      const [mean, sd, skewness, kurtosis] = moments(sample);
      assertAlmostEquals(mean, 0, 0.013);
      assertAlmostEquals(sd, 1, 0.01);
      assertAlmostEquals(skewness, 0, 0.03);
      assertAlmostEquals(kurtosis, 3, 0.06);
      for (const lag of [1, 2, 3, 4]) {
        let sum = 0;
        for (let i = lag; i < n; i++) sum += sample[i]! * sample[i - lag]!;
        assertAlmostEquals(sum / n, 0, 0.013);
      }
    });
  }
  it("integers are even over small and large ranges", () => {
    const out = new Int32Array(n);
    for (const [low, high] of [[-3, 7], [0, 3 * 2 ** 29]] as const) {
      fillIntegers(out, 0, n, KEY0, KEY1, low, high);
      const counts = new Float64Array(10);
      // The remainder too: a range near that of the bits would favour some.
      const remainders = new Float64Array(3);
      for (const v of out) {
        assert(v >= low && v < high);
        counts[Math.floor((v - low) / (high - low) * 10)]!++;
        remainders[(v - low) % 3]!++;
      }
      for (const c of counts) assertAlmostEquals(c, n / 10, 400);
      if (high > 7) { for (const c of remainders) assertAlmostEquals(c, n / 3, 650); }
    }
  });
});

describe("keys", () => {
  it("are words 0 and 1 of their reserved blocks", () => {
    const [zero, one] = splitKey([KEY0, KEY1], 2);
    assertEquals(zero, [...philox4x32(KEY0, KEY1, 0, 0, 0, 1).slice(0, 2)] as [number, number]);
    assertEquals(one, [...philox4x32(KEY0, KEY1, 1, 0, 0, 1).slice(0, 2)] as [number, number]);
    const folded = foldIn([KEY0, KEY1], 2n ** 33n + 5n);
    assertEquals(folded, [...philox4x32(KEY0, KEY1, 5, 2, 1, 1).slice(0, 2)] as [number, number]);
  });
  it("differ from each other and from the parent's words", () => {
    const parent = [KEY0, KEY1] as const;
    const keys = [
      ...splitKey(parent, 500),
      ...Array.from({ length: 500 }, (_, i) => foldIn(parent, i)),
      ...Array.from({ length: 500 }, (_, i) => philox4x32(KEY0, KEY1, i, 0, 0, 0)),
    ];
    assertEquals(new Set(keys.map((k) => `${k[0]} ${k[1]}`)).size, 1500);
    assertEquals(splitKey(parent, 3), splitKey(parent, 500).slice(0, 3));
  });
  it("foldIn takes any integer modulo 2^64, and nothing else", () => {
    assertEquals(foldIn([1, 2], -1), foldIn([1, 2], 2n ** 64n - 1n));
    assertThrows(() => foldIn([1, 2], 0.5), RangeError);
  });
});

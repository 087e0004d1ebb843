/**
 * The js backend's scalar primitives: floats against tests/golden/primitives.json (made by
 * scripts/golden/primitives.py), integers against bigint arithmetic.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import {
  BIG,
  FLOAT,
  floordivToHalf,
  INT,
  shortFloordiv,
  shortMod,
  WIDE,
} from "../../src/backend/js/primitives.ts";
import * as rm from "../../mod.ts";
import { f16Table, toF16 } from "../../src/base/half.ts";

type Column = (number | "nan" | "inf" | "-inf")[];
interface Golden {
  unary: Record<string, [x: Column, result: Column]>;
  binary: Record<string, [x: Column, y: Column, result: Column]>;
  special: Record<string, Column>;
  grid: [x: Column, y: Column];
}

const golden: Golden = JSON.parse(
  readFileSync(new URL("../golden/primitives.json", import.meta.url), "utf8"),
);
const column = (values: Column): number[] =>
  values.map((v) => v === "nan" ? NaN : v === "inf" ? Infinity : v === "-inf" ? -Infinity : v);

const f64 = new Float64Array(1);
const i64 = new BigInt64Array(f64.buffer);

/** Doubles in order, ±0 next to each other. */
function ordinal(x: number): bigint {
  f64[0] = x;
  return i64[0]! < 0n ? -1n - (i64[0]! & 0x7fff_ffff_ffff_ffffn) : i64[0]!;
}

function ulpsApart(actual: number, expected: number): number {
  if (Object.is(actual, expected)) return 0;
  if (Number.isNaN(actual) || Number.isNaN(expected)) return Infinity;
  return Math.abs(Number(ordinal(actual) - ordinal(expected)));
}

/** Largest error in ulp; primitives without an entry are exact, to the sign of zero. */
const ULP: Record<string, number> = {
  exp: 1,
  expm1: 1,
  exp2: 1,
  log: 1,
  log1p: 1,
  log2: 1,
  log10: 1,
  sin: 1,
  cos: 1,
  tan: 1,
  asin: 1,
  acos: 1,
  atan: 1,
  sinh: 2,
  cosh: 2,
  tanh: 2,
  asinh: 2,
  acosh: 2,
  atanh: 2,
  erf: 2,
  sigmoid: 2,
  silu: 2,
  gelu: 4,
  pow: 1,
  atan2: 1,
  hypot: 1,
  logaddexp: 2,
};

function check(name: string, args: number[], expected: number): void {
  const actual = FLOAT[name]!(...args);
  const call = `${name}(${args.join(", ")}): got ${actual}, expected ${expected}`;
  if (name === "logaddexp" && Number.isFinite(expected)) {
    const scale = Math.max(...args.map(Math.abs), Math.abs(expected));
    assert(Math.abs(actual - expected) <= ULP.logaddexp! * 2 ** -52 * scale, call);
    return;
  }
  // Of two equal zeros, maximum and minimum may give either.
  if (/^m..imum$/.test(name) && expected === 0) return assertEquals(actual + 0, 0, call);
  // A zero has the right sign, unless it is an underflow.
  const underflow = args.every((v) => Number.isFinite(v) && v !== 0);
  const bound = expected === 0 && !underflow ? 0 : ULP[name] ?? 0;
  const ulps = ulpsApart(actual, expected);
  assert(ulps <= bound, `${call}, ${ulps} ulp`);
}

describe("float primitives", () => {
  for (const [name, [x, result]] of Object.entries(golden.unary)) {
    it(`${name} is within ${ULP[name] ?? 0} ulp`, () => {
      const expected = column(result);
      column(x).forEach((v, i) => check(name, [v], expected[i]!));
    });
  }
  for (const [name, [x, y, result]] of Object.entries(golden.binary)) {
    it(`${name} is within ${ULP[name] ?? 0} ulp`, () => {
      const [xs, ys, expected] = [column(x), column(y), column(result)];
      xs.forEach((v, i) => check(name, [v, ys[i]!], expected[i]!));
    });
  }
  const [gridX, gridY] = [column(golden.grid[0]), column(golden.grid[1])];
  for (const [name, result] of Object.entries(golden.special)) {
    it(`${name} answers zeros, infinities, NaN and extremes as NumPy does`, () => {
      const expected = column(result);
      gridX.forEach((v, i) => check(name, [v, gridY[i]!], expected[i]!));
    });
  }
  // JavaScriptCore multiplies, and rounds each product; exact powers of doubles are rounded once.
  it("pow with integer exponents is within 1 ulp of the exact power", () => {
    for (const x of [1.0001, 1.001, 0.999, 1.1, 0.7, -3.3, 10, 3]) {
      // x = digits / 2 ** 53, exactly.
      const digits = BigInt(x * 2 ** 53), bits = 53n;
      for (const n of [3, 7, 10, 33, 50, 101, 307, 500, 999]) {
        const size = Math.abs(Math.pow(x, n));
        if (size < 1e-280 || size > 1e290) continue;
        const power = digits ** BigInt(n), places = bits * BigInt(n);
        // 100 bits more than the result has are enough to round it.
        const shift = BigInt(Math.ceil(Math.log2(size))) - 100n;
        const exact = Number(power >> (places + shift)) * 2 ** Number(shift);
        check("pow", [x, n], exact);
      }
    }
  });
  it("every primitive has golden values", () => {
    const covered = { ...golden.unary, ...golden.binary };
    // Special functions are ops of their own, which tests/ops/table_test.ts compares with mpmath.
    const missing = Object.keys(FLOAT).filter((name) =>
      !(name in covered) && !(name in rm.special && name !== "erf")
    );
    assertEquals(missing, ["nextafterb16"]);
  });
  it("nextafterb16 and nextafter16 step through every value", () => {
    const word = new Uint32Array(1);
    const asFloat = new Float32Array(word.buffer);
    const bfloat16 = (bits: number): number => {
      word[0] = bits << 16;
      return asFloat[0]!;
    };
    const float16 = (bits: number): number => {
      const [e, m] = [bits >> 10, bits & 1023];
      return e === 31 ? Infinity : e === 0 ? m * 2 ** -24 : (1024 + m) * 2 ** (e - 25);
    };
    for (
      const [next, value, infinity] of [
        [FLOAT.nextafterb16!, bfloat16, 0x7f80],
        [FLOAT.nextafter16!, float16, 0x7c00],
      ] as const
    ) {
      for (let bits = 0; bits < infinity; bits++) {
        const [low, high] = [value(bits), value(bits + 1)];
        assertEquals(next(low, Infinity), high);
        assertEquals(next(high, -Infinity), low);
        assertEquals(next(-low, -Infinity), -high);
        assertEquals(next(-high, Infinity), -low);
      }
      assertEquals(next(0, -1), -value(1));
      assertEquals(next(1, 1), 1);
      assert(Object.is(next(0, -0), -0));
      assertEquals(next(NaN, 1), NaN);
      assertEquals(next(1, NaN), NaN);
    }
  });
  it("pow of integers is exact where the result is", () => {
    for (let x = 2; x <= 20; x++) {
      for (let y = 0; x ** y < 2 ** 53; y++) {
        assertEquals(FLOAT.pow!(-x, y), Number((-BigInt(x)) ** BigInt(y)));
      }
    }
    assertEquals(FLOAT.pow!(1.5, 20), 3486784401 / 1048576);
  });
});

/** The results required of every regime, in exact arithmetic. */
const EXACT: Record<string, (x: bigint, y: bigint, bits: bigint) => bigint> = {
  ifloordiv: (x, y) => y === 0n ? 0n : (x - EXACT.imod!(x, y, 0n)) / y,
  imod: (x, y) => y === 0n ? 0n : ((x % y) + y) % y,
  irem: (x, y) => y === 0n ? 0n : x % y,
  igcd: (x, y) => y === 0n ? (x < 0n ? -x : x) : EXACT.igcd!(y, x % y, 0n),
  ilcm: (x, y) => {
    const product = x * y;
    return product === 0n ? 0n : (product < 0n ? -product : product) / EXACT.igcd!(x, y, 0n);
  },
  ipow: (x, y) => {
    if (y >= 0n) return powMod64(x, y);
    return x === 1n || x === -1n ? x ** (-y % 2n) : 0n;
  },
  shl: (x, n, bits) => n < 0n || n >= bits ? 0n : x * 2n ** n,
  shr: (x, n, bits) => n < 0n || n >= bits ? 0n : (x - EXACT.imod!(x, 2n ** n, 0n)) / 2n ** n,
};

/** By recursion, unlike the loops under test; a small power is exact, a large one modulo 2^64. */
function powMod64(x: bigint, y: bigint): bigint {
  if (x * x === 1n) return x ** (y % 2n);
  if (y <= 128n && (x < 2n ** 32n && x > -(2n ** 32n))) return x ** y;
  if (y <= 1n) return y === 0n ? 1n : x;
  if (y % 2n === 1n) return BigInt.asUintN(64, x * powMod64(x, y - 1n));
  return powMod64(BigInt.asUintN(64, x * x), y / 2n);
}

function integers(bits: number, signed: boolean): fc.Arbitrary<bigint> {
  const [min, max] = signed
    ? [-(2n ** BigInt(bits - 1)), 2n ** BigInt(bits - 1) - 1n]
    : [0n, 2n ** BigInt(bits) - 1n];
  return fc.oneof(
    fc.bigInt({ min, max }),
    fc.bigInt({ min: min < -70n ? -70n : min, max: max < 70n ? max : 70n }),
    fc.constantFrom(min, max),
  );
}

const ARGS: Record<string, number> = { shl: 3, shr: 3 };

describe("integer primitives", () => {
  for (const name of Object.keys(EXACT)) {
    for (const bits of [8, 16, 32]) {
      for (const signed of [true, false]) {
        it(`INT.${name} is right modulo 2^${bits}, ${signed ? "signed" : "unsigned"}`, () => {
          fc.assert(
            fc.property(integers(bits, signed), integers(bits, signed), (x, y) => {
              const args = [Number(x), Number(y), bits].slice(0, ARGS[name] ?? 2);
              const actual = INT[name]!(...args);
              const expected = EXACT[name]!(x, y, BigInt(bits));
              assertEquals(
                BigInt.asUintN(bits, BigInt(actual)),
                BigInt.asUintN(bits, expected),
                `${name}(${args})`,
              );
            }),
            { seed: 1, numRuns: 300 },
          );
        });
      }
    }
    for (const signed of [true, false]) {
      const words = integers(54, true).map((v) => {
        const safe = v > 2n ** 53n - 1n ? 2n ** 53n - 1n : v <= -(2n ** 53n) ? 1n - 2n ** 53n : v;
        return signed || safe > 0n ? safe : -safe;
      });
      it(`WIDE.${name} is exact or not safe, ${signed ? "signed" : "unsigned"}`, () => {
        let exact = 0;
        fc.assert(
          fc.property(words, words, (x, y) => {
            const args = [Number(x), Number(y), 64].slice(0, ARGS[name] ?? 2);
            const actual = WIDE[name]!(...args);
            const expected = EXACT[name]!(x, y, 64n);
            const fits = Number.isSafeInteger(Number(expected)) &&
              BigInt(Number(expected)) === expected;
            // A huge power may fit modulo 2^64, by accident.
            const overflows = name === "ipow" && Math.abs(Number(x)) ** Number(y) >= 2 ** 53;
            if (Number.isSafeInteger(actual)) {
              exact++;
              assertEquals(BigInt(actual), expected, `${name}(${args})`);
            } else {
              assert(!fits || overflows, `${name}(${args}) gave up on ${expected}`);
            }
          }),
          { seed: 2, numRuns: 500 },
        );
        assert(exact > 50);
      });
      it(`BIG.${name} is right modulo 2^64, ${signed ? "signed" : "unsigned"}`, () => {
        fc.assert(
          fc.property(integers(64, signed), integers(64, signed), (x, y) => {
            const args = [x, y, 64n].slice(0, ARGS[name] ?? 2);
            assertEquals(
              BigInt.asUintN(64, BigInt(BIG[name]!(...args))),
              BigInt.asUintN(64, EXACT[name]!(x, y, 64n)),
              `${name}(${args})`,
            );
          }),
          { seed: 3, numRuns: 300 },
        );
      });
    }
  }
  it("all regimes have the same primitives, and each is tested", () => {
    for (const regime of [INT, WIDE, BIG]) {
      assertEquals(Object.keys(regime).sort(), Object.keys(EXACT).sort());
    }
  });
  it("never give -0", () => {
    for (const regime of [INT, WIDE]) {
      assert(Object.is(regime.ifloordiv!(0, -5), 0));
      assert(Object.is(regime.imod!(-4, 2), 0));
    }
  });
});

describe("the short forms give what the general ones do", () => {
  const half = f16Table();
  const special = [0, 0x8000, 1, 0x8001, 0x3c00, 0xbc00, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00];
  const random = Array.from({ length: 60 }, (_, i) => (i * 40503 + 977) & 0xffff);
  it("floordivToHalf of every float16 by 71 others", () => {
    for (const y of [...special, ...random].map((bits) => half[bits]!)) {
      for (let bits = 0; bits < 65536; bits++) {
        const x = half[bits]!;
        const actual = floordivToHalf(x, y);
        if (actual !== toF16(FLOAT.ffloordiv!(x, y))) assertEquals([x, y, half[actual]], []);
      }
    }
  });
  it("shortFloordiv and shortMod of float32", () => {
    const f32 = fc.oneof(fc.float(), fc.integer({ min: -9, max: 9 }));
    fc.assert(
      fc.property(f32, f32, (x, y) => {
        assertEquals(Math.fround(shortFloordiv(x, y)), Math.fround(FLOAT.ffloordiv!(x, y)));
        assertEquals(Math.fround(shortMod(x, y)), Math.fround(FLOAT.fmod!(x, y)));
      }),
      { seed: 4, numRuns: 3000 },
    );
  });
});

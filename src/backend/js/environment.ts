/**
 * The names available to generated loops: primitives, casts of 64-bit integers, scratch memory.
 *
 * Knows nothing of loops or plans.
 *
 * @module
 */
import { DTYPE, type DType } from "../../base/dtype.ts";
import {
  bf16Table,
  f16Table,
  resultToBf16,
  resultToHalf,
  roundBf16,
  roundHalf,
  toBf16,
  toF16,
} from "../../base/half.ts";
import type { MapOp } from "../../table/op.ts";
import { exprFor } from "../../table/table.ts";
import type { TypedArray } from "../../base/dtype.ts";
import { evaluator, nextafterFor } from "./interpret.ts";
import { FLOAT, floordivToHalf, INT, pick, shortFloordiv, shortMod, WIDE } from "./primitives.ts";

/** A generated loop: the plan's numbers, the output and up to three inputs. */
export type Loop = (
  plan: Float64Array,
  out: TypedArray,
  a: TypedArray,
  b: TypedArray | null,
  c: TypedArray | null,
) => void;

/** The number of columns for which a reduction across rows keeps accumulators. */
export const COLUMNS = 256;
const words = new Int32Array(2);

/** The high word of the product of two unsigned words, in integer arithmetic only. */
export function mulHigh(x: number, y: number): number {
  const { imul } = Math;
  const xl = x & 0xffff, xh = x >>> 16, yl = y & 0xffff, yh = y >>> 16;
  const p = imul(xh, yl), q = imul(xl, yh);
  const carry = (imul(xl, yl) >>> 16) + (p & 0xffff) + (q & 0xffff);
  return (imul(xh, yh) + (p >>> 16) + (q >>> 16) + (carry >>> 16)) | 0;
}

/** The high word of an integer-valued number below 2^64 in magnitude. */
function highWord(x: number): number {
  return Math.floor(x / 4294967296) | 0;
}

/**
 * The float64 nearest to a 64-bit integer, or one that rounds to the same float32: bits beyond the
 * 53rd are combined into one sticky bit, so that double rounding equals single rounding.
 */
function sticky(high: number, low: number): number {
  const unsignedLow = low >>> 0;
  if (high >= -2097152 && high < 2097152) return high * 4294967296 + unsignedLow;
  const rest = unsignedLow & 0xfff;
  return high * 4294967296 + (unsignedLow - rest) + (rest === 0 ? 0 : 2048);
}

/** Floats to int64 saturate; {@link wordsOf} handles limits that a double cannot represent. */
function saturateI64(x: number): number {
  return x >= 9223372036854775808
    ? NaN
    : x > -9223372036854775808
    ? Math.trunc(x) || 0
    : x !== x
    ? 0
    : -9223372036854775808;
}

function saturateU64(x: number): number {
  return x >= 18446744073709551616 ? Infinity : x > 0 ? Math.trunc(x) : 0;
}

/**
 * Whether 32-bit values are used unconverted: faster in V8, slower in JavaScriptCore, because of the
 * mix of types.
 */
const SHORT_FIRST = !("Bun" in globalThis);

const NAMES = {
  min: Math.min,
  trunc: Math.trunc,
  fround: Math.fround,
  imul: Math.imul,
  pick,
  shortFloordiv,
  shortMod,
  floordivToHalf,
  mulHigh,
  // NaN and Infinity stand for the largest int64 and uint64, which no double equals.
  lowWord: (x: number): number => x - x === 0 ? x | 0 : -1,
  highWord: (x: number): number => x - x === 0 ? highWord(x) : x === Infinity ? -1 : 0x7fffffff,
  saturateI64,
  saturateU64,
  i64ToF32: SHORT_FIRST
    ? (low: number, high: number): number => high === low >> 31 ? low : sticky(high, low)
    : (low: number, high: number): number => sticky(high, low),
  u64ToF32: SHORT_FIRST
    ? (low: number, high: number): number => high === 0 ? low >>> 0 : sticky(high >>> 0, low)
    : (low: number, high: number): number => sticky(high >>> 0, low),
  words,
  sums: new Float64Array(COLUMNS),
  errors: new Float64Array(COLUMNS),
  lanes: new Float64Array(8),
  low: new Int32Array(COLUMNS),
  high: new Int32Array(COLUMNS),
  // After an infinity the error terms are NaN, and the plain sum is correct.
  corrected: (sum: number, error: number): number => error - error === 0 ? sum + error : sum,
  resultToBf16,
  resultToHalf,
  toBf16,
  toF16,
  roundHalf,
  roundBf16,
};

let names: Record<string, unknown> | undefined;

/** All names available to generated loops. */
export function environment(): Record<string, unknown> {
  if (names !== undefined) return names;
  names = {
    ...{ ...INT, ...FLOAT, ...NAMES },
    // Tables take milliseconds to make, and few programs have halves.
    get half() {
      return f16Table();
    },
    get bf16() {
      return bf16Table();
    },
  };
  for (const [name, f] of Object.entries(WIDE)) names[`${name}Wide`] = f;
  for (const dtype of ["float16", "bfloat16", "float32", "float64"] as const) {
    names[`nextafter_${dtype}`] = nextafterFor(dtype);
  }
  return names;
}

/**
 * The BigInt form of a map on a 64-bit dtype, for elements that numbers cannot compute: takes the
 * operands' words and writes the result's to `words`.
 */
export function slowFunction(op: MapOp, dtype: DType): (...operands: number[]) => void {
  const { kind } = DTYPE[dtype];
  const f = evaluator(exprFor(op, kind), dtype);
  const join = (low: number, high: number): bigint => {
    const bits = (BigInt(high >>> 0) << 32n) | BigInt(low >>> 0);
    return kind === "i" ? BigInt.asIntN(64, bits) : bits;
  };
  return (...operands) => {
    const env: Record<string, bigint> = {};
    for (let k = 0; 2 * k < operands.length; k++) {
      env["xyz"[k]!] = join(operands[2 * k]!, operands[2 * k + 1]!);
    }
    const bits = BigInt.asUintN(64, f(env) as bigint);
    words[0] = Number(bits & 0xffffffffn);
    words[1] = Number(bits >> 32n);
  };
}

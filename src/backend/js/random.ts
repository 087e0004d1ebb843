/**
 * Random tensors in JavaScript: converts Philox words to each dtype.
 *
 * Knows storages; the generator itself is in philox.ts.
 *
 * @module
 */
import { toBf16, toF16 } from "../../base/half.ts";
import type { Call } from "../../table/op.ts";
import type { RandomAttributes } from "../../ops/random/op.ts";
import {
  fillBits,
  fillIntegers,
  fillNormal32,
  fillNormal64,
  fillUniform32,
  fillUniform64,
  type IntegerArray,
} from "./philox.ts";

/** The number of random bits in a uniform of each dtype, so that none rounds up to 1. */
const BITS: Record<string, number> = { float16: 11, bfloat16: 8, float32: 24 };

/** Fills the input with random numbers. */
export function random(call: Call): void {
  const { distribution: kind, key: [key0, key1], low, high } = call.attributes as RandomAttributes;
  const out = call.operand(0).storage;
  const { array, info } = out;
  const n = array.length;
  if (kind === "bits") return fillBits(array as Uint32Array, 0, n, key0, key1);
  if (kind === "integers") {
    return fillIntegers(array as IntegerArray, 0, n, key0, key1, low, high);
  }
  if (info.name === "float64") {
    const fill = kind === "uniform" ? fillUniform64 : fillNormal64;
    return fill(array as Float64Array, 0, n, key0, key1);
  }
  const floats = info.bytes === 4 ? array as Float32Array : new Float32Array(n);
  if (kind === "normal") fillNormal32(floats, 0, n, key0, key1);
  else fillUniform32(floats, 0, n, key0, key1, BITS[info.name]);
  if (info.bytes === 4) return;
  const round = info.name === "float16" ? toF16 : toBf16;
  for (let i = 0; i < n; i++) array[i] = round(floats[i]!);
}

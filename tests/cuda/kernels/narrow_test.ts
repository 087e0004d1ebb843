/**
 * Functions of all 16-bit floats on CUDA, which uses approximations, compared with the CPU: they
 * differ by a unit in the last place at most, and not in infinities, NaN or signs of zero.
 *
 * @module
 */
import { assert } from "@std/assert";
import { test } from "node:test";
import { tensor } from "../../../mod.ts";
import { NARROW } from "../../../src/backend/cuda/source/text.ts";
import { openCudaForTests, whyNoCuda } from "../support/device.ts";
import { show, spacing } from "../../ops/table/compare.ts";

/** Every float of a dtype with `mantissa` bits of its 16, by its bits. */
function everyFloat(mantissa: number): Float32Array {
  const exponents = 2 ** (15 - mantissa), units = 2 ** mantissa;
  return Float32Array.from({ length: 65536 }, (_, bits) => {
    const sign = bits < 32768 ? 1 : -1;
    const exponent = Math.floor(bits % 32768 / units), rest = bits % units;
    if (exponent === exponents - 1) return rest === 0 ? sign * Infinity : NaN;
    const size = exponent === 0 ? rest / units : 1 + rest / units;
    return sign * size * 2 ** (Math.max(exponent, 1) - (exponents / 2 - 1));
  });
}

const reason = whyNoCuda();
if (reason !== undefined) test(`16-bit floats on CUDA (${reason})`, { skip: true }, () => {});
else {
  openCudaForTests();
  for (const [dtype, mantissa] of [["float16", 10], ["bfloat16", 7]] as const) {
    test(`functions of every ${dtype}: what CUDA and the CPU give is the same, or neighbors`, () => {
      const floats = everyFloat(mantissa);
      const x = tensor(floats, { dtype }), there = x.to("cuda");
      for (const name of NARROW as ReadonlySet<"exp">) {
        const expected = x[name]().astype("float32").toTypedArray();
        const actual = there[name]().astype("float32").to("cpu").toTypedArray();
        for (let i = 0; i < floats.length; i++) {
          const [a, e] = [actual[i]!, expected[i]!];
          if (Object.is(a, e)) continue;
          const near = a !== e && Math.abs(a - e) <= spacing(e, dtype);
          assert(near, `${name} of ${show(floats[i]!)} is ${show(a)}, expected ${show(e)}`);
        }
      }
    });
  }
}

/**
 * The C of integer ops on CUDA devices: no operator that could overflow a signed integer.
 *
 * NVRTC assumes that there is no overflow, which the emulator's compiler does not.
 *
 * @module
 */
import { assert } from "@std/assert";
import { test } from "node:test";
import { mapSource } from "../../../src/backend/cuda/source/mod.ts";
import { computeOf, takes } from "../../../src/table/infer.ts";
import { MAP } from "../../../src/table/table.ts";

/** Ops of which no operand can overflow: x − x % y is between 0 and x. */
const BOUNDED: ReadonlySet<string> = new Set(["truncDivide"]);

/** An operator on operands that C may promote to int or keep as a signed type. */
const OVERFLOWS = /[\w)] [-+*] [\w(]|\(-/;

test("signed integers are negated by a function that wraps, and otherwise computed as unsigned ones", () => {
  let [checked, wrapping] = [0, 0];
  for (const row of Object.values(MAP)) {
    for (const dtype of ["int8", "int16", "int32", "int64"] as const) {
      // Functions of integers are computed as floats, after a cast.
      if (!takes(row, dtype) || computeOf(row, dtype) !== dtype) continue;
      const { text } = mapSource(row, dtype, dtype, false);
      const [, work] = /apply\((\w+) x/.exec(text)!;
      checked++;
      if (/uint(32|64)_t|float|double/.test(work!) || BOUNDED.has(row.name)) continue;
      const body = /return (.*);/.exec(text)![1]!;
      assert(!OVERFLOWS.test(body), `${row.name} of ${dtype}: ${body}`);
      if (body.includes("rm_negate")) wrapping++;
    }
  }
  assert(checked > 80 && wrapping > 0, `${checked} ops, ${wrapping} negate`);
});

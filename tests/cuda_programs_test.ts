/**
 * What users write, on a CUDA device: programs for every kind of function beside what they give on
 * the CPU, norms, moving, reading, errors. The device is the emulator's, or a real one.
 *
 * @module
 */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { describe, it, test } from "node:test";
import {
  type DType,
  emptyPool,
  finfo,
  IndexError,
  info,
  memory,
  ones,
  scope,
  synchronize,
  tensor,
  zeros,
} from "../mod.ts";
import { demo } from "../examples/digits/main.ts";
import { JsBackend } from "../src/backends/js/backend.ts";
import { openCudaForTests, whyNoCuda } from "./cuda/device.ts";
import { NORM_TESTS } from "./device/norms.ts";
import { type Program, PROGRAMS, siteOn, told } from "./device/programs.ts";
import { iota, loose } from "./support.ts";
import { using } from "./table/backends.ts";

const CUDA = "cuda";
const js = new JsBackend();

/** Throws unless `actual` is `expected`, floats of `dtype` within a few units in the last place. */
function assertNear(actual: unknown, expected: unknown, dtype: DType | undefined): void {
  if (Array.isArray(expected)) {
    assert(Array.isArray(actual));
    assertEquals(actual.length, expected.length);
    expected.forEach((one, i) => assertNear(actual[i], one, dtype));
  } else if (typeof expected === "object" && expected !== null && "dtype" in expected) {
    const [made, wanted] = [loose(actual), loose(expected)];
    assertEquals({ ...made, elements: 0 }, { ...wanted, elements: 0 });
    assertNear(made.elements, wanted.elements, wanted.dtype);
  } else if (typeof expected === "number" && dtype !== undefined && /float/.test(dtype)) {
    const units = 6 * finfo(dtype as "float32").eps;
    if (Object.is(actual, expected)) return;
    const off = Math.abs(Number(actual) - expected);
    assert(off <= units * Math.max(1e-3, Math.abs(expected)), `${actual}, not ${expected}`);
  } else assertEquals(actual, expected);
}

/** Throws unless `program` gives on the device what it gives on the CPU. */
function compare(program: Program): void {
  const expected = using(js, () => told(program(siteOn("cpu")), "cpu"));
  assertNear(told(program(siteOn(CUDA)), CUDA), expected, undefined);
}

const reason = whyNoCuda();
if (reason !== undefined) test(`programs on CUDA (${reason})`, { skip: true }, () => {});
else {
  openCudaForTests();
  for (const [about, programs] of Object.entries(PROGRAMS)) {
    describe(`on CUDA: ${about}`, () => {
      for (const [name, program] of Object.entries(programs)) it(name, () => compare(program));
    });
  }
  describe("on CUDA: norms", () => {
    for (const [name, run] of Object.entries(NORM_TESTS)) {
      it(name, () => run((check) => using(CUDA, () => check(CUDA))));
    }
  });
}

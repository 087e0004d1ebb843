/**
 * docs/coverage.md says of each name of the array API standard whether the library follows it: what the
 * standard requires of special values, and what the library gives.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { test } from "node:test";
import { readText } from "../../scripts/tools.ts";
import { fromBuffer, info, setBackend, type Tensor, tensor } from "../../mod.ts";

type Numbers = readonly number[];
type Free = Tensor<"float32" | "int32">;

const floats = (values: Numbers) => tensor([...values]).asDynamic() as Free;
const ints = (values: Numbers) => tensor([...values], { dtype: "int32" }).asDynamic() as Free;
/** NaN with its sign bit, which numbers of JavaScript do not keep. */
const negativeNaN = () => fromBuffer(new Float32Array(Uint32Array.of(0xffc00000).buffer)) as Free;

const { NaN: nan, Infinity: inf } = globalThis;

/** What the array API standard requires of special values: the name, the call, and the result. */
const REQUIRED: readonly [name: string, call: () => Free | Tensor<"bool">, expected: Numbers][] = [
  ["floor_divide", () => floats([inf, -inf]).floorDivide(floats([1, 1])), [inf, -inf]],
  ["floor_divide", () => floats([1, -1]).floorDivide(floats([-inf, inf])), [-0, -0]],
  ["floor_divide", () => floats([1, -1, 0]).floorDivide(floats([0, 0, 0])), [inf, -inf, nan]],
  ["bitwise_right_shift", () => ints([-8, 8]).bitwiseRightShift(ints([32, 32])), [-1, 0]],
  ["bitwise_left_shift", () => ints([1, 3]).bitwiseLeftShift(ints([31, 1])), [-(2 ** 31), 6]],
  ["signbit", () => floats([-0, 0, -1]).signbit(), [1, 0, 1]],
  ["signbit", () => negativeNaN().signbit(), [1]],
  ["copysign", () => floats([1]).copysign(negativeNaN() as never) as Free, [-1]],
  ["sign", () => floats([nan, -0, -2]).sign(), [nan, 0, -1]],
  ["pow", () => floats([1, -1, nan, 0, -0]).pow(floats([nan, inf, 0, -1, -1])), [
    ...[1, 1, 1, inf, -inf],
  ]],
  ["remainder", () => floats([-1, 1, 5]).remainder(floats([inf, -inf, 0])), [inf, -inf, nan]],
  ["atan2", () => floats([0, -0, 0, -0]).atan2(floats([-0, -0, 0, 0])) as Free, [
    ...[Math.fround(Math.PI), Math.fround(-Math.PI), 0, -0],
  ]],
  ["hypot", () => floats([inf]).hypot(floats([nan]) as never) as Free, [inf]],
  ["logaddexp", () => floats([-inf, inf]).logaddexp(floats([-inf, inf])) as Free, [-inf, inf]],
  ["round", () => floats([-0.4, 0.5, 1.5, 2.5]).round(), [-0, 0, 2, 2]],
  ["ceil", () => floats([-0.5]).ceil(), [-0]],
  ["trunc", () => floats([-0.5]).trunc(), [-0]],
  ["expm1", () => floats([-0, -inf]).expm1() as Free, [-0, -1]],
  ["log1p", () => floats([-0, -1]).log1p() as Free, [-0, -inf]],
  ["sqrt", () => floats([-0, -1]).sqrt() as Free, [-0, nan]],
  ["asinh", () => floats([-0]).asinh() as Free, [-0]],
  ["tanh", () => floats([-0, inf]).tanh() as Free, [-0, 1]],
  ["reciprocal", () => floats([-0, inf]).reciprocal() as Free, [-inf, 0]],
  ["max", () => floats([1, nan]).max() as Free, [nan]],
  ["mean", () => floats([]).mean() as Free, [nan]],
  ["any", () => floats([nan]).any(), [1]],
  ["equal", () => floats([nan]).equal(floats([nan])), [0]],
];

test("names whose special values differ from the standard have no yes in coverage.md", () => {
  const served = info().devices.cpu as "js" | "native";
  const other = new Set<string>();
  try {
    for (const backend of new Set(["js", served] as const)) {
      setBackend(backend);
      for (const [name, call, expected] of REQUIRED) {
        const actual = call().toArray() as unknown[] | number;
        const values = [actual].flat(9).map(Number);
        if (!expected.every((value, i) => Object.is(value, values[i]))) other.add(name);
      }
    }
  } finally {
    setBackend(served);
  }
  const page = readText("docs/coverage.md");
  const status = (name: string) => new RegExp(`^\\| \`${name}\` \\| (\\w+) `, "m").exec(page)?.[1];
  // A row that differs in complex numbers alone has these values.
  const differs = (name: string): boolean =>
    status(name) !== "yes" &&
    !new RegExp(`^\\| \`${name}\` \\|.*takes no complex numbers \\|$`, "m").test(page);
  const told = [...new Set(REQUIRED.map(([name]) => name))].filter(differs);
  assertEquals(told, [...other], "names that differ");
});

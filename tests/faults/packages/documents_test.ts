/**
 * Faults of the pages: claims that the library does not keep.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { textOf } from "../../../scripts/release/package.ts";
import { readText } from "../../../scripts/tools.ts";
import { fromBuffer, info, setBackend, type Tensor, tensor } from "../../../mod.ts";
import { fault } from "../support.ts";

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

fault({
  entry: 33,
  kind: "coverage.md said yes where the standard requires other values",
  others: ["copysign"],
}, () => {
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

fault({
  entry: 33,
  kind: "pages for users of other libraries did not say where results differ",
  others: ["div, floorDiv, topk, concat and bools of TensorFlow.js", "gather, chunk of PyTorch"],
}, () => {
  // The blocks after these tables show what the library does, and run as tests of the pages.
  const cases: Readonly<Record<string, readonly RegExp[]>> = {
    "docs/from-tfjs.md": [/sum.* of int32/, /argMax/, /sign of NaN/, /oneHot .*range/, /pads/],
    "docs/from-pytorch.md": [/index of another size/, /negative pads/, /squeeze/, /bool/],
    "docs/differences-from-numpy.md": [/`where` with a condition/, /`isclose`/],
  };
  for (const [page, lines] of Object.entries(cases)) {
    const rows = readText(page).split("\n").filter((line) => line.startsWith("|"));
    for (const line of lines) {
      const found = rows.map((row) => row.split("|").slice(1, 4).map((cell) => cell.trim()))
        .some(([name, there, here]) => line.test(name!) && there !== "" && here !== "");
      assert(found, `${page}: ${line}`);
    }
  }
});

fault({
  entry: 35,
  kind: "the page of a package has a picture that is not there",
  others: ["links to files that packages lack"],
}, () => {
  /** The targets of links and pictures. */
  const targets = (text: string) => [...text.matchAll(/\]\(([^)]*)\)/g)].map(([, to]) => to!);
  for (const name of ["README.md", "CHANGELOG.md"]) {
    const text = readText(name);
    assert(targets(text).some((to) => !to.includes(":")), "there are links to mend");
    const alone = textOf(text, undefined);
    assertEquals(targets(alone), targets(text).filter((to) => to.includes(":")));
    assert(!alone.includes("!["));
    const linked = textOf(text, "https://example.org/rowmajor");
    assertEquals(targets(linked).length, targets(text).length);
    for (const to of targets(linked)) assert(/^https:\/\//.test(to), to);
    // Other text stays.
    assertEquals(linked.replace(/\]\([^)]*\)/g, "]"), text.replace(/\]\([^)]*\)/g, "]"));
  }
  assert(
    textOf(readText("README.md"), "https://example.org/rowmajor").includes(
      "](https://example.org/rowmajor/raw/main/docs/benchmarks.svg)",
    ),
  );
});

/**
 * Convolutions by Winograd's F(4 × 4, 3 × 3) against direct ones in float64: every backend and
 * instruction set, dtype and layout, eager, compiled and in layers; the stated error; what it refuses.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import { ArgumentError, type DType, ones, random, setThreads, ShapeError } from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import { BACKENDS, using } from "../ops/table/backends.ts";
import { type Any, assertRefused, asView, loose } from "../support.ts";

interface Case {
  readonly shape: readonly [number, number, number, number];
  readonly outputs: number;
  readonly padding: Any;
}

/** Tiles that are cut, that cross rows of tiles, in several panels and blocks; odd padding. */
const CASES: readonly Case[] = [
  { shape: [1, 1, 3, 3], outputs: 1, padding: 0 },
  { shape: [2, 5, 9, 11], outputs: 7, padding: 1 },
  { shape: [1, 3, 4, 50], outputs: 2, padding: [[0, 2], [3, 1]] },
  { shape: [3, 17, 7, 7], outputs: 13, padding: "same" },
  { shape: [1, 4, 37, 41], outputs: 9, padding: 2 },
  { shape: [2, 0, 5, 5], outputs: 3, padding: 1 },
  { shape: [0, 2, 5, 5], outputs: 3, padding: 1 },
];
/** Some that only compiled kernels compute in a short time. */
const LARGE: readonly Case[] = [
  { shape: [1, 70, 30, 26], outputs: 65, padding: 1 },
  { shape: [2, 350, 8, 9], outputs: 21, padding: 1 },
];
/** The largest error of outputs whose standard deviation is 1. */
const ERROR: Partial<Record<DType, number>> = {
  float32: 2e-5,
  float64: 1e-13,
  float16: 2 ** -11 * 6,
  bfloat16: 2 ** -8 * 6,
};

/** x, weight, bias and residual of a case, in a dtype. */
function operandsOf({ shape, outputs, padding }: Case, dtype: DType): Any[] {
  const [n, channels, ...space] = shape;
  const make = (key: number, sizes: number[]): Any =>
    loose(random.normal(random.key(key), sizes)).astype("float32");
  const weight = make(2, [outputs, channels, 3, 3]).div(Math.sqrt(9 * Math.max(channels, 1)));
  const x = make(1, [...shape]);
  const y: Any = nn.conv2d(x, weight, undefined, { padding });
  assertEquals([y.shape[0], y.shape[1], space.length], [n, outputs, 2]);
  return [x, weight, make(3, [outputs]), make(4, [...y.shape])].map((one) => one.astype(dtype));
}

function assertClose(y: Any, exact: Any, error: number, about: string): void {
  assertEquals([...y.shape], [...exact.shape], about);
  if (y.size === 0) return;
  const difference = y.to("cpu").astype("float64").sub(exact.to("cpu")).abs().max().item();
  assert(difference <= error, `${about}: ${difference}`);
}

for (const { name, on } of BACKENDS) {
  test(`Winograd's convolutions are direct ones within the stated error: ${name}`, () =>
    using(on, () => {
      const device = typeof on === "string" ? on : "cpu";
      const cases = name.startsWith("native") ? [...CASES, ...LARGE] : CASES;
      for (const one of cases) {
        const { padding } = one;
        for (const dtype of Object.keys(ERROR) as DType[]) {
          if (one.shape[1] > 40 && dtype !== "float32") continue;
          for (const layout of [(x: Any): Any => x, asView]) {
            const [x, w, b] = operandsOf(one, dtype).map((x) => layout(x.to(device)));
            const [x64, w64, b64] = [x, w, b].map((x) => x.astype("float64"));
            const y: Any = nn.conv2d(x, w, b, { padding, winograd: true });
            assertEquals([y.dtype, y.device], [dtype, device]);
            const exact = nn.conv2d(x64, w64, b64, { padding });
            assertClose(y, exact, ERROR[dtype]!, `${name}, ${JSON.stringify(one)}, ${dtype}`);
          }
        }
      }
    }));
}

test("programs compute bias, residual and activation with Winograd's sums", () => {
  for (const one of [...CASES, ...LARGE]) {
    const { padding } = one;
    const [x, w, b, r] = operandsOf(one, "float32");
    const options = { padding, winograd: true };
    const f = (x: Any, r: Any): Any => loose(nn.conv2d(x, w, b, options)).add(r).relu();
    const [x64, w64, b64] = [x, w, b].map((x) => x.astype("float64"));
    const exact = loose(nn.conv2d(x64, w64, b64, { padding })).add(r.astype("float64")).relu();
    using program = compile(f);
    assertClose(program(x, r), exact, 2e-5, JSON.stringify(one));
    const [report] = (program as Any).explain();
    if (x.size === 0) continue;
    assertEquals(report.data.improvements.joined.join().split("→").length - 1, 2);
    // The weight is transformed when the program is made.
    assertEquals(report.data.ops.map(({ op }: Any) => op), ["winograd"]);
  }
});

test("results of Winograd depend on neither threads nor the number of images", () => {
  const threads = setThreads(1);
  try {
    const x = loose(random.normal(random.key(1), [5, 40, 15, 21]));
    const weight = loose(random.normal(random.key(2), [150, 40, 3, 3]));
    const options = { padding: 1, winograd: true };
    const one: Any = nn.conv2d(x, weight, undefined, options);
    setThreads(2);
    assert(one.equals(nn.conv2d(x, weight, undefined, options)));
    assert(one.slice("3:4").equals(nn.conv2d(x.slice("3:4"), weight, undefined, options)));
    assert(one.slice("4").equals(nn.conv2d(x.slice("4"), weight, undefined, options)));
  } finally {
    setThreads(threads);
  }
});

test("layers and folded norms transform their weights once", () => {
  const make = (key: number, shape: number[]): Any => random.normal(random.key(key), shape);
  const file = {
    "conv.weight": make(1, [20, 12, 3, 3]).div(10),
    "conv.bias": make(2, [20]),
    "norm.weight": make(3, [20]),
    "norm.bias": make(4, [20]),
    "norm.running_mean": make(5, [20]),
    "norm.running_var": make(6, [20]).square().add(0.5),
  };
  const x = make(7, [2, 12, 18, 18]);
  const results = [false, true].map((winograd) => {
    const w = nn.weights(file);
    const options = { padding: 1, winograd } as const;
    const conv = w.conv2d("conv", 20, 12, 3, { ...options, activation: "gelu" });
    const norm = w.batchNorm("norm", 20);
    const folded = nn.fold(w.conv2d("conv", 20, 12, 3, options), norm, { activation: "relu" });
    w.done();
    assertEquals([...conv.weight.shape], [20, 12, 3, 3]);
    using program = compile((x: Any) => folded(x));
    const all = [conv(x), folded(x), program(x)] as Any[];
    w.dispose();
    return all;
  });
  results[0]!.forEach((direct, i) =>
    assertClose(results[1]![i], direct.astype("float64"), 4e-5, `${i}`)
  );
});

test("Winograd refuses other kernels, strides, dilations, groups and values", () => {
  const [x, w] = [ones([1, 4, 8, 8]), ones([4, 4, 3, 3])] as Any[];
  const refuse = (options: Any, weight: Any = w): void => {
    const all = { winograd: true, ...options };
    assertRefused(() => nn.conv2d(x, weight, undefined, all), ArgumentError, "winograd");
  };
  refuse({ stride: 2 });
  refuse({ dilation: [1, 2] });
  refuse({ groups: 2 }, ones([4, 2, 3, 3]));
  refuse({}, ones([4, 4, 1, 3]));
  refuse({ winograd: 1 });
  const line = ones([1, 4, 8]);
  const options = { winograd: true } as Any;
  assertRefused(
    () => nn.conv1d(line, ones([4, 4, 3]), undefined, options),
    ArgumentError,
    "winograd",
  );
  assertThrows(() => nn.convTranspose2d(x, w, undefined, options), TypeError, "winograd");
  const wrong: Any = ones([4, 5, 3, 3]);
  assertRefused(
    () => nn.conv2d(x, wrong, undefined, options),
    ShapeError,
    "a weight of shape [4, 5, 3, 3]",
  );
  assertRefused(
    () => nn.conv2d(ones([1, 4, 2, 8]), w, undefined, options),
    ShapeError,
    "does not fit",
  );
  using weights = nn.weights({ "a.weight": w });
  const layer = (more: Any): Any => weights.conv2d("a", 4, 4, 3, { bias: false, ...more });
  assertRefused(() => layer({ winograd: true, stride: 2 }), ArgumentError, "winograd");
  assertRefused(() => layer({ winograd: "yes" }), ArgumentError, "winograd");
});

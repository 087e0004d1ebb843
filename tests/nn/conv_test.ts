/**
 * Convolutions and transposed ones against PyTorch (tests/golden/nn/conv.json): every backend and
 * instruction set, dtype and layout, eager and compiled; shapes without images, `"same"`, errors.
 *
 * Sums are exact in float32 and float64; 16-bit floats round them once.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import {
  ArgumentError,
  type DType,
  DTypeError,
  full,
  ones,
  random,
  setThreads,
  ShapeError,
  tensor,
} from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import { type Any, assertRefused, asView, loose } from "../support.ts";
import { ALL_BACKENDS, BACKENDS, using } from "../ops/table/backends.ts";

interface Case {
  readonly x: readonly [shape: number[], text: string];
  readonly weight: readonly [shape: number[], text: string];
  readonly bias: string;
  readonly transposed: boolean;
  readonly options: nn.ConvTransposeOptions;
  readonly y: readonly [shape: number[], values: number[]];
}

const CASES: readonly Case[] = JSON.parse(
  readFileSync(new URL("../golden/nn/conv.json", import.meta.url), "utf8"),
);
const FLOATS = ["float32", "float64", "float16", "bfloat16"] as const;
/** Half a unit in the last place, relative to a value. */
const ROUNDING: Partial<Record<DType, number>> = { float16: 2 ** -11, bfloat16: 2 ** -8 };

/** Eighths, as scripts/golden/conv.py writes them. */
function eighths(text: string, shape: readonly number[], dtype: DType): Any {
  const values = [...text].map((letter) => (letter.charCodeAt(0) - "i".charCodeAt(0)) / 8);
  return loose(tensor(values)).reshape(shape).astype(dtype);
}

function functionFor({ transposed, x: [shape] }: Case): Any {
  const rank = shape.length - 2;
  return transposed
    ? [nn.convTranspose1d, nn.convTranspose2d, nn.convTranspose3d][rank - 1]
    : [nn.conv1d, nn.conv2d, nn.conv3d][rank - 1];
}

function assertExpected(y: Any, { y: [shape, values] }: Case, about: string): void {
  assertEquals([...y.shape], shape, about);
  const rounding = ROUNDING[y.dtype as DType] ?? 0;
  const made: Float64Array = y.to("cpu").astype("float64").contiguous().toTypedArray();
  values.forEach((value, i) => {
    const expected = value / 64;
    assert(
      Math.abs(made[i]! - expected) <= rounding * Math.abs(expected),
      `${about}: element ${i} is ${made[i]}, not ${expected}`,
    );
  });
}

const LAYOUTS: Record<string, (x: Any) => Any> = { contiguous: (x) => x, views: asView };

for (const { name, on } of BACKENDS) {
  test(`convolutions are PyTorch's: ${name}`, () =>
    using(on, () => {
      const device = typeof on === "string" ? on : "cpu";
      CASES.forEach((one, i) => {
        const f = functionFor(one);
        // The first cases in all ways, the others in some.
        for (const dtype of FLOATS) {
          for (const [how, layout] of Object.entries(LAYOUTS)) {
            if (i % 5 > 0 && dtype !== "float32") continue;
            if (i % 4 > 0 && how === "views") continue;
            const at = (text: string, shape: readonly number[]): Any =>
              layout(eighths(text, shape, dtype).to(device));
            const { x: [xShape, x], weight: [wShape, weight], bias, options } = one;
            const b = bias === "" ? undefined : at(bias, [bias.length]);
            const y = f(at(x, xShape), at(weight, wShape), b, options);
            assertEquals([y.dtype, y.device], [dtype, device]);
            assertExpected(y, one, `case ${i}, ${dtype}, ${how}`);
            y.dispose();
          }
        }
      });
    }));
}

test("compiled convolutions are PyTorch's, with constant and with given weights", () => {
  CASES.forEach((one, i) => {
    const f = functionFor(one);
    const { x: [xShape, x], weight: [wShape, weight], bias, options } = one;
    const [given, w] = [eighths(x, xShape, "float32"), eighths(weight, wShape, "float32")];
    const b = bias === "" ? undefined : eighths(bias, [bias.length], "float32");
    using constant = compile((x: Any) => f(x, w, b, options));
    assertExpected(constant(given), one, `case ${i}, compiled`);
    using program = compile((x: Any, w: Any) => f(x, w, b, options));
    assertExpected(program(given, w), one, `case ${i}, compiled with a weight`);
  });
});

test("programs compute bias, residual and activation with the sums", () => {
  const make = (seed: number, shape: number[]): Any => random.normal(random.key(seed), shape);
  const [x, weight, residual] = [
    make(1, [2, 6, 9, 9]),
    make(2, [5, 6, 3, 3]),
    make(3, [2, 5, 9, 9]),
  ];
  const [bias, column] = [make(4, [5]), make(5, [5, 1, 1])];
  const padding = { padding: 1 };
  const sums = (x: Any): Any => nn.conv2d(x, weight, undefined, padding);
  const functions: Record<string, [f: (x: Any, r: Any) => Any, joined: number]> = {
    "all of them": [(x, r) => sums(x).add(column).add(r).relu(), 3],
    "a bias of four axes": [(x, r) => sums(x).add(column.reshape([1, 5, 1, 1])).mul(r), 1],
    "a bias of its own": [(x, r) => r.add(nn.conv2d(x, weight, bias, padding)).sigmoid(), 2],
    "an activation first": [(x, r) => sums(x).relu().add(r), 2],
    "two residuals": [(x, r) => sums(x).relu().add(r).add(r), 2],
    "an activation between": [(x, r) => sums(x).add(column).add(r).relu().add(r), 3],
    "no activation after a last residual": [(x, r) => sums(x).relu().add(r).relu(), 2],
    "limits": [(x) => sums(x).clip(-1, 2), 1],
    "an upper limit of a lower one": [(x, r) => sums(x).add(r).maximum(-1).minimum(2), 3],
    "limits in the other order": [(x) => sums(x).minimum(2).maximum(-1), 1],
    "limits that cross": [(x) => sums(x).clip(2, -1), 0],
    "a lower limit alone": [(x) => sums(x).maximum(0.5), 1],
    "limits that are tensors": [(x) => sums(x).maximum(x.slice(0, 0, 0, 0)), 0],
    "hard swish": [(x, r) => nn.hardSwish(sums(x).add(column)).add(r), 3],
    "leaky relu": [(x, r) => nn.leakyRelu(sums(x), { negativeSlope: 0.3 }).add(r), 2],
    "hard sigmoid": [(x, r) => nn.hardSigmoid(sums(x).add(r)), 2],
    elu: [(x, r) => nn.elu(sums(x), { alpha: 0.7 }).add(r), 2],
    mish: [(x, r) => nn.mish(sums(x).add(column)).add(r), 3],
    "sums that are read twice": [(x, r) => {
      const y = sums(x);
      return y.relu().mul(y).mul(r);
    }, 0],
    "a row": [(x, r) => sums(x).add(r.slice(0, 0, 0)), 0],
  };
  for (const [about, [f, joined]] of Object.entries(functions)) {
    using program = compile(f, { optimize: { fuse: false } } as Any);
    assert(program(x, residual).allclose(f(x, residual), { rtol: 1e-5, atol: 1e-5 }), about);
    const [report] = (program as Any).explain();
    const names: string[] = report.data.improvements.joined;
    assertEquals(names.join().split("→").length - 1, joined, `${about}: ${names}`);
  }
});

/** Activations, which are compared with the same ops after sums that are x itself. */
const ACTIVATIONS: Readonly<Record<string, (x: Any) => Any>> = {
  relu: (x) => x.relu(),
  silu: (x) => x.silu(),
  limits: (x) => x.clip(-1, 2),
  "leaky relu": (x) => nn.leakyRelu(x, { negativeSlope: 0.3 }),
  "hard swish": (x) => nn.hardSwish(x),
  "hard sigmoid": (x) => nn.hardSigmoid(x),
  elu: (x) => nn.elu(x),
  "elu with an alpha": (x) => nn.elu(x, { alpha: -0.7 }),
  mish: (x) => nn.mish(x),
};

for (const { name, on } of ALL_BACKENDS) {
  test(`activations computed with sums are those of ops: ${name}`, () =>
    using(on, () => {
      const device = typeof on === "string" ? on : "cpu";
      const finite = [1e30, 1e4, 200, 89, 88, 45, 30, 20.5, 20, 19.5, 10, 3, 0.7, 1e-4, 1e-30]
        .flatMap((x) => [x, -x]);
      const other = [Infinity, -Infinity, NaN, 0];
      // Of one channel, and of several, whose products with 0 must be finite.
      for (const [channels, values] of [[1, [...finite, ...other]], [2, finite]] as const) {
        const row = Array.from({ length: 1100 }, (_, i) => values[i % values.length]!);
        const x = loose(tensor(row)).reshape([1, 1, 20, 55]).tile([1, channels, 1, 1]).to(device);
        const unit = Array.from({ length: channels ** 2 }, (_, i) =>
          Number(i % (channels + 1) === 0));
        const weight = loose(tensor(unit)).reshape([channels, channels, 1, 1]).to(device);
        for (const [about, f] of Object.entries(ACTIVATIONS)) {
          using program = compile((x: Any) =>
            f(nn.conv2d(x, weight))
          );
          const [y, wanted] = [program(x), f(x)];
          const close = { rtol: 1e-5, atol: 1e-6, equalNan: true };
          assert(y.allclose(wanted, close), `${about}, ${channels} channels`);
          const [report] = (program as Any).explain();
          assertEquals(report.data.improvements.joined.length, 1, about);
        }
      }
    }));
}

test("results depend on neither threads nor the number of images", () => {
  const threads = setThreads(1);
  try {
    const x = loose(random.normal(random.key(1), [3, 40, 15, 21]));
    const weight = loose(random.normal(random.key(2), [150, 40, 3, 3]));
    const one: Any = nn.conv2d(x, weight, undefined, { padding: 1 });
    setThreads(2);
    const two: Any = nn.conv2d(x, weight, undefined, { padding: 1 });
    assert(one.equals(two));
    const last = nn.conv2d(x.slice("2:"), weight, undefined, { padding: 1 });
    assert(loose(last).equals(two.slice("2:")));
  } finally {
    setThreads(threads);
  }
});

test("tasks that share a matrix, and pixels alone in a panel, give what columns in float64 do", () => {
  const threads = setThreads(1);
  try {
    // Channels in and out, size and stride. Sums of several passes; 49, 289, 81 and 1 pixels.
    const cases = [
      [600, 200, 7, 1],
      [160, 256, 14, 1],
      [90, 130, 17, 1],
      [90, 130, 17, 2],
      [500, 70, 2, 3],
    ] as const;
    for (const [channels, rows, size, stride] of cases) {
      const x = loose(random.normal(random.key(size), [2, channels, size, size]));
      const weight = loose(random.normal(random.key(rows), [rows, channels, 3, 3])).div(70);
      const options = { padding: 1, stride };
      const wide = [x, weight].map((one) => one.astype("float64")) as [Any, Any];
      const expected: Any = nn.conv2d(...wide, undefined, options);
      const one: Any = nn.conv2d(x, weight, undefined, options);
      assert(one.allclose(expected, { rtol: 1e-4, atol: 1e-4 }), `${rows} rows at ${size}`);
      for (const count of [2, 3, 5]) {
        setThreads(count);
        assert(one.equals(nn.conv2d(x, weight, undefined, options)), `${count} threads, ${size}`);
      }
      setThreads(1);
      // One image has fewer tasks.
      const last: Any = nn.conv2d(x.slice("1:"), weight, undefined, options);
      assert(last.equals(one.slice("1:")));
    }
  } finally {
    setThreads(threads);
  }
});

test("depthwise convolutions of all sizes give what float64 does", () => {
  // Channels, results of a channel, height, width, kernel, stride, dilation, padding.
  const cases = [
    [5, 1, 14, 14, 3, 1, 1, 1],
    [70, 1, 7, 7, 3, 1, 1, 1],
    [9, 1, 7, 7, 5, 1, 1, 2],
    [3, 1, 1, 9, 3, 1, 1, 1],
    [3, 1, 3, 2, 5, 1, 1, 2],
    [3, 1, 2, 40, 3, 1, 1, 1],
    [4, 2, 19, 16, 3, 1, 1, 0],
    [4, 3, 33, 17, 3, 2, 1, 1],
    [6, 1, 112, 112, 3, 2, 1, 1],
    [6, 1, 14, 13, 5, 2, 1, 2],
    [5, 1, 30, 31, 3, 2, 1, 0],
    [5, 1, 29, 50, 7, 1, 1, 3],
    [5, 1, 41, 37, 3, 3, 1, 1],
    [5, 1, 21, 23, 3, 1, 2, 2],
    [5, 1, 21, 23, 3, 2, 3, 4],
    [5, 1, 130, 90, 3, 1, 1, 1],
    [4, 1, 9, 70, 2, 4, 1, 0],
  ] as const;
  for (const [channels, factor, height, width, k, stride, dilation, padding] of cases) {
    const about = `${channels} channels of ${height} × ${width}, kernel ${k}, stride ${stride}`;
    const x = loose(random.normal(random.key(k), [2, channels, height, width]));
    const weight = loose(random.normal(random.key(3), [channels * factor, 1, k, k]));
    const bias = loose(random.normal(random.key(4), [channels * factor]));
    const options = { padding, stride, dilation, groups: channels };
    const sums = (x: Any): Any => nn.conv2d(x, weight, bias, options);
    const wide: Any = nn.conv2d(
      ...[x, weight, bias].map((one) => one.astype("float64")) as [Any, Any, Any],
      options,
    );
    const residual = loose(random.normal(random.key(5), wide.shape));
    const functions: Record<string, (y: Any, r: Any) => Any> = {
      sums: (y) => y,
      relu: (y) => y.relu(),
      limits: (y) => y.clip(-1, 2),
      "hard swish": (y) => nn.hardSwish(y),
      "a residual": (y, r) => y.add(r),
      "a residual, then relu": (y, r) => y.add(r).relu(),
      "relu, then a residual": (y, r) => y.relu().add(r),
    };
    for (const [name, f] of Object.entries(functions)) {
      using program = compile((x: Any, r: Any) => f(sums(x), r));
      const expected = f(wide, residual.astype("float64"));
      const y: Any = program(x, residual);
      assert(y.allclose(expected, { rtol: 1e-5, atol: 1e-5 }), `${about}: ${name}`);
    }
  }
});

test('"same" gives a result for each stride, the odd zero at the end', () => {
  for (const n of [5, 6, 7]) {
    for (const stride of [1, 2, 3]) {
      for (const [k, dilation] of [[1, 1], [2, 1], [3, 1], [3, 2]] as const) {
        const x = loose(random.normal(random.key(n), [1, 2, n]));
        const weight = random.normal(random.key(k), [3, 2, k]);
        const y: Any = nn.conv1d(x, weight, undefined, { padding: "same", stride, dilation });
        const out = Math.ceil(n / stride);
        const all = Math.max(0, (out - 1) * stride + (k - 1) * dilation + 1 - n);
        const before = Math.floor(all / 2);
        const padded = x.pad([[0, 0], [0, 0], [before, all - before]]);
        const expected: Any = nn.conv1d(padded, weight, undefined, { stride, dilation });
        assertEquals(y.shape, [1, 3, out]);
        assert(y.allclose(expected));
        const pairs = [[before, all - before]] as const;
        assert(y.equals(nn.conv1d(x, weight, undefined, { padding: pairs, stride, dilation })));
      }
    }
  }
});

test("x without images gives a result without", () => {
  const x = loose(random.normal(random.key(1), [3, 8, 9]));
  const weight = random.normal(random.key(2), [3, 2, 3, 3]);
  const groups = ones([4, 3, 3, 3]);
  const y: Any = nn.conv2d(x, groups, ones([4]));
  assertEquals(y.shape, [4, 6, 7]);
  assert(y.equals(loose(nn.conv2d(x.reshape([1, 3, 8, 9]), groups, ones([4]))).slice(0)));
  const z: Any = nn.convTranspose2d(x, weight);
  assertEquals(z.shape, [2, 10, 11]);
});

test("no images give none, and kernels over no channels the bias", () => {
  assertEquals(loose(nn.conv2d(ones([0, 3, 5, 5]), ones([2, 3, 3, 3]))).shape, [0, 2, 3, 3]);
  const bias = tensor([1, 2]);
  const y: Any = nn.conv1d(ones([1, 0, 3]), ones([2, 0, 2]), bias);
  assertEquals(y.toArray(), [[[1, 1], [2, 2]]]);
});

test("operands that do not fit are refused, and nothing changes", () => {
  const x = ones([1, 4, 8, 8]), w = ones([6, 4, 3, 3]);
  const conv = loose(nn.conv2d);
  const shapes = ["conv2d", "[1, 4, 8, 8]"];
  assertRefused(() => conv(x, ones([6, 3, 3, 3])), ShapeError, [...shapes, "4 channels"], x);
  assertRefused(() => conv(x, w, undefined, { groups: 2 }), ShapeError, [...shapes, "2 groups"], x);
  assertRefused(
    () => conv(x, ones([5, 2, 3, 3]), undefined, { groups: 2 }),
    ShapeError,
    [...shapes, "5 output channels", "2 groups"],
  );
  assertRefused(() => conv(x, ones([6, 4, 3])), ShapeError, [
    ...shapes,
    "[6, 4, 3]",
    "[N, C, H, W]",
  ]);
  assertRefused(() => conv(ones([8, 8]), w), ShapeError, ["conv2d", "[N, C, H, W]"]);
  assertRefused(() => conv(x, ones([6, 4, 9, 3])), ShapeError, [...shapes, "axis 2"], x);
  assertRefused(() => conv(x, w, ones([5])), ShapeError, [...shapes, "bias", "[6]", "[5]"], x);
  assertRefused(() => conv(x.astype("int32"), w), DTypeError, ["conv2d", "int32"]);
  assertRefused(() => conv(x, w, ones([6], { dtype: "int8" })), DTypeError, ["conv2d", "int8"]);
  assertRefused(() => conv([1], w), DTypeError, "conv2d");
  for (
    const [options, parts] of [
      [{ stride: 0 }, ["stride 0"]],
      [{ stride: [1, 2, 3] }, ["3 numbers as stride", "2"]],
      [{ stride: [1, 1.5] }, ["stride 1.5"]],
      [{ padding: -1 }, ["padding -1"]],
      [{ padding: "most" }, ["padding", "most"]],
      [{ padding: [[1, 1]] }, ["padding for 1 axes", "2"]],
      [{ padding: [[1, 1], [1]] }, ["padding"]],
      [{ dilation: 0 }, ["dilation 0"]],
      [{ groups: 0 }, ["groups 0"]],
    ] as const
  ) {
    assertRefused(() => conv(x, w, undefined, options), ArgumentError, ["conv2d", ...parts], x);
  }
  const transposed = loose(nn.convTranspose2d);
  assertRefused(() => transposed(x, ones([3, 2, 2, 2])), ShapeError, [
    "convTranspose2d",
    "channels",
  ]);
  assertRefused(
    () => transposed(x, ones([4, 2, 3, 3]), undefined, { padding: 9 }),
    ShapeError,
    ["convTranspose2d", "axis 2"],
  );
  assertRefused(
    () => transposed(x, full([4, 2, 2, 2], 1), undefined, { outputPadding: 1 }),
    ArgumentError,
    ["convTranspose2d", "output padding 1"],
  );
});

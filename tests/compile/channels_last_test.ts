/**
 * Images with channels last: the op against convolutions with channels first in float64, on every backend
 * and instruction set, and programs that keep images so: which ops they have, their results, and when they
 * do not.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import { pack, random, setThreads, ShapeError } from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import { dispatch } from "../../src/core/dispatch.ts";
import * as nn from "../../src/nn/mod.ts";
import { CONV_LAST } from "../../src/ops/conv/channels_last.ts";
import type { ConvWeightAttributes } from "../../src/ops/conv/problem.ts";
import { BACKENDS, using } from "../ops/table/backends.ts";
import { type Any, assertRefused, loose } from "../support.ts";

interface Case {
  /** [N, C, H, W]. */
  readonly shape: readonly [number, number, number, number];
  /** [O, C / groups, H, W]. */
  readonly weight: readonly [number, number, number, number];
  readonly stride?: readonly [number, number];
  readonly padding?: readonly [readonly [number, number], readonly [number, number]];
  readonly dilation?: readonly [number, number];
}

/** Channels and pixels that fill no vectors, several panels and blocks, depths of several blocks. */
const POINTWISE: readonly Case[] = [
  { shape: [1, 3, 2, 2], weight: [1, 3, 1, 1] },
  { shape: [2, 24, 9, 7], weight: [40, 24, 1, 1] },
  { shape: [1, 17, 13, 11], weight: [71, 17, 1, 1] },
  { shape: [1, 530, 5, 3], weight: [33, 530, 1, 1] },
];
/** Borders on all sides, wide and empty ones, single pixels; kernels that are no squares. */
const DEPTHWISE: readonly Case[] = [
  { shape: [1, 16, 7, 7], weight: [16, 1, 3, 3], padding: [[1, 1], [1, 1]] },
  { shape: [2, 21, 9, 10], weight: [21, 1, 5, 5], padding: [[2, 2], [2, 2]], stride: [2, 2] },
  { shape: [1, 40, 6, 13], weight: [40, 1, 3, 2], padding: [[0, 2], [1, 0]], stride: [2, 1] },
  { shape: [1, 33, 11, 9], weight: [33, 1, 3, 3], padding: [[2, 1], [3, 2]], dilation: [2, 3] },
  { shape: [1, 16, 3, 2], weight: [16, 1, 2, 2], padding: [[4, 3], [3, 5]] },
  { shape: [1, 18, 1, 1], weight: [18, 1, 1, 1] },
];
/** Those whose x is [N, C, H, W]: several tasks, panels that are cut, channels that fill no panel. */
const ENTERING: readonly Case[] = [
  { shape: [2, 3, 29, 23], weight: [24, 3, 3, 3], padding: [[1, 1], [1, 1]], stride: [2, 2] },
  { shape: [1, 3, 31, 17], weight: [5, 3, 7, 5], padding: [[3, 3], [0, 4]] },
  { shape: [1, 6, 12, 11], weight: [70, 6, 2, 3], dilation: [3, 2] },
  { shape: [1, 20, 1, 1], weight: [33, 20, 1, 1] },
];
const ACTIVATIONS = [
  {},
  { activation: "relu" },
  { activation: "clip", numbers: [0, 0.5] },
  { activation: "hardSwish" },
  { activation: "silu" },
  { activation: "clip", numbers: [-0.25, 0.5], addsLast: true },
  { activation: "hardSwish", addsLast: true },
] as const;

const make = (key: number, shape: readonly number[]): Any =>
  loose(random.normal(random.key(key), [...shape]));
const last = (x: Any): Any => x.permute(0, 2, 3, 1).copy();

/** x, weight and bias of a case. */
function operandsOf({ shape, weight }: Case): Any[] {
  const sums = weight[1] * weight[2] * weight[3];
  return [make(1, shape), make(2, weight).div(Math.sqrt(sums)), make(3, [weight[0]])];
}

function attributesOf({ shape, weight, stride, padding, dilation }: Case): ConvWeightAttributes {
  return {
    stride: stride ?? [1, 1],
    padding: padding ?? [[0, 0], [0, 0]],
    dilation: dilation ?? [1, 1],
    groups: shape[1] / weight[1],
    weight,
  };
}

/** The weight of an operand of `convLast`. */
function ownWeight(w: Any): Any {
  const [outputs, channels, height, width] = w.shape;
  if (channels === 1 && outputs >= 16) {
    return w.reshape([outputs, height, width]).permute(1, 2, 0).copy();
  }
  return (pack(w.reshape([outputs, channels * height * width])) as Any).panels;
}

/** The activation of sums, in float64. */
function activated(y: Any, { activation, numbers: [low, high] = [0, 0] }: Any): Any {
  if (activation === undefined) return y;
  if (activation === "clip") return y.clip(low, high);
  return activation === "relu" ? y.relu() : activation === "silu" ? y.silu() : nn.hardSwish(y);
}

function assertClose(y: Any, exact: Any, about: string): void {
  assertEquals([...y.shape], [...exact.shape], about);
  const difference = y.to("cpu").astype("float64").sub(exact).abs().max().item();
  assert(difference <= 5e-6, `${about}: ${difference}`);
}

for (const { name, on } of BACKENDS) {
  test(`convolutions with channels last are those with channels first: ${name}`, () =>
    using(on, () => {
      const device = typeof on === "string" ? on : "cpu";
      for (const one of [...POINTWISE, ...DEPTHWISE, ...ENTERING]) {
        const [x, w, b] = operandsOf(one);
        const isFirst = ENTERING.includes(one);
        const attributes = { ...attributesOf(one), isFirst };
        const { stride, padding, dilation, groups } = attributes as Any;
        const [x64, w64, b64] = [x, w, b].map((one) => one.astype("float64"));
        const sums: Any = nn.conv2d(x64, w64, b64, { stride, padding, dilation, groups });
        for (const [k, own] of ACTIVATIONS.entries()) {
          const add: Any = k % 2 === 0 ? undefined : make(4, sums.shape);
          const { addsLast = false, ...activation } = own as Any;
          const more = add?.astype("float64") ?? 0;
          const exact = addsLast
            ? activated(sums, activation).add(more)
            : activated(sums.add(more), activation);
          const inputs = [isFirst ? x : last(x), ownWeight(w.to(device)), b, add && last(add)];
          const y: Any = dispatch(
            CONV_LAST,
            inputs.map((one) =>
              one?.storage === undefined || one.storage.device === device ? one : one.to(device)
            ),
            { ...attributes, ...own },
          );
          assertClose(y.permute(0, 3, 1, 2), exact, `${name}, ${JSON.stringify([one, own])}`);
        }
      }
    }));
}

test("the op refuses other kernels and shapes", () => {
  const [x, w] = [make(1, [1, 4, 4, 20]), make(2, [3, 3, 20])];
  const attributes = attributesOf({ shape: [1, 20, 4, 4], weight: [20, 1, 3, 3] });
  const call = (more: Any, x0: Any = x, bias?: Any, add?: Any) => () =>
    dispatch(CONV_LAST, [x0, w, bias, add], { ...attributes, ...more });
  assertRefused(call({ groups: 1, weight: [20, 20, 3, 3] }), ShapeError, "depthwise");
  assertRefused(call({ groups: 10, weight: [20, 2, 3, 3] }), ShapeError, "depthwise");
  assertRefused(call({}, make(1, [1, 4, 4, 21])), ShapeError, "[N, H, W, 20]");
  assertRefused(call({ isFirst: true }), ShapeError, "one group");
  assertRefused(call({ isFirst: true, groups: 1, weight: [8, 600, 1, 1] }), ShapeError, "512");
  const entering = { isFirst: true, groups: 1, weight: [8, 3, 3, 3] };
  assertRefused(call(entering), ShapeError, "[N, 3, H, W]");
  assertRefused(call({}, x, make(3, [19])), ShapeError, "bias");
  assertRefused(call({}, x, undefined, make(3, [1, 4, 4, 20])), ShapeError, "residual");
});

// ---- programs ------------------------------------------------------------------------------------

const WEIGHTS = {
  first: make(10, [24, 3, 3, 3]).div(5),
  wide: make(11, [72, 24, 1, 1]).div(5),
  deep: make(12, [72, 1, 3, 3]).div(3),
  squeeze: make(13, [18, 72, 1, 1]).div(8),
  excite: make(14, [72, 18, 1, 1]).div(4),
  narrow: make(15, [24, 72, 1, 1]).div(8),
  deeper: make(16, [24, 1, 5, 5]).div(5),
  bias: make(17, [72]),
};

/** A block of MobileNetV3, with all that it can have. */
function block(x: Any): Any {
  const { first, wide, deep, squeeze, excite, narrow, deeper, bias } = WEIGHTS;
  const start: Any = loose(
    nn.hardSwish(nn.conv2d(x, first, undefined, { stride: 2, padding: 1 }) as Any),
  );
  const grown: Any = loose(nn.conv2d(start, wide, bias)).clip(0, 6);
  const filtered: Any = loose(nn.conv2d(grown, deep, bias, { padding: 1, groups: 72 })).relu();
  const mean = filtered.mean([2, 3], { keepDims: true });
  const factor: Any = nn.hardSigmoid(
    nn.conv2d(loose(nn.conv2d(mean, squeeze)).relu(), excite) as Any,
  );
  const y: Any = loose(nn.conv2d(filtered.mul(factor), narrow)).add(start);
  return loose(nn.conv2d(y, deeper, undefined, { stride: 2, padding: 2, groups: 24 }));
}

/** The convolutions of a program with channels last, of which its report tells. */
const count = (program: Any): number => {
  const { ops, improvements: { channelsLast } } = program.explain()[0].data;
  assertEquals(ops.filter(({ op }: Any) => op === "convLast").length, channelsLast);
  return channelsLast;
};

for (const { name, on } of BACKENDS.filter(({ name }) => /^(native|wasm)/.test(name))) {
  test(`programs keep channels last between convolutions: ${name}`, () =>
    using(on, () => {
      for (const images of [1, 2]) {
        const x = make(images, [images, 3, 30, 26]);
        const threads = setThreads(1);
        try {
          using program = compile(block);
          const exact = block(x).astype("float64");
          const y: Any = program(x);
          assertClose(y, exact, name);
          assertEquals(count(program), 5);
          setThreads(3);
          assert(y.equals(program(x)), "threads change the results");
        } finally {
          setThreads(threads);
        }
      }
    }));
}

const NATIVE = BACKENDS.find(({ name }) => name.startsWith("native"));

test(
  "other ops and results get images with channels first",
  { skip: NATIVE === undefined },
  () =>
    using(NATIVE!.on, () => {
      const { wide, deep, bias } = WEIGHTS;
      const x = make(5, [1, 24, 12, 10]);
      const f = (x: Any): Any => {
        const grown: Any = nn.conv2d(x, wide, bias);
        const deeper: Any = nn.conv2d(grown, deep, undefined, { padding: 1, groups: 72 });
        const options = { padding: 1, groups: 72 };
        const again: Any = nn.conv2d(
          nn.conv2d(deeper, deep, bias, options),
          deep,
          undefined,
          options,
        );
        return [
          deeper,
          again.reshape([72, 120]).softmax(1),
          again.slice(":, 3:5").mul(2),
          again.add(make(6, [1, 72, 12, 10])),
        ];
      };
      using program = compile(f);
      const made: Any = program(x), exact = f(x);
      made.forEach((y: Any, i: number) =>
        assertClose(y, exact[i].astype("float64"), `result ${i}`)
      );
      assert(made[0].layout.contiguous);
      assertEquals(count(program), 4);
    }),
);

test(
  "programs keep channels first where copies would cost more",
  { skip: NATIVE === undefined },
  () =>
    using(NATIVE!.on, () => {
      const x = make(5, [1, 72, 12, 10]);
      const alone = (x: Any): Any =>
        nn.conv2d(x, WEIGHTS.deep, undefined, { padding: 1, groups: 72 });
      const pointwise = (x: Any): Any => nn.conv2d(nn.conv2d(x, WEIGHTS.narrow), WEIGHTS.wide);
      for (const f of [alone, pointwise]) {
        using program = compile(f);
        assertClose(program(x), f(x).astype("float64"), f.name);
        assertEquals(count(program), 0);
      }
      const off = compile(block, { optimize: { channelsLast: false } });
      assertClose(
        off(make(1, [1, 3, 30, 26])),
        block(make(1, [1, 3, 30, 26])).astype("float64"),
        "off",
      );
      assertEquals(count(off), 0);
      // Weights that a program is given are no constants.
      using given = compile((x: Any, w: Any): Any => {
        const grown: Any = nn.conv2d(x, w, undefined, { padding: 1, groups: 72 });
        return nn.conv2d(grown, w, undefined, { padding: 1, groups: 72 });
      });
      given(x, WEIGHTS.deep);
      assertEquals(count(given), 0);
    }),
);

test(
  "images that are reshaped to other images are read as these",
  { skip: NATIVE === undefined },
  () =>
    using(NATIVE!.on, () => {
      const { first, wide, deep, deeper, squeeze } = WEIGHTS;
      const options = { padding: 1, groups: 72 };
      const folded = make(7, [24, 288, 1, 1]);
      const chain = (x: Any): Any => {
        const grown: Any = nn.conv2d(nn.conv2d(x, first, undefined, { padding: 1 }), wide);
        return nn.conv2d(nn.conv2d(grown, deep, undefined, options), deep, undefined, options);
      };
      const reads: Record<string, (image: Any, y: Any) => Any> = {
        convolution: (image) => nn.conv2d(image, folded),
        reduction: (image) => image.mean([2, 3]),
        "elementwise op": (image) => image.relu().mul(make(8, [288, 1, 1])).add(image),
        "other axes": (_, y) => nn.conv2d(y.permute(1, 0, 2, 3), make(9, [4, 1, 1, 1])),
        residual: (image, y) =>
          nn.conv2d(image, make(9, [72, 288, 1, 1])).add(y.slice(":, :, ::2, ::2")),
      };
      for (const [name, read] of Object.entries(reads)) {
        const f = (x: Any): Any => {
          const y = chain(x);
          const more: Any = nn.conv2d(y, squeeze);
          return [more.relu().mean([2, 3]), read(y.reshape([1, 288, 6, 6]), y)];
        };
        const x = make(1, [1, 3, 12, 12]);
        using program = compile(f);
        const made: Any = program(x), exact = f(x);
        made.forEach((y: Any, i: number) => {
          const size = exact[i].abs().max().item();
          assertClose(y.div(size), exact[i].astype("float64").div(size), `${name}, result ${i}`);
        });
        assert(count(program) >= 4, name);
      }
      // The first convolution would make the image of the others, but something reads another one.
      const start = (x: Any): Any => {
        const y: Any = nn.conv2d(x, first, undefined, { padding: 1 });
        const options = { padding: 2, groups: 24 };
        const deep: Any = nn.conv2d(
          nn.conv2d(y, deeper, undefined, options),
          deeper,
          undefined,
          options,
        );
        return [deep.mean([2, 3]), y.reshape([1, 96, 6, 6]).mean([2, 3])];
      };
      const x = make(1, [1, 3, 12, 12]);
      using program = compile(start);
      const made: Any = program(x), exact = start(x);
      made.forEach((y: Any, i: number) =>
        assertClose(y, exact[i].astype("float64"), `first, result ${i}`)
      );
    }),
);

test(
  "images of one pixel are biases of other convolutions",
  { skip: NATIVE === undefined },
  () =>
    using(NATIVE!.on, () => {
      const { first, wide, deep } = WEIGHTS;
      const [factors, grown] = [make(7, [72, 1, 1, 1]), make(8, [72, 72, 1, 1]).div(8)];
      const options = { padding: 1, groups: 72 };
      const f = (x: Any): Any => {
        const start: Any = nn.conv2d(nn.conv2d(x, first, undefined, { padding: 1 }), wide);
        const y: Any = nn.conv2d(
          nn.conv2d(start, deep, undefined, options),
          deep,
          undefined,
          options,
        );
        const mean: Any = y.mean([2, 3], { keepDims: true });
        const own = { groups: 72 };
        const pixel = nn.conv2d(nn.conv2d(mean, factors, undefined, own), factors, undefined, own);
        return loose(nn.conv2d(y, grown)).add(pixel).relu().mean([2, 3]);
      };
      const x = make(1, [1, 3, 12, 12]);
      using program = compile(f);
      assertClose(program(x), f(x).astype("float64"), "a bias that is made");
      assertEquals(count(program), 7);
    }),
);

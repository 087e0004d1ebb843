/**
 * Convolution layers of a file, and batch norms folded into them, against the functions.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import { ArgumentError, FormatError, ones, random } from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import { type Any, assertRefused, loose } from "../support.ts";
import { BACKENDS, using } from "../ops/table/backends.ts";

const normal = (seed: number, ...shape: number[]): Any =>
  loose(random.normal(random.key(seed), shape));
const TENSORS: Record<string, Any> = {
  "conv.weight": normal(1, 6, 2, 3, 2),
  "conv.bias": normal(2, 6),
  "norm.weight": normal(3, 6),
  "norm.bias": normal(4, 6),
  "norm.running_mean": normal(5, 6),
  "norm.running_var": normal(6, 6).abs().add(0.5),
};
const OPTIONS = { stride: 2, padding: [1, 0], groups: 2 } as const;
const x = normal(7, 2, 4, 9, 8);

for (const { name, on } of BACKENDS) {
  test(`layers are the functions, with a norm folded in or not: ${name}`, () =>
    using(on, () => {
      const device = typeof on === "string" ? on : "cpu";
      const at = (x: Any): Any => x.to(device);
      const tensors = Object.fromEntries(Object.entries(TENSORS).map(([key, x]) => [key, at(x)]));
      const open = (): Any => nn.weights(tensors, { device });
      const { "conv.weight": weight, "conv.bias": bias } = tensors;
      const plain: Any = nn.conv2d(at(x), weight, bias, OPTIONS);
      using w = open();
      const conv = w.conv2d("conv", 6, 4, [3, 2], { ...OPTIONS, activation: "relu" });
      const norm = w.batchNorm("norm", 6);
      w.done();
      const activated: Any = conv(at(x));
      assert(activated.allclose(plain.relu(), { rtol: 1e-5, atol: 1e-5 }));
      assertEquals([conv.weight.shape, conv.bias.shape], [[6, 2, 3, 2], [6]]);
      using other = open();
      const folded = nn.fold(
        other.conv2d("conv", 6, 4, [3, 2], OPTIONS),
        other.batchNorm("norm", 6),
        { activation: "relu" },
      );
      other.done();
      const expected = loose(norm(plain)).relu();
      assert(loose(folded)(at(x)).allclose(expected, { rtol: 1e-4, atol: 1e-4 }));
      using program = compile((x: Any) => loose(folded)(x));
      assert((program(at(x)) as Any).allclose(expected, { rtol: 1e-4, atol: 1e-4 }));
    }));
}

test("a norm without weights folds into a convolution without a bias", () => {
  using w = nn.weights({
    "c.weight": TENSORS["conv.weight"],
    "n.running_mean": TENSORS["norm.running_mean"],
    "n.running_var": TENSORS["norm.running_var"],
  });
  const folded = nn.fold(
    w.conv2d("c", 6, 4, [3, 2], { ...OPTIONS, bias: false }),
    w.batchNorm("n", 6, { epsilon: 0.1 }),
  );
  w.done();
  const plain = nn.conv2d(x, TENSORS["conv.weight"], undefined, OPTIONS);
  const expected = loose(nn.batchNorm)(
    plain,
    TENSORS["norm.running_mean"],
    TENSORS["norm.running_var"],
    { epsilon: 0.1 },
  );
  assert(loose(folded)(x).allclose(expected, { rtol: 1e-4, atol: 1e-4 }));
  assert(folded.bias !== undefined);
});

test("layers of one and three axes", () => {
  using w = nn.weights({ "a.weight": ones([2, 3, 4]), "b.weight": ones([1, 2, 2, 2, 2]) });
  const one = w.conv1d("a", 2, 3, 4, { bias: "optional" });
  const three = w.conv3d("b", 1, 2, 2, { bias: false });
  w.done();
  assertEquals(one(ones([1, 3, 6])).toArray(), [[[12, 12, 12], [12, 12, 12]]]);
  assertEquals(three(ones([1, 2, 2, 2, 2])).toArray(), [[[[[16]]]]]);
  assertEquals(one.bias, undefined);
});

test("layers that do not fit are refused", () => {
  const open = (): Any => nn.weights(TENSORS);
  const w = open();
  assertRefused(() => w.conv2d("conv", 6, 4, 3, { groups: 3 }), ArgumentError, [
    "conv2d",
    "3 groups",
  ]);
  assertRefused(() => w.conv2d("conv", 6, 4, [3]), ArgumentError, ["conv2d", "kernel"]);
  assertRefused(
    () => w.conv2d("conv", 6, 4, 3, { activation: "cube" }),
    ArgumentError,
    ["conv2d", "cube"],
  );
  assertRefused(() => w.conv2d("conv", 6, 4, 3, { bias: 1 }), ArgumentError, ["conv2d", "bias 1"]);
  const conv = w.conv2d("conv", 6, 4, 3, OPTIONS), norm = w.batchNorm("norm", 6);
  assertRefused(() => nn.fold(norm, loose(conv)), ArgumentError, "fold");
  const active = w.conv2d("conv", 6, 4, 3, { ...OPTIONS, activation: "relu" });
  assertRefused(() => nn.fold(active, norm), ArgumentError, ["fold", "relu"]);
  assertRefused(() => nn.fold(conv, w.batchNorm("norm", 5)), ArgumentError, ["fold", "5", "6"]);
  assertRefused(() => w.done(), FormatError, ["conv.weight", "[6, 2, 3, 3]", "[6, 2, 3, 2]"]);
});

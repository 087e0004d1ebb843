/**
 * Losses and cosines as PyTorch computes them; large logits, indices out of range, errors.
 *
 * @module
 */
import { assertEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import {
  ArgumentError,
  AxisError,
  DTypeError,
  IndexError,
  ones,
  ShapeError,
  tensor,
  zeros,
} from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import { type Any, assertRefused, loose } from "../support.ts";
import { BACKENDS, using } from "../ops/table/backends.ts";
import { testGolden } from "./golden.ts";

testGolden("loss");

for (const { name, on } of BACKENDS) {
  const device = loose(typeof on === "string" ? on : "cpu");
  test(`logits far from 0, and classes of every integer dtype, ${name}`, () =>
    using(on, () => {
      const none = { reduction: "none" } as const;
      const x = tensor([-1000, 1000, 1000]).to(device);
      const y = tensor([0, 0, 1]).to(device);
      assertEquals(nn.bceWithLogits(x, y, none).cpu().toArray(), [0, 1000, 0]);
      const logits = tensor([[1000, 0, -1000], [0, 1000, 0]]).to(device);
      for (const dtype of ["int8", "uint8", "int16", "int32", "int64", "uint64"] as const) {
        const classes = (values: number[]): Any => tensor(values, { dtype }).to(device);
        const made = nn.crossEntropy(logits, classes([2, 1]), none);
        assertEquals(made.cpu().toArray(), [2000, 0]);
        const bad = dtype.startsWith("u") ? [3] : [3, -1, -3];
        for (const one of bad) {
          assertThrows(
            () => nn.crossEntropy(logits, classes([1, one])).cpu().toArray(),
            IndexError,
            // A device reports a bad index after the call.
            device === "cpu"
              ? `Cannot crossEntropy with class ${one} at [1] of the targets: there are 3 classes`
              : "of size 3",
          );
        }
        if (dtype.startsWith("u")) continue;
        const ignored = nn.crossEntropy(logits, classes([-100, 0]), none);
        assertEquals(ignored.cpu().toArray(), [0, 1000]);
        assertEquals(nn.crossEntropy(logits, classes([-100, 0])).cpu().item(), 1000);
        assertEquals(nn.crossEntropy(logits, classes([-100, -100])).cpu().item(), NaN);
      }
    }));
}

test("losses of 16-bit floats are summed in 32 bits", () => {
  const x = ones([3000], { dtype: "float16" });
  assertEquals(nn.mseLoss(x, x.mul(0), { reduction: "sum" }).item(), 3000);
  assertEquals(nn.l1Loss(x, ones([3000]).mul(4)).item(), 3);
});

test("losses are ops of programs", () => {
  const f = compile((x: Any, classes: Any) => nn.crossEntropy(x, classes, { labelSmoothing: 0.5 }));
  const [x, classes] = [tensor([[1, 2], [3, 5]]), tensor([1, 0], { dtype: "int32" })];
  assertEquals(f(x, classes).item(), nn.crossEntropy(x, classes, { labelSmoothing: 0.5 }).item());
});

test("arguments that do not fit are refused", () => {
  const [x, y] = [ones([2, 3]), ones([3])];
  const pairs = [
    ...["mseLoss", "l1Loss", "smoothL1Loss", "huberLoss", "binaryCrossEntropy", "bceWithLogits"],
    ...["klDiv", "cosineSimilarity"],
  ];
  for (const name of pairs) {
    const of = loose(nn)[name];
    assertRefused(() => of(x, y), ShapeError, [name, "[2, 3]", "[3]"], x, y);
    const whole = ones([2, 3], { dtype: "int32" });
    assertRefused(() => of(x, whole), DTypeError, [name, "int32"], x);
    assertRefused(() => of(whole, x), DTypeError, [name, "int32"], x);
    assertThrows(() => of(x, x, { size: 1 }), TypeError, "size");
    if (name === "cosineSimilarity") continue;
    assertRefused(() => of(x, x, { reduction: "max" }), ArgumentError, [name, '"max"', '"sum"'], x);
  }
  const huber = (delta: number) => () => nn.huberLoss(x, x, { delta });
  assertRefused(huber(0), ArgumentError, ["huberLoss", "delta 0"], x);
  const smooth = () => nn.smoothL1Loss(x, x, { beta: -1 });
  assertRefused(smooth, ArgumentError, ["smoothL1Loss", "beta -1"], x);
  const weighted = () => nn.bceWithLogits(x, x, { posWeight: ones([2]) });
  assertRefused(weighted, ShapeError, ["bceWithLogits", "posWeight", "[2]"], x);
  const alike = () => nn.cosineEmbeddingLoss(x, x, ones([3]));
  assertRefused(alike, ShapeError, ["cosineEmbeddingLoss", "[3]", "[2]"], x);

  const classes = zeros([2], { dtype: "int32" });
  const entropy = (...args: unknown[]) => () => loose(nn).crossEntropy(...args);
  assertRefused(
    entropy(x, zeros([3], { dtype: "int32" })),
    ShapeError,
    ["[2, 3]", "[3]", "[2]"],
    x,
  );
  assertRefused(entropy(x, y), ShapeError, ["crossEntropy", "probabilities", "[3]"], x);
  assertRefused(entropy(x, classes, { weight: ones([2]) }), ShapeError, ["weight", "[3]"], x);
  assertRefused(entropy(x, classes, { labelSmoothing: 2 }), ArgumentError, ["labelSmoothing 2"], x);
  assertRefused(entropy(x, classes.greater(0)), DTypeError, ["crossEntropy", "bool"], x);
  assertRefused(() => nn.nllLoss(x, x), DTypeError, ["nllLoss", "float32", "integers"], x);
  assertRefused(entropy(ones([]), zeros([], { dtype: "int32" })), ShapeError, [
    "crossEntropy shape []",
  ]);
  const axis = () => nn.cosineSimilarity(y, y);
  assertRefused(axis, AxisError, ["cosineSimilarity", "1"], y);
});

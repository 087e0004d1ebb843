/**
 * Ops of ONNX files with inputs and attributes that onnx's node tests do not have: what ONNX Runtime
 * computes, or an error before work and memory that nothing limits.
 *
 * @module
 */
import { assertEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import {
  ArgumentError,
  OutOfMemoryError,
  ShapeError,
  type Tensor,
  tensor,
  zeros,
} from "../../mod.ts";
import { type Model, open, type Value } from "../../src/onnx/mod.ts";
import {
  type AttributeValue,
  floats,
  type GraphParts,
  int64s,
  makeModel,
  type TensorParts,
} from "./make.ts";

type Attributes = Readonly<Record<string, AttributeValue>>;

/** A model of one node: its input x, if it has one, then constants. */
function openNode(
  op: string,
  constants: readonly TensorParts[],
  attributes: Attributes,
  { opset = 22, reads = true, outputs = ["y"] }: {
    readonly opset?: number;
    readonly reads?: boolean;
    readonly outputs?: readonly string[];
  } = {},
): Promise<Model> {
  const tensors = constants.map((one, k) => ({ ...one, name: `c${k}` }));
  const inputs = [...reads ? ["x"] : [], ...tensors.map(({ name }) => name)];
  const graph: GraphParts = {
    inputs: reads ? [["x", "float32"]] : [],
    outputs: outputs.map((name) => [name, "float32"]),
    nodes: [[op, inputs, outputs, attributes]],
    tensors,
  };
  return open(makeModel(graph, opset));
}

const list = (value: Value): unknown => (value as Tensor).toArray();
const ints = (...data: readonly number[]): TensorParts => int64s("", data);
const int = (value: number): TensorParts => int64s("", [value], []);
const float = (value: number): TensorParts => floats("", [], [value]);

test("negative axes of softmax and its kind count from the end in opset 11, too", async () => {
  const x = tensor([[1, 2], [4, 3]]);
  using rows = await openNode("Hardmax", [], { axis: { int: -1 } }, { opset: 11 });
  assertEquals(list(rows.run({ x })["y"]), [[0, 1], [1, 0]]);
  using all = await openNode("Hardmax", [], { axis: { int: -2 } }, { opset: 11 });
  assertEquals(list(all.run({ x })["y"]), [[0, 0], [1, 0]]);
  using none = await openNode("LogSoftmax", [], { axis: { int: 2 } }, { opset: 11 });
  assertEquals(list(none.run({ x })["y"]), [[0, 0], [0, 0]]);
});

test("Hardmax of no elements has no elements", async () => {
  using model = await openNode("Hardmax", [], { axis: { int: -1 } });
  assertEquals((model.run({ x: zeros([2, 0]) })["y"] as Tensor).shape, [2, 0]);
});

test("LpPool rounds the number of windows up with ceil_mode", async () => {
  const attributes = { kernel_shape: [2], strides: [2], p: { int: 1 }, ceil_mode: { int: 1 } };
  using model = await openNode("LpPool", [], attributes);
  assertEquals(list(model.run({ x: tensor([[[1, -2, 3]]]) })["y"]), [[[3, 3]]]);
});

test("AffineGrid of one axis of one element, with corners and without", async () => {
  const theta = floats("", [1, 2, 3], [1, 0, 0, 0, 1, 0]);
  for (const [corners, y] of [[0, [-0.5, 0.5]], [1, [-1, 1]]] as const) {
    const attributes = { align_corners: { int: corners } };
    using model = await openNode("AffineGrid", [theta, ints(1, 1, 2, 1)], attributes, {
      reads: false,
    });
    assertEquals(list(model.run({})["y"]), [[[[0, y[0]]], [[0, y[1]]]]]);
  }
});

const HUGE = 2 ** 40;
const text = (value: string): AttributeValue => ({ text: value });
const TERMS: Attributes = {
  ...{ mode: text("TF"), max_skip_count: { int: HUGE } },
  ...{ min_gram_length: { int: -HUGE }, max_gram_length: { int: HUGE } },
  ...{ ngram_counts: [0, 0], ngram_indexes: [0], pool_int64s: [1, 3] },
};
const NOTHING: AttributeValue = { graph: { nodes: [], inputs: [], outputs: [] } };

/** Calls that are refused: the op, constants, attributes and the shape of x, and the error. */
const REFUSED: readonly (readonly [
  op: string,
  constants: readonly TensorParts[],
  attributes: Attributes,
  shape: readonly number[] | undefined,
  // deno-lint-ignore no-explicit-any
  error: new (...args: any[]) => Error,
  message: string,
])[] = [
  ["SplitToSequence", [int(0)], {}, [4], ShapeError, "parts of 0 elements"],
  ["Split", [], { num_outputs: { int: -3 } }, [4], ArgumentError, "num_outputs is -3, of 1"],
  ["Scan", [], { num_scan_inputs: { int: HUGE }, body: NOTHING }, [2], ArgumentError, "num_scan"],
  ["Scan", [], { num_scan_inputs: { int: 0 }, body: NOTHING }, [2], ArgumentError, "num_scan"],
  ["Loop", [int(3)], { body: NOTHING }, undefined, ArgumentError, "its body has 0 outputs"],
  ["HannWindow", [int(HUGE)], {}, undefined, OutOfMemoryError, "Cannot allocate"],
  [
    "AffineGrid",
    [floats("", [1, 2, 3], [1, 0, 0, 0, 1, 0]), ints(1, 1, HUGE, HUGE)],
    {},
    undefined,
    OutOfMemoryError,
    "",
  ],
  [
    "AffineGrid",
    [floats("", [1, 2, 3], [1, 0, 0, 0, 1, 0]), ints(1, 1, HUGE, 1)],
    {},
    undefined,
    OutOfMemoryError,
    "",
  ],
  [
    "AffineGrid",
    [floats("", [1, 2, 3], [1, 0, 0, 0, 1, 0]), ints(1, 1, 0, 2)],
    {},
    undefined,
    ShapeError,
    "a grid of [0, 2]",
  ],
  [
    "MelWeightMatrix",
    [int(9), int(64), int(8000), float(0), float(1e30)],
    {},
    undefined,
    ArgumentError,
    "at 8000 Hz",
  ],
  [
    "MelWeightMatrix",
    [int(9), int(64), int(0), float(0), float(0)],
    {},
    undefined,
    ArgumentError,
    "at 0 Hz",
  ],
  [
    "MelWeightMatrix",
    [int(HUGE), int(64), int(8000), float(0), float(4000)],
    {},
    undefined,
    ArgumentError,
    "filters of",
  ],
  [
    "MelWeightMatrix",
    [int(-5), int(64), int(8000), float(0), float(4000)],
    {},
    undefined,
    ArgumentError,
    "filters of",
  ],
  [
    "TfIdfVectorizer",
    [ints(1, 2, 3)],
    { ...TERMS, ngram_indexes: [HUGE] },
    undefined,
    ArgumentError,
    "ngram_indexes",
  ],
  [
    "TfIdfVectorizer",
    [ints(1, 2, 3)],
    { ...TERMS, ngram_indexes: [-1] },
    undefined,
    ArgumentError,
    "ngram_indexes",
  ],
  [
    "RoiAlign",
    [floats("", [1, 4], [0, 0, 1, 1]), ints(0)],
    { sampling_ratio: { int: HUGE } },
    [1, 1, 4, 4],
    ArgumentError,
    "sampling_ratio",
  ],
  [
    "Pad",
    [ints(1, 1)],
    { mode: text("constructor") },
    [2],
    ArgumentError,
    "mode constructor is not one of",
  ],
  [
    "ScatterElements",
    [ints(0), floats("", [1], [1])],
    { reduction: text("toString") },
    [3],
    ArgumentError,
    "reduction toString",
  ],
  [
    "Resize",
    [floats("", [0], []), floats("", [1], [2])],
    { mode: text("valueOf") },
    [3],
    ArgumentError,
    "mode valueOf",
  ],
  [
    "RNN",
    [floats("", [1, 1, 1], [1]), floats("", [1, 1, 1], [1])],
    { hidden_size: { int: 1 }, direction: text("constructor") },
    [1, 1, 1],
    ArgumentError,
    "direction constructor",
  ],
];

test("attributes and sizes that nothing limits are errors at once", async () => {
  for (const [op, constants, attributes, shape, kind, message] of REFUSED) {
    using model = await openNode(op, constants, attributes, { reads: shape !== undefined });
    const feeds: Record<string, Tensor> = shape === undefined ? {} : { x: zeros(shape) };
    assertThrows(() => model.run(feeds), kind, message, op);
  }
});

test("terms of more elements and skips than a document has cost nothing", async () => {
  using model = await openNode("TfIdfVectorizer", [ints(1, 2, 3)], TERMS, { reads: false });
  assertEquals(list(model.run({})["y"]), [1]);
});

/**
 * Ops of ONNX files with inputs and attributes that onnx's node tests do not have.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
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
import { type AttributeValue, type GraphParts, makeModel, type TensorParts } from "./make.ts";

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

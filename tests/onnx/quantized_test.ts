/**
 * Quantized models keep their values as bytes: which nodes become ops of bytes, which do not, and that their
 * results are those of ops of bytes in files.
 *
 * @module
 */
import { assertEquals, assertThrows } from "@std/assert";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { arange, ArgumentError, type Tensor, tensor } from "../../mod.ts";
import { type Model, open, readTensor, type Value } from "../../src/onnx/mod.ts";
import { floats, type GraphParts, makeModel, type NodeParts, type TensorParts } from "./make.ts";

interface Golden {
  readonly name: string;
  readonly model: string;
  readonly inputs: readonly { readonly name: string; readonly data: string }[];
}

const CASES: readonly Golden[] = JSON.parse(
  readFileSync(new URL("../golden/onnx/quantized.json", import.meta.url), "utf8"),
);

/** The ops of the program of a model, in their order. */
function opsOf(model: Model): string[] {
  const text = String(model.explain());
  return [...text.matchAll(/^ +%\d+ +(\w+)\(/gm)].map(([, op]) => op!);
}

test("models of exporters convolve and multiply bytes", async () => {
  const wanted = {
    network: ["QLinearConv", "QLinearConv", "QLinearConv", "QLinearConv", "matmulInteger"],
    mixer: ["matmulInteger", "matmulInteger"],
    torch: ["QLinearConv", "matmulInteger"],
    torch_floats: ["QLinearConv", "matmulInteger"],
    moved_bytes: [],
  };
  for (const { name, model: data, inputs } of CASES) {
    const [kind, ops] = Object.entries(wanted).findLast(([key]) => name.startsWith(key)) ?? [];
    if (ops === undefined) continue;
    using model = await open(Uint8Array.fromBase64(data));
    const feeds: Record<string, Value> = {};
    for (const one of inputs) feeds[one.name] = await readTensor(Uint8Array.fromBase64(one.data));
    for (const made of Object.values(model.run(feeds))) (made as Tensor).dispose();
    const found = opsOf(model);
    const products = found.filter((op) => /conv|matmul|linear/i.test(op));
    assertEquals(products, [...ops], `${name}, ${kind}`);
    if (kind === "torch") assertEquals(found, ["chain", "QLinearConv", "matmulInteger"]);
  }
});

const bytes = (
  name: string,
  type: "int8" | "uint8",
  dims: readonly number[],
  data: readonly number[],
): TensorParts => ({ name, type, dims, raw: Uint8Array.from(data) });

const int32s = (name: string, data: readonly number[]): TensorParts => ({
  ...{ name, type: "int32", dims: [data.length] },
  raw: new Uint8Array(Int32Array.from(data).buffer),
});

const CONSTANTS: readonly TensorParts[] = [
  floats("s", [], [0.5]),
  bytes("z", "uint8", [], [3]),
  floats("ws", [2], [0.25, 0.125]),
  bytes("wz", "int8", [2], [0, 0]),
  bytes("w", "int8", [2, 1, 2, 2], [1, 2, -3, 4, 5, -6, 7, 100]),
  floats("ys", [], [0.75]),
  bytes("yz", "uint8", [], [10]),
  floats("b", [2], [1.5, -2]),
  floats("low", [], [-1]),
  floats("high", [], [50]),
];

/** The nodes of a convolution of bytes x by w between floats, which makes floats c. */
const CONV: readonly NodeParts[] = [
  ["DequantizeLinear", ["x", "s", "z"], ["xf"]],
  ["DequantizeLinear", ["w", "ws", "wz"], ["wf"], { axis: { int: 0 } }],
  ["Conv", ["xf", "wf", "b"], ["c"]],
];

function openGraph(
  nodes: readonly NodeParts[],
  outputs: GraphParts["outputs"],
  more: readonly TensorParts[] = [],
): Promise<Model> {
  const known = [...CONSTANTS, ...more];
  return open(makeModel({ inputs: [["x", "uint8"]], outputs, nodes, tensors: known }));
}

const x = arange(16).astype("uint8").mul(11).astype("uint8").reshape([1, 1, 4, 4]);
const list = (value: Value): unknown => (value as Tensor).toArray();

test("a convolution between floats gives the bytes of QLinearConv, within an activation's limits", async () => {
  const bias = int32s("bias", [12, -32]);
  const inputs = ["x", "s", "z", "w", "ws", "wz", "ys", "yz", "bias"];
  using wanted = await openGraph([["QLinearConv", inputs, ["y"]]], [["y", "uint8"]], [bias]);
  const quantize: NodeParts = ["QuantizeLinear", ["c", "ys", "yz"], ["y"]];
  using plain = await openGraph([...CONV, quantize], [["y", "uint8"]]);
  const all = wanted.run({ x })["y"] as Tensor;
  assertEquals(list(plain.run({ x })["y"]), all.toArray());
  assertEquals(opsOf(plain), ["QLinearConv"]);
  const limits: Record<string, [NodeParts, number, number]> = {
    Relu: [["Relu", ["c"], ["r"]], 10, 255],
    Clip: [["Clip", ["c", "low", "high"], ["r"]], 9, 77],
    open: [["Clip", ["c", "", "high"], ["r"]], 0, 77],
  };
  for (const [name, [node, low, high]] of Object.entries(limits)) {
    const nodes = [...CONV, node, ["QuantizeLinear", ["r", "ys", "yz"], ["y"]]] as NodeParts[];
    using model = await openGraph(nodes, [["y", "uint8"]]);
    assertEquals(list(model.run({ x })["y"]), all.clip(low, high).toArray(), name);
    assertEquals(opsOf(model), ["QLinearConv"], name);
  }
});

test("floats that something else reads stay floats, and give the same bytes", async () => {
  const quantize: NodeParts = ["QuantizeLinear", ["c", "ys", "yz"], ["y"]];
  using plain = await openGraph([...CONV, quantize], [["y", "uint8"]]);
  const wanted = list(plain.run({ x })["y"]);
  using both = await openGraph([...CONV, quantize], [["y", "uint8"], ["c", "float32"]]);
  const { y, c } = both.run({ x });
  assertEquals(list(y), wanted);
  const [first] = (c as Tensor).shape.slice(1);
  assertEquals([first, (c as Tensor).dtype], [2, "float32"]);
  // 0.5 · 0.25 for each product, and the bias.
  const sum = [1, 2, -3, 4].reduce((all, w, k) => all + w * ([0, 11, 44, 55][k]! - 3), 0);
  assertEquals((c as Tensor).toTypedArray()[0], sum / 8 + 1.5);
  // One scale for all is of no axis.
  const turned = CONV.map((node) => node[1][0] === "w" ? [...node.slice(0, 3)] : node);
  const other: TensorParts[] = [floats("ws1", [1], [0.25]), bytes("wz1", "int8", [1], [0])];
  const named = turned.map(([op, inputs, ...rest]) => [
    op,
    (inputs as string[]).map((name) => name === "ws" || name === "wz" ? `${name}1` : name),
    ...rest,
  ]) as unknown as NodeParts[];
  using single = await openGraph([...named, quantize], [["y", "uint8"]], other);
  single.run({ x });
  assertEquals(opsOf(single), ["QLinearConv"]);
});

test("scales that are inputs, and a bias beyond int32, are floats", async () => {
  const tensors = [bytes("w", "int8", [2, 2], [1, 2, 3, -4]), ...CONSTANTS.slice(1, 2)];
  const product = (inputs: GraphParts["inputs"], more: readonly TensorParts[]) =>
    open(makeModel({
      inputs: [["x", "uint8"], ...inputs ?? []],
      outputs: [["y", "uint8"]],
      nodes: [["QLinearMatMul", ["x", "s", "z", "w", "t", "wz", "u", "yz"], ["y"]]],
      tensors: [...tensors, bytes("wz", "int8", [], [0]), bytes("yz", "uint8", [], [9]), ...more],
    }));
  const scales = { s: 0.5, t: 0.25, u: 0.375 };
  const constants = Object.entries(scales).map(([name, value]) => floats(name, [], [value]));
  using fixed = await product([], constants);
  using given = await product(Object.keys(scales).map((name) => [name, "float32", []]), []);
  const rows = tensor([[4, 5], [200, 7]], { dtype: "uint8" });
  const feeds = Object.entries(scales).map(([name, value]) => [name, tensor(value)]);
  const wanted = fixed.run({ x: rows })["y"];
  assertEquals(list(given.run({ x: rows, ...Object.fromEntries(feeds) })["y"]), list(wanted));
  assertEquals(list(wanted), [[11, 7], [79, 135]]);
  const [row] = list(wanted) as number[][];
  const vector = tensor([4, 5], { dtype: "uint8" });
  assertEquals(list(fixed.run({ x: vector })["y"]), row);
  const big = CONV.map((node) => node[0] === "Conv" ? ["Conv", ["xf", "wf", "big"], ["c"]] : node);
  const nodes = [...big, ["QuantizeLinear", ["c", "ys", "yz"], ["y"]]] as NodeParts[];
  using model = await openGraph(nodes, [["y", "uint8"]], [floats("big", [2], [1e12, 0])]);
  assertEquals((model.run({ x })["y"] as Tensor).toTypedArray()[0], 255);
  // The sums stay exact, and the bias is added to their floats.
  assertEquals(opsOf(model)[0], "QLinearConv");
});

test("a bias between the steps of sums is not rounded where results tell", async () => {
  // Steps are 1/8 and 1/16; the sum of the first window is -220.
  const sum = [1, 2, -3, 4].reduce((all, w, k) => all + w * ([0, 11, 44, 55][k]! - 3), 0);
  const more = [floats("odd", [2], [0.05, 0.02]), floats("fine", [], [1 / 512])];
  const nodes = CONV.map((node) =>
    node[0] === "Conv" ? ["Conv", ["xf", "wf", "odd"], ["c"]] : node
  ) as NodeParts[];
  using whole = await openGraph(nodes, [["c", "float32"]], more);
  const c = whole.run({ x })["c"] as Tensor;
  assertEquals(c.toTypedArray()[0], Math.fround(sum / 8 + Math.fround(0.05)));
  assertEquals(opsOf(whole)[0], "QLinearConv");
  // A step of the sums is 64 of the output.
  const low = sum / 8 - 0.2, by = floats("by", [2], [-low, 0.02]);
  const shifted = nodes.map((node) =>
    node[0] === "Conv" ? ["Conv", ["xf", "wf", "by"], ["c"]] : node
  ) as NodeParts[];
  const quantize: NodeParts = ["QuantizeLinear", ["c", "fine", "yz"], ["y"]];
  using fine = await openGraph([...shifted, quantize], [["y", "uint8"]], [...more, by]);
  assertEquals((fine.run({ x })["y"] as Tensor).toTypedArray()[0], 10 + Math.round(0.2 * 512));
  // Products too, whose bias is an int32 of another scale.
  using product = await openGraph(
    [
      ["DequantizeLinear", ["x", "s", "z"], ["xf"]],
      ["DequantizeLinear", ["m", "s"], ["mf"]],
      ["DequantizeLinear", ["i", "third"], ["bias"]],
      ["Gemm", ["xf", "mf", "bias"], ["c"]],
    ],
    [["c", "float32"]],
    [
      bytes("m", "int8", [2, 2], [1, 2, 3, 4]),
      int32s("i", [1, 5]),
      floats("third", [], [1 / 3]),
    ],
  );
  const rows = tensor([[5, 7]], { dtype: "uint8" });
  const third = Math.fround(1 / 3);
  assertEquals(list(product.run({ x: rows })["c"]), [[
    Math.fround(14 / 4 + third),
    Math.fround(20 / 4 + Math.fround(5 * third)),
  ]]);
  assertEquals(opsOf(product)[0], "matmulInteger");
});

test("a bias of more axes than a product gives a result of these", async () => {
  for (const shape of [[2], [1, 2], [1, 1, 2]]) {
    using model = await openGraph(
      [
        ["DequantizeLinear", ["x", "s", "z"], ["xf"]],
        ["DequantizeLinear", ["m", "s"], ["mf"]],
        ["MatMul", ["xf", "mf"], ["c"]],
        ["Add", ["c", "bias"], ["sum"]],
        ["QuantizeLinear", ["sum", "ys", "yz"], ["y"]],
      ],
      [["y", "uint8"]],
      [bytes("m", "int8", [2, 2], [1, 2, 3, 4]), floats("bias", shape, [1.5, -2])],
    );
    // 14 / 4 + 1.5 and 20 / 4 - 2, in steps of 0.75 from 10.
    const y = model.run({ x: tensor([5, 7], { dtype: "uint8" }) })["y"] as Tensor;
    assertEquals([y.shape, [...y.toTypedArray()]], [shape, [17, 14]]);
  }
});

test("a scale for each element along the axis of a concatenation stays behind it", async () => {
  using model = await openGraph(
    [
      ["DequantizeLinear", ["x", "s", "z"], ["xf"]],
      ["Concat", ["xf", "xf"], ["all"], { axis: { int: 1 } }],
      ["QuantizeLinear", ["all", "each", "zeros"], ["y"], { axis: { int: 1 } }],
    ],
    [["y", "uint8"]],
    [
      floats("each", [4], [0.5, 1, 0.25, 0.125]),
      bytes("zeros", "uint8", [4], [0, 1, 2, 3]),
    ],
  );
  // The elements are 1 and 2.
  const y = model.run({ x: tensor([[5, 7]], { dtype: "uint8" }) })["y"];
  assertEquals(list(y), [[2, 3, 6, 19]]);
});

test("products of integers take vectors, as those of floats do", async () => {
  const [row, column] = [[[5, 7]], [[1], [3]]].map((rows) => tensor(rows, { dtype: "uint8" }));
  for (
    const [x, m, wanted] of [
      [row!, column!, [[20]]],
      [row!.flatten(), column!, [20]],
      [row!, column!.flatten(), [20]],
      [row!.flatten(), column!.flatten(), 20],
    ] as const
  ) {
    const known = bytes("m", "uint8", m.shape, [...m.toTypedArray() as Uint8Array]);
    // The zero points are 3 and -1: 2 · 2 + 4 · 4.
    const minus = bytes("minus", "int8", [], [255]);
    for (const tensors of [[known], []]) {
      using model = await open(makeModel({
        inputs: [["x", "uint8"], ...(tensors.length === 0 ? [["m", "uint8"] as const] : [])],
        outputs: [["y", "int32"]],
        nodes: [["MatMulInteger", ["x", "m", "z", "minus"], ["y"]]],
        tensors: [...tensors, minus, ...CONSTANTS],
      }));
      const y = model.run(tensors.length === 0 ? { x, m } : { x })["y"] as Tensor;
      assertEquals([y.dtype, y.toArray()], ["int32", wanted], `${x.shape} by ${m.shape}`);
    }
  }
});

test("QLinearConcat without an input is an error", async () => {
  using model = await open(makeModel({
    inputs: [],
    outputs: [["y", "uint8"]],
    nodes: [["QLinearConcat", ["s", "z"], ["y"], { axis: { int: 0 } }, "com.microsoft"]],
    tensors: CONSTANTS.slice(0, 2),
  }));
  assertThrows(() => model.run({}), ArgumentError, "2 inputs");
});

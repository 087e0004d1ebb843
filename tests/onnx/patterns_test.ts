/**
 * Functions that exporters write as several ops run as one, and others that look like them do not.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import { random, type Tensor, tensor } from "../../mod.ts";
import { ShapeError } from "../../src/base/errors.ts";
import { open, type Value } from "../../src/onnx/mod.ts";
import type { AnyTensor } from "../../src/tensor/tensor.ts";
import {
  floats,
  type GraphParts,
  int64s,
  makeModel,
  type NodeParts,
  type TensorParts,
} from "./make.ts";

const X = [-4, -2.5, -1, 0, 0.5, 1, 3, 4];
const TENSORS = [
  ...[floats("half", [], [0.5]), floats("one", [], [1]), floats("two", [], [2])],
  ...[floats("three", [1], [3]), floats("zero", [], [0]), floats("six", [], [6])],
  ...[floats("five", [], [5]), floats("sixth", [], [1 / 6]), floats("root", [], [Math.SQRT2])],
  ...[
    floats("near", [], [1e-5]),
    floats("w", [4], [1, 2, -1, 0.5]),
    floats("b", [4], [0, 1, 2, 3]),
  ],
  int64s("last", [-1]),
];

const sigmoid = (x: number): number => 1 / (1 + Math.exp(-x));
const ramp = (x: number): number => x * Math.min(Math.max(x + 3, 0), 6) / 6;
/** By the series, to double precision for |x| < 3. */
const erf = (x: number): number => {
  let sum = 0, term = x;
  for (let k = 0; k < 80; k++) {
    sum += term / (2 * k + 1);
    term *= -x * x / (k + 1);
  }
  return 2 / Math.sqrt(Math.PI) * sum;
};
const gelu = (x: number): number => x * (1 + erf(x / Math.SQRT2)) / 2;

function norm(x: readonly number[]): number[] {
  return [0, 4].flatMap((at) => {
    const row = x.slice(at, at + 4), mean = row.reduce((a, b) => a + b) / 4;
    const variance = row.reduce((a, b) => a + (b - mean) ** 2, 0) / 4;
    return row.map((a, i) =>
      (a - mean) / Math.sqrt(variance + 1e-5) * [1, 2, -1, 0.5][i]! + [0, 1, 2, 3][i]!
    );
  });
}

const each = (f: (x: number) => number) => (x: readonly number[]): number[] => x.map(f);

/** The nodes from x to y, what they compute, and the op in the program; undefined if none replaces them. */
const CASES: Record<
  string,
  [op: string | undefined, wanted: (x: readonly number[]) => number[], ...nodes: NodeParts[]]
> = {
  "silu of YOLO": [
    "silu",
    each((x) => x * sigmoid(x)),
    ["Sigmoid", ["x"], ["s"]],
    ["Mul", ["x", "s"], ["y"]],
  ],
  "silu, the factor first": [
    "silu",
    each((x) => x * sigmoid(x)),
    ["Sigmoid", ["x"], ["s"]],
    ["Mul", ["s", "x"], ["y"]],
  ],
  "twice silu": [
    undefined,
    each((x) => 2 * x * sigmoid(x)),
    ["Sigmoid", ["x"], ["s"]],
    ["Mul", ["s", "two"], ["t"]],
    ["Mul", ["t", "x"], ["y"]],
  ],
  "hard swish of PaddlePaddle": [
    "hardSwish",
    each(ramp),
    ["Add", ["x", "three"], ["a"]],
    ["Clip", ["a", "zero", "six"], ["c"]],
    ["Mul", ["x", "c"], ["m"]],
    ["Div", ["m", "six"], ["y"]],
  ],
  "hard swish of PyTorch before opset 14": [
    "hardSwish",
    each(ramp),
    ["Add", ["x", "three"], ["a"]],
    ["Clip", ["a", "zero", "six"], ["c"]],
    ["Div", ["c", "six"], ["d"]],
    ["Mul", ["x", "d"], ["y"]],
  ],
  "hard swish by a hard sigmoid": [
    "hardSwish",
    each(ramp),
    ["HardSigmoid", ["x"], ["h"], { alpha: { float: 1 / 6 }, beta: { float: 0.5 } }],
    ["Mul", ["x", "h"], ["y"]],
  ],
  "limits of another function": [
    undefined,
    each((x) => x * Math.min(Math.max(x + 3, 0), 5) / 6),
    ["Add", ["x", "three"], ["a"]],
    ["Clip", ["a", "zero", "five"], ["c"]],
    ["Mul", ["x", "c"], ["m"]],
    ["Div", ["m", "six"], ["y"]],
  ],
  "gelu of PyTorch": [
    "gelu",
    each(gelu),
    ["Div", ["x", "root"], ["d"]],
    ["Erf", ["d"], ["e"]],
    ["Add", ["e", "one"], ["a"]],
    ["Mul", ["x", "a"], ["m"]],
    ["Mul", ["m", "half"], ["y"]],
  ],
  "gelu of TensorFlow": [
    "gelu",
    each(gelu),
    ["Div", ["x", "root"], ["d"]],
    ["Erf", ["d"], ["e"]],
    ["Add", ["one", "e"], ["a"]],
    ["Mul", ["half", "a"], ["m"]],
    ["Mul", ["x", "m"], ["y"]],
  ],
  "gelu, half of x first": [
    "gelu",
    each(gelu),
    ["Div", ["x", "root"], ["d"]],
    ["Erf", ["d"], ["e"]],
    ["Add", ["e", "one"], ["a"]],
    ["Mul", ["x", "half"], ["h"]],
    ["Mul", ["h", "a"], ["y"]],
  ],
  "erf of another multiple": [
    undefined,
    each((x) => x * (1 + erf(x / 2)) / 2),
    ["Div", ["x", "two"], ["d"]],
    ["Erf", ["d"], ["e"]],
    ["Add", ["e", "one"], ["a"]],
    ["Mul", ["x", "a"], ["m"]],
    ["Mul", ["m", "half"], ["y"]],
  ],
  "a norm before opset 17": [
    "layerNorm",
    norm,
    ["ReduceMean", ["x"], ["m"], { axes: [-1] }],
    ["Sub", ["x", "m"], ["d"]],
    ["Pow", ["d", "two"], ["p"]],
    ["ReduceMean", ["p"], ["v"], { axes: [-1] }],
    ["Add", ["v", "near"], ["e"]],
    ["Sqrt", ["e"], ["s"]],
    ["Div", ["d", "s"], ["n"]],
    ["Mul", ["n", "w"], ["g"]],
    ["Add", ["g", "b"], ["y"]],
  ],
  "a norm by products, constants first": [
    "layerNorm",
    norm,
    ["ReduceMean", ["x"], ["m"], { axes: [-1], keepdims: { int: 1 } }],
    ["Sub", ["x", "m"], ["d"]],
    ["Sub", ["x", "m"], ["d2"]],
    ["Mul", ["d2", "d2"], ["p"]],
    ["ReduceMean", ["p"], ["v"], { axes: [-1] }],
    ["Add", ["near", "v"], ["e"]],
    ["Sqrt", ["e"], ["s"]],
    ["Div", ["d", "s"], ["n"]],
    ["Mul", ["w", "n"], ["g"]],
    ["Add", ["b", "g"], ["y"]],
  ],
  "powers of two in the place of squares of a norm": [
    undefined,
    (x) =>
      [0, 4].flatMap((at) => {
        const row = x.slice(at, at + 4), mean = row.reduce((a, b) => a + b) / 4;
        const scale = Math.sqrt(row.reduce((a, b) => a + 2 ** (b - mean), 0) / 4 + 1e-5);
        return row.map((a, i) => (a - mean) / scale * [1, 2, -1, 0.5][i]! + i);
      }),
    ["ReduceMean", ["x"], ["m"], { axes: [-1] }],
    ["Sub", ["x", "m"], ["d"]],
    ["Pow", ["two", "d"], ["p"]],
    ["ReduceMean", ["p"], ["v"], { axes: [-1] }],
    ["Add", ["v", "near"], ["e"]],
    ["Sqrt", ["e"], ["s"]],
    ["Div", ["d", "s"], ["n"]],
    ["Mul", ["n", "w"], ["g"]],
    ["Add", ["g", "b"], ["y"]],
  ],
};

for (const [name, [op, wanted, ...nodes]] of Object.entries(CASES)) {
  test(`${name} ${op === undefined ? "stays as it is" : `is ${op}`}`, async () => {
    const graph: GraphParts = {
      inputs: [["x", "float32", ["rows", 4]]],
      outputs: [["y", "float32"]],
      nodes,
      tensors: TENSORS,
    };
    using model = await open(makeModel(graph, name.includes("norm") ? 13 : 14));
    const run = (): AnyTensor =>
      model.run({ x: tensor([X.slice(0, 4), X.slice(4)]) }).y as AnyTensor;
    const [first, second] = [run(), run()];
    assert(
      first.allclose(tensor(wanted(X)).reshape([2, 4]), { rtol: 1e-5, atol: 1e-6 }),
      `${first}`,
    );
    assert(second.equals(first));
    const found = [...String(model.explain()).matchAll(/\b(silu|hardSwish|gelu|layerNorm)\(/g)];
    assertEquals(found.map(([, one]) => one), op === undefined ? [] : [op]);
  });
}

test("hard swish of integers stays as it is", async () => {
  const graph: GraphParts = {
    inputs: [["x", "int64", [5]]],
    outputs: [["y", "int64"]],
    nodes: [
      ["Add", ["x", "three"], ["a"]],
      ["Clip", ["a", "zero", "six"], ["c"]],
      ["Mul", ["x", "c"], ["m"]],
      ["Div", ["m", "six"], ["y"]],
    ],
    tensors: [int64s("three", [3]), int64s("zero", [0]), int64s("six", [6])],
  };
  using model = await open(makeModel(graph));
  const y = model.run({ x: tensor([-4, -1, 1, 2, 5], { dtype: "int64" }) }).y as AnyTensor;
  assertEquals([y.dtype, y.toArray()], ["int64", [0, 0, 0, 1, 5]]);
});

const ACTIVATIONS: Record<string, [f: (x: number) => number, attributes?: NodeParts[3]]> = {
  HardSwish: [ramp],
  LeakyRelu: [(x) => x > 0 ? x : 0.3 * x, { alpha: { float: 0.3 } }],
  HardSigmoid: [
    (x) => Math.min(Math.max(0.3 * x + 0.4, 0), 1),
    { alpha: { float: 0.3 }, beta: { float: 0.4 } },
  ],
  Elu: [(x) => x > 0 ? x : 0.7 * Math.expm1(x), { alpha: { float: 0.7 } }],
  Mish: [(x) => x * Math.tanh(Math.log1p(Math.exp(x)))],
};

for (const [type, [f, attributes]] of Object.entries(ACTIVATIONS)) {
  test(`${type} is computed with the convolution before it`, async () => {
    const graph: GraphParts = {
      inputs: [["x", "float32", [1, 1, 2, 4]]],
      outputs: [["y", "float32"]],
      // Without a dilation, sums of so few places are a product.
      nodes: [
        ["Conv", ["x", "k"], ["c"], { pads: [0, 2, 0, 2], dilations: [1, 2] }],
        [type, ["c"], ["y"], attributes],
      ],
      tensors: [floats("k", [1, 1, 1, 3], [0, 1.5, 0])],
    };
    using model = await open(makeModel(graph, 18));
    const { y } = model.run({ x: tensor(X).reshape([1, 1, 2, 4]) });
    const wanted = tensor(X.map((x) => f(1.5 * x))).reshape([1, 1, 2, 4]);
    assert((y as AnyTensor).allclose(wanted, { rtol: 1e-5, atol: 1e-6 }), `${y}`);
    const found = String(model.explain()).match(/(?<=conv2d → )\w+(?=\()/)?.[0];
    assertEquals(found?.toLowerCase(), type.toLowerCase());
  });
}

const NORM: readonly NodeParts[] = [
  ["ReduceMean", ["x"], ["m"], { axes: [-1] }],
  ["Sub", ["x", "m"], ["d"]],
  ["Mul", ["d", "d"], ["p"]],
  ["ReduceMean", ["p"], ["v"], { axes: [-1] }],
  ["Add", ["v", "near"], ["e"]],
  ["Sqrt", ["e"], ["s"]],
  ["Div", ["d", "s"], ["n"]],
];

/** Patterns whose constants have more axes or elements than x: the inputs, and the rows that y is. */
const BROADCASTS: Record<
  string,
  [x: AnyTensor, wanted: AnyTensor, opset: number, ...nodes: NodeParts[]]
> = {
  "hard swish of a number by a vector of one": [
    tensor(1),
    tensor([2 / 3]),
    14,
    ["Add", ["x", "three"], ["a"]],
    ["Clip", ["a", "zero", "six"], ["c"]],
    ["Mul", ["x", "c"], ["m"]],
    ["Div", ["m", "six"], ["y"]],
  ],
  "hard swish of a number by numbers": [
    tensor(1),
    tensor(2 / 3),
    14,
    ["HardSigmoid", ["x"], ["h"], { alpha: { float: 1 / 6 }, beta: { float: 0.5 } }],
    ["Mul", ["x", "h"], ["y"]],
  ],
  "limits of a number that are vectors of one": [
    tensor(1),
    tensor(2),
    14,
    ["Clip", ["x", "two1", "six"], ["y"]],
  ],
  "gelu of a number by a vector of one": [
    tensor(1),
    tensor([gelu(1)]),
    14,
    ["Div", ["x", "root"], ["d"]],
    ["Erf", ["d"], ["e"]],
    ["Add", ["e", "one1"], ["a"]],
    ["Mul", ["x", "a"], ["m"]],
    ["Mul", ["m", "half"], ["y"]],
  ],
  "a norm of columns of one with weights of four": [
    tensor([[1], [2]]),
    tensor([[0, 1, 2, 3], [0, 1, 2, 3]]),
    13,
    ...NORM,
    ["Mul", ["n", "w"], ["g"]],
    ["Add", ["g", "b"], ["y"]],
  ],
  "a norm of columns of one with a bias of four": [
    tensor([[1], [2]]),
    tensor([[0, 1, 2, 3], [0, 1, 2, 3]]),
    13,
    ...NORM,
    ["Mul", ["n", "two1"], ["g"]],
    ["Add", ["g", "b"], ["y"]],
  ],
  "a norm of a number": [
    tensor(5),
    tensor([0, 1, 2, 3]),
    13,
    ...NORM,
    ["Mul", ["n", "w"], ["g"]],
    ["Add", ["g", "b"], ["y"]],
  ],
  "a norm whose weight is its bias": [
    tensor([[-1, 1, -1, 1]]),
    tensor([[0, 4, 0, 1]]),
    13,
    ...NORM,
    ["Mul", ["n", "w"], ["g"]],
    ["Add", ["g", "w"], ["y"]],
  ],
  "a norm whose weights are those of rows in opset 6": [
    tensor([[-1, 1], [-1, 1], [-1, 1], [-1, 1]]),
    tensor([[-1, 1], [-1, 3], [3, 1], [2.5, 3.5]]),
    6,
    ...NORM,
    ["Mul", ["n", "w"], ["g"], { broadcast: { int: 1 }, axis: { int: 0 } }],
    ["Add", ["g", "b"], ["y"], { broadcast: { int: 1 }, axis: { int: 0 } }],
  ],
  "a product whose second operand is a number times a vector of one": [
    tensor(3),
    tensor([12, 24]),
    14,
    ["Mul", ["ones", "two"], ["a"]],
    ["Mul", ["x", "two1"], ["c"]],
    ["MatMul", ["a", "c"], ["y"]],
  ],
};

for (const [name, [x, wanted, opset, ...nodes]] of Object.entries(BROADCASTS)) {
  test(`${name} broadcasts as the ops do`, async () => {
    const graph: GraphParts = {
      inputs: [["x", "float32"], ["ones", "float32"]],
      outputs: [["y", "float32"]],
      nodes,
      tensors: [...TENSORS, floats("one1", [1], [1]), floats("two1", [1], [2])],
    };
    using model = await open(makeModel(graph, opset));
    for (let run = 0; run < 2; run++) {
      const y = model.run({ x, ones: tensor([[1], [2]]) }).y as AnyTensor;
      assertEquals(y.shape, wanted.shape);
      assert(y.allclose(wanted, { rtol: 1e-4, atol: 1e-4 }), `${y}`);
    }
  });
}

test("weights that do not broadcast to x are an error in LayerNormalization", async () => {
  const graph: GraphParts = {
    inputs: [["x", "float32"]],
    outputs: [["y", "float32"]],
    nodes: [["LayerNormalization", ["x", "w", "b"], ["y"]]],
    tensors: TENSORS,
  };
  using model = await open(makeModel(graph));
  assertThrows(
    () => model.run({ x: tensor([[1], [2]]) }),
    ShapeError,
    "weight of shape [4]: it must broadcast to [1]",
  );
});

test("ops that a program brings stay: norms after convolutions, factors and quantized ops", async () => {
  const x = tensor([[[[1, 2], [3, 4]]]]);
  const own = (f: (x: Tensor) => Tensor) => ({ inputs: [x] }: { inputs: readonly Value[] }) => [
    f(x as Tensor),
  ];
  const parts = { inputs: [["x", "float32"]], outputs: [["y", "float32"]] } as const;
  const run = async (
    nodes: readonly NodeParts[],
    tensors: GraphParts["tensors"],
    ops: Record<string, ReturnType<typeof own>>,
  ) => {
    using model = await open(makeModel({ ...parts, nodes, tensors: tensors! }, 15), { ops });
    return (model.run({ x }).y as AnyTensor).flatten().toArray();
  };
  const one = [1, 1, 1, 1].map((n, k) => floats(`${"smvk"[k]}`, k === 3 ? [1, 1, 1, 1] : [1], [n]));
  const norm: NodeParts[] = [
    ["Conv", ["x", "k"], ["c"]],
    ["BatchNormalization", ["c", "s", "s", "m", "v"], ["y"]],
  ];
  const constants = [...one, floats("w", [1], [2])];
  assertEquals(await run(norm, constants, { BatchNormalization: own((x) => x.add(100)) }), [
    ...[101, 102, 103, 104],
  ]);
  const factors: NodeParts[] = [
    ["Mul", ["x", "w"], ["a"]],
    ["Mul", ["x", "w"], ["b"]],
    ["MatMul", ["a", "b"], ["y"]],
  ];
  assertEquals(await run(factors, constants, { MatMul: own((x) => x) }), [2, 4, 6, 8]);
  assertEquals(await run(factors, constants, { Mul: own((x) => x.add(1)) }), [16, 21, 28, 37]);
  const bytes: NodeParts[] = [
    ["QuantizeLinear", ["x", "w"], ["q"]],
    ["DequantizeLinear", ["q", "w"], ["d"]],
    ["Conv", ["d", "k"], ["c"]],
    ["QuantizeLinear", ["c", "w"], ["r"]],
    ["DequantizeLinear", ["r", "w"], ["y"]],
  ];
  const kept = await run(bytes, constants, { Conv: own((x) => x.add(10)) });
  assertEquals(kept, [10, 12, 14, 14]);
});

test("a convolution of float16 stays one with a norm of float32", async () => {
  const half = (name: string, dims: number[], data: number[]): TensorParts => {
    return { name, type: "float16", dims, raw: new Uint8Array(Float16Array.from(data).buffer) };
  };
  const graph: GraphParts = {
    inputs: [["x", "float16", [1, 1, 1, 2]]],
    outputs: [["y", "float16"]],
    nodes: [
      ["Conv", ["x", "k", "b"], ["c"]],
      ["BatchNormalization", ["c", "s", "s", "m", "v"], ["y"], { epsilon: { float: 0 } }],
    ],
    tensors: [
      ...[half("k", [2, 1, 1, 1], [1, 2]), half("b", [2], [0, 1]), floats("s", [2], [1, 2])],
      ...[floats("m", [2], [0, 1]), floats("v", [2], [1, 4])],
    ],
  };
  using model = await open(makeModel(graph, 15));
  const { y } = model.run({ x: tensor([1, 2]).astype("float16").reshape([1, 1, 1, 2]) });
  assertEquals((y as AnyTensor).dtype, "float16");
  assertEquals((y as AnyTensor).toArray(), [[[[2, 3]], [[4, 6]]]]);
});

for (
  const [name, nodes, joined] of [
    ["relu", [["Relu", ["c"], ["y"]]], /linear → relu\(/],
    [
      "silu of two nodes",
      [["Sigmoid", ["c"], ["s"]], ["Mul", ["c", "s"], ["y"]]],
      /linear → silu\(/,
    ],
    ["a bias of channels", [["Add", ["c", "shift"], ["y"]]], /linear → add\(/],
    ["a residual", [["Sigmoid", ["c"], ["s"]], ["Add", ["s", "r"], ["y"]]], /sigmoid → add\(/],
  ] as const
) {
  test(`${name} is computed with a convolution of one place`, async () => {
    for (const images of [1, 3]) {
      const shape = [images, 4, 2, 2];
      const weight = [...random.normal(random.key(1), [32]).toTypedArray()];
      const graph = (outputs: GraphParts["outputs"], more: readonly NodeParts[]): GraphParts => ({
        inputs: [["x", "float32", shape], ["r", "float32", [images, 2, 1, 1]]],
        outputs,
        nodes: [["Conv", ["x", "k"], ["c"]], ...more],
        tensors: [floats("k", [2, 4, 2, 2], weight), floats("shift", [2, 1, 1], [1, -2])],
      });
      const feeds = {
        x: random.normal(random.key(2), shape),
        r: random.normal(random.key(3), [images, 2, 1, 1]),
      };
      using plain = await open(makeModel(graph([["c", "float32"]], [])));
      using model = await open(makeModel(graph([["y", "float32"]], nodes)));
      const c = plain.run(feeds).c as Tensor, own = c.mul(c.sigmoid());
      const wanted = {
        ...{ "relu": c.relu(), "silu of two nodes": own, "a residual": c.sigmoid().add(feeds.r) },
        "a bias of channels": c.add(tensor([[[1]], [[-2]]])),
      }[name];
      for (let run = 0; run < 2; run++) {
        const y = model.run(feeds).y as AnyTensor;
        assertEquals(y.shape, [images, 2, 1, 1]);
        assert(y.allclose(wanted, { rtol: 1e-5, atol: 1e-6 }), `${y} for ${wanted}`);
      }
      const text = String(model.explain());
      assert(joined.test(text), text);
    }
  });
}

test("an op that a program brings is not part of a pattern", async () => {
  const graph: GraphParts = {
    inputs: [["x", "float32", [4]]],
    outputs: [["y", "float32"]],
    nodes: [["Sigmoid", ["x"], ["s"]], ["Mul", ["x", "s"], ["y"]]],
  };
  const Sigmoid = ({ inputs: [x] }: { inputs: readonly Value[] }) => [(x as Tensor).add(1)];
  using model = await open(makeModel(graph), { ops: { Sigmoid } });
  const { y } = model.run({ x: tensor([1, 2, 3, 4]) });
  assertEquals((y as AnyTensor).toArray(), [2, 6, 12, 20]);
});

test("attention of exporters is one op", async () => {
  const shape = [1, 2, 8, 4];
  const graph: GraphParts = {
    inputs: [["q", "float32", shape], ["k", "float32", shape], ["v", "float32", shape]],
    outputs: [["y", "float32"]],
    nodes: [
      ["Transpose", ["k"], ["t"], { perm: [0, 1, 3, 2] }],
      ["MatMul", ["q", "t"], ["p"]],
      ["Div", ["p", "two"], ["d"]],
      ["Softmax", ["d"], ["s"], { axis: { int: -1 } }],
      ["MatMul", ["s", "v"], ["y"]],
    ],
    tensors: TENSORS,
  };
  using model = await open(makeModel(graph));
  const [q, k, v] = [1, 2, 3].map((seed) => random.normal(random.key(seed), shape)) as Tensor[];
  const y = model.run({ q: q!, k: k!, v: v! }).y as AnyTensor;
  const wanted = q!.matmul(k!.mT).div(2).softmax(-1).matmul(v!);
  assert(y.allclose(wanted, { rtol: 1e-5, atol: 1e-6 }), `${y}`);
  const text = String(model.explain());
  assert(/\battention\(/.test(text) && !/\bsoftmax\(/.test(text), text);
});

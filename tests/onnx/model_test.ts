/**
 * `open` of @rowmajor/tensor/onnx, and the class Model: what a file says, runs as programs and beside
 * them, results and lifetimes, errors.
 *
 * @module
 */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import {
  ArgumentError,
  DisposedError,
  DTypeError,
  FormatError,
  fromBuffer,
  full,
  memory,
  ones,
  ReadOnlyError,
  scalar,
  scope,
  ShapeError,
  Slice,
  type Tensor,
  tensor,
  zeros,
} from "../../mod.ts";
import { type Model, open, Strings, type Value } from "../../src/onnx/mod.ts";
import { floats, type GraphParts, int64s, makeModel } from "./make.ts";

const list = (value: Value): unknown => (value as Tensor).toArray();

/** y = relu(x · w + b) for x of any number of rows. */
const LAYER: GraphParts = {
  inputs: [["x", "float32", ["rows", 2]]],
  outputs: [["y", "float32", ["rows", 3]]],
  nodes: [["Gemm", ["x", "w", "b"], ["h"]], ["Relu", ["h"], ["y"]]],
  tensors: [floats("w", [2, 3], [1, 0, -1, 2, 1, 0]), floats("b", [3], [0, 1, 2])],
};

test("a model tells what its file says before it runs", async () => {
  using model = await open(makeModel(LAYER));
  const x = { name: "x", kind: "tensor", dtype: "float32", shape: ["rows", 2] };
  assertEquals(model.inputs, [x as Model["inputs"][number]]);
  assertEquals(model.outputs.map(({ name, shape }) => [name, shape]), [["y", ["rows", 3]]]);
  assertEquals([...model.ops], [["Gemm", 1], ["Relu", 1]]);
  assertEquals([...model.opsets], [["", 21]]);
  assertEquals([...model.metadata], [["author", "a test"]]);
  assertEquals(
    String(model),
    "inputs:\n  x: float32 [rows, 2]\noutputs:\n  y: float32 [rows, 3]",
  );
});

test("nodes run after those whose results they read, in whatever order the file has them", async () => {
  const y: GraphParts = {
    ...LAYER,
    nodes: [["Relu", ["h"], ["y"]], ["Gemm", ["x", "w", "b"], ["h"]]],
  };
  using model = await open(makeModel(y));
  assertEquals(list(model.run({ x: tensor([[1, 1], [2, -1]]) })["y"]), [[3, 2, 1], [0, 0, 0]]);
  const circle: GraphParts = { ...LAYER, nodes: [["Relu", ["h"], ["y"]], ["Neg", ["y"], ["h"]]] };
  await assertRejects(() => open(makeModel(circle)), FormatError, "reads what is computed of");
});

test("results are the caller's own, and the first kind of inputs is one program", async () => {
  using model = await open(makeModel(LAYER));
  const x = tensor([[1, 1], [2, -1]]);
  const first = model.run({ x }), second = await model.async({ x });
  assertEquals(list(first["y"]), [[3, 2, 1], [0, 0, 0]]);
  assertEquals(list(second["y"]), [[3, 2, 1], [0, 0, 0]]);
  assertEquals(model.programs, 1);
  (first["y"] as Tensor).dispose();
  assertEquals(list(second["y"]), [[3, 2, 1], [0, 0, 0]]);
});

test("other kinds of inputs run node by node, and become programs when they come again", async () => {
  using model = await open(makeModel(LAYER));
  const programs = [1, 2, 3, 2, 2, 4].map((rows) => {
    assertEquals(list(model.run({ x: ones([rows, 2]) })["y"]), Array(rows).fill([3, 2, 1]));
    return model.programs;
  });
  assertEquals(programs, [1, 1, 1, 2, 2, 2]);
});

test("of many kinds those become programs that come often, and maxPrograms are kept", async () => {
  using model = await open(makeModel(LAYER), { maxPrograms: 10 });
  const run = (rows: number): void => scope(() => void model.run({ x: ones([rows, 2]) }));
  // As a decoder does: three texts of 30 tokens.
  for (let text = 0; text < 3; text++) for (let rows = 1; rows <= 30; rows++) run(rows);
  const few = model.programs;
  assert(few <= 9, `${few} programs`);
  for (let times = 0; times < 20; times++) run(29);
  assertEquals(model.programs, few + 1);
  for (let rows = 1; rows <= 30; rows++) for (let times = 0; times < 20; times++) run(rows);
  assertEquals(model.programs, 10);
});

test("out takes the results", async () => {
  using model = await open(makeModel(LAYER));
  const x = tensor([[1, 1]]);
  const y = zeros([1, 3]);
  assert(model.run({ x }, { out: { y } })["y"] === y);
  assertEquals(y.toArray(), [[3, 2, 1]]);
  y.fill_(0);
  const later = await model.async({ x }, { out: { y } });
  assert(later["y"] === y);
  assertEquals(y.toArray(), [[3, 2, 1]]);
  const bad = (out: Record<string, Tensor>) => () => model.run({ x }, { out });
  assertThrows(bad({ z: y }), ArgumentError, 'out "z": its outputs are y');
  assertThrows(bad({ y: zeros([2, 3]) }), ShapeError);
  assertThrows(bad({ y: y.readonly() as unknown as Tensor }), ReadOnlyError, "read-only");
});

test("an output that is an input or a weight is a copy", async () => {
  using model = await open(makeModel({
    inputs: [["x", "float32", [2]]],
    outputs: [["a", "float32"], ["b", "float32"], ["w", "float32"]],
    nodes: [["Identity", ["x"], ["a"]], ["Identity", ["x"], ["b"]], ["Identity", ["c"], ["w"]]],
    tensors: [floats("c", [1], [7])],
  }));
  for (let times = 0; times < 3; times++) {
    const x = tensor([1, 2]);
    const { a, b, w } = model.run({ x });
    (a as Tensor).dispose();
    (w as Tensor).fill_(0);
    assertEquals([x.toArray(), list(b)], [[1, 2], [1, 2]]);
  }
  assertEquals(list(model.run({ x: tensor([1, 2]) })["w"]), [7]);
});

test("results are the caller's own also where nodes give views of inputs and weights", async () => {
  using model = await open(makeModel({
    inputs: [["x", "float32", ["n"]], ["i", "int64", []]],
    outputs: [["y", "float32"], ["z", "float32"], ["h", "float32"], ["v", "float32"]],
    nodes: [
      ["Unsqueeze", ["x", "axes"], ["y"]],
      ["Gather", ["w", "i"], ["z"]],
      ["Neg", ["x"], ["h"]],
      ["Unsqueeze", ["h", "axes"], ["v"]],
    ],
    tensors: [int64s("axes", [0]), floats("w", [2, 2], [1, 2, 3, 4])],
  }));
  for (const n of [2, 3, 4, 3]) {
    const x = ones([n]), i = tensor(1n, { dtype: "int64" });
    const { y, z, h, v } = model.run({ x, i });
    assertEquals(list(z), [3, 4]);
    for (const one of [y, z, v]) (one as Tensor).fill_(7);
    assertEquals([x.toArray(), list(h)], [Array(n).fill(1), Array(n).fill(-1)]);
  }
});

test("inputs that were written to in place between runs are read again", async () => {
  using model = await open(makeModel({
    inputs: [["x", "float32", ["n"]], ["shape", "int64", ["k"]]],
    outputs: [["y", "float32"]],
    nodes: [["Reshape", ["x", "shape"], ["y"]]],
  }));
  const shape = tensor([6n, 1n], { dtype: "int64" }), x = ones([6]);
  for (const sizes of [[2, 3], [3, 2], [1, 6], [3, 2]]) {
    shape.set([], tensor(sizes.map(BigInt), { dtype: "int64" }));
    assertEquals((model.run({ x, shape })["y"] as Tensor).shape, sizes);
    assertEquals(((await model.async({ x, shape }))["y"] as Tensor).shape, sizes);
  }
});

test("weights are packed once for their zero points, and inputs are not kept", async () => {
  const bytes = (name: string, dims: number[], data: number[]) =>
    ({ name, type: "uint8", dims, raw: Uint8Array.from(data) }) as const;
  using model = await open(makeModel({
    inputs: [["x", "uint8", ["n", 2]], ["v", "uint8", [2, 2]]],
    outputs: [["a", "int32"], ["b", "int32"], ["c", "int32"]],
    nodes: [
      ["MatMulInteger", ["x", "w", "", "p"], ["a"]],
      ["MatMulInteger", ["x", "w", "", "q"], ["b"]],
      ["MatMulInteger", ["x", "v"], ["c"]],
    ],
    tensors: [bytes("w", [2, 2], [1, 2, 3, 4]), bytes("p", [], [0]), bytes("q", [], [1])],
  }));
  const v = ones([2, 2], { dtype: "uint8" });
  for (const n of [1, 2, 3, 4]) {
    v.fill_(n);
    const { a, b, c } = model.run({ x: ones([n, 2], { dtype: "uint8" }), v });
    const rows = (row: number[]) => Array(n).fill(row);
    assertEquals([a, b, c].map(list), [rows([4, 6]), rows([2, 4]), rows([2 * n, 2 * n])]);
  }
});

test("out may be an input, is the caller's after an error, and takes each result by itself", async () => {
  using model = await open(makeModel({
    inputs: [["x", "float32", ["n"]], ["shape", "int64", [1]]],
    outputs: [["y", "float32"], ["places", "int64"], ["z", "int64"], ["same", "float32"]],
    nodes: [
      ["Add", ["x", "one"], ["y"]],
      ["NonZero", ["x"], ["places"]],
      ["Reshape", ["places", "shape"], ["z"]],
      ["Identity", ["x"], ["same"]],
    ],
    tensors: [floats("one", [1], [1])],
  }));
  const shape = (n: number) => tensor([BigInt(n)], { dtype: "int64" });
  for (const n of [4, 4, 5, 5]) {
    const memory = zeros([n + 1]);
    const x = memory.slice(new Slice(0, n)), y = memory.slice(new Slice(1, n + 1));
    x.set([1], 1);
    const { places, same } = model.run({ x, shape: shape(1) }, { out: { y } });
    assertEquals([list(places), list(same)], [[[1]], [0, 1, ...Array(n - 2).fill(0)]]);
    assertEquals(y.toArray(), [1, 2, ...Array(n - 2).fill(1)]);
    const kept = zeros([n]);
    const fails = () => model.run({ x: ones([n]), shape: shape(1) }, { out: { y: kept } });
    assertThrows(fails, ShapeError, "Cannot reshape");
    assertEquals([kept.isDisposed, kept.shape], [false, [n]]);
    const out = { y: kept, same: kept };
    assertThrows(() => model.run({ x, shape: shape(1) }, { out }), ArgumentError, 'of out "y"');
  }
  const signal = {} as AbortSignal;
  const run = () => model.async({ x: ones([1]), shape: shape(1) }, { signal });
  await assertRejects(run, ArgumentError, "it is no AbortSignal");
});

test("shapes are numbers while a program is made", async () => {
  // y = reshape(x, [shape(x)[0] * shape(x)[1]])
  using model = await open(makeModel({
    inputs: [["x", "float32", ["a", "b"]]],
    outputs: [["y", "float32"]],
    nodes: [
      ["Shape", ["x"], ["s"]],
      ["ReduceProd", ["s"], ["n"], { keepdims: { int: 1 } }],
      ["Reshape", ["x", "n"], ["y"]],
    ],
  }));
  assertEquals(list(model.run({ x: tensor([[1, 2], [3, 4]]) })["y"]), [1, 2, 3, 4]);
  assertEquals(model.explain().parts.map(({ why, count }) => [why, count]), [[undefined, 3]]);
});

test("a small input on which a shape depends becomes part of the kind", async () => {
  using model = await open(makeModel({
    inputs: [["x", "float32", ["n"]], ["count", "int64", [1]]],
    outputs: [["y", "float32"]],
    nodes: [["Add", ["count", "one"], ["more"]], ["Expand", ["x", "more"], ["y"]]],
    tensors: [int64s("one", [1])],
  }));
  const run = (count: number) => {
    const given = tensor([count], { dtype: "int64" });
    return list(model.run({ x: tensor([5]), count: given })["y"]);
  };
  assertEquals([run(1), run(2), run(1)], [[5, 5], [5, 5, 5], [5, 5]]);
  const [part] = model.explain().parts;
  assertEquals([part!.static, part!.why], [["count"], undefined]);
});

test("an input that a program writes between runs has its new elements", async () => {
  using model = await open(makeModel({
    inputs: [["x", "float32", ["n"]], ["count", "int64", [1]]],
    outputs: [["y", "float32"]],
    nodes: [["Expand", ["x", "count"], ["y"]]],
  }));
  const count = tensor([1], { dtype: "int64" }), x = tensor([5]);
  assertEquals(list(model.run({ x, count })["y"]), [5]);
  count.fill_(3);
  assertEquals(list(model.run({ x, count })["y"]), [5, 5, 5]);
  const memory = BigInt64Array.of(2n), own = fromBuffer(memory);
  assertEquals(list(model.run({ x, count: own })["y"]), [5, 5]);
  memory[0] = 4n;
  assertEquals(list(model.run({ x, count: own })["y"]), [5, 5, 5, 5]);
});

test("a node whose shape depends on elements runs between programs", async () => {
  using model = await open(makeModel({
    inputs: [["x", "float32", ["n"]]],
    outputs: [["y", "float32"]],
    nodes: [
      ["Relu", ["x"], ["r"]],
      ["NonZero", ["r"], ["at"]],
      ["Cast", ["at"], ["f"], { to: { int: 1 } }],
      ["Neg", ["f"], ["y"]],
    ],
  }));
  const run = (x: number[]) => list(model.run({ x: tensor(x) })["y"]);
  assertEquals([run([1, -1, 2]), run([0, 3, 0])], [[[-0, -2]], [[-1]]]);
  const { parts } = model.explain();
  assertEquals(parts.map(({ count, why }) => [count, why !== undefined]), [
    [1, false],
    [1, true],
    [2, false],
  ]);
  assert(String(model.explain()).includes('NonZero that makes "at": runs by itself'));
  const later = await Promise.all(
    [[1, 0], [0, 1], [2, 2]].map((x) => model.async({ x: tensor(x) })),
  );
  assertEquals(later.map(({ y }) => list(y)), [[[-0]], [[-1]], [[-0, -1]]]);
});

test("calls that run at the same time, of several kinds, do not disturb one another", async () => {
  using model = await open(makeModel({
    inputs: [["x", "float32", ["n"]]],
    outputs: [["y", "float32"]],
    nodes: [
      ["Add", ["x", "x"], ["d"]],
      ["NonZero", ["d"], ["at"]],
      ["Size", ["at"], ["count"]],
      ["Cast", ["count"], ["c"], { to: { int: 1 } }],
      ["Mul", ["d", "c"], ["y"]],
    ],
  }));
  const runs = Array.from({ length: 60 }, async (_, i) => {
    const x = Array.from({ length: 1 + i % 7 }, (_, k) => k % 3);
    const { y } = await model.async({ x: tensor(x) });
    const count = x.filter((v) => v !== 0).length;
    assertEquals(list(y), x.map((v) => 2 * v * count));
  });
  await Promise.all(runs);
});

test("graphs inside: branches, and loops of a count that only elements tell", async () => {
  const body: GraphParts = {
    inputs: [["i", "int64", []], ["go", "bool", []], ["a", "float32", []]],
    outputs: [["again", "bool", []], ["b", "float32", []]],
    nodes: [["Mul", ["a", "two"], ["b"]], ["Less", ["b", "limit"], ["again"]]],
  };
  using model = await open(makeModel({
    inputs: [["x", "float32", []], ["limit", "float32", []]],
    outputs: [["y", "float32", []]],
    nodes: [["Loop", ["", "", "x"], ["y"], { body: { graph: body } }]],
    tensors: [floats("two", [], [2])],
  }));
  const run = (x: number, limit: number) =>
    list(model.run({ x: tensor(x), limit: tensor(limit) })["y"]);
  assertEquals([run(1, 100), run(3, 7), run(1, 2)], [128, 12, 2]);
});

test("values of a graph inside may have the names of constants around it", async () => {
  const body: GraphParts = {
    inputs: [["i", "int64", []], ["c", "bool", []], ["k", "float32"]],
    outputs: [["d", "bool", []], ["s", "float32"]],
    nodes: [["Identity", ["c"], ["d"]], ["Neg", ["k"], ["t"]], ["Neg", ["t"], ["s"]]],
  };
  using model = await open(makeModel({
    inputs: [["x", "float32", ["n"]]],
    outputs: [["y", "float32"]],
    nodes: [["Add", ["x", "k"], ["h"]], ["Loop", ["rounds", "", "h"], ["y"], {
      body: { graph: body },
    }]],
    tensors: [int64s("rounds", [2], []), floats("k", [1], [5])],
  }));
  for (let times = 0; times < 2; times++) {
    assertEquals(list(model.run({ x: tensor([1, 2]) })["y"]), [6, 7]);
  }
});

test("the work of a loop that appends to a list grows with the list's length only", async () => {
  const body: GraphParts = {
    inputs: [["i", "int64", []], ["c", "bool", []], ["list", "float32"]],
    outputs: [["d", "bool", []], ["longer", "float32"]],
    nodes: [["Identity", ["c"], ["d"]], ["SequenceInsert", ["list", "x"], ["longer"]]],
  };
  using model = await open(makeModel({
    inputs: [["x", "float32", [1]], ["n", "int64", []]],
    outputs: [["y", "float32"]],
    nodes: [
      ["SequenceEmpty", [], ["empty"]],
      ["Loop", ["n", "", "empty"], ["list"], { body: { graph: body } }],
      ["ConcatFromSequence", ["list"], ["y"], { axis: { int: 0 } }],
    ],
  }));
  const work = (rounds: number): number => {
    const n = tensor(BigInt(rounds), { dtype: "int64" }), before = process.cpuUsage();
    scope(() => assertEquals((model.run({ x: ones([1]), n })["y"] as Tensor).size, rounds));
    const { user, system } = process.cpuUsage(before);
    return user + system;
  };
  work(100);
  const [few, many] = [work(100), work(800)];
  assert(many < 40 * few, `${many} µs for 800 rounds, ${few} for 100`);
});

test("texts, lists and absent values", async () => {
  using model = await open(makeModel({
    inputs: [["a", "string", ["n"]], ["b", "string", [1]]],
    outputs: [["c", "string", ["n"]]],
    nodes: [["StringConcat", ["a", "b"], ["c"]]],
  }));
  const { c } = model.run({ a: new Strings(["x", "y"]), b: new Strings(["!"]) });
  assertEquals((c as Strings).data, ["x!", "y!"]);
  assertThrows(() => model.run({ a: tensor([1]), b: new Strings(["!"]) }), DTypeError, "string");
});

test("a pattern that may take exponential time is an error", async () => {
  const matches = (pattern: string) =>
    open(makeModel({
      inputs: [["a", "string", ["n"]]],
      outputs: [["y", "bool", ["n"]]],
      nodes: [["RegexFullMatch", ["a"], ["y"], { pattern: { text: pattern } }]],
    }));
  const a = new Strings(["a".repeat(40) + "!", "aaa"]);
  using plain = await matches("a+b?");
  assertEquals(list(plain.run({ a })["y"]), [false, true]);
  using slow = await matches("(a+)+b?");
  assertThrows(() => slow.run({ a }), ArgumentError, "exponential");
});

test("errors of inputs name the input", async () => {
  using model = await open(makeModel(LAYER));
  const fails = (feeds: Record<string, unknown>, kind: ErrorConstructor, text: string) =>
    assertThrows(() => model.run(feeds as Record<string, Value>), kind, text);
  fails({}, ArgumentError as never, 'input "x": it is missing');
  fails({ x: ones([1, 2]), z: 1 }, ArgumentError as never, 'input "z": its inputs are x');
  fails({ x: [ones([1, 2])] }, ArgumentError as never, "it is a list");
  fails(
    { x: ones([1, 2], { dtype: "float64" }) },
    DTypeError as never,
    "of float64: it is float32",
  );
  fails({ x: ones([1, 3]) }, ShapeError as never, "of shape [1, 3]: it is [rows, 2]");
  await assertRejects(() => model.async({}), ArgumentError, "missing");
});

test("errors of nodes name the node, and the model runs on", async () => {
  using model = await open(makeModel({
    inputs: [["x", "float32", ["a"]], ["y", "float32", ["b"]]],
    outputs: [["z", "float32"]],
    nodes: [["Add", ["x", "y"], ["z"]]],
  }));
  const x = ones([2]);
  assertThrows(() => model.run({ x, y: ones([3]) }), ShapeError, 'node Add that makes "z"');
  assertEquals(list(model.run({ x, y: x })["z"]), [2, 2]);
  await assertRejects(() => model.async({ x, y: ones([3]) }), ShapeError, "Add");
});

test("all ops without a function are in one error, and a program can bring them", async () => {
  const bytes = makeModel({
    inputs: [["x", "float32", [2]]],
    outputs: [["y", "float32", [2]]],
    nodes: [
      ["Scale", ["x"], ["a"], { by: { float: 3 } }, "mine"],
      ["Twist", ["a"], ["b"], {}, "mine"],
      ["Twist", ["b"], ["y"], {}, "mine"],
    ],
  });
  await assertRejects(() => open(bytes), ArgumentError, "the ops mine.Scale, mine.Twist (2)");
  const ops = {
    "mine.Scale": ({ inputs: [x], attribute }: {
      inputs: readonly Value[];
      attribute(name: string): unknown;
    }) => [(x as Tensor).mul(attribute("by") as number)],
    "mine.Twist": ({ inputs: [x] }: { inputs: readonly Value[] }) => [(x as Tensor).neg().add(1)],
  };
  using model = await open(bytes, { ops });
  assertEquals(list(model.run({ x: tensor([1, 2]) })["y"]), [3, 6]);
});

test("what an op of a program returns is checked", async () => {
  for (const made of [[], [5], [undefined], [[tensor(1), "a"]], [{}]] as unknown as Value[][]) {
    using model = await open(makeModel(LAYER), { ops: { Relu: () => made } });
    const run = (): unknown => model.run({ x: ones([1, 2]) });
    assertThrows(run, ArgumentError, "for output 0, expected a tensor");
  }
});

test("an input that is a scalar in the file takes one element of any rank", async () => {
  using model = await open(makeModel({
    inputs: [["x", "float32", []]],
    outputs: [["y", "float32"]],
    nodes: [["Add", ["x", "x"], ["y"]]],
  }));
  for (const shape of [[], [1], [1, 1]]) {
    const { y } = model.run({ x: full(shape, 3) });
    assertEquals([(y as Tensor).shape, list(y)], [shape, full(shape, 6).toArray()]);
  }
  assertThrows(() => model.run({ x: ones([2]) }), ShapeError, "it is []");
});

/** Adds 1 to x until its sum is `limit` or more: the number of rounds depends on elements. */
const COUNTS: GraphParts = {
  inputs: [["x", "float32", ["n"]], ["limit", "float32", []]],
  outputs: [["y", "float32"], ["sums", "float32"]],
  nodes: [["Loop", ["", "go", "x"], ["y", "sums"], {
    body: {
      graph: {
        inputs: [["i", "int64", []], ["goes", "bool", []], ["before", "float32", ["n"]]],
        outputs: [["again", "bool", []], ["next", "float32", ["n"]], ["sum", "float32", []]],
        nodes: [
          ["Add", ["before", "one"], ["next"]],
          ["ReduceSum", ["next", "axes"], ["sum"], { keepdims: { int: 0 } }],
          ["Less", ["sum", "limit"], ["again"]],
        ],
      },
    },
  }]],
  tensors: [
    floats("one", [1], [1]),
    int64s("axes", [0]),
    { name: "go", type: "bool", dims: [], raw: Uint8Array.of(1) },
  ],
};

test("the event loop runs between the rounds of a loop, and a signal ends it", async () => {
  using model = await open(makeModel(COUNTS));
  const x = zeros([4]);
  const counts = (run: Record<string, Value>): unknown => {
    const { y, sums } = run as Record<string, Tensor>;
    const found = [list(y), sums!.shape, sums!.sum().item()];
    y!.dispose();
    sums!.dispose();
    return found;
  };
  const rounds = 3000;
  const wanted = [Array(4).fill(rounds), [rounds], 2 * rounds * (rounds + 1)];
  const feeds = { x, limit: scalar(4 * rounds) };
  assertEquals(scope(() => counts(model.run(feeds))), wanted);
  let turns = 0;
  const timer = setInterval(() => turns++, 1);
  try {
    const used = (): number => memory().bytes - memory().pooledBytes;
    const before = used();
    const results = await model.async(feeds);
    assert(turns > 2, `${turns} turns`);
    assertEquals(scope(() => counts(results)), wanted);
    const abort = new AbortController();
    const reason = new Error("enough");
    setTimeout(() => abort.abort(reason), 5);
    // The sum is never as large.
    const endless = model.async({ x, limit: scalar(Infinity) }, { signal: abort.signal });
    assertEquals(await assertRejects(() => endless, Error), reason);
    assertEquals(reason.message, "enough");
    assert(used() - before < 1000, `${used() - before} bytes`);
  } finally {
    clearInterval(timer);
  }
});

test("an error in a round of a loop names the nodes", async () => {
  const ops = { Less: () => [5] } as unknown as Record<string, () => Value[]>;
  using model = await open(makeModel(COUNTS), { ops });
  const feeds = { x: zeros([4]), limit: scalar(1) };
  assertThrows(() => model.run(feeds), ArgumentError, "Less");
  await assertRejects(() => model.async(feeds), ArgumentError, "Less");
});

test("queries are scaled in the place of keys", async () => {
  const graph: GraphParts = {
    inputs: [["q", "float32", [1, 2]], ["k", "float32", ["rows", 2]]],
    outputs: [["y", "float32"]],
    nodes: [
      ["Mul", ["q", "half"], ["q2"]],
      ["Transpose", ["k"], ["t"], { perm: [1, 0] }],
      ["Mul", ["four", "t"], ["k2"]],
      ["MatMul", ["q2", "k2"], ["y"]],
    ],
    tensors: [floats("half", [], [0.5]), floats("four", [1], [4])],
  };
  using model = await open(makeModel(graph));
  const { y } = model.run({ q: tensor([[1, 2]]), k: tensor([[1, 2], [3, 4], [5, 6]]) });
  assertEquals(list(y), [[10, 22, 34]]);
  const text = String(model.explain());
  assert(/\bmul\(arg 0\.q/.test(text) && !/\bmul\([^)]*arg 0\.k/.test(text), text);
});

test("an aborted run rejects with the reason of its signal", async () => {
  using model = await open(makeModel(LAYER));
  const reason = new Error("enough");
  const signal = AbortSignal.abort(reason);
  await assertRejects(() => model.async({ x: ones([1, 2]) }, { signal }), Error, "enough");
  assertEquals(list((await model.async({ x: ones([1, 2]) }))["y"]), [[3, 2, 1]]);
});

test("a disposed model throws, and its memory is free", async () => {
  const bytes = makeModel(LAYER);
  const used = (): number => memory().bytes - memory().pooledBytes;
  const before = used();
  for (let times = 0; times < 100; times++) {
    const model = await open(bytes);
    scope(() => void model.run({ x: ones([2, 2]) }));
    model.dispose();
    model.dispose();
    assertThrows(() => model.run({ x: ones([1, 2]) }), DisposedError);
  }
  assert(used() - before < 10_000, `${used() - before} bytes`);
});

test("a model that is disposed of while it runs rejects with a DisposedError", async () => {
  for (const rows of [2, 3]) {
    const model = await open(makeModel({
      inputs: [["x", "float32", ["rows", 2]]],
      outputs: [["y", "float32"], ["places", "int64"]],
      nodes: [
        ["MatMul", ["x", "w"], ["h"]],
        ["NonZero", ["h"], ["places"]],
        ["MatMul", ["h", "w"], ["y"]],
      ],
      tensors: [floats("w", [2, 2], [1, 0, 0, 1])],
    }));
    model.run({ x: ones([2, 2]) });
    const run = model.async({ x: ones([rows, 2]) });
    model.dispose();
    await assertRejects(() => run, DisposedError);
  }
});

test("external data: beside the file, as bytes, and never outside of its folder", async () => {
  const folder = mkdtempSync(join(tmpdir(), "rowmajor-onnx-"));
  const model = (location: string, more: Record<string, string> = {}) =>
    makeModel({
      inputs: [["x", "float32", [2]]],
      outputs: [["y", "float32", [2]]],
      nodes: [["Add", ["x", "w"], ["y"]]],
      tensors: [{ name: "w", type: "float32", dims: [2], external: { location, ...more } }],
    });
  try {
    const data = new Uint8Array(Float32Array.of(9, 10, 20).buffer);
    writeFileSync(join(folder, "w.bin"), data);
    const path = join(folder, "m.onnx");
    writeFileSync(path, model("w.bin", { offset: "4", length: "8" }));
    using beside = await open(path);
    assertEquals(list(beside.run({ x: tensor([1, 1]) })["y"]), [11, 21]);
    const external = { "w.bin": data };
    using given = await open(model("w.bin"), { external });
    assertEquals(list(given.run({ x: tensor([1, 1]) })["y"]), [10, 11]);
    await assertRejects(() => open(model("w.bin")), FormatError, "by the option external");
    await assertRejects(
      () => open(model("w.bin", { offset: "8" }), { external }),
      FormatError,
      "but the file has 12 bytes",
    );
    writeFileSync(path, model("other.bin"));
    const missing = await assertRejects(() => open(path), FormatError, '"other.bin", which is not');
    assertEquals(missing.file, path);
    writeFileSync(path, model("../w.bin"));
    await assertRejects(() => open(path), FormatError, "leave the folder");
    writeFileSync(path, model("w.bin\0x"));
    await assertRejects(() => open(path), FormatError, "leave the folder");
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("options are checked", async () => {
  const bytes = makeModel(LAYER);
  await assertRejects(() => open(bytes, { maxPrograms: 0 }), ArgumentError, "maxPrograms 0");
  await assertRejects(() => open(bytes, { static: ["z"] }), ArgumentError, 'static "z"');
  await assertRejects(() => open(bytes, { fast: true } as object), Error, "fast");
  await assertRejects(() => open(bytes, { winograd: 1 } as object), ArgumentError, "winograd 1");
  await assertRejects(() => open(1 as unknown as string), Error);
  for (const bad of [null, 5, new Map()]) {
    const record = bad as unknown as Record<string, never>;
    await assertRejects(() => open(bytes, { ops: record }), ArgumentError, "with ops");
    await assertRejects(() => open(bytes, { external: record }), ArgumentError, "with external");
    using model = await open(bytes);
    const run = () => model.run({ x: ones([1, 2]) }, { out: record });
    assertThrows(run, ArgumentError, "with out");
  }
});

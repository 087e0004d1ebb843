/**
 * A call for every parameter that takes a list, with its usual list.
 *
 * Knows nothing of what is tried.
 *
 * @module
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import * as rm from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import { download } from "../../src/hub/mod.ts";
import * as llm from "../../src/llm/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import { grad, vjp } from "../../src/grad/mod.ts";
import * as optim from "../../src/optim/mod.ts";
import { choices } from "../../src/constraints/mod.ts";
import * as onnx from "../../src/onnx/mod.ts";
import * as ort from "../../src/onnx/session.ts";
import { Chat, Classifier, Embedder } from "../../src/models/mod.ts";
import { batches, inference } from "../../src/serve/mod.ts";
import * as tokenizers from "../../src/tokenizers/mod.ts";
import { modelFolder, temporary } from "../llm/models.ts";
import { encoders, safetensorsOf } from "../models/golden.ts";
import { makeModel } from "../onnx/make.ts";
import { tinyTokenizer } from "../models/tokenizer.ts";
import { randomLlama } from "../support/llama.ts";

// deno-lint-ignore no-explicit-any
type Any = any;

/** The usual list, made for each call, and the call; it may return a promise. */
export type Entry = readonly [make: () => Any, call: (list: Any) => Any];

const lib: Any = rm;
const net: Any = nn;
const x = (): Any => lib.arange(6).reshape([2, 3]);
const line = (n = 5): Any => lib.arange(n);
const key = (): Any => lib.random.key(1);
const square = (): Any => lib.tensor([[2, 1], [1, 3]]);

/** The calls. */
export const CALLS: Record<string, Entry> = {};

/** Lists that are only tensors by mistake: the function refuses every list. */
export const REFUSING = new Set<string>();

function add(name: string, make: () => Any, call: (list: Any) => Any): void {
  CALLS[name] = [make, call];
}

/** A parameter whose type has a tuple for another reason: it takes no list. */
function refuse(name: string, call: (list: Any) => Any): void {
  add(name, () => [1, 2], call);
  REFUSING.add(name);
}

// ---- services ----------------------------------------------------------------------------------

add("Batches.all items", () => [1, 2], (items) => batches((all) => all, { waitMs: 0 }).all(items));
for (const [option, list] of [["keys", "key"], ["hosts", "a"], ["cors", "https://a.test"]]) {
  add(
    `inference options.${option}`,
    () => [list],
    (made) => inference({ models: {} }, { [option!]: made }),
  );
}

// ---- training ----------------------------------------------------------------------------------

for (const name of ["kaimingNormal", "kaimingUniform", "xavierNormal", "xavierUniform"]) {
  add(`${name} shape`, () => [2, 3], (list) => net[name](key(), list));
}
add("Pullback.pullback gradients", () => [line(3)], (list) => {
  using run: Any = vjp((params: Any) => params, [line(3)]);
  return run.pullback(list);
});
add("adam options.betas", () => [0.5, 0.9], (betas) => {
  const optimizer = optim.adam({ learningRate: 1, betas });
  return updated(optimizer, {});
});
/** Parameters after an update, of which a part is given. */
function updated(optimizer: Any, given: Any): Any {
  const params = [lib.ones([2], { dtype: "bfloat16" })];
  const { gradients = [lib.ones([2], { dtype: "bfloat16" })], ...state } = given;
  optimizer.update(params, gradients, { ...optimizer.init(params), ...state });
  return params;
}
// Weights stay the same.
const adam: Any = optim.adam({ learningRate: 0 });
const ones = (dtype: string): Any => lib.ones([2], { dtype });
add(
  "Optimizer.update gradients",
  () => [ones("bfloat16")],
  (gradients) => updated(adam, { gradients }),
);
add(
  "Optimizer.update state.weights",
  () => [ones("float32")],
  (weights) => updated(adam, { weights }),
);
add(
  "Optimizer.update state.moments",
  () => [[ones("float32")], [ones("float32")]],
  (moments) => updated(adam, { moments }),
);

// ---- ONNX files --------------------------------------------------------------------------------

const negation = (): Uint8Array =>
  makeModel({
    inputs: [["x", "float32", [2]]],
    outputs: [["y", "float32", [2]]],
    nodes: [["Neg", ["x"], ["y"]]],
  });
add("open options.static", () => ["x"], async (names) => {
  using model = await onnx.open(negation(), { static: names });
  return model.run({ x: lib.tensor([1, 2]) })["y"];
});
add("Strings data", () => ["a", "b"], (data) => new onnx.Strings(data).data);
add("Strings shape", () => [1, 2], (shape) => new onnx.Strings(["a", "b"], shape).shape);
const two = (): Float32Array => Float32Array.of(1, 2);
add("Tensor data", () => [1, 2], (data) => new ort.Tensor("float32", data).data);
add("Tensor dims", () => [1, 2], (dims) => new ort.Tensor("float32", two(), dims).dims);
add("Tensor.reshape dims", () => [1, 2], (dims) => new ort.Tensor(two()).reshape(dims).dims);
const negated = await ort.InferenceSession.create(negation());
add("InferenceSession.run fetches", () => ["y"], async (names) => {
  const results = await negated.run({ x: new ort.Tensor(two()) }, names);
  return results["y"]!.data;
});

// ---- creation ----------------------------------------------------------------------------------

for (const name of ["zeros", "ones", "empty", "fullMin", "fullMax"]) {
  add(`${name} shape`, () => [2, 3], (s) => name === "empty" ? lib.empty(s).shape : lib[name](s));
}
add("full shape", () => [2, 3], (s) => lib.full(s, 1));
add("tensor data", () => [[1, 2], [3, 4]], (data) => lib.tensor(data));
add("tensor options.shape", () => [2, 3], (shape) => lib.tensor([1, 2, 3, 4, 5, 6], { shape }));
const six = (): Float32Array => new Float32Array([1, 2, 3, 4, 5, 6]);
add("fromBuffer options.shape", () => [2, 3], (shape) => lib.fromBuffer(six(), { shape }));
add(
  "fromBuffer options.strides",
  () => [1, 2],
  (strides) => lib.fromBuffer(six(), { shape: [2, 3], strides }),
);
for (const name of ["zerosLike", "onesLike", "emptyLike"]) {
  refuse(`${name} more`, (list) => lib[name](x(), list));
}
for (const name of ["meshgrid", "stack", "concat"]) {
  add(`${name} tensors`, () => [line(2), line(2)], (xs) => lib[name](xs));
}
add("pack w", () => [square(), square()], (w) => lib.pack(w).shape);
refuse("quantize w", (w) => lib.quantize(w, "q8_0"));
REFUSING.add("pack w");

const random: Record<string, (shape: Any) => Any> = {
  bits: (s) => lib.random.bits(key(), s),
  uniform: (s) => lib.random.uniform(key(), s),
  normal: (s) => lib.random.normal(key(), s),
  integers: (s) => lib.random.integers(key(), s, 0, 9),
  beta: (s) => lib.random.beta(key(), s, 1, 2),
  binomial: (s) => lib.random.binomial(key(), s, 5, 0.5),
  exponential: (s) => lib.random.exponential(key(), s),
  gamma: (s) => lib.random.gamma(key(), s, 2),
  gumbel: (s) => lib.random.gumbel(key(), s),
  laplace: (s) => lib.random.laplace(key(), s),
  poisson: (s) => lib.random.poisson(key(), s, 3),
  truncatedNormal: (s) => lib.random.truncatedNormal(key(), s),
  choice: (s) => lib.random.choice(key(), 5, s),
  multivariateNormal: (s) => lib.random.multivariateNormal(key(), s, line(2), square()),
};
for (const [name, call] of Object.entries(random)) add(`random.${name} shape`, () => [2, 3], call);
add(
  "random.categorical options.shape",
  () => [4, 2],
  (shape) => lib.random.categorical(key(), x(), { shape }),
);
refuse("random.categorical options.axis", (axis) => lib.random.categorical(key(), x(), { axis }));

// ---- methods -----------------------------------------------------------------------------------

const axes = (): Any => [0, 1];
for (
  const name of [
    ...["sum", "prod", "mean", "max", "min", "any", "all", "countNonzero", "logsumexp", "var"],
    ...["std", "norm", "median", "nanmedian", "mode", "nansum", "nanprod", "nanmean", "nanmax"],
    ...["nanmin", "nanvar", "nanstd", "layerNorm", "rmsNorm"],
  ]
) add(`Tensor.${name} axis`, axes, (axis) => x()[name](axis));
for (
  const name of [
    ...["argmax", "argmin", "cumulativeSum", "cumulativeProd", "nanargmax", "nanargmin"],
    ...["nancumsum", "nancumprod", "cumulativeMax", "cumulativeMin", "softmax", "logSoftmax"],
    ...["sort", "argsort"],
  ]
) refuse(`Tensor.${name} axis`, (axis) => x()[name](axis));
for (const name of ["quantile", "percentile", "nanquantile", "nanpercentile"]) {
  add(`Tensor.${name} q`, () => [0.25, 0.5], (q) => x()[name](q));
  add(`Tensor.${name} axis`, axes, (axis) => x()[name](0.5, axis));
}
for (const name of ["partition", "argpartition"]) {
  add(`Tensor.${name} kth`, () => [1, 3], (kth) => line()[name](kth));
  refuse(`Tensor.${name} axis`, (axis) => x()[name](1, axis));
}
refuse("Tensor.topk axis", (axis) => x().topk(1, axis));
refuse("Tensor.diff axis", (axis) => x().diff(1, axis));
for (const name of ["matmul", "dot", "outer"]) {
  refuse(`Tensor.${name} other`, (other) => line(2)[name](other));
}
refuse("Tensor.linear weight", (weight) => x().linear(weight));
refuse("Tensor.linear bias", (bias) => x().linear(lib.ones([3, 3]), bias));
refuse("Tensor.swapAxes axis2", (axis) => x().swapAxes(0, axis));
refuse("Tensor.repeat axis", (axis) => x().repeat(2, axis));
add("Tensor.set index", () => [1, 2], (index) => {
  const y = x();
  y.set(index, 9);
  return y;
});
add("Tensor.set index, lists", () => [[0, 1], [2, 0]], (index) => {
  const y = x();
  y.set(index, 9);
  return y;
});
add("Tensor.set index, booleans", () => [[true, false, true]], (index) => {
  const y = line(3);
  y.set(index, 9);
  return y;
});
add("Tensor.slice index", () => [1, 0], (index) => x().slice(index));
add("Tensor.slice booleans", () => [true, false], (index) => x().slice(index));
add("Tensor.moveAxis source", () => [0, 1], (list) => x().moveAxis(list, [1, 0]));
add("Tensor.moveAxis destination", () => [1, 0], (list) => x().moveAxis([0, 1], list));
add("Tensor.reshape shape", () => [3, -1], (shape) => x().reshape(shape));
add("Tensor.reshape shape, copied", () => [3, 2], (shape) => x().T.reshape(shape));
add("Tensor.expandDims axis", () => [0, 3], (axis) => x().expandDims(axis));
add("Tensor.unsqueeze axis", () => [0, 3], (axis) => x().unsqueeze(axis));
add("Tensor.squeeze axis", () => [0, 2], (axis) => x().expandDims([0, 2]).squeeze(axis));
add("Tensor.flip axis", axes, (axis) => x().flip(axis));
add("Tensor.broadcastTo shape", () => [4, 2, 3], (shape) => x().broadcastTo(shape));
refuse("Tensor.sliceAxis index", (index) => x().sliceAxis(0, index));
add("Tensor.split parts", () => [1, 3], (parts) => line().split(parts));
add("Tensor.asShape shape", () => [2, 3], (shape) => x().asShape(shape));
add("Tensor.tile repeats", () => [2, 1], (repeats) => x().tile(repeats));
add("Tensor.repeat repeats", () => [2, 1, 0], (repeats) => x().repeat(repeats, 1));
add("Tensor.roll shift", () => [1, 2], (shift) => x().roll(shift, [0, 1]));
add("Tensor.roll axis", () => [0, 1], (axis) => x().roll([1, 2], axis));
add("Tensor.pad widths", () => [[1, 0], [0, 2]], (widths) => x().pad(widths));
add("Tensor.pad widths, one pair", () => [1, 2], (widths) => x().pad(widths));
add("Tensor.take indexes", () => [2, 0], (indexes) => line().take(indexes));
add("Tensor.takeAlongAxis indexes", () => [2, 0], (indexes) => line().takeAlongAxis(indexes, 0));

const layout = (): Any => x().layout;
add("Layout.flatIndex index", () => [1, 2], (index) => layout().flatIndex("get", index));
add("Layout.permute axes", () => [1, 0], (order) => layout().permute(order));
add("Layout.squeeze axes", () => [0, 2], (list) => x().expandDims([0, 2]).layout.squeeze(list));
add("Layout.broadcastTo shape", () => [4, 2, 3], (shape) => layout().broadcastTo(shape));
add("Layout.reshape shape", () => [3, -1], (shape) => layout().reshape(shape));
add("Layout.flip axes", axes, (list) => layout().flip(list));

// ---- functions ---------------------------------------------------------------------------------

add("gradient options.axis", axes, (axis) => lib.gradient(x(), { axis }));
add("gradient options.spacing", () => [1, 2], (spacing) => lib.gradient(x(), { spacing }));
refuse("interp xs", (xs) => lib.interp(x(), xs, line(2)));
refuse("trapezoid options.axis", (axis) => lib.trapezoid(x(), { axis }));
add("average axis", axes, (axis) => lib.average(x(), axis));
refuse("corrcoef x", (list) => lib.corrcoef(list));
refuse("cov x", (list) => lib.cov(list));
add("ptp axis", axes, (axis) => lib.ptp(x(), axis));
for (
  const name of [
    ...["cholesky", "qr", "lu", "eigh", "eigvalsh", "svd", "svdvals", "eig", "eigvals", "inv"],
    ...["det", "slogdet", "expm", "matrixRank", "pinv", "matrixNorm", "cond"],
  ]
) refuse(`linalg.${name} a`, (a) => lib.linalg[name](a));
refuse("linalg.matrixPower a", (a) => lib.linalg.matrixPower(a, 2));
refuse("linalg.trace x", (a) => lib.linalg.trace(a));
for (const name of ["solve", "solveTriangular", "lstsq", "matmul", "outer", "tensordot"]) {
  refuse(`linalg.${name} b`, (b) => lib.linalg[name](name === "outer" ? line(2) : square(), b));
}
add("linalg.vectorNorm options.axis", axes, (axis) => lib.linalg.vectorNorm(x(), { axis }));
add("linalg.multiDot tensors", () => [square(), square()], (xs) => lib.linalg.multiDot(xs));
add("linalg.tensordot axes", () => [[1], [0]], (list) => lib.linalg.tensordot(x(), x().T, list));
for (const kind of ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]) {
  refuse(`fft.${kind} options.axis`, (axis) => lib.fft[kind](x(), { axis }));
}
for (const kind of ["fft", "ifft", "rfft", "irfft"]) {
  for (const count of ["n", "2"]) {
    const f = (options: Any): Any => lib.fft[kind + count](x(), options);
    add(`fft.${kind}${count} options.s`, () => [2, 4], (s) => f({ s, axes: [0, 1] }));
    add(`fft.${kind}${count} options.axes`, axes, (list) => f({ axes: list }));
  }
}
for (const name of ["fftshift", "ifftshift"]) {
  add(`fft.${name} options.axes`, axes, (list) => lib.fft[name](x(), { axes: list }));
}
refuse("einsum equation", (equation) => lib.einsum(equation, x()));
refuse("inner b", (b) => lib.inner(line(2), b));
let made = 0;
add("defineOp definition.parameters", () => ["a", "b"], (parameters) => {
  const op = lib.defineOp({ name: `lists${made++}`, operands: 1, expr: "x * a + b", parameters });
  return () => op(line(3), { a: 2, b: 1 });
});
for (const name of ["isin", "digitize"]) {
  add(
    `${name} ${name === "isin" ? "tests" : "bins"}`,
    () => [1, 3],
    (list) => lib[name](line(), list),
  );
}
for (const name of ["histogram", "histogramBinEdges"]) {
  add(`${name} bins`, () => [0, 2, 5], (bins) => lib[name](line(), bins));
  add(`${name} options.range`, () => [0, 4], (range) => lib[name](line(), 2, { range }));
}
add("histogram2d bins", () => [2, 3], (bins) => lib.histogram2d(line(), line(), bins));
add(
  "histogram2d bins, edges",
  () => [[0, 2, 5], [0, 1, 4]],
  (bins) => lib.histogram2d(line(), line(), bins),
);
add(
  "histogram2d options.range",
  () => [[0, 4], [0, 4]],
  (range) => lib.histogram2d(line(), line(), 2, { range }),
);
add("isdtype kind", () => ["float32", "integral"], (kind) => lib.isdtype("float32", kind));
add("dtypes kind", () => ["bool", "integral"], (kind) => lib.dtypes(kind));
add("rot90 axes", axes, (list) => lib.rot90(x(), 1, list));
add("asStrided shape", () => [2, 3], (shape) => lib.asStrided(line(), shape, [1, 1]));
add("asStrided strides", () => [1, 1], (strides) => lib.asStrided(line(), [2, 3], strides));
add("broadcastShapes shapes", () => [2, 1], (shape) => lib.broadcastShapes([3], shape));
add(
  "ravelMultiIndex shape",
  () => [2, 3],
  (shape) =>
    lib.ravelMultiIndex(
      [lib.tensor([1], { dtype: "int32" }), lib.tensor([2], { dtype: "int32" })],
      shape,
    ),
);
add(
  "ravelMultiIndex indices",
  () => [0, 1].map((n) => lib.tensor([n], { dtype: "int32" })),
  (list) => lib.ravelMultiIndex(list, [2, 3]),
);
add(
  "unravelIndex shape",
  () => [2, 3],
  (shape) => lib.unravelIndex(lib.tensor([4], { dtype: "int32" }), shape),
);
add("warmUp ops", () => ["add", "mul"], (ops) => lib.warmUp("cpu", ops, ["float32"]));
add("warmUp dtypes", () => ["float32"], (dtypes) => lib.warmUp("cpu", ["add"], dtypes));
for (const name of ["convolve", "correlate"]) refuse(`${name} v`, (v) => lib[name](line(), v));
add("polyval p", () => [1, 2, 3], (p) => lib.polyval(p, line()));
refuse("polyfit y", (y) => lib.polyfit(line(2), y, 1));
add("compile options.static", () => [1, "2.a"], (list) => {
  const f = compile(
    (a: Any, b: number, c: Any) => a.add(b).mul(c.a),
    { static: list } as Any,
  ) as Any;
  return () => [f(line(), 2, { a: 3 }), f(line(), 2, { a: 3 })];
});

let kernels = 0;
add(
  "defineOp, what infer gives",
  () => [{ shape: [2], dtype: "float32" }],
  (specs) =>
    lib.defineOp({ name: `listsKernel${kernels++}`, infer: () => specs, run: () => {} })(line(2)),
);

add("defineOp, what backward gives", () => [lib.ones([2])], (gradients) => {
  const op: Any = lib.defineOp({
    name: `listsKernel${kernels++}`,
    infer: ([own]: Any) => own,
    run: () => {},
    backward: () => gradients,
  });
  return grad((x: Any) => op(x).sum())(lib.ones([2]));
});

// ---- nn ----------------------------------------------------------------------------------------

const rope = { dimensions: 4 };
add("ropeAngles positions", () => [0, 3], (positions) => net.ropeAngles(positions, rope));
const longrope = {
  type: "longrope",
  originalLength: 4,
  shortFactors: [1, 2],
  longFactors: [2, 3],
  factor: 2,
} as const;
add(
  "ropeAngles options.factors",
  () => [1, 2],
  (factors) => net.ropeAngles([0, 3], { ...rope, factors }),
);
for (const name of ["shortFactors", "longFactors"]) {
  add(
    `ropeAngles options.scaling.${name}`,
    () => [1, 2],
    (list) => net.ropeAngles([0, 3, 8, 9], { ...rope, scaling: { ...longrope, [name]: list } }),
  );
}
for (const d of [1, 2, 3]) {
  const each = (n: number) => (): number[] => new Array(d).fill(n);
  const image = (): Any => lib.arange(2 * 6 ** d).reshape([1, 2, ...new Array(d).fill(6)]);
  const weight = (): Any => lib.ones([2, 2, ...new Array(d).fill(2)]);
  for (const option of ["stride", "padding", "dilation"]) {
    add(
      `conv${d}d options.${option}`,
      each(2),
      (list) => net[`conv${d}d`](image(), weight(), undefined, { [option]: list }),
    );
  }
  add(
    `conv${d}d options.padding, pairs`,
    () => new Array(d).fill(0).map(() => [1, 0]),
    (padding) => net[`conv${d}d`](image(), weight(), undefined, { padding }),
  );
  for (const option of ["padding", "outputPadding"]) {
    add(
      `convTranspose${d}d options.${option}`,
      each(1),
      (list) =>
        net[`convTranspose${d}d`](image(), weight(), undefined, { stride: 2, [option]: list }),
    );
  }
  for (const kind of ["Avg", "Max"]) {
    add(
      `adaptive${kind}Pool${d}d outputSize`,
      each(2),
      (size) => net[`adaptive${kind}Pool${d}d`](image(), size),
    );
    const pool = net[`${kind.toLowerCase()}Pool${d}d`];
    add(`${kind.toLowerCase()}Pool${d}d kernelSize`, each(2), (size) => pool(image(), size));
    for (const option of ["stride", "padding", ...kind === "Max" ? ["dilation"] : []]) {
      add(
        `${kind.toLowerCase()}Pool${d}d options.${option}`,
        each(1),
        (list) => pool(image(), 2, { [option]: list }),
      );
    }
  }
  const layer = (kernel: Any, options: Any): Any => {
    const w: Any = nn.weights({
      "c.weight": lib.ones([2, 2, ...new Array(d).fill(2)]),
      "c.bias": lib.ones([2]),
    });
    const conv = w[`conv${d}d`]("c", 2, 2, kernel, options);
    return () => conv(image());
  };
  add(`Weights.conv${d}d kernel`, each(2), (kernel) => layer(kernel, {}));
  for (const option of ["stride", "padding", "dilation"]) {
    add(`Weights.conv${d}d options.${option}`, each(1), (list) => layer(2, { [option]: list }));
  }
}
add(
  "interpolate options.size",
  () => [4, 6],
  (size) => net.interpolate(x().reshape([1, 1, 2, 3]), { size }),
);
add(
  "interpolate options.scaleFactor",
  () => [2, 2],
  (scaleFactor) => net.interpolate(x().reshape([1, 1, 2, 3]), { scaleFactor }),
);
const gates = { rnn: 1, gru: 3, lstm: 4 } as const;
for (const [name, n] of Object.entries(gates)) {
  const one = (): Any => ({
    weightIh: lib.ones([2 * n, 3]),
    weightHh: lib.ones([2 * n, 2]),
  });
  add(
    `${name} weights`,
    () => [one()],
    (weights) => net[name](lib.arange(6).reshape([2, 1, 3]), weights),
  );
}
add(
  "Weights.tensor shape",
  () => [2, 3],
  (shape) => (nn.weights({ a: x() }) as Any).tensor("a", shape),
);
const unused = (): Any => nn.weights({ a: x(), b: x() });
add("Weights.done options.ignore", () => ["a", "b"], (ignore) => unused().done({ ignore }));
add("Weights.load options.ignore", () => ["a", "b"], (ignore) => unused().load({ ignore }));

// ---- llm, hub, io ------------------------------------------------------------------------------

const model = await llm.open(modelFolder("llama"), { cache: "float32" }) as Any;
const codec = {
  encode: (text: string) => Array.from(text, (c) => c.charCodeAt(0) % 96),
  decode: (ids: readonly number[]) =>
    Array.from(ids, (id) => String.fromCharCode(65 + id % 26)).join(""),
};
const textOf = async (pieces: AsyncIterable<unknown>): Promise<Any> => {
  const all: unknown[] = [];
  for await (const one of pieces) all.push(one);
  return all;
};
for (const who of ["LanguageModel", "Session"]) {
  const made = (): Any => who === "Session" ? model.session() : model;
  const few = { maxTokens: 3 };
  const ids = (): number[] => [5, 9, 12];
  add(`${who}.generate ids`, ids, (list) => textOf(made().generate(list, few)));
  add(
    `${who}.generate options.stopTokens`,
    () => [95, 94],
    (stopTokens) => textOf(made().generate([5, 9], { ...few, stopTokens })),
  );
  add(`${who}.generateText prompt`, ids, (list) => textOf(made().generateText(codec, list, few)));
  add(
    `${who}.generateText options.stop`,
    () => ["zz", "yy"],
    (stop) => textOf(made().generateText(codec, [5, 9], { ...few, stop })),
  );
  add(
    `${who}.generateText options.stopTokens`,
    () => [95, 94],
    (stopTokens) => textOf(made().generateText(codec, [5, 9], { ...few, stopTokens })),
  );
}
const engine = await llm.engine(model, { slots: 4, context: 64, tokenizer: codec as Any }) as Any;
const idsOf = async (prompt: Any, options: Any): Promise<Any> =>
  (await textOf(engine.generate(prompt, { maxTokens: 3, ...options }))).map(({ id }: Any) => id);
add("Engine.generate prompt", () => [5, 9, 12], (list) => idsOf(list, {}));
add(
  "Engine.generate options.stopTokens",
  () => [95, 94],
  (list) => idsOf([5], { stopTokens: list }),
);
add("Engine.generate options.stop", () => ["zz", "yy"], (list) => idsOf([5], { stop: list }));
const bytes = new TextEncoder();
const letters = {
  size: 96,
  tokenBytes: (id: number) => bytes.encode(String.fromCharCode(32 + id)),
};
add("choices texts", () => ["ab", "cd"], async (list) => {
  const state = await (await choices(list, letters as Any)).start({
    vocabulary: 96,
    stopTokens: [0],
  });
  return Array.from(await state.mask() as Int32Array);
});
const filesOf = (name: string): Any => {
  const golden = encoders[name]!;
  const { tokenizer, config } = tinyTokenizer(golden.config["vocab_size"]);
  return {
    "config.json": JSON.stringify(golden.config),
    "tokenizer.json": JSON.stringify(tokenizer),
    "tokenizer_config.json": JSON.stringify(config),
    "model.safetensors": safetensorsOf(golden),
  };
};
const embedder = await Embedder.open(filesOf("bert"));
const classifier = await Classifier.open(filesOf("roberta with a head")) as Any;
const words = (): string[] => ["w1", "w2 w3"];
add("Embedder.embed texts", words, (list) => embedder.embed(list));
add("Embedder.matrix texts", words, async (list) => (await embedder.matrix(list)).toArray());
add("Embedder.search texts", words, (list) => embedder.search("w1", list));
add("Classifier.classify texts", words, (list) => classifier.classify(list));
const { tokenizer: tiny, config: tinyConfig } = tinyTokenizer(90);
const tokenizer = await tokenizers.open({ tokenizer: tiny, config: tinyConfig } as Any) as Any;
add("Tokenizer.decode ids", () => [6, 7], (ids) => tokenizer.decode(ids));
add("TokenDecoder.push ids", () => [6, 7], (ids) => {
  const decoder = tokenizer.decoder();
  return [decoder.push(ids), decoder.flush()];
});
add("Tokenizer.encodeInput input", () => ["w1", "w2"], (pair) => tokenizer.encodeInput(pair));
add("Tokenizer.encodeBatch inputs", words, (inputs) => tokenizer.encodeBatch(inputs));
const llama = randomLlama("q8_0", {
  ...{ layers: 1, width: 64, heads: 2, groups: 1, hidden: 96, vocabulary: 1000, context: 128 },
  template:
    "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.content }}{% if m.tool_calls %}" +
    "{% for c in m.tool_calls %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}{% endif %}{% endfor %}",
});
add(
  "open options.endTokens",
  () => [1, 2],
  async (endTokens) =>
    (await tokenizers.open(llama, { endTokens })).encode("ab", { special: true }),
);
const chat = await Chat.open({ "model.gguf": llama });
const tool = { name: "f", description: "d", parameters: { type: "object" }, call: () => 1 };
for (
  const [option, list] of [
    ["tools", () => [tool]],
    ["stop", () => ["zz", "yy"]],
    ["stopTokens", () => [95, 94]],
  ] as const
) {
  const ask = (given: Any): Any => chat.fork().ask("ab", { maxTokens: 2, [option]: given } as Any);
  add(`Chat.ask options.${option}`, list, ask);
  add(
    `Chat.stream options.${option}`,
    list,
    (given) => textOf(chat.fork().stream("ab", { maxTokens: 2, [option]: given } as Any)),
  );
}
add("Session.logits ids", () => [5, 9, 12], (ids) => model.session().logits(ids));
add(
  "Sampler.sample seen",
  () => [1, 2],
  (seen) =>
    new llm.Sampler({ repetitionPenalty: 2 }).sample(new Float32Array([1, 5, 4.5, -2]), seen),
);
add("TextStream stop", () => ["c", "d"], (stop) => {
  const stream = new llm.TextStream(codec.decode as Any, stop);
  return () => [stream.push(1), stream.push(3)];
});
add("TextStream before", () => [1, 2], (before) => {
  const stream = new llm.TextStream(codec.decode as Any, [], before);
  return () => [stream.push(1), stream.push(3)];
});
add(
  "download options.files",
  () => ["config.json"],
  (files) =>
    download("no/model", { files, hubUrl: "http://127.0.0.1:9", cache: "/nowhere" })
      // Nothing listens there.
      .catch((error) => /names/.test(String(error)) ? Promise.reject(error) : "no hub"),
);
const archive = lib.io.encodeNpz({ a: x(), b: line() });
add(
  "io.decodeNpz options.names",
  () => ["a", "b"],
  (names) => lib.io.decodeNpz(archive, { names }),
);
const path = join(temporary("lists"), "a.npz");
mkdirSync(dirname(path), { recursive: true });
writeFileSync(path, archive);
add("io.readNpz options.names", () => ["a", "b"], (names) => lib.io.readNpz(path, { names }));

/** Parameters without a call, and why. */
export const LEFT_OUT: ReadonlyMap<string, string> = new Map(
  [
    ...[
      "Layout shape",
      "Layout strides",
      "PackedWeight shape",
      ...["LanguageModel.step call.sequences", "LanguageModel.step call.ids", "Chat __0.messages"],
      ...["Constraint.start context.stopTokens", "GrammarConstraint.start context.stopTokens"],
      "Classifier labels",
      "ModelReport parts",
      ...["nodes", "initializers", "sparse", "inputs", "outputs"].map((name) =>
        `Model __0.graph.${name}`
      ),
      ...["Model __0.functions", "Model graph.nodes", "Model graph.inputs", "Model graph.outputs"],
    ],
    ...["LanguageModel config", "open options.config", "memory options.config", "stepOf config"]
      .flatMap((where) =>
        ["layerKinds", "layersWithoutRope", "endTokens"].map((name) => `${where}.${name}`)
      ),
    ...["LanguageModel config.experts.layers", "stepOf config.experts.layers"],
    ...["dropped", "shared", "folded", "packed", "joined", "fused", "placed", "tiled", "off"]
      .map((name) => `ProgramReport data.improvements.${name}`),
    ...["arguments", "ops", "results"].map((name) => `ProgramReport data.${name}`),
    ...["Counter", "Gauge", "Histogram"].flatMap((kind) =>
      ["labelNames", "buckets", "registers"].map((name) => `PromClient.${kind} metric.${name}`)
    ),
  ].map((key): readonly [string, string] => [key, "the library makes it"]).concat(
    ["KernelDefinition.infer inputs", "KernelDefinition.run inputs", "KernelDefinition.run outputs"]
      .concat("TextCodec.decode ids")
      .map((key): readonly [string, string] => [key, "the program defines the function"]),
    ["Classifier.rank texts"]
      .map((key): readonly [string, string] => [key, "classify reads them; rank has one label"]),
    ["io.fromArrow column.children", "io.fromArrow column.data"]
      .map((key): readonly [string, string] => [key, "another library makes it"]),
    ["columnParallel", "columnParallelSync", "rowParallel", "rowParallelSync"]
      .map((name): readonly [string, string] => [`${name} shard`, "the library makes it"]),
    ["Group.recv", "Group.recvSync", "World.recv", "World.recvSync"]
      .map((name): readonly [string, string] => [`${name} shape`, "ranks: tests/distributed"]),
  ),
);

/** Parameters whose types do not show that they take lists, and further forms of lists. */
export const UNTYPED: readonly string[] = [
  ...["tensor data", "Tensor.slice index", "Tensor.slice booleans", "Tensor.set index, lists"],
  ...[
    "Tensor.set index, booleans",
    "Tensor.reshape shape, copied",
    "Tensor.pad widths, one pair",
    "Tensor.takeAlongAxis indexes",
  ],
  ...["histogram2d bins, edges", "conv1d options.padding, pairs", "conv2d options.padding, pairs"],
  ...["conv3d options.padding, pairs", "linalg.tensordot axes"],
  "defineOp, what infer gives",
  "defineOp, what backward gives",
];

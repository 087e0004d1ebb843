/**
 * A program for each function of `nn` that is made of other ops, and the calls that an interpreter
 * sees of it.
 *
 * @module
 */
import { random } from "../../mod.ts";
import * as nn from "../../src/nn/mod.ts";
import type { Program } from "./programs.ts";

/** The records of functions of `nn`, by name. */
export const NN_PROGRAMS: [name: string, program: Program, ...record: string[]][] = [
  [
    "nn.batchNorm",
    ({ x, v }) => nn.batchNorm(x, v, v),
    "add(v, 0.00001)",
    "rsqrt(tensor of [3])",
    "mul(v, tensor of [3])",
    "neg(tensor of [3])",
    "reshape(tensor of [3]) {shape: [3]}",
    "reshape(tensor of [3]) {shape: [3]}",
    "affine: nn_affine(x, tensor of [3], tensor of [3])",
  ],
  [
    "nn.groupNorm",
    ({ x }) => nn.groupNorm(x, 1),
    "reshape(x) {shape: [2, 1, 3]}",
    "layerNorm(tensor of [2,1,3], -, -) {axis: -1, epsilon: 0.00001}",
    "reshape(tensor of [2,1,3]) {shape: [2, 3]}",
  ],
  [
    "nn.instanceNorm",
    ({ x }) => nn.instanceNorm(x.reshape([1, 2, 3])),
    "reshape(x) {shape: [1, 2, 3]}",
    "reshape(tensor of [1,2,3]) {shape: [1, 2, 3]}",
    "layerNorm(tensor of [1,2,3], -, -) {axis: -1, epsilon: 0.00001}",
    "reshape(tensor of [1,2,3]) {shape: [1, 2, 3]}",
  ],
  [
    "nn.localResponseNorm",
    ({ x }) => nn.localResponseNorm(x, 1),
    "square(x)",
    "moveAxis(tensor of [2,3]) {source: 1, destination: -1}",
    "localResponseNorm: avgPool(tensor of [2,3]) {windows: [{size: 1, stride: 1, dilation: 1, " +
    "ceil: false, padded: true, before: 0, after: 0}], divisor: 1}",
    "moveAxis(tensor of [2,3]) {source: -1, destination: 1}",
    "localResponseNorm: nn_localResponse(x, tensor of [2,3]) {alpha: 0.0001, beta: 0.75, k: 1}",
  ],
  ["nn.dropout", ({ x }) => nn.dropout(x)],
  [
    "nn.dropout [key]",
    ({ x }) => nn.dropout(x, { key: random.key(1) }),
    'dropout: randomTensor() {shape: [2, 3], dtype: "float32", device: "cpu", ' +
    'distribution: "uniform", low: 0, high: 1, key: [1, 0]}',
    "greaterEqual(tensor of [2,3], 0.5)",
    "mul(x, 2)",
    "dropout: where(tensor of [2,3], tensor of [2,3], 0)",
  ],
  [
    "nn.batchNorm [training]",
    ({ x, v }) => nn.batchNorm(x, v, v, { training: true }).value,
    "mean(x) {axis: [0]}",
    "reshape(tensor of [3]) {shape: [3]}",
    "sub(x, tensor of [3])",
    "square(tensor of [2,3])",
    "mean(tensor of [2,3]) {axis: [0]}",
    "add(tensor of [3], 0.00001)",
    "rsqrt(tensor of [3])",
    "reshape(tensor of [3]) {shape: [3]}",
    "mul(tensor of [2,3], tensor of [3])",
    "mul(v, 0.9)",
    "mul(tensor of [3], 0.1)",
    "add(tensor of [3], tensor of [3])",
    "mul(v, 0.9)",
    "mul(tensor of [3], 0.2)",
    "add(tensor of [3], tensor of [3])",
  ],
  [
    "nn.kaimingUniform",
    () => nn.kaimingUniform(random.key(1), [2, 6]),
    'kaimingUniform: randomTensor() {shape: [2, 6], dtype: "float32", ' +
    'distribution: "uniform", low: -1, high: 1, key: [1, 0]}',
  ],
  [
    "nn.kaimingNormal",
    () => nn.kaimingNormal(random.key(1), [2, 8]),
    'kaimingNormal: randomTensor() {shape: [2, 8], dtype: "float32", ' +
    'distribution: "normal", mean: 0, std: 0.5, key: [1, 0]}',
  ],
  [
    "nn.xavierUniform",
    () => nn.xavierUniform(random.key(1), [2, 4]),
    'xavierUniform: randomTensor() {shape: [2, 4], dtype: "float32", ' +
    'distribution: "uniform", low: -0.9999999999999999, high: 0.9999999999999999, key: [1, 0]}',
  ],
  [
    "nn.xavierNormal",
    () => nn.xavierNormal(random.key(1), [3, 5]),
    'xavierNormal: randomTensor() {shape: [3, 5], dtype: "float32", ' +
    'distribution: "normal", mean: 0, std: 0.5, key: [1, 0]}',
  ],
  ["nn.embedding", ({ i, w }) => nn.embedding(i, w), "embedding(i, w)"],
  [
    "nn.rnn",
    ({ x, v, s }) =>
      nn.rnn(x.reshape([1, 2, 3]), { weightIh: v.reshape([1, 3]), weightHh: s.reshape([1, 1]) })
        .output,
    "reshape(x) {shape: [1, 2, 3]}",
    "reshape(v) {shape: [1, 3]}",
    "reshape(s) {shape: [1, 1]}",
    "expandDims(tensor of [1,3]) {axis: 0}",
    "expandDims(tensor of [1,1]) {axis: 0}",
    "reshape(tensor of [1,1,3]) {shape: [1, 3]}",
    "linear(tensor of [1,2,3], tensor of [1,3], -)",
    'rnn: full() {shape: [1, 2, 1], value: 0, dtype: "float32", device: "cpu"}',
    "expandDims(tensor of [1,2,1]) {axis: 0}",
    'rnn: recurrent(tensor of [1,2,1], tensor of [1,1,1], tensor of [1,1,2,1]) {cell: "plain", activations: [[{name: "tanh"}]], reversed: [false]}',
    "selectAxis(tensor of [1,1,2,1]) {axis: 0, index: 0}",
    "reshape(tensor of [1,2,1,1]) {shape: [1, 2, 1]}",
  ],
  [
    "nn.lstm",
    ({ x, w }) =>
      Object.values(
        nn.lstm(x.reshape([1, 2, 3]), { weightIh: w, weightHh: w.sliceAxis(1, ":1") }),
      ),
    "reshape(x) {shape: [1, 2, 3]}",
    'sliceAxis(w) {axis: 1, index: ":1"}',
    "expandDims(w) {axis: 0}",
    "expandDims(tensor of [4,1]) {axis: 0}",
    "reshape(tensor of [1,4,3]) {shape: [4, 3]}",
    "linear(tensor of [1,2,3], tensor of [4,3], -)",
    'lstm: full() {shape: [1, 2, 1], value: 0, dtype: "float32", device: "cpu"}',
    'lstm: full() {shape: [1, 2, 1], value: 0, dtype: "float32", device: "cpu"}',
    "stack(tensor of [1,2,1], tensor of [1,2,1]) {axis: 0}",
    'lstm: recurrent(tensor of [1,2,4], tensor of [1,4,1], tensor of [2,1,2,1]) {cell: "lstm", gates: [0, 3, 1, 2], reversed: [false]}',
    "selectAxis(tensor of [2,1,2,1]) {axis: 0, index: 0}",
    "selectAxis(tensor of [2,1,2,1]) {axis: 0, index: 1}",
    "reshape(tensor of [1,2,1,1]) {shape: [1, 2, 1]}",
  ],
  [
    "nn.gru",
    ({ x, w }) => {
      const [weightIh, weightHh] = [w.sliceAxis(0, ":3"), w.slice(":3", ":1")];
      return nn.gru(x.reshape([1, 2, 3]), { weightIh, weightHh }).output;
    },
    'sliceAxis(w) {axis: 0, index: ":3"}',
    'slice(w) {index: [":3", ":1"]}',
    "reshape(x) {shape: [1, 2, 3]}",
    "expandDims(tensor of [3,3]) {axis: 0}",
    "expandDims(tensor of [3,1]) {axis: 0}",
    "reshape(tensor of [1,3,3]) {shape: [3, 3]}",
    "linear(tensor of [1,2,3], tensor of [3,3], -)",
    'gru: full() {shape: [1, 2, 1], value: 0, dtype: "float32", device: "cpu"}',
    "expandDims(tensor of [1,2,1]) {axis: 0}",
    'gru: recurrent(tensor of [1,2,3], tensor of [1,3,1], tensor of [1,1,2,1]) {cell: "gru", gates: [1, 0, 2], resetsAfter: true, reversed: [false]}',
    "selectAxis(tensor of [1,1,2,1]) {axis: 0, index: 0}",
    "reshape(tensor of [1,2,1,1]) {shape: [1, 2, 1]}",
  ],
  [
    "nn.interpolate",
    ({ x }) => nn.interpolate(x.reshape([1, 2, 3]), { size: 6 }),
    "reshape(x) {shape: [1, 2, 3]}",
    "reshape(tensor of [1,2,3]) {shape: [1, 2, 3, 1]}",
    "broadcastTo(tensor of [1,2,3,1]) {shape: [1, 2, 3, 2]}",
    "copy(tensor of [1,2,3,2])",
    "reshape(tensor of [1,2,3,2]) {shape: [1, 2, 6]}",
  ],
  [
    "nn.interpolate [linear]",
    ({ x }) => nn.interpolate(x.reshape([1, 2, 3]), { size: 2, mode: "linear" }),
    "reshape(x) {shape: [1, 2, 3]}",
    'tensor() {data: Int32Array, shape: [2, 2], device: "cpu"}',
    'tensor() {data: Float64Array, shape: [2, 2], dtype: "float32", device: "cpu"}',
    "interpolate: resample(tensor of [1,2,3], tensor of [2,2], tensor of [2,2]) {axis: 2}",
  ],
  [
    "nn.gridSample",
    ({ x, y }) => nn.gridSample(x.reshape([1, 1, 2, 3]), y.reshape([1, 3, 1, 2])),
    "reshape(x) {shape: [1, 1, 2, 3]}",
    "reshape(y) {shape: [1, 3, 1, 2]}",
    'gridSample(tensor of [1,1,2,3], tensor of [1,3,1,2]) {mode: "linear", padding: "zeros", alignCorners: false, cubicCoeff: -0.75}',
  ],
  [
    "nn.interpolate [area]",
    ({ x }) => nn.interpolate(x.reshape([1, 2, 3]), { size: 2, mode: "area" }),
    "reshape(x) {shape: [1, 2, 3]}",
    "interpolate: avgPool(tensor of [1,2,3]) {windows: [2]}",
  ],
  [
    "nn.cosineSimilarity",
    ({ x, y }) => nn.cosineSimilarity(x, y),
    "norm2(x) {axis: 1, keepDims: true}",
    "maximum(tensor of [2,1], 1e-8)",
    "div(x, tensor of [2,1])",
    "norm2(y) {axis: 1, keepDims: true}",
    "maximum(tensor of [2,1], 1e-8)",
    "div(y, tensor of [2,1])",
    "mul(tensor of [2,3], tensor of [2,3])",
    "sum(tensor of [2,3]) {axis: 1}",
  ],
  [
    "nn.cosineEmbeddingLoss",
    ({ x, y, v }) => nn.cosineEmbeddingLoss(x, y, v.sliceAxis(0, ":2")),
    'sliceAxis(v) {axis: 0, index: ":2"}',
    "mul(x, x)",
    "sum(tensor of [2,3]) {axis: 1}",
    "mul(y, y)",
    "sum(tensor of [2,3]) {axis: 1}",
    "cosineEmbeddingLoss: nn_lengths(tensor of [2], tensor of [2])",
    "mul(x, y)",
    "sum(tensor of [2,3]) {axis: 1}",
    "div(tensor of [2], tensor of [2])",
    "cosineEmbeddingLoss: nn_cosineEmbeddingLoss(tensor of [2], tensor of [2]) {margin: 0}",
    "mean(tensor of [2]) {axis: null}",
  ],
  [
    "nn.klDiv",
    ({ x, y }) => nn.klDiv(x, y, { reduction: "batchMean" }),
    "klDiv: nn_klDiv(x, y)",
    "sum(tensor of [2,3]) {axis: null}",
    "div(tensor of [], 2)",
  ],
  [
    "nn.klDiv [of logarithms]",
    ({ x, y }) => nn.klDiv(x, y, { logTarget: true, reduction: "none" }),
    "klDiv: nn_klDivLog(x, y)",
  ],
  [
    "nn.bceWithLogits [options]",
    ({ x, y, v }) => nn.bceWithLogits(x, y, { weight: v, posWeight: v, reduction: "none" }),
    "bceWithLogits: nn_bceWithLogitsWeighted(x, y, v)",
    "mul(tensor of [2,3], v)",
  ],
  [
    "nn.nllLoss",
    ({ x, i, v }) => nn.nllLoss(x, i, { weight: v }),
    "notEqual(i, -100)",
    "where(tensor of [2], i, 0)",
    "expandDims(tensor of [2]) {axis: 1}",
    "sub(tensor of [2,1], 3)",
    "less(tensor of [2,1], 0)",
    "where(tensor of [2,1], tensor of [2,1], tensor of [2,1])",
    "nllLoss: takeAlongAxis(x, tensor of [2,1]) {axis: 1, isClasses: true}",
    "squeeze(tensor of [2,1]) {axis: 1}",
    "take(v, tensor of [2]) {axis: 0}",
    "neg(tensor of [2])",
    "mul(tensor of [2], tensor of [2])",
    "where(tensor of [2], tensor of [2], 0)",
    "where(tensor of [2], tensor of [2], 0)",
    "sum(tensor of [2]) {axis: null}",
    "sum(tensor of [2]) {axis: null}",
    "div(tensor of [], tensor of [])",
  ],
  [
    "nn.crossEntropy",
    ({ x, i }) => nn.crossEntropy(x, i, { reduction: "sum" }),
    "logSoftmax(x) {axis: 1}",
    "notEqual(i, -100)",
    "where(tensor of [2], i, 0)",
    "expandDims(tensor of [2]) {axis: 1}",
    "sub(tensor of [2,1], 3)",
    "less(tensor of [2,1], 0)",
    "where(tensor of [2,1], tensor of [2,1], tensor of [2,1])",
    "crossEntropy: takeAlongAxis(tensor of [2,3], tensor of [2,1]) {axis: 1, isClasses: true}",
    "squeeze(tensor of [2,1]) {axis: 1}",
    "neg(tensor of [2])",
    "where(tensor of [2], tensor of [2], 0)",
    "sum(tensor of [2]) {axis: null}",
  ],
  [
    "nn.crossEntropy [of probabilities]",
    ({ x, y }) => nn.crossEntropy(x, y),
    "logSoftmax(x) {axis: 1}",
    "mul(tensor of [2,3], y)",
    "sum(tensor of [2,3]) {axis: 1}",
    "neg(tensor of [2])",
    "sum(tensor of [2]) {axis: null}",
    "div(tensor of [], 2)",
  ],

  ["nn.gelu", ({ x }) => nn.gelu(x), "gelu(x)"],
  [
    "nn.gelu [by a tanh]",
    ({ x }) => nn.gelu(x, { approximate: "tanh" }),
    "gelu: nn_geluTanh(x)",
  ],
  [
    "nn.prelu",
    ({ x, v }) => nn.prelu(x, v),
    "reshape(v) {shape: [3]}",
    "prelu: nn_prelu(x, tensor of [3])",
  ],
  [
    "nn.glu",
    ({ x }) => nn.glu(x, 0),
    "narrow(x) {axis: 0, start: 0, length: 1}",
    "narrow(x) {axis: 0, start: 1, length: 1}",
    "glu: nn_glu(tensor of [1,3], tensor of [1,3])",
  ],
  ["nn.swiglu", ({ x, y }) => nn.swiglu(x, y), "swiglu: nn_swiglu(x, y) {broadcast: false}"],
  ["nn.unfold", ({ x }) => nn.unfold(x, 1, 2, 1), "unfold(x) {axis: 1, size: 2, step: 1}"],
];

/** Activations of one tensor, by the numbers that their op gets. */
export const ACTIVATIONS: Record<string, string> = {
  ...{ elu: "{alpha: 1}", selu: "", celu: "{alpha: 1}", leakyRelu: "{negativeSlope: 0.01}" },
  ...{ relu6: "", softplus: "{beta: 1, threshold: 20}", mish: "", hardSigmoid: "", hardSwish: "" },
  ...{ hardTanh: "{min: -1, max: 1}", logSigmoid: "", softsign: "", tanhshrink: "" },
};
for (const [name, numbers] of Object.entries(ACTIVATIONS)) {
  const record = `${name}: nn_${name}(x)${numbers && ` ${numbers}`}`;
  NN_PROGRAMS.push([`nn.${name}`, ({ x }) => nn[name as "elu"](x), record]);
}

// Losses of two tensors, by the op of one element.
const LOSSES: Record<string, string> = {
  ...{ mseLoss: "nn_mseLoss(x, y)", l1Loss: "nn_l1Loss(x, y)" },
  ...{
    smoothL1Loss: "nn_smoothL1Loss(x, y) {beta: 1}",
    huberLoss: "nn_huberLoss(x, y) {delta: 1}",
  },
  ...{ binaryCrossEntropy: "nn_binaryCrossEntropy(x, y)", bceWithLogits: "nn_bceWithLogits(x, y)" },
};
for (const [name, record] of Object.entries(LOSSES)) {
  const program: Program = ({ x, y }) => nn[name as "mseLoss"](x, y);
  NN_PROGRAMS.push([
    `nn.${name}`,
    program,
    `${name}: ${record}`,
    "mean(tensor of [2,3]) {axis: null}",
  ]);
}

// Pooling of each rank.
for (const rank of [1, 2, 3]) {
  const shape = rank === 3 ? [1, 1, 2, 3] : rank === 2 ? [1, 2, 3] : [2, 3];
  const made = rank === 1 ? "x" : `tensor of [${shape}]`;
  const as = rank === 1 ? [] : [`reshape(x) {shape: [${shape.join(", ")}]}`];
  const size = rank === 3 ? [1, 2, 2] : 2;
  for (const [kind, op] of [["max", "maxPool"], ["avg", "avgPool"]] as const) {
    const sliding = [size].flat().map((one) =>
      `{size: ${one}, stride: ${one}, dilation: 1, before: 0, after: 0, ceil: false, padded: true}`
    );
    const windows = rank === 2 ? [sliding[0], sliding[0]] : sliding;
    const name = `${kind}Pool${rank}d` as "maxPool2d";
    const adaptive = `adaptive${kind === "max" ? "Max" : "Avg"}Pool${rank}d` as "adaptiveAvgPool2d";
    const ones = windows.map(() => 1).join(", ");
    NN_PROGRAMS.push([
      `nn.${name}`,
      ({ x }) => nn[name](rank === 1 ? x : x.reshape(shape), size),
      ...as,
      `${name}: ${op}(${made}) {windows: [${windows.join(", ")}]}`,
    ], [
      `nn.${adaptive}`,
      ({ x }) => nn[adaptive](rank === 1 ? x : x.reshape(shape), 1),
      ...as,
      `${adaptive}: ${op}(${made}) {windows: [${ones}]}`,
    ]);
  }
}

/**
 * A program for each method, function and member of a namespace, and the calls that an interpreter
 * sees of it.
 *
 * @module
 */
import { assert, assertThrows } from "@std/assert";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as rm from "../../mod.ts";
import { compile, offload } from "../../src/compile/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import { profile } from "../../src/profile/mod.ts";
import { MAP } from "../../src/table/table.ts";
import { loose } from "../support.ts";
import { LINALG_PROGRAMS } from "./programs/linalg.ts";
import { NN_PROGRAMS } from "./nn_programs.ts";
import { COMPLEX_PROGRAMS } from "./programs/complex.ts";
import { FFT_PROGRAMS } from "./programs/fft.ts";
import { SETS_PROGRAMS } from "./programs/sets.ts";
import { SORTING_PROGRAMS } from "./programs/sorting.ts";
import { FUNCTION_PROGRAMS, SPECIAL_PROGRAMS, STATISTICS_PROGRAMS } from "./programs/statistics.ts";

// The programs try every method, with arguments of every kind.
// deno-lint-ignore no-explicit-any
export type Operands = Record<string, any>;
export type Program = (t: Operands) => unknown;

/** The operands of programs, by the names that records have for them. */
export function operands(): Operands {
  return {
    x: rm.tensor([[1, 2, 3], [4, 5, 6]]),
    y: rm.full([2, 3], 2),
    b: rm.tensor([[1, 2, 3], [4, 5, 6]], { dtype: "int32" }),
    v: rm.tensor([1, 2, 3]),
    w: rm.ones([4, 3]),
    m: rm.tensor([[true, false, true], [false, true, false]]),
    i: rm.tensor([1, 0], { dtype: "int32" }),
    ii: rm.tensor([[1, 0], [0, 1]], { dtype: "int32" }),
    s: rm.scalar(7),
  };
}

const DOUBLED = rm.defineOp({ name: "recordedDouble", expr: "k * x", parameters: ["k"] });
/** What is used of apache-arrow. */
const ARROW = {
  makeData: (data: object) => data,
  Vector: class {
    // deno-lint-ignore no-explicit-any
    constructor(readonly data: any) {}
  },
  Field: Object,
  FixedSizeList: Object,
  Float32: Object,
};
const COLUMN = {
  type: { typeId: 3 },
  length: 2,
  offset: 0,
  nullCount: 0,
  values: new Float32Array(2),
  children: [],
};
const SAVED = rm.ones([2, 3]);
const FILES = {
  npy: rm.io.encodeNpy(SAVED),
  npz: await rm.io.encodeNpz({ x: SAVED }),
  safetensors: rm.io.encodeSafetensors({ x: SAVED }),
};
const MAPPED = await (async () => {
  const folder = mkdtempSync(join(tmpdir(), "rowmajor-programs-"));
  try {
    writeFileSync(join(folder, "x"), FILES.safetensors);
    return await rm.io.mapSafetensors(join(folder, "x"), { mmap: false });
  } finally {
    rmSync(folder, { recursive: true });
  }
})();
const FROM_FILE = 'fromFile() {dtype: "float32", shape: [2, 3], data: Uint8Array}';

type Row = [name: string, program: Program, ...record: string[]];

const WORDS = (name: string): string =>
  `${name}: randomTensor() {shape: [2], dtype: "uint32", device: "cpu", distribution: "bits", ` +
  "key: [1, 0]}";

/** The record of a random function with two parameters that are numbers. */
function deviates(name: string, dtype: string, one: number, two: number): string[] {
  return [
    WORDS(name),
    ...[one, two].map((value) => `full() {shape: [], value: ${value}, dtype: "float64"}`),
    `${name}: deviates(tensor of [2], tensor of [], tensor of []) {distribution: "${name}", ` +
    `shape: [2], dtype: "${dtype}"}`,
  ];
}

/** Programs of the further distributions of `random`. */
const RANDOM_PROGRAMS: Row[] = [
  ...(["exponential", "laplace", "gumbel"] as const).map((name): Row => [
    `random.${name}`,
    () => rm.random[name](rm.random.key(1), [2], { scale: 3 }),
    `${name}: randomTensor() {shape: [2], dtype: "float32", distribution: "${name}", mean: 0, ` +
    "std: 3, key: [1, 0]}",
  ]),
  [
    "random.gamma",
    () => rm.random.gamma(rm.random.key(1), [2], 3),
    ...deviates("gamma", "float32", 3, 0),
  ],
  [
    "random.beta",
    () => rm.random.beta(rm.random.key(1), [2], 3, 2),
    ...deviates("beta", "float32", 3, 2),
  ],
  [
    "random.poisson",
    () => rm.random.poisson(rm.random.key(1), [2], 3),
    ...deviates("poisson", "int32", 3, 0),
  ],
  [
    "random.binomial",
    () => rm.random.binomial(rm.random.key(1), [2], 9, 0.5),
    ...deviates("binomial", "int32", 9, 0.5),
  ],
  [
    "random.truncatedNormal",
    () => rm.random.truncatedNormal(rm.random.key(1), [2], { low: -Infinity, high: Infinity }),
    ...deviates("truncatedNormal", "float32", 0, 1),
  ],
  [
    "random.categorical",
    ({ v }) => rm.random.categorical(rm.random.key(1), v),
    "categorical: moveAxis(v) {source: 0, destination: -1}",
    WORDS("categorical"),
    'astype: copy(tensor of [3]) {dtype: "float64"}',
    "categorical(tensor of [2], tensor of [3]) {logits: true, shape: [], draws: 1}",
  ],
  [
    "random.choice",
    ({ v }) => rm.random.choice(rm.random.key(1), v, [2]),
    'choice: randomTensor() {shape: [2], dtype: "int32", device: "cpu", ' +
    'distribution: "integers", low: 0n, high: 3n, key: [1, 0]}',
    "take(v, tensor of [2]) {axis: 0}",
  ],
  [
    "random.shuffle",
    ({ x }) => rm.random.shuffle(rm.random.key(1), x),
    'shuffle: randomTensor() {shape: [2], dtype: "int32", device: "cpu", ' +
    'distribution: "permutation", key: [1, 0]}',
    "take(x, tensor of [2]) {axis: 0}",
  ],
  [
    "random.multivariateNormal",
    ({ v }) => rm.random.multivariateNormal(rm.random.key(1), [2], v, rm.eye(3)),
    'eye() {shape: [3, 3], k: 0, dtype: "float32"}',
    'astype: copy(tensor of [3,3]) {dtype: "float64"}',
    "multivariateNormal: covarianceFactor(tensor of [3,3]) {epsilon: 4.76837158203125e-7}",
    'multivariateNormal: randomTensor() {shape: [2, 3], dtype: "float64", device: "cpu", ' +
    'distribution: "normal", mean: 0, std: 1, key: [1, 0]}',
    "transpose(tensor of [3,3])",
    "matmul(tensor of [2,3], tensor of [3,3])",
    'astype: copy(v) {dtype: "float64"}',
    "add(tensor of [2,3], tensor of [3]) into tensor of [2,3]",
    "reshape(tensor of [2,3]) {shape: [2, 3]}",
    'copy(tensor of [2,3]) {dtype: "float32"}',
  ],
];

/** The records of methods and functions, by name. */
export const PROGRAMS: [name: string, program: Program, ...record: string[]][] = [
  // ---- no ops: what a tensor is, who holds it ----------------------------------------------------
  ["constructor", () => undefined],
  ["dtype", ({ x }) => x.dtype],
  ["shape", ({ x }) => x.shape],
  ["strides", ({ x }) => x.strides],
  ["byteStrides", ({ x }) => x.byteStrides],
  ["offset", ({ x }) => x.offset],
  ["rank", ({ x }) => x.rank],
  ["size", ({ x }) => x.size],
  ["nbytes", ({ x }) => x.nbytes],
  ["device", ({ x }) => x.device],
  ["access", ({ x }) => x.access],
  ["isContiguous", ({ x }) => x.isContiguous],
  ["flags", ({ x }) => x.flags],
  ["Symbol(rowmajor.brand)", ({ x }) => x[Symbol.for("rowmajor.brand")]],
  ["isDisposed", ({ x }) => x.isDisposed],
  ["ownership", ({ x }) => x.ownership],
  ["dispose", ({ x }) => x.dispose()],
  ["Symbol(Symbol.dispose)", ({ x }) => x[Symbol.dispose]()],
  ["Symbol(Symbol.toPrimitive)", ({ x }) => {
    assertThrows(() => `${x[Symbol.toPrimitive]("number")}`);
  }],
  ["sharesBuffer", ({ x, y }) => rm.sharesBuffer(x, y)],
  ["keep", ({ x }) => rm.keep(x)],
  ["scope", ({ x }) => rm.scope(() => x.neg()), "neg(x)"],
  ["attempt", ({ x }) => rm.attempt(() => x.neg()).value, "neg(x)"],
  ["allowTF32", () => rm.allowTF32(false)],
  ["compile", ({ x }) => compile((x: rm.Tensor) => x.neg())(x), "neg(x)"],
  ["capture", ({ x }) => {
    assertThrows(() => rm.capture(loose("cpu"), () => x.neg()), rm.DeviceError);
  }],
  ["offload", ({ x, later }) => later(offload(() => x.neg()))],
  ["emptyCache", () => rm.emptyCache()],
  ["finfo", () => rm.finfo("float32")],
  ["iinfo", () => rm.iinfo("int8")],
  ["info", () => rm.info().backends.native !== undefined],
  ["memory", () => rm.memory().bytes > 0],
  ["profile", ({ x }) => profile(() => x.neg()).result, "neg(x)"],
  ["promoteTypes", () => rm.promoteTypes("int8", "uint8")],
  ["range", () => rm.range(0, 2)],
  ["rangeInclusive", () => rm.rangeInclusive(0, 2)],
  ["setBackend", () => rm.setBackend("js")],
  ["setThreads", () => rm.setThreads(1) > 0],
  ["synchronize", () => undefined],
  ["warmUp", () => rm.warmUp("cpu", ["add"])],
  ["random.key", () => rm.random.key(1)],
  ["random.split", () => rm.random.split(rm.random.key(1))],
  ["random.foldIn", () => rm.random.foldIn(rm.random.key(1), 2)],

  // ---- reads -------------------------------------------------------------------------------------
  ["item", ({ s }) => s.item(), "item reads s"],
  ["get", ({ x }) => x.get(0, 1), "get reads x"],
  ["toArray", ({ x }) => x.toArray(), "toArray reads x"],
  ["toJSON", ({ x }) => JSON.stringify(x), "toJSON reads x"],
  ["toTypedArray", ({ x }) => x.toTypedArray(), "toTypedArray reads x"],
  ["data", ({ x }) => x.data, "data reads x"],
  ["read", ({ x, later }) => later(x.read()), "read reads x"],
  ["toString", ({ x }) => String(x), "toString reads x"],
  [
    "Symbol(nodejs.util.inspect.custom)",
    ({ x }) => x[Symbol.for("nodejs.util.inspect.custom")]({}, {}),
    "toString reads x",
  ],
  [
    "Symbol(Jupyter.display)",
    ({ x }) => x[Symbol.for("Jupyter.display")](),
    "toString reads x",
    "toString reads x",
  ],
  ["withPointer", ({ x }) => x.withPointer(() => 1), "withPointer reads x"],
  ["intoTypedArray", ({ x }) => x.intoTypedArray(), "intoTypedArray reads x"],
  ["intoRaw", ({ x }) => x.intoRaw().shape, "intoRaw reads x"],
  ["intoOwned", ({ x }) => x.T.intoOwned(), "T: transpose(x)", "intoOwned reads tensor of [3,2]"],
  ["intoOwnedKeepLayout", ({ x }) => x.intoOwnedKeepLayout(), "intoOwnedKeepLayout reads x"],
  ["intoCow", ({ x }) => x.intoCow(), "intoCow reads x"],
  [
    "intoShared",
    ({ x }) => x.intoShared().toArray(),
    "intoShared reads x",
    "toArray reads tensor of [2,3]",
  ],
  [
    "intoSharedKeepLayout",
    ({ x }) => x.intoSharedKeepLayout().toArray(),
    "intoSharedKeepLayout reads x",
    "toArray reads tensor of [2,3]",
  ],
  [
    "equals",
    ({ x, y }) => x.equals(y),
    "equals: equal(x, y)",
    "all(tensor of [2,3])",
    "equals reads tensor of []",
  ],
  [
    "allclose",
    ({ x, y }) => x.allclose(y),
    "allclose: closeness(x, y) {rtol: 0.00001, atol: 1e-8, equalNan: false}",
    "all(tensor of [2,3])",
    "allclose reads tensor of []",
  ],
  [
    "image",
    ({ b }) => rm.image(b.astype("uint8")).toString().length > 0,
    'astype: copy(b) {dtype: "uint8"}',
    "toTypedArray reads tensor of [2,3]",
  ],
  ["io.encodeNpy", ({ x }) => rm.io.encodeNpy(x), "encodeNpy reads x"],
  ["io.encodeNpz", ({ x, later }) => later(rm.io.encodeNpz({ x })), "encodeNpz reads x"],
  ["io.encodeSafetensors", ({ x }) => rm.io.encodeSafetensors({ x }), "encodeSafetensors reads x"],
  [
    "io.writeNpy",
    ({ x, path, later }) => later(rm.io.writeNpy(path("a.npy"), x)),
    "writeNpy reads x",
  ],
  [
    "io.writeNpz",
    ({ x, path, later }) => later(rm.io.writeNpz(path("a.npz"), { x })),
    "writeNpz reads x",
  ],
  [
    "io.writeSafetensors",
    ({ x, path, later }) => later(rm.io.writeSafetensors(path("a.safetensors"), { x })),
    "writeSafetensors reads x",
  ],

  // ---- views -------------------------------------------------------------------------------------
  ["view", ({ x }) => x.view(), "view(x)"],
  ["readonly", ({ x }) => x.readonly(), "readonly: view(x)"],
  ["contiguous", ({ x }) => x.contiguous(), "contiguous: view(x)"],
  ["asDType", ({ x }) => x.asDType("float32"), "asDType: view(x)"],
  ["asDynamic", ({ x }) => x.asDynamic(), "asDynamic: view(x)"],
  ["asRank", ({ x }) => x.asRank(2), "asRank(x) {rank: 2}"],
  ["asShape", ({ x }) => x.asShape([2, 3]), "asShape(x) {shape: [2, 3]}"],
  ["like", ({ x, y }) => x.like(y), "like: asShape(x) {shape: [2, 3]}"],
  ["T", ({ x }) => x.T, "T: transpose(x)"],
  ["mT", ({ x }) => x.mT, "mT(x)"],
  ["transpose", ({ x }) => x.transpose(), "transpose(x)"],
  ["permute", ({ x }) => x.permute(1, 0), "permute(x) {axes: [1, 0]}"],
  ["permuteDims", ({ x }) => x.permuteDims(1, 0), "permuteDims: permute(x) {axes: [1, 0]}"],
  ["swapAxes", ({ x }) => x.swapAxes(0, -1), "swapAxes(x) {axis1: 0, axis2: -1}"],
  ["moveAxis", ({ x }) => x.moveAxis(0, 1), "moveAxis(x) {source: 0, destination: 1}"],
  ["reshape", ({ x }) => x.reshape([3, -1]), "reshape(x) {shape: [3, -1]}"],
  ["flatten", ({ x }) => x.flatten(), "flatten(x)"],
  ["expandDims", ({ x }) => x.expandDims(1), "expandDims(x) {axis: 1}"],
  ["unsqueeze", ({ x }) => x.unsqueeze(0), "unsqueeze: expandDims(x) {axis: 0}"],
  ["squeeze", ({ x }) => x.squeeze(), "squeeze(x)"],
  ["flip", ({ x }) => x.flip([0]), "flip(x) {axis: [0]}"],
  ["broadcastTo", ({ v }) => v.broadcastTo([2, 3]), "broadcastTo(v) {shape: [2, 3]}"],
  ["diagonal", ({ x }) => x.diagonal(1), "diagonal(x) {offset: 1}"],
  ["sliceAxis", ({ x }) => x.sliceAxis(1, "1:"), 'sliceAxis(x) {axis: 1, index: "1:"}'],
  [
    "iterate",
    ({ x }) => [...x.iterate(0)],
    "iterate: selectAxis(x) {axis: 0, index: 0}",
    "iterate: selectAxis(x) {axis: 0, index: 1}",
  ],
  [
    "Symbol(Symbol.iterator)",
    ({ v }) => [...v],
    "iterate: selectAxis(v) {axis: 0, index: 0}",
    "iterate: selectAxis(v) {axis: 0, index: 1}",
    "iterate: selectAxis(v) {axis: 0, index: 2}",
  ],
  ["split", ({ x }) => x.split(3, 1), "split(x) {parts: 3, axis: 1}"],
  ["unstack", ({ x }) => x.unstack(), "unstack(x) {axis: 0}"],
  ["broadcastTensors", ({ x, v }) => rm.broadcastTensors(x, v), "broadcastTensors(x, v)"],

  // ---- creation ----------------------------------------------------------------------------------
  ["tensor", () => rm.tensor([1, 2]), "tensor() {data: [1, 2]}"],
  [
    "tensor [of a tensor]",
    ({ x }) => rm.tensor(x, { dtype: "float64" }),
    'make a tensor: tensorOf(x) {dtype: "float64"}',
  ],
  ["scalar", () => rm.scalar(3), 'scalar: full() {shape: [], value: 3, dtype: "float32"}'],
  ["empty", () => rm.empty([0]), 'empty: full() {shape: [0], value: 0, dtype: "float32"}'],
  [
    "emptyLike",
    ({ b }) => rm.emptyLike(b).shape,
    'emptyLike: full() {shape: [2, 3], value: 0, dtype: "int32", device: "cpu"}',
  ],
  ["zeros", () => rm.zeros([2]), 'zeros: full() {shape: [2], value: 0, dtype: "float32"}'],
  [
    "zerosLike",
    ({ b }) => rm.zerosLike(b),
    'zerosLike: full() {shape: [2, 3], value: 0, dtype: "int32", device: "cpu"}',
  ],
  ["ones", () => rm.ones([2]), 'ones: full() {shape: [2], value: 1, dtype: "float32"}'],
  [
    "onesLike",
    ({ b }) => rm.onesLike(b),
    'onesLike: full() {shape: [2, 3], value: 1, dtype: "int32", device: "cpu"}',
  ],
  [
    "full",
    () => rm.full([2], 3, { dtype: "int8" }),
    'full() {shape: [2], value: 3, dtype: "int8"}',
  ],
  [
    "fullLike",
    ({ b }) => rm.fullLike(b, 4),
    'fullLike: full() {shape: [2, 3], value: 4, dtype: "int32", device: "cpu"}',
  ],
  [
    "fullMax",
    () => rm.fullMax([2], { dtype: "uint8" }),
    'fullMax: full() {shape: [2], value: 255, dtype: "uint8"}',
  ],
  [
    "fullMin",
    () => rm.fullMin([2], { dtype: "uint8" }),
    'fullMin: full() {shape: [2], value: 0, dtype: "uint8"}',
  ],
  ["eye", () => rm.eye(2, 3), 'eye() {shape: [2, 3], k: 0, dtype: "float32"}'],
  ["arange", () => rm.arange(1, 5, 2), 'arange() {start: 1, stop: 5, step: 2, dtype: "float32"}'],
  [
    "linspace",
    () => rm.linspace(0, 1, 3),
    'linspace() {start: 0, stop: 1, count: 3, endpoint: true, dtype: "float32"}',
  ],
  [
    "fromBuffer",
    () => rm.fromBuffer(new Float32Array(2)),
    "make a tensor from a buffer: fromBuffer() {buffer: Float32Array, options: {}}",
  ],
  [
    "random.bits",
    () => rm.random.bits(rm.random.key(1), [2]),
    'bits: randomTensor() {shape: [2], dtype: "uint32", distribution: "bits", key: [1, 0]}',
  ],
  [
    "random.uniform",
    () => rm.random.uniform(rm.random.key(1), [2]),
    'uniform: randomTensor() {shape: [2], dtype: "float32", distribution: "uniform", low: 0, ' +
    "high: 1, key: [1, 0]}",
  ],
  [
    "random.normal",
    () => rm.random.normal(rm.random.key(1), [2], { mean: 1, std: 2 }),
    'normal: randomTensor() {shape: [2], dtype: "float32", distribution: "normal", mean: 1, ' +
    "std: 2, key: [1, 0]}",
  ],
  [
    "random.integers",
    () => rm.random.integers(rm.random.key(1), [2], 0, 5),
    'integers: randomTensor() {shape: [2], dtype: "int32", distribution: "integers", low: 0n, ' +
    "high: 5n, key: [1, 0]}",
  ],
  [
    "random.permutation",
    () => rm.random.permutation(rm.random.key(1), 4),
    'permutation: randomTensor() {shape: [4], dtype: "int32", distribution: "permutation", ' +
    "key: [1, 0]}",
  ],
  ...RANDOM_PROGRAMS,
  [
    "io.fromArrow",
    () => rm.io.fromArrow(COLUMN),
    "make a tensor from a buffer: fromBuffer() {buffer: Float32Array, options: {}}",
  ],
  [
    "io.toArrow",
    ({ x }) => rm.io.toArrow(ARROW, x.flatten()).data[0].length,
    "flatten(x)",
    "data reads tensor of [6]",
  ],
  ["io.decodeNpy", () => rm.io.decodeNpy(FILES.npy), FROM_FILE],
  ["io.decodeNpz", ({ later }) => later(rm.io.decodeNpz(FILES.npz)), FROM_FILE],
  [
    "io.decodeSafetensors",
    () => rm.io.decodeSafetensors(FILES.safetensors).get("x"),
    FROM_FILE,
  ],
  ["io.mapNpy", ({ path, later }) => later(rm.io.mapNpy(path("none")))],
  [
    "io.mapSafetensors",
    () => MAPPED.get("x"),
    'mapFile() {dtype: "float32", shape: [2, 3], storage: Storage}',
  ],
  ["io.openSafetensors", ({ path, later }) => later(rm.io.openSafetensors(path("none")))],
  ["io.readNpy", ({ path, later }) => later(rm.io.readNpy(path("none")))],
  ["io.readNpz", ({ path, later }) => later(rm.io.readNpz(path("none")))],

  // ---- copies, joins and rearrangement -----------------------------------------------------------
  ["copy", ({ x }) => x.copy(), "copy(x)"],
  ["toOwned", ({ x }) => x.toOwned(), "toOwned: copy(x)"],
  ["astype", ({ x }) => x.astype("int8"), 'astype: copy(x) {dtype: "int8"}'],
  ["to", ({ x }) => x.to("cpu"), 'to(x) {device: "cpu"}'],
  ["cpu", ({ x }) => x.cpu(), 'cpu: to(x) {device: "cpu"}'],
  ["cuda", ({ x }) => {
    const { value, error } = rm.attempt(() => x.cuda());
    assert(value !== undefined || error instanceof rm.DeviceError);
  }, 'cuda: to(x) {device: "cuda"}'],
  ["concat", ({ x, y }) => rm.concat([x, y], 1), "concat(x, y) {axis: 1}"],
  ["stack", ({ x, y }) => rm.stack([x, y], -1), "stack(x, y) {axis: -1}"],
  ["meshgrid", ({ v }) => rm.meshgrid([v, v]), 'meshgrid(v, v) {indexing: "xy"}'],
  ["tile", ({ x }) => x.tile([2, 1]), "tile(x) {repeats: [2, 1]}"],
  ["repeat", ({ x }) => x.repeat(2, 1), "repeat(x) {repeats: 2, axis: 1}"],
  ["roll", ({ x }) => x.roll(1, 0), "roll(x) {shift: 1, axis: 0}"],
  ["pad", ({ x }) => x.pad(1), 'pad(x) {widths: 1, mode: "constant", value: 0}'],
  ["tril", ({ x }) => x.tril(), "tril(x) {k: 0}"],
  ["triu", ({ x }) => x.triu(1), "triu(x) {k: 1}"],
  ["diff", ({ x }) => x.diff(), "diff(x) {n: 1, axis: -1}"],
  ["sort", ({ x }) => x.sort(0, { descending: true }), "sort(x) {axis: 0, descending: true}"],
  ["argsort", ({ x }) => x.argsort(), "argsort(x) {axis: -1, descending: false}"],
  [
    "topk",
    ({ x }) => Object.values(x.topk(2, -1, { largest: false })),
    "topk(x) {k: 2, axis: -1, largest: false, sorted: true}",
  ],

  // ---- indexing ----------------------------------------------------------------------------------
  ["slice", ({ x }) => x.slice(0, "1:"), 'slice(x) {index: [0, "1:"]}'],
  ["slice [by a tensor]", ({ x, i }) => x.slice(i), "slice: index(x, i) {index: [i]}"],
  ["take", ({ x, i }) => x.take(i, 1), "take(x, i) {axis: 1}"],
  ["takeAlongAxis", ({ x, ii }) => x.takeAlongAxis(ii, 1), "takeAlongAxis(x, ii) {axis: 1}"],
  ["nonzero", ({ m }) => m.nonzero(), "nonzero(m)"],
  ["oneHot", ({ i }) => i.oneHot(3), 'oneHot(i) {classes: 3, dtype: "float32"}'],
  ["set", ({ x, i }) => x.set([i, 0], 7), "set(x, 7, i) {index: [i, 0], accumulate: false}"],
  [
    "putAlongAxis_",
    ({ x, ii }) => x.putAlongAxis_(ii, 5, 1),
    "putAlongAxis_(x, ii, 5) {axis: 1, accumulate: false}",
  ],

  // ---- elementwise -------------------------------------------------------------------------------
  ["fill_", ({ x }) => x.fill_(3), 'fill_: copy(3) {dtype: "float32"} into x'],
  ["where", ({ m, x }) => rm.where(m, x, 0), "where(m, x, 0)"],
  ["defineOp", ({ x }) => DOUBLED(x, { k: 2 }), "recordedDouble(x) {v_k: 2}"],
  [
    "getOp",
    ({ x }) => rm.getOp("recordedDouble")(x, { k: 2 }),
    "recordedDouble(x) {v_k: 2}",
  ],
  ["clip", ({ x }) => x.clip(2, 4), "clip(x, 2, 4)"],
  ["clip_", ({ x }) => x.clip_(2, null), "clip_: maximum(x, 2) into x"],
  [
    "isclose",
    ({ x, y }) => x.isclose(y),
    "isclose: closeness(x, y) {rtol: 0.00001, atol: 1e-8, equalNan: false}",
  ],

  // ---- products, reductions, rows ----------------------------------------------------------------
  ["matmul", ({ x, w }) => x.matmul(w.T), "T: transpose(w)", "matmul(x, tensor of [3,4])"],
  ["dot", ({ v }) => v.dot(v), "dot: matmul(v, v)"],
  ["outer", ({ v }) => v.outer(v), "outer(v, v)"],
  [
    "nn.conv1d",
    ({ x }) => nn.conv1d(x.reshape([1, 3, 2]), rm.ones([4, 3, 1])),
    "reshape(x) {shape: [1, 3, 2]}",
    'ones: full() {shape: [4, 3, 1], value: 1, dtype: "float32"}',
    "conv1d: conv(tensor of [1,3,2], tensor of [4,3,1]) {stride: [1], padding: [[0, 0]], dilation: [1], groups: 1}",
  ],
  [
    "nn.conv2d",
    ({ x }) => {
      const images = x.reshape([1, 3, 2, 1]);
      const options = { padding: 1, winograd: true };
      return [
        nn.conv2d(images, rm.ones([4, 3, 1, 1])),
        nn.conv2d(images, rm.ones([4, 3, 3, 3]), undefined, options),
      ];
    },
    "reshape(x) {shape: [1, 3, 2, 1]}",
    'ones: full() {shape: [4, 3, 1, 1], value: 1, dtype: "float32"}',
    "conv2d: conv(tensor of [1,3,2,1], tensor of [4,3,1,1]) {stride: [1, 1], padding: [[0, 0], [0, 0]], dilation: [1, 1], groups: 1}",
    'ones: full() {shape: [4, 3, 3, 3], value: 1, dtype: "float32"}',
    "winogradWeight(tensor of [4,3,3,3])",
    "conv2d: winograd(tensor of [1,3,2,1], tensor of [36,4,3]) {stride: [1, 1], padding: [[1, 1], [1, 1]], dilation: [1, 1], groups: 1}",
  ],
  [
    "nn.conv3d",
    ({ x }) => nn.conv3d(x.reshape([1, 3, 2, 1, 1]), rm.ones([4, 3, 1, 1, 1])),
    "reshape(x) {shape: [1, 3, 2, 1, 1]}",
    'ones: full() {shape: [4, 3, 1, 1, 1], value: 1, dtype: "float32"}',
    "conv3d: conv(tensor of [1,3,2,1,1], tensor of [4,3,1,1,1]) {stride: [1, 1, 1], padding: [[0, 0], [0, 0], [0, 0]], dilation: [1, 1, 1], groups: 1}",
  ],
  [
    "nn.convTranspose1d",
    ({ x }) => nn.convTranspose1d(x.reshape([1, 3, 2]), rm.ones([3, 4, 1])),
    "reshape(x) {shape: [1, 3, 2]}",
    'ones: full() {shape: [3, 4, 1], value: 1, dtype: "float32"}',
    "convTranspose1d: convTranspose(tensor of [1,3,2], tensor of [3,4,1]) {stride: [1], padding: [[0, 0]], dilation: [1], groups: 1, outputPadding: [0]}",
  ],
  [
    "nn.convTranspose2d",
    ({ x }) => nn.convTranspose2d(x.reshape([1, 3, 2, 1]), rm.ones([3, 4, 1, 1])),
    "reshape(x) {shape: [1, 3, 2, 1]}",
    'ones: full() {shape: [3, 4, 1, 1], value: 1, dtype: "float32"}',
    "convTranspose2d: convTranspose(tensor of [1,3,2,1], tensor of [3,4,1,1]) {stride: [1, 1], padding: [[0, 0], [0, 0]], dilation: [1, 1], groups: 1, outputPadding: [0, 0]}",
  ],
  [
    "nn.convTranspose3d",
    ({ x }) => nn.convTranspose3d(x.reshape([1, 3, 2, 1, 1]), rm.ones([3, 4, 1, 1, 1])),
    "reshape(x) {shape: [1, 3, 2, 1, 1]}",
    'ones: full() {shape: [3, 4, 1, 1, 1], value: 1, dtype: "float32"}',
    "convTranspose3d: convTranspose(tensor of [1,3,2,1,1], tensor of [3,4,1,1,1]) {stride: [1, 1, 1], padding: [[0, 0], [0, 0], [0, 0]], dilation: [1, 1, 1], groups: 1, outputPadding: [0, 0, 0]}",
  ],
  [
    "nn.attention",
    ({ x }) => nn.attention(x.reshape([1, 2, 3]), x.reshape([1, 2, 3]), x.reshape([1, 2, 3])),
    "reshape(x) {shape: [1, 2, 3]}",
    "reshape(x) {shape: [1, 2, 3]}",
    "reshape(x) {shape: [1, 2, 3]}",
    "attention(tensor of [1,2,3], tensor of [1,2,3], tensor of [1,2,3]) {scale: 0.5773502691896258, causal: false}",
  ],
  [
    "nn.rope",
    ({ x }) => nn.rope(x.reshape([3, 2]), { cos: rm.ones([3, 1]), sin: rm.ones([3, 1]) }),
    "reshape(x) {shape: [3, 2]}",
    'ones: full() {shape: [3, 1], value: 1, dtype: "float32"}',
    'ones: full() {shape: [3, 1], value: 1, dtype: "float32"}',
    "rope(tensor of [3,2], tensor of [3,1], tensor of [3,1]) {interleaved: false}",
  ],
  [
    "nn.ropeAngles",
    () => nn.ropeAngles([0, 1], { dimensions: 2 }).cos,
    "tensor() {data: Float32Array, shape: [2, 1]}",
    "tensor() {data: Float32Array, shape: [2, 1]}",
  ],
  [
    "nn.cachedAttention",
    ({ x, i }) => {
      const one = x.reshape([1, 2, 3]), keys = rm.ones([1, 4, 3]);
      const length = i.max(), pool = keys.reshape([2, 1, 2, 3]);
      return [
        nn.cachedAttention(one, one, one, { keys, values: keys, length }),
        nn.cachedAttention(one, one, one, { keys: pool, values: pool, length, pages: i }, {
          stepwise: true,
        }),
      ];
    },
    "reshape(x) {shape: [1, 2, 3]}",
    'ones: full() {shape: [1, 4, 3], value: 1, dtype: "float32"}',
    "max(i)",
    "reshape(tensor of [1,4,3]) {shape: [2, 1, 2, 3]}",
    "cachedAttention(tensor of [1,2,3], tensor of [1,2,3], tensor of [1,2,3], tensor of [1,4,3], tensor of [1,4,3], tensor of []) {scale: 0.5773502691896258, causal: true, window: Infinity, softCap: Infinity, stepwise: false}",
    "cachedAttention(tensor of [1,2,3], tensor of [1,2,3], tensor of [1,2,3], tensor of [2,1,2,3], tensor of [2,1,2,3], tensor of [], -, i) {scale: 0.5773502691896258, causal: true, window: Infinity, softCap: Infinity, stepwise: true}",
  ],
  [
    "nn.KVCache",
    () => {
      using cache = new nn.KVCache({ layers: 1, heads: 1, dimensions: 2, dtype: "float32" });
      cache.append(rm.ones([1, 2, 1, 1, 2]));
      return cache.length;
    },
    'ones: full() {shape: [1, 2, 1, 1, 2], value: 1, dtype: "float32"}',
  ],
  ["nn.Weights", ({ w }) => nn.weights({ w }) instanceof nn.Weights],
  ["nn.open", ({ later }) => later(nn.open(FILES.safetensors))],
  ["nn.findModel", ({ later }) => later(nn.findModel("."))],
  [
    // What loads a weight is no part of the program.
    "nn.weights",
    ({ x, w }) => nn.weights({ "a.weight": w }).linear("a", 4, 3, { bias: false })(x),
    "linear: linearPacked(x, tensor of [1,3,32], -) {columns: 4, depth: 3}",
  ],
  [
    "nn.fuse",
    ({ x, w }) => {
      const from = nn.weights({ "a.weight": w });
      const two = nn.fuse(
        from.linear("a", 4, 3, { bias: false }),
        from.linear("a", 4, 3, { bias: false }),
      );
      return two(x);
    },
    "linear: linearPacked(x, tensor of [1,3,32], -) {columns: 8, depth: 3}",
    "narrow(tensor of [2,8]) {axis: 1, start: 0, length: 4}",
    "narrow(tensor of [2,8]) {axis: 1, start: 4, length: 4}",
  ],
  [
    "nn.fold",
    ({ x, v }) => {
      const from = nn.weights({
        "c.weight": rm.ones([3, 1, 1]),
        ...{ "n.running_mean": v, "n.running_var": v },
      });
      const layer = nn.fold(
        from.conv1d("c", 3, 1, 1, { bias: false }),
        from.batchNorm("n", 3),
      );
      return layer(x.reshape([2, 1, 3]));
    },
    'ones: full() {shape: [3, 1, 1], value: 1, dtype: "float32"}',
    "reshape(x) {shape: [2, 1, 3]}",
    "conv1d: conv(tensor of [2,1,3], tensor of [3,1,1], tensor of [3]) {stride: [1], padding: [[0, 0]], dilation: [1], groups: 1}",
  ],
  [
    "nn.splitHeads",
    ({ x }) => nn.splitHeads(x, 3),
    "reshape(x) {shape: [2, 3, 1]}",
    "swapAxes(tensor of [2,3,1]) {axis1: 0, axis2: 1}",
  ],
  [
    "nn.mergeHeads",
    ({ x }) => nn.mergeHeads(x.reshape([1, 2, 3])),
    "reshape(x) {shape: [1, 2, 3]}",
    "swapAxes(tensor of [1,2,3]) {axis1: 0, axis2: 1}",
    "reshape(tensor of [2,1,3]) {shape: [2, 3]}",
  ],
  ["linear", ({ x, w }) => x.linear(w), "linear(x, w, -)"],
  [
    "linear [options]",
    ({ x, w }) => x.linear(w, undefined, { activation: "relu", add: x.linear(w) }),
    "linear(x, w, -)",
    'linear(x, w, -, tensor of [2,4]) {activation: "relu"}',
  ],
  [
    "pack",
    ({ x, w }) => x.linear(rm.pack(w), undefined, { activation: "relu" }),
    "pack(w)",
    'linear: linearPacked(x, tensor of [1,3,32], -) {columns: 4, depth: 3, activation: "relu"}',
  ],
  [
    "dequantize",
    () => {
      const w = rm.fromBuffer(new Uint8Array(34), { dtype: "q8_0", shape: [1, 32] });
      return [w.dequantize(), rm.ones([2, 32]).linear(w)];
    },
    'make a tensor from a buffer: fromBuffer() {buffer: Uint8Array, options: {dtype: "q8_0", shape: [1, 32]}}',
    "dequantize(tensor of [1,32])",
    'ones: full() {shape: [2, 32], value: 1, dtype: "float32"}',
    "linear: linearQuantized(tensor of [2,32], tensor of [1,32], -, -)",
  ],
  [
    "quantize",
    () => rm.quantize(rm.ones([2, 32]), "q4_0"),
    'ones: full() {shape: [2, 32], value: 1, dtype: "float32"}',
    'quantize(tensor of [2,32]) {format: "q4_0"}',
  ],
  [
    "quantize [int8]",
    ({ x, w }) => x.linear(rm.quantize(w, "int8")),
    "quantize: quantizeInt8(w)",
    "linear: linearInt8(x, tensor of [1,16,12], -, -) {columns: 4, depth: 3}",
  ],
  ["var", ({ x }) => x.var(0), "var: variance(x) {axis: 0, correction: 0}"],
  [
    "std",
    ({ x }) => x.std(null, { correction: 1 }),
    "std: standardDeviation(x) {axis: null, correction: 1}",
  ],
  ["norm", ({ x }) => x.norm(1, { ord: 3 }), "norm(x) {axis: 1, ord: 3}"],
  ["softmax", ({ x }) => x.softmax(), "softmax(x) {axis: -1}"],
  ["logSoftmax", ({ x }) => x.logSoftmax(0), "logSoftmax(x) {axis: 0}"],
  ["layerNorm", ({ x, v }) => x.layerNorm(-1, { weight: v }), "layerNorm(x, v, -) {axis: -1}"],
  ["rmsNorm", ({ x }) => x.rmsNorm(), "rmsNorm(x, -, -) {axis: -1}"],
];

PROGRAMS.push(...NN_PROGRAMS, ...FFT_PROGRAMS, ...SETS_PROGRAMS);
PROGRAMS.push(...STATISTICS_PROGRAMS, ...SORTING_PROGRAMS);
PROGRAMS.push(...LINALG_PROGRAMS, ...COMPLEX_PROGRAMS);
PROGRAMS.push(...SPECIAL_PROGRAMS, ...FUNCTION_PROGRAMS);

/** Methods that are one op of their own name, without elementwise ones, by their arguments. */
const FAMILIES: [names: string, program: (name: string) => Program, as: string][] = [
  [
    "sum prod mean max min any all countNonzero logsumexp",
    (name) => ({ x }) => x[name](1, { keepDims: true }),
    "(x) {axis: 1, keepDims: true}",
  ],
  [
    "argmax argmin cumulativeSum cumulativeProd",
    (name) => ({ x }) => x[name](0),
    "(x) {axis: 0}",
  ],
];

for (const [names, program, as] of FAMILIES) {
  for (const name of names.split(" ")) PROGRAMS.push([name, program(name), name + as]);
}

// Elementwise ops of the table whose methods have their names, and in-place ones. An op without a
// method of its name needs a program above: recording_test.ts fails without one.
const listed = new Set(PROGRAMS.map(([name]) => name));
for (const { name, arity, dtypes } of Object.values(MAP)) {
  const key = dtypes.includes("f") ? "x" : "b";
  const [other, shown] = key === "b" ? [1, "1"] : [2, "2"];
  const names = [name, `${name}_`].filter((one) => one in rm.Tensor.prototype && !listed.has(one));
  for (const method of names) {
    const inPlace = method !== name;
    const inputs = arity === 1 ? key : `${key}, ${inPlace || key === "b" ? shown : "y"}`;
    PROGRAMS.push([
      method,
      (t) => arity === 1 ? t[key][method]() : t[key][method](inputs.endsWith("y") ? t.y : other),
      inPlace ? `${method}: ${name}(${inputs}) into ${key}` : `${name}(${inputs})`,
    ]);
  }
}

/** The result of a program in a comparable form. */
export function plain(value: unknown): unknown {
  if (value instanceof rm.Tensor) {
    return value.isDisposed ? "gone" : value.toArray({ bigint: false });
  }
  if (Array.isArray(value)) return value.map(plain);
  return value;
}

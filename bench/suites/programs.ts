/**
 * Programs of many ops, eager and compiled, beside NumPy, PyTorch, torch.compile and ONNX Runtime.
 *
 * A row's program is a function of tensors, which runs as it is (eagerly) and compiled. Statements
 * in Python use the same names; peer_models.py defines the models that they call.
 *
 * @module
 */
import * as rm from "../../mod.ts";
import * as nn from "../../src/nn/mod.ts";
import { compile } from "../../src/compile/mod.ts";
import type { AnyTensor, Call, Input, ServedRow, Suite, Tensors } from "../harness/suite.ts";
import { timerRows } from "./timer.ts";
import { VISION } from "./vision.ts";

/** A program, and how a call is given its tensors. */
export interface Program {
  readonly group: string;
  /** Unique in the group. */
  readonly name: string;
  readonly inputs: Readonly<Record<string, Input>>;
  /** The inputs that a call gives to the program, which captures the others. */
  readonly args: readonly string[];
  /** Makes the program. */
  readonly program: (x: Tensors) => (...args: AnyTensor[]) => AnyTensor;
  /** If given, calls write into such a tensor instead of allocating their result. */
  readonly out?: ServedRow["out"];
  /** Eager code for {@link out} that allocates as little as possible. */
  readonly into?: (x: Tensors, out: AnyTensor) => unknown;
  /** Figures are per op; the number of them. */
  readonly ops?: number;
  /** The statement of each library that has one. With {@link out} it writes to `o`. */
  readonly statements: ServedRow["statements"];
}

function from(low: number, high: number, ...shape: number[]): Input {
  return { dtype: "float32", kind: "uniform", shape, low, high };
}

/** The weight of a layer whose outputs vary as much as its inputs. */
function weight(outputs: number, inputs: number): Input {
  const bound = Math.sqrt(3 / inputs);
  return from(-bound, bound, outputs, inputs);
}

const vector = (size: number): Input => from(-0.1, 0.1, size);

// ---- chains ------------------------------------------------------------------------------------

const SIDE = 1000;
const full = from(-2, 2, SIDE, SIDE);
const row = from(-2, 2, SIDE);
const column = from(-2, 2, SIDE, 1);
const positive = from(0.5, 2, SIDE);

/** A chain of elementwise ops, casts and reductions on 1e6 numbers. */
interface Chain {
  readonly name: string;
  readonly inputs: Readonly<Record<string, Input>>;
  readonly program: (...args: AnyTensor[]) => AnyTensor;
  readonly into: (x: Tensors, out: AnyTensor) => unknown;
  readonly out?: Program["out"];
  /** The results as an expression; without a result, there is no equivalent. */
  readonly numpy?: string;
  readonly torch: string;
  /** Statements that write to `o`. */
  readonly numpyInto?: string;
  readonly torchInto: string;
}

const CHAINS: readonly Chain[] = [
  {
    name: "relu(a * b + c)",
    inputs: { a: full, b: full, c: full },
    program: (a, b, c) => a.mul(b).add(c).relu(),
    into: ({ a, b, c }, out) => a.mul(b, { out }).add_(c).relu_(),
    numpy: "np.maximum(a * b + c, 0)",
    torch: "torch.relu(a * b + c)",
    numpyInto: "np.multiply(a, b, out=o); np.add(o, c, out=o); np.maximum(o, 0, out=o)",
    torchInto: "torch.mul(a, b, out=o).add_(c).relu_()",
  },
  {
    // NumPy has no error function.
    name: "gelu(x * row + row) + r",
    inputs: { x: full, s: row, b: row, r: full },
    program: (x, s, b, r) => x.mul(s).add(b).gelu().add(r),
    into: ({ x, s, b, r }, out) => x.mul(s, { out }).add_(b).gelu_().add_(r),
    torch: "F.gelu(x * s + b) + r",
    torchInto: "torch.add(F.gelu(torch.mul(x, s, out=o).add_(b)), r, out=o)",
  },
  {
    name: "(x - row) / row",
    inputs: { x: full, m: row, s: positive },
    program: (x, m, s) => x.sub(m).div(s),
    into: ({ x, m, s }, out) => x.sub(m, { out }).div_(s),
    numpy: "(x - m) / s",
    torch: "(x - m) / s",
    numpyInto: "np.subtract(x, m, out=o); np.divide(o, s, out=o)",
    torchInto: "torch.sub(x, m, out=o).div_(s)",
  },
  {
    name: "sigmoid(x) * y + column",
    inputs: { x: full, y: full, z: column },
    program: (x, y, z) => x.sigmoid().mul(y).add(z),
    into: ({ x, y, z }, out) => x.sigmoid({ out }).mul_(y).add_(z),
    numpy: "y / (1 + np.exp(-x)) + z",
    torch: "torch.sigmoid(x) * y + z",
    numpyInto: "np.negative(x, out=o); np.exp(o, out=o); np.add(o, 1, out=o); " +
      "np.divide(y, o, out=o); np.add(o, z, out=o)",
    torchInto: "torch.sigmoid(x, out=o).mul_(y).add_(z)",
  },
  {
    name: "clip(x * 255, 0, 255) as uint8",
    inputs: { x: from(-0.2, 1.2, SIDE, SIDE) },
    program: (x) => x.mul(255).clip(0, 255).astype("uint8"),
    into: ({ x }, out) =>
      rm.scope(() => {
        out.set([":"], x.mul(255).clip_(0, 255).astype("uint8"));
      }),
    out: { dtype: "uint8", shape: [SIDE, SIDE] },
    numpy: "np.clip(x * 255, 0, 255).astype(np.uint8)",
    torch: "(x * 255).clamp(0, 255).to(torch.uint8)",
    numpyInto: "np.clip(x * 255, 0, 255, out=o, casting='unsafe')",
    torchInto: "o.copy_((x * 255).clamp_(0, 255))",
  },
  {
    name: "sum of (a - b)² along rows",
    inputs: { a: full, b: full },
    program: (a, b) => a.sub(b).square().sum(1),
    into: ({ a, b }, out) =>
      rm.scope(() => {
        a.sub(b).square_().sum(1, { out });
      }),
    out: { dtype: "float32", shape: [SIDE] },
    numpy: "np.square(a - b).sum(1)",
    torch: "(a - b).square().sum(1)",
    numpyInto: "np.sum(np.square(a - b), 1, out=o)",
    torchInto: "torch.sum((a - b).square_(), 1, out=o)",
  },
  {
    name: "exp(x - max) / sum along rows",
    inputs: { x: full },
    program: (x) => {
      const e = x.sub(x.max(1, { keepDims: true })).exp();
      return e.div(e.sum(1, { keepDims: true }));
    },
    into: ({ x }, out) =>
      rm.scope(() => {
        x.sub(x.max(1, { keepDims: true }), { out }).exp_();
        out.div_(out.sum(1, { keepDims: true }));
      }),
    numpy: "(e := np.exp(x - x.max(1, keepdims=True))) / e.sum(1, keepdims=True)",
    torch: "(e := torch.exp(x - x.amax(1, True))) / e.sum(1, True)",
    numpyInto: "np.subtract(x, x.max(1, keepdims=True), out=o); np.exp(o, out=o); " +
      "np.divide(o, o.sum(1, keepdims=True), out=o)",
    torchInto: "torch.sub(x, x.amax(1, True), out=o).exp_(); o.div_(o.sum(1, True))",
  },
  {
    name: "where(x > 0, x, row * x) + column",
    inputs: { x: full, a: row, b: column },
    program: (x, a, b) => rm.where(x.greater(0), x, x.mul(a)).add(b),
    into: ({ x, a, b }, out) =>
      rm.scope(() => rm.where(x.greater(0), x, x.mul(a, { out }), { out }).add_(b)),
    numpy: "np.where(x > 0, x, a * x) + b",
    torch: "torch.where(x > 0, x, a * x) + b",
    numpyInto: "np.add(np.where(x > 0, x, a * x), b, out=o)",
    torchInto: "torch.where(x > 0, x, torch.mul(a, x, out=o), out=o).add_(b)",
  },
];

function chainRows(chain: Chain): Program[] {
  const { name, inputs, program, into, numpy, torch, numpyInto, torchInto } = chain;
  const common = { group: "chains", inputs, args: Object.keys(inputs), program: () => program };
  const statements = (numpy: string | undefined, torch: string, compiled: string) => ({
    ...(numpy === undefined ? {} : { NumPy: numpy }),
    "PyTorch": torch,
    "torch.compile": compiled,
  });
  return [
    { ...common, group: "chains", name, statements: statements(numpy, torch, torch) },
    {
      ...common,
      group: "chains",
      name: `${name}, out`,
      out: chain.out ?? { dtype: "float32", shape: [SIDE, SIDE] },
      into,
      statements: statements(numpyInto, torchInto, `o.copy_(${torch})`),
    },
  ];
}

// ---- networks ----------------------------------------------------------------------------------

function linearRow(rows: number): Program {
  return {
    group: "linear",
    name: `[${rows}, 384] by [384, 1536]`,
    inputs: { x: from(-2, 2, rows, 384), w: weight(1536, 384) },
    args: ["x"],
    program: ({ w }) => (x) => x.linear(w),
    statements: { "PyTorch": "F.linear(x, w)", "ONNX Runtime": "linear(inputs)" },
  };
}

function perceptronRow(batch: number): Program {
  return {
    group: "MLP",
    name: `784-256-128-10, batch ${batch}`,
    inputs: {
      x: from(0, 1, batch, 784),
      w1: weight(256, 784),
      b1: vector(256),
      w2: weight(128, 256),
      b2: vector(128),
      w3: weight(10, 128),
      b3: vector(10),
    },
    args: ["x"],
    program: ({ w1, b1, w2, b2, w3, b3 }) => (x) =>
      x.linear(w1, b1).relu().linear(w2, b2).relu().linear(w3, b3).softmax(1),
    statements: {
      "NumPy": "softmax(np.maximum(np.maximum(x @ w1.T + b1, 0) @ w2.T + b2, 0) @ w3.T + b3)",
      "PyTorch":
        "F.linear(F.linear(F.linear(x, w1, b1).relu_(), w2, b2).relu_(), w3, b3).softmax(1)",
      "ONNX Runtime": "perceptron(inputs)",
    },
  };
}

/** The encoder's layers, width, heads and inner width: those of MiniLM-L6. */
export const ENCODER = { layers: 6, width: 384, heads: 12, inner: 1536 } as const;

/** The weights of layer `i`, by the names that {@link encode} and peer.py use. */
function encoderLayer(i: number): Record<string, Input> {
  const { width, inner } = ENCODER;
  const square = weight(width, width);
  const norm = { gain: from(0.5, 1.5, width), shift: vector(width) };
  const parts: Record<string, Input> = {
    wq: square,
    bq: vector(width),
    wk: square,
    bk: vector(width),
    wv: square,
    bv: vector(width),
    wo: square,
    bo: vector(width),
    g1: norm.gain,
    s1: norm.shift,
    wu: weight(inner, width),
    bu: vector(inner),
    wd: weight(width, inner),
    bd: vector(width),
    g2: norm.gain,
    s2: norm.shift,
  };
  return Object.fromEntries(Object.entries(parts).map(([name, input]) => [`${name}${i}`, input]));
}

/**
 * An encoder as BERT's, which normalizes after each sum, of [batch, length, width]; of the first
 * tokens of each text, if their numbers are given.
 */
function encode(w: Tensors, x: AnyTensor, lengths?: AnyTensor): AnyTensor {
  const { layers, width, heads } = ENCODER;
  const [batch, length] = x.shape as unknown as [number, number];
  const size = width / heads;
  const split = (y: AnyTensor) => y.reshape([batch, length, heads, size]).permute(0, 2, 1, 3);
  const epsilon = 1e-12;
  for (let i = 0; i < layers; i++) {
    const q = split(x.linear(w[`wq${i}`], w[`bq${i}`]));
    const k = split(x.linear(w[`wk${i}`], w[`bk${i}`]));
    const v = split(x.linear(w[`wv${i}`], w[`bv${i}`]));
    const seen = lengths === undefined
      ? q.matmul(k.mT).mul(1 / Math.sqrt(size)).softmax(-1).matmul(v)
      : nn.attention(q, k, v, { lengths });
    const joined = seen.permute(0, 2, 1, 3).reshape([batch, length, width]);
    x = x.add(joined.linear(w[`wo${i}`], w[`bo${i}`]))
      .layerNorm(-1, { weight: w[`g1${i}`], bias: w[`s1${i}`], epsilon });
    const inner = x.linear(w[`wu${i}`], w[`bu${i}`]).gelu();
    x = x.add(inner.linear(w[`wd${i}`], w[`bd${i}`]))
      .layerNorm(-1, { weight: w[`g2${i}`], bias: w[`s2${i}`], epsilon });
  }
  return x;
}

function encoderRow(batch: number, length: number): Program {
  const { layers, width, heads } = ENCODER;
  const weights = Array.from({ length: layers }, (_, i) => encoderLayer(i));
  const call = `encoder(inputs, ${layers}, ${heads})`;
  return {
    group: "encoder",
    name: `${batch}×${length}`,
    inputs: Object.assign({ x: from(-2, 2, batch, length, width) }, ...weights),
    args: ["x"],
    program: (w) => (x) => encode(w, x),
    statements: { "PyTorch": call, "ONNX Runtime": call },
  };
}

/** The numbers of tokens of texts, and by how many a batch may have more. */
const [MIXED, STEP] = [[8, 12, 20, 33, 47, 64, 90, 128], 16] as const;

/** The means of the tokens of each text: [texts, width]. */
function pooled(x: AnyTensor, lengths: readonly number[]): AnyTensor {
  const each = rm.tensor([...lengths], { dtype: "int32" }).reshape([-1, 1]);
  const seen = rm.arange(x.shape[1]!, { dtype: "int32" }).less(each).astype("float32");
  return x.mul(seen.reshape([lengths.length, -1, 1])).sum(1).div(each.astype("float32"));
}

/** The texts in one batch, or in one batch for each length, rounded up. */
function encodeMixed(w: Tensors, x: AnyTensor, padded: boolean): AnyTensor {
  const batches = new Map<number, number[]>();
  for (const [i, n] of MIXED.entries()) {
    const size = padded ? MIXED.at(-1)! : Math.ceil(n / STEP) * STEP;
    batches.set(size, [...batches.get(size) ?? [], i]);
  }
  const results = [...batches].map(([size, texts]) => {
    const own = texts.map((i) => MIXED[i]!);
    const part = x.slice(`${texts[0]}:${texts.at(-1)! + 1}`, `:${size}`) as AnyTensor;
    const made = encode(w, part, rm.tensor(own, { dtype: "int32" }));
    return pooled(made, own);
  });
  return rm.concat(results, 0) as AnyTensor;
}

function mixedRow(padded: boolean): Program {
  const { layers, width, heads } = ENCODER;
  const weights = Array.from({ length: layers }, (_, i) => encoderLayer(i));
  return {
    group: "mixed lengths",
    name: `${MIXED.length} texts of ${MIXED[0]} to ${MIXED.at(-1)}, ` +
      (padded ? "padded" : "by length"),
    inputs: Object.assign({ x: from(-2, 2, MIXED.length, MIXED.at(-1)!, width) }, ...weights),
    args: ["x"],
    program: (w) => (x) => encodeMixed(w, x, padded),
    statements: {
      "PyTorch": `mixed(inputs, ${layers}, ${heads}, ${JSON.stringify(MIXED)}, ${
        padded ? 0 : STEP
      })`,
    },
  };
}

// ---- small ops ---------------------------------------------------------------------------------

const STEPS = 33;

/** 33 times a sum, a product and a reduction, and one sum: each needs the one before. */
const smallRow: Program = {
  group: "small ops",
  name: "add, product and mean of 16, per op",
  inputs: { a: from(-1, 1, 4, 4), w: from(-0.5, 0.5, 4, 4), r: from(-1, 1, 4, 1) },
  args: ["a", "w", "r"],
  program: () => (a, w, r) => {
    for (let i = 0; i < STEPS; i++) r = a.add(r).matmul(w).mean(1, { keepDims: true });
    return a.add(r);
  },
  ops: 3 * STEPS + 1,
  statements: {
    "NumPy": `small(a, w, r, ${STEPS})`,
    "PyTorch": `small(a, w, r, ${STEPS})`,
    "torch.compile": `small(a, w, r, ${STEPS})`,
  },
};

/** All rows. */
export const PROGRAMS: readonly Program[] = [
  ...CHAINS.flatMap(chainRows),
  ...[1, 2, 4, 8, 16, 64, 128].map(linearRow),
  ...[1, 16, 64].map(perceptronRow),
  encoderRow(1, 16),
  encoderRow(1, 128),
  encoderRow(8, 128),
  mixedRow(true),
  mixedRow(false),
  ...VISION,
  smallRow,
];

/** A call of a program, eager or compiled. */
function callOf(
  { program: make, args: names, out: kind, into, ops }: Program,
  x: Tensors,
  way: string,
): Call {
  const args = names.map((name) => x[name]!);
  const program = make(x);
  const out = kind && rm.zeros(kind.shape, { dtype: kind.dtype }) as AnyTensor;
  if (way === "") {
    const compiled = compile(program);
    if (out !== undefined) {
      const run = () => compiled(...args, { out });
      return { run, result: () => (run(), out) };
    }
    const result = () => compiled(...args);
    return { run: ops ? result : () => result().dispose(), result };
  }
  if (out !== undefined) {
    const run = () => into!(x, out);
    return { run, result: () => (run(), out) };
  }
  // The results of small ops are left to the garbage collector, as in typical programs.
  if (ops !== undefined) return { run: () => program(...args), result: () => program(...args) };
  const result = () => rm.scope(() => program(...args));
  return { run: () => result().dispose(), result };
}

function rowOf(program: Program): ServedRow {
  const { group, name, inputs, statements, out, ops } = program;
  return {
    ...{ group, name, inputs, statements, compares: true },
    ...(out === undefined ? {} : { out }),
    ...(ops === undefined ? {} : { per: { unit: "op", count: ops } }),
    call: (x, way) => callOf(program, x, way),
  };
}

/** The suite. */
export const suite: Suite = {
  title: "Programs of many ops beside NumPy, PyTorch, torch.compile and ONNX Runtime",
  groups: {
    ...Object.fromEntries(
      ["chains", "linear", "MLP", "encoder", "mixed lengths", "conv", "ResNet-18", "small ops"]
        .map((name) => [name, name]),
    ),
    timer: "timer of 1 ms",
  },
  rows: [...PROGRAMS.map(rowOf), ...timerRows()],
  ways: ["eager", ""],
  python: ["NumPy", "PyTorch", "torch.compile", "ONNX Runtime"],
  rounds: 3,
  ms: 100,
  beside: "each",
  lines: "group",
  short: ["Deno", "Bun"],
};

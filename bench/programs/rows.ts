/**
 * The rows of the benchmark of compiled programs, with the same work in other libraries.
 *
 * A row's program is a function of tensors, which runs as it is (eagerly) and compiled. Statements
 * in Python use the same names; peer.py defines the models that they call. Knows nothing of clocks,
 * processes or tables.
 *
 * @module
 */
import * as rm from "../../mod.ts";
import * as nn from "../../src/nn/mod.ts";
import { VISION } from "./vision.ts";

/** An input: uniform numbers from `low` to `high`, equal in all languages. */
export interface Input {
  /** The size of each axis. */
  readonly shape: readonly number[];
  /** The lower end. */
  readonly low: number;
  /** The upper end. */
  readonly high: number;
}

/** A tensor of a row. */
export type AnyTensor = rm.Tensor<rm.DType>;

/** The tensors of a row, by name. */
export type Tensors = Readonly<Record<string, AnyTensor>>;

/** The groups, in the order of the tables. */
export const GROUPS = [
  ...["chains", "linear", "MLP", "encoder", "mixed lengths"] as const,
  ...["conv", "ResNet-18", "small ops"] as const,
] as const;

/** The libraries in Python that rows are compared with, in the order of the tables. */
export const PEERS = ["NumPy", "PyTorch", "torch.compile", "ONNX Runtime"] as const;

/** See {@link PEERS}. */
export type PeerName = typeof PEERS[number];

/** One thing to time. */
export interface Row {
  /** Rows of a group share a geometric mean and their inputs. */
  readonly group: typeof GROUPS[number];
  /** Unique in the group. */
  readonly name: string;
  /** By name. The n-th input is the same wherever its shape and range are. */
  readonly inputs: Readonly<Record<string, Input>>;
  /** The inputs that a call gives to the program, which captures the others. */
  readonly args: readonly string[];
  /** Makes the program. */
  readonly program: (x: Tensors) => (...args: AnyTensor[]) => AnyTensor;
  /** If given, calls write into such a tensor instead of allocating their result. */
  readonly out?: { readonly dtype: "float32" | "uint8"; readonly shape: readonly number[] };
  /** Eager code for {@link out} that allocates as little as possible. */
  readonly into?: (x: Tensors, out: AnyTensor) => unknown;
  /** Figures are per op; the number of them. */
  readonly ops?: number;
  /** The statement of each library that has one. With {@link out} it writes to `o`. */
  readonly statements: Readonly<Partial<Record<PeerName, string>>>;
}

/** Names a row in requests. */
export function keyOf(row: Row): string {
  return `${row.group}/${row.name}`;
}

/**
 * `count` uniform numbers in [low, high), the `stream`-th such sequence: hashes of their indexes.
 * `uniform` of peer.py computes the same bits.
 */
export function uniform(count: number, stream: number, low: number, high: number): Float32Array {
  const numbers = new Float32Array(count);
  for (let i = 0; i < count; i++) {
    let hash = (i + Math.imul(stream + 1, 0x9e3779b9)) | 0;
    hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
    hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
    numbers[i] = low + ((hash ^ (hash >>> 16)) >>> 0) / 2 ** 32 * (high - low);
  }
  return numbers;
}

function from(low: number, high: number, ...shape: number[]): Input {
  return { shape, low, high };
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
  readonly out?: Row["out"];
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

function chainRows(chain: Chain): Row[] {
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

function linearRow(rows: number): Row {
  return {
    group: "linear",
    name: `[${rows}, 384] by [384, 1536]`,
    inputs: { x: from(-2, 2, rows, 384), w: weight(1536, 384) },
    args: ["x"],
    program: ({ w }) => (x) => x.linear(w),
    statements: { "PyTorch": "F.linear(x, w)", "ONNX Runtime": "linear(inputs)" },
  };
}

function perceptronRow(batch: number): Row {
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

function encoderRow(batch: number, length: number): Row {
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

function mixedRow(padded: boolean): Row {
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
const smallRow: Row = {
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
export const ROWS: readonly Row[] = [
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

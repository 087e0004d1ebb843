/**
 * Kernels of several ops beside the ops that they replace: attention, chains of elementwise ops,
 * products with packed weights; and products with quantized weights beside reading as many bytes.
 *
 * @module
 */
import {
  empty,
  fromBuffer,
  ones,
  pack,
  random,
  scope,
  type Tensor,
  where,
  zeros,
} from "../../mod.ts";
import { DTYPE } from "../../src/base/dtype.ts";
import { dispatch, performCall } from "../../src/core/dispatch.ts";
import { tidy } from "../../src/core/handles.ts";
import { interpret } from "../../src/core/interpreter.ts";
import { isOperand, type Operand } from "../../src/memory/operand.ts";
import { attention } from "../../src/ops/attention/op.ts";
import { CHAIN } from "../../src/ops/chain/op.ts";
import type { ChainAttributes, ChainStep } from "../../src/ops/chain/steps.ts";
import { quantizeInt8 } from "../../src/ops/linear/int8.ts";
import { QUANT, type QuantName } from "../../src/ops/quantized/formats.ts";
import type { Call, Input, MapOp } from "../../src/table/op.ts";
import type {
  AnyTensor,
  Call as TimedCall,
  Input as Spec,
  ServedRow,
  Suite,
} from "../harness/suite.ts";

// Types know no shapes that cases give.
// deno-lint-ignore no-explicit-any
type Any = any;

const ALONE = "one by one";

function row(
  group: string,
  name: string,
  inputs: ServedRow["inputs"],
  call: (x: Any, alone: boolean) => () => unknown,
  more: Partial<ServedRow> = {},
): ServedRow {
  return {
    ...{ group, name, inputs, statements: {} },
    call: (x, way): TimedCall => ({ run: call(x, way === ALONE) }),
    ...more,
  };
}

// ---- attention ---------------------------------------------------------------------------------

interface Case {
  readonly name: string;
  readonly batch: number;
  readonly heads: number;
  /** Heads of keys. */
  readonly keyHeads: number;
  readonly m: number;
  readonly n: number;
  readonly d: number;
  readonly causal?: boolean;
  /** A mask [batch, 1, 1, n], as padded sentences need it. */
  readonly padded?: boolean;
}

function llama(name: string, m: number, n: number): Case {
  return { name, batch: 1, heads: 9, keyHeads: 3, m, n, d: 64, causal: m > 1 };
}

const bert = { heads: 12, keyHeads: 12, d: 32 };

const CASES: readonly Case[] = [
  { name: "BERT 8×128", batch: 8, ...bert, m: 128, n: 128 },
  { name: "BERT 8×128, padded", batch: 8, ...bert, m: 128, n: 128, padded: true },
  { name: "BERT 1×16", batch: 1, ...bert, m: 16, n: 16 },
  { name: "12 heads of 64, 512", batch: 1, heads: 12, keyHeads: 12, m: 512, n: 512, d: 64 },
  { name: "16 heads of 64, 512", batch: 1, heads: 16, keyHeads: 16, m: 512, n: 512, d: 64 },
  llama("Llama, prompt of 128", 128, 128),
  llama("Llama, prompt of 512", 512, 512),
  llama("Llama, token after 64", 1, 64),
  llama("Llama, token after 512", 1, 512),
  llama("Llama, token after 2048", 1, 2048),
  {
    name: "32 heads of 64, token after 2048",
    batch: 1,
    heads: 32,
    keyHeads: 32,
    m: 1,
    n: 2048,
    d: 64,
  },
];

/** [batch, heads, rows, columns], in the memory of [batch, rows, heads · columns]. */
function heads(seed: number, c: Case, count: number, rows: number, dtype: string): Any {
  const flat: Any = random.normal(random.key(seed), [c.batch, rows, count, c.d]);
  return flat.astype(dtype).permute(0, 2, 1, 3);
}

/** Attention as one op, or as the ops that it replaces. */
function attend(c: Case, dtype: string, alone: boolean): () => unknown {
  const { batch, keyHeads, m, n, d } = c;
  const q = heads(1, c, c.heads, m, dtype);
  const [k, v] = [heads(2, c, keyHeads, n, dtype), heads(3, c, keyHeads, n, dtype)];
  const scale = 1 / Math.sqrt(d);
  const mask: Any = c.padded ? random.uniform(random.key(4), [batch, 1, 1, n]).log() : undefined;
  const merged: Any = (empty as Any)([batch, m, c.heads, d], { dtype });
  if (!alone) {
    const out = merged.permute(0, 2, 1, 3);
    const given = mask === undefined ? {} : { mask };
    return () => attention(q, k, v, { scale, causal: c.causal ?? false, out, ...given });
  }
  const groups = c.heads / keyHeads;
  const split: Any = q.reshape([batch, keyHeads, groups, m, d]);
  const [keys, values]: Any[] = [k.expandDims(2).mT, v.expandDims(2)];
  const hidden: Any = ones([m, n]).triu(n - m + 1).greater(0);
  const limits: Any = c.causal ? where(hidden, -Infinity, 0) : undefined;
  return () =>
    scope(() => {
      let scores: Any = split.matmul(keys);
      scores.mul_(scale);
      if (mask !== undefined) scores.add_(mask.expandDims(2));
      if (limits !== undefined) scores.add_(limits);
      scores = scores.softmax(-1);
      const product: Any = scores.matmul(values);
      merged.set(["..."], product.reshape([batch, c.heads, m, d]).permute(0, 2, 1, 3));
    });
}

// ---- chains ------------------------------------------------------------------------------------

/** Shapes of operands do not matter here. */
type T = Tensor<"float32", number[]>;

const line = (kind: Spec["kind"] = "normal"): Spec => ({
  dtype: "float32",
  shape: [1e6],
  kind: kind!,
});
const matrix = (...shape: number[]): Spec => ({ dtype: "float32", shape });

const CHAINS: readonly [
  name: string,
  inputs: Record<string, Spec>,
  run: (...inputs: T[]) => AnyTensor,
][] = [
  ["relu(a * b + c)", { a: line(), b: line(), c: line() }, (a, b, c) => a.mul(b).add(c).relu()],
  [
    "gelu(x * 1.25 + 0.5) + r",
    { a: line(), b: line() },
    (x, r) => x.mul(1.25).add(0.5).gelu().add(r),
  ],
  [
    "gelu(x * s + row) + r",
    { x: matrix(1000, 1000), row: matrix(1000), r: matrix(1000, 1000) },
    (x, row, r) => x.mul(1.25).add(row).gelu().add(r),
  ],
  ["x * sigmoid(x)", { a: line() }, (x) => x.mul(x.sigmoid())],
  [
    "(x - row) * row",
    { x: matrix(1000, 1000), row: matrix(1000), other: matrix(1000) },
    (x, row, other) => x.sub(row).mul(other),
  ],
  [
    "clip((x - column) / column, -2, 2)",
    { x: matrix(1000, 1000), c: matrix(1000, 1), s: { ...matrix(1000, 1), kind: "ones" } },
    (x, c, s) => x.sub(c).div(s).clip(-2, 2),
  ],
  [
    "uint8 to (x / 255 - 0.45) * 4.4",
    { x: { dtype: "uint8", shape: [1e6], kind: "integers", low: 0, high: 256 } },
    (x) => (x.astype("float32") as T).div(255).sub(0.45).mul(4.4),
  ],
  [
    "where(x > 0, x, x * 0.01) + r",
    { a: line(), b: line() },
    (x, r) => where(x.greater(0), x, x.mul(0.01)).add(r) as AnyTensor,
  ],
  ["gelu by tanh", { a: line() }, (x) => {
    const inner = x.mul(x).mul(0.044715).add(1).mul(x).mul(0.7978845608);
    return inner.tanh().add(1).mul(x).mul(0.5);
  }],
];

/** The calls of `run` as a chain. */
function chainOf(
  tensors: readonly AnyTensor[],
  run: (...inputs: T[]) => AnyTensor,
): { inputs: Input[]; chain: ChainAttributes } {
  const inputs: Input[] = tensors.slice() as never;
  // Dispatch replaces scalars in calls.
  const recorded: { call: Call; reads: Input[] }[] = [];
  const recorder = {
    run(call: Call): void {
      recorded.push({ call, reads: call.inputs.slice() });
      performCall(call);
    },
    read: () => {},
  };
  const made = interpret(recorder, () => run(...tensors as T[]));
  for (const { reads } of recorded) {
    for (const input of reads) if (!isOperand(input)) inputs.push(input);
  }
  // Scalars in the order of the calls, after the tensors.
  let scalar = tensors.length;
  const steps: ChainStep[] = [];
  const valueOf = (input: Input): number => {
    if (!isOperand(input)) return scalar++;
    const step = recorded.findIndex(({ call }) => call.outputs[0]!.storage === input.storage);
    return step >= 0
      ? inputs.length + step
      : tensors.findIndex((one) => (one as Operand).storage === input.storage);
  };
  for (const { call, reads } of recorded) {
    steps.push({
      op: call.op as MapOp,
      compute: call.compute,
      result: call.outputs[0]!.storage.info,
      inputs: reads.map(valueOf),
      parameters: [],
    });
  }
  const shape = (made as Operand).layout.shape;
  return { inputs, chain: { steps, outputs: [steps.length - 1], shape } };
}

function chainRow([name, specs, run]: typeof CHAINS[number]): ServedRow {
  return row("chains", name, specs, (x, alone) => {
    const tensors = Object.values(x) as AnyTensor[];
    if (alone) return () => tidy(() => run(...tensors as T[])).dispose();
    const { inputs, chain } = chainOf(tensors, run);
    return () => (dispatch(CHAIN, inputs.slice(), chain) as AnyTensor).dispose();
  });
}

// ---- packed weights ----------------------------------------------------------------------------

const [DEPTH, COLUMNS] = [384, 1536];

function packedRow(n: number, dtype: "float32" | "bfloat16", activation?: "gelu"): ServedRow {
  const inputs = { x: matrix(n, DEPTH), w: matrix(COLUMNS, DEPTH) };
  const name = `${n} row${n > 1 ? "s" : ""}${dtype === "float32" ? "" : `, ${dtype}`}` +
    (activation === undefined ? "" : ", bias and gelu");
  return row("packed", name, inputs, ({ x, w }, alone) => {
    const out: Any = zeros([n, COLUMNS]);
    // The plain product is that of float32, without more.
    if (alone) return () => x.linear(w, undefined, { out });
    const weight = pack(w.astype(dtype));
    if (activation === undefined) return () => x.linear(weight, undefined, { out });
    const bias = zeros([COLUMNS]);
    return () => x.linear(weight, bias, { activation, out });
  });
}

// ---- quantized weights -------------------------------------------------------------------------

/** The products of a layer of a model of 135 million weights: columns, depth; and of the last. */
const SHAPES = [[960, 576], [576, 576], [3072, 576], [576, 1536]] as const;
const ALL = [...Array.from({ length: 30 }, () => SHAPES).flat(), [49152, 576] as const];

/** A weight of a format; the depth is that of whole blocks. */
function weightOf(format: string, [columns, depth]: readonly [number, number]): Any {
  const { size, bytes } = QUANT[format as QuantName];
  const whole = Math.ceil(depth / size) * size;
  const blocks = new Uint8Array(columns * whole / size * bytes);
  // Small float16 numbers wherever the scales are.
  for (let i = 0; i < blocks.length; i++) blocks[i] = i * 37 % 41;
  return (fromBuffer as Any)(blocks, { dtype: format, shape: [columns, whole] });
}

/** The products of `rows` rows with all weights. */
function products(weights: readonly Any[], rows: number): () => void {
  const depthOf = ({ shape }: Any): number => shape[1];
  const inputs = new Map<number, Any>();
  const outputs = new Map<number, Any>();
  for (const w of weights) {
    inputs.set(depthOf(w), random.normal(random.key(1), [rows, depthOf(w)]));
    outputs.set(w.shape[0], zeros([rows, w.shape[0]]));
  }
  return () =>
    weights.forEach((w) =>
      inputs.get(depthOf(w)).linear(w, undefined, { out: outputs.get(w.shape[0]) })
    );
}

function quantizedRows(format: string): ServedRow[] {
  const weights = (packs: boolean): Any[] =>
    ALL.map((shape) => {
      if (format === "int8") return quantizeInt8(random.normal(random.key(1), shape));
      return packs ? pack(weightOf(format, shape)) : weightOf(format, shape);
    });
  const bytes = (all: readonly Any[]): number =>
    format === "int8"
      ? all.reduce((sum, w) => sum + w.bytes, 0)
      : all.reduce((sum, { shape: [o, i] }) => sum + o * i * DTYPE[format as "int8"].bytes, 0);
  const token = (name: string, packs: boolean): ServedRow =>
    row("quantized", name, {}, (_, alone) => {
      const all = weights(packs && !alone);
      if (!alone) return products(all, 1);
      const read = ones([Math.ceil(bytes(all) / 4)]);
      return () => read.sum().dispose();
    });
  // A prompt needs the last row of the output layer only.
  const count = 128 * ALL.slice(0, -1).reduce((sum, [o, i]) => sum + o * i, 0);
  return [
    token(`${format}, a token`, true),
    ...(format === "int8" ? [] : [token(`${format}, a token, as in a file`, false)]),
    row("prompts", `${format}, 128 tokens`, {}, () => products(weights(true).slice(0, -1), 128), {
      ways: [""],
      per: { unit: "multiply-add", count },
    }),
  ];
}

/** The suite. */
export const suite: Suite = {
  title: "Kernels of several ops beside the ops that they replace",
  groups: {
    attention: "attention",
    chains: "chains of elementwise ops on 1e6",
    packed: "products with a packed weight [1536, 384]",
    quantized: "quantized products of a token, beside a sum of as many bytes",
    prompts: "quantized products of a prompt",
  },
  rows: [
    ...CASES.map((c) => row("attention", c.name, {}, (_, alone) => attend(c, "float32", alone))),
    ...CHAINS.map(chainRow),
    ...[1, 2, 4, 8, 16, 64, 128].map((n) => packedRow(n, "float32")),
    ...[1, 16, 128].flatMap((n) => [packedRow(n, "bfloat16"), packedRow(n, "float32", "gelu")]),
    ...["q4_1", "q8_0", "q4_0", "q4_k", "int8"].flatMap(quantizedRows),
  ],
  ways: ["", ALONE],
  baseline: ALONE,
  ...{ rounds: 5, ms: 40 },
  beside: "fastest",
  lines: "group",
};

/**
 * Times attention as one op next to the ops that it is made of, for the layouts of models: heads
 * are views of [batch, rows, heads · columns], and the result is needed in that layout.
 *
 *     deno run -A bench/attention.ts [--rounds=50] [--dtype=float32] [--threads=1] [--filter=decode]
 *
 * The two take turns. Prints a line of JSON for each case: microseconds per call, the least over the
 * rounds, as other work of the machine only adds to them; the time of the one op relative to that
 * of the ops; the multiply-adds of both products per nanosecond, and the bytes of keys and values
 * per nanosecond.
 *
 * @module
 */
import { parseArgs } from "node:util";
import {
  type AnyTensor,
  type DType,
  empty,
  ones,
  random,
  scope,
  setThreads,
  where,
} from "../mod.ts";
import { attention } from "../src/ops/attention/op.ts";

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

const CASES: readonly Case[] = [
  { name: "bert 8x128", batch: 8, heads: 12, keyHeads: 12, m: 128, n: 128, d: 32 },
  {
    name: "bert 8x128 padded",
    batch: 8,
    heads: 12,
    keyHeads: 12,
    m: 128,
    n: 128,
    d: 32,
    padded: true,
  },
  { name: "bert 1x16", batch: 1, heads: 12, keyHeads: 12, m: 16, n: 16, d: 32 },
  { name: "512", batch: 1, heads: 12, keyHeads: 12, m: 512, n: 512, d: 64 },
  { name: "16 heads of 64, 512", batch: 1, heads: 16, keyHeads: 16, m: 512, n: 512, d: 64 },
  llama("llama prefill 128", 128, 128),
  llama("llama prefill 512", 512, 512),
  llama("llama decode 64", 1, 64),
  llama("llama decode 512", 1, 512),
  llama("llama decode 2048", 1, 2048),
  { name: "decode 2048, 32 heads", batch: 1, heads: 32, keyHeads: 32, m: 1, n: 2048, d: 64 },
];

// Types know no shapes that cases give.
// deno-lint-ignore no-explicit-any
type Any = any;

/** [batch, heads, rows, columns], in the memory of [batch, rows, heads · columns]. */
function heads(seed: number, c: Case, count: number, rows: number, dtype: DType): Any {
  const flat: Any = random.normal(random.key(seed), [c.batch, rows, count, c.d]);
  return flat.astype(dtype).permute(0, 2, 1, 3);
}

/** The two ways to compute a case. */
function waysOf(c: Case, dtype: DType): [one: () => void, many: () => void] {
  const { batch, keyHeads, m, n, d } = c;
  const q = heads(1, c, c.heads, m, dtype);
  const [k, v] = [heads(2, c, keyHeads, n, dtype), heads(3, c, keyHeads, n, dtype)];
  const scale = 1 / Math.sqrt(d);
  const mask: Any = c.padded ? random.uniform(random.key(4), [batch, 1, 1, n]).log() : undefined;
  const merged: Any = empty([batch, m, c.heads, d], { dtype });
  const out = merged.permute(0, 2, 1, 3);
  const given = mask === undefined ? {} : { mask };
  const one = (): void =>
    void attention(q, k, v, { scale, causal: c.causal ?? false, out, ...given });
  const groups = c.heads / keyHeads;
  const split: Any = q.reshape([batch, keyHeads, groups, m, d]);
  const [keys, values]: Any[] = [k.expandDims(2).mT, v.expandDims(2)];
  const hidden: Any = ones([m, n]).triu(n - m + 1).greater(0);
  const limits: Any = c.causal ? where(hidden, -Infinity, 0) : undefined;
  const many = (): void =>
    scope(() => {
      let scores: Any = split.matmul(keys);
      scores.mul_(scale);
      if (mask !== undefined) scores.add_(mask.expandDims(2));
      if (limits !== undefined) scores.add_(limits);
      scores = scores.softmax(-1);
      const product: AnyTensor = scores.matmul(values);
      merged.set(["..."], (product as Any).reshape([batch, c.heads, m, d]).permute(0, 2, 1, 3));
    });
  return [one, many];
}

/** Microseconds per call. */
function time(run: () => void, ms: number): number {
  let calls = 1;
  for (;;) {
    const begin = performance.now();
    for (let i = 0; i < calls; i++) run();
    const took = performance.now() - begin;
    if (took >= ms / 2) return took * 1000 / calls;
    calls *= 2;
  }
}

const { values: options } = parseArgs({
  options: {
    rounds: { type: "string", default: "50" },
    dtype: { type: "string", default: "float32" },
    threads: { type: "string", default: "0" },
    filter: { type: "string", default: "" },
  },
});
const rounds = Number(options.rounds), dtype = options.dtype as DType;
const threads = setThreads(Number(options.threads));
for (const c of CASES.filter(({ name }) => name.includes(options.filter))) {
  const [one, many] = waysOf(c, dtype);
  const times: [number[], number[]] = [[], []];
  for (let round = 0; round < rounds; round++) {
    times[0].push(time(one, 4));
    times[1].push(time(many, 4));
  }
  const [fused, ops] = times.map((all) => Math.min(...all)) as [number, number];
  const { batch, m, n, d } = c;
  const share = c.causal ? (2 * n - m + 1) / (2 * n) : 1;
  const products = 2 * batch * c.heads * m * n * d * share;
  const bytes = 2 * batch * c.keyHeads * n * d * (dtype === "float32" ? 4 : 2);
  console.log(JSON.stringify({
    case: c.name,
    dtype,
    threads,
    fused: Number(fused.toFixed(1)),
    ops: Number(ops.toFixed(1)),
    ratio: Number((fused / ops).toFixed(3)),
    fmaPerNs: Number((products / fused / 1000).toFixed(1)),
    bytesPerNs: Number((bytes / fused / 1000).toFixed(1)),
  }));
}

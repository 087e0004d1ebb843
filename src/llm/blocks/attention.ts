/**
 * Attention to the tokens of a cache and to new ones.
 *
 * @module
 */
import * as nn from "../../nn/mod.ts";
import type { Tensor } from "../../tensor/tensor.ts";
import type { LayerPlace } from "../config/config.ts";
import { ropesOf } from "../config/config.ts";
import type { AnyWeights, Heads, Model, Part, Sizes, State, Tokens } from "./step.ts";
import { vector } from "./vector.ts";

/** What differs between families. */
export interface AttentionOptions {
  /** True if queries, keys and values are one tensor. */
  readonly fused?: boolean;
  /** What the norms of queries and keys, if the file has them, are over. */
  readonly normOver?: "head" | "all heads";
  /** True for a score of each head that has no value. */
  readonly sinks?: boolean;
}

/** Queries, keys and values, as columns of all heads. */
type Projected = readonly [
  q: Tensor<"float32", [Tokens, Sizes["queries"]]>,
  k: Tensor<"float32", [Tokens, Sizes["keys"]]>,
  v: Tensor<"float32", [Tokens, Sizes["keys"]]>,
];

const BIAS = { bias: "optional" } as const;

/** Queries, keys and values of a state, split into heads and normed. */
function projection(
  w: AnyWeights,
  { names, sizes, config, norm }: Model,
  { fused = false, normOver = "head" }: AttentionOptions,
): (x: State) => readonly [q: Heads, k: Heads, v: Heads] {
  const { hidden, queries, keys, columns } = sizes;
  const { heads, kvHeads } = config;
  if (fused) {
    const all = w.linear(names.qkv, queries + 2 * keys, hidden, BIAS);
    return (x) => {
      const each = nn.splitHeads(all(x), heads + 2 * kvHeads);
      const part = (from: number, to: number): Heads => each.slice(`${from}:${to}`);
      const k = heads + kvHeads;
      return [part(0, heads), part(heads, k), part(k, k + kvHeads)];
    };
  }
  const qkv = nn.fuse(
    w.linear(names.q, queries, hidden, BIAS),
    w.linear(names.k, keys, hidden, BIAS),
    w.linear(names.v, keys, hidden, BIAS),
  );
  if (!w.has(names.qNorm)) return (x) => qkv(x, { heads });
  if (normOver === "head") {
    const [qNorm, kNorm] = [names.qNorm, names.kNorm].map((name) => w.rmsNorm(name, columns, norm));
    return (x) => {
      const [q, k, v] = qkv(x, { heads });
      return [qNorm!(q), kNorm!(k), v];
    };
  }
  const qNorm = w.rmsNorm(names.qNorm, queries, norm), kNorm = w.rmsNorm(names.kNorm, keys, norm);
  return (x) => {
    const [q, k, v]: Projected = qkv(x);
    return [
      nn.splitHeads(qNorm(q), heads),
      nn.splitHeads(kNorm(k), kvHeads),
      nn.splitHeads(v, kvHeads),
    ];
  };
}

/** Attention of a layer, with its output product. */
export function selfAttention(
  w: AnyWeights,
  model: Model,
  place: LayerPlace,
  options: AttentionOptions = {},
): Part {
  const { names, sizes, config } = model;
  const { hidden, queries } = sizes;
  const qkv = projection(w, model, options);
  const out = w.linear(names.attentionOutput, hidden, queries, BIAS);
  const sinks = options.sinks === true ? vector(w, names.sinks, config.heads) : undefined;
  const { attentionScale: scale, attentionSoftCap: softCap } = config;
  const window = place.kind === "sliding" ? config.slidingWindow : undefined;
  const { rope } = place;
  const interleaved = rope !== undefined && ropesOf(config)[rope]!.interleaved;
  return (x, memory, add) => {
    const turned = (one: Heads): Heads =>
      rope === undefined ? one : nn.rope(one, { ...memory.angles[rope]!, interleaved });
    const [q, k, v] = qkv(x);
    const scores = { scale, softCap, window, sinks: sinks?.() };
    return out(memory.attend(place, turned(q), turned(k), v, scores), { add });
  };
}

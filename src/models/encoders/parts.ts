/**
 * The parts that encoders are made of: attention in both directions, feed-forward parts, and the
 * functions between their products.
 *
 * @module
 */
import * as nn from "../../nn/mod.ts";
import { arange } from "../../tensor/create.ts";
import type { AnyTensor, Tensor } from "../../tensor/tensor.ts";
import type * as t from "../../types/mod.ts";
import type { Reader } from "../../llm/config/reader.ts";

/** Weights on any device. */
export type AnyWeights = nn.Weights<t.PackedDType, t.Device>;

/** The ids of tokens: [B, T]. */
export type Ids = Tensor<"int32", [number, number]>;

/** The number of tokens of each text: [B]. */
export type Lengths = Tensor<"int32", [number]>;

/** The state of the tokens of B texts: [B, T, D]. */
export type State = Tensor<"float32", [number, number, number]>;

/** Queries, keys or values: [B, heads, T, D / heads]. */
type Heads = Tensor<"float32", [number, number, number, number]>;

/** The tokens of B texts, padded to T. */
export interface Batch {
  readonly ids: Ids;
  readonly lengths: Lengths;
  /** 0 for tokens of the first text of a pair, 1 for those of the second; all 0 by default. */
  readonly types?: Ids | undefined;
}

/** What the layers of one kind see of a batch, beside its lengths. */
export type Sight = Omit<Seen, "lengths">;

/** The state before the first layer, and what each kind of layers sees. */
export interface Begun {
  readonly x: State;
  readonly sights: readonly Sight[];
}

/** A layer. */
export interface EncoderLayer {
  /** The kind of the layer: its place in {@link Begun.sights}. */
  readonly kind: number;
  readonly run: (x: State, seen: Seen) => State;
}

/**
 * A function from the tokens of texts to the state after the last layer. It is in parts, so that each
 * can be a program of its own.
 */
export interface Encoder {
  /** The size of states. */
  readonly hidden: number;
  /** The number of tokens that it knows. */
  readonly vocabulary: number;
  /** The number of types of tokens; tokens of models with up to one type have none. */
  readonly types: number;
  /** The most tokens of a text. */
  readonly longest: number;
  /** The part before the layers. */
  readonly begin: (batch: Batch) => Begun;
  readonly layers: readonly EncoderLayer[];
  /** The part after the layers: [B, T, hidden]. The states of padding may be anything. */
  readonly end: (x: State) => State;
}

/** How the layers of a model keep their weights. */
export interface LayerOptions {
  /** Rounds the weights of products to int8, and the rows that they multiply too. */
  readonly quantize?: "int8" | undefined;
}

/** What a token sees of the others. */
export interface Seen {
  readonly lengths: Lengths;
  /** True for the keys that a query sees, or floats that are added to the scores: [..., T, T]. */
  readonly mask?: AnyTensor | undefined;
  /** The angles of positions: [T, R / 2]. */
  readonly angles?: { readonly cos: AnyTensor; readonly sin: AnyTensor } | undefined;
}

/** A function between the products of a feed-forward part. */
export type ActivationName = "gelu" | "gelu_tanh" | "relu" | "silu";

/** The names of config.json. */
const ACTIVATIONS: Readonly<Record<string, ActivationName>> = {
  gelu: "gelu",
  gelu_new: "gelu_tanh",
  gelu_fast: "gelu_tanh",
  gelu_pytorch_tanh: "gelu_tanh",
  relu: "relu",
  silu: "silu",
  swish: "silu",
};

/** The activation that a key of config.json names. */
export function activationOf(reader: Reader, key: string, otherwise = "gelu"): ActivationName {
  const given = reader.value(key) ?? otherwise;
  const known = typeof given === "string" && Object.hasOwn(ACTIVATIONS, given)
    ? ACTIVATIONS[given]
    : undefined;
  return known ?? reader.reject(key, `one of ${Object.keys(ACTIVATIONS).join(", ")}`);
}

/** `x` through an activation. */
export function activate(x: State, activation: ActivationName): State {
  switch (activation) {
    case "relu":
      return x.relu();
    case "silu":
      return x.silu();
    case "gelu":
      return nn.gelu(x);
    case "gelu_tanh":
      return nn.gelu(x, { approximate: "tanh" });
  }
}

/** The activations that a product applies to its sums. */
const FUSED = { gelu: "gelu", gelu_tanh: undefined, relu: "relu", silu: "silu" } as const;

/** The names of the projections of an attention; `qkv` has all three, one below the other. */
export interface AttentionNames {
  readonly q?: string;
  readonly k?: string;
  readonly v?: string;
  readonly qkv?: string;
  readonly out: string;
}

/** The sizes of an attention. */
export interface AttentionSizes extends LayerOptions {
  readonly hidden: number;
  readonly heads: number;
  /** As many as `heads` by default. */
  readonly kvHeads?: number | undefined;
  /** hidden / heads by default. */
  readonly headDimensions?: number | undefined;
  readonly bias: boolean | "optional";
  /** The factor of scores; 1 / √headDimensions by default. */
  readonly scale?: number | undefined;
}

/** A part that adds what it computes to `add`, if there is any. */
export type Part = (x: State, seen: Seen, add?: State) => State;

/**
 * Attention of all tokens to each other: the projections, the rotation by `seen.angles` if there are
 * any, and the output. `turn` normalizes heads before they are rotated.
 */
export function selfAttention(
  w: AnyWeights,
  names: AttentionNames,
  sizes: AttentionSizes,
  turn?: { readonly q: (x: Heads) => Heads; readonly k: (x: Heads) => Heads },
): Part {
  const { hidden, heads, kvHeads = heads, bias, scale, quantize } = sizes;
  const columns = sizes.headDimensions ?? hidden / heads;
  const [queries, keys] = [heads * columns, kvHeads * columns];
  const how = { bias, quantize };
  const project = names.qkv === undefined
    ? fused(w, [names.q!, names.k!, names.v!], [queries, keys, keys], hidden, how)
    : joined(w, names.qkv, [queries, keys, keys], hidden, how);
  const out = w.linear(names.out, hidden, queries, how);
  return (x, { lengths, mask, angles }, add) => {
    const [q, k, v] = project(x, { heads });
    const turned = (one: Heads, norm: ((x: Heads) => Heads) | undefined): Heads => {
      const normed = norm === undefined ? one : norm(one);
      return angles === undefined ? normed : nn.rope(normed, angles);
    };
    const seen = nn.attention(turned(q, turn?.q), turned(k, turn?.k), v, {
      lengths,
      ...mask === undefined ? {} : { mask },
      ...scale === undefined ? {} : { scale },
    });
    return out(nn.mergeHeads(seen).asShape([x.shape[0], x.shape[1], queries]), { add });
  };
}

/** Whether a product has a bias, and how it keeps its weight. */
interface ProductOptions extends LayerOptions {
  readonly bias: boolean | "optional";
}

/** Queries, keys and values of a state. */
type Projection = (x: State, options: { readonly heads: number }) => [Heads, Heads, Heads];

type Triple<T> = readonly [T, T, T];

/** Projections that the file has one by one, as one product. */
function fused(
  w: AnyWeights,
  names: Triple<string>,
  outputs: Triple<number>,
  inputs: number,
  how: ProductOptions,
): Projection {
  const all = nn.fuse(
    w.linear(names[0], outputs[0], inputs, how),
    w.linear(names[1], outputs[1], inputs, how),
    w.linear(names[2], outputs[2], inputs, how),
  );
  return (x, options) => all(x, options);
}

/** A projection that the file has as one, in parts that are split into heads. */
function joined(
  w: AnyWeights,
  name: string,
  [queries, keys, values]: Triple<number>,
  inputs: number,
  how: ProductOptions,
): Projection {
  const all = w.linear(name, queries + keys + values, inputs, how);
  return (x, { heads }) => {
    const columns = queries / heads;
    const product = all(x);
    const part = (from: number, size: number): Heads =>
      nn.splitHeads(product.slice("...", `${from}:${from + size}`), size / columns)
        .asShape([x.shape[0], size / columns, x.shape[1], columns]);
    return [part(0, queries), part(queries, keys), part(queries + keys, values)];
  };
}

/** The sizes of a feed-forward part. */
export interface FeedForwardSizes extends LayerOptions {
  readonly hidden: number;
  readonly intermediate: number;
  readonly activation: ActivationName;
  readonly bias: boolean | "optional";
}

/** down(activation(up(x))). */
export function feedForward(
  w: AnyWeights,
  names: { readonly up: string; readonly down: string },
  { hidden, intermediate, activation, bias, quantize }: FeedForwardSizes,
): (x: State, add?: State) => State {
  const fused = FUSED[activation];
  const up = w.linear(names.up, intermediate, hidden, { bias, quantize, activation: fused });
  const down = w.linear(names.down, hidden, intermediate, { bias, quantize });
  return (x, add) => {
    const wide = up(x);
    return down(fused === undefined ? activate(wide, activation) : wide, { add });
  };
}

/**
 * down(activation(gate(x)) · up(x)). `gateUp` has both products, the gate's rows first.
 */
export function gatedFeedForward(
  w: AnyWeights,
  names:
    | { readonly gate: string; readonly up: string; readonly down: string }
    | { readonly gateUp: string; readonly down: string },
  { hidden, intermediate, activation, bias, quantize }: FeedForwardSizes,
): (x: State, add?: State) => State {
  const how = { bias, quantize };
  const down = w.linear(names.down, hidden, intermediate, how);
  const both = "gateUp" in names
    ? halves(w, names.gateUp, intermediate, hidden, how)
    : pair(w, [names.gate, names.up], intermediate, hidden, how);
  return (x, add) => {
    const [gate, up] = both(x);
    return down(activate(gate, activation).mul(up), { add });
  };
}

/** Two products that the file has one by one, as one. */
function pair(
  w: AnyWeights,
  [first, second]: readonly [string, string],
  outputs: number,
  inputs: number,
  how: ProductOptions,
): (x: State) => [State, State] {
  const all = nn.fuse(
    w.linear(first, outputs, inputs, how),
    w.linear(second, outputs, inputs, how),
  );
  return (x) => all(x);
}

/** A product that the file has as one, in two halves. */
function halves(
  w: AnyWeights,
  name: string,
  outputs: number,
  inputs: number,
  how: ProductOptions,
): (x: State) => [State, State] {
  const all = w.linear(name, 2 * outputs, inputs, how);
  return (x) => {
    const product = all(x);
    const part = (from: number): State =>
      product.slice("...", `${from}:${from + outputs}`)
        .asShape([x.shape[0], x.shape[1], outputs]);
    return [part(0), part(outputs)];
  };
}

/** True for keys at most `distance` tokens from a query: [T, T]. */
export function windowMask(count: number, distance: number): AnyTensor {
  const places = arange(count, { dtype: "int32" });
  return places.sub(places.reshape([-1, 1])).abs().lessEqual(distance);
}

/** The angles of positions 0, 1, … of `count` tokens. */
export function anglesOf(count: number, options: nn.RopeAngleOptions): NonNullable<Seen["angles"]> {
  return nn.ropeAngles(Array.from({ length: count }, (_, i) => i), options);
}

/** The kinds of layers of {@link bothSights}. */
export const GLOBAL = 0, LOCAL = 1;

/**
 * What layers see that see all tokens, and what layers see that see those at most `distance` away; each
 * kind rotates by angles of its own.
 */
export function bothSights(
  count: number,
  distance: number,
  { dimensions, bases }: {
    readonly dimensions: number;
    readonly bases: { readonly global: number; readonly local: number };
  },
): readonly Sight[] {
  return [
    { angles: anglesOf(count, { dimensions, base: bases.global }) },
    {
      angles: anglesOf(count, { dimensions, base: bases.local }),
      // Texts within the window need no mask.
      ...count > distance + 1 ? { mask: windowMask(count, distance) } : {},
    },
  ];
}

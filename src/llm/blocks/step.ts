/**
 * A step of a model: what it reads of earlier tokens, and what it adds for later ones.
 *
 * @module
 */
import type { DType } from "../../base/dtype.ts";
import type * as nn from "../../nn/mod.ts";
import type { AnyTensor, Tensor } from "../../tensor/tensor.ts";
import type * as t from "../../types/mod.ts";
import type { LayerPlace, ModelConfig } from "../config/config.ts";
import type { Names } from "./names.ts";

declare const SIZE: unique symbol;

/**
 * A size of the model or of a step. Its type has a name, so that a shape with another size in its
 * place does not compile.
 */
export type Size<Name extends string> = number & { readonly [SIZE]: Name };

/** The tokens of a step. */
export type Tokens = Size<"tokens">;
export type Hidden = Size<"hidden">;
export type Intermediate = Size<"intermediate">;
export type Vocabulary = Size<"vocabulary">;
/** The columns of a head. */
export type Columns = Size<"headDimensions">;

/** The sizes of a model. */
export interface Sizes {
  readonly hidden: Hidden;
  readonly intermediate: Intermediate;
  readonly vocabulary: Vocabulary;
  readonly columns: Columns;
  /** The columns of all heads of queries. */
  readonly queries: Size<"heads · headDimensions">;
  /** The columns of all heads of keys; values have as many. */
  readonly keys: Size<"kvHeads · headDimensions">;
}

/** The sizes of a model, by their types. */
export function sizesOf(config: ModelConfig): Sizes {
  const { heads, kvHeads, headDimensions } = config;
  return {
    hidden: config.hidden as Hidden,
    intermediate: config.intermediate as Intermediate,
    vocabulary: config.vocabulary as Vocabulary,
    columns: headDimensions as Columns,
    queries: heads * headDimensions as Sizes["queries"],
    keys: kvHeads * headDimensions as Sizes["keys"],
  };
}

/** Weights on any device. */
export type AnyWeights = nn.Weights<t.PackedDType, t.Device>;

/** The weights of all experts of a layer. */
export interface ExpertWeights {
  /** [count, intermediate, hidden]. */
  readonly gate: AnyTensor;
  readonly up: AnyTensor;
  /** [count, hidden, intermediate]. */
  readonly down: AnyTensor;
  /** [count, intermediate]. */
  readonly gateBias?: AnyTensor | undefined;
  readonly upBias?: AnyTensor | undefined;
  /** [count, hidden]. */
  readonly downBias?: AnyTensor | undefined;
}

/** Asks for the weights of experts, in the names and the layout of a format. */
export type ExpertLayer = (
  w: AnyWeights,
  name: string,
  sizes: { readonly count: number; readonly inner: number; readonly hidden: Hidden },
) => () => ExpertWeights;

/** What a format of files makes of a family. */
export interface Format {
  readonly names: Names;
  /** Added to the factors of norms. */
  readonly normOffset?: number;
  /** Asks for experts. */
  readonly experts?: ExpertLayer;
}

/** What blocks know of their model. */
export interface Model {
  readonly format: Format;
  readonly config: ModelConfig;
  readonly sizes: Sizes;
  readonly names: Names;
  /** Options of its norms. */
  readonly norm: nn.RmsNormLayerOptions;
}

/** The state of M tokens. */
export type State = Tensor<"float32", [Tokens, Hidden]>;
/** Queries, keys or values: [heads, M, headDimensions]. */
export type Heads = Tensor<"float32", [number, Tokens, number]>;

/**
 * How the tokens of a step are computed: those of a `"prompt"` together, which is fastest; those of
 * `"steps"` with the same bits as one at a time.
 */
export type Pace = "prompt" | "steps";

/** What a step reads besides the new tokens. */
export interface Past {
  /**
   * Keys and values in pages, for each pool: [layers of the pool, 2, N, kvHeads, rows,
   * headDimensions].
   */
  readonly pools: readonly AnyTensor[];
  /** The pages of each text in each pool: int32 [B, P]. */
  readonly pages: readonly AnyTensor[];
  /** The number of tokens before, of each text: int32 [B]. */
  readonly lengths: AnyTensor;
  /** The last inputs of convolutions: [B, layers with convolutions, tokens, hidden]. */
  readonly convolved?: AnyTensor | undefined;
}

/** Angles of the new tokens: [B · M, R / 2]. */
export interface Angles {
  /** Their cosines. */
  readonly cos: AnyTensor;
  /** Their sines. */
  readonly sin: AnyTensor;
}

/** The logits a step gives: of all tokens, of the one at an index, int32 [], or none. */
export type Wanted = "all" | "none" | AnyTensor;

/** What a step gives. */
export interface Stepped {
  /** [1, V], or [B · M, V] for all tokens. */
  readonly logits: Tensor<"float32"> | undefined;
  /**
   * Keys and values of the new tokens for each pool, in the cache's dtype: [layers of the pool, 2,
   * kvHeads, B · M, headDimensions].
   */
  readonly rows: readonly AnyTensor[];
  /** Their inputs of convolutions: [layers with convolutions, B · M, hidden]. */
  readonly convolved: AnyTensor | undefined;
}

/**
 * A function of M tokens of each of B texts, int32 [B, M]. Its angles are those of the usual layers, and
 * those of sliding layers where they have others.
 */
export type Step = (
  ids: AnyTensor,
  angles: readonly Angles[],
  past: Past,
  wanted: Wanted,
  pace: Pace,
) => Stepped;

/** {@link Angles}, with their shapes. */
export interface ShapedAngles {
  readonly cos: Tensor<DType, [number, number]>;
  readonly sin: Tensor<DType, [number, number]>;
}

/** The state of all heads of queries. */
export type Attended = Tensor<"float32", [Tokens, Sizes["queries"]]>;

/** What scores of attention are. */
export type Scores = Pick<nn.CachedAttentionOptions, "scale" | "softCap" | "window" | "sinks">;

/** The memory of a step: what layers read of earlier tokens, and keep of new ones. */
export interface Memory {
  readonly angles: readonly ShapedAngles[];
  readonly pace: Pace;
  /** Attention of the new tokens to those before them, whose keys and values it keeps. */
  attend(place: LayerPlace, q: Heads, k: Heads, v: Heads, scores: Scores): Attended;
  /**
   * The inputs of a convolution that sees `length` tokens, which it keeps: those of the new tokens
   * last, before them those of the tokens before each.
   */
  inputs(place: LayerPlace, x: State, length: number): readonly State[];
}

/** A layer: the state after it. */
export type Block = (x: State, memory: Memory) => State;
/** Makes a layer of the weights below its name. */
export type MakeBlock = (w: AnyWeights, model: Model, place: LayerPlace) => Block;

/** A part of a layer, such as attention: what it adds to the state; or the sum, with `add`. */
export type Part = (x: State, memory: Memory, add?: State) => State;
/** Makes a part of a layer. */
export type MakePart = (w: AnyWeights, model: Model, place: LayerPlace) => Part;

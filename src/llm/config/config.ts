/**
 * The sizes of language models, and the switches of their layers.
 *
 * @module
 */
import { ArgumentError } from "../../base/errors.ts";
import { ropeAngles, type RopeScaling } from "../../nn/mod.ts";

/**
 * What a layer reads of earlier tokens: all of them, those in its window, or, by a short
 * convolution, the last few.
 */
export type LayerKind = "full" | "sliding" | "convolution";

/** The rotary positions of layers. */
export interface RopeConfig {
  /** The number of rotated columns of a head. */
  readonly dimensions: number;
  /** The base of the frequencies. */
  readonly base: number;
  /** The scaling for texts longer than those of training. */
  readonly scaling: RopeScaling | undefined;
  /** Whether neighboring columns form a pair, as in GGUF files of Llama. */
  readonly interleaved: boolean;
}

/** Feed-forward parts of which each token uses a few. */
export interface ExpertsConfig {
  /** The number of experts of a layer. */
  readonly count: number;
  /** The experts of a token. */
  readonly used: number;
  /** The inner size of an expert. */
  readonly intermediate: number;
  /** Whether the weights of a token's experts are divided by their sum. */
  readonly normalized: boolean;
  /** The layers with experts, by index; all if undefined. */
  readonly layers?: readonly number[] | undefined;
}

/** The sizes of a language model, and the switches of its layers. */
export interface ModelConfig {
  /** The architecture: `general.architecture` of GGUF files, or `model_type` of config.json. */
  readonly architecture: string;
  /** The number of layers. */
  readonly layers: number;
  /** The size of hidden states. */
  readonly hidden: number;
  /** The inner size of a feed-forward part. */
  readonly intermediate: number;
  /** The number of query heads. */
  readonly heads: number;
  /** The number of key and value heads. */
  readonly kvHeads: number;
  /** The columns of a head. */
  readonly headDimensions: number;
  /** The number of tokens in the vocabulary. */
  readonly vocabulary: number;
  /** The maximum number of tokens of a text. */
  readonly contextLength: number;
  /** How many tokens sliding layers see, the token itself included; undefined for all. */
  readonly slidingWindow: number | undefined;
  /** The kind of each layer. By default all slide, if there is a window, or see all tokens. */
  readonly layerKinds?: readonly LayerKind[] | undefined;
  /** The epsilon that norms add to the mean of squares. */
  readonly epsilon: number;
  /** The rotary positions. */
  readonly rope: RopeConfig;
  /** The rotary positions of sliding layers, if they have others. */
  readonly slidingRope?: RopeConfig | undefined;
  /** The layers without positions, by index. */
  readonly layersWithoutRope?: readonly number[] | undefined;
  /** The factor of products of queries and keys; 1 / √headDimensions by default. */
  readonly attentionScale?: number | undefined;
  /** c of c · tanh(score / c) in attention. */
  readonly attentionSoftCap?: number | undefined;
  /** c of c · tanh(logit / c). */
  readonly logitSoftCap?: number | undefined;
  /** The factor of embeddings; 1 by default. */
  readonly embeddingScale?: number | undefined;
  /** The factor of what attention and feed-forward parts add; 1 by default. */
  readonly residualScale?: number | undefined;
  /** The factor of logits; 1 by default. */
  readonly logitScale?: number | undefined;
  /** The experts, in models that have them. */
  readonly experts?: ExpertsConfig | undefined;
  /** The tokens that a short convolution sees, in models that have them. */
  readonly convolution?: number | undefined;
  /** The tokens that end a text: those of the file, and the end-of-turn tokens of its vocabulary. */
  readonly endTokens: readonly number[];
}

/** A layer's place in the model. */
export interface LayerPlace {
  /** Its index. */
  readonly index: number;
  readonly kind: LayerKind;
  /** Which of {@link poolsOf} has its keys and values. */
  readonly pool: number;
  /** Its index among the layers of the pool, or among those with convolutions. */
  readonly slot: number;
  /** Which of {@link ropesOf} it has; undefined for none. */
  readonly rope: number | undefined;
}

/** The kind of each layer. */
export function kindsOf(
  { layers, layerKinds, slidingWindow }: ModelConfig,
): readonly LayerKind[] {
  if (layerKinds !== undefined) return layerKinds;
  return new Array<LayerKind>(layers).fill(slidingWindow === undefined ? "full" : "sliding");
}

/** The rotary positions of a model: the usual ones, and those of sliding layers if they differ. */
export function ropesOf({ rope, slidingRope }: ModelConfig): readonly RopeConfig[] {
  return slidingRope === undefined ? [rope] : [rope, slidingRope];
}

/** Layers whose keys and values are kept together. */
export interface LayerPool {
  readonly layers: number;
  /** The tokens that a query sees at most, itself included; Infinity for all. */
  readonly window: number;
}

/** The pools of a model: of layers that see all tokens, and of those with a sliding window. */
export function poolsOf(config: ModelConfig): readonly LayerPool[] {
  const kinds = kindsOf(config);
  const count = (kind: LayerKind): number => kinds.filter((one) => one === kind).length;
  const pools = [
    { layers: count("full"), window: Infinity },
    { layers: count("sliding"), window: config.slidingWindow ?? Infinity },
  ];
  return pools.filter(({ layers }) => layers > 0);
}

/** The places of all layers. */
export function placesOf(config: ModelConfig): readonly LayerPlace[] {
  const { slidingRope, layersWithoutRope } = config;
  const counts = { full: 0, sliding: 0, convolution: 0 };
  const bare = new Set(layersWithoutRope);
  const kinds = kindsOf(config);
  const isMixed = kinds.includes("full");
  return kinds.map((kind, index) => ({
    index,
    kind,
    pool: kind === "sliding" && isMixed ? 1 : 0,
    slot: counts[kind]++,
    rope: bare.has(index) ? undefined : slidingRope !== undefined && kind === "sliding" ? 1 : 0,
  }));
}

/** Calls `fail`, which throws, for frequencies of positions that are no numbers. */
export function checkRope(
  { dimensions, base, scaling }: Omit<RopeConfig, "interleaved">,
  fail: (message: string) => never,
  factors?: Float32Array,
): void {
  // Scalings may have other frequencies for long sequences.
  for (const length of [0, 2 ** 31]) {
    try {
      const angles = ropeAngles([], { dimensions, base, scaling, factors, length });
      for (const one of [angles.cos, angles.sin]) one.dispose();
    } catch (error) {
      if (error instanceof ArgumentError) fail(error.message);
      throw error;
    }
  }
}

/** The factors of a model, and the limits of scores and logits. */
const FACTORS = ["attentionScale", "embeddingScale", "residualScale", "logitScale"] as const;
const LIMITS = ["attentionSoftCap", "logitSoftCap"] as const;

/** Calls `fail`, which throws, for a factor or a limit that float32 does not have. */
function checkFactors(config: ModelConfig, fail: (message: string) => never): void {
  for (const name of FACTORS) {
    const value = config[name] ?? 1;
    if (!Number.isFinite(Math.fround(value))) fail(`${name} is ${value}, beyond float32`);
  }
  for (const name of LIMITS) {
    const value = config[name] ?? 1, own = Math.fround(value);
    if (!(own > 0 && own < Infinity)) fail(`${name} is ${value}, no positive number of float32`);
  }
}

/** A config whose sizes fit each other; calls `fail`, which throws, for others. */
export function checkConfig(
  config: ModelConfig,
  fail: (message: string) => never,
): ModelConfig {
  const { heads, kvHeads, headDimensions, epsilon, experts } = config;
  if (heads % kvHeads !== 0) {
    fail(`${heads} heads are no multiple of ${kvHeads} heads of keys`);
  }
  for (const rope of ropesOf(config)) {
    const { dimensions } = rope;
    if (dimensions < 2 || dimensions % 2 !== 0 || dimensions > headDimensions) {
      fail(`${dimensions} columns of heads of ${headDimensions} cannot be turned`);
    }
    checkRope(rope, fail);
  }
  if (!(epsilon >= 0 && epsilon <= 1)) {
    fail(`the epsilon of norms is ${epsilon}, and must be from 0 to 1`);
  }
  if (experts !== undefined && experts.used > experts.count) {
    fail(`a token uses ${experts.used} experts, and a layer has ${experts.count}`);
  }
  checkFactors(config, fail);
  if (config.layerKinds?.includes("sliding") && config.slidingWindow === undefined) {
    fail("layers have a sliding window, whose size is missing");
  }
  return config;
}

/**
 * The sizes of models in the metadata of GGUF files, with the defaults of llama.cpp.
 *
 * @module
 */
import { FormatError } from "../base/errors.ts";
import { describe } from "../base/text.ts";
import type { Metadata } from "../io/metadata.ts";
import type { RopeScaling } from "../nn/mod.ts";
import { checkConfig, type LayerKind, type ModelConfig } from "./config/config.ts";
import { endTokensOf, type NamedToken } from "./config/end_tokens.ts";
import { layersIn, MOST, Reader } from "./config/reader.ts";
import { periodicKinds, windowsOf } from "./config/windows.ts";
import type { Family } from "./families/family.ts";
import { familyOfGguf } from "./families/registry.ts";

/** Keys of positions and of attention that change no result of these architectures. */
const HARMLESS: ReadonlySet<string> = new Set([
  // How the model was trained.
  "rope.scaling.finetuned",
  // Those of other kinds of scaling.
  ...["rope.scaling.factor", "rope.scale_linear", "rope.scaling.original_context_length"],
  ...["rope.scaling.yarn_beta_fast", "rope.scaling.yarn_beta_slow"],
  // Of norms that these architectures do not have.
  ...["attention.layer_norm_epsilon", "attention.group_norm_epsilon"],
  "attention.group_norm_groups",
]);

/** Keys outside of `rope` and `attention` that change results, and values that change nothing. */
const CHANGING: readonly (readonly [key: string, ...neutral: number[]])[] = [
  ...[["attn_logit_softcapping", 0], ["final_logit_softcapping", 0]] as const,
  ...[["logit_scale", 0, 1], ["residual_scale", 0, 1], ["embedding_scale", 0, 1]] as const,
];

/** What tensors of a GGUF file say of a model's sizes. */
export interface GgufTensors {
  /** The rows of the embedding: the number of tokens, if the metadata lacks it. */
  readonly vocabulary?: number | undefined;
  /** The number of tensors: a model has no more layers. */
  readonly tensors?: number | undefined;
  /** The elements of `rope_factors_short.weight`. */
  readonly shortFactors?: ArrayLike<number> | undefined;
  /** The elements of `rope_factors_long.weight`. */
  readonly longFactors?: ArrayLike<number> | undefined;
}

/** The scaling of positions; llama.cpp's is linear where the file has no type. */
function scalingOf(
  reader: Reader,
  contextLength: number,
  { shortFactors, longFactors }: GgufTensors,
): RopeScaling | undefined {
  const key = (name: string): string => `rope.scaling.${name}`;
  const hasFactors = (shortFactors ?? longFactors) !== undefined;
  // Files of Phi-3 have the factors, and no type.
  const type = reader.value(key("type")) ?? (hasFactors ? "longrope" : "linear");
  const attention = reader.real(key("attn_factor"), 1);
  reader.refuse(key("yarn_ext_factor"), -1, type === "yarn" ? 1 : 0);
  reader.refuse(key("yarn_attn_factor"), 1);
  reader.refuse(key("yarn_log_multiplier"), 0);
  reader.refuse(key("alpha"), 1);
  const given = reader.real(key("factor"), reader.real("rope.scale_linear", 0));
  const factor = type === "none" || given === 0 ? 1 : given;
  if (type !== "longrope" && hasFactors) {
    return reader.fail(
      `the file has rope_factors_short or rope_factors_long, and ${reader.name(key("type"))} is ${
        describe(type)
      }: only longrope has them`,
    );
  }
  const limits = { most: MOST.tokens, otherwise: 0 };
  // As in llama.cpp, 0 is the length of the training.
  const originalLength = reader.integer(key("original_context_length"), limits) || contextLength;
  switch (type) {
    case "none":
    case "linear":
      if (factor === 1 && attention === 1) return undefined;
      return { type: "linear", factor, ...attention !== 1 && { attentionFactor: attention } };
    case "yarn": {
      const [betaFast, betaSlow] = ["yarn_beta_fast", "yarn_beta_slow"].map((name) =>
        reader.optional(key(name))
      );
      const grown = factor <= 1 ? 1 : 1 + 0.1 * Math.log(factor);
      return {
        ...{ type: "yarn", factor, originalLength },
        ...betaFast !== undefined && { betaFast },
        ...betaSlow !== undefined && { betaSlow },
        ...attention !== 1 && { attentionFactor: attention * grown },
      };
    }
    case "longrope": {
      const lists = [shortFactors, longFactors].map((factors, i) => {
        if (factors !== undefined) return Array.from(factors, (one) => one * factor);
        const name = `rope_factors_${i === 0 ? "short" : "long"}.weight`;
        return reader.fail(
          `${reader.name(key("type"))} is "longrope", and the file has no tensor ${name}`,
        );
      }) as [number[], number[]];
      const [short, long] = lists;
      return {
        ...{ type: "longrope", originalLength, shortFactors: short, longFactors: long },
        attentionFactor: attention,
      };
    }
    default:
      return reader.fail(
        `${reader.name(key("type"))} is ${
          describe(type)
        }, and must be none, linear, yarn or longrope`,
      );
  }
}

/** The tokens of the vocabulary, if the file has one. */
function tokensOf(metadata: Metadata): Iterable<NamedToken> {
  try {
    const tokens = metadata.get("tokenizer.ggml.tokens");
    return Array.isArray(tokens) ? tokens.entries() : [];
  } catch (error) {
    // Texts that are not UTF-8 matter to tokenizers, and the program may have one of its own.
    if (error instanceof FormatError) return [];
    throw error;
  }
}

/** The kinds of layers in a file: short convolutions have no heads of keys. */
function kindsOf(reader: Reader, layers: number, family: Family): readonly LayerKind[] {
  const key = "attention.sliding_window_pattern";
  const given = reader.value(key);
  const period = typeof given === "number" ? reader.size(key, MOST.tokens) : family.windowPeriod;
  const heads = family.hasConvolutions === true
    ? reader.integers("attention.head_count_kv", { most: MOST.heads, length: layers })
    : undefined;
  const slides = Array.isArray(given) ? given : undefined;
  if (slides !== undefined && slides.length !== layers) {
    reader.fail(`${reader.name(key)} has ${slides.length} layers, and the model ${layers}`);
  }
  return periodicKinds(layers, period).map((kind, i) => {
    if (heads !== undefined && heads.length > 1 && heads[i] === 0) return "convolution";
    return slides === undefined ? kind : slides[i] === true ? "sliding" : "full";
  });
}

/** The heads of keys of layers with attention. */
function keyHeadsOf(reader: Reader, layers: number, family: Family, heads: number): number {
  const key = "attention.head_count_kv";
  const given = reader.value(key);
  if (family.hasConvolutions !== true || !Array.isArray(given)) {
    return reader.layerSize(key, MOST.heads, layers, heads);
  }
  const all = reader.integers(key, { most: MOST.heads, length: layers })!;
  const own = new Set(all.filter((count) => count > 0));
  if (own.size === 1 && all.length === layers) return [...own][0]!;
  return reader.reject(key, `a list with one number of heads, and 0, for ${layers} layers`);
}

/** A `rope.scaling` that is for texts of that length; see {@link GgufTensors}. */
function ropeOf(
  reader: Reader,
  layers: number,
  headDimensions: number,
  contextLength: number,
  family: Family,
  tensors: GgufTensors,
): ModelConfig["rope"] {
  return {
    dimensions: reader.layerSize(
      ...["rope.dimension_count", MOST.headDimensions, layers, headDimensions] as const,
    ),
    base: reader.real("rope.freq_base", 10000),
    scaling: scalingOf(reader, contextLength, tensors),
    interleaved: family.gguf.interleaved === true,
  };
}

/**
 * The sizes in the metadata of a GGUF file. `tensors` has what the metadata may lack, or the number
 * of tokens alone.
 *
 * @throws {FormatError} For models of no known family, for sizes that are missing or out of range,
 *   and for keys of `rope` and `attention` that may change results and are not known.
 */
export function configOfGguf(
  metadata: Metadata,
  file: string,
  tensors: GgufTensors | number = {},
): ModelConfig {
  const more = typeof tensors === "number" ? { vocabulary: tensors } : tensors;
  const fail = (message: string): never => {
    throw new FormatError(message, file, 0);
  };
  const architecture = metadata.get("general.architecture");
  const family = familyOfGguf(architecture, fail);
  const start = `${architecture}.`;
  const reader = new Reader((key) => metadata.get(`${start}${key}`), file, start);
  const layers = layersIn(reader, "block_count", more.tensors);
  const each = (key: string, most: number, otherwise?: number): number =>
    reader.layerSize(key, most, layers, otherwise);
  const hidden = reader.size("embedding_length", MOST.hidden);
  const heads = each("attention.head_count", MOST.heads);
  const headDimensions = each("attention.key_length", MOST.headDimensions, hidden / heads);
  const valueLength = each("attention.value_length", MOST.headDimensions, headDimensions);
  if (valueLength !== headDimensions) {
    return fail(
      `${
        reader.name("attention.value_length")
      } is ${valueLength} and key_length ${headDimensions}: values ` +
        "of another length than keys are not supported",
    );
  }
  reader.refuse("attention.causal", true);
  for (const key of ["attention.max_alibi_bias", "attention.clamp_kqv"]) reader.refuse(key, 0);
  const contextLength = reader.size("context_length", MOST.tokens);
  const window = reader.integer("attention.sliding_window", {
    most: MOST.tokens,
    otherwise: family.gguf.window ?? 0,
  });
  const vocabulary = reader.size("vocab_size", MOST.vocabulary, more.vocabulary);
  const base: ModelConfig = {
    architecture: architecture as string,
    layers,
    hidden,
    intermediate: each("feed_forward_length", MOST.intermediate),
    heads,
    kvHeads: keyHeadsOf(reader, layers, family, heads),
    headDimensions,
    vocabulary,
    contextLength,
    ...windowsOf(window, kindsOf(reader, layers, family)),
    epsilon: reader.real("attention.layer_norm_rms_epsilon"),
    rope: ropeOf(reader, layers, headDimensions, contextLength, family, more),
    endTokens: endTokensOf(
      ["eos", "eot", "eom"].map((name) => metadata.get(`tokenizer.ggml.${name}_token_id`)),
      tokensOf(metadata),
      vocabulary,
    ),
  };
  const config = { ...base, ...family.gguf.read?.(reader, base) };
  refuseUnread(reader, metadata, start, config);
  return checkConfig(config, fail);
}

/** Throws for keys that may change results, and that nothing has read. */
function refuseUnread(
  reader: Reader,
  metadata: Metadata,
  start: string,
  { headDimensions }: ModelConfig,
): void {
  if (!reader.wasRead("expert_count") && reader.real("expert_count", 0) > 0) {
    reader.fail("the model is a mixture of experts, which is not supported");
  }
  if (!reader.wasRead("attention.scale")) {
    const scale = reader.real("attention.scale", 0);
    if (scale !== 0 && Math.abs(scale * Math.sqrt(headDimensions) - 1) > 1e-5) {
      reader.reject("attention.scale", "1 / √key_length: others are not supported");
    }
  }
  for (const [key, ...neutral] of CHANGING) reader.refuseUnread(key, ...neutral);
  const own = metadata.keys().filter((key) => key.startsWith(start))
    .map((key) => key.slice(start.length))
    .filter((key) => key.startsWith("rope.") || key.startsWith("attention."));
  reader.refuseOthers(own, HARMLESS);
}

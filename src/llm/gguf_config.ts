/**
 * The sizes of models in the metadata of GGUF files, with the defaults of llama.cpp.
 *
 * @module
 */
import { FormatError } from "../base/errors.ts";
import { describe } from "../base/text.ts";
import type { Metadata } from "../io/metadata.ts";
import type { RopeScaling } from "../nn/mod.ts";
import { checkConfig, type LlamaConfig } from "./config.ts";
import { endTokensOf, type NamedToken } from "./end_tokens.ts";
import { MOST, Reader } from "./reader.ts";

/** The architectures, and whether neighboring columns make a pair. */
const INTERLEAVED: Readonly<Record<string, boolean>> = {
  llama: true,
  mistral: true,
  qwen2: false,
  qwen3: false,
};

/** Keys of positions and of attention that change no result of these architectures. */
const HARMLESS: readonly string[] = [
  // How the model was trained.
  "rope.scaling.finetuned",
  // Those of other kinds of scaling.
  ...["rope.scaling.factor", "rope.scale_linear", "rope.scaling.original_context_length"],
  ...["rope.scaling.yarn_beta_fast", "rope.scaling.yarn_beta_slow"],
  // Of norms that these architectures do not have.
  ...["attention.layer_norm_epsilon", "attention.group_norm_epsilon"],
  "attention.group_norm_groups",
  // Texts end with the window, whichever layers have it.
  "attention.sliding_window_pattern",
];

/** What tensors of a GGUF file say of a model's sizes. */
export interface GgufTensors {
  /** The rows of the embedding: the number of tokens, if the metadata lacks it. */
  readonly vocabulary?: number | undefined;
  /** The elements of `rope_factors_short.weight`. */
  readonly shortFactors?: ArrayLike<number> | undefined;
  /** The elements of `rope_factors_long.weight`. */
  readonly longFactors?: ArrayLike<number> | undefined;
}

/** The scaling of positions; llama.cpp's is linear where the file has no type. */
function scalingOf(
  reader: Reader,
  own: (key: string) => string,
  contextLength: number,
  { shortFactors, longFactors }: GgufTensors,
): RopeScaling | undefined {
  const key = (name: string): string => own(`rope.scaling.${name}`);
  const type = reader.value(key("type")) ?? "linear";
  const attention = reader.real(key("attn_factor"), 1);
  reader.refuse(key("yarn_ext_factor"), -1, type === "yarn" ? 1 : 0);
  reader.refuse(key("yarn_attn_factor"), 1);
  reader.refuse(key("yarn_log_multiplier"), 0);
  reader.refuse(key("alpha"), 1);
  const given = reader.real(key("factor"), reader.real(own("rope.scale_linear"), 0));
  const factor = type === "none" || given === 0 ? 1 : given;
  if (type !== "longrope" && (shortFactors ?? longFactors) !== undefined) {
    return reader.fail(
      `the file has rope_factors_short or rope_factors_long, and ${key("type")} is ${
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
        return reader.fail(`${key("type")} is "longrope", and the file has no tensor ${name}`);
      }) as [number[], number[]];
      const [short, long] = lists;
      return {
        ...{ type: "longrope", originalLength, shortFactors: short, longFactors: long },
        attentionFactor: attention,
      };
    }
    default:
      return reader.fail(
        `${key("type")} is ${describe(type)}, and must be none, linear, yarn or longrope`,
      );
  }
}

/** The tokens of the vocabulary, if the file has one. */
function tokensOf(reader: Reader): Iterable<NamedToken> {
  try {
    const tokens = reader.value("tokenizer.ggml.tokens");
    return Array.isArray(tokens) ? tokens.entries() : [];
  } catch (error) {
    // Texts that are not UTF-8 matter to tokenizers, and the program may have one of its own.
    if (error instanceof FormatError) return [];
    throw error;
  }
}

/** The architecture, and whether neighboring columns make a pair. */
function architectureOf(reader: Reader): readonly [architecture: string, interleaved: boolean] {
  const architecture = reader.value("general.architecture");
  if (typeof architecture === "string" && Object.hasOwn(INTERLEAVED, architecture)) {
    return [architecture, INTERLEAVED[architecture]!];
  }
  const known = Object.keys(INTERLEAVED).join(", ");
  return reader.fail(`the model is ${describe(architecture)}, and must be one of ${known}`);
}

/**
 * The sizes in the metadata of a GGUF file. `tensors` has what the metadata may lack, or the number
 * of tokens alone.
 *
 * @throws {FormatError} For models that are not Llama-style, for sizes that are missing or out of
 *   range, and for keys of `rope` and `attention` that may change results and are not known.
 */
export function configOfGguf(
  metadata: Metadata,
  file: string,
  tensors: GgufTensors | number = {},
): LlamaConfig {
  const more = typeof tensors === "number" ? { vocabulary: tensors } : tensors;
  const reader = new Reader((key) => metadata.get(key), file);
  const [architecture, interleaved] = architectureOf(reader);
  const own = (key: string): string => `${architecture}.${key}`;
  if (reader.real(own("expert_count"), 0) > 0) {
    return reader.fail("the model is a mixture of experts, which is not supported");
  }
  const layers = reader.size(own("block_count"), MOST.layers);
  const each = (key: string, most: number, otherwise?: number): number =>
    reader.layerSize(own(key), most, layers, otherwise);
  const hidden = reader.size(own("embedding_length"), MOST.hidden);
  const heads = each("attention.head_count", MOST.heads);
  const headDimensions = each("attention.key_length", MOST.headDimensions, hidden / heads);
  const valueLength = each("attention.value_length", MOST.headDimensions, headDimensions);
  if (valueLength !== headDimensions) {
    return reader.fail(
      `${
        own("attention.value_length")
      } is ${valueLength} and key_length ${headDimensions}: values ` +
        "of another length than keys are not supported",
    );
  }
  const scale = reader.real(own("attention.scale"), 0);
  if (scale !== 0 && Math.abs(scale * Math.sqrt(headDimensions) - 1) > 1e-5) {
    return reader.fail(
      `${own("attention.scale")} is ${scale}, which is not supported: only 1 / √key_length`,
    );
  }
  reader.refuse(own("attention.causal"), true);
  for (const key of ["attention.max_alibi_bias", "attention.clamp_kqv"]) reader.refuse(own(key), 0);
  for (const key of ["attn_logit_softcapping", "final_logit_softcapping"]) {
    reader.refuse(own(key), 0);
  }
  for (const key of ["logit_scale", "residual_scale", "embedding_scale"]) {
    reader.refuse(own(key), 0, 1);
  }
  const contextLength = reader.size(own("context_length"), MOST.tokens);
  const window = reader.integer(own("attention.sliding_window"), {
    most: MOST.tokens,
    otherwise: 0,
  });
  const vocabulary = reader.size(own("vocab_size"), MOST.vocabulary, more.vocabulary);
  const config: LlamaConfig = {
    architecture,
    layers,
    hidden,
    intermediate: each("feed_forward_length", MOST.intermediate),
    heads,
    kvHeads: each("attention.head_count_kv", MOST.heads, heads),
    headDimensions,
    vocabulary,
    contextLength,
    slidingWindow: window > 0 ? window : undefined,
    epsilon: reader.real(own("attention.layer_norm_rms_epsilon")),
    rope: {
      dimensions: each("rope.dimension_count", MOST.headDimensions, headDimensions),
      base: reader.real(own("rope.freq_base"), 10000),
      scaling: scalingOf(reader, own, contextLength, more),
      interleaved,
    },
    endTokens: endTokensOf(
      ["eos", "eot", "eom"].map((name) => reader.value(`tokenizer.ggml.${name}_token_id`)),
      tokensOf(reader),
      vocabulary,
    ),
  };
  const starts = [own("rope."), own("attention.")];
  reader.refuseOthers(
    metadata.keys().filter((key) => starts.some((start) => key.startsWith(start))),
    new Set(HARMLESS.map(own)),
  );
  return checkConfig(config, (message) => reader.fail(message));
}

/**
 * The sizes of Llama-style models, as GGUF files and config.json say them.
 *
 * @module
 */
import { ArgumentError, FormatError } from "../base/errors.ts";
import { describe } from "../base/text.ts";
import type { Metadata } from "../io/metadata.ts";
import { ropeAngles, type RopeScaling } from "../nn/mod.ts";

/** A model's sizes, and what distinguishes it from other Llama-style models. */
export interface LlamaConfig {
  /** The kind of model, such as `llama` or `qwen2`. */
  readonly architecture: string;
  /** The number of layers. */
  readonly layers: number;
  /** The size of hidden states. */
  readonly hidden: number;
  /** The size between the products of a feed-forward part. */
  readonly intermediate: number;
  /** The heads of queries. */
  readonly heads: number;
  /** The heads of keys and values. */
  readonly kvHeads: number;
  /** The columns of a head. */
  readonly headDimensions: number;
  /** The number of tokens in the vocabulary. */
  readonly vocabulary: number;
  /** The tokens that the model was trained for. */
  readonly contextLength: number;
  /** The tokens back that attention sees; undefined for all. */
  readonly slidingWindow: number | undefined;
  /** What norms add to the mean of squares. */
  readonly epsilon: number;
  /** The rotary positions. */
  readonly rope: {
    /** The columns of a head that are turned. */
    readonly dimensions: number;
    readonly base: number;
    readonly scaling: RopeScaling | undefined;
    /** Whether neighbors make a pair, as in GGUF files of Llama. */
    readonly interleaved: boolean;
  };
  /** The tokens that end a text, as far as the file says. */
  readonly endTokens: readonly number[];
}

/** The architectures of GGUF files, and whether neighboring columns make a pair. */
const GGUF_INTERLEAVED: Readonly<Record<string, boolean>> = {
  llama: true,
  mistral: true,
  qwen2: false,
  qwen3: false,
};

/** The kinds of models in config.json. */
const MODEL_TYPES: readonly string[] = ["llama", "mistral", "qwen2", "qwen3", "smollm"];

/** Reads typed values of metadata, and throws FormatErrors. */
class Reader {
  readonly #get: (key: string) => unknown;
  readonly #file: string;

  constructor(get: (key: string) => unknown, file: string) {
    this.#get = get;
    this.#file = file;
  }

  fail(message: string): FormatError {
    return new FormatError(message, this.#file, 0);
  }

  value(key: string): unknown {
    return this.#get(key) ?? undefined;
  }

  /** A number; `otherwise` if there is none. */
  number(key: string, otherwise?: number): number {
    const value = this.value(key);
    if (value === undefined && otherwise !== undefined) return otherwise;
    if (typeof value === "number" && Number.isFinite(value)) return value;
    throw this.fail(`${key} is ${describe(value)}, and must be a number`);
  }

  /** An integer of at least 1. */
  size(key: string, otherwise?: number): number {
    const value = this.number(key, otherwise);
    if (Number.isInteger(value) && value >= 1) return value;
    throw this.fail(`${key} is ${value}, and must be an integer of at least 1`);
  }

  /** A list of numbers; undefined if there is none. */
  numbers(key: string): readonly number[] | undefined {
    const value = this.value(key);
    if (value === undefined) return undefined;
    const all = Array.isArray(value) ? value : [value];
    if (all.every((one) => typeof one === "number")) return all;
    throw this.fail(`${key} is ${describe(value)}, and must be numbers`);
  }
}

function checkSizes(config: LlamaConfig, reader: Reader): LlamaConfig {
  const { heads, kvHeads, headDimensions, rope: { dimensions, base, scaling } } = config;
  if (heads % kvHeads !== 0) {
    throw reader.fail(`${heads} heads are no multiple of ${kvHeads} heads of keys`);
  }
  if (dimensions < 2 || dimensions % 2 !== 0 || dimensions > headDimensions) {
    throw reader.fail(`${dimensions} columns of heads of ${headDimensions} cannot be turned`);
  }
  try {
    const angles = ropeAngles([], { dimensions, base, scaling });
    for (const one of [angles.cos, angles.sin]) one.dispose();
  } catch (error) {
    if (error instanceof ArgumentError) throw reader.fail(error.message);
    throw error;
  }
  return config;
}

function ggufScaling(reader: Reader, prefix: string, contextLength: number) {
  const type = reader.value(`${prefix}.rope.scaling.type`);
  if (type === undefined || type === "none") return undefined;
  const factor = reader.number(`${prefix}.rope.scaling.factor`, 1);
  if (type === "linear") return { type, factor } as const;
  if (type === "yarn") {
    const originalLength = reader.size(
      `${prefix}.rope.scaling.original_context_length`,
      contextLength,
    );
    return { type, factor, originalLength } as const;
  }
  throw reader.fail(
    `${prefix}.rope.scaling.type is ${describe(type)}, and must be none, linear or yarn`,
  );
}

/**
 * The sizes in the metadata of a GGUF file. `vocabulary` is the number of tokens if the metadata does
 * not say it: the rows of the embedding. Throws a FormatError for models that are not Llama-style, and
 * for sizes that are missing.
 */
export function configOfGguf(metadata: Metadata, file: string, vocabulary?: number): LlamaConfig {
  const reader = new Reader((key) => metadata.get(key), file);
  const architecture = reader.value("general.architecture");
  const interleaved =
    typeof architecture === "string" && Object.hasOwn(GGUF_INTERLEAVED, architecture)
      ? GGUF_INTERLEAVED[architecture]
      : undefined;
  if (typeof architecture !== "string" || interleaved === undefined) {
    throw reader.fail(
      `the model is ${describe(architecture)}, and must be one of ${
        Object.keys(GGUF_INTERLEAVED).join(", ")
      }`,
    );
  }
  const own = (key: string): string => `${architecture}.${key}`;
  if (reader.number(own("expert_count"), 0) > 0) {
    throw reader.fail("the model is a mixture of experts, which is not supported");
  }
  const hidden = reader.size(own("embedding_length"));
  const heads = reader.size(own("attention.head_count"));
  const headDimensions = reader.size(own("attention.key_length"), hidden / heads);
  const contextLength = reader.size(own("context_length"));
  const window = reader.number(own("attention.sliding_window"), 0);
  const ends = ["eos", "eot", "eom"].flatMap((name) => {
    const id = reader.value(`tokenizer.ggml.${name}_token_id`);
    return typeof id === "number" ? [id] : [];
  });
  return checkSizes({
    architecture,
    layers: reader.size(own("block_count")),
    hidden,
    intermediate: reader.size(own("feed_forward_length")),
    heads,
    kvHeads: reader.size(own("attention.head_count_kv"), heads),
    headDimensions,
    vocabulary: reader.size(own("vocab_size"), vocabulary),
    contextLength,
    slidingWindow: window > 0 ? window : undefined,
    epsilon: reader.number(own("attention.layer_norm_rms_epsilon")),
    rope: {
      dimensions: reader.size(own("rope.dimension_count"), headDimensions),
      base: reader.number(own("rope.freq_base"), 10000),
      scaling: ggufScaling(reader, architecture, contextLength),
      interleaved,
    },
    endTokens: [...new Set(ends)],
  }, reader);
}

type Json = Readonly<Record<string, unknown>>;

/** The length of vectors that yarn turns, where config.json says it by two numbers. */
function yarnLength(own: Reader, factor: number): number | undefined {
  if (own.value("attention_factor") !== undefined) return own.number("attention_factor");
  const [one, all] = [own.number("mscale", 0), own.number("mscale_all_dim", 0)];
  if (one === 0 || all === 0) return undefined;
  const grown = (by: number): number => factor <= 1 ? 1 : 0.1 * by * Math.log(factor) + 1;
  return grown(one) / grown(all);
}

/** `rope_scaling` or `rope_parameters` of config.json. */
function jsonScaling(
  given: unknown,
  reader: Reader,
  contextLength: number,
): RopeScaling | undefined {
  if (typeof given !== "object" || given === null) return undefined;
  const own = new Reader((key) => (given as Json)[key], "rope_scaling of config.json");
  const type = own.value("rope_type") ?? own.value("type");
  if (type === undefined || type === "default") return undefined;
  const optional = (key: string): number | undefined =>
    own.value(key) === undefined ? undefined : own.number(key);
  const originalLength = own.size("original_max_position_embeddings", contextLength);
  switch (type) {
    case "linear":
      return { type: "linear", factor: own.number("factor") };
    case "dynamic":
      return { type: "dynamic", factor: own.number("factor"), originalLength };
    case "llama3":
      return {
        type: "llama3",
        factor: own.number("factor"),
        originalLength,
        lowFrequencyFactor: own.number("low_freq_factor"),
        highFrequencyFactor: own.number("high_freq_factor"),
      };
    case "yarn": {
      const factor = own.number("factor");
      if (own.value("truncate") === false) {
        throw reader.fail("rope_scaling has truncate false, which is not supported");
      }
      return {
        ...{ type: "yarn", factor, originalLength },
        betaFast: optional("beta_fast"),
        betaSlow: optional("beta_slow"),
        attentionFactor: yarnLength(own, factor),
      };
    }
    case "longrope":
      return {
        type: "longrope",
        originalLength,
        shortFactors: own.numbers("short_factor") ?? [],
        longFactors: own.numbers("long_factor") ?? [],
        factor: optional("factor") ?? contextLength / originalLength,
        attentionFactor: optional("attention_factor"),
      };
    default:
      throw reader.fail(
        `rope_scaling is ${
          describe(type)
        }, and must be default, linear, dynamic, llama3, yarn or longrope`,
      );
  }
}

/**
 * The sizes in a config.json. Throws a FormatError for models that are not Llama-style, and for
 * sizes that are missing.
 */
export function configOfJson(json: unknown, file: string): LlamaConfig {
  const given = (typeof json === "object" && json !== null ? json : {}) as Json;
  const reader = new Reader((key) => given[key], file);
  const architecture = reader.value("model_type");
  if (!MODEL_TYPES.includes(architecture as string)) {
    throw reader.fail(
      `model_type is ${describe(architecture)}, and must be one of ${MODEL_TYPES.join(", ")}`,
    );
  }
  const activation = reader.value("hidden_act") ?? "silu";
  if (activation !== "silu") {
    throw reader.fail(`hidden_act is ${describe(activation)}, and must be silu`);
  }
  const hidden = reader.size("hidden_size"), heads = reader.size("num_attention_heads");
  const headDimensions = reader.size("head_dim", hidden / heads);
  const contextLength = reader.size("max_position_embeddings");
  const scaling = reader.value("rope_scaling") ?? reader.value("rope_parameters");
  const parameters = (typeof scaling === "object" && scaling !== null ? scaling : {}) as Json;
  const rope = new Reader((key) => parameters[key], `rope_parameters of ${file}`);
  // Mistral has no switch.
  const usesWindow = reader.value("use_sliding_window") ??
    !(architecture as string).startsWith("qwen");
  const part = reader.number("partial_rotary_factor", rope.number("partial_rotary_factor", 1));
  const window = usesWindow === true ? reader.number("sliding_window", 0) : 0;
  return checkSizes({
    architecture: architecture as string,
    layers: reader.size("num_hidden_layers"),
    hidden,
    intermediate: reader.size("intermediate_size"),
    heads,
    kvHeads: reader.size("num_key_value_heads", heads),
    headDimensions,
    vocabulary: reader.size("vocab_size"),
    contextLength,
    slidingWindow: window > 0 ? window : undefined,
    epsilon: reader.number("rms_norm_eps"),
    rope: {
      dimensions: Math.trunc(headDimensions * part),
      base: reader.number("rope_theta", rope.number("rope_theta", 10000)),
      scaling: jsonScaling(scaling, reader, contextLength),
      interleaved: false,
    },
    endTokens: reader.numbers("eos_token_id") ?? [],
  }, reader);
}

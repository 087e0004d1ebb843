/**
 * The sizes of models in config.json, with the defaults of transformers.
 *
 * @module
 */
import { describe } from "../base/text.ts";
import type { RopeScaling } from "../nn/mod.ts";
import { checkConfig, type LlamaConfig } from "./config.ts";
import { endTokensOf } from "./end_tokens.ts";
import { type Json, MOST, objectOf, Reader } from "./reader.ts";

/** The kinds of models. */
const MODEL_TYPES: readonly string[] = ["llama", "mistral", "qwen2", "qwen3", "smollm"];

/** Keys of config.json that may change positions, attention or the scale of numbers. */
const CHANGING = /rope|rotary|attn|attention|sliding|layer_types|softcap|multiplier|scal[ei]|qk_/;

/** Those that transformers ignores, that only matter in training, or whose tensors decide. */
const HARMLESS: ReadonlySet<string> = new Set([
  ...["attention_dropout", "attention_probs_dropout_prob", "attn_pdrop", "attention_bias"],
  ...["attn_implementation", "_attn_implementation", "_attn_implementation_autoset"],
  ...["_attn_implementation_internal", "_flash_attn_2_enabled", "use_flash_attn"],
  ...["use_flash_attention", "use_flash_attention_2", "dual_chunk_attention_config"],
  ...["use_memory_efficient_attention", "attention_softmax_in_fp32", "scale_attn_weights"],
  // Texts end with the window, whichever layers have it.
  ...["use_sliding_window", "sliding_window", "sliding_window_pattern", "layer_types"],
]);

/** Values of a key that is off, of a factor and of a term: they change nothing. */
const NEUTRAL: ReadonlySet<unknown> = new Set([false, 0, 1]);

/** Keys of rope_scaling that another kind of scaling may have: transformers ignores them there. */
const OF_SCALINGS: ReadonlySet<string> = new Set([
  ...["factor", "original_max_position_embeddings", "attention_factor", "beta_fast", "beta_slow"],
  ...["mscale", "mscale_all_dim", "low_freq_factor", "high_freq_factor", "short_factor"],
  ...["long_factor", "truncate", "finetuned"],
]);
/** Keys of rope_parameters that are no scaling. */
const OF_POSITIONS: ReadonlySet<string> = new Set(["rope_theta", "partial_rotary_factor"]);

/** Limits of lists. */
const FACTORS = { length: MOST.headDimensions / 2, most: MOST.number };
const END_TOKENS = { length: MOST.endTokens, least: -MOST.number, most: MOST.number };

/** The length of vectors that yarn turns, where config.json has two numbers for it. */
function yarnLength(own: Reader, factor: number): number | undefined {
  if (own.value("attention_factor") !== undefined) return own.real("attention_factor");
  const [one, all] = [own.real("mscale", 0), own.real("mscale_all_dim", 0)];
  if (one === 0 || all === 0) return undefined;
  const grown = (by: number): number => factor <= 1 ? 1 : 0.1 * by * Math.log(factor) + 1;
  return grown(one) / grown(all);
}

/** `rope_scaling` or `rope_parameters`. */
function scalingOf(
  given: Json,
  own: Reader,
  contextLength: number,
  originalContextLength: number,
): RopeScaling | undefined {
  const keys = Object.keys(given).filter((key) => (given[key] ?? undefined) !== undefined);
  // Files have both names, for old and new versions of transformers.
  const [type, oldType] = [own.value("rope_type"), own.value("type")];
  const kind = type ?? oldType;
  own.refuseOthers(keys, new Set([...OF_SCALINGS, ...OF_POSITIONS]));
  if (kind === undefined) {
    const scaling = keys.find((key) => OF_SCALINGS.has(key));
    if (scaling === undefined) return undefined;
    return own.fail(`there is a ${scaling}, and no rope_type`);
  }
  if (kind === "default") return undefined;
  const originalLength = own.size(
    "original_max_position_embeddings",
    MOST.tokens,
    originalContextLength,
  );
  switch (kind) {
    case "linear":
      return { type: "linear", factor: own.real("factor") };
    case "dynamic":
      return { type: "dynamic", factor: own.real("factor"), originalLength };
    case "llama3":
      return {
        type: "llama3",
        factor: own.real("factor"),
        originalLength,
        lowFrequencyFactor: own.real("low_freq_factor"),
        highFrequencyFactor: own.real("high_freq_factor"),
      };
    case "yarn": {
      const factor = own.real("factor");
      own.refuse("truncate", true);
      return {
        ...{ type: "yarn", factor, originalLength },
        betaFast: own.optional("beta_fast"),
        betaSlow: own.optional("beta_slow"),
        attentionFactor: yarnLength(own, factor),
      };
    }
    case "longrope":
      return {
        type: "longrope",
        originalLength,
        shortFactors: own.numbers("short_factor", FACTORS) ?? [],
        longFactors: own.numbers("long_factor", FACTORS) ?? [],
        factor: own.optional("factor") ?? contextLength / originalLength,
        attentionFactor: own.optional("attention_factor"),
      };
    default:
      return own.fail(
        `the rope_type is ${
          describe(kind)
        }, and must be default, linear, dynamic, llama3, yarn or longrope`,
      );
  }
}

/** The tokens back that attention sees; undefined for all. */
function windowOf(reader: Reader, architecture: string, layers: number): number | undefined {
  const types = reader.value("layer_types");
  const kinds = ["full_attention", "sliding_attention"];
  if (types !== undefined) {
    const other = Array.isArray(types) ? types.find((type) => !kinds.includes(type)) : types;
    if (other !== undefined) {
      return reader.fail(`layer_types has ${describe(other)}, and must have ${kinds.join(" or ")}`);
    }
    const { length } = types as readonly unknown[];
    if (length !== layers) {
      return reader.fail(`layer_types has ${length} layers, and the model ${layers}`);
    }
  }
  const window = reader.integer("sliding_window", { most: MOST.tokens, otherwise: 0 });
  const isQwen = architecture.startsWith("qwen");
  // Mistral has no switch, and its window is that of all layers.
  const isUsed = (reader.value("use_sliding_window") ?? !isQwen) === true &&
    (!isQwen || types === undefined || (types as readonly unknown[]).includes(kinds[1]));
  return isUsed && window > 0 ? window : undefined;
}

/**
 * The sizes in a config.json.
 *
 * @throws {FormatError} For models that are not Llama-style, for sizes that are missing or out of
 *   range, and for keys that may change results and are not known.
 */
export function configOfJson(json: unknown, file: string): LlamaConfig {
  const given = objectOf(json);
  const reader = new Reader((key) => given[key], file);
  const architecture = reader.value("model_type");
  if (!MODEL_TYPES.includes(architecture as string)) {
    return reader.fail(
      `model_type is ${describe(architecture)}, and must be one of ${MODEL_TYPES.join(", ")}`,
    );
  }
  const activation = reader.value("hidden_act") ?? "silu";
  if (activation !== "silu") {
    return reader.fail(`hidden_act is ${describe(activation)}, and must be silu`);
  }
  const layers = reader.size("num_hidden_layers", MOST.layers);
  const each = (key: string, most: number, otherwise?: number): number =>
    reader.layerSize(key, most, layers, otherwise);
  const hidden = reader.size("hidden_size", MOST.hidden);
  const heads = each("num_attention_heads", MOST.heads);
  const headDimensions = each("head_dim", MOST.headDimensions, hidden / heads);
  const contextLength = reader.size("max_position_embeddings", MOST.tokens);
  const originalLength = reader.size(
    "original_max_position_embeddings",
    MOST.tokens,
    contextLength,
  );
  const name = (reader.value("rope_scaling") ?? undefined) === undefined
    ? "rope_parameters"
    : "rope_scaling";
  const scaling = reader.value(name);
  if (scaling !== undefined && (typeof scaling !== "object" || Array.isArray(scaling))) {
    return reader.fail(`${name} is ${describe(scaling)}, and must be an object`);
  }
  const parameters = objectOf(scaling);
  const rope = new Reader((key) => parameters[key], `${name} of ${file}`);
  const vocabulary = reader.size("vocab_size", MOST.vocabulary);
  const part = reader.real("partial_rotary_factor", rope.real("partial_rotary_factor", 1));
  const config: LlamaConfig = {
    architecture: architecture as string,
    layers,
    hidden,
    intermediate: each("intermediate_size", MOST.intermediate),
    heads,
    kvHeads: each("num_key_value_heads", MOST.heads, heads),
    headDimensions,
    vocabulary,
    contextLength,
    slidingWindow: windowOf(reader, architecture as string, layers),
    epsilon: reader.real("rms_norm_eps"),
    rope: {
      dimensions: Math.trunc(headDimensions * part),
      base: reader.real("rope_theta", rope.real("rope_theta", 10000)),
      scaling: scalingOf(parameters, rope, contextLength, originalLength),
      interleaved: false,
    },
    endTokens: endTokensOf(reader.integers("eos_token_id", END_TOKENS) ?? [], [], vocabulary),
  };
  const isOn = (key: string): boolean => !NEUTRAL.has(given[key] ?? false);
  reader.refuseOthers(
    Object.keys(given).filter((key) => CHANGING.test(key) && isOn(key)),
    HARMLESS,
  );
  return checkConfig(config, (message) => reader.fail(message));
}

/**
 * The sizes of models in config.json, with the defaults of transformers.
 *
 * @module
 */
import { describe } from "../base/text.ts";
import type { RopeScaling } from "../nn/mod.ts";
import { checkConfig, type LayerKind, type ModelConfig, type RopeConfig } from "./config/config.ts";
import { endTokensOf } from "./config/end_tokens.ts";
import { type Json, layersIn, MOST, objectOf, ownMember, Reader } from "./config/reader.ts";
import { periodicKinds, windowsOf } from "./config/windows.ts";
import type { Family } from "./families/family.ts";
import { familyOfJson } from "./families/registry.ts";

/** Keys of config.json that may change positions, attention or the scale of numbers. */
const CHANGING = /rope|rotary|attn|attention|sliding|layer_types|softcap|multiplier|scal[ei]|qk_/;

/** Those that transformers ignores, that only matter in training, or whose tensors decide. */
const HARMLESS: ReadonlySet<string> = new Set([
  ...["attention_dropout", "attention_probs_dropout_prob", "attn_pdrop", "attention_bias"],
  ...["attn_implementation", "_attn_implementation", "_attn_implementation_autoset"],
  ...["_attn_implementation_internal", "_flash_attn_2_enabled", "use_flash_attn"],
  ...["use_flash_attention", "use_flash_attention_2", "dual_chunk_attention_config"],
  ...["use_memory_efficient_attention", "attention_softmax_in_fp32", "scale_attn_weights"],
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
      const truncate = own.flag("truncate") ?? true;
      return {
        ...{ type: "yarn", factor, originalLength },
        betaFast: own.optional("beta_fast"),
        betaSlow: own.optional("beta_slow"),
        attentionFactor: yarnLength(own, factor),
        ...!truncate && { truncate },
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

/** Other names of keys. */
const OTHER_NAMES: Readonly<Record<string, string>> = {
  hidden_act: "hidden_activation",
  rms_norm_eps: "norm_eps",
  intermediate_size: "block_ff_dim",
  sliding_window_pattern: "_sliding_window_pattern",
};

/** The key of a field, or its other name if the file has that. */
function keyOf(reader: Reader, key: string): string {
  const other = OTHER_NAMES[key]!;
  return reader.has(other) ? other : key;
}

/** The kinds of layers by their names in `layer_types`. */
const KINDS: Readonly<Record<string, LayerKind>> = {
  full_attention: "full",
  sliding_attention: "sliding",
  conv: "convolution",
};

/** The kinds of layers. */
function kindsOf(reader: Reader, layers: number, family: Family): readonly LayerKind[] {
  const key = keyOf(reader, "sliding_window_pattern");
  const period = typeof reader.value(key) === "number"
    ? reader.size(key, MOST.tokens)
    : family.windowPeriod;
  const types = reader.value("layer_types");
  if (types === undefined) return periodicKinds(layers, period);
  const known = Object.keys(KINDS).filter((type) =>
    type !== "conv" || family.hasConvolutions === true
  );
  const other = Array.isArray(types) ? types.find((type) => !known.includes(type)) : types;
  if (other !== undefined) {
    return reader.fail(`layer_types has ${describe(other)}, and must have ${known.join(" or ")}`);
  }
  const all = types as readonly string[];
  if (all.length === layers) return all.map((type) => KINDS[type]!);
  return reader.fail(`layer_types has ${all.length} layers, and the model ${layers}`);
}

/** `rope_scaling` or `rope_parameters`: its name and its members. */
function parametersIn(reader: Reader): readonly [name: string, parameters: Json] {
  const name = reader.has("rope_scaling") ? "rope_scaling" : "rope_parameters";
  const scaling = reader.value(name);
  if (scaling !== undefined && (typeof scaling !== "object" || Array.isArray(scaling))) {
    return reader.fail(`${name} is ${describe(scaling)}, and must be an object`);
  }
  return [name, objectOf(scaling)];
}

/** The rotary positions of `parameters`, or of the fields of the config. */
function ropeOf(
  reader: Reader,
  file: string,
  parameters: readonly [name: string, parameters: Json],
  headDimensions: number,
  contextLength: number,
): RopeConfig {
  const [name, members] = parameters;
  const rope = new Reader((key) => ownMember(members, key), `${name} of ${file}`);
  const originalLength = reader.size(
    "original_max_position_embeddings",
    MOST.tokens,
    contextLength,
  );
  const part = reader.real("partial_rotary_factor", rope.real("partial_rotary_factor", 1));
  return {
    dimensions: Math.trunc(headDimensions * part),
    base: reader.real("rope_theta", rope.real("rope_theta", 10000)),
    scaling: scalingOf(members, rope, contextLength, originalLength),
    interleaved: false,
  };
}

/**
 * The rotary positions of layers that see all tokens, and of sliding ones where they differ: files of
 * Gemma 3 have parameters of both, new ones by kinds of layers.
 */
function ropesIn(
  reader: Reader,
  file: string,
  headDimensions: number,
  contextLength: number,
): Pick<ModelConfig, "rope" | "slidingRope"> {
  const [name, given] = parametersIn(reader);
  const of = (parameters: readonly [string, Json]): RopeConfig =>
    ropeOf(reader, file, parameters, headDimensions, contextLength);
  const kinds = ["full_attention", "sliding_attention"];
  const isByKind = kinds.every((kind) => typeof given[kind] === "object") &&
    Object.keys(given).every((key) => kinds.includes(key));
  if (isByKind) {
    const [rope, slidingRope] = kinds.map((kind) =>
      of([`${name}.${kind}`, objectOf(given[kind])])
    ) as [RopeConfig, RopeConfig];
    return { rope, slidingRope };
  }
  const rope = of([name, given]);
  if (!reader.has("rope_local_base_freq")) return { rope };
  const base = reader.real("rope_local_base_freq");
  return { rope, slidingRope: { ...rope, base, scaling: undefined } };
}

/** Throws unless the gate's activation is one of the family. */
function checkActivation(reader: Reader, { activations }: Family): void {
  const key = keyOf(reader, "hidden_act");
  const activation = reader.value(key) ?? activations[0];
  if (activations.includes(activation as string)) return;
  reader.fail(`${key} is ${describe(activation)}, and must be ${activations.join(" or ")}`);
}

/**
 * The sizes in a config.json.
 *
 * @param tensors The number of tensors of the model, which has no more layers.
 * @throws {FormatError} For models of no known family, for sizes that are missing or out of range,
 *   and for keys that may change results and are not known.
 */
export function configOfJson(json: unknown, file: string, tensors?: number): ModelConfig {
  const given = objectOf(json);
  const reader = new Reader((key) => ownMember(given, key), file);
  const fail = (message: string): never => reader.fail(message);
  const architecture = reader.value("model_type");
  const family = familyOfJson(architecture, fail);
  checkActivation(reader, family);
  const layers = layersIn(reader, "num_hidden_layers", tensors);
  const each = (key: string, most: number, otherwise?: number): number =>
    reader.layerSize(key, most, layers, otherwise);
  const hidden = reader.size("hidden_size", MOST.hidden);
  const heads = each("num_attention_heads", MOST.heads);
  const headDimensions = each("head_dim", MOST.headDimensions, hidden / heads);
  const contextLength = reader.size("max_position_embeddings", MOST.tokens);
  const vocabulary = reader.size("vocab_size", MOST.vocabulary);
  const window = reader.integer("sliding_window", { most: MOST.tokens, otherwise: 0 });
  const base: ModelConfig = {
    architecture: architecture as string,
    layers,
    hidden,
    intermediate: each(keyOf(reader, "intermediate_size"), MOST.intermediate),
    heads,
    kvHeads: each("num_key_value_heads", MOST.heads, heads),
    headDimensions,
    vocabulary,
    contextLength,
    ...windowsOf(window, kindsOf(reader, layers, family)),
    epsilon: reader.real(keyOf(reader, "rms_norm_eps")),
    ...ropesIn(reader, file, headDimensions, contextLength),
    endTokens: endTokensOf(reader.integers("eos_token_id", END_TOKENS) ?? [], [], vocabulary),
  };
  const config = { ...base, ...family.transformers.read?.(reader, base) };
  const isOn = (key: string): boolean => !NEUTRAL.has(given[key] ?? false);
  reader.refuseOthers(
    Object.keys(given).filter((key) => CHANGING.test(key) && isOn(key)),
    HARMLESS,
  );
  return checkConfig(config, fail);
}

/**
 * Llama and the families with its layers: Mistral, Qwen 2 and 3, SmolLM3.
 *
 * @module
 */
import { type AttentionOptions, selfAttention } from "../blocks/attention.ts";
import { gatedMlp } from "../blocks/mlp.ts";
import type { MakeBlock, MakePart } from "../blocks/step.ts";
import type { LayerKind, ModelConfig } from "../config/config.ts";
import { MOST, type Reader } from "../config/reader.ts";
import { type Family, GGUF, SILU, TRANSFORMERS } from "./family.ts";

const gated: MakePart = (w, model) => gatedMlp(w, model);

/** Layers with a norm before attention and one before the feed-forward part. */
export function preNorm(
  attention: AttentionOptions = {},
  makeFeed: MakePart = gated,
): MakeBlock {
  return (w, model, place) => {
    const { names, norm, sizes: { hidden } } = model;
    const attend = selfAttention(w, model, place, attention);
    const feed = makeFeed(w, model, place);
    const first = w.rmsNorm(names.attentionNorm, hidden, norm);
    const second = w.rmsNorm(names.mlpNorm, hidden, norm);
    return (x, memory) => {
      const y = attend(first(x), memory, x);
      return feed(second(y), memory, y);
    };
  };
}

/** The windows of Qwen's layers: off, unless a switch is on, and in the last layers only. */
export function qwenWindows(fields: Reader, config: ModelConfig): Partial<ModelConfig> {
  const isUsed = fields.value("use_sliding_window") === true;
  const first = fields.integer("max_window_layers", { most: MOST.tokens, otherwise: 0 });
  if (!isUsed) return { slidingWindow: undefined, layerKinds: undefined };
  if (fields.has("layer_types") || config.slidingWindow === undefined || first === 0) return {};
  const layerKinds = Array.from(
    { length: config.layers },
    (_, i): LayerKind => i < first ? "full" : "sliding",
  );
  return layerKinds.includes("sliding")
    ? { layerKinds }
    : { slidingWindow: undefined, layerKinds: undefined };
}

/** Every fourth layer has no positions. */
const BARE_PERIOD = 4;

function withoutRope(
  { layers }: ModelConfig,
  isBare: (index: number) => boolean,
): Partial<ModelConfig> {
  const layersWithoutRope = Array.from({ length: layers }, (_, i) => i).filter(isBare);
  return layersWithoutRope.length === 0 ? {} : { layersWithoutRope };
}

/** The layers without positions in a config.json: a 0 in a list, or the last one of a period. */
function bareLayers(fields: Reader, config: ModelConfig): Partial<ModelConfig> {
  const { layers } = config;
  const list = fields.integers("no_rope_layers", { most: 1, length: layers });
  const period = fields.integer("no_rope_layer_interval", {
    ...{ least: 1, most: MOST.tokens, otherwise: BARE_PERIOD },
  });
  if (list === undefined) return withoutRope(config, (i) => (i + 1) % period === 0);
  if (list.length === layers) return withoutRope(config, (i) => list[i] === 0);
  return fields.fail(`no_rope_layers has ${list.length} layers, and the model ${layers}`);
}

export const llama: Family = {
  name: "Llama",
  features: "Llama 2 and 3, SmolLM 1 and 2, and other models with Llama's layers",
  gguf: { ...GGUF, architectures: ["llama"], interleaved: true },
  transformers: { ...TRANSFORMERS, types: ["llama", "smollm"] },
  activations: SILU,
  block: preNorm(),
};

export const mistral: Family = {
  name: "Mistral",
  features: "sliding window",
  gguf: { ...GGUF, architectures: ["mistral"], interleaved: true },
  transformers: { ...TRANSFORMERS, types: ["mistral"] },
  activations: SILU,
  block: preNorm(),
};

export const qwen2: Family = {
  name: "Qwen 2",
  features: "Qwen 2 and 2.5: biases, sliding window in the last layers",
  gguf: { ...GGUF, architectures: ["qwen2"] },
  transformers: { ...TRANSFORMERS, types: ["qwen2"], read: qwenWindows },
  activations: SILU,
  block: preNorm(),
};

export const qwen3: Family = {
  name: "Qwen 3",
  features: "norms of queries and keys",
  gguf: { ...GGUF, architectures: ["qwen3"] },
  transformers: { ...TRANSFORMERS, types: ["qwen3"], read: qwenWindows },
  activations: SILU,
  block: preNorm(),
};

export const smollm3: Family = {
  name: "SmolLM3",
  features: "layers without positions",
  gguf: {
    ...GGUF,
    architectures: ["smollm3"],
    interleaved: true,
    read: (_, config) => withoutRope(config, (i) => (i + 1) % BARE_PERIOD === 0),
  },
  transformers: {
    ...TRANSFORMERS,
    types: ["smollm3"],
    read: (fields, config) => ({ ...qwenWindows(fields, config), ...bareLayers(fields, config) }),
  },
  activations: SILU,
  block: preNorm(),
};

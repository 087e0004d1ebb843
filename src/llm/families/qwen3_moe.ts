/**
 * Qwen 3 with experts.
 *
 * @module
 */
import { stack } from "../../api/functions/tensors.ts";
import type { AnyTensor } from "../../tensor/tensor.ts";
import { chooseOfSoftmax, ggufExperts, mixtureOfExperts, swiglu } from "../blocks/experts.ts";
import { gatedMlp } from "../blocks/mlp.ts";
import type { ExpertLayer, MakePart } from "../blocks/step.ts";
import type { ExpertsConfig, ModelConfig } from "../config/config.ts";
import { MOST, type Reader } from "../config/reader.ts";
import { type Family, GGUF, SILU, TRANSFORMERS } from "./family.ts";
import { preNorm, qwenWindows } from "./llama.ts";

/** Experts in safetensors: three tensors for each. */
const eachExpert: ExpertLayer = (w, name, { count, inner, hidden }) => {
  const each = Array.from({ length: count }, (_, i) => i);
  const shapes = { gate: [inner, hidden], up: [inner, hidden], down: [hidden, inner] };
  const kinds = ["gate", "up", "down"] as const;
  const nameOf = (i: number, kind: string): string => `${i}.${kind}_proj.weight`;
  const parts = Object.fromEntries(
    each.flatMap((i) => kinds.map((kind) => [nameOf(i, kind), shapes[kind]])),
  );
  return w.layer(name, parts, (tensors, own) => {
    const all = (kind: string): AnyTensor =>
      own(stack(each.map((i) => tensors[nameOf(i, kind)] as AnyTensor)));
    const weights = { gate: all("gate"), up: all("up"), down: all("down") };
    return () => weights;
  });
};

/** The experts of a layer, or its feed-forward part if it has none. */
const feed: MakePart = (w, model, place) => {
  const { layers } = model.config.experts!;
  return layers?.includes(place.index) ?? true
    ? mixtureOfExperts(w, model, { choose: chooseOfSoftmax, combine: swiglu })
    : gatedMlp(w, model);
};

/** The layers with experts of a config.json. */
function mixedLayers(fields: Reader, { layers }: ModelConfig): readonly number[] | undefined {
  const step = fields.size("decoder_sparse_step", MOST.layers, 1);
  const plain = new Set(fields.integers("mlp_only_layers", { most: layers, length: layers }));
  const all = Array.from({ length: layers }, (_, i) => i);
  const mixed = all.filter((i) => !plain.has(i) && (i + 1) % step === 0);
  return mixed.length === layers ? undefined : mixed;
}

function readJson(fields: Reader, config: ModelConfig): Partial<ModelConfig> {
  // Newer versions of transformers have another name for it.
  const count = fields.has("num_local_experts") ? "num_local_experts" : "num_experts";
  const experts: ExpertsConfig = {
    count: fields.size(count, MOST.experts),
    used: fields.size("num_experts_per_tok", MOST.experts),
    intermediate: fields.size("moe_intermediate_size", MOST.intermediate),
    normalized: fields.flag("norm_topk_prob") ?? false,
    layers: mixedLayers(fields, config),
  };
  return { ...qwenWindows(fields, config), experts };
}

/** Those of a GGUF file: all layers have experts, whose weights are normalized. */
function readGguf(fields: Reader): Partial<ModelConfig> {
  fields.refuse("expert_weights_scale", 0, 1);
  const experts: ExpertsConfig = {
    count: fields.size("expert_count", MOST.experts),
    used: fields.size("expert_used_count", MOST.experts),
    intermediate: fields.size("expert_feed_forward_length", MOST.intermediate),
    normalized: fields.flag("expert_weights_norm") ?? true,
  };
  return { experts };
}

export const qwen3Moe: Family = {
  name: "Qwen 3 MoE",
  features: "experts by the softmax of all scores",
  gguf: {
    ...GGUF,
    architectures: ["qwen3moe"],
    read: readGguf,
    experts: ggufExperts,
  },
  transformers: {
    ...TRANSFORMERS,
    types: ["qwen3_moe"],
    read: readJson,
    experts: eachExpert,
  },
  activations: SILU,
  block: preNorm({}, feed),
};

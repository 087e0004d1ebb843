/**
 * gpt-oss: sinks of attention, and experts with limits, whose weights may be MXFP4.
 *
 * @module
 */
import { stack } from "../../api/functions/tensors.ts";
import { MXFP4_SIZE, mxfp4Numbers } from "../../io/mxfp4.ts";
import { tensor } from "../../tensor/create.ts";
import type { AnyTensor, Tensor } from "../../tensor/tensor.ts";
import type * as t from "../../types/mod.ts";
import { type Combine, ggufExperts, mixtureOfExperts, softmaxOfChosen } from "../blocks/experts.ts";
import { GGUF_NAMES, TRANSFORMERS_NAMES } from "../blocks/names.ts";
import type { AnyWeights, ExpertLayer, ExpertWeights } from "../blocks/step.ts";
import type { ExpertsConfig, ModelConfig } from "../config/config.ts";
import { MOST, type Reader } from "../config/reader.ts";
import { type Family, SILU } from "./family.ts";
import { preNorm } from "./llama.ts";

/** The limit of gates and products, and the slope of a gate's sigmoid. */
const LIMIT = 7, SLOPE = 1.702;

/** (up + 1) · gate · sigmoid(1.702 · gate), of limited gates and products. */
const limitedSwiglu: Combine = (gate, up) => {
  const own = gate.minimum(LIMIT);
  return up.clip(-LIMIT, LIMIT).add(1).mul(own).mul(own.mul(SLOPE).sigmoid());
};

/** Bytes of a file. */
type Bytes = Tensor<"uint8", number[], t.Device>;

/**
 * [count, outputs, inputs] of bfloat16, which has all numbers of MXFP4, of two tensors in the place of
 * one: two numbers a byte, [count, outputs, inputs / 32, 16], and their exponents, [count, outputs,
 * inputs / 32].
 */
function unpacked(
  blocks: Bytes,
  scales: Bytes,
  [count, outputs, inputs]: readonly [number, number, number],
): AnyTensor {
  const { device } = scales;
  const groups = inputs / MXFP4_SIZE;
  const bytes = blocks.to("cpu").toTypedArray(), exponents = scales.to("cpu").toTypedArray();
  const rows = outputs * groups, half = MXFP4_SIZE / 2;
  const numbers = new Float32Array(rows * MXFP4_SIZE);
  const each = Array.from({ length: count }, (_, expert) => {
    for (let i = 0; i < rows; i++) {
      const table = mxfp4Numbers(exponents[expert * rows + i]!);
      for (let j = 0; j < half; j++) {
        const both = bytes[(expert * rows + i) * half + j]!;
        numbers[i * MXFP4_SIZE + 2 * j] = table[both & 15]!;
        numbers[i * MXFP4_SIZE + 2 * j + 1] = table[both >> 4]!;
      }
    }
    const shape = [outputs, groups * MXFP4_SIZE] as const;
    return tensor(numbers, { shape }).astype("bfloat16").to(device);
  });
  return stack(each);
}

/** Rows or columns of gates, which are every second one, and those of products. */
function parted(both: AnyTensor, axis: 1 | 2): [gate: AnyTensor, up: AnyTensor] {
  const at = (start: string): AnyTensor =>
    axis === 1 ? both.slice(":", start) : both.slice(":", ":", start);
  return [at("::2"), at("1::2")];
}

/** Experts in safetensors: [count, inputs, outputs] with gates and products in turn, or MXFP4. */
const jointExperts: ExpertLayer = (w, name, sizes) => {
  const { count, inner, hidden } = sizes;
  if (w.has(`${name}.gate_up_proj_blocks`)) return packedExperts(w, name, sizes);
  const parts = {
    gate_up_proj: [count, hidden, 2 * inner],
    gate_up_proj_bias: [count, 2 * inner],
    down_proj: [count, inner, hidden],
    down_proj_bias: [count, hidden],
  };
  return w.layer(name, parts, (tensors, own) => {
    const [gate, up] = parted(tensors.gate_up_proj, 2);
    const [gateBias, upBias] = parted(tensors.gate_up_proj_bias, 1);
    const kept = (x: AnyTensor): AnyTensor => own(x.copy());
    const weights: ExpertWeights = {
      gate: kept(gate.mT),
      up: kept(up.mT),
      down: kept(tensors.down_proj.mT),
      gateBias: kept(gateBias),
      upBias: kept(upBias),
      downBias: own(tensors.down_proj_bias),
    };
    return () => weights;
  });
};

function packedExperts(
  w: AnyWeights,
  name: string,
  { count, inner, hidden }: Parameters<ExpertLayer>[2],
): () => ExpertWeights {
  const packed = (outputs: number, inputs: number) => {
    const shape = [count, outputs, Math.ceil(inputs / MXFP4_SIZE)];
    const dtype = "uint8" as const;
    return { blocks: { shape: [...shape, MXFP4_SIZE / 2], dtype }, scales: { shape, dtype } };
  };
  const both = packed(2 * inner, hidden), down = packed(hidden, inner);
  const parts = {
    gate_up_proj_blocks: both.blocks,
    gate_up_proj_scales: both.scales,
    gate_up_proj_bias: [count, 2 * inner],
    down_proj_blocks: down.blocks,
    down_proj_scales: down.scales,
    down_proj_bias: [count, hidden],
  };
  return w.layer(name, parts, (tensors, own) => {
    const { gate_up_proj_bias: bias, down_proj_bias: downBias } = tensors;
    const kept = (x: AnyTensor): AnyTensor => own(x.copy());
    const { gate_up_proj_blocks: blocks, gate_up_proj_scales: scales } = tensors;
    const [gate, up] = parted(unpacked(blocks, scales, [count, 2 * inner, hidden]), 1);
    const [gateBias, upBias] = parted(bias, 1);
    const { down_proj_blocks: downBlocks, down_proj_scales: downScales } = tensors;
    const weights: ExpertWeights = {
      gate: kept(gate),
      up: kept(up),
      down: own(unpacked(downBlocks, downScales, [count, hidden, inner])),
      gateBias: kept(gateBias),
      upBias: kept(upBias),
      downBias: own(downBias),
    };
    return () => weights;
  });
}

/** Yarn's ramp has no whole pairs as its ends, which GGUF files do not say. */
function exactRope({ rope }: ModelConfig): Pick<ModelConfig, "rope"> {
  const { scaling } = rope;
  if (scaling?.type !== "yarn") return { rope };
  return { rope: { ...rope, scaling: { ...scaling, truncate: false } } };
}

function readGguf(fields: Reader, config: ModelConfig): Partial<ModelConfig> {
  const { rope: { base } } = config;
  fields.refuse("rope.freq_base_swa", base);
  const experts: ExpertsConfig = {
    count: fields.size("expert_count", MOST.experts),
    used: fields.size("expert_used_count", MOST.experts),
    intermediate: fields.size("expert_feed_forward_length", MOST.intermediate),
    normalized: true,
  };
  return { experts, ...exactRope(config) };
}

function readJson(fields: Reader, { intermediate }: ModelConfig): Partial<ModelConfig> {
  fields.refuse("swiglu_limit", LIMIT);
  fields.refuse("swiglu_alpha", SLOPE);
  const experts: ExpertsConfig = {
    count: fields.size("num_local_experts", MOST.experts),
    used: fields.size("num_experts_per_tok", MOST.experts),
    intermediate,
    normalized: true,
  };
  return { experts };
}

export const gptOss: Family = {
  name: "gpt-oss",
  features: "sinks of attention, a window in every second layer, experts by the softmax of the " +
    "chosen scores; MXFP4 becomes bfloat16",
  gguf: {
    names: { ...GGUF_NAMES, mlpNorm: "post_attention_norm" },
    architectures: ["gpt-oss"],
    read: readGguf,
    experts: ggufExperts,
  },
  transformers: {
    names: { ...TRANSFORMERS_NAMES, router: "mlp.router" },
    types: ["gpt_oss"],
    read: readJson,
    experts: jointExperts,
  },
  activations: SILU,
  windowPeriod: 2,
  block: preNorm(
    { sinks: true },
    (w, model) => mixtureOfExperts(w, model, { choose: softmaxOfChosen, combine: limitedSwiglu }),
  ),
};

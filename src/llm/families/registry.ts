/**
 * All families of language models.
 *
 * @module
 */
import { FormatError } from "../../base/errors.ts";
import { describe } from "../../base/text.ts";
import type * as nn from "../../nn/mod.ts";
import type * as t from "../../types/mod.ts";
import { decoder } from "../blocks/decoder.ts";
import type { Step } from "../blocks/step.ts";
import type { ModelConfig } from "../config/config.ts";
import type { Family } from "./family.ts";
import { gemma2, gemma3 } from "./gemma.ts";
import { gptOss } from "./gpt_oss.ts";
import { granite } from "./granite.ts";
import { lfm2 } from "./lfm2.ts";
import { llama, mistral, qwen2, qwen3, smollm3 } from "./llama.ts";
import { olmo2 } from "./olmo.ts";
import { phi3 } from "./phi3.ts";
import { qwen3Moe } from "./qwen3_moe.ts";

/** All families, in the order of the documentation. */
export const FAMILIES: readonly Family[] = [
  ...[llama, mistral, qwen2, qwen3, qwen3Moe, gemma2, gemma3, phi3, smollm3, granite, olmo2],
  ...[gptOss, lfm2],
];

const ofGguf = new Map(
  FAMILIES.flatMap((one) => one.gguf.architectures.map((name) => [name, one] as const)),
);
const ofTransformers = new Map(
  FAMILIES.flatMap((one) => one.transformers.types.map((name) => [name, one] as const)),
);

/** The family of a value of `general.architecture`; calls `fail`, which throws, for others. */
export function familyOfGguf(name: unknown, fail: (message: string) => never): Family {
  const found = ofGguf.get(name as string);
  if (found !== undefined) return found;
  return fail(
    `the model is ${describe(name)}, and must be one of ${[...ofGguf.keys()].join(", ")}`,
  );
}

/** The family of a value of `model_type`; calls `fail`, which throws, for others. */
export function familyOfJson(name: unknown, fail: (message: string) => never): Family {
  const found = ofTransformers.get(name as string);
  if (found !== undefined) return found;
  return fail(
    `model_type is ${describe(name)}, and must be one of ${[...ofTransformers.keys()].join(", ")}`,
  );
}

/**
 * Asks `weights` for the layers of a model, and returns the function of its steps. Call
 * `weights.done` or `load` before you use it.
 *
 * @throws {FormatError} For a config of no known family.
 */
export function stepOf(
  weights: nn.Weights<t.PackedDType, t.Device>,
  config: ModelConfig,
  cache: nn.CacheDType,
): Step {
  const { architecture } = config;
  const [json, gguf] = [ofTransformers.get(architecture), ofGguf.get(architecture)];
  const family = json ?? gguf;
  if (family === undefined) {
    throw new FormatError(
      `the architecture of the model is ${describe(architecture)}, which is not known`,
      weights.path,
      0,
    );
  }
  const isGguf = weights.has(family.gguf.names.embedding);
  return decoder(weights, config, cache, isGguf ? family.gguf : family.transformers, family.block);
}

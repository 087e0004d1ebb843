/**
 * All families of language models.
 *
 * @module
 */
import { FormatError } from "../../base/errors.ts";
import { describe } from "../../base/text.ts";
import { applyView } from "../../core/apply.ts";
import type { Operand } from "../../memory/operand.ts";
import type * as nn from "../../nn/mod.ts";
import type { PlaceOf } from "../../nn/weights/adapter.ts";
import { VIEWS } from "../../table/views.ts";
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

/** The family of a config, and whether its weights are those of a GGUF file. */
function familyOf(
  weights: nn.Weights<t.PackedDType, t.Device>,
  { architecture }: ModelConfig,
): { readonly family: Family; readonly isGguf: boolean } {
  const family = ofTransformers.get(architecture) ?? ofGguf.get(architecture);
  if (family === undefined) {
    throw new FormatError(
      `the architecture of the model is ${describe(architecture)}, which is not known`,
      weights.path,
      0,
    );
  }
  return { family, isGguf: weights.has(family.gguf.names.embedding) };
}

/** The modules of layers that adapters may change. */
const MODULES = [
  ...["q", "k", "v", "qkv", "attentionOutput", "gate", "up", "gateUp", "down"] as const,
];

/** Where the weights of the modules of transformers are in the file of a model. */
export function placesIn(
  weights: nn.Weights<t.PackedDType, t.Device>,
  config: ModelConfig,
): PlaceOf | undefined {
  const { family: { transformers: { names }, gguf }, isGguf } = familyOf(weights, config);
  if (!isGguf) return undefined;
  const heads: Readonly<Record<string, number>> = { q: config.heads, k: config.kvHeads };
  return (module) => {
    for (const key of ["embedding", "output"] as const) {
      if (module === names[key]) return { name: `${gguf.names[key]}.weight` };
    }
    const found = /^(\d+)\.(.+)$/.exec(module.slice(names.layers.length + 1));
    const key = MODULES.find((one) => names[one] === found?.[2]);
    if (found === null || key === undefined || !module.startsWith(`${names.layers}.`)) {
      return undefined;
    }
    const count = gguf.interleaved ? heads[key] : undefined;
    return {
      name: `${gguf.names.layers}.${found[1]}.${gguf.names[key]}.weight`,
      order: count === undefined ? undefined : (b) => paired(b, count),
    };
  };
}

/** Rows of heads, whose halves become pairs of neighbors, as llama.cpp's converter orders them. */
function paired(b: Operand, heads: number): Operand {
  const { shape } = b.layout;
  const [rows, rank] = shape as [number, number];
  const halves = applyView(VIEWS.reshape, b, "reshape", [heads, 2, rows / heads / 2, rank]);
  return applyView(VIEWS.permute, halves, "permute", [0, 2, 1, 3]);
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
  const { family, isGguf } = familyOf(weights, config);
  return decoder(weights, config, cache, isGguf ? family.gguf : family.transformers, family.block);
}

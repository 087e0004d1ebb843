/**
 * Text generation: language models of GGUF and safetensors files, off the event loop.
 *
 * @example
 * ```ts
 * import * as llm from "@rowmajor/tensor/llm";
 *
 * using model = await llm.open("SmolLM2-135M-Instruct.Q4_1.gguf");
 * const options = { maxTokens: 20, temperature: 0.7, topP: 0.9 };
 * for await (const id of model.generate([1, 9690, 198], options)) console.log(id);
 * ```
 *
 * @module
 */
import "../tensor/tensor.ts";
export type { Angles, Pace, Past, Step, Stepped, Wanted } from "./blocks/step.ts";
export type { ExpertsConfig, LayerKind, ModelConfig, RopeConfig } from "./config/config.ts";
export { configOfGguf, type GgufTensors } from "./gguf_config.ts";
export { configOfJson } from "./json_config.ts";
export { memory, type MemoryOptions, type ModelMemory } from "./memory.ts";
export { stepOf } from "./families/registry.ts";
export type {
  Constraint,
  ConstraintContext,
  ConstraintState,
  FinishReason,
  GenerateOptions,
} from "./batch/generation.ts";
export type { SchedulerCounts } from "./batch/scheduler.ts";
export {
  Engine,
  engine,
  type EngineGenerateOptions,
  type EngineOptions,
  type EngineStats,
  type GeneratedToken,
} from "./engine.ts";
export type { TokenLogprob } from "./sampling/batch.ts";
export {
  type GenerateTextOptions,
  LanguageModel,
  open,
  type OpenOptions,
  Session,
  type SessionOptions,
  type TextCodec,
} from "./model.ts";
export { Sampler, type SamplerOptions } from "./sampler.ts";
export { type TextPiece, TextStream } from "../tokenizers/text_stream.ts";

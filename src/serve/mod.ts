/**
 * Services with models: a function from Request to Response for your own server.
 *
 * @example
 * ```ts
 * import { Chat } from "@rowmajor/tensor/models";
 * import { openai } from "@rowmajor/tensor/serve";
 *
 * using chat = await Chat.open("SmolLM2-135M-Instruct.Q4_1.gguf");
 * using service = openai({ chat });
 * const response = await service.fetch(new Request("http://localhost/v1/models"));
 * console.log(await response.json());
 * ```
 *
 * @module
 */
export {
  type BatchCallOptions,
  type Batches,
  batches,
  type BatchesOptions,
  type BatchFunction,
  type BatchStats,
} from "./batches.ts";
export {
  inference,
  type InferenceBatchOptions,
  type InferenceModelOptions,
  type InferenceModels,
} from "./inference.ts";
export type { InferenceModel, TensorInfo } from "./inference/model.ts";
export {
  type ChatModelOptions,
  openai,
  type OpenAILimits,
  type OpenAIModels,
  type OpenAIOptions,
  type TextEngineOptions,
} from "./openai.ts";
export type {
  Connection,
  LogEntry,
  Service,
  ServiceLimits,
  ServiceOptions,
  ServiceStats,
} from "./http/service.ts";
export type { PromClient, PromMetric, PromRegistry } from "./http/metrics.ts";

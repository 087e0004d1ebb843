/**
 * Ready models: texts to vectors, texts to labels and chats, from the files of a model.
 *
 * @example
 * ```ts
 * import { Embedder } from "@rowmajor/tensor/models";
 *
 * using embedder = await Embedder.open("sentence-transformers/all-MiniLM-L6-v2");
 * const vectors = await embedder.embed(["a cat", "a kitten"]);
 * ```
 *
 * @module
 */
import "../tensor/tensor.ts";
export { type AskOptions, Chat, type ChatOptions } from "./chat.ts";
export {
  Classifier,
  type ClassifierOptions,
  type ClassifyOptions,
  type Label,
  type RankResult,
} from "./classifier.ts";
export {
  Embedder,
  type EmbedderOptions,
  type EmbedOptions,
  type SearchOptions,
  type SearchResult,
} from "./embedder.ts";
export type { FindOptions, ModelSource } from "./files.ts";
export type { Pooling } from "./pooling.ts";
export type { Tool } from "./tools.ts";
export type { EncoderOptions } from "./text_encoder.ts";
export type { Message } from "../tokenizers/mod.ts";

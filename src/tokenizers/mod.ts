/**
 * Tokenizers and chat templates of models: of GGUF files by the library itself, of tokenizer.json by
 * the package `@huggingface/tokenizers`, and templates by `@huggingface/jinja`. A program installs
 * these packages itself; each is imported when it is needed for the first time.
 *
 * @module
 */
export {
  type ChatTemplate,
  chatTemplate,
  type Message,
  type RenderOptions,
  type TemplateSource,
} from "./chat_template.ts";
export type { MetadataSource } from "./gguf.ts";
export type { TokenizerFiles } from "./json.ts";
export { open, type OpenOptions, type TokenizerJson, type TokenizerSource } from "./open.ts";
export type {
  BatchOptions,
  EncodeOptions,
  Encoding,
  InputOptions,
  SpecialIds,
  SpecialOption,
  TextInput,
  TokenDecoder,
  Tokenizer,
} from "./tokenizer.ts";
export type { Path } from "../io/file.ts";

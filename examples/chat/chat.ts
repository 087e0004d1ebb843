/**
 * A chat with a model: its turns, each of which goes on from what the model has seen.
 *
 * @module
 */
import { existsSync } from "node:fs";
import { stat } from "node:fs/promises";
import * as llm from "../../src/llm/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import * as tokenizers from "../../src/tokenizers/mod.ts";

/** A model with its tokenizer. */
export interface ChatModel extends Disposable {
  readonly model: llm.LanguageModel;
  readonly tokenizer: tokenizers.Tokenizer;
  /** The text of messages, as the model was trained with them. */
  readonly render: tokenizers.ChatTemplate;
}

/** Opens a GGUF file, a folder, or a model in the cache of the Hugging Face hub. */
export async function openChatModel(
  name: string,
  options: llm.OpenOptions = {},
): Promise<ChatModel> {
  const path = existsSync(name) ? name : await nn.findModel(name);
  const model = await llm.open(path, options);
  try {
    const isFolder = (await stat(path)).isDirectory() && model.metadata.keys().length === 0;
    const tokenizer = await tokenizers.open(isFolder ? path : model.metadata, {
      endTokens: model.config.endTokens,
    });
    const render = await tokenizers.chatTemplate(tokenizer);
    return { model, tokenizer, render, [Symbol.dispose]: () => model.dispose() };
  } catch (error) {
    model.dispose();
    throw error;
  }
}

/** What came of a turn. */
export interface Reply {
  readonly text: string;
  readonly tokens: readonly number[];
  readonly reason: llm.FinishReason;
  /** The tokens of the prompt. */
  readonly promptTokens: number;
  /** Seconds to the first token, and from it to the last one. */
  readonly firstSeconds: number;
  readonly seconds: number;
}

/** Options of a reply; `onText` gets its text as it comes. */
export interface ReplyOptions extends llm.GenerateTextOptions {
  readonly onText?: ((text: string) => void) | undefined;
}

/** The tokens and the text that follow `prompt` in a session. */
export async function reply(
  { tokenizer }: ChatModel,
  session: llm.Session,
  prompt: readonly number[],
  { onText, ...options }: ReplyOptions = {},
): Promise<Reply> {
  const tokens: number[] = [];
  let text = "";
  const begin = performance.now();
  let first = begin, last = begin;
  const onToken = (id: number): void => {
    last = performance.now();
    if (tokens.push(id) === 1) first = last;
  };
  const pieces = session.generateText(tokenizer, prompt, { ...options, onToken });
  for (;;) {
    const next = await pieces.next();
    if (next.done === true) {
      return {
        ...{ text, tokens, reason: next.value, promptTokens: prompt.length },
        firstSeconds: (first - begin) / 1000,
        seconds: (last - first) / 1000,
      };
    }
    text += next.value;
    onText?.(next.value);
  }
}

/** The turns of a chat. */
export class Chat implements Disposable {
  readonly #of: ChatModel;
  readonly #session: llm.Session;
  readonly #messages: tokenizers.Message[];

  /** Begins a chat; `system` says how the model is to answer. */
  constructor(of: ChatModel, system?: string) {
    this.#of = of;
    this.#session = of.model.session();
    this.#messages = system === undefined ? [] : [{ role: "system", content: system }];
  }

  /** Asks the model; the question and its answer are part of the next turn. */
  async ask(question: string, options: ReplyOptions = {}): Promise<Reply> {
    const messages = [...this.#messages, { role: "user", content: question }];
    const { tokenizer, render } = this.#of;
    const prompt = tokenizer.encode(render(messages), { special: true });
    const made = await reply(this.#of, this.#session, prompt, options);
    this.#messages.splice(0, Infinity, ...messages, { role: "assistant", content: made.text });
    return made;
  }

  /** Frees what the model has seen. */
  [Symbol.dispose](): void {
    this.#session.dispose();
  }
}

/**
 * A chat with a model: its turns, each of which goes on from what the model has seen.
 *
 * @module
 */
import { existsSync } from "node:fs";
import { stat } from "node:fs/promises";
import * as llm from "../../src/llm/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import { chatTemplate, type Message } from "./template.ts";
import { openTokenizer, type Tokenizer } from "./tokenizer.ts";

/** A model with its tokenizer. */
export interface ChatModel extends Disposable {
  readonly model: llm.LanguageModel;
  readonly tokenizer: Tokenizer;
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
    const tokenizer = await openTokenizer(isFolder ? path : model.metadata);
    return { model, tokenizer, [Symbol.dispose]: () => model.dispose() };
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
  { onText, stop, stopTokens = tokenizer.eos, ...options }: ReplyOptions = {},
): Promise<Reply> {
  const stops = stop === undefined ? [] : typeof stop === "string" ? [stop] : stop;
  const stream = new llm.TextStream((ids) => tokenizer.decode(ids), stops, prompt);
  const tokens: number[] = [];
  let text = "", reason: llm.FinishReason | undefined;
  const add = (piece: string): void => {
    text += piece;
    if (piece !== "") onText?.(piece);
  };
  const begin = performance.now();
  let first = begin, last = begin;
  const generated = session.generate(prompt, { ...options, stopTokens });
  try {
    for (;;) {
      const next = await generated.next();
      if (next.done === true) {
        reason = next.value;
        break;
      }
      last = performance.now();
      if (tokens.length === 0) first = last;
      tokens.push(next.value);
      const piece = stream.push(next.value);
      add(piece.text);
      if (piece.done) {
        reason = "stop";
        break;
      }
    }
  } finally {
    await generated.return("stop");
  }
  add(stream.flush());
  if (stream.done) reason = "stop";
  return {
    ...{ text, tokens, reason, promptTokens: prompt.length },
    firstSeconds: (first - begin) / 1000,
    seconds: (last - first) / 1000,
  };
}

/** The turns of a chat. */
export class Chat implements Disposable {
  readonly #of: ChatModel;
  readonly #session: llm.Session;
  readonly #messages: Message[];
  readonly #render: ReturnType<typeof chatTemplate>;

  /** Begins a chat; `system` says how the model is to answer. */
  constructor(of: ChatModel, system?: string) {
    this.#of = of;
    this.#render = chatTemplate(of.tokenizer);
    this.#session = of.model.session();
    this.#messages = system === undefined ? [] : [{ role: "system", content: system }];
  }

  /** Asks the model; the question and its answer are part of the next turn. */
  async ask(question: string, options: ReplyOptions = {}): Promise<Reply> {
    const messages = [...this.#messages, { role: "user", content: question }];
    const { tokenizer } = this.#of;
    const prompt = tokenizer.encode(this.#render(messages), { special: true });
    const made = await reply(this.#of, this.#session, prompt, options);
    this.#messages.splice(0, Infinity, ...messages, { role: "assistant", content: made.text });
    return made;
  }

  /** Frees what the model has seen. */
  [Symbol.dispose](): void {
    this.#session.dispose();
  }
}

/**
 * Chats to the text that a model goes on with, by the template that its file has for that.
 *
 * @module
 */
import { Template } from "@huggingface/jinja";
import type { Tokenizer } from "./tokenizer.ts";

/** A message of a chat. */
export interface Message {
  /** system, user or assistant, and what else the template knows. */
  readonly role: string;
  readonly content: string;
}

/** How to render a chat. */
export interface RenderOptions {
  /** Whether the text ends where the answer begins; true by default. */
  readonly addGenerationPrompt?: boolean;
  /** More of what the template asks for: tools, enable_thinking, date_string. */
  readonly variables?: Readonly<Record<string, unknown>>;
}

/** The template of models that have none. */
const CHATML = `{%- for message in messages -%}
{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endfor -%}
{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}`;

/**
 * Parses the template of a tokenizer; the function made renders chats, with special tokens as text
 * (`encode(text, { special: true })`). Both throw an Error if the template fails, or refuses a chat.
 */
export function chatTemplate(
  tokenizer: Pick<Tokenizer, "bos" | "eos" | "chatTemplate" | "tokenText">,
): (messages: readonly Message[], options?: RenderOptions) => string {
  const failing = <T>(what: string, run: () => T): T => {
    try {
      return run();
    } catch (error) {
      throw new Error(`the chat template ${what}: ${(error as Error).message}`, { cause: error });
    }
  };
  const template = failing(
    "cannot be parsed",
    () => new Template(tokenizer.chatTemplate ?? CHATML),
  );
  const textOf = (id: number | undefined) => id === undefined ? "" : tokenizer.tokenText(id);
  const [bos, eos] = [textOf(tokenizer.bos), textOf(tokenizer.eos)];
  return (messages, { addGenerationPrompt = true, variables = {} } = {}) =>
    failing("failed", () =>
      template.render({
        messages,
        bos_token: bos,
        eos_token: eos,
        add_generation_prompt: addGenerationPrompt,
        ...variables,
      }));
}

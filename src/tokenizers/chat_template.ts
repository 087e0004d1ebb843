/**
 * Chats to the text that a model continues, by the template that its file has for that.
 *
 * @module
 */
import { ArgumentError, FormatError, PackageError } from "../base/errors.ts";
import { describe } from "../base/text.ts";
import { checkOptions } from "../table/infer.ts";
import type { Node } from "./jinja/ast.ts";
import { renderTree, type Tree } from "./jinja/evaluate.ts";
import { type Value, valueOf } from "./jinja/values.ts";
import { fail, TEMPLATE } from "./jinja/work.ts";
import type { Tokenizer } from "./tokenizer.ts";

/** A message of a chat. */
export interface Message {
  /** system, user, assistant, tool, and what else the template knows. */
  readonly role: string;
  /** The text; some templates also take lists of parts. */
  readonly content?: unknown;
  /** More of what the template reads, such as `tool_calls` and `reasoning_content`. */
  readonly [field: string]: unknown;
}

/** How to render a chat. */
export interface RenderOptions {
  /** Whether the text ends where the answer begins; true by default. */
  readonly addGenerationPrompt?: boolean | undefined;
  /** More of what the template reads: `tools`, `enable_thinking`, `date_string`. */
  readonly variables?: Readonly<Record<string, unknown>> | undefined;
  /** The time of `strftime_now`; the present by default. */
  readonly now?: Date | undefined;
}

/** Renders chats. Special tokens are in the text: encode it with `{ special: true }`. */
export type ChatTemplate = (messages: readonly Message[], options?: RenderOptions) => string;

/** What a template needs of a tokenizer. */
export type TemplateSource = Pick<Tokenizer, "bos" | "eos" | "chatTemplate" | "tokenText">;

/** The template of models that have none. */
const CHATML = `{%- for message in messages -%}
{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endfor -%}
{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}`;

const PACKAGE = "@huggingface/jinja";
/** The longest template, and the longest run of white space in it: the package takes its square. */
const LONGEST = 250_000, LONGEST_SPACE = 1000;

/** White space of Python alone, and of JavaScript alone. */
const OTHER_SPACE = new RegExp(`[${"\\x1c-\\x1f"}\\x85\\ufeff]`);
/** What ends a sum. */
const ENDS: ReadonlySet<string> = new Set(["Comma", "Equals", "Colon"]);
const WORDS: ReadonlySet<string> = new Set(["and", "or", "if", "else", "not", "is"]);

/** A piece of the source, as the package cuts it. */
interface Token {
  readonly type: string;
  readonly value: string;
}

/** The part of the package in use. */
interface Library {
  tokenize(
    source: string,
    options: { readonly lstrip_blocks: boolean; readonly trim_blocks: boolean },
  ): Token[];
  parse(tokens: Token[]): { readonly body: readonly Node[] };
}

async function importLibrary(): Promise<Library> {
  try {
    return await import("@huggingface/jinja") as Library;
  } catch (cause) {
    throw new PackageError("parse a chat template", PACKAGE, { cause });
  }
}

/** Throws for what the package would cut in another way than Jinja does. */
function checkSource(source: string): void {
  if (source.length > LONGEST) {
    fail(`the template has ${source.length} characters, above ${LONGEST}`);
  }
  const other = OTHER_SPACE.exec(source);
  if (other !== null) {
    fail(`the template has the character U+${other[0].charCodeAt(0).toString(16)}`);
  }
  let run = 0;
  for (let i = 0; i < source.length; i++) {
    run = /\s/.test(source[i]!) ? run + 1 : 0;
    if (run > LONGEST_SPACE) fail(`more than ${LONGEST_SPACE} characters of white space in a row`);
  }
  // The package takes white space from in front of `{-`, and a line's end after `-}`.
  if (/^[ \t]+\{-/m.test(source) || /-\}\n/.test(source)) {
    fail("the template has {- or -} in its text");
  }
}

/**
 * Whether `~` is beside + without parentheses: Jinja joins texts first, and the package from left to
 * right, which is the same for texts. Throws for `~` beside -, and for `a < b < c`, which Python
 * compares pair by pair: the tree does not show parentheses.
 */
function hasMixedSums(tokens: readonly Token[]): boolean {
  // The operators since the last token that ends an operand, by the depth of parentheses.
  const sums: Set<string>[] = [new Set()];
  const comparisons = [0];
  let isMixed = false;
  tokens.forEach(({ type, value }, i) => {
    const sum = sums.at(-1)!;
    const isNotIn = value === "not" && tokens[i + 1]?.value === "in";
    const isName = type === "Identifier" && tokens[i - 1]?.type !== "Dot";
    if (type.startsWith("Open")) {
      sums.push(new Set());
      comparisons.push(0);
    } else if (type.startsWith("Close")) {
      if (sums.length > 1) sums.pop();
      if (comparisons.length > 1) comparisons.pop();
    } else if (type === "AdditiveBinaryOperator") {
      sum.add(value);
      if (sum.has("~") && sum.has("-")) fail("~ and - without parentheses");
      isMixed ||= sum.has("~") && sum.has("+");
    } else if (type === "ComparisonBinaryOperator" || isName && value === "in") {
      sum.clear();
      if (++comparisons[comparisons.length - 1]! > 1) fail("a comparison of a comparison");
    } else if (ENDS.has(type) || isName && WORDS.has(value) && !isNotIn) {
      sum.clear();
      if (value !== "is") comparisons[comparisons.length - 1] = 0;
    }
  });
  return isMixed;
}

function parseTemplate(library: Library, given: string): Tree {
  const source = given.replace(/\r\n?/g, "\n");
  checkSource(source);
  try {
    const tokens = library.tokenize(source, { lstrip_blocks: true, trim_blocks: true });
    const isMixed = hasMixedSums(tokens);
    return { body: library.parse(tokens).body, isMixed };
  } catch (error) {
    if (error instanceof FormatError) throw error;
    const message = String((error as Error).message).slice(0, 200);
    throw new FormatError(`${PACKAGE} cannot parse the template: ${message}`, TEMPLATE, 0, {
      cause: error,
    });
  }
}

/**
 * Parses the chat template of a tokenizer, or a template of your own.
 *
 * Renders as Jinja does in Python's transformers, with the filters, tests and functions that
 * transformers has. What it does not know is an error, never another text. A template without an end is
 * an error too: the work is bounded.
 *
 * @param source A tokenizer, whose template may be missing: then it is ChatML. Or an object with
 *   `chatTemplate`, `bos` and `eos` of your own.
 * @returns A function of the messages, which gives the text of the chat.
 * @throws {PackageError} If the package `@huggingface/jinja`, which parses templates, is not installed.
 * @throws {FormatError} If the template cannot be parsed; in the function returned, if it fails or does
 *   what is not known.
 *
 * @example
 * ```ts
 * const render = await chatTemplate({
 *   chatTemplate: "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}[assistant]",
 *   ...{ bos: undefined, eos: undefined, tokenText: () => "" },
 * });
 * render([{ role: "user", content: "Hello!" }]);
 * // => [user] Hello!
 * // => [assistant]
 * ```
 */
export async function chatTemplate(source: TemplateSource): Promise<ChatTemplate> {
  const template = source.chatTemplate ?? CHATML;
  if (typeof template !== "string") {
    throw new ArgumentError(`Cannot parse the template ${describe(template)}: it is a text`);
  }
  const tree = parseTemplate(await importLibrary(), template);
  const textOf = (id: number | undefined) => id === undefined ? "" : source.tokenText(id);
  const [bos, eos] = [textOf(source.bos), textOf(source.eos)];
  return (messages, options = {}) => {
    checkOptions("render", options, ["addGenerationPrompt", "variables", "now"]);
    const { addGenerationPrompt = true, variables = {}, now = new Date() } = options;
    const all: Readonly<Record<string, unknown>> = {
      messages,
      tools: null,
      documents: null,
      bos_token: bos,
      eos_token: eos,
      add_generation_prompt: addGenerationPrompt,
      ...variables,
    };
    const values = new Map<string, Value>();
    for (const [name, value] of Object.entries(all)) {
      if (value !== undefined) values.set(name, valueOf(value));
    }
    return renderTree(tree, values, now);
  };
}

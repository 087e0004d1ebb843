/**
 * Functions that a model may call in a chat: their names in answers, and what they return.
 *
 * @module
 */
import { ArgumentError, attempt } from "../base/errors.ts";
import { listIn } from "../base/shape.ts";
import { orAborted } from "../base/signals.ts";
import { describe } from "../base/text.ts";
import { problemOf } from "../constraints/values.ts";
import { objectOf } from "../llm/config/reader.ts";
import type { FinishReason } from "../llm/mod.ts";
import type { Message } from "../tokenizers/mod.ts";
import { type Call, type CallFormat, newCallId, shownLength, type ToolSpec } from "./calls.ts";

/** A function that a model may call. */
export interface Tool {
  /** Its name, of letters, digits, `_`, `-` and `.`. */
  readonly name: string;
  /** What it does, for the model. */
  readonly description?: string | undefined;
  /** A JSON Schema of its arguments, an object; by default there are none. */
  readonly parameters?: Readonly<Record<string, unknown>> | undefined;
  /**
   * Returns a text, or a value whose JSON the model gets. If it throws, the model gets the message of
   * the error.
   */
  call(
    args: Readonly<Record<string, unknown>>,
    options: { readonly signal: AbortSignal | undefined },
  ): unknown;
}

/** The functions of a turn. */
export class ToolKit {
  /** What templates take as `tools`. */
  readonly specs: readonly ToolSpec[];
  readonly #tools: ReadonlyMap<string, Tool>;
  readonly #format: CallFormat;

  /**
   * Checks functions; `format` is how the model writes calls of them.
   *
   * @throws {ArgumentError} For functions that are none, for two of one name, and for a template
   *   without functions or with calls of a kind that is not known.
   */
  constructor(tools: unknown, format: CallFormat | undefined) {
    const list = listIn(tools, ownTool);
    if (list === undefined || list.length === 0) {
      throw new ArgumentError(
        `Cannot ask with tools ${describe(tools)}: they are an array of at least one`,
      );
    }
    this.#tools = new Map(list.map((tool) => [tool.name, tool]));
    if (this.#tools.size < list.length) {
      throw new ArgumentError("Cannot ask with tools: two have the same name");
    }
    this.specs = list.map(({ name, description = "", parameters }) => ({
      type: "function",
      function: {
        ...{ name, description },
        parameters: parameters ?? { type: "object", properties: {} },
      },
    }));
    if (format === undefined) {
      throw new ArgumentError(
        "Cannot ask with tools: the template of the model has none, or calls of a kind that is not " +
          "known (known are those of Hermes, Qwen, Granite, Llama 3 and Mistral)",
      );
    }
    this.#format = format;
  }

  /** How much of a text is no call, nor the beginning of one. */
  shown(text: string): number {
    return shownLength(this.#format, text);
  }

  /**
   * Runs the calls of an answer.
   *
   * @returns The messages of the calls and of their results; undefined if there are none.
   * @throws The reason of `signal`, if it aborts.
   */
  async run(text: string, signal: AbortSignal | undefined): Promise<Message[] | undefined> {
    const answer = this.#format.read(text);
    if (answer.calls.length === 0) return undefined;
    const calls = answer.calls.map((call) => ({ ...call, id: newCallId() }));
    const messages: Message[] = [];
    const groups = this.#format.isSingle ? calls.map((call) => [call]) : [calls];
    for (const [i, group] of groups.entries()) {
      messages.push({
        role: "assistant",
        content: i === 0 ? answer.text.trimEnd() : "",
        tool_calls: group.map(({ id, name, args }) => ({
          ...{ id, type: "function" },
          function: { name, arguments: args },
        })),
      });
      for (const call of group) {
        const content = await this.#result(call, signal);
        signal?.throwIfAborted();
        messages.push({ role: "tool", tool_call_id: call.id, name: call.name, content });
      }
    }
    return messages;
  }

  /** What the model gets of a call. */
  async #result({ name, args, problem }: Call, signal: AbortSignal | undefined): Promise<string> {
    if (problem !== undefined) return `Error: ${problem}`;
    const tool = this.#tools.get(name);
    if (tool === undefined) {
      const known = [...this.#tools.keys()].join(", ");
      return `Error: there is no function ${JSON.stringify(name)}, only ${known}`;
    }
    const found = problemOf(args, tool.parameters ?? {});
    if (found !== undefined) return `Error: wrong arguments: ${found}`;
    try {
      const result = await orAborted(tool.call(args, { signal }), signal);
      return typeof result === "string" ? result : JSON.stringify(result) ?? "null";
    } catch (error) {
      return `Error: ${error instanceof Error ? error.message : describe(error)}`;
    }
  }
}

/** A copy of JSON; undefined for what JSON cannot have. */
function jsonOf(value: object): Readonly<Record<string, unknown>> | undefined {
  const { value: text } = attempt(() => JSON.stringify(value));
  return text === undefined ? undefined : objectOf(JSON.parse(text));
}

/** A function of the caller, checked and copied. */
function ownTool(given: unknown): Tool {
  const { name, description, parameters, call } = objectOf(given);
  const fail = (why: string): never => {
    throw new ArgumentError(`Cannot ask with the tool ${describe(name ?? given)}: ${why}`);
  };
  if (typeof name !== "string" || !/^[\w.-]{1,64}$/.test(name)) {
    return fail("its name has 1 to 64 letters, digits, _, - and .");
  }
  if (description !== undefined && typeof description !== "string") {
    return fail("its description is a text");
  }
  const schema = typeof parameters === "object" && parameters !== null
    ? jsonOf(parameters)
    : undefined;
  if (parameters !== undefined && schema === undefined) fail("its parameters are a JSON Schema");
  if (typeof call !== "function") return fail("it has no function call");
  return { name, description, parameters: schema, call: call.bind(given) };
}

/** An answer that is complete. */
export interface Whole {
  readonly text: string;
  /** How much of it was shown. */
  readonly shown: number;
  readonly reason: FinishReason;
}

/** The text of an answer as it comes, without calls of functions. */
export async function* visibleText(
  pieces: AsyncGenerator<string, FinishReason>,
  kit: ToolKit | undefined,
): AsyncGenerator<string, Whole> {
  let text = "", shown = 0;
  try {
    for (let next = await pieces.next();; next = await pieces.next()) {
      if (next.done === true) return { text, shown, reason: next.value };
      text += next.value;
      const end = kit?.shown(text) ?? text.length;
      if (end <= shown) continue;
      const from = shown;
      shown = end;
      yield text.slice(from, end);
    }
  } finally {
    await pieces.return("stop");
  }
}

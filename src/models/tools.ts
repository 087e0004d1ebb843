/**
 * Functions that a model may call in a chat: their names in answers, and what they return.
 *
 * @module
 */
import { ArgumentError, attempt } from "../base/errors.ts";
import { listIn } from "../base/shape.ts";
import { orAborted } from "../base/signals.ts";
import { describe } from "../base/text.ts";
import { isSame, problemOf } from "../constraints/values.ts";
import { objectOf } from "../llm/config/reader.ts";
import type { FinishReason } from "../llm/mod.ts";
import type { ChatTemplate, Message } from "../tokenizers/mod.ts";

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

/** A call in an answer: with arguments, or with what is wrong with it. */
interface Call {
  readonly name: string;
  readonly args: Readonly<Record<string, unknown>>;
  readonly problem?: string | undefined;
}

/** An answer: its text, and the calls in it. */
interface Answer {
  readonly text: string;
  readonly calls: readonly Call[];
}

/** How models of some families write calls. */
interface Format {
  /** What begins the calls of an answer; special tokens in some models. */
  readonly marks: readonly string[];
  /** Whether an answer that begins with a brace is a call. */
  readonly isBare: boolean;
  /** Whether a message has one call at most. */
  readonly isSingle: boolean;
  /** The answer in a text. */
  read(text: string): Answer;
}

/** A call with what is wrong with it. */
function wrong(name: string, problem: string): Call {
  return { name, args: {}, problem };
}

/** The value of JSON; undefined if it is none. */
function parsed(text: string): { readonly value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) };
  } catch {
    return undefined;
  }
}

/** A call as an object with a name and arguments, which may be a text of JSON. */
function callOf(given: unknown): Call {
  const { name, arguments: args, parameters = args ?? {} } = objectOf(given);
  if (typeof name !== "string") return wrong("", "the call has no name");
  const value = typeof parameters === "string" ? parsed(parameters)?.value : parameters;
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    return wrong(name, "the arguments are not an object");
  }
  return { name, args: objectOf(value) };
}

/** The calls in JSON: an object or an array of them. */
function callsIn(text: string): readonly Call[] {
  const found = parsed(text.trim());
  if (found === undefined) return [wrong("", "the call is not JSON")];
  return Array.isArray(found.value) ? found.value.map(callOf) : [callOf(found.value)];
}

/** Cuts JSON values that follow each other, perhaps with marks between. */
function valuesIn(text: string): string[] {
  const values: string[] = [];
  let depth = 0, start = 0, isText = false;
  for (let i = 0; i < text.length; i++) {
    const char = text[i];
    if (isText) {
      if (char === "\\") i++;
      else if (char === '"') isText = false;
    } else if (char === '"') isText = true;
    else if (char === "{" || char === "[") {
      if (depth++ === 0) start = i;
    } else if ((char === "}" || char === "]") && --depth <= 0) {
      depth = 0;
      values.push(text.slice(start, i + 1));
    }
  }
  return values;
}

/** The formats of families. */
const FORMATS: readonly Format[] = [
  {
    // Hermes, Qwen, Granite: <tool_call>{"name": …, "arguments": …}</tool_call>
    marks: ["<tool_call>"],
    ...{ isBare: false, isSingle: false },
    read(text) {
      const [before = "", ...parts] = text.split("<tool_call>");
      const calls = parts.flatMap((part) => callsIn(part.split("</tool_call>")[0]!));
      return { text: before, calls };
    },
  },
  {
    // Mistral: [TOOL_CALLS][{"name": …, "arguments": …}] or [TOOL_CALLS]name[ARGS]{…}
    marks: ["[TOOL_CALLS]"],
    ...{ isBare: false, isSingle: false },
    read(text) {
      const [before = "", ...parts] = text.split("[TOOL_CALLS]");
      const calls = parts.flatMap((part) => {
        const [, name, args] = /^\s*([\w.-]+)(?:\[CALL_ID\][^[{]*)?(?:\[ARGS\])?\s*(\{[^]*)$/
          .exec(part) ?? [];
        if (name === undefined) return callsIn(part);
        const value = parsed(args!.trim());
        return [
          value === undefined
            ? wrong(name, "the arguments are not JSON")
            : callOf({ name, arguments: value.value }),
        ];
      });
      return { text: before, calls };
    },
  },
  {
    // Llama 3: {"name": …, "parameters": …}, which may follow <|python_tag|>
    marks: ["<|python_tag|>"],
    ...{ isBare: true, isSingle: true },
    read(text) {
      const [before = "", ...parts] = text.split("<|python_tag|>");
      const body = parts.length > 0
        ? parts.join("")
        : before.trimStart().startsWith("{")
        ? before
        : "";
      const calls = valuesIn(body).flatMap(callsIn);
      // Another object is an answer in JSON.
      const isCall = parts.length > 0 || calls.some(({ name }) => name !== "");
      return isCall ? { text: parts.length > 0 ? before : "", calls } : { text, calls: [] };
    },
  },
];

/**
 * The format in which a template writes the call of a function; undefined if it is not known, or if the
 * template has no functions.
 */
function formatOf(
  render: ChatTemplate,
  name: string,
  specs: readonly unknown[],
): Format | undefined {
  const args = { probe: "1" };
  const call = { id: newId(), type: "function", function: { name, arguments: args } };
  const question = { role: "user", content: "?" };
  const answer = { role: "assistant", content: "", tool_calls: [call] };
  const { value } = attempt(() =>
    [[question], [question, answer]].map((messages) =>
      render(messages, { variables: { tools: specs } })
    )
  );
  const [before, whole] = value ?? [];
  if (before === undefined || whole === undefined || !before.includes(name)) return undefined;
  let same = 0;
  while (same < before.length && before[same] === whole[same]) same++;
  // Not within a mark, as after <t of <think> and <tool_call>.
  const open = same > 0 ? before.lastIndexOf("<", same - 1) : -1;
  if (open >= 0 && !before.slice(open, same).includes(">")) same = open;
  // Without what ends an answer.
  const end = Math.max(whole.lastIndexOf("}"), whole.lastIndexOf("]")) + 1;
  const text = whole.slice(same, end);
  return FORMATS.find(({ read }) => {
    const [first, ...more] = read(text).calls;
    return more.length === 0 && first?.name === name && isSame(first.args, args);
  });
}

const ID_CHARS = "abcdefghijklmnopqrstuvwxyz0123456789";

/** The name of a call, of nine letters and digits as Mistral's templates need it. */
function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(9));
  return Array.from(bytes, (byte) => ID_CHARS[byte % ID_CHARS.length]!).join("");
}

/** The functions of a turn. */
export class ToolKit {
  /** What templates take as `tools`. */
  readonly specs: readonly unknown[];
  readonly #tools: ReadonlyMap<string, Tool>;
  readonly #format: Format;

  /**
   * Checks functions, and how the template of a model writes calls of them.
   *
   * @throws {ArgumentError} For functions that are none, for two of one name, and for a template
   *   without functions or with calls of a kind that is not known.
   */
  constructor(tools: unknown, template: ChatTemplate) {
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
    const format = formatOf(template, list[0]!.name, this.specs);
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
    const { marks, isBare } = this.#format;
    if (isBare && /^\s*(\{|$)/.test(text)) return 0;
    let end = text.length;
    for (const mark of marks) {
      const at = text.indexOf(mark);
      if (at >= 0) return Math.min(end, at);
      for (let size = Math.min(mark.length - 1, text.length); size > 0; size--) {
        if (!text.endsWith(mark.slice(0, size))) continue;
        end = Math.min(end, text.length - size);
        break;
      }
    }
    return end;
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
    const calls = answer.calls.map((call) => ({ ...call, id: newId() }));
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

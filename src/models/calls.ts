/**
 * Calls of functions in the answers of models, as their families write them.
 *
 * @module
 */
import { attempt } from "../base/errors.ts";
import { isSame } from "../constraints/values.ts";
import { objectOf } from "../llm/config/reader.ts";
import type { ChatTemplate } from "../tokenizers/mod.ts";

/** A call in an answer: with arguments, or with what is wrong with it. */
export interface Call {
  readonly name: string;
  readonly args: Readonly<Record<string, unknown>>;
  readonly problem?: string | undefined;
}

/** An answer: its text, and the calls in it. */
export interface Answer {
  readonly text: string;
  readonly calls: readonly Call[];
}

/** A function as templates of chats take it. */
export interface ToolSpec {
  readonly type: "function";
  readonly function: {
    readonly name: string;
    readonly description?: string | undefined;
    /** A JSON Schema of an object. */
    readonly parameters: Readonly<Record<string, unknown>>;
  };
}

/** How models of some families write calls. */
export interface CallFormat {
  /** What begins the calls of an answer; special tokens in some models. */
  readonly marks: readonly string[];
  /** Whether an answer that begins with a brace is a call. */
  readonly isBare: boolean;
  /** Whether a message has one call at most. */
  readonly isSingle: boolean;
  /** What a model is made to write before the JSON of a call, and the names of its arguments there. */
  readonly forced: { readonly prefix: string; readonly args: string; readonly isArray: boolean };
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
const FORMATS: readonly CallFormat[] = [
  {
    // Hermes, Qwen, Granite: <tool_call>{"name": …, "arguments": …}</tool_call>
    marks: ["<tool_call>"],
    ...{ isBare: false, isSingle: false },
    forced: { prefix: "<tool_call>\n", args: "arguments", isArray: false },
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
    forced: { prefix: "[TOOL_CALLS]", args: "arguments", isArray: true },
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
    forced: { prefix: "", args: "parameters", isArray: false },
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

const ID_CHARS = "abcdefghijklmnopqrstuvwxyz0123456789";

/** The id of a call, of nine letters and digits as Mistral's templates need it. */
export function newCallId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(9));
  return Array.from(bytes, (byte) => ID_CHARS[byte % ID_CHARS.length]!).join("");
}

/** The function whose call a template is asked to write. */
const PROBE: ToolSpec = {
  type: "function",
  function: {
    name: "probe_function",
    description: "",
    parameters: { type: "object", properties: { probe: { type: "string" } } },
  },
};

/**
 * The format in which a template writes calls of functions; undefined if it is not known, or if the
 * template has no functions.
 */
export function callFormatOf(render: ChatTemplate): CallFormat | undefined {
  const { name } = PROBE.function;
  const args = { probe: "1" };
  const call = { id: newCallId(), type: "function", function: { name, arguments: args } };
  const question = { role: "user", content: "?" };
  const answer = { role: "assistant", content: "", tool_calls: [call] };
  const { value } = attempt(() =>
    [[question], [question, answer]].map((messages) =>
      render(messages, { variables: { tools: [PROBE] } })
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

/** How much of a text is no call, nor the beginning of one. */
export function shownLength({ marks, isBare }: CallFormat, text: string): number {
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

/** A schema within another one: references are to places of the whole. */
function within(schema: unknown, place: string): unknown {
  if (Array.isArray(schema)) return schema.map((one) => within(one, place));
  if (typeof schema !== "object" || schema === null) return schema;
  return Object.fromEntries(
    Object.entries(schema).map(([key, value]) => [
      key,
      key === "$ref" && typeof value === "string" && value.startsWith("#")
        ? `#${place}${value.slice(1)}`
        : within(value, place),
    ]),
  );
}

/**
 * A JSON Schema of what follows `forced.prefix`: a call of one of some functions, or several calls if
 * the format has lists of them.
 */
export function callSchema(
  { forced: { args, isArray } }: CallFormat,
  tools: readonly ToolSpec[],
  isMany: boolean,
): Readonly<Record<string, unknown>> {
  const start = isArray ? "/items" : "";
  const one = tools.map(({ function: { name, parameters } }, i) => {
    const place = `${start}${tools.length === 1 ? "" : `/anyOf/${i}`}/properties/${args}`;
    return {
      type: "object",
      properties: { name: { const: name }, [args]: within(parameters, place) },
      required: ["name", args],
      additionalProperties: false,
    };
  });
  const call = one.length === 1 ? one[0]! : { anyOf: one };
  return isArray ? { type: "array", items: call, minItems: 1, maxItems: isMany ? 16 : 1 } : call;
}

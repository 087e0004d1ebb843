/**
 * The messages of a chat as clients send them, and as templates take them.
 *
 * @module
 */
import type { Message } from "../../tokenizers/mod.ts";
import { isTooDeep } from "../http/service.ts";
import type { Field, Fields } from "./fields.ts";
import { isObject } from "./fields.ts";
import { MOST_PARTS } from "./limits.ts";

const ROLES = ["system", "developer", "user", "assistant", "tool", "function"] as const;

/** A call in a message of the model. */
interface CallEntry {
  readonly id: string;
  readonly type: "function";
  readonly function: { readonly name: string; readonly arguments: unknown };
}

/** The text of a message: a text, or parts that are texts. */
function contentOf(field: Field, isOptional: boolean): string {
  const { value } = field;
  if (typeof value === "string") return value;
  if (value === undefined && isOptional) return "";
  if (!Array.isArray(value)) return field.fail("a text, or a list of parts with texts");
  return field.list(MOST_PARTS)!.map((part) => {
    const parts = part.fields() ?? part.fail("an object with a type and a text");
    const type = parts.need("type");
    if (type.value === "text" || type.value === "refusal") {
      return parts.need(String(type.value)).text()!;
    }
    return type.refuse("this model takes texts only");
  }).join("");
}

/** The arguments of a call: templates take values, and clients send texts of JSON. */
function argumentsOf(field: Field): unknown {
  const text = field.text() ?? "{}";
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) && !isTooDeep(value) ? value : text;
  } catch {
    return text;
  }
}

function callsOf(field: Field): readonly CallEntry[] | undefined {
  return field.list(MOST_PARTS)?.map((one) => {
    const call = one.fields() ?? one.fail("an object");
    const type = call.get("type");
    if (type.oneOf(["function"]) === undefined && type.value !== undefined) type.fail("function");
    const called = call.need("function").fields()!;
    return {
      id: call.need("id").text(256)!,
      type: "function",
      function: {
        name: called.need("name").text(256)!,
        arguments: argumentsOf(called.get("arguments")),
      },
    };
  });
}

/** What templates differ in. */
export interface MessageStyle {
  /** Whether the template knows the role `developer`, which is `system` elsewhere. */
  readonly hasDeveloper: boolean;
  /** Whether a message has one call at most. */
  readonly isSingle: boolean;
}

/** The messages of a request. */
export function messagesOf(
  body: Fields,
  most: number,
  { hasDeveloper, isSingle }: MessageStyle,
): Message[] {
  const names = new Map<string, string>();
  const messages: Message[] = [];
  for (const field of body.need("messages").list(most, 1)!) {
    const given = field.fields() ?? field.fail("an object with a role and a content");
    const role = given.need("role").oneOf(ROLES)!;
    const calls = role === "assistant" ? callsOf(given.get("tool_calls")) : undefined;
    const content = contentOf(given.get("content"), role === "assistant");
    const name = given.get("name").text(256);
    const reasoning = given.get("reasoning_content").text();
    for (const { id, function: { name } } of calls ?? []) names.set(id, name);
    const id = role === "tool" ? given.need("tool_call_id").text(256)! : undefined;
    const called = name ?? (id === undefined ? undefined : names.get(id));
    messages.push({
      role: role === "developer" && !hasDeveloper ? "system" : role,
      content,
      ...called !== undefined && { name: called },
      ...id !== undefined && { tool_call_id: id },
      ...calls !== undefined && calls.length > 0 && { tool_calls: calls },
      ...reasoning !== undefined && { reasoning_content: reasoning },
    });
  }
  return isSingle ? singles(messages) : messages;
}

/** Messages with several calls as several messages, each before the result of its call. */
function singles(messages: readonly Message[]): Message[] {
  const callsOf = ({ tool_calls: calls }: Message): readonly CallEntry[] =>
    Array.isArray(calls) ? calls : [];
  const parallel = new Set(
    messages.map(callsOf).flatMap((calls) => calls.length > 1 ? calls.map(({ id }) => id) : []),
  );
  const results = new Map<unknown, Message[]>();
  for (const message of messages) {
    const { role, tool_call_id: id } = message;
    if (role !== "tool" || typeof id !== "string" || !parallel.has(id)) continue;
    results.set(id, [...results.get(id) ?? [], message]);
  }
  return messages.flatMap((message) => {
    const { role, tool_call_id: id } = message;
    // A result of one of several calls is beside its call.
    if (role === "tool" && results.has(id)) return [];
    const calls = callsOf(message);
    if (calls.length < 2) return [message];
    return calls.flatMap((call, i) => {
      const own = results.get(call.id) ?? [];
      results.set(call.id, []);
      return [{ ...message, content: i === 0 ? message.content : "", tool_calls: [call] }, ...own];
    });
  });
}

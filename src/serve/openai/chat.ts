/**
 * Answers of chats: `/v1/chat/completions`.
 *
 * @module
 */
import { ArgumentError, FormatError } from "../../base/errors.ts";
import { callSchema, newCallId, type ToolSpec } from "../../models/calls.ts";
import type { Message } from "../../tokenizers/mod.ts";
import { badRequest } from "../http/http_error.ts";
import { type Incoming, json } from "../http/service.ts";
import { wantedOf } from "./constraints.ts";
import type { Field, Fields } from "./fields.ts";
import { MOST_SCHEMA, MOST_TOOLS, type OpenAILimits } from "./limits.ts";
import { chatLogprobs } from "./logprobs.ts";
import { messagesOf } from "./messages.ts";
import { samplingOf } from "./sampling.ts";
import { eventStream } from "./sse.ts";
import {
  type Ending,
  type Piece,
  type TextModel,
  type TextPlan,
  together,
  type Work,
  workOf,
} from "./text_model.ts";

/** A chat that is asked for. */
interface ChatRequest {
  readonly model: TextModel;
  readonly plan: TextPlan;
  readonly choices: number;
  readonly hasLogprobs: boolean;
  readonly id: string;
  readonly created: number;
}

/** The functions of a request. */
function toolsOf(field: Field): readonly ToolSpec[] {
  const tools = field.list(MOST_TOOLS)?.map((one): ToolSpec => {
    const given = one.fields() ?? one.fail("an object with a type and a function");
    const type = given.need("type");
    if (type.value !== "function") type.refuse("tools are functions");
    const f = given.need("function").fields()!;
    const name = f.need("name");
    if (!/^[\w.-]{1,64}$/.test(name.text()!)) {
      name.fail("a text of 1 to 64 letters, digits, _, - and .");
    }
    const description = f.get("description").text() ?? "";
    const parameters = f.get("parameters").fields()?.value ?? { type: "object", properties: {} };
    f.get("strict").flag();
    return { type: "function", function: { name: name.text()!, description, parameters } };
  }) ?? [];
  if (new Set(tools.map(({ function: { name } }) => name)).size < tools.length) {
    field.fail("a list of functions with different names");
  }
  if (JSON.stringify(tools).length > MOST_SCHEMA) {
    field.fail(`a list of at most ${MOST_SCHEMA} characters of JSON`);
  }
  return tools;
}

/** Which of the functions the model may call, and whether it has to. */
function choiceOf(
  field: Field,
  tools: readonly ToolSpec[],
): { readonly tools: readonly ToolSpec[]; readonly isForced: boolean } {
  const { value } = field;
  if (typeof value === "object" && value !== null) {
    const given = field.fields()!;
    const type = given.need("type");
    if (type.value !== "function") type.refuse("it names a function");
    const name = given.need("function").fields()!.need("name");
    const chosen = tools.filter((one) => one.function.name === name.text());
    return chosen.length > 0 ? { tools: chosen, isForced: true } : name.fail("one of the tools");
  }
  const choice = field.oneOf(["auto", "none", "required"]) ?? "auto";
  if (choice === "required" && tools.length === 0) field.fail("required only with tools");
  return { tools: choice === "none" ? [] : tools, isForced: choice === "required" };
}

/** The tokens of messages. What the template refuses is the client's error. */
async function promptOf(
  model: TextModel,
  messages: readonly Message[],
  variables: Readonly<Record<string, unknown>>,
  signal: AbortSignal,
): Promise<number[]> {
  try {
    return await model.format.encode(messages, variables, signal);
  } catch (error) {
    if (error instanceof ArgumentError) throw badRequest(error.message, "messages");
    if (error instanceof FormatError) {
      throw badRequest("The chat template of this model does not take these messages", "messages");
    }
    throw error;
  }
}

async function requestOf(
  body: Fields,
  model: TextModel,
  limits: OpenAILimits,
  work: Work,
): Promise<ChatRequest> {
  const { format, tokenizer, engine } = model;
  for (const name of ["functions", "function_call"]) {
    if (body.get(name).value !== undefined) body.get(name).refuse("use tools and tool_choice");
  }
  for (const one of body.get("modalities").list(8) ?? []) {
    if (one.value !== "text") one.refuse("answers are texts");
  }
  for (const name of ["audio", "web_search_options"]) {
    if (body.get(name).value !== undefined) body.get(name).refuse("answers are texts of the model");
  }
  const given = toolsOf(body.get("tools"));
  const { tools, isForced } = choiceOf(body.get("tool_choice"), given);
  const isMany = body.get("parallel_tool_calls").flag() ?? true;
  const calls = tools.length > 0 ? format.calls : undefined;
  if (tools.length > 0 && calls === undefined) {
    body.get("tools").refuse("the template of this model has no functions of a known form");
  }
  const asked = body.get("response_format");
  const wanted = wantedOf(asked);
  if (wanted !== undefined && calls !== undefined) {
    asked.refuse("an answer with a format calls no functions; leave tools out, or choose none");
  }
  const choices = body.get("n").integer(1, limits.choices) ?? 1;
  const hasLogprobs = body.get("logprobs").flag() ?? false;
  const top = body.get("top_logprobs");
  const count = top.integer(0, 20);
  if (count !== undefined && !hasLogprobs) top.fail("only with logprobs: true");
  const most = body.get("max_completion_tokens", "max_tokens").integer(1);
  const options = samplingOf(body, engine.model.config.vocabulary);
  const seed = body.get("seed").integer(Number.MIN_SAFE_INTEGER);
  const messages = messagesOf(body, limits.messages, {
    hasDeveloper: tokenizer.chatTemplate?.includes("developer") ?? false,
    isSingle: format.calls?.isSingle ?? false,
  });
  const characters = messages.reduce((sum, { content }) => sum + String(content).length, 0);
  model.checkLength(characters, "messages");
  const variables = {
    ...body.get("chat_template_kwargs").fields()?.value,
    ...tools.length > 0 && { tools },
  };
  const prompt = await promptOf(model, messages, variables, work.incoming.signal);
  const begun = isForced ? calls?.forced.prefix : undefined;
  const ids = begun === undefined
    ? prompt
    : [...prompt, ...await format.encodeText(begun === "" ? [] : [begun], work.incoming.signal)];
  model.checkPrompt(ids, "messages");
  const kept = isForced ? { schema: callSchema(calls!, tools, isMany), place: "tools" } : wanted;
  await model.prepare(kept);
  model.notePrompt(work, ids);
  return {
    ...{ model, choices, hasLogprobs },
    plan: {
      ...{ ids, seed, begun, calls, wanted: kept },
      mostCalls: isMany ? undefined : 1,
      options: {
        ...options,
        maxTokens: Math.min(most ?? limits.tokens, limits.tokens),
        logprobs: hasLogprobs ? count ?? 0 : undefined,
      },
    },
    id: `chatcmpl-${crypto.randomUUID().replaceAll("-", "")}`,
    created: Math.floor(Date.now() / 1000),
  };
}

/** The numbers of tokens, as every client expects them. */
export function usageOf({ counts: { promptTokens, completionTokens, cachedTokens } }: Work) {
  return {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
    prompt_tokens_details: { cached_tokens: cachedTokens },
  };
}

/** The calls of an answer, which get their ids here. */
function callEntries({ calls }: Ending) {
  return calls.map(({ name, args }) => ({
    id: `call_${newCallId()}`,
    type: "function" as const,
    function: { name, arguments: JSON.stringify(args) },
  }));
}

/** The parts of a streamed answer. */
async function* chunksOf(
  { model, plan, choices, hasLogprobs, id, created }: ChatRequest,
  work: Work,
  withUsage: boolean,
): AsyncGenerator<unknown, void> {
  const chunk = (rest: object) => ({
    ...{ id, object: "chat.completion.chunk", created, model: model.name },
    ...rest,
    ...withUsage && !("usage" in rest) && { usage: null },
  });
  const choice = (
    index: number,
    delta: object,
    { tokens = [], reason = null }: { tokens?: Piece["tokens"]; reason?: Ending["reason"] | null } =
      {},
  ) => {
    const content = hasLogprobs ? chatLogprobs(model.tokenizer, tokens) : [];
    return chunk({
      choices: [{
        ...{ index, delta },
        logprobs: content.length > 0 ? { content, refusal: null } : null,
        finish_reason: reason,
      }],
    });
  };
  const begun = new Set<number>();
  try {
    for await (const part of together([{ plan, choices }], model, work)) {
      const { index } = part;
      if (!begun.has(index)) yield choice(index, { role: "assistant", content: "" });
      begun.add(index);
      if ("piece" in part) {
        const { text, tokens } = part.piece;
        if (text !== "" || hasLogprobs) yield choice(index, { content: text }, { tokens });
        continue;
      }
      for (
        const [i, { function: { name, arguments: args }, ...call }] of callEntries(part.end)
          .entries()
      ) {
        const start = { index: i, ...call, function: { name, arguments: "" } };
        yield choice(index, { tool_calls: [start] });
        yield choice(index, { tool_calls: [{ index: i, function: { arguments: args } }] });
      }
      yield choice(index, {}, { reason: part.end.reason });
    }
    if (withUsage) yield chunk({ choices: [], usage: usageOf(work) });
  } finally {
    work.incoming.note(work.counts);
  }
}

/** The whole answer. */
async function answerOf(
  { model, plan, choices, hasLogprobs, id, created }: ChatRequest,
  work: Work,
): Promise<unknown> {
  const made = Array.from({ length: choices }, () => ({
    text: "",
    tokens: [] as Piece["tokens"][number][],
    end: { reason: "stop", calls: [] } as Ending,
  }));
  try {
    for await (const part of together([{ plan, choices }], model, work)) {
      const one = made[part.index]!;
      if ("end" in part) one.end = part.end;
      else {
        one.text += part.piece.text;
        if (hasLogprobs) one.tokens.push(...part.piece.tokens);
      }
    }
  } finally {
    work.incoming.note(work.counts);
  }
  return {
    ...{ id, object: "chat.completion", created, model: model.name },
    choices: made.map(({ text, tokens, end }, index) => {
      const calls = callEntries(end);
      const content = calls.length > 0 ? text.trimEnd() || null : text;
      return {
        index,
        message: {
          ...{ role: "assistant", content, refusal: null },
          ...calls.length > 0 && { tool_calls: calls },
        },
        logprobs: hasLogprobs
          ? { content: chatLogprobs(model.tokenizer, tokens), refusal: null }
          : null,
        finish_reason: end.reason,
      };
    }),
    usage: usageOf(work),
  };
}

/** Answers `/v1/chat/completions`. */
export async function chatCompletion(
  body: Fields,
  model: TextModel,
  limits: OpenAILimits,
  incoming: Incoming,
): Promise<Response> {
  const work = workOf(incoming);
  incoming.note({ model: model.name });
  const isStream = body.get("stream").flag() ?? false;
  const streamOptions = body.get("stream_options").fields();
  const withUsage = streamOptions?.get("include_usage").flag() ?? false;
  const request = await requestOf(body, model, limits, work);
  if (!isStream) return json(await answerOf(request, work));
  return await eventStream(incoming, chunksOf(request, work, withUsage));
}

/**
 * The unmodified client `openai` of npm against a server: models, chats, streams with usage, functions,
 * schemas, completions, embeddings, ranks, ends that the client makes, and errors.
 *
 * @module
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { after, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import OpenAI from "openai";
import { type Child, startServer } from "./clients_child.ts";
import { writeModels } from "./clients_models.ts";

const KEY = "sk-clients";
const paths = writeModels();
const server: Child = await startServer({
  ...{ ...paths, context: 4200, slots: 4, keys: [KEY], metrics: true },
});
after(() => server.end());
const clientOf = (apiKey: string): OpenAI =>
  new OpenAI({ apiKey, baseURL: `${server.url}/v1`, maxRetries: 0 });
const client = clientOf(KEY);
const messages = [
  { role: "system" as const, content: "Be short." },
  { role: "user" as const, content: "Who is it?" },
];
const CHAT = { model: "chat", messages, max_tokens: 12, seed: 1 };
const parameters = {
  type: "object",
  properties: { city: { type: "string", maxLength: 6 }, days: { type: "integer" } },
  required: ["city", "days"],
  additionalProperties: false,
};
const WEATHER = {
  type: "function" as const,
  function: { name: "weather", description: "The weather of a city", parameters },
};
/** A token that ends texts is forbidden, so that an answer has all of its tokens. */
const ENDLESS = { logit_bias: { 1: -100 } };

test("openai: the models", async () => {
  const ids: string[] = [];
  for await (const { id, object } of client.models.list()) {
    assertEquals(object, "model");
    ids.push(id);
  }
  assertEquals(ids.toSorted(), ["chat", "embeddings", "rerank"]);
  assertEquals((await client.models.retrieve("chat")).id, "chat");
  await assertRejects(() => client.models.retrieve("none"), OpenAI.NotFoundError);
});

test("openai: a chat, and the same streamed with its usage", async () => {
  const whole = await client.chat.completions.create({ ...CHAT, ...ENDLESS });
  const { message, finish_reason } = whole.choices[0]!;
  assertEquals([message.role, finish_reason], ["assistant", "length"]);
  assertEquals(whole.usage!.completion_tokens, 12);

  const stream = await client.chat.completions.create({
    ...{ ...CHAT, ...ENDLESS, stream: true, stream_options: { include_usage: true } },
  });
  let text = "", usage: OpenAI.CompletionUsage | null | undefined;
  const ends: unknown[] = [];
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta.content ?? "";
    if (chunk.choices[0]?.finish_reason) ends.push(chunk.choices[0].finish_reason);
    if (chunk.usage) usage = chunk.usage;
  }
  assertEquals([text, ends], [message.content, ["length"]]);
  assertEquals(
    [usage!.prompt_tokens, usage!.completion_tokens],
    [whole.usage!.prompt_tokens, whole.usage!.completion_tokens],
  );

  // The helper that collects a stream, and follows its events.
  const runner = client.chat.completions.stream({ ...CHAT, ...ENDLESS });
  let seen = "";
  runner.on("content", (part) => seen += part);
  assertEquals((await runner.finalMessage()).content, message.content);
  assertEquals(seen, message.content);
});

test("openai: several answers, stop texts and logprobs", async () => {
  const { choices } = await client.chat.completions.create({
    ...{ ...CHAT, n: 3, temperature: 1, logprobs: true, top_logprobs: 2 },
  });
  assertEquals(choices.map(({ index }) => index), [0, 1, 2]);
  assert(new Set(choices.map(({ message }) => message.content)).size > 1);
  for (const { logprobs } of choices) {
    assert(logprobs!.content!.every(({ logprob, top_logprobs: top }) => {
      return logprob <= 0 && top.length === 2;
    }));
  }
  const whole = await client.chat.completions.create({ ...CHAT, ...ENDLESS, temperature: 0 });
  const text = whole.choices[0]!.message.content!;
  const letter = [...text].find((one) => /[a-z]/.test(one))!;
  const ended = await client.chat.completions.create({
    ...{ ...CHAT, ...ENDLESS, temperature: 0, stop: [letter] },
  });
  assertEquals(ended.choices[0]!.finish_reason, "stop");
  assertEquals(ended.choices[0]!.message.content, text.slice(0, text.indexOf(letter)));
});

test("openai: the call of a function, its result, and a streamed call", async () => {
  const body = {
    ...{ ...CHAT, max_tokens: 120, tools: [WEATHER], tool_choice: "required" as const },
  };
  const { choices: [choice] } = await client.chat.completions.create(body);
  assertEquals(choice!.finish_reason, "tool_calls");
  const call = choice!.message.tool_calls![0]!;
  assert(call.type === "function");
  assertEquals(call.function.name, "weather");
  const args = JSON.parse(call.function.arguments);
  assertEquals(Object.keys(args), ["city", "days"]);
  assert(typeof args.city === "string" && Number.isInteger(args.days));

  const next = await client.chat.completions.create({
    ...{ ...CHAT, tools: [WEATHER], tool_choice: "none" },
    messages: [
      ...messages,
      choice!.message,
      { role: "tool", tool_call_id: call.id, content: "20 degrees" },
    ],
  });
  assertEquals(next.choices[0]!.message.tool_calls, undefined);
  assert(next.usage!.prompt_tokens > 40);

  const streamed = client.chat.completions.stream(body);
  const { tool_calls: calls } = await streamed.finalMessage();
  const first = calls![0]!;
  assert(first.type === "function" && first.function.name === "weather" && first.id !== "");
  assertEquals(JSON.parse(first.function.arguments), args);
});

test("openai: answers of a schema", async () => {
  const schema = {
    type: "object",
    properties: { ok: { type: "boolean" }, level: { enum: ["low", "high"] } },
    required: ["ok", "level"],
    additionalProperties: false,
  };
  const body = {
    ...CHAT,
    max_tokens: 60,
    response_format: {
      type: "json_schema" as const,
      json_schema: { name: "state", strict: true, schema },
    },
  };
  const { choices: [choice] } = await client.chat.completions.create(body);
  const value = JSON.parse(choice!.message.content!);
  assertEquals(choice!.finish_reason, "stop");
  assertEquals(Object.keys(value), ["ok", "level"]);
  assert(typeof value.ok === "boolean" && ["low", "high"].includes(value.level));
  const parsed = await client.chat.completions.parse(body);
  assertEquals(parsed.choices[0]!.message.parsed, value);
});

test("openai: a completion, and the same streamed", async () => {
  const body = { model: "chat", prompt: "Once upon", max_tokens: 10, seed: 3, ...ENDLESS };
  const { choices, usage } = await client.completions.create(body);
  assertEquals([choices[0]!.finish_reason, usage!.completion_tokens], ["length", 10]);
  let text = "";
  for await (const chunk of await client.completions.create({ ...body, stream: true })) {
    text += chunk.choices[0]?.text ?? "";
  }
  assertEquals(text, choices[0]!.text);
});

test("openai: embeddings, in base64 as the client asks, in numbers, and shorter", async () => {
  const input = ["w1 w2", "w3"];
  // Without a format, the client asks for base64 and decodes it.
  const { data, usage } = await client.embeddings.create({ model: "embeddings", input });
  const numbers = await client.embeddings.create({
    ...{ model: "embeddings", input, encoding_format: "float" },
  });
  assertEquals(data.map(({ index }) => index), [0, 1]);
  assert(usage.prompt_tokens > 2);
  for (const [i, { embedding }] of numbers.data.entries()) {
    assert(Math.abs(Math.hypot(...embedding) - 1) < 1e-4);
    embedding.forEach((value, k) => assert(Math.abs(value - data[i]!.embedding[k]!) < 1e-6));
  }
  const short = await client.embeddings.create({ model: "embeddings", input, dimensions: 8 });
  assertEquals(short.data.map(({ embedding }) => embedding.length), [8, 8]);
  const { results } = await client.post<{ results: { index: number }[] }>("/rerank", {
    body: { model: "rerank", query: "w1", documents: ["w2", "w3 w4", "w5"], top_n: 2 },
  });
  assertEquals(results.length, 2);
});

test("openai: the client ends a stream, and its slot is free", async () => {
  const before = (await server.stats()).cancelled;
  const controller = new AbortController();
  const stream = await client.chat.completions.create(
    { ...CHAT, ...ENDLESS, max_tokens: 4000, stream: true },
    { signal: controller.signal },
  );
  let parts = 0;
  for await (const _ of stream) if (++parts === 3) controller.abort();
  assert(parts < 3000);
  let stats = await server.stats();
  for (let i = 0; i < 200 && stats.cancelled === before; i++) {
    await delay(5);
    stats = await server.stats();
  }
  assertEquals([stats.active, stats.cancelled, stats.inFlight], [0, before + 1, 0]);
  await assertRejects(
    () => client.chat.completions.create(CHAT, { signal: AbortSignal.abort() }),
    OpenAI.APIUserAbortError,
  );
});

test("openai: errors are those of its classes, with the parameter", async () => {
  const create = (changes: object) => client.chat.completions.create({ ...CHAT, ...changes });
  const missing = await assertRejects(() => create({ model: "none" }), OpenAI.NotFoundError);
  assertEquals([missing.code, missing.type], ["model_not_found", "not_found_error"]);
  const bad = await assertRejects(() => create({ temperature: 9 }), OpenAI.BadRequestError);
  assertEquals(bad.param, "temperature");
  const long = { messages: [{ role: "user", content: "long ".repeat(5000) }] };
  const full = await assertRejects(() => create(long), OpenAI.BadRequestError);
  assertEquals(full.code, "context_length_exceeded");
  await assertRejects(() => create({ ...long, stream: true }), OpenAI.BadRequestError);
  const other = clientOf("sk-wrong");
  const refused = await assertRejects(
    () => other.chat.completions.create(CHAT),
    OpenAI.AuthenticationError,
  );
  assertEquals(refused.code, "invalid_api_key");
  await assertRejects(
    () => client.embeddings.create({ model: "embeddings", input: [] }),
    OpenAI.BadRequestError,
  );
  await assertRejects(() => client.post("/nothing", { body: {} }), OpenAI.NotFoundError);
});

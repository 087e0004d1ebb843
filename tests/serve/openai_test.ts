/**
 * OpenAI's API: chats, completions, embeddings and ranks, by small models.
 *
 * @module
 */
import { assert, assertAlmostEquals, assertEquals, assertThrows } from "@std/assert";
import { Buffer } from "node:buffer";
import { after, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import * as prom from "prom-client";
import { ArgumentError } from "../../mod.ts";
import type { Chat } from "../../src/models/mod.ts";
import { openai, type OpenAIOptions, type Service } from "../../src/serve/mod.ts";
import { type Any, loose } from "../support.ts";
import { amount } from "../support/amount.ts";
import { amountIn, runsHere } from "../support/engine.ts";
import { openChat, openEmbedder, openReranker, saying, type TEMPLATES } from "./models.ts";

const chat = await openChat();
const embeddings = await openEmbedder();
const rerank = await openReranker();
const service = openai({ chat: { tiny: chat }, embeddings: { "org/vectors": embeddings }, rerank });
after(() => {
  for (const one of [service, chat, embeddings, rerank]) one.dispose();
});

const USER = [{ role: "user", content: "Name a colour." }];
const GREEDY = { model: "tiny", messages: USER, temperature: 0, max_tokens: 8 };

function request(path: string, body?: unknown, more: RequestInit = {}): Request {
  return new Request(`http://localhost${path}`, {
    ...body !== undefined && {
      method: "POST",
      body: typeof body === "string" ? body : JSON.stringify(body),
      headers: { "content-type": "application/json" },
    },
    ...more,
  });
}

/** The status and the JSON of an answer. */
async function ask(path: string, body?: unknown, of: Service = service): Promise<[number, Any]> {
  const response = await of.fetch(request(path, body));
  return [response.status, await response.json()];
}

async function ok(path: string, body: unknown, of?: Service): Promise<Any> {
  const [status, answer] = await ask(path, body, of);
  assertEquals(status, 200, JSON.stringify(answer));
  return answer;
}

const complete = (body: object, of?: Service): Promise<Any> =>
  ok("/v1/chat/completions", { ...GREEDY, ...body }, of);

/** The events of a stream, which ends as it should. */
async function eventsOf(response: Response): Promise<Any[]> {
  assertEquals(response.status, 200);
  assert(response.headers.get("content-type")!.startsWith("text/event-stream"));
  const events = (await response.text()).split("\n\n").filter((event) => !event.startsWith(":"));
  assertEquals(events.slice(-2), ["data: [DONE]", ""]);
  return events.slice(0, -2).map((event) => JSON.parse(event.slice("data: ".length)));
}

async function stream(body: object, of: Service = service): Promise<Any[]> {
  const given = { ...GREEDY, stream: true, ...body };
  return await eventsOf(await of.fetch(request("/v1/chat/completions", given)));
}

/** A service with other options, and what it knows of its model. */
function other(options: OpenAIOptions, of: Chat = chat) {
  const service = openai({ chat: { tiny: of } }, options);
  return {
    service,
    stats: (): Any => loose(service.stats)["models"].tiny,
    [Symbol.dispose]: () => service.dispose(),
  };
}

test("models are listed with their names, and are found by them", async () => {
  const [status, { object, data }] = await ask("/v1/models");
  assertEquals([status, object], [200, "list"]);
  assertEquals(data.map(({ id }: Any) => id), ["tiny", "org/vectors", "model"]);
  for (const path of ["/v1/models/org/vectors", "/models/org%2Fvectors"]) {
    const [status, { id, object, owned_by }] = await ask(path);
    assertEquals([status, id, object, owned_by], [200, "org/vectors", "model", "rowmajor"]);
  }
  for (const path of ["/v1/models/none", "/v1/models/", "/v1/models/tiny/"]) {
    const [status, { error }] = await ask(path);
    assertEquals([status, error.code], [404, "model_not_found"], path);
  }
});

test("what are no models, and models of one name, are refused", () => {
  const table: [models: unknown, message: string][] = [
    [{}, "no models"],
    [{ chat: "a" }, "chat"],
    [{ chat: {} }, "chat"],
    [{ chat: { a: embeddings } }, "chat"],
    [{ chat: { "a b": chat } }, "white space"],
    [{ chat: { a: chat }, embeddings: { a: embeddings } }, "one id"],
    [{ rerank: embeddings }, "rerank"],
  ];
  for (const [models, message] of table) {
    assertThrows(() => openai(models as Any), ArgumentError, message);
  }
  assertThrows(() => openai({ chats: chat } as Any), TypeError, "chats");
  assertThrows(() => openai({ chat }, { limits: { tokens: 0 } }), ArgumentError, "tokens");
  assertThrows(() => openai({ chat }, { limits: { token: 1 } as Any }), TypeError, "token");
  assertThrows(() => openai({ chat }, { engine: { slots: 0 } }), ArgumentError, "slots");
  assertThrows(() => openai({ chat }, { engine: { open: {} } as Any }), TypeError, "open");
});

test("an answer is that of the chat, with its numbers of tokens", async () => {
  using alone = chat.fork();
  const expected = await alone.ask(USER[0]!.content, { temperature: 0, maxTokens: 8 });
  const answer = await complete({});
  assertEquals(answer.object, "chat.completion");
  assertEquals(answer.model, "tiny");
  assertEquals(answer.choices, [{
    index: 0,
    message: { role: "assistant", content: expected, refusal: null },
    logprobs: null,
    finish_reason: "length",
  }]);
  const { prompt_tokens: prompt, completion_tokens: made, total_tokens: all } = answer.usage;
  assertEquals([made, all], [8, prompt + 8]);
  assertEquals(answer.usage.prompt_tokens_details, { cached_tokens: 0 });
  const ids = await chat.format.encode(USER);
  assertEquals(prompt, ids.length);
  // Parts, and roles that templates do not know.
  const content = [{ type: "text", text: "Name a " }, { type: "text", text: "colour." }];
  const parts = await complete({ messages: [{ role: "user", content }], model: undefined });
  assertEquals(parts.choices, answer.choices);
  const [a, b] = await Promise.all(
    ["system", "developer"].map((role) =>
      complete({ messages: [{ role, content: "Be short." }, ...USER] })
    ),
  );
  assertEquals(a.choices, b.choices);
  const stop = expected.slice(3, 5);
  const stopped = await complete({ stop: [stop, "never"] });
  assertEquals(stopped.choices[0].finish_reason, "stop");
  assertEquals(stopped.choices[0].message.content, expected.slice(0, expected.indexOf(stop)));
  const short = await complete({ max_completion_tokens: 3 });
  assertEquals([short.usage.completion_tokens, short.choices[0].finish_reason], [3, "length"]);
});

test("a stream has the same text, and ends with a reason and the numbers of tokens", async () => {
  const whole = await complete({});
  const events = await stream({ stream_options: { include_usage: true } });
  const { id, created } = events[0];
  for (const event of events) {
    assertEquals([event.id, event.created, event.object, event.model], [
      ...[id, created, "chat.completion.chunk", "tiny"],
    ]);
  }
  assertEquals(events[0].choices[0].delta, { role: "assistant", content: "" });
  const last = events.pop();
  assertEquals([last.choices, last.usage], [[], whole.usage]);
  assert(events.every(({ usage }) => usage === null));
  assertEquals(events.at(-1).choices, [{
    ...{ index: 0, delta: {}, logprobs: null, finish_reason: "length" },
  }]);
  const text = events.map(({ choices: [{ delta }] }) => delta.content ?? "").join("");
  assertEquals(text, whole.choices[0].message.content);
  const plain = await stream({});
  assert(plain.every((event) => !("usage" in event)));
  assertEquals(plain.length, events.length);
});

test("tokens of a prompt that another one began with are counted as cached", async () => {
  using api = other({});
  const messages = [{ role: "user", content: "Name a colour of the sky. ".repeat(10) }];
  const [first, ...later] = [
    (await complete({ messages }, api.service)).usage,
    // All answers have one prompt.
    (await complete({ messages, n: 3 }, api.service)).usage,
    (await stream({ messages, stream_options: { include_usage: true } }, api.service)).at(-1).usage,
  ];
  const cached = ({ prompt_tokens_details: details }: Any): number => details.cached_tokens;
  assertEquals(cached(first), 0);
  for (const usage of later) {
    assert(cached(usage) >= 64 && cached(usage) < usage.prompt_tokens, JSON.stringify(usage));
    // Whole pages.
    assertEquals(cached(usage) % 32, 0);
  }
  const prompt = ["The sky is blue. ".repeat(8), "Grass is green. ".repeat(8)];
  const body = { model: "tiny", prompt, max_tokens: 2 };
  await ok("/v1/completions", body, api.service);
  const { usage } = await ok("/v1/completions", body, api.service);
  assert(cached(usage) >= 128 && cached(usage) < usage.prompt_tokens, JSON.stringify(usage));
});

test("a chat model may have sizes of its own", async () => {
  using small = openai(
    { chat: { a: { model: chat, slots: 2, context: 64, queue: undefined }, b: chat } },
    { engine: { slots: 3, context: 128 } },
  );
  const { a, b } = loose(small.stats)["models"] as Any;
  assertEquals([a.slots, b.slots], [2, 3]);
  for (const [model, most] of [["a", 64], ["b", 128]] as const) {
    const [status, { error }] = await ask(
      "/v1/completions",
      { model, prompt: new Array(most).fill(5) },
      small,
    );
    assertEquals([status, error.code], [400, "context_length_exceeded"]);
    assert(error.message.includes(`length is ${most} tokens`), error.message);
  }
  const wrong = (entry: unknown) => () => openai({ chat: { a: entry } } as Any);
  assertThrows(wrong({ model: chat, slots: 0 }), ArgumentError, "slots 0");
  assertThrows(wrong({ model: chat, slot: 2 }), TypeError, "slot");
  assertThrows(wrong({ model: embeddings }), ArgumentError, "chat");
  assertThrows(wrong({ slots: 2 }), ArgumentError, "chat");
});

test("logprobs belong to the tokens, whole and streamed", async () => {
  const asked = { logprobs: true, top_logprobs: 3 };
  const { choices: [{ logprobs, message }], usage } = await complete(asked);
  assertEquals(logprobs.content.length, usage.completion_tokens);
  for (const { token, logprob, bytes, top_logprobs: top } of logprobs.content) {
    assertEquals(top.length, 3);
    assertEquals(top[0].token, token);
    assertAlmostEquals(top[0].logprob, logprob, 1e-6);
    assert(logprob <= 0 && top[1].logprob <= top[0].logprob);
    assert(bytes === null || new TextDecoder().decode(Uint8Array.from(bytes)) === token);
  }
  const bytes = logprobs.content.flatMap(({ bytes }: Any) => bytes ?? []);
  assertEquals(new TextDecoder().decode(Uint8Array.from(bytes)), message.content);
  const events = await stream(asked);
  const streamed = events.flatMap(({ choices: [{ logprobs }] }) => logprobs?.content ?? []);
  assertEquals(streamed, logprobs.content);
  const { choices: [bare] } = await complete({ logprobs: true });
  assertEquals(bare.logprobs.content[0].top_logprobs, []);
});

test("several answers have seeds of their own, and the first one that of the request", async () => {
  const asked = { temperature: 1.5, seed: 7, max_tokens: 12 };
  const texts = ({ choices }: Any): string[] => choices.map(({ message }: Any) => message.content);
  const one = texts(await complete(asked));
  const three = await complete({ ...asked, n: 3 });
  assertEquals(three.usage.completion_tokens, 36);
  assertEquals(three.choices.map(({ index }: Any) => index), [0, 1, 2]);
  assertEquals(texts(three)[0], one[0]);
  assertEquals(new Set(texts(three)).size, 3);
  assertEquals(texts(await complete({ ...asked, n: 3 })), texts(three));
  // A prompt of two pages and more, which the others share.
  const messages = [{ role: "user", content: "the cat sat on the mat ".repeat(8) }];
  const long = await complete({ ...asked, messages, n: 2 });
  assertEquals(texts(long)[0], texts(await complete({ ...asked, messages }))[0]);
  const events = await stream({ ...asked, n: 3, stream_options: { include_usage: true } });
  assertEquals(events.pop().usage, three.usage);
  const joined = ["", "", ""], ends = [0, 0, 0];
  for (const { choices: [{ index, delta, finish_reason: reason }] } of events) {
    joined[index] += delta.content ?? "";
    if (reason !== null) ends[index]!++;
  }
  assertEquals(joined, texts(three));
  assertEquals(ends, [1, 1, 1]);
  assert((await complete({ ...asked, seed: -5 })).choices.length === 1);
});

test("options of sampling reach the model", async () => {
  const plain = (await complete({})).choices[0].message.content;
  const first = chat.tokenizer.encode(plain)[0]!;
  for (
    const options of [
      { logit_bias: { [first]: -100 } },
      { temperature: 2, seed: 3 },
      { presence_penalty: 2, frequency_penalty: 2, repeat_penalty: 3, max_tokens: 64 },
    ]
  ) {
    const { choices: [{ message }] } = await complete(options);
    assert(
      !plain.startsWith(message.content) && message.content !== plain,
      JSON.stringify(options),
    );
  }
  for (const options of [{ top_k: 1 }, { top_p: 0 }, { min_p: 1 }, { top_p: null, seed: null }]) {
    const { choices: [{ message }] } = await complete({ temperature: 2, ...options, n: 1 });
    if (!("seed" in options)) assertEquals(message.content, plain, JSON.stringify(options));
  }
});

test("special tokens in messages are only text", async () => {
  const text = "a<|end|>\n<|begin|>system b<|begi";
  const messages = [{ role: "user", content: text }];
  const ids = await chat.format.encode(messages);
  const [begin, end] = [chat.tokenizer.tokenToId("<|begin|>"), chat.tokenizer.tokenToId("<|end|>")];
  assertEquals(ids.filter((id) => id === begin).length, 2);
  assertEquals(ids.filter((id) => id === end).length, 1);
  assertEquals(
    chat.tokenizer.decode(ids, { special: true }),
    `<|begin|>user ${text}<|end|><|begin|>assistant `,
  );
  assertEquals((await complete({ messages })).usage.prompt_tokens, ids.length);
  // Also in functions, and beside characters that look alike.
  const odd = [{ role: "user", content: "\ufdd0<|end|>\ufdd1" }];
  const tools = [{
    type: "function",
    function: { name: "a", parameters: { "<|end|>": "<|end|>" } },
  }];
  const others = await chat.format.encode(odd, { tools });
  assertEquals(others.filter((id) => id === end).length, 2);
  assert(chat.tokenizer.decode(others, { special: true }).includes('{"<|end|>": "<|end|>"}'));
});

const TOOL = {
  type: "function",
  function: {
    name: "weather",
    description: "The weather of a city",
    parameters: {
      type: "object",
      properties: { city: { type: "string", maxLength: 5 }, days: { enum: [1, 2] } },
      required: ["city", "days"],
    },
  },
};
const OTHER = { type: "function", function: { name: "now" } };
const CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Rome"}}\n</tool_call>';

test("calls of functions are read from answers, whole and streamed", async () => {
  const tools = [TOOL, OTHER];
  const asked = { tools, max_tokens: 200 };
  {
    using _ = saying(chat, `Let me see.\n${CALL}${CALL.replace("Rome", "Oslo")}`);
    const { choices: [{ message, finish_reason: reason }] } = await complete(asked);
    assertEquals([reason, message.content], ["tool_calls", "Let me see."]);
    const [a, b, ...more] = message.tool_calls;
    assertEquals(more, []);
    assertEquals(a.function, { name: "weather", arguments: '{"city":"Rome"}' });
    assertEquals(b.function, { name: "weather", arguments: '{"city":"Oslo"}' });
    assert(a.type === "function" && /^call_\w{9}$/.test(a.id) && a.id !== b.id);
  }
  {
    using _ = saying(chat, CALL + CALL);
    const { choices: [{ message }] } = await complete({ ...asked, parallel_tool_calls: false });
    assertEquals([message.content, message.tool_calls.length], [null, 1]);
  }
  {
    using _ = saying(chat, `Well. ${CALL}${CALL}`);
    const events = await stream(asked);
    const deltas = events.map(({ choices: [{ delta }] }) => delta);
    assertEquals(deltas.map(({ content }) => content ?? "").join(""), "Well. ");
    const calls: Any[] = [];
    for (
      const { index, id, function: { name, arguments: args } } of deltas.flatMap((delta) =>
        delta.tool_calls ?? []
      )
    ) {
      calls[index] ??= { id, name, args: "" };
      calls[index].args += args;
    }
    assertEquals(calls.map(({ name, args }) => [name, args]), [
      ["weather", '{"city":"Rome"}'],
      ["weather", '{"city":"Rome"}'],
    ]);
    assertEquals(events.at(-1).choices[0].finish_reason, "tool_calls");
  }
  // What is no call is text: also a call that is cut, and one that the model may not make.
  for (
    const [answer, more, reason] of [
      ["No calls.", {}, "stop"],
      ["<tool_call>{oops}</tool_call>", {}, "stop"],
      [CALL, { max_tokens: 20 }, "length"],
      [CALL, { tool_choice: "none" }, "stop"],
    ] as const
  ) {
    using _ = saying(chat, answer, answer);
    const { choices: [{ message, finish_reason }] } = await complete({ ...asked, ...more });
    assertEquals(finish_reason, reason, answer);
    assert(answer.startsWith(message.content) && message.content !== "", message.content);
    assertEquals(message.tool_calls, undefined);
    const events = await stream({ ...asked, ...more });
    const text = events.map(({ choices: [{ delta }] }) => delta.content ?? "").join("");
    assertEquals(text, message.content);
  }
});

test("JSON in texts that is nested too deeply stays text", async () => {
  const deep = (levels: number) => '{"a":'.repeat(levels) + "1" + "}".repeat(levels);
  for (const levels of [20, 101, 3000, 100_000]) {
    const call = { id: "a", type: "function", function: { name: "f", arguments: deep(levels) } };
    const messages = [...USER, { role: "assistant", tool_calls: [call] }];
    const [status, answer] = await ask("/v1/chat/completions", { ...GREEDY, messages });
    const isLong = status === 400 && answer.error.code === "context_length_exceeded";
    assert(status === 200 || levels > 1000 && isLong, `${levels}: ${JSON.stringify(answer)}`);
  }
  // A model may write it too.
  const answer = CALL.replace('"Rome"', "[".repeat(200) + "]".repeat(200));
  using _ = saying(chat, answer);
  const { choices: [{ message }] } = await complete({ tools: [TOOL], max_tokens: 1000 });
  assertEquals([message.content, message.tool_calls], [answer, undefined]);
});

test("a model can be made to call a function", async () => {
  for (const template of ["hermes", "mistral", "llama"] as const) {
    if (template !== "hermes" && !runsHere(template, 4)) continue;
    using own = await openChat(template);
    using api = other({}, own);
    for (
      const [choice, names] of [
        ["required", ["weather", "now"]],
        [{ type: "function", function: { name: "weather" } }, ["weather"]],
      ] as const
    ) {
      const body = { tools: [TOOL, OTHER], tool_choice: choice, max_tokens: 400, seed: 1 };
      const { choices: [{ message, finish_reason: reason }] } = await complete(
        { ...body, temperature: 1, parallel_tool_calls: false },
        api.service,
      );
      assertEquals(reason, "tool_calls", `${template}: ${message.content}`);
      assertEquals(message.tool_calls.length, 1);
      const [{ function: { name, arguments: args } }] = message.tool_calls;
      assert((names as readonly string[]).includes(name), name);
      const { city, days } = JSON.parse(args);
      if (name === "weather") assert([...city].length <= 5 && [1, 2].includes(days), args);
    }
  }
  using api = other({}, await openChat("none"));
  const [status, { error }] = await ask(
    "/v1/chat/completions",
    { ...GREEDY, tools: [TOOL] },
    api.service,
  );
  assertEquals([status, error.param], [400, "tools"]);
});

test("calls and their results are messages for the template", async () => {
  const call = (id: string, city: string) => ({
    ...{ id, type: "function" },
    function: { name: "weather", arguments: JSON.stringify({ city }) },
  });
  const messages = [
    ...USER,
    { role: "assistant", content: null, tool_calls: [call("a", "Rome"), call("b", "Oslo")] },
    { role: "tool", tool_call_id: "b", content: "cold" },
    { role: "tool", tool_call_id: "a", content: [{ type: "text", text: "warm" }] },
  ];
  const own = (city: string) => ({
    id: city[0],
    function: { name: "weather", arguments: { city } },
  });
  const result = (content: string) => ({ role: "tool", content });
  for (const template of ["hermes", "llama"] as const satisfies (keyof typeof TEMPLATES)[]) {
    using model = await openChat(template);
    using api = other({}, model);
    const { usage } = await complete({ messages, tools: [TOOL] }, api.service);
    const assistant = (...tool_calls: unknown[]) => ({
      role: "assistant",
      content: "",
      tool_calls,
    });
    const expected = template === "hermes"
      ? [...USER, assistant(own("Rome"), own("Oslo")), result("cold"), result("warm")]
      : [...USER, assistant(own("Rome")), result("warm"), assistant(own("Oslo")), result("cold")];
    const ids = await model.format.encode(expected, { tools: [TOOL] });
    assertEquals(usage.prompt_tokens, ids.length, template);
  }
});

test("answers keep to a format", async () => {
  const schema = {
    type: "object",
    properties: {
      colour: { type: "string", maxLength: 8 },
      count: { type: "integer", maximum: 99 },
    },
    required: ["colour", "count"],
  };
  const named = { type: "json_schema", json_schema: { name: "x", strict: true, schema } };
  const asked = { response_format: named, temperature: 1, seed: 2, max_tokens: 300 };
  const answers = await Promise.all([1, 2, 3].map((seed) => complete({ ...asked, seed })));
  for (const { choices: [{ message, finish_reason: reason }] } of answers) {
    assertEquals(reason, "stop");
    const { colour, count, ...more } = JSON.parse(message.content);
    assert(typeof colour === "string" && Number.isInteger(count), message.content);
    assertEquals(more, {});
  }
  const plain = await complete({ response_format: { type: "text" } });
  assertEquals(plain.choices, (await complete({})).choices);
  const any = await complete({ response_format: { type: "json_object" }, max_tokens: 5 });
  assert(any.choices[0].message.content.startsWith("{"));
  for (
    const [format, message] of [
      [{ type: "xml" }, "one of"],
      [{}, "Missing"],
      [{ type: "json_schema" }, "Missing"],
      [{ type: "json_schema", json_schema: { name: "x" } }, "schema"],
      [{ type: "json_schema", json_schema: { schema: { type: "colour" } } }, "colour"],
      [{ type: "json_schema", json_schema: { schema: { uniqueItems: true } } }, "uniqueItems"],
      [{ type: "json_schema", json_schema: { schema: { $ref: "#/nowhere" } } }, "nowhere"],
      [{ type: "json_schema", json_schema: { schema: { enum: ["a".repeat(70_000)] } } }, "at most"],
    ] as const
  ) {
    const [status, { error }] = await ask("/v1/chat/completions", {
      ...{ ...GREEDY, response_format: format, stream: true },
    });
    assertEquals(status, 400, JSON.stringify(error));
    assert(error.message.includes(message), error.message);
    assert(error.param.startsWith("response_format"), error.param);
  }
});

test("what is wrong with a chat is a 400 that names it", async () => {
  const image = { type: "image_url", image_url: { url: "data:" } };
  const table: [param: string | null, body: Any][] = [
    ["messages", { messages: undefined }],
    ["messages", { messages: [] }],
    ["messages", { messages: "hello" }],
    ["messages", { messages: Array(1025).fill(USER[0]) }],
    ["messages[0]", { messages: ["hello"] }],
    ["messages[0].role", { messages: [{ content: "a" }] }],
    ["messages[0].role", { messages: [{ role: "critic", content: "a" }] }],
    ["messages[0].content", { messages: [{ role: "user" }] }],
    ["messages[0].content", { messages: [{ role: "user", content: 1 }] }],
    ["messages[0].content", { messages: [{ role: "user", content: Array(257).fill(image) }] }],
    ["messages[0].content[0].type", { messages: [{ role: "user", content: [image] }] }],
    ["messages[0].content[0]", { messages: [{ role: "user", content: ["a"] }] }],
    ["messages[0].tool_call_id", { messages: [{ role: "tool", content: "a" }] }],
    ["messages[0].tool_calls[0].id", {
      messages: [{ role: "assistant", tool_calls: [{ function: { name: "a" } }] }],
    }],
    ["temperature", { temperature: 3 }],
    ["temperature", { temperature: "warm" }],
    ["top_p", { top_p: 1.1 }],
    ["top_k", { top_k: 1.5 }],
    ["min_p", { min_p: -1 }],
    ["frequency_penalty", { frequency_penalty: 3 }],
    ["repeat_penalty", { repeat_penalty: 0 }],
    ["seed", { seed: 1.5 }],
    ["n", { n: 0 }],
    ["n", { n: 9 }],
    ["max_tokens", { max_tokens: 0 }],
    ["max_completion_tokens", { max_completion_tokens: -1 }],
    ["stop", { stop: 1 }],
    ["stop", { stop: "" }],
    ["stop", { stop: Array(17).fill("a") }],
    ["stop[0]", { stop: [1] }],
    ["stop[0]", { stop: ["a".repeat(1001)] }],
    ["logit_bias", { logit_bias: { 320: 1 } }],
    ["logit_bias", { logit_bias: { a: 1 } }],
    ["logit_bias.5", { logit_bias: { 5: 101 } }],
    ["logit_bias", { logit_bias: [1] }],
    ["top_logprobs", { top_logprobs: 2 }],
    ["top_logprobs", { logprobs: true, top_logprobs: 21 }],
    ["logprobs", { logprobs: 3 }],
    ["stream", { stream: "yes" }],
    ["stream_options", { stream_options: true }],
    ["tools", { tools: {} }],
    ["tools", { tools: Array(129).fill(TOOL) }],
    ["tools", { tools: [TOOL, TOOL] }],
    ["tools[0].type", { tools: [{ type: "web_search" }] }],
    ["tools[0].function", { tools: [{ type: "function" }] }],
    ["tools[0].function.name", { tools: [{ type: "function", function: { name: "a b" } }] }],
    ["tools", {
      tools: [{ type: "function", function: { name: "a", description: "a".repeat(7e4) } }],
    }],
    ["tool_choice", { tool_choice: "required" }],
    ["tool_choice", { tools: [TOOL], tool_choice: "always" }],
    ["tool_choice.function.name", {
      ...{ tools: [TOOL], tool_choice: { type: "function", function: { name: "no" } } },
    }],
    ["tools", {
      tools: [TOOL, { type: "function", function: { name: "a", parameters: { type: "b" } } }],
      tool_choice: "required",
    }],
    ["response_format", { tools: [TOOL], response_format: { type: "json_object" } }],
    ["functions", { functions: [] }],
    ["modalities[0]", { modalities: ["audio"] }],
    ["audio", { audio: {} }],
    ["model", { model: 5 }],
  ];
  for (const [param, body] of table) {
    const [status, { error }] = await ask("/v1/chat/completions", { ...GREEDY, ...body });
    const { message, ...rest } = error;
    assertEquals(
      [status, rest],
      [400, { type: "invalid_request_error", param, code: null }],
      `${param}: ${message}`,
    );
    assert(message.length < 300 && !/src\/|\.ts|file:|\/work|\/home/.test(message), message);
  }
  const [status, { error }] = await ask("/v1/chat/completions", { ...GREEDY, model: "gpt-4o" });
  assertEquals([status, error.code, error.param], [404, "model_not_found", "model"]);
  const [wrong] = await ask("/v1/chat/completions", { ...GREEDY, model: "org/vectors" });
  assertEquals(wrong, 404);
  // What OpenAI's clients send, and a model has no use for.
  await complete({ user: "u", store: true, metadata: { a: "b" }, service_tier: "auto", foo: 1 });
});

test("a prompt beyond the context is a 400, and answers end at it", async () => {
  using own = await openChat("hermes", 64);
  using api = other({ engine: { slots: 1 } }, own);
  const long = [{ role: "user", content: "a b c ".repeat(20) }];
  for (const stream of [false, true]) {
    const body = { ...GREEDY, messages: long, stream };
    const [status, { error }] = await ask("/v1/chat/completions", body, api.service);
    assertEquals([status, error.code, error.param], [400, "context_length_exceeded", "messages"]);
    assert(/64 tokens/.test(error.message), error.message);
  }
  // Texts that are much too long are not tokenized.
  const huge = "a".repeat(3_000_000);
  const { encodeBatch } = own.tokenizer;
  own.tokenizer.encodeBatch = () => Promise.reject(new Error("it was tokenized"));
  for (
    const [path, body] of [
      ["/v1/chat/completions", { messages: [{ role: "user", content: huge }] }],
      ["/v1/completions", { prompt: huge }],
    ] as const
  ) {
    const [status, { error }] = await ask(path, body, api.service);
    assertEquals([status, error.code], [400, "context_length_exceeded"]);
    assert(/at least \d+ tokens/.test(error.message), error.message);
  }
  own.tokenizer.encodeBatch = encodeBatch.bind(own.tokenizer);
  const { choices: [choice], usage } = await complete({ max_tokens: 5000 }, api.service);
  assertEquals(choice.finish_reason, "length");
  assert(usage.total_tokens >= 64 && usage.total_tokens <= 66, JSON.stringify(usage));
});

/** Waits until something holds. */
async function until(holds: () => boolean, what: string): Promise<void> {
  for (const end = performance.now() + 20_000; performance.now() < end;) {
    if (holds()) return;
    await delay(5);
  }
  throw new Error(`not within 20 seconds: ${what}`);
}

test("the slot of a client that is gone is free, whole and streamed", async () => {
  using api = other({ engine: { slots: 1, queue: 1 }, limits: { tokens: 1500 } });
  const { service, stats } = api;
  const body = { ...GREEDY, max_tokens: 1500, logit_bias: { 1: -100 } };
  for (const isStream of [false, true]) {
    const gone = new AbortController();
    const given = request("/v1/chat/completions", { ...body, stream: isStream }, {});
    const asked = service.fetch(new Request(given, { signal: gone.signal }));
    await until(() => stats().completionTokens > 0, "a token");
    const before = stats().stepped;
    if (isStream) {
      const reader = (await asked).body!.getReader();
      await reader.read();
      await reader.cancel();
    } else {
      gone.abort();
      assertEquals((await asked).status, 499);
    }
    await until(() => stats().active === 0 && service.stats.inFlight === 0, "the slot");
    assert(stats().stepped - before < 100, `${stats().stepped - before} steps`);
  }
  assertEquals(stats().cancelled, 2);
  await complete({}, service);
});

test("a slow reader keeps no slot, and a full queue is a 503", async () => {
  using api = other({ engine: { slots: 1, queue: 1 }, limits: { tokens: 1000 } });
  const { service, stats } = api;
  const body = { ...GREEDY, stream: true, max_tokens: 150, logit_bias: { 1: -100 } };
  const [first, second, third] = await Promise.all(
    [1, 2, 3].map(() => service.fetch(request("/v1/chat/completions", body))),
  );
  assertEquals([first!.status, second!.status, third!.status].toSorted(), [200, 200, 503]);
  const refused = [first!, second!, third!].find(({ status }) => status === 503)!;
  assertEquals(refused.headers.get("retry-after"), "1");
  const { error } = await refused.json();
  assertEquals([error.code, error.type], ["queue_full", "server_error"]);
  await until(() => stats().finished === 2, "answers that nobody reads");
  assertEquals(service.stats.inFlight, 2);
  for (const response of [first!, second!, third!]) {
    if (response.status !== 200) continue;
    const events = await eventsOf(response);
    assertEquals(events.at(-1).choices[0].finish_reason, "length");
  }
  assertEquals(service.stats.inFlight, 0);
});

test("drain answers what was accepted, and refuses the rest", async () => {
  using api = other({});
  const { service } = api;
  const asked = complete({ max_tokens: 50 }, service);
  await until(() => service.stats.inFlight === 1, "the request");
  const drained = service.drain();
  const [status, { error }] = await ask("/v1/chat/completions", GREEDY, service);
  assertEquals([status, error.code], [503, "draining"]);
  assertEquals((await asked).usage.completion_tokens <= 50, true);
  await drained;
  assertEquals(service.stats.draining, true);
  // The model is not the service's.
  assertEquals((await complete({})).choices.length, 1);
});

test("dispose ends all requests", async () => {
  using api = other({ limits: { tokens: 2000 } });
  const body = { ...GREEDY, max_tokens: 2000, logit_bias: { 1: -100 } };
  const whole = ask("/v1/chat/completions", body, api.service);
  const response = await api.service.fetch(
    request("/v1/chat/completions", { ...body, stream: true }),
  );
  api.service.dispose();
  const [status, { error }] = await whole;
  assertEquals([status, error.code], [503, "draining"]);
  const events = await eventsOf(response);
  assertEquals(events.at(-1).error.code, "draining");
  assertEquals(api.service.stats.inFlight, 0);
});

test("completions go on from texts and tokens", async () => {
  const post = (body: object) =>
    ok("/v1/completions", { model: "tiny", temperature: 0, max_tokens: 6, ...body });
  const answer = await post({ prompt: "the cat" });
  assertEquals(answer.object, "text_completion");
  const ids = chat.tokenizer.encode("the cat", { special: true });
  const made: number[] = [];
  for await (const id of chat.model.generate(ids, { maxTokens: 6 })) made.push(id);
  const text = chat.tokenizer.decode(made);
  assertEquals(answer.choices, [{ text, index: 0, logprobs: null, finish_reason: "length" }]);
  assertEquals(answer.usage, {
    ...{ prompt_tokens: ids.length, completion_tokens: 6, total_tokens: ids.length + 6 },
    prompt_tokens_details: { cached_tokens: 0 },
  });
  assertEquals((await post({ prompt: ids })).choices, answer.choices);
  const several = await post({ prompt: ["the cat", ids, "a dog"], n: 2, echo: true });
  assertEquals(several.choices.map(({ index }: Any) => index), [0, 1, 2, 3, 4, 5]);
  for (const i of [0, 1, 2, 3]) assertEquals(several.choices[i].text, `the cat${text}`);
  assert(several.choices[4].text.startsWith("a dog"));
  const { choices: [{ logprobs }] } = await post({ prompt: "the cat", logprobs: 2 });
  assertEquals(logprobs.tokens.join(""), text);
  assertEquals(Object.keys(logprobs.top_logprobs[0]).length, 2);
  assertEquals(logprobs.text_offset[1], logprobs.tokens[0].length);
  assert(logprobs.token_logprobs.every((one: number) => one <= 0));
  const events = await eventsOf(
    await service.fetch(request("/v1/completions", {
      ...{
        model: "tiny",
        prompt: ["the cat", "the cat"],
        temperature: 0,
        max_tokens: 6,
        echo: true,
      },
      ...{ stream: true, stream_options: { include_usage: true } },
    })),
  );
  assertEquals(events.pop().usage.completion_tokens, 12);
  const texts = ["", ""];
  for (const { choices: [{ index, text }] } of events) texts[index] += text;
  assertEquals(texts, [`the cat${text}`, `the cat${text}`]);
  for (
    const [param, body] of [
      ["prompt", {}],
      ["prompt", { prompt: 1 }],
      ["prompt", { prompt: [] }],
      ["prompt", { prompt: [320] }],
      ["prompt[1]", { prompt: ["a", [-1]] }],
      ["prompt", { prompt: Array(100).fill("a"), n: 2 }],
      ["suffix", { prompt: "a", suffix: "b" }],
      ["best_of", { prompt: "a", best_of: 2 }],
      ["echo", { prompt: "a", echo: true, logprobs: 1 }],
      ["logprobs", { prompt: "a", logprobs: 21 }],
    ] as const
  ) {
    const [status, { error }] = await ask("/v1/completions", { model: "tiny", ...body });
    assertEquals([status, error.param], [400, param], error.message);
  }
  const [status, { error }] = await ask("/v1/completions", {
    model: "tiny",
    prompt: "a b ".repeat(2000),
  });
  assertEquals([status, error.code], [400, "context_length_exceeded"]);
});

test("embeddings are the embedder's, as numbers and bytes, of texts and tokens", async () => {
  const post = (body: object) => ok("/v1/embeddings", { model: "org/vectors", ...body });
  const texts = ["w1 w2", "w3", "w4 w5 w6"];
  const expected = await embeddings.embed(texts);
  const { object, data, usage } = await post({ input: texts });
  assertEquals([object, data.map(({ index }: Any) => index)], ["list", [0, 1, 2]]);
  const near = (a: readonly number[], b: readonly number[]) => {
    assertEquals(a.length, b.length);
    a.forEach((x, i) => assertAlmostEquals(x, b[i]!, 1e-5));
  };
  data.forEach(({ embedding }: Any, i: number) => near(embedding, expected[i]!));
  // Those around the texts count too.
  assertEquals(usage, { prompt_tokens: 12, total_tokens: 12 });
  const { data: [{ embedding }] } = await post({ input: texts[0], encoding_format: "base64" });
  const bytes = Buffer.from(embedding, "base64");
  near([...new Float32Array(new Uint8Array(bytes).buffer)], expected[0]!);
  const { data: [short] } = await post({ input: texts[0], dimensions: 4 });
  near(short.embedding, await embeddings.embed(texts[0]!, { dimensions: 4 }));
  const { ids } = embeddings.encoder.tokenizer.encodeInput("w1 w2");
  near((await post({ input: ids })).data[0].embedding, expected[0]!);
  near((await post({ input: [[...ids], [...ids]] })).data[1].embedding, expected[0]!);
  const long = Array(embeddings.maxTokens).fill("w1").join(" ");
  near(
    (await post({ input: long, truncate: true })).data[0].embedding,
    await embeddings.embed(long),
  );
  // A text is cut before it is tokenized, if it has very many characters for its tokens.
  const most = 64 * embeddings.encoder.longest;
  for (const text of ["!".repeat(2 * most), "\u{1f600}".repeat(most), " ".repeat(most)]) {
    const input = ["w1", `w1 ${text}`];
    const body = { model: "org/vectors", input };
    const [status, { error }] = await ask("/v1/embeddings", body);
    assertEquals([status, error.param, error.code], [400, "input[1]", "context_length_exceeded"]);
    assert(error.message.includes(`${input[1]!.length} characters`), error.message);
    assertEquals((await post({ input, truncate: true })).data.length, 2);
  }
  const spaces = `w1${" ".repeat(most - 4)}w2`;
  assertEquals((await post({ input: spaces })).usage.prompt_tokens, 4);
  const table: [param: string, body: object][] = [
    ["input", {}],
    ["input", { input: "" }],
    ["input", { input: ["a", ""] }],
    ["input", { input: [] }],
    ["input", { input: 5 }],
    ["input", { input: { a: 1 } }],
    ["input[1]", { input: ["a", 5] }],
    ["input", { input: [1e9] }],
    ["input[0]", { input: [[]] }],
    ["input", { input: Array(2049).fill("w1") }],
    ["dimensions", { input: "w1", dimensions: 1e6 }],
    ["dimensions", { input: "w1", dimensions: 0 }],
    ["encoding_format", { input: "w1", encoding_format: "int8" }],
    ["input", { input: long }],
    ["input[1]", { input: ["w1", long] }],
  ];
  for (const [param, body] of table) {
    const [status, { error }] = await ask("/v1/embeddings", { model: "org/vectors", ...body });
    assertEquals([status, error.param], [400, param], error.message);
    if (body === table.at(-1)![1]) assertEquals(error.code, "context_length_exceeded");
  }
});

test("embeddings of requests at the same time are computed together, and their queue is bounded", async () => {
  using api = openai({ embeddings }, { limits: { queue: 30 } });
  const stats = (): Any => loose(api.stats)["models"].model;
  const answers = await Promise.all(
    Array.from({ length: 25 }, (_, i) => ok("/v1/embeddings", { input: `w${i}` }, api)),
  );
  const alone = await embeddings.embed("w7");
  answers[7].data[0].embedding.forEach((x: number, i: number) =>
    assertAlmostEquals(x, alone[i]!, 1e-5)
  );
  assertEquals(stats().items, 25);
  assert(stats().batches <= 4, `${stats().batches} batches`);
  const many = { input: Array(20).fill("w1 w2 w3") };
  const statuses = await Promise.all(
    [1, 2, 3, 4, 5, 6].map(async () => (await api.fetch(request("/v1/embeddings", many))).status),
  );
  assert(statuses.includes(503) && statuses.includes(200), `${statuses}`);
  const [status] = await ask("/v1/embeddings", { input: Array(31).fill("w1") }, api);
  assertEquals(status, 400);
});

test("ranks are the classifier's", async () => {
  const documents = ["w4", "w20 w21", "w30"];
  const expected = await rerank.rank("w1 w2", documents);
  const { results, usage, object } = await ok("/v1/rerank", { query: "w1 w2", documents });
  assertEquals(object, "list");
  assertEquals(results.map(({ index }: Any) => index), expected.map(({ index }) => index));
  results.forEach(({ relevance_score: score }: Any, i: number) =>
    assertAlmostEquals(score, expected[i]!.score, 1e-5)
  );
  assert(usage.total_tokens > 12 && usage.total_tokens === usage.prompt_tokens);
  const { results: [best, ...more] } = await ok("/rerank", {
    ...{ query: "w1 w2", documents: documents.map((text) => ({ text })), top_n: 1 },
    return_documents: true,
  });
  assertEquals(more, []);
  assertEquals(best.document, { text: documents[expected[0]!.index] });
  for (
    const [param, body] of [
      ["query", { documents }],
      ["query", { query: 1, documents }],
      ["documents", { query: "a" }],
      ["documents", { query: "a", documents: [] }],
      ["documents", { query: "a", documents: "b" }],
      ["documents[1]", { query: "a", documents: ["b", 1] }],
      ["documents[0].text", { query: "a", documents: [{}] }],
      ["top_n", { query: "a", documents, top_n: 0 }],
    ] as const
  ) {
    const [status, { error }] = await ask("/v1/rerank", body);
    assertEquals([status, error.param], [400, param], error.message);
  }
});

test("metrics and logs have numbers by model, and no texts", async () => {
  const entries: Any[] = [];
  const secret = "violet";
  using api = openai({ chat: { tiny: chat }, embeddings: { vectors: embeddings } }, {
    metrics: prom,
    log: (entry) => entries.push(entry),
  });
  const messages = [{ role: "user", content: secret.repeat(20) }];
  await complete({ messages }, api);
  await complete({ messages }, api);
  await stream({ messages }, api);
  await ok("/v1/embeddings", { model: "vectors", input: [secret, "w1"] }, api);
  await ask("/v1/chat/completions", { ...GREEDY, messages: [{ role: secret }] }, api);
  await ask(`/${secret}`, undefined, api);
  const response = await api.fetch(request("/metrics"));
  const text = await response.text();
  const value = (name: string): number => {
    const line = text.split("\n").find((line) => line.startsWith(`${name} `));
    assert(line !== undefined, name);
    return Number(line.slice(name.length + 1));
  };
  const model = '{model="tiny"}';
  const prompt = (await chat.format.encode(messages)).length;
  assertEquals(value(`rowmajor_prompt_tokens_total${model}`), 3 * prompt);
  assertEquals(value(`rowmajor_completion_tokens_total${model}`), 24);
  assertEquals(value(`rowmajor_time_to_first_token_seconds_count${model}`), 3);
  assertEquals(value(`rowmajor_time_between_tokens_seconds_count${model}`), 21);
  assert(value(`rowmajor_reused_tokens_total${model}`) >= 32);
  assert(value(`rowmajor_cache_tokens${model}`) > value(`rowmajor_cache_used_tokens${model}`));
  assertEquals(value(`rowmajor_running_texts${model}`), 0);
  assertEquals(value(`rowmajor_waiting_texts{model="vectors"}`), 0);
  assertEquals(value(`rowmajor_batch_size_sum{model="vectors"}`), 2);
  assertEquals(value('rowmajor_requests_total{path="/v1/chat/completions",code="400"}'), 1);
  assertEquals(value('rowmajor_rejected_total{reason="invalid_request_error"}'), 1);
  for (const name of ["tensor_bytes", "resident_bytes", "in_flight_requests"]) {
    assert(value(`rowmajor_${name}`) >= 0, name);
  }
  assert(value("rowmajor_event_loop_late_seconds") >= 0);
  const [first] = entries;
  assertEquals([first.method, first.path, first.status, first.model], [
    ...["POST", "/v1/chat/completions", 200, "tiny"],
  ]);
  assertEquals([first.promptTokens, first.completionTokens], [prompt, 8]);
  assert(first.ttftMs > 0 && first.ms >= first.ttftMs);
  assertEquals([first.cachedTokens, first.messages], [0, undefined]);
  assertEquals(entries[2].completionTokens, 8);
  assertEquals(entries.at(-1).path, "/metrics");
  assert(!JSON.stringify(entries).includes(secret) && !text.includes(secret));
  // Wrong requests are logged with their error.
  assertEquals(entries[4].status, 400);
});

test("logs have the texts of requests if a program asks for them", async () => {
  const entries: Any[] = [];
  using api = openai({ chat: { tiny: chat }, embeddings: { vectors: embeddings }, rerank }, {
    ...{ logPrompts: true, log: (entry) => entries.push(entry) },
  });
  await complete({}, api);
  await ok("/v1/completions", { model: "tiny", prompt: ["a", [5]], max_tokens: 1 }, api);
  await ok("/v1/embeddings", { model: "vectors", input: "w1" }, api);
  await ok("/v1/rerank", { query: "w1", documents: ["w2"] }, api);
  // Also of those that are refused.
  await ask("/v1/chat/completions", { ...GREEDY, messages: 5 }, api);
  const fields = ["messages", "prompt", "input", "query", "documents"];
  assertEquals(
    entries.map((entry) => JSON.stringify(fields.flatMap((name) => entry[name] ?? []))),
    [USER, ["a", [5]], ["w1"], ["w1", "w2"], [5]].map((texts) => JSON.stringify(texts)),
  );
  assertThrows(() => openai({ chat }, { logPrompts: 1 } as Any), ArgumentError, "logPrompts 1");
});

test("the time to the first token of a request is that of its first answer", async () => {
  const entries: Any[] = [];
  using api = other({ engine: { slots: 1 }, log: (entry) => entries.push(entry) });
  await complete({ n: 4, max_tokens: 30, logit_bias: { 1: -100 } }, api.service);
  const [{ ttftMs, ms, completionTokens }] = entries;
  assertEquals(completionTokens, 120);
  // The last answer begins after three quarters.
  assert(ttftMs < ms / 2, `${ttftMs} of ${ms} ms`);
});

/** Numbers from 0 to below 1, the same each time. */
function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = Math.imul(state ^ state >>> 15, state | 1) + 0x6d2b79f5 | 0;
    return ((state ^ state >>> 14) >>> 0) / 2 ** 32;
  };
}

const JUNK: readonly unknown[] = [
  ...[
    null,
    true,
    false,
    0,
    -1,
    1,
    2,
    0.5,
    1e308,
    -1e308,
    2 ** 53,
    "",
    "a",
    "\ud800",
    "\0",
    "<|end|>",
  ],
  ...["\ufdd0", "9".repeat(400), "🙂".repeat(50), [], [[]], [null], [""], ["a"], [5, 6], {}],
  ...[{ type: "text" }, { a: { b: [] } }, { role: "tool" }, [{}], [[1, [2]]], "__proto__"],
  JSON.parse('{"__proto__":{"a":1},"constructor":5,"toString":null}'),
];

/** A value with some part replaced, left out or added. */
function mutated(value: Any, random: () => number): Any {
  const one = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)]!;
  const isList = Array.isArray(value);
  const keys = typeof value === "object" && value !== null ? Object.keys(value) : [];
  if (keys.length === 0 || random() < 0.15) return one(JUNK);
  const key = one(keys);
  const made = isList ? [...value] : { ...value };
  if (random() < 0.1) {
    delete made[key];
    return isList ? made.filter((_: unknown, i: number) => i !== Number(key)) : made;
  }
  if (random() < 0.1) {
    made[isList ? made.length : one(["name", "type", "text", "$ref"])] = one(JUNK);
  } else made[key] = mutated(value[key], random);
  return made;
}

test("changed requests are answered or refused, and never a fault of the server", async () => {
  const chats = {
    ...{ ...GREEDY, max_tokens: 2, seed: 1, n: 1, stop: ["x"], logit_bias: { 5: 1 }, user: "u" },
    ...{ top_p: 1, top_k: 5, min_p: 0, logprobs: true, top_logprobs: 2, repeat_penalty: 1.1 },
    ...{ stream: false, stream_options: { include_usage: true }, parallel_tool_calls: true },
    ...{ tool_choice: "auto", chat_template_kwargs: { a: 1 } },
    tools: [TOOL, OTHER],
    messages: [
      { role: "system", content: [{ type: "text", text: "a" }], name: "n" },
      ...USER,
      {
        ...{ role: "assistant", content: null },
        tool_calls: [{ id: "a", type: "function", function: { name: "now", arguments: "{}" } }],
      },
      { role: "tool", tool_call_id: "a", content: "noon" },
    ],
  };
  const schema = {
    type: "object",
    properties: { a: { anyOf: [{ type: "string", maxLength: 3 }, { $ref: "#/$defs/b" }] } },
    required: ["a"],
    $defs: { b: { type: "array", items: { enum: [1, "x"] }, maxItems: 2 } },
  };
  const format = { type: "json_schema", json_schema: { name: "n", strict: true, schema } };
  const bodies: [path: string, body: object][] = [
    ["/v1/chat/completions", chats],
    ["/v1/chat/completions", { ...GREEDY, max_tokens: 2, response_format: format }],
    ["/v1/chat/completions", {
      ...{ ...GREEDY, max_tokens: 2, tools: [TOOL, OTHER], tool_choice: "required" },
    }],
    ["/v1/completions", {
      ...{ model: "tiny", prompt: ["a", [5, 6]], max_tokens: 2, temperature: 0, echo: true, n: 1 },
      ...{ best_of: 1, stop: "x" },
    }],
    ["/v1/embeddings", {
      ...{ model: "org/vectors", input: ["w1", [5, 6]], dimensions: 4, encoding_format: "float" },
      truncate: true,
    }],
    ["/v1/rerank", {
      ...{ model: "model", query: "w1", documents: ["w2", { text: "w3" }], top_n: 1 },
      return_documents: true,
    }],
  ];
  const random = randomNumbers(amount(1, Date.now() | 0));
  const counts = new Map<number, number>();
  for (let i = 0; i < amountIn(250, 80, 4000); i++) {
    const [path, body] = bodies[i % bodies.length]!;
    let changed: Any = mutated(body, random);
    if (random() < 0.3) changed = mutated(changed, random);
    if (typeof changed !== "object" || changed === null) continue;
    // Long answers only take long.
    const most = changed.max_tokens ?? Infinity;
    if (path.endsWith("completions") && typeof most === "number" && most > 2) {
      changed.max_tokens = 1;
    }
    const response = await service.fetch(request(path, changed));
    const text = await response.text();
    counts.set(response.status, (counts.get(response.status) ?? 0) + 1);
    const isFine = [200, 400, 404].includes(response.status);
    assert(
      isFine && !text.includes('"error":{"message":"the server'),
      `${JSON.stringify(changed)}: ${text}`,
    );
    assert(!/\.ts\b|\/src\/|file:/.test(text), text);
  }
  assert(counts.get(200)! > 10 && counts.get(400)! > 10, JSON.stringify([...counts]));
  assertEquals(service.stats.inFlight, 0);
});

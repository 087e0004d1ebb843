/**
 * llama-server's tests of its interface, as a table: requests, the statuses and the forms of their
 * answers, and the reasons for what is left out or differs.
 *
 * The table follows llama.cpp's tools/server/tests/unit/test_*.py (MIT license) of October 2026; the
 * requests are theirs, no code is. They run on models of the net and check words; here the models are
 * small and random, and the form of an answer is checked. All files are here that test what this server
 * has: models, chat, completions, embeddings, rerank, keys, metrics, streams, tools, tokens.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { setTimeout as delay } from "node:timers/promises";
import type { EngineStats } from "../../src/llm/mod.ts";

/** A value of JSON. */
// deno-lint-ignore no-explicit-any
export type Json = any;

/** The server of a request: without keys, with the key {@link KEY}, or without metrics. */
export type ServerName = "open" | "closed" | "bare";

/** A request. */
export interface Ask {
  readonly method: string;
  readonly path: string;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly server?: ServerName;
  readonly signal?: AbortSignal;
}

/** An answer that has ended. */
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  /** The value of JSON; else the text. */
  readonly body: Json;
  /** The values of a stream. */
  readonly events: readonly Json[];
}

/** What a case may use besides its request. */
export interface Tools {
  ask(ask: Ask): Promise<Answer>;
  /** The number of tokens of a text, and the tokens. */
  readonly tokens: (text: string) => readonly number[];
  /** The text of a token. */
  readonly tokenText: (id: number) => string;
  /** What the engine does and has done. */
  readonly engine: () => EngineStats;
}

/** A case of a test: one request, or what several do together. */
export type Case =
  | {
    readonly ask: Ask;
    readonly status: number;
    /** The form of the answer, or of the whole of a stream. */
    readonly form?: unknown;
    readonly check?: (answer: Answer, tools: Tools) => void;
    /** What is other than in llama-server. */
    readonly differs?: string;
  }
  | { readonly run: (tools: Tools) => Promise<void>; readonly differs?: string }
  | { readonly leftOut: number; readonly reason: string }
  | { readonly elsewhere: string };

/** The key of the server "closed". */
export const KEY = "sk-this-is-the-secret-key";

/** Texts that fit a form: any, or one with something. */
const TEXT = (value: unknown): boolean => typeof value === "string";
const ID = (value: unknown): boolean => typeof value === "string" && /cmpl/.test(value);
const COUNT = (value: unknown): boolean => Number.isInteger(value) && value as number > 0;
const ABSENT = (value: unknown): boolean => value === undefined || value === null;
const END = (value: unknown): boolean => value === "length" || value === "stop";
const atMost = (most: number) => (value: unknown): boolean =>
  Number.isInteger(value) && value as number >= 0 && value as number <= most;
const ERROR = { error: { message: TEXT, type: "invalid_request_error" } };

/** Whether a value has a form: equal, of the same fields and elements, or what a function allows. */
export function fits(value: unknown, form: unknown): boolean {
  if (typeof form === "function") return form(value) === true;
  if (Array.isArray(form)) {
    return Array.isArray(value) && value.length === form.length &&
      form.every((one, i) => fits(value[i], one));
  }
  if (typeof form !== "object" || form === null) return value === form;
  return typeof value === "object" && value !== null &&
    Object.entries(form).every(([name, one]) => fits((value as Json)[name], one));
}

const get = (path: string, more: Partial<Ask> = {}): Ask => ({ method: "GET", path, ...more });
const post = (path: string, body: unknown, more: Partial<Ask> = {}): Ask => ({
  ...{ method: "POST", path, body },
  ...more,
});
const chat = (body: object, more?: Partial<Ask>) =>
  post("/v1/chat/completions", { model: "chat", ...body }, more);
const complete = (body: object, more?: Partial<Ask>) =>
  post("/v1/completions", { model: "chat", ...body }, more);
const embed = (body: object, more?: Partial<Ask>) =>
  post("/v1/embeddings", { model: "embeddings", ...body }, more);
const rank = (body: object) => post("/v1/rerank", { model: "rerank", ...body });

const system = (content: unknown) => ({ role: "system", content });
const user = (content: unknown) => ({ role: "user", content });
const assistant = (content: unknown) => ({ role: "assistant", content });
const leftOut = (count: number, reason: string): Case => ({ leftOut: count, reason });

const OWN = "llama-server's own path or field";
const NET = "a model of the net";
const CLIENTS = "clients_openai_test.ts";
const LIBRARY: Case = { elsewhere: CLIENTS };
const BOOK = [system("Book"), user("What is the best book")];
const MEANING = "I believe the meaning of life is";
const CODE = [
  system("You are a coding assistant."),
  user("Write the fibonacci function in c++."),
];

/** The answer to messages, of at most so many tokens. */
function answered(messages: readonly unknown[], most: number): Case {
  return {
    ask: chat({ messages, max_tokens: most }),
    status: 200,
    form: {
      ...{ id: ID, object: "chat.completion", created: COUNT, model: "chat" },
      choices: [{ index: 0, message: { role: "assistant", content: TEXT }, finish_reason: END }],
      usage: { prompt_tokens: COUNT, completion_tokens: atMost(most) },
    },
    check({ body: { choices, usage } }) {
      assertEquals(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens);
      // The random model may end a text early.
      if (choices[0].finish_reason === "length") assertEquals(usage.completion_tokens, most);
      else assert(usage.completion_tokens < most);
    },
  };
}

/** The streamed answer to messages. */
function streamed(messages: readonly unknown[], most: number): Case {
  const options = { stream: true, stream_options: { include_usage: true } };
  return {
    ask: chat({ messages, max_tokens: most, seed: 42, ...options }),
    status: 200,
    differs: "usage comes only if stream_options asks for it",
    check({ events, headers }) {
      assert(headers.get("content-type")!.startsWith("text/event-stream"));
      const choices = events.filter((event) => event.choices.length > 0);
      assertEquals(choices[0].choices[0].delta.role, "assistant");
      assertEquals(new Set(events.map(({ id }) => id)).size, 1);
      assert(events.every(({ object }) => object === "chat.completion.chunk"));
      assert(choices.slice(1).every((event) => event.choices[0].delta.role === undefined));
      const ends = choices.map((event) => event.choices[0].finish_reason);
      assert(END(ends.at(-1)) && ends.slice(0, -1).every(ABSENT));
      assert(ABSENT(choices.at(-1).choices[0].delta.content));
      const { usage, choices: none } = events.at(-1)!;
      assertEquals(none, []);
      assert(COUNT(usage.prompt_tokens) && atMost(most)(usage.completion_tokens));
      assert(ends.at(-1) !== "length" || usage.completion_tokens === most);
    },
  };
}

/** An answer in JSON of a schema, whose text has to be so. */
function inFormat(format: unknown, most: number, text: RegExp, differs?: string): Case {
  return {
    ask: chat({
      max_tokens: most,
      messages: [system("You are a coding assistant."), user("Write an example")],
      response_format: format,
    }),
    status: 200,
    form: {
      choices: [{ message: { content: (value: unknown) => text.test(value as string) } }],
    },
    ...differs !== undefined && { differs },
  };
}

const schema = (schema: unknown) => ({
  type: "json_schema",
  json_schema: { name: "answer", schema },
});
const SCHEMA = "the schema is in json_schema, as OpenAI has it";

function refused(ask: Ask, differs?: string, error: unknown = ERROR): Case {
  return { ask, status: 400, form: error, ...differs !== undefined && { differs } };
}

const refusedFormat = (format: unknown, differs?: string) =>
  refused(
    chat({ max_tokens: 1, messages: [user("Write an example")], response_format: format }),
    differs,
  );

/** Tokens with their logarithms: the fields of a chat. */
function checkLogprobs(content: readonly Json[], top: number): string {
  for (const one of content) {
    assert(one.logprob <= 0 && Array.isArray(one.bytes), JSON.stringify(one));
    assertEquals(one.top_logprobs.length, top);
    for (const other of one.top_logprobs) {
      // Special tokens have no bytes.
      assert(TEXT(other.token) && other.logprob <= 0 && other.bytes !== undefined);
    }
  }
  return new TextDecoder().decode(Uint8Array.from(content.flatMap(({ bytes }) => bytes)));
}

/** The text of a completion. */
async function textOf({ ask }: Tools, body: object): Promise<string> {
  const answer = await ask(complete({ max_tokens: 16, ...body }));
  assertEquals(answer.status, 200, JSON.stringify(answer.body));
  return answer.body.choices[0].text;
}

const completed = (prompt: string, most: number): Case => ({
  ask: complete({ prompt, max_tokens: most }),
  status: 200,
  form: {
    ...{ id: ID, object: "text_completion", model: "chat" },
    choices: [{ index: 0, text: TEXT, finish_reason: END }],
  },
  check({ body: { usage, choices } }, { tokens }) {
    assertEquals(usage.prompt_tokens, tokens(prompt).length);
    assert(choices[0].finish_reason === "stop" || usage.completion_tokens === most);
  },
  differs: "the path is OpenAI's, max_tokens stands for n_predict, usage for timings",
});

const completedInParts = (prompt: string, most: number): Case => ({
  ask: complete({ prompt, max_tokens: most, stream: true, seed: 42 }),
  status: 200,
  check({ events }) {
    const choices = events.map(({ choices: [choice] }) => choice);
    assert(choices.every(({ text }) => TEXT(text)));
    const ends = choices.map(({ finish_reason }) => finish_reason);
    assert(END(ends.at(-1)) && ends.slice(0, -1).every(ABSENT));
    assert(choices.map(({ text }) => text).join("").length > 0);
  },
  differs: "events have choices as OpenAI's",
});

/** Vectors of length 1, as many as there are texts. */
function embedded(input: unknown, count: number, differs?: string): Case {
  return {
    ask: embed({ input }),
    status: 200,
    form: {
      ...{ object: "list", model: "embeddings" },
      usage: { prompt_tokens: COUNT, total_tokens: COUNT },
    },
    check({ body: { data, usage } }) {
      assertEquals(data.map(({ index }: Json) => index), [...Array(count).keys()]);
      for (const { object, embedding } of data) {
        assertEquals(object, "embedding");
        assert(embedding.length > 1 && Math.abs(Math.hypot(...embedding) - 1) < 1e-3);
      }
      assertEquals(usage.prompt_tokens, usage.total_tokens);
    },
    ...differs !== undefined && { differs },
  };
}

const TEXTS = [
  MEANING,
  "Write a joke about AI from a very long prompt which will not be truncated",
  "This is a test",
  "This is another test",
];

const PASSAGES = [
  "w1 machine is a physical w2 that uses w3 to apply forces and control w4",
  "w5 is the process of w6 new understanding, knowledge, w7, skills and w8",
  "w1 w5 is a field of w9 in artificial w10 concerned with the w11",
  "Paris, capitale de la France, est une grande w12 européenne",
];

function ranked(body: object, count: number): Case {
  return {
    ask: rank({ query: "w1 w5 is", documents: PASSAGES, ...body }),
    status: 200,
    check({ body: { results, usage } }) {
      assertEquals(results.length, count);
      const scores: number[] = results.map((result: Json) => result.relevance_score);
      assertEquals(scores, scores.toSorted((a, b) => b - a));
      const places: number[] = results.map(({ index }: Json) => index);
      assertEquals(new Set(places).size, count);
      assert(places.every((place) => place >= 0 && place < PASSAGES.length));
      assert(COUNT(usage.prompt_tokens) && usage.prompt_tokens === usage.total_tokens);
    },
  };
}

/** Without CORS, a page of another origin gets no header that lets it read. */
const noCors = (origin: string): Case => ({
  ask: {
    ...{ method: "OPTIONS", path: "/v1/completions", server: "closed" },
    headers: {
      ...{ origin, "access-control-request-method": "POST" },
      "access-control-request-headers": "Authorization",
    },
  },
  status: 405,
  check({ headers }) {
    const names = [...headers.keys()].filter((name) => name.startsWith("access-control-"));
    assertEquals(names, []);
  },
  differs: "there is no CORS",
});

const image = (url: string): Case =>
  refused(
    chat({
      max_tokens: 1,
      messages: [user([{ type: "text", text: "test" }, { type: "image_url", image_url: { url } }])],
    }),
  );

/** The samples of metrics by name, without those of other labels. */
async function samples({ ask }: Tools): Promise<Record<string, number>> {
  const { status, body } = await ask(get("/metrics"));
  assertEquals(status, 200);
  const all: Record<string, number> = {};
  for (const line of (body as string).split("\n")) {
    const [, name, value] = /^(\w+)(?:\{[^}]*\})? (\S+)$/.exec(line) ?? [];
    if (name !== undefined) all[name] = (all[name] ?? 0) + Number(value);
  }
  return all;
}

const TEST_TOOL = {
  type: "function",
  function: {
    ...{ name: "test", description: "" },
    parameters: {
      type: "object",
      properties: { success: { type: "boolean", const: true } },
      required: ["success"],
    },
  },
};
const PYTHON_TOOL = {
  type: "function",
  function: {
    ...{ name: "python", description: "Runs code and returns its result." },
    parameters: {
      type: "object",
      properties: { code: { type: "string", description: "The code to run." } },
      required: ["code"],
    },
  },
};

/** Chats without a call of a function, in one piece and streamed. */
function withoutCall(body: object): Case[] {
  const whole = {
    ...{ max_tokens: 32, seed: 42, ...body },
    messages: [
      system("You are a coding assistant."),
      user("say hello world with python"),
    ],
  };
  return [{
    ask: chat(whole),
    status: 200,
    form: { choices: [{ message: { content: TEXT, tool_calls: ABSENT }, finish_reason: END }] },
  }, {
    ask: chat({ ...whole, stream: true }),
    status: 200,
    check({ events }) {
      assert(events.length > 1);
      assert(events.every(({ choices }) => ABSENT(choices[0].delta.tool_calls)));
    },
  }];
}

/** The cases of each test, by file and name, in their order. */
export const TESTS: Readonly<Record<string, Readonly<Record<string, readonly Case[]>>>> = {
  basic: {
    server_start_simple: [{ ask: get("/health"), status: 200, form: { status: "ok" } }],
    server_multiple_addresses: [leftOut(1, "a program listens; keys and streams have rows below")],
    server_props: [leftOut(1, OWN)],
    server_models: [{
      ask: get("/v1/models"),
      status: 200,
      form: {
        object: "list",
        data: ["chat", "embeddings", "rerank"].map((id) => ({ id, object: "model" })),
      },
      differs: "the path begins with /v1; several models may be served",
    }],
    server_slots: [leftOut(1, `${OWN}: /metrics has the numbers`)],
    load_split_model: [leftOut(1, NET)],
    no_ui: [{ ask: get("/"), status: 404, differs: "the page is in routes of its own" }],
    server_model_aliases_and_tags: [leftOut(1, "names are those that the program gives")],
  },
  chat_completion: {
    chat_completion: [
      answered([system("Book"), user("Hey")], 8),
      answered(BOOK, 8),
      answered(CODE, 128),
      answered([
        system("Book"),
        user([{ type: "text", text: "What is" }, { type: "text", text: "the best book" }]),
      ], 8),
      leftOut(
        6,
        "the same requests with other templates and without Jinja, which tests/tokenizers has",
      ),
    ],
    chat_completion_cached_tokens: [{
      async run({ ask, engine }) {
        const long = "1 2 3 4 5 6 ".repeat(12);
        for (const [end, least] of [["6", 0], ["6", 96], ["9", 96]] as const) {
          const before = engine().reused;
          const { body } = await ask(
            chat({ max_tokens: 8, messages: [system("Test of beginnings"), user(long + end)] }),
          );
          const kept = engine().reused - before;
          const count = body.usage.prompt_tokens;
          assert(kept >= least && kept < count && kept % 32 === 0, `${kept} of ${count}`);
        }
      },
      differs: "the number is that of the engine; beginnings are kept in pages of 32 tokens",
    }],
    chat_completion_stream: [streamed(BOOK, 8), streamed(CODE, 128)],
    chat_completion_with_openai_library: [LIBRARY],
    chat_template: [leftOut(1, `${OWN}: answers do not show prompts`)],
    chat_template_assistant_prefill: [
      leftOut(2, `${OWN}: an answer is a message of its own, as OpenAI has it`),
    ],
    chat_template_continue_final_message_vllm_compat: [leftOut(1, "a field of vLLM")],
    chat_template_continue_final_message_mutual_exclusion: [leftOut(1, "fields of vLLM")],
    apply_chat_template: [leftOut(1, OWN)],
    completion_with_response_format: [
      inFormat(schema({ const: "42" }), 6, /^"42"$/, SCHEMA),
      inFormat(
        schema({ type: "array", items: { type: "integer" } }),
        10,
        /^\[[-\s\d,]*\]?$/,
        SCHEMA,
      ),
      inFormat(schema({ const: "foooooo" }), 12, /^"foooooo"$/),
      inFormat({ type: "json_object" }, 10, /^\s*\{/),
      refusedFormat({ type: "sound" }),
      refusedFormat(schema(123), SCHEMA),
      refusedFormat(schema({ type: 123 }), SCHEMA),
      refusedFormat(schema({ type: "hiccup" }), SCHEMA),
    ],
    completion_with_json_schema: [leftOut(2, `${OWN}: response_format has schemas`)],
    completion_with_grammar: [leftOut(2, OWN)],
    completion_with_invalid_grammar: [leftOut(1, OWN)],
    invalid_chat_completion_req: [
      ...[
        ...[null, "string", [123], [{}], [{ role: 123 }], [system(123)], [system("test"), {}]],
      ].map((messages) => refused(chat({ messages }))),
      {
        ...answered([user("test"), assistant("test"), assistant("test")], 8),
        differs: "two messages of the model in a row are no error",
      },
    ],
    chat_completion_with_timings_per_token: [leftOut(1, OWN)],
    logprobs: [{
      ask: chat({
        temperature: 0,
        messages: BOOK,
        max_tokens: 5,
        logprobs: true,
        top_logprobs: 10,
      }),
      status: 200,
      check({ body: { choices: [{ message, logprobs }] } }) {
        assertEquals(checkLogprobs(logprobs.content, 10), message.content);
      },
    }],
    logprobs_stream: [{
      ask: chat({
        ...{ temperature: 0, messages: BOOK, max_tokens: 5, logprobs: true, top_logprobs: 10 },
        stream: true,
      }),
      status: 200,
      check({ events }) {
        const choices = events.flatMap(({ choices }) => choices);
        const text = choices.map(({ delta }) => delta.content ?? "").join("");
        const all = choices.flatMap(({ logprobs }) => logprobs?.content ?? []);
        assert(all.length > 0);
        assertEquals(checkLogprobs(all, 10), text);
      },
    }],
    logit_bias: [{
      async run({ ask, tokens }) {
        const whole = { temperature: 0, messages: BOOK, max_tokens: 24 };
        const before = (await ask(chat(whole))).body.choices[0].message.content;
        const bias = Object.fromEntries(tokens(before).map((id) => [id, -100]));
        const after = await ask(chat({ ...whole, logit_bias: bias }));
        assertEquals(after.status, 200);
        const text = after.body.choices[0].message.content;
        assert(text !== before);
        // Ids of the new text, cut as the model gave them, are none of the forbidden ones.
        const { body } = await ask(
          chat({ ...whole, logit_bias: bias, logprobs: true, top_logprobs: 0 }),
        );
        const given = body.choices[0].logprobs.content.map(({ token }: Json) => token);
        const pieces = new Set([...before.matchAll(/[ -~]/g)].map(([letter]) => letter));
        for (const id of Object.keys(bias)) assert(Number.isInteger(Number(id)));
        assert(!given.some((token: string) => token.length === 1 && pieces.has(token)), text);
      },
    }],
    context_size_exceeded: [{
      ...refused(chat({ messages: Array(100).fill(BOOK).flat() })),
      form: { error: { type: "invalid_request_error", code: "context_length_exceeded" } },
      differs: "the error is OpenAI's",
    } as Case],
    context_size_exceeded_stream: [{
      ...refused(chat({ messages: Array(100).fill(BOOK).flat(), stream: true })),
      form: { error: { type: "invalid_request_error", code: "context_length_exceeded" } },
      differs: "the error is OpenAI's",
    } as Case],
    return_progress: [leftOut(2, OWN)],
    chat_completions_multiple_choices: [{
      async run({ ask }) {
        for (let i = 0; i < 2; i++) {
          const { status, body } = await ask(chat({ messages: BOOK, max_tokens: 8, n: 2 }));
          assertEquals(status, 200);
          const form = [0, 1].map((index) => ({
            ...{ index, message: { role: "assistant", content: TEXT }, finish_reason: END },
          }));
          assert(fits(body.choices, form), JSON.stringify(body));
        }
      },
    }],
    chat_completions_token_count: [leftOut(1, OWN)],
    verbose_debug: [leftOut(1, OWN)],
  },
  completion: {
    completion: [completed(MEANING, 8), completed(TEXTS[1]!, 64)],
    completion_stream: [completedInParts(MEANING, 8), completedInParts(TEXTS[1]!, 64)],
    completion_stream_vs_non_stream: [{
      async run({ ask }) {
        const body = { prompt: MEANING, max_tokens: 8, seed: 42 };
        const { events } = await ask(complete({ ...body, stream: true }));
        const whole = await ask(complete(body));
        const text = events.map(({ choices: [choice] }) => choice.text).join("");
        assertEquals(text, whole.body.choices[0].text);
      },
    }],
    completion_with_openai_library: [LIBRARY],
    completion_stream_with_openai_library: [LIBRARY],
    completion_stream_with_openai_library_stops: [leftOut(1, NET)],
    consistent_result_same_seed: [{
      async run(tools) {
        const texts = new Set<string>();
        for (let i = 0; i < 4; i++) {
          texts.add(await textOf(tools, { prompt: MEANING, seed: 42, temperature: 0 }));
        }
        assertEquals(texts.size, 1);
      },
    }, leftOut(1, "the same with other slots, which tests/llm/engine_test.ts has")],
    different_result_different_seed: [{
      async run(tools) {
        const texts = new Set<string>();
        for (let seed = 0; seed < 4; seed++) {
          texts.add(await textOf(tools, { prompt: MEANING, seed, temperature: 1 }));
        }
        assertEquals(texts.size, 4);
      },
    }, leftOut(1, "the same with other slots")],
    consistent_result_different_batch_size: [
      leftOut(2, "chunks of prompts have one size; tests/llm/engine_test.ts compares texts"),
    ],
    cache_vs_nocache_prompt: [{
      async run(tools) {
        const prompt = "the beginning that is kept ".repeat(6);
        const body = { prompt, seed: 42, temperature: 1 };
        assertEquals(await textOf(tools, body), await textOf(tools, body));
      },
      differs: "skipped there as it fails; here the text is the same",
    }],
    nocache_long_input_prompt: [
      refused(complete({ prompt: MEANING.repeat(64), seed: 42, temperature: 1 })),
    ],
    json_prompt_no_mtmd: [
      refused(
        complete({ prompt: { prompt_string: MEANING } }),
        `${OWN}: a prompt is text or tokens`,
      ),
    ],
    json_prompt_mtm_error_when_not_supported: [
      refused(complete({ prompt: { prompt_string: MEANING, multimodal_data: "iVBORw0K" } })),
    ],
    completion_with_tokens_input: [{
      async run({ ask, tokens }) {
        const ids = tokens(MEANING);
        const own = { max_tokens: 8, temperature: 0 };
        const one = await ask(complete({ ...own, prompt: ids }));
        assertEquals(one.status, 200, JSON.stringify(one.body));
        const { text } = one.body.choices[0];
        const same = await ask(complete({ ...own, prompt: MEANING }));
        assertEquals(same.body.choices[0].text, text);
        const two = await ask(complete({ ...own, prompt: [ids, ids] }));
        assertEquals(two.body.choices.map((choice: Json) => choice.text), [text, text]);
        const texts = await ask(complete({ ...own, prompt: [MEANING, MEANING] }));
        assertEquals(texts.body.choices.map((choice: Json) => choice.text), [text, text]);
        for (const mixed of [[...ids, MEANING], [ids, { prompt_string: MEANING }]]) {
          assertEquals((await ask(complete({ ...own, prompt: mixed }))).status, 400);
        }
      },
      differs: "text among tokens, and objects, are refused",
    }],
    completion_parallel_slots: [{
      async run(tools) {
        const prompts = [
          ...["Write a very long book.", "Write another a poem.", "What is LLM?"],
          "The sky is blue and I love it.",
          "Write another very long music lyrics.",
          "Write a very long joke.",
        ];
        const ask = (prompt: string) => textOf(tools, { prompt, seed: 42, temperature: 1 });
        const alone: string[] = [];
        for (const prompt of prompts) alone.push(await ask(prompt));
        assertEquals(await Promise.all(prompts.map(ask)), alone);
      },
      differs: "texts are the same alone and together",
    }, leftOut(4, "the same with other numbers of slots, which tests/llm/engine_test.ts has")],
    completion_unified: [leftOut(4, "texts wait until the cache has room for all of their tokens")],
    completion_response_fields: [leftOut(2, OWN)],
    n_probs: [{
      ask: complete({ prompt: MEANING, logprobs: 5, temperature: 0, max_tokens: 5 }),
      status: 200,
      check({ body: { choices: [{ text, logprobs }] } }) {
        const { tokens, token_logprobs: values, top_logprobs: top, text_offset: at } = logprobs;
        assert(tokens.length > 0 && tokens.length <= 5);
        assertEquals([values.length, top.length, at.length], Array(3).fill(tokens.length));
        assert(values.every((value: number) => value <= 0));
        assert(top.every((one: object) => fits(Object.keys(one).length, atMost(5))));
        assert(TEXT(text));
      },
      differs: "the form is OpenAI's, which has at most 5",
    }],
    n_probs_stream: [{
      ask: complete({ prompt: MEANING, logprobs: 5, temperature: 0, max_tokens: 5, stream: true }),
      status: 200,
      check({ events }) {
        const all = events.flatMap(({ choices: [choice] }) => choice.logprobs?.tokens ?? []);
        assert(all.length > 0 && all.length <= 5);
      },
      differs: "the form is OpenAI's",
    }],
    n_probs_post_sampling: [leftOut(1, OWN)],
    n_probs_post_backend_sampling: [leftOut(1, OWN)],
    logit_bias: [{
      async run(tools) {
        const body = { prompt: "What is the best book", temperature: 0, max_tokens: 16 };
        const first = await textOf(tools, body);
        const ids = tools.tokens(first);
        const bias = Object.fromEntries(ids.map((id) => [id, -100]));
        assert(await textOf(tools, { ...body, logit_bias: bias }) !== first);
      },
    }, leftOut(3, `${OWN}: words as keys, and lists of pairs`)],
    cancel_request: [{
      async run({ ask, engine }) {
        const before = engine().cancelled;
        const signal = AbortSignal.timeout(30);
        const body = { prompt: MEANING, max_tokens: 400, logit_bias: { 1: -100 } };
        await ask(complete(body, { signal })).catch(() => {});
        for (let i = 0; i < 200 && engine().active > 0; i++) await delay(5);
        assertEquals([engine().active, engine().cancelled], [0, before + 1]);
      },
    }],
    completion_prompt_cache: [{
      async run({ ask, tokens }) {
        for (let i = 0; i < 16; i++) {
          const repeats = 20 + i * 7 % 5;
          const prompt = ` Hello ${i * 7 % 5}`.repeat(repeats);
          const most = 1 + i * 5 % 8;
          const { status, body } = await ask(complete({ prompt, max_tokens: most }));
          assertEquals(status, 200);
          assertEquals(body.usage.prompt_tokens, tokens(prompt).length);
          assert(atMost(most)(body.usage.completion_tokens));
        }
      },
    }],
  },
  embedding: {
    embedding_single: [embedded(MEANING, 1)],
    embedding_multiple: [embedded(TEXTS, 4)],
    embedding_multiple_with_fa: [leftOut(1, "lengths at which llama.cpp takes another kernel")],
    embedding_mixed_input: [
      refused(embed({ input: "" }), "an empty text is an error, as OpenAI has it"),
      embedded("string", 1),
      embedded([12, 34, 56], 1),
      refused(embed({ input: [12, 34, "string", 56, 78] }), "text among tokens is refused"),
      embedded(["string1", "string2"], 2),
      embedded(["string1", [12, 34, 56]], 2),
      embedded([[12, 34, 56], [12, 34, 56]], 2),
      refused(embed({ input: [[12, 34, 56], [12, "string", 34, 56]] }), "text among tokens"),
      refused(embed({ input: { prompt_string: "string" } }), OWN),
      refused(embed({ input: { content: [{ type: "text", text: "string" }] } }), OWN),
      refused(embed({ input: ["string1", { prompt_string: "string2" }] }), OWN),
    ],
    embedding_content_text_same_as_string: [leftOut(1, OWN)],
    embedding_invalid_input: [
      [],
      { content: "string" },
      { content: [{ type: "unknown" }] },
      { content: [{ type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } }] },
      { content: [{ type: "input_audio", input_audio: { data: "AAAA", format: "wav" } }] },
      { content: [{ type: "input_video", input_video: { url: "data:video/mp4;base64,AAAA" } }] },
    ].map((input) => refused(embed({ input }))),
    embedding_pooling_mean: [leftOut(1, "the files of a model say how it pools")],
    embedding_pooling_mean_multiple: [leftOut(1, "the files of a model say how it pools")],
    embedding_pooling_none: [leftOut(1, OWN)],
    embedding_pooling_none_oai: [leftOut(1, OWN)],
    embedding_openai_library_single: [LIBRARY],
    embedding_openai_library_multiple: [LIBRARY],
    embedding_error_prompt_too_long: [refused(embed({ input: "This is a test ".repeat(512) }))],
    same_prompt_give_same_result: [{
      async run({ ask }) {
        const { body } = await ask(embed({ input: Array(5).fill(MEANING) }));
        const [first, ...others]: number[][] = body.data.map(({ embedding }: Json) => embedding);
        assertEquals(others.length, 4);
        for (const one of others) {
          one.forEach((value, i) => assert(Math.abs(value - first![i]!) < 1e-3));
        }
      },
    }],
    embedding_usage_single: [[MEANING, 9], ["This is a test", 6]].map(([input, count]): Case => ({
      ask: embed({ input }),
      status: 200,
      form: { usage: { prompt_tokens: count, total_tokens: count } },
    })),
    embedding_usage_multiple: [{
      ask: embed({ input: [MEANING, MEANING] }),
      status: 200,
      form: { usage: { prompt_tokens: 18, total_tokens: 18 } },
    }],
    embedding_openai_library_base64: [{
      async run({ ask }) {
        const input = "Test base64 embedding output";
        const plain = (await ask(embed({ input }))).body.data[0].embedding;
        const { body } = await ask(embed({ input, encoding_format: "base64" }));
        const bytes = Uint8Array.from(atob(body.data[0].embedding), (c) => c.charCodeAt(0));
        const numbers = new Float32Array(bytes.buffer);
        assertEquals(numbers.length, plain.length);
        numbers.forEach((value, i) => assert(Math.abs(value - plain[i]) < 1e-6));
      },
    }],
    embedding_invalid_request: [
      { input: [] },
      { input: true },
      { input: "hello", encoding_format: 1 },
    ].map((body) => refused(embed(body))),
  },
  rerank: {
    rerank: [ranked({}, 4)],
    rerank_tei_format: [leftOut(1, "the form of another server")],
    invalid_rerank_req: [[], null, 123, [1, 2, 3]].map((documents) =>
      refused(rank({ query: "w1 w5 is", documents }))
    ),
    rerank_usage: [
      ["w1 w5 is", "w2 machine", "w5 is"],
      ["Which w6?", "w1 w5 is ", "Paris, w7 de la"],
    ].map(([query, ...documents]): Case => ({
      ask: rank({ query, documents }),
      status: 200,
      check({ body: { usage } }) {
        assert(COUNT(usage.prompt_tokens) && usage.prompt_tokens === usage.total_tokens);
      },
    })),
    rerank_top_n: [
      ranked({}, 4),
      ranked({ top_n: 2 }, 2),
      ranked({ top_n: 4 }, 4),
      ranked({ top_n: 99 }, 4),
    ],
    rerank_tei_top_n: [leftOut(4, "the form of another server")],
  },
  security: {
    access_public_endpoint: [{
      ask: get("/health", { server: "closed" }),
      status: 200,
      form: { error: ABSENT },
    }],
    access_static_assets_without_api_key: [{ elsewhere: "the tests of the page" }],
    incorrect_api_key: ["", "Bearer invalid-key"].map((authorization): Case => ({
      ask: complete({ prompt: MEANING }, { headers: { authorization }, server: "closed" }),
      status: 401,
      form: { error: { type: "authentication_error" } },
    })),
    correct_api_key: [{
      ask: complete({ prompt: MEANING, max_tokens: 4 }, {
        ...{ headers: { authorization: `Bearer ${KEY}` }, server: "closed" },
      }),
      status: 200,
      form: { error: ABSENT, choices: [{ text: TEXT }] },
    }],
    correct_api_key_anthropic_header: [{
      ask: complete({ prompt: MEANING }, { headers: { "x-api-key": KEY }, server: "closed" }),
      status: 401,
      differs: "keys are sent as OpenAI's clients do",
    }],
    openai_library_correct_api_key: [LIBRARY],
    cors_options: ["localhost", "web.mydomain.fr", "origin", "web.mydomain.fr", "web.mydomain.fr"]
      .map(noCors),
    cors_origins_localhost_reflects: [leftOut(6, "there is no CORS")],
    cors_origins_localhost_rejects: [
      ...["http://web.mydomain.fr", "http://evil.com"],
      ...["http://notlocalhost", "http://localhost.evil.com"],
    ].map(noCors),
    cors_origins_defaults_to_localhost_with_tools_enabled: [leftOut(1, "there is no CORS")],
    cors_proxy_only_forwards_explicit_proxy_headers: [leftOut(1, OWN)],
    local_media_file: [
      image("file://mtmd/test-1.jpeg"),
      image("file://mtmd/notfound.jpeg"),
      image("file://../mtmd/test-1.jpeg"),
      leftOut(2, `${OWN}: pictures in files`),
    ],
  },
  metrics: {
    metrics_disabled: [{ ask: get("/metrics", { server: "bare" }), status: 501 }],
    metrics_prometheus_format: [{
      async run({ ask }) {
        await ask(complete({ prompt: "I believe", max_tokens: 8 }));
        const { body, headers } = await ask(get("/metrics"));
        assert(headers.get("content-type")!.startsWith("text/plain"));
        const names = new Set<string>();
        for (
          const [, name] of (body as string).matchAll(
            /^(rowmajor_\w+?)(?:_bucket|_sum|_count)?[ {]/gm,
          )
        ) {
          names.add(name!);
        }
        assert(names.size > 10, [...names].join());
        for (const name of names) {
          assert(body.includes(`# HELP ${name} `) && body.includes(`# TYPE ${name} `), name);
          if (name.endsWith("_total")) assert(body.includes(`# TYPE ${name} counter`), name);
        }
      },
      differs: "names begin with rowmajor_",
    }],
    metrics_prompt_processed_and_cached: [{
      async run(tools) {
        const prompt = "the quick brown fox jumps over the lazy dog ".repeat(4);
        const before = await samples(tools);
        const reused = tools.engine().reused;
        let processed = 0;
        for (let i = 0; i < 2; i++) {
          const { body: { usage } } = await tools.ask(complete({ prompt, max_tokens: 4 }));
          processed += usage.prompt_tokens;
        }
        const cached = tools.engine().reused - reused;
        assert(cached > 0);
        const after = await samples(tools);
        const more = (name: string) => after[name]! - (before[name] ?? 0);
        assertEquals(more("rowmajor_prompt_tokens_total"), processed);
        assertEquals(more("rowmajor_reused_tokens_total"), cached);
      },
      differs: "names; tokens of prompts count all",
    }],
    metrics_predicted_total_matches_requests: [{
      async run(tools) {
        const before = await samples(tools);
        let made = 0;
        for (const most of [1, 4, 16]) {
          const { body } = await tools.ask(complete({ prompt: "I believe", max_tokens: most }));
          made += body.usage.completion_tokens;
        }
        const after = await samples(tools);
        const name = "rowmajor_completion_tokens_total";
        assertEquals(after[name]! - (before[name] ?? 0), made);
      },
    }],
    metrics_generation_rate_excludes_first_token: [leftOut(1, OWN)],
    metrics_timings_are_finite: [leftOut(2, OWN)],
    metrics_timings_on_prompt_progress: [leftOut(1, OWN)],
    metrics_slots_idle_after_completion: [{
      async run(tools) {
        await tools.ask(complete({ prompt: "I believe", max_tokens: 8 }));
        assertEquals((await samples(tools))["rowmajor_running_texts"], 0);
      },
      differs: "the numbers are in /metrics",
    }],
    metrics_embedding_prompt_is_counted: [{
      async run(tools) {
        const name = "rowmajor_prompt_tokens_total";
        const before = (await samples(tools))[name] ?? 0;
        const { body } = await tools.ask(embed({ input: ["hello world", "goodbye world"] }));
        assertEquals((await samples(tools))[name]! - before, body.usage.prompt_tokens);
      },
    }],
  },
  stream: {
    stream_resume_and_stop_with_slashed_model_name: [leftOut(1, `${OWN}: streams to resume`)],
    stream_stop_during_model_load: [leftOut(1, `${OWN}: models that load while it serves`)],
    stream_resumes_after_reload_during_model_load: [leftOut(1, `${OWN}: streams to resume`)],
  },
  tool_call: {
    completion_with_required_tool_real_model: [leftOut(70, NET)],
    completion_without_tool_call_fast: [
      ...withoutCall({ tools: [] }),
      ...withoutCall({ tools: [TEST_TOOL] }),
      ...withoutCall({ tools: [PYTHON_TOOL], tool_choice: "none" }),
    ],
    completion_without_tool_call_slow: [leftOut(18, "the same with other templates")],
    weather: [leftOut(38, NET)],
    calc_result: [leftOut(22, NET)],
    thoughts: [leftOut(8, NET)],
    hello_world: [leftOut(40, NET)],
  },
  tokenize: {
    tokenize_detokenize: [leftOut(1, `${OWN}: tests/tokenizers`)],
    tokenize_with_bos: [leftOut(1, `${OWN}: tests/tokenizers`)],
    tokenize_with_pieces: [leftOut(1, `${OWN}: tests/tokenizers`)],
  },
};

/** The cases that each file has there. */
export const CASES: Readonly<Record<string, number>> = {
  ...{ basic: 8, chat_completion: 52, completion: 40, embedding: 36, rerank: 16, security: 29 },
  ...{ metrics: 10, stream: 3, tool_call: 202, tokenize: 3 },
};

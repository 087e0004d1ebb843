/**
 * Functions that a model calls in a chat. The model has random weights; a constraint makes it say what
 * a test wants.
 *
 * @module
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { ArgumentError } from "../../mod.ts";
import { modelFolder } from "../../scripts/models.ts";
import { choices } from "../../src/constraints/mod.ts";
import type * as llm from "../../src/llm/mod.ts";
import { Chat, type Message, type Tool } from "../../src/models/mod.ts";
import type { Tokenizer } from "../../src/tokenizers/mod.ts";
import { randomLlama } from "../support/llama.ts";
import { loose } from "../support.ts";

const MESSAGES = `{%- if tools %}<|begin|>tools
{%- for tool in tools %} {{ tool | tojson }}{% endfor %}<|end|>{% endif -%}
{%- for m in messages -%}
<|begin|>{{ m.role }} {{ m.content }}{% if m.tool_calls %}{% for c in m.tool_calls %}CALL<|end|>
{%- endfor %}{% else %}<|end|>{% endif %}
{%- endfor %}{% if add_generation_prompt %}<|begin|>assistant {% endif %}`;

/** A template of a family: its form of a call takes the place of CALL. */
const TEMPLATES = {
  hermes: MESSAGES.replace("CALL", "<tool_call>{{ c.function | tojson }}</tool_call>"),
  mistral: MESSAGES.replace("CALL", "[TOOL_CALLS][{{ c.function | tojson }}]"),
  llama: MESSAGES.replace("CALL", "<|python_tag|>{{ c.function | tojson }}"),
};

const sizes = { layers: 1, width: 64, heads: 4, groups: 2, hidden: 64, vocabulary: 320 };
const models = Object.fromEntries(
  Object.entries(TEMPLATES).map(([name, template]) => [
    name,
    { "model.gguf": randomLlama("q8_0", { ...sizes, template, context: 4096 }) },
  ]),
);

/** A constraint by which the answers are these, one after the other. */
function saying(tokenizer: Tokenizer, ...answers: readonly string[]): llm.Constraint {
  let next = 0;
  return {
    async start(context) {
      const answer = answers[next++];
      assert(answer !== undefined, "the model was asked too often");
      return await (await choices([answer], tokenizer)).start(context);
    },
  };
}

/** A function that notes its calls. */
function weather(calls: unknown[] = []): Tool {
  return {
    name: "weather",
    description: "The weather of a city",
    parameters: {
      type: "object",
      properties: {
        city: { type: "string" },
        days: { type: "integer", minimum: 1 },
        unit: { enum: ["C", "F"] },
      },
      required: ["city"],
    },
    call(args) {
      calls.push(args);
      return { degrees: 20 + calls.length };
    },
  };
}

/** Messages without the names of calls, which are random, but which have to fit. */
function withoutIds(messages: readonly Message[]): unknown[] {
  const open: string[] = [];
  return messages.map((message) => {
    const { tool_call_id: id, tool_calls: calls, ...rest } = loose(message);
    if (id !== undefined) assertEquals(open.shift(), id);
    if (!Array.isArray(calls)) return rest;
    return {
      ...rest,
      calls: calls.map(({ id, type, function: f }) => {
        assert(/^[a-z0-9]{9}$/.test(id) && type === "function");
        open.push(id);
        return [f.name, f.arguments];
      }),
    };
  });
}

test("a model calls a function, and answers with its result", async () => {
  using chat = await Chat.open(models["hermes"]!);
  const calls: unknown[] = [];
  const call = '<tool_call>\n{"name": "weather", "arguments": {"city": "Rome"}}\n</tool_call>';
  const constraint = saying(chat.tokenizer, `Let me see.\n${call}`, "It is 21 degrees.");
  const pieces: string[] = [];
  for await (const piece of chat.stream("Rome?", { tools: [weather(calls)], constraint })) {
    pieces.push(piece);
  }
  assertEquals(pieces.join(""), "Let me see.\nIt is 21 degrees.");
  assertEquals(calls, [{ city: "Rome" }]);
  assertEquals(withoutIds(chat.messages), [
    { role: "user", content: "Rome?" },
    { role: "assistant", content: "Let me see.", calls: [["weather", { city: "Rome" }]] },
    { role: "tool", name: "weather", content: '{"degrees":21}' },
    { role: "assistant", content: "It is 21 degrees." },
  ]);
  // The next turn knows of all that, and needs no tools.
  const next = saying(chat.tokenizer, "You are welcome.");
  assertEquals(await chat.ask("Thanks", { constraint: next }), "You are welcome.");
  assertEquals(chat.messages.length, 6);
});

test("the forms of families, several calls and rounds", async () => {
  const one = '{"name": "weather", "arguments": {"city": "A"}}';
  const other = '{"name": "weather", "arguments": {"city": "B"}}';
  const forms: Record<string, string[]> = {
    hermes: [
      `<tool_call>${one}</tool_call>\n<tool_call>\n${other}`,
      `<tool_call>[${one}, ${other}]</tool_call>`,
    ],
    mistral: [
      `[TOOL_CALLS][${one}, ${other}]`,
      '[TOOL_CALLS]weather[ARGS]{"city": "A"}[TOOL_CALLS]weather[CALL_ID]x1[ARGS]{"city": "B"}',
    ],
    llama: [
      `<|python_tag|>${one}; ${other}`,
      `${one.replace("arguments", "parameters")}\n${other}`,
      `  ${one.replace('{"city": "A"}', JSON.stringify('{"city": "A"}'))};${other}`,
    ],
  };
  for (const [name, texts] of Object.entries(forms)) {
    using chat = await Chat.open(models[name]!);
    for (const text of texts) {
      chat.messages = [];
      const calls: unknown[] = [];
      const constraint = saying(chat.tokenizer, text, text, "done");
      assertEquals(await chat.ask("?", { tools: [weather(calls)], constraint }), "done");
      assertEquals(calls, [{ city: "A" }, { city: "B" }, { city: "A" }, { city: "B" }], text);
      const roles = chat.messages.map(({ role }) => role[0]).join("");
      assertEquals(roles, name === "llama" ? "uatatatata" : "uattatta");
      withoutIds(chat.messages);
    }
  }
});

test("what is wrong with a call is its result", async () => {
  using chat = await Chat.open(models["hermes"]!);
  const tools: Tool[] = [
    weather(),
    {
      name: "fails",
      call: () => {
        throw new RangeError("out of order");
      },
    },
    { name: "nothing", call: () => Promise.resolve(undefined) },
    { name: "text", call: async () => await Promise.resolve("plain") },
  ];
  const cases: [call: string, result: string][] = [
    ['{"name": "weather", "arguments": {}}', 'Error: wrong arguments: the value has no "city"'],
    ['{"name": "weather", "arguments": {"city": 3}}', "Error: wrong arguments: city is 3, not of"],
    ['{"name": "weather", "arguments": {"city": "A", "days": 0}}', "Error: wrong arguments: days"],
    [
      '{"name": "weather", "arguments": {"city": "A", "unit": "K"}}',
      "Error: wrong arguments: unit",
    ],
    ['{"name": "weather", "arguments": [1]}', "Error: the arguments are not an object"],
    ['{"name": "other", "arguments": {}}', 'Error: there is no function "other", only weather, '],
    ['{"arguments": {}}', "Error: the call has no name"],
    ['{"name": "weather", "argum', "Error: the call is not JSON"],
    ['{"name": "fails"}', "Error: out of order"],
    ['{"name": "nothing"}', "null"],
    ['{"name": "text", "arguments": "{}"}', "plain"],
  ];
  for (const [call, result] of cases) {
    chat.messages = [];
    const constraint = saying(chat.tokenizer, `<tool_call>${call}</tool_call>`, "sorry");
    assertEquals(await chat.ask("?", { tools, constraint }), "sorry");
    const content = String(chat.messages[2]!.content);
    assert(content.startsWith(result), `${content} for ${call}`);
  }
});

test("after some rounds the model has to answer; answers that look like calls are texts", async () => {
  using chat = await Chat.open(models["hermes"]!);
  const call = '<tool_call>{"name": "weather", "arguments": {"city": "A"}}</tool_call>';
  const calls: unknown[] = [];
  const options = { tools: [weather(calls)], toolRounds: 2 };
  const constraint = saying(chat.tokenizer, call, call, call);
  assertEquals(await chat.ask("?", { ...options, constraint }), call);
  assertEquals([calls.length, chat.messages.length], [2, 6]);
  const tag = saying(chat.tokenizer, "a <tool_cal and <to");
  assertEquals(await chat.ask("?", { ...options, constraint: tag }), "a <tool_cal and <to");
  using other = await Chat.open(models["llama"]!);
  const json = saying(other.tokenizer, '{"a": [1, "}"]}');
  assertEquals(await other.ask("?", { ...options, constraint: json }), '{"a": [1, "}"]}');
});

test("a template has to write calls in a form that is read", async () => {
  const body = (call: string, before = "") =>
    MESSAGES.replace("CALL", call).replace("assistant {%", `assistant ${before}{%`);
  const json = "{{ c.function | tojson }}";
  // That of GLM, of functionary, of Apriel, and one that leaves calls out.
  const refused = [
    body("<tool_call>{{ c.function.name }}<arg_key>city</arg_key><arg_value>A</arg_value>"),
    body("<function={{ c.function.name }}>{{ c.function.arguments | tojson }}</function>"),
    body(`<tool_calls>[${json}]</tool_calls>`),
    body("{# <tool_call> #}"),
    body("{{ raise_exception('no calls') }}"),
    // Without functions.
    MESSAGES.slice(MESSAGES.indexOf("{%- for m")).replace("CALL", `<tool_call>${json}`),
  ];
  for (const template of refused) {
    using chat = await Chat.open({ "model.gguf": randomLlama("q8_0", { ...sizes, template }) });
    const asked = chat.ask("?", { tools: [weather()] });
    await assertRejects(() => asked, ArgumentError, "of a kind that is not known", template);
  }
  // The answer begins with another mark.
  const template = body(`<tool_call>${json}</tool_call>`, "<think>");
  const file = randomLlama("q8_0", { ...sizes, template, context: 4096 });
  using chat = await Chat.open({ "model.gguf": file });
  const call = '<tool_call>{"name": "weather", "arguments": {"city": "A"}}</tool_call>';
  const constraint = saying(chat.tokenizer, call, "warm");
  assertEquals(await chat.ask("?", { tools: [weather()], constraint }), "warm");
});

const folder = modelFolder("vocabularies");
/** What models write with real templates, by the names of these. */
const REAL: Readonly<Record<string, string>> = {
  "Qwen-Qwen3-0.6B":
    '<think>\nRome.\n</think>\n\n<tool_call>\n{"name": "weather", "arguments": {"city": "Rome"}}\n</tool_call>',
  "Qwen-QwQ-32B": '<tool_call>\n{"name": "weather", "arguments": {"city": "Rome"}}\n</tool_call>',
  "Qwen-Qwen2.5-7B-Instruct":
    'I look.\n<tool_call>\n{"name": "weather", "arguments": {"city": "Rome"}}\n</tool_call>',
  "NousResearch-Hermes-3-Llama-3.1-8B-tool_use":
    '<tool_call>\n{"arguments": {"city": "Rome"}, "name": "weather"}\n</tool_call>',
  "ibm-granite-granite-4.0":
    '<tool_call>\n{"name": "weather", "arguments": {"city": "Rome"}}\n</tool_call>',
  "meta-llama-Llama-3.1-8B-Instruct": '{"name": "weather", "parameters": {"city": "Rome"}}',
  "meta-llama-Llama-3.2-3B-Instruct": '{"name": "weather", "parameters": {"city": "Rome"}}',
  "meta-llama-Llama-3.3-70B-Instruct":
    '<|python_tag|>{"type": "function", "name": "weather", "parameters": {"city": "Rome"}}',
  "mistralai-Mistral-Nemo-Instruct-2407":
    '[TOOL_CALLS][{"name": "weather", "arguments": {"city": "Rome"}}]',
  "Mistral-Small-3.2-24B-Instruct-2506":
    '[TOOL_CALLS]weather[CALL_ID]abcdefghi[ARGS]{"city": "Rome"}',
  "unsloth-mistral-Devstral-Small-2507": '[TOOL_CALLS]weather[ARGS]{"city": "Rome"}',
};
const skip = folder === undefined && "needs models/vocabularies";
for (const [name, call] of Object.entries(REAL)) {
  test(`functions with the template of ${name}`, { skip }, async () => {
    const template = readFileSync(join(folder!, "templates", `${name}.jinja`), "utf8");
    const file = randomLlama("q8_0", { ...sizes, template, context: 8192 });
    using chat = await Chat.open({ "model.gguf": file }, { system: "Be short." });
    const calls: unknown[] = [];
    const wrong = call.replace('"Rome"', "3").replace("I look.", "");
    const constraint = saying(chat.tokenizer, wrong, call, "21 degrees");
    const pieces: string[] = [];
    for await (const piece of chat.stream("Rome?", { tools: [weather(calls)], constraint })) {
      pieces.push(piece);
    }
    // No part of a call is shown, in whatever tokens it comes.
    const [thought = ""] = /^(<think>[^]*<\/think>|I look)/.exec(call) ?? [];
    const text = pieces.join("");
    assert(text.endsWith("21 degrees") && !/tool|TOOL|weather|python/.test(text), text);
    assert(text.includes(thought), text);
    assertEquals(calls, [{ city: "Rome" }]);
    const results = chat.messages.filter(({ role }) => role === "tool");
    assertEquals(results.map(({ content }) => content), [
      "Error: wrong arguments: city is 3, not of type string",
      '{"degrees":21}',
    ]);
    // The next turn renders all of them.
    const next = saying(chat.tokenizer, "bye");
    const tools = [weather()];
    assertEquals(await chat.ask("Thanks", { constraint: next, tools }), "bye");
  });
}

test("a turn that ends in a function changes no messages", async () => {
  using chat = await Chat.open(models["hermes"]!);
  const controller = new AbortController();
  const tool: Tool = {
    name: "stop",
    call(_args, { signal }) {
      controller.abort(new RangeError("enough"));
      assertEquals(signal?.aborted, true);
      return "x";
    },
  };
  const constraint = saying(chat.tokenizer, '<tool_call>{"name": "stop"}</tool_call>', "no");
  const options = { tools: [tool], constraint, signal: controller.signal };
  await assertRejects(() => chat.ask("?", options), RangeError, "enough");
  assertEquals(chat.messages, []);
  assertEquals(await chat.ask("?", { constraint: saying(chat.tokenizer, "yes") }), "yes");
});

test("wrong tools, and models without any, are errors", async () => {
  using chat = await Chat.open(models["hermes"]!);
  const tool = weather();
  const cases: [unknown, string][] = [
    [[], "at least one"],
    ["weather", "at least one"],
    [[{ ...tool, name: "a b" }], "its name has"],
    [[{ ...tool, name: undefined }], "its name has"],
    [[{ ...tool, call: 3 }], "it has no function call"],
    [[{ ...tool, parameters: "x" }], "a JSON Schema"],
    [[{ ...tool, description: 3 }], "a text"],
    [[tool, weather()], "the same name"],
  ];
  for (const [tools, message] of cases) {
    await assertRejects(() => chat.ask("?", { tools: tools as never }), ArgumentError, message);
  }
  for (const toolRounds of [-1, 0.5, "2"]) {
    const options = { tools: [tool], toolRounds: toolRounds as never };
    await assertRejects(() => chat.ask("?", options), ArgumentError, "toolRounds");
  }
  assertEquals(chat.messages, []);
  using plain = await Chat.open({ "model.gguf": randomLlama("q8_0", sizes) });
  await assertRejects(() => plain.ask("?", { tools: [tool] }), ArgumentError, "the template");
});

test("functions that the caller changes meanwhile, that never end or throw anything", async () => {
  using chat = await Chat.open(models["hermes"]!);
  const call = (name: string) =>
    `<tool_call>{"name": "${name}", "arguments": {"city": 1}}</tool_call>`;
  const parameters = { type: "object", properties: { city: { type: "integer" } } };
  const made: unknown[] = [];
  const tool = {
    name: "first",
    parameters,
    result: "of this",
    call(): string {
      made.push(this.result);
      tool.name = "second";
      parameters.properties.city.type = "string";
      tools.length = 0;
      return "ok";
    },
  };
  const odd: Tool = {
    name: "odd",
    call: () => {
      throw Object.create(null);
    },
  };
  const tools: Tool[] = [tool, odd];
  const options = {
    tools,
    constraint: saying(chat.tokenizer, call("first"), call("first"), "done"),
  };
  const turn = chat.stream("?", options);
  let text = "";
  for await (const piece of turn) {
    text += piece;
    Object.assign(options, { constraint: undefined, maxTokens: 1 });
  }
  assertEquals([text, made], ["done", ["of this", "of this"]]);
  const constraint = saying(chat.tokenizer, call("odd"), "sorry");
  assertEquals(await chat.ask("?", { tools: [odd], constraint }), "sorry");
  assertEquals(chat.messages.at(-2)!.content, "Error: an object");
  const controller = new AbortController();
  const hangs: Tool = {
    name: "hangs",
    call: () => {
      setTimeout(() => controller.abort(new EvalError("own")), 5);
      return new Promise(() => {});
    },
  };
  const { signal } = controller;
  const waits = saying(chat.tokenizer, call("hangs"));
  const { length } = chat.messages;
  await assertRejects(
    () => chat.ask("?", { tools: [hangs], constraint: waits, signal }),
    EvalError,
  );
  assertEquals(chat.messages.length, length);
  const cyclic: Record<string, unknown> = {};
  cyclic["self"] = cyclic;
  const wrong = [{ ...odd, parameters: cyclic }];
  await assertRejects(() => chat.ask("?", { tools: wrong }), ArgumentError, "JSON Schema");
  await assertRejects(() => chat.ask("?", loose({ signal: {} })), ArgumentError, "signal");
});

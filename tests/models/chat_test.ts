/**
 * `Chat`: turns, messages, the context, turns that end early, and forks.
 *
 * @module
 */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { ArgumentError, attempt, DisposedError, FormatError } from "../../mod.ts";
import * as llm from "../../src/llm/mod.ts";
import { Chat } from "../../src/models/mod.ts";
import { chatTemplate, open as openTokenizer } from "../../src/tokenizers/mod.ts";
import { loose } from "../support.ts";
import { collectGarbage } from "../support/garbage.ts";
import { randomLlama } from "../support/llama.ts";

const folder = mkdtempSync(join(tmpdir(), "rowmajor-chats-"));
after(() => rmSync(folder, { recursive: true }));
const sizes = { layers: 2, width: 64, heads: 4, groups: 2, hidden: 96, vocabulary: 320 };
const bytes = randomLlama("q8_0", sizes);
const path = join(folder, "model.gguf");
writeFileSync(path, bytes);
const short = { "model.gguf": randomLlama("q8_0", { ...sizes, context: 256 }) };
const GREEDY = { temperature: 0, maxTokens: 8 };

type Messages = { role: string; content: string }[];

/** The answer to messages by a session of its own. */
async function expected(messages: Messages, maxTokens = GREEDY.maxTokens): Promise<string> {
  using model = await llm.open(path);
  const tokenizer = await openTokenizer(model.metadata, { endTokens: model.config.endTokens });
  const render = await chatTemplate(tokenizer);
  const ids = tokenizer.encode(render(messages), { special: true });
  const made: number[] = [];
  for await (const id of model.generate(ids, { ...GREEDY, maxTokens })) made.push(id);
  return tokenizer.decode(made);
}

test("a turn goes on from the turns before, as one text does", async () => {
  using chat = await Chat.open(path, { system: "Be short." });
  const first = await chat.ask("one", GREEDY);
  let second = "";
  for await (const piece of chat.stream("two", GREEDY)) second += piece;
  const messages = [
    { role: "system", content: "Be short." },
    { role: "user", content: "one" },
    { role: "assistant", content: first },
    { role: "user", content: "two" },
  ];
  assertEquals(first, await expected(messages.slice(0, 2)));
  assertEquals(second, await expected(messages));
  assertEquals(chat.messages, [...messages, { role: "assistant", content: second }]);
});

test("messages are copies, and can be replaced", async () => {
  using chat = await Chat.open({ "model.gguf": bytes });
  const given = [{ role: "user", content: "a" }, { role: "assistant", content: "b" }];
  chat.messages = given;
  given[0]!.content = "changed";
  Object.assign(chat.messages[1]!, { content: "changed" });
  const answer = await chat.ask("c", GREEDY);
  const messages = [
    { role: "user", content: "a" },
    { role: "assistant", content: "b" },
    { role: "user", content: "c" },
  ];
  assertEquals(answer, await expected(messages));
  for (const wrong of [null, "a", [null], [{ content: "a" }]]) {
    assertThrows(() => chat.messages = wrong as never, ArgumentError, "messages");
  }
  assertEquals(chat.messages.length, 4);
});

test("a chat beyond the context throws and changes nothing, or loses its oldest turns", async () => {
  using strict = await Chat.open(short, { system: "Be short." });
  const long = "a question of many tokens. ".repeat(2);
  await strict.ask(long, GREEDY);
  const before = strict.messages;
  const error = await assertRejects(() => strict.ask(long.repeat(3), GREEDY), ArgumentError);
  assert(/context of 256/.test((error as Error).message), String(error));
  assertEquals(strict.messages, before);
  assertEquals(typeof await strict.ask("a", { ...GREEDY, maxTokens: 1 }), "string");

  using open = await Chat.open(short, { system: "Be short.", overflow: "truncate" });
  for (let i = 0; i < 6; i++) await open.ask(`${i} ${long}`, { ...GREEDY, maxTokens: 3 });
  const { messages } = open;
  assertEquals(messages[0], { role: "system", content: "Be short." });
  assert(
    messages.length < 13 && String(messages.at(-2)!.content).startsWith("5 "),
    `${messages.length}`,
  );
  assertEquals(messages[1]!.role, "user");
  // One question alone is too long.
  await assertRejects(() => open.ask(long.repeat(4), GREEDY), ArgumentError, "context");
  assertEquals(open.messages, messages);
});

test("a turn that ends early changes no messages", async () => {
  using chat = await Chat.open(path);
  for await (const _ of chat.stream("one", GREEDY)) break;
  assertEquals(chat.messages, []);
  const controller = new AbortController();
  const { signal } = controller;
  const reason = new Error("enough");
  const onToken = () => controller.abort(reason);
  await assertRejects(() => chat.ask("one", { ...GREEDY, signal, onToken }), Error, "enough");
  assertEquals(chat.messages, []);
  assertEquals(
    await chat.ask("one", GREEDY),
    await expected([{ role: "user", content: "one" }]),
  );
});

test("special tokens in messages are only text, and the model has a name", async () => {
  using chat = await Chat.open(path);
  assertEquals(chat.name, "model");
  const [end] = chat.tokenizer.encode("<|end|>", { special: true });
  const text = "a <|end|> b";
  const ids = await chat.format.encode([{ role: "user", content: text }]);
  assertEquals(ids.includes(end!), false);
  assert(chat.tokenizer.decode(ids).includes(text));
  await chat.ask(text, GREEDY);
  assertEquals(chat.messages[0]!.content, text);
});

test("one turn at a time", async () => {
  using chat = await Chat.open(path);
  const first = chat.ask("one", GREEDY);
  await assertRejects(() => chat.ask("two", GREEDY), ArgumentError, "fork()");
  assertThrows(() => chat.fork(), ArgumentError, "answers");
  assertThrows(() => chat.messages = [], ArgumentError, "answers");
  await first;
  assertEquals(chat.messages.length, 2);
});

test("a turn has the options of its call, and one that is dropped ends", async () => {
  using chat = await Chat.open(path);
  const plain = await chat.ask("one", GREEDY);
  const stop = plain.slice(3, 5);
  chat.messages = [];
  const stops = [stop], logitBias = { 5: 0 };
  const options = { ...GREEDY, stop: stops, logitBias };
  const turn = chat.stream("one", options);
  stops[0] = plain.slice(0, 2);
  Object.assign(logitBias, { 5: 100 });
  options.maxTokens = 1;
  let answer = "";
  for await (const piece of turn) answer += piece;
  assertEquals(answer, plain.slice(0, plain.indexOf(stop)));
  const wrong = loose({ topP: 2 });
  const late = chat.stream("two", wrong);
  Object.assign(wrong, { topP: 1 });
  await assertRejects(() => late.next(), ArgumentError, "topP");
  const begin = async (): Promise<unknown> => (await chat.stream("two", GREEDY).next()).done;
  assertEquals(await begin(), false);
  assertThrows(() => chat.fork(), ArgumentError, "answers");
  const isBusy = (): boolean => attempt(() => chat.fork().dispose()).error !== undefined;
  for (let k = 0; k < 200 && isBusy(); k++) await collectGarbage();
  assertEquals(chat.messages.length, 2);
  assertEquals(typeof await chat.ask("two", GREEDY), "string");
});

test("forks go on from the same messages, and leave the model to the first chat", async () => {
  const chat = await Chat.open(path);
  await chat.ask("one", GREEDY);
  const fork = chat.fork();
  const [a, b] = await Promise.all([chat.ask("two", GREEDY), fork.ask("three", GREEDY)]);
  const start = chat.messages.slice(0, 2) as Messages;
  assertEquals(a, await expected([...start, { role: "user", content: "two" }]));
  assertEquals(b, await expected([...start, { role: "user", content: "three" }]));
  fork.dispose();
  await assertRejects(() => fork.ask("four", GREEDY), DisposedError);
  assertEquals(typeof await chat.ask("four", { maxTokens: 1 }), "string");
  const other = chat.fork();
  chat.dispose();
  chat.dispose();
  await assertRejects(() => chat.ask("five"), DisposedError);
  await assertRejects(() => other.ask("five"), DisposedError);
  other.dispose();
});

test("what is no chat model, no question or no option", async () => {
  await assertRejects(() => Chat.open({ "config.json": "{}" }), FormatError, "no weights");
  await assertRejects(() => Chat.open(join(folder, "none.gguf")), Error, "none.gguf");
  await assertRejects(
    () => Chat.open(path, { overflow: "no" as never }),
    ArgumentError,
    "overflow",
  );
  await assertRejects(() => Chat.open(path, { system: 1 as never }), ArgumentError, "system");
  await assertRejects(() => Chat.open(path, { sytem: "" } as never), TypeError, "sytem");
  using chat = await Chat.open(path);
  await assertRejects(() => chat.ask(1 as never), ArgumentError, "1");
  await assertRejects(() => chat.ask("a", { topP: 2 }), ArgumentError, "topP");
  assertEquals(chat.messages, []);
});

/**
 * The example `chat`: its command and its executable, on a small model with random weights.
 *
 * @module
 */
import { assertEquals, assertMatch } from "@std/assert";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { Chat } from "../../src/models/mod.ts";
import { runExample, runExecutable, whyNoExecutable, withoutDenort } from "../example_program.ts";
import { randomLlama } from "../support/llama.ts";

const folder = mkdtempSync(join(tmpdir(), "rowmajor-chat-"));
after(() => rmSync(folder, { recursive: true }));
const model = join(folder, "model.gguf");
const sizes = { layers: 2, width: 64, heads: 4, groups: 2, hidden: 96, vocabulary: 320 };
writeFileSync(model, randomLlama("q8_0", sizes));
const command = (...args: string[]) => runExample("chat/main.ts", ...args);

/** The tokens that the model gives after a text. */
async function expected(text: string, count: number): Promise<{ tokens: number[]; text: string }> {
  using chat = await Chat.open(model);
  const tokens: number[] = [];
  const ids = chat.tokenizer.encode(text);
  for await (const id of chat.model.generate(ids, { maxTokens: count })) tokens.push(id);
  return { tokens, text: chat.tokenizer.decode([...ids, ...tokens]).slice(text.length) };
}

test("the command goes on with a text, and prints tokens and text as JSON", async () => {
  const { status, stdout, stderr } = command(
    ...[model, "--raw=one two", "--tokens=9", "--temperature=0", "--json"],
  );
  assertEquals([status, stderr], [0, ""]);
  assertEquals(JSON.parse(stdout), await expected("one two", 9));
});

test("the command answers a question, and says how fast", () => {
  const run = () => command(model, "who", "is", "it", "--tokens=5", "--seed=7");
  const { status, stdout, stderr } = run();
  assertEquals(status, 0, stderr);
  assertMatch(stderr, /^\[first token in [\d.]+ s, \d tokens.*\]\n$/);
  assertEquals(run().stdout, stdout);
});

test("the command says what is wrong", () => {
  const none = command();
  assertEquals([none.status, command("--help").status], [2, 0]);
  assertMatch(none.stderr, /^usage: /);
  const { status, stderr } = command(model, "--raw=a", "--top-p=2");
  assertEquals([status, stderr.trim()], [
    1,
    "ArgumentError: Cannot sample with topP 2: it is greater than 0, and at most 1",
  ]);
  assertMatch(command(join(folder, "none.gguf"), "hi").stderr, /none\.gguf/);
});

test(`an executable chats${whyNoExecutable}`, { skip: withoutDenort }, async () => {
  const args = [model, "--raw=one two", "--tokens=6", "--temperature=0", "--json"];
  const made = runExecutable("chat/main.ts", [], ...args);
  assertEquals(JSON.parse(made), await expected("one two", 6));
});

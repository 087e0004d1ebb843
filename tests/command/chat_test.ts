/**
 * `rowmajor chat`, on a small model with random weights.
 *
 * @module
 */
import { assertEquals, assertMatch } from "@std/assert";
import { join } from "node:path";
import { test } from "node:test";
import { Chat } from "../../src/models/mod.ts";
import { run, writeModels } from "./models.ts";

const { folder, chat: model } = await writeModels();

/** The tokens that the model gives after a text. */
async function expected(text: string, count: number): Promise<{ tokens: number[]; text: string }> {
  using chat = await Chat.open(model);
  const tokens: number[] = [];
  const ids = chat.tokenizer.encode(text);
  for await (const id of chat.model.generate(ids, { maxTokens: count })) tokens.push(id);
  return { tokens, text: chat.tokenizer.decode([...ids, ...tokens]).slice(text.length) };
}

test("chat goes on with a text, and prints tokens and text as JSON", async () => {
  const args = [model, "--raw=one two", "--tokens=9", "--temperature=0", "--json"];
  const { code, stdout, stderr } = await run("chat", ...args);
  assertEquals([code, stderr], [0, ""]);
  assertEquals(JSON.parse(stdout), await expected("one two", 9));
});

test("chat answers a question, and says how fast", async () => {
  const ask = () => run("chat", model, "who", "is", "it", "--tokens=5", "--seed=7");
  const { code, stdout, stderr } = await ask();
  assertEquals(code, 0, stderr);
  assertMatch(stderr, /^\[first token in [\d.]+ s, \d tokens.*\]\n$/);
  assertEquals((await ask()).stdout, stdout);
  // The words are one question.
  using chat = await Chat.open(model);
  const answer = await chat.ask("who is it", {
    ...{ maxTokens: 5, seed: 7, temperature: 0.7, topP: 0.9 },
  });
  assertEquals(stdout, `${answer}\n`);
});

test("chat says in one line what is wrong", async () => {
  const none = join(folder, "none.gguf");
  for (
    const [args, code, message] of [
      [[], 2, "there is no MODEL; see rowmajor chat --help"],
      [[model, "--tokens=many", "a"], 2, "--tokens many: expected an integer of at least 1; see "],
      [[model, "--cache=int7", "a"], 2, "--cache int7: expected float16, float32, bfloat16, q8_0"],
      [[model, "--tops=1", "a"], 2, "Unknown option '--tops'; see rowmajor chat --help"],
      [[model, "--raw=a", "--top-p=2"], 1, "Cannot sample with topP 2: it is greater than 0"],
      [[none, "hi"], 1, `Cannot find model ${JSON.stringify(none)}: there is no such file`],
    ] as const
  ) {
    const ran = await run("chat", ...args);
    assertEquals([ran.code, ran.stdout], [code, ""], ran.stderr);
    assertEquals(ran.stderr.startsWith(`rowmajor chat: ${message}`), true, ran.stderr);
    assertEquals(ran.stderr.trimEnd().split("\n").length, 1, ran.stderr);
  }
});

/**
 * `rowmajor chat`, on a small model with random weights.
 *
 * @module
 */
import { assertEquals, assertMatch } from "@std/assert";
import { spawn } from "node:child_process";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { findTool, root } from "../../scripts/tools.ts";
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
      [[model, "--raw=a", "--top-p=2"], 2, "--top-p 2: expected a number greater than 0, and at "],
      [[model, "--top-p=0", "a"], 2, "--top-p 0: expected a number greater than 0, and at most 1"],
      [[model, "--temperature=-1", "a"], 2, "--temperature -1: expected a number of at least 0; "],
      [[model, "--temperature=hot", "a"], 2, "--temperature hot: expected a number of at least 0"],
      [[model, "--top-k=1.5", "a"], 2, "--top-k 1.5: expected an integer of at least 0"],
      [[model, "--repetition-penalty=0", "a"], 2, "--repetition-penalty 0: expected a number gre"],
      [[model, "--seed=1.5", "a"], 2, "--seed 1.5: expected an integer of at least -900719925474"],
      [[model, "--stop=", "a"], 2, "--stop : expected a text that is not empty"],
      [[none, "hi"], 1, `Cannot find model ${JSON.stringify(none)}: there is no such file`],
    ] as const
  ) {
    const ran = await run("chat", ...args);
    assertEquals([ran.code, ran.stdout], [code, ""], ran.stderr);
    assertEquals(ran.stderr.startsWith(`rowmajor chat: ${message}`), true, ran.stderr);
    assertEquals(ran.stderr.trimEnd().split("\n").length, 1, ran.stderr);
  }
});

test("chat ends in order when nobody reads its answer", { timeout: 120_000 }, async () => {
  const isDeno = "Deno" in globalThis;
  const main = join(root, "src", "command", "main.ts");
  const flags = isDeno ? ["run", "-A", "--no-check", main] : [main];
  const args = ["chat", model, "--raw=a", "--tokens=2000", "--seed=1"];
  const child = spawn(findTool(isDeno ? "deno" : "bun"), [...flags, ...args], {
    env: { ...process.env, NO_COLOR: "1" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let stderr = "";
  child.stderr.setEncoding("utf8").on("data", (part: string) => stderr += part);
  child.stdout.once("data", () => child.stdout.destroy());
  const code = await new Promise((resolve) => child.on("close", resolve));
  assertEquals([code, /EPIPE|\.ts/.test(stderr)], [0, false], stderr);
});

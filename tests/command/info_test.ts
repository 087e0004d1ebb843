/**
 * The command itself, `rowmajor info` and what tells the kinds of models apart.
 *
 * @module
 */
import {
  assert,
  assertEquals,
  assertMatch,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { Buffer } from "node:buffer";
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { ArgumentError, FormatError, info } from "../../mod.ts";
import { nameOf, resolveModel } from "../../src/command/kinds.ts";
import { VERSION } from "../../src/base/version.ts";
import { ggufMetadata, type GgufValue, writeGguf } from "../support/gguf.ts";
import { run, writeModels } from "./models.ts";

const paths = await writeModels();

test("the command prints its version and its usage, and refuses other commands", async () => {
  assertEquals(await run("--version"), { code: 0, stdout: `${VERSION}\n`, stderr: "" });
  for (const name of [[], ["serve"], ["chat"], ["embed"], ["info"]]) {
    for (const flag of ["--help", "-h"]) {
      const { code, stdout, stderr } = await run(...name, flag);
      assertEquals([code, stderr], [0, ""]);
      assertStringIncludes(stdout, `usage: rowmajor ${name[0] ?? "COMMAND"}`);
      for (const line of stdout.split("\n")) assert(line.length <= 100, line);
    }
  }
  assertEquals(await run("help", "serve"), await run("serve", "--help"));
  assertEquals(await run("help"), await run("--help"));
  for (
    const [args, message] of [
      [[], "there is no COMMAND"],
      [["sereve"], "there is no command sereve"],
      [["toString"], "there is no command toString"],
      [["--verbose"], "Unknown option '--verbose'"],
    ] as const
  ) {
    const stderr = `rowmajor: ${message}; see rowmajor --help\n`;
    assertEquals(await run(...args), { code: 2, stdout: "", stderr });
  }
});

test("info tells what computes here", async () => {
  const { code, stdout } = await run("info");
  assertEquals(code, 0);
  const { devices: { cpu }, runtime, threads } = info();
  const facts = Object.fromEntries(
    stdout.trim().split("\n").map((line) => line.split(/ {2,}/, 2) as [string, string]),
  );
  assertEquals([facts.version, facts.runtime, facts.threads], [VERSION, runtime, `${threads}`]);
  assert(facts.backend!.startsWith(cpu!), facts.backend);
  assertEquals(JSON.parse((await run("info", "--json")).stdout).devices, info().devices);
});

test("info tells what a model is", async () => {
  const of = async (model: string, ...more: string[]) =>
    JSON.parse((await run("info", "--json", model, ...more)).stdout);
  const chat = await of(paths.chat, "--context=128");
  assertEquals(
    [chat.kind, chat.family, chat.layers, chat.context, chat.template, chat.tokens],
    ["chat", "llama", 1, 2048, "yes", 128],
  );
  assertMatch(chat.tokenizer, /^gpt2 \(smollm\), 320 tokens$/);
  // Keys and values of 2 heads of 16 columns, in float16.
  assertEquals(chat.cache, 128 * 2 * 2 * 16 * 2);
  assertEquals(
    Object.values<number>(chat.dtypes).reduce((sum, share) => sum + share).toFixed(9),
    "1.000000000",
  );
  const embed = await of(paths.embed);
  assertEquals(
    [embed.kind, embed.family, embed.vectors, embed.context, embed.tokenizer],
    ["embeddings", "bert", 24, 20, "WordPiece, 11 tokens"],
  );
  assertEquals(embed.size, 4 * embed.parameters);
  assertEquals((await of(paths.rerank)).kind, "rerank");
  const onnx = await of(paths.onnx);
  assertEquals([onnx.kind, onnx.nodes], ["inference", 2]);
  assertEquals([onnx.inputs, onnx.outputs], [["x float32 [n, 64]"], ["y float32 [n, 10]"]]);
  const { stdout } = await run("info", paths.chat);
  assertMatch(stdout, /^kind +chat$/m);
  assertMatch(stdout, /^memory +[\d.]+ kB of weights, [\d.]+ kB for a text of 2048 tokens$/m);
  // A name makes no line of its own, and no command of a terminal.
  const odd = join(paths.folder, "odd.gguf");
  const bytes = Buffer.from(readFileSync(paths.chat));
  bytes.write("r\n\x1b[2J", bytes.indexOf("random"));
  writeFileSync(odd, bytes);
  assertMatch((await run("info", odd)).stdout, /^name +r\ufffd\ufffd\[2J$/m);
});

test("the kind of a model is that of its files", async () => {
  const folder = join(paths.folder, "kinds");
  mkdirSync(folder);
  const kindOf = async (config: object, modules = false): Promise<string | undefined> => {
    const own = join(folder, `${Math.random()}`);
    mkdirSync(own);
    writeFileSync(join(own, "config.json"), JSON.stringify(config));
    if (modules) writeFileSync(join(own, "modules.json"), "[]");
    return (await resolveModel(own)).kind;
  };
  for (
    const [config, kind] of [
      [{ architectures: ["LlamaForCausalLM"], model_type: "llama" }, "chat"],
      [{ architectures: ["Gemma3ForConditionalGeneration"] }, "chat"],
      [{ architectures: ["BertForSequenceClassification"], model_type: "bert" }, "rerank"],
      [{ architectures: ["BertModel"], model_type: "bert" }, "embeddings"],
      [{ model_type: "qwen3" }, "chat"],
      [{ model_type: "nomic_bert" }, "embeddings"],
      [{ architectures: ["WhisperModel"], model_type: "whisper" }, undefined],
    ] as const
  ) assertEquals(await kindOf(config), kind, JSON.stringify(config));
  assertEquals(await kindOf({ architectures: ["Qwen3ForCausalLM"] }, true), "embeddings");

  const kindOfGguf = async (values: Record<string, GgufValue>): Promise<string | undefined> => {
    const own = join(folder, `${Math.random()}.gguf`);
    const tensor = { name: "a", type: 0, shape: [1], bytes: new Uint8Array(4) };
    writeFileSync(own, writeGguf(ggufMetadata(values), Object.keys(values).length, [tensor]));
    return (await resolveModel(own)).kind;
  };
  for (
    const [name, pooling, kind] of [
      ["qwen3", 0, "chat"],
      ["bert", 2, "embeddings"],
      ["bert", 4, "rerank"],
      ["nomic-bert", 1, "embeddings"],
      ["whisper", 0, undefined],
    ] as const
  ) {
    const values: Record<string, GgufValue> = {
      "general.architecture": ["string", name],
      [`${name}.pooling_type`]: ["uint32", pooling],
    };
    assertEquals(await kindOfGguf(values), kind, name);
  }

  const one = join(folder, "one");
  mkdirSync(one);
  copyFileSync(paths.onnx, join(one, "a.onnx"));
  assertEquals((await resolveModel(one)).path, join(one, "a.onnx"));
  copyFileSync(paths.onnx, join(one, "b.onnx"));
  await assertRejects(() => resolveModel(one), FormatError, "several ONNX files");
  const none = join(folder, "none.onnx");
  await assertRejects(() => resolveModel(none), ArgumentError, "there is no such file");
});

test("names of models are those of files, and of the hub", async () => {
  for (
    const [source, name] of [
      ["a/b/Model-Q4.gguf", "Model-Q4"],
      ["models/minilm/", "minilm"],
      ["C:\\models\\x.onnx", "x"],
      ["sentence-transformers/all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2"],
      ["./minilm", "minilm"],
      ["my models/my model.gguf", "my-model"],
      ["folder/x.gguf", "x"],
      // A folder that is there.
      ["tests/command", "command"],
    ] as const
  ) assertEquals(await nameOf(source), name);
});

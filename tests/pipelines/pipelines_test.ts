/**
 * The example examples/pipelines: its command, and an executable that has transformers.js and a model
 * inside.
 *
 * transformers.js is that of models/transformers/node_modules, which tests/onnx/transformers_test.ts
 * uses, or one that is installed in this repository.
 *
 * @module
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { root } from "../../scripts/tools.ts";
import { runExample } from "../example_program.ts";
import { floats, makeModel } from "../onnx/make.ts";
import { makeExecutable, run, temporary } from "../package/support.ts";

const command = (...args: string[]) => runExample("pipelines/main.ts", ...args);

test("the command tells how it is used", () => {
  const none = command("feature-extraction");
  assertEquals([none.status, none.stdout], [2, ""]);
  assertStringIncludes(none.stderr, "usage: main.ts TASK MODEL");
  const help = command("--help");
  assertEquals([help.status, help.stderr], [0, ""]);
  assertStringIncludes(help.stdout, "TASK is a pipeline");
});

const packages = [join(root, "models", "transformers"), root].map((folder) =>
  join(folder, "node_modules")
).find((folder) => existsSync(join(folder, "@huggingface", "transformers")));
const why = "Deno" in globalThis
  ? "transformers.js is in executables of Bun"
  : packages === undefined
  ? "transformers.js is not installed, see this file"
  : undefined;

const WORDS = ["[PAD]", "[UNK]", "a", "red", "blue"];
/** The vectors of the words. */
const VECTORS = [[0, 0], [8, 0], [0, 2], [4, 0], [0, 4]];

/** Writes a model for feature extraction as transformers.js reads it: the vectors of words. */
function writeModel(folder: string): void {
  const json = (name: string, value: unknown): void =>
    writeFileSync(join(folder, name), JSON.stringify(value));
  mkdirSync(join(folder, "onnx"), { recursive: true });
  json("config.json", { model_type: "bert", architectures: ["BertModel"] });
  json("tokenizer_config.json", {
    tokenizer_class: "PreTrainedTokenizer",
    pad_token: "[PAD]",
    unk_token: "[UNK]",
  });
  json("tokenizer.json", {
    version: "1.0",
    added_tokens: [],
    normalizer: { type: "Lowercase" },
    pre_tokenizer: { type: "Whitespace" },
    post_processor: null,
    decoder: null,
    model: {
      type: "WordLevel",
      vocab: Object.fromEntries(WORDS.map((word, id) => [word, id])),
      unk_token: "[UNK]",
    },
  });
  const model = makeModel({
    inputs: [
      ["input_ids", "int64", ["batch", "tokens"]],
      ["attention_mask", "int64", ["batch", "tokens"]],
    ],
    outputs: [["last_hidden_state", "float32", ["batch", "tokens", 2]]],
    nodes: [["Gather", ["vectors", "input_ids"], ["last_hidden_state"]]],
    tensors: [floats("vectors", [WORDS.length, 2], VECTORS.flat())],
  });
  writeFileSync(join(folder, "onnx", "model.onnx"), model);
}

const note = why === undefined ? "" : ` (skipped: ${why})`;
test(`an executable has transformers.js and a model inside${note}`, {
  skip: why !== undefined,
}, async () => {
  using folder = temporary();
  const { NODE_PATH } = process.env;
  const model = join(folder.path, "model"), empty = join(folder.path, "empty");
  const out = join(folder.path, process.platform === "win32" ? "run.exe" : "run");
  writeModel(model);
  try {
    // The bundler finds packages there.
    process.env.NODE_PATH = packages!;
    await makeExecutable(out, ["examples/pipelines/main.ts", `--include=${model}=words`]);
  } finally {
    if (NODE_PATH === undefined) delete process.env.NODE_PATH;
    else process.env.NODE_PATH = NODE_PATH;
  }
  rmSync(model, { recursive: true });
  mkdirSync(empty);
  const args = ["feature-extraction", "words", "a red word"];
  const found = await run(out, args, { cwd: empty, env: { HOME: folder.path } });
  assertEquals([found.code, found.stderr], [0, ""]);
  const { dims, data } = JSON.parse(found.stdout) as { dims: number[]; data: string };
  assertEquals(dims, [1, 2]);
  // The mean of (0, 2), (4, 0) and (8, 0) has this direction.
  const numbers = data.split(", ").slice(0, 2).map(Number);
  numbers.forEach((x, k) => assert(Math.abs(x - [12, 2][k]! / Math.sqrt(148)) < 1e-5, data));
  assertEquals(readdirSync(empty), []);
});

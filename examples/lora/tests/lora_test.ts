/**
 * An adapter learns, and `llm.open` with it has the scores of the model that was trained.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { random, tensor } from "../../../mod.ts";
import { modelFolder as realModelFolder } from "../../../scripts/models.ts";
import * as llm from "../../../src/llm/mod.ts";
import * as nn from "../../../src/nn/mod.ts";
import * as tokenizers from "../../../src/tokenizers/mod.ts";
import { runExample } from "../../../tests/example_program.ts";
import { ggufOf } from "../../../tests/llm/gguf.ts";
import { distance, modelFolder, temporary } from "../../../tests/llm/models.ts";
import { initialLora, openBase, saveAdapter, scores, trainLora } from "../model.ts";

const TEXT = [5, 9, 2, 14, 3, 8, 1, 11, 6];
const folder = modelFolder("llama");
const files: Record<string, string> = { safetensors: folder };
for (const format of [undefined, "q8_0"] as const) {
  const name = format ?? "float32";
  files[`GGUF of ${name}`] = temporary(`${name}.gguf`);
  writeFileSync(files[`GGUF of ${name}`]!, ggufOf("llama", "llama", { format }));
}

for (const [name, path] of Object.entries(files)) {
  test(`an adapter that was trained is loaded by llm.open: ${name}`, async () => {
    using base = await openBase(path);
    const lora = initialLora(base, random.key(3), 4);
    const ids = tensor([TEXT.slice(0, -1)], { dtype: "int32" });
    const expected = () => scores(base, lora, ids).flatten().toTypedArray() as Float32Array;
    /** The largest difference of the scores of tokens. */
    const off = async (options: llm.OpenOptions): Promise<number> => {
      using model = await llm.open(path, { cache: "float32", ...options });
      using session = model.session();
      return distance(await session.logits(TEXT.slice(0, -1), { all: true }), expected());
    };
    // The products are 0: the scores are those of the model.
    assert(await off({}) < 1e-3);

    const losses: number[] = [];
    // More rows than scores are computed for at a time.
    const rows = tensor(Array(6).fill(TEXT), { dtype: "int32" });
    await trainLora(base, lora, rows, { steps: 40, size: 6, rate: 0.02 }, (_, loss) => {
      losses.push(loss);
    });
    assert(losses.at(-1)! < losses[0]! / 2, `${losses}`);
    const adapter = temporary(`adapter of ${name}`);
    await saveAdapter(adapter, lora);
    assert(await off({ adapter }) < 2e-3);
    assert(await off({}) > 0.1);
  });
}

test("all rows have one loss, however they are divided", async () => {
  using base = await openBase(folder);
  const lora = initialLora(base, random.key(3), 4);
  let first = NaN;
  const rows = tensor(Array(6).fill(TEXT), { dtype: "int32" });
  await trainLora(base, lora, rows, { steps: 1, size: 6 }, (_, loss) => first = loss);
  const ids = tensor([TEXT.slice(0, -1)], { dtype: "int32" });
  const next = tensor(TEXT.slice(1), { dtype: "int32" });
  const own = initialLora(base, random.key(3), 4);
  const whole = nn.crossEntropy(scores(base, own, ids).reshape([8, -1]), next);
  assert(Math.abs(whole.item() - first) < 1e-5, `${whole.item()}, ${first}`);
});

const smollm2 = realModelFolder("smollm2");
const why = smollm2 === undefined ? " (skipped: deno task models smollm2 fetches it)" : "";

test(`SmolLM2 of Q4_1 learns in few steps${why}`, { skip: smollm2 === undefined }, async () => {
  const path = join(smollm2!, "SmolLM2-135M-Instruct.Q4_1.gguf");
  using base = await openBase(path);
  const lora = initialLora(base, random.key(1), 8);
  const tokenizer = await tokenizers.open(path);
  const ids = [...tokenizer.encode("The quick brown fox jumps over the lazy cat. ".repeat(3))];
  const losses: number[] = [];
  const rows = tensor([ids.slice(0, 25)], { dtype: "int32" });
  await trainLora(base, lora, rows, { steps: 6, size: 1, rate: 5e-3 }, (_, loss) => {
    losses.push(loss);
  });
  assert(losses.at(-1)! < losses[0]! * 0.8, `${losses}`);
  const adapter = temporary("adapter of SmolLM2");
  await saveAdapter(adapter, lora);
  const given = ids.slice(0, 24);
  const trained = scores(base, lora, tensor([given], { dtype: "int32" })).flatten();
  /** The mean difference of scores. */
  const off = async (options: llm.OpenOptions): Promise<number> => {
    using model = await llm.open(path, { cache: "float32", ...options });
    using session = model.session();
    const made = tensor(await session.logits(given, { all: true }));
    return trained.sub(made.reshape(trained.shape)).abs().mean().item();
  };
  // Rows are rounded to 8 bits in each product: factors that differ by a millionth make 0.2.
  const [own, plain] = [await off({ adapter }), await off({})];
  assert(own < plain / 4, `${own} and ${plain}`);
});

test("the command trains on a file, and writes the adapter", () => {
  const letters = Array.from({ length: 94 }, (_, i) => String.fromCharCode(33 + i));
  const tokenizer = {
    pre_tokenizer: { type: "ByteLevel", add_prefix_space: false, use_regex: true },
    decoder: { type: "ByteLevel" },
    added_tokens: [],
    model: {
      type: "BPE",
      vocab: Object.fromEntries([...letters, "\u0120"].map((letter, id) => [letter, id])),
      merges: [],
    },
  };
  writeFileSync(join(folder, "tokenizer.json"), JSON.stringify(tokenizer));
  const [file, adapter] = [temporary("text.txt"), temporary("adapter of a file")];
  writeFileSync(file, "the cat sat on the mat ".repeat(12));
  const { status, stdout, stderr } = runExample(
    "lora/main.ts",
    folder,
    file,
    adapter,
    "--steps=10",
  );
  assertEquals([status, stderr], [0, ""]);
  assert(/^step 10: loss \d/.test(stdout), stdout);
  assert(existsSync(join(adapter, "adapter_config.json")));
  assertEquals(runExample("lora/main.ts").status, 2);
});

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
import * as llm from "../../../src/llm/mod.ts";
import { runExample } from "../../../tests/example_program.ts";
import { modelFolder, temporary } from "../../../tests/llm/models.ts";
import { initialLora, openBase, saveAdapter, scores, trainLora } from "../model.ts";

/** The largest difference of the scores of tokens. */
async function distance(
  ids: readonly number[],
  expected: Float32Array,
  options: llm.OpenOptions,
): Promise<number> {
  using model = await llm.open(folder, { cache: "float32", ...options });
  using session = model.session();
  const made = await session.logits(ids, { all: true });
  assertEquals(made.length, expected.length);
  return made.reduce((most, x, i) => Math.max(most, Math.abs(x - expected[i]!)), 0);
}

const folder = modelFolder("llama");

test("an adapter that was trained is loaded by llm.open", async () => {
  const base = await openBase(folder);
  const lora = initialLora(base, random.key(3), 4);
  const text = [5, 9, 2, 14, 3, 8, 1, 11, 6];
  const ids = tensor([text.slice(0, -1)], { dtype: "int32" });
  const of = () => scores(base, lora, ids).flatten().toTypedArray() as Float32Array;
  // The products are 0: the scores are those of the model.
  assert(await distance(text.slice(0, -1), of(), {}) < 1e-3);

  const losses: number[] = [];
  const rows = tensor([text, text], { dtype: "int32" });
  await trainLora(base, lora, rows, { steps: 40, size: 2, rate: 0.02 }, (_, loss) => {
    losses.push(loss);
  });
  assert(losses.at(-1)! < losses[0]! / 2, `${losses}`);
  const adapter = temporary("trained adapter");
  await saveAdapter(adapter, lora);
  assert(await distance(text.slice(0, -1), of(), { adapter }) < 2e-3);
  assert(await distance(text.slice(0, -1), of(), {}) > 0.1);
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

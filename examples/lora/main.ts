/**
 * Trains a LoRA adapter of a Llama, such as SmolLM2, on a text file.
 *
 *     deno run -A examples/lora/main.ts MODEL FILE ADAPTER [--steps=50]
 *     bun examples/lora/main.ts MODEL FILE ADAPTER [--steps=50]
 *
 * MODEL is a GGUF file, or a folder with config.json, model.safetensors and tokenizer.json. ADAPTER is
 * the folder that it writes, for `llm.open(MODEL, { adapter: ADAPTER })` and for PEFT.
 *
 * @module
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { parseArgs } from "node:util";
import { random, tensor } from "../../mod.ts";
import * as tokenizers from "../../src/tokenizers/mod.ts";
import { initialLora, openBase, saveAdapter, trainLora } from "./model.ts";

const LENGTH = 64;

const { values, positionals: [model, file, adapter] } = parseArgs({
  allowPositionals: true,
  options: { steps: { type: "string", default: "50" }, rank: { type: "string", default: "8" } },
});
if (model === undefined || file === undefined || adapter === undefined) {
  console.error("usage: main.ts MODEL FILE ADAPTER [--steps=N] [--rank=N]");
  process.exitCode = 2;
} else {
  const own = model.endsWith(".gguf") ? model : join(model, "tokenizer.json");
  const tokenizer = await tokenizers.open(own);
  const ids = tokenizer.encode(readFileSync(file, "utf8"));
  const count = Math.floor((ids.length - 1) / LENGTH);
  const rows = Array.from(
    { length: count },
    (_, k) => [...ids.slice(k * LENGTH, (k + 1) * LENGTH + 1)],
  );
  using base = await openBase(model);
  const lora = initialLora(base, random.key(1), Number(values.rank));
  const options = { steps: Number(values.steps), size: Math.min(4, count) };
  await trainLora(base, lora, tensor(rows, { dtype: "int32" }), options, (step, loss) => {
    if (step % 10 === 0) console.log(`step ${step}: loss ${loss.toFixed(3)}`);
  });
  await saveAdapter(adapter, lora);
}

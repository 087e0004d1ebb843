/**
 * Learns to label texts from a CSV file, and labels others.
 *
 *     bun examples/classify-texts/main.ts MODEL FILE.csv "a text" ...
 *     deno run -A examples/classify-texts/main.ts MODEL FILE.csv --save head.safetensors
 *     bun examples/classify-texts/main.ts MODEL --load head.safetensors "a text" ...
 *
 * MODEL is an embedding model, such as sentence-transformers/all-MiniLM-L6-v2. The file has the
 * columns text and label.
 *
 * @module
 */
import { readFileSync } from "node:fs";
import process from "node:process";
import { parseArgs } from "node:util";
// @ts-ignore deno-std has no declarations
import { parse } from "deno-std/csv/mod.js";
import { Embedder } from "../../src/models/mod.ts";
import { loadCheckpoint, saveCheckpoint } from "../../src/train/mod.ts";
import { classifyTexts, type Example, fitHead, type Head } from "./head.ts";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { save: { type: "string" }, load: { type: "string" } },
});

async function headOf(embedder: Embedder): Promise<Head> {
  if (values.load !== undefined) return await loadCheckpoint(values.load) as unknown as Head;
  const rows: Example[] = parse(readFileSync(positionals.shift()!, "utf8"), {
    skipFirstRow: true,
  });
  return await fitHead(embedder, rows);
}

const model = positionals.shift();
if (model === undefined || (values.load === undefined && positionals.length === 0)) {
  console.error("usage: main.ts MODEL (FILE.csv | --load HEAD) [--save HEAD] [TEXT ...]");
  process.exitCode = 2;
} else {
  using embedder = await Embedder.open(model);
  const head = await headOf(embedder);
  if (values.save !== undefined) await saveCheckpoint(values.save, head);
  if (positionals.length > 0) {
    const found = await classifyTexts(embedder, head, positionals);
    for (const [i, { label, probability }] of found.entries()) {
      console.log(`${label} (${(probability * 100).toFixed(0)}%): ${positionals[i]}`);
    }
  }
}

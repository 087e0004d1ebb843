/**
 * Learns to label texts from a CSV file, and labels others.
 *
 *     bun examples/classify-texts/main.ts MODEL FILE.csv "a text" ...
 *     deno run -A examples/classify-texts/main.ts MODEL FILE.csv --save head.safetensors
 *     deno run -A examples/classify-texts/main.ts MODEL FILE.csv --test OTHER.csv
 *     bun examples/classify-texts/main.ts MODEL --load head.safetensors "a text" ...
 *
 * MODEL is an embedding model, such as sentence-transformers/all-MiniLM-L6-v2. The files have the
 * columns text and label. With --test it prints how many labels of other texts it finds.
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
  options: { save: { type: "string" }, load: { type: "string" }, test: { type: "string" } },
});

const examplesIn = (path: string): Example[] =>
  parse(readFileSync(path, "utf8"), { skipFirstRow: true });

async function headOf(embedder: Embedder): Promise<Head> {
  if (values.load !== undefined) return await loadCheckpoint(values.load) as unknown as Head;
  return await fitHead(embedder, examplesIn(positionals.shift()!));
}

const model = positionals.shift();
if (model === undefined || (values.load === undefined && positionals.length === 0)) {
  console.error(
    "usage: main.ts MODEL (FILE.csv | --load HEAD) [--save HEAD] [--test CSV] [TEXT ...]",
  );
  process.exitCode = 2;
} else {
  using embedder = await Embedder.open(model);
  const head = await headOf(embedder);
  if (values.save !== undefined) await saveCheckpoint(values.save, head);
  if (values.test !== undefined) {
    const given = examplesIn(values.test);
    const found = await classifyTexts(embedder, head, given.map(({ text }) => text));
    const right = found.filter(({ label }, i) => label === given[i]!.label).length;
    const percent = (right / given.length * 100).toFixed(1);
    console.log(`accuracy ${percent}%: ${right} of ${given.length} texts`);
  }
  if (positionals.length > 0) {
    const found = await classifyTexts(embedder, head, positionals);
    for (const [i, { label, probability }] of found.entries()) {
      console.log(`${label} (${(probability * 100).toFixed(0)}%): ${positionals[i]}`);
    }
  }
}

/**
 * Turns texts into vectors with a BERT-style model, or ranks the lines of a file by their likeness to
 * a text.
 *
 *     bun examples/embed/main.ts MODEL --json "a text" "another"
 *     deno run -A examples/embed/main.ts MODEL --search FILE "what to look for"
 *
 * @module
 */
import { existsSync, readFileSync } from "node:fs";
import process from "node:process";
import { parseArgs } from "node:util";
import * as nn from "../../src/nn/mod.ts";
import { progressPrinter, readText } from "../shared/model_files.ts";
import { Embedder, readFolder } from "./embedder.ts";
import { run } from "./run.ts";

const USAGE = `usage: main.ts MODEL [--json] TEXT ...
       main.ts MODEL --search FILE [--top N] TEXT

MODEL is a folder with config.json, tokenizer.json and safetensors, or the name of a model in
the cache of the Hugging Face hub: sentence-transformers/all-MiniLM-L6-v2. An executable that
has a model inside takes no MODEL.

  --json         prints the vectors as an array of arrays
  --search FILE  ranks the lines of FILE by their likeness to TEXT
  --top N        how many lines to print; 10 by default
  -h, --help     prints this`;

/** The model inside an executable, or next to this module. */
const own = new URL("model/", import.meta.url);
const hasOwn = readText("config.json", own) !== undefined;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    json: { type: "boolean", default: false },
    search: { type: "string" },
    top: { type: "string", default: "10" },
    help: { type: "boolean", short: "h", default: false },
  },
});
const model = hasOwn ? own : positionals[0];
const texts = hasOwn ? positionals : positionals.slice(1);
if (values.help) console.log(USAGE);
else if (model === undefined || texts.length === 0) {
  console.error(USAGE);
  process.exitCode = 2;
} else {
  const folder = typeof model !== "string" || existsSync(model) ? model : await nn.findModel(model);
  using embedder = await Embedder.open(readFolder(folder), progressPrinter());
  const lines = values.search === undefined
    ? undefined
    : readFileSync(values.search, "utf8").split("\n").filter((line) => line.trim() !== "");
  await run(embedder, texts, { json: values.json, lines, top: Number(values.top) });
}

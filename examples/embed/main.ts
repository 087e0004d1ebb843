/**
 * Turns texts into vectors, or ranks the lines of a file by their likeness to a text.
 *
 *     bun examples/embed/main.ts MODEL --json "a text" "another"
 *     deno run -A examples/embed/main.ts MODEL --search FILE "what to look for"
 *
 * @module
 */
import { readFileSync } from "node:fs";
import process from "node:process";
import { parseArgs } from "node:util";
import { Embedder } from "../../src/models/mod.ts";
import { printProgress, readText } from "../shared/model_files.ts";

const USAGE = `usage: main.ts MODEL [--json] TEXT ...
       main.ts MODEL --search FILE [--top N] TEXT

MODEL is a folder, a GGUF file, or the name of a model in the cache of the Hugging Face hub, such
as sentence-transformers/all-MiniLM-L6-v2. An executable that has a model inside takes no MODEL.

  --json         prints JSON: the vectors, or the lines with their scores
  --search FILE  ranks the lines of FILE by their likeness to TEXT
  --top N        how many lines to print; 10 by default
  --int8         rounds weights to 8 bits
  -h, --help     prints this`;

const { values, positionals: texts } = parseArgs({
  allowPositionals: true,
  options: {
    json: { type: "boolean" },
    search: { type: "string" },
    top: { type: "string", default: "10" },
    int8: { type: "boolean" },
    help: { type: "boolean", short: "h" },
  },
});
/** The model inside an executable, or next to this module. */
const own = new URL("model/", import.meta.url);
const model = readText("config.json", own) === undefined ? texts.shift() : own;

async function run(embedder: Embedder): Promise<void> {
  if (values.search !== undefined) {
    const lines = readFileSync(values.search, "utf8").split("\n").filter((line) => /\S/.test(line));
    const found = await embedder.search(texts.join(" "), lines, { top: Number(values.top) });
    const ranked = found.map(({ index, score }) => ({ line: lines[index], score }));
    if (values.json) console.log(JSON.stringify(ranked));
    else for (const { line, score } of ranked) console.log(`${score.toFixed(3)}  ${line}`);
    return;
  }
  const vectors = await embedder.embed(texts);
  if (values.json) console.log(JSON.stringify(vectors));
  else {
    for (const [i, vector] of vectors.entries()) {
      const first = vector.slice(0, 4).map((x) => x.toFixed(4)).join(", ");
      console.log(`${texts[i]}: [${first}, …] (${vector.length} numbers)`);
    }
  }
}

if (values.help) console.log(USAGE);
else if (model === undefined || texts.length === 0) {
  console.error(USAGE);
  process.exitCode = 2;
} else {
  const quantize = values.int8 ? "int8" : undefined;
  using embedder = await Embedder.open(model, { quantize, onProgress: printProgress() });
  await run(embedder);
}

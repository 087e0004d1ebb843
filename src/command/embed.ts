/**
 * `rowmajor embed`: turns texts into vectors, or ranks the lines of a file.
 *
 * @module
 */
import { readFile } from "node:fs/promises";
import process from "node:process";
import { createInterface } from "node:readline";
import { Embedder, type EmbedOptions } from "../models/mod.ts";
import { integer, parse, UsageError } from "./arguments.ts";
import { tellSlowBackend } from "./info.ts";
import { checkPath } from "./kinds.ts";
import { progressOf } from "./progress.ts";

export const USAGE = `usage: rowmajor embed MODEL [options] TEXT ...
       rowmajor embed MODEL [options] -
       rowmajor embed MODEL [options] --search=FILE TEXT

MODEL is a folder with config.json, tokenizer.json and safetensors, a GGUF file, or the name of a
model in the cache of the Hugging Face hub, such as sentence-transformers/all-MiniLM-L6-v2. Prints
the vector of each TEXT, or of each line of the standard input, as a line of JSON.

  --search=FILE    prints the lines of FILE that are closest to TEXT, with their scores
  --top=N          how many lines it prints (10)
  --json           prints those lines as JSON
  --prompt=NAME    a text of the model that precedes each text, such as query
  --prefix=TEXT    a text that precedes each text
  --dimensions=N   the first numbers of vectors only, for models that were trained for that
  --int8           rounds weights to 8 bits
  --download       fetches a model that is not in the cache of the hub
  -h, --help       prints this`;

const OPTIONS = {
  search: { type: "string" },
  top: { type: "string", default: "10" },
  json: { type: "boolean" },
  prompt: { type: "string" },
  prefix: { type: "string" },
  dimensions: { type: "string" },
  int8: { type: "boolean" },
  download: { type: "boolean" },
  help: { type: "boolean", short: "h" },
} as const;

/** Lines that are embedded together. */
const SLICE = 256;

/** Runs the command, and returns its exit code. */
export async function embed(args: readonly string[]): Promise<number> {
  const { values, positionals: [model, ...texts] } = parse(args, OPTIONS);
  if (values.help) return console.log(USAGE), 0;
  if (model === undefined) throw new UsageError("there is no MODEL");
  if (texts.length === 0) throw new UsageError("there is no TEXT");
  const top = integer("top", values.top, 1)!;
  const options: EmbedOptions = {
    prompt: values.prompt,
    prefix: values.prefix,
    dimensions: integer("dimensions", values.dimensions, 1),
  };
  const { search } = values;
  // Read first: a model takes longer.
  if (search !== undefined) await checkPath(search, "file");
  const lines = search === undefined
    ? []
    : (await readFile(search, "utf8")).split("\n").filter((line) => /\S/.test(line));
  const progress = progressOf(`loading ${model}`);
  try {
    await checkPath(model);
    tellSlowBackend();
    using embedder = await Embedder.open(model, {
      quantize: values.int8 ? "int8" : undefined,
      download: values.download && { onProgress: progress.show },
      onProgress: progress.show,
    });
    progress.end();
    if (search !== undefined) {
      const found = await embedder.search(texts.join(" "), lines, { ...options, top });
      for (const { index, score } of found) {
        const line = lines[index]!;
        console.log(
          values.json ? JSON.stringify({ line, score }) : `${score.toFixed(3)}  ${line}`,
        );
      }
      return 0;
    }
    const print = async (slice: readonly string[]): Promise<void> => {
      for (const vector of await embedder.embed(slice, options)) {
        console.log(JSON.stringify(vector));
      }
    };
    if (texts.length > 1 || texts[0] !== "-") {
      await print(texts);
      return 0;
    }
    const slice: string[] = [];
    for await (const line of createInterface({ input: process.stdin })) {
      if (slice.push(line) === SLICE) await print(slice.splice(0));
    }
    await print(slice);
    return 0;
  } finally {
    progress.end();
  }
}

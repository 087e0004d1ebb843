/**
 * Classifies the digits in files, or in standard input.
 *
 *     deno run --allow-read --allow-ffi --allow-env examples/digits/classify.ts digit.png
 *     bun examples/digits/classify.ts --json < digits.csv
 *
 * Exits with 2 for invalid arguments, and with 1 for an invalid image.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { readFile } from "node:fs/promises";
import process from "node:process";
import { parseArgs } from "node:util";
import { FormatError } from "../../mod.ts";
import { makeClassifier } from "./classifier.ts";
import { imagesOfBytes } from "./inputs.ts";
import { LARGE_FILE, loadLargeModel } from "./large.ts";
import { ImageError } from "./pictures.ts";

const USAGE = `usage: classify.ts [--json] [--model FILE] [FILE ...]

Tells which digits files show; without a file, or for -, it reads standard input.

  PNG    a digit, at most 256 x 256 pixels, dark on bright or bright on dark
  npy    numbers of shape [64], [8, 8], [N, 64] or [N, 8, 8]
  JSON   {"images": [...]}, or a list of images, each of 64 numbers or of 8 rows of 8
  CSV    an image a line, 64 numbers

Numbers go from 0, paper, to 16, ink.

  --json         prints {"results": [{"file", "digit", "probabilities"}, ...]}
  --model FILE   takes another model than ${LARGE_FILE.pathname.split("/").at(-1)}
  -h, --help     prints this`;

/** Reads standard input to its end. */
async function readInput(): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of process.stdin) chunks.push(chunk as Uint8Array);
  return Buffer.concat(chunks);
}

function parse(args: string[]) {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: {
      json: { type: "boolean", default: false },
      model: { type: "string" },
      help: { type: "boolean", short: "h", default: false },
    },
  });
  return { ...values, files: positionals.length === 0 ? ["-"] : positionals };
}

/** Runs with the given arguments, and returns the exit code. */
async function main(args: string[]): Promise<number> {
  let options: ReturnType<typeof parse>;
  try {
    options = parse(args);
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${USAGE}`);
    return 2;
  }
  if (options.help) {
    console.log(USAGE);
    return 0;
  }
  let file = options.model ?? "the model";
  const results: { file: string; digit: number; probabilities: number[] }[] = [];
  try {
    const classify = makeClassifier(await loadLargeModel(options.model));
    for (file of options.files) {
      const bytes = file === "-" ? await readInput() : new Uint8Array(await readFile(file));
      for (const answer of classify(await imagesOfBytes(bytes))) results.push({ file, ...answer });
    }
  } catch (error) {
    const wrong = error instanceof ImageError || error instanceof FormatError;
    if (!wrong && (error as { code?: string }).code === undefined) throw error;
    console.error(`${file === "-" ? "standard input" : file}: ${(error as Error).message}`);
    return 1;
  }
  if (options.json) console.log(JSON.stringify({ results }));
  for (const { file, digit, probabilities } of options.json ? [] : results) {
    console.log(`${digit}  ${(probabilities[digit]! * 100).toFixed(1)}%  ${file}`);
  }
  return 0;
}

if (import.meta.main) {
  process.exitCode = await main(process.argv.slice(2));
}

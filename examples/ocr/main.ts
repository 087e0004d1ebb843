/**
 * Reads the texts of PNG and JPEG pictures by PP-OCR.
 *
 *     deno task models rapidocr
 *     bun examples/ocr/main.ts models/rapidocr photo.jpg
 *
 * @module
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { parseArgs } from "node:util";
import { decodeImage } from "../../src/images/mod.ts";
import { TextReader } from "./reader.ts";

const USAGE = `usage: main.ts FOLDER IMAGE [--characters FILE] [--least P] [--json]

FOLDER has two ONNX files of PP-OCR, whose names contain det and rec; IMAGE is a PNG or a JPEG.

  --characters FILE  the characters of the reader, one a line; by default those in its file
  --least P          the least score of a text; 0.5 by default
  --json             prints [{"text", "score", "box": [left, top, right, bottom]}, ...]
  -h, --help         prints this

An executable that has model/det.onnx.data and model/rec.onnx.data inside takes no FOLDER.`;

/** The models inside an executable, or next to this module. */
const own = ["det", "rec"].map((part) => new URL(`model/${part}.onnx.data`, import.meta.url));
const isInside = own.every((url) => existsSync(url));

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    characters: { type: "string" },
    least: { type: "string", default: "0.5" },
    json: { type: "boolean", default: false },
    help: { type: "boolean", short: "h", default: false },
  },
});
const [folder, file] = isInside ? ["the models", positionals[0]] : positionals;
const least = Number(values.least);

/** The path of the ONNX file of a folder whose name contains a text. */
function find(folder: string, part: string): string {
  const name = readdirSync(folder).find((one) => one.endsWith(".onnx") && one.includes(part));
  if (name === undefined) throw new Error(`there is no .onnx file with ${part} in its name`);
  return join(folder, name);
}

if (values.help) console.log(USAGE);
else if (folder === undefined || file === undefined || !(least >= 0)) {
  console.error(USAGE);
  process.exitCode = 2;
} else {
  let reading = folder;
  try {
    const characters = values.characters === undefined
      ? undefined
      : readFileSync(values.characters, "utf8").replace(/\r?\n$/, "").split(/\r?\n/);
    const [detector, recognizer] = isInside
      ? own.map((url) => readFileSync(url))
      : ["det", "rec"].map((part) => find(folder, part));
    using reader = await TextReader.open(detector!, recognizer!, characters);
    reading = file;
    using picture = await decodeImage(readFileSync(file), { channels: 3 });
    const texts = await reader.read(picture, least);
    if (values.json) console.log(JSON.stringify(texts));
    else for (const { text } of texts) console.log(text);
  } catch (error) {
    console.error(`${reading}: ${(error as Error).message}`);
    process.exitCode = 1;
  }
}

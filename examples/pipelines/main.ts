/**
 * Runs a pipeline of transformers.js on rowmajor in place of ONNX Runtime: embeddings, zero-shot
 * classification, speech recognition, segmentation, chat, and all others.
 *
 *     npm install @huggingface/transformers @bufbuild/protobuf
 *     bun examples/pipelines/main.ts feature-extraction Xenova/all-MiniLM-L6-v2 "a text"
 *     bun examples/pipelines/main.ts zero-shot-classification MODEL --labels=news,sport "a text"
 *     bun examples/pipelines/main.ts automatic-speech-recognition MODEL speech.wav
 *
 * An executable has models inside:
 *
 *     deno task executable examples/pipelines/main.ts --include=FOLDER=minilm --out=pipelines
 *     ./pipelines feature-extraction minilm "a text"
 *
 * @module
 */
// Before transformers.js, which would load ONNX Runtime.
import "../../src/onnx/register.ts";
import { existsSync, readFileSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import process from "node:process";
import { parseArgs } from "node:util";
import { readWav } from "../vad/wav.ts";

const USAGE = `usage: main.ts TASK MODEL [--dtype TYPE] [--labels A,B] [--tokens N] INPUT

TASK is a pipeline of transformers.js, such as feature-extraction, zero-shot-classification,
automatic-speech-recognition, image-segmentation or text-generation. MODEL is a folder, also inside
this executable, or a name on the Hugging Face hub, from which it is downloaded. INPUT is a text, a
WAV file of 16 kHz, or a picture.

  --dtype TYPE   the file of the model: fp32 (default), fp16, q8, q4
  --labels A,B   the labels of zero-shot-classification
  --tokens N     the most tokens to generate; 50 by default
  -h, --help     prints this`;

/** The part of transformers.js in use. */
interface Transformers {
  readonly env: { allowRemoteModels: boolean; localModelPath: string };
  pipeline(task: string, model: string, options: object): Promise<Pipeline>;
}
type Pipeline = ((...inputs: readonly unknown[]) => Promise<unknown>) & {
  readonly tokenizer?: { readonly chat_template?: unknown };
  dispose(): Promise<unknown>;
};

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    dtype: { type: "string", default: "fp32" },
    labels: { type: "string" },
    tokens: { type: "string", default: "50" },
    help: { type: "boolean", short: "h" },
  },
});
const [task, model, input] = positionals;

/** The inputs of a pipeline. */
function inputsOf(text: string, task: string, { tokenizer }: Pipeline): unknown[] {
  if (values.labels !== undefined) return [text, values.labels.split(",")];
  if (/\.wav$/i.test(text)) return [readWav(readFileSync(text)).samples];
  switch (task) {
    case "feature-extraction":
      return [text, { pooling: "mean", normalize: true }];
    case "text-generation": {
      const isChat = tokenizer?.chat_template;
      const prompt = isChat ? [{ role: "user", content: text }] : text;
      return [prompt, { max_new_tokens: Number(values.tokens) }];
    }
    default:
      return [text];
  }
}

/** What prints of a result: tensors and pictures by their sizes and first numbers. */
function printed(_key: string, value: unknown): unknown {
  if (ArrayBuffer.isView(value) && "length" in value) {
    const list = Array.from(value as unknown as ArrayLike<number | bigint>).slice(0, 4);
    return `${list.join(", ")}, … (${value.length} numbers)`;
  }
  if (typeof value === "object" && value !== null && "dims" in value && "data" in value) {
    return { dims: value.dims, data: value.data };
  }
  return value;
}

async function main(task: string, model: string, input: string): Promise<void> {
  // @ts-ignore: programs install it themselves.
  const { env, pipeline } = await import("@huggingface/transformers") as Transformers;
  // Models are found beside the program, which is inside the executable there, and by their path.
  const folder = [join(import.meta.dirname!, model), resolve(model)].find(existsSync);
  if (folder !== undefined) {
    env.allowRemoteModels = false;
    env.localModelPath = dirname(folder);
  }
  const name = folder === undefined ? model : basename(folder);
  const run = await pipeline(task, name, { dtype: values.dtype });
  const result = await run(...inputsOf(input, task, run));
  console.log(JSON.stringify(result, printed, 2));
  await run.dispose();
}

if (values.help) console.log(USAGE);
else if (task === undefined || model === undefined || input === undefined) {
  console.error(USAGE);
  process.exitCode = 2;
} else await main(task, model, input);

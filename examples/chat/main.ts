/**
 * Chats with a language model, or continues a text.
 *
 *     deno run -A examples/chat/main.ts MODEL.gguf
 *     bun examples/chat/main.ts MODEL.gguf "Why is the sky blue?"
 *     bun examples/chat/main.ts MODEL.gguf --raw="Once upon a time" --tokens=100
 *
 * @module
 */
import process from "node:process";
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";
import { type AskOptions, Chat } from "../../src/models/mod.ts";
import type { CacheDType } from "../../src/nn/mod.ts";
import { printProgress } from "../shared/model_files.ts";

const USAGE = `usage: main.ts MODEL [options] [QUESTION ...]

MODEL is a GGUF file, a folder with config.json, tokenizer.json and safetensors, or the name of
a model in the cache of the Hugging Face hub. Without a QUESTION, questions are read from the
terminal, a line each.

  --raw=TEXT         continues TEXT, without the model's chat template
  --system=TEXT      a message before the first question
  --tokens=N         the maximum number of tokens of an answer; 512 by default
  --temperature=T    0 takes the most likely token; 0.7 by default
  --top-k=N --top-p=P --min-p=P   only the most likely tokens; top-p is 0.9 by default
  --repetition-penalty=R          1 by default
  --seed=N           the same answers for the same seed
  --stop=TEXT        ends an answer; may be repeated
  --cache=DTYPE      of keys and values: float16, float32, bfloat16 or q8_0
  --device=DEVICE    cpu or cuda
  --adapter=FOLDER   a LoRA adapter
  --json             prints { tokens, text } of an answer
  -h, --help         prints this`;

const { values, positionals: [model, ...words] } = parseArgs({
  allowPositionals: true,
  options: {
    raw: { type: "string" },
    system: { type: "string" },
    tokens: { type: "string", default: "512" },
    temperature: { type: "string", default: "0.7" },
    "top-k": { type: "string", default: "0" },
    "top-p": { type: "string", default: "0.9" },
    "min-p": { type: "string", default: "0" },
    "repetition-penalty": { type: "string", default: "1" },
    seed: { type: "string" },
    stop: { type: "string", multiple: true },
    cache: { type: "string", default: "float16" },
    device: { type: "string", default: "cpu" },
    adapter: { type: "string" },
    json: { type: "boolean" },
    help: { type: "boolean", short: "h" },
  },
});

const options: AskOptions = {
  maxTokens: Number(values.tokens),
  temperature: Number(values.temperature),
  topK: Number(values["top-k"]),
  topP: Number(values["top-p"]),
  minP: Number(values["min-p"]),
  repetitionPenalty: Number(values["repetition-penalty"]),
  seed: values.seed === undefined ? undefined : Number(values.seed),
  stop: values.stop,
};

/** Prints an answer as it comes, and its rate. */
async function print(begin: (options: AskOptions) => AsyncIterable<string>): Promise<void> {
  const start = performance.now(), tokens: number[] = [];
  let first = start, text = "";
  const onToken = (id: number): void => {
    if (tokens.push(id) === 1) first = performance.now();
  };
  for await (const piece of begin({ ...options, onToken })) {
    text += piece;
    if (!values.json) process.stdout.write(piece);
  }
  if (values.json) return console.log(JSON.stringify({ tokens, text }));
  const rate = (tokens.length - 1) / (performance.now() - first) * 1000;
  process.stdout.write("\n");
  console.error(
    `[first token in ${((first - start) / 1000).toFixed(2)} s, ${tokens.length} tokens` +
      `${tokens.length < 2 ? "" : `, ${rate.toFixed(1)} tokens/s`}]`,
  );
}

async function run(model: string): Promise<void> {
  using chat = await Chat.open(model, {
    system: values.system,
    cache: values.cache as CacheDType,
    device: values.device as "cpu",
    adapter: values.adapter,
    onProgress: printProgress(),
  });
  const controller = new AbortController();
  const { signal } = controller;
  const end = () => controller.abort();
  if (values.raw !== undefined || words.length > 0) {
    process.once("SIGINT", end);
    await print((options) =>
      values.raw === undefined
        ? chat.stream(words.join(" "), { ...options, signal })
        : chat.model.generateText(chat.tokenizer, values.raw, { ...options, signal })
    );
    return;
  }
  const prompt = (): void => void (process.stdin.isTTY && process.stderr.write("> "));
  prompt();
  for await (const line of createInterface({ input: process.stdin })) {
    if (line.trim() !== "") await print((options) => chat.stream(line, options));
    prompt();
  }
}

if (values.help) console.log(USAGE);
else if (model === undefined) {
  console.error(USAGE);
  process.exitCode = 2;
} else {
  try {
    await run(model);
  } catch (error) {
    const { name, message } = error as Error;
    const isEnded = name === "AbortError";
    if (!isEnded) console.error(`${name}: ${message}`);
    process.exitCode = isEnded ? 130 : 1;
  }
}

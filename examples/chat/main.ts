/**
 * Chats with a language model, or lets it go on with a text.
 *
 *     deno run -A examples/chat/main.ts MODEL.gguf
 *     bun examples/chat/main.ts MODEL.gguf "What is the capital of France?"
 *     bun examples/chat/main.ts MODEL.gguf --raw="Once upon a time" --tokens=100
 *
 * @module
 */
import process from "node:process";
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";
import type { CacheDType } from "../../src/nn/mod.ts";
import { progressPrinter } from "../shared/model_files.ts";
import { Chat, openChatModel, type Reply, reply, type ReplyOptions } from "./chat.ts";

const USAGE = `usage: main.ts MODEL [options] [QUESTION ...]

MODEL is a GGUF file, a folder with config.json, tokenizer.json and safetensors, or the name of
a model in the cache of the Hugging Face hub. Without a QUESTION, questions are read from the
terminal, a line each.

  --raw=TEXT         goes on with TEXT, without the model's chat template
  --system=TEXT      says how the model is to answer
  --tokens=N         the most tokens of an answer; 512 by default
  --temperature=T    0 takes the most likely token; 0.7 by default
  --top-k=N --top-p=P --min-p=P   only the most likely tokens; top-p is 0.9 by default
  --repetition-penalty=R          1 by default
  --seed=N           the same answers for the same seed
  --stop=TEXT        ends an answer; may be repeated
  --cache=DTYPE      of keys and values: float16, float32, bfloat16 or q8_0
  --device=DEVICE    cpu or cuda
  --json             prints { tokens, text } of an answer
  -h, --help         prints this`;

const { values, positionals } = parseArgs({
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
    json: { type: "boolean", default: false },
    help: { type: "boolean", short: "h", default: false },
  },
});

/** What a terminal shows after an answer. */
function summary({ tokens, promptTokens, firstSeconds, seconds }: Reply): string {
  const rate = tokens.length < 2 ? "" : `, ${((tokens.length - 1) / seconds).toFixed(1)} tokens/s`;
  return `[${promptTokens} tokens in ${firstSeconds.toFixed(2)} s, ${tokens.length} made${rate}]`;
}

function print(made: Reply): void {
  if (values.json) console.log(JSON.stringify({ tokens: made.tokens, text: made.text }));
  else {
    process.stdout.write("\n");
    console.error(summary(made));
  }
}

/** Ends an answer, and the program if there is none. */
function abortable(): AbortSignal {
  const controller = new AbortController();
  process.once("SIGINT", () => controller.abort());
  return controller.signal;
}

async function run(name: string, questions: readonly string[]): Promise<void> {
  const progress = progressPrinter();
  using of = await openChatModel(name, {
    cache: values.cache as CacheDType,
    device: values.device as "cpu",
    onProgress: ({ loaded, total }) => progress(loaded / total),
  });
  const options: ReplyOptions = {
    maxTokens: Number(values.tokens),
    temperature: Number(values.temperature),
    topK: Number(values["top-k"]),
    topP: Number(values["top-p"]),
    minP: Number(values["min-p"]),
    repetitionPenalty: Number(values["repetition-penalty"]),
    ...values.seed !== undefined && { seed: Number(values.seed) },
    ...values.stop !== undefined && { stop: values.stop },
    ...!values.json && { onText: (text: string) => void process.stdout.write(text) },
  };
  if (values.raw !== undefined) {
    using session = of.model.session();
    const prompt = of.tokenizer.encode(values.raw, { addSpecial: true });
    print(await reply(of, session, prompt, { ...options, signal: abortable() }));
    return;
  }
  using chat = new Chat(of, values.system);
  if (questions.length > 0) {
    print(await chat.ask(questions.join(" "), { ...options, signal: abortable() }));
    return;
  }
  const prompt = (): void => void (process.stdin.isTTY && process.stderr.write("> "));
  prompt();
  for await (const line of createInterface({ input: process.stdin })) {
    if (line.trim() !== "") print(await chat.ask(line, options));
    prompt();
  }
}

const [model, ...questions] = positionals;
if (values.help) console.log(USAGE);
else if (model === undefined) {
  console.error(USAGE);
  process.exitCode = 2;
} else {
  try {
    await run(model, questions);
  } catch (error) {
    const { name, message } = error as Error;
    const isEnded = name === "AbortError";
    if (!isEnded) console.error(`${name}: ${message}`);
    process.exitCode = isEnded ? 130 : 1;
  }
}

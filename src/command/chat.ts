/**
 * `rowmajor chat`: talks with a language model, or continues a text.
 *
 * @module
 */
import process from "node:process";
import { createInterface } from "node:readline";
import { text as readAll } from "node:stream/consumers";
import { type AskOptions, Chat } from "../models/mod.ts";
import { integer, number, parse, say, UsageError, word } from "./arguments.ts";
import { tellSlowBackend } from "./info.ts";
import { checkPath } from "./kinds.ts";
import { progressOf } from "./progress.ts";

export const USAGE = `usage: rowmajor chat MODEL [options] [QUESTION ...]

MODEL is a GGUF file, a folder with config.json, tokenizer.json and safetensors, or the name of a
model in the cache of the Hugging Face hub. Without a QUESTION, questions are read from the
terminal, one a line; "-" reads one question from the standard input.

  --raw=TEXT         continues TEXT, without the model's chat template
  --system=TEXT      a message before the first question
  --tokens=N         the most tokens of an answer (512)
  --temperature=T    0 takes the most likely token (0.7)
  --top-k=N --top-p=P --min-p=P   only the most likely tokens (top-p is 0.9)
  --repetition-penalty=R          makes tokens less likely that the text has (1)
  --seed=N           the same answers for the same seed
  --stop=TEXT        ends an answer; may be repeated
  --cache=DTYPE      of keys and values: float16, float32, bfloat16 or q8_0 (float16)
  --device=DEVICE    cpu or cuda (cpu)
  --adapter=FOLDER   a LoRA adapter
  --download         fetches a model that is not in the cache of the hub
  --json             prints { tokens, text } of each answer
  -h, --help         prints this

Ctrl-C ends an answer, and at the prompt the chat.`;

/** Ends without a message, with the exit code of programs that Ctrl-C ended. */
const INTERRUPTED = 130;

const OPTIONS = {
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
  download: { type: "boolean" },
  json: { type: "boolean" },
  help: { type: "boolean", short: "h" },
} as const;

/** Runs the command, and returns its exit code. */
export async function chat(args: readonly string[]): Promise<number> {
  const { values, positionals: [model, ...words] } = parse(args, OPTIONS);
  if (values.help) return console.log(USAGE), 0;
  if (model === undefined) throw new UsageError("there is no MODEL");
  const options: AskOptions = {
    maxTokens: integer("tokens", values.tokens, 1),
    temperature: number("temperature", values.temperature),
    topK: integer("top-k", values["top-k"], 0),
    topP: number("top-p", values["top-p"], { above: 0, most: 1 }),
    minP: number("min-p", values["min-p"], { most: 1 }),
    repetitionPenalty: number("repetition-penalty", values["repetition-penalty"], { above: 0 }),
    seed: integer("seed", values.seed, Number.MIN_SAFE_INTEGER),
    stop: values.stop,
  };
  if (values.stop?.includes("")) throw new UsageError("--stop : expected a text that is not empty");
  const cache = word("cache", values.cache, ["float16", "float32", "bfloat16", "q8_0"]);
  const question = await questionOf(words.join(" "));
  const device = word("device", values.device, ["cpu", "cuda"]);

  /** Ends the answer that is printed now. */
  let turn: AbortController | undefined;
  let interrupted = false;
  const interrupt = (): void => {
    interrupted = true;
    if (turn === undefined) process.exit(INTERRUPTED);
    turn.abort();
  };
  process.on("SIGINT", interrupt);
  const progress = progressOf(`loading ${model}`);
  try {
    await checkPath(model);
    tellSlowBackend();
    using chat = await Chat.open(model, {
      ...{ cache, device, system: values.system, adapter: values.adapter, overflow: "truncate" },
      ...{ download: values.download && { onProgress: progress.show } },
      onProgress: progress.show,
    });
    progress.end();
    /** Prints an answer as it comes; false if Ctrl-C ended it. */
    const print = async (begin: (options: AskOptions) => AsyncIterable<string>) => {
      turn = new AbortController();
      try {
        await printAnswer(begin, { ...options, signal: turn.signal }, values.json === true);
        return true;
      } catch (error) {
        if (!turn.signal.aborted) throw error;
        process.stdout.write("\n");
        return false;
      } finally {
        turn = undefined;
      }
    };
    const { raw } = values;
    if (raw !== undefined) {
      const isWhole = await print((options) =>
        chat.model.generateText(chat.tokenizer, raw, options)
      );
      return isWhole ? 0 : INTERRUPTED;
    }
    if (question !== undefined) {
      const isWhole = await print((options) => chat.stream(question, options));
      return isWhole ? 0 : INTERRUPTED;
    }
    const prompt = (): void => void (process.stdin.isTTY && process.stderr.write("> "));
    prompt();
    for await (const line of createInterface({ input: process.stdin })) {
      if (line.trim() !== "") await print((options) => chat.stream(line, options));
      prompt();
    }
    return interrupted && !process.stdin.isTTY ? INTERRUPTED : 0;
  } finally {
    progress.end();
    process.off("SIGINT", interrupt);
  }
}

/** The question of arguments or of the standard input; undefined for those of a terminal. */
async function questionOf(words: string): Promise<string | undefined> {
  if (words === "") return undefined;
  const question = words === "-" ? (await readAll(process.stdin)).trim() : words;
  if (question === "") throw new UsageError("there is no question in the standard input");
  return question;
}

/** Prints an answer as it comes, and its rate. */
async function printAnswer(
  begin: (options: AskOptions) => AsyncIterable<string>,
  options: AskOptions,
  json: boolean,
): Promise<void> {
  const start = performance.now(), tokens: number[] = [];
  let first = start, text = "";
  const onToken = (id: number): void => {
    if (tokens.push(id) === 1) first = performance.now();
  };
  for await (const piece of begin({ ...options, onToken })) {
    text += piece;
    if (!json) process.stdout.write(piece);
  }
  if (json) return console.log(JSON.stringify({ tokens, text }));
  const rate = (tokens.length - 1) / (performance.now() - first) * 1000;
  process.stdout.write("\n");
  say(
    `[first token in ${((first - start) / 1000).toFixed(2)} s, ${tokens.length} tokens` +
      `${tokens.length < 2 ? "" : `, ${rate.toFixed(1)} tokens/s`}]`,
  );
}

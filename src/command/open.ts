/**
 * The models of a server: opened, and run once so that first requests are as fast as later ones.
 *
 * @module
 */
import process from "node:process";
import { ArgumentError } from "../base/errors.ts";
import { Chat, Classifier, Embedder } from "../models/mod.ts";
import * as onnx from "../onnx/mod.ts";
import { bytesText, countText, digits } from "./arguments.ts";
import { type Kind, resolveModel } from "./kinds.ts";
import { type Progress, progressOf } from "./progress.ts";
import type { ModelSettings } from "./settings.ts";

/** Opened models, by their names. */
export interface Models {
  readonly chat: Record<string, Chat>;
  readonly embeddings: Record<string, Embedder>;
  readonly rerank: Record<string, Classifier>;
  readonly inference: Record<string, onnx.Model>;
}

/** What the start says of a model. */
export interface Opened {
  readonly name: string;
  readonly kind: Kind;
  /** Its sizes, memory and speed. */
  readonly text: string;
}

/** The longest usual text, as of engines. */
export const USUAL_CONTEXT = 8192;
/** The longest time of a measurement, in milliseconds. */
const MEASURED_MS = 1000;
/** Tokens of a measurement, and texts. */
const [TOKENS, TEXTS] = [32, 32];
/** A text of 24 words, about as long as those that are embedded. */
const TEXT =
  "A server answers the requests of many clients at the same time, so that each of them " +
  "waits for a short while only, whatever others ask.";

/** Memory of the process, with what is in use of mapped files. */
const resident = (): number => process.memoryUsage().rss;

/** Opens a model and adds it to others. */
export async function openModel(
  settings: ModelSettings,
  download: boolean,
  models: Models,
): Promise<Opened> {
  const progress = progressOf(`loading ${settings.name}`);
  try {
    return await openWith(settings, download, models, progress);
  } catch (error) {
    if (error instanceof Error) error.message = `model ${settings.name}: ${error.message}`;
    throw error;
  } finally {
    progress.end();
  }
}

async function openWith(
  { name, kind: wanted, source, cache, device, int8, engine }: ModelSettings,
  download: boolean,
  models: Models,
  { show, end }: Progress,
): Promise<Opened> {
  const before = resident();
  const found = await resolveModel(source, { download: download && { onProgress: show } });
  const kind = wanted ?? found.kind;
  if (kind === undefined) {
    throw new ArgumentError(
      `the files do not say what it is for: ${found.reason}. Say it, as in chat:PATH, ` +
        "embeddings:PATH, rerank:PATH or inference:PATH",
    );
  }
  const { path } = found;
  const onProgress = show;
  const quantize = int8 ? "int8" as const : undefined;
  const done = (facts: string): Opened => {
    end();
    const memory = Math.max(resident() - before, 0);
    return { name, kind, text: `${bytesText(memory)} resident, ${facts}` };
  };
  switch (kind) {
    case "chat": {
      const chat = models.chat[name] = await Chat.open(path, { cache, device, onProgress });
      const { contextLength } = chat.model.config;
      const { context = Math.min(contextLength, USUAL_CONTEXT) } = engine;
      if (context > contextLength) {
        throw new ArgumentError(
          `Cannot serve with a context of ${context}: the model takes ${contextLength} tokens`,
        );
      }
      const rate = await tokenRate(chat);
      return done(`context of ${context}, ${digits(rate)} tokens/s`);
    }
    case "embeddings": {
      const own = models.embeddings[name] = await Embedder.open(path, { quantize, onProgress });
      const rate = await textRate((texts) => own.embed(texts));
      return done(`${own.dimensions} dimensions, ${digits(rate)} texts/s`);
    }
    case "rerank": {
      const own = models.rerank[name] = await Classifier.open(path, { quantize, onProgress });
      const rate = await textRate((texts) => own.rank(TEXT, texts));
      return done(`${digits(rate)} texts/s`);
    }
    case "inference": {
      const own = models.inference[name] = await onnx.open(path);
      const nodes = [...own.ops.values()].reduce((a, b) => a + b, 0);
      return done(`${countText(nodes)} nodes, inputs ${own.inputs.map(({ name }) => name)}`);
    }
  }
}

/** Tokens per second of one text. */
async function tokenRate({ model, tokenizer }: Chat): Promise<number> {
  const ids = tokenizer.encode(TEXT);
  let count = 0, first = 0, last = 0;
  // The first text compiles programs.
  for (const maxTokens of [2, TOKENS]) {
    count = 0;
    for await (const _ of model.generate(ids, { maxTokens, temperature: 0 })) {
      last = performance.now();
      if (count++ === 0) first = last;
      else if (last - first > MEASURED_MS) break;
    }
  }
  return count < 2 ? 0 : (count - 1) / (last - first) * 1000;
}

/** Texts per second, of several together. */
async function textRate(run: (texts: string[]) => Promise<unknown>): Promise<number> {
  const texts = new Array<string>(TEXTS).fill(TEXT);
  await run(texts);
  const begin = performance.now();
  let rounds = 0, now = begin;
  do {
    await run(texts);
    rounds++;
    now = performance.now();
  } while (rounds < 4 && now - begin < MEASURED_MS);
  return rounds * TEXTS / (now - begin) * 1000;
}

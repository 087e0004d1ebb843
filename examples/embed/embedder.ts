/**
 * Texts to vectors: a tokenizer, batches of texts of about equal length, which need little padding,
 * and a compiled encoder that runs off the event loop.
 *
 * @module
 */
import { pathToFileURL } from "node:url";
import { fromBuffer, tensor } from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import * as tokenizers from "../../src/tokenizers/mod.ts";
import { readText } from "../shared/model_files.ts";
import { type BertConfig, encoder, type Pooling } from "./bert.ts";

// deno-lint-ignore no-explicit-any
type Json = any;

/** The files of a model. */
export interface ModelFiles {
  readonly config: BertConfig & { readonly architectures?: readonly string[] };
  readonly tokenizer: Json;
  readonly tokenizerConfig: Json;
  /** 1_Pooling/config.json of sentence-transformers. */
  readonly pooling?: Json;
  /** A path, or the bytes of a safetensors file. */
  readonly weights: string | URL | Uint8Array;
}

/**
 * The files in the folder of a model; throws an Error that names the one that is missing. A URL can
 * be that of a folder inside an executable, whose weights are in one file.
 */
export function readFolder(folder: string | URL): ModelFiles {
  const base = typeof folder === "string" ? pathToFileURL(`${folder}/`) : folder;
  const read = (name: string, optional = false): Json => {
    const text = readText(name, base);
    if (text !== undefined) return JSON.parse(text);
    if (!optional) throw new Error(`there is no ${name} in ${folder}`);
    return undefined;
  };
  return {
    config: read("config.json"),
    tokenizer: read("tokenizer.json"),
    tokenizerConfig: read("tokenizer_config.json", true) ?? {},
    pooling: read("1_Pooling/config.json", true),
    weights: typeof folder === "string" ? folder : new URL("model.safetensors", base),
  };
}

/** The most texts of a batch. */
const MOST = 8;

/** A length rounded up, so that few programs cover all: by 3 tokens, or less than a quarter. */
function widthOf(length: number, longest: number): number {
  const step = Math.max(4, 2 ** Math.ceil(Math.log2(length)) / 8);
  return Math.min(longest, Math.ceil(length / step) * step);
}

/**
 * Batches of 1, 2, 4 or 8 texts of one length, rounded up. Each number of texts and each length
 * is a program of its own.
 */
export function batchesOf<T extends { readonly ids: { readonly length: number } }>(
  texts: readonly T[],
  longest: number,
): { width: number; batch: T[] }[] {
  const byWidth = new Map<number, T[]>();
  for (const text of texts) {
    const width = widthOf(text.ids.length, longest);
    byWidth.set(width, [...byWidth.get(width) ?? [], text]);
  }
  const batches: { width: number; batch: T[] }[] = [];
  for (const [width, all] of byWidth) {
    for (let at = 0; at < all.length;) {
      const count = Math.min(MOST, 2 ** Math.floor(Math.log2(all.length - at)));
      batches.push({ width, batch: all.slice(at, at + count) });
      at += count;
    }
  }
  return batches;
}

/** Turns texts into vectors of length 1. */
export class Embedder implements Disposable {
  /** The size of vectors. */
  readonly dimensions: number;
  readonly #weights: nn.Weights<"float32">;
  readonly #tokenizer: tokenizers.Tokenizer;
  readonly #longest: number;
  readonly #encode;

  private constructor(
    weights: nn.Weights<"float32">,
    tokenizer: tokenizers.Tokenizer,
    { config }: ModelFiles,
    pooling: Pooling,
  ) {
    this.#weights = weights;
    this.#tokenizer = tokenizer;
    this.#longest = config.max_position_embeddings;
    this.dimensions = config.hidden_size;
    this.#encode = compile(encoder(weights, config, pooling), { maxPrograms: 128 });
  }

  /** Loads a model; `onProgress` gets the part that is loaded, from 0 to 1. */
  static async open(
    files: ModelFiles,
    onProgress?: (part: number) => void,
  ): Promise<Embedder> {
    const tokenizer = await tokenizers.open({
      tokenizer: files.tokenizer,
      config: files.tokenizerConfig,
    });
    const weights = await nn.open(files.weights, { dtype: "float32" });
    try {
      const pooling = files.pooling?.pooling_mode_cls_token ? "cls" : "mean";
      const made = new Embedder(weights, tokenizer, files, pooling);
      await weights.load({
        ignore: ["pooler.*", "*.pooler.*", "*position_ids", "cls.*"],
        onProgress: ({ loaded, total }) => onProgress?.(loaded / total),
      });
      return made;
    } catch (error) {
      weights.dispose();
      throw error;
    }
  }

  /** The vectors of texts, in their order. */
  async embed(texts: readonly string[]): Promise<Float32Array[]> {
    const encodings = await this.#tokenizer.encodeBatch(texts, { maxLength: this.#longest });
    const all = encodings.map(({ ids }, place) => ({ place, ids }));
    const vectors: Float32Array[] = [];
    for (const { width, batch } of batchesOf(all, this.#longest)) {
      const padded = new Int32Array(batch.length * width);
      batch.forEach(({ ids }, i) => padded.set(ids, i * width));
      using ids = fromBuffer(padded, { shape: [batch.length, width] });
      using lengths = tensor(batch.map(({ ids }) => ids.length), { dtype: "int32" });
      using made = await this.#encode.async(ids, lengths);
      const values = made.toTypedArray();
      batch.forEach(({ place }, i) => {
        vectors[place] = values.slice(i * this.dimensions, (i + 1) * this.dimensions);
      });
    }
    return vectors;
  }

  /** Frees the weights and the programs. */
  [Symbol.dispose](): void {
    this.#encode.dispose();
    this.#weights.dispose();
  }
}

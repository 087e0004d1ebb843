/**
 * The memory that a model needs, by the headers of its files.
 *
 * @module
 */
import { host } from "../backend/ffi/runtime.ts";
import { DTYPE } from "../base/dtype.ts";
import { ArgumentError, OutOfMemoryError } from "../base/errors.ts";
import { sizeOf } from "../base/shape.ts";
import { describe } from "../base/text.ts";
import { memoryOf } from "../core/dispatch.ts";
import type { Path } from "../io/file.ts";
import * as nn from "../nn/mod.ts";
import { isQuantized } from "../ops/quantized/dtypes.ts";
import { checkOptions } from "../table/infer.ts";
import type * as t from "../types/mod.ts";
import type { AnyWeights } from "./blocks/step.ts";
import { type ModelConfig, poolsOf } from "./config/config.ts";
import { configOf } from "./model_files.ts";

/** Options of {@link memory}. */
export interface MemoryOptions {
  /** The tokens that the cache has room for; by default those of the context. */
  readonly context?: number | undefined;
  /** The dtype of the cache, as in {@link OpenOptions}; float16 by default. */
  readonly cache?: nn.CacheDType | undefined;
  /** The dtype of the weights, as in {@link OpenOptions}. */
  readonly dtype?: t.PackedDType | undefined;
  /** The device; the CPU by default. */
  readonly device?: t.Device | undefined;
  /** The sizes of the model, as in {@link OpenOptions}. */
  readonly config?: ModelConfig | undefined;
}

/** The memory that a model needs, in bytes. */
export interface ModelMemory {
  /** The weights, as layers keep them. */
  readonly weights: number;
  /** The cache of one session. */
  readonly cache: number;
  /** Both. */
  readonly bytes: number;
  /** The free memory; undefined if this program may not read it. */
  readonly free: number | undefined;
}

/** The bytes of the weights, as layers keep them. */
function weightBytes(weights: AnyWeights, dtype: t.PackedDType | undefined): number {
  let sum = 0;
  const bytesOf = (name: string): number => {
    const info = weights.info(name);
    if (info?.dtype === undefined) return 0;
    const own = DTYPE[info.dtype];
    // Each byte of MXFP4 has two numbers, which become bfloat16.
    if (info.dtype === "uint8" && name.endsWith("_blocks")) return 4 * sizeOf(info.shape);
    if (info.dtype === "uint8" && name.endsWith("_scales")) return 0;
    const isFloat = own.kind === "f" || isQuantized(own);
    // Experts, which have three axes, are dequantized.
    const kept = isQuantized(own) && info.shape.length > 2 ? "float32" : info.dtype;
    return sizeOf(info.shape) * DTYPE[dtype !== undefined && isFloat ? dtype : kept].bytes;
  };
  const names = weights.names();
  for (const name of names) sum += bytesOf(name);
  // Products have a copy of the embedding that makes logits, too.
  for (const [embedding, output] of EMBEDDINGS) {
    if (names.includes(embedding) && !names.includes(output)) sum += bytesOf(embedding);
  }
  return sum;
}

/** Names of embeddings, and of outputs that a file may lack. */
const EMBEDDINGS = [
  ["token_embd.weight", "output.weight"],
  ["model.embed_tokens.weight", "lm_head.weight"],
] as const;

/** The bytes of the cache of a text. */
export function cacheBytes(config: ModelConfig, context: number, cache: nn.CacheDType): number {
  const { kvHeads, headDimensions } = config;
  const layers = poolsOf(config).reduce((sum, { layers }) => sum + layers, 0);
  return layers * 2 * kvHeads * headDimensions * context * DTYPE[cache].bytes;
}

/** The free memory of a device. */
function freeBytes(device: t.Device | undefined): number | undefined {
  const found = memoryOf(device, "tell the memory of");
  return found === null ? host.freeMemory() : found.usage().freeBytes;
}

/** The memory of a model whose weights are open. */
export function memoryOfModel(
  weights: AnyWeights,
  config: ModelConfig,
  { context = config.contextLength, cache = "float16", dtype, device }: MemoryOptions,
): ModelMemory {
  const own = { weights: weightBytes(weights, dtype), cache: cacheBytes(config, context, cache) };
  return { ...own, bytes: own.weights + own.cache, free: freeBytes(device) };
}

/**
 * The memory that a model needs, in bytes, by the headers of its files: the weights, and the cache of
 * a session with `context` tokens. Nothing else is read. A step needs some more for its results.
 *
 * @param source The path of a model, or its bytes, as for {@link open}.
 * @throws {FormatError} As {@link open}.
 * @throws {ArgumentError} For a context that is no positive integer.
 *
 * @example
 * ```ts
 * const { weights, cache, free } = await llm.memory("SmolLM2-135M-Instruct.Q4_1.gguf", {
 *   context: 2048,
 * });
 * console.log(weights + cache, "bytes needed,", free, "free");
 * ```
 */
export async function memory(
  source: Path | Uint8Array,
  options: MemoryOptions = {},
): Promise<ModelMemory> {
  const op = "tell the memory of a model";
  checkOptions(op, options, ["context", "cache", "dtype", "device", "config"]);
  const { context, config } = options;
  if (context !== undefined && (!Number.isInteger(context) || context < 1)) {
    throw new ArgumentError(
      `Cannot ${op} with context ${describe(context)}: it is an integer of at least 1`,
    );
  }
  const weights = await nn.open(source);
  try {
    return memoryOfModel(weights, config ?? await configOf(source, weights), options);
  } finally {
    weights.dispose();
  }
}

/** Throws an OutOfMemoryError if a model needs more memory than there is. */
export function checkMemory(
  { weights, cache, bytes, free }: ModelMemory,
  device: t.Device | undefined,
): void {
  if (free === undefined || bytes <= free) return;
  throw new OutOfMemoryError(
    bytes,
    String(device ?? "cpu"),
    `the model needs ${weights} bytes for weights and ${cache} for a cache, and ${free} are free; ` +
      "llm.open does not compare them with { checkMemory: false }",
  );
}

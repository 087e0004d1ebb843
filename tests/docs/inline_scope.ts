/**
 * What the names in calls of prose and tables stand for: `x` is a tensor, `axis` a number. Only the
 * compiler reads this module.
 *
 * @module
 */
import type * as arrows from "apache-arrow";
import type { capture, Tensor } from "../../mod.ts";
import type { Compiled, ProgramReport } from "../../src/compile/mod.ts";
import type { World } from "../../src/distributed/mod.ts";
import type * as constrained from "../../src/constraints/mod.ts";
import type * as llms from "../../src/llm/mod.ts";
import type * as models from "../../src/models/mod.ts";
import type * as nns from "../../src/nn/mod.ts";
import type * as onnxes from "../../src/onnx/mod.ts";
import type { ProfileReport } from "../../src/profile/mod.ts";
import type * as tokenizers from "../../src/tokenizers/mod.ts";
import type { Key } from "../../src/api/random.ts";
import type { Any } from "../support.ts";

/** Some names are a tensor on one page, and a number on another. */
type Either = Tensor & number;

// Tensors.
export declare const x: Tensor, y: Tensor, z: Tensor<"complex64">, v: Tensor, w: Tensor;
export declare const a: Tensor, b: Tensor, q: Tensor, k: Tensor, p: Either, mean: Any;
export declare const re: Tensor, im: Tensor, condition: Tensor<"bool">, out: Tensor;
export declare const weight: Tensor, weights: Tensor, shard: Tensor, bias: Tensor, add: Tensor;
export declare const cos: Tensor, sin: Tensor, covariance: Tensor, logits: Tensor, from: Either;
export declare const xs: Tensor, ys: Tensor, lengths: Tensor<"int32">, frequencies: Tensor;
export declare const prepend: Tensor, append: Tensor, gather: boolean;
// Numbers.
export declare const n: number,
  axis: number,
  value: number,
  start: number,
  step: number,
  end: number;
export declare const stop: number & string, decimals: number, kth: number, seed: number;
export declare const number: number, count: number, root: number, to: number, color: number;
export declare const timeout: number, low: number, high: number, scale: number, loc: number;
export declare const alpha: number, rate: number, quality: number, length: number, std: number;
export declare const maxTokens: number, temperature: number, correction: number, dx: number;
export declare const left: number, right: number, groups: number, spacing: number;
export declare const O: number, I: number, N: number, D: number, C: number, K: number;
// Options.
export declare const keepDims: boolean, descending: boolean, replace: boolean, sorted: boolean;
export declare const rowVariables: boolean, largest: boolean, interleaved: boolean, edgeOrder: 1;
export declare const shape: number[], positions: number[], ids: number[], index: string, s: [2, 3];
export declare const dtype: "float32", device: "cuda", method: "linear", name: "float32";
export declare const path: string, folder: string, text: string, url: string, prompt: string;
export declare const bytes: Uint8Array, signal: AbortSignal, address: bigint, options: Any;
export declare const onProgress: () => void, json: Any, config: Any, cached: Any;
// Functions, and what the library makes.
export declare const gradients: Any, data: Any, state: Any;
export declare const f: Any, make: Any, build: Any, predict: Compiled<(x: Tensor) => Tensor>;
export declare const report: ProfileReport & ProgramReport, world: World, group: World;
export declare const key: Key & number, arrow: typeof arrows, column: arrows.Vector;
export declare const schema: constrained.JsonSchema, ebnf: string;
export declare const model: llms.LanguageModel, session: llms.Session, codec: llms.TextCodec;
export declare const engine: llms.Engine, tools: models.Tool[];
export declare const opened: nns.Weights, conv: nns.ConvLayer<2>, norm: nns.BatchNormLayer;
export declare const layer: nns.LinearLayer, other: nns.LinearLayer;
export declare const encode: Compiled<(...all: Tensor[]) => Tensor>;
export declare const tokens: number[], tokenizer: tokenizers.Tokenizer;
// Ready models.
export declare const detector: onnxes.Model, feeds: Any, external: Any, ops: Any;
export declare const question: string, query: string, texts: string[], top: number;
export declare const embedder: models.Embedder, chat: models.Chat;
export declare const graph: ReturnType<typeof capture>;

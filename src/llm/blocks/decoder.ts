/**
 * The frame of decoders: embedding, layers, norm and logits, as a function of a step.
 *
 * @module
 */
import type { DType } from "../../base/dtype.ts";
import { FormatError } from "../../base/errors.ts";
import { quantize, stack } from "../../api/functions/tensors.ts";
import type * as nn from "../../nn/mod.ts";
import type { AnyTensor, Tensor } from "../../tensor/tensor.ts";
import { type ModelConfig, placesOf } from "../config/config.ts";
import {
  type AnyWeights,
  type Format,
  type Heads,
  type MakeBlock,
  type Memory,
  type Model,
  type ShapedAngles,
  sizesOf,
  type State,
  type Step,
  type Stepped,
  type Tokens,
} from "./step.ts";

/** A {@link Step}, with the shapes of what it takes. */
type ShapedStep = (
  ids: Tensor<DType, [number]>,
  angles: readonly ShapedAngles[],
  past: {
    readonly data: Tensor<DType, [number, 2, number, number, number]>;
    readonly length: AnyTensor;
    readonly convolved?: Tensor<"float32", [number, number, Model["sizes"]["hidden"]]> | undefined;
  },
  wanted: "all" | "none" | Tensor<DType, []>,
) => Stepped;

/** A quantized or cast copy of rows for the cache. */
function stored(rows: Heads, dtype: nn.CacheDType): AnyTensor {
  return dtype === "q8_0" ? quantize(rows, dtype) : rows.astype(dtype);
}

/**
 * Asks `weights` for the layers of a model. Call `weights.done` or `load` before the function that it
 * returns is used.
 */
export function decoder(
  weights: AnyWeights,
  config: ModelConfig,
  cache: nn.CacheDType,
  format: Format,
  block: MakeBlock,
): Step;
export function decoder(
  weights: AnyWeights,
  config: ModelConfig,
  cache: nn.CacheDType,
  format: Format,
  block: MakeBlock,
): ShapedStep {
  const { layers, epsilon, kvHeads, headDimensions } = config;
  const { embeddingScale = 1, logitScale = 1, logitSoftCap } = config;
  const sizes = sizesOf(config);
  const { vocabulary, hidden } = sizes;
  // Each missing one would be listed.
  const tensors = weights.names().length;
  if (layers > tensors) {
    throw new FormatError(
      `the model has ${layers} layers, and the file only ${tensors} tensors`,
      weights.path,
      0,
    );
  }
  const { names, normOffset: offset } = format;
  const model: Model = { config, sizes, names, format, norm: { epsilon, offset } };
  const embedding = weights.embedding(names.embedding, vocabulary, hidden, { dtype: "float32" });
  const places = placesOf(config);
  const blocks = weights.list(names.layers, layers, (w, i) => block(w, model, places[i]!));
  const norm = weights.rmsNorm(names.norm, hidden, model.norm);
  // Many models multiply by the embedding.
  const head = weights.has(names.output) ? names.output : names.embedding;
  const output = weights.linear(head, vocabulary, hidden, { bias: false });
  return (ids, angles, past, wanted) => {
    const count = ids.shape[0] as Tokens;
    const rows: AnyTensor[] = [], inputs: AnyTensor[] = [];
    const memory: Memory = {
      angles,
      cached: (slot) => ({
        keys: past.data.slice(slot, 0),
        values: past.data.slice(slot, 1),
        length: past.length,
      }),
      keep: (k, v) => void rows.push(stored(k, cache), stored(v, cache)),
      convolved: (slot) => past.convolved!.slice(slot),
      keepConvolved: (x) => void inputs.push(x),
    };
    let x: State = embedding(ids.asShape([count]));
    if (embeddingScale !== 1) x = x.mul(embeddingScale);
    for (const run of blocks) x = run(x, memory);
    const all = stack(rows).reshape([rows.length / 2, 2, kvHeads, count, headDimensions]);
    const convolved = inputs.length === 0 ? undefined : stack(inputs);
    if (wanted === "none") return { logits: undefined, rows: all, convolved };
    const last = wanted === "all" ? x : x.take(wanted, 0);
    let logits: Tensor<"float32"> = output(norm(last));
    if (logitScale !== 1) logits = logits.mul(logitScale);
    if (logitSoftCap !== undefined) logits = logits.div(logitSoftCap).tanh().mul(logitSoftCap);
    return { logits, rows: all, convolved };
  };
}

/**
 * The frame of decoders: embedding, layers, norm and logits, as a function of a step.
 *
 * @module
 */
import type { DType } from "../../base/dtype.ts";
import { FormatError } from "../../base/errors.ts";
import type * as nn from "../../nn/mod.ts";
import type { Tensor } from "../../tensor/tensor.ts";
import { type ModelConfig, placesOf } from "../config/config.ts";
import {
  type AnyWeights,
  type Format,
  type MakeBlock,
  type Model,
  type Pace,
  type ShapedAngles,
  sizesOf,
  type State,
  type Step,
  type Stepped,
  type Tokens,
} from "./step.ts";
import { type ShapedPast, StepMemory } from "./step_memory.ts";

/** A {@link Step}, with the shapes of what it takes. */
type ShapedStep = (
  ids: Tensor<DType, [number, number]>,
  angles: readonly ShapedAngles[],
  past: ShapedPast,
  wanted: "all" | "none" | Tensor<DType, []>,
  pace: Pace,
) => Stepped;

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
  const { layers, epsilon } = config;
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
  return (ids, angles, past, wanted, pace) => {
    const count = ids.shape[0] * ids.shape[1] as Tokens;
    const memory = new StepMemory({ angles, past, pace, dtype: cache, sizes });
    let x: State = embedding(ids.reshape([count]));
    if (embeddingScale !== 1) x = x.mul(embeddingScale);
    for (const run of blocks) x = run(x, memory);
    const kept = memory.kept();
    if (wanted === "none") return { logits: undefined, ...kept };
    const last = wanted === "all" ? x : x.take(wanted.reshape([1]), 0);
    let logits: Tensor<"float32"> = output(norm(last));
    if (logitScale !== 1) logits = logits.mul(logitScale);
    if (logitSoftCap !== undefined) logits = logits.div(logitSoftCap).tanh().mul(logitSoftCap);
    return { logits, ...kept };
  };
}

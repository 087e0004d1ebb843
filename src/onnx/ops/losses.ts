/**
 * Losses of classes.
 *
 * @module
 */
import { where } from "../../api/functions/tensors.ts";
import { formatShape } from "../../base/shape.ts";
import type { Call, Implementation } from "../graph/call.ts";
import type { T, Value } from "../graph/values.ts";

/**
 * The negative log-likelihood of labels [N, …] by log-probabilities [N, C, …], with weights of classes
 * [C]. Labels that are `ignore_index` count nothing.
 */
function negativeLogLikelihood(call: Call, scores: T, labels: T, weights: T | undefined): T {
  const { node } = call;
  if (scores.rank < 2 || labels.rank !== scores.rank - 1) {
    const shapes = `${formatShape(scores.shape)} and labels of shape ${formatShape(labels.shape)}`;
    call.failShape(`scores of shape ${shapes}, expected [N, C, …] and [N, …]`);
  }
  const kept = node.has("ignore_index") ? labels.notEqual(node.int("ignore_index")) : undefined;
  const at: T = kept === undefined ? labels : labels.mul(kept.astype(labels.dtype));
  const chosen: T = scores.takeAlongAxis(at.unsqueeze(1), 1).squeeze(1);
  let factors: T | undefined = weights?.take(at, 0);
  if (kept !== undefined) {
    factors = factors === undefined ? kept.astype(scores.dtype) : where(kept, factors, 0) as T;
  }
  const losses: T = factors === undefined ? chosen.neg() : chosen.mul(factors).neg();
  const reduction = node.string("reduction", "mean");
  if (reduction === "none") return losses;
  if (reduction === "sum") return losses.sum() as T;
  if (reduction !== "mean") return call.fail(`reduction ${reduction} is not none, sum or mean`);
  if (factors === undefined) return losses.mean() as T;
  return (losses.sum() as T).div(factors.sum() as T);
}

function crossEntropy(call: Call): readonly Value[] {
  const logs = call.tensor(0).logSoftmax(1);
  return [negativeLogLikelihood(call, logs, call.tensor(1), call.optional(2)), logs];
}

/** The ops. */
export const LOSSES: Readonly<Record<string, Implementation>> = {
  NegativeLogLikelihoodLoss: (call) => [
    negativeLogLikelihood(call, call.tensor(0), call.tensor(1), call.optional(2)),
  ],
  SoftmaxCrossEntropyLoss: crossEntropy,
};

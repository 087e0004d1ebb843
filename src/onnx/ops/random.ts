/**
 * Ops of random numbers. They run by themselves: a program would give the same numbers each time.
 *
 * A `seed` gives the same numbers in each run. They are those of this library's generator, not of
 * other runtimes.
 *
 * @module
 */
import * as random from "../../api/random.ts";
import { where } from "../../api/functions/tensors.ts";
import type { DType } from "../../base/dtype.ts";
import { interpreting } from "../../core/interpreter.ts";
import { full } from "../../tensor/create.ts";
import type { Call, Implementation } from "../graph/call.ts";
import { dtypeOf } from "../graph/initializers.ts";
import { NeedsHost } from "../graph/needs.ts";
import type { T, Value } from "../graph/values.ts";

/** The key of a call: of its seed, or a new one. */
function keyOf(call: Call): random.Key {
  if (interpreting()) throw new NeedsHost("its results are random");
  const seed = call.node.has("seed") ? seedOf(call) : undefined;
  if (seed !== undefined) return random.key(seed);
  return random.key(crypto.getRandomValues(new BigUint64Array(1))[0]!);
}

/** The bits of the attribute `seed`, which is a float in most ops. */
function seedOf(call: Call): bigint {
  const seed = call.node.op === "Dropout" ? call.node.int("seed") : call.node.float("seed");
  return new BigUint64Array(Float64Array.of(seed).buffer)[0]!;
}

/** The dtype of the attribute `dtype`; `otherwise` without one. */
function dtypeAttribute(call: Call, otherwise: DType): DType {
  if (!call.node.has("dtype")) return otherwise;
  const type = call.node.int("dtype");
  return dtypeOf(type) ?? call.failDType(`no tensor has the element type ${type}`);
}

/** Random numbers of a shape, as the attributes ask for. */
type Draw = (key: random.Key, shape: readonly number[], dtype: DType, call: Call) => T;

const normal: Draw = (key, shape, dtype, { node }) =>
  random.normal(key, shape, {
    ...{ mean: node.float("mean", 0), std: node.float("scale", 1), dtype },
  }) as T;

const uniform: Draw = (key, shape, dtype, { node }) =>
  random.uniform(key, shape, {
    ...{ low: node.float("low", 0), high: node.float("high", 1), dtype },
  }) as T;

/** Numbers of the shape of an attribute. */
const ofShape = (draw: Draw): Implementation => (call) => {
  const shape = call.node.ints("shape") ?? call.fail("shape is missing");
  return [draw(keyOf(call), shape, dtypeAttribute(call, "float32"), call)];
};

/** Numbers of the shape of an input. */
const ofInput = (draw: Draw): Implementation => (call) => {
  const x = call.tensor(0);
  return [draw(keyOf(call), x.shape, dtypeAttribute(call, x.dtype), call)];
};

function bernoulli(call: Call): readonly Value[] {
  const x = call.tensor(0);
  const draws = random.uniform(keyOf(call), x.shape, { dtype: "float32" }) as T;
  return [draws.less(x.astype("float32")).astype(dtypeAttribute(call, x.dtype))];
}

/** Indexes [B, samples] of classes by logits [B, C]: the largest of logits with Gumbel's noise. */
function multinomial(call: Call): readonly Value[] {
  const logits = call.tensor(0), samples = call.node.int("sample_size", 1);
  const dtype = dtypeAttribute(call, "int32");
  if (logits.rank !== 2) call.failShape(`input 0 has ${logits.rank} axes, expected [B, C]`);
  const [batches, classes] = [logits.shape[0]!, logits.shape[1]!];
  const noise = random.gumbel(keyOf(call), [batches, samples, classes]) as T;
  const scores: T = logits.astype("float32").unsqueeze(1).add(noise);
  return [(scores.argmax(-1) as T).astype(dtype)];
}

/** Dropout of training, if the call asks for it; else its input. */
function dropout(call: Call): readonly Value[] {
  const { node, opset } = call;
  const x = call.tensor(0);
  const trains = opset >= 12
    ? call.has(2) && call.elements(2)[0] === true
    : opset < 7 && node.has("is_test") && !node.flag("is_test");
  const ratio = opset >= 12 ? call.numberOr(1, 0.5) : node.float("ratio", 0.5);
  // Old opsets have a mask of numbers.
  const dtype = opset >= 10 ? "bool" : x.dtype;
  if (!trains || ratio === 0) {
    if (!call.wants(1)) return [x];
    return [x, full(x.shape, dtype === "bool" ? true : 1, { dtype }) as T];
  }
  const kept: T = random.uniform(keyOf(call), x.shape, { dtype: "float32" }).greaterEqual(
    ratio,
  ) as T;
  const scaled: T = where(kept.asDType("bool"), x.div(1 - ratio), 0) as T;
  return [scaled, kept.astype(dtype)];
}

/** The ops. */
export const RANDOM: Readonly<Record<string, Implementation>> = {
  RandomNormal: ofShape(normal),
  RandomNormalLike: ofInput(normal),
  RandomUniform: ofShape(uniform),
  RandomUniformLike: ofInput(uniform),
  Bernoulli: bernoulli,
  Multinomial: multinomial,
  Dropout: dropout,
};

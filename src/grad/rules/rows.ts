/**
 * Derivatives of softmax and norms, and of attention.
 *
 * @module
 */
import { DTYPE } from "../../base/dtype.ts";
import { normalizeAxes, sameShape } from "../../base/shape.ts";
import { apply } from "../../core/apply.ts";
import { dispatchAll } from "../../core/dispatch.ts";
import type { Operand } from "../../memory/operand.ts";
import { type AttentionAttributes, splitHeads } from "../../ops/attention/problem.ts";
import { softmax as softmaxOf } from "../../ops/softmax_norm/op.ts";
import { epsilonOf, type NormBackwardAttributes } from "../../ops/softmax_norm/problem.ts";
import { type Call, makeOp, type Op, type OutputSpec } from "../../table/op.ts";
import { MAP } from "../../table/table.ts";
import {
  add,
  castTo,
  div,
  exp,
  matmul,
  mean,
  mT,
  mul,
  reshape,
  sub,
  sum,
  where,
} from "../tape/arithmetic.ts";
import { addRules, type Gradient, type Rule } from "../tape/rule.ts";
import { byComposition } from "../tape/tape.ts";
import { iota } from "../../ops/index/selection.ts";

const softmax: Rule = ({ call, outputs, keep }) => {
  const { axis } = call.attributes, result = keep(outputs[0]!);
  return ([g]) => {
    const p = result();
    return [mul(sub(g!, sum(mul(g!, p), [axis], true)), p)];
  };
};

const logSoftmax: Rule = ({ call, outputs, keep }) => {
  const { axis } = call.attributes, result = keep(outputs[0]!);
  return ([g]) => [sub(g!, mul(exp(result()), sum(g!, [axis], true)))];
};

/**
 * The derivatives by x, weight and bias of norms of rows: x times the inverse root of the mean square,
 * with or without the mean. They are in the dtype of `given`, which is that of `x`.
 */
function normBackward(
  [x, given, weight]: readonly [Operand, Operand, (Operand | undefined)?],
  { axes, epsilon, isCentred }: NormBackwardAttributes,
  wants: (k: number) => boolean,
): readonly Gradient[] {
  const { shape } = x.layout;
  const aligned = (one: Operand): Operand => {
    const sizes = one.layout.shape;
    const own = axes.map((_, i) => sizes[i - axes.length + sizes.length] ?? 1);
    return reshape(one, shape.map((_, k) => axes.includes(k) ? own[axes.indexOf(k)]! : 1));
  };
  const others = shape.flatMap((_, k) => axes.includes(k) ? [] : [k]);
  const centred = isCentred ? sub(x, mean(x, axes)) : x;
  const inverse = apply(MAP.rsqrt, add(mean(apply(MAP.square, centred), axes), epsilon));
  const normed = mul(centred, inverse);
  let each: Operand | undefined;
  if (wants(0)) {
    const h = weight === undefined ? given : mul(given, aligned(weight));
    each = sub(h, mul(normed, mean(mul(h, normed), axes)));
    if (isCentred) each = sub(each, mean(h, axes));
    each = mul(each, inverse);
  }
  return [
    each,
    wants(1) ? sum(mul(given, normed), others) : undefined,
    wants(2) ? sum(given, others) : undefined,
  ];
}

/** The derivatives of a norm by x and, with `sums`, by weight and bias, whose axes are those of the norm. */
const NORM_BACKWARD: Op = makeOp({
  kind: "kernel",
  name: "normBackward",
  contiguous: [0, 1],
  infer({ inputs, attributes }: Call): readonly OutputSpec[] {
    const { layout: { shape }, storage: { info } } = inputs[0] as Operand;
    const { axes, sums } = attributes as NormBackwardAttributes;
    const rows = { shape: axes.map((axis) => shape[axis]!), dtype: info };
    return [{ shape: shape.slice(), dtype: info }, ...sums ? [rows, rows] : []];
  },
  decompose: (call: Call) => composedNorm(call.inputs as Operand[], call),
});

/** What {@link NORM_BACKWARD} gives, by other ops. */
function composedNorm(inputs: readonly Operand[], { attributes }: Call): readonly Operand[] {
  const own = attributes as NormBackwardAttributes;
  const [x, g, weight] = inputs as [Operand, Operand, Operand?];
  const made = normBackward([x, g, weight], own, (k) => k === 0 || own.sums);
  return made.filter((one) => one !== undefined);
}

const norm = (isCentred: boolean): Rule => ({ call, inputs, outputs, wants, keep }) => {
  const [x, weight, bias] = inputs as [Operand, Operand?, Operand?];
  const axes = normalizeAxes(call.name, call.attributes.axis ?? -1, x.layout.rank)
    .sort((a, b) => a - b);
  const { info } = outputs[0]!.storage;
  // Sums of 16-bit floats are kept in 32 bits.
  const wide = DTYPE[info.bytes === 2 ? "float32" : info.name];
  const value = keep(x), scale = weight && keep(weight);
  const wanted = [wants(0), weight !== undefined && wants(1), bias !== undefined && wants(2)];
  const sums = wanted[1]! || wanted[2]!;
  const attributes: NormBackwardAttributes = {
    ...{ axes, isCentred, sums, epsilon: epsilonOf(call, info) },
  };
  return ([given]) => {
    const [x, g, weight] = [castTo(value(), wide), castTo(given!, wide), scale?.()];
    if (!wanted[0]) return normBackward([x, g, weight], attributes, (k) => wanted[k]!);
    const made = dispatchAll(NORM_BACKWARD, weight ? [x, g, weight] : [x, g], attributes);
    return made.map((one, k) => wanted[k] ? one : undefined);
  };
};

// ---- attention ---------------------------------------------------------------------------------

/**
 * The derivatives of softmax(q kᵀ scale + mask) v by its inputs, of which those that are not wanted are
 * undefined.
 */
function composed(
  [Q, K, V, mask]: readonly [Operand, Operand, Operand, Operand?],
  given: Operand,
  { scale, causal, softCap }: AttentionAttributes,
  wants: (k: number) => boolean,
): readonly Gradient[] {
  const [heads, m] = Q.layout.shape.slice(-3) as [number, number, number];
  const [own, n] = K.layout.shape.slice(-3) as [number, number];
  const groups = heads / own;
  /** Heads of queries by the head of keys that they share. */
  const split = (x: Operand): Operand => {
    const { shape } = x.layout;
    return groups === 1 ? x : reshape(x, [...shape.slice(0, -3), own, groups, ...shape.slice(-2)]);
  };
  const shared = (x: Operand): Operand => {
    const { shape } = x.layout;
    return groups === 1 ? x : reshape(x, [...shape.slice(0, -2), 1, ...shape.slice(-2)]);
  };
  /** The heads again as those of queries. */
  const joined = (x: Operand): Operand => {
    const { shape } = x.layout;
    return groups === 1 ? x : reshape(x, [...shape.slice(0, -4), heads, ...shape.slice(-2)]);
  };
  const g = split(given), queries = split(Q), keys = shared(K), values = shared(V);
  const raw = mul(matmul(queries, mT(keys)), scale);
  const capped = softCap === undefined || softCap === 0
    ? raw
    : mul(apply(MAP.tanh, div(raw, softCap)), softCap);
  let scores = capped;
  const isHidden = causal ? hidden(Q, m, n) : undefined;
  if (mask !== undefined) {
    const whole = groups > 1 && mask.layout.rank > 2
      ? reshape(mask, splitHeads(mask.layout.shape, own))
      : mask;
    scores = whole.storage.info.kind === "b" ? where(whole, scores, -Infinity) : add(scores, whole);
  }
  if (isHidden !== undefined) scores = where(isHidden, -Infinity, scores);
  const p = softmaxOf("softmax", scores, -1);
  // Rows without keys have no shares.
  const shares = where(apply(MAP.isnan, p), 0, p);
  const byShares = matmul(g, mT(values));
  const delta = sum(mul(byShares, shares), [-1], true);
  const byScores = mul(sub(byShares, delta), shares);
  const slope = capped === raw
    ? byScores
    : mul(byScores, sub(1, apply(MAP.square, div(capped, softCap!))));
  const byRaw = mul(slope, scale);
  const overGroups = (x: Operand): Operand => groups === 1 ? x : sum(x, [-3]);
  return [
    wants(0) ? joined(matmul(byRaw, keys)) : undefined,
    wants(1) ? overGroups(matmul(mT(byRaw), queries)) : undefined,
    wants(2) ? overGroups(matmul(mT(shares), g)) : undefined,
    mask && wants(3) ? joined(byScores) : undefined,
  ];
}

/** Derivatives by queries, keys and values of the same axes before the heads, without mask and limit. */
const ATTENTION_BACKWARD: Op = makeOp({
  kind: "kernel",
  name: "attentionBackward",
  infer: ({ inputs }: Call): readonly OutputSpec[] =>
    (inputs.slice(0, 3) as Operand[]).map(({ layout: { shape }, storage: { info } }) => ({
      shape: shape.slice(),
      dtype: info,
    })),
  decompose({ inputs, attributes }: Call): readonly Operand[] {
    const [q, k, v, g] = inputs as [Operand, Operand, Operand, Operand];
    const made = composed([q, k, v], g, attributes as AttentionAttributes, () => true);
    return made.slice(0, 3) as readonly Operand[];
  },
});

/** Nothing but the inputs is kept: the way back computes the scores again. */
const attention: Rule = ({ call, inputs, wants, keep }) => {
  const kept = inputs.map((one) => keep(one as Operand));
  const attributes = call.attributes as AttentionAttributes;
  const { softCap } = attributes;
  return ([g]) => {
    const own = kept.map((one) => one()) as [Operand, Operand, Operand, Operand?];
    const isPlain = own.length === 3 && (softCap === undefined || softCap === 0) &&
      own.every((x) =>
        x!.storage.info === g!.storage.info &&
        sameShape(x!.layout.shape.slice(0, -3), g!.layout.shape.slice(0, -3))
      );
    if (!isPlain) return composed(own, g!, attributes, wants);
    return dispatchAll(ATTENTION_BACKWARD, [...own as Operand[], g!], attributes);
  };
};

/** Where a query does not see a key: the last query sees all. */
function hidden(like: Operand, m: number, n: number): Operand {
  const rows = reshape(add(iota(like.storage, m), n - m), [m, 1]);
  return apply(MAP.greater, reshape(iota(like.storage, n), [1, n]), rows);
}

addRules({
  softmax,
  logSoftmax,
  layerNorm: norm(true),
  rmsNorm: norm(false),
  normBackward: byComposition(composedNorm),
  attention,
});

/**
 * Attention to the keys of a cache and to those of new tokens.
 *
 * @module
 */
import { DTYPE, promoteTypes } from "../../base/dtype.ts";
import { ArgumentError, DTypeError, ShapeError } from "../../base/errors.ts";
import { formatShape, sameShape } from "../../base/shape.ts";
import { describe } from "../../base/text.ts";
import { apply, applyView } from "../../core/apply.ts";
import {
  type AttentionSizes,
  type CachedAttributes,
  splitHeads,
} from "../../ops/attention/problem.ts";
import { cast } from "../../core/copy.ts";
import { dispatch } from "../../core/dispatch.ts";
import { ownOperand } from "../../core/foreign.ts";
import { tidy } from "../../core/handles.ts";
import type { Operand } from "../../memory/operand.ts";
import { checkDevice, checkKind, checkOperand, checkOptions } from "../../table/infer.ts";
import { type Call, type Input, makeOp, type Op, type OutputSpec } from "../../table/op.ts";
import { MAP, REDUCE } from "../../table/table.ts";
import { VIEWS } from "../../table/views.ts";
import { isQuantized } from "../../ops/quantized/dtypes.ts";
import { attention } from "../../ops/attention/op.ts";
import { concat } from "../../ops/join/op.ts";
import { matmul } from "../../ops/matmul/op.ts";
import { reduce } from "../../ops/reduce/op.ts";
import { rowDType } from "../../ops/softmax_norm/problem.ts";
import { dequantize } from "../../ops/quantized/op.ts";
import { iota } from "../../ops/index/selection.ts";
import type { AnyTensor, Tensor } from "../../tensor/tensor.ts";

/** The operands of a call: q, k, v, keys, values and length. */
type Operands = [Operand, Operand, Operand, Operand, Operand, Operand];

const KEEP = { keepDims: true };

function doNotFit(call: Call, why: string): ShapeError {
  const [q, k, v, keys, values] = call.inputs.map((x) => formatShape((x as Operand).layout.shape));
  return new ShapeError(
    `Cannot ${call.name} queries ${q}, keys ${k} and values ${v} with cached keys ${keys} and ` +
      `values ${values}: ${why}`,
  );
}

function checkedOperands({ inputs, name }: Call): Operands {
  inputs.forEach((input, i) => {
    checkOperand(input, name);
    checkDevice((inputs[0] as Operand).storage, input.storage, name);
    const { info } = input.storage;
    const isCached = i === 3 || i === 4;
    if (i === 5 && info.kind !== "i" && info.kind !== "u") {
      throw new DTypeError(`Cannot ${name} with a length of ${info.name}: it takes integers`);
    }
    if (i !== 5 && !(isCached && isQuantized(info))) checkKind(info, "f", name);
  });
  return inputs as Operands;
}

function infer(call: Call): readonly OutputSpec[] {
  const { name } = call;
  const operands = checkedOperands(call);
  const [q, k, v, keys, values, length, sinks] = operands.map(({ layout }) => layout.shape) as [
    ...[number[], number[], number[], number[], number[], number[], number[]?],
  ];
  if (operands.slice(0, 5).some(({ layout: { shape } }) => shape.length < 3)) {
    throw doNotFit(call, "each has at least 3 axes: heads, rows and columns");
  }
  const batch = q.slice(0, -3);
  if ([k, v, keys, values].some((shape) => !sameShape(shape.slice(0, -3), batch))) {
    throw doNotFit(call, "the axes before the heads differ");
  }
  const [h, m, d] = q.slice(-3) as [number, number, number];
  const [heads, n] = k.slice(-3) as [number, number];
  const dv = v.at(-1)!, capacity = keys.at(-2)!;
  if (heads === 0 || h % heads > 0) {
    throw doNotFit(call, `${h} heads of queries are no multiple of ${heads} heads of keys`);
  }
  if (n !== m) throw doNotFit(call, `there are ${m} queries and ${n} keys`);
  const wanted = [[k, heads, m, d], [v, heads, m, dv], [keys, heads, capacity, d], [
    ...[values, heads, capacity, dv],
  ]] as const;
  for (const [shape, ...tail] of wanted) {
    if (sameShape((shape as number[]).slice(-3), tail as number[])) continue;
    throw doNotFit(
      call,
      `${formatShape(shape as number[])} must end with ${formatShape(tail as number[])}`,
    );
  }
  if (capacity < 1) throw doNotFit(call, "the cache has no room");
  if (length.length > 0 && !sameShape(length, batch)) {
    throw doNotFit(
      call,
      `the length must have shape [] or ${formatShape(batch)}, got ${formatShape(length)}`,
    );
  }
  if (sinks !== undefined && !sameShape(sinks, [h])) {
    throw doNotFit(call, `the sinks must have shape [${h}], got ${formatShape(sinks)}`);
  }
  const { scale, window, softCap } = call.attributes as CachedAttributes;
  if (typeof scale !== "number") {
    throw new ArgumentError(`${name}() needs a number as scale, got ${describe(scale)}`);
  }
  if (window !== Infinity && (!Number.isInteger(window) || window < 1)) {
    throw new ArgumentError(
      `Cannot ${name} with window ${describe(window)}: it is an integer of at least 1`,
    );
  }
  // Kernels compute with the float32 of it.
  const isCap = typeof softCap === "number" && Math.fround(softCap) > 0;
  if (!isCap || softCap < Infinity && Math.fround(softCap) === Infinity) {
    throw new ArgumentError(
      `Cannot ${name} with softCap ${describe(softCap)}: it is a number above 0 in the ` +
        "range of float32",
    );
  }
  call.memo = { groupSize: h / heads, m, n: m, d, dv } satisfies AttentionSizes;
  const dtype = operands.slice(0, 3).map(({ storage }) => storage.info.name)
    .reduce((a, b) => promoteTypes(a, b, name));
  return call.result([...batch, h, m, dv], DTYPE[dtype]);
}

/** 0, 1, … as rows: [count, 1]. */
function rowsOf(like: Operand["storage"], count: number): Operand {
  return applyView(VIEWS.reshape, iota(like, count), "reshape", [count, 1]);
}

/** Lengths with axes of heads, rows and columns: [..., 1, 1, 1]. */
function columnOf(lengths: Operand): Operand {
  return applyView(VIEWS.reshape, lengths, "reshape", [...lengths.layout.shape, 1, 1, 1]);
}

/** True for each pair of a query and a key that it sees: [..., 1, M, C + M]. */
function seen(lengths: Operand, capacity: number, m: number, window: number): Operand {
  const { storage } = lengths;
  const columns = iota(storage, capacity + m), rows = rowsOf(storage, m);
  const length = columnOf(lengths);
  let cached = apply(MAP.less, columns, length);
  const own = apply(MAP.sub, columns, capacity);
  const isNew = apply(MAP.greaterEqual, columns, capacity);
  let causal = apply(MAP.logicalAnd, isNew, apply(MAP.lessEqual, own, rows));
  if (window !== Infinity) {
    // Position of the query − position of the key < window.
    const first = apply(MAP.sub, rows, window);
    causal = apply(MAP.logicalAnd, causal, apply(MAP.greater, own, first));
    const last = apply(MAP.add, first, length);
    cached = apply(MAP.logicalAnd, cached, apply(MAP.greater, columns, last));
  }
  return apply(MAP.logicalOr, apply(MAP.logicalAnd, cached, apply(MAP.logicalNot, isNew)), causal);
}

/** What {@link capped} computes with. */
interface Capped {
  readonly scale: number;
  readonly softCap: number;
  readonly mask: Operand;
  readonly sinks: Operand | undefined;
}

/** Attention with a limit of scores and with sinks, which `attention` does not have. */
function capped(
  q: Operand,
  k: Operand,
  v: Operand,
  { scale, softCap, mask, sinks }: Capped,
): Operand {
  const { shape } = q.layout;
  const heads = k.layout.shape.at(-3)!;
  const reshaped = (x: Operand, to: readonly number[]): Operand =>
    applyView(VIEWS.reshape, x, "reshape", to);
  const grouped = splitHeads(shape, heads);
  const [keys, values] = [k, v].map((x) => reshaped(x, x.layout.shape.toSpliced(-2, 0, 1))) as [
    Operand,
    Operand,
  ];
  let scores = matmul(reshaped(q, grouped), applyView(VIEWS.mT, keys, "mT"));
  scores = apply(MAP.mul, scores, softCap === Infinity ? scale : scale / softCap);
  if (softCap !== Infinity) scores = apply(MAP.mul, apply(MAP.tanh, scores), softCap);
  // The mask has one head: [..., 1, M, N].
  const split = reshaped(mask, mask.layout.shape.toSpliced(-2, 0, 1));
  scores = apply(MAP.where, split, scores, -Infinity);
  let most = reduce(REDUCE.max, scores, -1, KEEP);
  if (sinks === undefined) {
    const powers = apply(MAP.exp, apply(MAP.sub, scores, most));
    scores = apply(MAP.div, powers, reduce(REDUCE.sum, powers, -1, KEEP));
  } else {
    // A sink is the score of a key whose value is 0.
    const sink = reshaped(sinks, [heads, grouped.at(-3)!, 1, 1]);
    most = apply(MAP.maximum, most, sink);
    const powers = apply(MAP.exp, apply(MAP.sub, scores, most));
    const own = apply(MAP.exp, apply(MAP.sub, sink, most));
    scores = apply(MAP.div, powers, apply(MAP.add, reduce(REDUCE.sum, powers, -1, KEEP), own));
  }
  return reshaped(matmul(scores, values), [...shape.slice(0, -1), v.layout.shape.at(-1)!]);
}

/** The definition: attention to all keys of the cache and the new ones, with a mask. */
function decompose(call: Call): Operand {
  const { name, attributes, outputs: [out] } = call;
  const [q, k, v, keys, values, length] = call.inputs as Operands;
  const { dtype } = call.specs[0]!;
  const own = [q, k, v].map((x) => cast(x, dtype.name)) as [Operand, Operand, Operand];
  const count = cast(length, "int32");
  const given = call.inputs[6] as Operand | undefined;
  const sinks = given && cast(given, dtype.name);
  // A backend may have a kernel for the cast operands.
  if (own.some((x, i) => x !== call.inputs[i]) || count !== length || sinks !== given) {
    const inputs = [...own, keys, values, count, ...sinks === undefined ? [] : [sinks]];
    return dispatch(CACHED_ATTENTION, inputs, attributes, out, name);
  }
  const { m } = call.memo as AttentionSizes;
  const capacity = keys.layout.shape.at(-2)!;
  const { scale, window, softCap } = attributes as CachedAttributes;
  const isPlain = softCap === Infinity && sinks === undefined;
  const wide = isPlain ? dtype.name : rowDType(dtype).name;
  const numbers = (x: Operand): Operand =>
    cast(isQuantized(x.storage.info) ? dequantize(x) : x, wide);
  // A length beyond the rows counts as all of them, also for windows.
  const filled = apply(MAP.minimum, apply(MAP.maximum, count, 0), capacity);
  const mask = seen(filled, capacity, m, window < capacity + m ? window : Infinity);
  // Weights of 0 do not hide NaN and infinities.
  const rows = apply(MAP.less, rowsOf(count.storage, capacity), columnOf(filled));
  const cached = apply(MAP.where, rows, numbers(values), 0);
  const all = concat([numbers(keys), numbers(own[1])], -2);
  const everyValue = concat([cached, numbers(own[2])], -2);
  if (isPlain) return attention(own[0], all, everyValue, { scale, mask, ...out && { out } });
  const how = { scale, softCap, mask, sinks: sinks && numbers(sinks) };
  return cast(capped(numbers(own[0]), all, everyValue, how), dtype.name);
}

/**
 * q [..., H, M, D], k [..., Hk, M, D], v [..., Hk, M, Dv], keys [..., Hk, C, D], values
 * [..., Hk, C, Dv], a length [] or [...], and perhaps sinks [H].
 */
const CACHED_ATTENTION: Op = makeOp({
  kind: "kernel",
  name: "cachedAttention",
  strided: true,
  contiguous: [5, 6],
  infer,
  decompose,
});

/** Keys and values of earlier tokens. */
export interface CachedKeys {
  /** [..., Hk, C, D]: floats, or q8_0. */
  readonly keys: AnyTensor;
  /** [..., Hk, C, Dv]: floats, or q8_0. */
  readonly values: AnyTensor;
  /** How many of the C rows count: integers of shape [], or one for each sequence [...]. */
  readonly length: AnyTensor;
}

/** Options of {@link cachedAttention}. */
export interface CachedAttentionOptions {
  /** The factor of the products of queries and keys; 1 / √D by default. */
  readonly scale?: number | undefined;
  /**
   * How many tokens a query sees at most, itself included: a sliding window. By default it sees all
   * before it.
   */
  readonly window?: number | undefined;
  /** c of c · tanh(score / c), which limits the scores before the softmax; none by default. */
  readonly softCap?: number | undefined;
  /** Floats [H]: for each head, a score that takes part in the softmax and has no value. */
  readonly sinks?: AnyTensor | undefined;
}

/**
 * Attention of new tokens to the first `length` keys of a cache and, causally, to each other: queries
 * [..., H, M, D], keys [..., Hk, M, D] and values [..., Hk, M, Dv] give [..., H, M, Dv]. The same as
 * `attention` with `causal` to the keys of the cache, followed by `k`. Groups of H / Hk consecutive
 * heads of queries share a head of keys and values.
 *
 * The length is a tensor, so that a compiled program is the same for all lengths; a length beyond the
 * rows of the cache counts as all of them. The cache is read only.
 *
 * @throws {ShapeError} For shapes that do not fit.
 * @throws {DTypeError} For operands that are not floats.
 *
 * @example
 * ```ts
 * const [q, k, v] = [ones([4, 1, 8]), ones([2, 1, 8]), ones([2, 1, 8])]; // one token
 * const [keys, values] = [zeros([2, 16, 8]), zeros([2, 16, 8])]; // room for 16
 * const length = tensor(3, { dtype: "int32" });
 * nn.cachedAttention(q, k, v, { keys, values, length }).shape; // => [4, 1, 8]
 * ```
 */
export function cachedAttention<Q extends AnyTensor, K extends AnyTensor, W extends AnyTensor>(
  q: Q,
  k: K,
  v: W,
  cached: CachedKeys,
  options?: CachedAttentionOptions,
): Tensor<Q["dtype"], number[], Q["device"]>;
export function cachedAttention(
  q: AnyTensor,
  k: AnyTensor,
  v: AnyTensor,
  cached: CachedKeys,
  options: CachedAttentionOptions = {},
): Operand {
  const name = "cachedAttention";
  checkOptions(name, options, ["scale", "window", "softCap", "sinks"]);
  checkOptions(name, cached, ["keys", "values", "length"]);
  const { keys, values, length } = cached;
  const { window = Infinity, softCap = Infinity, sinks } = options;
  const given = [q, k, v, keys, values, length, ...sinks === undefined ? [] : [sinks]];
  const inputs = given.map((x) => ownOperand(x, name));
  const columns = inputs[0]!.layout.shape.at(-1) ?? 1;
  const scale = options.scale ?? 1 / Math.sqrt(Math.max(1, columns));
  const attributes: CachedAttributes = { scale, causal: true, window, softCap };
  return tidy(() => dispatch(CACHED_ATTENTION, inputs as Input[], attributes));
}

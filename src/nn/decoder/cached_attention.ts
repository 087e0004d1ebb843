/**
 * Attention to the keys of a cache and to those of new tokens.
 *
 * @module
 */
import { DTYPE, type DTypeInfo, promoteTypes } from "../../base/dtype.ts";
import { ArgumentError, DTypeError, ShapeError } from "../../base/errors.ts";
import { formatShape, sameShape } from "../../base/shape.ts";
import { describe } from "../../base/text.ts";
import { apply, applyView } from "../../core/apply.ts";
import {
  type AttentionSizes,
  CACHED_INPUTS,
  type CachedAttributes,
  splitHeads,
} from "../../ops/attention/problem.ts";
import { cast } from "../../core/copy.ts";
import { dispatch } from "../../core/dispatch.ts";
import { ownOperand } from "../../core/foreign.ts";
import { tidy } from "../../core/handles.ts";
import { converted } from "../../core/prepare.ts";
import { isOperand, type Operand } from "../../memory/operand.ts";
import { checkDevice, checkKind, checkOperand, checkOptions } from "../../table/infer.ts";
import { type Call, makeOp, type Op, type OutputSpec, type Prepared } from "../../table/op.ts";
import { MAP, REDUCE } from "../../table/table.ts";
import { VIEWS } from "../../table/views.ts";
import { isQuantized } from "../../ops/quantized/dtypes.ts";
import { attention, checkSoftCap } from "../../ops/attention/op.ts";
import { concat } from "../../ops/join/op.ts";
import { matmul } from "../../ops/matmul/op.ts";
import { MOST_INT32 } from "../../ops/reduce/large_index.ts";
import { reduce } from "../../ops/reduce/op.ts";
import { rowDType } from "../../ops/softmax_norm/problem.ts";
import { dequantize } from "../../ops/quantized/op.ts";
import { take } from "../../ops/index/op.ts";
import { iota } from "../../ops/index/selection.ts";
import type { AnyTensor, Tensor } from "../../tensor/tensor.ts";

/** The operands of a call: q, k, v, keys, values and length, and perhaps sinks and pages. */
type Operands = [Operand, Operand, Operand, Operand, Operand, Operand, Operand?, Operand?];

const { keys: KEYS, values: VALUES, length: LENGTH, sinks: SINKS, pages: PAGES } = CACHED_INPUTS;

const KEEP = { keepDims: true };

function doNotFit(call: Call, why: string): ShapeError {
  const [q, k, v, keys, values] = call.inputs.slice(0, LENGTH)
    .map((x) => formatShape((x as Operand).layout.shape));
  return new ShapeError(
    `Cannot ${call.name} queries ${q}, keys ${k} and values ${v} with cached keys ${keys} and ` +
      `values ${values}: ${why}`,
  );
}

function checkedOperands({ inputs, name }: Call): Operands {
  inputs.forEach((input, i) => {
    if (input === undefined && i === SINKS) return;
    checkOperand(input, name);
    checkDevice((inputs[0] as Operand).storage, input.storage, name);
    const { info } = input.storage;
    if (i === LENGTH || i === PAGES) {
      if (info.kind === "i" || info.kind === "u") return;
      const what = i === PAGES ? "pages" : "a length";
      throw new DTypeError(`Cannot ${name} with ${what} of ${info.name}: it takes integers`);
    }
    if (!((i === KEYS || i === VALUES) && isQuantized(info))) checkKind(info, "f", name);
  });
  return inputs as Operands;
}

/** Checks a table of pages, and that the cache consists of pages. */
function checkPages(
  call: Call,
  batch: readonly number[],
  { layout: { shape } }: Operand,
  [keys, values]: readonly [readonly number[], readonly number[]],
): void {
  if (keys.length !== 4 || values.length !== 4) {
    throw doNotFit(call, "with pages, the cache has the 4 axes of pages, heads, rows and columns");
  }
  if (keys[0] !== values[0]) {
    throw doNotFit(call, `there are ${keys[0]} pages of keys and ${values[0]} of values`);
  }
  const fits = shape.length > 0 &&
    (shape.length === 1 || sameShape(shape.slice(0, -1), batch));
  if (!fits) {
    const wanted = batch.length === 0 ? "[P]" : `[P] or ${formatShape(batch).slice(0, -1)}, P]`;
    throw doNotFit(call, `the pages must have shape ${wanted}, got ${formatShape(shape)}`);
  }
  if (keys[0] === 0) throw doNotFit(call, "the cache has no pages");
}

/** How many tokens a sequence can have. */
function capacityOf([, , , keys, , , , pages]: Operands): number {
  return keys.layout.shape.at(-2)! * (pages === undefined ? 1 : pages.layout.shape.at(-1)!);
}

function infer(call: Call): readonly OutputSpec[] {
  const { name } = call;
  const operands = checkedOperands(call);
  const [q, k, v, keys, values, length, sinks] = operands.map((x) => x?.layout.shape) as [
    ...[number[], number[], number[], number[], number[], number[], number[]?],
  ];
  const pages = operands[PAGES];
  if (operands.slice(0, LENGTH).some((x) => x!.layout.shape.length < 3)) {
    throw doNotFit(call, "each has at least 3 axes: heads, rows and columns");
  }
  const batch = q.slice(0, -3);
  const own = pages === undefined ? [k, v, keys, values] : [k, v];
  if (own.some((shape) => !sameShape(shape.slice(0, -3), batch))) {
    throw doNotFit(call, "the axes before the heads differ");
  }
  if (pages !== undefined) checkPages(call, batch, pages, [keys, values]);
  const [h, m, d] = q.slice(-3) as [number, number, number];
  const [heads, n] = k.slice(-3) as [number, number];
  const dv = v.at(-1)!, rows = keys.at(-2)!;
  if (heads === 0 || h % heads > 0) {
    throw doNotFit(call, `${h} heads of queries are no multiple of ${heads} heads of keys`);
  }
  if (n !== m) throw doNotFit(call, `there are ${m} queries and ${n} keys`);
  const wanted = [[k, heads, m, d], [v, heads, m, dv], [keys, heads, rows, d], [
    ...[values, heads, rows, dv],
  ]] as const;
  for (const [shape, ...tail] of wanted) {
    if (sameShape((shape as number[]).slice(-3), tail as number[])) continue;
    throw doNotFit(
      call,
      `${formatShape(shape as number[])} must end with ${formatShape(tail as number[])}`,
    );
  }
  if (capacityOf(operands) < 1) throw doNotFit(call, "the cache has no room");
  if (length.length > 0 && !sameShape(length, batch)) {
    throw doNotFit(
      call,
      `the length must have shape [] or ${formatShape(batch)}, got ${formatShape(length)}`,
    );
  }
  if (sinks !== undefined && !sameShape(sinks, [h])) {
    throw doNotFit(call, `the sinks must have shape [${h}], got ${formatShape(sinks)}`);
  }
  checkAttributes(call);
  call.memo = { groupSize: h / heads, m, n: m, d, dv } satisfies AttentionSizes;
  const dtype = operands.slice(0, 3).map((x) => x!.storage.info.name)
    .reduce((a, b) => promoteTypes(a, b, name));
  return call.result([...batch, h, m, dv], DTYPE[dtype]);
}

function checkAttributes({ attributes, name }: Call): void {
  const { scale, window, softCap, stepwise } = attributes as CachedAttributes;
  if (typeof scale !== "number") {
    throw new ArgumentError(`${name}() needs a number as scale, got ${describe(scale)}`);
  }
  if (window !== Infinity && (!Number.isInteger(window) || window < 1)) {
    throw new ArgumentError(
      `Cannot ${name} with window ${describe(window)}: it is an integer of at least 1`,
    );
  }
  checkSoftCap(name, softCap);
  if (typeof stepwise !== "boolean") {
    throw new ArgumentError(`${name}() needs true or false as stepwise, got ${describe(stepwise)}`);
  }
}

/** True for floats of 16 and 32 bits, of which kernels take any beside queries of float32. */
function isNarrow({ kind, bytes }: DTypeInfo): boolean {
  return kind === "f" && bytes <= 4;
}

/** The inputs in the dtypes that kernels take; null if all are, or if no kernel takes them. */
function prepare(call: Call): Prepared | null {
  const { dtype } = call.specs[0]!;
  if (!isNarrow(dtype)) return null;
  const wanted = call.inputs.map((x, i) => {
    if (!isOperand(x) || i === KEYS || i === VALUES) return x;
    if (i === LENGTH || i === PAGES) return converted(x, DTYPE.int32);
    if (i === SINKS) return converted(x, DTYPE.float32);
    return i === 0 || dtype !== DTYPE.float32 ? converted(x, dtype) : x;
  });
  return wanted.every((x, i) => x === call.inputs[i]) ? null : { inputs: wanted };
}

/** 0, 1, … as rows: [count, 1]. */
function rowsOf(like: Operand["storage"], count: number): Operand {
  return applyView(VIEWS.reshape, iota(like, count), "reshape", [count, 1]);
}

/** Lengths with axes of heads, rows and columns: [..., 1, 1, 1]. */
function columnOf(lengths: Operand): Operand {
  return applyView(VIEWS.reshape, lengths, "reshape", [...lengths.layout.shape, 1, 1, 1]);
}

/**
 * The rows of the pages of each sequence, in order: [..., Hk, P · R, columns]. Numbers of pages out of
 * range stand for the first or the last page.
 */
function gathered(x: Operand, pages: Operand, batch: readonly number[]): Operand {
  const [count, heads, rows, columns] = x.layout.shape as [number, number, number, number];
  const own = applyView(VIEWS.broadcastTo, pages, "broadcastTo", [
    ...batch,
    pages.layout.shape.at(-1)!,
  ]);
  const table = apply(MAP.minimum, apply(MAP.maximum, own, 0), count - 1);
  // [Hk, ..., P, R, columns]
  const taken = take(applyView(VIEWS.swapAxes, x, "swapAxes", 0, 1), table, 1);
  const first = applyView(VIEWS.moveAxis, taken, "moveAxis", 0, batch.length);
  const shape = [...batch, heads, pages.layout.shape.at(-1)! * rows, columns];
  return applyView(VIEWS.reshape, first, "reshape", shape);
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
  const { attributes, outputs: [out] } = call;
  const [q, k, v, keys, values, length, givenSinks, pages] = call.inputs as Operands;
  const { dtype } = call.specs[0]!;
  const own = [q, k, v].map((x) => cast(x, dtype.name)) as [Operand, Operand, Operand];
  const count = cast(length, "int32");
  const { m } = call.memo as AttentionSizes;
  const capacity = capacityOf(call.inputs as Operands);
  const { scale, window, softCap } = attributes as CachedAttributes;
  const isPlain = softCap === Infinity && givenSinks === undefined;
  const wide = isPlain ? dtype.name : rowDType(dtype).name;
  const numbers = (x: Operand): Operand =>
    cast(isQuantized(x.storage.info) ? dequantize(x) : x, wide);
  const table = pages && cast(pages, "int32"), batch = q.layout.shape.slice(0, -3);
  const rowsOfCache = (x: Operand): Operand =>
    numbers(table === undefined ? x : gathered(x, table, batch));
  // A length beyond the rows counts as all of them, also for windows.
  const filled = apply(MAP.minimum, apply(MAP.maximum, count, 0), capacity);
  const limit = window < capacity + m ? window : Infinity;
  const mask = seen(filled, capacity, m, limit);
  // Weights of 0 do not hide NaN and infinities: values that no query sees are 0.
  const column = rowsOf(count.storage, capacity), end = columnOf(filled);
  let isSeen = apply(MAP.less, column, end);
  if (limit !== Infinity) {
    isSeen = apply(MAP.logicalAnd, isSeen, apply(MAP.greater, column, apply(MAP.sub, end, limit)));
  }
  const cached = apply(MAP.where, isSeen, rowsOfCache(values), 0);
  const all = concat([rowsOfCache(keys), numbers(own[1])], -2);
  const everyValue = concat([cached, numbers(own[2])], -2);
  if (isPlain) return attention(own[0], all, everyValue, { scale, mask, ...out && { out } });
  const how = { scale, softCap, mask, sinks: givenSinks && numbers(givenSinks) };
  return cast(capped(numbers(own[0]), all, everyValue, how), dtype.name);
}

/**
 * q [..., H, M, D], k [..., Hk, M, D], v [..., Hk, M, Dv], keys [..., Hk, C, D], values
 * [..., Hk, C, Dv], a length [] or [...], and perhaps sinks [H]. With pages [P] or [..., P] after them,
 * keys are [N, Hk, R, D] and values [N, Hk, R, Dv].
 */
const CACHED_ATTENTION: Op = makeOp({
  kind: "kernel",
  name: "cachedAttention",
  strided: true,
  contiguous: [LENGTH, SINKS, PAGES],
  infer,
  prepare,
  decompose,
});

/** Keys and values of earlier tokens. */
export interface CachedKeys {
  /** [..., Hk, C, D], or with pages [N, Hk, R, D]: floats, or q8_0. */
  readonly keys: AnyTensor;
  /** [..., Hk, C, Dv], or with pages [N, Hk, R, Dv]: floats, or q8_0. */
  readonly values: AnyTensor;
  /** How many rows of a sequence count: integers of shape [], or one for each sequence [...]. */
  readonly length: AnyTensor;
  /**
   * Integers [P], or [..., P] for each sequence: the pages of R rows that a sequence consists of, in
   * order. Token t is row t % R of page `pages[..., t / R]`, and a sequence has room for P · R tokens.
   * Pages may be in any order, and belong to several sequences. Numbers of pages that no query sees do
   * not matter; others out of range stand for the first or the last page.
   */
  readonly pages?: AnyTensor | undefined;
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
  /**
   * Whether each of the M queries is computed as M calls of one query would, with the keys of those
   * before it in the cache: on the CPU to the same bits, if `k` and `v` have numbers of the cache's
   * dtype. False by default: M queries at once are faster.
   */
  readonly stepwise?: boolean | undefined;
}

/**
 * Attention of new tokens to the first `length` keys of a cache and, causally, to each other: queries
 * [..., H, M, D], keys [..., Hk, M, D] and values [..., Hk, M, Dv] give [..., H, M, Dv]. The same as
 * `attention` with `causal` to the keys of the cache, followed by `k`. Groups of H / Hk consecutive
 * heads of queries share a head of keys and values.
 *
 * The length is a tensor, so that a compiled program is the same for all lengths; a length beyond the
 * rows of the cache counts as all of them. The cache is read only. With `pages`, sequences have rows
 * of one pool.
 *
 * On the CPU a sequence has the same bits alone and in a batch, whatever the lengths of the others, in
 * pages and in rows that follow each other: for operands of q8_0 and of floats up to float32.
 *
 * @throws {ShapeError} For shapes that do not fit.
 * @throws {DTypeError} For operands that are not floats, and for lengths and pages that are no integers.
 * @throws {ArgumentError} For options out of range.
 *
 * @example
 * ```ts
 * const [q, k, v] = [ones([4, 1, 8]), ones([2, 1, 8]), ones([2, 1, 8])]; // one token
 * const [keys, values] = [zeros([2, 16, 8]), zeros([2, 16, 8])]; // room for 16
 * const length = tensor(3, { dtype: "int32" });
 * nn.cachedAttention(q, k, v, { keys, values, length }).shape; // => [4, 1, 8]
 * ```
 *
 * @example Two sequences of 3 and 9 tokens, in pages of 4 rows
 * ```ts
 * const [q, k, v] = [ones([2, 4, 1, 8]), ones([2, 2, 1, 8]), ones([2, 2, 1, 8])];
 * const pool = zeros([2, 10, 2, 4, 8]); // keys and values of 10 pages
 * const length = tensor([3, 9], { dtype: "int32" });
 * const pages = tensor([[5, 0, 0], [2, 7, 1]], { dtype: "int32" }); // the first has one page
 * const cached = { keys: pool.slice(0), values: pool.slice(1), length, pages };
 * nn.cachedAttention(q, k, v, cached).shape; // => [2, 4, 1, 8]
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
  checkOptions(name, options, ["scale", "window", "softCap", "sinks", "stepwise"]);
  checkOptions(name, cached, ["keys", "values", "length", "pages"]);
  const { keys, values, length, pages } = cached;
  const { window = Infinity, softCap = Infinity, sinks, stepwise = false } = options;
  const given: (AnyTensor | undefined)[] = [q, k, v, keys, values, length];
  if (sinks !== undefined || pages !== undefined) given.push(sinks);
  if (pages !== undefined) given.push(pages);
  const inputs = given.map((x, i) =>
    x === undefined && i === SINKS ? undefined : ownOperand(x, name)
  );
  const columns = inputs[0]!.layout.shape.at(-1) ?? 1;
  const scale = options.scale ?? 1 / Math.sqrt(Math.max(1, columns));
  const attributes: CachedAttributes = { scale, causal: true, window, softCap, stepwise };
  return tidy(() => {
    const limited = inputs.map((x, i) =>
      x !== undefined && (i === LENGTH || i === PAGES) ? withinInt32(x) : x
    );
    return dispatch(CACHED_ATTENTION, limited, attributes);
  });
}

/** Integers that a cast to int32 does not change: larger and smaller ones become the limits. */
function withinInt32(x: Operand): Operand {
  const { info } = x.storage;
  if ((info.kind !== "i" && info.kind !== "u") || info.bytes < 4 || info === DTYPE.int32) return x;
  const below = apply(MAP.minimum, x, MOST_INT32);
  return info.kind === "u" ? below : apply(MAP.maximum, below, -MOST_INT32);
}

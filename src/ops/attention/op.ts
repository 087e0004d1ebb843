/**
 * Attention as one op, for `nn.attention`, and for compiled programs, which contain it in place of
 * the ops that it is made of.
 *
 * @module
 */
import { DTYPE, type DTypeInfo, promoteTypes } from "../../base/dtype.ts";
import { ArgumentError, DTypeError, ShapeError } from "../../base/errors.ts";
import type { Layout } from "../../base/layout.ts";
import { broadcastShapes, formatShape, sizeOf } from "../../base/shape.ts";
import { describe } from "../../base/text.ts";
import { apply, applyView } from "../../core/apply.ts";
import { type AttentionAttributes, type AttentionSizes, splitHeads } from "./problem.ts";
import { cast } from "../../core/copy.ts";
import { dispatch } from "../../core/dispatch.ts";
import { converted } from "../../core/prepare.ts";
import { rowDType } from "../softmax_norm/problem.ts";
import { isOperand, type Operand } from "../../memory/operand.ts";
import { checkDevice, checkKind, checkOperand } from "../../table/infer.ts";
import { type Call, type Input, makeOp, type Op, type OutputSpec } from "../../table/op.ts";
import { MAP } from "../../table/table.ts";
import { VIEWS } from "../../table/views.ts";
import { matmul, MAX_BATCH } from "../matmul/op.ts";
import { part } from "../../core/composite.ts";
import { iota } from "../index/selection.ts";
import { softmax } from "../softmax_norm/op.ts";

// ---- checks ------------------------------------------------------------------------------------

function doNotFit(call: Call, why: string): ShapeError {
  const [q, k, v] = [0, 1, 2].map((i) => formatShape(call.operand(i).layout.shape));
  return new ShapeError(
    `Cannot ${call.name} queries ${q} with keys ${k} and values ${v}: ${why}`,
  );
}

function sizesOf(call: Call, q: Layout, k: Layout, v: Layout): AttentionSizes {
  if ([q, k, v].some(({ shape }) => shape.length < 3)) {
    throw doNotFit(call, "each has at least 3 axes: heads, rows and columns");
  }
  const [h, m, d] = q.shape.slice(-3) as [number, number, number];
  const [hk, n, dk] = k.shape.slice(-3) as [number, number, number];
  const [hv, nv, dv] = v.shape.slice(-3) as [number, number, number];
  if (d !== dk) throw doNotFit(call, `queries have ${d} columns and keys ${dk}`);
  if (n !== nv) throw doNotFit(call, `there are ${n} keys and ${nv} values`);
  if (hk !== hv) throw doNotFit(call, `keys have ${hk} heads and values ${hv}`);
  if (hk === 0 ? h > 0 : h % hk > 0) {
    throw doNotFit(call, `${h} heads of queries are no multiple of ${hk} heads of keys`);
  }
  return { groupSize: hk === 0 ? 1 : h / hk, m, n, d, dv };
}

function batchOf(call: Call, layouts: readonly Layout[]): readonly number[] {
  const [q, k, v] = layouts.map(({ shape }) => shape.slice(0, -3)) as [
    number[],
    number[],
    number[],
  ];
  try {
    return broadcastShapes(call.name, broadcastShapes(call.name, q, k), v);
  } catch (error) {
    if (!(error instanceof ShapeError)) throw error;
    throw doNotFit(call, "the axes before the heads do not broadcast");
  }
}

function checkMask(call: Call, mask: Operand, scores: readonly number[]): void {
  const { shape } = mask.layout;
  const added = scores.length - shape.length;
  if (added >= 0 && shape.every((n, i) => n === 1 || n === scores[i + added])) return;
  throw new ShapeError(
    `Cannot ${call.name} with a mask of shape ${formatShape(shape)}: it must broadcast to ` +
      `${formatShape(scores)}, the shape of the scores`,
  );
}

/** Throws an ArgumentError for a limit of scores that is none; Infinity stands for no limit. */
export function checkSoftCap(name: string, softCap: unknown): void {
  // Kernels compute with the float32 of it.
  const isCap = typeof softCap === "number" && Math.fround(softCap) > 0;
  if (isCap && (softCap === Infinity || Math.fround(softCap) < Infinity)) return;
  throw new ArgumentError(
    `Cannot ${name} with softCap ${describe(softCap)}: it is a number above 0 in the ` +
      "range of float32",
  );
}

function infer(call: Call): readonly OutputSpec[] {
  const { inputs: [q, k, v, mask], name } = call;
  const { scale, causal, softCap } = call.attributes as AttentionAttributes;
  const operands = [q, k, v].map((x) => {
    checkOperand(x, name);
    checkDevice((q as Operand).storage, x.storage, name);
    checkKind(x.storage.info, "f", name);
    return x;
  });
  if (typeof scale !== "number") {
    throw new ArgumentError(`${name}() needs a number as scale, got ${describe(scale)}`);
  }
  if (typeof causal !== "boolean") {
    throw new ArgumentError(`${name}() needs true or false as causal, got ${describe(causal)}`);
  }
  if (softCap !== undefined) checkSoftCap(name, softCap);
  const layouts = operands.map(({ layout }) => layout) as [Layout, Layout, Layout];
  const sizes = sizesOf(call, ...layouts);
  const batch = batchOf(call, layouts);
  const { m, n, dv } = sizes;
  const heads = layouts[0].shape.at(-3)!;
  if (mask !== undefined) {
    checkOperand(mask, name);
    checkDevice(operands[0]!.storage, mask.storage, name);
    const { kind, name: dtype } = mask.storage.info;
    if (kind !== "f" && kind !== "b") {
      throw new DTypeError(`Cannot ${name} with a mask of ${dtype}: it must be bool or a float`);
    }
    checkMask(call, mask, [...batch, heads, m, n]);
  }
  const shape = [...batch, heads, m, dv];
  if (sizeOf([...batch, heads]) > MAX_BATCH && sizeOf(shape) > 0) {
    throw doNotFit(call, `a batch has at most ${MAX_BATCH} heads`);
  }
  const dtype = operands.map(({ storage }) => storage.info.name)
    .reduce((a, b) => promoteTypes(a, b, name));
  call.memo = sizes;
  return call.result(shape, DTYPE[dtype]);
}

// ---- by other ops ------------------------------------------------------------------------------

/** The dtype in which kernels need a mask. */
function maskDType(mask: Operand, dtype: DTypeInfo): DTypeInfo {
  const { info } = mask.storage;
  return info.kind === "b" ? info : rowDType(dtype);
}

/** True for each pair of a query and a key that it sees: [M, N]. */
function causalMask(like: Operand, m: number, n: number): Operand {
  const last = apply(MAP.add, iota(like.storage, m), n - m);
  const rows = part(last, last.layout.expandDims(1));
  return apply(MAP.lessEqual, iota(like.storage, n), rows);
}

function withMask(scores: Operand, mask: Operand): Operand {
  const out = { out: scores };
  return mask.storage.info.kind === "b"
    ? apply(MAP.where, mask, scores, -Infinity, out)
    : apply(MAP.add, scores, mask, undefined, out);
}

/**
 * Computes rows with NaN again, from the keys that they see; inputs: those of {@link ATTENTION}, with
 * the results before the mask. Weights of 0 do not hide values that are not finite.
 */
const ATTENTION_ROWS: Op = makeOp({
  kind: "kernel",
  name: "attentionRows",
  writes: [3],
  infer: (): readonly OutputSpec[] => [],
});

/** The definition, of operands of one dtype of at least 32 bits. */
function compose(call: Call, q: Operand, k: Operand, v: Operand, mask?: Operand): Operand {
  const { scale, causal, softCap, plain = false } = call.attributes as AttentionAttributes;
  const { groupSize, m, n } = call.memo as AttentionSizes;
  const { shape } = call.specs[0]!;
  const heads = k.layout.shape.at(-3)!;
  const reshaped = (x: Operand, to: readonly number[]): Operand =>
    applyView(VIEWS.reshape, x, "reshape", to);
  const [grouped, keys, values] = groupSize === 1 ? [q, k, v] : [
    reshaped(q, splitHeads(q.layout.shape, heads)),
    reshaped(k, k.layout.shape.toSpliced(-2, 0, 1)),
    reshaped(v, v.layout.shape.toSpliced(-2, 0, 1)),
  ];
  let scores = matmul(grouped, applyView(VIEWS.mT, keys, "mT"));
  const factor = softCap === undefined ? scale : scale / softCap;
  scores = apply(MAP.mul, scores, factor, undefined, { out: scores });
  if (softCap !== undefined) {
    scores = apply(MAP.tanh, scores, undefined, undefined, { out: scores });
    scores = apply(MAP.mul, scores, softCap, undefined, { out: scores });
  }
  if (mask !== undefined) {
    const split = groupSize > 1 && mask.layout.shape.length > 2;
    scores = withMask(
      scores,
      split ? reshaped(mask, splitHeads(mask.layout.shape, heads)) : mask,
    );
  }
  if (causal) scores = withMask(scores, causalMask(q, m, n));
  const product = matmul(softmax("softmax", scores), values);
  const made = groupSize === 1 ? product : reshaped(product, shape);
  if (plain || (mask === undefined && !causal)) return made;
  dispatch(ATTENTION_ROWS, [q, k, v, made, mask], call.attributes, undefined, call.name);
  return made;
}

/** [..., H, M, D], [..., Hk, N, D], [..., Hk, N, Dv] and a mask give [..., H, M, Dv]. */
export const ATTENTION: Op = makeOp({
  kind: "kernel",
  name: "attention",
  strided: true,
  infer,
  prepare(call: Call) {
    const { dtype } = call.specs[0]!;
    const inputs = call.inputs.map((x, i) =>
      isOperand(x) ? converted(x, i < 3 ? dtype : maskDType(x, dtype)) : x
    );
    return inputs.every((x, i) => x === call.inputs[i]) ? null : { inputs };
  },
  decompose(call: Call): Operand {
    const { dtype } = call.specs[0]!;
    const wide = rowDType(dtype);
    const all = call.inputs.filter(isOperand);
    const floats = all.map((x, i) => cast(x, (i < 3 ? wide : maskDType(x, dtype)).name));
    return cast(compose(call, ...floats as [Operand, Operand, Operand, Operand?]), dtype.name);
  },
});

/** Attributes, the mask and the output of {@link attention}. */
export interface AttentionOptions {
  /** The factor of the products; by default 1 / √D. */
  readonly scale?: number;
  /** See {@link AttentionAttributes}. */
  readonly causal?: boolean;
  /** See {@link AttentionAttributes}. */
  readonly softCap?: number;
  /** Added to the scores; of bool, true for keys that a query sees. */
  readonly mask?: Operand;
  /** The result, in any layout. */
  readonly out?: Operand;
}

/**
 * softmax(scale · q kᵀ + mask) v for each head: q: [..., H, M, D], k: [..., Hk, N, D] and v: [...,
 * Hk, N, Dv] give [..., H, M, Dv]. Groups of H / Hk consecutive heads of queries share a head of
 * keys and values. 16-bit floats are computed in float32, also a mask beside them.
 *
 * A query that sees no key gives 0. Keys and values that a query does not see never matter to it, also
 * if they are NaN or infinite: those beyond the causal limit, and where the mask is false or -Infinity.
 */
export function attention(
  q: Operand,
  k: Operand,
  v: Operand,
  options: AttentionOptions = {},
): Operand {
  const { mask, causal = false, softCap, out } = options;
  const columns = isOperand(q) ? q.layout.shape.at(-1) ?? 1 : 1;
  const scale = options.scale ?? 1 / Math.sqrt(Math.max(1, columns));
  const inputs: Input[] = mask === undefined ? [q, k, v] : [q, k, v, mask];
  const isCapped = softCap !== undefined && softCap !== Infinity;
  const attributes: AttentionAttributes = isCapped ? { scale, causal, softCap } : { scale, causal };
  return dispatch(ATTENTION, inputs, attributes, out);
}

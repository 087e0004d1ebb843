/**
 * Attention as backends' kernels run it: one problem for each head of keys and values, with the
 * queries of all heads that share it.
 *
 * @module
 */
import { Layout } from "../../base/layout.ts";
import type { Operand } from "../../memory/operand.ts";
import type { Call } from "../../table/op.ts";
import { type MatrixBatch, matrixBatch } from "../matmul/problem.ts";
import { lanesOf } from "../../core/lanes.ts";

/** Attributes of `attention`. */
export interface AttentionAttributes {
  /** The factor of the products of queries and keys. */
  readonly scale: number;
  /**
   * Whether queries see the first keys only: the last query sees all, each one before it one key
   * less.
   */
  readonly causal: boolean;
  /** The limit that scores approach before the mask; none by default. */
  readonly softCap?: number | undefined;
  /**
   * True for ops that are written out: a query that sees no key gives NaN, and values that it does not
   * see have the weight 0, which makes NaN of those that are not finite.
   */
  readonly plain?: boolean;
}

/** Attributes of `cachedAttention`. */
export interface CachedAttributes extends AttentionAttributes {
  /** How many tokens a query sees at most, itself included; Infinity for all. */
  readonly window: number;
  /** The limit that scores approach; Infinity for none. */
  readonly softCap: number;
  /** Whether queries are computed as in calls of one query each. */
  readonly stepwise: boolean;
}

/** The sizes of a call. */
export interface AttentionSizes {
  /** The number of heads of queries that share a head of keys and values. */
  readonly groupSize: number;
  /** The queries of a head. */
  readonly m: number;
  /** The keys of a head. */
  readonly n: number;
  /** The elements of a query and of a key. */
  readonly d: number;
  /** The elements of a value. */
  readonly dv: number;
}

/** The matrices of an operand: [queries or keys, columns] for each problem. */
export interface HeadBatch {
  /** The first matrix of each group. */
  readonly matrices: MatrixBatch;
  /** The distance between the matrices of a group. */
  readonly groupStride: number;
  /** The layout of all elements. */
  readonly whole: Layout;
}

/** A call of `attention`. */
export interface AttentionProblem extends AttentionSizes, AttentionAttributes {
  /** The number of problems. */
  readonly batch: number;
  /** [..., H, M, Dv], written. */
  readonly out: HeadBatch;
  /** [..., H, M, D]. */
  readonly q: HeadBatch;
  /** [..., Hk, N, D]. */
  readonly k: HeadBatch;
  /** [..., Hk, N, Dv]. */
  readonly v: HeadBatch;
  /** [..., H, M, N]. */
  readonly mask: HeadBatch | null;
}

/** The shape of `q` by heads of keys: [..., Hk, G, M, D]; also of a mask with one head. */
export function splitHeads(shape: readonly number[], heads: number): number[] {
  const own = shape.at(-3)!;
  const [first, groupSize] = own === 1 ? [1, 1] : [heads, heads === 0 ? 0 : own / heads];
  return [...shape.slice(0, -3), first, groupSize, ...shape.slice(-2)];
}

/** The matrices of an operand that is broadcast to the batch: `groupSize` heads for each problem. */
function headBatch(
  { storage, layout }: Operand,
  batch: readonly number[],
  heads: number,
  groupSize: number,
): HeadBatch {
  const [rows, columns] = layout.shape.slice(-2) as [number, number];
  const { shape, strides, offset } = layout.broadcastTo([
    ...batch,
    heads * groupSize,
    rows,
    columns,
  ]);
  const at = shape.length - 3;
  const stride = strides[at]!;
  const first = new Layout(shape.with(at, heads), strides.with(at, stride * groupSize), offset);
  return { matrices: matrixBatch(storage, first), groupStride: stride, whole: layout };
}

/** The problems of a call of `attention`. */
export function attentionOf(call: Call): AttentionProblem {
  return problemOf(call, call.inputs[3] as Operand | undefined);
}

/** The problems of a call of `attentionRows`, whose results are its fourth input. */
export function attentionRowsOf(call: Call): AttentionProblem {
  const [q, k, v] = [0, 1, 2].map((i) => call.operand(i).layout.shape.slice(-3)) as [
    ...[[number, number, number], [number, number, number], [number, number, number]],
  ];
  const sizes = { groupSize: q[0] / Math.max(1, k[0]), m: q[1], n: k[1], d: q[2], dv: v[2] };
  return problemOf(call, call.inputs[4] as Operand | undefined, call.operand(3), sizes);
}

/** A call of `attentionBackward`: its sizes, and its operands in the order of the buffers. */
export interface AttentionBackwardProblem extends AttentionSizes {
  readonly batch: number;
  /** The derivative by queries, queries, keys, values, given derivatives, those by keys and values. */
  readonly operands: readonly HeadBatch[];
}

/** The problems of a call of `attentionBackward`, whose operands have the same axes before the heads. */
export function attentionBackwardOf(call: Call): AttentionBackwardProblem {
  const [q, k, v, g] = call.inputs as [Operand, Operand, Operand, Operand];
  const [byQ, byK, byV] = call.outputs as [Operand, Operand, Operand];
  const batch = q.layout.shape.slice(0, -3);
  const [heads, m, d] = q.layout.shape.slice(-3) as [number, number, number];
  const [own, n, dv] = v.layout.shape.slice(-3) as [number, number, number];
  const groupSize = heads / own;
  const operands = ([[byQ, groupSize], [q, groupSize], [k, 1], [v, 1], [g, groupSize], [byK, 1], [
    byV,
    1,
  ]] as const).map(([x, size]) => headBatch(x, batch, own, size));
  return { groupSize, m, n, d, dv, batch: operands[0]!.matrices.batch, operands };
}

/** The positions of the inputs of `cachedAttention` after q, k and v; sinks and pages may be missing. */
export const CACHED_INPUTS = { keys: 3, values: 4, length: 5, sinks: 6, pages: 7 } as const;

/** The keys and values of a cache, which come before those of a call. */
export interface CachedHeads {
  /** [..., Hk, C, D]; of quantized dtypes, as bytes. With pages, the matrices are those of page 0. */
  readonly keys: HeadBatch;
  /** [..., Hk, C, Dv]. */
  readonly values: HeadBatch;
  /** The most keys of a head. */
  readonly capacity: number;
  /** The problems that share a length. */
  readonly problemsPerLength: number;
  /** Null without pages. */
  readonly pages: CachedPages | null;
}

/** The pages of a cache. */
export interface CachedPages {
  /** The rows of a page. */
  readonly rows: number;
  /** How many there are. */
  readonly count: number;
  /** The distances between pages of keys and of values, in elements or bytes. */
  readonly strides: readonly [number, number];
  /** The problems that share pages. */
  readonly problemsPerTable: number;
}

/** The problems of a call of `cachedAttention`, whose operands have the same axes before the heads. */
export function cachedAttentionOf(call: Call): AttentionProblem & CachedHeads {
  const problem = problemOf(call, undefined);
  const { batch } = problem;
  const [keys, values] = [CACHED_INPUTS.keys, CACHED_INPUTS.values].map((i) => {
    const x = call.operand(i);
    return x.storage.info.block === 1 ? x : lanesOf(x, call.name);
  }) as [Operand, Operand];
  const [heads, rows] = keys.layout.shape.slice(-3) as [number, number];
  const lengths = call.operand(CACHED_INPUTS.length).layout;
  const table = call.inputs[CACHED_INPUTS.pages] as Operand | undefined;
  const axes = call.outputs[0]!.layout.shape.slice(0, -3);
  const first = (x: Operand): Operand =>
    table === undefined ? x : { ...x, layout: x.layout.selectAxis(0, 0) };
  const cached = (x: Operand): HeadBatch => ({
    ...headBatch(first(x), axes, heads, 1),
    whole: x.layout,
  });
  const perTable = table && table.layout.shape.at(-1)!;
  return {
    ...problem,
    keys: cached(keys),
    values: cached(values),
    capacity: rows * (perTable ?? 1),
    problemsPerLength: batch / lengths.size,
    pages: table === undefined ? null : {
      rows,
      count: keys.layout.shape[0]!,
      strides: [keys.layout.strides[0]!, values.layout.strides[0]!],
      problemsPerTable: batch / (table.layout.size / perTable!),
    },
  };
}

/** The problems of queries, keys and values, the first operands of a call. */
function problemOf(
  call: Call,
  mask: Operand | undefined,
  out: Operand = call.outputs[0]!,
  sizes: AttentionSizes = call.memo as AttentionSizes,
): AttentionProblem {
  const [q, k, v] = [call.operand(0), call.operand(1), call.operand(2)];
  const { scale, causal, softCap, plain = false } = call.attributes as AttentionAttributes;
  const { groupSize, m, n } = sizes;
  const batch = out.layout.shape.slice(0, -3);
  const heads = k.layout.shape.at(-3)!;
  const made = headBatch(out, batch, heads, groupSize);
  const whole = mask && {
    storage: mask.storage,
    layout: mask.layout.broadcastTo([...batch, heads * groupSize, m, n]),
    flags: mask.flags,
  };
  return {
    ...sizes,
    scale,
    causal,
    softCap,
    plain,
    batch: made.matrices.batch,
    out: made,
    q: headBatch(q, batch, heads, groupSize),
    k: headBatch(k, batch, heads, 1),
    v: headBatch(v, batch, heads, 1),
    mask: whole === undefined ? null : headBatch(whole, batch, heads, groupSize),
  };
}

/**
 * Attention, and what stands around it in exported transformers: rotary positions, norms with sums,
 * embeddings.
 *
 * @module
 */
import { concat, where } from "../../api/functions/tensors.ts";
import type { DType } from "../../base/dtype.ts";
import { formatShape } from "../../base/shape.ts";
import { Slice } from "../../base/slice.ts";
import * as nn from "../../nn/mod.ts";
import { arange, zeros } from "../../tensor/create.ts";
import type { Call, Implementation } from "../graph/call.ts";
import type { T, Value } from "../graph/values.ts";

/** How scores of queries and keys become weights. */
interface Scores {
  readonly scale: number;
  /** True for keys that a query sees. */
  readonly seen: T | undefined;
  /** Added to the scores. */
  readonly bias: T | undefined;
  /** c of c · tanh(score / c). */
  readonly softcap: number;
  /** A score of each head that has no value: [H]. */
  readonly sink: T | undefined;
}

/** Two masks as one. */
function both(a: T | undefined, b: T | undefined): T | undefined {
  return a === undefined ? b : b === undefined ? a : a.logicalAnd(b);
}

/** A bool mask as numbers to add. */
function additive(seen: T, bias: T): T {
  return where(seen.asDType("bool"), bias, -Infinity) as T;
}

/** The result for queries [B, H, M, D], keys [B, Hk, N, D] and values [B, Hk, N, Dv]. */
function attend(q: T, k: T, v: T, { scale, seen, bias, softcap, sink }: Scores): T {
  if (sink === undefined) {
    const mask = seen === undefined ? bias : bias === undefined ? seen : additive(seen, bias);
    const how = softcap === 0 ? { scale } : { scale, softCap: softcap };
    return nn.attention(q, k, v, mask === undefined ? how : { ...how, mask }) as T;
  }
  const [keys, values] = [repeatHeads(k, q), repeatHeads(v, q)];
  const weights = weigh(
    limit(q.matmul(keys.swapAxes(-1, -2)).mul(scale), softcap),
    seen,
    bias,
    sink,
  );
  return weights.matmul(values);
}

function limit(scores: T, softcap: number): T {
  return softcap === 0 ? scores : scores.div(softcap).tanh().mul(softcap);
}

/** The softmax of scores [B, H, M, N]; rows without a key give 0. */
function weigh(scores: T, seen: T | undefined, bias: T | undefined, sink: T | undefined): T {
  let all = bias === undefined ? scores : scores.add(bias);
  if (seen !== undefined) all = where(seen.asDType("bool"), all, -Infinity) as T;
  if (sink !== undefined) {
    const [b, h, m, n] = all.shape as [number, number, number, number];
    const column: T = sink.reshape([1, h, 1, 1]).broadcastTo([b, h, m, 1]);
    const wide = (concat([all, column.astype(all.dtype)], -1) as T).softmax(-1) as T;
    return wide.sliceAxis(-1, new Slice(0, n));
  }
  const weights: T = all.softmax(-1);
  return where(weights.isnan(), 0, weights) as T;
}

/** Heads of keys or values for all heads of queries. */
function repeatHeads(x: T, q: T): T {
  const [h, hk] = [q.shape[1]!, x.shape[1]!];
  if (h === hk) return x;
  const [b, , n, d] = x.shape as [number, number, number, number];
  return x.reshape([b, hk, 1, n, d]).broadcastTo([b, hk, h / hk, n, d]).reshape([b, h, n, d]);
}

/** [B, S, H · D] as [B, H, S, D]. */
function splitHeads(x: T, heads: number): T {
  const [b, s, width] = x.shape as [number, number, number];
  return x.reshape([b, s, heads, width / heads]).permute(0, 2, 1, 3);
}

/** [B, H, S, D] as [B, S, H · D]. */
function mergeHeads(x: T): T {
  const [b, h, s, d] = x.shape as [number, number, number, number];
  return x.permute(0, 2, 1, 3).reshape([b, s, h * d]);
}

/** True where a query sees a key: those up to its own place, which is `offset` behind its row. */
function causal(rows: number, columns: number, offset: number, window = Infinity): T {
  const last: T = arange(rows, { dtype: "int32" }).add(offset).reshape([rows, 1]);
  const keys: T = arange(columns, { dtype: "int32" }).reshape([1, columns]);
  const before = keys.lessEqual(last);
  return window === Infinity ? before : before.logicalAnd(keys.greater(last.sub(window)));
}

/** Earlier keys or values, and new ones. */
function extended(past: T | undefined, x: T): T {
  return past === undefined || past.shape[2] === 0 ? x : concat([past, x], 2) as T;
}

/** The op of ONNX. */
function attention(call: Call): readonly Value[] {
  const { node } = call;
  const isFlat = call.tensor(0).rank === 3;
  const heads = isFlat ? node.int("q_num_heads") : call.tensor(0).shape[1]!;
  const kvHeads = isFlat ? node.int("kv_num_heads") : call.tensor(1).shape[1]!;
  const own = (k: number, count: number): T =>
    isFlat ? splitHeads(call.tensor(k), count) : call.tensor(k);
  const q = own(0, heads);
  const past = call.optional(4);
  const k = extended(past, own(1, kvHeads)), v = extended(call.optional(5), own(2, kvHeads));
  const [m, n] = [q.shape[2]!, k.shape[2]!];
  const scale = node.has("scale") ? node.float("scale") : 1 / Math.sqrt(q.shape[3]!);
  const softcap = node.float("softcap", 0);
  let mask = call.optional(3);
  if (mask !== undefined && mask.shape.at(-1)! < n) {
    const value = mask.dtype === "bool" ? false : -Infinity;
    const around = mask.shape.map((_, k): [number, number] =>
      k === mask!.rank - 1 ? [0, n - mask!.shape.at(-1)!] : [0, 0]
    );
    mask = mask.pad(around, { value });
  }
  const lengths = call.optional(6);
  let seen = mask?.dtype === "bool" ? mask : undefined;
  // The place of the first query among the keys: [] or [B, 1, 1, 1].
  const offset = lengths === undefined || past !== undefined
    ? past?.shape[2] ?? 0
    : lengths.reshape([lengths.size, 1, 1, 1]).astype("int32").sub(m);
  const [left, right] = [node.int("left_window_size", -1), node.int("right_window_size", -1)];
  const before = node.flag("is_causal") ? 0 : right;
  if (before >= 0 || left >= 0) {
    const rows = arange(m, { dtype: "int32" }).reshape([m, 1]);
    const places: T = typeof offset === "number" ? rows.add(offset) : rows.add(offset);
    const keys: T = arange(n, { dtype: "int32" });
    const limit = before >= 0 && right >= 0 ? Math.min(before, right) : before;
    if (limit >= 0) seen = both(seen, keys.lessEqual(places.add(limit)));
    if (left >= 0) seen = both(seen, keys.greaterEqual(places.sub(left)));
  }
  if (lengths !== undefined) {
    const keys: T = arange(n, { dtype: "int64" });
    const short: T = keys.less(lengths.astype("int64").reshape([lengths.size, 1, 1, 1]));
    seen = both(seen, short);
  }
  const bias = mask === undefined || mask.dtype === "bool" ? undefined : mask;
  const back = (x: T): T => isFlat ? mergeHeads(x) : x;
  if (!call.wants(3)) {
    const y = attend(q, k, v, { scale, seen, bias, softcap, sink: undefined });
    return [back(y), k, v];
  }
  const root = Math.sqrt(scale);
  const scores: T = q.mul(root).matmul(repeatHeads(k, q).swapAxes(-1, -2).mul(root));
  const capped = limit(scores, softcap);
  let biased = bias === undefined ? capped : capped.add(bias);
  if (seen !== undefined) biased = where(seen.asDType("bool"), biased, -Infinity) as T;
  const weights = weigh(capped, seen, bias, undefined);
  const mode = node.int("qk_matmul_output_mode", 0);
  const shown = [capped, capped, biased, weights][mode];
  if (shown === undefined) return call.fail(`qk_matmul_output_mode ${mode} is not known`);
  return [back(weights.matmul(repeatHeads(v, q))), k, v, shown];
}

// ---- rotary positions --------------------------------------------------------------------------

/** Turns pairs of columns of x [B, H, S, D] by angles: cos and sin are [B | 1, 1, S, D' / 2]. */
function rotate(x: T, cos: T, sin: T, interleaved: boolean): T {
  const half = cos.shape.at(-1)!, width = x.shape.at(-1)!;
  const turned = half * 2 === width ? x : x.sliceAxis(-1, new Slice(0, half * 2));
  const shape = turned.shape;
  const pairs: T = interleaved
    ? turned.reshape([...shape.slice(0, -1), half, 2])
    : turned.reshape([...shape.slice(0, -1), 2, half]);
  const axis = interleaved ? -1 : -2;
  const [a, b] = [pairs.sliceAxis(axis, 0), pairs.sliceAxis(axis, 1)] as [T, T];
  const [real, imaginary] = [a.mul(cos).sub(b.mul(sin)), b.mul(cos).add(a.mul(sin))] as [T, T];
  const joined = (concat([real.unsqueeze(axis), imaginary.unsqueeze(axis)], axis) as T).reshape(
    shape,
  );
  if (half * 2 === width) return joined;
  return concat([joined, x.sliceAxis(-1, new Slice(half * 2, width))], -1) as T;
}

/** The rows of tables of angles for positions [B, S] or [S]: [B, 1, S, D / 2]. */
function rowsAt(table: T, positions: T): T {
  const rows = table.take(positions, 0) as T;
  return rows.rank === 3 ? rows.unsqueeze(1) : rows.reshape([1, 1, ...rows.shape]);
}

/** ONNX's op, and that of com.microsoft, which has other places of inputs. */
function rotaryEmbedding(call: Call): readonly Value[] {
  const { node } = call;
  const isMicrosoft = node.domain === "com.microsoft";
  const x = call.tensor(0);
  const [cosAt, sinAt, positionsAt] = isMicrosoft ? [2, 3, 1] : [1, 2, 3];
  const [cos, sin] = [call.tensor(cosAt), call.tensor(sinAt)];
  const interleaved = node.flag("interleaved");
  const given = node.int("num_heads", 0), width = node.int("rotary_embedding_dim", 0);
  const isFlat = x.rank === 3;
  const columns = cos.shape.at(-1)! * 2;
  const heads = given > 0 ? given : isFlat ? x.shape[2]! / columns : x.shape[1]!;
  const split = isFlat ? splitHeads(x, heads) : x;
  const steps = split.shape[2]!;
  let positions = call.optional(positionsAt);
  // One number is the position of the first token.
  if (isMicrosoft && positions !== undefined && positions.size === 1 && steps > 1) {
    positions = arange(steps, { dtype: "int64" }).add(positions.reshape([1])) as T;
  }
  const half = (width > 0 ? width : columns) / 2;
  const rows = (table: T): T => {
    const own = positions === undefined
      ? (table.rank === 3 ? table.unsqueeze(1) : table.reshape([1, 1, ...table.shape])) as T
      : rowsAt(table, positions);
    return own.shape.at(-1) === half ? own : own.sliceAxis(-1, new Slice(0, half));
  };
  const y = rotate(split, rows(cos), rows(sin), interleaved);
  return [isFlat ? mergeHeads(y) : y];
}

// ---- com.microsoft -----------------------------------------------------------------------------

/** True for the keys of each sequence that count: [B, 1, 1, N], or [B, 1, M, N]. */
function keyMask(call: Call, mask: T, batch: number, m: number, n: number): T {
  const { shape } = mask;
  if (mask.rank === 1 && shape[0] === batch) {
    return arange(n, { dtype: mask.dtype }).less(mask.reshape([batch, 1, 1, 1]));
  }
  if (mask.rank === 1 && shape[0] === 2 * batch) {
    const ends: T = mask.sliceAxis(0, new Slice(0, batch)).reshape([batch, 1, 1, 1]);
    const starts: T = mask.sliceAxis(0, new Slice(batch)).reshape([batch, 1, 1, 1]);
    const keys: T = arange(n, { dtype: mask.dtype });
    return keys.less(ends).logicalAnd(keys.greaterEqual(starts));
  }
  const isTrue = mask.notEqual(0);
  if (mask.rank === 2) return isTrue.reshape([shape[0]!, 1, 1, shape[1]!]);
  if (mask.rank === 3) return isTrue.reshape([shape[0]!, 1, shape[1]!, shape[2]!]);
  if (mask.rank === 4) {
    return isTrue.sliceAxis(2, new Slice(n - m, n)).sliceAxis(3, new Slice(0, n));
  }
  return call.failShape(
    `a mask of shape ${formatShape(shape)} for ${batch} sequences of ${n} keys`,
  );
}

/**
 * What is added to scores of a dtype: `bias`, and the number of the call for keys that do not count. The
 * number is finite, so that a query without a key that counts has weights, too.
 */
function filter(call: Call, dtype: DType, counted: T, bias: T | undefined): T {
  const off = call.node.float("mask_filter_value", -1e4);
  const own = where(counted.asDType("bool"), 0, off).astype(dtype) as T;
  return bias === undefined ? own : own.add(bias);
}

/** Projects queries, keys and values by one product, and attends. */
function fusedAttention(call: Call): readonly Value[] {
  const { node } = call;
  const x = call.tensor(0), weight = call.tensor(1), bias = call.optional(2);
  const all = (bias === undefined ? x.matmul(weight) : x.matmul(weight).add(bias)) as T;
  return attendFused(
    call,
    all,
    call.optional(3),
    call.optional(4),
    call.optional(5),
    node.int("num_heads"),
  );
}

/** Attention to the columns of queries, keys and values in one tensor. */
export function attendFused(
  call: Call,
  all: T,
  mask: T | undefined,
  past: T | undefined,
  bias: T | undefined,
  heads: number,
): readonly Value[] {
  const { node } = call;
  const width = all.shape[2]!;
  const sizes = node.ints("qkv_hidden_sizes") ?? [width / 3, width / 3, width / 3];
  const cuts = [0, sizes[0]!, sizes[0]! + sizes[1]!, width];
  const part = (k: number): T =>
    splitHeads(all.sliceAxis(2, new Slice(cuts[k]!, cuts[k + 1]!)), heads);
  const q = part(0);
  const k = extended(past?.sliceAxis(0, 0), part(1));
  const v = extended(past?.sliceAxis(0, 1), part(2));
  const [b, , m] = q.shape as [number, number, number], n = k.shape[2]!;
  const scale = node.float("scale", 0) || 1 / Math.sqrt(q.shape[3]!);
  const seen = node.flag("unidirectional") ? causal(m, n, n - m) : undefined;
  const filtered = mask === undefined
    ? bias
    : filter(call, q.dtype, keyMask(call, mask, b, m, n), bias);
  const y = attend(q, k, v, { scale, seen, bias: filtered, softcap: 0, sink: undefined });
  const present = call.wants(1) ? concat([k.unsqueeze(0), v.unsqueeze(0)], 0) as T : undefined;
  return [mergeHeads(y), present];
}

function multiHeadAttention(call: Call): readonly Value[] {
  const { node } = call;
  const heads = node.int("num_heads");
  const [query, key, value, bias] = [0, 1, 2, 3].map((k) => call.optional(k));
  if (query === undefined) return call.fail("the query is missing");
  let q: T, k: T, v: T;
  if (query.rank === 5) {
    // [B, S, H, 3, D]
    const part = (at: number): T => query.sliceAxis(3, at).permute(0, 2, 1, 3);
    [q, k, v] = [part(0), part(1), part(2)];
  } else {
    const width = query.shape[2]!;
    const biasOf = (from: number, count: number): T | undefined =>
      bias?.sliceAxis(0, new Slice(from, from + count));
    const withBias = (x: T, from: number): T => {
      const own = biasOf(from, x.shape[2]!);
      return own === undefined ? x : x.add(own);
    };
    q = splitHeads(withBias(query, 0), heads);
    if (key === undefined) return call.fail("the key is missing");
    if (key.rank === 5) {
      // [B, S, H, 2, D]
      const part = (at: number): T => key.sliceAxis(3, at).permute(0, 2, 1, 3);
      [k, v] = [part(0), part(1)];
    } else {
      if (value === undefined) return call.fail("the value is missing");
      const isSplit = key.rank === 4;
      k = isSplit ? key : splitHeads(withBias(key, width), heads);
      v = value.rank === 4 ? value : splitHeads(withBias(value, 2 * width), heads);
    }
  }
  const [keys, values] = [extended(call.optional(6), k), extended(call.optional(7), v)];
  const [b, , m] = q.shape as [number, number, number], n = keys.shape[2]!;
  const scale = node.float("scale", 0) || 1 / Math.sqrt(q.shape[3]!);
  const padding = call.optional(4);
  const seen = node.flag("unidirectional") ? causal(m, n, n - m) : undefined;
  const given = call.optional(5);
  const added = padding === undefined
    ? given
    : filter(call, q.dtype, keyMask(call, padding, b, m, n), given);
  const y = attend(q, keys, values, { scale, seen, bias: added, softcap: 0, sink: undefined });
  return [mergeHeads(y), keys, values];
}

/** Attention of groups of heads to shared keys, with rotary positions and a cache. */
function groupQueryAttention(call: Call): readonly Value[] {
  const { node } = call;
  const heads = node.int("num_heads"), kvHeads = node.int("kv_num_heads");
  const query = call.tensor(0);
  const packed = !call.has(1);
  const columns = query.shape[2]! / (packed ? heads + 2 * kvHeads : heads);
  const cut = (from: number, count: number): T =>
    query.sliceAxis(2, new Slice(from * columns, (from + count) * columns));
  let q = splitHeads(packed ? cut(0, heads) : query, heads);
  let k = splitHeads(packed ? cut(heads, kvHeads) : call.tensor(1), kvHeads);
  const v = splitHeads(packed ? cut(heads + kvHeads, kvHeads) : call.tensor(2), kvHeads);
  const [b, , m] = q.shape as [number, number, number];
  const past = call.optional(3), before = past?.shape[2] ?? 0;
  // The number of keys of each sequence, less one.
  const last: T = call.tensor(5).astype("int64").reshape([b, 1]);
  if (node.flag("do_rotary")) {
    const given = call.optional(9);
    const first: T = last.add(1 - m).maximum(0);
    const positions: T = given ??
      (before === 0
        ? arange(m, { dtype: "int64" }).reshape([1, m]) as T
        : first.add(arange(m, { dtype: "int64" }).reshape([1, m])));
    const interleaved = node.flag("rotary_interleaved");
    const [cos, sin] = [rowsAt(call.tensor(7), positions), rowsAt(call.tensor(8), positions)];
    q = rotate(q, cos, sin, interleaved);
    k = rotate(k, cos, sin, interleaved);
  }
  let [keys, values] = [extended(past, k), extended(call.optional(4), v)];
  const n = keys.shape[2]!;
  const scale = node.float("scale", 0) || 1 / Math.sqrt(columns);
  const window = node.int("local_window_size", -1);
  const reach = window < 0 ? Infinity : window;
  let seen = m === 1 && window < 0 ? undefined : causal(m, n, n - m, reach);
  if (b > 1 && before > 0) {
    // New keys of a sequence that is shorter than the longest one follow its own last key.
    const start: T = last.add(1 - m).reshape([b, 1, 1, 1]);
    const places: T = arange(n, { dtype: "int64" }).reshape([1, 1, n, 1]);
    const moved: T = where(places.less(start), places, places.sub(start).add(before)) as T;
    const sources = moved.minimum(n - 1).broadcastTo(keys.shape);
    const used: T = places.less(start.add(m));
    const placed = (x: T): T => where(used.asDType("bool"), x.takeAlongAxis(sources, 2), 0) as T;
    [keys, values] = [placed(keys), placed(values)];
    const rows: T = arange(m, { dtype: "int64" }).reshape([m, 1]).add(start);
    const columns: T = arange(n, { dtype: "int64" });
    seen = columns.lessEqual(rows);
    if (window >= 0) seen = both(seen, columns.greater(rows.sub(window)));
  }
  const y = attend(q, keys, values, {
    scale,
    seen,
    bias: call.optional(10),
    softcap: node.float("softcap", 0),
    sink: call.optional(11),
  });
  return [mergeHeads(y), keys, values];
}

/** The sum of x, a second tensor and a bias, normed. */
function skipNorm(simplified: boolean): Implementation {
  return (call) => {
    const epsilon = call.node.float("epsilon", simplified ? 1e-6 : 1e-5);
    const [gamma, beta, bias] = simplified
      ? [call.tensor(2), undefined, call.optional(3)]
      : [call.tensor(2), call.optional(3), call.optional(4)];
    const plain: T = call.tensor(0).add(call.tensor(1));
    const sum = bias === undefined ? plain : plain.add(bias);
    const y: T = simplified ? sum.rmsNorm(-1, { weight: gamma, epsilon }) : sum.layerNorm(
      -1,
      beta === undefined ? { weight: gamma, epsilon } : { weight: gamma, bias: beta, epsilon },
    );
    return [y, undefined, undefined, sum];
  };
}

/** The rows `ids` of the table that is an input of a call. */
type Rows = (call: Call, k: number, ids?: T) => T;

/** Rows of tables of floats; without ids, all of a table. */
const floatRows: Rows = (call, k, ids) => {
  const table = call.tensor(k);
  return ids === undefined ? table : table.take(ids, 0) as T;
};

/** The sum of embeddings, normed, and how many tokens of each sequence count. */
export const embedNorm = (rows: Rows): Implementation => (call) => {
  const ids = call.tensor(0), segments = call.optional(1);
  const [b, s] = ids.shape as [number, number];
  const places = rows === floatRows ? call.optional(8) : undefined;
  const placed = places === undefined
    ? rows(call, 3, arange(s, { dtype: "int32" }) as T)
    : rows(call, 3, places);
  let sum: T = rows(call, 2, ids).add(placed);
  if (segments !== undefined && call.has(4)) sum = sum.add(rows(call, 4, segments));
  const epsilon = call.node.float("epsilon", 1e-12);
  const y: T = sum.layerNorm(-1, { weight: rows(call, 5), bias: rows(call, 6), epsilon });
  const mask = call.optional(7);
  const lengths: T = mask === undefined
    ? zeros([b], { dtype: "int32" })
    : (mask.astype("int32").sum(1) as T).astype("int32");
  return [y, lengths, sum];
};

/** The ops. */
export const ATTENTION: Readonly<Record<string, Implementation>> = {
  Attention: attention,
  RotaryEmbedding: rotaryEmbedding,
  "com.microsoft.RotaryEmbedding": rotaryEmbedding,
  "com.microsoft.Attention": fusedAttention,
  "com.microsoft.MultiHeadAttention": multiHeadAttention,
  "com.microsoft.GroupQueryAttention": groupQueryAttention,
  "com.microsoft.SkipLayerNormalization": skipNorm(false),
  "com.microsoft.SkipSimplifiedLayerNormalization": skipNorm(true),
  "com.microsoft.EmbedLayerNormalization": embedNorm(floatRows),
};

/**
 * Operands of attention, and its definition in double precision.
 *
 * @module
 */
import { type DType, random } from "../../mod.ts";
import type { AttentionOptions } from "../../src/ops/attention/op.ts";
import { type Any, loose } from "../support.ts";

/** Normally distributed elements. */
export function normal(seed: number, shape: readonly number[], dtype: DType = "float32"): Any {
  return loose(random.normal(random.key(seed), shape as number[])).astype(dtype);
}

/** Elements as numbers, in row-major order. */
export function numbersOf(x: Any): Float64Array {
  return x.astype("float64").toTypedArray();
}

/** What attention to a cache has beside the options of attention. */
export interface CachedOptions {
  readonly window?: number | undefined;
  readonly softCap?: number | undefined;
  /** [H]. */
  readonly sinks?: Any;
}

/** The definition in double precision; all leading axes are of one size or absent. */
export function expectedOf(
  q: Any,
  k: Any,
  v: Any,
  options: AttentionOptions & CachedOptions = {},
): Float64Array {
  const [h, m, d] = q.shape.slice(-3), [hk, n] = k.shape.slice(-3), dv = v.shape.at(-1);
  const batch = q.shape.slice(0, -3), mask: Any = options.mask;
  const scale = options.scale ?? 1 / Math.sqrt(d);
  const [Q, K, V] = [q, k, v].map(numbersOf) as [Float64Array, Float64Array, Float64Array];
  const { window = Infinity, softCap } = options;
  const sinks = options.sinks && numbersOf(options.sinks);
  const isBool = mask?.dtype === "bool";
  const masks = mask && numbersOf(mask.broadcastTo([...batch, h, m, n]));
  const problems = batch.reduce((x: number, y: number) => x * y, 1) * h;
  const out = new Float64Array(problems * m * dv);
  for (let p = 0; p < problems; p++) {
    const group = h / hk, head = Math.floor(p / h) * hk + Math.floor(p % h / group);
    for (let i = 0; i < m; i++) {
      const scores = Array.from({ length: n }, (_, j) => {
        let sum = 0;
        for (let c = 0; c < d; c++) sum += Q[(p * m + i) * d + c]! * K[(head * n + j) * d + c]!;
        sum *= scale;
        const given = masks?.[(p * m + i) * n + j];
        const hidden = isBool ? given === 0 : given === -Infinity;
        if (hidden || (options.causal && j > i + n - m)) return undefined;
        if (i + n - m - j >= window) return undefined;
        if (softCap !== undefined) sum = softCap * Math.tanh(sum / softCap);
        return isBool || given === undefined ? sum : sum + given;
      });
      // Keys that the query does not see take no part, whatever they are.
      const sink = sinks?.[p % h] ?? -Infinity;
      const max = Math.max(sink, ...scores.filter((s) => s !== undefined));
      const powers = scores.map((s) => s === undefined ? undefined : Math.exp(s - max));
      const total = powers.reduce<number>((x, y) => x + (y ?? 0), Math.exp(sink - max));
      for (let c = 0; c < dv; c++) {
        let sum = 0;
        for (let j = 0; j < n; j++) {
          const power = powers[j];
          if (power !== undefined) sum += power / total * V[(head * n + j) * dv + c]!;
        }
        out[(p * m + i) * dv + c] = sum;
      }
    }
  }
  return out;
}

/** Queries, keys and values. */
export function operands(
  batch: readonly number[],
  [h, hk]: readonly [number, number],
  [m, n, d, dv]: readonly [number, number, number, number],
  dtype: DType = "float32",
): [Any, Any, Any] {
  return [
    normal(1, [...batch, h, m, d], dtype),
    normal(2, [...batch, hk, n, d], dtype),
    normal(3, [...batch, hk, n, dv], dtype),
  ];
}

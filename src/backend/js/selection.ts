/**
 * Partitions, quantiles and modes of contiguous runs.
 *
 * @module
 */
import { readElement, writeElement } from "../../memory/element.ts";
import type { Storage } from "../../memory/storage.ts";
import type { PartitionAttributes } from "../../ops/sort/partition.ts";
import type { QuantileRowsAttributes } from "../../ops/sort/quantile.ts";
import type { Call } from "../../table/op.ts";
import { forEachRun, orderOf } from "./sort.ts";

/** Whether two numbers are equal, NaN to itself. */
function isSame(a: number | bigint, b: number | bigint): boolean {
  return a === b || (a !== a && b !== b);
}

/**
 * The indices of a run, class by class: what is less than the element of a rank, equal to it, or
 * greater. Within a class they ascend.
 */
function partitionOf(
  storage: Storage,
  from: number,
  size: number,
  kth: readonly number[],
): Int32Array {
  const order = orderOf(storage, from, size, false);
  const valueAt = (rank: number): number | bigint => readElement(storage, from + order[rank]!);
  // Elements that are equal to one of a rank are in order already.
  const indices = order.slice(0, size);
  let first = 0;
  for (const rank of kth) {
    if (rank < first) continue;
    const value = valueAt(rank);
    let [low, high] = [rank, rank + 1];
    while (low > first && isSame(valueAt(low - 1), value)) low--;
    while (high < size && isSame(valueAt(high), value)) high++;
    indices.subarray(first, low).sort();
    first = high;
  }
  indices.subarray(first).sort();
  return indices;
}

/** The elements along the last axis, partitioned. */
export function partition(call: Call): void {
  const { storage, layout } = call.operand(0);
  const size = layout.shape.at(-1)!;
  const { kth } = call.attributes as PartitionAttributes;
  const [from, to] = [storage.array, call.outputs[0]!.storage.array] as [Int32Array, Int32Array];
  forEachRun(layout, (start, run) => {
    const indices = partitionOf(storage, start, size, kth);
    for (let i = 0; i < size; i++) to[run * size + i] = from[start + indices[i]!]!;
  });
}

/** The indices that partition the last axis. */
export function argpartition(call: Call): void {
  const { storage, layout } = call.operand(0);
  const size = layout.shape.at(-1)!;
  const { kth } = call.attributes as PartitionAttributes;
  const to = call.outputs[0]!.storage.array as Int32Array;
  forEachRun(layout, (start, run) => to.set(partitionOf(storage, start, size, kth), run * size));
}

// ---- quantiles ---------------------------------------------------------------------------------

/** The ranks of the elements around a quantile, and the weight of the second one. */
type Place = readonly [first: number, second: number, weight: number];

/** The ranks of an element, without interpolation. */
function placeOf(n: number, rank: number): Place {
  const at = Math.min(Math.max(rank, 0), n - 1);
  return [at, at, 0];
}

/** The nearest integer, the even one of two. */
function roundEven(x: number): number {
  const below = Math.floor(x);
  const rest = x - below;
  return rest < 0.5 || (rest === 0.5 && below % 2 === 0) ? below : below + 1;
}

/** The constants of methods that interpolate around n q + a + q (1 − a − b) − 1. */
const ALPHA_BETA: Readonly<Record<string, readonly [number, number]>> = {
  interpolatedInvertedCdf: [0, 1],
  hazen: [0.5, 0.5],
  weibull: [0, 0],
  medianUnbiased: [1 / 3, 1 / 3],
  normalUnbiased: [3 / 8, 3 / 8],
};

/** Where quantile `q` of `n` elements is. shim/cpu/sort/quantile.c has the same arithmetic. */
function findPlace(method: QuantileRowsAttributes["method"], n: number, q: number): Place {
  let at = (n - 1) * q;
  switch (method) {
    case "median":
    case "linear":
      break;
    case "lower":
      return placeOf(n, Math.floor(at));
    case "higher":
      return placeOf(n, Math.ceil(at));
    case "nearest":
      return placeOf(n, roundEven(at));
    case "invertedCdf":
      return placeOf(n, Math.ceil(n * q - 1));
    case "closestObservation": {
      at = n * q - 1 - 0.5;
      const below = Math.floor(at);
      const isOdd = below - 2 * Math.floor(below / 2) === 1;
      return placeOf(n, at === below && isOdd ? below : below + 1);
    }
    case "averagedInvertedCdf":
      at = n * q - 1;
      break;
    case "midpoint":
      at = 0.5 * (Math.floor(at) + Math.ceil(at));
      break;
    default: {
      const [alpha, beta] = ALPHA_BETA[method]!;
      at = n * q + (alpha + q * (1 - alpha - beta)) - 1;
    }
  }
  if (at < 0 || at >= n - 1) return placeOf(n, at);
  const below = Math.floor(at);
  const weight = at - below;
  if (method === "averagedInvertedCdf") return [below, below + 1, weight === 0 ? 0.5 : 1];
  return [below, below + 1, weight];
}

function interpolate(isMedian: boolean, a: number, b: number, weight: number): number {
  if (a === b || weight === 0) return a;
  if (isMedian) return (a + b) * 0.5;
  const difference = b - a;
  return weight >= 0.5 ? b - difference * (1 - weight) : a + difference * weight;
}

/** The quantiles of each run. */
export function quantilesOfRows(call: Call): void {
  const { storage, layout } = call.operand(0);
  const out = call.outputs[0]!.storage;
  const { q, method, ignoreNaN } = call.attributes as QuantileRowsAttributes;
  const size = layout.shape.at(-1)!;
  if (size === 0) {
    for (let i = 0; i < out.length; i++) writeElement(out, i, NaN);
    return;
  }
  const values = new Float64Array(size);
  forEachRun(layout, (start, run) => {
    let count = 0;
    for (let i = 0; i < size; i++) {
      // -0 is 0.
      const value = Number(readElement(storage, start + i)) + 0;
      values[i] = value;
      if (value === value) count++;
    }
    const isNaNs = count === 0 || (count < size && !ignoreNaN);
    if (!isNaNs) values.sort();
    q.forEach((one, k) => {
      let value = NaN;
      if (!isNaNs) {
        const [first, second, weight] = findPlace(method, count, one);
        value = interpolate(method === "median", values[first]!, values[second]!, weight);
      }
      writeElement(out, run * q.length + k, value);
    });
  });
}

/** The most frequent element of each run, and its count. */
export function modesOfRows(call: Call): void {
  const { storage, layout } = call.operand(0);
  const size = layout.shape.at(-1)!;
  const [values, counts] = call.outputs as [typeof call.outputs[0], typeof call.outputs[0]];
  const [from, to] = [storage.array, values!.storage.array] as [Int32Array, Int32Array];
  forEachRun(layout, (start, run) => {
    const order = orderOf(storage, start, size, false);
    let [best, most, first] = [0, 0, 0];
    for (let i = 1; i <= size; i++) {
      if (i < size) {
        const [a, b] = [readElement(storage, start + order[first]!), order[i]!];
        if (isSame(a, readElement(storage, start + b))) continue;
      }
      if (i - first > most) [best, most] = [first, i - first];
      first = i;
    }
    to[run] = from[start + order[best]!]!;
    (counts!.storage.array as Int32Array)[run] = most;
  });
}

/**
 * The definitions of the kernels of sets, searching and histograms.
 *
 * @module
 */
import type { Storage } from "../../memory/storage.ts";
import type { Operand } from "../../memory/operand.ts";
import type { InterpolateAttributes } from "../../ops/sets/op.ts";
import type { Call } from "../../table/op.ts";
import { readElement, writeElement } from "../../memory/element.ts";

type Ordered = number | bigint;

/** A function that reads an element of a contiguous operand. */
function reader({ storage, layout: { offset } }: Operand): (i: number) => Ordered {
  const { array, info } = storage;
  if (info.kind === "f" && info.bytes === 2) {
    return (i) => readElement(storage, offset + i) as number;
  }
  return (i) => array[offset + i]!;
}

/** The elements of an output, which begins its storage. */
function written(call: Call, k: number): Int32Array {
  return call.outputs[k]!.storage.array as Int32Array;
}

const isNan = (x: Ordered): boolean => x !== x;

/** The first element of each run of equal ones, where it begins, and the number of runs. */
export function uniqueRuns(call: Call): void {
  const x = call.operand(0);
  const { equalNan } = call.attributes as { readonly equalNan: boolean };
  const [values, starts, found] = [written(call, 0), written(call, 1), written(call, 2)];
  const { storage: { array }, layout: { offset, size } } = x;
  const read = reader(x);
  let count = 0;
  for (let i = 0; i < size; i++) {
    if (i > 0) {
      const [a, b] = [read(i), read(i - 1)];
      if (a === b || (equalNan && isNan(a) && isNan(b))) continue;
    }
    values[count] = array[offset + i] as number;
    if (starts.length > 0) starts[count] = i;
    count++;
  }
  found[0] = count;
}

/** The run of each element. */
export function runIndices(call: Call): void {
  const [order, starts] = [call.operand(0), call.operand(1)];
  const [at, begin] = [reader(order), reader(starts)] as ((i: number) => number)[];
  const out = written(call, 0);
  const [n, count] = [order.layout.size, starts.layout.size];
  for (let run = 0; run < count; run++) {
    const end = run + 1 < count ? begin!(run + 1) : n;
    for (let i = begin!(run); i < end; i++) out[at!(i)] = run;
  }
}

/** The different integers of a range. */
export function uniqueTable(call: Call): void {
  const x = call.operand(0);
  const { low, size, full } = call.attributes as { low: number; size: number; full: boolean };
  const { outputs: [values] } = call;
  const [counts, first, inverse, found] = [1, 2, 3, 4].map((k) => written(call, k));
  const { array, info } = values!.storage;
  const n = x.layout.size;
  const read = reader(x);
  const table = new Int32Array(size);
  const earliest = new Int32Array(size);
  const placeOf = (i: number): number => Number(read(i)) - low;
  for (let i = n - 1; i >= 0; i--) {
    const at = placeOf(i);
    table[at]!++;
    earliest[at] = i;
  }
  let made = 0;
  for (let v = 0; v < size; v++) {
    const count = table[v]!;
    if (count === 0) continue;
    array[made] = info.wide ? BigInt(low + v) : low + v;
    if (full) {
      counts![made] = count;
      first![made] = earliest[v]!;
    }
    table[v] = made++;
  }
  if (full) { for (let i = 0; i < n; i++) inverse![i] = table[placeOf(i)]!; }
  found![0] = made;
}

/** Which elements are among others. */
export function isAmong(call: Call): void {
  const [x, tests] = [call.operand(0), call.operand(1)];
  const { invert } = call.attributes as { readonly invert: boolean };
  const out = call.outputs[0]!.storage.array;
  const [read, test] = [reader(x), reader(tests)];
  const among = new Set<Ordered>();
  for (let i = 0; i < tests.layout.size; i++) {
    const one = test(i);
    if (!isNan(one)) among.add(one);
  }
  for (let i = 0; i < x.layout.size; i++) out[i] = Number(among.has(read(i)) !== invert);
}

/** How many of `length` sorted elements come before `v`, or with `right` not after it. */
function searchOne(
  read: (i: number) => Ordered,
  length: number,
  v: Ordered,
  right: boolean,
): number {
  let at = 0;
  for (let rest = length, half = 0; rest > 0; rest -= half) {
    half = (rest + 1) >>> 1;
    const s = read(at + half - 1);
    if (right ? s <= v || isNan(v) : s < v || (isNan(v) && !isNan(s))) at += half;
  }
  return at;
}

/** Where values belong among sorted ones. */
export function searchIndices(call: Call): void {
  const [sorted, values] = [call.operand(0), call.operand(1)];
  const { right } = call.attributes as { readonly right: boolean };
  const [read, value] = [reader(sorted), reader(values)];
  const out = written(call, 0);
  const length = sorted.layout.size;
  for (let i = 0; i < values.layout.size; i++) out[i] = searchOne(read, length, value(i), right);
}

/** Values of the lines between points. */
export function interpolate(call: Call): void {
  const { left, right } = call.attributes as InterpolateAttributes;
  const at = reader(call.operand(0));
  const [xs, ys] = [1, 2].map((k) => reader(call.operand(k))) as ((i: number) => number)[];
  const { layout: { size: n } } = call.operand(0);
  const last = call.operand(1).layout.size - 1;
  // NaN as the first point is below all numbers.
  const first = isNan(xs!(0)) ? 1 : 0;
  const numbers = (k: number): number => xs!(first + k);
  const out = call.outputs[0]!.storage.array as Float64Array;
  for (let i = 0; i < n; i++) {
    const v = Number(at(i));
    const j = Math.max(0, first + searchOne(numbers, last + 1 - first, v, true) - 1);
    if (isNan(v)) out[i] = v;
    else if (v < xs!(0)) out[i] = left ?? ys!(0);
    else if (j >= last) out[i] = v > xs!(last) ? right ?? ys!(last) : ys!(last);
    else if (xs!(j) === v) out[i] = ys!(j);
    else {
      const slope = (ys!(j + 1) - ys!(j)) / (xs!(j + 1) - xs!(j));
      let value = slope * (v - xs!(j)) + ys!(j);
      // Infinities may make NaN of one of the points.
      if (isNan(value)) value = slope * (v - xs!(j + 1)) + ys!(j + 1);
      out[i] = isNan(value) && ys!(j) === ys!(j + 1) ? ys!(j) : value;
    }
  }
}

/** Calls `each` with the bin of every element; the number of bins stands for none. */
function eachBin(call: Call, each: (bin: number, i: number) => void): void {
  const x = call.operand(0);
  const { bins, uniform } = call.attributes as { bins: number; uniform: boolean };
  const read = reader(x);
  const n = x.layout.size;
  if (call.op.name === "binCounts") {
    for (let i = 0; i < n; i++) {
      const at = Number(read(i));
      each(at >= 0 && at < bins ? at : bins, i);
    }
    return;
  }
  const edges = reader(call.operand(1)) as (i: number) => number;
  const [low, high] = [edges(0), edges(bins)];
  const scale = bins / (high - low);
  for (let i = 0; i < n; i++) {
    const v = Number(read(i));
    if (!(v >= low && v <= high)) {
      each(bins, i);
      continue;
    }
    let bin: number;
    if (uniform && scale < Infinity) {
      bin = Math.min(Math.trunc((v - low) * scale), bins - 1);
      // Rounding may have put it on the other side of an edge.
      if (v < edges(bin)) bin--;
      else if (bin < bins - 1 && v >= edges(bin + 1)) bin++;
    } else bin = Math.min(searchOne(edges, bins + 1, v, true) - 1, bins - 1);
    each(bin, i);
  }
}

/** How many elements are in each bin, or the sums of their weights. */
export function countBins(call: Call): void {
  const weights = call.inputs[call.op.name === "binCounts" ? 1 : 2] as Operand | undefined;
  const out: Storage = call.outputs[0]!.storage;
  const { bins } = call.attributes as { readonly bins: number };
  const target = out.array as Float64Array;
  target.fill((out.info.wide ? 0n : 0) as number, 0, bins);
  if (weights === undefined) {
    eachBin(call, (bin) => {
      if (bin < bins) target[bin]!++;
    });
    return;
  }
  const weight = reader(weights) as (i: number) => number;
  eachBin(call, (bin, i) => {
    if (bin < bins) target[bin]! += weight(i);
  });
}

/** The bin of each element. */
export function binIndices(call: Call): void {
  const out = written(call, 0);
  eachBin(call, (bin, i) => out[i] = bin);
}

/** The larger or the smaller of two numbers; NaN wins. */
function extremeOf(a: Ordered, v: Ordered, largest: boolean): Ordered {
  return isNan(v) || (largest ? v > a : v < a) ? v : a;
}

/** Folds values into the elements at indices. */
export function scatterFold(call: Call): void {
  const [x, values, indices] = call.inputs as [Operand, Operand, Operand];
  const { reduce, includeSelf } = call.attributes as { reduce: string; includeSelf: boolean };
  const { storage, layout: { offset, size } } = x;
  const { info } = storage;
  const [old, value, index] = [reader(x), reader(values), reader(indices)];
  const n = indices.layout.size;
  const places = new Float64Array(n);
  for (let i = 0; i < n; i++) {
    const at = Number(index(i));
    places[i] = at < 0 ? at + size : at;
    if (places[i]! < 0 || places[i]! >= size) {
      call.badIndex = i;
      return;
    }
  }
  const one = (v: number): Ordered => info.wide ? BigInt(v) : v;
  const write = (at: number, v: Ordered): void => {
    if (info.kind === "f") writeElement(storage, offset + at, v);
    else storage.array[offset + at] = v;
  };
  const lowest = info.kind === "f" ? -Infinity : info.min as Ordered;
  const highest = info.kind === "f" ? Infinity : info.max as Ordered;
  const start = { sum: one(0), prod: one(1), max: lowest, min: highest }[reduce] as Ordered;
  if (!includeSelf) { for (let i = 0; i < n; i++) write(places[i]!, start); }
  for (let i = 0; i < n; i++) {
    const at = places[i]!;
    const [a, v] = [old(at) as number, value(i) as number];
    if (reduce === "sum") write(at, a + v);
    else if (reduce === "prod") {
      write(at, info.kind === "f" || info.wide ? a * v : Math.imul(a, v));
    } else write(at, extremeOf(a, v, reduce === "max"));
  }
}

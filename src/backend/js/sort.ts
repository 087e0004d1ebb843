/**
 * Sorts runs of elements, or finds their sorting order.
 *
 * Elements become unsigned 32-bit keys (two for 64-bit dtypes) with the same order. Long runs use a
 * radix sort of the keys, short ones the runtime's own sort. NaN has the largest key, ascending and
 * descending.
 *
 * @module
 */
import { bf16Table, f16Table } from "../../base/half.ts";
import type { Layout } from "../../base/layout.ts";
import { copyInto } from "../../core/dispatch.ts";
import type { Storage } from "../../memory/storage.ts";
import type { SortAttributes } from "../../ops/sort/op.ts";
import type { Call } from "../../table/op.ts";

/** From this length on, three passes over the data are faster than comparisons. */
const RADIX_LEAST = 256;
const BITS = 11;
const BUCKETS = 1 << BITS;

/** Calls `each` with the start and number of each run along the last axis of a contiguous operand. */
export function forEachRun(
  { shape, offset, size }: Layout,
  each: (from: number, run: number) => void,
): void {
  const length = shape.at(-1)!;
  for (let run = 0; run * length < size; run++) each(offset + run * length, run);
}

/** Sorts along the last axis. */
export function sort(call: Call): void {
  const [out] = call.outputs;
  copyInto(out!, call.operand(0));
  const { storage, layout } = out!;
  const { descending } = call.attributes as SortAttributes;
  forEachRun(layout, (from) => sortValues(storage, from, layout.shape.at(-1)!, descending));
}

/** The order that sorts along the last axis. */
export function argsort(call: Call): void {
  const { storage, layout } = call.operand(0);
  const length = layout.shape.at(-1)!;
  const indices = call.outputs[0]!.storage.array as Int32Array;
  const { descending } = call.attributes as SortAttributes;
  forEachRun(layout, (from, run) => {
    const order = orderOf(storage, from, length, descending);
    indices.set(order.subarray(0, length), run * length);
  });
}

const NAN_KEY = 0xffffffff;
const float = new Float32Array(1);
const floatBits = new Int32Array(float.buffer);

/** Writes the keys of `size` elements; of a 64-bit dtype, those of the lower or the upper words. */
function writeKeys(
  storage: Storage,
  from: number,
  size: number,
  descending: boolean,
  upper: boolean,
  keys: Uint32Array,
): void {
  const { name, bytes, kind } = storage.info;
  const flip = descending ? -1 : 0;
  if (bytes === 8) {
    const { words } = storage;
    for (let i = 0; i < size; i++) {
      let low = words[2 * (from + i)]!;
      let high = words[2 * (from + i) + 1]!;
      if (kind === "f") {
        const magnitude = high & 0x7fffffff;
        if (magnitude > 0x7ff00000 || (magnitude === 0x7ff00000 && low !== 0)) {
          keys[i] = NAN_KEY;
          continue;
        }
        if (low === 0 && magnitude === 0) high = 0; // -0 and 0 are equal
        const sign = high >> 31;
        low ^= sign;
        high ^= sign | -2147483648;
      } else if (kind === "i") high ^= -2147483648;
      keys[i] = (upper ? high : low) ^ flip;
    }
    return;
  }
  const array = storage.array as Int32Array;
  if (kind !== "f") {
    const sign = kind === "i" ? -2147483648 : 0;
    for (let i = 0; i < size; i++) keys[i] = array[from + i]! ^ sign ^ flip;
    return;
  }
  const table = name === "float16" ? f16Table() : name === "bfloat16" ? bf16Table() : null;
  for (let i = 0; i < size; i++) {
    const value = table === null ? array[from + i]! : table[array[from + i]!]!;
    float[0] = value + 0; // -0 and 0 are equal
    const bits = floatBits[0]!;
    keys[i] = value !== value ? NAN_KEY : bits ^ (bits >> 31 | -2147483648) ^ flip;
  }
}

let keysA = new Uint32Array(0);
let keysB = new Uint32Array(0);
let orderA = new Int32Array(0);
let orderB = new Int32Array(0);
const counts = new Uint32Array(BUCKETS);

function reserve(size: number): void {
  if (keysA.length >= size) return;
  keysA = new Uint32Array(size);
  keysB = new Uint32Array(size);
  orderA = new Int32Array(size);
  orderB = new Int32Array(size);
}

/** Sorts `keysA` by its lowest bits upward, and `orderA` along with it; stable. */
function radixSort(size: number): void {
  for (let shift = 0; shift < 32; shift += BITS) {
    counts.fill(0);
    for (let i = 0; i < size; i++) counts[(keysA[i]! >>> shift) & (BUCKETS - 1)]!++;
    // One bucket contains all: the pass would move nothing.
    if (counts[(keysA[0]! >>> shift) & (BUCKETS - 1)] === size) continue;
    let start = 0;
    for (let bucket = 0; bucket < BUCKETS; bucket++) {
      const count = counts[bucket]!;
      counts[bucket] = start;
      start += count;
    }
    for (let i = 0; i < size; i++) {
      const key = keysA[i]!;
      const to = counts[(key >>> shift) & (BUCKETS - 1)]!++;
      keysB[to] = key;
      orderB[to] = orderA[i]!;
    }
    [keysA, keysB] = [keysB, keysA];
    [orderA, orderB] = [orderB, orderA];
  }
}

/** Sorts `keysA` and `orderA` by comparisons; stable. */
function insertionSort(size: number): void {
  for (let i = 1; i < size; i++) {
    const [key, index] = [keysA[i]!, orderA[i]!];
    let at = i;
    for (; at > 0 && keysA[at - 1]! > key; at--) {
      keysA[at] = keysA[at - 1]!;
      orderA[at] = orderA[at - 1]!;
    }
    keysA[at] = key;
    orderA[at] = index;
  }
}

function sortKeys(size: number): void {
  if (size < 32) insertionSort(size);
  else radixSort(size);
}

/** The order that sorts a run; the array is reused by the next call. */
export function orderOf(
  storage: Storage,
  from: number,
  size: number,
  descending: boolean,
): Int32Array {
  reserve(size);
  for (let i = 0; i < size; i++) orderA[i] = i;
  writeKeys(storage, from, size, descending, false, keysA);
  sortKeys(size);
  if (storage.info.bytes === 8) {
    // By the lower words first, then by the upper ones: the second pass is stable.
    writeKeys(storage, from, size, descending, true, keysB);
    for (let i = 0; i < size; i++) keysA[i] = keysB[orderA[i]!]!;
    sortKeys(size);
  }
  return orderA;
}

function sortValues(storage: Storage, from: number, size: number, descending: boolean): void {
  const part = (storage.array as Float64Array).subarray(from, from + size);
  const { name, kind } = storage.info;
  const bits = name === "float16" || name === "bfloat16";
  if (size >= RADIX_LEAST || bits) {
    const order = orderOf(storage, from, size, descending);
    const before = part.slice();
    for (let i = 0; i < size; i++) part[i] = before[order[i]!]!;
    return;
  }
  // 0 and -0 are equal and keep their order, but sort() distinguishes them.
  const zeros = kind === "f" && part.includes(0) ? part.filter((x) => x === 0) : null;
  part.sort();
  if (descending) {
    let end = size;
    while (end > 0 && part[end - 1] !== part[end - 1]) end--;
    part.subarray(0, end).reverse();
  }
  if (zeros !== null) part.set(zeros, part.indexOf(0));
}

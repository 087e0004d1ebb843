/**
 * Sorts runs of elements, or finds the order that would.
 *
 * Values alone go through the runtime's own typed-array sort. Orders come from sorting 64-bit words
 * made of a key (upper half) and the index (lower half), which is stable and needs no callback.
 *
 * @module
 */
import { fromBrain, halfTable, toBrain, toHalf } from "../../half.ts";
import type { Storage } from "../../storage.ts";

/** See {@link Backend.sort}. */
export function sortRuns(
  values: Storage,
  offset: number,
  runs: number,
  size: number,
  descending: boolean,
  indices: Storage | null,
): void {
  for (let run = 0; run < runs; run++) {
    const from = offset + run * size;
    if (indices === null) sortValues(values, from, size, descending);
    else order(values, from, size, descending, indices.array as Int32Array, run * size);
  }
}

function sortValues(storage: Storage, from: number, size: number, descending: boolean): void {
  const part = (storage.array as Float64Array).subarray(from, from + size);
  const { name } = storage.info;
  if (name === "float16" || name === "bfloat16") {
    const table = name === "float16" ? halfTable() : null;
    const floats = Float32Array.from(
      part,
      (bits) => table === null ? fromBrain(bits) : table[bits]!,
    );
    sortArray(floats, descending);
    for (let i = 0; i < size; i++) {
      part[i] = name === "float16" ? toHalf(floats[i]!) : toBrain(floats[i]!);
    }
  } else sortArray(part, descending);
}

function sortArray(part: Float32Array | Float64Array, descending: boolean): void {
  part.sort();
  if (!descending) return;
  let end = part.length;
  while (end > 0 && part[end - 1] !== part[end - 1]) end--;
  part.subarray(0, end).reverse();
}

let pairs = new Uint32Array(0);
let keys = new BigUint64Array(0);

function order(
  storage: Storage,
  from: number,
  size: number,
  descending: boolean,
  out: Int32Array,
  to: number,
): void {
  if (pairs.length < 2 * size) {
    pairs = new Uint32Array(2 * Math.max(size, 64));
    keys = new BigUint64Array(pairs.buffer);
  }
  const { name, bytes, kind } = storage.info;
  const sorted = keys.subarray(0, size);
  if (bytes === 8) {
    // By the lower words first, then by the upper ones: each pass keeps the order of the last.
    const words = storage.words;
    const key = (i: number, half: 0 | 1): number => {
      const high = words[2 * (from + i) + 1]!;
      const low = words[2 * (from + i)]!;
      if (kind === "f") {
        if (low === 0 && high === -2147483648) return half === 1 ? flip(0x80000000) : flip(0);
        const nan = (high & 0x7fffffff) > 0x7ff00000 ||
          ((high & 0x7fffffff) === 0x7ff00000 && low !== 0);
        if (nan) return 0xffffffff;
        if (high < 0) return flip(~(half === 1 ? high : low));
        return flip(half === 1 ? high ^ 0x80000000 : low);
      }
      return flip(half === 0 ? low : kind === "i" ? high ^ 0x80000000 : high);
    };
    const flip = (bits: number): number => (descending ? ~bits : bits) >>> 0;
    for (let i = 0; i < size; i++) {
      pairs[2 * i] = i;
      pairs[2 * i + 1] = key(i, 0);
    }
    sorted.sort();
    const first = new Int32Array(size);
    for (let i = 0; i < size; i++) first[i] = pairs[2 * i]!;
    for (let i = 0; i < size; i++) {
      pairs[2 * i] = i;
      pairs[2 * i + 1] = key(first[i]!, 1);
    }
    sorted.sort();
    for (let i = 0; i < size; i++) out[to + i] = first[pairs[2 * i]!]!;
    return;
  }
  const { array } = storage;
  const table = name === "float16" ? halfTable() : null;
  const float = new Float32Array(1);
  const floatBits = new Int32Array(float.buffer);
  for (let i = 0; i < size; i++) {
    let key = array[from + i] as number;
    if (kind === "f") {
      float[0] = table !== null ? table[key]! : name === "bfloat16" ? fromBrain(key) : key;
      float[0] += 0; // -0 and 0 are equal
      const bits = floatBits[0]!;
      key = bits < 0 ? ~bits : bits ^ 0x80000000;
    } else if (kind === "i") key ^= 0x80000000;
    const nan = kind === "f" && float[0] !== float[0];
    pairs[2 * i] = i;
    pairs[2 * i + 1] = nan ? 0xffffffff : descending ? ~key : key;
  }
  sorted.sort();
  for (let i = 0; i < size; i++) out[to + i] = pairs[2 * i]!;
}

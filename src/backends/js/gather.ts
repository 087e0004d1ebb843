/**
 * Moves blocks of elements to and from computed positions: what indexing by tensors comes down to.
 *
 * Elements are moved as they are, whatever they mean. Knows plans and storages.
 *
 * @module
 */
import type { TypedArray } from "../../dtype.ts";
import { readElement } from "../../element.ts";
import { OFFSETS, type Plan } from "../../plan.ts";
import type { Storage } from "../../storage.ts";

/** The positions of all elements that `plan` walks, for operand `k`, its offset included. */
function walkOperand(plan: Plan, k: number): Float64Array {
  const { data, rank, operands } = plan;
  let size = 1;
  for (let j = 0; j < rank; j++) size *= data[OFFSETS + operands + j]!;
  const result = new Float64Array(size);
  if (size === 0) return result;
  result[0] = data[OFFSETS + k]!;
  // Each axis repeats what the inner ones have made, one stride further on.
  let filled = 1;
  for (let j = rank - 1; j >= 0; j--) {
    const n = data[OFFSETS + operands + j]!;
    const stride = data[OFFSETS + operands + rank * (k + 1) + j]!;
    for (let i = 1; i < n; i++) {
      for (let e = 0; e < filled; e++) result[i * filled + e] = result[e]! + i * stride;
    }
    filled *= n;
  }
  return result;
}

/** See {@link Backend.gather}. */
export function gatherBlocks(
  plan: Plan,
  out: TypedArray,
  source: TypedArray,
  positions: Int32Array | Float64Array,
  count: number,
  step: number,
): void {
  moveBlocks(plan, out, source, (to, from, size) => {
    for (let i = 0; i < count; i++) {
      const [t, f] = [i * step, positions[i]!];
      for (let e = 0; e < size; e++) out[t + to[e]!] = source[f + from[e]!]!;
    }
  }, (to, from, size) => {
    for (let i = 0; i < count; i++) copyRun(out, to + i * step, source, from + positions[i]!, size);
  });
}

/** See {@link Backend.scatter}. */
export function scatterBlocks(
  plan: Plan,
  target: TypedArray,
  values: TypedArray,
  positions: Int32Array | Float64Array,
  count: number,
  step: number,
): void {
  moveBlocks(plan, target, values, (to, from, size) => {
    for (let i = 0; i < count; i++) {
      const [t, f] = [positions[i]!, i * step];
      for (let e = 0; e < size; e++) target[t + to[e]!] = values[f + from[e]!]!;
    }
  }, (to, from, size) => {
    for (let i = 0; i < count; i++) {
      copyRun(target, to + positions[i]!, values, from + i * step, size);
    }
  });
}

/** Chooses between moving dense runs and moving element by element. */
function moveBlocks(
  plan: Plan,
  _out: TypedArray,
  _source: TypedArray,
  scattered: (to: Float64Array, from: Float64Array, size: number) => void,
  dense: (to: number, from: number, size: number) => void,
): void {
  const { data, rank, operands } = plan;
  const size = data[OFFSETS + operands]!;
  const strides = OFFSETS + operands + rank;
  if (rank === 1 && size >= 16 && data[strides] === 1 && data[strides + 1] === 1) {
    dense(data[OFFSETS]!, data[OFFSETS + 1]!, size);
  } else {
    const to = walkOperand(plan, 0);
    scattered(to, walkOperand(plan, 1), to.length);
  }
}

function copyRun(
  out: TypedArray,
  to: number,
  source: TypedArray,
  from: number,
  size: number,
): void {
  (out as Float64Array).set((source as Float64Array).subarray(from, from + size), to);
}

/** See {@link Backend.position}. */
export function addPositions(
  plan: Plan,
  positions: Storage,
  index: Storage,
  size: number,
  stride: number,
): number {
  const places = walkOperand(plan, 0);
  const reads = walkOperand(plan, 1);
  const result = positions.array as Int32Array;
  for (let i = 0; i < places.length; i++) {
    const at = Number(index.array[reads[i]!]!);
    if (at < -size || at >= size) return i;
    result[places[i]!]! += (at < 0 ? at + size : at) * stride;
  }
  return -1;
}

/** See {@link Backend.nonzero}. */
export function findNonzero(out: Int32Array, input: Storage, offset: number, length: number): void {
  let found = 0;
  if (input.info.kind === "f") {
    // -0 is zero, whatever its bits.
    for (let i = 0; i < length; i++) if (readElement(input, offset + i) !== 0) out[found++] = i;
    return;
  }
  const zero = input.info.wide ? 0n : 0;
  const { array } = input;
  for (let i = 0; i < length; i++) if (array[offset + i] !== zero) out[found++] = i;
}

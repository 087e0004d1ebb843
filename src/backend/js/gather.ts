/**
 * Moves blocks of elements to and from where indexes say: what indexing by tensors comes down to.
 *
 * Elements are moved as they are, whatever they mean. Knows plans and storages.
 *
 * @module
 */
import type { Along, Picks } from "../../core/backend.ts";
import type { DTypeInfo, TypedArray } from "../../base/dtype.ts";
import { readElement } from "../../memory/element.ts";
import { fromBrain, halfTable, toBrain, toHalf } from "../../base/half.ts";
import { OFFSETS, type Plan } from "../../core/plan.ts";
import type { Storage } from "../../memory/storage.ts";

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

/** Whether positions are where blocks come from, where they go to, or where they are added. */
type Motion = "gather" | "scatter" | "add";

/** Moves blocks: element e of block i goes from position i plus `from[e]`, or to it plus `to[e]`. */
type Mover = (
  out: TypedArray,
  source: TypedArray,
  positions: Int32Array | Float64Array,
  to: Float64Array,
  from: Float64Array,
  count: number,
  step: number,
) => void;

/** One copy of the loop for each dtype and motion, so that each sees one type of array. */
const movers = new Map<string, Mover>();

function moverFor(dtype: DTypeInfo, motion: Motion): Mover {
  const key = `${motion}_${dtype.name}`;
  let mover = movers.get(key);
  if (mover !== undefined) return mover;
  const [t, f] = motion === "gather" ? ["i * step", "positions[i]"] : ["positions[i]", "i * step"];
  const move = motion === "add"
    ? "out[t + to[e]] += source[f + from[e]];"
    : dtype.wide
    ? "const p = 2 * (t + to[e]), q = 2 * (f + from[e]); out[p] = source[q]; out[p + 1] = source[q + 1];"
    : "out[t + to[e]] = source[f + from[e]];";
  const text = `return function ${key}(out, source, positions, to, from, count, step) {
    const size = to.length;
    for (let i = 0; i < count; i++) {
      const t = ${t}, f = ${f};
      for (let e = 0; e < size; e++) { ${move} }
    }
  };`;
  movers.set(key, mover = new Function(text)() as Mover);
  return mover;
}

/** {@link moverFor} where no function may be made from text. */
function moveElements(motion: Motion): Mover {
  return (out, source, positions, to, from, count, step) => {
    for (let i = 0; i < count; i++) {
      const [t, f] = motion === "gather" ? [i * step, positions[i]!] : [positions[i]!, i * step];
      for (let e = 0; e < to.length; e++) {
        if (motion === "add") (out as Float64Array)[t + to[e]!]! += source[f + from[e]!] as number;
        else out[t + to[e]!] = source[f + from[e]!]!;
      }
    }
  };
}

/** Adds 16-bit floats, which are kept as bits. */
function addHalves(dtype: DTypeInfo): Mover {
  const table = halfTable();
  const [read, write] = dtype.name === "float16"
    ? [(bits: number) => table[bits]!, toHalf]
    : [fromBrain, toBrain];
  return (out, source, positions, to, from, count, step) => {
    for (let i = 0; i < count; i++) {
      for (let e = 0; e < to.length; e++) {
        const t = positions[i]! + to[e]!;
        out[t] = write(read(out[t] as number) + read(source[i * step + from[e]!] as number));
      }
    }
  };
}

/** A dense run at least this long is copied by the runtime, a shorter one by a loop. */
const LONG_RUN = 256;

/** An index as a place from 0 to `size - 1`; any other number where it is out of range. */
function placeOf(index: number | bigint, size: number): number {
  const at = Number(index);
  return at < 0 ? at + size : at;
}

/** See {@link Backend.gather} and, for the other motions, {@link Backend.scatter}. */
export function moveBlocks(
  plan: Plan,
  out: Storage,
  source: Storage,
  picks: Picks,
  step: number,
  motion: Motion,
  generate: boolean,
): number {
  const { indexes, offset, count, size: places, stride } = picks;
  const positions = new (out.huge || source.huge ? Float64Array : Int32Array)(count);
  for (let i = 0; i < count; i++) {
    const at = placeOf(indexes.array[offset + i]!, places);
    if (at < 0 || at >= places) return i;
    positions[i] = at * stride;
  }
  const { data, rank, operands } = plan;
  const size = data[OFFSETS + operands]!;
  const strides = OFFSETS + operands + rank;
  const dense = rank === 1 && data[strides] === 1 && data[strides + 1] === 1;
  if (dense && size >= LONG_RUN && motion !== "add") {
    const [to, from] = [data[OFFSETS]!, data[OFFSETS + 1]!];
    const [target, elements] = [out.array as Float64Array, source.array as Float64Array];
    for (let i = 0; i < count; i++) {
      const t = to + (motion === "scatter" ? positions[i]! : i * step);
      const f = from + (motion === "scatter" ? i * step : positions[i]!);
      target.set(elements.subarray(f, f + size), t);
    }
    return -1;
  }
  const { info } = out;
  const words = generate && info.wide && motion !== "add";
  const mover = motion === "add" && info.kind === "f" && info.bytes === 2
    ? addHalves(info)
    : generate
    ? moverFor(info, motion)
    : moveElements(motion);
  mover(
    words ? out.words : out.array,
    words ? source.words : source.array,
    positions,
    walkOperand(plan, 0),
    walkOperand(plan, 1),
    count,
    step,
  );
  return -1;
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
  const result = positions.array;
  for (let i = 0; i < places.length; i++) {
    const at = placeOf(index.array[reads[i]!]!, size);
    if (at < 0 || at >= size) return i;
    const sum = Number(result[places[i]!]) + at * stride;
    result[places[i]!] = positions.info.wide ? BigInt(sum) : sum;
  }
  return -1;
}

/** See {@link Backend.takeAlong}. */
export function takeEach(
  plan: Plan,
  out: Storage,
  source: Storage,
  { indexes, size, stride }: Along,
): number {
  const [places, from, reads] = [0, 1, 2].map((k) => walkOperand(plan, k)) as [
    Float64Array,
    Float64Array,
    Float64Array,
  ];
  const [target, elements, given] = [out.array, source.array, indexes.array];
  for (let i = 0; i < places.length; i++) {
    const at = placeOf(given[reads[i]!]!, size);
    if (at < 0 || at >= size) return i;
    target[places[i]!] = elements[from[i]! + at * stride]!;
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

/**
 * Moves blocks of elements to and from the places of indexes: the core of indexing by tensors.
 *
 * Moves elements unchanged. Knows plans and storages.
 *
 * @module
 */
import { alongAxis, type Blocks, gatherBlocks, scatterBlocks } from "../../ops/index/kernels.ts";
import type { DTypeInfo, TypedArray } from "../../base/dtype.ts";
import { readElement } from "../../memory/element.ts";
import { f16Table, fromBf16, toBf16, toF16 } from "../../base/half.ts";
import { OFFSETS, type Plan, planMap } from "../../base/plan.ts";
import type { Call } from "../../table/op.ts";

/** The positions of all elements of operand `k` in the order of `plan`, its offset included. */
function walkOperand(plan: Plan, k: number): Float64Array {
  const { data, rank, operands } = plan;
  let size = 1;
  for (let j = 0; j < rank; j++) size *= data[OFFSETS + operands + j]!;
  const result = new Float64Array(size);
  if (size === 0) return result;
  result[0] = data[OFFSETS + k]!;
  // Each axis repeats the positions of the inner ones, one stride further on.
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

/** Whether positions are the source of blocks, the target, or the target of an addition. */
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

/** {@link moverFor} if code generation is forbidden. */
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

/** Adds 16-bit floats, which are stored as bits. */
function addHalves(dtype: DTypeInfo): Mover {
  const table = f16Table();
  const [read, write] = dtype.name === "float16"
    ? [(bits: number) => table[bits]!, toF16]
    : [fromBf16, toBf16];
  return (out, source, positions, to, from, count, step) => {
    for (let i = 0; i < count; i++) {
      for (let e = 0; e < to.length; e++) {
        const t = positions[i]! + to[e]!;
        out[t] = write(read(out[t] as number) + read(source[i * step + from[e]!] as number));
      }
    }
  };
}

/** The runtime's own copy moves a dense run at least this long; a loop moves shorter ones. */
const LONG_RUN = 256;

/** The place of an index, from 0 to `size - 1`; any other number if it is out of range. */
function placeOf(index: number | bigint, size: number): number {
  const at = Number(index);
  return at < 0 ? at + size : at;
}

/** Moves the blocks; returns the place of the first index out of range, or -1. */
function moveBlocks(
  { plan, out, source, index, step }: Blocks,
  motion: Motion,
  generate: boolean,
): number {
  const { indices, offset, count, size: places, stride } = index;
  const positions = new (out.needsInt64Index || source.needsInt64Index ? Float64Array : Int32Array)(
    count,
  );
  for (let i = 0; i < count; i++) {
    const at = placeOf(indices.array[offset + i]!, places);
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

/** out[i, …] = source[indices[i], …]. */
export function gather(call: Call, generate: boolean): void {
  call.badIndex = moveBlocks(gatherBlocks(call), "gather", generate);
}

/** target[indices[i], …] = values[i, …]. */
export function scatter(call: Call, generate: boolean): void {
  call.badIndex = moveBlocks(scatterBlocks(call), "scatter", generate);
}

/** target[indices[i], …] += values[i, …]. */
export function scatterAdd(call: Call, generate: boolean): void {
  call.badIndex = moveBlocks(scatterBlocks(call), "add", generate);
}

/** Adds to each position its index times the stride. */
export function ravelIndex(call: Call): void {
  const [positions, index] = [call.operand(0), call.operand(1)];
  const { size, stride } = call.attributes as { size: number; stride: number };
  const plan = planMap(positions.layout, index.layout, null, null);
  const places = walkOperand(plan, 0);
  const reads = walkOperand(plan, 1);
  const { array, info } = positions.storage;
  for (let i = 0; i < places.length; i++) {
    const at = placeOf(index.storage.array[reads[i]!]!, size);
    if (at < 0 || at >= size) {
      call.badIndex = i;
      return;
    }
    const sum = Number(array[places[i]!]) + at * stride;
    array[places[i]!] = info.wide ? BigInt(sum) : sum;
  }
}

/** out[…] = source[…, indices[…], …] along an axis. */
export function takeAlongAxis(call: Call): void {
  const { plan, size, stride } = alongAxis(call);
  const [places, from, reads] = [0, 1, 2].map((k) => walkOperand(plan, k)) as [
    Float64Array,
    Float64Array,
    Float64Array,
  ];
  const target = call.outputs[0]!.storage.array;
  const [elements, indices] = [call.operand(0).storage.array, call.operand(1).storage.array];
  for (let i = 0; i < places.length; i++) {
    const at = placeOf(indices[reads[i]!]!, size);
    if (at < 0 || at >= size) {
      call.badIndex = i;
      return;
    }
    target[places[i]!] = elements[from[i]! + at * stride]!;
  }
}

/** The flat indices of the nonzero elements. */
export function nonzeroIndices(call: Call): void {
  const { storage, layout: { offset, size } } = call.operand(0);
  const out = call.outputs[0]!.storage.array as Int32Array;
  let found = 0;
  if (storage.info.kind === "f") {
    // -0 is zero, despite its bits.
    for (let i = 0; i < size; i++) if (readElement(storage, offset + i) !== 0) out[found++] = i;
  } else {
    const zero = storage.info.wide ? 0n : 0;
    const { array } = storage;
    for (let i = 0; i < size; i++) if (array[offset + i] !== zero) out[found++] = i;
  }
  // Fewer than counted if another thread has changed shared elements since.
  out.fill(0, found);
}

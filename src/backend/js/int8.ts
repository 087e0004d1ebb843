/**
 * Weights of int8 and products with them in JavaScript: the definition.
 *
 * @module
 */
import {
  INT8_BLOCK,
  INT8_HEAD_BYTES,
  int8Shape,
  type PackedAttributes,
  rowsOf,
} from "../../ops/linear/panels.ts";
import type { Operand } from "../../memory/operand.ts";
import type { Call } from "../../table/op.ts";
import { GROUP_ROWS } from "../../ops/quantized/groups.ts";
import { functionOf } from "./packed_weight.ts";

const round = Math.fround;

/** The nearest integer, the even one of two. */
function nearest(x: number): number {
  const up = Math.round(x);
  return up - x === 0.5 && up % 2 !== 0 ? up - 1 : up;
}

/** Writes n numbers as multiples of a scale, which it returns, from −127 to 127. */
function roundTo(to: Int8Array, from: Float32Array, at: number, n: number): number {
  let most = 0;
  for (let i = 0; i < n; i++) most = Math.max(most, Math.abs(from[at + i]!));
  const scale = round(most / 127);
  const inverse = scale === 0 ? 0 : round(1 / scale);
  for (let i = 0; i < n; i++) {
    const q = round(from[at + i]! * inverse);
    // Out of range only beside what is not finite, where the scale is not either.
    to[i] = Math.abs(q) <= 127.5 ? nearest(q) : 0;
  }
  return scale;
}

/** Numbers first + step · q, with q from 0 to 255. */
interface Rounding {
  readonly first: number;
  readonly step: number;
}

/** Writes n numbers as multiples of a step from their least one. */
function roundUp(to: Uint8Array, from: Float32Array, at: number, n: number): Rounding {
  let [least, most] = [Infinity, -Infinity];
  for (let i = 0; i < n; i++) {
    least = Math.min(least, from[at + i]!);
    most = Math.max(most, from[at + i]!);
  }
  const step = round((most / 2 - least / 2) / 127.5);
  if (!Number.isFinite(step)) return { first: NaN, step: NaN };
  const inverse = step === 0 ? 0 : round(1 / step);
  for (let i = 0; i < n; i++) {
    const q = round(round(from[at + i]! - least) * inverse);
    to[i] = nearest(Math.min(255, q >= 0 ? q : 0));
  }
  return { first: least, step };
}

/** The blocks of n elements: where each begins, and its size. */
function* blocksOf(n: number): Generator<readonly [at: number, size: number]> {
  for (let at = 0; at < n; at += INT8_BLOCK) yield [at, Math.min(INT8_BLOCK, n - at)];
}

/** The groups of a weight of [columns, depth]. */
class Groups {
  readonly #bytes: Int8Array;
  readonly #view: DataView;
  readonly #offset: number;
  readonly #groupBytes: number;

  constructor({ storage, layout: { offset } }: Operand, depth: number) {
    this.#bytes = storage.array as Int8Array;
    this.#view = new DataView(this.#bytes.buffer, this.#bytes.byteOffset);
    this.#offset = offset;
    this.#groupBytes = GROUP_ROWS * int8Shape(GROUP_ROWS, depth)[2]!;
  }

  /** Where the scale of the block of a row is that begins at `first`. */
  #at(row: number, first: number): number {
    const within = row % GROUP_ROWS;
    const start = this.#offset + (row - within) / GROUP_ROWS * this.#groupBytes;
    return start + first / INT8_BLOCK * GROUP_ROWS * (INT8_HEAD_BYTES + INT8_BLOCK) + 4 * within;
  }

  /** The scale of a block, and the sum of its numbers. */
  head(row: number, first: number): readonly [scale: number, sum: number] {
    const at = this.#at(row, first);
    return [this.#view.getFloat32(at, true), this.#view.getFloat32(at + 4 * GROUP_ROWS, true)];
  }

  setBlock(row: number, first: number, scale: number, from: Int8Array): void {
    const at = this.#at(row, first);
    this.#view.setFloat32(at, scale, true);
    const sum = from.reduce((all, q) => all + q, 0);
    this.#view.setFloat32(at + 4 * GROUP_ROWS, scale * sum, true);
    for (let i = 0; i < from.length; i++) this.#bytes[byteAt(at, i)] = from[i]!;
  }

  readBlock(row: number, first: number, to: Int8Array): void {
    const at = this.#at(row, first);
    for (let i = 0; i < to.length; i++) to[i] = this.#bytes[byteAt(at, i)]!;
  }
}

/** Where the element i of a block is whose scale is at `at`. */
function byteAt(at: number, i: number): number {
  return at + GROUP_ROWS * (INT8_HEAD_BYTES + (i & ~3)) + (i & 3);
}

/** A float32 weight as groups of int8. */
export function quantizeInt8(call: Call): void {
  const [w, out] = [call.operand(0), call.outputs[0]!];
  const [rows, depth] = w.layout.shape as [number, number];
  const { storage: { array }, layout: { offset, size } } = out;
  (array as Int8Array).fill(0, offset, offset + size);
  const groups = new Groups(out, depth);
  const block = new Int8Array(INT8_BLOCK);
  for (let i = 0; i < rows; i++) {
    const start = w.layout.offset + i * depth;
    for (const [at, size] of blocksOf(depth)) {
      const scale = roundTo(block, w.storage.array as Float32Array, start + at, size);
      groups.setBlock(i, at, scale, block.subarray(0, size));
    }
  }
}

/** The numbers of groups of int8. */
export function dequantizeInt8(call: Call): void {
  const { storage: { array }, layout: { shape, offset } } = call.outputs[0]!;
  const [rows, depth] = shape as [number, number];
  const groups = new Groups(call.operand(0), depth);
  const block = new Int8Array(INT8_BLOCK);
  for (let i = 0; i < rows; i++) {
    for (const [at, size] of blocksOf(depth)) {
      groups.readBlock(i, at, block.subarray(0, size));
      const [scale] = groups.head(i, at);
      for (let k = 0; k < size; k++) {
        (array as Float32Array)[offset + i * depth + at + k] = block[k]! * scale;
      }
    }
  }
}

/** activation(x @ w.T + bias) + add, where rows of x are rounded to 8 bits. */
export function linearInt8(call: Call): void {
  const { inputs: [, , bias, add], outputs: [out] } = call;
  const { columns, depth, activation } = call.attributes as PackedAttributes;
  const x = call.operand(0);
  const { rows, stride } = rowsOf(x.layout)!;
  const groups = new Groups(call.operand(1), depth);
  const blocks = [...blocksOf(depth)];
  const left = Array.from({ length: rows }, (_, i) => {
    const row = new Uint8Array(depth);
    const start = x.layout.offset + i * stride;
    const roundings = blocks.map(([at, size]) =>
      roundUp(row.subarray(at), x.storage.array as Float32Array, start + at, size)
    );
    return { row, roundings };
  });
  const right = new Int8Array(depth);
  const apply = functionOf(activation);
  const at = (operand: Operand, i: number, j: number): number => {
    const { storage: { array }, layout } = operand;
    return (array as Float32Array)[layout.offset + i * rowsOf(layout)!.stride + j]!;
  };
  const { storage: { array }, layout: { offset } } = out!;
  for (let j = 0; j < columns; j++) {
    for (const [at, size] of blocks) groups.readBlock(j, at, right.subarray(at, at + size));
    const heads = blocks.map(([at]) => groups.head(j, at));
    for (let i = 0; i < rows; i++) {
      const { row, roundings } = left[i]!;
      let value = 0;
      for (const [b, [at, size]] of blocks.entries()) {
        const { first, step } = roundings[b]!;
        const [scale, all] = heads[b]!;
        let sum = 0;
        for (let k = at; k < at + size; k++) sum += row[k]! * right[k]!;
        value += sum * round(scale * step) + all * first;
      }
      if (bias !== undefined) value += at(bias as Operand, 0, j);
      if (apply !== null) value = apply(value);
      if (add !== undefined) value += at(add as Operand, i, j);
      (array as Float32Array)[offset + i * columns + j] = value;
    }
  }
}

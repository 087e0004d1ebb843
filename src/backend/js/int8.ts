/**
 * Weights of int8 and products with them in JavaScript: the definition.
 *
 * @module
 */
import {
  INT8_SCALE_BYTES,
  int8Words,
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
    this.#groupBytes = GROUP_ROWS * (INT8_SCALE_BYTES + 4 * int8Words(depth));
  }

  /** Where the scale of a row is. */
  #at(row: number): number {
    const within = row % GROUP_ROWS;
    return this.#offset + (row - within) / GROUP_ROWS * this.#groupBytes + 4 * within;
  }

  scale(row: number): number {
    return this.#view.getFloat32(this.#at(row), true);
  }

  setRow(row: number, scale: number, from: Int8Array): void {
    this.#view.setFloat32(this.#at(row), scale, true);
    for (let i = 0; i < from.length; i++) this.#bytes[this.#byte(row, i)] = from[i]!;
  }

  readRow(row: number, to: Int8Array): void {
    for (let i = 0; i < to.length; i++) to[i] = this.#bytes[this.#byte(row, i)]!;
  }

  #byte(row: number, i: number): number {
    return this.#at(row) + GROUP_ROWS * (4 + (i & ~3)) + (i & 3);
  }
}

/** A float32 weight as groups of int8. */
export function quantizeInt8(call: Call): void {
  const [w, out] = [call.operand(0), call.outputs[0]!];
  const [rows, depth] = w.layout.shape as [number, number];
  const { storage: { array }, layout: { offset, size } } = out;
  (array as Int8Array).fill(0, offset, offset + size);
  const groups = new Groups(out, depth);
  const row = new Int8Array(depth);
  for (let i = 0; i < rows; i++) {
    const at = w.layout.offset + i * depth;
    groups.setRow(i, roundTo(row, w.storage.array as Float32Array, at, depth), row);
  }
}

/** The numbers of groups of int8. */
export function dequantizeInt8(call: Call): void {
  const { storage: { array }, layout: { shape, offset } } = call.outputs[0]!;
  const [rows, depth] = shape as [number, number];
  const groups = new Groups(call.operand(0), depth);
  const row = new Int8Array(depth);
  for (let i = 0; i < rows; i++) {
    groups.readRow(i, row);
    const scale = groups.scale(i);
    for (let k = 0; k < depth; k++) {
      (array as Float32Array)[offset + i * depth + k] = row[k]! * scale;
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
  const scales = new Float32Array(rows);
  const left = Array.from({ length: rows }, (_, i) => {
    const row = new Int8Array(depth);
    const at = x.layout.offset + i * stride;
    scales[i] = roundTo(row, x.storage.array as Float32Array, at, depth);
    return row;
  });
  const right = new Int8Array(depth);
  const apply = functionOf(activation);
  const at = (operand: Operand, i: number, j: number): number => {
    const { storage: { array }, layout } = operand;
    return (array as Float32Array)[layout.offset + i * rowsOf(layout)!.stride + j]!;
  };
  const { storage: { array }, layout: { offset } } = out!;
  for (let j = 0; j < columns; j++) {
    groups.readRow(j, right);
    const scale = groups.scale(j);
    for (let i = 0; i < rows; i++) {
      const row = left[i]!;
      let sum = 0;
      for (let k = 0; k < depth; k++) sum += row[k]! * right[k]!;
      let value = sum * round(scale * scales[i]!);
      if (bias !== undefined) value += at(bias as Operand, 0, j);
      if (apply !== null) value = apply(value);
      if (add !== undefined) value += at(add as Operand, i, j);
      (array as Float32Array)[offset + i * columns + j] = value;
    }
  }
}

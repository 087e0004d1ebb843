/**
 * Packed matrices of bytes and of four bits in JavaScript: the definitions of their formats.
 *
 * @module
 */
import {
  BYTES_HEAD,
  BYTES_PART,
  bytesGroup,
  type BytesSizes,
  MOST_PAIR,
} from "../../ops/linear/bytes.ts";
import {
  NIBBLES_HEAD,
  nibblesBlock,
  type NibblesSizes,
  PER_WORD,
} from "../../ops/linear/nibbles.ts";
import { GROUP_ROWS } from "../../ops/quantized/groups.ts";
import type { Operand } from "../../memory/operand.ts";
import type { Call } from "../../table/op.ts";

type Bytes = Int8Array | Uint8Array;

/** The bytes of an operand, and a view of their words. */
function bytesOf({ storage, layout: { offset, size } }: Operand): [Bytes, DataView] {
  const bytes = (storage.array as Bytes).subarray(offset, offset + size);
  return [bytes, new DataView(bytes.buffer, bytes.byteOffset, size)];
}

/** Where the element (k, j) of a matrix of bytes lies in a packed one of `depth` rows. */
function placeOf(k: number, j: number, depth: number): number {
  const within = j % GROUP_ROWS;
  return (j - within) / GROUP_ROWS * bytesGroup(depth) + BYTES_HEAD + (k >> 2) * 4 * GROUP_ROWS +
    4 * within + (k & 3);
}

/** Where the sum of column j lies; its zero point and its pairs are in the parts after it. */
function headOf(j: number, depth: number): number {
  return Math.floor(j / GROUP_ROWS) * bytesGroup(depth) + 4 * (j % GROUP_ROWS);
}

/** The number that a column is moved by, and the largest sum of the sizes of two bytes then. */
function movedBy(values: readonly number[], usual: number): [shift: number, pairs: number] {
  const pairsAt = (shift: number): number => {
    let most = 0;
    for (let k = 0; k < values.length; k += 2) {
      const second = k + 1 < values.length ? Math.abs(values[k + 1]! - shift) : 0;
      most = Math.max(most, Math.abs(values[k]! - shift) + second);
    }
    return most;
  };
  const pairs = pairsAt(usual);
  const low = values.reduce((a, b) => Math.min(a, b), 255);
  const high = values.reduce((a, b) => Math.max(a, b), -128);
  if (pairs <= MOST_PAIR || high - low > MOST_PAIR) return [usual, pairs];
  const shift = low + MOST_PAIR / 2;
  return [shift, pairsAt(shift)];
}

/** A matrix of bytes as groups of columns. */
export function packBytes(call: Call): void {
  const [b, out] = [call.operand(0), call.outputs[0]!];
  const zeros = call.inputs[1] as Operand | undefined;
  const [depth, columns] = b.layout.shape as [number, number];
  const [from] = bytesOf(b), [to, view] = bytesOf(out);
  const usual = b.storage.info.kind === "u" ? 128 : 0;
  to.fill(0);
  for (let j = 0; j < columns; j++) {
    const values = Array.from({ length: depth }, (_, k) => from[k * columns + j]!);
    const [shift, pairs] = movedBy(values, usual);
    let sum = 0;
    for (let k = 0; k < depth; k++) {
      const value = values[k]! - shift;
      to[placeOf(k, j, depth)] = value;
      sum += value;
    }
    const zero = zeros === undefined ? 0 : zeros.storage.array[zeros.layout.offset + j] as number;
    const head = headOf(j, depth);
    [sum, zero - shift, pairs].forEach((number, i) =>
      view.setInt32(head + i * BYTES_PART, number, true)
    );
  }
}

/** The numbers of groups of columns less their zero points. */
export function unpackBytes(call: Call): void {
  const { depth, columns } = call.attributes as BytesSizes;
  const [from, view] = bytesOf(call.operand(0));
  const { storage, layout: { offset } } = call.outputs[0]!;
  for (let j = 0; j < columns; j++) {
    const zero = view.getInt32(headOf(j, depth) + BYTES_PART, true);
    for (let k = 0; k < depth; k++) {
      storage.array[offset + k * columns + j] = from[placeOf(k, j, depth)]! - zero;
    }
  }
}

/** Where block b of a row of a weight of four bits begins, without the place of the row in its group. */
function blockAt(row: number, b: number, blocks: number, block: number): number {
  return (Math.floor(row / GROUP_ROWS) * blocks + b) * nibblesBlock(block);
}

/** A weight of four bits as groups of rows. */
export function packNibbles(call: Call): void {
  const [bytes, scales, zeros] = [0, 1, 2].map((k) => call.operand(k)) as [
    Operand,
    Operand,
    Operand,
  ];
  const [rows, blocks, half] = bytes.layout.shape as [number, number, number];
  const block = 2 * half;
  const [from] = bytesOf(bytes), [to, view] = bytesOf(call.outputs[0]!);
  const numberOf = ({ storage, layout }: Operand, i: number): number =>
    storage.array[layout.offset + i] as number;
  to.fill(0);
  for (let row = 0; row < rows; row++) {
    for (let b = 0; b < blocks; b++) {
      const at = blockAt(row, b, blocks, block) + 4 * (row % GROUP_ROWS);
      view.setFloat32(at, numberOf(scales, row * blocks + b), true);
      view.setFloat32(at + 4 * GROUP_ROWS, numberOf(zeros, row * blocks + b), true);
      for (let i = 0; i < half; i++) {
        const word = at + NIBBLES_HEAD + (i >> 2) * 4 * GROUP_ROWS;
        to[word + (i & 3)] = from[(row * blocks + b) * half + i]!;
      }
    }
  }
}

/** The numbers of groups of rows of four bits. */
export function dequantizeNibbles(call: Call): void {
  const { columns, depth, block } = call.attributes as NibblesSizes;
  const blocks = Math.ceil(depth / block);
  const [from, view] = bytesOf(call.operand(0));
  const { storage, layout: { offset } } = call.outputs[0]!;
  for (let row = 0; row < columns; row++) {
    for (let k = 0; k < depth; k++) {
      const within = k % block;
      const at = blockAt(row, (k - within) / block, blocks, block) + 4 * (row % GROUP_ROWS);
      const word = at + NIBBLES_HEAD + Math.floor(within / PER_WORD) * 4 * GROUP_ROWS;
      const byte = from[word + (within % PER_WORD >> 1)]!;
      const q = within % 2 === 0 ? byte & 15 : byte >> 4;
      const zero = view.getFloat32(at + 4 * GROUP_ROWS, true);
      storage.array[offset + row * depth + k] = (q - zero) * view.getFloat32(at, true);
    }
  }
}

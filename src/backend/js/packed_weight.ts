/**
 * Products with a packed weight in JavaScript: the definition, in double precision, rounded once.
 *
 * @module
 */
import { bf16Table, f16Table, toBf16, toF16 } from "../../base/half.ts";
import {
  type Activation,
  type PackedAttributes,
  PANEL_COLUMNS,
  rowsOf,
} from "../../ops/linear/panels.ts";
import type { Operand } from "../../memory/operand.ts";
import type { Storage } from "../../memory/storage.ts";
import type { Call } from "../../table/op.ts";
import { FLOAT } from "./primitives.ts";

/** The values of elements: a table of the bits of 16-bit floats, or null. */
function tableOf({ info: { name } }: Storage): Float32Array | null {
  return name === "float16" ? f16Table() : name === "bfloat16" ? bf16Table() : null;
}

/** Writes `length` contiguous elements, from position `from` on, to `to`, from `at` on. */
function widen(to: Float64Array, at: number, from: Storage, first: number, length: number): void {
  const table = tableOf(from);
  const array = from.array as Float32Array;
  if (table === null) { for (let i = 0; i < length; i++) to[at + i] = array[first + i]!; }
  else for (let i = 0; i < length; i++) to[at + i] = table[array[first + i]!]!;
}

/** Puts the columns of each row in order. */
function separate(panel: Float64Array, depth: number): void {
  const row = new Float64Array(PANEL_COLUMNS);
  const half = PANEL_COLUMNS / 2;
  for (let at = 0; at < depth * PANEL_COLUMNS; at += PANEL_COLUMNS) {
    for (let j = 0; j < PANEL_COLUMNS; j++) row[j] = panel[at + j]!;
    for (let j = 0; j < half; j++) {
      panel[at + j] = row[2 * j]!;
      panel[at + half + j] = row[2 * j + 1]!;
    }
  }
}

/** Four rows of x, `depth` elements each, times a panel. */
function multiply(
  depth: number,
  x: Float64Array,
  row: number,
  panel: Float64Array,
  sums: Float64Array,
): void {
  const [x0, x1, x2, x3] = [row * depth, (row + 1) * depth, (row + 2) * depth, (row + 3) * depth];
  for (let j = 0; j < PANEL_COLUMNS; j += 4) {
    let c00 = 0, c01 = 0, c02 = 0, c03 = 0, c10 = 0, c11 = 0, c12 = 0, c13 = 0;
    let c20 = 0, c21 = 0, c22 = 0, c23 = 0, c30 = 0, c31 = 0, c32 = 0, c33 = 0;
    for (let p = 0, at = j; p < depth; p++, at += PANEL_COLUMNS) {
      const b0 = panel[at]!, b1 = panel[at + 1]!, b2 = panel[at + 2]!, b3 = panel[at + 3]!;
      const a0 = x[x0 + p]!;
      c00 += a0 * b0, c01 += a0 * b1, c02 += a0 * b2, c03 += a0 * b3;
      const a1 = x[x1 + p]!;
      c10 += a1 * b0, c11 += a1 * b1, c12 += a1 * b2, c13 += a1 * b3;
      const a2 = x[x2 + p]!;
      c20 += a2 * b0, c21 += a2 * b1, c22 += a2 * b2, c23 += a2 * b3;
      const a3 = x[x3 + p]!;
      c30 += a3 * b0, c31 += a3 * b1, c32 += a3 * b2, c33 += a3 * b3;
    }
    let o = j;
    sums[o] = c00, sums[o + 1] = c01, sums[o + 2] = c02, sums[o + 3] = c03;
    o += PANEL_COLUMNS;
    sums[o] = c10, sums[o + 1] = c11, sums[o + 2] = c12, sums[o + 3] = c13;
    o += PANEL_COLUMNS;
    sums[o] = c20, sums[o + 1] = c21, sums[o + 2] = c22, sums[o + 3] = c23;
    o += PANEL_COLUMNS;
    sums[o] = c30, sums[o + 1] = c31, sums[o + 2] = c32, sums[o + 3] = c33;
  }
}

/** A function on numbers; null for none. */
export function functionOf(activation: Activation | undefined): ((x: number) => number) | null {
  if (activation === undefined) return null;
  if (activation === "relu") return (x) => (x < 0 ? 0 : x);
  return FLOAT[activation] as (x: number) => number;
}

/** The rows of an operand as numbers, and zeros up to a multiple of four rows. */
function rowsIn({ storage, layout }: Operand, depth: number): Float64Array {
  const { rows, stride } = rowsOf(layout)!;
  const x = new Float64Array(((rows + 3) & ~3) * depth);
  for (let i = 0; i < rows; i++) widen(x, i * depth, storage, layout.offset + i * stride, depth);
  return x;
}

/** activation(x @ w.T + bias) + add. */
export function linearPacked(call: Call): void {
  const { inputs: [, , bias, add], outputs: [out] } = call;
  const { columns, depth, activation } = call.attributes as PackedAttributes;
  const [x, weight] = [call.operand(0), call.operand(1).storage];
  const { rows } = rowsOf(x.layout)!;
  const left = rowsIn(x, depth);
  const panel = new Float64Array(depth * PANEL_COLUMNS);
  const sums = new Float64Array(4 * PANEL_COLUMNS);
  const shift = bias === undefined ? null : rowsIn(bias as Operand, columns);
  const residual = add === undefined ? null : rowsIn(add as Operand, columns);
  const apply = functionOf(activation);
  const { storage: { array, info: { name } }, layout: { offset } } = out!;
  for (let first = 0; first < columns; first += PANEL_COLUMNS) {
    widen(panel, 0, weight, first * depth, panel.length);
    if (weight.info.name === "bfloat16") separate(panel, depth);
    const count = Math.min(PANEL_COLUMNS, columns - first);
    for (let row = 0; row < rows; row += 4) {
      multiply(depth, left, row, panel, sums);
      for (let i = row; i < Math.min(rows, row + 4); i++) {
        for (let j = 0; j < count; j++) {
          let value = sums[(i - row) * PANEL_COLUMNS + j]!;
          const at = i * columns + first + j;
          if (shift !== null) value += shift[first + j]!;
          if (apply !== null) value = apply(value);
          if (residual !== null) value += residual[at]!;
          array[offset + at] = name === "float16"
            ? toF16(value)
            : name === "bfloat16"
            ? toBf16(value)
            : value;
        }
      }
    }
  }
}

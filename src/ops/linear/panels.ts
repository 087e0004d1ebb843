/**
 * Products with a packed weight, in the form that backends run: its panels, and rows of operands.
 *
 * A weight of shape [columns, depth] is packed into panels of 32 columns of the product. A panel has
 * `depth` rows of 32 elements; columns beyond the last one are 0. Rows of bfloat16 are interleaved:
 * the elements 2 j and 2 j + 1 are columns j and j + 16. shim/cpu/gemm/gemm_packed.h has the same.
 * Quantized weights are packed as groups (ops/quantized/groups.ts).
 *
 * @module
 */
import { DTYPE, type DTypeInfo } from "../../base/dtype.ts";
import { Layout } from "../../base/layout.ts";
import { sizeOf } from "../../base/shape.ts";
import type { Operand } from "../../memory/operand.ts";
import { isHost } from "../../memory/storage.ts";
import type { Call, Input } from "../../table/op.ts";
import { isQuantized } from "../quantized/dtypes.ts";
import type { QuantName } from "../quantized/formats.ts";
import { groupsShape } from "../quantized/groups.ts";

/** The columns of a panel. */
export const PANEL_COLUMNS = 32;

/** The dtypes of packed weights. */
export const PACKED_DTYPES: readonly DTypeInfo[] = [
  DTYPE.float32,
  DTYPE.float16,
  DTYPE.bfloat16,
];

/** The name of a function that `linear` can apply to its sums. */
export type Activation = "relu" | "gelu" | "silu" | "tanh" | "sigmoid";

/** All activations. */
export const ACTIVATIONS: readonly Activation[] = ["relu", "gelu", "silu", "tanh", "sigmoid"];

/** Attributes of a product with a packed weight; inputs: x, panels, bias, residual. */
export interface PackedAttributes {
  /** The number of columns of the product. */
  readonly columns: number;
  /** The length of the sums. */
  readonly depth: number;
  /** Applied to sums with their bias, before the residual is added. */
  readonly activation?: Activation | undefined;
}

/** Attributes of the op that makes groups of rows of blocks, or the other way round. */
export interface PackBlocksAttributes {
  readonly format: QuantName;
  /** The number of rows. */
  readonly rows: number;
  /** Whether the rows of groups are made. */
  readonly unpacks: boolean;
}

/** Attributes of a product with a quantized weight; inputs: x, weight or groups, bias, residual. */
export interface QuantizedAttributes {
  /** The number of columns of groups; undefined if the weight is not packed. */
  readonly columns?: number | undefined;
  /** Applied to sums with their bias, before the residual is added. */
  readonly activation?: Activation | undefined;
}

/** The elements of a block of a row of int8, which have a scale of their own. */
export const INT8_BLOCK = 128;
/** The bytes of the scale and the sum of a block, float32, before its elements. */
export const INT8_HEAD_BYTES = 8;

/** The words of four bytes of a row of int8. */
export const int8Words = (depth: number): number => Math.ceil(depth / 4);

/**
 * The shape of the groups of a weight of int8. A row has blocks of {@link INT8_BLOCK} elements: the
 * scale, the sum of the elements, and the elements as multiples of the scale, with zeros up to a whole
 * word. 16 rows are interleaved in pieces of four bytes. shim/cpu/quant/linear_int8.c has the same.
 */
export function int8Shape(columns: number, depth: number): number[] {
  const blocks = Math.ceil(depth / INT8_BLOCK);
  return groupsShape(columns, INT8_HEAD_BYTES * blocks + 4 * int8Words(depth));
}

/** True if kernels can run a product with float32: x, bias and residual are rows of it. */
export function hasFloatRows(call: Call): boolean {
  const { inputs: [x, , bias, add], specs } = call;
  const { dtype } = specs[0]!;
  return dtype === DTYPE.float32 && isHost((x as Operand).storage.memory) && hasRows(x, dtype) &&
    hasRows(bias, dtype) && hasRows(add, dtype);
}

/** Whether weights of a dtype can be packed. */
export function canPack(info: DTypeInfo): boolean {
  return PACKED_DTYPES.includes(info) || isQuantized(info);
}

/** The shape of a packed weight of a dtype, on the CPU. */
export function packedShape(info: DTypeInfo, columns: number, depth: number): number[] {
  return isQuantized(info) ? groupsShape(columns, depth) : panelsShape(columns, depth);
}

/** The shape of the panels of a weight. */
export function panelsShape(columns: number, depth: number): number[] {
  return [Math.ceil(columns / PANEL_COLUMNS), depth, PANEL_COLUMNS];
}

/** A part of a weight, and where its elements are in the panels. */
export interface PanelPart {
  /** The columns, as a layout of the weight: [..., depth]. */
  readonly weight: Layout;
  /** The same elements in the panels. */
  readonly panels: Layout;
}

/** The columns of a panel whose elements are equally far apart, and the distance. */
function runsOf(info: DTypeInfo): { length: number; step: number } {
  return info === DTYPE.bfloat16
    ? { length: PANEL_COLUMNS / 2, step: 2 }
    : { length: PANEL_COLUMNS, step: 1 };
}

/** Where the elements of a weight of `layout`, [columns, depth], are in its panels. */
export function panelParts(info: DTypeInfo, layout: Layout): PanelPart[] {
  const { shape: [columns, depth], strides: [s, t], offset } = layout as Layout & {
    shape: readonly [number, number];
    strides: readonly [number, number];
  };
  const { length, step } = runsOf(info);
  const whole = Math.floor(columns / PANEL_COLUMNS);
  const parts: PanelPart[] = [];
  for (let run = 0; run * length < PANEL_COLUMNS; run++) {
    const add = (panels: number, first: number, count: number): void => {
      if (panels <= 0 || count <= 0) return;
      const shape = [panels, count, depth];
      const at = first * PANEL_COLUMNS * depth + run;
      parts.push({
        weight: new Layout(
          shape,
          [PANEL_COLUMNS * s, s, t],
          offset + (first * PANEL_COLUMNS + run * length) * s,
        ),
        panels: new Layout(shape, [PANEL_COLUMNS * depth, step, PANEL_COLUMNS], at),
      });
    };
    add(whole, 0, length);
    add(1, whole, Math.min(length, columns - whole * PANEL_COLUMNS - run * length));
  }
  return parts;
}

/** Rows of contiguous elements. */
export interface Rows {
  /** The number of rows. */
  readonly rows: number;
  /** The distance between rows, in elements. */
  readonly stride: number;
}

/** The rows of the last axis; null if they are not contiguous, or not equally far apart. */
export function rowsOf({ shape, strides, contiguous, size }: Layout): Rows | null {
  const rank = shape.length;
  const width = shape[rank - 1]!;
  // Strides of no elements mean nothing: a copy may have the same ones.
  if (size === 0) return { rows: sizeOf(shape.slice(0, -1)), stride: width };
  if (contiguous) return { rows: size / width, stride: width };
  if (width > 1 && strides[rank - 1] !== 1) return null;
  let [rows, stride] = [1, 0];
  for (let axis = rank - 2; axis >= 0; axis--) {
    const n = shape[axis]!;
    if (n === 1) continue;
    if (rows === 1) stride = strides[axis]!;
    else if (strides[axis] !== rows * stride) return null;
    rows *= n;
  }
  return { rows, stride };
}

/** Whether an optional input is of `info` and consists of rows. */
function hasRows(input: Input, info: DTypeInfo): boolean {
  if (input === undefined) return true;
  const { storage, layout } = input as Operand;
  return storage.info === info && rowsOf(layout) !== null;
}

/** True if kernels can run the call: all but the weight have the result's dtype, and rows. */
export function isPackedCall(call: Call): boolean {
  const { inputs: [x, panels, bias, add], specs } = call;
  const { dtype } = specs[0]!;
  if ((panels as Operand).layout.shape.length !== 3 || !isHost((x as Operand).storage.memory)) {
    return false;
  }
  return hasRows(x, dtype) && hasRows(bias, dtype) && hasRows(add, dtype);
}

/**
 * Elements that consist of several numbers, or share a block, as the numbers in them: ops that move
 * whole elements move those, so that backends need not know such dtypes.
 *
 * @module
 */
import { DEQUANTIZE_ADVICE, type DTypeInfo } from "../base/dtype.ts";
import { DTypeError, ShapeError } from "../base/errors.ts";
import { Layout } from "../base/layout.ts";
import { OFFSETS, OPERANDS, Plan, planMap, RANK } from "../base/plan.ts";
import { formatShape } from "../base/shape.ts";
import type { Operand } from "../memory/operand.ts";
import type { Call } from "../table/op.ts";

/** Throws unless the last axis of `shape` has whole blocks of `info`. */
export function checkWholeBlocks(
  { name: dtype, block }: DTypeInfo,
  shape: readonly number[],
  name: string,
): void {
  if (block === 1 || shape.includes(0)) return;
  if (shape.length === 0 || shape.at(-1)! % block !== 0) {
    throw new ShapeError(
      `Cannot ${name} shape ${
        formatShape(shape)
      } of ${dtype}: the last axis has blocks of ${block} elements`,
    );
  }
}

/**
 * The lanes of `x`: as a new last axis or, where elements share blocks, along the last axis.
 *
 * Throws a DTypeError for a view that cuts through blocks.
 */
export function lanesOf({ storage, layout, flags }: Operand, name: string): Operand {
  const { info: { block, lanes, name: dtype } } = storage;
  const { shape, strides, offset } = layout;
  if (block === 1) {
    const expanded = new Layout(
      [...shape, lanes],
      [...strides.map((stride) => stride * lanes), 1],
      offset * lanes,
    );
    return { storage: storage.lanes, layout: expanded, flags };
  }
  const last = shape.length - 1;
  const whole = layout.size === 0 ||
    shape.length > 0 && strides[last] === 1 && shape[last]! % block === 0 && offset % block === 0 &&
      strides.every((stride, axis) => axis === last || shape[axis] === 1 || stride % block === 0);
  if (!whole) {
    throw new DTypeError(
      `Cannot ${name} shape ${formatShape(shape)} with strides ${
        formatShape(strides)
      } of ${dtype}: ` +
        `the view cuts through blocks of ${block} elements`,
    );
  }
  const inLanes = (n: number): number => n / block * lanes;
  const expanded = new Layout(
    shape.map((n, axis) => axis === last ? inLanes(n) : n),
    strides.map((stride, axis) => axis === last ? 1 : inLanes(stride)),
    inLanes(offset),
  );
  return { storage: storage.lanes, layout: expanded, flags };
}

/** The real parts (`k` = 0) or the imaginary ones (`k` = 1) of a complex operand, as floats. */
export function partOf({ storage, layout, flags }: Operand, k: 0 | 1): Operand {
  const { shape, strides, offset, size } = layout;
  const doubled: number[] = [];
  for (let i = 0; i < strides.length; i++) doubled.push(2 * strides[i]!);
  const part = new Layout(shape, doubled, 2 * offset + k, size);
  return { storage: storage.lanes, layout: part, flags };
}

const pairs = new Plan();
let planned: Layout | null = null;

/** The plan of operands with one layout of rank 1, which stays if they are as before. */
function planPairs(layout: Layout, operands: number): Plan {
  if (layout === planned && operands === pairs.operands) return pairs;
  planned = layout;
  const { shape, strides, offset, size } = layout;
  const { data } = pairs;
  data[RANK] = pairs.rank = 1;
  data[OPERANDS] = pairs.operands = operands;
  pairs.size = size;
  pairs.needsInt64Index = 2 * size + offset >= 2 ** 30;
  data.fill(offset, OFFSETS, OFFSETS + operands);
  data[OFFSETS + operands] = shape[0]!;
  data.fill(strides[0]!, OFFSETS + operands + 1, OFFSETS + 2 * operands + 1);
  return pairs;
}

/** The plan of a call of `complexMap`: its positions are those of real parts. */
export function planComplex({ inputs }: Call): Plan {
  const out = inputs[0] as Operand, x = inputs[1] as Operand;
  const y = inputs.length > 2 ? inputs[2] as Operand : undefined;
  const { layout } = out;
  if (
    layout.shape.length === 1 && layout === x.layout && (y === undefined || layout === y.layout)
  ) return planPairs(layout, inputs.length);
  return planMap(out.layout, x.layout, y === undefined ? null : y.layout, null);
}

/** Throws a DTypeError for indices along an axis whose elements share blocks. */
export function checkMoves(
  { inputs, name, attributes }: Call,
  { name: dtype, block }: DTypeInfo,
): void {
  const { axis } = (attributes ?? {}) as { readonly axis?: number };
  if (block === 1 || axis === undefined) return;
  if (axis !== (inputs[0] as Operand).layout.shape.length - 1) return;
  throw new DTypeError(
    `Cannot ${name} along the last axis of ${dtype}: ${block} elements share a block; ` +
      DEQUANTIZE_ADVICE,
  );
}

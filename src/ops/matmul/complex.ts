/**
 * Products of complex matrices, as one product of floats that is twice as large: no other kernel
 * needs to know complex numbers.
 *
 * [M, K] as floats is [M, 2K]. Times a matrix whose rows are those of [K, N] and, after each, that
 * row times i, it is the product [M, 2N] as floats.
 *
 * @module
 */
import { realOf } from "../../base/dtype.ts";
import { Layout } from "../../base/layout.ts";
import { copyInto, copyOf, dispatch } from "../../core/dispatch.ts";
import { lanesOf, partOf } from "../../core/lanes.ts";
import { newOutput } from "../../core/write.ts";
import { allocateIn } from "../../memory/device.ts";
import type { Operand } from "../../memory/operand.ts";
import { recycle } from "../../memory/pool.ts";
import type { Op, OutputSpec } from "../../table/op.ts";
import { MAP } from "../../table/table.ts";

/** `x` with rows of floats instead of rows of complex numbers, or such a copy. */
function rowsOfFloats(x: Operand): { rows: Operand; copied: boolean } {
  const { shape, strides } = x.layout;
  const last = shape.length - 1;
  const copied = strides[last] !== 1 && shape[last] !== 1;
  const { storage, layout } = copied ? copyOf(x) : x;
  const rows = new Layout(
    shape.map((n, axis) => axis === last ? 2 * n : n),
    layout.strides.map((stride, axis) => axis === last ? 1 : 2 * stride),
    2 * layout.offset,
  );
  return { rows: { storage: copied ? storage : storage.lanes, layout: rows, flags: 0 }, copied };
}

/** `x` as an operand of the dtype of its lanes. */
function asLanes({ storage, layout }: Operand): Operand {
  return { storage: storage.info.lane === null ? storage : storage.lanes, layout, flags: 0 };
}

/** The rows of `x`, [..., K, N], each with that row times i after it, as floats: [..., 2K, 2N]. */
function withTurnedRows(x: Operand): Operand {
  const { shape } = x.layout;
  const [k, n] = [shape.at(-2)!, shape.at(-1)!];
  const batch = shape.slice(0, -2);
  const own = Layout.contiguous([...batch, k, 2, n, 2]);
  const storage = allocateIn(x.storage.memory, realOf(x.storage.info), own.size, false);
  const rank = batch.length;
  const turned = (row: 0 | 1): Layout => own.sliceAxis(rank + 1, row, 1, 1).squeeze(rank + 1);
  const part = (layout: Layout, lane: 0 | 1): Operand => ({
    storage,
    layout: layout.sliceAxis(rank + 2, lane, 1, 1).squeeze(rank + 2),
    flags: 0,
  });
  copyInto({ storage, layout: turned(0), flags: 0 }, lanesOf(x, "matmul"));
  dispatch(MAP.neg, [partOf(x, 1)], undefined, part(turned(1), 0));
  copyInto(part(turned(1), 1), partOf(x, 0));
  return { storage, layout: Layout.contiguous([...batch, 2 * k, 2 * n]), flags: 0 };
}

/** A vector as a matrix of one row, or of one column. */
function asMatrix(x: Operand, column: boolean): Operand {
  const { storage, layout, flags } = x;
  if (layout.shape.length > 1) return x;
  return { storage, layout: layout.expandDims(column ? 1 : 0, "matmul"), flags };
}

/** The product of `a`, complex or of floats of the same precision, and `b`, complex; both not empty. */
export function complexProduct(
  op: Op,
  a: Operand,
  b: Operand,
  spec: OutputSpec,
  name: string,
): Operand {
  const [left, right] = [asMatrix(a, false), asMatrix(b, true)];
  const made = newOutput(spec, a.storage);
  const { shape } = made.layout;
  const [m, n] = [left.layout.shape.at(-2)!, right.layout.shape.at(-1)!];
  const vectors = (a === left ? 0 : 1) + (b === right ? 0 : 1);
  const batch = shape.slice(0, shape.length - 2 + vectors);
  const out: Operand = {
    storage: made.storage.lanes,
    layout: Layout.contiguous([...batch, m, 2 * n]),
    flags: 0,
  };
  const complex = a.storage.info.kind === "c";
  const first = complex ? rowsOfFloats(left) : { rows: left, copied: false };
  const second = complex ? { rows: withTurnedRows(right), copied: true } : rowsOfFloats(right);
  dispatch(op, [asLanes(first.rows), asLanes(second.rows)], undefined, out, name);
  for (const { rows, copied } of [first, second]) if (copied) recycle(rows.storage);
  return made;
}

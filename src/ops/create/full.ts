/**
 * Tensors of one value, and ones on a diagonal: the ops.
 *
 * @module
 */
import { checkScalar, type Complex, DTYPE, type DType, type Scalar } from "../../base/dtype.ts";
import { Layout } from "../../base/layout.ts";
import { checkShape } from "../../base/shape.ts";
import { applyCreate } from "../../core/apply.ts";
import { fillWith, memoryOf } from "../../core/dispatch.ts";
import { wrap } from "../../core/handles.ts";
import { checkWholeBlocks } from "../../core/lanes.ts";
import { allocateIn } from "../../memory/device.ts";
import type { Operand } from "../../memory/operand.ts";
import { takePooled } from "../../memory/pool.ts";
import { type Call, type CreateOp, makeOp, type OutputSpec } from "../../table/op.ts";

/** Attributes of a tensor of one value. */
interface FullAttributes {
  /** Checked, and owned by the call. */
  readonly shape: number[];
  readonly value: Scalar | Complex;
  readonly dtype: DType;
  readonly device?: string | undefined;
}

/** From this size on, a backend sets reused memory to zeros. */
const LARGE_ZEROS = 1 << 15;

/** A tensor of one value. */
const FULL: CreateOp = makeOp({
  kind: "create",
  name: "full",
  infer({ attributes }: Call): readonly OutputSpec[] {
    const { shape, dtype } = attributes as FullAttributes;
    return [{ shape, dtype: DTYPE[dtype] }];
  },
  create(attributes: unknown, name: string): Operand {
    const { shape, value, dtype, device } = attributes as FullAttributes;
    const memory = memoryOf(device, `${name} on`);
    const layout = Layout.contiguous(shape);
    checkScalar(dtype, value, name);
    const info = DTYPE[dtype];
    checkWholeBlocks(info, layout.shape, name);
    const zero = value === 0 && !Object.is(value, -0) || value === false;
    const { size } = layout;
    // New memory is zeroed already; a backend zeroes large reused memory faster.
    const pooled = zero && size >= LARGE_ZEROS && memory === null
      ? takePooled(info, size)
      : undefined;
    const storage = pooled ?? allocateIn(memory, info, size, zero);
    if (!zero || pooled !== undefined) fillWith({ storage, layout, flags: 0 }, value);
    return wrap(storage, layout);
  },
});

/** A tensor of `value`, whose dtype is checked. Throws a ShapeError for a bad shape. */
export function fullOperand(
  name: string,
  shape: unknown,
  value: Scalar | Complex,
  dtype: DType,
  device?: string,
): Operand {
  return applyCreate(FULL, { shape: checkShape(shape, name), value, dtype, device }, name);
}

/** Ones on a diagonal. */
export const EYE: CreateOp = makeOp({
  kind: "create",
  name: "eye",
  infer: FULL.infer,
  create(attributes: unknown, name: string): Operand {
    const { k, ...rest } = attributes as { k: number } & Omit<FullAttributes, "value">;
    checkScalar(rest.dtype, 1, name);
    const made = FULL.create({ ...rest, value: 0 }, name);
    fillWith({ storage: made.storage, layout: made.layout.diagonal(k), flags: 0 }, 1);
    return made;
  },
});

/**
 * Weights of signed bytes, with a scale for each block of a row: packed once, for products that round
 * rows of x to 8 bits too.
 *
 * @module
 */
import { DTYPE } from "../../base/dtype.ts";
import { DTypeError, ShapeError } from "../../base/errors.ts";
import { formatShape } from "../../base/shape.ts";
import { dispatch } from "../../core/dispatch.ts";
import { converted } from "../../core/prepare.ts";
import { int8Shape } from "./panels.ts";
import type { Operand } from "../../memory/operand.ts";
import { checkOperand } from "../../table/infer.ts";
import { type Call, makeOp, type Op, type OutputSpec } from "../../table/op.ts";
import { type AnyPackedWeight, PackedWeight } from "./packed_weight.ts";

/** A float32 weight [O, I] as groups of rows of int8; see {@link int8Shape}. */
const QUANTIZE_INT8: Op = makeOp({
  kind: "kernel",
  name: "quantizeInt8",
  contiguous: [0],
  infer(call: Call): readonly OutputSpec[] {
    const { inputs: [w], name } = call;
    checkOperand(w, name);
    const { storage: { info }, layout: { shape } } = w;
    if (info.kind !== "f") {
      throw new DTypeError(`Cannot ${name} ${info.name} to int8: it takes floats`);
    }
    if (shape.length !== 2) {
      throw new ShapeError(
        `Cannot ${name} shape ${formatShape(shape)} to int8: it takes a weight of shape [O, I]`,
      );
    }
    return call.result(int8Shape(shape[0]!, shape[1]!), DTYPE.int8);
  },
  prepare(call: Call) {
    const w = call.operand(0);
    return w.storage.info === DTYPE.float32 ? null : { inputs: [converted(w, DTYPE.float32)] };
  },
});

interface Int8Sizes {
  readonly columns: number;
  readonly depth: number;
}

/** The numbers of a weight of int8: float32 [O, I]. */
const DEQUANTIZE_INT8: Op = makeOp({
  kind: "kernel",
  name: "dequantizeInt8",
  contiguous: [0],
  infer(call: Call): readonly OutputSpec[] {
    const { columns, depth } = call.attributes as Int8Sizes;
    return call.result([columns, depth], DTYPE.float32);
  },
});

/** The numbers of a weight of int8, as float32. */
export function dequantizeInt8(groups: Operand, columns: number, depth: number): Operand {
  const sizes: Int8Sizes = { columns, depth };
  return dispatch(DEQUANTIZE_INT8, [groups], sizes, undefined, "linear");
}

/**
 * A float weight [O, I] as a packed weight of int8. Each block of a row has a scale, its largest size
 * over 127; a row with NaN or an infinity gives NaN.
 */
export function quantizeInt8(w: Operand): AnyPackedWeight {
  const { layout } = w;
  const groups = dispatch(QUANTIZE_INT8, [w], undefined, undefined, "quantize");
  return new PackedWeight(groups, layout.frozenShape);
}

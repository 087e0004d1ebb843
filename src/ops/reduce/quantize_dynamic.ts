/**
 * Floats rounded to unsigned bytes by their own smallest and largest element, as ONNX's
 * DynamicQuantizeLinear defines it.
 *
 * @module
 */
import { DTYPE } from "../../base/dtype.ts";
import { DTypeError, ShapeError } from "../../base/errors.ts";
import { formatShape } from "../../base/shape.ts";
import { apply } from "../../core/apply.ts";
import { cast } from "../../core/copy.ts";
import { dispatchAll } from "../../core/dispatch.ts";
import { converted } from "../../core/prepare.ts";
import type { Operand } from "../../memory/operand.ts";
import { checkOperand } from "../../table/infer.ts";
import { type Call, makeOp, type Op } from "../../table/op.ts";
import { MAP, REDUCE } from "../../table/table.ts";
import { reduce } from "./op.ts";

/** The largest byte. */
const MOST = 255;

/** Floats as bytes: x is about (bytes − zero) · scale. */
export interface RoundedBytes {
  /** uint8 of the shape of x. */
  readonly bytes: Operand;
  /** float32. */
  readonly scale: Operand;
  /** uint8. */
  readonly zero: Operand;
}

/**
 * float32 x as bytes, with a scale and a zero point for all of it, or for each run along an axis, which
 * has one element then. The range of the bytes includes 0; NaN gives 0.
 */
export function roundToBytes(x: Operand, axis?: number): RoundedBytes {
  const options = { keepDims: axis !== undefined };
  const [least, most] = [REDUCE.min, REDUCE.max].map((op) => reduce(op, x, axis, options));
  const low = apply(MAP.minimum, least!, 0);
  const scale = apply(MAP.div, apply(MAP.sub, apply(MAP.maximum, most!, 0), low), MOST);
  // All zeros: any divisor is right.
  const divisor = apply(MAP.add, scale, cast(apply(MAP.equal, scale, 0), "float32"));
  const whole = apply(MAP.clip, apply(MAP.div, apply(MAP.neg, low), divisor), 0, MOST);
  const zero = cast(apply(MAP.round, whole), "uint8");
  const steps = apply(MAP.round, apply(MAP.div, x, divisor));
  const moved = apply(MAP.clip, apply(MAP.add, steps, cast(zero, "float32")), 0, MOST);
  return { bytes: cast(moved, "uint8"), scale, zero };
}

/** Inputs: floats. Outputs: bytes of the same shape, their scale, float32, and zero point. */
const QUANTIZE_DYNAMIC: Op = makeOp({
  kind: "kernel",
  name: "quantizeDynamic",
  contiguous: [0],
  infer(call: Call) {
    const { inputs: [x], name } = call;
    checkOperand(x, name);
    const { storage: { info }, layout: { shape } } = x;
    if (info.kind !== "f") {
      throw new DTypeError(`Cannot ${name} ${info.name} to bytes: it takes floats`);
    }
    if (shape.includes(0)) {
      throw new ShapeError(`Cannot ${name} shape ${formatShape(shape)}: it has no elements`);
    }
    return [
      { shape, dtype: DTYPE.uint8 },
      { shape: [], dtype: DTYPE.float32 },
      { shape: [], dtype: DTYPE.uint8 },
    ];
  },
  prepare(call: Call) {
    const x = call.operand(0);
    return x.storage.info === DTYPE.float32 ? null : { inputs: [converted(x, DTYPE.float32)] };
  },
  decompose(call: Call): Operand[] {
    const x = cast(call.operand(0), "float32");
    const { bytes, scale, zero } = roundToBytes(x);
    return [bytes, scale, zero];
  },
});

/**
 * Floats as bytes with a scale and a zero point for all of them; 16-bit floats and float64 as float32.
 */
export function quantizeDynamic(name: string, x: Operand): RoundedBytes {
  const [bytes, scale, zero] = dispatchAll(QUANTIZE_DYNAMIC, [x], undefined, name);
  return { bytes: bytes!, scale: scale!, zero: zero! };
}

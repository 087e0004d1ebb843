/**
 * The numbers of quantized tensors, and quantized tensors of numbers.
 *
 * Backends get the bytes of blocks, as tensors of uint8, and the name of the format.
 *
 * @module
 */
import { DTYPE } from "../../base/dtype.ts";
import { ArgumentError, DTypeError, ShapeError } from "../../base/errors.ts";
import { formatShape } from "../../base/shape.ts";
import { describe } from "../../base/text.ts";
import type { OpOptions } from "../../core/apply.ts";
import { dispatch } from "../../core/dispatch.ts";
import { lanesOf } from "../../core/lanes.ts";
import { converted } from "../../core/prepare.ts";
import type { Operand } from "../../memory/operand.ts";
import { checkOperand, checkOptions } from "../../table/infer.ts";
import { type Call, makeOp, type Op, type OutputSpec } from "../../table/op.ts";
import { quantFormatOf } from "./dtypes.ts";
import { ENCODED, type EncodedName } from "./encode.ts";
import { QUANT, type QuantFormat, type QuantName } from "./formats.ts";

/** The format of a tensor; throws a DTypeError for one that is not quantized. */
function formatOf({ storage: { info } }: Operand, name: string): QuantFormat {
  const format = quantFormatOf(info);
  if (format !== undefined) return format;
  throw new DTypeError(
    `Cannot ${name} ${info.name}: it takes ${Object.keys(QUANT).join(", ")}`,
  );
}

/** The float32 of bytes of blocks [..., bytes], which are contiguous: [..., elements]. */
const DEQUANTIZE_BLOCKS: Op = makeOp({
  kind: "kernel",
  name: "dequantizeBlocks",
  contiguous: [0],
  infer(call: Call): readonly OutputSpec[] {
    const { size, bytes } = QUANT[(call.attributes as { readonly format: QuantName }).format];
    const { shape } = call.operand(0).layout;
    return call.result([...shape.slice(0, -1), shape.at(-1)! / bytes * size], DTYPE.float32);
  },
});

/** The numbers of a quantized tensor. */
export const DEQUANTIZE: Op = makeOp({
  kind: "kernel",
  name: "dequantize",
  infer(call: Call): readonly OutputSpec[] {
    const { inputs: [x], name } = call;
    checkOperand(x, name);
    formatOf(x, name);
    return call.result(x.layout.shape, DTYPE.float32);
  },
  decompose(call: Call): Operand {
    const { name } = call;
    const x = call.operand(0);
    const { name: format } = formatOf(x, name);
    return dispatch(DEQUANTIZE_BLOCKS, [lanesOf(x, name)], { format }, undefined, name);
  },
});

/** The numbers of a quantized tensor, as float32. */
export function dequantize(x: Operand): Operand {
  return dispatch(DEQUANTIZE, [x]);
}

/** Floats [..., n] as blocks of a format; kernels take float32. */
const QUANTIZE: Op = makeOp({
  kind: "kernel",
  name: "quantize",
  contiguous: [0],
  infer(call: Call): readonly OutputSpec[] {
    const { inputs: [x], name } = call;
    const { format } = call.attributes as { readonly format: EncodedName };
    checkOperand(x, name);
    const { storage: { info }, layout: { shape } } = x;
    if (info.kind !== "f") {
      throw new DTypeError(`Cannot ${name} ${info.name} to ${format}: it takes floats`);
    }
    const { size } = QUANT[format];
    if (shape.length === 0 || shape.at(-1)! % size !== 0) {
      throw new ShapeError(
        `Cannot ${name} shape ${formatShape(shape)} to ${format}: ` +
          `the last axis must be a multiple of ${size} elements`,
      );
    }
    return call.result(shape, DTYPE[format]);
  },
  prepare(call: Call) {
    const x = call.operand(0);
    return x.storage.info === DTYPE.float32 ? null : { inputs: [converted(x, DTYPE.float32)] };
  },
});

/** `x` in blocks of a format. */
export function quantize(x: Operand, format: string, options: OpOptions = {}): Operand {
  checkOptions("quantize", options, ["out"]);
  if (!ENCODED.includes(format as EncodedName)) {
    throw new ArgumentError(
      `Cannot quantize to ${describe(format)}: it takes ${ENCODED.join(", ")} and int8`,
    );
  }
  return dispatch(QUANTIZE, [x], { format }, options.out);
}

/**
 * The numbers of quantized tensors.
 *
 * Backends get the bytes of blocks, as tensors of uint8, and the name of the format.
 *
 * @module
 */
import { DTYPE } from "../../base/dtype.ts";
import { DTypeError } from "../../base/errors.ts";
import { onCpu, toDevice } from "../../core/copy.ts";
import { dispatch } from "../../core/dispatch.ts";
import { lanesOf } from "../../core/lanes.ts";
import type { Operand } from "../../memory/operand.ts";
import { checkOperand } from "../../ops/infer.ts";
import { type Call, makeOp, type Op, type OutputSpec } from "../../ops/op.ts";
import { quantFormatOf } from "../../quant/dtypes.ts";
import { QUANT, type QuantFormat, type QuantName } from "../../quant/formats.ts";

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
  decompose(call: Call): Operand {
    // Devices without a kernel.
    const { attributes, name } = call;
    const lanes = call.operand(0);
    return onCpu(
      lanes,
      (here) =>
        toDevice(
          dispatch(DEQUANTIZE_BLOCKS, [here], attributes, undefined, name),
          lanes.storage.device,
        ),
    );
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

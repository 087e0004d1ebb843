/**
 * The kernels of blocks of quantized weights.
 *
 * @module
 */
import { DTYPE } from "../../base/dtype.ts";
import { QUANT, type QuantName } from "../../ops/quantized/formats.ts";
import { checkRun } from "../ffi/checks.ts";
import { always, type Kernel } from "./kernel.ts";

const dequantizeBlocks: Kernel = {
  supports: always,
  prepare(call) {
    const { format } = call.attributes as { readonly format: QuantName };
    const { type, size } = QUANT[format];
    const [blocks, out] = [call.operand(0), call.outputs[0]!];
    for (const [i, { storage, layout: { offset, size } }] of [out, blocks].entries()) {
      checkRun("dequantizeBlocks", i, offset, size, storage);
    }
    const numbers = Float64Array.of(
      type,
      out.layout.size / size,
      out.layout.offset,
      blocks.layout.offset,
    );
    return { numbers, out: out.storage, a: blocks.storage };
  },
};

const quantize: Kernel = {
  supports: (call) => call.operand(0).storage.info === DTYPE.float32,
  prepare(call) {
    const { format } = call.attributes as { readonly format: QuantName };
    const { type, size, bytes } = QUANT[format];
    const [x, out] = [call.operand(0), call.outputs[0]!];
    for (const [i, { storage, layout: { offset, size } }] of [out, x].entries()) {
      checkRun("quantize", i, offset, size, storage);
    }
    const numbers = Float64Array.of(
      type,
      x.layout.size / size,
      out.layout.offset / size * bytes,
      x.layout.offset,
    );
    return { numbers, out: out.storage.lanes, a: x.storage };
  },
};

/** The kernels by the names of their ops. */
export const QUANTIZED_KERNELS: Readonly<Record<string, Kernel>> = {
  dequantizeBlocks,
  quantize,
};

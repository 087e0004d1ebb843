/**
 * The numbers of blocks in JavaScript: the definition.
 *
 * @module
 */
import type { Call } from "../../ops/op.ts";
import { QUANT, type QuantName } from "../../quant/formats.ts";

/** Writes the numbers of blocks. */
export function dequantizeBlocks(call: Call): void {
  const { format } = call.attributes as { readonly format: QuantName };
  const { size, bytes, decode } = QUANT[format];
  const { storage: { array: from }, layout } = call.operand(0);
  const { storage: { array: to }, layout: { offset } } = call.outputs[0]!;
  for (let block = 0; block * bytes < layout.size; block++) {
    decode(
      from as Uint8Array,
      layout.offset + block * bytes,
      to as Float32Array,
      offset + block * size,
    );
  }
}

/**
 * The numbers of blocks, and the blocks of numbers, in JavaScript: the definition.
 *
 * @module
 */
import { DTYPE } from "../../base/dtype.ts";
import type { PackBlocksAttributes } from "../../ops/linear/panels.ts";
import type { Call } from "../../table/op.ts";
import { encode, type EncodedName } from "../../ops/quantized/encode.ts";
import { QUANT, type QuantName } from "../../ops/quantized/formats.ts";
import { eachPiece } from "../../ops/quantized/groups.ts";

/** The bytes of rows of blocks as those of groups, or the other way round. */
export function packBlocks(call: Call): void {
  const { format, rows, unpacks } = call.attributes as PackBlocksAttributes;
  const [from, out] = [call.operand(0), call.outputs[0]!];
  const source = from.storage.array as Uint8Array, target = out.storage.array as Uint8Array;
  const [at, to] = [from.layout.offset, out.layout.offset];
  if (!unpacks) target.fill(0, to, to + out.layout.size);
  const blocks = rows === 0 ? 0 : (unpacks ? out : from).layout.size / rows / QUANT[format].bytes;
  eachPiece(format, rows, blocks, (inRows, inGroups, bytes) => {
    const [read, written] = unpacks ? [inGroups, inRows] : [inRows, inGroups];
    for (let i = 0; i < bytes; i++) target[to + written + i] = source[at + read + i]!;
  });
}

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

/** Whether {@link quantize} can run the call. */
export function isQuantizeCall(call: Call): boolean {
  return call.operand(0).storage.info === DTYPE.float32;
}

/** Writes the blocks of numbers. */
export function quantize(call: Call): void {
  const { format } = call.attributes as { readonly format: EncodedName };
  const { size, bytes } = QUANT[format];
  const { storage: { array: from }, layout } = call.operand(0);
  const { storage: { array: to }, layout: { offset } } = call.outputs[0]!;
  const begin = offset / size * bytes;
  encode(format, from as Float32Array, layout.offset, layout.size, to as Uint8Array, begin);
}

/**
 * GGUF files in another format: for models that are only there in one.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { readFileSync } from "node:fs";
import { type AnyTensor, quantize } from "../../mod.ts";
import * as nn from "../../src/nn/mod.ts";
import { parseGguf } from "../../src/io/gguf.ts";
import { QUANT, type QuantName } from "../../src/ops/quantized/formats.ts";
import { type GgufTensor, writeGguf } from "./gguf.ts";

const FLOAT32 = 0;
/** Where metadata begins. */
const HEAD = 24;
/** The numbers of formats in `general.file_type`. */
const FILE_TYPES = { q4_0: 2, q8_0: 7 } as const;

/** The place of an UTF-8 text with its length before it, after the head; -1 without it. */
function findText(bytes: Uint8Array, text: string): number {
  const wanted = new Uint8Array(8 + text.length);
  new DataView(wanted.buffer).setBigUint64(0, BigInt(text.length), true);
  wanted.set(new TextEncoder().encode(text), 8);
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).indexOf(wanted, HEAD);
}

/**
 * The GGUF file at `path`, with its tensors of dtype `from` in the format `to`, made of their numbers.
 * Everything else is the same.
 */
export async function requantize(
  path: string,
  from: QuantName,
  to: keyof typeof FILE_TYPES,
): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = new Uint8Array(readFileSync(path));
  const { tensors, metadata } = parseGguf(bytes, bytes.length, path)!;
  const [first] = tensors.keys();
  // Tensors come right after metadata.
  const values = bytes.slice(HEAD, findText(bytes, first!));
  const typeKey = "general.file_type";
  const typeAt = findText(bytes, typeKey);
  // After the key comes the type of the value.
  if (typeAt >= 0) values[typeAt - HEAD + 8 + typeKey.length + 4] = FILE_TYPES[to];
  using weights = await nn.open(bytes);
  const made = Array.from(tensors.keys(), (name): GgufTensor => {
    const x = weights.tensor(name) as AnyTensor;
    const dtype = x.dtype as string;
    if (dtype !== from) {
      const type = dtype === "float32" ? FLOAT32 : QUANT[dtype as QuantName].type;
      return { name, type, shape: x.shape, bytes: bytesOf(x) };
    }
    using plain = x.dequantize();
    using blocks = quantize(plain, to);
    return { name, type: QUANT[to].type, shape: x.shape, bytes: bytesOf(blocks) };
  });
  return writeGguf(values, metadata.keys().length, made);
}

function bytesOf(x: AnyTensor): Uint8Array {
  const { buffer, byteOffset, byteLength } = x.toTypedArray();
  return new Uint8Array(buffer as ArrayBuffer, byteOffset, byteLength);
}

/**
 * MXFP4: blocks of 32 numbers of 4 bits with an exponent of 8 bits for all of them, as the Open Compute
 * Project defines them. They are read as bfloat16, which has all of their numbers.
 *
 * @module
 */

/** The name of the type in GGUF files. */
export const MXFP4 = "MXFP4";
/** The numbers of a block, and its bytes in GGUF files: the exponent first. */
export const MXFP4_SIZE = 32, MXFP4_BYTES = 17;

/** The numbers of 4 bits without their sign. */
const NUMBERS: readonly number[] = [0, 0.5, 1, 1.5, 2, 3, 4, 6];
const EXPONENT_BIAS = 127, NO_NUMBER = 255;

const tables = new Map<number, Float32Array>();

/** The 16 numbers that 4 bits stand for, by the exponent's byte. */
export function mxfp4Numbers(exponent: number): Float32Array {
  let table = tables.get(exponent);
  if (table === undefined) {
    const scale = exponent === NO_NUMBER ? NaN : 2 ** (exponent - EXPONENT_BIAS);
    table = Float32Array.from({ length: 16 }, (_, i) => {
      const number = NUMBERS[i & 7]! * scale;
      return i < 8 ? number : -number;
    });
    tables.set(exponent, table);
  }
  return table;
}

const bitTables = new Map<number, Uint16Array>();

/** {@link mxfp4Numbers} as bits of bfloat16. */
function bitsOf(exponent: number): Uint16Array {
  let table = bitTables.get(exponent);
  if (table === undefined) {
    const words = new Uint32Array(mxfp4Numbers(exponent).slice().buffer);
    bitTables.set(exponent, table = Uint16Array.from(words, (word) => word >>> 16));
  }
  return table;
}

/** Writes the numbers of whole blocks of a GGUF file to `into`, as bits of bfloat16. */
function unpackBlocks(blocks: Uint8Array, into: Uint16Array): void {
  const half = MXFP4_SIZE / 2;
  for (let from = 0, to = 0; from < blocks.length; from += MXFP4_BYTES, to += MXFP4_SIZE) {
    const table = bitsOf(blocks[from]!);
    for (let i = 0; i < half; i++) {
      const both = blocks[from + 1 + i]!;
      into[to + i] = table[both & 15]!;
      into[to + i + half] = table[both >> 4]!;
    }
  }
}

/** The blocks that are read at a time. */
const BLOCKS = 2 ** 16;

/**
 * Writes the numbers of a tensor of a GGUF file, which begins at `begin`, to `into`, the bytes of
 * bfloat16.
 */
export function fillFromMxfp4(
  read: (begin: number, into: Uint8Array) => void,
  begin: number,
  into: Uint8Array,
): void {
  const bits = new Uint16Array(into.buffer, into.byteOffset, into.length / 2);
  const buffer = new Uint8Array(Math.min(BLOCKS, bits.length / MXFP4_SIZE) * MXFP4_BYTES);
  for (let done = 0; done < bits.length;) {
    const count = Math.min(BLOCKS, (bits.length - done) / MXFP4_SIZE);
    const blocks = buffer.subarray(0, count * MXFP4_BYTES);
    read(begin + done / MXFP4_SIZE * MXFP4_BYTES, blocks);
    unpackBlocks(blocks, bits.subarray(done, done + count * MXFP4_SIZE));
    done += count * MXFP4_SIZE;
  }
}

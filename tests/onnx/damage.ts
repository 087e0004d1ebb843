/**
 * Damaged ONNX files: changes of the bytes of small models, drawn by a generator of random numbers.
 *
 * @module
 */

/** Numbers of a linear congruential generator: integers from 0 to below a bound. */
export class Draws {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  below(bound: number): number {
    this.#state = (Math.imul(this.#state, 1664525) + 1013904223) >>> 0;
    return Math.floor(this.#state / 2 ** 32 * bound);
  }
}

/** A varint of 10 bytes, which is larger than all sizes, and one of -1. */
const HUGE = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
const MINUS_ONE = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];

const CHANGES: readonly ((bytes: number[], draws: Draws) => number[])[] = [
  // The end is missing.
  (bytes, draws) => bytes.slice(0, draws.below(bytes.length)),
  // The beginning is missing.
  (bytes, draws) => bytes.slice(draws.below(bytes.length)),
  // A bit is another one.
  (bytes, draws) => {
    const at = draws.below(bytes.length);
    return bytes.with(at, bytes[at]! ^ 1 << draws.below(8));
  },
  // A byte is another one.
  (bytes, draws) => bytes.with(draws.below(bytes.length), draws.below(256)),
  // Several bytes are other ones.
  (bytes, draws) => {
    const made = [...bytes];
    for (let k = 0; k < 8; k++) made[draws.below(made.length)] = draws.below(256);
    return made;
  },
  // A number is huge or negative.
  (bytes, draws) => bytes.toSpliced(draws.below(bytes.length), 1, ...HUGE),
  (bytes, draws) => bytes.toSpliced(draws.below(bytes.length), 1, ...MINUS_ONE),
  // Bytes are missing, or there twice.
  (bytes, draws) => bytes.toSpliced(draws.below(bytes.length), 1 + draws.below(16)),
  (bytes, draws) => {
    const [from, to] = [draws.below(bytes.length), draws.below(bytes.length)];
    return bytes.toSpliced(to, 0, ...bytes.slice(from, from + 1 + draws.below(64)));
  },
  // A part of zeros.
  (bytes, draws) => {
    const from = draws.below(bytes.length);
    return bytes.map((byte, i) => i >= from && i < from + 8 ? 0 : byte);
  },
];

/** The `k`-th damaged file of a model. */
export function damaged(bytes: Uint8Array, k: number): Uint8Array<ArrayBuffer> {
  const draws = new Draws(k * 7919 + bytes.length);
  return Uint8Array.from(CHANGES[k % CHANGES.length]!([...bytes], draws));
}

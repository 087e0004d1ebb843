/**
 * Groups: the blocks of 16 rows of a quantized weight, interleaved so that kernels read the same part
 * of all of them at once. A packed weight consists of groups; it has the bytes of the rows, and zeros
 * for those that the last group lacks.
 *
 * A group has the blocks of its rows in order, and in the place of the first blocks of all rows their
 * pieces: the first pieces of all rows, then the second ones. shim/cpu/quant/quant_formats.h has the
 * same.
 *
 * @module
 */
import type { QuantName } from "./formats.ts";

/** The rows of a group. */
export const GROUP_ROWS = 16;

/** `count` pieces of `bytes` bytes. */
type Run = readonly [bytes: number, count: number];

/** The pieces of a block of each format. */
const PIECES: Readonly<Record<QuantName, readonly Run[]>> = {
  q4_0: [[2, 1], [4, 4]],
  q4_1: [[2, 2], [4, 4]],
  q5_0: [[2, 1], [4, 5]],
  q5_1: [[2, 2], [4, 5]],
  q8_0: [[2, 1], [4, 8]],
  q4_k: [[2, 2], [1, 12], [4, 32]],
  q5_k: [[2, 2], [1, 12], [4, 40]],
  q6_k: [[4, 48], [1, 16], [2, 1]],
  iq4_nl: [[2, 1], [4, 4]],
};

/** The shape of a weight of [columns, depth] as groups. */
export function groupsShape(columns: number, depth: number): number[] {
  return [Math.ceil(columns / GROUP_ROWS), GROUP_ROWS, depth];
}

/**
 * Calls `move` for each piece of `rows` rows of `blocks` blocks: its place in the rows and in the
 * groups, and its bytes.
 */
export function eachPiece(
  format: QuantName,
  rows: number,
  blocks: number,
  move: (inRows: number, inGroups: number, bytes: number) => void,
): void {
  const runs = PIECES[format];
  const blockBytes = runs.reduce((sum, [bytes, count]) => sum + bytes * count, 0);
  for (let row = 0; row < rows; row++) {
    const within = row % GROUP_ROWS;
    for (let block = 0; block < blocks; block++) {
      let inRows = (row * blocks + block) * blockBytes;
      let inGroups = ((row - within) * blocks + block * GROUP_ROWS) * blockBytes;
      for (const [bytes, count] of runs) {
        for (let i = 0; i < count; i++) {
          move(inRows, inGroups + within * bytes, bytes);
          inRows += bytes;
          inGroups += bytes * GROUP_ROWS;
        }
      }
    }
  }
}

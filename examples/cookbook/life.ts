/**
 * Conway's game of life, on a board whose edges meet.
 *
 * @module
 */
import { scope, type Tensor } from "../../mod.ts";

/** The board, uint8 [h, w] of 0 and 1, some generations later. */
export function life(board: Tensor<"uint8">, generations: number): Tensor<"uint8"> {
  let cells = board.copy();
  for (let i = 0; i < generations; i++) {
    using before = cells;
    cells = scope(() => next(before));
  }
  return cells;
}

function next(cells: Tensor<"uint8">): Tensor<"uint8"> {
  // Sums of three rows, then of three columns: the 8 neighbors and the cell itself.
  const rows = cells.roll(1, 0).add(cells).add(cells.roll(-1, 0));
  const all = rows.roll(1, 1).add(rows).add(rows.roll(-1, 1));
  // 3 with the cell: born or stays. 4 with the cell: a living one stays.
  const lives = all.equal(3).logicalOr(all.equal(4).logicalAnd(cells.equal(1)));
  return lives.astype("uint8");
}

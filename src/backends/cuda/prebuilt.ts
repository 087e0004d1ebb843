/**
 * Which kernels come compiled, for devices that have a driver but no NVRTC: a few for each row, that
 * copies to and from scratch memory make enough for everything.
 *
 * @module
 */
import { ROWS } from "../../ops.ts";
import type { Family } from "./device.ts";
import { matmulFamily } from "./matmul.ts";
import { moveFamily, nonzeroFamily } from "./move.ts";
import { randomFamily } from "./random.ts";
import { countsFamily, sortFamily } from "./sort.ts";
import { prebuiltOf } from "./source.ts";

/** All of them, each family a module of its own. */
export function prebuiltFamilies(): Family[] {
  return [
    ...ROWS.map(prebuiltOf),
    ...[1, 2, 4, 8].map(sortFamily),
    countsFamily(),
    moveFamily(),
    nonzeroFamily(),
    randomFamily(),
    matmulFamily(),
  ];
}

/**
 * A program for each method and function of statistics, and the calls that an interpreter sees of
 * it.
 *
 * @module
 */
import type { Program } from "../programs.ts";

/** The records of statistics, by name. */
export const STATISTICS_PROGRAMS: [name: string, program: Program, ...record: string[]][] = [
  ...["nansum", "nanprod", "nanmax", "nanmin", "nanmean"].map((
    name,
  ): [string, Program, string] => [
    name,
    ({ x }) => x[name](1, { keepDims: true }),
    `${name}(x) {axis: 1, keepDims: true}`,
  ]),
  ...["nanvar", "nanstd"].map((name): [string, Program, string] => [
    name,
    ({ x }) => x[name](0),
    `${name}(x) {axis: 0, correction: 0}`,
  ]),
  ...["nanargmax", "nanargmin", "nancumsum", "nancumprod", "cumulativeMax", "cumulativeMin"].map((
    name,
  ): [string, Program, string] => [name, ({ x }) => x[name](0), `${name}(x) {axis: 0}`]),
  [
    "sum [where]",
    ({ x, m }) => x.sum(0, { where: m, initial: 2 }),
    'sum: maskedReduce(x, m) {row: "sum", axis: 0, initial: 2, correction: 0}',
  ],
  ...["lerp", "addcmul", "addcdiv"].map((name): [string, Program, string] => [
    name,
    ({ x, y }) => x[name](y, 3),
    `${name}(x, y, 3)`,
  ]),
];

/**
 * The programs of partitions, quantiles and modes for programs.ts.
 *
 * @module
 */
import type { Program } from "../programs.ts";

/** The programs of partitions, quantiles and modes. */
export const SORTING_PROGRAMS: [string, Program, ...string[]][] = [
  ["partition", ({ x }) => x.partition(-1), "partition(x) {kth: [2], axis: 1}"],
  [
    "argpartition",
    ({ x }) => x.argpartition([1, 0], 0),
    "argpartition(x) {kth: [0, 1], axis: 0}",
  ],
  ["median", ({ x }) => x.median(1), 'median(x) {q: 0.5, axis: 1, method: "median"}'],
  [
    "nanmedian",
    ({ x }) => x.nanmedian(null, { keepDims: true }),
    'nanmedian(x) {q: 0.5, axis: null, keepDims: true, method: "median"}',
  ],
  [
    "quantile",
    ({ x }) => x.quantile([0.25, 1], [0, 1]),
    'quantile(x) {q: [0.25, 1], axis: [0, 1], method: "linear"}',
  ],
  [
    "percentile",
    ({ x }) => x.percentile(40, 0, { method: "hazen" }),
    'percentile(x) {q: 40, axis: 0, method: "hazen"}',
  ],
  [
    "nanquantile",
    ({ x }) => x.nanquantile(0.25),
    'nanquantile(x) {q: 0.25, method: "linear"}',
  ],
  [
    "nanpercentile",
    ({ x }) => x.nanpercentile([10, 20]),
    'nanpercentile(x) {q: [10, 20], method: "linear"}',
  ],
  ["mode", ({ x }) => Object.values(x.mode(0)), "mode(x) {axis: 0}"],
];

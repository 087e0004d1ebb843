/**
 * The programs of products by axes, of sets, searching and histograms, for programs.ts.
 *
 * @module
 */
import * as rm from "../../../mod.ts";
import type { Program } from "../programs.ts";

/** The programs of products over axes by name or by number. */
const PRODUCTS: [name: string, program: Program, ...record: string[]][] = [
  ["einsum", ({ x, y }) => rm.einsum("ij,kj->ik", x, y), 'einsum(x, y) {equation: "ij,kj->ik"}'],
  ["tensordot", ({ x, w }) => rm.tensordot(x, w, [1, 1]), "tensordot(x, w) {axes: [1, 1]}"],
  ["vecdot", ({ x, y }) => rm.vecdot(x, y), "vecdot(x, y) {axis: -1, conjugates: true}"],
  ["inner", ({ x, w }) => rm.inner(x, w), "inner(x, w)"],
  ["kron", ({ x, y }) => rm.kron(x, y), "kron(x, y)"],
  ["trace", ({ x }) => rm.trace(x), "trace(x) {offset: 0, axis1: 0, axis2: 1}"],
  ["cross", ({ x, y }) => rm.cross(x, y), "cross(x, y) {axis: -1}"],
];

const values = (record: object): unknown[] => Object.values(record);

/** The programs of sets, searching and histograms. */
const SETS: [name: string, program: Program, ...record: string[]][] = [
  ["uniqueValues", ({ x }) => rm.uniqueValues(x), "uniqueValues(x) {equalNan: true}"],
  ["uniqueCounts", ({ x }) => values(rm.uniqueCounts(x)), "uniqueCounts(x) {equalNan: true}"],
  ["uniqueInverse", ({ x }) => values(rm.uniqueInverse(x)), "uniqueInverse(x) {equalNan: true}"],
  ["uniqueAll", ({ x }) => values(rm.uniqueAll(x)), "uniqueAll(x) {equalNan: true}"],
  ["isin", ({ x, v }) => rm.isin(x, v), "isin(x, v) {invert: false}"],
  ...(["union", "intersect", "setdiff", "setxor"] as const).map((
    name,
  ): [string, Program, string] => [name, ({ x, v }) => rm[name](x, v), `${name}(x, v)`]),
  ["searchsorted", ({ v, x }) => rm.searchsorted(v, x), "searchsorted(v, x) {right: false}"],
  ["digitize", ({ x, v }) => rm.digitize(x, v), "digitize(x, v) {right: false}"],
  ["bincount", ({ i }) => rm.bincount(i), "bincount(i) {minLength: 0}"],
  [
    "scatterReduce",
    ({ v, i, w }) => rm.scatterReduce(v, i, w.slice(0).slice(":2"), "max"),
    "slice(w) {index: [0]}",
    'slice(tensor of [3]) {index: [":2"]}',
    'scatterReduce(v, i, tensor of [2]) {axis: 0, reduce: "max", includeSelf: true}',
  ],
  [
    "histogram",
    ({ x }) => values(rm.histogram(x, 3)),
    "histogram(x) {bins: 3, density: false, weighted: false}",
  ],
  ["histogramBinEdges", ({ x }) => rm.histogramBinEdges(x, 3), "histogramBinEdges(x) {bins: 3}"],
  [
    "histogram2d",
    ({ v }) => values(rm.histogram2d(v, v, 2)),
    "histogram2d(v, v) {x: {bins: 2}, y: {bins: 2}, density: false, weighted: false}",
  ],
];

/** The programs of this file. */
export const SETS_PROGRAMS: [name: string, program: Program, ...record: string[]][] = [
  ...PRODUCTS,
  ...SETS,
];

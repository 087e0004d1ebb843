/**
 * A program for each method and function of statistics, and the calls that an interpreter sees of
 * it.
 *
 * @module
 */
import * as rm from "../../../mod.ts";
import { loose } from "../../support.ts";
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

const UNARY = "lgamma gamma digamma erfc erfinv erfcinv ndtr ndtri i0 i0e i1 i1e sinc logit entr " +
  "erf expm1 log1p";

/** The records of special functions, by name. */
export const SPECIAL_PROGRAMS: [name: string, program: Program, ...record: string[]][] = [
  ...UNARY.split(" ").map((name): [string, Program, string] => [
    `special.${name}`,
    ({ x }) => loose(rm.special)[name](x),
    `${name}(x)`,
  ]),
  ["special.expit", ({ x }) => rm.special.expit(x), "sigmoid(x)"],
  ["special.xlogy", ({ x, y }) => rm.special.xlogy(x, y), "xlogy(x, y)"],
  ["special.xlog1py", ({ x, y }) => rm.special.xlog1py(x, y), "xlog1py(x, y)"],
  ["special.zeta", ({ x, y }) => rm.special.zeta(x, y), "zeta(x, y)"],
  ["special.betaln", ({ x, y }) => rm.special.betaln(x, y), "betaln(x, y)"],
  ["special.beta", ({ x, y }) => rm.special.beta(x, y), "beta(x, y)"],
  ["special.polygamma", ({ x }) => rm.special.polygamma(1, x), "polygamma(x) {n: 1}"],
];

/** The records of functions, by name. */
export const FUNCTION_PROGRAMS: [name: string, program: Program, ...record: string[]][] = [
  ["ptp", ({ x }) => rm.ptp(x, 1), "ptp(x) {axis: 1}"],
  ["average", ({ x }) => rm.average(x, 0, { weights: x }), "average(x, x) {axis: 0}"],
  [
    "cov",
    ({ x }) => rm.cov(x),
    "cov(x) {rowVariables: true, correction: 1, hasY: false, hasFrequencies: false, hasWeights: false}",
  ],
  [
    "corrcoef",
    ({ x, y }) => rm.corrcoef(x.add(y.mul(x)), { y: x }),
    "mul(y, x)",
    "add(x, tensor of [2,3])",
    "corrcoef(tensor of [2,3], x) {rowVariables: true, correction: 1, hasY: true, " +
    "hasFrequencies: false, hasWeights: false}",
  ],
  [
    "gradient",
    ({ x }) => rm.gradient(x, { axis: 1 }),
    "gradient(x) {axis: 1, spacing: 1, edgeOrder: 1}",
  ],
  ["trapezoid", ({ x }) => rm.trapezoid(x), "trapezoid(x) {axis: -1, dx: 1}"],
  ["interp", ({ x, v }) => rm.interp(x, v, v), "interp(x, v, v)"],
  [
    "rot90",
    ({ x }) => rm.rot90(x),
    "flip(x) {axis: 1}",
    "swapAxes(tensor of [2,3]) {axis1: 0, axis2: 1}",
  ],
  [
    "asStrided",
    ({ x }) => rm.asStrided(x, [2, 2], [1, 2]),
    "asStrided(x) {shape: [2, 2], strides: [1, 2], offset: 0}",
  ],
  ["broadcastShapes", () => rm.broadcastShapes([2, 1], [3])],
  ...["triIndices", "trilIndices", "triuIndices"].map((
    name,
  ): [string, Program, string, string, string] => [
    name,
    () => loose(rm)[name](2),
    `${name}: triangleIndices() {rows: 2, columns: 2, k: 0, upper: ${name === "triuIndices"}}`,
    "selectAxis(tensor of [2,3]) {axis: 0, index: 0}",
    "selectAxis(tensor of [2,3]) {axis: 0, index: 1}",
  ]),
  [
    "ravelMultiIndex",
    ({ i }) => rm.ravelMultiIndex([i, i], [2, 3]),
    'ravelMultiIndex(i, i) {shape: [2, 3], mode: "raise"}',
  ],
  ["unravelIndex", ({ i }) => rm.unravelIndex(i, [2, 3]), "unravelIndex(i) {shape: [2, 3]}"],
  ["canCast", () => rm.canCast("int8", "int16")],
  ["isdtype", () => rm.isdtype("int8", "integral")],
  ["resultType", ({ x }) => rm.resultType(x, 1)],
  ["defaultDtypes", () => Object.values(rm.defaultDtypes())],
  ["defaultDevice", () => rm.defaultDevice()],
  ["dtypes", () => rm.dtypes("bool")],
  ["capabilities", () => Object.values(rm.capabilities())],
  [
    "logspace",
    () => rm.logspace(0, 1, 2),
    'logspace() {start: 0, stop: 1, count: 2, endpoint: true, base: 10, dtype: "float32"}',
  ],
  [
    "geomspace",
    () => rm.geomspace(1, 10, 2),
    "geomspace: logspace() {start: 0, stop: 1, count: 2, endpoint: true, base: 10, first: 1, " +
    'last: 10, sign: 1, dtype: "float32"}',
  ],
  [
    "frexp",
    ({ x }) => Object.values(rm.frexp(x)),
    "frexp(x)",
  ],
  ["nanToNum", ({ x }) => rm.nanToNum(x), "nanToNum(x)"],
  [
    "arrayEqual",
    ({ x, y }) => rm.arrayEqual(x, y),
    "equal(x, y)",
    "arrayEqual: all(tensor of [2,3])",
    "arrayEqual reads tensor of []",
  ],
  ["round [decimals]", ({ x }) => x.round(1), "round: roundTo(x) {decimals: 1}"],
];

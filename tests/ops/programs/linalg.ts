/**
 * The programs of linear algebra for programs.ts.
 *
 * @module
 */
import { linalg, tensor } from "../../../mod.ts";
import type { Program } from "../programs.ts";

const A = tensor([[4, 1], [1, 3]]);
const B = tensor([[1, 2], [3, 4]]);
const SQUARE = "tensor of [2,2]";

/** The programs of linear algebra. */
export const LINALG_PROGRAMS: [name: string, program: Program, ...record: string[]][] = [
  ["linalg.cholesky", () => linalg.cholesky(A), `cholesky(${SQUARE}) {upper: false}`],
  ["linalg.lu", () => Object.values(linalg.lu(A)), `lu(${SQUARE})`],
  ["linalg.qr", ({ x }) => Object.values(linalg.qr(x)), 'qr(x) {mode: "reduced"}'],
  ["linalg.det", () => linalg.det(A), `det(${SQUARE})`],
  ["linalg.slogdet", () => Object.values(linalg.slogdet(A)), `slogdet(${SQUARE})`],
  ["linalg.inv", () => linalg.inv(A), `inv(${SQUARE})`],
  ["linalg.solve", () => linalg.solve(A, B), `solve(${SQUARE}, ${SQUARE})`],
  [
    "linalg.solveTriangular",
    () => linalg.solveTriangular(A, B),
    `solveTriangular(${SQUARE}, ${SQUARE}) {upper: false, unitDiagonal: false}`,
  ],
  ["linalg.expm", () => linalg.expm(A), `expm(${SQUARE})`],
  ["linalg.eigh", () => Object.values(linalg.eigh(A)), `eigh(${SQUARE}) {upper: false}`],
  ["linalg.eigvalsh", () => linalg.eigvalsh(A), `eigvalsh(${SQUARE}) {upper: false}`],
  ["linalg.svd", ({ x }) => Object.values(linalg.svd(x)), "svd(x) {fullMatrices: true}"],
  ["linalg.svdvals", ({ x }) => linalg.svdvals(x), "svdvals(x)"],
  ["linalg.matmul", ({ x, v }) => linalg.matmul(x, v), "matmul(x, v)"],
  ["linalg.outer", ({ v }) => linalg.outer(v, v), "outer(v, v)"],
  ["linalg.matrixTranspose", ({ x }) => linalg.matrixTranspose(x), "matrixTranspose: mT(x)"],
  [
    "linalg.diagonal",
    ({ x }) => linalg.diagonal(x),
    "diagonal(x) {offset: 0, axis1: -2, axis2: -1}",
  ],
  [
    "linalg.multiDot",
    ({ x, v }) => linalg.multiDot([B, x, v]),
    "multiDot: matmul(x, v)",
    `multiDot: matmul(${SQUARE}, tensor of [2])`,
  ],
  [
    "linalg.matrixPower",
    () => linalg.matrixPower(A, 3),
    `matmul(${SQUARE}, ${SQUARE})`,
    `matmul(${SQUARE}, ${SQUARE})`,
  ],
  ["linalg.matrixNorm", ({ x }) => linalg.matrixNorm(x), "norm(x) {axis: [-2, -1], ord: 2}"],
  [
    "linalg.vectorNorm",
    ({ x }) => linalg.vectorNorm(x, { axis: 1 }),
    "norm(x) {axis: 1, keepDims: false, ord: 2}",
  ],
  [
    "linalg.cond",
    () => linalg.cond(A),
    "cond: svdvals(tensor of [2,2])",
    "max(tensor of [2]) {axis: -1}",
    "min(tensor of [2]) {axis: -1}",
    "div(tensor of [], tensor of [])",
    "abs(tensor of [2,2])",
    "sum(tensor of [2,2]) {axis: [-2, -1]}",
    "notEqual(tensor of [], tensor of [])",
    "equal(tensor of [], tensor of [])",
    "logicalAnd(tensor of [], tensor of [])",
    "where(tensor of [], null, tensor of [])",
  ],
  [
    "linalg.matrixRank",
    ({ x }) => linalg.matrixRank(x),
    "matrixRank: svdvals(x)",
    "narrow(tensor of [2]) {axis: 0, start: 0, length: 1}",
    "mul(tensor of [1], 3.5762786865234375e-7)",
    "greater(tensor of [2], tensor of [1])",
    'sum(tensor of [2]) {axis: -1, dtype: "int64"}',
  ],
  [
    "linalg.pinv",
    ({ x }) => linalg.pinv(x),
    "pinv: svd(x) {fullMatrices: false}",
    "narrow(tensor of [2]) {axis: 0, start: 0, length: 1}",
    "mul(tensor of [1], 3.5762786865234375e-7)",
    "greater(tensor of [2], tensor of [1])",
    "where(tensor of [2], tensor of [2], 1)",
    "notEqual(tensor of [2], tensor of [2])",
    "div(1, tensor of [2])",
    "where(tensor of [2], tensor of [2], 0)",
    "where(tensor of [2], null, tensor of [2])",
    "expandDims(tensor of [2]) {axis: -2}",
    "mT(tensor of [2,3])",
    "mul(tensor of [3,2], tensor of [1,2])",
    "mT(tensor of [2,2])",
    "matmul(tensor of [3,2], tensor of [2,2])",
  ],
  [
    "linalg.lstsq",
    ({ x, y }) => Object.values(linalg.lstsq(x, y)),
    "lstsq: svd(x) {fullMatrices: false}",
    "narrow(tensor of [2]) {axis: 0, start: 0, length: 1}",
    "mul(tensor of [1], 3.5762786865234375e-7)",
    "greater(tensor of [2], tensor of [1])",
    "where(tensor of [2], tensor of [2], 1)",
    "notEqual(tensor of [2], tensor of [2])",
    "div(1, tensor of [2])",
    "where(tensor of [2], tensor of [2], 0)",
    "where(tensor of [2], null, tensor of [2])",
    "expandDims(tensor of [2]) {axis: -1}",
    "mT(tensor of [2,3])",
    "mT(tensor of [2,2])",
    "matmul(tensor of [2,2], y)",
    "mul(tensor of [2,3], tensor of [2,1])",
    "matmul(tensor of [3,2], tensor of [2,3])",
    "matmul(x, tensor of [3,3])",
    "sub(y, tensor of [2,3])",
    "abs(tensor of [2,3])",
    "mul(tensor of [2,3], tensor of [2,3])",
    'sum(tensor of [2,3]) {axis: -2, dtype: "float32"}',
    'sum(tensor of [2]) {axis: -1, dtype: "int64"}',
  ],
];

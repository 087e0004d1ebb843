/**
 * Linear algebra on a CUDA device by cuSOLVER, and by cuBLAS for batches of small matrices.
 *
 * These take dense matrices by columns, and overwrite them: operands are copied. A matrix by rows is
 * its transpose by columns, so results are written in place where the transpose will do. A call that
 * finds a matrix without a result, or numbers that are not finite, is left to the CPU, whose errors
 * and results it has.
 *
 * @module
 */
import type { DType, DTypeInfo, TypedArray } from "../../base/dtype.ts";
import { realOf } from "../../base/dtype.ts";
import { Layout } from "../../base/layout.ts";
import { planMap, planReduce } from "../../base/plan.ts";
import {
  deviceDType,
  hasLinalgDType,
  inputMatrices,
  isComplexInfo,
  type MatrixBatch,
} from "../../ops/matmul/problem.ts";
import { partsOf } from "../../ops/fft/problem.ts";
import { ScaledProduct } from "../../ops/linalg/product.ts";
import { download } from "../../memory/device.ts";
import type { Operand } from "../../memory/operand.ts";
import type { Storage } from "../../memory/storage.ts";
import { withWorkspace } from "../../memory/workspace.ts";
import type { Call } from "../../table/op.ts";
import { MAP, REDUCE } from "../../table/table.ts";
import { CUDA_LINALG as STEP, CUDA_LINALG_FLAGS as FLAG, STATUS } from "../ffi/abi.ts";
import { checkRun } from "../ffi/checks.ts";
import type { CudaDevice } from "./device.ts";
import { alike, copyNumbers, map, type Numbers, scalarOf } from "./maps.ts";
import { fold } from "./reduce.ts";

/** The types of cuSOLVER, as numbered in C. */
const TYPES: readonly DType[] = ["float32", "float64", "complex64", "complex128"];
/** The least number of rows and columns for functions that take one matrix at a time. */
const LEAST = 32;
/** The greatest matrices that are factored by functions of batches. */
const MOST_BATCHED = 256;
/** Ops with functions of batches, for square matrices. */
const HAVE_BATCHES: readonly string[] = [
  "cholesky",
  "lu",
  "det",
  "slogdet",
  "inv",
  "solve",
  "solveTriangular",
];

/** A call, and its first operand: a batch of matrices [m, n]. */
interface Problem {
  readonly device: CudaDevice;
  readonly call: Call;
  readonly dtype: DType;
  readonly info: DTypeInfo;
  readonly a: MatrixBatch;
  readonly batch: number;
  readonly m: number;
  readonly n: number;
  /** {@link FLAG}.batched, or 0. */
  readonly batched: number;
}

/** Whether cuSOLVER is for a call. */
export function isDeviceLinalg(call: Call): boolean {
  if (!hasLinalgDType(call) || call.specs.some(({ shape }) => shape.includes(0))) return false;
  const operands = call.inputs as Operand[];
  const { info } = operands[0]!.storage;
  if (deviceDType(call, info) !== info) return false;
  if (operands.some(({ layout }) => layout.size === 0)) return false;
  const [m, n] = operands[0]!.layout.shape.slice(-2) as [number, number];
  return (m === n && HAVE_BATCHES.includes(call.op.name)) || Math.min(m, n) >= LEAST;
}

/** Runs a call; false if cuSOLVER is not there, or a matrix has no result. */
export function linalg(device: CudaDevice, call: Call): boolean {
  numbers.fill(0);
  const status = device.shim.rm_cuda_linalg(device.index, numbers);
  if (status === STATUS.notFound || status === STATUS.unsupported) return false;
  device.check("rm_cuda_linalg", status);
  const { name } = call.op;
  inputMatrices(call).forEach(({ storage, layout }, i) => {
    const [low, high] = layout.extent();
    checkRun(name, i, low, high - low + 1, storage);
  });
  for (const { storage, layout: { offset, size } } of call.outputs) {
    checkRun(name, 0, offset, size, storage);
  }
  const [a] = inputMatrices(call) as [MatrixBatch];
  const { info } = call.operand(0).storage;
  const [m, n] = a.layout.shape.slice(-2) as [number, number];
  const isSmall = a.batch > 1 && m === n && n <= MOST_BATCHED;
  return RUN[name]!({
    ...{ device, call, dtype: info.name, info, a, batch: a.batch, m, n },
    batched: isSmall && HAVE_BATCHES.includes(name) ? FLAG.batched : 0,
  });
}

const numbers = new Float64Array(13);

/** The rest of a call of cuSOLVER: sizes, flags and addresses. */
interface Job {
  readonly m?: number;
  readonly n?: number;
  readonly k?: number;
  readonly flags?: number;
  readonly a: number;
  /** The elements from matrix to matrix of a. */
  readonly step: number;
  readonly b?: number;
  readonly c?: number;
  readonly d?: number;
}

/** Runs a step; false if a matrix has no result, or there is no memory for the step. */
function run(p: Problem, step: number, job: Job): boolean {
  const { m = p.m, n = p.n, k = 0, flags = 0, a, b = 0, c = 0, d = 0 } = job;
  const type = TYPES.indexOf(p.dtype);
  numbers.set([step, type, m, n, k, p.batch, flags, a, job.step, b, c, d, -1]);
  const status = p.device.shim.rm_cuda_linalg(p.device.index, numbers);
  if (status === STATUS.outOfMemory) return false;
  p.device.check("rm_cuda_linalg", status);
  return numbers[12]! < 0;
}

// ---- layouts and copies ------------------------------------------------------------------------

/** The address of the first element of an operand. */
function start({ storage, layout }: Operand): number {
  return storage.address + layout.offset * storage.info.bytes;
}

/** Matrices by columns, `step` elements from one to the next; `shape` is that of the whole batch. */
function byColumns(shape: readonly number[], rows: number, step: number): Layout {
  const strides = new Array<number>(shape.length);
  strides[shape.length - 2] = 1;
  strides[shape.length - 1] = rows;
  for (let axis = shape.length - 3, next = step; axis >= 0; next *= shape[axis--]!) {
    strides[axis] = next;
  }
  return new Layout(shape, strides, 0);
}

/** Copies matrices to the start of `to`: by columns, or by rows. */
function load({ device }: Problem, to: Storage, x: MatrixBatch, columns: boolean): void {
  const { storage, layout } = x;
  const [m, n] = layout.shape.slice(-2) as [number, number];
  const target = columns ? byColumns(layout.shape, m, m * n) : Layout.contiguous(layout.shape);
  copyNumbers(device, { storage: to, layout: target }, { storage, layout });
}

/** Matrices by columns in a workspace, as an operand of copies. */
function columnsOf(p: Problem, storage: Storage, m: number, n: number, step: number): Numbers {
  return { storage, layout: new Layout([p.batch, m, n], [step, 1, m], 0) };
}

/** The matrices [m, n] of an output, which are by rows. */
function rowsOf(
  p: Problem,
  { storage, layout: { offset } }: Operand,
  m: number,
  n: number,
): Numbers {
  return { storage, layout: new Layout([p.batch, m, n], [m * n, n, 1], offset) };
}

/** The diagonals of matrices. */
function diagonalOf({ storage, layout: { shape, strides, offset } }: Numbers): Numbers {
  const [batch, m, n] = shape as [number, number, number];
  const [step, row, column] = strides as [number, number, number];
  return { storage, layout: new Layout([batch, Math.min(m, n)], [step, row + column], offset) };
}

/** Writes ones to the diagonals of matrices whose imaginary parts there are 0. */
function setOnes(device: CudaDevice, x: Numbers): void {
  const { storage, layout: { shape, strides, offset } } = diagonalOf(x);
  const parts = partsOf(storage);
  const { lanes } = storage.info;
  const layout = new Layout(shape, strides.map((one) => one * lanes), offset * lanes);
  const one = scalarOf(1, parts.info);
  map(
    device,
    MAP.copy,
    parts.info.name,
    planMap(layout, alike(layout), null, null),
    parts,
    one,
    null,
    null,
  );
}

/** The elements of diagonals, which are read. */
function readDiagonals(p: Problem, x: Numbers): TypedArray {
  const from = diagonalOf(x);
  const { size, shape } = from.layout;
  let read: TypedArray | undefined;
  withWorkspace(x.storage, [[p.dtype, size]], ([made]) => {
    copyNumbers(p.device, { storage: made!, layout: Layout.contiguous(shape) }, from);
    read = download(made!, 0, size);
  });
  return read!;
}

/** Writes all elements of an output. */
function write({ storage, layout: { offset } }: Operand, array: TypedArray): void {
  const { info, memory, address } = storage;
  const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
  memory!.write(address + offset * info.bytes, bytes);
}

/** The elements with a place in a triangle; which, by an op of rows and columns. */
type Triangle = "greaterEqual" | "greater" | "lessEqual";

/** A layout of complex numbers as one of their parts. */
function inParts({ shape, strides, offset }: Layout, lanes: number): Layout {
  return lanes === 1 ? new Layout(shape, strides, offset) : new Layout(
    [...shape, lanes],
    [...strides.map((stride) => lanes * stride), 1],
    lanes * offset,
  );
}

/** Copies a triangle of matrices of one shape, and zeros elsewhere. */
function copyTriangle(device: CudaDevice, to: Numbers, from: Numbers, which: Triangle): void {
  const [, rows, columns] = to.layout.shape as [number, number, number];
  const most = Math.max(rows, columns);
  const { lanes } = to.storage.info;
  const wanted = [["float32", most], ["bool", rows * columns]] as const;
  withWorkspace(to.storage, wanted, (made) => {
    const [index, mask] = made as [Storage, Storage];
    const places = Float32Array.from({ length: most }, (_, i) => i);
    index.memory!.write(index.address, new Uint8Array(places.buffer));
    const shape = [rows, columns];
    const [row, column] = [new Layout(shape, [1, 0], 0), new Layout(shape, [0, 1], 0)];
    const whole = planMap(Layout.contiguous(shape), row, column, null);
    map(device, MAP[which], "float32", whole, mask, index, index, null);
    const target = inParts(to.layout, lanes);
    const strides = lanes === 1 ? [0, columns, 1] : [0, columns, 1, 0];
    const condition = new Layout(target.shape, strides, 0);
    const [written, read] = [partsOf(to.storage), partsOf(from.storage)];
    const plan = planMap(target, condition, inParts(from.layout, lanes), alike(target));
    const zero = scalarOf(0, written.info);
    map(device, MAP.where, written.info.name, plan, written, mask, read, zero);
  });
}

/** Whether the first `size` elements are finite. */
function isFinite(device: CudaDevice, x: Storage, size: number): boolean {
  const parts = partsOf(x);
  const all = Layout.contiguous([size * x.info.lanes]);
  let found = false;
  withWorkspace(x, [[parts.info.name, 2]], ([ends]) => {
    [REDUCE.max, REDUCE.min].forEach((op, i) => {
      const plan = planReduce(new Layout([], [], i), all, null, [true], false);
      fold(device, op, plan, ends!, parts, null);
    });
    const read = download(ends!, 0, 2);
    found = Number.isFinite(Number(read[0])) && Number.isFinite(Number(read[1]));
  });
  return found;
}

// ---- systems -----------------------------------------------------------------------------------

/** Pivots of a factored batch, from 0: 32-bit words, or the low words of 64-bit ones. */
function readPivots({ batched }: Problem, storage: Storage): (at: number) => number {
  const words = download(storage, 0, storage.length);
  const every = batched !== 0 ? 1 : 2;
  return (at) => Number(words[at * every]) - 1;
}

/** Calls `use` with the LU factors by columns, and with the pivots; false without factors. */
function factored(p: Problem, use: (lu: Storage, pivots: Storage) => boolean): boolean {
  const { batch, m, n, batched } = p;
  const count = batch * Math.min(m, n);
  let done = false;
  withWorkspace(
    p.a.storage,
    [[p.dtype, batch * m * n], ["int32", batched !== 0 ? count : 2 * count]],
    (made) => {
      const [lu, pivots] = made as [Storage, Storage];
      load(p, lu, p.a, true);
      const job = { flags: batched, a: lu.address, step: m * n, b: pivots.address };
      done = run(p, STEP.lu, job) && use(lu, pivots);
    },
  );
  return done;
}

/** Solves for right sides by columns at `c`. */
function solveAt(
  p: Problem,
  lu: Storage,
  pivots: Storage,
  k: number,
  c: number,
  transposed = 0,
): boolean {
  const flags = p.batched | transposed;
  return run(p, STEP.solve, { k, flags, a: lu.address, step: p.n * p.n, b: pivots.address, c });
}

function solve(p: Problem): boolean {
  const right = inputMatrices(p.call)[1]!;
  const k = right.layout.shape.at(-1)!;
  const out = p.call.outputs[0]!;
  return factored(p, (lu, pivots) => {
    if (k === 1) {
      const { storage, layout: { offset } } = out;
      const { shape } = right.layout;
      const target = new Layout(shape, Layout.contiguous(shape).strides, offset);
      copyNumbers(p.device, { storage, layout: target }, right);
      return solveAt(p, lu, pivots, 1, start(out));
    }
    let done = false;
    withWorkspace(lu, [[p.dtype, p.batch * p.n * k]], ([made]) => {
      load(p, made!, right, true);
      done = solveAt(p, lu, pivots, k, made!.address);
      if (done) {
        copyNumbers(p.device, rowsOf(p, out, p.n, k), columnsOf(p, made!, p.n, k, p.n * k));
      }
    });
    return done;
  });
}

/** The solution of aᵀ y = 1 is the transpose of the inverse: by columns, its rows. */
function inv(p: Problem): boolean {
  const out = p.call.outputs[0]!;
  return factored(p, (lu, pivots) => {
    p.device.zero(start(out), p.batch * p.n * p.n * p.info.bytes);
    setOnes(p.device, rowsOf(p, out, p.n, p.n));
    return solveAt(p, lu, pivots, p.n, start(out), FLAG.transposed);
  });
}

function solveTriangular(p: Problem): boolean {
  const [left, right] = inputMatrices(p.call) as [MatrixBatch, MatrixBatch];
  const { upper, unitDiagonal } = p.call.attributes as { upper: boolean; unitDiagonal: boolean };
  const out = p.call.outputs[0]!;
  const k = right.layout.shape.at(-1)!;
  const { storage, layout } = left;
  const isDense = layout.contiguous;
  let done = false;
  withWorkspace(storage, [[p.dtype, isDense ? 0 : p.batch * p.n * p.n]], ([made]) => {
    if (!isDense) load(p, made!, left, false);
    const a = isDense ? { storage, layout } : { storage: made!, layout: Layout.contiguous([]) };
    if (!unitDiagonal) {
      const matrices = rowsOf(p, { ...a, flags: 0 }, p.n, p.n);
      const { lanes } = p.info;
      const values = readDiagonals(p, matrices);
      for (let i = 0; i < values.length; i += lanes) {
        if (values[i] === 0 && (lanes === 1 || values[i + 1] === 0)) return;
      }
    }
    const { shape } = right.layout;
    const target = new Layout(shape, Layout.contiguous(shape).strides, out.layout.offset);
    copyNumbers(p.device, { storage: out.storage, layout: target }, right);
    // The lower triangle by rows is the upper one by columns.
    const flags = (upper ? 0 : FLAG.upper) | (unitDiagonal ? FLAG.unit : 0) | p.batched;
    const at = start({ ...a, flags: 0 });
    done = run(p, STEP.triangular, { k, flags, a: at, step: p.n * p.n, c: start(out) });
  });
  return done;
}

/** Calls `use` for each matrix with the diagonal of U, and with the sign of the row exchanges. */
function determinants(
  p: Problem,
  use: (matrix: number, diagonal: TypedArray, from: number, sign: number) => void,
): boolean {
  const { n, batch } = p;
  return factored(p, (lu, pivots) => {
    const pivot = readPivots(p, pivots);
    const diagonals = readDiagonals(p, columnsOf(p, lu, n, n, n * n));
    // Elimination may have lost larger and smaller numbers; the CPU balances rows.
    const most = 2 ** (realOf(p.info).bytes === 4 ? 90 : 900);
    for (let i = 0; i < diagonals.length; i++) {
      const size = Math.abs(Number(diagonals[i]));
      if (!(size < most && (size > 1 / most || size === 0))) return false;
    }
    for (let matrix = 0; matrix < batch; matrix++) {
      let sign = 1;
      for (let i = 0; i < n; i++) if (pivot(matrix * n + i) !== i) sign = -sign;
      use(matrix, diagonals, matrix * n, sign);
    }
    return true;
  });
}

function det(p: Problem): boolean {
  const made = new p.info.array(p.batch * p.info.lanes) as Float64Array;
  const isComplex = isComplexInfo(p.info);
  const done = determinants(p, (matrix, diagonal, from, sign) => {
    const product = new ScaledProduct(sign);
    for (let i = p.info.lanes * from; i < p.info.lanes * (from + p.n); i += p.info.lanes) {
      product.times(Number(diagonal[i]), isComplex ? Number(diagonal[i + 1]) : 0);
    }
    const [re, im] = product.value;
    made[matrix * p.info.lanes] = re;
    if (isComplex) made[2 * matrix + 1] = im;
  });
  if (done) write(p.call.outputs[0]!, made);
  return done;
}

function slogdet(p: Problem): boolean {
  const { lanes } = p.info;
  const signs = new p.info.array(p.batch * lanes) as Float64Array;
  const logs = new (realOf(p.info).array)(p.batch) as Float64Array;
  const done = determinants(p, (matrix, diagonal, from, sign) => {
    let [re, im, log] = [sign, 0, 0];
    for (let i = from; i < from + p.n; i++) {
      const x = Number(diagonal[lanes * i]), y = lanes === 1 ? 0 : Number(diagonal[2 * i + 1]);
      const size = lanes === 1 ? Math.abs(x) : Math.hypot(x, y);
      log += Math.log(size);
      [re, im] = [(re * x - im * y) / size, (re * y + im * x) / size];
    }
    signs[matrix * lanes] = re;
    if (lanes > 1) signs[2 * matrix + 1] = im;
    logs[matrix] = log;
  });
  if (!done) return false;
  write(p.call.outputs[0]!, signs);
  write(p.call.outputs[1]!, logs);
  return true;
}

// ---- factors -----------------------------------------------------------------------------------

/** Lᵀ by columns is L by rows: the factor of the transpose, whose upper triangle has the lower one. */
function cholesky(p: Problem): boolean {
  const { upper } = p.call.attributes as { upper: boolean };
  const out = p.call.outputs[0]!;
  const { shape } = p.a.layout;
  const target = new Layout(shape, Layout.contiguous(shape).strides, out.layout.offset);
  copyNumbers(p.device, { storage: out.storage, layout: target }, p.a);
  const flags = (upper ? 0 : FLAG.upper) | p.batched;
  if (!run(p, STEP.cholesky, { flags, a: start(out), step: p.n * p.n })) return false;
  const matrices = rowsOf(p, out, p.n, p.n);
  copyTriangle(p.device, matrices, matrices, upper ? "lessEqual" : "greaterEqual");
  return true;
}

function lu(p: Problem): boolean {
  const { batch, m, n } = p;
  const k = Math.min(m, n);
  const [l, u, rows] = p.call.outputs as [Operand, Operand, Operand];
  return factored(p, (factors, pivots) => {
    const pivot = readPivots(p, pivots);
    const order = new Int32Array(batch * m);
    for (let matrix = 0; matrix < batch; matrix++) {
      const own = order.subarray(matrix * m, (matrix + 1) * m);
      for (let i = 0; i < m; i++) own[i] = i;
      for (let i = 0; i < k; i++) {
        const other = pivot(matrix * k + i);
        [own[i], own[other]] = [own[other]!, own[i]!];
      }
    }
    write(rows, order);
    const lower = rowsOf(p, l, m, k);
    copyTriangle(p.device, lower, columnsOf(p, factors, m, k, m * n), "greater");
    setOnes(p.device, lower);
    const upper = { storage: factors, layout: new Layout([batch, k, n], [m * n, 1, m], 0) };
    copyTriangle(p.device, rowsOf(p, u, k, n), upper, "lessEqual");
    return true;
  });
}

function qr(p: Problem): boolean {
  const { batch, m, n } = p;
  const k = Math.min(m, n);
  const [q, r] = p.call.outputs as [Operand, Operand];
  const columns = q.layout.shape.at(-1)!;
  const step = m * Math.max(n, columns);
  let done = false;
  withWorkspace(q.storage, [[p.dtype, batch * step], [p.dtype, batch * k]], (made) => {
    const [work, factors] = made as [Storage, Storage];
    const { storage, layout } = p.a;
    const target = byColumns(layout.shape, m, step);
    copyNumbers(p.device, { storage: work, layout: target }, { storage, layout });
    const job = { a: work.address, step, b: factors.address };
    if (!run(p, STEP.qr, job)) return;
    const upper = { storage: work, layout: new Layout([batch, columns, n], [step, 1, m], 0) };
    copyTriangle(p.device, rowsOf(p, r, columns, n), upper, "lessEqual");
    if (!run(p, STEP.makeQ, { ...job, n: columns, k })) return;
    copyNumbers(p.device, rowsOf(p, q, m, columns), columnsOf(p, work, m, columns, step));
    done = true;
  });
  return done;
}

// ---- eigenvalues and singular values -----------------------------------------------------------

function eigh(p: Problem): boolean {
  const { upper } = p.call.attributes as { upper: boolean };
  const [values, vectors] = p.call.outputs as [Operand, Operand?];
  const { batch, n } = p;
  let done = false;
  withWorkspace(p.a.storage, [[p.dtype, batch * n * n]], ([work]) => {
    load(p, work!, p.a, true);
    if (!isFinite(p.device, work!, batch * n * n)) return;
    const flags = (upper ? FLAG.upper : 0) | (vectors === undefined ? 0 : FLAG.vectors);
    done = run(p, STEP.eigh, { flags, a: work!.address, step: n * n, b: start(values) });
    if (done && vectors !== undefined) {
      copyNumbers(p.device, rowsOf(p, vectors, n, n), columnsOf(p, work!, n, n, n * n));
    }
  });
  return done;
}

/**
 * For wide matrices, Vᴴ and U by rows are the left and right vectors of the transpose by columns;
 * cuSOLVER takes no others.
 */
function svd(p: Problem): boolean {
  const { call, batch, m, n } = p;
  const only = call.outputs.length === 1;
  const values = call.outputs[only ? 0 : 1]!;
  const isWide = m <= n, k = Math.min(m, n), longest = Math.max(m, n);
  const { fullMatrices = false } = (call.attributes ?? {}) as { fullMatrices?: boolean };
  const columns = fullMatrices ? longest : k;
  const isCopied = !only && !isWide;
  let done = false;
  const wanted = [
    [p.dtype, batch * m * n],
    [p.dtype, isCopied ? batch * m * columns : 0],
    [p.dtype, isCopied ? batch * n * n : 0],
  ] as const;
  withWorkspace(p.a.storage, wanted, (made) => {
    const [work, left, right] = made as [Storage, Storage, Storage];
    load(p, work, p.a, !isWide);
    if (!isFinite(p.device, work, batch * m * n)) return;
    const [u, , vh] = call.outputs as [Operand, Operand, Operand];
    done = run(p, STEP.svd, {
      ...{ m: longest, n: k, a: work.address, step: m * n, b: start(values) },
      flags: only ? 0 : FLAG.vectors | (fullMatrices ? FLAG.full : 0),
      c: only ? 0 : isWide ? start(vh) : left.address,
      d: only ? 0 : isWide ? start(u) : right.address,
    });
    if (!done || !isCopied) return;
    copyNumbers(p.device, rowsOf(p, u, m, columns), columnsOf(p, left, m, columns, m * columns));
    copyNumbers(p.device, rowsOf(p, vh, n, n), columnsOf(p, right, n, n, n * n));
  });
  return done;
}

const RUN: Readonly<Record<string, (p: Problem) => boolean>> = {
  ...{ solve, inv, solveTriangular, det, slogdet, cholesky, lu, qr },
  ...{ eigh, eigvalsh: eigh, svd, svdvals: svd },
};

/** The ops that cuSOLVER computes. */
export const DEVICE_LINALG: readonly string[] = Object.keys(RUN);

/**
 * The definitions of linear algebra: every matrix of a batch in double precision, rounded once.
 *
 * @module
 */
import {
  failure,
  hasLinalgDType,
  inputMatrices,
  isComplexInfo,
  type MatrixBatch,
  offsetsOf,
} from "../../../ops/matmul/problem.ts";
import { ScaledProduct } from "../../../ops/linalg/product.ts";
import type { Operand } from "../../../memory/operand.ts";
import type { Call } from "../../../table/op.ts";
import { eig, expm } from "./eig.ts";
import {
  choleskyInPlace,
  luInPlace,
  makeQ,
  qrInPlace,
  solveFactored,
  solveTriangularInPlace,
  zeroPivot,
} from "./factor.ts";
import {
  adjoint,
  balanceRows,
  identity,
  isFinite,
  type Matrix,
  normalize,
  scale,
  zeros,
} from "./matrix.ts";
import { svd, svdvals } from "./singular.ts";
import { eigh } from "./symmetric.ts";

type Floats = Float32Array | Float64Array;

/** Reads a matrix of a batch. */
function load({ storage, layout, rowStride, columnStride }: MatrixBatch, offset: number): Matrix {
  const [rows, columns] = layout.shape.slice(-2) as [number, number];
  const isComplex = isComplexInfo(storage.info);
  const made = zeros(rows, columns, isComplex);
  const array = storage.array as Floats;
  for (let j = 0, at = 0; j < columns; j++) {
    for (let i = 0; i < rows; i++, at++) {
      const from = offset + i * rowStride + j * columnStride;
      made.re[at] = array[isComplex ? 2 * from : from]!;
      if (isComplex) made.im![at] = array[2 * from + 1]!;
    }
  }
  return made;
}

/** Writes a matrix, or numbers, to a contiguous output; `index` counts those of their size. */
function store({ storage, layout }: Operand, index: number, x: Matrix | ArrayLike<number>): void {
  const isComplex = isComplexInfo(storage.info);
  const array = storage.array as Floats;
  if (!("rows" in x)) {
    // Both parts of a complex number are NaN.
    const parts = isComplex ? 2 : 1;
    const at = parts * (layout.offset + index * x.length);
    for (let i = 0; i < parts * x.length; i++) array[at + i] = x[Math.floor(i / parts)]!;
    return;
  }
  const { rows, columns, re, im } = x;
  let at = layout.offset + index * rows * columns;
  for (let i = 0; i < rows; i++) {
    for (let j = 0; j < columns; j++, at++) {
      array[isComplex ? 2 * at : at] = re[j * rows + i]!;
      if (isComplex) array[2 * at + 1] = im === null ? 0 : im[j * rows + i]!;
    }
  }
}

/** Results of one matrix, in the order of the outputs; a number is the pivot of a failure. */
type Results = readonly (Matrix | ArrayLike<number>)[] | number;

/** The definition of an op by a function of the matrices of its operands. */
type Definition = (call: Call, a: Matrix, b: Matrix) => Results;

/** Stands for a failure to converge: {@link failure} takes the size. */
const NO_CONVERGENCE = -2;

/** Runs a definition for every matrix. */
function runEach(define: Definition): (call: Call) => void {
  return (call) => {
    const inputs = inputMatrices(call);
    const offsets = inputs.map(offsetsOf);
    const { batch } = inputs[0]!;
    if (batch === 0) return;
    for (let k = 0; k < batch; k++) {
      const [a, b] = inputs.map((x, i) => load(x, offsets[i]![k]!));
      const size = a!.rows;
      const results = define(call, a!, b!);
      if (typeof results === "number") {
        call.badIndex = failure(k, size, results === NO_CONVERGENCE ? size : results);
        return;
      }
      results.forEach((one, i) => {
        if (call.outputs[i] !== undefined) store(call.outputs[i]!, k, one);
      });
    }
  };
}

/** NaN for every element of the outputs of one matrix. */
function allNaN({ specs }: Call, ...ranks: readonly number[]): Float64Array[] {
  return specs.map(({ shape }, i) => {
    const size = shape.slice(shape.length - ranks[i]!).reduce((a, b) => a * b, 1);
    return new Float64Array(size).fill(NaN);
  });
}

/** A Hermitian matrix of which one triangle is given. */
function hermitian(a: Matrix, upper: boolean): Matrix {
  const { rows: n, re, im } = a;
  for (let j = 0; j < n; j++) {
    for (let i = 0; i < j; i++) {
      const [from, to] = upper ? [j * n + i, i * n + j] : [i * n + j, j * n + i];
      re[to] = re[from]!;
      if (im !== null) im[to] = -im[from]!;
    }
    if (im !== null) im[j * n + j] = 0;
  }
  return a;
}

/** Sign and logarithm of the determinant; a complex sign has two parts. */
function determinant(a: Matrix): { re: number; im: number; log: number } {
  const exponent = balanceRows(a);
  const { sign, zero } = luInPlace(a);
  if (zero >= 0) return { re: 0, im: 0, log: -Infinity };
  let [re, im, log] = [sign, 0, exponent * Math.LN2];
  for (let i = 0; i < a.rows; i++) {
    const [x, y] = [a.re[i * a.rows + i]!, a.im === null ? 0 : a.im[i * a.rows + i]!];
    const size = Math.hypot(x, y);
    log += Math.log(size);
    [re, im] = [(re * x - im * y) / size, (re * y + im * x) / size];
  }
  return { re, im, log };
}

/** The product of the pivots. */
function det(a: Matrix): [number, number] {
  const exponent = balanceRows(a);
  const product = new ScaledProduct(luInPlace(a).sign, exponent);
  for (let at = 0; at < a.rows * a.rows; at += a.rows + 1) {
    product.times(a.re[at]!, a.im === null ? 0 : a.im[at]!);
  }
  return product.value;
}

function element(re: number, im: number, a: Matrix): Matrix {
  return {
    rows: 1,
    columns: 1,
    re: Float64Array.of(re),
    im: a.im === null ? null : Float64Array.of(im),
  };
}

/** Part of a matrix of factors: L with ones on its diagonal, or U. */
function triangle(a: Matrix, lower: boolean): Matrix {
  const k = Math.min(a.rows, a.columns);
  const made = lower ? identity(a.rows, k, a.im !== null) : zeros(k, a.columns, a.im !== null);
  for (let j = 0; j < made.columns; j++) {
    const [from, to] = lower ? [j + 1, a.rows] : [0, Math.min(j + 1, k)];
    for (let i = from; i < to; i++) {
      made.re[j * made.rows + i] = a.re[j * a.rows + i]!;
      if (a.im !== null) made.im![j * made.rows + i] = a.im[j * a.rows + i]!;
    }
  }
  return made;
}

function solve(a: Matrix, b: Matrix): Results {
  const pivots = luInPlace(a);
  if (pivots.zero >= 0) return pivots.zero;
  solveFactored(a, pivots, b);
  return [b];
}

const DEFINITIONS: Readonly<Record<string, Definition>> = {
  cholesky({ attributes: { upper } }, a) {
    hermitian(a, upper);
    const bad = choleskyInPlace(a);
    return bad >= 0 ? bad : [upper ? adjoint(a) : a];
  },
  lu(_, a) {
    const { rows } = luInPlace(a);
    return [triangle(a, true), triangle(a, false), rows];
  },
  det: (_, a) => [element(...det(a), a)],
  slogdet(_, a) {
    const { re, im, log } = determinant(a);
    return [element(re, im, a), [log]];
  },
  inv({ attributes }, a) {
    const one = identity(a.rows, a.rows, a.im !== null);
    const found = solve(a, one);
    if (typeof found !== "number" || attributes?.nanIfSingular !== true) return found;
    one.re.fill(NaN);
    one.im?.fill(NaN);
    return [one];
  },
  solve: (_, a, b) => solve(a, b),
  solveTriangular({ attributes: { upper, unitDiagonal } }, a, b) {
    const zero = unitDiagonal ? -1 : zeroPivot(a);
    if (zero >= 0) return zero;
    solveTriangularInPlace(a, b, { upper, unit: unitDiagonal });
    return [b];
  },
  qr({ attributes: { mode } }, a) {
    const { rows, columns } = a;
    const count = mode === "complete" ? rows : Math.min(rows, columns);
    const size = normalize(a);
    const reflectors = qrInPlace(a);
    const r = zeros(count, columns, a.im !== null);
    for (let j = 0; j < columns; j++) {
      for (let i = 0; i <= Math.min(j, count - 1); i++) {
        r.re[j * count + i] = a.re[j * rows + i]!;
        if (a.im !== null) r.im![j * count + i] = a.im[j * rows + i]!;
      }
    }
    scale(r.re.length, size, 0, r, 0);
    return [makeQ(a, reflectors, count), r];
  },
  eigh(call, a) {
    hermitian(a, call.attributes.upper);
    if (!isFinite(a)) return allNaN(call, 1, 2);
    const found = eigh(a, true);
    return found === null ? NO_CONVERGENCE : [found.values, found.vectors!];
  },
  eigvalsh(call, a) {
    hermitian(a, call.attributes.upper);
    if (!isFinite(a)) return allNaN(call, 1);
    const found = eigh(a, false);
    return found === null ? NO_CONVERGENCE : [found.values];
  },
  svd(call, a) {
    if (!isFinite(a)) return allNaN(call, 2, 1, 2);
    const found = svd(a, call.attributes.fullMatrices);
    return found === null ? NO_CONVERGENCE : [found.u, found.s, adjoint(found.v)];
  },
  svdvals(call, a) {
    if (!isFinite(a)) return allNaN(call, 1);
    const found = svdvals(a);
    return found === null ? NO_CONVERGENCE : [found];
  },
  eig(call, a) {
    if (!isFinite(a)) return allNaN(call, 1, 2);
    const found = eig(a, true);
    return found === null ? NO_CONVERGENCE : [found.values, found.vectors!];
  },
  eigvals(call, a) {
    if (!isFinite(a)) return allNaN(call, 1);
    const found = eig(a, false);
    return found === null ? NO_CONVERGENCE : [found.values];
  },
  expm: (call, a) => isFinite(a) ? [expm(a)] : allNaN(call, 2),
};

/** The kernels by the names of their ops. */
export const LINALG_KERNELS = Object.fromEntries(
  Object.entries(DEFINITIONS).map(([name, define]) => [name, {
    supports: hasLinalgDType,
    run: runEach(define),
  }]),
);

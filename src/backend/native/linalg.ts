/**
 * Passes batches of matrices to the shim's linear algebra.
 *
 * @module
 */
import { ATTRIBUTES } from "../../base/plan.ts";
import {
  hasLinalgDType,
  inputMatrices,
  isComplexInfo,
  writeOffsets,
} from "../../ops/matmul/problem.ts";
import type { Operand } from "../../memory/operand.ts";
import type { Storage } from "../../memory/storage.ts";
import type { Call } from "../../table/op.ts";
import { checkLayout, checkRun } from "../ffi/checks.ts";
import { type Kernel, takeBadIndex } from "./kernel.ts";

/** The kinds of calls, in the order of linalg.h. */
const KINDS: readonly string[] = [
  ...["cholesky", "lu", "det", "slogdet", "inv", "solve", "solveTriangular", "qr", "eigh"],
  ...["eigvalsh", "svd", "svdvals", "eig", "eigvals", "expm"],
];
/** The ops with a kernel. */
const NATIVE_LINALG: readonly string[] = KINDS;

/** The indices of the attributes, as in linalg.h. */
const [STRIDES, OUT, OFFSETS] = [9, 13, 16];

let numbers = new Float64Array(64);

/** Whether the kernel can run a call: it has the dtype, and elements. */
function runsLinalg(call: Call): boolean {
  return hasLinalgDType(call) && call.specs.every(({ shape }) => !shape.includes(0)) &&
    (call.inputs as Operand[]).every(({ layout }) => layout.size > 0);
}

/** The reals of a complex storage, or the storage. */
function floatsOf(storage: Storage): Storage {
  return isComplexInfo(storage.info) ? storage.lanes : storage;
}

function flagOf({ attributes }: Call): boolean {
  const { upper, fullMatrices, mode, nanIfSingular } = attributes ?? {};
  return Boolean(upper ?? fullMatrices ?? nanIfSingular ?? mode === "complete");
}

/** The arguments of a call. */
function prepareLinalg(call: Call): {
  numbers: Float64Array<ArrayBuffer>;
  out: Storage;
  a: Storage;
  b: Storage | null;
  c: Storage | null;
  more: readonly Storage[];
} {
  const { op: { name }, outputs, inputs } = call;
  const matrices = inputMatrices(call);
  const [a, b] = matrices;
  const { batch, layout: { shape } } = a!;
  const needed = ATTRIBUTES + OFFSETS + 2 * batch;
  if (numbers.length < needed) numbers = new Float64Array(2 * needed);
  const [m, n] = shape.slice(-2) as [number, number];
  const k = name === "inv" ? n : b === undefined ? 0 : b.layout.shape.at(-1)!;
  const isComplex = isComplexInfo(call.operand(0).storage.info);
  numbers.set(
    [
      ...[-1, KINDS.indexOf(name), Number(isComplex), Number(flagOf(call))],
      ...[Number(call.attributes?.unitDiagonal ?? false), m, n, k, batch],
    ],
    ATTRIBUTES,
  );
  matrices.forEach((one, i) => {
    checkLayout(name, i + 1, one.layout, one.storage);
    numbers[ATTRIBUTES + STRIDES + 2 * i] = one.rowStride;
    numbers[ATTRIBUTES + STRIDES + 2 * i + 1] = one.columnStride;
    writeOffsets(one, numbers, ATTRIBUTES + OFFSETS + i * batch);
  });
  outputs.forEach(({ storage, layout: { offset, size } }, i) => {
    checkRun(name, i, offset, size, storage);
    numbers[ATTRIBUTES + OUT + i] = offset;
  });
  const [out, second = null, third] = outputs.map(({ storage }) => floatsOf(storage));
  const right = inputs.length > 1 ? floatsOf(call.operand(1).storage) : null;
  return {
    ...{ numbers, out: out!, a: floatsOf(call.operand(0).storage), b: right, c: second },
    more: third === undefined ? [] : [third],
  };
}

const linalg: Kernel = {
  usesBlas: true,
  supports: runsLinalg,
  prepare(call) {
    const { more, ...handed } = prepareLinalg(call);
    return more.length > 0 ? { ...handed, more } : handed;
  },
  finish: takeBadIndex,
};

/** The kernels by the names of their ops. */
export const LINALG_KERNELS: Readonly<Record<string, Kernel>> = Object.fromEntries(
  NATIVE_LINALG.map((name) => [name, linalg]),
);

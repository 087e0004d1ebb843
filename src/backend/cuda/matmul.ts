/**
 * Matrix products on a CUDA device: cuBLAS for floats, through the shim, and kernels of
 * shim/cuda/kernels/matmul.h for all other dtypes.
 *
 * @module
 */
import {
  type GemmProblem,
  type MatrixBatch,
  matrixBatch,
  offsetsOf,
} from "../../ops/matmul/problem.ts";
import { DTYPE, type DTypeInfo, DTYPES } from "../../base/dtype.ts";
import { Layout } from "../../base/layout.ts";
import { MAP } from "../../table/table.ts";
import { planMap } from "../../base/plan.ts";
import type { Operand } from "../../memory/operand.ts";
import type { Storage } from "../../memory/storage.ts";
import { CUDA_MATMUL, STATUS } from "../ffi/abi.ts";
import { checkRun } from "../ffi/checks.ts";
import { checkProduct, planProduct } from "../ffi/matrices.ts";
import { CONSTANTS } from "./source/constants.ts";
import { Arguments, type CudaDevice, familyOf, kernelOf, type KernelVariant } from "./device.ts";
import { map } from "./maps.ts";
import { withWorkspace } from "../../memory/workspace.ts";
import { type Family, suffixOf } from "./source/mod.ts";

const { THREADS } = CONSTANTS["device.h"];
const { MATMUL_TILE: TILE } = CONSTANTS["matmul.h"];
/** The most blocks along y; each of them loops over the rest. */
const MOST_BLOCKS_Y = 65535;

/** The lower bits of a product do not depend on signs. */
function multiplyKernel({ name, kind, bytes }: DTypeInfo): KernelVariant {
  const type = kind === "f"
    ? `rm_${suffixOf(name)}`
    : `rm_integer<uint${8 * bytes}_t, uint${Math.max(32, 8 * bytes)}_t>`;
  const made = `multiply_${kind === "f" ? name : bytes}`;
  return { name: made, header: "matmul.h", line: `RM_MULTIPLY(${made}, ${type})` };
}

/** Every kernel of this file. */
export function matmulFamily(): Family {
  const infos = DTYPES.map((dtype) => DTYPE[dtype]);
  return familyOf(infos.filter(({ kind }) => kind === "u" || kind === "f").map(multiplyKernel));
}

const args = new Arguments();
let plan = new Float64Array(128);

/**
 * Positions of addresses, flags and the bias, and of the starts of matrices, in a plan for
 * rm_cuda_matmul.
 */
const ADDRESSES = 10, STARTS = 15;
/**
 * The required alignment of a bias: the choice of kernels that read several of its numbers at once
 * ignores its address.
 */
const BIAS_ALIGNMENT = 16;
let tf32 = false;

/**
 * Allows or forbids products of float32 to round operands to TF32; returns the previous setting.
 */
export function allowTF32(allow: boolean): boolean {
  const before = tf32;
  tf32 = allow;
  return before;
}

/** Queues the product; false for bytes with an int32 result if cuBLAS has no kernel for them. */
export function matmul(device: CudaDevice, product: GemmProblem): boolean {
  const { info } = product.c.storage;
  if (info !== product.a.storage.info) return multiplyBytes(device, product);
  if (info.kind !== "f" || !multiplyByBlas(device, product, 0)) multiplyByTiles(device, product);
  return true;
}

/** Queues the product plus `bias`, one element per column; false if cuBLAS cannot do it. */
export function linear(device: CudaDevice, product: GemmProblem, bias: Operand): boolean {
  const { storage, layout: { offset } } = bias;
  const { info } = storage;
  // The documentation of cublasLt does not cover epilogues of float64 products in all versions.
  if (info.kind !== "f" || info.bytes === 8) return false;
  checkRun("rm_cuda_matmul", 3, offset, product.n, storage);
  const address = storage.address + offset * info.bytes;
  if (address % BIAS_ALIGNMENT === 0) return multiplyByBlas(device, product, address);
  let done = false;
  withWorkspace(storage, [[info.name, product.n]], ([aligned]) => {
    const row = Layout.contiguous([product.n]);
    copy(device, aligned!, row, storage, Layout.contiguous([product.n], offset));
    done = multiplyByBlas(device, product, aligned!.address);
  });
  return done;
}

/**
 * Computes the product by cuBLAS, with dense copies of operands that it cannot read, plus the
 * elements at `bias`, which may be 0. False if cuBLAS has no kernel.
 */
function multiplyByBlas(device: CudaDevice, product: GemmProblem, bias: number): boolean {
  const status = callBlas(device, product, bias);
  if (status !== STATUS.unsupported) return status === STATUS.ok;
  const { c, a, b } = product;
  let done = false;
  withDense(
    device,
    a,
    true,
    (x) =>
      withDense(device, b, true, (y) =>
        withDense(device, c, false, (z) => {
          if (z === c && x === a && y === b) return;
          done = callBlas(device, { ...product, a: x, b: y, c: z }, bias) === STATUS.ok;
          if (done && z !== c) copy(device, c.storage, c.layout, z.storage, z.layout);
        })),
  );
  return done;
}

/** Queues the product by cuBLAS; returns "unsupported" or "not found" if there is none. */
function callBlas(device: CudaDevice, product: GemmProblem, bias: number): number {
  plan = planProduct("rm_cuda_matmul", plan, product, STARTS);
  const [c, a, b] = [product.c.storage, product.a.storage, product.b.storage];
  const flags = (tf32 ? CUDA_MATMUL.tf32 : 0) | (bias === 0 ? 0 : CUDA_MATMUL.addBias);
  plan.set([c.address, a.address, b.address, flags, bias], ADDRESSES);
  const status = device.shim.rm_cuda_matmul(device.index, a.info.id, plan);
  if (status !== STATUS.unsupported && status !== STATUS.notFound) {
    device.check("rm_cuda_matmul", status);
  }
  return status;
}

/** True if cuBLAS can read or write the matrices in place. */
function isPlain({ layout, rowStride, columnStride }: MatrixBatch, read: boolean): boolean {
  const [rows, columns] = layout.shape.slice(-2) as [number, number];
  return (columnStride === 1 && rowStride >= columns) ||
    (read && rowStride === 1 && columnStride >= rows);
}

/** The number of rows from which the copy of `b` below costs less than it saves. */
const MANY_ROWS = 32;

/**
 * Computes a product of int8 matrices by cuBLAS; false if it has no kernel. Tensor cores take
 * matrices in which the summed elements are adjacent; for others, cuBLAS has kernels that take 12
 * times as long on an H200.
 */
function multiplyBytes(device: CudaDevice, product: GemmProblem): boolean {
  const { a, b, m } = product;
  if (m < MANY_ROWS || a.columnStride !== 1 || b.rowStride === 1) {
    return callBlas(device, product, 0) === STATUS.ok;
  }
  let done = false;
  withDenseColumns(device, b, (y) => {
    done = callBlas(device, { ...product, b: y }, 0) === STATUS.ok;
  });
  return done;
}

/** Calls `use` with copies of the matrices that lie by columns. */
function withDenseColumns(
  device: CudaDevice,
  { storage, layout }: MatrixBatch,
  use: (dense: MatrixBatch) => void,
): void {
  const once = withoutRepeats(layout);
  const dense = Layout.contiguous(once.swapAxes(-2, -1).shape).swapAxes(-2, -1);
  withWorkspace(storage, [[storage.info.name, dense.size]], ([made]) => {
    copy(device, made!, dense, storage, once);
    use(matrixBatch(made!, dense.broadcastTo(layout.shape)));
  });
}

/** The layout with each matrix once that broadcasts over axes of the batch. */
function withoutRepeats({ shape, strides, offset, rank }: Layout): Layout {
  const once = shape.map((n, axis) => axis < rank - 2 && strides[axis] === 0 ? 1 : n);
  return new Layout(once, strides, offset);
}

/** Calls `use` with the matrices or, if they are not plain, with dense ones: copies, if `read`. */
function withDense(
  device: CudaDevice,
  matrices: MatrixBatch,
  read: boolean,
  use: (dense: MatrixBatch) => void,
): void {
  if (isPlain(matrices, read)) return use(matrices);
  const { storage, layout } = matrices;
  const once = read ? withoutRepeats(layout) : layout;
  const dense = Layout.contiguous(once.shape);
  withWorkspace(storage, [[storage.info.name, dense.size]], ([made]) => {
    if (read) copy(device, made!, dense, storage, once);
    use(matrixBatch(made!, dense.broadcastTo(layout.shape)));
  });
}

function copy(
  device: CudaDevice,
  out: Storage,
  target: Layout,
  source: Storage,
  layout: Layout,
): void {
  const plan = planMap(target, layout, null, null);
  map(device, MAP.copy, source.info.name, plan, out, source, null, null);
}

function multiplyByTiles(device: CudaDevice, product: GemmProblem): void {
  checkProduct("rm_cuda_launch", product);
  const { m, n, k, c, a, b } = product;
  const { info } = c.storage;
  const { batch } = c;
  withOffsets(device, [c, a, b], (lists) => {
    args.clear();
    [c, a, b].forEach((matrices, i) => addMatrices(matrices, lists[i]!));
    args.integer(m).integer(n).integer(k).integer(batch);
    const blocks = Math.ceil(m / TILE) * Math.ceil(n / TILE);
    const extent = [blocks, Math.min(batch, MOST_BLOCKS_Y)] as const;
    device.launch(kernelOf(device, multiplyKernel(info)), extent, [THREADS], args);
  });
}

/** The distance between matrices, or NaN if it varies. */
function stepOf({ layout: { shape, strides } }: MatrixBatch): number {
  let step = 0, count = 1;
  for (let axis = shape.length - 3; axis >= 0; axis--) {
    if (shape[axis] === 1) continue;
    if (count === 1) step = strides[axis]!;
    else if (strides[axis] !== count * step) return NaN;
    count *= shape[axis]!;
  }
  return step;
}

/**
 * Calls `use` with the address of a list of offsets for each batch that needs one, and 0 for the
 * others.
 */
function withOffsets(
  device: CudaDevice,
  batches: readonly MatrixBatch[],
  use: (lists: readonly number[]) => void,
): void {
  const listed = batches.filter((matrices) => Number.isNaN(stepOf(matrices)));
  if (listed.length === 0) return use(batches.map(() => 0));
  const length = listed[0]!.batch;
  const all = BigInt64Array.from(listed.flatMap((one) => Array.from(offsetsOf(one), BigInt)));
  device.workspace(all.byteLength, (address) => {
    device.upload(address, all);
    use(batches.map((one) => {
      const place = listed.indexOf(one);
      return place < 0 ? 0 : address + 8 * place * length;
    }));
  });
}

/** Adds a struct rm_matrix. */
function addMatrices(matrices: MatrixBatch, list: number): void {
  const { storage, layout, rowStride, columnStride } = matrices;
  const first = list === 0 ? layout.offset : 0;
  args.address(storage, first).integer(rowStride).integer(columnStride)
    .integer(list === 0 ? stepOf(matrices) : 0).integer(list);
}

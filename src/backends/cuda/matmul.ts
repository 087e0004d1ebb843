/**
 * Products of matrices on a CUDA device: cuBLAS for floats, by the shim, and kernels of
 * shim/cuda/matmul.h for all else.
 *
 * @module
 */
import type { MatrixRef, Product } from "../../backend.ts";
import type { DTypeInfo } from "../../dtype.ts";
import type { Storage } from "../../storage.ts";
import { STATUS } from "../shim/abi.ts";
import { checkRun } from "../shim/checks.ts";
import { planProduct } from "../shim/matrices.ts";
import { Arguments, type CudaDevice, type Family } from "./device.ts";
import { familyOf, type Instance, kernelOf } from "./instance.ts";

/** As in matmul.h: rows and columns of a block's tile, and its threads. */
const TILE = 64, THREADS = 256;
/** The most blocks along y, which go round then. */
const MOST_BLOCKS_Y = 65535;
/** The most blocks of a copy, which go round then. */
const MOST_BLOCKS = 2 ** 20;

const FLOATS: Record<string, string> = {
  float16: "rm_f16",
  bfloat16: "rm_bf16",
  float32: "rm_f32",
  float64: "rm_f64",
};

/** Signs do not matter to the lower bits of a product. */
function multiplyKernel({ name, bytes }: Pick<DTypeInfo, "bytes"> & { name: string }): Instance {
  const float = FLOATS[name];
  const type = float ?? `rm_integer<uint${8 * bytes}_t, uint${Math.max(32, 8 * bytes)}_t>`;
  const made = `multiply_${float === undefined ? bytes : name}`;
  return { name: made, header: "matmul.h", line: `RM_MULTIPLY(${made}, ${type})` };
}

function copyKernel({ bytes }: Pick<DTypeInfo, "bytes">): Instance {
  const name = `copy_matrices_${bytes}`;
  return { name, header: "matmul.h", line: `RM_COPY_MATRICES(${name}, uint${8 * bytes}_t)` };
}

/** Every kernel that {@link matmul} uses. */
export function matmulFamily(): Family {
  const sizes = [1, 2, 4, 8];
  const integers = sizes.map((bytes) => multiplyKernel({ name: "integer", bytes }));
  const floats = Object.keys(FLOATS).map((name) => multiplyKernel({ name, bytes: 0 }));
  return familyOf([...integers, ...floats, ...sizes.map((bytes) => copyKernel({ bytes }))]);
}

/** A batch of matrices in device memory. */
interface Matrices {
  readonly address: number;
  readonly offsets: readonly number[];
  readonly rowStride: number;
  readonly columnStride: number;
}

/** A product on a device, whose matrices may lie in no storage; info is of what is multiplied. */
interface DeviceProduct {
  readonly device: CudaDevice;
  readonly info: DTypeInfo;
  readonly m: number;
  readonly n: number;
  readonly k: number;
  readonly c: Matrices;
  readonly a: Matrices;
  readonly b: Matrices;
  /** Where the elements lie that are added to each row, or 0. */
  readonly bias: number;
}

function matricesOf({ storage, offsets, rowStride, columnStride }: MatrixRef): Matrices {
  return { address: storage.address, offsets, rowStride, columnStride };
}

/** The product, once it is sure that all matrices lie within their storages. */
function onDevice(device: CudaDevice, product: Product, bias = 0): DeviceProduct {
  plan = planProduct("rm_cuda_matmul", plan, product, STARTS);
  const { m, n, k, c, a, b } = product;
  const { info } = a.storage;
  return { device, info, m, n, k, c: matricesOf(c), a: matricesOf(a), b: matricesOf(b), bias };
}

const args = new Arguments();
let plan = new Float64Array(128);

/** Where rm_cuda_matmul finds the starts of matrices in a plan. */
const STARTS = 15;
/** Flags of rm_cuda_matmul. */
const TF32 = 1, ADD_BIAS = 2;
let tf32 = false;

/** Lets products of float32 round operands to TF32, or not; gives what was set before. */
export function allowTF32(allow: boolean): boolean {
  const before = tf32;
  tf32 = allow;
  return before;
}

/** See {@link Backend.matmul}. */
export function matmul(device: CudaDevice, product: Product): void {
  const placed = onDevice(device, product);
  if (placed.info.kind !== "f" || !multiplyByBlas(placed)) multiplyByTiles(placed);
}

/** See {@link Backend.matmulBytes}. */
export function matmulBytes(device: CudaDevice, product: Product): boolean {
  return callBlas(onDevice(device, product)) === STATUS.ok;
}

/** See {@link Backend.linear}. */
export function linear(
  device: CudaDevice,
  product: Product,
  bias: Storage,
  offset: number,
): boolean {
  const { info } = bias;
  // What cublasLt adds to products of float64 is not documented for all versions.
  if (info.kind !== "f" || info.bytes === 8) return false;
  checkRun("rm_cuda_matmul", 3, offset, product.n, bias);
  return multiplyByBlas(onDevice(device, product, bias.address + offset * info.bytes));
}

/**
 * The product by cuBLAS, of dense copies where it cannot read the operands. False where cuBLAS has
 * nothing for it.
 */
function multiplyByBlas(product: DeviceProduct): boolean {
  const status = callBlas(product);
  if (status !== STATUS.unsupported) return status === STATUS.ok;
  const { m, n, k, a, b, c } = product;
  let done = false;
  withDense(
    product,
    a,
    m,
    k,
    true,
    (x) =>
      withDense(product, b, k, n, true, (y) =>
        withDense(product, c, m, n, false, (z) => {
          if (z === c && x === a && y === b) return;
          done = callBlas({ ...product, a: x, b: y, c: z }) === STATUS.ok;
          if (done && z !== c) copyMatrices(product, m, n, c, z);
        })),
  );
  return done;
}

/** Queues the product by cuBLAS; "unsupported" or "not found" when there is none. */
function callBlas({ device, info, m, n, k, c, a, b, bias }: DeviceProduct): number {
  const batch = c.offsets.length;
  const flags = (tf32 ? TF32 : 0) | (bias === 0 ? 0 : ADD_BIAS);
  const head = [m, n, k, batch];
  for (const { rowStride, columnStride } of [c, a, b]) head.push(rowStride, columnStride);
  plan.set([...head, c.address, a.address, b.address, flags, bias]);
  [c, a, b].forEach(({ offsets }, i) => plan.set(offsets, STARTS + i * batch));
  const status = device.shim.rm_cuda_matmul(device.index, info.id, plan);
  if (status !== STATUS.unsupported && status !== STATUS.notFound) {
    device.check("rm_cuda_matmul", status);
  }
  return status;
}

/** True when cuBLAS reads the matrices as they are, or those that it writes. */
function isPlain(matrices: Matrices, rows: number, columns: number, read: boolean): boolean {
  const { rowStride, columnStride } = matrices;
  return (columnStride === 1 && rowStride >= columns) ||
    (read && rowStride === 1 && columnStride >= rows);
}

/** Calls `use` with the matrices or, where they are not plain, with dense ones: copies, if `read`. */
function withDense(
  product: DeviceProduct,
  matrices: Matrices,
  rows: number,
  columns: number,
  read: boolean,
  use: (dense: Matrices) => void,
): void {
  if (isPlain(matrices, rows, columns, read)) return use(matrices);
  const { offsets } = matrices;
  // A matrix that is broadcast over the batch is copied once.
  const same = read && offsets.every((offset) => offset === offsets[0]);
  const size = rows * columns;
  const count = same ? 1 : offsets.length;
  product.device.scratch(size * product.info.bytes * count, (address) => {
    const dense = {
      address,
      offsets: offsets.map((_, i) => same ? 0 : i * size),
      rowStride: columns,
      columnStride: 1,
    };
    if (read) {
      const first = (list: Matrices): Matrices => ({
        ...list,
        offsets: list.offsets.slice(0, count),
      });
      copyMatrices(product, rows, columns, first(dense), first(matrices));
    }
    use(dense);
  });
}

function copyMatrices(
  { device, info }: DeviceProduct,
  rows: number,
  columns: number,
  to: Matrices,
  from: Matrices,
): void {
  const batch = to.offsets.length;
  withOffsets(device, [to, from], (lists) => {
    args.clear();
    addMatrices(to, info, lists[0]!);
    addMatrices(from, info, lists[1]!);
    args.integer(rows).integer(columns).integer(batch);
    const blocks = Math.min(MOST_BLOCKS, Math.ceil(rows * columns * batch / THREADS));
    device.launch(kernelOf(device, copyKernel(info), matmulFamily), [blocks], [THREADS], args);
  });
}

function multiplyByTiles({ device, info, m, n, k, c, a, b }: DeviceProduct): void {
  const batch = c.offsets.length;
  withOffsets(device, [c, a, b], (lists) => {
    args.clear();
    [c, a, b].forEach((matrices, i) => addMatrices(matrices, info, lists[i]!));
    args.integer(m).integer(n).integer(k).integer(batch);
    const blocks = Math.ceil(m / TILE) * Math.ceil(n / TILE);
    const extent = [blocks, Math.min(batch, MOST_BLOCKS_Y)] as const;
    device.launch(kernelOf(device, multiplyKernel(info), matmulFamily), extent, [THREADS], args);
  });
}

/** From each offset to the next, or NaN where that differs. */
function stepOf(offsets: readonly number[]): number {
  if (offsets.length === 1) return 0;
  const step = offsets[1]! - offsets[0]!;
  for (let i = 2; i < offsets.length; i++) if (offsets[i]! - offsets[i - 1]! !== step) return NaN;
  return step;
}

/** Calls `use` with the address of a list of offsets for each batch that needs one, else 0. */
function withOffsets(
  device: CudaDevice,
  batches: readonly Matrices[],
  use: (lists: readonly number[]) => void,
): void {
  const listed = batches.filter(({ offsets }) => Number.isNaN(stepOf(offsets)));
  if (listed.length === 0) return use(batches.map(() => 0));
  const { length } = listed[0]!.offsets;
  const all = BigInt64Array.from(listed.flatMap(({ offsets }) => offsets).map(BigInt));
  device.scratch(all.byteLength, (address) => {
    device.upload(address, all);
    use(batches.map((one) => {
      const place = listed.indexOf(one);
      return place < 0 ? 0 : address + 8 * place * length;
    }));
  });
}

/** Adds a struct rm_matrix. */
function addMatrices(matrices: Matrices, { bytes }: DTypeInfo, list: number): void {
  const { address, offsets, rowStride, columnStride } = matrices;
  const first = list === 0 ? offsets[0]! : 0;
  args.integer(address + first * bytes).integer(rowStride).integer(columnStride)
    .integer(list === 0 ? stepOf(offsets) : 0).integer(list);
}

/**
 * Quantized weights on a CUDA device: their numbers, and products of few rows by the blocks, by the
 * kernels of shim/cuda/kernels/quantized.h. More rows are multiplied by cuBLAS, by the numbers.
 *
 * @module
 */
import type { Activation } from "../../ops/linear/panels.ts";
import { copyInto, copyOf } from "../../core/dispatch.ts";
import { gemmProblem } from "../../ops/matmul/problem.ts";
import type { DType, DTypeInfo } from "../../base/dtype.ts";
import { Layout } from "../../base/layout.ts";
import { planMap } from "../../base/plan.ts";
import { isOperand, type Operand } from "../../memory/operand.ts";
import { recycle } from "../../memory/pool.ts";
import type { Storage } from "../../memory/storage.ts";
import type { Call, Input, MapOp } from "../../table/op.ts";
import { MAP } from "../../table/table.ts";
import { quantFormatOf } from "../../ops/quantized/dtypes.ts";
import { QUANT, type QuantFormat, type QuantName } from "../../ops/quantized/formats.ts";
import { checkRun } from "../ffi/checks.ts";
import { CONSTANTS } from "./source/constants.ts";
import { Arguments, type CudaDevice, familyOf, findKernel, type KernelVariant } from "./device.ts";
import { linear, matmul } from "./matmul.ts";
import { map } from "./maps.ts";
import { type Family, suffixOf } from "./source/mod.ts";
import { withWorkspace } from "../../memory/workspace.ts";

const SYMBOL = "rm_cuda_launch";
const { THREADS } = CONSTANTS["device.h"];
const { QUANT_COLUMNS, QUANT_WARPS } = CONSTANTS["quantized.h"];

/** Elements of a thread, and of a pack that it loads or stores at once. */
const CELL = 8, PACK = 4;
/** Elements of each column that a warp takes at a time. */
const STEP = 32 * CELL;
/** The rows of x that blocks take. */
const ROWS = [1, 2, 4, 8] as const;
/** With more rows it pays to dequantize the weight: blocks read it once for each 8 rows. */
const MOST_ROWS = 16;
/** Longer columns are beyond the 32-bit offsets of the kernels. */
const MOST_DEPTH = 2 ** 27;
/** Steps that keep a warp busy, and warps that keep a large device busy. */
const BUSY_STEPS = 4, BUSY_WARPS = 4096;
const FLOATS = ["float32", "float16", "bfloat16"] as const;

function dequantizer(format: QuantName, dtype: DType): KernelVariant {
  const name = `dequantize_${format}_${suffixOf(dtype)}`;
  const line = `RM_DEQUANTIZE(${name}, rm_${format}, rm_${suffixOf(dtype)})`;
  return { name, header: "quantized.h", line };
}

function multiplier(format: QuantName, dtype: DType, rows: number): KernelVariant {
  const name = `linear_${format}_${suffixOf(dtype)}_${rows}`;
  const line = `RM_LINEAR_QUANTIZED(${name}, rm_${format}, rm_${suffixOf(dtype)}, ${rows})`;
  return { name, header: "quantized.h", line };
}

/** The kernels that give numbers as float32. */
export function dequantizeFamily(): Family {
  return familyOf(Object.values(QUANT).map(({ name }) => dequantizer(name, "float32")));
}

/** All other kernels of a format. */
export function quantizedFamily(format: QuantName): Family {
  return familyOf([
    ...FLOATS.slice(1).map((dtype) => dequantizer(format, dtype)),
    ...FLOATS.flatMap((dtype) => ROWS.map((rows) => multiplier(format, dtype, rows))),
  ]);
}

const args = new Arguments();

/** The address of the block with element `offset`. */
function blockAddress({ address }: Storage, { size, bytes }: QuantFormat, offset: number): number {
  return address + offset / size * bytes;
}

/** Queues a write of the numbers of the blocks at `address` to a run that begins at a pack. */
function writeNumbers(
  device: CudaDevice,
  kernel: number,
  out: Storage,
  offset: number,
  address: number,
  elements: number,
): void {
  const cells = elements / CELL;
  args.clear().address(out, offset).integer(address).integer(cells);
  device.launch(kernel, [Math.ceil(cells / THREADS)], [THREADS], args);
}

/** Queues a write of the numbers of blocks, given as bytes; false if no kernel is available. */
export function dequantizeBlocks(device: CudaDevice, call: Call): boolean {
  const { format } = call.attributes as { readonly format: QuantName };
  const kernel = findKernel(device, dequantizer(format, "float32"));
  if (kernel === 0) return false;
  const [out, { storage, layout }] = [call.outputs[0]!, call.operand(0)];
  const { size } = out.layout;
  if (size === 0) return true;
  checkRun(SYMBOL, 0, out.layout.offset, size, out.storage);
  checkRun(SYMBOL, 1, layout.offset, layout.size, storage);
  const address = storage.address + layout.offset;
  if (out.layout.offset % PACK === 0) {
    writeNumbers(device, kernel, out.storage, out.layout.offset, address, size);
    return true;
  }
  withWorkspace(out.storage, [["float32", size]], ([made]) => {
    writeNumbers(device, kernel, made!, 0, address, size);
    copyInto(out, { storage: made!, layout: Layout.contiguous(out.layout.shape), flags: 0 });
  });
  return true;
}

/** True if the kernels of this file can run a call of `linearQuantized`. */
export function isQuantizedLinear(call: Call): boolean {
  const { shape, dtype } = call.specs[0]!;
  const { layout } = call.operand(1);
  return FLOATS.some((name) => name === dtype.name) && !shape.includes(0) &&
    layout.rank === 2 && layout.size > 0 && layout.shape[1]! <= MOST_DEPTH;
}

/**
 * `input` if it is contiguous, of the dtype `info`, and starts at a pack; else a copy that is, which
 * is added to `made`.
 */
function regular(input: Input, info: DTypeInfo, made: Storage[]): Operand | undefined {
  if (!isOperand(input)) return undefined;
  const { storage, layout: { contiguous, offset } } = input;
  if (storage.info === info && contiguous && offset % PACK === 0) return input;
  const copy = copyOf(input, info);
  made.push(copy.storage);
  return copy;
}

/** The operands of a product, [rows, depth] by [columns, depth], of one dtype. */
interface Product {
  readonly out: Operand;
  readonly x: Operand;
  readonly weight: Operand;
  readonly bias: Operand | undefined;
  readonly add: Operand | undefined;
  readonly format: QuantFormat;
  readonly rows: number;
  readonly columns: number;
  readonly depth: number;
}

/** Queues the product with its bias, activation and residual; false if no kernel is available. */
export function linearQuantized(device: CudaDevice, call: Call): boolean {
  const out = call.outputs[0]!, weight = call.operand(1);
  const { info } = out.storage;
  const format = quantFormatOf(weight.storage.info)!;
  const [columns, depth] = weight.layout.shape as [number, number];
  const rows = out.layout.size / columns;
  const few = rows <= MOST_ROWS;
  const block = ROWS.find((count) => count >= rows) ?? ROWS.at(-1)!;
  const kernel = findKernel(
    device,
    few ? multiplier(format.name, info.name, block) : dequantizer(format.name, info.name),
  );
  if (kernel === 0) return false;
  const { activation } = call.attributes as { readonly activation?: Activation | undefined };
  const copies: Storage[] = [];
  try {
    const x = regular(call.inputs[0], info, copies)!;
    const [bias, add] = [2, 3].map((k) => regular(call.inputs[k], info, copies));
    const product = { out, x, weight, bias, add, format, rows, columns, depth };
    checkRun(SYMBOL, 0, out.layout.offset, rows * columns, out.storage);
    checkRun(SYMBOL, 1, x.layout.offset, rows * depth, x.storage);
    checkRun(SYMBOL, 2, weight.layout.offset, columns * depth, weight.storage);
    if (bias !== undefined) checkRun(SYMBOL, 3, bias.layout.offset, columns, bias.storage);
    if (add !== undefined) checkRun(SYMBOL, 4, add.layout.offset, rows * columns, add.storage);
    let left = add;
    if (!few) multiplyNumbers(device, kernel, product);
    else {
      // The kernel adds a residual that comes after no activation.
      const now = activation === undefined ? add : undefined;
      multiplyBlocks(device, kernel, { ...product, add: now }, block);
      if (now !== undefined) left = undefined;
    }
    if (activation !== undefined) combine(device, MAP[activation], out, undefined);
    if (left !== undefined) combine(device, MAP.add, out, left);
  } finally {
    // The device runs queued work before any later use of the memory.
    for (const storage of copies) recycle(storage);
  }
  return true;
}

/** Queues out = op(out), or op(out, other). */
function combine(device: CudaDevice, op: MapOp, out: Operand, other: Operand | undefined): void {
  const { storage, layout } = out;
  const second = other === undefined ? null : other.layout.broadcastTo(layout.shape);
  const plan = planMap(layout, layout, second, null);
  map(device, op, storage.info.name, plan, storage, storage, other?.storage ?? null, null);
}

/**
 * The warps that share the columns of a block. Sums depend on it, so that it depends on nothing but
 * the size of the weight.
 */
function warpsFor(columns: number, depth: number): number {
  const steps = Math.ceil(depth / STEP), blocks = Math.ceil(columns / QUANT_COLUMNS);
  let warps = QUANT_WARPS;
  while (
    warps > 1 &&
    (warps > steps || warps * BUSY_STEPS > steps && blocks * warps / 2 >= BUSY_WARPS)
  ) warps /= 2;
  return warps;
}

function multiplyBlocks(device: CudaDevice, kernel: number, product: Product, block: number): void {
  const { out, x, weight, bias, add, format, rows, columns, depth } = product;
  args.clear().address(out.storage, out.layout.offset).address(x.storage, x.layout.offset)
    .integer(blockAddress(weight.storage, format, weight.layout.offset));
  for (const one of [bias, add]) args.address(one?.storage ?? null, one?.layout.offset);
  args.integer(columns).integer(depth).integer(rows);
  const blocks = [Math.ceil(columns / QUANT_COLUMNS), Math.ceil(rows / block)] as const;
  device.launch(kernel, blocks, [32 * warpsFor(columns, depth)], args);
}

/** Queues the product by the numbers of the weight in the dtype of x, plus the bias. */
function multiplyNumbers(device: CudaDevice, kernel: number, product: Product): void {
  const { out, x, weight, bias, format, rows, columns, depth } = product;
  const { storage: { info } } = out;
  const flat = ({ storage, layout }: Operand, width: number): Operand => (
    { storage, layout: Layout.contiguous([rows, width], layout.offset), flags: 0 }
  );
  withWorkspace(out.storage, [[info.name, columns * depth]], ([made]) => {
    const address = blockAddress(weight.storage, format, weight.layout.offset);
    writeNumbers(device, kernel, made!, 0, address, columns * depth);
    const numbers = {
      storage: made!,
      layout: Layout.contiguous([columns, depth]).swapAxes(0, 1),
      flags: 0,
    };
    const [result, given] = [flat(out, columns), flat(x, depth)];
    const gemm = gemmProblem(result, given, numbers);
    if (bias !== undefined && linear(device, gemm, bias)) return;
    matmul(device, gemm);
    if (bias !== undefined) combine(device, MAP.add, result, bias);
  });
}

/**
 * The kernels of the shim that are no expression of the table: what each supports, and how a call is
 * handed over. Every operand is checked against its storage first, as C does not.
 *
 * @module
 */
import { planMap } from "../../base/plan.ts";
import {
  alongAxis,
  type Blocks,
  gatherBlocks,
  hasIndexTensor,
  scatterBlocks,
} from "../../core/blocks.ts";
import { copyInto } from "../../core/dispatch.ts";
import { gemmOf, isPlainGemm } from "../../core/gemm.ts";
import { isRowCall, type RowKernel, rowsOf } from "../../core/row_kernels.ts";
import type { Operand } from "../../memory/operand.ts";
import type { Storage } from "../../memory/storage.ts";
import { type RandomAttributes, type SortAttributes, sortsLastAxis } from "../../ops/kernels.ts";
import type { Call } from "../../ops/op.ts";
import { ALONG_ROWS, MOVE, NO_DTYPE, RANDOM, type Shim, STATUS } from "../ffi/abi.ts";
import { checkBlocks, checkOperand, checkRun, movesNothing } from "../ffi/checks.ts";
import { planProduct } from "../ffi/matrices.ts";

/** A kernel of the shim. */
export interface Kernel {
  /** Whether it can run the call. */
  supports(call: Call): boolean;
  /** Runs it; gives the status. */
  run(shim: Shim, call: Call): number;
}

/** The numbers of a call. */
const numbers = new Float64Array(5);
let matrices = new Float64Array(64);

const always = (): boolean => true;

function moveBlocks(shim: Shim, what: number, call: Call, blocks: Blocks): number {
  const { plan, out, source, step } = blocks;
  const { indices, offset, count, size, stride } = blocks.index;
  if (movesNothing(blocks)) return STATUS.unsupported;
  const [ahead, back] = what === MOVE.gather
    ? [(count - 1) * step, (size - 1) * stride]
    : [(size - 1) * stride, (count - 1) * step];
  checkBlocks("rm_move", plan, 0, out, ahead);
  checkBlocks("rm_move", plan, 1, source, back);
  checkRun("rm_move", 2, offset, count, indices);
  numbers[0] = offset;
  numbers[1] = count;
  numbers[2] = size;
  numbers[3] = stride;
  numbers[4] = step;
  const dtypes = out.info.id | indices.info.id << 4;
  const { data } = plan;
  const status = shim.rm_move(what, dtypes, data, numbers, out.array, source.array, indices.array);
  call.badIndex = numbers[0]!;
  return status;
}

function ravelIndex(shim: Shim, call: Call): number {
  const [positions, index] = [call.operand(0), call.operand(1)];
  const plan = planMap(positions.layout, index.layout, null, null);
  if (plan.size === 0) return STATUS.unsupported;
  checkOperand("rm_move", plan, 0, positions.storage);
  checkOperand("rm_move", plan, 1, index.storage);
  numbers[0] = call.attributes.size;
  numbers[1] = call.attributes.stride;
  const dtypes = positions.storage.info.id | index.storage.info.id << 4;
  const { array } = positions.storage;
  const status = shim.rm_move(
    MOVE.position,
    dtypes,
    plan.data,
    numbers,
    array,
    null,
    index.storage.array,
  );
  call.badIndex = numbers[0]!;
  return status;
}

function takeAlongAxis(shim: Shim, call: Call): number {
  const { plan, size, stride } = alongAxis(call);
  const [out, source] = [call.outputs[0]!.storage, call.operand(0).storage];
  const indices = call.operand(1).storage;
  if (plan.size === 0 || size === 0) return STATUS.unsupported;
  checkOperand("rm_move", plan, 0, out);
  checkBlocks("rm_move", plan, 1, source, (size - 1) * stride);
  checkOperand("rm_move", plan, 2, indices);
  numbers[0] = size;
  numbers[1] = stride;
  const dtypes = out.info.id | indices.info.id << 4;
  const { data } = plan;
  const status = shim.rm_move(
    MOVE.takeAlong,
    dtypes,
    data,
    numbers,
    out.array,
    source.array,
    indices.array,
  );
  call.badIndex = numbers[0]!;
  return status;
}

function nonzeroIndices(shim: Shim, call: Call): number {
  const { storage, layout: { offset, size } } = call.operand(0);
  const out = call.outputs[0]!.storage;
  if (size === 0) return STATUS.unsupported;
  checkRun("rm_move", 1, offset, size, storage);
  numbers[0] = offset;
  numbers[1] = size;
  numbers[2] = out.array.length;
  const dtypes = storage.info.id | NO_DTYPE << 4;
  return shim.rm_move(MOVE.nonzero, dtypes, null, numbers, out.array, storage.array, null);
}

/** Sorts the runs of `values` in place or, with `order`, writes the order that would. */
function sortRuns(shim: Shim, call: Call, values: Operand, order: Storage | null): number {
  const { storage, layout: { offset, shape, size } } = values;
  const length = shape.at(-1)!;
  checkRun("rm_sort", 0, offset, size, storage);
  if (order !== null) checkRun("rm_sort", 1, 0, size, order);
  numbers[0] = offset;
  numbers[1] = size / length;
  numbers[2] = length;
  const flags = (call.attributes as SortAttributes).descending ? 1 : 0;
  return shim.rm_sort(storage.info.id, flags, numbers, storage.array, order && order.array);
}

function random(shim: Shim, call: Call): number {
  const { distribution, key: [key0, key1], low, high } = call.attributes as RandomAttributes;
  const out = call.operand(0).storage;
  const { length } = out.array;
  if (length === 0) return STATUS.unsupported;
  const words = new BigInt64Array([0n, low, high - low]);
  const halves = new Int32Array(words.buffer);
  halves[0] = key0;
  halves[1] = key1;
  return shim.rm_random(out.info.id, RANDOM[distribution], halves, length, out.array);
}

function matmul(shim: Shim, call: Call): number {
  const problem = gemmOf(call);
  matrices = planProduct("rm_matmul", matrices, problem, 10);
  const { c, a, b } = problem;
  const { id } = c.storage.info;
  return shim.rm_matmul(id, matrices, c.storage.array, a.storage.array, b.storage.array);
}

/** Softmax and norms along contiguous rows of floats. */
function alongRows(shim: Shim, call: Call): number {
  const [out, x] = [call.outputs[0]!.storage, call.operand(0)];
  const { rows, columns, weight, bias, epsilon } = rowsOf(call);
  const { offset } = x.layout;
  checkRun("rm_rows", 0, 0, rows * columns, out);
  checkRun("rm_rows", 1, offset, rows * columns, x.storage);
  if (weight !== null) checkRun("rm_rows", 2, 0, columns, weight);
  if (bias !== null) checkRun("rm_rows", 3, 0, columns, bias);
  numbers[0] = rows;
  numbers[1] = columns;
  numbers[2] = offset;
  numbers[3] = epsilon;
  return shim.rm_rows(
    ALONG_ROWS[call.op.name as RowKernel],
    out.info.id,
    numbers,
    out.array,
    x.storage.array,
    weight === null ? null : weight.array,
    bias === null ? null : bias.array,
  );
}

const rows: Kernel = { supports: isRowCall, run: alongRows };

/** The kernels by the names of their ops. */
export const KERNELS: ReadonlyMap<string, Kernel> = new Map(Object.entries(
  {
    gather: {
      supports: always,
      run: (shim, call) => moveBlocks(shim, MOVE.gather, call, gatherBlocks(call)),
    },
    scatter: {
      supports: always,
      run: (shim, call) => moveBlocks(shim, MOVE.scatter, call, scatterBlocks(call)),
    },
    scatterAdd: {
      supports: always,
      run: (shim, call) => moveBlocks(shim, MOVE.addAt, call, scatterBlocks(call)),
    },
    ravelIndex: { supports: always, run: ravelIndex },
    takeAlongAxis: { supports: hasIndexTensor, run: takeAlongAxis },
    nonzeroIndices: { supports: always, run: nonzeroIndices },
    sort: {
      supports: sortsLastAxis,
      run: (shim, call) => {
        const [out] = call.outputs;
        copyInto(out!, call.operand(0));
        return sortRuns(shim, call, out!, null);
      },
    },
    argsort: {
      supports: sortsLastAxis,
      run: (shim, call) => sortRuns(shim, call, call.operand(0), call.outputs[0]!.storage),
    },
    random: { supports: always, run: random },
    matmul: { supports: isPlainGemm, run: matmul },
    softmax: rows,
    logSoftmax: rows,
    layerNorm: rows,
    rmsNorm: rows,
  } satisfies Record<string, Kernel>,
));

/**
 * Attention of 16-bit floats on a CUDA device, by the kernels of shim/cuda/kernels/attention.h;
 * other calls are decomposed. Rows in which hidden keys and values made NaN are computed again.
 *
 * @module
 */
import {
  type AttentionAttributes,
  attentionOf,
  type AttentionProblem,
  attentionRowsOf,
  type AttentionSizes,
  type HeadBatch,
} from "../../ops/attention/problem.ts";
import { copyInto } from "../../core/dispatch.ts";
import { DTYPE, type DType, DTYPES } from "../../base/dtype.ts";
import { Layout } from "../../base/layout.ts";
import type { Operand } from "../../memory/operand.ts";
import { Call } from "../../table/op.ts";
import { checkLayout } from "../ffi/checks.ts";
import { CONSTANTS } from "./source/constants.ts";
import { Arguments, type CudaDevice, familyOf, findKernel, type KernelVariant } from "./device.ts";
import { type Family, suffixOf } from "./source/mod.ts";
import { withWorkspace } from "../../memory/workspace.ts";

const { ATTENTION_AXES: AXES } = CONSTANTS["attention.h"];
/** The first compute capability with the instructions of the kernels, times 10. */
const OLDEST = 80;
/** Elements of a chunk of 16 bytes, in which rows are read. */
const CHUNK = 8;
/** 64 rows that are less than this apart are within reach of 32-bit offsets. */
const FAR = 2 ** 24;

/** How a block is divided. */
interface Shape {
  /** The most columns of queries, keys and values; a multiple of 16. */
  readonly columns: number;
  /** Keys that it processes at a time. */
  readonly keys: number;
  readonly warps: number;
  /** Tiles of 16 queries of each warp: more need less from shared memory, but more registers. */
  readonly tiles: number;
  /** Blocks for whose registers a multiprocessor should have room. */
  readonly blocks: number;
}

const SHAPES: readonly Shape[] = [
  { columns: 32, keys: 64, warps: 4, tiles: 2, blocks: 2 },
  { columns: 64, keys: 64, warps: 4, tiles: 2, blocks: 2 },
  { columns: 80, keys: 32, warps: 4, tiles: 2, blocks: 2 },
  { columns: 96, keys: 32, warps: 4, tiles: 2, blocks: 2 },
  { columns: 128, keys: 32, warps: 4, tiles: 2, blocks: 2 },
];
/**
 * Fewer queries in each of more blocks give the same bits, as keys are added in the same order.
 */
const FEW_SHAPES = SHAPES.map((shape): Shape => ({ ...shape, tiles: 1, blocks: 3 }));
/** The elements of a mask need registers. */
const MASKED_SHAPES = SHAPES.map((shape): Shape => ({ ...shape, tiles: 1, blocks: 2 }));
/** Fewer blocks than these leave parts of a large device idle. */
let busyBlocks = 256;
const MOST_COLUMNS = SHAPES.at(-1)!.columns;
/** The columns of most models. */
const USUAL_COLUMNS: readonly number[] = [64, 128];
/**
 * A block takes a microsecond for 64 keys. Fewer problems than these leave most of a large device
 * idle, so that many keys take longer than in the parts of the decomposition.
 */
const BUSY_PROBLEMS = 32, FEW_KEYS = 2048;

/** Sets the number of blocks from which on each has more queries, for tests; returns the old one. */
export function setBusyBlocks(count: number): number {
  const before = busyBlocks;
  busyBlocks = count;
  return before;
}

function instanceOf(dtype: DType, shape: Shape): KernelVariant {
  const { columns, keys, warps, tiles, blocks } = shape;
  const masked = MASKED_SHAPES.includes(shape);
  const kind = masked ? "_mask" : FEW_SHAPES.includes(shape) ? "_few" : "";
  const name = `attention_${dtype}_${columns}${kind}`;
  const what = `${name}, rm_${suffixOf(dtype)}, ${columns}, ${masked}`;
  const line = `RM_ATTENTION(${what}, ${keys}, ${warps}, ${tiles}, ${blocks})`;
  return { name, header: "attention.h", line };
}

/** The kernels for `dtype`, a 16-bit float; with `usual`, those of most calls. */
export function attentionFamily(dtype: DType, usual: boolean): Family {
  const shapes = [...SHAPES, ...FEW_SHAPES, ...MASKED_SHAPES];
  return familyOf(
    shapes.filter(({ columns }) => !usual || USUAL_COLUMNS.includes(columns))
      .map((shape) => instanceOf(dtype, shape)),
  );
}

/** Warps of a block of the kernels for rows with NaN, each of which has a row. */
const SEEN_WARPS = 4;

/** The kernel for rows with NaN of a dtype. */
function seenKernel(dtype: DType): KernelVariant {
  const name = `attention_seen_${dtype}`;
  return { name, header: "attention.h", line: `RM_ATTENTION_SEEN(${name}, rm_${suffixOf(dtype)})` };
}

/** The kernels for rows with NaN. */
export function attentionSeenFamily(): Family {
  const floats = DTYPES.filter((dtype) => DTYPE[dtype].kind === "f");
  return familyOf(floats.map(seenKernel));
}

/** Queues the kernel that computes rows with NaN again; false if none is available. */
export function attentionRows(device: CudaDevice, call: Call): boolean {
  const problem = attentionRowsOf(call);
  return problem.softCap === undefined && attendSeen(device, problem);
}

function attendSeen(device: CudaDevice, problem: AttentionProblem): boolean {
  const kernel = findKernel(device, seenKernel(problem.out.matrices.storage.info.name));
  if (kernel === 0) return false;
  const blocks = (heads: number): number => Math.ceil(problem.m * heads / SEEN_WARPS);
  launchHeads(device, kernel, problem, blocks, SEEN_WARPS);
  return true;
}

/** The number of heads of queries. */
function headsOf(call: Call): number {
  return call.specs[0]!.shape.slice(0, -2).reduce((x, y) => x * y, 1);
}

function shapeFor(call: Call): Shape {
  const { d, dv, m } = call.memo as AttentionSizes;
  const first = SHAPES.findIndex(({ columns }) => Math.max(d, dv) <= columns);
  if (call.inputs[3] !== undefined) return MASKED_SHAPES[first]!;
  const shape = SHAPES[first]!;
  return headsOf(call) * blocksOf(shape, m) < busyBlocks ? FEW_SHAPES[first]! : shape;
}

/** The blocks of each head of queries. */
function blocksOf({ warps, tiles }: Shape, m: number): number {
  return Math.ceil(m / (16 * warps * tiles));
}

/** True if a kernel can run the call on a device that is new enough. */
export function isTensorCoreAttention(call: Call): boolean {
  const { shape, dtype } = call.specs[0]!;
  if (dtype.kind !== "f" || dtype.bytes !== 2 || shape.includes(0)) return false;
  for (let k = 0; k < 3; k++) if (call.operand(k).storage.info !== dtype) return false;
  const { groupSize, m, n, d, dv } = call.memo as AttentionSizes;
  for (const columns of [d, dv]) {
    if (columns === 0 || columns > MOST_COLUMNS || columns % CHUNK !== 0) return false;
  }
  // Positions of queries and keys are 32-bit integers, also beyond the last ones.
  if (n === 0 || m > 2 ** 30 || n > 2 ** 30) return false;
  const heads = headsOf(call);
  const blocks = blocksOf(shapeFor(call), m);
  if (n > FEW_KEYS && heads / groupSize * blocks < BUSY_PROBLEMS) return false;
  if (heads * blocks >= 2 ** 31) return false;
  // Kernels compare scores before they scale them, in base 2.
  const { scale, softCap } = call.attributes as AttentionAttributes;
  if (softCap !== undefined) return false;
  const factor = Math.abs(Math.fround(scale * Math.LOG2E));
  if (!(factor >= 2 ** -126 && factor < Infinity && Number.isFinite(Math.fround(scale)))) {
    return false;
  }
  const mask = call.inputs[3] as Operand | undefined;
  if (mask === undefined) return true;
  const { info, device } = mask.storage;
  return device === call.operand(0).storage.device &&
    (info.kind === "b" || info === dtype || info.name === "float32");
}

/** True if all rows can be read, or written, in chunks, and are less than FAR elements apart. */
function isAligned({ storage, layout: { shape, strides, offset, rank } }: Operand): boolean {
  const last = rank - 1;
  return Math.abs(strides[last - 1]!) < FAR && strides[last] === 1 &&
    (storage.address + offset * storage.info.bytes) % (CHUNK * storage.info.bytes) === 0 &&
    strides.every((stride, axis) => axis === last || shape[axis] === 1 || stride % CHUNK === 0);
}

const args = new Arguments();

/** Queues the kernel; false if none is available. */
export function attention(device: CudaDevice, call: Call): boolean {
  if (!(device.capability >= OLDEST)) return false;
  const { dtype } = call.specs[0]!;
  const shape = shapeFor(call);
  const kernel = findKernel(device, instanceOf(dtype.name, shape));
  if (kernel === 0) return false;
  const out = call.outputs[0]!;
  const operands = [call.operand(0), call.operand(1), call.operand(2)];
  const odd = [...new Set([out, ...operands])].filter((one) => !isAligned(one));
  if (odd.length > 0) launchDense(device, kernel, shape, call, odd);
  else launch(device, kernel, shape, call);
  const problem = attentionOf(call);
  if (problem.plain || (!problem.causal && problem.mask === null)) return true;
  return attendSeen(device, problem);
}

/** Queues the kernel on dense copies of operands, so that no result depends on addresses. */
function launchDense(
  device: CudaDevice,
  kernel: number,
  shape: Shape,
  call: Call,
  odd: readonly Operand[],
): void {
  const { dtype } = call.specs[0]!;
  const out = call.outputs[0]!;
  const operands = [call.operand(0), call.operand(1), call.operand(2)];
  const wanted = odd.map(({ layout }) => [dtype.name, layout.size] as const);
  withWorkspace(out.storage, wanted, (made) => {
    const copies = odd.map(({ layout }, i): Operand => (
      { storage: made[i]!, layout: Layout.contiguous(layout.shape), flags: 0 }
    ));
    const dense = (one: Operand): Operand => copies[odd.indexOf(one)] ?? one;
    for (const one of odd) if (one !== out) copyInto(dense(one), one);
    const inputs = [...operands.map(dense), ...call.inputs.slice(3)];
    const copied = new Call(call.op, call.name, inputs, call.attributes, [dense(out)]);
    copied.result(call.specs[0]!.shape, dtype);
    copied.memo = call.memo;
    launch(device, kernel, shape, copied);
    if (dense(out) !== out) copyInto(out, dense(out));
  });
}

/** An axis of the batch: its size, and the strides of the operands. */
interface Axis {
  readonly size: number;
  readonly strides: readonly number[];
}

/** The axes of the batch, the last one first; adjacent ones are one axis where that is the same. */
function axesOf(operands: readonly (HeadBatch | null)[], groupSize: number): Axis[] {
  const { shape } = operands[0]!.matrices.layout;
  const strides = operands.map((one) => one === null ? [] : one.matrices.layout.strides);
  const axes: Axis[] = [];
  const add = ({ size, strides }: Axis): void => {
    if (size === 1) return;
    const last = axes.at(-1);
    if (last !== undefined && strides.every((x, i) => x === last.strides[i]! * last.size)) {
      axes[axes.length - 1] = { size: size * last.size, strides: last.strides };
    } else axes.push({ size, strides });
  };
  // A group shares its keys and values.
  const within = operands.map((one, i) => one === null || i === 2 || i === 3 ? 0 : one.groupStride);
  add({ size: groupSize, strides: within });
  for (let axis = shape.length - 3; axis >= 0; axis--) {
    add({ size: shape[axis]!, strides: strides.map((list) => list[axis] ?? 0) });
  }
  return axes;
}

function launch(
  device: CudaDevice,
  kernel: number,
  shape: Shape,
  call: Call,
): void {
  const problem = attentionOf(call);
  const blocks = (heads: number): number => heads * blocksOf(shape, problem.m);
  launchHeads(device, kernel, problem, blocks, shape.warps);
}

/** Launches a kernel of all problems; `blocks` gives its blocks for a number of heads of queries. */
function launchHeads(
  device: CudaDevice,
  kernel: number,
  { out, q, k, v, mask, groupSize, m, n, d, dv, scale, causal }: AttentionProblem,
  blocks: (heads: number) => number,
  warps: number,
): void {
  const operands = [out, q, k, v, mask];
  operands.forEach((one, i) => {
    if (one !== null) checkLayout("rm_cuda_launch", i, one.whole, one.matrices.storage);
  });
  const axes = axesOf(operands, groupSize);
  const inner = axes.slice(0, AXES), outer = axes.slice(AXES);
  const sizes = Array.from({ length: AXES }, (_, i) => inner[AXES - 1 - i]?.size ?? 1);
  const count = blocks(sizes.reduce((x, y) => x * y, 1));
  const dtype = mask === null ? 0 : mask.matrices.storage.info.id;
  const launchAt = (shifts: readonly number[]): void => {
    args.clear();
    operands.forEach((one, i) => {
      if (one === null) {
        for (let k = 0; k < 3 + AXES; k++) args.integer(0);
        return;
      }
      const { storage, layout, rowStride, columnStride } = one.matrices;
      args.address(storage, layout.offset + shifts[i]!).integer(rowStride).integer(columnStride);
      for (let axis = AXES - 1; axis >= 0; axis--) args.integer(inner[axis]?.strides[i] ?? 0);
    });
    for (const x of [m, n, d, dv, Number(causal), dtype, ...sizes]) args.integer(x);
    device.launch(kernel, [count], [32 * warps], args.real(scale));
  };
  const launchAlong = (axis: number, shifts: readonly number[]): void => {
    if (axis < 0) return launchAt(shifts);
    const { size, strides } = outer[axis]!;
    for (let i = 0; i < size; i++) {
      launchAlong(axis - 1, shifts.map((shift, j) => shift + i * strides[j]!));
    }
  };
  launchAlong(outer.length - 1, operands.map(() => 0));
}

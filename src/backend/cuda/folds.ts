/**
 * Reductions, index reductions and scans: how outputs and their elements are shared among threads,
 * which kernels of shim/cuda/kernels/reduce.h and scan.h that takes, and their arguments.
 *
 * All of that is decided by sizes and strides, so that results depend on nothing else. Knows nothing
 * of what a row means.
 *
 * @module
 */
import type { DType } from "../../base/dtype.ts";
import { resultOf } from "../../ops/infer.ts";
import type { ArgReduceOp, AxisOp, ReduceOp, ScanOp } from "../../ops/op.ts";
import { MAP } from "../../ops/table.ts";
import { layoutOf, OFFSETS, type Plan, planMap, strideOf } from "../../base/plan.ts";
import type { Storage } from "../../memory/storage.ts";
import { checkOperand } from "../ffi/checks.ts";
import { CONSTANTS } from "./constants.ts";
import { Arguments, type CudaDevice } from "./device.ts";
import { map } from "./maps.ts";
import { withScratch } from "./scratch.ts";
import {
  argReduceSource,
  type FoldKernel,
  type FoldSource,
  kernelText,
  reduceSource,
  type ScanKernel,
  type ScanSource,
  scanSource,
} from "./source.ts";
import { addAttributes, addAxes, isPacked } from "./walks.ts";

const { THREADS, FEW_AXES, MAX_AXES } = CONSTANTS["device.h"];
const { REDUCE_ROWS: ROWS, REDUCE_PACKS, REDUCE_ALIGNED, REDUCE_SECOND_VARIES } =
  CONSTANTS["reduce.h"];
const { SCAN_ALIGNED_IN, SCAN_ALIGNED_OUT } = CONSTANTS["scan.h"];
/** As many blocks keep every device busy, however unevenly they end. */
const BLOCKS = 4096;
/** Rounds of a block that make a part worth its while; across, where they are longer. */
const ROUNDS = 4, ROUNDS_ACROSS = 2;
/** From so many elements on, their places do not fit 32 bits with room to spare. */
const NARROW = 2 ** 30;

const args = new Arguments();

/** Queues a reduction or a scan. */
export function fold(
  device: CudaDevice,
  row: AxisOp,
  plan: Plan,
  out: Storage,
  a: Storage,
  b: Storage | null,
): void {
  const isScan = row.kind === "scan";
  const done = isScan ? scan(device, row, plan, out, a) : reduce(device, row, plan, out, a, b);
  if (done) return;
  const axes = isScan ? plan.rank : plan.kept;
  castLater(device, plan, axes, resultOf(row, a.info.name), out, (made) => {
    fold(device, row, plan, made, a, b);
  });
}

/**
 * Without the kernels for results of `out`'s dtype: has `make` write those of `usual`, and casts
 * them. The axes of the output come first, as many as `axes`.
 */
function castLater(
  device: CudaDevice,
  plan: Plan,
  axes: number,
  usual: DType,
  out: Storage,
  make: (made: Storage) => void,
): void {
  if (out.info.name === usual) device.fail();
  const layout = layoutOf(plan, 0, axes);
  withScratch(out, [[usual, out.length]], ([made]) => {
    make(made!);
    map(device, MAP.copy, usual, planMap(layout, layout, null, null), out, made!, null, null);
  });
}

/** The least power of two that is at least `n`, and at most {@link THREADS}. */
function lanesFor(n: number): number {
  let lanes = 1;
  while (lanes < n && lanes < THREADS) lanes *= 2;
  return lanes;
}

/** The number of positions of the axes [from, to). */
function sizeBetween({ data, operands }: Plan, from: number, to: number): number {
  let size = 1;
  for (let axis = from; axis < to; axis++) size *= data[OFFSETS + operands + axis]!;
  return size;
}

/** True where outputs, or runs, lie closer together than their own elements. */
function runsAcross(plan: Plan): boolean {
  const { kept, rank } = plan;
  if (kept === 0) return false;
  if (kept === rank) return true;
  return Math.abs(strideOf(plan, 1, kept - 1)) < Math.abs(strideOf(plan, 1, rank - 1));
}

/** How a fold is shared. */
interface Shares {
  readonly across: boolean;
  readonly outputs: number;
  readonly count: number;
  /** Threads of a block that share an output. */
  readonly lanes: number;
  /** Parts of each output's elements, */
  readonly parts: number;
  /** and elements of a part. */
  readonly length: number;
}

/** Cuts `count` elements into at most `wanted` parts, of whole rounds. */
function cut(
  count: number,
  round: number,
  wanted: number,
  rounds = ROUNDS,
): { readonly parts: number; readonly length: number } {
  const parts = Math.min(Math.floor(wanted), Math.floor(count / (round * rounds)));
  if (parts < 2) return { parts: 1, length: count };
  const length = Math.ceil(count / parts / round) * round;
  return { parts: Math.ceil(count / length), length };
}

function share(plan: Plan, { pack, packs, bytes }: FoldSource, across: boolean): Shares {
  const { kept, rank } = plan;
  const outputs = sizeBetween(plan, 0, kept);
  const count = sizeBetween(plan, kept, rank);
  let lanes: number;
  let round: number;
  if (across) {
    // Not so many that less than 128 bytes of outputs lie side by side, unless there is no more.
    const rows = bytes === 8 ? ROWS / 2 : ROWS;
    const most = Math.min(8, 2 * bytes, lanesFor(count / rows));
    const wanted = Math.max(THREADS / lanesFor(outputs), most);
    lanes = count <= rows ? 1 : wanted;
    round = lanes * (packs === 1 ? 1 : rows);
  } else {
    lanes = lanesFor(Math.ceil(count / (pack * packs)));
    round = lanes * pack * packs;
  }
  const blocks = Math.ceil(outputs / (THREADS / lanes));
  const rounds = across ? ROUNDS_ACROSS : ROUNDS;
  return { across, outputs, count, lanes, ...cut(count, round, BLOCKS / blocks, rounds) };
}

/** True when elements of `a` can be taken in packs of one step each. */
function isEven(plan: Plan, across: boolean, pack: number): boolean {
  const { data, kept, rank, operands } = plan;
  if (kept === rank) return false;
  // The second operand is looked up for each element where it varies.
  if (varies(plan)) return false;
  if (across || rank === kept + 1) return true;
  return data[OFFSETS + operands + rank - 1]! % pack === 0;
}

/** True when the second operand has more than one element for an output. */
function varies(plan: Plan): boolean {
  if (plan.operands < 3) return false;
  for (let axis = plan.kept; axis < plan.rank; axis++) {
    if (strideOf(plan, 2, axis) !== 0) return true;
  }
  return false;
}

/** An output may have more elements than there are: those that an input repeats. */
function isLarge(plan: Plan): boolean {
  return plan.huge || plan.rank > FEW_AXES || sizeBetween(plan, plan.kept, plan.rank) >= NARROW;
}

function foldHandle(
  device: CudaDevice,
  source: FoldSource,
  kind: "along" | "across" | "parts",
  large: boolean,
): number {
  const kernel: FoldKernel = large ? `${kind}_generic` : kind;
  return device.find(source.kernels[kernel], () => kernelText(source, kernel));
}

/** Fills the arguments of a kernel of reduce.h. */
function fillFold(
  plan: Plan,
  { outputs, count, parts, length }: Shares,
  lanes: number,
  flags: number,
  out: Storage,
  a: Storage,
  b: Storage | null,
  scratch: number,
  large: boolean,
): void {
  const { data, kept, rank } = plan;
  args.clear().integer(outputs).integer(count).integer(parts).integer(length).integer(lanes)
    .integer(flags);
  addAttributes(args, plan);
  args.address(out, data[OFFSETS]!).address(a, data[OFFSETS + 1]!)
    .address(b, b === null ? 0 : data[OFFSETS + 2]!).integer(scratch).integer(kept).integer(rank);
  addAxes(args, plan, 0, rank, large ? MAX_AXES : FEW_AXES, large, 3);
}

/** Queues the kernel that reads the elements. */
function launchFold(
  device: CudaDevice,
  handle: number,
  large: boolean,
  source: FoldSource,
  plan: Plan,
  shares: Shares,
  out: Storage,
  a: Storage,
  b: Storage | null,
  scratch: number,
): void {
  const { across, outputs, lanes, parts } = shares;
  const pack = across ? 1 : source.pack;
  let flags: number = varies(plan) ? REDUCE_SECOND_VARIES : 0;
  if (isEven(plan, across, pack)) {
    flags |= REDUCE_PACKS | (isPacked(plan, 1, a, pack) ? REDUCE_ALIGNED : 0);
  }
  fillFold(plan, shares, lanes, flags, out, a, b, scratch, large);
  device.launch(handle, [Math.ceil(outputs / (THREADS / lanes)), parts], [THREADS], args);
}

/** Runs a reduction, or an index reduction; false where there are no kernels for it. */
function reduce(
  device: CudaDevice,
  row: ReduceOp | ArgReduceOp,
  plan: Plan,
  out: Storage,
  a: Storage,
  b: Storage | null,
): boolean {
  const [from, to] = [a.info.name, out.info.name];
  const source = row.kind === "argReduce"
    ? argReduceSource(row, from, to)
    : reduceSource(row, from, to, b === null ? null : b.info.name);
  let shares = share(plan, source, runsAcross(plan));
  if (shares.outputs === 0) return true;
  checkOperand("rm_cuda_launch", plan, 0, out);
  // An output of nothing is what the row begins with.
  if (shares.count > 0) {
    checkOperand("rm_cuda_launch", plan, 1, a);
    if (b !== null) checkOperand("rm_cuda_launch", plan, 2, b);
  }
  let large = isLarge(plan);
  let handle = foldHandle(device, source, shares.across ? "across" : "along", large);
  if (handle === 0) {
    // What reads along axes reads everything.
    large = true;
    shares = share(plan, source, false);
    handle = foldHandle(device, source, "along", large);
    if (handle === 0) return false;
  }
  const { outputs, parts } = shares;
  if (parts === 1) launchFold(device, handle, large, source, plan, shares, out, a, b, 0);
  else {
    const joins = foldHandle(device, source, "parts", large);
    if (joins === 0) return false;
    device.scratch(outputs * parts * source.accumulator, (scratch) => {
      launchFold(device, handle, large, source, plan, shares, out, a, b, scratch);
      const lanes = lanesFor(parts);
      fillFold(plan, shares, lanes, 0, out, a, b, scratch, large);
      device.launch(joins, [Math.ceil(outputs / (THREADS / lanes))], [THREADS], args);
    });
  }
  return true;
}

// ---- scans -------------------------------------------------------------------------------------

/** With fewer runs than this each one is read along itself, whatever lies beside it. */
const FEW_RUNS = 32;
/** Parts of a run that a thread folds one after another, at most. */
const MOST_PARTS_ACROSS = 64;

/** Runs a scan; false where there are no kernels for it. */
function scan(device: CudaDevice, row: ScanOp, plan: Plan, out: Storage, a: Storage): boolean {
  if (plan.size === 0) return true;
  checkOperand("rm_cuda_launch", plan, 0, out);
  checkOperand("rm_cuda_launch", plan, 1, a);
  const source = scanSource(row, a.info.name, out.info.name);
  const find = (kernel: ScanKernel): number =>
    device.find(source.kernels[kernel], () => kernelText(source, kernel));
  let shares = shareScan(plan, source, scansAcross(plan));
  let large = isLarge(plan);
  const kind = shares.across ? "across" : "along";
  let handle = find(large ? `${kind}_generic` : kind);
  if (handle === 0) {
    // What reads along axes reads everything.
    large = true;
    shares = shareScan(plan, source, false);
    handle = find("along_generic");
  }
  if (handle === 0) return false;
  if (shares.parts === 1) {
    launchScan(device, handle, large, source, plan, shares, out, a, 0);
    return true;
  }
  const { across, outputs, parts } = shares;
  const folds = foldHandle(device, source.fold, across ? "across" : "along", large);
  if (folds === 0) device.fail();
  device.scratch(outputs * parts * source.fold.accumulator, (scratch) => {
    // The parts are the same, but not the lanes that share them.
    const lanes = across ? 8 : lanesFor(shares.length / (source.fold.pack * source.fold.packs));
    const own = { ...shares, lanes };
    launchFold(device, folds, large, source.fold, plan, own, out, a, null, scratch);
    launchScan(device, handle, large, source, plan, shares, out, a, scratch);
  });
  return true;
}

/** True where each thread is best given a run of its own. */
function scansAcross(plan: Plan): boolean {
  const { kept, rank } = plan;
  return runsAcross(plan) && (sizeBetween(plan, 0, kept) >= FEW_RUNS || kept === rank);
}

function shareScan(plan: Plan, { pack, fold }: ScanSource, across: boolean): Shares {
  const { kept, rank } = plan;
  const outputs = sizeBetween(plan, 0, kept);
  const count = sizeBetween(plan, kept, rank);
  if (across) {
    const wanted = Math.min(MOST_PARTS_ACROSS, THREADS * BLOCKS / 16 / outputs);
    return { across, outputs, count, lanes: 1, ...cut(count, 8 * ROWS, wanted, ROUNDS_ACROSS) };
  }
  const lanes = lanesFor(Math.ceil(count / pack));
  const blocks = Math.ceil(outputs / (THREADS / lanes));
  // Rounds of the kernel that folds the parts.
  const round = THREADS * fold.pack * fold.packs;
  return { across, outputs, count, lanes, ...cut(count, round, BLOCKS / 4 / blocks) };
}

function launchScan(
  device: CudaDevice,
  handle: number,
  large: boolean,
  source: ScanSource,
  plan: Plan,
  { across, outputs, count, lanes, parts, length }: Shares,
  out: Storage,
  a: Storage,
  scratch: number,
): void {
  const { data, kept, rank } = plan;
  let flags = 0;
  if (!across && kept < rank) {
    if (isPacked(plan, 1, a, source.pack)) flags |= SCAN_ALIGNED_IN;
    if (isPacked(plan, 0, out, source.pack)) flags |= SCAN_ALIGNED_OUT;
  }
  args.clear().integer(outputs).integer(count).integer(parts).integer(length).integer(lanes)
    .integer(flags).address(out, data[OFFSETS]!).address(a, data[OFFSETS + 1]!).integer(scratch)
    .integer(kept < rank ? strideOf(plan, 0, rank - 1) : 0)
    .integer(kept < rank ? strideOf(plan, 1, rank - 1) : 0).integer(kept);
  addAxes(args, plan, 0, kept, large ? MAX_AXES : FEW_AXES, large);
  const slots = across ? THREADS : THREADS / lanes;
  device.launch(handle, [Math.ceil(outputs / slots), parts], [THREADS], args);
}

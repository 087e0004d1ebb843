/**
 * Reductions, index reductions and scans: divides outputs and elements among threads, chooses
 * kernels of shim/cuda/kernels/reduce.h and scan.h, and fills in their arguments.
 *
 * Sizes and strides alone decide, so that results depend on nothing else. Knows nothing of the
 * meaning of ops.
 *
 * @module
 */
import type { DType } from "../../base/dtype.ts";
import { resultOf } from "../../table/infer.ts";
import type { ArgReduceOp, AxisOp, ReduceOp, ScanOp } from "../../table/op.ts";
import { MAP } from "../../table/table.ts";
import { layoutOf, OFFSETS, type Plan, planMap, strideOf } from "../../base/plan.ts";
import type { Storage } from "../../memory/storage.ts";
import { checkOperand } from "../ffi/checks.ts";
import { CONSTANTS } from "./source/constants.ts";
import { Arguments, type CudaDevice } from "./device.ts";
import { map } from "./maps.ts";
import { withWorkspace } from "../../memory/workspace.ts";
import {
  argReduceSource,
  type FoldKernel,
  kernelText,
  type ReduceSource,
  reduceSource,
  type ScanKernel,
  type ScanSource,
  scanSource,
} from "./source/mod.ts";
import { addAttributes, addAxes, isPacked, start } from "./walks.ts";

const { THREADS, FEW_AXES, MAX_AXES } = CONSTANTS["device.h"];
const { REDUCE_ROWS: ROWS, REDUCE_PACKS, REDUCE_ALIGNED, REDUCE_SECOND_VARIES } =
  CONSTANTS["reduce.h"];
const { SCAN_ALIGNED_IN, SCAN_ALIGNED_OUT } = CONSTANTS["scan.h"];
/** Enough blocks to keep every device busy, even if some end early. */
const BLOCKS = 4096;
/** Rounds of a block that make a part worthwhile; fewer across, where rounds take longer. */
const ROUNDS = 4, ROUNDS_ACROSS = 2;
/** From this size on, 32-bit positions leave too little margin. */
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
 * Runs a call without kernels for the dtype of `out`: `make` writes results of dtype `usual`, and a
 * copy casts them. The first `axes` axes are those of the output.
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
  withWorkspace(out, [[usual, out.length]], ([made]) => {
    make(made!);
    map(device, MAP.copy, usual, planMap(layout, layout, null, null), out, made!, null, null);
  });
}

/** The rounds of packs of a lane, and the least lanes of a row, if there are many rows. */
const LANE_ROUNDS = 8, LEAST_LANES = 16;
/** Threads that keep a large device busy. */
let busyThreads = 2 ** 18;

/** Sets the number of threads that count as many, for tests; returns the old one. */
export function setBusyThreads(count: number): number {
  const before = busyThreads;
  busyThreads = count;
  return before;
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

/** True if outputs, or runs, are closer together in memory than their own elements. */
function runsAcross(plan: Plan): boolean {
  const { kept, rank } = plan;
  if (kept === 0) return false;
  if (kept === rank) return true;
  return Math.abs(strideOf(plan, 1, kept - 1)) < Math.abs(strideOf(plan, 1, rank - 1));
}

/** The partition of a fold. */
interface Partitions {
  readonly across: boolean;
  readonly outputs: number;
  /** Neighboring outputs of a lane. */
  readonly columns: number;
  readonly count: number;
  /** Threads of a block that share an output. */
  readonly lanes: number;
  /** Parts of each output's elements. */
  readonly parts: number;
  /** Elements of a part. */
  readonly length: number;
}

/** Cuts `count` elements into at most `wanted` parts of whole rounds. */
function splitReduction(
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

/**
 * How many neighboring outputs a lane takes, where a row of short elements can be read by words. An
 * address that is not a multiple of a word changes nothing: results must not depend on it.
 */
function columnsOf(plan: Plan, { columns }: ReduceSource, across: boolean): number {
  const { data, kept, rank, operands } = plan;
  if (!across || columns === 1 || rank !== kept + 1 || isLarge(plan) || varies(plan)) return 1;
  const last = kept - 1;
  const even = strideOf(plan, 1, last) === 1 &&
    data[OFFSETS + operands + last]! % columns === 0;
  for (let axis = 0; axis < rank; axis++) {
    if (axis !== last && strideOf(plan, 1, axis) % columns !== 0) return 1;
  }
  return even ? columns : 1;
}

function partition(plan: Plan, source: ReduceSource, across: boolean): Partitions {
  const { kept, rank } = plan;
  const { pack, packs } = source;
  const columns = columnsOf(plan, source, across);
  const outputs = sizeBetween(plan, 0, kept);
  const slots = outputs / columns;
  const count = sizeBetween(plan, kept, rank);
  let lanes: number;
  let round: number;
  if (across) {
    // Keeps at least 128 bytes of outputs next to each other, if there are as many.
    const bytes = columns * source.bytes;
    const rows = bytes === 8 ? ROWS / 2 : ROWS;
    const most = Math.min(8, 2 * bytes, lanesFor(count / rows));
    const wanted = Math.max(THREADS / lanesFor(slots), most);
    lanes = count <= rows ? 1 : wanted;
    round = lanes * (packs === 1 ? 1 : rows);
  } else {
    const packed = count / (pack * packs);
    // Where there are many rows, few lanes read each, so that blocks seldom wait for their last one.
    const few = Math.max(LEAST_LANES, lanesFor(Math.ceil(packed / LANE_ROUNDS)));
    lanes = Math.min(
      lanesFor(Math.ceil(packed)),
      Math.max(few, lanesFor(Math.ceil(busyThreads / outputs))),
    );
    round = lanes * pack * packs;
  }
  const blocks = Math.ceil(slots / (THREADS / lanes));
  const rounds = across ? ROUNDS_ACROSS : ROUNDS;
  return {
    across,
    outputs,
    columns,
    count,
    lanes,
    ...splitReduction(count, round, BLOCKS / blocks, rounds),
  };
}

/** True if packs can load elements of `a` with one step each. */
function isEven(plan: Plan, across: boolean, pack: number): boolean {
  const { data, kept, rank, operands } = plan;
  if (kept === rank) return false;
  // If the second operand varies, it is looked up for each element.
  if (varies(plan)) return false;
  if (across || rank === kept + 1) return true;
  return data[OFFSETS + operands + rank - 1]! % pack === 0;
}

/** True if the second operand has more than one element per output. */
function varies(plan: Plan): boolean {
  if (plan.operands < 3) return false;
  for (let axis = plan.kept; axis < plan.rank; axis++) {
    if (strideOf(plan, 2, axis) !== 0) return true;
  }
  return false;
}

/** An output may have more elements than memory has: inputs may repeat elements. */
function isLarge(plan: Plan): boolean {
  return plan.needsInt64Index || plan.rank > FEW_AXES ||
    sizeBetween(plan, plan.kept, plan.rank) >= NARROW;
}

function reduceHandle(
  device: CudaDevice,
  source: ReduceSource,
  kind: "along" | "across" | "across_packed" | "parts",
  large: boolean,
): number {
  const kernel: FoldKernel = large && kind !== "across_packed" ? `${kind}_generic` : kind;
  return device.find(source.kernels[kernel], () => kernelText(source, kernel));
}

/** Fills the arguments of a kernel of reduce.h. */
function fillReduce(
  plan: Plan,
  { outputs, count, parts, length }: Partitions,
  lanes: number,
  flags: number,
  out: Storage,
  a: Storage,
  b: Storage | null,
  workspace: number,
  large: boolean,
): void {
  const { data, kept, rank } = plan;
  args.clear().integer(outputs).integer(count).integer(parts).integer(length).integer(lanes)
    .integer(flags);
  addAttributes(args, plan);
  args.address(out, data[OFFSETS]!).address(a, data[OFFSETS + 1]!)
    .address(b, b === null ? 0 : data[OFFSETS + 2]!).integer(workspace).integer(kept).integer(rank);
  addAxes(args, plan, 0, rank, large ? MAX_AXES : FEW_AXES, large, 3);
}

/** Queues the kernel that reads the elements. */
function launchFold(
  device: CudaDevice,
  handle: number,
  large: boolean,
  source: ReduceSource,
  plan: Plan,
  partitions: Partitions,
  out: Storage,
  a: Storage,
  b: Storage | null,
  workspace: number,
): void {
  const { across, outputs, columns, lanes, parts } = partitions;
  const pack = across ? columns : source.pack;
  let flags: number = varies(plan) ? REDUCE_SECOND_VARIES : 0;
  if (isEven(plan, across, pack)) {
    const aligned = across
      ? start(plan, 1, a) % (pack * a.info.bytes) === 0
      : isPacked(plan, 1, a, pack);
    flags |= REDUCE_PACKS | (aligned ? REDUCE_ALIGNED : 0);
  }
  fillReduce(plan, partitions, lanes, flags, out, a, b, workspace, large);
  const slots = outputs / columns;
  device.launch(handle, [Math.ceil(slots / (THREADS / lanes)), parts], [THREADS], args);
}

/** Runs a reduction, or an index reduction; false if there are no kernels for it. */
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
  let partitions = partition(plan, source, runsAcross(plan));
  if (partitions.outputs === 0) return true;
  checkOperand("rm_cuda_launch", plan, 0, out);
  // An output of no elements is the op's identity.
  if (partitions.count > 0) {
    checkOperand("rm_cuda_launch", plan, 1, a);
    if (b !== null) checkOperand("rm_cuda_launch", plan, 2, b);
  }
  let large = isLarge(plan);
  const kind = !partitions.across ? "along" : partitions.columns > 1 ? "across_packed" : "across";
  let handle = reduceHandle(device, source, kind, large);
  if (handle === 0) {
    // Kernels that read along axes read every element.
    large = true;
    partitions = partition(plan, source, false);
    handle = reduceHandle(device, source, "along", large);
    if (handle === 0) return false;
  }
  const { outputs, parts } = partitions;
  if (parts === 1) launchFold(device, handle, large, source, plan, partitions, out, a, b, 0);
  else {
    const joins = reduceHandle(device, source, "parts", large);
    if (joins === 0) return false;
    device.workspace(outputs * parts * source.accumulator, (workspace) => {
      launchFold(device, handle, large, source, plan, partitions, out, a, b, workspace);
      const lanes = lanesFor(parts);
      fillReduce(plan, partitions, lanes, 0, out, a, b, workspace, large);
      device.launch(joins, [Math.ceil(outputs / (THREADS / lanes))], [THREADS], args);
    });
  }
  return true;
}

// ---- scans -------------------------------------------------------------------------------------

/** With fewer runs, each run is read along itself, whatever its neighbors in memory are. */
const FEW_RUNS = 32;
/** The most parts of a run that one thread folds in sequence. */
const MOST_PARTS_ACROSS = 64;

/** Runs a scan; false if there are no kernels for it. */
function scan(device: CudaDevice, row: ScanOp, plan: Plan, out: Storage, a: Storage): boolean {
  if (plan.size === 0) return true;
  checkOperand("rm_cuda_launch", plan, 0, out);
  checkOperand("rm_cuda_launch", plan, 1, a);
  const source = scanSource(row, a.info.name, out.info.name);
  const find = (kernel: ScanKernel): number =>
    device.find(source.kernels[kernel], () => kernelText(source, kernel));
  let partitions = shareScan(plan, source, scansAcross(plan));
  let large = isLarge(plan);
  const kind = partitions.across ? "across" : "along";
  let handle = find(large ? `${kind}_generic` : kind);
  if (handle === 0) {
    // Kernels that read along axes read every element.
    large = true;
    partitions = shareScan(plan, source, false);
    handle = find("along_generic");
  }
  if (handle === 0) return false;
  if (partitions.parts === 1) {
    launchScan(device, handle, large, source, plan, partitions, out, a, 0);
    return true;
  }
  const { across, outputs, parts } = partitions;
  const folds = reduceHandle(device, source.fold, across ? "across" : "along", large);
  if (folds === 0) device.fail();
  device.workspace(outputs * parts * source.fold.accumulator, (workspace) => {
    // The parts are the same, but not the lanes.
    const lanes = across ? 8 : lanesFor(partitions.length / (source.fold.pack * source.fold.packs));
    const own = { ...partitions, lanes };
    launchFold(device, folds, large, source.fold, plan, own, out, a, null, workspace);
    launchScan(device, handle, large, source, plan, partitions, out, a, workspace);
  });
  return true;
}

/** True if one thread per run is best. */
function scansAcross(plan: Plan): boolean {
  const { kept, rank } = plan;
  return runsAcross(plan) && (sizeBetween(plan, 0, kept) >= FEW_RUNS || kept === rank);
}

function shareScan(plan: Plan, { pack, fold }: ScanSource, across: boolean): Partitions {
  const { kept, rank } = plan;
  const outputs = sizeBetween(plan, 0, kept);
  const count = sizeBetween(plan, kept, rank);
  if (across) {
    const wanted = Math.min(MOST_PARTS_ACROSS, THREADS * BLOCKS / 16 / outputs);
    return {
      across,
      outputs,
      columns: 1,
      count,
      lanes: 1,
      ...splitReduction(count, 8 * ROWS, wanted, ROUNDS_ACROSS),
    };
  }
  const lanes = lanesFor(Math.ceil(count / pack));
  const blocks = Math.ceil(outputs / (THREADS / lanes));
  // Rounds of the kernel that folds the parts.
  const round = THREADS * fold.pack * fold.packs;
  const split = splitReduction(count, round, BLOCKS / 4 / blocks);
  return { across, outputs, columns: 1, count, lanes, ...split };
}

function launchScan(
  device: CudaDevice,
  handle: number,
  large: boolean,
  source: ScanSource,
  plan: Plan,
  { across, outputs, count, lanes, parts, length }: Partitions,
  out: Storage,
  a: Storage,
  workspace: number,
): void {
  const { data, kept, rank } = plan;
  let flags = 0;
  if (!across && kept < rank) {
    if (isPacked(plan, 1, a, source.pack)) flags |= SCAN_ALIGNED_IN;
    if (isPacked(plan, 0, out, source.pack)) flags |= SCAN_ALIGNED_OUT;
  }
  args.clear().integer(outputs).integer(count).integer(parts).integer(length).integer(lanes)
    .integer(flags).address(out, data[OFFSETS]!).address(a, data[OFFSETS + 1]!).integer(workspace)
    .integer(kept < rank ? strideOf(plan, 0, rank - 1) : 0)
    .integer(kept < rank ? strideOf(plan, 1, rank - 1) : 0).integer(kept);
  addAxes(args, plan, 0, kept, large ? MAX_AXES : FEW_AXES, large);
  const slots = across ? THREADS : THREADS / lanes;
  device.launch(handle, [Math.ceil(outputs / slots), parts], [THREADS], args);
}

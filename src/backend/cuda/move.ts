/**
 * Indexing on a CUDA device: gather, scatter, positions and nonzero by the kernels of
 * shim/cuda/kernels/gather_scatter.h.
 *
 * Kernels note an index out of range on the device and skip it: see `CudaDevice.checkFaults`.
 *
 * @module
 */
import type { Blocks, IndexVector } from "../../ops/index/kernels.ts";
import { DTYPE, type DTypeInfo } from "../../base/dtype.ts";
import { OFFSETS, type Plan } from "../../base/plan.ts";
import type { Storage } from "../../memory/storage.ts";
import { checkBlocks, checkOperand, checkRun } from "../ffi/checks.ts";
import { CONSTANTS } from "./source/constants.ts";
import { Arguments, type CudaDevice, familyOf, kernelOf, type KernelVariant } from "./device.ts";
import { addCountsUp, sortRuns } from "./sort.ts";
import { type Family, suffixOf } from "./source/mod.ts";

const SYMBOL = "rm_cuda_launch";
const { THREADS, MAX_AXES } = CONSTANTS["device.h"];
const { NONZERO_TILE, ADD_CHUNK, INDEX_SIGNED } = CONSTANTS["gather_scatter.h"];
/** Most blocks have at most this many axes. */
const BLOCK_AXES = 5;
/** Elements added at once, and their picks, at most: limits the workspace. */
const MOST_ADDED = 2 ** 30, MOST_SORTED = 2 ** 26;
/** The most blocks of a kernel; each of them loops over the rest. */
const MOST_BLOCKS = 2 ** 24;

function macro(name: string, what: string, ...types: (string | number)[]): KernelVariant {
  return { name, header: "gather_scatter.h", line: `RM_${what}(${[name, ...types].join(", ")})` };
}

function addPositions(wide: boolean, room: number): KernelVariant {
  const [name, type] = wide ? ["int64", "long long"] : ["int32", "int"];
  return macro(`add_positions_${name}_${room}`, "ADD_POSITIONS", type, room);
}

function moveElements(bytes: number, room: number): KernelVariant {
  return macro(`move_elements_${bytes}_${room}`, "MOVE_ELEMENTS", `uint${8 * bytes}_t`, room);
}

const MOVE_BLOCKS = macro("move_blocks", "MOVE_BLOCKS");
const MARK_INDICES = macro("mark_indices", "MARK_INDICES");
const SELECT_LAST = macro("select_last", "SELECT_LAST");

function nonzeroPass(pass: "COUNT" | "WRITE", bytes: number): KernelVariant {
  const name = `${pass.toLowerCase()}_nonzero_${bytes}`;
  return macro(name, `${pass}_NONZERO`, `uint${8 * bytes}_t`);
}

/** Integers of either sign are added as unsigned ones. */
function addSorted({ name, kind, bytes }: DTypeInfo, room: number): KernelVariant {
  const suffix = kind === "f" ? suffixOf(name) : `u${8 * bytes}`;
  return macro(`add_sorted_${suffix}_${room}`, "ADD_SORTED", `rm_${suffix}`, room);
}

const ROOMS = [BLOCK_AXES, MAX_AXES], SIZES = [1, 2, 4, 8];

/** The kernels of position, gather and scatter. */
export function moveFamily(): Family {
  return familyOf([
    ...[false, true].flatMap((wide) => ROOMS.map((room) => addPositions(wide, room))),
    ...SIZES.flatMap((bytes) => ROOMS.map((room) => moveElements(bytes, room))),
    MOVE_BLOCKS,
    MARK_INDICES,
    SELECT_LAST,
  ]);
}

/** The kernels of scatters that add. */
export function scatterAddFamily(): Family {
  const added = Object.values(DTYPE).filter(({ kind }) => kind === "f" || kind === "u");
  return familyOf(added.flatMap((info) => ROOMS.map((room) => addSorted(info, room))));
}

/** The kernels of nonzero. */
export function nonzeroFamily(): Family {
  return familyOf(
    SIZES.flatMap((bytes) => [nonzeroPass("COUNT", bytes), nonzeroPass("WRITE", bytes)]),
  );
}

const args = new Arguments();

/** The axes of the current kernel: size, step of operand 0, step of operand 1, outermost first. */
const axes: number[] = [];

/** Takes the axes of `plan`, without those of size 1. */
function takeAxes(plan: Plan): void {
  const { data, rank, operands } = plan;
  const shape = OFFSETS + operands, strides = shape + rank;
  axes.length = 0;
  for (let j = 0; j < rank; j++) {
    if (data[shape + j] === 1) continue;
    axes.push(data[shape + j]!, data[strides + j]!, data[strides + rank + j]!);
  }
}

/** The number of axes that the kernel needs room for. */
function roomFor(): number {
  return axes.length > 3 * BLOCK_AXES ? MAX_AXES : BLOCK_AXES;
}

/** Writes the axes as the last argument: struct rm_block. */
function addAxes(room: number): void {
  if (axes.length === 0) axes.push(1, 0, 0);
  args.integer(axes.length / 3);
  for (let i = 0; i < 3 * room; i++) args.integer(axes[i] ?? 0);
}

/** The least number of blocks of `threads` threads for `count` pieces of work, up to a limit. */
function blocksFor(count: number, threads: number = THREADS): number {
  return Math.min(MOST_BLOCKS, Math.ceil(count / threads));
}

/** Adds struct rm_indices. */
function addPicks(
  device: CudaDevice,
  at: number,
  { bytes, kind }: DTypeInfo,
  size: number,
  stride: number,
): void {
  args.integer(at).integer(bytes + (kind === "i" ? INDEX_SIGNED : 0)).integer(size).integer(stride)
    .integer(device.indexErrors).integer(device.nextIndexing());
}

/** Queues an addition: each index, times `stride`, to its position in `plan`. */
export function ravelIndex(
  device: CudaDevice,
  plan: Plan,
  positions: Storage,
  index: Storage,
  size: number,
  stride: number,
): void {
  const count = plan.size;
  if (count === 0) return;
  checkOperand(SYMBOL, plan, 0, positions);
  checkOperand(SYMBOL, plan, 1, index);
  takeAxes(plan);
  const room = roomFor();
  const kernel = kernelOf(device, addPositions(positions.info.wide, room));
  const at = index.address + plan.data[OFFSETS + 1]! * index.info.bytes;
  args.clear().address(positions, plan.data[OFFSETS]);
  addPicks(device, at, index.info, size, stride);
  args.integer(count);
  addAxes(room);
  device.launch(kernel, [Math.ceil(count / THREADS)], [THREADS], args);
}

/** Queues a copy of the blocks that indices pick. */
export function gather(device: CudaDevice, { plan, out, source, index, step }: Blocks): void {
  const { count, size, stride } = index;
  if (count === 0 || plan.size === 0) return checkIndices(device, index);
  checkBlocks(SYMBOL, plan, 0, out, (count - 1) * step);
  if (size > 0) checkBlocks(SYMBOL, plan, 1, source, (size - 1) * stride);
  checkRun(SYMBOL, 2, index.offset, count, index.indices);
  const add = (): void => addPicksOf(device, index);
  move(device, plan, out, source, add, count, step, false);
}

/** Queues a write of blocks to the places of indices, or, with `add`, an addition. */
export function scatter(
  device: CudaDevice,
  { plan, out: target, source: values, index, step }: Blocks,
  add: boolean,
): void {
  const { count, size, stride } = index;
  if (count === 0 || plan.size === 0) return checkIndices(device, index);
  if (size > 0) checkBlocks(SYMBOL, plan, 0, target, (size - 1) * stride);
  checkBlocks(SYMBOL, plan, 1, values, (count - 1) * step);
  checkRun(SYMBOL, 2, index.offset, count, index.indices);
  if (add) return scatterAdd(device, plan, target, values, index, step);
  // Indices that all write the same value need no order.
  if (step === 0 || count === 1) {
    const addAll = (): void => addPicksOf(device, index);
    return move(device, plan, target, values, addAll, count, step, true);
  }
  lastOfEach(device, index, (kept) => {
    const addKept = (): void => {
      args.integer(kept).integer(8 + INDEX_SIGNED).integer(size).integer(stride).integer(0).integer(
        0,
      );
    };
    move(device, plan, target, values, addKept, count, step, true);
  });
}

/**
 * Calls `use` with the address of the places of `picks`, without those that a later pick
 * overwrites.
 */
function lastOfEach(device: CudaDevice, picks: IndexVector, use: (kept: number) => void): void {
  const { count, size } = picks;
  const round = (bytes: number): number => Math.ceil(bytes / 512) * 512;
  const slots = 2 ** Math.ceil(Math.log2(Math.max(512, 2 * count)));
  const dense = 4 * size <= 12 * slots;
  const marksBytes = round(4 * (dense ? size : slots)), keysBytes = dense ? 0 : 8 * slots;
  device.workspace(marksBytes + keysBytes + count * 8, (marks) => {
    const keys = marks + marksBytes, kept = keys + keysBytes;
    device.zero(marks, marksBytes + keysBytes);
    const blocks = Math.ceil(count / THREADS);
    const addTable = (): void => {
      args.integer(marks).integer(dense ? 0 : keys).integer(slots);
      addPicksOf(device, picks);
      args.integer(count);
    };
    args.clear();
    addTable();
    device.launch(kernelOf(device, MARK_INDICES), [blocks], [THREADS], args);
    args.clear().integer(kept);
    addTable();
    device.launch(kernelOf(device, SELECT_LAST), [blocks], [THREADS], args);
    use(kept);
  });
}

/** Adds `picks` as struct rm_indices. */
function addPicksOf(device: CudaDevice, { indices, offset, size, stride }: IndexVector): void {
  const { info, address } = indices;
  addPicks(device, address + offset * info.bytes, info, size, stride);
}

/** Notes indexes out of range if no element moves: they are errors too. */
function checkIndices(device: CudaDevice, picks: IndexVector): void {
  const { count, indices, offset } = picks;
  if (count === 0) return;
  checkRun(SYMBOL, 2, offset, count, indices);
  // The places are not used.
  device.workspace(8 * count, (unused) => writePlaces(device, picks, unused, true));
}

/** Writes the place of each pick, as int64 or int32, and notes picks out of range. */
function writePlaces(device: CudaDevice, picks: IndexVector, places: number, wide: boolean): void {
  const { count, indices, offset, size } = picks;
  const { info, address } = indices;
  device.zero(places, count * (wide ? 8 : 4));
  args.clear().integer(places);
  addPicks(device, address + offset * info.bytes, info, size, 1);
  args.integer(count);
  axes.length = 0;
  axes.push(count, 1, 1);
  addAxes(BLOCK_AXES);
  const kernel = kernelOf(device, addPositions(wide, BLOCK_AXES));
  device.launch(kernel, [Math.ceil(count / THREADS)], [THREADS], args);
}

/** Indices in the order of their places, and the positions of their values: see rm_add_sorted. */
interface Sorted {
  readonly places: number;
  /** 0 for sums of parts, whose places are int64. */
  readonly order: number;
  readonly wide: boolean;
  readonly count: number;
  readonly values: number;
  readonly step: number;
}

/**
 * {@link scatter} that adds. Sorts indices by their places, so that indices of one place are
 * neighbors and no two threads add to one element. Sorts at most `most` indices at once or, without
 * `most`, as many as memory allows.
 */
export function scatterAdd(
  device: CudaDevice,
  plan: Plan,
  target: Storage,
  values: Storage,
  picks: IndexVector,
  step: number,
  most: number = Math.max(1, Math.min(MOST_SORTED, Math.floor(MOST_ADDED / plan.size))),
): void {
  const { offset, size, stride } = picks;
  // Places below 2^31 are int32.
  const wide = size > 2 ** 31;
  const room = Math.ceil(Math.min(most, picks.count) * (wide ? 8 : 4) / 512) * 512;
  const from = values.address + plan.data[OFFSETS + 1]! * values.info.bytes;
  for (let first = 0; first < picks.count; first += most) {
    const count = Math.min(most, picks.count - first);
    device.workspace(room + 4 * count, (places) => {
      const order = places + room;
      writePlaces(device, { ...picks, offset: offset + first, count }, places, wide);
      sortRuns(device, places, DTYPE[wide ? "int64" : "int32"], 1, count, false, order);
      const at = from + first * step * values.info.bytes;
      addRuns(device, plan, target, stride, { places, order, wide, count, values: at, step });
    });
  }
}

/** Adds the picked elements, by one launch for each power of 16 picks. */
function addRuns(
  device: CudaDevice,
  plan: Plan,
  target: Storage,
  stride: number,
  { places, order, wide, count, values, step }: Sorted,
): void {
  const elements = plan.size;
  const chunks = Math.ceil(count / ADD_CHUNK);
  const add = (sums: number, itsPlaces: number): void => {
    takeAxes(plan);
    axes.unshift(chunks, 0, 0);
    const room = roomFor();
    args.clear().address(target, plan.data[OFFSETS]).integer(values).integer(places).integer(order)
      .integer(wide ? 1 : 0).integer(count).integer(step).integer(stride).integer(sums)
      .integer(itsPlaces).integer(elements);
    addAxes(room);
    const kernel = kernelOf(device, addSorted(target.info, room));
    device.launch(kernel, [Math.ceil(chunks * elements / THREADS)], [THREADS], args);
  };
  if (chunks === 1) return add(0, 0);
  // Sums have the width of the dtype that they are computed in.
  const { kind, bytes } = target.info;
  const width = kind === "f" ? Math.max(4, bytes) : bytes;
  device.workspace(2 * chunks * (8 + elements * width), (itsPlaces) => {
    const sums = itsPlaces + 16 * chunks;
    add(sums, itsPlaces);
    addRuns(device, plan, target, stride, {
      places: itsPlaces,
      order: 0,
      wide: true,
      count: 2 * chunks,
      values: sums,
      step: 0,
    });
  });
}

/** Copies blocks to or from the places of picks, which `addPicks` adds to the arguments. */
function move(
  device: CudaDevice,
  plan: Plan,
  target: Storage,
  source: Storage,
  addPicks: () => void,
  count: number,
  step: number,
  scatter: boolean,
): void {
  const { bytes } = target.info;
  const [to, from] = [plan.data[OFFSETS]!, plan.data[OFFSETS + 1]!];
  takeAxes(plan);
  const dense = axes.length === 3 && axes[1] === 1 && axes[2] === 1;
  if (dense) {
    const run = axes[0]! * bytes;
    const { lanes, piece } = teamFor(run);
    const pieces = Math.ceil(run / piece);
    args.clear().address(target, to).address(source, from);
    addPicks();
    args.integer(count * pieces).integer(pieces).integer(piece).integer(step * bytes).integer(run)
      .integer(bytes).integer(lanes).integer(scatter ? 1 : 0);
    const blocks = blocksFor(count * pieces, THREADS / lanes);
    return device.launch(kernelOf(device, MOVE_BLOCKS), [blocks], [THREADS], args);
  }
  // The kernel reads the stepping operand from one end to the other: its longer steps go outside.
  const stepping = scatter ? 2 : 1;
  let axis = 0;
  while (3 * axis < axes.length && Math.abs(axes[3 * axis + stepping]!) > Math.abs(step)) axis++;
  axes.splice(3 * axis, 0, count, scatter ? 0 : step, scatter ? step : 0);
  const room = roomFor();
  const size = count * plan.size;
  args.clear().address(target, to).address(source, from);
  addPicks();
  args.integer(size).integer(axis).integer(scatter ? 1 : 0);
  addAxes(room);
  const kernel = kernelOf(device, moveElements(bytes, room));
  device.launch(kernel, [blocksFor(size)], [THREADS], args);
}

/** A long run is cut into pieces of this many bytes. */
const PIECE = 4096;

/**
 * The number of threads, a power of two, that copy a piece of a run, and the length of the piece.
 */
function teamFor(run: number): { lanes: number; piece: number } {
  const piece = Math.min(PIECE, run);
  const units = Math.ceil(piece / 16);
  // Prefers a number that leaves no thread idle, and four units per thread, loaded at once.
  const even = units & -units;
  const lanes = even >= 32
    ? Math.min(64, even / 4)
    : even >= 8
    ? even
    : Math.min(32, 2 ** Math.floor(Math.log2(units)));
  return { lanes, piece };
}

/** Queues a write of the flat indices of the nonzero elements. */
export function nonzeroIndices(
  device: CudaDevice,
  out: Storage,
  input: Storage,
  offset: number,
  length: number,
): void {
  if (length === 0 || out.length === 0) return;
  checkRun(SYMBOL, 1, offset, length, input);
  const { bytes, kind } = input.info;
  const tiles = Math.ceil(length / NONZERO_TILE);
  const floating = kind === "f" ? 1 : 0;
  device.workspace((tiles + 1) * 8, (counts) => {
    args.clear().integer(counts).address(input, offset).integer(length).integer(floating);
    device.launch(kernelOf(device, nonzeroPass("COUNT", bytes)), [tiles], [THREADS], args);
    addCountsUp(device, counts, counts + 8 * tiles, 1, tiles);
    args.clear().address(out).integer(counts).address(input, offset).integer(length)
      .integer(floating).integer(out.length);
    device.launch(kernelOf(device, nonzeroPass("WRITE", bytes)), [tiles], [THREADS], args);
  });
}

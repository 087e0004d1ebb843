/**
 * Sorting on a CUDA device: chooses kernels of shim/cuda/kernels/sort.h, and allocates memory
 * between the passes over long runs.
 *
 * @module
 */
import type { DTypeInfo } from "../../base/dtype.ts";
import type { Storage } from "../../memory/storage.ts";
import { checkRun } from "../ffi/checks.ts";
import { CONSTANTS } from "./source/constants.ts";
import { Arguments, type CudaDevice, familyOf, kernelOf, type KernelVariant } from "./device.ts";
import type { Family } from "./source/mod.ts";

const { THREADS } = CONSTANTS["device.h"];
const { SORT_RANK_MAX: RANK_MAX, SORT_DIGITS: DIGITS, FEW_COUNTS, COUNTS_THREADS } =
  CONSTANTS["sort.h"];
const MANTISSAS: Record<string, number> = { float16: 10, bfloat16: 7, float32: 23, float64: 52 };

/** The most elements that a block sorts. */
function tileOf(bytes: number): number {
  return THREADS * CONSTANTS["sort.h"][bytes === 8 ? "SORT_WIDE_ITEMS" : "SORT_ITEMS"];
}

const KERNELS = ["BY_RANKS", "IN_BLOCK", "COUNT", "SCATTER"] as const;

function instanceOf(what: (typeof KERNELS)[number], bytes: number): KernelVariant {
  const name = `sort_${what.toLowerCase()}_${bytes}`;
  return { name, header: "sort.h", line: `RM_SORT_${what}(${name}, uint${8 * bytes}_t)` };
}

const ADD_UP: KernelVariant = {
  name: "prefix_sum_counts",
  header: "sort.h",
  line: "RM_PREFIX_SUM_COUNTS(prefix_sum_counts)",
};

/** The kernels for elements of `bytes` bytes. */
export function sortFamily(bytes: number): Family {
  return familyOf(KERNELS.map((what) => instanceOf(what, bytes)));
}

/** The kernels that add up counts, not only for sorting. */
export function countsFamily(): Family {
  return familyOf([ADD_UP]);
}

function kernel(device: CudaDevice, what: (typeof KERNELS)[number], bytes: number): number {
  return kernelOf(device, instanceOf(what, bytes));
}

/** The order of elements, as flags: see rm_sort_keys. */
function orderOf({ name, kind }: DTypeInfo, descending: boolean): number {
  const { SORT_SIGNED, SORT_DESCENDING } = CONSTANTS["sort.h"];
  return (MANTISSAS[name] ?? 0) + (kind === "i" ? SORT_SIGNED : 0) +
    (descending ? SORT_DESCENDING : 0);
}

const args = new Arguments();

/**
 * Queues an exclusive prefix sum of each of `rows` rows of counts, and writes the sum of each row
 * to `totals`.
 */
export function addCountsUp(
  device: CudaDevice,
  counts: number,
  totals: number,
  rows: number,
  length: number,
): void {
  args.clear().integer(counts).integer(totals).integer(rows).integer(length);
  const blocks = length <= FEW_COUNTS ? Math.ceil(rows / THREADS) : rows;
  const threads = length > THREADS ? COUNTS_THREADS : THREADS;
  device.launch(kernelOf(device, ADD_UP), [blocks], [threads], args);
}

/** Queues a sort of runs in place or, with `indices`, a write of the sorting order. */
export function sort(
  device: CudaDevice,
  values: Storage,
  offset: number,
  runs: number,
  size: number,
  descending: boolean,
  indices: Storage | null,
): void {
  if (runs * size === 0) return;
  checkRun("rm_cuda_launch", 0, offset, runs * size, values);
  if (indices !== null) checkRun("rm_cuda_launch", 1, 0, runs * size, indices);
  const at = values.address + offset * values.info.bytes;
  sortRuns(device, at, values.info, runs, size, descending, indices === null ? 0 : indices.address);
}

/** {@link sort} for runs at an address; `indices`, if not 0, receive the order. */
export function sortRuns(
  device: CudaDevice,
  values: number,
  info: DTypeInfo,
  runs: number,
  size: number,
  descending: boolean,
  indices: number,
): void {
  const { bytes } = info;
  const order = orderOf(info, descending);
  args.clear().integer(values).integer(indices);
  if (size <= RANK_MAX) {
    args.integer(runs).integer(size).integer(order);
    const blocks = Math.ceil(runs / Math.floor(RANK_MAX / size));
    device.launch(kernel(device, "BY_RANKS", bytes), [blocks], [RANK_MAX], args);
  } else if (size <= tileOf(bytes)) {
    args.integer(size).integer(order);
    device.launch(kernel(device, "IN_BLOCK", bytes), [runs], [THREADS], args);
  } else sortLong(device, values, bytes, runs, size, order, indices);
}

/** Sorts runs too long for a block, one digit at a time. */
function sortLong(
  device: CudaDevice,
  given: number,
  bytes: number,
  runs: number,
  size: number,
  order: number,
  indices: number,
): void {
  const count = kernel(device, "COUNT", bytes);
  const spread = kernel(device, "SCATTER", bytes);
  const tiles = Math.ceil(size / tileOf(bytes));
  const all = runs * size;
  const round = (length: number): number => Math.ceil(length / 512) * 512;
  const copy = round(all * bytes), places = indices === 0 ? 0 : round(all * 4);
  const counters = round(runs * DIGITS * tiles * 8);
  // Values alternate between their own memory and a copy. Orders need two copies, as the values
  // must stay intact, and write no values in the last pass: one digit takes no copy, two take one.
  const copies = indices === 0 ? 1 : Math.min(2, bytes - 1);
  device.workspace(counters + round(runs * DIGITS * 8) + copies * (copy + places), (address) => {
    const counts = address, totals = counts + counters;
    const first = totals + round(runs * DIGITS * 8), second = first + copy + places;
    let from = given, fromIndices = 0;
    for (let digit = 0; digit < bytes; digit++) {
      const last = digit === bytes - 1;
      args.clear().integer(counts).integer(from).integer(size).integer(tiles).integer(order)
        .integer(8 * digit);
      device.launch(count, [runs * tiles], [THREADS], args);
      addCountsUp(device, counts, totals, runs * DIGITS, tiles);
      let to: number, toIndices = 0;
      if (indices === 0) to = from === given ? first : given;
      else {
        const target = from === first ? second : first;
        to = last ? 0 : target;
        toIndices = last ? indices : target + copy;
      }
      args.clear().integer(to).integer(toIndices).integer(from).integer(fromIndices)
        .integer(counts).integer(totals).integer(size).integer(tiles).integer(order)
        .integer(8 * digit);
      device.launch(spread, [runs * tiles], [THREADS], args);
      [from, fromIndices] = [to, toIndices];
    }
    if (indices === 0 && from !== given) device.copy(given, from, all * bytes);
  });
}

/**
 * Softmax, log-softmax and norms along dense rows on a CUDA device: chooses the kernel of
 * shim/cuda/kernels/softmax_norm.h for a row length, and cuts long rows.
 *
 * @module
 */
import type { RowKernel, Rows } from "../../ops/softmax_norm/problem.ts";
import { DTYPE, type DType } from "../../base/dtype.ts";
import type { Storage } from "../../memory/storage.ts";
import { checkRun } from "../ffi/checks.ts";
import { CONSTANTS } from "./source/constants.ts";
import { Arguments, type CudaDevice, familyOf, findKernel, type KernelVariant } from "./device.ts";
import { type Family, suffixOf } from "./source/mod.ts";

const KINDS: Readonly<Record<RowKernel, string>> = {
  softmax: "RM_SOFTMAX",
  logSoftmax: "RM_LOG_SOFTMAX",
  layerNorm: "RM_LAYER_NORM",
  rmsNorm: "RM_RMS_NORM",
};

/** The most elements of a row per thread: in packs of 16 bytes, or one by one. */
function heldOf(bytes: number, pack: number): number {
  return (bytes === 8 ? 16 : 32) / (pack === 1 ? 2 : 1);
}

/** Threads of a block whose warps each process a row, and of a block that processes part of a row. */
const WARPS_THREADS = 128, PART_THREADS = 256;
/** Blocks that keep a large device busy. */
const BUSY_BLOCKS = 1024;

/**
 * The most threads of a block that shares a row. Norms and float64 need more than the 64 registers
 * per thread that 1024 threads leave.
 */
function blockThreads(kernel: RowKernel, bytes: number): number {
  return kernel.endsWith("Norm") || bytes === 8 ? 768 : 1024;
}

/** The team for a row: lanes of a warp, 0 for a block, or one of the passes over parts. */
type Team = 4 | 8 | 16 | 32 | "wide" | 0 | "parts" | "finish";
const TEAMS: readonly Team[] = [4, 8, 16, 32, "wide", 0, "parts", "finish"];

/** The kernel whose threads take `pack` elements at a time. */
function instanceOf(kernel: RowKernel, dtype: DType, pack: number, team: Team): KernelVariant {
  const type = `rm_${suffixOf(dtype)}`, held = heldOf(DTYPE[dtype].bytes, pack);
  // Lanes hold half as many if that is enough: this needs fewer registers.
  const groups = (typeof team === "number" && team > 0 ? held / 2 : held) / pack;
  const name = `${kernel}_${dtype}_${pack}_${team}`;
  const what = `${name}, ${KINDS[kernel]}, ${type}, ${pack}, ${groups}`;
  const line = team === "parts"
    ? `RM_SOFTMAX_NORM_PARTS(${what}, ${PART_THREADS})`
    : team === "finish"
    ? `RM_SOFTMAX_NORM_FINISH(${what}, ${PART_THREADS})`
    : team === 0
    ? `RM_SOFTMAX_NORM(${what}, 0, ${blockThreads(kernel, DTYPE[dtype].bytes)})`
    : `RM_SOFTMAX_NORM(${what}, ${team === "wide" ? 32 : team}, ${WARPS_THREADS})`;
  return { name, header: "softmax_norm.h", line };
}

/** Elements that 16 bytes hold. */
function packOf(bytes: number): number {
  return 16 / bytes;
}

/** All kernels of `kernel` and `dtype`. */
export function rowsFamily(kernel: RowKernel, dtype: DType): Family {
  return familyOf(
    [1, packOf(DTYPE[dtype].bytes)].flatMap((pack) =>
      TEAMS.map((team) => instanceOf(kernel, dtype, pack, team))
    ),
  );
}

/** The team for rows of `columns` elements. */
function teamFor(columns: number, half: number): Team {
  for (const lanes of [4, 8, 16, 32] as const) if (columns <= lanes * half) return lanes;
  return "wide";
}

const args = new Arguments();

/**
 * Runs `kernel` along rows that start at `offset` of `a`, into contiguous `out` of the same dtype;
 * false if no kernel is available.
 */
export function alongRows(
  device: CudaDevice,
  kernel: RowKernel,
  { rows, columns, weight, bias, epsilon }: Rows,
  out: Storage,
  a: Storage,
  offset: number,
): boolean {
  const { name: dtype, bytes } = out.info;
  checkRun("rm_cuda_launch", 0, 0, rows * columns, out);
  checkRun("rm_cuda_launch", 1, offset, rows * columns, a);
  if (weight !== null) checkRun("rm_cuda_launch", 2, 0, columns, weight);
  if (bias !== null) checkRun("rm_cuda_launch", 3, 0, columns, bias);
  const most = packOf(bytes);
  const pack = columns % most === 0 && offset % most === 0 ? most : 1;
  const held = heldOf(bytes, pack);
  const get = (team: Team): number => findKernel(device, instanceOf(kernel, dtype, pack, team));
  if (columns <= blockThreads(kernel, bytes) * held) {
    args.clear().address(out).address(a, offset).address(weight).address(bias).integer(rows)
      .integer(columns).real(epsilon);
    if (columns <= 32 * held) {
      const team = teamFor(columns, held / 2);
      const teams = WARPS_THREADS / (team === "wide" ? 32 : team as number);
      const handle = get(team);
      if (handle === 0) return false;
      device.launch(handle, [Math.ceil(rows / teams)], [WARPS_THREADS], args);
    } else {
      const threads = Math.ceil(columns / held / 32) * 32;
      const handle = get(0);
      if (handle === 0) return false;
      device.launch(handle, [rows], [threads], args);
    }
    return true;
  }
  const sums = get("parts"), writes = get("finish");
  if (sums === 0 || writes === 0) return false;
  // Parts are whole chunks. A block holds one chunk at a time.
  const chunk = PART_THREADS * held;
  const chunks = Math.ceil(columns / chunk);
  const wanted = Math.min(chunks, PART_THREADS, Math.max(1, Math.ceil(BUSY_BLOCKS / rows)));
  const length = Math.ceil(chunks / wanted) * chunk;
  const count = Math.ceil(columns / length);
  device.workspace(rows * count * CONSTANTS["softmax_norm.h"].PART_BYTES, (parts) => {
    args.clear().integer(parts).address(a, offset).integer(columns).integer(count).integer(length);
    device.launch(sums, [rows * count], [PART_THREADS], args);
    args.clear().address(out).address(a, offset).address(weight).address(bias).integer(columns)
      .real(epsilon).integer(parts).integer(count).integer(length);
    device.launch(writes, [rows * count], [PART_THREADS], args);
  });
  return true;
}

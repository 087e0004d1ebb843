/**
 * What programs ask of devices beside ops: to wait, to get ready, to do work again, how much memory
 * they use.
 *
 * @module
 */
import type { Recording } from "../core/backend.ts";
import { deviceName, memoryOf, recordOn, warmUpDevice } from "../core/dispatch.ts";
import { ROW_KERNELS } from "../core/row_kernels.ts";
import { allowTF32 as allowOnCuda } from "../backend/cuda.ts";
import { checkDType, describe, type DType } from "../base/dtype.ts";
import { DeviceError, DisposedError } from "../base/errors.ts";
import { TABLE } from "../ops/table.ts";
import { emptyPool as emptyCpuPool, memory as cpuMemory } from "../memory/pool.ts";
import type { CpuMemoryInfo, DeviceMemoryInfo } from "../memory/storage.ts";
import type { MemoryInfo } from "../memory/storage.ts";
import type { Device } from "../types/mod.ts";

/**
 * Waits until `device` has done all that it was asked for. Ops on a device other than the CPU return
 * before they are done, and what reads a tensor waits by itself: this is for measuring times.
 *
 * Throws a DeviceError for what went wrong in it, and an IndexError for an index that was out of
 * range.
 */
export function synchronize(device: Device): void {
  memoryOf(device, "synchronize")?.synchronize();
}

/**
 * How much memory tensors take on the CPU. Memory that was handed in (`fromBuffer`) is not counted,
 * nor, in Bun, are arrays of up to 2 KiB.
 */
export function memory(device?: "cpu"): CpuMemoryInfo;
/** How much memory tensors take on `device`. Throws a DeviceError when there is no such device. */
export function memory(device: Exclude<Device, "cpu">): DeviceMemoryInfo;
/** How much memory tensors take on a device that may be the CPU. */
export function memory(device: Device): MemoryInfo;
export function memory(device?: Device): MemoryInfo {
  return memoryOf(device, "tell the memory of")?.usage() ?? cpuMemory();
}

/** Lets go of the memory that is kept for reuse on `device`, the CPU unless it is given. */
export function emptyPool(device?: Device): void {
  const found = memoryOf(device, "empty the pool of");
  if (found === null) emptyCpuPool();
  else found.release();
}

/** What backends prepare besides the ops of the table. */
const PREPARED = [...ROW_KERNELS, "astype", "matmul", "sort", "index", "random"] as const;

/** Ops that launch other kernels than those of the row of their name, or more. */
const MADE_OF: Readonly<Record<string, readonly string[]>> = {
  allclose: ["isclose", "all"],
  argsort: ["sort"],
  concat: ["copy"],
  contiguous: ["copy"],
  diff: ["sub"],
  dot: ["matmul"],
  linear: ["matmul", "add"],
  logsumexp: ["max", "isfinite", "where", "logSumExp", "add"],
  nonzero: ["countNonzero", "index"],
  norm: ["norm1", "norm2", "normP", "normMax", "normMin"],
  outer: ["mul"],
  pad: ["copy"],
  repeat: ["copy", "index"],
  roll: ["copy"],
  stack: ["copy"],
  std: ["mean", "std"],
  take: ["index"],
  takeAlongAxis: ["index"],
  tile: ["copy"],
  var: ["mean", "var"],
};

/** What {@link warmUp} takes, with the rows and the parts of `PREPARED` that it stands for. */
const WARM = new Map<string, readonly string[]>(PREPARED.map((name) => [name, [name]]));
/** Ops of the table that only others are made of. */
const PARTS = new Set([...MADE_OF.norm!, "logSumExp"]);
for (const { name } of TABLE) if (!PARTS.has(name)) WARM.set(name, [name]);
for (const [op, names] of Object.entries(MADE_OF)) WARM.set(op, names);

/**
 * Compiles what most calls of `ops` on elements of `dtypes` need on `device`, so that they do not
 * have to wait for it later. Ops are named as methods and functions are, as `"add"`, `"sum"`,
 * `"softmax"`, `"concat"`, without those that write in place, `tril`, `triu` and `oneHot`; `"index"`
 * and `"random"` stand for all of their kind. What was compiled is kept on disk, so that later
 * processes load it only. Does nothing on the CPU, where all is compiled.
 *
 * Throws a RangeError for what is no such op, and a DeviceError when there is no such device.
 */
export function warmUp(
  device: Device,
  ops: readonly string[],
  dtypes: readonly DType[] = ["float32"],
): void {
  const names = ops.flatMap((op) => {
    const made = WARM.get(op);
    if (made === undefined) {
      throw new RangeError(`Cannot warm up ${describe(op)}: there is no such op`);
    }
    return made;
  });
  for (const dtype of dtypes) checkDType(dtype, "warm up");
  warmUpDevice(device, names, dtypes);
}

/**
 * Lets products of float32 on CUDA devices round their operands to TF32, which has the range of
 * float32 and 10 bits of mantissa: tensor cores multiply those, and products are right to about 3
 * digits. Off unless it is called; sums are float32 in both cases, and so are results. Gives what was
 * set before.
 */
export function allowTF32(allow: boolean): boolean {
  if (typeof allow !== "boolean") {
    throw new TypeError(`Cannot allowTF32 ${describe(allow)}: it takes true or false`);
  }
  return allowOnCuda(allow);
}

/** Work that a device does again whenever it is asked; what {@link capture} gives. */
export class Graph implements Disposable {
  /** The device. */
  readonly device: string;
  #recording: Recording | null;

  /** Wraps what was recorded. */
  constructor(device: string, recording: Recording) {
    this.device = device;
    this.#recording = recording;
  }

  /** Does all of it, on the tensors that it was recorded with, as they are now. Does not wait. */
  run(): void {
    const recording = this.#recording;
    if (recording === null) throw new DisposedError("Cannot run: the graph was disposed");
    for (const storage of recording.written) {
      storage.settle();
      storage.version++;
    }
    recording.run();
  }

  /** Lets go of it. Tensors that it made keep what they have. */
  dispose(): void {
    const recording = this.#recording;
    this.#recording = null;
    recording?.free();
  }

  /** Lets go of it at the end of `using`. */
  [Symbol.dispose](): void {
    this.dispose();
  }
}

/**
 * Records what `body` asks of `device`, and does none of it: `run()` of what comes out does all, at
 * the cost of one call. Tensors that were made before keep their place and are read and written anew
 * each time; those that `body` makes get their elements by the first `run()`. Their memory stays
 * taken until the graph is disposed.
 *
 * Nothing in `body` may need the values of tensors, nor move elements between devices: that throws a
 * DeviceError. The CPU has no graphs, which is a DeviceError too. What other workers of the process
 * ask of CUDA meanwhile waits until the end.
 */
export function capture(device: Device, body: () => void): Graph {
  if (typeof body !== "function") {
    throw new TypeError(`Cannot capture ${describe(body)}: expected a function`);
  }
  const recording = recordOn(device, () => {
    const given: unknown = body();
    if (given instanceof Promise) {
      given.catch(() => {});
      throw new DeviceError(`Cannot capture on ${device}: the function must not be async`);
    }
  });
  return new Graph(deviceName(device), recording);
}

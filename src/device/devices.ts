/**
 * Functions of devices other than ops: wait, warm up, run work again, report memory.
 *
 * @module
 */
import type { Recording } from "../core/backend.ts";
import {
  decomposeBy,
  deviceName,
  memoryOf,
  performCall,
  recordOn,
  warmUpDevice,
} from "../core/dispatch.ts";
import { tidy } from "../core/handles.ts";
import { interpret, type Interpreter } from "../core/interpreter.ts";
import { concat, stack } from "../api/functions/tensors.ts";
import { ones } from "../tensor/create.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { profileEvent, profiler } from "../core/profiler.ts";
import { ROW_KERNELS } from "../ops/softmax_norm/problem.ts";
import { allowTF32 as allowOnCuda } from "../backend/cuda.ts";
import { checkDType, type DType } from "../base/dtype.ts";
import { describe } from "../base/text.ts";
import { ArgumentError, DeviceError, DisposedError } from "../base/errors.ts";
import { typeError } from "../base/stack.ts";
import { listOf } from "../base/shape.ts";
import { TABLE } from "../table/table.ts";
import { emptyCache as emptyCpuPool, memory as cpuMemory } from "../memory/pool.ts";
import type { CpuMemoryInfo, DeviceMemoryInfo } from "../memory/storage.ts";
import type { MemoryInfo } from "../memory/storage.ts";
import type { Device } from "../types/mod.ts";

/**
 * Waits until `device` has finished all its work. Ops on a device other than the CPU return before
 * they finish, and reading a tensor waits by itself, so programs need this only to measure times.
 *
 * @throws {DeviceError} For a failure of that work.
 * @throws {IndexError} For an index that was out of range.
 */
export function synchronize(device: Device): void {
  memoryOf(device, "synchronize")?.synchronize();
}

/**
 * The memory of tensors on the CPU. Excludes external memory (`fromBuffer`) and, in Bun, arrays of
 * up to 2 KiB.
 */
export function memory(device?: "cpu"): CpuMemoryInfo;
/**
 * The memory of tensors on `device`.
 *
 * @throws {DeviceError} If there is no such device.
 */
export function memory(device: Exclude<Device, "cpu">): DeviceMemoryInfo;
/** The memory of tensors on a device that may be the CPU. */
export function memory(device: Device): MemoryInfo;
export function memory(device?: Device): MemoryInfo {
  return memoryOf(device, "tell the memory of")?.usage() ?? cpuMemory();
}

/** Frees the memory kept for reuse on `device`; the CPU by default. */
export function emptyCache(device?: Device): void {
  const found = memoryOf(device, "empty the pool of");
  if (found === null) emptyCpuPool();
  else found.release();
}

/** Kernels outside the table that backends prepare. */
const PREPARED: ReadonlySet<string> = new Set([
  ...ROW_KERNELS,
  "attention",
  "astype",
  "matmul",
  "sort",
  "index",
  "random",
]);

/** Ops that backends prepare together with others, by the name of all of them. */
const KINDS: Readonly<Record<string, string>> = {
  argsort: "sort",
  gather: "index",
  nonzeroIndices: "index",
  ravelIndex: "index",
  scatter: "index",
  scatterAdd: "index",
};

/** Ops of the table that only other ops use. */
const PARTS: ReadonlySet<string> = new Set([
  ...["norm1", "norm2", "normP", "normMax", "normMin"],
  ...["logSumExp", "countNumbers", "nanSquares"],
]);

/** Calls of methods and functions that consist of other ops. */
const EXAMPLES: Readonly<Record<string, (x: Tensor<"float32", [number, number]>) => unknown>> = {
  allclose: (x) => x.allclose(x),
  argsort: (x) => x.argsort(),
  concat: (x) => concat([x, x]),
  contiguous: (x) => x.T.contiguous(),
  diff: (x) => x.diff(),
  dot: (x) => x.slice(0).dot(x.slice(0)),
  linear: (x) => x.linear(x, x.slice(0)),
  logsumexp: (x) => x.logsumexp(),
  nanmean: (x) => x.nanmean(),
  nanstd: (x) => x.nanstd(),
  nanvar: (x) => x.nanvar(),
  nonzero: (x) => x.slice(0).nonzero(),
  norm: (x) => [1, 2, 3, Infinity, -Infinity].map((ord) => x.norm(null, { ord })),
  outer: (x) => x.slice(0).outer(x.slice(0)),
  pad: (x) => x.pad(1),
  repeat: (x) => [x.repeat(2), x.repeat([1, 2], 0)],
  roll: (x) => x.roll(1),
  stack: (x) => stack([x, x]),
  std: (x) => x.std(),
  take: (x) => x.take([0, 1], 0),
  takeAlongAxis: (x) => x.takeAlongAxis(x.astype("int32")),
  tile: (x) => x.tile([2, 2]),
  topk: (x) => x.topk(1),
  var: (x) => x.var(),
};

/** The kernels of `example`: those of the ops that it decomposes into. */
function kernelsOf(example: (x: Tensor<"float32", [number, number]>) => unknown): string[] {
  const names = new Set<string>();
  const recorder: Interpreter = {
    run(call) {
      const { name, kind, decompose } = call.op;
      const prepared = KINDS[name] ?? name;
      if (decompose !== undefined && !PREPARED.has(prepared)) return decomposeBy(recorder, call);
      if (kind !== "view" && kind !== "create") names.add(prepared);
      performCall(call);
    },
    read() {},
  };
  tidy(() => {
    const x = ones([2, 2]);
    interpret(recorder, () => void example(x));
  });
  // Any op may copy a tensor that is not dense, or has another dtype.
  if (names.size > 1) names.delete("copy");
  return [...names];
}

const warm = new Map<string, readonly string[]>();

/** The kernels behind a name that {@link warmUp} accepts; undefined for other names. */
function kernelsBehind(name: string): readonly string[] | undefined {
  let found = warm.get(name);
  if (found !== undefined) return found;
  if (Object.hasOwn(EXAMPLES, name)) found = kernelsOf(EXAMPLES[name]!);
  else if (PREPARED.has(name)) found = [name];
  else if (!PARTS.has(name) && TABLE.some((row) => row.name === name)) found = [name];
  if (found !== undefined) warm.set(name, found);
  return found;
}

/**
 * Compiles the kernels that most calls of `ops` on elements of `dtypes` need on `device`, so that
 * the calls do not have to wait for them. Ops have the names of their methods and functions, such
 * as `"add"`, `"sum"`, `"softmax"`, `"concat"`, without in-place ops, `tril`, `triu` and `oneHot`;
 * `"index"` and `"random"` stand for all ops of their kind. Compiled kernels are kept on disk;
 * later processes only load them. Does nothing on the CPU, whose kernels are compiled ahead.
 *
 * @throws {ArgumentError} For an unknown op.
 * @throws {DeviceError} If there is no such device.
 */
export function warmUp(
  device: Device,
  ops: readonly string[],
  dtypes: readonly DType[] = ["float32"],
): void {
  const names = listOf(ops, (op) => {
    const found = kernelsBehind(op);
    if (found !== undefined) return found;
    throw new ArgumentError(`Cannot warm up ${describe(op)}: there is no such op`);
  }).flat();
  const checked = listOf(dtypes, (dtype) => {
    checkDType(dtype, "warm up");
    return dtype;
  });
  warmUpDevice(device, names, checked);
}

/**
 * Allows products of float32 on CUDA devices to round their operands to TF32, which has the range
 * of float32 and 10 bits of mantissa. Tensor cores multiply TF32; products are then correct to
 * about 3 digits. Off by default. Sums and results are float32 in both cases. Returns the previous
 * setting.
 */
export function allowTF32(allow: boolean): boolean {
  if (typeof allow !== "boolean") {
    throw typeError(`Cannot allowTF32 ${describe(allow)}: it takes true or false`);
  }
  return allowOnCuda(allow);
}

/** Recorded work that a device can run any number of times; the result of {@link capture}. */
export class Graph implements Disposable {
  /** The class name, as a bundler may shorten the class's own. @ignore */
  static get name(): string {
    return "Graph";
  }

  /** The device. */
  readonly device: string;
  #recording: Recording | null;

  /** Wraps a recording. */
  constructor(device: string, recording: Recording) {
    this.device = device;
    this.#recording = recording;
  }

  /** Runs the recorded work on the recorded tensors with their current elements. Does not wait. */
  run(): void {
    const recording = this.#recording;
    if (recording === null) throw new DisposedError("Cannot run: the graph was disposed");
    for (const storage of recording.written) {
      storage.settle();
      storage.version++;
    }
    if (profiler === null) recording.run();
    else this.#profile(recording);
  }

  #profile(recording: Recording): void {
    const memory = memoryOf(this.device, "profile")!;
    memory.synchronize();
    const start = performance.now();
    recording.run();
    memory.synchronize();
    const backend = this.device.replace(/:\d+$/, "");
    profileEvent("graph", start, performance.now() - start, { backend });
  }

  /** Frees the graph. Tensors that it made keep their elements. */
  dispose(): void {
    const recording = this.#recording;
    this.#recording = null;
    recording?.free();
  }

  /** Frees the graph at the end of `using`. */
  [Symbol.dispose](): void {
    this.dispose();
  }
}

/**
 * Records the work of `body` on `device` without running it. `run()` of the result runs all of it
 * at the cost of one call. Each run reads and writes the tensors that existed before the recording
 * in place; tensors made by `body` get their elements from the first `run()`. Their memory stays
 * allocated until the graph is disposed.
 *
 * `body` must not read the values of tensors or move elements between devices: both throw a
 * DeviceError. The CPU has no graphs and throws a DeviceError too. CUDA calls of other workers in
 * the process wait until the recording ends.
 */
export function capture(device: Device, body: () => void): Graph {
  if (typeof body !== "function") {
    throw typeError(`Cannot capture ${describe(body)}: expected a function`);
  }
  const recording = recordOn(device, () => {
    const given: unknown = body();
    if (typeof (given as PromiseLike<unknown> | null | undefined)?.then === "function") {
      (given as PromiseLike<unknown>).then(() => {}, () => {});
      throw new DeviceError(`Cannot capture on ${device}: the function must not be async`);
    }
  });
  return new Graph(deviceName(device), recording);
}

/**
 * The interface of a backend: run calls on the storages of one device.
 *
 * A backend receives checked, typed and planned calls with allocated outputs; it knows nothing of
 * tensors, promotion or broadcasting.
 *
 * @module
 */
import type { DType } from "../base/dtype.ts";
import type { DeviceMemory, Storage } from "../memory/storage.ts";
import type { Call, Op } from "../table/op.ts";

/** One device's implementation of ops. All storages of a call are on that device. */
export interface Backend {
  /** Its name in `info()`: `"js"`, `"native"`, `"wasm"`, `"cuda"`. */
  readonly name: string;
  /**
   * Whether it has a kernel for some calls of an op; absent if it may have one for all. Dispatch
   * prepares calls for kernels only.
   */
  hasKernel?(op: Op): boolean;
  /**
   * Whether it has a kernel for the call, with the inputs as given: if the op's kernels require
   * contiguous ones, dispatch makes them afterwards. Without a kernel the op is decomposed.
   */
  supports(call: Call): boolean;
  /**
   * Runs a supported call: writes the outputs, which may contain any values before. False if no
   * kernel is available after all: then no existing memory has been written.
   */
  run(call: Call): boolean;
  /**
   * Prepares the kernels of most calls of these ops on these dtypes, so that no call has to wait
   * for them. Absent if there is nothing to prepare.
   */
  warmUp?(ops: readonly string[], dtypes: readonly DType[]): void;
  /**
   * The most threads that took part in a call of this thread since the last use of this method.
   * Absent if a backend has no threads.
   */
  usedThreads?(): number;
  /** Records the work of `body` instead of running it. Absent if a device cannot. */
  record?(body: () => void): Recording;
}

/** Recorded work of a device that can run any number of times. */
export interface Recording {
  /** The storages that the work writes. */
  readonly written: ReadonlySet<Storage>;
  /** Queues all of it. */
  run(): void;
  /** Frees the recording and its memory. No call may follow. */
  free(): void;
}

/** A device other than the CPU: its backend and its memory. */
export interface Device {
  /** Runs the calls. */
  readonly backend: Backend;
  /** Stores the elements. */
  readonly memory: DeviceMemory;
}

/** Opens the device of the given number, or returns why it is unavailable. */
export type OpenDevice = (index: number) => Device | string;

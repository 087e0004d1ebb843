/**
 * What a backend has to be able to do: run calls on the storages of one device.
 *
 * A backend gets calls that are checked, typed and planned, with their outputs allocated; it knows
 * nothing of tensors, promotion or broadcasting.
 *
 * @module
 */
import type { DType } from "../base/dtype.ts";
import type { DeviceMemory, Storage } from "../memory/storage.ts";
import type { Call } from "../ops/op.ts";

/** One device's implementation of ops. All storages of a call are on that device. */
export interface Backend {
  /** Its name in `info()`: `"js"`, `"native"`, `"cuda"`. */
  readonly name: string;
  /**
   * Whether it has a kernel for the call, whose inputs are as they were given: contiguous ones, where
   * the op's kernels take only those, are made afterwards. Without a kernel the op is decomposed.
   */
  supports(call: Call): boolean;
  /**
   * Runs a call that it supports: writes the outputs, which may hold anything before. False where it
   * turns out that no kernel can be had after all: then nothing that was there has been written.
   */
  run(call: Call): boolean;
  /**
   * Makes what most calls of these ops on these dtypes need, so that none of them has to wait for it.
   * Absent where there is nothing to make.
   */
  warmUp?(ops: readonly string[], dtypes: readonly DType[]): void;
  /** Records what `body` asks for, instead of doing it. Absent where a device cannot. */
  record?(body: () => void): Recording;
}

/** Work that a device has recorded, and does whenever it is asked to. */
export interface Recording {
  /** The storages that it writes. */
  readonly written: ReadonlySet<Storage>;
  /** Queues all of it. */
  run(): void;
  /** Frees it, and the memory that it holds: the last call. */
  free(): void;
}

/** A device other than the CPU: its backend and its memory. */
export interface Device {
  /** Runs calls. */
  readonly backend: Backend;
  /** Holds storages. */
  readonly memory: DeviceMemory;
}

/** Opens the device of a number, or says why there is none. */
export type OpenDevice = (index: number) => Device | string;

/**
 * Options of weights, and their checks.
 *
 * @module
 */
import { checkDType, DTYPE, type DType } from "../../base/dtype.ts";
import { ArgumentError, DTypeError } from "../../base/errors.ts";
import { typeError } from "../../base/stack.ts";
import { describe } from "../../base/text.ts";
import { memoryOf } from "../../core/dispatch.ts";
import type { Path } from "../../io/file.ts";
import { mmapOf } from "../../io/mapped.ts";
import { checkOptions } from "../../table/infer.ts";
import type * as t from "../../types/mod.ts";

/** Options of `open` and `weights`. */
export interface WeightsOptions<E extends DType = DType, V extends t.Device = t.Device> {
  /** Floats are cast to this dtype; by default they stay as in the file. */
  readonly dtype?: E | undefined;
  /** The device of the weights. */
  readonly device?: V | undefined;
  /** Selects the tensors whose names begin with this and a dot, and removes it from the names. */
  readonly prefix?: string | undefined;
  /** Maps the name of a tensor in the file to another name. */
  readonly rename?: ((name: string) => string) | undefined;
  /** The maximum inflated size of an npz archive in bytes; 1 GiB by default. */
  readonly maxBytes?: number | undefined;
  /** If false, files are read into memory and not mapped. */
  readonly mmap?: boolean | undefined;
  /**
   * A folder with a LoRA adapter of PEFT (adapter_config.json and adapter_model.safetensors), which is
   * added to the weights when they are read.
   */
  readonly adapter?: Path | undefined;
  /**
   * Whether the weights are to be trained: they are in memory of their own, and layers use the tensors
   * of `parameters()` as they are in each call, not packed copies. `nn.weights` then takes the given
   * tensors themselves. False by default.
   */
  readonly trainable?: boolean | undefined;
}

/** Options of `done`. */
export interface DoneOptions {
  /** Names of tensors that may stay unused; * matches any characters. */
  readonly ignore?: readonly string[] | undefined;
}

/** The progress of `load`. */
export interface LoadProgress {
  /** The number of loaded bytes. */
  readonly loaded: number;
  /** The number of bytes of all weights. */
  readonly total: number;
}

/** Options of `load`. */
export interface LoadOptions extends DoneOptions {
  /** Stops loading: the promise rejects with the reason of the signal, and all memory is freed. */
  readonly signal?: AbortSignal | undefined;
  /** A function that gets the progress after each layer. */
  readonly onProgress?: ((progress: LoadProgress) => void) | undefined;
}

const OPTIONS = [
  ...["dtype", "device", "prefix", "rename", "maxBytes", "mmap", "adapter", "trainable"],
];

/** Options as they were at the call, checked for `op`. */
export function ownOptions<E extends DType, V extends t.Device>(
  op: string,
  options: WeightsOptions<E, V>,
): WeightsOptions<E, V> {
  checkOptions(op, options, OPTIONS);
  const { dtype, device, prefix, rename, maxBytes, adapter, trainable = false } = options;
  if (typeof trainable !== "boolean") {
    throw new ArgumentError(`Cannot ${op} with trainable ${describe(trainable)}: it is a boolean`);
  }
  if (dtype !== undefined) {
    checkDType(dtype, op);
    if (DTYPE[dtype].kind !== "f") {
      throw new DTypeError(`Cannot ${op} as ${dtype}: it takes a float dtype`);
    }
  }
  if (prefix !== undefined) checkName(op, prefix);
  // What is trained is read into memory that can be written.
  const mmap = mmapOf(op, { mmap: options.mmap }) && !trainable;
  memoryOf(device, `${op} on`);
  return { dtype, device, prefix, rename, maxBytes, mmap, adapter, trainable };
}

/** Throws a TypeError unless `name` is a name. */
export function checkName(op: string, name: unknown): void {
  if (typeof name !== "string") {
    throw typeError(`Cannot ${op} ${describe(name)}: expected a name`);
  }
}

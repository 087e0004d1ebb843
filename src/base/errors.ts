/**
 * Every error class that rowmajor throws, and errors as values.
 *
 * A message names the op, the shapes or dtypes, and the axis at fault. Each error carries a string
 * `code`, because `structuredClone` and `postMessage` lose the class. After an error no operand has
 * changed.
 *
 * @module
 */

/** Shapes that do not fit each other, sizes that are not sizes, reductions of nothing to a value. */
export class ShapeError extends RangeError {
  /** The class name. */
  override readonly name = "ShapeError";
  /** Survives `structuredClone`, unlike the class. */
  readonly code = "RM_SHAPE";
}

/** An axis that a tensor does not have, or one that is named twice. */
export class AxisError extends RangeError {
  /** The class name. */
  override readonly name = "AxisError";
  /** Survives `structuredClone`, unlike the class. */
  readonly code = "RM_AXIS";
}

/** An index outside an axis, or a slice that means nothing (step 0 included). */
export class IndexError extends RangeError {
  /** The class name. */
  override readonly name = "IndexError";
  /** Survives `structuredClone`, unlike the class. */
  readonly code = "RM_INDEX";
}

/** A dtype that an op does not take, dtypes that do not promote, a scalar that a dtype cannot hold. */
export class DTypeError extends TypeError {
  /** The class name. */
  override readonly name = "DTypeError";
  /** Survives `structuredClone`, unlike the class. */
  readonly code = "RM_DTYPE";
}

/** A write to a read-only tensor, or to one whose elements share memory (stride 0). */
export class ReadOnlyError extends TypeError {
  /** The class name. */
  override readonly name = "ReadOnlyError";
  /** Survives `structuredClone`, unlike the class. */
  readonly code = "RM_READ_ONLY";
}

/** A tensor used after `dispose()`, after an `into…` method moved it, or without its buffer. */
export class DisposedError extends Error {
  /** The class name. */
  override readonly name = "DisposedError";
  /** Survives `structuredClone`, unlike the class. */
  readonly code = "RM_DISPOSED";
}

/** A device that is not there, or operands on different devices. */
export class DeviceError extends Error {
  /** The class name. */
  override readonly name = "DeviceError";
  /** Survives `structuredClone`, unlike the class. */
  readonly code = "RM_DEVICE";
}

/** A move out of shared memory that other handles still hold. */
export class SharedError extends Error {
  /** The class name. */
  override readonly name = "SharedError";
  /** Survives `structuredClone`, unlike the class. */
  readonly code = "RM_SHARED";
}

/** A name that another op has, an op that is not defined in this thread, a definition that is none. */
export class OpError extends Error {
  /** The class name. */
  override readonly name = "OpError";
  /** Survives `structuredClone`, unlike the class. */
  readonly code = "RM_OP";
}

/** A native call that reported a failure. */
export class NativeError extends Error {
  /** The class name. */
  override readonly name = "NativeError";
  /** Survives `structuredClone`, unlike the class. */
  readonly code: string;
  /** The C symbol that was called. */
  readonly symbol: string;
  /** The status that it returned. */
  readonly status: number;

  /** Builds the error from the failing `symbol`, its `status` and what the library said. */
  constructor(symbol: string, status: number, message: string) {
    super(`${symbol} failed with status ${status}: ${message}`);
    this.symbol = symbol;
    this.status = status;
    this.code = `RM_NATIVE_${status}`;
  }
}

/** A file that is truncated, malformed or hostile. */
export class FormatError extends Error {
  /** The class name. */
  override readonly name = "FormatError";
  /** Survives `structuredClone`, unlike the class. */
  readonly code = "RM_FORMAT";
  /** The file's name, or what stands for it (`"<bytes>"`). */
  readonly file: string;
  /** Where in the file the fault is, in bytes. */
  readonly offset: number;

  /** Builds the error; the message begins with the file and the offset. */
  constructor(message: string, file: string, offset: number) {
    super(`${file} at byte ${offset}: ${message}`);
    this.file = file;
    this.offset = offset;
  }
}

/** A buffer that could not be allocated. */
export class OutOfMemoryError extends Error {
  /** The class name. */
  override readonly name = "OutOfMemoryError";
  /** Survives `structuredClone`, unlike the class. */
  readonly code = "RM_OUT_OF_MEMORY";
  /** How many bytes were asked for. */
  readonly bytes: number;
  /** On which device. */
  readonly device: string;

  /** Builds the error for a request of `bytes` on `device`; `about` says more. */
  constructor(bytes: number, device: string, about?: string) {
    super(`Cannot allocate ${bytes} bytes on ${device}${about === undefined ? "" : `: ${about}`}`);
    this.bytes = bytes;
    this.device = device;
  }
}

/** What {@link attempt} gives. */
export type Attempt<R> =
  | { readonly value: R; readonly error?: undefined }
  | { readonly value?: undefined; readonly error: Error };

/**
 * Runs `body` and gives what it returns or throws as a value.
 *
 * @example
 * ```ts
 * const { error } = attempt(() => zeros([2]).reshape([3] as number[]));
 * error?.name; // => ShapeError
 * ```
 */
export function attempt<R>(body: () => R): Attempt<R> {
  try {
    return { value: body() };
  } catch (error) {
    return { error: error instanceof Error ? error : new Error(String(error)) };
  }
}

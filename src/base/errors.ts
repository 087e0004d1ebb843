/**
 * Every error class that rowmajor throws, and errors as values.
 *
 * A message names the op, the shapes or dtypes, and the axis at fault. Each error carries a string
 * `code`, because `structuredClone` and `postMessage` lose the class. After an error no operand has
 * changed.
 *
 * @module
 */
import { locate } from "./stack.ts";
import { shorten } from "./text.ts";

/**
 * Names an error class for programs and for stacks, which begin with the name, whatever a bundler
 * calls it. Other classes have a getter instead: V8's `instanceof` takes seven times as long for a
 * class whose name was redefined.
 */
function nameError(type: abstract new (...args: never[]) => Error, name: string): void {
  Object.defineProperty(type, "name", { value: name, configurable: true });
  Object.defineProperty(type.prototype, "name", {
    ...{ value: name, writable: true, configurable: true, enumerable: false },
  });
}

/** Shapes that do not match, invalid sizes, or reductions of no elements to a value. */
export class ShapeError extends RangeError {
  static {
    nameError(this, "ShapeError");
  }

  /** The class name. */
  declare readonly name: "ShapeError";
  /** Survives `structuredClone`, unlike the class. */
  readonly code = "RM_SHAPE";

  /** Builds the error from its message. */
  constructor(message?: string, options?: ErrorOptions) {
    super(message, options);
    locate(this);
  }
}

/** An axis that a tensor does not have, or one that is listed twice. */
export class AxisError extends RangeError {
  static {
    nameError(this, "AxisError");
  }

  /** The class name. */
  declare readonly name: "AxisError";
  /** Survives `structuredClone`, unlike the class. */
  readonly code = "RM_AXIS";

  /** Builds the error from its message. */
  constructor(message?: string, options?: ErrorOptions) {
    super(message, options);
    locate(this);
  }
}

/** An index outside an axis, or an invalid slice (step 0 included). */
export class IndexError extends RangeError {
  static {
    nameError(this, "IndexError");
  }

  /** The class name. */
  declare readonly name: "IndexError";
  /** Survives `structuredClone`, unlike the class. */
  readonly code = "RM_INDEX";

  /** Builds the error from its message. */
  constructor(message?: string, options?: ErrorOptions) {
    super(message, options);
    locate(this);
  }
}

/**
 * A number that an op does not accept, if no shape, axis, index or dtype is at fault: an epsilon
 * that is NaN, a seed of more than 64 bits, an unknown mode.
 */
export class ArgumentError extends RangeError {
  static {
    nameError(this, "ArgumentError");
  }

  /** The class name. */
  declare readonly name: "ArgumentError";
  /** Survives `structuredClone`, unlike the class. */
  readonly code = "RM_ARGUMENT";

  /** Builds the error from its message. */
  constructor(message?: string, options?: ErrorOptions) {
    super(message, options);
    locate(this);
  }
}

/**
 * A dtype that an op does not accept, dtypes that do not promote, a scalar that a dtype cannot
 * represent.
 */
export class DTypeError extends TypeError {
  static {
    nameError(this, "DTypeError");
  }

  /** The class name. */
  declare readonly name: "DTypeError";
  /** Survives `structuredClone`, unlike the class. */
  readonly code = "RM_DTYPE";

  /** Builds the error from its message. */
  constructor(message?: string, options?: ErrorOptions) {
    super(message, options);
    locate(this);
  }
}

/** A write to a read-only tensor, or to one whose elements share memory (stride 0). */
export class ReadOnlyError extends TypeError {
  static {
    nameError(this, "ReadOnlyError");
  }

  /** The class name. */
  declare readonly name: "ReadOnlyError";
  /** Survives `structuredClone`, unlike the class. */
  readonly code = "RM_READ_ONLY";

  /** Builds the error from its message. */
  constructor(message?: string, options?: ErrorOptions) {
    super(message, options);
    locate(this);
  }
}

/**
 * Use of a tensor after `dispose()`, after an `into…` method moved it, or after its buffer was
 * transferred.
 */
export class DisposedError extends Error {
  static {
    nameError(this, "DisposedError");
  }

  /** The class name. */
  declare readonly name: "DisposedError";
  /** Survives `structuredClone`, unlike the class. */
  readonly code = "RM_DISPOSED";

  /** Builds the error from its message. */
  constructor(message?: string, options?: ErrorOptions) {
    super(message, options);
    locate(this);
  }
}

/** An unavailable device, or operands on different devices. */
export class DeviceError extends Error {
  static {
    nameError(this, "DeviceError");
  }

  /** The class name. */
  declare readonly name: "DeviceError";
  /** Survives `structuredClone`, unlike the class. */
  readonly code = "RM_DEVICE";

  /** Builds the error from its message. */
  constructor(message?: string, options?: ErrorOptions) {
    super(message, options);
    locate(this);
  }
}

/** A move out of shared memory that other handles still hold. */
export class SharedError extends Error {
  static {
    nameError(this, "SharedError");
  }

  /** The class name. */
  declare readonly name: "SharedError";
  /** Survives `structuredClone`, unlike the class. */
  readonly code = "RM_SHARED";

  /** Builds the error from its message. */
  constructor(message?: string, options?: ErrorOptions) {
    super(message, options);
    locate(this);
  }
}

/**
 * A matrix for which a result of linear algebra does not exist: a singular one to be solved, one that
 * is not positive definite for `cholesky`, one whose eigenvalues were not found.
 */
export class LinAlgError extends Error {
  static {
    nameError(this, "LinAlgError");
  }

  /** The class name. */
  declare readonly name: "LinAlgError";
  /** Survives `structuredClone`, unlike the class. */
  readonly code = "RM_LINALG";
  /** The op. */
  readonly op: string;
  /** The index of the matrix in its batch, in row-major order. */
  readonly matrix: number;
  /** The index of the pivot at fault; −1 if the op did not converge. */
  readonly pivot: number;

  /** Builds the error from its message. */
  constructor(message: string, op: string, matrix: number, pivot: number) {
    super(message);
    this.op = op;
    this.matrix = matrix;
    this.pivot = pivot;
    locate(this);
  }
}

/** Too many jobs that wait for the queue thread. */
export class QueueFullError extends Error {
  static {
    nameError(this, "QueueFullError");
  }

  /** The class name. */
  declare readonly name: "QueueFullError";
  /** Survives `structuredClone`, unlike the class. */
  readonly code = "RM_QUEUE_FULL";
  /** The largest number of jobs that may wait. */
  readonly limit: number;

  /** Builds the error for a queue of at most `limit` jobs. */
  constructor(limit: number) {
    super(`Cannot queue a job: ${limit} jobs wait already`);
    this.limit = limit;
    locate(this);
  }
}

/**
 * A name that another op has, an op that is not defined in this thread, an invalid definition, an op
 * that calls itself without end.
 */
export class OpError extends Error {
  static {
    nameError(this, "OpError");
  }

  /** The class name. */
  declare readonly name: "OpError";
  /** Survives `structuredClone`, unlike the class. */
  readonly code = "RM_OP";

  /** Builds the error from its message. */
  constructor(message?: string, options?: ErrorOptions) {
    super(message, options);
    locate(this);
  }
}

/**
 * A function that cannot be traced: it needs the values of its tensors, or its numbers decide which
 * ops it calls.
 */
export class TraceError extends Error {
  static {
    nameError(this, "TraceError");
  }

  /** The class name. */
  declare readonly name: "TraceError";
  /** Survives `structuredClone`, unlike the class. */
  readonly code = "RM_TRACE";

  /** Builds the error from its message. */
  constructor(message?: string, options?: ErrorOptions) {
    super(message, options);
    locate(this);
  }
}

/** A function whose derivative is not known, or would be wrong. */
export class DerivativeError extends Error {
  static {
    nameError(this, "DerivativeError");
  }

  /** The class name. */
  declare readonly name: "DerivativeError";
  /** Survives `structuredClone`, unlike the class. */
  readonly code = "RM_DERIVATIVE";

  /** Builds the error from its message. */
  constructor(message?: string, options?: ErrorOptions) {
    super(message, options);
    locate(this);
  }
}

/** A native call that reported a failure. */
export class NativeError extends Error {
  static {
    nameError(this, "NativeError");
  }

  /** The class name. */
  declare readonly name: "NativeError";
  /** Survives `structuredClone`, unlike the class. */
  readonly code: string;
  /** The C symbol that was called. */
  readonly symbol: string;
  /** The status that it returned. */
  readonly status: number;

  /** Builds the error from the failing `symbol`, its `status` and the library's message. */
  constructor(symbol: string, status: number, message: string) {
    super(`${symbol} failed with status ${status}: ${message}`);
    this.symbol = symbol;
    this.status = status;
    this.code = `RM_NATIVE_${status}`;
    locate(this);
  }
}

/** Ranks that did not come together: a deadline, a rank that left, calls that differ, or no MPI. */
export class DistributedError extends Error {
  static {
    nameError(this, "DistributedError");
  }

  /** The class name. */
  declare readonly name: "DistributedError";
  /** Survives `structuredClone`, unlike the class. */
  readonly code = "RM_DISTRIBUTED";
  /** The name of the method that was called. */
  readonly op: string;
  /** The rank of this process; −1 while it has none. */
  readonly rank: number;
  /** The rank that is at fault, if it is known; else −1. */
  readonly peer: number;

  /** Builds the error; the message begins with the op and the rank. */
  constructor(op: string, rank: number, peer: number, message: string) {
    super(`Cannot ${op}${rank < 0 ? "" : ` on rank ${rank}`}: ${message}`);
    this.op = op;
    this.rank = rank;
    this.peer = peer;
    locate(this);
  }
}

/** Messages contain this much of the name of a file: the longest path of most systems. */
const MAX_PATH = 4096;

/** A file that is truncated, malformed or hostile. */
export class FormatError extends Error {
  static {
    nameError(this, "FormatError");
  }

  /** The class name. */
  declare readonly name: "FormatError";
  /** Survives `structuredClone`, unlike the class. */
  readonly code = "RM_FORMAT";
  /** The file's name, or a placeholder (`"<bytes>"`). */
  readonly file: string;
  /** The byte offset of the fault in the file. */
  readonly offset: number;

  /** Builds the error; the message begins with the file and the offset. */
  constructor(message: string, file: string, offset: number, options?: ErrorOptions) {
    super(`${shorten(file, MAX_PATH)} at byte ${offset}: ${message}`, options);
    this.file = file;
    this.offset = offset;
    locate(this);
  }
}

/** A package that a program has to install itself, and that could not be imported. */
export class PackageError extends Error {
  static {
    nameError(this, "PackageError");
  }

  /** The class name. */
  declare readonly name: "PackageError";
  /** Survives `structuredClone`, unlike the class. */
  readonly code = "RM_PACKAGE";
  /** The name of the package. */
  readonly package: string;

  /** Builds the error for `op`, which needs the package of that name. */
  constructor(op: string, name: string, options?: ErrorOptions) {
    super(
      `Cannot ${op}: the package ${name} could not be imported; "npm install ${name}", ` +
        `"bun add ${name}" or "deno add npm:${name}" installs it`,
      options,
    );
    this.package = name;
    locate(this);
  }
}

/** A buffer that could not be allocated. */
export class OutOfMemoryError extends Error {
  static {
    nameError(this, "OutOfMemoryError");
  }

  /** The class name. */
  declare readonly name: "OutOfMemoryError";
  /** Survives `structuredClone`, unlike the class. */
  readonly code = "RM_OUT_OF_MEMORY";
  /** The number of bytes requested. */
  readonly bytes: number;
  /** The name of the device. */
  readonly device: string;

  /** Builds the error for a request of `bytes` on `device`; `about` adds details. */
  constructor(bytes: number, device: string, about?: string) {
    super(`Cannot allocate ${bytes} bytes on ${device}${about === undefined ? "" : `: ${about}`}`);
    this.bytes = bytes;
    this.device = device;
    locate(this);
  }
}

/** True for an error of any realm. */
function isError(value: unknown): value is Error {
  return value instanceof Error || Object.prototype.toString.call(value) === "[object Error]";
}

/** The result of {@link attempt}. */
export type Attempt<R> =
  | { readonly value: R; readonly error?: undefined }
  | { readonly value?: undefined; readonly error: Error };

/**
 * Runs `body` and returns its result or its error as a value.
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
    return { error: isError(error) ? error : new Error(String(error)) };
  }
}

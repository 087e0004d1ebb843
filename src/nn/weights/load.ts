/**
 * Tensors of a source: their elements in memory, cast and on a device; and those in the place of
 * tensors that the source does not have.
 *
 * @module
 */
import { DTYPE, type DType } from "../../base/dtype.ts";
import type { FormatError } from "../../base/errors.ts";
import { Layout } from "../../base/layout.ts";
import type { Shape } from "../../base/shape.ts";
import { memoryOf } from "../../core/dispatch.ts";
import { cast } from "../../core/copy.ts";
import { dispose, wrap } from "../../core/handles.ts";
import type { TensorEntry } from "../../io/source.ts";
import { NO_ARRAY, sendTo } from "../../memory/device.ts";
import type { Operand } from "../../memory/operand.ts";
import { allocate, recycle } from "../../memory/pool.ts";
import { Storage } from "../../memory/storage.ts";
import "../../tensor/tensor.ts";

/** Reads a tensor; `dtype` is that of the result, by default that in the file. */
export function load(entry: TensorEntry, device: string | undefined, dtype?: DType): Operand {
  const layout = Layout.contiguous([...entry.shape]);
  const storage = allocate(entry.dtype!, layout.size, false);
  try {
    const { buffer, byteOffset, byteLength } = storage.array;
    entry.fill(new Uint8Array(buffer, byteOffset, byteLength));
  } catch (error) {
    recycle(storage);
    throw error;
  }
  const read = wrap(sendTo(memoryOf(device, "read weights on"), storage), layout);
  if (dtype === undefined || dtype === entry.dtype) return read;
  const made = cast(read, dtype);
  dispose(read);
  return made;
}

/** The memory of a tensor that the source does not have: each use throws. */
class NoStorage extends Storage {
  readonly #error: () => FormatError;

  static {
    Object.defineProperty(this.prototype, "array", {
      get(this: NoStorage): never {
        throw this.#error();
      },
      set(): void {},
    });
  }

  constructor(error: () => FormatError) {
    // Exposed storages are checked before each use.
    super(NO_ARRAY, DTYPE.float32, true, false);
    this.#error = error;
  }

  override get length(): number {
    return 0;
  }
}

/** A tensor of `shape` whose uses throw `error`. */
export function absent(shape: Shape, error: () => FormatError): Operand {
  return wrap(new NoStorage(error), Layout.contiguous([...shape]));
}

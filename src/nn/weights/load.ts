/**
 * Tensors of a source: their elements in memory, or on that of a mapped file, cast and on a device;
 * and those in the place of tensors that the source does not have.
 *
 * @module
 */
import { DTYPE, type DType } from "../../base/dtype.ts";
import type { FormatError } from "../../base/errors.ts";
import { Layout } from "../../base/layout.ts";
import type { Shape } from "../../base/shape.ts";
import { apply } from "../../core/apply.ts";
import { memoryOf } from "../../core/dispatch.ts";
import { cast } from "../../core/copy.ts";
import { dispose, tidy, wrap } from "../../core/handles.ts";
import type { Factors, FilledEntry, TensorEntry } from "../../io/source.ts";
import { NO_ARRAY, sendTo, uploaded } from "../../memory/device.ts";
import type { Operand } from "../../memory/operand.ts";
import { allocate, recycle } from "../../memory/pool.ts";
import { cowOf } from "../../memory/snapshot.ts";
import { type DeviceMemory, Storage } from "../../memory/storage.ts";
import { matmul } from "../../ops/matmul/op.ts";
import { isQuantized } from "../../ops/quantized/dtypes.ts";
import { dequantize } from "../../ops/quantized/op.ts";
import { MAP } from "../../table/table.ts";

/** The elements of a tensor in memory of their own. */
function filled(entry: FilledEntry, memory: DeviceMemory | null, layout: Layout): Operand {
  const storage = allocate(entry.dtype!, layout.size, false);
  try {
    const { buffer, byteOffset, byteLength } = storage.array;
    entry.fill(new Uint8Array(buffer, byteOffset, byteLength));
  } catch (error) {
    recycle(storage);
    throw error;
  }
  return wrap(sendTo(memory, storage), layout);
}

/** The elements of a tensor where they are, until the first write, or in the memory of a device. */
function viewed(storage: Storage, memory: DeviceMemory | null, layout: Layout): Operand {
  if (memory === null) {
    const [low, high] = layout.extent();
    return wrap(cowOf(storage, low, high), layout);
  }
  return wrap(uploaded(memory, storage.info, storage.array), layout);
}

/**
 * A tensor of a source, which shares the memory of a mapped file until it is written; `dtype` is that
 * of the result, by default that in the file.
 */
export function load(entry: TensorEntry, device: string | undefined, dtype?: DType): Operand {
  const memory = memoryOf(device, "read weights on");
  const layout = Layout.contiguous([...entry.shape]);
  const read = entry.view === undefined
    ? filled(entry, memory, layout)
    : viewed(entry.view(), memory, layout);
  if (dtype === undefined || dtype === entry.dtype) return read;
  try {
    return tidy(() => {
      const numbers = isQuantized(read.storage.info) ? dequantize(read) : read;
      const { factors } = entry;
      return cast(factors === undefined ? numbers : added(numbers, factors, device), dtype);
    });
  } finally {
    dispose(read);
  }
}

/** A weight plus the product of an adapter. */
function added(weight: Operand, factors: Factors, device: string | undefined): Operand {
  const { a, b } = loadFactors(factors, device);
  return apply(MAP.add, weight, matmul(b, a));
}

/** The factors of an adapter, float32: its product is that of B and A. */
export function loadFactors(
  { a, b, scale }: Factors,
  device: string | undefined,
): { readonly a: Operand; readonly b: Operand } {
  const scaled = tidy(() => apply(MAP.mul, load(b, device, "float32"), scale));
  return { a: load(a, device, "float32"), b: scaled };
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

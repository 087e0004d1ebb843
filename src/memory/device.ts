/**
 * Storages in the memory of a device, and copies of elements between memories.
 *
 * @module
 */
import type { DTypeInfo, TypedArray } from "../base/dtype.ts";
import { DeviceError } from "../base/errors.ts";
import { allocateFor, recycle } from "./pool.ts";
import { type DeviceMemory, Storage } from "./storage.ts";

/** Passed to {@link Storage} by classes with an `array` of their own; never read. */
export const NO_ARRAY: Uint8Array = new Uint8Array(0);

/** Frees the memory of storages that were collected without a call of `free`. */
const lost = new FinalizationRegistry<{ memory: DeviceMemory; address: number }>(
  ({ memory, address }) => {
    try {
      memory.free(address);
    } catch {
      // The device has failed: its next use throws.
    }
  },
);

/** The number of storages made so far. */
let made = 0;

/** A run of elements in the memory of a device. */
export class DeviceStorage extends Storage {
  /** The class name, as a bundler may shorten the class's own. @ignore */
  static override get name(): string {
    return "DeviceStorage";
  }

  readonly #memory: DeviceMemory;
  readonly #length: number;
  readonly #address: number;
  readonly #owner: DeviceStorage | undefined;
  /** Differs for each storage, so that tools that cannot see the elements find none equal. */
  readonly id: number = ++made;

  static {
    Object.defineProperty(this.prototype, "array", {
      get(this: DeviceStorage): never {
        throw new DeviceError(
          `Cannot reach elements on ${this.device} from the CPU: cpu(), read() and toTypedArray() ` +
            "copy them",
        );
      },
      set(): void {},
    });
  }

  /**
   * Makes one of `length` elements; they are 0 if `zeroed` is true, else undefined. With `owner`,
   * shares the memory of that storage.
   */
  constructor(
    memory: DeviceMemory,
    info: DTypeInfo,
    length: number,
    zeroed: boolean,
    owner?: DeviceStorage,
  ) {
    super(NO_ARRAY, info, owner !== undefined, false);
    const bytes = length * info.bytes;
    this.#memory = memory;
    this.#length = length;
    this.#owner = owner;
    this.#address = owner?.address ?? (bytes === 0 ? 0 : memory.allocate(bytes));
    if (bytes === 0 || owner !== undefined) return;
    lost.register(this, { memory, address: this.#address }, this);
    if (zeroed) memory.zero(this.#address, bytes);
  }

  override get base(): Storage {
    return this.#owner ?? this;
  }

  override get device(): string {
    return this.#memory.device;
  }

  override get memory(): DeviceMemory {
    return this.#memory;
  }

  override get address(): number {
    return this.#address;
  }

  override get length(): number {
    return this.#length;
  }

  override get shared(): boolean {
    return false;
  }

  override get lanes(): Storage {
    const { lane, entries } = this.info;
    return new DeviceStorage(this.#memory, lane!, this.#length * entries, false, this);
  }

  /** Frees the memory. Called once, when no tensor uses it any more. */
  override free(): void {
    // Prevents a second call of free.
    this.exposed = true;
    if (this.#length === 0) return;
    lost.unregister(this);
    this.#memory.free(this.#address);
  }
}

/** {@link allocateFor} in `memory`, or on the CPU for null. */
export function allocateIn(
  memory: DeviceMemory | null,
  info: DTypeInfo,
  length: number,
  zeroed: boolean,
): Storage {
  if (memory === null) return allocateFor(info, length, zeroed);
  return memory.make?.(info, length, zeroed) ?? new DeviceStorage(memory, info, length, zeroed);
}

function bytesOf({ buffer, byteOffset, byteLength }: TypedArray): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

/** A copy of `length` elements from position `from` on, from any memory. */
export function download(storage: Storage, from: number, length: number): TypedArray {
  const { memory, info, address } = storage;
  const { entries } = info;
  if (memory === null) {
    return storage.array.slice(from * entries, (from + length) * entries) as TypedArray;
  }
  const array = new info.array(length * entries);
  if (length > 0) memory.read(address + from * info.bytes, bytesOf(array));
  return array;
}

/** {@link download} without blocking. */
export async function downloadLater(
  storage: Storage,
  from: number,
  length: number,
): Promise<TypedArray> {
  const { memory, info, address } = storage;
  if (memory === null) return download(storage, from, length);
  const array = new info.array(length * info.entries);
  if (length > 0) await memory.readLater(address + from * info.bytes, bytesOf(array));
  return array;
}

/** Writes `array`, in the storage's format, from position `from` on. */
export function upload(storage: Storage, from: number, array: TypedArray): void {
  const { memory, info, address } = storage;
  if (memory === null) {
    (storage.array as Float64Array).set(array as Float64Array, from * info.entries);
  } else if (array.length > 0) memory.write(address + from * info.bytes, bytesOf(array));
}

/** `"cuda"` of `"cuda:1"`. */
function familyOf({ device }: DeviceMemory): string {
  return device.split(":")[0]!;
}

/** Copies `length` elements between storages of one dtype, in any memories. */
export function copyElements(
  target: Storage,
  to: number,
  source: Storage,
  from: number,
  length: number,
): void {
  if (length === 0) return;
  const { memory, info: { bytes, entries } } = target;
  const other = source.memory;
  if (memory === null || other === null || familyOf(memory) !== familyOf(other)) {
    // Copies a part of an array once, not twice.
    const array = other === null
      ? source.array.subarray(from * entries, (from + length) * entries) as TypedArray
      : download(source, from, length);
    upload(target, to, array);
  } else {
    memory.note?.(target, source);
    memory.copy(target.address + to * bytes, other, source.address + from * bytes, length * bytes);
  }
}

/** A storage in `memory` of the elements of `array`; nothing stays allocated if that fails. */
export function uploaded(memory: DeviceMemory, info: DTypeInfo, array: TypedArray): Storage {
  const made = allocateIn(memory, info, array.length / info.entries, false);
  try {
    upload(made, 0, array);
  } catch (error) {
    recycle(made);
    throw error;
  }
  return made;
}

/**
 * Moves `storage`, just filled on the CPU and without handles, to `memory`; null leaves it there.
 */
export function sendTo(memory: DeviceMemory | null, storage: Storage): Storage {
  if (memory === null) return storage;
  try {
    return uploaded(memory, storage.info, storage.array);
  } finally {
    recycle(storage);
  }
}

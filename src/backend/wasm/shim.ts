/**
 * The kernels as a WebAssembly module, with the interface of the shim.
 *
 * Kernels address one memory of fixed size. Arrays on it are passed by their places; others are copied
 * in, and copied out again after a call that writes them. Knows nothing of ops, or of where the module
 * comes from.
 *
 * @module
 */
import type { TypedArray } from "../../base/dtype.ts";
import { OFFSETS, OPERANDS, RANK } from "../../base/plan.ts";
import type { LinearMemory } from "../../memory/pool.ts";
import { type ForeignSymbol, type Shim, STATUS, SYMBOLS } from "../ffi/abi.ts";
import { type Engine, engine, type WasmGlobal, type WasmModule } from "./engine.ts";

const PAGE_BYTES = 1 << 16;
/** Copies of arrays up to this size in all need no memory of their own. */
const SCRATCH_BYTES = 1 << 16;
/** The most bytes of arrays that are copied one by one. */
export const SMALL_BYTES = 1 << 8;
/** The room for as many of them as calls of `rm_run` have. */
const SMALL_OPERANDS = 4 * SMALL_BYTES;
const LINE = 64;
/** Plans have fewer numbers; larger ones are passed as other arrays are. */
const MOST_NUMBERS = 256;

type Callable = (...args: number[]) => number;

/** The functions of the module besides those of the shim. */
interface Memory {
  readonly take: (bytes: number, zeroed: number) => number;
  readonly give: (place: number) => number;
  readonly used: () => number;
}

/** The module's memory. */
class ModuleMemory implements LinearMemory {
  readonly buffer: ArrayBuffer;
  readonly #memory: Memory;

  constructor(buffer: ArrayBuffer, memory: Memory) {
    this.buffer = buffer;
    this.#memory = memory;
  }

  get bytes(): number {
    return this.#memory.used() >>> 0;
  }

  take(bytes: number, zeroed: boolean): number {
    return bytes > this.buffer.byteLength ? 0 : this.#memory.take(bytes, zeroed ? 1 : 0) >>> 0;
  }

  give(place: number): void {
    this.#memory.give(place);
  }
}

/** An array outside of the memory, during one call. */
interface Copy {
  readonly array: TypedArray;
  readonly place: number;
  /** Whether the place has to be given back. */
  readonly isTaken: boolean;
}

function bytesOf(array: TypedArray): Uint8Array {
  return new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
}

/** The place of an array in the memory. */
function placeOf(array: TypedArray | null): number {
  return array === null ? 0 : array.byteOffset;
}

/** Copies few elements: engines take longer to make views than for those. */
function copySmall<A extends Float32Array | Float64Array | Int32Array | Uint8Array>(
  from: A,
  first: number,
  to: A,
  at: number,
  length: number,
): void {
  for (let i = 0; i < length; i++) to[at + i] = from[first + i]!;
}

/** How many numbers of a plan are valid. */
function lengthOf(plan: Float64Array): number {
  const operands = plan[OPERANDS]!;
  return OFFSETS + operands + plan[RANK]! * (1 + operands);
}

/** An instance of the module. */
export class WasmShim {
  /** Where storages are to be, so that no call copies them. */
  readonly memory: LinearMemory;
  /** The functions of the shim; those that the module lacks return `unsupported`. */
  readonly functions: Shim;
  /** The arrays of the storages that the next call writes, besides its first buffer. */
  written: readonly TypedArray[] = [];
  /** The arrays of those that it only reads, which may begin where others do. */
  read: readonly TypedArray[] = [];
  /**
   * Whether the kernel of the next call of `rm_run` only reads its numbers, a plan, and all of its
   * arrays are in the memory except for {@link WasmShim.small}. To ask each array for its buffer takes
   * engines longer than a small kernel.
   */
  isPlanned = false;
  /** The operands of such a call that are not, a bit for each: none has more than {@link SMALL_BYTES}. */
  small = 0;
  /** Whether a kernel found no room in the last call of `rm_run`. */
  wasFull = false;
  readonly #exports: Readonly<Record<string, unknown>>;
  readonly #stackPointer: WasmGlobal;
  readonly #buffer: ArrayBuffer;
  readonly #bytes: Uint8Array;
  readonly #floats: Float32Array;
  readonly #doubles: Float64Array;
  readonly #words: Int32Array;
  readonly #longs: BigInt64Array;
  readonly #scratch: number;
  readonly #numbers: Float64Array;
  readonly #stack: number;
  readonly #copies: Copy[] = [];
  /** The first bytes are those of small operands. */
  #scratchUsed = SMALL_OPERANDS;
  #trap: string | undefined;
  /** Whether a call runs: it has not ended properly if another begins. */
  #isRunning = false;

  /** Makes an instance with a memory of `bytes` bytes, which the system backs as they are used. */
  constructor(module: WasmModule, bytes: number) {
    const { Memory, Instance } = engine as Engine;
    const pages = Math.ceil(bytes / PAGE_BYTES);
    const memory = new Memory({ initial: pages, maximum: pages });
    const instance = new Instance(module, {
      env: { memory, now: () => performance.now() },
    });
    this.#exports = instance.exports;
    this.#stackPointer = this.#exports["__stack_pointer"] as WasmGlobal;
    this.#stack = this.#stackPointer.value;
    this.#find("_initialize")?.();
    this.#buffer = memory.buffer;
    this.#bytes = new Uint8Array(this.#buffer);
    this.#floats = new Float32Array(this.#buffer);
    this.#doubles = new Float64Array(this.#buffer);
    this.#words = new Int32Array(this.#buffer);
    this.#longs = new BigInt64Array(this.#buffer);
    const take = this.#find("rm_wasm_take")!, give = this.#find("rm_wasm_give")!;
    this.memory = new ModuleMemory(this.#buffer, {
      take: (bytes, zeroed) => this.#manage(take, [bytes, zeroed]),
      give: (place) => this.#manage(give, [place]),
      used: this.#find("rm_wasm_used")!,
    });
    this.#scratch = this.memory.take(SCRATCH_BYTES, false);
    const numbers = this.memory.take(MOST_NUMBERS * Float64Array.BYTES_PER_ELEMENT, false);
    this.#numbers = new Float64Array(this.#buffer, numbers, MOST_NUMBERS);
    this.functions = this.#wrapAll();
  }

  #find(name: string): Callable | undefined {
    return this.#exports[name] as Callable | undefined;
  }

  #wrapAll(): Shim {
    const functions = Object.entries<ForeignSymbol>(SYMBOLS).map(([name, { parameters }]) => {
      const f = this.#find(name);
      return [name, f === undefined ? () => STATUS.unsupported : this.#wrap(f, parameters)];
    });
    const plain = Object.fromEntries(functions) as Shim;
    return {
      ...plain,
      rm_run: this.#wrapRun(this.#find("rm_run")!),
      rm_run_many: this.#wrapRunMany(this.#find("rm_run_many")!),
      rm_last_error: (buffer, length) =>
        this.#trap === undefined
          ? plain.rm_last_error(buffer, length)
          : this.#writeTrap(buffer, length),
      rm_program_bind: this.#wrapBind(this.#find("rm_program_bind")!),
      rm_program_fault: this.#wrapFault(plain.rm_program_fault),
    };
  }

  /** A function that copies all arrays in and out. */
  #wrap(f: Callable, parameters: ForeignSymbol["parameters"]): Callable {
    const buffers = parameters.flatMap((type, i) => type === "buffer" ? [i] : []);
    return (...args: (number | TypedArray | null)[]): number => {
      this.#begin();
      for (const i of buffers) {
        const place = this.#pass(args[i] as TypedArray | null);
        if (place < 0) return this.#full(STATUS.outOfMemory);
        args[i] = place;
      }
      return this.#finish(this.#call(f, args as number[]), true);
    };
  }

  #wrapRun(f: Callable): Shim["rm_run"] {
    const own = this.#numbers, place = own.byteOffset;
    return (kernel, dtypes, compute, given, out, a, b, c) => {
      this.#begin();
      const numbers = given as Float64Array;
      const { isPlanned, small } = this;
      const count = isPlanned ? lengthOf(numbers) : numbers.length;
      const isShort = count <= MOST_NUMBERS;
      // A loop, since a view of the numbers takes longer.
      if (isShort) { for (let i = 0; i < count; i++) own[i] = numbers[i]!; }
      const n = isShort ? place : this.#pass(numbers);
      let o: number, x: number, y: number, z: number;
      if (isPlanned) {
        o = small & 1 ? this.#passSmall(0, out!) : placeOf(out);
        x = small & 2 ? this.#passSmall(1, a!) : placeOf(a);
        y = small & 4 ? this.#passSmall(2, b!) : placeOf(b);
        z = small & 8 ? this.#passSmall(3, c!) : placeOf(c);
      } else {
        o = this.#pass(out), x = this.#pass(a), y = this.#pass(b), z = this.#pass(c);
      }
      if (n < 0 || o < 0 || x < 0 || y < 0 || z < 0) return this.#full();
      let status: number;
      this.#isRunning = true;
      try {
        status = f(kernel, dtypes, compute, n, o, x, y, z);
      } catch (error) {
        status = this.#trapped(error);
      }
      this.#isRunning = false;
      if (isPlanned) {
        if (small & 1) this.#takeSmall(out!);
      } else if (isShort) { for (let i = 0; i < count; i++) numbers[i] = own[i]!; }
      // Kernels allocate before they write, and JavaScript needs no room in the memory.
      this.wasFull = status === STATUS.outOfMemory;
      if (this.wasFull && out !== a && out !== b && out !== c) status = STATUS.unsupported;
      return this.#copies.length === 0 ? status : this.#finish(status, false, numbers, out);
    };
  }

  #wrapRunMany(f: Callable): Shim["rm_run_many"] {
    return (kernel, dtypes, more, last, compute, numbers, out, ...inputs) => {
      this.#begin();
      const n = this.#pass(numbers);
      const places = [out, ...inputs].map((array) => this.#pass(array));
      if (places.some((place) => place < 0)) return this.#full();
      const status = this.#call(f, [kernel, dtypes, more, last, compute, n, ...places]);
      return this.#finish(status, false, numbers!, out);
    };
  }

  /** Programs keep the places of arrays that are bound to them, which are in the memory. */
  #wrapBind(f: Callable): Shim["rm_program_bind"] {
    return (frame, place, ...arrays) => {
      for (const one of arrays) {
        if (one !== null && one.buffer !== this.#buffer) return STATUS.outOfMemory;
      }
      this.#begin();
      return this.#call(f, [frame, place, ...arrays.map(placeOf)]);
    };
  }

  #wrapFault(fault: Shim["rm_program_fault"]): Shim["rm_program_fault"] {
    return (frame, numbers, text, length) => {
      if (this.#trap === undefined) return fault(frame, numbers, text, length);
      (numbers as Float64Array).set([-1, -1]);
      return this.#writeTrap(text, length, "rm_program_run\n");
    };
  }

  /** The place of an array in the memory, which is copied there if necessary; -1 if there is no room. */
  #pass(array: TypedArray | null): number {
    if (array === null) return 0;
    if (array.buffer === this.#buffer) return array.byteOffset;
    for (const copy of this.#copies) if (copy.array === array) return copy.place;
    const { byteLength } = array;
    const isSmall = this.#scratchUsed + byteLength <= SCRATCH_BYTES;
    const place = isSmall ? this.#scratch + this.#scratchUsed : this.memory.take(byteLength, false);
    if (place === 0) return -1;
    if (isSmall) this.#scratchUsed += Math.ceil(byteLength / LINE) * LINE;
    this.#bytes.set(bytesOf(array), place);
    this.#copies.push({ array, place, isTaken: !isSmall });
    return place;
  }

  /** Copies a small array to the place of operand `k`, which it returns. */
  #passSmall(k: number, array: TypedArray): number {
    const place = this.#scratch + k * SMALL_BYTES;
    const { length } = array;
    if (array instanceof Float32Array) copySmall(array, 0, this.#floats, place >> 2, length);
    else if (array instanceof Float64Array) copySmall(array, 0, this.#doubles, place >> 3, length);
    else if (array instanceof Int32Array) copySmall(array, 0, this.#words, place >> 2, length);
    else if (array instanceof Uint8Array) copySmall(array, 0, this.#bytes, place, length);
    else if (length === 1 && array instanceof BigInt64Array) this.#longs[place >> 3] = array[0]!;
    else this.#bytes.set(bytesOf(array), place);
    return place;
  }

  /** Copies the elements of a small output out. */
  #takeSmall(array: TypedArray): void {
    const place = this.#scratch;
    const { length } = array;
    if (array instanceof Float32Array) copySmall(this.#floats, place >> 2, array, 0, length);
    else if (array instanceof Float64Array) copySmall(this.#doubles, place >> 3, array, 0, length);
    else if (array instanceof Int32Array) copySmall(this.#words, place >> 2, array, 0, length);
    else if (array instanceof Uint8Array) copySmall(this.#bytes, place, array, 0, length);
    else if (length === 1 && array instanceof BigInt64Array) array[0] = this.#longs[place >> 3]!;
    else this.#copyOut(array, place);
  }

  #call(f: Callable, args: number[]): number {
    let status: number;
    this.#isRunning = true;
    try {
      status = f(...args);
    } catch (error) {
      status = this.#trapped(error);
    }
    this.#isRunning = false;
    return status;
  }

  /** Calls a function that manages the memory; 0 if it traps. */
  #manage(f: Callable, args: number[]): number {
    if (this.#isRunning) this.#begin();
    const result = this.#call(f, args);
    if (this.#trap === undefined) return result;
    this.#trap = undefined;
    return 0;
  }

  /**
   * Begins a call. If JavaScript's stack has overflowed in the last one, that has not ended properly.
   */
  #begin(): void {
    if (!this.#isRunning && this.#copies.length === 0) return;
    this.#isRunning = false;
    this.#stackPointer.value = this.#stack;
    this.#full();
  }

  /** Copies arrays out: all, or those that the call writes. Ends their use of the memory. */
  #finish(
    status: number,
    all: boolean,
    numbers: TypedArray | null = null,
    out: TypedArray | null = null,
  ): number {
    for (const { array, place, isTaken } of this.#copies) {
      if (all || array === numbers || array === out || this.#isWritten(array)) {
        this.#copyOut(array, place);
      }
      if (isTaken) this.memory.give(place);
    }
    this.#copies.length = 0;
    this.#scratchUsed = SMALL_OPERANDS;
    return status;
  }

  /** Ends a call that the memory has no room for. */
  #full(status: number = STATUS.unsupported): number {
    for (const { place, isTaken } of this.#copies) if (isTaken) this.memory.give(place);
    this.#copies.length = 0;
    this.#scratchUsed = SMALL_OPERANDS;
    return status;
  }

  #isWritten(array: TypedArray): boolean {
    return !this.read.includes(array) &&
      this.written.some(({ buffer, byteOffset }) =>
        buffer === array.buffer && byteOffset === array.byteOffset
      );
  }

  #copyOut(array: TypedArray, place: number): void {
    bytesOf(array).set(this.#bytes.subarray(place, place + array.byteLength));
  }

  /** After a trap the stack pointer is where the function was that trapped. */
  #trapped(error: unknown): number {
    this.#stackPointer.value = this.#stack;
    this.#trap = `the kernel trapped: ${error instanceof Error ? error.message : String(error)}`;
    return STATUS.deviceError;
  }

  #writeTrap(buffer: TypedArray | null, length: number, prefix = ""): number {
    const text = new TextEncoder().encode(`${prefix}${this.#trap}\0`);
    this.#trap = undefined;
    if (buffer !== null) bytesOf(buffer).set(text.subarray(0, length));
    return text.length - 1;
  }
}

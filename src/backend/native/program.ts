/**
 * Programs: lists of kernel calls that the shim runs in one foreign call.
 *
 * A {@link NativeProgram} is constant. Each run needs a {@link Frame}, which holds all that a run
 * changes. The caller has checked that every plan stays inside its buffers; this module checks that
 * the buffers have the bytes that the program says. Knows nothing of ops and tensors.
 *
 * @module
 */
import { NO_DTYPE, type TypedArray } from "../../base/dtype.ts";
import {
  DisposedError,
  DistributedError,
  NativeError,
  OutOfMemoryError,
} from "../../base/errors.ts";
import { ATTRIBUTES } from "../../base/plan.ts";
import { abandon, worldRank } from "../../ops/collective/problem.ts";
import { giveArena, takeArena } from "../../memory/pool.ts";
import { PROGRAM, PROGRAM_ARENA, type Shim, STATUS } from "../ffi/abi.ts";
import { lastError, readText } from "../ffi/text.ts";

/** A call of a kernel: the arguments of `rm_run`, with buffers of the program. */
export interface ProgramCall {
  /** The number of the kernel, from `rm_find_kernel`. */
  readonly kernel: number;
  /** The id of the dtype of the arithmetic. */
  readonly compute: number;
  /** The ids of the dtypes of the operands, the output first; `NO_DTYPE` for none. */
  readonly dtypes: readonly number[];
  /** The operands by their places in {@link ProgramSpec.buffers}; -1 for none. */
  readonly buffers: readonly number[];
  /** The plan and attributes, or the kernel's own numbers. They are copied. */
  readonly numbers: Float64Array;
  /**
   * True if the kernel checks indices and writes the flat index of the first bad one, or -1, to the
   * first attribute. The run stops after a call that has found one.
   */
  readonly checksIndex?: boolean;
}

/** Memory that calls read and write. */
export type ProgramBuffer =
  /** In the arena, at a multiple of 8 bytes: the elements are undefined before and after a run. */
  | { readonly kind: "arena"; readonly bytes: number; readonly offset: number }
  /** Of the frame; {@link Frame.write} and {@link Frame.read} copy it from and to arrays. */
  | { readonly kind: "copied"; readonly bytes: number }
  /**
   * A typed array that {@link Frame.bind} names. If it is `kept`, the frame keeps it when it is
   * released, as for weights; otherwise it has to be bound before each run.
   */
  | { readonly kind: "bound"; readonly bytes: number; readonly kept?: boolean };

/** How an operand moves in a loop. */
export interface LoopStep {
  /** The bytes from one tile to the next. */
  readonly tile: number;
  /** The bytes from the memory of one slot to that of the next. */
  readonly slot: number;
}

/**
 * Calls that run once for each tile of rows, on several threads. Addresses of buffers are those of
 * the first tile and slot.
 */
export interface ProgramLoop {
  /** The first call. */
  readonly first: number;
  /** The number of calls of a whole tile. */
  readonly body: number;
  /** The number of calls after them that are for the last, shorter tile; 0 if there is none. */
  readonly rest: number;
  /** The number of whole tiles. */
  readonly tiles: number;
  /** The most tiles that run at the same time, at most 32. */
  readonly slots: number;
  /** The estimated nanoseconds of all tiles. */
  readonly work: number;
  /** The steps of all operands of all calls. */
  readonly steps: readonly (readonly LoopStep[])[];
}

/** All parts of a program. */
export interface ProgramSpec {
  /** Loops over calls, in order. */
  readonly loops?: readonly ProgramLoop[];
  /** The memory of the calls. */
  readonly buffers: readonly ProgramBuffer[];
  /** The calls in order. */
  readonly calls: readonly ProgramCall[];
  /** The size of the arena, which a frame has while it is acquired. */
  readonly arenaBytes: number;
}

/** An index out of range that a call has found; calls after it have not run. */
export interface IndexFault {
  /** The number of the call. */
  readonly call: number;
  /** The flat index of the first bad index among the call's indices. */
  readonly badIndex: number;
}

/** The alignment of buffers in the arena, so that every dtype is aligned. */
const ALIGNMENT = 8;
/** That of copied buffers: a cache line, so that no two threads write one. */
const COPIED_ALIGNMENT = PROGRAM_ARENA.line;
/** Calls have at least as many operands. */
const OPERANDS = 4;
/** Arrays bound by one foreign call. */
const GROUP = 4;

const KINDS = { arena: PROGRAM.arena, bound: PROGRAM.bound, copied: PROGRAM.copied } as const;

/** The error of a specification or of a use that C would not survive. */
function bad(message: string): NativeError {
  return new NativeError("rm_program", STATUS.bounds, message);
}

function isCount(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0;
}

function checkBuffer(buffer: ProgramBuffer, place: number, arenaBytes: number): void {
  if (!isCount(buffer.bytes)) throw bad(`buffer ${place} has ${buffer.bytes} bytes`);
  if (buffer.kind === "bound") {
    // Empty arrays have no address.
    if (buffer.bytes === 0) throw bad(`buffer ${place} is bound and has no bytes`);
    return;
  }
  if (buffer.kind === "copied") return;
  const { offset, bytes } = buffer;
  if (isCount(offset) && offset % ALIGNMENT === 0 && offset + bytes <= arenaBytes) return;
  throw bad(`buffer ${place} has bytes ${offset} to ${offset + bytes} of ${arenaBytes}`);
}

function checkCall(call: ProgramCall, at: number, buffers: number): void {
  const { dtypes, numbers, checksIndex = false } = call;
  if (dtypes.length !== call.buffers.length) {
    throw bad(`call ${at} has ${dtypes.length} dtypes and ${call.buffers.length} buffers`);
  }
  for (const place of call.buffers) {
    if (Number.isInteger(place) && place >= -1 && place < buffers) continue;
    throw bad(`call ${at} uses buffer ${place} of ${buffers}`);
  }
  if (checksIndex && numbers.length <= ATTRIBUTES) throw bad(`call ${at} has no attributes`);
}

/** The specification as `rm_program` reads it. */
function encode({ buffers, calls, arenaBytes, loops = [] }: ProgramSpec): Float64Array {
  if (!isCount(arenaBytes)) throw bad(`the arena has ${arenaBytes} bytes`);
  const parts: number[] = [0, buffers.length, calls.length, arenaBytes, 0];
  let copiedBytes = 0;
  buffers.forEach((buffer, place) => {
    checkBuffer(buffer, place, arenaBytes);
    const { kind, bytes } = buffer;
    parts.push(KINDS[kind], kind === "arena" ? buffer.offset : copiedBytes, bytes);
    if (kind === "copied") copiedBytes += Math.ceil(bytes / COPIED_ALIGNMENT) * COPIED_ALIGNMENT;
  });
  parts[4] = copiedBytes;
  calls.forEach((call, at) => {
    checkCall(call, at, buffers.length);
    const { kernel, compute, dtypes, numbers, checksIndex = false } = call;
    const operands = Math.max(OPERANDS, dtypes.length);
    parts.push(kernel, compute, checksIndex ? 1 : 0, operands, numbers.length);
    for (let k = 0; k < operands; k++) parts.push(dtypes[k] ?? NO_DTYPE);
    for (let k = 0; k < operands; k++) parts.push(call.buffers[k] ?? -1);
    for (const number of numbers) parts.push(number);
  });
  parts.push(loops.length);
  for (const loop of loops) {
    const fits = loop.first >= 0 && loop.body >= 1 && loop.steps.length === loop.body + loop.rest &&
      loop.first + loop.steps.length <= calls.length;
    if (!fits) throw bad(`a loop of ${loop.steps.length} calls from ${loop.first} is malformed`);
    parts.push(loop.first, loop.body, loop.rest, loop.tiles, loop.slots, Math.round(loop.work));
    loop.steps.forEach((steps, i) => {
      const operands = Math.max(OPERANDS, calls[loop.first + i]!.dtypes.length);
      for (let k = 0; k < operands; k++) parts.push(steps[k]?.tile ?? 0, steps[k]?.slot ?? 0);
    });
  }
  parts[0] = parts.length;
  return Float64Array.from(parts);
}

/** What has to be freed in the shim. It outlives its program, for the finalizer. */
interface Owned {
  readonly shim: Shim;
  /** The address; 0 once it is freed. */
  program: number;
  readonly frames: Set<number>;
}

const numbers = new Float64Array(2);

function free(owned: Owned): void {
  for (const frame of owned.frames) {
    numbers[0] = frame;
    owned.shim.rm_program(PROGRAM.freeFrame, numbers);
  }
  owned.frames.clear();
  numbers[0] = owned.program;
  owned.program = 0;
  if (numbers[0] !== 0) owned.shim.rm_program(PROGRAM.free, numbers);
}

/** Frames hold their program, so it is not lost while one is in use. */
const lost = new FinalizationRegistry<Owned>(free);

/** A list of kernel calls in the memory of the shim. */
export class NativeProgram {
  /** What the program was made from. */
  readonly spec: ProgramSpec;
  /** The memory of the program itself, without frames. */
  readonly programBytes: number;
  /** The memory of each frame, without the arena. */
  #frameBytes = 0;
  readonly #owned: Owned;
  readonly #idle: Frame[] = [];
  #frames = 0;
  #freed = false;

  /** Makes a program from its parts. Throws a NativeError if they do not fit each other. */
  constructor(shim: Shim, spec: ProgramSpec) {
    const encoded = encode(spec);
    const status = shim.rm_program(PROGRAM.make, encoded);
    if (status !== STATUS.ok) throw failed(shim, status, encoded.byteLength);
    this.spec = spec;
    this.#owned = { shim, program: encoded[0]!, frames: new Set() };
    this.programBytes = encoded[1]!;
    lost.register(this, this.#owned, this);
  }

  /** The memory of the program and all its frames. */
  get bytes(): number {
    return this.programBytes + this.#frames * this.#frameBytes;
  }

  /** The number of frames, idle ones included. */
  get frames(): number {
    return this.#frames;
  }

  /**
   * An idle frame, or a new one while there are fewer than `most`; null if there are as many in use.
   *
   * Throws an OutOfMemoryError if there is no memory for its arena.
   */
  acquire(most = 1): Frame | null {
    const { arenaBytes } = this.spec;
    if (this.#idle.length === 0 && this.#frames >= most) return null;
    const arena = arenaBytes === 0 ? null : takeArena(arenaBytes + PROGRAM_ARENA.line);
    let frame = this.#idle.pop();
    try {
      frame ??= this.#makeFrame();
      if (arena !== null && arena !== frame.boundArena) frame.bindArena(arena);
    } catch (error) {
      if (arena !== null) giveArena(arena);
      if (frame !== undefined) this.#idle.push(frame);
      throw error;
    }
    frame.isAcquired = true;
    frame.arena = arena;
    return frame;
  }

  #makeFrame(): Frame {
    const { shim, program, frames } = this.#owned;
    if (this.#freed) throw disposed();
    numbers[0] = program;
    const status = shim.rm_program(PROGRAM.makeFrame, numbers);
    if (status !== STATUS.ok) throw failed(shim, status, this.programBytes);
    frames.add(numbers[0]!);
    this.#frameBytes = numbers[1]!;
    this.#frames++;
    return new Frame(this, shim, numbers[0]!);
  }

  /** Frees the program and its frames; those in use are freed when they are released. */
  free(): void {
    lost.unregister(this);
    for (const frame of this.#idle) this.#freeFrame(frame);
    this.#idle.length = 0;
    // The frames in use need the program.
    if (this.#owned.frames.size === 0) free(this.#owned);
    this.#freed = true;
  }

  /** Ends the use of a frame. @ignore */
  end(frame: Frame): void {
    if (!this.#freed) {
      this.#idle.push(frame);
      return;
    }
    this.#freeFrame(frame);
    if (this.#owned.frames.size === 0) free(this.#owned);
  }

  #freeFrame(frame: Frame): void {
    numbers[0] = frame.end();
    this.#owned.frames.delete(numbers[0]!);
    this.#frames--;
    this.#owned.shim.rm_program(PROGRAM.freeFrame, numbers);
  }
}

function failed(shim: Shim, status: number, bytes: number): Error {
  return status === STATUS.outOfMemory
    ? new OutOfMemoryError(bytes, "cpu", "a program")
    : new NativeError("rm_program", status, lastError(shim));
}

/** The memory of one run of a program at a time. */
export class Frame {
  /** The program. */
  readonly program: NativeProgram;
  /** Whether a run has it. @ignore */
  isAcquired = false;
  /** The memory of intermediate results, while the frame is acquired. @ignore */
  arena: Uint8Array | null = null;
  /** The arena of the last run, of which the shim has the address. @ignore */
  boundArena: Uint8Array | null = null;
  /** The address in the shim; 0 during a job and once it is freed. */
  #address: number;
  /** The address during a job, else 0. */
  #lent = 0;
  readonly #shim: Shim;
  readonly #calls: number;
  #isAbandoned = false;
  readonly #buffers: readonly ProgramBuffer[];
  /** By place: the array bound there, which must stay alive during runs. */
  readonly #bound: (TypedArray | null)[];
  /** Bound places without an array. */
  #missing: number;
  /** The places to unbind at release. */
  readonly #transient: readonly number[];

  /** Wraps the frame at `address`. */
  constructor(program: NativeProgram, shim: Shim, address: number) {
    const { buffers, calls } = program.spec;
    this.program = program;
    this.#address = address;
    this.#shim = shim;
    this.#calls = calls.length;
    this.#buffers = buffers;
    this.#bound = buffers.map(() => null);
    const places = buffers.flatMap(({ kind }, place) => kind === "bound" ? [place] : []);
    this.#missing = places.length;
    this.#transient = places.filter((place) => {
      const buffer = buffers[place]!;
      return buffer.kind === "bound" && buffer.kept !== true;
    });
  }

  /** Has runs use `arena`, whose elements are undefined. @ignore */
  bindArena(arena: Uint8Array): void {
    const { place } = PROGRAM_ARENA;
    this.#check(this.#shim.rm_program_bind(this.#address, place, arena, null, null, null));
    this.boundArena = arena;
  }

  /** Makes the frame unusable for good, and returns its address. @ignore */
  end(): number {
    const address = this.#address;
    this.#address = 0;
    return address;
  }

  /**
   * Checks that the calls [`from`, `to`) can run, and returns the address of the frame, which is
   * unusable until {@link takeBack}. @ignore
   */
  lend(from: number, to: number): number {
    this.#checkRun(from, to);
    this.#lent = this.#address;
    this.#address = 0;
    return this.#lent;
  }

  /** Ends a {@link lend}. @ignore */
  takeBack(): void {
    this.#address = this.#lent;
    this.#lent = 0;
  }

  /**
   * Sets the arrays of up to four consecutive bound buffers, from `place` on. The frame refers to
   * them until it is released, or until others are bound. They must not be detached before the run
   * ends.
   *
   * Throws a DisposedError for a detached array, a NativeError for one that is too short or whose
   * buffer is resizable.
   */
  bind(
    place: number,
    a: TypedArray,
    b: TypedArray | null = null,
    c: TypedArray | null = null,
    d: TypedArray | null = null,
  ): void {
    this.#checkBound(place, a);
    if (b !== null) this.#checkBound(place + 1, b);
    if (c !== null) this.#checkBound(place + 2, c);
    if (d !== null) this.#checkBound(place + 3, d);
    const bound = this.#bound;
    // A buffer that is not detached does not move, so that its address is still right.
    if (
      a === bound[place] && (b === null || b === bound[place + 1]) &&
      (c === null || c === bound[place + 2]) && (d === null || d === bound[place + 3])
    ) return;
    this.#check(this.#shim.rm_program_bind(this.#address, place, a, b, c, d));
    this.#keep(place, a);
    if (b !== null) this.#keep(place + 1, b);
    if (c !== null) this.#keep(place + 2, c);
    if (d !== null) this.#keep(place + 3, d);
  }

  /** Sets the arrays of consecutive bound buffers, from `place` on, as {@link Frame.bind} does. */
  bindAll(place: number, arrays: readonly TypedArray[]): void {
    for (let i = 0; i < arrays.length; i += GROUP) {
      this.bind(place + i, arrays[i]!, arrays[i + 1], arrays[i + 2], arrays[i + 3]);
    }
  }

  /** Copies the first bytes of `array` to a copied buffer. */
  write(place: number, array: TypedArray): void {
    this.#checkBytes(place, "copied", array);
    this.#check(this.#shim.rm_program_copy(this.#address, PROGRAM.write, place, array));
  }

  /** Copies a copied buffer to the beginning of `array`. */
  read(place: number, array: TypedArray): void {
    this.#checkBytes(place, "copied", array);
    this.#check(this.#shim.rm_program_copy(this.#address, PROGRAM.read, place, array));
  }

  /** Sets one of the numbers of a call, for all later runs in this frame. */
  setNumber(call: number, index: number, value: number): void {
    this.#check(this.#shim.rm_program_set(this.#address, call, index, value));
  }

  /**
   * Runs the calls [`from`, `to`). Returns null, or where an index is out of range.
   *
   * Throws a NativeError that names the kernel if a call fails; its status is `unsupported` if the
   * shim has no kernel for the dtypes of the call.
   */
  run(from = 0, to: number = this.#calls): IndexFault | null {
    this.#checkRun(from, to);
    const status = this.#shim.rm_program_run(this.#address, from, to);
    return status === STATUS.ok ? null : this.fault(status);
  }

  /** Why a run has returned `status`, which is not `ok`: returns or throws as {@link run} does. */
  fault(status: number): IndexFault {
    const text = readText((bytes, length) =>
      this.#shim.rm_program_fault(this.#address, numbers, bytes, length)
    );
    const [call, badIndex] = [numbers[0]!, numbers[1]!];
    if (status === STATUS.badIndex) return { call, badIndex };
    const [kernel, message] = [
      text.slice(0, text.indexOf("\n")),
      text.slice(text.indexOf("\n") + 1),
    ];
    if (status === STATUS.distributed) {
      // MPI may still write to the memory of the frame, and to that of its arrays.
      this.#address = 0;
      this.#isAbandoned = true;
      abandon(this);
      throw new DistributedError(`run ${kernel} in a program`, worldRank, -1, message);
    }
    const why = status === STATUS.unsupported ? "no kernel for these dtypes" : message;
    throw new NativeError("rm_program_run", status, `call ${call}, ${kernel}: ${why}`);
  }

  /** Hands the frame back to its program for reuse, and unbinds all arrays that are not kept. */
  release(): void {
    if (!this.isAcquired) return;
    if (this.#lent !== 0) throw this.#unusable();
    this.isAcquired = false;
    // MPI may still write to the arena of such a frame.
    if (this.#isAbandoned) return;
    if (this.arena !== null) {
      giveArena(this.arena);
      this.arena = null;
    }
    for (const place of this.#transient) {
      if (this.#bound[place] === null) continue;
      this.#bound[place] = null;
      this.#missing++;
    }
    this.program.end(this);
  }

  #checkRun(from: number, to: number): void {
    if (this.#missing > 0) throw this.#unbound();
    if (!this.isAcquired) throw bad("the frame was released");
    if (!(from >= 0 && from <= to && to <= this.#calls)) {
      throw bad(`there are no calls ${from} to ${to} of ${this.#calls}`);
    }
    if (this.#address === 0) throw this.#unusable();
  }

  #keep(place: number, array: TypedArray): void {
    if (this.#bound[place] === null) this.#missing--;
    this.#bound[place] = array;
  }

  #checkBound(place: number, array: TypedArray): void {
    this.#checkBytes(place, "bound", array);
    if (array === this.#bound[place]) return;
    // Reading the buffer also moves the elements of a small array out of the heap of the collector,
    // where they would not have a constant address.
    if ((array.buffer as ArrayBuffer).resizable === true) {
      throw bad(`buffer ${place} cannot be a resizable one`);
    }
  }

  #checkBytes(place: number, kind: ProgramBuffer["kind"], array: TypedArray): void {
    const buffer = this.#buffers[place];
    if (buffer === undefined || buffer.kind !== kind) throw bad(`buffer ${place} is not ${kind}`);
    const { byteLength } = array;
    if (byteLength >= buffer.bytes) return;
    if ((array.buffer as ArrayBuffer).detached === true) {
      throw new DisposedError(`Cannot run a program: the array of buffer ${place} was transferred`);
    }
    throw bad(`buffer ${place} has ${buffer.bytes} bytes, its array ${byteLength}`);
  }

  #check(status: number): void {
    if (status === STATUS.ok) return;
    if (this.#address === 0) throw this.#unusable();
    throw failed(this.#shim, status, this.program.bytes);
  }

  #unbound(): NativeError {
    const place = this.#buffers.findIndex(({ kind }, i) =>
      kind === "bound" && this.#bound[i] === null
    );
    return bad(`buffer ${place} has no array`);
  }

  #unusable(): Error {
    return this.#lent === 0 ? disposed() : bad("the frame is in use by a job");
  }
}

function disposed(): DisposedError {
  return new DisposedError("Cannot run a program that was disposed of");
}

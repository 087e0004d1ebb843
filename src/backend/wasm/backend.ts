/**
 * The backend of the CPU where no native library can be opened: the same kernels in WebAssembly.
 *
 * Calls that it would not speed up run in JavaScript: small ones, and cheap ones on memory that their
 * kernels cannot address. Knows nothing of where the module comes from.
 *
 * @module
 */
import type { Backend } from "../../core/backend.ts";
import type { DTypeInfo, TypedArray } from "../../base/dtype.ts";
import { isOperand } from "../../memory/operand.ts";
import { emptyCache, moveIn } from "../../memory/pool.ts";
import type { Storage } from "../../memory/storage.ts";
import { type Call, type ElementOp, isTableOp, type Op } from "../../table/op.ts";
import { NativeBackend, type NativeOptions } from "../native/backend.ts";
import { SMALL_BYTES, type WasmShim } from "./shim.ts";
import { isSmall } from "./small.ts";

/** With fewer elements, the JavaScript loop is faster than a call, whatever the op and the dtypes. */
const CROSSOVER = 64;

/** The most bytes that a call copies in and out if its kernel reads each element once. */
const MOST_COPIED = 1 << 12;

const NONE: readonly TypedArray[] = [];

/** Kernels count elements in 31 bits. */
const MOST_ELEMENTS = 2 ** 31 - 1;

/** Whether an operand has more elements than kernels count. Outputs may not exist yet. */
function isHuge({ inputs, outputs, specs }: Call): boolean {
  for (const x of inputs) if (isOperand(x) && x.layout.size > MOST_ELEMENTS) return true;
  for (const x of outputs) if (x !== undefined && x.layout.size > MOST_ELEMENTS) return true;
  if (outputs.length > 0 || specs === undefined) return false;
  return specs.some(({ shape }) => shape.reduce((size, n) => size * n, 1) > MOST_ELEMENTS);
}

/** Whether elements are 16-bit floats, which JavaScript reads slowly, and some ops round otherwise. */
function isHalf({ kind, bytes }: DTypeInfo): boolean {
  return kind === "f" && bytes === 2;
}

/** Whether a call reads each element about once, and computes little with it. */
function isCheap({ op, outputs }: Call): boolean {
  switch (op.kind) {
    case "map":
      return (op as ElementOp).ulp === 0 && !isHalf(outputs[0]!.storage.info);
    case "reduce":
    case "argReduce":
    case "scan":
      return true;
    default:
      return op.moves === true;
  }
}

/** Whether a storage of few bytes is outside of the memory, and no other thread has it. */
function isSmallOutside({ array, exposed }: Storage): boolean {
  return !exposed && array.byteLength <= SMALL_BYTES;
}

/**
 * The operands of a call of the table that are small and outside of the memory, a bit for each from the
 * output on; -1 if others are outside.
 */
function smallOperands({ inputs, outputs }: Call): number {
  const out = outputs[0]!.storage;
  let small = 0;
  if (out.slot === null) {
    if (!isSmallOutside(out)) return -1;
    small = 1;
  }
  for (let k = 0; k < inputs.length; k++) {
    const x = inputs[k]!;
    if (!isOperand(x)) return -1;
    if (x.storage.slot !== null) continue;
    if (!isSmallOutside(x.storage)) return -1;
    small |= 2 << k;
  }
  return small;
}

/** Runs on the CPU through a WebAssembly module. */
export class WasmBackend implements Backend {
  readonly name = "wasm";
  /** The module. */
  readonly shim: WasmShim;
  readonly #kernels: NativeBackend;
  /** Whether small calls run in JavaScript. */
  readonly #leavesSmall: boolean;

  /** Runs calls through `shim`. */
  constructor(shim: WasmShim, { crossover }: NativeOptions = {}) {
    this.shim = shim;
    this.#kernels = new NativeBackend(shim.functions, { crossover: crossover ?? CROSSOVER });
    this.#leavesSmall = crossover === undefined;
  }

  hasKernel(op: Op): boolean {
    return this.#kernels.hasKernel(op);
  }

  /** The number of the op's kernel in the module; -1 if it has none. */
  numberOf(op: Op): number {
    return this.#kernels.numberOf(op);
  }

  supports(call: Call): boolean {
    return !isHuge(call) && this.#kernels.supports(call);
  }

  run(call: Call): boolean {
    if (this.#leavesSmall && isSmall(call)) return false;
    if (isTableOp(call.op)) {
      const small = smallOperands(call);
      if (small >= 0) return this.#runPlanned(call, small);
    }
    const { inputs, outputs } = call;
    let copied = 0;
    for (const x of inputs) if (isOperand(x)) copied += this.#bytesOutside(x.storage);
    for (const x of outputs) copied += this.#bytesOutside(x.storage);
    if (copied === 0) return this.#run(call);
    if (copied === Infinity || (copied > MOST_COPIED && isCheap(call))) return false;
    const { shim } = this;
    shim.written = outputs.map(({ storage }) => storage.array);
    shim.read = inputs.flatMap((x) => isOperand(x) ? [x.storage.array] : [])
      .filter((array) => !shim.written.includes(array));
    try {
      return this.#run(call);
    } finally {
      shim.written = shim.read = NONE;
    }
  }

  /** Runs a call of the table whose operands are in the memory, except for those of `small`. */
  #runPlanned(call: Call, small: number): boolean {
    if (call.plan!.size > MOST_ELEMENTS) return false;
    const { shim } = this;
    // Other definitions of ops run as chains, which have numbers of their own.
    if (this.#kernels.numberOf(call.op) < 0) return this.#run(call);
    shim.isPlanned = true;
    shim.small = small;
    try {
      return this.#runInRoom(call);
    } finally {
      shim.isPlanned = false;
      shim.small = 0;
    }
  }

  #run(call: Call): boolean {
    return !isHuge(call) && this.#runInRoom(call);
  }

  #runInRoom(call: Call): boolean {
    const { shim } = this;
    if (this.#kernels.run(call)) return true;
    if (!shim.wasFull) return false;
    // The memory that is kept for reuse may be what the kernel needs.
    shim.wasFull = false;
    emptyCache();
    return this.#kernels.run(call);
  }

  /** The bytes that a call copies of a storage, after it was moved into the memory if possible. */
  #bytesOutside(storage: Storage): number {
    const { array, slot } = storage;
    if (slot !== null) return 0;
    if (array.buffer === this.shim.memory.buffer) return 0;
    // Another thread may write elements that the call does not, which a copy would undo.
    if (storage.shared) return Infinity;
    return moveIn(this.shim.memory, storage) ? 0 : array.byteLength;
  }
}

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
import type { Call, ElementOp, Op } from "../../table/op.ts";
import { NativeBackend, type NativeOptions } from "../native/backend.ts";
import type { WasmShim } from "./shim.ts";

/** With fewer elements, the JavaScript loop is faster than a call, whatever the dtypes. */
const CROSSOVER = 64;
/** The same for elementwise ops of dtypes that JavaScript computes with directly. */
const CROSSOVER_OF_NUMBERS = 512;
/** The same if not all elements are adjacent. */
const CROSSOVER_OF_STRIDED = 4096;
/** The same for sorts. */
const CROSSOVER_OF_SORTS = 200;

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

/** Whether JavaScript computes with elements directly: not with 16-bit floats and 64-bit integers. */
function isNumber(info: DTypeInfo): boolean {
  return !isHalf(info) && (info.kind === "f" || info.bytes <= 4);
}

/** Whether the JavaScript loop of a call gives the same result, and is faster than the kernel. */
function isSmall({ op, plan, inputs, outputs }: Call): boolean {
  if (op.kind === "map") {
    if ((op as ElementOp).ulp !== 0 || plan === null || plan.size >= CROSSOVER_OF_STRIDED) {
      return false;
    }
    if (plan.rank === 1 && plan.size >= CROSSOVER_OF_NUMBERS) return false;
    return outputs.every(({ storage }) => isNumber(storage.info)) &&
      inputs.every((x) => !isOperand(x) || isNumber(x.storage.info));
  }
  if (op.name !== "sort") return false;
  const [x] = inputs;
  return isOperand(x) && x.layout.size < CROSSOVER_OF_SORTS && isNumber(x.storage.info);
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

  #run(call: Call): boolean {
    if (isHuge(call)) return false;
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

/**
 * The CPU where the native library is unavailable: JavaScript loops until calls are worth opening the
 * WebAssembly module, and one warning, once an op has taken long.
 *
 * Only the main thread warns, so that a pool of workers does not repeat it. Nothing is printed at
 * import, and nothing here prompts.
 *
 * @module
 */
import type { Backend } from "../core/backend.ts";
import { isOperand } from "../memory/operand.ts";
import type { Call, ElementOp, Input, Op } from "../table/op.ts";
import { host } from "./ffi/runtime.ts";

/** From this number of elements on, an op in JavaScript takes noticeably longer. */
const LARGE = 1 << 16;
/** The same for ops that compute more than an elementwise op. */
const LARGE_WORK = 1 << 12;
/** Milliseconds of an op of which the native library would save 50. */
const SLOW_MS = 75;

/** Whether the call takes long; one that moves few elements of a large tensor does not. */
function isLarge({ op, inputs, outputs }: Call): boolean {
  const least = op.kind === "map" || op.moves ? LARGE : LARGE_WORK;
  const isBig = (x: Input): boolean => isOperand(x) && x.layout.size >= least;
  return outputs.some(isBig) || inputs.some((x, k) => (k > 0 || !op.moves) && isBig(x));
}

/** Nanoseconds of JavaScript loops for which opening a module pays: it takes 10 to 50 ms. */
const WORTH_OPENING = 1e7;

/** Nanoseconds in JavaScript for each element and column of the matrices of a factorization. */
const FACTORIZATIONS: Readonly<Record<string, number>> = {
  eig: 20,
  eigvals: 15,
  svd: 6,
  eigh: 4,
  svdvals: 2,
  eigvalsh: 2,
};

/** About how many nanoseconds a call takes in JavaScript. */
function costOf({ op, inputs, outputs, specs }: Call): number {
  let size = 0;
  for (const x of inputs) if (isOperand(x)) size = Math.max(size, x.layout.size);
  for (const x of outputs) if (x !== undefined) size = Math.max(size, x.layout.size);
  for (const { shape } of outputs.length > 0 ? [] : specs) {
    size = Math.max(size, shape.reduce((product, n) => product * n, 1));
  }
  switch (op.kind) {
    case "map":
      return size * ((op as ElementOp).ulp === 0 ? 1 : 20);
    case "reduce":
    case "argReduce":
    case "scan":
      return size;
    default:
      break;
  }
  const factor = FACTORIZATIONS[op.name];
  const first = inputs[0];
  if (factor !== undefined && isOperand(first)) {
    return factor * size * (first.layout.shape.at(-1) ?? 1);
  }
  // A product of square matrices, and near enough for sorts, transforms and convolutions.
  return op.moves ? size : size ** 1.5 / 2;
}

/** Runs calls by one backend until opening another pays. */
export class FallbackBackend implements Backend {
  readonly name: string;
  readonly #small: Backend;
  readonly #open: () => Backend;
  #spent = 0;

  /** `open` returns the backend of that name, and has it serve the calls to come. */
  constructor(name: string, small: Backend, open: () => Backend) {
    this.name = name;
    this.#small = small;
    this.#open = open;
  }

  hasKernel(op: Op): boolean {
    return this.#small.hasKernel?.(op) ?? true;
  }

  supports(call: Call): boolean {
    return this.#for(costOf(call)).supports(call);
  }

  run(call: Call): boolean {
    const cost = costOf(call);
    const backend = this.#for(cost);
    this.#spent += cost;
    return backend.run(call);
  }

  #for(cost: number): Backend {
    return this.#spent + cost >= WORTH_OPENING ? this.#open() : this.#small;
  }
}

/** Runs calls by another backend until one takes long, warns, and makes way for that backend. */
export class WarningBackend implements Backend {
  readonly name: string;
  readonly #backend: Backend;
  readonly #text: string;
  readonly #warned: () => void;

  /** `warned` is called after the warning. */
  constructor(backend: Backend, text: string, warned: () => void) {
    this.name = backend.name;
    this.#backend = backend;
    this.#text = text;
    this.#warned = warned;
  }

  hasKernel(op: Op): boolean {
    return this.#backend.hasKernel?.(op) ?? true;
  }

  supports(call: Call): boolean {
    return this.#backend.supports(call);
  }

  run(call: Call): boolean {
    if (!isLarge(call)) return this.#backend.run(call);
    const begin = performance.now();
    const isDone = this.#backend.run(call);
    if (performance.now() - begin >= SLOW_MS) {
      this.#warned();
      if (host.isMainThread()) console.warn(`rowmajor: ${this.#text}`);
    }
    return isDone;
  }
}

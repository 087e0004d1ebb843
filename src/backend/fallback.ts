/**
 * The JavaScript backend where the native library is unavailable: it warns once, before its first
 * large op.
 *
 * Only the main thread warns, so that a pool of workers does not repeat it. Nothing is printed at
 * import, and nothing here prompts.
 *
 * @module
 */
import type { Backend } from "../core/backend.ts";
import { isOperand } from "../memory/operand.ts";
import type { Call, Input, Op } from "../table/op.ts";
import { host } from "./ffi/runtime.ts";

/** From this number of elements on, an op in JavaScript takes noticeably longer. */
const LARGE = 1 << 16;

function isBig(x: Input): boolean {
  return isOperand(x) && x.layout.size >= LARGE;
}

/** Whether the call takes long; one that moves few elements of a large tensor does not. */
function isLarge({ op, inputs, outputs }: Call): boolean {
  return outputs.some(isBig) || inputs.some((x, k) => (k > 0 || !op.moves) && isBig(x));
}

/** Runs calls by another backend until one is large, warns, and makes way for that backend. */
export class WarningBackend implements Backend {
  readonly name: string;
  readonly #backend: Backend;
  readonly #reason: string;
  readonly #warned: () => void;

  /** `reason` says why `backend` serves; `warned` is called after the warning. */
  constructor(backend: Backend, reason: string, warned: () => void) {
    this.name = backend.name;
    this.#backend = backend;
    this.#reason = reason;
    this.#warned = warned;
  }

  hasKernel(op: Op): boolean {
    return this.#backend.hasKernel?.(op) ?? true;
  }

  supports(call: Call): boolean {
    return this.#backend.supports(call);
  }

  run(call: Call): boolean {
    if (isLarge(call)) {
      this.#warned();
      if (host.isMainThread()) {
        console.warn(
          `rowmajor: ops run in JavaScript, several times slower than the native library: ` +
            `${this.#reason}. setBackend("js") turns this warning off.`,
        );
      }
    }
    return this.#backend.run(call);
  }
}

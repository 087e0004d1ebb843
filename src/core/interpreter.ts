/**
 * Interpreters: objects that receive calls instead of the backends.
 *
 * @module
 */
import type { Operand } from "../memory/operand.ts";
import type { Call } from "../ops/op.ts";

/** A recorder, a tracer, a tape. */
export interface Interpreter {
  /** Performs `call`, and puts the results into `call.outputs`. */
  run(call: Call): void;
  /** Called before a program reads values of `x` by the method `how`. */
  read(x: Operand, how: string): void;
}

/** An interpreter, and the one around it. */
interface Frame {
  readonly by: Interpreter;
  readonly outer: Frame | null;
}

/** The current interpreter; null if calls run at once. */
export let frame: Frame | null = null;

/**
 * Runs `body` and passes every call in it to `interpreter`. While the interpreter runs a call, the
 * enclosing one is current, or none: an interpreter may therefore use ops itself.
 *
 * Throws a TypeError for an async `body`: the code after its first `await` would run outside.
 */
export function interpret<R>(interpreter: Interpreter, body: () => R): R {
  const outer = frame;
  frame = { by: interpreter, outer };
  try {
    const made = body();
    if (typeof (made as { then?: unknown } | null)?.then === "function") {
      // No code awaits this promise.
      Promise.resolve(made).catch(() => {});
      throw new TypeError("Cannot interpret an async function: what it awaits would run outside");
    }
    return made;
  } finally {
    frame = outer;
  }
}

/** Calls `use` with the current interpreter, while the enclosing one is current. */
function outside<R>(current: Frame, use: (by: Interpreter) => R): R {
  frame = current.outer;
  try {
    return use(current.by);
  } finally {
    frame = current;
  }
}

/** Passes `call` to the current interpreter, which must exist. */
export function interpretCall(call: Call): void {
  outside(frame!, (by) => by.run(call));
}

/** Whether an interpreter receives the calls. */
export function interpreting(): boolean {
  return frame !== null;
}

/** Notifies the current interpreter, if any, that `how` is about to read `x`. */
export function hostRead(x: Operand, how: string): void {
  if (frame !== null) outside(frame, (by) => by.read(x, how));
}

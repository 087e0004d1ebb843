/**
 * Interpreters: objects that receive calls instead of the backends.
 *
 * @module
 */
import { typeError } from "../base/stack.ts";
import type { Operand } from "../memory/operand.ts";
import type { Call } from "../table/op.ts";

/** A recorder, a tracer, a tape. */
export interface Interpreter {
  /** Performs `call`, and puts the results into `call.outputs`. */
  run(call: Call): void;
  /** Called before a program reads values of `x` by the method `how`. */
  read(x: Operand, how: string): void;
  /**
   * True if it only observes calls that run as they would without it: it then also receives those
   * that a call is decomposed into, and compiled functions run their programs.
   */
  readonly observes?: boolean;
}

/** An interpreter, and the one around it. */
interface Frame {
  readonly by: Interpreter;
  readonly outer: Frame | null;
}

/** The current interpreter; null if calls run at once. */
export let frame: Frame | null = null;

/** The frame of the observer that receives the parts of the call that it runs; null if none. */
export let partsFrame: Frame | null = null;

/**
 * Runs `body` and passes every call in it to `interpreter`. While the interpreter runs a call, the
 * enclosing one is current, or none: an interpreter may therefore use ops itself.
 *
 * Throws a TypeError for an async `body`, which contains `what`, the name of the operation: the code
 * after its first `await` would run outside.
 */
export function interpret<R>(interpreter: Interpreter, body: () => R, what = "interpret"): R {
  const [outer, outerParts] = [frame, partsFrame];
  frame = { by: interpreter, outer };
  partsFrame = null;
  try {
    const made = body();
    if (typeof (made as { then?: unknown } | null)?.then === "function") {
      // No code awaits this promise.
      Promise.resolve(made).catch(() => {});
      throw typeError(
        `Cannot ${what} an async function: code after its first await would run outside`,
      );
    }
    return made;
  } finally {
    frame = outer;
    partsFrame = outerParts;
  }
}

/** Runs `body` without any interpreter: for work that is not of the program. */
export function uninterpreted<R>(body: () => R): R {
  const [outer, outerParts] = [frame, partsFrame];
  frame = partsFrame = null;
  try {
    return body();
  } finally {
    frame = outer;
    partsFrame = outerParts;
  }
}

/** Runs `body`, which performs the parts of a call, under the observer of {@link partsFrame}. */
export function withParts<R>(body: () => R): R {
  const [outer, receiver] = [frame, partsFrame];
  frame = receiver;
  partsFrame = null;
  try {
    return body();
  } finally {
    frame = outer;
    partsFrame = receiver;
  }
}

/** Calls `use` with the current interpreter, while the enclosing one is current. */
function outside<R>(current: Frame, use: (by: Interpreter) => R): R {
  const outerParts = partsFrame;
  frame = current.outer;
  // Of several observers, the innermost passes the parts to those around it.
  if (current.by.observes !== true) partsFrame = null;
  else partsFrame ??= current;
  try {
    return use(current.by);
  } finally {
    frame = current;
    partsFrame = outerParts;
  }
}

/** Passes `call` to the current interpreter, which must exist. */
export function interpretCall(call: Call): void {
  outside(frame!, (by) => by.run(call));
}

/** Whether an interpreter that does not only observe receives the calls. */
export function interpreting(): boolean {
  for (let at = frame; at !== null; at = at.outer) if (at.by.observes !== true) return true;
  return false;
}

/** Notifies the current interpreter, if any, that `how` is about to read `x`. */
export function hostRead(x: Operand, how: string): void {
  if (frame !== null) outside(frame, (by) => by.read(x, how));
}

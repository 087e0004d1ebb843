/**
 * Interpreters: what sees calls instead of their being run at once.
 *
 * @module
 */
import type { Operand } from "../memory/operand.ts";
import type { Call } from "../ops/op.ts";

/** A recorder, a tracer, a tape. */
export interface Interpreter {
  /** Does what `call` asks for, and puts the results into `call.outputs`. */
  run(call: Call): void;
  /** Is told that a program is about to read values of `x` by the method `how`. */
  read(x: Operand, how: string): void;
}

/** An interpreter, and the one around it. */
interface Frame {
  readonly by: Interpreter;
  readonly outer: Frame | null;
}

/** The current interpreter; null where calls run at once. */
export let frame: Frame | null = null;

/**
 * What `body` gives, with every call in it seen by `interpreter`. While that runs a call, the
 * interpreter around it is the current one, or none: so an interpreter may use ops itself.
 *
 * Throws a TypeError for an async `body`: what it awaits would run outside.
 */
export function interpret<R>(interpreter: Interpreter, body: () => R): R {
  const outer = frame;
  frame = { by: interpreter, outer };
  try {
    const made = body();
    if (typeof (made as { then?: unknown } | null)?.then === "function") {
      // Nothing waits for it.
      Promise.resolve(made).catch(() => {});
      throw new TypeError("Cannot interpret an async function: what it awaits would run outside");
    }
    return made;
  } finally {
    frame = outer;
  }
}

/** What `use` gives for the current interpreter, while the one around it is current. */
function outside<R>(current: Frame, use: (by: Interpreter) => R): R {
  frame = current.outer;
  try {
    return use(current.by);
  } finally {
    frame = current;
  }
}

/** Lets the current interpreter, which there is, run `call`. */
export function interpretCall(call: Call): void {
  outside(frame!, (by) => by.run(call));
}

/** Tells the current interpreter, if any, that `x` is about to be read by `how`. */
export function hostRead(x: Operand, how: string): void {
  if (frame !== null) outside(frame, (by) => by.read(x, how));
}

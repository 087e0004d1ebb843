/**
 * Signals that stop work.
 *
 * @module
 */
import { ArgumentError } from "./errors.ts";
import { describe } from "./text.ts";

/** Throws an ArgumentError for a `signal` of the caller that is none, and its reason if it has aborted. */
export function checkSignal(op: string, signal: unknown): void {
  if (signal === undefined) return;
  if (!(signal instanceof AbortSignal)) {
    throw new ArgumentError(
      `Cannot ${op} with signal ${describe(signal)}: it is an AbortSignal`,
    );
  }
  signal.throwIfAborted();
}

/** What `made` becomes; the reason of `signal` if that aborts before, whatever `made` becomes then. */
export async function orAborted<T>(
  made: T | PromiseLike<T>,
  signal: AbortSignal | undefined,
): Promise<T> {
  if (signal === undefined) return await made;
  let abort = (): void => {};
  const aborted = new Promise<never>((_, reject) => {
    abort = () => reject(signal.reason);
    if (signal.aborted) abort();
    else signal.addEventListener("abort", abort);
  });
  try {
    return await Promise.race([made, aborted]);
  } finally {
    signal.removeEventListener("abort", abort);
  }
}

/** A signal that follows others. */
export interface Follower {
  readonly signal: AbortSignal;
  /** Aborts it, and lets go of the others. */
  end(): void;
}

/**
 * A signal that aborts with the first of some. Those may live long, and do not keep it after its end, as
 * they keep parts of those of `AbortSignal.any`.
 */
export function following(...signals: readonly (AbortSignal | undefined)[]): Follower {
  const own = new AbortController();
  const follow = (event: Event): void => {
    if (event.target instanceof AbortSignal) own.abort(event.target.reason);
  };
  for (const one of signals) {
    if (one?.aborted === true) own.abort(one.reason);
    else one?.addEventListener("abort", follow);
  }
  return {
    signal: own.signal,
    end() {
      for (const one of signals) one?.removeEventListener("abort", follow);
      own.abort("ended");
    },
  };
}

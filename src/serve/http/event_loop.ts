/**
 * How late the event loop is: what a timer waits beyond its time.
 *
 * @module
 */

import { setInterval } from "node:timers";

/** The interval of the checks. */
const TICK_MS = 10;

/** A watch of the event loop. */
export interface EventLoopWatch {
  /** The most seconds that a check was late since the last call. */
  mostLate(): number;
  /** Ends the checks. */
  end(): void;
}

/** Begins to watch the event loop. It does not keep a program from ending. */
export function watchEventLoop(): EventLoopWatch {
  let due = performance.now() + TICK_MS, most = 0;
  const timer = setInterval(() => {
    const now = performance.now();
    most = Math.max(most, now - due);
    due = now + TICK_MS;
  }, TICK_MS);
  timer.unref();
  return {
    mostLate() {
      const seconds = most / 1000;
      most = 0;
      return seconds;
    },
    end: () => clearInterval(timer),
  };
}

/**
 * Turns of the event loop.
 *
 * @module
 */

/** Lets all other waiting work run once. */
export function turn(): Promise<void> {
  return new Promise((resolve) => {
    // Looked up here: in Deno, the first use of this global loads node:timers, which takes 6 ms.
    const { setImmediate } = globalThis as { setImmediate?: (run: () => void) => void };
    if (setImmediate !== undefined) setImmediate(resolve);
    else setTimeout(resolve, 0);
  });
}

/** Waits for some milliseconds; for none, lets all other waiting work run once. */
export function pause(ms: number): Promise<void> {
  return ms === 0 ? turn() : new Promise((resolve) => setTimeout(resolve, ms));
}

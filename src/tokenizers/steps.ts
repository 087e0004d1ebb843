/**
 * Long work in steps: at once, or with pauses that leave the event loop to others.
 *
 * @module
 */

/** Work that may pause where it yields. */
export type Steps<T> = Generator<void, T, void>;

/** The milliseconds of work between two pauses. */
const SLICE = 2;

/** Does the work at once. */
export function finish<T>(steps: Steps<T>): T {
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

/** Pauses that leave the event loop to others, for work of one call. */
export class Pauses {
  readonly #signal: AbortSignal | undefined;
  #since = performance.now();

  /** An aborted `signal` ends the work at its next pause. */
  constructor(signal: AbortSignal | undefined) {
    signal?.throwIfAborted();
    this.#signal = signal;
  }

  /** Does the work, with a pause whenever it has taken long enough. */
  async finish<T>(steps: Steps<T>): Promise<T> {
    for (;;) {
      const { done, value } = steps.next();
      if (done) return value;
      await this.rest();
    }
  }

  /** Pauses, if the work since the last pause has taken long enough. */
  async rest(): Promise<void> {
    if (performance.now() - this.#since < SLICE) return;
    await new Promise<void>((resolve) => setTimeout(resolve, 0));
    this.#signal?.throwIfAborted();
    this.#since = performance.now();
  }
}

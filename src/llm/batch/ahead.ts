/**
 * Iterations whose items are made before they are asked for, and that end when nobody can read them.
 *
 * @module
 */

/** A promise that is resolved from outside, again and again. */
class Bell {
  #ring: (() => void) | undefined;

  /** Waits for the next {@link ring}. */
  wait(): Promise<void> {
    return new Promise((resolve) => this.#ring = resolve);
  }

  ring(): void {
    this.#ring?.();
    this.#ring = undefined;
  }
}

/**
 * The items of `source`, up to `most` of which are made before they are asked for: a consumer that takes
 * a while for one does not miss a step. An iteration that ends early ends the source with `cut`.
 */
export async function* ahead<T, R>(
  source: AsyncGenerator<T, R>,
  most: number,
  cut: R,
): AsyncGenerator<T, R> {
  const ready: T[] = [];
  const more = new Bell(), less = new Bell();
  let end: { readonly value: R } | { readonly error: unknown } | undefined;
  let isWanted = true;
  const produce = async (): Promise<void> => {
    try {
      while (isWanted) {
        const next = await source.next();
        if (next.done === true) {
          end = { value: next.value };
          return;
        }
        ready.push(next.value);
        more.ring();
        while (ready.length >= most && isWanted) await less.wait();
      }
    } catch (error) {
      end = { error };
    } finally {
      more.ring();
    }
  };
  const produced = produce();
  try {
    for (;;) {
      while (ready.length === 0 && end === undefined) await more.wait();
      if (ready.length > 0) {
        const item = ready.shift()!;
        less.ring();
        yield item;
      } else if ("error" in end!) throw end.error;
      else return end!.value;
    }
  } finally {
    isWanted = false;
    less.ring();
    await produced;
    await source.return(cut);
  }
}

/** Ends iterations that were collected as garbage. */
const lost = new FinalizationRegistry<() => Promise<unknown>>((end) => void end().catch(() => {}));

/**
 * The items of `source`. If a program drops the iteration before its end, without `return`, the source
 * ends with `cut` when the iteration is collected as garbage: what it holds is free then.
 */
export function endedWhenLost<T, R>(source: AsyncGenerator<T, R>, cut: R): AsyncGenerator<T, R> {
  const token = {};
  // Not yield*, by which Bun's source refers to its reader.
  const iteration = (async function* (): AsyncGenerator<T, R> {
    try {
      for (let next = await source.next();; next = await source.next()) {
        if (next.done === true) return next.value;
        yield next.value;
      }
    } finally {
      // The registry keeps the source, and by that what its options refer to, such as its reader.
      lost.unregister(token);
      await source.return(cut);
    }
  })();
  lost.register(iteration, () => source.return(cut), token);
  return iteration;
}

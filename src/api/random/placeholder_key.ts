/**
 * Random keys that are known only when a traced program runs.
 *
 * @module
 */
import { Placeholder } from "../../base/placeholder.ts";

/** The words of a key. */
export type Words = readonly [number, number];

/** A key of a program: a {@link Placeholder} with the type of a key. */
export class PlaceholderKey extends Placeholder<Words> {
  readonly name: string;
  readonly #words: () => Words;

  /** The key whose words `words` gives in each run; `name` is for errors. */
  constructor(name: string, words: () => Words) {
    super();
    this.name = name;
    this.#words = words;
  }

  /** Throws a TraceError: the words are known when a program runs. */
  get word0(): number {
    return this.refuse();
  }

  /** The same. */
  get word1(): number {
    return this.refuse();
  }

  current(): Words {
    return this.#words();
  }
}

/**
 * Random keys that are known only when a traced program runs.
 *
 * @module
 */
import { Late } from "../base/late.ts";

/** The words of a key. */
export type Words = readonly [number, number];

/** A key of a program: a {@link Late} value with the type of a key. */
export class LateKey extends Late<Words> {
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

  now(): Words {
    return this.#words();
  }
}

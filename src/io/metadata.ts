/**
 * What files say of themselves beside their tensors.
 *
 * @module
 */

/** A value of metadata; integers of 64 bits beyond 2^53 are bigints. */
export type MetadataValue = number | bigint | boolean | string | readonly MetadataValue[];

/** The metadata of a file, by key. */
export class Metadata {
  readonly #entries: ReadonlyMap<string, () => MetadataValue>;
  readonly #decoded = new Map<string, MetadataValue>();

  /** Values are decoded when they are asked for. @ignore */
  constructor(entries: ReadonlyMap<string, () => MetadataValue>) {
    this.#entries = entries;
  }

  /** All keys, in the file's order. */
  keys(): string[] {
    return [...this.#entries.keys()];
  }

  /** Whether there is a value. */
  has(key: string): boolean {
    return this.#entries.has(key);
  }

  /**
   * The value of `key`, the same in each call; undefined if there is none. Throws a FormatError if it
   * has a text that is not UTF-8.
   */
  get(key: string): MetadataValue | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    let value = this.#decoded.get(key);
    if (value === undefined) this.#decoded.set(key, value = entry());
    return value;
  }
}

/** The metadata of a file that has none. */
export const NO_METADATA: Metadata = new Metadata(new Map());

/** Metadata of texts. */
export function textMetadata(texts: Readonly<Record<string, string>>): Metadata {
  return new Metadata(new Map(Object.entries(texts).map(([key, text]) => [key, () => text])));
}

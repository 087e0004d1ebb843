/**
 * What a file says of a model, by keys: numbers within limits, sizes of layers, and what is left over.
 *
 * @module
 */
import { describe } from "../../base/text.ts";
import { Fields } from "../../io/metadata.ts";

/**
 * The greatest sizes that are read: a hundred times those of known models, and so that no product of
 * two passes 2^53.
 */
export const MOST = {
  layers: 2 ** 16,
  hidden: 2 ** 20,
  intermediate: 2 ** 24,
  heads: 2 ** 12,
  experts: 2 ** 12,
  headDimensions: 2 ** 16,
  vocabulary: 2 ** 24,
  tokens: 2 ** 28,
  /** Of scalings, bases and other numbers that decide no size. */
  number: Number.MAX_VALUE,
  /** The tokens that end a text. */
  endTokens: 2 ** 10,
} as const;

/** The members of an object of JSON. */
export type Json = Readonly<Record<string, unknown>>;

/** The members of a value; none if it is not an object. */
export function objectOf(value: unknown): Json {
  return typeof value === "object" && value !== null ? value as Json : {};
}

/** A member of an object that is its own; undefined if there is none. */
export function ownMember(object: Json, key: string): unknown {
  return Object.hasOwn(object, key) ? object[key] : undefined;
}

/** Fields that know which of them were read. */
export class Reader extends Fields {
  readonly #get: (key: string) => unknown;
  readonly #asked: Set<string>;
  readonly #path: string;

  constructor(get: (key: string) => unknown, file: string, path = "") {
    const asked = new Set<string>();
    const value = (key: string): unknown => {
      asked.add(key);
      return get(key) ?? undefined;
    };
    super(value, file, path);
    this.#get = value;
    this.#asked = asked;
    this.#path = path;
  }

  /** The whole name of a key. */
  name(key: string): string {
    return `${this.#path}${key}`;
  }

  /** Whether `key` was read. */
  wasRead(key: string): boolean {
    return this.#asked.has(key);
  }

  /** The value of a key, whatever it is. */
  value(key: string): unknown {
    return this.#get(key);
  }

  /** Throws for the first of `keys` that was not read, and is not one of `harmless`. */
  refuseOthers(keys: readonly string[], harmless: ReadonlySet<string>): void {
    const other = keys.find((key) => !this.#asked.has(key) && !harmless.has(key));
    if (other !== undefined) this.reject(other, "absent: it may change results, and is not known");
  }

  /** Throws if there is a value of `key`, unless it is one of `neutral`. */
  refuse(key: string, ...neutral: readonly unknown[]): void {
    const value = this.value(key);
    if (value === undefined || neutral.includes(value)) return;
    this.reject(key, `${neutral.map(describe).join(" or ")}: others are not supported`);
  }

  /** {@link refuse} for a key that nothing has read. */
  refuseUnread(key: string, ...neutral: readonly unknown[]): void {
    if (!this.wasRead(key)) this.refuse(key, ...neutral);
  }

  /** A number that decides no size. */
  real(key: string, otherwise?: number): number {
    return this.number(key, { least: -MOST.number, most: MOST.number, otherwise });
  }

  /** {@link real}; undefined if there is none. */
  optional(key: string): number | undefined {
    return this.has(key) ? this.real(key) : undefined;
  }

  /** An integer from 1 to `most`. */
  size(key: string, most: number, otherwise?: number): number {
    return this.integer(key, { least: 1, most, otherwise });
  }

  /** {@link size}, which may be a list with the same number for each layer. */
  layerSize(key: string, most: number, layers: number, otherwise?: number): number {
    const given = this.value(key);
    if (!Array.isArray(given)) return this.size(key, most, otherwise);
    if (given.length !== layers) {
      this.fail(`${this.name(key)} has ${given.length} numbers, and the model ${layers} layers`);
    }
    const all = this.integers(key, { least: 1, most, length: layers })!;
    const other = all.find((one) => one !== all[0]);
    if (other === undefined) return all[0]!;
    return this.fail(
      `${this.name(key)} has ${
        all[0]
      } and ${other}: sizes that differ between layers are not supported`,
    );
  }
}

/** The number of layers, of which each has tensors in the file. */
export function layersIn(reader: Reader, key: string, tensors: number | undefined): number {
  const layers = reader.size(key, Number.MAX_SAFE_INTEGER);
  if (layers <= Math.min(tensors ?? Infinity, MOST.layers)) return layers;
  return reader.fail(
    `the model has ${layers} layers, and ` +
      (tensors === undefined
        ? `at most ${MOST.layers} are read`
        : `the file only ${tensors} tensors`),
  );
}

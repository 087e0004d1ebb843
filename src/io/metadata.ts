/**
 * What files say of themselves beside their tensors: metadata, and the checked numbers in it.
 *
 * @module
 */
import { FormatError } from "../base/errors.ts";
import { describe } from "../base/text.ts";

/** A value of metadata; integers of 64 bits beyond 2^53 are bigints. */
export type MetadataValue = number | bigint | boolean | string | readonly MetadataValue[];

/** The decoding of a value, in steps of at most a millisecond or two. */
export type Decoding = Generator<void, MetadataValue, void>;

/** The metadata of a file, by key. */
export class Metadata {
  readonly #entries: ReadonlyMap<string, () => MetadataValue>;
  readonly #decodings: ReadonlyMap<string, () => Decoding>;
  readonly #decoded = new Map<string, MetadataValue>();

  /**
   * Values are decoded when they are asked for. Those that are long have a decoding, too, of the same
   * value. @ignore
   */
  constructor(
    entries: ReadonlyMap<string, () => MetadataValue>,
    decodings: ReadonlyMap<string, () => Decoding> = new Map(),
  ) {
    this.#entries = entries;
    this.#decodings = decodings;
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
   * The value of `key`, the same in each call; undefined if there is none.
   *
   * @throws {FormatError} If a text is not UTF-8.
   */
  get(key: string): MetadataValue | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    let value = this.#decoded.get(key);
    if (value === undefined) this.#decoded.set(key, value = entry());
    return value;
  }

  /**
   * Decodes the value of `key` in steps, so that the event loop may turn between them; {@link get} then
   * returns it at once.
   *
   * @throws {FormatError} If a text is not UTF-8.
   */
  *decode(key: string): Generator<void, void, void> {
    if (this.#decoded.has(key)) return;
    const decoding = this.#decodings.get(key);
    if (decoding === undefined) return;
    const value = yield* decoding();
    if (!this.#decoded.has(key)) this.#decoded.set(key, value);
  }
}

/** The metadata of a file that has none. */
export const NO_METADATA: Metadata = new Metadata(new Map());

/** Metadata of texts. */
export function textMetadata(texts: Readonly<Record<string, string>>): Metadata {
  return new Metadata(new Map(Object.entries(texts).map(([key, text]) => [key, () => text])));
}

/** Which numbers a field may have. */
export interface FieldLimits {
  /** The smallest number; 0 by default. */
  readonly least?: number;
  /** The largest number: it bounds the loops and the memory of the program that reads it. */
  readonly most: number;
  /** The number if the file has none; without it, a missing field is an error. */
  readonly otherwise?: number | undefined;
}

/** Which numbers a list may have. */
export interface ListLimits extends FieldLimits {
  /** The most numbers in the list. */
  readonly length: number;
}

/**
 * The fields of metadata, or of an object of JSON, by type. It has no access to a number without
 * limits, since a file may say any. Errors are FormatErrors, which name the field.
 */
export class Fields {
  readonly #get: (key: string) => unknown;
  readonly #file: string;
  readonly #path: string;

  /** `get` gives the value of a field; `path` precedes the names of fields in errors. */
  constructor(get: (key: string) => unknown, file: string, path = "") {
    this.#get = get;
    this.#file = file;
    this.#path = path;
  }

  /** The fields of metadata. */
  static of(metadata: Metadata, file: string): Fields {
    return new Fields((key) => metadata.get(key), file);
  }

  /** The fields of an object of JSON; none of any other value. */
  static ofJson(json: unknown, file: string, path = ""): Fields {
    const isObject = typeof json === "object" && json !== null && !Array.isArray(json);
    const get = (key: string): unknown =>
      isObject && Object.hasOwn(json, key) ? (json as Record<string, unknown>)[key] : undefined;
    return new Fields(get, file, path);
  }

  /** Whether there is a value that is not null. */
  has(key: string): boolean {
    return this.#value(key) !== undefined;
  }

  /** Throws a FormatError of this file. */
  fail(message: string): never {
    throw new FormatError(message, this.#file, 0);
  }

  /** Throws a FormatError that names a field, its value and what it must be. */
  reject(key: string, must: string): never {
    return this.fail(`${this.#path}${key} is ${describe(this.#value(key))}, and must be ${must}`);
  }

  /** A finite number from `least` to `most`. */
  number(key: string, limits: FieldLimits): number {
    return this.#number(key, limits, Number.isFinite, "a number");
  }

  /** An integer from `least` to `most`. */
  integer(key: string, limits: FieldLimits): number {
    return this.#number(key, limits, Number.isSafeInteger, "an integer");
  }

  /** A list of finite numbers, or one number as a list of it; undefined if there is none. */
  numbers(key: string, limits: ListLimits): readonly number[] | undefined {
    return this.#numbers(key, limits, Number.isFinite, "numbers");
  }

  /** A list of integers, or one integer as a list of it; undefined if there is none. */
  integers(key: string, limits: ListLimits): readonly number[] | undefined {
    return this.#numbers(key, limits, Number.isSafeInteger, "integers");
  }

  /** A text; undefined if there is none. */
  text(key: string): string | undefined {
    const value = this.#value(key);
    if (value === undefined || typeof value === "string") return value;
    return this.reject(key, "a text");
  }

  /** A list of texts; undefined if there is none. */
  texts(key: string): readonly string[] | undefined {
    const value = this.#value(key);
    if (value === undefined) return undefined;
    if (Array.isArray(value) && value.every((one) => typeof one === "string")) return value;
    return this.reject(key, "a list of texts");
  }

  /** True or false; undefined if there is none. */
  flag(key: string): boolean | undefined {
    const value = this.#value(key);
    if (value === undefined || typeof value === "boolean") return value;
    return this.reject(key, "true or false");
  }

  /** The fields of the object in a field; no fields if there is none. */
  within(key: string): Fields {
    const value = this.#value(key);
    if (value !== undefined && (typeof value !== "object" || Array.isArray(value))) {
      return this.reject(key, "an object");
    }
    return Fields.ofJson(value, this.#file, `${this.#path}${key}.`);
  }

  #value(key: string): unknown {
    return this.#get(key) ?? undefined;
  }

  #number(
    key: string,
    { least = 0, most, otherwise }: FieldLimits,
    isOne: (value: number) => boolean,
    kind: string,
  ): number {
    const value = this.#value(key) ?? otherwise;
    const fits = typeof value === "number" && isOne(value) && value >= least && value <= most;
    if (fits) return value;
    if (value !== undefined && !this.has(key)) {
      return this.fail(
        `${this.#path}${key} is missing, and ${describe(value)} in its place is not ${kind} ` +
          `from ${least} to ${most}`,
      );
    }
    return this.reject(key, `${kind} from ${least} to ${most}`);
  }

  #numbers(
    key: string,
    { least = 0, most, length }: ListLimits,
    isOne: (value: number) => boolean,
    kind: string,
  ): readonly number[] | undefined {
    const value = this.#value(key);
    if (value === undefined) return undefined;
    const all: readonly unknown[] = Array.isArray(value) ? value : [value];
    const fits = all.length <= length &&
      all.every((one) => typeof one === "number" && isOne(one) && one >= least && one <= most);
    if (fits) return all as readonly number[];
    return this.reject(key, `at most ${length} ${kind} from ${least} to ${most}`);
  }
}

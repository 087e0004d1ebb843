/**
 * The fields of a request's body, which are checked when they are read. Errors name the field, and have
 * nothing of its value.
 *
 * @module
 */
import { badRequest } from "../http/http_error.ts";

/** Whether a value is an object of JSON. */
export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A field and its place in the body, such as `messages[0].content`. */
export class Field {
  readonly value: unknown;
  readonly place: string;

  constructor(value: unknown, place: string) {
    // Clients write null for what they leave out.
    this.value = value ?? undefined;
    this.place = place;
  }

  /** Throws the error of a value that does not fit. */
  fail(what: string): never {
    throw badRequest(`Invalid value for ${this.place}: it is ${what}`, this.place);
  }

  /** Throws the error of what this server does not do. */
  refuse(why: string): never {
    throw badRequest(`${this.place} is not supported: ${why}`, this.place);
  }

  number(least: number, most: number): number | undefined {
    const { value } = this;
    if (value === undefined) return undefined;
    if (typeof value === "number" && value >= least && value <= most) return value;
    return this.fail(`a number from ${least} to ${most}`);
  }

  integer(least: number, most: number = Number.MAX_SAFE_INTEGER): number | undefined {
    const { value } = this;
    if (value === undefined) return undefined;
    if (Number.isSafeInteger(value) && Number(value) >= least && Number(value) <= most) {
      return Number(value);
    }
    const range = most === Number.MAX_SAFE_INTEGER
      ? `of at least ${least}`
      : `from ${least} to ${most}`;
    return this.fail(`an integer ${range}`);
  }

  flag(): boolean | undefined {
    const { value } = this;
    if (value === undefined || typeof value === "boolean") return value;
    return this.fail("true or false");
  }

  text(most: number = Infinity): string | undefined {
    const { value } = this;
    if (value === undefined) return undefined;
    if (typeof value !== "string") return this.fail("a text");
    return value.length <= most ? value : this.fail(`a text of at most ${most} characters`);
  }

  oneOf<T extends string>(choices: readonly T[]): T | undefined {
    const { value } = this;
    if (value === undefined) return undefined;
    return choices.find((one) => one === value) ?? this.fail(`one of ${choices.join(", ")}`);
  }

  /** The elements of a list. */
  list(most: number, least = 0): readonly Field[] | undefined {
    const { value } = this;
    if (value === undefined) return undefined;
    if (!Array.isArray(value)) return this.fail("a list");
    if (value.length < least) return this.fail(`a list of at least ${least}`);
    if (value.length > most) return this.fail(`a list of at most ${most}`);
    return value.map((one, i) => new Field(one, `${this.place}[${i}]`));
  }

  /** The fields of an object. */
  fields(): Fields | undefined {
    const { value } = this;
    if (value === undefined) return undefined;
    return isObject(value) ? new Fields(value, `${this.place}.`) : this.fail("an object");
  }
}

/** The fields of an object of JSON. */
export class Fields {
  readonly value: Readonly<Record<string, unknown>>;
  readonly #prefix: string;

  constructor(value: Readonly<Record<string, unknown>>, prefix = "") {
    this.value = value;
    this.#prefix = prefix;
  }

  /** The first of some names of a field that there is. */
  get(...names: readonly string[]): Field {
    const has = (name: string): boolean =>
      Object.hasOwn(this.value, name) && (this.value[name] ?? undefined) !== undefined;
    const name = names.find(has);
    const place = `${this.#prefix}${name ?? names[0]}`;
    return new Field(name === undefined ? undefined : this.value[name], place);
  }

  /** A field that has to be there. */
  need(name: string): Field {
    const field = this.get(name);
    if (field.value !== undefined) return field;
    throw badRequest(`Missing required parameter: ${field.place}`, field.place);
  }
}

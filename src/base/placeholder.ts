/**
 * Values that are known only when a traced program runs.
 *
 * @module
 */
import { TraceError } from "./errors.ts";
import { UNDESCRIBED } from "./text.ts";

/** A value of each run of a program; code that needs it while the program is traced throws. */
export abstract class Placeholder<T> {
  /** Its name in errors: the argument that it is. */
  abstract readonly name: string;

  /** The value in the current run. */
  abstract current(): T;

  /** Throws a TraceError. @internal */
  refuse(): never {
    throw new TraceError(
      `Cannot trace: ${this.name} decides a branch, a shape or another number, but programs take ` +
        `any value of it; name it in the option "static", or pass it to ops only`,
    );
  }

  /** Throws a TraceError: no code may compute with it. @internal */
  [Symbol.toPrimitive](): never {
    return this.refuse();
  }

  /** Throws a TraceError: messages about invalid arguments would contain it. @internal */
  [UNDESCRIBED](): never {
    return this.refuse();
  }

  /** @internal */
  toJSON(): never {
    return this.refuse();
  }

  /** @internal */
  toString(): never {
    return this.refuse();
  }

  /** @internal */
  toLocaleString(): never {
    return this.refuse();
  }
}

/** `value`, or its value in the current run. */
export function currentOf<T>(value: T | Placeholder<T>): T {
  return value instanceof Placeholder ? value.current() : value;
}

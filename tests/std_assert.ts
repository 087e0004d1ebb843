/**
 * `@std/assert` with its types: the npm copy that both runtimes load, deno-std, ships none.
 *
 * deno.json and tsconfig.json map `@std/assert` to this file. It must know nothing of rowmajor.
 *
 * @module
 */

// deno-lint-ignore-file no-explicit-any
// @ts-ignore deno-std has no declarations
import * as untyped from "deno-std/assert/mod.js";

type ErrorClass<E extends Error> = abstract new (...args: any[]) => E;

/**
 * Whether two values are the same: primitives, and arrays and plain records of such, not too deep. False
 * also where only the package knows.
 */
function areSame(a: unknown, b: unknown, depth = 0): boolean {
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) {
    return Object.is(a, b);
  }
  if (a.constructor !== b.constructor || depth > 20) return false;
  if (isList(a) && isList(b)) {
    if (a.length !== b.length) return false;
    for (let i = 0; i < a.length; i++) {
      // A hole is not undefined.
      if (a[i] === undefined || !areSame(a[i], b[i], depth + 1)) return false;
    }
    return true;
  }
  if (a.constructor !== Object) return false;
  const keys = Reflect.ownKeys(a);
  if (keys.length !== Reflect.ownKeys(b).length) return false;
  return keys.every((key) =>
    Object.hasOwn(b, key) && areSame(Reflect.get(a, key), Reflect.get(b, key), depth + 1)
  );
}

function isList(x: object): x is ArrayLike<unknown> {
  return Array.isArray(x) || ArrayBuffer.isView(x) && !(x instanceof DataView);
}

interface Assertions {
  assert(expr: unknown, msg?: string): asserts expr;
  assertAlmostEquals(actual: number, expected: number, tolerance?: number, msg?: string): void;
  assertArrayIncludes<T>(actual: ArrayLike<T>, expected: ArrayLike<T>, msg?: string): void;
  assertEquals<T>(actual: T, expected: T, msg?: string): void;
  assertExists<T>(actual: T, msg?: string): asserts actual is NonNullable<T>;
  assertFalse(expr: unknown, msg?: string): asserts expr is false | 0 | "" | 0n | null | undefined;
  assertGreater<T>(actual: T, expected: T, msg?: string): void;
  assertGreaterOrEqual<T>(actual: T, expected: T, msg?: string): void;
  assertInstanceOf<T>(
    actual: unknown,
    expected: abstract new (...args: any[]) => T,
    msg?: string,
  ): asserts actual is T;
  assertIsError<E extends Error>(
    error: unknown,
    errorClass?: ErrorClass<E>,
    msgMatches?: string | RegExp,
    msg?: string,
  ): asserts error is E;
  assertLess<T>(actual: T, expected: T, msg?: string): void;
  assertLessOrEqual<T>(actual: T, expected: T, msg?: string): void;
  assertMatch(actual: string, expected: RegExp, msg?: string): void;
  assertNotEquals<T>(actual: T, expected: T, msg?: string): void;
  assertNotMatch(actual: string, expected: RegExp, msg?: string): void;
  assertNotStrictEquals<T>(actual: T, expected: T, msg?: string): void;
  assertObjectMatch(actual: object, expected: object, msg?: string): void;
  assertRejects(fn: () => PromiseLike<unknown>, msg?: string): Promise<unknown>;
  assertRejects<E extends Error>(
    fn: () => PromiseLike<unknown>,
    errorClass: ErrorClass<E>,
    msgIncludes?: string,
    msg?: string,
  ): Promise<E>;
  assertStrictEquals<T>(actual: unknown, expected: T, msg?: string): asserts actual is T;
  assertStringIncludes(actual: string, expected: string, msg?: string): void;
  assertThrows(fn: () => unknown, msg?: string): unknown;
  assertThrows<E extends Error>(
    fn: () => unknown,
    errorClass: ErrorClass<E>,
    msgIncludes?: string,
    msg?: string,
  ): E;
  fail(msg?: string): never;
  unreachable(msg?: string): never;
}

const typed = untyped as unknown as Assertions;

// Each constant repeats its type, since TypeScript narrows (`asserts`) only through those.
export const assert: Assertions["assert"] = typed.assert;
export const assertAlmostEquals: Assertions["assertAlmostEquals"] = typed.assertAlmostEquals;
export const assertArrayIncludes: Assertions["assertArrayIncludes"] = typed.assertArrayIncludes;
export const assertEquals: Assertions["assertEquals"] = (actual, expected, msg) => {
  // The package takes a microsecond for each number of an array.
  if (!areSame(actual, expected)) typed.assertEquals(actual, expected, msg);
};
export const assertExists: Assertions["assertExists"] = typed.assertExists;
export const assertFalse: Assertions["assertFalse"] = typed.assertFalse;
export const assertGreater: Assertions["assertGreater"] = typed.assertGreater;
export const assertGreaterOrEqual: Assertions["assertGreaterOrEqual"] = typed.assertGreaterOrEqual;
export const assertInstanceOf: Assertions["assertInstanceOf"] = typed.assertInstanceOf;
export const assertIsError: Assertions["assertIsError"] = typed.assertIsError;
export const assertLess: Assertions["assertLess"] = typed.assertLess;
export const assertLessOrEqual: Assertions["assertLessOrEqual"] = typed.assertLessOrEqual;
export const assertMatch: Assertions["assertMatch"] = typed.assertMatch;
export const assertNotEquals: Assertions["assertNotEquals"] = typed.assertNotEquals;
export const assertNotMatch: Assertions["assertNotMatch"] = typed.assertNotMatch;
export const assertNotStrictEquals: Assertions["assertNotStrictEquals"] =
  typed.assertNotStrictEquals;
export const assertObjectMatch: Assertions["assertObjectMatch"] = typed.assertObjectMatch;
export const assertRejects: Assertions["assertRejects"] = typed.assertRejects;
export const assertStrictEquals: Assertions["assertStrictEquals"] = typed.assertStrictEquals;
export const assertStringIncludes: Assertions["assertStringIncludes"] = typed.assertStringIncludes;
export const assertThrows: Assertions["assertThrows"] = typed.assertThrows;
export const fail: Assertions["fail"] = typed.fail;
export const unreachable: Assertions["unreachable"] = typed.unreachable;

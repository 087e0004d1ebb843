/**
 * Shared code of the tests of compiled functions: compares them with the functions themselves.
 *
 * @module
 */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { test } from "node:test";
import { attempt, setBackend } from "../../mod.ts";
import { compile, type Compiled, type CompileOptions } from "../../src/compile/mod.ts";
import { TILE_LIMITS } from "../../src/compile/tiles.ts";
import { whyNoWasm } from "../../src/backend/wasm/module.ts";
import { found } from "../native/support.ts";
import { type Any, loose } from "../support.ts";
import { isSampled, RUNS_ALL } from "../support/amount.ts";
import { IN_BUN, runsHere } from "../support/engine.ts";

/** Sets the limits of tiles until the end of the scope. */
export function withTiles(limits: Partial<typeof TILE_LIMITS>): Disposable {
  const before = { ...TILE_LIMITS };
  Object.assign(TILE_LIMITS, limits);
  return { [Symbol.dispose]: () => void Object.assign(TILE_LIMITS, before) };
}

/** The elements, dtype and shape of a tensor, of those in arrays and records, or the value. */
export function plain(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value !== "object" || value === null) return Object.is(value, -0) ? "-0" : value;
  const x = loose(value);
  if (typeof x.toTypedArray !== "function") {
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, plain(one)]));
  }
  if (x.isDisposed) return "disposed";
  const values = x.flatten().toArray({ bigint: x.dtype.includes("int") });
  return [x.dtype, x.shape, values.map((one: unknown) => Object.is(one, -0) ? "-0" : one)];
}

/** The result of `f` and its arguments after the call, or its error. */
export function outcome(f: (...args: Any[]) => unknown, args: readonly unknown[]): unknown {
  const { value, error } = attempt(() => plain(f(...args)));
  const after = plain(args);
  if (error !== undefined) return { error: `${error.name}: ${error.message}`, after };
  return { value, after };
}

/**
 * Calls `f` and the compiled `f` with the arguments of each round, which are made anew for both;
 * they must do the same. Returns the compiled function.
 */
export function checkCalls<F extends (...args: Any[]) => unknown>(
  f: F,
  rounds: readonly (() => unknown[])[],
  options?: CompileOptions,
): Compiled<F> {
  const compiled = compile(f, options);
  rounds.forEach((args, i) => {
    const expected = outcome(f, args());
    assertEquals(outcome(compiled as Any, args()), expected, `round ${i}`);
  });
  return compiled;
}

type CpuBackend = "native" | "js" | "wasm";

/** The backends of the CPU, the usual one first: without a library there is only one. */
export const BACKENDS: readonly CpuBackend[] = found ? ["native", "js"] : ["js"];

/** The same, and that in WebAssembly if the module is built. */
const ALL_BACKENDS: readonly CpuBackend[] = whyNoWasm() === null ? [...BACKENDS, "wasm"] : BACKENDS;

/** Sets the backend of the CPU, and the usual one at the end of the scope. */
export function onBackend(backend: CpuBackend): Disposable {
  setBackend(backend);
  return { [Symbol.dispose]: () => setBackend(BACKENDS[0]!) };
}

/** Runs `body` with each backend of the CPU; with that in WebAssembly in `npm run test:all`. */
export function onBackends(body: (backend: CpuBackend) => void): void {
  for (const backend of RUNS_ALL ? ALL_BACKENDS : BACKENDS) {
    using _ = onBackend(backend);
    body(backend);
  }
}

/** Whether a test runs on a backend: in `npm test` on some only samples do, in Bun more of them. */
function runsOn(backend: CpuBackend, name: string): boolean {
  switch (backend) {
    case "wasm":
      return isSampled(name, IN_BUN ? 12 : 4);
    case "js":
      return BACKENDS.length === 1 || runsHere(name, 3);
    default:
      return true;
  }
}

/**
 * A test with each backend of the CPU. In Bun the native one, which calls by its FFI, and for one of
 * three tests the one in JavaScript.
 */
export function testOnBackends(
  name: string,
  body: (backend: CpuBackend) => void | Promise<void>,
): void {
  for (const backend of ALL_BACKENDS) {
    if (!runsOn(backend, name)) continue;
    test(`${name}, on ${backend}`, async () => {
      using _ = onBackend(backend);
      await body(backend);
    });
  }
}

/** Runs `body` and returns what it warns of. */
export function warnings(body: () => void): string[] {
  const { warn } = console;
  const found: string[] = [];
  console.warn = (...parts: unknown[]): void => void found.push(parts.join(" "));
  try {
    body();
  } finally {
    console.warn = warn;
  }
  return found;
}

/** Checks the class and a part of the message of what `body` throws. */
export function assertFails(body: () => unknown, name: string, ...parts: string[]): void {
  const { error, value } = attempt(body);
  if (error === undefined) throw new Error(`no error, but ${String(value)}`);
  for (const part of parts) assertStringIncludes(error.message, part);
  assertEquals(error.name, name, error.message);
}

/** Resolves after `ms` milliseconds. */
export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/**
 * Disposed tensors have no dtype: every method and function refuses them by an error that names it.
 *
 * @module
 */
import { assert, assertThrows } from "@std/assert";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { DisposedError, ones } from "../../mod.ts";
import { performCall } from "../../src/core/dispatch.ts";
import { interpret } from "../../src/core/interpreter.ts";
import { runsHere } from "../support/engine.ts";
import { operands, PROGRAMS } from "./programs.ts";

const folder = mkdtempSync(join(tmpdir(), "rowmajor-disposed-"));
after(() => rmSync(folder, { recursive: true }));

/** What a program throws if its operand `key` is disposed of; undefined if it does not use it. */
function outcome(name: string, key: string, isInterpreted: boolean): unknown {
  const program = PROGRAMS.find(([one]) => one === name)![1];
  const path = (file: string): string => join(folder, file);
  const later = (promise: unknown): void => void Promise.resolve(promise).catch(() => {});
  // What ops keep of earlier calls, such as the way of an equation, must not matter.
  if (!isInterpreted) program({ ...operands(), path, later });
  const own = operands();
  own[key].dispose();
  const run = (): unknown => program({ ...own, path, later });
  try {
    if (isInterpreted) interpret({ run: performCall, read() {} }, run);
    else run();
    return undefined;
  } catch (error) {
    return error;
  }
}

test("a disposed storage has no dtype", () => {
  const x = ones([2]);
  const { storage } = x;
  x.dispose();
  assert(storage !== x.storage);
  assertThrows(() => x.storage.info, DisposedError, "Cannot read the dtype");
  assertThrows(() => x.storage.lanes, DisposedError);
  assertThrows(() => x.dtype, DisposedError, "Cannot dtype");
});

for (const [name] of PROGRAMS) {
  // Asserts that there is no device.
  if (name === "cuda" || !runsHere(name, 4)) continue;
  test(`${name} refuses disposed tensors by an error that names what was called`, () => {
    for (const key of Object.keys(operands())) {
      for (const isInterpreted of [false, true]) {
        const error = outcome(name, key, isInterpreted);
        if (error === undefined) continue;
        const text = String(error);
        assert(error instanceof DisposedError, `${key}: ${text}`);
        assert(!text.includes("Cannot read the dtype"), `${key}: ${(error as Error).stack}`);
      }
    }
  });
}

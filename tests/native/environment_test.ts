/**
 * Environment variables: values that they do not take, and paths that are no regular files.
 *
 * @module
 */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { after, test } from "node:test";
import { findNative } from "../../src/backend/cpu.ts";
import { amountIn } from "../support/engine.ts";
import { moduleAt, runApart } from "./support.ts";

const folder = mkdtempSync(join(tmpdir(), "rowmajor-environment-"));
after(() => rmSync(folder, { recursive: true }));
const native = typeof findNative() !== "string" ? false : "needs the native library";
const unix = process.platform !== "win32" ? native : "needs Unix";

/** What the first op and `info()` throw with these variables, or what `info()` returns. */
function outcome(env: Record<string, string>): string[] {
  const program = `import { info, ones } from ${moduleAt("mod.ts")};
    for (const call of [() => ones([1000]).add(1).shape, () => info().backends, () => ones([9]).exp()]) {
      try { console.log(JSON.stringify(call())); }
      catch (error) { console.log(error.name + ": " + error.message); }
    }`;
  return runApart(program, env, ["-A"]).trim().split("\n");
}

/** Values that variables do not take, and what the errors name; `npm test` takes the first of them. */
const WRONG: readonly (readonly [name: string, value: string, takes: string])[] = [
  ["THREADS", "1e3", "an integer from 0 to 256"],
  ["THREADS", "257", "an integer from 0 to 256"],
  ["LEVEL", "v9", "v2, v3 or v4"],
  ["BLAS_ALWAYS", "true", "0 or 1"],
  ["CUDA_BLOCKS", "2", "0 or 1"],
  ["LEVEL", "3", "v2, v3 or v4"],
  ["THREADS", "four", "an integer from 0 to 256"],
  ["THREADS", "-1", "an integer from 0 to 256"],
  ["THREADS", " 2", "an integer from 0 to 256"],
];

test("a variable with a value that it does not take is an error of ops and of info()", {
  skip: native,
}, () => {
  for (const [name, value, takes] of WRONG.slice(0, amountIn(5, 2, WRONG.length))) {
    const variable = `ROWMAJOR_${name}`;
    for (const line of outcome({ [variable]: value })) {
      assertStringIncludes(line, `ArgumentError: ${variable} is "${value}": it takes ${takes}`);
    }
  }
  for (const value of ["", "256", "0", "2"].slice(0, amountIn(2, 1, 4))) {
    assertEquals(outcome({ ROWMAJOR_THREADS: value })[0], "[1000]");
  }
});

// To open a FIFO waits for a writer.
test("a variable that names a FIFO, or a link to one, names no file", { skip: unix }, () => {
  const fifo = join(folder, "fifo");
  execFileSync("mkfifo", [fifo]);
  const link = join(folder, "link");
  symlinkSync(fifo, link);
  for (const path of [fifo, link]) {
    const [shape, backends] = outcome({ ROWMAJOR_LIB: path });
    assertEquals(shape, "[1000]");
    assertStringIncludes(backends!, `"native":"${path} is not a regular file"`);
    const others = { ROWMAJOR_OPENBLAS: path, ROWMAJOR_PTX: path, ROWMAJOR_CUDA_LIB_DIR: path };
    const [product, served] = outcome(others);
    assertEquals(product, "[1000]");
    assertStringIncludes(served!, `"openblas":"${path}: it is not a regular file"`);
  }
});

/**
 * The C code alone, without JavaScript: native/c/driver.c calls every entry point with buffers of the
 * exact required length, between protected pages; smaller programs call the pool of threads, the
 * queue thread, loops of programs, and the buffers and files that collectors free on their own
 * threads, with the sanitizers of addresses and undefined behavior where these are.
 *
 * sanitized_test.ts runs the driver with those sanitizers and the programs with the thread sanitizer,
 * arm64_test.ts the driver on another processor.
 *
 * @module
 */
import { assertEquals, assertStringIncludes } from "@std/assert";
import process from "node:process";
import { test } from "node:test";
import { RUNS_ALL } from "../support/amount.ts";
import {
  addressSanitizer,
  buildOnLibrary,
  buildPart,
  onX64,
  PARTS,
  PLAIN,
  run,
  SANITIZED,
  withZig,
} from "./driver.ts";
import { LEVELS, library, when } from "./support.ts";

// For Windows there is no import library to link with.
test(
  ...when(
    { ...withZig, "Linux or macOS": process.platform !== "win32" },
    "the driver passes on the library, at every level, between protected pages",
    (folder) => {
      const args = ["0", "fenced", ...(RUNS_ALL ? [] : ["short"])];
      const output = run(buildOnLibrary(folder, library), args);
      assertStringIncludes(output, `${LEVELS.length} levels, `);
      const [, ...counts] = /(\d+) calls, (\d+) served, (\d+) compared/.exec(output)!;
      const [calls, served, compared] = counts.map((count) => Number(count) / LEVELS.length);
      const [most, many] = RUNS_ALL ? [2e5, 1e5] : [3e4, 1.5e4];
      assertEquals(calls! > most && served! > many && compared! > many, true, output);
    },
  ),
);

if (addressSanitizer === undefined) {
  console.log("Programs run without sanitizers: there is no libasan.so of GCC 12 or later");
}
const flags = addressSanitizer === undefined ? PLAIN : SANITIZED;

for (const part of [PARTS.pool, PARTS.loops, PARTS.files, PARTS.queue]) {
  test(...when(onX64, part.what, (folder) => {
    const env = { ASAN_OPTIONS: `detect_leaks=${"leaks" in part ? 0 : 1}` };
    assertStringIncludes(run(buildPart(folder, part, flags), [], env), part.prints);
  }));
}

test(...when(onX64, PARTS.buffers.what, (folder) => {
  const program = buildPart(folder, PARTS.buffers, flags);
  assertStringIncludes(run(program, []), PARTS.buffers.prints);
  assertStringIncludes(run(program, ["groups", folder]), "groups");
}));

// The address sanitizer maps more than these limits allow.
test(
  ...when(onX64, "buffers keep to the limits of the process, and are in large pages", (folder) => {
    const program = buildPart(folder, PARTS.buffers, PLAIN);
    assertStringIncludes(run(program, ["limits"]), "limits");
    assertStringIncludes(run(program, ["memory"]), "memory");
    assertStringIncludes(run(buildPart(folder, PARTS.pages, PLAIN), []), PARTS.pages.prints);
  }),
);

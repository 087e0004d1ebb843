/**
 * Dtypes added to the table by tests: on the JavaScript and the native backend, and on a device.
 *
 * @module
 */
import { test } from "node:test";
import { BACKENDS, using } from "../ops/table/backends.ts";
import { BLOCK_DTYPE_TESTS } from "./block_dtypes.ts";

for (const { name, on } of BACKENDS) {
  for (const [what, run] of Object.entries(BLOCK_DTYPE_TESTS)) {
    test(`${what}: ${name}`, () => using(on, () => run(typeof on === "string" ? on : "cpu")));
  }
}

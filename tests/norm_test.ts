/**
 * Layer norm and RMS norm on every backend and instruction set; see device/norms.ts.
 *
 * @module
 */
import { test } from "node:test";
import { NORM_TESTS } from "./device/norms.ts";
import { BACKENDS, using } from "./table/backends.ts";

for (const [name, run] of Object.entries(NORM_TESTS)) {
  test(`Layer norm and RMS norm: ${name}`, () =>
    run((check) => {
      for (const { name, on } of BACKENDS) using(on, () => check(name));
    }));
}

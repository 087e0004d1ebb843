/**
 * Complex numbers on every backend of the CPU, each instruction set, and on a device of tests.
 *
 * @module
 */
import { describe, it } from "node:test";
import { COMPLEX_TESTS } from "../device/complex.ts";
import { BACKENDS, using } from "../ops/table/backends.ts";

for (const { name, on } of BACKENDS) {
  describe(`complex numbers: ${name}`, () => {
    for (const [what, run] of Object.entries(COMPLEX_TESTS)) {
      it(what, () => using(on, () => run(typeof on === "string" ? on : "cpu")));
    }
  });
}

/**
 * Complex numbers on a CUDA device: the emulator's, or a real one.
 *
 * @module
 */
import { test } from "node:test";
import { COMPLEX_TESTS } from "../device/complex.ts";
import { openCudaForTests, whyNoCuda } from "./support/device.ts";

const reason = whyNoCuda();
if (reason !== undefined) test(`complex numbers on CUDA (${reason})`, { skip: true }, () => {});
else {
  openCudaForTests();
  for (const [what, run] of Object.entries(COMPLEX_TESTS)) {
    test(`complex numbers on CUDA: ${what}`, () => run("cuda"));
  }
}

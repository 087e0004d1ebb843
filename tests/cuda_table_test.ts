/**
 * The table of all ops on a CUDA device: the emulator's, or a real one.
 *
 * @module
 */
import { test } from "node:test";
import { openCudaForTests, whyNoCuda } from "./cuda/device.ts";
import { assertListed, recordKernels } from "./cuda/kernels.ts";
import { tableTests } from "./table/suite.ts";

const reason = whyNoCuda();
if (reason !== undefined) test(`the table on CUDA (${reason})`, { skip: true }, () => {});
else {
  openCudaForTests();
  const launched = recordKernels();
  for (const [name, run] of tableTests([{ name: "cuda", on: "cuda", exact: false }])) {
    test(name, run);
  }
  test("every kernel of the table is one of those that are compiled for all architectures", () => {
    assertListed(launched, 3000);
  });
}

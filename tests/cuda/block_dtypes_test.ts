/**
 * Dtypes added to the table by tests, on a CUDA device: the emulator's, or a real one.
 *
 * @module
 */
import { test } from "node:test";
import { BLOCK_DTYPE_TESTS } from "../device/block_dtypes.ts";
import { openCudaForTests, whyNoCuda } from "./support/device.ts";

const reason = whyNoCuda();
if (reason !== undefined) test(`added dtypes on CUDA (${reason})`, { skip: true }, () => {});
else {
  openCudaForTests();
  for (const [what, run] of Object.entries(BLOCK_DTYPE_TESTS)) test(what, () => run("cuda"));
}

/**
 * Ops that programs define, on a CUDA device: the emulator's, or a real one.
 *
 * @module
 */
import { test } from "node:test";
import { CUSTOM_OP_TESTS } from "../device/custom_ops.ts";
import { openCudaForTests, whyNoCuda } from "./support/device.ts";

const reason = whyNoCuda();
if (reason !== undefined) test(`defined ops on CUDA (${reason})`, { skip: true }, () => {});
else {
  openCudaForTests();
  for (const [what, run] of Object.entries(CUSTOM_OP_TESTS)) test(what, () => run("cuda"));
}

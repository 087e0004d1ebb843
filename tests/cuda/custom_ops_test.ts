/**
 * Ops that programs define, and the functions of nn, on a CUDA device: the emulator's, or a real one.
 * `npm test` takes half of those functions.
 *
 * @module
 */
import { test } from "node:test";
import { CUSTOM_OP_TESTS } from "../device/custom_ops.ts";
import { NN_TESTS } from "../device/nn.ts";
import { isSampled } from "../support/amount.ts";
import { openCudaForTests, whyNoCuda } from "./support/device.ts";

const reason = whyNoCuda();
if (reason !== undefined) test(`defined ops on CUDA (${reason})`, { skip: true }, () => {});
else {
  openCudaForTests();
  const functions = Object.entries(NN_TESTS).filter(([what]) => isSampled(what, 2));
  for (const [what, run] of [...Object.entries(CUSTOM_OP_TESTS), ...functions]) {
    test(what, () => run("cuda"));
  }
}

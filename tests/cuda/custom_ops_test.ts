/**
 * Ops that programs define, and the functions of nn, on a CUDA device: the emulator's, or a real one.
 *
 * @module
 */
import { test } from "node:test";
import { CUSTOM_OP_TESTS } from "../device/custom_ops.ts";
import { NN_TESTS } from "../device/nn.ts";
import { openCudaForTests, whyNoCuda } from "./support/device.ts";

const reason = whyNoCuda();
if (reason !== undefined) test(`defined ops on CUDA (${reason})`, { skip: true }, () => {});
else {
  openCudaForTests();
  const all = { ...CUSTOM_OP_TESTS, ...NN_TESTS };
  for (const [what, run] of Object.entries(all)) test(what, () => run("cuda"));
}

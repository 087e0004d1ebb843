/**
 * The table of all ops on a CUDA device: the emulator's, or a real one; with `ROWMAJOR_TEST_PART`, a
 * share of it.
 *
 * @module
 */
import { test } from "node:test";
import { openCudaForTests, whyNoCuda } from "./support/device.ts";
import { assertListed, recordKernels } from "./support/kernels.ts";
import { shareOf, tableTests } from "../ops/table/suite.ts";

const reason = whyNoCuda();
if (reason !== undefined) test(`the table on CUDA (${reason})`, { skip: true }, () => {});
else {
  openCudaForTests({ apart: true });
  const launched = recordKernels();
  // Each fused op would be a kernel of its own to compile.
  const compiled = { dtypes: ["float32"], fused: false } as const;
  const tests = tableTests([{ name: "cuda", on: "cuda", exact: false, compiled }]);
  const share = shareOf(tests);
  for (const [name, run] of share) test(name, run);
  test("every kernel of the table is one of those that are compiled for all architectures", () => {
    assertListed(launched, share.length === tests.length ? 3000 : 1);
  });
}

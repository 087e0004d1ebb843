/**
 * The table of all ops on a CUDA device with only the precompiled kernels; with
 * `ROWMAJOR_TEST_PART`, a share of it.
 *
 * @module
 */
import { test } from "node:test";
import { prebuiltFamilies } from "../../src/backend/cuda/families.ts";
import { openCudaForTests, whyNoCuda } from "./support/device.ts";
import { shareOf, tableTests } from "../ops/table/suite.ts";

const reason = whyNoCuda();
if (reason !== undefined) test(`prebuilt kernels (${reason})`, { skip: true }, () => {});
else {
  openCudaForTests(prebuiltFamilies(), true);
  for (const [name, run] of shareOf(tableTests([{ name: "cuda", on: "cuda", exact: false }]))) {
    test(`${name}, with prebuilt kernels only`, run);
  }
}

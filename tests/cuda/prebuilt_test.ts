/**
 * The table of all ops on a CUDA device with only the precompiled kernels, and a share of it with
 * `ROWMAJOR_TEST_PART`.
 *
 * @module
 */
import { assert } from "@std/assert";
import { test } from "node:test";
import { arange } from "../../mod.ts";
import { prebuiltFamilies } from "../../src/backend/cuda/families.ts";
import { openCudaForTests, whyNoCuda } from "./support/device.ts";
import { shareOf, tableTests } from "../ops/table/suite.ts";

const reason = whyNoCuda();
if (reason !== undefined) test(`prebuilt kernels (${reason})`, { skip: true }, () => {});
else {
  openCudaForTests({ families: prebuiltFamilies(), only: true });
  const all = tableTests([{ name: "cuda", on: "cuda", exact: false }]);
  for (const [name, run] of shareOf(all)) {
    test(`${name}, with prebuilt kernels only`, run);
  }
  // The table gives logSumExp a float32, functions the maximum, which has the dtype of the elements.
  test("log-sum-exp and log-softmax of 16-bit floats, with prebuilt kernels only", () => {
    for (const dtype of ["float16", "bfloat16"] as const) {
      const x = arange(24).reshape([4, 6]).astype(dtype);
      const there = x.to("cuda");
      for (const axis of [0, 1]) {
        assert(there.logsumexp(axis).cpu().isclose(x.logsumexp(axis), { rtol: 0.01 }).all().item());
        assert(
          there.logSoftmax(axis).cpu().isclose(x.logSoftmax(axis), { rtol: 0.01 }).all().item(),
        );
      }
    }
  });
}

/**
 * The table of all ops on a CUDA device: the emulator's, or a real one. With `ROWMAJOR_TEST_PART`
 * being `1/4`, only that of the parts 0 to 3, without what looks at the whole.
 *
 * @module
 */
import process from "node:process";
import { test } from "node:test";
import { openCudaForTests, whyNoCuda } from "./cuda/device.ts";
import { assertListed, recordKernels } from "./cuda/kernels.ts";
import { tableTests } from "./table/suite.ts";

const reason = whyNoCuda();
if (reason !== undefined) test(`the table on CUDA (${reason})`, { skip: true }, () => {});
else {
  openCudaForTests();
  const launched = recordKernels();
  const tests = tableTests([{ name: "cuda", on: "cuda", exact: false }]);
  const [part, parts] = (process.env.ROWMAJOR_TEST_PART ?? "0/1").split("/").map(Number) as [
    number,
    number,
  ];
  tests.forEach(([name, run], i) => {
    const looksAtAll = i === tests.length - 1;
    if (parts === 1 || (!looksAtAll && i % parts === part)) test(name, run);
  });
  test("every kernel of the table is one of those that are compiled for all architectures", () => {
    assertListed(launched, parts === 1 ? 3000 : 1);
  });
}

/**
 * The table of all ops on a CUDA device: the emulator's, or a real one.
 *
 * @module
 */
import { test } from "node:test";
import { openCudaForTests, whyNoCuda } from "./cuda/device.ts";
import { testTable } from "./table/suite.ts";

const reason = whyNoCuda();
if (reason !== undefined) test(`the table on CUDA (${reason})`, { skip: true }, () => {});
else {
  openCudaForTests();
  testTable([{ name: "cuda", on: "cuda", exact: false }]);
}

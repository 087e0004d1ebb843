/**
 * The table of all ops on a CUDA device, the emulator's or a real one: casts, sums and a sample of the
 * ops in `npm test`, everything in `npm run test:all`, and a share of it with `ROWMAJOR_TEST_PART`.
 *
 * @module
 */
import process from "node:process";
import { test } from "node:test";
import { TABLE } from "../../src/table/table.ts";
import { isInSample, openCudaForTests, whyNoCuda } from "./support/device.ts";
import { assertListed, recordKernels } from "./support/kernels.ts";
import { shareOf, tableTests } from "../ops/table/suite.ts";
import { RUNS_ALL } from "../support/amount.ts";

/**
 * Has Bun free what a test has left: each tensor is between protected pages, of which a process may
 * have 65,530, and Bun knows only of the few bytes of its handle.
 */
async function collect(): Promise<void> {
  const { Bun } = globalThis as { Bun?: { gc(now: boolean): void } };
  if (Bun === undefined) return;
  Bun.gc(true);
  await new Promise((resolve) => setTimeout(resolve, 0));
}

const reason = whyNoCuda();
if (reason !== undefined) test(`the table on CUDA (${reason})`, { skip: true }, () => {});
else {
  openCudaForTests({ apart: true });
  const launched = recordKernels();
  // Each fused op would be a kernel of its own to compile.
  const compiled = { dtypes: ["float32"], fused: false } as const;
  const tests = tableTests([{ name: "cuda", on: "cuda", exact: false, compiled }]);
  const isWhole = RUNS_ALL || process.env.ROWMAJOR_TEST_PART !== undefined;
  const others = TABLE.filter(({ name }) => !isInSample(name)).map(({ name }) => `${name}: cuda`);
  // The last one checks that none was left out.
  const share = isWhole
    ? shareOf(tests)
    : tests.slice(0, -1).filter(([name]) => !others.includes(name));
  for (const [name, run] of share) {
    test(name, async () => {
      run();
      await collect();
    });
  }
  test("every kernel of the table is one of those that are compiled for all architectures", () => {
    assertListed(launched, share.length === tests.length ? 3000 : 1);
  });
}

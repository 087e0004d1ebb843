/**
 * Collectives of tensors on CUDA devices by NCCL, on the emulator: each process has a device.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { test } from "node:test";
import { RUNS_ALL } from "../support/amount.ts";
import { mpis, run } from "./nccl.ts";
import { textOf } from "./support.ts";

for (const mpi of mpis) {
  for (const size of RUNS_ALL ? [2, 3, 4] : [3]) {
    test(`${mpi.name}: collectives of ${size} devices`, async () => {
      const outcome = await run(mpi, size, "all,20000,nccl");
      assertEquals(outcome.code, 0, textOf(outcome));
      const told = outcome.stdout.trim().split("\n").sort();
      assertEquals(
        told.map((line) => /^rank (\d) of (\d): \d{3} checks$/.exec(line)?.slice(1).join()),
        Array.from({ length: size }, (_, rank) => `${rank},${size}`),
        textOf(outcome),
      );
    });
  }
}

/**
 * Ranks that call different things, or messages that do not fit: errors on all ranks, and the world
 * goes on.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import { MPIS, ranks, textOf } from "./support.ts";

const PROGRAM = "tests/distributed/programs/mismatches.ts";

// Under every implementation: they differ in what they do with elements that do not fit.
for (const mpi of MPIS) {
  test(`${mpi.name}: calls that differ have errors that name them`, async () => {
    const outcome = await ranks(mpi, 3, PROGRAM, { limit: 240 });
    assertEquals(outcome.code, 0, textOf(outcome));
    const told = outcome.stdout.match(/(?<=^rank \d: )\d+(?= mismatches$)/gm);
    assertEquals(told?.length, 3, textOf(outcome));
    assert(told.every((count) => Number(count) >= 24), textOf(outcome));
  });
}
if (MPIS.length === 0) test.skip("no MPI is installed: calls that differ", () => {});

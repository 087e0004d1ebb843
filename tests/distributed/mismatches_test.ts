/**
 * Ranks that call different things, or messages that do not fit: errors on all ranks, and the world
 * goes on.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import { RUNS_ALL } from "../support/amount.ts";
import { type Mpi, MPIS, type RankOptions, ranks, testEach, textOf } from "./support.ts";

const PROGRAM = "tests/distributed/programs/mismatches.ts";

async function check(mpi: Mpi, least: number, options: RankOptions): Promise<void> {
  const outcome = await ranks(mpi, 3, PROGRAM, { limit: 240, ...options });
  assertEquals(outcome.code, 0, textOf(outcome));
  const told = outcome.stdout.match(/(?<=^rank \d: )\d+(?= mismatches$)/gm) ?? [];
  assertEquals(told.length, 3, textOf(outcome));
  assert(told.every((count) => Number(count) >= least), textOf(outcome));
}

testEach("calls that differ have errors that name them", (mpi) => check(mpi, 24, {}));

// Open MPI differs in what it does with elements that do not fit.
const openMpi = MPIS.find(({ isOpenMpi }) => isOpenMpi);
const inDeno = "Deno" in globalThis;
if (RUNS_ALL || inDeno) {
  (openMpi === undefined ? test.skip : test)(
    "messages that do not fit, without comparing collectives (needs Open MPI)",
    async () => {
      const env = { ROWMAJOR_DISTRIBUTED_CHECK: "0" };
      await check(openMpi!, 20, { env, args: ["messages"] });
    },
  );
}

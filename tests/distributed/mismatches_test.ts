/**
 * Ranks that call different things, or messages that do not fit: errors on all ranks, and the world
 * goes on.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { ranks, testEach, textOf } from "./support.ts";

const PROGRAM = "tests/distributed/programs/mismatches.ts";

testEach("calls that differ have errors that name them, and the world goes on", async (mpi) => {
  const outcome = await ranks(mpi, 3, PROGRAM, { limit: 240 });
  assertEquals(outcome.code, 0, textOf(outcome));
  const told = outcome.stdout.match(/^rank \d: (\d+) mismatches$/gm);
  assertEquals(told?.length, 3, textOf(outcome));
  assert(told.every((line) => parseInt(line.slice("rank 0: ".length)) >= 24), textOf(outcome));
});

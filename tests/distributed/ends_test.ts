/**
 * Ranks that end, are late, or call something else: the others get errors or end, and do not hang.
 *
 * @module
 */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { BOTH_KINDS, ranks, testEach, textOf, type Told, toldBy } from "./support.ts";

const PROGRAM = "tests/distributed/programs/failures.ts";

testEach("a rank throws: promises and calls that wait fail at once", async (mpi) => {
  const outcome = await ranks(mpi, 3, PROGRAM, { args: ["throws"] });
  const told = toldBy(outcome);
  assertEquals(told.map(({ rank, peer, op }) => [rank, peer, op]), [
    [0, 1, "allSum"],
    [2, 1, "allSum"],
  ], textOf(outcome));
  for (const { message, seconds } of told) {
    assertMatch(message, /^Cannot allSum on rank [02]: rank 1 has closed its world$/);
    assert(seconds < 10, `${seconds} s`);
  }
  assert(outcome.code !== 0 && outcome.seconds < 15, textOf(outcome));
  assertStringIncludes(outcome.stderr, "rank 1 has thrown");
});

for (const what of ["exit0", "exit1", "kill"]) {
  testEach(`a rank ends (${what}): the launcher ends all`, async (mpi) => {
    const outcome = await ranks(mpi, 2, PROGRAM, { args: [what] });
    assert(outcome.code !== 0 && outcome.code !== null, textOf(outcome));
    assert(outcome.seconds < 15, textOf(outcome));
    if (what === "exit0") assertStringIncludes(outcome.stderr, "without having closed its world");
  }, what === "kill" ? BOTH_KINDS : undefined);
}

testEach("a rank is late: promises fail at the deadline, and the world is broken", async (mpi) => {
  const outcome = await ranks(mpi, 2, PROGRAM, { args: ["late,500"] });
  const [first, second] = toldBy(outcome) as [Told, Told];
  assertEquals(
    first.message,
    "Cannot allSum on rank 0: the other ranks did not answer within 0.5 s",
    textOf(outcome),
  );
  assert(first.seconds >= 0.5 && first.seconds < 5, `${first.seconds} s`);
  assertStringIncludes(second.message, "Cannot barrier on rank 0: the world is broken since");
  assert(outcome.code !== 0, textOf(outcome));
});

testEach("ranks call different things, and catch no error: all end, by no signal", async (mpi) => {
  const outcome = await ranks(mpi, 3, PROGRAM, { args: ["differs"] });
  assert(outcome.code !== 0 && outcome.seconds < 15, textOf(outcome));
  assertMatch(
    outcome.stderr,
    /Cannot allSum on rank \d: ranks 0 and 2 call allSum of 10 float32, but rank 1 calls allSum of 1000000/,
  );
  assert(!/signal|segmentation/i.test(textOf(outcome)), textOf(outcome));
}, BOTH_KINDS);

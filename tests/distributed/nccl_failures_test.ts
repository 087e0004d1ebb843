/**
 * Collectives by NCCL that fail, on the emulator: errors say why, in time.
 *
 * @module
 */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { mkdirSync } from "node:fs";
import { test } from "node:test";
import { emulatorCopy } from "../emulator/build.ts";
import { mpis, run, without } from "./nccl.ts";
import { type Mpi, textOf, type Told, toldBy } from "./support.ts";

const [first] = mpis;

/** What NCCL does by itself: else ranks already wait for each other where they compare their calls. */
const ALONE = { ROWMAJOR_DISTRIBUTED_CHECK: "0" };

/** A test under one MPI: what is tested is ours. */
function testOne(name: string, body: (mpi: Mpi) => Promise<void>): void {
  if (first !== undefined) test(name, () => body(first));
}

testOne("a rank is late: promises fail at the deadline, and the world is broken", async (mpi) => {
  const outcome = await run(mpi, 2, "late,500", ALONE);
  const [late, again, barrier] = toldBy(outcome) as [Told, Told, Told];
  assertEquals(
    late.message,
    "Cannot allSum on rank 0: the other ranks did not answer within 0.5 s",
    textOf(outcome),
  );
  assert(late.seconds >= 0.5 && late.seconds < 5, `${late.seconds} s`);
  assertMatch(again.message, /^Cannot allSum on rank 0: the world is broken since/);
  assertMatch(barrier.message, /^Cannot barrier on rank 0: the world is broken since/);
  assert(outcome.code !== 0, textOf(outcome));
});

const LATE = ["lateSync", "lateRead", "lateOpen", "stops", "compared late"];
for (const what of LATE) {
  testOne(`a rank is late (${what}): a failure at the deadline`, async (mpi) => {
    const compares = what === "compared late";
    const outcome = await run(mpi, 2, `${compares ? "lateSync" : what},800`, compares ? {} : ALONE);
    const told = toldBy(outcome);
    assertEquals(told.map(({ rank }) => rank), [0], textOf(outcome));
    assertMatch(told[0]!.message, /^Cannot allSum on rank 0: .* did not answer within 0.8 s$/);
    assert(told[0]!.seconds < 5, textOf(outcome));
    assert(outcome.code !== 0, textOf(outcome));
  });
}

testOne("a rank leaves: the others learn it at once", async (mpi) => {
  const outcome = await run(mpi, 3, "leaves", ALONE);
  const told = toldBy(outcome);
  assertEquals(told.map(({ rank }) => rank), [0, 2], textOf(outcome));
  for (const { message, seconds } of told) {
    // One of them may hear first of the other's failure.
    assertMatch(
      message,
      /^Cannot allSum on rank [02]: (rank 1 has closed|NCCL says: remote process)/,
    );
    assert(seconds < 5, `${seconds} s`);
  }
  assert(told.some(({ peer }) => peer === 1), textOf(outcome));
});

testOne("a rank gives up: NCCL tells the others before their deadline", async (mpi) => {
  const outcome = await run(mpi, 3, "remote,500", ALONE);
  const told = toldBy(outcome);
  assertEquals(told.map(({ rank }) => rank), [0, 1], textOf(outcome));
  assertMatch(told[0]!.message, /NCCL says: remote process exited/);
  assertMatch(told[1]!.message, /did not answer within 0.5 s$/);
});

testOne("ranks call other lengths without comparing them, and NCCL finds out", async (mpi) => {
  const outcome = await run(mpi, 2, "lengths", ALONE);
  assertMatch(toldBy(outcome)[0]!.message, /NCCL says: (invalid usage|remote process)/);
});

testOne("ranks call other collectives: errors name both calls", async (mpi) => {
  const outcome = await run(mpi, 2, "compared");
  assertEquals(outcome.code, 0, textOf(outcome));
  const of = (rank: number) =>
    toldBy(outcome).filter((one) => one.rank === rank).map(({ message }) =>
      message.slice(message.indexOf(": ") + 2)
    );
  const expected = [
    "rank 0 calls allSum of 4 float32 by NCCL, but rank 1 calls allSum of 5 float32 by NCCL",
    "rank 0 calls allSum of 4 float32 by NCCL, but rank 1 calls allSum of 4 float32",
    "rank 0 calls broadcast of 1000 float32 by NCCL from rank 0, but rank 1 calls broadcast of " +
    "1000 float32 by NCCL from rank 1",
    "rank 0 calls allSum of 4 float32 by NCCL, but rank 1 calls barrier",
    "rank 0 calls allMean of 4 float32 by NCCL, but rank 1 calls allSum of 4 float32 by NCCL",
  ];
  assertEquals([of(0), of(1)], [expected, expected], textOf(outcome));
  assertEquals(outcome.stdout.match(/rank \d: no error/g)?.length, 2);
});

for (const what of ["fails", "memory"]) {
  testOne(`a call of NCCL fails (${what})`, async (mpi) => {
    const outcome = await run(mpi, 2, `${what},800`);
    const [zero, one] = toldBy(outcome) as [Told, Told];
    assertMatch(zero.message, /^Cannot allToAll on rank 0: NCCL says: unhandled cuda error/);
    assertMatch(one.message, /^Cannot allToAll on rank 1: /, textOf(outcome));
  });
}

testOne("a rank has no NCCL: the memory of the CPU serves, or all fail", async (mpi) => {
  mkdirSync(without);
  emulatorCopy(without, { files: ["libnccl.so.2"] });
  const outcome = await run(mpi, 2, "missing");
  assertEquals(outcome.code, 0, textOf(outcome));
  assertEquals(outcome.stdout.match(/no error/g)?.length, 4, textOf(outcome));
  assertStringIncludes(outcome.stdout, "not used: no usable NCCL: looked for libnccl.so.2");
  assertStringIncludes(outcome.stdout, "not used: another rank has none");
  const required = await run(mpi, 2, "missing,20000,nccl");
  const told = toldBy(required);
  assertMatch(told[0]!.message, /NCCL is not available: another rank has none/, textOf(required));
  assertMatch(told.at(-1)!.message, /NCCL is not available: no usable NCCL/);
});

testOne(
  "ranks share a device: the memory of the CPU serves; or NCCL is turned off",
  async (mpi) => {
    const outcome = await run(mpi, 2, "shared");
    assertEquals(outcome.code, 0, textOf(outcome));
    assertStringIncludes(outcome.stdout, "not used: NCCL says: invalid usage");
    const off = await run(mpi, 2, "missing,20000,mpi");
    assertEquals(off.code, 0, textOf(off));
    assertStringIncludes(off.stdout, "not opened: ");
  },
);

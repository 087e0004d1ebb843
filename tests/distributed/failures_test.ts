/**
 * Failures beyond those of ends_test.ts: each ends with an error that says why, or ends all ranks, in
 * time.
 *
 * @module
 */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { mpiFolder } from "../../scripts/mpi.ts";
import {
  command,
  launch,
  type Mpi,
  MPIS,
  type Outcome,
  type RankOptions,
  ranks,
  testEach,
  textOf,
  type Told,
  toldBy,
} from "./support.ts";

const PROGRAM = "tests/distributed/programs/failures.ts";

function run(
  mpi: Mpi,
  size: number,
  what: string,
  options: RankOptions = {},
): Promise<Outcome> {
  return ranks(mpi, size, PROGRAM, { ...options, args: [what] });
}

testEach("a rank leaves: its messages count, and no others", async (mpi) => {
  const outcome = await run(mpi, 2, "leaves");
  assertEquals(
    toldBy(outcome).map(({ message }) => message),
    ["Cannot recv on rank 0: rank 1 has closed its world"],
    textOf(outcome),
  );
});

testEach("a rank is late: calls that wait fail at the deadline", async (mpi) => {
  const outcome = await run(mpi, 2, "lateSync,500");
  assertMatch(toldBy(outcome)[0]!.message, /^Cannot allSum on rank 0: .* within 0.5 s$/);
  assert(outcome.code !== 0, textOf(outcome));
});

testEach("a rank is late: programs fail at the deadline", async (mpi) => {
  const outcome = await run(mpi, 2, "lateProgram,500");
  const [first, second] = toldBy(outcome) as [Told, Told];
  assertMatch(first.message, /^Cannot run allReduce in a program on rank 0: .* within 0.5 s$/);
  assertStringIncludes(second.message, "the world is broken since");
});

testEach("a rank stops: the others fail at the deadline", async (mpi) => {
  const outcome = await run(mpi, 2, "stops,800");
  const told = toldBy(outcome);
  assertEquals(told.map(({ rank }) => rank), [0], textOf(outcome));
  assert(told[0]!.seconds < 5);
  assert(outcome.code !== 0 && outcome.seconds < 30, textOf(outcome));
});

testEach("the launcher is interrupted while a rank waits: all end", async (mpi) => {
  const begin = performance.now();
  let interrupted = false;
  const outcome = await run(mpi, 2, "interrupted", {
    onOutput(_, child) {
      if (interrupted) return;
      interrupted = true;
      setTimeout(() => child.kill("SIGINT"), 200);
    },
  });
  assert(outcome.code !== 0, textOf(outcome));
  assert(performance.now() - begin < 20_000, textOf(outcome));
});

testEach("abort ends all ranks, after what this one has printed", async (mpi) => {
  const outcome = await run(mpi, 2, "abort");
  assert(outcome.code !== 0 && outcome.seconds < 15, textOf(outcome));
  assertEquals(outcome.stdout.match(/last words/g)?.length, 5900);
});

testEach("some ranks compare their calls, and others do not: init fails on all", async (mpi) => {
  const outcome = await run(mpi, 2, "checks");
  const errors = outcome.stdout.match(/"Cannot init: some ranks compare their calls, and others/g);
  assertEquals(errors?.length, 2, textOf(outcome));
});

testEach("MPI without a launcher, if a program asks for it", async (mpi) => {
  const [path, ...args] = command(PROGRAM, ["size,20000,mpi"]);
  const outcome = await launch(path!, args, { env: mpi.env });
  assertEquals(outcome.code, 0, textOf(outcome));
  assertMatch(outcome.stdout, /^mpi: 1\nin use: (MPICH|Open MPI) /);
});

testEach("an MPI that is not there", async (mpi) => {
  const outcome = await run(mpi, 2, "size", {
    env: { ROWMAJOR_MPI: "/nowhere/libmpi.so" },
  });
  assertEquals(outcome.stdout.match(/cannot open the MPI library at ROWMAJOR_MPI/g)?.length, 4);
});

testEach("no native library", async (mpi) => {
  const outcome = await run(mpi, 2, "size", { env: { ROWMAJOR_LIB: "/nowhere/lib.so" } });
  assertEquals(
    outcome.stdout.match(/"Cannot init: 2 processes were started, but MPI needs/g)?.length,
    2,
  );
});

const [mpich, openmpi] = ["mpich", "openmpi"].map((name) => MPIS.find((one) => one.name === name));
const both = mpich !== undefined && openmpi !== undefined ? test : test.skip;

both("the library of Open MPI under MPICH's launcher (needs both)", async () => {
  const ROWMAJOR_MPI = join(mpiFolder("openmpi"), "lib", "libmpi.so.40");
  const outcome = await run(mpich!, 2, "size", { env: { ROWMAJOR_MPI } });
  assertEquals(
    outcome.stdout.match(/started 2 processes, but in Open MPI/g)?.length,
    4,
    textOf(outcome),
  );
});

both("the library of MPICH under Open MPI's launcher (needs both)", async () => {
  for (const name of ["libmpi_abi.so.1", "libmpi.so.12"]) {
    const ROWMAJOR_MPI = join(mpiFolder("mpich"), "lib", name);
    assert(existsSync(ROWMAJOR_MPI));
    const outcome = await run(openmpi!, 2, "size", { env: { ROWMAJOR_MPI } });
    assertEquals(
      outcome.stdout.match(/do not find each other there/g)?.length,
      4,
      textOf(outcome),
    );
  }
});

(mpich === undefined ? test.skip : test)(
  "a wrapper that has closed the launcher's file descriptor (needs mpich)",
  async () => {
    const rank = command(PROGRAM, ["size"]);
    const script = 'PMI_FD=77 exec "$@"';
    const outcome = await launch(mpich!.launcher, ["-n", "2", "sh", "-c", script, "sh", ...rank], {
      env: mpich!.env,
    });
    assertEquals(outcome.stdout.match(/file descriptor 77/g)?.length, 4, textOf(outcome));
  },
);

test("a process without a launcher opens no library", async () => {
  const [path, ...args] = command(PROGRAM, ["size"]);
  const outcome = await launch(path!, args, { env: { ROWMAJOR_MPI: "/nowhere" } });
  assertEquals(outcome.code, 0, textOf(outcome));
  assertMatch(outcome.stdout, /^none: 1\nnot opened: no launcher/);
});

/**
 * Collectives and messages of ranks, and of one process alone.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { test } from "node:test";
import { RUNS_ALL } from "../support/amount.ts";
import { command, launch, MPIS, OTHER_MPI, type Outcome, ranks, testEach } from "./support.ts";

const PROGRAM = "tests/distributed/programs/collectives.ts";

function checkAll({ code, stdout, stderr }: Outcome, size: number, backend: string): void {
  assertEquals(code, 0, stdout + stderr);
  const lines = stdout.trim().split("\n").sort();
  const told = lines.map((line) => /^rank (\d+) of (\d+) by (\w+): \d{3,} checks$/.exec(line));
  assertEquals(
    told.map((found) => found?.slice(1).join()),
    Array.from({ length: size }, (_, rank) => [rank, size, backend].join()),
    stdout + stderr,
  );
}

for (const size of RUNS_ALL ? [1, 2, 4] : [2]) {
  testEach(`collectives of ${size} ranks`, async (mpi) => {
    checkAll(await ranks(mpi, size, PROGRAM, { limit: 240 }), size, "mpi");
  });
}

// Open MPI's ranks leave processors to others while they wait, so that more of them cost less.
const ofMany = RUNS_ALL ? MPIS : "Deno" in globalThis ? OTHER_MPI : [];
testEach("collectives of 4 ranks, without comparing them before", async (mpi) => {
  const env = { ROWMAJOR_DISTRIBUTED_CHECK: "0" };
  checkAll(await ranks(mpi, 4, PROGRAM, { limit: 240, env }), 4, "mpi");
}, ofMany);

test("collectives of one process without a launcher, which opens no library", async () => {
  const [path, ...args] = command(PROGRAM);
  checkAll(await launch(path!, args, { env: { ROWMAJOR_MPI: "/nowhere" } }), 1, "none");
});

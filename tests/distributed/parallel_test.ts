/**
 * Averages of gradients, products and files that ranks share: parallel_program.ts alone, and on 2 and
 * 4 ranks of each MPI that is there.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { readFileSync } from "node:fs";
import process from "node:process";
import { test } from "node:test";
import { command, launch, type Outcome, ranks, testEach } from "./support.ts";

const PROGRAM = "tests/distributed/parallel_program.ts";
const source = readFileSync(new URL("parallel_program.ts", import.meta.url), "utf8");
/** The names of the checks. */
const NAMES = [...source.matchAll(/^ {2}(?:async )?"(.*)"\(/gm)].map(([, name]) => `ok ${name}`);

function check({ code, stdout, stderr }: Outcome): void {
  assertEquals([stdout.trim().split("\n"), code], [NAMES, 0], stderr);
}

test("a process alone averages, multiplies and reads files", async () => {
  const [path, ...args] = command(PROGRAM);
  check(await launch(path!, args, { env: process.env as Record<string, string> }));
});

for (const size of [2, 4]) {
  testEach(`${size} ranks average, multiply and share files`, async (mpi) => {
    check(await ranks(mpi, size, PROGRAM));
  });
}

/**
 * Averages of gradients, products and files that ranks share: programs/parallel.ts alone and on ranks.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { emulatorFolder, whyNoEmulator } from "../emulator/build.ts";
import { RUNS_ALL } from "../support/amount.ts";
import { command, launch, MPIS, type Outcome, ranks, testEach } from "./support.ts";

const PROGRAM = "tests/distributed/programs/parallel.ts";
const DEVICES = "tests/distributed/programs/parallel_devices.ts";
const source = readFileSync(new URL("programs/parallel.ts", import.meta.url), "utf8");
/** The names of the checks. */
const NAMES = [...source.matchAll(/^ {2}(?:async )?"(.*)"\(/gm)].map(([, name]) => `ok ${name}`);

/** Runs the program, which gets an empty folder, and expects all checks to pass. */
async function check(run: (args: string[]) => Promise<Outcome>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "rowmajor-shards-"));
  try {
    const { code, stdout, stderr } = await run([folder]);
    assertEquals([stdout.trim().split("\n"), code], [NAMES, 0], stderr);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

test("a process alone averages, multiplies and reads files", async () => {
  await check((args) => {
    const [path, ...rest] = command(PROGRAM, args);
    return launch(path!, rest, {});
  });
});

for (const size of RUNS_ALL ? [2, 4] : [2]) {
  testEach(`${size} ranks average, multiply and share files`, async (mpi) => {
    await check((args) => ranks(mpi, size, PROGRAM, { args }));
  });
}

const reason = whyNoEmulator();
if (reason !== undefined) test.skip(`devices: ${reason}`, () => {});
else if (MPIS.length === 0) test.skip("devices: no MPI is installed", () => {});
else {
  test("2 ranks with a device each average, multiply and share files", async () => {
    const folder = mkdtempSync(join(tmpdir(), "rowmajor-shards-"));
    try {
      const args = [folder, emulatorFolder()];
      const env = {
        ROWMAJOR_EMULATOR_DEVICES: "2",
        ROWMAJOR_EMULATOR_NCCL: folder,
        ROWMAJOR_CACHE: "/dev/null",
      };
      const { code, stdout, stderr } = await ranks(MPIS[0]!, 2, DEVICES, { args, env });
      const lines = stdout.trim().split("\n").sort();
      assertEquals([code, lines], [0, ["rank 0: 14 checks", "rank 1: 14 checks"]], stderr);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
}

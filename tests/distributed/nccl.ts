/**
 * Shared code of the tests of NCCL: ranks with a device each, on the emulator.
 *
 * @module
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { emulatorFolder, whyNoEmulator } from "../emulator/build.ts";
import { type Mpi, ONE_MPI, type Outcome, ranks } from "./support.ts";

const PROGRAM = "tests/distributed/programs/nccl.ts";
const reason = whyNoEmulator();
/** The implementations under which ranks run; none without an emulator. */
export const mpis: readonly Mpi[] = reason === undefined ? ONE_MPI : [];
if (reason !== undefined) test.skip(`NCCL: ${reason}`, () => {});
else if (mpis.length === 0) test.skip("NCCL: no MPI is installed", () => {});

const folder = mkdtempSync(join(tmpdir(), "rowmajor-nccl-"));
after(() => rmSync(folder, { recursive: true, force: true }));
/** A folder for libraries without NCCL. */
export const without: string = join(folder, "without");

/** Runs ranks on the emulator. */
export function run(
  mpi: Mpi,
  size: number,
  what: string,
  env: Record<string, string> = {},
): Promise<Outcome> {
  return ranks(mpi, size, PROGRAM, {
    args: [what, emulatorFolder(), without],
    limit: 240,
    env: {
      ROWMAJOR_EMULATOR_DEVICES: String(size),
      ROWMAJOR_EMULATOR_NCCL: folder,
      ROWMAJOR_CACHE: "/dev/null",
      ...env,
    },
  });
}

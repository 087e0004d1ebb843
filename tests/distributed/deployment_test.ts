/**
 * Ranks as they are deployed: with the permissions of the native library only, and as executables.
 *
 * @module
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { library } from "../native/support.ts";
import { makeExecutable, temporary } from "../package/support.ts";
import { root } from "../../scripts/tools.ts";
import { ranksOf, testEach, textOf } from "./support.ts";

const PROGRAM = "examples/distributed/k_means.ts";
const OUTPUT = /^1347 digits, in groups of [\d, ]+\nmean ink of each: [\d., ]+\n$/;
const inDeno = "Deno" in globalThis;

if (inDeno) {
  testEach("ranks need the permissions of the native library, and no more", async (mpi) => {
    const permissions = [`--allow-ffi=${library}`, `--allow-read=${library}`];
    const line = (flags: readonly string[]) => [
      process.execPath,
      ...["run", "--no-check", "--no-prompt", "--allow-env=ROWMAJOR_LIB", ...flags],
      join(root, PROGRAM),
    ];
    const env = { ROWMAJOR_LIB: library };
    const outcome = await ranksOf(mpi, 2, line(permissions), { env });
    assertEquals([outcome.code, outcome.stderr], [0, ""]);
    assertMatch(outcome.stdout, OUTPUT);
    const refused = await ranksOf(mpi, 2, line([]), { env });
    // The launcher may end one rank before it tells, as the other one has ended.
    assert(refused.code !== 0, textOf(refused));
    assertMatch(refused.stderr, /Cannot init: .* MPI needs the native library: not allowed to/);
  });
}

if (inDeno && process.env.DENORT_BIN === undefined) {
  test.skip("ranks of an executable (needs DENORT_BIN)", () => {});
} else {
  testEach("ranks of an executable", async (mpi) => {
    using folder = temporary();
    const out = join(folder.path, "k_means");
    await makeExecutable(out, [PROGRAM]);
    const env = { ROWMAJOR_CACHE: join(folder.path, "cache") };
    const outcome = await ranksOf(mpi, 2, [out], { env });
    assertEquals([outcome.code, outcome.stderr], [0, ""]);
    assertMatch(outcome.stdout, OUTPUT);
  });
}

/**
 * Ranks that add tensors until a call fails. Each writes what it got, and when, to a file.
 *
 * @module
 */
import { renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { DistributedError, ones } from "../../../mod.ts";
import { init } from "../../../src/distributed/mod.ts";

const [folder, timeout] = process.argv.slice(2) as [string, string];
const world = await init({ timeout: Number(timeout) });
const { rank, size } = world;
const tell = (name: string, what: unknown) => {
  const path = join(folder, `${name}-${rank}.json`);
  // The test reads whole files only.
  writeFileSync(`${folder}/part-${rank}`, JSON.stringify(what));
  renameSync(`${folder}/part-${rank}`, path);
};
let last = performance.now();
try {
  using x = ones([50_000], { dtype: "float32" });
  for (let step = 0;; step++) {
    last = performance.now();
    // Ranks that wait and ranks that do not are in one collective.
    using sum = rank % 2 === 0 ? world.allSumSync(x) : await world.allSum(x);
    if (sum.get(step % 50_000) !== size) throw new Error(`a sum is ${sum.get(step % 50_000)}`);
    if (step === 20) tell("begun", world.description);
  }
} catch (error) {
  if (!(error instanceof DistributedError)) throw error;
  const { op, peer, message } = error;
  tell("failed", { rank, op, peer, message, seconds: (performance.now() - last) / 1e3 });
}
// The end of one rank ends the others, which are to write their files.
setTimeout(() => process.exit(1), 1000);

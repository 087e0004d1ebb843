/**
 * Faults of memory that is kept for reuse: entry 10.
 *
 * @module
 */
import { assert } from "@std/assert";
import { findNative } from "../../../src/backend/cpu.ts";
import { inDeno, moduleAt, runApart } from "../../native/support.ts";
import { fault } from "../support.ts";

/** Drops arrays of the runtime and of the library without a turn; tells what is kept for reuse. */
const PROGRAM = `import { full, memory, zeros } from ${moduleAt("mod.ts")};
const ones = full([1_000_000], 1);
const churn = (count: number): void => {
  for (let i = 0; i < count; i++) ones.add(i);
};
churn(40);
let most = 0;
for (let round = 0; round < 3; round++) {
  // 400 MB from the runtime, whose finalizers run later.
  for (let i = 0; i < 4000; i++) zeros([25_000]);
  // 1.4 GB from the library, which are in use at the same time; each round has sizes of its own.
  let used: unknown[] = [];
  for (let i = 0; i < 60; i++) used.push(zeros([2_000_000 + 130_000 * (i + 7 * round)]));
  used = [];
  churn(300);
  most = Math.max(most, memory().collectedBytes);
}
console.log(most);`;

fault({
  entry: 10,
  kind: "a count that only finalizers decrease limits the memory that is kept",
  others: ["the decision in Bun to collect all objects"],
  skip: typeof findNative() === "string" ? "needs the native library" : false,
}, () => {
  const kept = Number(runApart(PROGRAM));
  // Half of what was in use may move from "in use" to "kept". In Bun little is in use by the end.
  assert(kept < (inDeno ? 1.3e9 : 3e8), `${kept} bytes are kept`);
});

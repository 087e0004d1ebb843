/**
 * Every op of the op table × dtype × layout × backend, against the interpreter on plain copies and
 * against NumPy; every cast; the accuracy of long sums.
 *
 * Nothing here names an op: a new one is covered by its entry in the table, and needs only its
 * golden data (scripts/golden/ops.py). The folder table/ makes the cases. In Deno, every op and
 * dtype runs in a third of the layouts on the generated loops and on the best instruction set, and a
 * quarter of them on the other backends; Bun runs a twentieth. For a sixth of the dtypes of an op
 * the cases also run as parts of compiled functions. `npm run test:all` does everything in both.
 *
 * @module
 */
import { test } from "node:test";
import { isSampled, RUNS_ALL } from "../support/amount.ts";
import { IN_BUN } from "../support/engine.ts";
import { ALL_BACKENDS } from "./table/backends.ts";
import { tableTests } from "./table/suite.ts";

const tests = tableTests(
  ALL_BACKENDS,
  IN_BUN && !RUNS_ALL ? (...part) => isSampled(part.join(" "), 20) : undefined,
);
for (const [name, run] of tests) test(name, run);

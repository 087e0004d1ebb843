/**
 * Every op of the op table × dtype × layout × backend, against the interpreter on plain copies and
 * against NumPy; every cast; the accuracy of long sums.
 *
 * Nothing here names an op: a new one is covered by its entry in the table, and needs only its
 * golden data (scripts/golden/ops.py). The folder table/ makes the cases.
 *
 * @module
 */
import { test } from "node:test";
import { BACKENDS } from "./table/backends.ts";
import { tableTests } from "./table/suite.ts";

for (const [name, run] of tableTests(BACKENDS)) test(name, run);

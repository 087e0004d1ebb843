/**
 * All mutants: those of the op table, made from it, and the lists of the other files.
 *
 * @module
 */
import type { Row } from "../../../src/ops/table.ts";
import { BACKENDS } from "./backend.ts";
import type { Mutant } from "./core.ts";
import { DEVICES } from "./devices.ts";
import { DISPATCHES } from "./dispatch.ts";
import { FILES } from "./files.ts";
import { INDEXINGS } from "./indexing.ts";
import { LAYOUTS } from "./layouts.ts";
import { PLANS } from "./plans.ts";
import { rowMutants } from "./rows.ts";
import { SLICES } from "./slices.ts";
import { STORAGES } from "./storage.ts";
import { TYPE_MUTANTS } from "./types.ts";

/** Every mutant, given the op table and the text that it stands in. */
export function allMutants(rows: readonly Row[], source: string): Mutant[] {
  return [
    ...rowMutants(rows, source),
    ...PLANS,
    ...SLICES,
    ...LAYOUTS,
    ...DISPATCHES,
    ...INDEXINGS,
    ...STORAGES,
    ...BACKENDS,
    ...DEVICES,
    ...FILES,
    ...TYPE_MUTANTS,
  ];
}

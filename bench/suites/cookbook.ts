/**
 * The programs of examples/cookbook beside NumPy: the same algorithms on the same inputs.
 *
 * @module
 */
import { PROGRAMS } from "../../examples/cookbook/inputs.ts";
import { drop } from "../harness/inputs.ts";
import type { Suite } from "../harness/suite.ts";

/** The suite. */
export const suite: Suite = {
  title: "Programs of the cookbook beside NumPy",
  groups: { cookbook: "programs of the cookbook" },
  rows: Object.entries(PROGRAMS).map(([name, make]) => ({
    ...{ group: "cookbook", name, inputs: {} },
    call: () => {
      const run = make(true);
      return { run: () => drop(run()) };
    },
    statements: { NumPy: `cookbook("${name}")()` },
  })),
  python: ["NumPy"],
  modules: ["scipy"],
  ...{ rounds: 3, ms: 150, threads: [1] },
  beside: "each",
  lines: "group",
  goal: () => ({ ratio: 1.5 }),
  meanGoal: () => 1,
};

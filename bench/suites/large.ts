/**
 * Ops whose results hold more than 256 MiB, beside NumPy: adds of 6.6e7 float32, just below, and of
 * 6.8e7, and a chain of four ops on 1e8; with results disposed of and not. The processes hold 4 GB
 * together.
 *
 * @module
 */
import { scope } from "../../mod.ts";
import type { AnyTensor, ServedRow, Suite } from "../harness/suite.ts";

const WORK: readonly (readonly [string, number, (x: AnyTensor) => unknown, string])[] = [
  ["add of 6.6e7", 6.6e7, (x) => x.add(1), "x + 1"],
  ["add of 6.8e7", 6.8e7, (x) => x.add(1), "x + 1"],
  ["chain of 4 on 1e8", 1e8, (x) => x.add(1).mul(2).sub(3).div(4), "(((x + 1) * 2) - 3) / 4"],
];

function rowOf(group: string, [name, count, run, numpy]: typeof WORK[number]): ServedRow {
  return {
    ...{ group, name, per: { unit: "element", count } },
    inputs: { x: { dtype: "float32", shape: [count], kind: "ones" } },
    call: ({ x }) => ({
      run: group === "under scope" ? () => scope(() => void run(x!)) : () => run(x!),
    }),
    statements: { NumPy: numpy },
  };
}

const groups = { "under scope": "results under scope", "dropped": "results not disposed of" };

/** The suite. */
export const suite: Suite = {
  title: "Results of more than 256 MiB beside NumPy",
  groups,
  rows: Object.keys(groups).flatMap((group) => WORK.map((work) => rowOf(group, work))),
  python: ["NumPy"],
  ...{ rounds: 3, ms: 200, threads: [2] },
  beside: "each",
  lines: "row",
  goal: (row) => row === "under scope/chain of 4 on 1e8" ? { ratio: 1.3 } : undefined,
};

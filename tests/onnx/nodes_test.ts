/**
 * The node tests of onnx, with onnx's tolerances, on the JavaScript and the native backend. They are
 * written by scripts/golden/onnx_nodes.py where Python imports onnx. unsupported.ts names the cases
 * that fail, with reasons.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { test } from "node:test";
import { usingAsync } from "../ops/table/backends.ts";
import { sampled } from "../support/amount.ts";
import { type Case, filesOf, findCases, runCase, TARGETS } from "./nodes.ts";
import { UNSUPPORTED, WIDER } from "./unsupported.ts";

/** Cases in `npm test`. */
const SAMPLE = 400;

const found = findCases();
const skip = "reason" in found;
const why = skip ? ` (skipped: ${found.reason})` : "";
const { folder, cases: all } = skip ? { folder: "", cases: [] } : found;

/** The cases by the op that they are of: those of its function after the case itself. */
const groups = Map.groupBy(sampled(all, SAMPLE, ({ name }) => name), ({ name }) => {
  const base = name.replace(/_expanded.*$/, "");
  return (all.find((one) => one.name === base) ?? all.find((one) => one.name === name))!
    .ops.join(" and ");
});
const reasons = new Map(
  Object.entries(UNSUPPORTED).flatMap(([reason, names]) =>
    names.map((name) => [name, reason] as const)
  ),
);

/** What of cases is not as it should be. */
async function problems(cases: readonly Case[]): Promise<string[]> {
  const wrong: string[] = [];
  for (const one of cases) {
    const why = await runCase({ ...one, ...WIDER[one.name] }, filesOf(folder, one));
    const expected = reasons.get(one.name);
    if (why !== undefined && expected === undefined) wrong.push(`${one.name}: ${why}`);
    if (why === undefined && expected !== undefined) {
      wrong.push(`${one.name} passes, but is unsupported: ${expected}`);
    }
  }
  return wrong;
}

test(`onnx has all cases that are unsupported${why}`, { skip }, () => {
  const names = new Set(all.map(({ name }) => name));
  const listed = [...reasons.keys(), ...Object.keys(WIDER)];
  assertEquals(listed.filter((name) => !names.has(name)), []);
  const count = Object.values(UNSUPPORTED).reduce((sum, names) => sum + names.length, 0);
  assertEquals(reasons.size, count, "a case is named twice");
});

for (const { name: backend, on } of TARGETS) {
  for (const [op, cases] of groups) {
    test(`${op}: ${cases.length} cases of onnx (${backend})`, async () => {
      assertEquals(await usingAsync(on, () => problems(cases)), []);
    });
  }
}

/**
 * The generated documents are what their generators print; no feature is without a test.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import { FEATURES } from "../scripts/features.ts";
import { makeCoverage, readCoverage } from "../scripts/gen_coverage.ts";
import { makeFeatures, readFeatures } from "../scripts/gen_features.ts";

test("docs/features.md is what scripts/gen_features.ts prints, with a test for every feature", () => {
  const text = makeFeatures();
  assertEquals(readFeatures(), text);
  const titles = Object.values(FEATURES).flat().map(({ title }) => title);
  assertEquals(new Set(titles).size, titles.length);
  assert(titles.length > 80);
  for (const line of text.split("\n").filter((line) => line.startsWith("| "))) {
    assert(/_test\.ts\)|later: needs|\| Tests \|/.test(line), line);
  }
});

test("docs/coverage.md is what scripts/gen_coverage.ts prints", () => {
  const text = makeCoverage();
  assertEquals(readCoverage(), text);
  for (const row of ["| `add` | yes | `x.add()` |", "| `cholesky` | no |", '| `"int8"` |']) {
    assert(text.includes(row), row);
  }
});

/**
 * Writes docs/features.md: the features, with the tests that cover them. A feature without a test
 * is an error.
 *
 * Finds tests by their names in the test files, which begin with a feature's title and a colon.
 * Must not run any.
 *
 * @module
 */

import { writeFileSync } from "node:fs";
import { readText, testFiles } from "../tools.ts";
import { type Feature, FEATURES } from "./feature_list.ts";

interface FoundTest {
  file: string;
  name: string;
}

/** Every test whose name is a plain string, in the order of files and lines. */
function findTests(): FoundTest[] {
  const literal = /\b(?:test|it|describe|check)\(\s*("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')/g;
  return testFiles().flatMap((file) => {
    const source = readText(file);
    return [...source.matchAll(literal)].map(([, text]) => ({
      file,
      name: text!.slice(1, -1).replace(/\\(.)/g, "$1"),
    }));
  });
}

function escapeCell(text: string): string {
  return text.replace(/[|*_<`\\[\]]/g, "\\$&");
}

function row({ title, semantics, later }: Feature, tests: readonly FoundTest[]): string {
  const byFile = Map.groupBy(tests, ({ file }) => file);
  const covered = [...byFile].map(([file, found]) => {
    const names = found.map(({ name }) => escapeCell(name.slice(title.length + 2)));
    return `[${escapeCell(file)}](../${file}): ${names.join("; ")}`;
  });
  const cell = later === undefined ? covered.join("<br>") : `planned: needs ${later}`;
  return `| ${escapeCell(title)} | ${escapeCell(semantics)} | ${cell} |`;
}

/** The text of docs/features.md. Throws if a feature has no test, or has one too early. */
export function makeFeatures(): string {
  const tests = findTests();
  const lines: string[] = [];
  let [covered, later] = [0, 0];
  for (const [area, features] of Object.entries(FEATURES)) {
    lines.push("", `## ${area}`, "", "| Feature | Semantics | Tests |", "|---|---|---|");
    for (const feature of features) {
      const mine = tests.filter(({ name }) => name.startsWith(`${feature.title}: `));
      if (feature.later === undefined && mine.length === 0) {
        throw new Error(
          `No test covers "${feature.title}": begin a test's name with "${feature.title}: "`,
        );
      }
      if (feature.later !== undefined && mine.length > 0) {
        throw new Error(`"${feature.title}" has a test: it does not wait for ${feature.later}`);
      }
      if (feature.later === undefined) covered++;
      else later++;
      lines.push(row(feature, mine));
    }
  }
  return [
    "<!-- deno-fmt-ignore-file -->",
    "<!-- Made by scripts/generate/features.ts from scripts/generate/feature_list.ts and the tests' names. -->",
    "",
    "# Features",
    "",
    "The features of rowmajor, and the tests that cover each of them. The list was collected from public",
    "texts and libraries on tensors: *Tensors in Rust*, *Basic Tensor Ops*, the xla-rs and RSTSR books,",
    "small CPU and CUDA tensor libraries with their to-do lists, and known bugs of such systems.",
    "",
    `${covered} features have tests. ${later} are planned.`,
    ...lines,
    "",
  ].join("\n");
}

if (import.meta.main) {
  writeFileSync(new URL("../../docs/features.md", import.meta.url), makeFeatures());
}

/**
 * Writes docs/coverage.md: the names of the array API standard, and which of them rowmajor has.
 *
 * The exports of mod.ts and the members of tensors determine which names exist. array_api.ts lists
 * the differences.
 *
 * @module
 */

import { writeFileSync } from "node:fs";
import * as rowmajor from "../../mod.ts";
import { DIFFERENCES, REASONS, RENAMED, STANDARD } from "./array_api.ts";

interface Row {
  name: string;
  status: "yes" | "no" | "differs";
  here: string;
  note: string;
}

/** The namespaces of the extensions. */
const NAMESPACES: Readonly<Record<string, readonly [name: string, members: object]>> = {
  "Extension linalg": ["linalg", rowmajor.linalg],
  "Extension fft": ["fft", rowmajor.fft],
};

/** The name of the standard's `name` in rowmajor, or undefined if it does not exist. */
function findHere(name: string, category: string): string | undefined {
  const ours = RENAMED[name] ??
    name.replace(/(?<=[a-z0-9])_([a-z0-9])/g, (_, c) => c.toUpperCase());
  if (category === "Constants") return ours;
  if (category === "Data types") {
    return rowmajor.attempt(() => rowmajor.zeros([], { dtype: name as "bool" })).error
      ? undefined
      : `"${name}"`;
  }
  const [namespace, members] = NAMESPACES[category] ?? ["", {}];
  if (ours in members) return `${namespace}.${ours}()`;
  const member = Object.getOwnPropertyDescriptor(rowmajor.Tensor.prototype, ours);
  if (member !== undefined) return member.get === undefined ? `x.${ours}()` : `x.${ours}`;
  return ours in rowmajor ? `${ours}()` : undefined;
}

function makeRow(name: string, category: string): Row {
  const here = findHere(name, category);
  const note = DIFFERENCES[name] ?? "";
  const status = here === undefined ? "no" : note === "" ? "yes" : "differs";
  return { name, status, here: here ?? "", note: here === undefined ? REASONS[name] ?? "" : note };
}

/** The text of docs/coverage.md. Throws if array_api.ts lists a difference of a missing name. */
export function makeCoverage(): string {
  const categories = Object.entries(STANDARD).map(([category, names]) =>
    [category, names.split(" ").map((name) => makeRow(name, category))] as const
  );
  const all = categories.flatMap(([, rows]) => rows);
  for (const name of [...Object.keys(DIFFERENCES), ...Object.keys(RENAMED)]) {
    if (!all.some((row) => row.name === name && row.status !== "no")) {
      throw new Error(`scripts/generate/array_api.ts lists ${name}, which is not here`);
    }
  }
  const count = (rows: readonly Row[]): string => {
    const of = (status: string) => rows.filter((row) => row.status === status).length;
    return `${of("yes")} | ${of("differs")} | ${of("no")} | ${rows.length} |`;
  };
  const code = (text: string): string => text === "" ? "" : `\`${text}\``;
  return [
    "<!-- deno-fmt-ignore-file -->",
    "<!-- Made by scripts/generate/coverage.ts from the code and scripts/generate/array_api.ts. -->",
    "",
    "# Coverage of the array API standard",
    "",
    "The names of the [Python array API standard](https://data-apis.org/array-api/2025.12/), version",
    "2025.12, and their equivalents in rowmajor. rowmajor uses camelCase; `x` is a tensor.",
    "",
    "| Category | Yes | Differs | No | All |",
    "|---|---|---|---|---|",
    ...categories.map(([category, rows]) => `| ${category} | ${count(rows)}`),
    `| **All** | ${count(all)}`,
    ...categories.flatMap(([category, rows]) => [
      "",
      `## ${category}`,
      "",
      "| Standard | Covered | rowmajor | Difference, or why not |",
      "|---|---|---|---|",
      ...rows.map(({ name, status, here, note }) =>
        `| ${code(name)} | ${status} | ${code(here)} | ${note} |`
      ),
    ]),
    "",
  ].join("\n");
}

if (import.meta.main) {
  writeFileSync(new URL("../../docs/coverage.md", import.meta.url), makeCoverage());
}

/**
 * The table of docs/which-models.md: the families of language models, from the code.
 *
 *     deno run -A scripts/generate/which_models.ts
 *
 * @module
 */
import { writeFileSync } from "node:fs";
import { FAMILIES } from "../../src/llm/families/registry.ts";
import { readText } from "../tools.ts";

const FILE = "docs/which-models.md";
const BLOCK = /(<!-- families -->\n\n)[\s\S]*?(\n\n<!-- \/families -->)/;
const HEADER = [
  "Family",
  "`general.architecture` in GGUF",
  "`model_type` in config.json",
  "Layers",
];

/** A table of Markdown, with columns as wide as `deno fmt` makes them. */
function tableOf(rows: readonly (readonly string[])[]): string {
  const widths = HEADER.map((_, i) => Math.max(...rows.map((row) => row[i]!.length)));
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell, i) => cell.padEnd(widths[i]!)).join(" | ")} |`;
  const [header, ...others] = rows;
  return [line(header!), line(widths.map((width) => "-".repeat(width))), ...others.map(line)]
    .join("\n");
}

/** The table of all families. */
function makeTable(): string {
  const code = (names: readonly string[]): string => names.map((name) => `\`${name}\``).join(", ");
  const rows = FAMILIES.map(({ name, gguf, transformers, features }) => [
    name,
    code(gguf.architectures),
    code(transformers.types),
    features,
  ]);
  return tableOf([HEADER, ...rows]);
}

/** The text of docs/which-models.md with the current table. */
export function makeWhichModels(): string {
  const text = readText(FILE);
  if (!BLOCK.test(text)) throw new Error(`${FILE} has no table between <!-- families --> lines`);
  return text.replace(BLOCK, (_, before, after) => before + makeTable() + after);
}

if (import.meta.main) {
  writeFileSync(new URL(`../../${FILE}`, import.meta.url), makeWhichModels());
}

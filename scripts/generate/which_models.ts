/**
 * The tables of docs/which-models.md: the families of encoders and of language models, from the code.
 *
 *     deno run -A scripts/generate/which_models.ts
 *
 * @module
 */
import { writeFileSync } from "node:fs";
import { FAMILIES } from "../../src/llm/families/registry.ts";
import { ENCODERS } from "../../src/models/encoders/families.ts";
import { readText } from "../tools.ts";

const FILE = "docs/which-models.md";
const NAMES = ["Family", "`general.architecture` in GGUF", "`model_type` in config.json"];

/** A table of Markdown, with columns as wide as `deno fmt` makes them. */
function tableOf(rows: readonly (readonly string[])[]): string {
  const [header, ...others] = rows;
  const widths = header!.map((_, i) => Math.max(...rows.map((row) => row[i]!.length)));
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell, i) => cell.padEnd(widths[i]!)).join(" | ")} |`;
  return [line(header!), line(widths.map((width) => "-".repeat(width))), ...others.map(line)]
    .join("\n");
}

const code = (names: readonly string[]): string =>
  names.length === 0 ? "–" : names.map((name) => `\`${name}\``).join(", ");

/** The tables, by the names in the comments around them. */
function makeTables(): Record<string, string> {
  const families = FAMILIES.map(({ name, gguf, transformers, features }) => [
    ...[name, code(gguf.architectures), code(transformers.types)],
    features,
  ]);
  const encoders = ENCODERS.map(({ name, gguf, json, example }) => [
    ...[name, code(gguf === undefined ? [] : [gguf]), code(json)],
    `\`${example}\``,
  ]);
  return {
    encoders: tableOf([[...NAMES, "For example"], ...encoders]),
    families: tableOf([[...NAMES, "Layers"], ...families]),
  };
}

/** The text of docs/which-models.md with the current tables. */
export function makeWhichModels(): string {
  let text = readText(FILE);
  for (const [name, table] of Object.entries(makeTables())) {
    const block = new RegExp(`(<!-- ${name} -->\n\n)[\\s\\S]*?(\n\n<!-- /${name} -->)`);
    if (!block.test(text)) throw new Error(`${FILE} has no table between <!-- ${name} --> lines`);
    text = text.replace(block, (_, before, after) => before + table + after);
  }
  return text;
}

if (import.meta.main) {
  writeFileSync(new URL(`../../${FILE}`, import.meta.url), makeWhichModels());
}

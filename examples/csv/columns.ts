/**
 * The columns of a CSV file as tensors, by `@std/csv`, which knows quotes, separators and comments.
 *
 *     deno run examples/csv/columns.ts FILE
 *
 * Here the package comes from npm, as deno-std; programs write `import { parse } from "@std/csv"`.
 *
 * @module
 */
import process from "node:process";
import { readFileSync } from "node:fs";
// @ts-ignore deno-std has no declarations
import { parse } from "deno-std/csv/mod.js";
import { fromBuffer, type Tensor } from "../../mod.ts";

/** A column of numbers, or of words: their numbers, and the words in the order of their first use. */
export type Column =
  | { readonly values: Tensor<"float64", [number]> }
  | { readonly codes: Tensor<"int32", [number]>; readonly words: readonly string[] };

/** Whether a cell is a number; an empty one counts as NaN. */
const isNumber = (cell: string): boolean => cell.trim() === "" || Number.isFinite(Number(cell));

function columnOf(cells: readonly string[]): Column {
  if (cells.every(isNumber)) {
    const numbers = Float64Array.from(cells, (cell) => cell.trim() === "" ? NaN : Number(cell));
    return { values: fromBuffer(numbers) };
  }
  const codes = new Map<string, number>();
  const numbers = Int32Array.from(cells, (cell) => {
    if (!codes.has(cell)) codes.set(cell, codes.size);
    return codes.get(cell)!;
  });
  return { codes: fromBuffer(numbers), words: [...codes.keys()] };
}

/** The columns of a CSV text whose first line has their names. */
export function readColumns(text: string, separator = ","): Record<string, Column> {
  const rows: Record<string, string>[] = parse(text, { skipFirstRow: true, separator });
  const names = rows.length === 0 ? [] : Object.keys(rows[0]!);
  return Object.fromEntries(names.map((name) => [name, columnOf(rows.map((row) => row[name]!))]));
}

if (import.meta.main) {
  const [file] = process.argv.slice(2);
  if (file === undefined) throw new Error("give the path of a CSV file");
  for (const [name, column] of Object.entries(readColumns(readFileSync(file, "utf8")))) {
    if ("words" in column) console.log(`${name}: ${column.words.length} different words`);
    else {
      const { values } = column;
      console.log(`${name}: mean ${values.mean().item()}, deviation ${values.std().item()}`);
    }
  }
}

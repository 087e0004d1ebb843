/**
 * Mutants of the op table, made from the table: a new row has its own at once.
 *
 * @module
 */
import type { Row } from "../../../src/ops/table.ts";
import type { Mutant } from "./core.ts";

/** An expression that gives something else; a whole row without its op where that is a change. */
function wrong(expr: string, row: Row): string {
  if (/^[01]$/.test(expr)) return expr === "0" ? "1" : "0";
  if (row.skeleton !== "map") return row.skeleton === "argReduce" ? `!(${expr})` : "x";
  if (row.result === "bool") return `!(${expr})`;
  if (expr !== "x") return row.arity === 3 ? "y" : "x";
  return "x + 1";
}

/** Every field of a row that has a meaning of its own, with a wrong value. */
function wrongFields(row: Row): [field: string, value: unknown][] {
  const fields: [string, unknown][] = [["expr", wrong(row.expr, row)]];
  if (row.int !== undefined) fields.push(["int", wrong(row.int, row)]);
  if (row.bool !== undefined) fields.push(["bool", row.bool === "x" ? "!(x == 0)" : "x"]);
  if (row.takes.length > 1) fields.push(["takes", row.takes.slice(1)]);
  const other = [..."biuf"].find((kind) => !row.takes.includes(kind));
  if (other !== undefined) fields.push(["takes", row.takes + other]);
  if (row.result === "float" || row.result === "sum") fields.push(["result", "same"]);
  if (row.skeleton === "map" && row.condition) fields.push(["condition", false]);
  if (row.skeleton === "reduce" || row.skeleton === "scan") {
    const { identity } = row;
    // The largest magnitude of nothing is 0, and no magnitude is below it.
    if (row.name !== "normMax") {
      fields.push(["identity", typeof identity === "number" ? 1 - identity : 0]);
    }
  }
  if (row.skeleton === "reduce") {
    if (row.map !== undefined) fields.push(["map", "x"]);
    if (row.finish !== undefined) fields.push(["finish", "a"]);
    if (row.nonEmpty) fields.push(["nonEmpty", false]);
    if (row.compensated) fields.push(["compensated", false]);
  }
  return fields;
}

/** What a row ends before: the next one, with or without a comment, or the end of a table. */
const NEXT = "(?:  //.*\\n)*  \\w+: \\w+\\(|\\} as const";

/** The mutants of the rows, from the table and the text that it stands in. */
export function rowMutants(rows: readonly Row[], source: string): Mutant[] {
  return rows.flatMap((row) => {
    const texts = source.matchAll(
      new RegExp(`^  ${row.name}: (\\w+\\([\\s\\S]*?),\\n(?=${NEXT})`, "gm"),
    );
    const [text, ...more] = [...texts].map(([, call]) => call!);
    if (text === undefined || more.length > 0) throw new Error(`No single row of ${row.name}`);
    return wrongFields(row).map(([field, value]): Mutant => ({
      name: `${row.name}: ${field} ${JSON.stringify(value)}`,
      group: "op row",
      file: "src/ops/table.ts",
      find: `  ${row.name}: ${text},\n`,
      replace: `  ${row.name}: { ...${text}, ${field}: ${JSON.stringify(value)} } as never,\n`,
      tests: [`table:/^${row.name}: /`, "mutation_gaps", "feature_reductions", "feature_dtypes"],
    }));
  });
}

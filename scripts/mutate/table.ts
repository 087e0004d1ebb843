/**
 * Mutants of the op table, made from its rows: a new row has its own at once.
 *
 * Every field of a row that has a meaning of its own gets a wrong value.
 *
 * @module
 */

import ts from "typescript";
import type { Row } from "../../src/ops/table.ts";
import type { Mutant } from "./operators.ts";

/** The file of the table. */
export const TABLE = "src/ops/table.ts";

/** An expression that gives something else; a whole row without its op where that is a change. */
function wrong(expr: string, row: Row): string {
  if (/^[01]$/.test(expr)) return expr === "0" ? "1" : "0";
  if (row.skeleton !== "map") return row.skeleton === "argReduce" ? `!(${expr})` : "x";
  if (row.result === "bool") return `!(${expr})`;
  if (expr !== "x") return row.arity === 3 ? "y" : "x";
  return "x + 1";
}

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

/** The calls that make rows, `map("abs", ...)`, by the names of the rows. */
function rowCalls(source: ts.SourceFile): Map<string, ts.CallExpression> {
  const calls = new Map<string, ts.CallExpression>();
  for (const statement of source.statements.filter(ts.isVariableStatement)) {
    for (const { initializer } of statement.declarationList.declarations) {
      const object = initializer && unwrapped(initializer);
      if (object === undefined || !ts.isObjectLiteralExpression(object)) continue;
      for (const property of object.properties.filter(ts.isPropertyAssignment)) {
        if (!ts.isCallExpression(property.initializer)) continue;
        calls.set(property.name.getText(source), property.initializer);
      }
    }
  }
  return calls;
}

/** `node` without `as const` and `satisfies`. */
function unwrapped(node: ts.Expression): ts.Expression {
  return ts.isAsExpression(node) || ts.isSatisfiesExpression(node)
    ? unwrapped(node.expression)
    : node;
}

/** The mutants of the rows, given the table that they stand in. */
export function rowMutants(rows: readonly Row[], source: ts.SourceFile): Mutant[] {
  const calls = rowCalls(source);
  return rows.flatMap((row) => {
    const call = calls.get(row.name);
    if (call === undefined) throw new Error(`Cannot find the row ${row.name} in ${TABLE}`);
    const [from, to] = [call.getStart(source), call.getEnd()];
    const { line } = source.getLineAndCharacterOfPosition(from);
    return wrongFields(row).map(([field, value]): Mutant => ({
      file: TABLE,
      place: row.name,
      key: `${row.name} row: ${field} ${JSON.stringify(value)}`,
      line: line + 1,
      from,
      to,
      by: `{ ...${call.getText(source)}, ${field}: ${JSON.stringify(value)} } as never`,
      kind: "row",
    }));
  });
}

/** True for a mutant of the tree within a row, of which {@link rowMutants} makes better ones. */
export function isInRow(mutant: Mutant, rows: readonly Mutant[]): boolean {
  return mutant.file === TABLE &&
    rows.some(({ from, to }) => mutant.from >= from && mutant.to <= to);
}

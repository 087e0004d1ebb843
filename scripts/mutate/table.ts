/**
 * Mutants of the op table, made from its entries: a new op has its own at once.
 *
 * Every field of an entry that has a meaning of its own gets a wrong value.
 *
 * @module
 */

import ts from "typescript";
import type { TableOp } from "../../src/table/op.ts";
import type { Mutant } from "./operators.ts";

/** The file of the table. */
export const TABLE_FILE = "src/table/table.ts";

/** An expression that gives something else; one without its operation where that is a change. */
function wrong(expr: string, op: TableOp): string {
  if (/^[01]$/.test(expr)) return expr === "0" ? "1" : "0";
  if (op.kind !== "map") return op.kind === "argReduce" ? `!(${expr})` : "x";
  if (op.result === "bool") return `!(${expr})`;
  if (expr !== "x") return op.arity === 3 ? "y" : "x";
  return "x + 1";
}

function wrongFields(op: TableOp): [field: string, value: unknown][] {
  const fields: [string, unknown][] = [["expr", wrong(op.expr, op)]];
  if (op.int !== undefined) fields.push(["int", wrong(op.int, op)]);
  if (op.bool !== undefined) fields.push(["bool", op.bool === "x" ? "!(x == 0)" : "x"]);
  if (op.dtypes.length > 1) fields.push(["dtypes", op.dtypes.slice(1)]);
  const other = [..."biuf"].find((letter) => !op.dtypes.includes(letter));
  if (other !== undefined) fields.push(["dtypes", op.dtypes + other]);
  if (["float", "sum", "prod"].includes(op.result)) fields.push(["result", "same"]);
  if (op.kind === "map" && op.condition) fields.push(["condition", false]);
  if (op.kind === "reduce" || op.kind === "scan") {
    const { identity } = op;
    // The largest magnitude of nothing is 0, and no magnitude is below it.
    if (op.name !== "normMax") {
      fields.push(["identity", typeof identity === "number" ? 1 - identity : 0]);
    }
  }
  if (op.kind === "reduce") {
    if (op.map !== undefined) fields.push(["map", "x"]);
    if (op.finish !== undefined) fields.push(["finish", "a"]);
    if (op.nonEmpty) fields.push(["nonEmpty", false]);
    if (op.compensated) fields.push(["compensated", false]);
  }
  return fields;
}

/** The calls that make ops, `map("abs", ...)`, by the names of the ops. */
function opCalls(source: ts.SourceFile): Map<string, ts.CallExpression> {
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

/** The mutants of the ops, given the table that they stand in. */
export function opMutants(ops: readonly TableOp[], source: ts.SourceFile): Mutant[] {
  const calls = opCalls(source);
  return ops.flatMap((op) => {
    const call = calls.get(op.name);
    if (call === undefined) throw new Error(`Cannot find the op ${op.name} in ${TABLE_FILE}`);
    const [from, to] = [call.getStart(source), call.getEnd()];
    const { line } = source.getLineAndCharacterOfPosition(from);
    return wrongFields(op).map(([field, value]): Mutant => ({
      file: TABLE_FILE,
      place: op.name,
      key: `${op.name} op: ${field} ${JSON.stringify(value)}`,
      line: line + 1,
      from,
      to,
      by: `{ ...${call.getText(source)}, ${field}: ${JSON.stringify(value)} } as never`,
      kind: "op",
    }));
  });
}

/** True for a mutant of the tree within an entry, of which {@link opMutants} makes better ones. */
export function isInEntry(mutant: Mutant, ops: readonly Mutant[]): boolean {
  return mutant.file === TABLE_FILE &&
    ops.some(({ from, to }) => mutant.from >= from && mutant.to <= to);
}

/**
 * Writes shim/ops.def, the lines of the op table that the shim has kernels for; with `--check`
 * it writes nothing and exits with 1 when the file is stale.
 *
 * A line of the table gets there when its expressions are plain C: no calls, so that each one means
 * the same in both languages, bit for bit. It must know nothing of how the shim expands the lines.
 *
 * @module
 */

import { readFileSync, writeFileSync } from "node:fs";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { tableHash } from "../src/backends/native/abi.ts";
import type { Kind } from "../src/dtype.ts";
import { parseExpr, printExpr, someExpr } from "../src/expr.ts";
import { exprFor, MAP, type MapRow, REDUCE, type ReduceRow, ROWS } from "../src/ops.ts";

/** `text` in C; undefined when it calls a primitive. */
function plainC(text: string): string | undefined {
  const expr = parseExpr(text);
  if (someExpr(expr, (part) => part.kind === "call")) return undefined;
  return printExpr(expr, {
    num: (digits) => digits,
    call: (name) => {
      throw new Error(`No call of ${name} is plain C`);
    },
  });
}

/** The expression of an elementwise row for floats or integers, if the shim has it for them. */
export function plainMap(row: MapRow, kind: Kind): string | undefined {
  if (!row.takes.includes(kind) || row.attributes !== undefined) return undefined;
  if (row.result !== "same" && row.result !== "bool" && kind !== "f") return undefined;
  return plainC(exprFor(row, kind));
}

function mapLines(row: MapRow): string[] {
  const lines: string[] = [];
  for (const [macro, kind] of [["RM_FLOAT_MAP", "f"], ["RM_INT_MAP", "i"]] as const) {
    const expr = plainMap(row, kind);
    if (expr === undefined) continue;
    const arity = `${row.arity}${row.condition ? "c" : ""}`;
    const result = row.result === "bool" ? "bool" : "same";
    lines.push(`${macro}(${row.id}, ${row.name}, ${arity}, ${result}, ${expr})`);
  }
  return lines;
}

/** What a reduction of floats is made of, if the shim has it. */
export function plainReduce(row: ReduceRow): [map: string, fold: string, finish: string] | null {
  if (!row.takes.includes("f") || row.result === "bool" || row.result === "int32") return null;
  const parts = [row.map ?? "x", row.expr, row.finish ?? "a"].map(plainC);
  return parts.includes(undefined) ? null : parts as [string, string, string];
}

function reduceLines(row: ReduceRow): string[] {
  const parts = plainReduce(row);
  if (parts === null) return [];
  const start = row.identity === "lowest"
    ? "-INFINITY"
    : row.identity === "highest"
    ? "INFINITY"
    : row.identity;
  const attributes = (row.attributes ?? [])
    .map((name, i) => `const double ${name} = attributes[${i}];`);
  const fields = [row.id, row.name, row.arity, start, row.compensated ? 1 : 0, ...parts];
  return [`RM_FLOAT_REDUCE(${fields.join(", ")}, ${attributes.join(" ")})`];
}

/** The text of shim/ops.def. */
export function makeOpsDef(): string {
  const hash = (tableHash() >>> 0).toString(16).padStart(8, "0");
  const macros = ["RM_FLOAT_MAP", "RM_INT_MAP", "RM_FLOAT_REDUCE"];
  const rows: readonly (MapRow | ReduceRow)[] = [...Object.values(MAP), ...Object.values(REDUCE)];
  const lines = [
    "/*",
    " * Made by scripts/gen_ops_def.ts from src/ops.ts: edit that, then run the script.",
    " *",
    " * RM_FLOAT_MAP, RM_INT_MAP (opcode, name, operands, result, expression of x, y, z); a first",
    " * operand of bool makes 3 operands 3c.",
    " * RM_FLOAT_REDUCE (opcode, name, operands, start, compensated, mapped element, fold of a and x,",
    " * end, declarations of attributes).",
    " * A file defines those that it wants before it includes this one, and undefines them after.",
    " */",
    `#define RM_TABLE_HASH 0x${hash}u`,
    `#define RM_ROWS ${ROWS.length}`,
    "",
    ...macros.flatMap((name) => [`#ifndef ${name}`, `#define ${name}(...)`, "#endif"]),
    "",
    ...rows.flatMap((row) => row.skeleton === "map" ? mapLines(row) : reduceLines(row)),
    "",
  ];
  return lines.join("\n");
}

/** Where the text belongs. */
export const opsDefPath: string = fileURLToPath(new URL("../shim/ops.def", import.meta.url));

/** The committed text, or "" when there is none. Line ends do not count. */
export function readOpsDef(): string {
  try {
    return readFileSync(opsDefPath, "utf8").replaceAll("\r\n", "\n");
  } catch {
    return "";
  }
}

if (import.meta.main) {
  const text = makeOpsDef();
  if (!process.argv.includes("--check")) writeFileSync(opsDefPath, text);
  else if (readOpsDef() !== text) {
    console.error("shim/ops.def is stale: run scripts/gen_ops_def.ts");
    process.exitCode = 1;
  }
}

/**
 * Writes the op table for other languages: shim/core/ops.def for kernels in C, and
 * src/types/table_ops.ts for the types of TypeScript. Also writes shim/include/abi_constants.h, the
 * numbers in calls of the shim.
 *
 * @module
 */

import { writeFileSync } from "node:fs";
import * as abi from "../../src/backend/ffi/abi.ts";
import { DTYPES, type Kind, NO_DTYPE } from "../../src/base/dtype.ts";
import * as plan from "../../src/base/plan.ts";
import { COMPLEX_NUMBER } from "../../src/ops/complex/op.ts";
import { type Expr, parseExpr, printExpr, someExpr } from "../../src/table/expr.ts";
import type { MapOp, ResultRule, TableOp } from "../../src/table/op.ts";
import { exprFor, TABLE } from "../../src/table/table.ts";
import { ignoresSign, isComputeBound, needsDouble } from "../../src/table/c_rules.ts";

/** `text` in C: calls and fractions become macros, which know the type. */
function inC(text: string): string {
  return printExpr(parseExpr(text), {
    num: (digits) => /^\d+$/.test(digits) ? digits : `RM_NUM(${digits})`,
    call: (name, args) => `RM_CALL(${name})(${args.join(", ")})`,
  });
}

/** Primitives whose result depends on the dtype's set of numbers or integers. */
const ROUNDING = new Set("floor ceil trunc rint nextafter".split(" "));

function isRounding(expr: Expr): boolean {
  return someExpr(expr, (part) => part.kind === "call" && ROUNDING.has(part.name));
}

/** Primitives that float32 computes in double too: those of shim/math/special. */
const SPECIAL = new Set(
  "lgamma gamma digamma erfc erfinv erfcinv ndtr ndtri i0 i0e i1 i1e sinc zeta".split(" "),
);

function isSpecial(expr: Expr): boolean {
  return expr.kind === "call" && SPECIAL.has(expr.name);
}

/** The macro of an op's line for a kind of dtype; undefined if the op does not compute in it. */
function macroOf(row: MapOp, kind: Kind): string | undefined {
  if (!row.dtypes.includes(kind)) return undefined;
  if (kind === "f") {
    if (needsDouble(row)) return "RM_DOUBLE_MAP";
    const expr = parseExpr(exprFor(row, kind));
    if (isRounding(expr)) return "RM_ROUND_MAP";
    if (isSpecial(expr)) return "RM_SPECIAL_MAP";
    return isComputeBound(row) ? "RM_COMPUTE_BOUND_MAP" : "RM_FLOAT_MAP";
  }
  // All other ops compute in floats.
  if (row.result !== "same" && row.result !== "bool") return undefined;
  if (kind === "b") return "RM_BOOL_MAP";
  return ignoresSign(parseExpr(exprFor(row, kind))) ? "RM_BITS_MAP" : "RM_INT_MAP";
}

/** Whether it is one operator between two operands that costs no more than reading them. */
function isArithmetic(row: MapOp, expr: Expr): boolean {
  return row.arity === 2 && expr.kind === "binary" && "+-*/".includes(expr.op) &&
    expr.left.kind === "name" && expr.right.kind === "name";
}

function mapLines(row: MapOp): string[] {
  const lines: string[] = [];
  for (const kind of ["f", "i", "b"] as const) {
    const macro = macroOf(row, kind);
    if (macro === undefined) continue;
    const result = row.result === "bool" ? "flag" : "same";
    const attributes = row.parameters
      .map((name, i) => `const double ${name} = attributes[${i}];`);
    const arity = `${row.arity}${row.condition ? "c" : attributes.length > 0 ? "a" : ""}`;
    const fields = [row.name, arity, result, inC(exprFor(row, kind)), attributes.join(" ")];
    lines.push(`${macro}(${fields.join(", ").trimEnd()})`);
    if (!isArithmetic(row, parseExpr(exprFor(row, kind)))) continue;
    lines.push(`${macro.replace("MAP", "ARITHMETIC")}(${row.name}, ${inC(exprFor(row, kind))})`);
  }
  return lines;
}

/** Properties of an op that the driver of the kernels needs. */
function rowLine(row: MapOp): string {
  const [condition, bool, heavy] = [row.condition, row.result === "bool", isComputeBound(row)]
    .map(Number);
  return `RM_MAP_OP(${row.name}, ${row.arity}, ${condition}, ${bool}, ${heavy})`;
}

function hex(hash: number): string {
  return `0x${(hash >>> 0).toString(16).padStart(8, "0")}u`;
}

/** All lines of an op as one, so that a new or changed op changes one line. */
function opLine(op: TableOp): string {
  const kind = op.kind === "map" ? "map" : "reduce";
  const first = `RM_OP(${op.name}, ${hex(abi.opHash(op))}, ${kind})`;
  return op.kind === "map" ? [first, rowLine(op), ...mapLines(op)].join(" ") : first;
}

/** The text of shim/core/ops.def. */
export function makeOpsDef(): string {
  const macros = [
    "OP",
    "MAP_OP",
    "FLOAT_MAP",
    "FLOAT_ARITHMETIC",
    "ROUND_MAP",
    "COMPUTE_BOUND_MAP",
    "SPECIAL_MAP",
    "DOUBLE_MAP",
    "INT_MAP",
    "BITS_MAP",
    "BITS_ARITHMETIC",
    "BOOL_MAP",
  ];
  const lines = [
    "/*",
    " * Made by scripts/generate/ops_def.ts from src/table/table.ts: edit that, then run the script.",
    " *",
    " * A line for each op of the table:",
    " * RM_OP(name, hash of its definition, map or reduce).",
    " * RM_MAP_OP(name, operands, has a bool condition as first operand, has a bool result, is",
    " * compute-bound).",
    " * RM_..._MAP(name, operands, result, expression of x, y, z, declarations of attributes). A c",
    " * after the number of operands stands for a condition, an a for attributes. The result is same",
    " * or flag, a bool. FLOAT is for float dtypes, ROUND for ops that round to integers or neighbors,",
    " * SPECIAL for special functions, COMPUTE_BOUND for other compute-bound ops, DOUBLE for those",
    " * whose float32 loops compute in double, INT for integers, BITS for integers of any sign, BOOL",
    " * for bool.",
    " * RM_..._ARITHMETIC(name, expression) repeats the lines whose expression is one operator.",
    " * RM_CALL(f) is primitive f, RM_NUM(n) number n.",
    " * A file defines the macros that it needs, includes this file, and undefines them.",
    " */",
    ...macros.flatMap((name) => [
      `#ifndef RM_${name}`,
      `#define RM_${name}(...)`,
      `#define RM_NO_${name}`,
      "#endif",
    ]),
    "",
    ...TABLE.map(opLine),
    "",
    ...macros.flatMap((name) => [
      `#ifdef RM_NO_${name}`,
      `#undef RM_${name}`,
      `#undef RM_NO_${name}`,
      "#endif",
    ]),
    "",
  ];
  return lines.join("\n");
}

/** `gatherAlong` as `GATHER_ALONG`. */
function upper(name: string): string {
  return name.replace(/(?<=[a-z])[A-Z]/g, (letter) => `_${letter}`).toUpperCase();
}

/** An enum of `values`, whose names begin with `prefix`. */
function enumOf(comment: string, prefix: string, values: Readonly<Record<string, number>>): string {
  const lines = Object.entries(values)
    .map(([name, value]) => `  ${prefix}${upper(name)} = ${value}`);
  return `/* ${comment} */\nenum {\n${lines.join(",\n")}\n};\n`;
}

/** The text of shim/include/abi_constants.h. */
export function makeConstants(): string {
  const { bounds: _, ...statuses } = abi.STATUS;
  const dtypes = Object.fromEntries(DTYPES.map((dtype, id) => [dtype, id]));
  return [
    "/*\n * Made by scripts/generate/ops_def.ts from src/backend/ffi/abi.ts: edit that, then run the script.\n" +
    " */\n#ifndef ROWMAJOR_ABI_CONSTANTS_H\n#define ROWMAJOR_ABI_CONSTANTS_H\n",
    `/* Changes with the meaning of any function. */\n#define RM_VERSION ${abi.VERSION}\n`,
    enumOf("What the functions return.", "RM_", statuses),
    enumOf("The dtypes, and what stands for none.", "RM_", {
      ...dtypes,
      dtypeCount: DTYPES.length,
      none: NO_DTYPE,
    }),
    `/* Of the dtypes, the declarations of rowmajor.h and the places of numbers in calls. */\n#define RM_ABI_HASH ${
      hex(abi.abiHash())
    }\n`,
    enumOf("Where the parts of a plan begin.", "RM_", {
      planRank: plan.RANK,
      planOperands: plan.OPERANDS,
      planKept: plan.KEPT,
      attributes: plan.ATTRIBUTES,
      offsets: plan.OFFSETS,
    }),
    enumOf("What rm_configure sets.", "RM_CONFIGURE_", abi.CONFIGURE),
    enumOf(
      "What rm_program and rm_program_copy do, and the kinds of buffers.",
      "RM_PROGRAM_",
      abi.PROGRAM,
    ),
    enumOf("The limits of programs.", "RM_PROGRAM_", abi.PROGRAM_LIMITS),
    enumOf(
      "The place of an arena, and the bytes that it has more than its program says.",
      "RM_PROGRAM_ARENA_",
      abi.PROGRAM_ARENA,
    ),
    enumOf("The kinds of random numbers.", "RM_RANDOM_", abi.RANDOM),
    enumOf("The kinds of deviates.", "RM_DEVIATE_", abi.DEVIATE),
    enumOf("The limits of chains.", "RM_CHAIN_", abi.CHAIN_LIMITS),
    enumOf("The attributes of chains.", "RM_CHAIN_AT_", abi.CHAIN_AT),
    enumOf("The numbers of a constant of a chain.", "RM_CHAIN_CONSTANT_", abi.CHAIN_CONSTANT),
    enumOf("The numbers of a step of a chain.", "RM_CHAIN_STEP_", abi.CHAIN_STEP),
    enumOf("The ops of complexMap.", "RM_COMPLEX_", Object.fromEntries(COMPLEX_NUMBER)),
    enumOf("The numbers of attention.", "RM_ATTENTION_AT_", abi.ATTENTION_AT),
    enumOf(
      "The numbers of attentionBackward.",
      "RM_ATTENTION_BACKWARD_AT_",
      abi.ATTENTION_BACKWARD_AT,
    ),
    enumOf(
      "The numbers of cachedAttention after those of attention.",
      "RM_CACHED_ATTENTION_AT_",
      abi.CACHED_ATTENTION_AT,
    ),
    enumOf("The activations of linearPacked.", "RM_ACTIVATION_", abi.ACTIVATION),
    enumOf("What rm_buffers does.", "RM_BUFFERS_", abi.BUFFERS),
    enumOf("What rm_files does.", "RM_FILES_", abi.FILES),
    enumOf("What this library is as a module of Node-API.", "RM_MODULE_", abi.MODULE),
    enumOf("What rm_distributed does.", "RM_REQUEST_", abi.REQUEST),
    enumOf("What ranks do.", "RM_COLLECTIVE_", abi.COLLECTIVE),
    enumOf("The reductions of collectives.", "RM_REDUCTION_", abi.REDUCTION),
    enumOf("The functions that call collectives.", "RM_METHOD_", abi.METHOD),
    enumOf("The numbers of collectives.", "RM_COLLECTIVE_AT_", abi.COLLECTIVE_AT),
    enumOf("What rm_cuda_memory does.", "RM_CUDA_", abi.CUDA_MEMORY),
    enumOf("What comes of RM_CUDA_END_READ.", "RM_CUDA_READ_", abi.CUDA_READ),
    enumOf("The flags of rm_cuda_matmul.", "RM_CUDA_MATMUL_", abi.CUDA_MATMUL),
    enumOf("The steps of rm_cuda_linalg.", "RM_CUDA_LINALG_", abi.CUDA_LINALG),
    enumOf("The flags of rm_cuda_linalg.", "RM_CUDA_LINALG_", abi.CUDA_LINALG_FLAGS),
    enumOf("What rm_cuda_nccl does.", "RM_CUDA_NCCL_", abi.CUDA_NCCL),
    enumOf("What rm_cuda_control does.", "RM_CUDA_", abi.CUDA_CONTROL),
    "#endif\n",
  ].join("\n");
}

/** The rules of ops whose results for complex numbers are floats. */
const REAL_RULE: Partial<Record<ResultRule, string>> = { same: "real", float: "realFloat" };

/** The text of src/types/table_ops.ts. */
export function makeTableOps(): string {
  return [
    "/**",
    " * The op table, for types.",
    " *",
    " * Made by scripts/generate/ops_def.ts from src/table/table.ts: edit that, then run the script.",
    " *",
    " * @module",
    " */",
    "",
    "/** The kinds of dtype that each op takes, and the rule of its result. */",
    "export interface OpTable {",
    ...TABLE.map((op) => {
      const compares = op.kind === "map" && op.compares;
      return `  /** \`${op.expr}\`. */\n  ${op.name}: ["${op.dtypes}", "${
        compares ? "compares" : op.realResult ? REAL_RULE[op.result] : op.result
      }"];`;
    }),
    "}",
  ].join("\n") + "\n";
}

if (import.meta.main) {
  const write = (path: string, text: string): void =>
    writeFileSync(new URL(`../../${path}`, import.meta.url), text);
  write("shim/core/ops.def", makeOpsDef());
  write("shim/include/abi_constants.h", makeConstants());
  write("src/types/table_ops.ts", makeTableOps());
}

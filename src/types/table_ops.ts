/**
 * The elementwise ops on two operands, for types.
 *
 * Made by scripts/generate/ops_def.ts from src/ops/table.ts: edit that, then run the script.
 *
 * @module
 */

/** The name of each, the kinds of dtype that it takes, and what it gives, or that it compares. */
export type BinaryOp =
  | ["add", "iuf", "same"]
  | ["sub", "iuf", "same"]
  | ["mul", "iuf", "same"]
  | ["div", "iuf", "float"]
  | ["floorDivide", "iuf", "same"]
  | ["remainder", "iuf", "same"]
  | ["pow", "iuf", "same"]
  | ["atan2", "iuf", "float"]
  | ["copysign", "iuf", "float"]
  | ["hypot", "iuf", "float"]
  | ["logaddexp", "iuf", "float"]
  | ["minimum", "iuf", "same"]
  | ["maximum", "iuf", "same"]
  | ["nextafter", "f", "same"]
  | ["equal", "biuf", "compares"]
  | ["notEqual", "biuf", "compares"]
  | ["less", "biuf", "compares"]
  | ["lessEqual", "biuf", "compares"]
  | ["greater", "biuf", "compares"]
  | ["greaterEqual", "biuf", "compares"]
  | ["logicalAnd", "biuf", "bool"]
  | ["logicalOr", "biuf", "bool"]
  | ["logicalXor", "biuf", "bool"]
  | ["bitwiseAnd", "biu", "same"]
  | ["bitwiseOr", "biu", "same"]
  | ["bitwiseXor", "biu", "same"]
  | ["bitwiseLeftShift", "iu", "same"]
  | ["bitwiseRightShift", "iu", "same"]
  | ["isclose", "f", "bool"];

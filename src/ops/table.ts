/**
 * THE op table: one row per op, from which every backend makes its loops and the tests their cases.
 *
 * A row says what an op means for one element. To add an elementwise op: one row here, one method in
 * tensor.ts, and the generators (docs/add-an-op.md). Knows nothing of shapes, tensors or backends.
 * Expressions are in the common subset of C and JavaScript over named primitives (see expr.ts); `x`,
 * `y`, `z` are the operands, `a` the accumulator of a reduction.
 *
 * @module
 */
import { DTYPE, type DType, type Kind } from "../base/dtype.ts";

/** Which dtype comes out: the promoted one, bool, the index dtype, a float, or a sum's. */
export type ResultRule = "same" | "bool" | "int32" | "float" | "sum";

/** What the rows of all skeletons have in common. */
interface BaseRow {
  /** The op's name; unique in the table. */
  readonly name: string;
  /** What error messages call it: the method that runs it. */
  readonly op: string;
  /** Its place in {@link ROWS}: the number that kernel tables and the native side use. */
  readonly id: number;
  /** The kinds of dtype it takes, e.g. `"iuf"`; others are refused with a DTypeError. */
  readonly takes: string;
  /** The output's dtype. With `"float"`, integers are computed in and give float32. */
  readonly result: ResultRule;
  /** What one element is, for every kind that has no expression of its own. */
  readonly expr: string;
  /** For signed and unsigned integers, when that differs. */
  readonly int?: string | undefined;
  /** For bool, when that differs. */
  readonly bool?: string | undefined;
  /** The function of NumPy that means the same; a Python expression of `np`, x, y and z. */
  readonly numpy: string;
  /** Largest error of a float32 result, in units in the last place; in C one more, unless it is 0. */
  readonly ulp: number;
  /** Interval from which tests draw float operands. */
  readonly domain: readonly [number, number];
}

/** An elementwise op. */
export interface MapRow extends BaseRow {
  readonly skeleton: "map";
  /** How many tensors it reads. */
  readonly arity: 1 | 2 | 3;
  /** True when the first operand is a bool that takes no part in promotion (`where`). */
  readonly condition?: boolean | undefined;
  /** Names of numbers that the expression uses besides its operands. */
  readonly attributes?: readonly string[] | undefined;
}

/** A reduction: `expr` folds the mapped element `x` into the accumulator `a`. */
export interface ReduceRow extends BaseRow {
  readonly skeleton: "reduce";
  /** How many tensors it reads. */
  readonly arity: 1 | 2;
  /** What is folded; the default is `x`. */
  readonly map?: string;
  /** What the accumulator becomes at the end; the default is `a`. */
  readonly finish?: string;
  /** The start value: a number, or the dtype's smallest or largest value (∓∞ for floats). */
  readonly identity: number | "lowest" | "highest";
  /** True when reducing nothing is an error. */
  readonly nonEmpty?: boolean;
  /** True when float64 wants compensation. */
  readonly compensated?: boolean;
  /** Names of numbers that the expression uses besides its operands. */
  readonly attributes?: readonly string[];
}

/** The index of the first element that `expr` prefers over the best so far (`a`). */
export interface ArgReduceRow extends BaseRow {
  readonly skeleton: "argReduce";
  readonly arity: 1;
}

/** A running reduction along one axis. */
export interface ScanRow extends BaseRow {
  readonly skeleton: "scan";
  readonly arity: 1;
  readonly identity: number;
}

/** A row that folds elements. */
export type FoldRow = ReduceRow | ArgReduceRow | ScanRow;

/** Any row of the table. */
export type Row = MapRow | FoldRow;

let rows = 0;

type MapExtra = Partial<
  Pick<MapRow, "int" | "bool" | "ulp" | "domain" | "attributes" | "condition">
>;

function map(
  name: string,
  arity: 1 | 2 | 3,
  takes: string,
  result: ResultRule,
  expr: string,
  numpy: string,
  { int, bool, attributes, condition, ulp = 0, domain = [-8, 8] }: MapExtra = {},
): MapRow {
  // All rows have all properties: engines are slow with objects that differ in them.
  return {
    skeleton: "map",
    id: rows++,
    name,
    op: name,
    arity,
    takes,
    result,
    expr,
    int,
    bool,
    numpy,
    ulp,
    domain,
    condition,
    attributes,
  };
}

type ReduceExtra = Partial<
  Pick<
    ReduceRow,
    "op" | "map" | "finish" | "nonEmpty" | "compensated" | "arity" | "attributes" | "bool" | "ulp"
  >
>;

function reduce(
  name: string,
  takes: string,
  result: ResultRule,
  expr: string,
  identity: ReduceRow["identity"],
  numpy: string,
  extra: ReduceExtra = {},
): ReduceRow {
  return {
    skeleton: "reduce",
    id: rows++,
    name,
    op: name,
    arity: 1,
    takes,
    result,
    expr,
    identity,
    numpy,
    ulp: 1,
    domain: [-8, 8],
    ...extra,
  };
}

const unary = (name: string, expr: string, numpy: string, extra: MapExtra = {}): MapRow =>
  map(name, 1, "iuf", "float", expr, numpy, { ulp: 1, ...extra });
const rounding = (name: string, expr: string, numpy: string): MapRow =>
  map(name, 1, "iuf", "same", expr, numpy, { int: "x" });
const compare = (name: string, op: string, numpy: string): MapRow =>
  map(name, 2, "biuf", "bool", `x ${op} y`, numpy);
const logical = (name: string, expr: string, numpy: string): MapRow =>
  map(name, 2, "biuf", "bool", expr, numpy);

/** The elementwise rows. */
export const MAP = {
  copy: map("copy", 1, "biuf", "same", "x", "x"),
  positive: map("positive", 1, "iuf", "same", "x", "np.positive(x)"),
  neg: map("neg", 1, "iuf", "same", "-x", "np.negative(x)"),
  abs: map("abs", 1, "iuf", "same", "fabs(x)", "np.abs(x)", { int: "x < 0 ? -x : x" }),
  sign: map("sign", 1, "iuf", "same", "sign(x)", "np.sign(x)", {
    int: "x > 0 ? 1 : x < 0 ? -1 : 0",
  }),
  square: map("square", 1, "iuf", "same", "x * x", "np.square(x)"),
  reciprocal: unary("reciprocal", "1 / x", "np.reciprocal(x)", { ulp: 0 }),
  sqrt: unary("sqrt", "sqrt(x)", "np.sqrt(x)", { ulp: 0, domain: [0, 64] }),
  rsqrt: unary("rsqrt", "1 / sqrt(x)", "1 / np.sqrt(x)", { domain: [0, 64] }),
  exp: unary("exp", "exp(x)", "np.exp(x)"),
  expm1: unary("expm1", "expm1(x)", "np.expm1(x)"),
  exp2: unary("exp2", "exp2(x)", "np.exp2(x)"),
  log: unary("log", "log(x)", "np.log(x)", { domain: [0, 64] }),
  log1p: unary("log1p", "log1p(x)", "np.log1p(x)", { domain: [-1, 64] }),
  log2: unary("log2", "log2(x)", "np.log2(x)", { domain: [0, 64] }),
  log10: unary("log10", "log10(x)", "np.log10(x)", { domain: [0, 64] }),
  sin: unary("sin", "sin(x)", "np.sin(x)"),
  cos: unary("cos", "cos(x)", "np.cos(x)"),
  tan: unary("tan", "tan(x)", "np.tan(x)"),
  asin: unary("asin", "asin(x)", "np.arcsin(x)", { domain: [-1, 1] }),
  acos: unary("acos", "acos(x)", "np.arccos(x)", { domain: [-1, 1] }),
  atan: unary("atan", "atan(x)", "np.arctan(x)"),
  sinh: unary("sinh", "sinh(x)", "np.sinh(x)"),
  cosh: unary("cosh", "cosh(x)", "np.cosh(x)"),
  tanh: unary("tanh", "tanh(x)", "np.tanh(x)"),
  asinh: unary("asinh", "asinh(x)", "np.arcsinh(x)"),
  acosh: unary("acosh", "acosh(x)", "np.arccosh(x)", { domain: [1, 64] }),
  atanh: unary("atanh", "atanh(x)", "np.arctanh(x)", { domain: [-1, 1] }),
  erf: unary("erf", "erf(x)", "erf(x)"),
  sigmoid: unary("sigmoid", "sigmoid(x)", "1 / (1 + np.exp(-x))"),
  relu: map("relu", 1, "iuf", "same", "x < 0 ? 0 : x", "np.maximum(x, 0)"),
  gelu: unary("gelu", "gelu(x)", "0.5 * x * (1 + erf(x / np.sqrt(2)))", { ulp: 2 }),
  silu: unary("silu", "silu(x)", "x / (1 + np.exp(-x))"),
  floor: rounding("floor", "floor(x)", "np.floor(x)"),
  ceil: rounding("ceil", "ceil(x)", "np.ceil(x)"),
  trunc: rounding("trunc", "trunc(x)", "np.trunc(x)"),
  round: rounding("round", "rint(x)", "np.round(x)"),
  isnan: map("isnan", 1, "iuf", "bool", "isnan(x)", "np.isnan(x)", { int: "0" }),
  isinf: map("isinf", 1, "iuf", "bool", "isinf(x)", "np.isinf(x)", { int: "0" }),
  isfinite: map("isfinite", 1, "iuf", "bool", "isfinite(x)", "np.isfinite(x)", { int: "1" }),
  signbit: map("signbit", 1, "iuf", "bool", "signbit(x)", "np.signbit(x)", { int: "x < 0" }),
  logicalNot: map("logicalNot", 1, "biuf", "bool", "x == 0", "np.logical_not(x)"),
  bitwiseInvert: map("bitwiseInvert", 1, "biu", "same", "~x", "np.bitwise_invert(x)", {
    bool: "x == 0",
  }),
  add: map("add", 2, "iuf", "same", "x + y", "x + y"),
  sub: map("sub", 2, "iuf", "same", "x - y", "x - y"),
  mul: map("mul", 2, "iuf", "same", "x * y", "x * y"),
  div: map("div", 2, "iuf", "float", "x / y", "x / y"),
  floorDivide: map("floorDivide", 2, "iuf", "same", "ffloordiv(x, y)", "np.floor_divide(x, y)", {
    int: "ifloordiv(x, y)",
  }),
  remainder: map("remainder", 2, "iuf", "same", "fmod(x, y)", "np.remainder(x, y)", {
    int: "imod(x, y)",
  }),
  pow: map("pow", 2, "iuf", "same", "pow(x, y)", "np.power(x, y)", { int: "ipow(x, y)", ulp: 1 }),
  atan2: map("atan2", 2, "iuf", "float", "atan2(x, y)", "np.arctan2(x, y)", { ulp: 1 }),
  copysign: map("copysign", 2, "iuf", "float", "copysign(x, y)", "np.copysign(x, y)"),
  hypot: map("hypot", 2, "iuf", "float", "hypot(x, y)", "np.hypot(x, y)", { ulp: 1 }),
  logaddexp: map("logaddexp", 2, "iuf", "float", "logaddexp(x, y)", "np.logaddexp(x, y)", {
    ulp: 2,
  }),
  minimum: map("minimum", 2, "iuf", "same", "minimum(x, y)", "np.minimum(x, y)", {
    int: "x < y ? x : y",
  }),
  maximum: map("maximum", 2, "iuf", "same", "maximum(x, y)", "np.maximum(x, y)", {
    int: "x > y ? x : y",
  }),
  nextafter: map("nextafter", 2, "f", "same", "nextafter(x, y)", "np.nextafter(x, y)"),
  equal: compare("equal", "==", "x == y"),
  notEqual: compare("notEqual", "!=", "x != y"),
  less: compare("less", "<", "x < y"),
  lessEqual: compare("lessEqual", "<=", "x <= y"),
  greater: compare("greater", ">", "x > y"),
  greaterEqual: compare("greaterEqual", ">=", "x >= y"),
  logicalAnd: logical("logicalAnd", "x != 0 && y != 0", "np.logical_and(x, y)"),
  logicalOr: logical("logicalOr", "x != 0 || y != 0", "np.logical_or(x, y)"),
  logicalXor: logical("logicalXor", "(x != 0) != (y != 0)", "np.logical_xor(x, y)"),
  bitwiseAnd: map("bitwiseAnd", 2, "biu", "same", "x & y", "x & y"),
  bitwiseOr: map("bitwiseOr", 2, "biu", "same", "x | y", "x | y"),
  bitwiseXor: map("bitwiseXor", 2, "biu", "same", "x ^ y", "x ^ y"),
  bitwiseLeftShift: map("bitwiseLeftShift", 2, "iu", "same", "shl(x, y, bits)", "x << y"),
  bitwiseRightShift: map("bitwiseRightShift", 2, "iu", "same", "shr(x, y, bits)", "x >> y"),
  isclose: map(
    "isclose",
    2,
    "f",
    "bool",
    "x == y || (isfinite(y) != 0 && fabs(x - y) <= atol + rtol * fabs(y)) || " +
      "(equalNan != 0 && x != x && y != y)",
    "np.isclose(x, y)",
    { attributes: ["rtol", "atol", "equalNan"] },
  ),
  where: map("where", 3, "biuf", "same", "x != 0 ? y : z", "np.where(x, y, z)", {
    condition: true,
  }),
  clip: map("clip", 3, "iuf", "same", "minimum(maximum(x, y), z)", "np.clip(x, y, z)", {
    int: "(x < y ? y : x) > z ? z : (x < y ? y : x)",
  }),
} as const satisfies Record<string, MapRow>;

const larger = "a > x || a != a ? a : x";
const smaller = "a < x || a != a ? a : x";

/** The reductions. */
export const REDUCE = {
  sum: reduce("sum", "biuf", "sum", "a + x", 0, "np.sum(x, axis=axis)", { compensated: true }),
  prod: reduce("prod", "biuf", "sum", "a * x", 1, "np.prod(x, axis=axis)"),
  max: reduce("max", "biuf", "same", larger, "lowest", "np.max(x, axis=axis)", { nonEmpty: true }),
  min: reduce("min", "biuf", "same", smaller, "highest", "np.min(x, axis=axis)", {
    nonEmpty: true,
  }),
  any: reduce("any", "biuf", "bool", "a != 0 || x != 0 ? 1 : 0", 0, "np.any(x, axis=axis)"),
  all: reduce("all", "biuf", "bool", "a != 0 && x != 0 ? 1 : 0", 1, "np.all(x, axis=axis)"),
  countNonzero: reduce(
    "countNonzero",
    "biuf",
    "int32",
    "a + x",
    0,
    "np.count_nonzero(x, axis=axis)",
    { map: "x != 0 ? 1 : 0" },
  ),
  mean: reduce("mean", "biuf", "float", "a + x", 0, "np.mean(x, axis=axis)", {
    finish: "a / count",
    attributes: ["count"],
    compensated: true,
  }),
  var: reduce("var", "iuf", "float", "a + x", 0, "np.mean((x - y) ** 2, axis=axis)", {
    arity: 2,
    map: "(x - y) * (x - y)",
    finish: "a / count",
    attributes: ["count"],
    compensated: true,
  }),
  std: reduce("std", "iuf", "float", "a + x", 0, "np.sqrt(np.mean((x - y) ** 2, axis=axis))", {
    arity: 2,
    map: "(x - y) * (x - y)",
    finish: "sqrt(a / count)",
    attributes: ["count"],
    compensated: true,
  }),
  norm1: reduce("norm1", "iuf", "float", "a + x", 0, "np.sum(np.abs(x), axis=axis)", {
    op: "norm",
    map: "fabs(x)",
    compensated: true,
  }),
  norm2: reduce("norm2", "iuf", "float", "a + x", 0, "np.sqrt(np.sum(x * x, axis=axis))", {
    op: "norm",
    map: "x * x",
    finish: "sqrt(a)",
    compensated: true,
  }),
  normP: reduce(
    "normP",
    "iuf",
    "float",
    "a + x",
    0,
    "np.sum(np.abs(x) ** 3, axis=axis) ** (1 / 3)",
    {
      op: "norm",
      map: "pow(fabs(x), ord)",
      finish: "pow(a, 1 / ord)",
      attributes: ["ord"],
      compensated: true,
      ulp: 2,
    },
  ),
  normMax: reduce("normMax", "iuf", "float", larger, 0, "np.max(np.abs(x), axis=axis)", {
    op: "norm",
    map: "fabs(x)",
  }),
  normMin: reduce("normMin", "iuf", "float", smaller, "highest", "np.min(np.abs(x), axis=axis)", {
    op: "norm",
    map: "fabs(x)",
    nonEmpty: true,
  }),
  // y is the largest x, or float32 overflows.
  logSumExp: reduce(
    "logSumExp",
    "iuf",
    "float",
    "a + x",
    0,
    "np.log(np.sum(np.exp(x - y), axis=axis))",
    {
      op: "logsumexp",
      arity: 2,
      map: "exp(x - y)",
      finish: "log(a)",
      compensated: true,
    },
  ),
} as const satisfies Record<string, ReduceRow>;

function argReduce(name: string, expr: string, numpy: string): ArgReduceRow {
  return {
    skeleton: "argReduce",
    id: rows++,
    name,
    op: name,
    arity: 1,
    takes: "biuf",
    result: "int32",
    expr,
    numpy,
    ulp: 0,
    domain: [-8, 8],
  };
}

/** The reductions that give an index. NaN wins, as in NumPy. */
export const ARG_REDUCE = {
  argmax: argReduce("argmax", "x > a || (x != x && a == a)", "np.argmax(x, axis=axis)"),
  argmin: argReduce("argmin", "x < a || (x != x && a == a)", "np.argmin(x, axis=axis)"),
} as const satisfies Record<string, ArgReduceRow>;

function scan(name: string, expr: string, identity: number, numpy: string): ScanRow {
  return {
    skeleton: "scan",
    id: rows++,
    name,
    op: name,
    arity: 1,
    takes: "biuf",
    result: "sum",
    expr,
    identity,
    numpy,
    ulp: 1,
    domain: [-2, 2],
  };
}

/** The running reductions. */
export const SCAN = {
  cumulativeSum: scan("cumulativeSum", "a + x", 0, "np.cumsum(x, axis=axis)"),
  cumulativeProd: scan("cumulativeProd", "a * x", 1, "np.cumprod(x, axis=axis)"),
} as const satisfies Record<string, ScanRow>;

/** Every row. */
export const ROWS: readonly Row[] = [
  ...Object.values(MAP),
  ...Object.values(REDUCE),
  ...Object.values(ARG_REDUCE),
  ...Object.values(SCAN),
];

/** `row` for a method that runs it under another name, which its errors are to say. */
export function called<R extends Row>(row: R, op: string): R {
  return { ...row, op };
}

/** True when `row` takes elements of `dtype`. */
export function takes(row: Row, dtype: DType): boolean {
  return row.takes.includes(DTYPE[dtype].kind);
}

/** The dtype that `row` computes in for elements of `dtype`. */
export function computeOf(row: Row, dtype: DType): DType {
  return row.result === "float" && DTYPE[dtype].kind !== "f" ? "float32" : dtype;
}

/** The dtype that `row` gives for elements of `dtype`. */
export function resultOf(row: Row, dtype: DType): DType {
  if (row.result === "bool" || row.result === "int32") return row.result;
  const isShort = row.result === "sum" && DTYPE[dtype].kind !== "f" && dtype !== "uint64";
  return isShort ? "int64" : computeOf(row, dtype);
}

/** The expression that `row` uses for dtypes of `kind`. */
export function exprFor(row: Row, kind: Kind): string {
  if (kind === "b") return row.bool ?? row.int ?? row.expr;
  return kind === "f" ? row.expr : row.int ?? row.expr;
}

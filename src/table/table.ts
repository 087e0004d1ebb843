/**
 * The op table: one entry per op that is an expression of one element. Every backend generates its
 * loops from it, and the tests their cases.
 *
 * An entry defines an op for one element. To add an elementwise op: one entry here, one method in
 * tensor.ts, and the generators (docs/add-an-op.md). Knows nothing of shapes, tensors or backends.
 * Expressions are in the common subset of C and JavaScript over named primitives (see expr.ts);
 * `x`, `y`, `z` are the operands, `a` the accumulator of a reduction.
 *
 * @module
 */
import type { Kind } from "../base/dtype.ts";
import { inferArgReduce, inferCopy, inferMap, inferReduce, inferScan } from "./infer.ts";
import {
  type ArgReduceOp,
  type ElementOp,
  makeOp,
  type MapOp,
  type ReduceOp,
  type ResultRule,
  type ScanOp,
  type TableOp,
} from "./op.ts";

type MapExtra = Partial<
  Pick<
    MapOp,
    | "infer"
    | "int"
    | "bool"
    | "ulp"
    | "domain"
    | "parameters"
    | "condition"
    | "compares"
    | "realResult"
  >
>;

function map<N extends string>(
  name: N,
  arity: 1 | 2 | 3,
  dtypes: string,
  result: ResultRule,
  expr: string,
  numpy: string,
  extra: MapExtra = {},
): MapOp<N> {
  // All entries have all properties: engines are slow with objects of different shapes.
  return makeOp({
    kind: "map",
    name,
    infer: inferMap,
    arity,
    dtypes,
    result,
    expr,
    int: undefined,
    bool: undefined,
    numpy,
    ulp: 0,
    domain: [-8, 8],
    condition: false,
    compares: false,
    parameters: [],
    ...extra,
  });
}

type ReduceExtra = Partial<
  Pick<
    ReduceOp,
    | "map"
    | "finish"
    | "nonEmpty"
    | "compensated"
    | "arity"
    | "parameters"
    | "bool"
    | "ulp"
    | "realResult"
  >
>;

function reduce<N extends string>(
  name: N,
  dtypes: string,
  result: ResultRule,
  expr: string,
  identity: ReduceOp["identity"],
  numpy: string,
  extra: ReduceExtra = {},
): ReduceOp<N> {
  return makeOp({
    kind: "reduce",
    name,
    infer: inferReduce,
    arity: 1,
    dtypes,
    result,
    expr,
    int: undefined,
    bool: undefined,
    identity,
    numpy,
    ulp: 1,
    domain: [-8, 8],
    map: undefined,
    finish: undefined,
    nonEmpty: false,
    compensated: false,
    parameters: [],
    ...extra,
  });
}

const unary = <N extends string>(
  name: N,
  expr: string,
  numpy: string,
  extra: MapExtra = {},
): MapOp<N> => map(name, 1, "iuf", "float", expr, numpy, { ulp: 1, ...extra });
/** A {@link unary} that is defined for complex numbers too. */
const holomorphic = <N extends string>(
  name: N,
  expr: string,
  numpy: string,
  extra: MapExtra = {},
): MapOp<N> => map(name, 1, "iufc", "float", expr, numpy, { ulp: 1, ...extra });
const special = <N extends string>(
  name: N,
  domain: readonly [number, number],
  scipy: string = name,
): MapOp<N> => unary(name, `${name}(x)`, `special.${scipy}(x)`, { domain });
const rounding = <N extends string>(name: N, expr: string, numpy: string): MapOp<N> =>
  map(name, 1, "iuf", "same", expr, numpy, { int: "x" });
const compare = <N extends string>(name: N, op: string, numpy: string): MapOp<N> =>
  map(name, 2, op === "==" || op === "!=" ? "biufc" : "biuf", "bool", `x ${op} y`, numpy, {
    compares: true,
  });
const logical = <N extends string>(name: N, expr: string, numpy: string): MapOp<N> =>
  map(name, 2, "biufc", "bool", expr, numpy);

/** The elementwise ops. */
export const MAP = {
  copy: map("copy", 1, "biufc", "same", "x", "x", { infer: inferCopy }),
  positive: map("positive", 1, "iufc", "same", "x", "np.positive(x)"),
  neg: map("neg", 1, "iufc", "same", "-x", "np.negative(x)"),
  abs: map("abs", 1, "iufc", "same", "fabs(x)", "np.abs(x)", {
    int: "x < 0 ? -x : x",
    realResult: true,
  }),
  real: map("real", 1, "iufc", "same", "x", "np.real(x)", { realResult: true }),
  imag: map("imag", 1, "iufc", "same", "0", "np.imag(x)", {
    int: "x - x",
    realResult: true,
  }),
  conj: map("conj", 1, "iufc", "same", "x", "np.conj(x)"),
  angle: map("angle", 1, "iufc", "float", "atan2(0, x)", "np.arctan2(np.zeros_like(x), x)", {
    ulp: 1,
    realResult: true,
  }),
  sign: map("sign", 1, "iufc", "same", "sign(x)", "np.sign(x)", {
    int: "x > 0 ? 1 : x < 0 ? -1 : 0",
  }),
  square: map("square", 1, "iufc", "same", "x * x", "np.square(x)"),
  reciprocal: holomorphic("reciprocal", "1 / x", "np.reciprocal(x)", { ulp: 0 }),
  sqrt: holomorphic("sqrt", "sqrt(x)", "np.sqrt(x)", { ulp: 0, domain: [0, 64] }),
  rsqrt: holomorphic("rsqrt", "1 / sqrt(x)", "1 / np.sqrt(x)", { domain: [0, 64] }),
  exp: holomorphic("exp", "exp(x)", "np.exp(x)"),
  expm1: holomorphic("expm1", "expm1(x)", "np.expm1(x)"),
  exp2: holomorphic("exp2", "exp2(x)", "np.exp2(x)"),
  log: holomorphic("log", "log(x)", "np.log(x)", { domain: [0, 64] }),
  log1p: holomorphic("log1p", "log1p(x)", "np.log1p(x)", { domain: [-1, 64] }),
  log2: holomorphic("log2", "log2(x)", "np.log2(x)", { domain: [0, 64] }),
  log10: holomorphic("log10", "log10(x)", "np.log10(x)", { domain: [0, 64] }),
  sin: holomorphic("sin", "sin(x)", "np.sin(x)"),
  cos: holomorphic("cos", "cos(x)", "np.cos(x)"),
  tan: holomorphic("tan", "tan(x)", "np.tan(x)"),
  asin: holomorphic("asin", "asin(x)", "np.arcsin(x)", { domain: [-1, 1] }),
  acos: holomorphic("acos", "acos(x)", "np.arccos(x)", { domain: [-1, 1] }),
  atan: holomorphic("atan", "atan(x)", "np.arctan(x)"),
  sinh: holomorphic("sinh", "sinh(x)", "np.sinh(x)"),
  cosh: holomorphic("cosh", "cosh(x)", "np.cosh(x)"),
  tanh: holomorphic("tanh", "tanh(x)", "np.tanh(x)"),
  asinh: holomorphic("asinh", "asinh(x)", "np.arcsinh(x)"),
  acosh: holomorphic("acosh", "acosh(x)", "np.arccosh(x)", { domain: [1, 64] }),
  atanh: holomorphic("atanh", "atanh(x)", "np.arctanh(x)", { domain: [-1, 1] }),
  erf: unary("erf", "erf(x)", "erf(x)"),
  sigmoid: unary("sigmoid", "sigmoid(x)", "1 / (1 + np.exp(-x))"),
  relu: map("relu", 1, "iuf", "same", "x < 0 ? 0 : x", "np.maximum(x, 0)"),
  gelu: unary("gelu", "gelu(x)", "0.5 * x * (1 + erf(x / np.sqrt(2)))", { ulp: 2 }),
  silu: unary("silu", "silu(x)", "x / (1 + np.exp(-x))"),
  floor: rounding("floor", "floor(x)", "np.floor(x)"),
  ceil: rounding("ceil", "ceil(x)", "np.ceil(x)"),
  trunc: rounding("trunc", "trunc(x)", "np.trunc(x)"),
  round: rounding("round", "rint(x)", "np.round(x)"),
  isnan: map("isnan", 1, "iufc", "bool", "isnan(x)", "np.isnan(x)", { int: "0" }),
  isinf: map("isinf", 1, "iufc", "bool", "isinf(x)", "np.isinf(x)", { int: "0" }),
  isfinite: map("isfinite", 1, "iufc", "bool", "isfinite(x)", "np.isfinite(x)", { int: "1" }),
  signbit: map("signbit", 1, "iuf", "bool", "signbit(x)", "np.signbit(x)", { int: "x < 0" }),
  logicalNot: map("logicalNot", 1, "biufc", "bool", "x == 0", "np.logical_not(x)"),
  bitwiseInvert: map("bitwiseInvert", 1, "biu", "same", "~x", "np.bitwise_invert(x)", {
    bool: "x == 0",
  }),
  add: map("add", 2, "iufc", "same", "x + y", "x + y"),
  sub: map("sub", 2, "iufc", "same", "x - y", "x - y"),
  mul: map("mul", 2, "iufc", "same", "x * y", "x * y"),
  div: map("div", 2, "iufc", "float", "x / y", "x / y"),
  floorDivide: map("floorDivide", 2, "iuf", "same", "ffloordiv(x, y)", "np.floor_divide(x, y)", {
    int: "ifloordiv(x, y)",
  }),
  remainder: map("remainder", 2, "iuf", "same", "fmod(x, y)", "np.remainder(x, y)", {
    int: "imod(x, y)",
  }),
  pow: map("pow", 2, "iufc", "same", "pow(x, y)", "np.power(x, y)", { int: "ipow(x, y)", ulp: 1 }),
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
    { parameters: ["rtol", "atol", "equalNan"] },
  ),
  where: map("where", 3, "biufc", "same", "x != 0 ? y : z", "np.where(x, y, z)", {
    condition: true,
  }),
  clip: map("clip", 3, "iuf", "same", "minimum(maximum(x, y), z)", "np.clip(x, y, z)", {
    int: "(x < y ? y : x) > z ? z : (x < y ? y : x)",
  }),
  fmax: map("fmax", 2, "iuf", "same", "x >= y || y != y ? x : y", "np.fmax(x, y)", {
    int: "x > y ? x : y",
  }),
  fmin: map("fmin", 2, "iuf", "same", "x <= y || y != y ? x : y", "np.fmin(x, y)", {
    int: "x < y ? x : y",
  }),
  fmod: map("fmod", 2, "iuf", "same", "frem(x, y)", "np.fmod(x, y)", { int: "irem(x, y)" }),
  truncDivide: map(
    "truncDivide",
    2,
    "iu",
    "same",
    "ifloordiv(x - irem(x, y), y)",
    "np.floor_divide(x - np.fmod(x, y), y)",
  ),
  gcd: map("gcd", 2, "iu", "same", "igcd(x, y)", "np.gcd(x, y)"),
  lcm: map("lcm", 2, "iu", "same", "ilcm(x, y)", "np.lcm(x, y)"),
  ldexp: map("ldexp", 2, "f", "same", "ldexp(x, y)", "ldexp(x, y)"),
  lerp: map("lerp", 3, "f", "same", "x + z * (y - x)", "x + z * (y - x)"),
  addcmul: map("addcmul", 3, "iuf", "same", "x + y * z", "x + y * z"),
  addcdiv: map("addcdiv", 3, "f", "same", "x + y / z", "x + y / z"),
  lgamma: special("lgamma", [0, 64], "gammaln"),
  gamma: special("gamma", [-8, 32]),
  digamma: special("digamma", [0, 64]),
  erfc: special("erfc", [-8, 8]),
  erfinv: special("erfinv", [-1, 1]),
  erfcinv: special("erfcinv", [0, 2]),
  ndtr: special("ndtr", [-8, 8]),
  ndtri: special("ndtri", [0, 1]),
  i0: special("i0", [-64, 64]),
  i0e: special("i0e", [-64, 64]),
  i1: special("i1", [-64, 64]),
  i1e: special("i1e", [-64, 64]),
  sinc: unary("sinc", "sinc(x)", "special.sinc(x)"),
  logit: unary(
    "logit",
    "x < 0.3 || x > 0.65 ? log(x / (1 - x)) : 2 * atanh(2 * x - 1)",
    "special.logit(x)",
    { domain: [0, 1], ulp: 2 },
  ),
  entr: unary(
    "entr",
    "x > 0 ? -(x * log(x)) : x == 0 ? 0 : x < 0 ? log(0) : x",
    "special.entr(x)",
    {
      domain: [0, 8],
      ulp: 2,
    },
  ),
  xlogy: map(
    "xlogy",
    2,
    "iuf",
    "float",
    "x == 0 && y == y ? 0 : x * log(y)",
    "special.xlogy(x, y)",
    {
      ulp: 2,
      domain: [0, 8],
    },
  ),
  xlog1py: map(
    "xlog1py",
    2,
    "iuf",
    "float",
    "x == 0 && y == y ? 0 : x * log1p(y)",
    "special.xlog1py(x, y)",
    { ulp: 2, domain: [0, 8] },
  ),
  zeta: map("zeta", 2, "f", "same", "zeta(x, y)", "special.zeta(x, y)", {
    ulp: 1,
    domain: [1, 16],
  }),
} as const satisfies Record<string, MapOp>;

const larger = "a > x || a != a ? a : x";
const smaller = "a < x || a != a ? a : x";
// They begin with NaN, which every number replaces.
const largerNumber = "a > x || x != x ? a : x";
const smallerNumber = "a < x || x != x ? a : x";

/** The reductions. */
export const REDUCE = {
  sum: reduce("sum", "biufc", "sum", "a + x", 0, "np.sum(x, axis=axis)", { compensated: true }),
  prod: reduce("prod", "biufc", "prod", "a * x", 1, "np.prod(x, axis=axis)"),
  max: reduce("max", "biuf", "same", larger, "lowest", "np.max(x, axis=axis)", { nonEmpty: true }),
  min: reduce("min", "biuf", "same", smaller, "highest", "np.min(x, axis=axis)", {
    nonEmpty: true,
  }),
  any: reduce("any", "biufc", "bool", "a != 0 || x != 0 ? 1 : 0", 0, "np.any(x, axis=axis)"),
  all: reduce("all", "biufc", "bool", "a != 0 && x != 0 ? 1 : 0", 1, "np.all(x, axis=axis)"),
  countNonzero: reduce(
    "countNonzero",
    "biufc",
    "int32",
    "a + x",
    0,
    "np.count_nonzero(x, axis=axis)",
    { map: "x != 0 ? 1 : 0" },
  ),
  mean: reduce("mean", "biufc", "float", "a + x", 0, "np.mean(x, axis=axis)", {
    finish: "a / count",
    parameters: ["count"],
    compensated: true,
  }),
  var: reduce("var", "iufc", "float", "a + x", 0, "np.mean((x - y) ** 2, axis=axis)", {
    arity: 2,
    realResult: true,
    map: "(x - y) * (x - y)",
    finish: "a / count",
    parameters: ["count"],
    compensated: true,
  }),
  std: reduce("std", "iufc", "float", "a + x", 0, "np.sqrt(np.mean((x - y) ** 2, axis=axis))", {
    arity: 2,
    realResult: true,
    map: "(x - y) * (x - y)",
    finish: "sqrt(a / count)",
    parameters: ["count"],
    compensated: true,
  }),
  norm1: reduce("norm1", "iufc", "float", "a + x", 0, "np.sum(np.abs(x), axis=axis)", {
    realResult: true,
    map: "fabs(x)",
    compensated: true,
  }),
  norm2: reduce("norm2", "iufc", "float", "a + x", 0, "np.sqrt(np.sum(x * x, axis=axis))", {
    realResult: true,
    map: "x * x",
    finish: "sqrt(a)",
    compensated: true,
  }),
  normP: reduce(
    "normP",
    "iufc",
    "float",
    "a + x",
    0,
    "np.sum(np.abs(x) ** 3, axis=axis) ** (1 / 3)",
    {
      realResult: true,
      map: "pow(fabs(x), ord)",
      finish: "pow(a, 1 / ord)",
      parameters: ["ord"],
      compensated: true,
      ulp: 2,
    },
  ),
  normMax: reduce("normMax", "iufc", "float", larger, 0, "np.max(np.abs(x), axis=axis)", {
    realResult: true,
    map: "fabs(x)",
  }),
  normMin: reduce("normMin", "iufc", "float", smaller, "highest", "np.min(np.abs(x), axis=axis)", {
    realResult: true,
    map: "fabs(x)",
    nonEmpty: true,
  }),
  // y is the largest x; without it, float32 overflows.
  logSumExp: reduce(
    "logSumExp",
    "iuf",
    "float",
    "a + x",
    0,
    "np.log(np.sum(np.exp(x - y), axis=axis))",
    {
      arity: 2,
      map: "exp(x - y)",
      finish: "log(a)",
      compensated: true,
    },
  ),
  nansum: reduce("nansum", "f", "sum", "a + x", 0, "np.nansum(x, axis=axis)", {
    map: "x != x ? 0 : x",
    compensated: true,
  }),
  nanprod: reduce("nanprod", "f", "prod", "a * x", 1, "np.nanprod(x, axis=axis)", {
    map: "x != x ? 1 : x",
  }),
  nanmax: reduce("nanmax", "f", "same", largerNumber, NaN, "np.nanmax(x, axis=axis)", {
    nonEmpty: true,
  }),
  nanmin: reduce("nanmin", "f", "same", smallerNumber, NaN, "np.nanmin(x, axis=axis)", {
    nonEmpty: true,
  }),
  countNumbers: reduce("countNumbers", "f", "int32", "a + x", 0, "np.sum(x == x, axis=axis)", {
    map: "x == x ? 1 : 0",
  }),
  nanSquares: reduce("nanSquares", "f", "float", "a + x", 0, "np.nansum((x - y) ** 2, axis=axis)", {
    arity: 2,
    map: "x != x ? 0 : (x - y) * (x - y)",
    compensated: true,
  }),
} as const satisfies Record<string, ReduceOp>;

function argReduce<N extends string>(name: N, expr: string, numpy: string): ArgReduceOp<N> {
  return makeOp({
    kind: "argReduce",
    name,
    infer: inferArgReduce,
    arity: 1,
    dtypes: "biuf",
    result: "int32",
    expr,
    int: undefined,
    bool: undefined,
    numpy,
    ulp: 0,
    domain: [-8, 8],
    parameters: [],
  });
}

/** The reductions to an index. NaN wins, as in NumPy. */
export const ARG_REDUCE = {
  argmax: argReduce("argmax", "x > a || (x != x && a == a)", "np.argmax(x, axis=axis)"),
  argmin: argReduce("argmin", "x < a || (x != x && a == a)", "np.argmin(x, axis=axis)"),
} as const satisfies Record<string, ArgReduceOp>;

function scan<N extends string>(
  name: N,
  result: "sum" | "prod" | "same",
  expr: string,
  identity: ScanOp["identity"],
  numpy: string,
): ScanOp<N> {
  return makeOp({
    kind: "scan",
    name,
    infer: inferScan,
    arity: 1,
    // Complex numbers have no order.
    dtypes: result === "same" ? "biuf" : "biufc",
    result,
    expr,
    int: undefined,
    bool: undefined,
    identity,
    numpy,
    ulp: 1,
    domain: [-2, 2],
    parameters: [],
  });
}

/** The running reductions. */
export const SCAN = {
  cumulativeSum: scan("cumulativeSum", "sum", "a + x", 0, "np.cumsum(x, axis=axis)"),
  cumulativeProd: scan("cumulativeProd", "prod", "a * x", 1, "np.cumprod(x, axis=axis)"),
  cumulativeMax: scan(
    "cumulativeMax",
    "same",
    larger,
    "lowest",
    "np.maximum.accumulate(x, axis=axis)",
  ),
  cumulativeMin: scan(
    "cumulativeMin",
    "same",
    smaller,
    "highest",
    "np.minimum.accumulate(x, axis=axis)",
  ),
} as const satisfies Record<string, ScanOp>;

/** Every entry. */
export const TABLE: readonly TableOp[] = [
  ...Object.values(MAP),
  ...Object.values(REDUCE),
  ...Object.values(ARG_REDUCE),
  ...Object.values(SCAN),
];

/** The expression of `op` for dtypes of `kind`. */
export function exprFor(op: ElementOp, kind: Kind): string {
  if (kind === "b") return op.bool ?? op.int ?? op.expr;
  return kind === "f" ? op.expr : op.int ?? op.expr;
}

/**
 * The op table, for types.
 *
 * Made by scripts/generate/ops_def.ts from src/ops/table.ts: edit that, then run the script.
 *
 * @module
 */

/** The kinds of dtype that each op takes, and the rule of its result. */
export interface OpTable {
  /** `x`. */
  copy: ["biuf", "same"];
  /** `x`. */
  positive: ["iuf", "same"];
  /** `-x`. */
  neg: ["iuf", "same"];
  /** `fabs(x)`. */
  abs: ["iuf", "same"];
  /** `sign(x)`. */
  sign: ["iuf", "same"];
  /** `x * x`. */
  square: ["iuf", "same"];
  /** `1 / x`. */
  reciprocal: ["iuf", "float"];
  /** `sqrt(x)`. */
  sqrt: ["iuf", "float"];
  /** `1 / sqrt(x)`. */
  rsqrt: ["iuf", "float"];
  /** `exp(x)`. */
  exp: ["iuf", "float"];
  /** `expm1(x)`. */
  expm1: ["iuf", "float"];
  /** `exp2(x)`. */
  exp2: ["iuf", "float"];
  /** `log(x)`. */
  log: ["iuf", "float"];
  /** `log1p(x)`. */
  log1p: ["iuf", "float"];
  /** `log2(x)`. */
  log2: ["iuf", "float"];
  /** `log10(x)`. */
  log10: ["iuf", "float"];
  /** `sin(x)`. */
  sin: ["iuf", "float"];
  /** `cos(x)`. */
  cos: ["iuf", "float"];
  /** `tan(x)`. */
  tan: ["iuf", "float"];
  /** `asin(x)`. */
  asin: ["iuf", "float"];
  /** `acos(x)`. */
  acos: ["iuf", "float"];
  /** `atan(x)`. */
  atan: ["iuf", "float"];
  /** `sinh(x)`. */
  sinh: ["iuf", "float"];
  /** `cosh(x)`. */
  cosh: ["iuf", "float"];
  /** `tanh(x)`. */
  tanh: ["iuf", "float"];
  /** `asinh(x)`. */
  asinh: ["iuf", "float"];
  /** `acosh(x)`. */
  acosh: ["iuf", "float"];
  /** `atanh(x)`. */
  atanh: ["iuf", "float"];
  /** `erf(x)`. */
  erf: ["iuf", "float"];
  /** `sigmoid(x)`. */
  sigmoid: ["iuf", "float"];
  /** `x < 0 ? 0 : x`. */
  relu: ["iuf", "same"];
  /** `gelu(x)`. */
  gelu: ["iuf", "float"];
  /** `silu(x)`. */
  silu: ["iuf", "float"];
  /** `floor(x)`. */
  floor: ["iuf", "same"];
  /** `ceil(x)`. */
  ceil: ["iuf", "same"];
  /** `trunc(x)`. */
  trunc: ["iuf", "same"];
  /** `rint(x)`. */
  round: ["iuf", "same"];
  /** `isnan(x)`. */
  isnan: ["iuf", "bool"];
  /** `isinf(x)`. */
  isinf: ["iuf", "bool"];
  /** `isfinite(x)`. */
  isfinite: ["iuf", "bool"];
  /** `signbit(x)`. */
  signbit: ["iuf", "bool"];
  /** `x == 0`. */
  logicalNot: ["biuf", "bool"];
  /** `~x`. */
  bitwiseInvert: ["biu", "same"];
  /** `x + y`. */
  add: ["iuf", "same"];
  /** `x - y`. */
  sub: ["iuf", "same"];
  /** `x * y`. */
  mul: ["iuf", "same"];
  /** `x / y`. */
  div: ["iuf", "float"];
  /** `ffloordiv(x, y)`. */
  floorDivide: ["iuf", "same"];
  /** `fmod(x, y)`. */
  remainder: ["iuf", "same"];
  /** `pow(x, y)`. */
  pow: ["iuf", "same"];
  /** `atan2(x, y)`. */
  atan2: ["iuf", "float"];
  /** `copysign(x, y)`. */
  copysign: ["iuf", "float"];
  /** `hypot(x, y)`. */
  hypot: ["iuf", "float"];
  /** `logaddexp(x, y)`. */
  logaddexp: ["iuf", "float"];
  /** `minimum(x, y)`. */
  minimum: ["iuf", "same"];
  /** `maximum(x, y)`. */
  maximum: ["iuf", "same"];
  /** `nextafter(x, y)`. */
  nextafter: ["f", "same"];
  /** `x == y`. */
  equal: ["biuf", "compares"];
  /** `x != y`. */
  notEqual: ["biuf", "compares"];
  /** `x < y`. */
  less: ["biuf", "compares"];
  /** `x <= y`. */
  lessEqual: ["biuf", "compares"];
  /** `x > y`. */
  greater: ["biuf", "compares"];
  /** `x >= y`. */
  greaterEqual: ["biuf", "compares"];
  /** `x != 0 && y != 0`. */
  logicalAnd: ["biuf", "bool"];
  /** `x != 0 || y != 0`. */
  logicalOr: ["biuf", "bool"];
  /** `(x != 0) != (y != 0)`. */
  logicalXor: ["biuf", "bool"];
  /** `x & y`. */
  bitwiseAnd: ["biu", "same"];
  /** `x | y`. */
  bitwiseOr: ["biu", "same"];
  /** `x ^ y`. */
  bitwiseXor: ["biu", "same"];
  /** `shl(x, y, bits)`. */
  bitwiseLeftShift: ["iu", "same"];
  /** `shr(x, y, bits)`. */
  bitwiseRightShift: ["iu", "same"];
  /** `x == y || (isfinite(y) != 0 && fabs(x - y) <= atol + rtol * fabs(y)) || (equalNan != 0 && x != x && y != y)`. */
  isclose: ["f", "bool"];
  /** `x != 0 ? y : z`. */
  where: ["biuf", "same"];
  /** `minimum(maximum(x, y), z)`. */
  clip: ["iuf", "same"];
  /** `a + x`. */
  sum: ["biuf", "sum"];
  /** `a * x`. */
  prod: ["biuf", "prod"];
  /** `a > x || a != a ? a : x`. */
  max: ["biuf", "same"];
  /** `a < x || a != a ? a : x`. */
  min: ["biuf", "same"];
  /** `a != 0 || x != 0 ? 1 : 0`. */
  any: ["biuf", "bool"];
  /** `a != 0 && x != 0 ? 1 : 0`. */
  all: ["biuf", "bool"];
  /** `a + x`. */
  countNonzero: ["biuf", "int32"];
  /** `a + x`. */
  mean: ["biuf", "float"];
  /** `a + x`. */
  var: ["iuf", "float"];
  /** `a + x`. */
  std: ["iuf", "float"];
  /** `a + x`. */
  norm1: ["iuf", "float"];
  /** `a + x`. */
  norm2: ["iuf", "float"];
  /** `a + x`. */
  normP: ["iuf", "float"];
  /** `a > x || a != a ? a : x`. */
  normMax: ["iuf", "float"];
  /** `a < x || a != a ? a : x`. */
  normMin: ["iuf", "float"];
  /** `a + x`. */
  logSumExp: ["iuf", "float"];
  /** `x > a || (x != x && a == a)`. */
  argmax: ["biuf", "int32"];
  /** `x < a || (x != x && a == a)`. */
  argmin: ["biuf", "int32"];
  /** `a + x`. */
  cumulativeSum: ["biuf", "sum"];
  /** `a * x`. */
  cumulativeProd: ["biuf", "prod"];
}

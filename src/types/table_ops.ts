/**
 * The op table, for types.
 *
 * Made by scripts/generate/ops_def.ts from src/table/table.ts: edit that, then run the script.
 *
 * @module
 */

/** The kinds of dtype that each op takes, and the rule of its result. */
export interface OpTable {
  /** `x`. */
  copy: ["biufc", "same"];
  /** `x`. */
  positive: ["iufc", "same"];
  /** `-x`. */
  neg: ["iufc", "same"];
  /** `fabs(x)`. */
  abs: ["iufc", "real"];
  /** `x`. */
  real: ["iufc", "real"];
  /** `0`. */
  imag: ["iufc", "real"];
  /** `x`. */
  conj: ["iufc", "same"];
  /** `atan2(0, x)`. */
  angle: ["iufc", "realFloat"];
  /** `sign(x)`. */
  sign: ["iufc", "same"];
  /** `x * x`. */
  square: ["iufc", "same"];
  /** `1 / x`. */
  reciprocal: ["iufc", "float"];
  /** `sqrt(x)`. */
  sqrt: ["iufc", "float"];
  /** `1 / sqrt(x)`. */
  rsqrt: ["iufc", "float"];
  /** `exp(x)`. */
  exp: ["iufc", "float"];
  /** `expm1(x)`. */
  expm1: ["iufc", "float"];
  /** `exp2(x)`. */
  exp2: ["iufc", "float"];
  /** `log(x)`. */
  log: ["iufc", "float"];
  /** `log1p(x)`. */
  log1p: ["iufc", "float"];
  /** `log2(x)`. */
  log2: ["iufc", "float"];
  /** `log10(x)`. */
  log10: ["iufc", "float"];
  /** `sin(x)`. */
  sin: ["iufc", "float"];
  /** `cos(x)`. */
  cos: ["iufc", "float"];
  /** `tan(x)`. */
  tan: ["iufc", "float"];
  /** `asin(x)`. */
  asin: ["iufc", "float"];
  /** `acos(x)`. */
  acos: ["iufc", "float"];
  /** `atan(x)`. */
  atan: ["iufc", "float"];
  /** `sinh(x)`. */
  sinh: ["iufc", "float"];
  /** `cosh(x)`. */
  cosh: ["iufc", "float"];
  /** `tanh(x)`. */
  tanh: ["iufc", "float"];
  /** `asinh(x)`. */
  asinh: ["iufc", "float"];
  /** `acosh(x)`. */
  acosh: ["iufc", "float"];
  /** `atanh(x)`. */
  atanh: ["iufc", "float"];
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
  isnan: ["iufc", "bool"];
  /** `isinf(x)`. */
  isinf: ["iufc", "bool"];
  /** `isfinite(x)`. */
  isfinite: ["iufc", "bool"];
  /** `signbit(x)`. */
  signbit: ["iuf", "bool"];
  /** `x == 0`. */
  logicalNot: ["biufc", "bool"];
  /** `~x`. */
  bitwiseInvert: ["biu", "same"];
  /** `x + y`. */
  add: ["iufc", "same"];
  /** `x - y`. */
  sub: ["iufc", "same"];
  /** `x * y`. */
  mul: ["iufc", "same"];
  /** `x / y`. */
  div: ["iufc", "float"];
  /** `ffloordiv(x, y)`. */
  floorDivide: ["iuf", "same"];
  /** `fmod(x, y)`. */
  remainder: ["iuf", "same"];
  /** `pow(x, y)`. */
  pow: ["iufc", "same"];
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
  equal: ["biufc", "compares"];
  /** `x != y`. */
  notEqual: ["biufc", "compares"];
  /** `x < y`. */
  less: ["biuf", "compares"];
  /** `x <= y`. */
  lessEqual: ["biuf", "compares"];
  /** `x > y`. */
  greater: ["biuf", "compares"];
  /** `x >= y`. */
  greaterEqual: ["biuf", "compares"];
  /** `x != 0 && y != 0`. */
  logicalAnd: ["biufc", "bool"];
  /** `x != 0 || y != 0`. */
  logicalOr: ["biufc", "bool"];
  /** `(x != 0) != (y != 0)`. */
  logicalXor: ["biufc", "bool"];
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
  where: ["biufc", "same"];
  /** `minimum(maximum(x, y), z)`. */
  clip: ["iuf", "same"];
  /** `x >= y || y != y ? x : y`. */
  fmax: ["iuf", "same"];
  /** `x <= y || y != y ? x : y`. */
  fmin: ["iuf", "same"];
  /** `frem(x, y)`. */
  fmod: ["iuf", "same"];
  /** `ifloordiv(x - irem(x, y), y)`. */
  truncDivide: ["iu", "same"];
  /** `igcd(x, y)`. */
  gcd: ["iu", "same"];
  /** `ilcm(x, y)`. */
  lcm: ["iu", "same"];
  /** `ldexp(x, y)`. */
  ldexp: ["f", "same"];
  /** `x + z * (y - x)`. */
  lerp: ["f", "same"];
  /** `x + y * z`. */
  addcmul: ["iuf", "same"];
  /** `x + y / z`. */
  addcdiv: ["f", "same"];
  /** `lgamma(x)`. */
  lgamma: ["iuf", "float"];
  /** `gamma(x)`. */
  gamma: ["iuf", "float"];
  /** `digamma(x)`. */
  digamma: ["iuf", "float"];
  /** `erfc(x)`. */
  erfc: ["iuf", "float"];
  /** `erfinv(x)`. */
  erfinv: ["iuf", "float"];
  /** `erfcinv(x)`. */
  erfcinv: ["iuf", "float"];
  /** `ndtr(x)`. */
  ndtr: ["iuf", "float"];
  /** `ndtri(x)`. */
  ndtri: ["iuf", "float"];
  /** `i0(x)`. */
  i0: ["iuf", "float"];
  /** `i0e(x)`. */
  i0e: ["iuf", "float"];
  /** `i1(x)`. */
  i1: ["iuf", "float"];
  /** `i1e(x)`. */
  i1e: ["iuf", "float"];
  /** `sinc(x)`. */
  sinc: ["iuf", "float"];
  /** `x < 0.3 || x > 0.65 ? log(x / (1 - x)) : 2 * atanh(2 * x - 1)`. */
  logit: ["iuf", "float"];
  /** `x > 0 ? -(x * log(x)) : x == 0 ? 0 : x < 0 ? log(0) : x`. */
  entr: ["iuf", "float"];
  /** `x == 0 && y == y ? 0 : x * log(y)`. */
  xlogy: ["iuf", "float"];
  /** `x == 0 && y == y ? 0 : x * log1p(y)`. */
  xlog1py: ["iuf", "float"];
  /** `zeta(x, y)`. */
  zeta: ["f", "same"];
  /** `a + x`. */
  sum: ["biufc", "sum"];
  /** `a * x`. */
  prod: ["biufc", "prod"];
  /** `a > x || a != a ? a : x`. */
  max: ["biuf", "same"];
  /** `a < x || a != a ? a : x`. */
  min: ["biuf", "same"];
  /** `a != 0 || x != 0 ? 1 : 0`. */
  any: ["biufc", "bool"];
  /** `a != 0 && x != 0 ? 1 : 0`. */
  all: ["biufc", "bool"];
  /** `a + x`. */
  countNonzero: ["biufc", "int32"];
  /** `a + x`. */
  mean: ["biufc", "float"];
  /** `a + x`. */
  var: ["iufc", "realFloat"];
  /** `a + x`. */
  std: ["iufc", "realFloat"];
  /** `a + x`. */
  norm1: ["iufc", "realFloat"];
  /** `a + x`. */
  norm2: ["iufc", "realFloat"];
  /** `a + x`. */
  normP: ["iufc", "realFloat"];
  /** `a > x || a != a ? a : x`. */
  normMax: ["iufc", "realFloat"];
  /** `a < x || a != a ? a : x`. */
  normMin: ["iufc", "realFloat"];
  /** `a + x`. */
  logSumExp: ["iuf", "float"];
  /** `a + x`. */
  nansum: ["f", "sum"];
  /** `a * x`. */
  nanprod: ["f", "prod"];
  /** `a > x || x != x ? a : x`. */
  nanmax: ["f", "same"];
  /** `a < x || x != x ? a : x`. */
  nanmin: ["f", "same"];
  /** `a + x`. */
  countNumbers: ["f", "int32"];
  /** `a + x`. */
  nanSquares: ["f", "float"];
  /** `x > a || (x != x && a == a)`. */
  argmax: ["biuf", "int32"];
  /** `x < a || (x != x && a == a)`. */
  argmin: ["biuf", "int32"];
  /** `a + x`. */
  cumulativeSum: ["biufc", "sum"];
  /** `a * x`. */
  cumulativeProd: ["biufc", "prod"];
  /** `a > x || a != a ? a : x`. */
  cumulativeMax: ["biuf", "same"];
  /** `a < x || a != a ? a : x`. */
  cumulativeMin: ["biuf", "same"];
}

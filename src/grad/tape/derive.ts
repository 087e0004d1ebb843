/**
 * Derivatives of the expressions of the op table, by symbols.
 *
 * @module
 */
import { type Expr, parseExpr } from "../../table/expr.ts";
import type { MapOp } from "../../table/op.ts";
import { exprFor } from "../../table/table.ts";

const number = (value: number): Expr =>
  value < 0
    ? { kind: "unary", op: "-", arg: { kind: "num", text: String(-value) } }
    : { kind: "num", text: String(value) };

/** Whether an expression is the number `value`. */
export function isNumber(expr: Expr, value: number): boolean {
  return expr.kind === "num" && Number(expr.text) === value;
}

function negative(arg: Expr): Expr {
  if (isNumber(arg, 0)) return arg;
  return arg.kind === "unary" && arg.op === "-" ? arg.arg : { kind: "unary", op: "-", arg };
}

/** `left op right`, without terms that are 0 and factors that are 1. */
function binary(op: string, left: Expr, right: Expr): Expr {
  switch (op) {
    case "*":
      if (isNumber(left, 0) || isNumber(right, 0)) return number(0);
      if (isNumber(left, 1)) return right;
      if (isNumber(right, 1)) return left;
      break;
    case "+":
      if (isNumber(left, 0)) return right;
      if (isNumber(right, 0)) return left;
      break;
    case "-":
      if (isNumber(right, 0)) return left;
      if (isNumber(left, 0)) return negative(right);
      break;
    case "/":
      if (isNumber(left, 0)) return number(0);
      if (isNumber(right, 1)) return left;
  }
  return { kind: "binary", op, left, right };
}

/**
 * The derivatives of primitives by each argument: `a` and `b` are the arguments, `r` the value. 0 where
 * the function is constant between jumps. Functions without an entry have no derivative.
 */
const PRIMITIVES: Readonly<Record<string, readonly (string | undefined)[]>> = {
  exp: ["r"],
  expm1: ["r + 1"],
  exp2: ["r * 0.6931471805599453"],
  log: ["1 / a"],
  log1p: ["1 / (1 + a)"],
  log2: ["1.4426950408889634 / a"],
  log10: ["0.4342944819032518 / a"],
  sqrt: ["0.5 / r"],
  sin: ["cos(a)"],
  cos: ["-sin(a)"],
  tan: ["1 + r * r"],
  asin: ["1 / sqrt(1 - a * a)"],
  acos: ["-1 / sqrt(1 - a * a)"],
  atan: ["1 / (1 + a * a)"],
  sinh: ["cosh(a)"],
  cosh: ["sinh(a)"],
  tanh: ["1 - r * r"],
  asinh: ["1 / sqrt(a * a + 1)"],
  // The root of the product has another sign for some complex numbers.
  acosh: ["1 / (sqrt(a - 1) * sqrt(a + 1))"],
  atanh: ["1 / (1 - a * a)"],
  erf: ["1.1283791670955126 * exp(-(a * a))"],
  erfc: ["-1.1283791670955126 * exp(-(a * a))"],
  sigmoid: ["r * (1 - r)"],
  gelu: ["0.5 * (1 + erf(a * 0.7071067811865476)) + a * 0.3989422804014327 * exp(-0.5 * a * a)"],
  silu: ["sigmoid(a) * (1 + a - r)"],
  fabs: ["sign(a)"],
  sign: ["0"],
  floor: ["0"],
  ceil: ["0"],
  trunc: ["0"],
  rint: ["0"],
  pow: [
    "b * pow(a, b == 0 ? (a == 0 ? 0 : b - 1) : b - 1)",
    "a == 0 && b >= 0 ? 0 : r * log(a)",
  ],
  atan2: [
    "a == 0 && b == 0 ? 0 : b / (a * a + b * b)",
    "a == 0 && b == 0 ? 0 : -a / (a * a + b * b)",
  ],
  hypot: ["r == 0 ? 0 : a / r", "r == 0 ? 0 : b / r"],
  copysign: ["a == 0 ? 0 : r / a", "0"],
  logaddexp: ["exp(a - r)", "exp(b - r)"],
  // As PyTorch: 1 for both beside NaN, which is the result.
  minimum: ["a == b ? 0.5 : a > b ? 0 : 1", "a == b ? 0.5 : b > a ? 0 : 1"],
  maximum: ["a == b ? 0.5 : a < b ? 0 : 1", "a == b ? 0.5 : b < a ? 0 : 1"],
  ffloordiv: ["0", "0"],
  fmod: ["1", "-floor(a / b)"],
  frem: ["1", "-trunc(a / b)"],
  ldexp: ["ldexp(1, b)", "0"],
  nextafter: ["1", "0"],
  lgamma: ["digamma(a)"],
  gamma: ["r * digamma(a)"],
  digamma: ["zeta(2, a)"],
  erfinv: ["0.886226925452758 * exp(r * r)"],
  erfcinv: ["-0.886226925452758 * exp(r * r)"],
  ndtr: ["0.3989422804014327 * exp(-0.5 * a * a)"],
  ndtri: ["2.5066282746310002 * exp(0.5 * r * r)"],
  i0: ["i1(a)"],
  i0e: ["i1e(a) - sign(a) * r"],
  i1: ["a == 0 ? 0.5 : i0(a) - r / a"],
  i1e: ["a == 0 ? 0.5 : i0e(a) - r * (sign(a) + 1 / a)"],
  sinc: ["a == 0 ? 0 : (cos(3.141592653589793 * a) - r) / a"],
  zeta: [undefined, "-a * zeta(a + 1, b)"],
  isnan: ["0"],
  isinf: ["0"],
  isfinite: ["0"],
  signbit: ["0"],
};

/**
 * Rows of the table whose derived factors are poor at some places, such as both sides of a condition
 * that overflow: the factor for each operand, of `x`, `y`, `z`, the result `r` and the parameters.
 */
const ROWS: Readonly<Record<string, readonly string[]>> = {
  relu: ["r > 0 ? 1 : 0"],
  abs: ["sign(x)"],
  square: ["2 * x"],
  reciprocal: ["-(r * r)"],
  rsqrt: ["-0.5 * r * r * r"],
  div: ["1 / y", "-(r / y)"],
  logit: ["1 / (x * (1 - x))"],
  clip: ["x < y ? 0 : x > z ? 0 : 1", "y > z ? 0 : x < y ? 1 : 0", "y > z ? 1 : x > z ? 1 : 0"],
  logaddexp: ["exp(x - r)", "exp(y - r)"],
  fmax: [
    "x == y ? 0.5 : x > y ? 1 : y != y ? 1 : 0",
    "x == y ? 0.5 : x > y ? 0 : y != y ? 0 : 1",
  ],
  fmin: [
    "x == y ? 0.5 : x < y ? 1 : y != y ? 1 : 0",
    "x == y ? 0.5 : x < y ? 0 : y != y ? 0 : 1",
  ],
  xlogy: ["x == 0 && y <= 0 ? 0 : log(y)", "x / y"],
  xlog1py: ["x == 0 && y <= -1 ? 0 : log1p(y)", "x / (1 + y)"],
  entr: ["-log(x) - 1"],
  nn_hardTanh: ["x > min ? (x < max ? 1 : 0) : 0"],
  nn_relu6: ["x > 0 ? (x < 6 ? 1 : 0) : 0"],
  nn_hardSigmoid: ["x > -3 ? (x < 3 ? 0.16666666666666666 : 0) : 0"],
  nn_hardSwish: ["x <= -3 ? 0 : x >= 3 ? 1 : x / 3 + 0.5"],
  nn_softplus: ["beta * x > threshold ? 1 : sigmoid(beta * x)"],
  nn_logSigmoid: ["sigmoid(-x)"],
  nn_mish: [
    "tanh(logaddexp(x, 0)) + x * sigmoid(x) * " +
    "(1 - tanh(logaddexp(x, 0)) * tanh(logaddexp(x, 0)))",
  ],
  // Within PyTorch's limits.
  nn_binaryCrossEntropy: [
    "(x - y) / maximum((1 - x) * x, 1e-12)",
    "maximum(log1p(-x), -100) - maximum(log(x), -100)",
  ],
  nn_bceWithLogits: ["sigmoid(x) - y", "-x"],
  nn_klDiv: ["y > 0 ? -y : 0", "y > 0 ? log(y) - x + 1 : 0"],
};

/** `expr` with other expressions in the place of names. */
function substitute(expr: Expr, by: Readonly<Record<string, Expr>>): Expr {
  const within = (part: Expr): Expr => substitute(part, by);
  switch (expr.kind) {
    case "num":
      return expr;
    case "name":
      return by[expr.name] ?? expr;
    case "call":
      return { ...expr, args: expr.args.map(within) };
    case "unary":
      return expr.op === "-" ? negative(within(expr.arg)) : { ...expr, arg: within(expr.arg) };
    case "binary":
      return binary(expr.op, within(expr.left), within(expr.right));
    case "if":
      return {
        kind: "if",
        test: within(expr.test),
        then: within(expr.then),
        otherwise: within(expr.otherwise),
      };
  }
}

const ARITHMETIC = ["+", "-", "*", "/"];

/** The value of a number, with or without a sign; undefined for other expressions. */
export function valueOf(expr: Expr): number | undefined {
  if (expr.kind === "num") return Number(expr.text);
  if (expr.kind !== "unary" || expr.op !== "-") return undefined;
  const inner = valueOf(expr.arg);
  return inner === undefined ? undefined : -inner;
}

function computed(op: string, a: number, b: number): number | undefined {
  switch (op) {
    case "+":
      return a + b;
    case "-":
      return a - b;
    case "*":
      return a * b;
    case "/":
      return a / b;
    case "==":
      return Number(a === b);
    case "!=":
      return Number(a !== b);
    case "<":
      return Number(a < b);
    case "<=":
      return Number(a <= b);
    case ">":
      return Number(a > b);
    case ">=":
      return Number(a >= b);
    default:
      return undefined;
  }
}

/** `expr` with numbers in the place of some names, and with the operators on numbers computed. */
export function withNumbers(expr: Expr, numbers: Readonly<Record<string, number>>): Expr {
  const within = (part: Expr): Expr => withNumbers(part, numbers);
  switch (expr.kind) {
    case "num":
      return expr;
    case "name": {
      const value = numbers[expr.name];
      return value === undefined ? expr : number(value);
    }
    case "call":
      return { ...expr, args: expr.args.map(within) };
    case "unary": {
      const arg = within(expr.arg);
      return expr.op === "-" ? negative(arg) : { ...expr, arg };
    }
    case "binary": {
      const [left, right] = [within(expr.left), within(expr.right)];
      const [a, b] = [valueOf(left), valueOf(right)];
      const value = a === undefined || b === undefined ? undefined : computed(expr.op, a, b);
      return value === undefined || Number.isNaN(value)
        ? binary(expr.op, left, right)
        : number(value);
    }
    case "if": {
      const test = within(expr.test);
      const value = valueOf(test);
      if (value !== undefined) return within(value !== 0 ? expr.then : expr.otherwise);
      return { kind: "if", test, then: within(expr.then), otherwise: within(expr.otherwise) };
    }
  }
}

/** The derivative of `expr` by a name; undefined if none is known. */
export function differentiate(expr: Expr, name: string): Expr | undefined {
  switch (expr.kind) {
    case "num":
      return number(0);
    case "name":
      return number(expr.name === name ? 1 : 0);
    case "unary": {
      if (expr.op !== "-") return number(0);
      const inner = differentiate(expr.arg, name);
      return inner && negative(inner);
    }
    case "binary": {
      const { op, left, right } = expr;
      if (!ARITHMETIC.includes(op)) return number(0);
      const [dl, dr] = [differentiate(left, name), differentiate(right, name)];
      if (dl === undefined || dr === undefined) return undefined;
      if (op === "+" || op === "-") return binary(op, dl, dr);
      if (op === "*") return binary("+", binary("*", dl, right), binary("*", left, dr));
      const second = binary("/", binary("*", left, dr), binary("*", right, right));
      return binary("-", binary("/", dl, right), second);
    }
    case "if": {
      const [then, otherwise] = [expr.then, expr.otherwise].map((one) => differentiate(one, name));
      if (then === undefined || otherwise === undefined) return undefined;
      if (JSON.stringify(then) === JSON.stringify(otherwise)) return then;
      return { kind: "if", test: expr.test, then, otherwise };
    }
    case "call":
      return ofCall(expr, name);
  }
}

function ofCall(expr: Expr & { readonly kind: "call" }, name: string): Expr | undefined {
  const rules = PRIMITIVES[expr.name];
  const by = { a: expr.args[0]!, b: expr.args[1]!, r: expr };
  let sum = number(0);
  for (const [k, arg] of expr.args.entries()) {
    const inner = differentiate(arg, name);
    if (inner === undefined) return undefined;
    if (isNumber(inner, 0)) continue;
    const rule = rules?.[k];
    if (rule === undefined) return undefined;
    sum = binary("+", sum, binary("*", substitute(parseExpr(rule), by), inner));
  }
  return sum;
}

/** `expr` with the name `r` in the place of `whole`. */
function withResult(expr: Expr, whole: Expr): Expr {
  if (whole.kind === "name" || whole.kind === "num") return expr;
  const key = JSON.stringify(whole);
  const within = (part: Expr): Expr => {
    if (JSON.stringify(part) === key) return { kind: "name", name: "r" };
    switch (part.kind) {
      case "call":
        return { ...part, args: part.args.map(within) };
      case "unary":
        return { ...part, arg: within(part.arg) };
      case "binary":
        return { ...part, left: within(part.left), right: within(part.right) };
      case "if":
        return {
          kind: "if",
          test: within(part.test),
          then: within(part.then),
          otherwise: within(part.otherwise),
        };
      default:
        return part;
    }
  };
  return within(expr);
}

/** A factor of a row: null for 0 everywhere, undefined if none is known. */
export type Factor = Expr | null | undefined;

const OPERANDS = ["x", "y", "z"];
const known = new WeakMap<MapOp, readonly Factor[]>();

/** What the derivative of the result is multiplied by, for each operand. */
export function factorsOf(op: MapOp): readonly Factor[] {
  let made = known.get(op);
  if (made === undefined) known.set(op, made = makeFactors(op));
  return made;
}

function makeFactors(op: MapOp): readonly Factor[] {
  const own = ROWS[op.name];
  const expr = parseExpr(exprFor(op, "f"));
  return OPERANDS.slice(0, op.arity).map((name, k) => {
    if (op.condition && k === 0) return null;
    const factor = own === undefined ? differentiate(expr, name) : parseExpr(own[k] ?? "0");
    if (factor === undefined) return undefined;
    return isNumber(factor, 0) ? null : withResult(factor, expr);
  });
}

/** The names in an expression. */
export function namesIn(expr: Expr, into: Set<string> = new Set()): Set<string> {
  switch (expr.kind) {
    case "name":
      into.add(expr.name);
      break;
    case "call":
      for (const arg of expr.args) namesIn(arg, into);
      break;
    case "unary":
      namesIn(expr.arg, into);
      break;
    case "binary":
      namesIn(expr.left, into);
      namesIn(expr.right, into);
      break;
    case "if":
      namesIn(expr.test, into);
      namesIn(expr.then, into);
      namesIn(expr.otherwise, into);
  }
  return into;
}

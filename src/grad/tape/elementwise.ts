/**
 * The rule of elementwise ops: the derivative by an operand is that by the result times a factor, an
 * expression of the operands and the result.
 *
 * @module
 */
import { DTYPE, type DTypeInfo } from "../../base/dtype.ts";
import { DerivativeError } from "../../base/errors.ts";
import { apply } from "../../core/apply.ts";
import { frame } from "../../core/interpreter.ts";
import { isOperand, type Operand } from "../../memory/operand.ts";
import { Chain, MAX_OPERANDS, type Value } from "../../ops/chain/build.ts";
import { type Expr, parseExpr } from "../../table/expr.ts";
import type { Input, MapOp } from "../../table/op.ts";
import { exprFor, MAP, TABLE } from "../../table/table.ts";
import { conj, mul, neg, where } from "./arithmetic.ts";
import { type Factor, factorsOf, isNumber, namesIn, valueOf, withNumbers } from "./derive.ts";
import type { Gradient, Kept, Performed, Rule } from "./rule.ts";

/** The ops of the operators of expressions. */
const OPERATORS: Readonly<Record<string, MapOp>> = {
  "+": MAP.add,
  "-": MAP.sub,
  "*": MAP.mul,
  "/": MAP.div,
  "==": MAP.equal,
  "!=": MAP.notEqual,
  "<": MAP.less,
  "<=": MAP.lessEqual,
  ">": MAP.greater,
  ">=": MAP.greaterEqual,
  "&&": MAP.logicalAnd,
  "||": MAP.logicalOr,
};

/** The ops of the functions of expressions. */
const FUNCTIONS: ReadonlyMap<string, MapOp> = new Map(
  TABLE.flatMap((row) => {
    if (row.kind !== "map") return [];
    const expr = parseExpr(exprFor(row, "f"));
    const isPlain = expr.kind === "call" &&
      expr.args.every((arg, k) => arg.kind === "name" && arg.name === "xyz"[k]);
    return isPlain ? [[expr.name, row] as const] : [];
  }).reverse(),
);

type Values = Readonly<Record<string, Input>>;

/** The op of a function of expressions. */
function functionOf(name: string): MapOp {
  const op = FUNCTIONS.get(name);
  if (op === undefined) throw new DerivativeError(`Cannot differentiate: ${name} is no op`);
  return op;
}

/** The value of an expression, by one op for each part. */
function evaluate(expr: Expr, values: Values, known: Map<string, Input>): Input {
  const key = JSON.stringify(expr);
  let made = known.get(key);
  if (made === undefined) known.set(key, made = evaluateParts(expr, values, known));
  return made;
}

function evaluateParts(expr: Expr, values: Values, known: Map<string, Input>): Input {
  const of = (part: Expr): Input => evaluate(part, values, known);
  const number = valueOf(expr);
  if (number !== undefined) return number;
  switch (expr.kind) {
    case "num":
      return Number(expr.text);
    case "name":
      return values[expr.name];
    case "unary": {
      const x = of(expr.arg);
      return expr.op === "-" ? neg(x) : apply(MAP.logicalNot, x);
    }
    case "binary": {
      return apply(OPERATORS[expr.op]!, of(expr.left), of(expr.right));
    }
    case "call": {
      const [x, y, z] = expr.args.map(of);
      return apply(functionOf(expr.name), x, y, z);
    }
    case "if":
      return where(of(expr.test), of(expr.then), of(expr.otherwise));
  }
}

const G: Expr = { kind: "name", name: "g" };

/** `g` times a factor. A factor that is 0 or a number by a condition selects, as 0 · ∞ is no number. */
function product(factor: Expr): Expr {
  if (factor.kind === "num") return isNumber(factor, 1) ? G : times(factor);
  if (factor.kind === "unary" && factor.op === "-" && isNumber(factor.arg, 1)) {
    return { kind: "unary", op: "-", arg: G };
  }
  if (factor.kind === "if") {
    const isSimple = (part: Expr): boolean =>
      part.kind === "num" || part.kind === "if" || part.kind === "unary" && isSimple(part.arg);
    const within = (part: Expr): Expr => isNumber(part, 0) ? part : product(part);
    if (isSimple(factor.then) || isSimple(factor.otherwise)) {
      const { test, then, otherwise } = factor;
      return { kind: "if", test, then: within(then), otherwise: within(otherwise) };
    }
  }
  return times(factor);
}

const times = (factor: Expr): Expr => ({ kind: "binary", op: "*", left: G, right: factor });

/** The value of an expression in one pass; undefined if a chain cannot have it. */
function chained(expr: Expr, values: Values, g: Operand): Operand | undefined {
  const { info } = g.storage;
  const names = [...namesIn(expr)];
  const isPlain = info.kind === "f" && info.bytes >= 4 && names.every((name) => {
    const x = values[name];
    return typeof x === "number" || isOperand(x) && x.storage.info === info;
  });
  if (!isPlain || names.length > MAX_OPERANDS - 1 || hasTest(expr)) return undefined;
  const chain = new Chain(info);
  const inputs = new Map<string, Value>();
  const steps = new Map<string, Value>();
  const of = (part: Expr): Value => {
    const key = JSON.stringify(part);
    const known = steps.get(key);
    if (known !== undefined) return known;
    const made = step(part);
    steps.set(key, made);
    return made;
  };
  const step = (part: Expr): Value => {
    const value = valueOf(part);
    if (value !== undefined) return chain.input(value);
    switch (part.kind) {
      case "name": {
        const value = values[part.name];
        const made = inputs.get(part.name) ??
          chain.input(isOperand(value) ? value : Number(value));
        inputs.set(part.name, made);
        return made;
      }
      case "unary":
        return chain.step(MAP.neg, of(part.arg));
      case "binary":
        return chain.step(OPERATORS[part.op]!, of(part.left), of(part.right));
      case "call":
        return chain.step(functionOf(part.name), ...part.args.map(of));
      default:
        throw new DerivativeError("Cannot differentiate: a chain has no conditions");
    }
  };
  const output = of(expr);
  return output < 0 ? chain.run(output, g.layout.shape) : undefined;
}

/** Whether an expression has conditions or comparisons, which give bool. */
function hasTest(expr: Expr): boolean {
  switch (expr.kind) {
    case "if":
      return true;
    case "unary":
      return expr.op !== "-" || hasTest(expr.arg);
    case "binary":
      return !["+", "-", "*", "/"].includes(expr.op) || hasTest(expr.left) || hasTest(expr.right);
    case "call":
      return expr.args.some(hasTest);
    default:
      return false;
  }
}

/** A factor with the values that are numbers. */
function numbered(factor: Expr, values: Values): Expr {
  const numbers = Object.entries(values).filter(([, value]) => typeof value === "number");
  return withNumbers(factor, Object.fromEntries(numbers) as Record<string, number>);
}

/** `g` times a factor of named values. */
export function timesFactor(g: Operand, factor: Expr, values: Values): Operand {
  const expr = product(numbered(factor, values));
  if (expr === G) return g;
  const all = { ...values, g };
  // Traces fuse ops themselves, and tapes around this one know the ops.
  const fast = frame === null ? chained(expr, all, g) : undefined;
  if (fast !== undefined) return fast;
  const made = evaluate(expr, all, new Map());
  return isOperand(made) ? made : mul(g, made);
}

/** The factor of a power: its usual exponents need no logarithm, and 0 to the power of 0 has no slope. */
function powFactors(exponent: Input, isComplex: boolean): readonly Factor[] {
  if (exponent === 2) return [parseExpr("2 * x"), null];
  return [
    parseExpr("y * pow(x, y == 0 ? (x == 0 ? 0 : y - 1) : y - 1)"),
    // Complex exponents have no order.
    parseExpr(isComplex ? "x == 0 ? 0 : r * log(x)" : "x == 0 && y >= 0 ? 0 : r * log(x)"),
  ];
}

/** The rule of an elementwise op. */
export const elementwise: Rule = (performed) => {
  const { call, inputs, outputs } = performed;
  const op = call.op as MapOp;
  if (op === MAP.copy) return ([g]) => [g];
  const isComplex = outputs[0]!.storage.info.kind === "c";
  const factors = op === MAP.pow ? powFactors(inputs[1], isComplex) : factorsOf(op);
  const wanted = factors.map((factor, k) => performed.wants(k) ? factor : null);
  wanted.forEach((factor, k) => {
    if (factor !== undefined) return;
    throw new DerivativeError(
      `Cannot differentiate ${call.name} by operand ${k}: no derivative is known`,
    );
  });
  const values = keptValues(performed, wanted, outputs[0]!);
  return ([g]) => {
    const open = Object.fromEntries(Object.entries(values).map(([name, value]) => [name, value()]));
    return wanted.map((factor): Gradient => {
      if (!factor) return undefined;
      return isComplex ? conjugated(g!, factor, open) : timesFactor(g!, factor, open);
    });
  };
};

/** As PyTorch's: the derivative by a complex number is that of the conjugate of the factor. */
function conjugated(g: Operand, factor: Expr, values: Values): Operand {
  const made = evaluate(numbered(factor, values), values, new Map());
  return mul(g, isOperand(made) ? conj(made) : made);
}

/** What the factors need, kept. */
function keptValues(
  { call, inputs, keep }: Performed,
  factors: readonly Factor[],
  output: Operand,
): Record<string, Kept> {
  const names = new Set<string>();
  for (const factor of factors) if (factor) namesIn(factor, names);
  const values: Record<string, Kept> = {};
  for (const [k, name] of ["x", "y", "z"].entries()) {
    if (names.has(name)) values[name] = keep(computed(inputs[k], output.storage.info));
  }
  if (names.has("r")) values["r"] = keep(output);
  for (const parameter of (call.op as MapOp).parameters) {
    const value: unknown = call.attributes[parameter];
    if (names.has(parameter)) values[parameter] = () => value as Input;
  }
  return values;
}

/** An operand as the op computes with it: integers as floats. */
function computed(x: Input, info: DTypeInfo): Input {
  if (!isOperand(x) || x.storage.info.kind === "f" || x.storage.info.kind === "c") return x;
  const to = info.kind === "f" ? info : DTYPE.float32;
  return x.storage.info.kind === "b"
    ? x
    : apply(MAP.copy, x, undefined, undefined, undefined, "astype", { dtype: to.name });
}

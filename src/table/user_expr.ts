/**
 * Expressions that programs write: the grammar, the operands, declared parameters and a list of
 * functions, nothing else. Backends compile a text printed from the tree, never the program's text.
 *
 * @module
 */
import { lengthOf, listIn } from "../base/shape.ts";
import { type Expr, parseExpr, printExpr } from "./expr.ts";
import { inferMap } from "./infer.ts";
import { makeOp, type MapOp, type Op } from "./op.ts";

/** A function of expressions. */
interface ExprFunction {
  /** Its primitive in the backends. */
  readonly primitive: string;
  readonly arity: 1 | 2;
  readonly gives: "number" | "bool";
}

function functions(
  names: string,
  arity: 1 | 2,
  gives: "number" | "bool" = "number",
): [string, ExprFunction][] {
  return names.split(" ").map((name) => {
    const [own, primitive = name] = name.split("=") as [string, string?];
    return [own, { primitive, arity, gives }];
  });
}

/** The functions that expressions can call, by the names of the equivalent methods. */
const FUNCTIONS: ReadonlyMap<string, ExprFunction> = new Map([
  ...functions(
    "abs=fabs sign sqrt exp expm1 exp2 log log1p log2 log10 sin cos tan asin acos atan sinh cosh tanh " +
      "asinh acosh atanh erf sigmoid silu gelu floor ceil trunc round=rint",
    1,
  ),
  ...functions(
    "pow atan2 copysign hypot logaddexp floorDivide=ffloordiv remainder=fmod maximum minimum",
    2,
  ),
  ...functions("isnan isinf isfinite signbit", 1, "bool"),
]);

/** The names of the functions that expressions may call. */
export const EXPR_FUNCTIONS: readonly string[] = [...FUNCTIONS.keys()];

/**
 * A longer or deeper expression is most likely a mistake, and would overflow the parser's stack.
 */
const MAX_LENGTH = 1000;
const MAX_DEPTH = 32;
/** A plan has 8 slots for attributes, but CUDA kernels take only 4: hence the limit. */
const MAX_PARAMETERS = 4;
const OPERANDS = ["x", "y", "z"];
const ARITHMETIC = ["+", "-", "*", "/"];
const COMPARISONS = ["==", "!=", "<", "<=", ">", ">="];

/** A checked expression. */
export interface UserExpr {
  /** The same expression, printed in the primitives of backends. */
  readonly text: string;
  /** The number of operands: the first ones of x, y and z. */
  readonly arity: 1 | 2 | 3;
  /** The kind of the result. */
  readonly gives: "number" | "bool";
  /** The names of its parameters in {@link text}. */
  readonly parameters: readonly string[];
}

/** What an op of an expression has beside it. */
interface Named {
  readonly name: string;
  readonly backward?: Op["backward"];
}

/** The op of an expression in the primitives of backends; integers are computed in float32. */
export function expressionOp(
  { name, text, arity, gives, parameters, backward }: UserExpr & Named,
): MapOp {
  return makeOp({
    kind: "map",
    name,
    infer: inferMap,
    arity,
    dtypes: gives === "bool" ? "f" : "iuf",
    result: gives === "bool" ? "bool" : "float",
    expr: text,
    int: undefined,
    bool: undefined,
    numpy: "",
    // Only kernels in C use it, which have their own precision: the bound of most functions.
    ulp: 4,
    domain: [-8, 8],
    condition: false,
    compares: false,
    parameters,
    backward,
  });
}

/**
 * Checks an expression of x, y, z and `parameters` in the arithmetic of floats.
 *
 * Throws a SyntaxError with the reason if it is invalid.
 */
export function checkUserExpr(text: unknown, parameters: readonly string[]): UserExpr {
  if (typeof text !== "string") throw new SyntaxError("it is a text of x, y and z");
  if (text.length > MAX_LENGTH) {
    throw new SyntaxError(`it is longer than ${MAX_LENGTH} characters`);
  }
  let depth = 0;
  for (const character of text) {
    depth += character === "(" || character === "?" ? 1 : character === ")" ? -1 : 0;
    if (depth > MAX_DEPTH) throw new SyntaxError(`it is more than ${MAX_DEPTH} levels deep`);
  }
  const used = new Set<string>();
  const tree = parseExpr(text);
  const gives = typeOf(tree, parameters, used);
  const arity = Math.max(...OPERANDS.map((name, i) => used.has(name) ? i + 1 : 0));
  if (arity === 0) throw new SyntaxError("it uses none of x, y and z");
  OPERANDS.slice(0, arity).forEach((name) => {
    if (!used.has(name)) throw new SyntaxError(`it uses ${OPERANDS[arity - 1]} but not ${name}`);
  });
  return {
    text: printExpr(renamed(tree), {
      num: numberText,
      call: (name, args) => `${FUNCTIONS.get(name)!.primitive}(${args.join(", ")})`,
    }),
    arity: arity as 1 | 2 | 3,
    gives,
    parameters: parameters.map(parameterName),
  };
}

/** Distinct from every name in generated code. */
function parameterName(name: string): string {
  return `v_${name}`;
}

/** The names of parameters, checked. Throws a SyntaxError with the reason if one is invalid. */
export function ownParameters(given: unknown): string[] {
  const length = lengthOf(given);
  if (length === undefined || length > MAX_PARAMETERS) {
    throw new SyntaxError(`parameters are an array of at most ${MAX_PARAMETERS} names`);
  }
  const names = new Set<string>();
  return listIn(given, (name) => {
    if (typeof name !== "string" || !/^[A-Za-z][A-Za-z0-9]{0,31}$/.test(name)) {
      throw new SyntaxError(`a parameter is a name of letters and digits, not ${quoted(name)}`);
    }
    const taken = OPERANDS.includes(name) || FUNCTIONS.has(name) || name === "out" ||
      name === "broadcast" || names.has(name);
    if (taken) throw new SyntaxError(`the parameter ${quoted(name)} has a name that is taken`);
    names.add(name);
    return name;
  }, length)!;
}

/**
 * The kind of the result of `expr`. Throws for parts that do not fit together, and notes the names
 * in use.
 */
function typeOf(
  expr: Expr,
  parameters: readonly string[],
  used: Set<string>,
): "number" | "bool" {
  const expect = (part: Expr, wanted: "number" | "bool", by: string): void => {
    const found = typeOf(part, parameters, used);
    if (found !== wanted) throw new SyntaxError(`${by} takes a ${wanted}, not a ${found}`);
  };
  switch (expr.kind) {
    case "num":
      if (!Number.isFinite(Number(expr.text))) throw new SyntaxError(`${expr.text} is too large`);
      return "number";
    case "name":
      if (!OPERANDS.includes(expr.name) && !parameters.includes(expr.name)) {
        throw new SyntaxError(
          `there is no ${quoted(expr.name)}: it is neither an operand nor a parameter`,
        );
      }
      used.add(expr.name);
      return "number";
    case "call": {
      const known = FUNCTIONS.get(expr.name);
      if (known === undefined) throw new SyntaxError(`there is no function ${quoted(expr.name)}`);
      if (expr.args.length !== known.arity) {
        throw new SyntaxError(`${expr.name} takes ${known.arity} arguments`);
      }
      for (const arg of expr.args) expect(arg, "number", expr.name);
      return known.gives;
    }
    case "unary":
      if (expr.op === "~") throw new SyntaxError("~ is for integers, and these are floats");
      expect(expr.arg, expr.op === "!" ? "bool" : "number", expr.op);
      return expr.op === "!" ? "bool" : "number";
    case "binary": {
      const { op, left, right } = expr;
      const logical = op === "&&" || op === "||";
      if (!logical && !ARITHMETIC.includes(op) && !COMPARISONS.includes(op)) {
        throw new SyntaxError(`${op} is for integers, and these are floats`);
      }
      expect(left, logical ? "bool" : "number", op);
      expect(right, logical ? "bool" : "number", op);
      return ARITHMETIC.includes(op) ? "number" : "bool";
    }
    case "if": {
      expect(expr.test, "bool", "? :");
      const then = typeOf(expr.then, parameters, used);
      expect(expr.otherwise, then, "? :");
      return then;
    }
  }
}

/** `expr` with its parameters renamed by {@link parameterName}. */
function renamed(expr: Expr): Expr {
  switch (expr.kind) {
    case "num":
      return expr;
    case "name":
      return OPERANDS.includes(expr.name) ? expr : { ...expr, name: parameterName(expr.name) };
    case "call":
      return { ...expr, args: expr.args.map(renamed) };
    case "unary":
      return { ...expr, arg: renamed(expr.arg) };
    case "binary":
      return { ...expr, left: renamed(expr.left), right: renamed(expr.right) };
    case "if":
      return {
        ...expr,
        test: renamed(expr.test),
        then: renamed(expr.then),
        otherwise: renamed(expr.otherwise),
      };
  }
}

/** A number that C and JavaScript read alike: never an integer of C, or one with a leading 0. */
function numberText(text: string): string {
  const plain = String(Number(text));
  return /[.e]/.test(plain) ? plain : `${plain}.0`;
}

function quoted(value: unknown): string {
  return typeof value === "string" ? JSON.stringify(value.slice(0, 40)) : typeof value;
}

/**
 * Expressions of programs as chains of ops of the table, so that the shim runs them.
 *
 * @module
 */
import { DTYPE, type DTypeInfo } from "../../base/dtype.ts";
import { type ChainConstant, type ChainStep, MAX_CHAIN_STEPS } from "../../ops/chain/steps.ts";
import { type Expr, parseExpr } from "../../table/expr.ts";
import { resultOf } from "../../table/infer.ts";
import type { MapOp } from "../../table/op.ts";
import { MAP } from "../../table/table.ts";

/** The steps and constants of an expression; its operands are the first values. */
export interface ExprChain {
  readonly constants: readonly ChainConstant[];
  readonly steps: readonly ChainStep[];
}

let primitives: ReadonlyMap<string, MapOp> | undefined;

/** The op that is one primitive of its operands. */
function primitiveOp(name: string): MapOp | undefined {
  // Parses all expressions: at the first use, since an import has no time for that.
  primitives ??= new Map(
    Object.values(MAP as Readonly<Record<string, MapOp>>).flatMap((op): [string, MapOp][] => {
      const expr = parseExpr(op.expr);
      const plain = expr.kind === "call" && expr.args.length === op.arity &&
        expr.args.every((arg, k) => arg.kind === "name" && arg.name === "xyz"[k]);
      return plain ? [[expr.name, op]] : [];
    }),
  );
  return primitives.get(name);
}

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

const ARITHMETIC: Readonly<Record<string, (x: number, y: number) => number>> = {
  "+": (x, y) => x + y,
  "-": (x, y) => x - y,
  "*": (x, y) => x * y,
  "/": (x, y) => x / y,
};

/** An expression has no translation. */
class Untranslated extends Error {}

/** A known number, or the number of a value of the chain and its dtype. */
type Value =
  | { readonly known: number }
  | { readonly value: number; readonly dtype: DTypeInfo };

/** Translates one expression. */
class Translation {
  readonly constants: ChainConstant[] = [];
  readonly steps: ChainStep[] = [];
  /** The values of steps by their op and operands: the same step is made once. */
  readonly #made = new Map<string, Value>();

  constructor(
    /** The dtype of the arithmetic. */
    readonly work: DTypeInfo,
    readonly arity: number,
    readonly parameters: Readonly<Record<string, number>>,
  ) {}

  visit(expr: Expr): Value {
    switch (expr.kind) {
      case "num":
        return { known: Number(expr.text) };
      case "name": {
        const known = this.parameters[expr.name];
        return known === undefined
          ? { value: "xyz".indexOf(expr.name), dtype: this.work }
          : { known };
      }
      case "call": {
        const op = primitiveOp(expr.name);
        if (op === undefined) throw new Untranslated();
        return this.step(op, this.work, expr.args.map((arg) => this.visit(arg)));
      }
      case "unary": {
        const x = this.visit(expr.arg);
        if (expr.op === "!") return this.step(MAP.logicalNot, DTYPE.bool, [x]);
        return "known" in x ? { known: -x.known } : this.step(MAP.neg, this.work, [x]);
      }
      case "binary": {
        const [x, y] = [this.visit(expr.left), this.visit(expr.right)];
        const fold = ARITHMETIC[expr.op];
        if (fold !== undefined && "known" in x && "known" in y) {
          return { known: fold(x.known, y.known) };
        }
        const logical = expr.op === "&&" || expr.op === "||";
        return this.step(OPERATORS[expr.op]!, logical ? DTYPE.bool : this.work, [x, y]);
      }
      case "if": {
        const values = [expr.test, expr.then, expr.otherwise].map((part) => this.visit(part));
        const dtype = values.slice(1).some((value) => this.#dtypeOf(value) === DTYPE.bool)
          ? DTYPE.bool
          : this.work;
        return this.step(MAP.where, dtype, values);
      }
    }
  }

  #dtypeOf(value: Value): DTypeInfo {
    return "known" in value ? this.work : value.dtype;
  }

  /** A step, or the same one made before. */
  step(
    op: MapOp,
    compute: DTypeInfo,
    operands: readonly Value[],
    result: DTypeInfo = DTYPE[resultOf(op, compute.name)],
  ): Value {
    const key = [op.id, compute.id, result.id, ...operands.map((x) => JSON.stringify(x))].join();
    const found = this.#made.get(key);
    if (found !== undefined) return found;
    const inputs = operands.map((x) =>
      "known" in x ? -this.constants.push({ value: x.known, dtype: compute }) : x.value
    );
    const value = { value: this.arity + this.steps.length, dtype: result };
    this.steps.push({ op, compute, result, inputs, parameters: [] });
    this.#made.set(key, value);
    return value;
  }
}

/**
 * The chain of `op`, an expression of a program, in the arithmetic of `compute`, with its parameters;
 * its result has the dtype `out`. Steps compute 16-bit floats in float32. Null if an expression is
 * too long.
 */
export function exprChain(
  op: MapOp,
  compute: DTypeInfo,
  parameters: readonly number[],
  out: DTypeInfo,
): ExprChain | null {
  const work = compute.bytes === 2 ? DTYPE.float32 : compute;
  const known = Object.fromEntries(op.parameters.map((name, i) => [name, parameters[i]!]));
  const made = new Translation(work, op.arity, known);
  try {
    let value = made.visit(parseExpr(op.expr));
    // An operand, or a number of parameters only.
    if ("known" in value || value.value < op.arity) value = made.step(MAP.copy, work, [value]);
    for (const dtype of [DTYPE[resultOf(op, compute.name)], out]) {
      const from: DTypeInfo = (value as { dtype: DTypeInfo }).dtype;
      if (from !== dtype) value = made.step(MAP.copy, from, [value], dtype);
    }
  } catch (error) {
    if (error instanceof Untranslated) return null;
    throw error;
  }
  return made.steps.length > MAX_CHAIN_STEPS ? null : made;
}

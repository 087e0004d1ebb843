/**
 * Runs the ops of the table without generated code: slow, small, with the same results.
 *
 * Used if `new Function` is forbidden. Also provides the BigInt form of 64-bit ops, the fallback of
 * generated loops, and the reference that tests compare those loops with. Knows plans and ops.
 *
 * @module
 */
import { DTYPE, type DType, isInt } from "../../base/dtype.ts";
import { castScalar, readElement, writeElement } from "../../memory/element.ts";
import { type Expr, parseExpr } from "../../table/expr.ts";
import { resultOf } from "../../table/infer.ts";
import type { Operand } from "../../memory/operand.ts";
import type {
  ArgReduceOp,
  AxisOp,
  Call,
  ElementOp,
  MapOp,
  ReduceOp,
  ScanOp,
} from "../../table/op.ts";
import { exprFor } from "../../table/table.ts";
import { ATTRIBUTES, OFFSETS, type Plan } from "../../base/plan.ts";
import { roundBf16, roundHalf } from "../../base/half.ts";
import type { Storage } from "../../memory/storage.ts";
import { BIG, FLOAT, INT, type NumberPrimitive } from "./primitives.ts";

type Num = number | bigint;
type Env = Record<string, Num>;
type Closure = (env: Env) => Num;

const NEXT_AFTER: { readonly [D in DType]?: string } = {
  float16: "nextafter16",
  bfloat16: "nextafterb16",
  float32: "nextafter32",
  float64: "nextafter64",
};

/** The primitive `nextafter` of a float dtype: the only primitive that depends on the dtype. */
export function nextafterFor(dtype: DType): NumberPrimitive {
  return FLOAT[NEXT_AFTER[dtype]!]!;
}

const closures = new Map<string, Closure>();

/** Compiles `text` in the arithmetic of `dtype` to a function of named values. */
export function evaluator(text: string, dtype: DType): Closure {
  const key = `${dtype} ${text}`;
  let closure = closures.get(key);
  if (closure === undefined) closures.set(key, closure = build(parseExpr(text), dtype));
  return closure;
}

function build(expr: Expr, dtype: DType): Closure {
  const { wide, kind, bytes } = DTYPE[dtype];
  switch (expr.kind) {
    case "num": {
      const value = wide ? BigInt(expr.text) : Number(expr.text);
      return () => value;
    }
    case "name": {
      const { name } = expr;
      if (name === "bits") return () => wide ? 64n : bytes * 8;
      return (env) => env[name]!;
    }
    case "call": {
      const table = (wide ? BIG : kind === "f" ? FLOAT : INT) as Record<
        string,
        (...args: never[]) => Num
      >;
      const f = (expr.name === "nextafter" ? nextafterFor(dtype) : table[expr.name]) as (
        ...args: Num[]
      ) => Num;
      const args = expr.args.map((arg) => build(arg, dtype));
      return (env) => f(...args.map((arg) => arg(env)));
    }
    case "unary": {
      const arg = build(expr.arg, dtype);
      if (expr.op === "-") return (env) => -arg(env);
      if (expr.op === "~") return (env) => ~arg(env);
      return (env) => arg(env) ? 0 : 1;
    }
    case "if": {
      const [test, then, otherwise] = [expr.test, expr.then, expr.otherwise].map((e) =>
        build(e, dtype)
      );
      return (env) => test!(env) ? then!(env) : otherwise!(env);
    }
    case "binary":
      return binary(
        expr.op,
        build(expr.left, dtype),
        build(expr.right, dtype),
        kind !== "f" && !wide,
      );
  }
}

function binary(op: string, left: Closure, right: Closure, int: boolean): Closure {
  // The operands have one type; TypeScript cannot infer that.
  const l = left as (env: Env) => number;
  const r = right as (env: Env) => number;
  const bool = (f: (env: Env) => boolean): Closure => (env) => f(env) ? 1 : 0;
  switch (op) {
    case "+":
      return (env) => l(env) + r(env);
    case "-":
      return (env) => l(env) - r(env);
    case "*":
      return int ? (env) => Math.imul(l(env), r(env)) : (env) => l(env) * r(env);
    case "/":
      return (env) => l(env) / r(env);
    case "&":
      return (env) => l(env) & r(env);
    case "|":
      return (env) => l(env) | r(env);
    case "^":
      return (env) => l(env) ^ r(env);
    case "&&":
      return bool((env) => Boolean(l(env)) && Boolean(r(env)));
    case "||":
      return bool((env) => Boolean(l(env)) || Boolean(r(env)));
    // Numbers and bigints compare by value, which `==` does and `===` does not.
    case "==":
      return bool((env) => l(env) == r(env));
    case "!=":
      return bool((env) => l(env) != r(env));
    case "<":
      return bool((env) => l(env) < r(env));
    case "<=":
      return bool((env) => l(env) <= r(env));
    case ">":
      return bool((env) => l(env) > r(env));
    case ">=":
      return bool((env) => l(env) >= r(env));
    default:
      throw new SyntaxError(`Unknown operator ${op}`);
  }
}

/** Rounds a result to its dtype, as a store and a load would. */
function settle(value: Num, dtype: DType): Num {
  if (dtype === "float32") return Math.fround(value as number);
  if (dtype === "float16") return roundHalf(value as number);
  if (dtype === "bfloat16") return roundBf16(value as number);
  if (dtype === "float64" || dtype === "bool") return value;
  return castScalar(BigInt(value), dtype);
}

/**
 * Casts an element of `from`. A number may be an integer, which wraps, or a float, which saturates:
 * castScalar cannot distinguish them. Nor does it know the float dtype that a 64-bit integer rounds
 * to.
 */
function castFrom(value: Num, from: DType, to: DType): Num {
  if (from === to) return value;
  if (!isInt(from)) return castScalar(to === "uint64" && value < 0 ? 0 : value, to);
  let exact = BigInt(value);
  if (DTYPE[to].kind === "f" && to !== "float64" && !Number.isSafeInteger(Number(exact))) {
    // One sticky bit for the last twelve, so that rounding to float64 first changes nothing.
    const rest = exact & 4095n;
    exact += (rest === 0n ? 0n : 2048n) - rest;
  }
  return castScalar(exact, to);
}

function addParameters({ parameters }: ElementOp, plan: Plan, env: Env): void {
  parameters.forEach((name, i) => env[name] = plan.data[ATTRIBUTES + i]!);
}

/** Calls `visit` with the positions of all operands, for the axes [from, to) of the plan. */
function forEachElement(
  plan: Plan,
  from: number,
  to: number,
  start: readonly number[],
  visit: (at: readonly number[]) => void,
): void {
  if (from === to) return visit(start);
  const { data, rank, operands } = plan;
  const n = data[OFFSETS + operands + from]!;
  const at = start.slice();
  for (let i = 0; i < n; i++) {
    forEachElement(plan, from + 1, to, at, visit);
    for (let k = 0; k < operands; k++) at[k]! += data[OFFSETS + operands + rank * (k + 1) + from]!;
  }
}

function offsets(plan: Plan): number[] {
  return Array.from(plan.data.subarray(OFFSETS, OFFSETS + plan.operands));
}

/** Runs an elementwise call, one element at a time. */
export function interpretMap(call: Call): void {
  const row = call.op as MapOp;
  const plan = call.plan!;
  const { name: compute, wide } = call.compute;
  const inputs = call.inputs.map((input) => (input as Operand).storage);
  const out = call.outputs[0]!.storage;
  const f = evaluator(exprFor(row, DTYPE[compute].kind), compute);
  const result = resultOf(row, compute);
  const env: Env = {};
  addParameters(row, plan, env);
  forEachElement(plan, 0, plan.rank, offsets(plan), (at) => {
    for (let k = 0; k < inputs.length; k++) {
      let value: Num = readElement(inputs[k]!, at[k + 1]!);
      if (!(row.condition && k === 0)) {
        const from = inputs[k]!.info.name;
        if (from !== compute) value = settle(castFrom(value, from, compute), compute);
      } else if (wide) value = BigInt(value);
      env["xyz"[k]!] = value;
    }
    writeElement(out, at[0]!, castFrom(settle(f(env), result), result, out.info.name));
  });
}

/** The initial value of a fold of `row` that accumulates in `dtype`. */
export function startOf({ identity }: ReduceOp | ScanOp, dtype: DType): Num {
  const { kind, wide, min, max } = DTYPE[dtype];
  if (typeof identity === "number") return wide ? BigInt(identity) : identity;
  if (kind === "f") return identity === "lowest" ? -Infinity : Infinity;
  return identity === "lowest" ? min : max;
}

/** Runs a call along axes, one element at a time. */
export function interpretAxes(call: Call): void {
  const op = call.op as AxisOp;
  const plan = call.plan!;
  const out = call.outputs[0]!.storage;
  const inputs = call.inputs.slice(0, op.arity).map((input) => (input as Operand).storage);
  if (op.kind === "reduce") interpretReduce(op, plan, out, inputs);
  else if (op.kind === "scan") interpretScan(op, plan, out, inputs[0]!);
  else interpretArgReduce(op, plan, out, inputs[0]!);
}

function interpretReduce(
  row: ReduceOp,
  plan: Plan,
  out: Storage,
  inputs: readonly Storage[],
): void {
  const to = out.info.name;
  const floats = out.info.kind === "f";
  const compute = floats ? "float64" : inputs[0]!.info.name;
  const accumulate = floats ? "float64" : to;
  const map = row.map === undefined ? null : evaluator(row.map, compute);
  const fold = evaluator(exprFor(row, DTYPE[to].kind), accumulate);
  const finish = row.finish === undefined ? null : evaluator(row.finish, accumulate);
  const env: Env = {};
  addParameters(row, plan, env);
  const identity = startOf(row, accumulate);
  forEachElement(plan, 0, plan.kept, offsets(plan), (start) => {
    let acc: Num = identity;
    let error = 0;
    forEachElement(plan, plan.kept, plan.rank, start, (at) => {
      inputs.forEach((input, k) =>
        env["xy"[k]!] = castScalar(readElement(input, at[k + 1]!), compute)
      );
      let x = map === null ? env["x"]! : map(env);
      if (DTYPE[accumulate].wide) x = BigInt(x);
      else if (map !== null && typeof x === "bigint") x = Number(x);
      else if (to === "bool") x = x == 0 ? 0 : 1;
      if (floats && row.compensated) {
        const [a, t] = [acc as number, x as number];
        const sum = a + t;
        const w = sum - a;
        error += (a - (sum - w)) + (t - w);
        acc = sum;
      } else acc = settle(fold({ a: acc, x }), accumulate);
    });
    if (floats && row.compensated && Number.isFinite(error)) acc = (acc as number) + error;
    if (finish !== null) acc = finish({ ...env, a: acc });
    writeElement(out, start[0]!, acc);
  });
}

function interpretArgReduce(
  row: ArgReduceOp,
  plan: Plan,
  out: Storage,
  input: Storage,
): void {
  const better = evaluator(row.expr, input.info.name);
  forEachElement(plan, 0, plan.kept, offsets(plan), (start) => {
    let a: Num = readElement(input, start[1]!);
    let best = 0;
    let position = 0;
    forEachElement(plan, plan.kept, plan.rank, start, (at) => {
      const x = readElement(input, at[1]!);
      if (better({ a, x })) [a, best] = [x, position];
      position++;
    });
    writeElement(out, start[0]!, best);
  });
}

function interpretScan(row: ScanOp, plan: Plan, out: Storage, input: Storage): void {
  const accumulate = out.info.kind === "f" ? "float64" : out.info.name;
  const fold = evaluator(row.expr, accumulate);
  forEachElement(plan, 0, plan.kept, offsets(plan), (start) => {
    let a = startOf(row, accumulate);
    forEachElement(plan, plan.kept, plan.rank, start, (at) => {
      const x = castScalar(readElement(input, at[1]!), accumulate);
      a = settle(fold({ a, x }), accumulate);
      writeElement(out, at[0]!, a);
    });
  });
}

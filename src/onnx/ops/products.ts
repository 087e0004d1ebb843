/**
 * Products of matrices.
 *
 * @module
 */
import { einsum } from "../../api/sets/contractions.ts";
import * as linalg from "../../api/linalg.ts";
import { formatShape } from "../../base/shape.ts";
import type { Call, Implementation } from "../graph/call.ts";
import type { T, Value } from "../graph/values.ts";
import { activate, isFloat, isInteger } from "./elementwise.ts";

/** The product of stacks of matrices, as NumPy's matmul; integers wrap. */
export function product(x: T, y: T): T {
  return x.matmul(y);
}

function gemm(call: Call): readonly T[] {
  const { node } = call;
  const [a, b] = [call.tensor(0), call.tensor(1)];
  if (a.rank !== 2 || b.rank !== 2) {
    call.failShape(`inputs of shapes ${formatShape(a.shape)} and ${formatShape(b.shape)}`);
  }
  const x = node.flag("transA") ? a.T as T : a;
  const isTransposed = node.flag("transB");
  const alpha = node.float("alpha", 1), beta = node.float("beta", 1);
  const c = beta === 0 ? undefined : call.optional(2);
  const columns = isTransposed ? b.shape[0]! : b.shape[1]!;
  const isBias = c !== undefined && beta === 1 && c.rank === 1 && c.shape[0] === columns;
  if (isFloat(x.dtype) && alpha === 1) {
    const weight = isTransposed ? b : b.T as T;
    const made: T = isBias ? x.linear(weight, c) as T : x.linear(weight) as T;
    return [isBias || c === undefined ? made : made.add(scaled(c, beta))];
  }
  const sums = scaled(product(x, isTransposed ? b.T as T : b), alpha);
  return [c === undefined ? sums : sums.add(scaled(c, beta))];
}

/** A product through an activation. */
function fusedGemm(call: Call): readonly Value[] {
  const [made] = gemm(call);
  const names = ["activation_alpha", "activation_beta"];
  return [activate(call, made!, names.map((name) => call.node.float(name, 0)))];
}

function scaled(x: T, factor: number): T {
  if (factor === 1) return x;
  return isInteger(x.dtype) ? x.astype("float64").mul(factor).astype(x.dtype) as T : x.mul(factor);
}

/** A product whose operands may be turned first. */
function fusedMatMul(call: Call): readonly Value[] {
  const { node } = call;
  const turn = (x: T, name: string, batch: string): T => {
    let own = x;
    if (node.flag(batch)) own = own.moveAxis(0, -2);
    return node.flag(name) && own.rank > 1 ? own.swapAxes(-1, -2) : own;
  };
  const x = turn(call.tensor(0), "transA", "transBatchA");
  const y = turn(call.tensor(1), "transB", "transBatchB");
  return [scaled(product(x, y), node.float("alpha", 1))];
}

function contraction(call: Call): readonly Value[] {
  const equation = call.node.string("equation").replaceAll(" ", "");
  return [einsum(equation as string, ...call.tensors) as T];
}

/** The ops. */
export const PRODUCTS: Readonly<Record<string, Implementation>> = {
  MatMul: (call) => [product(call.tensor(0), call.ranked(1))],
  Gemm: gemm,
  Einsum: contraction,
  Det: (call) => [linalg.det(call.tensor(0)) as T],
  "com.microsoft.FusedGemm": fusedGemm,
  "com.microsoft.FusedMatMul": fusedMatMul,
  "com.microsoft.TransposeMatMul": fusedMatMul,
};

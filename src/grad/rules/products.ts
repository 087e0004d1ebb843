/**
 * Derivatives of products of matrices and of linear layers.
 *
 * @module
 */
import { DerivativeError } from "../../base/errors.ts";
import { apply } from "../../core/apply.ts";
import { cast } from "../../core/copy.ts";
import { dispatch } from "../../core/dispatch.ts";
import { isOperand, type Operand } from "../../memory/operand.ts";
import type { Activation, PackedAttributes, QuantizedAttributes } from "../../ops/linear/panels.ts";
import { dequantizeInt8 } from "../../ops/linear/int8.ts";
import { linearBack } from "../../ops/linear/op.ts";
import { type Expr, parseExpr } from "../../table/expr.ts";
import type { Call, Input } from "../../table/op.ts";
import { MAP } from "../../table/table.ts";
import { castTo, conj, matmul, mT, reshape, sum } from "../tape/arithmetic.ts";
import { timesFactor } from "../tape/elementwise.ts";
import { addRules, type Kept, type PartialRule, type Performed, type Rule } from "../tape/rule.ts";

/** A vector as a matrix of one row or one column. */
const asRows = (x: Operand): Operand => x.layout.rank === 1 ? reshape(x, [1, x.layout.size]) : x;
const asColumns = (x: Operand): Operand => x.layout.rank === 1 ? reshape(x, [x.layout.size, 1]) : x;

/** All rows of a batch of matrices as those of one. */
const flatRows = (x: Operand): Operand => reshape(x, [-1, x.layout.shape.at(-1)!]);

const product: Rule = ({ inputs, outputs, wants, keep }) => {
  const [a, b] = inputs as [Operand, Operand];
  const left = wants(1) ? keep(a) : undefined, right = wants(0) ? keep(b) : undefined;
  const { info } = outputs[0]!.storage;
  const [p, q] = [a.layout.shape, b.layout.shape];
  return ([given]) => {
    const isMatrix = [p, q].map(({ length }) => Number(length > 1));
    const { shape } = given!.layout;
    const batch = shape.slice(0, shape.length - isMatrix[0]! - isMatrix[1]!);
    const [rows, columns] = [isMatrix[0] ? p.at(-2)! : 1, isMatrix[1] ? q.at(-1)! : 1];
    const g = reshape(given!, [...batch, rows, columns]);
    return [
      right && reshapedLike(matmul(g, mT(conj(castTo(asColumns(right()), info)))), p, 0),
      left && weightGradient(conj(castTo(asRows(left()), info)), g, q),
    ];
  };
};

/** The derivative by a vector, which stood for a matrix, without the axis that it got. */
const reshapedLike = (x: Operand, shape: readonly number[], axis: 0 | 1): Operand =>
  shape.length > 1 ? x : reshape(x, x.layout.shape.toSpliced(axis === 0 ? -2 : -1, 1));

/** The derivative by the second matrix: one product of all rows if it has no batch. */
function weightGradient(a: Operand, g: Operand, shape: readonly number[]): Operand {
  if (shape.length === 2 && a.layout.rank > 2 && sameBatch(a, g)) {
    return matmul(mT(flatRows(a)), flatRows(g));
  }
  return reshapedLike(matmul(mT(a), g), shape, 1);
}

function sameBatch(a: Operand, b: Operand): boolean {
  const [p, q] = [a, b].map(({ layout }) => layout.shape.slice(0, -1));
  return p!.length === q!.length && p!.every((n, i) => n === q![i]);
}

// ---- linear layers -----------------------------------------------------------------------------

/** The factors of activations, of the result. Others need the value before: the layer decomposes. */
const OF_RESULT: Partial<Record<Activation, Expr>> = {
  relu: parseExpr("r > 0 ? 1 : 0"),
  tanh: parseExpr("1 - r * r"),
  sigmoid: parseExpr("r * (1 - r)"),
};

/** Whether a layer's derivative needs nothing but its inputs and its result. */
export function isDirect(call: Call): boolean {
  const { inputs, attributes } = call;
  const { activation } = (attributes ?? {}) as { activation?: Activation };
  if (activation === undefined) return true;
  return inputs[3] === undefined && OF_RESULT[activation] !== undefined;
}

/** The derivative by what an activation got. */
function beforeActivation({ call, outputs, keep }: Performed): (g: Operand) => Operand {
  const { activation } = (call.attributes ?? {}) as { activation?: Activation };
  const factor = activation && OF_RESULT[activation];
  if (factor === undefined) return (g) => g;
  const result = keep(outputs[0]!);
  return (g) => timesFactor(g, factor, { r: result() });
}

/** The derivatives by bias and residual. */
function byAddends({ inputs, wants }: Performed, g: Operand, before: Operand) {
  const bias = inputs[2] !== undefined && wants(2) ? sum(flatRows(before), [0]) : undefined;
  return [bias, inputs[3] !== undefined && wants(3) ? g : undefined];
}

/** x: [..., I], weight: [O, I], bias: [O], residual. */
const linear: Rule = (performed) => {
  const { inputs, outputs, wants, keep } = performed;
  const [x, weight] = inputs as [Operand, Operand];
  const { info } = outputs[0]!.storage;
  const rows = wants(1) ? keep(x) : undefined, columns = wants(0) ? keep(weight) : undefined;
  const through = beforeActivation(performed);
  return ([g]) => {
    const before = through(g!);
    return [
      columns && matmul(before, conj(castTo(columns(), info))),
      rows && matmul(mT(flatRows(before)), conj(flatRows(castTo(rows(), info)))),
      ...byAddends(performed, g!, before),
    ];
  };
};

/** The derivative by x, given that by the product with a packed or quantized weight. */
function byInput({ call, inputs: [x] }: Performed, weight: Operand, g: Operand): Operand {
  const columns = g.layout.shape.at(-1)!, depth = (x as Operand).layout.shape.at(-1)!;
  return call.op.name === "linearInt8"
    ? matmul(g, castTo(dequantizeInt8(weight, columns, depth), g.storage.info))
    : linearBack(g, weight, columns, depth);
}

/** A layer with a packed or quantized weight, which is a constant. */
const frozen: Rule = (performed) => {
  const { call, inputs, wants, keep } = performed;
  if (wants(1)) {
    throw new DerivativeError(
      `Cannot differentiate ${call.name} by a packed weight: pass the weight itself`,
    );
  }
  const weight: Kept<Operand> = keep(inputs[1] as Operand);
  const through = beforeActivation(performed);
  return ([g]) => {
    const before = through(g!);
    return [
      wants(0) ? byInput(performed, weight(), before) : undefined,
      undefined,
      ...byAddends(performed, g!, before),
    ];
  };
};

/**
 * A layer with a packed or quantized weight as its product with a bias, its activation and its residual:
 * the weight stays as it is.
 */
function inSteps(call: Call): Operand {
  const { op, name, inputs: [x, weight, bias, add], specs } = call;
  const { activation, ...own } = call.attributes as PackedAttributes | QuantizedAttributes;
  const { dtype } = specs[0]!;
  // Kernels for quantized weights round the result only.
  const isWide = op.name !== "linearPacked" && dtype.bytes === 2;
  const widened = (one: Input): Input => isWide && isOperand(one) ? cast(one, "float32") : one;
  const product = dispatch(op, [widened(x), weight, widened(bias)], own, undefined, name);
  const bent = activation === undefined ? product : apply(MAP[activation], product);
  return cast(add === undefined ? bent : apply(MAP.add, bent, widened(add)), dtype.name);
}

const frozenRule: PartialRule = { rule: frozen, applies: isDirect, compose: inSteps };

addRules({
  matmul: product,
  linear: { rule: linear, applies: isDirect },
  linearPacked: frozenRule,
  linearQuantized: frozenRule,
  // Rows are rounded on the way forward only.
  linearInt8: frozenRule,
});

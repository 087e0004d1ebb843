/**
 * Products of matrices and vectors.
 *
 * Infers dtypes and shapes; backends multiply. Knows nothing of the class Tensor.
 *
 * @module
 */
import {
  checkDType,
  DTYPE,
  type DType,
  type DTypeInfo,
  promoteTypes,
  realOf,
} from "../../base/dtype.ts";
import { ShapeError } from "../../base/errors.ts";
import type { Layout } from "../../base/layout.ts";
import { broadcastShapes, formatShape, sizeOf } from "../../base/shape.ts";
import { cast } from "../../core/copy.ts";
import { apply, applyView, type OpOptions } from "../../core/apply.ts";
import { dispatch } from "../../core/dispatch.ts";
import { adopt } from "../../core/foreign.ts";
import { inDType } from "../../core/prepare.ts";
import { gemmSizes } from "./problem.ts";
import { isOperand, type Operand } from "../../memory/operand.ts";
import { checkDevice, checkKind, checkOperand, checkOptions } from "../../table/infer.ts";
import { type Call, type Input, makeOp, type Op, type OutputSpec } from "../../table/op.ts";
import { MAP } from "../../table/table.ts";
import { VIEWS } from "../../table/views.ts";
import { fullOperand } from "../create/full.ts";
import { complexProduct } from "./complex.ts";

const PRODUCT_OPTIONS = ["out", "dtype"];

/** More matrices than this are an error, as the offsets of all are listed. */
export const MAX_BATCH = 2 ** 25;

/** Options of {@link matmul}. */
export interface ProductOptions extends OpOptions {
  /** The dtype that the operands are cast to first, and of the result. */
  readonly dtype?: DType;
}

/** The dtype of a product of two tensors, or `asked`. */
export function productDType(name: string, a: Input, b: Input, asked?: DType): DTypeInfo {
  checkOperand(a, name);
  checkOperand(b, name);
  checkDevice(a.storage, b.storage, name);
  if (asked !== undefined) checkDType(asked, name);
  const [x, y] = [a.storage.info, b.storage.info];
  const info = asked !== undefined
    ? DTYPE[asked]
    : x === y
    ? x
    : DTYPE[promoteTypes(x.name, y.name, name)];
  checkKind(info, "iufc", name);
  return info;
}

/** The error of shapes whose product does not exist. */
export function doNotFit(name: string, a: Layout, b: Layout, why: string): ShapeError {
  return new ShapeError(
    `Cannot ${name} shapes ${formatShape(a.shape)} and ${formatShape(b.shape)}: ${why}`,
  );
}

// ---- matmul ------------------------------------------------------------------------------------

/** The shape of a product; vectors count as [1, K] and [K, 1], and those axes are dropped. */
export function productShape(name: string, a: Layout, b: Layout): number[] {
  const [ra, rb] = [a.shape.length, b.shape.length];
  if (ra === 0 || rb === 0) {
    throw doNotFit(name, a, b, "a single element is not a matrix; use mul()");
  }
  const { m, n, k } = gemmSizes(a, b);
  const kb = b.shape[rb === 1 ? 0 : rb - 2]!;
  if (k !== kb) throw doNotFit(name, a, b, `inner sizes ${k} and ${kb} differ`);
  // Spreading an empty array takes a third of the time of a small product in Bun.
  if (ra === 2 && rb === 2) return [m, n];
  const left = ra === 1 ? [1, k] : a.shape;
  const right = rb === 1 ? [k, 1] : b.shape;
  for (let axis = 3; axis <= Math.min(left.length, right.length); axis++) {
    const [p, q] = [left.at(-axis)!, right.at(-axis)!];
    if (p !== q && p !== 1 && q !== 1) {
      throw doNotFit(name, a, b, `axis -${axis} has sizes ${p} and ${q}`);
    }
  }
  const batch = broadcastShapes(name, left.slice(0, -2), right.slice(0, -2));
  if (sizeOf(batch) > MAX_BATCH && sizeOf([...batch, m, n]) > 0 && k > 0) {
    throw doNotFit(name, a, b, `a batch has at most ${MAX_BATCH} matrices`);
  }
  return [...batch, ...ra === 1 ? [] : [m], ...rb === 1 ? [] : [n]];
}

/** The matrix product. */
export const MATMUL: Op = makeOp({
  kind: "kernel",
  name: "matmul",
  strided: true,
  infer(call: Call): readonly OutputSpec[] {
    const { inputs: [a, b], name, attributes } = call;
    const dtype = productDType(name, a, b, attributes?.dtype);
    const shape = productShape(name, (a as Operand).layout, (b as Operand).layout);
    return call.result(shape, dtype);
  },
  prepare(call: Call) {
    const { inputs: [a, b], specs } = call;
    const { dtype } = specs[0]!;
    const fits = (a as Operand).storage.info === dtype && (b as Operand).storage.info === dtype;
    return fits ? null : inDType(call, dtype);
  },
  complexParts: complexMatmul,
});

/** The product of tensors that promote to complex numbers. */
function complexMatmul(call: Call): Operand {
  const { name, specs } = call;
  const [a, b] = [call.operand(0), call.operand(1)];
  const { shape, dtype } = specs[0]!;
  if (a.layout.size === 0 || b.layout.size === 0) {
    return fullOperand("zeros", shape, 0, dtype.name, a.storage.device);
  }
  const left = a.storage.info.kind === "c" ? dtype : realOf(dtype);
  return complexProduct(MATMUL, cast(a, left.name), cast(b, dtype.name), specs[0]!, name);
}

/** Matrices of int8, whose products and sums are int32. */
const MATMUL_INT8: Op = makeOp({
  kind: "kernel",
  name: "matmulInt8",
  contiguous: [0, 1],
  infer(call: Call): readonly OutputSpec[] {
    const { inputs: [a, b], name } = call;
    const dtype = productDType(name, a, b, "int32");
    return call.result(productShape(name, (a as Operand).layout, (b as Operand).layout), dtype);
  },
  decompose(call: Call): Operand {
    const { name, inputs, outputs: [out] } = call;
    return dispatch(MATMUL, inputs, { dtype: "int32" }, out, name);
  },
});

/** Whether a product of `a` and `b` is one of int8 as int32. */
function isInt8Product(a: Operand, b: Operand, dtype: DType | undefined): boolean {
  return dtype === "int32" && isOperand(b) &&
    [a, b].every(({ storage }) => storage.info === DTYPE.int8);
}

/** [..., M, K] times [..., K, N]; vectors count as [1, K] and [K, 1], and those axes are dropped. */
export function matmul(
  a: Operand,
  b: Operand,
  options?: ProductOptions,
  name = "matmul",
): Operand {
  if (options === undefined) return dispatch(MATMUL, [a, b], undefined, undefined, name);
  checkOptions(name, options, PRODUCT_OPTIONS);
  const { dtype, out } = options;
  if (isInt8Product(a, b, dtype)) return dispatch(MATMUL_INT8, [a, b], undefined, out, name);
  return dispatch(MATMUL, [a, b], dtype === undefined ? undefined : { dtype }, out, name);
}

/** [K] times [K]: the sum of the products, of rank 0. */
export function dot(a: Operand, b: Operand, options: ProductOptions = {}): Operand {
  checkOptions("dot", options, PRODUCT_OPTIONS);
  const { dtype, out } = options;
  const other = adopt(b, "dot");
  productDType("dot", a, other, dtype);
  if (a.layout.shape.length !== 1 || other.layout.shape.length !== 1) {
    throw doNotFit("dot", a.layout, other.layout, "it takes two vectors; use matmul()");
  }
  return dispatch(MATMUL, [a, other], dtype === undefined ? undefined : { dtype }, out, "dot");
}

// ---- outer -------------------------------------------------------------------------------------

const OUTER: Op = makeOp({
  kind: "kernel",
  name: "outer",
  infer(call: Call): readonly OutputSpec[] {
    const { inputs: [a, b], name } = call;
    const dtype = productDType(name, a, b);
    const [p, q] = [(a as Operand).layout, (b as Operand).layout];
    if (p.shape.length !== 1 || q.shape.length !== 1) {
      throw doNotFit(name, p, q, "it takes two vectors");
    }
    return [{ shape: [p.shape[0]!, q.shape[0]!], dtype }];
  },
  decompose(call: Call): Operand {
    const column = applyView(VIEWS.expandDims, call.operand(0), "expandDims", 1);
    const row = applyView(VIEWS.expandDims, call.operand(1), "expandDims", 0);
    return apply(MAP.mul, column, row, undefined, { out: call.outputs[0] }, call.name);
  },
});

/** [M] and [N] give [M, N]: every product of two elements. */
export function outer(a: Operand, b: Operand, options: OpOptions = {}): Operand {
  checkOptions("outer", options, ["out", "broadcast"]);
  return dispatch(OUTER, [a, b], undefined, options.out);
}

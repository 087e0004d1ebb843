/**
 * Products of matrices and vectors, on operands.
 *
 * Works out batches, strides and shapes, and leaves the multiplying to the backend. Knows nothing
 * of the class Tensor.
 *
 * @module
 */
import { backendFor, matrixRef, type Product } from "../core/backend.ts";
import { checkDType, DTYPE, type DType, promoteTypes } from "../base/dtype.ts";
import {
  apply,
  cast,
  checkDevice,
  checkOperand,
  checkOptions,
  contiguousCopy,
  delivered,
  fillScalar,
  lens,
  type Operand,
  type OpOptions,
  overlaps,
  prepareOut,
  result,
  tidily,
} from "../core/dispatch.ts";
import { DTypeError, ShapeError } from "../base/errors.ts";
import { Layout } from "../base/layout.ts";
import { called, MAP } from "../ops/table.ts";
import { broadcastShapes, formatShape, sizeOf } from "../base/shape.ts";
import { allocateIn } from "../memory/storage.ts";

const PRODUCT_OPTIONS = ["out", "dtype"];

/** More matrices than this are refused, as the starts of all are listed. */
const MAX_BATCH = 2 ** 25;

/** What {@link matmul} takes besides its operands. */
export interface ProductOptions extends OpOptions {
  /** What the operands are cast to first: the dtype of the result. */
  readonly dtype?: DType;
}

function productDType(op: string, a: Operand, b: Operand, asked?: DType): DType {
  checkOperand(a, op);
  checkOperand(b, op);
  checkDevice(a.storage, b.storage, op);
  if (asked !== undefined) checkDType(asked, op);
  const dtype = asked ?? promoteTypes(a.storage.info.name, b.storage.info.name, op);
  if (DTYPE[dtype].kind === "b") {
    throw new DTypeError(`Cannot ${op} bool: it takes number dtypes; cast with astype()`);
  }
  return dtype;
}

function doNotFit(op: string, a: Layout, b: Layout, why: string): ShapeError {
  return new ShapeError(
    `Cannot ${op} shapes ${formatShape(a.shape)} and ${formatShape(b.shape)}: ${why}`,
  );
}

/** True when products of bytes are to be 32-bit integers, which some backends make of the bytes. */
function areBytes(a: Operand, b: Operand, dtype: DType): boolean {
  return dtype === "int32" && a.storage.info.name === "int8" && b.storage.info.name === "int8";
}

/**
 * [..., M, K] times [..., K, N]; vectors count as [1, K] and [K, 1], and those axes are dropped. A
 * `bias` of shape [N] is added.
 */
export function matmul(
  a: Operand,
  b: Operand,
  options: ProductOptions = {},
  op = "matmul",
  bias?: Operand,
): Operand {
  checkOptions(op, options, PRODUCT_OPTIONS);
  const dtype = productDType(op, a, b, options.dtype);
  const [ra, rb] = [a.layout.shape.length, b.layout.shape.length];
  if (ra === 0 || rb === 0) {
    throw doNotFit(op, a.layout, b.layout, "a single element is no matrix; use mul()");
  }
  const k = a.layout.shape[ra - 1]!;
  const kb = b.layout.shape[rb === 1 ? 0 : rb - 2]!;
  if (k !== kb) throw doNotFit(op, a.layout, b.layout, `inner sizes ${k} and ${kb} differ`);
  const left = ra === 1 ? a.layout.expandDims(0) : a.layout;
  const right = rb === 1 ? b.layout.expandDims(1) : b.layout;
  const m = left.shape[left.shape.length - 2]!;
  const n = right.shape[right.shape.length - 1]!;
  for (let axis = 3; axis <= Math.min(left.shape.length, right.shape.length); axis++) {
    const [p, q] = [left.shape.at(-axis)!, right.shape.at(-axis)!];
    if (p !== q && p !== 1 && q !== 1) {
      throw doNotFit(op, a.layout, b.layout, `axis -${axis} has sizes ${p} and ${q}`);
    }
  }
  const plain = left.shape.length === 2 && right.shape.length === 2;
  const batch = plain ? [] : broadcastShapes(op, left.shape.slice(0, -2), right.shape.slice(0, -2));
  // Spreading what is empty takes a third of the time of a small product in Bun.
  const full = Layout.contiguous(plain ? [m, n] : [...batch, m, n]);
  let { shape } = full;
  if (ra === 1) shape = shape.toSpliced(-2, 1);
  if (rb === 1) shape = shape.slice(0, -1);
  if (sizeOf(batch) > MAX_BATCH && full.size > 0 && k > 0) {
    throw doNotFit(op, a.layout, b.layout, `a batch has at most ${MAX_BATCH} matrices`);
  }
  const { out } = options;
  if (out !== undefined) prepareOut(out, shape, dtype, a.storage, op);

  // The result is written where it belongs unless that would disturb what is still being read.
  const direct = out !== undefined && out.storage.info.name === dtype &&
    !overlaps(out, a) && !overlaps(out, b) && (bias === undefined || !overlaps(out, bias));
  const storage = direct
    ? out.storage
    : allocateIn(a.storage.memory, DTYPE[dtype], full.size, false);
  let target = direct ? out.layout : full;
  if (direct) {
    if (rb === 1) target = target.expandDims(target.shape.length);
    if (ra === 1) target = target.expandDims(target.shape.length - 1);
  }
  let plus = bias;
  if (k === 0) fillScalar(storage, target, 0);
  else if (full.size > 0) {
    const backend = backendFor(storage);
    const c = matrixRef(storage, target);
    /** The product of the operands, cast or not. */
    const productOf = (x: Operand, y: Operand): Product => {
      const rows = ra === 1 ? x.layout.expandDims(0) : x.layout;
      const columns = rb === 1 ? y.layout.expandDims(1) : y.layout;
      return {
        m,
        n,
        k,
        c,
        a: matrixRef(x.storage, plain ? rows : rows.broadcastTo([...batch, m, k])),
        b: matrixRef(y.storage, plain ? columns : columns.broadcastTo([...batch, k, n])),
      };
    };
    /** Multiplies them; true when it has added the bias too. */
    const multiply = (): boolean => {
      const product = productOf(cast(a, dtype), cast(b, dtype));
      if (bias !== undefined && backend.linear !== undefined) {
        const added = cast(bias, dtype);
        const row = added.layout.contiguous ? added : contiguousCopy(added);
        if (backend.linear(product, row.storage, row.layout.offset)) return true;
      }
      backend.matmul(product);
      return false;
    };
    const done = areBytes(a, b, dtype) && backend.matmulBytes?.(productOf(a, b));
    if (!done) {
      const { info } = storage;
      const usable = bias === undefined || (bias.storage.info === info && bias.layout.contiguous);
      const ready = usable && a.storage.info === info && b.storage.info === info;
      if (ready ? multiply() : tidily(multiply)) plus = undefined;
    }
  }
  const layout = shape === full.shape ? full : Layout.contiguous(shape);
  const made = direct
    ? out
    : out === undefined
    ? result(storage, layout)
    : { storage, layout, flags: 0 };
  if (plus !== undefined) apply(MAP.add, made, plus, undefined, { out: made });
  if (out === undefined) return made;
  if (!direct) return delivered(storage, shape, out);
  out.storage.version++;
  return out;
}

/** [K] times [K]: the sum of the products, of rank 0. */
export function dot(a: Operand, b: Operand, options: ProductOptions = {}): Operand {
  checkOptions("dot", options, PRODUCT_OPTIONS);
  productDType("dot", a, b, options.dtype);
  if (a.layout.shape.length !== 1 || b.layout.shape.length !== 1) {
    throw doNotFit("dot", a.layout, b.layout, "it takes two vectors; use matmul()");
  }
  return matmul(a, b, options, "dot");
}

const OUTER = called(MAP.mul, "outer");

/** [M] and [N] give [M, N]: every product of two elements. */
export function outer(a: Operand, b: Operand, options: OpOptions = {}): Operand {
  productDType("outer", a, b);
  if (a.layout.shape.length !== 1 || b.layout.shape.length !== 1) {
    throw doNotFit("outer", a.layout, b.layout, "it takes two vectors");
  }
  return apply(
    OUTER,
    lens(a, a.layout.expandDims(1)),
    lens(b, b.layout.expandDims(0)),
    undefined,
    options,
  );
}

/** x: [..., I] by weight: [O, I], plus bias: [O], gives [..., O]; all dtypes promote. */
export function linear(
  x: Operand,
  weight: Operand,
  bias: Operand | undefined,
  options: OpOptions = {},
): Operand {
  checkOptions("linear", options, ["out"]);
  let dtype = productDType("linear", x, weight);
  if (weight.layout.shape.length !== 2 || x.layout.shape.length === 0) {
    throw doNotFit("linear", x.layout, weight.layout, "it takes x: [..., I] and weight: [O, I]");
  }
  const [k, kw] = [x.layout.shape.at(-1)!, weight.layout.shape[1]!];
  if (k !== kw) {
    throw doNotFit("linear", x.layout, weight.layout, `inner sizes ${k} and ${kw} differ`);
  }
  if (bias !== undefined) {
    checkOperand(bias, "linear");
    checkDevice(x.storage, bias.storage, "linear");
    dtype = promoteTypes(dtype, bias.storage.info.name, "linear");
    const [n] = weight.layout.shape;
    if (bias.layout.shape.length !== 1 || bias.layout.shape[0] !== n) {
      throw doNotFit("linear", bias.layout, weight.layout, `the bias must have shape [${n}]`);
    }
  }
  const columns = lens(weight, weight.layout.transpose());
  const product = (): Operand =>
    matmul(bias === undefined ? x : cast(x, dtype), columns, options, "linear", bias);
  return bias === undefined || x.storage.info.name === dtype ? product() : tidily(product);
}

/**
 * Sets of the elements of tensors, and where values belong among sorted ones.
 *
 * @module
 */
import { DTYPE, type DType, promoteTypes } from "../../base/dtype.ts";
import { ArgumentError, DTypeError, ShapeError } from "../../base/errors.ts";
import { formatShape, listIn } from "../../base/shape.ts";
import { describe } from "../../base/text.ts";
import { apply, applyView } from "../../core/apply.ts";
import { cast, contiguousCopy } from "../../core/copy.ts";
import { dispatch } from "../../core/dispatch.ts";
import { ownOperand } from "../../core/foreign.ts";
import { tidy } from "../../core/handles.ts";
import type { Operand } from "../../memory/operand.ts";
import {
  checkCount,
  checkDevice,
  checkKind,
  checkOperand,
  checkOptions,
  isScalar,
} from "../../table/infer.ts";
import { type Call, makeOp, type Op, type OutputSpec } from "../../table/op.ts";
import { MAP, REDUCE } from "../../table/table.ts";
import { VIEWS } from "../../table/views.ts";
import { empty } from "../../core/composite.ts";
import { fromData } from "../../ops/create/from_data.ts";
import { index, take } from "../../ops/index/op.ts";
import { concat } from "../../ops/join/op.ts";
import { sort } from "../../ops/sort/op.ts";
import type { AnyTensor, Tensor, TensorOrScalar, UnaryOptions } from "../../tensor/tensor.ts";
import type * as t from "../../types/mod.ts";
import { flat, onHost, readOnly, runKernel } from "../../ops/sets/op.ts";
import { valuesOf } from "./unique.ts";

// ---- operands ----------------------------------------------------------------------------------

/** A number, or numbers, beside a tensor: in its dtype where that represents them all. */
function besides(name: string, x: Operand, given: unknown): Operand {
  const checked = (one: unknown): unknown => {
    if (isScalar(one) && typeof one !== "object") return one;
    throw new DTypeError(`Cannot ${name} by ${describe(one)}: expected a number`);
  };
  const several = listIn(given, checked);
  if (several === undefined && !isScalar(given)) return ownOperand(given, name);
  const list = several ?? [checked(given)];
  const { info, device } = x.storage;
  const fits = list.every((one) =>
    info.kind === "f" || typeof one === "boolean" ||
    (typeof one === "bigint" || Number.isInteger(one)) && info.kind !== "b" &&
      one as number >= info.min && one as number <= info.max
  );
  const dtype: DType = fits
    ? info.name
    : list.some((one) => typeof one === "bigint")
    ? "int64"
    : "float64";
  return fromData(several ?? list[0], { dtype, device: device as t.Device });
}

/** The dtype that two inputs promote to. */
function commonDType(name: string, a: Operand, b: Operand, kinds = "biuf"): DType {
  checkDevice(a.storage, b.storage, name);
  const [p, q] = [a.storage.info, b.storage.info];
  checkKind(p, kinds, name);
  checkKind(q, kinds, name);
  return promoteTypes(p.name, q.name, name);
}

/** Both inputs contiguous, of a dtype that kernels take. */
function prepared(name: string, a: Operand, b: Operand, toDType: (dtype: DType) => DType) {
  const dtype = toDType(commonDType(name, a, b));
  return [a, b].map((x) => {
    const own = cast(x, dtype);
    return own.layout.contiguous ? own : contiguousCopy(own);
  }) as [Operand, Operand];
}

const keyDType = (dtype: DType): DType =>
  dtype === "float16" || dtype === "bfloat16" ? "float32" : dtype;

/** The dtype in which values of `dtype` are searched. */
function searchDType(dtype: DType): DType {
  const { kind, bytes } = DTYPE[dtype];
  if (kind === "f") return keyDType(dtype);
  if (bytes === 8) return dtype;
  return dtype === "uint32" ? "int64" : "int32";
}

// ---- isin --------------------------------------------------------------------------------------

/** Options of {@link isin}. */
export interface IsinOptions extends UnaryOptions {
  /** Whether to find the elements that are not among the others. */
  readonly invert?: boolean;
}

/** Which elements of `x` are among `tests`; both are on the CPU. */
function among(name: string, x: Operand, tests: Operand, invert: boolean): Operand {
  const [a, b] = prepared(name, x, tests, keyDType);
  return runKernel("isAmong", [a, flat(b)], { invert });
}

const ISIN: Op = makeOp({
  kind: "kernel",
  name: "isin",
  infer(call: Call): readonly OutputSpec[] {
    const { inputs: [x, tests], name } = call;
    checkOperand(x, name);
    checkOperand(tests, name);
    commonDType(name, x, tests);
    return call.result(x.layout.shape, DTYPE.bool);
  },
  decompose(call: Call) {
    const { invert } = call.attributes as { readonly invert: boolean };
    return onHost(call, ([x, tests]) => [among(call.name, x!, tests!, invert)]);
  },
});

/**
 * Whether each element of `x` is equal to one of `tests`: a bool tensor of the shape of `x`. NaN is
 * equal to nothing.
 *
 * @example
 * ```ts
 * isin(tensor([1, 2, 3, 4]), [2, 4]).toArray(); // => [false, true, false, true]
 * ```
 */
export function isin<X extends AnyTensor>(
  x: X,
  tests: TensorOrScalar | readonly (number | bigint)[],
  options?: IsinOptions,
): Tensor<"bool", t.ShapeOf<X>, X["device"]>;
export function isin(
  x: AnyTensor,
  tests: TensorOrScalar | readonly (number | bigint)[],
  options: IsinOptions = {},
): Operand {
  checkOptions("isin", options, ["invert", "out"]);
  const own = ownOperand(x, "isin");
  const { invert = false, out } = options;
  return tidy(() =>
    dispatch(ISIN, [own, besides("isin", own, tests)], { invert: Boolean(invert) }, out)
  );
}

// ---- sets --------------------------------------------------------------------------------------

/** An op of two sets, whose values are `body` of both in a common dtype, on the CPU. */
function setOp(name: string, body: (a: Operand, b: Operand, name: string) => Operand): Op {
  return makeOp({
    kind: "kernel",
    name,
    infer(call: Call) {
      const { inputs: [a, b] } = call;
      checkOperand(a, call.name);
      checkOperand(b, call.name);
      commonDType(call.name, a, b);
      return "data-dependent";
    },
    decompose: (call: Call) =>
      onHost(call, ([a, b]) => {
        const dtype = commonDType(call.name, a!, b!);
        return [body(flat(cast(a!, dtype)), flat(cast(b!, dtype)), call.name)];
      }),
  });
}

/** The elements of `values` that are among those of `tests`, or with `invert` the others. */
function selected(values: Operand, tests: Operand, invert: boolean, name: string): Operand {
  if (values.layout.size === 0) return values;
  if (tests.layout.size === 0) return invert ? values : empty([0], values);
  return index(values, [among(name, values, tests, invert)], name);
}

const UNION = setOp("union", (a, b) => valuesOf(concat([a, b])));
const INTERSECT = setOp("intersect", (a, b, name) => selected(valuesOf(a), b, false, name));
const SETDIFF = setOp("setdiff", (a, b, name) => selected(valuesOf(a), b, true, name));
const SETXOR = setOp("setxor", (a, b, name) => {
  const [p, q] = [valuesOf(a), valuesOf(b)];
  return sort("sort", concat([selected(p, b, true, name), selected(q, a, true, name)]));
});

function setOf(op: Op, a: unknown, b: unknown): Operand {
  return dispatch(op, [ownOperand(a, op.name), ownOperand(b, op.name)]);
}

/**
 * The different elements of both tensors, in order. As all functions of sets, it throws a TraceError in
 * compiled functions.
 *
 * @example
 * ```ts
 * union(tensor([3, 1]), tensor([2, 3])).toArray(); // => [1, 2, 3]
 * ```
 */
export function union<X extends AnyTensor, U extends AnyTensor>(
  a: X,
  b: t.Guard<t.ProductOf<"union", X, U, 0>, U>,
): Tensor<t.OperandDType<"union", X, U>, [number], X["device"]>;
export function union(a: AnyTensor, b: AnyTensor): Operand {
  return setOf(UNION, a, b);
}

/**
 * The different elements that are in both tensors, in order.
 *
 * @example
 * ```ts
 * intersect(tensor([3, 1, 3]), tensor([2, 3])).toArray(); // => [3]
 * ```
 */
export function intersect<X extends AnyTensor, U extends AnyTensor>(
  a: X,
  b: t.Guard<t.ProductOf<"intersect", X, U, 0>, U>,
): Tensor<t.OperandDType<"intersect", X, U>, [number], X["device"]>;
export function intersect(a: AnyTensor, b: AnyTensor): Operand {
  return setOf(INTERSECT, a, b);
}

/**
 * The different elements of `a` that are not in `b`, in order.
 *
 * @example
 * ```ts
 * setdiff(tensor([3, 1, 4]), tensor([2, 3])).toArray(); // => [1, 4]
 * ```
 */
export function setdiff<X extends AnyTensor, U extends AnyTensor>(
  a: X,
  b: t.Guard<t.ProductOf<"setdiff", X, U, 0>, U>,
): Tensor<t.OperandDType<"setdiff", X, U>, [number], X["device"]>;
export function setdiff(a: AnyTensor, b: AnyTensor): Operand {
  return setOf(SETDIFF, a, b);
}

/**
 * The different elements that are in one of the tensors only, in order.
 *
 * @example
 * ```ts
 * setxor(tensor([3, 1]), tensor([2, 3])).toArray(); // => [1, 2]
 * ```
 */
export function setxor<X extends AnyTensor, U extends AnyTensor>(
  a: X,
  b: t.Guard<t.ProductOf<"setxor", X, U, 0>, U>,
): Tensor<t.OperandDType<"setxor", X, U>, [number], X["device"]>;
export function setxor(a: AnyTensor, b: AnyTensor): Operand {
  return setOf(SETXOR, a, b);
}

// ---- searching ---------------------------------------------------------------------------------

/** Options of {@link searchsorted}. */
export interface SearchOptions extends UnaryOptions {
  /** Whether values come before (`"left"`, the default) or after elements that are equal to them. */
  readonly side?: "left" | "right";
  /** The indices that sort the first tensor, if it is not sorted: those of `argsort`. */
  readonly sorter?: AnyTensor;
}

function checkVector(name: string, x: Operand, what: string): void {
  const { shape } = x.layout;
  if (shape.length === 1) return checkCount(name, x.layout, shape[0]!);
  throw new ShapeError(`Cannot ${name} shape ${formatShape(shape)}: ${what} must have 1 axis`);
}

const SEARCHSORTED: Op = makeOp({
  kind: "kernel",
  name: "searchsorted",
  infer(call: Call): readonly OutputSpec[] {
    const { inputs: [sorted, values, sorter], name } = call;
    checkOperand(sorted, name);
    checkOperand(values, name);
    commonDType(name, sorted, values);
    checkVector(name, sorted, "the sorted elements");
    if (sorter !== undefined) {
      checkOperand(sorter, name);
      checkDevice(sorted.storage, sorter.storage, name);
      const { kind, name: dtype } = sorter.storage.info;
      if (kind !== "i" && kind !== "u") {
        throw new DTypeError(`Cannot ${name} by a sorter of ${dtype}: indexes are integers`);
      }
      if (sorter.layout.shape.length !== 1 || sorter.layout.size !== sorted.layout.size) {
        throw new ShapeError(
          `Cannot ${name} shape ${formatShape(sorted.layout.shape)} by a sorter of shape ${
            formatShape(sorter.layout.shape)
          }: both must have 1 axis of one size`,
        );
      }
    }
    return call.result(values.layout.shape, DTYPE.int32);
  },
  decompose(call: Call) {
    const { right } = call.attributes as { readonly right: boolean };
    return onHost(call, ([x, values, sorter]) => {
      const sorted = sorter === undefined ? x! : take(x!, sorter);
      return [
        runKernel("searchIndices", prepared(call.name, sorted, values!, searchDType), { right }),
      ];
    });
  },
});

/** Whether `side` is the right one. */
function isRight(name: string, side: unknown): boolean {
  if (side !== "left" && side !== "right") {
    throw new ArgumentError(`${name}() needs "left" or "right" as side, got ${describe(side)}`);
  }
  return side === "right";
}

/**
 * The indices (int32) before which `values` would have to be inserted to keep a sorted vector in order.
 * NaN is larger than all numbers. The result has the shape of `values`.
 *
 * @throws {ShapeError} If `sorted` is no vector.
 *
 * @example
 * ```ts
 * const sorted = tensor([1, 3, 3, 5]);
 * searchsorted(sorted, tensor([3, 4])).toArray(); // => [1, 3]
 * searchsorted(sorted, 3, { side: "right" }).item(); // => 3
 * ```
 */
export function searchsorted<X extends AnyTensor, const U extends TensorOrScalar>(
  sorted: t.Guard<
    t.VectorOnly<"searchsorted", t.ShapeOf<X>, "the sorted elements must have 1 axis">,
    X
  >,
  values: U,
  options?: SearchOptions,
): Tensor<"int32", t.ShapeOf<U>, X["device"]>;
export function searchsorted(
  sorted: AnyTensor,
  values: TensorOrScalar,
  options: SearchOptions = {},
): Operand {
  const name = "searchsorted";
  checkOptions(name, options, ["side", "sorter", "out"]);
  const { side = "left", sorter, out } = options;
  const right = isRight(name, side);
  const own = ownOperand(sorted, name);
  const order = sorter === undefined ? [] : [ownOperand(sorter, name)];
  return tidy(() =>
    dispatch(SEARCHSORTED, [own, besides(name, own, values), ...order], { right }, out)
  );
}

/** Options of {@link digitize}. */
export interface DigitizeOptions extends UnaryOptions {
  /** Whether bins include their right edge, and not their left one. */
  readonly right?: boolean;
}

/** Whether neighbors in `x` never go down, or with `down` never up. */
function isMonotonic(x: Operand, down: boolean): boolean {
  const n = x.layout.size;
  if (n < 2) return true;
  const first = applyView(VIEWS.narrow, x, "narrow", 0, 0, n - 1);
  const second = applyView(VIEWS.narrow, x, "narrow", 0, 1, n - 1);
  const op = down ? MAP.greaterEqual : MAP.lessEqual;
  return Boolean(
    readOnly(() => dispatch(REDUCE.all, [apply(op, first, second)], { axis: undefined })),
  );
}

const DIGITIZE: Op = makeOp({
  kind: "kernel",
  name: "digitize",
  infer(call: Call): readonly OutputSpec[] {
    const { inputs: [x, bins], name } = call;
    checkOperand(x, name);
    checkOperand(bins, name);
    commonDType(name, x, bins);
    checkVector(name, bins, "the bins");
    return call.result(x.layout.shape, DTYPE.int32);
  },
  decompose(call: Call) {
    const { right } = call.attributes as { readonly right: boolean };
    return onHost(call, ([x, bins]) => {
      const [edges, values] = prepared(call.name, bins!, x!, searchDType);
      const search = (among: Operand): Operand =>
        runKernel("searchIndices", [among, values], { right: !right });
      if (isMonotonic(edges, false)) return [search(edges)];
      if (!isMonotonic(edges, true)) {
        throw new ArgumentError("Cannot digitize by bins that neither rise nor fall: sort them");
      }
      const reversed = contiguousCopy(applyView(VIEWS.flip, edges, "flip", 0));
      return [apply(MAP.sub, edges.layout.size, search(reversed))];
    });
  },
});

/**
 * The index (int32) of the bin of each element: i if it is from `bins[i - 1]` to below `bins[i]`, 0 below
 * all edges, and the number of edges above. The edges rise or fall.
 *
 * @throws {ArgumentError} For edges that do neither.
 *
 * @example
 * ```ts
 * digitize(tensor([0.5, 1, 7]), tensor([0, 1, 5])).toArray(); // => [1, 2, 3]
 * ```
 */
export function digitize<X extends AnyTensor>(
  x: X,
  bins: AnyTensor | readonly number[],
  options?: DigitizeOptions,
): Tensor<"int32", t.ShapeOf<X>, X["device"]>;
export function digitize(
  x: AnyTensor,
  bins: AnyTensor | readonly number[],
  options: DigitizeOptions = {},
): Operand {
  checkOptions("digitize", options, ["right", "out"]);
  const own = ownOperand(x, "digitize");
  const { right = false, out } = options;
  return tidy(() => dispatch(DIGITIZE, [own, besides("digitize", own, bins)], { right }, out));
}

/**
 * Softmax and norms: a backend's kernel along contiguous rows, else a few other ops.
 *
 * @module
 */
import type { DTypeInfo } from "../../base/dtype.ts";
import { describe } from "../../base/text.ts";
import { ArgumentError, AxisError, ShapeError } from "../../base/errors.ts";
import { Layout } from "../../base/layout.ts";
import { formatShape, noAxis, normalizeAxes, normalizeAxis, ownAxes } from "../../base/shape.ts";
import { cast, contiguousCopy } from "../../core/copy.ts";
import { apply } from "../../core/apply.ts";
import { dispatch } from "../../core/dispatch.ts";
import { kernelCopy } from "../../core/prepare.ts";
import { wrap } from "../../core/handles.ts";
import { epsilonOf, isRun, type RowAttributes, rowDType } from "./problem.ts";
import { isOperand, type Operand } from "../../memory/operand.ts";
import { allocateIn } from "../../memory/device.ts";
import { checkDevice, checkKind, checkOperand, checkOptions, ruleFor } from "../../table/infer.ts";
import { type Call, type Input, makeOp, type Op, type OutputSpec } from "../../table/op.ts";
import { MAP, REDUCE } from "../../table/table.ts";
import { reduce } from "../reduce/op.ts";
import { fromFirst, widen } from "../reduce/differences.ts";

/** A zero of the dtype and rank of `like`. */
function zeroLike({ storage, layout }: Operand): Operand {
  const one = Layout.contiguous(layout.shape.map(() => 1));
  return wrap(allocateIn(storage.memory, storage.info, 1, true), one);
}

const KEEP = { keepDims: true };

// ---- one call on rows --------------------------------------------------------------------------

/**
 * The input as floats of at least 32 bits. Sums of 16-bit floats are kept in 32 bits, and
 * differences of integers in 64.
 */
function wideRows(call: Call, x: Operand): Operand {
  const { axis } = call.attributes as RowAttributes;
  return widen(call.op === RMS_NORM ? x : fromFirst(x, axis, call.name))[0]!;
}

function inferRows(call: Call, axes: readonly number[] | undefined): readonly OutputSpec[] {
  const [x] = call.inputs;
  checkOperand(x, call.name);
  checkKind(x.storage.info, "iuf", call.name);
  const { result } = ruleFor(MAP.exp, x.storage.info, call.name);
  if (axes === undefined) {
    const { axis } = call.attributes as RowAttributes;
    if (typeof axis !== "number") throw noAxis(call.name, axis);
    normalizeAxis(call.name, axis, x.layout.shape.length);
  }
  return call.result(x.layout.shape, result);
}

// ---- softmax -----------------------------------------------------------------------------------

function softmaxOp(
  name: string,
  compose: (x: Operand, axis: number, out?: Operand) => Operand,
): Op {
  return makeOp({
    kind: "kernel",
    name,
    contiguous: [0],
    infer: (call) => inferRows(call, undefined),
    decompose(call: Call): Operand {
      const x = call.operand(0);
      if (x.layout.size === 0) return contiguousCopy(x, call.specs[0]!.dtype.name);
      return cast(compose(wideRows(call, x), call.attributes.axis), call.specs[0]!.dtype.name);
    },
  });
}

/** exp(x) over its sum along an axis. */
const SOFTMAX = softmaxOp("softmax", (x, axis) => {
  const shifted = apply(MAP.sub, x, reduce(REDUCE.max, x, axis, KEEP));
  const powers = apply(MAP.exp, shifted, undefined, undefined, { out: shifted });
  return apply(MAP.div, powers, reduce(REDUCE.sum, powers, axis, KEEP), undefined, { out: powers });
});

/** x minus the log of the sum of exponentials along an axis. */
const LOG_SOFTMAX = softmaxOp("logSoftmax", (x, axis) => {
  const shifted = apply(MAP.sub, x, reduce(REDUCE.max, x, axis, KEEP));
  // The largest element is 0 now, so there is nothing else to subtract.
  const log = dispatch(REDUCE.logSumExp, [shifted, zeroLike(x)], { axis, keepDims: true });
  return apply(MAP.sub, shifted, log, undefined, { out: shifted });
});

/** Softmax or its logarithm along `axis`. */
export function softmax(
  name: "softmax" | "logSoftmax",
  x: Operand,
  axis = -1,
  options: { out?: Operand } = {},
): Operand {
  checkOperand(x, name);
  checkOptions(name, options, ["out"]);
  return dispatch(name === "softmax" ? SOFTMAX : LOG_SOFTMAX, [x], { axis }, options.out);
}

// ---- norms -------------------------------------------------------------------------------------

interface NormOptions {
  readonly weight?: Operand;
  readonly bias?: Operand;
  readonly epsilon?: number;
  readonly out?: Operand;
}

function normAxes(call: Call): number[] {
  const { axis } = call.attributes as RowAttributes;
  const { shape } = call.operand(0).layout;
  if (axis === null || (Array.isArray(axis) && axis.length === 0)) {
    throw new AxisError(
      `Cannot ${call.name} shape ${formatShape(shape)}: name an axis or several`,
    );
  }
  return normalizeAxes(call.name, axis, shape.length).sort((p, q) => p - q);
}

/** Throws unless `given` broadcasts to the sizes of the axes. */
function checkAffine(call: Call, what: string, given: Input, axes: readonly number[]): void {
  if (given === undefined) return;
  const { name } = call;
  const x = call.operand(0);
  checkOperand(given, name);
  checkDevice(x.storage, given.storage, name);
  checkKind(given.storage.info, "iuf", name);
  const { shape } = x.layout;
  const wanted = axes.map((axis) => shape[axis]!);
  const from = given.layout.shape;
  const fits = from.length <= wanted.length &&
    from.every((n, i) => n === 1 || n === wanted[i + wanted.length - from.length]);
  if (!fits) {
    throw new ShapeError(
      `Cannot ${name} shape ${formatShape(shape)} along axes ${
        formatShape(axes)
      } with ${what} of ` +
        `shape ${formatShape(from)}: it must broadcast to ${formatShape(wanted)}`,
    );
  }
}

/**
 * Weight or bias as kernels need it for rows of the result's dtype: broadcast, contiguous, in the
 * dtype of sums; `copy` makes it.
 */
function affine(
  call: Call,
  given: Input,
  axes: readonly number[],
  copy: (x: Operand, info: DTypeInfo) => Operand,
): Operand | undefined {
  if (!isOperand(given)) return undefined;
  const { shape } = call.operand(0).layout;
  const layout = given.layout.broadcastTo(axes.map((axis) => shape[axis]!));
  const info = rowDType(call.specs[0]!.dtype);
  const ready = layout.contiguous && layout.offset === 0 && given.storage.info === info;
  return ready ? given : copy({ storage: given.storage, layout, flags: given.flags }, info);
}

type Normalize = (x: Operand, axes: readonly number[], epsilon: number) => Operand;

function normOp(name: string, normalize: Normalize): Op {
  return makeOp({
    kind: "kernel",
    name,
    contiguous: [0],
    infer(call: Call) {
      const [x, weight, bias] = call.inputs;
      checkOperand(x, call.name);
      checkKind(x.storage.info, "iuf", call.name);
      const axes = normAxes(call);
      const { epsilon } = call.attributes as RowAttributes;
      if (epsilon !== undefined && (typeof epsilon !== "number" || Number.isNaN(epsilon))) {
        throw new ArgumentError(`${name}() needs a number as epsilon, got ${describe(epsilon)}`);
      }
      checkAffine(call, "weight", weight, axes);
      checkAffine(call, "bias", bias, axes);
      return inferRows(call, axes);
    },
    prepare(call: Call) {
      const [x, weight, bias] = call.inputs;
      const isPlain = (weight === undefined && bias === undefined) ||
        (x as Operand).storage.info.kind !== "f";
      if (isPlain) return null;
      const { layout: { shape }, storage: { info } } = x as Operand;
      const last = shape.length - 1;
      const columns = shape[last]!, dtype = rowDType(info);
      const isUsual = (call.attributes.axis === -1 || call.attributes.axis === last) &&
        isRun(weight, dtype, columns) && isRun(bias, dtype, columns);
      if (isUsual) return null;
      const axes = normAxes(call);
      const inputs = [
        x,
        affine(call, weight, axes, kernelCopy),
        affine(call, bias, axes, kernelCopy),
      ];
      return inputs[1] === weight && inputs[2] === bias ? null : { inputs };
    },
    decompose: (call: Call) => normalizeRows(call, normalize),
  });
}

function normalizeRows(call: Call, normalize: Normalize): Operand {
  const x = call.operand(0);
  const { dtype } = call.specs[0]!;
  if (x.layout.size === 0) return contiguousCopy(x, dtype.name);
  const axes = normAxes(call);
  const [weight, bias] = [call.inputs[1], call.inputs[2]].map((given) =>
    affine(call, given, axes, (one, info) => contiguousCopy(one, info.name))
  );
  const made = normalize(wideRows(call, x), axes, epsilonOf(call, dtype));
  // The axes that are not normalized have size 1 in a weight.
  const shape = x.layout.shape.map((n, axis) => axes.includes(axis) ? n : 1);
  const aligned = (y: Operand): Operand => ({
    storage: y.storage,
    layout: Layout.contiguous(shape, y.layout.offset),
    flags: y.flags,
  });
  const into = { out: made };
  if (weight !== undefined) apply(MAP.mul, made, aligned(weight), undefined, into);
  if (bias !== undefined) apply(MAP.add, made, aligned(bias), undefined, into);
  return cast(made, dtype.name);
}

/** `x` divided by the root of `square`, with `epsilon`, written to `out`. */
function overRoot(x: Operand, square: Operand, epsilon: number, out?: Operand): Operand {
  const scale = apply(MAP.rsqrt, apply(MAP.add, square, epsilon));
  return apply(MAP.mul, x, scale, undefined, { out });
}

const LAYER_NORM = normOp("layerNorm", (x, axes, epsilon) => {
  const shifted = apply(MAP.sub, x, reduce(REDUCE.mean, x, axes, KEEP));
  // The rounding error of the mean, which matters if the mean is large.
  const rest = reduce(REDUCE.mean, shifted, axes, KEEP);
  const square = dispatch(REDUCE.var, [shifted, rest], { axis: axes, keepDims: true });
  apply(MAP.sub, shifted, rest, undefined, { out: shifted });
  return overRoot(shifted, square, epsilon, shifted);
});

const RMS_NORM = normOp("rmsNorm", (x, axes, epsilon) => {
  const square = dispatch(REDUCE.var, [x, zeroLike(x)], { axis: axes, keepDims: true });
  return overRoot(x, square, epsilon);
});

/** A norm of rows over `axis`, times weight, and for layerNorm plus bias. */
export function normalizeAlong(
  name: "layerNorm" | "rmsNorm",
  x: Operand,
  axis: number | readonly number[] = -1,
  options: NormOptions = {},
): Operand {
  checkOperand(x, name);
  const known = ["weight", "bias", "epsilon", "out"];
  checkOptions(name, options, name === "layerNorm" ? known : known.filter((key) => key !== "bias"));
  const { weight, bias, epsilon, out } = options;
  const op = name === "layerNorm" ? LAYER_NORM : RMS_NORM;
  return dispatch(op, [x, weight, bias], { axis: ownAxes(axis, name), epsilon }, out);
}

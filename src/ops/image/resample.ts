/**
 * Resizing along axes: each result is a weighted sum of a few elements of a line.
 *
 * A product with a matrix of weights would compute many products with 0, and spread infinite elements
 * over a row.
 *
 * @module
 */
import { ArgumentError, ShapeError } from "../../base/errors.ts";
import { DTYPE } from "../../base/dtype.ts";
import { Layout } from "../../base/layout.ts";
import { formatShape, normalizeAxis } from "../../base/shape.ts";
import { describe } from "../../base/text.ts";
import { apply, applyInto } from "../../core/apply.ts";
import { cast, contiguousCopy } from "../../core/copy.ts";
import { dispatch } from "../../core/dispatch.ts";
import { dispose, tidy } from "../../core/handles.ts";
import { part } from "../../core/composite.ts";
import type { Operand } from "../../memory/operand.ts";
import { checkDevice, checkKind, checkOperand } from "../../table/infer.ts";
import { type Call, makeOp, type Op, type OutputSpec } from "../../table/op.ts";
import { MAP } from "../../table/table.ts";
import { AFFINE } from "../chain/expression.ts";
import { fromData } from "../create/from_data.ts";
import { take } from "../index/op.ts";
import { rowDType } from "../softmax_norm/problem.ts";
import { COORDINATES, NEAREST_MODES, type ResizeModes, resizeTaps, type Taps } from "./taps.ts";

/** The sizes of a call of {@link RESAMPLE}: those before, of and after the axis. */
export interface ResampleSizes {
  readonly outer: number;
  readonly from: number;
  readonly to: number;
  readonly inner: number;
  readonly taps: number;
}

/** The sizes of an inferred call. */
export function resampleSizes(call: Call): ResampleSizes {
  const { shape } = call.operand(0).layout;
  const axis = normalizeAxis(call.name, call.attributes.axis, shape.length);
  const sizeOf = (list: readonly number[]): number => list.reduce((a, b) => a * b, 1);
  const [taps, to] = call.operand(1).layout.shape as [number, number];
  const outer = sizeOf(shape.slice(0, axis)), inner = sizeOf(shape.slice(axis + 1));
  return { outer, from: shape[axis]!, to, inner, taps };
}

/** out[…, i, …] = Σₖ weights[k, i] · x[…, indices[k, i], …] along an axis, of floats of at least 32 bits. */
const RESAMPLE: Op = makeOp({
  kind: "kernel",
  name: "resample",
  contiguous: [0, 1, 2],
  outOffset: true,
  infer(call): readonly OutputSpec[] {
    const { inputs: [x, indices, weights], name } = call;
    for (const one of [x, indices, weights]) checkOperand(one, name);
    const [values, places, factors] = [0, 1, 2].map((k) => call.operand(k)) as [
      Operand,
      Operand,
      Operand,
    ];
    for (const one of [places, factors]) checkDevice(values.storage, one.storage, name);
    checkKind(values.storage.info, "f", name);
    const { shape } = values.layout;
    const axis = normalizeAxis(name, call.attributes.axis, shape.length);
    return call.result(shape.with(axis, places.layout.shape[1]!), values.storage.info);
  },
  decompose(call) {
    const [x, indices, weights] = [call.operand(0), call.operand(1), call.operand(2)];
    const axis = normalizeAxis(call.name, call.attributes.axis, x.layout.shape.length);
    const sizes = x.layout.shape.map((_, i) => i === axis ? weights.layout.shape[1]! : 1);
    let sum: Operand | undefined;
    for (let k = 0; k < indices.layout.shape[0]!; k++) {
      const before = sum;
      sum = tidy(() => {
        const taken = take(x, part(indices, indices.layout.selectAxis(0, k)), axis);
        const row = weights.layout.selectAxis(0, k);
        const weight = part(weights, new Layout(sizes, strides(row, axis, sizes), row.offset));
        if (before === undefined) return apply(MAP.mul, taken, weight);
        return applyInto(AFFINE, call.name, taken, weight, before, undefined);
      });
      if (before !== undefined) dispose(before);
    }
    return sum!;
  },
});

/** The strides of a vector along `axis`. */
function strides(row: Layout, axis: number, sizes: readonly number[]): number[] {
  return sizes.map((_, i) => i === axis ? row.strides[0]! : 0);
}

/** The weighted sums along an axis; `x` is of floats of at least 32 bits. Taps are constants of traces. */
export function resample(
  name: string,
  x: Operand,
  axis: number,
  { indices, weights }: Taps,
): Operand {
  return tidy(() => {
    const { info, device } = x.storage;
    const shape = [indices.length, indices[0]!.length];
    const all = <A extends Int32Array | Float64Array>(made: A, lists: readonly A[]): A => {
      lists.forEach((list, k) => made.set(list, k * list.length));
      return made;
    };
    const size = shape[0]! * shape[1]!;
    const places = fromData(all(new Int32Array(size), indices), { shape, device: device as "cpu" });
    const factors = fromData(all(new Float64Array(size), weights), {
      shape,
      dtype: info.name,
      device: device as "cpu",
    });
    return dispatch(RESAMPLE, [x, places, factors], { axis }, undefined, name);
  });
}

/** The elements of `x` along an axis at the first tap of each result, of any dtype. */
export function pick(
  name: string,
  x: Operand,
  axis: number,
  { indices: [first], weights }: Taps,
): Operand {
  if (x.storage.info === DTYPE.float32) {
    return resample(name, x, axis, { indices: [first!], weights: [weights[0]!] });
  }
  return tidy(() => take(x, fromData(first!, { device: x.storage.device as "cpu" }), axis));
}

/** An axis of {@link resize}. */
export interface ResizeAxis {
  readonly axis: number;
  /** The size after it. */
  readonly to: number;
  /** What the size is multiplied by; the quotient of the sizes by default. */
  readonly scale?: number;
  /** The part of the axis that `"tf_crop_and_resize"` takes, from 0 to 1; all by default. */
  readonly roi?: readonly [start: number, end: number];
}

/** Options of {@link resize}. */
export interface ResizeOptions extends ResizeModes {
  /** What `"tf_crop_and_resize"` gives beyond the input; 0 by default. */
  readonly extrapolationValue?: number;
}

function checkModes(name: string, { mode, coordinates, nearest }: ResizeOptions): void {
  const check = (what: string, given: string | undefined, known: readonly string[]): void => {
    if (given === undefined || known.includes(given)) return;
    throw new ArgumentError(
      `Cannot ${name} with ${what} ${describe(given)}: it is one of ${known.join(", ")}`,
    );
  };
  check("mode", mode, ["nearest", "linear", "cubic"]);
  check("coordinates", coordinates, COORDINATES);
  check("nearest", nearest, NEAREST_MODES);
}

/**
 * `x` with other sizes of some axes, as ONNX's Resize defines it. All modes but the nearest compute 16-bit
 * floats and integers in float32, and cast the result to the dtype of `x`.
 */
export function resize(
  name: string,
  x: Operand,
  axes: readonly ResizeAxis[],
  options: ResizeOptions,
): Operand {
  checkModes(name, options);
  const { shape } = x.layout;
  const sized = axes.map(({ axis, to, scale, roi }) => {
    const own = normalizeAxis(name, axis, shape.length);
    const from = shape[own]!;
    if (!Number.isSafeInteger(to) || to < 0 || (from === 0 && to > 0)) {
      throw new ShapeError(
        `Cannot ${name} axis ${own} of shape ${formatShape(shape)} to size ${to}`,
      );
    }
    return { axis: own, from, to, scale, roi };
  });
  const { mode, coordinates, extrapolationValue = 0 } = options;
  const isNearest = mode === "nearest";
  const crops = coordinates === "tf_crop_and_resize";
  return tidy(() => {
    const { info, device } = x.storage;
    const wide = isNearest ? x : cast(x, info.kind === "f" ? rowDType(info).name : "float32");
    const changed = sized.filter(({ from, to, scale = 1 }) => crops || from !== to || scale !== 1);
    if (changed.some(({ to }) => to === 0) || x.layout.size === 0) {
      const to = shape.map((n, i) => changed.find(({ axis }) => axis === i)?.to ?? n);
      return fromData(new Float64Array(0), {
        shape: to,
        dtype: info.name,
        device: device as "cpu",
      });
    }
    const masks: { axis: number; outside: readonly boolean[] }[] = [];
    // Shrinking axes first, and the last ones first, so that intermediate results are small.
    const order = changed.toSorted((a, b) => a.to / a.from - b.to / b.from || b.axis - a.axis);
    let made = order.reduce((from, one) => {
      const { taps, outside } = resizeTaps(one, options);
      if (outside !== null) masks.push({ axis: one.axis, outside });
      return (isNearest ? pick : resample)(name, from, one.axis, taps);
    }, wide);
    for (const { axis, outside } of masks) {
      const sizes = shape.map((_, i) => i === axis ? outside.length : 1);
      const mask = fromData(outside, { shape: sizes, dtype: "bool", device: device as "cpu" });
      made = apply(MAP.where, mask, extrapolationValue, made);
    }
    return made === x ? contiguousCopy(x) : cast(made, info.name);
  });
}

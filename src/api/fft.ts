/**
 * Discrete Fourier transforms, of any length, as in NumPy's `fft`.
 *
 * float64 and complex128 give complex128 (or float64); all other dtypes are computed in float32 and
 * give complex64 (or float32).
 *
 * @module
 */
import { DTYPE, type DType } from "../base/dtype.ts";
import { ArgumentError, AxisError } from "../base/errors.ts";
import { typeError } from "../base/stack.ts";
import { formatShape, lengthOf, listIn, normalizeAxis } from "../base/shape.ts";
import { describe } from "../base/text.ts";
import { dispatch } from "../core/dispatch.ts";
import type { FftAttributes, FftKind } from "../ops/fft/problem.ts";
import { ownOperand } from "../core/foreign.ts";
import { cast } from "../core/copy.ts";
import { tidy } from "../core/handles.ts";
import type { Operand } from "../memory/operand.ts";
import { checkFloat, checkOptions } from "../table/infer.ts";
import { roll } from "../ops/manipulate/op.ts";
import { tensor } from "../tensor/create.ts";
import "../tensor/tensor.ts";
import type { AnyTensor, Tensor, TensorOf } from "../tensor/tensor.ts";
import type { Shape } from "../base/shape.ts";
import type * as t from "../types/mod.ts";
import { FFT, FFTN, type FftnAttributes } from "../ops/fft/op.ts";

/**
 * How results are scaled: by 1 / n in the inverse transform (`"backward"`, the default), by 1 / √n in
 * both directions (`"ortho"`), or by 1 / n in the forward transform (`"forward"`).
 */
export type FftNorm = "backward" | "ortho" | "forward";

/** Options of transforms along one axis. */
export interface FftOptions<N extends number = number, B = number> {
  /**
   * The length of the transform. A longer axis is cut, a shorter one is continued by zeros. By default
   * the length of the axis; for `irfft` and `hfft` twice that less 2.
   */
  readonly n?: N;
  /** The axis; the last one by default. */
  readonly axis?: B;
  /** How results are scaled. */
  readonly norm?: FftNorm;
  /** Write the result here instead of allocating: a tensor of the result's shape and kind of dtype. */
  readonly out?: AnyTensor;
}

/** Options of transforms along several axes. */
export interface FftnOptions<L = readonly number[] | undefined, B = readonly number[] | undefined> {
  /**
   * The length of the transform along each of `axes`, by default of the last axes; −1 for the length of
   * the axis. Longer axes are cut, shorter ones are continued by zeros.
   */
  readonly s?: L;
  /** The axes; all by default. `fft2` and its relatives take the last two. */
  readonly axes?: B;
  /** How results are scaled. */
  readonly norm?: FftNorm;
  /** Write the result here instead of allocating: a tensor of the result's shape and kind of dtype. */
  readonly out?: AnyTensor;
}

/** The dtype of the complex numbers of a transform. */
export type ComplexOf<D extends DType> = t.ToComplex[D];

/** The dtype of the real numbers of a transform. */
export type RealOf<D extends DType> = t.ToReal[t.ToComplex[D]];

/** A spectrum, or a tensor of complex numbers, of a transform of `X`. */
export type Spectrum<X extends AnyTensor, S extends Shape = Shape> = TensorOf<
  ComplexOf<X["dtype"]>,
  S,
  X["device"]
>["tensor"];

/** A tensor of real numbers, of a transform of `X`. */
export type Signal<X extends AnyTensor, S extends Shape = Shape> = TensorOf<
  RealOf<X["dtype"]>,
  S,
  X["device"]
>["tensor"];

/** The options of a transform of `X` along the axis `B`, or the error for that axis. */
export type OneAxis<Op extends string, X extends AnyTensor, N extends number, B extends number> =
  FftOptions<N, t.Guard<t.AlongAxes<Op, t.ShapeOf<X>, B>, B>>;

const ONE_OPTIONS = ["n", "axis", "norm", "out"];
const MANY_OPTIONS = ["s", "axes", "norm", "out"];

function scaleOf(norm: unknown, inverse: boolean, n: number, name: string): number {
  switch (norm) {
    case "backward":
      return inverse ? 1 / n : 1;
    case "forward":
      return inverse ? 1 : 1 / n;
    case "ortho":
      return 1 / Math.sqrt(n);
  }
  throw new ArgumentError(
    `Cannot ${name} with norm ${describe(norm)}: it is "backward", "ortho" or "forward"`,
  );
}

/** Throws unless `n` is an integer; op.ts checks that it is positive. */
function checkLength(n: unknown, name: string): void {
  if (Number.isSafeInteger(n)) return;
  throw new ArgumentError(`Cannot ${name} with length ${describe(n)}: it is an integer`);
}

/** The length of a transform of an axis of `size` elements. */
const defaultLength = (kind: FftKind, size: number): number =>
  kind === "toReal" ? 2 * (size - 1) : size;

function transform(
  name: string,
  given: AnyTensor,
  options: FftOptions,
  kind: FftKind,
  inverse: boolean,
): Operand {
  const x = ownOperand(given, name);
  checkOptions(name, options, ONE_OPTIONS);
  const { norm = "backward" } = options;
  const { shape } = x.layout;
  const axis = normalizeAxis(name, options.axis ?? -1, shape.length);
  const n = options.n ?? defaultLength(kind, shape[axis]!);
  checkLength(n, name);
  const scale = scaleOf(norm, inverse, n, name);
  const attributes: FftAttributes = { kind, axis, n, inverse, scale };
  return dispatch(FFT, [x], attributes, options.out, name);
}

/** The axes of a transform, and its lengths where they are given. */
function axesOf(
  name: string,
  shape: readonly number[],
  { s, axes }: FftnOptions,
): { readonly axis: number; readonly length: number | undefined }[] {
  const rank = shape.length;
  const chosen = listIn(axes, (axis) => normalizeAxis(name, axis as number, rank));
  const lengths = lengthOf(s);
  if ((s === undefined) !== (lengths === undefined) || (axes === undefined) !== !chosen) {
    throw typeError(`Cannot ${name}: s and axes are arrays of numbers`);
  }
  if (chosen === undefined && lengths !== undefined && lengths > rank) {
    throw new ArgumentError(
      `Cannot ${name} shape ${formatShape(shape)} with ${lengths} lengths: it has ${rank} axes`,
    );
  }
  const count = chosen?.length ?? lengths ?? rank;
  if (lengths !== undefined && lengths !== count) {
    throw new ArgumentError(
      `Cannot ${name} with ${lengths} lengths along ${count} axes: s has one for each of axes`,
    );
  }
  const own = listIn(s, (length) => {
    if (length !== undefined) checkLength(length as number, name);
    return length === -1 ? undefined : length as number | undefined;
  }, count);
  return Array.from({ length: count }, (_, k) => ({
    axis: chosen === undefined ? rank - count + k : chosen[k]!,
    length: own?.[k],
  }));
}

function transformAll(
  name: string,
  given: AnyTensor,
  options: FftnOptions,
  kind: FftKind,
  inverse: boolean,
): Operand {
  const x = ownOperand(given, name);
  checkOptions(name, options, MANY_OPTIONS);
  const { norm = "backward", out } = options;
  const sizes = x.layout.shape.slice();
  const axes = axesOf(name, sizes, options);
  const last = axes.length - 1;
  if (last < 0 && kind !== "complex") {
    throw new AxisError(`Cannot ${name} along no axis: it takes at least one`);
  }
  // Real transforms come where they save work: first of a forward transform, last of an inverse one.
  const order = axes.map((_, k) => k);
  if (kind !== "toReal") order.reverse();
  const steps = order.map((k): FftAttributes => {
    const { axis, length } = axes[k]!;
    const kindOfStep = k === last ? kind : "complex";
    const n = length ?? defaultLength(kindOfStep, sizes[axis]!);
    const scale = scaleOf(norm, inverse, n, name);
    sizes[axis] = kindOfStep === "fromReal" ? Math.floor(n / 2) + 1 : n;
    return { kind: kindOfStep, axis, n, inverse, scale };
  });
  if (steps.length === 1) return dispatch(FFT, [x], steps[0], out, name);
  const attributes: FftnAttributes = { steps };
  if (steps.length === 0) {
    const wide = x.storage.info === DTYPE.float64 || x.storage.info === DTYPE.complex128;
    const copy = cast(x, wide ? "complex128" : "complex64");
    return copy;
  }
  return dispatch(FFTN, [x], attributes, out, name);
}

const LAST_TWO = [-2, -1];

/** The options of a transform along two axes. */
function two(options: FftnOptions): FftnOptions {
  return { axes: LAST_TWO, ...options };
}

// ---- along one axis ----------------------------------------------------------------------------

/**
 * The discrete Fourier transform along an axis: element k is the sum of x[j] · exp(−2πi · j · k / n).
 * Real tensors are complex ones whose imaginary parts are 0; `rfft` is faster for them.
 *
 * @throws {AxisError} For an axis that x does not have.
 * @throws {ArgumentError} For a length below 1, which includes an empty axis.
 *
 * @example
 * ```ts
 * const spectrum = fft.fft(tensor([1, 0, 0, 0]));
 * spectrum.dtype; // => complex64
 * spectrum.real().toArray(); // => [1, 1, 1, 1]
 * ```
 */
export function fft<X extends AnyTensor, N extends number = never, B extends number = -1>(
  x: X,
  options?: OneAxis<"fft", X, N, B>,
): Spectrum<X, t.Fft<t.ShapeOf<X>, B, N>>;
/** The implementation. @ignore */
export function fft(
  x: AnyTensor,
  options: OneAxis<"fft", AnyTensor, number, number> = {},
): Operand {
  return transform("fft", x, options as FftOptions, "complex", false);
}

/**
 * The inverse of {@link fft}: element j is the sum of x[k] · exp(2πi · j · k / n), divided by n.
 *
 * @throws As {@link fft}.
 */
export function ifft<X extends AnyTensor, N extends number = never, B extends number = -1>(
  x: X,
  options?: OneAxis<"ifft", X, N, B>,
): Spectrum<X, t.Fft<t.ShapeOf<X>, B, N>>;
/** The implementation. @ignore */
export function ifft(
  x: AnyTensor,
  options: OneAxis<"ifft", AnyTensor, number, number> = {},
): Operand {
  return transform("ifft", x, options as FftOptions, "complex", true);
}

/**
 * The transform of real numbers: the elements 0 to n / 2 of {@link fft}. The others are their
 * conjugates, in reverse.
 *
 * @throws {DTypeError} For complex numbers.
 * @throws As {@link fft}.
 *
 * @example
 * ```ts
 * fft.rfft(tensor([1, 2, 3, 4])).shape; // => [3]
 * ```
 */
export function rfft<X extends AnyTensor, N extends number = never, B extends number = -1>(
  x: X,
  options?: OneAxis<"rfft", X, N, B>,
): Spectrum<X, t.RealFft<t.ShapeOf<X>, B, N>>;
/** The implementation. @ignore */
export function rfft(
  x: AnyTensor,
  options: OneAxis<"rfft", AnyTensor, number, number> = {},
): Operand {
  return transform("rfft", x, options as FftOptions, "fromReal", false);
}

/**
 * The inverse of {@link rfft}: n real numbers from the elements 0 to n / 2 of their transform. `n` is
 * twice the length of the axis less 2 by default; give it for odd lengths. The imaginary part of
 * element 0, and of element n / 2, counts as 0.
 *
 * @throws As {@link fft}.
 *
 * @example
 * ```ts
 * const x = tensor([1, 2, 3, 4, 5]);
 * fft.irfft(fft.rfft(x), { n: 5 }).allclose(x, { atol: 1e-6 }); // => true
 * ```
 */
export function irfft<X extends AnyTensor, N extends number = never, B extends number = -1>(
  x: X,
  options?: OneAxis<"irfft", X, N, B>,
): Signal<X, t.InverseRealFft<t.ShapeOf<X>, B, N>>;
/** The implementation. @ignore */
export function irfft(
  x: AnyTensor,
  options: OneAxis<"irfft", AnyTensor, number, number> = {},
): Operand {
  return transform("irfft", x, options as FftOptions, "toReal", true);
}

/**
 * The transform of a signal whose negative part is the conjugate of its positive one, of which x has
 * the elements 0 to n / 2: n real numbers. `n` is twice the length of the axis less 2 by default.
 *
 * @throws As {@link fft}.
 */
export function hfft<X extends AnyTensor, N extends number = never, B extends number = -1>(
  x: X,
  options?: OneAxis<"hfft", X, N, B>,
): Signal<X, t.InverseRealFft<t.ShapeOf<X>, B, N>>;
/** The implementation. @ignore */
export function hfft(
  x: AnyTensor,
  options: OneAxis<"hfft", AnyTensor, number, number> = {},
): Operand {
  return transform("hfft", x, options as FftOptions, "toReal", false);
}

/**
 * The inverse of {@link hfft}: the elements 0 to n / 2 of the inverse transform of real numbers.
 *
 * @throws {DTypeError} For complex numbers.
 * @throws As {@link fft}.
 */
export function ihfft<X extends AnyTensor, N extends number = never, B extends number = -1>(
  x: X,
  options?: OneAxis<"ihfft", X, N, B>,
): Spectrum<X, t.RealFft<t.ShapeOf<X>, B, N>>;
/** The implementation. @ignore */
export function ihfft(
  x: AnyTensor,
  options: OneAxis<"ihfft", AnyTensor, number, number> = {},
): Operand {
  return transform("ihfft", x, options as FftOptions, "fromReal", true);
}

// ---- along several axes ------------------------------------------------------------------------

/**
 * The discrete Fourier transform along several axes, all by default.
 *
 * @throws {AxisError} For an axis that x does not have.
 * @throws {ArgumentError} For a length below 1, or for a number of lengths that is not that of
 *   the axes.
 *
 * @example
 * ```ts
 * fft.fftn(ones([2, 2])).real().toArray(); // => [[4, 0], [0, 0]]
 * ```
 */
export function fftn<
  X extends AnyTensor,
  L extends readonly number[] | undefined = undefined,
  B extends readonly number[] | undefined = undefined,
>(x: X, options?: FftnOptions<L, B>): Spectrum<X, t.FftMany<t.ShapeOf<X>, L>>;
/** The implementation. @ignore */
export function fftn(
  x: AnyTensor,
  options: FftnOptions<readonly number[] | undefined, readonly number[] | undefined> = {},
): Operand {
  return transformAll("fftn", x, options, "complex", false);
}

/** The inverse of {@link fftn}, with the same errors. */
export function ifftn<
  X extends AnyTensor,
  L extends readonly number[] | undefined = undefined,
  B extends readonly number[] | undefined = undefined,
>(x: X, options?: FftnOptions<L, B>): Spectrum<X, t.FftMany<t.ShapeOf<X>, L>>;
/** The implementation. @ignore */
export function ifftn(
  x: AnyTensor,
  options: FftnOptions<readonly number[] | undefined, readonly number[] | undefined> = {},
): Operand {
  return transformAll("ifftn", x, options, "complex", true);
}

/**
 * The transform of real numbers along several axes: {@link rfft} along the last one of them,
 * {@link fft} along the others.
 *
 * @throws {DTypeError} For complex numbers.
 * @throws {AxisError} If there is no axis.
 * @throws As {@link fftn}.
 */
export function rfftn<
  X extends AnyTensor,
  L extends readonly number[] | undefined = undefined,
  B extends readonly number[] | undefined = undefined,
>(x: X, options?: FftnOptions<L, B>): Spectrum<X, t.RealFftMany<t.ShapeOf<X>, L, B>>;
/** The implementation. @ignore */
export function rfftn(
  x: AnyTensor,
  options: FftnOptions<readonly number[] | undefined, readonly number[] | undefined> = {},
): Operand {
  return transformAll("rfftn", x, options, "fromReal", false);
}

/**
 * The inverse of {@link rfftn}. The length along the last axis is twice its size less 2 by default.
 *
 * @throws {AxisError} If there is no axis.
 * @throws As {@link fftn}.
 */
export function irfftn<
  X extends AnyTensor,
  L extends readonly number[] | undefined = undefined,
  B extends readonly number[] | undefined = undefined,
>(x: X, options?: FftnOptions<L, B>): Signal<X, t.InverseRealFftMany<t.ShapeOf<X>, L, B>>;
/** The implementation. @ignore */
export function irfftn(
  x: AnyTensor,
  options: FftnOptions<readonly number[] | undefined, readonly number[] | undefined> = {},
): Operand {
  return transformAll("irfftn", x, options, "toReal", true);
}

/** {@link fftn} along the last two axes. */
export function fft2<
  X extends AnyTensor,
  L extends readonly number[] | undefined = undefined,
  B extends readonly number[] | undefined = undefined,
>(x: X, options?: FftnOptions<L, B>): Spectrum<X, t.FftMany<t.ShapeOf<X>, L>>;
/** The implementation. @ignore */
export function fft2(
  x: AnyTensor,
  options: FftnOptions<readonly number[] | undefined, readonly number[] | undefined> = {},
): Operand {
  return transformAll("fft2", x, two(options), "complex", false);
}

/** The inverse of {@link fft2}. */
export function ifft2<
  X extends AnyTensor,
  L extends readonly number[] | undefined = undefined,
  B extends readonly number[] | undefined = undefined,
>(x: X, options?: FftnOptions<L, B>): Spectrum<X, t.FftMany<t.ShapeOf<X>, L>>;
/** The implementation. @ignore */
export function ifft2(
  x: AnyTensor,
  options: FftnOptions<readonly number[] | undefined, readonly number[] | undefined> = {},
): Operand {
  return transformAll("ifft2", x, two(options), "complex", true);
}

/** {@link rfftn} along the last two axes. */
export function rfft2<
  X extends AnyTensor,
  L extends readonly number[] | undefined = undefined,
  B extends readonly number[] | undefined = undefined,
>(x: X, options?: FftnOptions<L, B>): Spectrum<X, t.RealFftMany<t.ShapeOf<X>, L, B>>;
/** The implementation. @ignore */
export function rfft2(
  x: AnyTensor,
  options: FftnOptions<readonly number[] | undefined, readonly number[] | undefined> = {},
): Operand {
  return transformAll("rfft2", x, two(options), "fromReal", false);
}

/** The inverse of {@link rfft2}. */
export function irfft2<
  X extends AnyTensor,
  L extends readonly number[] | undefined = undefined,
  B extends readonly number[] | undefined = undefined,
>(x: X, options?: FftnOptions<L, B>): Signal<X, t.InverseRealFftMany<t.ShapeOf<X>, L, B>>;
/** The implementation. @ignore */
export function irfft2(
  x: AnyTensor,
  options: FftnOptions<readonly number[] | undefined, readonly number[] | undefined> = {},
): Operand {
  return transformAll("irfft2", x, two(options), "toReal", true);
}

// ---- frequencies -------------------------------------------------------------------------------

/** Options of {@link fftfreq} and {@link rfftfreq}. */
export interface FreqOptions<E extends DType = "float32", V extends t.Device = "cpu"> {
  /** The distance between samples; 1 by default. */
  readonly d?: number;
  /** The dtype of the result, a float; float32 by default. */
  readonly dtype?: E;
  /** The device of the result. */
  readonly device?: V;
}

const FREQ_OPTIONS = ["d", "dtype", "device"];

/** The frequencies `from` to before `end`, and then those of negative numbers, of n samples. */
function frequencies(
  name: string,
  n: number,
  options: FreqOptions<DType, t.Device>,
  isReal: boolean,
): Operand {
  checkOptions(name, options, FREQ_OPTIONS);
  const { d = 1, dtype = "float32", device = "cpu" } = options;
  checkFloat(dtype, name);
  if (!Number.isSafeInteger(n) || n < 1) {
    throw new ArgumentError(`${name}() needs an integer of at least 1 as n, got ${describe(n)}`);
  }
  if (typeof d !== "number" || d === 0) {
    throw new ArgumentError(`${name}() needs a number other than 0 as d, got ${describe(d)}`);
  }
  const count = isReal ? Math.floor(n / 2) + 1 : n;
  const positive = isReal ? count : Math.ceil(n / 2);
  const step = 1 / (n * d);
  const values = Float64Array.from({ length: count }, (_, k) => (k < positive ? k : k - n) * step);
  return tensor(values, { dtype, device });
}

/**
 * The frequency of each element of {@link fft} of n samples: [0, 1, …, −2, −1] / (n · d).
 *
 * @throws {ArgumentError} For n below 1 or a distance of 0.
 * @throws {DTypeError} For a dtype that is not a float.
 *
 * @example
 * ```ts
 * fft.fftfreq(4, { d: 0.5 }).toArray(); // => [0, 0.5, -1, -0.5]
 * ```
 */
export function fftfreq<
  N extends number,
  E extends DType = "float32",
  V extends t.Device = "cpu",
>(
  n: N,
  options?: FreqOptions<E, V>,
): Tensor<NoInfer<E>, [N], t.OnDevice<NoInfer<V>>>;
/** The implementation. @ignore */
export function fftfreq(n: number, options: FreqOptions<DType, t.Device> = {}): Operand {
  return frequencies("fftfreq", n, options, false);
}

/**
 * The frequency of each element of {@link rfft} of n samples: [0, 1, …, n / 2] / (n · d).
 *
 * @throws As {@link fftfreq}.
 *
 * @example
 * ```ts
 * fft.rfftfreq(4).toArray(); // => [0, 0.25, 0.5]
 * ```
 */
export function rfftfreq<
  N extends number,
  E extends DType = "float32",
  V extends t.Device = "cpu",
>(
  n: N,
  options?: FreqOptions<E, V>,
): Tensor<NoInfer<E>, [t.HalfAndOne<N>], t.OnDevice<NoInfer<V>>>;
/** The implementation. @ignore */
export function rfftfreq(n: number, options: FreqOptions<DType, t.Device> = {}): Operand {
  return frequencies("rfftfreq", n, options, true);
}

/** Options of {@link fftshift} and {@link ifftshift}. */
export interface ShiftOptions {
  /** The axes; all by default. */
  readonly axes?: number | readonly number[];
}

/** Rolls each axis by the half of its size that `round` gives. */
function shifted(
  name: string,
  given: AnyTensor,
  options: ShiftOptions,
  shiftOf: (size: number) => number,
): Operand {
  const x: Operand = ownOperand(given, name);
  checkOptions(name, options, ["axes"]);
  const { shape } = x.layout;
  const { axes = shape.map((_, k) => k) } = options;
  const axisOf = (axis: unknown): number => normalizeAxis(name, axis as number, shape.length);
  const list = listIn(axes, axisOf) ?? [axisOf(axes)];
  return tidy(() => roll(x, list.map((axis) => shiftOf(shape[axis]!)), list));
}

/**
 * The elements rolled by half of each axis, so that frequency 0 is in the middle.
 *
 * @throws {AxisError} For an axis that x does not have.
 *
 * @example
 * ```ts
 * fft.fftshift(fft.fftfreq(4)).toArray(); // => [-0.5, -0.25, 0, 0.25]
 * ```
 */
export function fftshift<X extends AnyTensor>(
  x: X,
  options?: ShiftOptions,
): Tensor<X["dtype"], t.ShapeOf<X>, X["device"]>;
/** The implementation. @ignore */
export function fftshift(x: AnyTensor, options: ShiftOptions = {}): Operand {
  return shifted("fftshift", x, options, (size) => Math.floor(size / 2));
}

/** The inverse of {@link fftshift}. */
export function ifftshift<X extends AnyTensor>(
  x: X,
  options?: ShiftOptions,
): Tensor<X["dtype"], t.ShapeOf<X>, X["device"]>;
/** The implementation. @ignore */
export function ifftshift(x: AnyTensor, options: ShiftOptions = {}): Operand {
  return shifted("ifftshift", x, options, (size) => -Math.floor(size / 2));
}

/**
 * Convolutions and correlations along the last axis.
 *
 * @module
 */
import { DTYPE, type DTypeInfo, promoteTypes } from "../../base/dtype.ts";
import { ArgumentError, ShapeError } from "../../base/errors.ts";
import { formatShape } from "../../base/shape.ts";
import { describe } from "../../base/text.ts";
import { apply, applyView } from "../../core/apply.ts";
import { type ConvolveAttributes, isLong } from "../../ops/fft/convolve.ts";
import { cast, contiguousCopy } from "../../core/copy.ts";
import { dispatch } from "../../core/dispatch.ts";
import { inDType } from "../../core/prepare.ts";
import type { FftAttributes } from "../../ops/fft/problem.ts";
import { ownOperand } from "../../core/foreign.ts";
import { tidy } from "../../core/handles.ts";
import { FFT } from "../../ops/fft/op.ts";
import type { Operand } from "../../memory/operand.ts";
import { checkDevice, checkKind, checkOperand, checkOptions } from "../../table/infer.ts";
import { type Call, makeOp, type Op, type OutputSpec } from "../../table/op.ts";
import { MAP } from "../../table/table.ts";
import { VIEWS } from "../../table/views.ts";
import { complex } from "../../tensor/complex.ts";
import { empty } from "../../core/composite.ts";
import type { AnyTensor, Tensor, UnaryOptions } from "../../tensor/tensor.ts";
import type * as t from "../../types/mod.ts";

/**
 * Which results a convolution of n and m elements gives: all n + m − 1 (`"full"`), the middle ones, as
 * many as the longer operand has (`"same"`), or those that no end cuts off (`"valid"`).
 */
export type ConvolveMode = "full" | "same" | "valid";

/** Options of {@link convolve} and {@link correlate}. */
export interface ConvolveOptions<M extends ConvolveMode = ConvolveMode> extends UnaryOptions {
  /** Which results to give: `"full"` for `convolve`, `"valid"` for `correlate` by default. */
  readonly mode?: M;
}

/** The dtype that kernels compute in for results of `info`. */
function computeOf(info: DTypeInfo): DTypeInfo {
  if (info.kind === "c") return info;
  if (info.kind === "f") return info.bytes < 4 ? DTYPE.float32 : info;
  return info.bytes < 4 || info.kind === "b"
    ? DTYPE.int32
    : info.bytes < 8
    ? DTYPE.int32
    : DTYPE.int64;
}

/** The smallest length with fast transforms of at least `least`. */
function transformLength(least: number): number {
  let best = Infinity;
  for (const odd of [1, 3, 5, 9, 15]) {
    let n = 16 * odd;
    while (n < least) n *= 2;
    best = Math.min(best, n);
  }
  return best;
}

/** Complex sums, of four real convolutions. */
function byParts(call: Call): Operand {
  const { name, attributes } = call;
  const { dtype } = call.specs[0]!;
  const [a, v] = [call.operand(0), call.operand(1)].map((x) => cast(x, dtype.name)) as [
    Operand,
    Operand,
  ];
  const real = (x: Operand): Operand => apply(MAP.real, x),
    imag = (x: Operand): Operand => apply(MAP.imag, x);
  const part = (x: Operand, y: Operand): Operand =>
    dispatch(CONVOLVE, [x, y], attributes, undefined, name);
  const [ar, ai, vr, vi] = [real(a), imag(a), real(v), imag(v)];
  const re = apply(MAP.sub, part(ar, vr), part(ai, vi));
  const im = apply(MAP.add, part(ar, vi), part(ai, vr));
  return complex(re as AnyTensor, im as AnyTensor);
}

function infer(call: Call): readonly OutputSpec[] {
  const { inputs: [a, v], name } = call;
  for (const x of [a, v]) {
    checkOperand(x, name);
    checkKind(x.storage.info, "biufc", name);
  }
  const [rows, kernel] = [a as Operand, v as Operand];
  checkDevice(rows.storage, kernel.storage, name);
  const { length } = call.attributes as ConvolveAttributes;
  const dtype = promoteTypes(rows.storage.info.name, kernel.storage.info.name, name);
  return call.result([...rows.layout.shape.slice(0, -1), length], DTYPE[dtype]);
}

const CONVOLVE: Op = makeOp<Op>({
  kind: "kernel",
  name: "convolve",
  contiguous: [0, 1],
  infer,
  prepare: (call) => inDType(call, computeOf(call.specs[0]!.dtype)),
  complexParts: byParts,
});

/** The convolution of floats or complex numbers as the product of spectra. */
const CONVOLVE_SPECTRA: Op = makeOp<Op>({
  kind: "kernel",
  name: "convolveSpectra",
  infer,
  decompose(call) {
    const [a, v] = [call.operand(0), call.operand(1)];
    const { shape, dtype } = call.specs[0]!;
    if (shape.includes(0)) return empty(shape, a, dtype);
    const { start, length } = call.attributes as ConvolveAttributes;
    const axis = a.layout.rank - 1;
    const isComplex = dtype.kind === "c";
    const n = transformLength(a.layout.shape[axis]! + v.layout.size - 1);
    const transform = (x: Operand, kind: FftAttributes["kind"], inverse = false): Operand =>
      dispatch(FFT, [x], {
        kind,
        axis: x.layout.rank - 1,
        n,
        inverse,
        scale: inverse ? 1 / n : 1,
      });
    const { name } = computeOf(dtype);
    const spectra = [a, v].map((x) => transform(cast(x, name), isComplex ? "complex" : "fromReal"));
    const product = apply(MAP.mul, spectra[0]!, spectra[1]!);
    const all = transform(product, isComplex ? "complex" : "toReal", true);
    const part = applyView(VIEWS.narrow, all, "narrow", axis, start, length);
    return contiguousCopy(part, dtype.name);
  },
});

/** Convolves rows of `a` with `v`. */
function convolveRows(
  name: string,
  inputs: readonly [a: Operand, v: Operand],
  attributes: ConvolveAttributes,
  out: Operand | undefined,
): Operand {
  const [a, v] = inputs;
  const isFloat = inputs.some(({ storage: { info } }) => info.kind === "f" || info.kind === "c");
  const op = isFloat && isLong(a.layout.shape.at(-1)!, v.layout.size) ? CONVOLVE_SPECTRA : CONVOLVE;
  return dispatch(op, [a, v], attributes, out, name);
}

/** The results of a mode: where they begin among all, and how many there are. */
function resultsOf(mode: unknown, n: number, m: number, name: string): ConvolveAttributes {
  const least = Math.min(n, m);
  switch (mode) {
    case "full":
      return { start: 0, length: n + m - 1 };
    case "same":
      return { start: Math.floor((least - 1) / 2), length: Math.max(n, m) };
    case "valid":
      return { start: least - 1, length: Math.max(n, m) - least + 1 };
  }
  throw new ArgumentError(
    `Cannot ${name} with mode ${describe(mode)}: it is "full", "same" or "valid"`,
  );
}

/** Checks the shapes of both operands; returns the lengths. */
function lengthsOf(name: string, a: Operand, v: Operand): [n: number, m: number] {
  const [{ shape }, { shape: kernel }] = [a.layout, v.layout];
  const n = shape.at(-1), m = kernel[0];
  if (n === undefined || m === undefined || kernel.length !== 1 || n === 0 || m === 0) {
    throw new ShapeError(
      `Cannot ${name} shapes ${formatShape(shape)} and ${formatShape(kernel)}: ` +
        "it takes rows and a vector, of at least one element each",
    );
  }
  return [n, m];
}

/** The dtype of a convolution. */
export type ConvolveDType<A extends AnyTensor, B extends AnyTensor> = t.OperandDType<"where", A, B>;

/**
 * The convolution of a with the vector v along the last axis of a: result k is the sum of
 * a[k − j] · v[j]. Integers are exact, in the dtype that both promote to. Vectors may come in any order.
 *
 * From 192 elements of both on, floats are multiplied as spectra: the error is that of the largest
 * result, and a NaN or an infinity makes NaN of the whole row.
 *
 * @throws {ShapeError} For scalars, for empty operands, and for v that is no vector.
 *
 * @example
 * ```ts
 * convolve(tensor([1, 2, 3]), tensor([0, 1, 0.5])).toArray(); // => [0, 1, 2.5, 4, 1.5]
 * convolve(tensor([1, 2, 3, 4]), tensor([1, 1, 1]), { mode: "valid" }).toArray(); // => [6, 9]
 * ```
 */
export function convolve<
  A extends AnyTensor,
  B extends AnyTensor,
  M extends ConvolveMode = "full",
>(
  a: A,
  v: t.Guard<
    t.ProductOf<"convolve", A, B, t.Convolve<"convolve", t.ShapeOf<A>, t.ShapeOf<B>, M>>,
    B
  >,
  options?: ConvolveOptions<M>,
): Tensor<
  ConvolveDType<A, B>,
  t.Ok<t.Convolve<"convolve", t.ShapeOf<A>, t.ShapeOf<B>, M>>,
  A["device"]
>;
export function convolve(
  a: AnyTensor,
  v: AnyTensor,
  options: ConvolveOptions<ConvolveMode> = {},
): Operand {
  checkOptions("convolve", options, ["mode", "out"]);
  const { mode = "full", out }: ConvolveOptions = options;
  const [x, y] = [ownOperand(a, "convolve"), ownOperand(v, "convolve")];
  const [n, m] = lengthsOf("convolve", x, y);
  const attributes = resultsOf(mode, n, m, "convolve");
  const isSwapped = x.layout.rank === 1 && m > n;
  return convolveRows("convolve", isSwapped ? [y, x] : [x, y], attributes, out);
}

/**
 * The correlation of a with the vector v along the last axis of a: the sum of a[k + j] · conj(v[j]) for
 * each shift k, from the first one at which they meet. It is the convolution with v reversed.
 *
 * @throws As {@link convolve}.
 *
 * @example
 * ```ts
 * correlate(tensor([1, 2, 3]), tensor([0, 1, 0.5])).toArray(); // => [3.5]
 * correlate(tensor([1, 2, 3]), tensor([0, 1, 0.5]), { mode: "same" }).toArray(); // => [2, 3.5, 3]
 * ```
 */
export function correlate<
  A extends AnyTensor,
  B extends AnyTensor,
  M extends ConvolveMode = "valid",
>(
  a: A,
  v: t.Guard<
    t.ProductOf<"correlate", A, B, t.Convolve<"correlate", t.ShapeOf<A>, t.ShapeOf<B>, M>>,
    B
  >,
  options?: ConvolveOptions<M>,
): Tensor<
  ConvolveDType<A, B>,
  t.Ok<t.Convolve<"correlate", t.ShapeOf<A>, t.ShapeOf<B>, M>>,
  A["device"]
>;
export function correlate(
  a: AnyTensor,
  v: AnyTensor,
  options: ConvolveOptions<ConvolveMode> = {},
): Operand {
  checkOptions("correlate", options, ["mode", "out"]);
  const { mode = "valid", out }: ConvolveOptions = options;
  const [x, y] = [ownOperand(a, "correlate"), ownOperand(v, "correlate")];
  const [n, m] = lengthsOf("correlate", x, y);
  let attributes = resultsOf(mode, n, m, "correlate");
  if (mode === "same" && m > n) attributes = { ...attributes, start: Math.floor(n / 2) };
  return tidy(() => {
    const conjugate = y.storage.info.kind === "c" ? apply(MAP.conj, y) : y;
    const reversed = applyView(VIEWS.flip, conjugate, "flip", [0]);
    return convolveRows("correlate", [x, reversed], attributes, out);
  });
}

/**
 * Derivatives of Fourier transforms, convolutions of signals and complex numbers.
 *
 * @module
 */
import { apply } from "../../core/apply.ts";
import { dispatch } from "../../core/dispatch.ts";
import type { Operand } from "../../memory/operand.ts";
import { FFT } from "../../ops/fft/op.ts";
import type { FftAttributes } from "../../ops/fft/problem.ts";
import { iota } from "../../ops/index/selection.ts";
import { pad } from "../../ops/manipulate/op.ts";
import { MAP } from "../../table/table.ts";
import { VIEWS } from "../../table/views.ts";
import { applyView } from "../../core/apply.ts";
import { div, equal, flip, matmul, mul, narrow, reshape, where } from "../tape/arithmetic.ts";
import { addRules, type Rule } from "../tape/rule.ts";

/** The first `n` elements along an axis, with zeros after them if there are fewer. */
function resized(x: Operand, axis: number, n: number): Operand {
  const { shape } = x.layout;
  if (shape[axis]! >= n) return narrow(x, axis, 0, n);
  return pad(x, shape.map((size, k): [number, number] => [0, k === axis ? n - size : 0]));
}

/** The transform in the other direction, with the same factor. */
const fft: Rule = ({ call, inputs }) => {
  const attributes = call.attributes as FftAttributes;
  const { kind, axis, n } = attributes;
  const { shape } = (inputs[0] as Operand).layout;
  const back = { ...attributes, inverse: !attributes.inverse };
  return ([g]) => {
    if (kind !== "toReal") {
      const whole = dispatch(FFT, [g!], { ...back, kind: "complex" });
      return [resized(whole, axis, shape[axis]!)];
    }
    const half = dispatch(FFT, [g!], { ...back, kind: "fromReal" });
    // All elements but the first, and the last one of an even length, stand for two.
    const count = Math.floor(n / 2) + 1;
    const places = reshape(
      iota(half.storage, count),
      half.layout.shape.map((_, k) => k === axis ? count : 1),
    );
    const isSingle = n % 2 === 0
      ? apply(MAP.logicalOr, equal(places, 0), equal(places, count - 1))
      : equal(places, 0);
    return [resized(mul(half, where(isSingle, 1, 2)), axis, shape[axis]!)];
  };
};

/** Results `start` to `start + length` of the sums of products of rows and a kernel. */
const convolve: Rule = ({ call, inputs, wants, keep }) => {
  const [rows, kernel] = inputs as [Operand, Operand];
  const { start, length } = call.attributes;
  const n = rows.layout.shape.at(-1)!, m = kernel.layout.size;
  const keptRows = wants(1) ? keep(rows) : undefined;
  const keptKernel = wants(0) ? keep(kernel) : undefined;
  /** All windows of `m` elements of rows, for each result: [rows, length, m]. */
  const windowsOf = (x: Operand, before: number, from: number, count: number, size: number) => {
    const flat = reshape(x, [-1, x.layout.shape.at(-1)!]);
    const after = Math.max(0, from + count + size - 1 - (before + flat.layout.shape[1]!));
    const padded = pad(flat, [[0, 0], [before, after]]);
    const part = narrow(padded, 1, from, count + size - 1);
    return applyView(VIEWS.unfold, part, "unfold", 1, size, 1);
  };
  return ([g]) => {
    // Element p of rows meets the results p to p + m − 1 of all.
    const byRows = keptKernel && (() => {
      const before = start;
      const windows = windowsOf(g!, before, 0, n, m);
      return reshape(matmul(windows, keptKernel()), rows.layout.shape);
    })();
    const byKernel = keptRows && (() => {
      const windows = flip(windowsOf(keptRows(), m - 1, start, length, m), 2);
      return matmul(reshape(g!, [-1]), reshape(windows, [-1, m]));
    })();
    return [byRows || undefined, byKernel || undefined];
  };
};

// ---- complex numbers ---------------------------------------------------------------------------

const parts: Rule = () => ([g]) => [apply(MAP.real, g), apply(MAP.imag, g)];

/** 1 for the sign of x; that of 0 is 0. */
const abs: Rule = ({ inputs, keep }) => {
  const x = keep(inputs[0] as Operand);
  return ([g]) => [mul(apply(MAP.sign, x()), g)];
};

/** The direction of a complex number has a part along the circle only. */
const sign: Rule = ({ inputs, outputs, keep }) => {
  const x = inputs[0] as Operand;
  if (x.storage.info.kind !== "c") return () => [undefined];
  const kept = keep(x), result = keep(outputs[0]!);
  return ([g]) => {
    const own = result(), size = apply(MAP.abs, kept());
    const along = mul(own, apply(MAP.real, mul(g!, apply(MAP.conj, own))));
    return [
      where(equal(size, 0), 0, div(apply(MAP.sub, g, along), where(equal(size, 0), 1, size))),
    ];
  };
};

const angle: Rule = ({ inputs, keep }) => {
  const x = inputs[0] as Operand;
  if (x.storage.info.kind !== "c") return () => [undefined];
  const kept = keep(x);
  return ([g]) => {
    const own = kept();
    const square = apply(MAP.square, apply(MAP.abs, own));
    const factor = mul(own, { re: 0, im: 1 });
    return [mul(g, div(factor, where(equal(square, 0), 1, square)))];
  };
};

addRules({
  fft,
  convolve,
  complex: parts,
  abs,
  sign,
  angle,
  conj: () => ([g]) => [apply(MAP.conj, g)],
  // The derivative by the parts that are not there is 0.
  real: () => ([g]) => [g],
  imag: ({ inputs }) => {
    const isComplex = (inputs[0] as Operand).storage.info.kind === "c";
    return ([g]) => [isComplex ? mul(g!, { re: 0, im: 1 }) : undefined];
  },
});

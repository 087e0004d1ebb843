/**
 * Shapes and dtypes of linear algebra, transforms, products, statistics, sets and random numbers that
 * the compiler infers. Only type-checked, never run.
 *
 * @module
 */
import {
  average,
  bincount,
  broadcastTensors,
  complex,
  convolve,
  corrcoef,
  correlate,
  cov,
  cross,
  digitize,
  einsum,
  fft,
  frexp,
  geomspace,
  gradient,
  histogram,
  histogram2d,
  histogramBinEdges,
  inner,
  interp,
  intersect,
  isin,
  kron,
  linalg,
  linspace,
  logspace,
  meshgrid,
  nanToNum,
  polyfit,
  polyval,
  ptp,
  random,
  ravelMultiIndex,
  rot90,
  scatterReduce,
  searchsorted,
  setdiff,
  setxor,
  special,
  type Tensor,
  tensor,
  tensordot,
  trace,
  trapezoid,
  trilIndices,
  triuIndices,
  union,
  uniqueAll,
  uniqueCounts,
  uniqueInverse,
  uniqueValues,
  unravelIndex,
  vecdot,
  zeros,
} from "./api.ts";
import { is, shape } from "./assert.ts";
import type { DType } from "../../src/base/dtype.ts";

declare const n: number;
declare const b: boolean;
declare const sizes: number[];
declare const dynamic: Tensor;
declare const some: Tensor<DType, [3, 3]>;
const a = zeros([2, 3]);
const wide = zeros([2, 3], { dtype: "float64" });
const v = zeros([3]);
const square = zeros([3, 3]);
const many = zeros([5, 3, 3], { dtype: "float64" });
const tall = zeros([5, 4, 3]);
const loose = zeros([n, 3]);
const integers = zeros([3, 3], { dtype: "int32" });
const z = zeros([3, 3], { dtype: "complex64" });
const bytes = zeros([6], { dtype: "uint8" });

export function factors(): void {
  is<"float64", [5, 3, 3]>()(linalg.cholesky(many, { upper: true }));
  is<"float32", [5, 4, 3]>()(linalg.qr(tall).q);
  is<"float32", [5, 3, 3]>()(linalg.qr(tall).r);
  shape<[5, 4, 4]>()(linalg.qr(tall, { mode: "complete" }).q);
  shape<[5, 4, 3]>()(linalg.qr(tall, { mode: "complete" }).r);
  shape<[2, 2]>()(linalg.qr(a).q);
  shape<[2, 3]>()(linalg.qr(a).r);
  is<"int32", [5, 4]>()(linalg.lu(tall).p);
  shape<[5, 4, 3]>()(linalg.lu(tall).l);
  shape<[2, 3]>()(linalg.lu(a).u);
  is<"complex64", [3, 3]>()(linalg.qr(z).q);
  shape<[number, number]>()(linalg.qr(loose).q);
  shape<[number, 3]>()(linalg.qr(loose).r);
  shape<readonly number[]>()(linalg.qr(dynamic).q);
}

export function spectra(): void {
  shape<[5, 4, 4]>()(linalg.svd(tall).u);
  shape<[5, 3]>()(linalg.svd(tall).s);
  shape<[5, 3, 3]>()(linalg.svd(tall).vh);
  shape<[5, 4, 3]>()(linalg.svd(tall, { fullMatrices: false }).u);
  shape<[2, 3]>()(linalg.svd(a, { fullMatrices: false }).vh);
  shape<[2, number]>()(linalg.svd(a, { fullMatrices: b }).u);
  is<"float32", [3]>()(linalg.svd(z).s);
  is<"complex64", [3, 3]>()(linalg.svd(z).vh);
  is<"float32", [2]>()(linalg.svdvals(a));
  is<"float32", [3]>()(linalg.eigvalsh(z));
  is<"complex64", [3, 3]>()(linalg.eigh(z).eigenvectors);
  is<"complex128", [5, 3]>()(linalg.eigvals(many));
  is<"complex64", [3, 3]>()(linalg.eig(integers).eigenvectors);
  shape<readonly number[]>()(linalg.svd(dynamic).s);
}

export function systems(): void {
  is<"float64", [3]>()(linalg.solve(integers, zeros([3], { dtype: "float64" })));
  is<"float64", [5, 3, 2]>()(linalg.solve(many, zeros([3, 2], { dtype: "float64" })));
  is<"float64", [5, 3, 2]>()(linalg.solve(many, zeros([5, 3, 2])));
  is<"float64", [5, 3]>()(linalg.solve(many, v));
  is<"complex64", [3, 2]>()(linalg.solve(z, zeros([3, 2])));
  is<"float32", [3, 4]>()(linalg.solveTriangular(square, zeros([3, 4]), { upper: true }));
  shape<readonly number[]>()(linalg.solve(dynamic, v));
  shape<[3]>()(linalg.solve(zeros([n, n]), v));
  is<"float32", [3, 3]>()(linalg.matrixPower(square, 3));
  is<"int32", [3, 3]>()(linalg.matrixPower(integers, 3));
  is<"float32", [3, 3]>()(linalg.matrixPower(integers, -1));
  is<"int32" | "float32", [3, 3]>()(linalg.matrixPower(integers, n));
  is<"float32", [5, 3, 4]>()(linalg.pinv(tall));
  is<"float32", [5]>()(linalg.slogdet(zeros([5, 2, 2], { dtype: "complex64" })).logabsdet);
  is<"complex64", [5]>()(linalg.slogdet(zeros([5, 2, 2], { dtype: "complex64" })).sign);
  const fit = linalg.lstsq(zeros([7, 3]), zeros([7, 2], { dtype: "float64" }));
  is<"float64", [3, 2]>()(fit.x);
  is<"float64", [2]>()(fit.residuals);
  is<"int64", []>()(fit.rank);
  is<"float64", [3]>()(fit.s);
  is<"float32", [3]>()(linalg.lstsq(zeros([7, 3]), zeros([7])).x);
  is<"float32", []>()(linalg.lstsq(zeros([7, 3]), zeros([7])).residuals);
  shape<[5, 3]>()(linalg.lstsq(tall, zeros([4])).x);
  shape<readonly number[]>()(linalg.lstsq(dynamic, dynamic).x);
  is<"int64", [5]>()(linalg.matrixRank(tall));
}

export function norms(): void {
  is<"float32", [5]>()(linalg.matrixNorm(tall));
  is<"float32", [5, 1, 1]>()(linalg.matrixNorm(tall, { keepDims: true, ord: "nuc" }));
  is<"float32", []>()(linalg.matrixNorm(z));
  is<"float32", []>()(linalg.vectorNorm(z));
  is<"float32", [2]>()(linalg.vectorNorm(a, { axis: 1 }));
  is<"float64", [2, 1]>()(linalg.vectorNorm(wide, { axis: -1, keepDims: true, ord: 1 }));
  is<"float64", [5]>()(linalg.cond(many));
  is<"float32", []>()(linalg.det(square));
}

export function matrices(): void {
  is<"float64", [2, 4]>()(linalg.matmul(wide, zeros([3, 4])));
  is<"float32", [3, 2]>()(linalg.outer(v, zeros([2])));
  is<"float32", [3, 2]>()(linalg.matrixTranspose(a));
  is<"float32", [5, number]>()(linalg.diagonal(tall));
  is<"float32", [5]>()(linalg.trace(tall));
  is<"int64", []>()(linalg.trace(integers, { offset: 1 }));
  shape<[2, 7]>()(linalg.multiDot([a, zeros([3, 4]), zeros([4, 7])]));
  shape<[]>()(linalg.multiDot([zeros([2]), a, v]));
  is<"float64", [2]>()(linalg.multiDot([wide, v]));
  shape<readonly number[]>()(linalg.multiDot([a, square].slice()));
}

export function contractions(): void {
  // deno-lint-ignore no-explicit-any
  const anything: any = a;
  einsum("ij,kj->ki", anything, anything, { out: square });
  shape<[2, 2]>()(einsum("ij,kj->ki", a, a, { out: square }));
  shape<[2, 5]>()(tensordot(zeros([2, 3, 4]), zeros([3, 4, 5])));
  shape<[2, 3, 4, 5]>()(tensordot(a, zeros([4, 5]), 0));
  shape<[2, 4]>()(tensordot(a, zeros([4, 3]), [1, 1]));
  shape<[3, 5]>()(tensordot(zeros([2, 3, 4]), zeros([4, 5, 2]), [[0, -1], [2, 0]]));
  is<"float64", [2, 4]>()(tensordot(wide, zeros([3, 4]), 1));
  shape<readonly number[]>()(tensordot(a, square, n));
  shape<readonly number[]>()(tensordot(dynamic, square, 1));
  shape<[2]>()(vecdot(a, v));
  shape<[3]>()(vecdot(a, a, 0));
  shape<[5, 4]>()(vecdot(tall, v));
  is<"complex64", [3]>()(vecdot(z, v));
  shape<[]>()(inner(v, v));
  shape<[2, 4]>()(inner(a, zeros([4, 3])));
  shape<[2, 3]>()(inner(a, zeros([])));
  shape<[10, 12]>()(kron(a, zeros([5, 4])));
  shape<[2, 12]>()(kron(a, zeros([4])));
  shape<[number, 9]>()(kron(loose, v));
  shape<[2, 3]>()(cross(a, v));
  shape<[3, 4]>()(cross(zeros([3, 4]), zeros([3, 4]), 0));
  is<"int64", []>()(trace(integers));
  is<"float32", [2]>()(trace(zeros([3, 3, 2]), { offset: 1 }));
  is<"float32", [4]>()(trace(zeros([3, 4, 3]), { axis1: 0, axis2: -1 }));
  is<"int32", []>()(trace(integers, { dtype: "int32" }));
}

export function transforms(): void {
  is<"complex64", [2, 3]>()(fft.fft(a));
  is<"complex128", [2, 8]>()(fft.fft(wide, { n: 8 }));
  is<"complex64", [8, 3]>()(fft.ifft(a, { n: 8, axis: 0, norm: "ortho" }));
  is<"complex64", [number, 3]>()(fft.fft(a, { n, axis: 0 }));
  is<"complex64", [number, number]>()(fft.fft(a, { n: 4, axis: n }));
  is<"complex64", [2, 2]>()(fft.rfft(a));
  is<"complex64", [513]>()(fft.rfft(zeros([1024], { dtype: "int16" })));
  is<"complex64", [2, 9]>()(fft.rfft(a, { n: 17 }));
  is<"complex64", [3, 3]>()(fft.rfft(a, { axis: 0, n: 4 }));
  is<"float32", [1024]>()(fft.irfft(zeros([513], { dtype: "complex64" })));
  is<"float64", [5, 3]>()(fft.irfft(wide, { n: 5, axis: 0 }));
  is<"float32", [2, 4]>()(fft.hfft(a));
  is<"complex64", [2, 2]>()(fft.ihfft(a));
  is<"complex64", [2, 3]>()(fft.fftn(a));
  is<"complex64", [number, number]>()(fft.ifftn(a, { s: [4, 4] }));
  is<"complex64", [2, 2]>()(fft.rfftn(a));
  is<"float32", [2, 4]>()(fft.irfft2(a));
  is<"complex64", [number, number]>()(fft.rfft2(a, { axes: [1, 0] }));
  is<"complex64", [2, 3]>()(fft.fft2(a, { axes: [1, 0] }));
  is<"complex64", readonly number[]>()(fft.fft(dynamic));
  is<"float32", [8]>()(fft.fftfreq(8));
  is<"float64", [5]>()(fft.rfftfreq(8, { d: 0.1, dtype: "float64" }));
  shape<[2, 3]>()(fft.fftshift(a));
  shape<[2, 3]>()(fft.ifftshift(a, { axes: 0 }));
  is<"complex64" | "complex128", [3, 3]>()(fft.fft(some));
}

export function signals(): void {
  shape<[7]>()(convolve(zeros([5]), v));
  shape<[3]>()(convolve(zeros([5]), v, { mode: "valid" }));
  shape<[2, 3]>()(convolve(a, zeros([2]), { mode: "same" }));
  shape<[5]>()(convolve(v, zeros([5]), { mode: "same" }));
  shape<[number]>()(convolve(zeros([n]), v));
  is<"float64", [2, 2]>()(correlate(wide, zeros([2])));
  shape<[4]>()(correlate(v, zeros([2]), { mode: "full" }));
  is<"float32", [3]>()(polyfit(v, v, 2));
  is<"float64", [3, 4]>()(polyfit(v, zeros([3, 4], { dtype: "float64" }), 2));
  shape<[number]>()(polyfit(v, v, n));
  is<"float32", [2, 3]>()(polyval([1, 0, 2], a));
  is<"float64", [2, 3]>()(polyval(zeros([4]), wide));
}

export function statistics(): void {
  is<"float32", [2]>()(average(a, 1));
  is<"float64", []>()(average(wide));
  is<"float64", [2]>()(average(a, 1, { weights: zeros([3], { dtype: "float64" }) }));
  is<"float32", [6]>()(average(zeros([6, 2], { dtype: "int32" }), -1));
  is<"float32", [2, 1]>()(ptp(a, 1, { keepDims: true }));
  is<"float32", [2, 2]>()(cov(a));
  is<"float64", [3, 3]>()(cov(wide, { rowVariables: false }));
  const z = zeros([2, 3], { dtype: "complex128" });
  is<"float64", []>()(z.var());
  is<"float64", [2]>()(z.std(1));
  is<"float64", [3]>()(z.nanvar(0));
  is<"float64", []>()(z.nanstd());
  is<"float64", []>()(z.norm());
  is<"float32", []>()(cov(v));
  is<"float32", []>()(cov(zeros([1, 6])));
  is<"float32", []>()(corrcoef(zeros([6, 1]), { rowVariables: false }));
  is<"float32", [6, 6]>()(cov(zeros([1, 6]), { rowVariables: false }));
  is<"float64", [number, number]>()(corrcoef(a, { y: wide }));
  is<"float32", [3, 3]>()(corrcoef(integers));
  shape<readonly number[]>()(cov(dynamic));
  is<"float32", [2, 3]>()(gradient(a, { axis: 0 }));
  const [rows, columns] = gradient(wide);
  is<"float64", [2, 3]>()(rows);
  is<"float64", [2, 3]>()(columns);
  is<"float32", [3]>()(trapezoid(a, { axis: 0 }));
  is<"float64", [2]>()(trapezoid(a, { x: zeros([3], { dtype: "float64" }) }));
  is<"float32", [3]>()(trapezoid(integers));
  is<"float32", [2, 3]>()(interp(a, v, v));
  is<"float64", [6]>()(interp(bytes, v, zeros([3], { dtype: "float64" })));
  shape<[2, 2]>()(a.diff());
  shape<[1, 3]>()(a.diff(1, 0));
  shape<[0, 3]>()(a.diff(5, 0));
  shape<[2, number]>()(a.diff(1, -1, { prepend: 0 }));
  shape<[2, number]>()(a.diff(n));
  shape<[number, number]>()(a.diff(1, n));
  shape<[2, 3]>()(a.cumulativeMax(1));
  is<"int32", [3]>()(zeros([3], { dtype: "int32" }).cumulativeMin());
  is<"float32", [2]>()(a.percentile(50, 1));
  is<"float64", [3, 1, 3]>()(wide.nanquantile([0.1, 0.2, 0.3], 0, { keepDims: true }));
  is<"float32", [2]>()(a.nanmean(1));
  is<"int32", [2]>()(a.nanargmax(1));
  is<"float32", [3]>()(a.nansum(0));
  is<"float32", [2, 3]>()(a.nancumsum(0));
}

export function sets(): void {
  is<"uint8", [number]>()(uniqueValues(bytes));
  is<"int32", [number]>()(uniqueCounts(bytes).counts);
  is<"int32", [2, 3]>()(uniqueInverse(a).inverseIndices);
  is<"int32", [number]>()(uniqueAll(a).indices);
  is<"bool", [2, 3]>()(isin(a, [1, 2]));
  is<"float32", [number]>()(union(a, bytes));
  is<"float64", [number]>()(intersect(a, wide));
  is<"uint8", [number]>()(setdiff(bytes, bytes));
  is<"float32", [number]>()(setxor(a, v));
  is<"int32", [2, 3]>()(searchsorted(v, a));
  is<"int32", []>()(searchsorted(v, 2, { side: "right" }));
  is<"int32", [2, 3]>()(digitize(a, [1, 2]));
  is<"int32", [number]>()(bincount(bytes));
  is<"float64", [number]>()(bincount(bytes, { weights: zeros([6], { dtype: "float64" }) }));
  is<"int32", [10]>()(histogram(a).counts);
  is<"float32", [11]>()(histogram(a).edges);
  is<"int32", [4]>()(histogram(wide, 4).counts);
  is<"float64", [4]>()(histogram(wide, 4, { density: true }).counts);
  is<"float32", [4]>()(histogram(bytes, 4, { weights: v }).counts);
  is<"float64", [3]>()(histogram(bytes, [0, 1, 5]).edges);
  is<"int32", [2]>()(histogram(bytes, [0, 1, 5]).counts);
  is<"float32", [3]>()(histogram(bytes, v).edges);
  is<"int32", [number]>()(histogram(bytes, n).counts);
  is<"float32", [9]>()(histogramBinEdges(a, 8));
  is<"int32", [8, 8]>()(histogram2d(v, v, 8).counts);
  is<"float64", [number, number]>()(histogram2d(v, v, [3, 4], { density: true }).counts);
  shape<[2, 3]>()(scatterReduce(a, integers, 1, "sum"));
}

export function indices(): void {
  is<"float32", [5]>()(linspace(0, 1, 5));
  is<"float64", [5]>()(logspace(0, 3, 5, { dtype: "float64" }));
  is<"float32", [number]>()(geomspace(1, 8, n));
  const [rows, columns] = meshgrid([zeros([2]), zeros([3], { dtype: "int32" })]);
  is<"float32", [3, 2]>()(rows);
  is<"int32", [3, 2]>()(columns);
  const [first, second, third] = meshgrid([zeros([2]), v, zeros([4])], { indexing: "ij" });
  shape<[2, 3, 4]>()(first);
  shape<[2, 3, 4]>()(second);
  shape<[2, 3, 4]>()(third);
  const [left, right] = broadcastTensors(a, zeros([4, 1, 3], { dtype: "bool" }));
  is<"float32", [4, 2, 3]>()(left);
  is<"bool", [4, 2, 3]>()(right);
  is<"int32", [number]>()(trilIndices(4)[0]);
  is<"int32", [number]>()(triuIndices(4)[1]);
  const at = zeros([5], { dtype: "int32" });
  is<"int32", [5]>()(ravelMultiIndex([at, at], [2, 3]));
  is<"int32", [4, 5]>()(ravelMultiIndex([at, zeros([4, 1], { dtype: "int32" })], [2, 3]));
  const [row, column] = unravelIndex(at, [2, 3]);
  is<"int32", [5]>()(row);
  is<"int32", [5]>()(column);
  shape<[3, 2]>()(rot90(a));
  shape<[2, 3]>()(rot90(a, 2));
  shape<[4, 5, 3]>()(rot90(tall, -1, [0, 1]));
  shape<[number, number]>()(rot90(a, n));
}

export function elementwise(): void {
  is<"float32", [2, 3]>()(a.clip(0, 1));
  is<"float64", [2, 3]>()(a.clip(wide));
  is<"float64", [4, 2, 3]>()(a.clip(zeros([4, 1, 1]), wide));
  is<"float32", [2, 3]>()(a.lerp(v, 0.5));
  is<"float64", [2, 3]>()(v.addcmul(wide, 2));
  is<"int32", [3, 3]>()(integers.fmod(2));
  is<"int32", [3, 3]>()(integers.gcd(integers));
  is<"float32", [2, 3]>()(frexp(a).mantissa);
  is<"int32", [2, 3]>()(frexp(a).exponent);
  is<"float32", [2, 3]>()(nanToNum(a));
  is<"complex128", [2, 3]>()(complex(wide, v));
  is<"float32", [3, 3]>()(z.real());
  is<"float32", [3, 3]>()(z.imag());
  is<"complex64", [3, 3]>()(z.conj());
  is<"float32", [3, 3]>()(z.angle());
  is<"float32", [2, 3]>()(special.gamma(a));
  is<"float32", [3, 3]>()(special.erfinv(integers));
  is<"float64", [2, 3]>()(special.xlogy(v, wide));
  is<"float32", [3, 3]>()(special.xlog1py(integers, 2));
  is<"float32", [3]>()(special.zeta(v));
  is<"float64", [2, 3]>()(special.beta(wide, v));
  is<"float64", [2, 3]>()(special.polygamma(2, wide));
}

export function randomNumbers(): void {
  const key = random.key(1);
  is<"float32", [2, 3]>()(random.exponential(key, [2, 3]));
  is<"float64", [2]>()(random.laplace(key, [2], { dtype: "float64" }));
  is<"float32", [number]>()(random.gumbel(key, [n]));
  is<"float32", [2, 3]>()(random.gamma(key, [2, 3], a));
  is<"float64", [2, 3]>()(random.beta(key, [2, 3], 1, v, { dtype: "float64" }));
  is<"int32", [4]>()(random.poisson(key, [4], 3));
  is<"int64", [4]>()(random.binomial(key, [4], 10, 0.5, { dtype: "int64" }));
  is<"float32", [4]>()(random.truncatedNormal(key, [4], { low: 0 }));
  is<"int32", [2]>()(random.categorical(key, a));
  is<"int32", [5, 3]>()(random.categorical(key, a, { shape: [5], axis: 0 }));
  is<"int32", [4]>()(random.choice(key, 10, [4], { replace: false }));
  is<"float64", [4, 3]>()(random.choice(key, wide, [4]));
  is<"float64", [2, 4, 5]>()(random.choice(key, wide, [4, 5], { axis: 1 }));
  shape<readonly number[]>()(random.choice(key, dynamic, sizes));
  shape<[2, 3]>()(random.shuffle(key, a));
  is<"float32", [10, 3]>()(random.multivariateNormal(key, [10], v, square));
  is<"float32", [10, number]>()(random.multivariateNormal(key, [10], zeros([n]), square));
}

/** Sizes and dtypes may be type parameters. */
export function whiten<N extends number>(
  x: Tensor<"float64", [N, N]>,
  y: Tensor<"float64", [N]>,
): Tensor<"float64", [N]> {
  return linalg.solve(linalg.inv(x), y);
}

/** The types of limited tensors stay those of type parameters. */
export function limited<D extends "float32" | "float64", S extends readonly number[]>(
  x: Tensor<D, S>,
): Tensor<D, S> {
  return x.clip(0, 1).lerp(2, 0.5);
}

export function spectrum(x: Tensor<"float32", [number, 256]>): Tensor<"float32", [number, 129]> {
  return fft.rfft(x).abs();
}

export const fitted: Tensor<"float32", [2]> = polyfit(tensor([0, 1]), tensor([1, 2]), 1);

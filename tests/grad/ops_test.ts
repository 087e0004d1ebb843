/**
 * Derivatives of ops that are not of the table, beside central differences.
 *
 * @module
 */
import { assert } from "@std/assert";
import { test } from "node:test";
import * as rm from "../../mod.ts";
import * as nn from "../../src/nn/mod.ts";
import { loose } from "../support.ts";
import { grad } from "../../src/grad/mod.ts";
import { resize } from "../../src/ops/image/resample.ts";
import { roiAlign } from "../../src/ops/image/roi_align.ts";
import { assertDerivatives, float64, numbers, type T, uniform } from "./differences.ts";
import { testOnBackends } from "../compile/support.ts";
import { compile } from "../../src/compile/mod.ts";

const next = numbers(3);
const random = (...shape: readonly number[]): T => uniform(shape, next);
const angles = nn.ropeAngles([0, 1, 2], { dimensions: 4 });
const ints = (data: unknown): T => rm.tensor(loose(data), { dtype: "int32" });
const { linalg: L, ...R } = loose({ ...rm });
const N: T = nn;
const eye = (): T => rm.eye(3, { dtype: "float64" });
/** A symmetric matrix with positive eigenvalues. */
const spd = (a: T): T => a.matmul(a.mT).add(eye());
const cx = (a: T, b: T): T => R.complex(a, b);
/** Regions inside, over the edges, smaller than an element, and outside. */
const ROIS: T = float64([1, 0.4, 5, 4, -2, -3, 3.3, 9, 2, 2, 2.4, 2.2, 20, 1, 30, 4], [4, 4]);

type Case = readonly [name: string, f: (...params: T[]) => unknown, params: readonly T[]];

function check(title: string, cases: readonly Case[]): void {
  test(`derivatives of ${title} are those of differences`, () => {
    for (const [name, f, params] of cases) assertDerivatives(name, f, params);
  });
}

check("products", [
  ["matmul", (a, b) => a.matmul(b), [random(2, 3), random(3, 4)]],
  ["matmul of a batch", (a, b) => a.matmul(b), [random(2, 1, 2, 3), random(4, 3, 2)]],
  ["matmul of rows", (a, b) => a.matmul(b), [random(2, 4, 3), random(3, 2)]],
  ["vector by matrix", (a, b) => a.matmul(b), [random(3), random(2, 3, 2)]],
  ["matrix by vector", (a, b) => a.matmul(b), [random(2, 2, 3), random(3)]],
  ["vector by vector", (a, b) => a.matmul(b), [random(3), random(3)]],
  ["complex matmul", (a, b) => cx(a, b).matmul(cx(b, a).mT), [random(2, 3), random(2, 3)]],
  ["einsum", (a, b) => R.einsum("bij,bjk->bik", a, b), [random(2, 3, 4), random(2, 4, 5)]],
  ["einsum, transposed", (a, b) => R.einsum("ij,kj->ik", a, b), [random(3, 4), random(5, 4)]],
  ["einsum, trace", (a) => R.einsum("ii->", a), [random(3, 3)]],
  ["tensordot", (a, b) => R.tensordot(a, b, 1), [random(2, 3), random(3, 2)]],
  ["outer", (a, b) => a.outer(b), [random(2), random(3)]],
  ["kron", (a, b) => L.kron(a, b), [random(2, 2), random(2, 3)]],
  ["cross", (a, b) => L.cross(a, b), [random(2, 3), random(2, 3)]],
  ...["relu", "gelu", "silu", "tanh", "sigmoid", undefined].map((activation): Case => [
    `linear with ${activation}`,
    (x, w, b, add) => x.linear(w, b, { activation, add }),
    [random(2, 3), random(4, 3), random(4), random(2, 4)],
  ]),
  ["linear of rows", (x, w) => x.linear(w, undefined, { activation: "relu" }), [
    random(2, 2, 3),
    random(4, 3),
  ]],
]);

check("linear algebra", [
  ["inv", (a) => L.inv(spd(a)), [random(2, 3, 3)]],
  ["det", (a) => L.det(a), [random(2, 3, 3)]],
  ["slogdet", (a) => L.slogdet(a), [random(3, 3)]],
  ["solve", (a, b) => L.solve(spd(a), b), [random(3, 3), random(3, 2)]],
  ["solve for a vector", (a, b) => L.solve(spd(a), b), [random(3, 3), random(3)]],
  ["solve, batch", (a, b) => L.solve(spd(a), b), [random(2, 3, 3), random(3, 2)]],
  ["solveTriangular", (a, b) => L.solveTriangular(spd(a), b), [random(3, 3), random(3, 2)]],
  [
    "solveTriangular, upper",
    (a, b) => L.solveTriangular(spd(a), b, { upper: true, unitDiagonal: true }),
    [random(3, 3), random(3, 2)],
  ],
  ["cholesky", (a) => L.cholesky(spd(a)), [random(2, 3, 3)]],
  ["cholesky, upper", (a) => L.cholesky(spd(a), { upper: true }), [random(3, 3)]],
  ["eigh", (a) => {
    const { eigenvalues, eigenvectors } = L.eigh(spd(a));
    return [eigenvalues, eigenvectors.abs()];
  }, [random(3, 3)]],
  ["eigvalsh", (a) => L.eigvalsh(spd(a)), [random(2, 3, 3)]],
  ...[[4, 3], [2, 3, 4], [3, 3]].map((shape): Case => ["svd", (a) => {
    const [u, s, vh] = Object.values<T>(L.svd(a, { fullMatrices: false }));
    return [u.abs(), s, vh.abs()];
  }, [random(...shape)]]),
  ["svdvals", (a) => L.svdvals(a), [random(3, 4)]],
  ["pinv", (a) => L.pinv(a), [random(4, 3)]],
  ["qr", (a) => L.qr(a), [random(4, 3)]],
  ["qr, wide", (a) => L.qr(a), [random(2, 2, 4)]],
  ["qr, r of wide", (a) => Object.values<T>(L.qr(a))[1], [random(2, 4)]],
  ["qr, q of wide", (a) => Object.values<T>(L.qr(a))[0], [random(2, 4)]],
  ["qr, complete", (a) => L.qr(a, { mode: "complete" }), [random(2, 3)]],
  ["expm", (a) => L.expm(a), [random(2, 3, 3)]],
  ["norms", (a) => [L.vectorNorm(a), L.matrixNorm(a)], [random(3, 3)]],
]);

check("complex linear algebra", [
  ["inv", (a, b) => L.inv(cx(a, b)), [random(3, 3), random(3, 3)]],
  ["solve", (a, b, c) => L.solve(cx(a, b), cx(c, b)), [random(3, 3), random(3, 3), random(3, 3)]],
  ["det", (a, b) => L.det(cx(a, b)), [random(3, 3), random(3, 3)]],
  ["slogdet", (a, b) => L.slogdet(cx(a, b)), [random(3, 3), random(3, 3)]],
  ["eigvalsh", (a, b) => {
    const m = cx(a, b);
    return L.eigvalsh(m.matmul(m.conj().mT));
  }, [random(3, 3), random(3, 3)]],
  ["svd", (a, b) => {
    const [u, s, vh] = Object.values<T>(L.svd(cx(a, b), { fullMatrices: false }));
    return [u.abs(), s, vh.abs(), u.mul(s).matmul(vh)];
  }, [random(4, 3), random(4, 3)]],
]);

const METHODS = [
  ...["exp", "log", "sqrt", "sin", "tan", "tanh", "asin", "abs", "angle", "sign", "square"],
  ...["reciprocal", "conj", "rsqrt", "log2", "real", "imag", "prod", "var", "std", "sum", "mean"],
];
check("complex numbers", [
  ...METHODS.map((method): Case => [
    method,
    (a, b) => cx(a, b)[method](),
    [random(3), random(3)],
  ]),
  ["div", (a, b) => cx(a, b).div(cx(b.add(2), a)), [random(3), random(3)]],
  ["pow", (a, b) => cx(a, b).pow(cx(b, a)), [random(3), random(3)]],
  ["cumulativeProd", (a, b) => cx(a, b).cumulativeProd(0), [random(3), random(3)]],
  ["fft", (a, b) => R.fft.fft(cx(a, b), { n: 5 }), [random(2, 4), random(2, 4)]],
  ["ifft", (a, b) => R.fft.ifft(cx(a, b)), [random(2, 5), random(2, 5)]],
  ["rfft", (a) => R.fft.rfft(a), [random(2, 6)]],
  ["rfft, odd", (a) => R.fft.rfft(a), [random(2, 5)]],
  ["irfft", (a, b) => R.fft.irfft(cx(a, b)), [random(4), random(4)]],
  ["irfft, odd", (a, b) => R.fft.irfft(cx(a, b), { n: 5 }), [random(3), random(3)]],
  ["fft2", (a) => R.fft.fft2(a), [random(3, 4)]],
]);

check("convolutions", [
  ["conv1d", (x, w) => N.conv1d(x, w, undefined, { stride: 3 }), [
    random(2, 2, 11),
    random(3, 2, 4),
  ]],
  ["conv2d, stride 2", (x, w, b) => N.conv2d(x, w, b, { padding: 1, stride: 2 }), [
    random(2, 3, 5, 6),
    random(4, 3, 3, 3),
    random(4),
  ]],
  ["conv2d, groups", (x, w, b) => N.conv2d(x, w, b, { padding: 1, groups: 2 }), [
    random(2, 4, 5, 4),
    random(6, 2, 3, 3),
    random(6),
  ]],
  ["conv2d, depthwise", (x, w) => N.conv2d(x, w, undefined, { groups: 3 }), [
    random(1, 3, 4, 4),
    random(3, 1, 2, 2),
  ]],
  [
    "conv2d, dilation",
    (x, w) => N.conv2d(x, w, undefined, { dilation: 2, padding: [[1, 2], [0, 1]] }),
    [
      random(1, 2, 7, 6),
      random(3, 2, 3, 2),
    ],
  ],
  ["conv2d by winograd", (x, w) => N.conv2d(x, w, undefined, { padding: 1, winograd: true }), [
    random(1, 2, 6, 6),
    random(3, 2, 3, 3),
  ]],
  ["conv3d", (x, w) => N.conv3d(x, w), [random(1, 2, 3, 4, 3), random(2, 2, 2, 2, 2)]],
  [
    "convTranspose2d",
    (x, w, b) => N.convTranspose2d(x, w, b, { stride: 2, padding: 1, outputPadding: 1 }),
    [random(2, 3, 3, 4), random(3, 2, 3, 3), random(2)],
  ],
  [
    "convTranspose1d, groups",
    (x, w) => N.convTranspose1d(x, w, undefined, { stride: 2, groups: 2, dilation: 2 }),
    [random(2, 4, 4), random(4, 3, 3)],
  ],
  ["maxPool2d", (x) => N.maxPool2d(x, 2), [random(2, 3, 4, 6)]],
  ["maxPool2d, padding", (x) => N.maxPool2d(x, 3, { stride: 2, padding: 1 }), [
    random(2, 2, 5, 6),
  ]],
  ["avgPool2d", (x) => N.avgPool2d(x, 3, { stride: 2, padding: 1 }), [random(2, 2, 5, 6)]],
  ["adaptiveAvgPool2d", (x) => N.adaptiveAvgPool2d(x, [2, 3]), [random(1, 2, 5, 7)]],
  ["interpolate", (x) => N.interpolate(x, { size: [5, 7], mode: "bilinear" }), [
    random(1, 2, 3, 4),
  ]],
  ["convolve", (a, b) => R.convolve(a, b), [random(5), random(3)]],
  ["convolve, same", (a, b) => R.convolve(a, b, { mode: "same" }), [random(5), random(4)]],
  ["convolve, valid", (a, b) => R.convolve(a, b, { mode: "valid" }), [random(6), random(3)]],
]);

check("layers", [
  ["attention", (q, k, v) => N.attention(q, k, v), [
    random(2, 4, 3, 5),
    random(2, 2, 6, 5),
    random(2, 2, 6, 4),
  ]],
  ["attention, causal", (q, k, v) => N.attention(q, k, v, { causal: true }), [
    random(2, 4, 5),
    random(2, 6, 5),
    random(2, 6, 5),
  ]],
  ["attention, mask", (q, k, v, mask) => N.attention(q, k, v, { mask, softCap: 2 }), [
    random(4, 3, 5),
    random(4, 6, 5),
    random(4, 6, 5),
    random(4, 3, 6),
  ]],
  ["attention, masks of groups", (q, k, v, mask) => N.attention(q, k, v, { mask }), [
    random(4, 3, 5),
    random(2, 6, 5),
    random(2, 6, 5),
    random(4, 3, 6),
  ]],
  ["softmax", (x) => [x.softmax(0), x.logSoftmax(-1)], [random(3, 4)]],
  ["layerNorm", (x, weight, bias) => x.layerNorm(-1, { weight, bias }), [
    random(2, 3, 5),
    random(5),
    random(5),
  ]],
  ["layerNorm, two axes", (x, weight, bias) => x.layerNorm([-2, -1], { weight, bias }), [
    random(2, 3, 5),
    random(3, 5),
    random(5),
  ]],
  ["rmsNorm", (x, weight) => x.rmsNorm(-1, { weight }), [random(2, 3, 5), random(5)]],
  ["groupNorm", (x, weight, bias) => N.groupNorm(x, 2, { weight, bias }), [
    random(2, 4, 3),
    random(4),
    random(4),
  ]],
  [
    "batchNorm",
    (x, weight, bias) =>
      N.batchNorm(x, rm.zeros([3], { dtype: "float64" }), rm.ones([3], { dtype: "float64" }), {
        weight,
        bias,
      }),
    [random(2, 3, 4), random(3), random(3)],
  ],
  ["embedding", (w) => N.embedding(ints([[1, 2], [2, 0]]), w), [random(3, 4)]],
  ["crossEntropy", (x) => N.crossEntropy(x, ints([1, 0, 2])), [random(3, 4)]],
  ["rope", (x) => N.rope(x, angles), [random(2, 3, 4)]],
  [
    "lstm",
    (x, weightIh, weightHh, biasIh, biasHh) => N.lstm(x, { weightIh, weightHh, biasIh, biasHh }),
    [random(3, 2, 4), random(12, 4), random(12, 3), random(12), random(12)],
  ],
  ["gru", (x, weightIh, weightHh) => N.gru(x, { weightIh, weightHh }), [
    random(3, 2, 4),
    random(9, 4),
    random(9, 3),
  ]],
]);

check("indices and order", [
  ["median", (x) => x.median(0), [random(5, 3)]],
  ["quantile", (x) => x.quantile([0.3, 0.9], 0), [random(5, 3)]],
  ["sort", (x) => [x.sort(0, { descending: true }), x.sort(1)], [random(5, 3)]],
  ["topk", (x) => Object.values(x.topk(2, 0))[0], [random(5, 3)]],
  ["partition", (x) => x.partition(2, 0), [random(5, 3)]],
  ["cumulativeMax", (x) => x.cumulativeMax(0), [random(5, 3)]],
  ["mean with a mask", (x) => x.mean(0, { where: rm.tensor([[true], [false], [true]]) }), [
    random(3, 2),
  ]],
  ["an index", (x) => [x.slice([2, 0, 2]), x.slice("1:"), x.slice(":, ::-1")], [random(3, 2)]],
  ["parts", (x) => [x.slice(2), x.slice(0), x.slice(1)], [random(3, 2)]],
  ["some parts", (x) => [x.slice(":, 2"), x.slice(":, 0")], [random(2, 4)]],
  ["parts that overlap", (x) => [x.slice(":2"), x.slice("1:"), x.slice(":, ::-2")], [random(3, 4)]],
  ["a mask", (x) => x.slice(rm.tensor([true, false, true])), [random(3, 2)]],
  ["take", (x) => x.take(ints([[1, 1], [0, 2]]), 0), [random(3, 2)]],
  ["takeAlongAxis", (x) => x.takeAlongAxis(ints([[1, 1], [0, 0]]), 0), [random(3, 2)]],
  ["set", (x, v) => {
    const y = x.mul(1);
    y.set([ints([0, 2])], v);
    return y;
  }, [random(3, 2), random(2, 2)]],
  ["set, accumulate", (x, v) => {
    const y = x.mul(1);
    y.set([ints([0, 0])], v, { accumulate: true });
    return y;
  }, [random(3, 2), random(2, 2)]],
  ["set of a slice", (x, v) => {
    const y = x.mul(1);
    y.set(["1:", 0], v);
    y.slice(":1").mul_(3);
    return y;
  }, [random(3, 2), random(2)]],
  ["putAlongAxis_", (x, v) => {
    const y = x.mul(1);
    y.putAlongAxis_(ints([[0, 1]]), v, 0);
    return y;
  }, [random(3, 2), random(1, 2)]],
  ["repeat", (x) => x.repeat([1, 2, 3], 0), [random(3)]],
  ["gradient", (x) => R.gradient(x), [random(6)]],
  ["prod", (x) => [x.prod(), x.mul(0).prod(0)], [random(2, 3)]],
  ["out", (x) => {
    const out = rm.zeros([3], { dtype: "float64" });
    loose(x).mul(x, { out });
    loose(out).add_(x);
    return out;
  }, [random(3)]],
]);

/** Combinations of values: elements 0 and 2 get several, element 1 none, and some are equal. */
const SCATTERED: readonly T[] = [
  ints([[0, 0, 2, 2], [2, 2, 2, 0]]),
  ints([[0], [2]]),
];
const numbersOf = (x: T): T => R.where(x.greater(-0.7), x, NaN);
const zeroed = (x: T): T => x.mul(x.abs().greater(0.4));
check("combined values", [
  ...["sum", "prod", "max", "min", "mean"].flatMap((reduce) =>
    SCATTERED.flatMap((at, k) =>
      [true, false].map((includeSelf): Case => [
        `scatterReduce, ${reduce}, ${includeSelf}, ${k}`,
        (x, v) => R.scatterReduce(x, at, v, reduce, { axis: 1, includeSelf }),
        [random(2, 3), random(2, at.shape[1])],
      ])
    )
  ),
  ...[true, false].map((includeSelf): Case => [
    `scatterReduce, prod of zeros, ${includeSelf}`,
    (x, v) => R.scatterReduce(zeroed(x), SCATTERED[0], zeroed(v), "prod", { axis: 1, includeSelf }),
    [random(2, 3), random(2, 4)],
  ]),
  ["scatterReduce of one value", (x, v) => R.scatterReduce(x, ints([0, 0, 1]), v, "prod"), [
    random(3),
    random(1),
  ]],
  ["interp", (x, xs, ys) => R.interp(x, xs.cumulativeSum(0), ys), [
    uniform([2, 3], next, 0, 4),
    uniform([4], next, 0.5, 1.2),
    random(4),
  ]],
  [
    "interp, with ends",
    (x, xs, ys) => R.interp(x, xs.cumulativeSum(0), ys, { left: 7, right: 8 }),
    [
      uniform([5], next, 0, 4),
      uniform([3], next, 0.5, 1.2),
      random(3),
    ],
  ],
  ["interp, one point", (x, xs, ys) => R.interp(x, xs, ys), [random(3), random(1), random(1)]],
  ["nanquantile", (x) => numbersOf(x).nanquantile([0.2, 0.9], 1), [random(3, 6)]],
  ["nanmedian", (x) => numbersOf(x).nanmedian(0), [random(4, 5)]],
]);

const MODES = ["bilinear", "nearest", "bicubic"], PADDINGS = ["zeros", "border", "reflection"];
check("samples of images", [
  ...MODES.flatMap((mode) =>
    PADDINGS.flatMap((paddingMode) =>
      [true, false].map((alignCorners): Case => [
        `gridSample ${mode} ${paddingMode} ${alignCorners}`,
        (x, grid) => N.gridSample(x, grid, { mode, paddingMode, alignCorners }),
        [random(2, 2, 3, 4), uniform([2, 3, 2, 2], next, -1.9, 1.9)],
      ])
    )
  ),
  ["gridSample of lines", (x, grid) => N.gridSample(x, grid, { mode: "bicubic" }), [
    random(1, 2, 5),
    random(1, 3, 1),
  ]],
  ["gridSample of volumes", (x, grid) => N.gridSample(x, grid, { paddingMode: "border" }), [
    random(1, 2, 2, 3, 4),
    uniform([1, 2, 1, 2, 3], next, -1.4, 1.4),
  ]],
  ...[0, 2].flatMap((samplingRatio) =>
    [true, false].map((halfPixel): Case => [
      `roiAlign ${samplingRatio} ${halfPixel}`,
      (x, boxes) =>
        roiAlign("roiAlign", x, boxes.add(ROIS), ints([0, 1, 1, 0]), {
          bins: [2, 3],
          samplingRatio,
          spatialScale: 0.8,
          halfPixel,
          mode: "avg",
        }),
      [random(2, 2, 5, 6), uniform([4, 4], next, 0, 0.3)],
    ])
  ),
  ...["linear", "cubic", "nearest"].flatMap((mode) =>
    ["half_pixel", "align_corners", "tf_crop_and_resize"].map((coordinates): Case => [
      `resize ${mode} ${coordinates}`,
      (x) =>
        resize("resize", x, [{ axis: 1, to: 7 }, { axis: 2, to: 2, roi: [-0.2, 0.9] }], {
          mode: loose(mode),
          coordinates: loose(coordinates),
          antialias: coordinates === "half_pixel" && mode !== "nearest",
        }),
      [random(1, 4, 5)],
    ])
  ),
  ...["nearest", "nearest-exact", "bicubic", "area"].map((mode): Case => [
    `interpolate ${mode}`,
    (x) => N.interpolate(x, { size: [5, 2], mode }),
    [random(1, 2, 3, 4)],
  ]),
]);

test("second derivatives of samples and of combined values are those of differences", () => {
  const second = (name: string, f: (...params: T[]) => T, params: readonly T[]): void =>
    assertDerivatives(
      name,
      (...own) => loose(grad)((all: T[]) => f(...all).square().sum())(own),
      params,
      1e-5,
    );
  const x = random(1, 1, 3, 4), grid = uniform([1, 2, 2, 2], next, -1.3, 1.3);
  second("gridSample", (a, b) => N.gridSample(a, b, { mode: "bicubic" }), [x, grid]);
  for (const reduce of ["prod", "mean", "max"]) {
    second(
      `scatterReduce ${reduce}`,
      (a, v) => R.scatterReduce(a, SCATTERED[0], v, reduce, { axis: 1 }),
      [random(2, 3), random(2, 4)],
    );
  }
  second("interp", (a, ys) => R.interp(a, float64([0, 1, 3], [3]), ys.exp()), [
    uniform([3], next, 0.2, 2.8),
    random(3),
  ]);
  second("qr, wide", (a) => Object.values<T>(L.qr(a))[1], [random(2, 3)]);
  second("pinv, tall", (a) => L.pinv(a), [random(3, 2)]);
  second("pinv, wide", (a) => L.pinv(a), [random(2, 3)]);
  // Singular values that are equal.
  const equal = R.eye(3, 2, { dtype: "float64" });
  second("pinv of columns of length 1", (a) => L.pinv(a), [equal]);
  second("lstsq", (a, b) => L.lstsq(a, b).x, [random(3, 2), random(3, 2)]);
  second("lstsq of columns of length 1", (a, b) => L.lstsq(a, b).x, [equal, random(3, 1)]);
});

/** Queries, keys and values: heads of each, queries, keys, columns of keys and of values. */
const HEADS = [
  [[2, 2], 70, 70, 5, 7],
  [[4, 2], 50, 101, 33, 64],
  [[2, 1], 9, 3, 16, 16],
  [[1, 1], 1, 40, 8, 8],
  [[1, 1], 20, 20, 1, 1],
] as const;

testOnBackends("derivatives of attention in float32 are those in float64", () => {
  for (const [[heads, own], m, n, d, dv] of HEADS) {
    const params = [random(2, m, heads, d), random(2, n, own, d), random(2, n, own, dv)];
    const weight = random(2, heads, m, dv);
    for (const causal of [false, true]) {
      // Heads are axis 1 of attention, so that rows have strides.
      const loss = ([q, k, v]: T[], by: T): T => {
        const all = [q, k, v].map((x) => x.permute(0, 2, 1, 3)) as [T, T, T];
        return (N.attention(...all, { causal, scale: 0.4 }) as T).mul(by).sum();
      };
      const slope = loose(grad(loss as never));
      const both = (dtype: string, f: T): T[] =>
        f(params.map((x) => x.astype(dtype)), weight.astype(dtype));
      const twice = loose(
        grad(
          ((p: T[], by: T) =>
            slope(p, by).reduce(
              (sum: T, x: T) => sum.add(x.square().sum()),
              rm.tensor(0),
            )) as never,
        ),
      );
      for (const f of [slope, compile(slope), twice]) {
        const exact = both("float64", f === twice ? twice : slope);
        both("float32", f).forEach((one, i) => {
          const error = one.astype("float64").sub(exact[i]!).abs().max().item();
          const size = exact[i]!.abs().max().item();
          assert(error <= 2e-5 * (1 + size), `${[heads, own, m, n, d, dv, causal, i]}: ${error}`);
        });
      }
    }
  }
});

/** Norms: the shape, its first part that is left out, and the axes. */
const NORMS = [
  [[7, 16], 0, -1],
  [[9, 48], 2, 1],
  [[3, 5, 4, 8], 1, [-2, -1]],
  // Rows that are no whole vectors, and axes that are no rows.
  [[6, 21], 0, -1],
  [[16, 5], 0, 0],
  // Several tasks, and rows of several blocks.
  [[1500, 64], 0, -1],
  [[5, 2064], 0, -1],
] as const;

testOnBackends("derivatives of norms in float32 are those in float64", () => {
  const threads = rm.setThreads(1);
  try {
    for (const [shape, from, axis] of NORMS) {
      const sizes = [axis].flat().map((k) => shape.at(k)!);
      for (const [name, affine] of [["layerNorm", 2], ["layerNorm", 0], ["rmsNorm", 1]] as const) {
        const x = random(...shape).mul(3).add(2);
        const params = [x, random(...sizes), random(...sizes)].slice(0, 1 + affine);
        const by = random(...shape).slice(`${from}:`);
        const loss = ([x, weight, bias]: T[], by: T): T =>
          x.slice(`${from}:`)[name](axis, {
            epsilon: 1e-5,
            ...weight && { weight },
            ...bias && { bias },
          }).mul(by).sum();
        const slope = loose(grad(loss as never));
        const both = (dtype: string, f: T): T[] =>
          f(params.map((x) => x.astype(dtype)), by.astype(dtype));
        const exact = both("float64", slope), own = both("float32", slope);
        const about = `${name} of ${shape} by ${axis}, ${affine}`;
        own.forEach((one, i) => {
          const error = one.astype("float64").sub(exact[i]!).abs().max().item();
          const size = exact[i]!.abs().max().item();
          assert(error <= 2e-6 * (1 + size), `${about}, operand ${i}: ${error} of ${size}`);
        });
        const check = (f: T, how: string): void =>
          both("float32", f).forEach((one, i) =>
            assert(one.allclose(own[i], { rtol: 1e-5, atol: 1e-5 }), `${about}, ${i}, ${how}`)
          );
        using program = compile(slope) as T;
        check(program, "compiled");
        rm.setThreads(3);
        both("float32", slope).forEach((one, i) =>
          assert(one.equals(own[i]), `${about}, operand ${i}, of 3 threads`)
        );
        rm.setThreads(1);
        // Second derivatives, and the derivative by the weight alone.
        const twice = loose(grad(
          ((p: T[], by: T) =>
            slope(p, by).reduce(
              (sum: T, x: T) => sum.add(x.square().sum()),
              rm.tensor(0),
            )) as never,
        ));
        const second = both("float64", twice);
        both("float32", twice).forEach((one, i) => {
          const error = one.astype("float64").sub(second[i]!).abs().max().item();
          const size = second[i]!.abs().max().item();
          assert(error <= 1e-4 * (1 + size), `${about}, twice, operand ${i}: ${error} of ${size}`);
        });
        if (affine === 0) continue;
        const byWeight = (p: T[], by: T): T[] => [
          loose(grad(((w: T) => loss([p[0], w, ...p.slice(2)], by)) as never))(p[1]),
        ];
        const [weight] = both("float32", byWeight);
        assert(weight.allclose(own[1], { rtol: 1e-5, atol: 1e-4 }), `${about}: weight alone`);
      }
    }
  } finally {
    rm.setThreads(threads);
  }
});

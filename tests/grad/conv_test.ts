/**
 * Derivatives of convolutions and of pooling in float32, on every backend, beside those in float64, which
 * are made of other ops: by the weight and by the input, their own derivatives, sizes that are split into
 * tasks, and what is refused.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import { random, setThreads, ShapeError, tensor } from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import { dispatch } from "../../src/core/dispatch.ts";
import { grad } from "../../src/grad/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import { CONV_WEIGHT_GRAD, MAX_POOL_GRAD } from "../../src/ops/conv/gradients.ts";
import { ALL_BACKENDS, using } from "../ops/table/backends.ts";
import { RUNS_ALL } from "../support/amount.ts";
import { assertRefused, loose } from "../support.ts";
import { numbers, type T } from "./differences.ts";

const N: T = nn;
const normal = (seed: number, shape: readonly number[]): T =>
  loose(random.normal(random.key(seed), shape as T));

/** A convolution of random sizes. */
function problem(next: () => number) {
  const below = (n: number): number => Math.floor(next() * n);
  // Now and then groups with one channel, or many of few.
  const rank = 1 + below(3), many = below(4) === 0, groups = many ? 4 + below(40) : 1 + below(3);
  const most = [24, 11, 6][rank - 1]!;
  const list = (make: () => number): number[] => Array.from({ length: rank }, make);
  const kernel = list(() => 1 + below(rank === 1 ? 5 : 3));
  const [stride, dilation] = [list(() => 1 + below(3)), list(() => 1 + below(3))];
  const padding = list(() => 0).map(() => [below(3), below(3)]);
  const window = kernel.map((k, i) => (k - 1) * dilation[i]! + 1);
  const sizes = window.map((least) => least + below(most));
  const [images, channels, rows] = [
    1 + below(3),
    many ? 1 + below(2) : 1 + below(7),
    many ? 1 + below(3) : 1 + below(21),
  ];
  return {
    f: [N.conv1d, N.conv2d, N.conv3d][rank - 1],
    transposed: [N.convTranspose1d, N.convTranspose2d, N.convTranspose3d][rank - 1],
    x: [images, channels * groups, ...sizes],
    weight: [rows * groups, channels, ...kernel],
    options: { stride, dilation, padding, groups },
  };
}

/** Whether float32 is close to float64, relative to the largest element. */
function assertNear(made: T, expected: T, about: string): void {
  assertEquals([...made.shape], [...expected.shape], about);
  const [a, b] = [made, expected].map((one) => one.to("cpu").astype("float64").contiguous());
  const size: number = b.abs().max().item() + 1e-3;
  const error: number = a.sub(b).abs().max().item();
  assert(error <= 2e-6 * size, `${about}: ${error} of ${size}`);
}

/** The derivatives by both inputs, and by both of those derivatives. */
function derivatives(f: T, x: T, w: T, options: T): T[] {
  const loss = (x: T, w: T): T => {
    const y = f(x, w, undefined, options);
    return y.mul(y).sum();
  };
  const first = (x: T, w: T): T[] => loose(grad)(([x, w]: T[]) => loss(x, w))([x, w]);
  const second = loose(grad)(([x, w]: T[]) => {
    const [a, b] = first(x, w);
    return a.mul(x).sum().add(b.mul(b).sum());
  })([x, w]);
  return [...first(x, w), ...second];
}

for (const { name, on } of ALL_BACKENDS) {
  test(`derivatives of convolutions in float32 are those in float64: ${name}`, () =>
    using(on, () => {
      const device = typeof on === "string" ? on : "cpu";
      const next = numbers(11);
      for (let i = 0; i < (RUNS_ALL ? 60 : 20); i++) {
        const { f, transposed, x, weight, options } = problem(next);
        const given = [normal(i, x), normal(i + 100, weight).div(4)] as const;
        const by = i % 4 === 3 ? transposed : f;
        // The input of a transposed convolution has the channels that the weight gives.
        const first = by === f ? given[0] : normal(i, [x[0]!, weight[0]!, ...x.slice(2)]);
        const about = JSON.stringify({ x: first.shape, weight, options, transposed: by !== f });
        const own = by === f ? options : { ...options, padding: 0 };
        const expected = derivatives(
          by,
          first.astype("float64"),
          given[1].astype("float64"),
          own,
        );
        const made = derivatives(by, first.to(device), given[1].to(device), own);
        made.forEach((one, k) => assertNear(one, expected[k], `${about}, derivative ${k}`));
      }
    }));

  test(`derivatives of maxPool in float32 are those in float64: ${name}`, () =>
    using(on, () => {
      const device = typeof on === "string" ? on : "cpu";
      const cases: [f: T, shape: number[], size: number, options: T][] = [
        [N.maxPool2d, [2, 3, 8, 8], 2, {}],
        [N.maxPool2d, [2, 3, 7, 29], 2, {}],
        [N.maxPool2d, [2, 5, 6, 6], 2, {}],
        [N.maxPool2d, [1, 2, 9, 12], 3, { stride: 2, padding: 1 }],
        [N.maxPool2d, [1, 2, 9, 12], 2, { stride: 1, dilation: 2 }],
        [N.maxPool1d, [3, 2, 31], 4, { stride: 3, padding: 2 }],
        [N.maxPool3d, [1, 2, 5, 6, 7], 2, { stride: 2 }],
      ];
      for (const [f, shape, size, options] of cases) {
        // Few values, so that many are equal; some are NaN.
        const whole = normal(shape.at(-1)!, shape).mul(2).round();
        for (const x of [whole, whole.div(whole)]) {
          const sum = (x: T, y: T): T => f(x.mul(y), size, options).mul(3).square().sum();
          const byX = (x: T, y: T): T => loose(grad)(([x, y]: T[]) => sum(x, y))([x, y])[1];
          const twice = (x: T, y: T): T => loose(grad)((y: T) => byX(x, y).mul(x).sum())(y);
          const y = normal(5, shape).round();
          for (const made of [byX, twice]) {
            const expected = made(x.astype("float64"), y.astype("float64"));
            const found = made(x.to(device), y.to(device)).to("cpu").astype("float64");
            assert(found.allclose(expected, { equalNan: true }), `${shape} by ${size}`);
          }
        }
      }
    }));
}

test("derivatives of convolutions that are split into tasks depend on no threads", () => {
  const threads = setThreads(1);
  try {
    // Images, channels of a group, rows, size, kernel, stride, groups: parts of pixels, blocks of channels
    // and of rows.
    const cases = [
      [6, 32, 64, 28, 3, 1, 1],
      [3, 140, 150, 9, 3, 1, 1],
      [70, 20, 40, 3, 2, 1, 1],
      [2, 30, 33, 40, 5, 2, 1],
      [1, 4, 260, 70, 1, 3, 1],
      // Groups with few channels.
      [9, 1, 70, 29, 3, 2, 70],
      [3, 2, 90, 17, 5, 1, 45],
      [2, 4, 48, 60, 3, 1, 12],
    ] as const;
    for (const [images, channels, rows, size, kernel, stride, groups] of cases) {
      const x = normal(1, [images, channels * groups, size, size]);
      const w = normal(2, [rows, channels, kernel, kernel]).div(kernel * Math.sqrt(channels));
      const options = { padding: Math.floor(kernel / 2), stride, groups };
      const loss = ([x, w]: T[]): T => N.conv2d(x, w, undefined, options).square().sum();
      const by = (...both: T[]): T[] => loose(grad)(loss)(both);
      const one = by(x, w);
      const expected = by(x.astype("float64"), w.astype("float64"));
      one.forEach((own, k) => assertNear(own, expected[k], `${rows} rows at ${size}: ${k}`));
      for (const count of [2, 5]) {
        setThreads(count);
        by(x, w).forEach((own, k) => assert(own.equals(one[k]), `${count} threads, ${size}: ${k}`));
      }
      setThreads(1);
      using program = compile((x: T, w: T) => by(x, w)) as T;
      program(x, w).forEach((own: T, k: number) => assert(own.equals(one[k]), `compiled: ${k}`));
    }
  } finally {
    setThreads(threads);
  }
});

test("derivatives of results that do not fit are refused, and nothing changes", () => {
  const x = normal(1, [2, 4, 8, 8]), g = normal(2, [2, 6, 6, 6]);
  const plain = { stride: [1, 1], padding: [[0, 0], [0, 0]], dilation: [1, 1], groups: 1 };
  const by = (g: T, weight: number[]): T =>
    dispatch(CONV_WEIGHT_GRAD, [x, g], { ...plain, weight } as T);
  assertEquals([...by(g, [6, 4, 3, 3]).layout.shape], [6, 4, 3, 3]);
  for (const weight of [[6, 4, 4, 3], [6, 2, 3, 3], [5, 4, 3, 3], [6, 4, 3]]) {
    const parts = ["convWeightGrad", "[2, 4, 8, 8]", "[2, 6, 6, 6]", `[${weight.join(", ")}]`];
    assertRefused(() => by(g, weight), ShapeError, parts, x);
  }
  assertRefused(() => by(g.slice("1:"), [6, 4, 3, 3]), ShapeError, ["[1, 6, 6, 6]"], x);
  const size = { size: 2, stride: 2, dilation: 1, before: 0, after: 0, ceil: false, padded: false };
  const pool = (g: T): T => dispatch(MAX_POOL_GRAD, [x, g], { windows: [size, size] } as T);
  assertRefused(() => pool(g), ShapeError, ["maxPoolGrad", "[2, 6, 6, 6]", "[2, 4, 4, 4]"], x);
});

test("the bias of a transposed convolution is added once", () => {
  for (const [channels, rows, stride] of [[70, 9, 1], [200, 130, 2], [3, 4, 3]] as const) {
    const x = normal(1, [2, channels, 5, 7]), w = normal(2, [channels, rows, 3, 3]).div(channels);
    const bias = normal(3, [rows]);
    const made: T = N.convTranspose2d(x, w, bias, { stride });
    const [a, b, c] = [x, w, bias].map((one) => one.astype("float64"));
    assertNear(made, N.convTranspose2d(a, b, c, { stride }), `${channels} channels by ${stride}`);
  }
  const none = N.convTranspose1d(tensor([[[1, 2]]]), normal(1, [1, 4, 1]), tensor([1, 2, 3, 4]));
  assertEquals([...none.shape], [1, 4, 2]);
});

/** Pooling after relu: sizes, windows, their options, and the planes that a program keeps at once. */
const POOLED = [
  // The derivative is written over what was pooled.
  [[2, 3, 28, 28], 2, {}, 1],
  [[3, 8, 8, 8], 2, {}, 1],
  [[2, 3, 12, 22], 2, {}, 1],
  // Windows that overlap, leave elements out or are few, and rows that are long.
  [[2, 3, 28, 28], 3, { stride: 2, padding: 1 }, 2],
  [[2, 3, 27, 28], 2, {}, 2],
  [[2, 3, 28, 29], 2, {}, 2],
  [[2, 9, 6, 6], 2, {}, 2],
  [[1, 1, 4, 1026], 2, {}, 2],
] as const;

test("derivatives of pooling after relu, compiled and not, with equal elements and no numbers", () => {
  for (const [shape, size, options, planes] of POOLED) {
    // Many elements are equal, 0, or negative in a whole window.
    const x = normal(5, shape).mul(2).round().add(loose(tensor)(0)).copy();
    x.set([0, 0, 0, 1], NaN);
    x.set([0, 0, 1, 3], Infinity);
    const pool = (x: T): T => N.maxPool2d(x, size, options);
    const g = normal(6, [...pool(x).shape]);
    g.set([0, 0, 0, 0], Infinity);
    const scale = normal(7, [1]);
    // The product keeps what relu gave out of memory outside.
    const loss = (x: T, g: T, scale: T): T =>
      pool(x.mul(scale.abs()).add(0.25).relu()).mul(g).sum();
    const slope = loose(grad)(loss);
    using program = compile((x: T, g: T, scale: T) => slope(x, g, scale).mul(3)) as T;
    const own = program(x, g, scale), expected = slope(x, g, scale).mul(3);
    assert(own.equals(expected, { equalNan: true }), `${shape} by ${size}`);
    const [{ data }] = program.explain(), bytes = x.size * 4;
    // Without the library, a program has no arena.
    if (data.bytes.arena === 0) continue;
    assertEquals(Math.floor(data.bytes.arena / bytes), planes, `${shape} by ${size}`);
  }
});

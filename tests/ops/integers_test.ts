/**
 * Random products and convolutions of bytes with zero points, against sums of integers and the bytes of
 * these, on every instruction set and backend; their errors.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { test } from "node:test";
import {
  ArgumentError,
  type DType,
  DTypeError,
  ones,
  ShapeError,
  tensor,
  zeros,
} from "../../mod.ts";
import { convInteger, packConv } from "../../src/ops/conv/bytes.ts";
import {
  type ByteOutput,
  matmulInteger,
  packBytes,
  type Requantization,
} from "../../src/ops/linear/bytes.ts";
import { compile } from "../../src/compile/mod.ts";
import { amount } from "../support/amount.ts";
import { type Any, assertRefused, loose } from "../support.ts";
import { ALL_BACKENDS, using } from "./table/backends.ts";

/** How many products and convolutions each native backend gets; others get every tenth. */
const CASES = amount(100, 10_000);
const OTHERS = 10;

/** Integers from 0 to below n, always the same ones. */
function randomFrom(seed: number): (n: number) => number {
  let state = (Math.imul(seed, 0x9e3779b1) ^ 0x5bd1e995) >>> 0;
  return (n) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor(state / 2 ** 32 * n);
  };
}

type Bytes = Int8Array | Uint8Array;

/** Bytes of any value, only those at the ends of the range, or of a range of 7 bits. */
function bytes(below: (n: number) => number, count: number): Bytes {
  const kind = below(5);
  const value = [
    () => 255 * below(2),
    () => 64 + 128 * below(2),
    () => 70 + below(129),
  ][kind] ?? (() => below(256));
  const all = Uint8Array.from({ length: count }, value);
  return below(2) === 0 ? all : new Int8Array(all.buffer).map((x) => x);
}

const sized = (shape: readonly number[]): number => shape.reduce((a, b) => a * b, 1);
/** A zero point for all, for each, or none. */
const zerosOf = (below: (n: number) => number, like: Bytes, each: number): Bytes | undefined => {
  const count = [0, 1, each][below(3)]!;
  const all = Uint8Array.from({ length: count }, () => below(256));
  if (count === 0) return undefined;
  return like instanceof Uint8Array ? all : new Int8Array(all.buffer).map((x) => x);
};
const at = (zeros: Bytes | undefined, i: number): number =>
  zeros === undefined ? 0 : zeros[zeros.length === 1 ? 0 : i]!;

/** Operands: their elements, undefined for one that is absent, and their shapes. */
type Operands = readonly [
  data: Bytes | Int32Array | Float32Array | undefined,
  shape: readonly number[],
][];

/** A case: its operands, what runs it, and the sums. */
interface Case {
  readonly what: string;
  readonly operands: Operands;
  run(operands: (Any | undefined)[], output?: Requantization): Any;
  readonly wanted: Int32Array;
  readonly shape: readonly number[];
  /** How many channels there are, and the channel of an element of the result. */
  readonly channels: number;
  channelOf(i: number): number;
}

/** How sums become bytes, with the bias and the factor of each channel, and the bytes of a case. */
interface Output {
  readonly to: ByteOutput;
  readonly operands: Operands;
  readonly wanted: Bytes;
}

/** The nearest integer, the even one of two. */
function nearest(x: number): number {
  const low = Math.floor(x);
  return x - low === 0.5 ? low + Math.abs(low % 2) : Math.round(x);
}

function outputOf(below: (n: number) => number, one: Case): Output {
  const { channels, wanted } = one;
  const isSigned = below(2) === 0, [least, most] = isSigned ? [-128, 127] : [0, 255];
  const low = least! + (below(2) === 0 ? 0 : below(100)), high = most! - below(2) * below(100);
  const zero = least! + below(256);
  const largest = wanted.reduce((a, b) => Math.max(a, Math.abs(b)), 1);
  // Powers of 2 give sums between two bytes; some factors leave the range.
  const factors = Float32Array.from({ length: channels }, () => {
    if (below(4) === 0) return 2 ** -(1 + below(12));
    return (0.2 + below(1000) / 400) * 200 / largest;
  });
  const range = below(3) === 0 ? 2 ** 32 : 2 * largest + 1;
  const bias = below(3) === 0
    ? undefined
    : Int32Array.from({ length: channels }, () => below(range) - Math.floor(range / 2));
  const bytes = wanted.map((sum, i) => {
    const channel = one.channelOf(i);
    const moved = sum + (bias?.[channel] ?? 0) | 0;
    const scaled = Math.fround(Math.fround(moved) * factors[channel]!);
    return Math.min(Math.max(nearest(scaled) + zero, low), high);
  });
  return {
    to: { dtype: isSigned ? "int8" : "uint8", zero, low, high },
    operands: [[bias, [channels]], [factors, [channels]]],
    wanted: isSigned ? Int8Array.from(bytes) : Uint8Array.from(bytes),
  };
}

function product(below: (n: number) => number): Case {
  const [m, n] = [1 + below(20), 1 + below(40)];
  // Some sums are longer than a pass.
  const k = below(20) === 0 ? 1000 + below(300) : 1 + below(70);
  const [a, b] = [bytes(below, m * k), bytes(below, k * n)];
  const [p, q] = [zerosOf(below, a, m), zerosOf(below, b, n)];
  const wanted = new Int32Array(m * n);
  for (let i = 0; i < m; i++) {
    for (let j = 0; j < n; j++) {
      let sum = 0;
      for (let t = 0; t < k; t++) sum += (a[i * k + t]! - at(p, i)) * (b[t * n + j]! - at(q, j));
      wanted[i * n + j] = sum;
    }
  }
  return {
    what: `[${m}, ${k}] by [${k}, ${n}]`,
    operands: [[a, [m, k]], [b, [k, n]], [p, [p?.length ?? 0]], [q, [q?.length ?? 0]]],
    run: ([x, y, px, qy], output) =>
      matmulInteger("product", x, packBytes("pack", y, qy), px, undefined, output),
    ...{ wanted, shape: [m, n], channels: n, channelOf: (i) => i % n },
  };
}

function convolution(below: (n: number) => number): Case {
  // Many channels with kernels of their own, of weights without zero points, have code of their own.
  const rank = 1 + below(3), depthwise = below(3) === 0, plain = depthwise && below(4) > 0;
  const groups = plain ? 8 + below(25) : below(2) === 0 ? 1 : 1 + below(6);
  const channels = depthwise ? 1 : 1 + below(9);
  const rows = plain ? 1 + below(2) : 1 + below(below(6) === 0 ? 40 : 6);
  const list = (one: (i: number) => number) => Array.from({ length: rank }, (_, i) => one(i));
  const kernel = list(() => 1 + below(rank === 1 ? 7 : 4));
  const [stride, dilation] = [list(() => 1 + below(3)), list(() => 1 + below(plain ? 1 : 3))];
  const padding = list(() => 0).map((): [number, number] => [below(4), below(4)]);
  const size = list((i) => {
    const least = (kernel[i]! - 1) * dilation[i]! + 1 - padding[i]![0] - padding[i]![1];
    return Math.max(1, least) + below([70, 16, 5][rank - 1]!);
  });
  const out = list((i) => {
    const whole = size[i]! + padding[i]![0] + padding[i]![1] - (kernel[i]! - 1) * dilation[i]! - 1;
    return Math.floor(whole / stride[i]!) + 1;
  });
  const images = 1 + below(2), taps = sized(kernel), places = sized(out), plane = sized(size);
  const x = bytes(below, images * groups * channels * plane);
  const given = bytes(below, groups * rows * channels * taps);
  const w = plain ? new Int8Array(given.buffer) : given;
  const [p, q] = [zerosOf(below, x, 1), plain ? undefined : zerosOf(below, w, groups * rows)];
  // Where each tap of each window lies in a plane of x; -1 in the padding.
  const found = new Int32Array(places * taps);
  for (let i = 0; i < places * taps; i++) {
    let [place, tap, where, step] = [Math.floor(i / taps), i % taps, 0, 1];
    for (let axis = rank - 1; axis >= 0; axis--) {
      const here = place % out[axis]! * stride[axis]! + tap % kernel[axis]! * dilation[axis]! -
        padding[axis]![0];
      if (here < 0 || here >= size[axis]!) where = -1;
      if (where >= 0) where += here * step;
      step *= size[axis]!;
      place = Math.floor(place / out[axis]!);
      tap = Math.floor(tap / kernel[axis]!);
    }
    found[i] = where;
  }
  const wanted = new Int32Array(images * groups * rows * places);
  wanted.forEach((_, i) => {
    const row = Math.floor(i / places), image = Math.floor(row / rows / groups);
    const o = row % (groups * rows), group = Math.floor(o / rows);
    let sum = 0;
    for (let c = 0; c < channels; c++) {
      const from = ((image * groups + group) * channels + c) * plane;
      for (let t = 0; t < taps; t++) {
        const where = found[i % places * taps + t]!;
        if (where < 0) continue;
        sum += (x[from + where]! - at(p, 0)) * (w[(o * channels + c) * taps + t]! - at(q, o));
      }
    }
    wanted[i] = sum;
  });
  const attributes = { stride, padding, dilation, groups };
  const shape = [groups * rows, channels, ...kernel];
  return {
    what: JSON.stringify({ images, size, shape, ...attributes }),
    operands: [
      [x, [images, groups * channels, ...size]],
      [w, shape],
      [p, []],
      [q, [q?.length ?? 0]],
    ],
    run: ([y, v, py, qv], output) =>
      convInteger("conv", y, packConv("pack", v, qv), py, attributes, output),
    ...{ wanted, shape: [images, groups * rows, ...out] },
    ...{
      channels: groups * rows,
      channelOf: (i: number) => Math.floor(i / places) % (groups * rows),
    },
  };
}

for (const [kind, make] of Object.entries({ products: product, convolutions: convolution })) {
  test(`random ${kind} of bytes are exact`, () => {
    for (let i = 0; i < CASES; i++) {
      const below = randomFrom(i);
      const one = make(below), bytes = outputOf(below, one);
      for (const { name, on } of ALL_BACKENDS) {
        const isNative = name.startsWith("native") || name.startsWith("wasm");
        if (!isNative && i % OTHERS !== 0) continue;
        using(on, () => {
          const device = loose(typeof on === "string" ? on : "cpu");
          const operands = [...one.operands, ...bytes.operands].map(([data, shape]) =>
            data && loose(tensor(data as Any, { shape } as Any)).to(device)
          );
          const check = (made: Any, dtype: DType, wanted: Bytes | Int32Array): void => {
            const all = made.to("cpu");
            assertEquals([all.dtype, [...all.shape]], [dtype, one.shape], `${i}, ${name}`);
            const got = all.toTypedArray() as Int32Array;
            const wrong = wanted.findIndex((value, k) => value !== got[k]);
            if (wrong < 0) return;
            throw new Error(
              `case ${i}, ${name}, ${one.what} to ${dtype}: element ${wrong} is ${
                got[wrong]
              }, not ${wanted[wrong]}`,
            );
          };
          const quantize = (given: (Any | undefined)[]): Any => {
            const [bias, factors] = given.slice(one.operands.length);
            return one.run(given, { to: bytes.to, factors, bias });
          };
          check(one.run(operands), "int32", one.wanted);
          check(quantize(operands), bytes.to.dtype, bytes.wanted);
          if (i % 20 !== 0) return;
          for (const run of [one.run, quantize]) {
            const program = compile((...given: Any[]) => {
              let k = 0;
              return run(operands.map((x) => x && given[k++]));
            });
            const made = program(...operands.filter((x) => x !== undefined));
            if (run === quantize) check(made, bytes.to.dtype, bytes.wanted);
            else check(made, "int32", one.wanted);
            program.dispose();
          }
        });
      }
    }
  });
}

test("convolutions of bytes refuse what does not fit", () => {
  const x = ones([1, 4, 5, 5], { dtype: "uint8" });
  const w = ones([6, 2, 3, 3], { dtype: "int8" });
  const usual = { stride: [1, 1], padding: [[0, 0], [0, 0]], dilation: [1, 1], groups: 2 };
  const conv = (given: Any, weight: Any, other: Any = {}, zero?: Any) => () =>
    convInteger("conv", given, packConv("pack", weight), zero, { ...usual, ...other });
  assertEquals(loose(conv(x, w)()).sum().item(), 6 * 9 * 18);
  assertRefused(conv(x.astype("float32"), w), DTypeError, ["float32", "int8 and uint8"], x);
  assertRefused(conv(x, w.astype("int32")), DTypeError, ["int32", "int8 and uint8"], x);
  assertRefused(conv(x, ones([6, 2], { dtype: "int8" })), ShapeError, ["[6, 2]"], x);
  assertRefused(conv(x, w, { groups: 1 }), ShapeError, ["4 channels in 1 groups"], x);
  assertRefused(
    conv(x, ones([5, 2, 3, 3], { dtype: "int8" })),
    ShapeError,
    ["no multiple of 2"],
    x,
  );
  assertRefused(conv(x, w, { dilation: [3, 1] }), ShapeError, ["axis 2", "5"], x);
  assertRefused(conv(x, w, { stride: [0, 1] }), ArgumentError, ["stride [0, 1]"], x);
  assertRefused(conv(x, w, { padding: [[0, 0], [-1, 0]] }), ArgumentError, ["[-1, 0]"], x);
  const zeroOf = (dtype: DType, ...shape: number[]) => zeros(shape, { dtype });
  assertRefused(conv(x, w, {}, zeroOf("int8")), DTypeError, ["uint8", "int8"], x);
  assertRefused(conv(x, w, {}, zeroOf("uint8", 2)), ShapeError, ["zero point", "[2]"], x);
  assertRefused(conv(x.slice(0), w), ShapeError, ["as many axes"], x);
  const to = { dtype: "uint8", zero: 0, low: 0, high: 255 } as const;
  const factors = ones([6]), bias = zeros([6], { dtype: "int32" });
  const quantized = (output: Requantization) => () =>
    convInteger("conv", x, packConv("pack", w), undefined, usual as Any, output);
  assertEquals(loose(quantized({ to, factors, bias })()).sum().item(), 6 * 9 * 18);
  const refused: Requantization[] = [
    { to, factors: ones([5]), bias },
    { to, factors: ones([6], { dtype: "float64" }), bias },
    { to, factors, bias: zeros([6]) },
    { to, factors, bias: zeros([1], { dtype: "int32" }) },
  ];
  for (const output of refused) {
    assertRefused(quantized(output), ShapeError, ["6 factors of float32"], x);
  }
});

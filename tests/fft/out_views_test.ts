/**
 * `out` as a part of a longer tensor: kernels write that part, and nothing beside it, also if the part
 * overlaps an input.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { describe, it } from "node:test";
import * as rm from "../../mod.ts";
import { BACKENDS, using } from "../ops/table/backends.ts";
import { type Any, loose } from "../support.ts";

const R: Any = rm;

const ramp = (shape: number[], dtype = "float32"): Any => {
  const size = shape.reduce((a, b) => a * b, 1);
  if (dtype === "complex64") return R.complex(ramp(shape), ramp(shape).mul(-0.5).add(1));
  return R.arange(0, size, 1, { dtype }).reshape(shape).add(1).copy();
};

/** Calls of inputs, and perhaps of options. */
const CALLS: Record<string, [inputs: Any[], call: (xs: Any[], options?: Any) => Any]> = {
  ...Object.fromEntries(
    ["fft", "ifft", "hfft", "irfft", "fftn", "ifft2", "irfftn"].map((name) => [
      name,
      [[ramp([3, 5], "complex64")], ([x]: Any[], options?: Any) => R.fft[name](x, options)],
    ]),
  ),
  "fft of 130": [[ramp([2, 130], "complex64")], ([x], o) => R.fft.fft(x, o)],
  "fft along axis 0": [
    [ramp([3, 5], "complex64")],
    ([x], o) => R.fft.fft(x, { axis: 0, ...o }),
  ],
  rfft: [[ramp([3, 5])], ([x], o) => R.fft.rfft(x, o)],
  ihfft: [[ramp([3, 5])], ([x], o) => R.fft.ihfft(x, o)],
  rfftn: [[ramp([3, 5])], ([x], o) => R.fft.rfftn(x, o)],
  ...Object.fromEntries(
    ["float32", "float64", "int32", "int64", "complex64"].flatMap((dtype) =>
      ["convolve", "correlate"].map((name) => [
        `${name} ${dtype}`,
        [[ramp([2, 7], dtype), ramp([3], dtype)], ([x, y]: Any[], o?: Any) => R[name](x, y, o)],
      ])
    ),
  ),
  polyval: [[ramp([3]), ramp([2, 2])], ([p, x], o) => R.polyval(p, x, o)],
  kron: [[ramp([2, 2]), ramp([2, 2])], ([x, y], o) => R.kron(x, y, o)],
  inner: [[ramp([3, 3]), ramp([3, 3])], ([x, y], o) => R.inner(x, y, o)],
  tensordot: [[ramp([3, 3]), ramp([3, 3])], ([x, y], o) => R.tensordot(x, y, 1, o)],
  vecdot: [[ramp([4, 4]), ramp([4, 4])], ([x, y], o) => R.vecdot(x, y, -1, o)],
  cross: [[ramp([4, 3]), ramp([4, 3])], ([x, y], o) => R.cross(x, y, -1, o)],
  trace: [[ramp([4, 4, 2])], ([x], o) => R.trace(x, o)],
  matmul: [[ramp([4, 4], "complex64"), ramp([4, 4], "complex64")], ([x, y], o) => x.matmul(y, o)],
  softmax: [[ramp([8, 90])], ([x], o) => x.softmax(-1, o)],
  logSoftmax: [[ramp([4, 4])], ([x], o) => x.logSoftmax(-1, o)],
  layerNorm: [[ramp([8, 90])], ([x], o) => x.layerNorm(-1, o)],
  rmsNorm: [[ramp([4, 4])], ([x], o) => x.rmsNorm(-1, o)],
  cumulativeSum: [[ramp([4, 4])], ([x], o) => x.cumulativeSum(0, o)],
  sum: [[ramp([4, 4])], ([x], o) => x.sum(0, o)],
  isin: [[ramp([9]), ramp([4])], ([x, y], o) => R.isin(x, y, o)],
  quantile: [[ramp([4, 4])], ([x], o) => x.quantile([0.2, 0.9], 0, o)],
  searchsorted: [[ramp([9]), ramp([4])], ([x, y], o) => R.searchsorted(x, y, o)],
};

const numbers = (x: Any): number[] => [...x.copy().toTypedArray() as number[]].map(Number);

function assertClose(x: Any, want: Any, about: string): void {
  const [a, b] = [numbers(x), numbers(want)];
  const most = Math.max(1, ...b.map(Math.abs));
  a.forEach((one, i) =>
    assert(Math.abs(one - b[i]!) <= 1e-5 * most, `${about}: [${a}], not [${b}]`)
  );
}

describe("out is a part of a longer tensor", () => {
  for (const { name, on } of BACKENDS.filter(({ name }) => !/interpreter|mirror/.test(name))) {
    it(name, () =>
      using(on, () => {
        for (const [about, [inputs, call]] of Object.entries(CALLS)) {
          const want = call(inputs);
          const { size, dtype, shape } = want;
          const fill = dtype === "bool" ? true : 77;
          for (const step of [1, 2]) {
            const wide = loose(rm.full([step * size + 6], fill, { dtype }));
            const strides = shape.map((_: number, i: number) =>
              step * shape.slice(i + 1).reduce((a: number, b: number) => a * b, 1)
            );
            const out = R.asStrided(wide.slice("3:"), shape, strides);
            assert(call(inputs, { out }) === out, about);
            assertClose(out, want, about);
            out.fill_(fill);
            const rest = numbers(loose(rm.full([step * size + 6], fill, { dtype })));
            assertEquals(numbers(wide), rest, `${about}: elements beside out`);
          }
          // An input in the same memory, one element before, or reversed.
          inputs.forEach((input: Any, k: number) => {
            if (input.dtype !== dtype) return;
            for (const isReversed of [false, true]) {
              const wide = loose(rm.zeros([input.size + size + 1], { dtype }));
              const part = wide.slice(`:${input.size}`).reshape(input.shape);
              const place = isReversed
                ? part.flip(input.shape.map((_: number, i: number) => i))
                : part;
              place.set(["..."], input);
              const out = wide.slice(`1:${1 + size}`).reshape(shape);
              call(inputs.map((x: Any, i: number) => i === k ? place : x), { out });
              assertClose(out, want, `${about} over input ${k}`);
            }
          });
        }
      }));
  }
});

/**
 * Reductions and scans of lengths around every boundary of the loops of the CUDA kernels: packs,
 * rounds, lanes and parts. Whole numbers must give what the CPU gives; other numbers must give the
 * same bits wherever the memory begins, because the order of additions depends on sizes and strides
 * only. `npm test` takes a sample of the columns, and of the widths of models.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import { finfo, tensor } from "../../../mod.ts";
import { setBusyThreads } from "../../../src/backend/cuda/reduce.ts";
import { DTYPE, type DType } from "../../../src/base/dtype.ts";
import { generator } from "../../ops/table/operands.ts";
import { isSampled } from "../../support/amount.ts";
import { type Any, loose } from "../../support.ts";
import { openCudaForTests, whyNoCuda } from "../support/device.ts";
import { assertListed, recordKernels } from "../support/kernels.ts";

const reason = whyNoCuda();
if (reason === undefined) openCudaForTests();
else console.log(`Rounds of reductions on CUDA are not tested: ${reason}`);
const check = reason === undefined ? test : test.skip;
const launched = recordKernels();

const DTYPES: readonly DType[] = ["int8", "bfloat16", "float32", "float64"];
const FOLDS = ["sum", "max", "argmax", "argmin", "var"] as const;

/** Widths of models, of which most are no multiple of what a block processes in a round. */
const WIDTHS = [640, 768, 1280, 1536, 2304, 2560, 3000, 3072, 5120, 6144, 7168, 11_008];

/** Lengths around multiples of `size`. */
const around = (size: number): number[] => [size - 1, size, size + 1];

/** Lengths of rows around the ends of packs, of a lane's round, and of a block's. */
function lengthsOf(dtype: DType): number[] {
  const pack = Math.min(16 / DTYPE[dtype].bytes, 8), round = 4 * pack;
  const ends = [pack, 2 * pack, 3 * pack, round, 2 * round, 3 * round, 5 * round, 64 * round];
  const all = [1, ...ends.flatMap(around), 256 * round - pack, ...around(256 * round), ...WIDTHS];
  return [...new Set(all)].filter((n) => n > 0);
}

/** Whole numbers with many equal ones, and rows of special values. */
function whole(dtype: DType, n: number, rows: number): number[] {
  const draw = generator(n);
  const values = Array.from({ length: rows * n }, () => Math.floor(draw() * 5) - 2);
  if (DTYPE[dtype].kind === "f") {
    for (let i = 0; i < n; i++) {
      values[n + i] = -Infinity;
      values[2 * n + i] = i >= n - 3 ? NaN : i % 7;
    }
  }
  return values;
}

/** Numbers whose sum depends on the order of additions, even in doubles. */
function uneven(n: number): number[] {
  const draw = generator(n);
  return Array.from({ length: n }, () => (draw() - 0.5) * 2 ** Math.floor(draw() * 60));
}

function made(values: readonly number[], dtype: DType): Any {
  return loose(tensor(loose(values), { dtype: loose("float64") })).astype(dtype);
}

/** Throws unless the values of two tensors are the same. */
function assertSame(actual: Any, expected: Any, what: string): void {
  const [a, b] = [actual, expected].map((one) => one.cpu().reshape([-1]).toArray());
  assertEquals(a.length, b.length, what);
  const at = b.findIndex((value: unknown, i: number) => !Object.is(value, a[i]));
  if (at >= 0) throw new Error(`${what}: element ${at} is ${a[at]}, expected ${b[at]}`);
}

/** Throws unless the folds of `there`, on the device, and of `here` are the same, or variances near. */
function assertLikeCpu(
  there: Any,
  here: Any,
  name: typeof FOLDS[number],
  axes: number | readonly number[],
  what: string,
): void {
  const [actual, expected] = [there[name](axes).cpu(), here[name](axes)];
  if (name !== "var") return assertSame(actual, expected, what);
  const near = { rtol: 8 * finfo(here.dtype).eps, atol: 0, equalNan: true };
  assert(actual.isclose(expected, near).all().item(), `${what}: ${actual}, expected ${expected}`);
}

for (const name of FOLDS) {
  check(`along rows of every length on CUDA: ${name}`, () => {
    for (const dtype of DTYPES) {
      if (name === "var" && DTYPE[dtype].kind !== "f") continue;
      for (const n of lengthsOf(dtype)) {
        const what = `${name} of ${dtype}, rows of ${n}`;
        if (WIDTHS.includes(n) && !isSampled(what, 3)) continue;
        const rows = made(whole(dtype, n, 4), dtype).reshape([4, n]);
        assertLikeCpu(rows.cuda(), rows, name, 1, what);
        if (DTYPE[dtype].kind !== "f") continue;
        const x = made([0, ...uneven(2 * n)], dtype).cuda();
        const moved = x.slice("1:").copy();
        const [there, here] = [x.slice("1:"), moved].map((one) => one.reshape([2, n]));
        assertSame(there[name](1), here[name](1), `${what}, not aligned`);
      }
    }
  });

  check(`along rows of every length on CUDA, where there are many: ${name}`, () => {
    const before = setBusyThreads(1);
    try {
      for (const dtype of ["int8", "float32"] as const) {
        if (name === "var" && DTYPE[dtype].kind !== "f") continue;
        const round = 4 * Math.min(16 / DTYPE[dtype].bytes, 8);
        for (const n of [1, 16, 128, 1024].flatMap((rounds) => around(rounds * round))) {
          const x = made(whole(dtype, n, 4), dtype).reshape([4, n]);
          const what = `${name} of ${dtype}, rows of ${n}`;
          assertLikeCpu(x.cuda(), x, name, 1, what);
        }
      }
    } finally {
      setBusyThreads(before);
    }
  });

  // Index reductions have one axis.
  if (!name.startsWith("arg")) {
    check(`along two axes on CUDA: ${name}`, () => {
      for (const dtype of DTYPES) {
        if (name === "var" && DTYPE[dtype].kind !== "f") continue;
        for (const [a, b] of [[2, 8], [3, 24], [40, 32], [7, 12], [130, 16]] as const) {
          const x = made(whole(dtype, a * b, 3), dtype).reshape([a, 3, b]);
          for (const axes of [[0, 2], [0, 1]]) {
            const what = `${name} of ${dtype}, axes ${axes} of [${a}, 3, ${b}]`;
            const wide = made([0, ...uneven(3 * a * b)], dtype).cuda();
            const [there, here] = [wide.slice("1:"), wide.slice("1:").copy()]
              .map((one) => one.reshape([a, 3, b]));
            assertLikeCpu(x.cuda(), x, name, axes, what);
            if (DTYPE[dtype].kind === "f") {
              assertSame(there[name](axes), here[name](axes), `${what}, not aligned`);
            }
          }
        }
      }
    });
  }

  check(`along columns on CUDA, alone and in words: ${name}`, () => {
    const counts = [1, 7, ...around(8), ...around(16), 33, ...around(128), 520, 4100];
    const widths = [1, 2, 3, 4, 5, 6, 8, 12, 62, 66, 128, 132, 515, 1028];
    for (const dtype of ["int8", "uint8", "bool", "bfloat16", "float16", "float32"] as const) {
      const { kind } = DTYPE[dtype];
      if (kind !== "f" && name === "var" || kind === "b" && name === "argmin") continue;
      for (const [i, count] of counts.entries()) {
        for (const [j, width] of widths.entries()) {
          if (count * width > 70_000 || (i + j) % 2 > 0 && count > 33) continue;
          const what = `${name} of ${dtype}, columns of [${count}, ${width}]`;
          if (!isSampled(what, 4)) continue;
          const draw = generator(count * width);
          const size = count * (width + 4);
          const values = kind === "f" && name !== "sum" && name !== "var"
            ? uneven(size)
            : Array.from({ length: size }, () => Math.floor(draw() * 3));
          const wide = made(values, dtype).reshape([count, width + 4]);
          for (const from of [0, 1, 2]) {
            const x = wide.slice(`:, ${from}:${from + width}`);
            const there = wide.cuda().slice(`:, ${from}:${from + width}`);
            assertLikeCpu(there, x, name, 0, `${what} from ${from}`);
            if (kind !== "f" || name !== "sum" && name !== "var") continue;
            const odd = made(uneven(size), dtype).reshape([count, width + 4]).cuda();
            const even = odd.slice(`:, ${from}:`).copy();
            // The same strides, from the start of memory of its own.
            const same = odd.copy();
            same.slice(`:, :${width + 4 - from}`).set(["..."], even);
            const [got, want] = [
              odd.slice(`:, ${from}:${from + width}`),
              same.slice(`:, :${width}`),
            ];
            assertSame(got[name](0), want[name](0), `${what} moved by ${from}`);
          }
        }
      }
    }
  });
}

check("along reversed rows and every other element on CUDA: the bits of a copy", () => {
  for (const dtype of ["float32", "float64"] as const) {
    for (const n of [1, 7, 33, 100, 515, 3000]) {
      const x = made(uneven(4 * n).map((value) => value / 2 ** 50), dtype).reshape([2, 2 * n]);
      for (const view of [x.flip(1), x.slice(":, ::2")]) {
        const there = x.cuda();
        const same = view.shape[1] === n ? there.slice(":, ::2") : there.flip(1);
        for (const name of ["sum", "max", "argmax", "var", "logsumexp"]) {
          const what = `${name} of ${dtype}, rows of ${n}, strides ${view.strides}`;
          assertSame(same[name](1), view.copy().cuda()[name](1), what);
        }
      }
    }
  }
});

for (const name of ["cumulativeSum", "cumulativeProd"] as const) {
  check(`along runs of every length on CUDA: ${name}`, () => {
    for (const dtype of ["int8", "bfloat16", "float32", "float64"] as const) {
      const pack = Math.min(16 / DTYPE[dtype].bytes, 8);
      const rounds = [1, 2, 32, 64, 256, 512, 768].flatMap((lanes) => around(lanes * pack));
      for (const n of [1, 2, 5, 9, 17, 30, ...rounds].filter((n) => n > 0)) {
        const draw = generator(n);
        const sign = (): number => draw() < 0.5 ? -1 : 1;
        const x = made(Array.from({ length: 2 * n + 1 }, sign), dtype);
        for (const from of [0, 1]) {
          const part = `${from}:${from + 2 * n}`;
          const rows = x.slice(part).reshape([2, n]), there = x.cuda().slice(part).reshape([2, n]);
          const what = `${name} of ${dtype}, runs of ${n} from ${from}`;
          assertSame(there[name](1), rows[name](1), what);
          const columns = x.slice(part).reshape([n, 2]);
          const tall = x.cuda().slice(part).reshape([n, 2]);
          assertSame(tall[name](0), columns[name](0), `${what}, in columns`);
        }
      }
      // One thread for each column.
      for (const n of [1, 7, 8, 9, 15, 16, 17, 31, 33, 250]) {
        const draw = generator(n);
        const x = made(Array.from({ length: 40 * n }, () => draw() < 0.5 ? -1 : 1), dtype)
          .reshape([n, 40]);
        assertSame(x.cuda()[name](0), x[name](0), `${name} of ${dtype}, 40 columns of ${n}`);
      }
    }
  });
}

check("every kernel here is one of those that are compiled for all architectures", () => {
  assertListed(launched, 60);
  for (const kernel of ["sum_bf16_bf16", "argmax_i8_i32"]) {
    assert(launched.has(`${kernel}_across_packed`), kernel);
  }
});

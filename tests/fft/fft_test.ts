/**
 * Fourier transforms against NumPy's, on every backend, in both precisions.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { fft, tensor } from "../../mod.ts";
import { tidy } from "../../src/core/handles.ts";
import { type Any, loose } from "../support.ts";
import { BACKENDS, using } from "../ops/table/backends.ts";

type Case = [
  name: string,
  kind: "real" | "complex",
  shape: number[],
  options: Record<string, unknown>,
  result: number[],
  numbers: number[],
  step?: number,
  largest?: number,
];

const GOLDEN: {
  readonly cases: Case[];
  readonly frequencies: [name: string, n: number, d: number, values: number[]][];
  readonly shifts: [name: string, shape: number[], axes: Any, values: Any][];
} = JSON.parse(readFileSync(new URL("../golden/fft/transforms.json", import.meta.url), "utf8"));

/** The numbers that the golden data are made of. */
function numbersOf(kind: string, size: number): Float64Array {
  const real = (i: number): number => ((7919 * i + 11) % 129 - 64) / 64;
  const imag = (i: number): number => ((6007 * i + 29) % 129 - 64) / 64;
  if (kind === "real") return Float64Array.from({ length: size }, (_, i) => real(i));
  return Float64Array.from(
    { length: 2 * size },
    (_, i) => i % 2 === 0 ? real(i / 2) : imag((i - 1) / 2),
  );
}

/** The largest errors, in units in the last place of 1: of the passes, and of convolutions. */
const NEAR = 6;
const FAR = 16;
const sizeOf = (shape: readonly number[]): number => shape.reduce((a, b) => a * b, 1);

/** Whether a prime factor of the length is beyond those of passes: such transforms are convolutions. */
function isChirp(n: number): boolean {
  for (let p = 2; p <= 31; p++) while (n % p === 0) n /= p;
  return n > 1;
}

/** The largest error of a case, as a part of the largest number of its result. */
function errorOf(
  [name, kind, shape, options, result, numbers, step = 1, largest]: Case,
  wide: boolean,
  device: string,
): number {
  return tidy(() => {
    const array = numbersOf(kind, sizeOf(shape));
    const flat = wide ? array : Float32Array.from(array);
    const dtype = kind === "real"
      ? wide ? "float64" : "float32"
      : wide
      ? "complex128"
      : "complex64";
    const x = loose(tensor(flat as Any, { dtype, shape } as Any)).to(device);
    const y = (fft as Any)[name](x, options);
    assertEquals(y.shape, result, name);
    const isComplex = !["irfft", "hfft", "irfftn", "irfft2"].includes(name);
    assertEquals(
      y.dtype,
      isComplex ? (wide ? "complex128" : "complex64") : wide ? "float64" : "float32",
    );
    const made = y.to("cpu").toTypedArray();
    const limit = largest ?? numbers.reduce((a, b) => Math.max(a, Math.abs(b)), 1e-30);
    let error = 0;
    for (let i = 0; i < numbers.length; i++) {
      const difference = Math.abs(made[i * step] - numbers[i]!);
      error = difference <= error ? error : difference;
    }
    return error / limit;
  });
}

describe("fft against NumPy", () => {
  for (const { name: backend, on } of BACKENDS) {
    const device = typeof on === "string" ? on : "cpu";
    for (const wide of [true, false]) {
      it(`${backend}, ${wide ? "float64" : "float32"}`, () => {
        const run = (): void => {
          for (const one of GOLDEN.cases) {
            const [name, , shape, options, result] = one;
            const length = Math.max(...shape, ...result);
            // The definition is slow for the longest ones.
            if (!backend.includes("native") && length > 20000) continue;
            const unit = wide ? 2 ** -53 : 2 ** -24;
            const limit = isChirp(length) || isChirp((options.n as number) ?? 1) ? FAR : NEAR;
            const error = errorOf(one, wide, device) / unit;
            assert(
              error <= limit,
              `${name} ${shape} ${JSON.stringify(options)}: an error of ${error} units`,
            );
          }
        };
        if (typeof on === "string") run();
        else using(on, run);
      });
    }
  }
});

const COMPLEX = { float64: "complex128", float32: "complex64" } as const;

describe("transforms of many rows are those of each row", () => {
  for (const { name: backend, on } of BACKENDS) {
    if (typeof on === "string" || !backend.includes("native")) continue;
    it(backend, () => {
      using(on, () => {
        for (const dtype of ["float64", "float32"] as const) {
          for (const [rows, length] of [[67, 31], [33, 64], [32, 100], [35, 256]] as const) {
            for (const name of ["rfft", "ihfft", "fft", "ifft"] as const) {
              const isReal = name === "rfft" || name === "ihfft";
              const numbers = numbersOf(isReal ? "real" : "complex", rows * length);
              const wide = tensor(numbers as Any, { dtype: isReal ? "float64" : "complex128" });
              const x = loose(wide).astype(isReal ? dtype : COMPLEX[dtype])
                .reshape([rows, length]);
              for (const n of [length, length + 2, length - 2]) {
                const all = (fft as Any)[name](x, { n });
                for (const row of [0, 1, 15, 16, 31, rows - 1]) {
                  const one = (fft as Any)[name](x.slice(row), { n });
                  const error = all.slice(row).sub(one).abs().max().item();
                  const limit = NEAR * (dtype === "float64" ? 2 ** -53 : 2 ** -24);
                  const largest = one.abs().max().item();
                  assert(error <= 2 * limit * largest, `${name} of ${rows} × ${n}, row ${row}`);
                }
              }
            }
          }
        }
      });
    });
  }
});

describe("transforms of real numbers are those of complex ones", () => {
  for (const { name: backend, on } of BACKENDS) {
    if (typeof on === "string" || !/native|wasm/.test(backend)) continue;
    it(backend, () => {
      using(on, () => {
        // The least and the longest lengths of steps of real columns, odd factors, rows and columns of
        // all last radices, and lengths beside them.
        const lengths = [254, 256, 320, 384, 512, 768, 1000, 1024, 2048, 2240, 6144, 8192, 15360];
        for (const dtype of ["float64", "float32"] as const) {
          for (const length of [...lengths, 32768, 65536, 65600]) {
            // Of a row that does not begin at a multiple of a vector.
            const flat = tensor(numbersOf("real", length + 1) as Any, { dtype: "float64" });
            const x = loose(flat).astype(dtype).slice("1:");
            for (const given of [length, length - 3]) {
              const part = x.slice(`:${given}`);
              for (const inverse of [false, true]) {
                const half = fft[inverse ? "ihfft" : "rfft"](part, { n: length });
                const whole = fft[inverse ? "ifft" : "fft"](part.astype(COMPLEX[dtype]), {
                  n: length,
                });
                const expected = whole.slice(`:${length / 2 + 1}`);
                assertEquals(half.shape, expected.shape);
                const error = half.sub(expected).abs().max().item();
                const limit = 2 * NEAR * (dtype === "float64" ? 2 ** -53 : 2 ** -24);
                assert(
                  error <= limit * expected.abs().max().item(),
                  `${dtype}, ${given} of ${length}`,
                );
                const made = half.toTypedArray();
                assertEquals(
                  [made[1], made[length + 1]],
                  [0, 0],
                  "the first and the last are real",
                );
              }
            }
          }
        }
      });
    });
  }
});

describe("frequencies and shifts against NumPy", () => {
  it("fftfreq and rfftfreq", () => {
    for (const [name, n, d, values] of GOLDEN.frequencies) {
      assertEquals((fft as Any)[name](n, { d, dtype: "float64" }).toArray(), values);
      assertEquals((fft as Any)[name](n, { d }).toArray(), values.map(Math.fround));
    }
  });
  it("fftshift and ifftshift", () => {
    for (const [name, shape, axes, values] of GOLDEN.shifts) {
      const flat = Array.from({ length: sizeOf(shape) }, (_, i) => i);
      const x = loose(tensor(flat, { dtype: "int32" })).reshape(shape);
      const options = axes === null ? {} : { axes };
      assertEquals((fft as Any)[name](x, options).toArray(), values);
    }
  });
});

describe("an infinity gives no NaN where no factor has an imaginary part, as in NumPy", () => {
  for (const { name, on } of BACKENDS) {
    it(name, () =>
      using(on, () => {
        const [a, b] = [[Infinity, 1], [2, -Infinity]].map((x) =>
          fft.fft(tensor(x, { dtype: "float64" })).toArray().map(({ re, im }) => [re, im])
        );
        assertEquals([a, b], [[[Infinity, 0], [Infinity, 0]], [[-Infinity, 0], [Infinity, 0]]]);
        const four = fft.fft(tensor([Infinity, 1, 2, 3], { dtype: "float64" })).toTypedArray();
        assertEquals([...four], [Infinity, 0, Infinity, 2, Infinity, 0, Infinity, -2]);
        const last = fft.ifft(tensor([1, 2, 3, Infinity], { dtype: "float64" })).toTypedArray();
        assertEquals([...last], [Infinity, 0, -0.5, -Infinity, -Infinity, 0, -0.5, Infinity]);
        // Radix 3: every output is infinite.
        const three = fft.fft(tensor([Infinity, 1, 2], { dtype: "float64" })).toTypedArray();
        assertEquals([...three].map((x) => Number.isNaN(x)), new Array(6).fill(false));
      }));
  }
});

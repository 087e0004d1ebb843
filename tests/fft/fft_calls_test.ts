/**
 * Fourier transforms as calls: layouts, dtypes, `out`, round trips, errors.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { describe, it } from "node:test";
import {
  ArgumentError,
  AxisError,
  DTypeError,
  fft,
  random,
  setThreads,
  ShapeError,
  tensor,
  zeros,
} from "../../mod.ts";
import { BACKENDS, using } from "../ops/table/backends.ts";
import { type Any, loose } from "../support.ts";

/** Calls `run` on every backend of the CPU. */
function everywhere(run: (name: string) => void): void {
  for (const { name, on } of BACKENDS) if (typeof on !== "string") using(on, () => run(name));
}

const noise = (shape: number[], dtype: Any = "float64"): Any =>
  loose(random.normal(random.key(7), shape, { dtype }));

const assertClose = (a: Any, b: Any, about?: string): void =>
  assert(a.allclose(b, { rtol: 0, atol: 1e-5 }), about);

/** Views of the elements of x in other layouts. */
const layoutsOf = (x: Any): [name: string, view: Any][] => [
  ["transposed", x.T.contiguous().T],
  ["reversed", x.flip().contiguous().flip()],
  ["sliced", x.pad([[1, 2], [3, 1]]).slice("1:-2", "3:-1")],
];

describe("calls of fft", () => {
  it("takes views in every layout", () => {
    const x = noise([6, 5]);
    everywhere((backend) => {
      const z = fft.fft(x) as Any;
      for (const [name, view] of layoutsOf(x)) {
        assertEquals((fft.fft(view) as Any).equals(z), true, `${backend}, ${name}`);
      }
      const row = x.slice(2) as Any;
      assertEquals((fft.fft(row) as Any).equals(z.slice(2)), true, backend);
      const complexRow = z.T.contiguous().T;
      assertEquals((fft.ifft(complexRow) as Any).equals(fft.ifft(z)), true, backend);
      const spread = row.broadcastTo([3, 5]);
      assertClose((fft.rfft(spread) as Any).slice(1), fft.rfft(row), backend);
    });
  });

  it("computes each dtype in its precision", () => {
    everywhere(() => {
      for (const dtype of ["bool", "int8", "int32", "int64", "uint8", "float16", "bfloat16"]) {
        const x = loose(tensor([1, 0, 1, 1], { dtype: dtype as Any }));
        assertEquals(fft.fft(x).dtype, "complex64");
        assertEquals((fft.rfft(x) as Any).real().toArray(), [3, 0, 1]);
        assertEquals(fft.irfft(x).dtype, "float32");
      }
      assertEquals(fft.rfft(tensor([1, 2], { dtype: "float64" })).dtype, "complex128");
      assertEquals(fft.irfft(tensor([1, 2], { dtype: "float64" })).dtype, "float64");
    });
  });

  it("takes back what it gave", () => {
    const x = noise([4, 6, 10], "float32");
    everywhere((backend) => {
      const z = fft.fftn(x) as Any;
      assertClose((fft.ifftn(z) as Any).real(), x, backend);
      for (const norm of ["backward", "ortho", "forward"] as const) {
        assertClose(fft.irfft(fft.rfft(x, { norm }), { norm }), x, backend);
        assertClose(fft.irfftn(fft.rfftn(x, { norm }), { norm }), x, backend);
        assertClose(fft.hfft(fft.ihfft(x, { norm }), { norm }), x, backend);
        assertClose((fft.ifft2(fft.fft2(x, { norm }), { norm }) as Any).real(), x, backend);
      }
    });
  });

  it("does not depend on the number of threads", () => {
    const x = noise([2 ** 17], "float32"), rows = noise([600, 200], "float32");
    const results = [1, 2].map((threads) => {
      setThreads(threads);
      return [fft.fft(x), fft.rfft(rows), fft.rfft(rows, { axis: 0 })] as Any[];
    });
    setThreads(0);
    results[0]!.forEach((one, i) => assert(one.equals(results[1]![i])));
  });

  it("keeps to plans of many lengths", () => {
    everywhere((backend) => {
      for (const n of [1, 2, 3, 5, 8, 13, 50, 97, 200]) {
        for (let k = 0; k < 12; k++) {
          const x = loose(zeros([n + k], { dtype: "float64" }));
          x.set([0], 1);
          const y = fft.rfft(x) as Any;
          assertClose(y.abs(), loose(zeros(y.shape)).add(1), `${backend}: ${n + k}`);
        }
      }
    });
  });

  it("reads infinities and NaN", () => {
    everywhere(() => {
      const y = fft.fft(tensor([1, NaN, 2, Infinity])) as Any;
      assertEquals(y.real().toArray()[0], NaN);
    });
  });

  it("fills up with zeros, and gives nothing for no transforms", () => {
    everywhere(() => {
      assertEquals((fft.fft(zeros([2, 0]), { n: 3 }) as Any).abs().sum().item(), 0);
      assertEquals(fft.rfft(zeros([0, 4])).shape, [0, 3]);
      assertEquals(fft.fftn(zeros([0, 4]), { axes: [1] }).shape, [0, 4]);
      assertEquals((fft.fftn(tensor(3), { axes: [] }) as Any).item(), { re: 3, im: 0 });
    });
  });

  it("writes into out, or throws before it does", () => {
    everywhere(() => {
      const x = tensor([1, 2, 3, 4]);
      const out = loose(zeros([3], { dtype: "complex64" }));
      assert(fft.rfft(x, { out }) as Any === out);
      assertEquals(out.real().toArray(), [10, -2, -2]);
      const wide = loose(zeros([4], { dtype: "complex128" }));
      fft.fft(x, { out: wide });
      assertEquals(wide.real().toArray(), [10, -2, -2, -2]);
      const small = loose(zeros([2], { dtype: "complex64" }));
      assertThrows(() => fft.rfft(x, { out: small }), ShapeError, "Cannot rfft");
      assertThrows(() => fft.rfft(x, { out: loose(zeros([3])) }), DTypeError, "Cannot rfft");
      const z = fft.fft(x) as Any;
      fft.ifft(z, { out: z });
      assertEquals(z.real().toArray(), [1, 2, 3, 4]);
      const square = loose(zeros([2, 2], { dtype: "complex64" }));
      fft.fftn(tensor([[1, 2], [3, 4]]), { out: square });
      assertEquals(square.real().toArray(), [[10, -2], [-4, 0]]);
    });
  });

  it("throws errors that say what is wrong", () => {
    const x = tensor([[1, 2, 3]]), z = fft.fft(x);
    const cases: [call: () => unknown, type: Any, message: string][] = [
      [() => fft.fft(zeros([0])), ArgumentError, "Cannot fft shape [0]: a transform has a length"],
      [() => fft.irfft(zeros([1])), ArgumentError, "got 0 along axis 0"],
      [() => fft.fft(x, { n: 0 }), ArgumentError, "got 0 along axis 1"],
      [() => fft.fft(x, { n: 1.5 }), ArgumentError, "with length 1.5"],
      [() => fft.fft(x, { axis: 2 as number }), AxisError, "Cannot fft"],
      [() => fft.fft(tensor(1)), AxisError, "Cannot fft"],
      [() => fft.rfft(z as Any), DTypeError, "Cannot rfft complex64"],
      [() => fft.rfftn(z as Any), DTypeError, "Cannot rfftn complex64"],
      [() => fft.fft(x, { norm: "none" as Any }), ArgumentError, "norm"],
      [() => fft.fftn(x, { s: [1, 2, 3] }), ArgumentError, "3 lengths"],
      [() => fft.fftn(x, { s: [1], axes: [0, 1] }), ArgumentError, "1 lengths along 2 axes"],
      [() => fft.fftn(x, { axes: [0, 2] }), AxisError, "Cannot fftn"],
      [() => fft.rfftn(x, { axes: [] }), AxisError, "no axis"],
      [() => fft.fft2(tensor([1, 2])), AxisError, "Cannot fft2"],
      [() => fft.fft(x, { axes: 1 } as Any), TypeError, "axes"],
      [() => fft.fftn(x, { s: 3 as Any }), TypeError, "arrays"],
      [() => fft.fftfreq(0), ArgumentError, "fftfreq"],
      [() => fft.rfftfreq(4, { d: 0 }), ArgumentError, "rfftfreq"],
      [() => fft.fftfreq(4, { dtype: "int32" }), DTypeError, "fftfreq"],
      [() => fft.fftshift(x, { axes: 2 }), AxisError, "fftshift"],
    ];
    for (const [call, type, message] of cases) assertThrows(call, type, message);
  });
});

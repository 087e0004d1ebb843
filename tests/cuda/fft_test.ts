/**
 * Fourier transforms on a CUDA device, the emulator's or a real one: against NumPy's results, from
 * every layout, with kept plans, in graphs, and without cuFFT.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { arange, capture, DeviceError, fft, ones, tensor } from "../../mod.ts";
import { tidy } from "../../src/core/handles.ts";
import { emulatorFolder } from "../emulator/build.ts";
import { controlEmulator } from "../emulator/control.ts";
import { type Any, asView, loose } from "../support.ts";
import { onHardware, openCudaForTests, whyNoCuda } from "./support/device.ts";

type Case = [name: string, kind: string, shape: number[], options: Any, result: number[]];

const { cases } = JSON.parse(
  readFileSync(new URL("../golden/fft/transforms.json", import.meta.url), "utf8"),
) as { cases: Case[] };

/** The emulator sums in order of n², in double. */
const MOST = onHardware ? 2 ** 21 : 2 ** 12;

/** Numbers from -1 to 1 without a pattern. */
function numbersOf(shape: readonly number[], dtype: string): Any {
  const size = shape.reduce((a, b) => a * b, 1) * (dtype.startsWith("c") ? 2 : 1);
  const numbers = Float64Array.from({ length: size }, (_, i) => ((7919 * i + 11) % 129 - 64) / 64);
  const wide = dtype.endsWith("64") && dtype.startsWith("f") || dtype === "complex128";
  return loose(tensor)(wide ? numbers : Float32Array.from(numbers), { dtype, shape } as Any);
}

/** The largest difference of numbers, as a part of the largest number. */
function differenceOf(got: Any, want: Any): number {
  return tidy(() => {
    assertEquals([got.dtype, got.shape], [want.dtype, want.shape]);
    const [mine, theirs] = [got.cpu().toTypedArray(), want.toTypedArray()];
    let [largest, difference] = [1e-30, 0];
    for (let i = 0; i < theirs.length; i++) {
      largest = Math.max(largest, Math.abs(theirs[i]));
      const one = Math.abs(mine[i] - theirs[i]);
      difference = one <= difference ? difference : one;
    }
    return difference / largest;
  });
}

function assertAlike(got: Any, want: Any, what: string): void {
  const wide = want.dtype === "complex128" || want.dtype === "float64";
  const difference = differenceOf(got, want);
  assert(difference <= (wide ? 1e-14 : 2e-6), `${what}: ${difference}`);
}

const reason = whyNoCuda();
if (reason !== undefined) test(`Fourier transforms on CUDA (${reason})`, { skip: true }, () => {});
else {
  openCudaForTests();

  test("every kind of transform is right on CUDA, in both precisions", () => {
    let count = 0;
    for (const [name, kind, shape, options] of cases) {
      if (shape.reduce((a, b) => a * b, 1) > MOST) continue;
      for (const wide of [false, true]) {
        const dtype = kind === "real" ? `float${wide ? 64 : 32}` : `complex${wide ? 128 : 64}`;
        tidy(() => {
          const x = numbersOf(shape, dtype);
          const device = x.cuda();
          const got = (fft as Any)[name](device, options);
          assertEquals(got.device, "cuda");
          assertAlike(got, (fft as Any)[name](x, options), `${name} of ${dtype} ${shape}`);
          assertEquals(device.cpu().equal(x).all().item(), true, `${name} changes its input`);
        });
        count++;
      }
    }
    assert(count > 60, `${count} cases`);
  });

  test("views of every layout are transformed along every axis on CUDA", () => {
    for (const dtype of ["float32", "complex64", "complex128", "int32"]) {
      tidy(() => {
        const x = dtype === "int32"
          ? loose(arange)(120).reshape([4, 5, 6]).astype("int32")
          : numbersOf([4, 5, 6], dtype);
        const views: Record<string, Any> = {
          dense: x,
          transposed: x.permute(2, 0, 1),
          reversed: x.flip([0, 2]),
          sliced: x.slice("1:, 1:4, ::2"),
          strided: asView(x),
          broadcast: x.slice("0:1").broadcastTo([3, 5, 6]),
        };
        for (const [what, view] of Object.entries(views)) {
          const y = x.cuda();
          const device: Any = {
            dense: () => y,
            transposed: () => y.permute(2, 0, 1),
            reversed: () => y.flip([0, 2]),
            sliced: () => y.slice("1:, 1:4, ::2"),
            strided: () => asView(y),
            broadcast: () => y.slice("0:1").broadcastTo([3, 5, 6]),
          }[what]!();
          for (const axis of [0, 1, 2]) {
            for (const n of [undefined, 3, 8]) {
              const all = `${dtype} ${what} along ${axis}, n ${n}`;
              const options = n === undefined ? { axis } : { axis, n };
              assertAlike(fft.fft(device, options), fft.fft(view, options), `fft of ${all}`);
              if (!dtype.startsWith("c")) {
                assertAlike(fft.rfft(device, options), fft.rfft(view, options), `rfft of ${all}`);
                assertAlike(
                  fft.ihfft(device, options),
                  fft.ihfft(view, options),
                  `ihfft of ${all}`,
                );
              } else {
                assertAlike(
                  fft.irfft(device, options),
                  fft.irfft(view, options),
                  `irfft of ${all}`,
                );
                assertAlike(fft.hfft(device, options), fft.hfft(view, options), `hfft of ${all}`);
              }
            }
          }
        }
      });
    }
  });

  test("imaginary parts that a spectrum of real numbers cannot have are ignored on CUDA", () => {
    tidy(() => {
      const x = numbersOf([3, 5], "complex64");
      x.set([0, 0], { re: 1, im: Infinity });
      x.set([1, 4], { re: 1, im: NaN });
      const got = fft.irfft(x.cuda(), { n: 8 }) as Any;
      assertEquals(got.isfinite().all().item(), true);
      assertAlike(got, fft.irfft(x, { n: 8 }), "irfft");
    });
  });

  if (!onHardware) {
    test("plans are kept, and the oldest one makes way", () => {
      const tools = controlEmulator(emulatorFolder());
      const plansOf = (f: () => void): number => {
        const before = tools.get("plans");
        tidy(f);
        return tools.get("plans") - before;
      };
      const lengths = Array.from({ length: 40 }, (_, i) => 50 + i);
      const run = (n: number): void => void fft.fft(ones([2, n], { device: "cuda" }) as Any);
      assertEquals(plansOf(() => [50, 50, 51, 50].forEach(run)), 2);
      assertEquals(plansOf(() => lengths.forEach(run)), 38);
      assertEquals(plansOf(() => run(89)), 0);
      assertEquals(plansOf(() => run(50)), 1);
    });

    test("a call of cuFFT that fails is an error, and the next one is right", () => {
      const tools = controlEmulator(emulatorFolder());
      tidy(() => {
        const x = numbersOf([2, 33], "complex64"), y = x.cuda();
        // The plan; its settings; the workspace; the transform.
        for (const n of [1, 2, 3, 4, 5]) {
          tools.set("failFft", n);
          assertThrows(() => fft.fft(y), Error, "cufft");
          tools.set("failFft", 0);
          if (n > 3) break;
        }
        assertAlike(fft.fft(y), fft.fft(x), "the next");
      });
    });

    test("a length without a plan is transformed by the CPU", () => {
      tidy(() => {
        const n = 2 ** 20 + 2;
        const y = fft.rfft(ones([n], { device: "cuda" }) as Any) as Any;
        assertEquals([y.device, y.shape], ["cuda", [n / 2 + 1]]);
        assert(Math.abs(y.real().get(0) - n) < 1);
      });
    });
  }

  test("a transform that has run once is part of a graph", () => {
    tidy(() => {
      const x = numbersOf([3, 16], "complex64").cuda();
      const other = numbersOf([3, 23], "complex64").cuda();
      const out = fft.ifft(x) as Any;
      assertThrows(
        () => capture("cuda", () => void fft.fft(other)),
        DeviceError,
        "cannot plan a Fourier transform while a graph is being captured: do it before",
      );
      const graph = capture("cuda", () => out.set(["..."], fft.ifft(x) as Any));
      const doubled = x.mul(2);
      x.set(["..."], doubled);
      graph.run();
      assertAlike(out, fft.ifft(doubled.cpu()), "captured");
      // Its plan stays, whatever other transforms are planned.
      for (let n = 100; n < 140; n++) fft.fft(ones([n], { device: "cuda" }) as Any);
      graph.run();
      assertAlike(out, fft.ifft(doubled.cpu()), "after other plans");
      graph.dispose();
    });
  });
}

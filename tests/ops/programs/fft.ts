/**
 * The programs of Fourier transforms, convolutions and polynomials for programs.ts.
 *
 * @module
 */
import { convolve, correlate, fft, io, polyfit, polyval } from "../../../mod.ts";
import type { Program } from "../programs.ts";

/** The record of a transform of the last axis of x. */
const one = (name: string, kind: string, n: number, inverse: boolean, scale: number): string =>
  `${name === "fft" ? "" : `${name}: `}fft(x) ` +
  `{kind: "${kind}", axis: 1, n: ${n}, inverse: ${inverse}, scale: ${scale}}`;

type Step = [kind: string, axis: number, n: number];

/** The record of a transform of both axes of x. */
function both(name: string, inverse: boolean, ...steps: Step[]): string {
  const parts = steps.map(([kind, axis, n]) =>
    `{kind: "${kind}", axis: ${axis}, n: ${n}, inverse: ${inverse}, scale: ${inverse ? 1 / n : 1}}`
  );
  return `${name === "fftn" ? "" : `${name}: `}fftn(x) {steps: [${parts.join(", ")}]}`;
}

const COMPLEX: Step[] = [["complex", 1, 3], ["complex", 0, 2]];
const FROM_REAL: Step[] = [["fromReal", 1, 3], ["complex", 0, 2]];
const TO_REAL: Step[] = [["complex", 0, 2], ["toReal", 1, 4]];

const MADE = 'tensor() {data: Float64Array, dtype: "float32", device: "cpu"}';

/** The programs of Fourier transforms, convolutions and polynomials. */
export const FFT_PROGRAMS: [name: string, program: Program, ...record: string[]][] = [
  ["fft.fft", ({ x }) => fft.fft(x), one("fft", "complex", 3, false, 1)],
  ["fft.ifft", ({ x }) => fft.ifft(x), one("ifft", "complex", 3, true, 1 / 3)],
  ["fft.rfft", ({ x }) => fft.rfft(x), one("rfft", "fromReal", 3, false, 1)],
  ["fft.irfft", ({ x }) => fft.irfft(x), one("irfft", "toReal", 4, true, 0.25)],
  ["fft.hfft", ({ x }) => fft.hfft(x), one("hfft", "toReal", 4, false, 1)],
  ["fft.ihfft", ({ x }) => fft.ihfft(x), one("ihfft", "fromReal", 3, true, 1 / 3)],
  ["fft.fftn", ({ x }) => fft.fftn(x), both("fftn", false, ...COMPLEX)],
  ["fft.ifftn", ({ x }) => fft.ifftn(x), both("ifftn", true, ...COMPLEX)],
  ["fft.rfftn", ({ x }) => fft.rfftn(x), both("rfftn", false, ...FROM_REAL)],
  ["fft.irfftn", ({ x }) => fft.irfftn(x), both("irfftn", true, ...TO_REAL)],
  ["fft.fft2", ({ x }) => fft.fft2(x), both("fft2", false, ...COMPLEX)],
  ["fft.ifft2", ({ x }) => fft.ifft2(x), both("ifft2", true, ...COMPLEX)],
  ["fft.rfft2", ({ x }) => fft.rfft2(x), both("rfft2", false, ...FROM_REAL)],
  ["fft.irfft2", ({ x }) => fft.irfft2(x), both("irfft2", true, ...TO_REAL)],
  ["fft.fftfreq", () => fft.fftfreq(4), MADE],
  ["fft.rfftfreq", () => fft.rfftfreq(4), MADE],
  ["fft.fftshift", ({ x }) => fft.fftshift(x), "roll(x) {shift: [1, 1], axis: [0, 1]}"],
  ["convolve", ({ x, v }) => convolve(x, v), "convolve(x, v) {start: 0, length: 5}"],
  [
    "correlate",
    ({ x, v }) => correlate(x, v),
    "flip(v) {axis: [0]}",
    "correlate: convolve(x, tensor of [3]) {start: 2, length: 1}",
  ],
  ["polyfit", ({ v }) => polyfit(v, v, 1), `polyfit(v, v) {degree: 1, rcond: ${3 * 2 ** -52}}`],
  ["polyval", ({ x, v }) => polyval(v, x), "polyval(v, x)"],
  [
    "io.fromPixels",
    () => io.fromPixels({ width: 1, height: 1, data: new Uint8Array(3) }),
    'tensor() {data: Uint8Array, shape: [1, 1, 3], dtype: "uint8"}',
  ],
  ["fft.ifftshift", ({ x }) => fft.ifftshift(x), "roll(x) {shift: [-1, -1], axis: [0, 1]}"],
];

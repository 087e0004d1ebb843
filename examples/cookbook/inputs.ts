/**
 * The programs of this folder on small inputs, for tests, and on large ones, for the benchmark.
 * bench/suites/cookbook_peer.py makes the same inputs.
 *
 * @module
 */
import { type Tensor, tensor } from "../../mod.ts";
import { blur } from "./blur.ts";
import { describe, readCsv } from "./csv_statistics.ts";
import { lowPass } from "./fft_filter.ts";
import { kMeans } from "./k_means.ts";
import { fit } from "./least_squares.ts";
import { life } from "./life.ts";
import { movingAverage } from "./moving_average.ts";
import { encode } from "./one_hot.ts";
import { callPrice } from "./option_pricing.ts";
import { pca } from "./pca.ts";
import { normalize, search } from "./search.ts";
import { train } from "./softmax_regression.ts";
import { similarity } from "./tf_idf.ts";

/** Numbers from 0 to 1 that look random: a hash of the seed and the index. */
export function noise(seed: number, size: number): Float32Array {
  return Float32Array.from({ length: size }, (_, i) => {
    let h = (Math.imul(i, 0x9e3779b9) + Math.imul(seed, 0x85ebca6b)) >>> 0;
    h = Math.imul(h ^ (h >>> 16), 0x7feb352d);
    h = Math.imul(h ^ (h >>> 15), 0x846ca68b);
    return ((h ^ (h >>> 16)) >>> 8) * 2 ** -24;
  });
}

function noisy(seed: number, ...shape: number[]): Tensor {
  return tensor(noise(seed, shape.reduce((a, b) => a * b, 1)), { shape });
}

function integers(seed: number, size: number, below: number): Int32Array {
  return Int32Array.from(noise(seed, size), (x) => Math.floor(x * below));
}

const WORD = (i: number): string =>
  String.fromCharCode(...[i % 26, (i / 26) % 26, i / 676].map((k) => 97 + Math.floor(k)));

function textsOf(count: number, length: number, vocabulary: number): string[] {
  const words = integers(12, count * length, vocabulary);
  return Array.from(
    { length: count },
    (_, k) => Array.from(words.subarray(k * length, (k + 1) * length), WORD).join(" "),
  );
}

function csvOf(rows: number): string {
  const numbers = integers(13, rows * 4, 1000);
  const lines = Array.from(
    { length: rows },
    (_, k) => Array.from(numbers.subarray(4 * k, 4 * k + 4), (x) => x / 8).join(","),
  );
  return ["a,b,c,d", ...lines].join("\n") + "\n";
}

/** A program with its inputs; gives the results that are compared. */
export type Run = () => Tensor<"float32" | "float64" | "int32" | "uint8">[];

const doubles = (x: Tensor): Tensor<"float64"> => x.astype("float64");

/** Makes the inputs of a program. */
export const PROGRAMS: Readonly<Record<string, (large: boolean) => Run>> = {
  "k-means": (large) => {
    const points = large ? noisy(1, 20_000, 8) : noisy(1, 60, 2);
    const [k, rounds] = large ? [16, 10] : [3, 5];
    return () => {
      const { centers, labels } = kMeans(points, k!, rounds!);
      return [centers, labels];
    };
  },
  "PCA": (large) => {
    const points = large ? noisy(2, 5000, 32) : noisy(2, 40, 5);
    const k = large ? 4 : 2;
    return () => {
      const { components, variances, projected } = pca(points, k);
      return [components.abs(), variances, projected.abs()];
    };
  },
  "least squares": (large) => {
    const features = large ? noisy(3, 5000, 16) : noisy(3, 30, 3);
    const y = features.sum(1).add(noisy(4, features.shape[0]!).mul(0.25));
    return () => [fit(features, y).coefficients];
  },
  "blur": (large) => {
    const image = large ? noisy(5, 512, 512) : noisy(5, 12, 10);
    return () => [blur(image, large ? 2 : 1)];
  },
  "top-k search": (large) => {
    const items = normalize((large ? noisy(6, 20_000, 64) : noisy(6, 50, 8)).sub(0.5));
    const queries = (large ? noisy(7, 32, 64) : noisy(7, 3, 8)).sub(0.5);
    return () => {
      const { scores, indices } = search(items, queries, large ? 10 : 4);
      return [scores, indices];
    };
  },
  "moving average": (large) => {
    const series = doubles(noisy(8, large ? 1_000_000 : 20));
    return () => [movingAverage(series, large ? 50 : 5)];
  },
  "game of life": (large) => {
    const side = large ? 512 : 8;
    const board = noisy(9, side, side).less(0.4).astype("uint8");
    return () => [life(board, large ? 20 : 4)];
  },
  "softmax regression": (large) => {
    const [n, d, classes, steps] = large ? [2000, 64, 10, 50] : [30, 4, 3, 20];
    const points = noisy(10, n!, d!);
    const labels = tensor(integers(11, n!, classes!));
    return () => {
      const { weights, biases } = train(points, labels, classes!, steps!, 0.5);
      return [weights, biases];
    };
  },
  "one-hot": (large) => {
    const names = Array.from(integers(14, large ? 100_000 : 10, large ? 32 : 4), WORD);
    return () => [encode(names).rows];
  },
  "FFT filter": (large) => {
    const signal = noisy(15, large ? 2 ** 18 : 32);
    return () => [lowPass(signal, large ? 1000 : 4)];
  },
  "option pricing": (large) => {
    const n = large ? 200_000 : 8;
    const [spot, strike, years] = [16, 17, 18].map((seed) => doubles(noisy(seed, n)));
    const option = {
      spot: spot!.mul(50).add(50),
      strike: strike!.mul(50).add(50),
      years: years!.add(0.1),
    };
    return () => [callPrice(option, 0.03, 0.2)];
  },
  "TF-IDF": (large) => {
    const texts = large ? textsOf(500, 80, 2000) : textsOf(4, 12, 20);
    return () => [similarity(texts)];
  },
  "CSV statistics": (large) => {
    const text = csvOf(large ? 20_000 : 9);
    return () => [describe(readCsv(text).rows)];
  },
};

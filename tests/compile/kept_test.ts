/**
 * Small calls, which kernels keep from the first run of a program on: later runs, with other
 * operands, give what the ops give alone.
 *
 * @module
 */
import { test } from "node:test";
import { type DType, tensor } from "../../mod.ts";
import type { Any } from "../support.ts";
import { checkCalls } from "./support.ts";

const OPTIONS = { optimize: { fuse: false, tiles: false } };
const DTYPES: DType[] = ["float32", "float64", "float16", "int32", "int64", "uint8"];

/** A tensor of small numbers, which differ from round to round; zeros are among them. */
function numbers(shape: readonly number[], dtype: DType, round: number): Any {
  const length = shape.reduce((product, n) => product * n, 1);
  const values = Array.from({ length }, (_, i) => (7 * i + 3 * round) % 5 + (i % 3) * round);
  return tensor(values, { dtype }).reshape(shape);
}

/** Checks three runs of `f`. */
function checkRuns(f: (...args: Any[]) => Any, shapes: readonly number[][], dtype: DType): void {
  const rounds = [0, 1, 2].map((round) => () =>
    shapes.map((shape) => numbers(shape, dtype, round))
  );
  // No error on both sides.
  f(...rounds[0]!());
  checkCalls(f, rounds, OPTIONS);
}

test("arithmetic of a few rows, with operands that repeat", () => {
  const others = (rows: number, columns: number): number[][] => [
    [rows, 1],
    [columns],
    [1, 1],
    [rows, columns],
  ];
  for (const dtype of DTYPES) {
    for (const [rows, columns] of [[4, 4], [3, 1], [1, 5], [16, 17], [17, 3], [2, 127], [2, 128]]) {
      for (const other of others(rows!, columns!)) {
        checkRuns(
          (x, y) => [x.add(y), y.sub(x), x.mul(y), x.slice(":, ::-1").add(y), x.T.add(x.T)],
          [[rows!, columns!], other],
          dtype,
        );
      }
    }
  }
});

test("other elementwise ops of one row", () => {
  for (const dtype of ["float32", "float64", "float16"] as DType[]) {
    for (const n of [5, 16, 48]) {
      checkRuns(
        (x, y) => [x.exp(), x.clip(1, 3), x.pow(2), x.isclose(y), x.atan2(y), x.slice("1:").sqrt()],
        [[n], [n]],
        dtype,
      );
    }
  }
});

test("reductions of a few runs", () => {
  const names = [
    "sum",
    "mean",
    "prod",
    "max",
    "min",
    "argmax",
    "any",
    "all",
    "countNonzero",
    "std",
  ];
  for (const dtype of DTYPES) {
    for (const shape of [[4, 4], [3, 7], [5, 8], [2, 100], [9], [2, 3, 4]]) {
      for (const axis of shape.length === 1 ? [0] : [0, 1]) {
        checkRuns(
          (x) => names.map((name) => dtype === "int64" && name === "std" ? x : x[name](axis)),
          [shape],
          dtype,
        );
      }
    }
  }
});

test("products of small matrices", () => {
  for (const dtype of DTYPES) {
    for (const [m, k, n] of [[4, 4, 4], [1, 3, 5], [3, 3, 3], [7, 8, 1], [40, 5, 6], [2, 15, 15]]) {
      checkRuns(
        (a, b) => [a.matmul(b), b.T.matmul(a.T), a.slice("::-1").matmul(b), a.matmul(a.T)],
        [[m!, k!], [k!, n!]],
        dtype,
      );
      checkRuns((a, b) => a.matmul(b), [[2, m!, k!], [2, k!, n!]], dtype);
    }
  }
});

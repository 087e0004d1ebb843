/**
 * Shared code of the tests of weights: tensors of random numbers, comparisons, all backends, and the
 * error of `done`.
 *
 * @module
 */
import { assertEquals, assertThrows, fail } from "@std/assert";
import { type DType, FormatError, random } from "../../mod.ts";
import type * as nn from "../../src/nn/mod.ts";
import { BACKENDS, using as on } from "../ops/table/backends.ts";
import { type Any, loose } from "../support.ts";

/** Normal numbers, the same for each seed. */
export function normal(seed: number, shape: readonly number[], dtype: DType = "float32"): Any {
  return loose(random.normal(random.key(seed), shape as number[])).astype(dtype);
}

/** Elements as numbers. */
export function numbers(x: Any): number[] {
  return [...x.to("cpu").astype("float64").toTypedArray()];
}

/** Compares elements with a tolerance for sums of another order, by the dtype of the result. */
export function assertNear(made: Any, expected: Any, about = ""): void {
  assertEquals([...made.shape], [...expected.shape], about);
  const [a, b] = [numbers(made), numbers(expected)];
  const scale = Math.max(1, ...b.map(Math.abs));
  const epsilon = { float16: 2e-3, bfloat16: 2e-2, float32: 3e-6, float64: 1e-14 }[
    made.dtype as "float32"
  ];
  for (const [i, x] of b.entries()) {
    if (Math.abs(a[i]! - x) <= scale * epsilon) continue;
    fail(`${about}: element ${i} is ${a[i]}, not ${x}`);
  }
}

/** Runs `body` on each backend, with a function that moves a tensor there. */
export function everywhere(body: (at: (x: Any) => Any, device: "cpu", name: string) => void): void {
  for (const { name, on: target } of BACKENDS) {
    on(target, () => {
      const device = (typeof target === "string" ? target : "cpu") as "cpu";
      body((x) => x.to(device), device, name);
    });
  }
}

/** The error of `done`, in lines. */
export function report(w: nn.Weights, options?: nn.DoneOptions): string[] {
  const error = assertThrows(() => w.done(options), FormatError) as FormatError;
  assertEquals(error.code, "RM_FORMAT");
  return error.message.split("\n");
}

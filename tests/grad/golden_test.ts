/**
 * Derivatives of calls of all kinds beside PyTorch's, which scripts/golden/grad.py writes.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import * as rm from "../../mod.ts";
import { root } from "../../scripts/tools.ts";
import { compile } from "../../src/compile/mod.ts";
import { checkpoint, grad, stopGradient } from "../../src/grad/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import { loose } from "../support.ts";
import { BACKENDS, using } from "../ops/table/backends.ts";
import { isSampled } from "../support/amount.ts";
import { floatsIn, numbers, type T, uniform, weighted } from "./differences.ts";

interface Golden {
  readonly kind: string;
  readonly torch: string;
  /** The same call here. */
  readonly call: string;
  readonly inputs: Readonly<Record<string, string>>;
  readonly seed: number;
  readonly gradients: readonly (readonly number[])[];
}

const golden: readonly Golden[] = JSON.parse(
  readFileSync(join(root, "tests", "golden", "grad.json"), "utf8"),
);

/** What calls may use beside their inputs. */
const SCOPE: Readonly<Record<string, unknown>> = {
  rm,
  nn,
  L: rm.linalg,
  i: (data: unknown) => rm.tensor(loose(data), { dtype: "int32" }),
  stop: stopGradient,
  /** A copy that `write` has written to. */
  put: (x: T, write: (copy: T) => void): T => {
    const copy = x.mul(1);
    write(copy);
    return copy;
  },
};

/** Calls whose shapes depend on elements. */
const UNTRACED = /slice\(stop\(x\)\.greater/;

/** An input, as the script makes it. */
function made(spec: string, next: () => number): T {
  const [sizes = "", spread] = spec.split(":");
  const shape = sizes.replace("c", "").split(",").filter((one) => one !== "").map(Number);
  const [low, high] = spread?.split(",").map(Number) ?? [-1, 1];
  const part = (): T => uniform(shape, next, low, high);
  return sizes.endsWith("c") ? loose(rm.complex)(part(), part()) : part();
}

function assertGolden(
  { call, inputs, seed, gradients, torch }: Golden,
  way: "eager" | "program" | "checkpoint" = "eager",
): void {
  const next = numbers(seed);
  const names = Object.keys(inputs);
  const params = Object.values(inputs).map((spec) => made(spec, next));
  const f = new Function(...Object.keys(SCOPE), ...names, `return ${call};`);
  const results = (...given: T[]): T[] => floatsIn(f(...Object.values(SCOPE), ...given));
  const used: T = way === "checkpoint" ? checkpoint(results) : results;
  const slope = loose(grad)((given: T[]) => weighted(used(...given)));
  using program: T = loose(compile)(slope);
  const own: T[] = (way === "program" ? program : slope)(params);
  own.forEach((gradient, k) => {
    assertEquals(gradient.shape, params[k].shape);
    const parts: T = /^complex/.test(gradient.dtype)
      ? rm.stack(loose([gradient.real(), gradient.imag()]), -1)
      : gradient;
    const expected = gradients[k]!;
    const values: number[] = [...parts.flatten().toTypedArray()];
    assertEquals(values.length, expected.length);
    const largest = Math.max(1, ...expected.map(Math.abs));
    values.forEach((value, i) => {
      const isNear = Math.abs(value - expected[i]!) < 2e-6 * largest;
      assert(isNear, `${call} by ${names[k]}, element ${i}: ${value}; ${torch}: ${expected[i]}`);
    });
  });
}

test("Derivatives: PyTorch's, of calls of each kind", () => {
  assert(golden.length >= 300);
  for (const kind of new Set(golden.map((one) => one.kind))) {
    assertGolden(golden.find((one) => one.kind === kind)!);
  }
});

for (const target of BACKENDS) {
  for (const kind of new Set(golden.map((one) => one.kind))) {
    test(`derivatives are PyTorch's: ${kind}, ${target.name}`, () => {
      using(target.on, () => {
        for (const one of golden) {
          if (one.kind !== kind) continue;
          if (isSampled(`${one.seed} ${one.call} ${target.name}`, 4)) assertGolden(one);
        }
      });
    });
  }
}

for (const kind of new Set(golden.map((one) => one.kind))) {
  test(`derivatives in programs and checkpoints are PyTorch's: ${kind}`, () => {
    for (const one of golden) {
      if (one.kind !== kind) continue;
      const isTraced = !UNTRACED.test(one.call);
      if (isTraced && isSampled(`${one.seed} ${one.call} program`, 3)) assertGolden(one, "program");
      if (isSampled(`${one.seed} ${one.call} checkpoint`, 6)) assertGolden(one, "checkpoint");
    }
  });
}

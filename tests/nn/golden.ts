/**
 * Runs the cases of tests/golden/nn, which scripts/golden/nn.py writes: PyTorch's results, for every
 * backend, float dtype and layout, eagerly and, in a fixed sample, compiled; in Bun a third of that.
 *
 * A result may differ by `ulps` (4) times the epsilon of the arithmetic's dtype, of the element or of
 * `floor` (1/8) times the largest one, whichever is larger. 16-bit floats are computed in float32, so
 * that their results are rounded once.
 *
 * @module
 */
import { assertEquals, fail } from "@std/assert";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { type DType, finfo, tensor } from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import { sameShape } from "../../src/base/shape.ts";
import { type Any, asView, loose } from "../support.ts";
import { isSampled } from "../support/amount.ts";
import { runsHere } from "../support/engine.ts";
import { BACKENDS, type Target, using } from "../ops/table/backends.ts";

interface GoldenTensor {
  readonly shape: number[];
  readonly sixteenths?: string;
  readonly integers?: string;
  readonly bool?: string;
  readonly floats?: string;
}

interface GoldenCase {
  readonly call: string;
  readonly args: readonly unknown[];
  readonly outputs: readonly GoldenTensor[];
  readonly ulps?: number;
  readonly floor?: number;
}

const FLOATS = ["float16", "bfloat16", "float32", "float64"] as const;

/** Other memory of the same elements. */
const LAYOUTS: readonly ((x: Any) => Any)[] = [
  (x) => x,
  (x) => x.T.copy().T,
  (x) => asView(x),
];

function bytesOf(text: string): ArrayBuffer {
  return Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer as ArrayBuffer;
}

const decoded = new WeakMap<GoldenTensor, Float64Array>();

function valuesOf(one: GoldenTensor): Float64Array {
  let values = decoded.get(one);
  if (values === undefined) {
    const { sixteenths, floats } = one;
    values = floats !== undefined
      ? new Float64Array(bytesOf(floats))
      : Float64Array.from(new Int8Array(bytesOf(sixteenths!)), (k) => k / 16);
    decoded.set(one, values);
  }
  return values;
}

function inputOf(input: GoldenTensor, dtype: DType): Any {
  const { shape, integers, bool } = input;
  if (integers !== undefined) return tensor(new Int32Array(bytesOf(integers)), { shape });
  if (bool !== undefined) return tensor(new Uint8Array(bytesOf(bool)), { shape }).astype("bool");
  return tensor(valuesOf(input), { shape, dtype });
}

/** The arguments of a case with its inputs in their places. */
function argumentsOf(value: unknown, input: (k: number) => Any): Any {
  if (Array.isArray(value)) return value.map((one) => argumentsOf(one, input));
  if (typeof value !== "object" || value === null) return value;
  if ("$" in value) return input(value.$ as number);
  return Object.fromEntries(
    Object.entries(value).map(([key, one]) => [key, argumentsOf(one, input)]),
  );
}

/** The tensors of a result: itself, or its members. */
function tensorsOf(made: Any): Any[] {
  return typeof made.toTypedArray === "function" ? [made] : Object.values(made);
}

function check(about: string, one: GoldenCase, results: readonly Any[], dtype: DType): void {
  assertEquals(results.length, one.outputs.length, about);
  one.outputs.forEach((output, k) => {
    const { shape } = output;
    const made = results[k];
    if (!sameShape(made.shape, shape)) assertEquals([...made.shape], shape, about);
    assertEquals(made.dtype, dtype, about);
    const values: Float64Array = made.to("cpu").astype("float64").toTypedArray();
    const expected = valuesOf(output);
    const largest = expected.reduce(
      (most, x) => Number.isFinite(x) ? Math.max(most, Math.abs(x)) : most,
      0,
    );
    const { eps, smallestNormal, bits } = finfo(loose(dtype));
    const unit = (one.ulps ?? 4) * (bits === 16 ? finfo("float32").eps : eps);
    // Where results are rounded to 16 bits: near 0, by half of the distance of the smallest numbers.
    const rounding = bits === 16 ? eps / 2 : 0;
    const least = smallestNormal * eps / 2;
    expected.forEach((x, i) => {
      const y = values[i]!;
      if (Object.is(x, y) || (x === 0 && y === 0)) return;
      const size = Math.abs(x);
      const bound = unit * Math.max(size, (one.floor ?? 1 / 8) * largest) + rounding * size + least;
      if (!(Math.abs(y - x) <= bound)) {
        fail(`${about}, result ${k}: element ${i} is ${y}, not ${x}`);
      }
    });
  });
}

/** Throws unless two tensors have the same elements; all NaN are equal. */
function assertSame(about: string, actual: Any, expected: Any): void {
  assertEquals(actual.dtype, expected.dtype, about);
  assertEquals([...actual.shape], [...expected.shape], about);
  const [own, other] = [actual, expected].map((x) => x.astype("float64").toTypedArray());
  other.forEach((x: number, i: number) => {
    if (!Object.is(own[i], x)) fail(`${about}: element ${i} is ${own[i]}, not ${x}`);
  });
}

/** The places of the inputs in arguments. */
function placesIn(value: unknown): number[] {
  if (typeof value !== "object" || value === null) return [];
  if ("$" in value) return [value.$ as number];
  return [...new Set(Object.values(value).flatMap(placesIn))];
}

function runCase(
  one: GoldenCase,
  all: readonly GoldenTensor[],
  about: string,
  { name, on, compiled }: Target,
): void {
  const device = typeof on === "string" ? on : "cpu";
  const places = placesIn(one.args);
  for (const dtype of FLOATS) {
    LAYOUTS.forEach((layout, l) => {
      const text = `${about}, ${dtype}, layout ${l}`;
      if (!runsHere(`${text}, ${name}`, 3)) return;
      const inputs = places.map((k) => layout(inputOf(all[k]!, dtype).to(device)));
      const call = (...given: Any[]): Any[] =>
        tensorsOf(loose(nn)[one.call](...argumentsOf(one.args, (k) => given[places.indexOf(k)])));
      const made = call(...inputs);
      check(text, one, made, dtype);
      // A program takes longer to compile than such an eager call to run.
      if (compiled === undefined || !isSampled(`${text}, ${name}`, 4)) return;
      const program = compile(call);
      const again = program(...inputs);
      assertEquals(again.length, made.length, text);
      again.forEach((x, k) => assertSame(`${text}, compiled, result ${k}`, x, made[k]));
      program.dispose();
    });
  }
}

interface GoldenFile {
  readonly inputs: readonly GoldenTensor[];
  readonly cases: readonly GoldenCase[];
}

/** A test for each function of a file of cases and each backend. */
export function testGolden(group: string): void {
  const file = new URL(`../golden/nn/${group}.json`, import.meta.url);
  const { cases, inputs } = JSON.parse(readFileSync(file, "utf8")) as GoldenFile;
  const calls = Map.groupBy(cases, ({ call }) => call);
  for (const [call, own] of calls) {
    for (const target of BACKENDS) {
      test(`${call} as PyTorch, ${target.name}`, () =>
        using(target.on, () => {
          own.forEach((one, k) => runCase(one, inputs, `${call} case ${k}`, target));
        }));
    }
  }
}

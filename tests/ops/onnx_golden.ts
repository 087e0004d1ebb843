/**
 * The cases of tests/golden/onnx, which scripts/golden/onnx_ops.py writes, on every backend, eagerly and
 * compiled.
 *
 * @module
 */
import { assertEquals, fail } from "@std/assert";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { type DType, tensor } from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import { type Any, loose } from "../support.ts";
import { ALL_BACKENDS, using } from "./table/backends.ts";

interface GoldenArray {
  readonly shape: number[];
  readonly dtype: DType;
  readonly data: string;
}

/** A call of an operator of ONNX. */
export interface OnnxCase {
  readonly op: string;
  readonly attributes: Readonly<Record<string, Any>>;
  readonly inputs: readonly (GoldenArray | null)[];
  readonly outputs: readonly GoldenArray[];
}

const ARRAYS: Readonly<Record<string, Any>> = {
  float32: Float32Array,
  float64: Float64Array,
  int8: Int8Array,
  uint8: Uint8Array,
  int32: Int32Array,
  int64: BigInt64Array,
};

function arrayOf({ dtype, data }: GoldenArray): Any {
  return new ARRAYS[dtype](Uint8Array.from(atob(data), (c) => c.charCodeAt(0)).buffer);
}

function tensorOf(one: GoldenArray, on: string): Any {
  return loose(tensor(arrayOf(one), { shape: one.shape, dtype: one.dtype } as Any)).to(on);
}

function assertClose(made: Any, wanted: GoldenArray, tolerance: number, what: string): void {
  assertEquals([[...made.shape], made.dtype], [wanted.shape, wanted.dtype], what);
  const [got, values] = [made.to("cpu").copy().toTypedArray(), arrayOf(wanted)];
  for (let i = 0; i < values.length; i++) {
    const [a, b] = [Number(got[i]), Number(values[i])];
    if (Object.is(a, b) || Math.abs(a - b) <= tolerance * Math.max(1, Math.abs(b))) continue;
    fail(`${what}: element ${i} is ${a}, not ${b}`);
  }
}

/** Tests `run` on all cases of a file; it gives the outputs of a case, and may be part of a program. */
export function testOnnxCases(
  file: string,
  tolerance: number,
  run: (one: OnnxCase, inputs: (Any | undefined)[]) => Any[],
  compiles = true,
): void {
  const url = new URL(`../golden/onnx/${file}.json`, import.meta.url);
  const cases = JSON.parse(readFileSync(url, "utf8")) as OnnxCase[];
  for (const { name, on } of ALL_BACKENDS) {
    test(`ONNX: ${file} on ${name}`, () =>
      using(on, () => {
        const device = typeof on === "string" ? on : "cpu";
        cases.forEach((one, i) => {
          const what = `case ${i}, ${one.op} ${JSON.stringify(one.attributes)}`;
          const inputs = one.inputs.map((x) => x === null ? undefined : tensorOf(x, device));
          const check = (made: Any[]): void =>
            one.outputs.forEach((wanted, k) => assertClose(made[k], wanted, tolerance, what));
          check(run(one, inputs));
          // Each of several programs; compiling all of them takes long.
          if (!compiles || i % 4 !== 0) return;
          const given = inputs.filter((x) => x !== undefined);
          const program = compile((...args: Any[]) => {
            let k = 0;
            return run(one, inputs.map((x) => x === undefined ? undefined : args[k++]));
          });
          check(program(...given) as Any[]);
          program.dispose();
        });
      }));
  }
}

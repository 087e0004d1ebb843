/**
 * Small ONNX models of our own give the results of ONNX Runtime: graphs of several nodes, functions,
 * graphs inside nodes, sequences, texts, old versions of ops, ops of com.microsoft, and quantized models.
 * scripts/golden/onnx_cases.py and onnx_quantized.py write them.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { usingAsync } from "../ops/table/backends.ts";
import { type Case, runCase, TARGETS } from "./nodes.ts";

interface Data {
  readonly data: string;
}

/** A case with its files in base64. */
interface Golden extends Case {
  readonly model: string;
  readonly inputs: readonly (Case["inputs"][number] & Data)[];
  readonly outputs: readonly (Case["outputs"][number] & Data)[];
}

const CASES: readonly Golden[] = ["cases", "quantized"].flatMap((file) =>
  JSON.parse(readFileSync(new URL(`../golden/onnx/${file}.json`, import.meta.url), "utf8"))
);

const decoded = (text: string): Uint8Array => Uint8Array.fromBase64(text);

for (const { name: backend, on } of TARGETS) {
  for (const one of CASES) {
    const files: Record<string, string> = { "model.onnx": one.model };
    one.inputs.forEach(({ data }, i) => files[`input_${i}.pb`] = data);
    one.outputs.forEach(({ data }, i) => files[`output_${i}.pb`] = data);
    test(`${one.name} (${backend})`, async () => {
      const why = await usingAsync(on, () => runCase(one, (file) => decoded(files[file]!)));
      assertEquals(why, undefined);
    });
  }
}

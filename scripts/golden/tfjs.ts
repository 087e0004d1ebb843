/**
 * Computes the left sides of the tables in docs/from-tfjs.md with TensorFlow.js, on its CPU backend:
 * what golden_peers.py is for the other pages. The argument is a folder where this has run:
 *
 *     npm install --ignore-scripts @tensorflow/tfjs@4.22.0
 *
 * TensorFlow.js is not a dependency of this repository: only changes of that page need it.
 *
 * @module
 */
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";
import process from "node:process";
import { evaluate, readOperands, readPeerRows } from "../../tests/docs/peer_tables.ts";

const root = new URL("../../", import.meta.url);

/** Tensors as nested arrays, numbers and strings unchanged; null for anything else. */
function plain(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(plain);
  if (ArrayBuffer.isView(value)) return [...value as Float32Array];
  if (typeof value !== "object" || value === null) return value ?? null;
  const { arraySync, dtype } = value as { arraySync?: () => unknown; dtype?: string };
  const data = arraySync?.call(value) ?? null;
  return dtype === "bool" ? truth(data) : data;
}

/** TensorFlow.js returns bools as 0 and 1. */
function truth(data: unknown): unknown {
  return Array.isArray(data) ? data.map(truth) : data === 1;
}

const require = createRequire(resolve(process.argv[2] ?? ".", "package.json"));
const tf = require("@tensorflow/tfjs");
await tf.setBackend("cpu");

const results = new Map<string, unknown>();
for (
  const { line, there } of readPeerRows(readFileSync(new URL("docs/from-tfjs.md", root), "utf8"))
) {
  for (const code of there) {
    const operands = readOperands((data, dtype) => tf.tensor(data, undefined, dtype));
    try {
      results.set(code, plain(await evaluate(code, { tf, ...operands })));
    } catch (error) {
      throw new Error(`docs/from-tfjs.md:${line}: ${code}: ${error}`);
    }
  }
}
const lines = Array.from(results, (entry) => entry.map((part) => JSON.stringify(part)).join(": "));
writeFileSync(new URL("tests/golden/peers/tfjs.json", root), `{\n${lines.join(",\n")}\n}\n`);
console.log(`tfjs: ${results.size} expressions`);

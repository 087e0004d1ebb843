/**
 * Damaged ONNX files: an answer, or an error of a class of this library that says what is wrong, for
 * bounded memory.
 *
 * @module
 */
import { takeBytes } from "../support/effort.ts";
import { assert, assertEquals } from "@std/assert";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { setBackend } from "../../mod.ts";
import * as errors from "../../src/base/errors.ts";
import { open, readSequence, readTensor, type Value } from "../../src/onnx/mod.ts";
import { amount } from "../support/amount.ts";
import { damaged } from "./damage.ts";

// Constructors that count are those of the JavaScript backend.
setBackend("js");

interface Golden {
  readonly name: string;
  readonly model: string;
  readonly inputs: readonly {
    readonly name: string;
    readonly kind: string;
    readonly data: string;
  }[];
}

const CASES: readonly Golden[] = JSON.parse(
  readFileSync(new URL("../golden/onnx/cases.json", import.meta.url), "utf8"),
);
const COUNT = amount(500, 5000);
/** Bytes that arrays may have for a model of a few kilobytes; what a program computes counts as well. */
const MOST_BYTES = 64 * 2 ** 20;
/** The errors that say what is wrong with a file, or with its ops. */
const EXPECTED = [
  ...[errors.FormatError, errors.ArgumentError, errors.ShapeError, errors.DTypeError],
  ...[errors.AxisError, errors.OutOfMemoryError],
];

/** Opens a damaged file and runs it; returns what it gives. */
async function outcome(bytes: Uint8Array, feeds: Record<string, Value>): Promise<string> {
  let stage = "open";
  try {
    using model = await open(bytes);
    stage = "run";
    model.run(feeds);
    return "answer";
  } catch (error) {
    if (EXPECTED.some((kind) => error instanceof kind)) return `${stage}: ${(error as Error).name}`;
    throw error;
  }
}

test(`${COUNT} damaged files give an answer or an error, for bounded memory`, async () => {
  const outcomes = new Map<string, number>();
  for (let k = 0; k < COUNT; k++) {
    const { name, model, inputs } = CASES[k % CASES.length]!;
    const feeds: Record<string, Value> = {};
    for (const { name, kind, data } of inputs) {
      const read = kind === "tensor" ? readTensor : readSequence;
      feeds[name] = await read(Uint8Array.fromBase64(data));
    }
    const bytes = damaged(Uint8Array.fromBase64(model), k);
    takeBytes();
    let what: string;
    try {
      what = await outcome(bytes, feeds);
    } catch (error) {
      throw new Error(`file ${k}, of ${name}`, { cause: error });
    }
    const asked = takeBytes();
    assert(asked <= MOST_BYTES, `file ${k}, of ${name}, asks for ${asked} bytes (${what})`);
    outcomes.set(what, (outcomes.get(what) ?? 0) + 1);
  }
  // Most files are damaged, and some still run.
  assert((outcomes.get("open: FormatError") ?? 0) > COUNT / 2, JSON.stringify([...outcomes]));
  assert((outcomes.get("answer") ?? 0) > COUNT / 50, JSON.stringify([...outcomes]));
});

test("a file without nodes, an empty one and one of other bytes are refused", async () => {
  const text = new TextEncoder().encode("<!doctype html><html><body>not found</body></html>");
  for (const bytes of [new Uint8Array(0), text, new Uint8Array(1000)]) {
    assertEquals(await outcome(bytes, {}), "open: FormatError");
  }
});

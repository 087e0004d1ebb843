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
import { open, readSequence, readTensor, Strings, type Value } from "../../src/onnx/mod.ts";
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
const COUNT = amount(500, 2000);
/** Bytes of arrays for a model of a few kilobytes, and for each byte of its results. */
const MOST_BYTES = 64 * 2 ** 20;
const MOST_FOR_BYTE = 32;
/** The errors that say what is wrong with a file, or with its ops. */
const EXPECTED = [
  ...[errors.FormatError, errors.ArgumentError, errors.ShapeError, errors.DTypeError],
  ...[errors.AxisError, errors.IndexError, errors.OutOfMemoryError],
];

/** The bytes of values. */
function sizeOf(values: readonly Value[]): number {
  return values.reduce((sum: number, value) => {
    if (value === undefined || value === null || value instanceof Strings) return sum;
    return sum + ("nbytes" in value ? value.nbytes : sizeOf(value));
  }, 0);
}

/** Opens a damaged file and runs it; returns what it gives, and the bytes of the results. */
async function outcome(
  bytes: Uint8Array,
  feeds: Record<string, Value>,
): Promise<[what: string, size: number]> {
  let stage = "open";
  try {
    using model = await open(bytes);
    stage = "run";
    return ["answer", sizeOf(Object.values(model.run(feeds)))];
  } catch (error) {
    if (EXPECTED.some((kind) => error instanceof kind)) {
      return [`${stage}: ${(error as Error).name}`, 0];
    }
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
    let what: string, size: number;
    try {
      [what, size] = await outcome(bytes, feeds);
    } catch (error) {
      throw new Error(`file ${k}, of ${name}`, { cause: error });
    }
    const asked = takeBytes();
    const most = MOST_BYTES + size * MOST_FOR_BYTE;
    assert(asked <= most, `file ${k}, of ${name}, asks for ${asked} bytes (${what})`);
    outcomes.set(what, (outcomes.get(what) ?? 0) + 1);
  }
  // Most files are damaged, and some still run.
  assert((outcomes.get("open: FormatError") ?? 0) > COUNT / 2, JSON.stringify([...outcomes]));
  assert((outcomes.get("answer") ?? 0) > COUNT / 50, JSON.stringify([...outcomes]));
});

test("a file without nodes, an empty one and one of other bytes are refused", async () => {
  const text = new TextEncoder().encode("<!doctype html><html><body>not found</body></html>");
  for (const bytes of [new Uint8Array(0), text, new Uint8Array(1000)]) {
    assertEquals(await outcome(bytes, {}), ["open: FormatError", 0]);
  }
});

/**
 * Requests of the Open Inference Protocol with random changes: the service answers each with what is
 * wrong, and never fails.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import type { Tensor } from "../../mod.ts";
import { inference, type InferenceModel } from "../../src/serve/mod.ts";
import { amount } from "../support/amount.ts";
import { Strings, type Value } from "../../src/onnx/mod.ts";

/** Numbers from 0 to `below`, the same in each run. */
function randomOf(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    // The generator of Numerical Recipes, whose upper bits are good enough here.
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor(state / 2 ** 32 * below);
  };
}

const model: InferenceModel = {
  inputs: [
    { name: "x", dtype: "float32", shape: ["rows", 2] },
    { name: "i", dtype: "int64", shape: ["rows"] },
    { name: "t", dtype: "string", shape: [1], kind: "optional" },
  ],
  outputs: [{ name: "y", dtype: "float32", shape: ["rows", 2] }, { name: "t", dtype: "string" }],
  run: ({ x, t }: Record<string, Value>) => ({
    y: (x as Tensor).mul(2),
    t: t ?? new Strings(["none"]),
  }),
};

const JSON_BODY = new TextEncoder().encode(JSON.stringify({
  id: "1",
  inputs: [
    { name: "x", shape: [2, 2], datatype: "FP32", data: [[1, 2.5], [-3e2, 4]] },
    { name: "i", shape: [2], datatype: "INT64", data: [9007199254740993n, 5n].map(Number) },
    { name: "t", shape: [1], datatype: "BYTES", data: ["te\u00e9xt"] },
  ],
  outputs: [{ name: "y", parameters: { binary_data: true } }, { name: "t" }],
}));

/** The same inputs as bytes behind the JSON, and the length of the JSON. */
function binaryBody(): [body: Uint8Array, head: number] {
  const json = new TextEncoder().encode(JSON.stringify({
    inputs: [
      { name: "x", shape: [2, 2], datatype: "FP32", parameters: { binary_data_size: 16 } },
      { name: "i", shape: [2], datatype: "INT64", parameters: { binary_data_size: 16 } },
      { name: "t", shape: [1], datatype: "BYTES", parameters: { binary_data_size: 7 } },
    ],
    parameters: { binary_data_output: true },
  }));
  const text = [3, 0, 0, 0, 97, 98, 99];
  return [Uint8Array.from([...json, ...Array(32).fill(1), ...text]), json.length];
}

/** What changes put in the place of others. */
const PIECES = [
  ...["[", "]", "{", "}", ",", ":", '"', "-", "null", "true", "1e999", "1e9", "0", "-1", "2.5"],
  ...["9007199254740993", "\\u0000", "\\", "[[[[", "[]", "{}", '"x"', '"NaN"', '"__proto__":1,'],
  ...['"binary_data_size":4', '"shape":[4294967296,4294967296]', '"shape":[0,2]', "\u00e9", "\0"],
].map((piece) => new TextEncoder().encode(piece));

/** A body with one to three changes. */
function changed(body: Uint8Array, random: (below: number) => number): Uint8Array {
  let bytes = [...body];
  for (let changes = 1 + random(3); changes > 0; changes--) {
    const [at, kind] = [random(bytes.length), random(5)];
    if (kind === 0) bytes.splice(at, random(8));
    else if (kind === 1) bytes[at] = random(256);
    else if (kind === 2) {
      const piece = PIECES[random(PIECES.length)]!;
      bytes = [...bytes.slice(0, at), ...piece, ...bytes.slice(at + random(piece.length + 1))];
    } else {
      // Another digit for the next one: sizes, data and lengths that are JSON still.
      const digit = bytes.findIndex((byte, i) => i >= at && byte >= 48 && byte <= 57);
      if (digit >= 0) bytes[digit] = 48 + random(10);
    }
  }
  return Uint8Array.from(bytes);
}

const SLOW = { timeout: 120_000 };
test("inference: changed requests are answered, and nothing fails", SLOW, async (t) => {
  const logged = t.mock.method(console, "error", () => {});
  const service = inference({ models: { m: { model, batch: undefined, sizes: { rows: 1000 } } } });
  const [binary, head] = binaryBody();
  const random = randomOf(2026);
  const post = async (body: Uint8Array, headers: Record<string, string>): Promise<number> => {
    const response = await service.fetch(
      new Request("http://localhost/v2/models/m/infer", {
        method: "POST",
        headers,
        body: body as Uint8Array<ArrayBuffer>,
      }),
    );
    if (response.status === 200) return await response.arrayBuffer(), 200;
    const { error, ...more } = await response.json();
    assert(typeof error === "string" && error.length < 1000 && !error.includes(".ts:"), error);
    assertEquals(more, {});
    return response.status;
  };
  const type = { "content-type": "application/json" };
  const lengthOf = (length: number) => ({ "inference-header-content-length": `${length}` });
  assertEquals(await post(JSON_BODY, type), 200);
  assertEquals(await post(binary, lengthOf(head)), 200);
  const statuses = new Map<number, number>();
  for (let i = 0; i < amount(500, 10_000); i++) {
    const isJson = random(2) === 0;
    const body = changed(isJson ? JSON_BODY : binary, random);
    // The length of the JSON is right, mostly, whatever the JSON has become.
    const length = random(4) === 0 ? random(600) : head + body.length - binary.length;
    const status = await post(body, isJson ? type : lengthOf(Math.max(length, 0)));
    statuses.set(status, (statuses.get(status) ?? 0) + 1);
  }
  assertEquals([...statuses.keys()].toSorted(), [200, 400], JSON.stringify([...statuses]));
  assert(statuses.get(400)! > 100 && statuses.get(200)! > 30, JSON.stringify([...statuses]));
  assertEquals(logged.mock.callCount(), 0, String(logged.mock.calls[0]?.arguments[0]));
});

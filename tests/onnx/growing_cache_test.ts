/**
 * Decoders behind ONNX Runtime's interface: caches that grow by a row for each token give the results of
 * the model itself, and no program for each length.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import { fromBuffer, memory, type Tensor as CoreTensor } from "../../mod.ts";
import { InferenceSession, Tensor } from "../../src/onnx/session.ts";
import { floats, type GraphParts, int64s, makeModel, type NodeParts } from "./make.ts";

const D = 4;

/** Attention of tokens x [1, S, D] to a cache and to one another, under a mask. */
function decoder(more: readonly NodeParts[] = [], last = "y"): Uint8Array {
  const cache = ["batch", 1, "past", D] as const;
  const graph: GraphParts = {
    inputs: [
      ["x", "float32", ["batch", "tokens", D]],
      ["attention_mask", "int64", ["batch", "all"]],
      ["past_key_values.0.key", "float32", cache],
      ["past_key_values.0.value", "float32", cache],
    ],
    outputs: [
      ["logits", "float32"],
      ["present.0.key", "float32"],
      ["present.0.value", "float32"],
    ],
    nodes: [
      ["Unsqueeze", ["x", "one"], ["q"]],
      ["Mul", ["q", "half"], ["v"]],
      ["Concat", ["past_key_values.0.key", "q"], ["present.0.key"], { axis: { int: 2 } }],
      ["Concat", ["past_key_values.0.value", "v"], ["present.0.value"], { axis: { int: 2 } }],
      ["Transpose", ["present.0.key"], ["t"], { perm: [0, 1, 3, 2] }],
      ["MatMul", ["q", "t"], ["scores"]],
      ["Cast", ["attention_mask"], ["m"], { to: { int: 1 } }],
      ["Sub", ["m", "half2"], ["n"]],
      ["Mul", ["n", "large"], ["o"]],
      ["Unsqueeze", ["o", "axes"], ["bias"]],
      ["Add", ["scores", "bias"], ["biased"]],
      ["Softmax", ["biased"], ["weights"], { axis: { int: -1 } }],
      ["MatMul", ["weights", "present.0.value"], ["y"]],
      ...more,
      ["Identity", [last], ["logits"]],
    ],
    tensors: [
      int64s("one", [1]),
      int64s("axes", [1, 2]),
      floats("half", [], [0.5]),
      floats("half2", [], [1]),
      floats("large", [], [1e9]),
    ],
  };
  return makeModel(graph);
}

/** The results of steps of one token, by a session and by its model, and the programs of the session. */
async function steps(bytes: Uint8Array, count: number) {
  const session = await InferenceSession.create(bytes);
  const plain = await InferenceSession.create(bytes);
  const empty = () => new Tensor("float32", new Float32Array(0), [1, 1, 0, D]);
  let [key, value]: Tensor[] = [empty(), empty()];
  const seen: number[][] = [[], []];
  let length = 0;
  for (let step = 0; step < count; step++) {
    const tokens = step === 0 ? 3 : 1;
    const data = Float32Array.from({ length: tokens * D }, (_, i) => Math.sin(step * 7 + i));
    length += tokens;
    const mask = BigInt64Array.from({ length }, (_, i) => i === 1 ? 0n : 1n);
    const feeds = {
      x: new Tensor("float32", data, [1, tokens, D]),
      attention_mask: new Tensor("int64", mask, [1, length]),
    };
    const past = { "past_key_values.0.key": key!, "past_key_values.0.value": value! };
    const results = await session.run({ ...feeds, ...past });
    // Caches that were read are new ones to the other session.
    const copies = Object.fromEntries(
      Object.entries(past).map(([name, x]) => [name, new Tensor("float32", x.data, x.dims)]),
    );
    const model = plain.model.run({
      ...Object.fromEntries(Object.entries(feeds).map(([name, x]) => [name, coreOf(x)])),
      ...Object.fromEntries(Object.entries(copies).map(([name, x]) => [name, coreOf(x)])),
    });
    seen[0]!.push(...results["logits"]!.data as Float32Array);
    seen[1]!.push(...(model["logits"] as CoreTensor).toTypedArray() as Float32Array);
    assertEquals(results["present.0.key"]!.dims, [1, 1, length, D]);
    for (const x of Object.values(model)) (x as CoreTensor).dispose();
    key!.dispose();
    value!.dispose();
    results["logits"]!.dispose();
    [key, value] = [results["present.0.key"]!, results["present.0.value"]!];
  }
  const { programs } = session.model;
  const largest = Math.max(...seen[0]!.map((x, i) => Math.abs(x - seen[1]![i]!)));
  key!.dispose();
  value!.dispose();
  await session.release();
  await plain.release();
  return { programs, largest };
}

function coreOf({ data, dims }: Tensor): CoreTensor {
  return fromBuffer(data as Float32Array, { shape: dims }) as CoreTensor;
}

test("a cache that grows to 300 rows has the model's results and few programs", async () => {
  const { programs, largest } = await steps(decoder(), 300);
  assert(largest < 1e-5, `results differ by ${largest}`);
  assert(programs <= 12, `${programs} programs`);
});

test("a decoder whose results depend on the length of its cache runs with its own length", async () => {
  const byLength: readonly NodeParts[] = [
    ["Size", ["present.0.key"], ["size"]],
    ["Cast", ["size"], ["factor"], { to: { int: 1 } }],
    ["Mul", ["y", "factor"], ["z"]],
  ];
  const { largest } = await steps(decoder(byLength, "z"), 40);
  assert(largest < 1e-3, `results differ by ${largest}`);
});

test("caches of many texts leave no memory", async () => {
  const bytes = decoder();
  await steps(bytes, 10);
  const used = (): number => memory().bytes - memory().pooledBytes;
  const before = used();
  for (let text = 0; text < 5; text++) await steps(bytes, 20);
  assert(used() - before < 100_000, `${used() - before} bytes are left`);
});

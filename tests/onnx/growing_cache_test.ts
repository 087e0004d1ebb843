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

/** A table of positions with so many rows. */
const positions = (rows: number) =>
  floats("table", [rows, D], Array.from({ length: rows * D }, (_, i) => Math.cos(i)));

/** Attention of queries to keys and values: scores, to which nodes may add, and their softmax. */
function attention(k: string, v: string, y: string, bias?: string): readonly NodeParts[] {
  return [
    ["Transpose", [k], [`${y}/t`], { perm: [0, 1, 3, 2] }],
    ["MatMul", ["q", `${y}/t`], [`${y}/scores`]],
    ...bias === undefined ? [] : [["Add", [`${y}/scores`, bias], [`${y}/sum`]] as const],
    [
      "Softmax",
      [bias === undefined ? `${y}/scores` : `${y}/sum`],
      [`${y}/weights`],
      { axis: { int: -1 } },
    ],
    ["MatMul", [`${y}/weights`, v], [y]],
  ];
}

interface Merged {
  /** The rows of the table of positions. */
  readonly rows?: number;
  /** Whether scores have a bias that depends on the distance of the tokens. */
  readonly hasDistances?: boolean;
  /** Nodes that compute the logits of y. */
  readonly last?: readonly NodeParts[];
}

/**
 * A decoder without a mask of its tokens, whose first step has another branch: positions and distances
 * come from the length of the cache.
 */
function merged({ rows = 512, hasDistances = true, last }: Merged): Uint8Array {
  const cache = (name: string) => ["batch", 1, name, D] as const;
  const names = ["decoder.key", "decoder.value", "encoder.key", "encoder.value"];
  const outputs = ["logits", ...names.map((name) => `present.0.${name}`)];
  const ends: readonly NodeParts[] = [
    ["Add", ["y", "seen"], ["z"]],
    ...last ?? [["Identity", ["z"], ["logits"]] as const],
  ];
  // What the encoder's mask adds to scores, for the keys of a cache.
  const masked = (keys: string): readonly NodeParts[] => [
    ["Cast", ["encoder_attention_mask"], ["m"], { to: { int: 1 } }],
    ["Sub", ["m", "whole"], ["n"]],
    ["Mul", ["n", "large"], ["o"]],
    ["Unsqueeze", ["o", "axes"], ["p"]],
    ["Shape", [keys], ["seenSizes"]],
    ["Gather", ["seenSizes", "axis2"], ["count"], { axis: { int: 0 } }],
    ["Slice", ["p", "start", "count", "axis3"], ["mask"]],
  ];
  const query = (from: string): readonly NodeParts[] => [
    ["Shape", ["x"], ["sizes"]],
    ["Gather", ["sizes", "1"], ["tokens"], { axis: { int: 0 } }],
    ["Add", [from, "tokens"], ["total"]],
    ["Range", [from, "total", "1"], ["places"]],
    ["Gather", ["table", "places"], ["rows"], { axis: { int: 0 } }],
    ["Add", ["x", "rows"], ["placed"]],
    ["Unsqueeze", ["placed", "axis"], ["q"]],
  ];
  const first: GraphParts = {
    nodes: [
      ...query("0"),
      ["Identity", ["q"], ["present.0.decoder.key"]],
      ["Mul", ["q", "half"], ["present.0.decoder.value"]],
      ["Unsqueeze", ["encoder_hidden_states", "axis"], ["present.0.encoder.key"]],
      ["Mul", ["present.0.encoder.key", "half"], ["present.0.encoder.value"]],
      ...attention("present.0.decoder.key", "present.0.decoder.value", "y"),
      ...masked("present.0.encoder.key"),
      ...attention("present.0.encoder.key", "present.0.encoder.value", "seen", "mask"),
      ...ends,
    ],
    outputs: outputs.map((name) => [name, "float32"]),
  };
  const later: GraphParts = {
    nodes: [
      ["Shape", ["past_key_values.0.decoder.key"], ["past"]],
      ["Gather", ["past", "2"], ["length"], { axis: { int: 0 } }],
      ...query("length"),
      ["Mul", ["q", "half"], ["v"]],
      ["Concat", ["past_key_values.0.decoder.key", "q"], ["present.0.decoder.key"], {
        axis: { int: 2 },
      }],
      ["Concat", ["past_key_values.0.decoder.value", "v"], ["present.0.decoder.value"], {
        axis: { int: 2 },
      }],
      ["Identity", ["past_key_values.0.encoder.key"], ["present.0.encoder.key"]],
      ["Identity", ["past_key_values.0.encoder.value"], ["present.0.encoder.value"]],
      ["Range", ["0", "total", "1"], ["columns"]],
      ["Unsqueeze", ["places", "last"], ["places2"]],
      ["Sub", ["columns", "places2"], ["distances"]],
      ["Cast", ["distances"], ["far"], { to: { int: 1 } }],
      ["Mul", ["far", "tenth"], ["bias"]],
      ...attention(
        "present.0.decoder.key",
        "present.0.decoder.value",
        "y",
        hasDistances ? "bias" : undefined,
      ),
      ...masked("past_key_values.0.encoder.key"),
      ...attention(
        "past_key_values.0.encoder.key",
        "past_key_values.0.encoder.value",
        "seen",
        "mask",
      ),
      ...ends,
    ],
    outputs: outputs.map((name) => [name, "float32"]),
  };
  return makeModel({
    inputs: [
      ["x", "float32", ["batch", "tokens", D]],
      ["encoder_hidden_states", "float32", ["batch", "encoder", D]],
      ["encoder_attention_mask", "int64", ["batch", "encoder"]],
      ...names.map((name) =>
        [
          `past_key_values.0.${name}`,
          "float32",
          cache(name.startsWith("decoder") ? "past" : "encoder_out"),
        ] as const
      ),
      ["use_cache_branch", "bool", [1]],
    ],
    outputs: outputs.map((name) => [name, "float32"]),
    nodes: [["If", ["use_cache_branch"], outputs, {
      then_branch: { graph: later },
      else_branch: { graph: first },
    }]],
    tensors: [
      int64s("0", [0], []),
      int64s("1", [1], []),
      int64s("2", [2], []),
      int64s("axis", [1]),
      int64s("axis2", [2]),
      int64s("axis3", [3]),
      int64s("axes", [1, 2]),
      int64s("start", [0]),
      int64s("last", [-1]),
      floats("half", [], [0.5]),
      floats("whole", [], [1]),
      floats("large", [], [1e9]),
      floats("tenth", [], [0.1]),
      positions(rows),
    ],
  });
}

/** A decoder of GroupQueryAttention, whose lengths come from its mask. */
function grouped(): Uint8Array {
  const cache = ["batch", 1, "past", D] as const;
  const angles = (name: string, f: (x: number) => number) =>
    floats(name, [512, D / 2], Array.from({ length: 256 * D }, (_, i) => f(i / 10)));
  return makeModel({
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
      ["ReduceSum", ["attention_mask", "axis"], ["counts"], { keepdims: { int: 0 } }],
      ["Sub", ["counts", "axis"], ["ends"]],
      ["Cast", ["ends"], ["seqlens"], { to: { int: 6 } }],
      ["Shape", ["attention_mask"], ["sizes"]],
      ["Gather", ["sizes", "1"], ["total"], { axis: { int: 0 } }],
      ["Cast", ["total"], ["all"], { to: { int: 6 } }],
      ["Concat", ["x", "x"], ["q"], { axis: { int: -1 } }],
      [
        "GroupQueryAttention",
        [
          ...["q", "x", "x", "past_key_values.0.key", "past_key_values.0.value"],
          ...["seqlens", "all", "cos", "sin"],
        ],
        ["logits", "present.0.key", "present.0.value"],
        { num_heads: { int: 2 }, kv_num_heads: { int: 1 }, do_rotary: { int: 1 } },
        "com.microsoft",
      ],
    ],
    tensors: [
      int64s("axis", [1]),
      int64s("1", [1], []),
      angles("cos", Math.cos),
      angles("sin", Math.sin),
    ],
  });
}

/** Steps of texts. */
interface Steps {
  /** The tokens of the first step. */
  readonly first?: number;
  /** The texts that a step has. */
  readonly batch?: number;
  /** The places that an encoder has seen. */
  readonly encoder?: number;
}

/** The results of steps, by a session and by its model, and the programs of the session. */
async function steps(bytes: Uint8Array, count: number, how: Steps = {}) {
  const session = await InferenceSession.create(bytes);
  const seen = await text(session, bytes, count, how);
  const { programs } = session.model;
  await session.release();
  return { programs, ...seen };
}

/** The largest difference of the results of steps of a text, by a session and by another's model. */
async function text(session: InferenceSession, bytes: Uint8Array, count: number, how: Steps) {
  const { first = 3, batch = 1, encoder = 5 } = how;
  const plain = await InferenceSession.create(bytes);
  const names = session.inputNames.filter((name) => name.startsWith("past"));
  let past: Record<string, Tensor> = Object.fromEntries(
    names.map((name) => [name, new Tensor("float32", new Float32Array(0), [batch, 1, 0, D])]),
  );
  const sines = (n: number, from: number) =>
    Float32Array.from({ length: n }, (_, i) => Math.sin(from + i));
  let length = 0, largest = 0;
  for (let step = 0; step < count; step++) {
    const tokens = step === 0 ? first : 1;
    length += tokens;
    const mask = BigInt64Array.from({ length: batch * length }, (_, i) => i === 1 ? 0n : 1n);
    const all: Record<string, Tensor> = {
      x: new Tensor("float32", sines(batch * tokens * D, step * 7), [batch, tokens, D]),
      attention_mask: new Tensor("int64", mask, [batch, length]),
      encoder_hidden_states: new Tensor("float32", sines(batch * encoder * D, 1), [
        batch,
        encoder,
        D,
      ]),
      encoder_attention_mask: new Tensor(
        "int64",
        BigInt64Array.from({ length: batch * encoder }, (_, i) => i === 2 ? 0n : 1n),
        [batch, encoder],
      ),
      use_cache_branch: new Tensor("bool", [step > 0], [1]),
    };
    const feeds = Object.fromEntries(
      Object.entries(all).filter(([name]) => session.inputNames.includes(name)),
    );
    const results = await session.run({ ...feeds, ...past });
    // Caches that are read are new ones for the next step.
    const cores = Object.entries({ ...feeds, ...past }).map(([name, x]) => [name, coreOf(x)]);
    const wanted = plain.model.run(Object.fromEntries(cores)) as Record<string, CoreTensor>;
    const [a, b] = [results["logits"]!.data, wanted["logits"]!.toTypedArray()] as Float32Array[];
    assertEquals(a!.length, b!.length);
    a!.forEach((x, i) => largest = Math.max(largest, Math.abs(x - b![i]!)));
    for (const x of Object.values(wanted)) x.dispose();
    results["logits"]!.dispose();
    for (const x of Object.values(past)) x.dispose();
    past = Object.fromEntries(
      names.map((name) => [name, results[name.replace("past_key_values", "present")]!]),
    );
    assertEquals(past[names[0]!]!.dims, [batch, 1, length, D]);
  }
  for (const x of Object.values(past)) x.dispose();
  await plain.release();
  return { largest };
}

function coreOf({ type, data, dims }: Tensor): CoreTensor {
  const dtype = type as "float32" | "int64" | "bool";
  return fromBuffer(data.slice() as Float32Array, { dtype, shape: dims }) as CoreTensor;
}

test("a cache that grows to 300 rows has the model's results and few programs", async () => {
  const { programs, largest } = await steps(decoder(), 300);
  assert(largest < 1e-5, `results differ by ${largest}`);
  // One of the first step, and those of caches of 128, 256 and 384 rows.
  assertEquals(programs, 4);
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

test("a decoder with branches and without a mask has the model's results and few programs", async () => {
  const { programs, largest } = await steps(merged({}), 300, { first: 1 });
  assert(largest < 1e-5, `results differ by ${largest}`);
  assertEquals(programs, 4);
  const bare = await steps(merged({ hasDistances: false }), 140, { first: 2, batch: 3 });
  assert(bare.largest < 1e-5, `results differ by ${bare.largest}`);
  assertEquals(bare.programs, 3);
});

test("GroupQueryAttention has the model's results and few programs", async () => {
  const { programs, largest } = await steps(grouped(), 300);
  assert(largest < 1e-5, `results differ by ${largest}`);
  assertEquals(programs, 4);
  const several = await steps(grouped(), 20, { batch: 2 });
  assert(several.largest < 1e-5, `results differ by ${several.largest}`);
});

test("caches have no more rows than a table of positions", async () => {
  const { programs, largest } = await steps(merged({ rows: 140 }), 139, { first: 2 });
  assert(largest < 1e-5, `results differ by ${largest}`);
  assertEquals(programs, 3);
});

test("a decoder with an op that mixes the rows of caches runs as it is", async () => {
  const largestRow: readonly NodeParts[] = [
    ["ReduceMax", ["present.0.decoder.key", "axis2"], ["most"]],
    ["Add", ["z", "most"], ["logits"]],
  ];
  const bytes = merged({ last: largestRow });
  const { programs, largest } = await steps(bytes, 140, { first: 1 });
  assert(largest < 1e-5, `results differ by ${largest}`);
  // One of each branch, and none of caches of more rows.
  assertEquals(programs, 2);
});

test("texts of encoders of many lengths have the model's results and few programs", async () => {
  const bytes = merged({});
  const session = await InferenceSession.create(bytes);
  // The first one and 128 are multiples of 64.
  for (const encoder of [64, 1, 63, 2, 60, 65, 128, 126, 64, 17]) {
    const { largest } = await text(session, bytes, 24, { first: 1, encoder });
    assert(largest < 1e-5, `results differ by ${largest} for ${encoder}`);
  }
  // Of the first step, of its branch for other lengths, and of caches of encoders of 64 rows as they
  // are, and of 64, 128 and 192 with room.
  assertEquals(session.model.programs, 6);
  await session.release();
});

test("caches of many texts leave no memory", async () => {
  const bytes = decoder();
  await steps(bytes, 10);
  await steps(merged({}), 10, { first: 1 });
  const used = (): number => memory().bytes - memory().pooledBytes;
  const before = used();
  for (let k = 0; k < 5; k++) {
    await steps(bytes, 20);
    await steps(merged({}), 20, { first: 1 });
  }
  assert(used() - before < 100_000, `${used() - before} bytes are left`);
});

/** A decoder's steps, of which the caller keeps all caches: how to make one more. */
async function keeper() {
  const session = await InferenceSession.create(decoder());
  const names = session.inputNames.filter((name) => name.startsWith("past"));
  type Cache = Record<string, Tensor>;
  const empty = (): Cache =>
    Object.fromEntries(
      names.map((name) => [name, new Tensor("float32", new Float32Array(0), [1, 1, 0, D])]),
    );
  const step = async (past: Cache, seed: number): Promise<{ y: number[]; cache: Cache }> => {
    const length = past[names[0]!]!.dims[2]! + 1;
    const results = await session.run({
      x: new Tensor("float32", [1, 2, 3, 4].map((x) => Math.sin(x * seed)), [1, 1, D]),
      attention_mask: new Tensor("int64", Array(length).fill(1), [1, length]),
      ...past,
    });
    const own = names.map((name) => results[name.replace("past_key_values", "present")]!);
    return {
      y: [...results["logits"]!.data as Float32Array],
      cache: Object.fromEntries(names.map((name, k) => [name, own[k]!])),
    };
  };
  const read = (cache: Cache): number[][] =>
    names.map((name) => [...cache[name]!.data as Float32Array]);
  return { session, empty, step, read };
}

test("caches that a program keeps have no memory but that of the last one", async () => {
  const { session, empty, step, read } = await keeper();
  const caches: Record<string, Tensor>[] = [];
  /** The rows of the last cache, read from one of its own. */
  const rows: number[][] = [];
  let cache = empty(), bytes = 0;
  const used = (): number => memory().bytes - memory().pooledBytes;
  for (let k = 0; k < 100; k++) {
    ({ cache } = await step(cache, k + 1));
    caches.push(cache);
    if (k === 40) bytes = used();
  }
  // Each would take 4 kB more.
  assert(used() - bytes < 20_000, `${used() - bytes} bytes more`);
  const whole = await (async () => {
    const other = await keeper();
    let cache = other.empty();
    for (let k = 0; k < 100; k++) ({ cache } = await other.step(cache, k + 1));
    const made = other.read(cache);
    await other.session.release();
    return made;
  })();
  const expected = (k: number): number[][] => whole.map((list) => list.slice(0, (k + 1) * D));
  // In any order, and after later ones are gone.
  for (const k of [70, 10, 71, 69, 2]) assertEquals(read(caches[k]!), expected(k), `cache ${k}`);
  assertEquals(Object.values(caches[55]!).map(({ location }) => location), ["cpu", "cpu"]);
  for (const k of [56, 99, 58]) for (const x of Object.values(caches[k]!)) x.dispose();
  for (const k of [55, 98, 57, 59]) assertEquals(read(caches[k]!), expected(k), `cache ${k}`);
  for (const x of Object.values(caches[58]!)) assertEquals(x.location, "none");
  // Two texts that begin with the same one.
  const [one, other] = [await step(caches[80]!, 5), await step(caches[80]!, 6)];
  rows.push(...read(one.cache).map((list) => list.slice(0, 81 * D)));
  assertEquals(rows, expected(80));
  assertEquals(read(other.cache).map((list) => list.slice(0, 81 * D)), expected(80));
  const again = await step(caches[80]!, 5);
  again.y.forEach((x, k) => assert(Math.abs(x - one.y[k]!) < 1e-5));
  assertEquals(read(again.cache), read(one.cache));
  // At the same time.
  const both = await Promise.all([step(caches[85]!, 5), step(caches[85]!, 6)]);
  for (const { cache } of both) {
    assertEquals(read(cache).map((list) => list.slice(0, 86 * D)), expected(85));
  }
  assertEquals(read(caches[85]!), expected(85));
  // Data of the caller's are its own.
  const data = caches[90]![Object.keys(caches[90]!)[0]!]!.data as Float32Array;
  data.fill(7);
  assertEquals(read(caches[91]!), expected(91));
  await session.release();
  assertEquals(read(caches[30]!), expected(30));
});

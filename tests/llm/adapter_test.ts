/**
 * LoRA adapters against PEFT (tests/golden/lora.json, which scripts/golden/lora.py writes), and what
 * is wrong with others.
 *
 * @module
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { type DType, eye, FormatError, io, ones, tensor } from "../../mod.ts";
import * as llm from "../../src/llm/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import { type Any, loose } from "../support.ts";
import { encodeBlocks } from "../support/blocks.ts";
import { writeGguf } from "../support/gguf.ts";
import { ggufOf } from "./gguf.ts";
import { distance, floatsOf, golden, modelFolder, temporary, weight } from "./models.ts";

interface GoldenAdapter {
  readonly config: Readonly<Record<string, unknown>>;
  readonly tensors: Readonly<Record<string, readonly number[]>>;
  readonly logits: string;
}

const { adapters }: { readonly adapters: Readonly<Record<string, GoldenAdapter>> } = JSON.parse(
  readFileSync(new URL("../golden/lora.json", import.meta.url), "utf8"),
);
const { prompt } = golden.models.llama!;
const LLAMA = modelFolder("llama");
const SOME = adapters["some products"]!;

/** A folder with an adapter. */
function adapterFolder(
  name: string,
  { config, tensors }: Omit<GoldenAdapter, "logits">,
  dtype: DType = "float32",
): string {
  const path = temporary(`adapter ${name}`);
  mkdirSync(path, { recursive: true });
  writeFileSync(join(path, "adapter_config.json"), JSON.stringify(config));
  const all = Object.fromEntries(
    Object.entries(tensors).map(([key, shape]) => [
      ...[key, tensor(weight(key, shape), { shape: [...shape] }).astype(dtype)],
    ]),
  );
  writeFileSync(join(path, "adapter_model.safetensors"), io.encodeSafetensors(loose(all)));
  return path;
}

async function logitsOf(options: llm.OpenOptions): Promise<Float32Array> {
  using model = await llm.open(LLAMA, { cache: "float32", ...options });
  using session = model.session();
  return await session.logits(prompt, { all: true });
}

for (const [name, one] of Object.entries(adapters)) {
  test(`${name} as PEFT`, async () => {
    const made = await logitsOf({ adapter: adapterFolder(name, one) });
    const expected = floatsOf(one.logits);
    const most = expected.reduce((a, b) => Math.max(a, Math.abs(b)), 0);
    const off = distance(made, expected);
    assert(off <= 1e-4 * most, `logits are ${off} off`);
    assert(distance(made, await logitsOf({})) > 1e-2 * most);
  });
}

for (const [name, one] of Object.entries(adapters)) {
  test(`${name} as PEFT, of a GGUF file`, async () => {
    const adapter = adapterFolder(name, one);
    const of = async (bytes: Uint8Array, options: llm.OpenOptions): Promise<Float32Array> => {
      using model = await llm.open(bytes, { cache: "float32", ...options });
      using session = model.session();
      return await session.logits(prompt, { all: true });
    };
    const expected = floatsOf(one.logits);
    const most = expected.reduce((a, b) => Math.max(a, Math.abs(b)), 0);
    const check = (made: Float32Array, tolerance: number): void => {
      const off = distance(made, expected);
      assert(off <= tolerance * most, `logits are ${off} off`);
    };
    // Rows of queries and keys are in pairs of neighbors there.
    check(await of(ggufOf("llama", "llama"), { adapter }), 1e-4);
    if (Object.keys(one.tensors).some((key) => /embed/.test(key))) return;
    // Quantized weights stay as they are, and the products are added.
    const bytes = ggufOf("llama", "llama", { format: "q8_0" });
    const quantized = await of(bytes, { adapter });
    check(quantized, 0.04);
    const plain = await of(bytes, {});
    assert(distance(quantized, plain) > 4 * distance(quantized, expected));
    check(await of(bytes, { adapter, dtype: "float32" }), 0.04);
  });
}

test("adapters of quantized weights: any reader of a weight has the sum", async () => {
  const folder = adapterFolder("of any reader", {
    config: { peft_type: "LORA", r: 2, lora_alpha: 4 },
    tensors: {
      "base_model.model.a.lora_A.weight": [2, 64],
      "base_model.model.a.lora_B.weight": [3, 2],
    },
  });
  const weights = tensor(weight("a", [3, 64]), { shape: [3, 64] });
  const path = temporary("any reader.gguf");
  writeFileSync(
    path,
    writeGguf(new Uint8Array(), 0, [
      {
        name: "a.weight",
        type: 8,
        shape: [3, 64],
        bytes: encodeBlocks("q8_0", weights.toTypedArray() as Float32Array),
      },
    ]),
  );
  using base = await nn.open(path);
  const quantized: Any = base.tensor("a.weight");
  const product = (x: Any): Any => {
    const of = (name: string, shape: [number, number]): Any =>
      loose(tensor(weight(`base_model.model.a.lora_${name}.weight`, shape), { shape }));
    return x.matmul(of("A", [2, 64]).T).matmul(of("B", [3, 2]).T).mul(2);
  };
  const x: Any = loose(tensor(weight("x", [2, 64]), { shape: [2, 64] }));
  const add: Any = loose(tensor(weight("add", [2, 3]), { shape: [2, 3] }));
  const near = (made: Any, expected: Any): void =>
    assert(made.allclose(expected, { atol: 1e-4 }), `${made} ${expected}`);
  for (const activation of [undefined, "relu"] as const) {
    using w = await nn.open(path, { adapter: folder });
    const sum = x.linear(quantized).add(product(x));
    const after = activation === undefined ? sum : sum.relu();
    near(w.linear("a", 3, 64, { bias: false, activation })(x, { add }), after.add(add));
    const short: Any = w.linear("a", 3, 64, { bias: false, activation })(x.astype("float16"));
    assertEquals(short.dtype, "float16");
    assert(short.astype("float32").allclose(after, { atol: 5e-3 }));
    // Two formats are not joined.
    const [one, other] = nn.fuse(
      w.linear("a", 3, 64, { bias: false, activation }),
      w.linear("a", 3, 64, { bias: false, activation }),
    )(x);
    near(one, after);
    near(other, after);
  }
  using w = await nn.open(path, { adapter: folder });
  // Embeddings and tensors are plain numbers then.
  const whole = quantized.dequantize().add(product(loose(eye(64))).T);
  near(w.tensor("a.weight"), whole);
  near(
    w.embedding("a", 3, 64)(tensor([2, 0], { dtype: "int32" })),
    whole.take(
      tensor([2, 0], {
        dtype: "int32",
      }),
      0,
    ),
  );
});

test("an adapter of 16 bits, and weights that are cast", async () => {
  const adapter = adapterFolder("of 16 bits", SOME, "bfloat16");
  const expected = floatsOf(SOME.logits);
  const off = distance(await logitsOf({ adapter, dtype: "float16" }), expected);
  assert(off > 0 && off < 0.2, `${off}`);
});

test("sums of products of any weights, transposed or not", async () => {
  const base = temporary("plain.safetensors");
  writeFileSync(base, io.encodeSafetensors({ "a.weight": ones([2, 3]), "b.weight": ones([2, 3]) }));
  const folder = temporary("adapter of plain");
  mkdirSync(folder, { recursive: true });
  const config = { peft_type: "LORA", r: 1, lora_alpha: 2 };
  const write = (config: unknown, tensors: Any): void => {
    writeFileSync(join(folder, "adapter_config.json"), JSON.stringify(config));
    writeFileSync(join(folder, "adapter_model.safetensors"), io.encodeSafetensors(tensors));
  };
  const read = async (): Promise<unknown> => {
    using w = await nn.open(base, { adapter: folder });
    return [w.tensor("a.weight").toArray(), w.tensor("b.weight").toArray()];
  };
  const name = (factor: string): string => `base_model.model.a.lora_${factor}.weight`;
  write(config, { [name("A")]: tensor([[1, 2, 3]]), [name("B")]: tensor([[1], [10]]) });
  const same = [[1, 1, 1], [1, 1, 1]];
  assertEquals(await read(), [[[3, 5, 7], [21, 41, 61]], same]);
  write({ ...config, fan_in_fan_out: true }, {
    ...{ [name("A")]: tensor([[1, 10]]), [name("B")]: tensor([[1], [2], [3]]) },
  });
  assertEquals(await read(), [[[3, 5, 7], [21, 41, 61]], same]);
  rmSync(folder, { recursive: true });
});

test("adapters that do not fit are refused by name", async () => {
  const refused = async (
    changes: Readonly<Record<string, unknown>>,
    tensors: Readonly<Record<string, readonly number[] | undefined>>,
    ...parts: string[]
  ): Promise<void> => {
    const all = Object.entries({ ...SOME.tensors, ...tensors }).filter(([, x]) => x !== undefined);
    const one = { config: { ...SOME.config, ...changes }, tensors: Object.fromEntries(all) };
    const adapter = adapterFolder("that does not fit", loose(one));
    const error = await assertRejects(() => llm.open(LLAMA, { adapter }), FormatError) as Error;
    for (const part of parts) assert(error.message.includes(part), `${error.message}: ${part}`);
  };
  await refused({ peft_type: "IA3" }, {}, "peft_type", "IA3");
  await refused({ peft_type: undefined }, {}, "peft_type");
  await refused({ use_dora: true }, {}, "use_dora");
  await refused({ bias: "all" }, {}, "bias", '"all"');
  await refused({ modules_to_save: ["lm_head"] }, {}, "modules_to_save", "lm_head");
  await refused({ modules_to_save: 3 }, {}, "modules_to_save");
  await refused({ init_lora_weights: "pissa_niter_4" }, {}, "init_lora_weights", "pissa");
  await refused({ layer_replication: [[0, 2]] }, {}, "layer_replication");
  await refused({ trainable_token_indices: [1] }, {}, "trainable_token_indices");
  await refused({ r: 0 }, {}, "r is 0");
  await refused({ lora_alpha: "8" }, {}, "lora_alpha");
  await refused({ lora_alpha: 1e300 }, {}, "lora_alpha");
  await refused({ alpha_pattern: { "(a+)+$": 3 } }, {}, "alpha_pattern", "(a+)+$");
  await refused({ alpha_pattern: { q_proj: "3" } }, {}, "alpha_pattern.q_proj");
  await refused({ rank_pattern: 3 }, {}, "rank_pattern");
  const q = "base_model.model.model.layers.0.self_attn.q_proj";
  await refused(
    {},
    { [`${q}.lora_A.weight`]: undefined },
    "layers.0.self_attn.q_proj has only one",
  );
  await refused(
    {},
    { [`${q}.lora_A`]: [4, 64] },
    "second of its kind",
    "layers.0.self_attn.q_proj",
  );
  await refused({}, { [`${q}.lora_embedding_A`]: [4, 64] }, "second of its kind");
  await refused({}, { [`${q}.lora_A.weight`]: [4, 63] }, "[64, 64]", "[4, 63]");
  await refused({}, { [`${q}.lora_A.weight`]: [5, 64] }, "[64, 64]", "[5, 64]");
  await refused({}, { [`${q}.lora_A.weight`]: [256] }, "[256]");
  await refused({}, { [`${q}.lora_magnitude_vector.weight`]: [64] }, "lora_magnitude_vector");
  await refused({}, { "base_model.model.lm_head.weight": [96, 64] }, "lm_head.weight");
  await refused(
    {},
    {
      "base_model.model.model.layers.7.mlp.up_proj.lora_A.weight": [4, 64],
      "base_model.model.model.layers.7.mlp.up_proj.lora_B.weight": [80, 4],
    },
    "model.layers.7.mlp.up_proj.weight",
    "no tensor of that name",
  );
  const empty = temporary("no adapter");
  mkdirSync(empty, { recursive: true });
  const none = () => llm.open(LLAMA, { adapter: empty });
  await assertRejects(none, FormatError, "adapter_config.json");
});

/**
 * Each family of encoders against transformers: the states of texts of several lengths in one batch.
 *
 * @module
 */
import { assert } from "@std/assert";
import { compile } from "../../src/compile/mod.ts";
import { Reader } from "../../src/llm/config/reader.ts";
import { ENCODERS } from "../../src/models/encoders/families.ts";
import type { Batch } from "../../src/models/encoders/parts.ts";
import * as nn from "../../src/nn/mod.ts";
import { concat, fromBuffer } from "../../mod.ts";
import { testOnBackends } from "../compile/support.ts";
import { distance, floatsOf } from "../llm/models.ts";
import type { Any } from "../support.ts";
import { encoders, type GoldenEncoder, padded, safetensorsOf, statesBy } from "./golden.ts";

/** The states of the tokens of each text, by ops and by a program. */
async function statesOf(
  golden: GoldenEncoder,
  padding: number,
  given?: Any,
): Promise<Float32Array[]> {
  const { config, ids, types } = golden;
  using weights = given ?? await nn.open(safetensorsOf(golden));
  const reader = new Reader((key) => config[key], "config.json");
  const family = ENCODERS.find(({ json }) => json.includes(config.model_type))!;
  const encoder = family.make(weights, reader, {});
  weights.done({ ignore: ["pooler.*"] });
  using tokens = padded(ids, padding);
  using kinds = types === null ? undefined : padded(types, 0);
  using lengths = fromBuffer(Int32Array.from(ids, (row) => row.length));
  const batch: Batch = { ids: tokens, types: kinds, lengths };
  const width = tokens.shape[1];
  const kept = (all: Float32Array): Float32Array =>
    Float32Array.from(ids.flatMap((row, i) => {
      const start = i * width * encoder.hidden;
      return [...all.subarray(start, start + row.length * encoder.hidden)];
    }));
  using direct = statesBy(encoder, batch);
  // As programs run it.
  using program = compile((ids: Any, lengths: Any, types?: Any) =>
    statesBy(encoder, { ids, lengths, types })
  );
  const inputs = kinds === undefined ? [tokens, lengths] : [tokens, lengths, kinds];
  using compiled = await (program.async as Any)(...inputs);
  return [kept(direct.toTypedArray()), kept(compiled.toTypedArray())];
}

for (const [name, golden] of Object.entries(encoders)) {
  if (golden.states === null) continue;
  const wanted = floatsOf(golden.states);
  const most = wanted.reduce((a, b) => Math.max(a, Math.abs(b)), 0);
  testOnBackends(`${name} as transformers`, async () => {
    for (const padding of [0, 5]) {
      for (const made of await statesOf(golden, padding)) {
        const far = distance(made, wanted);
        assert(far <= 1e-4 * most, `states are ${far} off, of up to ${most}`);
      }
    }
  });
}

/** The names of the hub for those of transformers. */
const HUB: Readonly<Record<string, string>> = {
  "embeddings.LayerNorm": "emb_ln",
  "layers.": "encoder.layers.",
  "self_attn.o_proj": "attn.out_proj",
  "up_proj": "fc11",
  "gate_proj": "fc12",
  "down_proj": "fc2",
  "post_attention_layernorm": "norm1",
  "post_mlp_layernorm": "norm2",
};

testOnBackends("NomicBERT under the names of the hub", async () => {
  const golden = encoders["nomic"]!;
  const { hidden_size: n, num_hidden_layers: layers, ...config } = golden.config;
  const named = (name: string): string =>
    Object.entries(HUB).reduce((all, [from, to]) => all.replace(from, to), name);
  using file = await nn.open(safetensorsOf(golden));
  const tensors: Record<string, Any> = {};
  for (const name of file.names()) {
    if (!/[qkv]_proj/.test(name)) tensors[named(name)] = file.tensor(name);
  }
  for (let i = 0; i < layers; i++) {
    tensors[`encoder.layers.${i}.attn.Wqkv.weight`] = concat(
      ["q", "k", "v"].map((x) => file.tensor(`layers.${i}.self_attn.${x}_proj.weight`)) as Any,
    );
  }
  const hub = {
    ...{ model_type: "nomic_bert", n_embd: n, n_layer: layers, n_head: config.num_attention_heads },
    ...{ n_inner: config.intermediate_size, vocab_size: config.vocab_size, n_positions: 64 },
    ...{ activation_function: "swiglu", rotary_emb_base: 1000, rotary_emb_fraction: 1 },
  };
  const [made] = await statesOf({ ...golden, config: hub }, 0, nn.weights(tensors));
  const wanted = floatsOf(golden.states!);
  const most = wanted.reduce((a, b) => Math.max(a, Math.abs(b)), 0);
  assert(distance(made!, wanted) <= 1e-4 * most);
});

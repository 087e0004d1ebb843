/**
 * A model of the family Llama with LoRA on its queries and values, its training, and its adapter in
 * the form of PEFT, which `llm.open` loads.
 *
 * Reads a folder with config.json and model.safetensors, with the names of transformers.
 *
 * @module
 */
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { io, random, type Tensor, zeros } from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import { checkpoint, valueAndGrad } from "../../src/grad/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import * as optim from "../../src/optim/mod.ts";
import { batches } from "../../src/train/mod.ts";

/** What config.json says. */
interface Config {
  readonly num_hidden_layers: number;
  readonly num_attention_heads: number;
  readonly num_key_value_heads: number;
  readonly hidden_size: number;
  readonly head_dim?: number;
  readonly rms_norm_eps: number;
  readonly rope_theta?: number;
  readonly rope_scaling?: object | null;
  readonly rope_parameters?: { readonly rope_theta: number; readonly rope_type?: string };
  readonly tie_word_embeddings?: boolean;
}

/** The model, which stays as it is. */
export interface Base {
  readonly config: Config;
  /** The weight of that name, in float32. */
  weight(name: string): Tensor;
}

/** The two factors of the products that are learned, of each module. */
export type Lora = Record<string, { readonly a: Tensor; readonly b: Tensor }>;

/** Numbers of tokens: [N, T]. */
type Ids = Tensor<"int32">;

/** The modules that learn. */
const MODULES = ["q_proj", "v_proj"] as const;
const ALPHA = 16;

/** Opens the folder of a model. */
export async function openBase(folder: string): Promise<Base> {
  const config: Config = JSON.parse(await readFile(join(folder, "config.json"), "utf8"));
  const { rope_type: kind = "default" } = config.rope_parameters ?? {};
  if (config.rope_scaling || kind !== "default") throw new Error("rope_scaling is not supported");
  const file = await io.mapSafetensors(join(folder, "model.safetensors"));
  // All now: what a function that is differentiated makes lives as long as its run.
  const weights = new Map<string, Tensor>(
    file.names.map((name) => [name, file.get(name).astype("float32")]),
  );
  return {
    config,
    weight(name) {
      const weight = weights.get(name);
      if (weight === undefined) throw new Error(`the model has no tensor ${name}`);
      return weight;
    },
  };
}

/** The factors before training: their products are 0. */
export function initialLora({ config, weight }: Base, key: random.Key, rank: number): Lora {
  const lora: Lora = {};
  for (let layer = 0; layer < config.num_hidden_layers; layer++) {
    for (const name of MODULES) {
      const module = `model.layers.${layer}.self_attn.${name}`;
      const [outputs, inputs] = weight(`${module}.weight`).shape as [number, number];
      const own = random.foldIn(key, Object.keys(lora).length);
      lora[module] = {
        a: nn.kaimingUniform(own, [rank, inputs], { activation: "linear" }),
        b: zeros([outputs, rank]),
      };
    }
  }
  return lora;
}

/** The scores of each next token: ids [N, T] give [N, T, tokens]. */
export function scores({ config, weight }: Base, lora: Lora, ids: Ids): Tensor {
  const [count, length] = ids.shape as [number, number];
  const { num_attention_heads: heads, num_key_value_heads: groups, rms_norm_eps: epsilon } = config;
  const width = config.head_dim ?? config.hidden_size / heads;
  const angles = nn.ropeAngles(Array.from({ length }, (_, k) => k), {
    dimensions: width,
    base: config.rope_parameters?.rope_theta ?? config.rope_theta ?? 10_000,
  });
  const linear = (x: Tensor, module: string, own: Lora): Tensor => {
    const made: Tensor = x.linear(weight(`${module}.weight`));
    const factors = own[module];
    if (factors === undefined) return made;
    const { a, b } = factors;
    return made.add(x.linear(a).linear(b).mul(ALPHA / a.shape[0]!));
  };
  const norm = (x: Tensor, name: string): Tensor =>
    x.rmsNorm(-1, { weight: weight(`${name}.weight`), epsilon });

  const block = (x: Tensor, own: Lora, turns: typeof angles, layer: number): Tensor => {
    const at = `model.layers.${layer}`;
    const input = norm(x, `${at}.input_layernorm`);
    const split = (name: string, n: number): Tensor =>
      linear(input, `${at}.self_attn.${name}`, own).reshape([count, length, n, width]).swapAxes(
        1,
        2,
      );
    const q = nn.rope(split("q_proj", heads), turns);
    const k = nn.rope(split("k_proj", groups), turns);
    const mixed = nn.attention(q, k, split("v_proj", groups), { causal: true }).swapAxes(1, 2);
    const joined = linear(mixed.reshape([count, length, -1]), `${at}.self_attn.o_proj`, own);
    const middle = x.add(joined);
    const second = norm(middle, `${at}.post_attention_layernorm`);
    const gate = linear(second, `${at}.mlp.gate_proj`, own).silu();
    const up = linear(second, `${at}.mlp.up_proj`, own);
    return middle.add(linear(gate.mul(up), `${at}.mlp.down_proj`, own));
  };
  // Computed again on the way back: memory has one tensor for each layer.
  const again = checkpoint(block);
  let x: Tensor = nn.embedding(ids, weight("model.embed_tokens.weight"));
  for (let layer = 0; layer < config.num_hidden_layers; layer++) {
    const own = Object.fromEntries(
      Object.entries(lora).filter(([name]) => name.startsWith(`model.layers.${layer}.`)),
    );
    x = again(x, own, angles, layer);
  }
  const last = config.tie_word_embeddings ? "model.embed_tokens.weight" : "lm_head.weight";
  return norm(x, "model.norm").linear(weight(last));
}

/** The factors after `steps` of training on texts of tokens: [rows, T + 1]. */
export async function trainLora(
  base: Base,
  lora: Lora,
  rows: Ids,
  { steps, size = 4, rate = 1e-3 }: { steps: number; size?: number; rate?: number },
  report: (step: number, loss: number) => void = () => {},
): Promise<void> {
  const loss = (own: Lora, ids: Ids): Tensor<"float32", []> => {
    const made = scores(base, own, ids.slice(":, :-1"));
    const flat = made.reshape([-1, made.shape.at(-1)!]);
    return nn.crossEntropy(flat, ids.slice(":, 1:").reshape([-1])).asShape([]);
  };
  const optimizer = optim.adamw({ learningRate: rate, weightDecay: 0 });
  const state = optimizer.init(lora);
  using run = compile((own: Lora, ownState: typeof state, ids: Ids) => {
    const [value, gradients] = valueAndGrad(loss)(own, ids);
    optim.clipByNorm(gradients, 1);
    optimizer.update(own, gradients, ownState);
    return value;
  });
  let step = 0;
  const order = { size, key: random.key(1), epochs: Infinity, dropLast: true };
  for (const batch of batches(rows, order)) {
    using value = await run.async(lora, state, batch as Ids);
    (batch as Ids).dispose();
    report(++step, value.item());
    if (step === steps) break;
  }
}

/** Writes adapter_config.json and adapter_model.safetensors, with the names of PEFT. */
export async function saveAdapter(folder: string, lora: Lora): Promise<void> {
  const [first] = Object.values(lora);
  if (first === undefined) throw new Error("the adapter has no factors");
  await mkdir(folder, { recursive: true });
  const config = {
    peft_type: "LORA",
    task_type: "CAUSAL_LM",
    r: first.a.shape[0],
    lora_alpha: ALPHA,
    target_modules: MODULES,
    bias: "none",
  };
  await writeFile(join(folder, "adapter_config.json"), JSON.stringify(config, null, 2) + "\n");
  const tensors = Object.fromEntries(
    Object.entries(lora).flatMap(([module, { a, b }]) => [
      [`base_model.model.${module}.lora_A.weight`, a],
      [`base_model.model.${module}.lora_B.weight`, b],
    ]),
  );
  await io.writeSafetensors(join(folder, "adapter_model.safetensors"), tensors);
}

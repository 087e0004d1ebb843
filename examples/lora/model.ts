/**
 * A model of the family Llama with LoRA on its queries and values, its training, and its adapter in
 * the form of PEFT, which `llm.open` loads.
 *
 * Reads a GGUF file, whose weights stay quantized, or a folder with config.json and safetensors.
 *
 * @module
 */
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { io, random, type Tensor, zeros } from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import { checkpoint, valueAndGrad } from "../../src/grad/mod.ts";
import * as llm from "../../src/llm/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import * as optim from "../../src/optim/mod.ts";
import { batches } from "../../src/train/mod.ts";

/** A linear layer. */
type Linear = (x: Tensor) => Tensor;

/** A layer of the model. */
interface Block {
  readonly firstNorm: Linear;
  readonly secondNorm: Linear;
  /** The products of the layer, by what transformers calls them. */
  readonly modules: Readonly<Record<string, Linear>>;
}

/** The model, which stays as it is. */
export interface Base extends Disposable {
  readonly config: llm.ModelConfig;
  readonly embedding: (ids: Ids) => Tensor;
  readonly blocks: readonly Block[];
  readonly norm: Linear;
  readonly head: Linear;
}

/** The two factors of the products that are learned, of each module. */
export type Lora = Record<string, { readonly a: Tensor; readonly b: Tensor }>;

/** Numbers of tokens: [N, T]. */
type Ids = Tensor<"int32">;

/** The modules that learn. */
const MODULES = ["q_proj", "v_proj"] as const;
const ALPHA = 16;
/** The rows whose scores of all tokens are in memory at a time. */
const ROWS = 32;

/** The names of tensors in safetensors, and in GGUF files. */
const NAMES = {
  embedding: ["model.embed_tokens", "token_embd"],
  layers: ["model.layers", "blk"],
  norm: ["model.norm", "output_norm"],
  head: ["lm_head", "output"],
  firstNorm: ["input_layernorm", "attn_norm"],
  secondNorm: ["post_attention_layernorm", "ffn_norm"],
  q_proj: ["self_attn.q_proj", "attn_q"],
  k_proj: ["self_attn.k_proj", "attn_k"],
  v_proj: ["self_attn.v_proj", "attn_v"],
  o_proj: ["self_attn.o_proj", "attn_output"],
  gate_proj: ["mlp.gate_proj", "ffn_gate"],
  up_proj: ["mlp.up_proj", "ffn_up"],
  down_proj: ["mlp.down_proj", "ffn_down"],
} as const;

/** Opens a model: a GGUF file, or a folder with config.json and safetensors. */
export async function openBase(path: string): Promise<Base> {
  const isGguf = path.endsWith(".gguf");
  const w: nn.Weights = await nn.open(path);
  const name = (key: keyof typeof NAMES): string => NAMES[key][isGguf ? 1 : 0];
  const config = isGguf
    ? llm.configOfGguf(w.metadata, path, w.info("token_embd.weight")?.shape[0] ?? 0)
    : llm.configOfJson(JSON.parse(await readFile(join(path, "config.json"), "utf8")), path);
  const { architecture, hidden, intermediate, vocabulary, epsilon, headDimensions } = config;
  if (architecture !== "llama" || config.rope.scaling || w.has("rope_freqs.weight")) {
    throw new Error("the example takes models with the layers of Llama, without scaled positions");
  }
  const [queries, keys] = [config.heads, config.kvHeads].map((n) => n * headDimensions);
  const sizes: Record<string, [outputs: number, inputs: number]> = {
    q_proj: [queries!, hidden],
    k_proj: [keys!, hidden],
    v_proj: [keys!, hidden],
    o_proj: [hidden, queries!],
    gate_proj: [intermediate, hidden],
    up_proj: [intermediate, hidden],
    down_proj: [hidden, intermediate],
  };
  const linear = (w: nn.Weights, at: string, [outputs, inputs]: [number, number]): Linear =>
    w.linear(at, outputs, inputs, { bias: false });
  const norm = (w: nn.Weights, at: string): Linear => w.rmsNorm(at, hidden, { epsilon });
  const base = {
    config,
    embedding: w.embedding(name("embedding"), vocabulary, hidden, { dtype: "float32" }),
    blocks: w.list(name("layers"), config.layers, (w): Block => ({
      firstNorm: norm(w, name("firstNorm")),
      secondNorm: norm(w, name("secondNorm")),
      modules: Object.fromEntries(
        Object.entries(sizes).map(([key, size]) => [
          ...[key, linear(w, name(key as keyof typeof NAMES), size)] as const,
        ]),
      ),
    })),
    norm: norm(w, name("norm")),
    // Small models multiply by the embedding.
    head: linear(w, w.has(name("head")) ? name("head") : name("embedding"), [vocabulary, hidden]),
    [Symbol.dispose]: () => w.dispose(),
  };
  w.done({ ignore: ["*.rotary_emb.inv_freq"] });
  return base;
}

/** The factors before training: their products are 0. */
export function initialLora({ config }: Base, key: random.Key, rank: number): Lora {
  const { layers, hidden, heads, kvHeads, headDimensions } = config;
  const lora: Lora = {};
  for (let layer = 0; layer < layers; layer++) {
    for (const module of MODULES) {
      const outputs = (module === "q_proj" ? heads : kvHeads) * headDimensions;
      const own = random.foldIn(key, Object.keys(lora).length);
      lora[`${NAMES.layers[0]}.${layer}.${NAMES[module][0]}`] = {
        a: nn.kaimingUniform(own, [rank, hidden], { activation: "linear" }),
        b: zeros([outputs, rank]),
      };
    }
  }
  return lora;
}

/** What the last layer gives: ids [N, T] give [N, T, hidden]. */
function states(base: Base, lora: Lora, ids: Ids): Tensor {
  const { config: { layers, heads, kvHeads, headDimensions: width, rope }, blocks } = base;
  const [count, length] = ids.shape as [number, number];
  const angles = nn.ropeAngles(Array.from({ length }, (_, k) => k), {
    dimensions: rope.dimensions,
    base: rope.base,
  });
  /** The rows of a factor in the order of those of queries in GGUF files: halves become pairs. */
  const ordered = (b: Tensor): Tensor =>
    rope.interleaved
      ? b.reshape([heads, 2, width / 2, -1]).swapAxes(1, 2).reshape([heads * width, -1])
      : b;

  const block = (x: Tensor, own: Lora, turns: typeof angles, layer: number): Tensor => {
    const { firstNorm, secondNorm, modules } = blocks[layer]!;
    const linear = (x: Tensor, module: string): Tensor => {
      const made = modules[module]!(x);
      const factors = own[module];
      if (factors === undefined) return made;
      const { a, b } = factors;
      const turned = module === "q_proj" ? ordered(b) : b;
      return made.add(x.linear(a).linear(turned).mul(ALPHA / a.shape[0]!));
    };
    const input = firstNorm(x);
    const split = (module: string, n: number): Tensor =>
      linear(input, module).reshape([count, length, n, width]).swapAxes(1, 2);
    const turn = { ...turns, interleaved: rope.interleaved };
    const q = nn.rope(split("q_proj", heads), turn), k = nn.rope(split("k_proj", kvHeads), turn);
    const mixed = nn.attention(q, k, split("v_proj", kvHeads), { causal: true }).swapAxes(1, 2);
    const middle = x.add(linear(mixed.reshape([count, length, -1]), "o_proj"));
    const second = secondNorm(middle);
    const gate = linear(second, "gate_proj").silu().mul(linear(second, "up_proj"));
    return middle.add(linear(gate, "down_proj"));
  };
  // Computed again on the way back: memory has one tensor for each layer.
  const again = checkpoint(block);
  let x: Tensor = base.embedding(ids);
  for (let layer = 0; layer < layers; layer++) {
    const own = Object.fromEntries(
      MODULES.map((module) => [
        ...[module, lora[`${NAMES.layers[0]}.${layer}.${NAMES[module][0]}`]!] as const,
      ]),
    );
    x = again(x, own, angles, layer);
  }
  return x;
}

/** The scores of each next token: ids [N, T] give [N, T, tokens]. */
export function scores(base: Base, lora: Lora, ids: Ids): Tensor {
  return base.head(base.norm(states(base, lora, ids)));
}

/** The mean loss of texts of tokens, of which each is to follow those before: [N, T + 1]. */
function lossOf(base: Base, lora: Lora, ids: Ids): Tensor<"float32", []> {
  const x: Tensor = states(base, lora, ids.slice(":, :-1")).reshape([-1, base.config.hidden]);
  const next: Ids = ids.slice(":, 1:").reshape([-1]);
  // The scores are the largest tensors: those of a part of the rows at a time.
  const part = checkpoint((x: Tensor, next: Ids): Tensor =>
    nn.crossEntropy(base.head(base.norm(x)), next, { reduction: "sum" })
  );
  const count = x.shape[0]!;
  let sum: Tensor = part(x.slice(`:${ROWS}`), next.slice(`:${ROWS}`));
  for (let at = ROWS; at < count; at += ROWS) {
    const rows = `${at}:${at + ROWS}`;
    sum = sum.add(part(x.slice(rows), next.slice(rows)));
  }
  return sum.div(count).asShape([]).astype("float32");
}

/** The factors after `steps` of training on texts of tokens: [rows, T + 1]. */
export async function trainLora(
  base: Base,
  lora: Lora,
  rows: Ids,
  { steps, size = 4, rate = 1e-3 }: { steps: number; size?: number; rate?: number },
  report: (step: number, loss: number) => void = () => {},
): Promise<void> {
  const loss = (own: Lora, ids: Ids): Tensor<"float32", []> => lossOf(base, own, ids);
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

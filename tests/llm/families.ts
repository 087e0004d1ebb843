/**
 * A model of each family, what transformers computes with it, and the GGUF file that llama.cpp's
 * converter makes of it (tests/golden/families.json, which scripts/golden/families.py writes).
 *
 * @module
 */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { ggufMetadata, type GgufTensor, type GgufValue, writeGguf } from "../support/gguf.ts";
import { isPacked, packedWeight, weight } from "./models.ts";

/** A tensor of the converter: its type, its shape, and the start of the SHA-256 of its bytes. */
type Converted = readonly [type: string, shape: readonly number[], digest: string];

/** A model. */
export interface FamilyModel {
  /** The config.json of transformers. */
  // deno-lint-ignore no-explicit-any
  readonly config: Readonly<Record<string, any>>;
  /** The shapes of weights. */
  readonly tensors: Readonly<Record<string, readonly number[]>>;
  /** The logits after each token of the prompt: base64 of float32. */
  readonly logits: string;
  /** The tokens that follow the prompt. */
  readonly tokens: readonly number[];
  /** What the converter makes of it, if llama.cpp knows the family. */
  readonly gguf?: {
    readonly metadata: Readonly<Record<string, GgufValue>>;
    readonly tensors: Readonly<Record<string, Converted>>;
  };
}

/** All models, and their prompt, which is longer than any window. */
export const families: {
  readonly prompt: readonly number[];
  readonly models: Readonly<Record<string, FamilyModel>>;
} = JSON.parse(readFileSync(new URL("../golden/families.json", import.meta.url), "utf8"));

interface Data {
  readonly shape: readonly number[];
  readonly data: Float32Array<ArrayBuffer> | Uint8Array<ArrayBuffer>;
}

/** The names of parts of layers in GGUF files. */
const PARTS: Readonly<Record<string, string>> = {
  input_layernorm: "attn_norm",
  operator_norm: "attn_norm",
  ffn_norm: "ffn_norm",
  pre_feedforward_layernorm: "ffn_norm",
  post_feedforward_layernorm: "post_ffw_norm",
  "self_attn.q_proj": "attn_q",
  "self_attn.k_proj": "attn_k",
  "self_attn.v_proj": "attn_v",
  "self_attn.qkv_proj": "attn_qkv",
  "self_attn.q_norm": "attn_q_norm",
  "self_attn.k_norm": "attn_k_norm",
  "self_attn.q_layernorm": "attn_q_norm",
  "self_attn.k_layernorm": "attn_k_norm",
  "self_attn.o_proj": "attn_output",
  "self_attn.out_proj": "attn_output",
  "mlp.gate_proj": "ffn_gate",
  "mlp.up_proj": "ffn_up",
  "mlp.gate_up_proj": "ffn_up",
  "mlp.down_proj": "ffn_down",
  "feed_forward.w1": "ffn_gate",
  "feed_forward.w2": "ffn_down",
  "feed_forward.w3": "ffn_up",
  "mlp.gate": "ffn_gate_inp",
  "mlp.router": "ffn_gate_inp",
  "conv.in_proj": "shortconv.in_proj",
  "conv.conv": "shortconv.conv",
  "conv.out_proj": "shortconv.out_proj",
};
const WHOLE: Readonly<Record<string, string>> = {
  "model.embed_tokens": "token_embd",
  "model.norm": "output_norm",
  "model.embedding_norm": "token_embd_norm",
  lm_head: "output",
};

/** Rows of heads, whose halves become pairs of neighbors. */
function paired({ shape, data }: Data, heads: number): Data {
  const [rows, columns] = shape as [number, number];
  const size = rows / heads, half = size / 2;
  const made = new Float32Array(data.length);
  for (let row = 0; row < rows; row++) {
    const at = row % size;
    const to = row - at + at % half * 2 + Math.floor(at / half);
    made.set(data.subarray(row * columns, (row + 1) * columns), to * columns);
  }
  return { shape, data: made };
}

/** [count, a, b] as [count, b, a]. */
function turned({ shape, data }: Data): Data {
  const [count, a, b] = shape as [number, number, number];
  const made = new Float32Array(data.length);
  for (let i = 0; i < count; i++) {
    for (let j = 0; j < a; j++) {
      for (let k = 0; k < b; k++) made[(i * b + k) * a + j] = data[(i * a + j) * b + k]!;
    }
  }
  return { shape: [count, b, a], data: made };
}

/** Every second row of [count, rows, …], from `start` on. */
function alternate({ shape, data }: Data, start: 0 | 1): Data {
  const [count, rows, ...rest] = shape as [number, number, ...number[]];
  const size = rest.reduce((a, b) => a * b, 1);
  const made = data.slice(0, data.length / 2);
  for (let i = 0; i < count * rows / 2; i++) {
    const from = (2 * i + start) * size;
    made.set(data.subarray(from, from + size), i * size);
  }
  return { shape: [count, rows / 2, ...rest], data: made };
}

/** Blocks of MXFP4 of a GGUF file, of those in safetensors: [count, rows, columns]. */
function repacked(blocks: Data, scales: Data): Data {
  const [count, rows, groups] = scales.shape as [number, number, number];
  const made = new Uint8Array(scales.data.length * 17);
  scales.data.forEach((scale, i) => {
    const nibbles = Array.from(blocks.data.subarray(16 * i, 16 * i + 16), (x) => [x & 15, x >> 4])
      .flat();
    made[17 * i] = scale;
    for (let j = 0; j < 16; j++) made[17 * i + 1 + j] = nibbles[j]! | nibbles[j + 16]! << 4;
  });
  return { shape: [count, rows, groups * 32], data: made };
}

/** The tensors of a GGUF file by the rules of the converter. */
function convert({ config, tensors }: FamilyModel): Map<string, Data> {
  const type: string = config.model_type;
  const isPaired = type === "smollm3" || type === "granite";
  const isGemma = type.startsWith("gemma");
  const hasPostNorm = isGemma || type === "gpt_oss" || type.startsWith("olmo");
  const given = new Map(
    Object.entries(tensors).map(([name, shape]): [string, Data] => [
      name,
      { shape, data: isPacked(name) ? packedWeight(name, shape) : weight(name, shape) },
    ]),
  );
  const made = new Map<string, Data>();
  const experts = new Map<string, Data[]>();
  for (const [name, one] of given) {
    const found = /^model\.layers\.(\d+)\.(.*)$/.exec(name);
    const end = /\.(weight|bias)$/.exec(name)?.[0] ?? "";
    if (found === null) {
      const shifted = isGemma && name.includes("norm")
        ? { ...one, data: one.data.map((x) => Math.fround(x + 1)) }
        : one;
      made.set(`${WHOLE[name.slice(0, name.length - end.length)]}${end}`, shifted as Data);
      continue;
    }
    const [, layer, rest] = found as unknown as [string, string, string];
    const set = (part: string, data: Data): void => void made.set(`blk.${layer}.${part}`, data);
    const part = rest.slice(0, rest.length - end.length);
    const expert = /^mlp\.experts\.(\d+)\.(gate|up|down)_proj$/.exec(part);
    if (expert !== null) {
      const key = `blk.${layer}.ffn_${expert[2]}_exps.weight`;
      const all = experts.get(key) ?? [];
      all[Number(expert[1])] = one;
      experts.set(key, all);
    } else if (part === "self_attn.sinks") set("attn_sinks.weight", one);
    else if (part.startsWith("mlp.experts.")) {
      setJoint(
        part.slice("mlp.experts.".length),
        one,
        set,
        (other) => given.get(name.replace(/[^.]*$/, other))!,
      );
    } else if (part === "post_attention_layernorm") {
      const shifted = isGemma ? { ...one, data: one.data.map((x) => Math.fround(x + 1)) } : one;
      set(`${hasPostNorm ? "post_attention_norm" : "ffn_norm"}${end}`, shifted as Data);
    } else {
      const to = `${PARTS[part]}${end}`;
      if (isGemma && part.includes("norm")) {
        set(to, { ...one, data: one.data.map((x) => Math.fround(x + 1)) } as Data);
      } else if (isPaired && part === "self_attn.q_proj") {
        set(to, paired(one, config.num_attention_heads));
      } else if (isPaired && part === "self_attn.k_proj") {
        set(to, paired(one, config.num_key_value_heads));
      } else if (part === "conv.conv") {
        set(to, { shape: [one.shape[0]!, one.shape[2]!], data: one.data });
      } else set(to, one);
    }
  }
  for (const [key, all] of experts) {
    const data = new Float32Array(all.length * all[0]!.data.length);
    all.forEach((one, i) => data.set(one.data, i * one.data.length));
    made.set(key, { shape: [all.length, ...all[0]!.shape], data });
  }
  const rope = config.rope_parameters;
  if (rope?.rope_type === "longrope") {
    for (const kind of ["long", "short"]) {
      const data = Float32Array.from(rope[`${kind}_factor`] as number[]);
      made.set(`rope_factors_${kind}.weight`, { shape: [data.length], data });
    }
  }
  return made;
}

/** The experts of gpt-oss. */
function setJoint(
  part: string,
  one: Data,
  set: (part: string, data: Data) => void,
  sibling: (name: string) => Data,
): void {
  switch (part) {
    case "gate_up_proj": {
      const rows = turned(one);
      set("ffn_gate_exps.weight", alternate(rows, 0));
      return set("ffn_up_exps.weight", alternate(rows, 1));
    }
    case "gate_up_proj_bias":
      set("ffn_gate_exps.bias", alternate(one, 0));
      return set("ffn_up_exps.bias", alternate(one, 1));
    case "down_proj":
      return set("ffn_down_exps.weight", turned(one));
    case "down_proj_bias":
      return set("ffn_down_exps.bias", one);
    case "gate_up_proj_blocks": {
      const scales = sibling("gate_up_proj_scales");
      for (const [i, kind] of ["gate", "up"].entries()) {
        const start = i as 0 | 1;
        const data = repacked(alternate(one, start), alternate(scales, start));
        set(`ffn_${kind}_exps.weight`, data);
      }
      return;
    }
    case "down_proj_blocks":
      return set("ffn_down_exps.weight", repacked(one, sibling("down_proj_scales")));
  }
}

const FLOAT32 = 0, MXFP4 = 39;

/**
 * The GGUF file of a model, with changes of its metadata; throws unless its tensors are the
 * converter's.
 */
export function ggufOf(
  model: FamilyModel,
  changes: Readonly<Record<string, GgufValue>> = {},
): Uint8Array<ArrayBuffer> {
  const { metadata, tensors } = model.gguf!;
  const made = convert(model);
  const all = Object.entries(tensors).map(([name, [type, shape, digest]]): GgufTensor => {
    const one = made.get(name);
    if (one === undefined) throw new Error(`the converter writes ${name}`);
    const bytes = new Uint8Array(one.data.buffer, one.data.byteOffset, one.data.byteLength);
    const own = createHash("sha256").update(bytes).digest("hex").slice(0, digest.length);
    if (own !== digest) throw new Error(`${name} is not that of the converter`);
    const isPackedType = type === "MXFP4";
    const size = isPackedType ? one.shape : shape;
    return { name, type: isPackedType ? MXFP4 : FLOAT32, shape: size, bytes };
  });
  const left = [...made.keys()].filter((name) => !(name in tensors));
  if (left.length > 0) throw new Error(`the converter does not write ${left.join(", ")}`);
  const values = { ...metadata, ...changes };
  return writeGguf(ggufMetadata(values), Object.keys(values).length, all);
}

/**
 * Small models whose weights are a formula, and what transformers computes with them
 * (tests/golden/llm.json, which scripts/golden/llm.py writes): as folders of config.json and
 * safetensors, and as GGUF files.
 *
 * @module
 */
import { readFileSync } from "node:fs";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after } from "node:test";
import { io, tensor } from "../../mod.ts";
import { type Any, loose } from "../support.ts";

export interface GoldenModel {
  /** The config.json of transformers. */
  readonly config: Readonly<Record<string, Any>>;
  /** The shapes of weights. */
  readonly tensors: Readonly<Record<string, readonly number[]>>;
  readonly prompt: readonly number[];
  /** The logits after each token of the prompt: base64 of float32. */
  readonly logits: string;
  /** The tokens that follow. */
  readonly tokens: readonly number[];
}

interface GoldenRope {
  readonly name: string;
  readonly dimensions: number;
  readonly base: number;
  readonly parameters: Readonly<Record<string, Any>>;
  /** The longest sequence of the model. */
  readonly context: number;
  /** The length of the sequence; null for any. */
  readonly length: number | null;
  /** Base64 of float32. */
  readonly frequencies: string;
  readonly factor: number;
}

interface Golden {
  readonly ropes: readonly GoldenRope[];
  readonly models: Readonly<Record<string, GoldenModel>>;
}

/** What transformers computes. */
export const golden: Golden = JSON.parse(
  readFileSync(new URL("../golden/llm.json", import.meta.url), "utf8"),
);

/** The numbers of base64 of float32. */
export function floatsOf(text: string): Float32Array {
  return new Float32Array(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);
}

/** 32 bits for each element of a tensor: the same as `hashes` in scripts/golden/llm_weights.py. */
function hashes(name: string, shape: readonly number[]): Uint32Array {
  let seed = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(name)) seed = Math.imul(seed ^ byte, 0x01000193);
  const size = shape.reduce((a, b) => a * b, 1);
  return Uint32Array.from({ length: size }, (_, i) => {
    let x = Math.imul(i, 0x9e3779b9) + seed | 0;
    x = Math.imul(x ^ x >>> 16, 0x85ebca6b);
    x = Math.imul(x ^ x >>> 13, 0xc2b2ae35);
    return x ^ x >>> 16;
  });
}

/** The elements of a weight: the same as `weight` in scripts/golden/llm_weights.py. */
export function weight(name: string, shape: readonly number[]): Float32Array<ArrayBuffer> {
  return Float32Array.from(hashes(name, shape), (hash) => {
    const unit = (hash >>> 16) / 32768 - 1;
    if (name.includes("norm")) return 1 + unit / 4;
    return name.includes("embed") ? unit : unit / 4;
  });
}

/** The bytes of MXFP4: the same as `mxfp4` in scripts/golden/llm_weights.py. */
export function packedWeight(name: string, shape: readonly number[]): Uint8Array<ArrayBuffer> {
  const isScale = name.endsWith("_scales");
  return Uint8Array.from(hashes(name, shape), (hash) => {
    const byte = hash >>> 24;
    return isScale ? 121 + byte % 4 : byte;
  });
}

/** Whether a weight has the bytes of MXFP4. */
export function isPacked(name: string): boolean {
  return /_(blocks|scales)$/.test(name);
}

const folder = mkdtempSync(join(tmpdir(), "rowmajor-llm-"));
after(() => rmSync(folder, { recursive: true }));

/** A path in the folder of this process's tests, which is removed after them. */
export function temporary(name: string): string {
  return join(folder, name);
}

/** A folder with config.json, in which `changes` are made, and the safetensors of a model. */
export function modelFolder(
  name: string,
  changes: Readonly<Record<string, unknown>> = {},
  { config, tensors }: Pick<GoldenModel, "config" | "tensors"> = golden.models[name]!,
): string {
  const path = temporary(`${name} ${Object.keys(changes).join(" ")}`.trim());
  mkdirSync(path, { recursive: true });
  writeFileSync(join(path, "config.json"), JSON.stringify({ ...config, ...changes }));
  const all = Object.fromEntries(
    Object.entries(tensors).map((
      [key, shape],
    ) => [
      key,
      isPacked(key)
        ? tensor(packedWeight(key, shape), { shape: [...shape], dtype: "uint8" })
        : tensor(weight(key, shape), { shape: [...shape] }),
    ]),
  );
  writeFileSync(join(path, "model.safetensors"), io.encodeSafetensors(loose(all)));
  for (const one of Object.values(all)) one.dispose();
  return path;
}

/** All numbers of a generator, and what it returns. */
export async function collect<T, R>(
  tokens: AsyncGenerator<T, R>,
): Promise<{ all: T[]; end: R }> {
  const all: T[] = [];
  for (;;) {
    const next = await tokens.next();
    if (next.done === true) return { all, end: next.value };
    all.push(next.value);
  }
}

/** A list of numbers. */
export type Vector = ArrayLike<number>;

/** The greatest difference of two lists of numbers of one length. */
export function distance(a: Vector, b: Vector): number {
  if (a.length !== b.length) throw new Error(`${a.length} numbers, not ${b.length}`);
  let most = 0;
  for (let i = 0; i < a.length; i++) most = Math.max(most, Math.abs(a[i]! - b[i]!));
  return most;
}

/**
 * Small encoders whose weights are a formula, and what transformers computes with them
 * (tests/golden/encoders.json, which scripts/golden/encoders.py writes).
 *
 * @module
 */
import { readFileSync } from "node:fs";
import { fromBuffer, io, tensor } from "../../mod.ts";
import type { Batch, Encoder, State } from "../../src/models/encoders/parts.ts";
import { weight } from "../llm/models.ts";
import { type Any, loose } from "../support.ts";

export interface GoldenEncoder {
  /** The config.json of transformers. */
  readonly config: Readonly<Record<string, Any>>;
  /** The shapes of weights. */
  readonly tensors: Readonly<Record<string, readonly number[]>>;
  /** The tokens of each text. */
  readonly ids: readonly (readonly number[])[];
  readonly types: readonly (readonly number[])[] | null;
  /** The states of the tokens of each text: base64 of float32. */
  readonly states: string | null;
  /** The logits of each text: base64 of float32. */
  readonly logits: string | null;
}

/** What transformers computes. */
export const encoders: Readonly<Record<string, GoldenEncoder>> = JSON.parse(
  readFileSync(new URL("../golden/encoders.json", import.meta.url), "utf8"),
).models;

/** The weights of a model as a safetensors file. */
export function safetensorsOf({ tensors }: GoldenEncoder): Uint8Array {
  const all = Object.fromEntries(
    Object.entries(tensors).map(([name, shape]) => [
      name,
      tensor(weight(name, shape), { shape: [...shape] }),
    ]),
  );
  const bytes = io.encodeSafetensors(loose(all));
  for (const one of Object.values(all)) one.dispose();
  return bytes;
}

/** Rows of integers, padded to the longest by `padding`: [B, T]. */
export function padded(rows: readonly (readonly number[])[], padding: number) {
  const width = Math.max(...rows.map((row) => row.length));
  const all = new Int32Array(rows.length * width).fill(padding);
  rows.forEach((row, i) => all.set(row, i * width));
  return fromBuffer(all, { shape: [rows.length, width] as [number, number] });
}

/** The states of the tokens of a batch, by all parts of an encoder. */
export function statesBy(encoder: Encoder, batch: Batch): State {
  const { lengths } = batch;
  const { x, sights } = encoder.begin(batch);
  return encoder.end(
    encoder.layers.reduce((x, { kind, run }) => run(x, { ...sights[kind]!, lengths }), x),
  );
}

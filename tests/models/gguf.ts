/**
 * The GGUF files that llama.cpp's converter makes of small encoders, with their tokenizers, and what
 * transformers computes for texts (tests/golden/encoders_gguf.json, which
 * scripts/golden/encoders_gguf.py writes).
 *
 * @module
 */
import { readFileSync } from "node:fs";
import { weight } from "../llm/models.ts";
import { encodeBlocks } from "../support/blocks.ts";
import { ggufMetadata, type GgufTensor, type GgufValue, writeGguf } from "../support/gguf.ts";

/** What the converter makes a tensor of. */
type Source = readonly [name: string, shape: readonly number[], left: number, plus: number];

export interface GgufEncoder {
  readonly metadata: Readonly<Record<string, GgufValue>>;
  readonly tensors: Readonly<Record<string, Source>>;
  /** The types of the tensors in the converter's file of Q8_0; empty if there is none. */
  readonly types: Readonly<Record<string, keyof typeof TYPES>>;
  /** The tokens of each text. */
  readonly ids: readonly (readonly number[])[];
  /** The states of the tokens of each text, and the vectors of texts: base64 of float32. */
  readonly states: string;
  readonly vectors: string;
}

/** The models, and their texts. */
export const gguf: {
  readonly texts: readonly string[];
  readonly models: Readonly<Record<string, GgufEncoder>>;
} = JSON.parse(readFileSync(new URL("../golden/encoders_gguf.json", import.meta.url), "utf8"));

/** The numbers of types, and the bytes of elements in them. */
const TYPES = {
  F32: { type: 0, bytesOf: (x: Float32Array) => new Uint8Array(x.buffer) },
  F16: { type: 1, bytesOf: (x: Float32Array) => new Uint8Array(Float16Array.from(x).buffer) },
  Q8_0: { type: 8, bytesOf: (x: Float32Array) => encodeBlocks("q8_0", x) },
} as const;

/** The tensors of the file of a model, of the given types, or of float32. */
function tensorsOf({ tensors }: GgufEncoder, types: Partial<GgufEncoder["types"]>): GgufTensor[] {
  return Object.entries(tensors).map(([name, [source, [rows, ...rest], left, plus]]) => {
    const all = weight(source, [rows!, ...rest]).map((x) => Math.fround(x + plus));
    const { type, bytesOf } = TYPES[types[name] ?? "F32"];
    return {
      ...{ name, type, shape: [rows! - left, ...rest] },
      bytes: bytesOf(all.slice(left * all.length / rows!)),
    };
  });
}

/** The GGUF file of a model, with changes of its metadata; undefined leaves a key out. */
export function ggufOf(
  model: GgufEncoder,
  changes: Readonly<Record<string, GgufValue | undefined>> = {},
  more: readonly GgufTensor[] = [],
  types: Partial<GgufEncoder["types"]> = {},
): Uint8Array<ArrayBuffer> {
  const values = Object.entries({ ...model.metadata, ...changes }).filter((entry) =>
    entry[1] !== undefined
  ) as [string, GgufValue][];
  return writeGguf(ggufMetadata(Object.fromEntries(values)), values.length, [
    ...tensorsOf(model, types),
    ...more,
  ]);
}

/**
 * The GGUF files that llama.cpp's converter makes of small encoders, with their tokenizers, and what
 * transformers computes for texts (tests/golden/encoders_gguf.json, which
 * scripts/golden/encoders_gguf.py writes).
 *
 * @module
 */
import { readFileSync } from "node:fs";
import { weight } from "../llm/models.ts";
import { ggufMetadata, type GgufTensor, type GgufValue, writeGguf } from "../support/gguf.ts";

/** What the converter makes a tensor of. */
type Source = readonly [name: string, shape: readonly number[], left: number, plus: number];

export interface GgufEncoder {
  readonly metadata: Readonly<Record<string, GgufValue>>;
  readonly tensors: Readonly<Record<string, Source>>;
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

const FLOAT32 = 0;

/** The tensors of the file of a model. */
function tensorsOf({ tensors }: GgufEncoder): GgufTensor[] {
  return Object.entries(tensors).map(([name, [source, [rows, ...rest], left, plus]]) => {
    const all = weight(source, [rows!, ...rest]).map((x) => Math.fround(x + plus));
    const data = all.slice(left * all.length / rows!);
    return {
      name,
      type: FLOAT32,
      shape: [rows! - left, ...rest],
      bytes: new Uint8Array(data.buffer),
    };
  });
}

/** The GGUF file of a model, with changes of its metadata; undefined leaves a key out. */
export function ggufOf(
  model: GgufEncoder,
  changes: Readonly<Record<string, GgufValue | undefined>> = {},
  more: readonly GgufTensor[] = [],
): Uint8Array<ArrayBuffer> {
  const values = Object.entries({ ...model.metadata, ...changes }).filter((entry) =>
    entry[1] !== undefined
  ) as [string, GgufValue][];
  return writeGguf(ggufMetadata(Object.fromEntries(values)), values.length, [
    ...tensorsOf(model),
    ...more,
  ]);
}

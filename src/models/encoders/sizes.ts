/**
 * The sizes that all encoders have, and their checks.
 *
 * @module
 */
import { MOST, type Reader } from "../../llm/config/reader.ts";
import type { AnyWeights } from "./parts.ts";

export { MOST };

/** The sizes of an encoder. */
export interface EncoderSizes {
  readonly vocabulary: number;
  readonly layers: number;
  readonly hidden: number;
  readonly intermediate: number;
  readonly heads: number;
  /** The most tokens of a text. */
  readonly longest: number;
  /** The epsilon of norms. */
  readonly epsilon: number;
}

/** Sizes that fit each other; throws a FormatError for others. */
export function checkSizes<S extends EncoderSizes>(sizes: S, reader: Reader): S {
  const { hidden, heads, epsilon } = sizes;
  if (hidden % heads !== 0) {
    reader.fail(`the hidden size ${hidden} is no multiple of ${heads} heads`);
  }
  if (!(epsilon >= 0 && epsilon <= 1)) {
    reader.fail(`the epsilon of norms is ${epsilon}, and must be from 0 to 1`);
  }
  return sizes;
}

/** The number of layers; each has tensors, so that a file without them is refused first. */
export function layersOf(weights: AnyWeights, reader: Reader, key: string): number {
  const layers = reader.size(key, MOST.layers);
  const tensors = weights.names().length;
  if (layers <= tensors) return layers;
  return reader.fail(`the model has ${layers} layers, and the file only ${tensors} tensors`);
}

/** The base of the rotary positions of a kind of layer, or under an older key. */
export function ropeBase(reader: Reader, kind: string, key: string, otherwise: number): number {
  const own = reader.within("rope_parameters").within(kind);
  const type = own.text("rope_type") ?? "default";
  if (type !== "default") own.reject("rope_type", "default: others are not supported");
  const old = reader.real(key, otherwise);
  return own.number("rope_theta", { least: 1, most: MOST.number, otherwise: old });
}

/** The base of the rotary positions in the metadata of a GGUF file. */
export function ggufBase(reader: Reader, key: string, otherwise: number): number {
  return reader.number(key, { least: 1, most: MOST.number, otherwise });
}

/** For each layer, whether it sees all tokens: by `layer_types`, or else by its index. */
export function globalLayers(
  reader: Reader,
  layers: number,
  otherwise: (i: number) => boolean,
): boolean[] {
  const types = reader.texts("layer_types");
  if (types === undefined) return Array.from({ length: layers }, (_, i) => otherwise(i));
  const known = ["full_attention", "sliding_attention"];
  if (types.length !== layers || !types.every((type) => known.includes(type))) {
    return reader.reject("layer_types", `a list of ${layers} of ${known.join(" and ")}`);
  }
  return types.map((type) => type === known[0]);
}

/** The sizes in the metadata of a GGUF file, whose keys begin with the architecture. */
export function ggufSizes(
  weights: AnyWeights,
  reader: Reader,
  architecture: string,
  epsilon: string,
): EncoderSizes {
  const own = (key: string): string => `${architecture}.${key}`;
  reader.refuse(own("attention.causal"), false);
  return {
    vocabulary: reader.size(
      own("vocab_size"),
      MOST.vocabulary,
      weights.info("token_embd.weight")?.shape[0],
    ),
    layers: layersOf(weights, reader, own("block_count")),
    hidden: reader.size(own("embedding_length"), MOST.hidden),
    intermediate: reader.size(own("feed_forward_length"), MOST.intermediate),
    heads: reader.size(own("attention.head_count"), MOST.heads),
    longest: reader.size(own("context_length"), MOST.tokens),
    epsilon: reader.real(own(epsilon)),
  };
}

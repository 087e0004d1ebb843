/**
 * What the files of a model say of it: sizes and end tokens, of GGUF or of the files in a folder.
 *
 * @module
 */
import { FormatError } from "../base/errors.ts";
import type { Path } from "../io/file.ts";
import { readJson } from "../io/model_folder.ts";
import { scope } from "../tensor/tensor.ts";
import type { AnyWeights } from "./blocks/step.ts";
import type { ModelConfig } from "./config/config.ts";
import { endTokensOf, type NamedToken } from "./config/end_tokens.ts";
import { MOST, objectOf } from "./config/reader.ts";
import { configOfGguf } from "./gguf_config.ts";
import { configOfJson } from "./json_config.ts";

/** The most factors of frequencies: half the columns of a head. */
const MOST_FACTORS = MOST.headDimensions / 2;

/** The factors of frequencies in a tensor of a GGUF file, if it has that tensor. */
export function factorsOf(
  weights: AnyWeights,
  name: string,
  file: string,
): Float32Array | undefined {
  const info = weights.info(name);
  if (info === undefined) return undefined;
  const { shape } = info;
  if (shape.length !== 1 || shape[0]! > MOST_FACTORS) {
    throw new FormatError(
      `tensor ${name} has the shape [${shape.join(", ")}], and must have one axis of at most ` +
        `${MOST_FACTORS}`,
      file,
      0,
    );
  }
  return scope(() =>
    // A copy: the file is closed when the weights are loaded.
    weights.tensor(name, undefined, { dtype: "float32" }).to("cpu").toTypedArray().slice()
  );
}

/** The tokens with names in the files of a tokenizer, and its own token at the end. */
async function namedTokens(folder: Path): Promise<{ all: NamedToken[]; eos: unknown[] }> {
  const config = objectOf(await readJson(folder, "tokenizer_config.json"));
  let all = Object.entries(objectOf(config["added_tokens_decoder"]))
    .map(([id, token]): NamedToken => [Number(id), objectOf(token)["content"]]);
  if (all.length === 0) {
    const { added_tokens } = objectOf(await readJson(folder, "tokenizer.json"));
    all = [added_tokens ?? []].flat().map(objectOf).map(({ id, content }) => [id, content]);
  }
  const eos = objectOf(config["eos_token"])["content"] ?? config["eos_token"];
  const isEos = ([, name]: NamedToken): boolean => typeof name === "string" && name === eos;
  return { all, eos: all.filter(isEos).map(([id]) => id) };
}

/** The sizes of a model, from its file or from the files beside it. */
export async function configOf(
  source: Path | Uint8Array,
  weights: AnyWeights,
): Promise<ModelConfig> {
  const file = ArrayBuffer.isView(source) ? "<bytes>" : String(source);
  if (weights.metadata.has("general.architecture")) {
    return configOfGguf(weights.metadata, file, {
      vocabulary: weights.info("token_embd.weight")?.shape[0],
      tensors: weights.names().length,
      shortFactors: factorsOf(weights, "rope_factors_short.weight", file),
      longFactors: factorsOf(weights, "rope_factors_long.weight", file),
    });
  }
  const json = ArrayBuffer.isView(source) ? undefined : await readJson(source, "config.json");
  if (json === undefined) {
    throw new FormatError(
      "the sizes of the model are missing: there is no config.json, and no metadata of GGUF",
      file,
      0,
    );
  }
  const config = configOfJson(json, `config.json of ${file}`, weights.names().length);
  const more = await readJson(source as Path, "generation_config.json") as
    | { eos_token_id?: unknown }
    | undefined;
  const { all, eos } = await namedTokens(source as Path);
  const ids = [config.endTokens, more?.eos_token_id ?? [], eos].flat();
  return { ...config, endTokens: endTokensOf(ids, all, config.vocabulary) };
}

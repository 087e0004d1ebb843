/**
 * What a model is for, by its files.
 *
 * @module
 */
import { ArgumentError, FormatError } from "../base/errors.ts";
import { describe, describePath } from "../base/text.ts";
import { objectOf } from "../llm/config/reader.ts";
import { FAMILIES } from "../llm/families/registry.ts";
import { ENCODERS } from "../models/encoders/families.ts";
import { filesOf, type FindOptions, jsonOf, type ModelFiles } from "../models/files.ts";
import * as nn from "../nn/mod.ts";

/** What models are for. */
export const KINDS = ["chat", "embeddings", "rerank", "inference"] as const;

/** What a model is for. */
export type Kind = typeof KINDS[number];

/** Where the files of a model are. */
export interface FoundModel {
  /** What openers take: a path. */
  readonly path: string;
  /** The kind that the files have; undefined if they do not say. */
  readonly kind: Kind | undefined;
  /** Why there is no kind. */
  readonly reason: string;
  /** The files; undefined for an ONNX file. */
  readonly files: ModelFiles | undefined;
}

/** `pooling_type` of GGUF files whose model ranks texts. */
const RANK = 4;

/** The kind of a model by `general.architecture` and what else the metadata of a GGUF file says. */
function kindOfGguf(metadata: nn.Weights["metadata"]): Pick<FoundModel, "kind" | "reason"> {
  const name = metadata.get("general.architecture");
  if (ENCODERS.some(({ gguf }) => gguf !== undefined && gguf === name)) {
    const isRanker = Number(metadata.get(`${name}.pooling_type`)) === RANK;
    return { kind: isRanker ? "rerank" : "embeddings", reason: "" };
  }
  const isKnown = FAMILIES.some(({ gguf }) => gguf.architectures.some((one) => one === name));
  return {
    kind: isKnown ? "chat" : undefined,
    reason: `general.architecture is ${describe(name)}, which no kind of model here has`,
  };
}

/** The kind of a model by config.json. */
function kindOfConfig(json: unknown, hasModules: boolean): Pick<FoundModel, "kind" | "reason"> {
  const { architectures, model_type: type } = objectOf(json);
  const names: unknown[] = Array.isArray(architectures) ? architectures : [];
  const has = (ending: RegExp): boolean =>
    names.some((name) => typeof name === "string" && ending.test(name));
  const kind = (): Kind | undefined => {
    if (hasModules) return "embeddings";
    if (has(/For(CausalLM|ConditionalGeneration)$/)) return "chat";
    if (has(/ForSequenceClassification$/)) return "rerank";
    if (ENCODERS.some(({ json }) => json.some((one) => one === type))) return "embeddings";
    const isKnown = FAMILIES.some(({ transformers }) =>
      transformers.types.some((one) => one === type)
    );
    return isKnown ? "chat" : undefined;
  };
  return {
    kind: kind(),
    reason: `config.json has architectures ${names.map(describe).join(", ") || "of no name"} and ` +
      `model_type ${describe(type)}`,
  };
}

/** The ONNX files of a folder; none if there is no such folder. */
async function onnxIn(folder: string): Promise<string[]> {
  const [{ readdir }, { join }] = await Promise.all([
    import("node:fs/promises"),
    import("node:path"),
  ]);
  const names = await readdir(folder).catch(() => []);
  return names.filter((name) => /\.onnx$/i.test(name)).sort().map((name) => join(folder, name));
}

/**
 * Finds the files of a model, and what it is for. Weights are not read.
 *
 * @throws {ArgumentError} If there is no such file, folder or model.
 * @throws {FormatError} For damaged files.
 */
export async function resolveModel(
  source: string,
  options: FindOptions = {},
): Promise<FoundModel> {
  await checkPath(source);
  if (/\.onnx$/i.test(source)) return onnxFile(source);
  const files = await filesOf(source, options);
  const config = await jsonOf(files, "config.json");
  const path = files.label;
  if (config !== undefined) {
    const hasModules = await files.text("modules.json") !== undefined;
    return { path, files, ...kindOfConfig(config, hasModules) };
  }
  const onnx = await onnxIn(path);
  if (onnx.length > 1) {
    throw new FormatError(`there are several ONNX files, name one: ${onnx.join(", ")}`, path, 0);
  }
  if (onnx.length === 1) return onnxFile(onnx[0]!);
  using weights = await nn.open(await files.weights() ?? path);
  if (weights.metadata.has("general.architecture")) {
    return { path, files, ...kindOfGguf(weights.metadata) };
  }
  return { path, files, kind: undefined, reason: "there is no config.json beside the weights" };
}

/** What is no name of a model: a path. */
const PATH = /\.(onnx|gguf|safetensors|json)$/i;

/** Whether there is something at a path. */
export async function exists(path: string): Promise<boolean> {
  const { stat } = await import("node:fs/promises");
  try {
    await stat(path);
    return true;
  } catch (error) {
    const { code } = error as { code?: string };
    if (code === "ENOENT" || code === "ENOTDIR") return false;
    throw error;
  }
}

/** Throws unless there is something at a path; names of models pass. */
export async function checkPath(path: string, what: "model" | "file" = "model"): Promise<void> {
  if (what === "model" && !PATH.test(path)) return;
  if (!await exists(path)) {
    throw new ArgumentError(`Cannot find ${what} ${describePath(path)}: there is no such file`);
  }
  if (what === "model") return;
  const { stat } = await import("node:fs/promises");
  if (!(await stat(path)).isDirectory()) return;
  throw new ArgumentError(`Cannot read file ${describePath(path)}: it is a folder`);
}

const onnxFile = (path: string): FoundModel => ({
  path,
  kind: "inference",
  reason: "",
  files: undefined,
});

/** The name of a model in answers: of its file or folder, or that in the cache of the hub. */
export async function nameOf(source: string): Promise<string> {
  const isHub = /^[\w.-]+\/[\w.-]+$/.test(source) && !source.startsWith(".") && !PATH.test(source);
  if (isHub && !await exists(source)) return source;
  const last = source.replace(/[\\/]+$/, "").split(/[\\/]/).at(-1)!;
  return last.replace(/\.(gguf|onnx|safetensors)$/i, "").replace(/\s+/g, "-");
}

/**
 * `rowmajor info`: tells what computes here, and what a model is.
 *
 * @module
 */
import { stat } from "node:fs/promises";
import { DTYPE } from "../base/dtype.ts";
import { sizeOf } from "../base/shape.ts";
import { info as machineInfo } from "../device/info.ts";
import { objectOf } from "../llm/config/reader.ts";
import { memoryOfModel } from "../llm/memory.ts";
import { configOf } from "../llm/model_files.ts";
import { jsonOf, type ModelFiles } from "../models/files.ts";
import * as nn from "../nn/mod.ts";
import * as onnx from "../onnx/mod.ts";
import { bytesText, countText, integer, parse, say, UsageError } from "./arguments.ts";
import { type FoundModel, resolveModel } from "./kinds.ts";
import { USUAL_CONTEXT } from "./open.ts";
import { progressOf } from "./progress.ts";

export const USAGE = `usage: rowmajor info [options] [MODEL]

Without a MODEL, tells what computes here: the backend, its instruction set, threads and libraries.
Of a MODEL, tells what it is for, its family, sizes, dtypes, context, memory and tokenizer. Its
weights are not read, except those of ONNX files.

  --context=N   the tokens of a text, for the memory of a language model (that of the model, at
                most 8192)
  --download    fetches a model that is not in the cache of the hub
  --json        prints JSON
  -h, --help    prints this`;

const OPTIONS = {
  context: { type: "string" },
  download: { type: "boolean" },
  json: { type: "boolean" },
  help: { type: "boolean", short: "h" },
} as const;

/** What is told, by name. Undefined values are left out. */
type Facts = Readonly<Record<string, unknown>>;

/** Runs the command, and returns its exit code. */
export async function info(args: readonly string[]): Promise<number> {
  const { values, positionals: [model, ...others] } = parse(args, OPTIONS);
  if (values.help) return console.log(USAGE), 0;
  if (others.length > 0) throw new UsageError(`there are several MODELs: ${others[0]} too`);
  const context = integer("context", values.context, 1);
  if (model === undefined) {
    const { devices, backends, ...facts } = machineInfo();
    if (values.json) console.log(JSON.stringify({ ...facts, devices, backends }));
    else console.log(tableOf(machineFacts()));
    return 0;
  }
  const progress = progressOf(`fetching ${model}`);
  const download = values.download && { onProgress: progress.show };
  const found = await resolveModel(model, { download }).finally(progress.end);
  const facts = found.files === undefined
    ? await onnxFacts(found.path)
    : await modelFacts(found, found.files, context);
  console.log(values.json ? JSON.stringify(facts) : tableOf(shown(facts)));
  return 0;
}

/** The facts as lines, the names in a column. */
function tableOf(facts: Facts): string {
  const entries = Object.entries(facts).filter(([, value]) => value !== undefined);
  const width = Math.max(...entries.map(([name]) => name.length));
  // Files may have names of any characters.
  return entries.map(([name, value]) =>
    // deno-lint-ignore no-control-regex
    `${name.padEnd(width)}  ${value}`.replace(/[\x00-\x1f\x7f-\x9f]/g, "\ufffd")
  ).join("\n");
}

/** What computes here. */
export function machineFacts(): Facts {
  const { version, runtime, devices, backends, level, threads, async, files } = machineInfo();
  const reason = devices["cpu"] === "native" ? "" : ` (no native library: ${backends.native})`;
  const { cpu, ...others } = devices;
  return {
    version,
    runtime,
    backend: cpu + reason,
    level: level ?? undefined,
    threads,
    async,
    files,
    openblas: backends.openblas,
    ...others,
    cuda: others["cuda"] ?? backends.cuda,
  };
}

/** Says in one line that the native library is not in use, and why; nothing if it is. */
export function tellSlowBackend(): void {
  const { devices: { cpu }, backends: { native } } = machineInfo();
  if (cpu !== "native") say(`computing with ${cpu}, which is slower: ${native}`);
}

/** The facts as a person reads them. */
function shown(facts: Facts): Facts {
  const { parameters, size, weights, cache, context, dtypes, inputs, outputs, ...rest } = facts;
  const shares = Object.entries(objectOf(dtypes)).map(([name, share]) =>
    `${name} ${Math.round(100 * Number(share)) || "<1"}%`
  );
  const memory = weights === undefined
    ? undefined
    : `${bytesText(Number(weights))} of weights, ${bytesText(Number(cache))} for a text of ` +
      `${facts["tokens"]} tokens`;
  const list = (values: unknown): string | undefined =>
    Array.isArray(values) ? values.join("; ") : undefined;
  const { tokens: _, ...others } = rest;
  return {
    ...others,
    size: bytesText(Number(size)),
    parameters: parameters === undefined ? undefined : countText(Number(parameters)),
    dtypes: shares.length === 0 ? undefined : shares.join(", "),
    context: context === undefined ? undefined : `${context} tokens`,
    memory,
    inputs: list(inputs),
    outputs: list(outputs),
  };
}

/** What the files of a model with weights say. */
async function modelFacts(
  { path, kind, reason }: FoundModel,
  files: ModelFiles,
  context: number | undefined,
): Promise<Facts> {
  const place = await files.weights() ?? path;
  using weights = await nn.open(place);
  const config = objectOf(await jsonOf(files, "config.json"));
  const { metadata } = weights;
  const family = metadata.get("general.architecture") ?? config["model_type"];
  const common = {
    model: path,
    kind: kind ?? `unknown: ${reason}`,
    name: metadata.get("general.name"),
    family,
    ...weightFacts(weights),
    size: sizeInFiles(weights),
    tokenizer: await tokenizerText(files, metadata),
  };
  if (kind !== "chat") {
    const longest = metadata.get(`${family}.context_length`) ?? config["max_position_embeddings"];
    const labels = Object.keys(objectOf(config["id2label"])).length;
    return {
      ...common,
      context: longest,
      vectors: kind === "embeddings"
        ? metadata.get(`${family}.embedding_length`) ?? config["hidden_size"]
        : undefined,
      labels: kind === "rerank" && labels > 0 ? labels : undefined,
    };
  }
  const sizes = await configOf(place, weights);
  const tokens = Math.min(context ?? USUAL_CONTEXT, sizes.contextLength);
  const memory = memoryOfModel(weights, sizes, { context: tokens });
  return {
    ...common,
    ...{ layers: sizes.layers, context: sizes.contextLength },
    ...{ weights: memory.weights, cache: memory.cache, tokens },
    template: await hasTemplate(files, metadata) ? "yes" : "none: the model continues texts only",
  };
}

/** The number of parameters, and which share of them each dtype has. */
function weightFacts(weights: nn.Weights): Facts {
  const counts = new Map<string, number>();
  for (const name of weights.names()) {
    const { dtype = "unknown", shape } = weights.info(name)!;
    counts.set(dtype, (counts.get(dtype) ?? 0) + sizeOf(shape));
  }
  const parameters = [...counts.values()].reduce((a, b) => a + b, 0);
  const dtypes = [...counts].sort(([, a], [, b]) => b - a)
    .map(([dtype, count]) => [dtype, count / parameters]);
  return { parameters, dtypes: Object.fromEntries(dtypes) };
}

/** The bytes of tensors in the files. */
function sizeInFiles(weights: nn.Weights): number {
  return weights.names().map((name) => weights.info(name)!)
    .reduce(
      (sum, { dtype, shape }) =>
        sum + (dtype === undefined ? 0 : DTYPE[dtype].bytes * sizeOf(shape)),
      0,
    );
}

/** The kind of the tokenizer, and its number of tokens. */
async function tokenizerText(
  files: ModelFiles,
  metadata: nn.Weights["metadata"],
): Promise<string> {
  const model = metadata.get("tokenizer.ggml.model");
  if (model !== undefined) {
    const tokens = metadata.get("tokenizer.ggml.tokens");
    const split = metadata.get("tokenizer.ggml.pre");
    return `${model}${split === undefined ? "" : ` (${split})`}` +
      (Array.isArray(tokens) ? `, ${tokens.length} tokens` : "");
  }
  const json = await jsonOf(files, "tokenizer.json");
  if (json === undefined) return "none: there is no tokenizer.json";
  const { type, vocab } = objectOf(objectOf(json)["model"]);
  const count = Array.isArray(vocab) ? vocab.length : Object.keys(objectOf(vocab)).length;
  return `${type ?? "unknown"}, ${count} tokens`;
}

/** Whether the files have a template of chats. */
async function hasTemplate(files: ModelFiles, metadata: nn.Weights["metadata"]): Promise<boolean> {
  if (metadata.has("tokenizer.chat_template")) return true;
  if (await files.text("chat_template.jinja") !== undefined) return true;
  const configs = ["tokenizer_config.json", "chat_template.json"];
  const values = await Promise.all(configs.map((name) => jsonOf(files, name)));
  return values.some((value) => objectOf(value)["chat_template"] !== undefined);
}

/** What an ONNX file says. */
async function onnxFacts(path: string): Promise<Facts> {
  using model = await onnx.open(path);
  const list = (values: readonly onnx.ValueInfo[]): string[] =>
    values.map(({ name, dtype, shape }) => `${name} ${dtype} [${shape?.join(", ") ?? "…"}]`);
  const nodes = [...model.ops.values()].reduce((a, b) => a + b, 0);
  return {
    model: path,
    kind: "inference",
    family: `ONNX, version ${model.opsets.get("") ?? "unknown"} of its ops`,
    size: (await stat(path)).size,
    nodes,
    inputs: list(model.inputs),
    outputs: list(model.outputs),
  };
}

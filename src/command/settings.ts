/**
 * What `rowmajor serve` is told: by arguments, by a file and by variables.
 *
 * @module
 */
import { readFile } from "node:fs/promises";
import { isIPv6 } from "node:net";
import { dirname, resolve } from "node:path";
import type { CacheDType } from "../nn/mod.ts";
import { LIMITS, type ServiceLimits } from "../serve/http/service.ts";
import { OPENAI_LIMITS } from "../serve/openai/limits.ts";
import type { OpenAILimits, TextEngineOptions } from "../serve/openai.ts";
import { integer, parse, UsageError, word } from "./arguments.ts";
import { exists, type Kind, KINDS, nameOf } from "./kinds.ts";

/** A model to serve. */
export interface ModelSettings {
  /** Its name in requests. */
  readonly name: string;
  /** What it is for; by its files, if undefined. */
  readonly kind: Kind | undefined;
  /** A path, or a name in the cache of the hub. */
  readonly source: string;
  /** The dtype of keys and values, of a model for chats. */
  readonly cache: CacheDType | undefined;
  /** The device of a model for chats. */
  readonly device: "cpu" | "cuda" | undefined;
  /** Whether the weights of an encoder are rounded to 8 bits. */
  readonly int8: boolean | undefined;
  /** Sizes of the engine of a model for chats; `queue` is also that of an ONNX file. */
  readonly engine: TextEngineOptions;
}

/** How the server logs requests. */
export type LogKind = "json" | "text" | "off";

/** What `rowmajor serve` does. */
export interface ServeSettings {
  readonly models: readonly ModelSettings[];
  readonly host: string;
  readonly port: number;
  /** None only if the address is that of this machine, or if the user said so. */
  readonly keys: readonly string[];
  /** The names in Host headers; undefined for the default ones. */
  readonly hosts: readonly string[] | undefined;
  readonly limits: Partial<ServiceLimits>;
  /** Limits of the requests of OpenAI's API. */
  readonly openaiLimits: Partial<OpenAILimits>;
  readonly threads: number | undefined;
  readonly log: LogKind;
  /** Whether the log has the texts of requests. */
  readonly logPrompts: boolean;
  /** Whether there are metrics; undefined if prom-client decides. */
  readonly metrics: boolean | undefined;
  readonly drainMs: number;
  readonly graceMs: number;
  /** Whether models that are not in the cache of the hub are downloaded. */
  readonly download: boolean;
  /** What the user should know, a line each. */
  readonly warnings: readonly string[];
}

/** The environment variable with keys. */
const KEYS_VARIABLE = "ROWMAJOR_KEYS";
const CACHES = ["float16", "float32", "bfloat16", "q8_0"] as const;
const DEVICES = ["cpu", "cuda"] as const;

/** The names of limits as options: `body-bytes` for bodyBytes. */
const dashed = (name: string): string =>
  name.replace(/[A-Z]/g, (letter) => `-${letter}`).toLowerCase();

/** An option for a limit. */
interface LimitOption {
  /** The name of the limit. */
  readonly limit: string;
  readonly text: string;
  readonly usual: number;
}

const limitOptions = <L extends object>(
  usual: L,
  texts: { readonly [N in keyof L]: string },
  prefix = "",
): [option: string, LimitOption][] =>
  Object.entries<string>(texts).map(([limit, text]) => [
    prefix + dashed(limit),
    { limit, text, usual: Number(usual[limit as keyof L]) },
  ]);

/** The options for limits of all requests. */
const SERVICE_LIMITS = new Map(limitOptions(LIMITS, {
  inFlight: "requests that are not answered yet; beyond, 503",
  perKey: "those of one key; beyond, 429",
  perClient: "bodies of one address that arrive; beyond, the oldest gets 503",
  bodyBytes: "bytes of a body; beyond, 413",
  firstByteMs: "milliseconds until the first byte of a body; beyond, 408",
  bodyMs: "milliseconds for a body; beyond, 408",
  answerMs: "milliseconds for an answer; beyond, 504",
}));

/** The options for limits of the requests of OpenAI's API. */
const REQUEST_LIMITS = new Map(limitOptions(OPENAI_LIMITS, {
  messages: "messages of a chat; beyond, 400",
  tokens: "tokens of an answer, also of one whose request does not say",
  choices: "answers to a request; beyond, 400",
  inputs: "texts of a request; beyond, 400",
  queue: "texts that wait for an encoder; beyond, 503",
}, "most-"));

const limitLines = [...SERVICE_LIMITS, ...REQUEST_LIMITS].map(([option, { text, usual }]) =>
  `  ${`--${option}=N`.padEnd(20)} ${text} (${usual})`
).join("\n");

export const USAGE = `usage: rowmajor serve [options] MODEL ...
       rowmajor serve --config=FILE [options]

A MODEL is a GGUF file, a folder with config.json, tokenizer.json and safetensors, an ONNX file, or
the name of a model in the cache of the Hugging Face hub. Its files tell what it is for. A kind in
front says it (chat:PATH, embeddings:PATH, rerank:PATH, inference:PATH), and NAME=PATH gives the
model another name than that of its file.

  --host=ADDRESS       the address to listen on (127.0.0.1); others need keys or --no-key
  --port=N             the port (8080); 0 takes any that is free
  --config=FILE        models and options in JSON
  --download           fetches models that are not in the cache of the hub

  --key-file=FILE      keys of clients, a line each, sent as "authorization: Bearer KEY"
  --key-env=NAME       the variable with such keys, with spaces between them (${KEYS_VARIABLE})
  --key=KEY            a key; other users of this machine can see it
  --no-key             serves other machines without keys
  --allow-host=NAME    a name in Host headers besides those of this machine; may be repeated

  --slots=N            texts that a chat model generates at the same time (16)
  --context=N          tokens of a text with its prompt (that of the model, at most 8192)
  --cache-tokens=N     tokens of all texts that there is memory for (slots * context, in up to a
                       quarter of the free memory)
  --queue=N            texts that wait for a chat model, and requests for an ONNX file; beyond, 503
                       (256)
  --speculate          tries tokens that followed the same tokens before, for texts that repeat
  --cache=DTYPE        of keys and values: ${CACHES.join(", ")} (float16)
  --device=DEVICE      of chat models: cpu or cuda (cpu)
  --int8               rounds weights of encoders to 8 bits
  --threads=N          threads for large ops (as many as the machine has)

The most:
${limitLines}

  --log=KIND           of requests, on the standard output: text, json or off (text)
  --log-prompts        the log has the texts that clients send to OpenAI's API, too
  --metrics            needs the package prom-client, which keeps the metrics of /metrics
  --no-metrics         keeps none; without either they are kept if prom-client is installed
  --drain-ms=N         how long, after TERM or INT, to go on answering 503 (500)
  --grace-ms=N         how long, after TERM or INT, accepted requests may take (30000)
  -h, --help           prints this

TERM and INT end the server: it refuses new work, answers what it has accepted, and exits with 0, or
with 1 if that took more than --grace-ms. A second signal exits at once.`;

const text = { type: "string" } as const;
const flag = { type: "boolean" } as const;
const texts = { type: "string", multiple: true } as const;

/** The options of a model, which entries of a file may have too. */
const MODEL_OPTIONS = {
  ...{ cache: text, device: text, int8: flag },
  ...{ slots: text, context: text, "cache-tokens": text, queue: text, speculate: flag },
} as const;

const OPTIONS = {
  ...{ host: text, port: text, config: text, download: flag },
  ...{ key: texts, "key-file": texts, "key-env": texts, "no-key": flag, "allow-host": texts },
  ...MODEL_OPTIONS,
  threads: text,
  ...{
    log: text,
    "log-prompts": flag,
    metrics: flag,
    "no-metrics": flag,
    "drain-ms": text,
    "grace-ms": text,
  },
  help: { type: "boolean", short: "h" },
} as const;

/** With those for limits. */
const ALL_OPTIONS = {
  ...Object.fromEntries([...SERVICE_LIMITS, ...REQUEST_LIMITS].map(([option]) => [option, text])),
  ...OPTIONS,
};

/** Options that a file may not have: what it has could not be taken back, or others could read it. */
const NOT_IN_FILES = ["config", "help", "key"];

/** Options of a file whose values are paths, from its folder. */
const PATHS = ["key-file"];

/** Reads a file of a user: a UsageError if there is none. */
async function readText(option: string, path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    const { code, message } = error as { code?: string; message: string };
    const reason = { ENOENT: "there is no such file", EISDIR: "it is a folder" }[code ?? ""] ??
      message;
    throw new UsageError(`--${option} ${path}: ${reason}`);
  }
}

/** Models that are paths, and no names of the hub. */
const PATH = /^\.|\.(gguf|onnx|safetensors)$/i;

/** A value of a file as arguments. */
function argumentsOf(file: string, option: string, value: unknown): string[] {
  if (value === true) return [`--${option}`];
  if (value === false) return [];
  if (typeof value === "string" || typeof value === "number") return [`--${option}=${value}`];
  if (Array.isArray(value)) return value.flatMap((one) => argumentsOf(file, option, one));
  throw new UsageError(`${file}: ${option} is no text, number, flag or list of them`);
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** What a configuration file has: options as arguments, and models. */
async function readConfig(
  file: string,
): Promise<{ readonly args: readonly string[]; readonly models: readonly ModelSettings[] }> {
  let json: unknown;
  const source = await readText("config", file);
  try {
    json = JSON.parse(source);
  } catch (error) {
    throw new UsageError(`${file}: not JSON: ${(error as Error).message}`);
  }
  if (!isObject(json)) throw new UsageError(`${file}: expected an object`);
  const { models = [], limits = {}, ...rest } = json;
  if (!Array.isArray(models)) throw new UsageError(`${file}: models are no list`);
  if (!isObject(limits)) throw new UsageError(`${file}: limits are no object`);
  const pathOf = (path: string): string => resolve(dirname(file), path);
  const args = Object.entries(rest).flatMap(([name, value]) => {
    const option = dashed(name);
    if (!Object.hasOwn(ALL_OPTIONS, option) || NOT_IN_FILES.includes(option)) {
      throw new UsageError(`${file}: there is no option ${name}`);
    }
    const own = PATHS.includes(option) && typeof value === "string" ? pathOf(value) : value;
    return argumentsOf(file, option, own);
  });
  for (const [name, value] of Object.entries(limits)) {
    // Limits have the names that the library gives them.
    const [option] = [...SERVICE_LIMITS, ...REQUEST_LIMITS].find(([, { limit }]) =>
      limit === name
    ) ??
      [];
    if (option === undefined) throw new UsageError(`${file}: there is no limit ${name}`);
    args.push(...argumentsOf(file, option, value));
  }
  const sourceOf = async (source: string): Promise<string> => {
    const path = pathOf(source);
    // A folder beside the file may have the name of a model of the hub.
    return PATH.test(source) || await exists(path) ? path : source;
  };
  const own = await Promise.all(models.map((model) => modelOfConfig(file, model, sourceOf)));
  return { args, models: own };
}

/** A model of a configuration file: `{ "path", "name", "kind" }` and options, or as an argument. */
async function modelOfConfig(
  file: string,
  model: unknown,
  sourceOf: (path: string) => Promise<string>,
): Promise<ModelSettings> {
  if (typeof model === "string") return await modelOf(model, sourceOf);
  if (!isObject(model)) throw new UsageError(`${file}: a model is neither a text nor an object`);
  const { path, name, kind, ...rest } = model;
  if (typeof path !== "string") throw new UsageError(`${file}: a model has no path`);
  if (name !== undefined && typeof name !== "string") {
    throw new UsageError(`${file}: the name of ${path} is no text`);
  }
  if (kind !== undefined && typeof kind !== "string") {
    throw new UsageError(`${file}: the kind of ${path} is no text`);
  }
  const own = Object.entries(rest).map(([name, value]) => [name, dashed(name), value] as const);
  const other = own.find(([, option]) => !Object.hasOwn(MODEL_OPTIONS, option));
  if (other !== undefined) throw new UsageError(`${file}: ${path} has no option ${other[0]}`);
  const args = own.flatMap(([, option, value]) => argumentsOf(file, option, value));
  const off = own.flatMap(([, option, value]) => value === false ? [[option, false]] : []);
  const source = await sourceOf(path);
  return {
    ...optionsOf({ ...parse(args, MODEL_OPTIONS).values, ...Object.fromEntries(off) }),
    name: name ?? await nameOf(source),
    kind: kind === undefined ? undefined : word("kind", kind, KINDS),
    source,
  };
}

type ModelValues = {
  readonly [N in keyof typeof MODEL_OPTIONS]?:
    | (typeof MODEL_OPTIONS[N]["type"] extends "boolean" ? boolean : string)
    | undefined;
};

/** The options of a model. */
function optionsOf(values: ModelValues): Omit<ModelSettings, "name" | "kind" | "source"> {
  const { cache, device, int8, slots, context, queue, speculate } = values;
  return {
    cache: cache === undefined ? undefined : word("cache", cache, CACHES),
    device: device === undefined ? undefined : word("device", device, DEVICES),
    int8,
    engine: {
      slots: integer("slots", slots, 1, 1024),
      context: integer("context", context, 1),
      cache: integer("cache-tokens", values["cache-tokens"], 1),
      queue: integer("queue", queue, 1),
      speculate,
    },
  };
}

/** A model whose own options come before those of all models. */
function withCommon(model: ModelSettings, common: ReturnType<typeof optionsOf>): ModelSettings {
  const own = Object.entries(model.engine).filter(([, size]) => size !== undefined);
  return {
    ...model,
    cache: model.cache ?? common.cache,
    device: model.device ?? common.device,
    int8: model.int8 ?? common.int8,
    engine: { ...common.engine, ...Object.fromEntries(own) },
  };
}

/** A model of an argument: `[NAME=][KIND:]PATH`. */
async function modelOf(
  argument: string,
  sourceOf: (path: string) => Promise<string> = (path) => Promise.resolve(path),
): Promise<ModelSettings> {
  // A path may have the form of a name and another path.
  const [, name, kind, path] = await exists(argument) ? [, , , argument] : new RegExp(
    `^(?:([\\w-][\\w./-]*)=)?(?:(${KINDS.join("|")}):)?(.+)$`,
    "s",
  ).exec(argument) ?? [];
  if (path === undefined) throw new UsageError(`the MODEL ${JSON.stringify(argument)} has no path`);
  const source = await sourceOf(path);
  return {
    ...optionsOf({}),
    name: name ?? await nameOf(source),
    kind: KINDS.find((one) => one === kind),
    source,
  };
}

/** Keys of a text, with spaces or line ends between them; lines that begin with # are comments. */
const keysIn = (text: string): string[] =>
  text.replace(/^\s*#.*$/gm, "").split(/\s+/).filter((key) => key !== "");

/** The options for keys. */
interface KeyValues {
  readonly key?: readonly string[] | undefined;
  readonly "key-file"?: readonly string[] | undefined;
  readonly "key-env"?: readonly string[] | undefined;
}

const KEY_WARNING = "--key: other users of this machine can see it; --key-file and " +
  `${KEYS_VARIABLE} hide keys`;

/** The keys of files, variables and arguments. */
async function keysOf(
  values: KeyValues,
  variable: (name: string) => string | undefined,
): Promise<string[]> {
  const keys: string[] = [];
  for (const path of values["key-file"] ?? []) {
    const found = keysIn(await readText("key-file", path));
    if (found.length === 0) throw new UsageError(`--key-file ${path}: there are no keys in it`);
    keys.push(...found);
  }
  for (const name of values["key-env"] ?? [KEYS_VARIABLE]) {
    const found = keysIn(variable(name) ?? "");
    if (found.length === 0 && values["key-env"] !== undefined) {
      throw new UsageError(`--key-env ${name}: there are no keys in this variable`);
    }
    keys.push(...found);
  }
  keys.push(...values.key ?? []);
  if (keys.some((key) => !/^[\x21-\x7e]{1,512}$/.test(key))) {
    throw new UsageError("a key has more than visible ASCII characters, or more than 512 of them");
  }
  return keys;
}

/** The limits that were given, by their names. */
function limitsOf(
  options: ReadonlyMap<string, LimitOption>,
  values: Readonly<Record<string, unknown>>,
): Record<string, number> {
  const limits: Record<string, number> = {};
  for (const [option, { limit }] of options) {
    const value = values[option];
    if (typeof value === "string") limits[limit] = integer(option, value, 1)!;
  }
  return limits;
}

/** Whether an address is only for programs on this machine. */
function isLoopback(host: string): boolean {
  return /^(localhost|127(\.\d{1,3}){3}|::1|\[::1\])$/i.test(host);
}

/** All of it; undefined if help was asked for. */
export async function settingsOf(
  args: readonly string[],
  variable: (name: string) => string | undefined,
): Promise<ServeSettings | undefined> {
  const { values: { config, help } } = parse(args, ALL_OPTIONS);
  if (help) return undefined;
  const file = config === undefined ? undefined : await readConfig(config);
  // The last value of an option counts: arguments come before those of the file.
  const { values, positionals } = parse([...file?.args ?? [], ...args], ALL_OPTIONS);
  const own = await Promise.all(positionals.map((one) => modelOf(one)));
  const models = [...file?.models ?? [], ...own]
    .map((model) => withCommon(model, optionsOf(values)));
  if (models.length === 0) throw new UsageError("there is no MODEL");
  const names = models.map(({ name }) => name);
  const twice = names.find((name, i) => names.indexOf(name) < i);
  if (twice !== undefined) {
    throw new UsageError(`two models are named ${twice}: give one another name, as NAME=PATH`);
  }

  const keys = await keysOf(values, variable);
  const host = (values.host ?? "127.0.0.1").replace(/^\[(.*)\]$/, "$1");
  if (!/^[\w.-]+$/.test(host) && !isIPv6(host)) {
    throw new UsageError(`--host ${host}: expected a name or an address without a port`);
  }
  if (!isLoopback(host) && keys.length === 0 && values["no-key"] !== true) {
    throw new UsageError(
      `--host ${host}: other machines reach this address; give --key-file or set ` +
        `${KEYS_VARIABLE}, or say --no-key`,
    );
  }
  if (values.metrics && values["no-metrics"]) {
    throw new UsageError("--metrics and --no-metrics exclude each other");
  }
  const allowed = values["allow-host"] ?? [];
  const wrong = allowed.find((name) => !/^[\w.-]+$|^\[[\da-f:]+\]$/i.test(name));
  if (wrong !== undefined) {
    throw new UsageError(`--allow-host ${wrong}: expected a name or an address without a port`);
  }
  return {
    models,
    host,
    port: integer("port", values.port, 0, 65535) ?? 8080,
    keys,
    hosts: keys.length > 0 && allowed.length === 0
      ? undefined
      : ["localhost", "127.0.0.1", "[::1]", ...hostName(host), ...allowed],
    limits: limitsOf(SERVICE_LIMITS, values),
    openaiLimits: limitsOf(REQUEST_LIMITS, values),
    threads: integer("threads", values.threads, 1, 256),
    log: word("log", values.log ?? "text", ["text", "json", "off"]),
    logPrompts: values["log-prompts"] === true,
    metrics: values.metrics ?? (values["no-metrics"] ? false : undefined),
    drainMs: integer("drain-ms", values["drain-ms"], 0, 600_000) ?? 500,
    graceMs: integer("grace-ms", values["grace-ms"], 0, 3_600_000) ?? 30_000,
    download: values.download === true,
    warnings: values.key === undefined ? [] : [KEY_WARNING],
  };
}

/** The name of an address in Host headers; none for addresses that stand for all of a machine. */
function hostName(host: string): string[] {
  if (host === "0.0.0.0" || host === "::") return [];
  return [host.includes(":") ? `[${host}]` : host];
}

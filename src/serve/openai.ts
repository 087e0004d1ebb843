/**
 * OpenAI's API for models of this process: its routes, and a service of them.
 *
 * @module
 */
import { ArgumentError } from "../base/errors.ts";
import { describe } from "../base/text.ts";
import type { EngineStats } from "../llm/mod.ts";
import { Chat, Classifier, Embedder } from "../models/mod.ts";
import type { TextEncoder } from "../models/text_encoder.ts";
import type { Encoding } from "../tokenizers/mod.ts";
import { checkOptions } from "../table/infer.ts";
import { batches } from "./batches.ts";
import { HttpError } from "./http/http_error.ts";
import { Metrics } from "./http/metrics.ts";
import {
  type Incoming,
  json,
  LIMITS,
  makeService,
  type Route,
  type Service,
  type ServiceLimits,
  type ServiceOptions,
  type ServicePart,
} from "./http/service.ts";
import { chatCompletion } from "./openai/chat.ts";
import { completion } from "./openai/completions.ts";
import { embeddings } from "./openai/embeddings.ts";
import { EncoderModel, type EncoderQueue } from "./openai/encoder_model.ts";
import { Fields, isObject } from "./openai/fields.ts";
import { OPENAI_LIMITS, type OpenAILimits, openaiLimitsOf } from "./openai/limits.ts";
import { rerank } from "./openai/rerank.ts";
import { Telemetry } from "./openai/telemetry.ts";
import { type TextEngineOptions, TextModel } from "./openai/text_model.ts";

export type { OpenAILimits, TextEngineOptions };

/** A chat model with sizes of its own, which come before those of all. */
export interface ChatModelOptions extends TextEngineOptions {
  /** The model. */
  readonly model: Chat;
}

/** The models of a service: each one model, or several by their ids. */
export interface OpenAIModels {
  /** Models that answer chats, and complete texts. */
  readonly chat?: Chat | Readonly<Record<string, Chat | ChatModelOptions>> | undefined;
  /** Models that give texts vectors. */
  readonly embeddings?: Embedder | Readonly<Record<string, Embedder>> | undefined;
  /** Models that rank texts: classifiers of one label. */
  readonly rerank?: Classifier | Readonly<Record<string, Classifier>> | undefined;
}

/** Options of the routes. */
export interface OpenAIRoutesOptions {
  /** Sizes of the engine of each chat model. */
  readonly engine?: TextEngineOptions | undefined;
  /** Limits other than the default ones. */
  readonly limits?: Partial<OpenAILimits> | undefined;
  /** Whether entries of the log have the texts of requests. */
  readonly logPrompts?: boolean | undefined;
}

/** The routes, and what they have behind them. */
export interface OpenAIRoutes extends ServicePart {
  readonly routes: readonly Route[];
  /** Computes a step of each size, so that the first requests do not wait for programs. */
  warmUp(): Promise<void>;
}

/** The fields of requests with texts of clients. */
const PROMPTS = ["messages", "prompt", "input", "query", "documents"];

const ENGINE_OPTIONS = ["slots", "context", "cache", "queue", "speculate"];

/** The models of a kind by their ids. */
function modelsOf<M extends { readonly name: string }>(
  kind: string,
  given: M | Readonly<Record<string, M>> | undefined,
  { name, isOne }: { readonly name: string; readonly isOne: (given: unknown) => given is M },
): ReadonlyMap<string, M> {
  if (given === undefined) return new Map();
  if (isOne(given)) return new Map([[given.name, given]]);
  const entries = typeof given === "object" && given !== null ? Object.entries(given) : [];
  for (const [id, model] of entries) {
    if (isOne(model) && /^[!-~\u00a1-\uffff]{1,256}$/.test(id)) continue;
    throw new ArgumentError(
      `Cannot serve ${kind} with ${describe(id)}: ${describe(model)}: it is a ${name} ` +
        "by an id without white space",
    );
  }
  if (entries.length > 0) return new Map(entries);
  throw new ArgumentError(
    `Cannot serve ${kind} with ${describe(given)}: it is a ${name}, or some by their ids`,
  );
}

/** Chat models as they are given: the models, and the sizes of those that have their own. */
function chatsOf(given: OpenAIModels["chat"]): {
  readonly chats: ReadonlyMap<string, Chat>;
  readonly sizes: ReadonlyMap<string, TextEngineOptions>;
} {
  const sizes = new Map<string, TextEngineOptions>();
  const isOne = (one: unknown): one is Chat => one instanceof Chat;
  const isEntry = (one: unknown): one is ChatModelOptions =>
    !isOne(one) && isObject(one) && Object.hasOwn(one, "model");
  const modelOf = ([id, one]: [string, Chat | ChatModelOptions]): [string, Chat] => {
    if (!isEntry(one)) return [id, one];
    checkOptions(`serve chat with ${describe(id)}`, one, ["model", ...ENGINE_OPTIONS]);
    const { model, ...own } = one;
    sizes.set(id, Object.fromEntries(Object.entries(own).filter(([, size]) => size !== undefined)));
    return [id, model];
  };
  const models = isOne(given) || !isObject(given)
    ? given
    : Object.fromEntries(Object.entries(given).map(modelOf));
  return { chats: modelsOf("chat", models, { name: "Chat", isOne }), sizes };
}

/** The model that a request names; the only one by default. */
function find<M>(models: ReadonlyMap<string, M>, kind: string, body: Fields): M {
  const field = body.get("model");
  const id = field.text();
  if (id === undefined) {
    const [only, ...others] = models.values();
    if (only !== undefined && others.length === 0) return only;
    return body.need("model").fail("the id of a model");
  }
  const found = models.get(id);
  if (found !== undefined) return found;
  throw new HttpError(404, `The model does not exist, or is none for ${kind}`, {
    param: "model",
    code: "model_not_found",
  });
}

/** The most texts that are computed in one call: the encoder cuts them into batches of like lengths. */
const MOST_TOGETHER = 64;

/** A queue in front of an encoder, which computes the texts of all requests together. */
function queueOf(
  name: string,
  encoder: TextEncoder,
  queue: number,
  telemetry: Telemetry,
): EncoderQueue {
  return batches((encoded: Encoding[]) => {
    telemetry.batch(name, encoded.length);
    return encoder.compute(encoded, {}, (row) => row);
  }, { most: MOST_TOGETHER, waitMs: 0, queue });
}

/** Adds what models do at the moment to the metrics. */
function addGauges(
  metrics: Metrics,
  texts: readonly TextModel[],
  encoders: readonly EncoderModel[],
): void {
  const labels = ["model"];
  const ofEngines = (read: (stats: EngineStats) => number) => () =>
    texts.map(({ name, engine }) => [read(engine.stats), { model: name }] as const);
  const ofAll = (name: "running" | "waiting") => () => [
    ...ofEngines((stats) => name === "running" ? stats.active : stats.waiting)(),
    ...encoders.map(({ name: model, queue }) => [queue.stats[name], { model }] as const),
  ];
  metrics.gauge("rowmajor_running_texts", "Texts that are computed", ofAll("running"), labels);
  metrics.gauge("rowmajor_waiting_texts", "Texts that wait", ofAll("waiting"), labels);
  metrics.gauge(
    "rowmajor_cache_tokens",
    "Tokens that there is memory for",
    ofEngines(({ cache }) => cache),
    labels,
  );
  metrics.gauge(
    "rowmajor_cache_used_tokens",
    "Tokens whose memory is in use, also for later prompts, in whole pages",
    ofEngines(({ cached }) => cached),
    labels,
  );
  metrics.total(
    "rowmajor_reused_tokens_total",
    "Tokens of prompts that were not computed, as another prompt began with them",
    ofEngines(({ reused }) => reused),
    labels,
  );
  metrics.total(
    "rowmajor_steps_total",
    "Steps of all texts of a model, each of which makes the next token of some",
    ofEngines(({ steps }) => steps),
    labels,
  );
  metrics.total(
    "rowmajor_step_tokens_total",
    "Tokens of steps: divided by the steps, how many texts run together",
    ofEngines(({ stepped }) => stepped),
    labels,
  );
}

/**
 * Makes the routes of OpenAI's API for models, which the caller disposes of after them.
 *
 * @throws {ArgumentError} For what are no models, for two of one id, and for options out of range.
 */
export function openaiRoutes(
  models: OpenAIModels,
  metrics: Metrics,
  options: OpenAIRoutesOptions = {},
): OpenAIRoutes {
  checkOptions("serve models", models, ["chat", "embeddings", "rerank"]);
  checkOptions("serve models", options, ["engine", "limits", "logPrompts"]);
  const limits = openaiLimitsOf(options.limits);
  const { engine = {}, logPrompts = false } = options;
  checkOptions("serve with engine", engine, ENGINE_OPTIONS);
  if (typeof logPrompts !== "boolean") {
    throw new ArgumentError(
      `Cannot serve with logPrompts ${describe(logPrompts)}: it is true or false`,
    );
  }
  const { chats, sizes } = chatsOf(models.chat);
  const embedders = modelsOf("embeddings", models.embeddings, {
    name: "Embedder",
    isOne: (one) => one instanceof Embedder,
  });
  const rerankers = modelsOf("rerank", models.rerank, {
    name: "Classifier",
    isOne: (one) => one instanceof Classifier,
  });
  for (const [id, { labels }] of rerankers) {
    if (labels.length === 1) continue;
    throw new ArgumentError(
      `Cannot serve rerank with ${
        describe(id)
      }: it has ${labels.length} labels, and one ranks texts`,
    );
  }
  const ids = [chats, embedders, rerankers].flatMap((one) => [...one.keys()]);
  if (ids.length === 0) throw new ArgumentError("Cannot serve no models");
  if (new Set(ids).size < ids.length) {
    throw new ArgumentError(`Cannot serve the models ${ids.join(", ")}: two have one id`);
  }
  const telemetry = new Telemetry(metrics);
  const created = Math.floor(Date.now() / 1000);
  const entries = new Map(ids.map((id) => [
    id,
    { ...{ id, object: "model", created, owned_by: "rowmajor" } },
  ]));
  const texts = new Map<string, TextModel>();
  const dispose = (): void => {
    for (const model of texts.values()) model[Symbol.dispose]();
  };
  try {
    for (const [id, chat] of chats) {
      texts.set(id, new TextModel(id, chat, { ...engine, ...sizes.get(id) }, telemetry));
    }
  } catch (error) {
    dispose();
    throw error;
  }
  const encoderOf = (name: string, encoder: TextEncoder, size: number): EncoderModel =>
    new EncoderModel({
      ...{ name, encoder, size, telemetry },
      queue: queueOf(name, encoder, limits.queue, telemetry),
    });
  const vectors = new Map(
    [...embedders].map(([id, one]) => [id, encoderOf(id, one.encoder, one.dimensions)]),
  );
  const ranks = new Map(
    [...rerankers].map(([id, one]) => [id, encoderOf(id, one.encoder, one.labels.length)]),
  );
  const encoders = [...vectors.values(), ...ranks.values()];
  addGauges(metrics, [...texts.values()], encoders);
  const post = (
    path: string,
    answer: (body: Fields, incoming: Incoming) => Promise<Response>,
  ): Route => ({
    ...{ method: "POST", path },
    async answer(incoming) {
      const body = await incoming.json();
      if (logPrompts) {
        incoming.note(Object.fromEntries(PROMPTS.map((name) => [name, body[name]])));
      }
      return await answer(new Fields(body), incoming);
    },
  });
  const routes: Route[] = [
    {
      ...{ method: "GET", path: "/v1/models" },
      answer: () => json({ object: "list", data: [...entries.values()] }),
    },
    {
      // Ids of the hub have slashes, which not all clients escape.
      ...{ method: "GET", path: "/v1/models/*model" },
      answer({ params }) {
        const entry = entries.get(params["model"]!);
        if (entry !== undefined) return json(entry);
        throw new HttpError(404, "The model does not exist", {
          param: "model",
          code: "model_not_found",
        });
      },
    },
  ];
  if (texts.size > 0) {
    routes.push(
      post(
        "/v1/chat/completions",
        (body, incoming) => chatCompletion(body, find(texts, "chats", body), limits, incoming),
      ),
      post(
        "/v1/completions",
        (body, incoming) => completion(body, find(texts, "completions", body), limits, incoming),
      ),
    );
  }
  if (vectors.size > 0) {
    routes.push(
      post(
        "/v1/embeddings",
        (body, incoming) => embeddings(body, find(vectors, "embeddings", body), limits, incoming),
      ),
    );
  }
  if (ranks.size > 0) {
    routes.push(
      post(
        "/v1/rerank",
        (body, incoming) => rerank(body, find(ranks, "ranks", body), limits, incoming),
      ),
    );
  }
  return {
    routes: routes.flatMap((route) => [route, { ...route, path: route.path.replace("/v1", "") }]),
    async warmUp() {
      for (const { engine } of texts.values()) await engine.warmUp();
    },
    stats: () => ({
      models: Object.fromEntries([
        ...[...texts.values()].map(({ name, engine, counts }) =>
          [name, { ...counts, ...engine.stats }] as const
        ),
        ...encoders.map(({ name, counts, queue }) =>
          [name, { ...counts, ...queue.stats }] as const
        ),
      ]),
    }),
    async drain() {
      await Promise.all([
        ...[...texts.values()].map(({ engine }) => engine.drain()),
        ...encoders.map(({ queue }) => queue.drain()),
      ]);
    },
    dispose,
  };
}

/** Options of {@link openai}. */
export interface OpenAIOptions extends Omit<ServiceOptions, "limits"> {
  /** Sizes of the engine of each chat model: see `llm.engine`. */
  readonly engine?: TextEngineOptions | undefined;
  /** Limits other than the default ones. */
  readonly limits?: Partial<ServiceLimits & OpenAILimits> | undefined;
  /**
   * Whether entries of the log have the texts of requests, as the fields `messages`, `prompt`,
   * `input`, `query` and `documents`; false by default.
   */
  readonly logPrompts?: boolean | undefined;
}

/** The limits of the names of `known`. */
function part<L extends object>(given: Partial<L>, known: L): Partial<L> {
  const own: Partial<L> = {};
  for (const name in known) if (given[name] !== undefined) own[name] = given[name];
  return own;
}

/**
 * Makes a service with OpenAI's API: a function from Request to Response for `Bun.serve`, `Deno.serve`,
 * Hono and others.
 *
 * The service makes an engine for each chat model, which generates the answers of all requests
 * together. `drain` or `dispose` frees it. The models are the caller's, who disposes of them
 * afterwards.
 *
 * @param models Each one model, or several by their ids. The id of one model is its name.
 * @throws {ArgumentError} For what are no models, for two of one id, and for options out of range.
 *
 * @example
 * ```ts
 * import { Chat } from "@rowmajor/tensor/models";
 * import { openai } from "@rowmajor/tensor/serve";
 *
 * using chat = await Chat.open("SmolLM2-135M-Instruct.Q4_1.gguf");
 * using service = openai({ chat });
 * const response = await service.fetch(
 *   new Request("http://localhost/v1/chat/completions", {
 *     method: "POST",
 *     headers: { "content-type": "application/json" },
 *     body: JSON.stringify({ messages: [{ role: "user", content: "Hello!" }], max_tokens: 20 }),
 *   }),
 * );
 * console.log(await response.json());
 * ```
 */
export function openai(models: OpenAIModels, options: OpenAIOptions = {}): Service {
  const { engine, limits = {}, logPrompts, ...rest } = options;
  checkOptions("serve with limits", limits, [
    ...Object.keys(LIMITS),
    ...Object.keys(OPENAI_LIMITS),
  ]);
  const metrics = new Metrics(options.metrics);
  const api = openaiRoutes(models, metrics, {
    ...{ engine, logPrompts },
    limits: part(limits, OPENAI_LIMITS),
  });
  try {
    return makeService(
      { routes: api.routes, metrics, parts: [api] },
      { ...rest, limits: part(limits, LIMITS) },
    );
  } catch (error) {
    api.dispose?.();
    throw error;
  }
}

/**
 * `rowmajor serve`: serves models over HTTP.
 *
 * @module
 */
import process from "node:process";
import { PackageError } from "../base/errors.ts";
import { info, setThreads } from "../device/info.ts";
import { Metrics, type PromClient } from "../serve/http/metrics.ts";
import {
  LIMITS,
  makeService,
  type Route,
  type ServicePart,
  type ServiceParts,
} from "../serve/http/service.ts";
import { inferenceRoutes } from "../serve/inference.ts";
import { openaiRoutes } from "../serve/openai.ts";
import { pageRoutes } from "../serve/page/routes.ts";
import { type Models, openModel } from "./open.ts";
import { logOf, openServer, type Server } from "./server.ts";
import { type ServeSettings, settingsOf, USAGE } from "./settings.ts";
import { say } from "./arguments.ts";

/** The seconds that a connection without a request stays open. */
const IDLE_SECONDS = 60;

/** The package `prom-client`; undefined if it is not wanted, or not installed. */
async function importMetrics(wanted: boolean | undefined): Promise<PromClient | undefined> {
  if (wanted === false) return undefined;
  try {
    return await import("prom-client");
  } catch (error) {
    if (wanted !== true) return undefined;
    throw new PackageError("keep metrics", "prom-client", { cause: error });
  }
}

/** Runs the command: it ends by a signal. Returns the exit code. */
export async function serve(args: readonly string[]): Promise<number> {
  const settings = await settingsOf(args, (name) => process.env[name]);
  if (settings === undefined) return console.log(USAGE), 0;
  for (const warning of settings.warnings) say(`rowmajor serve: warning: ${warning}`);
  const { host, port, limits } = settings;
  const server = await openServer({
    hostname: host,
    port,
    maxBodyBytes: 2 * (limits.bodyBytes ?? LIMITS.bodyBytes),
    idleSeconds: IDLE_SECONDS,
  }, settings);
  try {
    await start(server, settings);
  } catch (error) {
    await server.close();
    throw error;
  }
  const code = await server.ended;
  // Connections that clients keep open, and threads, would keep the process.
  process.exit(code);
}

/** Opens the models, serves them, and says so. */
async function start(server: Server, settings: ServeSettings): Promise<void> {
  const client = await importMetrics(settings.metrics);
  if (settings.threads !== undefined) setThreads(settings.threads);
  const { devices, backends, level, threads, runtime } = info();
  const reason = devices["cpu"] === "native" ? "" : ` (no native library: ${backends.native})`;
  say(
    `${runtime}, backend ${devices["cpu"]}${reason}, ${level === null ? "" : `${level}, `}` +
      `${threads} thread${threads === 1 ? "" : "s"}`,
  );
  const models: Models = { chat: {}, embeddings: {}, rerank: {}, inference: {} };
  for (const one of settings.models) {
    const { name, kind, text } = await openModel(one, settings.download, models);
    say(`${name}: ${kind}, ${text}`);
  }
  const { host, keys, hosts, limits } = settings;
  const metrics = new Metrics(client);
  const parts = await partsOf(models, metrics, settings);
  server.serve(
    makeService({ ...parts, metrics }, {
      ...{ keys, hosts, limits, log: logOf(settings.log), metrics: client },
    }),
  );
  const kept = client === undefined
    ? "no metrics: prom-client is not installed"
    : "metrics at /metrics";
  const count = keys.length === 0 ? "without" : `with ${keys.length}`;
  say(`${count} ${keys.length === 1 ? "key" : "keys"}, ${kept}`);
  const name = host.includes(":") ? `[${host}]` : host;
  say(`listening on http://${name}:${server.port}/`);
}

/** The routes of the models, and what they have behind them. */
async function partsOf(
  { chat, embeddings, rerank, inference }: Models,
  metrics: Metrics,
  { models, openaiLimits: limits, logPrompts }: ServeSettings,
): Promise<Pick<ServiceParts, "routes" | "parts">> {
  const routes: Route[] = [];
  const parts: ServicePart[] = [];
  const sizes = new Map(models.map(({ name, engine }) => [name, engine]));
  const sized = Object.entries(chat)
    .map(([name, model]) => [name, { model, ...sizes.get(name) }] as const);
  const given = Object.entries({ chat: Object.fromEntries(sized), embeddings, rerank })
    .filter(([, models]) => Object.keys(models).length > 0);
  if (given.length > 0) {
    const api = openaiRoutes(Object.fromEntries(given), metrics, { limits, logPrompts });
    routes.push(...api.routes);
    parts.push(api);
    // Elsewhere steps of all sizes take a minute, and run on the event loop.
    if (info().devices["cpu"] === "native") await api.warmUp();
  }
  const entries = Object.entries(inference);
  if (entries.length > 0) {
    const queued = entries
      .map(([name, model]) => [name, { model, queue: sizes.get(name)?.queue }] as const);
    routes.push(...inferenceRoutes(Object.fromEntries(queued), metrics));
  }
  routes.push(...pageRoutes({
    chat: Object.keys(chat),
    embeddings: Object.keys(embeddings),
    digits: entries.find(([, model]) => readsDigits(model))?.[0],
  }));
  return { routes, parts };
}

/** Whether a model takes 64 numbers and gives 10, as the page's screen for digits expects. */
function readsDigits({ inputs, outputs }: Models["inference"][string]): boolean {
  const isOne = (list: typeof inputs, size: number): boolean =>
    list.length === 1 && list[0]!.dtype === "float32" && list[0]!.shape?.length === 2 &&
    list[0]!.shape[1] === size;
  return isOne(inputs, 64) && isOne(outputs, 10);
}

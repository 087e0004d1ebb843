/**
 * A service: a function from Request to Response with what every server in production needs: keys,
 * checks of hosts, limits, deadlines, logs, metrics, and an end that loses no accepted request.
 *
 * @module
 */
import process from "node:process";
import { ArgumentError, attempt, DisposedError, QueueFullError } from "../../base/errors.ts";
import { following, orAborted } from "../../base/signals.ts";
import { listIn } from "../../base/shape.ts";
import { describe } from "../../base/text.ts";
import { memory } from "../../device/devices.ts";
import { info } from "../../device/info.ts";
import { checkOptions } from "../../table/infer.ts";
import { BodyReader, networkOf } from "./body.ts";
import { watchEventLoop } from "./event_loop.ts";
import { badRequest, HttpError, RETRY, unavailable } from "./http_error.ts";
import { Keys } from "./keys.ts";
import { type Metrics, type PromClient, SECONDS } from "./metrics.ts";

/** Limits of a service. Every one has a default in {@link LIMITS}. */
export interface ServiceLimits {
  /** The most requests that are accepted and not answered; beyond, the answer is 503. */
  readonly inFlight: number;
  /** The most of them of one key; beyond, the answer is 429. */
  readonly perKey: number;
  /** The most of them of one client's address, and the most of its bodies that arrive at once. */
  readonly perClient: number;
  /** The most bytes of a body; beyond, the answer is 413. */
  readonly bodyBytes: number;
  /** The most milliseconds until the first byte of a body; beyond, the answer is 408. */
  readonly firstByteMs: number;
  /** The most milliseconds for a whole body; beyond, the answer is 408. */
  readonly bodyMs: number;
  /** The most milliseconds for a whole answer, with its stream; beyond, the answer is 504. */
  readonly answerMs: number;
}

/** The default limits of a service. */
export const LIMITS: ServiceLimits = {
  inFlight: 512,
  perKey: 256,
  perClient: 64,
  bodyBytes: 4 * 1024 * 1024,
  firstByteMs: 5000,
  bodyMs: 30_000,
  answerMs: 600_000,
};

/** An entry of the log: one request. It has no text of a prompt, unless the service is told so. */
export interface LogEntry {
  /** When the answer ended, in ISO 8601. */
  readonly time: string;
  /** The method of the request. */
  readonly method: string;
  /** The path of the route, such as `/v1/chat/completions`; `other` for unknown paths. */
  readonly path: string;
  /** The status of the answer; of a stream that failed later, that of its error. */
  readonly status: number;
  /** The milliseconds from the headers to the end of the answer. */
  readonly ms: number;
  /** The address of the client, if it is known. */
  readonly client?: string | undefined;
  /** The place of its key in `keys`. */
  readonly key?: number | undefined;
  /** Why the request failed. */
  readonly error?: string | undefined;
  /** More facts, such as `model` and numbers of tokens. */
  readonly [fact: string]: unknown;
}

/** Options of a service. */
export interface ServiceOptions {
  /**
   * The keys of clients, sent as `authorization: Bearer KEY`. Without keys, anyone who reaches the
   * service may use it.
   */
  readonly keys?: readonly string[] | undefined;
  /**
   * The names that a request may have in its Host header, without a port. By default those of this
   * machine, such as `localhost`, if there are no keys, so that a web page cannot reach the service by
   * a name of its own; any with keys.
   */
  readonly hosts?: readonly string[] | undefined;
  /**
   * The origins of web pages that may use the service, such as `https://example.org`, or `"*"` for
   * all. None by default.
   */
  readonly cors?: readonly string[] | "*" | undefined;
  /** Limits other than the default ones. */
  readonly limits?: Partial<ServiceLimits> | undefined;
  /** The package `prom-client`, which keeps the metrics of `/metrics`; without it there are none. */
  readonly metrics?: PromClient | undefined;
  /** Called for each answered request. */
  readonly log?: ((entry: LogEntry) => void) | undefined;
}

/** What a service does and has done. */
export interface ServiceStats {
  /** Requests that are accepted and not answered. */
  readonly inFlight: number;
  /** Requests that were answered. */
  readonly answered: number;
  /** Those with a status of 400 and more. */
  readonly failed: number;
  /** Whether the service refuses new work. */
  readonly draining: boolean;
  /** What the parts of the service do, such as the engines of its models. */
  readonly [part: string]: unknown;
}

/** How a runtime gives the address of a client: the second parameter of its handlers. */
export interface Connection {
  /** Of Bun's server. */
  requestIP?(request: Request): { readonly address: string } | null;
  /** Of Deno's. */
  readonly remoteAddr?: { readonly hostname?: string };
}

/** A request with what its handler needs. */
export interface Incoming {
  readonly request: Request;
  /** The parts of the path that the route names. */
  readonly params: Readonly<Record<string, string>>;
  /** The values after `?`. */
  readonly query: URLSearchParams;
  /** Aborts when the client is gone, and with a 504 when the answer takes too long. */
  readonly signal: AbortSignal;
  /** Whether the service refuses new work. */
  readonly draining: boolean;
  /** The body; an HttpError if it is too large or too slow. */
  bytes(): Promise<Uint8Array>;
  /** The body, an object of JSON. */
  json(): Promise<Readonly<Record<string, unknown>>>;
  /** Adds facts to the entry of the log. */
  note(facts: object): void;
  /**
   * An answer that is sent in parts. The request ends with them; when the client is gone, `parts`
   * returns, and `signal` aborts. An error of `parts` is passed to `fail`, whose text ends the answer.
   */
  stream(
    parts: AsyncGenerator<string>,
    headers: Readonly<Record<string, string>>,
    fail: (error: HttpError) => string,
  ): Response;
}

/** A path of a service, and who answers it. */
export interface Route {
  readonly method: "GET" | "POST";
  /** Segments that begin with `:` are parameters; one with `*` in front is the rest of the path. */
  readonly path: string;
  /** Whether it is answered without a key and during the end: pages, health, metrics. */
  readonly isOpen?: boolean | undefined;
  /** The body of an error's answer; by default as OpenAI's. */
  readonly errorBody?: ((error: HttpError) => unknown) | undefined;
  answer(incoming: Incoming): Response | Promise<Response>;
}

/** A server without its socket. */
export interface Service extends Disposable {
  /** Answers a request; it never rejects. The second parameter is that of Bun's and Deno's handlers. */
  readonly fetch: (request: Request, connection?: Connection) => Promise<Response>;
  /**
   * Refuses new work, and resolves when all accepted requests are answered. Then frees what the
   * service has made; the models are the caller's.
   */
  drain(): Promise<void>;
  /** Ends all requests at once, and frees what the service has made. */
  dispose(): void;
  /** What the service does and has done. */
  readonly stats: ServiceStats;
}

const SERVICE_OPTIONS = ["keys", "hosts", "cors", "limits", "metrics", "log"];
/** The headers of every answer. */
export const SAFE_HEADERS: Readonly<Record<string, string>> = {
  "x-content-type-options": "nosniff",
};
const LOCAL_HOSTS: readonly string[] = ["localhost", "127.0.0.1", "[::1]"];

/** The most levels of a value of JSON: what reads or writes it may call itself for each. */
const MOST_DEPTH = 100;

/** Whether a value of JSON has more levels than a service takes. */
export function isTooDeep(value: unknown, levels: number = MOST_DEPTH): boolean {
  if (typeof value !== "object" || value === null) return false;
  return levels === 0 || Object.values(value).some((one) => isTooDeep(one, levels - 1));
}

/** A JSON response. */
export function json(value: unknown, status = 200): Response {
  return new Response(JSON.stringify(value), {
    status,
    headers: { ...SAFE_HEADERS, "content-type": "application/json" },
  });
}

/** The kinds of OpenAI's errors. */
function kindOf(status: number): string {
  if (status === 401) return "authentication_error";
  if (status === 403) return "permission_error";
  if (status === 404) return "not_found_error";
  if (status === 429) return "rate_limit_error";
  return status < 500 ? "invalid_request_error" : "server_error";
}

/** The body of an error as OpenAI's. */
export function openaiError({ message, status, param, code }: HttpError): unknown {
  return { error: { message, type: kindOf(status), param: param ?? null, code: code ?? null } };
}

/** The error for the client; those that are not the client's fault are printed, and say nothing. */
function httpErrorOf(error: unknown): HttpError {
  if (error instanceof HttpError) return error;
  if (error instanceof QueueFullError) return unavailable("the queue is full", "queue_full");
  if (error instanceof DisposedError) return unavailable("the service is ending", "draining");
  console.error(error);
  return new HttpError(500, "the server failed", { code: "internal_error" });
}

function limitsOf(given: Partial<ServiceLimits> = {}): ServiceLimits {
  checkOptions("serve with limits", given, Object.keys(LIMITS));
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || Number.isSafeInteger(value) && value >= 1) continue;
    throw new ArgumentError(
      `Cannot serve with ${name} ${describe(value)}: it is an integer of at least 1`,
    );
  }
  const set = Object.entries(given).filter(([, value]) => value !== undefined);
  return { ...LIMITS, ...Object.fromEntries(set) };
}

/** The name in a Host header: without its port and the dot of a whole name, and IPv6 in short. */
function nameOf(host: string): string {
  const name = host.toLowerCase().replace(/:\d*$/, "").replace(/\.$/, "");
  const url = `http://${name}`;
  return name.startsWith("[") && URL.canParse(url) ? new URL(url).hostname : name;
}

function hostsOf(given: readonly string[] | undefined, hasKeys: boolean): Set<string> | undefined {
  if (given === undefined) return hasKeys ? undefined : new Set(LOCAL_HOSTS);
  const hosts = listIn(given, (host) => {
    if (typeof host === "string" && /^[\w.-]+$|^\[[\da-f:]+\]$/i.test(host)) {
      return nameOf(host);
    }
    throw new ArgumentError(
      `Cannot serve with host ${describe(host)}: it is a name or an address without a port`,
    );
  });
  if (hosts !== undefined) return new Set(hosts);
  throw new ArgumentError(`Cannot serve with hosts ${describe(given)}: they are a list of names`);
}

/** Whether web pages of an origin may use the service. */
function corsOf(given: ServiceOptions["cors"]): (origin: string) => boolean {
  if (given === undefined) return () => false;
  if (given === "*") return () => true;
  const origins = listIn(given, (origin) => {
    if (typeof origin === "string" && URL.canParse(origin) && new URL(origin).origin === origin) {
      return origin;
    }
    throw new ArgumentError(
      `Cannot serve with the origin ${
        describe(origin)
      }: it is a text such as "https://example.org"`,
    );
  });
  if (origins === undefined) {
    throw new ArgumentError(
      `Cannot serve with cors ${describe(given)}: it is a list of origins, or "*"`,
    );
  }
  const all = new Set(origins);
  return (origin) => all.has(origin);
}

/** Finds the route of a path. */
class Router {
  readonly #routes: readonly { readonly route: Route; readonly segments: readonly string[] }[];

  constructor(routes: readonly Route[]) {
    this.#routes = routes.map((route) => ({ route, segments: route.path.split("/") }));
  }

  /** The route and its parameters; a 404 or a 405 if there is none. */
  find(method: string, path: string): { route: Route; params: Record<string, string> } {
    const given = path.split("/");
    const allowed = new Set<string>();
    for (const { route, segments } of this.#routes) {
      const params = paramsOf(segments, given);
      if (params === undefined) continue;
      if (route.method === method || route.method === "GET" && method === "HEAD") {
        return { route, params };
      }
      allowed.add(route.method);
    }
    if (allowed.size === 0) throw new HttpError(404, "there is nothing at this path");
    const allow = [...allowed].join(", ");
    throw new HttpError(405, `this path takes ${allow}`, { headers: { allow } });
  }
}

/** The parameters of a path; undefined if it is another one. */
function paramsOf(
  segments: readonly string[],
  given: readonly string[],
): Record<string, string> | undefined {
  const hasRest = segments.at(-1)!.startsWith("*") && given.length >= segments.length;
  if (segments.length !== given.length && !hasRest) return undefined;
  const params: Record<string, string> = {};
  for (const [i, segment] of segments.entries()) {
    if (segment.startsWith("*")) given = [...given.slice(0, i), given.slice(i).join("/")];
    else if (!segment.startsWith(":")) {
      if (segment !== given[i]) return undefined;
      continue;
    }
    try {
      params[segment.slice(1)] = decodeURIComponent(given[i]!);
    } catch {
      return undefined;
    }
  }
  return params;
}

function addressOf(request: Request, connection: Connection | undefined): string | undefined {
  // Frameworks may pass something else.
  const { value: address } = attempt((): unknown =>
    typeof connection?.requestIP === "function"
      ? connection.requestIP(request)?.address
      : connection?.remoteAddr?.hostname
  );
  return typeof address === "string" ? address : undefined;
}

/** Counts of requests that are not answered, by their sender. */
class Counts {
  readonly #most: number;
  readonly #counts = new Map<string | number, number>();

  constructor(most: number) {
    this.#most = most;
  }

  /** Whether there is room for another one. */
  hasRoom(sender: string | number | undefined): boolean {
    return sender === undefined || (this.#counts.get(sender) ?? 0) < this.#most;
  }

  add(sender: string | number | undefined, change: 1 | -1): void {
    if (sender === undefined) return;
    const count = (this.#counts.get(sender) ?? 0) + change;
    if (count === 0) this.#counts.delete(sender);
    else this.#counts.set(sender, count);
  }
}

/** What routes have behind them. */
export interface ServicePart {
  /** Numbers for {@link ServiceStats}, by the name of the part. */
  stats?(): Readonly<Record<string, unknown>>;
  /** Waits for the end of what runs; all requests are answered. */
  drain?(): Promise<void>;
  /** Ends what runs, and frees it. */
  dispose?(): void;
}

/** What a service is made of. */
export interface ServiceParts {
  readonly routes: readonly Route[];
  /** The metrics that the routes were made with. */
  readonly metrics: Metrics;
  /** The body of an error's answer where no route decides; by default as OpenAI's. */
  readonly errorBody?: ((error: HttpError) => unknown) | undefined;
  /** What the routes have behind them. */
  readonly parts?: readonly ServicePart[] | undefined;
}

/** Checks options of a service that has others besides: its own ones are `known`. */
export function checkServiceOptions(
  name: string,
  options: ServiceOptions,
  known: readonly string[] = [],
): void {
  checkOptions(name, options, [...SERVICE_OPTIONS, ...known]);
}

/** Makes a service of routes. */
export function makeService(
  { routes, metrics, errorBody = openaiError, parts = [] }: ServiceParts,
  options: ServiceOptions = {},
): Service {
  checkServiceOptions("serve", options);
  const limits = limitsOf(options.limits);
  const keys = new Keys(options.keys ?? []);
  const hosts = hostsOf(options.hosts, keys.size > 0);
  const isCors = corsOf(options.cors);
  const { log } = options;
  if (log !== undefined && typeof log !== "function") {
    throw new ArgumentError(`Cannot serve with log ${describe(log)}: it is a function`);
  }
  const bodies = new BodyReader(limits);
  const perKey = new Counts(limits.perKey), perClient = new Counts(limits.perClient);
  let inFlight = 0, answered = 0, failed = 0, draining = false;
  let drained: Promise<void> | undefined;
  const idle: (() => void)[] = [];
  const ended = new AbortController();
  const watch = metrics.isKept ? watchEventLoop() : undefined;

  const health: Route[] = [
    ...["/health", "/v1/health", "/livez"].map((path): Route => ({
      ...{ method: "GET", path, isOpen: true },
      answer: () => json({ status: "ok" }),
    })),
    {
      method: "GET",
      path: "/readyz",
      isOpen: true,
      answer: () => {
        if (draining) throw unavailable("the service is ending", "draining");
        return json({ status: "ok" });
      },
    },
    {
      method: "GET",
      path: "/metrics",
      async answer() {
        const response = await metrics.response();
        if (response !== undefined) return response;
        throw new HttpError(501, "this service keeps no metrics: give it the package prom-client");
      },
    },
  ];
  const router = new Router([...routes, ...health]);
  const labels = ["path", "code"];
  const count = metrics.counter(
    "rowmajor_requests_total",
    "Requests answered, by path and status code",
    labels,
  );
  const reject = metrics.counter(
    "rowmajor_rejected_total",
    "Requests that were refused, by reason",
    ["reason"],
  );
  const time = metrics.histogram(
    "rowmajor_request_seconds",
    "Time from the headers of a request to the end of its answer",
    SECONDS,
    ["path"],
  );
  metrics.gauge("rowmajor_in_flight_requests", "Requests accepted, not answered", () => inFlight);
  metrics.gauge(
    "rowmajor_event_loop_late_seconds",
    "The most that a timer was late since the last reading",
    () => watch?.mostLate() ?? 0,
  );
  metrics.gauge("rowmajor_tensor_bytes", "Memory of tensors on the CPU", () => memory().bytes);
  metrics.gauge(
    "rowmajor_resident_bytes",
    "Resident memory of the process",
    () => process.memoryUsage().rss,
  );
  metrics.total("process_cpu_seconds_total", "Processor time of the process", () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1e6;
  });
  metrics.gauge(
    "rowmajor_backend_info",
    "What computes: the backend of the CPU and its instruction set; always 1",
    () => {
      const { devices, level, runtime } = info();
      return [[1, { backend: devices["cpu"] ?? "", level: level ?? "", runtime }]];
    },
    ["backend", "level", "runtime"],
  );

  function checkHost(request: Request, url: URL): void {
    if (hosts === undefined) return;
    const isOwn = (host: string): boolean => hosts.has(nameOf(host));
    if (!isOwn(request.headers.get("host") ?? url.host)) {
      throw new HttpError(403, "the Host header names another server", {
        code: "host_not_allowed",
      });
    }
    // A page of another server may send some requests without asking, although it cannot read answers.
    const origin = request.headers.get("origin");
    if (origin === null || isCors(origin)) return;
    if (URL.canParse(origin) && isOwn(new URL(origin).host)) return;
    throw new HttpError(403, "the page of the request is of another server", {
      code: "origin_not_allowed",
    });
  }

  /** The answer to a browser that asks whether a page may use the service. */
  function preflight(request: Request): Response | undefined {
    const origin = request.headers.get("origin");
    const isAsked = request.headers.has("access-control-request-method");
    if (request.method !== "OPTIONS" || origin === null || !isAsked || !isCors(origin)) return;
    return new Response(null, {
      status: 204,
      headers: {
        "access-control-allow-methods": "GET, POST",
        "access-control-allow-headers": request.headers.get("access-control-request-headers") ??
          "authorization, content-type",
        "access-control-max-age": "600",
      },
    });
  }

  /** One request: what was learnt of it, and its end. */
  class Exchange {
    readonly #begin = performance.now();
    readonly #facts: Record<string, unknown> = {};
    readonly #abort = new AbortController();
    readonly #request: Request;
    readonly #client: string | undefined;
    readonly #follower: ReturnType<typeof following>;
    #timer: ReturnType<typeof setTimeout> | undefined;
    #path = "other";
    #key: number | undefined;
    #isWork = false;
    /** Whether it counts for its key and its client. */
    #isCounted = false;
    #hasEnded = false;
    /** Ends a stream, which a client may have ceased to read; undefined for other answers. */
    #endStream: ((failure: HttpError) => void) | undefined;
    #errorBody = errorBody;

    constructor(request: Request, connection: Connection | undefined) {
      this.#request = request;
      this.#client = addressOf(request, connection);
      this.#follower = following(request.signal, this.#abort.signal, ended.signal);
    }

    async answer(): Promise<Response> {
      let response: Response;
      let failure: HttpError | undefined;
      try {
        response = await this.#route();
      } catch (error) {
        failure = this.#failureOf(error);
        response = json(this.#errorBody(failure), failure.status);
        for (const [name, value] of Object.entries(failure.headers)) {
          response.headers.set(name, value);
        }
      }
      if (draining) response.headers.set("connection", "close");
      const origin = this.#request.headers.get("origin");
      if (origin !== null && isCors(origin)) {
        response.headers.set("access-control-allow-origin", origin);
        response.headers.append("vary", "origin");
      }
      // A handler may have begun a stream while its client left.
      if (failure !== undefined) this.#endStream?.(failure);
      if (failure !== undefined || this.#endStream === undefined) {
        this.#end(response.status, failure);
      }
      if (this.#request.method !== "HEAD") return response;
      await response.body?.cancel();
      return new Response(null, response);
    }

    #failureOf(error: unknown): HttpError {
      const reason: unknown = this.#follower.signal.reason;
      // What a handler throws after an abort is the abort.
      if (reason instanceof HttpError) return reason;
      if (this.#request.signal.aborted) return new HttpError(499, "the client is gone");
      return httpErrorOf(error);
    }

    async #route(): Promise<Response> {
      const request = this.#request;
      // A client chooses the URL by its Host header too; without that header it may be only a path.
      if (!URL.canParse(request.url, "http://localhost")) {
        throw badRequest("the address of the request is no URL");
      }
      const url = new URL(request.url, "http://localhost");
      checkHost(request, url);
      const allowed = preflight(request);
      if (allowed !== undefined) return allowed;
      const { route, params } = router.find(request.method, url.pathname);
      this.#path = route.path;
      this.#errorBody = route.errorBody ?? errorBody;
      if (route.isOpen !== true) {
        this.#key = keys.find(request.headers);
        if (keys.size > 0 && this.#key === undefined) {
          throw new HttpError(401, "the request has no valid key: send authorization: Bearer KEY", {
            headers: { "www-authenticate": "Bearer" },
            code: "invalid_api_key",
          });
        }
      }
      if (route.method === "POST") this.#admit();
      const { signal } = this.#follower;
      const answer = route.answer({
        ...{ request, params, signal },
        query: url.searchParams,
        draining,
        bytes: () => this.#bytes(),
        json: () => this.#json(),
        note: (facts) => void Object.assign(this.#facts, facts),
        stream: (parts, headers, fail) => this.#stream(parts, headers, fail),
      });
      return await orAborted(answer, signal);
    }

    #admit(): void {
      if (draining) throw unavailable("the service is ending", "draining");
      if (inFlight >= limits.inFlight) throw unavailable("too many requests at once");
      this.#isWork = true;
      inFlight++;
      this.#timer = setTimeout(() => {
        const message = `the answer took more than ${limits.answerMs} ms`;
        const late = new HttpError(504, message, { code: "deadline_exceeded" });
        this.#abort.abort(late);
        this.#endStream?.(late);
      }, limits.answerMs);
    }

    /** The body. A request counts for its client when it is there: until then, others go first. */
    async #bytes(): Promise<Uint8Array> {
      const encoding = this.#request.headers.get("content-encoding") ?? "identity";
      if (encoding.trim().toLowerCase() !== "identity") {
        throw new HttpError(415, "the body is compressed, which is not supported");
      }
      const bytes = await bodies.read(this.#request, this.#client);
      if (this.#isCounted || !this.#isWork || this.#hasEnded) return bytes;
      const client = this.#client && networkOf(this.#client);
      if (!perKey.hasRoom(this.#key) || !perClient.hasRoom(client)) {
        throw new HttpError(429, "too many requests of this client at once", {
          headers: RETRY,
          code: "rate_limit_exceeded",
        });
      }
      this.#isCounted = true;
      perKey.add(this.#key, 1);
      perClient.add(client, 1);
      return bytes;
    }

    async #json(): Promise<Readonly<Record<string, unknown>>> {
      const type = this.#request.headers.get("content-type")?.replace(/;[^]*/, "").trim()
        .toLowerCase();
      if (type !== undefined && type !== "application/json") {
        throw new HttpError(415, "the body has to be application/json", {
          headers: { accept: "application/json" },
        });
      }
      const bytes = await this.#bytes();
      let value: unknown;
      try {
        value = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
      } catch {
        // Also for arrays nested too deeply to parse.
        throw badRequest("the body is not JSON");
      }
      if (isTooDeep(value)) throw badRequest("the body is nested too deeply");
      if (typeof value === "object" && value !== null && !Array.isArray(value)) {
        return { ...value };
      }
      throw badRequest("the body is not an object of JSON");
    }

    #stream(
      parts: AsyncGenerator<string>,
      headers: Readonly<Record<string, string>>,
      fail: (error: HttpError) => string,
    ): Response {
      const encoder = new TextEncoder();
      const end = (status: number, failure?: HttpError): void => this.#end(status, failure);
      let cut = (_: HttpError): void => {};
      const isCut = new Promise<never>((_, reject) => cut = reject);
      // Nobody may read the body.
      isCut.catch(() => {});
      this.#endStream = (failure) => {
        cut(failure);
        parts.return(undefined).catch(() => {});
        end(failure.status, failure);
      };
      // What is begun after the end is not read.
      if (this.#hasEnded) parts.return(undefined).catch(() => {});
      // A runtime need not cancel the body of an answer whose client is gone.
      this.#follower.signal.addEventListener("abort", () => {
        if (!this.#hasEnded) this.#endStream?.(this.#failureOf(this.#follower.signal.reason));
      });
      const body = new ReadableStream<Uint8Array>({
        pull: async (controller) => {
          try {
            const { done, value } = await Promise.race([isCut, parts.next()]);
            if (done !== true) return controller.enqueue(encoder.encode(value));
            end(200);
          } catch (error) {
            const failure = this.#failureOf(error);
            end(failure.status, failure);
            controller.enqueue(encoder.encode(fail(failure)));
          }
          controller.close();
        },
        cancel: () => {
          const gone = new HttpError(499, "the client is gone");
          this.#abort.abort(gone);
          this.#endStream?.(gone);
        },
      }, { highWaterMark: 0 });
      return new Response(body, { headers: { ...SAFE_HEADERS, ...headers } });
    }

    #end(status: number, failure: HttpError | undefined): void {
      if (this.#hasEnded) return;
      this.#hasEnded = true;
      clearTimeout(this.#timer);
      this.#follower.end();
      if (this.#isWork) {
        inFlight--;
        if (this.#isCounted) {
          perKey.add(this.#key, -1);
          perClient.add(this.#client && networkOf(this.#client), -1);
        }
        if (inFlight === 0) { for (const resolve of idle.splice(0)) resolve(); }
      }
      answered++;
      if (status >= 400) failed++;
      const ms = performance.now() - this.#begin;
      count({ path: this.#path, code: String(status) });
      time(ms / 1000, { path: this.#path });
      if (failure !== undefined) reject({ reason: failure.code ?? kindOf(failure.status) });
      if (log === undefined) return;
      const entry: LogEntry = {
        time: new Date().toISOString(),
        method: this.#request.method,
        path: this.#path,
        status,
        ms: Math.round(ms * 100) / 100,
        client: this.#client,
        key: this.#key,
        ...failure && { error: failure.message },
        ...this.#facts,
      };
      // The answer does not depend on it.
      const { error } = attempt(() => log(entry));
      if (error !== undefined) console.error(error);
    }
  }

  function dispose(): void {
    draining = true;
    watch?.end();
    ended.abort(new HttpError(503, "the service has ended", { headers: RETRY, code: "draining" }));
    for (const part of parts) part.dispose?.();
  }

  return {
    fetch: async (request, connection) => await new Exchange(request, connection).answer(),
    drain() {
      draining = true;
      drained ??= (async () => {
        if (inFlight > 0) await new Promise<void>((resolve) => idle.push(resolve));
        for (const part of parts) await part.drain?.();
        dispose();
      })();
      return drained;
    },
    dispose,
    [Symbol.dispose]: dispose,
    get stats() {
      const more = parts.map((part) => part.stats?.() ?? {});
      return Object.assign({}, ...more, { inFlight, answered, failed, draining });
    },
  };
}

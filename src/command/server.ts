/**
 * A server as a process: its socket, its log and its end.
 *
 * @module
 */
import process from "node:process";
import { setTimeout as delay } from "node:timers/promises";
import { type Handler, listen, type Listener, type ListenOptions } from "../serve/http/listen.ts";
import { listenInNode } from "../serve/http/node.ts";
import { json, type LogEntry, type Service } from "../serve/http/service.ts";
import type { LogKind } from "./settings.ts";
import { say } from "./arguments.ts";

/** The times of the end, in milliseconds. */
export interface EndTimes {
  /** How long the server goes on answering 503, so that load balancers see it. */
  readonly drainMs: number;
  /** The most time for accepted requests. */
  readonly graceMs: number;
}

/** The time for the last bytes of answers, in milliseconds. */
const LAST_BYTES_MS = 1000;

/** The answer while models are loaded: the process lives, and is not ready. */
async function answerEarly(request: Request): Promise<Response> {
  await request.body?.cancel();
  if (/^[^?]*\/livez(\?|$)/.test(request.url)) return json({ status: "ok" });
  const error = { message: "the models are loading", type: "server_error", code: "loading" };
  const response = json({ error: { ...error, param: null } }, 503);
  response.headers.set("retry-after", "1");
  return response;
}

/** What is wrong with an address, for its user. */
function listenError(error: unknown, { hostname, port }: ListenOptions): unknown {
  const { code = "", name, message } = error as { code?: string; name: string; message: string };
  const is = (...names: string[]): boolean => names.includes(code) || names.includes(name);
  const where = `Cannot listen on ${hostname}, port ${port}`;
  if (is("EADDRINUSE", "AddrInUse")) {
    return new Error(`${where}: another program has this port; --port=0 takes any that is free`);
  }
  if (is("EACCES", "PermissionDenied")) {
    return new Error(`${where}: the system does not let this user take this port`);
  }
  if (is("EADDRNOTAVAIL", "AddrNotAvailable", "ENOTFOUND", "EAI_AGAIN")) {
    return new Error(`${where}: this machine has no such address`);
  }
  return new Error(`${where}: ${message}`);
}

/** The beginning of a warning of Deno: signals of requests abort after answers too, as services know. */
const KNOWN_WARNING = "Deno.serve: request.signal aborts on successful responses";

/** Leaves out what Deno prints once for each server that looks at signals. */
function muteKnownWarning(): void {
  const { warn } = console;
  console.warn = (...args: unknown[]) => {
    if (!String(args[0]).startsWith(KNOWN_WARNING)) warn(...args);
  };
}

/** Listens in any runtime. */
async function openSocket(handler: Handler, options: ListenOptions): Promise<Listener> {
  if ("Deno" in globalThis) muteKnownWarning();
  try {
    const hasServer = "Bun" in globalThis || "Deno" in globalThis;
    return await (hasServer ? listen : listenInNode)(handler, options);
  } catch (error) {
    throw listenError(error, options);
  }
}

/** JSON without characters that terminals take as commands, or viewers as the end of a line. */
function lineOf(value: unknown): string {
  return JSON.stringify(value).replace(
    /[\x7f-\x9f\u2028\u2029]/g,
    (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** Whether a value is a text that needs no quotes in a line. */
const isPlain = (value: unknown): boolean => typeof value === "string" && /^[\w./:-]+$/.test(value);

/** A function that logs requests; undefined for none. */
export function logOf(
  kind: LogKind,
  write: (line: string) => void = (line) => console.log(line),
): ((entry: LogEntry) => void) | undefined {
  if (kind === "off") return undefined;
  if (kind === "json") return (entry) => write(lineOf(entry));
  return ({ time, method, path, status, ms, client, key, error, ...facts }) => {
    const more = Object.entries({ key, ...facts, error }).flatMap(([name, value]) =>
      value === undefined ? [] : [`${name}=${isPlain(value) ? value : lineOf(value)}`]
    );
    write([time, client ?? "-", method, path, status, `${ms} ms`, ...more].join(" "));
  };
}

/** A socket that is open before there is a service: a port in use is known before models are loaded. */
export interface Server {
  /** The port. */
  readonly port: number;
  /** Serves from now on; before, answers are 503. */
  serve(service: Service): void;
  /** The exit code, when TERM or INT has ended the server. */
  readonly ended: Promise<number>;
  /** Closes the socket of a server that cannot serve. */
  close(): Promise<void>;
}

/** Listens, and ends by TERM or INT. */
export async function openServer(options: ListenOptions, times: EndTimes): Promise<Server> {
  let service: Service | undefined;
  const listener = await openSocket(
    (request, connection) => service?.fetch(request, connection) ?? answerEarly(request),
    options,
  );
  const ended = new Promise<number>((resolve, reject) => {
    let ending = false;
    for (const signal of ["SIGTERM", "SIGINT"] as const) {
      process.on(signal, () => {
        // A second signal does not wait, and nothing was accepted before there is a service.
        if (ending) process.exit(1);
        if (service === undefined) process.exit(0);
        ending = true;
        say(`${signal}: no new work, ${service.stats.inFlight} requests to answer`);
        end(service, listener, times).then(resolve, reject);
      });
    }
  });
  return {
    port: listener.port,
    serve: (own) => void (service = own),
    ended,
    close: () => Promise.race([listener.stop(), delay(LAST_BYTES_MS)]),
  };
}

/** Ends a service in order; returns the exit code. */
async function end(
  service: Service,
  listener: Listener,
  { drainMs, graceMs }: EndTimes,
): Promise<number> {
  // The socket stays open meanwhile: closing it would break bodies in transit.
  await Promise.all([delay(drainMs), Promise.race([service.drain(), delay(graceMs)])]);
  const lost = service.stats.inFlight;
  // The last answers may still be in transit; idle connections are not waited for.
  await Promise.race([listener.stop(), delay(LAST_BYTES_MS)]);
  if (lost > 0) say(`${lost} requests were not done after ${graceMs} ms`);
  return lost > 0 ? 1 : 0;
}

/**
 * A socket for a handler: Bun.serve in Bun, Deno.serve in Deno.
 *
 * @module
 */

import type { Connection } from "./service.ts";

/** A function that answers requests, as a service has it. */
export type Handler = (request: Request, connection?: Connection) => Promise<Response>;

/** The address, and limits that the runtime itself has to enforce. */
export interface ListenOptions {
  readonly hostname: string;
  /** 0 for any free port. */
  readonly port: number;
  /** The most bytes of a body; in Bun only. */
  readonly maxBodyBytes: number;
  /** The time in seconds, at most 255, that a connection without a request may be idle; in Bun only. */
  readonly idleSeconds: number;
}

/** An open socket. */
export interface Listener {
  readonly port: number;
  /** Closes the socket and the connections without a pending answer. */
  stop(): Promise<void>;
}

/** The parts of the runtimes in use, so that either one's compiler understands both. */
interface Runtimes {
  readonly Bun?: {
    serve(options: {
      hostname: string;
      port: number;
      maxRequestBodySize: number;
      idleTimeout: number;
      development: boolean;
      reusePort: boolean;
      error: (error: unknown) => Response;
      fetch(
        request: Request,
        server: {
          requestIP(request: Request): { readonly address: string } | null;
          timeout(request: Request, seconds: number): void;
        },
      ): Promise<Response>;
    }): { readonly port: number; stop(closeConnections?: boolean): Promise<void> };
  };
  readonly Deno?: {
    serve(
      options: {
        hostname: string;
        port: number;
        onListen(): void;
        onError: (error: unknown) => Response;
      },
      handler: (
        request: Request,
        info: { readonly remoteAddr: { readonly hostname?: string } },
      ) => Promise<Response>,
    ): { readonly addr: { readonly port: number }; shutdown(): Promise<void> };
  };
}

/** The longest time that Bun lets a connection be idle, except for ever. */
const MOST_IDLE_SECONDS = 255;

/** The answer if a handler rejects, instead of the runtime's own, which may show the source. */
function onError(error: unknown): Response {
  console.error(error);
  return new Response("the server failed\n", { status: 500 });
}

/** Listens; an unavailable address is the system's error. */
export function listen(handler: Handler, options: ListenOptions): Listener {
  const { Bun, Deno } = globalThis as Runtimes;
  const { hostname, port } = options;
  if (Bun !== undefined) {
    const server = Bun.serve({
      hostname,
      port,
      maxRequestBodySize: options.maxBodyBytes,
      idleTimeout: options.idleSeconds,
      development: false,
      // Without development its default is true, and a second server would take a part of the load.
      reusePort: false,
      error: onError,
      async fetch(request, server) {
        // A connection that waits for its answer is idle too, and the service has deadlines.
        server.timeout(request, 0);
        const response = await handler(request, server);
        const isStream = response.headers.get("content-type")?.startsWith("text/event-stream");
        server.timeout(request, isStream ? MOST_IDLE_SECONDS : options.idleSeconds);
        return response;
      },
    });
    return { port: server.port, stop: () => server.stop() };
  }
  if (Deno === undefined) throw new Error("Cannot listen: neither Bun nor Deno runs this");
  const server = Deno.serve(
    { hostname, port, onListen() {}, onError },
    handler,
  );
  return { port: server.addr.port, stop: () => server.shutdown() };
}

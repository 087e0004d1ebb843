/**
 * A socket for a handler: Bun.serve in Bun, Deno.serve in Deno.
 *
 * @module
 */

/** What answers requests. */
export type Handler = (request: Request) => Promise<Response>;

/** Where to listen, and what the runtime itself has to refuse. */
export interface ListenOptions {
  readonly hostname: string;
  /** 0 for any that is free. */
  readonly port: number;
  /** The most bytes of a body; in Bun only. */
  readonly maxBodyBytes: number;
  /** How long, in seconds, a connection may be silent; in Bun only. */
  readonly idleSeconds: number;
}

/** An open socket. */
export interface Listener {
  readonly port: number;
  /** Closes the socket and the connections on which no answer is due. */
  stop(): Promise<void>;
}

/** As much of the runtimes as is used, so that either one's compiler understands both. */
interface Runtimes {
  readonly Bun?: {
    serve(options: {
      hostname: string;
      port: number;
      maxRequestBodySize: number;
      idleTimeout: number;
      fetch: Handler;
    }): { readonly port: number; stop(closeConnections?: boolean): Promise<void> };
  };
  readonly Deno?: {
    serve(
      options: { hostname: string; port: number; onListen(): void },
      handler: Handler,
    ): { readonly addr: { readonly port: number }; shutdown(): Promise<void> };
  };
}

/** Listens; an address that cannot be had is the system's error. */
export function listen(handler: Handler, options: ListenOptions): Listener {
  const { Bun, Deno } = globalThis as Runtimes;
  const { hostname, port } = options;
  if (Bun !== undefined) {
    const server = Bun.serve({
      hostname,
      port,
      maxRequestBodySize: options.maxBodyBytes,
      idleTimeout: options.idleSeconds,
      fetch: handler,
    });
    return { port: server.port, stop: () => server.stop() };
  }
  if (Deno === undefined) throw new Error("Cannot listen: neither Bun nor Deno runs this");
  const server = Deno.serve({ hostname, port, onListen() {} }, handler);
  return { port: server.addr.port, stop: () => server.shutdown() };
}

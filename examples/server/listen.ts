/**
 * A socket for a handler: Bun.serve in Bun, Deno.serve in Deno.
 *
 * @module
 */

/** A function that answers requests. */
export type Handler = (request: Request) => Promise<Response>;

/** The address, and limits that the runtime itself has to enforce. */
export interface ListenOptions {
  readonly hostname: string;
  /** 0 for any free port. */
  readonly port: number;
  /** The most bytes of a body; in Bun only. */
  readonly maxBodyBytes: number;
  /** The time in seconds that a connection may be idle; in Bun only. */
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
      fetch: handler,
    });
    return { port: server.port, stop: () => server.stop() };
  }
  if (Deno === undefined) throw new Error("Cannot listen: neither Bun nor Deno runs this");
  const server = Deno.serve({ hostname, port, onListen() {} }, handler);
  return { port: server.addr.port, stop: () => server.shutdown() };
}

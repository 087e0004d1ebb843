/**
 * A socket for a handler in Node, which has no server of requests and responses of its own.
 *
 * @module
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Handler, Listener, ListenOptions } from "./listen.ts";

/** The body of a request. A handler that cancels it can still answer: the rest is discarded. */
function bodyOf(incoming: IncomingMessage): ReadableStream<Uint8Array> {
  let isOver = false;
  return new ReadableStream<Uint8Array>({
    start(controller) {
      incoming.on("data", (chunk: Uint8Array) => {
        if (isOver) return;
        controller.enqueue(chunk);
        if ((controller.desiredSize ?? 0) <= 0) incoming.pause();
      });
      const end = (error?: Error): void => {
        if (isOver) return;
        isOver = true;
        if (error === undefined) controller.close();
        else controller.error(error);
      };
      incoming.on("end", () => end());
      incoming.on("error", end);
      incoming.on("close", () => end(new Error("the body ended early")));
      incoming.pause();
    },
    pull: () => void incoming.resume(),
    cancel() {
      isOver = true;
      incoming.resume();
    },
  });
}

/** A request as handlers take it; undefined if its address is none. */
function requestOf(incoming: IncomingMessage, signal: AbortSignal): Request | undefined {
  const { method = "GET", url = "/", rawHeaders } = incoming;
  const base = "http://localhost";
  if (!URL.canParse(url, base)) return undefined;
  const headers = new Headers();
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    headers.append(rawHeaders[i]!, rawHeaders[i + 1]!);
  }
  const hasBody = method !== "GET" && method !== "HEAD";
  const body = hasBody ? { body: bodyOf(incoming), duplex: "half" as const } : {};
  return new Request(new URL(url, base), { method, headers, signal, ...body });
}

/** Sends a response; resolves when it is sent, or when the client is gone. */
async function send(response: Response, outgoing: ServerResponse): Promise<void> {
  outgoing.writeHead(response.status, Object.fromEntries(response.headers));
  const reader = response.body?.getReader();
  const gone = new Promise<void>((resolve) => outgoing.once("close", resolve));
  while (reader !== undefined && !outgoing.destroyed) {
    const next = await Promise.race([reader.read(), gone]);
    if (next === undefined || next.done) break;
    if (outgoing.write(next.value)) continue;
    await Promise.race([new Promise((resolve) => outgoing.once("drain", resolve)), gone]);
  }
  if (outgoing.destroyed) await reader?.cancel();
  else outgoing.end();
}

/** Listens as {@link listen} does, in Node. */
export async function listenInNode(handler: Handler, options: ListenOptions): Promise<Listener> {
  const { createServer } = await import("node:http");
  const { hostname, port, idleSeconds } = options;
  const answer = async (incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> => {
    const gone = new AbortController();
    outgoing.once("close", () => gone.abort());
    const address = incoming.socket.remoteAddress;
    const request = requestOf(incoming, gone.signal);
    const response = request === undefined
      ? new Response("the address of the request is no URL\n", { status: 400 })
      : await handler(request, {
        remoteAddr: { ...address !== undefined && { hostname: address } },
      });
    await send(response, outgoing);
  };
  const server = createServer((incoming, outgoing) => {
    answer(incoming, outgoing).catch((error) => {
      console.error(error);
      outgoing.destroy();
    });
  });
  // The service has deadlines for bodies.
  server.requestTimeout = 0;
  server.keepAliveTimeout = idleSeconds * 1000;
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, hostname, resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeIdleConnections();
      }),
  };
}

/**
 * The body of a request, which may be too large, or too slow, or never begin or end.
 *
 * @module
 */
import { HttpError, unavailable } from "./http_error.ts";

/** The limits of bodies. */
export interface BodyLimits {
  /** The most bytes. */
  readonly bodyBytes: number;
  /** The most milliseconds until the first byte. */
  readonly firstByteMs: number;
  /** The most milliseconds for the whole body. */
  readonly bodyMs: number;
  /** The most bodies of one client that arrive at once. */
  readonly perClient: number;
}

/**
 * The part of an address that stands for one client: all of IPv4, the first 64 bits of IPv6, as a
 * client has all addresses that begin so.
 */
export function networkOf(address: string): string {
  const ipv4 = /^(?:::ffff:)?([\d.]+)$/i.exec(address)?.[1];
  if (ipv4 !== undefined) return ipv4;
  const [left = [], right = []] = address.split("::").map((part) => part.split(":"));
  const zeros = Array<string>(Math.max(8 - left.length - right.length, 0)).fill("0");
  return [...left, ...zeros, ...right].slice(0, 4).map((group) => parseInt(group || "0", 16))
    .join();
}

/** Reads bodies, and knows which ones are still arriving, and from which client. */
export class BodyReader {
  readonly #limits: BodyLimits;
  /** By network of the client, oldest first: what ends the reading of a body. */
  readonly #arriving = new Map<string, Set<(error: HttpError) => void>>();

  constructor(limits: BodyLimits) {
    this.#limits = limits;
  }

  /**
   * The bytes of a body; a 413 if it is too large, a 408 if it is too slow. Beyond the limit of
   * `client`, its oldest body gives way with a 503: a fast client behind the same address as slow
   * ones is still served. An unknown client has no limit.
   */
  async read(request: Request, client: string | undefined): Promise<Uint8Array> {
    const { bodyBytes, bodyMs } = this.#limits;
    const firstByteMs = Math.min(this.#limits.firstByteMs, bodyMs);
    const tooLarge = () =>
      new HttpError(413, `the body is too large: at most ${bodyBytes} bytes are read`);
    if (Number(request.headers.get("content-length") ?? 0) > bodyBytes) throw tooLarge();
    if (request.body === null) return new Uint8Array();
    const reader: ReadableStreamDefaultReader<Uint8Array> = request.body.getReader();
    const chunks: Uint8Array[] = [];
    let size = 0;
    // Not Promise.withResolvers, which Node 20 lacks.
    let giveUp = (_: HttpError): void => {};
    const given = new Promise<never>((_, reject) => giveUp = reject);
    const late = (what: string, ms: number) =>
      giveUp(new HttpError(408, `the body did not ${what} within ${ms} ms`));
    let timer = setTimeout(() => {
      if (size === 0) return late("begin", firstByteMs);
      timer = setTimeout(() => late("arrive", bodyMs), bodyMs - firstByteMs);
    }, firstByteMs);
    const forget = client === undefined ? () => {} : this.#note(client, giveUp);
    try {
      while (true) {
        const { done, value } = await Promise.race([reader.read(), given]);
        if (done) return join(chunks, size);
        size += value.length;
        if (size > bodyBytes) throw tooLarge();
        chunks.push(value);
      }
    } catch (error) {
      // The rest of the body is discarded; a broken stream need not be canceled.
      reader.cancel().catch(() => {});
      throw error instanceof HttpError ? error : new HttpError(400, "the body ended early");
    } finally {
      clearTimeout(timer);
      forget();
    }
  }

  /** Notes a body of `client` that `giveUp` ends; returns a function for its end. */
  #note(client: string, giveUp: (error: HttpError) => void): () => void {
    const network = networkOf(client);
    let bodies = this.#arriving.get(network);
    if (bodies === undefined) this.#arriving.set(network, bodies = new Set());
    bodies.add(giveUp);
    if (bodies.size > this.#limits.perClient) {
      const [oldest] = bodies;
      bodies.delete(oldest!);
      oldest!(unavailable("too many bodies of this client are arriving"));
    }
    return () => {
      bodies.delete(giveUp);
      if (bodies.size === 0 && this.#arriving.get(network) === bodies) {
        this.#arriving.delete(network);
      }
    };
  }
}

/** Joins several arrays into one; usually there is only one. */
function join(chunks: readonly Uint8Array[], size: number): Uint8Array {
  if (chunks.length === 1) return chunks[0]!;
  const whole = new Uint8Array(size);
  let at = 0;
  for (const chunk of chunks) {
    whole.set(chunk, at);
    at += chunk.length;
  }
  return whole;
}

/**
 * Requests to the hub. The answers of a server are data of another machine: they may stop, have no
 * end, or lead to another server.
 *
 * A token is sent to the hub's own origin only. Knows nothing of files and of the cache.
 *
 * @module
 */
import { FormatError } from "../base/errors.ts";
import { describe } from "../base/text.ts";

/** What holds for all requests of a download. */
export interface Rules {
  /** The origin of the hub, which alone gets a token. */
  readonly origin: string;
  readonly signal: AbortSignal | undefined;
  /** The most milliseconds in which a server may send nothing. */
  readonly timeout: number;
}

/** An answer whose body is read in pieces. */
interface Answer {
  readonly response: Response;
  /**
   * The body.
   *
   * @throws {FormatError} If the body has more than `most` bytes, or stops for too long.
   */
  pieces(most?: number): AsyncGenerator<Uint8Array>;
}

const MOST_REDIRECTS = 10;
/** The most pages of a list, and bytes of all its pages. */
const MOST_PAGES = 1000;
const MOST_JSON = 2 ** 26;
/** The most bytes of an answer that reports an error. */
const MOST_ERROR = 2 ** 20;
/** Timers of more milliseconds fire at once. */
const LONGEST_TIMER = 2 ** 31 - 1;

/** `work`, unless the signal is aborted or too much time passes, which both end the request. */
async function within<T>(
  work: Promise<T>,
  { signal, timeout }: Rules,
  stop: AbortController,
  url: URL,
  at: number,
): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let abort: (() => void) | undefined;
  const end = new Promise<never>((_, reject) => {
    const fail = (reason: unknown): void => {
      reject(reason);
      stop.abort(reason);
    };
    if (timeout <= LONGEST_TIMER) {
      const late = (): void =>
        fail(new FormatError(`the server sent nothing for ${timeout} ms`, nameOf(url), at));
      timer = setTimeout(late, timeout);
    }
    abort = () => fail(signal!.reason);
    signal?.addEventListener("abort", abort);
    if (signal?.aborted) abort();
  });
  try {
    return await Promise.race([work, end]);
  } catch (error) {
    if (error instanceof FormatError || signal?.aborted) throw error;
    const what = error instanceof Error ? error.message : String(error);
    throw new FormatError(`the connection failed: ${what}`, nameOf(url), at, { cause: error });
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", abort!);
    // If it ended early, its own error has no other reader.
    work.catch(() => {});
  }
}

/** An address in messages: without the query, which may have a signature. */
function nameOf({ origin, pathname }: URL): string {
  return origin + pathname;
}

async function* piecesOf(
  response: Response,
  most: number,
  wait: <T>(work: Promise<T>, at: number) => Promise<T>,
  url: URL,
): AsyncGenerator<Uint8Array> {
  const reader = response.body?.getReader();
  if (reader === undefined) return;
  let at = 0;
  try {
    for (;;) {
      const { done, value } = await wait(reader.read(), at);
      if (done) return;
      at += value.length;
      if (at > most) {
        throw new FormatError(`the answer has more than ${most} bytes`, nameOf(url), most);
      }
      yield value;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** Sends a request, and follows where its answer leads. */
export async function request(
  input: string | URL,
  headers: ConstructorParameters<typeof Headers>[0],
  rules: Rules,
): Promise<Answer> {
  let url = new URL(input);
  const own = new Headers(headers);
  for (let hops = 0;; hops++) {
    // Deno's fetch also reads files.
    if (!/^https?:$/.test(url.protocol)) {
      throw new FormatError(`the hub leads to ${describe(url.href)}`, nameOf(new URL(input)), 0);
    }
    if (url.origin !== rules.origin) own.delete("authorization");
    const stop = new AbortController();
    const at = url;
    const wait = <T>(work: Promise<T>, offset: number): Promise<T> =>
      within(work, rules, stop, at, offset);
    const init = { headers: own, redirect: "manual", signal: stop.signal } as const;
    const response = await wait(fetch(url, init), 0);
    const to = [301, 302, 303, 307, 308].includes(response.status)
      ? response.headers.get("location")
      : null;
    if (to === null) {
      return { response, pieces: (most = Infinity) => piecesOf(response, most, wait, at) };
    }
    response.body?.cancel().catch(() => {});
    if (hops === MOST_REDIRECTS || !URL.canParse(to, url.href)) {
      const what = hops === MOST_REDIRECTS ? "on and on" : `to ${describe(to)}`;
      throw new FormatError(`the hub leads ${what}`, nameOf(new URL(input)), 0);
    }
    url = new URL(to, url);
  }
}

/** A parsed answer; undefined if it is not JSON. */
function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): boolean {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** What an answer has to be, in words, and whether a parsed one is. */
const KINDS = {
  object: ["an object", isObject],
  list: [
    "a list of objects",
    (value: unknown) => Array.isArray(value) && value.every(isObject),
  ],
} as const;

/**
 * `fetch` for functions of the package that read JSON of one kind, of which a list may have several
 * pages.
 *
 * @throws {FormatError} For other answers, and for what has no end.
 */
export function jsonFetch(kind: keyof typeof KINDS, rules: Rules): typeof fetch {
  const [expected, isExpected] = KINDS[kind];
  let pages = 0;
  let left = MOST_JSON;
  return async (input: Parameters<typeof fetch>[0], init?: RequestInit) => {
    const url = new URL(input instanceof Request ? input.url : input);
    if (pages++ === MOST_PAGES) {
      throw new FormatError(`the list has more than ${MOST_PAGES} pages`, nameOf(url), 0);
    }
    const { response, pieces } = await request(url, init?.headers, rules);
    const { ok, status } = response;
    const decoder = new TextDecoder();
    let text = "";
    for await (const piece of pieces(ok ? left : MOST_ERROR)) {
      left -= piece.length;
      text += decoder.decode(piece, { stream: true });
    }
    text += decoder.decode();
    const value = parse(text);
    if (ok && !isExpected(value)) {
      throw new FormatError(`the answer is not ${expected} in JSON`, nameOf(url), 0);
    }
    const headers = new Headers(response.headers);
    // The package reads what an error says by its type.
    if (!ok && !isObject(value)) headers.set("content-type", "text/plain");
    const read = new Response(text === "" ? null : text, { status, headers });
    Object.defineProperty(read, "url", { value: response.url });
    return read;
  };
}

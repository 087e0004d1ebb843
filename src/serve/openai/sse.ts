/**
 * Answers as streams of server-sent events.
 *
 * @module
 */
import { ahead } from "../../llm/batch/ahead.ts";
import { HttpError } from "../http/http_error.ts";
import { type Incoming, openaiError } from "../http/service.ts";

const HEADERS = {
  "content-type": "text/event-stream; charset=utf-8",
  "cache-control": "no-cache, no-transform",
  // Proxies such as nginx would keep parts back.
  "x-accel-buffering": "no",
};
/** The time in which an error still has a status of its own: later ones are events. */
const PATIENCE_MS = 200;
/** The interval of comments while there is nothing to send, by which nobody takes it for idle. */
const ALIVE_MS = 5000;
/** The characters of events that wait for a slow reader: those of thousands of tokens. */
const MOST_WAITING = 4 * 1024 * 1024;
const DONE = "data: [DONE]\n\n";

/** An event with a value as JSON. */
const eventOf = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`;

/** Resolves with undefined after some time, or with what `made` becomes before. */
async function within<T>(made: Promise<T>, ms: number): Promise<T | undefined> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<undefined>((resolve) => timer = setTimeout(resolve, ms, undefined));
  try {
    return await Promise.race([made, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** The events of values. Throws when too many wait, of which `waiting` has the characters. */
async function* eventsOf(
  values: AsyncGenerator<unknown, void>,
  waiting: { count: number },
): AsyncGenerator<string, void> {
  for await (const value of values) {
    const event = eventOf(value);
    waiting.count += event.length;
    if (waiting.count > MOST_WAITING) {
      throw new HttpError(408, "the client reads too slowly", { code: "slow_client" });
    }
    yield event;
  }
}

/**
 * An answer whose events are made at once, whatever the speed of the reader, so that a slow one keeps no
 * slot; one that is too slow gets an error. An error before the first event is thrown.
 */
export async function eventStream(
  incoming: Incoming,
  values: AsyncGenerator<unknown, void>,
): Promise<Response> {
  const waiting = { count: 0 };
  const made = ahead(eventsOf(values, waiting), Infinity, undefined);
  let next = made.next();
  // It is handled when the stream is read.
  next.catch(() => {});
  await within(next, PATIENCE_MS);
  const parts = (async function* (): AsyncGenerator<string> {
    try {
      for (;; next = made.next()) {
        let item = await within(next, ALIVE_MS);
        for (; item === undefined; item = await within(next, ALIVE_MS)) yield ": alive\n\n";
        if (item.done === true) break;
        waiting.count -= item.value.length;
        yield item.value;
      }
      yield DONE;
    } finally {
      await made.return(undefined);
    }
  })();
  const fail = (error: HttpError): string => eventOf(openaiError(error)) + DONE;
  return incoming.stream(parts, HEADERS, fail);
}

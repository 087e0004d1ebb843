/**
 * An error for the client, and the answer that it becomes.
 *
 * @module
 */

/** For a 503: the time to retry after, in seconds. A queue is processed in less. */
export const RETRY = { "retry-after": "1" };

/** Thrown for any request that cannot be answered with 200. */
export class HttpError extends Error {
  override name = "HttpError";

  constructor(
    readonly status: number,
    message: string,
    readonly headers: Readonly<Record<string, string>> = {},
  ) {
    super(message);
  }
}

/**
 * An error for the client, and the answer that it becomes.
 *
 * @module
 */

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

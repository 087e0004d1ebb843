/**
 * An error that a client caused, or has to live with, and the answer it becomes.
 *
 * @module
 */

/** Thrown wherever a request turns out not to be one that can be answered with 200. */
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

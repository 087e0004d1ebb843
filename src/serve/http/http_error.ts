/**
 * An error for the client, and the answer that it becomes.
 *
 * @module
 */

/** For a 503: the time to retry after, in seconds. A queue is processed in less. */
export const RETRY = { "retry-after": "1" };

/** Details of an {@link HttpError}. */
export interface HttpErrorDetails {
  /** More headers of the answer. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** The parameter of the body that is wrong, as OpenAI's errors name it. */
  readonly param?: string | undefined;
  /** A code for programs, such as `model_not_found`. */
  readonly code?: string | undefined;
}

/** Thrown for any request that cannot be answered with 200. */
export class HttpError extends Error {
  override name = "HttpError";
  /** More headers of the answer. */
  readonly headers: Readonly<Record<string, string>>;
  /** The parameter of the body that is wrong. */
  readonly param: string | undefined;
  /** A code for programs. */
  readonly code: string | undefined;

  constructor(
    readonly status: number,
    message: string,
    { headers = {}, param, code }: HttpErrorDetails = {},
  ) {
    super(message);
    this.headers = headers;
    this.param = param;
    this.code = code;
  }
}

/** An error of a body: 400, with the parameter that is wrong. */
export function badRequest(message: string, param?: string): HttpError {
  return new HttpError(400, message, { param });
}

/** An error of a service that is busy: 503 with Retry-After. */
export function unavailable(message: string, code = "overloaded"): HttpError {
  return new HttpError(503, message, { headers: RETRY, code });
}

/**
 * The body of a request, which may be too large, or too slow, or never end.
 *
 * @module
 */
import { HttpError } from "./http_error.ts";

/** The bytes of a body; a 413 above `maxBytes`, a 408 after `timeoutMs`. */
export async function readBody(
  request: Request,
  maxBytes: number,
  timeoutMs: number,
): Promise<Uint8Array> {
  const tooLarge = () =>
    new HttpError(413, `the body is too large: at most ${maxBytes} bytes are read`);
  const length = request.headers.get("content-length");
  if (Number(length ?? 0) > maxBytes) throw tooLarge();
  if (request.body === null) return new Uint8Array();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(new HttpError(408, `the body did not arrive within ${timeoutMs} ms`));
    }, timeoutMs);
  });
  try {
    // The runtimes deliver at most the announced length, and one read is cheaper.
    if (length !== null) {
      return new Uint8Array(await Promise.race([request.arrayBuffer(), timeout]));
    }
    return await readStream(request.body, maxBytes, timeout, tooLarge);
  } catch (error) {
    if (error instanceof HttpError) throw error;
    throw new HttpError(400, "the body ended early");
  } finally {
    clearTimeout(timer);
  }
}

/** The bytes of a stream that may not end. */
async function readStream(
  stream: ReadableStream<Uint8Array>,
  maxBytes: number,
  timeout: Promise<never>,
  tooLarge: () => HttpError,
): Promise<Uint8Array> {
  const reader = stream.getReader();
  const chunks: Uint8Array[] = [];
  let size = 0;
  try {
    while (true) {
      const { done, value } = await Promise.race([reader.read(), timeout]);
      if (done) return join(chunks, size);
      size += value.length;
      if (size > maxBytes) throw tooLarge();
      chunks.push(value);
    }
  } catch (error) {
    // The rest of the body is discarded; a broken stream need not be canceled.
    reader.cancel().catch(() => {});
    throw error;
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

/**
 * The body of a request, which may be too large, or too slow, or never end.
 *
 * @module
 */
import { clearTimeout, setTimeout } from "node:timers";
import { HttpError } from "./http_error.ts";

/** The bytes of a body; a 413 above `maxBytes`, a 408 after `timeoutMs`. */
export async function readBody(
  request: Request,
  maxBytes: number,
  timeoutMs: number,
): Promise<Uint8Array> {
  const tooLarge = () =>
    new HttpError(413, `the body is too large: at most ${maxBytes} bytes are read`);
  if (Number(request.headers.get("content-length") ?? 0) > maxBytes) throw tooLarge();
  if (request.body === null) return new Uint8Array();
  const reader = request.body.getReader();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(new HttpError(408, `the body did not arrive within ${timeoutMs} ms`));
    }, timeoutMs);
  });
  const chunks: Uint8Array[] = [];
  let size = 0;
  try {
    while (true) {
      const { done, value } = await Promise.race([reader.read(), timeout]);
      if (done) break;
      size += value.length;
      if (size > maxBytes) throw tooLarge();
      chunks.push(value);
    }
  } catch (error) {
    // What comes after is nobody's; a stream that is broken already need not be told.
    reader.cancel().catch(() => {});
    if (error instanceof HttpError) throw error;
    throw new HttpError(400, "the body ended early");
  } finally {
    clearTimeout(timer);
  }
  return join(chunks, size);
}

/** One array of several; mostly there is one already. */
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

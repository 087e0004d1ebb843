/**
 * Keys of clients, compared in constant time.
 *
 * @module
 */
import { createHash, timingSafeEqual } from "node:crypto";
import { ArgumentError } from "../../base/errors.ts";
import { listIn } from "../../base/shape.ts";
import { describe } from "../../base/text.ts";

const digest = (text: string): Uint8Array => createHash("sha256").update(text).digest();

/** The keys that a service accepts. */
export class Keys {
  /** Digests have one length, so that a comparison does not show the length of a key. */
  readonly #digests: readonly Uint8Array[];

  constructor(keys: readonly string[]) {
    const texts = listIn(keys, (key) => {
      if (typeof key === "string" && /^[\x21-\x7e]{1,512}$/.test(key)) return key;
      throw new ArgumentError(
        "Cannot serve with a key that is no text of 1 to 512 visible ASCII characters",
      );
    });
    if (texts === undefined) {
      throw new ArgumentError(`Cannot serve with keys ${describe(keys)}: they are a list of texts`);
    }
    this.#digests = texts.map(digest);
  }

  /** The number of keys. */
  get size(): number {
    return this.#digests.length;
  }

  /** The place of the key in `authorization: Bearer KEY`; undefined if it is none of these. */
  find(headers: Headers): number | undefined {
    const given = /^bearer +(\S+) *$/i.exec(headers.get("authorization") ?? "")?.[1];
    if (given === undefined) return undefined;
    const own = digest(given);
    let found: number | undefined;
    // All keys are compared, so that the time does not show which one fits.
    this.#digests.forEach((one, i) => {
      if (timingSafeEqual(one, own)) found = i;
    });
    return found;
  }
}

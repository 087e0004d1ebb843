/**
 * Text of tokens as they come.
 *
 * @module
 */
import { ArgumentError } from "../base/errors.ts";
import { listIn } from "../base/shape.ts";
import { describe } from "../base/text.ts";

/** Stands for bytes that are no whole character yet. */
const REPLACEMENT = "\ufffd";

/** The tokens before the first one that are decoded with it: some decoders drop a text's first space. */
const CONTEXT = 4;
/** The most tokens that wait for the end of a character, of which a token has a byte at least. */
const MOST_WAITING = 16, LONGEST_CHARACTER = 4;

/** What a piece of text is, and whether the text ends with it. */
export interface TextPiece {
  /** The text that is sure, which may be none. */
  readonly text: string;
  /** Whether one of the stop texts has come. */
  readonly done: boolean;
}

/** The tokens of a text, checked and copied: integers, with `vocabulary` from 0 to that. */
export function tokensIn(ids: unknown, vocabulary?: number): number[] {
  const list = listIn(ids, (id) => {
    const isKnown = Number.isInteger(id) &&
      (vocabulary === undefined || id as number >= 0 && id as number < vocabulary);
    if (isKnown) return id as number;
    const range = vocabulary === undefined ? "" : ` from 0 to ${vocabulary - 1}`;
    throw new ArgumentError(
      `Cannot generate after token ${describe(id)}: tokens are integers${range}`,
    );
  });
  if (list !== undefined) return list;
  throw new ArgumentError(`Cannot generate after ${describe(ids)}: it takes an array of tokens`);
}

/** The texts of `stop`, checked. */
export function stopTexts(stop: unknown): readonly string[] {
  const checked = (one: unknown): string => {
    if (typeof one === "string" && one !== "") return one;
    throw new ArgumentError(`Cannot generate with stop ${describe(one)}: it is one or more texts`);
  };
  return stop === undefined ? [] : listIn(stop, checked) ?? [checked(stop)];
}

/**
 * Makes text of tokens, a piece at a time: whole characters, without what may become a stop text.
 *
 * A token may be a part of a character, and its text may depend on the tokens before it. So the text
 * of the last few tokens is decoded twice, with and without the new one.
 */
export class TextStream {
  readonly #decode: (ids: number[]) => string;
  readonly #stop: readonly string[];
  /** The tokens since a place where the text was whole. */
  #ids: number[] = [];
  /** How many of them have been turned to text. */
  #told = 0;
  /** Text that may begin a stop text. */
  #held = "";
  #done = false;

  /**
   * `decode` gives the text of tokens; the text ends before one of `stop`, and follows that of the
   * tokens `before`.
   */
  constructor(
    decode: (ids: number[]) => string,
    stop: readonly string[] = [],
    before: readonly number[] = [],
  ) {
    // Some decoders refuse no tokens.
    this.#decode = (ids) => ids.length === 0 ? "" : decode(ids);
    this.#stop = stopTexts(stop);
    this.#ids = tokensIn(before).slice(-CONTEXT);
    this.#told = this.#ids.length;
  }

  /** Whether one of the stop texts has come. */
  get done(): boolean {
    return this.#done;
  }

  /** The text that a token adds. */
  push(id: number): TextPiece {
    if (this.#done) return { text: "", done: true };
    this.#ids.push(id);
    const before = this.#decode(this.#ids.slice(0, this.#told));
    const more = this.#after(before);
    if (more === "" || more.endsWith(REPLACEMENT)) return this.#releaseInvalid(before);
    // The tokens that begin a character stay with those that complete it.
    if (!before.endsWith(REPLACEMENT)) this.#ids = this.#ids.slice(this.#told);
    this.#told = this.#ids.length;
    return this.#release(more);
  }

  /** The text of bytes that are no character, once so many wait that the work would grow. */
  #releaseInvalid(before: string): TextPiece {
    const count = this.#ids.length;
    if (count - this.#told > MOST_WAITING) {
      const all = this.#decode(this.#ids);
      const from = before.endsWith(REPLACEMENT) ? commonLength(before, all) : before.length;
      const last = count - LONGEST_CHARACTER;
      for (let end = last; end > last - LONGEST_CHARACTER; end--) {
        const text = this.#decode(this.#ids.slice(0, end));
        // Else a character begins in these tokens and ends in the next ones.
        if (!all.startsWith(text) || text.length <= from) continue;
        this.#ids = this.#ids.slice(end - CONTEXT);
        this.#told = CONTEXT;
        return this.#release(text.slice(from));
      }
    }
    return { text: "", done: false };
  }

  /** The text of the tokens after the text `before`. */
  #after(before: string): string {
    const now = this.#decode(this.#ids);
    // A character that the prompt begins and these tokens complete is emitted whole.
    return now.slice(before.endsWith(REPLACEMENT) ? commonLength(before, now) : before.length);
  }

  /** The text that is held back, at the end of the tokens. */
  flush(): string {
    const before = this.#decode(this.#ids.slice(0, this.#told));
    const rest = this.#done ? "" : this.#after(before);
    this.#ids = [];
    this.#told = 0;
    const { text } = this.#release(rest);
    const all = text + this.#held;
    this.#held = "";
    return all;
  }

  #release(more: string): TextPiece {
    const all = this.#held + more;
    const found = this.#stop.map((stop) => all.indexOf(stop)).filter((at) => at >= 0);
    if (found.length > 0) {
      this.#held = "";
      this.#done = true;
      return { text: all.slice(0, Math.min(...found)), done: true };
    }
    const longest = Math.max(0, ...this.#stop.map((stop) => overlap(all, stop)));
    this.#held = all.slice(all.length - longest);
    return { text: all.slice(0, all.length - longest), done: false };
  }
}

/** How many first characters are the same. */
function commonLength(a: string, b: string): number {
  let n = 0;
  while (n < a.length && a[n] === b[n]) n++;
  return n;
}

/** The length of the longest end of `text` with which `stop` begins. */
function overlap(text: string, stop: string): number {
  for (let n = Math.min(text.length, stop.length - 1); n > 0; n--) {
    if (text.endsWith(stop.slice(0, n))) return n;
  }
  return 0;
}

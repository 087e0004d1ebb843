/**
 * Rules of a grammar in EBNF, as they are written.
 *
 * @module
 */

/** A range of characters by their code points, both included. */
export type Range = readonly [first: number, last: number];

/** A character in a literal or in a set. */
function written(code: number): string {
  const hex = code.toString(16);
  if (code > 0xffff) return `\\U${hex.padStart(8, "0")}`;
  const char = String.fromCharCode(code);
  return /[A-Za-z0-9 ]/.test(char) ? char : `\\u${hex.padStart(4, "0")}`;
}

/** A text as it is. */
export function literal(text: string): string {
  return `"${Array.from(text, (char) => written(char.codePointAt(0)!)).join("")}"`;
}

/** The bytes of a code point in UTF-8, which has the same number of them from `CODES[n - 1]` on. */
const CODES = [0, 0x80, 0x800, 0x10000, 0x110000];

function utf8(code: number): readonly number[] {
  return [...new TextEncoder().encode(String.fromCodePoint(code))];
}

/** A byte of a range. The package takes sets of several characters as bytes, of one as UTF-8. */
function byte(first: number, last: number): string {
  const [a, b] = [first, last].map((value) => `\\x${value.toString(16).padStart(2, "0")}`);
  return first === last ? `[${a}${b}]` : `[${a}-${b}]`;
}

/** The sequences of as many bytes from `low` to `high`. */
function bytesBetween(low: readonly number[], high: readonly number[]): readonly string[] {
  const [a = 0, b = 0] = [low[0], high[0]];
  const rest = low.length - 1;
  if (rest === 0) return [byte(a, b)];
  const any = new Array(rest).fill(byte(0x80, 0xbf)).join(" ");
  const isFrom = low.slice(1).every((one) => one === 0x80);
  const isTo = high.slice(1).every((one) => one === 0xbf);
  if (isFrom && isTo) return [`${byte(a, b)} ${any}`];
  const after = (first: number, low: readonly number[], high: readonly number[]) =>
    bytesBetween(low, high).map((more) => `${byte(first, first)} ${more}`);
  if (a === b) return after(a, low.slice(1), high.slice(1));
  const [least, most] = [new Array(rest).fill(0x80), new Array(rest).fill(0xbf)];
  return [
    ...after(a, low.slice(1), most),
    ...a + 1 < b ? [`${byte(a + 1, b - 1)} ${any}`] : [],
    ...after(b, least, high.slice(1)),
  ];
}

/** The characters of a set, whose ranges have no halves of characters, as sequences of bytes. */
export function sequencesOf(ranges: readonly Range[]): readonly string[] {
  const parts: string[] = [];
  for (const [first, last] of ranges) {
    for (let count = 1; count < CODES.length; count++) {
      const low = Math.max(first, CODES[count - 1]!), high = Math.min(last, CODES[count]! - 1);
      if (low <= high) parts.push(...bytesBetween(utf8(low), utf8(high)));
    }
  }
  return parts;
}

/** One of some parts. */
export function anyOf(parts: readonly string[]): string {
  return parts.length === 1 ? parts[0]! : `(${parts.join(" | ")})`;
}

/** A part several times; `most` may be infinite. */
export function times(part: string, least: number, most: number): string {
  if (most === 0) return '""';
  if (least === 1 && most === 1) return part;
  return `(${part}){${least},${most === Infinity ? "" : most}}`;
}

/** The rules of a grammar by their names. */
export class Rules {
  readonly #rules: string[] = [];
  readonly #names = new Map<string, string>();

  /** The name of a rule with this body. */
  add(body: string): string {
    let name = this.#names.get(body);
    if (name === undefined) {
      name = this.reserve();
      this.#names.set(body, name);
      this.define(name, body);
    }
    return name;
  }

  /** A name whose rule comes later: it may refer to itself. */
  reserve(): string {
    this.#rules.push("");
    return `r${this.#rules.length - 1}`;
  }

  /** Gives a reserved name its rule. */
  define(name: string, body: string): void {
    this.#rules[Number(name.slice(1))] = `${name} ::= ${body}`;
  }

  /**
   * The name of a rule of `least` to `most` characters of a set, given by its sequences, and of `end`
   * after them.
   *
   * A rule goes on to the end of the text that it is for. The package knows for each place in a rule
   * which tokens stay within the rule; those that go beyond it are looked at for each new token, which
   * takes a hundred times as long where characters have rules of their own.
   */
  characters(sequences: readonly string[], least: number, most: number, end: string): string {
    const before = (next: string): string => sequences.map((one) => `${one} ${next}`).join(" | ");
    let name: string;
    if (most === Infinity) {
      const key = `${end} after any of ${before("")}`;
      const known = this.#names.get(key);
      name = known ?? this.reserve();
      this.#names.set(key, name);
      if (known === undefined) this.define(name, `${end} | ${before(name)}`);
    } else {
      name = end;
      for (let k = least; k < most; k++) name = this.add(`${end} | ${before(name)}`);
    }
    for (let k = 0; k < least; k++) name = this.add(before(name));
    return name;
  }

  /** The grammar of texts of `start`. */
  text(start: string): string {
    return [`root ::= ${start}`, ...this.#rules].join("\n");
  }
}

/** What has characters that are no part of a set, or a set of characters. */
const PARTS = /"(?:\\[^]|[^"\\])*"|#[^\n]*|\[(?:\\[^]|[^\]\\])*\]/g;
const NOT_ASCII = /[^\0-\x7f]|\\x[89a-fA-F]|\\u(?!00[0-7])|\\U(?!000000[0-7])/;

/** The line of the first set with a character beyond ASCII, which the package takes as bytes. */
export function lineOfWideSet(ebnf: string): number | undefined {
  for (const { 0: part, index } of ebnf.matchAll(PARTS)) {
    if (!part.startsWith("[") || part.startsWith("[^") || !NOT_ASCII.test(part)) continue;
    return ebnf.slice(0, index).split("\n").length;
  }
  return undefined;
}

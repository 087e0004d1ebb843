/**
 * Grammars of strings in JSON: their characters, formats and patterns.
 *
 * @module
 */
import { anyOf, literal, oneOf, type Range, times } from "./ebnf.ts";

/** The characters of texts that JSON has as they are, and those that it escapes. */
const PLAIN: readonly Range[] = [
  ...[[0x20, 0x21], [0x23, 0x5b], [0x5d, 0xd7ff], [0xe000, 0x10ffff]] as const,
];
const ALL: readonly Range[] = [[0, 0xd7ff], [0xe000, 0x10ffff]];

/** A plain character. */
export const PLAIN_CHAR: string = oneOf(PLAIN);
/** A character in any spelling, which is one code point. */
export const CHAR: string = `(${PLAIN_CHAR} | "\\\\" (["\\\\/bfnrt] | "u" ` +
  `([0-9a-cA-CefEF] [0-9a-fA-F]{3} | [dD] [0-7] [0-9a-fA-F]{2})))`;

function intersected(a: readonly Range[], b: readonly Range[]): Range[] {
  return a.flatMap(([from, to]) =>
    b.flatMap(([first, last]): Range[] => {
      const range: Range = [Math.max(from, first), Math.min(to, last)];
      return range[0] <= range[1] ? [range] : [];
    })
  );
}

/** The characters that are not in a set. */
function complement(ranges: readonly Range[]): Range[] {
  let rest: Range[] = [...ALL];
  for (const [first, last] of ranges) {
    rest = intersected(rest, [...first > 0 ? [[0, first - 1] as const] : [], [last + 1, 0x10ffff]]);
  }
  return rest;
}

/** One character of a set, as JSON spells it; undefined for an empty set. */
function spelled(ranges: readonly Range[]): string | undefined {
  const plain = intersected(ranges, PLAIN);
  const parts = plain.length > 0 ? [oneOf(plain)] : [];
  const escaped: readonly Range[] = [[0, 0x1f], [0x22, 0x22], [0x5c, 0x5c]];
  for (const [first, last] of intersected(ranges, escaped)) {
    for (let code = first; code <= last; code++) {
      parts.push(literal(JSON.stringify(String.fromCharCode(code)).slice(1, -1)));
    }
  }
  return parts.length > 0 ? anyOf(parts) : undefined;
}

/** The plain strings that are none of `names`. */
export function otherThan(names: readonly string[], add: (body: string) => string): string {
  const ruleOf = (rests: readonly string[]): string => {
    const firsts = [...new Set(rests.flatMap((rest) => [...rest].slice(0, 1)))];
    const codes = firsts.map((char) => char.codePointAt(0)!);
    const others = intersected(complement(codes.map((code): Range => [code, code])), PLAIN);
    const parts = [`${oneOf(others)} ${PLAIN_CHAR}*`];
    // Not the end of one of the names.
    if (!rests.includes("")) parts.push('""');
    for (const char of firsts) {
      if (intersected([[char.codePointAt(0)!, char.codePointAt(0)!]], PLAIN).length === 0) continue;
      const next = rests.filter((rest) => rest.startsWith(char)).map((rest) =>
        rest.slice(char.length)
      );
      parts.push(`${literal(char)} ${ruleOf(next)}`);
    }
    return add(anyOf(parts));
  };
  return `"\\"" ${ruleOf(names)} "\\""`;
}

const HEX = "[0-9a-fA-F]";
const MONTH_DAY = '("02" "-" ("0" [1-9] | "1" [0-9] | "2" [0-8]) | ' +
  '("04" | "06" | "09" | "11") "-" ("0" [1-9] | [12] [0-9] | "30") | ' +
  '("01" | "03" | "05" | "07" | "08" | "10" | "12") "-" ("0" [1-9] | [12] [0-9] | "3" [01]))';
const DATE = `[12] [0-9]{3} "-" ${MONTH_DAY}`;
const HOUR = '([01] [0-9] | "2" [0-3])';
const TIME = `${HOUR} ":" [0-5] [0-9] ":" [0-5] [0-9] ("." [0-9]{1,9})? ` +
  `("Z" | [-+] ${HOUR} ":" [0-5] [0-9])`;
const BYTE = '([0-9] | [1-9] [0-9] | "1" [0-9] [0-9] | "2" [0-4] [0-9] | "25" [0-5])';

/** What is inside the quotes of strings of a format. */
export const FORMATS: Readonly<Record<string, string>> = {
  date: DATE,
  time: TIME,
  "date-time": `${DATE} "T" ${TIME}`,
  uuid: `${HEX}{8} "-" ${HEX}{4} "-" ${HEX}{4} "-" ${HEX}{4} "-" ${HEX}{12}`,
  ipv4: `${BYTE} "." ${BYTE} "." ${BYTE} "." ${BYTE}`,
  email: '[a-zA-Z0-9] [a-zA-Z0-9_-]{0,20} ("." [a-zA-Z0-9]{1,20}){0,1} "@" ' +
    '[a-zA-Z0-9]{1,20} ("." [a-zA-Z0-9]{1,20}){0,2} "." [a-zA-Z]{2,10}',
};

const DIGIT: readonly Range[] = [[0x30, 0x39]];
const WORD: readonly Range[] = [[0x30, 0x39], [0x41, 0x5a], [0x5f, 0x5f], [0x61, 0x7a]];
const SPACE: readonly Range[] = [
  ...[[0x09, 0x0d], [0x20, 0x20], [0xa0, 0xa0], [0x1680, 0x1680], [0x2000, 0x200a]] as const,
  ...[[0x2028, 0x2029], [0x202f, 0x202f], [0x205f, 0x205f], [0x3000, 0x3000]] as const,
  [0xfeff, 0xfeff],
];
const LINE_ENDS: readonly Range[] = [[0x0a, 0x0a], [0x0d, 0x0d], [0x2028, 0x2029]];
const CLASSES: Readonly<Record<string, readonly Range[]>> = {
  ...{ d: DIGIT, w: WORD, s: SPACE },
  ...{ D: complement(DIGIT), W: complement(WORD), S: complement(SPACE) },
};
const CONTROLS: Readonly<Record<string, number>> = { n: 10, r: 13, t: 9, f: 12, v: 11, 0: 0 };
/** The deepest groups of a pattern. */
const DEEPEST = 50;

/** What a pattern has that no grammar of it is made of. */
class NotSupported extends Error {}

/** Reads a regular expression of JavaScript, without the flags but `u`. */
class Pattern {
  readonly #chars: readonly string[];
  #at = 0;

  constructor(source: string) {
    this.#chars = [...source];
  }

  #take(char: string): boolean {
    if (this.#chars[this.#at] !== char) return false;
    this.#at++;
    return true;
  }

  /** The whole pattern, which a part of the text matches. */
  read(): string {
    const parts: string[] = [];
    do {
      const start = this.#take("^") ? "" : `${CHAR}* `;
      const body = this.#sequence(0);
      const end = this.#take("$") ? "" : ` ${CHAR}*`;
      parts.push(`${start}${body}${end}`);
    } while (this.#take("|"));
    if (this.#at < this.#chars.length) throw new NotSupported(`"${this.#chars[this.#at]}" there`);
    return anyOf(parts);
  }

  #alternatives(depth: number): string {
    if (depth > DEEPEST) throw new NotSupported(`groups deeper than ${DEEPEST}`);
    const parts: string[] = [];
    do parts.push(this.#sequence(depth)); while (this.#take("|"));
    return `(${parts.join(" | ")})`;
  }

  #sequence(depth: number): string {
    const parts: string[] = [];
    for (;;) {
      const char = this.#chars[this.#at];
      const isEnd = char === "$" && depth === 0;
      if (char === undefined || char === "|" || char === ")" || isEnd) break;
      parts.push(this.#repeated(this.#atom(depth)));
    }
    return parts.length === 0 ? '""' : parts.join(" ");
  }

  #repeated(atom: string): string {
    let made = atom;
    const rest = this.#chars.slice(this.#at, this.#at + 24).join("");
    const [whole, least, comma, most] = /^\{(\d+)(,)?(\d+)?\}/.exec(rest) ?? [];
    if (this.#take("*")) made = times(atom, 0, Infinity);
    else if (this.#take("+")) made = times(atom, 1, Infinity);
    else if (this.#take("?")) made = times(atom, 0, 1);
    else if (whole !== undefined) {
      this.#at += whole.length;
      const upper = most !== undefined ? Number(most) : comma === undefined ? least : Infinity;
      made = times(atom, Number(least), Number(upper));
    } else return atom;
    // Whether as few as possible are taken changes nothing for the whole text.
    this.#take("?");
    return made;
  }

  #atom(depth: number): string {
    const char = this.#chars[this.#at++]!;
    if (char === "(") {
      if (this.#take("?")) {
        if (!this.#take(":")) throw new NotSupported("a group that looks around or has a name");
      }
      const made = this.#alternatives(depth + 1);
      this.#take(")");
      return made;
    }
    if (char === "^" || char === "$") throw new NotSupported(`${char} inside of the pattern`);
    const set = char === "["
      ? this.#set()
      : char === "."
      ? complement(LINE_ENDS)
      : char === "\\"
      ? this.#escape()
      : [[char.codePointAt(0)!, char.codePointAt(0)!] as const];
    const made = spelled(set);
    if (made === undefined) throw new NotSupported("a set without characters");
    return made;
  }

  #escape(): readonly Range[] {
    const char = this.#chars[this.#at++]!;
    const known = Object.hasOwn(CLASSES, char) ? CLASSES[char] : undefined;
    if (known !== undefined) return known;
    const control = Object.hasOwn(CONTROLS, char) ? CONTROLS[char] : undefined;
    if (control !== undefined) return [[control, control]];
    const rest = this.#chars.slice(this.#at, this.#at + 10).join("");
    const [whole, ...hex] =
      (char === "u"
        ? /^(?:\{([0-9a-fA-F]{1,6})\}|([0-9a-fA-F]{4}))/
        : char === "x"
        ? /^([0-9a-fA-F]{2})/
        : /^$(.)/).exec(rest) ?? [];
    if (whole !== undefined) {
      this.#at += whole.length;
      const code = Number.parseInt(hex.find((one) => one !== undefined)!, 16);
      return [[code, code]];
    }
    if (/[A-Za-z0-9]/.test(char)) throw new NotSupported(`\\${char}`);
    return [[char.codePointAt(0)!, char.codePointAt(0)!]];
  }

  #set(): readonly Range[] {
    const isNegated = this.#take("^");
    const ranges: Range[] = [];
    while (!this.#take("]")) {
      const from = this.#member();
      const isRange = this.#chars[this.#at] === "-" && this.#chars[this.#at + 1] !== "]";
      if (!isRange) ranges.push(...from);
      else {
        this.#at++;
        ranges.push([from[0]![0], this.#member().at(-1)![1]]);
      }
    }
    return isNegated ? complement(ranges) : intersected(ranges, ALL);
  }

  #member(): readonly Range[] {
    const char = this.#chars[this.#at++]!;
    if (char !== "\\") return [[char.codePointAt(0)!, char.codePointAt(0)!]];
    if (this.#take("b")) return [[8, 8]];
    return this.#escape();
  }
}

/** What is inside the quotes of strings that match a pattern. */
export function patternGrammar(source: string, fail: (why: string) => never): string {
  try {
    new RegExp(source, "u");
  } catch (error) {
    return fail(error instanceof Error ? error.message : String(error));
  }
  try {
    return new Pattern(source).read();
  } catch (error) {
    if (error instanceof NotSupported) return fail(`the pattern has ${error.message}`);
    throw error;
  }
}

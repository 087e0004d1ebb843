/**
 * Grammars of strings in JSON: their characters, formats and patterns.
 *
 * @module
 */
import { anyOf, literal, type Range, type Rules, sequencesOf, times } from "./ebnf.ts";

/** The characters of texts that JSON has as they are, and those that it escapes. */
const PLAIN: readonly Range[] = [
  ...[[0x20, 0x21], [0x23, 0x5b], [0x5d, 0xd7ff], [0xe000, 0x10ffff]] as const,
];
/** The end of a string, and its beginning. */
export const QUOTE = '"\\""';
const ALL: readonly Range[] = [[0, 0xd7ff], [0xe000, 0x10ffff]];

const HEX = "[0-9a-fA-F]";
/** The plain characters, and all in any spelling, which is one code point: as sequences. */
export const PLAIN_CHARS: readonly string[] = sequencesOf(PLAIN);
export const CHARS: readonly string[] = [
  ...PLAIN_CHARS,
  '"\\\\" ["\\\\/bfnrt]',
  `"\\\\u" [0-9a-cA-CefEF] ${HEX} ${HEX} ${HEX}`,
  `"\\\\u" [dD] [0-7] ${HEX} ${HEX}`,
];

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

/** The characters of a set as JSON spells them: as sequences. */
function spelled(ranges: readonly Range[]): readonly string[] {
  const parts = [...sequencesOf(intersected(ranges, PLAIN))];
  const escaped: readonly Range[] = [[0, 0x1f], [0x22, 0x22], [0x5c, 0x5c]];
  for (const [first, last] of intersected(ranges, escaped)) {
    for (let code = first; code <= last; code++) {
      parts.push(literal(JSON.stringify(String.fromCharCode(code)).slice(1, -1)));
    }
  }
  return parts;
}

/** The plain strings that are none of `names`. */
export function otherThan(names: readonly string[], rules: Rules): string {
  const any = rules.characters(PLAIN_CHARS, 0, Infinity, QUOTE);
  const ruleOf = (rests: readonly string[]): string => {
    const firsts = [...new Set(rests.flatMap((rest) => [...rest].slice(0, 1)))];
    const codes = firsts.map((char) => char.codePointAt(0)!);
    const others = intersected(complement(codes.map((code): Range => [code, code])), PLAIN);
    const parts = sequencesOf(others).map((one) => `${one} ${any}`);
    // Not the end of one of the names.
    if (!rests.includes("")) parts.push(QUOTE);
    for (const char of firsts) {
      if (intersected([[char.codePointAt(0)!, char.codePointAt(0)!]], PLAIN).length === 0) continue;
      const next = rests.filter((rest) => rest.startsWith(char)).map((rest) =>
        rest.slice(char.length)
      );
      parts.push(`${literal(char)} ${ruleOf(next)}`);
    }
    return rules.add(parts.join(" | "));
  };
  return `${QUOTE} ${ruleOf(names)}`;
}

const MONTH_DAY = '("02" "-" ("0" [1-9] | "1" [0-9] | "2" [0-8]) | ' +
  '("04" | "06" | "09" | "11") "-" ("0" [1-9] | [12] [0-9] | "30") | ' +
  '("01" | "03" | "05" | "07" | "08" | "10" | "12") "-" ("0" [1-9] | [12] [0-9] | "3" [01]))';
const DATE = `[12] [0-9]{3} "-" ${MONTH_DAY}`;
const HOUR = '([01] [0-9] | "2" [0-3])';
const TIME = `${HOUR} ":" [0-5] [0-9] ":" [0-5] [0-9] ("." [0-9]{1,9})? ` +
  `("Z" | [-+] ${HOUR} ":" [0-5] [0-9])`;
const BYTE = '([0-9] | [1-9] [0-9] | "1" [0-9] [0-9] | "2" [0-4] [0-9] | "25" [0-5])';

/** A part of an address of e-mail. A rule of its own: each place in it takes time to compile. */
const LABEL = "[a-zA-Z0-9]{1,20}";

/** What is inside the quotes of strings of a format. */
const FORMATS: Readonly<Record<string, string>> = {
  date: DATE,
  time: TIME,
  "date-time": `${DATE} "T" ${TIME}`,
  uuid: `${HEX}{8} "-" ${HEX}{4} "-" ${HEX}{4} "-" ${HEX}{4} "-" ${HEX}{12}`,
  ipv4: `${BYTE} "." ${BYTE} "." ${BYTE} "." ${BYTE}`,
  email: '[a-zA-Z0-9] [a-zA-Z0-9_-]{0,20} ("." LABEL){0,1} "@" LABEL ("." LABEL){0,2} "." ' +
    "[a-zA-Z]{2,10}",
};

/** Whether strings of a format have a grammar. */
export function isFormat(format: unknown): format is string {
  return typeof format === "string" && Object.hasOwn(FORMATS, format);
}

/** Strings of a format. */
export function formatGrammar(format: string, rules: Rules): string {
  const body = FORMATS[format]!.replaceAll("LABEL", () => rules.add(LABEL));
  return `${QUOTE} ${rules.add(body)} ${QUOTE}`;
}

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
/** The deepest groups of a pattern, and the most repetitions with a limit. */
const DEEPEST = 50, MOST_REPETITIONS = 2000;

/** What a pattern has that no grammar of it is made of. */
class NotSupported extends Error {}

/** A part of a pattern. */
interface Part {
  /** The part alone. */
  readonly text: string;
  readonly isNullable: boolean;
  /** The part with the rule or the text `end` after it: see {@link Rules.characters}. */
  before(end: string): string;
}

/** Reads a regular expression of JavaScript, without the flags but `u`. */
class Pattern {
  readonly #chars: readonly string[];
  readonly #rules: Rules;
  #at = 0;
  #repetitions = 0;

  constructor(source: string, rules: Rules) {
    this.#chars = [...source];
    this.#rules = rules;
  }

  #take(char: string): boolean {
    if (this.#chars[this.#at] !== char) return false;
    this.#at++;
    return true;
  }

  /** The rule of texts that have a part of the pattern, with `end` after them. */
  read(end: string): string {
    const any = this.#rules.characters(CHARS, 0, Infinity, end);
    const parts: string[] = [];
    do {
      const isStart = this.#take("^");
      const body = this.#sequence(0);
      const rest = body.before(this.#take("$") ? end : any);
      if (isStart) parts.push(rest);
      else parts.push(this.#rules.characters(CHARS, 0, Infinity, rest));
    } while (this.#take("|"));
    if (this.#at < this.#chars.length) throw new NotSupported(`"${this.#chars[this.#at]}" there`);
    return this.#rules.add(parts.join(" | "));
  }

  #either(parts: readonly Part[]): Part {
    if (parts.length === 1) return parts[0]!;
    return {
      text: anyOf(parts.map(({ text }) => text)),
      isNullable: parts.some(({ isNullable }) => isNullable),
      before: (end) => this.#rules.add(parts.map((part) => part.before(end)).join(" | ")),
    };
  }

  #alternatives(depth: number): Part {
    if (depth > DEEPEST) throw new NotSupported(`groups deeper than ${DEEPEST}`);
    const parts: Part[] = [];
    do parts.push(this.#sequence(depth)); while (this.#take("|"));
    return this.#either(parts);
  }

  #sequence(depth: number): Part {
    const parts: Part[] = [];
    for (;;) {
      const char = this.#chars[this.#at];
      const isEnd = char === "$" && depth === 0;
      if (char === undefined || char === "|" || char === ")" || isEnd) break;
      parts.push(this.#repeated(this.#atom(depth)));
    }
    return {
      text: parts.length === 0 ? '""' : parts.map(({ text }) => text).join(" "),
      isNullable: parts.every(({ isNullable }) => isNullable),
      before: (end) => parts.reduceRight((next, part) => part.before(next), end),
    };
  }

  #repeated(atom: Part): Part {
    let made: Part;
    const rest = this.#chars.slice(this.#at, this.#at + 24).join("");
    const [whole, least, comma, most] = /^\{(\d+)(,)?(\d+)?\}/.exec(rest) ?? [];
    if (this.#take("*")) made = this.#times(atom, 0, Infinity);
    else if (this.#take("+")) made = this.#times(atom, 1, Infinity);
    else if (this.#take("?")) made = this.#times(atom, 0, 1);
    else if (whole !== undefined) {
      this.#at += whole.length;
      const upper = most !== undefined ? Number(most) : comma === undefined ? least : Infinity;
      made = this.#times(atom, Number(least), Number(upper));
    } else return atom;
    // Whether as few as possible are taken changes nothing for the whole text.
    this.#take("?");
    return made;
  }

  #times(part: Part, least: number, most: number): Part {
    const { text, isNullable } = part;
    return {
      text: `(${times(text, least, most)})`,
      isNullable: isNullable || least === 0,
      before: (end) => {
        this.#repetitions += most < Infinity ? most : least;
        if (this.#repetitions > MOST_REPETITIONS) {
          throw new NotSupported(`more than ${MOST_REPETITIONS} repetitions`);
        }
        let name = end;
        // A rule that begins with itself has no end.
        if (most === Infinity && isNullable) return this.#rules.add(`(${text})* ${end}`);
        if (most === Infinity) {
          name = this.#rules.reserve();
          this.#rules.define(name, `${part.before(name)} | ${end}`);
        } else {
          for (let k = least; k < most; k++) {
            name = this.#rules.add(`${part.before(name)} | ${end}`);
          }
        }
        for (let k = 0; k < least; k++) name = part.before(name);
        return name;
      },
    };
  }

  #atom(depth: number): Part {
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
    if (made.length === 0) throw new NotSupported("a set without characters");
    return {
      text: anyOf(made),
      isNullable: false,
      before: (end) => this.#rules.characters(made, 1, 1, end),
    };
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

/** Strings that match a pattern. */
export function patternGrammar(
  source: string,
  rules: Rules,
  fail: (why: string) => never,
): string {
  try {
    new RegExp(source, "u");
  } catch (error) {
    return fail(error instanceof Error ? error.message : String(error));
  }
  try {
    return `${QUOTE} ${new Pattern(source, rules).read(QUOTE)}`;
  } catch (error) {
    if (error instanceof NotSupported) return fail(`the pattern has ${error.message}`);
    throw error;
  }
}

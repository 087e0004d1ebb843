/**
 * Finds patterns that take exponential time: a repeated part that matches the same text in two ways,
 * so that a text which does not match is tried in all combinations of them.
 *
 * A pattern becomes an automaton of its characters, as Glushkov's: its positions, and which of them
 * follow which. It is exponential if a position leads back to itself by two ways with the same text.
 *
 * @module
 */

/** The longest pattern, and the most characters and classes in it, with those of repetitions. */
const LONGEST = 20_000, MOST_POSITIONS = 200;
/** The most pairs of positions that are compared: patterns of tokenizers need 100,000. */
const MOST_PAIRS = 2_000_000;
/** The most atoms that are read, once for each copy, and the deepest groups. */
const MOST_ATOMS = 5000, DEEPEST = 50;
/** Repetitions above are taken for unlimited ones. */
const MOST_COPIES = 20;

/** Characters that classes of patterns tell apart. */
const SAMPLES: readonly string[] = [
  ...Array.from({ length: 128 }, (_, code) => String.fromCharCode(code)),
  ..."\x85\xa0\u2028\u3000\u200b\ufefféÉßǅʰ中अあア한\u0301\u0903\u20dd٣½Ⅷ€©˅—‿«»„ªı🙂\u{20000}\ue000\u0378",
];

/** A part of a pattern. */
interface Part {
  readonly isEmpty: boolean;
  readonly first: readonly number[];
  readonly last: readonly number[];
}

const EMPTY: Part = { isEmpty: true, first: [], last: [] };

/** What is thrown for a pattern that is no pattern, or has too many positions. */
class Unread extends Error {}

/** Reads a pattern. */
class Automaton {
  readonly #source: string;
  #at = 0;
  #ignoresCase = false;
  #atoms = 0;
  #depth = 0;
  readonly #samples: readonly string[];
  /** For each position, which samples it matches. */
  readonly sets: (readonly boolean[])[] = [];
  /** For each position, how many ways lead to each one that follows. */
  readonly follow: Map<number, number>[] = [];
  /** The patterns of assertions, which are automata of their own. */
  readonly assertions: string[] = [];
  readonly whole: Part;

  constructor(source: string) {
    this.#source = source;
    this.#samples = [...new Set([...SAMPLES, ...source])];
    this.whole = this.#alternatives();
    if (this.#at < source.length) throw new Unread();
  }

  #takes(text: string): boolean {
    if (!this.#source.startsWith(text, this.#at)) return false;
    this.#at += text.length;
    return true;
  }

  #position(atom: string): Part {
    if (this.sets.length === MOST_POSITIONS) throw new Unread();
    let pattern: RegExp | undefined;
    try {
      pattern = new RegExp(`^(?:${atom})$`, this.#ignoresCase ? "iu" : "u");
    } catch {
      // Syntax that JavaScript does not have: any character.
    }
    this.sets.push(this.#samples.map((one) => pattern?.test(one) ?? true));
    this.follow.push(new Map());
    const own = [this.sets.length - 1];
    return { isEmpty: false, first: own, last: own };
  }

  #link(from: readonly number[], to: readonly number[]): void {
    for (const a of from) {
      const next = this.follow[a]!;
      for (const b of to) next.set(b, (next.get(b) ?? 0) + 1);
    }
  }

  #joined(a: Part, b: Part): Part {
    this.#link(a.last, b.first);
    return {
      isEmpty: a.isEmpty && b.isEmpty,
      first: a.isEmpty ? [...a.first, ...b.first] : a.first,
      last: b.isEmpty ? [...a.last, ...b.last] : b.last,
    };
  }

  #alternatives(): Part {
    let all = this.#sequence();
    while (this.#takes("|")) {
      const other = this.#sequence();
      all = {
        isEmpty: all.isEmpty || other.isEmpty,
        first: [...all.first, ...other.first],
        last: [...all.last, ...other.last],
      };
    }
    return all;
  }

  #sequence(): Part {
    let all = EMPTY;
    while (this.#at < this.#source.length && !/[|)]/.test(this.#source[this.#at]!)) {
      all = this.#joined(all, this.#repeated());
    }
    return all;
  }

  /** An atom with its quantifiers: it is read once for each copy. */
  #repeated(): Part {
    const begin = this.#at;
    let part = this.#atom();
    for (;;) {
      const quantifier = /^(?:[*+?]|\{(\d+)(,(\d*))?\})[?+]?/.exec(
        this.#source.slice(this.#at, this.#at + 30),
      );
      if (quantifier === null) return part;
      const [text, few, range, many] = quantifier;
      const end = this.#at + text.length;
      const least = few === undefined ? Number(text[0] === "+") : Number(few);
      const most = few === undefined
        ? text[0] === "?" ? 1 : Infinity
        : range === undefined
        ? least
        : many === ""
        ? Infinity
        : Number(many);
      const isLoop = most > MOST_COPIES;
      const copies = isLoop ? Math.max(1, Math.min(least, MOST_COPIES)) : most;
      if (isLoop && copies === 1) this.#link(part.last, part.first);
      if (least === 0 || copies === 0) part = { ...part, isEmpty: true };
      for (let i = 1; i < copies; i++) {
        const stop = this.#at;
        this.#at = begin;
        const copy = this.#atom();
        this.#at = stop;
        if (isLoop && i === copies - 1) this.#link(copy.last, copy.first);
        part = this.#joined(part, i < least ? copy : { ...copy, isEmpty: true });
      }
      this.#at = end;
    }
  }

  #atom(): Part {
    if (++this.#atoms > MOST_ATOMS) throw new Unread();
    const char = this.#source[this.#at]!;
    if (char === "(") return this.#group();
    if (char === "[") return this.#position(this.#class());
    if (char === "^" || char === "$") {
      this.#at++;
      return EMPTY;
    }
    const escape = /^\\(?:[pP]\{[^}]*\}|u\{[^}]*\}|u[\da-fA-F]{4}|x[\da-fA-F]{2}|x\{[^}]*\}|[^])/u
      .exec(this.#source.slice(this.#at, this.#at + 60));
    if (escape !== null) {
      this.#at += escape[0].length;
      // What a group has matched may be anything.
      if (/^\\[1-9k]/.test(escape[0])) throw new Unread();
      return /^\\[bBAzZG]/.test(escape[0]) ? EMPTY : this.#position(escape[0]);
    }
    if (/[\\*+?)]/.test(char)) throw new Unread();
    const own = String.fromCodePoint(this.#source.codePointAt(this.#at)!);
    this.#at += own.length;
    return this.#position(/[{}\]/]/.test(own) ? `\\${own}` : own);
  }

  /** A class, which may have classes within. */
  #class(): string {
    const begin = this.#at;
    let depth = 0;
    do {
      const char = this.#source[this.#at] ?? "";
      if (char === "") throw new Unread();
      if (char === "\\") this.#at++;
      else if (char === "[") depth++;
      else if (char === "]") depth--;
      this.#at++;
    } while (depth > 0);
    return this.#source.slice(begin, this.#at);
  }

  #group(): Part {
    const rest = this.#source.slice(this.#at, this.#at + 100);
    const [start] = /^\((?:\?(?:[=!:>]|<[=!]|<\w+>|[a-z]*(?:-[a-z]+)?:))?/.exec(rest) ?? [""];
    const before = this.#ignoresCase;
    if (/^\(\?[a-z]*i/.test(start)) this.#ignoresCase = true;
    this.#at += start.length;
    const begin = this.#at, isAssertion = /^\(\?<?[=!]/.test(start);
    const count = this.sets.length;
    if (++this.#depth > DEEPEST) throw new Unread();
    const part = this.#alternatives();
    this.#depth--;
    const end = this.#at;
    if (!this.#takes(")")) throw new Unread();
    this.#ignoresCase = before;
    if (!isAssertion) return part;
    this.sets.length = this.follow.length = count;
    this.assertions.push(this.#source.slice(begin, end));
    return EMPTY;
  }
}

/** Whether two positions match a character in common. */
function overlaps(a: readonly boolean[], b: readonly boolean[]): boolean {
  return a.some((has, i) => has && b[i]!);
}

/** Whether a position leads back to itself by two ways with the same text. */
function isAmbiguous({ sets, follow }: Automaton): boolean {
  const count = sets.length;
  const common = sets.map((a) => sets.map((b) => overlaps(a, b)));
  let compared = 0;
  /**
   * The pairs of positions that two equal texts lead to from a pair, without the pair itself; and the
   * positions that two ways lead to at once.
   */
  const reach = (from: number): { pairs: Set<number>; joints: Set<number> } => {
    const pairs = new Set<number>(), joints = new Set<number>();
    const open = [from];
    for (let pair = open.pop(); pair !== undefined; pair = open.pop()) {
      for (const [a, ways] of follow[Math.floor(pair / count)]!) {
        for (const [b, others] of follow[pair % count]!) {
          if (++compared > MOST_PAIRS) throw new Unread();
          if (!common[a]![b]!) continue;
          if (a === b && ways * others > 1) joints.add(a);
          const next = a * count + b;
          if (pairs.has(next)) continue;
          pairs.add(next);
          open.push(next);
        }
      }
    }
    return { pairs, joints };
  };
  for (let p = 0; p < count; p++) {
    const own = p * count + p;
    const { pairs, joints } = reach(own);
    if (!pairs.has(own)) continue;
    for (const joint of joints) if (reach(joint * count + joint).pairs.has(own)) return true;
    for (const pair of pairs) {
      const isApart = Math.floor(pair / count) !== pair % count;
      if (isApart && reach(pair).pairs.has(own)) return true;
    }
  }
  return false;
}

/** Whether a pattern may take exponential time; true, too, for one that is too long to tell. */
export function isExponential(source: string): boolean {
  if (source.length > LONGEST) return true;
  try {
    const automaton = new Automaton(source);
    return isAmbiguous(automaton) || automaton.assertions.some(isExponential);
  } catch (error) {
    if (error instanceof Unread) return true;
    throw error;
  }
}

/**
 * Methods of texts, lists and dicts.
 *
 * @module
 */
import {
  type Arguments,
  Callable,
  charactersOf,
  type Dict,
  equals,
  integerOf,
  isList,
  iterate,
  keyOf,
  lengthOf,
  sequenceOf,
  sliceIndexes,
  str,
  textOf,
  Tuple,
  typeName,
  type Value,
  View,
} from "./values.ts";
import { fail, ITEM, spend, spendSearch, spendText } from "./work.ts";

/** The separators of ASCII that end lines in Python. */
const SEPARATORS = "\\x1c-\\x1e";
/** Python's white space, which JavaScript's differs from. */
const SPACE =
  "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";

const isSpace = new RegExp(`^[${SPACE}]$`);

/** A text without characters of `chars`, or white space, at its ends. */
export function strip(text: string, chars: string | null, left: boolean, right: boolean): string {
  const set = chars === null ? undefined : new Set(chars);
  const isOut = (char: string): boolean => set === undefined ? isSpace.test(char) : set.has(char);
  spend(text.length);
  let begin = 0, end = text.length;
  while (left && begin < end) {
    const char = String.fromCodePoint(text.codePointAt(begin)!);
    if (!isOut(char)) break;
    begin += char.length;
  }
  while (right && end > begin) {
    const two = text.slice(Math.max(begin, end - 2), end);
    const char = two.codePointAt(0)! > 0xffff ? two : two.slice(-1);
    if (!isOut(char)) break;
    end -= char.length;
  }
  return text.slice(begin, end);
}

/** The lines of a text, as Python ends them. */
export function linesOf(text: string, keep = false): string[] {
  spend(text.length);
  const ends = new RegExp(`\\r\\n|[\\n\\v\\f\\r${SEPARATORS}\\x85\\u2028\\u2029]`, "g");
  const lines: string[] = [];
  let at = 0;
  for (const { 0: end, index } of text.matchAll(ends)) {
    lines.push(text.slice(at, keep ? index + end.length : index));
    at = index + end.length;
  }
  if (at < text.length) lines.push(text.slice(at));
  return lines;
}

/** A character at the start of a word. JavaScript has no case for titles, as of `ß` and `ǆ`. */
function titled(char: string): string {
  const upper = char.toUpperCase();
  if (char === "ß") return "Ss";
  if (/^[\u10d0-\u10ff]$/.test(char)) return char;
  const isOne = upper.length === char.length && !/^[\u01c4-\u01cc\u01f1-\u01f3]$/.test(char);
  return isOne ? upper : fail(`the letter ${char} at the start of a title`);
}

/** Python's `capitalize`. */
export function capitalize(text: string): string {
  const [first = ""] = text;
  return titled(first) + text.slice(first.length).toLowerCase();
}

/** Python's `split` and `rsplit`. */
function split(text: string, by: string | null, most: number, isRight: boolean): string[] {
  const limit = most < 0 ? Infinity : most;
  if (by === "") fail("an empty separator");
  spend(ITEM * text.length);
  spendSearch(text.length, by?.length ?? 1);
  if (!isRight) {
    const parts: string[] = [];
    let rest = by === null ? strip(text, null, true, false) : text;
    if (by === null && rest === "") return [];
    const space = new RegExp(`[${SPACE}]+`);
    while (parts.length < limit) {
      const found = by === null ? space.exec(rest) : undefined;
      const at = by === null ? found?.index ?? -1 : rest.indexOf(by);
      if (at < 0) break;
      parts.push(rest.slice(0, at));
      rest = rest.slice(at + (by === null ? found![0].length : by.length));
      if (by === null && rest === "") return parts;
    }
    return [...parts, rest];
  }
  if (by === null) {
    if (limit !== Infinity) fail("rsplit() of white space with a limit");
    return split(text, null, -1, false);
  }
  const all = text.split(by);
  if (all.length <= limit + 1) return all;
  const cut = all.length - limit;
  return [all.slice(0, cut).join(by), ...all.slice(cut)];
}

/** Python's `replace`. */
export function replace(text: string, from: string, to: string, most: number): string {
  const limit = most < 0 ? Infinity : most;
  spend(ITEM * text.length);
  spendSearch(text.length, from.length);
  const parts = from === "" ? ["", ...text, ""] : text.split(from);
  const count = Math.min(parts.length - 1, limit);
  spendText(text.length + count * to.length);
  if (limit >= parts.length - 1) return parts.join(to);
  return parts.slice(0, limit + 1).join(to) + from + parts.slice(limit + 1).join(from);
}

/** The arguments of a call by the names of its parameters; undefined for those that are left out. */
export function bind(
  name: string,
  { list, named }: Arguments,
  parameters: readonly string[],
  needed = 0,
): (Value | undefined)[] {
  if (list.length > parameters.length) fail(`${name}() takes ${parameters.length} arguments`);
  const values: (Value | undefined)[] = parameters.map((_, i) => list[i]);
  for (const [key, value] of named) {
    const place = parameters.indexOf(key);
    if (place < 0 || values[place] !== undefined) fail(`${name}() does not take ${key}`);
    values[place] = value;
  }
  for (let i = 0; i < needed; i++) {
    if (values[i] === undefined) fail(`${name}() needs ${parameters[i]}`);
  }
  return values;
}

/** Python's `str.format` of simple fields. */
function formatFields(text: string, { list, named }: Arguments): string {
  spend(ITEM * text.length);
  let used = 0;
  return text.replace(/\{\{|\}\}|\{([^{}]*)\}|[{}]/g, (whole, field: string | undefined) => {
    if (whole === "{{" || whole === "}}") return whole[0]!;
    if (field === undefined || !/^\w*$/.test(field)) fail(`the field ${whole} of format()`);
    const isNumber = /^\d*$/.test(field);
    const value = isNumber ? list[field === "" ? used++ : Number(field)] : named.get(field);
    const made = value === undefined ? fail(`format() has no value for ${whole}`) : str(value);
    spendText(made.length);
    return made;
  });
}

type Method<T> = (self: T, args: Arguments) => Value;

/** A text, with the work of reading it. */
function spentOn(text: string): string {
  spend(text.length);
  return text;
}

/** Whether all characters of a text, which has some, are of a kind. */
const all = (pattern: RegExp): Method<string> => (text) => pattern.test(spentOn(text));
/** Whether a text has letters of one case and none of the other. */
const ofCase = (own: RegExp, other: RegExp): Method<string> => (text) =>
  own.test(spentOn(text)) && !other.test(text);
const UPPER = /\p{Lu}/u, LOWER = /\p{Ll}/u;

function affixes(name: string, args: Arguments): readonly string[] {
  const [given, ...rest] = bind(name, args, ["affix", "start", "end"], 1);
  if (rest.some((one) => one !== undefined)) fail(`${name}() from a place on`);
  const list = given instanceof Tuple ? given.items : [given!];
  return list.map((one) => {
    const affix = textOf(one, `the argument of ${name}()`);
    spend(ITEM + affix.length);
    return affix;
  });
}

const stripper = (name: string, left: boolean, right: boolean): Method<string> => (text, args) => {
  const [chars = null] = bind(name, args, ["chars"]);
  return strip(
    text,
    chars === null ? null : textOf(chars, `the argument of ${name}()`),
    left,
    right,
  );
};

const splitter = (name: string, isRight: boolean): Method<string> => (text, args) => {
  const [by = null, most = -1] = bind(name, args, ["sep", "maxsplit"]);
  const separator = by === null ? null : textOf(by, `the separator of ${name}()`);
  return split(text, separator, integerOf(most, `the limit of ${name}()`), isRight);
};

const finder = (name: string, isLast: boolean, mustBe: boolean): Method<string> => (text, args) => {
  const [part] = bind(name, args, ["sub"], 1);
  const wanted = textOf(part!, `the argument of ${name}()`);
  spendSearch(text.length, wanted.length);
  const at = isLast ? text.lastIndexOf(wanted) : text.indexOf(wanted);
  if (at < 0 && mustBe) fail(`${name}() has not found ${JSON.stringify(wanted.slice(0, 60))}`);
  return at < 0 ? -1 : lengthOf(text.slice(0, at));
};

const padder = (name: string): Method<string> => (text, args) => {
  const [width, fill = " "] = bind(name, args, ["width", "fillchar"], 1);
  const wide = integerOf(width!, `the width of ${name}()`);
  spendText(Math.max(0, wide));
  const missing = Math.max(0, wide - lengthOf(text));
  const by = textOf(fill, `the filling of ${name}()`);
  if (name === "ljust") return text + by.repeat(missing);
  if (name === "rjust") return by.repeat(missing) + text;
  const left = Math.floor(missing / 2) + (missing & wide & 1);
  return by.repeat(left) + text + by.repeat(missing - left);
};

const parted = (name: string, isLast: boolean): Method<string> => (text, args) => {
  const [given] = bind(name, args, ["sep"], 1);
  const by = textOf(given!, `the argument of ${name}()`);
  if (by === "") fail("an empty separator");
  spendSearch(text.length, by.length);
  const at = isLast ? text.lastIndexOf(by) : text.indexOf(by);
  if (at < 0) return new Tuple(isLast ? ["", "", text] : [text, "", ""]);
  return new Tuple([text.slice(0, at), by, text.slice(at + by.length)]);
};

/** The methods of texts. */
const TEXT: Readonly<Record<string, Method<string>>> = {
  upper: (text) => spentOn(text).toUpperCase(),
  lower: (text) => spentOn(text).toLowerCase(),
  casefold: (text) => /[^ -~\s]/.test(text) ? fail("casefold()") : spentOn(text).toLowerCase(),
  capitalize: (text) => capitalize(spentOn(text)),
  title: (text) => spentOn(text).replace(/\p{L}+/gu, capitalize),
  strip: stripper("strip", true, true),
  lstrip: stripper("lstrip", true, false),
  rstrip: stripper("rstrip", false, true),
  split: splitter("split", false),
  rsplit: splitter("rsplit", true),
  splitlines: (text, args) => linesOf(text, bind("splitlines", args, ["keepends"])[0] === true),
  startswith: (text, args) => affixes("startswith", args).some((one) => text.startsWith(one)),
  endswith: (text, args) => affixes("endswith", args).some((one) => text.endsWith(one)),
  removeprefix: (text, args) => {
    const [prefix = ""] = affixes("removeprefix", args);
    return text.startsWith(prefix) ? text.slice(prefix.length) : text;
  },
  removesuffix: (text, args) => {
    const [suffix = ""] = affixes("removesuffix", args);
    return suffix !== "" && text.endsWith(suffix) ? text.slice(0, -suffix.length) : text;
  },
  replace: (text, args) => {
    const [from, to, most = -1] = bind("replace", args, ["old", "new", "count"], 2);
    const [old, by] = [textOf(from!, "what is replaced"), textOf(to!, "the replacement")];
    return replace(text, old, by, integerOf(most, "the limit of replace()"));
  },
  join: (text, args) => {
    const [items] = bind("join", args, ["iterable"], 1);
    const parts = iterate(items!).map((one) => textOf(one, "an item of join()"));
    spendText(parts.reduce((sum, { length }) => sum + length + text.length, 0));
    return parts.join(text);
  },
  find: finder("find", false, false),
  rfind: finder("rfind", true, false),
  index: finder("index", false, true),
  rindex: finder("rindex", true, true),
  count: (text, args) => {
    const [part] = bind("count", args, ["sub"], 1);
    const wanted = textOf(part!, "the argument of count()");
    spend(ITEM * text.length);
    spendSearch(text.length, wanted.length);
    return wanted === "" ? lengthOf(text) + 1 : text.split(wanted).length - 1;
  },
  ljust: padder("ljust"),
  rjust: padder("rjust"),
  center: padder("center"),
  zfill: (text, args) => {
    const [width] = bind("zfill", args, ["width"], 1);
    const wide = integerOf(width!, "the width of zfill()");
    spendText(Math.max(0, wide));
    const sign = /^[+-]/.test(text) ? 1 : 0;
    return text.slice(0, sign) + "0".repeat(Math.max(0, wide - lengthOf(text))) +
      text.slice(sign);
  },
  partition: parted("partition", false),
  rpartition: parted("rpartition", true),
  format: formatFields,
  isdigit: all(/^[\p{Nd}²³¹⁰⁴-⁹₀-₉]+$/u),
  isdecimal: all(/^\p{Nd}+$/u),
  isnumeric: all(/^\p{N}+$/u),
  isalpha: all(/^\p{L}+$/u),
  isalnum: all(/^[\p{L}\p{N}]+$/u),
  isspace: all(new RegExp(`^[${SPACE}]+$`)),
  isupper: ofCase(UPPER, LOWER),
  islower: ofCase(LOWER, UPPER),
};

/** The methods of lists and tuples. */
const LIST: Readonly<Record<string, Method<readonly Value[]>>> = {
  index: (items, args) => {
    const [wanted] = bind("index", args, ["value"], 1);
    const at = items.findIndex((one) => equals(one, wanted!));
    return at < 0 ? fail("index() has not found the value") : at;
  },
  count: (items, args) => {
    const [wanted] = bind("count", args, ["value"], 1);
    return items.filter((one) => equals(one, wanted!)).length;
  },
};

/** The methods of dicts. */
const DICT: Readonly<Record<string, Method<Dict>>> = {
  get: (dict, args) => {
    const [key, otherwise = null] = bind("get", args, ["key", "default"], 1);
    const own = keyOf(key!);
    const value = own === undefined ? undefined : dict.get(own);
    return value === undefined ? otherwise : value;
  },
  items: (dict, args) => {
    bind("items", args, []);
    spend(ITEM * dict.size);
    return new View([...dict].map((item) => new Tuple(item)), "dict_items", false);
  },
  keys: (dict, args) => {
    bind("keys", args, []);
    return new View([...dict.keys()], "dict_keys", false);
  },
  values: (dict, args) => {
    bind("values", args, []);
    return new View([...dict.values()], "dict_values", false);
  },
  copy: (dict) => new Map(dict),
};

/** Methods that change a list or a dict: the sandbox of transformers has none of them. */
const CHANGING_LIST: ReadonlySet<string> = new Set([
  ...["append", "extend", "insert", "pop", "remove", "reverse", "sort", "clear", "copy"],
]);
const CHANGING_DICT: ReadonlySet<string> = new Set([
  ...["pop", "clear", "update", "setdefault", "popitem", "fromkeys"],
]);
/** Attributes that Python has and this does not. */
const OTHERS: ReadonlySet<string> = new Set([
  ...["encode", "expandtabs", "format_map", "isascii", "isidentifier", "isprintable", "istitle"],
  ...["maketrans", "swapcase", "translate", "real", "imag", "numerator"],
  ...["denominator", "conjugate", "bit_length", "bit_count", "as_integer_ratio", "is_integer"],
  ...["hex", "to_bytes", "from_bytes", "fromhex", "start", "stop", "step", "mapping", "isdisjoint"],
]);

function bound<T>(
  table: Readonly<Record<string, Method<T>>>,
  self: T,
  name: string,
): Callable | undefined {
  if (!Object.hasOwn(table, name)) return undefined;
  const method = table[name]!;
  return new Callable((args) => method(self, args));
}

/** The attribute of a value that Python's class has; undefined if there is none. */
export function attributeOf(value: Value, name: string): Value | undefined {
  if (name.startsWith("__")) fail(`the attribute ${JSON.stringify(name.slice(0, 60))}`);
  let found: Callable | undefined;
  if (typeof value === "string") found = bound(TEXT, value, name);
  else if (value instanceof Map) found = bound(DICT, value, name);
  else if (isList(value) || value instanceof Tuple) {
    found = bound(LIST, sequenceOf(value)!, name);
  }
  if (found !== undefined) return found;
  const isPython = value instanceof Map
    ? CHANGING_DICT.has(name)
    : isList(value)
    ? CHANGING_LIST.has(name)
    : value !== null && OTHERS.has(name);
  if (isPython) fail(`the attribute ${name} of a ${typeName(value)}`);
  return undefined;
}

/** What `value[start:stop:step]` is; throws if the value has no slices. */
export function sliceOf(
  value: Value,
  start: number | undefined,
  stop: number | undefined,
  step: number,
): Value {
  if (typeof value === "string") {
    const chars = charactersOf(value);
    return sliceIndexes(chars.length, start, stop, step).map((i) => chars[i]!).join("");
  }
  if (value instanceof View && value.isRange) fail("a slice of a range");
  const items = isList(value) || value instanceof Tuple ? sequenceOf(value)! : undefined;
  if (items === undefined) return fail(`a slice of a ${typeName(value)}`);
  const cut = sliceIndexes(items.length, start, stop, step).map((i) => items[i]!);
  return value instanceof Tuple ? new Tuple(cut) : cut;
}

/**
 * What Python prints: `'%s' % x`, JSON, dates.
 *
 * @module
 */
import {
  charactersOf,
  compare,
  Float,
  floatText,
  integerOf,
  isList,
  lengthOf,
  NODE,
  numberOf,
  repr,
  Safe,
  sequenceOf,
  str,
  Tuple,
  typeName,
  Undefined,
  type Value,
} from "./values.ts";
import { fail, ITEM, spend, spendText, STEP } from "./work.ts";

/** The widest field of a format. */
const WIDEST = 10_000;

function padded(text: string, flags: string, width: number): string {
  spendText(Math.max(text.length, width));
  const missing = width - lengthOf(text);
  if (missing <= 0) return text;
  if (flags.includes("-")) return text + " ".repeat(missing);
  if (!flags.includes("0")) return " ".repeat(missing) + text;
  const sign = /^[+-]/.test(text) ? 1 : 0;
  return text.slice(0, sign) + "0".repeat(missing) + text.slice(sign);
}

/** A number with a count of decimals, half of ties to even, as in Python. */
export function fixedText(value: number, decimals: number): string {
  if (!Number.isFinite(value)) return floatText(value);
  if (decimals > 100) fail(`a number with ${decimals} decimals`);
  const text = value.toFixed(decimals);
  if (Math.abs(value) >= 1e21) fail("a number of that size has no decimals here");
  // A tie is exact in binary; JavaScript rounds it up.
  const scaled = Math.abs(value) * 10 ** decimals, low = Math.floor(scaled);
  const isTie = scaled - low === 0.5 && scaled / 10 ** decimals === Math.abs(value) &&
    decimals < 16;
  if (!isTie || low % 2 !== 0) return text;
  return `${value < 0 ? "-" : ""}${(low / 10 ** decimals).toFixed(decimals)}`;
}

/** Python's `pattern % given`. */
export function formatText(pattern: string, given: Value): string {
  const items = given instanceof Tuple ? given.items : [given];
  let used = 0;
  spend(ITEM * pattern.length);
  const form = /%(?:\(([^)]*)\))?([-+ 0#]*)(\d+)?(?:\.(\d+))?(.?)/gs;
  const text = pattern.replace(
    form,
    (_, key: string | undefined, flags: string, wide = "0", precision, kind: string) => {
      if (kind === "%") return "%";
      const width = Number(wide);
      if (width > WIDEST) fail(`a field of ${width} characters`);
      if (/[ #]/.test(flags)) fail(`the flags ${JSON.stringify(flags)} of a format`);
      let value: Value | undefined;
      if (key === undefined) value = items[used++];
      else if (given instanceof Map) {
        used = items.length;
        value = given.get(key);
      }
      if (value === undefined) fail("a format has not enough values");
      if (value instanceof Undefined && kind !== "s") value.fail();
      const signed = (text: string) => flags.includes("+") && text[0] !== "-" ? `+${text}` : text;
      const number = (): number =>
        numberOf(value) ?? fail(`a ${typeName(value)} in a format of numbers`);
      switch (kind) {
        case "s":
        case "r": {
          const whole = kind === "s" ? str(value) : repr(value);
          const cut = precision === undefined
            ? whole
            : charactersOf(whole).slice(0, precision).join("");
          return padded(cut, flags.replace("0", ""), width);
        }
        case "d":
        case "i":
        case "u":
          if (precision !== undefined) fail("an integer with a precision");
          return padded(signed(String(Math.trunc(number()))), flags, width);
        case "f":
        case "F":
          return padded(signed(fixedText(number(), Number(precision ?? 6))), flags, width);
        case "x":
        case "X": {
          const digits = integerOf(value, "a value of %x").toString(16);
          return padded(signed(kind === "x" ? digits : digits.toUpperCase()), flags, width);
        }
        default:
          return fail(`the format %${kind}`);
      }
    },
  );
  // A dict or a list without a use is no error in Python.
  const isLeft = used < items.length &&
    (given instanceof Tuple || !(given instanceof Map || isList(given)));
  if (isLeft) fail("a format has too many values");
  return text;
}

/** How JSON is written. */
export interface JsonOptions {
  readonly indent: number | string | undefined;
  readonly isAscii: boolean;
  readonly isSorted: boolean;
  readonly separators: readonly [item: string, key: string];
}

function jsonText(text: string, isAscii: boolean): string {
  const quoted = JSON.stringify(text);
  if (!isAscii) return quoted;
  return quoted.replace(
    /[\x7f-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** Python's `json.dumps`. */
export function toJson(value: Value, options: JsonOptions, depth = 0): string {
  spend(typeof value === "string" ? value.length + NODE : NODE);
  if (depth > 100) fail("a value of more than 100 levels as JSON");
  if (value === null) return "null";
  if (typeof value === "boolean" || typeof value === "number") return String(value);
  if (value instanceof Float) {
    const text = floatText(value.value);
    return { nan: "NaN", inf: "Infinity", "-inf": "-Infinity" }[text] ?? text;
  }
  const { indent, isAscii, isSorted, separators: [item, colon] } = options;
  if (typeof value === "string") return jsonText(value, isAscii);
  if (value instanceof Safe) return jsonText(value.text, isAscii);
  const one = typeof indent === "number" ? " ".repeat(indent) : indent;
  const joined = (parts: readonly string[], open: string, close: string): string => {
    const between = item.length + (one?.length ?? 0) * (depth + 1) + 1;
    spendText(parts.reduce((sum, { length }) => sum + length + between, between));
    if (parts.length === 0 || one === undefined) return open + parts.join(item) + close;
    const line = `\n${one.repeat(depth + 1)}`;
    return open + line + parts.join(item + line) + `\n${one.repeat(depth)}` + close;
  };
  if (value instanceof Map) {
    const entries = [...value];
    if (isSorted) entries.sort(([a], [b]) => compare(a, b));
    const parts = entries.map(([key, field]) =>
      jsonText(String(key), isAscii) + colon + toJson(field, options, depth + 1)
    );
    return joined(parts, "{", "}");
  }
  const items = isList(value) || value instanceof Tuple ? sequenceOf(value) : undefined;
  if (items === undefined) return fail(`a ${typeName(value)} has no JSON`);
  return joined(items.map((field) => toJson(field, options, depth + 1)), "[", "]");
}

const MONTHS = [
  ...["January", "February", "March", "April", "May", "June", "July", "August", "September"],
  ...["October", "November", "December"],
];
const DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/** Python's `strftime`, in English and in local time. */
export function dateText(date: Date, pattern: string): string {
  const two = (value: number): string => String(value).padStart(2, "0");
  const hour = date.getHours() % 12 === 0 ? 12 : date.getHours() % 12;
  const month = MONTHS[date.getMonth()]!, day = DAYS[date.getDay()]!;
  const first = new Date(date.getFullYear(), 0, 1);
  const dayOfYear = Math.round((date.getTime() - first.getTime()) / 86_400_000 + 0.5);
  const parts: Readonly<Record<string, string>> = {
    Y: String(date.getFullYear()),
    y: two(date.getFullYear() % 100),
    m: two(date.getMonth() + 1),
    B: month,
    b: month.slice(0, 3),
    d: two(date.getDate()),
    e: String(date.getDate()).padStart(2, " "),
    A: day,
    a: day.slice(0, 3),
    H: two(date.getHours()),
    I: two(hour),
    M: two(date.getMinutes()),
    S: two(date.getSeconds()),
    p: date.getHours() < 12 ? "AM" : "PM",
    j: String(dayOfYear).padStart(3, "0"),
    "-d": String(date.getDate()),
    "-m": String(date.getMonth() + 1),
    "-H": String(date.getHours()),
    "-I": String(hour),
    "%": "%",
  };
  spend(STEP * pattern.length);
  return pattern.replace(
    /%(-?.?)/gs,
    (whole, kind: string) =>
      Object.hasOwn(parts, kind) ? parts[kind]! : fail(`the date format ${JSON.stringify(whole)}`),
  );
}

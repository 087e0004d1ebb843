/**
 * The values of templates, with the meaning that Python gives them.
 *
 * @module
 */
import { listIn } from "../../base/shape.ts";
import { fail, ITEM, spend, spendSearch } from "./work.ts";

/** A value that there is not. */
export class Undefined {
  readonly name: string;

  constructor(name: string) {
    this.name = name;
  }

  /** Throws: most uses of such a value are errors. */
  fail(): never {
    return fail(`${JSON.stringify(this.name.slice(0, 60))} is undefined`);
  }
}

/** A value, or an undefined one if there is none: `??` would replace None, too. */
export function orUndefined(value: Value | undefined, name: string): Value {
  return value === undefined ? new Undefined(name) : value;
}

/** A number that is no integer in Python, whatever its value. */
export class Float {
  readonly value: number;

  constructor(value: number) {
    this.value = value;
  }
}

/** A tuple. */
export class Tuple {
  readonly items: readonly Value[];

  constructor(items: readonly Value[]) {
    this.items = items;
  }
}

/** A range, or a view of a dict: values that print in a way of their own. */
export class View {
  readonly items: readonly Value[];
  /** What precedes the values in print; a range prints its bounds. */
  readonly print: string;
  readonly isRange: boolean;

  constructor(items: readonly Value[], print: string, isRange: boolean) {
    this.items = items;
    this.print = print;
    this.isRange = isRange;
  }
}

/** Values that are there once, as those of a generator. */
export class Lazy {
  readonly #items: readonly Value[];
  #at = 0;

  constructor(items: readonly Value[]) {
    this.#items = items;
  }

  /** The values that are left, which are taken. */
  take(count: number = Infinity): readonly Value[] {
    const taken = this.#items.slice(this.#at, this.#at + count);
    this.#at += taken.length;
    return taken;
  }
}

/** What `namespace()` makes. */
export class Namespace {
  readonly values: Map<string, Value>;

  constructor(values: Map<string, Value>) {
    this.values = values;
  }
}

/** The arguments of a call. */
export interface Arguments {
  readonly list: readonly Value[];
  readonly named: ReadonlyMap<string, Value>;
}

/** A function, a method or a macro. */
export class Callable {
  readonly call: (args: Arguments) => Value;

  constructor(call: (args: Arguments) => Value) {
    this.call = call;
  }
}

/** A value that has attributes alone: the variable `loop`. */
export class Fixed {
  readonly get: (name: string) => Value | undefined;

  constructor(get: (name: string) => Value | undefined) {
    this.get = get;
  }
}

/** A text that is marked as safe HTML: other texts that are added to it are escaped. */
export class Safe {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** A key of a dict: a text or an integer. */
export type Key = string | number;

/** A dict. */
export type Dict = Map<Key, Value>;

/** A value. Integers are numbers. */
export type Value =
  | Undefined
  | null
  | boolean
  | number
  | Float
  | string
  | Safe
  | readonly Value[]
  | Tuple
  | View
  | Lazy
  | Dict
  | Namespace
  | Callable
  | Fixed;

/** The deepest value. */
const DEEPEST = 100;

/** The value of what a program passes. */
export function valueOf(given: unknown, depth = 0): Value {
  if (depth > DEEPEST) fail(`a value has more than ${DEEPEST} levels`);
  switch (typeof given) {
    case "string":
    case "boolean":
      return given;
    case "number":
      return Number.isSafeInteger(given) ? given : new Float(given);
    case "undefined":
      return new Undefined("a variable");
    case "object": {
      if (given === null) return null;
      const list = listIn(given, (one) => valueOf(one, depth + 1));
      if (list !== undefined) return list;
      const dict: Dict = new Map();
      for (const [key, value] of Object.entries(given)) {
        // As in JSON, where such a field is not there.
        if (value !== undefined) dict.set(key, valueOf(value, depth + 1));
      }
      return dict;
    }
    default:
      return fail(`a variable is a ${typeof given}, which templates do not have`);
  }
}

/** The key that finds an entry of a dict; undefined for a value that is in none. */
export function keyOf(value: Value): Key | undefined {
  if (typeof value === "string" || typeof value === "number") return value;
  if (value instanceof Safe) return value.text;
  if (typeof value === "boolean" || value instanceof Float) return numberOf(value);
  if (value === null || value instanceof Undefined) return undefined;
  return fail(`a ${typeName(value)} is no key of a dict`);
}

/** Whether a value is a list. */
export function isList(value: Value): value is readonly Value[] {
  return Array.isArray(value);
}

/** The name of a value's type, for errors. */
export function typeName(value: Value): string {
  if (value === null) return "None";
  if (typeof value === "string") return "str";
  if (typeof value === "boolean") return "bool";
  if (typeof value === "number") return "int";
  if (isList(value)) return "list";
  if (value instanceof Map) return "dict";
  if (value instanceof Lazy) return "generator";
  if (value instanceof Safe) return "safe text";
  if (value instanceof Undefined) return "undefined value";
  if (value instanceof Float) return "float";
  if (value instanceof Tuple) return "tuple";
  if (value instanceof View) return value.isRange ? "range" : value.print;
  if (value instanceof Namespace) return "namespace";
  return value instanceof Callable ? "function" : "loop";
}

/** Python's text of a float. */
export function floatText(value: number): string {
  if (Number.isNaN(value)) return "nan";
  if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf";
  const [digits = "", power = ""] = value.toExponential().split("e");
  const exponent = Number(power);
  if (exponent >= -4 && exponent < 16) {
    const text = Object.is(value, -0) ? "-0" : String(value);
    return text.includes(".") ? text : `${text}.0`;
  }
  const sign = exponent < 0 ? "-" : "+";
  return `${digits}e${sign}${String(Math.abs(exponent)).padStart(2, "0")}`;
}

/** Python's literal of a text. */
function textLiteral(text: string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  const escaped = text.replace(/[\\'"]|[\p{C}\p{Z}]/gu, (char) => {
    if (char === " ") return char;
    if (char === "'" || char === '"') return char === quote ? `\\${char}` : char;
    if (char === "\\") return "\\\\";
    if (char === "\n") return "\\n";
    if (char === "\r") return "\\r";
    if (char === "\t") return "\\t";
    const code = char.codePointAt(0)!;
    const hex = code.toString(16);
    if (code < 0x100) return `\\x${hex.padStart(2, "0")}`;
    return code < 0x10000 ? `\\u${hex.padStart(4, "0")}` : `\\U${hex.padStart(8, "0")}`;
  });
  return quote + escaped + quote;
}

/** The work of a value beside its characters. */
export const NODE = 32;

/** Python's `repr`. */
export function repr(value: Value): string {
  spend(typeof value === "string" ? value.length + NODE : NODE);
  const all = (items: readonly Value[]) => items.map((one) => repr(one)).join(", ");
  if (typeof value === "string") return textLiteral(value);
  if (isList(value)) return `[${all(value)}]`;
  if (value instanceof Tuple) {
    return value.items.length === 1 ? `(${all(value.items)},)` : `(${all(value.items)})`;
  }
  if (value instanceof View) {
    return value.isRange ? value.print : `${value.print}([${all(value.items)}])`;
  }
  if (value instanceof Map) {
    const items = Array.from(value, ([key, one]) => `${repr(key)}: ${repr(one)}`);
    return `{${items.join(", ")}}`;
  }
  if (value instanceof Undefined) return "Undefined";
  if (value instanceof Safe) fail("a safe text in another value");
  return str(value);
}

/** Python's `str`. */
export function str(value: Value): string {
  if (typeof value === "string") return value;
  if (value === null) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (typeof value === "number") return String(value);
  if (value instanceof Float) return floatText(value.value);
  if (value instanceof Safe) return value.text;
  if (value instanceof Undefined) return "";
  const isPrinted = isList(value) || value instanceof Tuple || value instanceof View ||
    value instanceof Map;
  if (isPrinted) return repr(value);
  return fail(`a ${typeName(value)} has no text`);
}

/** Whether a condition holds for a value. */
export function truth(value: Value): boolean {
  if (value === null || value instanceof Undefined) return false;
  if (typeof value === "boolean") return value;
  if (typeof value === "number") return value !== 0;
  if (value instanceof Float) return value.value !== 0;
  if (typeof value === "string" || isList(value)) return value.length > 0;
  if (value instanceof Map) return value.size > 0;
  if (value instanceof Safe) return value.text !== "";
  if (value instanceof Tuple || value instanceof View) return value.items.length > 0;
  return true;
}

/** The number of a value that Python computes with; undefined for others. */
export function numberOf(value: Value): number | undefined {
  if (typeof value === "number") return value;
  if (typeof value === "boolean") return Number(value);
  return value instanceof Float ? value.value : undefined;
}

/** The integer of a value; throws for others. */
export function integerOf(value: Value, what: string): number {
  if (typeof value === "number") return value;
  if (typeof value === "boolean") return Number(value);
  return fail(`${what} is a ${typeName(value)}, not an integer`);
}

/** The text of a value; throws for others. */
export function textOf(value: Value, what: string): string {
  return typeof value === "string" ? value : fail(`${what} is a ${typeName(value)}, not a text`);
}

/** The items of a list or a tuple, a range or a view; undefined for others. */
export function sequenceOf(value: Value): readonly Value[] | undefined {
  if (isList(value)) return value;
  return value instanceof Tuple || value instanceof View ? value.items : undefined;
}

/** The items of a value that is no sequence. */
function itemsOf(value: Value): readonly Value[] {
  if (typeof value === "string") return charactersOf(value);
  if (value instanceof Map) return [...value.keys()];
  if (value instanceof Undefined) return [];
  if (value instanceof Lazy) return value.take();
  return fail(`a ${typeName(value)} has no items`);
}

/** The characters of a text, as Python counts them. */
export function charactersOf(text: string): string[] {
  spend(ITEM * text.length);
  return [...text];
}

/** The character of a text at an index, as Python counts them; undefined if there is none. */
export function characterAt(text: string, index: number): string | undefined {
  spend(text.length);
  return /[\ud800-\udfff]/.test(text) ? charactersOf(text).at(index) : text.at(index);
}

/** Takes the work of reading or making a value; returns it. */
export function charge(value: Value): Value {
  if (typeof value === "string") spend(value.length);
  else if (value instanceof Safe) spend(value.text.length);
  else if (value instanceof Map) spend(ITEM * value.size);
  else spend(ITEM * (sequenceOf(value)?.length ?? 1));
  return value;
}

/** The values that a loop over a value has. */
export function iterate(value: Value): readonly Value[] {
  const items = sequenceOf(value) ?? itemsOf(value);
  spend(ITEM * items.length);
  return items;
}

/** Python's `len`. */
export function lengthOf(value: Value): number {
  if (typeof value === "string") {
    spend(value.length);
    let count = value.length;
    for (let i = 1; i < value.length; i++) {
      const isPair = (value.charCodeAt(i) & 0xfc00) === 0xdc00 &&
        (value.charCodeAt(i - 1) & 0xfc00) === 0xd800;
      if (isPair) count--;
    }
    return count;
  }
  if (value instanceof Map) return value.size;
  if (value instanceof Undefined) return 0;
  return sequenceOf(value)?.length ?? fail(`a ${typeName(value)} has no length`);
}

/** Python's `==`. */
export function equals(a: Value, b: Value): boolean {
  spend(NODE);
  if (a instanceof Safe) return equals(a.text, b);
  if (b instanceof Safe) return equals(a, b.text);
  if (typeof a === "string" && typeof b === "string" && a.length === b.length) spend(a.length);
  const [x, y] = [numberOf(a), numberOf(b)];
  if (x !== undefined || y !== undefined) return x === y;
  if (a === b) return true;
  if (a instanceof Undefined) return b instanceof Undefined;
  if (a instanceof Map) {
    return b instanceof Map && a.size === b.size &&
      [...a].every(([key, value]) => b.has(key) && equals(value, b.get(key)!));
  }
  const areAlike = isList(a) && isList(b) || a instanceof Tuple && b instanceof Tuple ||
    a instanceof View && b instanceof View && a.isRange && b.isRange;
  const [left, right] = [sequenceOf(a), sequenceOf(b)];
  if (!areAlike || left === undefined || right === undefined) return false;
  return left.length === right.length && left.every((one, i) => equals(one, right[i]!));
}

/** The order of two texts by their code points. */
function compareTexts(a: string, b: string): number {
  spend(Math.min(a.length, b.length));
  if (a === b) return 0;
  let i = 0;
  while (i < a.length && i < b.length && a[i] === b[i]) i++;
  if (i === a.length || i === b.length) return a.length - b.length;
  // A half of a surrogate pair is above all others.
  const rank = (unit: number): number => unit >= 0xd800 && unit < 0xe000 ? unit + 0x10000 : unit;
  return rank(a.charCodeAt(i)) - rank(b.charCodeAt(i));
}

/** The order of two values: below 0, 0 or above; throws where Python has none. */
export function compare(a: Value, b: Value): number {
  spend(NODE);
  const [x, y] = [numberOf(a), numberOf(b)];
  if (x !== undefined && y !== undefined) return x < y ? -1 : x > y ? 1 : 0;
  if (typeof a === "string" && typeof b === "string") return compareTexts(a, b);
  const areAlike = isList(a) && isList(b) || a instanceof Tuple && b instanceof Tuple;
  const [left, right] = [sequenceOf(a), sequenceOf(b)];
  if (areAlike && left !== undefined && right !== undefined) {
    for (let i = 0; i < left.length && i < right.length; i++) {
      if (!equals(left[i]!, right[i]!)) return compare(left[i]!, right[i]!);
    }
    return left.length - right.length;
  }
  for (const one of [a, b]) if (one instanceof Undefined) one.fail();
  return fail(`a ${typeName(a)} and a ${typeName(b)} have no order`);
}

/** Python's `in`. */
export function contains(all: Value, one: Value): boolean {
  if (typeof all === "string") {
    if (one instanceof Undefined) one.fail();
    const wanted = textOf(one, "what is looked for in a text");
    spendSearch(all.length, wanted.length);
    return all.includes(wanted);
  }
  if (all instanceof Map) {
    const key = keyOf(one);
    return key !== undefined && all.has(key);
  }
  if (all instanceof Undefined) return false;
  const items = all instanceof Lazy ? fail("`in` of a generator") : sequenceOf(all);
  return items?.some((item) => equals(item, one)) ?? fail(`a ${typeName(all)} has no items`);
}

/** The bounds of a slice of `length` items, as Python has them. */
export function sliceIndexes(
  length: number,
  start: number | undefined,
  stop: number | undefined,
  step: number,
): number[] {
  if (step === 0) fail("the step of a slice is 0");
  const least = step < 0 ? -1 : 0, most = step < 0 ? length - 1 : length;
  const settle = (at: number | undefined, otherwise: number): number => {
    if (at === undefined) return otherwise;
    return at < 0 ? Math.max(at + length, least) : Math.min(at, most);
  };
  const from = settle(start, step < 0 ? most : 0);
  const to = settle(stop, step < 0 ? least : length);
  spend(ITEM * length);
  const indexes: number[] = [];
  if (step > 0) { for (let i = from; i < to; i += step) indexes.push(i); }
  else for (let i = from; i > to; i += step) indexes.push(i);
  return indexes;
}

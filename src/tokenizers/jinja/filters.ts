/**
 * The filters and tests of Jinja, as transformers has them.
 *
 * @module
 */
import { fixedText, formatText, toJson } from "./format.ts";
import { attributeOf, bind, capitalize, linesOf, replace, strip } from "./methods.ts";
import {
  type Arguments,
  Callable,
  characterAt,
  charactersOf,
  charge,
  compare,
  contains,
  equals,
  Fixed,
  Float,
  integerOf,
  isList,
  iterate,
  type Key,
  keyOf,
  Lazy,
  lengthOf,
  Namespace,
  numberOf,
  orUndefined,
  Safe,
  sequenceOf,
  str,
  textOf,
  truth,
  Tuple,
  typeName,
  Undefined,
  type Value,
  View,
} from "./values.ts";
import { fail, ITEM, spend, spendText, STEP } from "./work.ts";

/** What a filter makes of a value. */
export type Filter = (value: Value, args: Arguments) => Value;

/** `value[key]`, as templates have it: the item, or the attribute. */
export function itemOf(value: Value, key: Value): Value {
  if (value instanceof Undefined) value.fail();
  if (value instanceof Safe) fail("an item of a safe text");
  if (value instanceof Map) {
    const own = keyOf(key);
    const item = own === undefined ? undefined : value.get(own);
    if (item !== undefined) return item;
  } else if (typeof key === "number" || typeof key === "boolean") {
    const index = Number(key);
    const isView = value instanceof View && !value.isRange;
    const item = typeof value === "string"
      ? characterAt(value, index)
      : isView
      ? undefined
      : sequenceOf(value)?.at(index);
    return orUndefined(item, `an item ${index}`);
  }
  return typeof key === "string" ? memberOf(value, key) : new Undefined("an item");
}

/** `value.name`: the attribute, or the item. */
export function memberOf(value: Value, name: string): Value {
  if (value instanceof Undefined) value.fail();
  if (value instanceof Safe) fail(`the attribute ${name} of a safe text`);
  if (value instanceof Namespace) return orUndefined(value.values.get(name), name);
  if (value instanceof Fixed) {
    const attribute = value.get(name);
    return attribute === undefined ? fail(`the attribute ${name} of loop`) : attribute;
  }
  if (value instanceof Callable) return fail(`the attribute ${name} of a function`);
  const attribute = attributeOf(value, name);
  if (attribute !== undefined) return attribute;
  return orUndefined(value instanceof Map ? value.get(name) : undefined, name);
}

/** What a path such as `function.name` leads to. */
function pathOf(path: Value, otherwise?: Value): (value: Value) => Value {
  const parts = typeof path === "string"
    ? path.split(".").map((part) => /^\d+$/.test(part) ? Number(part) : part)
    : [integerOf(path, "an attribute")];
  return (value) => {
    let found = value;
    for (const part of parts) {
      spend(ITEM);
      found = itemOf(found, part);
      if (found instanceof Undefined && otherwise !== undefined) found = otherwise;
    }
    return found;
  };
}

const folded = (value: Value): Value => typeof value === "string" ? value.toLowerCase() : value;

/** The items in order. */
function sorted(
  items: readonly Value[],
  orderOf: (value: Value) => Value,
  isReversed: boolean,
): Value[] {
  const keyed = items.map((value) => ({ value, key: orderOf(value) }));
  keyed.sort((a, b) => isReversed ? compare(b.key, a.key) : compare(a.key, b.key));
  return keyed.map(({ value }) => value);
}

function keyFor(attribute: Value | undefined, isCased: boolean): (value: Value) => Value {
  const of = attribute === undefined || attribute === null
    ? (one: Value) => one
    : pathOf(attribute);
  return (value) => isCased ? of(value) : folded(of(value));
}

/** The least or the greatest item. */
const extreme = (name: string, sign: number): Filter => (value, args) => {
  const [isCased = false, attribute] = bind(name, args, ["case_sensitive", "attribute"]);
  const orderOf = keyFor(attribute, truth(isCased));
  let best: Value | undefined;
  for (const item of iterate(value)) {
    if (best === undefined || sign * compare(orderOf(item), orderOf(best)) > 0) best = item;
  }
  return orUndefined(best, "an item of no items");
};

function integerFilter(value: Value, otherwise: Value): Value {
  const number = numberOf(value);
  if (number !== undefined) {
    if (Math.abs(number) === Infinity) fail("the integer of an infinity");
    return Number.isNaN(number) ? otherwise : checked(Math.trunc(number));
  }
  if (value instanceof Undefined) value.fail();
  if (typeof value !== "string") return otherwise;
  const text = strip(value, null, true, true);
  if (/^[+-]?\d+(_\d+)*$/.test(text)) return checked(Number(text.replaceAll("_", "")));
  const float = floatOf(text);
  return float === undefined || !Number.isFinite(float) ? otherwise : checked(Math.trunc(float));
}

/** A float in Python's spelling. */
function floatOf(text: string): number | undefined {
  const plain = strip(text, null, true, true).toLowerCase();
  if (/^[+-]?(\d+(_\d+)*\.?(\d+(_\d+)*)?|\.\d+(_\d+)*)(e[+-]?\d+)?$/.test(plain)) {
    return Number(plain.replaceAll("_", ""));
  }
  const name = /^([+-]?)(inf|infinity|nan)$/.exec(plain);
  if (name === null) return undefined;
  const size = name[2] === "nan" ? NaN : Infinity;
  return name[1] === "-" ? -size : size;
}

/** An integer that is exact here. */
export function checked(value: number): number {
  if (Number.isSafeInteger(value)) return value === 0 ? 0 : value;
  return fail(`the integer ${value} has more than 53 bits`);
}

function jsonFilter(value: Value, args: Arguments): Value {
  const names = ["ensure_ascii", "indent", "separators", "sort_keys"];
  const [isAscii = false, indent = null, separators = null, isSorted = false] = bind(
    "tojson",
    args,
    names,
  );
  if (indent !== null && typeof indent !== "number" && typeof indent !== "string") {
    fail("the indent of tojson is neither a number nor a text");
  }
  if (typeof indent === "number" && indent > 100) fail("an indent above 100");
  const pair = separators === null
    ? [indent === null ? ", " : ",", ": "]
    : iterate(separators).map((one) => textOf(one, "a separator of tojson"));
  if (pair.length !== 2) fail("tojson needs two separators");
  const text = toJson(value, {
    indent: typeof indent === "number" ? Math.max(0, indent) : indent ?? undefined,
    isAscii: truth(isAscii),
    isSorted: truth(isSorted),
    separators: [pair[0]!, pair[1]!],
  });
  return text;
}

function indentFilter(value: Value, args: Arguments): Value {
  const [width = 4, first = false, blank = false] = bind("indent", args, [
    ...["width", "first", "blank"],
  ]);
  if (value instanceof Undefined) value.fail();
  const by = typeof width === "string" ? width : " ".repeat(
    Math.min(10_000, Math.max(0, integerOf(width, "the width of indent"))),
  );
  const lines = linesOf(`${textOf(value, "what is indented")}\n`);
  spendText(lines.length * by.length);
  const text = truth(blank)
    ? lines.join(`\n${by}`)
    : lines.map((line, i) => i > 0 && line !== "" ? by + line : line).join("\n");
  return truth(first) ? by + text : text;
}

/** The filter that `map`, `select` and their like name. */
const chosen = (name: string, isKept: boolean, hasAttribute: boolean): Filter => (value, args) => {
  // Jinja takes any value without items, such as None, for an empty list.
  if (!truth(value)) return new Lazy([]);
  const [...list] = args.list;
  if (args.named.size > 0) fail(`${name} with a named argument`);
  const of = hasAttribute ? pathOf(list.shift() ?? fail(`${name} needs an attribute`)) : undefined;
  const test = list.shift();
  const isRight = test === undefined
    ? (one: Value) => truth(one)
    : testOf(textOf(test, "the name of a test"), list);
  return new Lazy(
    iterate(value).filter((one) => isRight(of === undefined ? one : of(one)) === isKept),
  );
};

function mapFilter(value: Value, { list, named }: Arguments): Value {
  if (!truth(value)) return new Lazy([]);
  const items = iterate(value);
  if (list.length === 0) {
    const rest = [...named.keys()].filter((key) => key !== "attribute" && key !== "default");
    const attribute = named.get("attribute") ?? fail("map needs a filter or an attribute");
    if (rest.length > 0) fail(`map() does not take ${rest[0]}`);
    return new Lazy(items.map(pathOf(attribute, named.get("default"))));
  }
  const [name, ...rest] = list;
  const filter = filterOf(textOf(name!, "the name of a filter"));
  // Each item takes the work of a filter.
  return new Lazy(items.map((one) => charge(filter(charge(one), { list: rest, named }))));
}

function sumFilter(value: Value, args: Arguments): Value {
  const [attribute, start = 0] = bind("sum", args, ["attribute", "start"]);
  const of = keyFor(attribute, true);
  let sum = numberOf(start) ?? fail("sum() of what is no number");
  let isFloat = start instanceof Float;
  for (const item of iterate(value)) {
    const own = of(item);
    if (own instanceof Undefined) own.fail();
    sum += numberOf(own) ?? fail(`a ${typeName(own)} in a sum`);
    isFloat ||= own instanceof Float;
  }
  return isFloat ? new Float(sum) : checked(sum);
}

/** Throws for a value that Python has no hash of. */
function checkHashable(value: Value): void {
  if (isList(value) || value instanceof Map) fail(`unique() of a ${typeName(value)}`);
  if (value instanceof Tuple) value.items.forEach(checkHashable);
}

function uniqueFilter(value: Value, args: Arguments): Value {
  const [isCased = false, attribute] = bind("unique", args, ["case_sensitive", "attribute"]);
  const sameOf = keyFor(attribute, truth(isCased));
  const kept: Value[] = [], keys: Value[] = [];
  for (const item of iterate(value)) {
    const key = sameOf(item);
    checkHashable(key);
    if (keys.length > 1000) fail("unique() of more than 1000 values");
    if (keys.some((one) => equals(one, key))) continue;
    keys.push(key);
    kept.push(item);
  }
  return new Lazy(kept);
}

function roundFilter(value: Value, args: Arguments): Value {
  const [precision = 0, method = "common"] = bind("round", args, ["precision", "method"]);
  const number = numberOf(value) ?? fail(`round() of a ${typeName(value)}`);
  const decimals = integerOf(precision, "the precision of round()");
  if (decimals < 0) fail("round() with a negative precision");
  if (method === "common") {
    return value instanceof Float ? new Float(Number(fixedText(number, decimals))) : number;
  }
  if (method !== "ceil" && method !== "floor") fail("the method of round()");
  const factor = 10 ** decimals;
  if (!Number.isFinite(factor)) fail(`a number with ${decimals} decimals`);
  return new Float(Math[method](number * factor) / factor);
}

const none = (name: string, make: (value: Value) => Value): Filter => (value, args) => {
  bind(name, args, []);
  return make(value);
};

const firstFilter = (value: Value): Value => {
  const [first] = value instanceof Lazy ? value.take(1) : iterate(value);
  return orUndefined(first, "the first of no items");
};

const lastFilter = (value: Value): Value => {
  if (value instanceof Lazy) fail("the last item of a generator");
  return orUndefined(iterate(value).at(-1), "the last of no items");
};

/** Jinja's title has the capital letters of words where Python's has those of titles. */
const titleFilter = (value: Value): Value => {
  const text = str(value);
  spend(STEP * text.length);
  const upper = ([first = "", ...rest]: string): string =>
    first.toUpperCase() + rest.join("").toLowerCase();
  return text.split(/([-\s({[<]+)/u).map(upper).join("");
};

function defaultFilter(value: Value, args: Arguments): Value {
  const [otherwise = "", boolean = false] = bind("default", args, ["default_value", "boolean"]);
  const isLess = value instanceof Undefined || truth(boolean) && !truth(value);
  return isLess ? otherwise : value;
}

function joinFilter(value: Value, args: Arguments): Value {
  const [by = "", attribute] = bind("join", args, ["d", "attribute"]);
  const of = keyFor(attribute, true);
  const parts = iterate(value).map((one) => str(of(one)));
  const separator = str(by);
  spendText(parts.reduce((sum, { length }) => sum + length + separator.length, 0));
  return parts.join(separator);
}

function itemsFilter(value: Value): Value {
  if (value instanceof Undefined) return new Lazy([]);
  if (!(value instanceof Map)) return fail(`the items of a ${typeName(value)}`);
  spend(ITEM * value.size);
  return new Lazy([...value].map((item) => new Tuple(item)));
}

const FILTERS: Readonly<Record<string, Filter>> = {
  abs: none("abs", (value) => {
    const number = numberOf(value) ?? fail(`abs() of a ${typeName(value)}`);
    return value instanceof Float ? new Float(Math.abs(number)) : Math.abs(number);
  }),
  attr: (value, args) => {
    const [name] = bind("attr", args, ["name"], 1);
    const wanted = textOf(name!, "the name of an attribute");
    if (value instanceof Map) return orUndefined(attributeOf(value, wanted), wanted);
    return memberOf(value, wanted);
  },
  capitalize: none("capitalize", (value) => capitalize(str(value))),
  count: none("count", lengthOf),
  d: defaultFilter,
  default: defaultFilter,
  dictsort: (value, args) => {
    const names = ["case_sensitive", "by", "reverse"];
    const [isCased = false, by = "key", isReversed = false] = bind("dictsort", args, names);
    if (!(value instanceof Map)) return fail(`dictsort of a ${typeName(value)}`);
    if (by !== "key" && by !== "value") fail("dictsort is by key or by value");
    const place = by === "key" ? 0 : 1;
    const items = [...value].map((item) => new Tuple(item));
    const orderOf = (item: Value): Value => {
      const key = item instanceof Tuple ? item.items[place]! : item;
      return truth(isCased) ? key : folded(key);
    };
    return sorted(items, orderOf, truth(isReversed));
  },
  first: none("first", firstFilter),
  float: (value, args) => {
    const [otherwise = new Float(0)] = bind("float", args, ["default"]);
    if (value instanceof Undefined) value.fail();
    const number = typeof value === "string" ? floatOf(value) : numberOf(value);
    return number === undefined ? otherwise : new Float(number);
  },
  format: (value, { list, named }) => {
    if (named.size > 0 && list.length > 0) fail("format with both kinds of arguments");
    return formatText(str(value), named.size > 0 ? new Map<Key, Value>(named) : new Tuple(list));
  },
  indent: indentFilter,
  int: (value, args) => {
    const [otherwise = 0, base = 10] = bind("int", args, ["default", "base"]);
    if (base !== 10) fail("int() with another base");
    return integerFilter(value, otherwise);
  },
  items: none("items", itemsFilter),
  join: joinFilter,
  last: none("last", lastFilter),
  length: none("length", lengthOf),
  list: none("list", (value) => [...iterate(value)]),
  lower: none("lower", (value) => str(value).toLowerCase()),
  map: mapFilter,
  max: extreme("max", 1),
  min: extreme("min", -1),
  reject: chosen("reject", false, false),
  rejectattr: chosen("rejectattr", false, true),
  replace: (value, args) => {
    const [old, by, most = null] = bind("replace", args, ["old", "new", "count"], 2);
    const limit = most === null ? -1 : integerOf(most, "the limit of replace");
    return replace(str(value), str(old!), str(by!), limit);
  },
  reverse: none("reverse", (value) => {
    if (typeof value === "string") return charactersOf(value).reverse().join("");
    if (value instanceof Lazy) return [...value.take()].reverse();
    return new Lazy([...iterate(value)].reverse());
  }),
  round: roundFilter,
  select: chosen("select", true, false),
  selectattr: chosen("selectattr", true, true),
  sort: (value, args) => {
    const names = ["reverse", "case_sensitive", "attribute"];
    const [isReversed = false, isCased = false, attribute] = bind("sort", args, names);
    if (typeof attribute === "string" && attribute.includes(",")) {
      fail("sort by several attributes");
    }
    return sorted(iterate(value), keyFor(attribute, truth(isCased)), truth(isReversed));
  },
  string: none("string", (value) => value instanceof Safe ? value : str(value)),
  sum: sumFilter,
  title: none("title", titleFilter),
  tojson: jsonFilter,
  trim: (value, args) => {
    const [chars = null] = bind("trim", args, ["chars"]);
    return strip(
      str(value),
      chars === null ? null : textOf(chars, "the argument of trim"),
      true,
      true,
    );
  },
  unique: uniqueFilter,
  upper: none("upper", (value) => str(value).toUpperCase()),
  wordcount: none("wordcount", (value) => {
    const text = str(value);
    spend(STEP * text.length);
    return [...text.matchAll(/[\p{L}\p{N}\p{Mn}_]+/gu)].length;
  }),
};

/** The filter of a name. */
export function filterOf(name: string): Filter {
  if (Object.hasOwn(FILTERS, name)) return FILTERS[name]!;
  return fail(`the filter ${JSON.stringify(name.slice(0, 60))} is not known`);
}

const isInteger = (value: Value): boolean => typeof value === "number";
const isSequence = (value: Value): boolean =>
  typeof value === "string" || value instanceof Safe || value instanceof Map ||
  value instanceof Undefined || isList(value) || value instanceof Tuple ||
  value instanceof View && value.isRange;
const modulo = (value: Value, by: number): number => {
  const number = numberOf(value) ?? fail(`a ${typeName(value)} is neither odd nor even`);
  if (by === 0) fail("a division by 0");
  return ((number % by) + by) % by;
};

const TESTS: Readonly<Record<string, (value: Value, ...args: readonly Value[]) => boolean>> = {
  boolean: (value) => typeof value === "boolean",
  // Python's Undefined has a method for calls, which throws.
  callable: (value) => value instanceof Callable || value instanceof Undefined,
  defined: (value) => !(value instanceof Undefined),
  divisibleby: (value, by) => modulo(value, integerOf(by!, "a divisor")) === 0,
  eq: (a, b) => equals(a, b!),
  even: (value) => modulo(value, 2) === 0,
  false: (value) => value === false,
  float: (value) => value instanceof Float,
  ge: (a, b) => compare(a, b!) >= 0,
  gt: (a, b) => compare(a, b!) > 0,
  in: (one, all) => contains(all!, one),
  integer: isInteger,
  iterable: (value) => isSequence(value) || value instanceof View || value instanceof Lazy,
  le: (a, b) => compare(a, b!) <= 0,
  lower: (value) => /\p{Ll}/u.test(str(value)) && !/\p{Lu}/u.test(str(value)),
  lt: (a, b) => compare(a, b!) < 0,
  mapping: (value) => value instanceof Map,
  ne: (a, b) => !equals(a, b!),
  none: (value) => value === null,
  number: (value) => numberOf(value) !== undefined,
  odd: (value) => modulo(value, 2) === 1,
  sequence: isSequence,
  string: (value) => typeof value === "string" || value instanceof Safe,
  true: (value) => value === true,
  undefined: (value) => value instanceof Undefined,
  upper: (value) => /\p{Lu}/u.test(str(value)) && !/\p{Ll}/u.test(str(value)),
};
const ALIASES: Readonly<Record<string, string>> = {
  ...{ "==": "eq", equalto: "eq", "!=": "ne", ">": "gt", greaterthan: "gt", ">=": "ge" },
  ...{ "<": "lt", lessthan: "lt", "<=": "le" },
};
/** The tests with an argument. */
const BINARY: ReadonlySet<string> = new Set([
  ...["divisibleby", "eq", "ge", "gt", "in", "le", "lt", "ne"],
]);

/** The test of a name, with the arguments that follow it. */
export function testOf(name: string, args: readonly Value[]): (value: Value) => boolean {
  const own = Object.hasOwn(ALIASES, name) ? ALIASES[name]! : name;
  if (!Object.hasOwn(TESTS, own)) {
    fail(`the test ${JSON.stringify(name.slice(0, 60))} is not known`);
  }
  if (args.length !== (BINARY.has(own) ? 1 : 0)) fail(`the arguments of the test ${name}`);
  return (value) => {
    charge(value);
    return TESTS[own]!(value, ...args);
  };
}

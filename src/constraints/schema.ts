/**
 * The grammar of JSON of a schema.
 *
 * @module
 */
import { ArgumentError } from "../base/errors.ts";
import { describe } from "../base/text.ts";
import { anyOf, literal, Rules, times } from "./ebnf.ts";
import { integers, type Limit, numbers } from "./json_numbers.ts";
import {
  CHARS,
  formatGrammar,
  isFormat,
  otherThan,
  patternGrammar,
  PLAIN_CHARS,
  QUOTE,
} from "./json_strings.ts";
import { CHOICES } from "./lengths.ts";
import { isObject, type JsonSchema, referred } from "./values.ts";

/** How JSON is written, and which properties objects may have. */
export interface SchemaOptions {
  readonly whitespace: number;
  readonly strict: boolean;
  /** Whether the grammar leaves out limits of lengths of strings whose place tells their schema. */
  readonly countsApart?: boolean | undefined;
}

/** The grammar of a schema. */
export interface SchemaText {
  readonly ebnf: string;
  /** Whether limits of lengths are left out. */
  readonly leavesOut: boolean;
}

const TYPES = ["object", "array", "string", "number", "integer", "boolean", "null"] as const;
type Type = typeof TYPES[number];

/** Keywords of one type, by which a schema without a type has one. */
const OF_TYPE: Readonly<Partial<Record<Type, readonly string[]>>> = {
  object: ["properties", "required", "additionalProperties"],
  array: ["items", "prefixItems", "minItems", "maxItems"],
  string: ["minLength", "maxLength", "pattern"],
  number: ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"],
};
const LIMITING = [...Object.values(OF_TYPE).flat(), "type", "enum", "const", "$ref", ...CHOICES];
/** Keywords that limit values and are not followed. */
const REFUSED = [
  ...["not", "if", "then", "else", "multipleOf", "uniqueItems", "contains", "minContains"],
  ...["maxContains", "minProperties", "maxProperties", "patternProperties", "propertyNames"],
  ...["dependentRequired", "dependentSchemas", "dependencies", "unevaluatedItems"],
  ...["unevaluatedProperties", "additionalItems", "$dynamicRef", "$recursiveRef"],
];
/**
 * The deepest schema, the most parts of one, the largest counts, and the largest limit of the length of
 * strings in a grammar, of which each character takes time to compile.
 */
const DEEPEST = 100, MOST_PARTS = 20_000, MOST_COUNT = 1_000_000, MOST_LENGTH = 1000;

/** A schema and its place: a JSON pointer. */
interface Part {
  readonly schema: unknown;
  readonly at: string;
  readonly depth: number;
}

function escaped(name: string): string {
  return name.replaceAll("~", "~0").replaceAll("/", "~1");
}

/** Makes the rules of a schema. */
class SchemaGrammar {
  readonly #root: JsonSchema;
  readonly #options: SchemaOptions;
  readonly #rules = new Rules();
  readonly #comma: string;
  readonly #colon: string;
  /** White space inside of brackets. */
  readonly #space: string;
  readonly #string: string;
  /** The rules of the parts that references name. */
  readonly #referred = new Map<string, string>();
  /** The references that lead to the part that is read, without a bracket between. */
  #chain: readonly string[] = [];
  #any: string | undefined;
  #parts = 0;
  /** Whether the place of the part that is read tells its schema. */
  #isSingle: boolean;
  #leavesOut = false;

  constructor(root: JsonSchema, options: SchemaOptions) {
    this.#root = root;
    this.#options = options;
    const { whitespace, countsApart = false } = options;
    this.#isSingle = countsApart;
    this.#space = whitespace === 0 ? "" : this.#rules.add(`[ \\n\\t]{0,${whitespace}}`);
    this.#comma = `${this.#space} "," ${this.#space}`.trim();
    this.#colon = `${this.#space} ":" ${this.#space}`.trim();
    this.#string = this.#stringOf(CHARS, 0, Infinity);
  }

  /** The strings of `least` to `most` characters. */
  #stringOf(chars: readonly string[], least: number, most: number): string {
    return this.#rules.add(`${QUOTE} ${this.#rules.characters(chars, least, most, QUOTE)}`);
  }

  #fail(at: string, why: string): never {
    throw new ArgumentError(
      `Cannot constrain text to a JSON schema: at ${at === "" ? "its root" : at}, ${why}`,
    );
  }

  text(): SchemaText {
    const ebnf = this.#rules.text(this.#value({ schema: this.#root, at: "", depth: 0 }));
    return { ebnf, leavesOut: this.#leavesOut };
  }

  /** Any JSON. */
  #anyValue(): string {
    if (this.#any !== undefined) return this.#any;
    this.#any = this.#rules.reserve();
    const member = `${this.#string} ${this.#colon} ${this.#any}`;
    this.#rules.define(
      this.#any,
      anyOf([
        this.#bracketed("{", times(`${member} (${this.#comma} ${member})*`, 0, 1), "}"),
        this.#bracketed("[", times(`${this.#any} (${this.#comma} ${this.#any})*`, 0, 1), "]"),
        ...[this.#string, numbers(undefined, undefined)!, '"true"', '"false"', '"null"'],
      ]),
    );
    return this.#any;
  }

  #bracketed(open: string, body: string, close: string): string {
    return `"${open}" ${this.#space} ${body} ${this.#space} "${close}"`;
  }

  /** The name of the rule of a part. */
  #value({ schema, at, depth }: Part): string {
    if (depth > DEEPEST) this.#fail(at, `the schema is deeper than ${DEEPEST}`);
    if (++this.#parts > MOST_PARTS) this.#fail(at, `the schema has more than ${MOST_PARTS} parts`);
    if (schema === true) return this.#anyValue();
    if (schema === false) this.#fail(at, "false allows no value");
    if (!isObject(schema)) this.#fail(at, `a schema is an object, got ${describe(schema)}`);
    for (const key of REFUSED) {
      if (Object.hasOwn(schema, key) && schema[key] !== undefined && schema[key] !== false) {
        this.#fail(at, `the keyword ${JSON.stringify(key)} is not supported`);
      }
    }
    const limiting = LIMITING.filter((key) => schema[key] !== undefined);
    const alone = (key: string, ...others: string[]): void => {
      const beside = limiting.find((other) => other !== key && !others.includes(other));
      if (beside !== undefined) this.#fail(at, `${key} beside ${beside} is not supported`);
    };
    if (schema["$ref"] !== undefined) {
      alone("$ref");
      return this.#reference(schema["$ref"], at, depth);
    }
    for (const key of ["const", "enum"]) {
      if (schema[key] === undefined) continue;
      alone(key, "type");
      return this.#literals(schema, key, at);
    }
    for (const key of CHOICES) {
      if (schema[key] === undefined) continue;
      alone(key, "type");
      return this.#alternatives(schema, key, at, depth);
    }
    const types = this.#types(schema, at);
    const parts = types.map((type) => this.#ofType(type, { schema, at, depth }));
    return this.#rules.add(anyOf(parts));
  }

  /** The types of values, of which "number" has "integer" in it. */
  #types(schema: JsonSchema, at: string): readonly Type[] {
    const { type } = schema;
    if (type === undefined) {
      const known = TYPES.filter((one) => OF_TYPE[one]?.some((key) => schema[key] !== undefined));
      if (known.length > 1) this.#fail(at, "the schema has keywords of several types, and no type");
      if (known.length === 1) return known;
      const format = schema["format"];
      if (isFormat(format)) return ["string"];
      return TYPES.filter((one) => one !== "integer");
    }
    const given: readonly unknown[] = Array.isArray(type) ? type : [type];
    const types = TYPES.filter((one) => given.includes(one));
    if (given.length === 0 || !given.every((one) => TYPES.some((type) => type === one))) {
      this.#fail(at, `type is one of ${TYPES.join(", ")}, got ${describe(type)}`);
    }
    return types.filter((one) => one !== "integer" || !types.includes("number"));
  }

  #ofType(type: Type, part: Part): string {
    switch (type) {
      case "object":
        return this.#object(part);
      case "array":
        return this.#array(part);
      case "string":
        return this.#text(part);
      case "number":
      case "integer":
        return this.#number(part, type);
      case "boolean":
        return '("true" | "false")';
      case "null":
        return '"null"';
    }
  }

  #reference(reference: unknown, at: string, depth: number): string {
    if (typeof reference !== "string" || !/^#(\/|$)/.test(reference)) {
      this.#fail(
        at,
        `$ref is a place in the schema such as "#/$defs/a", got ${describe(reference)}`,
      );
    }
    if (this.#chain.includes(reference)) {
      this.#fail(at, `$ref ${JSON.stringify(reference)} leads back to itself`);
    }
    const key = `${this.#isSingle} ${reference}`;
    const known = this.#referred.get(key);
    if (known !== undefined) return known;
    const schema = referred(this.#root, reference);
    if (schema === undefined) this.#fail(at, `there is no ${JSON.stringify(reference)}`);
    const name = this.#rules.reserve();
    // A part that refers to itself finds the name, unless no bracket is between.
    const chain = this.#chain;
    this.#chain = [...chain, reference];
    this.#referred.set(key, name);
    this.#rules.define(name, this.#value({ schema, at: reference.slice(1), depth: depth + 1 }));
    this.#chain = chain;
    return name;
  }

  /** The rule of a part inside of brackets. */
  #inner(part: Part): string {
    const chain = this.#chain;
    this.#chain = [];
    const made = this.#value(part);
    this.#chain = chain;
    return made;
  }

  #literals(schema: JsonSchema, key: string, at: string): string {
    const given = key === "const" ? [schema[key]] : schema[key];
    if (!Array.isArray(given)) this.#fail(at, `enum is an array, got ${describe(given)}`);
    const types = schema["type"] === undefined ? undefined : this.#types(schema, at);
    const texts = given.filter((value: unknown) =>
      types === undefined || types.some((type) => isOfType(value, type))
    ).map((value: unknown) => JSON.stringify(value) as string | undefined);
    if (texts.length === 0) this.#fail(at, `${key} has no value of the type`);
    return this.#rules.add(
      anyOf(
        texts.map((text) =>
          text === undefined ? this.#fail(at, `${key} has a value that is not JSON`) : literal(text)
        ),
      ),
    );
  }

  #alternatives(schema: JsonSchema, key: string, at: string, depth: number): string {
    const { [key]: given, type } = schema;
    if (!Array.isArray(given) || given.length === 0) {
      return this.#fail(at, `${key} is an array of at least one schema, got ${describe(given)}`);
    }
    if (key === "allOf" && given.length > 1) {
      return this.#fail(at, "allOf of several schemas is not supported");
    }
    const isSingle = this.#isSingle;
    if (given.length > 1) this.#isSingle = false;
    const parts = given.map((one: unknown, i) => {
      const isBare = type === undefined || !isObject(one) || one["type"] !== undefined;
      if (isBare && type !== undefined && isObject(one) && one["type"] !== type) {
        this.#fail(`${at}/${key}/${i}`, `the type is another than that beside ${key}`);
      }
      const own = isBare ? one : { type, ...one };
      return this.#value({ schema: own, at: `${at}/${key}/${i}`, depth: depth + 1 });
    });
    this.#isSingle = isSingle;
    return this.#rules.add(anyOf(parts));
  }

  /** A keyword that is a count. */
  #count({ schema, at }: Part, key: string, otherwise: number): number {
    const value = isObject(schema) ? schema[key] : undefined;
    if (value === undefined) return otherwise;
    if (Number.isInteger(value) && Number(value) >= 0 && Number(value) <= MOST_COUNT) {
      return Number(value);
    }
    return this.#fail(at, `${key} is an integer from 0 to ${MOST_COUNT}, got ${describe(value)}`);
  }

  #text(part: Part): string {
    const { schema, at } = part;
    const { pattern, format } = isObject(schema) ? schema : {};
    const [least, most] = [
      this.#count(part, "minLength", 0),
      this.#count(part, "maxLength", Infinity),
    ];
    if (least > most) this.#fail(at, `minLength ${least} is above maxLength ${most}`);
    const isLimited = least > 0 || most < Infinity;
    const known = isFormat(format);
    if ([isLimited, pattern !== undefined, known].filter(Boolean).length > 1) {
      this.#fail(at, "a string has either a pattern, a format or limits of its length");
    }
    if (known) return formatGrammar(format, this.#rules);
    if (pattern === undefined) {
      if (!isLimited) return this.#string;
      if (this.#isSingle) {
        this.#leavesOut = true;
        return this.#string;
      }
      const longest = most < Infinity ? most : least;
      if (longest > MOST_LENGTH) {
        this.#fail(
          at,
          `limits of the length of strings are at most ${MOST_LENGTH}, got ${longest}`,
        );
      }
      return this.#stringOf(CHARS, least, most);
    }
    if (typeof pattern !== "string") this.#fail(at, `pattern is a text, got ${describe(pattern)}`);
    return patternGrammar(pattern, this.#rules, (why) => this.#fail(`${at}/pattern`, why));
  }

  #number({ schema, at }: Part, type: "number" | "integer"): string {
    const limit = (key: string, isIncluded: boolean): Limit | undefined => {
      const value = isObject(schema) ? schema[key] : undefined;
      if (value === undefined) return undefined;
      if (typeof value === "number" && Math.abs(value) < 1e15) {
        if (value === 0 || Math.abs(value) > 1e-15) return { value, isIncluded };
      }
      return this.#fail(
        at,
        `${key} is a number below 1e15 and above 1e-15, or 0, got ${describe(value)}`,
      );
    };
    const stricter = (a: Limit | undefined, b: Limit | undefined, isLow: boolean) => {
      if (a === undefined || b === undefined) return a ?? b;
      return (isLow ? b.value >= a.value : b.value <= a.value) ? b : a;
    };
    const low = stricter(limit("minimum", true), limit("exclusiveMinimum", false), true);
    const high = stricter(limit("maximum", true), limit("exclusiveMaximum", false), false);
    const made = type === "integer" ? integers(low, high) : numbers(low, high);
    return made ?? this.#fail(at, "no number is between the limits");
  }

  #array(part: Part): string {
    const { at, depth } = part;
    const { prefixItems = [], items } = isObject(part.schema) ? part.schema : {};
    if (!Array.isArray(prefixItems)) {
      this.#fail(at, `prefixItems is an array, got ${describe(prefixItems)}`);
    }
    const [least, most] = [
      this.#count(part, "minItems", 0),
      this.#count(part, "maxItems", Infinity),
    ];
    if (least > most) this.#fail(at, `minItems ${least} is above maxItems ${most}`);
    const first = prefixItems.slice(0, most).map((schema: unknown, i) =>
      this.#inner({ schema, at: `${at}/prefixItems/${i}`, depth: depth + 1 })
    );
    const isClosed = items === false ||
      items === undefined && prefixItems.length > 0 && this.#options.strict;
    const count = first.length;
    if (isClosed && least > count) this.#fail(at, `there are ${count} items for minItems ${least}`);
    let rest = "";
    if (!isClosed && most > count) {
      const item = items === undefined
        ? this.#anyValue()
        : this.#inner({ schema: items, at: `${at}/items`, depth: depth + 1 });
      // The first item of all has no comma.
      const [from, to] = [Math.max(0, least - count), most - count];
      if (count > 0) rest = times(`${this.#comma} ${item}`, from, to);
      else {
        rest = `${item} ${times(`${this.#comma} ${item}`, Math.max(0, from - 1), to - 1)}`;
        if (least === 0) rest = times(rest, 0, 1);
      }
    }
    // From the last one: an item, and if the array may end before it, it is optional.
    let body = rest;
    for (let i = count - 1; i >= 0; i--) {
      body = this.#rules.add(`${i > 0 ? this.#comma : ""} ${first[i]} ${body}`);
      if (i >= least) body = times(body, 0, 1);
    }
    return this.#bracketed("[", body, "]");
  }

  #object({ schema, at, depth }: Part): string {
    const { properties = {}, required = [], additionalProperties = !this.#options.strict } =
      isObject(schema) ? schema : {};
    if (!isObject(properties)) {
      this.#fail(at, `properties is an object, got ${describe(properties)}`);
    }
    const isNames = Array.isArray(required) && required.every((name) => typeof name === "string");
    if (!isNames) this.#fail(at, `required is an array of names, got ${describe(required)}`);
    const needed: readonly string[] = required;
    const inner = (schema: unknown, at: string) => this.#inner({ schema, at, depth: depth + 1 });
    // Without any keyword, an object is any object.
    const isAny = isObject(schema) && !OF_TYPE.object!.some((key) => schema[key] !== undefined);
    const more = isAny ? true : additionalProperties;
    const names = [...new Set([...Object.keys(properties), ...needed])];
    const members = names.flatMap((name): [string, boolean][] => {
      const place = `${at}/properties/${escaped(name)}`;
      const own = Object.hasOwn(properties, name) ? properties[name] : more;
      if (own === false && needed.includes(name)) {
        this.#fail(at, `the required property ${JSON.stringify(name)} is not allowed`);
      }
      // A property that is not allowed is left out.
      if (own === false) return [];
      const member = `${literal(JSON.stringify(name))} ${this.#colon} ${inner(own, place)}`;
      return [[member, needed.includes(name)]];
    });
    let rest = "", restOfFirst = "";
    if (more !== false) {
      const key = names.length === 0
        ? this.#stringOf(PLAIN_CHARS, 0, Infinity)
        : otherThan(names, this.#rules);
      const member = this.#rules.add(
        `${key} ${this.#colon} ${inner(more, `${at}/additionalProperties`)}`,
      );
      rest = `(${this.#comma} ${member})*`;
      restOfFirst = times(`${member} ${rest}`, 0, 1);
    }
    // From the last one: what follows a property, and what follows none.
    let [after, first] = [rest, restOfFirst];
    for (const [member, isNeeded] of members.reverse()) {
      const next = after === "" ? '""' : after, start = first === "" ? '""' : first;
      after = this.#rules.add(
        isNeeded
          ? `${this.#comma} ${member} ${next}`
          : `${this.#comma} ${member} ${next} | ${next}`,
      );
      first = this.#rules.add(isNeeded ? `${member} ${next}` : `${member} ${next} | ${start}`);
    }
    return this.#bracketed("{", first, "}");
  }
}

function isOfType(value: unknown, type: Type): boolean {
  switch (type) {
    case "object":
      return isObject(value);
    case "array":
      return Array.isArray(value);
    case "integer":
      return Number.isInteger(value);
    case "null":
      return value === null;
    case "string":
      return typeof value === "string";
    case "number":
      return typeof value === "number";
    case "boolean":
      return typeof value === "boolean";
    default:
      return false;
  }
}

/**
 * The grammar of JSON of a schema, in EBNF.
 *
 * @throws {ArgumentError} For a schema that is wrong or not supported, with its place.
 */
export function schemaGrammar(schema: JsonSchema, options: SchemaOptions): SchemaText {
  if (!isObject(schema)) {
    throw new ArgumentError(
      `Cannot constrain text to a JSON schema: it is an object, got ${describe(schema)}`,
    );
  }
  return new SchemaGrammar(schema, options).text();
}

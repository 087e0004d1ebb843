/**
 * Whether a value is one of a JSON Schema.
 *
 * @module
 */
import { describe } from "../base/text.ts";

/** A JSON Schema. */
export type JsonSchema = Readonly<Record<string, unknown>>;

/** The deepest values that are checked. */
const DEEPEST = 100;

/** Whether a value is an object of JSON. */
export function isObject(value: unknown): value is JsonSchema {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function typeOf(value: unknown): string {
  return value === null ? "null" : Array.isArray(value) ? "array" : typeof value;
}

function isOfType(value: unknown, type: unknown): boolean {
  return type === "integer" ? Number.isInteger(value) : type === typeOf(value);
}

export function isSame(a: unknown, b: unknown): boolean {
  if (Array.isArray(a) && Array.isArray(b)) {
    return a.length === b.length && a.every((one, i) => isSame(one, b[i]));
  }
  if (!isObject(a) || !isObject(b)) return a === b;
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length &&
    keys.every((key) => Object.hasOwn(b, key) && isSame(a[key], b[key]));
}

/** The text of percent signs with hexadecimal digits, if these are UTF-8. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The part of the root that a reference such as `#/$defs/a` names; undefined if there is none. */
export function referred(root: JsonSchema, reference: string): unknown {
  let part: unknown = root;
  for (const step of reference.split("/").slice(1)) {
    const name = step.replace(/(?:%[0-9a-fA-F]{2})+/g, decoded).replaceAll("~1", "/")
      .replaceAll("~0", "~");
    if (typeof part !== "object" || part === null || !Object.hasOwn(part, name)) return undefined;
    part = Reflect.get(part, name);
  }
  return part;
}

/** Limits of numbers, and of lengths of strings and arrays: whether the number is inside. */
const LIMITS: readonly [
  keyword: string,
  of: string,
  fits: (x: number, limit: number) => boolean,
][] = [
  ["minimum", "number", (x, limit) => x >= limit],
  ["maximum", "number", (x, limit) => x <= limit],
  ["exclusiveMinimum", "number", (x, limit) => x > limit],
  ["exclusiveMaximum", "number", (x, limit) => x < limit],
  ["minLength", "string", (x, limit) => x >= limit],
  ["maxLength", "string", (x, limit) => x <= limit],
  ["minItems", "array", (x, limit) => x >= limit],
  ["maxItems", "array", (x, limit) => x <= limit],
];

/**
 * Why a value is not one of a schema, by types, values, limits, properties and elements; undefined if
 * it is. Other keywords are not checked.
 */
export function problemOf(
  value: unknown,
  schema: unknown,
  root: JsonSchema = isObject(schema) ? schema : {},
  at = "",
): string | undefined {
  const place = at === "" ? "the value" : at;
  if (schema === false) return `${place} is not allowed`;
  if (!isObject(schema)) return undefined;
  if (at.split(/[.[]/).length > DEEPEST) return `${place} is too deep`;
  const check = (value: unknown, schema: unknown, at: string) => problemOf(value, schema, root, at);
  const { type, $ref, anyOf, oneOf, allOf } = schema;
  if (typeof $ref === "string") {
    const other = referred(root, $ref);
    if (other === schema || isObject(other) && other["$ref"] === $ref) return undefined;
    const problem = check(value, other, at);
    if (problem !== undefined) return problem;
  }
  if (type !== undefined) {
    const types: readonly unknown[] = Array.isArray(type) ? type : [type];
    if (!types.some((one) => isOfType(value, one))) {
      return `${place} is ${describe(value)}, not of type ${types.join(" or ")}`;
    }
  }
  const values = "const" in schema ? [schema["const"]] : schema["enum"];
  if (Array.isArray(values) && !values.some((one) => isSame(one, value))) {
    return `${place} is ${describe(value)}, not one of ${JSON.stringify(values).slice(0, 200)}`;
  }
  for (const [keyword, of, fits] of LIMITS) {
    const limit = schema[keyword];
    if (typeof limit !== "number" || typeOf(value) !== of) continue;
    const x = typeof value === "number"
      ? value
      : [...(typeof value === "string" || Array.isArray(value) ? value : [])].length;
    if (!fits(x, limit)) return `${place} is against ${keyword} ${limit}`;
  }
  for (const list of [anyOf, oneOf]) {
    if (!Array.isArray(list)) continue;
    const problems = list.map((one: unknown) => check(value, one, at));
    if (problems.every((problem) => problem !== undefined)) return problems[0];
  }
  if (Array.isArray(allOf)) {
    for (const one of allOf) {
      const problem = check(value, one, at);
      if (problem !== undefined) return problem;
    }
  }
  if (Array.isArray(value)) {
    const { prefixItems, items } = schema;
    const first: readonly unknown[] = Array.isArray(prefixItems) ? prefixItems : [];
    for (const [i, one] of value.entries()) {
      const problem = check(one, i < first.length ? first[i] : items, `${at}[${i}]`);
      if (problem !== undefined) return problem;
    }
  }
  return isObject(value) ? membersProblem(value, schema, at, check) : undefined;
}

function membersProblem(
  value: JsonSchema,
  { properties, required, additionalProperties }: JsonSchema,
  at: string,
  check: (value: unknown, schema: unknown, at: string) => string | undefined,
): string | undefined {
  const known = isObject(properties) ? properties : {};
  for (const name of Array.isArray(required) ? required : []) {
    if (typeof name === "string" && !Object.hasOwn(value, name)) {
      return `${at === "" ? "the value" : at} has no ${JSON.stringify(name)}`;
    }
  }
  for (const [name, one] of Object.entries(value)) {
    const schema = Object.hasOwn(known, name) ? known[name] : additionalProperties;
    const problem = check(one, schema, at === "" ? name : `${at}.${name}`);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

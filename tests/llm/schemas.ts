/**
 * Random JSON Schemas of the keywords that constraints follow, the same for the same seed.
 *
 * @module
 */

/** A JSON Schema. */
export type Schema = Readonly<Record<string, unknown>>;

/** Random numbers from 0 to 1, the same for the same seed. */
export function randomOf(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let x = Math.imul(state ^ state >>> 15, state | 1);
    x ^= x + Math.imul(x ^ x >>> 7, x | 61);
    return ((x ^ x >>> 14) >>> 0) / 2 ** 32;
  };
}

const PATTERNS = [
  "^[a-z]{2,5}$",
  "^\\d{3}-\\d{4}$",
  "^(red|green|\\u00e9t\\u00e9)+$",
  '^[^a-z"]{1,4}$',
  "^\\S{2}\\s\\w*$",
  "\\w",
  "^a|\\d$",
  "^.{0,3}$",
  '^\\\\["/]?\\.$',
];
const FORMATS = ["date", "time", "date-time", "uuid", "ipv4", "email"];
const NAMES = ["name", "age", "a b", "été", 'q"', "x/y", "nameLonger", "nam", "", "\ud83d\ude00"];

/** A schema of a seed. */
export function schemaOf(seed: number): Schema {
  const random = randomOf(seed);
  const below = (n: number): number => Math.floor(random() * n);
  const pick = <T>(list: readonly T[]): T => list[below(list.length)]!;
  const isChosen = (): boolean => random() < 0.5;

  const text = (): Schema => {
    switch (below(4)) {
      case 0:
        return { type: "string", pattern: pick(PATTERNS) };
      case 1:
        return { type: "string", format: pick(FORMATS) };
      case 2: {
        const minLength = below(4);
        return { type: "string", minLength, ...isChosen() && { maxLength: minLength + below(5) } };
      }
      default:
        return { type: "string" };
    }
  };
  const number = (): Schema => {
    const type = pick(["number", "integer"]);
    const scale = pick([1, 10, 1000, 1e6]);
    const digits = type === "integer" ? 0 : below(4);
    const low = Number(((random() - 0.5) * 2 * scale).toFixed(digits));
    const high = Number((low + 2 + random() * scale).toFixed(digits));
    return {
      type,
      ...isChosen() && { [pick(["minimum", "exclusiveMinimum"])]: low },
      ...isChosen() && { [pick(["maximum", "exclusiveMaximum"])]: high },
    };
  };
  const literal = (): unknown =>
    pick([1, -2.5, 1e-7, true, null, "x", 'a"b\\c\n', "é", "\u2028", [1, []], { a: { b: 2 } }]);
  const value = (depth: number): Schema => {
    switch (depth > 0 ? below(9) : 3 + below(4)) {
      case 0:
      case 1:
        return object(depth);
      case 2:
        return array(depth);
      case 3:
        return text();
      case 4:
        return number();
      case 5:
        return isChosen() ? { enum: [literal(), literal(), literal()] } : { const: literal() };
      case 6:
        return { type: pick(["boolean", "null", ["string", "null"], ["integer", "boolean"]]) };
      case 7:
        return { [pick(["anyOf", "anyOf"])]: [value(depth - 1), value(depth - 1)] };
      default:
        return { $ref: pick(["#/$defs/small", "#/$defs/a~1b", "#/$defs/tree"]) };
    }
  };
  const array = (depth: number): Schema => {
    const minItems = below(3);
    const limits = { minItems, ...isChosen() && { maxItems: minItems + below(3) } };
    if (below(3) > 0) return { type: "array", items: value(depth - 1), ...limits };
    return {
      type: "array",
      prefixItems: [value(depth - 1), value(depth - 1)],
      ...isChosen() ? { items: value(depth - 1), ...limits } : { items: false },
    };
  };
  const object = (depth: number): Schema => {
    const names = NAMES.filter(() => random() < 0.35);
    return {
      type: "object",
      properties: Object.fromEntries(names.map((name) => [name, value(depth - 1)])),
      required: names.filter(isChosen),
      ...below(3) === 0 && { additionalProperties: pick([false, true, { type: "integer" }]) },
    };
  };
  return {
    ...object(3),
    $defs: {
      small: { type: "integer", minimum: 0, maximum: 9 },
      "a/b": { type: "string", maxLength: 3 },
      tree: {
        type: "object",
        properties: {
          value: { $ref: "#/$defs/small" },
          children: { type: "array", items: { $ref: "#/$defs/tree" }, maxItems: 2 },
        },
        required: ["value"],
      },
    },
  };
}

/**
 * Constraints: texts of choices, of JSON schemas and of grammars, and what is refused.
 *
 * @module
 */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { Validator } from "@cfworker/json-schema";
import { test } from "node:test";
import { ArgumentError, DisposedError, FormatError } from "../../mod.ts";
import * as constraints from "../../src/constraints/mod.ts";
import { problemOf } from "../../src/constraints/values.ts";
import * as llm from "../../src/llm/mod.ts";
import { open as openTokenizer } from "../../src/tokenizers/mod.ts";
import { RUNS_ALL } from "../support/amount.ts";
import { randomLlama } from "../support/llama.ts";
import { randomOf, type Schema, schemaOf } from "./schemas.ts";

const encoder = new TextEncoder();

/** A tokenizer of tokens with these bytes. */
function tokenizerOf(tokens: readonly (Uint8Array | string | undefined)[]): constraints.TokenBytes {
  const all = tokens.map((token) => typeof token === "string" ? encoder.encode(token) : token);
  return { size: all.length, tokenBytes: (id) => all[id] };
}

/** All bytes, then texts and parts of characters of several bytes, then a special token. */
const TOKENS: readonly (Uint8Array | string | undefined)[] = [
  ...Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte)),
  ...['{"', '":', '",', '"}', "}}", "]}", "true", "false", "null", "00", "12", ".5", "-1", "\\u"],
  ...['\\"', "name", "na", "me", "é", "été", "  ", "\n", "abc", "😀", '":"', "[{", "],[", "T0"],
  encoder.encode("😀").slice(0, 2),
  encoder.encode("😀").slice(2),
  undefined,
];
const tokenizer = tokenizerOf(TOKENS);
const END = TOKENS.length;
const CONTEXT = { vocabulary: END + 1, stopTokens: [END] };

function isAllowed(mask: Int32Array, id: number): boolean {
  return (mask[id >> 5]! >>> (id & 31) & 1) === 1;
}

/** The tokens that a mask allows. */
function idsIn(mask: Int32Array | undefined, vocabulary = CONTEXT.vocabulary): number[] {
  return Array.from({ length: vocabulary }, (_, id) => id).filter((id) => isAllowed(mask!, id));
}

/** The tokens that close something: they get likelier, so that texts end. */
const CLOSING = TOKENS.flatMap((token, id) =>
  token !== undefined && /^["\]}]+$/.test(new TextDecoder().decode(encodedToken(token))) ? [id] : []
);

/** Those that begin something. */
const OPENING = TOKENS.flatMap((token, id) =>
  token !== undefined && /[,[{]/.test(new TextDecoder().decode(encodedToken(token))) ? [id] : []
);

function encodedToken(token: Uint8Array | string): Uint8Array {
  return typeof token === "string" ? encoder.encode(token) : token;
}

/** A text that is sampled by random logits, and the milliseconds of its masks. */
async function sampled(constraint: llm.Constraint, seed: number) {
  const random = randomOf(seed);
  const sampler = new llm.Sampler({ temperature: 1, seed });
  const state = await constraint.start(CONTEXT);
  const ids: number[] = [];
  let milliseconds = 0;
  for (;;) {
    const start = performance.now();
    const mask = await state.mask();
    milliseconds += performance.now() - start;
    if (state.done) break;
    const logits = Float32Array.from(
      mask!.length === 0 ? [] : new Array(END + 1).fill(0),
      () => 4 * random(),
    );
    for (const id of [...CLOSING, END]) logits[id]! += Math.min(4, 1.5 + ids.length / 40);
    if (ids.length > 150) { for (const id of OPENING) logits[id]! -= 20; }
    for (let id = 0; id <= END; id++) if (!isAllowed(mask!, id)) logits[id] = -Infinity;
    const id = sampler.sample(logits);
    if (id === END) break;
    const before = performance.now();
    state.accept(id);
    milliseconds += performance.now() - before;
    ids.push(id);
    if (ids.length > 4000) {
      const last = ids.slice(-40).flatMap((id) => [...encodedToken(TOKENS[id]!)]);
      throw new Error(
        `text ${seed} has no end: ${new TextDecoder().decode(Uint8Array.from(last))}`,
      );
    }
  }
  state.dispose?.();
  const bytes = ids.flatMap((id) => [...encodedToken(TOKENS[id]!)]);
  const text = new TextDecoder("utf-8", { fatal: true }).decode(Uint8Array.from(bytes));
  return { text, tokens: ids.length, milliseconds };
}

/** Throws unless a text is JSON of a schema. */
function checkText(text: string, schema: Schema, seed: number): void {
  const value: unknown = JSON.parse(text);
  const { valid, errors } = new Validator(schema, "2020-12", true).validate(value);
  assert(valid, `schema ${seed}: ${text} ${JSON.stringify([errors, schema])}`);
  assertEquals(problemOf(value, schema), undefined, `schema ${seed}: ${text}`);
}

test("random texts of random schemas are JSON of them", async () => {
  let tokens = 0, milliseconds = 0;
  for (let seed = 0; seed < (RUNS_ALL ? 200 : 20); seed++) {
    const schema = schemaOf(seed);
    using constraint = await constraints.jsonSchema(schema, tokenizer, {
      whitespace: seed % 5 === 0 ? 3 : 0,
      strict: seed % 3 !== 0,
    });
    for (let k = 0; k < 3; k++) {
      const made = await sampled(constraint, 7 * seed + k);
      checkText(made.text, schema, seed);
      tokens += made.tokens;
      milliseconds += made.milliseconds;
    }
  }
  assert(tokens > 1000, `${tokens} tokens`);
  if (RUNS_ALL) {
    console.log(`${tokens} tokens, ${(1000 * milliseconds / tokens).toFixed(0)} µs each`);
  }
});

/** Whether a text is one of a constraint, in tokens of one byte. */
async function isTextOf(constraint: llm.Constraint, text: string): Promise<boolean> {
  const state = await constraint.start(CONTEXT);
  let isText = true;
  for (const byte of encoder.encode(text)) {
    isText &&= isAllowed((await state.mask())!, byte);
    if (!isText) break;
    state.accept(byte);
  }
  isText &&= isAllowed((await state.mask())!, END);
  state.dispose?.();
  return isText;
}

test("patterns take the texts that regular expressions take", async () => {
  const patterns = [
    ...["", "a", "^a", "a$", "^a$", "^$", "^(?:)$", "ab|b$|^0", "^a*$", "^a+b?$", "^(a|b)*0$"],
    ...[
      "^(a*)*$",
      "^(a*|b)+0$",
      "^(a?b?)*$",
      "^(a{0,2}){2}$",
      "^a{2}$",
      "^a{1,3}b{2,}$",
      "^[^a]*$",
    ],
    ...["(ab){2}", "^((a|b)0){0,2}a?$", "^(|a)b$", "^(a*?b)+$", "^a{0}b{0,1}$", "^(a{2,}0?)*b$"],
  ];
  const texts = [""];
  for (const text of texts) {
    if (text.length < (RUNS_ALL ? 5 : 4)) texts.push(...["a", "b", "0"].map((char) => text + char));
  }
  for (const pattern of patterns) {
    using constraint = await constraints.jsonSchema({ type: "string", pattern }, tokenizer);
    const expected = new RegExp(pattern, "u");
    for (const text of texts) {
      const isText = await isTextOf(constraint, JSON.stringify(text));
      assertEquals(isText, expected.test(text), `${text} for ${pattern}`);
    }
  }
});

test("limits of lengths are the same by their place and by a grammar", async () => {
  // In alternatives they are rules of the grammar.
  const cases: Schema[] = [
    { type: "string", minLength: 2, maxLength: 4 },
    { type: "string", maxLength: 9 },
    { type: ["string", "null"], maxLength: 0 },
    {
      type: "object",
      properties: {
        a: { type: "string", maxLength: 3 },
        'b"\\é': { type: "array", items: { $ref: "#/$defs/x" }, maxItems: 3 },
        c: { allOf: [{ minLength: 4 }] },
      },
      required: ["a"],
      additionalProperties: { prefixItems: [{ maxLength: 1 }, { minLength: 1 }], items: true },
      $defs: { x: { type: "string", minLength: 1, maxLength: 2 } },
    },
  ];
  const large = tokenizerOf([
    ...TOKENS,
    ...['","', '["', '"]', 'a"', '"a', '"abcd', "\\n", "\\u00", "e9a", 'x","yz', "abcdefgh", "é😀"],
    ...['{"a":"abc', '"a":"', 'b"}', '":["', '"],"'],
  ]);
  const end = large.size, context = { vocabulary: end + 1, stopTokens: [end] };
  const booleans = ["t", "f"].map((char) => char.charCodeAt(0))
    .concat([TOKENS.indexOf("true"), TOKENS.indexOf("false")]);
  for (const schema of cases) {
    using apart = await constraints.jsonSchema(schema, large);
    const { $defs = {}, ...rest } = schema;
    using within = await constraints.jsonSchema({
      ...{ anyOf: [rest, { type: "boolean" }] },
      $defs,
    }, large);
    for (let seed = 0; seed < (RUNS_ALL ? 200 : 40); seed++) {
      const random = randomOf(seed);
      const states = [await apart.start(context), await within.start(context)];
      for (let k = 0; k < 40; k++) {
        const masks = await Promise.all(states.map((state) => state.mask()));
        const [own, other] = masks.map((mask) => idsIn(mask, end + 1)) as [number[], number[]];
        assertEquals(own, k > 0 ? other : other.filter((id) => !booleans.includes(id)));
        const id = own[Math.floor(random() * own.length)]!;
        if (id === end) break;
        for (const state of states) state.accept(id);
      }
      for (const state of states) state.dispose?.();
    }
  }
  // A schema that its caller changes later.
  const schema = { type: "string", maxLength: 1 };
  const made = constraints.jsonSchema(schema, tokenizer);
  schema.maxLength = 5;
  using constraint = await made;
  assertEquals([await isTextOf(constraint, '"a"'), await isTextOf(constraint, '"ab"')], [
    true,
    false,
  ]);
  // They take no time to compile.
  using long = await constraints.jsonSchema({ type: "string", maxLength: 1_000_000 }, tokenizer);
  assertEquals(await isTextOf(long, JSON.stringify("long ".repeat(100))), true);
});

test("tokens of several characters take little time in strings", async () => {
  const words = Array.from({ length: 40_000 }, (_, i) => `${i.toString(36)}${i % 7 ? "" : " é"}`);
  const large = tokenizerOf([...TOKENS, ...words]);
  const schemas: [Schema, string][] = [
    [{ type: "string" }, '"'],
    [{ type: "string", minLength: 2, maxLength: 8 }, '"a'],
    [{ type: "string", pattern: "^[^b]+b.*$" }, '"abc'],
    [{ type: "object" }, '{"ab'],
    [{ properties: { a: true }, required: ["a"], additionalProperties: true }, '{"a":"b'],
  ];
  for (const [schema, text] of schemas) {
    using constraint = await constraints.jsonSchema(schema, large);
    const state = await constraint.start({ vocabulary: large.size + 1, stopTokens: [large.size] });
    for (const byte of encoder.encode(text)) state.accept(byte);
    let least = Infinity;
    for (let k = 0; k < 5; k++) {
      const start = performance.now();
      await state.mask();
      least = Math.min(least, performance.now() - start);
    }
    state.dispose?.();
    // Some 50 ms where each token is looked at.
    assert(least < 5, `${least} ms for ${JSON.stringify(schema)}`);
  }
});

test("keywords give what they say", async () => {
  const cases: [Schema, yes: readonly string[], no: readonly string[]][] = [
    [{ type: "integer", minimum: -12, exclusiveMaximum: 105 }, ["-12", "0", "99", "104"], [
      ...["-13", "105", "-", "01", "1.0", "1e1"],
    ]],
    [{ type: "number", exclusiveMinimum: 0, maximum: 2.5 }, ["0.5", "2.50", "1", "2", "0.01"], [
      ...["0", "0.0", "2.51", "3", "-1", ".5"],
    ]],
    [{ type: "number", minimum: -0.25, maximum: -0.125 }, ["-0.125", "-0.2"], [
      "-0.1",
      "-0.3",
      "0",
    ]],
    [{ type: "string", minLength: 1, maxLength: 2 }, ['"é"', '"😀a"', '"\\n\\u00e9"'], [
      ...['""', '"abc"', '"\\ud83d\\ude00"', '"\n"'],
    ]],
    [{ type: "string", pattern: "b+" }, ['"ab"', '"bbc"', '"b"'], ['"a"', '""']],
    [{ type: "string", pattern: '^"\\\\$' }, ['"\\"\\\\"'], ['""\\"', '"\\""']],
    [{ type: "string", format: "date" }, ['"2024-02-28"', '"1999-12-31"'], [
      ...['"2024-02-30"', '"2024-11-31"', '"24-1-1"'],
    ]],
    [{ enum: ["a", 1, null], type: ["string", "null"] }, ['"a"', "null"], ["1", '"b"']],
    [
      { type: "object", properties: { a: { type: "null" }, b: { type: "null" } }, required: ["b"] },
      ['{"b":null}', '{"a":null,"b":null}'],
      ["{}", '{"a":null}', '{"b":null,"a":null}', '{"b":null,"c":1}', '{"b":null,}', '{,"b":null}'],
    ],
    [
      { type: "object", properties: { ab: { const: 1 } }, additionalProperties: { const: 2 } },
      ['{"ab":1}', '{"a":2}', '{"abc":2,"é":2}', '{"":2}', '{"ab":1,"x":2}'],
      ['{"ab":2}', '{"a":1}', '{"\\u0061b":2}'],
    ],
    [{ type: "array", items: { const: 1 }, minItems: 1, maxItems: 2 }, ["[1]", "[1,1]"], [
      ...["[]", "[1,1,1]", "[1,]", "[,1]"],
    ]],
    [
      { type: "array", prefixItems: [{ const: 1 }, { const: 2 }], items: { const: 3 } },
      ["[]", "[1]", "[1,2]", "[1,2,3,3]"],
      ["[2]", "[1,3]", "[1,2,]"],
    ],
    [{
      $ref: "#/$defs/x",
      $defs: { x: { anyOf: [{ const: "x" }, { $ref: "#/$defs/y" }] }, y: true },
    }, [
      ...['"x"', "[]", '{"a":[1.5e3,null]}'],
    ], ["x", "[", "{}}"]],
    [{ properties: { a: false } }, ["{}"], ['{"a":1}', "[]"]],
  ];
  for (const [schema, yes, no] of cases) {
    using constraint = await constraints.jsonSchema(schema, tokenizer);
    for (const [texts, expected] of [[yes, true], [no, false]] as const) {
      for (const text of texts) {
        const isText = await isTextOf(constraint, text);
        assertEquals(isText, expected, `${text} for ${JSON.stringify(schema)}`);
      }
    }
  }
});

test("schemas that are wrong or not supported throw with their place", async () => {
  const cases: [unknown, string][] = [
    [null, "it is an object"],
    [{ type: "text" }, "at its root, type is one of"],
    [{ properties: { "a/b": { type: "foo" } } }, "at /properties/a~1b, type"],
    [{ items: { not: {} } }, 'at /items, the keyword "not"'],
    [{ type: "array", uniqueItems: true }, '"uniqueItems" is not supported'],
    [{ $ref: "#/$defs/none" }, 'there is no "#/$defs/none"'],
    [{ $ref: "https://example.com" }, "$ref is a place in the schema"],
    [{ $ref: "#/%zz" }, 'there is no "#/%zz"'],
    [{ $defs: { a: { $ref: "#/$defs/a" } }, $ref: "#/$defs/a" }, "leads back to itself"],
    [{ anyOf: [{ $ref: "#" }, { type: "null" }] }, "leads back to itself"],
    [{ type: "string", pattern: "((" }, "at /pattern, "],
    [{ type: "string", pattern: "(?=a)b" }, "looks around"],
    [{ type: "string", pattern: "\\bword" }, "\\b"],
    [{ type: "string", pattern: "a", maxLength: 3 }, "either a pattern"],
    [{ type: "string", pattern: "(a{50}){50}" }, "at /pattern, the pattern has more than 2000"],
    [{ type: "string", pattern: "a{9999999999,}" }, "more than 2000 repetitions"],
    [{ anyOf: [{ maxLength: 1001 }, { type: "null" }] }, "at most 1000, got 1001"],
    [{ anyOf: [{ minLength: 1001 }, { type: "null" }] }, "at most 1000, got 1001"],
    [{ type: "integer", minimum: 5, maximum: 2 }, "no number is between"],
    [{ type: "integer", minimum: "x" }, "minimum is a number"],
    [{ type: "array", minItems: 5, maxItems: 2 }, "minItems 5 is above maxItems 2"],
    [{ type: "array", minItems: -1 }, "minItems is an integer"],
    [{ enum: [] }, "enum has no value"],
    [{ enum: 3 }, "enum is an array"],
    [{ anyOf: [] }, "anyOf is an array of at least one"],
    [{ allOf: [{}, {}] }, "allOf of several"],
    [{ anyOf: [{}], required: ["a"] }, "anyOf beside required"],
    [{ properties: 3 }, "properties is an object"],
    [{ required: [3], type: "object" }, "required is an array of names"],
    [{ required: ["a"] }, 'the required property "a" is not allowed'],
    [{ items: {}, minLength: 1 }, "keywords of several types"],
  ];
  for (const [schema, message] of cases) {
    await assertRejects(
      () => constraints.jsonSchema(schema as Schema, tokenizer),
      ArgumentError,
      message,
    );
  }
  let deep: Schema = { type: "null" };
  for (let k = 0; k < 200; k++) deep = { type: "array", items: deep };
  await assertRejects(() => constraints.jsonSchema(deep, tokenizer), ArgumentError, "deeper than");
});

test("a wrong grammar throws with its place, as often as one likes", async () => {
  const wrong: [string, string][] = [
    ["root ::= ", "line 1, column 10"],
    ['root ::= "a"\nb ::= c', "line 2"],
    ['x ::= "a"', '"root" is not found'],
    ["root ::= [", "line 1"],
    ["root ::= [a-é]", "line 1 has a set"],
    ['root ::= "é"\n  | [^a] [\\u00e0\\u00e8]', "line 2 has a set"],
  ];
  // A few tens of errors used to end the package for good.
  for (let k = 0; k < (RUNS_ALL ? 100 : 20); k++) {
    for (const [ebnf, message] of wrong) {
      await assertRejects(() => constraints.grammar(ebnf, tokenizer), ArgumentError, message);
    }
  }
  await assertRejects(() => constraints.grammar("(".repeat(99_999), tokenizer), ArgumentError);
  await assertRejects(() => constraints.grammar("a".repeat(100_001), tokenizer), ArgumentError);
  await assertRejects(() => constraints.grammar(3 as never, tokenizer), ArgumentError, "a text");
  using constraint = await constraints.grammar('root ::= "été" | [0-9]{2}', tokenizer);
  const made = await Promise.all([1, 2, 3, 4, 5, 6].map((seed) => sampled(constraint, seed)));
  for (const { text } of made) assert(/^(été|\d\d)$/.test(text), text);
});

test("states go on after their grammar, and end with dispose", async () => {
  const constraint = await constraints.json(tokenizer, { whitespace: 1 });
  const state = await constraint.start(CONTEXT);
  constraint.dispose();
  constraint.dispose();
  await assertRejects(() => constraint.start(CONTEXT) as Promise<unknown>, DisposedError);
  assertEquals(idsIn(await state.mask()), [..."{"].map((c) => c.charCodeAt(0)).concat(256));
  assertThrows(() => state.accept("[".charCodeAt(0)), ArgumentError, "does not allow it");
  assertThrows(() => state.accept(END), ArgumentError);
  for (const byte of encoder.encode("{ }")) {
    assertEquals(state.done, false);
    state.accept(byte);
  }
  assertEquals([idsIn(await state.mask()), state.done], [[END], true]);
  state.dispose?.();
  state.dispose?.();
  await assertRejects(() => state.mask() as Promise<unknown>, DisposedError);
  for (const whitespace of [-1, 1.5, "1", 1001]) {
    await assertRejects(() => constraints.json(tokenizer, { whitespace: whitespace as never }));
  }
});

test("a model with more or fewer tokens than its tokenizer has masks of its own size", async () => {
  using constraint = await constraints.grammar('root ::= "é"', tokenizer);
  const bytes = [...encoder.encode("é")];
  const all = [bytes[0]!, TOKENS.indexOf("é")];
  for (const [vocabulary, stop] of [[2000, 1999], [256, 0], [END - 40, 1]] as const) {
    for (const one of [constraint, await constraints.choices(["é"], tokenizer)]) {
      const state = await one.start({ vocabulary, stopTokens: [stop, 5000] });
      const mask = (await state.mask())!;
      assertEquals(mask.length, Math.ceil(vocabulary / 32));
      assertEquals(idsIn(mask, 32 * mask.length), all.filter((id) => id < vocabulary));
      for (const byte of bytes) state.accept(byte);
      assertEquals(idsIn(await state.mask(), 32 * mask.length), [stop]);
      assertEquals(state.done, true);
      state.dispose?.();
    }
  }
});

/** All texts that a constraint allows, with each of their tokens. */
async function reachable(
  constraint: llm.Constraint,
  tokens: readonly (Uint8Array | string | undefined)[],
): Promise<Map<string, number>> {
  const end = tokens.length;
  const context = { vocabulary: end + 1, stopTokens: [end] };
  const found = new Map<string, number>();
  const walk = async (ids: readonly number[]): Promise<void> => {
    const state = await constraint.start(context);
    for (const id of ids) state.accept(id);
    const next = idsIn(await state.mask(), end + 1);
    assert(next.length > 0, `a dead end after ${ids}`);
    assertEquals(state.done, next.length === 1 && next[0] === end);
    for (const id of next) {
      if (id !== end) await walk([...ids, id]);
      else {
        const bytes = ids.flatMap((one) => [...encodedToken(tokens[one]!)]);
        const text = new TextDecoder().decode(Uint8Array.from(bytes));
        found.set(text, (found.get(text) ?? 0) + 1);
      }
    }
  };
  await walk([]);
  return found;
}

test("choices reach exactly their texts, by all their tokens", async () => {
  const smile = encoder.encode("😀");
  const tokens = [
    ...["a", "b", "ab", "ba", "abc", "c", "aba", undefined, ""],
    ...[smile.slice(0, 1), smile.slice(1, 3), smile.slice(3), smile],
  ];
  const small = tokenizerOf(tokens);
  const texts = ["ab", "abab", "ba", "😀a", "ab"];
  const found = await reachable(await constraints.choices(texts, small), tokens);
  // ab, a b · abab in the parts ab and ba, aba b, … · ba, b a · 😀 as one token or three, and a.
  const counts = { ab: 2, abab: 6, ba: 2, "😀a": 2 };
  assertEquals(
    Object.fromEntries([...found].sort()),
    Object.fromEntries(Object.entries(counts).sort()),
  );
  assertEquals(
    [...(await reachable(await constraints.choices(["", "a"], small), tokens)).keys()].sort(),
    ["", "a"],
  );
  // A token that leads to where no text can be completed is not allowed.
  const gaps = ["a", "ab", "c", "bc"];
  const kept = await reachable(await constraints.choices(["abc"], tokenizerOf(gaps)), gaps);
  assertEquals([...kept], [["abc", 2]]);
  const dead = ["a", "ab", "c"];
  assertEquals([...await reachable(await constraints.choices(["abc"], tokenizerOf(dead)), dead)], [
    ["abc", 1],
  ]);
});

test("choices refuse what no tokens make", async () => {
  const small = tokenizerOf(["a", "b"]);
  for (
    const [texts, message] of [
      [[], "at least one text"],
      [["a", 3], "a choice is a text"],
      ["a", "an array"],
      [["ab", "ac"], 'no tokens make "ac"'],
      [["\ud800"], "half of a character"],
      [["a".repeat(1_000_001)], "above 1000000"],
    ] as const
  ) {
    await assertRejects(() => constraints.choices(texts as never, small), ArgumentError, message);
  }
  await assertRejects(
    () => constraints.choices(["a"], {} as never),
    ArgumentError,
    "tokenizers.open",
  );
  const state = await (await constraints.choices(["a"], small)).start({
    vocabulary: 2,
    stopTokens: [],
  });
  assertThrows(() => state.accept(1), ArgumentError, "no choice goes on");
});

test("generated texts are those of their constraints, whatever the options", async () => {
  const bytes = randomLlama("q8_0", {
    ...{ layers: 2, width: 64, heads: 4, groups: 2, hidden: 96, vocabulary: 320 },
  });
  using model = await llm.open(bytes);
  const { endTokens } = model.config;
  const own = await openTokenizer(model.metadata, { endTokens });
  const codec = {
    encode: (text: string) => own.encode(text, { special: true }),
    decode: (ids: number[]) => own.decode(ids),
  };
  using engine = await llm.engine(model, { slots: 4 });
  using session = model.session();
  using schema = await constraints.jsonSchema({
    type: "object",
    properties: { ok: { type: "boolean" }, level: { type: "integer", minimum: 1, maximum: 5 } },
    required: ["ok", "level"],
  }, own);
  const words = await constraints.choices(["yes", "no", "yesterday"], own);
  const colon = own.encode("x").at(-1)!;
  const plain = { temperature: 1, seed: 3, maxTokens: 60 };
  for (
    const options of [
      { maxTokens: 60 },
      { ...plain, topP: 0.4 },
      { ...plain, topK: 1, logitBias: { [colon]: 100 } },
      { ...plain, temperature: 5, frequencyPenalty: 1, stopTokens: [own.encode("z").at(-1)!] },
      { ...plain, speculate: true, stopTokens: endTokens },
    ]
  ) {
    const [a, b] = await Promise.all([words, schema].map(async (constraint) => {
      let text = "";
      for await (const one of engine.generate("a text", { ...options, constraint })) {
        text += one.text;
      }
      return text;
    }));
    assert(["yes", "no", "yesterday"].includes(a!), a);
    assert(/^\{"ok":(true|false),"level":[1-5]\}$/.test(b!), b);
  }
  let text = "";
  const iteration = session.generateText(codec, "a text", { ...plain, constraint: words });
  for await (const piece of iteration) text += piece;
  assert(["yes", "no", "yesterday"].includes(text), text);
  for (const constraint of [null, {}, { start: 3 }]) {
    await assertRejects(
      () => session.generate([1], { constraint: constraint as never }).next(),
      ArgumentError,
      "an object with start()",
    );
  }
  // A constraint whose only text is empty ends at once.
  const none = await constraints.choices([""], own);
  assertEquals(await session.generate([1], { constraint: none }).next(), {
    value: "stop",
    done: true,
  });
});

test("tokens have bytes, special ones have none", async () => {
  const unigram = await openTokenizer({
    get: (key: string) =>
      ({
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": ["<unk>", "<s>", "</s>", "<0x0A>", "\u2581a", "<tool>", "é"],
        "tokenizer.ggml.scores": [0, 0, 0, 0, -1, 0, -2],
        "tokenizer.ggml.token_type": [2, 3, 3, 6, 1, 4, 1],
      })[key],
  });
  const texts = Array.from({ length: unigram.size + 1 }, (_, id) => {
    const own = unigram.tokenBytes(id);
    return own && new TextDecoder().decode(own);
  });
  assertEquals(texts, [undefined, undefined, undefined, "\n", " a", "<tool>", "é", undefined]);
  const json = await openTokenizer({
    tokenizer: {
      model: { type: "BPE", vocab: { "Ġa": 0, "Ã": 1, "©": 2 }, merges: [] },
      decoder: { type: "ByteLevel" },
      added_tokens: [
        { id: 3, content: "<end>", special: true },
        { id: 4, content: "<tool_call>", special: false },
      ],
    },
  });
  assertEquals([0, 1, 2, 3, 4, 5].map((id) => json.tokenBytes(id)), [
    ...[encoder.encode(" a"), Uint8Array.of(0xc3), Uint8Array.of(0xa9), undefined],
    ...[encoder.encode("<tool_call>"), undefined],
  ]);
  const words = await openTokenizer({
    tokenizer: {
      model: { type: "WordPiece", vocab: { a: 0, "##b": 1, "[UNK]": 2 }, unk_token: "[UNK]" },
      decoder: { type: "WordPiece" },
      pre_tokenizer: { type: "BertPreTokenizer" },
    },
  });
  assertThrows(() => words.tokenBytes(0), FormatError, "bytes of its own");
  await assertRejects(() => constraints.choices(["a"], words), FormatError, "bytes of its own");
});

test("a grammar that is disposed of while a text starts", async () => {
  const constraint = await constraints.grammar('root ::= "a"', tokenizer);
  const starting = [constraint.start(CONTEXT), constraint.start(CONTEXT)];
  constraint.dispose();
  for (const start of starting) await assertRejects(() => start, DisposedError, "grammar");
});

/**
 * Chat templates against Python's Jinja: whole templates (tests/golden/models/chat_templates.json), small
 * ones (jinja.json). The text is the same, or there is an error. vocabularies_test.ts has the real ones.
 *
 * @module
 */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { readFileSync } from "node:fs";
import process from "node:process";
import { test } from "node:test";
import { ArgumentError, FormatError } from "../../src/base/errors.ts";
import { chatTemplate, type Message } from "../../src/tokenizers/mod.ts";
import { isSampled } from "../support/amount.ts";
import { golden, rendered, tokenizerWith } from "./templates.ts";

interface Case {
  readonly template: string;
  readonly messages: readonly Message[];
  readonly variables: Readonly<Record<string, unknown>>;
  readonly text?: string;
  /** The message of what the template raised. */
  readonly error?: string;
}

const { templates, cases }: {
  readonly templates: Readonly<Record<string, string>>;
  readonly cases: readonly Case[];
} = JSON.parse(
  readFileSync(new URL("../golden/models/chat_templates.json", import.meta.url), "utf8"),
);

test("chats are what Jinja makes of them", async () => {
  for (const { template, messages, variables, text, error } of cases) {
    const render = await chatTemplate(tokenizerWith(templates[template]!));
    if (error === undefined) assertEquals(render(messages, { variables }), text, template);
    else assertThrows(() => render(messages, { variables }), ArgumentError, error);
  }
  assertEquals(cases.filter(({ error }) => error !== undefined).length, 6);
});

test("a file without a template has that of ChatML", async () => {
  const given = cases.filter(({ template }) => template === "chatml");
  assertEquals(given.length, 15);
  for (const { messages, variables, text } of given) {
    const addGenerationPrompt = variables["add_generation_prompt"] as boolean;
    const render = await chatTemplate(tokenizerWith(undefined));
    assertEquals(render(messages, { addGenerationPrompt }), text);
    if (addGenerationPrompt) assertEquals(render(messages), text);
  }
});

/** What is an error here, and not in Python. */
const REFUSED: readonly string[] = [
  "{{ '<' | safe | length }}",
  "{{ ['a' | safe] }}",
  "{{ 'a' | safe | upper }}",
  "{{ 'a' == 'a' in ['a'] }}",
  "{{ words | map('upper') }}",
  "{{ 1 < 3 < 2 }}",
  "{{ s.__class__ }}",
  "{{ 100000000000000000000 }}",
  "{{ 9007199254740993 }}",
  "{{ 1e16 }}",
  "{{ words | batch(2) | list }}",
  "{{ '<b>' | e }}",
  "{{ 5 is divisibleby 5 }}",
  "{{ ('a',) if false else ('a', 'b') }}",
  "{{ ('ab' | safe)[0] }}",
  "{{ (-3) ** 2 }}",
  "{{ lipsum is defined }}",
];

test("small templates have the text of Python, or an error", async () => {
  const refused: string[] = [];
  for (const [template, expected] of golden.snippets) {
    const text = await rendered(template, [], golden.variables);
    if (text === null && expected !== null) refused.push(template);
    else assertEquals(text, expected, template);
  }
  assertEquals(refused, REFUSED);
});

test("a template that is none is an error", async () => {
  const parse = (template: string) => chatTemplate(tokenizerWith(template));
  await assertRejects(() => parse("{% for %}"), FormatError, "cannot parse the template");
  await assertRejects(() => parse("{% if x %}"), FormatError, "cannot parse the template");
  await assertRejects(() => parse("{{ 'a"), FormatError, "cannot parse the template");
  const render = await parse("{{ messages | nothing }}");
  assertThrows(() => render([]), FormatError, 'the filter "nothing" is not known');
  await assertRejects(() => parse(3 as never), ArgumentError, "Cannot parse the template 3");
});

test("templates without an end are errors", async () => {
  const templates = [
    "{% for i in range(1000000000) %}{% endfor %}",
    "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "{% set ns = namespace(s='ab') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
    "{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
    "{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x | tojson }}",
    "{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x == ns.y }}",
    "{% set ns = namespace(x=[1]) %}{% for i in range(99999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}",
    "{{ 'a' * 1000000000000 }}",
    "{{ ['a'] * 1000000000000 }}",
    "{{ '%9999999s' % 'a' }}",
    "{{ 'a'.ljust(10000000000) }}",
    "{{ 2 ** 9999 }}",
    "{% for i in range(99999) %}{{ range(99999) | list | length }}{% endfor %}",
    "{% for i in range(99999) %}{{ ('a' * 60000000) | upper | length }}{% endfor %}",
    "{{ ".concat("(".repeat(50_000), "1", ")".repeat(50_000), " }}"),
    "{{ ".concat("-".repeat(50_000), "1 }}"),
    "{% if 1 %}".repeat(20_000),
    " ".repeat(500_000),
    "x".repeat(2_000_000),
    `{{ ${"'a' ~ ".repeat(30_000)} 'b' }}`,
    // Work that one operation does, or each turn of a loop.
    "{{ ([[]] * 10 ** 7) | length }}",
    "{% for i in range(99999) %}{% set x = '%(a)s' * 99999 %}{{ x % {'a': 'b' * 9999} }}{% endfor %}",
    "{% for i in range(99999) %}{{ ('{0}' * 99999).format('b' * 9999) | length }}{% endfor %}",
    "{{ ('%(a)9999s' * 99999) % {'a': 1} }}",
    "{{ (['x' * 10 ** 6] * 10000) | map('upper') | list | length }}",
    "{{ (['x' * 10 ** 6] * 10000) | map('tojson') | list | length }}",
    "{% set a = range(999) | list %}{{ ([a] * 99999) | select('eq', range(999) | list) | list }}",
    "{% for i in range(9999) %}{{ range(999) | unique | list | length }}{% endfor %}",
    "{{ ([[[1, 2, 3], [1, 2, 3]]] * 999999) | sort | length }}",
    "{% set a = 'a' * 10 ** 7 %}{% for i in range(9999) %}{{ a.find('b') }}{% endfor %}",
    "{% set a = 'a' * 10 ** 7 %}{% for i in range(9999) %}{{ a[i] }}{% endfor %}",
    "{% set a = 'a' * 10 ** 7 %}{% for i in range(9999) %}{{ a | length }}{% endfor %}",
    "{% set a = ' ' * 10 ** 7 %}{% for i in range(9999) %}{{ a.strip() }}{% endfor %}",
    "{% set a = 'a' * 10 ** 7 %}{% for i in range(9999) %}{{ a < a ~ 'b' }}{% endfor %}",
    "{% set a = 'a' * 10 ** 6 %}{{ ('b' ~ 'a' * 9999) in a }}",
    "{% for i in range(9999) %}{{ ('a ' * 10 ** 5) | wordcount }}{% endfor %}",
    "{% for i in range(9999) %}{{ ('a ' * 10 ** 5).split() | length }}{% endfor %}",
    "{% macro m() %}{{ varargs | length }}{% endmacro %}{% set a = [1] * 999999 %}" +
    "{% for i in range(9999) %}{{ m(*a) }}{% endfor %}",
    "{{ ([1] * 10 ** 6) | tojson(indent='a' * 10 ** 6) }}",
    "{{ ([1] * 10 ** 6) | tojson(separators=['a' * 10 ** 6, ':']) }}",
    "{% for a in [1] %}".repeat(100) + "{% for i in range(99999) %}{{ none is defined }}" +
    "{{ zz }}{% endfor %}" + "{% endfor %}".repeat(100),
  ];
  for (const template of templates.filter((one) => isSampled(one.slice(0, 200), 3))) {
    const begin = process.cpuUsage().user;
    const text = await rendered(template, [], {});
    const seconds = (process.cpuUsage().user - begin) / 1e6;
    // A long sum is no error where the stack has room for it.
    assert(text === null || template.includes("~ '"), template.slice(0, 100));
    // Half a second; tests may run beside others.
    assert(seconds < 5, `${seconds} s: ${template.slice(0, 100)}`);
  }
});

test("values of programs keep their meaning", async () => {
  const render = await chatTemplate(tokenizerWith("{{ x }}|{{ x | tojson }}"));
  const text = (x: unknown) => render([], { variables: { x } });
  assertEquals(
    text({ a: [1, 2.5, null, true], b: undefined }),
    "{'a': [1, 2.5, None, True]}|" +
      '{"a": [1, 2.5, null, true]}',
  );
  assertThrows(() => text(() => 1), FormatError, "a variable is a function");
  const loop: unknown[] = [];
  loop.push(loop);
  assertThrows(() => text(loop), FormatError, "levels");
});

test("tokens that a model does not have are empty", async () => {
  const none = {
    ...tokenizerWith("[{{ bos_token }}{{ eos_token }}]"),
    bos: undefined,
    eos: undefined,
  };
  assertEquals((await chatTemplate(none))([]), "[]");
});

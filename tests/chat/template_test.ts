/**
 * Chat templates of the example `chat` against Jinja (tests/golden/models/chat_templates.json).
 *
 * @module
 */
import { assertEquals, assertThrows } from "@std/assert";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { chatTemplate, type Message } from "../../examples/chat/template.ts";

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

/** What a template needs of a tokenizer. */
const tokenizerWith = (template: string | undefined) => ({
  bos: 0,
  eos: 1,
  tokenText: (id: number) => ["<s>", "</s>", "<eot>"][id]!,
  chatTemplate: template,
});

test("chats are what Jinja makes of them", () => {
  for (const { template, messages, variables, text, error } of cases) {
    const render = chatTemplate(tokenizerWith(templates[template]!));
    if (error === undefined) assertEquals(render(messages, { variables }), text, template);
    else assertThrows(() => render(messages, { variables }), Error, error);
  }
  assertEquals(cases.filter(({ error }) => error !== undefined).length, 6);
});

test("a file without a template has that of ChatML", () => {
  const given = cases.filter(({ template }) => template === "chatml");
  assertEquals(given.length, 15);
  for (const { messages, variables, text } of given) {
    const addGenerationPrompt = variables["add_generation_prompt"] as boolean;
    const render = chatTemplate(tokenizerWith(undefined));
    assertEquals(render(messages, { addGenerationPrompt }), text);
    if (addGenerationPrompt) assertEquals(render(messages), text);
  }
});

test("a template that is none says so", () => {
  const parse = () => chatTemplate(tokenizerWith("{% for %}"));
  assertThrows(parse, Error, "the chat template cannot be parsed");
  const render = chatTemplate(tokenizerWith("{{ messages | nothing }}"));
  assertThrows(() => render([]), Error, "the chat template failed");
});

test("tokens that a model does not have are empty", () => {
  const none = {
    ...tokenizerWith("[{{ bos_token }}{{ eos_token }}]"),
    bos: undefined,
    eos: undefined,
  };
  assertEquals(chatTemplate(none)([]), "[]");
});

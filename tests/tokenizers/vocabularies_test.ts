/**
 * The real vocabularies of llama.cpp, where they are in models/vocabularies: the texts and ids that it
 * tests itself with, and hashes of its ids of 500 more texts (tests/golden/models/vocabularies.json),
 * for BERT those of `tokenizers`; and its chat templates, with hashes of the texts of Python's Jinja.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { modelFolder } from "../../scripts/models.ts";
import { open } from "../../src/tokenizers/mod.ts";
import { golden as templates, hashOf as textHash, rendered } from "./templates.ts";

interface Golden {
  readonly texts: readonly string[];
  /** By the name of a vocabulary, the hashes of the ids of the texts, with special tokens or not. */
  readonly ids: Readonly<
    Record<string, { readonly plain: readonly string[]; readonly special: readonly string[] }>
  >;
}

const golden: Golden = JSON.parse(
  readFileSync(new URL("../golden/models/vocabularies.json", import.meta.url), "utf8"),
);

/** FNV-1a of ids with spaces between them. */
function hashOf(ids: readonly number[]): string {
  let hash = 0x811c9dc5;
  for (const char of ids.join(" ")) {
    hash = Math.imul(hash ^ char.charCodeAt(0), 0x01000193) >>> 0;
  }
  return hash.toString(16).padStart(8, "0");
}

/**
 * Where llama.cpp has other ids: it takes `</s>` for a special token, which is a text of HTML in the
 * vocabulary of Qwen, as in transformers.
 */
function isOther(name: string, text: string): boolean {
  return name.startsWith("qwen") && text.includes("</s>");
}

const folder = modelFolder("vocabularies");
const why = folder === undefined ? " (skipped: models/vocabularies is not there)" : "";

test(`all vocabularies are there${why}`, { skip: folder === undefined }, () => {
  const names = readdirSync(folder!).filter((name) => name.endsWith(".gguf"))
    .map((name) => name.slice("ggml-vocab-".length, -".gguf".length));
  assertEquals(names.sort(), Object.keys(golden.ids).sort());
});

for (const [name, { plain, special }] of Object.entries(golden.ids)) {
  test(`${name} has the ids of its model${why}`, { skip: folder === undefined }, async () => {
    const path = join(folder!, `ggml-vocab-${name}.gguf`);
    const tokenizer = await open(path);
    if (existsSync(`${path}.inp`)) {
      const texts = readFileSync(`${path}.inp`, "utf8").split("\n__ggml_vocab_test__\n");
      const ids = readFileSync(`${path}.out`, "utf8").trimEnd().split("\n");
      assert(ids.length > 40);
      for (const [i, line] of ids.entries()) {
        const expected = line.trim() === "" ? [] : line.trim().split(/\s+/).map(Number);
        assertEquals(tokenizer.encode(texts[i]!), expected, JSON.stringify(texts[i]));
      }
    }
    const wrong: string[] = [];
    for (const [i, text] of golden.texts.entries()) {
      if (hashOf(tokenizer.encode(text)) !== plain[i]) wrong.push(`plain ${i}`);
      const ids = tokenizer.encode(text, { special: true, addSpecial: true });
      const isWrong = hashOf(ids) !== special[i];
      if (isWrong !== isOther(name, text)) wrong.push(`special ${i}`);
    }
    assertEquals(wrong, []);
  });
}

test(`real templates have the text of Python, or an error${why}`, { skip: !folder }, async () => {
  const all = join(folder!, "templates");
  const names = readdirSync(all).filter((name) => name.endsWith(".jinja")).sort();
  assertEquals(names, Object.keys(templates.real));
  const refused: string[] = [];
  for (const name of names) {
    const template = readFileSync(join(all, name), "utf8");
    for (const [i, [messages, variables]] of templates.chats.entries()) {
      const { add_generation_prompt: addGenerationPrompt = true, ...rest } = variables;
      const given = { add_generation_prompt: addGenerationPrompt, ...rest };
      const text = await rendered(template, messages, given);
      const expected = templates.real[name]![i]!;
      if (text === null && expected !== null) refused.push(`${name} ${i}`);
      else assertEquals(text === null ? null : textHash(text), expected, `${name} ${i}`);
    }
  }
  assertEquals(refused, []);
});

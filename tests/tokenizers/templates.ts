/**
 * What Python's Jinja makes of templates (tests/golden/models/jinja.json), for the tests of templates.
 *
 * @module
 */
import { readFileSync } from "node:fs";
import { ArgumentError, FormatError } from "../../src/base/errors.ts";
import { chatTemplate, type Message } from "../../src/tokenizers/mod.ts";

/** What Python's Jinja makes of templates. */
interface Golden {
  readonly now: string;
  readonly variables: Readonly<Record<string, unknown>>;
  /** Templates with their texts; null for an error. */
  readonly snippets: readonly (readonly [template: string, text: string | null])[];
  readonly chats: readonly (readonly [Message[], Readonly<Record<string, unknown>>])[];
  /** By the name of a real template, the hash of the text of each chat; null for an error. */
  readonly real: Readonly<Record<string, readonly (string | null)[]>>;
}

/** The texts of templates. */
export const golden: Golden = JSON.parse(
  readFileSync(new URL("../golden/models/jinja.json", import.meta.url), "utf8"),
);
const now = new Date(golden.now);

/** FNV-1a of a text in UTF-8. */
export function hashOf(text: string): string {
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(text)) {
    hash = Math.imul(hash ^ byte, 0x01000193) >>> 0;
  }
  return hash.toString(16).padStart(8, "0");
}

/** The text of a template; null for an error of the library. */
export async function rendered(
  template: string,
  messages: readonly Message[],
  variables: Readonly<Record<string, unknown>>,
): Promise<string | null> {
  try {
    const render = await chatTemplate(tokenizerWith(template));
    return render(messages, { now, variables });
  } catch (error) {
    if (error instanceof FormatError || error instanceof ArgumentError) return null;
    throw error;
  }
}

/** What a template needs of a tokenizer. */
export const tokenizerWith = (template: string | undefined) => ({
  bos: 0,
  eos: 1,
  tokenText: (id: number) => ["<s>", "</s>", "<eot>"][id]!,
  chatTemplate: template,
});

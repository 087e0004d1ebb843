/**
 * Patterns of tokenizer.json: those of models are taken, and those of exponential time refused.
 *
 * @module
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import process from "node:process";
import { test } from "node:test";
import { FormatError } from "../../src/base/errors.ts";
import { isExponential } from "../../src/tokenizers/ambiguity.ts";
import { open } from "../../src/tokenizers/mod.ts";
import { CUTS } from "../../src/tokenizers/pre_tokenizers.ts";

const { raw } = String;

/** Patterns of models, and others that are linear in each place. */
const TAKEN: readonly string[] = [
  ...CUTS.flatMap(({ patterns }) => patterns),
  raw`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}|\s+`,
  raw` ?[^(\s|[.,!?…。，、।۔،])]+`,
  raw`\p{N}{1,3}(?=(?:\p{N}{3})*(?:[^\p{N}]|$))`,
  ...[raw`(?=(\d{3})+(?!\d))`, raw`[\p{Han}&&[^a]]+|\p{L}+`, raw`(?:\r?\n)+(?!\r?\n)`],
  ...[
    "",
    " ",
    ".",
    " {2,}",
    raw`\s+$`,
    "(ab|cd)+e",
    "(a|b)+c",
    "(?:a{3})*b",
    "(a?)*b",
    "(?:ab?)+c",
  ],
  `(${new Array(150).fill("a").join("|")})x`,
];

const EXPONENTIAL: readonly string[] = [
  ...["(a+)+$", "(a*)*b", "(a|a)*b", "(a|aa)+$", "([a-z]+)*1", "(.*)*x", "((a+)b?)+c", "(a*b?)*c"],
  ...[raw`(\s|\s)+x`, raw`(\p{L}|\p{Lu})+!`, "(?:a+){2,}b", "(?=(a+)+b)a", "(?i:(a|A))+b"],
  ...["(a{1,5})+b", "((ab)*)*c", "(x+x+)+y", raw`(\w+\s?)+$`, "(a|b|ab)*c", "(a?a?)*b"],
  // Too long to tell.
  ...["(".repeat(9000), `${"(".repeat(9000)}${")".repeat(9000)}`, `(${"[a-z]*".repeat(190)})x`],
  ...["(((((){20}){20}){20}){20}){20}", "a".repeat(30_000), "(a{20}){20}"],
];

test("patterns that repeat a part which matches in two ways are exponential", () => {
  for (const pattern of TAKEN) assert(!isExponential(pattern), pattern);
  for (const pattern of EXPONENTIAL) {
    const begin = process.cpuUsage().user;
    assert(isExponential(pattern), pattern.slice(0, 60));
    const seconds = (process.cpuUsage().user - begin) / 1e6;
    assert(seconds < 2, `${pattern.slice(0, 60)}: ${seconds} s`);
  }
});

test("a tokenizer.json with an exponential pattern is refused, wherever it is", async () => {
  const model = { type: "WordPiece", unk_token: "[UNK]", vocab: { "[UNK]": 0, a: 1 } };
  const split = (Regex: string) => ({ type: "Split", pattern: { Regex }, behavior: "Isolated" });
  const tokenizer = await open({ model, pre_tokenizer: split(raw`\s+`) } as never);
  assertEquals(tokenizer.encode("a"), [1]);
  const bomb = { Regex: "(a+)+$" };
  const parts = [
    { pre_tokenizer: split(bomb.Regex) },
    { pre_tokenizer: { type: "Sequence", pretokenizers: [null, split(bomb.Regex)] } },
    { normalizer: { type: "Replace", pattern: bomb, content: "" } },
    { decoder: { type: "Replace", pattern: bomb, content: "" } },
  ];
  for (const part of parts) {
    await assertRejects(() => open({ model, ...part } as never), FormatError, "exponential time");
  }
});

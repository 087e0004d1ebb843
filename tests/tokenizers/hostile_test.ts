/**
 * Damaged and hostile tokenizer files: a FormatError or a tokenizer, in bounded time.
 *
 * @module
 */
import { assert, assertRejects } from "@std/assert";
import { readFileSync } from "node:fs";
import process from "node:process";
import { test } from "node:test";
import { ArgumentError, FormatError } from "../../src/base/errors.ts";
import { open, type TokenizerSource } from "../../src/tokenizers/mod.ts";
import { amount, isSampled } from "../support/amount.ts";

interface Vocabulary {
  readonly tokens: readonly string[];
  readonly types: readonly number[];
  readonly scores?: readonly number[];
  readonly merges?: readonly string[];
  readonly charsmap?: readonly number[];
}

const golden: Readonly<Record<"bytes" | "pieces" | "unigrams" | "words", Vocabulary>> = JSON.parse(
  readFileSync(new URL("../golden/models/tokenizers.json", import.meta.url), "utf8"),
);

type Values = Readonly<Record<string, unknown>>;

/** The metadata of each kind, by the names of its keys. */
const KINDS: readonly Values[] = ([
  ["gpt2", "bytes"],
  ["gemma4", "bytes"],
  ["llama", "pieces"],
  ["t5", "unigrams"],
  ["bert", "words"],
] as const).map(([model, name]) => {
  const { tokens, types, scores, merges, charsmap } = golden[name];
  return {
    ...{ model, pre: "gpt-2", tokens, token_type: types, scores, merges },
    ...{ precompiled_charsmap: charsmap, unknown_token_id: 0, bos_token_id: 1, eos_token_id: 2 },
    ...{ add_bos_token: true, add_space_prefix: true, remove_extra_whitespaces: true },
    ...{ seperator_token_id: 2, cls_token_id: 1, padding_token_id: 0, mask_token_id: 0 },
  };
});

function sourceOf(values: Values): TokenizerSource {
  return { get: (key: string) => values[key.replace("tokenizer.ggml.", "")] };
}

/** What files may have in place of a value. */
const WRONG: readonly unknown[] = [
  ...[null, true, -1, 0.5, 1e300, NaN, 2 ** 32 - 1, 2n ** 64n, "", "x", "\ud800", [], [[]], [null]],
  ...[["a"], [1], [NaN], [1e300], {}, new Array(100).fill("\u2581"), new Array(5000).fill(255)],
];

const TEXTS = ["", "a", "the quick <|im_end|>\n[CLS] 🙂\ud800 \u0000\u2581", "ab ".repeat(500)];

/** Uses a tokenizer, if the source has one; throws for other errors than those of files. */
async function use(source: TokenizerSource): Promise<boolean> {
  try {
    const tokenizer = await open(source);
    for (const text of TEXTS) {
      const ids = tokenizer.encode(text, { special: true, addSpecial: true });
      tokenizer.decode(ids);
      tokenizer.encodeInput([text, text], { maxLength: 20 });
    }
    return true;
  } catch (error) {
    if (error instanceof FormatError || error instanceof ArgumentError) return false;
    throw error;
  }
}

test("a wrong value in metadata is a FormatError, or changes nothing", async () => {
  let refused = 0, used = 0;
  for (const values of KINDS) {
    assert(await use(sourceOf(values)));
    for (const key of Object.keys(values)) {
      for (const [i, wrong] of WRONG.entries()) {
        if (!isSampled(`${String(values["model"])} ${key} ${i}`, 8)) continue;
        if (await use(sourceOf({ ...values, [key]: wrong }))) used++;
        else refused++;
      }
    }
  }
  assert(refused > amount(30, 300) && used > amount(10, 100), `${refused} ${used}`);
});

test("a damaged map of characters is a FormatError, or another map", async () => {
  const values = KINDS[3]!;
  const map = golden.unigrams.charsmap!;
  for (let i = 0; i < map.length; i += 1 + Math.floor(map.length / amount(20, 200))) {
    for (const byte of [0, 0x80, 0xff]) {
      await use(sourceOf({ ...values, precompiled_charsmap: map.with(i, byte) }));
    }
    await use(sourceOf({ ...values, precompiled_charsmap: map.slice(0, i) }));
  }
});

test("hostile vocabularies take no more time than others", async () => {
  const begin = process.cpuUsage().user;
  const [bytes, , pieces, unigrams, words] = KINDS;
  const repeated = (count: number, of = "a") =>
    Array.from({ length: count }, (_, i) => of.repeat(i + 1));
  const length = amount(5000, 100_000);
  const texts = [..."ax字"].map((char) => char.repeat(length));
  const vocabulary = (kind: Values, tokens: readonly string[], types: number, more = {}) => ({
    ...kind,
    ...{ tokens, token_type: tokens.map((_, i) => i === 0 && types === 1 ? 2 : types) },
    ...{ scores: tokens.map((_, i) => i), precompiled_charsmap: undefined, ...more },
  });
  const chars = Array.from({ length: 60_000 }, (_, i) => String.fromCharCode(i + 1));
  const hostile = [
    vocabulary(bytes!, repeated(200).map((one) => `${one}y`), 4),
    vocabulary(bytes!, chars, 4),
    vocabulary(bytes!, repeated(5000), 1, { merges: repeated(1000).map((one) => `a ${one}`) }),
    vocabulary(bytes!, repeated(5000), 1, { merges: repeated(1000).map((one) => `${one} a`) }),
    vocabulary(bytes!, ["a", "b"], 1, { merges: ["a b", "b a", "a a", "a a", "aa aa", "", " "] }),
    vocabulary(bytes!, new Array<string>(length).fill("a"), 1, {
      merges: new Array<string>(length).fill("a b"),
    }),
    ...[pieces!, unigrams!, words!].map((kind) => vocabulary(kind, repeated(128), 1)),
    vocabulary(pieces!, repeated(128), 1, { scores: repeated(128).map(() => 0) }),
    vocabulary(pieces!, ["\u2581", "\u2581\u2581"], 4),
  ];
  for (const values of hostile) {
    const tokenizer = await open(sourceOf(values));
    for (const text of texts) tokenizer.decode(tokenizer.encode(text));
  }
  const seconds = (process.cpuUsage().user - begin) / 1e6;
  assert(seconds < 20, `${seconds} s`);

  const refused: readonly (readonly [Values, string])[] = [
    [vocabulary(bytes!, ["a".repeat(1000)], 3), "special token 0 has 1000 code units, above 256"],
    [
      vocabulary(bytes!, Array.from({ length: 10_000 }, (_, i) => `${i}`.padStart(250, "x")), 4),
      "special tokens have more than 2000000 code units",
    ],
    ...[pieces!, unigrams!, words!].map((kind) =>
      [vocabulary(kind, repeated(200), 1), "has 129 code units, above 128"] as const
    ),
  ];
  for (const [values, part] of refused) {
    await assertRejects(() => open(sourceOf(values)), FormatError, part);
  }
});

test("a wrong value in a tokenizer.json is a FormatError, or changes nothing", async () => {
  const { tokens, merges } = golden.bytes;
  const json: Values = {
    normalizer: null,
    pre_tokenizer: { type: "ByteLevel", add_prefix_space: false, use_regex: true },
    post_processor: null,
    decoder: { type: "ByteLevel" },
    added_tokens: [{ id: 1, content: "<|im_start|>", special: true, normalized: false }],
    model: { type: "BPE", vocab: Object.fromEntries(tokens.map((t, i) => [t, i])), merges },
  };
  assert(await use({ tokenizer: json }));
  const damaged: unknown[] = [];
  for (const key of Object.keys(json)) {
    for (const wrong of [...WRONG, { type: "Nothing" }]) damaged.push({ ...json, [key]: wrong });
  }
  const model = json["model"] as Values;
  for (const key of Object.keys(model)) {
    for (const wrong of WRONG) damaged.push({ ...json, model: { ...model, [key]: wrong } });
  }
  for (
    const token of [
      ...[{ id: -1, content: "x" }, { id: 1e9, content: "x" }, { id: 0.5, content: "x" }, {
        id: 1,
      }],
      ...[{ id: 1, content: 3 }, { id: 1, content: "" }, { content: "x" }, null, "x"],
    ]
  ) {
    damaged.push({ ...json, added_tokens: [token] });
  }
  for (const one of damaged) {
    // An id of 2^31 would make an array of so many items.
    await use({ tokenizer: one as object });
  }
  await assertRejects(
    () => open({ tokenizer: { ...json, added_tokens: [{ id: 1e9, content: "x" }] } }),
    FormatError,
    "added_tokens: id is 1000000000",
  );
  await assertRejects(() => open({ tokenizer: {} }), FormatError, "has no model");
});

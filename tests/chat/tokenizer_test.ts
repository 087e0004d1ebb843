/**
 * The tokenizer of the example `chat`: ids of small vocabularies against the packages tokenizers and
 * sentencepiece (tests/golden/models/tokenizers.json), what is refused, folders; and the ids of
 * SmolLM2, where its file is.
 *
 * @module
 */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import fc from "fast-check";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { joinPairs } from "../../examples/chat/bpe.ts";
import { chatTemplate } from "../../examples/chat/template.ts";
import { cutOf, wordsOf } from "../../examples/chat/words.ts";
import { openTokenizer, type Tokenizer } from "../../examples/chat/tokenizer.ts";
import { modelFolder } from "../../scripts/models.ts";
import * as nn from "../../src/nn/mod.ts";

/** The ids of all texts: where special tokens are such, and where they are texts. */
interface Ids {
  readonly special: readonly number[][];
  readonly plain: readonly number[][];
}

interface Vocabulary {
  readonly tokens: readonly string[];
  readonly types: readonly number[];
}

interface Golden {
  readonly texts: readonly string[];
  readonly bytes: Vocabulary & {
    readonly merges: readonly string[];
    readonly ids: Readonly<Record<string, Ids>>;
  };
  readonly pieces: Vocabulary & {
    readonly scores: readonly number[];
    readonly ids: Readonly<Record<string, readonly number[][]>>;
  };
  readonly smollm2: Ids;
}

const golden: Golden = JSON.parse(
  readFileSync(new URL("../golden/models/tokenizers.json", import.meta.url), "utf8"),
);
const { texts, bytes, pieces } = golden;

/** Metadata as a GGUF file has it. */
function metadata(values: Readonly<Record<string, unknown>>): { get(key: string): unknown } {
  return { get: (key) => values[key.replace("tokenizer.ggml.", "")] };
}

const ofBytes = (pre: string, more: Readonly<Record<string, unknown>> = {}) =>
  metadata({
    model: "gpt2",
    pre,
    tokens: bytes.tokens,
    token_type: bytes.types,
    merges: bytes.merges,
    bos_token_id: 1,
    eos_token_id: 2,
    ...more,
  });
const ofPieces = (more: Readonly<Record<string, unknown>> = {}) =>
  metadata({
    model: "llama",
    tokens: pieces.tokens,
    token_type: pieces.types,
    scores: pieces.scores,
    bos_token_id: 1,
    eos_token_id: 2,
    unknown_token_id: 0,
    ...more,
  });

function assertIds(tokenizer: Tokenizer, ids: Ids, name: string): void {
  for (const [i, text] of texts.entries()) {
    const what = `${name}: ${JSON.stringify(text)}`;
    const special = tokenizer.encode(text, { special: true });
    assertEquals(special, ids.special[i], what);
    assertEquals(tokenizer.encode(text), ids.plain[i], what);
    assertEquals(tokenizer.decode(special, { special: true }), text, what);
    assertEquals(tokenizer.decode(ids.plain[i]!), text, what);
  }
}

test("pairs are joined by their ranks, the first of equal ones first", () => {
  const letters = fc.array(fc.constantFrom<string>("a", "b", "c"), { maxLength: 40 });
  const ranked = fc.dictionary(fc.stringMatching(/^[abc]{2,6}$/), fc.nat(5), { maxKeys: 40 });
  fc.assert(fc.property(letters, ranked, (word, ranks) => {
    const rankOf = (left: string, right: string) => ranks[left + right];
    const expected = [...word];
    for (;;) {
      let best = -1, least = Infinity;
      for (let i = 0; i + 1 < expected.length; i++) {
        const rank = rankOf(expected[i]!, expected[i + 1]!) ?? Infinity;
        if (rank < least) [best, least] = [i, rank];
      }
      if (best < 0) break;
      expected.splice(best, 2, expected[best]! + expected[best + 1]!);
    }
    assertEquals(joinPairs(word, rankOf), expected);
  }));
});

test("ids of bytes are those of tokenizers, however words are cut", async () => {
  const names = Object.keys(bytes.ids);
  assertEquals(new Set(names.map((name) => JSON.stringify(bytes.ids[name]))).size, 12);
  for (const name of names) {
    assertIds(await openTokenizer(ofBytes(name)), bytes.ids[name]!, name);
  }
});

test("spaces before what no pattern matches are words of their own", () => {
  for (const name of ["deepseek-v3", "hunyuan-dense"]) {
    const cut = (text: string) => wordsOf(text, cutOf(name).patterns);
    assertEquals(cut("> \u200d<"), [">", " ", "\u200d", "<"]);
    assertEquals(cut("a  \u0001b \ufeff"), ["a", " ", " ", "\u0001b", " ", "\ufeff"]);
    assertEquals(cut("a\t\n 1  "), ["a", "\t\n", " ", "1", "  "]);
  }
});

test("ids of pieces are those of SentencePiece", async () => {
  for (const add_space_prefix of [true, false]) {
    const tokenizer = await openTokenizer(ofPieces({ add_space_prefix }));
    const ids = pieces.ids[add_space_prefix ? "prefix" : "no prefix"]!;
    for (const [i, text] of texts.entries()) {
      assertEquals(tokenizer.encode(text), ids[i], text);
      assertEquals(tokenizer.decode(ids[i]!), text.replaceAll("▁", " "));
    }
    // Each text between special tokens is one of its own.
    const [a, b] = ["a dog", "the fox"].map((text) => tokenizer.encode(text));
    const ended = tokenizer.encode("a dog</s>the fox", { special: true });
    assertEquals(ended, [...a!, 2, ...b!]);
    assertEquals(tokenizer.decode(ended, { special: true }), "a dog</s>the fox");
    assertEquals(tokenizer.tokenText(b![0]!)[0], add_space_prefix ? " " : "t");
  }
});

test("long words take no time that grows by the square", async () => {
  const tokenizer = await openTokenizer(ofPieces());
  const text = "the quick brown fox ".repeat(10_000);
  assertEquals(tokenizer.decode(tokenizer.encode(text)), text);
});

test("characters that end within the ids are U+FFFD", async () => {
  for (const source of [ofBytes("smollm"), ofPieces()]) {
    const tokenizer = await openTokenizer(source);
    const ids = tokenizer.encode("x🦊");
    assert(ids.length >= 4);
    assertEquals(tokenizer.decode(ids), "x🦊");
    assertEquals(tokenizer.decode(ids.slice(0, -1)), "x\ufffd");
    assertEquals(tokenizer.decode([]), "");
    assertEquals(tokenizer.tokenText(ids.at(-1)!), "\ufffd");
    assertThrows(() => tokenizer.decode([bytes.tokens.length]), RangeError, "there is no token");
    assertThrows(() => tokenizer.tokenText(-1), RangeError, "there is no token -1");
  }
});

test("special tokens are left out of texts unless they are asked for", async () => {
  const tokenizer = await openTokenizer(ofBytes("smollm"));
  const ids = tokenizer.encode("<|im_start|>a<tool>b<|im_end|>", { special: true });
  assertEquals([ids[0], ids.at(-1)], [1, 2]);
  assertEquals(tokenizer.decode(ids), "a<tool>b");
  assertEquals(tokenizer.tokenText(1), "<|im_start|>");
  // A token that ends texts is one, whatever its type in the file.
  const types = bytes.types.map((type, id) => id === 2 ? 1 : type);
  const source = ofBytes("smollm", { token_type: types });
  const [shown, hidden] = [await openTokenizer(source), await openTokenizer(source, [2])];
  assertEquals([shown.decode([1, 2]), hidden.decode([1, 2])], ["<|im_end|>", ""]);
  // Those that the user defined are no control tokens.
  const tool = bytes.tokens.indexOf("<tool>");
  assert(ids.includes(tool) && tokenizer.encode("a<tool>b").includes(tool));
});

test("the tokens at the begin and the end are told", async () => {
  const of = async (source: Parameters<typeof openTokenizer>[0]) => {
    const { bos, eos, addBos } = await openTokenizer(source);
    return [bos, eos, addBos];
  };
  assertEquals(await of(ofBytes("smollm")), [1, 2, false]);
  assertEquals(await of(ofBytes("llama-bpe", { eos_token_id: 0 })), [1, 0, true]);
  assertEquals(await of(ofBytes("llama-bpe", { add_bos_token: false })), [1, 2, false]);
  const none = { eos_token_id: 2 ** 32 - 1, add_bos_token: true, bos_token_id: 2 ** 32 - 1 };
  assertEquals(await of(ofBytes("smollm", none)), [undefined, undefined, false]);
  assertEquals(await of(ofPieces()), [1, 2, true]);
  const { chatTemplate } = await openTokenizer(ofBytes("smollm"));
  assertEquals(chatTemplate, undefined);
});

test("what is not a vocabulary that is read is an error that tells it", async () => {
  const cases: readonly (readonly [source: { get(key: string): unknown }, message: string])[] = [
    [metadata({}), "has no tokenizer.ggml.tokens"],
    [metadata({ tokens: [] }), "has no tokenizer.ggml.tokens"],
    [metadata({ tokens: [1, 2] }), "tokenizer.ggml.tokens is no array of texts"],
    [ofBytes("smollm", { model: "bert" }), 'the tokenizer is "bert"'],
    [ofBytes("smollm", { model: undefined }), "the tokenizer is not named"],
    [ofBytes("unheard-of"), 'tokenizer.ggml.pre is "unheard-of"'],
    [ofBytes("smollm", { pre: 1 }), "tokenizer.ggml.pre is no text"],
    [ofBytes("smollm", { merges: undefined }), "has no tokenizer.ggml.merges"],
    [ofBytes("smollm", { token_type: [1, 1] }), `has 2 of ${bytes.tokens.length} numbers`],
    [ofBytes("smollm", { eos_token_id: "2" }), "eos_token_id is no id"],
    [ofBytes("smollm", { add_bos_token: 1 }), "add_bos_token is no bool"],
    [ofPieces({ scores: undefined }), "has no tokenizer.ggml.scores"],
    [ofPieces({ scores: [0.5] }), "tokenizer.ggml.scores has 1 of"],
  ];
  for (const [source, message] of cases) {
    await assertRejects(() => openTokenizer(source), Error, message);
  }
  // Files that do not name the cut have the default.
  const unnamed = await openTokenizer(ofBytes("smollm", { pre: undefined }));
  assertIds(unnamed, bytes.ids["default"]!, "unnamed");
});

const folder = mkdtempSync(join(tmpdir(), "rowmajor-chat-"));
after(() => rmSync(folder, { recursive: true }));
const write = (name: string, value: unknown) =>
  writeFileSync(join(folder, name), typeof value === "string" ? value : JSON.stringify(value));
const added = (vocabulary: Vocabulary, types: readonly number[]) =>
  vocabulary.tokens.flatMap((content, id) =>
    types.includes(vocabulary.types[id]!)
      ? [{ id, content, special: vocabulary.types[id] !== 4, normalized: false }]
      : []
  );
const vocabularyOf = ({ tokens }: Vocabulary) => Object.fromEntries(tokens.map((t, i) => [t, i]));

test("a folder has the ids of its tokenizer.json", async () => {
  await assertRejects(() => openTokenizer(folder), Error, "there is no tokenizer.json");
  write("tokenizer.json", {
    normalizer: null,
    pre_tokenizer: { type: "ByteLevel", add_prefix_space: false, use_regex: true },
    post_processor: null,
    decoder: { type: "ByteLevel" },
    added_tokens: added(bytes, [3, 4]),
    model: { type: "BPE", vocab: vocabularyOf(bytes), merges: bytes.merges },
  });
  write("tokenizer_config.json", {
    bos_token: "<|im_start|>",
    eos_token: { content: "<|im_end|>" },
    chat_template: [{ name: "tool_use", template: "t" }, { name: "default", template: "d" }],
  });
  const tokenizer = await openTokenizer(folder);
  const { special, plain } = bytes.ids["gpt-2"]!;
  for (const [i, text] of texts.entries()) {
    // JavaScript's white space, which the package takes, has U+FEFF and lacks U+0085.
    if (/[\ufeff\u0085]/.test(text)) continue;
    assertEquals(tokenizer.encode(text, { special: true }), special[i], text);
    assertEquals(tokenizer.encode(text), plain[i], text);
    assertEquals(tokenizer.decode(special[i]!, { special: true }), text);
  }
  const { bos, eos, addBos } = tokenizer;
  assertEquals([bos, eos, addBos, tokenizer.chatTemplate], [1, 2, false, "d"]);
  assertEquals(tokenizer.decode(tokenizer.encode("a<|im_end|>", { special: true })), "a");
  assertEquals([tokenizer.tokenText(1), tokenizer.decode([])], ["<|im_start|>", ""]);
  const [fox] = tokenizer.encode(" fox");
  assertEquals(tokenizer.tokenText(fox!), " fox");
  assertThrows(() => tokenizer.tokenText(bytes.tokens.length), RangeError, "there is no token");
  write("chat_template.jinja", "j");
  const other = await openTokenizer(folder);
  assertEquals([other.eos, other.chatTemplate], [2, "j"]);
});

test("a folder's tokens with a space in front have it", async () => {
  const tokens = ["<unk>", "<s>", "</s>", "▁", "a", "b", "▁a", "▁b"];
  write("tokenizer.json", {
    normalizer: {
      type: "Sequence",
      normalizers: [
        { type: "Prepend", prepend: "▁" },
        { type: "Replace", pattern: { String: " " }, content: "▁" },
      ],
    },
    pre_tokenizer: null,
    post_processor: {
      type: "TemplateProcessing",
      single: [{ SpecialToken: { id: "<s>", type_id: 0 } }, { Sequence: { id: "A", type_id: 0 } }],
      pair: [],
      special_tokens: { "<s>": { id: "<s>", ids: [1], tokens: ["<s>"] } },
    },
    decoder: {
      type: "Sequence",
      decoders: [
        { type: "Replace", pattern: { String: "▁" }, content: " " },
        { type: "Fuse" },
        { type: "Strip", content: " ", start: 1, stop: 0 },
      ],
    },
    added_tokens: added({ tokens, types: [2, 3, 3] }, [2, 3]),
    model: {
      type: "BPE",
      unk_token: "<unk>",
      vocab: vocabularyOf({ tokens, types: [] }),
      merges: ["▁ a", "▁ b"],
    },
  });
  write("tokenizer_config.json", { bos_token: "<s>", eos_token: "</s>" });
  const tokenizer = await openTokenizer(folder);
  assertEquals([tokenizer.bos, tokenizer.addBos], [1, true]);
  assertEquals(tokenizer.encode("a b"), [6, 7]);
  assertEquals(tokenizer.decode([6, 7]), "a b");
  assertEquals([6, 7, 5].map((id) => tokenizer.tokenText(id)), [" a", " b", "b"]);
});

const smollm2 = modelFolder("smollm2");
const why = smollm2 === undefined ? " (skipped: models/smollm2 is not there)" : "";

test(`SmolLM2 has the ids of tokenizers${why}`, { skip: smollm2 === undefined }, async () => {
  const name = readdirSync(smollm2!).find((name) => name.endsWith(".gguf"))!;
  using weights = await nn.open(join(smollm2!, name));
  const tokenizer = await openTokenizer(weights.metadata);
  assertIds(tokenizer, golden.smollm2, "SmolLM2");
  assertEquals([tokenizer.bos, tokenizer.eos, tokenizer.addBos], [1, 2, false]);
  const system = "You are a helpful AI assistant named SmolLM, trained by Hugging Face";
  assertEquals(
    chatTemplate(tokenizer)([{ role: "user", content: "Hi" }]),
    `<|im_start|>system\n${system}<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n` +
      "<|im_start|>assistant\n",
  );
});

/**
 * Tokenizers: ids of small vocabularies against the packages tokenizers and sentencepiece
 * (tests/golden/models/tokenizers.json), pairs, batches, what is refused, folders; and the ids of
 * SmolLM2, where its file is.
 *
 * @module
 */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { Tokenizer as Package } from "@huggingface/tokenizers";
import fc from "fast-check";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { modelFolder } from "../../scripts/models.ts";
import { ArgumentError, FormatError } from "../../src/base/errors.ts";
import { parseGguf } from "../../src/io/gguf.ts";
import * as nn from "../../src/nn/mod.ts";
import { joinPairs } from "../../src/tokenizers/bpe.ts";
import { chatTemplate, open, type Tokenizer } from "../../src/tokenizers/mod.ts";
import { CUTS, patternsOf, wordsOf } from "../../src/tokenizers/pre_tokenizers.ts";
import { finish } from "../../src/tokenizers/steps.ts";
import { amount } from "../support/amount.ts";
import { ggufMetadata, type GgufValue, writeGguf } from "../support/gguf.ts";

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
  readonly unigrams: Vocabulary & {
    readonly scores: readonly number[];
    readonly charsmap: readonly number[];
    readonly ids: readonly number[][];
  };
  readonly words: Vocabulary & {
    readonly ids: readonly number[][];
    /** Of each maximal length, the ids and the type ids of each text with the next one. */
    readonly pairs:
      readonly (readonly [number, readonly (readonly [readonly number[], readonly number[]])[]])[];
  };
  readonly smollm2: Ids;
}

const golden: Golden = JSON.parse(
  readFileSync(new URL("../golden/models/tokenizers.json", import.meta.url), "utf8"),
);
const { texts, bytes, pieces, unigrams, words } = golden;

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

const ofUnigrams = (more: Readonly<Record<string, unknown>> = {}) =>
  metadata({
    model: "t5",
    tokens: unigrams.tokens,
    token_type: unigrams.types,
    scores: unigrams.scores,
    precompiled_charsmap: unigrams.charsmap,
    add_space_prefix: true,
    remove_extra_whitespaces: true,
    eos_token_id: 2,
    unknown_token_id: 0,
    ...more,
  });
const ofWords = (more: Readonly<Record<string, unknown>> = {}) =>
  metadata({
    model: "bert",
    tokens: words.tokens,
    token_type: words.types,
    padding_token_id: 0,
    unknown_token_id: 1,
    cls_token_id: 2,
    seperator_token_id: 3,
    mask_token_id: 4,
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
  const letters = fc.array(fc.constantFrom<string>("a", "b", "🙂"), { maxLength: 40 });
  const ranked = fc.dictionary(fc.stringMatching(/^[ab🙂]{2,6}\d$/u), fc.nat(5), { maxKeys: 40 });
  fc.assert(fc.property(letters, ranked, (word, ranks) => {
    // Some pairs join for some lengths of the left one only.
    const rankOf = (both: string, left: number) => ranks[`${both}${left % 10}`];
    const expected = [...word];
    for (;;) {
      let best = -1, least = Infinity;
      for (let i = 0; i + 1 < expected.length; i++) {
        const [left, right] = [expected[i]!, expected[i + 1]!];
        const rank = rankOf(left + right, left.length) ?? Infinity;
        if (rank < least) [best, least] = [i, rank];
      }
      if (best < 0) break;
      expected.splice(best, 2, expected[best]! + expected[best + 1]!);
    }
    assertEquals(finish(joinPairs(word.join(""), rankOf)), expected);
  }));
});

test("ids of bytes are those of tokenizers, however words are cut", async () => {
  const names = Object.keys(bytes.ids);
  assertEquals(new Set(names.map((name) => JSON.stringify(bytes.ids[name]))).size, 12);
  for (const name of names) {
    assertIds(await open(ofBytes(name)), bytes.ids[name]!, name);
  }
});

test("the page lists all names of cuts", () => {
  const page = readFileSync(new URL("../../docs/tokenizers.md", import.meta.url), "utf8");
  const [, list = ""] = /as `tokenizer\.ggml\.pre`\s+says: ([^]*?)\. A file/.exec(page) ?? [];
  const names = [...list.matchAll(/`([^`]+)`/g)].map(([, name]) => name);
  assertEquals(names, CUTS.flatMap(({ names }) => names));
});

test("spaces before what no pattern matches are words of their own", () => {
  for (const name of ["deepseek-v3", "hunyuan-dense"]) {
    const own = CUTS.find(({ names }) => names.includes(name))!;
    const cut = (text: string) => [...wordsOf(text, patternsOf(own))];
    assertEquals(cut("> \u200d<"), [">", " ", "\u200d", "<"]);
    assertEquals(cut("a  \u0001b \ufeff"), ["a", " ", " ", "\u0001b", " ", "\ufeff"]);
    assertEquals(cut("a\t\n 1  "), ["a", "\t\n", " ", "1", "  "]);
  }
});

test("ids of pieces are those of SentencePiece", async () => {
  for (const add_space_prefix of [true, false]) {
    const tokenizer = await open(ofPieces({ add_space_prefix }));
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

test("ids of unigrams are those of SentencePiece", async () => {
  const tokenizer = await open(ofUnigrams());
  for (const [i, text] of texts.entries()) {
    // The space of SentencePiece in a text is a space there, and a character in the file.
    if (text.includes("\0") || /[▁<]/.test(text)) continue;
    assertEquals(tokenizer.encode(text), unigrams.ids[i], JSON.stringify(text));
  }
  assertEquals(tokenizer.encode("a b"), tokenizer.encode(" a\u3000 b "));
  assertEquals(tokenizer.decode(tokenizer.encode("the quick  fox")), "the quick fox");
  assertEquals(tokenizer.encodeInput("the").ids.at(-1), 2);
  const kept = await open(ofUnigrams({ remove_extra_whitespaces: false, add_space_prefix: false }));
  assertEquals(kept.decode(kept.encode("the  fox")), "the  fox");
});

test("ids of pieces of words are those of tokenizers, with pairs and cuts", async () => {
  const tokenizer = await open(ofWords());
  for (const [i, text] of texts.entries()) {
    assertEquals(tokenizer.encode(text), words.ids[i], JSON.stringify(text));
  }
  for (const [maxLength, all] of words.pairs) {
    for (const [i, text] of texts.entries()) {
      const pair = [text, texts[(i + 1) % texts.length]!] as const;
      const { ids, typeIds } = tokenizer.encodeInput(pair, { maxLength });
      assertEquals([ids, typeIds], all[i], JSON.stringify(pair));
    }
  }
  assertEquals(
    tokenizer.decode(tokenizer.encode("The quick, brown fox.")),
    "the quick, brown fox.",
  );
  const { cls, sep, mask, unk, pad } = tokenizer;
  assertEquals([cls, sep, mask, unk, pad], [2, 3, 4, 1, 0]);
  const masked = tokenizer.encode("the [MASK]", { special: true, addSpecial: true });
  assertEquals([masked[0], ...masked.slice(-2)], [2, 4, 3]);
  assert(!tokenizer.encode("the [MASK]").includes(4));
  const few = () => tokenizer.encodeInput(["a", "b"], { maxLength: 2 });
  assertThrows(few, ArgumentError, "3 tokens around texts");
  assertThrows(() => tokenizer.encodeInput("a", { maxLength: -1 }), ArgumentError, "got -1");
});

test("batches have the ids of single texts, and leave the loop free", async () => {
  const long = texts.join(" ").repeat(amount(40, 100));
  for (const source of [ofBytes("qwen2"), ofBytes("gemma4"), ofPieces(), ofUnigrams(), ofWords()]) {
    const tokenizer = await open(source);
    const inputs = [...texts, long, ["a", long], "x".repeat(100_000)] as const;
    let turns = 0;
    const timer = setInterval(() => turns++, 1);
    const all = await tokenizer.encodeBatch(inputs, { special: true });
    clearInterval(timer);
    assert(turns > 3, `${turns} turns`);
    assertEquals(all, inputs.map((input) => tokenizer.encodeInput(input, { special: true })));
    // Between many short texts, too.
    turns = 0;
    const short = new Array<string>(20_000).fill(texts.join(" ").slice(0, 100));
    const again = setInterval(() => turns++, 1);
    await tokenizer.encodeBatch(short);
    clearInterval(again);
    assert(turns > 3, `${turns} turns between short texts`);
  }
  const tokenizer = await open(ofPieces());
  // Pairs of the caller may change after the call.
  const pair: [string, string] = ["a", "b"], later = ["b", "a"] as const;
  const expected = tokenizer.encodeInput(later);
  const made = tokenizer.encodeBatch([long, later, pair]);
  pair[1] = "x".repeat(100);
  assertEquals((await made)[2], tokenizer.encodeInput(["a", "b"]));
  assertEquals((await made)[1], expected);
  const stop = AbortSignal.timeout(5);
  await assertRejects(() => tokenizer.encodeBatch([long.repeat(20)], { signal: stop }));
});

test("a large vocabulary is opened without blocking the event loop", async () => {
  const names = Array.from({ length: amount(50_000, 300_000) }, (_, i) => `t${i}`);
  const merges = names.map((name) => `${name} x`);
  const tokens = ["<unk>", ...names], scores = tokens.map(() => 0);
  for (const model of ["gpt2", "gemma4", "llama", "t5", "bert"]) {
    const more = { model, pre: "gpt-2", tokens, merges, scores, unknown_token_id: 0 };
    let turns = 0, isOpen = false;
    const count = (): void => {
      turns++;
      if (!isOpen) setTimeout(count, 0);
    };
    setTimeout(count, 0);
    const tokenizer = await open(metadata(more));
    isOpen = true;
    assertEquals(tokenizer.size, tokens.length);
    // A fast machine opens some of them in two slices.
    assert(turns >= 2, `${model}: ${turns}`);
  }
});

test("a file with a large vocabulary is decoded in steps", async () => {
  const names = Array.from({ length: amount(128_000, 256_000) }, (_, i) => `t${i}`);
  const merges = names.map((name) => `${name} x`), tokens = ["<unk>", ...names];
  for (const model of ["gpt2", "llama", "bert"]) {
    const values: Record<string, GgufValue> = {
      model: ["string", model],
      pre: ["string", "gpt-2"],
      tokens: ["string", tokens],
      token_type: ["int32", tokens.map(() => 1)],
      scores: ["float32", tokens.map(() => 0)],
      merges: ["string", merges],
    };
    const named = Object.entries(values).map(([key, value]) => [`tokenizer.ggml.${key}`, value]);
    const file = writeGguf(ggufMetadata(Object.fromEntries(named)), named.length, []);
    for (const key of ["tokens", "scores"]) {
      const { metadata } = parseGguf(file)!, full = `tokenizer.ggml.${key}`;
      const steps = [...metadata.decode(full)].length;
      assert(steps >= Math.floor(names.length / 5000), `${steps} steps`);
      assertEquals(metadata.get(full), values[key]![1]);
      assertEquals([...metadata.decode(full)], []);
      assertEquals(parseGguf(file)!.metadata.get(full), metadata.get(full));
    }
    const parts: number[] = [];
    // Other programs on the machine may delay one of them.
    for (let i = 0; i < 12 && !(Math.min(...parts) < 0.12); i++) {
      const start = performance.now();
      let last = start, longest = 0, isOpen = false;
      const opening = open(file).finally(() => isOpen = true);
      while (!isOpen) {
        await new Promise((resolve) => setTimeout(resolve));
        const now = performance.now();
        longest = Math.max(longest, now - last);
        last = now;
      }
      assertEquals((await opening).size, tokens.length);
      parts.push(longest / (last - start));
    }
    assert(Math.min(...parts) < 0.12, `${model}: ${parts.join(", ")} of the time`);
  }
});

test("a decoder has the text of all tokens, in whole characters", async () => {
  for (const source of [ofBytes("smollm"), ofPieces()]) {
    const tokenizer = await open(source);
    const decoder = tokenizer.decoder({ special: true });
    for (const text of texts) {
      const ids = tokenizer.encode(text, { special: true });
      const parts = ids.map((id) => decoder.push(id));
      assert(parts.every((part) => part.isWellFormed() && !part.includes("\ufffd")));
      const whole = parts.join("") + decoder.flush();
      assertEquals(whole, tokenizer.decode(ids, { special: true }));
    }
    const ids = tokenizer.encode("x🦊");
    assertEquals(decoder.push(ids.slice(0, -1)) + decoder.flush(), "x\ufffd");
    assertEquals([decoder.push(ids), decoder.flush()], ["x🦊", ""]);
  }
});

test("tokens have names, both ways", async () => {
  const tokenizer = await open(ofBytes("smollm"));
  assertEquals(tokenizer.size, bytes.tokens.length);
  for (const id of [0, 1, 300, tokenizer.size - 1]) {
    assertEquals(tokenizer.tokenToId(tokenizer.idToToken(id)!), id);
  }
  assertEquals([tokenizer.tokenToId("nothing at all"), tokenizer.idToToken(1e9)], [
    undefined,
    undefined,
  ]);
});

test("long words take no time that grows by the square", async () => {
  const all = [ofBytes("smollm"), ofBytes("deepseek-llm"), ofBytes("gemma4"), ofPieces()];
  for (const source of [...all, ofUnigrams({ remove_extra_whitespaces: false }), ofWords()]) {
    const tokenizer = await open(source);
    for (const part of ["a", "1", "=", " ", "\n", "A", "🙂"]) {
      const text = `${part.repeat(amount(10_000, 200_000))}b`;
      const ids = tokenizer.encode(text);
      assert(ids.length > 0);
    }
  }
  const tokenizer = await open(ofPieces());
  const text = "the quick brown fox ".repeat(amount(5000, 50_000));
  assertEquals(tokenizer.decode(tokenizer.encode(text)), text);
});

test("characters that end within the ids are U+FFFD", async () => {
  for (const source of [ofBytes("smollm"), ofPieces()]) {
    const tokenizer = await open(source);
    const ids = tokenizer.encode("x🦊");
    assert(ids.length >= 4);
    assertEquals(tokenizer.decode(ids), "x🦊");
    assertEquals(tokenizer.decode(ids.slice(0, -1)), "x\ufffd");
    assertEquals(tokenizer.decode([]), "");
    assertEquals(tokenizer.tokenText(ids.at(-1)!), "\ufffd");
    const { size } = tokenizer;
    assertEquals(tokenizer.decode([size, ...ids, size + 9]), "x🦊");
    assertThrows(() => tokenizer.decode([0.5]), ArgumentError, "Cannot decode token 0.5");
    assertThrows(() => tokenizer.decode([-1]), ArgumentError, "Cannot decode token -1");
    assertThrows(() => tokenizer.decode("x" as never), ArgumentError, 'Cannot decode "x"');
    assertThrows(() => tokenizer.encode(1 as never), ArgumentError, "Cannot encode 1");
    assertThrows(() => tokenizer.encodeInput([] as never), ArgumentError, "a pair of texts");
    assertThrows(() => tokenizer.tokenText(-1), ArgumentError, "Cannot get the text of token -1");
  }
});

test("special tokens are left out of texts unless they are asked for", async () => {
  const tokenizer = await open(ofBytes("smollm"));
  const ids = tokenizer.encode("<|im_start|>a<tool>b<|im_end|>", { special: true });
  assertEquals([ids[0], ids.at(-1)], [1, 2]);
  assertEquals(tokenizer.decode(ids), "a<tool>b");
  assertEquals(tokenizer.tokenText(1), "<|im_start|>");
  // A token that ends texts is one, whatever its type in the file.
  const normal = { token_type: bytes.types.map((type, id) => id <= 2 ? 1 : type) };
  const named = await open(ofBytes("smollm", normal));
  assertEquals([named.decode([1]), named.decode([2]), named.eot], ["<|im_start|>", "", 2]);
  const given = await open(ofBytes("smollm", normal), { endTokens: [1] });
  assertEquals(given.decode([1, 2]), "");
  // Those that the user defined are no control tokens.
  const tool = bytes.tokens.indexOf("<tool>");
  assert(ids.includes(tool) && tokenizer.encode("a<tool>b").includes(tool));
});

test("the tokens at the begin and the end are told", async () => {
  const of = async (source: Parameters<typeof open>[0]) => {
    const { bos, eos, addBos } = await open(source);
    return [bos, eos, addBos];
  };
  assertEquals(await of(ofBytes("smollm")), [1, 2, false]);
  assertEquals(await of(ofBytes("llama-bpe", { eos_token_id: 0 })), [1, 0, true]);
  assertEquals(await of(ofBytes("llama-bpe", { add_bos_token: false })), [1, 2, false]);
  const none = { eos_token_id: 2 ** 32 - 1, add_bos_token: true, bos_token_id: 2 ** 32 - 1 };
  assertEquals(await of(ofBytes("smollm", none)), [undefined, undefined, false]);
  assertEquals(await of(ofPieces()), [1, 2, true]);
  const { chatTemplate } = await open(ofBytes("smollm"));
  assertEquals(chatTemplate, undefined);
});

test("what is not a vocabulary that is read is an error that tells it", async () => {
  const cases: readonly (readonly [source: { get(key: string): unknown }, message: string])[] = [
    [metadata({}), "the tokenizer is not named"],
    [metadata({ model: "gpt2" }), "has no tokenizer.ggml.tokens"],
    [metadata({ model: "llama", tokens: [] }), "has no tokenizer.ggml.tokens"],
    [metadata({ model: "gpt2", tokens: [1, 2] }), "tokenizer.ggml.tokens is an array"],
    [ofBytes("smollm", { model: "rwkv" }), 'the tokenizer is "rwkv"'],
    [ofBytes("smollm", { model: undefined }), "the tokenizer is not named"],
    [ofBytes("unheard-of"), 'tokenizer.ggml.pre is "unheard-of"'],
    [ofBytes("smollm", { pre: 1 }), "tokenizer.ggml.pre is 1, and must be a text"],
    [ofBytes("smollm", { merges: undefined }), "has no tokenizer.ggml.merges"],
    [ofBytes("smollm", { token_type: [1, 1] }), `has 2 numbers for ${bytes.tokens.length} tokens`],
    [ofBytes("smollm", { eos_token_id: "2" }), 'eos_token_id is "2", and must be'],
    [ofBytes("smollm", { add_bos_token: 1 }), "add_bos_token is 1, and must be true or false"],
    [ofPieces({ scores: undefined }), "has no tokenizer.ggml.scores"],
    [ofPieces({ scores: [0.5] }), "tokenizer.ggml.scores has 1 numbers for"],
    [ofPieces({ scores: pieces.scores.map(() => NaN) }), "must be at most"],
    [ofUnigrams({ unknown_token_id: 2 ** 32 - 1 }), "has no token for unknown text"],
    [ofUnigrams({ precompiled_charsmap: [1, 2] }), "precompiled_charsmap is truncated"],
    [
      ofUnigrams({ tokens: unigrams.tokens.map((t, i) => i === 9 ? "x".repeat(300) : t) }),
      "token 9",
    ],
    [ofWords({ tokens: words.tokens.map((t, i) => i === 9 ? "x".repeat(300) : t) }), "token 9"],
  ];
  for (const [source, message] of cases) {
    await assertRejects(() => open(source), FormatError, message);
  }
  await assertRejects(() => open(3 as never), ArgumentError, "Cannot open the tokenizer 3");
  await assertRejects(() => open(new Uint8Array(9)), FormatError, "neither GGUF nor JSON");
  // Files that do not name the cut have the default.
  const unnamed = await open(ofBytes("smollm", { pre: undefined }));
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
  await assertRejects(() => open(folder), FormatError, "there is no tokenizer.json");
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
  const tokenizer = await open(folder);
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
  assertThrows(
    () => tokenizer.tokenText(bytes.tokens.length),
    ArgumentError,
    "Cannot get the text",
  );
  // A file with a name of its own is that file, also beside a tokenizer.json.
  const model = { type: "WordPiece", unk_token: "[UNK]", vocab: { "[UNK]": 0, a: 1 } };
  write("mine.json", { model });
  assertEquals((await open(join(folder, "mine.json"))).size, 2);
  assertEquals((await open(join(folder, "tokenizer_config.json"))).size, tokenizer.size);
  write("mine.json", { weight_map: {} });
  const mine = () => open(join(folder, "mine.json"));
  await assertRejects(mine, FormatError, "it has no model");
  write("chat_template.jinja", "j");
  const other = await open(folder);
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
  const tokenizer = await open(folder);
  assertEquals([tokenizer.bos, tokenizer.addBos], [1, true]);
  assertEquals(tokenizer.encode("a b"), [6, 7]);
  assertEquals(tokenizer.decode([6, 7]), "a b");
  assertEquals([6, 7, 5].map((id) => tokenizer.tokenText(id)), [" a", " b", "b"]);
});

/** The values of JSON of the tokenizer of {@link words}, as BERT has it. */
function jsonOfWords(): object {
  const vocab = Object.fromEntries(
    words.tokens.map((token, id) => [
      words.types[id] === 3 ? token : token.startsWith("▁") ? token.slice(1) : `##${token}`,
      id,
    ]),
  );
  const token = (id: string, type_id: number) => ({ SpecialToken: { id, type_id } });
  const text = (id: string, type_id: number) => ({ Sequence: { id, type_id } });
  return {
    normalizer: {
      ...{ type: "BertNormalizer", clean_text: true, handle_chinese_chars: true },
      ...{ lowercase: true, strip_accents: null },
    },
    pre_tokenizer: { type: "BertPreTokenizer" },
    post_processor: {
      type: "TemplateProcessing",
      single: [token("[CLS]", 0), text("A", 0), token("[SEP]", 0)],
      pair: [
        ...[token("[CLS]", 0), text("A", 0), token("[SEP]", 0)],
        ...[text("B", 1), token("[SEP]", 1)],
      ],
      special_tokens: {
        "[CLS]": { id: "[CLS]", ids: [2], tokens: ["[CLS]"] },
        "[SEP]": { id: "[SEP]", ids: [3], tokens: ["[SEP]"] },
      },
    },
    decoder: { type: "WordPiece", prefix: "##", cleanup: true },
    added_tokens: added(words, [3]),
    model: {
      type: "WordPiece",
      unk_token: "[UNK]",
      continuing_subword_prefix: "##",
      max_input_chars_per_word: 100,
      vocab,
    },
  };
}

test("a tokenizer.json has pairs, cuts and slices", async () => {
  const tokenizer = jsonOfWords();
  const opened = await open({ tokenizer, config: { cls_token: "[CLS]", sep_token: "[SEP]" } });
  assertEquals([opened.cls, opened.sep, opened.addBos, opened.addEos], [2, 3, true, true]);
  for (const [maxLength, all] of words.pairs) {
    for (const [i, text] of texts.entries()) {
      const pair = [text, texts[(i + 1) % texts.length]!] as const;
      // The package takes U+FEFF for white space, U+0085 for none, and drops no other controls.
      if (/[\ufeff\p{Cc}]/u.test(pair.join().replaceAll("\n", ""))) continue;
      const { ids, typeIds } = opened.encodeInput(pair, { maxLength });
      assertEquals([ids, typeIds], all[i], JSON.stringify(pair));
    }
  }
  const long = texts.join(" ").repeat(30);
  let turns = 0;
  const timer = setInterval(() => turns++, 1);
  const [made] = await opened.encodeBatch([long], { addSpecial: false });
  clearInterval(timer);
  assert(turns > 1, `${turns} turns`);
  const whole = new Package({ ...tokenizer, added_tokens: [] }, {});
  assertEquals(made!.ids, whole.encode(long, { add_special_tokens: false }).ids);
  const bytes = new TextEncoder().encode(JSON.stringify(tokenizer));
  assertEquals((await open(bytes)).encode("the fox"), opened.encode("the fox"));
  assertEquals((await open(tokenizer as { model: object })).size, opened.size);
});

test("a user's text has no special tokens of a tokenizer.json", async () => {
  const model = {
    type: "Unigram",
    unk_id: 0,
    vocab: [["<unk>", 0], ["<s>", 0], ["a", -1], ["<", -1], ["s", -1], [">", -1]],
  };
  const added_tokens = [{ id: 1, content: "<s>", special: true, normalized: false }];
  const tokenizer = await open({ tokenizer: { added_tokens, model } });
  assertEquals(tokenizer.encode("a<s>"), [2, 3, 4, 5]);
  assertEquals(tokenizer.encode("a<s>", { special: true }), [2, 1]);
});

const smollm2 = modelFolder("smollm2");
const why = smollm2 === undefined ? " (skipped: models/smollm2 is not there)" : "";

test(`SmolLM2 has the ids of tokenizers${why}`, { skip: smollm2 === undefined }, async () => {
  const name = readdirSync(smollm2!).find((name) => name.endsWith(".gguf"))!;
  using weights = await nn.open(join(smollm2!, name));
  const tokenizer = await open(weights.metadata);
  assertIds(tokenizer, golden.smollm2, "SmolLM2");
  assertEquals([tokenizer.bos, tokenizer.eos, tokenizer.addBos], [1, 2, false]);
  const system = "You are a helpful AI assistant named SmolLM, trained by Hugging Face";
  assertEquals(
    (await chatTemplate(tokenizer))([{ role: "user", content: "Hi" }]),
    `<|im_start|>system\n${system}<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n` +
      "<|im_start|>assistant\n",
  );
});

test("BERT's tokenizer.json takes each character of Chinese as a word", async () => {
  const vocab = { "[UNK]": 0, a: 1, b: 2, "中": 3, "\u{20000}": 4, "\u{2ceaf}": 5, "\u{2b820}": 6 };
  const ids = async (text: string, normalizer: object | null) => {
    const tokenizer = await open({
      normalizer,
      pre_tokenizer: { type: "BertPreTokenizer" },
      model: { type: "WordPiece", unk_token: "[UNK]", vocab },
    } as never);
    return tokenizer.encode(text);
  };
  const bert = { type: "BertNormalizer", clean_text: true, lowercase: true };
  const chinese = { ...bert, handle_chinese_chars: true };
  const text = "a\u{20000}b中a\u{2ceaf}\u{20000}";
  const all = [1, 4, 2, 3, 1, 5, 4];
  assertEquals(await ids(text, chinese), all);
  assertEquals(await ids(text, { type: "Sequence", normalizers: [chinese] }), all);
  // As in Hugging Face's tokenizers, which leaves out a range.
  assertEquals(await ids("a\u{2b820}b", chinese), [0]);
  assertEquals(await ids("a\u{20000}b", { ...bert, handle_chinese_chars: false }), [0]);
});

/**
 * How vocabularies of byte pair encoding cut a text into words before they join bytes: the names that
 * GGUF files have in `tokenizer.ggml.pre`, and their patterns, as data. A pattern cuts what the one
 * before it has left, and what it does not match is a word too.
 *
 * @module
 */

/** How a vocabulary cuts texts. */
export interface Cut {
  /** The names in `tokenizer.ggml.pre`. */
  readonly names: readonly string[];
  /** The sources of patterns; `\s` is Unicode's White_Space, which JavaScript's differs from. */
  readonly patterns: readonly string[];
  /** Whether a word that is a token is not made by pairs. */
  readonly isWhole?: boolean;
  /** Whether texts begin with the token BOS, unless the file says otherwise. */
  readonly addBos?: boolean;
  /** Whether texts are between the tokens BOS and EOS as RoBERTa's are, unless the file says otherwise. */
  readonly addSep?: boolean;
  /**
   * Whether pairs are joined of characters with `▁` for spaces, and tokens such as `<0x0A>` stand for
   * the bytes of others, instead of pairs of bytes.
   */
  readonly isOfCharacters?: boolean;
}

const { raw } = String;
const GPT2 = raw`'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)`;
const SHORT = "'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])";
const SPACES = raw`\s*[\r\n]+|\s+(?!\S)|\s+`;
const ONE = raw`[^\r\n\p{L}\p{N}]?`;
const MARKS = raw` ?[^\s\p{L}\p{N}]+`;
const UPPER = raw`[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`;
const LOWER = raw`[\p{Ll}\p{Lm}\p{Lo}\p{M}]`;

/** The pattern of GPT-4 and of many that followed, for groups of digits of a size. */
const gpt4 = (digits: string): string =>
  raw`${SHORT}|${ONE}\p{L}+|${digits}|${MARKS}[\r\n]*|${SPACES}`;
/** That of GPT-4o, which cuts before capital letters. */
const gpt4o = (digits: string, short: string): string =>
  raw`${ONE}${UPPER}*${LOWER}+${short}|${ONE}${UPPER}+${LOWER}*${short}|${digits}|` +
  raw`${MARKS}[\r\n/]*|${SPACES}`;

/** Letters of two cases, as Unicode had them when DeepSeek listed them. */
const CASED = raw`(?:(?![\u0560\u0588\u10c7\u10cd\u10d0-\u10ff\u1c80-\u1c8a\u2d00-\u2d2d` +
  raw`\ua790-\ua7fa\uab30-\uab68\u{10570}-\u{105bc}\u{10d50}-\u{10d85}\u{16e40}-\u{16e7f}` +
  raw`\u{1d400}-\u{1d7cb}\u{1df00}-\u{1df2a}])[\p{Lu}\p{Ll}\p{Lt}])`;
const CJK = raw`[\u0800-\u9fa5\uac00-\ud7ff]+`;
const ASCII_MARK = raw`[!-\/:-@\[-\x60\{-~]`;

/** All that are known. */
export const CUTS: readonly Cut[] = [
  {
    names: [
      ...["gpt-2", "phi-2", "gigachat", "a.x-4.0", "mellum", "olmo", "mpt", "jais", "exaone4"],
      ...["trillion", "granite-docling", "modern-bert", "jina-es", "jina-de", "jina-v2-es"],
      "jina-v2-de",
    ],
    patterns: [GPT2],
  },
  { names: ["roberta-bpe", "jina-v1-en", "jina-v2-code"], patterns: [GPT2], addSep: true },
  {
    names: [
      ...["smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"],
      "mellum2",
    ],
    patterns: [raw`\p{N}`, GPT2],
  },
  { names: ["default"], patterns: [raw`[\p{P}$+<=>^~|]+`, GPT2, raw`\p{N}+`, "[0-9][0-9][0-9]"] },
  { names: ["falcon"], patterns: [raw`[\p{P}$+<=>^~|\x60]+`, GPT2, "[0-9][0-9][0-9]"] },
  {
    names: [
      ...["llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"],
      "jina-v5-nano",
    ],
    patterns: [gpt4(raw`\p{N}{1,3}`)],
    isWhole: true,
    addBos: true,
  },
  { names: ["dbrx", "smaug-bpe", "chatglm-bpe"], patterns: [gpt4(raw`\p{N}{1,3}`)] },
  { names: ["glm4", "glm5"], patterns: [gpt4(raw`\p{N}{1,3}`)], isWhole: true },
  {
    names: [
      ...["qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "stablelm2", "megrez", "hunyuan"],
      ...["solar-open", "grok-2"],
    ],
    patterns: [gpt4(raw`\p{N}`)],
  },
  {
    names: ["qwen35"],
    patterns: [
      raw`${SHORT}|${ONE}[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|${SPACES}`,
    ],
  },
  {
    names: ["gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"],
    patterns: [gpt4o(raw`\p{N}{1,3}`, `(?:${SHORT})?`)],
  },
  { names: ["tekken"], patterns: [gpt4o(raw`\p{N}`, "")], isWhole: true, addBos: true },
  {
    names: ["deepseek-llm"],
    patterns: [
      raw`[\r\n]`,
      raw`\s?${CASED}+`,
      raw`\s?[!-\/:-~！-／：-～‘-‟\u3000-。]+`,
      // The lookbehind keeps the time of a long run of spaces linear.
      raw`(?<!\s)\s+$`,
      CJK,
      raw`\p{N}+`,
    ],
  },
  {
    names: ["deepseek-coder"],
    patterns: [raw`[\r\n]`, raw`\s?\p{L}+`, raw`\s?\p{P}+`, CJK, raw`\p{N}`],
  },
  {
    names: ["deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"],
    patterns: [
      raw`\p{N}{1,3}`,
      raw`[\u4e00-\u9fa5\u3040-\u30ff]+`,
      raw`${ASCII_MARK}[A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|` +
      SPACES,
    ],
  },
  {
    names: ["gemma4"],
    patterns: [raw`[^\n]+|[\n]+`],
    isOfCharacters: true,
    addBos: true,
  },
];

/** The patterns of a cut. */
export function patternsOf({ patterns }: Cut): RegExp[] {
  return patterns.map((source) =>
    new RegExp(
      source.replaceAll("\\s", "\\p{White_Space}").replaceAll("\\S", "\\P{White_Space}"),
      "gu",
    )
  );
}

/** The words of a text, one after the other: what the patterns from `first` on cut. */
export function* wordsOf(
  text: string,
  patterns: readonly RegExp[],
  first = 0,
): Generator<string, void, void> {
  const pattern = patterns[first];
  if (pattern === undefined) {
    yield text;
    return;
  }
  let at = 0;
  for (const { 0: match, index } of text.matchAll(pattern)) {
    if (index > at) yield* wordsOf(text.slice(at, index), patterns, first + 1);
    if (match !== "") yield* wordsOf(match, patterns, first + 1);
    at = index + match.length;
  }
  if (at < text.length) yield* wordsOf(text.slice(at), patterns, first + 1);
}

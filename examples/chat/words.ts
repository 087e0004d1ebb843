/**
 * How vocabularies of byte pair encoding cut a text into words before they join bytes: the patterns
 * that GGUF files name in `tokenizer.ggml.pre`. A pattern cuts what the one before it has left, and
 * what it does not match is a word too.
 *
 * @module
 */

/** How a vocabulary cuts texts. */
interface Cut {
  /** The sources of patterns; `\s` is Unicode's White_Space, which JavaScript's differs from. */
  readonly patterns: readonly string[];
  /** Whether a word that is a token is not made by pairs. */
  readonly isWhole?: boolean;
  /** Whether texts begin with the token BOS, unless the file says otherwise. */
  readonly addBos?: boolean;
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

const CUTS: readonly (readonly [names: string, cut: Cut])[] = [
  [
    "gpt-2 phi-2 gigachat a.x-4.0 mellum olmo mpt jais exaone4 trillion granite-docling",
    { patterns: [GPT2] },
  ],
  [
    "smollm starcoder refact command-r codeshell exaone minerva-7b",
    { patterns: [raw`\p{N}`, GPT2] },
  ],
  ["default", { patterns: [raw`[\p{P}$+<=>^~|]+`, GPT2, raw`\p{N}+`, "[0-9][0-9][0-9]"] }],
  ["falcon", { patterns: [raw`[\p{P}$+<=>^~|\x60]+`, GPT2, "[0-9][0-9][0-9]"] }],
  [
    "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2",
    { patterns: [gpt4(raw`\p{N}{1,3}`)], isWhole: true, addBos: true },
  ],
  ["dbrx smaug-bpe glm4 chatglm-bpe", { patterns: [gpt4(raw`\p{N}{1,3}`)] }],
  [
    "qwen2 deepseek-r1-qwen kormo stablelm2 megrez hunyuan",
    { patterns: [gpt4(raw`\p{N}`)] },
  ],
  ["gpt-4o llama4 kanana2", { patterns: [gpt4o(raw`\p{N}{1,3}`, `(?:${SHORT})?`)] }],
  ["tekken", { patterns: [gpt4o(raw`\p{N}`, "")], isWhole: true, addBos: true }],
  [
    "deepseek-llm",
    {
      patterns: [
        raw`[\r\n]`,
        raw`\s?${CASED}+`,
        raw`\s?[!-\/:-~！-／：-～‘-‟\u3000-。]+`,
        raw`\s+$`,
        CJK,
        raw`\p{N}+`,
      ],
    },
  ],
  [
    "deepseek-coder",
    { patterns: [raw`[\r\n]`, raw`\s?\p{L}+`, raw`\s?\p{P}+`, CJK, raw`\p{N}`] },
  ],
  [
    "deepseek-v3 hunyuan-dense",
    {
      patterns: [
        raw`\p{N}{1,3}`,
        raw`[\u4e00-\u9fa5\u3040-\u30ff]+`,
        raw`${ASCII_MARK}[A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|` +
        SPACES,
      ],
    },
  ],
];

/** The cut of a name; throws an Error if there is none. */
export function cutOf(name: string): Omit<Cut, "patterns"> & { readonly patterns: RegExp[] } {
  const cut = CUTS.find(([names]) => names.split(" ").includes(name))?.[1];
  if (cut === undefined) {
    const known = CUTS.flatMap(([names]) => names.split(" "));
    throw new Error(
      `tokenizer.ggml.pre is "${name}", and how that cuts words is not known: only ` +
        `${known.slice(0, -1).join(", ")} and ${known.at(-1)}`,
    );
  }
  const patterns = cut.patterns.map((source) =>
    new RegExp(
      source.replaceAll("\\s", "\\p{White_Space}").replaceAll("\\S", "\\P{White_Space}"),
      "gu",
    )
  );
  return { ...cut, patterns };
}

/** The words of a text, one after the other. */
export function wordsOf(text: string, patterns: readonly RegExp[]): string[] {
  let words = [text];
  for (const pattern of patterns) {
    const shorter: string[] = [];
    for (const word of words) {
      let at = 0;
      for (const { 0: match, index } of word.matchAll(pattern)) {
        if (index > at) shorter.push(word.slice(at, index));
        if (match !== "") shorter.push(match);
        at = index + match.length;
      }
      if (at < word.length) shorter.push(word.slice(at));
    }
    words = shorter;
  }
  return words;
}

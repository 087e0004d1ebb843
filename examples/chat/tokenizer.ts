/**
 * Texts to the ids of tokens and back, as a model was trained with them: from the metadata of a GGUF
 * file, or from a folder with the files of a tokenizer.
 *
 * @module
 */
import { pathToFileURL } from "node:url";
import { readText } from "../shared/model_files.ts";
import { GgufTokenizer, type Metadata } from "./gguf_tokenizer.ts";

// deno-lint-ignore no-explicit-any
type Json = any;

/** Whether special tokens such as `<|im_start|>` are meant. */
export interface SpecialOption {
  /**
   * For texts to encode: whether those in the text are special tokens, or a text as any other, which
   * is what a text of a user is. For ids to decode: whether they are in the text, or left out. False
   * by default.
   */
  readonly special?: boolean;
}

/** A tokenizer of a model that chats. */
export interface Tokenizer {
  /** The ids of a text, without a token BOS in front. */
  encode(text: string, options?: SpecialOption): number[];
  /** The text of ids; U+FFFD where their bytes begin or end within a character. */
  decode(ids: readonly number[], options?: SpecialOption): string;
  /** The text of a token, with the space in front if it has one. */
  tokenText(id: number): string;
  /** The token at the begin of a text. */
  readonly bos: number | undefined;
  /** The token at the end of a text. */
  readonly eos: number | undefined;
  /** Whether the model expects the token BOS in front of a text. */
  readonly addBos: boolean;
  /** The template of chats, in Jinja's language. */
  readonly chatTemplate: string | undefined;
}

/** The names of special tokens are texts, or objects with more about them. */
function nameOf(token: Json): string | undefined {
  return typeof token === "string" ? token : token?.content;
}

/** The files of a tokenizer in a folder. */
function readFolder(folder: string | URL) {
  const base = typeof folder === "string" ? pathToFileURL(`${folder}/`) : folder;
  const read = (name: string): Json => {
    const text = readText(name, base);
    return text === undefined ? undefined : JSON.parse(text);
  };
  const tokenizer = read("tokenizer.json");
  if (tokenizer === undefined) throw new Error(`there is no tokenizer.json in ${folder}`);
  const config = read("tokenizer_config.json") ?? {};
  const inConfig = config.chat_template ?? read("chat_template.json")?.chat_template;
  const chatTemplate: string | undefined = readText("chat_template.jinja", base) ??
    (Array.isArray(inConfig)
      ? inConfig.find(({ name }) => name === "default")?.template
      : inConfig);
  return { tokenizer, config, chatTemplate };
}

/** The tokenizer in a folder, by the package of Hugging Face. */
async function openFolder(folder: string | URL): Promise<Tokenizer> {
  const { tokenizer, config, chatTemplate } = readFolder(folder);
  const { Tokenizer } = await import("@huggingface/tokenizers");
  const all = new Tokenizer(tokenizer, config);
  const added: readonly { content: string; id: number; special: boolean }[] =
    tokenizer.added_tokens ?? [];
  const hidden = new Set(added.filter(({ special }) => special).map(({ id }) => id));
  /** One that knows no special tokens, made when it is needed. */
  let plain: typeof all | undefined;
  const idOf = (token: Json): number | undefined => {
    const name = nameOf(token);
    return name === undefined ? undefined : all.token_to_id(name);
  };
  const bos = idOf(config.bos_token);
  const withFirst = all.encode("a").ids;
  const decode = (ids: readonly number[]): string =>
    ids.length === 0 ? "" : all.decode([...ids], { clean_up_tokenization_spaces: false });
  return {
    bos,
    eos: idOf(config.eos_token),
    addBos: bos !== undefined && (config.add_bos_token ?? withFirst[0] === bos),
    chatTemplate,
    encode(text, { special = false } = {}) {
      if (!special) {
        plain ??= new Tokenizer(
          { ...tokenizer, added_tokens: added.filter(({ special }) => !special) },
          config,
        );
      }
      return (special ? all : plain!).encode(text, { add_special_tokens: false }).ids;
    },
    decode: (ids, { special = false } = {}) =>
      decode(special ? ids : ids.filter((id) => !hidden.has(id))),
    tokenText(id) {
      if (all.id_to_token(id) === undefined) throw new RangeError(`there is no token ${id}`);
      // What is at the start of a text loses its space, so it follows another.
      const before = withFirst.at(-1)!;
      return decode([before, id]).slice(decode([before]).length);
    },
  };
}

/**
 * Opens a tokenizer: of the metadata of a GGUF file, or of a folder with tokenizer.json and
 * tokenizer_config.json. In a GGUF file `endTokens` are special tokens, whatever the file says of
 * them. Throws an Error that says what is missing or not known.
 */
export async function openTokenizer(
  source: Metadata | string | URL,
  endTokens: readonly number[] = [],
): Promise<Tokenizer> {
  return typeof source === "string" || source instanceof URL
    ? await openFolder(source)
    : new GgufTokenizer(source, endTokens);
}

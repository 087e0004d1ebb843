/**
 * Texts of a grammar: JSON of a schema, any JSON, or a grammar in EBNF.
 *
 * @module
 */
import { ArgumentError, attempt, DisposedError } from "../base/errors.ts";
import { describe } from "../base/text.ts";
import type { Constraint, ConstraintContext, ConstraintState } from "../llm/batch/generation.ts";
import { checkOptions } from "../table/infer.ts";
import { lineOfWideSet } from "./ebnf.ts";
import { Lengths, type LengthsState } from "./lengths.ts";
import { schemaGrammar } from "./schema.ts";
import { isObject, type JsonSchema } from "./values.ts";
import { allows, setAllowed, type TokenBytes, vocabularyOf } from "./vocabulary.ts";
import { type Compiler, type Held, load, type Matcher, type Xgrammar } from "./xgrammar.ts";

/** Options of {@link json}. */
export interface JsonOptions {
  /**
   * The most characters of white space between two parts; 0 by default. Models that were trained on
   * indented JSON may answer better with some.
   */
  readonly whitespace?: number | undefined;
}

/** Options of {@link jsonSchema}. */
export interface JsonSchemaOptions extends JsonOptions {
  /**
   * Whether objects have only the properties of their schema, and arrays only the elements, unless
   * `additionalProperties` or `items` allows others; true by default.
   */
  readonly strict?: boolean | undefined;
}

/** The longest grammar, and the most white space, in characters. */
const LONGEST = 100_000, MOST_WHITESPACE = 1000;

/** The compilers of tokenizers, as long as these are in use. */
const compilers = new WeakMap<TokenBytes, Promise<Compiler>>();

async function makeCompiler(
  op: string,
  xgrammar: Xgrammar,
  tokenizer: TokenBytes,
): Promise<Compiler> {
  const vocabulary = await vocabularyOf(op, tokenizer);
  const end = vocabulary.length;
  // The token after the last one is the end of the text.
  const tokens = [...vocabulary.map((bytes) => bytes ?? ""), ""];
  return await xgrammar.call(op, async ({ TokenizerInfo, GrammarCompiler }) => {
    const held = await TokenizerInfo.createTokenizerInfo(tokens, "raw", false, end + 1, [end]);
    try {
      return await GrammarCompiler.createGrammarCompiler(held, false);
    } finally {
      held.dispose();
    }
  });
}

/** The compiler for the tokens of a tokenizer, which is made once. */
function compilerOf(op: string, xgrammar: Xgrammar, tokenizer: TokenBytes): Promise<Compiler> {
  let compiler = compilers.get(tokenizer);
  if (compiler === undefined) {
    compiler = makeCompiler(op, xgrammar, tokenizer);
    compilers.set(tokenizer, compiler);
    compiler.catch(() => compilers.delete(tokenizer));
  }
  return compiler;
}

/** What a constraint is made of. */
interface GrammarParts {
  readonly xgrammar: Xgrammar;
  readonly compiled: Held;
  /** The number of tokens. */
  readonly size: number;
  /** Limits that the grammar leaves out. */
  readonly lengths: Lengths | undefined;
}

/** The state of a text of a grammar. */
class GrammarState implements ConstraintState {
  readonly #xgrammar: Xgrammar;
  readonly #matcher: Matcher;
  readonly #size: number;
  readonly #context: ConstraintContext;
  readonly #lengths: LengthsState | undefined;
  #done = false;
  #isDisposed = false;

  constructor(
    { xgrammar, size, lengths }: GrammarParts,
    matcher: Matcher,
    context: ConstraintContext,
  ) {
    this.#xgrammar = xgrammar;
    this.#matcher = matcher;
    this.#size = size;
    this.#lengths = lengths?.start();
    this.#context = context;
  }

  #checkAlive(): void {
    if (this.#isDisposed) {
      throw new DisposedError("Cannot use the state of a text: it was disposed");
    }
  }

  async mask(): Promise<Int32Array> {
    this.#checkAlive();
    let bits: Int32Array;
    try {
      bits = await this.#matcher.getNextTokenBitmask();
    } catch (cause) {
      throw this.#xgrammar.failed("find the next tokens of a grammar", cause);
    }
    const { vocabulary, stopTokens } = this.#context;
    const size = this.#size;
    const canEnd = allows(bits, size);
    const mask = new Int32Array(Math.ceil(vocabulary / 32));
    mask.set(bits.subarray(0, mask.length));
    const end = Math.min(32 * mask.length, 32 * bits.length);
    for (let id = Math.min(vocabulary, size); id < end; id++) setAllowed(mask, id, false);
    for (const id of stopTokens) setAllowed(mask, id, false);
    this.#lengths?.limit(mask);
    this.#done = canEnd && mask.every((word) => word === 0);
    if (canEnd) { for (const id of stopTokens) setAllowed(mask, id, true); }
    return mask;
  }

  accept(id: number): void {
    this.#checkAlive();
    let isAccepted: boolean;
    try {
      isAccepted = id < this.#size && this.#matcher.acceptToken(id);
    } catch (cause) {
      throw this.#xgrammar.failed("accept a token of a grammar", cause);
    }
    if (isAccepted) return this.#lengths?.accept(id);
    throw new ArgumentError(`Cannot accept token ${describe(id)}: the grammar does not allow it`);
  }

  get done(): boolean {
    return this.#done;
  }

  dispose(): void {
    if (this.#isDisposed) return;
    this.#isDisposed = true;
    this.#matcher.dispose();
  }
}

/** A compiled grammar, for any number of texts, also at the same time. */
export class GrammarConstraint implements Constraint, Disposable {
  /** The class name, as a bundler may shorten the class's own. @ignore */
  static get name(): string {
    return "GrammarConstraint";
  }

  readonly #parts: GrammarParts;
  #isDisposed = false;

  /** Programs use {@link jsonSchema}, {@link json} and {@link grammar}. @ignore */
  constructor(parts: GrammarParts) {
    this.#parts = parts;
  }

  #checkAlive(): void {
    if (this.#isDisposed) throw new DisposedError("Cannot use a grammar: it was disposed");
  }

  /** Returns the state of a new text. */
  async start(context: ConstraintContext): Promise<ConstraintState> {
    this.#checkAlive();
    const { xgrammar, compiled } = this.#parts;
    let matcher: Matcher;
    try {
      matcher = await xgrammar.call(
        "start a text of a grammar",
        ({ GrammarMatcher }) => GrammarMatcher.createGrammarMatcher(compiled),
      );
    } catch (error) {
      // It may be disposed of before its turn.
      this.#checkAlive();
      throw error;
    }
    return new GrammarState(this.#parts, matcher, context);
  }

  /** Frees the grammar. Texts that were started can go on. */
  dispose(): void {
    if (this.#isDisposed) return;
    this.#isDisposed = true;
    this.#parts.compiled.dispose();
  }

  /** {@link dispose}, for `using`. */
  [Symbol.dispose](): void {
    this.dispose();
  }
}

async function compiled(
  op: string,
  tokenizer: TokenBytes,
  ebnf: string,
  limiting?: JsonSchema,
): Promise<GrammarConstraint> {
  const xgrammar = await load(op);
  const compiler = await compilerOf(op, xgrammar, tokenizer);
  const lengths = limiting &&
    await Lengths.of(limiting, tokenizer, await vocabularyOf(op, tokenizer));
  const compiled = await xgrammar.call(op, () => compiler.compileGrammar(ebnf, "root"));
  return new GrammarConstraint({ xgrammar, compiled, size: tokenizer.size, lengths });
}

/** A copy of a schema, which its caller may change; undefined for what is no JSON. */
function ownSchema(schema: unknown): JsonSchema | undefined {
  const { value } = attempt((): unknown => JSON.parse(JSON.stringify(schema)));
  return isObject(value) ? value : undefined;
}

function checkWhitespace(op: string, { whitespace = 0 }: JsonOptions): number {
  if (Number.isInteger(whitespace) && whitespace >= 0 && whitespace <= MOST_WHITESPACE) {
    return whitespace;
  }
  throw new ArgumentError(
    `Cannot ${op} with whitespace ${describe(whitespace)}: it is an integer from 0 to ` +
      `${MOST_WHITESPACE}`,
  );
}

/**
 * Makes a constraint by which a text is JSON of a schema.
 *
 * Keywords that limit values and cannot be followed token by token, such as `uniqueItems`, are an
 * error, never ignored. `oneOf` is taken as `anyOf`. docs/constraints.md has the table of keywords.
 *
 * @param schema A JSON Schema as an object.
 * @param tokenizer The tokenizer of the model.
 * @returns A constraint for any number of texts; `using` or `dispose` frees it.
 * @throws {PackageError} If the package `@mlc-ai/web-xgrammar` is not installed.
 * @throws {ArgumentError} For a schema that is wrong or not supported, with its place.
 * @throws {FormatError} For a tokenizer whose tokens have no bytes, such as that of BERT.
 *
 * @example
 * ```ts
 * const bytes = Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte));
 * const tokenizer = { size: 256, tokenBytes: (id: number) => bytes[id] };
 * using constraint = await jsonSchema({ enum: [7, true] }, tokenizer);
 * const state = await constraint.start({ vocabulary: 257, stopTokens: [256] });
 * const mask = (await state.mask())!;
 * ["7", "t", "x"].map((c) => mask[c.charCodeAt(0) >> 5]! >>> (c.charCodeAt(0) & 31) & 1);
 * // => [1, 1, 0]
 * state.dispose?.();
 * ```
 */
export async function jsonSchema(
  schema: JsonSchema,
  tokenizer: TokenBytes,
  options: JsonSchemaOptions = {},
): Promise<GrammarConstraint> {
  const op = "constrain text to a JSON schema";
  checkOptions(op, options, ["whitespace", "strict"]);
  const { strict = true } = options;
  if (typeof strict !== "boolean") {
    throw new ArgumentError(`Cannot ${op} with strict ${describe(strict)}: it is true or false`);
  }
  const whitespace = checkWhitespace(op, options);
  const own = ownSchema(schema);
  const countsApart = own !== undefined;
  const { ebnf, leavesOut } = schemaGrammar(schema, { whitespace, strict, countsApart });
  return await compiled(op, tokenizer, ebnf, leavesOut ? own : undefined);
}

/**
 * Makes a constraint by which a text is a JSON object, with any properties.
 *
 * @param tokenizer The tokenizer of the model.
 * @returns A constraint for any number of texts; `using` or `dispose` frees it.
 * @throws {PackageError} If the package `@mlc-ai/web-xgrammar` is not installed.
 * @throws {FormatError} For a tokenizer whose tokens have no bytes, such as that of BERT.
 */
export async function json(
  tokenizer: TokenBytes,
  options: JsonOptions = {},
): Promise<GrammarConstraint> {
  const op = "constrain text to JSON";
  checkOptions(op, options, ["whitespace"]);
  const whitespace = checkWhitespace(op, options);
  const { ebnf } = schemaGrammar({ type: "object" }, { whitespace, strict: true });
  return await compiled(op, tokenizer, ebnf);
}

/**
 * Makes a constraint by which a text is one of a grammar.
 *
 * @param ebnf The grammar in the notation of llama.cpp's GBNF, whose rule `root` is the text.
 * @param tokenizer The tokenizer of the model.
 * @returns A constraint for any number of texts; `using` or `dispose` frees it.
 * @throws {PackageError} If the package `@mlc-ai/web-xgrammar` is not installed.
 * @throws {ArgumentError} For a grammar that is wrong, with the line and the column.
 * @throws {FormatError} For a tokenizer whose tokens have no bytes, such as that of BERT.
 *
 * @example
 * ```ts
 * const bytes = Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte));
 * const tokenizer = { size: 256, tokenBytes: (id: number) => bytes[id] };
 * using constraint = await grammar('root ::= "a" [0-9]+', tokenizer);
 * const state = await constraint.start({ vocabulary: 257, stopTokens: [256] });
 * for (const char of "a1") state.accept(char.charCodeAt(0));
 * (await state.mask())![8]; // => 1
 * state.dispose?.();
 * ```
 */
export async function grammar(ebnf: string, tokenizer: TokenBytes): Promise<GrammarConstraint> {
  const op = "compile a grammar";
  if (typeof ebnf !== "string" || ebnf.length > LONGEST) {
    const got = typeof ebnf === "string" ? `one of ${ebnf.length}` : describe(ebnf);
    throw new ArgumentError(`Cannot ${op}: it is a text of at most ${LONGEST} units, got ${got}`);
  }
  const line = lineOfWideSet(ebnf);
  if (line !== undefined) {
    throw new ArgumentError(
      `Cannot ${op}: line ${line} has a set with characters beyond U+007F, which are not supported ` +
        "there: write the characters as texts",
    );
  }
  return await compiled(op, tokenizer, ebnf);
}

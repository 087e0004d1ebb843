/**
 * A model that generates the texts of requests, all together.
 *
 * @module
 */
import { Engine, type EngineGenerateOptions, type GeneratedToken } from "../../llm/engine.ts";
import type { EngineOptions } from "../../llm/mod.ts";
import type { Call, CallFormat } from "../../models/calls.ts";
import { shownLength } from "../../models/calls.ts";
import type { ChatFormat } from "../../models/chat_format.ts";
import type { Chat } from "../../models/mod.ts";
import type { Tokenizer } from "../../tokenizers/mod.ts";
import { HttpError } from "../http/http_error.ts";
import { type Incoming, isTooDeep } from "../http/service.ts";
import { Constraints, type Lease, type Wanted } from "./constraints.ts";
import type { Telemetry, TokenCounts } from "./telemetry.ts";

/** Sizes of the engine of a model. */
export type TextEngineOptions = Pick<
  EngineOptions,
  "slots" | "context" | "cache" | "queue" | "speculate"
>;

/** What a request asks of a model. */
export interface TextPlan {
  /** The prompt. */
  readonly ids: readonly number[];
  readonly options: Omit<
    EngineGenerateOptions,
    "signal" | "constraint" | "seed" | "decode" | "onPrompt"
  >;
  readonly seed: number | undefined;
  readonly wanted?: Wanted | undefined;
  /** What the prompt has of the answer already: the beginning of a call. */
  readonly begun?: string | undefined;
  /** How the model writes calls, if it may call functions. */
  readonly calls?: CallFormat | undefined;
  /** The most calls of an answer. */
  readonly mostCalls?: number | undefined;
}

/** A part of an answer. */
export interface Piece {
  readonly text: string;
  /** The tokens since the last piece, which need not be those of the text. */
  readonly tokens: readonly GeneratedToken[];
}

/** Why an answer has ended. */
export type Reason = "stop" | "length" | "tool_calls";

/** The end of an answer. */
export interface Ending {
  readonly reason: Reason;
  readonly calls: readonly Call[];
}

/** The tokens of a request. */
interface RequestCounts extends TokenCounts {
  /** Of prompts, those that were not computed, as other prompts began with them. */
  cachedTokens: number;
}

/** A request, as far as its texts need it. */
export interface Work {
  readonly incoming: Incoming;
  /** When it came, by performance.now(). */
  readonly begin: number;
  /** Its tokens so far. */
  readonly counts: RequestCounts;
}

/** The work of a request that comes now. */
export function workOf(incoming: Incoming): Work {
  return {
    ...{ incoming, begin: performance.now() },
    counts: { promptTokens: 0, completionTokens: 0, cachedTokens: 0 },
  };
}

/** A seed for one of several answers; the first one has that of the request. */
function seedOf(seed: number | undefined, index: number): bigint | undefined {
  if (seed === undefined) return undefined;
  return BigInt.asUintN(64, BigInt(seed) + BigInt(index) * 0x9e3779b97f4a7c15n);
}

/** A model behind an engine. */
export class TextModel implements Disposable {
  readonly name: string;
  readonly engine: Engine;
  readonly format: ChatFormat;
  readonly tokenizer: Tokenizer;
  /** All tokens so far. */
  readonly counts: TokenCounts = { promptTokens: 0, completionTokens: 0 };
  readonly #constraints: Constraints;
  readonly #telemetry: Telemetry;

  constructor(name: string, chat: Chat, options: TextEngineOptions, telemetry: Telemetry) {
    this.name = name;
    this.format = chat.format;
    this.tokenizer = chat.tokenizer;
    const tokenizer = {
      encode: (text: string) => this.tokenizer.encode(text, { special: true }),
      decode: (ids: number[]) => this.tokenizer.decode(ids),
    };
    this.engine = new Engine({ model: chat.model, ownsModel: false, tokenizer, options });
    this.#constraints = new Constraints(chat.tokenizer);
    this.#telemetry = telemetry;
  }

  /** Throws for a prompt that leaves no room for an answer. */
  checkPrompt(ids: readonly number[], place: string): void {
    if (ids.length >= this.engine.context) throw this.#tooLong(`${ids.length}`, place);
  }

  /** Throws for texts that cannot be short enough, before time is spent on them. */
  checkLength(characters: number, place: string): void {
    const least = Math.ceil(characters / this.format.longest);
    if (least > this.engine.context) throw this.#tooLong(`at least ${least}`, place);
  }

  #tooLong(tokens: string, place: string): HttpError {
    return new HttpError(
      400,
      `This model's maximum context length is ${this.engine.context} tokens. However, your request ` +
        `has ${tokens} tokens. Please reduce its length.`,
      { param: place, code: "context_length_exceeded" },
    );
  }

  /** Compiles what answers have to be; an HttpError if that cannot be done. */
  async prepare(wanted: Wanted | undefined): Promise<void> {
    if (wanted !== undefined) (await this.#constraints.lease(wanted)).end();
  }

  /** Notes the tokens of a prompt. */
  notePrompt(work: Work, ids: readonly number[]): void {
    work.counts.promptTokens += ids.length;
    this.counts.promptTokens += ids.length;
    this.#telemetry.prompt(this.name, ids.length);
  }

  /** One answer of a plan. */
  async *answer(plan: TextPlan, index: number, work: Work): AsyncGenerator<Piece, Ending> {
    const lease = plan.wanted && await this.#constraints.lease(plan.wanted);
    try {
      return yield* this.#answer(plan, index, work, lease);
    } finally {
      lease?.end();
    }
  }

  async *#answer(
    { ids, options, seed, begun = "", calls: format, mostCalls = Infinity }: TextPlan,
    index: number,
    { incoming, begin, counts }: Work,
    lease: Lease | undefined,
  ): AsyncGenerator<Piece, Ending> {
    // The marks of calls may be special tokens.
    const decode = (ids: number[]): string =>
      this.tokenizer.decode(ids, { special: format !== undefined });
    const generated = this.engine.generate(ids, {
      ...{ ...options, decode, signal: incoming.signal, constraint: lease?.constraint },
      // All answers have the same prompt, which counts once.
      onPrompt: (reused) => void (counts.cachedTokens += index === 0 ? reused : 0),
      seed: seedOf(seed, index),
    });
    let text = begun, shown = 0, last = begin, isFirst = true;
    let tokens: GeneratedToken[] = [];
    try {
      for (;;) {
        const next = await generated.next();
        if (next.done === true) {
          const all = next.value === "stop" ? "stop" : "length";
          const found = format?.read(text).calls ?? [];
          const good = found.filter(({ args, problem }) =>
            problem === undefined && !isTooDeep(args)
          )
            .slice(0, mostCalls);
          if (good.length > 0) {
            if (tokens.length > 0) yield { text: "", tokens };
            return { reason: "tool_calls", calls: good };
          }
          if (shown < text.length || tokens.length > 0) yield { text: text.slice(shown), tokens };
          return { reason: all, calls: [] };
        }
        const token = next.value;
        if (token.id !== undefined) {
          counts.completionTokens++;
          this.counts.completionTokens++;
          const now = performance.now();
          this.#telemetry.token(this.name, now - last, isFirst);
          // Of several answers, that of the first one.
          if (counts.completionTokens === 1) {
            incoming.note({ ttftMs: Math.round((now - begin) * 100) / 100 });
          }
          isFirst = false;
          last = now;
          tokens.push(token);
        }
        text += token.text;
        const end = format === undefined ? text.length : shownLength(format, text);
        if (end <= shown) continue;
        const piece = { text: text.slice(shown, end), tokens };
        shown = end;
        tokens = [];
        yield piece;
      }
    } finally {
      await generated.return("stop");
    }
  }

  [Symbol.dispose](): void {
    this.#constraints[Symbol.dispose]();
    this.engine.dispose();
  }
}

/** A part of one of several answers, or its end. */
export type Part =
  & { readonly index: number }
  & ({ readonly piece: Piece } | { readonly end: Ending });

/** The prompt tokens from which the first answer goes ahead, so that the others share its beginning. */
const SHARED = 64;

/** Several answers, as their parts come. */
export async function* together(
  plans: readonly { readonly plan: TextPlan; readonly choices: number }[],
  model: TextModel,
  work: Work,
): AsyncGenerator<Part, void> {
  type Next = { readonly index: number; readonly next: IteratorResult<Piece, Ending> };
  const running = new Map<number, Promise<Next>>();
  const answers: AsyncGenerator<Piece, Ending>[] = [];
  const ask = (index: number): void => {
    const next = answers[index]!.next().then((next): Next => ({ index, next }));
    // Those that fail after another one are not read any more.
    next.catch(() => {});
    running.set(index, next);
  };
  /** The others of a prompt, which begin after its first answer. */
  const later = new Map<number, readonly number[]>();
  for (const { plan, choices } of plans) {
    const first = answers.length;
    for (let i = 0; i < choices; i++) answers.push(model.answer(plan, i, work));
    const others = Array.from({ length: choices - 1 }, (_, i) => first + 1 + i);
    ask(first);
    if (plan.ids.length >= SHARED) later.set(first, others);
    else others.forEach(ask);
  }
  try {
    while (running.size > 0) {
      const { index, next } = await Promise.race(running.values());
      running.delete(index);
      for (const other of later.get(index) ?? []) ask(other);
      later.delete(index);
      if (next.done === true) yield { index, end: next.value };
      else {
        ask(index);
        yield { index, piece: next.value };
      }
    }
  } finally {
    await Promise.all(answers.map((answer) => answer.return({ reason: "stop", calls: [] })));
  }
}

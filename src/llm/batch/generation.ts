/**
 * The tokens of a text, one after the other.
 *
 * @module
 */
import { ArgumentError } from "../../base/errors.ts";
import { listIn } from "../../base/shape.ts";
import { checkSignal, orAborted } from "../../base/signals.ts";
import { describe } from "../../base/text.ts";
import type { Sampled } from "../sampling/batch.ts";
import { biasesOf, SAMPLER_OPTIONS, type SamplerOptions } from "../sampling/settings.ts";
import { SamplingState } from "../sampling/state.ts";
import type { Choice, PromptOptions, Scheduler } from "./scheduler.ts";
import type { Sequence } from "./sequence.ts";

/** The reason why a text has ended: a stop token or text, or one of two limits. */
export type FinishReason = "stop" | "maxTokens" | "contextLength";

/** What a constraint needs to know of a text. */
export interface ConstraintContext {
  /** The number of tokens of the vocabulary. */
  readonly vocabulary: number;
  /** The tokens that end the text, which are allowed where it may end. */
  readonly stopTokens: readonly number[];
}

/** What limits the tokens of a text, such as a grammar. */
export interface Constraint {
  /** Returns the state of a new text. */
  start(context: ConstraintContext): ConstraintState | Promise<ConstraintState>;
}

/** What a constraint allows after the tokens of one text: see {@link Constraint}. */
export interface ConstraintState {
  /**
   * Returns the tokens that may come next, a bit each: token t is bit t % 32 of element t / 32.
   * Undefined allows all.
   */
  mask(): Int32Array | undefined | Promise<Int32Array | undefined>;
  /** Takes the token that has come. */
  accept(id: number): void;
  /** Whether the text is complete: nothing but its end may come. It is read after `mask`. */
  readonly done: boolean;
  /** Frees what the state holds. */
  dispose?(): void;
}

/** Options of `generate`. */
export interface GenerateOptions extends SamplerOptions {
  /** The maximum number of tokens to generate; by default the rest of the context. */
  readonly maxTokens?: number | undefined;
  /** The tokens that end the text; they are not part of it. By default those of the file. */
  readonly stopTokens?: readonly number[] | undefined;
  /** What limits the tokens, such as those of `@rowmajor/tensor/constraints`; nothing by default. */
  readonly constraint?: Constraint | undefined;
  /** Stops the generation: the iteration throws the reason of the signal. */
  readonly signal?: AbortSignal | undefined;
}

/** The names of {@link GenerateOptions}. */
export const GENERATE_OPTIONS: readonly string[] = [
  ...["maxTokens", "stopTokens", "constraint", "signal", ...SAMPLER_OPTIONS],
];

/** A text that is generated. */
export interface Plan {
  /** The whole text before. */
  readonly ids: readonly number[];
  readonly maxTokens: number;
  readonly stop: ReadonlySet<number>;
  /** The most tokens of the text. */
  readonly context: number;
  readonly state: SamplingState;
  readonly signal: AbortSignal | undefined;
  /** How many of the most likely tokens are reported. */
  readonly top?: number | undefined;
  readonly constraint: Constraint | undefined;
  /** Whether tokens that followed the same tokens before are tried together. */
  readonly speculates?: boolean | undefined;
  readonly onPages?: PromptOptions["onPages"];
}

/** The limits of a model for texts. */
export interface Limits {
  readonly vocabulary: number;
  readonly context: number;
  readonly endTokens: readonly number[];
}

function stopTokensOf(given: unknown): number[] {
  const wrong = (what: unknown): ArgumentError =>
    new ArgumentError(
      `Cannot generate with stopTokens ${describe(what)}: it is an array of integers`,
    );
  const ends = listIn(given, (id) => {
    if (Number.isInteger(id)) return id as number;
    throw wrong(id);
  });
  if (ends === undefined) throw wrong(given);
  return ends;
}

/** A copy of options, each of which is read once, with copies of what they have inside. */
export function ownOptions<O extends GenerateOptions>(options: O): O {
  const own: O = Object.create(null);
  for (const name in options) own[name] = options[name];
  const { logitBias, stopTokens } = own;
  return {
    ...own,
    ...logitBias !== undefined && { logitBias: biasesOf(logitBias) },
    ...stopTokens !== undefined && { stopTokens: stopTokensOf(stopTokens) },
  };
}

/** What `generate` does after `ids`, by its options, which are checked and copied. */
export function planOf(
  ids: readonly number[],
  { maxTokens = Infinity, stopTokens, constraint, signal, ...sampling }: GenerateOptions,
  { vocabulary, context, endTokens }: Limits,
): Plan {
  if (maxTokens !== Infinity && (!Number.isInteger(maxTokens) || maxTokens < 0)) {
    throw new ArgumentError(
      `Cannot generate with maxTokens ${describe(maxTokens)}: it is an integer of at least 0`,
    );
  }
  checkSignal("generate", signal);
  const ends = stopTokensOf(stopTokens ?? endTokens);
  if (constraint !== undefined && typeof constraint?.start !== "function") {
    throw new ArgumentError(
      `Cannot generate with constraint ${describe(constraint)}: it is an object with start()`,
    );
  }
  const state = new SamplingState(sampling, ids, vocabulary);
  return { ids, maxTokens, stop: new Set(ends), context, state, constraint, signal };
}

/** A copy of a mask, which the constraint may change, also for another text; else what was given. */
function ownMask(
  given: unknown,
  words: number,
): Int32Array | undefined | { readonly given: unknown } {
  if (given === undefined) return undefined;
  const fits = ArrayBuffer.isView(given) && given instanceof Int32Array && given.length === words;
  return fits ? new Int32Array(given) : { given };
}

function isState(state: unknown): state is ConstraintState {
  return typeof state === "object" && state !== null &&
    ["mask", "accept"].every((name) => typeof Reflect.get(state, name) === "function");
}

/** The state of a constraint for a text, which the caller frees. */
async function stateOf(
  { constraint, state: { vocabulary }, stop, signal }: Plan,
): Promise<ConstraintState | undefined> {
  if (constraint === undefined) return undefined;
  const starting = Promise.resolve(constraint.start({ vocabulary, stopTokens: [...stop] }));
  let state: ConstraintState;
  try {
    state = await orAborted(starting, signal);
  } catch (error) {
    starting.then((late) => late?.dispose?.()).catch(() => {});
    throw error;
  }
  if (isState(state)) return state;
  throw new ArgumentError(
    `Cannot generate with a constraint whose start() gave ${
      describe(state)
    }: it gives an object with ` +
      "mask() and accept()",
  );
}

/** The longest and the shortest end of a text that is looked up, and the most tokens after it. */
const LONGEST_KEY = 3, SHORTEST_KEY = 2, MOST_DRAFT = 7;

/** The tokens that followed where the last tokens came before, the latest time. */
function draftOf(text: readonly number[]): readonly number[] {
  for (let size = LONGEST_KEY; size >= SHORTEST_KEY; size--) {
    const end = text.length - size;
    for (let at = end - 1; at >= 0; at--) {
      let same = 0;
      while (same < size && text[at + same] === text[end + same]) same++;
      if (same === size) return text.slice(at + size, at + size + MOST_DRAFT);
    }
  }
  return [];
}

/** Generates the tokens after a text, of which `sequence` has a beginning. */
export async function* tokensOf(
  scheduler: Scheduler,
  sequence: Sequence,
  plan: Plan,
): AsyncGenerator<Sampled, FinishReason> {
  const { maxTokens, stop, context, state, signal, top, onPages } = plan;
  signal?.throwIfAborted();
  if (maxTokens === 0) return "maxTokens";
  const text = [...plan.ids];
  const words = Math.ceil(state.vocabulary / 32);
  const speculates = plan.speculates === true && plan.constraint === undefined;
  const close = scheduler.open();
  let constraint: ConstraintState | undefined;
  try {
    constraint = await stateOf(plan);
    // Undefined where nothing but the end may come.
    const choose = async (): Promise<Choice | undefined> => {
      const given: unknown = constraint?.mask();
      const mask = ArrayBuffer.isView(given)
        ? ownMask(given, words)
        : ownMask(await orAborted(given, signal), words);
      if (constraint?.done === true) return undefined;
      if (mask === undefined || mask instanceof Int32Array) return { state, mask, top };
      // Here, so that the other texts of the step go on.
      throw new ArgumentError(
        `Cannot generate with the mask ${
          describe(mask.given)
        } of a constraint: it is an Int32Array of ` +
          `${words} elements`,
      );
    };
    let choice = await choose();
    if (choice === undefined) return "stop";
    const rest = text.slice(sequence.length);
    let { tokens } = await scheduler.prompt(sequence, rest, { choice, signal, onPages });
    for (let made = 0;;) {
      for (const token of tokens) {
        if (token.error !== undefined) throw token.error;
        if (stop.has(token.id)) return "stop";
        signal?.throwIfAborted();
        yield token;
        text.push(token.id);
        // It may be an async function, whose error is that of the text.
        if (constraint !== undefined) await orAborted(constraint.accept(token.id), signal);
        if (++made >= maxTokens) return "maxTokens";
        if (text.length > context) return "contextLength";
      }
      choice = constraint === undefined ? choice : await choose();
      if (choice === undefined) return "stop";
      // The text has memory for no more.
      const room = Math.min(context - text.length, maxTokens - made - 1);
      const draft = speculates ? draftOf(text).slice(0, room) : [];
      ({ tokens } = await scheduler.next(sequence, [text.at(-1)!, ...draft], { choice, signal }));
    }
  } finally {
    close();
    await constraint?.dispose?.();
  }
}

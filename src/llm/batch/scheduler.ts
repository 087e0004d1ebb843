/**
 * Runs the texts of a model: chunks of prompts, and steps of all texts that wait for their next token,
 * in turns.
 *
 * @module
 */
import { attempt, DisposedError, OutOfMemoryError } from "../../base/errors.ts";
import { turn } from "../../base/turn.ts";
import { tensor } from "../../tensor/create.ts";
import { scope, type Tensor } from "../../tensor/tensor.ts";
import type { Pace, Stepped } from "../blocks/step.ts";
import { BatchSampler, type Sampled } from "../sampling/batch.ts";
import { SamplingState } from "../sampling/state.ts";
import { PAGE } from "./pages.ts";
import type { Sequence, SequenceMemory } from "./sequence.ts";

/** The rows of programs for prompts: a chunk, and its parts at the end of a prompt. */
export const CHUNK_ROWS: readonly number[] = [8, 16, PAGE];
/** The rows of chunks of a prompt while nobody else waits: each takes a twentieth less per token. */
const LONG_CHUNKS: readonly number[] = [4 * PAGE, 2 * PAGE];
/** The texts of programs for steps. */
export const BATCH_ROWS: readonly number[] = [1, 2, 4, 8, 12, 16];
const MOST_TEXTS = BATCH_ROWS.at(-1)!;
/** The tokens of a text with a draft, by the number of texts: up to 16 rows cost little more than one. */
const DRAFT_ROWS: readonly (readonly [texts: number, tokens: number])[] = [[2, 8], [4, 4]];

/** A step of texts as a model computes it. */
export interface StepCall {
  readonly sequences: readonly Sequence[];
  /** The new tokens of each. */
  readonly ids: readonly (readonly number[])[];
  /** The texts, and the tokens of each, of the program: the rest is padding. */
  readonly rows: number;
  readonly columns: number;
  readonly pace: Pace;
  /** The length of the whole text, on which angles of some models depend; by default up to a token. */
  readonly length?: number | undefined;
  readonly wanted: "all" | "none" | number;
}

/** Computes steps. What it gives belongs to the caller. */
export type RunStep = (call: StepCall) => Promise<Stepped>;

/** How a token is chosen. */
export interface Choice {
  /** Accepts the tokens that are chosen. */
  readonly state: SamplingState;
  /** The tokens that are allowed, a bit each; all by default. */
  readonly mask?: Int32Array | undefined;
  /** How many of the most likely tokens are reported. */
  readonly top?: number | undefined;
}

/** What a job gives. */
export interface Outcome {
  /** With a choice, the next token, and those after the tokens of a draft that were right. */
  readonly tokens: readonly Sampled[];
  /** Without a choice, the logits: of the last token, or of all. */
  readonly logits: Float32Array;
}

/** What is computed for a text. */
export interface JobOptions {
  /** Without it, logits are given. */
  readonly choice?: Choice | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** What a prompt is computed for. */
export interface PromptOptions extends JobOptions {
  /** Whether the logits of all tokens are wanted. */
  readonly all?: boolean | undefined;
  /** Called when the text has whole pages, with the first new one. */
  readonly onPages?: ((sequence: Sequence, first: number) => void) | undefined;
}

interface Job {
  readonly sequence: Sequence;
  readonly options: PromptOptions;
  /** Of a prompt, the whole text; of a step, the next token and those that may follow it. */
  readonly ids: readonly number[];
  readonly resolve: (outcome: Outcome) => void;
  readonly reject: (error: unknown) => void;
}

interface PromptJob extends Job {
  /** The tokens that were there before. */
  readonly known: number;
  readonly all: Float32Array | undefined;
}

/** An outcome that is not complete. */
interface Result {
  readonly tokens: Sampled[];
  logits: Float32Array;
}

const NO_LOGITS: Float32Array = new Float32Array(0);

/** Numbers of what a scheduler has done. */
export interface SchedulerCounts {
  /** Steps of texts. */
  steps: number;
  /** Their tokens. */
  stepped: number;
  /** Chunks of prompts. */
  chunks: number;
  /** Their tokens. */
  prompted: number;
  /** Tokens that were tried after others, by speculation. */
  drafted: number;
  /** Those of them that were right. */
  confirmed: number;
}

/** The least number of `sizes` from `count` on. */
function sizeFor(sizes: readonly number[], count: number): number {
  return sizes.find((size) => size >= count) ?? sizes.at(-1)!;
}

/** The tokens of each of some texts, if one of them has a draft. */
function draftColumns(texts: number): number {
  return DRAFT_ROWS.find(([most]) => most >= texts)?.[1] ?? 1;
}

/** Memory for numbers; JavaScript has a RangeError for more than it can allocate. */
function roomFor(count: number): Float32Array {
  const { value, error } = attempt(() => new Float32Array(count));
  if (error === undefined) return value;
  throw new OutOfMemoryError(4 * count, "cpu", `${count} logits`);
}

/** Frees what a step made. */
export function free(made: Stepped): void {
  for (const one of [...made.rows, made.convolved, made.logits]) one?.dispose();
}

/**
 * The scheduler of a model. Texts that run together give the same results as each alone: prompts are
 * cut at whole pages, and steps have the same bits in any number.
 */
export class Scheduler implements Disposable {
  readonly #run: RunStep;
  readonly #vocabulary: number;
  readonly #sampler: BatchSampler;
  #prompts: PromptJob[] = [];
  #steps: Job[] = [];
  #running = false;
  /** Texts that may ask for a next token. */
  #alive = 0;
  readonly counts: SchedulerCounts = {
    ...{ steps: 0, stepped: 0, chunks: 0, prompted: 0, drafted: 0, confirmed: 0 },
  };

  constructor(run: RunStep, vocabulary: number) {
    this.#run = run;
    this.#vocabulary = vocabulary;
    this.#sampler = new BatchSampler();
  }

  /** Notes a text that will ask for tokens, until the function that it returns is called. */
  open(): () => void {
    this.#alive++;
    let isOpen = true;
    return () => {
      if (isOpen) this.#alive--;
      isOpen = false;
    };
  }

  /** Computes the tokens `ids` after those of a text, a chunk at a time. */
  prompt(
    sequence: Sequence,
    ids: readonly number[],
    options: PromptOptions = {},
  ): Promise<Outcome> {
    return new Promise((resolve, reject) => {
      const known = sequence.length;
      const all = options.all === true ? roomFor(ids.length * this.#vocabulary) : undefined;
      const whole = [...sequence.tokens, ...ids];
      this.#prompts.push({ sequence, ids: whole, options, known, all, resolve, reject });
      this.#start();
    });
  }

  /**
   * Computes the token `ids[0]` after those of a text, and chooses the next one. As long as that is the
   * next of `ids`, a draft, also the one after it: the outcome has as many tokens as were added.
   */
  next(
    sequence: Sequence,
    ids: readonly number[],
    options: JobOptions = {},
  ): Promise<Outcome> {
    return new Promise((resolve, reject) => {
      this.#steps.push({ sequence, ids, options, resolve, reject });
      this.#start();
    });
  }

  /** Computes a step of each size of up to `texts` texts, and drops what it gives. */
  async warmUp(memory: SequenceMemory, texts: number, drafts: boolean): Promise<void> {
    const run = async (rows: number, columns: number, rest: Pick<StepCall, "pace" | "wanted">) => {
      const sequences = Array.from({ length: rows }, () => memory.sequence());
      const ids = sequences.map(() => new Array<number>(columns).fill(0));
      const made = await this.#run({ ...rest, sequences, ids, rows, columns });
      try {
        if (made.logits === undefined) return;
        const choices = Array.from({ length: Math.min(rows, made.logits.shape[0]!) }, () => ({
          state: new SamplingState({}, [], this.#vocabulary),
        }));
        await this.#sampler.sample(made.logits, choices);
      } finally {
        free(made);
      }
    };
    const long = memory.cutsFreely ? LONG_CHUNKS : [];
    for (const columns of [PAGE, ...long]) {
      await run(1, columns, { pace: "prompt", wanted: "none" });
    }
    for (const columns of [...CHUNK_ROWS, ...long]) {
      await run(1, columns, { pace: "prompt", wanted: 0 });
    }
    const sizes = BATCH_ROWS.filter((_, i) => i === 0 || BATCH_ROWS[i - 1]! < texts);
    for (const rows of sizes) await run(rows, 1, { pace: "steps", wanted: "all" });
    if (!drafts) return;
    for (const rows of sizes) {
      const columns = draftColumns(rows);
      if (columns > 1) await run(rows, columns, { pace: "steps", wanted: "all" });
    }
  }

  #start(): void {
    if (this.#running) return;
    this.#running = true;
    void this.#loop();
  }

  async #loop(): Promise<void> {
    for (;;) {
      // Those that have got a token ask for the next one.
      if (this.#alive > 1) await turn();
      else await undefined;
      this.#prompts = this.#prompts.filter(isWanted);
      this.#steps = this.#steps.filter(isWanted);
      const prompt = this.#prompts.shift();
      if (prompt === undefined && this.#steps.length === 0) break;
      // A chunk of a prompt, then a step of all texts, so that neither waits for long.
      if (prompt !== undefined) await rejecting([prompt], () => this.#chunk(prompt));
      const steps = this.#take();
      if (steps.length > 0) await rejecting(steps, () => this.#step(steps));
    }
    this.#running = false;
  }

  /** The texts of the next step: those that have waited for longest, which can run together. */
  #take(): readonly Job[] {
    const taken: Job[] = [], left: Job[] = [];
    let width: number | undefined;
    for (const job of this.#steps) {
      const { sequence } = job;
      const own = sequence.memory.widthOf(sequence);
      width ??= own;
      (own === width && taken.length < MOST_TEXTS ? taken : left).push(job);
    }
    this.#steps = left;
    return taken;
  }

  /** The rows of the next chunk of a prompt: nearly full, or of one page. */
  #chunkRows({ sequence, ids }: PromptJob): number {
    const left = ids.length - sequence.length;
    const isAlone = this.#alive <= 1 && this.#prompts.length === 0;
    if (!isAlone || !sequence.memory.cutsFreely) return PAGE;
    return LONG_CHUNKS.find((rows) => left > rows * 3 / 4) ?? PAGE;
  }

  /** Computes the next chunk of a prompt. */
  async #chunk(job: PromptJob): Promise<void> {
    const { sequence, ids, options: { choice, onPages }, all, known } = job;
    const from = sequence.length;
    const rows = this.#chunkRows(job);
    const end = Math.min(ids.length, PAGE * Math.floor((from + rows) / PAGE));
    const part = ids.slice(from, end), count = part.length;
    const isLast = end === ids.length;
    const isOne = count === 1 && isLast;
    const made = await this.#run({
      ...{ sequences: [sequence], ids: [part], rows: 1, length: ids.length },
      columns: isOne ? 1 : rows > PAGE ? rows : sizeFor(CHUNK_ROWS, count),
      pace: isOne ? "steps" : "prompt",
      wanted: all !== undefined ? "all" : isLast ? count - 1 : "none",
    });
    try {
      this.counts.chunks++;
      this.counts.prompted += count;
      append(job, part, made, 0);
      const first = Math.floor(from / PAGE);
      if (Math.floor(end / PAGE) > first) onPages?.(sequence, first);
      if (all !== undefined) {
        const logits = await made.logits!.read();
        all.set(logits.subarray(0, count * this.#vocabulary), (from - known) * this.#vocabulary);
      }
      if (!isLast) this.#prompts.push(job);
      else if (choice !== undefined) {
        const [token] = await this.#sampler.sample(made.logits!, [choice]);
        if (token!.error === undefined) choice.state.accept(token!.id);
        job.resolve({ tokens: [token!], logits: NO_LOGITS });
      } else job.resolve({ tokens: [], logits: all ?? await made.logits!.read() });
    } finally {
      free(made);
    }
  }

  /** Computes the next tokens of texts. */
  async #step(jobs: readonly Job[]): Promise<void> {
    const drafts = jobs.some(({ ids }) => ids.length > 1);
    const most = drafts ? draftColumns(jobs.length) : 1;
    const ids = jobs.map((job) => job.ids.slice(0, most));
    const rows = sizeFor(BATCH_ROWS, jobs.length);
    const sequences = jobs.map(({ sequence }) => sequence);
    const made = await this.#run({
      ...{ sequences, ids, rows, columns: most },
      ...{ pace: "steps", wanted: "all" },
    });
    try {
      this.counts.steps++;
      const results = await this.#results(jobs, ids, made.logits!, most);
      jobs.forEach((job, row) => {
        const { tokens, logits } = results[row]!;
        const added = ids[row]!.slice(0, Math.max(1, tokens.length));
        this.counts.stepped += added.length;
        this.counts.drafted += ids[row]!.length - 1;
        this.counts.confirmed += added.length - 1;
        try {
          append(job, added, made, row * most);
          job.resolve({ tokens, logits });
        } catch (error) {
          job.reject(error);
        }
      });
    } finally {
      free(made);
    }
  }

  /** The tokens and logits of each text, by logits [rows · columns, V]. */
  async #results(
    jobs: readonly Job[],
    ids: readonly (readonly number[])[],
    logits: Tensor<"float32">,
    columns: number,
  ): Promise<readonly Result[]> {
    const results = jobs.map((): Result => ({ tokens: [], logits: NO_LOGITS }));
    for (const [row, { options: { choice } }] of jobs.entries()) {
      if (choice !== undefined) continue;
      const own = scope(() => logits.slice(row * columns).copy());
      results[row]!.logits = await own.read();
      own.dispose();
    }
    // A row for each token: what follows it if all those before it were right.
    const rows = jobs.flatMap(({ options: { choice } }, job) =>
      choice === undefined ? [] : ids[job]!.map((_, column) => {
        const draft = ids[job]!.slice(1, column + 1);
        return { job, choice, place: job * columns + column, row: { ...choice, draft } };
      })
    );
    if (rows.length === 0) return results;
    // The usual step: all texts in their order, without drafts.
    const isPlain = columns === 1 && rows.length === jobs.length;
    const places = Int32Array.from(rows, ({ place }) => place);
    const { device } = logits;
    const own = isPlain ? logits : scope(() => logits.take(tensor(places, { device }), 0));
    try {
      const chosen = await this.#sampler.sample(own, rows.map(({ row }) => row));
      rows.forEach(({ job, choice }, i) => {
        const { tokens } = results[job]!;
        const last = tokens.at(-1), column = tokens.length;
        const isRight = last === undefined || ids[job]![column] === last.id;
        // Those after a wrong one are dropped: they are not at their place.
        if (!isRight || last?.error !== undefined || rows[i]!.row.draft.length !== column) return;
        tokens.push(chosen[i]!);
        if (chosen[i]!.error === undefined) choice.state.accept(chosen[i]!.id);
      });
    } finally {
      if (!isPlain) own.dispose();
    }
    return results;
  }

  [Symbol.dispose](): void {
    this.#sampler[Symbol.dispose]();
  }
}

/** Rejects a job whose signal has aborted, or whose text has no memory any more; else true. */
function isWanted({ sequence, options: { signal }, reject }: Job): boolean {
  try {
    signal?.throwIfAborted();
    if (sequence.disposed) throw gone();
    return true;
  } catch (error) {
    reject(error);
    return false;
  }
}

function gone(): DisposedError {
  return new DisposedError("Cannot generate: the session was disposed");
}

/** Adds tokens of a step to a text, which may have lost its memory meanwhile. */
function append(job: Job, ids: readonly number[], made: Stepped, from: number): void {
  const { sequence } = job;
  if (sequence.disposed) throw gone();
  sequence.memory.append(sequence, ids, made, from);
}

/** Runs `body`; an error is that of all jobs. */
async function rejecting(jobs: readonly Job[], body: () => Promise<void>): Promise<void> {
  try {
    await body();
  } catch (error) {
    for (const { reject } of jobs) reject(error);
  }
}

/**
 * The choice of tokens for several texts at once.
 *
 * @module
 */
import { CHANGE_NUMBERS, ROW_NUMBERS } from "../../backend/js/sampling.ts";
import { ArgumentError, DisposedError, ShapeError } from "../../base/errors.ts";
import { formatShape } from "../../base/shape.ts";
import { describe } from "../../base/text.ts";
import { compile, type Compiled } from "../../compile/mod.ts";
import { fromBuffer } from "../../tensor/create.ts";
import type { AnyTensor, Tensor } from "../../tensor/tensor.ts";
import { type Matrix, sampleRows } from "./op.ts";
import type { SamplingState } from "./state.ts";

/** A token and the logarithm of its probability. */
export interface TokenLogprob {
  /** The token. */
  readonly id: number;
  /** The logarithm of the softmax of the logits as they were given. */
  readonly logprob: number;
}

/** What is chosen for a row. */
export interface Sampled {
  /** The token; -1 if there is none. */
  readonly id: number;
  /** The logarithm of the softmax of the logits as they were given; undefined unless asked for. */
  readonly logprob: number | undefined;
  /** The most likely tokens by the logits as they were given, if asked for. */
  readonly top: readonly TokenLogprob[];
  /** Why there is no token: all logits are -Infinity or NaN, or the mask allows none of the others. */
  readonly error: ArgumentError | undefined;
}

/** A row of logits and what its token depends on. */
export interface SampledRow {
  /** The text, whose next token is chosen. The choice does not accept it. */
  readonly state: SamplingState;
  /**
   * Tokens that are taken to follow those of the state: drafts of a smaller model, whose logits are
   * checked at once. Rows may share a state. None by default.
   */
  readonly draft?: readonly number[] | undefined;
  /** A bit for each token, the lowest of the first word first: 1 allows it. By default all are. */
  readonly mask?: Int32Array | undefined;
  /** How many of the most likely tokens are wanted, 0 to 20; undefined for no logprobs at all. */
  readonly top?: number | undefined;
}

/** The most tokens with logprobs, as OpenAI has it. */
const MOST_TOP = 20;

/** Changes of a row's logits: the sizes of their arrays, so that there are few programs. */
const ROOMS = [1, 64, 256, 1024, 4096, 16384, 65536];

/** The results of a program; all but the tokens only if logprobs are wanted. */
interface Chosen {
  readonly ids: AnyTensor;
  readonly logprobs?: AnyTensor;
  readonly top?: { readonly ids: AnyTensor; readonly logprobs: AnyTensor };
}

type Program = (
  logits: Matrix<"float32">,
  numbers: Matrix<"float64">,
  ids: Matrix<"int32">,
  changes: AnyTensor,
  mask: Matrix<"int32"> | undefined,
  withLogprobs: boolean,
) => Chosen;

const choose: Program = (logits, numbers, changed, changes, mask, withLogprobs) => {
  const ids = sampleRows(logits, numbers, changed, changes, mask);
  if (!withLogprobs) return { ids };
  const axis = { keepDims: true } as const;
  const most = logits.max(1, axis);
  const sums = logits.sub(most).exp().sum(1, axis).log();
  const logprob = (x: AnyTensor): AnyTensor => x.sub(most).sub(sums);
  const { values, indices } = logits.topk(Math.min(MOST_TOP, logits.shape[1]));
  return {
    ids,
    logprobs: logprob(logits.takeAlongAxis(ids.reshape([-1, 1]), 1)),
    top: { ids: indices, logprobs: logprob(values) },
  };
};

/** Throws unless a row has what it takes. */
function checkRow({ state, mask, top }: SampledRow, row: number, vocabulary: number): void {
  const wrong = (why: string): ArgumentError =>
    new ArgumentError(`Cannot sample row ${row}: ${why}`);
  if (state.vocabulary !== vocabulary) {
    throw wrong(`its text has a vocabulary of ${state.vocabulary}, and there are ${vocabulary}`);
  }
  const words = Math.ceil(vocabulary / 32);
  if (mask !== undefined && !(mask instanceof Int32Array && mask.length === words)) {
    const got = mask instanceof Int32Array ? `${mask.length} words` : describe(mask);
    throw wrong(`its mask is an Int32Array of ${words} words, got ${got}`);
  }
  if (top === undefined || Number.isInteger(top) && top >= 0 && top <= MOST_TOP) return;
  throw wrong(`top is an integer from 0 to ${MOST_TOP}, got ${describe(top)}`);
}

/**
 * Chooses tokens for rows of logits off the event loop. A token depends on its row and its text only,
 * not on other rows: the same seed and the same logits give the token of `Sampler`.
 *
 * Logits of a device are copied to the CPU, which chooses. There is a program for each number of rows,
 * with and without masks, with and without logprobs: callers pad their batches.
 */
export class BatchSampler implements Disposable {
  readonly #program: Compiled<Program> = compile(choose, { maxPrograms: 128 });
  #disposed = false;

  /**
   * Chooses a token for each of `rows`. The states, masks and logits are read at the call.
   *
   * @param logits [B, V]: a row for each of `rows`, and perhaps others, which are ignored.
   * @returns What was chosen, in the order of `rows`. A row without a possible token has an error.
   * @throws {ShapeError} For logits of another shape.
   * @throws {ArgumentError} For a draft, a mask or a `top` that does not fit.
   * @throws The reason of `signal`, if it aborts before the computation starts.
   */
  async sample(
    logits: Tensor<"float32">,
    rows: readonly SampledRow[],
    signal?: AbortSignal,
  ): Promise<readonly Sampled[]> {
    if (this.#disposed) throw new DisposedError("Cannot sample: the sampler was disposed");
    const [count = 0, vocabulary = 0] = logits.shape;
    if (logits.shape.length !== 2 || vocabulary === 0 || rows.length > count) {
      throw new ShapeError(
        `Cannot sample ${rows.length} rows of logits ${formatShape(logits.shape)}: it takes ` +
          `at least [${rows.length}, 1]`,
      );
    }
    rows.forEach((row, i) => checkRow(row, i, vocabulary));
    if (rows.length === 0) return [];
    const made: AnyTensor[] = [];
    const note = <X extends AnyTensor>(x: X): X => (made.push(x), x);
    try {
      const [numbers, ids, changes, mask] = inputsOf(rows, count, vocabulary);
      const room = ids.length / count;
      const own = logits.device === "cpu"
        ? note(logits.asShape([count, vocabulary]))
        : note(fromBuffer(await logits.read(), { shape: [count, vocabulary] }));
      const chosen = await this.#program.async(
        own as Matrix<"float32">,
        note(fromBuffer(numbers, { shape: [count, ROW_NUMBERS] })),
        note(fromBuffer(ids, { shape: [count, room] })),
        note(fromBuffer(changes, { shape: [count, room, CHANGE_NUMBERS] })),
        mask && note(fromBuffer(mask, { shape: [count, mask.length / count] })),
        rows.some(({ top }) => top !== undefined),
        { ...signal && { signal } },
      );
      note(chosen.ids);
      if (chosen.logprobs !== undefined) note(chosen.logprobs);
      if (chosen.top !== undefined) {
        note(chosen.top.ids);
        note(chosen.top.logprobs);
      }
      return resultsOf(rows, chosen);
    } finally {
      for (const one of made) one.dispose();
    }
  }

  /** Frees the programs. */
  dispose(): void {
    this.#disposed = true;
    this.#program.dispose();
  }

  /** {@link dispose}, for `using`. */
  [Symbol.dispose](): void {
    this.dispose();
  }
}

/** The numbers of rows, their changes, and their masks if there is one. */
function inputsOf(
  rows: readonly SampledRow[],
  count: number,
  vocabulary: number,
): [Float64Array, Int32Array, Float64Array, Int32Array | undefined] {
  const most = rows.reduce(
    (count, { state, draft }) => Math.max(count, state.ahead(draft, () => state.changed)),
    0,
  );
  const room = ROOMS.find((size) => size >= most) ?? vocabulary;
  const numbers = new Float64Array(count * ROW_NUMBERS);
  const ids = new Int32Array(count * room), changes = new Float64Array(count * room * 3);
  rows.forEach(({ state, draft }, row) =>
    state.ahead(draft, () => {
      state.writeRow(numbers, row);
      state.writeChanges(ids, changes, row * room);
    })
  );
  if (rows.every(({ mask }) => mask === undefined)) return [numbers, ids, changes, undefined];
  const words = Math.ceil(vocabulary / 32);
  const mask = new Int32Array(count * words).fill(-1);
  rows.forEach((row, i) => row.mask && mask.set(row.mask, i * words));
  return [numbers, ids, changes, mask];
}

/** The results of rows, without those of the padding. */
function resultsOf(rows: readonly SampledRow[], { ids, logprobs, top }: Chosen): Sampled[] {
  const chosen = ids.toTypedArray();
  const logs = logprobs?.toTypedArray();
  const [topIds, topLogs] = [top?.ids.toTypedArray(), top?.logprobs.toTypedArray()];
  const width = top?.ids.shape[1] ?? 0;
  return rows.map(({ top: wanted }, row): Sampled => {
    const id = Number(chosen[row]);
    const most = Array.from({ length: Math.min(wanted ?? 0, width) }, (_, k): TokenLogprob => ({
      id: Number(topIds![row * width + k]),
      logprob: Number(topLogs![row * width + k]),
    }));
    if (id < 0) {
      const error = new ArgumentError(
        `Cannot sample row ${row}: all logits of allowed tokens are -Infinity or NaN`,
      );
      return { id, logprob: undefined, top: most, error };
    }
    const logprob = wanted === undefined ? undefined : Number(logs![row]);
    return { id, logprob, top: most, error: undefined };
  });
}

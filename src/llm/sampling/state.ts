/**
 * What sampling knows of one text.
 *
 * @module
 */
import { CHANGE_NUMBERS, ROW, ROW_NUMBERS } from "../../backend/js/sampling.ts";
import { ArgumentError } from "../../base/errors.ts";
import { describe } from "../../base/text.ts";
import { tokensIn } from "../../tokenizers/text_stream.ts";
import {
  changeOf,
  checkBiases,
  partAt,
  type SamplerOptions,
  type SamplingSettings,
  settingsOf,
} from "./settings.ts";

/** The changes of logits that a state has room for at first. */
const FIRST_ROOM = 16;

/** How often tokens occur. */
class Counts {
  readonly #counts = new Map<number, number>();

  of(id: number): number {
    return this.#counts.get(id) ?? 0;
  }

  add(id: number, change: 1 | -1): void {
    const count = this.of(id) + change;
    if (count === 0) this.#counts.delete(id);
    else this.#counts.set(id, count);
  }
}

/**
 * What one text needs for sampling: options, the key of its random numbers, and the tokens so far. The
 * random number of a token depends on the seed and on the number of tokens before it only.
 */
export class SamplingState {
  readonly #settings: SamplingSettings;
  readonly #vocabulary: number;
  /** Whether there is a repetition penalty, and whether any penalty. */
  readonly #repeats: boolean;
  readonly #penalizes: boolean;
  /** The prompt, then the accepted tokens. */
  readonly #tokens: number[];
  readonly #promptLength: number;
  readonly #generated: Counts = new Counts();
  /** The tokens of the window. */
  readonly #recent: Counts = new Counts();
  /** The places of changed logits in the two arrays, which later calls of a batch copy as a whole. */
  readonly #places = new Map<number, number>();
  #ids = new Int32Array(FIRST_ROOM);
  #changes = new Float64Array(FIRST_ROOM * CHANGE_NUMBERS);

  /**
   * Copies the options and the prompt.
   *
   * @throws {ArgumentError} For options outside of their ranges, and for tokens that a vocabulary of
   *   so many does not have.
   */
  constructor(options: SamplerOptions, prompt: readonly number[], vocabulary: number) {
    this.#settings = settingsOf(options);
    this.#vocabulary = vocabulary;
    this.#tokens = tokensIn(prompt, vocabulary);
    this.#promptLength = this.#tokens.length;
    checkBiases(this.#settings, vocabulary);
    const { bias, penalty, window, presence, frequency } = this.#settings;
    this.#repeats = penalty !== 1 && window > 0;
    this.#penalizes = this.#repeats || presence !== 0 || frequency !== 0;
    for (const id of bias.keys()) this.#update(id);
    if (!this.#repeats) return;
    const seen = this.#tokens.slice(Math.max(0, this.#tokens.length - window));
    for (const id of seen) this.#recent.add(id, 1);
    for (const id of new Set(seen)) this.#update(id);
  }

  /** The number of accepted tokens. */
  get length(): number {
    return this.#tokens.length - this.#promptLength;
  }

  /** The number of tokens of the vocabulary. */
  get vocabulary(): number {
    return this.#vocabulary;
  }

  /** The number of logits that {@link writeChanges} writes changes of. */
  get changed(): number {
    return this.#places.size;
  }

  /**
   * Adds a token to the text.
   *
   * @throws {ArgumentError} For a token that the vocabulary does not have.
   */
  accept(id: number): void {
    if (!(Number.isInteger(id) && id >= 0 && id < this.#vocabulary)) {
      throw new ArgumentError(
        `Cannot accept token ${describe(id)}: tokens are integers from 0 to ${
          this.#vocabulary - 1
        }`,
      );
    }
    this.#tokens.push(id);
    this.#count(id, 1, this.#tokens[this.#tokens.length - 1 - this.#settings.window]);
  }

  /**
   * Removes the last tokens that were accepted.
   *
   * @throws {ArgumentError} For more tokens than were accepted.
   */
  undo(count = 1): void {
    if (!(Number.isInteger(count) && count >= 0 && count <= this.length)) {
      throw new ArgumentError(
        `Cannot undo ${describe(count)} tokens: ${this.length} were accepted`,
      );
    }
    for (let k = 0; k < count; k++) {
      const id = this.#tokens.pop()!;
      this.#count(id, -1, this.#tokens[this.#tokens.length - this.#settings.window]);
    }
  }

  /**
   * Calls `use` as if tokens had been accepted.
   *
   * @throws {ArgumentError} For a token that the vocabulary does not have. The state is as before.
   */
  ahead<R>(tokens: readonly number[] | undefined, use: () => R): R {
    const { length } = this;
    try {
      if (tokens !== undefined) { for (const id of tokensIn(tokens)) this.accept(id); }
      return use();
    } finally {
      this.undo(this.length - length);
    }
  }

  /** Counts a token at the end of the text, and the one that its window loses or gains at the start. */
  #count(id: number, change: 1 | -1, first: number | undefined): void {
    if (!this.#penalizes) return;
    this.#generated.add(id, change);
    if (this.#repeats) {
      this.#recent.add(id, change);
      if (first !== undefined) {
        this.#recent.add(first, change === 1 ? -1 : 1);
        this.#update(first);
      }
    }
    this.#update(id);
  }

  /** Writes the change of a token's logit to its place. */
  #update(id: number): void {
    let place = this.#places.get(id);
    if (place === undefined) {
      place = this.#places.size;
      this.#places.set(id, place);
      if (place === this.#ids.length) this.#grow();
      this.#ids[place] = id;
    }
    const [recent, count] = [this.#recent.of(id), this.#generated.of(id)];
    this.#changes.set(changeOf(this.#settings, id, recent > 0, count), place * CHANGE_NUMBERS);
  }

  #grow(): void {
    const [ids, changes] = [this.#ids, this.#changes];
    this.#ids = new Int32Array(2 * ids.length);
    this.#ids.set(ids);
    this.#changes = new Float64Array(2 * changes.length);
    this.#changes.set(changes);
  }

  /** Writes the numbers of row `row` for the next token. */
  writeRow(numbers: Float64Array, row: number): void {
    const { row: { inverse, topK, topP, minP } } = this.#settings;
    const at = row * ROW_NUMBERS;
    numbers[at + ROW.inverse] = inverse;
    numbers[at + ROW.topK] = topK;
    numbers[at + ROW.topP] = topP;
    numbers[at + ROW.minP] = minP;
    numbers[at + ROW.part] = inverse === 0 ? 0 : partAt(this.#settings, this.length);
    numbers[at + ROW.changes] = this.changed;
  }

  /** Writes the ids of changed logits and their changes from a place on. */
  writeChanges(ids: Int32Array, changes: Float64Array, at: number): void {
    const { size } = this.#places;
    ids.set(this.#ids.subarray(0, size), at);
    changes.set(this.#changes.subarray(0, size * CHANGE_NUMBERS), at * CHANGE_NUMBERS);
  }
}

/**
 * Samples tokens from logits.
 *
 * @module
 */
import { changedLogit, chooseToken } from "../backend/js/sampling.ts";
import { ArgumentError } from "../base/errors.ts";
import { describe } from "../base/text.ts";
import { tokensIn } from "../tokenizers/text_stream.ts";
import {
  changeOf,
  checkBiases,
  partAt,
  type SamplerOptions,
  type SamplingSettings,
  settingsOf,
} from "./sampling/settings.ts";

export { SAMPLER_OPTIONS, type SamplerOptions } from "./sampling/settings.ts";

/**
 * Chooses tokens by logits, as transformers does: `logitBias`, repetition penalty, presence and
 * frequency penalties, temperature, `topK`, `topP`, `minP`. The same seed and the same logits give the
 * same tokens on all machines.
 *
 * @example
 * ```ts
 * const sampler = new llm.Sampler({ temperature: 0.8, topK: 2, seed: 1 });
 * const logits = new Float32Array([1, 5, 4.5, -2]);
 * [1, 2].includes(sampler.sample(logits)); // => true
 * new llm.Sampler().sample(logits); // => 1
 * new llm.Sampler({ logitBias: { 1: -Infinity } }).sample(logits); // => 2
 * ```
 */
export class Sampler {
  /** The class name, as a bundler may shorten the class's own. @ignore */
  static get name(): string {
    return "Sampler";
  }

  readonly #settings: SamplingSettings;
  /** How often each token was chosen, if a penalty depends on it. */
  readonly #chosen = new Map<number, number>();
  /** The number of tokens chosen so far. */
  #count = 0;

  /**
   * Copies the options.
   *
   * @throws {ArgumentError} For options outside of their ranges.
   */
  constructor(options: SamplerOptions = {}) {
    this.#settings = settingsOf(options);
  }

  /**
   * Chooses a token, which counts for the presence and frequency penalties of later ones.
   *
   * @param logits One for each token of the vocabulary. They may be changed.
   * @param seen The tokens of the text so far, which the repetition penalty needs.
   * @throws {ArgumentError} For a logitBias of a token without a logit, and if all logits are
   *   -Infinity or NaN.
   */
  sample(logits: Float32Array, seen: readonly number[] = []): number {
    if (!(logits instanceof Float32Array) || logits.length === 0) {
      throw new ArgumentError(`Cannot sample by ${describe(logits)}: it takes a Float32Array`);
    }
    const settings = this.#settings;
    checkBiases(settings, logits.length);
    this.#change(logits, tokensIn(seen));
    const part = settings.row.inverse === 0 ? 0 : partAt(settings, this.#count);
    const id = chooseToken(logits, settings.row, part);
    if (id < 0) throw new ArgumentError("Cannot sample: all logits are -Infinity or NaN");
    this.#count++;
    if (settings.presence !== 0 || settings.frequency !== 0) {
      this.#chosen.set(id, (this.#chosen.get(id) ?? 0) + 1);
    }
    return id;
  }

  /** Applies the biases and the penalties. */
  #change(logits: Float32Array, seen: readonly number[]): void {
    const settings = this.#settings;
    const { bias, penalty, window } = settings;
    const recent = new Set(
      penalty === 1 || window === 0 ? [] : seen.slice(Math.max(0, seen.length - window)),
    );
    for (const id of new Set([...bias.keys(), ...recent, ...this.#chosen.keys()])) {
      const x = logits[id];
      if (x === undefined) continue;
      const change = changeOf(settings, id, recent.has(id), this.#chosen.get(id) ?? 0);
      logits[id] = changedLogit(x, ...change);
    }
  }
}

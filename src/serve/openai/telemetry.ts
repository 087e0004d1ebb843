/**
 * What a service counts and times of texts.
 *
 * @module
 */
import { COUNTS, type Labels, type Metrics, SECONDS } from "../http/metrics.ts";

/** Tokens of a model, and how often. */
export interface TokenCounts {
  /** Of prompts and of texts. */
  promptTokens: number;
  /** Of answers. */
  completionTokens: number;
}

/** The metrics of texts, for all models. */
export class Telemetry {
  readonly #prompt: (labels?: Labels, value?: number) => void;
  readonly #completion: (labels?: Labels, value?: number) => void;
  readonly #first: (value: number, labels?: Labels) => void;
  readonly #next: (value: number, labels?: Labels) => void;
  readonly #batch: (value: number, labels?: Labels) => void;

  constructor(metrics: Metrics) {
    const labels = ["model"];
    this.#prompt = metrics.counter(
      "rowmajor_prompt_tokens_total",
      "Tokens of prompts, and of texts for embeddings and to rerank",
      labels,
    );
    this.#completion = metrics.counter(
      "rowmajor_completion_tokens_total",
      "Tokens of answers",
      labels,
    );
    this.#first = metrics.histogram(
      "rowmajor_time_to_first_token_seconds",
      "Time from the headers of a request to the first token of an answer",
      SECONDS,
      labels,
    );
    this.#next = metrics.histogram(
      "rowmajor_time_between_tokens_seconds",
      "Time between two tokens of an answer",
      SECONDS,
      labels,
    );
    this.#batch = metrics.histogram(
      "rowmajor_batch_size",
      "Texts that were computed together, for embeddings and to rerank",
      COUNTS,
      labels,
    );
  }

  /** Notes the tokens of a prompt or of texts. */
  prompt(model: string, tokens: number): void {
    this.#prompt({ model }, tokens);
  }

  /** Notes a token of an answer, so many milliseconds after the begin, or after the one before. */
  token(model: string, ms: number, isFirst: boolean): void {
    this.#completion({ model });
    (isFirst ? this.#first : this.#next)(ms / 1000, { model });
  }

  /** Notes a batch of texts. */
  batch(model: string, texts: number): void {
    this.#batch(texts, { model });
  }
}

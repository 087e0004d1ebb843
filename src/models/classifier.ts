/**
 * Texts to labels, with encoders that have a head for that.
 *
 * @module
 */
import { ArgumentError, FormatError } from "../base/errors.ts";
import { describe } from "../base/text.ts";
import { objectOf } from "../llm/config/reader.ts";
import { checkOptions } from "../table/infer.ts";
import type { TextInput } from "../tokenizers/mod.ts";
import * as nn from "../nn/mod.ts";
import type { AnyWeights } from "./encoders/parts.ts";
import type { ModelSource } from "./files.ts";
import { pool, type Pooling, type Vectors } from "./pooling.ts";
import {
  checkMaxTokens,
  ENCODER_OPTIONS,
  type EncoderOptions,
  inputsIn,
  type Opened,
  type Task,
  TextEncoder,
  textsIn,
} from "./text_encoder.ts";

/** Options of {@link Classifier.open}. */
export interface ClassifierOptions extends EncoderOptions {
  /** The maximum number of tokens of a text; longer texts are cut. By default that of the model. */
  readonly maxTokens?: number | undefined;
}

/** Options of {@link Classifier.classify}. */
export interface ClassifyOptions {
  /** The maximum number of labels of a text; all by default. */
  readonly top?: number | undefined;
  /** Stops the work: the promise rejects with the reason of the signal. */
  readonly signal?: AbortSignal | undefined;
}

/** A label of a text. */
export interface Label {
  /** Its name. */
  readonly label: string;
  /** The probability. */
  readonly score: number;
}

/** A result of {@link Classifier.rank}. */
export interface RankResult {
  /** The index of the text. */
  readonly index: number;
  /** The probability that the text answers the query. */
  readonly score: number;
}

/** A head: vectors [B, D] to logits [B, labels]. */
interface Head {
  readonly pooling: Pooling;
  readonly run: (x: Vectors) => Vectors;
}

/** The head of a model, by the names of its tensors. */
function headOf(
  { weights: w, reader, encoder: { hidden } }: Opened,
  labels: number,
): Head {
  if (w.has("classifier.out_proj")) {
    const dense = w.linear("classifier.dense", hidden, hidden);
    const out = w.linear("classifier.out_proj", labels, hidden);
    return { pooling: "cls", run: (x) => out(dense(x).tanh()) };
  }
  const own = w.linear("classifier", labels, hidden, { bias: "optional" });
  if (w.has("pre_classifier")) {
    const dense = w.linear("pre_classifier", hidden, hidden, { activation: "relu" });
    return { pooling: "cls", run: (x) => own(dense(x)) };
  }
  if (w.has("head.dense")) {
    const dense = w.linear("head.dense", hidden, hidden, { bias: "optional" });
    const epsilon = reader.real("norm_eps", 1e-5);
    const norm = w.layerNorm("head.norm", hidden, { epsilon, bias: "optional" });
    const given = reader.text("classifier_activation") ?? "gelu";
    if (given !== "gelu") reader.reject("classifier_activation", "gelu");
    const pooling = reader.text("classifier_pooling") ?? "cls";
    if (pooling !== "cls" && pooling !== "mean") {
      return reader.reject("classifier_pooling", "cls or mean");
    }
    return { pooling, run: (x) => own(norm(nn.gelu(dense(x)))) };
  }
  const pooler = ["pooler.dense", "bert.pooler.dense"].find((name) => w.has(name));
  if (pooler === undefined) return { pooling: "cls", run: (x) => own(x) };
  const dense = w.linear(pooler, hidden, hidden);
  return { pooling: "cls", run: (x) => own(dense(x).tanh()) };
}

/** The names of labels: those of config.json, or LABEL_0, LABEL_1, … */
function labelsOf(
  id2label: unknown,
  weights: AnyWeights,
  fail: (message: string) => never,
): string[] {
  const count = weights.info("classifier.weight")?.shape[0] ??
    weights.info("classifier.out_proj.weight")?.shape[0];
  if (count === undefined) {
    return fail(
      "the model has no classifier: neither classifier.weight nor classifier.out_proj.weight",
    );
  }
  const names = objectOf(id2label);
  return Array.from({ length: count }, (_, i) => {
    const name = names[String(i)];
    return typeof name === "string" ? name : `LABEL_${i}`;
  });
}

/** The options of a call, checked. */
function ownOptions(
  op: string,
  options: ClassifyOptions,
): { readonly top: number; readonly signal: AbortSignal | undefined } {
  checkOptions(op, options, ["top", "signal"]);
  const { top = Infinity, signal } = options;
  if (top >= 1) return { top, signal };
  throw new ArgumentError(`Cannot ${op} with top ${describe(top)}: it is at least 1`);
}

function softmax(logits: Float32Array): Float64Array {
  const most = logits.reduce((a, b) => Math.max(a, b), -Infinity);
  const powers = Float64Array.from(logits, (x) => Math.exp(x - most));
  const sum = powers.reduce((a, b) => a + b, 0);
  return powers.map((x) => x / sum);
}

export const sigmoid = (x: number): number => 1 / (1 + Math.exp(-x));

/**
 * Gives texts labels with their probabilities, or ranks texts by how well they answer a query.
 *
 * @example
 * ```ts check: it needs a model
 * import { Classifier } from "@rowmajor/tensor/models";
 *
 * using classifier = await Classifier.open("distilbert/distilbert-base-uncased-finetuned-sst-2-english");
 * const [best] = await classifier.classify("What a day!");
 * ```
 */
export class Classifier implements Disposable {
  /** The class name, as a bundler may shorten the class's own. @ignore */
  static get name(): string {
    return "Classifier";
  }

  /** The names of labels. */
  readonly labels: readonly string[];
  /** The maximum number of tokens of a text; longer texts are cut. */
  readonly maxTokens: number;
  /** Whether a text can have several labels, each with a probability of its own. */
  readonly multiLabel: boolean;
  /** The name of the model: that of its file or folder, or of the hub, such as `"organization/name"`. */
  readonly name: string;
  /**
   * The encoder, and what is computed of its states.
   *
   * @ignore
   */
  readonly encoder: TextEncoder;

  private constructor(encoder: TextEncoder, labels: readonly string[], multiLabel: boolean) {
    this.encoder = encoder;
    this.name = encoder.name;
    this.labels = Object.freeze(labels);
    this.maxTokens = encoder.longest;
    this.multiLabel = multiLabel;
  }

  /**
   * Opens an encoder with a head for classification, such as `BertForSequenceClassification`.
   *
   * @param source A folder, `"organization/name"` in the cache of the Hugging Face hub, or files in
   *   memory by name.
   * @throws {FormatError} For a model of another kind, and for damaged files.
   * @throws {PackageError} If the package `@huggingface/tokenizers` is not installed.
   */
  static async open(source: ModelSource, options: ClassifierOptions = {}): Promise<Classifier> {
    checkOptions("open a classifier", options, [...ENCODER_OPTIONS, "maxTokens"]);
    const { maxTokens, ...rest } = options;
    checkMaxTokens("open a classifier", maxTokens);
    let labels: string[] = [];
    let multiLabel = false;
    const encoder = await TextEncoder.open(source, rest, (opened): Task => {
      const { weights, reader, files } = opened;
      labels = labelsOf(reader.value("id2label"), weights, (message) => {
        throw new FormatError(message, files.label, 0);
      });
      const problem = reader.text("problem_type");
      if (problem === "regression" && labels.length > 1) {
        reader.reject(
          "problem_type",
          "a classification: regressions with several numbers are not supported",
        );
      }
      multiLabel = problem === "multi_label_classification" || labels.length === 1;
      const head = headOf(opened, labels.length);
      return {
        ignore: ["*position_ids", "*inv_freq", "lm_head.*"],
        longest: maxTokens,
        finish: (states, lengths) => head.run(pool(states, lengths, head.pooling)),
      };
    });
    return new Classifier(encoder, labels, multiLabel);
  }

  /**
   * Returns the labels of a text, or of texts in their order, the most probable first. A text may be a
   * pair `[text, other]`.
   *
   * @throws {ArgumentError} For values that are no texts.
   * @throws {DisposedError} After `dispose`.
   */
  classify(text: string, options?: ClassifyOptions): Promise<Label[]>;
  /** The labels of each of several texts. */
  classify(texts: readonly TextInput[], options?: ClassifyOptions): Promise<Label[][]>;
  async classify(
    texts: string | readonly TextInput[],
    options: ClassifyOptions = {},
  ): Promise<Label[] | Label[][]> {
    const { top, signal } = ownOptions("classify", options);
    const isOne = typeof texts === "string";
    const inputs = isOne ? [texts] : inputsIn("classify", texts);
    const made = await this.encoder.rows(inputs, { signal }, (logits) => {
      const scores = this.multiLabel ? Float64Array.from(logits, sigmoid) : softmax(logits);
      return this.labels
        .map((label, i): Label => ({ label, score: scores[i]! }))
        .sort((a, b) => b.score - a.score)
        .slice(0, top);
    });
    return isOne ? made[0]! : made;
  }

  /**
   * Ranks texts by how well they answer a query, with a model for that (a cross-encoder), which has one
   * label.
   *
   * @returns The best first.
   */
  async rank(
    query: string,
    texts: readonly string[],
    options: ClassifyOptions = {},
  ): Promise<RankResult[]> {
    const { top, signal } = ownOptions("rank", options);
    if (this.labels.length !== 1) {
      throw new ArgumentError(
        `Cannot rank with a model of ${this.labels.length} labels: it takes one of 1`,
      );
    }
    const [own] = textsIn("rank", [query]);
    const pairs = textsIn("rank", texts).map((text): TextInput => [own!, text]);
    const scores = await this.encoder.rows(pairs, { signal }, ([logit]) => sigmoid(logit!));
    return scores.map((score, index): RankResult => ({ index, score }))
      .sort((a, b) => b.score - a.score)
      .slice(0, top);
  }

  /** Frees the weights and the programs. Calls then throw a DisposedError. */
  dispose(): void {
    this.encoder.dispose();
  }

  /** {@link dispose}, for `using`. */
  [Symbol.dispose](): void {
    this.dispose();
  }
}

/**
 * A model that computes a row of numbers for each text of requests, all together.
 *
 * @module
 */
import type { TextEncoder } from "../../models/text_encoder.ts";
import type { Encoding, TextInput } from "../../tokenizers/mod.ts";
import { HttpError } from "../http/http_error.ts";
import type { Incoming } from "../http/service.ts";
import type { Telemetry, TokenCounts } from "./telemetry.ts";

/** What computes the texts of all requests. */
export interface EncoderQueue {
  /** The rows of some texts. */
  all(
    encoded: readonly Encoding[],
    options: { readonly signal: AbortSignal },
  ): Promise<Float32Array[]>;
  drain(): Promise<void>;
  readonly stats: {
    readonly waiting: number;
    readonly running: number;
    readonly batches: number;
    readonly items: number;
  };
}

/** A text, a pair of texts, or tokens, and its place in the body. */
export interface Input {
  readonly input: TextInput | { readonly ids: readonly number[] };
  readonly place: string;
}

/**
 * The most characters of a text for each token that the model takes. Many more tokens of what is cut
 * would be computed, on the event loop if the text has no spaces.
 */
const MOST_CHARACTERS = 64;

/** A model behind a queue. */
export class EncoderModel {
  readonly name: string;
  readonly encoder: TextEncoder;
  /** The numbers of a row. */
  readonly size: number;
  readonly queue: EncoderQueue;
  /** All tokens so far. */
  readonly counts: Pick<TokenCounts, "promptTokens"> = { promptTokens: 0 };
  readonly #telemetry: Telemetry;

  constructor(
    { name, encoder, size, queue, telemetry }: {
      readonly name: string;
      readonly encoder: TextEncoder;
      readonly size: number;
      readonly queue: EncoderQueue;
      readonly telemetry: Telemetry;
    },
  ) {
    this.name = name;
    this.encoder = encoder;
    this.size = size;
    this.queue = queue;
    this.#telemetry = telemetry;
  }

  /** The rows of texts, and the number of their tokens. Texts that are too long are cut, or an error. */
  async rows(
    inputs: readonly Input[],
    isCut: boolean,
    incoming: Incoming,
  ): Promise<{ readonly rows: readonly Float32Array[]; readonly tokens: number }> {
    const { signal } = incoming;
    const { encoder } = this;
    const tooLong = (length: string, place: string): HttpError =>
      new HttpError(
        400,
        `This model's maximum context length is ${encoder.longest} tokens, and ${place} has ` +
          `${length}. Please reduce its length, or send truncate: true`,
        { param: place, code: "context_length_exceeded" },
      );
    const most = MOST_CHARACTERS * encoder.longest;
    const texts = inputs.flatMap(({ input, place }): TextInput[] => {
      if (typeof input !== "string" && "ids" in input) return [];
      const fit = (text: string): string => {
        if (text.length <= most) return text;
        // The first half of a character alone would be another one.
        if (isCut) return text.slice(0, most).replace(/[\ud800-\udbff]$/, "");
        throw tooLong(`${text.length} characters, of which ${most} are taken`, place);
      };
      return [typeof input === "string" ? fit(input) : [fit(input[0]), fit(input[1])]];
    });
    const encoded = await encoder.encode(texts, { signal, ...!isCut && { maxLength: Infinity } });
    let next = 0;
    const all = inputs.map(({ input, place }): Encoding => {
      const isTokens = typeof input !== "string" && "ids" in input;
      const one = isTokens ? { ids: input.ids, typeIds: input.ids.map(() => 0) } : encoded[next++]!;
      if (one.ids.length <= encoder.longest) return one;
      if (isCut) return { ids: one.ids.slice(0, encoder.longest), typeIds: one.typeIds };
      throw tooLong(`${one.ids.length}`, place);
    });
    const tokens = all.reduce((sum, { ids }) => sum + ids.length, 0);
    this.counts.promptTokens += tokens;
    this.#telemetry.prompt(this.name, tokens);
    incoming.note({ promptTokens: tokens });
    return { rows: await this.queue.all(all, { signal }), tokens };
  }
}

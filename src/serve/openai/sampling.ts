/**
 * Options of sampling as clients send them.
 *
 * @module
 */
import type { EngineGenerateOptions } from "../../llm/engine.ts";
import type { Fields } from "./fields.ts";
import { MOST_BIASES, MOST_STOP_LENGTH, MOST_STOPS } from "./limits.ts";

/** The biases of tokens, by their ids. */
function biasesOf(body: Fields, vocabulary: number): ReadonlyMap<number, number> | undefined {
  const field = body.get("logit_bias");
  const given = field.fields();
  if (given === undefined) return undefined;
  const entries = Object.entries(given.value);
  if (entries.length > MOST_BIASES) field.fail(`an object of at most ${MOST_BIASES} tokens`);
  return new Map(entries.map(([token]) => {
    const id = /^\d{1,9}$/.test(token) ? Number(token) : NaN;
    if (!(id < vocabulary)) {
      field.fail(`an object whose keys are tokens from 0 to ${vocabulary - 1}`);
    }
    return [id, given.need(token).number(-100, 100)!];
  }));
}

/** The texts that end an answer. */
function stopsOf(body: Fields): readonly string[] {
  const field = body.get("stop");
  if (field.value === undefined) return [];
  const list = typeof field.value === "string" ? [field] : field.list(MOST_STOPS)!;
  return list.map((one) =>
    one.text(MOST_STOP_LENGTH) || one.fail("a text of at least 1 character")
  );
}

/** How the tokens of an answer are chosen. */
export function samplingOf(
  body: Fields,
  vocabulary: number,
): Omit<EngineGenerateOptions, "maxTokens" | "logprobs"> {
  const topK = body.get("top_k").integer(-1);
  const topP = body.get("top_p").number(0, 1);
  const window = body.get("repeat_last_n").integer(-1);
  const penalty = body.get("repeat_penalty", "repetition_penalty");
  const repetition = penalty.number(0, 10);
  if (repetition === 0) penalty.fail("a number greater than 0");
  return {
    stop: stopsOf(body),
    temperature: body.get("temperature").number(0, 2) ?? 1,
    // The most likely token is always there.
    topP: topP === undefined ? 1 : Math.max(topP, 1e-9),
    topK: topK === undefined || topK < 0 ? 0 : topK,
    minP: body.get("min_p").number(0, 1) ?? 0,
    frequencyPenalty: body.get("frequency_penalty").number(-2, 2) ?? 0,
    presencePenalty: body.get("presence_penalty").number(-2, 2) ?? 0,
    repetitionPenalty: repetition ?? 1,
    repetitionWindow: window === undefined || window < 0 ? Infinity : window,
    logitBias: biasesOf(body, vocabulary),
  };
}

/**
 * Texts that go on from a prompt: `/v1/completions`.
 *
 * @module
 */
import type { GeneratedToken } from "../../llm/engine.ts";
import { type Incoming, json } from "../http/service.ts";
import { usageOf } from "./chat.ts";
import { wantedOf } from "./constraints.ts";
import type { Fields } from "./fields.ts";
import { textsOf } from "./inputs.ts";
import { MOST_TEXTS, type OpenAILimits } from "./limits.ts";
import { finite, tokenText } from "./logprobs.ts";
import { samplingOf } from "./sampling.ts";
import { eventStream } from "./sse.ts";
import {
  type Ending,
  type TextModel,
  type TextPlan,
  together,
  type Work,
  workOf,
} from "./text_model.ts";

/** Texts that are asked for. */
interface CompletionRequest {
  readonly model: TextModel;
  readonly plans: readonly { readonly plan: TextPlan; readonly choices: number }[];
  /** What the text of each answer begins with: its prompt, if that is asked for. */
  readonly begins: readonly string[];
  readonly hasLogprobs: boolean;
  readonly id: string;
  readonly created: number;
}

async function requestOf(
  body: Fields,
  model: TextModel,
  limits: OpenAILimits,
  work: Work,
): Promise<CompletionRequest> {
  const { tokenizer, format, engine } = model;
  const { vocabulary } = engine.model.config;
  const suffix = body.get("suffix");
  if (suffix.value !== undefined) suffix.refuse("texts go on from their prompt only");
  const choices = body.get("n").integer(1, limits.choices) ?? 1;
  const best = body.get("best_of");
  if ((best.integer(1) ?? choices) !== choices) best.refuse("it can only be n");
  const echo = body.get("echo");
  const isEcho = echo.flag() ?? false;
  const logprobs = body.get("logprobs").integer(0, 20);
  if (isEcho && logprobs !== undefined) echo.refuse("prompts have no logprobs");
  const prompts = textsOf(body.need("prompt"), limits.inputs, vocabulary);
  if (prompts.length * choices > MOST_TEXTS) {
    body.get("prompt").fail(`at most ${MOST_TEXTS} prompts, times n`);
  }
  const wanted = wantedOf(body.get("response_format"));
  await model.prepare(wanted);
  const options = {
    ...samplingOf(body, vocabulary),
    maxTokens: Math.min(body.get("max_tokens").integer(0) ?? 16, limits.tokens),
    logprobs,
  };
  const seed = body.get("seed").integer(Number.MIN_SAFE_INTEGER);
  const { signal } = work.incoming;
  const plans: { plan: TextPlan; choices: number }[] = [];
  const begins: string[] = [];
  for (const one of prompts) {
    let ids: readonly number[];
    if ("ids" in one) ids = one.ids;
    else {
      model.checkLength(one.text.length, one.place);
      ids = await format.encodeText(one.text === "" ? [] : [one.text], signal);
      const { bos, addBos } = tokenizer;
      const needsStart = bos !== undefined && (addBos || ids.length === 0);
      if (needsStart && ids[0] !== bos) ids = [bos, ...ids];
    }
    if (ids.length === 0) body.get("prompt").fail("one or more texts that are not empty");
    model.checkPrompt(ids, one.place);
    model.notePrompt(work, ids);
    plans.push({ plan: { ids, options, seed, wanted }, choices });
    const begin = !isEcho ? "" : "text" in one ? one.text : tokenizer.decode(one.ids);
    begins.push(...Array<string>(choices).fill(begin));
  }
  return {
    ...{ model, plans, begins },
    hasLogprobs: logprobs !== undefined,
    id: `cmpl-${crypto.randomUUID().replaceAll("-", "")}`,
    created: Math.floor(Date.now() / 1000),
  };
}

/** The probabilities of the tokens of an answer, and their places in its text. */
class TokenTable {
  readonly #model: TextModel;
  #offset: number;

  constructor(model: TextModel, offset: number) {
    this.#model = model;
    this.#offset = offset;
  }

  of(tokens: readonly GeneratedToken[]) {
    const { tokenizer } = this.#model;
    const made = tokens.filter(({ id }) => id !== undefined);
    const texts = made.map(({ id }) => tokenText(tokenizer, id!));
    return {
      tokens: texts,
      token_logprobs: made.map(({ logprob }) => finite(logprob)),
      top_logprobs: made.map(({ top }) =>
        Object.fromEntries(
          top.map(({ id, logprob }) => [tokenText(tokenizer, id), finite(logprob)]),
        )
      ),
      text_offset: texts.map((text) => {
        const at = this.#offset;
        this.#offset += text.length;
        return at;
      }),
    };
  }
}

/** The parts of a streamed answer. */
async function* chunksOf(
  { model, plans, begins, hasLogprobs, id, created }: CompletionRequest,
  work: Work,
  withUsage: boolean,
): AsyncGenerator<unknown, void> {
  const chunk = (choices: readonly unknown[], usage: unknown) => ({
    ...{ id, object: "text_completion", created, model: model.name, choices },
    ...withUsage && { usage },
  });
  const tables = begins.map((begin) => new TokenTable(model, begin.length));
  const choice = (
    index: number,
    text: string,
    tokens: readonly GeneratedToken[] = [],
    reason: Ending["reason"] | null = null,
  ) =>
    chunk([{
      ...{ text, index },
      logprobs: hasLogprobs && tokens.length > 0 ? tables[index]!.of(tokens) : null,
      finish_reason: reason,
    }], null);
  try {
    for (const [index, begin] of begins.entries()) if (begin !== "") yield choice(index, begin);
    for await (const part of together(plans, model, work)) {
      const { index } = part;
      if ("end" in part) yield choice(index, "", [], part.end.reason);
      else if (part.piece.text !== "" || hasLogprobs) {
        yield choice(index, part.piece.text, part.piece.tokens);
      }
    }
    if (withUsage) yield chunk([], usageOf(work));
  } finally {
    work.incoming.note(work.counts);
  }
}

/** The whole answer. */
async function answerOf(
  { model, plans, begins, hasLogprobs, id, created }: CompletionRequest,
  work: Work,
): Promise<unknown> {
  const made = begins.map((begin) => ({
    ...{ text: begin, offset: begin.length },
    tokens: [] as GeneratedToken[],
    reason: "stop" as Ending["reason"],
  }));
  try {
    for await (const part of together(plans, model, work)) {
      const one = made[part.index]!;
      if ("end" in part) one.reason = part.end.reason;
      else {
        one.text += part.piece.text;
        if (hasLogprobs) one.tokens.push(...part.piece.tokens);
      }
    }
  } finally {
    work.incoming.note(work.counts);
  }
  return {
    ...{ id, object: "text_completion", created, model: model.name },
    choices: made.map(({ text, offset, tokens, reason }, index) => ({
      ...{ text, index },
      logprobs: hasLogprobs ? new TokenTable(model, offset).of(tokens) : null,
      finish_reason: reason,
    })),
    usage: usageOf(work),
  };
}

/** Answers `/v1/completions`. */
export async function completion(
  body: Fields,
  model: TextModel,
  limits: OpenAILimits,
  incoming: Incoming,
): Promise<Response> {
  const work = workOf(incoming);
  incoming.note({ model: model.name });
  const isStream = body.get("stream").flag() ?? false;
  const streamOptions = body.get("stream_options").fields();
  const withUsage = streamOptions?.get("include_usage").flag() ?? false;
  const request = await requestOf(body, model, limits, work);
  if (!isStream) return json(await answerOf(request, work));
  return await eventStream(incoming, chunksOf(request, work, withUsage));
}

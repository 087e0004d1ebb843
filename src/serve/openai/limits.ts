/**
 * The limits of requests, and their defaults.
 *
 * @module
 */
import { ArgumentError } from "../../base/errors.ts";
import { describe } from "../../base/text.ts";
import { checkOptions } from "../../table/infer.ts";

/** Limits of the requests of OpenAI's API. Every one has a default in {@link OPENAI_LIMITS}. */
export interface OpenAILimits {
  /** The most messages of a chat. */
  readonly messages: number;
  /** The most tokens of an answer, also of one whose request does not say. */
  readonly tokens: number;
  /** The most answers to a request: `n`, for each prompt. */
  readonly choices: number;
  /** The most texts of a request for embeddings, and documents of one to rerank. */
  readonly inputs: number;
  /** The most texts of embeddings, and of those to rerank, that wait; beyond, the answer is 503. */
  readonly queue: number;
}

/** The default limits of requests. */
export const OPENAI_LIMITS: OpenAILimits = {
  messages: 1024,
  tokens: 4096,
  choices: 8,
  inputs: 2048,
  queue: 8192,
};

/** The most stop texts of a request, and their characters. */
export const MOST_STOPS = 16, MOST_STOP_LENGTH = 1000;
/** The most answers to a request, to all of its prompts. */
export const MOST_TEXTS = 128;
/** The most functions of a request. */
export const MOST_TOOLS = 128;
/** The most tokens with a bias. */
export const MOST_BIASES = 1024;
/** The most parts of a message, and the most calls in one. */
export const MOST_PARTS = 256;
/** The longest schema of a format or of all functions, in characters of JSON. */
export const MOST_SCHEMA = 65_536;

/** Limits as the program gives them, checked. */
export function openaiLimitsOf(given: Partial<OpenAILimits> = {}): OpenAILimits {
  checkOptions("serve with limits", given, Object.keys(OPENAI_LIMITS));
  const set = Object.entries(given).filter(([, value]) => value !== undefined);
  for (const [name, value] of set) {
    if (Number.isSafeInteger(value) && value >= 1) continue;
    throw new ArgumentError(
      `Cannot serve with ${name} ${describe(value)}: it is an integer of at least 1`,
    );
  }
  return { ...OPENAI_LIMITS, ...Object.fromEntries(set) };
}

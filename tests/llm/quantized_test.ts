/**
 * Models with random weights in formats of 256 elements, and in iq4_nl, beside node-llama-cpp: both
 * give the tokens of the dequantized weights, up to the first step whose two best logits are near.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import type { QuantName } from "../../src/ops/quantized/formats.ts";
import * as llm from "../../src/llm/mod.ts";
import { amount, RUNS_ALL } from "../support/amount.ts";
import { randomLlama } from "../support/llama.ts";

const path = new URL("../golden/models/random_llama.json", import.meta.url);
const golden: {
  readonly prompts: readonly (readonly number[])[];
  readonly formats: Readonly<
    Record<string, { readonly sha256: string; readonly greedy: readonly { tokens: number[] }[] }>
  >;
} = JSON.parse(readFileSync(path, "utf8"));

/** Logits nearer than this may change places by rounding, in llama.cpp too. */
const NEAR = 0.3;

/** The best token, and how far its logit is above the next. */
function best(logits: Float32Array): [token: number, margin: number] {
  let token = 0, second = -Infinity;
  for (let i = 1; i < logits.length; i++) {
    if (logits[i]! > logits[token]!) {
      second = logits[token]!;
      token = i;
    } else second = Math.max(second, logits[i]!);
  }
  return [token, logits[token]! - second];
}

const USUAL = ["q4_k", "iq4_nl"];
const formats = Object.entries(golden.formats).filter(([name]) => RUNS_ALL || USUAL.includes(name));
const prompts = golden.prompts.slice(0, amount(1, Infinity));
for (
  const [format, { sha256, greedy }] of formats
) {
  test(`tokens of a random model of ${format} are those of node-llama-cpp`, async () => {
    const bytes = randomLlama(format as QuantName);
    assertEquals(createHash("sha256").update(bytes).digest("hex"), sha256);
    using quantized = await llm.open(bytes);
    using exact = await llm.open(bytes, { dtype: "float32", cache: "float32" });
    let compared = 0;
    for (const [i, prompt] of prompts.entries()) {
      using ours = quantized.session();
      using definition = exact.session();
      const text = [...prompt];
      for (const expected of greedy[i]!.tokens) {
        const [token, margin] = best(await definition.logits(text));
        if (margin <= NEAR) break;
        const made = best(await ours.logits(text))[0];
        assertEquals([made, expected], [token, token], `after ${text.length} tokens, ${margin}`);
        text.push(token);
        compared++;
      }
    }
    assert(compared >= prompts.length, `only ${compared} tokens were compared`);
  });
}

/**
 * SmolLM2 with its own weights against PyTorch, where `deno task models smollm2` has fetched it: the
 * tokens after ten prompts, and the perplexity of a text.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { modelFolder } from "../../scripts/models.ts";
import * as llm from "../../src/llm/mod.ts";

const path = new URL("../golden/models/smollm2.json", import.meta.url);
const golden: {
  readonly prompts: readonly { readonly ids: number[] }[];
  readonly scored: number[];
  readonly weights: Readonly<
    Record<string, {
      readonly greedy: readonly { readonly tokens: number[]; readonly margins: number[] }[];
      /** The mean negative logarithm of the probabilities of `scored`, from its second token on. */
      readonly likelihood: number;
    }>
  >;
} = JSON.parse(readFileSync(path, "utf8"));

/** Logits nearer than this may change places by rounding, in llama.cpp too. */
const NEAR = 0.3;
const folder = modelFolder("smollm2");
const why = folder === undefined ? " (skipped: deno task models smollm2 fetches it)" : "";

/** The mean negative logarithm of the probabilities of `ids`, from the second on. */
async function likelihood(session: llm.Session, ids: readonly number[]): Promise<number> {
  const { vocabulary } = session.model.config;
  const all = await session.logits(ids, { all: true });
  let sum = 0;
  for (let i = 1; i < ids.length; i++) {
    const logits = all.subarray((i - 1) * vocabulary, i * vocabulary);
    const most = logits.reduce((a, b) => Math.max(a, b), -Infinity);
    const total = logits.reduce((a, b) => a + Math.exp(b - most), 0);
    sum += Math.log(total) + most - logits[ids[i]!]!;
  }
  return sum / (ids.length - 1);
}

for (const [format, { greedy, likelihood: expected }] of Object.entries(golden.weights)) {
  test(`SmolLM2 of ${format} as PyTorch${why}`, { skip: folder === undefined }, async () => {
    const file = `SmolLM2-135M-Instruct.${format.toUpperCase()}.gguf`;
    using model = await llm.open(join(folder!, file));
    for (const [i, { ids }] of golden.prompts.entries()) {
      const { tokens, margins } = greedy[i]!;
      const near = margins.findIndex((margin) => margin <= NEAR);
      const count = near < 0 ? tokens.length : near;
      const made: number[] = [];
      const options = { maxTokens: count, stopTokens: [] };
      for await (const id of model.generate(ids, options)) made.push(id);
      assertEquals(made, tokens.slice(0, count), `prompt ${i}`);
    }
    using session = model.session();
    const ratio = Math.exp(await likelihood(session, golden.scored) - expected);
    // Activations of 8 bits: rounding alone moves it by half of that.
    assert(Math.abs(ratio - 1) <= 0.01, `perplexity is ${ratio} times PyTorch's`);
  });
}

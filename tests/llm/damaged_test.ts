/**
 * Damaged models: a FormatError when they are opened, or a model that runs.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import { FormatError } from "../../mod.ts";
import { parseGguf } from "../../src/io/gguf.ts";
import * as llm from "../../src/llm/mod.ts";
import { amountIn } from "../support/engine.ts";
import { randomLlama } from "../support/llama.ts";

const sizes = { layers: 1, width: 64, heads: 4, groups: 2, hidden: 32, vocabulary: 300 };
const FILE = randomLlama("q4_0", sizes);

const FILES = amountIn(250, 80, 500);

test("damaged files are models that run, or a FormatError", async () => {
  let seed = 7;
  const random = (n: number): number => {
    seed = Math.imul(seed, 1103515245) + 12345 | 0;
    return (seed >>> 8) % n;
  };
  const tensors = [...parseGguf(FILE)!.tensors.values()];
  const end = Math.min(...tensors.map(({ begin }) => begin));
  let refused = 0;
  for (let i = 0; i < FILES; i++) {
    const bytes = FILE.slice(0, random(8) === 0 ? random(FILE.length) : FILE.length);
    // Most of them in the sizes of the model and the places of its tensors.
    const texts = random(3) === 0;
    for (let n = random(4); n >= 0; n--) {
      const place = texts ? random(end) : random(2) === 0 ? random(700) : end - 1 - random(600);
      const at = Math.min(place, bytes.length - 1);
      bytes[at] = [0, 255, 128, random(256), bytes[at]! ^ 1 << random(8)][random(5)]!;
    }
    let model: llm.LanguageModel;
    try {
      model = await llm.open(bytes);
    } catch (error) {
      assert(error instanceof FormatError, `file ${i}: ${error}`);
      refused++;
      continue;
    }
    using opened = model;
    using session = opened.session({ capacity: 4 });
    const logits = await session.logits([1]);
    assertEquals(logits.length, opened.config.vocabulary);
  }
  assert(refused > 0.4 * FILES && refused < FILES, `${refused}`);
});

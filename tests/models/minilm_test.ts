/**
 * all-MiniLM-L6-v2, where `deno task models` has fetched it: its vectors against PyTorch's, and those
 * of int8 weights against them.
 *
 * @module
 */
import { assert } from "@std/assert";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { modelFolder } from "../../scripts/models.ts";
import { Embedder } from "../../src/models/mod.ts";
import { floatsOf } from "../llm/models.ts";
import { RUNS_ALL } from "../support/amount.ts";

const folder = modelFolder("minilm");
const why = folder === undefined ? " (skipped: deno task models minilm has not run)" : "";
const options = { skip: folder === undefined };

/** The cosine of the angle between vectors of length 1. */
const cosine = (a: ArrayLike<number>, b: ArrayLike<number>): number =>
  Array.from(a).reduce((sum, x, i) => sum + x * b[i]!, 0);

const SUBJECTS = [
  ...["the quick brown fox", "a cat", "our server", "Das Wetter", "the committee", "my password"],
  ...["every tensor", "El gato negro", "this library", "the price of rice", "a child", "1,204 men"],
];
const PREDICATES = [
  ...["jumps over the lazy dog.", "cannot be reset!", "is a matrix with a shape and a dtype"],
  ...["was approved by a vote of 5 to 3 on Tuesday, after a debate of two hours", "schläft"],
  ...["rose by 3.5% in 2019; nobody knows why", "reads books about the history of mathematics"],
];
/** 200 texts of 2 to about 120 words. */
const texts = Array.from({ length: 200 }, (_, i) =>
  Array.from(
    { length: 1 + i % 9 },
    (_, j) => `${SUBJECTS[(i + 5 * j) % 12]} ${PREDICATES[(3 * i + j) % 7]}`,
  ).join(" "));

test(`all-MiniLM-L6-v2 gives PyTorch's vectors${why}`, options, async () => {
  const golden: { readonly text: string; readonly vector: string }[] = JSON.parse(
    readFileSync(new URL("../golden/models/minilm.json", import.meta.url), "utf8"),
  );
  // The golden vectors are those of longer texts than the file allows.
  using embedder = await Embedder.open(folder!, { maxTokens: 512 });
  const made = await embedder.embed(golden.map(({ text }) => text));
  for (const [i, { text, vector }] of golden.entries()) {
    const found = cosine(made[i]!, floatsOf(vector));
    assert(found > 1 - 1e-6, `${text.slice(0, 40)}: ${found}`);
  }
});

test(`weights of int8 give vectors of almost the same direction${why}`, options, async () => {
  using plain = await Embedder.open(folder!);
  using int8 = await Embedder.open(folder!, { quantize: "int8" });
  const [a, b] = [await plain.embed(texts), await int8.embed(texts)];
  const cosines = a.map((x, i) => cosine(x, b[i]!));
  const least = Math.min(...cosines), mean = cosines.reduce((x, y) => x + y) / cosines.length;
  // docs/embeddings.md has these numbers.
  assert(least > 0.997 && mean > 0.9993, `at least ${least}, ${mean} on average`);
  assert(least < 1 - 1e-5, "the weights were not rounded");
});

/** The milliseconds between the ticks of a timer of 1 ms while `work` runs, of which 99% are shorter. */
async function gapOf(work: () => Promise<unknown>): Promise<number> {
  const gaps: number[] = [];
  let last = performance.now();
  const timer = setInterval(() => {
    const now = performance.now();
    gaps.push(now - last);
    last = now;
  }, 1);
  await work();
  clearInterval(timer);
  gaps.sort((a, b) => a - b);
  return gaps[Math.floor(gaps.length * 0.99)] ?? 0;
}

test(
  `a timer runs beside 1,000 texts${why}`,
  { skip: folder === undefined || !RUNS_ALL },
  async () => {
    using embedder = await Embedder.open(folder!, { quantize: "int8" });
    const words = SUBJECTS.join(" ").split(" ");
    // As many lengths from 4 to 8 words as from 8 to 16 and so on.
    const mixed = (count: number): string[] =>
      Array.from({ length: count }, (_, i) =>
        Array.from(
          { length: Math.floor(4 * 60 ** ((i * 0.618) % 1)) },
          (_, j) => words[(7 * i + 5 * j) % words.length],
        ).join(" "));
    await embedder.embed(mixed(300));
    const late: number[] = [];
    // Other programs on the machine delay timers too.
    for (let i = 0; i < 3 && !(Math.min(...late) <= 5); i++) {
      const control = await gapOf(() => new Promise((resolve) => setTimeout(resolve, 3000)));
      late.push(await gapOf(() => embedder.embed(mixed(1000))) - control);
    }
    assert(Math.min(...late) <= 5, `99% of the ticks are up to ${late.join(", ")} ms late`);
  },
);

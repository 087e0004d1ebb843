/**
 * The choice of tokens by logits, against a plain definition on sorted lists.
 *
 * @module
 */
import { assert, assertEquals, assertNotEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { test } from "node:test";
import { ArgumentError, random } from "../../mod.ts";
import { Sampler, type SamplerOptions } from "../../src/llm/mod.ts";
import { loose } from "../support.ts";

/** The probabilities of all tokens, by the definition. */
function probabilities(
  given: readonly number[],
  options: SamplerOptions,
  seen: readonly number[] = [],
): number[] {
  const { repetitionPenalty = 1, repetitionWindow = Infinity, temperature = 0 } = options;
  const { topK = 0, topP = 1, minP = 0 } = options;
  const late = repetitionWindow === 0 ? [] : seen.slice(-Math.min(repetitionWindow, 1e9));
  const logits = given.map((x, i) => {
    if (!late.includes(i)) return Math.fround(x);
    return Math.fround(x > 0 ? x / repetitionPenalty : x * repetitionPenalty);
  });
  const order = logits.map((_, i) => i)
    .filter((i) => logits[i]! > -Infinity) // Not NaN either.
    .sort((a, b) => logits[b]! - logits[a]! || a - b);
  const best = logits[order[0]!]!;
  if (temperature === 0) return logits.map((_, i) => Number(i === order[0]));
  const weight = (i: number): number => Math.exp((logits[i]! - best) / temperature);
  let kept = topK > 0 ? order.slice(0, topK) : order;
  const all = kept.reduce((sum, i) => sum + weight(i), 0);
  if (topP < 1) {
    let sum = 0;
    const last = kept.findIndex((i) => (sum += weight(i)) >= topP * all);
    if (last >= 0) kept = kept.slice(0, last + 1);
  }
  kept = kept.filter((i) => weight(i) >= minP);
  const total = kept.reduce((sum, i) => sum + weight(i), 0);
  return logits.map((_, i) => kept.includes(i) ? weight(i) / total : 0);
}

/** How often each token is chosen. */
function counts(
  logits: readonly number[],
  options: SamplerOptions,
  times: number,
  seen?: readonly number[],
): number[] {
  const sampler = new Sampler(options);
  const made = new Array(logits.length).fill(0);
  for (let i = 0; i < times; i++) made[sampler.sample(Float32Array.from(logits), seen)]++;
  return made;
}

/** Asserts that counts are as probable as the 1 − 1e-6 quantile of χ², nearly. */
function assertFits(made: readonly number[], expected: readonly number[], about: string): void {
  const times = made.reduce((a, b) => a + b, 0);
  let sum = 0, degrees = -1;
  made.forEach((n, i) => {
    const wanted = expected[i]! * times;
    if (wanted === 0) return assertEquals(n, 0, `${about}: token ${i} is impossible`);
    degrees++;
    sum += (n - wanted) ** 2 / wanted;
  });
  const bound = degrees + 5 * Math.sqrt(2 * Math.max(1, degrees)) + 15;
  assert(sum <= bound, `${about}: χ² is ${sum} of ${degrees} degrees`);
}

const LOGITS = [1, 3.5, -2, 0.25, 3, 3, -0.5, 2, -Infinity, 1.75, NaN, 0];
const CASES: SamplerOptions[] = [
  { temperature: 1 },
  { temperature: 0.5 },
  { temperature: 3 },
  { temperature: 1, topK: 1 },
  { temperature: 1, topK: 2 },
  { temperature: 2, topK: 4 },
  { temperature: 1, topK: 100 },
  { temperature: 1, topP: 0.01 },
  { temperature: 1, topP: 0.6 },
  { temperature: 1, topP: 0.95 },
  { temperature: 1, minP: 0.5 },
  { temperature: 1, minP: 1 },
  { temperature: 2, topK: 6, topP: 0.8, minP: 0.3 },
  { temperature: 1, repetitionPenalty: 1.5 },
  { temperature: 1, repetitionPenalty: 2, repetitionWindow: 2, topK: 5 },
  { temperature: 1, repetitionPenalty: 0.5, repetitionWindow: 0 },
];

for (const options of CASES) {
  test(`tokens are as frequent as ${JSON.stringify(options)} says`, () => {
    const seen = [1, 4, 4, 2, 11, 7];
    const times = 3000;
    const made = counts(LOGITS, { ...options, seed: 7 }, times, seen);
    assertFits(made, probabilities(LOGITS, options, seen), JSON.stringify(options));
  });
}

test("every choice is possible by the definition, and the most likely one is chosen", () => {
  const logit = fc.oneof(
    fc.float({ min: -40, max: 40, noNaN: true }),
    fc.constantFrom(0, 1, 1, -Infinity, NaN),
  );
  const options = fc.record({
    temperature: fc.constantFrom(0, 0.01, 0.7, 1, 1.5, 20),
    topK: fc.constantFrom(0, 1, 2, 3, 10),
    topP: fc.constantFrom(1, 0.01, 0.3, 0.5, 0.9),
    minP: fc.constantFrom(0, 0.05, 0.4, 1),
    repetitionPenalty: fc.constantFrom(1, 1.3, 0.7),
    repetitionWindow: fc.constantFrom(undefined, 1, 4),
    seed: fc.nat(),
  });
  const seen = fc.array(fc.nat(20), { maxLength: 8 });
  const property = fc.property(
    fc.array(logit, { minLength: 1, maxLength: 16 }),
    options,
    seen,
    (logits, given, seen) => {
      const sample = (): number => new Sampler(given).sample(Float32Array.from(logits), seen);
      if (logits.every((x) => !(x > -Infinity))) {
        return void assertThrows(sample, ArgumentError, "all logits");
      }
      const id = sample();
      assert(Number.isInteger(id) && id >= 0 && id < logits.length);
      const all = probabilities(logits, given, seen);
      // Sums of probabilities are rounded in another order than here.
      const near = [0.999999, 1.000001]
        .map((f) => probabilities(logits, { ...given, topP: Math.min(1, given.topP * f) }, seen));
      assert(all[id]! > 0 || near.some((one) => one[id]! > 0), `${id} of ${all}`);
    },
  );
  fc.assert(property, { numRuns: 500, seed: 1 });
});

test("a vocabulary with a flat distribution is chosen from as a whole", () => {
  // More candidates than are sorted at first.
  const n = 2000;
  const logits = Array.from({ length: n }, (_, i) => (i * 7919 % n) / n);
  for (const options of [{ topP: 0.5 }, { topK: 700 }, { topK: 900, topP: 0.3 }, { minP: 0.7 }]) {
    const given = { temperature: 1, ...options };
    const expected = probabilities(logits, given);
    const possible = expected.filter((p) => p > 0).length;
    const made = counts(logits, { ...given, seed: 3 }, 300);
    made.forEach((count, i) =>
      assert(count === 0 || expected[i]! > 0, `${JSON.stringify(given)}: ${i}`)
    );
    const different = made.filter((count) => count > 0).length;
    assert(different > Math.min(possible, 300) / 2, `${different} of ${possible}`);
  }
});

test("the greatest logit is chosen without a temperature, the first of equal ones", () => {
  const greedy = new Sampler();
  const chosen = (logits: number[]): number => greedy.sample(Float32Array.from(logits));
  assertEquals(chosen([1, 3, 2]), 1);
  assertEquals(chosen([2, 7, 7, 1]), 1);
  assertEquals(chosen([NaN, -5, NaN, -4]), 3);
  assertEquals(chosen([-Infinity, -1e38]), 1);
  assertEquals(chosen([1, Infinity, NaN]), 1);
  for (const none of [[NaN, -Infinity], [NaN, NaN], [-Infinity, -Infinity]]) {
    assertThrows(() => chosen(none), ArgumentError, "all logits are -Infinity or NaN");
  }
});

test("extreme logits and temperatures give tokens that are possible", () => {
  for (const temperature of [1e-300, 1e-5, 1, 1e30, 1e308]) {
    const sampler = new Sampler({ temperature, seed: 5 });
    for (let i = 0; i < 30; i++) {
      const one = sampler.sample(Float32Array.of(-Infinity, 3e38, NaN, -3e38, -Infinity));
      assert(one === 1 || one === 3 && temperature > 1, `${one}, ${temperature}`);
      assertEquals(sampler.sample(Float32Array.of(NaN, -Infinity, Infinity, Infinity)), 2);
      assertEquals(sampler.sample(Float32Array.of(-Infinity, -1e38)), 1);
    }
  }
});

test("tokens repeat with the seed, and differ with another", () => {
  const logits = Array.from({ length: 50 }, (_, i) => Math.sin(i));
  const run = (seed?: number | bigint): number[] => {
    const sampler = new Sampler({ temperature: 1, seed });
    return Array.from({ length: 40 }, () => sampler.sample(Float32Array.from(logits)));
  };
  assertEquals(run(1), run(1));
  assertEquals(run(1n), run(1));
  assertEquals(run(2n ** 63n), run(2n ** 63n));
  assertNotEquals(run(1), run(2));
  assertNotEquals(run(), run());
  // One random number is used for each token, whatever the logits are.
  const part = new Sampler({ temperature: 1, seed: 1 });
  part.sample(Float32Array.from(logits));
  assertEquals(part.sample(Float32Array.from(logits)), run(1)[1]);
});

test("a seed gives the tokens that its numbers tell of", () => {
  const sampler = new Sampler({ temperature: 1, seed: 9 });
  for (let i = 0; i < 20; i++) {
    const part = random.uniform(random.foldIn(random.key(9), i), [], { dtype: "float64" }).item();
    // Tokens of equal probability share the numbers from 0 to 1.
    assertEquals(sampler.sample(new Float32Array(8)), Math.floor(part * 8));
  }
});

test("the penalty changes tokens of the text, by the sign of their logits", () => {
  const penalized = (options: SamplerOptions, seen: number[]): number[] => {
    const logits = Float32Array.of(4, -4, 2, 0);
    new Sampler(options).sample(logits, seen);
    return [...logits];
  };
  const penalty = { repetitionPenalty: 2 };
  assertEquals(penalized(penalty, []), [4, -4, 2, 0]);
  assertEquals(penalized(penalty, [0, 1, 0, 0, 3]), [2, -8, 2, 0]);
  assertEquals(penalized({ ...penalty, repetitionWindow: 1 }, [0, 1]), [4, -8, 2, 0]);
  assertEquals(penalized({ ...penalty, repetitionWindow: 2 }, [0, 1]), [2, -8, 2, 0]);
  assertEquals(penalized({ ...penalty, repetitionWindow: 0 }, [0, 1]), [4, -4, 2, 0]);
  // Tokens that logits know nothing of.
  assertEquals(penalized(penalty, [9, -1, 2]), [4, -4, 1, 0]);
});

test("presence and frequency penalties count the chosen tokens, not the prompt", () => {
  const options = { presencePenalty: 0.5, frequencyPenalty: 0.25 };
  const sampler = new Sampler(options);
  const seen = [0, 0, 1, 2];
  const chosen = (logits: number[]): [number, ...number[]] => {
    const given = Float32Array.from(logits);
    const id = sampler.sample(given, seen);
    seen.push(id);
    return [id, ...given];
  };
  assertEquals(chosen([3, 1, 2]), [0, 3, 1, 2]);
  assertEquals(chosen([3, 1, 2]), [0, 2.25, 1, 2]);
  assertEquals(chosen([3, 1, 2]), [0, 2, 1, 2]);
  assertEquals(chosen([3, 1, 2]), [2, 1.75, 1, 2]);
  assertEquals(chosen([3, 1, 2]), [0, 1.75, 1, 1.25]);
  assertEquals(chosen([-3, -4, -2]), [2, -4.5, -4, -2.75]);
  const negative = new Sampler({ presencePenalty: -2, frequencyPenalty: -1 });
  negative.sample(Float32Array.of(1, 0));
  const logits = Float32Array.of(0, 2.5);
  assertEquals([negative.sample(logits), ...logits], [0, 3, 2.5]);
});

test("biases are added before penalties, and -Infinity bans a token", () => {
  const biased = (options: SamplerOptions, seen: number[] = []): number[] => {
    const logits = Float32Array.of(4, -4, 2, 0);
    return [new Sampler(options).sample(logits, seen), ...logits];
  };
  assertEquals(biased({ logitBias: { 1: 10, 0: -1 } }), [1, 3, 6, 2, 0]);
  assertEquals(biased({ logitBias: new Map([[3, 4.5]]) }), [3, 4, -4, 2, 4.5]);
  assertEquals(biased({ logitBias: { 0: -Infinity, 2: -100 } }), [3, -Infinity, -4, -98, 0]);
  const penalty = { repetitionPenalty: 2, logitBias: { 0: -6, 1: 6 } };
  assertEquals(biased(penalty, [0, 1]), [2, -4, 1, 2, 0]);
  const only = new Sampler({ temperature: 2, seed: 1, logitBias: { 0: -Infinity, 3: -Infinity } });
  for (let i = 0; i < 100; i++) {
    assert([1, 2].includes(only.sample(Float32Array.of(9, 1, 1, 9))));
  }
});

test("options and logits out of range are refused", () => {
  const refused: [string, unknown[]][] = [
    ["temperature", [-1, NaN, Infinity, "1", null]],
    ["topK", [-1, 1.5, NaN, "3"]],
    ["topP", [0, -0.1, 1.1, NaN, "0.5"]],
    ["minP", [-0.1, 1.1, NaN]],
    ["repetitionPenalty", [0, -1, NaN, Infinity]],
    ["repetitionWindow", [-1, 0.5, NaN]],
    ["presencePenalty", [-2.1, 2.1, NaN, "1"]],
    ["frequencyPenalty", [-2.1, 2.1, NaN, Infinity]],
    ["logitBias", [1, "1", null, [1], { 1: 101 }, { 1: -100.5 }, { 1: Infinity }, { 1: NaN }]],
    ["logitBias", [{ 1: "1" }, { a: 1 }, { "-1": 1 }, { 1.5: 1 }, new Map([[0.5, 1]])]],
  ];
  for (const [key, values] of refused) {
    for (const value of values) {
      const error = assertThrows(() => new Sampler(loose({ [key]: value })), ArgumentError, key);
      assert(error.message.includes("Cannot sample"));
    }
  }
  assertThrows(() => new Sampler(loose({ seed: 1.5 })), Error);
  assertThrows(() => new Sampler(loose({ seed: "1" })), Error);
  assertThrows(() => new Sampler(loose({ top_k: 1 })), TypeError, "top_k");
  assertThrows(
    () => new Sampler({ logitBias: { 7: 1 } }).sample(new Float32Array(7)),
    ArgumentError,
    "logitBias of token 7: the vocabulary has 7 tokens",
  );
  const sampler = new Sampler();
  for (const logits of [[1, 2], new Float32Array(), new Float64Array(2), undefined]) {
    assertThrows(() => sampler.sample(loose(logits)), ArgumentError, "Float32Array");
  }
});

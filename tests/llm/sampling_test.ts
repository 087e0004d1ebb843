/**
 * The choice of tokens for batches: against a plain definition on sorted lists, `Sampler`, the
 * probabilities, other backends, and transformers.
 *
 * @module
 */
import { assert, assertAlmostEquals, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { ArgumentError, DisposedError, random, ShapeError, tensor } from "../../mod.ts";
import { Sampler, type SamplerOptions } from "../../src/llm/mod.ts";
import { BatchSampler, type SampledRow } from "../../src/llm/sampling/batch.ts";
import { ROW, ROW_NUMBERS } from "../../src/backend/js/sampling.ts";
import { sampleRows } from "../../src/llm/sampling/op.ts";
import { SamplingState } from "../../src/llm/sampling/state.ts";
import { partAt, settingsOf } from "../../src/llm/sampling/settings.ts";
import { MIRROR } from "../device/mirror.ts";
import { check } from "../native/support.ts";
import { ALL_BACKENDS, using } from "../ops/table/backends.ts";
import { type Any, loose } from "../support.ts";
import { amount } from "../support/amount.ts";

/** Numbers from 0 to below 1 that are the same in each run. */
function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = Math.imul(state, 1664525) + 1013904223 | 0;
    return (Math.imul(state ^ state >>> 15, 0x2c1b3c6d) >>> 0) / 2 ** 32;
  };
}

/** How logits are spread. */
const KINDS = ["normal", "flat", "ties", "peak", "wide", "odd", "all equal"] as const;

function logitsOf(kind: typeof KINDS[number], count: number, next: () => number): Float32Array {
  const normal = (): number =>
    Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next());
  const one = (): number => {
    switch (kind) {
      case "normal":
        return 3 * normal();
      case "flat":
        return 0.01 * next();
      case "ties":
        return Math.floor(4 * normal());
      case "peak":
        return next() < 0.01 ? 20 + next() : -5 * next();
      case "wide":
        return 1e38 * (next() - 0.5);
      case "odd":
        return [NaN, -Infinity, 0, -0, 1e-40, normal(), normal(), 88][Math.floor(8 * next())]!;
      case "all equal":
        return 1.5;
    }
  };
  return Float32Array.from({ length: count }, one);
}

/** What a row of a batch has. */
interface Case {
  readonly logits: Float32Array;
  readonly options: SamplerOptions;
  readonly prompt: readonly number[];
  readonly accepted: readonly number[];
  readonly mask: Int32Array | undefined;
}

function maskOf(count: number, next: () => number, density: number): Int32Array {
  const words = Math.ceil(count / 32);
  const mask = new Int32Array(words);
  for (let i = 0; i < 32 * words; i++) if (next() < density) mask[i >> 5]! |= 1 << (i & 31);
  return mask;
}

/** A case with a random combination of options. */
function caseOf(count: number, seed: number, fixed: SamplerOptions = {}): Case {
  const next = randomOf(seed);
  const pick = <T>(...from: T[]): T => from[Math.floor(next() * from.length)]!;
  const token = (): number => Math.floor(next() * count);
  const logits = logitsOf(pick(...KINDS), count, next);
  const tokens = (length: number): number[] => Array.from({ length }, token);
  const options: SamplerOptions = {
    temperature: pick(0, 0.01, 0.7, 0.8, 1, 1.5, 20),
    topK: pick(0, 0, 1, 2, 40, 1000),
    topP: pick(1, 1, 0.01, 0.5, 0.9, 0.95, 0.999),
    minP: pick(0, 0, 0, 0.05, 1),
    repetitionPenalty: pick(1, 1.1, 0.7),
    repetitionWindow: pick(undefined, 0, 3, 64),
    presencePenalty: pick(0, 0, 1.5, -2),
    frequencyPenalty: pick(0, 0, 0.3, -0.1),
    logitBias: pick<SamplerOptions["logitBias"]>(
      undefined,
      { [token()]: -Infinity, [token()]: 5 },
      new Map([[token(), -100], [token(), 100]]),
    ),
    seed: Math.floor(next() * 1e9),
    ...fixed,
  };
  return {
    ...{ logits, options },
    prompt: tokens(pick(0, 1, 20, 100)),
    accepted: tokens(pick(0, 1, 7, 80)),
    mask: pick(undefined, maskOf(count, next, 0.5), maskOf(count, next, 0.03)),
  };
}

function stateOf({ options, prompt, accepted, logits }: Case): SamplingState {
  const state = new SamplingState(options, prompt, logits.length);
  for (const id of accepted) state.accept(id);
  return state;
}

/** The changed logits of a case, by the definition. */
function changedLogits({ logits, options, prompt, accepted, mask }: Case): Float32Array {
  const { repetitionPenalty = 1, repetitionWindow = Infinity } = options;
  const { presencePenalty = 0, frequencyPenalty = 0, logitBias = {} } = options;
  const biases = new Map(
    logitBias instanceof Map ? logitBias : Object.entries(logitBias).map(([id, x]) => [+id, x]),
  );
  const text = [...prompt, ...accepted];
  const late = repetitionWindow === 0 ? [] : text.slice(-Math.min(repetitionWindow, 1e9));
  const recent = new Set(late);
  return logits.map((x, i) => {
    if (mask !== undefined && (mask[i >> 5]! >>> (i & 31) & 1) === 0) return -Infinity;
    let y = x + (biases.get(i) ?? 0);
    if (recent.has(i)) y = y > 0 ? y / repetitionPenalty : y * repetitionPenalty;
    const count = accepted.reduce((sum, id) => sum + Number(id === i), 0);
    return y - frequencyPenalty * count - (count > 0 ? presencePenalty : 0);
  });
}

/**
 * The tokens that may be chosen for a random number: those whose share of the probabilities contains
 * it, with a margin for other roundings.
 */
function possible(given: Case, part: number): Set<number> {
  const { temperature = 0, topK = 0, topP = 1, minP = 0 } = given.options;
  const logits = changedLogits(given);
  const order = [...logits.keys()].filter((i) => logits[i]! > -Infinity)
    .sort((a, b) => logits[b]! - logits[a]! || a - b);
  const made = new Set<number>();
  if (order.length === 0) return made;
  const best = logits[order[0]!]!;
  const close = (a: number, b: number): boolean => Math.abs(a - b) <= 2e-6 * (Math.abs(b) || 1e-30);
  if (temperature === 0) {
    const ties = order.filter((i) => close(logits[i]!, best));
    for (const i of ties) made.add(i);
    return made;
  }
  const weight = (i: number): number => Math.exp((logits[i]! - best) / temperature);
  for (const margin of [-1e-6, 0, 1e-6]) {
    let kept = topK > 0 ? order.slice(0, topK) : order;
    if (topP < 1) {
      const all = kept.reduce((sum, i) => sum + weight(i), 0);
      let sum = 0;
      const last = kept.findIndex((i) => (sum += weight(i)) >= (topP + margin) * all);
      if (last >= 0) kept = kept.slice(0, last + 1);
    }
    kept = kept.filter((i) => weight(i) >= minP * (1 + margin)).sort((a, b) => a - b);
    const total = kept.reduce((sum, i) => sum + weight(i), 0);
    let sum = 0;
    for (const i of kept) {
      const [low, high] = [sum, sum += weight(i)].map((x) => x / total) as [number, number];
      if (part >= low - 1e-6 && part <= high + 1e-6) made.add(i);
    }
  }
  return made;
}

/** The inputs of the op for rows of one vocabulary. */
function inputsOf(cases: readonly Case[]): Parameters<typeof sampleRows> {
  const vocabulary = cases[0]!.logits.length, rows = cases.length;
  const states = cases.map(stateOf);
  const room = Math.max(1, ...states.map(({ changed }) => changed));
  const words = Math.ceil(vocabulary / 32);
  const logits = new Float32Array(rows * vocabulary), numbers = new Float64Array(rows * 6);
  const ids = new Int32Array(rows * room), changes = new Float64Array(rows * room * 3);
  const mask = new Int32Array(rows * words).fill(-1);
  cases.forEach((one, row) => {
    logits.set(one.logits, row * vocabulary);
    states[row]!.writeRow(numbers, row);
    states[row]!.writeChanges(ids, changes, row * room);
    if (one.mask !== undefined) mask.set(one.mask, row * words);
  });
  const made = <A>(array: A, ...shape: number[]): Any => (tensor as Any)(array).reshape(shape);
  const inputs = [
    made(logits, rows, vocabulary),
    made(numbers, rows, 6),
    made(ids, rows, room),
    made(changes, rows, room, 3),
  ];
  const masked = cases.some(({ mask }) => mask !== undefined);
  return [...inputs, ...masked ? [made(mask, rows, words)] : []] as Parameters<typeof sampleRows>;
}

function chosenBy(on: Any, cases: readonly Case[]): number[] {
  return using(on, () => [...sampleRows(...inputsOf(cases)).toTypedArray()]);
}

const [generated, ...others] = ALL_BACKENDS.filter(({ name }) =>
  name !== "mirror" && name !== "interpreter"
);

/** Cases by the sizes of their vocabularies; large ones have fewer. */
const SIZES: readonly [vocabulary: number, cases: number][] = [
  ...[[1, 20], [2, 60], [31, 200], [32, 100], [33, 200], [1000, 100]] as [number, number][],
  [49152, amount(12, 60)],
  [151936, amount(6, 40)],
];

for (const [vocabulary, count] of SIZES) {
  test(`tokens of ${vocabulary} are those of the definition, on all backends`, () => {
    const cases = Array.from(
      { length: count },
      (_, i) => caseOf(vocabulary, 1000 * vocabulary + i),
    );
    const ids = chosenBy(generated!.on, cases);
    cases.forEach((one, i) => {
      const part = partAt(settingsOf(one.options), one.accepted.length);
      const wanted = possible(one, part);
      const about = `case ${i}: ${ids[i]} of ${[...wanted]}, ${JSON.stringify(one.options)}`;
      if (wanted.size === 0) assertEquals(ids[i], -1, about);
      else if (changedLogits(one).includes(Infinity)) assert(ids[i]! >= 0, about);
      else assert(wanted.has(ids[i]!), about);
    });
    for (const { name, on } of others) assertEquals(chosenBy(on, cases), ids, name);
  });
}

test("tokens are the same alone, in any batch, and by Sampler", async () => {
  using sampler = new BatchSampler();
  const vocabulary = 500;
  const cases = Array.from({ length: 16 }, (_, i) => ({
    ...caseOf(vocabulary, i, { temperature: 1 }),
    ...{ prompt: [i, 3, i], accepted: [], mask: undefined },
  }));
  const states = cases.map(stateOf);
  const alone = cases.map(({ options }) => new Sampler(options));
  const texts = cases.map(({ prompt }) => [...prompt]);
  for (let step = 0; step < 12; step++) {
    const logits = cases.map((_, i) => logitsOf("normal", vocabulary, randomOf(97 * step + i)));
    const wanted = alone.map((one, i) => one.sample(logits[i]!.slice(), texts[i]!));
    for (const size of [16, 1, 3]) {
      for (let at = 0; at + size <= 16; at += size) {
        const rows = states.slice(at, at + size).map((state): SampledRow => ({ state }));
        using given = tensor(logits.slice(at, at + size).map((row) => [...row]));
        const made = await sampler.sample(given, rows);
        assertEquals(made.map(({ id }) => id), wanted.slice(at, at + size));
      }
    }
    wanted.forEach((id, i) => {
      texts[i]!.push(id);
      states[i]!.accept(id);
    });
  }
});

test("undo gives the state before", async () => {
  using sampler = new BatchSampler();
  const vocabulary = 20;
  const next = randomOf(5);
  const options = {
    ...{ temperature: 1, seed: 3, repetitionPenalty: 1.3, repetitionWindow: 5 },
    ...{ presencePenalty: 0.4, frequencyPenalty: 0.2, logitBias: { 3: 1 } },
  };
  const token = (): number => Math.floor(next() * vocabulary);
  const prompt = Array.from({ length: 4 }, token);
  const state = new SamplingState(options, prompt, vocabulary);
  const text: number[] = [];
  const logits = Float32Array.from({ length: vocabulary }, () => 4 * next());
  using given = (tensor as Any)(logits).reshape([1, vocabulary]);
  for (let i = 0; i < 60; i++) {
    const [draft, kept] = [Math.floor(next() * 9), Math.floor(next() * 3)];
    for (let k = 0; k < draft; k++) state.accept(token());
    state.undo(draft);
    if (i % 5 === 4) {
      state.undo();
      text.pop();
    }
    for (let k = 0; k < kept; k++) {
      const id = token();
      text.push(id);
      state.accept(id);
    }
    const fresh = new SamplingState(options, prompt, vocabulary);
    for (const id of text) fresh.accept(id);
    assertEquals(state.length, text.length);
    const [one, other] = [
      await sampler.sample(given, [{ state }]),
      await sampler.sample(given, [{ state: fresh }]),
    ];
    assertEquals(one, other);
    assertEquals(pairsOf(state), pairsOf(fresh));
  }
  assertThrows(() => state.undo(text.length + 1), ArgumentError, "Cannot undo");
});

/** The changes of a state that have an effect, by the ids of tokens. */
function pairsOf(state: SamplingState): unknown[] {
  const ids = new Int32Array(state.changed), changes = new Float64Array(3 * state.changed);
  state.writeChanges(ids, changes, 0);
  return [...ids].map((id, i) => [id, ...changes.subarray(3 * i, 3 * i + 3)])
    .filter(([, bias, factor, subtracted]) => bias !== 0 || factor !== 1 || subtracted !== 0)
    .sort(([a], [b]) => a! - b!);
}

test("drafts give the tokens of steps, and leave the states as they were", async () => {
  using sampler = new BatchSampler();
  const vocabulary = 60, steps = 6;
  const options = { temperature: 1, seed: 4, repetitionPenalty: 1.4, frequencyPenalty: 1 };
  const rows = Array.from(
    { length: steps },
    (_, i) => logitsOf("normal", vocabulary, randomOf(i + 1)),
  );
  using logits = tensor(rows.map((row) => [...row]));
  const state = new SamplingState(options, [1, 2], vocabulary);
  const text: number[] = [];
  for (const row of rows) {
    using one = tensor([[...row]]);
    const [{ id } = { id: -1 }] = await sampler.sample(one, [{ state }]);
    text.push(id);
    state.accept(id);
  }
  const fresh = new SamplingState(options, [1, 2], vocabulary);
  const drafts = rows.map((_, i): SampledRow => ({ state: fresh, draft: text.slice(0, i) }));
  for (let k = 0; k < 2; k++) {
    assertEquals((await sampler.sample(logits, drafts)).map(({ id }) => id), text);
    assertEquals([fresh.length, pairsOf(fresh).length], [0, 2]);
  }
  for (const draft of [[1, 60], [-1], [0.5], 3]) {
    const wrong = loose([{ state: fresh }, { state: fresh, draft }]);
    await assertRejects(() => sampler.sample(logits, wrong), ArgumentError, "token");
    assertEquals(fresh.length, 0);
  }
});

test("tokens are as frequent as their probabilities", () => {
  const logits = Float32Array.of(1, 3.5, -2, 0.25, 3, 3, -0.5, 2, -Infinity, 1.75, NaN, 0);
  const times = 20_000;
  const lists: SamplerOptions[] = [
    { temperature: 1 },
    { temperature: 0.8, topP: 0.95 },
    { temperature: 2, topK: 6, minP: 0.2 },
    { temperature: 1.5, presencePenalty: 1, frequencyPenalty: 0.5, logitBias: { 4: -2 } },
  ];
  for (const options of lists) {
    const one: Case = { logits, options, prompt: [1, 4], accepted: [1, 1, 7], mask: undefined };
    const state = stateOf({ ...one, options: { ...options, seed: 11 } });
    const rows = 2000;
    const counts = new Float64Array(logits.length);
    const numbers = new Float64Array(rows * 6);
    const room = Math.max(1, state.changed);
    const ids = new Int32Array(rows * room), changes = new Float64Array(rows * room * 3);
    const made = (array: unknown, ...shape: number[]): Any => (tensor as Any)(array).reshape(shape);
    const all = new Float32Array(rows * logits.length);
    for (let row = 0; row < rows; row++) {
      all.set(logits, row * logits.length);
      state.writeChanges(ids, changes, row * room);
    }
    for (let done = 0; done < times; done += rows) {
      for (let row = 0; row < rows; row++) {
        state.writeRow(numbers, row);
        numbers[row * 6 + 4] = partAt(settingsOf({ seed: 11 }), done + row);
      }
      const chosen = sampleRows(
        made(all, rows, logits.length),
        made(numbers, rows, 6),
        made(ids, rows, room),
        made(changes, rows, room, 3),
      );
      for (const id of chosen.toTypedArray()) counts[id]!++;
    }
    const expected = new Float64Array(logits.length);
    const parts = 20_000;
    // The shares of tokens among many equal parts are their probabilities.
    const changed = changedLogits(one);
    const order = [...changed.keys()].filter((i) => changed[i]! > -Infinity)
      .sort((a, b) => changed[b]! - changed[a]! || a - b);
    const { temperature = 0, topK = 0, topP = 1, minP = 0 } = options;
    const weight = (i: number): number =>
      Math.exp((changed[i]! - changed[order[0]!]!) / temperature);
    let kept = topK > 0 ? order.slice(0, topK) : order;
    const sum = kept.reduce((a, i) => a + weight(i), 0);
    let partial = 0;
    kept = kept.filter((i) => (partial += weight(i)) - weight(i) < topP * sum);
    kept = kept.filter((i) => weight(i) >= minP);
    const total = kept.reduce((a, i) => a + weight(i), 0);
    for (const i of kept) expected[i] = weight(i) / total * parts;
    let square = 0;
    counts.forEach((n, i) => {
      if (expected[i] === 0) assertEquals(n, 0, `token ${i} is impossible`);
      else square += (n - expected[i]!) ** 2 / expected[i]!;
    });
    const degrees = kept.length - 1;
    const bound = degrees + 5 * Math.sqrt(2 * Math.max(1, degrees)) + 15;
    assert(square <= bound, `${JSON.stringify(options)}: χ² is ${square} of ${degrees} degrees`);
  }
});

test("probabilities are those of the logits processors of transformers", () => {
  const { prompt, cases } = JSON.parse(
    readFileSync(new URL("../golden/sampling.json", import.meta.url), "utf8"),
  ) as {
    readonly prompt: readonly number[];
    readonly cases: readonly {
      readonly options: SamplerOptions;
      readonly thousandths: readonly number[];
      readonly probabilities: readonly number[];
    }[];
  };
  for (const { options, thousandths, probabilities } of cases) {
    const logits = Float32Array.from(thousandths, (x) => x / 1000);
    // Numbers near both ends of each token's share must give the token.
    let before = 0;
    const wanted: number[] = [], parts: number[] = [];
    for (const [id, share] of probabilities.entries()) {
      if (share > 1e-5) {
        wanted.push(id, id);
        parts.push(before + 2e-6, before + share - 2e-6);
      }
      before += share;
    }
    const inputs = inputsOf(wanted.map((): Case => (
      { logits, options, prompt, accepted: [], mask: undefined }
    )));
    const numbers = inputs[1].toTypedArray();
    parts.forEach((part, row) => numbers[row * ROW_NUMBERS + ROW.part] = part);
    inputs[1] = (tensor as Any)(numbers).reshape([parts.length, ROW_NUMBERS]);
    for (const { name, on } of [generated!, ...others]) {
      const ids = using(on, () => [...sampleRows(...inputs).toTypedArray()]);
      assertEquals(ids, wanted, `${JSON.stringify(options)}, ${name}`);
    }
  }
});

check("a timer goes on while a batch is sampled", async () => {
  using sampler = new BatchSampler();
  const rows = 64, vocabulary = amount(50_000, 256_000);
  using logits = loose(random.normal(random.key(1), [rows, vocabulary]));
  const mask = new Int32Array(Math.ceil(vocabulary / 32)).fill(0x77777777);
  // Flat rows, of which nearly all tokens are kept.
  const texts = Array.from({ length: rows }, (_, seed): SampledRow => (
    { state: new SamplingState({ temperature: 5, topP: 0.99, seed }, [], vocabulary), mask }
  ));
  await sampler.sample(logits, texts);
  let [turns, ended] = [0, false];
  const made = sampler.sample(logits, texts).then((all) => (ended = true, all));
  while (!ended) {
    await new Promise((resolve) => setTimeout(resolve, 1));
    turns++;
  }
  assert(turns > amount(2, 10), `${turns} turns`);
  assert((await made).every(({ id }) => (0x77777777 >>> (id & 31) & 1) === 1));
});

test("logprobs are those of the softmax of the given logits", async () => {
  using sampler = new BatchSampler();
  for (const vocabulary of [1, 7, 33, 49152]) {
    const rows = [0, 1, 2, 3].map((i) => logitsOf("normal", vocabulary, randomOf(vocabulary + i)));
    rows[3]!.set([-Infinity]);
    if (vocabulary === 1) rows[3]!.set([60]);
    using logits = (tensor as Any)(Float32Array.from(rows.flatMap((row) => [...row])))
      .reshape([4, vocabulary]);
    // Neither the temperature nor penalties change them.
    const options = { temperature: 0.5, seed: 1, logitBias: { 0: 2 } };
    const states = rows.map((_, i) => new SamplingState({ ...options, seed: i }, [], vocabulary));
    const tops = [20, 0, undefined, 5];
    const made = await sampler.sample(logits, states.map((state, i) => ({ state, top: tops[i] })));
    made.forEach(({ id, logprob, top }, i) => {
      const row = rows[i]!;
      const best = row.reduce((a, b) => Math.max(a, b));
      const sum = row.reduce((a, x) => a + Math.exp(x - best), 0);
      const log = (k: number): number => row[k]! - best - Math.log(sum);
      if (tops[i] === undefined) assertEquals(logprob, undefined);
      else assertAlmostEquals(logprob!, log(id), 1e-5);
      const order = [...row.keys()].sort((a, b) => row[b]! - row[a]! || a - b);
      assertEquals(top.map(({ id }) => id), order.slice(0, tops[i] ?? 0));
      for (const { id, logprob } of top) assertAlmostEquals(logprob, log(id), 1e-5);
    });
  }
});

test("a row without a possible token has an error, and others have tokens", async () => {
  using sampler = new BatchSampler();
  const state = (options: SamplerOptions = {}): SamplingState => new SamplingState(options, [], 3);
  using logits = tensor([
    [1, 2, 3],
    [NaN, NaN, -Infinity],
    [1, 2, 3],
    [-Infinity, -Infinity, 5],
    [0, Infinity, Infinity],
  ]);
  const rows: SampledRow[] = [
    { state: state() },
    { state: state({ temperature: 1 }), top: 2 },
    { state: state({ logitBias: { 0: -Infinity } }), mask: Int32Array.of(1) },
    { state: state({ temperature: 1 }), mask: Int32Array.of(0b11) },
    { state: state({ temperature: 1 }) },
  ];
  const made = await sampler.sample(logits, rows);
  assertEquals(made.map(({ id }) => id), [2, -1, -1, -1, 1]);
  for (const [i, { error }] of made.entries()) {
    assertEquals(error instanceof ArgumentError, [1, 2, 3].includes(i));
    assertEquals(error?.message.includes(`row ${i}`), error && true);
  }
});

test("batches are padded: rows without a text are ignored", async () => {
  using sampler = new BatchSampler();
  using logits = tensor([[1, 2], [NaN, NaN], [2, 1]]);
  const state = new SamplingState({}, [], 2);
  assertEquals((await sampler.sample(logits, [{ state }])).map(({ id }) => id), [1]);
  assertEquals(await sampler.sample(logits, []), []);
  using turned = tensor([[1, 5], [4, 2]]).T;
  assertEquals(
    (await sampler.sample(loose(turned), [{ state }, { state }])).map(({ id }) => id),
    [1, 0],
  );
});

test("logits of a device are copied, and give the tokens of the CPU", async () => {
  using sampler = new BatchSampler();
  const made: unknown[] = [];
  using logits = random.normal(random.key(2), [3, 700]);
  for (const device of ["cpu", MIRROR]) {
    const rows = [0, 1, 2].map((seed): SampledRow => (
      { state: new SamplingState({ temperature: 1, seed }, [], 700), top: 3 }
    ));
    made.push(await sampler.sample(loose(loose(logits).to(device)), rows));
  }
  assertEquals(made[1], made[0]);
});

test("the states and the logits of a call are those at the call", async () => {
  using sampler = new BatchSampler();
  const state = new SamplingState({ frequencyPenalty: 2 }, [], 3);
  const mask = Int32Array.of(0b110);
  const logits = tensor([[0, 3, 2.5]]);
  const promise = sampler.sample(logits, [{ state, mask }]);
  state.accept(1);
  mask.fill(0);
  logits.fill_(-Infinity);
  assertEquals((await promise)[0]!.id, 1);
  const again = sampler.sample(tensor([[0, 3, 2.5]]), [{ state }]);
  assertEquals((await again)[0]!.id, 2);
  logits.dispose();
});

test("what does not fit is refused", async () => {
  const sampler = new BatchSampler();
  const state = new SamplingState({}, [], 40);
  using logits = tensor([new Array(40).fill(0), new Array(40).fill(1)]);
  const refused = async (rows: unknown[], type: Any, text: string, x: unknown = logits) =>
    void await assertRejects(() => sampler.sample(loose(x), loose(rows)), type, text);
  await refused([{ state }, { state }, { state }], ShapeError, "3 rows of logits [2, 40]");
  await refused([{ state }], ShapeError, "[3]", tensor([1, 2, 3]));
  await refused([{ state }], ArgumentError, "vocabulary of 40", tensor([[1, 2, 3]]));
  await refused([{ state, mask: new Int32Array(1) }], ArgumentError, "2 words, got 1 words");
  await refused([{ state, mask: [1, 2] }], ArgumentError, "got an array");
  for (const top of [-1, 21, 1.5, "3"]) {
    await refused([{ state, top }], ArgumentError, "from 0 to 20");
  }
  const stopped = AbortSignal.abort(new Error("enough"));
  await assertRejects(() => sampler.sample(logits, [{ state }], stopped), Error, "enough");
  assertThrows(() => new SamplingState({}, [1, 40], 40), ArgumentError, "token 40");
  assertThrows(() => new SamplingState({ logitBias: { 40: 1 } }, [], 40), ArgumentError, "40");
  for (const id of [-1, 40, 0.5, NaN, "1"]) {
    assertThrows(() => state.accept(loose(id)), ArgumentError, "Cannot accept token");
  }
  for (const count of [1, -1, 0.5]) {
    assertThrows(() => state.undo(count), ArgumentError, "0 were accepted");
  }
  sampler.dispose();
  await assertRejects(() => sampler.sample(logits, [{ state }]), DisposedError);
});

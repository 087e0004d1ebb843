/**
 * Classifiers: the probabilities of labels against transformers, pairs of texts and rankings.
 *
 * @module
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { test } from "node:test";
import { ArgumentError, FormatError, io, tensor } from "../../mod.ts";
import { Classifier } from "../../src/models/mod.ts";
import { floatsOf, weight } from "../llm/models.ts";
import { loose } from "../support.ts";
import { encoders, type GoldenEncoder, safetensorsOf } from "./golden.ts";
import { tinyTokenizer } from "./tokenizer.ts";

/** The files of a model. Its tokenizer has no tokens around texts, as the golden ids have none. */
function files(
  golden: GoldenEncoder,
  changes: Readonly<Record<string, unknown>> = {},
  weights: Uint8Array = safetensorsOf(golden),
): Record<string, Uint8Array | string> {
  const { tokenizer, config } = tinyTokenizer(golden.config.vocab_size);
  return {
    "config.json": JSON.stringify({ ...golden.config, ...changes }),
    "tokenizer.json": JSON.stringify({ ...tokenizer, post_processor: null }),
    "tokenizer_config.json": JSON.stringify(config),
    "model.safetensors": weights,
  };
}

/** The text of ids; those of special tokens are not in texts. */
const textOf = (ids: readonly number[]): string => ids.map((id) => `w${id - 5}`).join(" ");

for (const [name, golden] of Object.entries(encoders)) {
  if (golden.logits === null) continue;
  test(`${name} as transformers`, async () => {
    const logits = floatsOf(golden.logits!);
    using classifier = await Classifier.open(files(golden));
    assertEquals(classifier.labels, ["LABEL_0", "LABEL_1", "LABEL_2"]);
    for (const [i, ids] of golden.ids.entries()) {
      // Id 4 is [MASK], and BERT's types are those of a pair.
      if (ids.some((id) => id < 5) || golden.types !== null) continue;
      const own = logits.subarray(3 * i, 3 * i + 3);
      const powers = own.map((x) => Math.exp(x - Math.max(...own)));
      const sum = powers.reduce((a, b) => a + b);
      const wanted = Array.from(powers, (x, k) => ({ label: `LABEL_${k}`, score: x / sum }))
        .sort((a, b) => b.score - a.score);
      const made = await classifier.classify(textOf(ids));
      assertEquals(made.map(({ label }) => label), wanted.map(({ label }) => label));
      made.forEach(({ score }, k) => assert(Math.abs(score - wanted[k]!.score) < 1e-5));
    }
  });
}

test("several labels, names of labels, and the most probable", async () => {
  const golden = encoders["roberta with a head"]!;
  const id2label = { 0: "good", 1: "bad" };
  using classifier = await Classifier.open(
    files(golden, { problem_type: "multi_label_classification", id2label }),
  );
  assertEquals([classifier.multiLabel, classifier.labels], [true, ["good", "bad", "LABEL_2"]]);
  const [first, ...others] = await classifier.classify("w1 w2");
  assertEquals(others.length, 2);
  assertEquals(await classifier.classify(["w1 w2"], { top: 1 }), [[first!]]);
  await assertRejects(() => classifier.classify("w1", { top: 0 }), ArgumentError, "top");
  await assertRejects(() => classifier.rank("w1", ["w2"]), ArgumentError, "3 labels");
});

test("a model of one label ranks pairs", async () => {
  const golden = encoders["roberta with a head"]!;
  const { tensors } = golden;
  const one = Object.fromEntries(
    Object.entries(tensors).map(([name, shape]): [string, readonly number[]] => [
      name,
      name.startsWith("classifier.out_proj") ? [1, ...shape.slice(1)] : shape,
    ]),
  );
  const weights = io.encodeSafetensors(loose(Object.fromEntries(
    Object.entries(one).map((
      [name, shape],
    ) => [name, tensor(weight(name, shape), { shape: [...shape] })]),
  )));
  using classifier = await Classifier.open(files(golden, {}, weights));
  const texts = ["w4", "w20 w21", "w30"];
  const ranked = await classifier.rank("w1 w2", texts);
  assertEquals(ranked.map(({ index }) => index).toSorted(), [0, 1, 2]);
  const scores = await Promise.all(texts.map((text) => classifier.classify([["w1 w2", text]])));
  for (const { index, score } of ranked) {
    assert(Math.abs(scores[index]![0]![0]!.score - score) < 1e-6);
  }
  assertEquals((await classifier.rank("w1", texts, { top: 1 })).length, 1);
});

test("an encoder without a head is refused", async () => {
  await assertRejects(
    () => Classifier.open(files(encoders["bert"]!)),
    FormatError,
    "no classifier",
  );
});

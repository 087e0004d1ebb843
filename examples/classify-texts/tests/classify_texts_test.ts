/**
 * The example `classify-texts`: its command on a small model with random weights, and a head on the
 * vectors of all-MiniLM-L6-v2, where `deno task models` has fetched it.
 *
 * @module
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { modelFolder } from "../../../scripts/models.ts";
import { Embedder } from "../../../src/models/mod.ts";
import { writeModel } from "../../../tests/embed/model.ts";
import { runExample } from "../../../tests/example_program.ts";
import { classifyTexts, fitHead } from "../head.ts";

const folder = mkdtempSync(join(tmpdir(), "rowmajor-classify-texts-"));
after(() => rmSync(folder, { recursive: true }));
await writeModel(folder);

test("the command learns from a file, saves what it learned, and labels texts", () => {
  const run = (...args: string[]) => {
    const { status, stdout, stderr } = runExample("classify-texts/main.ts", folder, ...args);
    assertEquals([status, stderr], [0, ""]);
    return stdout.trimEnd().split("\n");
  };
  const [file, head] = [join(folder, "texts.csv"), join(folder, "head.safetensors")];
  const texts = ["the cat", "a dog", "the cat sat", "a dog on a dog"];
  const lines = texts.map((text, i) => `"${text}",${i % 2 === 0 ? "cats" : "dogs"}`);
  writeFileSync(file, `text,label\n${lines.join("\n")}\n`);
  const labels = run(file, "--save", head, ...texts);
  assertEquals(labels.map((line) => line.split(" ")[0]), ["cats", "dogs", "cats", "dogs"]);
  assertEquals(run("--load", head, ...texts), labels);
  assertEquals(run("--load", head, "--test", file), ["accuracy 100.0%: 4 of 4 texts"]);
  assertEquals(runExample("classify-texts/main.ts", folder).status, 2);
});

test("one label is an error", async () => {
  using embedder = await Embedder.open(folder);
  const one = [{ text: "the cat", label: "a" }];
  await assertRejects(() => fitHead(embedder, one), Error, "too few");
});

const minilm = modelFolder("minilm");
const why = minilm === undefined ? " (skipped: deno task models minilm has not run)" : "";

test(
  `a head on all-MiniLM-L6-v2 learns from few texts${why}`,
  { skip: minilm === undefined },
  async () => {
    using embedder = await Embedder.open(minilm!);
    const known = {
      sports: ["The striker scored twice", "She won the marathon", "The match ended in a draw"],
      food: ["Simmer the sauce slowly", "This bakery has fresh bread", "I ordered noodles"],
      money: ["The bank raised its rates", "Stocks fell on Monday", "She pays rent every month"],
    };
    const examples = Object.entries(known).flatMap(([label, texts]) =>
      texts.map((text) => ({ text, label }))
    );
    const head = await fitHead(embedder, examples);
    const found = await classifyTexts(embedder, head, [
      "The goalkeeper saved a penalty",
      "Add salt and pepper to the soup",
      "My loan has a low interest",
    ]);
    assertEquals(found.map(({ label }) => label), ["sports", "food", "money"]);
    assert(found.every(({ probability }) => probability > 0.4), JSON.stringify(found));
  },
);

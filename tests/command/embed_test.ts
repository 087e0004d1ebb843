/**
 * `rowmajor embed`, on a small model with random weights.
 *
 * @module
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { Embedder } from "../../src/models/mod.ts";
import { run, writeModels } from "./models.ts";

const { folder, embed: model } = await writeModels();

/** The vectors that the command printed. */
const vectorsIn = (stdout: string): number[][] =>
  stdout.trimEnd().split("\n").map((line) => JSON.parse(line));

function assertNear(made: readonly number[][], expected: readonly number[][]): void {
  assertEquals(made.map(({ length }) => length), expected.map(({ length }) => length));
  made.forEach((vector, i) =>
    vector.forEach((x, j) => assert(Math.abs(x - expected[i]![j]!) < 1e-5, `${i}, ${j}`))
  );
}

test("embed prints a vector a line", async () => {
  using embedder = await Embedder.open(model);
  const { code, stdout, stderr } = await run("embed", model, "the cat", "a dog");
  assertEquals([code, stderr], [0, ""]);
  assertNear(vectorsIn(stdout), await embedder.embed(["the cat", "a dog"]));
  const short = await run("embed", model, "--dimensions=3", "--prefix=the ", "cat");
  assertNear(vectorsIn(short.stdout), await embedder.embed(["the cat"], { dimensions: 3 }));
});

test("embed ranks the lines of a file", async () => {
  const file = join(folder, "lines.txt");
  writeFileSync(file, "the cat sat\n\nthe cat\nthe dog sat on a dog\n");
  const { code, stdout, stderr } = await run(
    "embed",
    model,
    `--search=${file}`,
    "--top=2",
    "the cat",
  );
  assertEquals([code, stderr], [0, ""]);
  const lines = stdout.trimEnd().split("\n");
  assertEquals([lines.length, lines[0]], [2, "1.000  the cat"]);
  const json = await run("embed", model, `--search=${file}`, "--json", "--top=1", "the cat");
  const { line, score } = JSON.parse(json.stdout);
  assertEquals([line, score.toFixed(3)], ["the cat", "1.000"]);
});

test("embed says in one line what is wrong", async () => {
  for (
    const [args, code, message] of [
      [[], 2, "there is no MODEL"],
      [[model], 2, "there is no TEXT"],
      [[model, "--top=0", "a"], 2, "--top 0: expected an integer of at least 1"],
      [[model, "--search=nowhere.txt", "a"], 1, 'Cannot find file "nowhere.txt"'],
      [[model, `--search=${folder}`, "a"], 1, "Cannot read file "],
      [[model, "--prompt=query", "a"], 1, 'Cannot embed with prompt "query": the model has none'],
    ] as const
  ) {
    const ran = await run("embed", ...args);
    assertEquals([ran.code, ran.stdout], [code, ""], ran.stderr);
    assertStringIncludes(ran.stderr, `rowmajor embed: ${message}`);
    assertEquals(ran.stderr.trimEnd().split("\n").length, 1, ran.stderr);
  }
});

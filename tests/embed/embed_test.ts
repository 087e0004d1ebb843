/**
 * The example `embed`: its command and its executable, on a small model with random weights; and
 * all-MiniLM-L6-v2 against PyTorch, where `deno task models` has fetched it.
 *
 * @module
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { modelFolder } from "../../scripts/models.ts";
import { Embedder } from "../../src/models/mod.ts";
import { runExample, runExecutable, whyNoExecutable, withoutDenort } from "../example_program.ts";
import { writeModel } from "./model.ts";

const folder = mkdtempSync(join(tmpdir(), "rowmajor-embed-"));
after(() => rmSync(folder, { recursive: true }));
await writeModel(folder);
function cosine(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let [both, one, other] = [0, 0, 0];
  for (let i = 0; i < a.length; i++) {
    both += a[i]! * b[i]!;
    one += a[i]! ** 2;
    other += b[i]! ** 2;
  }
  return both / Math.sqrt(one * other);
}

const command = (...args: string[]) => runExample("embed/main.ts", ...args);

test("the command prints vectors and ranks lines", async () => {
  using embedder = await Embedder.open(folder);
  const expected = await embedder.embed(["the cat", "a dog"]);
  const json = command(folder, "--json", "the cat", "a dog");
  assertEquals([json.status, json.stderr], [0, ""]);
  const made: number[][] = JSON.parse(json.stdout);
  made.forEach((vector, i) => assert(cosine(vector, expected[i]!) > 1 - 1e-6));
  const file = join(folder, "lines.txt");
  writeFileSync(file, "the cat sat\n\nthe cat\nthe dog sat on a dog\n");
  const search = command(folder, "--search", file, "--top", "2", "the cat");
  assertEquals(search.status, 0, search.stderr);
  const lines = search.stdout.trimEnd().split("\n");
  assertEquals([lines.length, lines[0]], [2, "1.000  the cat"]);
  assertStringIncludes(command("--help").stdout, "usage");
  assertEquals([command().status, command(folder).status], [2, 2]);
});

test(`an executable has the model inside, and needs no other file${whyNoExecutable}`, {
  skip: withoutDenort,
}, () => {
  const names = ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"];
  const includes = names.map((name) =>
    `${join(folder, name)}=model/${name.replace(/json$/, "json.data")}`
  );
  const made = runExecutable("embed/main.ts", includes, "--json", "the cat");
  const expected = command(folder, "--json", "the cat").stdout;
  const [one, other] = [made, expected].map((text) => JSON.parse(text)[0]);
  assert(cosine(one, other) > 1 - 1e-6);
});

const minilm = modelFolder("minilm");
const why = minilm === undefined ? " (skipped: deno task models minilm has not run)" : "";

test(`all-MiniLM-L6-v2 gives PyTorch's vectors${why}`, { skip: minilm === undefined }, async () => {
  const cases: { text: string; vector: string }[] = JSON.parse(
    readFileSync(new URL("../golden/models/minilm.json", import.meta.url), "utf8"),
  );
  using embedder = await Embedder.open(minilm!, { maxTokens: 512 });
  const vectors = await embedder.embed(cases.map(({ text }) => text));
  assertEquals(cases.length, 20);
  for (const [i, { text, vector }] of cases.entries()) {
    const bytes = Uint8Array.from(atob(vector), (c) => c.charCodeAt(0));
    assert(cosine(vectors[i]!, new Float32Array(bytes.buffer)) >= 0.999999, text);
  }
});

/**
 * The example `embed`: a small model with random weights against the model op by op, batches of
 * mixed lengths, the command; and all-MiniLM-L6-v2 against PyTorch, where `deno task models` has
 * fetched it.
 *
 * @module
 */
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { FormatError, io, tensor } from "../../mod.ts";
import { batchesOf, Embedder, readFolder } from "../../examples/embed/embedder.ts";
import { modelFolder } from "../../scripts/models.ts";
import { runExample, runExecutable, whyNoExecutable, withoutDenort } from "../example_program.ts";
import { loose } from "../support.ts";
import { CONFIG, writeModel } from "./model.ts";

const folder = mkdtempSync(join(tmpdir(), "rowmajor-embed-"));
after(() => rmSync(folder, { recursive: true }));
await writeModel(folder);
const TEXTS = [
  "The cat sat.",
  "",
  "dogs",
  "a cat a dog the cats sat the dog sat . . a the",
  "the ".repeat(30),
];

/** The ids of the tokens of the first and the third text. */
const IDS = [[2, 9, 5, 7, 10, 3], [2, 6, 8, 3]];

function cosine(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let [both, one, other] = [0, 0, 0];
  for (let i = 0; i < a.length; i++) {
    both += a[i]! * b[i]!;
    one += a[i]! ** 2;
    other += b[i]! ** 2;
  }
  return both / Math.sqrt(one * other);
}

/** The vector of a text by plain ops on one text, without layers of nn. */
function expectedOf(ids: number[]): Float32Array {
  // deno-lint-ignore no-explicit-any
  const w: any = io.decodeSafetensors(readFileSync(join(folder, "model.safetensors")));
  const d = CONFIG.hidden_size, heads = CONFIG.num_attention_heads;
  const at = (name: string) => w.get(name);
  const linear = (x: typeof w, name: string) => x.linear(at(`${name}.weight`), at(`${name}.bias`));
  const norm = (x: typeof w, name: string) =>
    x.layerNorm(-1, { weight: at(`${name}.weight`), bias: at(`${name}.bias`), epsilon: 1e-12 });
  let x = at("embeddings.word_embeddings.weight").take(loose(tensor(ids, { dtype: "int32" })), 0)
    .add(at("embeddings.position_embeddings.weight").slice(`:${ids.length}`))
    .add(at("embeddings.token_type_embeddings.weight").slice(0));
  x = norm(x, "embeddings.LayerNorm");
  for (let i = 0; i < CONFIG.num_hidden_layers; i++) {
    const layer = `encoder.layer.${i}`;
    const [q, k, v] = ["query", "key", "value"].map((part) =>
      linear(x, `${layer}.attention.self.${part}`).reshape([-1, heads, d / heads]).permute(1, 0, 2)
    );
    const scores = q.matmul(k.mT).div(Math.sqrt(d / heads)).softmax(-1);
    const seen = scores.matmul(v).permute(1, 0, 2).reshape([-1, d]);
    x = norm(
      x.add(linear(seen, `${layer}.attention.output.dense`)),
      `${layer}.attention.output.LayerNorm`,
    );
    const y = linear(linear(x, `${layer}.intermediate.dense`).gelu(), `${layer}.output.dense`);
    x = norm(x.add(y), `${layer}.output.LayerNorm`);
  }
  return x.mean(0).toTypedArray();
}

test("vectors are those of the model op by op, and of length 1", async () => {
  using embedder = await Embedder.open(readFolder(folder));
  const vectors = await embedder.embed(TEXTS);
  assertEquals(vectors.map(({ length }) => length), TEXTS.map(() => CONFIG.hidden_size));
  for (const vector of vectors) {
    assert(Math.abs(vector.reduce((sum, x) => sum + x * x, 0) - 1) < 1e-5);
  }
  for (const [k, ids] of IDS.entries()) {
    assert(cosine(vectors[2 * k]!, expectedOf(ids)) > 1 - 1e-6, TEXTS[2 * k]);
  }
});

test("a text has the same vector alone and in any batch", async () => {
  using embedder = await Embedder.open(readFolder(folder));
  const many = Array.from({ length: 23 }, (_, i) => TEXTS[i % TEXTS.length]!);
  const vectors = await embedder.embed(many);
  for (const [i, text] of many.slice(0, TEXTS.length).entries()) {
    const [alone] = await embedder.embed([text]);
    assert(cosine(alone!, vectors[i]!) > 1 - 1e-6, text);
    assert(cosine(alone!, vectors[i + TEXTS.length]!) > 1 - 1e-6, text);
  }
  assertEquals(await embedder.embed([]), []);
});

test("batches have 1, 2, 4 or 8 texts, and little padding", () => {
  const lengths = [90, 8, 33, 12, 300, 20, 64, 47, 128, 17, 290, ...Array(11).fill(5), 2, 1];
  const texts = lengths.map((length, place) => ({ place, ids: { length } }));
  const batches = batchesOf(texts, 290);
  const places = batches.flatMap(({ batch }) => batch.map(({ place }) => place));
  assertEquals(places.sort((a, b) => a - b), [...lengths.keys()]);
  for (const { width, batch } of batches) {
    assert([1, 2, 4, 8].includes(batch.length) && width <= 290, `${width}`);
    for (const { ids } of batch) {
      const padding = width - Math.min(ids.length, 290);
      assert(padding <= Math.max(4, ids.length / 4), `${ids.length} in ${width}`);
    }
  }
  const widths = new Set(
    Array.from({ length: 512 }, (_, n) => batchesOf([{ ids: { length: n + 1 } }], 512)[0]!.width),
  );
  assert(widths.size * 4 <= 128, `${widths.size} lengths`);
  assertEquals(batchesOf([], 20), []);
});

test("progress goes to 1, and a folder without a tensor is told", async () => {
  const parts: number[] = [];
  (await Embedder.open(readFolder(folder), (part) => parts.push(part)))[Symbol.dispose]();
  assertEquals(parts.at(-1), 1);
  assert(parts.every((part, i) => i === 0 || part >= parts[i - 1]!));
  const files = readFolder(folder);
  const wide = { ...files, config: { ...files.config, intermediate_size: 41 } };
  const error = await assertRejects(() => Embedder.open(wide), FormatError);
  assertStringIncludes(error.message, "encoder.layer.0.intermediate.dense.weight");
  assertStringIncludes(error.message, "[41, 24]");
});

const command = (...args: string[]) => runExample("embed/main.ts", ...args);

test("the command prints vectors and ranks lines", async () => {
  using embedder = await Embedder.open(readFolder(folder));
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
  using embedder = await Embedder.open(readFolder(minilm!));
  const vectors = await embedder.embed(cases.map(({ text }) => text));
  assertEquals(cases.length, 20);
  for (const [i, { text, vector }] of cases.entries()) {
    const bytes = Uint8Array.from(atob(vector), (c) => c.charCodeAt(0));
    assert(cosine(vectors[i]!, new Float32Array(bytes.buffer)) >= 0.999999, text);
  }
});

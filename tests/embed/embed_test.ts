/**
 * The example `embed` and its executable, on a small model with random weights; and
 * all-MiniLM-L6-v2 against PyTorch, where `deno task models` has fetched it.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { modelFolder } from "../../scripts/models.ts";
import { Embedder } from "../../src/models/mod.ts";
import {
  runExample,
  runExecutable,
  whyNoExecutable,
  withoutDenort,
  withoutProgress,
} from "../example_program.ts";
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

test("the program prints vectors, and takes the options of the command", async () => {
  using embedder = await Embedder.open(folder);
  const [expected] = await embedder.embed(["the cat"], { dimensions: 3 });
  const { status, stdout, stderr } = command(folder, "--dimensions=3", "the cat");
  assertEquals([status, withoutProgress(stderr)], [0, ""]);
  assert(cosine(JSON.parse(stdout), expected!) > 1 - 1e-6);
  assertEquals(command().status, 2);
});

test(`an executable has the model inside, and needs no other file${whyNoExecutable}`, {
  skip: withoutDenort,
}, () => {
  const names = ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"];
  const includes = names.map((name) =>
    `${join(folder, name)}=model/${name.replace(/json$/, "json.data")}`
  );
  const made = runExecutable("embed/main.ts", includes, "the cat");
  const expected = command(folder, "the cat").stdout;
  const [one, other] = [made, expected].map((text) => JSON.parse(text));
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

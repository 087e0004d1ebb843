/**
 * The generated documents match the output of their generators; every feature has a test.
 *
 * @module
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { test } from "node:test";
import { makeChart } from "../../bench/chart.ts";
import { blocks, pageOf } from "../../bench/harness/pages.ts";
import { SUITES } from "../../bench/suites/mod.ts";
import { FEATURES } from "../../scripts/generate/feature_list.ts";
import { makeCoverage } from "../../scripts/generate/coverage.ts";
import { makeFeatures } from "../../scripts/generate/features.ts";
import { makeArchitecture, makePicture } from "../../scripts/generate/layers.ts";
import { makeOnnxOps } from "../../scripts/generate/onnx_ops.ts";
import { makeWhichModels } from "../../scripts/generate/which_models.ts";
import { LAYERS } from "../../scripts/generate/layer_order.ts";
import { readText } from "../../scripts/tools.ts";

test("docs/features.md is what scripts/generate/features.ts prints, with a test for every feature", () => {
  const text = makeFeatures();
  assertEquals(readText("docs/features.md"), text);
  const titles = Object.values(FEATURES).flat().map(({ title }) => title);
  assertEquals(new Set(titles).size, titles.length);
  assert(titles.length > 80);
  for (const line of text.split("\n").filter((line) => line.startsWith("| "))) {
    assert(/_test\.ts\)|planned: needs|\| Tests \|/.test(line), line);
  }
});

test("docs/coverage.md is what scripts/generate/coverage.ts prints", () => {
  const text = makeCoverage();
  assertEquals(readText("docs/coverage.md"), text);
  for (const row of ["| `add` | yes | `x.add()` |", "| `from_dlpack` | no |", '| `"int8"` |']) {
    assert(text.includes(row), row);
  }
});

test("the table of docs/which-models.md is that of the families in the code", () => {
  const text = makeWhichModels();
  assertEquals(readText("docs/which-models.md"), text);
  for (const name of ["gemma3_text", "gpt-oss", "qwen3moe"]) assert(text.includes(`\`${name}\``));
});

test("the list of docs/onnx.md is that of the ops in the code", () => {
  const text = makeOnnxOps();
  assertEquals(readText("docs/onnx.md"), text);
  for (const name of ["Conv", "GroupQueryAttention", "LabelEncoder"]) assert(text.includes(name));
});

test("the picture and the text of the layers are what scripts/generate/layers.ts draws", () => {
  const picture = makePicture();
  assertEquals(readText("docs/layers.svg"), picture);
  assertEquals(readText("docs/architecture.md"), makeArchitecture());
  const drawn = [...picture.matchAll(/class="f" x="[^"]*" y="([^"]*)">([^<]*)</g)];
  assertEquals(new Set(drawn.map(([, y]) => y)).size, LAYERS.length + 1);
  assertEquals(
    drawn.map(([, , name]) => name!),
    ["mod.ts", ...LAYERS.toReversed().flat().map((folder) => `${folder}/`)],
  );
});

test("docs/benchmarks.svg is what bench/chart.ts draws of the newest results, and on pages", () => {
  const picture = makeChart();
  assertEquals(readText("docs/benchmarks.svg"), picture);
  const [, width = 0, height = 0] = /viewBox="0 0 (\d+) (\d+)"/.exec(picture)!.map(Number);
  assert(width <= 800 && height <= 600, `${width} × ${height}`);
  for (const file of ["README.md", "docs/benchmarks.md", "site/index.md"]) {
    assertMatch(readText(file), /!\[[^\]]+\]\((docs\/)?benchmarks\.svg\)/, file);
  }
  const labels = [...picture.matchAll(/text-anchor="middle">([^<]*)</g)].map(([, text]) => text);
  assertEquals(labels, ["≤ 1/16×", "1/8×", "1/4×", "1/2×", "1×", "2×", "4×"]);
  // The numbers at the right are those of the table of one thread.
  const [, table = ""] = readText("docs/benchmarks.md").split("<!-- primitives -->");
  const rows = table.split("<!-- /primitives -->")[0]!.split("\n")
    .filter((line) => /^\| \w/.test(line) && !line.startsWith("| memory"))
    .map((line) => line.split("|").slice(2, 4).map((cell) => cell.split("·")[0]!.trim()));
  const drawn = [...picture.matchAll(/class="mean \w+" [^>]*>([^<]*)</g)].map(([, text]) => text);
  assertEquals(drawn, rows.flat().map((ratio) => `${ratio}×`));
});

test("the tables of the documents, and the pages of suites, are those of the newest runs", async () => {
  const made = await blocks();
  assert(made.length >= 6, `${made.length} blocks`);
  for (const { file, name, text } of made) {
    const [, rest = ""] = readText(file).split(`<!-- ${name} -->`);
    assertEquals(rest.split(`<!-- /${name} -->`)[0]!.trim(), text, `${file}: ${name}`);
  }
  for (const name of SUITES) {
    const page = await pageOf(name);
    if (page !== undefined) assertEquals(readText(`bench/results/${name}.md`), page);
  }
  assert(
    readText("docs/benchmarks.md").split("\n").length <= 251,
    "docs/benchmarks.md is too long",
  );
});

/**
 * Faults of the documentation site: entries 19 and 35.
 *
 * @module
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { join, posix } from "node:path";
import process from "node:process";
import * as library from "../../../mod.ts";
import { makeChart } from "../../../bench/chart.ts";
import { readApi, stagePages } from "../../../scripts/site.ts";
import { ENTRIES } from "../../../scripts/site/api.ts";
import { API_PAGES } from "../../../scripts/site/api_pages.ts";
import { findDeadMarkdownLinks } from "../../../scripts/site/pages.ts";
import { findTool, readText, root } from "../../../scripts/tools.ts";
import config from "../../../site/.vitepress/config.ts";
import { fault } from "../support.ts";

const markdown = ["", "bench/results", "docs", "docs/adr", "examples", "tests", "tests/emulator"]
  .flatMap((folder) =>
    existsSync(join(root, folder))
      ? readdirSync(join(root, folder)).filter((name) => name.endsWith(".md"))
        .map((name) => posix.join(folder, name))
      : []
  );

fault({
  entry: 19,
  kind: "the site has other anchors than the repository",
  others: [],
}, () => {
  const { slugify } = config.markdown.anchor;
  assertEquals(slugify("NVIDIA's compiler"), "nvidias-compiler");
  assertEquals(slugify("`x.add()`, and more: C++ & β_1"), "xadd-and-more-c--β_1");
  const files = new Map(markdown.map((path) => [path, readText(path)]));
  assert(files.size > 30);
  assertEquals(findDeadMarkdownLinks(files, (path) => existsSync(join(root, path))), []);
  // A dead one among them is found.
  files.set(
    "README.md",
    "[a](CONTRIBUTING.md#nvidia-s-compiler) [b](CONTRIBUTING.md#nvidias-compiler)",
  );
  assertEquals(
    findDeadMarkdownLinks(files, (path) => existsSync(join(root, path))),
    ["README.md: CONTRIBUTING.md#nvidia-s-compiler"],
  );
});

const api = readApi();
const blocks = [...api].flatMap(([path, text]) =>
  [...text.matchAll(/^```ts\n([\s\S]*?)^```/gm)].map(([, code = ""]) => ({ path, code }))
);

fault({
  entry: 19,
  kind: "API pages import from where nothing is",
  others: ["examples of the API without any import"],
}, () => {
  const imports = blocks.flatMap(({ path, code }) =>
    [...code.matchAll(/^import \{ (.*?) \} from "(.*?)";$/gm)]
      .map(([, names = "", from]) => ({ path, names: names.split(", "), from }))
  );
  assert(imports.length > 150);
  for (const { path, names, from } of imports) {
    // Those of the runtimes are there.
    if (from?.startsWith("node:")) continue;
    const entry = Object.values(ENTRIES).find((entry) => entry.from === from);
    assert(entry?.values !== undefined, `${path} imports from ${from}`);
    for (const name of names.filter((name) => !name.startsWith("type "))) {
      assert(name in entry.values, `${path} imports ${name} from ${from}`);
    }
  }
  for (const { path, code } of blocks.filter(({ code }) => code.includes("import"))) {
    assertMatch(code, /^import (\{ .* \}|\* as (?:nn|llm)) from /m, path);
  }
});

fault({
  entry: 35,
  kind: "API pages show the types of the compiler",
  others: ["one long list of all names", "no way back to the docs"],
}, () => {
  for (const { path, code } of blocks) {
    assert(
      !/\bt\.|\b(Guard|GuardRest|NoInfer|Ok|ShapeOf)\b/.test(code),
      `${path}: ${code}`,
    );
  }
  const page = (id: string) => api.get(`api/${id}.md`)!;
  for (
    const [id, text] of [
      ["elementwise", "x.add(other: TensorOrScalar, options?: BinaryOptions): Tensor"],
      ["comparison", 'x.less(other: TensorOrScalar, options?: BinaryOptions): Tensor<"bool">'],
      ["views", "x.reshape(shape: Shape): Tensor"],
      ["in-place", "x.add_(other: TensorOrScalar): this"],
      ["creation", "zeros(shape: Shape, options?: CreateOptions): Tensor"],
      ["random", "random.key(seed: number | bigint): Key"],
      ["types", "type TensorOrScalar = AnyTensor | Scalar | Complex;"],
    ] as const
  ) assert(page(id).includes(text), `${id}: ${text}`);
  // The tags of comments are lists below the text.
  for (
    const tag of [
      "**`source`**",
      "**Returns**",
      "**Throws** [`FormatError`](errors.md#FormatError)",
    ]
  ) {
    assert(page("llm").includes(`\n- ${tag}: `), tag);
  }
  for (const { id, guides } of API_PAGES) {
    assert(Object.keys(guides).length > 0, id);
    for (const file of Object.values(guides)) assert(page(id).includes(`](../docs/${file})`), id);
  }
  // Every export that programs can call has a heading.
  const headings = new Set(
    [...api.values()].flatMap((text) =>
      [...text.matchAll(/^## `([\w.]+)/gm)].map(([, name]) => name)
    ),
  );
  const missing = Object.values(ENTRIES).flatMap(({ values = {} }) => Object.keys(values))
    .filter((name) =>
      !["random", "io", "fft", "linalg", "special"].includes(name) && !headings.has(name)
    );
  assertEquals(missing, []);
  const methods = Object.getOwnPropertyNames(library.Tensor.prototype)
    .filter((name) => !["constructor", "flags"].includes(name) && !headings.has(`x.${name}`));
  assertEquals(methods, []);
});

fault({
  entry: 35,
  kind: "pages show the syntax of tests",
  others: ["the landing page was README, with all of its tables"],
}, () => {
  const pages = stagePages();
  assertEquals([...pages].filter(([, text]) => text.includes("@ts-expect-error")).length, 0);
  // The landing page is none of the others.
  assert(!readText("README.md").includes("@ts-expect-error"));
  const landing = pages.get("index.md")!;
  for (const part of ["layout: home", "benchmarks.svg", "code-group", "bun build --compile"]) {
    assert(landing.includes(part), part);
  }
  // Links between pages, those of the API among them.
  const exists = (path: string) =>
    existsSync(join(root, path)) || pages.has(posix.join(path, "index.md"));
  assertEquals(findDeadMarkdownLinks(pages, exists), []);
});

fault({
  entry: 35,
  kind: "a chart that fits no page, and is on none",
  others: [],
}, () => {
  const [, width = 0, height = 0] = /viewBox="0 0 (\d+) (\d+)"/.exec(makeChart())!.map(Number);
  assert(width <= 800 && height <= 600, `${width} × ${height}`);
  for (const file of ["README.md", "docs/benchmarks.md", "site/index.md"]) {
    assertMatch(readText(file), /!\[[^\]]+\]\((docs\/)?benchmarks\.svg\)/, file);
  }
});

const installed = existsSync(join(root, "site", "node_modules"));
fault({
  entry: 19,
  kind: "the site does not build from a fresh clone",
  others: [],
  // Half a minute, and packages of its own; one runtime is enough, because Node builds the pages.
  skip: "Bun" in globalThis
    ? "the test under Deno builds it"
    : !installed && process.env.CI === undefined
    ? "site/node_modules is not installed: deno task site"
    : false,
}, () => {
  const { stdout, stderr, status } = spawnSync(
    findTool("deno"),
    ["run", "-A", "--no-check", join(root, "scripts", "site.ts")],
    { encoding: "utf8", cwd: root, env: { ...process.env, SITE_BASE: "/name/" } },
  );
  assertEquals(status, 0, stdout + stderr);
  assertMatch(stdout, /\d+ pages, no dead link/);
  const landing = readText("zig-out/site/index.html");
  assert(landing.includes('href="/name/docs/tour.html"'), "links have the base of the site");
});

/**
 * The conversion of pages to those of the site, the search for dead links, and the sidebar.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { existsSync, readdirSync } from "node:fs";
import { join, posix } from "node:path";
import { test } from "node:test";
import { API_PAGES } from "../../scripts/site/api_pages.ts";
import { findDeadLinks, findDeadMarkdownLinks, stagePage } from "../../scripts/site/pages.ts";
import { readText, root } from "../../scripts/tools.ts";
import config from "../../site/.vitepress/config.ts";

test("links to pages stay, links to sources lead to the repository", () => {
  const text = "[a](tour.md#views) [b](../src/ops.ts) ![p](layers.svg) [w](https://x.org) [c](#d)";
  const rest = "![p](layers.svg) [w](https://x.org) [c](#d)";
  assertEquals(
    stagePage("docs/a.md", text, "https://host/me/it"),
    `[a](tour.md#views) [b](https://host/me/it/blob/main/src/ops.ts) ${rest}`,
  );
  assertEquals(
    stagePage("docs/a.md", text, undefined),
    `[a](tour.md#views) b ${rest}`,
  );
  assertEquals(
    stagePage("README.md", "[a](docs/adr/)", undefined),
    "[a](docs/adr/)",
  );
  assertEquals(
    stagePage(
      "docs/adr/0001-a.md",
      "[a](README.md)[b](../../LICENSE)",
      undefined,
    ),
    "[a](index.md)b",
  );
});

test("code is no link", () => {
  const text = "`x[0](y)`\n```ts\nx[0](y);\n```\n[a](y)";
  assertEquals(
    stagePage("README.md", text, undefined),
    text.replace("[a](y)", "a"),
  );
});

test("dead links are found: pages, files and anchors", () => {
  const files = new Map([
    [
      "index.html",
      '<a href="/b/docs/a#there"><img src="/b/p.png"><a href="https://x.org/y">',
    ],
    [
      "docs/a.html",
      '<h2 id="there"><a href="../"><a href="./a.html"><a href="#there">',
    ],
  ]);
  const exists = (path: string) => path === "p.png";
  assertEquals(findDeadLinks(files, exists, "/b/"), []);
  for (
    const link of [
      "/b/docs/c",
      "#here",
      "/b/docs/a#here",
      "p.gif",
      "/docs/a",
      "&#x2F;q",
    ]
  ) {
    files.set("index.html", `<a href="${link}">`);
    assertEquals(findDeadLinks(files, exists, "/b/"), [`index.html: ${link}`]);
  }
});

test("every page has a place in the sidebar, and no place is without a page", () => {
  const groups: { items: { link: string }[] }[] = JSON.parse(
    readText("site/.vitepress/sidebar.json"),
  );
  const links = groups.flatMap(({ items }) => items.map(({ link }) => link));
  const pages = readdirSync(join(root, "docs")).filter((name) => name.endsWith(".md"))
    .map((name) => `/docs/${name.slice(0, -".md".length).replace(/^README$/, "")}`);
  const api = API_PAGES.map(({ id }) => `/api/${id}`);
  const others = ["/CHANGELOG", "/CONTRIBUTING", "/api/", "/docs/adr/"];
  assertEquals([...links].sort(), [...pages, ...api, ...others].sort());
  assertEquals(existsSync(join(root, "docs", "adr", "README.md")), true);
});

const markdown = [
  "",
  "bench/results",
  "docs",
  "docs/adr",
  "examples",
  "tests",
  "tests/emulator",
]
  .flatMap((folder) =>
    existsSync(join(root, folder))
      ? readdirSync(join(root, folder)).filter((name) => name.endsWith(".md"))
        .map((name) => posix.join(folder, name))
      : []
  );

test("no link between Markdown files is dead, and the site has the anchors of the repository", () => {
  const { slugify } = config.markdown.anchor;
  assertEquals(slugify("NVIDIA's compiler"), "nvidias-compiler");
  assertEquals(
    slugify("`x.add()`, and more: C++ & β_1"),
    "xadd-and-more-c--β_1",
  );
  const files = new Map(markdown.map((path) => [path, readText(path)]));
  assert(files.size > 30);
  assertEquals(
    findDeadMarkdownLinks(files, (path) => existsSync(join(root, path))),
    [],
  );
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

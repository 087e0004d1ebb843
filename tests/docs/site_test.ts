/**
 * The conversion of pages by scripts/site.ts, and its search for dead links. `deno task site`
 * builds the site itself; these tests do not, as that takes packages of its own and some 20
 * seconds.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { API_PAGES } from "../../scripts/site/api_pages.ts";
import { findDeadLinks, stagePage } from "../../scripts/site/pages.ts";

const root = new URL("../../", import.meta.url);

test("links to pages stay, links to sources lead to the repository", () => {
  const text = "[a](tour.md#views) [b](../src/ops.ts) ![p](layers.svg) [w](https://x.org) [c](#d)";
  const rest = "![p](layers.svg) [w](https://x.org) [c](#d)";
  assertEquals(
    stagePage("docs/a.md", text, "https://host/me/it"),
    `[a](tour.md#views) [b](https://host/me/it/blob/main/src/ops.ts) ${rest}`,
  );
  assertEquals(stagePage("docs/a.md", text, undefined), `[a](tour.md#views) b ${rest}`);
  assertEquals(stagePage("README.md", "[a](docs/adr/)", undefined), "[a](docs/adr/)");
  assertEquals(
    stagePage("docs/adr/0001-a.md", "[a](README.md)[b](../../LICENSE)", undefined),
    "[a](index.md)b",
  );
});

test("code is no link", () => {
  const text = "`x[0](y)`\n```ts\nx[0](y);\n```\n[a](y)";
  assertEquals(stagePage("README.md", text, undefined), text.replace("[a](y)", "a"));
});

test("dead links are found: pages, files and anchors", () => {
  const files = new Map([
    ["index.html", '<a href="/b/docs/a#there"><img src="/b/p.png"><a href="https://x.org/y">'],
    ["docs/a.html", '<h2 id="there"><a href="../"><a href="./a.html"><a href="#there">'],
  ]);
  const exists = (path: string) => path === "p.png";
  assertEquals(findDeadLinks(files, exists, "/b/"), []);
  for (const link of ["/b/docs/c", "#here", "/b/docs/a#here", "p.gif", "/docs/a", "&#x2F;q"]) {
    files.set("index.html", `<a href="${link}">`);
    assertEquals(findDeadLinks(files, exists, "/b/"), [`index.html: ${link}`]);
  }
});

test("every page has a place in the sidebar, and no place is without a page", () => {
  const groups: { items: { link: string }[] }[] = JSON.parse(
    readFileSync(new URL("site/.vitepress/sidebar.json", root), "utf8"),
  );
  const links = groups.flatMap(({ items }) => items.map(({ link }) => link));
  const pages = readdirSync(new URL("docs/", root)).filter((name) => name.endsWith(".md"))
    .map((name) => `/docs/${name.slice(0, -".md".length).replace(/^README$/, "")}`);
  const api = API_PAGES.map(({ id }) => `/api/${id}`);
  const others = ["/CHANGELOG", "/CONTRIBUTING", "/api/", "/docs/adr/"];
  assertEquals([...links].sort(), [...pages, ...api, ...others].sort());
  assertEquals(existsSync(new URL("docs/adr/README.md", root)), true);
});

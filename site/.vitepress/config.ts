/**
 * The documentation site, built from the pages that scripts/site.ts stages. sidebar.json next to this
 * file contains the groups of the sidebar; a test checks that every page is in one of them.
 */
import { readFileSync } from "node:fs";
import process from "node:process";

const sidebar = JSON.parse(readFileSync(new URL("sidebar.json", import.meta.url), "utf8"));

export default {
  title: "rowmajor",
  description: "Tensors for Deno and Bun",
  lang: "en",
  // The base path of the published site: "/name/" for the pages of a repository.
  base: process.env.SITE_BASE || "/",
  srcDir: "pages",
  outDir: "../zig-out/site",
  cacheDir: "../zig-out/site-cache",
  themeConfig: {
    search: { provider: "local" },
    outline: [2, 3],
    nav: [
      { text: "Tour", link: "/docs/tour" },
      // Made by deno doc, not a page of this generator.
      { text: "API", link: "/api/index.html", target: "_self" },
      { text: "Changelog", link: "/CHANGELOG" },
    ],
    sidebar,
  },
};

/**
 * The documentation site, built from the pages that scripts/site.ts stages. sidebar.json next to this
 * file contains the groups of the sidebar; a test checks that every page is in one of them.
 */
import { readFileSync } from "node:fs";
import process from "node:process";
import { slug } from "../../scripts/site/slug.ts";

const sidebar = JSON.parse(readFileSync(new URL("sidebar.json", import.meta.url), "utf8"));

/** The rows of a matrix, the first of them marked. */
const ICON = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16">' +
  '<path fill="#0f766e" d="M1 2h14v4H1z"/><path fill="#94a3b8" d="M1 7h14v3H1zM1 11h14v3H1z"/></svg>';

export default {
  title: "rowmajor",
  description: "Tensors for Deno and Bun",
  lang: "en",
  // The base path of the published site: "/name/" for the pages of a repository.
  base: process.env.SITE_BASE || "/",
  srcDir: "pages",
  outDir: "../zig-out/site",
  cacheDir: "../zig-out/site-cache",
  // Browsers ask for /favicon.ico otherwise.
  head: [["link", { rel: "icon", href: `data:image/svg+xml,${encodeURIComponent(ICON)}` }]],
  // The index of the search is one chunk, loaded when someone searches. It grows with the pages, so that
  // the default limit of 500 kB, meant for code, would fail the build: it has 0.9 MB, 230 kB by gzip.
  vite: { build: { chunkSizeWarningLimit: 2000 } },
  markdown: { anchor: { slugify: slug } },
  themeConfig: {
    search: {
      provider: "local",
      options: {
        miniSearch: {
          options: {
            // The tables of benchmarks have thousands of numbers, which would fill the index.
            processTerm: (term: string) => /^[\d.,:×%+−-]*$/.test(term) ? null : term.toLowerCase(),
          },
          searchOptions: {
            // Guides first, then the API, then the changelog; decisions last, whatever they contain.
            boostDocument: (id: string) =>
              id.includes("/docs/adr/")
                ? 1e-6
                : /\/CHANGELOG|\/docs\/features/.test(id)
                ? 0.1
                : /\/api\//.test(id)
                ? 0.5
                : 1,
          },
        },
      },
    },
    outline: [2, 3],
    nav: [
      { text: "Documentation", link: "/docs/" },
      { text: "Tour", link: "/docs/tour" },
      { text: "API", link: "/api/" },
      { text: "Changelog", link: "/CHANGELOG" },
    ],
    sidebar,
    notFound: {
      title: "Page not found",
      quote: "No page has this address. The search and the menus know all of them.",
      linkText: "To the first page",
    },
  },
};

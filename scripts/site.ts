/**
 * Builds the documentation site into zig-out/site with VitePress, pinned by site/package.json: the
 * landing page (site/index.md), docs/ and the API reference. Exits with 1 for a warning, a dead
 * link, a page that loads anything from elsewhere, and a search that misses a page.
 *
 * `SITE_BASE` is the path of the published site ("/"), `SITE_REPOSITORY` the address of the
 * repository: links to sources point there, and are plain text without it.
 *
 * @module
 */
import { execFileSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import process from "node:process";
import { pathToFileURL } from "node:url";
import config from "../site/.vitepress/config.ts";
import { ENTRIES, makeApi } from "./site/api.ts";
import { findDeadLinks, findOutsideLoads, STAGED, stagePage } from "./site/pages.ts";
import { ensureInstalled, findTool, readText, root, start } from "./tools.ts";

const site = join(root, "site");
// In site/, because imports of pages are resolved from their folder.
const pages = join(site, "pages");
const output = join(root, "zig-out", "site");
const base = process.env.SITE_BASE || "/";
const repository = process.env.SITE_REPOSITORY;

/** The paths of all files below a folder, with slashes. */
function list(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .map((path) => path.replaceAll("\\", "/"))
    .filter((path) => statSync(join(folder, path)).isFile())
    .sort();
}

/** The pages of the API reference by path. */
export function readApi(): Map<string, string> {
  const args = ["doc", "--quiet", "--json", ...Object.keys(ENTRIES)];
  // What it says of @types/node concerns no page.
  const json = execFileSync(findTool("deno"), args, {
    cwd: root,
    stdio: ["ignore", "pipe", "ignore"],
    maxBuffer: 2 ** 28,
  });
  return makeApi(JSON.parse(json.toString()));
}

/** The Markdown of all pages by path, with the pages of the API. */
export function stagePages(api: ReadonlyMap<string, string> = readApi()): Map<string, string> {
  const files = ["CONTRIBUTING.md", "CHANGELOG.md"];
  const docs = list(join(root, "docs")).map((name) => `docs/${name}`);
  const texts = [...files, ...docs].filter((path) => STAGED.test(path) && path.endsWith(".md"))
    .map((path) => [path, readText(path)] as const);
  const all = [["index.md", readText("site/index.md")] as const, ...texts, ...api];
  return new Map(all.map(([path, text]) => [
    path.replace(/\bREADME\.md$/, "index.md"),
    stagePage(path, text, repository),
  ]));
}

function stage(): void {
  rmSync(pages, { recursive: true, force: true });
  for (const [path, text] of stagePages()) {
    mkdirSync(dirname(join(pages, path)), { recursive: true });
    writeFileSync(join(pages, path), text);
  }
  for (const name of list(join(root, "docs"))) {
    if (!name.endsWith(".md")) cpSync(join(root, "docs", name), join(pages, "docs", name));
  }
}

async function run(what: string, program: string, args: string[], cwd: string): Promise<void> {
  const lines: string[] = [];
  const begin = performance.now();
  const code = await start(program, args, {
    cwd,
    shell: process.platform === "win32",
    env: { ...process.env, NO_COLOR: "1" },
    onLine: (line) => lines.push(line),
  });
  const warned = lines.some((line) => /\bwarn|\(!\)/i.test(line));
  if (code !== 0 || warned) {
    throw new Error(`${what} exited with ${code}, or with warnings:\n${lines.join("\n")}`);
  }
  console.log(`${what}: ${((performance.now() - begin) / 1000).toFixed(1)} s`);
}

/** Words that readers search for, and the section that has to be among the first five results. */
const SEARCHES: Readonly<Record<string, string>> = {
  embedding: "docs/embeddings.html",
  train: "docs/cookbook.html#training",
  "sliding window": "docs/generate.html#sliding-window-attention",
  plot: "docs/jupyter.html#plots",
  chat: "docs/chat.html",
  executable: "docs/install.html#executables",
};

/** What the search of the built site does not find; decisions before other pages count too. */
async function findMissedSearches(all: readonly string[]): Promise<string[]> {
  const module = join(site, "node_modules", "minisearch", "dist", "es", "index.js");
  const { default: MiniSearch } = await import(pathToFileURL(module).href);
  const index = all.find((path) => /@localSearchIndexroot\.[^/]*\.js$/.test(path))!;
  const { default: json } = await import(pathToFileURL(join(output, index)).href);
  const { options, searchOptions } = config.themeConfig.search.options.miniSearch;
  const search = MiniSearch.loadJSON(json, {
    fields: ["title", "titles", "text"],
    storeFields: ["title", "titles"],
    // Those of VitePress, whose other options are ours.
    searchOptions: {
      ...{ fuzzy: 0.2, prefix: true, boost: { title: 4, text: 2, titles: 1 } },
      ...searchOptions,
    },
    ...options,
  });
  const missed: string[] = [];
  for (const [words, section] of Object.entries(SEARCHES)) {
    const found: string[] = search.search(words).map(({ id }: { id: string }) => id);
    if (!found.slice(0, 5).some((id) => id.startsWith(base + section))) {
      missed.push(`"${words}" finds ${found.slice(0, 5).join(", ")}, not ${section}`);
    }
    const decisions = found.map((id) => id.includes("/docs/adr/"));
    if (decisions.includes(true) && decisions.lastIndexOf(false) > decisions.indexOf(true)) {
      missed.push(`"${words}" finds a decision before another page`);
    }
  }
  return missed;
}

async function main(): Promise<void> {
  await ensureInstalled();
  if (!existsSync(join(site, "node_modules", "vitepress", "package.json"))) {
    await run("npm ci in site/", "npm", ["ci", "--ignore-scripts", "--no-audit"], site);
  }
  stage();
  rmSync(output, { recursive: true, force: true });
  await run("pages", "node", ["node_modules/vitepress/bin/vitepress.js", "build"], site);
  const all = list(output);
  const html = all.filter((path) => path.endsWith(".html"));
  const texts = new Map(html.map((path) => [path, readFileSync(join(output, path), "utf8")]));
  const dead = findDeadLinks(texts, (path) => all.includes(path), base);
  if (dead.length > 0) throw new Error(`Links that lead nowhere:\n${dead.join("\n")}`);
  const outside = findOutsideLoads(texts);
  if (outside.length > 0) throw new Error(`Loaded from elsewhere:\n${outside.join("\n")}`);
  const missed = await findMissedSearches(all);
  if (missed.length > 0) throw new Error(`The search misses pages:\n${missed.join("\n")}`);
  console.log(`zig-out/site: ${html.length} pages, no dead link`);
}

if (import.meta.main) {
  try {
    await main();
  } catch (error) {
    console.error(String(error));
    process.exitCode = 1;
  }
}

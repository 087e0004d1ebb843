/**
 * Builds the documentation site into zig-out/site: README and docs/ as pages (VitePress, pinned by
 * site/package.json), and the API reference (deno doc). Exits with 1 for a dead link.
 *
 * `SITE_BASE` is the path of the published site ("/"), `SITE_REPOSITORY` the address of the
 * repository: links to sources point there, and are plain text without it.
 *
 * @module
 */
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
import { dirname, join, posix } from "node:path";
import process from "node:process";
import { ensureInstalled, findTool, root, start } from "./tools.ts";

// In site/, because imports of pages are resolved from their folder.
const pages = join(root, "site", "pages");
const output = join(root, "zig-out", "site");
const base = process.env.SITE_BASE || "/";
const repository = process.env.SITE_REPOSITORY;

/** Files that become pages, or that pages use. */
const STAGED = /^(README|CONTRIBUTING|CHANGELOG)\.md$|^docs\/.*\.(md|svg|png)$/;

/**
 * Links that deno doc itself gets wrong: to type parameters of mapped types, and to methods named
 * by symbols.
 */
const NOT_OURS = /^api\/.*: (#|.*\[Symbol\.for\()/;

/** The paths of all files below a folder, with slashes. */
function list(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .map((path) => path.replaceAll("\\", "/"))
    .filter((path) => statSync(join(folder, path)).isFile())
    .sort();
}

/**
 * Converts a Markdown text of the repository to a page: links to files other than pages point to
 * the repository, or become text. Code is unchanged.
 */
export function stagePage(path: string, text: string, repository: string | undefined): string {
  return text.replace(
    /^```[\s\S]*?^```|`[^`\n]+`|(?<!!)\[((?:[^\[\]]|\[[^\]]*\])+)\]\((?!\w+:|#)([^)\s]+)\)/gm,
    (all, label?: string, target?: string) => {
      if (label === undefined || target === undefined) return all;
      const file = posix.join(posix.dirname(path), target.split("#")[0]!);
      const known = STAGED.test(file) || file === "docs" || STAGED.test(`${file}/README.md`);
      // A folder's page is its index.
      if (known) return `[${label}](${target.replace(/\bREADME\.md/, "index.md")})`;
      return repository === undefined ? label : `[${label}](${repository}/blob/main/${file})`;
    },
  );
}

function stage(): void {
  rmSync(pages, { recursive: true, force: true });
  const files = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"];
  for (const path of [...files, ...list(join(root, "docs")).map((name) => `docs/${name}`)]) {
    if (!STAGED.test(path)) continue;
    const page = join(pages, path.replace(/\bREADME\.md$/, "index.md"));
    mkdirSync(dirname(page), { recursive: true });
    if (!path.endsWith(".md")) cpSync(join(root, path), page);
    else {
      writeFileSync(page, stagePage(path, readFileSync(join(root, path), "utf8"), repository));
    }
  }
}

/**
 * The dead links of a site, as `page: link`; `files` are its HTML texts by path, and `exists`
 * checks other files. Fragments count too, except those that scripts compute.
 */
export function findDeadLinks(
  files: ReadonlyMap<string, string>,
  exists: (path: string) => boolean,
  base: string,
): string[] {
  const dead: string[] = [];
  const unescape = (text: string) =>
    text.replace(/&#x(\w+);/g, (_, code) => String.fromCharCode(parseInt(code, 16)))
      .replaceAll("&quot;", '"').replaceAll("&amp;", "&");
  for (const [path, html] of files) {
    const body = html.replace(/<script[\s\S]*?<\/script>/g, "");
    for (const [, raw = ""] of body.matchAll(/\s(?:href|src)="([^"]*)"/g)) {
      const link = unescape(raw);
      if (/^(\w+:|\/\/)/.test(link) || link === "") continue;
      const url = new URL(link, `http://site${posix.join(base, path)}`);
      const inside = decodeURIComponent(url.pathname).startsWith(base)
        ? decodeURIComponent(url.pathname).slice(base.length)
        : undefined;
      const target = inside === undefined
        ? undefined
        : [inside, `${inside}.html`, posix.join(inside, "index.html")].find((name) =>
          files.has(name) || exists(name)
        );
      const anchor = decodeURIComponent(url.hash.slice(1));
      const anchors = files.get(target ?? "");
      const found = target !== undefined &&
        (anchor === "" || anchors === undefined || anchors.includes(`id="${anchor}"`));
      if (!found) dead.push(`${path}: ${raw}`);
    }
  }
  return dead;
}

async function run(what: string, program: string, args: string[], cwd = root): Promise<void> {
  const lines: string[] = [];
  const begin = performance.now();
  const code = await start(program, args, {
    cwd,
    shell: process.platform === "win32",
    env: { ...process.env, NO_COLOR: "1" },
    onLine: (line) => lines.push(line),
  });
  if (code !== 0) throw new Error(`${what} exited with ${code}:\n${lines.join("\n")}`);
  console.log(`${what}: ${((performance.now() - begin) / 1000).toFixed(1)} s`);
}

async function main(): Promise<void> {
  await ensureInstalled();
  const site = join(root, "site");
  if (!existsSync(join(site, "node_modules", "vitepress", "package.json"))) {
    await run("npm ci in site/", "npm", ["ci", "--ignore-scripts", "--no-audit"], site);
  }
  stage();
  rmSync(output, { recursive: true, force: true });
  await run("pages", "node", ["node_modules/vitepress/bin/vitepress.js", "build"], site);
  const api = ["doc", "--html", "--name=rowmajor", `--output=${join(output, "api")}`];
  await run("API", findTool("deno"), [...api, "mod.ts", "src/types/mod.ts"]);
  const all = list(output);
  const html = all.filter((path) => path.endsWith(".html"));
  const texts = new Map(html.map((path) => [path, readFileSync(join(output, path), "utf8")]));
  const dead = findDeadLinks(texts, (path) => all.includes(path), base)
    .filter((link) => !NOT_OURS.test(link));
  if (dead.length > 0) throw new Error(`Links that lead nowhere:\n${dead.join("\n")}`);
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

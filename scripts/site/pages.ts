/**
 * From the Markdown of the repository to pages of the site, and the search for dead links in both.
 *
 * Knows nothing of files.
 *
 * @module
 */
import { posix } from "node:path";
import { slug } from "./slug.ts";

/** Files that become pages, or that pages use. */
export const STAGED = /^(README|CONTRIBUTING|CHANGELOG)\.md$|^docs\/.*\.(md|svg|png)$/;

const CODE = "^```[\\s\\S]*?^```|`[^`\\n]+`";

/**
 * Converts a Markdown text of the repository to a page: links to files other than pages point to
 * the repository, or become text. Code shows the compiler's messages without the comment that
 * expects them in tests.
 */
export function stagePage(path: string, text: string, repository: string | undefined): string {
  const link = `(?<!!)\\[((?:[^\\[\\]]|\\[[^\\]]*\\])+)\\]\\((?!\\w+:|#)([^)\\s]+)\\)`;
  return text.replace(
    new RegExp(`${CODE}|${link}`, "gm"),
    (all, label?: string, target?: string) => {
      if (label === undefined || target === undefined) {
        return all.replace(/^```(ts|js|c) (?:ignore|check):.*$/m, "```$1")
          .replace(/\/\/ @ts-expect-error(?:: )?/g, "// Does not compile: ");
      }
      const file = posix.join(posix.dirname(path), target.split("#")[0]!);
      const known = STAGED.test(file) || file.startsWith("api/") ||
        STAGED.test(`${file}/README.md`);
      // A folder's page is its index.
      if (known) return `[${label}](${target.replace(/\bREADME\.md/, "index.md")})`;
      return repository === undefined ? label : `[${label}](${repository}/blob/main/${file})`;
    },
  );
}

/** The anchors of a Markdown text: of its headings, numbered where they are equal. */
function anchorsOf(text: string): Set<string> {
  const anchors = new Set<string>();
  const counts = new Map<string, number>();
  for (const [, heading = ""] of text.replace(/^```[\s\S]*?^```/gm, "").matchAll(/^#+ +(.*)$/gm)) {
    // An anchor of its own, or the text without the targets of links and without emphasis.
    const own = /\{#([^}]*)\}$/.exec(heading)?.[1];
    const plain = heading.replace(/\[([^\]]*)\]\([^)]*\)/g, "$1").replace(/[*`]/g, "");
    const anchor = own ?? slug(plain);
    const count = counts.get(anchor) ?? 0;
    counts.set(anchor, count + 1);
    anchors.add(count === 0 ? anchor : `${anchor}-${count}`);
  }
  return anchors;
}

/**
 * The dead links between Markdown files, as `file: link`; `files` are their texts by path, and
 * `exists` checks other files and folders.
 */
export function findDeadMarkdownLinks(
  files: ReadonlyMap<string, string>,
  exists: (path: string) => boolean,
): string[] {
  const dead: string[] = [];
  const anchors = new Map([...files].map(([path, text]) => [path, anchorsOf(text)]));
  for (const [path, text] of files) {
    const prose = text.replace(new RegExp(CODE, "gm"), "");
    for (const [, target = ""] of prose.matchAll(/\]\((?!\w+:)([^)\s]+)\)/g)) {
      const [file = "", anchor = ""] = target.split("#");
      const to = file === "" ? path : posix.join(posix.dirname(path), file);
      const found = (files.has(to) || exists(to)) &&
        (anchor === "" || !to.endsWith(".md") || anchors.get(to)?.has(anchor) === true);
      if (!found) dead.push(`${path}: ${target}`);
    }
  }
  return dead;
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

/** What a page of the built site loads from elsewhere, as `page: address`: it must be nothing. */
export function findOutsideLoads(files: ReadonlyMap<string, string>): string[] {
  return [...files].flatMap(([path, html]) =>
    [...html.matchAll(
      /<(?:script|img|link|source|iframe)\b[^>]*?\s(?:src|href)="((?:https?:)?\/\/[^"]+)"/g,
    )]
      .map(([, address]) => `${path}: ${address}`)
  );
}

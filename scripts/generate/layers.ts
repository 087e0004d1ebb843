/**
 * Draws layer_order.ts: docs/layers.svg, and the same as text in docs/architecture.md.
 *
 * @module
 */
import { writeFileSync } from "node:fs";
import { LAYER_GROUPS, type LayerGroup } from "./layer_order.ts";
import { readText } from "../tools.ts";

/** The top group, outside src. */
const TOP: LayerGroup = {
  title: "",
  layers: [{ folders: ["mod.ts"], what: "exports, and nothing else" }],
};

const GROUPS: readonly LayerGroup[] = [TOP, ...LAYER_GROUPS];

/** Fill and edge of each group's band, from the top. */
const COLOURS = [
  ["#ffffff", "#475569"],
  ["#eef2ff", "#6366f1"],
  ["#ecfdf5", "#059669"],
  [
    "#fefce8",
    "#ca8a04",
  ],
  ["#fff7ed", "#ea580c"],
  ["#f1f5f9", "#64748b"],
];

// In pixels; CHARACTER is the width of a character in the font of the boxes.
const WIDTH = 840;
const ROW = 34;
const CHARACTER = 7.3;
const CAPTIONS = 480;

const nameOf = (folder: string) => folder === "mod.ts" ? folder : `${folder}/`;
const escape = (text: string) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");

/** The picture: a band for each group, with a line for each layer and a box for each folder. */
export function makePicture(): string {
  const lines: string[] = [];
  let y = 10;
  for (const [n, { title, layers }] of GROUPS.entries()) {
    const [fill, edge] = COLOURS[n]!;
    const head = title === "" ? 6 : 26;
    const height = head + layers.length * ROW;
    lines.push(
      `<rect x="10" y="${y}" width="${WIDTH - 20}" height="${height}" rx="6" fill="${fill}"/>`,
    );
    if (title !== "") lines.push(`<text class="t" x="20" y="${y + 18}">${escape(title)}</text>`);
    for (const [k, { folders, what }] of layers.entries()) {
      const top = y + head + k * ROW;
      let x = 20;
      for (const name of folders.map(nameOf)) {
        const width = Math.round(name.length * CHARACTER + 16);
        lines.push(
          `<rect x="${x}" y="${top}" width="${width}" height="26" rx="4" fill="#fff" stroke="${edge}"/>`,
          `<text class="f" x="${x + 8}" y="${top + 17}">${escape(name)}</text>`,
        );
        x += width + 6;
      }
      lines.push(`<text class="w" x="${CAPTIONS}" y="${top + 17}">${escape(what)}</text>`);
    }
    y += height + 8;
  }
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${y + 2}" role="img" ` +
    `aria-labelledby="title desc">`,
    "<!-- Made by scripts/generate/layers.ts from scripts/generate/layer_order.ts. -->",
    '<title id="title">The layers of rowmajor</title>',
    '<desc id="desc">Folders of src in rows, highest first: each imports from the rows below ' +
    "it.</desc>",
    "<style>.f{font:12px ui-monospace,Consolas,monospace;fill:#0f172a}" +
    ".w{font:13px system-ui,sans-serif;fill:#334155}" +
    ".t{font:600 13px system-ui,sans-serif;fill:#0f172a}</style>",
    `<rect width="${WIDTH}" height="${y + 2}" rx="8" fill="#fff"/>`,
    ...lines,
    "</svg>",
    "",
  ].join("\n");
}

/** The picture as text. */
export function makeText(): string {
  const rows = GROUPS.flatMap(({ layers }) => layers)
    .map(({ folders, what }) => [folders.map(nameOf).join("  "), what]);
  const width = Math.max(...rows.map(([names]) => names!.length));
  return rows.map(([names, what]) => `${names!.padEnd(width)}  ${what}`).join("\n");
}

const BLOCK = /(<!-- layers -->\n\n```text\n)[\s\S]*?(\n```)/;

/** The text of docs/architecture.md with the current layers. */
export function makeArchitecture(): string {
  const text = readText("docs/architecture.md");
  if (!BLOCK.test(text)) throw new Error("docs/architecture.md has no text after <!-- layers -->");
  return text.replace(BLOCK, (_, before, after) => before + makeText() + after);
}

if (import.meta.main) {
  const docs = new URL("../../docs/", import.meta.url);
  writeFileSync(new URL("layers.svg", docs), makePicture());
  writeFileSync(new URL("architecture.md", docs), makeArchitecture());
}

/**
 * The table of docs/onnx.md: the ops that files may have, from the code.
 *
 *     deno run -A scripts/generate/onnx_ops.ts
 *
 * @module
 */
import { writeFileSync } from "node:fs";
import { OPS } from "../../src/onnx/ops/mod.ts";
import { readText } from "../tools.ts";

const FILE = "docs/onnx.md";
/** The most characters of a line. */
const WIDTH = 100;

/** The ops by their domains; that of ONNX's own ops is `""`. */
function byDomain(): Map<string, string[]> {
  const domains = new Map<string, string[]>();
  for (const type of OPS.keys()) {
    const at = type.lastIndexOf(".");
    const domain = type.slice(0, Math.max(at, 0));
    domains.set(domain, [...domains.get(domain) ?? [], type.slice(at + 1)]);
  }
  return domains;
}

/** Words as lines of Markdown. */
function wrap(text: string): string {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ")) {
    if (line !== "" && line.length + 1 + word.length > WIDTH) {
      lines.push(line);
      line = word;
    } else line = line === "" ? word : `${line} ${word}`;
  }
  return [...lines, line].join("\n");
}

/** The text of docs/onnx.md with the current list. */
export function makeOnnxOps(): string {
  const parts = [...byDomain()].sort(([a], [b]) => a.localeCompare(b)).map(([domain, names]) => {
    const what = domain === "" ? "Of ONNX" : `Of \`${domain}\``;
    const list = names.sort((a, b) => a.localeCompare(b)).join(", ");
    return wrap(`${what}, ${names.length}: ${list}.`);
  });
  const block = /(<!-- ops -->\n)[\s\S]*?(\n<!-- \/ops -->)/;
  const text = readText(FILE);
  if (!block.test(text)) throw new Error(`${FILE} has no list between <!-- ops --> lines`);
  return text.replace(block, (_, before, after) => `${before}\n${parts.join("\n\n")}\n${after}`);
}

if (import.meta.main) {
  writeFileSync(new URL(`../../${FILE}`, import.meta.url), makeOnnxOps());
}

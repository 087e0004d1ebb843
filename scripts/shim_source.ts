/**
 * Finds the functions, macros and calls of the C code in shim/.
 *
 * Reads sources as text, with a parser for the subset of C and C++ that is used there.
 *
 * @module
 */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { readText, root } from "./tools.ts";

/** A function or a macro. */
export interface Definition {
  readonly name: string;
  /** The first line, from 1 on. */
  readonly line: number;
  readonly lines: number;
}

/** A function. */
export interface Function extends Definition {
  /**
   * The macro that makes its name: `NAME(sum)` joins the part with a suffix, `RM_FOR_ISA(sort)`
   * with the instruction set; `none` if the name is written out.
   */
  readonly joined: "none" | "suffix" | "isa";
  readonly isStatic: boolean;
}

/** The contents of a file. */
export interface Parsed {
  readonly lines: number;
  readonly macros: readonly Definition[];
  readonly functions: readonly Function[];
  /**
   * The functions that it calls, or mentions by a name that a macro makes: `f`, `NAME(f)`,
   * `RM_FOR_ISA(f)`.
   */
  readonly calls: ReadonlySet<string>;
  /** The base names of the files that it includes. */
  readonly includes: readonly string[];
}

/**
 * `text` with comments, strings and characters replaced by spaces; the line numbers stay the same.
 */
function withoutComments(text: string): string {
  const blank = (part: string): string => part.replace(/[^\n]/g, " ");
  return text.replace(
    /\/\*[\s\S]*?\*\/|\/\/.*|"(?:\\.|[^"\\\n])*"|(?<![\w])'(?:\\.|[^'\\\n])+'/g,
    blank,
  );
}

function countLines(text: string): number {
  return text.split("\n").length - 1;
}

/** The position of the opening bracket for the one at `close`, or -1. */
function openingOf(text: string, close: number): number {
  let depth = 0;
  for (let i = close; i >= 0; i--) {
    if (text[i] === ")") depth++;
    if (text[i] === "(" && --depth === 0) return i;
  }
  return -1;
}

function wordBefore(text: string, end: number): string {
  return /\w*$/.exec(text.slice(0, end).trimEnd())![0];
}

const CONTROL = new Set("if for while switch do else return sizeof".split(" "));

type Joined = Function["joined"];

function joinedBy(macro: string): Joined {
  return macro === "RM_FOR_ISA" ? "isa" : "suffix";
}

/** The function that a block with this `head` is the body of; undefined for other blocks. */
function functionOf(head: string): { name: string; joined: Joined } | undefined {
  // Attributes and qualifiers may be on either side.
  let text = head.replace(/__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)/g, " ");
  text = text.replace(/\)\s*const\s*$/, ")").trimEnd();
  if (!text.endsWith(")")) return undefined;
  const open = openingOf(text, text.length - 1);
  const before = text.slice(0, open).trimEnd();
  if (before.endsWith(")")) {
    // NAME(part)(parameters)
    const inner = openingOf(before, before.length - 1);
    const part = before.slice(inner + 1, -1).trim();
    const macro = wordBefore(before, inner);
    return /^\w+$/.test(part) ? { name: part, joined: joinedBy(macro) } : undefined;
  }
  const name = wordBefore(text, open);
  if (name === "" || CONTROL.has(name)) return undefined;
  // KERNEL(part) and KERNEL_NAMED(NAME(part)) stand for the whole head.
  const argument = /^(?:NAME\()?(\w+)\)?$/.exec(text.slice(open + 1, -1).trim())?.[1];
  if (/^KERNEL/.test(name) && argument !== undefined) return { name: argument, joined: "suffix" };
  return { name, joined: "none" };
}

/** The calls in `code`, see {@link Parsed.calls}. */
function callsIn(code: string): Set<string> {
  const joined = [...code.matchAll(/\b(NAME|RM_FOR_ISA)\((\w+)\)/g)].map(([, m, f]) =>
    `${m}(${f})`
  );
  const plain = [...code.matchAll(/\b([A-Za-z_]\w*)\s*\(/g)].map(([, name]) => name!);
  // Tables of functions, which nothing calls by name.
  const tables = [...code.matchAll(/[{,=]\s*&?([a-z_]\w*)\s*(?=[,}])/g)].map(([, name]) => name!);
  return new Set([...joined, ...plain, ...tables]);
}

/** Finds the definitions and calls of a file. */
export function parse(source: string): Parsed {
  const clean = withoutComments(source);
  const includes = [...source.matchAll(/^\s*#\s*include\s+"([^"]+)"/gm)]
    .map(([, path]) => path!.split("/").at(-1)!);
  const macros: Definition[] = [];
  // Directives are removed from the code, but calls in macros count.
  let bodies = "";
  const code = clean.replace(/^[ \t]*#(?:.*\\\n)*.*$/gm, (directive, at: number) => {
    const define = /^\s*#\s*define\s+(\w+)(\([^)]*\))?([\s\S]*)/.exec(directive);
    if (define !== null) {
      const line = countLines(clean.slice(0, at)) + 1;
      macros.push({ name: define[1]!, line, lines: countLines(directive) + 1 });
      bodies += `${define[3]}\n`;
    }
    return directive.replace(/[^\n]/g, " ");
  });
  const functions: Function[] = [];
  // Declarations are not calls: they are blanked outside of functions.
  let calling = "";
  let head = 0, depth = 0;
  let current:
    | { name: string; joined: Joined; from: number; open: number; depth: number }
    | undefined;
  for (let i = 0; i < code.length; i++) {
    const c = code[i];
    if (c === "{") {
      if (current === undefined) {
        const text = code.slice(head, i);
        const found = functionOf(text);
        const from = head + text.length - text.trimStart().length;
        if (found !== undefined) current = { ...found, from, open: i, depth };
        else calling += text.includes("=") ? text : " ";
      }
      depth++;
      head = i + 1;
    } else if (c === "}") {
      depth--;
      if (current !== undefined && depth === current.depth) {
        const { name, joined, from, open } = current;
        const line = countLines(code.slice(0, from)) + 1;
        const lines = countLines(code.slice(from, i)) + 1;
        const isStatic = /\bstatic\b/.test(code.slice(from, open));
        // Methods belong to their structs.
        if (depth === 0) functions.push({ name, joined, line, lines, isStatic });
        else functions.push({ name: `${name} of a struct`, joined: "none", line, lines, isStatic });
        calling += code.slice(open, i);
        current = undefined;
      } else if (current === undefined) calling += `{${code.slice(head, i)}}`;
      head = i + 1;
    } else if (c === ";" && current === undefined) {
      const text = code.slice(head, i);
      if (text.includes("=")) calling += text;
      head = i + 1;
    }
  }
  return {
    lines: countLines(source),
    macros,
    functions,
    calls: callsIn(calling + bodies),
    includes,
  };
}

/** The files of a folder of the repository and its subfolders, as path → text. */
export function readFolder(folder: string): Map<string, string> {
  const names = readdirSync(join(root, folder), { recursive: true, withFileTypes: true });
  const paths = names.filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(root.length).replaceAll("\\", "/"));
  return new Map(paths.sort().map((path) => [path, readText(path)]));
}

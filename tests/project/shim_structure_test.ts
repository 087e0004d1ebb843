/**
 * The limits of the C code in shim/: lengths of files, functions and macros, files per folder, and
 * no call cycles between files.
 *
 * Reads the sources as text, with a parser for the subset of C and C++ that is used there.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { readText, root } from "../../scripts/tools.ts";

const MAX_FILE_LINES = 600;
const MAX_FUNCTION_LINES = 120;
const MAX_MACRO_LINES = 20;
const MAX_FILES_IN_FOLDER = 20;

interface Definition {
  readonly name: string;
  /** The first line, from 1 on. */
  readonly line: number;
  readonly lines: number;
}

interface Function extends Definition {
  /**
   * The macro that makes its name: `NAME(sum)` joins the part with a suffix, `RM_FOR_ISA(sort)`
   * with the instruction set; `none` if the name is written out.
   */
  readonly joined: "none" | "suffix" | "isa";
  readonly isStatic: boolean;
}

interface Parsed {
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
function parse(source: string): Parsed {
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

/** The files that each file calls, and the functions. */
function callsOf(files: ReadonlyMap<string, Parsed>): Map<string, Map<string, string>> {
  const byName = new Map([...files.keys()].map((path) => [path.split("/").at(-1)!, path]));
  // A file sees its includes; a header, which may have no guard, also sees those of its includers.
  const including = (path: string): Set<string> => {
    const seen = new Set([path]);
    for (const of of seen) {
      for (const name of files.get(of)!.includes) {
        const target = byName.get(name);
        if (target !== undefined) seen.add(target);
      }
    }
    return seen;
  };
  const closures = new Map([...files.keys()].map((path) => [path, including(path)]));
  const calls = new Map<string, Map<string, string>>();
  for (const [path, { calls: called, functions }] of files) {
    const visible = new Set<string>();
    for (const closure of closures.values()) {
      if (closure.has(path)) { for (const other of closure) visible.add(other); }
    }
    const own = new Set(
      functions.filter(({ joined }) => joined === "none").map(({ name }) => name),
    );
    const targets = new Map<string, string>();
    for (const [other, { functions }] of files) {
      if (other === path) continue;
      for (const { name, joined, isStatic } of functions) {
        if (isStatic && !visible.has(other)) continue;
        const found = joined === "isa"
          ? called.has(`RM_FOR_ISA(${name})`)
          : joined === "none"
          ? called.has(name) && !own.has(name)
          : visible.has(other) &&
            !functionNamed(files.get(path)!, name) &&
            (called.has(`NAME(${name})`) ||
              [...called].some((word) => word.startsWith(`${name}_`) && isSuffix(word, name)));
        if (found) targets.set(other, name);
      }
    }
    calls.set(path, targets);
  }
  return calls;
}

function functionNamed({ functions }: Parsed, name: string): boolean {
  return functions.some((of) => of.joined === "suffix" && of.name === name);
}

const SUFFIX =
  /^_(b8|[iu](8|16|32|64)|b?f16|f(32|64)(_(sum|product))?|half|u?int(8|16|32|64)_t|float|double|8|16|32|64|[1248]|IDENTITY|ABS|SQUARE|SQUARED_DIFFERENCE)$/;

function isSuffix(word: string, name: string): boolean {
  return SUFFIX.test(word.slice(name.length));
}

/** Call cycles, each as the files along it. */
function circlesOf(calls: ReadonlyMap<string, ReadonlyMap<string, string>>): string[] {
  const circles: string[] = [];
  const done = new Set<string>();
  const visit = (path: string, way: string[]): void => {
    if (way.includes(path)) {
      const circle = [...way.slice(way.indexOf(path)), path];
      const names = circle.slice(1).map((to, i) => `${calls.get(circle[i]!)!.get(to)} of ${to}`);
      circles.push(`${path} calls ${names.join(", which calls ")}`);
      return;
    }
    if (done.has(path)) return;
    for (const to of calls.get(path)?.keys() ?? []) visit(to, [...way, path]);
    done.add(path);
  };
  for (const path of calls.keys()) visit(path, []);
  return circles;
}

/** All faults of a set of files, given as path → text. */
export function findFaults(files: ReadonlyMap<string, string>): string[] {
  const faults: string[] = [];
  const parsed = new Map<string, Parsed>();
  const folders = new Map<string, number>();
  for (const [path, text] of files) {
    const folder = path.split("/").slice(0, -1).join("/");
    folders.set(folder, (folders.get(folder) ?? 0) + 1);
    const of = parse(text);
    parsed.set(path, of);
    if (of.lines > MAX_FILE_LINES) faults.push(`${path} has ${of.lines} lines`);
    for (const { name, line, lines } of of.functions) {
      if (lines > MAX_FUNCTION_LINES) faults.push(`${path}:${line}: ${name} has ${lines} lines`);
    }
    for (const { name, line, lines } of of.macros) {
      if (lines > MAX_MACRO_LINES) faults.push(`${path}:${line}: macro ${name} has ${lines} lines`);
    }
  }
  for (const [folder, count] of folders) {
    if (count > MAX_FILES_IN_FOLDER) faults.push(`${folder} has ${count} files`);
  }
  return [...faults, ...circlesOf(callsOf(parsed))];
}

function shimFiles(): Map<string, string> {
  const names = readdirSync(join(root, "shim"), { recursive: true, withFileTypes: true });
  const paths = names.filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(root.length).replaceAll("\\", "/"));
  return new Map(paths.sort().map((path) => [path, readText(path)]));
}

test("shim/ keeps its limits, and its files call each other in no circle", () => {
  assertEquals(findFaults(shimFiles()), []);
});

/** A function of the given number of lines. */
function functionOfLines(name: string, lines: number): string {
  return `static int ${name}(int x) {\n${"  x++;\n".repeat(lines - 2)}}\n`;
}

function faultsOf(files: Record<string, string>): string[] {
  return findFaults(new Map(Object.entries(files)));
}

test("a file, a function and a macro that are too long are found", () => {
  assertEquals(faultsOf({ "shim/a.c": "\n".repeat(600) }), []);
  assertEquals(faultsOf({ "shim/a.c": "\n".repeat(601) }), ["shim/a.c has 601 lines"]);
  const struct = `struct s {\n  int x;\n};\n${functionOfLines("f", 120)}`;
  assertEquals(faultsOf({ "shim/a.c": struct }), []);
  assertEquals(faultsOf({ "shim/a.c": `/* { */\n${functionOfLines("f", 121)}` }), [
    "shim/a.c:2: f has 121 lines",
  ]);
  const method = `template <class T>\nstruct s {\n${functionOfLines("f", 130)}};\n`;
  assertEquals(faultsOf({ "shim/a.h": method }), ["shim/a.h:3: f of a struct has 130 lines"]);
  const macro = (lines: number): string => `#define M(x) \\\n${"  x \\\n".repeat(lines - 2)}  x\n`;
  assertEquals(faultsOf({ "shim/a.h": macro(20) }), []);
  assertEquals(faultsOf({ "shim/a.h": `\n${macro(21)}` }), ["shim/a.h:2: macro M has 21 lines"]);
});

test("a folder of too many files is found", () => {
  const files = Object.fromEntries(Array.from({ length: 21 }, (_, i) => [`shim/x/${i}.c`, ""]));
  assertEquals(faultsOf(files), ["shim/x has 21 files"]);
});

test("circles of calls are found, over headers, macros and tables too", () => {
  const f = (name: string, calls: string): string => `void ${name}(void) { ${calls}; }\n`;
  assertEquals(faultsOf({ "a.c": f("a", "b()"), "b.c": f("b", "c()"), "c.c": f("c", "0") }), []);
  assertEquals(faultsOf({ "a.c": f("a", "b()"), "b.c": f("b", "c()"), "c.c": f("c", "a()") }), [
    "a.c calls b of b.c, which calls c of c.c, which calls a of a.c",
  ]);
  // A static function belongs to one file, and a declaration calls nothing.
  assertEquals(faultsOf({ "a.c": `static ${f("x", "b()")}`, "b.c": f("b", "x()") }), []);
  assertEquals(faultsOf({ "a.c": `void b(void);\n${f("a", "0")}`, "b.c": f("b", "a()") }), []);
  // Functions in headers count for the header; the file that includes a header may define functions
  // that the header calls.
  const included = `#include "h.h"\n${f("a", "h()")}`;
  assertEquals(faultsOf({ "a.c": included, "h.h": `static ${f("h", "a()")}` }), [
    "a.c calls h of h.h, which calls a of a.c",
  ]);
  assertEquals(
    faultsOf({ "a.c": f("a", "M()"), "m.h": "#define M() b()\n", "b.c": f("b", "a()") }),
    [],
  );
  assertEquals(faultsOf({ "a.c": `#define M() b()\n${f("a", "M()")}`, "b.c": f("b", "a()") }), [
    "a.c calls b of b.c, which calls a of a.c",
  ]);
  const type = `static void NAME(sum)(int x) { help(x); }\n`;
  const user = `#include "t.h"\nstatic ${f("help", "0")}${f("a", "sum_f32(1)")}`;
  assertEquals(faultsOf({ "a.c": user, "t.h": type }), [
    "a.c calls sum of t.h, which calls help of a.c",
  ]);
  const isa = `void RM_FOR_ISA(sort)(int x) { run(x); }\n`;
  assertEquals(faultsOf({ "s.c": isa, "r.c": f("run", "RM_FOR_ISA(sort)(1)") }), [
    "s.c calls run of r.c, which calls sort of s.c",
  ]);
  const table = `static const fn table[] = {first, second};\n${f("a", "0")}`;
  assertEquals(faultsOf({ "a.c": table, "b.c": f("second", "a()") }), [
    "a.c calls second of b.c, which calls a of a.c",
  ]);
});

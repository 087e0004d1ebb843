/**
 * Code blocks of documentation: runs one as a test, and type-checks all; see docs_test.ts for their
 * syntax.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { writeModel } from "../embed/model.ts";
import { randomLlama } from "../support/llama.ts";

/** A block. */
export interface Block {
  file: string;
  line: number;
  lines: string[];
  /** The language, the first word after the fence. */
  language: string;
  /** Whether it runs, is only type-checked, or neither. */
  mode: "run" | "check" | "ignore";
  /** Why it does not run. */
  reason: string;
  /** In JSDoc, the exports of the file: an example may omit their imports. */
  exports?: string[];
}

/** The repository's root. */
export const root = new URL("../../", import.meta.url);
/** The modules of the entry points, by their names in imports. */
const modules: Readonly<Record<string, string>> =
  JSON.parse(readFileSync(new URL("deno.json", root), "utf8")).exports;

/** The fenced blocks of a Markdown text; `firstLine` is the line in its file where the text begins. */
export function readBlocks(file: string, text: string, firstLine = 1): Block[] {
  const blocks: Block[] = [];
  let open: Block | undefined;
  for (const [n, line] of text.split(/\r?\n/).entries()) {
    const fence = /^\s*```(.*)$/.exec(line)?.[1].trim();
    if (open !== undefined && fence !== "") {
      open.lines.push(line);
    } else if (open !== undefined) {
      open = undefined;
    } else if (fence !== undefined) {
      const language = /^\S*/.exec(fence)![0];
      const [, mode = "run", reason = ""] = /^\S+ (ignore|check)(?:: *(.*))?$/.exec(fence) ?? [];
      open = {
        ...{ file, line: firstLine + n, lines: [], language },
        ...{ mode: mode as Block["mode"], reason },
      };
      blocks.push(open);
    }
  }
  return blocks;
}

/** The blocks of every JSDoc comment of a source text. */
export function readSourceBlocks(file: string, source: string): Block[] {
  const declared = source.matchAll(
    /^export (?:abstract )?(?:class|const|(?:async )?function\*?) (\w+)/gm,
  );
  const exports = [...declared].map(([, name]) => name);
  return [...source.matchAll(/^[ \t]*\/\*\*[\s\S]*?\*\//gm)].flatMap((match) => {
    const firstLine = source.slice(0, match.index).split("\n").length;
    const text = match[0].replace(/^[ \t]*(\/\*\*|\*\/|\* ?)/gm, "");
    return readBlocks(file, text, firstLine).map((block) => ({ ...block, exports }));
  });
}

/** Converts the assertions of a block to calls, and redirects its imports to this checkout. */
export function compileBlock(block: Block): string {
  const output: string[] = [];
  // The position in the output of the statement that printed comments belong to.
  let last = -1;
  for (const [n, line] of block.lines.entries()) {
    const [, before, sign, expected] = /^(.*?)\s*\/\/ (=>|throws) ?(.*)$/.exec(line) ?? [];
    if (sign === undefined) {
      if (line.trim() !== "") last = output.length;
      output.push(line);
      continue;
    }
    const where = `${block.file}:${block.line + n + 1}`;
    if (before.trim() !== "") {
      last = output.length;
      output.push(before);
    } else if (last < 0) {
      throw new Error(`${where}: no statement before "// ${sign}"`);
    }
    const more = /^__(\w+)\((.*), (".*"), (".*")\);$/.exec(output[last]);
    if (more !== null && before.trim() === "") {
      const text = JSON.stringify(`${JSON.parse(more[3])}\n${expected}`);
      output[last] = `__${more[1]}(${more[2]}, ${text}, ${more[4]});`;
      continue;
    }
    output[last] = compileLine(output[last], sign, expected, where);
  }
  return withImports(output.join("\n"));
}

/** `code` with its imports redirected to this checkout, whose root is "../". */
function withImports(code: string): string {
  return code
    .replace(
      /(["'])(?:jsr:)?@rowmajor\/tensor(?:@[^"'/]*)?((?:\/\w+)*)\1/g,
      (_, _quote, entry) => JSON.stringify(new URL(modules[`.${entry}`]!, root).href),
    )
    .replace(/\bfrom (["'])\.\.\//g, `from $1${root.href}`);
}

function compileLine(line: string, sign: string, expected: string, where: string): string {
  const call = sign === "=>" ? "shows" : "throws";
  const tail = `, ${JSON.stringify(expected)}, ${JSON.stringify(where)});`;
  const code = line.trim().replace(/;$/, "");
  const declared = /^(?:const|let)\s+(\w+)\b/.exec(code)?.[1];
  if (declared !== undefined) return `${line} __${call}(() => ${declared}${tail}`;
  if (/^[.)\]}]|^(import|export|function|class|if|for|while|return)\b/.test(code)) {
    throw new Error(`${where}: "// ${sign}" needs an expression on one line, got ${code}`);
  }
  const printed = /^console\.log\(([\s\S]*)\)$/.exec(code)?.[1];
  const arrow = /\bawait\b/.test(code) ? "async () =>" : "() =>";
  return `${/\bawait\b/.test(code) ? "await " : ""}__${call}(${arrow} (${printed ?? code})${tail}`;
}

/** The text of a value in the documentation, the same in both runtimes. */
function show(value: unknown, nested = false): string {
  if (typeof value === "string") return nested ? JSON.stringify(value) : value;
  if (typeof value === "bigint") return `${value}n`;
  if (Object.is(value, -0)) return "-0";
  if (typeof value !== "object" || value === null) return String(value);
  const items = (list: Iterable<unknown>) => `[${[...list].map((x) => show(x, true)).join(", ")}]`;
  if (Array.isArray(value)) return items(value);
  if (ArrayBuffer.isView(value)) {
    return `${value.constructor.name} ${items(value as unknown as Iterable<unknown>)}`;
  }
  if (value.toString !== Object.prototype.toString) return String(value);
  const entries = Object.entries(value).map(([key, x]) => `${key}: ${show(x, true)}`);
  return entries.length === 0 ? "{}" : `{ ${entries.join(", ")} }`;
}

function settle<T>(value: unknown, then: (value: unknown) => T): T | Promise<T> {
  return value instanceof Promise ? value.then(then) : then(value);
}

/** Implements `// => text`. */
function shows(f: () => unknown, expected: string, where: string): void | Promise<void> {
  return settle(f(), (value) => assertEquals(show(value), expected, where));
}

/** Implements `// throws text`. */
function throws(f: () => unknown, expected: string, where: string): void | Promise<void> {
  const check = (error: unknown) => {
    const text = String(error);
    assertEquals(text.slice(0, expected.length), expected, `${where} throws ${text}`);
  };
  const none = (value: unknown) => {
    throw new Error(`${where} gives ${show(value)} instead of throwing ${expected}`);
  };
  let value: unknown;
  try {
    value = f();
  } catch (error) {
    return check(error);
  }
  return value instanceof Promise ? value.then(none, check) : none(value);
}

Object.assign(globalThis, { __shows: shows, __throws: throws });

/** The imports that an example in JSDoc omits: from an entry point, or else from its own file. */
async function impliedImports({ file, lines, exports }: Block): Promise<string> {
  const text = lines.join("\n");
  if (exports === undefined || /^import\b/m.test(text)) return "";
  const uses = (name: string) =>
    new RegExp(`(?<![.\\w])${name}\\b`).test(text) &&
    !new RegExp(`\\b(?:const|let|using) ${name}\\b`).test(text);
  const from = (names: string[], url: string) =>
    names.length === 0 ? "" : `import { ${names.join(", ")} } from ${JSON.stringify(url)};\n`;
  const shared: string[] = [];
  let imports = "";
  for (const entry of [".", "./compile", "./profile"]) {
    const url = new URL(modules[entry]!, root).href;
    const names = Object.keys(await import(url)).filter(uses);
    imports += from(names, url);
    shared.push(...names);
  }
  for (const name of ["nn", "llm", "optim"]) {
    const url = new URL(modules[`./${name}`]!, root).href;
    if (uses(name)) imports += `import * as ${name} from "${url}";\n`;
  }
  // One for each overload.
  const own = [...new Set(exports)].filter((name) => uses(name) && !shared.includes(name));
  return imports + from(own, new URL(file, root).href);
}

/**
 * Files that examples open, by the names that they have there: a model of the same sizes as its
 * namesake, but few layers and random weights, and a tokenizer.
 */
const FILES: Readonly<Record<string, () => string | Uint8Array>> = {
  "SmolLM2-135M-Instruct.Q4_1.gguf": () => {
    const sizes = { width: 576, heads: 9, groups: 3, hidden: 1536, vocabulary: 10_000 };
    // A text without an end has 400 tokens.
    return randomLlama("q4_1", { layers: 1, ...sizes, context: 400 });
  },
  "model.onnx": () => {
    const cases: readonly { readonly name: string; readonly model: string }[] = JSON.parse(
      readFileSync(new URL("tests/golden/onnx/cases.json", root), "utf8"),
    );
    return Uint8Array.fromBase64(cases.find(({ name }) => name === "shared_weight")!.model);
  },
  "tokenizer.json": () => {
    const letters = Array.from({ length: 94 }, (_, i) => String.fromCharCode(33 + i));
    return JSON.stringify({
      normalizer: null,
      pre_tokenizer: { type: "ByteLevel", add_prefix_space: false, use_regex: true },
      post_processor: null,
      decoder: { type: "ByteLevel" },
      added_tokens: [],
      model: {
        type: "BPE",
        vocab: Object.fromEntries([...letters, "\u0120"].map((letter, id) => [letter, id])),
        merges: [],
      },
    });
  },
};
/** Folders of models that examples open, by their names on the hub: small models with random weights. */
const MODELS: Readonly<Record<string, (folder: string) => Promise<void>>> = {
  "sentence-transformers/all-MiniLM-L6-v2": writeModel,
  "intfloat/e5-small-v2": writeModel,
};
/** Files that examples write. */
const WRITTEN: ReadonlySet<string> = new Set(["checkpoint.safetensors"]);
let folder: string | undefined;
process.on("exit", () => folder !== undefined && rmSync(folder, { recursive: true }));

/** `code` with the paths of files that examples read and write in the place of their names. */
async function withFiles(code: string): Promise<string> {
  const names = new Set(Array.from(code.matchAll(/"([\w.\/-]+)"/g), ([, name]) => name!));
  let made = code;
  for (const name of names) {
    const isModel = Object.hasOwn(MODELS, name);
    if (!isModel && !WRITTEN.has(name) && !Object.hasOwn(FILES, name)) continue;
    folder ??= mkdtempSync(join(tmpdir(), "rowmajor-docs-"));
    const path = join(folder, name);
    if (!existsSync(path)) {
      if (isModel) await MODELS[name]!(path);
      else if (!WRITTEN.has(name)) writeFileSync(path, FILES[name]!());
    }
    made = made.replaceAll(JSON.stringify(name), JSON.stringify(path));
  }
  return made;
}

/** Runs a block; throws its failure. */
export async function runBlock(block: Block): Promise<void> {
  const code = await withFiles(compileBlock(block));
  // Inside the checkout, so that @std/assert and the like resolve as they do in tests.
  const path = new URL(`tmp/docs_${crypto.randomUUID()}.ts`, root);
  mkdirSync(new URL(".", path), { recursive: true });
  // A module of its own even without imports, so that names of two blocks never meet.
  writeFileSync(path, `${await impliedImports(block)}${code}\nexport {};\n`);
  try {
    await import(path.href);
  } finally {
    rmSync(path);
  }
}

/** The compiler's messages about `blocks`, one text for each error, in one run of `deno`. */
export async function checkBlocks(blocks: readonly Block[], deno: string): Promise<string[]> {
  // Outside the checkout, whose deno.json excludes tmp: no file there would be checked.
  const folder = mkdtempSync(join(tmpdir(), "rowmajor-docs-"));
  try {
    // For packages that examples import.
    symlinkSync(
      fileURLToPath(new URL("node_modules", root)),
      join(folder, "node_modules"),
      "junction",
    );
    const files: string[] = [];
    for (const [i, block] of blocks.entries()) {
      files.push(join(folder, `block${i}.ts`));
      // On the first line of the block, so that the compiler counts lines like the page.
      const head = (await impliedImports(block)).replaceAll("\n", " ");
      const code = withImports(block.lines.join("\n"));
      writeFileSync(files[i], `${head}${code}\nexport {};\n`);
    }
    const config = fileURLToPath(new URL("deno.json", root));
    const { stderr, status, error } = spawnSync(
      deno,
      ["check", "--quiet", "--config", config, ...files],
      { env: { ...process.env, NO_COLOR: "1" }, encoding: "utf8" },
    );
    if (error) throw error;
    if (status === 0) return [];
    const place = /\S*[/\\]block(\d+)\.ts(?::(\d+))?/g;
    const named = stderr.replace(place, (_, i: string, line: string | undefined) => {
      const block = blocks[Number(i)];
      return `${block.file}:${block.line + Number(line ?? 0)}`;
    });
    // The last part ends with the number of errors.
    return named.replace(/^(Found \d+ errors?\.\s+)?error: Type checking failed\.[\s\S]*/m, "")
      .split(/^(?=TS\d+ \[ERROR\])/m).map((text) => text.trim());
  } finally {
    rmSync(folder, { recursive: true });
  }
}

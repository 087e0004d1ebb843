/**
 * Every ```ts block in README.md, docs/ and the JSDoc of the sources runs as a test.
 *
 * In a block, `expression; // => text` asserts how the value prints, and `// throws text` how the
 * error begins; more lines of output follow in comments of their own, `// => text`. Examples in
 * JSDoc may leave out their imports. A block opened with "```ts ignore" is skipped, and counted.
 *
 * @module
 */

import { assertEquals, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { test } from "node:test";

interface Block {
  file: string;
  line: number;
  ignore: boolean;
  lines: string[];
  /** In JSDoc, what the file exports: an example there may leave out its imports. */
  exports?: string[];
}

const root = new URL("../", import.meta.url);
const modUrl = new URL("mod.ts", root).href;

/** The fenced ts blocks of a Markdown text; `firstLine` is where the text begins in its file. */
function readBlocks(file: string, text: string, firstLine = 1): Block[] {
  const blocks: Block[] = [];
  let open: Block | undefined;
  let inOther = false;
  for (const [n, line] of text.split(/\r?\n/).entries()) {
    const fence = /^\s*```(.*)$/.exec(line)?.[1].trim();
    if (open !== undefined && fence !== "") {
      open.lines.push(line);
    } else if (open !== undefined || (inOther && fence === "")) {
      open = undefined;
      inOther = false;
    } else if (fence !== undefined && !inOther) {
      const [language, flag] = fence.split(/\s+/);
      inOther = language !== "ts";
      if (inOther) continue;
      open = { file, line: firstLine + n, ignore: flag === "ignore", lines: [] };
      blocks.push(open);
    }
  }
  return blocks;
}

/** The blocks of every JSDoc comment of a source text. */
function readSourceBlocks(file: string, source: string): Block[] {
  const declared = source.matchAll(/^export (?:abstract )?(?:class|const|function\*?) (\w+)/gm);
  const exports = [...declared].map(([, name]) => name);
  return [...source.matchAll(/^[ \t]*\/\*\*[\s\S]*?\*\//gm)].flatMap((match) => {
    const firstLine = source.slice(0, match.index).split("\n").length;
    const text = match[0].replace(/^[ \t]*(\/\*\*|\*\/|\* ?)/gm, "");
    return readBlocks(file, text, firstLine).map((block) => ({ ...block, exports }));
  });
}

/** Turns the assertions of a block into calls, and points its imports at this checkout. */
function compileBlock(block: Block): string {
  const output: string[] = [];
  // Where the statement that printed comments belong to stands in the output.
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
  return output.join("\n").replace(
    /(["'])(?:jsr:)?@rowmajor\/tensor(?:@[^"'/]*)?\1/g,
    JSON.stringify(modUrl),
  );
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

/** How a value reads in the documentation, the same in both runtimes. */
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

/** Stands behind `// => text`. */
function shows(f: () => unknown, expected: string, where: string): void | Promise<void> {
  return settle(f(), (value) => assertEquals(show(value), expected, where));
}

/** Stands behind `// throws text`. */
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

/** The imports that an example in JSDoc leaves out, from mod.ts, or else from its own file. */
async function impliedImports({ file, lines, exports }: Block): Promise<string> {
  const text = lines.join("\n");
  if (exports === undefined || /^import\b/m.test(text)) return "";
  const uses = (name: string) => new RegExp(`(?<![.\\w])${name}\\b`).test(text);
  const shared = Object.keys(await import(modUrl)).filter(uses);
  const own = exports.filter((name) => uses(name) && !shared.includes(name));
  const from = (names: string[], url: string) =>
    names.length === 0 ? "" : `import { ${names.join(", ")} } from ${JSON.stringify(url)};\n`;
  return from(shared, modUrl) + from(own, new URL(file, root).href);
}

async function runBlock(block: Block): Promise<void> {
  const code = compileBlock(block);
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

function listFiles(folder: string, extension: string): string[] {
  const url = new URL(`${folder}/`, root);
  if (!existsSync(url)) return [];
  return readdirSync(url, { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(extension))
    .map((path) => `${folder}/${path.replaceAll("\\", "/")}`)
    .sort();
}

const read = (path: string) => readFileSync(new URL(path, root), "utf8");
const blocks = [
  ...["README.md", ...listFiles("docs", ".md")].flatMap((path) => readBlocks(path, read(path))),
  ...["mod.ts", ...listFiles("src", ".ts")].flatMap((path) => readSourceBlocks(path, read(path))),
];

for (const block of blocks) {
  test(`example at ${block.file}:${block.line}`, { skip: block.ignore }, () => runBlock(block));
}

function blockOf(text: string): Block {
  return { file: "self", line: 0, ignore: false, lines: text.split("\n") };
}

test("right examples pass", async () => {
  await runBlock(blockOf("const x = [1, 2]; // => [1, 2]\nx.length; // => 2"));
  await runBlock(blockOf("console.log('a\\nb');\n// => a\n// => b"));
  await runBlock(blockOf("await Promise.resolve(-0); // => -0"));
  await runBlock(
    blockOf("[][Symbol.iterator] = 1n, 5n; // => 5n\n({ a: ['b'] }); // => { a: [\"b\"] }"),
  );
  await runBlock(blockOf("null.x; // throws TypeError\nawait Promise.reject(1); // throws 1"));
  await runBlock(blockOf("new Float32Array(2); // => Float32Array [0, 0]"));
});

test("wrong examples fail", async () => {
  const fails = async (text: string, message: string) => {
    const error = await assertRejects(() => runBlock(blockOf(text)));
    assertStringIncludes(String(error), message);
  };
  await fails("const x = [1, 2];\nx; // => [1, 3]", "self:2");
  await fails("console.log('a');\n// => a\n// => b", "self:2");
  await fails("await Promise.resolve(1); // => 2", "self:1");
  await fails("1; // throws TypeError", "instead of throwing");
  await fails("null.x; // throws RangeError", "self:1 throws TypeError");
  await fails("throw new Error('boom');", "boom");
});

test("an assertion without an expression on its line is refused", () => {
  assertThrows(() => compileBlock(blockOf("f(\n  1,\n); // => 2")), Error, "on one line");
  assertThrows(() => compileBlock(blockOf("// => 2")), Error, "no statement");
});

test("blocks are found in Markdown and JSDoc, and no others", () => {
  const text = "a\n```ts\n1;\n```\n```sh\n```ts\n```\n```ts ignore\n2;\n```\n";
  assertEquals(readBlocks("a.md", text).map(({ line, ignore, lines }) => [line, ignore, lines]), [
    [2, false, ["1;"]],
    [8, true, ["2;"]],
  ]);
  const source =
    "/* ```ts */\n/**\n * A.\n * @example\n * ```ts\n * f(\n *   1);\n * ```\n */\nx;\n";
  assertEquals(readSourceBlocks("a.ts", source).map(({ line, lines }) => [line, lines]), [
    [5, ["f(", "  1);"]],
  ]);
  assertStringIncludes(
    compileBlock(blockOf('import { a } from "jsr:@rowmajor/tensor";')),
    "/mod.ts",
  );
});

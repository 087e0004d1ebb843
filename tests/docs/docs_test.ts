/**
 * Every ```ts block in README.md, docs/, site/index.md and the JSDoc of the sources runs as a test,
 * and type-checks.
 *
 * In a block, `expression; // => text` asserts how the value prints, and `// throws text` how the
 * error begins; more lines of output follow in comments of their own, `// => text`. Examples in
 * JSDoc may omit their imports. A line that must not compile has `// @ts-expect-error` before
 * it. "```ts check: REASON" opens a block that is only type-checked, "```ts ignore: REASON" one that is
 * skipped and counted. Blocks in other languages do not run; see LANGUAGES.
 *
 * All examples run in Deno, which also checks their types. In Bun `npm test` takes those with modules
 * of a runtime and a sample of the others, `npm run test:all` all of them.
 *
 * @module
 */

import {
  assert,
  assertEquals,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { findTool } from "../../scripts/tools.ts";
import {
  type Block,
  checkBlocks,
  compileBlock,
  readBlocks,
  readSourceBlocks,
  root,
  runBlock,
} from "./blocks.ts";
import { isSampled } from "../support/amount.ts";
import { blockOfSpans, OTHER_PAGES, OTHERS, readSpans } from "./inline.ts";

const inDeno = "Deno" in globalThis;

function listFiles(folder: string, extension: string): string[] {
  const url = new URL(`${folder}/`, root);
  if (!existsSync(url)) return [];
  return readdirSync(url, { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(extension))
    .map((path) => `${folder}/${path.replaceAll("\\", "/")}`)
    .sort();
}

const read = (path: string) => readFileSync(new URL(path, root), "utf8");
const all = [
  ...["README.md", "site/index.md", ...listFiles("docs", ".md")].flatMap((path) =>
    readBlocks(path, read(path))
  ),
  ...["mod.ts", ...listFiles("src", ".ts")].flatMap((path) => readSourceBlocks(path, read(path))),
];
const blocks = all.filter(({ language }) => language === "ts");

/** Whether a block runs in this runtime. */
function runsHere({ lines }: Block): boolean {
  const code = lines.join("\n");
  const isOfRuntimes = /\bBun\b|import\.meta|"node:|\bwith \{ type\b/.test(code);
  return inDeno || isOfRuntimes || isSampled(code, 8);
}

for (const block of blocks.filter(runsHere)) {
  const skip = block.mode !== "run";
  const why = skip ? ` (skipped: ${block.reason})` : "";
  test(`example at ${block.file}:${block.line}${why}`, { skip }, () => runBlock(block));
}

/** The languages of blocks that never run, and what they are. Other blocks give a reason. */
const LANGUAGES: Readonly<Record<string, string>> = {
  text: "output, or a diagram",
  sh: "commands; their tasks and files exist, as a test below shows",
  json: "settings, which are parsed below",
  yaml: "settings of other programs",
  dockerfile: "settings of other programs",
  ini: "settings of other programs",
  js: "programs with other libraries, which are not installed here",
  c: "parts of the shim, which zig compiles",
};

test("each block that does not run gives a reason", () => {
  const place = ({ file, line }: Block): string => `${file}:${line}`;
  const silent = all.filter(({ language, mode, reason }) =>
    mode === "run" ? language !== "ts" && !Object.hasOwn(LANGUAGES, language) : reason === ""
  );
  assertEquals(silent.map(place), []);
  // A word after "ts" that is no mode would hide what was meant.
  const skipped = blocks.filter(({ mode }) => mode !== "run").map(place);
  assert(skipped.length < 11, `${skipped.length} examples do not run: ${skipped.join(", ")}`);
});

test("tasks and files in commands exist, and JSON can be parsed", () => {
  const { tasks } = JSON.parse(read("deno.json"));
  const wrong: string[] = [];
  for (const { file, line, language, lines } of all) {
    const text = lines.join("\n");
    if (language === "json") JSON.parse(text);
    if (language !== "sh") continue;
    for (const [, task] of text.matchAll(/\bdeno task ([\w:-]+)/g)) {
      if (!Object.hasOwn(tasks, task!)) wrong.push(`${file}:${line}: no task ${task}`);
    }
    for (const [path] of text.matchAll(/\b(?:examples|scripts|bench|tests|src)\/[\w./-]+\.\w+/g)) {
      if (!existsSync(new URL(path, root))) wrong.push(`${file}:${line}: no file ${path}`);
    }
  }
  assertEquals(wrong, []);
});

// Bun has no compiler of its own that checks types.
const checked = { skip: !inDeno && "the compiler is Deno's", timeout: 300_000 };

/** Pages with the calls in their prose and tables. */
const pages = ["README.md", "site/index.md", ...listFiles("docs", ".md")]
  .filter((path) => !path.startsWith("docs/adr/") && !Object.hasOwn(OTHER_PAGES, path))
  .map((path) => readSpans(path, read(path)));

// One run of the compiler, which reads the library once. A call that is not one of the library's, or
// whose names stand for nothing yet, goes to inline.ts or inline_scope.ts.
test("examples, and calls in prose and tables, type-check", checked, async () => {
  // Wrong ones among them show that the others were checked, and strictly.
  const wrong = blockOf("1;\n\nconst same = (x) => x;");
  const examples = [...blocks.filter(({ mode }) => mode !== "ignore"), wrong];
  assert(pages.flat().length > 400, `${pages.flat().length} calls`);
  const right = '`x.set(":", y)`, `matmul(y)`, `x.round()`, `await using world = await init()`';
  const wrongCalls = [
    ...["z.set(complex(re, z.imag()))", "x.rounds()", "sort({ axis })", "nothing(x)"],
    ...["io.readNothing(path)", "x.sum({ axes: 1 })", "new Chat(model)"],
  ];
  const text = [right, ...wrongCalls.map((code) => `\`${code}\``), "```ts\nx.none()\n```"];
  const calls = [...pages, readSpans("self.md", text.join("\n"))]
    .filter((spans) => spans.length > 0).map(blockOfSpans);

  const errors = await checkBlocks([...examples, ...calls], findTool("deno"));
  assertEquals(errors.filter((error) => !/self(\.md)?:/.test(error)), []);
  const own = errors.filter((error) => error.includes("self:"));
  assertEquals(own.length, 1);
  assertStringIncludes(own[0], "implicitly has an 'any' type");
  assertStringIncludes(own[0], "self:3");
  const lines = errors.filter((error) => error.includes("self.md:"))
    .map((error) => Number(/self\.md:(\d+)/.exec(error)![1]));
  assertEquals(
    [...new Set(lines)].sort(),
    wrongCalls.map((_, i) => i + 2),
    errors.join("\n"),
  );
});

test("code that is no call of the library is in a page, and pages that are left out exist", () => {
  const code = ["README.md", "site/index.md", ...listFiles("docs", ".md")].map(read).join("\n");
  assertEquals(Object.keys(OTHERS).filter((one) => !code.includes(`\`${one}\``)), []);
  assertEquals(Object.keys(OTHER_PAGES).filter((path) => !existsSync(new URL(path, root))), []);
});

test("README is short, and ends with five links", () => {
  const text = read("README.md");
  assert(text.split("\n").length <= 111, "at most 110 lines");
  const links = (part: string) => [...part.matchAll(/(?<!!)\[[^\]]+\]\(/g)].length;
  assertEquals([links(text), links(text.split("## More")[1]!)], [5, 5]);
});

function blockOf(text: string): Block {
  const how = { language: "ts", mode: "run", reason: "" } as const;
  return { file: "self", line: 0, ...how, lines: text.split("\n") };
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
  const fences = ["ts ignore: why not", "ts check: no net", "ts ignore", "ts [A tab]"];
  const text = "a\n```ts\n1;\n```\n```sh\n```ts\n```\n" +
    fences.map((fence) => `\`\`\`${fence}\n2;\n\`\`\`\n`).join("");
  const found = readBlocks("a.md", text);
  assertEquals(found.map(({ line, language, lines }) => [line, language, lines[0]]), [
    ...[[2, "ts", "1;"], [5, "sh", "```ts"]],
    ...[[8, "ts", "2;"], [11, "ts", "2;"], [14, "ts", "2;"], [17, "ts", "2;"]],
  ]);
  assertEquals(found.map(({ mode, reason }) => [mode, reason]), [
    ...[["run", ""], ["run", ""]],
    ...[["ignore", "why not"], ["check", "no net"], ["ignore", ""], ["run", ""]],
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

/**
 * Types: the programs in tests/types/ compile, and mistakes show the messages noted next to them.
 *
 * Runs tsc once, under either runtime; it needs no tensor at run time.
 *
 * @module
 */
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { describe, it } from "node:test";
import { assert, assertEquals, assertLess, assertStringIncludes } from "@std/assert";
import { findTool, root } from "../../scripts/tools.ts";

const folder = join(root, "tests", "types");
const MARK = "// @ts-expect-error: ";

/** The mistakes with their marks disabled, and a literal of the largest supported size. */
function withoutMarks(): string {
  const rows = Array.from(
    { length: 50 },
    (_, i) => Array.from({ length: 50 }, (_, j) => i * 50 + j),
  );
  return readFileSync(join(folder, "mistakes_types.ts"), "utf8")
    .replaceAll(MARK, "// ")
    .replace('"./api.ts"', '"../../tests/types/api.ts"') +
    `export const big: Tensor<"float32", [50, 50]> = tensor(${JSON.stringify(rows)});\n`;
}

/** The compiler's messages by file and line: `"mistakes.ts:12"`. */
function complaints(output: string): Map<string, string> {
  const found = new Map<string, string>();
  for (const part of output.split(/^(?=\S)/m)) {
    const at = /(\w+\.ts)\((\d+),\d+\): error /.exec(part);
    if (at !== null) {
      const key = `${at[1]}:${at[2]}`;
      found.set(key, (found.get(key) ?? "") + part);
    } else if (part.includes("error TS")) found.set("elsewhere", part);
  }
  return found;
}

describe("types", () => {
  let found = new Map<string, string>();
  let source: string[] = [];
  let instantiations = Infinity;

  // In a test and not in a hook, whose time Bun limits.
  it("the compiler runs", { timeout: 300_000 }, () => {
    mkdirSync(join(root, "tmp"), { recursive: true });
    const temporary = mkdtempSync(join(root, "tmp", "types-"));
    try {
      const text = withoutMarks();
      source = text.split("\n");
      writeFileSync(join(temporary, "mistakes.ts"), text);
      const names = readdirSync(folder).filter((name) =>
        name.endsWith("_types.ts") && name !== "mistakes_types.ts"
      );
      assert(names.length >= 9, `${names}`);
      const files = ["mistakes.ts", ...names.map((name) => join(folder, name))];
      const config = { extends: join(root, "tsconfig.json"), files, include: [] };
      writeFileSync(join(temporary, "tsconfig.json"), JSON.stringify(config));
      const tsc = [
        "-p",
        temporary,
        "--pretty",
        "false",
        "--extendedDiagnostics",
      ];
      const { stdout, stderr, status, error } = spawnSync(
        findTool("deno"),
        ["run", "-A", "--quiet", "npm:typescript/tsc", ...tsc],
        { cwd: root, env: { ...process.env, NO_COLOR: "1" }, encoding: "utf8" },
      );
      if (error) throw error;
      assert(status !== 0, stderr);
      found = complaints(stdout);
      instantiations = Number(/^Instantiations: +(\d+)$/m.exec(stdout)?.[1] ?? Infinity);
    } finally {
      rmSync(temporary, { recursive: true });
    }
  });

  it("shape and dtype assertions compile", () => {
    const wrong = [...found].filter(([at]) => !at.startsWith("mistakes.ts"));
    assertEquals(wrong.map(([, message]) => message), []);
  });

  it("each mistake shows its message", () => {
    const marked = readFileSync(join(folder, "mistakes_types.ts"), "utf8").split("\n");
    let count = 0;
    marked.forEach((line, i) => {
      if (!line.includes(MARK)) return;
      const message = found.get(`mistakes.ts:${i + 2}`) ?? "no error";
      assertStringIncludes(message.replaceAll('\\"', '"'), line.split(MARK)[1], source[i + 1]);
      // It would hide that a shape is unknown, or another one.
      assert(!message.includes("cannot be assigned to the mutable type"), message);
      count++;
    });
    assert(count >= 60, `${count} mistakes`);
    assertEquals(found.size, count, "errors in other lines");
  });

  // What the compiler computes, on any machine; 1.0 million at the time of writing.
  it("type-checking does not explode", () => {
    console.log(`${instantiations} instantiations`);
    assertLess(instantiations, 1_500_000);
  });
});

/**
 * Types: the programs in tests/types/ compile, and mistakes show the messages noted next to them.
 *
 * Runs `deno check` once, under either runtime; it needs no tensor at run time.
 *
 * @module
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { describe, it } from "node:test";
import { pathToFileURL } from "node:url";
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
    .replace('"./api.ts"', JSON.stringify(pathToFileURL(join(folder, "api.ts")).href)) +
    `export const big: Tensor<"float32", [50, 50]> = tensor(${JSON.stringify(rows)});\n` +
    // Deno skips a program that it has checked before; the time below must be that of a real check.
    `export const time = ${Date.now()};\n`;
}

/** The compiler's messages by file and line: `"mistakes.ts:12"`. */
function complaints(output: string): Map<string, string> {
  const found = new Map<string, string>();
  for (const part of output.split(/^(?=TS\d+ \[ERROR\])/m)) {
    const at = /^ +at .*[/\\](\w+\.ts):(\d+):\d+$/m.exec(part);
    if (at !== null) {
      const key = `${at[1]}:${at[2]}`;
      found.set(key, (found.get(key) ?? "") + part);
    } else if (part.includes("[ERROR]")) found.set("elsewhere", part);
  }
  return found;
}

describe("types", () => {
  let found = new Map<string, string>();
  let source: string[] = [];
  let seconds = 0;

  // In a test and not in a hook, whose time Bun limits.
  it("the compiler runs", { timeout: 120_000 }, () => {
    const temporary = mkdtempSync(join(tmpdir(), "rowmajor-types-"));
    const mistakes = join(temporary, "mistakes.ts");
    try {
      const text = withoutMarks();
      source = text.split("\n");
      writeFileSync(mistakes, text);
      const faults = join(root, "tests", "faults", "types");
      const files = [
        ...["shapes", "dtypes", "compile", "nn"].map((name) => join(folder, `${name}_types.ts`)),
        ...readdirSync(faults).filter((name) => name.endsWith("_types.ts"))
          .map((name) => join(faults, name)),
      ];
      const start = performance.now();
      const { stderr, status, error } = spawnSync(
        findTool("deno"),
        ["check", "--quiet", "--config", join(root, "deno.json"), mistakes, ...files],
        { env: { ...process.env, NO_COLOR: "1" }, encoding: "utf8" },
      );
      seconds = (performance.now() - start) / 1000;
      if (error) throw error;
      assertEquals(status, 1, stderr);
      found = complaints(stderr);
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
      count++;
    });
    assert(count >= 60, `${count} mistakes`);
    assertEquals(found.size, count, "errors in other lines");
  });

  // Four seconds on an idle machine, with a goal of ten; a bound that tight would fail on a busy
  // one.
  it("type-checking does not explode", () => {
    console.log(`type-checked in ${seconds.toFixed(1)} s`);
    assertLess(seconds, 60);
  });
});

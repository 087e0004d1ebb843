/**
 * The plugin for `deno lint`: a tensor in a condition, which is always true.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { findTool, root } from "../../scripts/tools.ts";

const WRONG = [
  "if (x.greater(1)) f();",
  "while (x.less(y)) f();",
  "do f(); while (x.equal(0));",
  "for (; x.notEqual(0);) f();",
  "x.isnan() ? f() : g();",
  "!x.isclose(y) && f();",
  "x.slice(0).any() || f();",
  "if (x.greater(1).all()) f();",
];

const RIGHT = [
  "if (x.greater(1).any().item()) f();",
  "if (x.item() > 1) f();",
  "where(x.greater(1), x, y);",
  "x.greater(1) ?? f();",
  "if (x.equals(y)) f();",
  "const mask = x.greater(1).logicalAnd(x.less(2));",
  "if (greater(1)) f();",
  "-x.less(1);",
];

test("tensors in conditions are reported, and scalars and calls of others are not", () => {
  const folder = mkdtempSync(join(tmpdir(), "rowmajor-lint-"));
  try {
    const plugins = [pathToFileURL(join(root, "src", "lint", "mod.ts")).href];
    const lint = { plugins, rules: { tags: [], include: ["rowmajor/condition"] } };
    writeFileSync(join(folder, "deno.json"), JSON.stringify({ lint }));
    writeFileSync(join(folder, "program.js"), [...WRONG, ...RIGHT].join("\n"));
    const { stdout } = spawnSync(findTool("deno"), ["lint", "--json", "program.js"], {
      cwd: folder,
      env: { ...process.env, NO_COLOR: "1" },
      encoding: "utf8",
    });
    const { diagnostics, errors } = JSON.parse(stdout) as {
      diagnostics: { range: { start: { line: number } }; code: string; hint: string }[];
      errors: unknown[];
    };
    assertEquals(errors, []);
    assertEquals(diagnostics.map(({ code }) => code), WRONG.map(() => "rowmajor/condition"));
    const lines = diagnostics.map(({ range }) => range.start.line).sort((a, b) => a - b);
    assertEquals(lines, WRONG.map((_, i) => i + 1));
    assertEquals(diagnostics.filter(({ hint }) => hint === "Add .item()").length, 2);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

/**
 * docs/add-an-op.md, carried out: inserts its blocks into a copy of the sources, runs the generator
 * there, and runs the new op. The excerpts of topk are lines of the sources.
 *
 * The new op runs on the JavaScript backend. Excludes golden data, which needs Python, and the
 * library, which takes minutes to build.
 *
 * @module
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { findTool, readText, root, start } from "../../scripts/tools.ts";
import { compileBlock } from "../docs/blocks.ts";
import { loose } from "../support.ts";

const page = readText("docs/add-an-op.md");

/** The text of the only block of the page that matches. */
function blockOf(pattern: RegExp): string {
  const blocks = [...page.matchAll(/^```(?:text|sh)\n([\s\S]*?)^```$/gm)].map(([, text]) => text!);
  const found = blocks.filter((text) => pattern.test(text));
  assertEquals(found.length, 1, `${found.length} blocks of the page match ${pattern}`);
  return found[0]!;
}

/** Puts `text` below the only line that matches, indented by two spaces. */
function insertBelow(path: string, line: RegExp, text: string): void {
  const lines = readFileSync(path, "utf8").replaceAll("\r\n", "\n").split("\n");
  const places = lines.flatMap((line_, n) => line.test(line_) ? [n] : []);
  assertEquals(places.length, 1, `${path}: ${places.length} lines match ${line}`);
  lines.splice(places[0]! + 1, 0, text.replace(/^(?=.)/gm, "  "));
  writeFileSync(path, lines.join("\n"));
}

/** Runs deno in a folder. */
async function deno(cwd: string, ...args: string[]): Promise<void> {
  const lines: string[] = [];
  const code = await start(findTool("deno"), args, { cwd, onLine: (line) => lines.push(line) });
  assertEquals(code, 0, lines.join("\n"));
}

test("what docs/add-an-op.md says makes an op that computes", async () => {
  const folder = mkdtempSync(join(tmpdir(), "rowmajor-op-"));
  try {
    for (
      const path of [
        "mod.ts",
        "deno.json",
        "package.json",
        "src",
        "scripts",
        "shim/core/ops.def",
        "shim/include",
      ]
    ) {
      cpSync(join(root, path), join(folder, path), { recursive: true });
    }
    // For the types of Node, which the check below needs.
    symlinkSync(join(root, "node_modules"), join(folder, "node_modules"), "junction");
    insertBelow(join(folder, "src", "table", "table.ts"), /^ {2}gelu:/, blockOf(/^softplus: /));
    insertBelow(
      join(folder, "src", "tensor", "tensor.ts"),
      /^ {2}\/\/ -+ elementwise -+$/,
      blockOf(/^softplus\(options/m),
    );

    const commands = blockOf(/generate\/ops_def/).split("\n");
    const [generate] = commands.filter((line) => line.includes("generate/ops_def"));
    const [command, ...args] = generate!.replace(/#.*/, "").trim().split(/\s+/);
    assertEquals(command, "deno");
    await deno(folder, ...args);
    const before = readText("shim/core/ops.def").split("\n");
    const made = readFileSync(join(folder, "shim", "core", "ops.def"), "utf8").split("\n");
    const added = made.filter((line) => !before.includes(line));
    assertEquals([added.length, made.length], [1, before.length + 1], "more than one line differs");
    assertStringIncludes(
      added[0]!,
      "RM_COMPUTE_BOUND_MAP(softplus, 1, same, RM_CALL(logaddexp)(x, 0),)",
    );

    const use = blockOf(/softplus\(\)/);
    const modUrl = pathToFileURL(join(folder, "mod.ts")).href;
    const example = join(folder, "example.ts");
    writeFileSync(example, use.replace("@rowmajor/tensor", "./mod.ts"));
    // Once is enough: the compiler says the same in both runtimes.
    if ("Deno" in globalThis) await deno(folder, "check", "example.ts");
    const compiled = compileBlock({
      file: "docs/add-an-op.md",
      line: page.slice(0, page.indexOf(use)).split("\n").length - 1,
      ...{ language: "ts", mode: "run", reason: "" },
      lines: use.split("\n"),
    });
    assertStringIncludes(compiled, "softplus");
    writeFileSync(example, compiled.replace(/"[^"]*\/mod\.ts"/, JSON.stringify(modUrl)));
    await import(pathToFileURL(example).href);
    const copy = await import(modUrl);
    assertEquals(copy.info().devices.cpu, "js");
    const x = copy.linspace(-8, 8, 33, { dtype: "float64" });
    assert(x.softplus().allclose(x.exp().log1p(), { rtol: 1e-14 }));
    assertEquals(loose(await import("../../mod.ts")).Tensor.prototype.softplus, undefined);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("what docs/add-an-op.md shows of topk is in the sources", () => {
  const [, rest] = page.split("\n## A kernel op\n");
  const [section] = rest!.split("\n## ");
  const [list] = section!.split("\n### ");
  const files = [...list!.matchAll(/^\| `([^`]+)`/gm)].map(([, file]) => file!);
  assertEquals(files.length, 7);
  const lines = new Set(
    files.flatMap((file) => readText(file).split("\n")).map((line) => line.trim()),
  );
  const shown = [...section!.matchAll(/^```(?:text|c)\n([\s\S]*?)^```$/gm)]
    .flatMap(([, text]) => text!.split("\n"))
    .map((line) => line.trim())
    .filter((line) => line !== "…");
  assert(shown.length > 30);
  assertEquals(shown.filter((line) => !lines.has(line)), []);
});

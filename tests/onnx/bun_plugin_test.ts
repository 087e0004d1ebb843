/**
 * The plugin of Bun's bundler for executables of programs that use transformers.js.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const inBun = "Bun" in globalThis;
const module = fileURLToPath(new URL("../../src/onnx/bun.ts", import.meta.url));

test(`programs that import sharp bundle${inBun ? "" : " (needs Bun's bundler)"}`, {
  skip: !inBun,
}, () => {
  const folder = mkdtempSync(join(tmpdir(), "rowmajor-bundle-"));
  try {
    writeFileSync(
      join(folder, "main.ts"),
      `import sharp from "sharp";
      console.log(typeof sharp);
      try { sharp("a.png"); } catch (error) { console.log((error as Error).message); }`,
    );
    writeFileSync(
      join(folder, "build.ts"),
      `import { plugin } from ${JSON.stringify(module)};
      const made = await Bun.build({ entrypoints: ["main.ts"], outdir: "out", target: "bun", plugins: [plugin] });
      if (!made.success) throw new AggregateError(made.logs);`,
    );
    const run = (file: string): string =>
      execFileSync(process.execPath, [file], { cwd: folder, encoding: "utf8" });
    assertEquals(run("build.ts"), "");
    const [type, error] = run(join("out", "main.js")).trim().split("\n");
    assertEquals(type, "function");
    assert(error!.includes("pass pixels as a RawImage"), error);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

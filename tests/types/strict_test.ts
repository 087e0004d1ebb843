/**
 * The sources of all entry points compile under the stricter options of a user:
 * noPropertyAccessFromIndexSignature, exactOptionalPropertyTypes …
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { ENTRIES, findTool, root } from "../../scripts/tools.ts";

test("the sources of all entry points compile under the strictest options", () => {
  const folder = mkdtempSync(join(tmpdir(), "rowmajor-strict-"));
  try {
    const config = {
      extends: join(root, "node_modules/@tsconfig/strictest/tsconfig.json"),
      compilerOptions: {
        ...{ target: "esnext", module: "preserve", moduleResolution: "bundler", noEmit: true },
        ...{ lib: ["esnext"], types: ["node"], allowImportingTsExtensions: true },
        typeRoots: [join(root, "node_modules/@types")],
      },
      files: Object.values(ENTRIES).map((file) => join(root, file)),
    };
    const path = join(folder, "tsconfig.json");
    writeFileSync(path, JSON.stringify(config));
    const tsc = join(root, "node_modules/typescript-7.0/bin/tsc");
    const args = [tsc, "--pretty", "false", "-p", path];
    const { status, stdout } = spawnSync(findTool("bun"), args, { cwd: root, encoding: "utf8" });
    assertEquals([status, stdout], [0, ""]);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

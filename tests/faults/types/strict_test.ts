/**
 * Faults of types: what a user's compiler says of the packages.
 *
 * tests/package/typescript_test.ts compiles programs against both packages with five compilers.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ENTRIES, findTool, root } from "../../../scripts/tools.ts";
import { fault } from "../support.ts";

fault({
  entry: 16,
  kind: "the sources had errors under the stricter options of a user",
  others: [
    "noPropertyAccessFromIndexSignature and exactOptionalPropertyTypes",
    "the generated src/backend/ffi/embedded.ts",
  ],
}, () => {
  const folder = mkdtempSync(join(tmpdir(), "rowmajor-faults-"));
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

/**
 * A page in Chromium that bundles the npm package and loads the WebAssembly module.
 *
 * The browser is a package of its own, tests/browser/package.json, which this test installs.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { spawnSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { stageNpm } from "../../scripts/release/package.ts";
import { findTool, root } from "../../scripts/tools.ts";
import { librariesIn, temporary } from "../package/support.ts";

const folder = join(root, "tests", "browser");
const wasm = join(root, "zig-out", "wasm", "rowmajor.wasm");

/** Runs a tool; returns what it prints. */
function run(path: string, args: readonly string[], cwd: string): string {
  const { status, stdout, stderr } = spawnSync(path, args, { cwd, encoding: "utf8" });
  if (status !== 0) throw new Error(`${path} ${args[0]}:\n${stdout}\n${stderr}`);
  return stdout;
}

/** Why the test cannot run; false if it can. */
function whyNot(): string | false {
  if (!existsSync(wasm)) return "needs zig-out/wasm/rowmajor.wasm: zig build";
  if (spawnSync("node", ["--version"]).status !== 0) return "needs Node, which starts the browser";
  if (process.platform !== "linux" || process.arch !== "x64") return "the browser is for linux-x64";
  return false;
}

/** What the page computes. */
interface Computed {
  readonly backend: string;
  readonly product: number;
  readonly sorted: number;
  readonly transform: number;
  readonly compiled: number;
  readonly data: readonly number[];
}

test("a page computes with the module, and without it", { skip: whyNot() }, async (t) => {
  if (!existsSync(join(folder, "node_modules"))) {
    run("npm", ["ci", "--ignore-scripts", "--no-audit"], folder);
  }
  using stage = temporary();
  const app = join(stage.path, "app"), page = join(stage.path, "page");
  await stageNpm(join(app, "node_modules", "@rowmajor", "tensor"), librariesIn(stage.path));
  copyFileSync(join(folder, "page.mjs"), join(app, "page.mjs"));
  run(findTool("bun"), ["build", "--target=browser", `--outdir=${page}`, "page.mjs"], app);
  mkdirSync(page, { recursive: true });
  copyFileSync(wasm, join(page, "rowmajor.wasm"));
  writeFileSync(join(page, "index.html"), '<script type="module" src="page.js"></script>\n');
  const opened = spawnSync("node", [join(folder, "open.mjs"), page], { encoding: "utf8" });
  if (/error while loading shared libraries/.test(opened.stderr)) {
    return t.skip(`the browser needs a library: ${opened.stderr.match(/lib\S+\.so[.\d]*/)?.[0]}`);
  }
  assertEquals(opened.status, 0, opened.stderr);
  const told = JSON.parse(opened.stdout) as {
    js: Computed;
    wasm: Computed;
    runtime: string;
    error?: string;
  };
  assertEquals(told.error, undefined);
  assertEquals([told.js.backend, told.wasm.backend, told.runtime], ["js", "wasm", "other"]);
  assertEquals(told.js.data, [1000, 1001]);
  assertEquals(told.wasm.data, told.js.data);
  assertEquals(told.wasm.sorted, told.js.sorted);
  for (const name of ["product", "transform", "compiled"] as const) {
    const [a, b] = [told.js[name], told.wasm[name]];
    assert(Math.abs(a - b) <= 1e-4 * Math.abs(a), `${name}: ${a} and ${b}`);
  }
});

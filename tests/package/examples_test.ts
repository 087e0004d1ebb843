/**
 * Examples that read files of their own, compiled by the plain commands of the runtimes, which take
 * modules only: the data set, models and the page of the server are modules.
 *
 * @module
 */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { root } from "../../scripts/tools.ts";
import { amount } from "../support/amount.ts";
import { inDeno, run, temporary } from "./support.ts";

const exe = process.platform === "win32" ? ".exe" : "";

/** Runs a program to its end, and returns its output; throws unless it exits with 0. */
function output(path: string, args: readonly string[], cwd: string, input = ""): string {
  const env = { ...process.env, NO_COLOR: "1", ROWMAJOR_CACHE: join(cwd, "cache") };
  const { status, stdout, stderr } = spawnSync(path, args, { cwd, env, input, encoding: "utf8" });
  assertEquals(status, 0, stdout + stderr);
  return stdout;
}

const DIGIT = Array.from({ length: 64 }, (_, i) => i % 17).join() + "\n";

/** The programs, and what shows that they read their files; `npm test` compiles the first one. */
const PROGRAMS: readonly [main: string, args: readonly string[], expected: string][] = [
  ["examples/digits/classify.ts", ["--json"], '{"results":[{"file":"-","digit":'],
  ["examples/digits/main.ts", [], "accuracy: 97.8%"],
  ["examples/server/main.ts", ["--help"], "usage: main.ts"],
];

/** Compiles a program by the plain command, and runs it in an empty folder that is read-only. */
function compileAndRun([main, args, expected]: (typeof PROGRAMS)[number]): void {
  using folder = temporary();
  const out = join(folder.path, `program${exe}`);
  const command = inDeno ? ["compile", "-A", "--no-check"] : ["build", "--compile"];
  const to = inDeno ? `--output=${out}` : `--outfile=${out}`;
  output(process.execPath, [...command, to, main], root);
  const empty = join(folder.path, "empty");
  mkdirSync(empty);
  chmodSync(empty, 0o555);
  assertStringIncludes(output(out, args, empty, DIGIT), expected);
}

const withRuntime = {
  skip: inDeno && process.env.DENORT_BIN === undefined &&
    "deno compile downloads a runtime unless DENORT_BIN names one",
};

test("an example compiled by the plain command runs in an empty folder", withRuntime, () => {
  for (const program of PROGRAMS.slice(0, amount(1, 3))) compileAndRun(program);
});

const withPermissions = { skip: !inDeno && "permissions are Deno's" };

test("without permissions the examples find their data and models", withPermissions, async () => {
  using folder = temporary();
  const large = join(folder.path, "large.ts");
  const module = JSON.stringify(pathToFileURL(join(root, "examples/digits/large.ts")).href);
  writeFileSync(
    large,
    `import { loadLargeModel } from ${module};
    console.log((await loadLargeModel()).bias3.shape.join());`,
  );
  for (
    const [main, expected] of [
      [join(root, "examples/digits/main.ts"), "accuracy: 97.8%"],
      [large, "10"],
    ] as const
  ) {
    // Without permissions a program reads its modules only.
    const args = ["run", "--no-prompt", "--no-check", main];
    const { code, stdout, stderr } = await run(process.execPath, args, { cwd: folder.path });
    assertEquals(code, 0, stderr);
    assertStringIncludes(stdout, expected);
  }
});

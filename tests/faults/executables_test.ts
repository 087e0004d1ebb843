/**
 * Faults of executables and bundles: what is missing, or has another name, once a program is one.
 *
 * @module
 */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { fault } from "./support.ts";
import { root } from "../../scripts/tools.ts";

const inDeno = "Deno" in globalThis;
const exe = process.platform === "win32" ? ".exe" : "";

/** A folder that is removed when it goes out of scope. */
function temporary(): Disposable & { readonly path: string } {
  const path = realpathSync(mkdtempSync(join(tmpdir(), "rowmajor-faults-")));
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) };
}

/** Runs a program to its end, and returns its output; throws unless it exits with 0. */
function output(path: string, args: readonly string[], cwd: string, input = ""): string {
  const env = { ...process.env, NO_COLOR: "1", ROWMAJOR_CACHE: join(cwd, "cache") };
  const { status, stdout, stderr } = spawnSync(path, args, { cwd, env, input, encoding: "utf8" });
  assertEquals(status, 0, stderr);
  return stdout;
}

const DIGIT = Array.from({ length: 64 }, (_, i) => i % 17).join() + "\n";

/** The programs of the examples that read files of their own, and what shows that they did. */
const PROGRAMS: readonly [main: string, args: readonly string[], expected: string][] = [
  ["examples/digits/main.ts", [], "accuracy: 97.8%"],
  ["examples/digits/classify.ts", ["--json"], '{"results":[{"file":"-","digit":'],
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

fault({
  entry: 15,
  kind: "an example compiled by the plain command died on a missing file",
  others: ["the data set", "the larger model", "the server"],
  skip: inDeno && process.env.DENORT_BIN === undefined &&
    "deno compile downloads a runtime unless DENORT_BIN names one",
}, () => {
  for (const program of PROGRAMS) compileAndRun(program);
});

fault({
  entry: 15,
  kind: "an example read files that are no modules, which deno compile leaves out",
  others: ["the data set", "the larger model"],
  skip: !inDeno && "permissions are Deno's",
}, () => {
  using folder = temporary();
  for (const [main, args, expected] of PROGRAMS) {
    // Without permissions a program reads its modules only. The server needs its options parsed.
    const run = ["run", "--no-prompt", "--no-check", join(root, main), ...args];
    assertStringIncludes(output(process.execPath, run, folder.path, DIGIT), expected);
  }
});

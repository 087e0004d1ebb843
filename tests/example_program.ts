/**
 * Examples as users run them: by this runtime, and as its executables.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { spawnSync, type SpawnSyncReturns } from "node:child_process";
import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../", import.meta.url));
const inDeno = "Deno" in globalThis;

/** Whether this runtime cannot make executables here. */
export const withoutDenort = inDeno && process.env.DENORT_BIN === undefined;
/** The reason in names of tests that are skipped. */
export const whyNoExecutable = withoutDenort
  ? " (skipped: deno compile needs DENORT_BIN here)"
  : "";

/** What a program prints without the progress of loading, which slow machines show. */
export const withoutProgress = (stderr: string): string => stderr.replace(/^loading .*\n/gm, "");

/** Runs the example at a path, such as `embed/main.ts`. */
export function runExample(path: string, ...args: string[]): SpawnSyncReturns<string> {
  const program = join(root, "examples", path);
  const start = inDeno ? ["run", "-A", "--no-check", program] : [program];
  return spawnSync(process.execPath, [...start, ...args], { encoding: "utf8" });
}

/**
 * Makes an executable of the example at a path, with files inside (`FILE=NAME`), runs it alone in
 * another folder, and returns what it prints.
 */
export function runExecutable(
  path: string,
  includes: readonly string[],
  ...args: string[]
): string {
  const elsewhere = mkdtempSync(join(tmpdir(), "rowmajor-executable-"));
  const name = process.platform === "win32" ? "run.exe" : "run";
  try {
    const out = join(elsewhere, `made-${name}`);
    const script = join(root, "scripts", "release", "executable.ts");
    const made = spawnSync(process.execPath, [
      ...inDeno ? ["run", "-A", script] : [script],
      join(root, "examples", path),
      `--runtime=${inDeno ? "deno" : "bun"}`,
      ...includes.map((include) => `--include=${include}`),
      `--out=${out}`,
    ], { encoding: "utf8", cwd: root });
    assertEquals([made.status, made.stdout.trim()], [0, out], made.stderr);
    const moved = join(elsewhere, name);
    copyFileSync(out, moved);
    rmSync(out);
    const { status, stdout, stderr } = spawnSync(moved, args, { encoding: "utf8", cwd: elsewhere });
    assertEquals([status, withoutProgress(stderr)], [0, ""]);
    return stdout;
  } finally {
    rmSync(elsewhere, { recursive: true });
  }
}

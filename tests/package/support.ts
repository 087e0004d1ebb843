/**
 * Shared code of the tests of packages: their contents, folders, and programs in processes and
 * environments of their own.
 *
 * @module
 */
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { spawn } from "node:child_process";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import {
  builtLibraries,
  FAST_QUALITY,
  HOST,
  type Libraries,
  packed,
  TARGETS,
} from "../../scripts/release/package.ts";
import { assertEquals } from "@std/assert";
import { root } from "../../scripts/tools.ts";
import { inDeno } from "../native/support.ts";

export { inDeno };

/** `test`, or `test.skip` if there is no library for this machine, with the reason. */
export const check: typeof test | typeof test.skip = HOST in TARGETS ? test : test.skip;
if (!(HOST in TARGETS)) console.log(`Packages are not tested: no library is built for ${HOST}`);

/** A folder that is removed when it goes out of scope. */
export function temporary(): Disposable & { readonly path: string } {
  const path = realpathSync(mkdtempSync(join(tmpdir(), "rowmajor-package-")));
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) };
}

/**
 * This machine's library, and a small file instead of the kernels, which no library here reads:
 * compiling those takes long.
 */
export function librariesIn(folder: string): Libraries {
  const libraries = builtLibraries(HOST);
  const kernels = join(folder, "kernels.bin");
  writeFileSync(kernels, Uint8Array.from({ length: 1000 }, (_, i) => i % 251));
  const files = [libraries[HOST]![0]!, packed(kernels, "rowmajor-ptx.bin")];
  return { [HOST]: files.map((file) => ({ ...file, quality: FAST_QUALITY })) };
}

/** Makes an executable of a program by this runtime; `args` are those of scripts/release/executable.ts. */
export async function makeExecutable(out: string, args: readonly string[]): Promise<void> {
  const script = join(root, "scripts", "release", "executable.ts");
  const runtime = inDeno ? "deno" : "bun";
  const { code, stdout, stderr } = await run(
    process.execPath,
    [...inDeno ? ["run", "-A"] : [], script, ...args, `--out=${out}`, `--runtime=${runtime}`],
    { cwd: root, env: process.env as Record<string, string> },
  );
  assertEquals([code, stdout.trim()], [0, out], stderr);
}

/** The output of a process, and how it ended. */
export interface Outcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

interface DenoCommand {
  Command: new (path: string, options: object) => {
    output(): Promise<{ code: number; stdout: Uint8Array; stderr: Uint8Array }>;
  };
}

/** Variables that systems need to start any program. */
const NEEDED = ["PATH", "SystemRoot", "SystemDrive", "windir", "PATHEXT", "COMSPEC"];

/** Starts a program with `env` and little more in its environment, and waits for its end. */
export async function run(
  path: string,
  args: readonly string[],
  options: { readonly cwd: string; readonly env?: Readonly<Record<string, string>> },
): Promise<Outcome> {
  const env: Record<string, string> = { NO_COLOR: "1", ...options.env };
  for (const name of NEEDED) env[name] ??= process.env[name] ?? "";
  if (inDeno) {
    // Deno's node:child_process would add permissions.
    const { Command } = (globalThis as unknown as { Deno: DenoCommand }).Deno;
    const settings = { args, cwd: options.cwd, env, clearEnv: true, stdin: "null" };
    const { code, stdout, stderr } = await new Command(path, settings).output();
    const text = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);
    return { code, stdout: text(stdout), stderr: text(stderr) };
  }
  return await new Promise((resolve, reject) => {
    const child = spawn(path, args, { cwd: options.cwd, env, stdio: ["ignore", "pipe", "pipe"] });
    const said = { stdout: "", stderr: "" };
    child.stdout.on("data", (data) => said.stdout += data);
    child.stderr.on("data", (data) => said.stderr += data);
    child.on("error", reject);
    child.on("close", (code) => resolve({ code: code ?? 1, ...said }));
  });
}

/** A program that multiplies matrices of `specifier`, also compiled, and reports the backend. */
export function program(specifier: string): string {
  const entry = (name: string): string =>
    JSON.stringify(
      /\/mod\.[jt]s$/.test(specifier)
        ? specifier.replace(/mod\.[jt]s$/, `src/${name}/$&`)
        : `${specifier}/${name}`,
    );
  return `import { arange, info } from ${JSON.stringify(specifier)};
import { compile } from ${entry("compile")};
import { profile } from ${entry("profile")};
const x = arange(6, { dtype: "float64" }).reshape([2, 3]);
const square = compile((a) => a.matmul(a.T));
const { result, rows } = profile(() => square(x));
const { devices, backends, runtime } = info();
console.log(JSON.stringify({
  product: x.matmul(x.T).toArray(),
  compiled: result.toArray(),
  rows: rows.map(({ op }) => op),
  cpu: devices.cpu,
  native: backends.native,
  runtime,
}));
`;
}

/**
 * A program that imports `specifier`, and prints the globals of Node that the import has read, and
 * those with one that the program reads. Deno loads modules of Node for the first reader of each.
 */
export function globalsRead(specifier: string): string {
  return `const names = ["setImmediate", "setTimeout", "setInterval", "process", "Buffer"];
const seen = [];
for (const name of names) {
  const value = Object.getOwnPropertyDescriptor(globalThis, name);
  Object.defineProperty(globalThis, name, {
    configurable: true,
    get: () => (seen.push(name), value.get ? value.get.call(globalThis) : value.value),
  });
}
await import(${JSON.stringify(specifier)});
const read = seen.join();
setImmediate;
console.log(JSON.stringify([read, seen.join()]));
`;
}

/** The report of {@link program}. */
export interface Told {
  readonly product: number[][];
  readonly compiled: number[][];
  /** The names in the profile of the compiled function. */
  readonly rows: string[];
  readonly cpu: string;
  readonly native: string;
  readonly runtime: string;
}

const served = new Map<string, number>();

/** Prints the backends that ran the programs of this file, and how often. */
export function report(): void {
  if (served.size > 0) console.log(Array.from(served, ([name, n]) => `${name}: ${n}`).join(", "));
  served.clear();
}

/** The report of a program; an Error with its whole output if there is none. */
export function told({ code, stdout, stderr }: Outcome): Told {
  if (code !== 0) throw new Error(`exited with ${code}: ${stdout}${stderr}`);
  const result = JSON.parse(stdout) as Told;
  for (const product of [result.product, result.compiled]) {
    if (JSON.stringify(product) !== "[[5,14],[14,50]]") throw new Error(stdout);
  }
  if (!result.rows.some((op) => op.startsWith("compiled"))) throw new Error(stdout);
  const name = `served by ${result.cpu} in ${result.runtime}`;
  served.set(name, (served.get(name) ?? 0) + 1);
  return result;
}

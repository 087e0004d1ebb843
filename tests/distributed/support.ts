/**
 * Shared code of the tests of several processes: which implementations of MPI are there, and programs
 * that their launchers start.
 *
 * @module
 */
import { spawn } from "node:child_process";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { findMpis, launcherFlags, type Mpi, MPI_PACKAGES } from "../../scripts/mpi.ts";
import { root } from "../../scripts/tools.ts";
import { RUNS_ALL } from "../support/amount.ts";

export type { Mpi };

const inDeno = "Deno" in globalThis;

/** The implementations that are there. */
export const MPIS: readonly Mpi[] = findMpis();

/** One implementation; all with ROWMAJOR_TEST_ALL=1. */
export const ONE_MPI: readonly Mpi[] = RUNS_ALL ? MPIS : MPIS.slice(0, 1);

/** The first implementation of the other kind, with another ABI and launcher; none if there is none. */
export const OTHER_MPI: readonly Mpi[] = MPIS
  .filter(({ isOpenMpi }) => isOpenMpi !== MPIS[0]!.isOpenMpi).slice(0, 1);

/** An implementation of each kind in Deno, one in Bun; all with ROWMAJOR_TEST_ALL=1. */
export const BOTH_KINDS: readonly Mpi[] = RUNS_ALL || !inDeno
  ? ONE_MPI
  : [...ONE_MPI, ...OTHER_MPI];

const missing = Object.keys(MPI_PACKAGES).filter((name) => !MPIS.some((mpi) => mpi.name === name));
if (missing.length > 0) {
  console.log(`MPI: no ${missing.join(" and no ")}, which "deno task mpi" installs`);
}

/** An error that a rank has printed. */
export interface Told {
  readonly op: string;
  readonly rank: number;
  readonly peer: number;
  readonly message: string;
  readonly seconds: number;
}

/** The errors that ranks have printed, by rank. */
export function toldBy({ stdout }: Outcome): Told[] {
  const lines = stdout.split("\n").filter((line) => line.startsWith("{"));
  return lines.map((line) => JSON.parse(line) as Told).sort((a, b) => a.rank - b.rank);
}

/** All that ranks have printed, for messages. */
export function textOf({ code, stdout, stderr }: Outcome): string {
  return `${code}\n${stdout}${stderr}`;
}

/** The output of ranks, and how their launcher ended. */
export interface Outcome {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
  readonly seconds: number;
}

/** How ranks are started. */
export interface RankOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly args?: readonly string[];
  /** The launcher is killed after so many seconds: 60 by default. */
  readonly limit?: number;
  /** Called with each piece of what ranks write to stdout, and with their launcher. */
  readonly onOutput?: (text: string, launcher: { kill(signal: "SIGINT"): unknown }) => void;
}

/** The command line of a rank in this runtime. */
export function command(program: string, args: readonly string[] = []): string[] {
  const path = join(root, program);
  return [process.execPath, ...inDeno ? ["run", "-A", "--no-check"] : [], path, ...args];
}

/** Runs `size` ranks of a program, a path from the root of the repository. */
export function ranks(
  mpi: Mpi,
  size: number,
  program: string,
  options: RankOptions = {},
): Promise<Outcome> {
  return ranksOf(mpi, size, command(program, options.args), options);
}

/** Runs `size` ranks of a command line. */
export function ranksOf(
  mpi: Mpi,
  size: number,
  line: readonly string[],
  options: RankOptions = {},
): Promise<Outcome> {
  const args = [...launcherFlags(mpi), "-n", String(size), ...line];
  return launch(mpi.launcher, args, { ...options, env: { ...mpi.env, ...options.env } });
}

/** Runs a launcher, or anything else, to its end. */
export function launch(
  path: string,
  args: readonly string[],
  options: RankOptions,
): Promise<Outcome> {
  const { env, limit = 60, onOutput } = options;
  const { VIRTUAL_ENV: _, ...inherited } = process.env;
  const begin = performance.now();
  const child = spawn(path, args, {
    cwd: root,
    env: { ...inherited, NO_COLOR: "1", ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const timer = setTimeout(() => child.kill("SIGKILL"), limit * 1e3);
  let [stdout, stderr] = ["", ""];
  child.stdout.on("data", (data) => {
    stdout += data;
    onOutput?.(String(data), child);
  });
  child.stderr.on("data", (data) => stderr += data);
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code) => {
      clearTimeout(timer);
      resolve({ code, stdout, stderr, seconds: (performance.now() - begin) / 1e3 });
    });
  });
}

/** Defines a test for each implementation; where there is none, a skipped one. */
export function testEach(
  name: string,
  body: (mpi: Mpi) => Promise<void>,
  mpis: readonly Mpi[] = ONE_MPI,
): void {
  for (const mpi of mpis) test(`${mpi.name}: ${name}`, () => body(mpi));
  if (MPIS.length === 0) test.skip(`no MPI is installed: ${name}`, () => {});
}

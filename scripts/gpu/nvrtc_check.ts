/**
 * Compiles every kernel for every architecture with NVIDIA's own compiler, which needs no GPU, and
 * compares registers and spills with the saved figures.
 *
 * `bench/results/nvrtc.tsv.gz` contains the results: for each family of kernels a hash of its whole
 * source and the finished architectures, for each kernel its figures. Only changed families are
 * compiled again. Any compiler message, more spills, and more than 8 additional registers are
 * failures; their figures are not saved, so that they fail again until `--save`.
 *
 * The compiler is that of `.venv`, or one that the library finds, else the pinned wheel, which pip
 * installs in `.venv`. Without a compiler, changed kernels are not checked; the script reports
 * this, and fails only with `--require`.
 *
 *   --all             compiles what has not changed, too
 *   --save            keeps the figures of kernels that got worse
 *   --require         fails where there is no compiler
 *   --check           keeps nothing, but says what is not kept
 *   --no-install      asks pip for nothing
 *   --seconds=N       starts no family after N seconds, and prints the number of the rest
 *   --arch=90,120     leaves out the other architectures
 *   --processes=N     runs N compilers in parallel, not one for each processor
 *   --worst           shows the kernels that spill most, and those with most registers
 *   text              leaves out the families whose names do not contain it
 *
 * @module
 */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { availableParallelism } from "node:os";
import process from "node:process";
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";
import { installWheel, venv } from "../../bench/harness/python.ts";
import { allFamilies, type NamedFamily } from "../../src/backend/cuda/families.ts";
import { openShim } from "../../src/backend/ffi/load.ts";
import {
  ARCHITECTURES,
  type Figures,
  hashOf,
  LOADS,
  optionsText,
  readReport,
  readStore,
  REGISTERS,
  STACK,
  type Store,
  STORES,
  wholeText,
  worse,
  writeStore,
} from "./nvrtc_figures.ts";
import { root } from "../tools.ts";

/** The first architecture to compile: that of the card with tuning priority. */
const FIRST = 90;
/** 12.8 is the first version that supports all architectures. */
const OLDEST = 1208;
const WHEEL = { name: "nvidia-cuda-nvrtc", version: "13.2.86" } as const;

// ---- the one who compiles ----------------------------------------------------------------------

interface Answer {
  /** The compiler's version, in the first line only, or why there is none. */
  readonly version?: string;
  readonly reason?: string;
  /** The compiler's figures and other output, or why it failed. */
  readonly report?: string;
  readonly failed?: boolean;
}

const TRIVIAL = 'extern "C" __global__ void nothing() {}';

/** Answers each line, the index of a family and an architecture, with a line of JSON. */
async function work(): Promise<void> {
  const say = (answer: Answer): void => console.log(JSON.stringify(answer));
  const shim = openShim();
  if ("reason" in shim) return say({ reason: shim.reason });
  const text = (value: string): Uint8Array => new TextEncoder().encode(`${value}\0`);
  const buffer = new Uint8Array(1 << 18);
  const read = (length: number): string =>
    new TextDecoder().decode(buffer.subarray(0, Math.min(length, buffer.length - 1)));
  const compile = ({ source, names }: Omit<NamedFamily, "name">, architecture: number): Answer => {
    const handles = new Float64Array(names.length).fill(architecture);
    const status = shim.rm_cuda_compile(-1, text(source), text(names.join("\n")), handles);
    return { report: read(shim.rm_last_error(buffer, buffer.length)), failed: status !== 0 };
  };
  const probe = compile({ source: TRIVIAL, names: ["nothing"] }, FIRST);
  if (probe.failed) return say({ reason: probe.report! });
  const about = read(shim.rm_cuda_info(-1, buffer, buffer.length));
  say({ version: /^nvrtc\t([\d.]+)/m.exec(about)?.[1] ?? "unknown" });
  const families = allFamilies();
  for await (const line of createInterface({ input: process.stdin })) {
    const [place, architecture] = line.split(" ").map(Number) as [number, number];
    const { source, names } = families[place]!;
    say(compile({ source: wholeText(source), names }, architecture));
  }
}

/** A compiler process. */
class Compiler {
  readonly #child: ChildProcess;
  readonly #lines: AsyncIterator<string>;
  /** The compiler's version, or why there is none. */
  readonly ready: Promise<Answer>;

  constructor(env: NodeJS.ProcessEnv) {
    const args = ["Deno" in globalThis ? ["run", "-A"] : [], import.meta.filename!, "--worker"];
    this.#child = spawn(process.execPath, args.flat(), {
      cwd: root,
      env,
      stdio: ["pipe", "pipe", "inherit"],
    });
    const output = createInterface({ input: this.#child.stdout! });
    this.#lines = output[Symbol.asyncIterator]();
    this.ready = this.#next();
  }

  async #next(): Promise<Answer> {
    const { done, value } = await this.#lines.next();
    return done ? { failed: true, report: "the compiler's process ended" } : JSON.parse(value);
  }

  compile(place: number, architecture: number): Promise<Answer> {
    this.#child.stdin!.write(`${place} ${architecture}\n`);
    return this.#next();
  }

  end(): void {
    this.#child.stdin!.end();
  }
}

function showWorst(store: Store, architectures: readonly number[]): void {
  for (const architecture of architectures) {
    const rows = [...store.kernels].flatMap(([name, all]) => {
      const figures = all.get(architecture);
      return figures === undefined ? [] : [{ name, figures }];
    });
    const at = ({ figures }: { figures: Figures }, i: number): number => figures[i] ?? 0;
    const spilling = rows.filter((row) => at(row, STORES) + at(row, LOADS) > 0)
      .sort((a, b) => at(b, STORES) + at(b, LOADS) - at(a, STORES) - at(a, LOADS));
    console.log(`sm_${architecture}: ${spilling.length} of ${rows.length} kernels spill`);
    for (const row of spilling.slice(0, 40)) {
      console.log(
        `  ${row.name}: ${at(row, REGISTERS)} registers, ${at(row, STORES)} bytes of spill ` +
          `stores, ${at(row, LOADS)} of loads`,
      );
    }
    const stacked = rows.filter((row) => at(row, STACK) > 0 && at(row, STORES) === 0);
    console.log(`  ${stacked.length} more have a stack`);
    rows.sort((a, b) => at(b, REGISTERS) - at(a, REGISTERS));
    for (const row of rows.slice(0, 20)) {
      console.log(`  ${row.name}: ${at(row, REGISTERS)} registers`);
    }
  }
}

// ---- the run -----------------------------------------------------------------------------------

const { values: flags, positionals: wanted } = parseArgs({
  allowPositionals: true,
  options: {
    all: { type: "boolean" },
    save: { type: "boolean" },
    check: { type: "boolean" },
    require: { type: "boolean" },
    "no-install": { type: "boolean" },
    seconds: { type: "string", default: "Infinity" },
    arch: { type: "string" },
    processes: { type: "string" },
    worst: { type: "boolean" },
    worker: { type: "boolean" },
  },
});

interface Task {
  readonly place: number;
  readonly family: NamedFamily;
  readonly hash: string;
  readonly architecture: number;
}

/** Reports a compiler that does not support all architectures. */
function tooOld(version: string): string | undefined {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  return 100 * major + minor < OLDEST ? `NVRTC ${version} is older than 12.8` : undefined;
}

/**
 * Starts the requested number of processes, or returns why there is no compiler. Prefers the
 * compiler of `.venv`, which made the figures, over others that the library finds.
 */
async function openCompilers(count: number, install: boolean): Promise<Compiler[] | string> {
  const shim = openShim();
  if ("reason" in shim) {
    return `it is asked by the native library, which deno task build makes: ${shim.reason}`;
  }
  const own = { ...process.env, VIRTUAL_ENV: venv };
  const attempts: [env: NodeJS.ProcessEnv, prepare?: () => string | undefined][] = [];
  if (existsSync(venv)) attempts.push([own]);
  attempts.push([process.env]);
  if (install) attempts.push([own, () => installWheel(`${WHEEL.name}==${WHEEL.version}`)]);
  let reason: string | undefined;
  for (const [env, prepare] of attempts) {
    const failed = prepare?.();
    if (failed !== undefined) return `${reason}\n${failed}`;
    const compilers = Array.from({ length: count }, () => new Compiler(env));
    const ready = await compilers[0]!.ready;
    reason = ready.reason ?? ready.report ?? tooOld(ready.version!);
    if (reason === undefined) return compilers;
    compilers.forEach((compiler) => compiler.end());
  }
  return reason!;
}

async function main(): Promise<number> {
  const asked = flags.arch?.split(",").map(Number) ?? ARCHITECTURES;
  const architectures = ARCHITECTURES.filter((architecture) => asked.includes(architecture))
    .sort((a, b) => Number(b === FIRST) - Number(a === FIRST));
  const everything = allFamilies();
  const store = readStore();
  const options = optionsText();
  const tasks: Task[] = [];
  let kernels = 0;
  for (const [place, family] of everything.entries()) {
    if (wanted.length > 0 && !wanted.some((part) => family.name.includes(part))) continue;
    kernels += family.names.length;
    const hash = hashOf(family, options);
    const known = store.families.get(family.name);
    for (const architecture of architectures) {
      const done = known?.hash === hash && known.done.has(architecture);
      if (!done || flags.all) tasks.push({ place, family, hash, architecture });
    }
  }
  const all = kernels * architectures.length;
  const count = (list: readonly Task[]): number =>
    list.reduce((sum, { family }) => sum + family.names.length, 0);
  const old = all - count(tasks);
  // Groups tasks by architecture, long ones first.
  tasks.sort((a, b) =>
    architectures.indexOf(a.architecture) - architectures.indexOf(b.architecture) ||
    b.family.names.length - a.family.names.length
  );
  const failures: string[] = [];
  let compiled = 0;
  let without: string | undefined;
  if (tasks.length > 0) {
    const processes = Number(flags.processes ?? availableParallelism());
    const compilers = await openCompilers(
      Math.min(processes, tasks.length),
      !flags["no-install"],
    );
    if (typeof compilers === "string") without = compilers;
    else compiled = await compileAll(compilers, tasks, store, everything, failures);
  }
  if (flags.worst) showWorst(store, architectures);
  for (const failure of failures) console.log(failure);
  if (without !== undefined) {
    console.log(`NVRTC, the compiler of CUDA, is not here:\n${without}`);
  }
  const left = all - old - compiled;
  console.log(
    `${kernels} kernels × ${architectures.length} architectures = ${all}: ${compiled} compiled, ` +
      `${old} unchanged since NVRTC ${store.version || "?"} compiled them, ` +
      `${left > 0 ? `${left} NOT COMPILED, ` : ""}${failures.length} failures`,
  );
  return failures.length > 0 || (without !== undefined && flags.require) ? 1 : 0;
}

/** Compiles the requested kernels; returns the number of successes. */
async function compileAll(
  compilers: readonly Compiler[],
  tasks: readonly Task[],
  store: Store,
  everything: readonly NamedFamily[],
  failures: string[],
): Promise<number> {
  const { version = "unknown" } = await compilers[0]!.ready;
  if (store.version !== version) {
    // Figures of another compiler are not comparable.
    store.families.clear();
    store.kernels.clear();
    store.version = version;
  }
  const begin = performance.now();
  const seconds = Number(flags.seconds);
  const elapsed = (): number => (performance.now() - begin) / 1000;
  const keep = (): void => {
    if (!flags.check) writeStore(store, everything);
  };
  let next = 0, compiled = 0, saved = 0;
  const run = async (compiler: Compiler): Promise<void> => {
    await compiler.ready;
    while (next < tasks.length && elapsed() < seconds) {
      const task = tasks[next++]!;
      const { family, architecture } = task;
      const answer = await compiler.compile(task.place, architecture);
      const problems = judge(task, answer, store);
      if (problems.length === 0) compiled += family.names.length;
      failures.push(...problems);
      if (elapsed() - saved > 15) {
        saved = elapsed();
        keep();
        console.log(`${next} of ${tasks.length} families, ${saved.toFixed(0)} s`);
      }
    }
  };
  try {
    await Promise.all(compilers.map(run));
  } finally {
    keep();
    compilers.forEach((compiler) => compiler.end());
  }
  return compiled;
}

/** Saves the figures of `answer` if they are acceptable, else reports the problem. */
function judge({ family, hash, architecture }: Task, answer: Answer, store: Store): string[] {
  const what = `${family.name}, sm_${architecture}`;
  if (answer.failed !== false) return [`${what}: ${answer.report}`];
  const { figures, said } = readReport(answer.report!);
  if (said !== "") return [`${what}: the compiler said\n${said}`];
  const problems: string[] = [];
  for (const kernel of family.names) {
    const now = figures.get(kernel);
    if (now === undefined) problems.push(`${what}: no figures of ${kernel}`);
    else {
      const before = store.kernels.get(kernel)?.get(architecture);
      const how = flags.save ? undefined : worse(now, before);
      if (how !== undefined) problems.push(`${what}: ${kernel} went from ${how} (--save keeps it)`);
    }
  }
  if (problems.length > 0) return problems;
  for (const kernel of family.names) {
    let all = store.kernels.get(kernel);
    if (all === undefined) store.kernels.set(kernel, all = new Map());
    all.set(architecture, figures.get(kernel)!);
  }
  let known = store.families.get(family.name);
  if (known?.hash !== hash) {
    known = { hash, done: new Set() };
    store.families.set(family.name, known);
  }
  known.done.add(architecture);
  return [];
}

if (flags.worker) await work();
else process.exitCode = await main();

/**
 * Times rowmajor on a CUDA device next to PyTorch on the same device, in one run.
 *
 *     gpu.ts [--out=folder] [--scale=N] [--filter=text] [--no-torch] [--rounds=N] [--resume]
 *
 * Events of the device measure times, around enough calls to fill some milliseconds; inputs rotate,
 * so that none is still in the second-level cache. The two libraries take turns too, and figures
 * are medians over the rounds. The run starts with the ceiling for most other figures: a copy from
 * device to device, of whose rate the others print their part. Each row is one JSON line in
 * `folder`/bench.jsonl, written as soon as it is known.
 *
 * The run ends at the first row that fails, since no device works after a fatal error, with exit
 * status 3. `--filter` selects the rows whose group and name contain a text. `--resume` skips rows
 * that are in the file already, those that began but did not end too: scripts/gpu/verify.sh goes on
 * that way.
 *
 * @module
 */
import { type ChildProcess, spawn } from "node:child_process";
import { appendFileSync, existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import * as rm from "../mod.ts";
import { findCuda } from "../src/backend/cuda.ts";
import { CUDA_CONTROL, CUDA_MEMORY } from "../src/backend/ffi/abi.ts";
import { lastError, readCudaInfo } from "../src/backend/ffi/text.ts";
import { type GpuRow, gpuWork } from "./gpu_work.ts";
import type { Input, Tensors } from "./gpu_work.ts";
import { median } from "./harness/suite.ts";

const { values } = parseArgs({
  options: {
    out: { type: "string" },
    scale: { type: "string", default: "1" },
    filter: { type: "string", default: "" },
    "no-torch": { type: "boolean" },
    rounds: { type: "string", default: "7" },
    resume: { type: "boolean" },
  },
});
const { out, filter } = values;
const [scale, rounds] = [Number(values.scale), Number(values.rounds)];
/** The total size of inputs that rotate: several times any second-level cache. */
const ROTATED_BYTES = 2 ** 28 / scale;
/** The duration of a timing in milliseconds of the device. */
const FILL_MS = scale === 1 ? 15 : 1;

const found = findCuda();
if ("reason" in found) {
  console.error(`Cannot time a CUDA device: ${found.reason}`);
  process.exit(1);
}
const { shim } = found;

function control(what: number, numbers: Float64Array): void {
  if (shim.rm_cuda_control(what, 0, numbers) !== 0) throw new Error(lastError(shim));
}

/** Milliseconds of the device between two events around `run`. */
function onDevice(run: () => void): number {
  const [first, last] = [new Float64Array(1), new Float64Array(1)];
  control(CUDA_CONTROL.eventRecord, first);
  run();
  control(CUDA_CONTROL.eventRecord, last);
  const both = new Float64Array([first[0]!, last[0]!]);
  control(CUDA_CONTROL.eventElapsed, both);
  return both[0]!;
}

function onHost(run: () => void): number {
  const begin = performance.now();
  run();
  return performance.now() - begin;
}

/** PyTorch, if it is there and sees a device. */
class Torch {
  readonly #process: ChildProcess;
  readonly #lines: AsyncIterator<string>;
  /** Rejects if there is no such program. */
  readonly #missing: Promise<never>;
  about: { version?: string; device?: string } = {};

  constructor(python: string) {
    const script = fileURLToPath(new URL("gpu_peer.py", import.meta.url));
    this.#process = spawn(python, [script], { stdio: ["pipe", "pipe", "inherit"] });
    this.#missing = new Promise((_, reject) => this.#process.on("error", reject));
    // Requests report the failure.
    this.#missing.catch(() => {});
    this.#lines = createInterface({ input: this.#process.stdout! })[Symbol.asyncIterator]();
  }

  async #next(): Promise<Record<string, never>> {
    const { value, done } = await Promise.race([this.#lines.next(), this.#missing]);
    if (done) throw new Error("PyTorch ended early");
    const answer = JSON.parse(value);
    if (answer.error !== undefined) throw new Error(answer.error);
    return answer;
  }

  async ready(): Promise<void> {
    this.about = await this.#next();
  }

  async ask(request: object): Promise<{ ms?: number }> {
    this.#process.stdin!.write(JSON.stringify(request) + "\n");
    return await this.#next();
  }

  close(): void {
    this.#process.stdin!.end();
  }

  kill(): void {
    this.#process.kill();
  }
}

async function startTorch(): Promise<Torch | undefined> {
  if (values["no-torch"]) return undefined;
  const torch = new Torch(process.env.ROWMAJOR_PYTHON ?? "python3");
  try {
    await torch.ready();
    return torch;
  } catch (error) {
    torch.kill();
    console.log(`without PyTorch: ${(error as Error).message}`);
    return undefined;
  }
}

function make({ dtype, shape, below, positive }: Input, key: rm.random.Key): rm.Tensor<rm.DType> {
  const { integers, normal } = rm.random;
  const on = { device: "cuda" } as const;
  const x = below !== undefined
    ? integers(key, shape, 0, below, on)
    : dtype.includes("float")
    ? normal(key, shape, on)
    : integers(key, shape, 1, 101, on);
  return ((positive ? x.abs() : x) as rm.Tensor<"float32">).astype(dtype);
}

interface Figure {
  readonly group: string;
  readonly name: string;
  readonly us: number;
  readonly torchUs?: number;
  readonly ratio?: number;
  readonly rate?: number;
  readonly unit?: "TB/s" | "TFLOP/s";
  readonly target?: number;
}

function rateOf(row: GpuRow, us: number): Pick<Figure, "rate" | "unit"> {
  if (row.host) return {};
  if (row.flops !== undefined) return { rate: row.flops / us / 1e6, unit: "TFLOP/s" };
  return { rate: row.bytes! / us / 1e6, unit: "TB/s" };
}

async function timeRow(row: GpuRow, torch: Torch | undefined): Promise<Figure> {
  const sets = row.host ? 1 : Math.min(16, Math.max(1, Math.ceil(ROTATED_BYTES / row.bytes!)));
  const given: Tensors[] = Array.from({ length: sets }, (_, s) => {
    const x: Tensors = {};
    Object.entries(row.inputs).forEach(([name, input], i) => {
      x[name] = make(input, rm.random.key(s * 16 + i + 1));
    });
    return x;
  });
  const bodies = given.map((x) => row.body(x));
  const clock = row.host ? onHost : onDevice;
  const run = (calls: number): number =>
    clock(() => {
      for (let i = 0; i < calls; i++) bodies[i % sets]!();
    });
  const compares = torch !== undefined && row.torch !== undefined;
  if (compares) {
    const inputs = row.torchInputs ?? row.inputs;
    await torch.ask({ do: "prepare", inputs, statement: row.torch, sets });
  }
  const theirs = async (calls: number): Promise<number> => {
    const request = { do: "time", calls, host: row.host ?? false };
    return (await torch!.ask(request)).ms!;
  };
  run(sets);
  run(3 * sets);
  const calls = Math.max(sets, Math.min(1000, Math.ceil(FILL_MS / (run(sets) / sets))));
  const [ours, others]: number[][] = [[], []];
  for (let i = 0; i < rounds; i++) {
    ours!.push(run(calls) / calls * 1e3);
    if (compares) others!.push(await theirs(calls) / calls * 1e3);
  }
  for (const x of given) for (const one of Object.values(x)) one.dispose();
  rm.emptyCache("cuda");
  const us = median(ours!);
  const figure = { group: row.group, name: row.name, us, ...rateOf(row, us) };
  const target = row.target === undefined ? {} : { target: row.target };
  if (!compares) return { ...figure, ...target };
  const ratios = ours!.map((one, i) => one / others![i]!);
  return { ...figure, torchUs: median(others!), ratio: median(ratios), ...target };
}

const file = out === undefined ? undefined : join(out, "bench.jsonl");

function save(line: object): void {
  if (file === undefined) return;
  mkdirSync(out!, { recursive: true });
  appendFileSync(file, JSON.stringify(line) + "\n");
}

/** Rows of the last run in the file that have begun, and the rate of the copy in it. */
const begun = new Set<string>();
let ceiling: number | undefined;
if (values.resume && file !== undefined && existsSync(file)) {
  for (const line of readFileSync(file, "utf8").trim().split("\n")) {
    const { libraries, resumed, begin, group, rate } = JSON.parse(line);
    if (libraries !== undefined && !resumed) begun.clear();
    if (begin !== undefined) begun.add(begin);
    if (group === "ceilings") ceiling = rate;
  }
}

const torch = await startTorch();
// Opens the libraries, which are named only then.
rm.ones([8, 8], { device: "cuda" }).matmul(rm.ones([8, 8], { device: "cuda" })).toTypedArray();
const about = {
  date: new Date().toISOString().slice(0, 10),
  device: rm.info().devices.cuda,
  runtime: "Bun" in globalThis ? `Bun ${process.versions.bun}` : `Deno ${process.versions.deno}`,
  torch: torch?.about.version,
  libraries: Object.fromEntries(readCudaInfo(shim, -1)),
  scale,
  ...(values.resume ? { resumed: true } : {}),
};
save(about);
console.log(JSON.stringify(about));

function memory(what: number, ...given: number[]): number {
  const numbers = new Float64Array(5);
  numbers.set(given);
  if (shim.rm_cuda_memory(what, 0, numbers, null) !== 0) throw new Error(lastError(shim));
  return numbers[0]!;
}

/** The first ceiling: bytes read and written by a copy of the driver. */
const copiedBytes = 2 ** 30 / scale;
const copied: GpuRow = {
  group: "ceilings",
  name: "copy by the driver",
  inputs: {},
  bytes: 2 * copiedBytes,
  body: () => {
    const [to, from] = [0, 1].map(() => memory(CUDA_MEMORY.allocate, copiedBytes));
    return () => memory(CUDA_MEMORY.copy, to!, from!, copiedBytes, 0);
  },
};

/** Twenty small ops, queued one after another or as a graph, like a small model. */
const CHAIN = 20;
function chain(asGraph: boolean): GpuRow {
  return {
    group: "host",
    name: `${CHAIN} adds of 4096 ${asGraph ? "in a graph" : "one by one"}, and wait`,
    inputs: { a: { dtype: "float32", shape: [4096] } },
    host: true,
    body: ({ a }) => {
      const x = rm.zeros([4096], { device: "cuda" });
      const all = (): void => {
        for (let i = 0; i < CHAIN; i++) x.add_(a! as never);
      };
      const wait = new Float64Array(5);
      all();
      if (!asGraph) return () => (all(), control(CUDA_CONTROL.synchronize, wait));
      const graph = new Float64Array(5);
      control(CUDA_CONTROL.captureBegin, graph);
      all();
      control(CUDA_CONTROL.captureEnd, graph);
      const handle = graph[0]!;
      return () => {
        graph[0] = handle;
        control(CUDA_CONTROL.graphLaunch, graph);
        control(CUDA_CONTROL.synchronize, wait);
      };
    },
  };
}

console.log(
  `${"row".padEnd(48)} ${"µs".padStart(9)} ${"rate".padStart(14)} ${"of copy".padStart(7)} ${
    "target".padStart(6)
  } ${"PyTorch".padStart(9)} ${"ratio".padStart(5)}`,
);
for (const row of [copied, ...gpuWork(scale), chain(false), chain(true)]) {
  const name = `${row.group}/${row.name}`;
  if ((row !== copied && !name.includes(filter)) || begun.has(name)) continue;
  save({ begin: name });
  try {
    const figure = await timeRow(row, torch);
    save(figure);
    const { us, rate, unit, target, torchUs, ratio } = figure;
    if (row === copied) ceiling = rate;
    const ofCopy = unit === "TB/s" && ceiling !== undefined ? rate! / ceiling : undefined;
    const cells = [
      name.padEnd(48),
      us.toFixed(1).padStart(9),
      (rate === undefined ? "" : `${rate.toFixed(2)} ${unit}`).padStart(14),
      (ofCopy === undefined ? "" : `${(ofCopy * 100).toFixed(0)}%`).padStart(7),
      (target === undefined ? "" : String(target)).padStart(6),
      (torchUs === undefined ? "" : torchUs.toFixed(1)).padStart(9),
      (ratio === undefined ? "" : ratio.toFixed(2)).padStart(5),
    ];
    console.log(cells.join(" ").trimEnd());
  } catch (error) {
    save({ group: row.group, name: row.name, error: String(error) });
    console.log(`${name}: ${error}`);
    torch?.kill();
    process.exit(3);
  }
}
torch?.close();

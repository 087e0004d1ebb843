/**
 * Ops whose results hold more than 256 MiB, beside NumPy.
 *
 *     deno run -A bench/large.ts [--backend=js|native] [--turns=5]
 *
 * Compares the time per element of an add of 6.8e7 float32 with that of 6.6e7, which is just below
 * 256 MiB, and a chain of four ops on 1e8 with NumPy's, with results disposed of and not. Runs on
 * Deno and on Bun, in a process each, in turns with NumPy; the shortest times count. Prints wall and
 * processor time. The processes hold 4 GB together. Fails if an add takes more than 1.5 times as
 * long per element, or the chain under `scope` more than 1.3 of NumPy's time. The Python is that of
 * `ROWMAJOR_PYTHON`, or of .venv, with numpy.
 *
 * @module
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";
import { type AnyTensor, full, memory, scope, setBackend } from "../mod.ts";
import { ensureInstalled, findTool, root } from "../scripts/tools.ts";
import { environment, LineProcess } from "./line_process.ts";

const { values } = parseArgs({
  options: {
    backend: { type: "string" },
    turns: { type: "string", default: "5" },
    serve: { type: "boolean", default: false },
  },
});

const MOST_PER_ELEMENT = 1.5;
const MOST_OF_NUMPY = 1.3;

/** Work on ones of a length. */
interface Request {
  readonly work: "add" | "chain";
  readonly length: number;
  readonly disposed: boolean;
}

/** The times of one run after another one that is not timed, in ms. */
interface Answer {
  readonly wall: number;
  readonly cpu: number;
  /** The largest bytes of tensors at a time. */
  readonly peak?: number;
}

const WORK = {
  add: (x: AnyTensor): unknown => x.add(1),
  chain: (x: AnyTensor): unknown => x.add(1).mul(2).sub(3).div(4),
} as const;

/** Runs what lines of the input request. */
async function serve(): Promise<void> {
  if (values.backend !== undefined) setBackend(values.backend as "js" | "native");
  const operands = new Map<number, AnyTensor>();
  for await (const line of createInterface({ input: process.stdin })) {
    const { work, length, disposed }: Request = JSON.parse(line);
    const x = operands.get(length) ?? full([length], 1) as AnyTensor;
    operands.clear();
    operands.set(length, x);
    const run = () => disposed ? scope(() => void WORK[work](x)) : WORK[work](x);
    run();
    const [begin, before] = [performance.now(), process.cpuUsage()];
    run();
    const [wall, used] = [performance.now() - begin, process.cpuUsage(before)];
    const cpu = (used.user + used.system) / 1e3;
    console.log(JSON.stringify({ wall, cpu, peak: memory().peakBytes }));
  }
}

/** A process that serves, and the least times of each request. */
class Peer extends LineProcess<string, Request, Answer> {
  readonly #least = new Map<string, Answer>();

  async run(request: Request): Promise<void> {
    const key = JSON.stringify(request);
    const [now, least] = [await this.ask(request), this.#least.get(key)];
    this.#least.set(key, {
      wall: Math.min(now.wall, least?.wall ?? Infinity),
      cpu: Math.min(now.cpu, least?.cpu ?? Infinity),
      peak: now.peak!,
    });
  }

  least(request: Request): Answer {
    return this.#least.get(JSON.stringify(request))!;
  }
}

function python(): string {
  const own = join(root, ".venv", "bin", "python");
  return process.env.ROWMAJOR_PYTHON ?? (existsSync(own) ? own : "python3");
}

const two = (x: number): string => x.toFixed(2);
const ms = ({ wall, cpu }: Answer): string => `${wall.toFixed(1)} ms (${cpu.toFixed(1)} of CPU)`;

const NUMPY = `
import json, sys, time
import numpy as np
x = np.ones(1)
for line in sys.stdin:
    r = json.loads(line)
    if len(x) != r["length"]:
        x = np.ones(r["length"], np.float32)
    run = (lambda: x + 1) if r["work"] == "add" else (lambda: (((x + 1) * 2) - 3) / 4)
    run()
    begin, before = time.perf_counter(), time.process_time()
    run()
    wall, cpu = time.perf_counter() - begin, time.process_time() - before
    print(json.dumps({"wall": wall * 1e3, "cpu": cpu * 1e3}), flush=True)
`;

async function compare(runtime: "deno" | "bun"): Promise<boolean> {
  const options = { cwd: root, env: environment(2) };
  const script = [join(root, "bench", "large.ts"), "--serve"];
  if (values.backend !== undefined) script.push(`--backend=${values.backend}`);
  const start = runtime === "deno" ? ["run", "-A", "--no-check", ...script] : script;
  const numpy = new Peer("NumPy", [python(), "-c", NUMPY], options);
  let allPass = true;
  for (const disposed of [true, false]) {
    const ours = new Peer(runtime, [findTool(runtime), ...start], options);
    const below: Request = { work: "add", length: 6.6e7, disposed };
    const above: Request = { work: "add", length: 6.8e7, disposed };
    const chain: Request = { work: "chain", length: 1e8, disposed };
    for (let turn = 0; turn < Number(values.turns); turn++) {
      await ours.run(below);
      await ours.run(above);
    }
    for (let turn = 0; turn < Number(values.turns); turn++) {
      await ours.run(chain);
      await numpy.run(chain);
    }
    const perElement = (get: (one: Answer) => number): number =>
      get(ours.least(above)) / 6.8e7 / (get(ours.least(below)) / 6.6e7);
    const ofNumpy = ours.least(chain).wall / numpy.least(chain).wall;
    const [wall, cpu] = [perElement((one) => one.wall), perElement((one) => one.cpu)];
    console.log(
      `${runtime}, results ${disposed ? "under scope" : "not disposed of"}:\n` +
        `  add of 6.6e7: ${ms(ours.least(below))}, of 6.8e7: ${ms(ours.least(above))}; ` +
        `per element ${two(wall)} times as long (CPU ${two(cpu)})\n` +
        `  chain of four at 1e8: ${ms(ours.least(chain))}, NumPy ${ms(numpy.least(chain))}; ` +
        `ratio ${two(ofNumpy)}; at most ${(ours.least(chain).peak! / 1e9).toFixed(1)} GB`,
    );
    if (disposed) allPass &&= wall <= MOST_PER_ELEMENT && ofNumpy <= MOST_OF_NUMPY;
    await ours.close();
  }
  await numpy.close();
  return allPass;
}

if (values.serve) await serve();
else {
  await ensureInstalled();
  const passed = [await compare("deno"), await compare("bun")];
  if (passed.includes(false)) {
    console.log(`FAILED: more than ${MOST_PER_ELEMENT} per element, or ${MOST_OF_NUMPY} of NumPy`);
    process.exitCode = 1;
  }
}

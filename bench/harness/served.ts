/**
 * The usual sides: processes that serve rows, one at a time, and processes that measure a whole
 * group and end.
 *
 * @module
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { spawnSync } from "node:child_process";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import process from "node:process";
import { findTool, root } from "../../scripts/tools.ts";
import { environment, HELD, LineProcess } from "./line_process.ts";
import { findPython, MODULES, pinned } from "./python.ts";
import {
  keyOf,
  type Outcome,
  PYTHON_PEERS,
  type PythonPeer,
  type Row,
  type RunOptions,
  type Runtime,
  RUNTIMES,
  type ServedRow,
  type Side,
  type Suite,
} from "./suite.ts";
import type { Answer, Request, Whole } from "./worker.ts";

/** A process that measures a group may take so long. */
const LIMIT_MS = 600_000;

/** Whether a run wants a peer. */
export function wants({ peers }: RunOptions, name: string): boolean {
  return peers === undefined ||
    peers.some((wanted) => wanted.toLowerCase() === name.toLowerCase());
}

/** Why a peer is left out of runs on AVX2. */
export const NO_SWITCH = "it has no switch that holds it to AVX2";

/** Whether a run wants a peer that it can hold to its instruction set; reports the others. */
export function mayHold(options: RunOptions, name: string): boolean {
  if (!wants(options, name)) return false;
  if (options.level === undefined || HELD.includes(name)) return true;
  options.without(name, NO_SWITCH);
  return false;
}

/** The command of a worker. */
export function workerCommand(
  runtime: Runtime,
  args: readonly string[],
  checkout: string = root,
): string[] {
  const script = join(checkout, "bench", "harness", "worker.ts");
  return runtime === "Deno"
    ? [findTool("deno"), "run", "-A", "--no-check", "--v8-flags=--expose-gc", script, ...args]
    : [findTool("bun"), script, ...args];
}

class Server extends LineProcess<Request, Answer> {
  async ready(): Promise<Answer> {
    const answer = await this.next();
    if (answer.error !== undefined) throw new Error(answer.error);
    return answer;
  }
}

/** A way of a process that serves rows. */
class ServedSide implements Side {
  readonly name: string;
  readonly peer: boolean;
  readonly runtime?: Runtime;
  readonly spins: boolean;
  readonly #about: Answer;
  readonly #server: Server;
  readonly #start: (cold: boolean) => Server;
  readonly #ms: number;
  readonly #way?: string;

  constructor(
    { name, peer, runtime, way, ms }: {
      name: string;
      peer: boolean;
      runtime?: Runtime;
      way?: string;
      ms: number;
    },
    server: Server,
    about: Answer,
    start: (cold: boolean) => Server,
  ) {
    [this.name, this.peer, this.#server, this.#about] = [name, peer, server, about];
    [this.#start, this.#way, this.#ms] = [start, way, ms];
    if (runtime !== undefined) this.runtime = runtime;
    this.spins = runtime === undefined;
  }

  get version(): string {
    return this.#about.version!;
  }

  get level(): string | undefined {
    return this.#about.level;
  }

  has(row: Row): boolean {
    const { statements, heavy, ways } = row as ServedRow;
    if (this.runtime === undefined) return statements[this.name as PythonPeer] !== undefined;
    return !(heavy && this.#about.backend === "js") && (ways?.includes(this.#way!) ?? true);
  }

  #request(row: Row, what: Request["do"]): Request {
    const base = { do: what, row: keyOf(row), ms: this.#ms };
    if (this.runtime !== undefined) return { ...base, way: this.#way! };
    const { inputs, statements, out } = row as ServedRow;
    const statement = statements[this.name as PythonPeer]!;
    return { ...base, inputs, statement, ...(out ? { out } : {}) };
  }

  async #ask(request: Request, server = this.#server): Promise<Answer> {
    const answer = await server.ask(request);
    if (answer.error !== undefined) throw new Error(answer.error);
    return answer;
  }

  async prepare(row: Row): Promise<Float32Array | undefined> {
    if (row.unit === "bytes") return undefined;
    const folder = mkdtempSync(join(tmpdir(), "rowmajor-bench-"));
    try {
      const file = join(folder, "result");
      const { compares } = row as ServedRow;
      await this.#ask({ ...this.#request(row, "prepare"), ...(compares ? { file } : {}) });
      if (!compares) return undefined;
      const { buffer, byteOffset, byteLength } = readFileSync(file);
      return new Float32Array(buffer as ArrayBuffer, byteOffset, byteLength / 4);
    } finally {
      rmSync(folder, { recursive: true });
    }
  }

  async measure([row]: readonly Row[]): Promise<Outcome> {
    if (row!.unit === "bytes") {
      const fresh = this.#start(true);
      try {
        await fresh.ready();
        const { peak } = await this.#ask(this.#request(row!, "memory"), fresh);
        return { figures: { [row!.name]: { wall: peak! } } };
      } finally {
        await fresh.close();
      }
    }
    const { figure } = await this.#ask(this.#request(row!, "time"));
    return { figures: { [row!.name]: figure! } };
  }

  async close(): Promise<void> {
    await this.#server.close();
  }
}

/** The processes that serve the rows of a suite; reports the peers that do not start. */
export async function servedSides(suite: Suite, options: RunOptions): Promise<Side[]> {
  const { threads, ms, runtimes, backend, level, before, without } = options;
  const env = environment(threads, level);
  const sides: Promise<Side[]>[] = [];
  const served = async (
    names: readonly { name: string; peer: boolean; runtime?: Runtime; way?: string }[],
    start: (cold: boolean) => Server,
  ): Promise<Side[]> => {
    const server = start(false);
    const about = await server.ready();
    return names.map((name) => new ServedSide({ ...name, ms }, server, about, start));
  };
  const wanted = (suite.python ?? []).filter((name) => mayHold(options, name));
  const { modules = [] } = suite;
  const python = findPython(wanted, modules);
  const script = join(root, "bench", "harness", "peer.py");
  for (const name of PYTHON_PEERS.filter((name) => wanted.includes(name))) {
    const reason = [...MODULES[name], ...modules].map((module) => python.missing.get(module))
      .find((reason) => reason !== undefined);
    if (reason !== undefined) {
      without(name, reason);
      continue;
    }
    const args = [script, name, `--threads=${threads}`, `--level=${level ?? ""}`];
    const start = () => new Server(name, [python.path!, ...args], { cwd: root, env });
    const side = served([{ name, peer: true }], start).then((sides) => {
      const pin = pinned(MODULES[name].at(-1)!).split("==")[1];
      const version = sides[0]!.version.split(" ").at(-1)!.split("+")[0];
      if (version !== pin) console.error(`${name} has version ${version}, not the pinned ${pin}`);
      return sides;
    });
    sides.push(
      side.catch((error: Error) => {
        without(name, error.message);
        return [];
      }),
    );
  }
  const args = [`--suite=${options.suite}`, `--threads=${threads}`];
  if (backend !== undefined) args.push(`--backend=${backend}`);
  for (const runtime of runtimes) {
    const start = (checkout?: string) => (cold: boolean) => {
      const command = workerCommand(runtime, cold ? [...args, "--cold"] : args, checkout);
      return new Server(runtime, command, { cwd: checkout ?? root, env });
    };
    if (before !== undefined) {
      const checkout = resolve(before);
      // The second is the control: it shows the noise.
      for (const [name, peer] of [["before", true], ["before again", false]] as const) {
        sides.push(
          served([{ name: `${runtime} ${name}`, peer, runtime, way: "" }], start(checkout)),
        );
      }
    }
    const ways = (suite.ways ?? [""]).map((way) => ({
      name: way === "" ? runtime : `${runtime} ${way}`,
      peer: way === suite.baseline,
      runtime,
      way,
    }));
    sides.push(served(ways, start()));
  }
  return (await Promise.all(sides)).flat();
}

/** What a {@link WholeSide} starts. */
export interface Command {
  readonly command: readonly string[];
  readonly cwd?: string;
  readonly env?: NodeJS.ProcessEnv;
}

/** A side whose process measures the rows of a group and prints their figures as its last line. */
export class WholeSide implements Side {
  readonly name: string;
  readonly peer: boolean;
  readonly runtime?: Runtime | "Node";
  version = "";
  level?: string;
  readonly #commandOf: (group: string) => Command | undefined;
  readonly #warms: boolean;

  constructor(
    { name, peer, runtime, warms = false }: {
      name: string;
      peer: boolean;
      runtime?: Runtime | "Node";
      /** Runs each group once before the first round, to fill caches. */
      warms?: boolean;
    },
    commandOf: (group: string) => Command | undefined,
  ) {
    [this.name, this.peer, this.#commandOf, this.#warms] = [name, peer, commandOf, warms];
    if (runtime !== undefined) this.runtime = runtime;
  }

  has({ group }: Row): boolean {
    return this.#commandOf(group) !== undefined;
  }

  async prepare(row: Row): Promise<undefined> {
    if (this.#warms) await this.measure([row]);
  }

  measure([row]: readonly Row[]): Promise<Outcome> {
    const { command, cwd = root, env = process.env } = this.#commandOf(row!.group)!;
    const [path, ...args] = command;
    const options = { cwd, env, encoding: "utf8", maxBuffer: 2 ** 26, timeout: LIMIT_MS } as const;
    const { status, stdout, stderr, error } = spawnSync(path!, args, options);
    if (status !== 0) throw error ?? new Error(`${path} exited with ${status}: ${stderr}`);
    const { version, level, ...outcome } = JSON.parse(stdout.trim().split("\n").at(-1)!) as Whole;
    this.version = version;
    if (level !== undefined) this.level = level;
    return Promise.resolve(outcome);
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

/** rowmajor's sides of a whole suite: its `run` in each runtime; `more` is for the environment. */
export function ownSides(
  { suite, threads, runtimes, backend, level }: RunOptions,
  more: (group: string) => Readonly<Record<string, string>> = () => ({}),
): Side[] {
  const args = [`--suite=${suite}`, `--threads=${threads}`];
  if (backend !== undefined) args.push(`--backend=${backend}`);
  return RUNTIMES.filter((runtime) => runtimes.includes(runtime)).map((runtime) =>
    new WholeSide({ name: runtime, peer: false, runtime }, (group) => ({
      command: workerCommand(runtime, [...args, `--group=${group}`]),
      env: { ...environment(threads, level), ...more(group) },
    }))
  );
}

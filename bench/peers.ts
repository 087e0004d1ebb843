/**
 * Starts the peers of a benchmark, each a process of its own, and communicates in JSON lines.
 *
 * Knows how to start each, and nothing of the measurements.
 *
 * @module
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import process from "node:process";
import { createInterface } from "node:readline";
import { findTool, root } from "../scripts/tools.ts";
import type { Answer, Request } from "./worker.ts";

/** The names of the peers in tables, in their order. */
export type PeerName = "NumPy" | "PyTorch" | "Deno" | "Bun";

/** Options of peers. */
export interface PeerOptions {
  /** The number of threads of each. */
  readonly threads: number;
  /** The backend of rowmajor; its default otherwise. */
  readonly backend?: "js" | "native";
  /** The Python of NumPy and PyTorch. */
  readonly python?: string;
  /** Does nothing before the first request, to measure memory. */
  readonly cold?: boolean;
  /** The checkout of rowmajor to run; this one by default. */
  readonly checkout?: string;
}

/** A process that times rows. */
export class Peer {
  /** Its name in tables. */
  readonly name: PeerName;
  /** Its name and version, as it reports them. */
  version = "";
  /** rowmajor only: the backend in use. */
  serves?: string;
  readonly #process: ChildProcess;
  readonly #lines: AsyncIterator<string>;

  /** Starts it; {@link ready} waits for its first line. */
  constructor(name: PeerName, options: PeerOptions) {
    this.name = name;
    const [command, ...args] = commandOf(name, options);
    const env = environment(options.threads);
    this.#process = spawn(command, args, {
      cwd: options.checkout ?? root,
      env,
      stdio: ["pipe", "pipe", "inherit"],
    });
    this.#lines = createInterface({ input: this.#process.stdout! })[Symbol.asyncIterator]();
  }

  async #next(): Promise<Answer> {
    const { value, done } = await this.#lines.next();
    if (done) throw new Error(`${this.name} ended early`);
    return JSON.parse(value);
  }

  /** Waits until it has warmed up. */
  async ready(): Promise<void> {
    const { version, serves, error } = await this.#next();
    if (error !== undefined) throw new Error(error);
    this.version = version!;
    this.serves = serves;
  }

  /** Sends a request and waits for its answer. */
  async ask(request: Request): Promise<Answer> {
    this.#process.stdin!.write(JSON.stringify(request) + "\n");
    return await this.#next();
  }

  /** Requests it to end, and waits until it has. */
  async close(): Promise<void> {
    const { exitCode, signalCode } = this.#process;
    this.#process.stdin!.end();
    if (exitCode === null && signalCode === null) await once(this.#process, "exit");
  }
}

function commandOf(name: PeerName, options: PeerOptions): string[] {
  const threads = `--threads=${options.threads}`;
  if (name === "NumPy" || name === "PyTorch") {
    const module = name === "NumPy" ? "numpy" : "torch";
    return [options.python!, join(root, "bench", "python_peer.py"), module, threads];
  }
  const args = [
    join(options.checkout ?? root, "bench", "worker.ts"),
    threads,
    ...(options.backend === undefined ? [] : [`--backend=${options.backend}`]),
    ...(options.cold ? ["--cold"] : []),
  ];
  return name === "Deno"
    ? [findTool("deno"), "run", "-A", "--no-check", "--v8-flags=--expose-gc", ...args]
    : [findTool("bun"), ...args];
}

/**
 * The environment of every peer: the number of threads for libraries that read it there. Excludes
 * variables of the shell that make OpenBLAS assume another processor.
 */
function environment(threads: number): NodeJS.ProcessEnv {
  const env = { ...process.env };
  delete env.OPENBLAS_CORETYPE;
  delete env.OPENBLAS_L2_SIZE;
  for (const name of ["OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"]) {
    env[name] = String(threads);
  }
  return env;
}

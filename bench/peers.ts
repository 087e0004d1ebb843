/**
 * Starts the peers of a benchmark, each a process of its own, and talks to them in JSON lines.
 *
 * Knows how each is started, and nothing of what it measures.
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

/** How tables call the peers, in their order. */
export type PeerName = "NumPy" | "PyTorch" | "Deno" | "Bun";

/** How peers are started. */
export interface PeerOptions {
  /** How many threads each may use. */
  readonly threads: number;
  /** What should serve rowmajor's ops; otherwise it decides. */
  readonly backend?: "js" | "native";
  /** The Python of NumPy and PyTorch. */
  readonly python?: string;
  /** Does nothing before the first request: for measuring memory. */
  readonly cold?: boolean;
  /** The checkout whose rowmajor runs; this one unless given. */
  readonly checkout?: string;
}

/** A process that times rows. */
export class Peer {
  /** How tables call it. */
  readonly name: PeerName;
  /** What it says it is. */
  version = "";
  /** rowmajor only: the backend that serves. */
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

  /** Lets it end, and waits until it has. */
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
 * The environment of every peer: the number of threads of what reads it there. What a shell may
 * have set to make OpenBLAS take another processor for this one is left out.
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

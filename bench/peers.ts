/**
 * Starts the peers of a benchmark, each a process of its own, and talks to them in JSON lines.
 *
 * Knows how each is started, and nothing of what it measures.
 *
 * @module
 */
import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import process from "node:process";
import { createInterface } from "node:readline";
import { findTool, root } from "../scripts/tools.ts";
import type { Answer, Request } from "./worker.ts";

/** A process that times rows. */
export class Peer {
  /** How tables call it. */
  readonly name: string;
  /** What it says it is. */
  version = "";
  readonly #process: ChildProcess;
  readonly #lines: AsyncIterator<string>;

  /** Starts `command`; {@link ready} waits for its first line. */
  constructor(name: string, command: string, args: string[], env: NodeJS.ProcessEnv) {
    this.name = name;
    this.#process = spawn(command, args, {
      cwd: root,
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
    this.version = (await this.#next()).version ?? "";
  }

  /** Sends a request and waits for its answer. */
  async ask(request: Request): Promise<Answer> {
    this.#process.stdin!.write(JSON.stringify(request) + "\n");
    return await this.#next();
  }

  /** Lets it end. */
  close(): void {
    this.#process.stdin!.end();
  }
}

/**
 * The environment of every peer. One thread each unless `threads` is "all"; what a shell may have
 * set to make OpenBLAS take another processor for this one is left out.
 */
function environment(threads: "1" | "all"): NodeJS.ProcessEnv {
  const env = { ...process.env };
  delete env.OPENBLAS_CORETYPE;
  delete env.OPENBLAS_L2_SIZE;
  for (const name of ["OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"]) {
    if (threads === "1") env[name] = "1";
    else delete env[name];
  }
  return env;
}

/** rowmajor in one of its runtimes. */
export function startRuntime(name: "Deno" | "Bun", threads: "1" | "all"): Peer {
  const worker = join(root, "bench", "worker.ts");
  return name === "Deno"
    ? new Peer(name, findTool("deno"), ["run", "-A", worker], environment(threads))
    : new Peer(name, findTool("bun"), [worker], environment(threads));
}

/** NumPy in the Python at `path`. */
export function startNumpy(path: string, threads: "1" | "all"): Peer {
  return new Peer("NumPy", path, [join(root, "bench", "numpy_peer.py")], environment(threads));
}

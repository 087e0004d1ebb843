/**
 * Starts the peers of a benchmark, each a process of its own.
 *
 * Knows how to start each, and nothing of the measurements.
 *
 * @module
 */
import { join } from "node:path";
import { findTool, root } from "../scripts/tools.ts";
import { environment, LineProcess } from "./line_process.ts";
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
export class Peer extends LineProcess<PeerName, Request, Answer> {
  /** Its name and version, as it reports them. */
  version = "";
  /** rowmajor only: the backend in use. */
  serves?: string;

  /** Starts it; {@link ready} waits for its first line. */
  constructor(name: PeerName, options: PeerOptions) {
    const env = environment(options.threads);
    super(name, commandOf(name, options), { cwd: options.checkout ?? root, env });
  }

  /** Waits until it has warmed up. */
  async ready(): Promise<void> {
    const { version, serves, error } = await this.next();
    if (error !== undefined) throw new Error(error);
    this.version = version!;
    this.serves = serves;
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

/**
 * A process that answers requests: JSON, one per line.
 *
 * Knows nothing of what is asked.
 *
 * @module
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import process from "node:process";
import { createInterface } from "node:readline";

/** A process that writes an answer for each request, and one when it is ready. */
export class LineProcess<Request, Answer> {
  /** Its name in messages. */
  readonly name: string;
  readonly #process: ChildProcess;
  readonly #lines: AsyncIterator<string>;

  /** Starts it; {@link next} waits for its first line. */
  constructor(
    name: string,
    [command, ...args]: readonly string[],
    options: { readonly cwd: string; readonly env: NodeJS.ProcessEnv },
  ) {
    this.name = name;
    this.#process = spawn(command!, args, { ...options, stdio: ["pipe", "pipe", "inherit"] });
    this.#lines = createInterface({ input: this.#process.stdout! })[Symbol.asyncIterator]();
  }

  /** Waits for its next line. */
  protected async next(): Promise<Answer> {
    const { value, done } = await this.#lines.next();
    if (done) throw new Error(`${this.name} ended early`);
    return JSON.parse(value);
  }

  /** Sends a request and waits for its answer. */
  async ask(request: Request): Promise<Answer> {
    this.#process.stdin!.write(JSON.stringify(request) + "\n");
    return await this.next();
  }

  /** Requests it to end, and waits until it has. */
  async close(): Promise<void> {
    const { exitCode, signalCode } = this.#process;
    this.#process.stdin!.end();
    if (exitCode === null && signalCode === null) await once(this.#process, "exit");
  }
}

/** The switches that hold libraries to AVX2 where the processor has more. */
const AVX2 = {
  ROWMAJOR_LEVEL: "v3",
  OPENBLAS_CORETYPE: "Haswell",
  NPY_DISABLE_CPU_FEATURES: "X86_V4 AVX512_ICL AVX512_SPR",
  ATEN_CPU_CAPABILITY: "avx2",
  MKL_ENABLE_INSTRUCTIONS: "AVX2",
  ONEDNN_MAX_CPU_ISA: "AVX2",
} as const;

/** The peers that have such a switch; peer.py sets that of torch.compile. */
export const HELD: readonly string[] = [
  ...["NumPy", "PyTorch", "torch.compile", "C with OpenBLAS", "mpi4py"],
];

/**
 * The environment of every side: the number of threads for libraries that read it there, and the
 * instruction set. Leaves out variables of the shell that hold OpenBLAS to a processor.
 */
export function environment(threads: number, level?: "v3"): NodeJS.ProcessEnv {
  const env = { ...process.env };
  delete env.OPENBLAS_CORETYPE;
  delete env.OPENBLAS_L2_SIZE;
  for (const name of ["OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"]) {
    env[name] = String(threads);
  }
  return level === undefined ? env : { ...env, ...AVX2 };
}

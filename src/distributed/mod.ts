/**
 * Collectives and messages for tensors of several processes, on one machine or on several, by the
 * installed MPI library.
 *
 * A launcher starts the processes, called ranks: `mpiexec -n 4 deno run -A main.ts`, `srun`, an
 * MPIJob. Without a launcher there is one rank, and no library is opened.
 *
 * @module
 */
import "../tensor/tensor.ts";
import { ArgumentError, DistributedError } from "../base/errors.ts";
import { describe } from "../base/text.ts";
import { findShim } from "../backend/ffi/load.ts";
import { host } from "../backend/ffi/runtime.ts";
import { checkOptions } from "../table/infer.ts";
import { abortWorld, closeEngine, countLimit, type Engine, openEngine } from "./engine.ts";
import { checkTimeout, Group, type GroupSettings } from "./group.ts";

export { averageGradients, averageGradientsSync, type AverageOptions } from "./gradients.ts";
export { loadShards, saveShards, type SaveShardsOptions, type ShardPlan } from "./files.ts";
export {
  columnParallel,
  type ColumnParallelOptions,
  columnParallelSync,
  type FittingShard,
  type GatheredShape,
  rowParallel,
  type RowParallelOptions,
  rowParallelSync,
  type ShardProduct,
  type WeightShard,
} from "./products.ts";
export {
  type AxisCollectiveOptions,
  type CollectiveOptions,
  Group,
  type Like,
  type MessageOptions,
  type Resized,
} from "./group.ts";
export { DistributedError };

/** Options of {@link init}. */
export interface InitOptions {
  /**
   * `"any"`, the default, opens MPI if a launcher has started this process, and otherwise makes a
   * world of one rank. `"mpi"` always opens MPI, `"none"` never. Collectives of tensors on CUDA
   * devices use NCCL if all ranks can open it. With `"mpi"` they never use NCCL; with `"nccl"`, which
   * opens MPI too, they throw without NCCL.
   */
  readonly backend?: "any" | "mpi" | "nccl" | "none";
  /**
   * Milliseconds after which a call throws a DistributedError: 300,000 by default; Infinity for no
   * deadline.
   */
  readonly timeout?: number;
  /**
   * Whether ranks compare their calls before each collective, which takes as long as a small
   * collective: ranks that make different calls, or pass other dtypes or sizes, throw an error that
   * names the calls. True by default, unless `ROWMAJOR_DISTRIBUTED_CHECK` is 0. With false, such calls
   * return wrong results, hang, or end the process, because MPI can write beyond the memory of a
   * tensor. All ranks must pass the same value.
   */
  readonly check?: boolean;
}

const OPTIONS = ["backend", "timeout", "check"];
const BACKENDS = ["any", "mpi", "nccl", "none"];
const DEFAULT_TIMEOUT = 300_000;

/** All ranks, of which this process is one. Made by {@link init}. */
export class World extends Group {
  /** The class name, as a bundler may shorten the class's own. @ignore */
  static override get name(): string {
    return "World";
  }

  readonly #engine: Engine;
  readonly #timeout: number;

  /** Made by {@link init}. @ignore */
  constructor(settings: GroupSettings) {
    super(settings);
    this.#engine = settings.engine;
    this.#timeout = settings.timeout;
  }

  /** The MPI library: its implementation, ABI and path, or the reason why none is open. */
  get description(): string {
    return this.#engine.text;
  }

  /**
   * Ends all ranks after 0.2 seconds, in which the launcher forwards the output of this rank.
   *
   * @param code The exit code, 1 by default.
   */
  abort(code: number = 1): never {
    const shim = findShim();
    if (this.#engine.requests !== undefined && !("reason" in shim)) abortWorld(shim, code);
    const { Deno, process } = globalThis as Partial<
      Record<"Deno" | "process", { exit(code: number): never }>
    >;
    return (Deno ?? process)!.exit(code);
  }

  /**
   * Closes the world after all calls that have begun. The promise resolves when all ranks have
   * closed it. A rank that waits for this rank throws a DistributedError. After a failure, `close`
   * has no effect: the launcher ends all ranks when this process ends.
   */
  async close(): Promise<void> {
    const { requests } = this.#engine;
    if (requests !== undefined) await closeEngine(requests, this.#timeout);
    opened = undefined;
  }

  /** {@link World.close}. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

let opened: Promise<World> | undefined;

/** Whether ranks compare their calls if the program does not decide: unless the environment forbids. */
function checksByDefault(): boolean {
  return host.variable("ROWMAJOR_DISTRIBUTED_CHECK") !== "0";
}

/**
 * Opens the world: the ranks that a launcher has started, or one rank without a launcher. A process
 * can open one world, in its main thread.
 *
 * @returns The world; `await using` closes it.
 * @throws {DistributedError} If a launcher has started several processes and they cannot connect,
 *   or if no MPI library is found with `backend: "mpi"`. The message has the reason.
 *
 * @example
 * ```ts
 * await using world = await init();
 * world.size; // => 1
 * ```
 */
export async function init(options: InitOptions = {}): Promise<World> {
  checkOptions("init", options, OPTIONS);
  const { backend = "any", timeout = DEFAULT_TIMEOUT, check = checksByDefault() } = options;
  if (!BACKENDS.includes(backend)) {
    throw new ArgumentError(
      `Cannot init with backend ${describe(backend)}: it is "any", "mpi", "nccl" or "none"`,
    );
  }
  checkTimeout("init", timeout);
  if (typeof check !== "boolean") {
    throw new ArgumentError(`Cannot init with check ${describe(check)}: it is true or false`);
  }
  if (opened !== undefined) {
    throw new DistributedError("init", -1, -1, "the world is open already: close() it first");
  }
  const world = openEngine({ backend, timeout, check }).then((engine) => {
    const { rank, size } = engine;
    return new World({ engine, group: 0, rank, size, timeout, limit: countLimit });
  });
  opened = world;
  world.catch(() => opened = undefined);
  return await world;
}

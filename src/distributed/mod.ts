/**
 * Several processes that compute together, on one machine or on many: collectives of tensors by MPI,
 * which is opened as it is found.
 *
 * A launcher starts the processes, its ranks: `mpiexec -n 4 deno run -A main.ts`, `srun`, an MPIJob.
 * Without a launcher there is one rank, and no library is opened.
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
   * `"any"`, the default: MPI if a launcher has started this process, else a world of one rank.
   * `"mpi"` opens MPI without a launcher too; `"none"` never. Collectives of tensors on CUDA devices
   * use NCCL if all ranks find it; with `"mpi"` they never do, and with `"nccl"`, which opens MPI as
   * `"mpi"` does, they fail without it.
   */
  readonly backend?: "any" | "mpi" | "nccl" | "none";
  /**
   * Milliseconds after which a call fails with a DistributedError: 300,000 by default; Infinity for
   * none.
   */
  readonly timeout?: number;
  /**
   * Whether ranks compare what they call before each collective, which takes as long again as a small
   * one: ranks that call different ones, or with other dtypes or sizes, get an error that names the
   * calls. True by default, unless `ROWMAJOR_DISTRIBUTED_CHECK` is 0. With false, such calls have wrong
   * results, hang, or end the process, as MPI may write beyond the memory of a tensor. All ranks pass
   * the same.
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

  /** What was opened: the implementation, its ABI and its path, or why none. */
  get description(): string {
    return this.#engine.text;
  }

  /** Ends all ranks after 0.2 seconds, in which their launcher reads what this one has printed. */
  abort(code: number = 1): never {
    const shim = findShim();
    if (this.#engine.requests !== undefined && !("reason" in shim)) abortWorld(shim, code);
    const { Deno, process } = globalThis as Partial<
      Record<"Deno" | "process", { exit(code: number): never }>
    >;
    return (Deno ?? process)!.exit(code);
  }

  /**
   * Leaves the world, after all calls that have begun, when all other ranks do. A rank that still
   * waits for this one gets a DistributedError. After a failure it does nothing: the launcher ends
   * all ranks when this process ends.
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
 * Opens the world: the ranks that a launcher has started, or this process alone. Once for each
 * process, and in the main thread.
 *
 * @example
 * ```ts
 * await using world = await init();
 * world.size; // => 1
 * ```
 *
 * Throws a DistributedError with the reason if a launcher has started several processes and they
 * cannot find each other, or if the library is not found with `backend: "mpi"`.
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

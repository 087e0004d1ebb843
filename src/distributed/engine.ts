/**
 * The world of this process: how it opens, and what runs its collectives. One for each process.
 *
 * @module
 */
import { DistributedError } from "../base/errors.ts";
import { plainNumbers, planCollective } from "../backend/native/collective.ts";
import { COLLECTIVE_AT, REQUEST, type Shim, STATUS } from "../backend/ffi/abi.ts";
import { findShim } from "../backend/ffi/load.ts";
import { RequestFailure, Requests } from "../backend/ffi/requests.ts";
import { host } from "../backend/ffi/runtime.ts";
import { readText } from "../backend/ffi/text.ts";
import {
  abandon,
  collectiveError,
  registerEngine,
  setWorld,
  worldRank,
} from "../ops/collective/problem.ts";
import { partsOf } from "../ops/fft/problem.ts";
import type { Operand } from "../memory/operand.ts";
import { Nccl } from "./nccl.ts";

/** What was found: the engine of collectives, or why there is none. */
export interface Engine {
  readonly backend: "mpi" | "none";
  /** The implementation with its version, ABI and path; or why none was opened. */
  readonly text: string;
  readonly rank: number;
  readonly size: number;
  readonly requests: Requests | undefined;
}

/** Settings of {@link openEngine}. */
export interface EngineOptions {
  readonly backend: "any" | "mpi" | "nccl" | "none";
  readonly timeout: number;
  readonly check: boolean;
}

const NO_LAUNCHER = "no launcher such as mpiexec or srun has started this process";

/** Variables of launchers that have the number of processes. */
const SIZES = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"];

/** The number of processes that a launcher has started; 0 for none, undefined if it is unknown. */
function sizeInEnvironment(): number | undefined {
  for (const name of SIZES) {
    if (!host.may("env", name)) return undefined;
    const value = Number(host.variable(name));
    if (Number.isInteger(value) && value > 0) return value;
  }
  return 0;
}

/** Opens MPI if a launcher has started this process, or if the options ask for it. */
export async function openEngine(options: EngineOptions): Promise<Engine> {
  const alone = (text: string): Engine => {
    setWorld(-1, `not opened: ${text}`);
    return { backend: "none", text, rank: 0, size: 1, requests: undefined };
  };
  const { backend, timeout, check } = options;
  if (backend === "none") return alone('the option is backend: "none"');
  const shim = findShim();
  if ("reason" in shim) {
    const size = sizeInEnvironment();
    const isAlone = size !== undefined && size <= 1;
    if (backend === "any" && isAlone) return alone(`the native library: ${shim.reason}`);
    const started = size === undefined
      ? 'a launcher may have started this process (otherwise pass backend "none"); '
      : size > 1
      ? `${size} processes were started, but `
      : "";
    const why = `${started}MPI needs the native library: ${shim.reason}`;
    throw new DistributedError("init", -1, -1, why);
  }
  const found = new Float64Array(2);
  shim.rm_distributed(REQUEST.launcher, found, null, null);
  if (found[0] === 0 && backend === "any") return alone(NO_LAUNCHER);
  const requests = new Requests(shim);
  const numbers = plainNumbers("open", 0, timeout);
  numbers[COLLECTIVE_AT.tag] = check ? 1 : 0;
  let results: Float64Array;
  try {
    results = await within(timeout, requests.start(numbers, null, null));
  } catch (error) {
    const failed = failure("init", error);
    setWorld(-1, `not opened: ${error instanceof RequestFailure ? error.text : String(error)}`);
    throw failed;
  }
  const [rank, size] = [results[1]!, results[2]!];
  const text = describeMpi(shim);
  setWorld(rank, `in use: ${text}`);
  registerEngine((call) => {
    const { numbers, out, a } = planCollective(call);
    try {
      requests.wait(numbers, out.array, a.array);
    } catch (error) {
      if (!(error instanceof RequestFailure)) throw error;
      throw collectiveError(call, error.peer, error.text, error.inUse);
    }
  });
  if (backend !== "mpi") nccl = new Nccl(shim, requests, backend === "nccl", check);
  endWithTheProcess(shim);
  return { backend: "mpi", text, rank, size, requests };
}

function describeMpi(shim: Shim): string {
  const [name, path, launcher] = readText((bytes, length) =>
    shim.rm_distributed_info(bytes, length)
  ).split("\n");
  return `${name}, ${path}${launcher === "" ? "" : `, started by ${launcher}`}`;
}

/** Rejects after `timeout` milliseconds, for what has no deadline in the library. */
function within<T>(timeout: number, promise: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const late = () =>
      reject(new RequestFailure(-1, `MPI did not answer within ${timeout / 1e3} s`, -1, true));
    // Longer delays overflow timers.
    const timer = timeout < 2 ** 31 ? setTimeout(late, timeout) : undefined;
    promise.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

/** The error of a failed request of `op`. */
function failure(op: string, error: unknown): unknown {
  if (!(error instanceof RequestFailure)) return error;
  return new DistributedError(op, worldRank, error.peer, error.text);
}

/** What a request does with the operands that MPI uses until it ends. */
export interface Uses {
  readonly operands: readonly Operand[];
  /** Frees what only the request needed, if MPI uses it no more; `failed` without a result. */
  readonly release?: (failed: boolean) => void;
}

/** The error of a failed request of `op`. What MPI may still use is never freed. */
function endFailed(op: string, error: unknown, { operands, release }: Uses): unknown {
  if (error instanceof RequestFailure && error.inUse) abandon(...operands);
  else release?.(true);
  return failure(op, error);
}

/** The result of a request of `op`, or its error. */
export async function ended<T>(op: string, request: Promise<T>, uses: Uses): Promise<T> {
  let made: T;
  try {
    made = await request;
  } catch (error) {
    throw endFailed(op, error, uses);
  }
  uses.release?.(false);
  return made;
}

/** {@link ended} for a request that waits. */
export function endedSync<T>(op: string, request: () => T, uses: Uses): T {
  let made: T;
  try {
    made = request();
  } catch (error) {
    throw endFailed(op, error, uses);
  }
  uses.release?.(false);
  return made;
}

/** The most elements of one call of MPI in groups that are made from now on; 0 for the usual number. */
export let countLimit = 0;

/** Sets {@link countLimit}, for tests. */
export function setCountLimit(count: number): void {
  countLimit = count;
}

let nccl: Nccl | undefined;
let isClosed = false;
let hasFailed = false;

/** Leaves the world, when all other ranks do. */
export async function closeEngine(requests: Requests, timeout: number): Promise<void> {
  if (isClosed) return;
  try {
    await requests.start(plainNumbers("close", 0, timeout), null, null);
  } catch (error) {
    // After a failure, here or elsewhere, only the end of all processes is left.
    if (error instanceof RequestFailure && error.status === STATUS.cancelled) {
      hasFailed = true;
      return;
    }
    throw failure("close", error);
  }
  // All ranks have ended their calls.
  nccl?.close();
  isClosed = true;
}

/**
 * Ends all ranks when this process ends without having closed its world: others would wait for it,
 * or MPI would report success.
 */
function endWithTheProcess(shim: Shim): void {
  const end = () => {
    if (isClosed) return;
    console.error(
      hasFailed
        ? `rowmajor: rank ${worldRank} ends all ranks, as the world has failed`
        : `rowmajor: rank ${worldRank} ends without having closed its world, which ends all ` +
          'ranks: "await using world = await init()" closes it',
    );
    abortWorld(shim, 1);
  };
  const { process, addEventListener } = globalThis as {
    process?: { on(event: string, listener: () => void): unknown };
    addEventListener?: (event: string, listener: () => void) => void;
  };
  if ("Deno" in globalThis) addEventListener?.("unload", end);
  else process?.on("exit", end);
}

/** Ends all processes of the world. */
export function abortWorld(shim: Shim, code: number): void {
  const numbers = new Float64Array(1);
  numbers[0] = code;
  shim.rm_distributed(REQUEST.abort, numbers, null, null);
}

/** The numbers of a message of a tensor, or of one that a tensor takes. */
export function messageNumbers(
  kind: "send" | "receive",
  group: number,
  x: Operand,
  peer: number,
  tag: number,
  timeout: number,
  limit: number,
): Float64Array {
  const { lanes } = x.storage.info;
  const numbers = plainNumbers(kind, group, timeout);
  numbers[COLLECTIVE_AT.count] = x.layout.size * lanes;
  numbers[kind === "send" ? COLLECTIVE_AT.in : COLLECTIVE_AT.out] = x.layout.offset * lanes;
  numbers[COLLECTIVE_AT.peer] = peer;
  numbers[COLLECTIVE_AT.tag] = tag;
  numbers[COLLECTIVE_AT.limit] = limit;
  numbers[COLLECTIVE_AT.dtype] = partsOf(x.storage).info.id;
  numbers[COLLECTIVE_AT.lanes] = lanes;
  return numbers;
}

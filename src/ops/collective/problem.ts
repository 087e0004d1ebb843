/**
 * Collectives of ranks in the form that backends run.
 *
 * A group of one rank needs no library. For others, the module that has opened the library registers
 * what runs a call, so that programs without several processes load none of it.
 *
 * @module
 */
import { DistributedError } from "../../base/errors.ts";
import { isOperand, type Operand } from "../../memory/operand.ts";
import type { Call } from "../../table/op.ts";
import { partsOf } from "../fft/problem.ts";

/** What combines the elements of ranks. */
export type CollectiveReduction = "sum" | "max" | "min";

/** The functions that call collectives of tensors: ranks compare which one each has called. */
export type CollectiveMethod =
  | "allSum"
  | "allMax"
  | "allMin"
  | "allMean"
  | "allGather"
  | "sumScatter"
  | "broadcast"
  | "allToAll"
  | "averageGradients"
  | "columnParallel"
  | "rowParallel"
  | "saveShards";

/** Attributes of the ops of collectives. */
export interface CollectiveAttributes {
  /** The number of the group in the library, and the rank and size there. */
  readonly group: number;
  readonly rank: number;
  readonly size: number;
  /** What was called. */
  readonly method: CollectiveMethod;
  /** Of `allReduce` and `reduceScatter`. */
  readonly reduction?: CollectiveReduction;
  /** The rank that has the elements of `broadcast`. */
  readonly root?: number;
  /** Milliseconds until a call fails. */
  readonly timeout: number;
  /** The most elements of one call of MPI; 0 for the usual number. */
  readonly limit: number;
}

/** Runs a call whose output is contiguous, as its input is. */
export type CollectiveEngine = (call: Call) => void;

let engine: CollectiveEngine | undefined;

/** Runs calls whose operands are on a device, where it can. */
export interface DeviceEngine {
  /** Whether it may have the call, which is decided on by all ranks in {@link DeviceEngine.run}. */
  supports(call: Call): boolean;
  /** Whether it has the call: all ranks ask, and get the same answer. */
  takes(call: Call): boolean;
  /** Runs the call, whose output is contiguous, as its input is; false if it has none such. */
  run(call: Call): boolean;
  /** Begins the calls of `body`, which writes to `out` if there is one, and waits for their ends. */
  later(body: () => Operand, out: Operand | undefined): Promise<Operand>;
}

/** What runs calls on devices; undefined if there is nothing. */
export let deviceEngine: DeviceEngine | undefined;

/** Registers what runs calls on devices. */
export function registerDeviceEngine(run: DeviceEngine): void {
  deviceEngine = run;
}

/** Registers what runs calls of groups of several ranks. */
export function registerEngine(run: CollectiveEngine): void {
  engine = run;
}

/** Runs a call: one rank keeps what it has. */
export function runCollective(call: Call): void {
  const { size } = call.attributes as CollectiveAttributes;
  if (size > 1) return engine!(call);
  const [x, out] = [call.operand(0), call.outputs[0]!];
  const { offset, size: elements } = x.layout;
  const { entries } = x.storage.info;
  const from = x.storage.array, to = out.storage.array as Float64Array;
  if (from === to) return;
  to.set(from.subarray(offset * entries, (offset + elements) * entries) as Float64Array);
}

/** The elements of a call's operands that the library counts: of the whole, or of a rank's block. */
export function countOf(call: Call): number {
  const { op: { name }, attributes } = call;
  const { layout: { size }, storage } = call.operand(0);
  const lanes = partsOf(storage) === storage ? 1 : 2;
  const isBlock = name === "reduceScatter" || name === "allToAll";
  return size * lanes / (isBlock ? (attributes as CollectiveAttributes).size : 1);
}

/** What MPI may still read or write after a failure: memory that is never freed. */
const abandoned: unknown[] = [];

/** Keeps operands, or anything else, for good. */
export function abandon(...kept: readonly unknown[]): void {
  for (const one of kept) {
    abandoned.push(one);
    if (isOperand(one)) (one as Operand).storage.handles++;
  }
}

/** The rank of this process in the world; −1 while there is none. */
export let worldRank = -1;

/** What was opened for several processes, or why nothing, for `info()`. */
export let worldText = "not opened: init() of @rowmajor/tensor/distributed opens it";

/** Sets {@link worldRank} and {@link worldText}. */
export function setWorld(rank: number, text: string): void {
  worldRank = rank;
  worldText = text;
}

/** What is known of NCCL, for `info()`. */
export let ncclText = "not opened: collectives of CUDA tensors in a world of several ranks open it";

/** Sets {@link ncclText}. */
export function setNccl(text: string): void {
  ncclText = text;
}

/**
 * The error of a failed call; `peer` is the rank at fault or −1. With `inUse` MPI may still use the
 * operands, which are kept.
 */
export function collectiveError(
  call: Call,
  peer: number,
  message: string,
  inUse: boolean,
): DistributedError {
  if (inUse) abandon(...call.inputs, ...call.outputs);
  const { rank } = call.attributes as CollectiveAttributes;
  return new DistributedError(call.name, rank, peer, message);
}

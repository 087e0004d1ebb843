/**
 * Collectives of tensors on CUDA devices by NCCL, which is opened as it is found.
 *
 * The first collective of such tensors in a group opens a communicator of its ranks, which agree by
 * MPI on whether all of them can. If not, these tensors go through the memory of the CPU.
 *
 * @module
 */
import { pause } from "../base/turn.ts";
import { DTYPE, type DTypeInfo } from "../base/dtype.ts";
import { DeviceError, DistributedError } from "../base/errors.ts";
import { plainNumbers, setAsked, setCollective } from "../backend/native/collective.ts";
import { COLLECTIVE_AT, CUDA_NCCL, REDUCTION, type Shim, STATUS } from "../backend/ffi/abi.ts";
import { RequestFailure, type Requests } from "../backend/ffi/requests.ts";
import { lastError, readCudaInfo } from "../backend/ffi/text.ts";
import {
  type CollectiveAttributes,
  type DeviceEngine,
  registerDeviceEngine,
  setNccl,
  worldRank,
} from "../ops/collective/problem.ts";
import { partsOf } from "../ops/fft/problem.ts";
import { dispose } from "../core/handles.ts";
import type { Operand } from "../memory/operand.ts";
import type { DeviceMemory } from "../memory/storage.ts";
import type { Call } from "../table/op.ts";

/** A communicator. */
interface Link {
  readonly number: number;
  readonly device: number;
}

/** A collective that has been queued. */
interface Queued {
  readonly name: string;
  readonly rank: number;
  readonly job: number;
}

const ID_BYTES = 128;
/** Stands in the place of a limit of elements. */
const ONLY_COMPARE = -1;
/** Asks at every turn of the event loop for so many milliseconds, then less often. */
const EAGER_MS = 0.2;
const PATIENCE = 1 / 8;
const LONGEST_SLEEP_MS = 5;

/** The number of the CUDA device that a memory is of; −1 for other memory. */
function deviceOf(memory: DeviceMemory | null): number {
  const found = /^cuda(?::(\d+))?$/.exec(memory?.device ?? "");
  return found === null ? -1 : Number(found[1] ?? 0);
}

/**
 * Whether NCCL has the reduction of a call. It has no integers of 16 bits, and its maxima and minima
 * of floats drop NaN, which ours keep.
 */
function hasReduction({ attributes }: Call, { name, kind }: DTypeInfo): boolean {
  const { reduction } = attributes as CollectiveAttributes;
  if (reduction === undefined) return true;
  if (name === "int16" || name === "uint16") return false;
  return reduction === "sum" || kind !== "f";
}

/** Runs collectives of this process by NCCL. */
export class Nccl implements DeviceEngine {
  readonly #requests: Requests;
  readonly #shim: Shim;
  readonly #isRequired: boolean;
  readonly #compares: boolean;
  /** What is asked about a call, and then the rank at fault or −1. */
  readonly #answer = new Float64Array(2);
  /** By groups; null for those that go through the memory of the CPU. */
  readonly #links = new Map<number, Link | null>();
  /** Where calls are put that have been queued; undefined if they wait at once. */
  #later: Queued[] | undefined;

  /** With `isRequired` a world without NCCL fails; with `compares` ranks compare what they call. */
  constructor(shim: Shim, requests: Requests, isRequired: boolean, compares: boolean) {
    this.#shim = shim;
    this.#requests = requests;
    this.#isRequired = isRequired;
    this.#compares = compares;
    registerDeviceEngine(this);
  }

  supports(call: Call): boolean {
    const { size, group } = call.attributes as CollectiveAttributes;
    const { storage, layout } = call.operand(0);
    return size > 1 && layout.size > 0 && this.#links.get(group) !== null &&
      deviceOf(storage.memory) >= 0 && hasReduction(call, storage.info);
  }

  /** Whether a call runs by NCCL; opens a communicator if its group has none. */
  takes(call: Call): boolean {
    return this.supports(call) && this.#linkFor(call) !== null;
  }

  run(call: Call): boolean {
    const link = this.#linkFor(call);
    if (link === null) return false;
    this.#compare(call);
    const { rank } = call.attributes as CollectiveAttributes;
    const queued = { name: call.name, rank, job: this.#queue(call, link) };
    if (this.#later === undefined) this.#check(queued, this.#ask(CUDA_NCCL.wait, queued.job));
    else this.#later.push(queued);
    return true;
  }

  /**
   * Runs `body`, of which collectives are only queued; the promise is settled when they have ended.
   * After a failure the result is disposed of, unless it is `out`.
   */
  async later(body: () => Operand, out: Operand | undefined): Promise<Operand> {
    const queued: Queued[] = this.#later = [];
    let made: Operand;
    try {
      made = body();
    } finally {
      this.#later = undefined;
    }
    try {
      for (const one of queued) this.#check(one, await this.#endOf(one));
    } catch (error) {
      if (made !== out) dispose(made);
      throw error;
    }
    return made;
  }

  /** The status of a call that has ended. */
  async #endOf({ job }: Queued): Promise<number> {
    const begin = performance.now();
    for (;;) {
      const status = this.#ask(CUDA_NCCL.take, job);
      if (status !== STATUS.notFound) return status;
      const waited = performance.now() - begin;
      await pause(waited < EAGER_MS ? 0 : Math.min(LONGEST_SLEEP_MS, waited * PATIENCE));
    }
  }

  /** Ends all communicators. No rank may still be in a call. */
  close(): void {
    if ([...this.#links.values()].every((link) => link === null)) return;
    this.#ask(CUDA_NCCL.close, 0);
    this.#links.clear();
  }

  #ask(what: number, number: number): number {
    this.#answer[0] = number;
    this.#answer[1] = -1;
    return this.#shim.rm_cuda_nccl(what, 0, this.#answer, null);
  }

  /** Throws the failure of a call, which ends the world. */
  #check({ name, rank }: { name: string; rank: number }, status: number): void {
    if (status === STATUS.ok) return;
    const text = lastError(this.#shim);
    this.#requests.fail(text);
    throw new DistributedError(name, rank, this.#answer[1]!, text);
  }

  #queue(call: Call, link: Link): number {
    const numbers = new Float64Array(COLLECTIVE_AT.numbers);
    const [x, out] = [call.operand(0), call.outputs[0]!];
    const address = ({ storage, layout }: Operand): number =>
      storage.address + layout.offset * storage.info.bytes;
    setCollective(numbers, call);
    numbers[COLLECTIVE_AT.group] = link.number;
    numbers[COLLECTIVE_AT.in] = address(x);
    numbers[COLLECTIVE_AT.out] = address(out);
    const status = this.#shim.rm_cuda_nccl(CUDA_NCCL.call, link.device, numbers, null);
    if (status === STATUS.distributed) {
      this.#answer[1] = -1;
      this.#check(
        { name: call.name, rank: (call.attributes as CollectiveAttributes).rank },
        status,
      );
    }
    if (status !== STATUS.ok) {
      throw new DeviceError(`${x.storage.device}: ${lastError(this.#shim)}`);
    }
    return numbers[0]!;
  }

  #linkFor(call: Call): Link | null {
    const { group } = call.attributes as CollectiveAttributes;
    const device = deviceOf(partsOf(call.operand(0).storage).memory);
    let link = this.#links.get(group);
    if (link === undefined) {
      link = this.#open(call, device);
      this.#links.set(group, link);
    }
    if (link === null || link.device === device) return link;
    throw new DeviceError(
      `Cannot ${call.name} a tensor on CUDA device ${device}: this rank's part of the group is ` +
        `device ${link.device}, that of its first collective`,
    );
  }

  /** Opens a communicator for the group of a call, if all ranks can. */
  #open(call: Call, device: number): Link | null {
    const { group, rank, size, timeout } = call.attributes as CollectiveAttributes;
    const shim = this.#shim;
    const id = new Uint8Array(ID_BYTES);
    const numbers = new Float64Array(4);
    this.#compare(call);
    const refuse = (reason: string): null => {
      setNccl(`not used: ${reason}`);
      if (!this.#isRequired) return null;
      throw new DistributedError(call.name, worldRank, -1, `NCCL is not available: ${reason}`);
    };
    try {
      let status = shim.rm_cuda_nccl(CUDA_NCCL.load, device, numbers, null);
      if (status === STATUS.ok && rank === 0) {
        status = shim.rm_cuda_nccl(CUDA_NCCL.id, device, numbers, id);
      }
      let reason = status === STATUS.ok ? "another rank has none" : lastError(shim);
      if (!this.#agree(group, timeout, status === STATUS.ok)) return refuse(reason);
      this.#exchange("broadcast", group, timeout, DTYPE.uint8, id, id);
      numbers.set([rank, size, timeout, group]);
      status = shim.rm_cuda_nccl(CUDA_NCCL.open, device, numbers, id);
      const [number, job] = [numbers[0]!, numbers[1]!];
      if (status === STATUS.ok) status = this.#ask(CUDA_NCCL.wait, job);
      reason = status === STATUS.ok ? "another rank cannot open it" : lastError(shim);
      if (!this.#agree(group, timeout, status === STATUS.ok)) return refuse(reason);
      setNccl(`in use: ${readCudaInfo(shim, -1).get("nccl")}`);
      return { number, device };
    } catch (error) {
      if (!(error instanceof RequestFailure)) throw error;
      throw new DistributedError(call.name, rank, error.peer, error.text);
    }
  }

  /** Throws if another rank calls something else, unless the program has forbidden to compare. */
  #compare(call: Call): void {
    if (!this.#compares) return;
    const numbers = new Float64Array(COLLECTIVE_AT.numbers);
    setAsked(numbers, call);
    numbers[COLLECTIVE_AT.limit] = ONLY_COMPARE;
    try {
      this.#requests.wait(numbers);
    } catch (error) {
      if (!(error instanceof RequestFailure)) throw error;
      const { rank } = call.attributes as CollectiveAttributes;
      throw new DistributedError(call.name, rank, error.peer, error.text);
    }
  }

  /** Whether all ranks pass true. */
  #agree(group: number, timeout: number, mine: boolean): boolean {
    const all = Int32Array.of(mine ? 1 : 0);
    this.#exchange("allReduce", group, timeout, DTYPE.int32, all, all);
    return all[0] === 1;
  }

  #exchange(
    kind: "allReduce" | "broadcast",
    group: number,
    timeout: number,
    { id }: DTypeInfo,
    out: Int32Array | Uint8Array,
    input: Int32Array | Uint8Array,
  ): void {
    const numbers = plainNumbers(kind, group, timeout);
    numbers[COLLECTIVE_AT.reduction] = kind === "allReduce" ? REDUCTION.min : 0;
    numbers[COLLECTIVE_AT.count] = out.length;
    numbers[COLLECTIVE_AT.dtype] = id;
    this.#requests.wait(numbers, out, input);
  }
}

/**
 * Runs a lowered graph: its kernels in one foreign call, with all intermediate results in one arena.
 *
 * @module
 */
import type { TypedArray } from "../base/dtype.ts";
import { NativeError, OutOfMemoryError, QueueFullError } from "../base/errors.ts";
import { currentOf } from "../base/placeholder.ts";
import { ATTRIBUTES } from "../base/plan.ts";
import type { KernelSource } from "../backend/cpu.ts";
import { type Shim, STATUS } from "../backend/ffi/abi.ts";
import type { Frame, IndexFault } from "../backend/native/program.ts";
import type { JobQueue } from "../backend/native/queue.ts";
import { CHAIN } from "../ops/chain/op.ts";
import { copyInto, copyOf, performCall } from "../core/dispatch.ts";
import { tidy } from "../core/handles.ts";
import { uninterpreted } from "../core/interpreter.ts";
import { writeElement } from "../memory/element.ts";
import { type Leased, leaseOf } from "../memory/lease.ts";
import { elementsOf, type Operand } from "../memory/operand.ts";
import {
  allocateFor,
  allocateIn,
  emptyCache,
  letGo,
  type LinearMemory,
  moveIn,
  recycle,
} from "../memory/pool.ts";
import type { Storage } from "../memory/storage.ts";
import { Call, type Input } from "../table/op.ts";
import {
  givenOutputs,
  type Graph,
  isGiven,
  isOutside,
  isValue,
  type NodeInput,
  type Outside,
  outsideStorage,
  readsOf,
  type TracedStorage,
} from "./graph.ts";
import { lower, type Lowered } from "./lower.ts";
import type { Passes } from "./optimize.ts";
import { firstWrite, type PlaceholderValues, Plan } from "./plan.ts";
import type { Buffer, EagerStep } from "./recorder.ts";
import { type Executor, type LaterOptions, Replay, writeBack, writtenStorages } from "./replay.ts";

/** What a run does between its segments. */
interface Run {
  readonly plan: Plan;
  readonly frame: Frame;
  /** The storages, by the places of their buffers. */
  readonly real: (Storage | undefined)[];
  /** Those that the kernels cannot address. */
  readonly copies: Copied[];
}

/** A storage that kernels use by a copy. */
interface Copied {
  readonly storage: Storage;
  readonly copy: Storage;
  isWritten: boolean;
}

/** Thrown before a run has begun: the kernels cannot address all that it uses. */
class UnaddressableError extends Error {}

function unaddressable(): UnaddressableError {
  return new UnaddressableError("the memory of the kernels is full");
}

/** Frames of one program that run off the event loop at once; further calls wait for one. */
const MOST_FRAMES = 4;

/** An asynchronous call that waits. */
interface Turn {
  /** Begins it; false if its program has no free frame. */
  start(): boolean;
}

/** The calls of all programs that wait: each begins after those before it. */
const waiting: Turn[] = [];

function startWaiting(): void {
  while (waiting.length > 0 && waiting[0]!.start()) waiting.shift();
}

/** Runs a graph by native kernels. */
export class Native implements Executor {
  readonly name: string;
  readonly #graph: Graph;
  readonly #shim: Shim;
  /** The only memory that the kernels address; null if they address all. */
  readonly #memory: LinearMemory | null;
  /** How often each node turned out to have no kernel. */
  readonly #eager = new Map<number, number>();
  /** Runs it by dispatch, to find what an index out of range is. */
  readonly #replay: Replay;
  readonly #tiles: boolean;
  readonly #written: readonly TracedStorage[];
  /** The storages outside that a run uses: not those of which constants alone were computed. */
  readonly #outside: readonly TracedStorage[];
  #plan: Plan;
  #tried: boolean;
  /** The storages of the current synchronous run. */
  readonly #real: (Storage | undefined)[] = [];
  #replayed = false;
  /** The asynchronous runs that have a frame. */
  #inFlight = 0;

  /** Runs `graph` by the kernels of a source. */
  constructor(graph: Graph, { name, shim, memory }: KernelSource, passes: Passes) {
    this.name = name;
    this.#graph = graph;
    this.#shim = shim;
    this.#memory = memory;
    this.#tiles = passes.tiles;
    this.#replay = new Replay(graph);
    this.#written = [...writtenStorages(graph)];
    const used = new Set(graph.results.map(({ storage }) => storage));
    for (const node of graph.nodes) {
      for (const { storage } of [...readsOf(node), ...node.outputs]) used.add(storage);
    }
    this.#outside = graph.storages.filter((one) => isOutside(one.origin) && used.has(one));
    this.#tried = !this.#written.some(({ origin }) => isOutside(origin));
    let lowered = this.#lower();
    if (!this.#tried) {
      // The error of an index that is out of range needs the operands at that point.
      for (const step of lowered.steps.slice(firstWrite(lowered))) {
        if (step.kind === "native" && step.checksIndex) this.#eager.set(step.node, 2);
      }
      if (this.#eager.size > 0) lowered = this.#lower();
    }
    this.#plan = this.#planOf(lowered);
  }

  #planOf(lowered: Lowered): Plan {
    return new Plan(lowered, this.#shim, this.#memory);
  }

  #lower(): Lowered {
    const options = { eager: this.#eager, tiles: this.#tiles };
    return uninterpreted(() => lower(this.#graph, this.#shim, options));
  }

  /** The parts, for reports. */
  get plan(): Plan {
    return this.#plan;
  }

  /** Whether a node runs by dispatch because an index that is out of range has to be found first. */
  checksFirst(node: number): boolean {
    return this.#eager.get(node) === 2 && this.#graph.nodes[node]!.op !== CHAIN;
  }

  run(args: readonly Storage[], out?: readonly (Storage | undefined)[]): readonly Storage[] {
    this.#replayed = false;
    if (!this.#tried) {
      this.#tried = true;
      this.#try(args);
    }
    for (;;) {
      try {
        return this.#run(args, out);
      } catch (error) {
        this.#drop();
        if (!this.#canBegin(error)) {
          const at = unsupportedCall(error);
          if (at === undefined) throw error;
          if (this.#relower(at)) continue;
        }
        return this.#byDispatch(args);
      }
    }
  }

  /** Finds calls without a kernel before any memory outside is written. */
  #try(args: readonly Storage[]): void {
    const copies = new Map<Storage, Storage>();
    const copy = (storage: Storage): Storage => {
      const made = copyOf(elementsOf(storage)).storage;
      made.handles++;
      copies.set(storage, made);
      return made;
    };
    for (let tries = 0; tries <= 2 * this.#graph.nodes.length; tries++) {
      let at: number | undefined;
      try {
        this.#run(args, undefined, (storage) => copies.get(storage) ?? copy(storage));
      } catch (error) {
        at = unsupportedCall(error);
      } finally {
        this.#drop();
      }
      if (at === undefined || !this.#relower(at)) break;
    }
    for (const made of copies.values()) letGo(made);
  }

  /** Has a call run by dispatch, from the next run on; false without room for such a program. */
  #relower(call: number): boolean {
    const node = this.#plan.nodeOf(call);
    this.#eager.set(node, (this.#eager.get(node) ?? 0) + 1);
    try {
      const plan = this.#prepare(() => this.#planOf(this.#lower()));
      this.#plan.free();
      this.#plan = plan;
      return true;
    } catch (error) {
      if (error instanceof UnaddressableError) return false;
      throw error;
    }
  }

  /** Finds or makes the storages of a run, and passes them to its frame. */
  #bind(
    run: Run,
    outside: (buffer: Buffer) => Storage,
    values: PlaceholderValues | undefined,
    out: readonly (Storage | undefined)[] | undefined,
  ): void {
    const { plan, frame, real } = run;
    const { perRun, captured, arrays, placeholders, keys } = plan;
    plan.prepare(frame);
    let count = 0;
    for (let i = 0; i < perRun.length; i++) {
      const { buffer, place, copied, result } = perRun[i]!;
      const isArgument = buffer.source.kind === "argument";
      const storage = isArgument ? outside(buffer) : (result >= 0 ? out?.[result] : undefined) ??
        allocateFor(buffer.info, buffer.length, false);
      real[place] = storage;
      if (copied === false) arrays[count++] = this.#arrayOf(run, buffer, storage);
      else if (copied && isArgument) frame.write(place, storage.array);
    }
    if (count > 0) frame.bindAll(0, arrays);
    arrays.length = 0;
    for (let i = 0; i < captured.length; i++) {
      const { buffer, place, copied } = captured[i]!;
      const storage = real[place] = outside(buffer);
      if (copied) frame.write(place, storage.array);
      else if (copied === false) frame.bind(place, this.#arrayOf(run, buffer, storage));
    }
    for (let i = 0; i < placeholders.length; i++) {
      const { place, storage, value } = placeholders[i]!;
      if (values === undefined) writeElement(storage, 0, value.current());
      frame.write(place, values === undefined ? storage.array : values.numbers[i]!);
    }
    for (let i = 0; i < keys.length; i++) {
      const { call, key } = keys[i]!;
      const [word0, word1] = values === undefined ? key.current() : values.keys[i]!;
      frame.setNumber(call, ATTRIBUTES + 1, word0 >>> 0);
      frame.setNumber(call, ATTRIBUTES + 2, word1 >>> 0);
    }
  }

  /** The elements of a storage where the kernels can address them. */
  #arrayOf({ plan, copies }: Run, buffer: Buffer, storage: Storage): TypedArray {
    const memory = this.#memory;
    if (memory === null || moveIn(memory, storage)) return storage.array;
    const isWritten = plan.writes.has(buffer);
    const known = copies.find((one) => one.storage === storage);
    if (known !== undefined) {
      known.isWritten ||= isWritten;
      return known.copy.array;
    }
    const { array, info } = storage;
    // A copy of elements that others write meanwhile, or of those of another copy, would undo that.
    const overlaps = copies.some((one) =>
      one.storage.array.buffer === array.buffer && (isWritten || one.isWritten)
    );
    if (overlaps || (isWritten && storage.shared)) throw unaddressable();
    const copy = allocateIn(memory, info, storage.length);
    if (copy === undefined) throw unaddressable();
    (copy.array as Float64Array).set(array as Float64Array);
    copies.push({ storage, copy, isWritten });
    return copy.array;
  }

  /** Reads small results back; the storages of the results. */
  #results(run: Run): Storage[] {
    const { plan, frame, real } = run;
    const { readBack, results } = plan;
    copyOut(run);
    for (let i = 0; i < readBack.length; i++) {
      const { buffer, place, copied } = readBack[i]!;
      const storage = real[place]!;
      if (copied) frame.read(place, storage.array);
      if (plan.writes.has(buffer)) storage.version++;
    }
    const made: Storage[] = [];
    for (let i = 0; i < results.length; i++) made.push(real[results[i]!]!);
    return made;
  }

  #run(
    args: readonly Storage[],
    out: readonly (Storage | undefined)[] | undefined,
    replace?: (storage: Storage) => Storage,
  ): readonly Storage[] {
    const plan = this.#plan;
    const frame = this.#acquire(plan);
    const run = { plan, frame, real: this.#real, copies: [] };
    const outside = (buffer: Buffer): Storage => {
      const storage = outsideStorage(buffer.source as Outside, args);
      return replace !== undefined && plan.writes.has(buffer) ? replace(storage) : storage;
    };
    try {
      this.#prepare(() => this.#bind(run, outside, undefined, out));
      const { segments } = plan;
      for (let i = 0; i < segments.length; i++) {
        const segment = segments[i]!;
        if ("eager" in segment) runEager(segment.eager, run);
        else if (this.#runCalls(run, segment) !== null) {
          // The run after a try finds the same.
          return replace === undefined ? this.#byDispatch(args) : [];
        }
      }
      return this.#results(run);
    } catch (error) {
      // What the run has written so far is not what constants were computed of.
      for (const { buffer, place } of plan.outside) {
        if (plan.writes.has(buffer) && run.real[place] !== undefined) run.real[place].version++;
      }
      throw error;
    } finally {
      frame.release();
      dropCopies(run);
    }
  }

  /** Whether ops may run by dispatch instead, after a run without room. */
  #canBegin(error: unknown): boolean {
    if (error instanceof UnaddressableError) return true;
    // A run that writes to tensors outside would write twice.
    return error instanceof OutOfMemoryError && this.#memory !== null &&
      !this.#written.some(({ origin }) => isOutside(origin));
  }

  /** Runs calls; those from one that finds no room in the memory are run again. */
  #runCalls({ plan, frame }: Run, { from, to }: { from: number; to: number }): IndexFault | null {
    try {
      return frame.run(from, to);
    } catch (error) {
      return this.#again(plan, frame, error, to);
    }
  }

  /**
   * Repeats a call that has found no room in the memory, without what is kept for reuse, and runs those
   * after it: kernels allocate before they write. Throws `error` if it is another one.
   */
  #again(plan: Plan, frame: Frame, error: unknown, to: number): IndexFault | null {
    for (let thrown = error, failed = -1;;) {
      const at = this.#memory === null ? undefined : failedCall(thrown, STATUS.outOfMemory);
      if (at === undefined) throw thrown;
      if (at === failed || plan.isInLoop(at)) throw plan.outOfMemory(at);
      emptyCache();
      failed = at;
      try {
        return frame.run(at, to);
      } catch (next) {
        thrown = next;
      }
    }
  }

  #acquire(plan: Plan): Frame {
    return this.#prepare(() => plan.program.acquire(Infinity)!);
  }

  /** Prepares a run: an error of a full linear memory is an {@link UnaddressableError}. */
  #prepare<T>(prepare: () => T): T {
    if (this.#memory === null) return prepare();
    try {
      return prepare();
    } catch (error) {
      throw error instanceof OutOfMemoryError ? unaddressable() : error;
    }
  }

  /**
   * Runs the graph by dispatch, which throws the error of an index that is out of range, and needs no
   * memory of kernels.
   */
  #byDispatch(args: readonly Storage[]): readonly Storage[] {
    this.#drop();
    this.#replayed = true;
    return this.#replay.run(args);
  }

  /** Frees the storages that the synchronous run made and that have no handle. */
  #drop(): void {
    dropTemporaries(this.#plan, this.#real);
    this.#real.length = 0;
  }

  release(): void {
    if (this.#replayed) this.#replay.release();
    else this.#drop();
    this.#replayed = false;
  }

  async runLater(args: readonly Storage[], options: LaterOptions): Promise<readonly Storage[]> {
    // All that the run reads is read, or leased, before this function waits for anything.
    const leases: Leased[] = [];
    const sources = new Map<Storage, Storage>();
    const written = new Map<Storage, Storage>();
    const lease = (storage: Storage, writes: boolean): void => {
      if (sources.has(storage)) return;
      if (writes) {
        const copy = copyOf(elementsOf(storage)).storage;
        sources.set(storage, copy);
        written.set(storage, copy);
        storage.handles++;
        copy.handles++;
        return;
      }
      const leased = leaseOf(storage);
      leases.push(leased);
      sources.set(storage, leased.storage);
    };
    const isWritten = new Set<Storage>(this.#written);
    const tried = { plan: this.#plan };
    try {
      for (const traced of this.#outside) {
        const { origin } = traced;
        if (origin.kind === "argument") lease(args[origin.group]!, isWritten.has(traced));
        else if (origin.kind === "captured") lease(origin.storage, isWritten.has(traced));
      }
      const values = this.#plan.placeholderValues();
      for (;;) {
        try {
          return await this.#later(args, sources, values, options, tried);
        } catch (error) {
          if (this.#canBegin(error)) return this.#laterByDispatch(args, sources);
          const at = unsupportedCall(error);
          if (at === undefined) throw error;
          // Another run may have found the same.
          if (tried.plan === this.#plan && !this.#relower(at)) {
            return this.#laterByDispatch(args, sources);
          }
        }
      }
    } finally {
      for (const one of leases) one.end();
      for (const [storage, copy] of written) {
        letGo(copy);
        letGo(storage);
      }
    }
  }

  /** One try of an asynchronous run. */
  async #later(
    args: readonly Storage[],
    sources: ReadonlyMap<Storage, Storage>,
    values: PlaceholderValues,
    { queue, signal, restore }: LaterOptions,
    tried: { plan: Plan },
  ): Promise<readonly Storage[]> {
    const run = await this.#begin(queue, signal);
    const { frame } = run;
    tried.plan = run.plan;
    // Numbers of another plan than that at the call are in other places.
    restore();
    let done = false;
    try {
      const outside = ({ source }: Buffer): Storage => {
        const storage = outsideStorage(source as Outside, args);
        return sources.get(storage) ?? storage;
      };
      const own = values.plan === run.plan ? values : undefined;
      this.#prepare(() => this.#bind(run, outside, own, undefined));
      let first = signal;
      for (const segment of run.plan.segments) {
        if ("eager" in segment) {
          restore();
          runEager(segment.eager, run);
        } else {
          const { from, to } = segment;
          const fault = await queue.submit(frame, { from, to, signal: first })
            .catch((error) => this.#again(run.plan, frame, error, to));
          if (fault !== null) {
            restore();
            return this.#laterByDispatch(args, sources);
          }
        }
        // A run that has started is not dropped.
        first = undefined;
      }
      const made = this.#results(run);
      done = true;
      return writeBack(this.#graph, made, args, sources);
    } finally {
      if (!done) dropTemporaries(run.plan, run.real);
      frame.release();
      dropCopies(run);
      this.#leave();
    }
  }

  /** A run with a frame, in the order of the calls of all programs. */
  async #begin(queue: JobQueue, signal: AbortSignal | undefined): Promise<Run> {
    await this.#turn(queue, signal);
    try {
      const plan = this.#plan;
      return { plan, frame: this.#acquire(plan), real: [], copies: [] };
    } catch (error) {
      this.#leave();
      throw error;
    }
  }

  #turn(queue: JobQueue, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      if (waiting.length >= queue.limit) throw new QueueFullError(queue.limit);
      const abort = (): void => {
        waiting.splice(waiting.indexOf(turn), 1);
        reject(signal!.reason);
        startWaiting();
      };
      const turn: Turn = {
        start: () => {
          if (this.#inFlight === MOST_FRAMES) return false;
          this.#inFlight++;
          signal?.removeEventListener("abort", abort);
          resolve();
          return true;
        },
      };
      signal?.addEventListener("abort", abort, { once: true });
      waiting.push(turn);
      startWaiting();
    });
  }

  /** Ends an asynchronous run. */
  #leave(): void {
    this.#inFlight--;
    startWaiting();
  }

  /** {@link Native.run} by dispatch, on the leased elements. */
  #laterByDispatch(
    args: readonly Storage[],
    sources: ReadonlyMap<Storage, Storage>,
  ): readonly Storage[] {
    const replay = new Replay(this.#graph, sources);
    const kept: Storage[] = [];
    try {
      const made = replay.run(args.map((storage) => sources.get(storage)!));
      const results = writeBack(this.#graph, made, args, sources);
      // Those that no handle holds are freed with the run.
      for (const storage of results) {
        storage.handles++;
        kept.push(storage);
      }
      return results;
    } finally {
      replay.release();
      for (const storage of kept) storage.handles--;
    }
  }

  dispose(): void {
    this.#plan.free();
  }
}

/** Runs an op of a program by dispatch. */
function runEager({ call: node, buffers }: EagerStep, run: Run): void {
  const { plan, frame, real } = run;
  const { places } = plan;
  copyOut(run);
  const realOf = (buffer: Buffer): Storage => real[places.get(buffer)!]!;
  const copied = [...buffers.values()].filter((buffer) => plan.copied.has(buffer));
  for (const buffer of copied) frame.read(places.get(buffer)!, realOf(buffer).array);
  tidy(() => {
    const operand = (value: NodeInput): Input => {
      if (!isValue(value)) return currentOf(value as Input);
      const { storage, layout, flags } = value;
      return { storage: realOf(buffers.get(storage)!), layout, flags };
    };
    const { op, name, inputs, outputs, attributes } = node;
    const own = attributes === undefined ? undefined : { ...attributes };
    const call = new Call(op, name, inputs.map(operand), own);
    givenOutputs(node).forEach((one, k) => {
      if (one !== undefined) call.outputs[k] = operand(one) as Operand;
    });
    performCall(call);
    outputs.forEach(({ storage, layout }, k) => {
      if (isGiven(node, k)) return;
      const target = realOf(buffers.get(storage)!);
      copyInto({ storage: target, layout, flags: 0 }, call.outputs[k]!);
    });
  });
  for (const buffer of copied) frame.write(places.get(buffer)!, realOf(buffer).array);
  for (const { storage, copy } of run.copies) {
    (copy.array as Float64Array).set(storage.array as Float64Array);
  }
}

/** Writes what kernels wrote to copies to the storages themselves. */
function copyOut({ copies }: Run): void {
  for (const { storage, copy, isWritten } of copies) {
    if (isWritten) (storage.array as Float64Array).set(copy.array as Float64Array);
  }
}

function dropCopies({ copies }: Run): void {
  for (const { copy } of copies) recycle(copy);
  copies.length = 0;
}

/** Frees the storages that a run made and that have no handle. */
function dropTemporaries({ perRun }: Plan, real: readonly (Storage | undefined)[]): void {
  for (const { place, buffer: { source } } of perRun) {
    const storage = real[place];
    if (storage === undefined || source.kind !== "temporary" || storage.handles > 0) continue;
    recycle(storage);
  }
}

/** The number of the call for which the shim has no kernel, if that is the error. */
function unsupportedCall(error: unknown): number | undefined {
  return failedCall(error, STATUS.unsupported);
}

/** The number of the call that failed with a status, if that is the error. */
function failedCall(error: unknown, status: number): number | undefined {
  if (!(error instanceof NativeError) || error.status !== status) return undefined;
  const match = /call (\d+)/.exec(error.message);
  return match === null ? undefined : Number(match[1]);
}

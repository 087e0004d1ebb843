/**
 * Runs a lowered graph: its kernels in one foreign call, with all intermediate results in one arena.
 *
 * @module
 */
import { NativeError, QueueFullError } from "../base/errors.ts";
import { currentOf } from "../base/placeholder.ts";
import { ATTRIBUTES } from "../base/plan.ts";
import { type Shim, STATUS } from "../backend/ffi/abi.ts";
import type { Frame } from "../backend/native/program.ts";
import type { JobQueue } from "../backend/native/queue.ts";
import { CHAIN } from "../ops/chain/op.ts";
import { copyInto, copyOf, performCall } from "../core/dispatch.ts";
import { tidy } from "../core/handles.ts";
import { uninterpreted } from "../core/interpreter.ts";
import { writeElement } from "../memory/element.ts";
import { type Leased, leaseOf } from "../memory/lease.ts";
import { elementsOf, type Operand } from "../memory/operand.ts";
import { allocateFor, letGo, recycle } from "../memory/pool.ts";
import type { Storage } from "../memory/storage.ts";
import { Call, type Input } from "../table/op.ts";
import {
  type Graph,
  isOutside,
  isValue,
  type NodeInput,
  type Outside,
  outsideStorage,
  type TracedStorage,
} from "./graph.ts";
import { lower, type Lowered } from "./lower.ts";
import type { Passes } from "./optimize.ts";
import { type PlaceholderValues, Plan } from "./plan.ts";
import type { Buffer, EagerStep } from "./recorder.ts";
import { type Executor, type LaterOptions, Replay, writeBack, writtenStorages } from "./replay.ts";

/** What a run does between its segments. */
interface Run {
  readonly plan: Plan;
  readonly frame: Frame;
  /** The storages, by the places of their buffers. */
  readonly real: (Storage | undefined)[];
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
  readonly name = "native";
  readonly #graph: Graph;
  readonly #shim: Shim;
  /** How often each node turned out to have no kernel. */
  readonly #eager = new Map<number, number>();
  /** Runs it by dispatch, to find what an index out of range is. */
  readonly #replay: Replay;
  readonly #tiles: boolean;
  readonly #written: readonly TracedStorage[];
  #plan: Plan;
  #tried: boolean;
  /** The storages of the current synchronous run. */
  readonly #real: (Storage | undefined)[] = [];
  #replayed = false;
  /** The asynchronous runs that have a frame. */
  #inFlight = 0;

  constructor(graph: Graph, shim: Shim, passes: Passes) {
    this.#graph = graph;
    this.#shim = shim;
    this.#tiles = passes.tiles;
    this.#replay = new Replay(graph);
    this.#written = [...writtenStorages(graph)];
    this.#tried = !this.#written.some(({ origin }) => isOutside(origin));
    let lowered = this.#lower();
    if (!this.#tried) {
      // The error of an index that is out of range needs the operands at that point.
      for (const step of lowered.steps) {
        if (step.kind === "native" && step.checksIndex) this.#eager.set(step.node, 2);
      }
      if (this.#eager.size > 0) lowered = this.#lower();
    }
    this.#plan = new Plan(lowered, shim);
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
        const at = unsupportedCall(error);
        if (at === undefined) throw error;
        this.#relower(at);
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
      if (at === undefined) break;
      this.#relower(at);
    }
    for (const made of copies.values()) letGo(made);
  }

  #relower(call: number): void {
    const node = this.#plan.nodeOf(call);
    this.#eager.set(node, (this.#eager.get(node) ?? 0) + 1);
    this.#plan.free();
    const lowered = this.#lower();
    this.#plan = new Plan(lowered, this.#shim);
  }

  /** Finds or makes the storages of a run, and passes them to its frame. */
  #bind(
    { plan, frame, real }: Run,
    outside: (buffer: Buffer) => Storage,
    values: PlaceholderValues | undefined,
    out: readonly (Storage | undefined)[] | undefined,
  ): void {
    const { perRun, captured, arrays, placeholders, keys } = plan;
    plan.prepare(frame);
    let count = 0;
    for (let i = 0; i < perRun.length; i++) {
      const { buffer, place, copied, result } = perRun[i]!;
      const isArgument = buffer.source.kind === "argument";
      const storage = isArgument ? outside(buffer) : (result >= 0 ? out?.[result] : undefined) ??
        allocateFor(buffer.info, buffer.length, false);
      real[place] = storage;
      if (copied === false) arrays[count++] = storage.array;
      else if (copied && isArgument) frame.write(place, storage.array);
    }
    if (count > 0) frame.bindAll(0, arrays);
    arrays.length = 0;
    for (let i = 0; i < captured.length; i++) {
      const { buffer, place, copied } = captured[i]!;
      const storage = real[place] = outside(buffer);
      if (copied) frame.write(place, storage.array);
      else if (copied === false) frame.bind(place, storage.array);
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

  /** Reads small results back; the storages of the results. */
  #results({ plan, frame, real }: Run): Storage[] {
    const { readBack, results } = plan;
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
    const frame = plan.program.acquire(Infinity)!;
    const run = { plan, frame, real: this.#real };
    const outside = (buffer: Buffer): Storage => {
      const storage = outsideStorage(buffer.source as Outside, args);
      return replace !== undefined && plan.writes.has(buffer) ? replace(storage) : storage;
    };
    try {
      this.#bind(run, outside, undefined, out);
      const { segments } = plan;
      for (let i = 0; i < segments.length; i++) {
        const segment = segments[i]!;
        if ("eager" in segment) runEager(segment.eager, run);
        else if (frame.run(segment.from, segment.to) !== null) return this.#fault(args);
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
    }
  }

  /** Runs the graph by dispatch, which throws the error of the index that is out of range. */
  #fault(args: readonly Storage[]): readonly Storage[] {
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
      for (const traced of this.#graph.storages) {
        const { origin } = traced;
        if (origin.kind === "argument") lease(args[origin.group]!, isWritten.has(traced));
        else if (origin.kind === "captured") lease(origin.storage, isWritten.has(traced));
      }
      const values = this.#plan.placeholderValues();
      for (;;) {
        try {
          return await this.#later(args, sources, values, options, tried);
        } catch (error) {
          const at = unsupportedCall(error);
          if (at === undefined) throw error;
          // Another run may have found the same.
          if (tried.plan === this.#plan) this.#relower(at);
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
      this.#bind(run, outside, values.plan === run.plan ? values : undefined, undefined);
      let first = signal;
      for (const segment of run.plan.segments) {
        if ("eager" in segment) {
          restore();
          runEager(segment.eager, run);
        } else {
          const { from, to } = segment;
          const fault = await queue.submit(frame, { from, to, signal: first });
          if (fault !== null) {
            restore();
            return this.#faultLater(args, sources);
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
      this.#leave();
    }
  }

  /** A run with a frame, in the order of the calls of all programs. */
  async #begin(queue: JobQueue, signal: AbortSignal | undefined): Promise<Run> {
    await this.#turn(queue, signal);
    try {
      const plan = this.#plan;
      return { plan, frame: plan.program.acquire(Infinity)!, real: [] };
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
  #faultLater(
    args: readonly Storage[],
    sources: ReadonlyMap<Storage, Storage>,
  ): readonly Storage[] {
    const replay = new Replay(this.#graph, sources);
    try {
      return replay.run(args.map((storage) => sources.get(storage)!));
    } finally {
      replay.release();
    }
  }

  dispose(): void {
    this.#plan.free();
  }
}

/** Runs an op of a program by dispatch. */
function runEager({ call: node, buffers }: EagerStep, { plan, frame, real }: Run): void {
  const { places } = plan;
  const realOf = (buffer: Buffer): Storage => real[places.get(buffer)!]!;
  const copied = [...buffers.values()].filter((buffer) => plan.copied.has(buffer));
  for (const buffer of copied) frame.read(places.get(buffer)!, realOf(buffer).array);
  tidy(() => {
    const operand = (value: NodeInput): Input => {
      if (!isValue(value)) return currentOf(value as Input);
      const { storage, layout, flags } = value;
      return { storage: realOf(buffers.get(storage)!), layout, flags };
    };
    const { op, name, inputs, outputs, given, attributes } = node;
    const own = attributes === undefined ? undefined : { ...attributes };
    const call = new Call(op, name, inputs.map(operand), own);
    if (given) call.outputs[0] = operand(outputs[0]!) as Operand;
    performCall(call);
    outputs.forEach(({ storage, layout }, k) => {
      if (given && k === 0) return;
      const target = realOf(buffers.get(storage)!);
      copyInto({ storage: target, layout, flags: 0 }, call.outputs[k]!);
    });
  });
  for (const buffer of copied) frame.write(places.get(buffer)!, realOf(buffer).array);
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
  if (!(error instanceof NativeError) || error.status !== STATUS.unsupported) return undefined;
  return Number(/call (\d+)/.exec(error.message)![1]);
}

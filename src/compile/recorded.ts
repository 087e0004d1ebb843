/**
 * Runs a graph on a device that can record work: the first run dispatches its ops, the second records
 * them, and later runs cost one launch.
 *
 * @module
 */
import { DeviceError } from "../base/errors.ts";
import { Placeholder } from "../base/placeholder.ts";
import type { Recording } from "../core/backend.ts";
import { copyInto, copyOf, recordOn } from "../core/dispatch.ts";
import { elementsOf } from "../memory/operand.ts";
import { letGo } from "../memory/pool.ts";
import type { Storage } from "../memory/storage.ts";
import type { Graph } from "./graph.ts";
import { type Executor, Replay, writtenStorages } from "./replay.ts";

/** Recorded work, and the memory that it reads and writes. */
interface Tape {
  readonly recording: Recording;
  /** The storages that stand for those of the arguments. */
  readonly args: readonly Storage[];
  readonly results: readonly Storage[];
  /** The addresses of captured tensors: copies on write move. */
  readonly addresses: ReadonlyMap<Storage, number>;
  /** The handles of captured tensors that the recording has. */
  readonly handles: ReadonlyMap<Storage, number>;
}

/** Why the work of a graph is not the same in each run, or not on one device; else undefined. */
export function whyNotRecorded({ storages, nodes }: Graph): string | undefined {
  const devices = new Set(storages.map(({ device }) => device));
  if (devices.size !== 1) return "its tensors are on several devices";
  if (devices.has("cpu")) return "the CPU records no work";
  if (nodes.some(({ inputs }) => inputs.some((input) => input instanceof Placeholder))) {
    return "it takes a number of each call";
  }
  if (storages.some(({ origin }) => origin.kind === "created" && origin.constant === null)) {
    return "it takes a random key of each call";
  }
  return nodes.length > 1 ? undefined : "it has one op at most";
}

/** Whether the work of a graph is the same in each run, and on one device only. */
export function canRecord(graph: Graph): boolean {
  return whyNotRecorded(graph) === undefined;
}

/** Runs a graph by dispatch, then as recorded work. */
export class Recorded implements Executor {
  readonly #graph: Graph;
  readonly #replay: Replay;
  /** The replay whose calls were recorded: it keeps the memory of the recording. */
  #recordedBy: Replay | undefined;
  /** Null if the device cannot record this work. */
  #tape: Tape | null | undefined;
  #runs = 0;
  /** Whether the last run was by dispatch. */
  #replayed = false;

  constructor(graph: Graph) {
    this.#graph = graph;
    this.#replay = new Replay(graph);
  }

  get name(): string {
    return this.#tape ? "graph" : "replay";
  }

  /** Why it is not recorded, for reports; undefined if it is. */
  get why(): string | undefined {
    if (this.#tape === undefined) return "the second run records its work";
    return this.#tape === null ? "the device cannot record this work" : undefined;
  }

  run(args: readonly Storage[]): readonly Storage[] {
    if (this.#tape && [...this.#tape.addresses].some(([one, at]) => one.address !== at)) {
      this.dispose();
      this.#tape = undefined;
    }
    // Compilation of kernels, and memory that ops keep, do not belong in a recording.
    if (this.#runs++ > 0 && this.#tape === undefined) this.#tape = this.#record(args);
    const tape = this.#tape;
    this.#replayed = tape === undefined || tape === null;
    if (this.#replayed) return this.#replay.run(args);
    tape!.args.forEach((own, i) => copyTo(own, args[i]!, own.length));
    for (const storage of tape!.recording.written) storage.version++;
    tape!.recording.run();
    for (const { origin } of writtenStorages(this.#graph)) {
      if (origin.kind !== "argument") continue;
      const own = tape!.args[origin.group]!;
      copyTo(args[origin.group]!, own, own.length);
    }
    return tape!.results.map((storage, place) => {
      const { origin } = this.#graph.results[place]!.storage;
      if (origin.kind === "argument") return args[origin.group]!;
      return origin.kind === "captured" ? storage : this.#copyOnce(storage, place, tape!);
    });
  }

  /** A copy of a result; results of one storage share it. */
  #copyOnce(storage: Storage, place: number, { results }: Tape): Storage {
    const at = results.indexOf(storage);
    if (place === at) this.#copies[at] = copyOf(elementsOf(storage)).storage;
    return this.#copies[at]!;
  }
  readonly #copies: Storage[] = [];

  #record(args: readonly Storage[]): Tape | null {
    const { device } = this.#graph.storages[0]!;
    const lengths: number[] = [];
    for (const { origin, length } of this.#graph.storages) {
      if (origin.kind === "argument") lengths[origin.group] = length;
    }
    const own = args.map((storage, i) => copyOf(elementsOf(storage, lengths[i] ?? 0)).storage);
    for (const storage of own) storage.handles++;
    const replay = new Replay(this.#graph);
    const captured = this.#graph.storages.flatMap(({ origin }) =>
      origin.kind === "captured" ? [origin.storage] : []
    );
    const before = captured.map((storage) => storage.handles);
    let results: readonly Storage[] = [];
    try {
      const recording = recordOn(device, () => results = replay.run(own));
      this.#recordedBy = replay;
      const addresses = new Map(captured.map((storage) => [storage, storage.address]));
      const handles = new Map(captured.map((one, i) => [one, one.handles - before[i]!]));
      return { recording, args: own, results, addresses, handles };
    } catch (error) {
      if (!(error instanceof DeviceError)) throw error;
      replay.release();
      for (const storage of own) letGo(storage);
      return null;
    }
  }

  get handles(): ReadonlyMap<Storage, number> | undefined {
    return this.#tape?.handles;
  }

  release(): void {
    if (this.#replayed) this.#replay.release();
    this.#copies.length = 0;
  }

  dispose(): void {
    const tape = this.#tape;
    if (!tape) return;
    this.#tape = null;
    tape.recording.free();
    this.#recordedBy!.release();
    for (const storage of tape.args) letGo(storage);
  }
}

function copyTo(to: Storage, from: Storage, length: number): void {
  if (to !== from) copyInto(elementsOf(to, length), elementsOf(from, length));
}

/**
 * Runs a graph by dispatching its ops one by one, as the function itself would: on any device, with
 * or without the native library.
 *
 * @module
 */
import type { JobQueue } from "../backend/native/queue.ts";
import { currentOf } from "../base/placeholder.ts";
import { copyInto, copyOf, performCall } from "../core/dispatch.ts";
import { dispose, wrap } from "../core/handles.ts";
import { allocateIn } from "../memory/device.ts";
import { elementsOf, isOperand, type Operand } from "../memory/operand.ts";
import { recycle } from "../memory/pool.ts";
import type { Storage } from "../memory/storage.ts";
import { Call, type Input } from "../table/op.ts";
import {
  type Created,
  givenOutputs,
  type Graph,
  isGiven,
  isOutside,
  isValue,
  type Node,
  type NodeInput,
  outsideStorage,
  readsOf,
  type TracedStorage,
  writesOf,
  writtenParts,
} from "./graph.ts";

/** How a program runs off the event loop. */
export interface LaterOptions {
  readonly queue: JobQueue;
  /** Drops the run if it has not started. */
  readonly signal: AbortSignal | undefined;
  /** Sets the numbers and keys of the program to those of this run. */
  restore(): void;
}

/** Runs the graph of a program. */
export interface Executor {
  /** The name of the backend, for `explain()`. */
  readonly name: string;
  /**
   * Runs it on the storages of the arguments, and returns those of the results, by their places;
   * they are the caller's until {@link Executor.release}. It may write results to those of `out`.
   */
  run(args: readonly Storage[], out?: readonly (Storage | undefined)[]): readonly Storage[];
  /**
   * Runs it without blocking the thread, on the elements that the storages have now. Absent if it
   * cannot.
   */
  runLater?(args: readonly Storage[], options: LaterOptions): Promise<readonly Storage[]>;
  /** The handles of captured tensors that it has, if any. */
  readonly handles?: ReadonlyMap<Storage, number> | undefined;
  /** Frees what the last run has not returned. Called after the results have handles. */
  release(): void;
  /** Frees everything. */
  dispose(): void;
}

/** The storages that a graph writes after they exist. */
export function writtenStorages({ nodes }: Graph): Set<TracedStorage> {
  return new Set(nodes.flatMap((node) => [...writesOf(node)]));
}

/**
 * Writes what a run on `copies` of its tensors wrote to the tensors themselves. Returns the storages
 * of its results `made`: those in memory outside are there, not in the copies.
 */
export function writeBack(
  graph: Graph,
  made: readonly Storage[],
  args: readonly Storage[],
  copies: ReadonlyMap<Storage, Storage>,
): Storage[] {
  for (const { storage: { origin }, layout } of writtenParts(graph)) {
    if (!isOutside(origin)) continue;
    const storage = outsideStorage(origin, args);
    storage.settle();
    copyInto({ storage, layout, flags: 0 }, { storage: copies.get(storage)!, layout, flags: 0 });
  }
  const back = new Map([...copies].map(([storage, copy]) => [copy, storage]));
  return made.map((storage) => back.get(storage) ?? storage);
}

/** Runs a graph by dispatch. */
export class Replay implements Executor {
  readonly name = "replay";
  readonly #graph: Graph;
  /** The storages whose last use is in each node. */
  readonly #last: readonly (readonly number[])[];
  /** The storages that each run makes anew although they hold constants. */
  readonly #fresh: ReadonlySet<Storage>;
  /** By the ids of traced storages. */
  readonly #storages: (Storage | undefined)[] = [];
  /** The handles of the last run. */
  readonly #handles: (Operand | undefined)[] = [];

  /** The storages that captured ones are replaced by, if any. */
  readonly #captured: ReadonlyMap<Storage, Storage>;

  constructor(graph: Graph, captured: ReadonlyMap<Storage, Storage> = new Map()) {
    this.#graph = graph;
    this.#captured = captured;
    const { storages, nodes, results } = graph;
    const kept = new Set(results.map(({ storage }) => storage));
    this.#fresh = new Set([...kept, ...writtenStorages(graph)]);
    const last: number[][] = nodes.map(() => []);
    const end = new Map<number, number>();
    nodes.forEach((node, i) => {
      for (const { storage } of [...readsOf(node), ...node.outputs]) end.set(storage.id, i);
    });
    for (const [id, i] of end) if (!kept.has(storages[id]!)) last[i]!.push(id);
    this.#last = last;
  }

  run(args: readonly Storage[]): readonly Storage[] {
    const { storages, nodes, results } = this.#graph;
    const real = this.#storages;
    for (const { id, origin } of storages) {
      if (origin.kind === "argument") real[id] = args[origin.group]!;
      else if (origin.kind === "captured") {
        real[id] = this.#captured.get(origin.storage) ?? origin.storage;
      } else if (origin.kind === "created") real[id] = this.#created(id, origin);
    }
    nodes.forEach((node, i) => {
      this.#runNode(node);
      for (const id of this.#last[i]!) this.#drop(id);
    });
    return results.map(({ storage }) => real[storage.id]!);
  }

  #created(id: number, { op, name, attributes, constant }: Created): Storage {
    if (constant !== null) {
      if (!this.#fresh.has(this.#graph.storages[id]!)) return constant;
      return this.#own(id, copyOf(elementsOf(constant)));
    }
    const made = op.create(attributes, name);
    this.#handles[id] = made;
    return made.storage;
  }

  /** Gives memory a handle: ops that make and dispose of handles of it would free it otherwise. */
  #own(id: number, { storage, layout }: Operand): Storage {
    this.#handles[id] = wrap(storage, layout);
    return storage;
  }

  #operand(input: NodeInput): Input {
    if (!isValue(input)) return currentOf(input as Input);
    const { storage, layout, flags } = input;
    return { storage: this.#storages[storage.id] ?? this.#join(storage), layout, flags };
  }

  /** Makes the memory of parts, right before the first of them. */
  #join({ id, info, length, memory }: TracedStorage): Storage {
    return this.#storages[id] = this.#own(id, elementsOf(allocateIn(memory, info, length, false)));
  }

  #runNode(node: Node): void {
    const { op, name, inputs, outputs, attributes } = node;
    const own = attributes === undefined ? undefined : { ...attributes };
    const call = new Call(op, name, inputs.map((input) => this.#operand(input)), own);
    givenOutputs(node).forEach((one, k) => {
      if (one !== undefined) call.outputs[k] = this.#operand(one) as Operand;
    });
    performCall(call);
    outputs.forEach(({ storage: { id } }, k) => {
      if (isGiven(node, k)) return;
      const made = call.outputs[k]!;
      this.#handles[id] = made;
      // Ops may return views in place of copies.
      const plain = made.layout.contiguous && made.layout.offset === 0 &&
        !call.inputs.some((input) => isOperand(input) && input.storage === made.storage);
      if (plain) this.#storages[id] = made.storage;
      else {
        const copy = copyOf(made);
        dispose(made);
        this.#storages[id] = this.#own(id, copy);
      }
    });
  }

  #drop(id: number): void {
    const [handle, storage] = [this.#handles[id], this.#storages[id]!];
    this.#handles[id] = this.#storages[id] = undefined;
    const { origin } = this.#graph.storages[id]!;
    if (handle !== undefined) dispose(handle);
    else if (!isOutside(origin) && storage.handles === 0) {
      const isConstant = origin.kind === "created" && storage === origin.constant;
      if (!isConstant) recycle(storage);
    }
  }

  release(): void {
    for (let id = 0; id < this.#storages.length; id++) {
      if (this.#handles[id] !== undefined) dispose(this.#handles[id]!);
    }
    this.#storages.length = this.#handles.length = 0;
  }

  dispose(): void {}
}

/**
 * Turns a graph into calls of native kernels: dispatches its ops on storages without memory, to a
 * backend that keeps the arguments of the kernels and runs nothing.
 *
 * So a program does what dispatch would do: the same plans, copies, casts and decompositions.
 *
 * @module
 */
import { DTYPE, type DTypeInfo } from "../base/dtype.ts";
import { DeviceError } from "../base/errors.ts";
import { Placeholder } from "../base/placeholder.ts";
import { Layout } from "../base/layout.ts";
import type { Shim } from "../backend/ffi/abi.ts";
import { CHAIN } from "../ops/chain/op.ts";
import { SCALAR_LAYOUT } from "../core/calls.ts";
import { copyInto, copyOf, fillWith, finishMap, run, withDevice } from "../core/dispatch.ts";
import { tidy } from "../core/handles.ts";
import { elementsOf, isOperand, type Operand } from "../memory/operand.ts";
import type { Storage } from "../memory/storage.ts";
import { Call, type Input, type MapOp } from "../table/op.ts";
import { PlaceholderKey } from "../api/random/placeholder_key.ts";
import {
  type Created,
  givenOutputs,
  type Graph,
  isGiven,
  isValue,
  type Node,
  type NodeInput,
  type TracedStorage,
  type Value,
} from "./graph.ts";
import { readDType } from "./fuse.ts";
import { writtenStorages } from "./replay.ts";
import { findTiles, hasRows, rowRank, type TileGroup } from "./tiles.ts";
import { Buffer, DEVICE, NotLowerable, Recorder, type Step } from "./recorder.ts";

/** Steps that run once for each tile of rows. */
export interface Loop {
  /** The first step. */
  readonly first: number;
  /** The number of steps of a whole tile. */
  readonly body: number;
  /** The number of steps after them, for the last, shorter tile. */
  readonly rest: number;
  readonly tiles: number;
  /** The estimated nanoseconds. */
  readonly work: number;
  /** The bytes from the first row of a tile to that of the next, of buffers that have rows. */
  readonly tileBytes: ReadonlyMap<Buffer, number>;
  /** The buffers that each tile has for itself. */
  readonly inner: ReadonlySet<Buffer>;
}

/** A graph as calls of kernels. */
export interface Lowered {
  readonly steps: readonly Step[];
  readonly loops: readonly Loop[];
  /** All buffers that steps use, and those of results. */
  readonly buffers: readonly Buffer[];
  /** The buffers of the results, by their places; null for storages that exist before. */
  readonly results: readonly Buffer[];
}

/** Lowers one graph. */
class Lowering {
  readonly #graph: Graph;
  readonly #recorder: Recorder;
  readonly #buffers = new Map<TracedStorage, Buffer>();
  readonly #placeholders = new Map<Placeholder<unknown>, Buffer[]>();
  readonly #eager: ReadonlyMap<number, number>;
  readonly #groups: readonly TileGroup[];
  readonly #loops: Loop[] = [];

  constructor(graph: Graph, shim: Shim, { eager, tiles }: LowerOptions) {
    this.#graph = graph;
    this.#groups = tiles ? findTiles(graph) : [];
    this.#recorder = new Recorder(shim);
    this.#eager = eager;
  }

  lower(): Lowered {
    const { storages, nodes, results } = this.#graph;
    const recorder = this.#recorder;
    const device = { backend: recorder, memory: recorder.memory };
    withDevice(DEVICE, device, () =>
      tidy(() => {
        const fresh = new Set<Storage>([
          ...results.map(({ storage }) => storage),
          ...writtenStorages(this.#graph),
        ]);
        for (const storage of storages) this.#begin(storage, fresh.has(storage));
        for (let i = 0; i < nodes.length;) {
          const group = this.#groups.find(({ first }) => first === i);
          if (group !== undefined && this.#tiles(group)) i = group.end;
          else this.#lowerNode(nodes[i]!, i++);
        }
      }));
    const used = new Set<Buffer>();
    for (const step of recorder.steps) {
      const all = step.kind === "native" ? step.buffers : [...step.buffers.values()];
      for (const buffer of all) if (buffer !== null) used.add(buffer);
    }
    const made = results.map(({ storage }) => this.#buffers.get(storage)!);
    for (const buffer of made) used.add(buffer);
    return { steps: recorder.steps, loops: this.#loops, buffers: [...used], results: made };
  }

  /** Makes the buffer of a storage that no node makes. */
  #begin(storage: TracedStorage, fresh: boolean): void {
    const { origin, info, length } = storage;
    const recorder = this.#recorder;
    if (origin.kind === "made") return;
    if (origin.kind === "joined") {
      this.#buffers.set(storage, recorder.buffer(info, length, { kind: "temporary" }));
      return;
    }
    if (origin.kind !== "created") {
      this.#buffers.set(storage, recorder.buffer(info, length, origin));
      return;
    }
    if (origin.constant === null) return this.#random(storage, origin);
    const source = { kind: "captured", storage: origin.constant } as const;
    const constant = recorder.buffer(info, length, source);
    if (!fresh) {
      this.#buffers.set(storage, constant);
      return;
    }
    const copy = copyOf(elementsOf(constant));
    this.#buffers.set(storage, copy.storage as Buffer);
  }

  #random(storage: TracedStorage, { op, name, attributes }: Created): void {
    const recorder = this.#recorder;
    const given = attributes as object;
    recorder.key = Object.values(given).find((value) => value instanceof PlaceholderKey)!;
    const made = op.create({ ...given, device: DEVICE }, name);
    recorder.key = null;
    this.#buffers.set(storage, this.#plain(made, []).storage as Buffer);
  }

  /** `made`, or a copy of it, as the only owner of a buffer in row-major order. */
  #plain(made: Operand, inputs: readonly Input[]): Operand {
    const { layout, storage } = made;
    const own = layout.contiguous && layout.offset === 0 && storage.length === layout.size &&
      (storage as Buffer).source.kind === "temporary" &&
      !inputs.some((input) => isOperand(input) && input.storage === storage);
    return own ? made : copyOf(made);
  }

  #operand(input: NodeInput): Input {
    if (!isValue(input)) return input as Input;
    const { storage, layout, flags } = input;
    return { storage: this.#buffers.get(storage)!, layout, flags };
  }

  /** The operand of a number of each run, in the dtype in which an op reads it. */
  #placeholder(value: Placeholder<number | bigint>, info: DTypeInfo): Operand {
    const known = this.#placeholders.get(value) ?? [];
    let buffer = known.find((one) => one.info === info);
    if (buffer === undefined) {
      buffer = this.#recorder.buffer(info, 1, { kind: "placeholder", value });
      this.#placeholders.set(value, [...known, buffer]);
    }
    return { storage: buffer, layout: SCALAR_LAYOUT, flags: 0 };
  }

  #lowerNode(node: Node, i: number): void {
    const recorder = this.#recorder;
    const { steps } = recorder;
    const count = steps.length;
    recorder.node = i;
    try {
      const tries = this.#eager.get(i) ?? 0;
      // The steps of a chain may have kernels where the chain has none.
      if (tries > (node.op === CHAIN ? 1 : 0)) throw new NotLowerable(node.name);
      recorder.splitsChains = tries > 0;
      this.#native(node);
    } catch (error) {
      // Ops that are functions of the CPU refuse the recording device.
      if (!(error instanceof NotLowerable || error instanceof DeviceError)) throw error;
      steps.length = count;
      this.#eagerly(node, i, error.message);
    }
    recorder.node = -1;
    recorder.splitsChains = false;
  }

  #native(node: Node): void {
    const { op, name, inputs, outputs, attributes } = node;
    if (op === CHAIN) return this.#chain(node);
    const hasPlaceholder = inputs.some((input) => input instanceof Placeholder);
    if (hasPlaceholder && op.kind !== "map") throw new NotLowerable(name);
    const call = new Call(
      op,
      name,
      inputs.map((input) => hasPlaceholder ? input as Input : this.#operand(input)),
      attributes === undefined ? undefined : { ...attributes },
    );
    this.#give(call, node);
    if (hasPlaceholder) this.#mapWithPlaceholders(call, node);
    else run(call);
    outputs.forEach(({ storage }, k) => {
      if (isGiven(node, k)) return;
      this.#buffers.set(storage, this.#plain(call.outputs[k]!, call.inputs).storage as Buffer);
    });
  }

  /** Gives a call the outputs that existed before its node. */
  #give(call: Call, node: Node): void {
    givenOutputs(node).forEach((one, k) => {
      if (one !== undefined) call.outputs[k] = this.#operand(one) as Operand;
    });
  }

  /** Lowers a group of nodes as a loop over tiles; false if that is not possible. */
  #tiles(group: TileGroup): boolean {
    const { first, end, rows, tile, inner, bytes } = group;
    const recorder = this.#recorder;
    const { steps } = recorder;
    const count = steps.length;
    const tileBytes = new Map<Buffer, number>();
    const outer = new Set<Buffer>();
    const before = new Map(this.#buffers);
    for (const node of this.#graph.nodes.slice(first, end)) {
      for (const { storage } of node.outputs) {
        if (inner.has(storage)) continue;
        const made = recorder.buffer(storage.info, storage.length, { kind: "temporary" });
        outer.add(made);
        this.#buffers.set(storage, made);
      }
    }
    const known = recorder.count;
    try {
      const tiles = Math.floor(rows / tile);
      const rest = rows - tiles * tile;
      this.#tile(group, tile, tile, tileBytes);
      const body = steps.length - count;
      if (rest > 0) this.#tile(group, rest, tile, tileBytes);
      const own = new Set<Buffer>();
      for (const step of steps.slice(count)) {
        if (step.kind === "eager" || step.checksIndex) throw new NotLowerable(step.kind);
        for (const buffer of step.buffers) {
          if (buffer === null || tileBytes.has(buffer)) continue;
          if (buffer.place >= known && buffer.source.kind === "temporary") own.add(buffer);
        }
      }
      this.#loops.push({
        ...{ first: count, body, rest: steps.length - count - body, tiles },
        ...{ work: bytes / 8, tileBytes, inner: own },
      });
      return true;
    } catch (error) {
      if (!(error instanceof NotLowerable)) throw error;
      steps.length = count;
      this.#buffers.clear();
      for (const [storage, buffer] of before) this.#buffers.set(storage, buffer);
      return false;
    } finally {
      recorder.node = -1;
    }
  }

  /** Lowers the nodes of a group for its first `rows` rows. */
  #tile(
    { first, end, rows: all, inner }: TileGroup,
    rows: number,
    tile: number,
    tileBytes: Map<Buffer, number>,
  ): void {
    const own = new Map<TracedStorage, Operand>();
    const shorten = (shape: readonly number[]): number[] => [rows, ...shape.slice(1)];
    /** The first rows of an operand in a buffer that has all of them. */
    const firstRows = ({ storage, layout, flags }: Value): Operand => {
      const buffer = this.#buffers.get(storage)!;
      const step = layout.strides[0]! * storage.info.bytes * tile;
      if ((tileBytes.get(buffer) ?? step) !== step) throw new NotLowerable("two strides");
      tileBytes.set(buffer, step);
      return { storage: buffer, layout: layout.sliceAxis(0, 0, rows, 1), flags };
    };
    for (let i = first; i < end; i++) {
      const node = this.#graph.nodes[i]!;
      const { op, name, inputs, outputs, attributes } = node;
      if ((this.#eager.get(i) ?? 0) > 0) throw new NotLowerable(name);
      this.#recorder.node = i;
      const rank = rowRank(node);
      const operands = inputs.map((input, k): Input => {
        if (input instanceof Placeholder) {
          if (op !== CHAIN) throw new NotLowerable(name);
          return this.#placeholder(input as Placeholder<number | bigint>, readDType(node, k));
        }
        if (!isValue(input)) return input;
        const made = own.get(input.storage);
        if (made !== undefined) {
          const layout = Layout.contiguous(shorten(input.layout.shape));
          return { storage: made.storage, layout, flags: 0 };
        }
        if (hasRows(input, rank, all)) return firstRows(input);
        const operand = this.#operand(input) as Operand;
        if (tileBytes.has(operand.storage as Buffer)) throw new NotLowerable("two strides");
        tileBytes.set(operand.storage as Buffer, 0);
        return operand;
      });
      const shape = shorten(outputs[0]!.layout.shape);
      const call = new Call(
        op,
        name,
        operands,
        op === CHAIN
          ? { ...attributes as object, shape }
          : attributes === undefined
          ? undefined
          : { ...attributes },
      );
      const direct = outputs.length === 1 && !inner.has(outputs[0]!.storage);
      if (direct) call.outputs[0] = firstRows(outputs[0]!);
      run(call);
      outputs.forEach((output, k) => {
        const { storage } = output;
        if (inner.has(storage)) own.set(storage, this.#plain(call.outputs[k]!, operands));
        else if (!direct) copyInto(firstRows(output), call.outputs[k]!);
      });
    }
  }

  /** A chain, whose numbers of each run are operands. */
  #chain(node: Node): void {
    const { op, name, inputs, outputs, attributes } = node;
    const operands = inputs.map((input, k) =>
      input instanceof Placeholder
        ? this.#placeholder(input as Placeholder<number | bigint>, readDType(node, k))
        : this.#operand(input)
    );
    const call = new Call(op, name, operands, { ...attributes as object });
    this.#give(call, node);
    run(call);
    outputs.forEach(({ storage }, k) => {
      if (isGiven(node, k)) return;
      this.#buffers.set(storage, this.#plain(call.outputs[k]!, operands).storage as Buffer);
    });
  }

  /** A map of numbers that only each run knows: its dtypes and its shape are settled. */
  #mapWithPlaceholders(call: Call, { inputs, outputs: [output], compute }: Node): void {
    const op = call.op as MapOp;
    const operands = inputs.map((input, k) => {
      const info = op.condition && k === 0 ? DTYPE.bool : compute;
      if (input instanceof Placeholder) {
        return this.#placeholder(input as Placeholder<number | bigint>, info);
      }
      const own = this.#operand(input);
      if (isOperand(own)) return own;
      if (op.compares && compute.kind !== "f") throw new NotLowerable(op.name);
      return this.#scalar(own as number | bigint | boolean, info);
    });
    const [a, b = null, c = null] = operands;
    const { layout: { shape }, storage: { info } } = output!;
    const like = operands.find(({ storage }) => storage instanceof Buffer)!.storage;
    // The dtype of a given output may be wider than the result's.
    const dtype = call.outputs[0] === undefined ? info : call.outputs[0].storage.info;
    finishMap(call, compute, dtype, shape, like, a!, b, c, call.outputs[0]);
  }

  #scalar(value: number | bigint | boolean, info: DTypeInfo): Operand {
    const one = this.#recorder.memory.make!(info, 1, false);
    const operand = { storage: one, layout: SCALAR_LAYOUT, flags: 0 };
    fillWith(operand, value);
    return operand;
  }

  #eagerly(node: Node, i: number, why: string): void {
    const buffers = new Map<TracedStorage, Buffer>();
    for (const input of node.inputs) {
      if (isValue(input)) buffers.set(input.storage, this.#buffers.get(input.storage)!);
    }
    node.outputs.forEach(({ storage }) => {
      let buffer = this.#buffers.get(storage);
      if (buffer === undefined) {
        buffer = this.#recorder.buffer(storage.info, storage.length, { kind: "temporary" });
        this.#buffers.set(storage, buffer);
      }
      buffers.set(storage, buffer);
    });
    this.#recorder.steps.push({ kind: "eager", call: node, buffers, node: i, why });
  }
}

/** How a graph is lowered. */
export interface LowerOptions {
  /**
   * How often each node turned out to have no kernel after all: then its parts, or the node, run by
   * dispatch.
   */
  readonly eager: ReadonlyMap<number, number>;
  /** Whether ops along rows run tile by tile. */
  readonly tiles: boolean;
}

/** The calls of kernels that do what `graph` does. */
export function lower(graph: Graph, shim: Shim, options: LowerOptions): Lowered {
  return new Lowering(graph, shim, options).lower();
}

/**
 * Makes the pieces of `concat` and `stack` in the memory of the result, so that nothing copies them.
 *
 * A piece that is one block of the result is written there by its op, and all that reads the piece reads
 * that block. So is one of long rows with gaps between them, if nothing else reads it and its op writes
 * such outputs. A piece that is a tensor of its own, or whose op cannot write there, is copied.
 *
 * @module
 */
import { Layout } from "../base/layout.ts";
import { normalizeAxis, sameShape } from "../base/shape.ts";
import type { Op } from "../table/op.ts";
import { MAP } from "../table/table.ts";
import { CHAIN } from "../ops/chain/op.ts";
import {
  type Graph,
  isValue,
  type Node,
  type NodeInput,
  readsOf,
  TracedStorage,
  type Value,
} from "./graph.ts";
import { pureStorages, resultStorages } from "./passes.ts";
import type { TileGroup } from "./tiles.ts";

/** A graph whose nodes write pieces where they belong. */
export interface Joined {
  readonly graph: Graph;
  /** The place of each of its nodes in the graph before: that of the join for copies of pieces. */
  readonly sources: readonly number[];
}

/** Whether a node joins tensors. */
export function isJoin({ op: { name } }: Node): boolean {
  return name === "concat" || name === "stack";
}

/** Programs that need no more memory than this may need more for less copies. */
const SMALL_BYTES = 1 << 16;

/** The least elements in a row of a part with gaps: ops along shorter rows are slower than the copy. */
const LEAST_ROW = 64;

/** Where the elements of a storage are in another one. */
interface Place {
  /** Of the first one. */
  readonly start: number;
  /** Of all, if there are gaps between them: then only the op that makes them and the join use them. */
  readonly layout?: Layout;
}

/** An input of a join, and its part of the result. */
interface Piece {
  readonly value: Value;
  readonly part: Layout;
}

/** The nodes between which a storage is in use, both included. */
interface Lifetime {
  readonly first: number;
  readonly last: number;
}

/** Whether kernels of an op write to a part of a storage, which may have gaps. */
function canWriteParts({ kind, strided, outOffset }: Op, hasGaps: boolean): boolean {
  return kind !== "kernel" || strided === true || (outOffset === true && !hasGaps);
}

/** Whether the rows of a part with gaps are long. */
function hasLongRows({ shape, strides }: Layout): boolean {
  let row = 1;
  for (let i = shape.length - 1; i >= 0 && (shape[i] === 1 || strides[i] === row); i--) {
    row *= shape[i]!;
  }
  return row >= LEAST_ROW;
}

/** The pieces of a join whose result is `made`, without empty ones. */
function piecesOf({ op, name, inputs, attributes }: Node, { layout: made }: Value): Piece[] {
  const { axis } = attributes as { readonly axis: number | null };
  const along = axis === null ? 0 : normalizeAxis(name, axis, made.rank);
  let end = 0;
  return (inputs as readonly Value[]).flatMap((value, i) => {
    const { layout } = value;
    let part: Layout;
    if (op.name === "stack") part = made.selectAxis(along, i);
    else {
      const size = axis === null ? layout.size : layout.shape[along]!;
      part = axis === null
        ? Layout.contiguous(layout.shape, made.offset + end)
        : made.sliceAxis(along, end, size, 1);
      end += size;
    }
    return layout.size === 0 ? [] : [{ value, part }];
  });
}

/** Bytes that are in use at each node. */
class Usage {
  readonly #bytes: Float64Array;

  constructor(nodes: number) {
    this.#bytes = new Float64Array(nodes);
  }

  /** Adds the bytes of a storage as often as `count` says. */
  add({ length, info }: TracedStorage, { first, last }: Lifetime, count: 1 | -1): void {
    for (let i = first; i <= last; i++) this.#bytes[i]! += count * length * info.bytes;
  }

  /** The most bytes at a node of a lifetime. */
  most({ first, last }: Lifetime): number {
    let most = 0;
    for (let i = first; i <= last; i++) most = Math.max(most, this.#bytes[i]!);
    return most;
  }
}

/** Places the pieces of the joins of one graph. */
class Joining {
  readonly #graph: Graph;
  readonly #storages: TracedStorage[];
  /** Storages that are a part of another one, or that another one replaces. */
  readonly #places = new Map<TracedStorage, Place & { readonly storage: TracedStorage }>();
  readonly #lifetimes = new Map<TracedStorage, Lifetime>();
  readonly #makers = new Map<TracedStorage, Node>();
  /** How often nodes read each storage. */
  readonly #reads = new Map<TracedStorage, number>();
  readonly #usage: Usage;
  readonly #mostBytes: number;
  readonly #isPure: (storage: TracedStorage) => boolean;
  /** The storages of results. */
  readonly #kept: Set<TracedStorage>;
  readonly #tiled: ReadonlySet<Node>;
  /** The copies of pieces, by the join that they replace. */
  readonly #copies = new Map<Node, readonly Node[]>();

  constructor(graph: Graph, tiles: readonly TileGroup[]) {
    const { nodes, storages } = this.#graph = graph;
    this.#storages = storages.slice();
    this.#isPure = pureStorages(graph);
    this.#kept = resultStorages(graph);
    this.#tiled = new Set(tiles.flatMap(({ first, end }) => nodes.slice(first, end)));
    nodes.forEach((node, i) => {
      for (const { storage } of [...readsOf(node), ...node.outputs]) {
        const first = this.#lifetimes.get(storage)?.first ?? i;
        const last = this.#kept.has(storage) ? nodes.length - 1 : i;
        this.#lifetimes.set(storage, { first, last });
      }
      for (const { storage } of node.outputs) this.#makers.set(storage, node);
      for (const { storage } of readsOf(node)) {
        this.#reads.set(storage, (this.#reads.get(storage) ?? 0) + 1);
      }
    });
    this.#usage = new Usage(nodes.length);
    for (const [storage, lifetime] of this.#lifetimes) {
      if (storage.origin.kind === "made") this.#usage.add(storage, lifetime, 1);
    }
    const most = this.#usage.most({ first: 0, last: nodes.length - 1 });
    this.#mostBytes = Math.max(most, SMALL_BYTES);
  }

  place(): Joined {
    const { nodes, results } = this.#graph;
    nodes.forEach((node) => isJoin(node) && this.#join(node));
    if (this.#places.size === 0) return { graph: this.#graph, sources: nodes.map((_, i) => i) };
    const made: Node[] = [];
    const sources: number[] = [];
    nodes.forEach((node, i) => {
      for (const one of this.#copies.get(node) ?? [node]) {
        made.push({
          ...one,
          inputs: one.inputs.map((input): NodeInput => isValue(input) ? this.#find(input) : input),
          outputs: one.outputs.map((output) => this.#find(output)),
        });
        sources.push(i);
      }
    });
    const own = results.map((value) => this.#find(value));
    return { graph: { storages: this.#storages, nodes: made, results: own }, sources };
  }

  /** The elements of `value` where they are now. */
  #find(value: Value): Value {
    let { storage, layout } = value;
    for (let at; (at = this.#places.get(storage)) !== undefined;) {
      storage = at.storage;
      const { shape, strides, offset, size, contiguous } = layout;
      layout = at.layout ?? new Layout(shape, strides, offset + at.start, size, contiguous);
    }
    return storage === value.storage ? value : { ...value, storage, layout };
  }

  /** Places what is possible of the pieces of a join. */
  #join(node: Node): void {
    const [output] = node.outputs;
    const { storage } = output!;
    const isNew = storage.origin.kind === "made" && this.#isPure(storage);
    if (!isNew || storage.info.lane !== null) return;
    const pieces = piecesOf(node, output!).map(({ value, part }) => ({
      value: this.#find(value),
      part,
    }));
    let places = this.#placesOf(pieces, storage);
    while (places.size > 0 && !this.#fits(places, storage)) {
      // The piece that needs its place for the longest time.
      const [first] = [...places.keys()].sort((a, b) =>
        this.#lifetimes.get(a)!.first - this.#lifetimes.get(b)!.first
      );
      places = new Map([...places].filter(([one]) => one !== first));
    }
    if (places.size === 0) return;
    const { id, info, length, memory } = storage;
    const joined = new TracedStorage(id, info, length, memory, { kind: "joined" });
    this.#storages[id] = joined;
    this.#places.set(storage, { storage: joined, start: 0 });
    if (this.#kept.has(storage)) this.#kept.add(joined);
    this.#lifetimes.set(joined, this.#lifetimeOf(places.keys(), storage));
    for (const [one, place] of places) this.#places.set(one, { ...place, storage: joined });
    const rest = pieces.filter(({ value, part }) =>
      places.get(value.storage)?.start !== part.offset - value.layout.offset
    );
    this.#copies.set(node, rest.map(({ value, part }) => this.#copy(node, value, joined, part)));
  }

  /**
   * The storages that can be a part of `target`, each with its place there: the pieces are all of it, in its
   * order.
   */
  #placesOf(pieces: readonly Piece[], target: TracedStorage): Map<TracedStorage, Place> {
    const sizes = new Map<TracedStorage, Map<number, number>>();
    const places = new Map<TracedStorage, Place>();
    for (const { value, part } of pieces) {
      const { storage, layout } = value;
      if (!layout.contiguous) continue;
      const start = part.offset - layout.offset;
      if (!part.contiguous) {
        if (this.#canHaveGaps(value, part, target)) places.set(storage, { start, layout: part });
        continue;
      }
      const own = sizes.get(storage) ?? new Map<number, number>();
      sizes.set(storage, own.set(start, (own.get(start) ?? 0) + layout.size));
    }
    for (const [storage, own] of sizes) {
      if (!this.#canMove(storage, target, false)) continue;
      for (const [start, size] of own) {
        if (size === storage.length && !places.has(storage)) places.set(storage, { start });
      }
    }
    return places;
  }

  /** Whether the ops that make a storage can write to a part of `target`, which may have gaps. */
  #canMove(storage: TracedStorage, { info, memory }: TracedStorage, hasGaps: boolean): boolean {
    if (this.#kept.has(storage) || !this.#isPure(storage)) return false;
    if (storage.info !== info || storage.memory !== memory) return false;
    if (storage.origin.kind === "joined") return true;
    const maker = this.#makers.get(storage);
    if (storage.origin.kind !== "made" || maker === undefined) return false;
    const { op, outputs } = maker;
    return canWriteParts(op, hasGaps) && !this.#tiled.has(maker) &&
      (outputs.length === 1 || op === CHAIN);
  }

  /** Whether an op can write a piece to a part with gaps, which other ops would read more slowly. */
  #canHaveGaps(
    { storage, layout: { shape } }: Value,
    part: Layout,
    target: TracedStorage,
  ): boolean {
    if (this.#reads.get(storage) !== 1 || !hasLongRows(part)) return false;
    if (!this.#canMove(storage, target, true)) return false;
    const made = this.#makers.get(storage)!.outputs.find((one) => one.storage === storage)!;
    return sameShape(made.layout.shape, shape);
  }

  /** The nodes between which a join and these storages are in use. */
  #lifetimeOf(pieces: Iterable<TracedStorage>, storage: TracedStorage): Lifetime {
    let { first, last } = this.#lifetimes.get(storage)!;
    for (const piece of pieces) {
      const own = this.#lifetimes.get(piece)!;
      [first, last] = [Math.min(first, own.first), Math.max(last, own.last)];
    }
    return { first, last };
  }

  /** Accounts for pieces at their places in `storage`; false if the program would need more memory. */
  #fits(places: ReadonlyMap<TracedStorage, Place>, storage: TracedStorage): boolean {
    const before = [...places.keys(), storage];
    const lifetime = this.#lifetimeOf(places.keys(), storage);
    for (const one of before) this.#usage.add(one, this.#lifetimes.get(one)!, -1);
    this.#usage.add(storage, lifetime, 1);
    if (this.#usage.most(lifetime) <= this.#mostBytes) return true;
    this.#usage.add(storage, lifetime, -1);
    for (const one of before) this.#usage.add(one, this.#lifetimes.get(one)!, 1);
    return false;
  }

  /** The copy of a piece to its part of a result. */
  #copy({ name }: Node, value: Value, storage: TracedStorage, layout: Layout): Node {
    return {
      op: MAP.copy,
      name,
      inputs: [value],
      outputs: [{ storage, layout, flags: 0 }],
      given: true,
      attributes: undefined,
      compute: value.storage.info,
    };
  }
}

/** Has the ops before joins write their results where the joins would copy them; not those of `tiles`. */
export function placePieces(graph: Graph, tiles: readonly TileGroup[]): Joined {
  return new Joining(graph, tiles).place();
}

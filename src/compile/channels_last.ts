/**
 * Keeps images as [N, H, W, C] between depthwise convolutions, those of one element, and what is
 * elementwise between them: kernels then read channels as vectors, and pack and stage nothing. Other
 * convolutions may make such images; reductions read views of [N, C, H, W], and other ops copies.
 *
 * @module
 */
import { DTYPE } from "../base/dtype.ts";
import { Layout } from "../base/layout.ts";
import { sameShape, sizeOf } from "../base/shape.ts";
import {
  canEnter,
  CONV_LAST,
  type ConvLastAttributes,
  FIRST,
  isDepthwise,
  isPointwise,
  LAST,
} from "../ops/conv/channels_last.ts";
import type { ConvAttributes } from "../ops/conv/problem.ts";
import { packedShape } from "../ops/linear/panels.ts";
import { OPS } from "../table/op.ts";
import { MAP } from "../table/table.ts";
import {
  type Graph,
  isValue,
  type Node,
  type NodeInput,
  readsOf,
  TracedStorage,
  type Value,
} from "./graph.ts";
import { constantOf, isWhole, pureStorages, resultStorages } from "./passes.ts";

/**
 * The nanoseconds that a result of a depthwise convolution, and of one of one element, take less with
 * channels that are last, and those of an element that is copied to another order.
 */
const [DEPTHWISE_NS, POINTWISE_NS, COPY_NS] = [0.6, 0.2, 0.6];
/** The fewest pixels of an image, and the bytes between rows that share sets of a cache. */
const [FEWEST_PIXELS, CACHE_WAY] = [8, 4096];

/** Finds which nodes can have channels last. */
class Members {
  readonly #isPure: (storage: TracedStorage) => boolean;
  /** The storages that members make, and of which group each is. */
  readonly #parents = new Map<TracedStorage, TracedStorage>();
  /** The shapes of their images. */
  readonly #shapes = new Map<TracedStorage, readonly number[]>();
  readonly #gains = new Map<TracedStorage, number>();
  readonly #nodes = new Set<Node>();
  readonly #makers = new Map<TracedStorage, Node>();
  readonly #readers = new Map<TracedStorage, Node[]>();
  readonly #results: ReadonlySet<TracedStorage>;

  constructor(graph: Graph) {
    this.#isPure = pureStorages(graph);
    this.#results = resultStorages(graph);
    for (const node of graph.nodes) {
      for (const { storage } of node.outputs) this.#makers.set(storage, node);
      for (const { storage } of readsOf(node)) {
        const readers = this.#readers.get(storage);
        if (readers === undefined) this.#readers.set(storage, [node]);
        else readers.push(node);
      }
    }
    for (const node of graph.nodes) this.#add(node);
    this.#charge(graph);
  }

  /** Whether a node is one of a group that gains time. */
  has(node: Node): boolean {
    return this.#nodes.has(node) && this.#gains.get(this.#group(node.outputs[0]!.storage))! > 0;
  }

  /** Whether a node, which is none of them, is a convolution that makes an image for them alone. */
  enters(node: Node, has: (node: Node) => boolean = (one) => this.has(one)): boolean {
    const { op, inputs: [, , , add], outputs: [output], given } = node;
    if (op.name !== "conv" || given || has(node) || add !== undefined) return false;
    const weight = this.#kernelsOf(node);
    if (weight === undefined || !canEnter(node.attributes as ConvAttributes, weight)) return false;
    const { storage, layout: { shape } } = output!;
    const readers = this.#readers.get(storage) ?? [];
    return isImage(output!) && !isLast(output!) && this.#isPure(storage) &&
      !this.#results.has(storage) &&
      readers.length > 0 &&
      readers.every((reader) =>
        readsOf(reader).every((one) =>
          one.storage !== storage ||
          (isImage(one, shape) && (has(reader) || readsViews(reader)))
        )
      );
  }

  #group(storage: TracedStorage): TracedStorage {
    let own = storage;
    while (this.#parents.get(own) !== own) own = this.#parents.get(own)!;
    return own;
  }

  /** Whether a value is an image as a member makes it, not one of another shape of the same elements. */
  #isMade(value: Value): boolean {
    const shape = this.#shapes.get(value.storage);
    return shape !== undefined && isImage(value, shape);
  }

  /** Whether a value is an image that a member may read: one that it makes, or one of other nodes. */
  #isReadable(value: Value): boolean {
    return this.#parents.has(value.storage) ? this.#isMade(value) : isImage(value);
  }

  #add(node: Node): void {
    const gain = this.#gainOf(node);
    if (gain === undefined) return;
    const { storage: own, layout: { shape } } = node.outputs[0]!;
    this.#nodes.add(node);
    this.#parents.set(own, own);
    this.#shapes.set(own, shape);
    let sum = gain;
    for (const input of readsOf(node)) {
      if (!this.#isMade(input)) continue;
      const group = this.#group(input.storage);
      if (group === own) continue;
      this.#parents.set(group, own);
      sum += this.#gains.get(group)!;
    }
    this.#gains.set(own, sum);
  }

  /** The nanoseconds that a node gains; undefined if it is no member. */
  #gainOf(node: Node): number | undefined {
    const { op, outputs: [output], given } = node;
    const isOwn = !given && output !== undefined && node.outputs.length === 1 &&
      isImage(output) && this.#isPure(output.storage) && output.layout.size > 0;
    if (!isOwn) return undefined;
    const { layout: { shape, size } } = output;
    if (op.name === "conv") return this.#gainOfConvolution(node, size);
    const values = readsOf(node);
    const isMember = op.kind === "map" &&
      values.some((one) => this.#isMade(one) && sameShape(one.layout.shape, shape)) &&
      values.every((one) =>
        this.#isPure(one.storage) &&
        (this.#isMade(one) || (!this.#parents.has(one.storage) && 8 * one.storage.length <= size))
      );
    return isMember ? 0 : undefined;
  }

  /** The shape of the weight of a convolution of images, a constant, if kernels read its operands. */
  #kernelsOf({ inputs, attributes }: Node): readonly number[] | undefined {
    const [x, weight, bias] = inputs as [Value, Value, NodeInput];
    const fits = (attributes as ConvAttributes).stride.length === 2 &&
      inputs.every((one) =>
        one === undefined || (isValue(one) && one.storage.info === DTYPE.float32 &&
          one.storage.memory === null && this.#isPure(one.storage))
      ) && this.#isReadable(x) && weight.layout.contiguous &&
      constantOf(weight.storage, true) !== undefined &&
      (!isValue(bias!) || bias.layout.contiguous);
    return fits ? weight.layout.shape : undefined;
  }

  #gainOfConvolution(node: Node, size: number): number | undefined {
    const shape = this.#kernelsOf(node);
    if (shape === undefined) return undefined;
    const own = node.attributes as ConvAttributes;
    const [x, , , add] = node.inputs as [Value, Value, NodeInput, NodeInput];
    if (isDepthwise(own, shape)) return add === undefined ? size * DEPTHWISE_NS : undefined;
    const [, channels, ...space] = x.layout.shape;
    const isFast = isPointwise(own, shape) && channels! > 0 && 4 * channels! % CACHE_WAY !== 0 &&
      sizeOf(space) >= FEWEST_PIXELS && (!isValue(add!) || this.#isReadable(add));
    return isFast ? size * POINTWISE_NS : undefined;
  }

  /** Takes the time of copies from what groups gain. */
  #charge(graph: Graph): void {
    const charged = new Set<string>();
    const charge = (own: TracedStorage, storage: TracedStorage): void => {
      const group = this.#group(own);
      const key = `${group.id} ${storage.id}`;
      if (charged.has(key)) return;
      charged.add(key);
      this.#gains.set(group, this.#gains.get(group)! - storage.length * COPY_NS);
    };
    for (const node of graph.nodes) {
      const isMember = this.#nodes.has(node);
      for (const input of readsOf(node)) {
        const { storage } = input;
        if (this.#parents.has(storage)) {
          const isRead = this.#isMade(input) && (isMember || readsViews(node));
          if (!isRead) charge(storage, storage);
        } else if (isMember && isImage(input) && !isLast(input)) {
          const maker = this.#makers.get(storage);
          const enters = maker !== undefined && this.enters(maker, (one) => this.#nodes.has(one));
          if (!enters) charge(node.outputs[0]!.storage, storage);
        }
      }
    }
    for (const storage of this.#results) {
      if (this.#parents.has(storage)) charge(storage, storage);
    }
  }
}

/** Whether a value is [N, C, H, W], all of its storage; of this shape, if there is one. */
function isImage(value: Value, shape: readonly number[] = value.layout.shape): boolean {
  return value.layout.rank === 4 && isWhole(value) && sameShape(value.layout.shape, shape);
}

/** A view with channels first of an image with channels last. */
const firstOf = (value: Value): Value => ({ ...value, layout: value.layout.permute(FIRST) });

/** Whether the elements of an image are in the same order with channels last. */
const isLast = ({ layout }: Value): boolean => layout.permute(LAST).contiguous;

/** Whether a node reads views as fast as images. */
const readsViews = ({ op }: Node): boolean => op.kind === "reduce";

/** Gives the convolutions of `graph`, and what is elementwise between them, channels that are last. */
export function keepChannelsLast(graph: Graph): Graph {
  const members = new Members(graph);
  const storages = graph.storages.slice();
  const nodes: Node[] = [];
  /** The images with channels last, of the storages of [N, C, H, W]. */
  const last = new Map<TracedStorage, Value>();
  /** Those of them that have a copy of the other order. */
  const copied = new Set<TracedStorage>();
  const make = (like: TracedStorage, layout: Layout): Value => {
    const made = new TracedStorage(storages.length, like.info, layout.size, null, { kind: "made" });
    storages.push(made);
    return { storage: made, layout, flags: 0 };
  };
  const push = (name: string, input: Value, output: Value): Value => {
    const { storage: { info: compute } } = input;
    const op = name === "copy" ? MAP.copy : OPS.get(name)!;
    const more = { given: false, attributes: undefined, compute };
    nodes.push({ op, name, inputs: [input], outputs: [output], ...more });
    return output;
  };
  /** A copy of `value` in row-major order. */
  const copyOf = (value: Value): Value =>
    push("copy", value, make(value.storage, Layout.contiguous(value.layout.shape)));
  /** An image with channels last. */
  const lastOf = (value: Value): Value => {
    const known = last.get(value.storage);
    if (known !== undefined && sameShape(firstOf(known).layout.shape, value.layout.shape)) {
      return known;
    }
    const view = { ...value, layout: value.layout.permute(LAST) };
    if (view.layout.contiguous) return view;
    const made = copyOf(view);
    last.set(value.storage, made);
    copied.add(value.storage);
    return made;
  };
  /** Makes the image of a storage as [N, C, H, W], which something reads. */
  const restore = (storage: TracedStorage): void => {
    const made = last.get(storage);
    if (made === undefined || copied.has(storage)) return;
    copied.add(storage);
    const view = firstOf(made);
    push("copy", view, { storage, layout: Layout.contiguous(view.layout.shape), flags: 0 });
  };
  const convolution = (node: Node, isFirst: boolean): Node => {
    const [x, weight, bias, add] = node.inputs as [Value, Value, NodeInput, NodeInput];
    const { storage, layout } = weight;
    const [outputs, , height, width] = layout.shape as [number, number, number, number];
    const attributes = { ...node.attributes as ConvAttributes, weight: layout.shape, isFirst };
    let own: Value;
    if (!isFirst && isDepthwise(attributes, layout.shape)) {
      const kernels = layout.reshape([outputs, height, width])!.permute([1, 2, 0]);
      own = copyOf({ ...weight, layout: kernels });
    } else {
      const sums = sizeOf(layout.shape.slice(1));
      const shape = packedShape(storage.info, outputs, sums);
      const matrix = { ...weight, layout: layout.reshape([outputs, sums])! };
      own = push("pack", matrix, make(storage, Layout.contiguous(shape)));
    }
    if (isFirst) restore(x.storage);
    // The biases of an image may be the single pixel of another one.
    if (isValue(bias)) restore(bias.storage);
    const residual = isValue(add) ? lastOf(add) : add;
    return {
      ...node,
      op: CONV_LAST,
      inputs: [isFirst ? x : lastOf(x), own, bias, residual],
      attributes: attributes satisfies ConvLastAttributes,
    };
  };
  /** An operand of an elementwise op with channels last. */
  const operand = (input: NodeInput): NodeInput => {
    if (!isValue(input)) return input;
    if (last.has(input.storage) && isImage(input)) return lastOf(input);
    const { shape, strides, offset } = input.layout;
    const lacking = 4 - shape.length;
    const wide = new Layout(
      [...Array<number>(lacking).fill(1), ...shape],
      [...Array<number>(lacking).fill(0), ...strides],
      offset,
    );
    return { ...input, layout: wide.permute(LAST) };
  };
  for (const node of graph.nodes) {
    const enters = members.enters(node);
    if (enters || members.has(node)) {
      const own = node.op.name === "conv"
        ? convolution(node, enters)
        : { ...node, inputs: node.inputs.map(operand) };
      const [output] = node.outputs as [Value];
      const made = make(output.storage, Layout.contiguous(output.layout.permute(LAST).shape));
      nodes.push({ ...own, outputs: [made] });
      last.set(output.storage, made);
      continue;
    }
    const inputs = node.inputs.map((input): NodeInput => {
      if (!isValue(input) || !last.has(input.storage) || copied.has(input.storage)) return input;
      const view = firstOf(last.get(input.storage)!);
      if (readsViews(node) && isImage(input, view.layout.shape)) return view;
      restore(input.storage);
      return input;
    });
    nodes.push({ ...node, inputs });
  }
  for (const storage of resultStorages(graph)) restore(storage);
  return { ...graph, nodes, storages };
}

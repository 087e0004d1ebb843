/**
 * Improvements of products: weights packed once, and bias, activation and residual computed with the
 * product.
 *
 * @module
 */
import { DTYPE } from "../base/dtype.ts";
import { Layout } from "../base/layout.ts";
import { sameShape } from "../base/shape.ts";
import {
  type Activation,
  ACTIVATIONS,
  canPack as isPackable,
  type PackedAttributes,
  packedShape,
  type QuantizedAttributes,
} from "../ops/linear/panels.ts";
import { BENDS } from "../ops/conv/op.ts";
import type { Bend, ConvAttributes } from "../ops/conv/problem.ts";
import { MAP } from "../table/table.ts";
import { OPS } from "../table/op.ts";
import { isQuantized } from "../ops/quantized/dtypes.ts";
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

/** A product with a weight: the operand [..., depth], and the weight as [columns, depth]. */
interface Product {
  readonly x: Value;
  readonly weight: Value;
  readonly bias: NodeInput;
  readonly add: NodeInput;
  readonly activation: Activation | undefined;
}

/** The product of a node, if it is one with a weight of two axes. */
function productOf({ op, inputs, attributes }: Node): Product | undefined {
  const [x, weight, bias, add] = inputs;
  if (x === undefined || weight === undefined || !isValue(x) || !isValue(weight)) return undefined;
  const quantized = op.name === "linearQuantized" &&
    (attributes as QuantizedAttributes).columns === undefined;
  if (op.name === "linear" || quantized) {
    const activation = (attributes as { activation?: Activation } | undefined)?.activation;
    return { x, weight, bias, add, activation };
  }
  const plain = op.name === "matmul" && attributes === undefined && x.layout.rank > 0 &&
    weight.layout.rank === 2;
  if (!plain) return undefined;
  const transposed = { ...weight, layout: weight.layout.transpose() };
  return { x, weight: transposed, bias: undefined, add: undefined, activation: undefined };
}

/** Packs the weights that are constants; constant folding then computes the packed ones. */
export function packWeights(graph: Graph): Graph {
  const isPure = pureStorages(graph);
  const storages = graph.storages.slice();
  const packed = new Map<string, Value>();
  const nodes: Node[] = [];
  for (const node of graph.nodes) {
    const product = productOf(node);
    const [output] = node.outputs;
    if (product === undefined || node.given || !canPack(product, output!, isPure)) {
      nodes.push(node);
      continue;
    }
    const { x, weight, bias, add, activation } = product;
    const [columns, depth] = weight.layout.shape as [number, number];
    const { storage, layout } = weight;
    const key = `${storage.id} ${layout.offset} ${layout.shape} ${layout.strides}`;
    let panels = packed.get(key);
    if (panels === undefined) {
      const { info } = storage;
      const whole = Layout.contiguous(packedShape(info, columns, depth));
      const made = new TracedStorage(storages.length, info, whole.size, null, { kind: "made" });
      storages.push(made);
      panels = { storage: made, layout: whole, flags: 0 };
      packed.set(key, panels);
      const [op, given, attributes, compute] = [OPS.get("pack")!, false, undefined, info];
      const inputs = [weight];
      nodes.push({ op, name: "pack", inputs, outputs: [panels], given, attributes, compute });
    }
    const inputs = [x, panels, bias, add];
    nodes.push(
      isQuantized(storage.info)
        ? { ...node, inputs, attributes: { columns, activation } satisfies QuantizedAttributes }
        : {
          ...node,
          op: OPS.get("linearPacked")!,
          inputs,
          attributes: { columns, depth, activation } satisfies PackedAttributes,
        },
    );
  }
  return { ...graph, nodes, storages };
}

/** Whether a product can use a packed weight, and gives the same dtype with it. */
function canPack(
  { x, weight, bias, add }: Product,
  output: Value,
  isPure: (storage: TracedStorage) => boolean,
): boolean {
  const { info } = weight.storage;
  const result = output.storage.info;
  const wide = result === DTYPE.float32 || result === info;
  return constantOf(weight.storage, isPure(weight.storage)) !== undefined &&
    isPackable(info) && wide && weight.storage.memory === null &&
    weight.layout.size > 0 && x.layout.size > 0 &&
    [x, bias, add].every((one) => !isValue(one!) || one.storage.info === result) &&
    (bias === undefined || isValue(bias)) && (add === undefined || isValue(add));
}

const CONVOLUTIONS: readonly string[] = ["conv", "winograd"];
/** The ops that compute a bias, an activation and a residual with their sums. */
const JOINING: readonly string[] = [
  "linearPacked",
  "linear",
  "linearQuantized",
  "linearInt8",
  ...CONVOLUTIONS,
];

/** The bias of a convolution to `shape`, which an op adds as [O, 1, …]; undefined if it is none. */
function channelBias(
  { layout, storage, flags }: Value,
  shape: readonly number[],
): Value | undefined {
  const lacking = shape.length - layout.rank;
  const fits = lacking <= 1 &&
    layout.shape.every((n, i) => n === (i + lacking === 1 ? shape[1] : 1));
  if (!fits || shape.length < 3) return undefined;
  const own = new Layout([shape[1]!], [layout.strides[1 - lacking]!], layout.offset);
  return { storage, layout: own, flags };
}

/**
 * The bias of the columns of a product of `shape`, whose elements have the axes of `seen`, as [columns];
 * undefined if it is none.
 */
function columnBias(
  { layout, storage, flags }: Value,
  seen: readonly number[],
  shape: readonly number[],
): Value | undefined {
  const columns = shape.at(-1)!;
  // The axis of the columns: behind it, there is one element.
  const last = columns === 1 ? seen.length - 1 : seen.findLastIndex((n) => n !== 1);
  const axis = last - (seen.length - layout.rank);
  const fits = shape.length > 1 && axis >= 0 &&
    layout.shape.every((n, k) => n === (k === axis ? columns : 1));
  if (!fits) return undefined;
  const own = new Layout([columns], [layout.strides[axis]!], layout.offset);
  return { storage, layout: own, flags };
}

/** Computes the bias, the activation and the residual after a product together with it. */
export function joinEpilogues(graph: Graph): Graph {
  const isPure = pureStorages(graph);
  const results = resultStorages(graph);
  const readers = new Map<TracedStorage, number>();
  for (const node of graph.nodes) {
    for (const { storage } of readsOf(node)) readers.set(storage, (readers.get(storage) ?? 0) + 1);
  }
  /** The product whose result is in each storage, until it is joined with the next op. */
  const products = new Map<TracedStorage, Node>();
  const dropped = new Set<Node>();
  const nodes: Node[] = [];
  for (const node of graph.nodes) {
    const joined = join(node, (input) => {
      const { storage } = input;
      const product = products.get(storage);
      const only = readers.get(storage) === 1 && isPure(storage) && !results.has(storage) &&
        isWhole(input);
      return only ? product : undefined;
    }, isPure);
    const kept = joined?.node ?? node;
    if (joined !== undefined) dropped.add(joined.product);
    if (JOINING.includes(kept.op.name)) {
      if (!kept.given && readsOf(kept).every(({ storage }) => isPure(storage))) {
        products.set(kept.outputs[0]!.storage, kept);
      }
    }
    nodes.push(kept);
  }
  return { ...graph, nodes: nodes.filter((node) => !dropped.has(node)) };
}

/** What a product computes with its sums. */
interface Joined {
  readonly bias?: NodeInput;
  readonly add?: NodeInput;
  readonly activation?: ConvAttributes["activation"];
  readonly numbers?: ConvAttributes["numbers"];
  readonly addsLast?: boolean;
}

/** The activation of a convolution that `node`, of its sums and numbers, is; undefined for none. */
function bendOf(
  { op, inputs: [, y, z], attributes }: Node,
  { activation, numbers: [low, high] = [-Infinity, Infinity] }: ConvAttributes,
): Joined | undefined {
  const clip = (a: NodeInput, b: NodeInput): Joined | undefined => {
    const numbers = [Math.fround(Number(a)), Math.fround(Number(b))] as const;
    const isKnown = typeof a === "number" && typeof b === "number" && numbers[0] <= numbers[1];
    return isKnown ? { activation: "clip", numbers } : undefined;
  };
  if (op === MAP.minimum && activation === "clip" && high === Infinity) return clip(low, y);
  if (activation !== undefined) return undefined;
  if (op === MAP.maximum) return clip(y, Infinity);
  if (op === MAP.minimum) return clip(-Infinity, y);
  if (op === MAP.clip) return clip(y, z);
  const own = (attributes ?? {}) as Readonly<Record<string, number>>;
  const bend = (activation: Bend, a = 0, b = 0): Joined => ({
    activation,
    numbers: [Math.fround(a), Math.fround(b)],
  });
  switch (op.name) {
    case BENDS.hardSwish.name:
      return bend("hardSwish");
    case BENDS.mish.name:
      return bend("mish");
    case BENDS.hardSigmoid.name:
      return bend("hardSigmoid", own["low"], own["high"]);
    case "nn_hardSigmoid":
      return bend("hardSigmoid", 1 / 6, 0.5);
    case "nn_elu":
      return bend("elu", own["alpha"]);
    case "nn_leakyRelu":
      return bend("leakyRelu", own["negativeSlope"]);
  }
  return undefined;
}

/** The product that `node`, an elementwise op, can be a part of, and both as one. */
function join(
  node: Node,
  productOf: (input: Value) => Node | undefined,
  isPure: (storage: TracedStorage) => boolean,
): { node: Node; product: Node } | undefined {
  const { op, inputs, outputs: [output], given, compute } = node;
  if (op.kind !== "map" || given || !isPure(output!.storage)) return undefined;
  const info = output!.storage.info;
  if (compute !== info) return undefined;
  for (const [k, input] of inputs.entries()) {
    if (!isValue(input)) continue;
    const product = productOf(input);
    if (product === undefined || product.outputs[0]!.storage.info !== info) continue;
    const isConv = CONVOLUTIONS.includes(product.op.name);
    const shape = product.outputs[0]!.layout.shape;
    // `input` may be the elements of a product in order, with other axes: a convolution of one place is.
    const seen = input.layout.shape, isReshaped = !sameShape(seen, shape);
    if (!sameShape(output!.layout.shape, seen) || (isReshaped && isConv)) continue;
    if (isReshaped && !isWhole(output!)) continue;
    const attributes = product.attributes as { activation?: Activation } | undefined;
    const { activation } = attributes ?? {};
    const [x, weight, bias, add] = product.inputs;
    const replace = (
      { bias: shift, add: residual, ...more }: Joined,
    ) => ({
      product,
      node: {
        ...product,
        name: `${product.name} → ${node.name}`,
        inputs: [x!, weight!, shift ?? bias, residual ?? add],
        attributes: more.activation === undefined && attributes === undefined
          ? undefined
          : { ...attributes, activation, ...more },
        outputs: [isReshaped ? { ...output!, layout: Layout.contiguous(shape) } : output!],
      },
    });
    // The residual of a linear layer comes after the activation, that of a convolution before or after.
    const addsLast = isConv && (attributes as ConvAttributes).addsLast === true;
    if (addsLast || (add !== undefined && !isConv)) continue;
    const name = op.name as Activation;
    if (inputs.length === 1 && ACTIVATIONS.includes(name) && activation === undefined) {
      return replace({ activation: name });
    }
    const bend = isConv && k === 0 ? bendOf(node, attributes as ConvAttributes) : undefined;
    if (bend !== undefined) return replace(bend);
    const other = inputs[1 - k];
    if (op.name !== "add" || other === undefined || !isValue(other)) continue;
    if (isConv && add !== undefined) continue;
    if (other.storage.info !== info || !isPure(other.storage) || other === input) continue;
    const { layout } = other;
    const isPlain = isConv && bias === undefined && activation === undefined;
    const channels = isPlain ? channelBias(other, shape) : undefined;
    if (channels !== undefined) return replace({ bias: channels });
    const shift = isConv ? undefined : columnBias(other, seen, shape);
    if (shift !== undefined && bias === undefined && activation === undefined) {
      return replace({ bias: shift });
    }
    if (sameShape(layout.shape, seen) && other.storage !== input.storage) {
      const last = isConv && activation !== undefined;
      if (last) return replace({ add: other, addsLast: true });
      if (!isReshaped) return replace({ add: other });
      if (!layout.contiguous) continue;
      return replace({ add: { ...other, layout: Layout.contiguous(shape, layout.offset) } });
    }
  }
  return undefined;
}

/**
 * Keeps values of quantized models as bytes. Files have them as floats between a DequantizeLinear and a
 * QuantizeLinear: convolutions and products there become those of bytes, and what only moves elements moves
 * bytes.
 *
 * @module
 */
import { tensor } from "../tensor/create.ts";
import { scope, Tensor } from "../tensor/tensor.ts";
import { capturedOf, countReads, type Graph, type Node } from "./graph/graph.ts";
import type { T } from "./graph/values.ts";

/** Rewrites a graph, and the graphs inside. */
export function keepBytes(graph: Graph): void {
  for (const node of graph.nodes) node.graphs.forEach(keepBytes);
  if (!graph.nodes.some(({ op }) => op === "DequantizeLinear")) return;
  const pass = new Pass(graph);
  pass.move();
  pass.quantize();
  pass.leaveFloats();
}

/** Ops whose outputs have the elements of their first input, or the largest of some. */
const MOVES = new Set([
  ...["Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze", "Slice", "Gather", "Split"],
  ...["Expand", "Tile", "DepthToSpace", "SpaceToDepth", "Identity", "MaxPool", "GlobalMaxPool"],
]);

/** Bytes with a scale and a zero point, by their names. */
interface Quantized {
  readonly x: string;
  readonly scale: string;
  readonly zero: string;
  readonly node: Node;
}

/** Limits of the bytes of a result. */
type Limits = readonly [low: number, high: number];

/** The least and the largest int32. */
const INT32: Limits = [-(2 ** 31), 2 ** 31 - 1];
/** Scales of bias that differ by less are those of the sums. */
const SAME_SCALE = 1e-5;
/** The most that rounding a bias to steps of the sums may change results, in steps of these. */
const MOST_ROUNDING = 1 / 128;

const isBytes = (x: T | undefined): boolean => x?.dtype === "int8" || x?.dtype === "uint8";

class Pass {
  readonly #graph: Graph;
  /** The node that makes each value. */
  readonly #makers = new Map<string, Node>();

  constructor(graph: Graph) {
    this.#graph = graph;
    for (const node of graph.nodes) this.#note(node);
  }

  #note(node: Node): Node {
    for (const name of node.outputs) this.#makers.set(name, node);
    return node;
  }

  #constant(name: string | undefined): T | undefined {
    const value = this.#graph.constants.get(name ?? "");
    return value instanceof Tensor ? value : undefined;
  }

  #numbers(name: string): number[] | undefined {
    const value = this.#constant(name);
    if (value === undefined) return undefined;
    return scope(() => {
      const numbers = value.astype("float64").toTypedArray();
      return Array.from(numbers as Float64Array);
    });
  }

  #number(name: string): number | undefined {
    const all = this.#numbers(name);
    return all?.length === 1 ? all[0] : undefined;
  }

  /** What a node has of bytes: their scale and zero point are of the file. */
  #bytesOf(node: Node | undefined, op: string): Quantized | undefined {
    if (node?.op !== op || (node.domain !== "" && node.domain !== "com.microsoft")) {
      return undefined;
    }
    const [x, scale, given = ""] = node.inputs as [string, string, string?];
    const isPlain = node.likeType === undefined &&
      !(node.has("block_size") && node.int("block_size") !== 0) &&
      !(node.has("output_dtype") && node.int("output_dtype") !== 0);
    const scales = this.#constant(scale);
    if (!isPlain || scales?.dtype !== "float32") return undefined;
    if (given !== "") {
      return isBytes(this.#constant(given)) ? { x, scale, zero: given, node } : undefined;
    }
    // Bytes whose type is not said are unsigned, unless the file has them.
    const own = this.#constant(x);
    if (op === "DequantizeLinear" && !isBytes(own)) return undefined;
    const dtype = own !== undefined && op === "DequantizeLinear" ? own.dtype : "uint8";
    const zero = `${scale}/zero of ${dtype}`;
    if (!this.#graph.constants.has(zero)) {
      this.#graph.constants.set(zero, tensor([0], { dtype: dtype as "uint8" }) as T);
    }
    return { x, scale, zero, node };
  }

  /** The bytes of which a value is, with one scale for all. */
  #source(name: string | undefined): Quantized | undefined {
    const own = this.#bytesOf(this.#makers.get(name ?? ""), "DequantizeLinear");
    return own !== undefined && this.#isOne(own) && this.#number(own.scale)! > 0 ? own : undefined;
  }

  /** Whether bytes have one scale and one zero point for all. */
  #isOne({ scale, zero }: Quantized): boolean {
    return [scale, zero].every((one) => this.#constant(one)!.size === 1);
  }

  /** A weight of bytes: one scale, or one for each element along an axis. */
  #weight(name: string | undefined, axis: number): (Quantized & { readonly data: T }) | undefined {
    const own = this.#bytesOf(this.#makers.get(name ?? ""), "DequantizeLinear");
    const data = this.#constant(own?.x);
    if (own === undefined || data === undefined || !isBytes(data)) return undefined;
    const count = this.#constant(own.scale)!.size, zeros = this.#constant(own.zero)!.size;
    const along = own.node.int("axis", 1);
    const isAlong = (along < 0 ? along + data.rank : along) === axis;
    const fits = (n: number): boolean => n === 1 || isAlong && n === data.shape[axis];
    return fits(count) && fits(zeros) ? { ...own, data } : undefined;
  }

  #sameBytes(a: Quantized, b: Quantized): boolean {
    const zeros = [a, b].map(({ zero }) => this.#constant(zero)!);
    return this.#number(a.scale) === this.#number(b.scale) &&
      zeros[0]!.dtype === zeros[1]!.dtype && this.#number(a.zero) === this.#number(b.zero);
  }

  /** Moves bytes in the place of floats: before a DequantizeLinear, and after a QuantizeLinear. */
  move(): void {
    const { outputs } = this.#graph;
    const reads = countReads(this.#graph);
    const results = new Set(outputs.map(({ name }) => name));
    /** Other names of bytes. */
    const names = new Map<string, string>();
    const nodes: Node[] = [];
    const push = (node: Node): void => void nodes.push(this.#note(node));
    for (const given of this.#graph.nodes) {
      const node = names.size === 0 ? given : given.with({
        inputs: given.inputs.map((name) => names.get(name) ?? name),
      });
      const own = this.#bytesOf(node, "QuantizeLinear");
      const joined = own && this.#makers.get(own.x);
      const isJoined = joined?.op === "Concat" && reads.get(joined.outputs[0]!) === 1;
      if (own !== undefined && isJoined && this.#isOne(own)) {
        const sources = joined.inputs.map((name) => this.#source(name));
        if (sources.every((one) => one !== undefined)) {
          const parts = sources.map((one, k) => {
            if (this.#sameBytes(one, own)) return one.x;
            const part = `${node.outputs[0]}/part ${k}`;
            push(node.with({ inputs: [joined.inputs[k]!, own.scale, own.zero], outputs: [part] }));
            return part;
          });
          push(joined.with({ inputs: parts, outputs: node.outputs }));
          continue;
        }
      }
      const same = own && this.#source(own.x);
      if (own !== undefined && same !== undefined && this.#sameBytes(same, own)) {
        const [output] = node.outputs as [string];
        if (results.has(output) || this.#isCaptured(output)) {
          push(node.with({ op: "Identity", domain: "", inputs: [same.x] }));
        } else {
          names.set(output, same.x);
        }
        continue;
      }
      const turned = this.#turned(node);
      if (turned !== undefined) {
        push(turned);
        continue;
      }
      const source = MOVES.has(node.type) ? this.#source(node.inputs[0]) : undefined;
      const isMoved = source !== undefined &&
        (node.op !== "MaxPool" || (node.outputs[1] ?? "") === "");
      if (isMoved) {
        const moved = node.outputs.map((name) => name === "" ? "" : `${name}/bytes`);
        push(node.with({ inputs: [source.x, ...node.inputs.slice(1)], outputs: moved }));
        node.outputs.forEach((name, k) => {
          if (name === "") return;
          const inputs = [moved[k]!, source.scale, source.zero];
          push(source.node.with({ inputs, outputs: [name] }));
        });
        continue;
      }
      push(node);
    }
    this.#graph.nodes = nodes;
  }

  /** Whether a graph inside a node reads a value. */
  #isCaptured(name: string): boolean {
    return this.#graph.nodes.some(({ graphs }) => graphs.some((one) => capturedOf(one).has(name)));
  }

  /** A weight with a scale for each channel that is transposed first. */
  #turned(node: Node): Node | undefined {
    if (node.type !== "Transpose") return undefined;
    const before = this.#makers.get(node.inputs[0]!);
    const own = this.#bytesOf(before, "DequantizeLinear");
    const data = this.#constant(own?.x);
    if (own === undefined || data === undefined) return undefined;
    const axes = data.shape.map((_, k) => k);
    const order = node.ints("perm") ?? axes.toReversed();
    const given = own.node.int("axis", 1);
    const axis = order.indexOf(given < 0 ? given + data.rank : given);
    if (order.length !== data.rank || axis < 0) return undefined;
    const turned = `${node.outputs[0]}/bytes`;
    this.#graph.constants.set(turned, scope(() => data.permute(...order).copy() as T));
    return own.node.with(
      { inputs: [turned, own.scale, own.zero], outputs: node.outputs },
      {},
      { axis },
    );
  }

  /** Makes nodes of bytes of convolutions and products between floats of bytes. */
  quantize(): void {
    const reads = countReads(this.#graph);
    const isOnly = (name: string): boolean => reads.get(name) === 1;
    this.#graph.nodes = this.#graph.nodes.map((node) => {
      const own = this.#bytesOf(node, "QuantizeLinear");
      if (own === undefined || !isOnly(own.x)) return node;
      const [scale, zero] = [this.#number(own.scale), this.#number(own.zero)];
      if (scale === undefined || zero === undefined || !(scale > 0)) return node;
      const { dtype } = this.#constant(own.zero)!;
      let limits: Limits = dtype === "int8" ? [-128, 127] : [0, 255];
      const [least, most] = limits;
      let before = this.#makers.get(own.x);
      while (before?.type === "Relu" || before?.type === "Clip") {
        const range = this.#rangeOf(before);
        if (range === undefined || !isOnly(before.inputs[0]!)) return node;
        const [low, high] = range.map((x) => {
          const rounded = roundEven(Math.fround(x / scale)) + zero;
          return Math.min(Math.max(rounded, limits[0]), limits[1]);
        }) as [number, number];
        limits = [low, high];
        before = this.#makers.get(before.inputs[0]!);
      }
      if (before === undefined) return node;
      const floats: Record<string, number> = limits[0] === least && limits[1] === most
        ? {}
        : { lowest: limits[0], highest: limits[1] };
      return this.#quantized(before, [own.scale, own.zero], node.outputs, isOnly)
        ?.with({}, floats) ?? node;
    });
    for (const node of this.#graph.nodes) this.#note(node);
  }

  /** Makes nodes of bytes of products of bytes whose results are floats. */
  leaveFloats(): void {
    this.#graph.nodes = this.#graph.nodes.map((node) =>
      this.#quantized(node, ["", ""], node.outputs, () => false) ?? node
    );
  }

  /** The limits of an activation. */
  #rangeOf(node: Node): Limits | undefined {
    if (node.op === "Relu") return [0, Infinity];
    const bound = (name: string, k: number, otherwise: number): number | undefined => {
      if (node.opset < 11) return node.float(name, otherwise);
      const input = node.inputs[k] ?? "";
      return input === "" ? otherwise : this.#number(input);
    };
    const [low, high] = [bound("min", 1, -Infinity), bound("max", 2, Infinity)];
    return low === undefined || high === undefined || !(low <= high) ? undefined : [low, high];
  }

  /** The node of bytes in the place of one of floats, with an output of this scale and zero point. */
  #quantized(
    node: Node,
    output: readonly [scale: string, zero: string],
    outputs: readonly string[],
    isOnly: (name: string) => boolean,
  ): Node | undefined {
    switch (node.type) {
      case "Conv":
        return this.#conv(node, output, outputs);
      case "Gemm": {
        const isPlain = node.float("alpha", 1) === 1 && node.float("beta", 1) === 1;
        return isPlain ? this.#product(node, node.inputs[2] ?? "", output, outputs) : undefined;
      }
      case "MatMul":
        return this.#product(node, "", output, outputs);
      case "Add": {
        for (const k of [0, 1]) {
          const product = this.#makers.get(node.inputs[k]!);
          if (product?.type !== "MatMul" || !isOnly(node.inputs[k]!)) continue;
          const bias = node.inputs[1 - k]!, maker = this.#makers.get(bias);
          const data = maker?.type === "DequantizeLinear" ? maker.inputs[0] : bias;
          // One of more axes gives a result of more axes.
          if (this.#constant(data)?.rank !== 1) continue;
          const made = this.#product(product, bias, output, outputs);
          if (made !== undefined) return made;
        }
        return undefined;
      }
      default:
        return undefined;
    }
  }

  #conv(
    node: Node,
    output: readonly [scale: string, zero: string],
    outputs: readonly string[],
  ): Node | undefined {
    const [x, weight] = [this.#source(node.inputs[0]), this.#weight(node.inputs[1], 0)];
    if (x === undefined || weight === undefined || weight.data.rank < 3) return undefined;
    if (weight.data.rank > 5) return undefined;
    const channels = weight.data.shape[0]!;
    const bias = this.#bias(node.inputs[2] ?? "", x, weight, {
      channels,
      output,
      name: outputs[0]!,
    });
    if (bias === undefined) return undefined;
    const inputs = [x.x, x.scale, x.zero, weight.x, weight.scale, weight.zero, ...output, bias];
    return node.with({ op: "QLinearConv", domain: "", inputs, outputs });
  }

  #product(
    node: Node,
    bias: string,
    output: readonly [scale: string, zero: string],
    outputs: readonly string[],
  ): Node | undefined {
    const isTurned = node.has("transB") && node.flag("transB");
    const [x, weight] = [
      this.#source(node.inputs[0]),
      this.#weight(node.inputs[1], isTurned ? 0 : 1),
    ];
    if (x === undefined || weight?.data.rank !== 2) return undefined;
    const channels = weight.data.shape[isTurned ? 0 : 1]!;
    const own = this.#bias(bias, x, weight, { channels, output, name: outputs[0]! });
    if (own === undefined) return undefined;
    const inputs = [x.x, x.scale, x.zero, weight.x, weight.scale, weight.zero, own, ...output];
    return node.with({ op: "QGemm", domain: "com.microsoft", inputs, outputs });
  }

  /**
   * The name of a bias as int32, in steps of the sums, or as floats where results are floats: `""` for
   * none, undefined for one that is not of the file or that int32 does not hold.
   */
  #bias(
    name: string,
    x: Quantized,
    weight: Quantized,
    result: {
      readonly channels: number;
      readonly output: readonly [scale: string, zero: string];
      readonly name: string;
    },
  ): string | undefined {
    if (name === "") return "";
    const { channels, output: [scale] } = result;
    const maker = this.#makers.get(name);
    const isInteger = maker?.type === "DequantizeLinear";
    const data = this.#constant(isInteger ? maker.inputs[0] : name);
    const values = this.#numbers(isInteger ? maker.inputs[0]! : name);
    const scales = isInteger ? this.#numbers(maker.inputs[1]!) : [1];
    const zeros = isInteger && (maker.inputs[2] ?? "") !== ""
      ? this.#numbers(maker.inputs[2]!)
      : [0];
    const fits = data !== undefined && values?.length === channels &&
      data.shape.at(-1) === channels &&
      scales !== undefined && [1, channels].includes(scales.length) &&
      zeros?.every((zero) => zero === 0);
    if (!fits) return undefined;
    const [own, weights] = [this.#number(x.scale)!, this.#numbers(weight.scale)!];
    const most = scale === "" ? 0 : MOST_ROUNDING * this.#number(scale)!;
    let isExact = true;
    const steps = values.map((value, k) => {
      const scale = scales[scales.length === 1 ? 0 : k]!;
      const step = own * weights[weights.length === 1 ? 0 : k]!;
      const isSame = isInteger && Math.abs(scale - step) <= SAME_SCALE * Math.abs(step);
      if (isSame) return value;
      const rounded = Math.round(value * scale / step);
      if (!(Math.abs(rounded * step - value * scale) <= most)) isExact = false;
      return rounded;
    });
    isExact &&= steps.every((one) => one >= INT32[0] && one <= INT32[1]);
    if (!isExact) return scale === "" ? name : undefined;
    if (
      isInteger && data.dtype === "int32" && data.rank === 1 &&
      steps.every((one, k) => one === values[k])
    ) {
      return maker.inputs[0]!;
    }
    const made = `${result.name}/bias`;
    this.#graph.constants.set(made, tensor(steps, { dtype: "int32" }) as T);
    return made;
  }
}

/** The nearest integer, the even one of two. */
function roundEven(x: number): number {
  const low = Math.floor(x), part = x - low;
  if (part !== 0.5) return Math.round(x);
  return low % 2 === 0 ? low : low + 1;
}

/**
 * Keeps values of float16 as float32 between the nodes of a graph, so that they are not cast before and
 * after each node.
 *
 * A convolution, or a product with a weight of the file, takes and gives float32. Nodes after it whose
 * results are continuous functions of their inputs, or elements of these, keep float32 as long as most
 * elements of their inputs are float32: a cache of float16 is not cast to join one row. All other nodes,
 * results, and graphs inside of nodes get float16.
 *
 * @module
 */
import { DTYPE } from "../base/dtype.ts";
import { f16Table } from "../base/half.ts";
import { Layout } from "../base/layout.ts";
import { keepConstantsIn, storeOf } from "../compile/constants.ts";
import { wrap } from "../core/handles.ts";
import { interpreting, uninterpreted } from "../core/interpreter.ts";
import { copiedStorage, withoutCopies } from "../memory/lazy.ts";
import { cowOf } from "../memory/snapshot.ts";
import type { Storage } from "../memory/storage.ts";
import { keep, Tensor } from "../tensor/tensor.ts";
import { describeValue, type Implementation } from "./graph/call.ts";
import type { Node } from "./graph/graph.ts";
import { typeOf } from "./graph/initializers.ts";
import { isKnownTensor, isList, type T, type Value } from "./graph/values.ts";
import { OPS } from "./ops/mod.ts";

const opsOf = (names: string): ReadonlySet<Implementation> =>
  new Set(names.split(" ").map((name) => OPS.get(name)!));

/** Convolutions and products, which start to keep float32 where they have a weight of the file. */
const WEIGHTED = opsOf(
  "Conv ConvTranspose MatMul Gemm com.microsoft.FusedMatMul com.microsoft.TransposeMatMul",
);
/** Products that read a weight of float16 as fast as one of float32. */
const PACKING = opsOf("MatMul Gemm");
/** Ops that keep float32. */
const KEEPING = new Set([
  ...WEIGHTED,
  ...opsOf(
    "Abs Neg Reciprocal Sqrt Exp Log Sin Cos Tan Asin Acos Atan Sinh Cosh Tanh Asinh Acosh Atanh Erf " +
      "Sigmoid Relu Softsign Softplus Mish Elu Celu Selu LeakyRelu HardSigmoid HardSwish Swish SwiGLU " +
      "PRelu Gelu Clip Add Sub Mul Div Pow Max Min Sum Mean com.microsoft.Gelu com.microsoft.FastGelu " +
      "com.microsoft.BiasGelu com.microsoft.QuickGelu Softmax LogSoftmax ReduceSum ReduceMean ReduceMax " +
      "ReduceMin ReduceProd ReduceSumSquare ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp CumSum " +
      "LpNormalization MeanVarianceNormalization Einsum MaxPool AveragePool LpPool GlobalAveragePool " +
      "GlobalMaxPool GlobalLpPool BatchNormalization InstanceNormalization GroupNormalization " +
      "LayerNormalization RMSNormalization SimplifiedLayerNormalization LRN Resize Upsample " +
      "com.microsoft.SkipLayerNormalization com.microsoft.SkipSimplifiedLayerNormalization",
  ),
  ...opsOf(
    "Identity Reshape Flatten Squeeze Unsqueeze Transpose Concat Split Slice Gather GatherElements " +
      "GatherND ScatterElements ScatterND Expand Tile Pad Where DepthToSpace SpaceToDepth Trilu Shape Size",
  ),
]);
/** Ops whose inputs after the first one are of other types: sizes, and factors of these. */
const SIZED = opsOf("Resize Upsample");
/** Ops all of whose outputs have the type of the inputs. Those of others may be indices, or float32. */
const MANY = opsOf("Split");
/** Powers, whose exponents may be of another type than their bases. */
const POWER = OPS.get("Pow")!;
const CAST = OPS.get("Cast")!;

/** The tensors of float32 that are float16 in the file. */
const wides = new WeakSet<T>();

const isWide = (value: Value): boolean => value instanceof Tensor && wides.has(value);
const isHalf = (value: Value): boolean => value instanceof Tensor && value.dtype === "float16";

/** Notes that values of float32 are float16 in the file. */
function noteWide(values: readonly Value[]): void {
  for (const x of values) if (x instanceof Tensor && x.dtype === "float32") wides.add(x);
}

/** A cast, of what is known at once. */
function cast(x: T, dtype: "float16" | "float32"): T {
  const make = (): T => x.astype(dtype);
  return interpreting() && isKnownTensor(x) ? uninterpreted(make) : make();
}

/** A value as the file says: one that is kept as float32 is rounded. */
export function narrowed(value: Value): Value {
  return value instanceof Tensor && wides.has(value) ? cast(value, "float16") : value;
}

/** A value in errors, with the dtype that it has in the file. */
export function describeNarrowed(value: Value): string {
  const text = describeValue(value);
  return isWide(value) ? text.replace("float32", "float16") : text;
}

/** What a constant of float32 is computed of. */
const sources = new WeakMap<Storage, T>();

/** The tensor of float16 that a storage has as float32; undefined for another storage. */
export function sourceOf(storage: Storage): T | undefined {
  return sources.get(storage);
}

/**
 * A tensor of the file as float32. Its elements are there only while they are read, unless a program
 * reads them in each run.
 */
function widened(x: T): T {
  const { storage, layout } = x;
  if (!layout.contiguous) return uninterpreted(() => x.astype("float32"));
  const { offset, size, shape } = layout;
  const lazy = copiedStorage(DTYPE.float32, size, (into) => {
    const wide = new Float32Array(into.buffer, into.byteOffset, size);
    const table = f16Table();
    withoutCopies([storage.base], () => {
      const bits = storage.array as Uint16Array;
      for (let i = 0; i < size; i++) wide[i] = table[bits[offset + i]!]!;
    });
  });
  const own = cowOf(lazy, 0, size - 1);
  sources.set(own, x);
  const store = storeOf(storage);
  if (store !== undefined) keepConstantsIn(store, own);
  return wrap(own, Layout.contiguous([...shape])) as T;
}

/** Computes an op of inputs. */
type Compute = (inputs: readonly Value[]) => ReturnType<Implementation>;

/** How a node computes that has values of float16. */
export interface Widening {
  /** The inputs, those of the file as the op takes them. */
  readonly inputs: readonly Value[];
  /** Computes the outputs by the op, which takes other inputs. */
  call(compute: Compute): ReturnType<Implementation>;
}

/** The values of float16 of a model. */
export class Halves {
  /** Tensors of the file as float32. */
  readonly #constants = new Map<T, T>();

  /** How a node computes; undefined if it takes its inputs as they are. */
  of(
    node: Node,
    compute: Implementation,
    inputs: readonly Value[],
    isConstant: (name: string) => boolean,
  ): Widening | undefined {
    const hasWide = inputs.some(isWide);
    if (!hasWide && !inputs.some(isHalf)) return undefined;
    const isOfFile = (k: number): boolean => isConstant(node.inputs[k] ?? "");
    if (!keepsFloat32(node, compute, inputs, isOfFile)) {
      if (!hasWide) return undefined;
      const call = (run: Compute) => run(inputs.map(narrowed));
      return { inputs, call: compute === CAST ? castOf(node, inputs[0] as T) ?? call : call };
    }
    const isCast = (x: Value, k: number): x is T =>
      x instanceof Tensor && isHalf(x) && !(SIZED.has(compute) && k > 0) &&
      !(PACKING.has(compute) && k === 1 && x.rank === 2 && isOfFile(k));
    const own = inputs.map((x, k) => isCast(x, k) && isOfFile(k) ? this.#widened(x) : x);
    return {
      inputs: own,
      call(run) {
        const made = run(own.map((x, k) => isCast(x, k) ? cast(x, "float32") : x));
        if (isList(made as Value)) noteWide(made as readonly Value[]);
        return made;
      },
    };
  }

  #widened(x: T): T {
    const before = this.#constants.get(x);
    if (before !== undefined) return before;
    const made = keep(widened(x));
    this.#constants.set(x, made);
    return made;
  }

  /** Frees the tensors. */
  dispose(): void {
    for (const x of this.#constants.values()) x.dispose();
    this.#constants.clear();
  }
}

/** What casts a value that is kept as float32, unless it is rounded first. */
function castOf(node: Node, x: T): Widening["call"] | undefined {
  const type = node.int("to");
  // As ONNX Runtime does: this cast takes what the node before it computed.
  if (type === typeOf("float32")) return () => [x.view()];
  if (type !== typeOf("float16")) return undefined;
  return () => {
    const made = [x.view()];
    noteWide(made);
    return made;
  };
}

/** Whether a node takes and gives float32 for values of float16. */
function keepsFloat32(
  { outputs }: Node,
  compute: Implementation,
  inputs: readonly Value[],
  isOfFile: (k: number) => boolean,
): boolean {
  if (!KEEPING.has(compute)) return false;
  if (!MANY.has(compute) && outputs.slice(1).some((name) => name !== "")) return false;
  let [wide, half] = [0, 0];
  for (const [k, x] of inputs.entries()) {
    if (!(x instanceof Tensor) || SIZED.has(compute) && k > 0) continue;
    const isOwn = isWide(x) || isHalf(x);
    // The node mixes types: what it computes, or that it fails, is its own matter.
    const isFree = compute === POWER && k === 1;
    if (!isOwn && !isFree && DTYPE[x.dtype].kind === "f") return false;
    if (!isOwn || isOfFile(k)) continue;
    if (isWide(x)) wide += x.size;
    else half += x.size;
  }
  const starts = WEIGHTED.has(compute) && (isOfFile(0) || isOfFile(1));
  return starts || wide > 0 && wide >= half;
}

/**
 * Linear layers of a file, alone and several as one product.
 *
 * @module
 */
import type { DType } from "../base/dtype.ts";
import { ArgumentError, ShapeError } from "../base/errors.ts";
import { formatShape } from "../base/shape.ts";
import { describe } from "../base/text.ts";
import { ownOperand } from "../core/foreign.ts";
import { tidy } from "../core/handles.ts";
import { canPack } from "../ops/linear/panels.ts";
import { apply, applyView } from "../core/apply.ts";
import { cast } from "../core/copy.ts";
import type { Operand } from "../memory/operand.ts";
import { checkOptions } from "../table/infer.ts";
import { MAP } from "../table/table.ts";
import { VIEWS } from "../table/views.ts";
import { concat } from "../ops/join/op.ts";
import { type Activation, checkActivation, linear, type LinearOptions } from "../ops/linear/op.ts";
import { quantizeInt8 } from "../ops/linear/int8.ts";
import {
  type AnyPackedWeight,
  type PackedWeight,
  packWeight,
} from "../ops/linear/packed_weight.ts";
import { isQuantized } from "../ops/quantized/dtypes.ts";
import { dequantize } from "../ops/quantized/op.ts";
import { zeros } from "../tensor/create.ts";
import type { AnyTensor, Tensor } from "../tensor/tensor.ts";
import type * as t from "../types/mod.ts";
import { splitHeads } from "./heads.ts";
import { defineLayer, type Layer, mergeLayers, type Own, type Tensors } from "./weights/layer.ts";
import type { Ledger } from "./weights/ledger.ts";

export type { Layer };

/**
 * The dtype of a product of `X` by weights of the dtypes `D`. A table, as with a conditional type a
 * layer of one dtype were none of several.
 */
export type ProductDType<X extends DType, D extends DType> = {
  readonly [W in DType]: t.OkDType<t.Promote<X, W>>;
}[D];

/** Options of linear layers. */
export interface LinearLayerOptions {
  /** Whether there is a bias, `name.bias`; `"optional"` takes one if the file has it. */
  readonly bias?: boolean | "optional" | undefined;
  /** A function that is applied to the product with its bias. */
  readonly activation?: Activation | undefined;
  /** True if the file has the weight as [I, O]. */
  readonly transposed?: boolean | undefined;
  /**
   * Rounds the weight to int8 when it is loaded, with scales for parts of its rows; products round the
   * rows of x too. A quantized weight of a GGUF file stays as it is.
   */
  readonly quantize?: "int8" | undefined;
}

/** Options of a call of a linear layer. */
export interface LinearCallOptions {
  /** A tensor of the shape of the result, which is added last. */
  readonly add?: AnyTensor | undefined;
}

/** Sizes and dtype of a linear layer, by which others know it. */
export interface LinearSizes<O extends number, I extends number, D extends DType> {
  /** The last size of results. */
  readonly outFeatures: O;
  /** The last size of inputs. */
  readonly inFeatures: I;
  /** The weight, packed for products; of float64, a tensor [O, I]. */
  readonly weight:
    | PackedWeight<D | "int8", [O, I], t.Device>
    | Tensor<D, [O, I], t.Device>;
}

/** A linear layer: [..., I] gives [..., O]. */
export interface LinearLayer<
  O extends number = number,
  I extends number = number,
  D extends DType = t.PackedDType,
> extends Layer, LinearSizes<O, I, D> {
  /**
   * The product with the weight, plus bias, through the activation, plus `add`: [..., I] gives
   * [..., O]. It throws as `x.linear`.
   */
  <X extends AnyTensor>(
    x: t.Guard<t.Linear<t.ShapeOf<X>, [O, I]>, X>,
    options?: LinearCallOptions,
  ): Tensor<ProductDType<X["dtype"], D>, t.Ok<t.Linear<t.ShapeOf<X>, [O, I]>>, X["device"]>;
  /** The bias [O], if there is one. */
  readonly bias: Tensor<D, [O], t.Device> | undefined;
}

/** Options of a call of a fused layer. */
export interface FusedCallOptions {
  /** Splits the parts into heads: as many of the first part, and in the others of the same size. */
  readonly heads?: number | undefined;
}

/** The parts of a fused product of `X`. Their dtype is that of weights that are not rounded to int8. */
export type FusedParts<X extends AnyTensor, Ls extends readonly AnyLinear[]> = {
  -readonly [K in keyof Ls]: Tensor<
    ProductDType<X["dtype"], Exclude<Ls[K]["weight"]["dtype"], "int8">>,
    t.Ok<t.Linear<t.ShapeOf<X>, [Ls[K]["outFeatures"], Ls[number]["inFeatures"]]>>,
    X["device"]
  >;
};

/** The parts of a fused product, split into heads: [B, N, H · D] as [B, H, N, D]. */
export type FusedHeads<X extends AnyTensor, Ls extends readonly AnyLinear[]> = {
  -readonly [K in keyof Ls]: Tensor<
    ProductDType<X["dtype"], Exclude<Ls[K]["weight"]["dtype"], "int8">>,
    t.ShapeOf<X> extends readonly [...infer B extends number[], infer N extends number, number]
      ? [...B, number, N, number]
      : number[],
    X["device"]
  >;
};

/** Linear layers of one input as one product. */
export interface FusedLayer<Ls extends readonly AnyLinear[]> extends Layer {
  /** The results of the layers. */
  <X extends AnyTensor>(
    x: t.Guard<t.Linear<t.ShapeOf<X>, [number, Ls[number]["inFeatures"]]>, X>,
    options?: { readonly heads?: undefined },
  ): FusedParts<X, Ls>;
  /** The results of the layers, split into heads. */
  <X extends AnyTensor>(
    x: t.Guard<t.Linear<t.ShapeOf<X>, [number, Ls[number]["inFeatures"]]>, X>,
    options: FusedCallOptions & { readonly heads: number },
  ): FusedHeads<X, Ls>;
}

/** Any linear layer. */
export type AnyLinear = LinearSizes<number, number, DType>;

/** What `fuse` has to know of a layer. */
interface Spec {
  readonly sizes: readonly [outputs: number, inputs: number];
  readonly activation: Activation | undefined;
  readonly transposed: boolean;
  readonly quantize: "int8" | undefined;
}

const specs = new WeakMap<object, Spec>();

/** A weight [O, I] of a layer, packed if it can be, or rounded if it is to be. */
function prepare(
  w: Operand,
  own: Own,
  { quantize }: Spec,
  isTrained: boolean,
): Operand | ReturnType<typeof packWeight> {
  if (isTrained) return w;
  if (quantize !== undefined && !isQuantized(w.storage.info)) return own(quantizeInt8(w));
  if (canPack(w.storage.info)) return own(packWeight(w));
  return own(w as AnyTensor);
}

/** The weight of a layer as the file has it, as [O, I]; blocks of a quantized one are along I. */
function plain(w: Operand, { transposed }: Spec): Operand {
  return transposed ? applyView(VIEWS.transpose, numbersOf(w), "transpose") : w;
}

/** A tensor, dequantized if it is quantized. */
function numbersOf(x: Operand): Operand {
  return isQuantized(x.storage.info) ? dequantize(x) : x;
}

/** The factors of an adapter, packed: B [O, r] and A [r, I]. */
interface Factors {
  readonly a: AnyPackedWeight;
  readonly b: AnyPackedWeight;
}

/** The factors of the adapter of a weight that is quantized, if there is one. */
function factorsOf(tensors: Tensors, name: string, own: Own): Factors | undefined {
  const [a, b] = [tensors[`${name}.a`], tensors[`${name}.b`]];
  if (a === undefined || b === undefined) return undefined;
  return { a: own(packWeight(a)), b: own(packWeight(b)) };
}

/** The product with an adapter, in the dtype of x. */
function productOf(x: Operand, { a, b }: Factors): Operand {
  return cast(linear(linear(x, a, undefined), b, undefined), x.storage.info.name);
}

/** {@link linear}, with the product of an adapter before the activation. */
function adapted(
  x: Operand,
  weight: Operand,
  bias: Operand | undefined,
  factors: Factors | undefined,
  { activation, add }: LinearOptions,
): Operand {
  if (factors === undefined) return linear(x, weight, bias, { activation, add });
  return tidy(() => {
    let y = linear(x, weight, bias, { add: productOf(x, factors) });
    if (activation !== undefined) y = apply(MAP[activation], y);
    return add === undefined ? y : apply(MAP.add, y, add);
  });
}

/** The layer `name`: [..., I] gives [..., O]. */
export function linearLayer(
  ledger: Ledger,
  name: string,
  outputs: number,
  inputs: number,
  options: LinearLayerOptions,
): Layer {
  checkOptions("linear", options, ["bias", "activation", "transposed", "quantize"]);
  const { bias = true, activation, transposed = false, quantize } = options;
  if (quantize !== undefined && quantize !== "int8") {
    throw new ArgumentError(`Cannot linear with quantize ${describe(quantize)}: it is "int8"`);
  }
  if (bias !== "optional" && typeof bias !== "boolean") {
    throw new ArgumentError(
      `Cannot linear with bias ${describe(bias)}: it is true, false or "optional"`,
    );
  }
  if (quantize !== undefined && ledger.options.trainable) {
    throw new ArgumentError(
      `Cannot linear with quantize "int8" for ${name}: its weights are trained`,
    );
  }
  checkActivation(activation, "linear");
  const spec: Spec = { sizes: [outputs, inputs], activation, transposed, quantize };
  const parts = {
    weight: transposed ? [inputs, outputs] : [outputs, inputs],
    ...bias === false ? {} : { bias: { shape: [outputs], optional: bias === "optional" } },
  };
  const layer = defineLayer(ledger, name, parts, (tensors, own, isTrained) => {
    const { weight: read, bias: shift } = tensors;
    const weight = prepare(plain(read!, spec), own, spec, isTrained) as Operand;
    const bias = shift && own(numbersOf(shift) as AnyTensor);
    const factors = factorsOf(tensors, "weight", own);
    const call = (x: unknown, options: LinearCallOptions = {}): Operand => {
      checkOptions("linear", options, ["add"]);
      const { add } = options;
      return adapted(ownOperand(x, "linear"), weight, bias, factors, { activation, add });
    };
    return Object.assign(call, { weight, bias });
  }, { fields: ["weight", "bias"], keepsQuantized: true, addsProducts: true });
  specs.set(layer, spec);
  return Object.assign(layer, { outFeatures: outputs, inFeatures: inputs });
}

/** Whether weights can be one: quantized ones of several formats cannot. */
function canJoin(weights: readonly Operand[]): boolean {
  const [{ storage: { info } }] = weights as [Operand];
  return weights.every(({ storage }) => storage.info === info) ||
    !weights.some(({ storage }) => isQuantized(storage.info));
}

/** Weights and biases of several layers, one below the other. */
function joinWeights(
  weights: readonly Operand[],
  biases: readonly (Operand | undefined)[],
  parts: readonly Spec[],
): [Operand, Operand | undefined] {
  const weight = concat(weights, 0);
  if (biases.every((bias) => bias === undefined)) return [weight, undefined];
  const { storage: { info, device } } = biases.find((bias) => bias !== undefined)!;
  const none = { dtype: info.name, device: device as "cpu" };
  return [
    weight,
    concat(biases.map((bias, i) => bias ?? zeros([parts[i]!.sizes[0]], none)), 0),
  ];
}

/**
 * Linear layers of one input as one product, which is faster: the weights are joined when they are
 * loaded. Gives a function that returns the layers' results, as views, or with the option `heads`
 * split into heads of one size: [B, N, H · D] as [B, H, N, D]. The layers cannot be called any more.
 *
 * @throws {ShapeError} For layers of different inputs.
 * @throws {ArgumentError} For different activations, for layers of different files and for
 *   weights that are loaded already.
 *
 * @example
 * ```ts
 * using w = nn.weights({ "q.weight": ones([4, 3]), "k.weight": ones([2, 3]) });
 * const qk = nn.fuse(
 *   w.linear("q", 4, 3, { bias: false }),
 *   w.linear("k", 2, 3, { bias: false }),
 * );
 * w.done();
 * const [q, k] = qk(ones([1, 5, 3]));
 * [q.shape, k.shape]; // => [[1, 5, 4], [1, 5, 2]]
 * qk(ones([1, 5, 3]), { heads: 2 }).map((x) => x.shape); // => [[1, 2, 5, 2], [1, 1, 5, 2]]
 * ```
 */
export function fuse<const Ls extends readonly AnyLinear[]>(...layers: Ls): FusedLayer<Ls>;
export function fuse(...layers: readonly AnyLinear[]): Layer {
  const parts = layers.map((layer) => {
    const spec = specs.get(layer);
    if (spec === undefined) {
      throw new ArgumentError(`Cannot fuse ${describe(layer)}: it takes linear layers of a file`);
    }
    return spec;
  });
  for (const { sizes, activation, quantize } of parts) {
    const [first] = parts;
    if (sizes[1] !== first!.sizes[1]) {
      throw new ShapeError(
        `Cannot fuse layers of shapes ${formatShape(first!.sizes)} and ${formatShape(sizes)}: ` +
          `inner sizes ${first!.sizes[1]} and ${sizes[1]} differ`,
      );
    }
    if (quantize !== first!.quantize) {
      throw new ArgumentError("Cannot fuse layers of which only some are rounded to int8");
    }
    if (activation !== first!.activation) {
      throw new ArgumentError(
        `Cannot fuse layers with activations ${describe(first!.activation)} and ${
          describe(activation)
        }: they must be the same`,
      );
    }
  }
  const outputs = parts.map(({ sizes }) => sizes[0]);
  return mergeLayers("fuse", layers, (tensors, own, isTrained) => {
    const product = productsOf(tensors, parts, own, isTrained);
    return (x: unknown, options: FusedCallOptions = {}) => {
      checkOptions("fuse", options, ["heads"]);
      const { heads } = options;
      const sizes = heads === undefined ? undefined : headsOf(outputs, heads);
      return tidy(() =>
        product(ownOperand(x, "fuse")).map((part, i) =>
          sizes === undefined ? part : splitHeads(part as AnyTensor, sizes[i]!)
        )
      );
    };
  }, { keepsQuantized: true, addsProducts: true });
}

/** The products of x with several weights: parts of one, if they can be. */
function productsOf(
  tensors: Tensors,
  parts: readonly Spec[],
  own: Own,
  isTrained: boolean,
): (x: Operand) => readonly Operand[] {
  const { activation } = parts[0]!;
  const weights = parts.map((part, i) => plain(tensors[`${i}.weight`]!, part));
  const biases = parts.map((_, i) => tensors[`${i}.bias`]).map((bias) => bias && numbersOf(bias));
  const kept = (weight: Operand, bias: Operand | undefined): [Operand, Operand | undefined] => [
    prepare(weight, own, parts[0]!, isTrained) as Operand,
    bias && own(bias as AnyTensor) as Operand,
  ];
  const factors = parts.map((_, i) => factorsOf(tensors, `${i}.weight`, own));
  const isSplit = activation !== undefined && factors.some((one) => one !== undefined);
  // Weights that are trained would be joined in each call.
  if (isTrained || isSplit || !canJoin(weights)) {
    const all = weights.map((weight, i) => kept(weight, biases[i]));
    return (x) =>
      all.map(([weight, bias], i) => adapted(x, weight, bias, factors[i], { activation }));
  }
  const [weight, bias] = kept(...joinWeights(weights, biases, parts));
  return (x) => {
    const product = linear(x, weight, bias, { activation });
    const last = product.layout.shape.length - 1;
    let at = 0;
    return parts.map(({ sizes: [size] }, i) => {
      const part = applyView(VIEWS.narrow, product, "narrow", last, at, size);
      at += size;
      const own = factors[i];
      return own === undefined ? part : apply(MAP.add, part, productOf(x, own));
    });
  };
}

/** How many heads each part has, of the size that `heads` heads of the first part have. */
function headsOf(outputs: readonly number[], heads: number): number[] {
  const size = outputs[0]! / heads;
  return outputs.map((columns) => {
    if (heads > 0 && Number.isInteger(size) && columns % size === 0) return columns / size;
    throw new ShapeError(
      `Cannot fuse with heads ${describe(heads)}: ${outputs[0]} columns in that many heads, and ` +
        `${columns} in heads of the same size, do not come out even`,
    );
  });
}

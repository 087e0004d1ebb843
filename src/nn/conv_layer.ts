/**
 * Convolutions with the weights of a file, and batch norms folded into them.
 *
 * @module
 */
import type { DType } from "../base/dtype.ts";
import { ArgumentError } from "../base/errors.ts";
import { describe } from "../base/text.ts";
import { apply, applyView } from "../core/apply.ts";
import { cast } from "../core/copy.ts";
import { isOperand, type Operand } from "../memory/operand.ts";
import { checkOptions } from "../table/infer.ts";
import { MAP } from "../table/table.ts";
import { VIEWS } from "../table/views.ts";
import { type Activation, checkActivation } from "../ops/linear/op.ts";
import type { AnyTensor, Tensor } from "../tensor/tensor.ts";
import type * as t from "../types/mod.ts";
import { convolve } from "./conv.ts";
import { type BatchNormLayer, batchNormOf, wide } from "./layers.ts";
import { foldStatistics } from "./channel_norm.ts";
import { checkWinograd, winogradWeight } from "../ops/conv/winograd.ts";
import { defineLayer, type Layer, mergeLayers, type Own } from "./weights/layer.ts";
import type { Ledger } from "./weights/ledger.ts";
import {
  checkCount,
  CONV_OPTIONS,
  type ConvOptions,
  pairsOf,
  type PerAxis,
  perAxis,
} from "./windows.ts";

/** Options of convolution layers. */
export interface ConvLayerOptions extends ConvOptions {
  /** Whether there is a bias, `name.bias`; `"optional"` takes one if the file has it. */
  readonly bias?: boolean | "optional" | undefined;
  /** A function that is applied to the sums with their bias. */
  readonly activation?: Activation | undefined;
}

/** A convolution layer with `R` axes of space: [N, I, …] gives [N, O, …]. */
export interface ConvLayer<R extends 1 | 2 | 3 = 1 | 2 | 3, D extends DType = t.PackedDType>
  extends Layer {
  /** The convolution, plus bias, through the activation. Throws as {@link conv2d} does. */
  <X extends AnyTensor>(x: X): Tensor<X["dtype"], SpatialShape<R>, X["device"]>;
  /** The weight [O, I / groups, …]. */
  readonly weight: Tensor<D, SpatialShape<R>, t.Device>;
  /** The bias [O], if there is one. */
  readonly bias: Tensor<D, [number], t.Device> | undefined;
}

/** The shape of images with `R` axes of space. */
export type SpatialShape<R extends number> = [
  [number, number, number],
  [number, number, number, number],
  [number, number, number, number, number],
][R extends 1 ? 0 : R extends 2 ? 1 : 2];

/** What `fold` has to know of a layer. */
interface Spec {
  readonly rank: 1 | 2 | 3;
  readonly outputs: number;
  readonly options: ConvOptions;
  readonly activation: Activation | undefined;
}

const specs = new WeakMap<object, Spec>();

/** The function of a layer of tensors that it owns. */
function callOf(
  { rank, options, activation }: Spec,
  weight: Operand,
  bias: Operand | undefined,
  own: Own,
  isTrained: boolean,
) {
  own(weight as AnyTensor);
  if (bias !== undefined) own(bias as AnyTensor);
  const transformed = options.winograd === true && !isTrained
    ? own(winogradWeight(weight) as AnyTensor) as Operand
    : undefined;
  const call = (x: unknown): Operand =>
    convolve(`conv${rank}d`, rank, x, weight, bias, options, activation, transformed);
  return Object.assign(call, { weight, bias });
}

/** The layer `name`: [N, inputs, …] gives [N, outputs, …]. */
export function convLayer(
  ledger: Ledger,
  name: string,
  rank: 1 | 2 | 3,
  [outputs, inputs]: readonly [number, number],
  kernel: PerAxis,
  given: ConvLayerOptions,
): Layer {
  const op = `conv${rank}d`;
  checkOptions(op, given, [...CONV_OPTIONS, "bias", "activation"]);
  const { bias = true, activation, ...options } = given;
  const { groups = 1, stride = 1, dilation = 1, padding = 0, winograd = false } = options;
  if (bias !== "optional" && typeof bias !== "boolean") {
    throw new ArgumentError(
      `Cannot ${op} with bias ${describe(bias)}: it is true, false or "optional"`,
    );
  }
  checkActivation(activation, op);
  checkCount(groups, 1, "groups", op);
  if (inputs % groups !== 0 || outputs % groups !== 0) {
    throw new ArgumentError(
      `Cannot ${op} from ${inputs} to ${outputs} channels in ${groups} groups: both must be ` +
        "multiples of the number of groups",
    );
  }
  const kernels = perAxis(kernel, rank, 1, "kernel", op);
  const attributes = {
    stride: perAxis(stride, rank, 1, "stride", op),
    dilation: perAxis(dilation, rank, 1, "dilation", op),
    groups,
  };
  checkWinograd(winograd, attributes, kernels, op);
  const ends = typeof padding === "string" ? padding : pairsOf(padding, rank, op);
  const own = { ...options, ...attributes, padding: ends };
  const spec: Spec = { rank, outputs, options: own, activation };
  const parts = {
    weight: [outputs, inputs / groups, ...kernels],
    ...bias === false ? {} : { bias: { shape: [outputs], optional: bias === "optional" } },
  };
  const layer = defineLayer(
    ledger,
    name,
    parts,
    ({ weight, bias }, own, isTrained) => callOf(spec, weight!, bias, own, isTrained),
    { fields: ["weight", "bias"] },
  );
  specs.set(layer, spec);
  return layer;
}

/**
 * A convolution and the batch norm after it as one convolution, whose weight and bias contain the
 * norm: computed in float32 when they are loaded. Neither layer can be called any more.
 *
 * @throws {ArgumentError} For other layers, other numbers of channels, a convolution with an
 *   activation, layers of different files, and weights that are loaded already.
 *
 * @example
 * ```ts
 * using w = nn.weights({
 *   "conv.weight": ones([2, 1, 1, 1]),
 *   "norm.running_mean": tensor([1, 0]),
 *   "norm.running_var": tensor([4, 1]),
 * });
 * const conv = w.conv2d("conv", 2, 1, 1, { bias: false });
 * const layer = nn.fold(conv, w.batchNorm("norm", 2, { epsilon: 0 }));
 * w.done();
 * layer(full([1, 1, 1, 1], 3)).toArray(); // => [[[[1]], [[3]]]]
 * ```
 */
export function fold<L extends ConvLayer>(
  conv: L,
  norm: BatchNormLayer,
  options: { readonly activation?: Activation | undefined } = {},
): L {
  checkOptions("fold", options, ["activation"]);
  const { activation } = options;
  checkActivation(activation, "fold");
  const spec = specs.get(conv as object), statistics = batchNormOf(norm as object);
  if (spec === undefined || statistics === undefined) {
    throw new ArgumentError("Cannot fold: it takes a convolution layer and a batch norm of a file");
  }
  if (spec.activation !== undefined) {
    throw new ArgumentError(
      `Cannot fold a convolution with activation ${
        describe(spec.activation)
      }: the norm comes after it`,
    );
  }
  if (spec.outputs !== statistics.channels) {
    throw new ArgumentError(
      `Cannot fold a norm of ${statistics.channels} channels into a convolution that gives ` +
        `${spec.outputs}`,
    );
  }
  const folded: Spec = { ...spec, activation };
  const layer = mergeLayers("fold", [conv, norm], (tensors, own, isTrained) => {
    const part = (name: string): Operand => tensors[name] as Operand;
    const [weight, moved] = [part("0.weight"), part("0.bias")];
    const [factor, normBias, mean, variance] = ["weight", "bias", "running_mean", "running_var"]
      .map((name) => wide(part(`1.${name}`)));
    const [scale, shift] = foldStatistics(factor, normBias, mean!, variance!, statistics.epsilon);
    const { storage: { info }, layout: { shape } } = weight;
    const each = applyView(VIEWS.reshape, scale, "reshape", [-1, ...shape.slice(1).map(() => 1)]);
    const scaled = cast(apply(MAP.mul, weight, each), info.name);
    const added = isOperand(moved) ? apply(MAP.add, apply(MAP.mul, moved, scale), shift) : shift;
    return callOf(folded, scaled, cast(added, info.name), own, isTrained);
  }, { fields: ["weight", "bias"] });
  specs.set(layer, folded);
  return layer as L;
}

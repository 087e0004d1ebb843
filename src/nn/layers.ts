/**
 * Embedding and norm layers with the weights of a file.
 *
 * @module
 */
import { checkDType, DTYPE, type DType } from "../base/dtype.ts";
import { ArgumentError, ShapeError } from "../base/errors.ts";
import { formatShape } from "../base/shape.ts";
import { describe } from "../base/text.ts";
import { apply } from "../core/apply.ts";
import { cast } from "../core/copy.ts";
import { ownOperand } from "../core/foreign.ts";
import { tidy } from "../core/handles.ts";
import type { Operand } from "../memory/operand.ts";
import { checkOptions } from "../table/infer.ts";
import { MAP } from "../table/table.ts";
import { normalizeAlong } from "../ops/softmax_norm/op.ts";
import { widen } from "../ops/reduce/differences.ts";
import type { AnyTensor, Tensor } from "../tensor/tensor.ts";
import type * as t from "../types/mod.ts";
import { embedding } from "./embedding.ts";
import {
  affine,
  type ChannelNormOptions,
  foldStatistics,
  normalizeGroups,
} from "./channel_norm.ts";
import { defineLayer, type Layer, type Own } from "./weights/layer.ts";
import { joinName, type Ledger } from "./weights/ledger.ts";

/** `S` if its last size is `N`, or why `Op` does not take it. */
export type LastAxis<Op extends string, S extends readonly number[], N extends number> =
  number extends S["length"] ? S
    : S extends readonly [...number[], infer K extends number] ? t.Agree<K, N> extends true ? S
      : `Cannot ${Op} shape ${t.Show<S>}: its last axis has size ${K}, not ${N}`
    : `Cannot ${Op} shape ${t.Show<S>}: it needs at least 1 axis`;

/** Options of embeddings. */
export interface EmbeddingOptions<E extends DType> {
  /** The dtype of the results; that of the weight by default. */
  readonly dtype?: E | undefined;
}

/** An embedding: ids [...] give rows [..., D]. */
export interface EmbeddingLayer<
  N extends number = number,
  W extends number = number,
  D extends DType = t.PackedDType,
  E extends DType = D,
> extends Layer {
  /**
   * The rows of the weight at integers. Throws an IndexError for integers that are none of its rows.
   */
  <X extends AnyTensor>(ids: X): Tensor<E, t.Append<t.ShapeOf<X>, W>, X["device"]>;
  /** The weight [N, D]. */
  readonly weight: Tensor<D, [N, W], t.Device>;
}

/** Options of norms along the last axis. */
export interface NormLayerOptions {
  /** Added before the square root; by default as in `x.layerNorm` and `x.rmsNorm`. */
  readonly epsilon?: number | undefined;
}

/** Options of {@link NormLayer}s without a bias. */
export interface RmsNormLayerOptions extends NormLayerOptions {
  /** Added to the factors of the file: 1 for those of Gemma in safetensors; 0 by default. */
  readonly offset?: number | undefined;
}

/** Options of {@link NormLayer}s with a bias. */
export interface LayerNormLayerOptions extends NormLayerOptions {
  /** Whether there is a bias, `name.bias`; `"optional"` takes one if the file has it. */
  readonly bias?: boolean | "optional" | undefined;
}

/** Options of a call of a norm. */
export interface NormCallOptions {
  /** A tensor of the shape of x, which is added to x first: a residual. */
  readonly add?: AnyTensor | undefined;
}

/** A norm along the last axis. */
export interface NormLayer<N extends number = number, Op extends string = string> extends Layer {
  /** The norm of x [..., N], or of x + `add`. Throws as the method of its name does. */
  <X extends AnyTensor>(
    x: t.Guard<LastAxis<Op, t.ShapeOf<X>, N>, X>,
    options?: NormCallOptions,
  ): Tensor<t.ToFloat[X["dtype"]], t.ShapeOf<X>, X["device"]>;
  /** The factors [N]: float32, or float64. */
  readonly weight: Tensor<"float32" | "float64", [N], t.Device>;
  /** The shifts [N], if there are any. */
  readonly bias: Tensor<"float32" | "float64", [N], t.Device> | undefined;
}

export type { ChannelNormOptions };

/** A norm of [B, C, …] over channels. */
export interface ChannelNormLayer extends Layer {
  /** x [B, C, …] normalized. Throws a ShapeError for another number of channels. */
  <X extends AnyTensor>(x: X): Tensor<t.ToFloat[X["dtype"]], t.ShapeOf<X>, X["device"]>;
}

/** A batch norm with its statistics folded: x · scale + shift for each channel. */
export interface BatchNormLayer<C extends number = number> extends ChannelNormLayer {
  /** weight / √(running variance + epsilon), [C]: float32, or float64. */
  readonly scale: Tensor<"float32" | "float64", [C], t.Device>;
  /** bias − running mean · scale, [C]: float32, or float64. */
  readonly shift: Tensor<"float32" | "float64", [C], t.Device>;
}

/** Rows of a weight. */
export function embeddingLayer(
  ledger: Ledger,
  name: string,
  rows: number,
  columns: number,
  options: EmbeddingOptions<DType>,
): Layer {
  checkOptions("embedding", options, ["dtype"]);
  const { dtype } = options;
  if (dtype !== undefined) checkDType(dtype, "embedding");
  return defineLayer(ledger, name, { weight: [rows, columns] }, ({ weight: read }, own) => {
    const weight = own(read as AnyTensor) as Operand;
    const call = (ids: unknown): Operand =>
      tidy(() => {
        const taken = embedding(ids as AnyTensor, weight as AnyTensor);
        return dtype === undefined ? taken : cast(taken, dtype);
      });
    return Object.assign(call, { weight });
  }, { fields: ["weight"], keepsQuantized: true });
}

/** A weight in the dtype of norms, which compute 16-bit floats as float32. */
export function wide(x: Operand | undefined): Operand | undefined {
  return x === undefined || x.storage.info === DTYPE.float64 ? x : cast(x, "float32");
}

function ownAll(own: Own, ...tensors: readonly (Operand | undefined)[]): (Operand | undefined)[] {
  return tensors.map((x) => x && own(x as AnyTensor));
}

/** A norm along the last axis. */
export function normLayer(
  ledger: Ledger,
  op: "layerNorm" | "rmsNorm",
  name: string,
  size: number,
  options: LayerNormLayerOptions & RmsNormLayerOptions,
): Layer {
  checkOptions(op, options, ["epsilon", op === "layerNorm" ? "bias" : "offset"]);
  const { epsilon, bias = op === "layerNorm", offset = 0 } = options;
  if (!Number.isFinite(offset)) {
    throw new ArgumentError(`Cannot ${op} with offset ${describe(offset)}: it is a number`);
  }
  if (bias !== "optional" && typeof bias !== "boolean") {
    throw new ArgumentError(
      `Cannot ${op} with bias ${describe(bias)}: it is true, false or "optional"`,
    );
  }
  const parts = {
    weight: [size],
    ...bias === false ? {} : { bias: { shape: [size], optional: bias === "optional" } },
  };
  return defineLayer(ledger, name, parts, (tensors, own) => {
    const { weight: factor, bias: moved } = tensors;
    const factors = wide(factor)!;
    const whole = offset === 0 ? factors : apply(MAP.add, factors, offset);
    const [weight, shift] = ownAll(own, whole, wide(moved));
    const affine = shift === undefined ? { weight: weight! } : { weight: weight!, bias: shift };
    const how = epsilon === undefined ? affine : { ...affine, epsilon };
    const call = (given: unknown, options: NormCallOptions = {}): Operand => {
      checkOptions(op, options, ["add"]);
      const x = ownOperand(given, op);
      const { shape } = x.layout;
      if (shape.at(-1) !== size) {
        throw new ShapeError(
          `Cannot ${op} shape ${formatShape(shape)}: ` +
            (shape.length === 0
              ? "it needs at least 1 axis"
              : `its last axis has size ${shape.at(-1)}, not ${size}`),
        );
      }
      const { add } = options;
      if (add === undefined) return normalizeAlong(op, x, -1, how);
      return tidy(() => {
        const sum = apply(MAP.add, x, ownOperand(add, op), undefined, { broadcast: false }, op);
        return normalizeAlong(op, sum, -1, how);
      });
    };
    return Object.assign(call, { weight, bias: shift });
  }, { fields: ["weight", "bias"] });
}

function channelsOf(op: string, x: Operand, channels: number): void {
  const { shape } = x.layout;
  if (shape.length >= 2 && shape[1] === channels) return;
  throw new ShapeError(
    `Cannot ${op} shape ${formatShape(shape)}: it takes [B, ${channels}, …]`,
  );
}

/** The dtype of float functions of `x`. */
function floatOf({ storage: { info } }: Operand): DType {
  return info.kind === "f" ? info.name : "float32";
}

/** A norm over groups of channels of [B, C, …], each with the axes after them. */
export function groupNormLayer(
  ledger: Ledger,
  name: string,
  groups: number,
  channels: number,
  options: ChannelNormOptions,
): Layer {
  checkOptions("groupNorm", options, ["epsilon"]);
  const { epsilon = 1e-5 } = options;
  if (!Number.isInteger(groups) || groups < 1 || channels % groups !== 0) {
    throw new ArgumentError(
      `Cannot groupNorm ${describe(channels)} channels in ${
        describe(groups)
      } groups: they do not ` +
        "come out even",
    );
  }
  return defineLayer(ledger, name, { weight: [channels], bias: [channels] }, (tensors, own) => {
    const { weight: factor, bias: moved } = tensors;
    const [weight, bias] = ownAll(own, wide(factor), wide(moved)) as [Operand, Operand];
    return Object.assign((given: unknown): Operand => {
      const x = ownOperand(given, "groupNorm");
      channelsOf("groupNorm", x, channels);
      return tidy(() => {
        const normal = normalizeGroups(widen(x)[0]!, groups, epsilon);
        return cast(affine(normal, weight, bias), floatOf(x));
      });
    }, { weight, bias });
  }, { fields: ["weight", "bias"] });
}

const batchNorms = new WeakMap<object, { readonly channels: number; readonly epsilon: number }>();

/** The channels and the epsilon of a batch norm; undefined for other layers. */
export function batchNormOf(layer: object) {
  return batchNorms.get(layer);
}

/** A batch norm by its running statistics. */
export function batchNormLayer(
  ledger: Ledger,
  name: string,
  channels: number,
  options: ChannelNormOptions,
): Layer {
  checkOptions("batchNorm", options, ["epsilon"]);
  const { epsilon = 1e-5 } = options;
  if (!(epsilon >= 0)) {
    throw new ArgumentError(
      `Cannot batchNorm with epsilon ${describe(epsilon)}: it is a number of at least 0`,
    );
  }
  const each = { shape: [channels], optional: true };
  const parts = {
    weight: each,
    bias: each,
    running_mean: [channels],
    running_var: [channels],
  };
  // A counter, which only training uses.
  ledger.use(joinName(name, "num_batches_tracked"));
  const layer = defineLayer(ledger, name, parts, (tensors, own) => {
    const { weight, bias, running_mean: mean, running_var: variance } = tensors;
    const folded = foldStatistics(wide(weight), wide(bias), wide(mean)!, wide(variance)!, epsilon);
    const [scale, shift] = ownAll(own, ...folded) as [Operand, Operand];
    const call = (given: unknown): Operand => {
      const x = ownOperand(given, "batchNorm");
      channelsOf("batchNorm", x, channels);
      return tidy(() => cast(affine(widen(x)[0]!, scale, shift), floatOf(x)));
    };
    return Object.assign(call, { scale, shift });
  }, { fields: ["scale", "shift"] });
  batchNorms.set(layer, { channels, epsilon });
  return layer;
}

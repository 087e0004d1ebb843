/**
 * The weights of a file by names: a cursor that gives checked tensors and layers.
 *
 * @module
 */
import { checkDType, type DType } from "../base/dtype.ts";
import { ArgumentError, DeviceError, DTypeError, FormatError } from "../base/errors.ts";
import { typeError } from "../base/stack.ts";
import { checkShape, ownNames } from "../base/shape.ts";
import { describe } from "../base/text.ts";
import { brandOf } from "../base/version.ts";
import { contiguousOnCpu } from "../core/copy.ts";
import { ownOperand } from "../core/foreign.ts";
import type { Path } from "../io/file.ts";
import type { Metadata } from "../io/metadata.ts";
import { openSource } from "../io/model_folder.ts";
import { sourceOfBytes, type TensorEntry, type TensorSource } from "../io/source.ts";
import { checkOptions } from "../table/infer.ts";
import type { AnyPackedWeight } from "../ops/linear/packed_weight.ts";
import type { AnyTensor, Tensor } from "../tensor/tensor.ts";
import type * as t from "../types/mod.ts";
import {
  type BatchNormLayer,
  batchNormLayer,
  type ChannelNormLayer,
  type ChannelNormOptions,
  type EmbeddingLayer,
  embeddingLayer,
  type EmbeddingOptions,
  groupNormLayer,
  type LayerNormLayerOptions,
  type NormLayer,
  normLayer,
  type RmsNormLayerOptions,
} from "./layers.ts";
import { type ConvLayer, convLayer, type ConvLayerOptions } from "./conv_layer.ts";
import type { PerAxis } from "./windows.ts";
import { type LinearLayer, linearLayer, type LinearLayerOptions } from "./linear.ts";
import { type PlaceOf, withAdapter } from "./weights/adapter.ts";
import { defineLayer, type Layer, type Make, type PartSpec } from "./weights/layer.ts";
import { type Holder, joinName, Ledger } from "./weights/ledger.ts";
import {
  checkName,
  type DoneOptions,
  type LoadOptions,
  type LoadProgress,
  ownOptions,
  type WeightsOptions,
} from "./weights/options.ts";

export type { DoneOptions, LoadOptions, LoadProgress, PartSpec, Path, WeightsOptions };

/** Dtype and shape of a tensor in a file. */
export interface WeightInfo {
  /** The element type; undefined if it is not read. */
  readonly dtype: DType | undefined;
  /** The shape. */
  readonly shape: readonly number[];
}

/** What a layer of {@link Weights.layer} needs: shapes by the last part of names. */
export type PartSpecs = Readonly<Record<string, PartSpec>>;

/** The tensors of the parts `P`. */
export type PartTensors<P extends PartSpecs, D extends DType, V extends t.Device> = {
  readonly [K in keyof P]: P[K] extends readonly number[] ? Tensor<D, [...P[K]], V>
    : P[K] extends { readonly shape: infer S extends readonly number[] } ?
        | Tensor<P[K] extends { readonly dtype: infer E extends DType } ? E : D, [...S], V>
        | (P[K] extends { readonly optional: false } ? never
          : P[K] extends { readonly optional: boolean } ? undefined
          : never)
    : never;
};

/** The tensors whose names begin with `prefix`, by their new names. */
function renamed(source: TensorSource, { prefix, rename }: WeightsOptions): TensorSource {
  if (prefix === undefined && rename === undefined) return source;
  const { file } = source;
  const entries = new Map<string, TensorEntry>();
  const start = prefix === undefined || prefix === "" ? "" : `${prefix}.`;
  for (const [name, entry] of source.entries) {
    if (!name.startsWith(start)) continue;
    const own = name.slice(start.length);
    const given = rename === undefined ? own : rename(own);
    checkName("rename a tensor to", given);
    if (entries.has(given)) {
      throw new FormatError(`two tensors get the name ${describe(given)}`, file, 0);
    }
    entries.set(given, entry);
  }
  return { ...source, entries };
}

/**
 * Opens the weights of a model: a .safetensors file, the index of several files
 * (`model.safetensors.index.json`), a .gguf file, an .npz archive, or a folder with one of these or
 * with .npy files. It also takes the bytes of such a file, but not of an index.
 *
 * `open` reads only headers. Safetensors, GGUF and .npy files are mapped into memory if
 * `info().files` reports it: tensors use the memory of the file, which the system reads at the
 * first use, and are copied before the first write. With `{ mmap: false }`, and if files cannot be
 * mapped, each layer reads its tensors in `done`. No file stays open. An archive is read
 * completely.
 *
 * Without the option `dtype`, layers take float16, bfloat16 and float32 without a cast; weights of
 * float64 need `{ dtype: "float64" }` or another dtype. Linear and embedding layers keep quantized
 * weights of GGUF files. All other layers, and all layers with `dtype`, dequantize them when they
 * are loaded.
 *
 * @param source A path, or the bytes of a file.
 * @returns The weights; `using` or `dispose` frees them with all their layers.
 * @throws {FormatError} For damaged files, for folders without weights (the message lists the
 *   content), and for an `adapter` that does not fit.
 *
 * @example
 * ```ts
 * const bytes = io.encodeSafetensors({ "up.weight": ones([4, 3]), "up.bias": zeros([4]) });
 * using w = await nn.open(bytes); // or a path
 * const up = w.linear("up", 4, 3, { activation: "relu" });
 * w.done();
 * up(ones([2, 3])).toArray(); // => [[3, 3, 3, 3], [3, 3, 3, 3]]
 * ```
 */
export async function open<E extends DType = t.PackedDType, V extends t.Device = "cpu">(
  source: Path | Uint8Array,
  options: WeightsOptions<E, V> = {},
): Promise<Weights<NoInfer<E>, t.OnDevice<NoInfer<V>>>> {
  const own = ownOptions("open weights", options);
  const opened = ArrayBuffer.isView(source)
    ? sourceOfBytes(source, own.maxBytes)
    : await openSource(source, own);
  const { adapter } = own;
  return cursorOf(adapter === undefined ? opened : await withAdapter(opened, adapter), own);
}

/**
 * The weights in tensors of the program. Layers copy the tensors that they need; the tensors do not
 * change. With `{ trainable: true }` layers use the tensors themselves, which stay those of the caller:
 * so a function of parameters that is differentiated makes its layers of them.
 *
 * @example
 * ```ts
 * using w = nn.weights({ "norm.weight": tensor([1, 2]) });
 * const norm = w.rmsNorm("norm", 2);
 * w.done();
 * norm(tensor([3, 3])).round().toArray(); // => [1, 2]
 * ```
 */
export function weights<E extends DType = t.PackedDType, V extends t.Device = "cpu">(
  tensors: Readonly<Record<string, AnyTensor>>,
  options: WeightsOptions<E, V> = {},
): Weights<NoInfer<E>, t.OnDevice<NoInfer<V>>> {
  const own = ownOptions("take weights", options);
  if (own.adapter !== undefined) {
    throw new ArgumentError("Cannot take weights with an adapter: nn.open has that option");
  }
  if (own.trainable && own.dtype !== undefined) {
    throw new ArgumentError(
      `Cannot take trainable weights with dtype ${own.dtype}: they are the tensors themselves`,
    );
  }
  const single = brandOf(tensors, "tensor") !== undefined;
  if (typeof tensors !== "object" || tensors === null || single || Symbol.iterator in tensors) {
    const given = single ? "a tensor" : describe(tensors);
    throw new DTypeError(`Cannot take weights: expected tensors by name, as { x }, got ${given}`);
  }
  const entries = new Map<string, TensorEntry>();
  for (const [name, tensor] of Object.entries(tensors)) {
    const operand = ownOperand(tensor, "take weights");
    const { storage, layout: { shape } } = operand;
    const { info } = storage;
    const fill = (into: Uint8Array): void => {
      const { storage, layout } = contiguousOnCpu(ownOperand(tensor, `load ${name} of`));
      const begin = storage.array.byteOffset + layout.offset * info.bytes;
      into.set(new Uint8Array(storage.array.buffer, begin, into.length));
    };
    const given = own.trainable ? operand : undefined;
    if (own.trainable && own.device !== undefined && storage.device !== own.device) {
      throw new DeviceError(
        `Cannot take trainable weights on ${own.device}: ${name} is on ${storage.device}`,
      );
    }
    entries.set(name, { dtype: info.name, type: info.name, shape, fill, given });
  }
  return cursorOf({ file: "<tensors>", entries }, own);
}

function cursorOf<E extends DType, V extends t.Device>(
  source: TensorSource,
  options: WeightsOptions<E, V>,
): Weights<E, t.OnDevice<V>> {
  const { dtype, device, trainable } = options;
  return new Weights(new Ledger(renamed(source, options), { dtype, device, trainable }), "");
}

/**
 * The weights of a model, by the dotted names of its tensors; made by {@link open}.
 *
 * Its methods return tensors and layers by their names below `path`, and check their shapes. {@link
 * Weights.done} loads all layers, or throws one error that lists all tensors that are missing or
 * have another shape. The weights own their tensors and layers: `dispose` or `using` frees them.
 *
 * `D` is the dtype of the weights that layers compute with, `V` their device.
 *
 * @example
 * ```ts
 * using w = nn.weights({ "a.0.weight": ones([2, 2]), "a.1.weight": ones([2, 2]) });
 * const layers = w.list("a", (w) => w.linear("", 2, 2, { bias: false }));
 * w.done();
 * layers.reduce((x, layer) => layer(x), ones([1, 2])).toArray(); // => [[4, 4]]
 * ```
 */
export class Weights<D extends DType = t.PackedDType, V extends t.Device = "cpu">
  implements Disposable {
  /** The class name, as a bundler may shorten the class's own. @ignore */
  static get name(): string {
    return "Weights";
  }

  readonly #ledger: Ledger;
  /** The prefix of its names, without the dot; `""` for all names. */
  readonly path: string;

  /** Programs use {@link open}. @ignore */
  constructor(ledger: unknown, path: string) {
    this.#ledger = ledger as Ledger;
    this.path = path;
  }

  /**
   * Adds a LoRA adapter to the weights, before layers are asked for.
   *
   * @ignore
   */
  async adapt(folder: Path, placeOf?: PlaceOf): Promise<void> {
    const { file } = this.#ledger;
    const entries = this.#ledger.entries("add an adapter");
    this.#ledger.replace((await withAdapter({ file, entries }, folder, placeOf)).entries);
  }

  #name(op: string, name: unknown): string {
    checkName(op, name);
    return joinName(this.path, name as string);
  }

  /** The weights whose names begin with `name` and a dot: `w.at("encoder.layer.0")`. */
  at(name: string): Weights<D, V> {
    return new Weights(this.#ledger, this.#name("go to", name));
  }

  /** Whether there is a tensor with this name, or with this name and a dot as its prefix. */
  has(name: string): boolean {
    const whole = this.#name("look for", name);
    const entries = this.#ledger.entries("look for a name");
    if (entries.has(whole)) return true;
    return this.#ledger.names(whole, "look for a name").length > 0;
  }

  /** The names of all tensors below `path`, relative to it. */
  names(): string[] {
    return this.#ledger.names(this.path, "list names");
  }

  /**
   * The metadata of the file: values by key. GGUF files have the sizes of the model and the
   * tokenizer, safetensors files have texts; other files have none.
   */
  get metadata(): Metadata {
    return this.#ledger.metadata;
  }

  /** Dtype and shape of a tensor; undefined if there is no tensor with this name. */
  info(name: string): WeightInfo | undefined {
    const entry = this.#ledger.entries("look for a name").get(this.#name("look for", name));
    return entry && { dtype: entry.dtype, shape: Object.freeze([...entry.shape]) };
  }

  /**
   * A tensor. It is read immediately, unless its file is mapped. Later calls with the same name
   * return the same tensor.
   *
   * @param name The name, relative to `path`.
   * @param shape The expected shape, if it is to be checked.
   * @param options `dtype` casts the tensor. By default floats have the dtype of the weights, other
   *   tensors that of the file.
   * @throws {FormatError} At a use of the tensor, if it is missing or has another shape.
   *
   * @example
   * ```ts
   * using w = nn.weights({ scale: tensor([1, 2]) });
   * w.tensor("scale", [2], { dtype: "float32" }).toArray(); // => [1, 2]
   * ```
   */
  tensor<const S extends readonly number[] = readonly number[], E extends DType = DType>(
    name: string,
    shape?: S | undefined,
    options?: { readonly dtype?: E | undefined },
  ): Tensor<E, number extends S["length"] ? readonly number[] : [...S], V>;
  tensor(
    name: string,
    shape?: readonly number[] | undefined,
    options: { readonly dtype?: DType | undefined } = {},
  ): AnyTensor {
    checkOptions("read a tensor", options, ["dtype"]);
    const { dtype } = options;
    if (dtype !== undefined) checkDType(dtype, "read a tensor");
    const whole = this.#name("read", name);
    const own = shape === undefined ? undefined : checkShape(shape, `read ${describe(whole)} of`);
    return this.#ledger.tensor(whole, own, dtype);
  }

  /**
   * The tensors below `path` that are trained, by their names: a tree for `grad` and optimizers. They
   * are the floats, without `running_mean` and `running_var` of batch norms; quantized weights are
   * trained only with a `dtype`. Layers use what optimizers write in their next calls. The weights own
   * the tensors.
   *
   * @throws {ArgumentError} For weights that were opened without `{ trainable: true }`.
   *
   * @example
   * ```ts
   * import { io, ones, type Tensor, tensor, zeros } from "@rowmajor/tensor";
   * import { grad } from "@rowmajor/tensor/grad";
   * import * as nn from "@rowmajor/tensor/nn";
   *
   * const file = io.encodeSafetensors({ "up.weight": ones([1, 2]), "up.bias": zeros([1]) });
   * using w = await nn.open(file, { trainable: true });
   * const params = w.parameters();
   * const loss = (p: typeof params, x: Tensor) => {
   *   const up = nn.weights(p, { trainable: true }).linear("up", 1, 2);
   *   return up(x).sum();
   * };
   * const gradients = grad(loss)(params, tensor([[3, 4]]));
   * gradients["up.weight"]!.toArray(); // => [[3, 4]]
   * params["up.weight"]!.sub_(gradients["up.weight"]!);
   * w.linear("up", 1, 2)(ones([1, 2])).toArray(); // => [[-5]]
   * ```
   */
  parameters(): Record<string, Tensor<D, readonly number[], V>> {
    const names = this.#ledger.trainedNames(this.path);
    return Object.fromEntries(names.map((name) => [name, this.tensor<readonly number[], D>(name)]));
  }

  /**
   * The results of `build` for `name.0`, `name.1` and so on.
   *
   * @param build A function of the weights below each of these names, and of the index.
   */
  list<R>(name: string, build: (w: Weights<D, V>, index: number) => R): R[];
  /** {@link list} with a given number of names. */
  list<R>(
    name: string,
    count: number | undefined,
    build: (w: Weights<D, V>, index: number) => R,
  ): R[];
  list<R>(name: string, ...rest: unknown[]): R[] {
    const build = rest.at(-1) as (w: Weights<D, V>, index: number) => R;
    if (typeof build !== "function") {
      throw typeError(`Cannot list ${describe(name)}: expected a function that builds a part`);
    }
    const parent = this.at(name);
    let count = rest.length > 1 ? rest[0] as number | undefined : undefined;
    if (count === undefined) {
      count = 0;
      while (parent.has(String(count))) count++;
    } else if (!Number.isInteger(count) || count < 0) {
      throw new ArgumentError(`Cannot list ${describe(count)} parts: expected a number of them`);
    }
    return Array.from({ length: count }, (_, i) => build(parent.at(String(i)), i));
  }

  /**
   * A layer with tensors and code of the program.
   *
   * @param name The prefix of the names of the tensors.
   * @param parts The shapes of the tensors by the last part of their names; `{ shape, optional:
   *   true }` for a tensor that can be absent. All tensors are floats, except those of `{ shape,
   *   dtype }`, which must have that dtype in the file.
   * @param make A function that gets the tensors once, when they are loaded, and returns the
   *   function of the layer. It passes tensors and packed weights that the layer needs later to
   *   `own`; all others are freed when `make` returns.
   * @returns The layer.
   *
   * @example
   * ```ts
   * using w = nn.weights({ "gate.scale": tensor([1, 2]), "gate.shift": tensor([1, 1]) });
   * const gate = w.layer("gate", { scale: [2], shift: [2] }, ({ scale, shift }, own) => {
   *   const both = own(scale.add(shift));
   *   return (x: Tensor) => x.mul(both);
   * });
   * w.done();
   * gate(ones([2])).toArray(); // => [2, 3]
   * ```
   */
  // Any parameters: the compiler infers those of F, and with `unknown` it would refuse them.
  // deno-lint-ignore no-explicit-any
  layer<const P extends PartSpecs, F extends (...args: any[]) => unknown>(
    name: string,
    parts: P,
    make: (
      tensors: PartTensors<P, D, V>,
      own: <X extends AnyTensor | AnyPackedWeight>(x: X) => X,
    ) => F,
  ): F & Layer {
    const whole = this.#name("make a layer of", name);
    // The tensors that it gets are those of `parts`, which it knows by their own types.
    return defineLayer(this.#ledger, whole, parts, make as unknown as Make) as F & Layer;
  }

  /**
   * A linear layer with `name.weight` [O, I] and `name.bias` [O], from [..., I] to [..., O]. The
   * weight is packed once, unless it is float64. A call takes a residual: `layer(x, { add })`.
   *
   * @example
   * ```ts
   * using w = nn.weights({ "up.weight": ones([4, 3]), "up.bias": ones([4]) });
   * const up = w.linear("up", 4, 3);
   * up(ones([2, 3])).shape; // => [2, 4]
   * ```
   */
  linear<const O extends number, const I extends number>(
    name: string,
    outputs: O,
    inputs: I,
    options?: LinearLayerOptions,
  ): LinearLayer<O, I, D>;
  linear(name: string, outputs: number, inputs: number, options: LinearLayerOptions = {}): Layer {
    const whole = this.#name("linear", name);
    return linearLayer(this.#ledger, whole, outputs, inputs, options);
  }

  /**
   * An embedding layer: the rows of `name.weight` [N, D] at integer indices. The option `dtype`
   * casts the results, for example to float32 for weights of 16 bits.
   *
   * @example
   * ```ts
   * using w = nn.weights({ "words.weight": tensor([[1, 2], [3, 4]]) });
   * const words = w.embedding("words", 2, 2);
   * words(tensor([1, 0], { dtype: "int32" })).toArray(); // => [[3, 4], [1, 2]]
   * ```
   */
  embedding<const N extends number, const W extends number, E extends DType = D>(
    name: string,
    rows: N,
    columns: W,
    options?: EmbeddingOptions<E>,
  ): EmbeddingLayer<N, W, D, NoInfer<E>>;
  embedding(
    name: string,
    rows: number,
    columns: number,
    options: EmbeddingOptions<DType> = {},
  ): Layer {
    const whole = this.#name("embedding", name);
    return embeddingLayer(this.#ledger, whole, rows, columns, options);
  }

  /**
   * A layer norm over the last axis, with `name.weight` and `name.bias` [N]. A call takes a
   * residual, which is added to x first: `norm(x, { add })`.
   */
  layerNorm<const N extends number>(
    name: string,
    size: N,
    options?: LayerNormLayerOptions,
  ): NormLayer<N, "layerNorm">;
  layerNorm(name: string, size: number, options: LayerNormLayerOptions = {}): Layer {
    return normLayer(
      this.#ledger,
      "layerNorm",
      this.#name("layerNorm", name),
      size,
      options,
    );
  }

  /** An RMS norm over the last axis, with `name.weight` [N] and a residual as in {@link layerNorm}. */
  rmsNorm<const N extends number>(
    name: string,
    size: N,
    options?: RmsNormLayerOptions,
  ): NormLayer<N, "rmsNorm">;
  rmsNorm(name: string, size: number, options: RmsNormLayerOptions = {}): Layer {
    return normLayer(this.#ledger, "rmsNorm", this.#name("rmsNorm", name), size, options);
  }

  /**
   * A convolution of [N, I, W] by `name.weight` [O, I / groups, K], plus `name.bias` [O]; the options
   * are those of {@link conv1d}, `bias` and `activation`.
   */
  conv1d(
    name: string,
    outputs: number,
    inputs: number,
    kernel: PerAxis,
    options?: ConvLayerOptions,
  ): ConvLayer<1, D>;
  conv1d(
    name: string,
    outputs: number,
    inputs: number,
    kernel: PerAxis,
    options: ConvLayerOptions = {},
  ): Layer {
    return this.#conv(1, name, [outputs, inputs], kernel, options);
  }

  /**
   * A convolution of [N, I, H, W] by `name.weight` [O, I / groups, KH, KW], plus `name.bias` [O]; see
   * {@link conv1d}. {@link fold} joins it with a batch norm.
   *
   * @example
   * ```ts
   * using w = nn.weights({ "stem.weight": ones([8, 3, 3, 3]) });
   * const stem = w.conv2d("stem", 8, 3, 3, { bias: false, padding: 1, activation: "relu" });
   * w.done();
   * stem(ones([1, 3, 5, 5])).shape; // => [1, 8, 5, 5]
   * ```
   */
  conv2d(
    name: string,
    outputs: number,
    inputs: number,
    kernel: PerAxis,
    options?: ConvLayerOptions,
  ): ConvLayer<2, D>;
  conv2d(
    name: string,
    outputs: number,
    inputs: number,
    kernel: PerAxis,
    options: ConvLayerOptions = {},
  ): Layer {
    return this.#conv(2, name, [outputs, inputs], kernel, options);
  }

  /** A convolution of [N, I, D, H, W] by `name.weight` and `name.bias`; see {@link conv1d}. */
  conv3d(
    name: string,
    outputs: number,
    inputs: number,
    kernel: PerAxis,
    options?: ConvLayerOptions,
  ): ConvLayer<3, D>;
  conv3d(
    name: string,
    outputs: number,
    inputs: number,
    kernel: PerAxis,
    options: ConvLayerOptions = {},
  ): Layer {
    return this.#conv(3, name, [outputs, inputs], kernel, options);
  }

  #conv(
    rank: 1 | 2 | 3,
    name: string,
    sizes: readonly [number, number],
    kernel: PerAxis,
    options: ConvLayerOptions,
  ): Layer {
    return convLayer(this.#ledger, this.#name(`conv${rank}d`, name), rank, sizes, kernel, options);
  }

  /** A group norm of [B, C, …] over `groups` groups of channels, of `name.weight` and `name.bias`. */
  groupNorm(
    name: string,
    groups: number,
    channels: number,
    options?: ChannelNormOptions,
  ): ChannelNormLayer;
  groupNorm(
    name: string,
    groups: number,
    channels: number,
    options: ChannelNormOptions = {},
  ): Layer {
    const whole = this.#name("groupNorm", name);
    return groupNormLayer(this.#ledger, whole, groups, channels, options);
  }

  /**
   * A batch norm of [B, C, …] with the statistics `name.running_mean` and `name.running_var` [C], and
   * with `name.weight` and `name.bias` if the file has them. They are folded into a scale and a shift.
   */
  batchNorm<const C extends number>(
    name: string,
    channels: C,
    options?: ChannelNormOptions,
  ): BatchNormLayer<C>;
  batchNorm(name: string, channels: number, options: ChannelNormOptions = {}): Layer {
    const whole = this.#name("batchNorm", name);
    return batchNormLayer(this.#ledger, whole, channels, options);
  }

  /**
   * Loads all layers below `path`. After `done` of the whole file, requests for layers throw.
   *
   * @param options `ignore` has the names of tensors that may stay unused; * matches any
   *   characters.
   * @throws {FormatError} One error that lists all tensors that are missing, have another shape, or
   *   are unused. After an error, all allocated memory is freed.
   *
   * @example
   * ```ts
   * using w = nn.weights({ "up.weight": ones([4, 3]), "pooler.weight": ones([3, 3]) });
   * const up = w.linear("up", 4, 3, { bias: false });
   * w.done({ ignore: ["pooler.*"] });
   * ```
   */
  done(options: DoneOptions = {}): void {
    const waiting = this.#verify("done", options, ["ignore"]);
    try {
      for (const one of waiting) one.prepare!();
    } catch (error) {
      this.dispose();
      throw error;
    }
    this.#ledger.close(this.path);
  }

  /**
   * Does the same as {@link done}, and returns to the event loop between the layers.
   *
   * @example
   * ```ts
   * using w = nn.weights({ "up.weight": ones([4, 3]) });
   * const up = w.linear("up", 4, 3, { bias: false });
   * const seen: nn.LoadProgress[] = [];
   * await w.load({ onProgress: (progress) => void seen.push(progress) });
   * seen; // => [{ loaded: 48, total: 48 }]
   * ```
   */
  async load(options: LoadOptions = {}): Promise<void> {
    const waiting = this.#verify("load", options, ["ignore", "signal", "onProgress"]);
    const { signal, onProgress } = options;
    const sizes = waiting.map(({ bytes }) => bytes ?? 0);
    const total = sizes.reduce((sum, n) => sum + n, 0);
    let loaded = 0;
    try {
      for (const [i, one] of waiting.entries()) {
        signal?.throwIfAborted();
        one.prepare!();
        onProgress?.({ loaded: loaded += sizes[i]!, total });
        await new Promise((resolve) => setTimeout(resolve, 0));
      }
      signal?.throwIfAborted();
    } catch (error) {
      this.dispose();
      throw error;
    }
    this.#ledger.close(this.path);
  }

  #verify(op: string, options: DoneOptions, known: readonly string[]): Holder[] {
    checkOptions(op, options, known);
    const { ignore = [] } = options;
    return this.#ledger.verify(this.path, ownNames(op, "ignore", ignore)!);
  }

  /** Frees all tensors and layers that were made below this place. */
  dispose(): void {
    this.#ledger.dispose(this.path);
  }

  /** {@link dispose}, for `using`. */
  [Symbol.dispose](): void {
    this.dispose();
  }
}

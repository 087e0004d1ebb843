/**
 * Products with a weight that ranks share: by its columns, or by its rows.
 *
 * Weights are [O, I], as `x.linear` takes them and files have them. "Columns" and "rows" are those of
 * its transpose, by which x is multiplied.
 *
 * @module
 */
import { ArgumentError } from "../base/errors.ts";
import type { Shape } from "../base/shape.ts";
import { describe } from "../base/text.ts";
import { apply } from "../core/apply.ts";
import { ownOperand } from "../core/foreign.ts";
import { dispose, tidy } from "../core/handles.ts";
import { interpreting } from "../core/interpreter.ts";
import type { Operand } from "../memory/operand.ts";
import { checkVector } from "../nn/arguments.ts";
import { checkDevice, checkOptions } from "../table/infer.ts";
import { MAP } from "../table/table.ts";
import { linear } from "../ops/linear/op.ts";
import type { AnyPackedWeight } from "../ops/linear/packed_weight.ts";
import type { AnyTensor, Tensor } from "../tensor/tensor.ts";
import type * as t from "../types/mod.ts";
import { Group, partsOfCall } from "./group.ts";
import { checkEager } from "./run.ts";

/** Options of {@link columnParallel}. */
export interface ColumnParallelOptions<
  B extends AnyTensor = AnyTensor,
  G extends boolean = boolean,
> {
  /** The ranks that share the weight. */
  readonly group: Group;
  /** This rank's part of the bias: [O / n]. */
  readonly bias?: B | undefined;
  /** Whether every rank gets all columns of the result; false by default. */
  readonly gather?: G | undefined;
}

/** Options of {@link rowParallel}. */
export interface RowParallelOptions<B extends AnyTensor = AnyTensor> {
  /** The ranks that share the weight. */
  readonly group: Group;
  /** The whole bias, on all ranks: [O]. It is added once, to the sum. */
  readonly bias?: B | undefined;
}

/** A part of a weight, packed or not. */
export type WeightShard = AnyTensor | AnyPackedWeight;

/** A part of a weight that fits `X`, or the error. */
export type FittingShard<X extends AnyTensor, W extends WeightShard> = t.Guard<
  t.LinearOf<X, W, t.Linear<t.ShapeOf<X>, t.ShapeOf<W>>>,
  W
>;

/** A product of `X` by a weight of shape `S`, plus bias. */
export type ShardProduct<
  X extends AnyTensor,
  W extends WeightShard,
  B extends AnyTensor,
  S extends Shape = t.ShapeOf<W>,
> = Tensor<
  t.OkDType<t.PromoteAll<[X, t.Weighed<X, W>, B]>>,
  t.Ok<t.Linear<t.ShapeOf<X>, S>>,
  X["device"]
>;

/** The shape of a weight by which {@link columnParallel} multiplies: of all ranks with `gather`. */
export type GatheredShape<W extends WeightShard, G extends boolean> = G extends false ? t.ShapeOf<W>
  : [number, number];

/** The group among options. */
function groupOf(name: string, options: { readonly group: Group }, known: string[]): Group {
  checkOptions(name, options, known);
  const { group } = options;
  if (group instanceof Group) return group;
  throw new ArgumentError(`Cannot ${name} with group ${describe(group)}: it is a World or a Group`);
}

/** This rank's columns of a product, and the group if they are to be joined. */
function columns(
  name: string,
  x: unknown,
  shard: unknown,
  options: ColumnParallelOptions,
): { part: Operand; group: Group | undefined } {
  const group = groupOf(name, options, ["group", "bias", "gather"]);
  const { bias, gather = false } = options;
  if (typeof gather !== "boolean") {
    throw new ArgumentError(`Cannot ${name} with gather ${describe(gather)}: it is true or false`);
  }
  const part = linear(ownOperand(x, name), shard as Operand, bias as Operand | undefined);
  return { part, group: gather && group.size > 1 ? group : undefined };
}

/** This rank's part of the sum of a product. */
function rows(
  name: string,
  x: unknown,
  shard: unknown,
  options: RowParallelOptions,
): { part: Operand; group: Group; bias: Operand | undefined } {
  const group = groupOf(name, options, ["group", "bias"]);
  const own = ownOperand(x, name);
  const bias = options.bias === undefined ? undefined : ownOperand(options.bias, name);
  if (bias !== undefined) {
    checkDevice(own.storage, bias.storage, name);
    const { shape } = shard as { readonly shape?: Shape };
    if (shape?.length === 2) checkVector(name, "bias", bias, shape[0]!);
  }
  return { part: linear(own, shard as Operand, undefined), group, bias };
}

/** A sum with its bias, in the memory of the sum where dtypes permit. */
function withBias(sum: Operand, bias: Operand | undefined, name: string): Operand {
  if (bias === undefined) return sum;
  const keeps = bias.storage.info === sum.storage.info && !interpreting();
  return apply(MAP.add, sum, bias, undefined, { out: keeps ? sum : undefined }, name);
}

/**
 * The product with a weight that is sharded by its rows over the ranks (the column parallelism of
 * Megatron-LM), without communication. `x.linear`'s dtypes are supported, with packed and quantized
 * weights.
 *
 * @param x The whole input [..., I], equal on all ranks.
 * @param shard The rows [O / n, I] of the weight [O, I] of this rank, as `group.shard(weight, 0)`
 *   returns them.
 * @param options `group` is required. `bias` is this rank's part. `gather` joins the products of
 *   all ranks.
 * @returns This rank's part [..., O / n] of the product, or with `gather` the whole product [...,
 *   O].
 * @throws As `x.linear`, and with `gather` as {@link Group.allGather}; `gather` needs parts of one
 *   size.
 *
 * @example
 * ```ts
 * import { tensor } from "@rowmajor/tensor";
 * import { columnParallel, init } from "@rowmajor/tensor/distributed";
 *
 * await using world = await init();
 * const weight = tensor([[1, 0], [0, 1], [1, 1], [2, 0]]); // the same on all ranks
 * const shard = world.shard(weight, 0);
 * const y = await columnParallel(tensor([[1, 2]]), shard, { group: world, gather: true });
 * y.toArray(); // => [[1, 2, 3, 2]]
 * ```
 */
export async function columnParallel<
  X extends AnyTensor,
  W extends WeightShard,
  B extends AnyTensor = X,
  const G extends boolean = false,
>(
  x: X,
  shard: FittingShard<X, W>,
  options: ColumnParallelOptions<B, G>,
): Promise<ShardProduct<X, W, B, GatheredShape<W, G>>> {
  checkEager("columnParallel");
  const { part, group } = columns("columnParallel", x, shard, options);
  if (group === undefined) return part as ShardProduct<X, W, B, GatheredShape<W, G>>;
  try {
    const ranks = partsOfCall(group, "columnParallel");
    return await ranks.allGather(part as AnyTensor, { axis: -1 }) as ShardProduct<
      X,
      W,
      B,
      GatheredShape<W, G>
    >;
  } finally {
    dispose(part);
  }
}

/** {@link columnParallel}, which waits, and can be part of compiled functions. */
export function columnParallelSync<
  X extends AnyTensor,
  W extends WeightShard,
  B extends AnyTensor = X,
  const G extends boolean = false,
>(
  x: X,
  shard: FittingShard<X, W>,
  options: ColumnParallelOptions<B, G>,
): ShardProduct<X, W, B, GatheredShape<W, G>> {
  return tidy(() => {
    const { part, group } = columns("columnParallel", x, shard, options);
    if (group === undefined) return part;
    const ranks = partsOfCall(group, "columnParallel");
    return ranks.allGatherSync(part as AnyTensor, { axis: -1 });
  }) as ShardProduct<X, W, B, GatheredShape<W, G>>;
}

/**
 * The product with a weight that is sharded by its columns over the ranks (the row parallelism of
 * Megatron-LM): the sum of the products of all ranks. `x.linear`'s dtypes are supported, with
 * packed and quantized weights; sums have the dtype of the product.
 *
 * @param x This rank's part [..., I / n] of the input, such as the result of {@link columnParallel}
 *   without `gather`.
 * @param shard The columns [O, I / n] of the weight [O, I] of this rank, as `group.shard(weight,
 *   1)` returns them.
 * @param options `group` is required. `bias` is the whole bias, which is added once.
 * @returns The whole product [..., O], on all ranks.
 * @throws As `x.linear` and {@link Group.allSum}.
 *
 * @example
 * ```ts
 * import { tensor } from "@rowmajor/tensor";
 * import { init, rowParallel } from "@rowmajor/tensor/distributed";
 *
 * await using world = await init();
 * const x = tensor([[1, 2, 3, 4]]); // the same on all ranks
 * const weight = tensor([[1, 1, 1, 1], [1, 0, 1, 0]]);
 * const [part, shard] = [world.shard(x, 1), world.shard(weight, 1)];
 * const y = await rowParallel(part, shard, { group: world, bias: tensor([0, 1]) });
 * y.toArray(); // => [[10, 5]]
 * ```
 */
export async function rowParallel<
  X extends AnyTensor,
  W extends WeightShard,
  B extends AnyTensor = X,
>(x: X, shard: FittingShard<X, W>, options: RowParallelOptions<B>): Promise<ShardProduct<X, W, B>> {
  checkEager("rowParallel");
  const { part, group, bias } = rows("rowParallel", x, shard, options);
  // The bias may be disposed of, or change, before the sum is there.
  const shift = bias === undefined ? undefined : apply(MAP.copy, bias, undefined, undefined);
  let made: Operand | undefined;
  try {
    await partsOfCall(group, "rowParallel").allSum(part as AnyTensor, { out: part as AnyTensor });
    return (made = withBias(part, shift, "rowParallel")) as ShardProduct<X, W, B>;
  } finally {
    if (shift !== undefined) dispose(shift);
    if (made !== part) dispose(part);
  }
}

/** {@link rowParallel}, which waits, and can be part of compiled functions. */
export function rowParallelSync<
  X extends AnyTensor,
  W extends WeightShard,
  B extends AnyTensor = X,
>(x: X, shard: FittingShard<X, W>, options: RowParallelOptions<B>): ShardProduct<X, W, B> {
  return tidy(() => {
    const { part, group, bias } = rows("rowParallel", x, shard, options);
    const out = interpreting() ? undefined : part as AnyTensor;
    const ranks = partsOfCall(group, "rowParallel");
    const sum = ranks.allSumSync(part as AnyTensor, { ...out === undefined ? {} : { out } });
    return withBias(sum as Operand, bias, "rowParallel");
  }) as ShardProduct<X, W, B>;
}

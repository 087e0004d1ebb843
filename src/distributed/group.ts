/**
 * A group of ranks: processes that run one program, each with data of its own.
 *
 * @module
 */
import { checkDType, DTYPE, type DType } from "../base/dtype.ts";
import { ArgumentError, DTypeError } from "../base/errors.ts";
import { Layout } from "../base/layout.ts";
import { checkShape, normalizeAxis, type Shape } from "../base/shape.ts";
import { describe } from "../base/text.ts";
import { COLLECTIVE_AT } from "../backend/ffi/abi.ts";
import type { Requests } from "../backend/ffi/requests.ts";
import { plainNumbers } from "../backend/native/collective.ts";
import { ownOperand } from "../core/foreign.ts";
import { contiguousOnCpu } from "../core/copy.ts";
import { wrap } from "../core/handles.ts";
import { applyView } from "../core/apply.ts";
import type {
  CollectiveAttributes,
  CollectiveMethod,
  CollectiveReduction,
} from "../ops/collective/problem.ts";
import { partsOf } from "../ops/fft/problem.ts";
import { allocateIn } from "../memory/device.ts";
import { leaseOf } from "../memory/lease.ts";
import type { Operand } from "../memory/operand.ts";
import { recycle } from "../memory/pool.ts";
import { checkOptions } from "../table/infer.ts";
import { VIEWS } from "../table/views.ts";
import type { Op } from "../table/op.ts";
import type { AnyTensor, TensorOf } from "../tensor/tensor.ts";
import type * as t from "../types/mod.ts";
import { countLimit, ended, endedSync, type Engine, messageNumbers, type Uses } from "./engine.ts";
import {
  ALL_GATHER,
  ALL_REDUCE,
  ALL_TO_ALL,
  BROADCAST,
  REDUCE_SCATTER,
} from "../ops/collective/op.ts";
import { alongAxis, checkEager, type Collective, divideBy, run, runSync } from "./run.ts";

/** Options of collectives of a tensor. */
export interface CollectiveOptions {
  /**
   * Write the result here instead of allocating: a tensor of the result's shape, which may be the
   * input itself for results of its shape.
   */
  readonly out?: AnyTensor;
}

/** Options of collectives along an axis. */
export interface AxisCollectiveOptions extends CollectiveOptions {
  /** The axis along which ranks have parts; the first one by default. */
  readonly axis?: number;
}

/** Options of messages. */
export interface MessageOptions {
  /** Messages are received by their tags: from 0, the default, to 32,766. */
  readonly tag?: number;
}

/** A tensor like `X`. */
export type Like<X extends AnyTensor> = TensorOf<X["dtype"], t.ShapeOf<X>, X["device"]>["tensor"];

/** A tensor like `X` with other sizes. */
export type Resized<X extends AnyTensor> = TensorOf<X["dtype"], Shape, X["device"]>["tensor"];

const OUT = ["out"];
const AXIS_OUT = ["axis", "out"];
const TAG = ["tag"];
const MAX_TAG = 32_766;

function tagOf(name: string, options: MessageOptions): number {
  checkOptions(name, options, TAG);
  const { tag = 0 } = options;
  if (Number.isInteger(tag) && tag >= 0 && tag <= MAX_TAG) return tag;
  throw new ArgumentError(
    `Cannot ${name} with tag ${describe(tag)}: it is an integer from 0 to ${MAX_TAG}`,
  );
}

/** Throws unless a split has a color and a key. */
function checkColor(color: unknown, key: unknown): void {
  const fits = (value: unknown, least: number) =>
    Number.isInteger(value) && (value as number) >= least && (value as number) < 2 ** 31;
  if ((color === null || fits(color, 0)) && fits(key, -(2 ** 31))) return;
  throw new ArgumentError(
    `Cannot split by color ${describe(color)} and key ${describe(key)}: they are integers of 32 ` +
      "bits, and a color is not negative, or null",
  );
}

/** The start and the length of part `rank` of an axis of `length` elements. */
function partOf(length: number, rank: number, size: number): [start: number, length: number] {
  const [least, more] = [Math.floor(length / size), length % size];
  return [rank * least + Math.min(rank, more), least + (rank < more ? 1 : 0)];
}

const NOTHING: Uses = { operands: [] };

/** The uses of a request whose result is a new operand. */
function freshUses(target: Operand): Uses {
  const release = (failed: boolean) => failed && recycle(target.storage);
  return { operands: [target], release };
}

/** A number of milliseconds, or an ArgumentError. */
export function checkTimeout(name: string, timeout: unknown): number {
  if (typeof timeout === "number" && timeout > 0) return timeout;
  throw new ArgumentError(
    `Cannot ${name} with timeout ${describe(timeout)}: it is a positive number of milliseconds`,
  );
}

type AlongArguments = [
  name: CollectiveMethod,
  op: Op,
  x: unknown,
  options: AxisCollectiveOptions,
  reduction?: CollectiveReduction,
];

/** The settings of a group. */
export interface GroupSettings {
  readonly engine: Engine;
  /** The number of the group in the library. */
  readonly group: number;
  readonly rank: number;
  readonly size: number;
  readonly timeout: number;
  readonly limit: number;
  /** What its collectives are part of, for other ranks and for errors; by default what is called. */
  readonly method?: CollectiveMethod;
}

/** A group whose collectives are those of `method`. */
export let partsOfCall: (group: Group, method: CollectiveMethod) => Group;

/**
 * A group of ranks. All ranks of a group must call the same collectives in the same order, with
 * tensors of one dtype and shape.
 *
 * The methods return promises and do not block the event loop. They read `x` at the call. The
 * methods with the suffix `Sync` block until the result is there; compiled functions can contain
 * them.
 *
 * All methods throw a DistributedError when the deadline of the world passes, when a rank has
 * closed its world, or when MPI reports an error; the world is then unusable. If ranks call
 * different collectives, or with different dtypes or sizes, all of them throw a DistributedError
 * that names the calls; no tensor changes, and the world stays usable.
 */
export class Group {
  /** The class name, as a bundler may shorten the class's own. @ignore */
  static get name(): string {
    return "Group";
  }

  static {
    partsOfCall = (group, method) => new Group({ ...group.#settings, method });
  }

  readonly #settings: GroupSettings;

  /** Made by {@link init} and {@link Group.split}. @ignore */
  constructor(settings: GroupSettings) {
    this.#settings = settings;
  }

  /** The number of this process among those of the group, from 0. */
  get rank(): number {
    return this.#settings.rank;
  }

  /** The number of ranks. */
  get size(): number {
    return this.#settings.size;
  }

  /** The transport: `"mpi"`, or `"none"` for a single rank without a launcher. */
  get backend(): "mpi" | "none" {
    return this.#settings.engine.backend;
  }

  /**
   * The sum of the tensors of all ranks, element by element, in their dtype: integers wrap. All
   * ranks get the same bits.
   *
   * @param x The tensor of this rank; all ranks pass one dtype and shape.
   * @returns The sum, on the device of `x`.
   * @throws {DTypeError} For bool: {@link Group.allMax} computes whether any rank has true.
   *
   * @example
   * ```ts
   * import { init } from "@rowmajor/tensor/distributed";
   * import { tensor } from "@rowmajor/tensor";
   *
   * await using world = await init();
   * const loss = await world.allSum(tensor([0.5, 2]));
   * loss.shape; // => [2]
   * ```
   */
  allSum<X extends AnyTensor>(x: X, options: CollectiveOptions = {}): Promise<Like<X>> {
    return this.#start(this.#reduction("allSum", x, "sum", options));
  }

  /** The synchronous version of {@link Group.allSum}, for compiled functions too. */
  allSumSync<X extends AnyTensor>(x: X, options: CollectiveOptions = {}): Like<X> {
    return runSync(this.#reduction("allSum", x, "sum", options)) as Like<X>;
  }

  /** The largest elements of all ranks; NaN where one has NaN, true where one has true. */
  allMax<X extends AnyTensor>(x: X, options: CollectiveOptions = {}): Promise<Like<X>> {
    return this.#start(this.#reduction("allMax", x, "max", options));
  }

  /** The synchronous version of {@link Group.allMax}, for compiled functions too. */
  allMaxSync<X extends AnyTensor>(x: X, options: CollectiveOptions = {}): Like<X> {
    return runSync(this.#reduction("allMax", x, "max", options)) as Like<X>;
  }

  /** The smallest elements of all ranks; NaN where one has NaN, false where one has false. */
  allMin<X extends AnyTensor>(x: X, options: CollectiveOptions = {}): Promise<Like<X>> {
    return this.#start(this.#reduction("allMin", x, "min", options));
  }

  /** The synchronous version of {@link Group.allMin}, for compiled functions too. */
  allMinSync<X extends AnyTensor>(x: X, options: CollectiveOptions = {}): Like<X> {
    return runSync(this.#reduction("allMin", x, "min", options)) as Like<X>;
  }

  /**
   * The mean of the tensors of all ranks: the sum divided by the number of ranks, in their dtype.
   *
   * @throws {DTypeError} For dtypes other than floats and complex numbers.
   */
  async allMean<X extends AnyTensor>(x: X, options: CollectiveOptions = {}): Promise<Like<X>> {
    const sum = await this.#start<Like<X>>(this.#mean(x, options));
    return divideBy(this.size, sum) as Like<X>;
  }

  /** The synchronous version of {@link Group.allMean}, for compiled functions too. */
  allMeanSync<X extends AnyTensor>(x: X, options: CollectiveOptions = {}): Like<X> {
    return divideBy(this.size, runSync(this.#mean(x, options))) as Like<X>;
  }

  /**
   * The tensors of all ranks, joined along an axis in the order of the ranks.
   *
   * @param x The tensor of this rank; all ranks pass one dtype and shape.
   * @param options `axis` is the axis to join along, 0 by default.
   *
   * @example
   * ```ts
   * import { init } from "@rowmajor/tensor/distributed";
   * import { zeros } from "@rowmajor/tensor";
   *
   * await using world = await init();
   * const all = await world.allGather(zeros([1, 3]));
   * all.shape[0] === world.size; // => true
   * ```
   */
  allGather<X extends AnyTensor>(x: X, options: AxisCollectiveOptions = {}): Promise<Resized<X>> {
    return this.#startAlong("allGather", ALL_GATHER, x, options);
  }

  /** The synchronous version of {@link Group.allGather}, for compiled functions too. */
  allGatherSync<X extends AnyTensor>(x: X, options: AxisCollectiveOptions = {}): Resized<X> {
    return this.#runAlong("allGather", ALL_GATHER, x, options) as Resized<X>;
  }

  /**
   * The sum of the tensors of all ranks, of which rank i gets the i-th part along an axis. All
   * parts have the same size.
   *
   * @param options `axis` is the axis to split, 0 by default.
   * @throws {ShapeError} If the size of the axis is not a multiple of the number of ranks.
   */
  sumScatter<X extends AnyTensor>(x: X, options: AxisCollectiveOptions = {}): Promise<Resized<X>> {
    return this.#startAlong("sumScatter", REDUCE_SCATTER, x, options, "sum");
  }

  /** The synchronous version of {@link Group.sumScatter}, for compiled functions too. */
  sumScatterSync<X extends AnyTensor>(x: X, options: AxisCollectiveOptions = {}): Resized<X> {
    return this.#runAlong("sumScatter", REDUCE_SCATTER, x, options, "sum") as Resized<X>;
  }

  /**
   * Exchanges parts: rank i gets the i-th part of each rank's tensor along an axis, joined in the
   * order of the ranks. All parts have the same size.
   *
   * @param options `axis` is the axis to split and to join along, 0 by default.
   * @throws {ShapeError} If the size of the axis is not a multiple of the number of ranks.
   */
  allToAll<X extends AnyTensor>(x: X, options: AxisCollectiveOptions = {}): Promise<Like<X>> {
    return this.#startAlong("allToAll", ALL_TO_ALL, x, options);
  }

  /** The synchronous version of {@link Group.allToAll}, for compiled functions too. */
  allToAllSync<X extends AnyTensor>(x: X, options: AxisCollectiveOptions = {}): Like<X> {
    return this.#runAlong("allToAll", ALL_TO_ALL, x, options) as Like<X>;
  }

  /**
   * The tensor of rank `root`, on all ranks.
   *
   * @param x On rank `root`, the tensor to send; on other ranks, any tensor of its shape and dtype.
   * @param root The rank whose tensor all ranks get, 0 by default.
   */
  broadcast<X extends AnyTensor>(
    x: X,
    root: number = 0,
    options: CollectiveOptions = {},
  ): Promise<Like<X>> {
    return this.#start(this.#broadcast(x, root, options));
  }

  /** The synchronous version of {@link Group.broadcast}, for compiled functions too. */
  broadcastSync<X extends AnyTensor>(
    x: X,
    root: number = 0,
    options: CollectiveOptions = {},
  ): Like<X> {
    return runSync(this.#broadcast(x, root, options)) as Like<X>;
  }

  /**
   * Sends a tensor to rank `to`, which receives it by {@link Group.recv} with the same tag.
   *
   * @param x The tensor. It may change after the call.
   * @param to The rank that receives the tensor.
   * @returns A promise that resolves immediately for up to 64 KiB, which are copied, and otherwise
   *   when the tensor has been sent.
   */
  async send(x: AnyTensor, to: number, options: MessageOptions = {}): Promise<void> {
    const { operand, here, numbers, requests } = this.#sending(x, to, options);
    // A write of x goes elsewhere until the message has been sent.
    const lease = here === operand ? leaseOf(operand.storage) : undefined;
    const source = lease === undefined ? here : { ...here, storage: lease.storage };
    const { array } = partsOf(source.storage);
    const release = () => lease === undefined ? recycle(here.storage) : lease.end();
    await ended("send", requests.start(numbers, null, array), { operands: [source], release });
  }

  /** The synchronous version of {@link Group.send}; it returns when the tensor may change. */
  sendSync(x: AnyTensor, to: number, options: MessageOptions = {}): void {
    const { operand, here, numbers, requests } = this.#sending(x, to, options);
    const { array } = partsOf(here.storage);
    endedSync("send", () => requests.wait(numbers, null, array), {
      operands: [here],
      release() {
        if (here !== operand) recycle(here.storage);
      },
    });
  }

  /**
   * Receives a tensor from rank `from`, on the CPU.
   *
   * @param shape The shape of the tensor.
   * @param dtype The dtype of the tensor, float32 by default.
   * @param from The rank that sends the tensor, 0 by default.
   * @throws {DistributedError} If the sent tensor has another dtype or number of elements. The
   *   sender throws too if it still waits. The world stays usable.
   */
  async recv<const S extends Shape, D extends DType = "float32">(
    shape: S,
    dtype: D = "float32" as D,
    from: number = 0,
    options: MessageOptions = {},
  ): Promise<TensorOf<D, S, "cpu">["tensor"]> {
    const { target, numbers, requests } = this.#receiving(shape, dtype, from, options);
    const { array } = partsOf(target.storage);
    await ended("recv", requests.start(numbers, array, null), freshUses(target));
    return wrap(target.storage, target.layout) as TensorOf<D, S, "cpu">["tensor"];
  }

  /** The synchronous version of {@link Group.recv}, for compiled functions too. */
  recvSync<const S extends Shape, D extends DType = "float32">(
    shape: S,
    dtype: D = "float32" as D,
    from: number = 0,
    options: MessageOptions = {},
  ): TensorOf<D, S, "cpu">["tensor"] {
    const { target, numbers, requests } = this.#receiving(shape, dtype, from, options);
    const { array } = partsOf(target.storage);
    endedSync("recv", () => requests.wait(numbers, array), freshUses(target));
    return wrap(target.storage, target.layout) as TensorOf<D, S, "cpu">["tensor"];
  }

  /** Waits until all ranks have called it. */
  async barrier(): Promise<void> {
    const { engine: { requests }, size } = this.#settings;
    if (requests === undefined || size === 1) return;
    await ended("barrier", requests.start(this.#plain("barrier"), null, null), NOTHING);
  }

  /** The synchronous version of {@link Group.barrier}, for compiled functions too. */
  barrierSync(): void {
    const { engine: { requests }, size } = this.#settings;
    if (requests === undefined || size === 1) return;
    endedSync("barrier", () => requests.wait(this.#plain("barrier")), NOTHING);
  }

  /**
   * Splits the group: the ranks that pass the same color form a new group. Groups end with the
   * world.
   *
   * @param color An integer from 0, or null for a rank that joins no group.
   * @param key The order of the ranks in the new group; ranks with equal keys keep their order.
   * @returns The group of this rank, or null for the color null.
   */
  async split(color: number | null, key: number = this.rank): Promise<Group | null> {
    checkColor(color, key);
    const { engine: { requests }, size } = this.#settings;
    if (requests === undefined || size === 1) {
      return color === null ? null : new Group({ ...this.#settings, rank: 0, size: 1 });
    }
    const numbers = this.#plain("split");
    numbers[COLLECTIVE_AT.peer] = color ?? -1;
    numbers[COLLECTIVE_AT.tag] = key;
    const results = await ended("split", requests.start(numbers, null, null), NOTHING);
    const [group, rank, ranks] = [results[0]!, results[1]!, results[2]!];
    if (color === null) return null;
    return new Group({ ...this.#settings, group, rank, size: ranks, limit: countLimit });
  }

  /**
   * This group with another deadline.
   *
   * @param timeout Milliseconds after which a call throws; Infinity for no deadline.
   */
  withTimeout(timeout: number): Group {
    return new Group({ ...this.#settings, timeout: checkTimeout("withTimeout", timeout) });
  }

  /**
   * The part of `x` that belongs to this rank, as a view. If the size of the axis is not a multiple
   * of the number of ranks, the first parts have one element more.
   *
   * @param axis The axis to split, 0 by default.
   */
  shard<X extends AnyTensor>(x: X, axis: number = 0): Resized<X> {
    const operand = ownOperand(x, "shard");
    const { shape } = operand.layout;
    const at = normalizeAxis("shard", axis, shape.length);
    const [start, length] = partOf(shape[at]!, this.rank, this.size);
    return applyView(VIEWS.narrow, operand, "shard", at, start, length) as Resized<X>;
  }

  #rankOf(name: string, rank: unknown): number {
    if (Number.isInteger(rank) && (rank as number) >= 0 && (rank as number) < this.size) {
      return rank as number;
    }
    throw new ArgumentError(
      `Cannot ${name} with rank ${describe(rank)}: the group has ranks 0 to ${this.size - 1}`,
    );
  }

  #otherRank(name: string, rank: unknown): number {
    const found = this.#rankOf(name, rank);
    if (found !== this.rank) return found;
    throw new ArgumentError(`Cannot ${name} with rank ${found}: it is this one`);
  }

  /** A message to send: its tensor, and that on the CPU. */
  #sending(
    x: unknown,
    to: number,
    options: MessageOptions,
  ): { operand: Operand; here: Operand; numbers: Float64Array; requests: Requests } {
    checkEager("send");
    const peer = this.#otherRank("send", to);
    const tag = tagOf("send", options);
    const operand = ownOperand(x, "send");
    const here = contiguousOnCpu(operand);
    const { engine, group, timeout, limit } = this.#settings;
    const numbers = messageNumbers("send", group, here, peer, tag, timeout, limit);
    return { operand, here, numbers, requests: engine.requests! };
  }

  /** A message to receive, and the elements that take it. */
  #receiving(
    shape: unknown,
    dtype: unknown,
    from: number,
    options: MessageOptions,
  ): { target: Operand; numbers: Float64Array; requests: Requests } {
    checkEager("recv");
    const sizes = checkShape(shape, "recv");
    checkDType(dtype, "recv");
    const info = DTYPE[dtype];
    if (info.block > 1) throw new DTypeError(`Cannot recv ${dtype}: its elements are blocks`);
    const peer = this.#otherRank("recv", from);
    const tag = tagOf("recv", options);
    const layout = Layout.contiguous(sizes);
    const target = { storage: allocateIn(null, info, layout.size, false), layout, flags: 0 };
    const { engine, group, timeout, limit } = this.#settings;
    const numbers = messageNumbers("receive", group, target, peer, tag, timeout, limit);
    return { target, numbers, requests: engine.requests! };
  }

  #plain(kind: "barrier" | "split"): Float64Array {
    return plainNumbers(kind, this.#settings.group, this.#settings.timeout);
  }

  #collective(
    op: Op,
    called: CollectiveMethod,
    x: unknown,
    more: Partial<CollectiveAttributes>,
    out: AnyTensor | undefined,
  ): Collective {
    const { group, rank, size, timeout, limit, method = called } = this.#settings;
    return {
      op,
      name: method,
      x: ownOperand(x, method),
      attributes: { group, rank, size, timeout, limit, method, ...more },
      out: out as Operand | undefined,
    };
  }

  #reduction(
    name: CollectiveMethod,
    x: unknown,
    reduction: CollectiveReduction,
    options: CollectiveOptions,
  ): Collective {
    checkOptions(name, options, OUT);
    return this.#collective(ALL_REDUCE, name, x, { reduction }, options.out);
  }

  #mean(x: unknown, options: CollectiveOptions): Collective {
    const one = this.#reduction("allMean", x, "sum", options);
    const { info } = one.x.storage;
    if (info.kind === "f" || info.kind === "c") return one;
    throw new DTypeError(`Cannot allMean ${info.name}: it takes floats; cast with astype()`);
  }

  #broadcast(x: unknown, root: number, options: CollectiveOptions): Collective {
    checkOptions("broadcast", options, OUT);
    const from = this.#rankOf("broadcast", root);
    return this.#collective(BROADCAST, "broadcast", x, { root: from }, options.out);
  }

  #along(...[name, op, x, options, reduction]: AlongArguments): ReturnType<typeof alongAxis> {
    checkOptions(name, options, AXIS_OUT);
    const more = reduction === undefined ? {} : { reduction };
    const one = this.#collective(op, name, x, more, options.out);
    const rank = one.x.layout.shape.length;
    const axis = rank === 0 ? 0 : normalizeAxis(one.name, options.axis ?? 0, rank);
    return alongAxis(one, axis);
  }

  #runAlong(...args: AlongArguments): Operand {
    const { moved, finish, release } = this.#along(...args);
    try {
      return finish(runSync(moved));
    } finally {
      release();
    }
  }

  async #startAlong<R>(...args: AlongArguments): Promise<R> {
    const { moved, finish, release } = this.#along(...args);
    try {
      return finish(await this.#start<Operand>(moved)) as R;
    } finally {
      release();
    }
  }

  #start<R>(one: Collective): Promise<R> {
    return run(one, this.#settings.engine.requests) as Promise<R>;
  }
}

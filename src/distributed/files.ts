/**
 * Safetensors files whose tensors ranks share: each rank reads its parts, and writes a file of its
 * own.
 *
 * @module
 */
import { DTYPE, type DType } from "../base/dtype.ts";
import {
  ArgumentError,
  DistributedError,
  DTypeError,
  FormatError,
  ShapeError,
} from "../base/errors.ts";
import { formatShape, normalizeAxis, type Shape } from "../base/shape.ts";
import { describe } from "../base/text.ts";
import { brandOf } from "../base/version.ts";
import { ownOperand } from "../core/foreign.ts";
import { quote } from "../io/bytes.ts";
import { type Path, writeFile } from "../io/file.ts";
import { type TensorRecord, writeSafetensors } from "../io/mod.ts";
import { makeFolder, openSource } from "../io/model_folder.ts";
import type { TensorEntry } from "../io/source.ts";
import { checkOptions } from "../table/infer.ts";
import { load } from "../nn/weights/load.ts";
import { fromBuffer } from "../tensor/create.ts";
import { concat } from "../ops/join/op.ts";
import type { AnyTensor, Tensor } from "../tensor/tensor.ts";
import { Group, partsOfCall } from "./group.ts";
import { checkEager } from "./run.ts";

/**
 * How ranks share tensors: the axes along which they are cut, by the tensors' names; a tensor without
 * one is whole on every rank. A function of names and shapes gives the axis, or undefined for whole
 * tensors.
 */
export type ShardPlan =
  | Readonly<Record<string, number>>
  | ((name: string, shape: Shape) => number | undefined);

/** Options of {@link saveShards}. */
export interface SaveShardsOptions {
  /** Along which axes the tensors are cut; those without one are whole. */
  readonly plan?: ShardPlan;
  /** Strings to store in each file; `{ format: "pt" }` by default, which Hugging Face's tools ask for. */
  readonly metadata?: Readonly<Record<string, string>>;
}

function checkGroup(name: string, group: unknown): asserts group is Group {
  if (group instanceof Group) return;
  throw new ArgumentError(`Cannot ${name} over group ${describe(group)}: it is a World or a Group`);
}

/** The axis of a tensor in a plan, from 0; undefined for a whole one. */
function axisOf(op: string, plan: ShardPlan, name: string, shape: Shape): number | undefined {
  const axis = typeof plan === "function"
    ? plan(name, shape)
    : Object.hasOwn(plan, name)
    ? plan[name]
    : undefined;
  return axis === undefined ? undefined : normalizeAxis(`${op} ${quote(name)}`, axis, shape.length);
}

function checkPlan(op: string, plan: unknown): asserts plan is ShardPlan {
  const isRecord = typeof plan === "object" && plan !== null && !Array.isArray(plan) &&
    brandOf(plan, "tensor") === undefined;
  if (typeof plan === "function" || isRecord) return;
  throw new ArgumentError(
    `Cannot ${op} with plan ${describe(plan)}: it is a record of axes, or a function`,
  );
}

// ---- reading -----------------------------------------------------------------------------------

/** A tensor of a file, or this rank's part of it. */
function read(group: Group, entry: TensorEntry, axis: number | undefined): AnyTensor {
  const whole = load(entry, undefined) as AnyTensor;
  if (axis === undefined) return whole;
  try {
    // Of a mapped file, no more than the part is touched.
    using part = group.shard(whole, axis) as AnyTensor;
    return part.copy();
  } finally {
    whole.dispose();
  }
}

/**
 * This rank's parts of the tensors of a safetensors file, of the index of several files
 * (model.safetensors.index.json), or of a folder with one of them. Ranks do not wait for each
 * other.
 *
 * The files are mapped: a rank reads and copies only its parts. Whole tensors share the memory of
 * the file with all ranks of a machine until the first write to them.
 *
 * @param plan The axis along which each tensor is split, as by {@link Group.shard}; other tensors
 *   are whole.
 * @returns The tensors by name, on an object without a prototype.
 * @throws {FormatError} For damaged files, for unsupported dtypes and for names in a plan without a
 *   tensor.
 * @throws {AxisError} For axes that a tensor does not have.
 *
 * @example
 * ```ts
 * import { tmpdir } from "node:os";
 * import { io, ones } from "@rowmajor/tensor";
 * import { init, loadShards } from "@rowmajor/tensor/distributed";
 *
 * await using world = await init();
 * const path = `${tmpdir()}/rowmajor-${world.rank}.safetensors`;
 * await io.writeSafetensors(path, { up: ones([8, 4]), down: ones([4, 8]), bias: ones([4]) });
 * const { up, down, bias } = await loadShards(world, path, { up: 0, down: 1 });
 * up!.shape[0] === 8 / world.size; // => true
 * bias!.shape; // => [4]
 * ```
 */
export async function loadShards(
  group: Group,
  path: Path,
  plan: ShardPlan = {},
): Promise<Record<string, Tensor<DType>>> {
  const op = "loadShards";
  checkEager(op);
  checkGroup(op, group);
  checkPlan(op, plan);
  const { entries, file } = await openSource(path);
  for (const name of typeof plan === "function" ? [] : Object.keys(plan)) {
    if (!entries.has(name)) throw new FormatError(`no tensor is named ${quote(name)}`, file, 0);
  }
  // Before anything is read.
  const axes = new Map<string, number | undefined>();
  for (const [name, { dtype, type, shape }] of entries) {
    if (dtype === undefined) {
      throw new FormatError(
        `tensor ${quote(name)} has dtype ${quote(type)}, which is not read`,
        file,
        0,
      );
    }
    axes.set(name, axisOf(op, plan, name, shape));
  }
  const found: Record<string, Tensor<DType>> = Object.create(null);
  for (const [name, entry] of entries) {
    found[name] = read(group, entry, axes.get(name)) as Tensor<DType>;
  }
  return found;
}

// ---- writing -----------------------------------------------------------------------------------

/** The texts of all ranks. */
async function exchange(group: Group, text: string): Promise<string[]> {
  const bytes = new TextEncoder().encode(text);
  using length = fromBuffer(new Int32Array([bytes.length]));
  const ranks = partsOfCall(group, "saveShards");
  using longest = await ranks.allMax(length);
  const size = longest.get(0);
  // JSON may end with spaces.
  const padded = new Uint8Array(size).fill(0x20);
  padded.set(bytes);
  using mine = fromBuffer(padded, { shape: [1, size] });
  using all = await ranks.allGather(mine);
  const rows = all.toTypedArray();
  const decoder = new TextDecoder();
  return Array.from(
    { length: group.size },
    (_, rank) => decoder.decode(rows.subarray(rank * size, (rank + 1) * size)),
  );
}

/**
 * The values of all ranks, as JSON keeps them. If one has an error, that rank throws it, and the
 * others a DistributedError, so that none waits for another.
 */
async function agree<T>(op: string, group: Group, mine: () => T | Promise<T>): Promise<T[]> {
  let own: { value: T } | { error: string };
  let thrown: unknown;
  try {
    own = { value: await mine() };
  } catch (error) {
    thrown = error;
    own = { error: String(error) };
  }
  const all = (await exchange(group, JSON.stringify(own))).map((text) => JSON.parse(text));
  if ("error" in own) throw thrown;
  return all.map(({ value, error }, rank) => {
    if (error === undefined) return value as T;
    throw new DistributedError(op, group.rank, rank, `rank ${rank} failed: ${error}`);
  });
}

/** What a rank says of one of its tensors. */
type Described = readonly [name: string, dtype: DType, shape: Shape, axis: number | null];

/** A tensor to write: who has it, or its parts, and who writes it. */
interface Item {
  readonly name: string;
  readonly dtype: DType;
  /** The axis along which all ranks have parts; null for a whole tensor, which some have. */
  readonly axis: number | null;
  /** By rank; undefined for those that do not have it. */
  readonly shapes: (Shape | undefined)[];
  bytes: number;
  owner: number;
}

/** The tensors of a record. */
function entriesOf(op: string, tensors: TensorRecord): [string, AnyTensor][] {
  const isRecord = typeof tensors === "object" && tensors !== null &&
    brandOf(tensors, "tensor") === undefined && !(Symbol.iterator in tensors);
  if (!isRecord) {
    const given = brandOf(tensors, "tensor") === undefined ? describe(tensors) : "a tensor";
    throw new DTypeError(`Cannot ${op}: expected tensors by name, as { x }, got ${given}`);
  }
  return Object.entries(tensors);
}

/** The tensors of this rank, described. */
function describeTensors(op: string, tensors: TensorRecord, plan: ShardPlan): Described[] {
  checkPlan(op, plan);
  return entriesOf(op, tensors).map(([name, tensor]) => {
    const { layout: { shape }, storage: { info } } = ownOperand(tensor, `${op} ${quote(name)}`);
    if (info.block > 1) {
      throw new DTypeError(`Cannot ${op} ${quote(name)} of ${info.name}: the format has no blocks`);
    }
    return [name, info.name, shape, axisOf(op, plan, name, shape) ?? null];
  });
}

/** Throws unless ranks agree on a tensor; all ranks throw the same. */
function checkItem(op: string, { name, axis, shapes }: Item): void {
  const first = shapes.find((shape) => shape !== undefined)!;
  for (const [rank, shape] of shapes.entries()) {
    if (shape === undefined) {
      if (axis === null) continue;
      throw new ArgumentError(
        `Cannot ${op} ${quote(name)}: rank ${rank} has no part of it along axis ${axis}`,
      );
    }
    const fits = shape.length === first.length &&
      shape.every((size, i) => i === axis || size === first[i]);
    if (fits) continue;
    throw new ShapeError(
      `Cannot ${op} ${quote(name)}: shapes ${formatShape(first)} and ${formatShape(shape)} of ` +
        `ranks ${shapes.indexOf(first)} and ${rank} do not fit` +
        (axis === null ? "; its axis is missing in the plan" : ""),
    );
  }
}

/** What all ranks have to write, sorted by name; each rank writes about as much. */
function itemsOf(op: string, described: readonly (readonly Described[])[]): Item[] {
  const items = new Map<string, Item>();
  for (const [rank, list] of described.entries()) {
    for (const [name, dtype, shape, axis] of list) {
      const known = items.get(name) ??
        { name, dtype, axis, shapes: described.map(() => undefined), bytes: 0, owner: 0 };
      if (known.dtype !== dtype) {
        throw new DTypeError(
          `Cannot ${op} ${quote(name)}: ranks have it as ${known.dtype} and as ${dtype}`,
        );
      }
      if (known.axis !== axis) {
        throw new ArgumentError(`Cannot ${op} ${quote(name)}: ranks have other axes of it`);
      }
      known.shapes[rank] = shape;
      const bytes = shape.reduce((product, n) => product * n, 1) * DTYPE[dtype].bytes;
      known.bytes = axis === null ? bytes : known.bytes + bytes;
      items.set(name, known);
    }
  }
  const sorted = [...items.values()].sort((a, b) => a.name < b.name ? -1 : 1);
  const written = described.map(() => 0);
  for (const item of sorted.toSorted((a, b) => b.bytes - a.bytes)) {
    checkItem(op, item);
    const ranks = [...written.keys()].filter((rank) => item.shapes[rank] !== undefined);
    item.owner = ranks.reduce((a, b) => written[b]! < written[a]! ? b : a);
    written[item.owner]! += item.bytes;
  }
  return sorted;
}

/** A tensor of which all ranks have parts, on the one that writes it. */
async function join(group: Group, mine: AnyTensor, item: Item): Promise<AnyTensor | undefined> {
  const { owner, axis, dtype, shapes } = item;
  if (group.rank !== owner) {
    if (mine.size > 0) await group.send(mine, owner);
    return undefined;
  }
  const parts: AnyTensor[] = [];
  for (const [rank, shape] of shapes.entries()) {
    if (rank === owner) parts.push(mine.cpu());
    else if (!shape!.includes(0)) parts.push(await group.recv(shape!, dtype, rank) as AnyTensor);
  }
  try {
    return concat(parts, axis) as AnyTensor;
  } finally {
    for (const part of parts) part.dispose();
  }
}

/** The name of the file of a rank. */
function fileOf(rank: number, size: number): string {
  const [k, n] = [rank + 1, size].map((count) => String(count).padStart(5, "0"));
  return `model-${k}-of-${n}.safetensors`;
}

/** The index of the files, as Hugging Face's tools write it. */
function indexOf(items: readonly Item[], size: number): string {
  const index = {
    metadata: { total_size: items.reduce((sum, { bytes }) => sum + bytes, 0) },
    weight_map: Object.fromEntries(items.map(({ name, owner }) => [name, fileOf(owner, size)])),
  };
  return `${JSON.stringify(index, null, 2)}\n`;
}

/**
 * Writes the tensors of all ranks to a folder in the layout of Hugging Face: each rank writes one
 * file, model-00001-of-00004.safetensors for rank 0 of 4, and rank 0 writes
 * model.safetensors.index.json after all files. {@link loadShards}, `nn.open` and other programs
 * read whole tensors from them, on any number of ranks.
 *
 * One rank writes each tensor, and all ranks write about as much. A rank joins one tensor at a
 * time, and needs twice the memory of the tensors that it writes. Existing files are overwritten,
 * the index last.
 *
 * @param folder The same folder for all ranks. It is created if it is missing.
 * @param tensors The tensors of this rank: parts of those in `plan`, which all ranks have and which
 *   are joined in the order of ranks, and whole tensors, which some or all ranks have.
 * @throws {DTypeError} For dtypes that the format does not have.
 * @throws {ShapeError} If the parts of the ranks do not fit each other.
 * @throws {ArgumentError} If the ranks pass different plans or names.
 * @throws {DistributedError} If another rank throws. The rank at fault throws the cause.
 *
 * @example
 * ```ts
 * import { tmpdir } from "node:os";
 * import { ones } from "@rowmajor/tensor";
 * import { init, loadShards, saveShards } from "@rowmajor/tensor/distributed";
 *
 * await using world = await init();
 * const up = world.shard(ones([8, 4]), 0);
 * const folder = `${tmpdir()}/rowmajor-model`;
 * await saveShards(world, folder, { up, bias: ones([4]) }, { plan: { up: 0 } });
 * (await loadShards(world, folder)).up!.shape; // => [8, 4]
 * ```
 */
export async function saveShards(
  group: Group,
  folder: Path,
  tensors: TensorRecord,
  options: SaveShardsOptions = {},
): Promise<void> {
  const op = "saveShards";
  checkEager(op);
  checkGroup(op, group);
  const described = await agree(op, group, () => {
    checkOptions(op, options, ["plan", "metadata"]);
    return describeTensors(op, tensors, options.plan ?? {});
  });
  const { metadata = { format: "pt" } } = options;
  const items = itemsOf(op, described);
  const { rank, size } = group;
  const mine: Record<string, AnyTensor> = Object.create(null);
  const made: AnyTensor[] = [];
  for (const item of items) {
    const { name, axis, owner } = item;
    if (axis !== null && size > 1) {
      const whole = await join(group, tensors[name]!, item);
      if (whole === undefined) continue;
      made.push(whole);
      mine[name] = whole;
    } else if (owner === rank) mine[name] = tensors[name]!;
  }
  await agree(op, group, async () => {
    const at = await makeFolder(folder);
    await writeSafetensors(at(fileOf(rank, size)), mine, { metadata });
  });
  for (const one of made) one.dispose();
  await agree(op, group, async () => {
    if (rank !== 0) return;
    const at = await makeFolder(folder);
    const text = new TextEncoder().encode(indexOf(items, size));
    await writeFile(at("model.safetensors.index.json"), text);
  });
}

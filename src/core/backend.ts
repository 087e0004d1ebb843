/**
 * What a device has to be able to do, and which devices there are.
 *
 * A backend gets checked, planned work on storages of its device; it knows nothing of tensors,
 * promotion or broadcasting. The native backend hands what it lacks to the JavaScript one; others do
 * all that is not optional.
 *
 * @module
 */
import { describe, type DType } from "../base/dtype.ts";
import type { Layout } from "../base/layout.ts";
import type { FoldRow, MapRow } from "../ops/table.ts";
import type { Plan } from "./plan.ts";
import { DeviceError } from "../base/errors.ts";
import type { DeviceMemory, Storage } from "../memory/storage.ts";

/** A batch of matrices in a storage, as {@link matrixRef} makes it; all counts are of elements. */
export interface MatrixRef {
  /** The elements. */
  readonly storage: Storage;
  /** How they lie: the last two axes are rows and columns, the others the batch. */
  readonly layout: Layout;
  /** How many matrices there are. */
  readonly batch: number;
  /** From row to row. */
  readonly rowStride: number;
  /** From column to column. */
  readonly columnStride: number;
}

/** The matrices of the last two axes of `layout`. */
export function matrixRef(storage: Storage, layout: Layout): MatrixRef {
  const { shape, strides } = layout;
  const rank = strides.length;
  let batch = 1;
  for (let axis = 0; axis < rank - 2; axis++) batch *= shape[axis]!;
  return {
    storage,
    layout,
    batch,
    rowStride: strides[rank - 2]!,
    columnStride: strides[rank - 1]!,
  };
}

/** Writes where each matrix of the batch starts to `to`, from `at` on, in the order of its axes. */
export function writeOffsets({ layout, batch }: MatrixRef, to: Float64Array, at: number): void {
  const { shape, strides, offset } = layout;
  to[at] = offset;
  let written = 1;
  for (let axis = shape.length - 3; written < batch; axis--) {
    const stride = strides[axis]!;
    const all = written * shape[axis]!;
    for (let i = written; i < all; i++) {
      to[at + i] = written === 1 ? offset + i * stride : to[at + i - written]! + stride;
    }
    written = all;
  }
}

/** Where each matrix of the batch starts. */
export function offsetsOf(matrices: MatrixRef): ArrayLike<number> {
  if (matrices.batch === 1) return [matrices.layout.offset];
  const offsets = new Float64Array(matrices.batch);
  writeOffsets(matrices, offsets, 0);
  return offsets;
}

/**
 * What is to be multiplied: `c[i] = a[i] @ b[i]`, [m, k] @ [k, n], for every matrix of the batch, of
 * which each operand lists as many. Nothing is empty: m, n, k and the batch are at least 1.
 */
export interface Product {
  /** Rows of `a` and of `c`. */
  readonly m: number;
  /** Columns of `b` and of `c`. */
  readonly n: number;
  /** Columns of `a`, rows of `b`: how many products are added up. */
  readonly k: number;
  /**
   * [m, n], which is written. Strides may be negative, but no two elements of the batch share a
   * place, and none lies where `a`, `b` or what else is read does.
   */
  readonly c: MatrixRef;
  /** [m, k], which is read; strides may also be 0, matrices overlap each other and those of `b`. */
  readonly a: MatrixRef;
  /** [k, n], of the dtype of `a`, which is read in the same way. */
  readonly b: MatrixRef;
}

/** How the numbers of a random op are distributed. */
export type Distribution = "bits" | "uniform" | "normal" | "integers";

/** What a backend may compute along rows in one go. */
export const ROW_KERNELS = ["softmax", "logSoftmax", "layerNorm", "rmsNorm"] as const;

/** One of {@link ROW_KERNELS}. */
export type RowKernel = (typeof ROW_KERNELS)[number];

/** Ops that are no rows of the op table, as `warmUp` takes them. */
export const PREPARED = [
  ...ROW_KERNELS,
  "astype",
  "matmul",
  "sort",
  "index",
  "random",
] as const;

/** What a norm takes besides its rows: one element for each column, dense, in the dtype computed in. */
export interface Affine {
  /** Multiplies the result. */
  readonly weight: Storage | null;
  /** Is added to it. */
  readonly bias: Storage | null;
  /** Is added to the variance. */
  readonly epsilon: number;
}

/** Integers that pick from an axis. */
export interface Along {
  /** The integers, of any integer dtype; negative ones count from the end of the axis. */
  readonly indexes: Storage;
  /** How many elements the axis has. */
  readonly size: number;
  /** From each of them to the next. */
  readonly stride: number;
}

/** Dense ones. */
export interface Picks extends Along {
  /** Where they begin. */
  readonly offset: number;
  /** How many there are. */
  readonly count: number;
}

/** One device's implementation of every op. All storages of a call are on that device. */
export interface Backend {
  /** Its name in `info()`: `"js"`, `"native"`, `"cuda"`. */
  readonly name: string;
  /**
   * Runs `row` in the arithmetic of `compute`; inputs are cast as they are read, the result as it
   * is written.
   */
  map(
    row: MapRow,
    compute: DType,
    plan: Plan,
    out: Storage,
    a: Storage,
    b: Storage | null,
    c: Storage | null,
  ): void;
  /**
   * Folds `a` (and `b`, of reductions with two operands) along the plan's last axes. What is written
   * is the result of a reduction, every step of a scan, and the position of the element that an
   * index reduction prefers, counted in the plan's order, as int32.
   */
  fold(row: FoldRow, plan: Plan, out: Storage, a: Storage, b: Storage | null): void;
  /**
   * Runs `kernel` along dense rows of floats, which start at `offset` of `a`, into dense `out` of
   * the same dtype; false where the backend leaves that to the ops that it is made of. Absent where
   * it always does.
   */
  alongRows?(
    kernel: RowKernel,
    rows: number,
    columns: number,
    out: Storage,
    a: Storage,
    offset: number,
    affine: Affine,
  ): boolean;
  /**
   * Makes what most calls of the ops of those names on `dtypes` take, so that none of them has to
   * wait for it. Absent where there is nothing to make.
   */
  warmUp?(ops: readonly string[], dtypes: readonly DType[]): void;
  /** Makes a product of one dtype. */
  matmul(product: Product): void;
  /**
   * The same of int8 matrices into int32 ones; false where the backend leaves that to casts, absent
   * where it always does.
   */
  matmulBytes?(product: Product): boolean;
  /**
   * {@link Backend.matmul}, plus `bias`, one element of the result's dtype for each column, dense from
   * `offset` on; false where the backend leaves that to the ops that it is made of. Absent where it
   * always does.
   */
  linear?(product: Product, bias: Storage, offset: number): boolean;
  /**
   * Sorts `runs` dense runs of `size` elements each in place, or, with `indices` (int32), leaves
   * them and writes the sorting order. Stable; NaN goes last.
   */
  sort(
    values: Storage,
    offset: number,
    runs: number,
    size: number,
    descending: boolean,
    indices: Storage | null,
  ): void;
  /**
   * For each of the indexes of `picks` copies the block that `plan` walks: from `source`, operand 1,
   * at index times `picks.stride` further on, to `out`, operand 0, `step` further on each time.
   * Gives the place of the first index that is out of range, in which case nothing is written, or
   * -1.
   */
  gather(plan: Plan, out: Storage, source: Storage, picks: Picks, step: number): number;
  /**
   * The reverse: `target`, operand 0, gets `values`, operand 1. Later ones win, or, with `add`, each is
   * added to what is there, in numbers of their dtype.
   */
  scatter(
    plan: Plan,
    target: Storage,
    values: Storage,
    picks: Picks,
    step: number,
    add: boolean,
  ): number;
  /**
   * Adds index times `stride` to each of the `positions` (int32 or int64) that `plan` pairs with an
   * element of `index`: so several indexes become one. Gives what {@link Backend.gather} gives.
   */
  position(plan: Plan, positions: Storage, index: Storage, size: number, stride: number): number;
  /**
   * For each element of `out`, operand 0 of `plan`: copies to it the element of `source` that lies
   * index times stride beyond the place of operand 1, where the index is operand 2, from `along`.
   * Gives what {@link Backend.gather} gives, but may have written to `out`. Absent where `position`
   * and `gather` serve.
   */
  takeAlong?(plan: Plan, out: Storage, source: Storage, along: Along): number;
  /** Writes the places of the nonzero ones among `length` dense elements to dense int32 `out`. */
  nonzero(out: Storage, input: Storage, offset: number, length: number): void;
  /** Fills dense `out` with the random numbers that `key`, two 32-bit words, names. */
  random(
    out: Storage,
    kind: Distribution,
    key0: number,
    key1: number,
    low: bigint,
    high: bigint,
  ): void;
}

/** Work that a device has recorded, and does whenever it is asked to. */
export interface Recording {
  /** The storages that it writes. */
  readonly written: ReadonlySet<Storage>;
  /** Queues all of it. */
  run(): void;
  /** Lets go of it, and of the memory that it holds: the last call. */
  free(): void;
}

/** A device other than the CPU: what runs ops on it, and where its storages lie. */
export interface Device {
  /** Runs ops. */
  readonly backend: Backend;
  /** Holds storages. */
  readonly memory: DeviceMemory;
  /** Records what `body` asks for, instead of doing it. Absent where a device cannot. */
  record?(body: () => void): Recording;
}

/** Opens the device of a number, or says why there is none. */
export type OpenDevice = (index: number) => Device | string;

let makeCpu: () => Backend;
let cpu: Backend | undefined;
const families = new Map<string, OpenDevice>();
const devices = new Map<string, Device>();

/** Makes the backend that `make` gives serve the CPU; the first op calls it. */
export function registerCpu(make: () => Backend): void {
  makeCpu = make;
  cpu = undefined;
}

/** The backend that serves the CPU. */
export function cpuBackend(): Backend {
  return cpu ??= makeCpu();
}

/** The backend of the device that `storage` is on. */
export function backendFor({ device }: Storage): Backend {
  return device === "cpu" ? cpuBackend() : devices.get(device)!.backend;
}

/**
 * Makes `open` serve the devices `family`, which is the first one, `family:1`, `family:2`, …; it is
 * called by whoever is the first to ask for one, and again only where it gave a reason.
 */
export function registerDevices(family: string, open: OpenDevice): void {
  families.set(family, open);
}

/** The name that storages have of what may be written in several ways: `"cuda"` for `"cuda:0"`. */
export function deviceName(device: string): string {
  // Whoever is not checked by a compiler may hand over anything.
  return String(device).replace(/:0$/, "");
}

/**
 * The device of that name; null for the CPU, which has its own ways. `what` is what is being done,
 * as "zeros on", for the error.
 *
 * Throws a DeviceError that says why when there is none.
 */
export function deviceOf(device: string, what: string): Device | null {
  const name = device === "cpu" ? device : deviceName(device);
  if (name === "cpu") return null;
  const known = devices.get(name);
  if (known !== undefined) return known;
  const [, family = "", index = "0"] = /^(\w+)(?::([1-9]\d{0,3}))?$/.exec(name) ?? [];
  const open = families.get(family);
  if (open === undefined) {
    throw new DeviceError(`Cannot ${what} ${describe(device)}: no backend serves it`);
  }
  const opened = open(Number(index));
  if (typeof opened === "string") throw new DeviceError(`Cannot ${what} ${name}: ${opened}`);
  devices.set(name, opened);
  return opened;
}

/**
 * The memory of a device, null for the CPU, which is also meant where none is named. Throws as
 * {@link deviceOf} does.
 */
export function memoryOf(device: string | undefined, what: string): DeviceMemory | null {
  return device === undefined ? null : deviceOf(device, what)?.memory ?? null;
}

/** The devices other than the CPU that have been opened, by name. */
export function openDevices(): ReadonlyMap<string, Device> {
  return devices;
}

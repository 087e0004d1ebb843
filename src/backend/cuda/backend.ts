/**
 * The CUDA backend: what each kind of work goes to.
 *
 * All that is queued on a device comes in the order of the calls; nothing here waits. Knows nothing
 * of tensors.
 *
 * @module
 */
import type {
  Affine,
  Backend,
  Distribution,
  Picks,
  Product,
  RowKernel,
} from "../../core/backend.ts";
import type { DType } from "../../base/dtype.ts";
import type { FoldRow, MapRow } from "../../ops/table.ts";
import type { Plan } from "../../core/plan.ts";
import type { Storage } from "../../memory/storage.ts";
import type { CudaDevice } from "./device.ts";
import { fold } from "./folds.ts";
import { map } from "./maps.ts";
import { linear, matmul, matmulBytes } from "./matmul.ts";
import { gather, nonzero, position, scatter } from "./move.ts";
import { random } from "./random.ts";
import { alongRows } from "./rows.ts";
import { sort } from "./sort.ts";
import { familiesOf } from "./warm.ts";

/** Runs on one CUDA device. */
export class CudaBackend implements Backend {
  readonly name = "cuda";
  readonly #device: CudaDevice;

  constructor(device: CudaDevice) {
    this.#device = device;
  }

  warmUp(ops: readonly string[], dtypes: readonly DType[]): void {
    for (const { source, names } of ops.flatMap((op) => familiesOf(op, dtypes))) {
      if (names.length > 0) this.#device.load(source, names);
    }
  }

  map(
    row: MapRow,
    compute: DType,
    plan: Plan,
    out: Storage,
    a: Storage,
    b: Storage | null,
    c: Storage | null,
  ): void {
    this.#device.notes?.add(out, a, b, c);
    map(this.#device, row, compute, plan, out, a, b, c);
  }

  fold(row: FoldRow, plan: Plan, out: Storage, a: Storage, b: Storage | null): void {
    this.#device.notes?.add(out, a, b);
    fold(this.#device, row, plan, out, a, b);
  }

  alongRows(
    kernel: RowKernel,
    rows: number,
    columns: number,
    out: Storage,
    a: Storage,
    offset: number,
    affine: Affine,
  ): boolean {
    this.#device.notes?.add(out, a, affine.weight, affine.bias);
    return alongRows(this.#device, kernel, rows, columns, out, a, offset, affine);
  }

  matmul(product: Product): void {
    this.#device.notes?.add(product.c.storage, product.a.storage, product.b.storage);
    matmul(this.#device, product);
  }

  matmulBytes(product: Product): boolean {
    this.#device.notes?.add(product.c.storage, product.a.storage, product.b.storage);
    return matmulBytes(this.#device, product);
  }

  linear(product: Product, bias: Storage, offset: number): boolean {
    this.#device.notes?.add(product.c.storage, product.a.storage, product.b.storage, bias);
    return linear(this.#device, product, bias, offset);
  }

  sort(
    values: Storage,
    offset: number,
    runs: number,
    size: number,
    descending: boolean,
    indices: Storage | null,
  ): void {
    this.#device.notes?.add(indices ?? values, values);
    sort(this.#device, values, offset, runs, size, descending, indices);
  }

  position(plan: Plan, positions: Storage, index: Storage, size: number, stride: number): number {
    this.#device.notes?.add(positions, index);
    return position(this.#device, plan, positions, index, size, stride);
  }

  gather(plan: Plan, out: Storage, source: Storage, picks: Picks, step: number): number {
    this.#device.notes?.add(out, source, picks.indexes);
    return gather(this.#device, plan, out, source, picks, step);
  }

  scatter(
    plan: Plan,
    target: Storage,
    values: Storage,
    picks: Picks,
    step: number,
    add: boolean,
  ): number {
    this.#device.notes?.add(target, values, picks.indexes);
    return scatter(this.#device, plan, target, values, picks, step, add);
  }

  nonzero(out: Storage, input: Storage, offset: number, length: number): void {
    this.#device.notes?.add(out, input);
    nonzero(this.#device, out, input, offset, length);
  }

  random(
    out: Storage,
    kind: Distribution,
    key0: number,
    key1: number,
    low: bigint,
    high: bigint,
  ): void {
    this.#device.notes?.add(out);
    random(this.#device, out, kind, key0, key1, low, high);
  }
}

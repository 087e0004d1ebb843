/**
 * Devices made of nothing but JavaScript: `"mirror"`, `"mirror:1"` and `"mirror:2"`.
 *
 * Their memory is out of reach of everything but their backend, which hands ops to the JavaScript
 * backend. So whoever takes a tensor on a device for one on the CPU is found without a device. As on
 * CUDA, indexes out of range are noted and the next read throws. Importing this registers them.
 *
 * @module
 */
import {
  type Affine,
  type Backend,
  type Device,
  type Distribution,
  type MatrixRef,
  type Picks,
  type Product,
  registerDevices,
  type RowKernel,
} from "../../src/core/backend.ts";
import { JsBackend } from "../../src/backend/js/backend.ts";
import type { DType } from "../../src/base/dtype.ts";
import { IndexError, OutOfMemoryError } from "../../src/base/errors.ts";
import type { FoldRow, MapRow } from "../../src/ops/table.ts";
import type { Plan } from "../../src/core/plan.ts";
import { type DeviceMemory, type DeviceMemoryInfo, Storage } from "../../src/memory/storage.ts";
import type { Device as DeviceName } from "../../src/types/mod.ts";

/** No two blocks come nearer than this. */
const BLOCK = 2 ** 33;

/** Blocks of bytes by address, and what has been done with them. */
export class MirrorMemory implements DeviceMemory {
  readonly #blocks = new Map<number, Uint8Array<ArrayBuffer>>();
  #next = 1;
  #bytes = 0;
  #peak = 0;
  /** What the next read throws. */
  fault: Error | undefined;
  /** Allocations of more than this fail. */
  limit = Infinity;
  /** How many times something was read. */
  reads = 0;
  /** How often something was freed that was not there. */
  strays = 0;
  /** How many times something waited for the device. */
  waits = 0;

  constructor(readonly device: string) {}

  /** How many blocks are in use. */
  get blocks(): number {
    return this.#blocks.size;
  }

  allocate(bytes: number): number {
    if (!(bytes > 0)) throw new Error(`asked for ${bytes} bytes`);
    if (bytes > this.limit) {
      throw new OutOfMemoryError(bytes, this.device, `${this.limit} of ${this.limit} are free`);
    }
    const address = BLOCK * this.#next++;
    // What nobody has written must not look like zeros.
    this.#blocks.set(address, new Uint8Array(bytes).fill(0xa5));
    this.#bytes += bytes;
    this.#peak = Math.max(this.#peak, this.#bytes);
    return address;
  }

  free(address: number): void {
    const block = this.#blocks.get(address);
    if (block === undefined) {
      this.strays++;
      throw new Error(`nothing is at ${address} to be freed`);
    }
    block.fill(0x5a);
    this.#bytes -= block.length;
    this.#blocks.delete(address);
  }

  /** So many bytes at `address`. */
  at(address: number, bytes: number): Uint8Array<ArrayBuffer> {
    const begin = Math.floor(address / BLOCK) * BLOCK;
    const block = this.#blocks.get(begin);
    if (block === undefined) throw new Error(`nothing is at ${address}`);
    if (address - begin + bytes > block.length) {
      throw new Error(`${bytes} bytes at ${address - begin} of ${block.length}`);
    }
    return block.subarray(address - begin, address - begin + bytes);
  }

  zero(address: number, bytes: number): void {
    this.at(address, bytes).fill(0);
  }

  write(address: number, bytes: Uint8Array): void {
    this.at(address, bytes.length).set(bytes);
  }

  read(address: number, bytes: Uint8Array): void {
    this.reads++;
    this.#check();
    bytes.set(this.at(address, bytes.length));
  }

  async readLater(address: number, bytes: Uint8Array): Promise<void> {
    this.reads++;
    const now = this.at(address, bytes.length).slice();
    await new Promise((resolve) => setTimeout(resolve, 1));
    this.#check();
    bytes.set(now);
  }

  copy(to: number, source: DeviceMemory, from: number, bytes: number): void {
    this.at(to, bytes).set((source as MirrorMemory).at(from, bytes));
  }

  synchronize(): void {
    this.waits++;
    this.#check();
  }

  usage(): DeviceMemoryInfo {
    return {
      bytes: this.#bytes,
      peakBytes: this.#peak,
      pooledBytes: 0,
      freeBytes: 2 ** 40 - this.#bytes,
      totalBytes: 2 ** 40,
    };
  }

  release(): void {
    this.#peak = this.#bytes;
  }

  #check(): void {
    const { fault } = this;
    this.fault = undefined;
    if (fault !== undefined) throw fault;
  }
}

/** Runs ops on storages of one mirror device. */
class MirrorBackend implements Backend {
  readonly name = "mirror";
  readonly #js = new JsBackend();

  constructor(readonly memory: MirrorMemory) {}

  /** The elements of `storage`, which must be here, or a single one on the CPU, if `scalar` says so. */
  #open(storage: Storage, scalar = false): Storage {
    const { address, info, length } = storage;
    if (scalar && storage.memory === null) {
      if (length !== 1) throw new Error(`an operand of ${length} elements on the CPU`);
      return storage;
    }
    if (storage.memory !== this.memory) throw new Error(`an operand on ${storage.device}`);
    const bytes = length * info.bytes;
    const { buffer, byteOffset } = bytes === 0 ? new Uint8Array(0) : this.memory.at(address, bytes);
    return new Storage(new info.array(buffer, byteOffset, length), info, true, false);
  }

  #openMaybe(storage: Storage | null, scalar = false): Storage | null {
    return storage === null ? null : this.#open(storage, scalar);
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
    this.#js.map(
      row,
      compute,
      plan,
      this.#open(out),
      this.#open(a, true),
      this.#openMaybe(b, true),
      this.#openMaybe(c, true),
    );
  }

  fold(row: FoldRow, plan: Plan, out: Storage, a: Storage, b: Storage | null): void {
    this.#js.fold(row, plan, this.#open(out), this.#open(a), this.#openMaybe(b));
  }

  /** Leaves all rows to the ops that they are made of, once it has seen that the operands are here. */
  alongRows(
    _kernel: RowKernel,
    _rows: number,
    _columns: number,
    out: Storage,
    a: Storage,
    _offset: number,
    { weight, bias }: Affine,
  ): boolean {
    for (const one of [out, a, weight, bias]) this.#openMaybe(one);
    return false;
  }

  matmul(product: Product): void {
    const open = (ref: MatrixRef): MatrixRef => ({ ...ref, storage: this.#open(ref.storage) });
    const { c, a, b } = product;
    this.#js.matmul({ ...product, c: open(c), a: open(a), b: open(b) });
  }

  sort(
    values: Storage,
    offset: number,
    runs: number,
    size: number,
    descending: boolean,
    indices: Storage | null,
  ): void {
    const [inner, order] = [this.#open(values), this.#openMaybe(indices)];
    this.#js.sort(inner, offset, runs, size, descending, order);
  }

  /** Notes an index out of range, as devices do that find it later. */
  #note(bad: number, size: number): number {
    if (bad >= 0) this.memory.fault ??= new IndexError(`Cannot index an axis of size ${size}`);
    return -1;
  }

  position(plan: Plan, positions: Storage, index: Storage, size: number, stride: number): number {
    const [places, picks] = [this.#open(positions), this.#open(index)];
    return this.#note(this.#js.position(plan, places, picks, size, stride), size);
  }

  gather(plan: Plan, out: Storage, source: Storage, picks: Picks, step: number): number {
    const [to, from] = [this.#open(out), this.#open(source)];
    const inner = { ...picks, indexes: this.#open(picks.indexes) };
    return this.#note(this.#js.gather(plan, to, from, inner, step), picks.size);
  }

  scatter(
    plan: Plan,
    target: Storage,
    values: Storage,
    picks: Picks,
    step: number,
    add: boolean,
  ): number {
    const [to, from] = [this.#open(target), this.#open(values)];
    const inner = { ...picks, indexes: this.#open(picks.indexes) };
    return this.#note(this.#js.scatter(plan, to, from, inner, step, add), picks.size);
  }

  nonzero(out: Storage, input: Storage, offset: number, length: number): void {
    this.#js.nonzero(this.#open(out), this.#open(input), offset, length);
  }

  random(
    out: Storage,
    kind: Distribution,
    key0: number,
    key1: number,
    low: bigint,
    high: bigint,
  ): void {
    this.#js.random(this.#open(out), kind, key0, key1, low, high);
  }
}

/** The memory of the mirror devices that were opened. */
export const memories: MirrorMemory[] = [];

function open(index: number): Device | string {
  if (index > 2) return "there are 3 mirrors";
  const memory = new MirrorMemory(index === 0 ? "mirror" : `mirror:${index}`);
  memories[index] = memory;
  return { backend: new MirrorBackend(memory), memory };
}

registerDevices("mirror", open);

/** The first mirror device, as functions that know nothing of it take it. */
export const MIRROR: DeviceName = "mirror" as "cuda";
/** The second. */
export const MIRROR1: DeviceName = "mirror:1" as "cuda:1";

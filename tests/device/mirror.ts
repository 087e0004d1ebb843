/**
 * Devices in plain JavaScript: `"mirror"`, `"mirror:1"` and `"mirror:2"`.
 *
 * Only their backend, which passes calls to the JavaScript backend, can access their memory. Code
 * that mistakes a tensor on a device for one on the CPU is therefore found without a real device.
 * As on CUDA, indexes out of range are noted and the next read throws. Importing this module
 * registers the devices.
 *
 * @module
 */
import type { Backend, Device } from "../../src/core/backend.ts";
import { registerDevices } from "../../src/core/dispatch.ts";
import { isRowCall, ROW_KERNELS } from "../../src/ops/softmax_norm/problem.ts";
import { JsBackend } from "../../src/backend/js/backend.ts";
import { IndexError, OutOfMemoryError } from "../../src/base/errors.ts";
import { LINALG } from "../../src/ops/linalg/op.ts";
import { isOperand, type Operand } from "../../src/memory/operand.ts";
import { type DeviceMemory, type DeviceMemoryInfo, Storage } from "../../src/memory/storage.ts";
import { INDEX } from "../../src/ops/index/kernels.ts";
import { Call, type Input } from "../../src/table/op.ts";
import type { Device as DeviceName } from "../../src/types/mod.ts";

/** The minimum distance between blocks. */
const BLOCK = 2 ** 33;

/** Blocks of bytes by address, and counts of operations. */
export class MirrorMemory implements DeviceMemory {
  readonly #blocks = new Map<number, Uint8Array<ArrayBuffer>>();
  #next = 1;
  #bytes = 0;
  #peak = 0;
  /** The error of the next read. */
  fault: Error | undefined;
  /** Larger allocations fail. */
  limit = Infinity;
  /** The number of reads. */
  reads = 0;
  /** The number of calls of free for an unknown address. */
  strays = 0;
  /** The number of waits for the device. */
  waits = 0;

  constructor(readonly device: string) {}

  /** The number of blocks in use. */
  get blocks(): number {
    return this.#blocks.size;
  }

  allocate(bytes: number): number {
    if (!(bytes > 0)) throw new Error(`asked for ${bytes} bytes`);
    if (bytes > this.limit) {
      throw new OutOfMemoryError(bytes, this.device, `${this.limit} of ${this.limit} are free`);
    }
    const address = BLOCK * this.#next++;
    // Memory without a write must not look like zeros.
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

  /** `bytes` bytes at `address`. */
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

/** The size of the axis that the indices of a call refer to. */
function indexedSize(call: Call): number {
  const { axis, size } = call.attributes;
  return call.op === INDEX.ravelIndex ? size : call.operand(0).layout.shape[axis]!;
}

function isRowKernel({ op }: Call): boolean {
  return ROW_KERNELS.some((name) => name === op.name);
}

/** Runs calls on storages of one mirror device. */
class MirrorBackend implements Backend {
  readonly name = "mirror";
  readonly #js = new JsBackend();

  constructor(readonly memory: MirrorMemory) {}

  /**
   * The elements of `storage`, which must be on this device, or a single one on the CPU if `scalar`
   * is true.
   */
  #open(storage: Storage, scalar: boolean): Storage {
    const { address, info, length } = storage;
    if (scalar && storage.memory === null) {
      if (length !== 1) throw new Error(`an operand of ${length} elements on the CPU`);
      return storage;
    }
    if (storage.memory !== this.memory) throw new Error(`an operand on ${storage.device}`);
    const bytes = length * info.bytes;
    const { buffer, byteOffset } = bytes === 0 ? new Uint8Array(0) : this.memory.at(address, bytes);
    return new Storage(
      new info.array(buffer, byteOffset, length * info.entries),
      info,
      true,
      false,
    );
  }

  /** The call on the elements themselves. Only elementwise ops accept scalars from the CPU. */
  #opened(call: Call): Call {
    const { op, name, attributes } = call;
    const open = ({ storage, layout, flags }: Operand, scalar: boolean): Operand => {
      return { storage: this.#open(storage, scalar), layout, flags };
    };
    const inputs = call.inputs.map((x): Input => isOperand(x) ? open(x, op.kind === "map") : x);
    const outputs = call.outputs.map((out) => open(out, false));
    const opened = new Call(op, name, inputs, attributes, outputs);
    opened.specs = call.specs;
    opened.compute = call.compute;
    opened.plan = call.plan;
    return opened;
  }

  supports(call: Call): boolean {
    if (isRowKernel(call)) return isRowCall(call);
    // So that the ops that takeAlongAxis is decomposed into run here too.
    return call.op.name !== "takeAlongAxis" && this.#js.supports(call);
  }

  run(call: Call): boolean {
    const opened = this.#opened(call);
    // Row ops are decomposed after a check that the operands are here.
    if (isRowKernel(call)) return false;
    this.#js.run(opened);
    if (Object.hasOwn(LINALG, call.op.name)) {
      call.badIndex = opened.badIndex;
      return true;
    }
    // An index out of range is only noted, as on devices that find it later.
    if (opened.badIndex >= 0) {
      this.memory.fault ??= new IndexError(
        `Cannot index an axis of size ${indexedSize(call)}`,
      );
    }
    return true;
  }
}

/** The memories of the open mirror devices. */
export const memories: MirrorMemory[] = [];

function open(index: number): Device | string {
  if (index > 2) return "there are 3 mirrors";
  const memory = new MirrorMemory(index === 0 ? "mirror" : `mirror:${index}`);
  memories[index] = memory;
  return { backend: new MirrorBackend(memory), memory };
}

registerDevices("mirror", open);

/** The first mirror device, in the type that other functions expect. */
export const MIRROR: DeviceName = "mirror" as "cuda";
/** The second. */
export const MIRROR1: DeviceName = "mirror:1" as "cuda:1";

/**
 * The memory of a CUDA device, over a fake of the one symbol of the shim that it calls.
 *
 * The fake answers late, as a device does: a copy ends after a number of polls.
 *
 * @module
 */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { describe, it } from "node:test";
import { setImmediate } from "node:timers";
import { DeviceError, IndexError, NativeError, OutOfMemoryError } from "../../mod.ts";
import { CudaDevice } from "../../src/backend/cuda/device.ts";
import { CudaMemory } from "../../src/backend/cuda/memory.ts";
import { Notes } from "../../src/memory/notes.ts";
import {
  CUDA_CONTROL,
  CUDA_MEMORY,
  CUDA_READ,
  type Shim,
  STATUS,
} from "../../src/backend/ffi/abi.ts";
import { DTYPE, type TypedArray } from "../../src/base/dtype.ts";
import {
  copyElements,
  DeviceStorage,
  download,
  downloadLater,
  upload,
} from "../../src/memory/device.ts";
import { recycle } from "../../src/memory/pool.ts";

/** The contents of the fake's devices, and the requests to them. */
class Fake {
  readonly bytes = new Uint8Array(2 ** 16);
  readonly log: string[] = [];
  /** The number of polls before a read delivers data, and the amount delivered at once. */
  late = 0;
  part = Infinity;
  /** The status of the next call. */
  status: number = STATUS.ok;
  readonly #tickets = new Map<number, { data: Uint8Array; late: number; done: number }>();
  #next = 512;

  /** Ends all reads. */
  hurry(): void {
    for (const ticket of this.#tickets.values()) ticket.late = 0;
  }

  memory(what: number, device: number, numbers: TypedArray, host: TypedArray | null): number {
    const n = numbers as Float64Array;
    const name = Object.entries(CUDA_MEMORY).find(([, value]) => value === what)![0];
    this.log.push(`${name} ${device}`);
    const { status } = this;
    this.status = STATUS.ok;
    if (status === STATUS.outOfMemory) n.set([n[0]!, 100, 4000]);
    if (status !== STATUS.ok) return status;
    const [first, second, third] = n as unknown as [number, number, number];
    const part = (): Uint8Array => {
      const { buffer, byteOffset } = host as Uint8Array;
      return new Uint8Array(buffer, byteOffset + third, second);
    };
    if (what === CUDA_MEMORY.allocate) {
      n[0] = this.#next;
      this.#next += Math.ceil(first / 512) * 512;
    } else if (what === CUDA_MEMORY.upload) this.bytes.set(part(), first);
    else if (what === CUDA_MEMORY.download) part().set(this.bytes.subarray(first, first + second));
    else if (what === CUDA_MEMORY.copy) this.bytes.copyWithin(first, second, second + third);
    else if (what === CUDA_MEMORY.zero) this.bytes.fill(0, first, first + second);
    else if (what === CUDA_MEMORY.usage) n.set([1, 2, 3, 4, 5]);
    else if (what === CUDA_MEMORY.beginRead) {
      const data = this.bytes.slice(first, first + second);
      this.#tickets.set(n[0] = 77 + this.#tickets.size, { data, late: this.late, done: 0 });
    } else if (what === CUDA_MEMORY.endRead) {
      const ticket = this.#tickets.get(first)!;
      if (ticket.late-- > 0) n[0] = CUDA_READ.waits;
      else {
        assertEquals(third, ticket.data.length);
        const { data, done } = ticket;
        (host as Uint8Array).set(data.subarray(done, done + this.part), second + done);
        ticket.done += this.part;
        n[0] = ticket.done < data.length ? CUDA_READ.moves : CUDA_READ.ended;
      }
    }
    return STATUS.ok;
  }

  get shim(): Shim {
    const text = new TextEncoder().encode("what the shim says");
    return {
      rm_cuda_memory: (what: number, device: number, n: TypedArray, host: TypedArray | null) =>
        this.memory(what, device, n, host),
      rm_cuda_control: (what: number, device: number) => {
        this.log.push(`${what === CUDA_CONTROL.synchronize ? "synchronize" : what} ${device}`);
        return STATUS.ok;
      },
      rm_last_error: (bytes: TypedArray) => {
        (bytes as Uint8Array).set(text);
        return text.length;
      },
    } as unknown as Shim;
  }
}

function open(index = 0): { fake: Fake; device: CudaDevice; memory: CudaMemory } {
  const fake = new Fake();
  const device = new CudaDevice(fake.shim, index);
  return { fake, device, memory: new CudaMemory(device) };
}

describe("memory of a CUDA device", () => {
  it("elements go there, between storages and back", () => {
    const { fake, memory } = open(1);
    assertEquals(memory.device, "cuda:1");
    const x = new DeviceStorage(memory, DTYPE.int32, 5, true);
    assertEquals([x.device, x.address, x.length], ["cuda:1", 512, 5]);
    upload(x, 1, Int32Array.of(7, 8, 9).subarray(1));
    assertEquals([...download(x, 0, 5)], [0, 8, 9, 0, 0]);
    const y = new DeviceStorage(memory, DTYPE.int32, 3, false);
    copyElements(y, 1, x, 2, 2);
    assertEquals([...download(y, 1, 2)], [9, 0]);
    recycle(x);
    recycle(x);
    const steps = "allocate zero upload download allocate copy download free";
    assertEquals(fake.log, steps.split(" ").map((step) => `${step} 1`));
  });

  it("storages of nothing ask for nothing", () => {
    const { fake, memory } = open();
    const x = new DeviceStorage(memory, DTYPE.int64, 0, true);
    assertEquals([x.address, x.length, download(x, 0, 0).length], [0, 0, 0]);
    upload(x, 0, new BigInt64Array(0));
    copyElements(x, 0, x, 0, 0);
    recycle(x);
    assertEquals(fake.log, []);
  });

  it("a read that does not block asks until the copy has ended", async () => {
    for (const late of [0, 1, 5]) {
      const { fake, memory } = open();
      fake.late = late;
      const x = new DeviceStorage(memory, DTYPE.float32, 3, false);
      upload(x, 0, Float32Array.of(1, 2, 3));
      const reading = downloadLater(x, 1, 2);
      // Later writes do not affect the read.
      upload(x, 0, Float32Array.of(4, 5, 6));
      assertEquals([...await reading], [2, 3]);
      assertEquals(fake.log.filter((step) => step === "endRead 0").length, late + 1);
    }
  });

  it("a long read comes in parts, and others have their turns between these", async () => {
    const { fake, memory } = open();
    fake.part = 1000;
    const x = new DeviceStorage(memory, DTYPE.uint8, 9500, false);
    const bytes = Uint8Array.from({ length: 9500 }, (_, i) => i % 251);
    upload(x, 0, bytes);
    let [turns, ended] = [0, false];
    const others = (): void => {
      turns++;
      if (!ended) setImmediate(others);
    };
    setImmediate(others);
    assertEquals(await downloadLater(x, 0, 9500), bytes);
    ended = true;
    assertEquals(fake.log.filter((step) => step === "endRead 0").length, 10);
    assert(turns > 5, `${turns} turns`);
  });

  it("a long read sleeps between its questions, and others have their turns", async () => {
    const { fake, memory } = open();
    fake.late = Infinity;
    const x = new DeviceStorage(memory, DTYPE.float32, 1, true);
    let turns = 0;
    // It ends only if they have them.
    const count = setInterval(() => ++turns === 50 && fake.hurry(), 1);
    const reading = downloadLater(x, 0, 1);
    assertEquals([...await reading], [0]);
    clearInterval(count);
    const asked = fake.log.filter((step) => step === "endRead 0").length;
    assert(asked < 1000, `asked ${asked} times`);
  });

  it("several reads at a time have their own", async () => {
    const { fake, memory } = open();
    fake.late = 2;
    const x = new DeviceStorage(memory, DTYPE.uint8, 4, false);
    upload(x, 0, Uint8Array.of(1, 2, 3, 4));
    const both = [downloadLater(x, 0, 2), downloadLater(x, 2, 2)];
    assertEquals((await Promise.all(both)).map((part) => [...part]), [[1, 2], [3, 4]]);
  });

  it("what the shim refuses is an error of its kind", async () => {
    const { fake, memory } = open();
    const x = new DeviceStorage(memory, DTYPE.uint8, 4, false);
    fake.status = STATUS.outOfMemory;
    const error = assertThrows(
      () => new DeviceStorage(memory, DTYPE.float64, 1000, false),
      OutOfMemoryError,
      "Cannot allocate 8000 bytes on cuda: 100 of 4000 bytes are free",
    );
    assertEquals([error.bytes, error.device], [8000, "cuda"]);
    fake.status = STATUS.deviceError;
    assertThrows(() => download(x, 0, 1), DeviceError, "cuda: what the shim says");
    fake.status = STATUS.deviceError;
    await assertRejects(() => downloadLater(x, 0, 1), DeviceError, "what the shim says");
    fake.status = STATUS.badArgument;
    assertThrows(() => upload(x, 0, new Uint8Array(1)), NativeError, "rm_cuda_memory");
  });

  it("indexes that a kernel found out of range are thrown by the next read or wait", async () => {
    const { fake, device, memory } = open();
    const x = new DeviceStorage(memory, DTYPE.uint8, 4, false);
    /** Simulates a kernel that meets index -7 of an axis of 5. */
    const fault = (): void =>
      device.upload(
        device.indexErrors,
        BigInt64Array.of(BigInt(device.nextIndexing()), -7n, -1n, 5n),
      );
    const message = "Cannot index axis of size 5 at -7";
    fault();
    assertThrows(() => download(x, 0, 1), IndexError, message);
    download(x, 0, 1);
    fault();
    await assertRejects(() => downloadLater(x, 0, 1), IndexError, message);
    await downloadLater(x, 0, 1);
    fault();
    assertThrows(() => memory.synchronize(), IndexError, message);
    memory.synchronize();
    assertEquals(fake.log.filter((step) => step === "synchronize 0").length, 2);
    // Without indexing since, nothing is looked for.
    const earlier = fake.log.filter((step) => step === "download 0").length;
    download(x, 0, 1);
    assertEquals(fake.log.filter((step) => step === "download 0").length, earlier + 1);
    // A read without blocking never waits for later work.
    device.nextIndexing();
    const before = fake.log.filter((step) => step === "download 0").length;
    const reading = downloadLater(x, 0, 1);
    fault();
    await reading;
    assertEquals(fake.log.filter((step) => step === "download 0").length, before);
    // The next read throws that error.
    await assertRejects(() => downloadLater(x, 0, 1), IndexError, message);
  });

  it("nothing is copied between devices while either of them records a graph", () => {
    const [one, other] = [open(0), open(1)];
    for (const { device } of [one, other]) {
      device.notes = new Notes();
      assertThrows(
        () => one.memory.copy(512, other.memory, 512, 4),
        DeviceError,
        "cuda: cannot copy from cuda:1 while a graph is being captured",
      );
      // Within one of them, the graph records it.
      one.memory.copy(512, one.memory, 1024, 4);
      device.notes = null;
    }
    one.memory.copy(512, other.memory, 512, 4);
    assertEquals(one.fake.log, ["copy 0", "copy 0", "copy 0"]);
    assertEquals(other.fake.log, []);
  });

  it("usage, and what is kept is given back", () => {
    const { fake, memory } = open();
    assertEquals(memory.usage(), {
      bytes: 3,
      peakBytes: 3,
      pooledBytes: 2,
      freeBytes: 4,
      totalBytes: 5,
    });
    memory.release();
    assertEquals(fake.log, ["usage 0", "release 0"]);
    const other = open(1);
    other.memory.synchronize();
    assertEquals(other.fake.log, ["synchronize 1"]);
  });
});

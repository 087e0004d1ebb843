/**
 * Storages and the pool, by themselves: their counts and their kept and freed memory, to the byte,
 * and the calls of a device's memory by its storages.
 *
 * @module
 */
import {
  assert,
  assertEquals,
  assertNotStrictEquals,
  assertStrictEquals,
  assertThrows,
} from "@std/assert";
import { test } from "node:test";
import { addDType, DTYPE } from "../../src/base/dtype.ts";
import { DeviceError, DisposedError } from "../../src/base/errors.ts";
import { writeElement } from "../../src/memory/element.ts";
import { allocateIn, copyElements, download, sendTo, upload } from "../../src/memory/device.ts";
import { findBuffers, findMemoryLimit } from "../../src/backend/ffi/buffers.ts";
import {
  allocate,
  allocateShared,
  emptyCache,
  memory,
  recycle,
  registerMemory,
  wrapExternal,
} from "../../src/memory/pool.ts";
import { checkAlive, type DeviceMemory, DISPOSED, Storage } from "../../src/memory/storage.ts";

/** Before any allocation: each test file has a process of its own. */
const atStart = memory();

const LIMIT = 2 ** 28;

/** The memory of a fake device: an array of bytes, and a list of calls. */
class FakeMemory implements DeviceMemory {
  readonly bytes = new Uint8Array(1 << 12);
  readonly calls: string[] = [];
  #next = 64;

  constructor(readonly device: string) {}

  allocate(bytes: number): number {
    this.calls.push(`allocate ${bytes}`);
    const address = this.#next;
    this.#next += Math.ceil(bytes / 64) * 64;
    return address;
  }
  free(address: number): void {
    this.calls.push(`free ${address}`);
  }
  zero(address: number, bytes: number): void {
    this.bytes.fill(0, address, address + bytes);
    this.calls.push(`zero ${address} ${bytes}`);
  }
  write(address: number, bytes: Uint8Array): void {
    this.bytes.set(bytes, address);
    this.calls.push(`write ${address} ${bytes.length}`);
  }
  read(address: number, bytes: Uint8Array): void {
    bytes.set(this.bytes.subarray(address, address + bytes.length));
    this.calls.push(`read ${address} ${bytes.length}`);
  }
  readLater(address: number, bytes: Uint8Array): Promise<void> {
    return Promise.resolve(this.read(address, bytes));
  }
  copy(to: number, source: FakeMemory, from: number, bytes: number): void {
    this.bytes.set(source.bytes.subarray(from, from + bytes), to);
    this.calls.push(`copy ${to} ${from} ${bytes}`);
  }
  synchronize(): void {}
  usage() {
    return { bytes: 0, peakBytes: 0, pooledBytes: 0, freeBytes: 0, totalBytes: 0 };
  }
  release(): void {}
}

test("memory: nothing is counted before anything is made", () => {
  assertEquals(atStart, {
    bytes: 0,
    peakBytes: 0,
    pooledBytes: 0,
    collectedBytes: 0,
    constantBytes: 0,
  });
});

test("storages: what a new one says of itself", () => {
  const made = allocate("int16", 3, true);
  assertEquals([made.handles, made.version, made.address, made.length], [0, 0, 0, 3]);
  assertEquals([made.device, made.memory, made.isShared, made.cows], ["cpu", null, false, null]);
  assertEquals([made.exposed, made.shared, made.needsInt64Index], [false, false, false]);
  assert(allocateShared("int16", 3).shared);
  const large = (length: number) =>
    new Storage({ length } as never, DTYPE.int8, true, false).needsInt64Index;
  assertEquals([large(2 ** 30), large(2 ** 30 + 1)], [false, true]);
});

test("storages: small ones lie apart, in steps of 16 bytes", () => {
  assertEquals(allocate("uint8", 1, true).onSlab, !("Bun" in globalThis));
  const [a, b, c] = [1, 17, 4].map((length) => allocate("uint8", length, true).array);
  if (a!.buffer !== c!.buffer) return; // Not in Bun, or at the end of a slab.
  assertEquals([b!.byteOffset - a!.byteOffset, c!.byteOffset - b!.byteOffset], [16, 32]);
});

test("storages: a slab is used up to its last byte, and no further", () => {
  if ("Bun" in globalThis) return;
  const place = (length: number): number => allocate("uint8", length, true).array.byteOffset;
  while (place(17) !== 0);
  // From 48 on in steps of 32 bytes, 16 bytes are left at the end.
  assertEquals(place(1), 32);
  let last = 0;
  for (let next = place(17); next !== 0; next = place(17)) last = next;
  assertEquals(last, 65536 - 16 - 32);
});

test("the pool: what it holds is counted to the byte, up to its limit", () => {
  emptyCache();
  const halves = [allocate("uint8", LIMIT / 2, false), allocate("uint8", LIMIT / 2, false)];
  for (const half of halves) recycle(half);
  assertEquals(memory().pooledBytes, LIMIT);
  // Memory for another size is allocated next to the kept memory.
  const { bytes } = memory();
  allocate("float32", 1000, false);
  assertEquals(memory(), { ...memory(), bytes: bytes + 4000, pooledBytes: LIMIT });
  assertStrictEquals(allocate("uint8", LIMIT / 2, false).array, halves[1]!.array);
  assertEquals(memory().pooledBytes, LIMIT / 2);
  emptyCache();
  const whole = allocate("uint8", LIMIT, false);
  recycle(whole);
  assertEquals([memory().pooledBytes, whole.array.length], [LIMIT, LIMIT]);
  emptyCache();
  assertEquals([memory().pooledBytes, whole.array.length], [0, 0]);
});

test("the pool: what is larger than its limit by one byte goes back, each time", () => {
  emptyCache();
  // A quarter of the memory of the process.
  registerMemory({ findBuffers, findLimit: () => 4 * LIMIT });
  const kept = allocate("uint8", 1e6, false);
  recycle(kept);
  for (let n = 0; n < 3; n++) {
    const large = allocate("uint8", LIMIT + 1, false);
    recycle(large);
    assertEquals([large.array.length, memory().pooledBytes], [0, 1e6]);
  }
  assertStrictEquals(allocate("uint8", 1e6, false).array, kept.array);
  registerMemory({ findBuffers, findLimit: findMemoryLimit });
});

test("the pool: thousands of lengths are kept, each with its own elements", () => {
  emptyCache();
  const lengths = Array.from({ length: 10_000 }, (_, i) => i + 1);
  for (const length of lengths) recycle(allocate("uint8", length, false));
  assertEquals(memory().pooledBytes, lengths.reduce((sum, length) => sum + length));
  for (const length of [1, 16, 9999]) {
    assertEquals(allocate("uint8", length, false).length, length);
    assertEquals(allocate("int8", length, false).array instanceof Int8Array, true);
  }
  emptyCache();
});

test("the pool: zeros are zeros, and what was handed out does not come back", () => {
  for (const dtype of ["float32", "int64", "bool"] as const) {
    emptyCache();
    const used = allocate(dtype, 500, false);
    used.array.fill((dtype === "int64" ? 1n : 1) as never);
    recycle(used);
    const zeros = allocate(dtype, 500, true);
    assertStrictEquals(zeros.array, used.array);
    assert([...zeros.array as Uint8Array].every((value) => Number(value) === 0));
    zeros.expose();
    recycle(zeros);
    assertNotStrictEquals(allocate(dtype, 500, false).array, zeros.array);
  }
  const own = wrapExternal("float32", new Float32Array(4));
  recycle(own);
  assertEquals(memory().pooledBytes, 0);
});

test("the pool: memory that is shared between workers does not go there", () => {
  emptyCache();
  const shared = allocateShared("float32", 100);
  recycle(shared);
  assertEquals([shared.exposed, memory().pooledBytes], [true, 0]);
});

test("elements: what is written is cast, numbers wrap or saturate", () => {
  const storage = allocate("int8", 2, true);
  writeElement(storage, 0, 300);
  writeElement(storage, 1, 300n);
  assertEquals([...storage.array as Int8Array], [127, 44]);
});

test("checkAlive: what is gone, and what was transferred, is refused by the op's name", () => {
  assertThrows(
    () => checkAlive(DISPOSED, "add"),
    DisposedError,
    "Cannot add: the tensor was disposed",
  );
  const sent = wrapExternal("float32", new Float32Array(4));
  checkAlive(sent, "add");
  structuredClone(sent.array, { transfer: [sent.array.buffer as ArrayBuffer] });
  assertThrows(() => checkAlive(sent, "add"), DisposedError, "Cannot add: the tensor's buffer");
  checkAlive(wrapExternal("float32", new Float32Array(0)), "add");
});

test("devices: memory is asked for once, zeroed where it is to be, and given back once", () => {
  const fake = new FakeMemory("fake");
  const storage = allocateIn(fake, DTYPE.float32, 5, true);
  assertEquals(fake.calls.splice(0), ["allocate 20", "zero 64 20"]);
  assertEquals([storage.device, storage.memory, storage.address, storage.length], [
    "fake",
    fake,
    64,
    5,
  ]);
  assertEquals([storage.shared, storage.onSlab, storage.exposed], [false, false, false]);
  assertThrows(() => storage.array, DeviceError, "Cannot reach elements on fake from the CPU");
  recycle(storage);
  recycle(storage);
  assertEquals(fake.calls.splice(0), ["free 64"]);
  const empty = allocateIn(fake, DTYPE.float32, 0, true);
  assertEquals([empty.address, empty.length], [0, 0]);
  recycle(empty);
  allocateIn(fake, DTYPE.int8, 3, false);
  assertEquals(fake.calls, ["allocate 3"]);
  assertEquals(allocateIn(null, DTYPE.int8, 3, true).device, "cpu");
});

test("devices: lanes show the memory of their storage, and do not own it", () => {
  const fake = new FakeMemory("fake");
  const info = addDType({ name: "two", kind: "p", lane: "int16", lanes: 2, read: () => 0 });
  const storage = allocateIn(fake, info, 3, true);
  const { lanes } = storage;
  assertEquals([lanes.length, lanes.address, lanes.info.name], [6, 64, "int16"]);
  assertStrictEquals(lanes.base, storage);
  assertStrictEquals(storage.base, storage);
  recycle(lanes);
  assertEquals(fake.calls, ["allocate 12", "zero 64 12"]);
});

test("devices: elements go there, back and between them from any position", () => {
  const [one, two] = [new FakeMemory("fake:0"), new FakeMemory("fake:1")];
  const other = new FakeMemory("other");
  const [a, b, c] = [one, two, other].map((memory) => allocateIn(memory, DTYPE.int16, 6, true));
  upload(a!, 1, new Int16Array([1, 2, 3]));
  assertEquals([...download(a!, 0, 6) as Int16Array], [0, 1, 2, 3, 0, 0]);
  assertEquals([...download(a!, 2, 2) as Int16Array], [2, 3]);
  // Devices of one family copy directly; copies between families go through the CPU.
  copyElements(b!, 3, a!, 2, 2);
  assertEquals(two.calls.at(-1), "copy 70 68 4");
  copyElements(c!, 1, b!, 3, 2);
  assertEquals(other.calls.at(-1), "write 66 4");
  assertEquals([...download(c!, 0, 6) as Int16Array], [0, 2, 3, 0, 0, 0]);
  const cpu = allocate("int16", 4, true);
  copyElements(cpu, 2, c!, 1, 2);
  assertEquals([...cpu.array as Int16Array], [0, 0, 2, 3]);
  const calls = [one, two, other].flatMap((memory) => memory.calls).length;
  copyElements(b!, 0, a!, 0, 0);
  upload(a!, 0, new Int16Array(0));
  download(a!, 0, 0);
  assertEquals([one, two, other].flatMap((memory) => memory.calls).length, calls);
});

test("devices: what was filled on the CPU is sent there, and its memory kept", () => {
  emptyCache();
  const fake = new FakeMemory("fake");
  const filled = allocate("int16", 3, true);
  filled.array.set([7, 8, 9] as never);
  assertStrictEquals(sendTo(null, filled), filled);
  const sent = sendTo(fake, filled);
  assertEquals([...download(sent, 0, 3) as Int16Array], [7, 8, 9]);
  assertEquals(memory().pooledBytes, 6);
  emptyCache();
});

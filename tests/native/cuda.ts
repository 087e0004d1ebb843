/**
 * Tests of the CUDA part of the shim on a device, each in a process of its own: direct calls of its
 * symbols.
 *
 * Programs in processes of their own have no import map, so this uses assertions that both runtimes
 * provide. Knows nothing of tensors, or of the location of the device's libraries.
 *
 * @module
 */
import { deepStrictEqual as assertEquals, match as assertMatch, ok as assert } from "node:assert";
import { Arguments } from "../../src/backend/cuda/device.ts";
import { CUDA_MEMORY, CUDA_NCCL, CUDA_READ, STATUS } from "../../src/backend/ffi/abi.ts";
import { openShim } from "../../src/backend/ffi/load.ts";
import { DTYPE } from "../../src/base/dtype.ts";
import {
  addressed,
  cString,
  type Failure,
  failureOf,
  Gpu,
  numbers,
  open,
  opened,
  text,
} from "./gpu.ts";

export * from "./cuda_nccl.ts";
export * from "./cuda_products.ts";

const MIB = 2 ** 20;

function pattern(length: number, seed: number): Uint8Array {
  const bytes = new Uint8Array(length);
  for (let i = 0; i < length; i++) bytes[i] = Math.imul(i + seed, 0x9e3779b1) >>> 24;
  return bytes;
}

function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  let i = 0;
  while (i < a.length && a[i] === b[i]) i++;
  return a.length === b.length && i === a.length;
}

const KERNELS = `
extern "C" __global__ void scale(long long n, float *x, double by) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) x[i] *= (float)by;
}
extern "C" __global__ void copy(long long n, float *to, const float *from) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) to[i] = from[i];
}
extern "C" __global__ void nothing() {}
extern "C" __global__ void reversed(float *x) {
  __shared__ float own[4096];
  for (int i = threadIdx.x; i < 4096; i += blockDim.x) own[i] = x[i];
  __syncthreads();
  for (int i = threadIdx.x; i < 4096; i += blockDim.x) x[i] = own[4095 - i];
}
`;

const words = new Arguments();
const args = (n: number, ...addresses: number[]): Arguments => {
  words.clear().integer(n);
  for (const address of addresses) words.integer(address);
  return words;
};

/** Random blocks: they never overlap, keep their contents, and merge into one at the end. */
export function blocksNeverOverlap(): void {
  const gpu = opened();
  const random = numbers(7);
  const live: { address: number; bytes: number; seed: number }[] = [];
  const verify = ({ address, bytes, seed }: (typeof live)[0]): void => {
    const length = Math.min(bytes, 64);
    assertEquals(gpu.bytes(address, length), pattern(length, seed));
    if (bytes > 64) {
      assertEquals(gpu.bytes(address + bytes - 64, 64), pattern(64, seed + 1));
    }
  };
  const sizes = [
    1,
    511,
    512,
    513,
    5000,
    70000,
    MIB,
    MIB + 1,
    3 * MIB,
    9.9 * MIB,
    10 * MIB,
    23 * MIB,
  ];
  for (let step = 0; step < 4000; step++) {
    if (live.length < 60 && random(100) < 55) {
      const most = sizes[random(random(5) === 0 ? sizes.length : 6)]!;
      const bytes = random(2) === 0 ? Math.floor(most) : 1 + random(most);
      const address = gpu.allocate(bytes);
      assertEquals(address % 512, 0);
      for (const other of live) {
        assert(
          address + bytes <= other.address || other.address + other.bytes <= address,
          `${address} + ${bytes} overlaps ${other.address} + ${other.bytes}`,
        );
      }
      gpu.upload(address, pattern(Math.min(bytes, 64), step));
      if (bytes > 64) gpu.upload(address + bytes - 64, pattern(64, step + 1));
      // Short ones are overwritten by the second pattern.
      if (bytes > 64 && bytes < 128) gpu.upload(address, pattern(64, step));
      if (bytes <= 64 || bytes >= 128) live.push({ address, bytes, seed: step });
      else gpu.free(address);
    } else if (live.length > 0) {
      const [gone] = live.splice(random(live.length), 1);
      verify(gone!);
      gpu.free(gone!.address);
    }
    if (step % 500 === 0) gpu.memory("release", []);
  }
  const sum = live.reduce((total, { bytes }) => total + Math.ceil(bytes / 512) * 512, 0);
  const { used, most } = gpu.usage();
  assert(used >= sum && most >= used, `${used} bytes in use for ${sum}`);
  for (const block of live) {
    verify(block);
    gpu.free(block.address);
  }
  gpu.memory("release", []);
  const { used: left, kept, free, total } = gpu.usage();
  assertEquals([left, kept, free], [0, 0, total]);
}

/** Adjacent free blocks merge, in any order of the frees; kept memory is reused. */
export function neighboursJoin(): void {
  const gpu = opened();
  const small = Array.from({ length: 16 }, () => gpu.allocate(100 * 1024));
  const { used, kept } = gpu.usage();
  assertEquals([used, used + kept], [16 * 100 * 1024, 2 * MIB]);
  for (let i = 0; i < 16; i += 2) gpu.free(small[i]!);
  for (let i = 15; i > 0; i -= 2) gpu.free(small[i]!);
  assertEquals([gpu.usage().used, gpu.usage().kept], [0, 2 * MIB]);
  // Only the whole slab has room for both.
  const halves = [gpu.allocate(MIB), gpu.allocate(MIB)];
  assertEquals([gpu.usage().used, gpu.usage().kept], [2 * MIB, 0]);
  for (const address of halves) gpu.free(address);

  const large = [gpu.allocate(40 * MIB), gpu.allocate(40 * MIB)];
  const before = gpu.usage();
  gpu.free(large[0]!);
  // The unused rest of a block is available too.
  const parts = [gpu.allocate(15 * MIB), gpu.allocate(25 * MIB)];
  assertEquals(gpu.usage().used, before.used);
  assertEquals(gpu.usage().free, before.free);
  assertEquals(parts.sort((a, b) => a - b)[0], large[0]);
  for (const address of [...parts, large[1]!]) gpu.free(address);
  failureOf(() => gpu.free(large[1]!), "badArgument", /no memory in use .* begins at/);
  failureOf(() => gpu.free(0), "badArgument", /no memory in use/);
  failureOf(() => gpu.allocate(-1), "badArgument", /no number of bytes/);
  failureOf(() => gpu.allocate(NaN), "badArgument", /no number of bytes/);
  assert(gpu.allocate(0) !== gpu.allocate(0));
}

/** With 64 MiB: kept memory is freed before an allocation fails, and the error contains sizes. */
export function memoryRunsOut(): void {
  const gpu = opened();
  const kept = gpu.allocate(40 * MIB);
  gpu.free(kept);
  const first = gpu.allocate(60 * MIB);
  assertEquals(gpu.usage().kept, 0);
  const numbers = Float64Array.of(5 * MIB, 0, 0);
  assertEquals(
    gpu.shim.rm_cuda_memory(CUDA_MEMORY.allocate, 0, numbers, null),
    STATUS.outOfMemory,
  );
  assertEquals([...numbers], [5 * MIB, 4 * MIB, 64 * MIB]);
  failureOf(
    () => gpu.allocate(5 * MIB),
    "outOfMemory",
    /has no 5\.0 MiB: of its 64\.0 MiB, 4\.0 are free, 60\.0 in use here and 0\.0 kept/,
  );
  // A slab of the usual size does not fit any more; one of the requested size does.
  const second = gpu.allocate(3 * MIB);
  gpu.free(first);
  gpu.free(second);
  gpu.free(gpu.allocate(64 * MIB));
}

/** With the n-th allocation failing once: no effect. */
export function oneFailureIsNotNoticed(): void {
  const gpu = opened();
  const blocks = [30, 31, 32, 33].map((mib) => gpu.allocate(mib * MIB));
  const data = pattern(1000, 3);
  for (const address of blocks) {
    gpu.upload(address, data);
    assertEquals(gpu.bytes(address, 1000), data);
  }
}

/** Copies of every length up and down, by tickets, within and between devices. */
export function copiesArrive(most = Infinity): void {
  const shim = open();
  const [gpu, other] = [new Gpu(shim), new Gpu(shim, 1)];
  for (const length of [0, 1, 511, 65537, 8 * MIB - 1, 8 * MIB, 8 * MIB + 1, 65 * MIB + 5]) {
    if (length > most) break;
    const data = pattern(length, length);
    const address = gpu.allocate(length);
    gpu.upload(address, data);
    const sent = data.slice();
    data.fill(0);
    const same = (got: Uint8Array, what: string): void => assert(sameBytes(got, sent), what);
    same(gpu.bytes(address, length), `download of ${length}`);

    const ticket = gpu.beginRead(address, length);
    gpu.zero(address, length);
    const read = new Uint8Array(length);
    while (!gpu.endRead(ticket, read));
    same(read, `ticket of ${length}`);
    failureOf(() => gpu.endRead(ticket, read), "badArgument", /no ticket/);

    gpu.upload(address, sent);
    const copied = gpu.allocate(length);
    gpu.memory("copy", [copied, address, length, 0]);
    const there = other.allocate(length);
    other.memory("copy", [there, address, length, 0]);
    // The memory of the source is reused at once.
    gpu.free(address);
    const again = gpu.allocate(length);
    gpu.zero(again, length);
    same(gpu.bytes(copied, length), `copy of ${length}`);
    same(other.bytes(there, length), `copy of ${length} between devices`);
    gpu.memory("copy", [again, there, length, 1]);
    same(gpu.bytes(again, length), `copy of ${length} back`);
    for (const block of [copied, again]) gpu.free(block);
    other.free(there);
  }
  // Places in the host's memory.
  const address = gpu.allocate(100);
  gpu.memory("upload", [address, 10, 5], pattern(20, 0));
  const part = new Uint8Array(12);
  gpu.memory("download", [address + 2, 8, 3], part);
  assertEquals(part.slice(3, 11), pattern(20, 0).slice(7, 15));
  assertEquals([part[2], part[11]], [0, 0]);
}

/** Tickets end in any order, are polled in vain first, and may be canceled. */
export function ticketsAreAnswered(): void {
  const gpu = opened();
  const address = gpu.allocate(4096);
  const tickets = Array.from({ length: 20 }, (_, i) => {
    gpu.upload(address, pattern(4096, i));
    return gpu.beginRead(address, 4096);
  });
  const order = tickets.map((_, i) => i * 7 % 20);
  const bytes = new Uint8Array(4096);
  let vain = 0;
  for (const i of order) {
    if (i % 5 === 4) {
      assert(gpu.endRead(tickets[i]!, null));
      continue;
    }
    failureOf(() => gpu.endRead(tickets[i]!, bytes.subarray(1)), "badArgument", /4095 bytes/);
    for (bytes.fill(0); !gpu.endRead(tickets[i]!, bytes); vain++) assertEquals(bytes[1], 0);
    assertEquals(bytes, pattern(4096, i));
  }
  for (const ticket of tickets) {
    failureOf(() => gpu.endRead(ticket, bytes), "badArgument", /no ticket of CUDA device 0/);
  }
  for (const wrong of [0, 1, -5, NaN, 2 ** 60]) {
    failureOf(() => gpu.endRead(wrong, bytes), "badArgument", /no ticket/);
  }
  // Long reads arrive part by part, and may be canceled between two parts.
  const length = 20 * MIB;
  const long = gpu.allocate(length);
  const [sent, got] = [pattern(length, 3), new Uint8Array(length)];
  gpu.upload(long, sent);
  for (const givesUp of [true, false]) {
    got.fill(0);
    const ticket = gpu.beginRead(long, length);
    const seen: number[] = [];
    const ask = (): number => gpu.memory("endRead", [ticket, 0, length], got)[0]!;
    for (let came = ask(); came !== CUDA_READ.ended; came = ask()) {
      if (came === CUDA_READ.moves) seen.push(got.findLastIndex((byte) => byte !== 0));
      if (givesUp && seen.length === 1) break;
    }
    assert(seen[0]! < 8 * MIB, `${seen[0]} bytes have come at once`);
    if (givesUp) assert(gpu.endRead(ticket, null));
    else assertEquals(seen.length, 2);
    failureOf(() => gpu.endRead(ticket, got), "badArgument", /no ticket/);
  }
  assert(sameBytes(got, sent));
  // The emulator's events first report that they have not occurred.
  assert(vain > 0);
}

/** The pinned memory of a long read is freed gradually, by copies that end while nothing runs. */
export function pinnedMemoryGoes(): void {
  const gpu = opened();
  const length = 160 * MIB;
  const address = gpu.allocate(length);
  gpu.zero(address, length);
  const ticket = gpu.beginRead(address, length);
  const got = new Uint8Array(length).fill(1);
  while (!gpu.endRead(ticket, got));
  const before = process.memoryUsage().rss;
  for (let i = 0; i < 10; i++) gpu.bytes(address, 8);
  const freed = before - process.memoryUsage().rss;
  // 12 of the 20 parts, some of which the first call may have freed already.
  assert(freed > 48 * MIB, `${freed} bytes`);
  // Not before, as it counts.
  assert(!got.includes(1), "what was read");
}

/** Kernels run, and faults of a kernel are reported. */
export function kernelsRun(): void {
  const shim = open();
  const gpu = new Gpu(shim);
  const [scale, nothing, reversed] = gpu.compile(KERNELS, "scale", "nothing", "reversed");
  assertEquals(gpu.compile(KERNELS, "reversed", "scale"), [reversed, scale]);
  const x = Float32Array.from({ length: 1000 }, (_, i) => i);
  const address = addressed(gpu, x);
  gpu.launch(scale!, 4, 256, args(1000, address).real(0.5));
  gpu.launch(nothing!, 1, 1, words.clear());
  assertEquals(gpu.download(address, new Float32Array(1000)), x.map((value) => value / 2));

  const run = addressed(gpu, Float32Array.from({ length: 4096 }, (_, i) => i));
  gpu.launch(reversed!, 1, 128, words.clear().integer(run));
  const got = gpu.download(run, new Float32Array(4096));
  assert(got.every((value, i) => value === 4095 - i));

  failureOf(
    () => gpu.launch(scale!, 1, 2000, args(1, address).real(1)),
    "deviceError",
    /^kernel scale, 1 x 1 x 1 blocks of 2000 x 1 x 1 threads: cuLaunchKernel: CUDA_ERROR/,
  );
  for (const wrong of [0, 1e6, -1, NaN]) {
    failureOf(() => gpu.launch(wrong, 1, 1, words.clear()), "badArgument", /is no kernel of/);
  }
  const other = new Gpu(shim, 1);
  failureOf(() => other.launch(scale!, 1, 1, args(0, 0)), "badArgument", /no kernel of .* 1/);
  const [there] = other.compile(KERNELS, "scale");
  const far = addressed(other, x);
  other.launch(there!, 4, 256, args(1000, far).real(2));
  assertEquals(other.download(far, new Float32Array(1000)), x.map((value) => value * 2));

  failureOf(
    () => gpu.compile(KERNELS, "scale", "missing"),
    "deviceError",
    /^kernel missing: cuMod/,
  );
  failureOf(
    () =>
      gpu.compile(`extern "C" __global__ void wrong(long long n) { n = no_such_thing; }`, "wrong"),
    "deviceError",
    /^NVRTC cannot compile a kernel: [^]*no_such_thing/,
  );
  failureOf(() => new Gpu(shim, 2).allocate(1), "badArgument", /no CUDA device 2: .* there are 2/);
  failureOf(() => new Gpu(shim, -1).allocate(1), "badArgument", /no CUDA device -1/);
}

/** Kernels may include the files of the CPU's kernels as they were when the library was built. */
export function filesAreIncluded(): void {
  const gpu = opened();
  const [kernel] = gpu.compile(
    `#include "float16.h"
    extern "C" __global__ void widen(long long n, float *to, const uint16_t *from) {
      if ((long long)threadIdx.x < n) to[threadIdx.x] = rm_f16_to_f32(from[threadIdx.x]);
    }`,
    "widen",
  );
  const from = gpu.allocate(6);
  const to = gpu.allocate(12);
  gpu.upload(from, Uint16Array.of(0x3c00, 0xc400, 0x7bff));
  gpu.launch(kernel!, 1, 32, args(3, to, from));
  assertEquals([...gpu.download(to, new Float32Array(3))], [1, -4, 65504]);
}

/** The next wait reports a fault in a kernel, and the fault persists. */
export function faultsStay(): void {
  const gpu = opened();
  const [kernel] = gpu.compile(KERNELS, "scale");
  const address = gpu.allocate(4096);
  gpu.launch(kernel!, 1, 1, args(1, address + 64 * MIB).real(1));
  const final = /cudaErrorIllegalAddress \(700\): .*; the work .* until this process is started/;
  failureOf(() => gpu.control("synchronize"), "deviceError", final);
  failureOf(() => gpu.bytes(address, 4), "deviceError", /\(700\)/);
  failureOf(() => gpu.beginRead(address, 4), "deviceError", /\(700\)/);
  failureOf(() => gpu.control("eventRecord"), "deviceError", /\(700\)/);
  // No call to the device.
  gpu.free(address);
}

/** Graphs run again with the current contents of their memory, which is not reused elsewhere. */
export function graphsRunAgain(): void {
  const gpu = opened();
  const [scale, copy] = gpu.compile(KERNELS, "scale", "copy");
  const x = Float32Array.from({ length: 256 }, (_, i) => i);
  const input = addressed(gpu, x);
  const output = gpu.allocate(1024);
  gpu.zero(output, 1024);
  const kept = gpu.allocate(1024);
  gpu.control("captureBegin");
  failureOf(() => gpu.control("captureBegin"), "badArgument", /captured already/);
  const temporary = gpu.allocate(1024);
  gpu.launch(copy!, 1, 256, args(256, temporary, input));
  gpu.launch(scale!, 1, 256, args(256, temporary).real(3));
  gpu.launch(copy!, 1, 256, args(256, output, temporary));
  gpu.free(temporary);
  // Within the graph it is reused.
  const second = gpu.allocate(1024);
  assertEquals(second, temporary);
  gpu.launch(copy!, 1, 256, args(256, second, output));
  gpu.free(kept);
  const host = new Float32Array(256);
  for (
    const refused of [
      () => gpu.upload(input, x),
      () => gpu.download(output, host),
      () => gpu.beginRead(output, 1024),
      () => gpu.control("synchronize"),
      () => gpu.control("eventRecord"),
      () => gpu.memory("release", []),
    ]
  ) failureOf(refused, "badArgument", /while a graph is being captured/);
  const graph = gpu.control("captureEnd");
  failureOf(() => gpu.control("captureEnd"), "badArgument", /no graph is being captured/);
  // Nothing has run yet.
  assertEquals(gpu.download(output, host), new Float32Array(256));
  gpu.free(second);
  // Memory that it allocated or that was freed meanwhile is not reused.
  const others = Array.from({ length: 64 }, () => gpu.allocate(1024));
  for (const own of [temporary, kept]) assert(!others.includes(own));
  for (const round of [1, 2, 5]) {
    gpu.upload(input, x.map((value) => value * round));
    gpu.control("graphLaunch", graph);
    assertEquals(gpu.download(output, host), x.map((value) => value * round * 3));
    assertEquals(gpu.download(temporary, host), x.map((value) => value * round * 3));
  }
  gpu.control("graphFree", graph);
  failureOf(() => gpu.control("graphLaunch", graph), "badArgument", /no graph of CUDA device 0/);
  for (const address of [...others, input, output]) gpu.free(address);
  gpu.memory("release", []);
  assertEquals([gpu.usage().used, gpu.usage().kept], [0, 0]);
}

/** Measures time between two events, which can be used once. */
export function eventsTellTime(): void {
  const gpu = opened();
  const [first, second, third] = [1, 2, 3].map(() => gpu.control("eventRecord"));
  failureOf(() => gpu.control("eventElapsed", first!, first!), "badArgument", /are one/);
  failureOf(() => gpu.control("eventElapsed", first!, 12345), "badArgument", /no event/);
  assert(gpu.control("eventElapsed", first!, second!) >= 0);
  failureOf(() => gpu.control("eventElapsed", first!, third!), "badArgument", /no event/);
  const fourth = gpu.control("eventRecord");
  assert(gpu.control("eventElapsed", third!, fourth) >= 0);
}

/** Descriptions of devices and libraries. */
export function thingsAreTold(): void {
  const gpu = opened();
  const lines = (index: number): Map<string, string> =>
    new Map(gpu.info(index).trim().split("\n").map((line) => line.split("\t") as [string, string]));
  const device = lines(1);
  assert(device.get("name")!.length > 0);
  assertEquals(device.get("capability"), "9.0");
  assertEquals(Number(device.get("memory")), gpu.usage().total);
  assertEquals(gpu.info(2), "");
  const before = lines(-1);
  assertMatch(before.get("driver")!, /^13\.0, \/.*\.so/);
  assertMatch(before.get("cudart")!, /^13\.0, \/.*\.so/);
  assertEquals(before.get("nvrtc"), "not opened yet");
  assertEquals(before.get("cublas"), "not opened yet");
  gpu.compile(KERNELS, "nothing");
  assertMatch(lines(-1).get("nvrtc")!, /^13\.0, \//);
  assert(lines(-1).get("cache")!.length > 0);
}

/** Compiles and runs; with a failing compiler, uses the kernels on disk. */
export function kernelsAreKept(): string[] {
  const gpu = opened();
  const [scale, nothing] = gpu.compile(KERNELS, "scale", "nothing");
  gpu.launch(nothing!, 1, 1, words.clear());
  const address = addressed(gpu, Float32Array.of(1, 2, 3));
  gpu.launch(scale!, 1, 32, args(3, address).real(2));
  assertEquals([...gpu.download(address, new Float32Array(3))], [2, 4, 6]);
  try {
    gpu.compile(`${KERNELS}// Another one.`, "nothing");
    return [];
  } catch (error) {
    return [(error as Error).message];
  }
}

/** Many sources, as if several processes start at the same time. */
export function manyKernelsAreKept(): void {
  const gpu = opened();
  const address = addressed(gpu, new Float32Array(1));
  for (let i = 0; i < 12; i++) {
    const [kernel] = gpu.compile(
      `extern "C" __global__ void add(float *x) { *x += ${i}.0f; }`,
      "add",
    );
    gpu.launch(kernel!, 1, 1, words.clear().integer(address));
  }
  assertEquals(gpu.download(address, new Float32Array(1))[0], 66);
}

// ---- libraries -----------------------------------------------------------------------------------

/** The answer of opening each of several folders: a status, the message, and the milliseconds. */
export function whatOpeningAnswers(
  folders: (string | null)[],
): [status: number, message: string, milliseconds: number][] {
  const shim = openShim();
  if ("reason" in shim) throw new Error(shim.reason);
  return folders.map((folder) => {
    const named = folder === null ? null : cString(folder);
    const bytes = new Uint8Array(16384);
    const start = performance.now();
    const status = shim.rm_cuda_open(named, new Float64Array(3));
    const milliseconds = performance.now() - start;
    const message = text(bytes, shim.rm_last_error(bytes, bytes.length));
    return [status, status === STATUS.ok ? "" : message, milliseconds];
  });
}

/** The description of the open libraries, with a folder given in code. */
export function whereItOpens(folder: string): string {
  const shim = openShim();
  if ("reason" in shim) throw new Error(shim.reason);
  const gpu = new Gpu(shim);
  gpu.check(shim.rm_cuda_open(cString(folder), null));
  return gpu.info(-1);
}

/** The description of the open libraries, after a product failed to open its own. */
export function whatIsOpen(): string {
  const gpu = opened();
  gpu.shim.rm_cuda_matmul(0, DTYPE.float32.id, new Float64Array(18).fill(1));
  gpu.shim.rm_cuda_linalg(0, new Float64Array(13));
  gpu.shim.rm_cuda_nccl(CUDA_NCCL.load, 0, new Float64Array(1), null);
  return gpu.info(-1);
}

/** NVRTC's answer for each architecture; it needs no driver. */
export function whatCompilingAnswers(source: string, name: string, targets: number[]): string[] {
  const shim = openShim();
  if ("reason" in shim) throw new Error(shim.reason);
  const bytes = new Uint8Array(65536);
  return targets.map((target) => {
    const status = shim.rm_cuda_compile(
      -1,
      cString(source),
      cString(name),
      Float64Array.of(target),
    );
    return `${status} ${text(bytes, shim.rm_last_error(bytes, bytes.length))}`;
  });
}

/** The errors of a product and a kernel whose libraries cannot be opened. */
export function whatIsMissing(): [product: string, kernel: string] {
  const gpu = opened();
  const message = (body: () => void): string => {
    try {
      body();
      return "";
    } catch (error) {
      assertEquals((error as Failure).status, STATUS.notFound);
      return (error as Error).message;
    }
  };
  const plan = Float64Array.of(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0);
  return [
    message(() => gpu.check(gpu.shim.rm_cuda_matmul(0, DTYPE.float32.id, plan))),
    message(() => gpu.compile(KERNELS, "nothing")),
  ];
}

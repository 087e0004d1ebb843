/**
 * Failures of CUDA devices as programs see them, and long runs. Each function runs in a process of
 * its own, on the emulator in the given folder.
 *
 * Programs in processes of their own have no import map, so this uses assertions that both runtimes
 * provide.
 *
 * @module
 */
import { deepStrictEqual as assertEquals, match as assertMatch, ok as assert } from "node:assert";
import {
  arange,
  capture,
  emptyCache,
  fft,
  info,
  linalg,
  memory,
  ones,
  synchronize,
  tensor,
  zeros,
} from "../../../mod.ts";
import { DeviceError, IndexError, OutOfMemoryError } from "../../../mod.ts";
import { Arguments } from "../../../src/backend/cuda/device.ts";
import { controlEmulator } from "../../emulator/control.ts";
import { addressed, opened } from "../../native/gpu.ts";
import { amount } from "../../support/amount.ts";

// deno-lint-ignore no-explicit-any
type Any = any;

/** The error of `body`. */
function errorOf(body: () => unknown): Any {
  try {
    body();
  } catch (error) {
    return error;
  }
  throw new Error("nothing was thrown");
}

function deviceErrorOf(body: () => unknown): string {
  const error = errorOf(body);
  assert(error instanceof DeviceError, String(error.stack));
  assertEquals(error.code, "RM_DEVICE");
  return error.message;
}

/** Bytes that tensors take. */
function inUse(device: "cuda" = "cuda"): number {
  const { bytes, pooledBytes } = memory(device);
  return bytes - pooledBytes;
}

/** Runs garbage collection until the device has at most this many bytes in use. */
async function collect(bytes: number): Promise<void> {
  const { Bun, gc } = globalThis as Any;
  for (let i = 0; i < 20 && inUse() > bytes; i++) {
    if (Bun !== undefined) Bun.gc(true);
    else gc();
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

const small = (): Any => tensor([[1, 2], [3, 4]], { dtype: "float32" });

/** The error of the first tensor on the device, and its time in milliseconds. */
export function noDevice(): [message: string, ms: number, again: string] {
  const x = small();
  const begin = performance.now();
  const message = deviceErrorOf(() => x.to("cuda"));
  const ms = performance.now() - begin;
  // Nothing else is affected.
  assertEquals(x.add(1).toArray(), [[2, 3], [4, 5]]);
  return [message, ms, deviceErrorOf(() => zeros([2], { device: "cuda" }))];
}

/** Products without cuBLAS, by kernels of the library. */
export function withoutBlas(): void {
  const x = small().cuda();
  assertEquals(x.matmul(x).cpu().toArray(), [[7, 10], [15, 22]]);
  const many = ones([3, 40, 50], { device: "cuda" }) as Any;
  assertEquals(many.matmul(ones([50, 20], { device: "cuda" })).sum().item(), 3 * 40 * 50 * 20);
}

/** A transform without cuFFT. */
export function withoutFft(): void {
  const y = fft.fft(small().cuda()) as Any;
  assertEquals(y.device, "cuda");
  assertEquals(y.real().cpu().toArray(), [[3, -1], [7, -1]]);
  assertMatch(info().backends.cufft, /^no usable cuFFT: /);
}

/** Linear algebra without cuSOLVER. */
export function withoutSolver(): void {
  const y = linalg.inv(tensor([[2, 0], [0, 4]]).cuda()) as Any;
  assertEquals(y.device, "cuda");
  assertEquals(y.cpu().toArray(), [[0.5, 0], [0, 0.25]]);
  const [message] = [errorOf(() => linalg.inv(zeros([2, 2], { device: "cuda" }))).message];
  assertEquals(message, "Cannot inv matrix 0: it is singular (pivot 0)");
  assertMatch(info().backends.cusolver, /^no usable cuSOLVER: .*runs on the CPU$/);
}

/** The errors of ops without a working compiler, twice. */
export function withoutCompiler(): [string, string] {
  const x = small().cuda();
  const messages = [1, 2].map(() => deviceErrorOf(() => x.add(1)));
  // Memory does not need the compiler.
  assertEquals(x.cpu().toArray(), [[1, 2], [3, 4]]);
  return messages as [string, string];
}

/** Ops and composites that allocate several blocks of memory, of tensors of 10 KB. */
const OPS: Readonly<Record<string, (x: Any) => unknown>> = {
  add: (x) => x.add(x),
  astype: (x) => x.astype("float64"),
  sum: (x) => x.sum(),
  "sum of columns": (x) => x.sum(0),
  softmax: (x) => x.softmax(-1),
  logSoftmax: (x) => x.logSoftmax(-1),
  std: (x) => x.std(1),
  logsumexp: (x) => x.logsumexp(0),
  sort: (x) => x.sort(0),
  argsort: (x) => x.argsort(1),
  topk: (x) => x.topk(3).values,
  quantile: (x) => x.quantile([0.2, 0.5], 0),
  cumulativeSum: (x) => x.cumulativeSum(0),
  matmul: (x) => x.matmul(x.T),
  take: (x) => x.take((tensor([5, 3, 49, 0]) as Any).astype("int32").cuda(), 0),
  "a mask": (x) => x.slice(x.greater(0)),
  layerNorm: (x) => x.layerNorm(),
  "many steps": (x) => x.mul(2).exp().div(x.abs().add(1)).sum(1).sqrt(),
  "to another dtype and back": (x) => x.astype("int32").astype("float32").T.copy(),
  upload: () => ones([50, 50], { device: "cuda" }),
};

/**
 * Runs ops with memory that runs out at each of their steps: the device continues, and no memory is
 * lost after the temporaries of composites are collected. Returns how often each op failed.
 */
export async function memoryRunsOut(folder: string): Promise<Record<string, number>> {
  const emulator = controlEmulator(folder);
  const most = emulator.get("memory");
  const x = (arange(2500, { dtype: "float32" }) as Any).sub(1250).div(250).reshape([50, 50])
    .cuda();
  let base = inUse();
  const counts: Record<string, number> = {};
  for (const [name, op] of Object.entries(OPS)) {
    // Compiles kernels and makes one-time allocations.
    (op(x) as Any).dispose();
    await collect(base);
    const before = base = inUse();
    counts[name] = 0;
    for (let room = 0;; room += amount(4000, 1000)) {
      emptyCache("cuda");
      emulator.set("memory", emulator.get("used") + room);
      let made: Any;
      try {
        made = op(x);
      } catch (error) {
        emulator.set("memory", most);
        assert(error instanceof OutOfMemoryError, `${name}: ${(error as Error).stack}`);
        assertEquals(error.device, "cuda");
        assert(error.bytes > 0);
        assertMatch(
          error.message,
          /^Cannot allocate \d+ bytes on cuda: \d+ of \d+ bytes are free$/,
        );
        counts[name]++;
        // Something small.
        assertEquals(x.get(0, 0), -5);
        continue;
      }
      emulator.set("memory", most);
      made.dispose();
      break;
    }
    await collect(before);
    // Bun's collector may mistake numbers on the stack for pointers.
    const slack = "Bun" in globalThis ? 50_000 : 0;
    const lost = inUse() - before;
    assert(lost <= slack, `${name} lost ${lost} bytes`);
  }
  return counts;
}

/** A rejected launch throws at once, and the next launch succeeds. */
export async function launchFails(folder: string): Promise<string> {
  const emulator = controlEmulator(folder);
  const x = small().cuda();
  x.add(1).dispose();
  const before = inUse();
  emulator.set("failLaunch", 1);
  const message = deviceErrorOf(() => x.add(1));
  await collect(before);
  assertEquals(inUse(), before);
  assertEquals(x.add(1).cpu().toArray(), [[2, 3], [4, 5]]);
  return message;
}

/** A fault in a kernel: the error of the next read, and of all later calls. */
export async function faultStays(folder: string): Promise<string[]> {
  const emulator = controlEmulator(folder);
  const x = small().cuda();
  emulator.set("failKernel", 1);
  const y = x.add(1);
  const messages = [deviceErrorOf(() => y.cpu())];
  messages.push(deviceErrorOf(() => x.add(2)));
  messages.push(deviceErrorOf(() => x.toArray()));
  messages.push(deviceErrorOf(() => synchronize("cuda")));
  messages.push(deviceErrorOf(() => zeros([1 << 24], { device: "cuda" })));
  messages.push(deviceErrorOf(() => small().cuda()));
  await y.read().then(() => assert(false), (error: Error) => {
    assert(error instanceof DeviceError);
    messages.push(error.message);
  });
  // Tensors can be disposed, and the CPU still works.
  y.dispose();
  x.dispose();
  assertEquals(small().add(1).toArray(), [[2, 3], [4, 5]]);
  return messages;
}

/** A kernel that does not compile: the error, and that others still compile. */
export function compileFails(folder: string): string {
  const emulator = controlEmulator(folder);
  const x = small().cuda();
  emulator.set("failCompile", 1);
  const message = deviceErrorOf(() => x.add(1));
  assertEquals(x.mul(2).cpu().toArray(), [[2, 4], [6, 8]]);
  assertEquals(x.add(1).cpu().toArray(), [[2, 3], [4, 5]]);
  return message;
}

/** Indexes out of range throw at the next read, once. */
export async function indexesOutOfRange(): Promise<void> {
  const x = small().cuda();
  const at = (...indexes: number[]): Any => (tensor(indexes) as Any).astype("int32").cuda();
  for (const read of [() => x.cpu(), () => x.toArray(), () => synchronize("cuda")]) {
    x.take(at(0, 7), 0);
    x.take(at(-9), 0);
    const error = errorOf(read);
    assert(error instanceof IndexError, String(error.stack));
    assertEquals(error.message, "Cannot index axis of size 2 at 7");
    read();
    assertEquals(x.take(at(1, -2), 0).cpu().toArray(), [[3, 4], [1, 2]]);
  }
  x.take(at(2), 1);
  let thrown: unknown;
  await x.read().catch((error: unknown) => thrown = error);
  assert(thrown instanceof IndexError, String(thrown));
  assertEquals([...await x.read()], [1, 2, 3, 4]);
}

/** An op, whatever the state of the kernels on disk. */
export function usesKernels(): void {
  const x = small().cuda();
  assertEquals(x.add(1).mul(x).sum(0).cpu().toArray(), [14, 26]);
}

// ---- several devices, threads, long runs --------------------------------------------------------

/** Tensors move between devices, in order with the queued work of both. */
export async function severalDevices(): Promise<void> {
  const n = 20_000;
  const host: Any = (arange(n, { dtype: "float32" }) as Any).reshape([100, 200]);
  const x = host.to("cuda:0"), there = x.add(1).T.to("cuda:1");
  assertEquals([x.device, there.device], ["cuda", "cuda:1"]);
  // Later writes to the source do not affect the copy, and its memory may be freed at once.
  x.mul(0, { out: x });
  const doubled = there.mul(2);
  const back = doubled.to("cuda");
  there.dispose();
  doubled.dispose();
  assertEquals(back.cpu().sub(host.add(1).T.mul(2)).abs().max().item(), 0);
  assertEquals(x.sum().item(), 0);
  const message = errorOf(() => back.add(host.to("cuda:1").T)).message;
  assertMatch(message, /cuda:1/);
  assertMatch(deviceErrorOf(() => host.to("cuda:2")), /there are 2 CUDA devices/);
  // Faults of indexing belong to one device.
  const bad = host.to("cuda:1").take((tensor([500]) as Any).astype("int32").to("cuda:1"), 0);
  assertEquals(back.cpu().shape, [200, 100]);
  await bad.read().then(() => assert(false), (e: Error) => assert(e instanceof IndexError));
}

/** Uploads between queued kernels: each op sees its operand's elements at the time of its call. */
export function uploadsBetweenKernels(): void {
  const source = new Float32Array(5000);
  const results: Any[] = [];
  const out: Any = zeros([5000], { device: "cuda" });
  for (let i = 0; i < 50; i++) {
    source.fill(i);
    (tensor(source as Any) as Any).cuda().add(0, { out });
    results.push(out.mul(2).sum());
    source.fill(-1);
  }
  results.forEach((sum, i) => assertEquals(sum.item(), i * 2 * 5000));
}

/** Many small ops, like a server's: the memory of the device and of the process stays flat. */
export async function manyOps(count: number): Promise<[device: number, resident: number]> {
  const { default: process } = await import("node:process");
  const x = small().cuda(), w = small().cuda();
  const request = async (i: number): Promise<void> => {
    const a = x.add(i), b = a.mul(w), c = b.sum(1);
    if (i % 50 === 0) assertEquals(Array.from(await c.read()), [i * 3 + 5, i * 7 + 25]);
    for (const one of [a, b, c]) one.dispose();
  };
  const rounds = Math.ceil(count / 3);
  for (let i = 0; i < rounds / 2; i++) await request(i);
  const before = memory("cuda").bytes, resident = process.memoryUsage().rss;
  for (let i = 0; i < rounds / 2; i++) await request(i);
  return [memory("cuda").bytes - before, process.memoryUsage().rss - resident];
}

/** The memory of unreachable tensors is freed once they are collected. */
export async function lostTensorsAreFreed(): Promise<
  [before: number, lost: number, after: number]
> {
  const x = small().cuda();
  x.add(1).dispose();
  const before = inUse();
  const lose = (): void => {
    for (let i = 0; i < 100; i++) zeros([1000], { device: "cuda" });
  };
  lose();
  const lost = inUse();
  await collect(before + 8192);
  assertEquals(x.cpu().toArray(), [[1, 2], [3, 4]]);
  return [before, lost, inUse()];
}

/** Ops in a thread of its own; returns their results. */
export function workInThread(seed: number, rounds: number): number {
  let total = 0;
  const x = (arange(1000, { dtype: "float32" }) as Any).cuda();
  for (let i = 0; i < rounds; i++) {
    const y = x.add(seed + i), z = y.sum();
    total += z.item();
    y.dispose();
    z.dispose();
  }
  const sorted = x.neg().sort();
  assertEquals(sorted.get(0), -999);
  return total;
}

/** Records and runs graphs, which must not include work of other threads. */
function recordAndRun(): void {
  const x = zeros([1000], { device: "cuda" }) as Any;
  for (let i = 0; i < 20; i++) {
    using graph = capture("cuda", () => {
      for (let n = 0; n < 20; n++) x.add(1, { out: x });
    });
    graph.run();
  }
  assertEquals(x.get(999), 400);
}

/** Two threads and this one at once. */
export async function severalThreads(): Promise<number[]> {
  const source = `import { workInThread } from ${JSON.stringify(import.meta.url)};
    globalThis.onmessage = ({ data }) => postMessage(workInThread(...data));`;
  const url = URL.createObjectURL(new Blob([source], { type: "application/typescript" }));
  const workers = [1, 2].map(() => new Worker(url, { type: "module" }));
  const answers = workers.map((worker, i) =>
    new Promise<number>((resolve, reject) => {
      worker.onmessage = ({ data }) => resolve(data);
      worker.onerror = (event) => reject(new Error(event.message));
      worker.postMessage([i + 1, 150]);
    })
  );
  const own = workInThread(0, 150);
  recordAndRun();
  const all = [own, ...await Promise.all(answers)];
  for (const worker of workers) worker.terminate();
  return all;
}

/** A worker that has opened `gpu` without using it; returns the result of `body` for a message. */
async function gpuWorker(body: string): Promise<{ worker: Worker; ask: () => Promise<unknown> }> {
  const source = `import { opened } from ${
    JSON.stringify(import.meta.resolve("../../native/gpu.ts"))
  };
    const gpu = opened();
    globalThis.onmessage = () => {
      try {
        ${body}
      } catch (error) {
        postMessage(String(error));
      }
    };
    postMessage("opened");`;
  const url = URL.createObjectURL(new Blob([source], { type: "application/typescript" }));
  const worker = new Worker(url, { type: "module" });
  const answer = (): Promise<unknown> =>
    new Promise((resolve, reject) => {
      worker.onmessage = ({ data }) => resolve(data);
      worker.onerror = (event) => reject(new Error(event.message));
    });
  assertEquals(await answer(), "opened");
  const ask = (): Promise<unknown> => {
    worker.postMessage(null);
    return answer();
  };
  return { worker, ask };
}

/** Two workers that begin to record at once; returns their results. */
export async function recordersTakeTurns(): Promise<unknown[]> {
  const gpu = opened();
  const [slow] = gpu.compile(
    `extern "C" __global__ void slow(long long n, float *x) {
      for (long long i = 0; i < n; i++) x[0] += 1;
    }`,
    "slow",
  );
  const address = addressed(gpu, new Float32Array(1));
  const record = `gpu.control("captureBegin");
    gpu.control("graphFree", gpu.control("captureEnd"));
    postMessage("recorded");`;
  const workers = await Promise.all([1, 2].map(() => gpuWorker(record)));
  gpu.launch(slow!, 1, 1, new Arguments().integer(2e8).integer(address));
  // The first device call of both waits for this call, which then releases them together.
  const answers = workers.map(({ ask }) => ask());
  gpu.control("synchronize");
  const said = await Promise.all(answers);
  for (const { worker } of workers) worker.terminate();
  return said;
}

/** A worker ends while it records: its recording is discarded, and no other thread waits for it. */
export async function recorderEnds(): Promise<void> {
  const gpu = opened();
  const address = addressed(gpu, Float32Array.of(1, 2, 3));
  const begin = `gpu.control("captureBegin");
    gpu.free(gpu.allocate(1024));
    gpu.zero(${address}, 12);
    postMessage("recording");`;
  for (let round = 0; round < 3; round++) {
    const { worker, ask } = await gpuWorker(begin);
    assertEquals(await ask(), "recording");
    worker.terminate();
    // The next call runs an op, or starts a recording.
    if (round === 1) {
      gpu.control("captureBegin");
      gpu.control("graphFree", gpu.control("captureEnd"));
    }
    assertEquals(gpu.download(address, new Float32Array(3)), Float32Array.of(1, 2, 3));
  }
  // The memory of the graphs is free again.
  gpu.free(address);
  gpu.memory("release", []);
  assertEquals([gpu.usage().used, gpu.usage().kept], [0, 0]);
}

/**
 * Tests of collectives on a device by the shim: a link of one rank, which needs no other process.
 *
 * @module
 */
import { deepStrictEqual as assertEquals } from "node:assert";
import {
  COLLECTIVE,
  COLLECTIVE_AT,
  CUDA_NCCL,
  REDUCTION,
  STATUS,
} from "../../src/backend/ffi/abi.ts";
import { DTYPE } from "../../src/base/dtype.ts";
import { failureOf, type Gpu, opened } from "./gpu.ts";

type Numbers = Partial<Record<keyof typeof COLLECTIVE_AT, number>>;

function ask(gpu: Gpu, what: number, given: number[], bytes: Uint8Array | null = null): number[] {
  const numbers = new Float64Array(COLLECTIVE_AT.numbers);
  numbers.set(given);
  gpu.check(gpu.shim.rm_cuda_nccl(what, gpu.index, numbers, bytes));
  return [...numbers];
}

/** Queues a collective; returns its job. */
function call(gpu: Gpu, given: Numbers): number {
  const numbers = new Array(COLLECTIVE_AT.numbers).fill(0);
  const all = { timeout: 5000, dtype: DTYPE.float32.id, count: 4, ...given };
  for (const [name, value] of Object.entries(all)) numbers[COLLECTIVE_AT[name as "kind"]] = value;
  return ask(gpu, CUDA_NCCL.call, numbers)[0]!;
}

/** Collectives of one rank, and what is refused. */
export function linksOfOneRank(): void {
  const gpu = opened();
  const id = new Uint8Array(128);
  failureOf(() => call(gpu, { group: 0 }), "badArgument", /no such link/);
  ask(gpu, CUDA_NCCL.load, []);
  ask(gpu, CUDA_NCCL.id, [], id);
  const [link, opening] = ask(gpu, CUDA_NCCL.open, [0, 1, 5000, 0], id) as [number, number];
  ask(gpu, CUDA_NCCL.wait, [opening]);
  failureOf(() => ask(gpu, CUDA_NCCL.take, [opening]), "notFound", /no such call/);

  const data = Float32Array.of(1, 2, 3, 4);
  const [x, y] = [gpu.allocate(16), gpu.allocate(16)];
  const plain = { group: link, in: x, out: y };
  for (const kind of Object.values(COLLECTIVE).slice(0, 5)) {
    gpu.upload(x, data);
    gpu.zero(y, 16);
    ask(gpu, CUDA_NCCL.wait, [call(gpu, { ...plain, kind })]);
    assertEquals(gpu.download(y, new Float32Array(4)), data);
  }
  // In place, and without waiting.
  const job = call(gpu, { group: link, in: x, out: x, reduction: REDUCTION.max });
  const numbers = Float64Array.of(job, 0);
  let status: number;
  do status = gpu.shim.rm_cuda_nccl(CUDA_NCCL.take, 0, numbers, null); while (
    status === STATUS.notFound
  );
  assertEquals(status, STATUS.ok);

  const wrong: Numbers[] = [
    { group: link + 1 },
    { group: -1 },
    { kind: COLLECTIVE.barrier },
    { kind: -1 },
    { dtype: DTYPE.int16.id },
    { dtype: 99 },
    { reduction: 3 },
  ];
  for (const one of wrong) {
    failureOf(() => call(gpu, { ...plain, ...one }), "badArgument", /no such link, call or dtype/);
  }
  failureOf(() => ask(gpu, 77, []), "badArgument", /no operation 77/);
  gpu.control("captureBegin");
  failureOf(() => call(gpu, plain), "badArgument", /cannot call other ranks while a graph/);
  gpu.control("graphFree", gpu.control("captureEnd"));

  // A name that is used up fails, as do calls of a link that has ended.
  const [broken, second] = ask(gpu, CUDA_NCCL.open, [0, 1, 5000, 0], id) as [number, number];
  failureOf(() => ask(gpu, CUDA_NCCL.wait, [second]), "distributed", /NCCL says: /);
  failureOf(() => call(gpu, { ...plain, group: broken }), "distributed", /is broken since/);
  ask(gpu, CUDA_NCCL.close, []);
  failureOf(() => call(gpu, plain), "distributed", /the world is closed/);
  gpu.free(x);
  gpu.free(y);
}

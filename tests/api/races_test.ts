/**
 * Memory that another worker changes during a call: no result contains elements of other memory, and
 * no index that is out of range is used.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import { Worker } from "node:worker_threads";
import {
  type AnyTensor,
  arange,
  fromBuffer,
  full,
  IndexError,
  setBackend,
  zeros,
} from "../../mod.ts";
import { DTYPE } from "../../src/base/dtype.ts";
import { Layout } from "../../src/base/layout.ts";
import { planBlocks } from "../../src/base/plan.ts";
import { cpuBackend, definitionBackend } from "../../src/core/registry.ts";
import { wrapExternal } from "../../src/memory/pool.ts";
import { Storage } from "../../src/memory/storage.ts";
import { findNative } from "../../src/backend/cpu.ts";
import { BackendCalls } from "../calls.ts";
import { loose } from "../support.ts";
import { amount } from "../support/amount.ts";

const TRIES = amount(150, 10_000);
const BACKENDS = typeof findNative() === "string" ? ["js"] as const : ["js", "native"] as const;
/** More than kernels check at once. */
const N = 6000;
/** The elements that the worker changes, far apart. */
const PLACES = [3, 900, 1800, 2700, 3600, 4500, 5100, 5999];
/** What disposed tensors contain, and no other. */
const POISON = 123_456_789;

/**
 * Runs `body` with N elements of shared memory, of which a worker changes those at `places` between
 * two values.
 */
async function withRace(
  values: readonly [number, number],
  body: (array: Int32Array<SharedArrayBuffer>) => void,
  places: readonly number[] = PLACES,
): Promise<void> {
  const buffer = new SharedArrayBuffer(4 * (N + 1));
  const array = new Int32Array(buffer, 0, N);
  array.fill(values[0]);
  const worker = new Worker(new URL("../workers/flips.ts", import.meta.url), {
    workerData: { buffer, places, values },
  });
  const ended = new Promise((resolve) => worker.once("exit", resolve));
  await new Promise((resolve) => worker.once("message", resolve));
  try {
    body(array);
  } finally {
    Atomics.store(new Int32Array(buffer), N, 1);
    await ended;
  }
}

/** Leaves poisoned memory in the pool for the next results of these lengths. */
function poison(lengths: readonly number[]): void {
  for (const dtype of ["int32", "float32"] as const) {
    const all = lengths.map((n) => full([n], POISON, { dtype }));
    for (const x of all) x.dispose();
  }
}

/** Throws if `x` contains elements of another tensor. */
function assertOwn(x: AnyTensor, what: string): void {
  const foreign = loose(x).equal(POISON).sum().item();
  assertEquals(Number(foreign), 0, `${what}: elements of disposed tensors`);
}

/** Calls `call` again and again; it may find an index out of range, and throw nothing else. */
function tries(
  what: string,
  lengths: readonly number[],
  call: () => AnyTensor | AnyTensor[],
): void {
  for (let i = 0; i < TRIES; i++) {
    poison(lengths);
    let results: AnyTensor[] = [];
    try {
      results = [call()].flat();
    } catch (error) {
      assert(error instanceof IndexError, `${what}: ${error}`);
    }
    for (const x of results) {
      assertOwn(x, what);
      x.dispose();
    }
  }
}

/** The lengths that results by a mask of N elements, most of them true, can have. */
const COUNTS = Array.from({ length: PLACES.length + 1 }, (_, i) => N - i);

test("masks that another worker changes give elements of the call's own tensors", async (t) => {
  for (const backend of BACKENDS) {
    await t.test(backend, async () => {
      setBackend(backend);
      await withRace([1, 0], (array) => {
        const mask = loose(fromBuffer(array));
        const x = loose(arange(N));
        tries("nonzero of int32", COUNTS, () => mask.nonzero());
        // The bytes of the integers, of which every fourth is 0 or 1, and the others 0.
        const dense = loose(fromBuffer(array.buffer, { dtype: "bool" })).slice(`:${4 * N}`);
        const bools = dense.slice("::4");
        const wide = loose(arange(4 * N));
        tries("nonzero of bools", COUNTS, () => dense.nonzero());
        tries("slice by a mask", COUNTS, () => x.slice(bools));
        tries("slice by a dense mask", COUNTS, () => wide.slice(dense));
        tries("set by a mask", COUNTS, () => zeros([N]).set([bools], 1) ?? []);
        tries("argmax", [1], () => {
          const found = mask.argmax();
          assert(found.item() >= 0 && found.item() < N);
          return found;
        });
      });
    });
  }
});

test("indices that another worker changes give elements of the call's own tensors", async (t) => {
  for (const backend of BACKENDS) {
    await t.test(backend, async () => {
      setBackend(backend);
      await withRace([1, N + 7], (array) => {
        const index = loose(fromBuffer(array));
        const x = loose(arange(N));
        const square = loose(arange(4 * N)).reshape([N, 4]);
        const target = loose(zeros([N]));
        const add = { accumulate: true };
        tries("slice", [N], () => x.slice(index));
        tries("slice of rows", [4 * N], () => square.slice(index));
        tries("slice by two indices", [N], () => square.slice(index, [1]));
        tries("take", [4 * N], () => square.take(index));
        tries("takeAlongAxis", [N], () => x.takeAlongAxis(index, 0));
        tries("argsort", [N], () => index.argsort());
        tries("topk", [9, 9], () => Object.values(index.topk(9)) as AnyTensor[]);
        const writes: [string, () => void][] = [
          ["set", () => target.set([index], arange(N))],
          ["set with accumulate", () => target.set([index], 1, add)],
          ["putAlongAxis_", () => target.putAlongAxis_(index, arange(N), 0)],
        ];
        for (const [what, write] of writes) {
          tries(what, [N], () => {
            target.fill_(5);
            try {
              write();
            } catch (error) {
              assert(loose(target).equal(5).all().item(), `${what}: an error changes nothing`);
              throw error;
            }
            return [];
          });
        }
      });
    });
  }
});

// Memory of other native code may be shared without a sign of it, and is not copied before a kernel.
test("a kernel tells each bad index in memory that another thread changes", async () => {
  await withRace([1, N + 7], (array) => {
    const calls = new BackendCalls(cpuBackend(), definitionBackend());
    const source = new Storage(new Int32Array(N).fill(3), DTYPE.int32, true, false);
    const out = new Storage(new Int32Array(N), DTYPE.int32, true, false);
    const indices = wrapExternal("int32", array);
    const plan = planBlocks(Layout.contiguous([N]), 1, Layout.contiguous([N]), 1, 0);
    for (let i = 0; i < amount(9000, 100_000); i++) {
      (out.array as Int32Array).fill(POISON);
      const bad = calls.gather(
        plan,
        out,
        source,
        { indices, offset: 0, count: N, size: N, stride: 1 },
        1,
      );
      const left = (out.array as Int32Array).indexOf(POISON);
      assert(left === -1 || bad >= 0, `element ${left} is not written, and no index is bad`);
    }
  }, [N - 1]);
});

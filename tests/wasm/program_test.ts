/**
 * Compiled functions on the WebAssembly module: arrays that its kernels cannot address, and a memory
 * without room.
 *
 * @module
 */
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { after } from "node:test";
import { arange, emptyCache, fromBuffer, full, random, setBackend, zeros } from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import { findWasm } from "../../src/backend/wasm/module.ts";
import type { WasmShim } from "../../src/backend/wasm/shim.ts";
import type { Any } from "../support.ts";
import { check, reason, storageOf } from "./support.ts";

const MEMORY = 2 ** 24;
if (reason === null) setBackend("wasm", { memory: MEMORY });
after(() => setBackend("js"));

const shim = (): WasmShim => findWasm() as WasmShim;

/** The values of `run()` in JavaScript. */
function expectedOf<T>(run: () => T): T {
  setBackend("js");
  try {
    return run();
  } finally {
    setBackend("wasm");
  }
}

/** The elements in row-major order. */
function listOf(x: Any): number[] {
  return x.reshape([-1]).toArray();
}

function near(x: readonly number[], y: readonly number[]): void {
  assertEquals(x.length, y.length);
  x.forEach((value, i) => assert(Math.abs(value - y[i]!) <= 1e-5 * (1 + Math.abs(value))));
}

/** Numbers from 0 to 1 in memory of the program that tests. */
function foreign(length: number): Float32Array<ArrayBuffer> {
  return Float32Array.from({ length }, (_, i) => (i * 37 % 101) / 101);
}

check("options count before the memory exists", () => {
  assertEquals(shim().memory.buffer.byteLength, MEMORY);
  assertThrows(() => setBackend("wasm", { memory: 2 ** 25 }), Error, "exists already");
  for (const memory of [0, 2 ** 32, 2 ** 24 + 0.5, NaN]) {
    assertThrows(() => setBackend("wasm", { memory }), Error, "needs a memory of");
  }
  assertThrows(() => setBackend("wasm", { module: {} }), Error, "needs a WebAssembly.Module");
  assertThrows(() => setBackend("js", { memory: MEMORY }), Error, "memory");
  assertThrows(() => setBackend("wasm", { size: 1 } as never), Error, "size");
});

check("programs read foreign arrays at each call, and captured ones too", () => {
  const [data, weights] = [foreign(40 * 50), foreign(50 * 30)];
  const x = fromBuffer(data).reshape([40, 50]), w = fromBuffer(weights).reshape([50, 30]);
  const f = (a: Any): Any => a.matmul(w).add(1).exp().sum(1);
  const compiled = compile(f);
  for (let round = 0; round < 3; round++) {
    near(listOf(compiled(x)), listOf(expectedOf(() => f(x))));
    data[3]! += 1;
    weights[7]! -= 1;
  }
  assertEquals(compiled.explain()[0]!.toString().includes("wasm: "), true);
  compiled.dispose();
});

check("programs write foreign arrays, and nothing beside what they write", () => {
  const data = foreign(2000);
  const before = data.slice();
  const x = fromBuffer(data);
  const part = x.slice("500:1500");
  const twice = compile((a: Any): Any => a.mul(2, { out: a }));
  twice(part);
  near(Array.from(data), Array.from(before, (v, i) => i >= 500 && i < 1500 ? 2 * v : v));
  const out = fromBuffer(new Float32Array(1000));
  const sum = compile((a: Any): Any => a.add(1).sqrt());
  const made = sum(part, { out } as never);
  near(listOf(out), listOf(made));
  // The elements of one are those of the other.
  const view = fromBuffer(data.subarray(0, 1000));
  const both = compile((a: Any, b: Any): Any => {
    a.add(1, { out: a });
    return b.mul(3);
  });
  const expected = Array.from(data, (v) => Math.fround(Math.fround(v + 1) * 3)).slice(0, 1000);
  near(listOf(both(x, view)), expected);
});

check("programs run without room, and nothing is lost", async () => {
  const f = (a: Any): Any => a.mul(2).add(1).exp().sub(a).reshape([500, 500]).softmax(1);
  const compiled = compile(f);
  const used = shim().memory.bytes;
  const x = random.uniform(random.key(4), [250_000]);
  const expected = listOf(expectedOf(() => f(x)));
  near(listOf(compiled(x)), expected);
  const fill: { dispose(): void }[] = [];
  for (let size = 1_000_000; size >= 100; size = Math.floor(size / 2)) {
    for (;;) {
      const one = zeros([size]);
      fill.push(one);
      if (storageOf(one).slot === null) break;
    }
  }
  for (let i = 0; i < 3; i++) near(listOf(compiled(x)), expected);
  const y = full([250_000], 0.25);
  assert(storageOf(y).slot === null);
  near(listOf(compiled(y)), listOf(expectedOf(() => f(y))));
  const later = await Promise.all([x, y, x].map((one) => compiled.async(one)));
  for (const i of [0, 2]) near(listOf(later[i]), expected);
  const another = compile((a: Any): Any => a.sub(1).abs().cumulativeSum(0));
  near([another(y).get(249_999)], [0.75 * 250_000]);
  for (const one of [...fill, x]) one.dispose();
  const z = compiled(y);
  assert(storageOf(z).slot !== null, "there is room again");
  for (const one of [z, compiled, another]) one.dispose();
  assert(shim().memory.bytes <= used + 2 ** 23, `${shim().memory.bytes} bytes in use, not ${used}`);
});

check("a kernel without room for its workspace takes what the pool keeps", async () => {
  const x: Any = arange(0, 40_000, 1, { dtype: "int32" }).mul(7919).remainder(40_009);
  const pure = compile((a: Any): Any => a.argsort(0).add(1));
  const writes = compile((a: Any): Any => {
    a.add(1, { out: a });
    return a.argsort(0).add(1);
  });
  const expected = listOf(expectedOf(() => x.argsort(0).add(1)));
  for (const f of [pure, writes]) f(x).dispose();
  let changed = 0;
  for (let hole = 100_000; hole < 1_000_000; hole += 100_000) {
    const first = zeros([hole], { dtype: "int8" });
    const others: { dispose(): void }[] = [];
    for (let n = 1_000_000; n >= 100; n >>= 1) {
      for (;;) {
        const one = zeros([n]);
        others.push(one);
        if (storageOf(one).slot === null) break;
      }
    }
    first.dispose();
    emptyCache();
    // What writes to a tensor cannot begin anew: it needs room, which is kept for reuse.
    const isPooled = hole % 200_000 === 0;
    if (isPooled) { for (const one of others) one.dispose(); }
    const f = isPooled ? writes : pure;
    const before = x.get(0);
    near(listOf(f(x)), expected);
    near(listOf(await f.async(x)), expected);
    changed += x.get(0) - before;
    if (!isPooled) { for (const one of others) one.dispose(); }
  }
  assertEquals(changed, 8);
});

check("operands that begin at the same byte of a foreign array are read and written", () => {
  for (const [n, m] of [[8, 8], [8, 4], [4, 8], [30_000, 30_000]] as const) {
    const data = new Float32Array(Math.max(n, m)).fill(1);
    const least = Math.min(n, m);
    const [a, b] = [n, m].map((length) =>
      fromBuffer(data.subarray(0, length)).slice(`:${least}`)
    ) as [Any, Any];
    a.exp({ out: b });
    near(Array.from(data.subarray(0, least)), Array(least).fill(Math.E));
    compile((x: Any, y: Any): Any => x.mul(2, { out: y }))(a, b);
    near(Array.from(data.subarray(0, least)), Array(least).fill(2 * Math.E));
  }
});

check("asynchronous calls read what tensors are at the call", async () => {
  const x = random.uniform(random.key(5), [3000]);
  const compiled = compile((a: Any): Any => a.exp().mul(3));
  const expected = listOf(compiled(x));
  const later = compiled.async(x);
  x.fill_(0);
  near(listOf(await later), expected);
});

check("an index out of range is the error of the op, and the next run works", () => {
  const x = random.uniform(random.key(6), [1000]);
  const compiled = compile((a: Any, i: Any): Any => a.mul(2).take(i, 0).add(1));
  const indices = (at: number): Any => full([300], at, { dtype: "int32" });
  near(listOf(compiled(x, indices(5))), Array(300).fill(x.get(5) * 2 + 1));
  const error = assertThrows(() => compiled(x, indices(1000)), Error);
  assertStringIncludes(error.message, "1000");
  near(listOf(compiled(x, indices(7))), Array(300).fill(x.get(7) * 2 + 1));
});

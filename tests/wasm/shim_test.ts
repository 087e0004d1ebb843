/**
 * The WebAssembly module: its memory, arrays outside of it, traps, and storages that users see.
 *
 * @module
 */
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { fromBuffer, full, random, setBackend, zeros } from "../../mod.ts";
import { STATUS } from "../../src/backend/ffi/abi.ts";
import { lastError } from "../../src/backend/ffi/text.ts";
import { WasmBackend } from "../../src/backend/wasm/backend.ts";
import { findWasm, openWasm } from "../../src/backend/wasm/module.ts";
import type { WasmShim } from "../../src/backend/wasm/shim.ts";
import { generator } from "../ops/table/operands.ts";
import { using } from "../ops/table/backends.ts";
import { check, storageOf } from "./support.ts";

function open(bytes: number): WasmShim {
  const opened = openWasm(bytes);
  if ("reason" in opened) throw new Error(opened.reason);
  return opened;
}

check("the memory gives places at cache lines that do not overlap, and takes them back", () => {
  const { memory } = open(2 ** 27);
  const bytes = new Uint8Array(memory.buffer);
  const before = memory.bytes;
  const live: [place: number, size: number, mark: number][] = [];
  const draw = generator(1);
  for (let i = 0; i < 20_000; i++) {
    if (live.length < 200 && draw() < 0.55) {
      const size = 1 + Math.floor(2 ** (20 * draw())), zeroed = draw() < 0.3, mark = 1 + i % 255;
      const place = memory.take(size, zeroed);
      assert(place > 0 && place % 64 === 0 && place + size <= bytes.length);
      if (zeroed) { for (let k = 0; k < size; k += 61) assertEquals(bytes[place + k], 0); }
      bytes.fill(mark, place, place + Math.min(size, 100));
      bytes[place + size - 1] = mark;
      live.push([place, size, mark]);
    } else if (live.length > 0) {
      const at = Math.floor(live.length * draw());
      const [place, size, mark] = live[at]!;
      assertEquals([bytes[place], bytes[place + size - 1]], [mark, mark]);
      live[at] = live.at(-1)!;
      live.pop();
      memory.give(place);
    }
  }
  for (const [place] of live) memory.give(place);
  assertEquals(memory.bytes, before);
  // Neighbors were joined again.
  const most = bytes.length - 2 ** 23 - 2 ** 20;
  const place = memory.take(most, false);
  assert(place > 0);
  assertEquals(memory.take(2 ** 20, false), 0, "a part is for kernels");
  memory.give(place);
  // Sizes near the end of all addresses.
  for (const size of [0xf0000000, 0xffffff00, 2 ** 32 - 1]) {
    assertEquals(memory.take(size, false), 0);
  }
});

check("a trap is a NativeError, and the next calls work", () => {
  const shim = open(2 ** 24);
  const { functions } = shim;
  const kernel = functions.rm_find_kernel(new TextEncoder().encode("sortRuns\0"), 0);
  const bad = new Float64Array(64).fill(2 ** 31);
  for (let i = 0; i < 3000; i++) {
    const out = new Float64Array(16);
    if (kernel >= 0) functions.rm_program_run(1e9, 0, 1);
    else functions.rm_run(0, 0, 0, bad, out, out, out, out);
  }
  const status = functions.rm_program_run(2 ** 31, 0, 1);
  assertEquals(status, STATUS.deviceError);
  assertStringIncludes(lastError(functions), "trapped");
  const x = random.normal(random.key(1), [1000]);
  const expected = x.exp().toArray();
  const y = using(new WasmBackend(shim), () => x.exp().toArray());
  expected.forEach((value, i) => assert(Math.abs(value - y[i]!) <= 1e-6 * value));
});

check("when the memory is full, storages are elsewhere and results the same", () => {
  const shim = open(2 ** 24);
  using(new WasmBackend(shim), () => {
    const x = full([250_000], 1.5);
    const kept = Array.from({ length: 40 }, (_, i) => x.add(i));
    kept.forEach((one, i) => assertEquals([one.get(0), one.get(249_999)], [1.5 + i, 1.5 + i]));
    const places = kept.map((one) => storageOf(one).slot !== null);
    assert(places.includes(true) && places.includes(false));
    assertEquals(kept.at(-1)!.sort().sum().item(), 250_000 * 40.5);
    assertEquals(kept[0]!.matmul(kept.at(-1)!).item(), 250_000 * 1.5 * 40.5);
    for (const one of [x, ...kept]) one.dispose();
    assert(storageOf(zeros([250_000])).slot !== null, "there is room again");
  });
});

check("arrays that users see are buffers of their own, before and after", () => {
  const shim = open(2 ** 24);
  using(new WasmBackend(shim), () => {
    const x = random.normal(random.key(1), [10_000]).mul(2);
    assert(storageOf(x).slot !== null);
    const used = shim.memory.bytes;
    const { data } = x;
    assert(data.buffer !== shim.memory.buffer && data.length === 10_000);
    assert(shim.memory.bytes < used, "its place is free");
    const sum = x.sum().item();
    data[0]! += 1;
    assert(Math.abs(x.sum().item() - sum - 1) < 1e-2, "kernels read it there");
    const foreign = new Float32Array(1000).fill(3);
    const y = fromBuffer(foreign);
    assertEquals(y.exp().sum().item() > 20_000, true);
    const moved = x.intoTypedArray();
    assertEquals(moved.length, 10_000);
  });
});

check("calls free what they use, with dispose and without", async () => {
  const shim = open(2 ** 24);
  const turn = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 0));
  const x = using(new WasmBackend(shim), () => full([3000], 1.5));
  const foreign = fromBuffer(new Float32Array(3000).fill(2));
  const round = (disposes: boolean): void => {
    for (let i = 0; i < 300; i++) {
      for (const made of [x.add(1), foreign.exp(), x.slice(":100").mul(2), x.sort()]) {
        if (disposes) made.dispose();
      }
    }
  };
  using(new WasmBackend(shim), () => {
    round(true);
    const used = shim.memory.bytes;
    for (let i = 0; i < 10; i++) round(true);
    assertEquals(shim.memory.bytes, used);
  });
  // More than the memory in all: engines collect garbage as they like.
  for (let i = 0; i < 30; i++) {
    using(new WasmBackend(shim), () => round(false));
    await turn();
  }
  assert(shim.memory.bytes <= 2 ** 24);
  assertEquals([x.get(2999), foreign.get(2999)], [1.5, 2]);
});

check("small storages that nothing disposes of leave room for large ones", () => {
  const shim = open(2 ** 25);
  using(new WasmBackend(shim), () => {
    const x = full([1000], 1.5);
    const kept = Array.from({ length: 4000 }, (_, i) => x.add(i));
    assert(storageOf(kept[0]).slot !== null && storageOf(kept.at(-1)).slot === null);
    assert(storageOf(zeros([4_000_000])).slot !== null, "half of the memory");
    assertEquals([kept[0]!.get(999), kept.at(-1)!.get(999)], [1.5, 4000.5]);
    assertEquals(kept.at(-1)!.exp().add(kept[0]!).shape, [1000]);
  });
});

check("setBackend takes wasm; calls that it lacks run in JavaScript", () => {
  setBackend("wasm");
  try {
    const x = random.uniform(random.key(3), [300, 300]);
    const opened = findWasm();
    assert(!("reason" in opened) && storageOf(x).slot !== null);
    assertThrows(() => setBackend("wasmm" as never), Error, "wasm");
  } finally {
    setBackend("js");
  }
});

/**
 * Large results without dispose: the library reuses their memory after the garbage collector finds
 * them unreachable, in both runtimes and without a turn of the event loop, and never before.
 *
 * Each test has a process of its own, as the counts are per process.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { totalmem } from "node:os";
import { relative } from "node:path";
import { root } from "../../scripts/tools.ts";
import { Collections } from "../../src/backend/ffi/jsc.ts";
import { amount } from "../support/amount.ts";
import { test } from "node:test";
import { check, found, inDeno, library, moduleAt, runApart } from "./support.ts";

/** The start of programs: a source of buffers, which a process opens after 64 MiB. */
const BEGIN = `import { emptyCache, full, info, memory, zeros } from ${moduleAt("mod.ts")};
const N = ${amount(250_000, 1_000_000)};
const ones = full([N], 1);
function check(what: boolean, said: unknown = ""): void {
  if (!what) throw new Error(String(said) + " " + JSON.stringify(memory()));
}
/** Makes results of 4 * N bytes that are not kept, and gives the last one. */
function churn(count: number): any {
  let last: any = ones;
  for (let i = 0; i < count; i++) last = ones.add(i);
  return last;
}
churn(${amount(80, 20)});
check(info().devices.cpu === "native");
`;

function runs(program: string): void {
  runApart(BEGIN + program);
}

check("results that are not kept take little memory, in one turn of the event loop", () => {
  runs(`const { peakBytes } = memory();
    churn(${amount(800, 1000)});
    // 0.8 or 4 GB have been made. In Deno the first 64 MiB are not of the source.
    check(memory().bytes < 600e6 && memory().peakBytes < 600e6 && peakBytes < 600e6);
    // Another thread hands over what the collector has found.
    for (let i = 0; memory().collectedBytes === 0; i++) check(i < 1000), churn(1);
    for (let i = 0; memory().collectedBytes > 0; i++) check(i < 1000), emptyCache();
    churn(100);`);
});

check("live buffers keep their elements, with any holder, and zeros are zeros", () => {
  runs(`const kept = Array.from({ length: 40 }, (_, i) => ones.mul(i));
    const views = Array.from({ length: 10 }, (_, i) => ones.mul(100 + i).slice("5:9"));
    const arrays = Array.from({ length: 10 }, (_, i) => ones.mul(200 + i).data);
    check(memory().bytes >= 40 * 4 * N && memory().peakBytes >= memory().bytes, "what is alive");
    const moved = ones.mul(300).intoTypedArray() as Float32Array;
    const sent = structuredClone(moved, { transfer: [moved.buffer] });
    check(moved.length === 0 && sent.length === N);
    for (let round = 0; round < ${amount(2, 10)}; round++) {
      check(churn(60).get(round) === 60);
      check(zeros([N]).abs().max().item() === 0, "zeros");
      const part = zeros([N - 5]);
      check(part.max().item() === 0 && part.min().item() === 0, "zeros of another size");
    }
    const same = (x: any, value: number) => x.min().item() === value && x.max().item() === value;
    kept.forEach((x, i) => check(same(x, i), "kept"));
    views.forEach((x, i) => check(same(x, 100 + i) && x.shape[0] === 4, "views"));
    arrays.forEach((x, i) => check(x.length === N && x.every((e) => e === 200 + i), "data"));
    check(sent.every((e) => e === 300), "sent");`);
});

check("results that live for a while do not pile up", () => {
  const most = amount(600, 1200);
  runs(`const ring: any[] = [];
    for (let i = 0; i < ${most}; i++) ring[i % 30] = ones.add(i);
    // 30 or 120 MB are alive.
    check(memory().peakBytes < ${amount(400e6, 600e6)});
    ring.forEach((x, i) => check(x.get(N - 1) === ${most} - 29 + i, "ring"));
    const kept = Array.from({ length: 100 }, (_, i) => ones.mul(i));
    churn(${amount(300, 600)});
    // 130 or 520 MB are.
    check(memory().peakBytes < ${amount(500e6, 1100e6)});
    kept.forEach((x, i) => check(x.get(N - 1) === i, "kept"));`);
});

/** A fake heap that tests the decisions to collect; notes the requested collections. */
class Heap {
  readonly asked: string[] = [];
  /** Bytes of reachable buffers, and of lost ones by the collection that finds them. */
  alive = 0;
  young = 0;
  old = 0;
  objects = 0;
  readonly collections: Collections = new Collections(
    this,
    () => this.inUse,
    () => this.objects,
  );

  get inUse(): number {
    return this.alive + this.young + this.old;
  }

  edenGC(): void {
    this.asked.push("eden");
    this.young = 0;
  }

  fullGC(): void {
    this.asked.push("full");
    this.young = this.old = 0;
  }

  /** Allocates 64 MiB, part of which becomes unreachable only after the first collection. */
  take(lostLate: number): boolean {
    this.collections.count(2 ** 25);
    assertEquals(this.collections.look(), false);
    this.collections.count(2 ** 25);
    this.young += 2 ** 26 - lostLate;
    this.old += lostLate;
    return this.collections.look();
  }

  /** The collections since the last call. */
  since(): string {
    return this.asked.splice(0).join(" ");
  }
}

const MIB = 2 ** 20;

test("what is new is looked through after each 64 MiB, all where much that is old may be lost", () => {
  const heap = new Heap();
  for (let i = 0; i < 100; i++) assertEquals(heap.take(0), true);
  assertEquals(heap.since(), "eden ".repeat(100).trim());
  // 16 MiB of each 64 MiB become old: 64 are new at first, 128 more justify a full collection.
  for (let i = 0; i < 9; i++) heap.take(16 * MIB);
  assertEquals(heap.since(), "eden ".repeat(8) + "full");
  assertEquals(heap.inUse, 0);
});

test("what is alive and grows makes a collector look at all of it a few times only", () => {
  const heap = new Heap();
  for (let i = 0; i < 400; i++) {
    heap.alive += 2 ** 26;
    heap.take(0);
  }
  // 25 GiB.
  const asked = heap.since().split(" ");
  assertEquals(asked.filter((one) => one === "full").length, 14);
});

test("where there are many objects, looking at all of them is left to the runtime", () => {
  const heap = new Heap();
  heap.objects = 256 * MIB;
  heap.take(0);
  heap.since();
  // 2 GiB justify it. Two collections find too few old buffers; the third is left to the runtime,
  // which collects.
  assertEquals([heap.take(64 * MIB), heap.take(64 * MIB), heap.take(64 * MIB)], [
    true,
    true,
    false,
  ]);
  assertEquals(heap.since(), "eden eden");
  heap.old = 0;
  assertEquals([heap.take(0), heap.since()], [true, "eden"]);
  heap.old = 2048 * MIB;
  assertEquals([heap.take(0), heap.since()], [true, "full"]);
});

test("what has been alive all along does not leave the runtime to itself for good", () => {
  const heap = new Heap();
  heap.objects = 256 * MIB;
  heap.take(0);
  // Weights.
  heap.alive += 512 * MIB;
  const looked: boolean[] = [];
  for (let i = 0; i < 30; i++) {
    looked.push(heap.take(0));
    // The runtime collects at times.
    if (i % 4 === 0) heap.young = 0;
  }
  assertEquals(looked.indexOf(true), 15);
  assertEquals(looked.slice(15), looked.slice(15).fill(true));
});

check("every thread counts its own, and those of one that has ended come back", () => {
  const made = amount(30, 60);
  const { bytes } = JSON.parse(runApart(
    `import { full, memory } from ${moduleAt("mod.ts")};
    import process from "node:process";
    const worker = \`
      import { full, memory } from ${moduleAt("mod.ts")};
      const ones = full([1_000_000], 1);
      const kept = [];
      for (let i = 0; i < ${made}; i++) kept.push(ones.add(i));
      const { bytes } = memory();
      if (bytes < ${4e6 * made} || bytes > ${4e6 * made + 160e6}) throw new Error(bytes);
      if (kept.at(-1).get(7) !== kept.length) throw new Error("elements");
      postMessage(null);\`;
    const url = URL.createObjectURL(new Blob([worker], { type: "text/javascript" }));
    const ones = full([1_000_000], 1);
    for (let i = 0; i < 40; i++) ones.add(i);
    for (let round = 0; round < ${amount(4, 12)}; round++) {
      const one = new Worker(url, { type: "module" });
      await new Promise((done, failed) => {
        one.onmessage = done;
        one.onerror = failed;
      });
      one.terminate();
      await new Promise((done) => setTimeout(done, 50));
    }
    // 0.5 or 3 GB in all, of which the last worker's may not have gone yet.
    console.log(JSON.stringify({ bytes: process.memoryUsage().rss }));
    process.exit();`,
    {},
    ["-A"],
  ));
  assertEquals(bytes < amount(0.45e9, 1.6e9), true, `${bytes} bytes`);
});

check("memory that is not there is an OutOfMemoryError", () => {
  // More than a buffer may have: below that, V8 collects all garbage several times before it gives up.
  runs(`for (const dtype of ["float32", "float64"] as const) {
      try {
        zeros([2 ** 52], { dtype });
        check(false, dtype);
      } catch (error) {
        check((error as Error).name === "OutOfMemoryError", error);
      }
    }`);
});

test("memory that is not there: the wait for V8's collector has a limit", {
  skip: !inDeno || !found,
}, () => {
  runs(`const { findBuffers } = await import(${moduleAt("src/backend/ffi/buffers.ts")});
    const source = findBuffers()!;
    const alive: object[] = [];
    let longest = 0;
    // Calls collect young objects now and then, which takes the longer the more of them live.
    for (let i = 0; longest < 50 && i < 1e6; i++) {
      if (i % 10 === 0) alive.push({ i });
      const begin = performance.now();
      check(source.take(2 ** 46, 0) === undefined);
      longest = Math.max(longest, performance.now() - begin);
    }
    check(longest >= 50 && source.bytes === 0, longest);`);
});

check("to allocate opens nothing", () => {
  const allocate = `import { allocate } from ${moduleAt("src/memory/pool.ts")};
    import { openedShim } from ${moduleAt("src/backend/ffi/load.ts")};
    import { full, memory, ones } from ${moduleAt("mod.ts")};
    const buffers = (): void => {
      for (let i = 0; i < 100; i++) allocate("float32", 1_000_000, false);
    };
    buffers();
    if (openedShim() !== undefined || memory().collectedBytes !== 0) throw new Error("opened");
    ones([2]).add(1);`;
  runApart(`${allocate}
    for (let i = 0; memory().collectedBytes === 0; i++) {
      buffers();
      if (i === 100) throw new Error("not used");
    }`);
  if (!inDeno) return;
  // A process without the permission to open the library does not open it.
  runApart(`${allocate}
    Deno.permissions.revokeSync({ name: "ffi" });
    let opened = 0;
    process.dlopen = () => opened++;
    buffers();
    if (opened > 0 || memory().collectedBytes !== 0) throw new Error("asked");`);
});

check("a path of the library that does not begin at the root serves buffers, too", () => {
  runApart(
    `import { full, info, memory } from ${moduleAt("mod.ts")};
    import process from "node:process";
    if (info().devices.cpu !== "native") throw new Error(info().backends.native);
    process.chdir("tests");
    const ones = full([1_000_000], 1);
    for (let i = 0; memory().collectedBytes === 0; i++) {
      ones.add(i);
      if (i === 100) throw new Error("not used");
    }`,
    { ROWMAJOR_LIB: relative(root, library) },
    ["--allow-ffi", "--allow-env", "--allow-read"],
  );
});

check("without a library that has them, buffers are the runtime's own", () => {
  runApart(
    `import { full, info, memory } from ${moduleAt("mod.ts")};
    // That the library does not run ops gives a warning.
    console.warn = () => {};
    const ones = full([1_000_000], 1);
    let last: any = ones;
    for (let i = 0; i < 60; i++) last = ones.add(i);
    if (last.get(3) !== 60 || memory().collectedBytes !== 0) throw new Error("buffers");
    if (info().devices.cpu === "native") throw new Error(info().devices.cpu);`,
    { ROWMAJOR_LIB: "/nowhere/librowmajor.so" },
    inDeno ? [] : undefined,
  );
});

check("results beyond 256 MiB come from the library, and are reused without dispose", () => {
  runs(`const { allocate } = await import(${moduleAt("src/memory/pool.ts")});
    // Nothing touches this memory, so that it takes no time.
    const kept = allocate("float32", 6.8e7, false);
    for (let i = 0; i < 60; i++) allocate("float32", 6.8e7, false);
    // 16 GB have been made.
    check(memory().peakBytes < 8e9, "the peak");
    check(kept.array.length === 6.8e7);`);
});

/** Keeps 400 MB for reuse. */
const KEEP = `const { allocate, recycle } = await import(${moduleAt("src/memory/pool.ts")});
  const made = [0, 1].map(() => allocate("uint8", 200e6, false));
  made.forEach(recycle);
  check(memory().pooledBytes === 400e6);`;

check("an idle program gives memory back, and does not wait for that when it ends", () => {
  runs(`${KEEP}
    while (memory().pooledBytes > 2 ** 28) await new Promise((done) => setTimeout(done, 100));`);
  const kept = runApart(`${BEGIN}${KEEP}
    process.on("exit", () => console.log(memory().pooledBytes));`);
  assertEquals(Number(kept), 400e6);
});

check("the memory of the process is known without permissions", () => {
  const program = `import { findMemoryLimit } from ${moduleAt("src/backend/ffi/buffers.ts")};
    import { info, ones } from ${moduleAt("mod.ts")};
    // It is unknown until an op opens the library.
    const before = findMemoryLimit();
    ones([2]).add(1);
    console.log(JSON.stringify([info().level !== null, before === undefined, findMemoryLimit()]));`;
  const [native, unknown, limit] = JSON.parse(
    runApart(program, {}, inDeno ? [`--allow-ffi=${library}`, "--allow-env", "--no-prompt"] : []),
  );
  assertEquals([native, unknown, limit > 0 && limit <= totalmem()], [true, true, true]);
  // Without the library and permissions it stays unknown in Deno.
  const none = `console.warn = () => {};${program}`;
  const [, , other] = JSON.parse(
    runApart(none, { ROWMAJOR_LIB: "/nowhere" }, inDeno ? ["--allow-env=ROWMAJOR_LIB"] : []),
  );
  assertEquals(inDeno ? other === null : other > 0 && other <= totalmem(), true, String(other));
});

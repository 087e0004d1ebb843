/**
 * Compiled functions off the event loop: the results, errors and writes of the moment of the call,
 * whatever else happens meanwhile.
 *
 * @module
 */
import {
  assert,
  assertEquals,
  assertRejects,
  assertStrictEquals,
  assertStringIncludes,
} from "@std/assert";
import { spawnSync } from "node:child_process";
import process from "node:process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import {
  arange,
  defineOp,
  DisposedError,
  DTypeError,
  full,
  IndexError,
  memory,
  ones,
  QueueFullError,
  random,
  tensor,
  TraceError,
  zeros,
} from "../../mod.ts";
import { compile, offload } from "../../src/compile/mod.ts";
import { amount } from "../support/amount.ts";
import { found, inDeno, moduleAt, runApart, when } from "../native/support.ts";
import { generator } from "../ops/table/operands.ts";
import { type Any, loose } from "../support.ts";
import { plain, sleep, testOnBackends } from "./support.ts";

const N = 200_000;

/** Some ops that keep each element as it is. */
function idle(x: Any, times = 10): Any {
  for (let i = 0; i < times; i++) x = x.neg().abs();
  return x;
}

/** Asserts that all elements of `x` are `value`. */
function assertAll(x: Any, value: number): void {
  assertEquals([x.min().item(), x.max().item()], [value, value]);
}

testOnBackends("results equal those of blocking calls", async () => {
  const w = loose(random.normal(random.key(0), [8, 6]));
  const functions: ((x: Any, n: number) => unknown)[] = [
    (x, n) => x.mul(n).add(1).softmax(),
    (x, n) => ({ sum: x.sum(0), list: [x.matmul(w), n, "t"], x, t: x.T }),
    (x, n) => [x.sort(), x.slice("::2").exp(), zeros([2]).add(n), x.astype("int32")],
    (x) => x.take(tensor([1, 0], { dtype: "int32" }), 1).mean(1, { keepDims: true }),
  ];
  for (const f of functions) {
    const compiled = loose(compile(f));
    for (
      const x of [random.normal(random.key(1), [5, 8]), zeros([5, 8]), ones([8, 5]).T] as Any[]
    ) {
      for (const n of [2, -1.5]) {
        assertEquals(plain(await compiled.async(x, n)), plain(compiled(x, n)));
      }
    }
  }
});

testOnBackends("tensors are read as they are at the call", async () => {
  const w = loose(ones([N]));
  const f = loose(compile((x: Any) => idle(x).add(w)));
  const changes: ((x: Any) => unknown)[] = [
    (x) => x.mul_(100),
    (x) => x.slice("5:").add_(1),
    (x) => x.data.fill(7),
    (x) => x.intoTypedArray().fill(7),
    (x) => x.dispose(),
    // Pointers need the native library.
    ...found ? [(x: Any) => x.withPointer(() => x.isDisposed || x.add_(1))] : [],
    (x) => x.intoCow().add_(1),
    () => w.add_(1),
    () => w.data.fill(3),
    () => w.mul_(2),
  ];
  for (const change of changes) {
    const x = full([N], 5);
    const added = w.max().item();
    const calls = [f.async(x), f.async(x), f.async(x)];
    change(x);
    // Memory that is free now gets other elements.
    for (let i = 0; i < 3; i++) full([N], 99);
    for (const made of await Promise.all(calls)) assertAll(made, 5 + added);
  }
});

testOnBackends("numbers and keys are those of each call", async () => {
  const f = loose(
    compile((key: Any, n: number) => [random.bits(key, [1000]), idle(ones([N])).mul(n), n]),
  );
  const calls = Array.from({ length: 20 }, (_, i) => f.async(random.key(i), i));
  f(random.key(77), 77);
  const made = await Promise.all(calls);
  made.forEach(([bits, ones, n], i) => {
    assertEquals(plain(bits), plain(random.bits(random.key(i), [1000])));
    assertAll(ones, i);
    assertEquals(n, i);
  });
});

testOnBackends("calls end in order, also of two programs", async () => {
  const [f, g] = [compile((x: Any) => idle(x)), compile((x: Any) => x.add(1))].map(loose);
  const ends: number[] = [];
  const note = (i: number) => (): unknown => ends.push(i);
  await Promise.all([
    f.async(ones([N])).then(note(0)),
    g.async(ones([N])).then(note(1)),
    f.async(ones([10])).then(note(2)),
    g.async(ones([3])).then(note(3)),
  ]);
  assertEquals(ends, [0, 1, 2, 3]);
  // More calls than a program has frames.
  ends.length = 0;
  const many = Array.from({ length: 8 }, (_, i) => f.async(ones([N])).then(note(i)));
  await Promise.all([...many, g.async(ones([3])).then(note(8)), f.async(ones([2])).then(note(9))]);
  assertEquals(ends, Array.from({ length: 10 }, (_, i) => i));
});

testOnBackends(
  "writes to arguments and captured tensors are there when the call ends",
  async () => {
    const count = loose(zeros([]));
    const f = loose(compile((x: Any) => {
      x.slice("1:").add_(1);
      count.add_(1);
      return x;
    }));
    const x = loose(zeros([N]));
    assertStrictEquals(await f.async(x), x);
    assertEquals([x.sum().item(), count.item()], [N - 1, 1]);
    const copy = x.copy();
    await f.async(x);
    assertEquals([x.sum().item(), copy.sum().item(), count.item()], [2 * N - 2, N - 1, 2]);
  },
);

testOnBackends("out gets the results of the moment of the call", async () => {
  const f = loose(compile((x: Any, y: Any) => [x, x.add(1), y, x.flip()]));
  const [x, y] = [arange(1000), ones([1000])].map(loose);
  const out = [zeros([1000]), y, zeros([1000]), zeros([1000])].map(loose);
  const expected = plain([x, x.add(1), y, x.flip()]);
  const call = f.async(x, y, { out });
  x.mul_(10);
  assertStrictEquals(await call, out);
  assertEquals(plain(out), expected);
  const late = f.async(x, y, { out });
  out[3].dispose();
  await assertRejects(() => late, DisposedError);
  await assertRejects(() => f.async(x, y, { out: [x] }), TypeError, "array of 4");
});

testOnBackends("errors keep their types", async () => {
  const take = loose(compile((x: Any, i: Any) => idle(x).take(i)));
  const index = (i: number): Any => tensor([i], { dtype: "int32" });
  const [x, bad] = [ones([N]), index(N)];
  assertAll(await take.async(x, index(3)), 1);
  const call = take.async(x, bad);
  bad.set(["..."], 0);
  await assertRejects(() => call, IndexError, `at ${N}`);
  const add = loose(compile((x: Any, n: number) => x.add(n)));
  await assertRejects(() => add.async(index(1), 0.5), DTypeError, "0.5");
  const gone = ones([2]);
  gone.dispose();
  await assertRejects(() => add.async(gone, 1), DisposedError);
  await assertRejects(
    () => loose(compile((x: Any) => x.sum().item())).async(x),
    TraceError,
    "item",
  );
  await assertRejects(() => offload(() => Promise.resolve(1)), TraceError, "async");
  const mine = new Error("mine");
  const thrown = offload(() => {
    throw mine;
  });
  assertStrictEquals(await thrown.catch((error) => error), mine);
  let traced: Promise<unknown> | undefined;
  compile((x: Any) => {
    traced = add.async(x, 1);
    traced!.catch(() => {});
    return x;
  })(x);
  await assertRejects(() => traced!, TraceError, "async()");
  add.dispose();
  await assertRejects(() => add.async(x, 1), DisposedError);
  for (const bad of [null, 3, "f"]) await assertRejects(() => offload(loose(bad)), TypeError);
  await assertRejects(() => offload(() => 1, loose({ stop: 1 })), TypeError, "stop");
});

testOnBackends("a signal drops a call that has not started", async () => {
  const f = loose(compile((x: Any) => idle(x)));
  const x = ones([N]);
  await assertRejects(
    () => f.async(x, { signal: AbortSignal.abort(new Error("early")) }),
    Error,
    "early",
  );
  const control = new AbortController();
  const calls = Array.from(
    { length: 8 },
    (_, i) => f.async(x, i < 7 ? {} : { signal: control.signal }),
  );
  const settled = Promise.allSettled(calls);
  control.abort(new RangeError("mine"));
  const last = (await settled).at(-1) as PromiseRejectedResult;
  assertEquals([last.reason.name, last.reason.message], ["RangeError", "mine"]);
  assertAll(await f.async(x, { signal: new AbortController().signal }), 1);
});

testOnBackends("more calls than the queue has room for are QueueFullErrors", async () => {
  const f = loose(compile((x: Any) => x.add(1)));
  const g = loose(compile((x: Any) => x.add(1)));
  const settled = await Promise.allSettled(
    Array.from({ length: 1200 }, (_, i) => (i % 2 === 0 ? f : g).async(tensor([i]))),
  );
  const failed = settled.filter((one) => one.status === "rejected");
  assert(failed.length > 0 && failed.length < 200, `${failed.length}`);
  for (const one of failed) assert(one.reason instanceof QueueFullError);
  settled.forEach((one, i) => one.status === "rejected" || assertEquals(one.value.item(), i + 1));
  assertEquals((await f.async(tensor([1]))).item(), 2);
});

testOnBackends("calls in flight end although their program is freed or prepared anew", async () => {
  const w = loose(ones([N]));
  // w + 1 is a constant of the program.
  const f = loose(compile((x: Any) => idle(x.mul(w.add(1))), { maxPrograms: 1 }));
  const calls = Array.from({ length: 8 }, (_, i) => f.async(full([N], i)));
  w.add_(1);
  const next = f.async(full([N], 1));
  for (let i = 0; i < 4; i++) full([N], 99);
  const small = f.async(full([1], 1));
  f.dispose();
  for (let i = 0; i < 4; i++) full([N], 99);
  (await Promise.all(calls)).forEach((one, i) => assertAll(one, 2 * i));
  assertAll(await next, 3);
  assertAll(await small, 3);
  assertEquals(w.storage.handles, 1);
});

testOnBackends("eager calls and other programs are right meanwhile", async () => {
  const [f, g] = [compile((x: Any) => idle(x, 30)), compile((x: Any) => x.mul(3))].map(loose);
  let running = 3;
  const calls = [1, 2, 3].map((i) => f.async(full([N], i)).finally(() => running--));
  const x = loose(arange(1000));
  while (running > 0) {
    assertEquals(x.add(1).sum().item(), 500_500);
    assertEquals(g(x).sum().item(), 1_498_500);
    assertAll(f(full([10], 4)), 4);
    await sleep(0);
  }
  (await Promise.all(calls)).forEach((one, i) => assertAll(one, i + 1));
});

testOnBackends("offload() computes once, and tensors of the moment of the call", async () => {
  const x = loose(full([N], 2));
  const call = offload(() => ({ sum: x.sum(), n: 5, x }));
  x.mul_(0);
  const made = await call;
  assertEquals([made.sum.item(), made.n], [2 * N, 5]);
  assertStrictEquals(made.x, x);
  assertEquals(x.storage.handles, 1);
});

const TWICE = defineOp({
  name: "compiledTwice",
  infer: ([x]: Any) => x,
  run: ([x]: Any, [y]: Any) => {
    const doubled = calledInside === undefined ? null : calledInside(full([3], 5));
    for (let i = 0; i < 3; i++) y.data[i] = 2 * x.data[i] + (doubled?.toArray()[0] ?? 0);
  },
} as Any);
let calledInside: Any;

testOnBackends("a program may be called by an op that it runs", async () => {
  calledInside = undefined;
  const f: Any = compile((x: Any) => loose(TWICE(x.mul(1))).add(1));
  assertEquals(f(ones([3])).toArray(), [3, 3, 3]);
  let depth = 0;
  calledInside = (x: Any): Any => depth++ === 0 ? f(x) : undefined;
  const expected = [3 + 11, 3 + 11, 3 + 11];
  assertEquals(f(ones([3])).toArray(), expected);
  depth = 0;
  assertEquals((await f.async(ones([3]))).toArray(), expected);
  calledInside = undefined;
  assertEquals(f(ones([3])).toArray(), [3, 3, 3]);
});

/** Random calls, cancelled, disposed of and written to at random. Returns how many ended well. */
async function storm(calls: number, seed: number): Promise<number> {
  const next = generator(seed);
  const int = (n: number): number => Math.floor(next() * n);
  const w = loose(ones([]));
  let weight = 1;
  const make = (): Any =>
    compile((x: Any, n: number) => [x.mul(n).add(w), x.sum()], { maxPrograms: 4 });
  let f = loose(make());
  let ended = 0;
  const waiting = new Set<Promise<unknown>>();
  for (let i = 0; i < calls; i++) {
    const [size, value, n] = [1 + int(6) * 40, int(10), int(10)];
    const x = loose(full([size], value));
    const control = next() < 0.2 ? new AbortController() : undefined;
    const expected = value * n + weight;
    const call = f.async(x, n, control === undefined ? {} : { signal: control.signal })
      .then(([made, sum]: Any[]) => {
        assertAll(made, expected);
        assertEquals(sum.item(), size * value);
        made.dispose();
        sum.dispose();
        ended++;
      }, (error: Error) => {
        assert(control !== undefined && error.name === "AbortError", String(error));
      })
      .finally(() => waiting.delete(call));
    waiting.add(call);
    if (control !== undefined && next() < 0.7) control.abort();
    const what = int(6);
    if (what === 0) x.mul_(0);
    else if (what === 1) x.dispose();
    else if (what === 2) x.data.fill(-1);
    if (int(20) === 0) w.set(["..."], weight = int(9));
    if (int(50) === 0) {
      f.dispose();
      f = loose(make());
    }
    if (int(200) === 0) collect();
    if (!x.isDisposed) x.dispose();
    if (waiting.size > 100 || next() < 0.05) await Promise.race(waiting);
  }
  await Promise.all(waiting);
  f.dispose();
  assertEquals(w.storage.handles, 1);
  return ended;
}

function collect(): void {
  loose(globalThis).Bun?.gc(true);
  loose(globalThis).gc?.();
}

testOnBackends("random calls, cancels, writes, disposals and collections", async () => {
  const calls = amount(600, 10_000);
  await storm(calls / 2, 1);
  const before = memory().bytes;
  const ended = await storm(calls, 2);
  assert(ended > calls / 2, `${ended}`);
  const more = memory().bytes - before;
  assert(more < 1 << 22, `${more} bytes more`);
});

const LIFE = fileURLToPath(new URL("async_life.ts", import.meta.url));

for (
  const [name, status, output] of [
    ["pending", 0, "all 5"],
    ["exit", 3, ""],
    ["throw", 1, ""],
    ["worker", 0, "ended\nall 5"],
    ["workers", 0, "right true\nright true\nall 5"],
  ] as const
) {
  test(...when({}, `a process ends: ${name}`, () => {
    const args = inDeno ? ["run", "-A", "--quiet", "--no-check", LIFE, name] : [LIFE, name];
    const { stdout, stderr, status: code } = spawnSync(process.execPath, args, {
      encoding: "utf8",
      timeout: 60_000,
    });
    assertEquals([code, stdout.trim()], [status, output], stderr);
    assert(name === "throw" ? stderr.includes("on purpose") : stderr === "", stderr);
  }));
}

test(...when(
  {},
  "async() works with the permissions that the library needs, and without any",
  () => {
    const program = `
    import { info, ones } from ${moduleAt("mod.ts")};
    import { compile } from ${moduleAt("src/compile/mod.ts")};
    const f = compile((x) => x.mul(2).sum());
    console.log((await f.async(ones([1000]))).item(), info().async);
  `;
    const where = (permissions: string[]): string => runApart(program, {}, permissions).trim();
    assertEquals(where(["--allow-ffi", "--allow-env"]), "2000 on another thread");
    if (inDeno) assertStringIncludes(where([]), "2000 in a later task: ");
  },
));

/**
 * The arena of programs: all programs of a thread use the same memory for intermediate results, one
 * after the other. Counts bytes.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import { defineOp, emptyCache, info, memory, ones, random, scope, tensor } from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import { giveArena, takeArena } from "../../src/memory/pool.ts";
import { checkCompiled, COMPILED } from "../device/compiled.ts";
import { check } from "../native/support.ts";
import { type Any, loose } from "../support.ts";
import { plain } from "./support.ts";

const f = (x: Any): Any => x.matmul(x.T).sin().matmul(x).cos().sum(1);
const square = (n: number): Any => random.normal(random.key(n), [n, 64]);
/** The memory in use. Garbage collectors may free some at any time. */
const used = (): number => memory().bytes - memory().pooledBytes;
const arenaOf = (compiled: Any): number[] =>
  compiled.explain().map(({ data }: Any) => data.bytes.arena);

check("programs of 32 shapes and other functions keep one arena, which emptyCache frees", () => {
  emptyCache();
  const [start, before] = [memory().bytes, used()];
  const programs = [compile(f), compile((x: Any) => f(x).mul(2))];
  const sizes = Array.from({ length: 40 }, (_, i) => 200 + (i * 7) % 40 * 10);
  for (const n of sizes) {
    for (const program of programs) {
      scope(() => {
        const x = square(n);
        assert(program(x).shape[0] === n);
      });
    }
  }
  const arenas = programs.flatMap(arenaOf);
  const largest = Math.max(...arenas);
  assert(arenas.length === 64 && arenas.every((bytes) => bytes > 4 * 200 * 200));
  // The tensors between the calls are in the cache, too.
  const kept = info().programs.arenaBytes;
  assert(kept >= largest && kept <= largest + 64, `${kept}, not ${largest}`);
  assert(used() - before < 100_000, `${used() - before} bytes in use`);
  assert(memory().pooledBytes >= kept);
  emptyCache();
  assertEquals([info().programs.arenaBytes, memory().pooledBytes], [0, 0]);
  assert(memory().bytes - start < 100_000);
  // Programs made before take new memory.
  for (const n of [200, 590, 300]) {
    const x = square(n);
    assert(programs[0]!(x).allclose(f(x), { rtol: 1e-4, atol: 1e-3 }));
  }
  for (const one of programs) one.dispose();
});

check("small and large programs take turns", () => {
  emptyCache();
  const program = compile(f);
  for (const n of [10, 400, 10, 11, 300, 400, 12]) {
    const x = square(n);
    assert(program(x).allclose(f(x), { rtol: 1e-4, atol: 1e-3 }));
  }
  const largest = Math.max(...arenaOf(program));
  assertEquals(info().programs.arenaBytes, largest + 64);
  program.dispose();
});

check("a program that runs in an op of another has an arena of its own", () => {
  const inner = compile(f);
  const op = loose(defineOp({
    name: `inner${Math.random().toString(36).slice(2)}`,
    infer: ([x]) => ({ shape: [x!.shape[0]!], dtype: "float32" }),
    run: ([x], [out]) => {
      const made = scope(() => inner(tensor(x!.data as Float32Array).reshape(x!.shape)));
      out!.data.set(made.toTypedArray() as never);
      made.dispose();
    },
  }));
  const outer = (run: (x: Any) => Any) => (x: Any): Any => {
    const a = x.matmul(x.T).sin();
    const b = run(x);
    return a.matmul(x).sum(1).add(b).add(a.sum(1));
  };
  const compiled = compile(outer(op));
  for (const n of [100, 130, 100]) {
    const x = square(n);
    assert(loose(compiled(x)).allclose(outer(f)(x), { rtol: 1e-3, atol: 1e-2 }), `${n} rows`);
  }
  compiled.dispose();
  inner.dispose();
});

check(
  "asynchronous runs at the same time have arenas of their own, of which one is kept",
  async () => {
    emptyCache();
    const before = used();
    const program = compile(f);
    const xs = [200, 210, 200, 220, 230, 200, 210, 240].map(square);
    const runs = xs.map((x) => program.async(x) as Promise<Any>);
    const now = program(xs[0]!);
    for (const [i, run] of runs.entries()) {
      const made = await run;
      scope(() => assert(made.allclose(f(xs[i]!), { rtol: 1e-4, atol: 1e-3 }), `run ${i}`));
      made.dispose();
    }
    now.dispose();
    const largest = Math.max(...arenaOf(program));
    assertEquals(info().programs.arenaBytes, largest + 64);
    for (const x of xs) x.dispose();
    assert(used() - before < 100_000, `${used() - before} bytes in use`);
    program.dispose();
    emptyCache();
    assertEquals(info().programs.arenaBytes, 0);
  },
);

check("an error gives the arena back", () => {
  emptyCache();
  const before = used();
  const take = compile((x: Any, i: Any) => x.matmul(x.T).sin().matmul(x).take(i, 0));
  const x = square(200);
  const index = (i: number): Any => tensor([i], { dtype: "int32" });
  scope(() => void take(x, index(3)));
  const kept = info().programs.arenaBytes;
  assert(kept > 0);
  for (let i = 0; i < 3; i++) {
    let name = "";
    scope(() => {
      try {
        take(x, index(200));
      } catch (error) {
        ({ name } = error as Error);
      }
    });
    assertEquals([name, info().programs.arenaBytes], ["IndexError", kept]);
  }
  x.dispose();
  take.dispose();
  assert(used() - before < 100_000);
});

/** Writes what no program expects to the arena of the next run. */
function spoil(): void {
  const arena = takeArena(1 << 20);
  arena.fill(0xff);
  giveArena(arena);
}

for (const [name, program] of COMPILED) {
  check(`programs read nothing that other programs have left in the arena, ${name}`, () => {
    spoil();
    checkCompiled(program, "cpu");
  });
}

check("small constants stay as they are in a program whose arena others have used", () => {
  const g = (x: Any, n: number): Any => x.add(0.125).mul(n).softmax().sub(tensor([1, 2, 3])).sum(1);
  const program = compile(g);
  const x = ones([40, 3]);
  for (let i = 0; i < 4; i++) {
    spoil();
    assertEquals(plain(program(x, i)), plain(compile(g)(x, i)));
    assert(loose(program(x, i)).allclose(g(x, i)));
  }
});

test("memory counts no arena before a program needs one", () => {
  emptyCache();
  assertEquals(info().programs.arenaBytes, 0);
  const program = compile((x: Any) => x.add(1));
  program(ones([1000]));
  assertEquals(info().programs.arenaBytes, 0);
});

check("elementwise results take the memory of an operand that nothing else reads", () => {
  const x = random.normal(random.key(1), [64, 64]);
  const bytes = 64 * 64 * 4;
  const buffersOf = (g: (x: Any) => Any): number => {
    const program: Any = compile(g as never);
    const made = program(x);
    assert(made.allclose(g(x), { rtol: 1e-5, atol: 1e-5 }));
    const [arena] = arenaOf(program);
    program.dispose();
    return Math.floor(arena! / bytes);
  };
  assertEquals(buffersOf((x) => x.matmul(x).sin().matmul(x)), 1);
  assertEquals(buffersOf((x) => x.matmul(x).add(x.sum(0)).sin().mul(2).matmul(x)), 1);
  // Something else reads the operand: later, at other places, or as another part of it.
  const later = (x: Any): Any => {
    const y = x.matmul(x);
    return y.sin().matmul(y);
  };
  assertEquals(buffersOf(later), 2);
  const transposed = (x: Any): Any => {
    const y = x.matmul(x);
    return y.T.sub(y).matmul(x);
  };
  assertEquals(buffersOf(transposed), 2);
  const reversed = (x: Any): Any => x.matmul(x).flip(0).sin().matmul(x);
  assertEquals(buffersOf(reversed), 2);
});

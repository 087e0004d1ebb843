/**
 * Ops whose results a program does not use: they throw where the function throws, and what cannot
 * throw is dropped.
 *
 * @module
 */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { attempt, defineOp, IndexError, linalg, LinAlgError, tensor, zeros } from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import { operands, PROGRAMS } from "../ops/programs.ts";
import { type Any, loose } from "../support.ts";
import { testOnBackends as test } from "./support.ts";

/** Programs of the process, of files and of what is outside of programs. */
const ABOUT = [
  /^(io\.|nn\.(findModel|open)|set(Backend|Threads)$)/,
  /^(capture|cuda|compile|constructor|dispose|emptyCache|offload|profile|synchronize|warmUp)$/,
];

/** The operands with values that ops may refuse. */
const BAD: Record<string, (x: Any) => Any> = {
  "indices above": (x) => x.dtype === "int32" ? x.mul(0).add(99) : x,
  "indices below": (x) => x.dtype === "int32" ? x.mul(0).add(-99) : x,
  NaN: (x) => x.dtype === "float32" ? x.mul(NaN) : x,
  infinities: (x) => x.dtype === "float32" ? x.mul(Infinity) : x,
  "negative numbers": (x) => x.dtype === "bool" ? x : x.mul(-1),
};

for (const [what, make] of Object.entries(BAD)) {
  test(`unused results of every program for ${what}: the errors of the program`, () => {
    const given = (): Any =>
      Object.fromEntries(Object.entries(operands()).map(([key, x]) => [key, make(x)]));
    const later = (one: Promise<unknown>): unknown => one.catch(() => {});
    let refused = 0;
    for (const [name, program] of PROGRAMS) {
      if (ABOUT.some((pattern) => pattern.test(name))) continue;
      const run = (t: object) => void loose(program({ ...t, later }))?.catch?.(() => {});
      const { error } = attempt(() => run(given()));
      if (error === undefined || attempt(() => run(operands())).error !== undefined) continue;
      using compiled = compile((t: Any) => {
        run(t);
        return t.y.add(1);
      });
      const found = attempt(() => compiled(given())).error;
      // Shapes that depend on values are errors of their own.
      if (found?.name === "TraceError") continue;
      assertEquals([name, found?.name, found?.message], [name, error.name, error.message]);
      refused++;
    }
    assert(refused > 0);
  });
}

test("unused results of decompositions and of functions of the program throw", async () => {
  const refuse = loose(defineOp({
    name: `refuses${Math.random().toString(36).slice(2)}`,
    infer: ([x]) => x!,
    run: ([x]) => {
      if ((x!.data as Float32Array)[0] === 0) throw new RangeError("no zeros");
    },
  }));
  const programs: [f: (x: Any) => unknown, error: typeof LinAlgError | typeof RangeError][] = [
    [(x) => linalg.inv(x), LinAlgError],
    [(x) => linalg.cholesky(x.sub(1)), LinAlgError],
    [(x) => refuse(x.reshape([-1])), RangeError],
  ];
  for (const [unused, error] of programs) {
    const compiled = loose(compile((x: Any) => {
      unused(x);
      return x.add(1);
    }));
    assertThrows(() => compiled(zeros([2, 2])), error as never);
    await assertRejects(() => compiled.async(zeros([2, 2])), error as never);
  }
});

test("a program that throws leaves its out as it was", () => {
  const out = [zeros([2, 2]), zeros([2, 2])];
  const invert = loose(compile((x: Any) => [x.add(1), linalg.inv(x)]));
  assertThrows(() => invert(zeros([2, 2]), { out }), LinAlgError);
  const pick = loose(compile((x: Any, i: Any) => [x.add(1), x.take(i)]));
  assertThrows(() => pick(zeros([2, 2]), tensor([0, 5], { dtype: "int32" }), { out }), IndexError);
  assertEquals(out.map((x) => x.toArray()), [[[0, 0], [0, 0]], [[0, 0], [0, 0]]]);
});

test("unused ops that accept all values are dropped", () => {
  const compiled = compile((x: Any) => {
    x.matmul(x).softmax();
    x.sort();
    return x.add(1);
  });
  compiled(zeros([2, 2]));
  assertEquals(compiled.explain().map(({ data }) => data.ops.length), [1]);
});

test("chains that nothing uses run where dead code stays", () => {
  const f = (x: Any): Any => {
    x.sin().mul(2);
    return x.add(1);
  };
  using compiled = compile(f, { optimize: { deadCode: false } });
  assertEquals(compiled(tensor([1, 2])).toArray(), [2, 3]);
  assertEquals(compiled.explain().map(({ data }) => data.ops.length), [2]);
});

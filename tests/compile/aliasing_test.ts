/**
 * Programs on memory that several tensors, calls or callers reach: views, buffers of the caller,
 * copies on write, runs at the same time.
 *
 * @module
 */
import { assertEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import { fromBuffer, memory, random, Tensor, tensor, TraceError, zeros } from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import { type Any, iota, loose } from "../support.ts";
import { testOnBackends } from "./support.ts";

/** Two tensors on one buffer. */
function twice(values: number[]): [Any, Any, Float32Array] {
  const array = Float32Array.from(values);
  return [fromBuffer(array), fromBuffer(array), array];
}

test("ops keep their order around writes of memory that another argument shows", async () => {
  const w = random.normal(random.key(1), [4, 4]);
  const programs: ((x: Any, y: Any) => Any)[] = [
    (x, y) => {
      const before = x.mul(2);
      y.add_(5);
      return [before, x.mul(2), y];
    },
    (x, y) => {
      const product = x.reshape([1, 4]).linear(w);
      y.add_(1);
      return product.relu().add(x.reshape([1, 4]));
    },
  ];
  for (const f of programs) {
    const expected = [f(...twice([1, 2, 3, 4]).slice(0, 2) as [Any, Any])].flat();
    const compiled = compile(f);
    for (let round = 0; round < 2; round++) {
      const [x, y] = twice([1, 2, 3, 4]);
      const found = [compiled(x, y)].flat();
      found.forEach((one, i) => assertEquals(one.toArray(), expected[i].toArray()));
      const [p, q] = twice([1, 2, 3, 4]);
      const later = [await loose(compiled).async(p, q)].flat();
      later.forEach((one, i) => assertEquals(one.toArray(), expected[i].toArray()));
    }
    compiled.dispose();
  }
});

test("an asynchronous run writes the elements of its view only", async () => {
  const x = zeros([2, 400]);
  const compiled = compile((row: Any) => row.add_(1).sum());
  const run = loose(compiled).async(x.slice(0));
  x.slice(1).add_(7);
  assertEquals((await run).item(), 400);
  assertEquals([x.get(0, 5), x.get(1, 5)], [1, 7]);
});

test("a buffer of the caller that a program wraps is read and written in each run", () => {
  const array = Float32Array.of(1, 2);
  const read = compile((x: Any) => x.add(loose(fromBuffer(array)).mul(2)));
  assertEquals(read(zeros([2])).toArray(), [2, 4]);
  array[0] = 50;
  assertEquals(read(zeros([2])).toArray(), [100, 4]);
  const write = compile((x: Any) => {
    loose(fromBuffer(array)).add_(x);
    return x;
  });
  for (let i = 0; i < 2; i++) write(tensor([1, 1]));
  assertEquals([...array], [52, 4]);
});

test("blocking calls run while asynchronous ones use all frames", async () => {
  const compiled = loose(compile((x: Any) => x.mul(3).add(1).relu()));
  const x = iota([40, 40]);
  const expected = compiled(x).toArray();
  for (let round = 0; round < 3; round++) {
    const runs = Array.from({ length: 7 }, () => compiled.async(x));
    assertEquals(compiled(x).toArray(), expected);
    runs.push(compiled.async(x));
    assertEquals(compiled(x).toArray(), expected);
    for (const run of runs) assertEquals((await run).toArray(), expected);
  }
});

test("what looks like attention is computed as it is written", () => {
  const make = (shape: number[], salt: number): Any => random.normal(random.key(salt), shape);
  const attend = (q: Any, k: Any, v: Any, m: Any): Any =>
    q.matmul(k.mT).mul(0.5).add(m).softmax(-1).matmul(v);
  const cases: [number[], number[], number[], Any][] = [
    // A bool is added as 0 or 1.
    [[1, 2, 3, 4], [1, 2, 5, 4], [1, 2, 5, 4], make([3, 5], 9).greater(0)],
    // The mask broadcasts the scores.
    [[1, 1, 3, 4], [1, 1, 5, 4], [2, 1, 5, 4], make([2, 1, 3, 5], 9)],
    [[1, 1, 1, 4], [1, 1, 5, 4], [1, 1, 5, 4], make([1, 1, 3, 5], 9)],
    [[1, 1, 3, 4], [1, 1, 1, 4], [1, 1, 5, 4], make([1, 1, 3, 5], 9)],
  ];
  for (const [q, k, v, mask] of cases) {
    const inputs = [make(q, 1), make(k, 2), make(v, 3), mask] as const;
    const [found, expected] = [compile(attend)(...inputs), attend(...inputs)];
    assertEquals(found.shape, expected.shape);
    assertEquals(found.allclose(expected, { atol: 1e-5 }), true);
  }
});

test("attention whose mask was added to another view of the scores", () => {
  const make = (shape: number[], salt: number): Any => random.normal(random.key(salt), shape);
  const cases: [batch: number[], mask: number[]][] = [
    [[1, 2], [1, 1, 3, 5]],
    [[1, 2], [1, 2, 1, 5]],
    // These fit the other view alone.
    [[2, 2], [2, 1, 3, 5]],
    [[2, 3], [3, 1, 5]],
  ];
  for (const [batch, mask] of cases) {
    const heads = batch[0]! * batch[1]!;
    const attend = (q: Any, k: Any, v: Any, m: Any): Any =>
      q.matmul(k.mT).reshape([...batch, 3, 5]).add(m).reshape([heads, 3, 5]).softmax(-1).matmul(v);
    const inputs = [
      ...[make([heads, 3, 4], 1), make([heads, 5, 4], 2), make([heads, 5, 4], 3)],
      make(mask, 9),
    ] as [Any, Any, Any, Any];
    const found = compile(attend)(...inputs);
    assertEquals(found.allclose(attend(...inputs), { atol: 1e-5 }), true);
  }
});

test("containers whose contents may change are no arguments", () => {
  const f = loose(compile((x: Any, _: unknown) => x.add(1)));
  for (const one of [new Float32Array(2), new Map(), new Set(), new DataView(new ArrayBuffer(2))]) {
    assertThrows(() => f(zeros([2]), one), TraceError, "argument 1");
    assertThrows(() => f(zeros([2]), { deep: [one] }), TraceError, "1.deep[0]");
  }
});

test("out gets its results without a copy, also after its array was read", () => {
  const size = 1 << 20;
  using out = zeros([size]);
  const compiled = loose(compile((x: Any) => x.add(1).mul(2)));
  const x = zeros([size]);
  compiled(x, { out });
  assertEquals([out.data[0], x.data[0]], [2, 0]);
  // Any further array of this size would be above the peak.
  const fillers = [];
  while (memory().bytes + 4 * size <= memory().peakBytes) fillers.push(zeros([size]));
  const { peakBytes } = memory();
  x.fill_(1);
  compiled(x, { out });
  assertEquals([out.get(0), out.get(size - 1), memory().peakBytes], [4, 4, peakBytes]);
  for (const filler of fillers) filler.dispose();
});

test("out may share the buffer of an argument", () => {
  const [x, out] = twice([1, 2, 3, 4]);
  const compiled = loose(compile((x: Any) => [x.flip(0), x.add(1)]));
  const other = zeros([4]);
  compiled(x, { out: [out, other] });
  assertEquals([out.toArray(), other.toArray()], [[4, 3, 2, 1], [2, 3, 4, 5]]);
  // Its reads and its writes are of the same elements in another order.
  const flipped = loose(compile((x: Any) => x.flip(0)));
  flipped(x, { out });
  flipped(other, { out: other });
  assertEquals([out.toArray(), other.toArray()], [[1, 2, 3, 4], [5, 4, 3, 2]]);
});

testOnBackends(
  "a tensor that is in a result several times is written to each of its outs",
  async () => {
    const f = (x: Any): Any => {
      const y = x.add(1);
      return [y, { again: y, deep: [y] }, x, x];
    };
    const compiled = loose(compile(f));
    const x = tensor([1, 2, 3]);
    const outs: Any[] = [];
    const make = (): Any => outs[outs.push(zeros([3])) - 1];
    const out = (): Any => [make(), { again: make(), deep: [make()] }, make(), make()];
    compiled(x, { out: out() });
    await compiled.async(x, { out: out() });
    const expected = [[2, 3, 4], [2, 3, 4], [2, 3, 4], [1, 2, 3], [1, 2, 3]];
    assertEquals(outs.map((one) => one.toArray()), [...expected, ...expected]);
  },
);

testOnBackends("ops made of others leave constants and copies of arguments in memory", async () => {
  const f = (x: Any): Any => {
    const own = loose(tensor)([3, 1, 2]).mul_(2);
    x.set([0], 5);
    const found = [own.topk(2, 0), x.topk(2, 0)].flat();
    // They would take the memory of what was freed.
    return [
      own,
      x.add(0),
      ...found.flatMap((one: Any) => Object.values(one)),
      x.mul(7),
      own.sqrt(),
    ];
  };
  const numbers = (result: Any): unknown =>
    [result].flat(3).map((x: Any) => x instanceof Tensor ? x.toArray() : 0);
  const expected = numbers(f(iota([3])));
  const compiled = compile(f, { optimize: false }) as Any;
  for (let round = 0; round < 3; round++) {
    assertEquals(numbers(compiled(iota([3]))), expected);
    assertEquals(numbers(await compiled.async(iota([3]))), expected);
  }
});

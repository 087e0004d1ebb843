/**
 * Tensors that a compiled function uses and did not make: read and written as they are at each call;
 * and tensors to write results to.
 *
 * @module
 */
import { assert, assertEquals, assertStrictEquals } from "@std/assert";
import { test } from "node:test";
import { arange, fromBuffer, memory, ones, pack, random, scope, tensor, zeros } from "../../mod.ts";
import { Layout } from "../../src/base/layout.ts";
import { compile } from "../../src/compile/mod.ts";
import { wrap } from "../../src/core/handles.ts";
import { type Any, loose } from "../support.ts";
import { assertFails, onBackends, plain } from "./support.ts";

test("captured tensors are read as they are at each call", () => {
  onBackends(() => {
    const w = loose(ones([3]));
    // w + 1 and the transposed product are constants of the program.
    const m = loose(arange(9).reshape([3, 3]));
    const f = (x: Any): Any => x.mul(w.add(1)).add(w).matmul(m.T.mul(2));
    const compiled = compile(f);
    const x = tensor([[1, 2, 3]]);
    const check = (): void => assertEquals(plain(compiled(x)), plain(f(x)));
    check();
    const changes: (() => unknown)[] = [
      () => w.add_(1),
      () => w.slice("1:").mul_(3),
      () => w.set([0], 9),
      () => m.set(["..."], random.normal(random.key(1), [3, 3])),
      () => w.data[1] = 5,
      () => w.data.fill(2),
      () => m.T.add_(1),
    ];
    for (const change of changes) {
      change();
      check();
      check();
    }
    assertEquals(compiled.programs, 1);
  });
});

test("captured memory that the program owns may change at any time", () => {
  onBackends(() => {
    const memory = new Float32Array([1, 2, 3, 4]);
    const [w, shared] = [loose(fromBuffer(memory)), loose(ones([4])).intoShared()];
    const f = compile((x: Any) => x.add(w.mul(2)).mul(shared.add(0)));
    for (let i = 0; i < 4; i++) {
      memory[i] = 10 * i;
      shared.data[0] = i;
      assertEquals(plain(f(ones([4]))), plain(ones([4]).add(w.mul(2)).mul(shared)));
    }
    assertEquals(f.programs, 1);
  });
});

test("packed weights are prepared anew after a write of the weight", () => {
  onBackends(() => {
    const w = loose(random.normal(random.key(0), [16, 8]));
    const x = loose(random.normal(random.key(1), [2, 8]));
    const packed = pack(w);
    const f = compile((x: Any) => [x.matmul(w.T), x.linear(w), x.linear(packed)]);
    for (let i = 0; i < 4; i++) {
      const [a, b, c] = f(x) as Any[];
      const expected = x.matmul(w.T);
      for (const one of [a, b]) assert(one.allclose(expected, { rtol: 1e-4, atol: 1e-5 }));
      // A packed weight does not change.
      assert(i > 0 || c.allclose(expected, { rtol: 1e-4, atol: 1e-5 }));
      w.mul_(i + 2);
      if (i === 2) w.data[0] = 100;
    }
    assertEquals(f.programs, 1);
  });
});

test("writes to captured tensors happen at each call", () => {
  onBackends(() => {
    const [count, rows] = [loose(zeros([])), loose(zeros([3, 2]))];
    const f = compile((x: Any, n: number) => {
      count.add_(1);
      rows.slice(1).add_(x);
      rows.T.slice(0).mul_(n);
      return count.mul(10);
    });
    for (let i = 1; i < 5; i++) assertEquals(f(tensor([1, 2]), 2).item(), 10 * i);
    assertEquals(plain([count, rows]), plain([tensor(4), tensor([[0, 0], [30, 8], [0, 0]])]));
    assertEquals(f.programs, 1);
  });
});

test("a captured tensor may be, or share memory with, an argument", () => {
  onBackends(() => {
    const w = loose(arange(4));
    const f = (x: Any): Any => {
      x.add_(1);
      return w.mul(x);
    };
    const compiled = compile(f);
    const inputs = [() => ones([4]), () => w, () => w.view(), () => ones([4]), () => w.flip()];
    for (const input of inputs) {
      const before = w.copy();
      const expected = plain([f(input()), w]);
      w.set(["..."], before);
      assertEquals(plain([compiled(input()), w]), expected);
    }
  });
});

test("a captured tensor that was disposed or moved is a DisposedError, as without", () => {
  onBackends(() => {
    const ends: ((w: Any) => unknown)[] = [
      (w) => w.dispose(),
      (w) => w.intoTypedArray(),
      (w) => w.intoShared(),
      (w) => structuredClone(w.data.buffer, { transfer: [w.data.buffer] }),
    ];
    for (const end of ends) {
      const w = loose(ones([1000]));
      const f = compile((x: Any) => x.mul(w.add(1)));
      assertEquals(f(tensor([2])).sum().item(), 4000);
      end(w);
      assertFails(() => f(tensor([2])), "DisposedError");
    }
    // A function that disposes of it runs once.
    const w = loose(ones([1000]));
    const once = compile((x: Any) => {
      const y = x.mul(w);
      w.dispose();
      return y;
    });
    assertEquals(once(tensor([2])).sum().item(), 2000);
    for (let i = 0; i < 3; i++) assertEquals(ones([1000]).add(i).sum().item(), 1000 * (i + 1));
    assertFails(() => once(tensor([2])), "DisposedError");
  });
});

test("a function may make and dispose of further handles on captured tensors", () => {
  onBackends(() => {
    const w = loose(tensor([1, 2, 3, 4]));
    const compiled = compile((x: Any) => {
      const part = wrap(w.storage, Layout.contiguous([2], 1)) as Any;
      const sum = x.add(part).add(w.slice("2:"));
      part.dispose();
      // Another one ends with its scope.
      return scope(() => sum.mul(wrap(w.storage, Layout.contiguous([2])) as Any));
    });
    const x = tensor([10, 20]);
    for (let i = 0; i < 3; i++) assertEquals(compiled(x).toArray(), [15, 54]);
    w.set([1], 5);
    assertEquals(compiled(x).toArray(), [18, 135]);
    assertEquals(compiled.programs, 1);
    w.dispose();
    assertFails(() => compiled(x), "DisposedError");
  });
});

test("values of captured tensors may be read while tracing; their change makes a new program", () => {
  const w = loose(tensor([1, 2]));
  let runs = 0;
  const f = compile((x: Any) => {
    runs++;
    return w.slice(0).item() > 5 ? x.neg() : x.add(w.toArray()[1]);
  });
  const x = tensor([1]);
  for (let i = 0; i < 2; i++) assertEquals(f(x).item(), 3);
  w.add_(1);
  for (let i = 0; i < 2; i++) assertEquals(f(x).item(), 4);
  assertEquals([runs, f.programs], [2, 1]);
  w.data[0] = 9;
  assertEquals(f(x).item(), -1);
  w.data[0] = 1;
  assertEquals(f(x).item(), 4);
});

test("a captured tensor may be the result", () => {
  const w = loose(arange(3));
  const f = compile((x: Any) => ({ w, x: x.add(w), view: w.slice("1:") }));
  for (let i = 0; i < 2; i++) {
    const made = f(tensor([1]));
    assertStrictEquals(made.w, w);
    w.add_(1);
    assertEquals(made.view.toArray(), [2 + i, 3 + i]);
  }
});

test("out gets the results, in the structure of the result", () => {
  onBackends(() => {
    const f = loose(compile((x: Any, n: number) => ({ a: x.mul(n), b: [x.sum(), n], x })));
    const sizes = [3, 1000];
    for (const size of sizes) {
      const [x, a, b, c] = [ones([size]), zeros([size]), zeros([]), zeros([size])];
      const out = { a, b: [b, null], x: c };
      for (const n of [2, 3]) {
        assertStrictEquals(f(x, n, { out }), out);
        assertEquals(plain([a, b, c]), plain([ones([size]).mul(n), tensor(size), x]));
      }
      // Other dtypes that can hold it, views, and views on memory of the caller.
      const wide = zeros([size], { dtype: "float64" });
      const view = loose(zeros([size, 2])).slice(":, 1").flip();
      const outside = fromBuffer(new Float32Array(size));
      for (const own of [wide, view, outside]) {
        f(x, 5, { out: { a: own, b: [b, 0], x: c } });
        assertEquals(loose(own).sum().item(), 5 * size);
      }
    }
    assertEquals(f.programs, 2);
  });
});

test("a wrong out is an error before anything is written", () => {
  onBackends(() => {
    const f = loose(compile((x: Any) => [x.mul(2), { sum: x.sum(0) }]));
    const x = ones([40, 3]);
    const [a, b] = [zeros([40, 3]), zeros([3])];
    const gone = zeros([40, 3]);
    gone.dispose();
    const cases: [unknown, string, string][] = [
      [a, "TypeError", "out"],
      [[a], "TypeError", "array of 2"],
      [[a, b], "TypeError", "out[1].sum"],
      [[a, { sum: 3 }], "TypeError", "out[1].sum"],
      [[a, null], "TypeError", "out[1].sum"],
      [[a, { sum: zeros([4]) }], "ShapeError", "[4]"],
      [[zeros([3, 40]), { sum: b }], "ShapeError", "[3, 40]"],
      [[a, { sum: zeros([3], { dtype: "int32" }) }], "DTypeError", "int32"],
      [[a, { sum: loose(zeros([1])).broadcastTo([3]) }], "ReadOnlyError", ""],
      [[gone, { sum: b }], "DisposedError", ""],
    ];
    for (const [out, name, part] of cases) {
      for (let i = 0; i < 2; i++) assertFails(() => f(x, { out }), name, part);
      assertEquals(plain([a, b]), plain([zeros([40, 3]), zeros([3])]));
    }
    const same = loose(compile((x: Any) => [x.mul(2), x.add(1)]));
    assertFails(() => same(x, { out: [a, a] }), "ArgumentError", "out[1]", "out[0]");
    const rows = loose(zeros([2, 40, 3]));
    same(x, { out: [rows.slice(0), rows.slice(1)] });
    assertEquals(rows.sum().item(), 480);
    // An index out of range leaves out as it was.
    const take = loose(compile((x: Any, i: Any) => [x.mul(2), x.take(i, 0)]));
    const index = (i: number): Any => tensor([i], { dtype: "int32" });
    const out = [zeros([40, 3]), zeros([1, 3])];
    assertFails(() => take(x, index(40), { out }), "IndexError", "40");
    take(x, index(39), { out });
    out.forEach((one) => loose(one).set(["..."], 0));
    assertFails(() => take(x, index(-41), { out }), "IndexError", "-41");
    assertEquals(plain(out), plain([zeros([40, 3]), zeros([1, 3])]));
  });
});

test("an index of a tensor without elements is checked", () => {
  onBackends(() => {
    const x = zeros([2, 0]);
    const index = (i: number): Any => tensor([i], { dtype: "int32" });
    const set = (x: Any, i: Any): Any => {
      const copy = x.copy();
      copy.set([i], zeros([1, 0]));
      return copy;
    };
    for (const f of [(x: Any, i: Any) => x.take(i, 0), set]) {
      const compiled = loose(compile(f));
      for (const call of [f, compiled]) {
        assertEquals(call(x, index(1)).layout.size, 0);
        assertFails(() => call(x, index(2)), "IndexError", "[2, 0] at 2");
      }
    }
  });
});

test("out may overlap arguments, captured tensors and results that are arguments", () => {
  onBackends(() => {
    for (const size of [3, 500]) {
      const w = loose(arange(size));
      const f = loose(compile((x: Any, y: Any) => [y, x, x.flip(), y.add(w), w, x.mul(y)]));
      const make = (): Any[] => [arange(size).add(1), arange(size).mul(3)];
      const [a, b] = make();
      const expected = plain([b, a, a.flip(), b.add(w), w, a.mul(b)]);
      const [x, y] = make();
      const rest = [1, 2, 3].map(() => zeros([size]));
      const out = [x, y, rest[0], w, rest[1], rest[2]];
      assertEquals(plain(f(x, y, { out })), expected);
      // In place, and into a shifted view of the argument.
      const g = loose(compile((x: Any) => x.mul(2).add(1)));
      const z = loose(arange(size + 1));
      g(z, { out: z });
      assertEquals(z.sum().item(), size * (size + 1) + size + 1);
      g(z.slice(":-1"), { out: z.slice("1:") });
      assertEquals(z.toArray().slice(0, 4), [1, 3, 7, 11].slice(0, size + 1));
    }
  });
});

test("a call is not mistaken for one with out", () => {
  const f = compile((x: Any, o?: { out?: Any; k?: number }) => x.add(o?.out ?? o?.k ?? 1));
  assertEquals(f(tensor([1])).item(), 2);
  assertEquals(f(tensor([1]), { out: tensor([5]) }).item(), 6);
  assertEquals(f(tensor([1]), { k: 7 }).item(), 8);
  const made = zeros([1]);
  loose(f)(tensor([1]), { k: 7 }, { out: made });
  assertEquals(made.item(), 8);
});

test("handles and bytes stay flat over many calls", () => {
  onBackends(() => {
    const w = loose(ones([40]));
    const [x, out] = [loose(ones([40])), zeros([40])];
    const f = loose(compile((x: Any, n: number) => [x.mul(w.add(n)), x.sum()]));
    const g = loose(compile((x: Any) => x.add(w)));
    const fails = loose(compile((x: Any, i: Any) => x.take(i)));
    const bad = tensor([40], { dtype: "int32" });
    let steps = 0;
    const step = (): void => {
      for (const one of f(x, steps++ % 5)) one.dispose();
      g(x, { out });
      if (steps % 50 === 0) {
        w.add_(0);
        assertFails(() => fails(x, bad), "IndexError");
      }
    };
    for (let i = 0; i < 500; i++) step();
    const before = [w.storage.handles, x.storage.handles, bytes()];
    for (let i = 0; i < 20_000; i++) step();
    const after = [w.storage.handles, x.storage.handles, bytes()];
    assertEquals(after.slice(0, 2), before.slice(0, 2));
    assert(after[2] - before[2] < 1 << 20, `${after[2] - before[2]} bytes more`);
    f.dispose();
    g.dispose();
    assertEquals([w.storage.handles, x.storage.handles], [1, 1]);
  });
});

function bytes(): number {
  return memory().bytes;
}

test("programs that depend on values of an array that is seen outside do not pile up", () => {
  const scale = tensor([2]);
  const { data } = scale;
  const f = loose(compile((x: Any) => x.mul(scale.item())));
  for (const value of [2, 3, 4]) {
    data[0] = value;
    assertEquals(f(tensor([1, 2])).toArray(), [value, 2 * value]);
    assertEquals(f.programs, 1);
  }
});

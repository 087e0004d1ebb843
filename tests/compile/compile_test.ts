/**
 * compile(): arguments and results of every kind, keys, errors while tracing, and how many programs
 * there are.
 *
 * @module
 */
import { assert, assertEquals, assertStrictEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import { arange, fromBuffer, keep, ones, scope, setThreads, tensor, zeros } from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import { profile } from "../../src/profile/mod.ts";
import { interpret } from "../../src/core/interpreter.ts";
import { performCall } from "../../src/core/dispatch.ts";
import { type Any, loose, ten } from "../support.ts";
import {
  assertFails,
  BACKENDS,
  checkCalls,
  onBackend,
  onBackends,
  plain,
  warnings,
} from "./support.ts";

const REMEDY = "values exist only when the program runs";

test("arguments and results may be nested in arrays and records", () => {
  onBackends(() => {
    const f = ({ w, list: [a, b] }: Any, [c, { n }]: Any): Any => ({
      sum: w.mul(n).add(a),
      rest: [b.neg(), { c, own: zeros([2]), text: "t", nothing: null, none: undefined, n }],
    });
    const args = (n: number) => (): unknown[] => [
      { w: tensor([1, 2]), list: [tensor([3, 4]), tensor([[5]])] },
      [tensor([true]), { n }],
    ];
    const compiled = checkCalls(f, [args(2), args(3), args(-1.5)]);
    assertEquals(compiled.programs, 1);
    const given = args(2)() as Any;
    const made = compiled(given[0], given[1]);
    assertStrictEquals(made.rest[1].c, given[1][0]);
    assertEquals(Object.keys(made), ["sum", "rest"]);
    // A record without a prototype, an empty one, and empty arrays.
    checkCalls((o: Any, l: Any[]) => [o.x.add(1), { ...o }, l], [() => [
      Object.assign(Object.create(null), { x: tensor([1]) }),
      [],
    ]]);
    assertEquals(plain(compile(() => [])()), []);
    assertEquals(plain(compile(() => ({}))()), {});
    assertEquals(compile(() => undefined)(), undefined);
  });
});

test("a compiled function has the name and length of its function, and its own methods", () => {
  function scaled(x: Any, n: number): Any {
    return x.mul(n);
  }
  const compiled = compile(scaled);
  assertEquals([compiled.name, compiled.length, compiled.programs], ["scaled", 2, 0]);
  assertEquals(typeof compiled.async, "function");
  for (const bad of [null, undefined, 3, {}, "f"]) {
    assertFails(() => compile(loose(bad)), "TypeError", "expected a function");
  }
  assertFails(() => compile(scaled, loose({ fuse: true })), "TypeError", "fuse");
  assertFails(() => compile(scaled, loose({ optimize: { fuse: 1 } })), "TypeError", "fuse");
  assertFails(() => compile(scaled, loose({ optimize: { merge: true } })), "TypeError", "merge");
  for (const maxPrograms of [0, -1, 1.5, NaN, "2", null]) {
    const options = loose({ maxPrograms });
    assertFails(() => compile(scaled, options), "ArgumentError", "maxPrograms");
  }
});

test("default, missing and rest arguments are those of the function", () => {
  checkCalls((x: Any, n = 3, ...rest: Any[]) => rest.reduce((a, b) => a.add(b), x.mul(n)), [
    () => [tensor([1])],
    () => [tensor([1]), undefined],
    () => [tensor([1]), 5],
    () => [tensor([1]), 5, tensor([2]), 7],
    () => [tensor([1]), 6, tensor([2]), 8],
  ]);
});

test("text, booleans, null, functions and objects are part of the key", () => {
  let runs = 0;
  const f = compile((x: Any, how: Any) => {
    runs++;
    if (typeof how === "function") return how(x);
    if (how instanceof Date) return x.add(how.getTime());
    return how === "neg" ? x.neg() : how === true ? x.add(1) : how === null ? x.mul(2) : x;
  });
  const [x, twice, date] = [tensor([1, 2]), (y: Any) => y.add(y), new Date(5)];
  const expected: [unknown, number[]][] = [
    ["neg", [-1, -2]],
    [true, [2, 3]],
    [false, [1, 2]],
    [null, [2, 4]],
    [undefined, [1, 2]],
    [Symbol.iterator, [1, 2]],
    [twice, [2, 4]],
    [date, [6, 7]],
  ];
  for (let round = 0; round < 2; round++) {
    for (const [how, values] of expected) assertEquals(f(x, how).toArray(), values);
  }
  assertEquals([runs, f.programs], [8, 8]);
  // Another object is another key.
  f(x, new Date(5));
  assertEquals(runs, 9);
});

test("shapes, dtypes, strides, offsets and access are part of the key", () => {
  const f = compile((x: Any) => x.mul(2));
  const base = loose(arange(24)).reshape([4, 6]);
  const inputs = [
    base,
    base.T,
    base.slice("1:"),
    base.slice("::-1"),
    base.slice("::2, ::-3"),
    base.slice("1::2, 1"),
    base.slice("2:"),
    loose(ones([1])).broadcastTo([4, 6]),
    base.astype("int32"),
    base.astype("float16"),
    base.flatten(),
    zeros([0, 3]),
    tensor(3),
  ];
  for (let round = 0; round < 3; round++) {
    for (const x of inputs) assertEquals(plain(f(x)), plain(x.mul(2)));
  }
  assertEquals(f.programs, inputs.length);
});

test("arguments that share memory are written as in plain code", () => {
  onBackends(() => {
    const f = (a: Any, b: Any): Any => {
      a.add_(1);
      return b.mul(a);
    };
    const shared = (): unknown[] => {
      const x = tensor([1, 2, 3, 4]);
      return [x, x];
    };
    const shifted = (): unknown[] => {
      const x = ten();
      return [x.slice("0:5"), x.slice("2:7")];
    };
    const reversed = (): unknown[] => {
      const x = loose(ten());
      return [x, x.slice("::-1")];
    };
    const apart = (): unknown[] => [tensor([1, 2, 3, 4]), tensor([5, 6, 7, 8])];
    const outside = (): unknown[] => {
      const memory = new Float32Array(6);
      return [fromMemory(memory, 0), fromMemory(memory, 1)];
    };
    const compiled = checkCalls(f, [shared, shifted, reversed, apart, outside]);
    checkCalls(f, [apart, shared, apart, reversed, shifted, outside, outside]);
    assertEquals(compiled.programs, 4);
  });
});

/** Four elements of memory that the test owns. */
function fromMemory(array: Float32Array, offset: number): Any {
  return loose(fromBuffer(array.subarray(offset, offset + 4)));
}

test("writes to arguments happen at each call, in views and with dtypes that cast", () => {
  onBackends(() => {
    checkCalls((x: Any, y: Any) => {
      x.slice("::2").add_(y);
      x.slice("1:").mul_(2);
      x.set([0], y.sum());
      y.set(["..."], 7);
      return [x.sum(), y];
    }, [
      () => [arange(6, { dtype: "float64" }), arange(3)],
      () => [arange(6, { dtype: "float64" }), arange(3)],
      () => [arange(12, { dtype: "float64" }).slice("::-2"), arange(3)],
    ]);
    const readOnly = (x: Any): Any => loose(x).broadcastTo([2, 3]);
    checkCalls((x: Any) => x.add_(1), [() => [readOnly(tensor([1, 2, 3]))], () => [ones([2, 3])]]);
  });
});

test("results may be arguments, views of them, and views of each other", () => {
  const f = compile((x: Any, y: Any) => {
    const z = x.add(y);
    return { x, t: x.T, z, again: z, row: z.slice(0), y: [y] };
  });
  for (let round = 0; round < 3; round++) {
    const [x, y] = [ones([2, 3]), ones([2, 3])];
    const made = f(x, y);
    assertStrictEquals(made.x, x);
    assertStrictEquals(made.y[0], y);
    assertStrictEquals(made.again, made.z);
    x.add_(1);
    assertEquals(made.t.toArray(), [[2, 2], [2, 2], [2, 2]]);
    made.z.set(["..."], 5);
    assertEquals(made.row.toArray(), [5, 5, 5]);
    assertEquals(y.toArray(), [[1, 1, 1], [1, 1, 1]]);
  }
  assertEquals(f.programs, 1);
});

test("tensors made inside are new in each call, also when they are written", () => {
  onBackends(() => {
    const f = compile(() => {
      const count = zeros([3]);
      count.add_(1);
      return [count, tensor([1, 2, 3]), arange(100), count.slice("1:")];
    });
    const made = [f(), f(), f()];
    made[0]![0]!.add_(10);
    made[0]![1]!.mul_(10);
    made[1]![2]!.set(["..."], 0);
    for (const one of [...made.slice(2), f()]) {
      assertEquals(plain(one), plain([ones([3]), tensor([1, 2, 3]), arange(100), ones([2])]));
    }
    assertEquals(made[0]![3]!.toArray(), [11, 11]);
  });
});

test("using, dispose(), scope() and keep() do in a program what they do alone", () => {
  onBackends(() => {
    checkCalls((x: Any) => {
      using y = x.add(1);
      const z = scope(() => {
        const inner = y.mul(2);
        return inner.sub(keep(y.add(5)));
      });
      x.dispose();
      return z;
    }, [() => [tensor([1, 2])], () => [tensor([1, 2])]]);
    const f = compile((x: Any) => {
      x.dispose();
      return x;
    });
    const x = tensor([1]);
    assertStrictEquals(f(x), x);
    assert(x.isDisposed);
    assertFails(() => f(x), "DisposedError");
  });
});

test("results of programs belong to the scope of the call", () => {
  const f = compile((x: Any) => [x.add(1), x.mul(2)]);
  const x = tensor([1]);
  let made: Any;
  const kept = scope(() => {
    made = f(x);
    return made[0];
  });
  assertEquals([kept.isDisposed, made[1].isDisposed], [false, true]);
  assertEquals(kept.toArray(), [2]);
});

const READS: Record<string, (x: Any) => unknown> = {
  item: (x) => x.sum().item(),
  toArray: (x) => x.toArray(),
  toJSON: (x) => x.toJSON(),
  toTypedArray: (x) => x.toTypedArray(),
  data: (x) => x.data,
  get: (x) => x.get(0),
  equals: (x) => x.equals(x),
  allclose: (x) => x.allclose(x),
  withPointer: (x) => x.withPointer(() => 0),
  intoTypedArray: (x) => x.add(1).intoTypedArray(),
  intoRaw: (x) => x.intoRaw(),
  intoOwned: (x) => x.intoOwned(),
  intoCow: (x) => x.intoCow(),
  intoShared: (x) => x.intoShared(),
};

test("reading values is a TraceError that names the op and the remedy", () => {
  for (const [name, read] of Object.entries(READS)) {
    const f = compile(read);
    for (let round = 0; round < 2; round++) {
      const x = tensor([1, 2]);
      assertFails(() => f(x), "TraceError", `Cannot ${name} `, REMEDY);
      assertEquals(plain(x), plain(tensor([1, 2])));
    }
    assertEquals(f.programs, 0);
  }
  const x = tensor([1, 2]);
  assertFails(() => compile((x: Any) => JSON.stringify(x))(x), "TraceError", "toJSON", REMEDY);
  assertFails(() => compile((x: Any) => x.equals(x))(x), "TraceError", "equal() gives a tensor");
});

test("data-dependent shapes and async functions are TraceErrors", () => {
  const x = tensor([1, 0, 2]);
  const nonzero = compile((x: Any) => x.nonzero());
  assertFails(() => nonzero(x), "TraceError", "Cannot nonzero", "where()");
  assertFails(
    () => compile((x: Any) => x.slice(x.greater(0)))(x),
    "TraceError",
    "depends on values",
  );
  const later = compile(async (x: Any) => await x.add(1));
  assertFails(() => void later(x), "TraceError", "async function");
  assertFails(() => void compile(async (x: Any) => await x.read())(x), "TraceError", "async");
});

test("rows of a traced tensor can be iterated, and it prints its shape and dtype", () => {
  checkCalls((x: Any) => [...x].map((row, i) => row.mul(i)), [
    () => [ones([3, 2])],
    () => [arange(6).reshape([3, 2])],
  ]);
  let text = "";
  const f = compile((x: Any) => {
    text = String(x.add(1));
    return x;
  });
  f(ones([2, 3]));
  assertEquals(text, "tensor(traced, shape [2, 3], float32)");
});

test("tensors in objects of a class cannot be results", () => {
  class Pair {
    constructor(readonly a: Any) {}
  }
  const x = tensor([1]);
  const bad: ((x: Any) => unknown)[] = [
    (x) => new Map([["y", x.add(1)]]),
    (x) => new Set([x]),
    (x) => new Pair(x.mul(2)),
    (x) => new Pair({ deep: [x.mul(2)] }),
    (x) => new Map([[x.add(1), "y"]]),
  ];
  for (const f of bad) assertFails(() => compile(f)(x), "TraceError", "plain objects");
  assertFails(() => compile((n: Any) => new Map([[1, n]]))(5), "TraceError", "class Map");
  const date = new Date();
  assertStrictEquals(compile(() => date)(), date);
});

test("arguments and results that contain themselves are errors", () => {
  const list: unknown[] = [];
  list.push(list);
  const record: Any = { x: tensor([1]) };
  record.own = record;
  const f = compile((x: Any) => x);
  for (const one of [list, record]) assertFails(() => f(one), "ArgumentError", "nested");
  assertFails(() => compile(() => list)(), "TraceError", "nested too deeply");
});

test("an error of the function passes through, leaves no memory, and the next call traces anew", () => {
  class OwnError extends Error {}
  let fails = true;
  const captured = ones([100]);
  const f = compile((x: Any) => {
    const y = x.add(captured).add(ones([100]));
    x.add_(1);
    if (fails) throw new OwnError("mine");
    return y;
  });
  const x = zeros([100]);
  for (let i = 0; i < 3; i++) {
    assertThrows(() => f(x), OwnError, "mine");
    assertEquals([f.programs, x.sum().item(), loose(captured).storage.handles], [0, 0, 1]);
  }
  fails = false;
  assertEquals([f(x).sum().item(), x.sum().item(), f.programs], [200, 100, 1]);
  f.dispose();
  assertEquals(loose(captured).storage.handles, 1);
});

test("errors of ops are those of the function", () => {
  checkCalls((x: Any, y: Any) => x.matmul(y), [
    () => [ones([2, 3]), ones([2, 3])],
    () => [ones([2, 3]), ones([3, 2])],
    () => [ones([2, 3]), 5],
    () => [ones([2, 3]), ones([3, 2], { dtype: "bool" })],
    () => [ones([2, 3]), undefined],
  ]);
  checkCalls((x: Any, i: Any) => x.take(i, 0), [
    () => [ones([2, 3]), tensor([1], { dtype: "int32" })],
    () => [ones([2, 3]), tensor([2], { dtype: "int32" })],
    () => [ones([2, 3]), tensor([-3], { dtype: "int32" })],
    () => [ones([2, 3]), tensor([0], { dtype: "int32" })],
  ]);
});

test("disposed and transferred arguments are DisposedErrors", () => {
  onBackends(() => {
    const f = compile((x: Any, y: Any) => x.add(y));
    for (let round = 0; round < 2; round++) {
      const gone = tensor([1]);
      gone.dispose();
      assertFails(() => f(gone, tensor([1])), "DisposedError", "disposed");
      assertFails(() => f(tensor([1]), gone), "DisposedError", "disposed");
      const moved = tensor([1]);
      moved.intoTypedArray();
      assertFails(() => f(tensor([1]), moved), "DisposedError");
      const buffer = new Float32Array([1]);
      const transferred = fromBuffer(buffer);
      structuredClone(buffer.buffer, { transfer: [buffer.buffer] });
      assertFails(() => f(tensor([1]), transferred), "DisposedError", "transferred");
      assertEquals(f(tensor([1]), tensor([2])).item(), 3);
    }
  });
});

test("a tensor that leaves its trace is an error where it is used", () => {
  let kept: Any;
  compile((x: Any) => {
    kept = keep(x.add(1));
    return x;
  })(tensor([1]));
  const f = compile((x: Any) => x.add(1));
  assertFails(() => f(kept), "TraceError", "trace");
  assertFails(() => kept.toArray(), "TraceError");
  assertFails(() => kept.add(1), "TraceError");
  assertFails(() => compile(() => kept.add(1))(), "TraceError", "another trace");
});

test("compiled functions in compiled functions, with out, and in themselves", () => {
  const inner = compile((x: Any, n: number) => x.mul(n));
  const total = zeros([2]);
  const outer = (x: Any, n: number): Any => {
    const own = zeros([2]);
    loose(inner)(x, n, { out: own });
    loose(inner)(x, 3, { out: total });
    return inner(own, n).add(total);
  };
  checkCalls(outer, [() => [tensor([1, 2]), 2], () => [tensor([3, 4]), 5]]);
  assertEquals([total.toArray(), inner.programs], [[9, 12], 1]);
  const power: Any = compile(
    (x: Any, n: number) => n === 0 ? ones([2]) : power(x, n - 1).mul(x),
    { static: [1] },
  );
  for (let i = 0; i < 2; i++) assertEquals(power(tensor([2, 3]), 3).toArray(), [8, 27]);
});

test("interpreters see the ops of a compiled function; profiles see its runs", () => {
  const f = compile(function named(x: Any) {
    return x.add(1).mul(2);
  });
  f(tensor([1]));
  const seen: string[] = [];
  const made = interpret({
    run(call) {
      seen.push(call.op.name);
      performCall(call);
    },
    read() {},
  }, () => f(tensor([1])));
  assertEquals([made.toArray(), seen], [[4], ["tensor", "add", "mul"]]);
  const x = tensor([2]);
  const { result, calls } = profile(() => f(x));
  assertEquals([result.toArray(), calls[0]!.op], [[6], "compiled named"]);
});

test("at most maxPrograms are kept, the last used ones", () => {
  let traced = 0;
  const f = compile((x: Any) => {
    traced++;
    return x.add(1);
  }, { maxPrograms: 3 });
  const run = (n: number): void => assertEquals(f(zeros([n])).toArray(), Array(n).fill(1));
  for (const n of [1, 2, 3]) run(n);
  run(1);
  run(4); // drops 2
  assertEquals([traced, f.programs], [4, 3]);
  for (const n of [1, 3, 4]) run(n);
  assertEquals(traced, 4);
  run(2);
  assertEquals([traced, f.programs], [5, 3]);
});

test("sixteen new programs in a row warn once, with what differs", () => {
  function named(x: Any, _how: Any): Any {
    return x.add(1);
  }
  const cases: [(i: number) => unknown[], string][] = [
    [(i) => [zeros([i + 1])], "argument 0 (counted from 0): shapes [15] and [16]"],
    [(i) => [zeros([2]), `t${i}`], 'argument 1 (counted from 0): "t14" and "t15"'],
    [(i) => [zeros([2]), { a: `t${i}` }], 'argument 1.a (counted from 0): "t14" and "t15"'],
    [(i) => [zeros([30]).slice(`${i}:${i + 2}`)], "argument 0 (counted from 0): offsets 14 and 15"],
    [(i) => [zeros([2]), Array(i).fill(null)], "argument 1 (counted from 0): arrays of 14 and 15"],
  ];
  for (const [make, part] of cases) {
    const f = compile(named);
    const found = warnings(() => {
      for (let i = 0; i < 40; i++) loose(f)(...make(i));
    });
    assertEquals(found.length, 1);
    assert(found[0]!.includes("(named)") && found[0]!.includes("16 calls"), found[0]);
    assert(found[0]!.includes(part), `${found[0]}: no ${part}`);
  }
  const f = compile(named);
  const alternating = warnings(() => {
    for (let i = 0; i < 64; i++) loose(f)(zeros([i % 2 === 0 ? 1 : i]));
  });
  assertEquals(alternating, []);
  // The number of programs that the caller expects.
  const many = compile(named, { maxPrograms: 39 });
  const wanted = warnings(() => {
    for (let i = 0; i < 38; i++) loose(many)(zeros([i + 1]));
  });
  assertEquals(wanted, []);
  assertEquals(warnings(() => loose(many)(zeros([39]))).length, 1);
});

test("a disposed compiled function throws, its results stay", () => {
  const w = ones([2]);
  const f = compile((x: Any) => x.add(w));
  const made = f(tensor([1, 2]));
  f.dispose();
  f.dispose();
  assertEquals([made.toArray(), f.programs, loose(w).storage.handles], [[2, 3], 0, 1]);
  assertFails(() => f(tensor([1, 2])), "DisposedError", "compiled function was disposed");
  let inner: Any;
  {
    using g = compile((x: Any) => x.mul(2));
    inner = g;
    assertEquals(g(tensor([2])).item(), 4);
  }
  assertFails(() => inner(tensor([2])), "DisposedError");
});

test("setBackend() and setThreads() between calls change nothing of the results", () => {
  const f = compile((x: Any, n: number) => x.mul(n).add(1).sum(0));
  const x = loose(arange(3000)).reshape([30, 100]);
  const expected = plain(x.mul(3).add(1).sum(0));
  try {
    for (const backend of [...BACKENDS, ...BACKENDS]) {
      using _ = onBackend(backend);
      for (const threads of [1, 2]) {
        setThreads(threads);
        assertEquals(plain(f(x, 3)), expected);
      }
    }
  } finally {
    setThreads(0);
  }
  assertEquals(f.programs, BACKENDS.length);
});

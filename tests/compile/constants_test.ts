/**
 * Constants of programs, such as packed weights: computed once for all programs that read a tensor,
 * anew after a write of it, and freed with the tensor or the last program. Counts bytes.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import {
  arange,
  concat,
  emptyCache,
  info,
  memory,
  ones,
  quantize,
  random,
  scope,
  tensor,
  zeros,
} from "../../mod.ts";
import { compile, type Compiled } from "../../src/compile/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import type { Operand } from "../../src/memory/operand.ts";
import { type Call, OPS } from "../../src/table/op.ts";
import { MIRROR } from "../device/mirror.ts";
import { inDeno, moduleAt, runApart } from "../native/support.ts";
import { type Any, loose } from "../support.ts";
import { assertFails, onBackend, onBackends, plain, testOnBackends } from "./support.ts";

/** The columns and the depth of weights. */
const [O, I] = [320, 256];
/** The bytes of one, of float32; its columns fill whole panels. */
const BYTES = 4 * O * I;
/** The numbers of rows of the operands. */
const LENGTHS = Array.from({ length: 20 }, (_, i) => 2 * i + 1);

const weight = (): Any => random.normal(random.key(1), [O, I]);
const rows = (n: number): Any => random.normal(random.key(n), [n, I]);
const constants = (): number => memory().constantBytes;
/** The memory in use. Garbage collectors may free some at any time. */
const used = (): number => memory().bytes - memory().pooledBytes;

/** Calls `f` with operands of all lengths. */
function callAll(f: (x: Any) => Any, make: (n: number) => Any = rows): void {
  for (const n of LENGTHS) {
    const x = make(n);
    f(x).dispose();
    x.dispose();
  }
}

const KINDS: Readonly<Record<string, (w: Any) => [f: (x: Any) => Any, make?: (n: number) => Any]>> =
  {
    "linear": (w) => [(x) => x.linear(w)],
    "matmul": (w) => {
      const t = w.T.contiguous();
      return [(x) => x.matmul(t)];
    },
    "a view": (w) => [(x) => x.matmul(w.T)],
    "a slice": (w) => [(x) => x.linear(w.slice("8:264"))],
    "float16": (w) => {
      const half = w.astype("float16");
      return [(x) => x.astype("float16").linear(half)];
    },
    "quantized": (w) => {
      const q = quantize(w, "q8_0") as Any;
      return [(x) => x.linear(q)];
    },
    "a product of two constants": (w) => {
      const v = random.normal(random.key(2), [I, I]);
      return [(x) => x.matmul(v.matmul(w.T))];
    },
    "arithmetic": (w) => [(x) => x.linear(w.mul(2).add(1))],
    "two weights": (w) => {
      const v = random.normal(random.key(2), [O, I]);
      return [(x) => x.linear(concat([w, v]) as Any)];
    },
    "a convolution by Winograd": () => {
      const w = random.normal(random.key(3), [48, 48, 3, 3]);
      return [
        (x) => nn.conv2d(x, w as Any, undefined, { winograd: true }),
        (n) => random.normal(random.key(n), [1, 48, 6, 4 + n]),
      ];
    },
  };

/** The most bytes of tensors that a program adds; on WebAssembly small ones share larger parts. */
function programBytes(backend: string): number {
  return 0.02 * BYTES + (backend === "wasm" ? (1 << 17) / LENGTHS.length : 0);
}

for (const [name, kind] of Object.entries(KINDS)) {
  testOnBackends(`programs of 20 lengths have one constant: ${name}`, (backend) => {
    const before = constants();
    const [body, make = rows] = kind(weight());
    const f = compile(body);
    const once = make(3);
    f(once);
    const one = constants() - before;
    assert(one > 50_000, `${one} bytes`);
    const start = used();
    callAll(f, make);
    assertEquals([f.programs, constants() - before], [20, one]);
    const each = (used() - start) / LENGTHS.length;
    assert(each <= programBytes(backend), `${each} bytes for each program`);
    for (const n of [1, 5, 39]) {
      const x = make(n);
      assert(f(x).allclose(body(x), { rtol: 1e-2, atol: 1e-3 }));
    }
    // Another function has the same constant.
    const g = compile((x: Any) => body(x).mul(2));
    g(once);
    assertEquals(constants() - before, one);
    f.dispose();
    assertEquals(constants() - before, one);
    assert(g(once).allclose(body(once).mul(2), { rtol: 1e-2, atol: 1e-2 }));
    g.dispose();
    assertEquals(constants(), before);
  });
}

testOnBackends("a weight and its transpose are packed apart, and equal views together", () => {
  const before = constants();
  const w = random.normal(random.key(1), [I, I]) as Any;
  using f = compile((x: Any) => [x.linear(w), x.matmul(w)]);
  using g = compile((x: Any) => [x.matmul(w.T), x.linear(w.slice(":"))]);
  const x = rows(3);
  for (const made of [f, g]) made(x);
  assertEquals(constants() - before, 2 * 4 * I * I);
  assert(f(x)[1].allclose(x.matmul(w), { rtol: 1e-4, atol: 1e-4 }));
  assert(g(x)[0].allclose(x.matmul(w.T), { rtol: 1e-4, atol: 1e-4 }));
});

/** How often `body` packs. */
function packs(body: () => void): number {
  const op = OPS.get("pack") as { decompose(call: Call): Operand };
  const { decompose } = op;
  let count = 0;
  op.decompose = (call) => {
    count++;
    return decompose(call);
  };
  try {
    body();
  } finally {
    op.decompose = decompose;
  }
  return count;
}

testOnBackends("after a write the weight is packed once, and what was packed is freed", () => {
  const before = constants();
  const w = weight();
  const f = compile((x: Any) => x.linear(w));
  const g = compile((x: Any) => x.linear(w).relu());
  const xs = LENGTHS.map(rows);
  assertEquals(packs(() => xs.forEach((x) => [f(x), g(x)])), 1);
  for (let round = 0; round < 3; round++) {
    w.add_(1);
    const expected = xs.map((x) => x.linear(w));
    const count = packs(() =>
      xs.forEach((x, i) => {
        assert(f(x).allclose(expected[i], { rtol: 1e-3, atol: 1e-3 }));
        assertEquals(constants() - before, BYTES, "the program that runs first frees the others'");
        assert(g(x).allclose(expected[i].relu(), { rtol: 1e-3, atol: 1e-3 }));
      })
    );
    assertEquals([count, constants() - before], [1, BYTES]);
  }
  assertEquals([f.programs, g.programs], [20, 20]);
  // Code outside can write elements of its own at any time: there is no constant then.
  w.data[0] = 5;
  const x = xs[2]!;
  assert(f(x).allclose(x.linear(w), { rtol: 1e-3, atol: 1e-3 }));
  assertEquals(constants(), before);
  w.data[0] = 50;
  for (const one of [f, g]) {
    assert(loose(one(x)).slice("0:1, 1:").allclose(one(x).slice("0:1, 1:")));
    assert(f(x).allclose(x.linear(w), { rtol: 1e-3, atol: 1e-3 }));
  }
  assertEquals(constants(), before);
});

testOnBackends("a weight that is disposed of takes its packed form with it", (backend) => {
  const before = constants();
  const other = weight();
  const f = compile((x: Any) => x.linear(other));
  callAll(f);
  const start = used();
  const w = weight();
  const view = w.slice("4:");
  const g = compile((x: Any) => [x.linear(w), x.linear(view).sum(), x.linear(other)]);
  for (const n of LENGTHS) scope(() => void g(rows(n)));
  assert(constants() - before > 2.9 * BYTES);
  w.dispose();
  assertFails(() => g(rows(3)), "DisposedError", "a tensor that its function uses was disposed");
  view.dispose();
  // The other weight's stays: the programs of f use it.
  assertEquals(constants() - before, BYTES);
  assert(used() <= start + programBytes(backend) * LENGTHS.length, `${used() - start} bytes`);
  for (const n of [3, 39, 2]) {
    assertFails(() => g(rows(n)), "DisposedError", "was disposed");
  }
  assertEquals(g.explain().length, 20);
  callAll(f);
  assertEquals(constants() - before, BYTES);
  other.dispose();
  assertEquals(constants(), before);
  assertFails(() => f(rows(3)), "DisposedError", "a tensor that its function uses was disposed");
  for (const one of [f, g]) one.dispose();
  assertEquals(constants(), before);
});

testOnBackends("programs end in any order, and the last one frees what they share", () => {
  const before = constants();
  const w = weight();
  const fs = [0, 1, 2, 3].map((i) => compile((x: Any) => x.linear(w).add(i)));
  for (const order of [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]]) {
    const own = fs.map((_, i) => compile((x: Any) => x.linear(w).add(i)));
    for (const f of own) f(rows(2));
    order.forEach((i, k) => {
      assertEquals(constants() - before, BYTES);
      own[i]!.dispose();
      for (const j of order.slice(k + 1)) {
        assert(own[j]!(rows(2)).allclose(rows(2).linear(w).add(j), { rtol: 1e-4, atol: 1e-4 }));
      }
    });
    assertEquals(constants(), before);
  }
  // One program at a time: the next one finds what the one before has.
  const f = compile((x: Any) => x.linear(w), { maxPrograms: 1 });
  assertEquals(packs(() => callAll(f)), 1);
  assertEquals([f.programs, constants() - before], [1, BYTES]);
  f.dispose();
  assertEquals(constants(), before);
});

test("programs with numbers that make new programs pack once", () => {
  onBackends(() => {
    const w = weight();
    const f = compile((x: Any, i: Any, n: number) => [x.linear(w), i.less(n)]);
    const i = tensor([1], { dtype: "int32" });
    assertEquals(packs(() => [2 ** 40, 0.5, 2, 2 ** 41, 3].forEach((n) => f(rows(2), i, n))), 1);
    f.dispose();
  });
});

test("backends have constants of their own", () => {
  const w = weight();
  const f = compile((x: Any) => x.mul(w.exp().sin()));
  onBackends(() => {
    const x = ones([O, I]);
    assertEquals(plain(f(x)), plain(x.mul(w.exp().sin())));
  });
  f.dispose();
});

testOnBackends(
  "emptyCache and disposal while a program runs leave its constants alone",
  async () => {
    const before = constants();
    const w = weight();
    const x = rows(3);
    const f = compile((x: Any) => x.linear(w).sin());
    const expected = plain(f(x));
    // Off the event loop: the run has the elements of the call.
    const results = [f.async(x), f.async(x)];
    emptyCache();
    w.mul_(2);
    results.push(f.async(x));
    const later = plain(x.linear(w).sin());
    w.dispose();
    for (const one of results.slice(0, 2)) {
      const made = await one;
      assert(loose(made).allclose(tensor((expected as Any)[2]).reshape([3, O]), { atol: 1e-4 }));
    }
    assert(
      loose(await results[2]).allclose(tensor((later as Any)[2]).reshape([3, O]), { atol: 1e-3 }),
    );
    await new Promise((resolve) => setTimeout(resolve, 1));
    assertEquals(constants(), before);
    await f.async(x).then(() => assert(false), ({ name }) => assertEquals(name, "DisposedError"));
    f.dispose();
  },
);

test("programs on devices share constants, and end with the weight", () => {
  const inUse = (): number => memory(MIRROR as "cuda").bytes;
  const start = inUse();
  const w = loose(random.normal(random.key(3), [48, 48, 3, 3])).to(MIRROR);
  const weightBytes = inUse() - start;
  const f = compile((x: Any) => nn.conv2d(x, w, undefined, { winograd: true }));
  const call = (n: number): void => {
    scope(() => void f(loose(ones([1, 48, 6, 4 + n])).to(MIRROR)));
  };
  call(1);
  const one = inUse() - start;
  assert(one >= 5 * weightBytes, `${one} bytes`);
  LENGTHS.forEach(call);
  assertEquals([f.programs, inUse() - start], [20, one]);
  w.dispose();
  assertEquals(inUse(), start);
  assertFails(() => call(1), "DisposedError", "a tensor that its function uses was disposed");
  f.dispose();
  assertEquals(inUse(), start);
});

test("a function that disposes of its weight frees the packed form with its program", () => {
  onBackends(() => {
    const before = constants();
    const w = weight();
    const f = compile((x: Any) => {
      const y = x.linear(w);
      w.dispose();
      return y;
    });
    assertEquals(f(rows(2)).shape, [2, O]);
    assertFails(() => f(rows(2)), "DisposedError");
    f.dispose();
    assertEquals(constants(), before);
  });
});

test("explain and info give the bytes of constants, and which of them are shared", () => {
  using _ = onBackend("js");
  const before = info().programs.constantBytes;
  const w = weight();
  using f = compile((x: Any) => x.linear(w));
  f(rows(2));
  const bytes = (): unknown => f.explain().map(({ data }) => data.bytes);
  assertEquals(bytes(), [{ arena: 0, constants: 0, packed: BYTES, shared: 0 }]);
  f(rows(3));
  const shared = { arena: 0, constants: 0, packed: BYTES, shared: BYTES };
  assertEquals(bytes(), [shared, shared]);
  assertEquals(info().programs.constantBytes - before, BYTES);
  assert(String(f.explain()[0]).includes("packed weights 320 KiB, of these shared 320 KiB"));
});

test("programs that are lost without dispose free their constants", () => {
  const out = runApart(
    `import { memory, ones } from ${moduleAt("mod.ts")};
    import { compile } from ${moduleAt("src/compile/mod.ts")};
    const w = ones([400, 400]);
    const kept = compile((x) => x.linear(w.mul(2)));
    kept(ones([2, 400]));
    const lose = () => {
      for (let i = 0; i < 5; i++) compile((x) => x.linear(w).add(i))(ones([2, 400]));
    };
    lose();
    const before = memory().constantBytes;
    for (let i = 0; i < 10; i++) {
      if (globalThis.Bun) Bun.gc(true);
      else gc();
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    const after = memory().constantBytes;
    kept.dispose();
    w.dispose();
    console.log(before, after, memory().constantBytes);`,
    {},
    ["--allow-ffi", "--allow-env", ...inDeno ? ["--v8-flags=--expose-gc"] : []],
  );
  const [before, after, end] = out.trim().split(" ").map(Number);
  // The doubled weight, and panels of 416 columns.
  assertEquals([before, after, end], [640_000 + 4 * 416 * 400, 640_000, 0]);
});

test("a constant of two tensors ends with the first of them", () => {
  onBackends(() => {
    const before = constants();
    const [a, b] = [weight(), loose(arange(O * I)).reshape([O, I]).astype("float32")];
    const f: Compiled<Any> = compile((x: Any) => x.linear(a.add(b)));
    loose(f)(zeros([2, I]));
    assert(constants() > before);
    b.dispose();
    assertEquals(constants(), before);
    a.dispose();
    f.dispose();
  });
});

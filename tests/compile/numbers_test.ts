/**
 * Numbers and random keys as arguments of compiled functions: the results and errors of plain code,
 * with one program for all values where there can be one.
 *
 * @module
 */
import { assertEquals, assertNotEquals } from "@std/assert";
import { test } from "node:test";
import { arange, attempt, type DType, eye, full, random, tensor, where, zeros } from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import { type Any, loose } from "../support.ts";
import { assertFails, checkCalls, onBackends, outcome, plain } from "./support.ts";

const VALUES = [0, 1, -1, 2.5, 300, -0, NaN, Infinity, -Infinity, 1e20, 2 ** 31, 2 ** 53 + 2, 70000]
  .concat([1e300, 1e-300] as number[]);
const BIGINTS = [3n, -1n, 2n ** 40n, 2n ** 63n, 2n ** 70n];
const NAMES = ["add", "sub", "div", "maximum", "less", "greaterEqual", "equal", "pow", "remainder"]
  .concat(["floorDivide", "logicalAnd", "bitwiseXor", "atan2", "isclose"])
  .concat(["bitwiseLeftShift", "clip", "where", "add_", "set"]);
const DTYPES: DType[] = ["float32", "float16", "uint8", "int32", "uint64"];

/** What an op does with a number. */
function useOf(name: string): (x: Any, n: Any) => Any {
  switch (name) {
    case "clip":
      return (x, n) => x.clip(n, 5);
    case "where":
      return (x, n) => where(x.greater(0), x, n);
    case "set":
      return (x, n) => {
        x.set([0], n);
        return x;
      };
    default:
      return (x, n) => x[name](n);
  }
}

test("each op with each number does what it does alone", () => {
  for (const name of NAMES) {
    for (const dtype of [...DTYPES, "bool"] as DType[]) {
      const make = (): Any =>
        dtype === "bool" ? tensor([true, false, true]) : tensor([1, 0, 3], { dtype });
      const f = useOf(name);
      const compiled = compile(f);
      for (const n of [...VALUES, ...BIGINTS]) {
        assertEquals(
          outcome(compiled, [make(), n]),
          outcome(f, [make(), n]),
          `${name} ${dtype} ${n}`,
        );
      }
    }
  }
});

test("numbers are no keys; a fraction next to integers is one", () => {
  onBackends(() => {
    const rounds = [1, 2, -3, 0, 1e9].map((n) => () => [tensor([1, 2], { dtype: "int32" }), n]);
    const f = checkCalls((x: Any, n: number) => x.mul(n).add(n), rounds);
    assertEquals(f.programs, 1);
    const floats = VALUES.map((n) => () => [tensor([1, 2]), n]);
    assertEquals(checkCalls((x: Any, n: number) => x.mul(n).sub(n), floats).programs, 1);
    const x = tensor([1, 2, 3], { dtype: "int32" });
    const less = compile((x: Any, o: { "my limit": number }) => x.less(o["my limit"]));
    for (const n of [2, 2.5, 3, 2.5, NaN, 1e20, 2]) {
      assertEquals(plain(less(x, { "my limit": n })), plain(loose(x).less(n)));
    }
    // A bigint and a number are of two kinds.
    const both = compile((x: Any, n: number | bigint) => x.add(n));
    assertEquals([both(x, 2), both(x, 2n)].map((y) => y.toArray()), [[3, 4, 5], [3, 4, 5]]);
    assertEquals(both.programs, 2);
  });
});

test("numbers may be results, and scalars of tensors that the function makes", () => {
  const f = compile((n: number, m: bigint) => ({ n, list: [m], sum: tensor(1).add(n), again: n }));
  for (const [n, m] of [[1, 2n], [-0.5, 7n]] as const) {
    assertEquals(plain(f(n, m)), plain({ n, list: [m], sum: tensor(1 + n), again: n }));
  }
  assertEquals(f.programs, 1);
});

const DECIDING: Record<string, (x: Any, n: Any, k: Any) => unknown> = {
  branch: (x, n) => n > 0 ? x : x.neg(),
  equality: (x, n) => n == 1 ? x : x.neg(),
  arithmetic: (x, n) => x.add(n * 2),
  text: (_, n) => `${n}`,
  "to string": (_, n) => n.toString(),
  "to local string": (_, n) => n.toLocaleString(),
  shape: (_, n) => zeros([n, 2]),
  arange: (_, n) => arange(n),
  eye: (_, n) => eye(n),
  full: (_, n) => full([2], n),
  tensor: (_, n) => tensor([n, 2]),
  scalar: (_, n) => tensor(n),
  axis: (x, n) => x.sum(n),
  softmax: (x, n) => x.softmax(n),
  slice: (x, n) => x.slice(n),
  "slice text": (x, n) => x.slice(`${n}:`),
  index: (x, n) => x.set([n], 5),
  reshape: (x, n) => x.reshape([n, -1]),
  take: (x, n) => x.take(n),
  topk: (x, n) => x.topk(n),
  tile: (x, n) => x.tile([n]),
  pad: (x, n) => x.pad(n),
  roll: (x, n) => x.roll(n),
  split: (x, n) => x.split(n),
  expandDims: (x, n) => x.expandDims(n),
  epsilon: (x, n) => x.layerNorm(-1, { epsilon: n }),
  rtol: (x, n) => x.isclose(x, { rtol: n }),
  permutation: (_, n, k) => random.permutation(k, n),
  "split of keys": (_, n, k) => random.split(k, n),
  low: (_, n, k) => random.uniform(k, [2], { low: n }),
  integers: (_, n, k) => random.integers(k, [2], 0, n),
  seed: (_, n) => random.key(n),
};

test("a number that decides a branch, a shape or another number is a TraceError", () => {
  for (const [name, f] of Object.entries(DECIDING)) {
    for (const n of [1, 1n]) {
      const compiled = compile((x: Any, o: { deep: unknown[] }, k: Any) => f(x, o.deep[0], k));
      const { error } = attempt(() => compiled(tensor([1, 2]), { deep: [n] }, random.key(0)));
      assertEquals(error?.name, "TraceError", `${name}: ${error?.message}`);
      assertFails(
        () => compiled(tensor([1, 2]), { deep: [n] }, random.key(0)),
        "TraceError",
        "the number at argument 1.deep[0] (counted from 0)",
        '"static"',
      );
      assertEquals(compiled.programs, 0);
    }
  }
  // Nothing is written before the error, with the library or without.
  onBackends(() => {
    const late = compile((x: Any, n: Any) => {
      x.add_(1);
      x.set([n], 5);
    });
    const x = tensor([1, 2]);
    assertFails(() => late(x, 0), "TraceError", "the number at argument 1");
    assertEquals([x.toArray(), late.programs], [[1, 2], 0]);
  });
  const inKey = compile((x: Any, k: Any) => k.word0 > 5 ? x : x.neg());
  assertFails(() => inKey(tensor([1]), random.key(0)), "TraceError", "the key at argument 1");
});

test("static numbers are keys: by argument, by path, or all", () => {
  const f = (x: Any, n: number, o: { k: number; list: number[] }): Any =>
    x.slice(`${n}:`).mul(o.k).add(o.list[1]);
  const rounds = [[1, 2, 3], [1, 2, 4], [0, 2, 4], [1, 7, 3]].map(([n, k, m]) => () => [
    arange(4),
    n,
    { k, list: [5, m] },
  ]);
  const counts: [Any, number][] = [
    [[1], 2],
    [[1, "2.k"], 3],
    [[1, "2.list[1]"], 3],
    [["1", "2.list"], 3],
    [[1, 2], 4],
    [true, 4],
    [[1, "2.other", 9], 2],
  ];
  for (const [option, programs] of counts) {
    assertEquals(checkCalls(f, rounds, { static: option }).programs, programs, String(option));
  }
  // NaN and -0 are values like others.
  const weighted = compile((x: Any, n: number) => x.mul(n), { static: [1] });
  for (const n of [NaN, NaN, 0, -0, 0]) {
    assertEquals(plain(weighted(tensor([1]), n)), plain(tensor([n])));
  }
  assertEquals(weighted.programs, 3);
  for (const bad of [[-1], [1.5], [null], [{}], [NaN]]) {
    assertFails(() => compile(f, loose({ static: bad })), "ArgumentError", "static");
  }
  for (const bad of ["1", null, 1, {}, false]) {
    assertFails(() => compile(f, loose({ static: bad })), "TypeError", "static");
  }
});

test("random keys are arguments: the numbers of each key, from one program", () => {
  onBackends(() => {
    const f = (key: Any, n: number): Any => {
      const [a, { rest: [b] }] = [random.split(key)[0], { rest: random.split(key, 3) }];
      const folded = random.foldIn(b!, n);
      return {
        uniform: random.uniform(a, [2, 3], { low: -1, high: 2 }),
        normal: random.normal(folded, [20], { mean: 3, std: 2, dtype: "float64" }),
        integers: random.integers(random.foldIn(folded, 5), [7], -10, 10),
        bits: random.bits(key, [3]).add(1),
        permutation: random.permutation(folded, 9),
        again: random.uniform(a, [2, 3], { low: -1, high: 2 }),
      };
    };
    const rounds = [[1, 2], [2, 2], [2, 3], [2 ** 40, 2 ** 33]].map(([seed, n]) => () => [
      random.key(seed!),
      n,
    ]);
    const compiled = checkCalls(f, rounds);
    assertEquals(compiled.programs, 1);
    const [one, other] = [1, 2].map((seed) => plain(compiled(random.key(seed), 0)));
    assertNotEquals(one, other);
    assertFails(() => compiled(random.key(0), 0.5), "ArgumentError", "foldIn 0.5");
    assertFails(() => compiled(random.key(0), 2 ** 60), "ArgumentError", "bigint");
    assertEquals(plain(compiled(random.key(0), 2)), plain(f(random.key(0), 2)));
  });
});

test("keys may be results, and other records of two words are records", () => {
  const f = compile((key: Any, o: Any) => [random.split(key), o.word0]);
  for (const seed of [3, 4]) {
    const key = random.key(seed);
    assertEquals(f(key, { word0: "a", word1: 2 }), [random.split(key), "a"]);
  }
  assertEquals(f.programs, 1);
});

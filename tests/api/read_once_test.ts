/**
 * Options and arrays are read once: a getter or a later change does not reach what was checked.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import * as rm from "../../mod.ts";
import { performCall } from "../../src/core/dispatch.ts";
import { interpret } from "../../src/core/interpreter.ts";
import { loose } from "../support.ts";

// deno-lint-ignore no-explicit-any
type Any = any;
const lib: Any = rm;
const { io, random } = lib;
const folder = mkdtempSync(join(tmpdir(), "rowmajor-reads-"));
after(() => rmSync(folder, { recursive: true }));

/** An object, or an array, whose properties may be read once. */
function once<T extends object>(given: T): T {
  const seen = new Set<PropertyKey>();
  return new Proxy(given, {
    get(target, key) {
      const counts = typeof key === "string" && key !== "length" &&
        Object.hasOwn(target, key);
      if (counts && seen.has(key)) throw new Error(`${key} is read for the second time`);
      seen.add(key);
      return Reflect.get(target, key);
    },
  });
}

const x = (): Any => loose(rm.arange(6)).reshape([2, 3]);
const line = (): Any => loose(rm.arange(5));
const whole = (): Any => loose(rm.zeros([2, 3], { dtype: "int32" }));
const out = (...shape: number[]): Any => loose(rm.zeros(shape));
const ints = (...shape: number[]): Any => loose(rm.zeros(shape, { dtype: "int32" }));
const bytes = {
  npy: io.encodeNpy(rm.arange(3)),
  npz: io.encodeNpz({ a: rm.arange(3), b: rm.arange(2) }),
  safetensors: io.encodeSafetensors({ a: rm.arange(3) }),
};
const path = join(folder, "a.npz");
await io.writeNpz(path, { a: rm.arange(3) });
const path2 = join(folder, "a.npy");
await io.writeNpy(path2, rm.arange(3));
const doubled: Any = rm.defineOp({ name: "readOnce", expr: "k * x", parameters: ["k"] });
const key = random.key(1);
const F64 = { dtype: "float64" } as const;

/** Calls with options and arrays; `o` makes each of them one that may be read once, or not. */
const CALLS: Record<string, (o: <T extends object>(given: T) => T) => unknown> = {
  add: (o) => x().add(x(), o({ out: out(2, 3), broadcast: false })),
  exp: (o) => x().exp(o({ out: out(2, 3) })),
  clip: (o) => x().clip(1, 2, o({ out: out(2, 3) })),
  where: (o) => lib.where(x().greater(1), x(), 0, o({ out: out(2, 3) })),
  isclose: (o) => x().isclose(x(), o({ rtol: 1, atol: 1, equalNan: true })),
  allclose: (o) => x().allclose(x(), o({ rtol: 1, atol: 1, equalNan: true })),
  equals: (o) => x().equals(x(), o({ equalNan: true })),
  ...Object.fromEntries(
    ["sum", "prod", "mean", "var", "std", "norm", "logsumexp"].map((name) => [
      name,
      (o: <T extends object>(given: T) => T) =>
        x()[name](o([0, 1]), o({ keepDims: true, dtype: "float64" })),
    ]),
  ),
  ...Object.fromEntries(
    ["max", "min", "any", "all", "countNonzero"].map((name) => [
      name,
      (o: <T extends object>(given: T) => T) => x()[name](o([0, -1]), o({ keepDims: true })),
    ]),
  ),
  "sum into": (o) => x().sum(o([1]), o({ out: out(2) })),
  "var with a correction": (o) => x().var(o([1]), o({ correction: 1, out: out(2) })),
  "norm of an order": (o) => x().norm(o([1]), o({ ord: 3, out: out(2) })),
  argmax: (o) => x().argmax(1, o({ keepDims: true, out: ints(2, 1) })),
  argmin: (o) => x().argmin(0, o({ out: ints(3) })),
  cumulativeSum: (o) => x().cumulativeSum(0, o({ includeInitial: true, dtype: "float64" })),
  softmax: (o) => x().softmax(1, o({ out: out(2, 3) })),
  layerNorm: (o) =>
    x().layerNorm(o([0, 1]), o({ weight: line().slice(":3"), epsilon: 1, out: out(2, 3) })),
  rmsNorm: (o) => x().rmsNorm(o([1]), o({ epsilon: 1 })),
  matmul: (o) => x().matmul(x().T, o({ dtype: "float64" })),
  dot: (o) => line().dot(line(), o({ dtype: "float64", out: loose(rm.zeros([], F64)) })),
  outer: (o) => line().outer(line(), o({ out: out(5, 5) })),
  linear: (o) => x().linear(x(), undefined, o({ out: out(2, 2) })),
  sort: (o) => x().sort(0, o({ descending: true })),
  argsort: (o) => x().argsort(-1, o({ descending: true })),
  topk: (o) => Object.values(x().topk(1, 0, o({ largest: false, sorted: false }))),
  partition: (o) => x().partition(o([1, 0]), 0),
  argpartition: (o) => x().argpartition(o([0, 1])),
  median: (o) => x().median(o([0, 1]), o({ keepDims: true })),
  quantile: (o) => x().quantile(o([0.5, 1]), o([0, 1]), o({ method: "hazen", keepDims: true })),
  mode: (o) => Object.values(x().mode(o([0, 1]), o({ keepDims: true }))),
  reshape: (o) => x().reshape(o([3, -1])),
  "reshape of a view": (o) => x().T.reshape(o([3, 2, 1])),
  broadcastTo: (o) => x().broadcastTo(o([2, 2, 3])),
  asShape: (o) => x().asShape(o([2, 3])),
  squeeze: (o) => x().reshape([1, 2, 1, 3]).squeeze(o([0, 2])),
  flip: (o) => x().flip(o([0, 1])),
  permute: (o) => x().permute(...o([1, 0])),
  slice: (o) => x().slice(o([1, 0]), ":2"),
  "slice by booleans": (o) => x().slice(o([true, false])),
  "slice by several": (o) => x().slice(o([0, 1]), o([2, 0])),
  set: (o) => set((y) => y.set(o([o([1, 0]), 2]), 9, o({ accumulate: true }))),
  "set by booleans": (o) => set((y) => y.set(o([o([true, false])]), 9)),
  take: (o) => x().take(o([1, 0]), 1),
  takeAlongAxis: (o) => line().takeAlongAxis(o([4, 0]), 0),
  putAlongAxis_: (o) => line().putAlongAxis_(o([4, 0]), 9, 0, o({ accumulate: true })),
  oneHot: (o) => whole().oneHot(2, o({ dtype: "int8" })),
  tile: (o) => x().tile(o([2, 1, 2])),
  repeat: (o) => x().repeat(o([2, 1]), 0),
  roll: (o) => x().roll(o([1, 2]), o([0, 1])),
  pad: (o) => x().pad(o([o([1, 0]), o([0, 2])]), o({ mode: "constant", value: 7 })),
  "pad by reflection": (o) => x().pad(o([1, 1]), o({ mode: "reflect" })),
  split: (o) => line().split(o([1, 3])),
  concat: (o) => lib.concat(o([line(), line()]), 0, o({ out: out(10) })),
  stack: (o) => lib.stack(o([line(), line()]), 1, o({ out: out(5, 2) })),
  meshgrid: (o) => lib.meshgrid(o([line(), line()]), o({ indexing: "ij" })),
  zeros: (o) => lib.zeros(o([2, 2]), o({ dtype: "int8", device: "cpu" })),
  full: (o) => lib.full(o([2]), 7, o({ dtype: "int8" })),
  fullMax: (o) => lib.fullMax(o([2]), o({ dtype: "int8" })),
  onesLike: (o) => lib.onesLike(x(), o({ dtype: "int8", device: "cpu" })),
  scalar: (o) => lib.scalar(1, o({ dtype: "int8" })),
  arange: (o) => lib.arange(0, 4, 2, o({ dtype: "int8", device: "cpu" })),
  linspace: (o) => lib.linspace(0, 4, 3, o({ dtype: "int8", endpoint: false })),
  eye: (o) => lib.eye(2, 3, o({ k: 1, dtype: "int8" })),
  tensor: (o) => lib.tensor([1, 2], o({ shape: o([2, 1]), dtype: "int8", device: "cpu" })),
  "tensor of a typed array": (o) =>
    lib.tensor(new Int8Array(2), o({ shape: o([2, 1]), dtype: "int32" })),
  "tensor of a tensor": (o) => lib.tensor(x(), o({ shape: o([6]), dtype: "int8", device: "cpu" })),
  fromBuffer: (o) =>
    lib.fromBuffer(
      new Float32Array(9),
      o({ dtype: "float32", shape: o([2, 2]), strides: o([2, 1]), offset: 1 }),
    ),
  "random.uniform": (o) => random.uniform(key, o([3]), o({ low: 1, high: 2, dtype: "float64" })),
  "random.normal": (o) => random.normal(key, o([3]), o({ mean: 1, std: 2, device: "cpu" })),
  "random.integers": (o) => random.integers(key, o([3]), 0, 5, o({ dtype: "int8", device: "cpu" })),
  "random.bits": (o) => random.bits(key, o([3]), o({ device: "cpu" })),
  "random.permutation": (o) => random.permutation(key, 4, o({ device: "cpu" })),
  "a key": (o) => random.bits(o({ ...key }), [2]),
  text: (o) =>
    x().toString(o({ precision: 2, threshold: 3, edgeItems: 1, lineWidth: 60, scientific: true })),
  toArray: (o) => x().toArray(o({ bigint: true })),
  item: (o) => x().sum().item(o({ bigint: true })),
  image: (o) => lib.image(x(), o({ min: 0, max: 6, scale: 2 })).png,
  warmUp: (o) => lib.warmUp("cpu", o(["add"]), o(["float32"])),
  defineOp: (o) => {
    definitions++;
    return loose(lib.defineOp(o({
      name: `readOnce${definitions}`,
      expr: "k * x",
      parameters: o(["k"]),
    })))(x(), o({ k: 2 }));
  },
  "a defined op": (o) => doubled(x(), o({ k: 2, out: out(2, 3), broadcast: false })),
  "an inferred result": (o) => {
    definitions++;
    const infer = (): Any => o({ shape: o([2]), dtype: "float32" });
    return lib.defineOp({ name: `readOnce${definitions}`, infer, run: () => {} })(x());
  },
  "io.decodeNpy": (o) => io.decodeNpy(bytes.npy, o({ file: "a", bfloat16: true })),
  "io.decodeNpz": (o) =>
    io.decodeNpz(bytes.npz, o({ file: "a", maxBytes: 1e6, names: o(["b"]) })).b,
  "io.encodeNpz": (o) => io.encodeNpz(o({ a: x() }), o({ compress: true })),
  "io.encodeSafetensors": (o) =>
    io.encodeSafetensors(o({ a: x() }), o({ metadata: o({ by: "me" }) })),
  "io.decodeSafetensors": (o) => io.decodeSafetensors(bytes.safetensors, o({ file: "a" })).get("a"),
};

let definitions = 0;

/** What a write gives. */
function set(write: (y: Any) => void): Any {
  const y = x();
  write(y);
  return y;
}

const plain = <T extends object>(given: T): T => given;

/** What a call gives, as text. */
function outcome(call: () => unknown): string {
  const made = call();
  const parts = Array.isArray(made) ? made : [made];
  return parts.map((one) => (one as Any)?.layout ? `${one}` : String(one)).join("; ");
}

test("calls read options and arrays once", () => {
  for (const [name, call] of Object.entries(CALLS)) {
    const wanted = outcome(() => call(plain));
    let made: string;
    try {
      made = outcome(() => call(once));
    } catch (error) {
      throw new Error(`${name}: ${error}`, { cause: error });
    }
    assertEquals(made, wanted, name);
  }
});

test("recorded calls read options and arrays once", () => {
  for (const [name, call] of Object.entries(CALLS)) {
    const wanted = outcome(() => call(plain));
    let made: string;
    try {
      made = outcome(() => interpret({ run: performCall, read: () => {} }, () => call(once)));
    } catch (error) {
      throw new Error(`${name}: ${error}`, { cause: error });
    }
    assertEquals(made, wanted, name);
  }
});

test("recorded calls keep no array of the caller, which may change before they run", () => {
  const keep = (calls: Any[]): string =>
    JSON.stringify(calls.map((call) => call.attributes), (key, value) => {
      if (key === "data" || key === "buffer") return undefined;
      return value?.layout ? "tensor" : typeof value === "bigint" ? `${value}n` : value;
    });
  for (const [name, call] of Object.entries(CALLS)) {
    const [lists, calls]: [unknown[][], Any[]] = [[], []];
    const note = <T extends object>(given: T): T => {
      if (Array.isArray(given)) lists.push(given);
      return given;
    };
    const run = (one: Any): void => {
      performCall(one);
      calls.push(one);
    };
    interpret({ run, read: () => {} }, () => outcome(() => call(note)));
    const before = keep(calls);
    for (const list of lists) list.fill(99);
    assertEquals(keep(calls), before, name);
  }
});

test("readers of files read options once, before they read the file", async () => {
  for (const options of [{ names: ["a"] }, { names: undefined, maxBytes: 1e6 }] as Any[]) {
    const later = once({ ...options });
    const made = io.readNpz(path, later);
    assertEquals((await made).a.toArray(), [0, 1, 2]);
  }
  assertEquals((await io.readNpy(path2, once({ bfloat16: true, file: "a" }))).toArray(), [0, 1, 2]);
});

test("a getter that makes a copy on write during a write keeps the old elements in it", () => {
  const getter = (made: () => number): number[] =>
    Object.defineProperty([0], 0, { get: made }) as number[];
  const calls: Record<string, (y: Any, made: () => number) => void> = {
    "indices of set": (y, made) => y.set([getter(made)], 9),
    "options of set": (y, made) =>
      y.set([1], 9, {
        get accumulate() {
          return made() === 0;
        },
      }),
    "indices of putAlongAxis_": (y, made) => y.putAlongAxis_(getter(made), 9, 0),
  };
  for (const [name, write] of Object.entries(calls)) {
    const y = loose(rm.arange(3));
    let snapshot: Any;
    write(y, () => {
      snapshot = y.intoCow();
      return 1;
    });
    assert(snapshot !== undefined, name);
    assertEquals(y.toArray(), [0, 9, 2], name);
    assertEquals(snapshot.toArray(), [0, 1, 2], name);
  }
});

test("out is read once, so that a read-only one is never written", () => {
  const frozen = loose(rm.zeros([2], { dtype: "int32" })).readonly();
  const calls: Record<string, (y: Any, options: Any) => unknown> = {
    argmax: (y, options) => y.argmax(1, options),
    argmin: (y, options) => y.argmin(1, options),
  };
  for (const [name, call] of Object.entries(calls)) {
    let reads = 0;
    const good = ints(2);
    const options = {
      get out() {
        return reads++ === 0 ? good : frozen;
      },
    };
    call(x(), options);
    assertEquals([reads, frozen.toArray()], [1, [0, 0]], name);
    assertThrows(() => call(x(), { out: frozen }), rm.ReadOnlyError);
  }
});

/**
 * Programs that are wrong: errors that name the op and the place. They change no tensor, keep no memory, and
 * the next derivative is right.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import * as rm from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import {
  checkpoint as checkpointOf,
  grad as gradOf,
  stopGradient as stopOf,
  valueAndGrad as bothOf,
  vjp as vjpOf,
} from "../../src/grad/mod.ts";
import { loose } from "../support.ts";
import type { T } from "./differences.ts";

const [grad, valueAndGrad, vjp, checkpoint, stopGradient] = [
  ...[gradOf, bothOf, vjpOf, checkpointOf, stopOf],
].map(loose);
const R: T = loose({ ...rm });
const f64 = (data: unknown): T => R.tensor(data, { dtype: "float64" });
const { DerivativeError } = rm;

const plain: T = loose(rm.defineOp)({
  name: "gradWithout",
  infer: ([x]: T) => x,
  run: ([x]: T, [out]: T) => out.data.set(x.data),
});

type Case = readonly [f: (x: T) => unknown, error: T, text: string];

/** What is wrong in a function of x = [1, 2] that is differentiated. */
const FUNCTIONS: Readonly<Record<string, Case>> = {
  // Reads.
  "a number of a tensor": [(x) => x.mul(x.sum().item()).sum(), DerivativeError, "Cannot item"],
  "an array of a tensor": [(x) => x.mul(x.toArray()[0]).sum(), DerivativeError, "Cannot toArray"],
  "a typed array": [(x) => x.mul(x.toTypedArray()[0]).sum(), DerivativeError, "toTypedArray"],
  "a branch by a value": [
    (x) => x.sum().greater(0).item() && x.mul(2).get(1) > 3 ? x.sum() : x.mean(),
    DerivativeError,
    "Cannot get",
  ],
  // Writes.
  "a write to an argument": [(x) => x.add_(1).sum(), DerivativeError, "Cannot add_"],
  "a write to a part of an argument": [
    (x) => {
      x.slice(0).mul_(2);
      return x.sum();
    },
    DerivativeError,
    "Cannot mul_: it writes an argument",
  ],
  "an argument as out": [(x) => x.sin({ out: x }).sum(), DerivativeError, "Cannot sin: it writes"],
  "set of an argument": [
    (x) => {
      x.set([0], 5);
      return x.sum();
    },
    DerivativeError,
    "it writes an argument",
  ],
  "a write to a saved value": [
    (x) => {
      const y = x.mul(2);
      const z = y.mul(y);
      y.add_(1);
      return z.sum();
    },
    DerivativeError,
    "Cannot differentiate mul: a tensor of shape [2]",
  ],
  "a write to a saved result": [
    (x) => {
      const y = x.exp();
      y.slice(0).mul_(2);
      return y.sum();
    },
    DerivativeError,
    "Cannot differentiate exp",
  ],
  "a write to the indices of a read": [
    (x) => {
      const at = R.tensor([0, 1], { dtype: "int32" });
      const y = x.take(at);
      at.set([0], 1);
      return y.sum();
    },
    DerivativeError,
    "Cannot differentiate take",
  ],
  // Tensors.
  "a tensor from outside": [
    () => f64([1, 2]).sum(),
    DerivativeError,
    "uses no tensor of argument 0",
  ],
  "use after dispose": [
    (x) => {
      x.dispose();
      return x.sum();
    },
    rm.DisposedError,
    "sum",
  ],
  "use of a tensor whose scope has ended": [
    (x) => {
      let inner: T;
      rm.scope(() => void (inner = x.mul(2)));
      return inner.sum();
    },
    rm.DisposedError,
    "sum",
  ],
  "a checkpoint of a tensor from outside": [
    (x) => {
      const y = x.mul(2);
      return checkpoint((z: T) => z.mul(y))(x).sum();
    },
    DerivativeError,
    "Cannot mul in a function of checkpoint()",
  ],
  "a checkpoint whose constant is written": [
    (x) => {
      const y = R.ones([2], { dtype: "float64" });
      const z = checkpoint((z: T) => z.mul(y))(x).sum();
      y.mul_(2);
      return z;
    },
    DerivativeError,
    "Cannot differentiate checkpoint: a tensor of shape [2]",
  ],
  "a checkpoint that returns no tensor": [
    (x) => checkpoint(() => 3)(x),
    rm.ArgumentError,
    "Cannot checkpoint: the function returned 3",
  ],
  // Values.
  "a value with axes": [(x) => x.mul(x), rm.ShapeError, "float64 of shape [2]"],
  "a number": [() => 3, rm.ArgumentError, "the function returned 3"],
  "nothing": [() => undefined, rm.ArgumentError, "the function returned undefined"],
  "an integer": [(x) => x.sum().astype("int32"), rm.ShapeError, "the function returned int32"],
  "a complex number": [(x) => R.complex(x, x).sum(), rm.ShapeError, "returned complex128"],
  "an array": [(x) => [x.sum(), 1, 2], rm.ArgumentError, "returned an array"],
  "a promise": [
    (x) => Promise.resolve(x.sum()),
    TypeError,
    "Cannot differentiate an async function",
  ],
  // Ops without a derivative.
  "eigvals": [
    (x) => rm.linalg.eigvals(loose(x.outer(x).add(f64([[1, 0], [3, 1]])))).real().sum(),
    DerivativeError,
    "Cannot differentiate eigvals",
  ],
  "lu": [(x) => R.linalg.lu(x.outer(x)).l.sum(), DerivativeError, "Cannot differentiate lu"],
  "all vectors of svd": [
    (x) => R.linalg.svd(x.reshape([2, 1])).u.sum(),
    DerivativeError,
    "Cannot differentiate svd with all vectors",
  ],
  "complete qr": [
    (x) => R.linalg.qr(x.reshape([2, 1]), { mode: "complete" }).q.sum(),
    DerivativeError,
    "Cannot differentiate qr of matrices of 2 rows and 1 columns",
  ],
  "unique values": [(x) => R.uniqueValues(x).sum(), DerivativeError, "uniqueRuns"],
  "mode": [(x) => x.mode().values?.sum() ?? x.mode().sum(), DerivativeError, "modesOfRows"],
  "zeta by its first argument": [
    (x) => R.special.zeta(x.add(1), 2).sum(),
    DerivativeError,
    "Cannot differentiate zeta by operand 0",
  ],
  "a product with a packed weight": [
    (x) => R.ones([1, 2]).linear(R.pack(x.astype("float32").reshape([1, 2]))).sum(),
    DerivativeError,
    "pass the weight itself",
  ],
  "an op of the program": [(x) => plain(x).sum(), DerivativeError, "pass backward() to defineOp()"],
  "random numbers by parameters": [
    (x) => R.random.poisson(R.random.key(1), [2], x, { dtype: "float32" }).sum(),
    DerivativeError,
    "deviates",
  ],
};

const right = (x: T): T => x.square().sum();

/** Throws unless `run` throws, changes no tensor, keeps no memory, and leaves derivatives as they are. */
function assertWrong(name: string, run: (x: T) => unknown, error: T, text: string): void {
  const x = f64([1, 2]);
  const kept = rm.memory().bytes;
  assertThrows(() => run(x), error, text, name);
  assertEquals(x.toArray(), [1, 2], name);
  assertEquals(rm.memory().bytes, kept, name);
  const slope = grad(right)(x);
  assertEquals(slope.toArray(), [2, 4], name);
  slope.dispose();
  x.dispose();
}

test("functions without a derivative are errors that name the place", () => {
  for (const [name, [f, error, text]] of Object.entries(FUNCTIONS)) {
    assertWrong(name, grad(f), error, text);
  }
  assert(Object.keys(FUNCTIONS).length >= 30);
});

test("functions without a derivative are errors in programs, too", () => {
  for (const [name, [f, error, text]] of Object.entries(FUNCTIONS)) {
    // Reads of values are errors of the trace.
    if (/array|number of|branch|promise/.test(name)) continue;
    using program: T = compile(grad(f) as T);
    const x = f64([1, 2]);
    assertThrows(() => program(x), error, text, name);
    assertEquals(x.toArray(), [1, 2], name);
  }
});

test("errors on the way back free what is kept once, and the derivatives before them", () => {
  const f = (x: T): T => {
    const y = x.sin();
    const z = y.mul(x);
    y.add_(1);
    return z.exp().mul(x).mul(z).sum();
  };
  const runs: T[] = [
    grad(f),
    grad((x: T) => checkpoint(f)(x)),
    grad((x: T) => grad(f)(x).sum()),
    (x: T) => {
      using run = vjp(f, x);
      run.pullback(run.value);
    },
  ];
  const x = f64(Array.from({ length: 100 }, (_, i) => i / 100));
  const expected = x.mul(2).toArray();
  for (const run of runs) {
    assertThrows(() => rm.scope(() => void run(x)), DerivativeError, "was written since");
    const before = rm.memory().bytes;
    for (let k = 0; k < 5; k++) {
      assertThrows(() => rm.scope(() => void run(x)), DerivativeError, "was written since");
    }
    assertEquals(rm.memory().bytes, before);
    // Memory that is not free is not that of others.
    rm.scope(() => {
      for (let k = 0; k < 10; k++) x.mul(0);
      assertEquals(grad(right)(x).toArray(), expected);
    });
  }
});

test("what a function returned is freed if its way back throws", () => {
  const x = f64(Array.from({ length: 1000 }, (_, i) => i));
  const outside = f64([1, 2]);
  const failing: T = R.defineOp({
    name: "gradFails",
    expr: "x",
    backward: () => {
      throw new Error("mine");
    },
  });
  const aux = (y: T): T => ({ deep: [y.mul(2)], outside });
  const runs: Record<string, () => unknown> = {
    "way back": () => grad((y: T) => [failing(y).sum(), aux(y)], { aux: true })(x),
    "value with axes": () => grad((y: T) => y.mul(2))(x),
    "value of integers": () => grad((y: T) => [y.argmax(), aux(y)], { aux: true })(x),
    "no argument": () => grad(() => x.mul(2).sum())(x),
    "too many": () => valueAndGrad((y: T) => [y.sum(), aux(y), 3], { aux: true })(x),
    "vjp": () => vjp((y: T) => [y.mul(2), 3], x),
    "pullback": () => {
      using run: T = vjp((y: T) => [failing(y), y.mul(2)], x);
      run.value.forEach((one: T) => one.dispose());
      run.pullback([x, x]);
    },
  };
  const live = (): number => rm.memory().bytes - rm.memory().pooledBytes;
  for (const [name, run] of Object.entries(runs)) {
    const error = name === "way back" || name === "pullback" ? "mine" : "Cannot differentiate";
    assertThrows(run, Error, error);
    const before = live();
    for (let k = 0; k < 3; k++) assertThrows(run, Error, error);
    assertEquals(live(), before, name);
  }
  assertEquals(outside.toArray(), [1, 2]);
});

test("arguments that derivatives do not take are errors that name them", () => {
  const sum = (x: T): T => x.sum();
  const ints = R.ones([2], { dtype: "int32" });
  // The first one makes a table that stays.
  R.pack(R.ones([2, 32])).dispose();
  const weight = R.ones([2, 32]);
  const gone = f64([1]);
  gone.dispose();
  const cycle: T = {};
  cycle.own = cycle;
  const cases: [name: string, run: (x: T) => unknown, error: T, text: string][] = [
    ["integers", () => grad(sum)(ints), rm.DTypeError, "by argument 0, of int32"],
    ["integers in a tree", (x) => grad(sum)({ x, n: [ints] }), rm.DTypeError, "argument 0.n[0]"],
    ["bools", () => grad(sum)(R.ones([2], { dtype: "bool" })), rm.DTypeError, "of bool"],
    [
      "a quantized weight",
      () => {
        using quantized = R.quantize(weight, "q8_0");
        grad(sum)({ quantized });
      },
      rm.DTypeError,
      "argument 0.quantized, of q8_0",
    ],
    [
      "a packed weight",
      () => {
        const packed = R.pack(weight);
        try {
          grad(sum)([packed]);
        } finally {
          packed.dispose();
        }
      },
      rm.ArgumentError,
      "argument 0[0]",
    ],
    ["a number", (x) => grad(sum)({ n: 3, x }), rm.ArgumentError, "argument 0.n, 3"],
    ["nothing", () => grad(sum)(), rm.ArgumentError, "by argument 0, undefined"],
    ["null in a tree", (x) => grad(sum)({ x, b: null }), rm.ArgumentError, "argument 0.b, null"],
    ["a map", (x) => grad(sum)(new Map([["x", x]])), rm.ArgumentError, "argument 0"],
    ["an empty tree", () => grad(sum)([]), rm.ArgumentError, "argument 0 has no tensors"],
    ["a cycle", () => grad(sum)(cycle), rm.ArgumentError, "is nested more than"],
    ["a tensor that was disposed of", () => grad(sum)(gone), rm.DisposedError, "argument 0"],
    [
      "one that was disposed of, in a tree",
      (x) => grad((p: T) => p.x.sum())({ x, gone }),
      rm.DisposedError,
      "argument 0.gone",
    ],
    ["no function", () => grad(3), rm.ArgumentError, "Cannot differentiate 3"],
    ["an unknown option", () => grad(sum, { auxiliary: true }), TypeError, "auxiliary"],
    ["no aux", (x) => grad(sum, { aux: true })(x), rm.ArgumentError, "returns [value, aux]"],
    ["no checkpoint", () => checkpoint("f"), rm.ArgumentError, 'Cannot checkpoint "f"'],
    ["no tensors to stop", () => stopGradient([1]), rm.ArgumentError, "argument 0[0], 1"],
    ["vjp of no tensors", (x) => vjp((y: T) => [y, 3], x), rm.ArgumentError, "argument 0[1], 3"],
    ["vjp of integers", (x) => vjp((y: T) => y.argmax(), x), rm.DTypeError, "of int"],
  ];
  for (const [name, run, error, text] of cases) assertWrong(name, run, error, text);
  weight.dispose();
});

test("derivatives by the value that do not fit are errors", () => {
  const x = f64([1, 2]);
  using run: T = vjp((own: T) => ({ a: own.mul(own), b: own.sum() }), x);
  const good = { a: f64([1, 1]), b: f64(1) };
  assertThrows(() => run.pullback([x]), rm.ArgumentError, "1 derivatives are given for 2 values");
  assertThrows(
    () => run.pullback({ a: x, b: x }),
    rm.ShapeError,
    "derivative 1 is float64 of shape",
  );
  assertThrows(
    () => run.pullback({ ...good, a: R.ones([2]) }),
    rm.ShapeError,
    "derivative 0 is float32",
  );
  assertThrows(() => run.pullback({ a: 1, b: 2 }), rm.ArgumentError, "argument 0.a, 1");
  assertEquals(run.pullback(good).toArray(), [3, 5]);
  // By names, and not by their order.
  const twins: T = vjp((own: T) => ({ a: own.mul(2), b: own.mul(3) }), x);
  assertEquals(twins.pullback({ b: f64([10, 0]), a: f64([1, 0]) }).toArray(), [32, 0]);
  assertThrows(
    () => twins.pullback({ a: x, c: x }),
    rm.ArgumentError,
    "a tree has no tensor at b",
  );
  twins.dispose();
  run.dispose();
  assertThrows(() => run.pullback(good), rm.DisposedError, "Cannot pull back");
});

test("arguments that share memory, and handles of a function after it", () => {
  const x = f64([1, 2, 3]);
  const shared = (own: T[]): T => own[0].slice(0).add(own[1].sum());
  const slopes: T[] = grad(shared)([x.slice(":2"), x.slice("1:")]);
  assertEquals(slopes.map((slope) => slope.toArray()), [[1, 0], [1, 1]]);
  assertThrows(
    () => grad((own: T[]) => own[0].add_(own[1]).sum())([x.slice(":2"), x.slice("1:")]),
    DerivativeError,
    "it writes an argument",
  );
  let leaked: T;
  const [value] = valueAndGrad((own: T) => {
    leaked = own;
    return own.sum();
  })(x);
  assertEquals(value.item(), 6);
  assertThrows(() => leaked.sum(), rm.DisposedError, "sum");
  assertEquals(x.toArray(), [1, 2, 3]);
});

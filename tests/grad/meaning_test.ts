/**
 * What derivatives mean: nested ones, writes, constants, checkpoints, programs, and errors.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import * as rm from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import {
  checkpoint,
  grad as gradOf,
  stopGradient,
  valueAndGrad as bothOf,
  vjp as vjpOf,
} from "../../src/grad/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import { loose } from "../support.ts";
import type { T } from "./differences.ts";

const [grad, valueAndGrad, vjp] = [gradOf, bothOf, vjpOf].map(loose);
const N: T = nn;
const f64 = (data: unknown): T => rm.tensor(loose(data), { dtype: "float64" });
const f32 = (data: unknown): T => rm.tensor(loose(data), { dtype: "float32" });

test("rows of a tensor have derivatives", () => {
  const rows = (x: T): T => [...x].reduce((sum, row, i) => sum.add(row.mul(i).sum()), x.sum());
  assertEquals(grad(rows)(f64([[1, 2], [3, 4]])).toArray(), [[1, 1], [2, 2]]);
  assertEquals(grad(rows)(f64([5, 6, 7])).toArray(), [1, 2, 3]);
});

test("derivatives of derivatives do not mix up their variables", () => {
  const cube = (x: T): T => x.pow(3).sum();
  assertEquals(grad((x: T) => grad(cube)(x).sum())(f64([1, 2])).toArray(), [6, 12]);
  // d/dx of x · d/dy (y · x) = 2 x
  const mixed = grad((x: T) => grad((y: T) => y.mul(x).sum())(x).mul(x).sum());
  assertEquals(mixed(f64([1, 2, 3])).toArray(), [2, 4, 6]);
  // A Hessian by a vector.
  const product = (x: T, v: T): T => grad((own: T) => grad(cube)(own).mul(v).sum())(x);
  assertEquals(product(f64([1, 2]), f64([1, 10])).toArray(), [6, 120]);
  // The second derivative of what is linear.
  assertEquals(grad((x: T) => grad((y: T) => y.mul(3).sum())(x).sum())(f64([1])).toArray(), [0]);
});

test("tensors from outside are constants, also those of the arguments", () => {
  const x = f64([1, 2]);
  assertEquals(grad((own: T) => own.mul(x).sum())(x).toArray(), [1, 2]);
  assertEquals(grad((own: T, other: T) => own.mul(other).sum())(x, x).toArray(), [1, 2]);
  // The same tensor twice in the tree is two variables.
  const both = grad(([a, b]: T[]) => a.mul(b).mul(b).sum())([x, x]);
  assertEquals(both.map((one: T) => one.toArray()), [[1, 4], [2, 8]]);
  assertEquals(grad((own: T) => own.mul(stopGradient(own).reshape([2])).sum())(x).toArray(), [
    1,
    2,
  ]);
});

test("trees keep their structure, and nothing is consumed", () => {
  const params = { w: f64([1, 2]), deep: [{ b: f64(3) }, f64([4])] };
  const value = (p: T): T => p.w.sum().mul(p.deep[0].b).add(p.deep[1].sum());
  const [loss, gradients, aux] = valueAndGrad((p: T) => [value(p), { seen: p.w.add(1) }], {
    aux: true,
  })(params);
  assertEquals(loss.item(), 13);
  assertEquals(gradients.w.toArray(), [3, 3]);
  assertEquals(gradients.deep[0].b.item(), 3);
  assertEquals(gradients.deep[1].toArray(), [1]);
  assertEquals(aux.seen.toArray(), [2, 3]);
  assertEquals(params.w.toArray(), [1, 2]);
  const using = grad((x: T) => {
    const y = x.mul(2);
    const z = rm.scope(() => y.mul(y));
    y.dispose();
    return z.sum();
  });
  assertEquals(using(f64([1, 3])).toArray(), [8, 24]);
});

test("functions may return their arguments and views of them", () => {
  const x = f64([1, 2]);
  const [value, slope] = valueAndGrad((own: T) => own)(f64(3));
  assertEquals([value.item(), slope.item()], [3, 1]);
  using run: T = vjp((own: T) => ({ own, twice: own.mul(2), part: own.slice(0) }), x);
  assertEquals([run.value.own.toArray(), run.value.part.item()], [[1, 2], 1]);
  const by = { own: f64([1, 10]), twice: f64([1, 1]), part: f64(5) };
  assertEquals(run.pullback(by).toArray(), [8, 12]);
  const [, , aux] = valueAndGrad((own: T) => [own.sum(), { own, row: own.slice("::-1") }], {
    aux: true,
  })(x);
  assertEquals([aux.own.toArray(), aux.row.toArray()], [[1, 2], [2, 1]]);
  // They are tensors from outside for other functions.
  const product = grad((own: T, other: T) => own.mul(other).sum());
  assertEquals(product(x, aux.own).toArray(), [1, 2]);
  assertEquals(product(x, aux.row).toArray(), [2, 1]);
  // For one around them, they are what they were.
  const nested = grad((own: T) => {
    const [inner] = valueAndGrad((y: T) => y)(own.sum());
    return inner.square();
  });
  assertEquals(nested(x).toArray(), [6, 6]);
  const through = grad((own: T) => valueAndGrad((y: T) => y)(own)[0].square());
  assertEquals(through(f64(3)).item(), 6);
});

test("each derivative can be written, and is no view of another tensor", () => {
  const losses: ((p: T) => T)[] = [
    ({ a, b }) => a.add(b).square().sum(),
    ({ a, b }) => a.sum().add(b.mul(3).sum()),
    ({ a }) => a.sum(),
    ({ a, b }) => rm.concat(loose([a, b])).square().sum(),
    ({ a, b }) => a.T.add(b.reshape([2])).square().sum(),
  ];
  for (const loss of losses) {
    const params = { a: f64([3, 4]), b: f64([1, 2]) };
    const { a, b } = grad(loss)(params);
    const [before, values] = [b.toArray(), params.a.toArray()];
    a.add_(1);
    assertEquals([b.toArray(), params.a.toArray()], [before, values]);
    b.mul_(2);
    using program: T = compile((p: T) => {
      const { a, b } = grad(loss)(p);
      a.add_(1);
      b.mul_(2);
      return [a, b];
    });
    assertEquals(program(params).map((x: T) => x.toArray()), [a.toArray(), b.toArray()]);
  }
  const x = f64([1, 2]), given = f64([3, 4]);
  using run: T = vjp((own: T) => own.reshape([2, 1]).flatten(), x);
  run.pullback(given).add_(1);
  assertEquals([given.toArray(), run.pullback(given).toArray()], [[3, 4], [3, 4]]);
  // Derivatives that an op of the program returns: its operands, which are read-only.
  const product: T = loose(rm.defineOp)({
    name: "gradOwnMemory",
    expr: "x * y",
    backward: ({ inputs: [x, y] }: T) => [y, x],
  });
  const slope = grad((own: T) => product(own, given).sum())(x);
  slope.add_(1);
  assertEquals([slope.toArray(), given.toArray()], [[4, 5], [3, 4]]);
});

test("memory does not grow with runs", () => {
  const x = f32(new Array(1000).fill(0.5));
  const step = grad((own: T) => own.mul(own).exp().sum());
  step(x).dispose();
  const before = rm.memory().bytes;
  for (let k = 0; k < 50; k++) step(x).dispose();
  assert(rm.memory().bytes <= before, `${rm.memory().bytes} beside ${before}`);
});

test("writes in place and to out have the derivatives of their values", () => {
  const written = grad((x: T) => {
    const y = x.mul(2);
    y.add_(x);
    y.slice(0).mul_(10);
    return y.sum();
  });
  assertEquals(written(f64([1, 2, 5])).toArray(), [30, 3, 3]);
  const squared = grad((x: T) => {
    const y = x.mul(1);
    y.square_();
    y.square_();
    return y.sum();
  });
  assertEquals(squared(f64([1, 2])).toArray(), [4, 32]);
  const filled = grad((x: T) => {
    const out = rm.zeros([2, 2], { dtype: "float64" });
    const first: T = loose(out).slice(0);
    loose(x).mul(3, { out: first });
    return out.mul(f64([[1, 2], [3, 4]])).sum();
  });
  assertEquals(filled(f64([1, 1])).toArray(), [3, 6]);
});

test("writes in place have second derivatives", () => {
  const cube = (x: T): T => {
    const y = x.copy();
    y.mul_(x).mul_(x);
    return y.sum();
  };
  assertEquals(grad((x: T) => grad(cube)(x).sum())(f64([1, 2])).toArray(), [6, 12]);
  const third = grad((x: T) => grad((y: T) => grad(cube)(y).sum())(x).sum());
  assertEquals(third(f64([1, 2])).toArray(), [6, 6]);
  // A constant of the inner function that is a variable of the outer one.
  const mixed = grad((x: T) => {
    const inner = grad((y: T) => {
      const z = y.copy();
      z.mul_(x).mul_(y).mul_(x);
      return z.sum();
    });
    return inner(x).sum();
  });
  assertEquals(mixed(f64([1, 2])).toArray(), [6, 24]);
});

test("corners where a factor would not be a number", () => {
  const by = (f: T, ...given: T[]): number[][] =>
    grad((own: T[]) => f(...own).sum())(given.map(f64)).map((one: T) => one.toArray());
  const power = (x: T, y: T): T => x.pow(y);
  assertEquals(by(power, [0, 0, 3, 0], [0, 1, 2, 2])[0], [0, 1, 6, 0]);
  const own = rm.defineOp({ name: "powerOfBoth", expr: "pow(x, y)" });
  assertEquals(by(own, [0, 3], [0, 2])[0], [0, 6]);
  // 1 / x, the derivative by y of that by x, at y = 0.
  const mixed = grad((y: T) => grad((x: T) => power(x, y).sum())(f64([4])).sum());
  assertEquals(mixed(f64([0])).toArray(), [0.25]);
  assertEquals(by((x: T) => x.std(), [2, 2]), [[0, 0]]);
  assertEquals(by((x: T) => x.reshape([2, 2]).std(1), [2, 2, 1, 3]), [[0, 0, -0.5, 0.5]]);
  // Bounds that cross: the upper one.
  assertEquals(by((x: T, low: T, high: T) => x.clip(low, high), [0.5], [1], [0]), [[0], [0], [1]]);
});

test("corners are those of PyTorch", () => {
  const { special, linalg } = loose({ ...rm });
  const cases: [name: string, f: T, given: number[][], expected: number[][]][] = [
    ["atan2", (x: T, y: T) => x.atan2(y), [[0, 1], [0, 0]], [[0, 0], [0, -1]]],
    ["xlogy", special.xlogy, [[0, 0, 0], [0, 1, -1]], [[0, 0, 0], [NaN, 0, -0]]],
    ["xlog1py", special.xlog1py, [[0, 0], [-1, -2]], [[0, 0], [NaN, -0]]],
    ["pow", (x: T, y: T) => x.pow(y), [[0, 0, 0], [-1, 0, 2]], [
      [-Infinity, 0, 0],
      [-Infinity, 0, 0],
    ]],
    ["maximum", (x: T, y: T) => x.maximum(y), [[1, NaN, 2], [1, 1, 1]], [[0.5, 1, 1], [0.5, 1, 0]]],
    ["minimum", (x: T, y: T) => x.minimum(y), [[1, 1, 2], [1, NaN, 1]], [[0.5, 1, 0], [0.5, 1, 1]]],
    ["fmax", (x: T, y: T) => x.fmax(y), [[1, NaN, 2], [1, 1, NaN]], [[0.5, 0, 1], [0.5, 1, 0]]],
    ["fmin", (x: T, y: T) => x.fmin(y), [[1, NaN, 2], [1, 1, NaN]], [[0.5, 0, 1], [0.5, 1, 0]]],
    ["hardSwish", N.hardSwish, [[-4, -3, 0, 3, 4]], [[0, 0, 0.5, 1, 1]]],
    ["norm of order ½", (x: T) => linalg.vectorNorm(x, { ord: 0.5 }), [[1, 0, 1]], [[2, 0, 2]]],
  ];
  for (const [name, f, given, expected] of cases) {
    const slope = grad((own: T[]) => f(...own).sum());
    const params = given.map(f64);
    assertEquals(slope(params).map((one: T) => one.toArray()), expected, name);
    using program: T = compile(slope);
    assertEquals(program(params).map((one: T) => one.toArray()), expected, `${name}, a program`);
  }
});

test("deviations of equal elements have the derivative 0, and those that are NaN have NaN", () => {
  // As PyTorch's std of the elements that count.
  const mask = rm.tensor([true, false, true]);
  const cases: [data: number[], correction: number, nan: number[], masked: number[]][] = [
    [[2, NaN, 2], 0, [0, 0, 0], [0, 0, 0]],
    [[2, NaN, 2], 1, [0, 0, 0], [0, 0, 0]],
    [[3, NaN, NaN], 0, [0, 0, 0], [NaN, 0, NaN]],
    [[3, NaN, NaN], 1, [NaN, 0, 0], [NaN, 0, NaN]],
    [[1, NaN, 3], 0, [-0.5, 0, 0.5], [-0.5, 0, 0.5]],
  ];
  for (const [data, correction, nan, masked] of cases) {
    for (const keepDims of [false, true]) {
      const by = (options: object) => (x: T): T =>
        x.std(0, { correction, keepDims, ...options }).sum();
      const own = (x: T): T => x.nanstd(0, { correction, keepDims }).sum();
      const all = (x: T): T => x.nanstd(null, { correction }).mul(2);
      assertEquals(grad(own)(f64(data)).toArray(), nan);
      assertEquals(grad(all)(f64(data)).toArray(), nan.map((n) => 2 * n));
      assertEquals(grad(by({ where: mask }))(f64(data)).toArray(), masked);
    }
  }
  const twice = (x: T): T => grad((y: T) => y.nanstd().mul(y.sum()))(x).mul(f64([1, 2, 3])).sum();
  const plain = (x: T): T => grad((y: T) => y.std().mul(y.sum()))(x).mul(f64([1, 2, 3])).sum();
  const [second, expected] = [twice, plain].map((f) => grad(f)(f64([1, 5, 4])).toArray());
  second.forEach((n: number, i: number) => assert(Math.abs(n - expected[i]) < 1e-12, `${second}`));
  assertEquals(grad((x: T) => x.std(null, { correction: 1 }))(f64([3])).toArray(), [NaN]);
});

test("functions that overflow on the way have finite derivatives", () => {
  for (const make of [f64, f32]) {
    const slope = grad((x: T) => N.mish(x).sum())(make([-1000, -200, 0, 100, 1000]));
    assert(slope.allclose(make([0, 0, 0.6, 1, 1])), `mish: ${slope.toArray()}`);
    const [byX, byY] = grad(([x, y]: T[]) => N.binaryCrossEntropy(x, y, { reduction: "sum" }))([
      make([0, 1, 1, 0, 0.25]),
      make([0, 1, 0, 1, 0]),
    ]);
    assert(byX.allclose(make([0, 0, 1e12, -1e12, 4 / 3])), `${byX.toArray()}`);
    assert(byY.allclose(make([100, -100, -100, 100, Math.log(3)])), `${byY.toArray()}`);
  }
});

test("indices that a read computes stay until the way back", () => {
  const i = (data: number[]): T => rm.tensor(data, { dtype: "int32" });
  const read = grad((x: T) => {
    const y = x.slice(i([0, 1]), i([3, 3])).mul(2);
    // Reads of the same size would get the memory of the indices.
    for (let k = 0; k < 4; k++) x.slice(i([2, 2]), i([0, 0])).dispose();
    return y.sum();
  });
  assertEquals(read(rm.zeros([3, 4])).toArray(), [[0, 0, 0, 2], [0, 0, 0, 2], [0, 0, 0, 0]]);
});

test("vjp multiplies by the Jacobian, several times", () => {
  using run: T = vjp((x: T) => ({ square: x.mul(x), constant: f64([1]) }), f64([1, 2]));
  assertEquals(run.value.square.toArray(), [1, 4]);
  const by = (data: number[]): T => run.pullback({ square: f64(data), constant: f64([5]) });
  assertEquals(by([1, 0]).toArray(), [2, 0]);
  assertEquals(by([1, 10]).toArray(), [2, 40]);
  assertThrows(() => run.pullback({ square: f64([1]), constant: f64([5]) }), rm.ShapeError);
});

test("checkpoint gives the same derivatives, with less memory in a program", () => {
  const block = (x: T, { w }: T): T => x.mul(w).sin().exp().mul(w).tanh();
  const model = (each: T) => (p: T): T => {
    let x = p.x;
    for (let k = 0; k < 4; k++) x = each(x, { w: p.w, name: "block" });
    return x.sum();
  };
  const params = { x: f32([0.1, 0.2]), w: f32([2, 3]) };
  const plain = grad(model(block))(params), again = grad(model(checkpoint(block)))(params);
  for (const name of ["x", "w"]) assertEquals(again[name].toArray(), plain[name].toArray());
  // Products need their operands whole.
  const layer = (x: T, { w }: T): T => x.matmul(w).tanh().matmul(w).sin().matmul(w).tanh();
  const large = { x: rm.ones([200, 100]), w: rm.ones([100, 100]) };
  const arena = (each: T): number => {
    using program: T = compile((p: T) => grad(model(each))(p));
    program(large);
    return program.explain()[0].data.bytes.arena;
  };
  const [kept, less] = [arena(layer), arena(checkpoint(layer))];
  assert(less < kept, `${less} and ${kept} bytes`);
  const second = grad((x: T) => grad((y: T) => checkpoint((z: T) => z.pow(3))(y).sum())(x).sum());
  assertEquals(second(f64([1, 2])).toArray(), [6, 12]);
});

test("checkpoint returns integers and other values as they are", () => {
  const block = (x: T) => ({ best: x.argmax(), name: "block", top: [x.mul(x), x.topk(1).indices] });
  const value = (x: T): T => {
    const { best, name, top: [square, at] } = checkpoint(block)(x);
    assertEquals([best.item(), name, at.toArray()], [1, "block", [1]]);
    return square.mul(best.add(1)).sum().add(square.take(at, 0).sum());
  };
  assertEquals(value(f64([1, 3])).item(), 29);
  assertEquals(grad(value)(f64([1, 3])).toArray(), [4, 18]);
  assertEquals(grad((x: T) => grad(value)(x).sum())(f64([1, 3])).toArray(), [4, 6]);
});

test("checkpoint keeps the constants that its function uses from outside", () => {
  const x = f64([0.5, 2]);
  const make = (): T => rm.full([2], 3, { dtype: "float64" });
  type Make = (x: T, use: (mask: T) => T) => T;
  const cases: Record<string, Make> = {
    "made in the function": (x, use) => use(make()).mul(x),
    "disposed of in it": (x, use) => {
      using mask = make();
      return use(mask).mul(x);
    },
    "made in a scope": (x, use) => rm.scope(() => use(make()).mul(x)),
    "a view and a mask": (x, use) =>
      use(rm.where(make().greater(2), make(), 0).slice("::-1")).mul(x),
  };
  for (const [name, about] of Object.entries(cases)) {
    const run = (wrap: T) => (own: T): T =>
      about(own, (mask) => {
        const block = wrap((y: T) => y.mul(mask).sin().mul(mask.view()).mul(mask.shape[0]));
        return block(block(own));
      }).sum();
    const [plain, again] = [run((f: T) => f), run(checkpoint)];
    // Sums of derivatives are in another order.
    const near = (one: T, other: T): void =>
      assert(one.sub(other).abs().max().item() < 1e-12 * other.abs().max().item(), name);
    near(grad(again)(x), grad(plain)(x));
    const second = (f: T): T => grad((own: T) => grad(f)(own).sum())(x);
    near(second(again), second(plain));
    using program: T = compile((own: T) => grad(again)(own));
    for (const own of [x, f64([1, 3])]) {
      near(program(own), grad(plain)(own));
    }
    const before = rm.memory().bytes;
    for (let k = 0; k < 5; k++) grad(again)(x).dispose();
    assertEquals(rm.memory().bytes, before, name);
  }
  // What was disposed of stays so.
  let seen: T;
  grad((own: T) => {
    seen = make();
    return loose(checkpoint)((y: T) => y.mul(seen))(own).sum();
  })(x).dispose();
  assert(seen.isDisposed);
  // A constant that is returned, too.
  const [value, , aux] = valueAndGrad((own: T) => {
    const mask = make();
    return [loose(checkpoint)((y: T) => y.mul(mask))(own).sum(), mask];
  }, { aux: true })(x);
  assertEquals([value.item(), aux.toArray()], [7.5, [3, 3]]);
  const written = (own: T): T => {
    const mask = make();
    const made = loose(checkpoint)((y: T) => y.mul(mask))(own).sum();
    mask.add_(1);
    return made;
  };
  assertThrows(() => grad(written)(x), rm.DerivativeError, "Cannot differentiate checkpoint");
});

const OPTIONS = { optimize: { fuse: false } };

test("checkpoint is computed twice in a program, and gets masks and indices as arguments", () => {
  const block = (x: T, mask: T, { at }: T): T =>
    loose(rm).where(mask, x.exp(), x.square()).take(at, 0).log1p();
  const model = (each: T) => (x: T, ids: T): T => {
    // What the function makes lives as long as its run.
    const made = each(x, x.greater(0.5), { at: ids.add(1) });
    return each(made, made.less(2), { at: ids }).sum();
  };
  const [x, ids] = [f32([0.1, 0.7, 2, 0.3]), rm.tensor([0, 2, 0], { dtype: "int32" })];
  const plain = grad(model(block))(x, ids), again = grad(model(checkpoint(block)))(x, ids);
  assertEquals(again.toArray(), plain.toArray());
  const count = (each: T): number => {
    using program: T = compile((x: T, ids: T) => grad(model(each))(x, ids), OPTIONS);
    assertEquals(program(x, ids).sub(plain).abs().max().item() < 1e-6, true);
    return program.explain()[0].data.ops.filter(({ op }: T) => op === "exp").length;
  };
  // Equal ops of equal operands are computed once, but not those of a checkpoint and its second run.
  assertEquals([count(block), count(checkpoint(block))], [2, 4]);
});

test("a step of training is one program with the results of single ops", () => {
  const loss = (p: T, x: T, y: T): T =>
    N.crossEntropy(x.linear(p.a, p.b, { activation: "relu" }).linear(p.c), y);
  const step = (p: T, x: T, y: T): T => {
    const [value, gradients] = valueAndGrad(loss)(p, x, y);
    for (const name of ["a", "b", "c"]) p[name].sub_(gradients[name].mul(0.1));
    return value;
  };
  const make = (): T => ({
    a: rm.arange(12).reshape([4, 3]).mul(0.1).sin(),
    b: rm.zeros([4]),
    c: rm.arange(8).reshape([2, 4]).mul(0.3).cos(),
  });
  const [eager, compiled] = [make(), make()];
  using program: T = compile(step);
  const x = rm.arange(15).reshape([5, 3]).mul(0.2).sin();
  const y = rm.tensor([0, 1, 1, 0, 1], { dtype: "int32" });
  for (let k = 0; k < 5; k++) {
    const [one, other] = [step(eager, x, y).item(), program(compiled, x, y).item()];
    assert(Math.abs(one - other) < 1e-6, `${one} and ${other}`);
  }
  assertEquals(program.programs, 1);
});

test("reads at indices stay in the program of a step", () => {
  const i = (data: unknown): T => rm.tensor(loose(data), { dtype: "int32" });
  const make = (): T => rm.arange(15).reshape([5, 3]).mul(0.3).sin();
  const steps: Record<string, [loss: (p: T, at: T) => T, at: T, wrong: T]> = {
    embedding: [
      (p, at) => N.embedding(at, p).square().sum(),
      i([[0, 4], [4, 2]]),
      i([[0, 5], [1, 2]]),
    ],
    takeAlongAxis: [
      (p, at) => p.takeAlongAxis(at, 0).exp().sum(),
      i([[0, 4, 1], [1, 1, 3]]),
      i([[0, 4, 1], [1, 9, 3]]),
    ],
    take: [(p, at) => p.take(at, 1).sin().sum(), i([2, 0, 2]), i([2, 0, 3])],
    slice: [(p, at) => p.slice(at, at).square().sum(), i([2, 0, 2]), i([2, 0, 3])],
    set: [
      (p, at) => {
        const y = p.mul(2);
        y.set([at], p.slice(":3"), { accumulate: true });
        return y.square().sum();
      },
      i([4, 0, 4]),
      i([4, 7, 4]),
    ],
    "small integers": [
      (p, at) => N.embedding(at.astype("uint8"), p).square().sum(),
      i([[0, 4], [4, 2]]),
      i([[0, 5], [1, 2]]),
    ],
    crossEntropy: [(p, at) => N.crossEntropy(p, at), i([0, 2, 1, 1, 0]), i([0, 2, 1, 3, 0])],
  };
  for (const [name, [loss, at, wrong]] of Object.entries(steps)) {
    const step = (p: T, at: T): T => {
      const [value, gradient] = valueAndGrad(loss)(p, at);
      p.sub_(gradient.mul(0.1));
      return value;
    };
    const [eager, compiled] = [make(), make()];
    using program: T = compile(step);
    for (let k = 0; k < 3; k++) {
      const [one, other] = [step(eager, at).item(), program(compiled, at).item()];
      assert(Math.abs(one - other) < 1e-5, `${name}: ${one} and ${other}`);
    }
    assert(compiled.sub(eager).abs().max().item() < 1e-5, name);
    const { executor, ops } = program.explain()[0].data;
    if (executor === "native") {
      assertEquals(ops.filter((op: T) => op.dispatched !== undefined), [], name);
    }
    // An error leaves the parameters as they were.
    const before = compiled.toArray();
    const text = name === "crossEntropy" ? "class 3 at [3] of the targets" : ": it has size";
    assertThrows(() => program(compiled, wrong), rm.IndexError, text, name);
    assertEquals(compiled.toArray(), before, name);
    assert(Number.isFinite(program(compiled, at).item()), name);
  }
});

/**
 * Optimizers beside PyTorch's, in programs, and with bfloat16.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import * as rm from "../../mod.ts";
import { root } from "../../scripts/tools.ts";
import { compile } from "../../src/compile/mod.ts";
import { grad, valueAndGrad } from "../../src/grad/mod.ts";
import * as optim from "../../src/optim/mod.ts";
import { loose } from "../support.ts";

// Tests pass options and tensors that types would refuse.
// deno-lint-ignore no-explicit-any
type T = any;

interface Golden {
  readonly shapes: readonly number[][];
  readonly steps: number;
  readonly cases: readonly {
    readonly name: "sgd" | "adam" | "adamw";
    readonly options: object;
    readonly params: readonly number[][];
  }[];
}

const golden: Golden = JSON.parse(
  readFileSync(join(root, "tests", "golden", "optim.json"), "utf8"),
);

function made(shape: readonly number[], at: (i: number) => number, dtype = "float64"): T {
  const count = shape.reduce((a, b) => a * b, 1);
  const data = new Float64Array(Array.from({ length: count }, (_, i) => at(i)));
  return loose(rm.tensor)(data, { shape: [...shape], dtype });
}

/** The parameters after all steps of a case. */
function run(optimizer: T, update: T, dtype = "float64"): T[] {
  const params = golden.shapes.map((shape) => made(shape, Math.cos, dtype));
  const state = optimizer.init(params);
  for (let step = 1; step <= golden.steps; step++) {
    const slopes = golden.shapes.map((shape) => made(shape, (i) => Math.sin(step * i + 1), dtype));
    update(params, slopes, state);
  }
  return params;
}

function assertNear(params: readonly T[], expected: readonly number[][], tolerance: number): void {
  params.forEach((param, k) => {
    const own: number[] = [...param.astype("float64").flatten().toTypedArray()];
    own.forEach((value, i) => {
      const difference = Math.abs(value - expected[k]![i]!);
      assert(difference < tolerance, `${value} beside ${expected[k]![i]}`);
    });
  });
}

test("optimizers make PyTorch's steps, by single ops and in programs", () => {
  for (const { name, options, params } of golden.cases) {
    const optimizer: T = loose(optim)[name](options);
    assertNear(run(optimizer, optimizer.update), params, 1e-6);
    using program: T = compile(loose((p: T, g: T, s: T) => optimizer.update(p, g, s)));
    assertNear(run(optimizer, program), params, 1e-6);
    assertEquals(program.programs, 1);
  }
});

test("parameters of bfloat16 have weights of float32 beside them", () => {
  const { name, options, params } = golden.cases[3]!;
  const optimizer: T = loose(optim)[name](options);
  assertNear(run(optimizer, optimizer.update, "bfloat16"), params, 2e-2);
  // Updates below the precision of bfloat16 add up.
  const weight = [rm.ones([1], { dtype: "bfloat16" })];
  const small: T = optim.sgd({ learningRate: 1e-4 });
  const state = small.init(weight);
  for (let k = 0; k < 100; k++) small.update(weight, [rm.ones([1], { dtype: "bfloat16" })], state);
  assert(Math.abs(weight[0]!.astype("float32").item() - 0.99) < 3e-3);
});

test("weights decay where they should", () => {
  const params = { layer: { w: rm.ones([2, 2]), b: rm.ones([2]) } };
  const optimizer = optim.adamw({
    learningRate: 0.1,
    weightDecay: 0.5,
    decays: (path, shape) => path !== "layer.b" && shape.length > 1,
  });
  const zeros = { layer: { w: rm.zeros([2, 2]), b: rm.zeros([2]) } };
  optimizer.update(params, loose(zeros), loose(optimizer.init(params)));
  assertEquals(params.layer.b.toArray(), [1, 1]);
  assert(Math.abs(Number(params.layer.w.item?.call(params.layer.w.slice(0, 0))) - 0.95) < 1e-6);
});

test("a rate of each step, clipped and summed derivatives", () => {
  const params = [rm.tensor([1, 1])];
  const optimizer = optim.sgd({ learningRate: 1 });
  const state = optimizer.init(params);
  optimizer.update(params, loose([rm.tensor([2, 4])]), state, { learningRate: 0.25 });
  assertEquals(params[0]!.toArray(), [0.5, 0]);
  using program: T = compile(
    loose((p: T, g: T, s: T, learningRate: number) => optimizer.update(p, g, s, { learningRate })),
  );
  for (const rate of [0.5, 2]) program(params, [rm.tensor([1, 0])], state, rate);
  assertEquals([params[0]!.toArray(), program.programs], [[-2, 0], 1]);
  const slopes = { a: rm.tensor([3, 0]), b: rm.tensor([0, 4]) };
  assertEquals(optim.clipByNorm(slopes, 10).item(), 5);
  assertEquals(slopes.b.toArray(), [0, 4]);
  optim.clipByNorm(slopes, 2.5);
  assert(Math.abs(Number(slopes.b.toArray()[1]) - 2) < 1e-5);
  optim.accumulate(slopes, slopes, 2);
  assert(Math.abs(Number(slopes.b.toArray()[1]) - 6) < 1e-5);
  optim.clipByValue(slopes, 1);
  assertEquals(slopes.b.toArray(), [0, 1]);
  assertEquals([0, 1, 2, 6, 10, 99].map(optim.linear({ peak: 1, steps: 10, warmup: 2 })), [
    ...[0.5, 1, 1, 0.5, 0, 0],
  ]);
  assertEquals(optim.cosine({ peak: 1, steps: 10, end: 0.5 })(20), 0.5);
  // A part of a step of warmup does not go above the peak.
  assertEquals(optim.linear({ peak: 1, steps: 2.5, warmup: 0.5 })(0), 1);
  for (const step of [-1, NaN, undefined, "1", 1n]) {
    const rate: T = optim.linear({ peak: 1, steps: 10, warmup: 2 });
    assertThrows(() => rate(step), rm.ArgumentError, "Cannot give the rate of step");
  }
});

test("a smooth function has its minimum found", () => {
  const params = { x: rm.tensor([-1.2, 1, 0.3], { dtype: "float64" }) };
  const rosenbrock = ({ x }: T): T => {
    const [low, high] = [x.slice(":-1"), x.slice("1:")];
    return high.sub(low.square()).square().mul(100).add(low.sub(1).square()).sum();
  };
  const found = optim.minimize(rosenbrock, params);
  assert(found.converged && found.value < 1e-9 && found.steps < 60, JSON.stringify(found));
  const logistic = { w: rm.zeros([3]), b: rm.zeros([]) };
  const x = rm.arange(30).reshape([10, 3]).sin();
  const y = x.slice(":, 0").greater(0).astype("float32");
  const loss = ({ w, b }: T): T =>
    loose(x).matmul(w).add(b).mul(loose(y).mul(-2).add(1)).exp().add(1).log().mean()
      .add(w.square().sum().mul(0.01));
  assert(optim.minimize(loss, logistic, { tolerance: 1e-4 }).converged);
});

test("minima by complex numbers, and in functions that are differentiated", () => {
  const z: T = loose(rm.complex)(
    rm.tensor([1, 2], { dtype: "float64" }),
    rm.tensor([3, -1], {
      dtype: "float64",
    }),
  );
  // z² = 2i
  const loss = (x: T): T => x.mul(x).sub({ re: 0, im: 2 }).abs().square().sum();
  assert(optim.minimize(loss, z).converged);
  for (const part of [...z.real().toArray(), ...z.imag().toArray()]) {
    assert(Math.abs(Math.abs(part) - 1) < 1e-6, `${z}`);
  }
  const x: T = rm.tensor([1, 2]);
  const near = (target: T) => (y: T): T => y.sub(target).square().sum();
  const slope: T = loose(grad);
  const byCopy = (own: T): T => {
    const y = own.mul(1);
    optim.minimize(near(3), y);
    return y.sum();
  };
  const byTarget = (own: T): T => {
    const y = rm.zeros([2]);
    optim.minimize(near(own), loose(y));
    return loose(y).sum();
  };
  for (const f of [byCopy, byTarget]) assertThrows(() => slope(f)(x), rm.DerivativeError);
  const constant = (own: T): T => {
    const y = rm.zeros([2]);
    optim.minimize(near(3), loose(y));
    return own.mul(loose(y).round()).sum();
  };
  assertEquals(slope(constant)(x).toArray(), [3, 3]);
});

test("derivatives of all floats are clipped by norms that do not overflow", () => {
  const cases: [dtype: string, size: number][] = [
    ["float16", 60000],
    ["bfloat16", 1e30],
    ["float32", 1e30],
    ["float64", 1e100],
  ];
  for (const [dtype, size] of cases) {
    const at = (data: number[]): T => loose(rm.tensor)(data, { dtype });
    const gradients = { a: at([3 * size / 4, 0]), b: at([size]) };
    optim.clipByNorm(gradients, 1);
    const { a, b }: T = gradients;
    assert(Math.abs(a.astype("float64").toArray()[0] - 0.6) < 3e-3, `${dtype}: ${a}`);
    assert(Math.abs(b.astype("float64").item() - 0.8) < 3e-3, `${dtype}: ${b}`);
  }
});

test("a model learns, and memory stays", () => {
  const params = {
    a: rm.arange(16).reshape([8, 2]).mul(0.7).sin(),
    b: rm.zeros([8]),
    c: rm.arange(8).reshape([1, 8]).mul(0.9).cos(),
  };
  const x = rm.tensor([[0, 0], [0, 1], [1, 0], [1, 1]]);
  const y = rm.tensor([[0], [1], [1], [0]]);
  const optimizer = optim.adam({ learningRate: 0.05 });
  const state = optimizer.init(params);
  const loss = (p: T): T => loose(x).linear(p.a, p.b).tanh().linear(p.c).sub(y).square().mean();
  const step = compile(loose((p: T, s: T) => {
    const [value, gradients] = valueAndGrad(loss)(p);
    loose(optimizer).update(p, gradients, s);
    return value;
  })) as T;
  let value = NaN, before = 0;
  for (let k = 0; k < 300; k++) {
    const made = step(params, state);
    value = made.item();
    made.dispose();
    if (k === 50) before = rm.memory().bytes;
  }
  assert(value < 0.01, `${value}`);
  assert(rm.memory().bytes <= before);
  step.dispose();
});

test("derivatives belong to parameters by their paths, in any order", () => {
  const f32 = (data: number[]): T => loose(rm.tensor)(data, { dtype: "float32" });
  const params: T = { w: f32([1]), deep: { b: f32([2]), c: f32([3]) } };
  const optimizer: T = optim.sgd({ learningRate: 1, momentum: 0.5 });
  const state = optimizer.init(params);
  const slopes: T = { deep: { c: f32([30]), b: f32([20]) }, w: f32([10]) };
  const values = (): number[] => [params.w, params.deep.b, params.deep.c].map((x) => x.item());
  optimizer.update(params, slopes, state);
  assertEquals(values(), [-9, -18, -27]);
  const { w, deep } = params;
  optimizer.update({ deep: { c: deep.c, b: deep.b }, w }, slopes, state);
  assertEquals(values(), [-24, -48, -72]);
  optim.accumulate(params, slopes);
  assertEquals(values(), [-14, -28, -42]);
  const other = { ...slopes, deep: { b: f32([1]), d: f32([1]) } };
  const before = state.step.item();
  for (
    const run of [
      () => optimizer.update(params, other, state),
      () => optim.accumulate(params, other),
      () => optimizer.update(params, slopes, optim.adam({ learningRate: 1 }).init(params)),
      () => optimizer.update(params, slopes, undefined),
      () => optimizer.update(params, slopes, state, { learningRate: NaN }),
      () => optimizer.update(params, slopes, state, { learningRate: -1 }),
    ]
  ) {
    assertThrows(run, rm.ArgumentError);
  }
  const wide = { w: f32([1]), deep: { b: f32([1]), c: f32([1, 2]) } };
  assertThrows(
    () => optim.accumulate(params, wide),
    rm.ShapeError,
    "sum deep.c of shape [1] by derivative deep.c of shape [2]",
  );
  assertEquals([...values(), state.step.item()], [-14, -28, -42, before]);
});

test("derivatives of one value are clipped once each, by single ops and in programs", () => {
  const make = (): T => ({
    a: rm.tensor([3, 4]),
    b: rm.tensor([1, -1]),
    c: rm.ones([1]),
    d: rm.ones([1]),
  });
  const losses: Record<string, (p: T) => T> = {
    "of a sum": ({ a, b }) => a.add(b).square().sum(),
    "repeated": ({ a, b }) => a.sum().add(b.sum()),
    "none": ({ a }) => a.square().sum(),
    "views": ({ a, b }) => a.reshape([2, 1]).add(b.reshape([2, 1])).square().sum(),
  };
  for (const [name, loss] of Object.entries(losses)) {
    const step = (p: T): T => {
      const [, gradients]: T = loose(valueAndGrad)(loss)(p);
      optim.clipByNorm(gradients, 1);
      return gradients;
    };
    const [, whole]: T = loose(valueAndGrad)(loss)(make());
    const numbersOf = (tree: T): number[] => ["a", "b", "c", "d"].flatMap((k) => tree[k].toArray());
    const norm = Math.hypot(...numbersOf(whole));
    const expected = numbersOf(whole).map((x) => x / norm);
    using program: T = compile(step);
    for (const made of [step(make()), program(make()), program(make())]) {
      numbersOf(made).forEach((x, i) => assert(Math.abs(x - expected[i]!) < 1e-5, `${name}: ${x}`));
    }
  }
});

test("an error of an update leaves all tensors as they were", () => {
  const at = (dtype = "float32"): T => loose(rm.ones)([2], { dtype });
  const complex: T = loose(rm.complex)(at(), at());
  const memory: T = loose(rm.arange)(4, { dtype: "float32" });
  type Case = readonly [
    name: string,
    change: (given: { params: T; slopes: T; state: T }) => void,
    error: T,
    text: string,
  ];
  const cases: readonly Case[] = [
    [
      "a broadcast parameter",
      ({ params }) => params.z = rm.ones([1]).broadcastTo([2]),
      rm.ReadOnlyError,
      "parameter z",
    ],
    [
      "a read-only one",
      ({ params }) => params.z = at().readonly(),
      rm.ReadOnlyError,
      "parameter z",
    ],
    [
      "another shape",
      ({ slopes }) => slopes.z = rm.ones([3]),
      rm.ShapeError,
      "parameter z of shape [2]",
    ],
    ["complex", ({ slopes }) => slopes.z = complex, rm.DTypeError, "derivative z of complex64"],
    [
      "one parameter twice",
      ({ params }) => params.z = params.a,
      rm.ArgumentError,
      "parameter z shares memory with parameter a",
    ],
    [
      "parameters that overlap",
      ({ params }) => [params.a, params.z] = [memory.slice("0:2"), memory.slice("1:3")],
      rm.ArgumentError,
      "parameter z shares memory",
    ],
    [
      "another parameter",
      ({ params, slopes }) => slopes.z = params.a,
      rm.ArgumentError,
      "derivative z shares memory with parameter a",
    ],
    [
      "a moment",
      ({ slopes, state }) => slopes.z = state.moments[0].a,
      rm.ArgumentError,
      "derivative z shares memory with moment a",
    ],
    [
      "a moment of another dtype",
      ({ state }) => state.moments[0].z = at("float64"),
      rm.DTypeError,
      "moment z of float64: it is float32",
    ],
    [
      "a moment of another shape",
      ({ state }) => state.moments[0].z = rm.ones([3]),
      rm.ShapeError,
      "moment z",
    ],
    [
      "a read-only moment",
      ({ state }) => state.moments[0].z = at().readonly(),
      rm.ReadOnlyError,
      "moment z",
    ],
    [
      "no step",
      ({ state }) => state.step = undefined,
      rm.ArgumentError,
      "step of the state is undefined",
    ],
    ["a step with axes", ({ state }) => state.step = at(), rm.ArgumentError, "step of the state"],
    [
      "a read-only step",
      ({ state }) => state.step = state.step.readonly(),
      rm.ReadOnlyError,
      "step",
    ],
    [
      "a weight that is read-only",
      ({ state }) => state.weights.h = at().readonly(),
      rm.ReadOnlyError,
      "weight h",
    ],
    ["no weight", ({ state }) => state.weights = {}, rm.ArgumentError, "has no tensors"],
    [
      "a weight of 16 bits",
      ({ state }) => state.weights.h = at("bfloat16"),
      rm.DTypeError,
      "weight h of bfloat16: it is float32",
    ],
    [
      "a weight of another path",
      ({ state }) => state.weights = { g: at() },
      rm.ArgumentError,
      "no tensor at h",
    ],
  ];
  const optimizers: Record<string, T> = {
    sgd: optim.sgd({ learningRate: 1, momentum: 0.5 }),
    adam: optim.adam({ learningRate: 1 }),
    adamw: optim.adamw({ learningRate: 1 }),
  };
  const text = (tree: T): string => JSON.stringify(tree);
  for (const [method, optimizer] of Object.entries(optimizers)) {
    for (const [name, change, error, message] of cases) {
      const params: T = { a: at(), h: at("bfloat16"), z: at() };
      const state: T = optimizer.init(params);
      const slopes: T = { a: at(), h: at("bfloat16"), z: at() };
      change({ params, slopes, state });
      const before = [params, slopes, state].map(text);
      assertThrows(
        () => optimizer.update(params, slopes, state),
        error,
        message,
        `${method}: ${name}`,
      );
      assertEquals([params, slopes, state].map(text), before, `${method}: ${name}`);
    }
    // A derivative may be the parameter itself, and one of other floats.
    const params: T = { a: at(), h: at("bfloat16"), z: at() };
    optimizer.update(params, { ...params, z: at("float64") }, optimizer.init(params));
    assertThrows(
      () => optimizer.init({ a: params.a, z: params.a }),
      rm.ArgumentError,
      "shares memory",
    );
    const calls = { ...params, z: at() };
    const own: T = (optim as T)[method]({
      learningRate: 1,
      decays: (path: string) => {
        if (path === "z") throw new Error("mine");
        return true;
      },
      weightDecay: 0.5,
    });
    const state = own.init(calls), before = text([calls, state]);
    assertThrows(() => own.update(calls, { a: at(), h: at(), z: at() }, state), Error, "mine");
    for (const learningRate of ["0.1", null, {}, at(), 1n]) {
      assertThrows(() => own.update(calls, calls, state, { learningRate }));
    }
    assertEquals(text([calls, state]), before);
  }
});

test("clipping, sums and minima check all tensors before they write one", () => {
  const at = (): T => rm.tensor([3, 4]);
  const broadcast: T = loose(rm.ones([1])).broadcastTo([2]);
  const z: T = loose(rm.complex)(at(), at());
  const same = at();
  const O: T = optim;
  const runs: Record<string, (g: T) => unknown> = {
    "clip by norm": (g) => O.clipByNorm(g, 1),
    "clip by value": (g) => O.clipByValue(g, 1),
    "accumulate": (g) => O.accumulate(g, { a: at(), z: at() }),
    "minimize": (g) => O.minimize(({ a, z }: T) => a.square().sum().add(z.square().sum()), g),
  };
  for (const [name, run] of Object.entries(runs)) {
    for (const z of [broadcast, at().readonly()]) {
      const given: T = { a: at(), z };
      assertThrows(() => run(given), rm.ReadOnlyError, `Cannot ${name}`);
      assertEquals(given.a.toArray(), [3, 4]);
    }
    assertThrows(() => run({ a: same, z: same }), rm.ArgumentError, "z shares memory");
    assertEquals(same.toArray(), [3, 4]);
  }
  const mixed: T = { a: at(), z };
  assertThrows(() => O.clipByValue(mixed, 1), rm.DTypeError, "derivative z of complex64");
  assertThrows(() => O.accumulate({ a: same, z: at() }, mixed), rm.DTypeError, "sum z of float32");
  assertThrows(() => O.accumulate({ a: same }, { a: at() }, "2"), rm.ArgumentError, 'scale "2"');
  assertThrows(() => O.accumulate({ a: same, z: at() }, { a: at(), z: same }), rm.ArgumentError);
  assertEquals([mixed.a.toArray(), same.toArray()], [[3, 4], [3, 4]]);
  // Complex derivatives are scaled as PyTorch's: the norm is that of all parts.
  assert(Math.abs(O.clipByNorm(mixed, 1).item() - Math.sqrt(75)) < 1e-5);
  const parts = [mixed.a, mixed.z.real(), mixed.z.imag()].flatMap((x: T) => x.toArray());
  assert(Math.abs(Math.hypot(...parts) - 1) < 1e-5);
  // An error of the function in the middle of a step leaves the parameters at the last one.
  const x: T = rm.tensor([-1.2, 1], { dtype: "float64" });
  let calls = 0;
  const failing = (own: T): T => {
    if (++calls === 3) throw new Error("mine");
    return own.square().sum().mul(10);
  };
  const seen: number[][] = [];
  assertThrows(
    () => O.minimize((own: T) => (seen.push(x.toArray()), failing(own)), x),
    Error,
    "mine",
  );
  assert(seen.slice(0, -1).some((one) => String(one) === String(x.toArray())));
  assert(String(seen.at(-1)) !== String(x.toArray()));
});

test("weights of float32 belong to parameters by their paths, in any order", () => {
  const half = (value: number): T => loose(rm.full)([1], value, { dtype: "bfloat16" });
  const params: T = { w: half(1), deep: [{ b: half(2) }, half(3)], x: rm.ones([1]) };
  const optimizer: T = optim.sgd({ learningRate: 1 });
  const state = optimizer.init(params);
  assertEquals(Object.keys(state.weights), ["w", "deep[0].b", "deep[1]"]);
  const slopes: T = { x: rm.zeros([1]), deep: [{ b: half(0.5) }, half(0)], w: half(0) };
  const { w, deep, x } = params;
  optimizer.update({ x, deep, w }, slopes, state);
  assertEquals([w, deep[0].b, deep[1]].map((one) => one.astype("float32").item()), [1, 1.5, 3]);
  const twice = { "a.b": half(1), a: { b: half(2) } };
  assertThrows(() => optimizer.init(twice), rm.ArgumentError, "two tensors have the path a.b");
  const only = half(1);
  const own = optimizer.init(only);
  optimizer.update(only, half(0.25), own);
  assertEquals(own.weights[""].item(), 0.75);
});

test("adam divides complex derivatives by their sizes", () => {
  const at = (x: number, y: number): T => rm.complex(loose(rm.tensor([x])), loose(rm.tensor([y])));
  const params = [at(1, 1)];
  const optimizer: T = optim.adam({ learningRate: 0.5 });
  optimizer.update(params, [at(0, 2)], optimizer.init(params));
  assertEquals(params[0].real().toArray(), [1]);
  assert(Math.abs(params[0].imag().item() - 0.5) < 1e-5);
});

test("wrong options and shapes are errors, and change nothing", () => {
  const params = [rm.ones([2])];
  for (
    const make of [
      () => optim.sgd({ learningRate: -1 }),
      () => optim.sgd({ learningRate: Infinity }),
      () => optim.sgd({ learningRate: 1, nesterov: true }),
      () => optim.sgd({ learningRate: 1, momentum: 0.5, nesterov: loose("yes") }),
      () => optim.adam({ learningRate: 1, betas: [1, 0.9] }),
      () => optim.adam({ learningRate: 1, betas: [0.9, 1] }),
      () => optim.adam({ learningRate: 1, betas: loose(3) }),
      () => optim.adam({ learningRate: 1, betas: loose([0.9]) }),
      () => optim.adam({ learningRate: NaN }),
      () => optim.adam({ learningRate: 1, betas: [2, 0.9] }),
      () => optim.adamw({ learningRate: 1, decays: loose(3) }),
      () => optim.cosine({ peak: 1, steps: 1, warmup: 2 }),
      () => optim.clipByNorm(params, 0),
      () => optim.minimize(loose((x: T) => x.sum()), params, { steps: -1 }),
      () => optim.minimize(loose((x: T) => x.sum()), params, { history: 1.5 }),
      () => {
        const own = optim.adamw({ learningRate: 1, decays: loose(() => "no") });
        own.update(params, params, loose(own.init(params)));
      },
    ]
  ) assertThrows(make, rm.ArgumentError);
  const optimizer: T = optim.adam({ learningRate: 1 });
  const state = optimizer.init(params);
  assertThrows(() => optimizer.update(params, [rm.ones([3])], state), rm.ShapeError);
  assertThrows(() => optimizer.update(params, [], state), rm.ArgumentError);
  assertThrows(() => optimizer.update(params, [rm.ones([2]), rm.ones([2])], state), rm.ShapeError);
  assertEquals([params[0]!.toArray(), state.step.item()], [[1, 1], 0]);
});

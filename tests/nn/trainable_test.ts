/**
 * Weights that are trained: what layers of them compute, their derivatives, files, and errors.
 *
 * @module
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import * as rm from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import { grad, valueAndGrad } from "../../src/grad/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import * as optim from "../../src/optim/mod.ts";
import { assertRefused, loose } from "../support.ts";
import { assertNear, normal, numbers } from "./weights.ts";

// Tests pass options and layers that types would refuse.
// deno-lint-ignore no-explicit-any
type T = any;

const { ArgumentError, ReadOnlyError } = rm;
const folder = mkdtempSync(join(tmpdir(), "rowmajor-trainable-"));
after(() => rmSync(folder, { recursive: true }));

const x = normal(1, [3, 4]), images = normal(2, [2, 4, 6, 6]);
const ids = rm.tensor([2, 0, 2], { dtype: "int32" });
const vector = (seed: number, n: number): T => normal(seed, [n]).abs().add(0.5);

/** Layers: tensors, a function that makes the layer, and what it computes, by functions. */
const LAYERS: Record<string, {
  readonly tensors: Record<string, T>;
  readonly make: (w: T) => (x: T) => T;
  readonly on: T;
  readonly expected: (p: T, x: T) => T;
}> = {
  "linear": {
    tensors: { "a.weight": normal(3, [5, 4]), "a.bias": normal(4, [5]) },
    make: (w) => w.linear("a", 5, 4, { activation: "gelu" }),
    on: x,
    expected: (p, x) => nn.gelu(x.matmul(p["a.weight"].T).add(p["a.bias"])),
  },
  "linear, transposed": {
    tensors: { "a.weight": normal(3, [4, 5]) },
    make: (w) => w.linear("a", 5, 4, { bias: false, transposed: true }),
    on: x,
    expected: (p, x) => x.matmul(p["a.weight"]),
  },
  "fuse": {
    tensors: { "a.weight": normal(3, [5, 4]), "b.weight": normal(4, [2, 4]) },
    make: (w) => {
      const both = nn.fuse(
        w.linear("a", 5, 4, { bias: false }),
        w.linear("b", 2, 4, { bias: false }),
      );
      return (x) => {
        const [a, b] = both(x);
        return a.sum().add(b.square().sum());
      };
    },
    on: x,
    expected: (p, x) =>
      x.matmul(p["a.weight"].T).sum().add(x.matmul(p["b.weight"].T).square().sum()),
  },
  "embedding": {
    tensors: { "a.weight": normal(3, [4, 5]) },
    make: (w) => w.embedding("a", 4, 5),
    on: ids,
    expected: (p, ids) => p["a.weight"].take(ids, 0),
  },
  "layerNorm": {
    tensors: { "a.weight": normal(3, [4]), "a.bias": normal(4, [4]) },
    make: (w) => w.layerNorm("a", 4),
    on: x,
    expected: (p, x) => x.layerNorm(-1).mul(p["a.weight"]).add(p["a.bias"]),
  },
  "rmsNorm with an offset": {
    tensors: { "a.weight": normal(3, [4]) },
    make: (w) => w.rmsNorm("a", 4, { offset: 1 }),
    on: x,
    expected: (p, x) => x.rmsNorm(-1).mul(p["a.weight"].add(1)),
  },
  "groupNorm": {
    tensors: { "a.weight": normal(3, [4]), "a.bias": normal(4, [4]) },
    make: (w) => w.groupNorm("a", 2, 4),
    on: images,
    expected: (p, x) => nn.groupNorm(x, 2, { weight: p["a.weight"], bias: p["a.bias"] }),
  },
  "batchNorm": {
    tensors: {
      ...{ "a.weight": normal(3, [4]), "a.bias": normal(4, [4]) },
      ...{ "a.running_mean": normal(5, [4]), "a.running_var": vector(6, 4) },
    },
    make: (w) => w.batchNorm("a", 4),
    on: images,
    expected: (p, x) => {
      const each = (name: string): T => p[name].reshape([4, 1, 1]);
      return x.sub(each("a.running_mean")).div(each("a.running_var").add(1e-5).sqrt())
        .mul(each("a.weight")).add(each("a.bias"));
    },
  },
  "conv2d": {
    tensors: { "a.weight": normal(3, [3, 4, 3, 3]), "a.bias": normal(4, [3]) },
    make: (w) => w.conv2d("a", 3, 4, 3, { padding: 1, activation: "relu", winograd: true }),
    on: images,
    expected: (p, x) => loose(nn.conv2d(x, p["a.weight"], p["a.bias"], { padding: 1 })).relu(),
  },
  "fold": {
    tensors: {
      ...{ "a.weight": normal(3, [4, 4, 1, 1]), "b.weight": normal(4, [4]) },
      ...{ "b.running_mean": normal(5, [4]), "b.running_var": vector(6, 4) },
    },
    make: (w) => loose(nn).fold(w.conv2d("a", 4, 4, 1, { bias: false }), w.batchNorm("b", 4)),
    on: images,
    expected: (p, x) => {
      const each = (name: string): T => p[name].reshape([4, 1, 1]);
      return loose(nn.conv2d(x, p["a.weight"])).sub(each("b.running_mean"))
        .div(each("b.running_var").add(1e-5).sqrt()).mul(each("b.weight"));
    },
  },
  "layer": {
    tensors: { "a.scale": normal(3, [4]) },
    make: (w) =>
      w.layer("a", { scale: [4] }, ({ scale }: T, own: T) => {
        const exp = own(scale.exp());
        return (x: T) => x.mul(exp);
      }),
    on: x,
    expected: (p, x) => x.mul(p["a.scale"].exp()),
  },
};

for (const [name, { tensors, make, on, expected }] of Object.entries(LAYERS)) {
  test(`${name}: the layer, its derivatives, and what it computes after a write`, () => {
    const loss = (y: T): T => y.sin().mean();
    const own = Object.fromEntries(Object.entries(tensors).map(([key, x]) => [key, x.copy()]));
    using w = nn.weights(own, { trainable: true });
    const layer = make(w);
    const params = w.parameters();
    assertEquals(
      Object.keys(params),
      Object.keys(tensors).filter((key) => !key.includes("running")),
    );
    w.done();
    using frozen = nn.weights(tensors);
    assertNear(layer(on), make(frozen)(on), name);
    assertNear(layer(on), expected(own, on), name);

    const through = (p: T, x: T): T =>
      loss(make(nn.weights({ ...own, ...p }, { trainable: true }))(x));
    const plain: T = grad((p: T, x: T): T => loss(expected({ ...own, ...p }, x)))(params, on);
    using step = compile((p: T, x: T): T => grad(through)(p, x));
    for (const made of [grad(through)(params, on), step(params, on)] as T[]) {
      for (const [key, gradient] of Object.entries(made)) {
        assertNear(gradient, plain[key], key);
        assert(numbers(gradient).some((n) => Math.abs(n) > 1e-4), key);
      }
    }
    // The tensors are the caller's, and layers see what is written to them.
    for (const x of Object.values(params)) x.mul_(2);
    assertNear(layer(on), expected(own, on), name);
    w.dispose();
    assert(Object.values(own).every((x: T) => !x.isDisposed));
  });
}

test("Weights of a file: their own memory, one tensor for all uses, a step of a program", async () => {
  const path = join(folder, "model.safetensors");
  const tensors = {
    ...{ "up.weight": normal(1, [8, 4]), "up.bias": normal(2, [8]) },
    ...{ "down.weight": normal(3, [1, 8]), "count": rm.tensor([3], { dtype: "int32" }) },
    "norm.weight": normal(4, [8], "float16"),
  };
  writeFileSync(path, rm.io.encodeSafetensors(loose(tensors)));
  const before = readFileSync(path);
  const w = await nn.open(path, { trainable: true });
  const build = (w: T) => {
    const [up, down] = [w.linear("up", 8, 4), w.linear("down", 1, 8, { bias: false })];
    const norm = w.rmsNorm("norm", 8);
    return (x: T): T => down(norm(up(x)));
  };
  const model = build(w);
  const params = w.parameters();
  w.done({ ignore: ["count"] });
  assertEquals(Object.keys(params).sort(), [
    ...["down.weight", "norm.weight", "up.bias", "up.weight"],
  ]);
  for (const x of Object.values(params)) assertEquals([x.ownership, x.access], ["owned", "write"]);
  const y = x.slice(":, 0:1").mul(2);
  const loss = (p: T, x: T, y: T): T =>
    build(nn.weights(p, { trainable: true }))(x).sub(y).square().mean();
  const optimizer = optim.adam({ learningRate: 0.05 });
  const state = optimizer.init(params);
  using step = compile((p: T, s: T, x: T, y: T): T => {
    const [value, gradients] = valueAndGrad(loss)(p, x, y);
    optimizer.update(p, gradients, s);
    return value;
  });
  const losses = Array.from({ length: 60 }, () => step(params, state, x, y).item());
  assert(losses.at(-1)! < losses[0]! / 100, `${losses}`);
  // Layers see the weights that were trained; the file is as before.
  const error = model(x).sub(y).square().mean().item();
  assert(error < losses[0]! / 100, `${error}`);
  assertEquals(readFileSync(path), before);
  w.dispose();
  assert(Object.values(params).every((x) => x.isDisposed));
  assertRefused(() => model(x), rm.DisposedError, "");
});

test("A part of the names, quantized weights, and a dtype", async () => {
  const weight = normal(1, [2, 32]);
  const tensors = { "a.weight": rm.quantize(weight, "q8_0"), "b.weight": normal(2, [3, 2]) };
  using w = nn.weights(tensors, { trainable: true });
  assertEquals(Object.keys(w.parameters()), ["b.weight"]);
  assertEquals(Object.keys(w.at("b").parameters()), ["weight"]);
  const params = w.parameters() as T;
  assert(w.at("b").parameters()["weight"] === tensors["b.weight"]);
  const [a, b] = [w.linear("a", 2, 32, { bias: false }), w.linear("b", 3, 2, { bias: false })];
  w.done();
  const input = normal(3, [4, 32]);
  const loss = (p: T): T => {
    const own = nn.weights(p, { trainable: true });
    return own.linear("b", 3, 2, { bias: false })(a(input)).square().mean();
  };
  const made: T = grad(loss)(params);
  assertEquals(made["b.weight"].shape, [3, 2]);
  assertEquals(b(a(input)).shape, [4, 3]);
  // The tensors of a file are cast once, for all uses.
  const file = rm.io.encodeSafetensors(loose({ "a.weight": weight.astype("float16") }));
  using wide = await nn.open(file, { trainable: true, dtype: "float32" });
  const { "a.weight": cast } = wide.parameters() as T;
  assertEquals(cast.dtype, "float32");
  assert(
    cast === wide.tensor("a.weight") && cast === wide.tensor("a.weight", [2, 32], {
          dtype: "float32",
        }),
  );
});

test("Weights that are not trained are refused by name", async () => {
  const path = join(folder, "frozen.safetensors");
  writeFileSync(path, rm.io.encodeSafetensors({ "up.weight": rm.ones([2, 2]) }));
  using w = await nn.open(path);
  assertRefused(() => w.parameters(), ArgumentError, ["trainable: true", path]);
  const params = { up: w.tensor("up.weight") as T };
  const optimizer = optim.sgd({ learningRate: 1 });
  const refused = (run: () => unknown): void =>
    assertRefused(run, ReadOnlyError, ["up.weight", path, "trainable: true"], params.up);
  refused(() => optimizer.init(params));
  const state = optimizer.init({ up: rm.ones([2, 2]) }) as T;
  refused(() => optimizer.update(params, { up: rm.ones([2, 2]) } as T, state));
  refused(() => optim.minimize((p: T) => p.up.square().sum(), params));
  const norm = nn.weights({ "n.weight": rm.ones([2]) });
  const { weight } = norm.rmsNorm("n", 2);
  assertRefused(() => optimizer.init([weight]), ReadOnlyError, "n.weight of <tensors>");
  // Copies are the program's.
  optimizer.init({ up: params.up.copy() });

  const own = nn.weights({ "up.weight": rm.ones([2, 2]) }, { trainable: true });
  assertRefused(() => own.linear("up", 2, 2, { quantize: "int8" }), ArgumentError, [
    ...["up", "trained"],
  ]);
  assertRefused(
    () => nn.weights({ w: rm.ones([1]) }, { trainable: true, dtype: "float16" }),
    ...[ArgumentError, ["dtype", "trainable"]] as const,
  );
  await assertRejects(
    () => nn.open(path, { trainable: 1 } as T),
    ArgumentError,
    "trainable 1",
  );
});

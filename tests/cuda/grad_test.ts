/**
 * Derivatives on a CUDA device, by single ops and in programs: those of the CPU, of random functions, of a
 * convolutional network and of a layer of a transformer. `npm test` takes a few functions.
 *
 * @module
 */
import { assert } from "@std/assert";
import { test } from "node:test";
import * as rm from "../../mod.ts";
import { compile as compileOf } from "../../src/compile/mod.ts";
import { grad as gradOf, valueAndGrad } from "../../src/grad/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import { differenceOf, elementsIn, mapped, paramsOf, programOf } from "../grad/random_programs.ts";
import type { T } from "../grad/differences.ts";
import { RUNS_ALL } from "../support/amount.ts";
import { loose } from "../support.ts";
import { openCudaForTests, whyNoCuda } from "./support/device.ts";

const CUDA = "cuda";
const [R, N, grad, compile] = [{ ...rm }, nn, gradOf, compileOf].map(loose);

/** Random numbers of float32. */
const normal = (seed: number, shape: readonly number[]): T =>
  R.random.normal(R.random.key(seed), shape).mul(0.5);

/** A function of parameters and a batch, whose value is a loss. */
interface Step {
  readonly params: T;
  readonly batch: T;
  readonly loss: (params: T, batch: T) => T;
}

const STEPS: Readonly<Record<string, () => Step>> = {
  "a convolutional network": () => ({
    params: { kernel: normal(1, [3, 1, 3, 3]), bias: normal(2, [3]), head: normal(3, [4, 27]) },
    batch: { x: normal(4, [2, 1, 6, 6]), labels: R.tensor([1, 3], { dtype: "int32" }) },
    loss: (p, { x, labels }) => {
      const made = N.maxPool2d(N.conv2d(x, p.kernel, p.bias, { padding: 1 }).relu(), 2);
      return N.crossEntropy(made.reshape([2, 27]).linear(p.head), labels);
    },
  }),
  "a layer of a transformer": () => ({
    params: {
      table: normal(5, [6, 8]),
      qkv: normal(6, [24, 8]),
      norm: normal(7, [8]).add(1),
      up: normal(8, [16, 8]),
      down: normal(9, [8, 16]),
    },
    batch: { ids: R.tensor([[1, 5, 2, 0]], { dtype: "int32" }) },
    loss: (p, { ids }) => {
      const x = N.embedding(ids, p.table);
      const [q, k, v] = x.layerNorm(-1, { weight: p.norm }).linear(p.qkv).split(3, -1)
        .map((one: T) => one.reshape([1, 4, 2, 4]).swapAxes(1, 2));
      const y = x.add(N.attention(q, k, v, { causal: true }).swapAxes(1, 2).reshape([1, 4, 8]));
      const made = y.add(y.linear(p.up, undefined, { activation: "gelu" }).linear(p.down));
      return N.crossEntropy(made.linear(p.table).reshape([4, 6]), ids.reshape([4]));
    },
  }),
};

const to = (device: string) => (tree: T): T =>
  Object.fromEntries(Object.entries<T>(tree).map(([name, x]) => [name, x.to(device)]));
const numbersIn = ([value, gradients]: readonly T[]): number[] =>
  [value, ...Object.values<T>(gradients)].flatMap((x) => [...x.to("cpu").flatten().toTypedArray()]);

const reason = whyNoCuda();
if (reason !== undefined) test(`derivatives on CUDA (${reason})`, { skip: true }, () => {});
else {
  openCudaForTests();
  // Each function of other ops compiles kernels of its own.
  const seeds = RUNS_ALL ? Array.from({ length: 30 }, (_, k) => k + 1) : [5];
  for (const seed of seeds) {
    test(`on CUDA: derivatives of random function ${seed}`, () => {
      const f = programOf(seed, false), params = paramsOf(seed);
      const expected = elementsIn(grad(f)(params));
      const own = mapped(params, (x) => x.to(CUDA));
      const single = elementsIn(grad(f)(own));
      assert(differenceOf(single, expected) < 1e-9);
      using program: T = compile((given: T) => grad(f)(given));
      assert(differenceOf(elementsIn(program(own)), single) < 1e-9);
    });
  }
  for (const [name, make] of Object.entries(STEPS).slice(0, RUNS_ALL ? 2 : 0)) {
    test(
      `on CUDA: derivatives of ${name}`,
      { skip: !RUNS_ALL && name.includes("transformer") },
      () => {
        const { params, batch, loss } = make();
        const both = loose(valueAndGrad)(loss);
        const expected = numbersIn(both(params, batch));
        const [own, other] = [to(CUDA)(params), to(CUDA)(batch)];
        assert(differenceOf(numbersIn(both(own, other)), expected) < 1e-4);
        using program: T = compile(both);
        assert(differenceOf(numbersIn(program(own, other)), expected) < 1e-4);
      },
    );
  }
}

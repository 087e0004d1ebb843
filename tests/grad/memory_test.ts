/**
 * Memory of training: that of tensors and that of the process stay the same in 10,000 steps, of which
 * `npm test` takes a few hundred.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import process from "node:process";
import { test } from "node:test";
import * as rm from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import { checkpoint, valueAndGrad } from "../../src/grad/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import * as optim from "../../src/optim/mod.ts";
import { amount } from "../support/amount.ts";
import { collectGarbage } from "../support/garbage.ts";
import { loose } from "../support.ts";
import type { T } from "./differences.ts";

const [R, N] = [{ ...rm }, nn].map(loose);
const STEPS = amount(100, 10_000);
/** Bytes that a process may grow by after the first part, by garbage and by its engine. */
const MOST = 64 * 2 ** 20;

const clamped: T = loose(rm.defineOp)({
  name: "gradClamped",
  expr: "x > 1 ? 1 : x",
  backward: ({ gradients: [g], inputs: [x] }: T) => g.mul(x.lessEqual(1)),
});

/** A network with a checkpoint, dropout, an op of the program, writes and indices. */
const loss = (p: T, { x, labels }: T, key: T): T => {
  const scale = R.full([], 0.9);
  const hidden = loose(checkpoint)((y: T, w: T) => y.linear(w).tanh().mul(scale))(x, p.w1);
  const kept = N.dropout(clamped(hidden), { p: 0.2, key });
  const shifted = kept.mul(1);
  shifted.add_(p.table.take(labels, 0));
  return N.crossEntropy(shifted.layerNorm(-1).linear(p.w2), labels);
};

const make = (): T => ({
  w1: R.random.normal(R.random.key(1), [16, 8]),
  w2: R.random.normal(R.random.key(2), [4, 16]),
  table: R.zeros([4, 16]),
});
const batch = {
  x: R.random.normal(R.random.key(3), [32, 8]),
  labels: R.arange(32).remainder(4).astype("int32"),
};

/** The bytes of tensors that are in use. */
const live = (): number => rm.memory().bytes - rm.memory().pooledBytes;

const optimizer = loose(optim.adam)({ learningRate: 0.01 });
function step(p: T, state: T, own: T, key: T): T {
  const [value, gradients] = loose(valueAndGrad)(loss)(p, own, key);
  optimizer.update(p, gradients, state);
  return value;
}

/**
 * Runs steps; `isExact` if all tensors are disposed of, so that none waits for the garbage collector.
 * Otherwise garbage is collected before memory is read: left alone, V8 waits until its heap is several
 * times as large as at first.
 */
async function assertFlat(
  isExact: boolean,
  run: (p: T, state: T, key: T) => void,
): Promise<void> {
  const p = make(), state = optimizer.init(p);
  let [resident, bytes] = [0, 0];
  for (let k = 0; k < STEPS; k++) {
    const key = R.random.foldIn(R.random.key(4), k);
    run(p, state, key);
    if (k === Math.floor(STEPS / 3)) {
      if (!isExact) await collectGarbage();
      [resident, bytes] = [process.memoryUsage().rss, live()];
    }
  }
  if (!isExact) await collectGarbage();
  if (isExact) assertEquals(live(), bytes);
  else assert(live() - bytes < MOST / 16, `${live() - bytes} bytes of tensors more`);
  const grown = process.memoryUsage().rss - resident;
  assert(grown < MOST, `${STEPS} steps: ${(grown / 2 ** 20).toFixed(1)} MB more`);
  const [value] = loose(valueAndGrad)(loss)(p, batch, undefined);
  assert(value.item() < 0.7, `the loss is ${value.item()}`);
}

test("steps keep no memory: by single ops", async () => {
  await assertFlat(true, (p, state, key) => rm.scope(() => void step(p, state, batch, key)));
});

test("steps keep no memory: tensors that wait for the garbage collector", async () => {
  await assertFlat(false, (p, state, key) => step(p, state, batch, key).dispose());
});

test("steps keep no memory: in a program", async () => {
  using program: T = compile(step);
  await assertFlat(true, (p, state, key) => program(p, state, batch, key).dispose());
  assertEquals(program.programs, 1);
});

// ---- the arena of programs -----------------------------------------------------------------------

/** The arena of a step of `layers` layers by 32 rows, and its parameters after 3 steps. */
function arenaOf(layers: number, block: (f: T) => T): { bytes: number; weights: T[] } {
  const layer = block((y: T, w: T, v: T) => y.layerNorm(-1).linear(w).gelu().linear(v).add(y));
  const f = (p: T[], x: T): T => p.reduce((y: T, { w, v }: T) => layer(y, w, v), x).square().mean();
  const p: T[] = Array.from({ length: layers }, (_, i) => ({
    w: R.random.normal(R.random.key(i), [64, 16]).mul(0.1),
    v: R.random.normal(R.random.key(100 + i), [16, 64]).mul(0.1),
  }));
  const own = loose(optim.adam)({ learningRate: 0.01 });
  const state = own.init(p);
  using program: T = compile((p: T, state: T, x: T): T => {
    const [value, gradients] = loose(valueAndGrad)(f)(p, x);
    own.update(p, gradients, state);
    return value;
  });
  const x = R.random.normal(R.random.key(7), [32, 16]);
  for (let k = 0; k < 3; k++) program(p, state, x).dispose();
  const [{ data }] = program.explain();
  return { bytes: data.bytes.arena, weights: p.flatMap(({ w, v }: T) => [w, v]) };
}

test("checkpoint lowers the arena of a program, and changes no parameter", () => {
  const plain = arenaOf(8, (f) => f), less = arenaOf(8, (f) => loose(checkpoint)(f));
  // Of what a layer keeps, its input is a tenth: the hidden layer, before and after gelu, is 8 times as wide.
  assert(less.bytes < 0.5 * plain.bytes, `${less.bytes} and ${plain.bytes} bytes`);
  plain.weights.forEach((w, i) =>
    assert(w.allclose(less.weights[i], { rtol: 1e-5, atol: 1e-6 }), `weight ${i}`)
  );
});

test("a program keeps derivatives by parameters no longer than until their update", () => {
  const few = arenaOf(2, (f) => loose(checkpoint)(f)).bytes;
  const many = arenaOf(10, (f) => loose(checkpoint)(f)).bytes;
  // Each layer adds its input, of 32 × 16 elements, and no derivatives, of 2 × 64 × 16.
  const added = (many - few) / 8;
  assert(added < 1.5 * 32 * 16 * 4, `${added} bytes for each layer`);
});

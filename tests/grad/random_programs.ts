/**
 * Random functions of a tree of tensors, and what holds for their derivatives: the same function for the same
 * seed, of ops of all kinds, views, writes, indices, scopes, checkpoints and derivatives within.
 *
 * @module
 */
import * as rm from "../../mod.ts";
import { checkpoint, grad as gradOf, stopGradient } from "../../src/grad/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import { loose } from "../support.ts";
import { numbers, type T, uniform } from "./differences.ts";

const [grad, R, N] = [gradOf, { ...rm }, nn].map(loose);

/** The arguments of a function: the same for the same seed. */
export function paramsOf(seed: number): T {
  const next = numbers(seed + 1000);
  return { a: uniform([3, 4], next), b: uniform([4], next), c: [uniform([2, 3, 4], next)] };
}

/** A choice, a number below `n`. */
type Choose = (n: number) => number;

/** An op of random functions: of one or two tensors; undefined if it does not take them. */
type Step = (x: T, y: T, choose: Choose) => T | undefined;

const sameRank = (x: T, y: T): boolean => x.shape.length === y.shape.length;
const axisOf = (x: T, choose: Choose): number => choose(x.shape.length);
/** Integers on the device of `x`. */
const i32 = (x: T, data: T): T => R.tensor(data, { dtype: "int32", device: x.device });
/** Options of tensors like `x`. */
const like = ({ dtype, device }: T): T => ({ dtype, device });
const indicesOf = (n: number, count: number, choose: Choose): number[] =>
  Array.from({ length: count }, () => choose(n));

/** `y`, or its mean where it does not broadcast with `x` to the shape of `x`. */
function fitting(x: T, y: T): T {
  const shape: number[] = x.shape, other: number[] = y.shape;
  const fits = other.length <= shape.length &&
    other.every((n, k) => n === 1 || n === shape[shape.length - other.length + k]);
  return fits ? y : y.mean();
}

const doubled: T = loose(rm.defineOp)({
  name: "randomDoubled",
  infer: ([x]: T) => x,
  run: ([x]: T, [out]: T) => x.data.forEach((value: number, i: number) => out.data[i] = 2 * value),
  backward: ({ gradients: [g] }: T) => g.mul(2),
});
const blended: T = loose(rm.defineOp)({
  name: "randomBlended",
  expr: "x > y ? x * sin(y) : y + x * x",
});

/** Ops whose elements have one order: programs compute the same bits. */
const PLAIN: Readonly<Record<string, Step>> = {
  sin: (x) => x.sin(),
  tanh: (x) => x.tanh(),
  sigmoid: (x) => x.mul(2).sigmoid(),
  bell: (x) => x.square().neg().exp(),
  gelu: (x) => x.gelu(),
  root: (x) => x.square().add(0.5).sqrt(),
  log: (x) => x.abs().add(1).log(),
  clip: (x) => x.clip(-0.6, 0.7),
  add: (x, y) => x.add(fitting(x, y)).mul(0.7),
  sub: (x, y) => fitting(x, y).sub(x).mul(0.6),
  mul: (x, y) => x.mul(fitting(x, y)),
  div: (x, y) => x.div(fitting(x, y).square().add(1)),
  maximum: (x, y) => x.maximum(fitting(x, y)),
  where: (x, y) => R.where(x.greater(0.1), x, fitting(x, y)),
  blended: (x, y) => blended(x, fitting(x, y)),
  transpose: (x) => x.T,
  reshape: (x) => x.reshape([-1]),
  flip: (x, _, choose) => x.shape.length > 0 ? x.flip(axisOf(x, choose)) : undefined,
  half: (x, _, choose) =>
    x.shape.length > 0
      ? x.slice(...x.shape.map((_: number, k: number) => k === choose(2) ? "::2" : ":"))
      : undefined,
  expand: (x) => x.shape.length < 3 ? x.expandDims(0).broadcastTo([2, ...x.shape]) : undefined,
  roll: (x, _, choose) => x.shape.length > 0 ? x.roll(1, axisOf(x, choose)) : undefined,
  concat: (x, y) =>
    sameRank(x, y) && x.shape.length > 0 &&
      x.shape.every((n: number, k: number) => k === 0 || n === y.shape[k]) &&
      x.shape[0] + y.shape[0] < 9
      ? R.concat([x, y], 0)
      : undefined,
  stack: (x, y) => x.shape.length < 3 ? R.stack([x, x.mul(fitting(x, y))], 0) : undefined,
  pad: (x) =>
    x.shape.length > 0 && x.shape[0] < 6
      ? x.pad([[1, 0], ...x.shape.slice(1).map(() => [0, 0])])
      : undefined,
  // Of slope 1, so that differences see the same.
  stop: (x) => x.sub(stopGradient(x)).add(stopGradient(x)),
  scope: (x, y) => R.scope(() => x.sin().mul(fitting(x, y)).cos()),
  write: (x, y) => {
    const made = x.mul(0.5);
    made.add_(fitting(x, y)).mul_(x);
    return made;
  },
  out: (x) => {
    const made = R.zeros(x.shape, like(x));
    x.sin({ out: made });
    return made;
  },
  writePart: (x) => {
    if (x.shape.length === 0 || x.shape[0] < 2) return undefined;
    const made = x.mul(2);
    made.slice("1:").mul_(0.3);
    made.set([0], 0.25);
    return made;
  },
  // Functions run on the CPU only.
  doubled: (x) => x.device === "cpu" ? doubled(x) : x.mul(2),
};

/** Ops that sum, and compositions: programs may sum in another order. */
const SUMS: Readonly<Record<string, Step>> = {
  sum: (x, _, choose) => x.shape.length > 0 ? x.sum(axisOf(x, choose)).mul(0.5) : undefined,
  mean: (x, _, choose) =>
    x.shape.length > 0 ? x.sub(x.mean(axisOf(x, choose), { keepDims: true })) : undefined,
  max: (x, _, choose) => x.shape.length > 0 ? x.max(axisOf(x, choose)) : undefined,
  logsumexp: (x, _, choose) => x.shape.length > 0 ? x.logsumexp(axisOf(x, choose)) : undefined,
  deviation: (x, _, choose) => {
    const axis = axisOf(x, choose);
    return x.shape.length > 0 && x.shape[axis] > 1 ? x.var(axis).add(0.1).sqrt() : undefined;
  },
  softmax: (x) => x.shape.length > 0 ? x.softmax(-1) : undefined,
  layerNorm: (x) =>
    x.shape.length > 0 && x.shape.at(-1) > 1 ? x.layerNorm(-1, { epsilon: 0.1 }) : undefined,
  cumulativeSum: (x) => x.shape.length > 0 ? x.cumulativeSum(0).mul(0.3) : undefined,
  cumulativeProd: (x) => x.shape.length > 0 ? x.add(0.8).cumulativeProd(0) : undefined,
  matmul: (x, y) =>
    x.shape.length > 1 && y.shape.length > 1 && x.shape.at(-1) === y.shape.at(-1)
      ? x.reshape([-1, x.shape.at(-1)]).matmul(y.reshape([-1, y.shape.at(-1)]).slice(":4").T).mul(
        0.3,
      )
      : undefined,
  gram: (x) => x.shape.length > 1 ? x.matmul(x.mT).mul(0.3) : undefined,
  linear: (x, y) =>
    x.shape.length > 0 && y.shape.length > 1 && x.shape.at(-1) === y.shape.at(-1)
      ? x.linear(y.reshape([-1, y.shape.at(-1)]).slice(":3"), undefined, { activation: "tanh" })
      : undefined,
  conv: (x, y) =>
    x.shape.length === 3
      ? N.conv1d(x, R.ones([2, x.shape[1], 3], like(x)).mul(y.mean()), undefined, { padding: 1 })
      : undefined,
  sort: (x, _, choose) => x.shape.length > 0 ? x.sort(axisOf(x, choose)) : undefined,
  take: (x, _, choose) =>
    x.shape.length > 0 ? x.take(i32(x, indicesOf(x.shape[0], 3, choose)), 0) : undefined,
  embedding: (x, _, choose) =>
    x.shape.length === 2 ? N.embedding(i32(x, [indicesOf(x.shape[0], 2, choose)]), x) : undefined,
  takeAlongAxis: (x, _, choose) =>
    x.shape.length === 2
      ? x.takeAlongAxis(
        i32(x, Array.from({ length: x.shape[0] }, () => indicesOf(x.shape[1], 2, choose))),
        1,
      )
      : undefined,
  scatterReduce: (x, y, choose) =>
    x.shape.length === 1 && y.shape.length === 1 && y.shape[0] < 9
      ? R.scatterReduce(
        x,
        i32(x, indicesOf(x.shape[0], y.shape[0], choose)),
        y,
        ["sum", "max", "mean"][choose(3)],
      )
      : undefined,
  setAccumulated: (x, _, choose) => {
    if (x.shape.length === 0) return undefined;
    const made = x.mul(0.5);
    made.set([i32(x, indicesOf(x.shape[0], 2, choose))], x.slice(0).sin(), { accumulate: true });
    return made;
  },
  einsum: (x) => x.shape.length === 2 ? R.einsum("ij,kj->ik", x, x).mul(0.2) : undefined,
  checkpoint: (x, y) => {
    const mask = R.full([], 0.8, like(x));
    return loose(checkpoint)((u: T, v: T) => u.sin().mul(v).mul(mask).tanh())(x, fitting(x, y));
  },
  nested: (x, y) => grad((u: T) => u.sin().mul(fitting(x, y)).square().sum())(x).tanh(),
};

/** A random function of a tree, whose value is a number. */
export function programOf(seed: number, isPlain: boolean): (params: T) => T {
  return ({ a, b, c: [c] }) => {
    const next = numbers(seed);
    for (let k = 0; k < 5; k++) next();
    const choose: Choose = (n) => Math.floor(next() * n) % Math.max(n, 1);
    const steps = Object.values(isPlain ? PLAIN : { ...PLAIN, ...SUMS });
    const pool: T[] = [a, b, c];
    const count = 6 + choose(8);
    for (let tries = 0; pool.length < count + 3 && tries < 200; tries++) {
      // New tensors more often than old ones.
      const pick = (): T => pool[Math.max(choose(pool.length), choose(pool.length))];
      const made = steps[choose(steps.length)]!(pick(), pick(), choose);
      if (made !== undefined && made.size <= 200) pool.push(made);
    }
    // The last ones, and the arguments, which all matter.
    const last = [...pool.slice(-3), a.sin(), b, c.cos()];
    return last.reduce(
      (sum, x, k) => sum.add(x.mean().mul(1 + k / 3)),
      R.zeros([], like(a)),
    );
  };
}

/** The elements of a tree as {@link paramsOf} makes it, in order. */
export const elementsIn = ({ a, b, c: [c] }: T): number[] =>
  [a, b, c].flatMap((x: T) => [...x.to("cpu").flatten().toTypedArray()]);

/** A tree as {@link paramsOf} makes it, by `f` of its tensors. */
export const mapped = ({ a, b, c: [c] }: T, f: (x: T) => T): T => ({ a: f(a), b: f(b), c: [f(c)] });

/** The largest difference of two lists of numbers, relative to the largest number. */
export function differenceOf(made: readonly number[], expected: readonly number[]): number {
  const largest = Math.max(1, ...expected.map(Math.abs));
  const each = expected.map((value, i) => Math.abs(value - made[i]!));
  // NaN is the largest.
  return each.reduce((most, one) => one <= most ? most : one, 0) / largest;
}

/**
 * Random programs: lists of instructions on a growing list of tensors, with views, writes in place,
 * broadcasts, casts and several results. Compiled, they do what they do alone.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import {
  attempt,
  concat,
  type DType,
  pack,
  random,
  Tensor,
  tensor,
  where,
  zeros,
} from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import { MAP, REDUCE, SCAN } from "../../src/table/table.ts";
import { generator } from "../ops/table/operands.ts";
import { type Any, loose } from "../support.ts";

/** One op: adds its results to the tensors. */
type Instruction = (
  tensors: Any[],
  numbers: readonly Any[],
  outside: readonly Any[],
) => void;

/** A program, and what it is called with. */
interface RandomProgram {
  /** Runs it on fresh arguments. */
  readonly f: (args: Any[], numbers: Any[]) => Any;
  /** Makes its arguments: the same for each call. */
  readonly args: () => Any[];
  readonly numbers: Any[];
  /** The tensors that it captures. */
  readonly outside: Any[];
  readonly text: string[];
}

const DTYPES: DType[] = [
  ...["float32", "float32", "float32", "float64", "float16", "bfloat16"] as const,
  ...["int32", "uint8", "int64", "bool"] as const,
];
const SHAPES = [[2, 3], [3], [2, 1], [1, 3], [], [3, 2], [2, 2, 3], [4, 40], [40], [70, 3]];
/** All ops of the table, by the operands that their methods take. */
const UNARY = methodsOf(Object.values(MAP).filter(({ arity }) => arity === 1));
const BINARY = methodsOf(Object.values(MAP).filter(({ arity }) => arity === 2));
const REDUCTIONS = methodsOf([...Object.values(REDUCE), ...Object.values(SCAN)])
  .concat(["argmax", "argmin", "norm", "logsumexp", "softmax", "logSoftmax", "sort", "argsort"]);

/** Names of the ops that are methods of tensors. */
function methodsOf(ops: readonly { readonly name: string }[]): string[] {
  return ops.map(({ name }) => name).filter((name) => name in Tensor.prototype);
}

/** A random program of `length` instructions. */
function randomProgram(seed: number, length: number, device: string): RandomProgram {
  const next = generator(seed);
  const int = (n: number): number => Math.floor(next() * n);
  const pick = <T>(list: readonly T[]): T => list[int(list.length)]!;
  const make = (dtype: DType, shape: number[], salt: number): Any => {
    const made = random.normal(random.key(seed * 100 + salt), shape).mul(3);
    return (dtype === "bool" ? made.greater(0) : made.astype(dtype)).to(loose(device));
  };
  const specs = Array.from(
    { length: 2 + int(2) },
    (_, i) => [pick(DTYPES), pick(SHAPES), i, next() < 0.3] as const,
  );
  const args = (): Any[] => {
    const made = specs.map(([dtype, shape, salt, viewed]) => {
      const x = make(dtype, shape, salt);
      return viewed && shape.length > 1 ? x.T : x;
    });
    // Sometimes two share their memory.
    if (seed % 5 === 0) made.push(made[0].view());
    return made;
  };
  const numbers = [Math.round(next() * 8 - 4) / 2, 1 + int(3)];
  const outside = [make(pick(DTYPES), pick(SHAPES), 50), make("float32", pick(SHAPES), 51)];
  const instructions: Instruction[] = [];
  const text: string[] = [];
  // Each instruction runs here once on real tensors: those that throw are not taken.
  const trial = args();
  const known = outside.map((x) => x.copy());
  for (let tries = 0; instructions.length < length && tries < 20 * length; tries++) {
    const [instruction, words] = instructionOf(next, trial, device);
    const before = trial.length;
    const { error } = attempt(() => instruction(trial, numbers, known));
    if (error !== undefined || trial.slice(before).some((x) => x.size > 5000)) {
      trial.length = before;
      continue;
    }
    instructions.push(instruction);
    text.push(words);
  }
  const result = resultOf(next);
  const f = (given: Any[], values: Any[]): Any => {
    const tensors = given.slice();
    for (const instruction of instructions) instruction(tensors, values, outside);
    return { last: tensors.at(-1), more: result(tensors) };
  };
  return { f, args, numbers, outside, text };
}

/**
 * A random part of a result: tensors, some of them several times and views of one another, in nested
 * arrays and records.
 */
function resultOf(next: () => number): (tensors: Any[]) => Any {
  const int = (n: number): number => Math.floor(next() * n);
  const drawn: number[] = [];
  const leaf = (): (tensors: Any[]) => Any => {
    const at = drawn.length > 0 && next() < 0.4 ? drawn[int(drawn.length)]! : next();
    drawn.push(at);
    const pick = (tensors: Any[]): Any => tensors[Math.floor(at * tensors.length)];
    const views: ((x: Any) => Any)[] = [(x) => x.view(), (x) => x.T, (x) => x.reshape([-1])];
    const view = next() < 0.3 ? views[int(views.length)]! : (x: Any): Any => x;
    return (tensors) => view(pick(tensors));
  };
  const part = (depth: number): (tensors: Any[]) => Any => {
    if (depth > 2 || next() < 0.4) return leaf();
    const parts = Array.from({ length: 1 + int(3) }, () => part(depth + 1));
    return next() < 0.5
      ? (tensors) => parts.map((one) => one(tensors))
      : (tensors) => Object.fromEntries(parts.map((one, i) => [`r${i}`, one(tensors)]));
  };
  const parts = Array.from({ length: 1 + int(3) }, () => part(1));
  return (tensors) => parts.map((one) => one(tensors));
}

/** The tensors of a result, in order. */
function leavesOf(result: Any): Any[] {
  if (result instanceof Tensor) return [result];
  return Object.values(result).flatMap(leavesOf);
}

/** `result` with its tensors replaced in order by those of `make`. */
function mapLeaves(result: Any, make: (x: Any) => Any): Any {
  if (result instanceof Tensor) return make(result);
  if (Array.isArray(result)) return result.map((one) => mapLeaves(one, make));
  return Object.fromEntries(
    Object.entries(result).map(([key, one]) => [key, mapLeaves(one, make)]),
  );
}

/**
 * Tensors for the results `like`, in their structure: of memory of their own, strided, parts of
 * larger tensors, and arguments.
 */
function outFor(like: Any, args: Any[], seed: number, device: string): Any {
  const on = (x: Any, shape: number[]): Any =>
    zeros(shape, { dtype: x.dtype, device: loose(device) });
  // The last one may share its memory with the first.
  const free = args.slice(0, args.length - 1);
  let i = seed;
  return mapLeaves(like, (x) => {
    const own = free.findIndex((arg) =>
      arg.dtype === x.dtype && arg.access !== "readonly" && `${arg.shape}` === `${x.shape}`
    );
    const kinds: (() => Any)[] = [
      () => on(x, x.shape),
      () => on(x, x.shape.toReversed()).T,
      () => on(x, [2, ...x.shape]).slice(1),
      () => own < 0 ? on(x, x.shape) : free.splice(own, 1)[0],
    ];
    return kinds[i++ % kinds.length]!();
  });
}

/** How a random program is compared. */
export interface Comparison {
  /** What is compared of a tensor. */
  readonly told: (x: Any) => unknown;
  /** The device of its tensors; absent for the CPU. */
  readonly device?: string;
  /** Whether it is improved; absent for yes. */
  readonly optimize?: boolean;
}

/** How a program is called: `out` makes the tensors for its results. */
type Caller = (args: Any[], values: Any[], out: Any) => Any;

/**
 * Throws unless a random program of `length` instructions has the same results, errors and writes
 * compiled as alone: in four calls, as devices may record the second one, with `out`, and off the
 * event loop.
 */
export async function checkRandom(
  seed: number,
  length: number,
  { told, device = "cpu", optimize = true }: Comparison,
): Promise<void> {
  const { f, args, numbers, outside, text } = randomProgram(seed, length, device);
  const saved = outside.map((x) => x.copy());
  const reset = (): void => outside.forEach((x, i) => x.set(["..."], saved[i]));
  const outcome = async (run: Caller, values: Any[], like: Any): Promise<unknown> => {
    reset();
    const given = args();
    const out = like === undefined ? undefined : outFor(like, given, seed, device);
    const about = (): unknown => [...given, ...outside, ...leavesOf(out ?? [])].map(told);
    // Devices check indices when a result is read.
    try {
      const leaves = leavesOf(await run(given, values, out));
      const value = leaves.map(told);
      const after = about();
      // Which of them are one tensor, and which show the elements of another.
      const same = leaves.map((x) => leaves.indexOf(x));
      const shared = leaves.map((x) => [attempt(() => void x.fill_(0)).error?.name, about()]);
      return { value, after, same, shared, last: leaves.map(told) };
    } catch (error) {
      return { error: (error as Error).message, after: about() };
    }
  };
  const alone: Caller = (given, values, out) => {
    const made = f(given, values);
    if (out === undefined) return made;
    // All are read before one of them is written.
    const copies = leavesOf(made).map((x) => x.copy());
    leavesOf(out).forEach((x, i) => x.set(["..."], copies[i]));
    return out;
  };
  const compiled = loose(compile(f, { optimize }));
  const calls: Caller[] = [
    (given, values, out) => out ? compiled(given, values, { out }) : compiled(given, values),
    (given, values, out) => compiled.async(given, values, { out }),
  ];
  reset();
  const like = attempt(() => f(args(), numbers)).value;
  const rounds: (readonly [call: number, out: boolean])[] = [
    ...[[0, false], [0, false], [0, false], [0, false], [1, false]] as const,
    ...like === undefined ? [] : [[0, true], [1, true], [0, true]] as const,
  ];
  for (const [round, [call, out]] of rounds.entries()) {
    const values = round === 2 ? [numbers[0] + 1, numbers[1]] : numbers;
    const expected = await outcome(alone, values, out ? like : undefined);
    const about = `seed ${seed}, round ${round}:\n${text.join("\n")}`;
    assertEquals(await outcome(calls[call]!, values, out ? like : undefined), expected, about);
  }
  compiled.dispose();
}

/** A random instruction for tensors like `known`. */
function instructionOf(
  next: () => number,
  known: readonly Any[],
  device: string,
): [Instruction, string] {
  const on = { device: loose(device) };
  const int = (n: number): number => Math.floor(next() * n);
  const pick = <T>(list: readonly T[]): T => list[int(list.length)]!;
  // The later of two tensors, so that programs read their own results more often than arguments.
  const place = (): number => Math.max(int(known.length), int(known.length));
  const [a, b] = [place(), place()];
  const { rank } = known[a];
  const axis = int(Math.max(1, rank));
  switch (int(14)) {
    case 0:
    case 1: {
      const name = pick(UNARY);
      return [(t) => void t.push(t[a][name]()), `${name} ${a}`];
    }
    case 2:
    case 3:
    case 4: {
      const name = pick(BINARY);
      return [(t) => void t.push(t[a][name](t[b])), `${name} ${a} ${b}`];
    }
    case 5: {
      const name = pick(BINARY);
      const n = int(2);
      return [(t, numbers) => void t.push(t[a][name](numbers[n])), `${name} ${a} number ${n}`];
    }
    case 6: {
      const name = pick(BINARY);
      const value = pick([2, 0.5, -1, 3, 0]);
      return [(t) => void t.push(t[a][name](value)), `${name} ${a} ${value}`];
    }
    case 7: {
      const name = pick(REDUCTIONS);
      const keepDims = next() < 0.6 && !/cumul|oft|sort/.test(name);
      const given = keepDims ? [axis, { keepDims }] : [axis];
      return [(t) => void t.push(t[a][name](...given)), `${name} ${a} ${axis} ${keepDims}`];
    }
    case 8: {
      const views: [Instruction, string][] = [
        [(t) => void t.push(t[a].T), `T ${a}`],
        [(t) => void t.push(t[a].slice("::2")), `slice ${a}`],
        [(t) => void t.push(t[a].flip(axis)), `flip ${a}`],
        [(t) => void t.push(t[a].reshape([-1])), `reshape ${a}`],
        [(t) => void t.push(t[a].expandDims(axis)), `expandDims ${a}`],
        [(t) => void t.push(t[a].sliceAxis(axis, "1:")), `sliceAxis ${a}`],
        [(t) => void t.push(...t[a].unstack(axis).slice(0, 3)), `unstack ${a}`],
      ];
      return pick(views);
    }
    case 9: {
      const name = pick(["add_", "mul_", "maximum_", "sub_"]);
      const [operand, shown] = pick<[(t: Any[], n: readonly Any[]) => Any, string]>([
        [(t) => t[b], String(b)],
        [() => 2, "2"],
        [(_, numbers) => numbers[1], "number 1"],
      ]);
      return [(t, numbers) => void t[a][name](operand(t, numbers)), `${name} ${a} ${shown}`];
    }
    case 10: {
      const value = pick([(t: Any[]) => t[b], () => 1]);
      return [(t) => void t[a].set([0], value(t)), `set ${a} ${b}`];
    }
    case 11: {
      const more: [Instruction, string][] = [
        [(t) => void t.push(t[a].astype(pickOf(DTYPES, a + b))), `astype ${a}`],
        [(t) => void t.push(where(t[a].greater(0), t[a], t[b])), `where ${a} ${b}`],
        [(t) => void t.push(concat([t[a], t[b]], axis)), `concat ${a} ${b}`],
        [(t) => void t.push(t[a].matmul(t[b])), `matmul ${a} ${b}`],
        [(t) => void t.push(t[a].clip(-1, 2)), `clip ${a}`],
        [(t) => void t.push(t[a].layerNorm()), `layerNorm ${a}`],
        [(t) => void t.push(t[a].take(loose([1, 0]), axis)), `take ${a}`],
        [(t) => void t.push(t[a].tile([2])), `tile ${a}`],
        [(t) => void t.push(t[a].pad(1)), `pad ${a}`],
      ];
      return pick(next() < 0.5 ? more : moved(a, b, axis, on));
    }
    case 12: {
      const name = pick(["add", "mul", "sub"]);
      const o = int(2);
      return [(t, _, outside) => void t.push(t[a][name](outside[o])), `${name} ${a} outside ${o}`];
    }
    default: {
      const made: [Instruction, string][] = [
        [(t) => void t.push(t[a].add(tensor([1, 2, 3], on))), `add ${a} tensor`],
        [(t, _, outside) => void t.push(outside[1].mul(2).add(t[a])), `outside ${a}`],
        [(t, _, outside) => void outside[1].add_(t[a].sum()), `outside add_ ${a}`],
        [(t) => void t.push(tensor([5, 6, 7], on).mul_(t[a].max())), `tensor mul_ ${a}`],
      ];
      return pick(made);
    }
  }
}

/** Instructions that move elements by indices, sort, multiply by weights and make random numbers. */
function moved(a: number, b: number, axis: number, on: Any): [Instruction, string][] {
  const small = (x: Any): Any => x.argsort(axis).astype("int32");
  // Sums of small integers are the same in any order.
  const rounded = (x: Any): Any => x.clip(-4, 4).floor();
  const weight = (x: Any): Any => {
    const columns = x.shape[x.rank - 1];
    return random.integers(random.key(columns), [4, columns], -3, 4, on).astype(x.dtype);
  };
  return [
    [(t) => void t.push(t[a].takeAlongAxis(small(t[a]), axis)), `takeAlongAxis ${a} ${axis}`],
    [(t) => void t[a].putAlongAxis_(small(t[b]), t[b], axis), `putAlongAxis_ ${a} ${b} ${axis}`],
    [(t) => void t.push(...Object.values(t[a].topk(2, axis) as object)), `topk ${a} ${axis}`],
    [(t) => void t.push(...t[a].split(2, axis)), `split ${a} ${axis}`],
    [(t) => void t.push(t[a].greater(0).astype("int32").oneHot(3)), `oneHot ${a}`],
    [(t) => void t.push(t[a].roll(1, axis)), `roll ${a} ${axis}`],
    [(t) => void t.push(t[a].repeat(2, axis)), `repeat ${a} ${axis}`],
    [(t) => void t.push(rounded(t[a]).linear(weight(t[a]))), `linear ${a}`],
    [(t) => void t.push(rounded(t[a]).linear(pack(weight(t[a])))), `packed linear ${a}`],
    [(t) => void t.push(t[a].add(random.uniform(random.key(a), [3], on))), `uniform ${a}`],
    [(t) => void t.push(t[a].mul(random.integers(random.key(b), [1], 0, 5, on))), `integers ${a}`],
  ];
}

function pickOf<T>(list: readonly T[], i: number): T {
  return list[i % list.length]!;
}

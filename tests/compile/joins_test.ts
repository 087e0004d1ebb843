/**
 * Pieces of `concat` and `stack` that ops write to their parts of the result: which ones, that all
 * values stay the same bit by bit, and that programs need no more memory.
 *
 * @module
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { concat, pack, random, stack, tensor, where } from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import { grad } from "../../src/grad/mod.ts";
import * as layers from "../../src/nn/mod.ts";
import { check } from "../native/support.ts";
import { generator } from "../ops/table/operands.ts";
import { amount } from "../support/amount.ts";
import { type Any, loose } from "../support.ts";
import { outcome, plain, testOnBackends, withTiles } from "./support.ts";

const nn = loose(layers);
const make = (shape: number[], salt = 0): Any => random.normal(random.key(salt), shape);
const join = (pieces: Any[], axis: number | null = 0): Any => concat(loose(pieces), loose(axis));

/** A function, its arguments, and the ops that write parts of results. */
interface Case {
  readonly f: (...args: Any[]) => Any;
  readonly args: () => Any[];
  readonly placed: readonly string[];
}

const one = (): Any[] => [make([1, 4, 6])];
const weight = make([3, 3], 5), bias = make([4], 6), same = { padding: 1 };
const kernel = make([4, 4, 3, 3], 7), kernels = make([8, 4, 3, 3], 8);

/** Joins of what exact ops make. */
const EXACT: Record<string, Case> = {
  "elementwise ops along the first axis": {
    f: (x: Any) => join([x.sin().mul(2), x.cos()]).add(1),
    args: () => [make([3, 5])],
    placed: ["sin → mul", "cos"],
  },
  "an axis after axes of one element": {
    f: (x: Any) => join([x.sin(), x.cos().slice(":", "1:3"), x.exp()], 1),
    args: one,
    placed: ["sin", "exp"],
  },
  "an axis after others: only long rows that nothing else reads": {
    f: (x: Any) => {
      const [a, b] = [x.neg(), x.sin()];
      const c = x.square().add(1);
      const most = x.max(1, { keepDims: true });
      const y = join([a, x.cos(), b, most, x, c, c.sum(1, { keepDims: true })], 1);
      const z = join([x.exp().flatten(), x.tan()], null);
      return [y.mul(2), b.max(), stack(loose([x.abs(), x.slice(":", ":").ceil()]), 1), z];
    },
    args: () => [make([3, 4, 20])],
    placed: ["neg", "cos", "exp", "tan", "abs", "ceil"],
  },
  "short rows after others, and rows of another shape: nothing": {
    f: (x: Any) => [
      join([x.sin(), x.cos()], 2),
      join([x.exp().reshape([3, 252]), x.tan().reshape([3, -1])], 1),
    ],
    args: () => [make([3, 4, 63])],
    placed: [],
  },
  "products with gaps, in joins of joins": {
    f: (x: Any, y: Any) => {
      const inner = join([x.floor().matmul(y.floor()), x.sin(), x.ceil().T], 1);
      return join([inner, inner.neg()]).mul(2);
    },
    args: () => [make([70, 70]), make([70, 70], 1)],
    placed: ["matmul", "sin", "neg"],
  },
  "all elements in a row": {
    f: (x: Any) => join([x.sin(), x.exp().T, x.cos()], null).mul(2),
    args: () => [make([3, 5])],
    placed: ["sin", "cos"],
  },
  "stacks": {
    f: (x: Any) => [stack([x.sin(), x.cos()]).neg(), stack(loose([x.exp(), x.square()]), 1)],
    args: () => [make([1, 5])],
    placed: ["sin", "cos", "exp", "square"],
  },
  "reductions, scans and copies": {
    f: (x: Any) =>
      join([x.max(1), x.cumulativeSum(0).T.copy(), x.argmax(1).astype("float32")], null),
    args: () => [make([4, 6])],
    placed: ["max", "copy", "astype"],
  },
  "outputs of one chain": {
    f: (x: Any) => {
      const a = x.sin();
      const b = a.mul(2);
      return join([b, a]).add(1);
    },
    args: () => [make([3, 5])],
    placed: ["sin → mul"],
  },
  "arguments and constants are copied alone": {
    f: (x: Any) => join([x, x.sin(), tensor(loose([[1, 2, 3, 4, 5]])), x.cos()]),
    args: () => [make([3, 5])],
    placed: ["sin", "cos"],
  },
  "one dtype of two": {
    f: (x: Any) => join([x.greater(0), x.sin(), x.astype("int32").add(1), x.cos()]).mul(2),
    args: () => [make([3, 5])],
    placed: ["sin", "cos"],
  },
  "a piece twice": {
    f: (x: Any) => {
      const a = x.sin();
      return join([a, a.view(), a.reshape([3, 5])]).mul(2);
    },
    args: () => [make([3, 5])],
    placed: ["sin"],
  },
  "a piece in two joins": {
    f: (x: Any) => {
      const a = x.sin();
      return [join([a, x.cos()]), join([x.exp(), a])];
    },
    args: () => [make([3, 5])],
    placed: ["sin", "cos", "exp"],
  },
  "a piece that is a result too": {
    f: (x: Any) => {
      const a = x.sin();
      return [a, join([a, x.cos()]).mul(2)];
    },
    args: () => [make([3, 5])],
    placed: ["cos"],
  },
  "a view of a piece that is a result too": {
    f: (x: Any) => {
      const a = x.sin();
      return [join([a, x.cos()]).mul(2), a.slice("1:")];
    },
    args: () => [make([3, 5])],
    placed: ["cos"],
  },
  "other readers of a piece, before and after": {
    f: (x: Any) => {
      const a = x.sin();
      const before = a.T.sum(0);
      const all = join([a, x.cos()]);
      return [before, all.mul(2), a.slice("::-1").exp(), a.T.softmax()];
    },
    args: () => [make([3, 5])],
    placed: ["sin", "cos"],
  },
  "halves of one tensor in their order": {
    f: (x: Any) => {
      const [a, b] = x.sin().split(2, 1) as [Any, Any];
      const c = b.mul(2);
      return join([a, b, c, c.add(1)], 1).exp();
    },
    args: one,
    placed: ["sin", "mul → add"],
  },
  "halves in another order, and one half": {
    f: (x: Any) => {
      const [a, b] = x.sin().split(2, 1) as [Any, Any];
      return [join([b, a], 1), join([x.cos().slice(":", ":2"), x.exp()], 1)];
    },
    args: one,
    placed: ["exp"],
  },
  "joins of joins": {
    f: (x: Any) => {
      const inner = join([x.sin(), x.cos()]);
      const outer = join([x.exp(), inner, x.square()]);
      return [inner.sum(), outer.mul(2), join([outer, x.neg()]).max(0)];
    },
    args: () => [make([3, 5])],
    placed: ["sin", "cos", "exp", "square", "neg"],
  },
  "joins that grow": {
    f: (x: Any) => {
      const [a, b, c] = [x.sin(), x.cos(), x.exp()];
      return [join([a, b]).sum(0), join([a, b, c]).max(0), join([a, b, c, x.neg()]).mul(2)];
    },
    args: () => [make([3, 5])],
    placed: ["sin", "cos", "exp", "neg"],
  },
  "parts of a join": {
    f: (x: Any) => {
      const all = join([x.sin(), x.cos()]);
      return join([all.slice("1:4"), all.slice(":1"), x.exp()]).mul(2);
    },
    args: () => [make([3, 5])],
    placed: ["sin", "cos", "exp"],
  },
  "a piece that is written later": {
    f: (x: Any) => {
      const a = x.sin();
      const all = join([a, x.cos()]);
      a.set([0], 7);
      return [all, a.sum()];
    },
    args: () => [make([3, 5])],
    placed: ["cos"],
  },
  "a piece that is written before": {
    f: (x: Any) => {
      const a = x.sin();
      a.set([0], 7);
      return join([a, x.cos()]);
    },
    args: () => [make([3, 5])],
    placed: ["cos"],
  },
  "a join that is written later": {
    f: (x: Any) => {
      const a = x.sin();
      const all = join([a, x.cos()]);
      all.set([1], 7);
      return [all, a.sum()];
    },
    args: () => [make([3, 5])],
    placed: [],
  },
  "a join into an argument": {
    f: (x: Any, y: Any) => {
      concat([x.sin(), x.cos()], 0, { out: y });
      return y.sum();
    },
    args: () => [make([3, 5]), make([6, 5])],
    placed: [],
  },
  "a join that is copied to an argument": {
    f: (x: Any, y: Any) => void y.set(["..."], join([x.sin(), x.cos()])),
    args: () => [make([3, 5]), make([6, 5])],
    placed: ["sin", "cos"],
  },
  "pieces of what is written in place": {
    f: (x: Any) => {
      const a = x.sin().mul_(2).add_(1);
      return join([a, x.cos().neg_()]);
    },
    args: () => [make([3, 5])],
    placed: ["sin → mul_ → add_", "cos → neg_"],
  },
  "empty pieces, and one piece": {
    f: (x: Any) => [join([x.sin().slice(":0"), x.cos()]), join([x.exp()])],
    args: () => [make([3, 5])],
    placed: ["cos", "exp"],
  },
  "joins of nothing": {
    f: (x: Any) => join([x.sin(), x.cos()]),
    args: () => [make([0, 5])],
    placed: [],
  },
  "ops whose kernels write whole tensors": {
    f: (x: Any) => join([x.softmax(), x.sin().sort(), x.cos()]),
    args: () => [make([3, 5])],
    placed: ["cos"],
  },
  "complex numbers: nothing": {
    f: (x: Any) => join([x.astype("complex64").mul(2), x.astype("complex64")]),
    args: () => [make([3, 5])],
    placed: [],
  },
  "numbers of each call": {
    f: (x: Any, n: number) => join([x.mul(n), x.add(n).sin(), where(x.greater(n), x, 0)]),
    args: () => [make([3, 5]), 1.5],
    placed: ["mul", "add → sin", "greater → where"],
  },
};

/** Joins of what adds in an order of its own. */
const SUMS: Record<string, Case> = {
  "products": {
    f: (x: Any) => join([x.linear(weight), x.matmul(x.slice(":", ":3")), x.linear(pack(weight))]),
    args: () => [make([3, 3])],
    placed: ["linear", "matmul", "linear"],
  },
  "split convolutions, joined again": {
    f: (x: Any) => {
      const all = nn.conv2d(x, kernels).silu();
      const [a, b] = all.split(2, 1) as [Any, Any];
      const c = nn.conv2d(b, kernel, bias, same).silu();
      const d = c.add(nn.conv2d(c, kernel, bias, same).relu());
      const y = join([a, b, c, d], 1);
      return nn.conv2d(y, make([4, 16, 1, 1], 9)).silu();
    },
    args: () => [make([1, 4, 9, 20])],
    placed: ["conv2d → silu", "conv2d → silu", "conv2d → relu → add"],
  },
  "pools of pools": {
    f: (x: Any) => {
      const pool = (y: Any): Any => nn.maxPool2d(y, 5, { stride: 1, padding: 2 });
      const a = nn.conv2d(x, kernel, bias, same).relu();
      const b = pool(a), c = pool(b);
      return nn.conv2d(join([a, b, c], 1), make([4, 12, 1, 1], 9));
    },
    args: () => [make([1, 4, 9, 20])],
    placed: ["conv2d → relu", "maxPool2d", "maxPool2d"],
  },
  "images resized, and of two sizes": {
    f: (x: Any) => {
      const wide = nn.conv2d(x, kernel, bias, { padding: 1, stride: 2 });
      const large = nn.interpolate(wide, { scaleFactor: 2, mode: "bilinear" });
      const y = join([large, nn.conv2d(x, kernel, bias, same), x], 1);
      return nn.conv2d(y, make([4, 12, 1, 1], 9));
    },
    args: () => [make([1, 4, 8, 20])],
    placed: ["interpolate", "conv2d"],
  },
  "derivatives": {
    f: grad((x: Any) => {
      const y = nn.conv2d(x, kernel, bias, same).silu();
      const all = join([y, y.sin(), nn.maxPool2d(y, 3, { stride: 1, padding: 1 })], 1);
      const [a, b] = all.split(2, 1) as [Any, Any];
      return join([a.mul(b), b.square()]).sum();
    }),
    args: () => [make([1, 4, 9, 20])],
    placed: ["silu → sin", "maxPool2d", "mul", "mul → mul → mul → add"],
  },
  "two images: only elementwise ops write parts with gaps": {
    f: (x: Any) => [
      join([nn.conv2d(x, kernel), nn.conv2d(x, kernel, bias).sin()], 1),
      join([nn.conv2d(x, kernel, bias).cos(), nn.conv2d(x, kernel.neg())], 0),
    ],
    args: () => [make([2, 4, 9, 20])],
    placed: ["sin", "cos", "conv2d"],
  },
};

/** The report of the program of a compiled function. */
const reportOf = (compiled: Any): Any => compiled.explain()[0].data;

for (const [name, { f, args, placed }] of Object.entries(EXACT)) {
  testOnBackends(`joins of exact ops: ${name}`, async () => {
    using compiled = compile(f);
    // Devices and backends without programs of kernels replay the graph.
    for (let round = 0; round < 2; round++) {
      assertEquals(outcome(compiled as Any, args()), outcome(f, args()));
    }
    assertEquals(reportOf(compiled).improvements.placed, placed);
    assertEquals(plain(await compiled.async(...args())), plain(f(...args())));
    for (const optimize of [{ fuse: false }, { deadCode: false, joins: false }]) {
      using other = compile(f, { optimize });
      assertEquals(outcome(other as Any, args()), outcome(f, args()));
    }
  });
}

for (const [name, { f, args, placed }] of Object.entries(SUMS)) {
  testOnBackends(`joins of sums: ${name}`, async () => {
    using compiled = compile(f);
    using copied = compile(f, { optimize: { joins: false } });
    const expected = plain(copied(...args()));
    assertEquals(plain(compiled(...args())), expected);
    assertEquals(plain(await compiled.async(...args())), expected);
    const [made, wanted] = [compiled(...args()), f(...args())];
    [wanted].flat().forEach((y: Any, i: number) => {
      assert([made].flat()[i].allclose(y, { rtol: 1e-4, atol: 1e-4 }));
    });
    assertEquals(reportOf(compiled).improvements.placed, placed);
    assertEquals(reportOf(copied).improvements.placed, []);
    assertEquals(reportOf(copied).improvements.off, ["joins"]);
  });
}

// ---- random graphs -----------------------------------------------------------------------------

/** A random function of [N, 2, C], of joins of slices of joins, and what it does in words. */
function randomJoins(seed: number): { f: (x: Any) => Any; words: string[] } {
  const next = generator(seed);
  const int = (n: number): number => Math.floor(next() * n);
  const steps: ((all: Any[]) => void)[] = [];
  const words: string[] = [];
  const sizes = [2];
  const add = (size: number, text: string, step: (all: Any[]) => Any): void => {
    sizes.push(size);
    words.push(`${sizes.length - 1} = ${text}`);
    steps.push((all) => all.push(step(all)));
  };
  // The later of two tensors more often than others.
  const pick = (): number => Math.max(int(sizes.length), int(sizes.length));
  for (let i = 0; i < 6 + int(14); i++) {
    const [a, b] = [pick(), pick()];
    const [n, m] = [sizes[a]!, sizes[b]!];
    switch (int(9)) {
      case 0:
      case 1:
        add(n, `sin ${a}`, (all) => all[a].sin());
        break;
      case 2:
        if (n === m) add(n, `${a} + ${b}`, (all) => all[a].add(all[b]));
        else add(n, `flip ${a}`, (all) => all[a].flip(1).mul(2));
        break;
      case 3: {
        const from = int(n), size = 1 + int(n - from);
        add(
          size,
          `${a} from ${from}: ${size}`,
          (all) => all[a].slice(":", `${from}:${from + size}`),
        );
        break;
      }
      case 4:
        words.push(`${a} *= 2`);
        if (next() < 0.3) steps.push((all) => void all[a].mul_(2));
        else steps.push((all) => void all[a].set([0, 0], 3));
        break;
      default: {
        const pieces = Array.from({ length: 1 + int(4) }, pick);
        // Neighbours, as splits have them, in the order in which they were cut.
        if (next() < 0.3 && pieces[0]! + 1 < sizes.length) pieces[1] = pieces[0]! + 1;
        const size = pieces.reduce((sum, piece) => sum + sizes[piece]!, 0);
        if (size < 40) add(size, `join ${pieces}`, (all) => join(pieces.map((k) => all[k]), 1));
      }
    }
  }
  const results = Array.from({ length: 1 + int(3) }, pick);
  words.push(`results ${results}`);
  const f = (x: Any): Any => {
    const all = [x.cos()];
    for (const step of steps) step(all);
    return [...results.map((k) => all[k]), all.at(-1).exp()];
  };
  return { f, words };
}

testOnBackends("random joins of slices of joins", async () => {
  const seeds = amount(120, 3000);
  let placed = 0;
  for (let seed = 0; seed < seeds; seed++) {
    const { f, words } = randomJoins(seed);
    const x = make(seed % 2 === 0 ? [1, 2, 4] : [2, 2, 40], seed);
    const expected = plain(f(x));
    for (const optimize of [true, { fuse: false, subexpressions: false }]) {
      using compiled = compile(f, { optimize });
      const about = `seed ${seed}:\n${words.join("\n")}`;
      for (let round = 0; round < 2; round++) assertEquals(plain(compiled(x)), expected, about);
      assertEquals(plain(await compiled.async(x)), expected, about);
      const out = (compiled(x) as Any[]).map((y) => y.mul(0));
      assertEquals(plain((compiled as Any)(x, { out })), expected, about);
      placed += reportOf(compiled).improvements.placed.length;
    }
  }
  assert(placed > seeds, `${placed} ops write parts of joins`);
});

// ---- memory ------------------------------------------------------------------------------------

/** The bytes of the arena and the kernels of a program, with pieces in place and copied. */
function costs(f: (x: Any) => Any, x: Any): { arena: number[]; kernels: number[] } {
  const reports = [true, false].map((joins) => {
    using compiled = compile(f, { optimize: { joins } });
    compiled(x);
    return reportOf(compiled);
  });
  return {
    arena: reports.map(({ bytes }) => bytes.arena),
    kernels: reports.map(({ kernels }) => kernels),
  };
}

check("programs without copies of pieces have smaller arenas, and one kernel less for each", () => {
  const f = (x: Any): Any => {
    const y = nn.conv2d(x, kernel, bias, same).relu();
    return join([y, nn.maxPool2d(y, 3, { stride: 1, padding: 1 })], 1).sum();
  };
  const { arena, kernels } = costs(f, make([1, 4, 40, 40]));
  const piece = 4 * 40 * 40 * 4;
  assertEquals(kernels, [3, 5]);
  assert(arena[0]! < 2 * piece + 1024 && arena[1]! > 3 * piece, `${arena}`);
});

check("ops that run tile by tile stay so, and their results are copied", () => {
  using _ = withTiles({ tile: 300, least: 0 });
  using compiled = compile((x: Any) => join([x.sin().softmax().mul(2), x.cos()]));
  const x = make([64, 9]);
  assertEquals(plain(compiled(x)), plain(join([x.sin().softmax().mul(2), x.cos()])));
  const { placed, tiled } = reportOf(compiled).improvements;
  assertEquals(placed, ["cos"]);
  assertEquals(tiled.map(({ ops }: Any) => ops), [["sin", "softmax", "mul"]]);
});

check("reports name pieces that are in place, and joins without kernels", () => {
  using compiled = compile((x: Any) => join([x.sin(), x, x.cos()]));
  compiled(make([3, 5]));
  const [report] = loose(compiled).explain();
  const { ops } = report.data;
  assertEquals(ops.map(({ name, kernels }: Any) => [name, kernels]), [
    ["sin", 1],
    ["cos", 1],
    ["concat", 1],
  ]);
  assertEquals(ops[2].inputs.map(({ name }: Any) => name), ["%1", "arg 0", "%2"]);
  assertStringIncludes(
    String(report),
    "\n  placed     2 ops into results of concat and stack: sin, cos\n",
  );
});

check("a piece whose place would be kept free for too long is copied", () => {
  const f = (x: Any): Any => {
    const small = x.max(0, { keepDims: true }).add(1);
    const large = x.sin().cumulativeSum(0).cos().cumulativeSum(0);
    return join([small, large.exp().cumulativeSum(0)]).sum();
  };
  const { arena, kernels } = costs(f, make([200, 100]));
  assert(arena[0]! <= arena[1]!, `${arena}`);
  assertEquals(kernels[1]! - kernels[0]!, 1);
});

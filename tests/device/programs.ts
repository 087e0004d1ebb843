/**
 * Programs with the same result on every device, one or several for each kind of function.
 *
 * Knows nothing of any one device.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import {
  arange,
  broadcastTensors,
  concat,
  type DType,
  eye,
  full,
  fullLike,
  fullMax,
  fullMin,
  linspace,
  meshgrid,
  ones,
  onesLike,
  pack,
  random,
  range,
  scalar,
  type Shape,
  Slice,
  stack,
  tensor,
  where,
  zeros,
  zerosLike,
} from "../../mod.ts";
import { attention } from "../../src/ops/attention/op.ts";
import type { Device } from "../../src/types/mod.ts";
import { iota, loose } from "../support.ts";

/** Makes tensors on the device that a program runs on. */
export interface Site {
  readonly device: Device;
  /** 0, 1, 2, … minus `minus`, in a shape. */
  count(shape: Shape, dtype?: DType, minus?: number): ReturnType<typeof loose>;
  /** A tensor of data. */
  of(data: unknown, dtype?: DType): ReturnType<typeof loose>;
}

/** Makes them on `device`. */
export function siteOn(device: Device): Site {
  return {
    device,
    count: (shape, dtype = "float32", minus = 0) =>
      loose(tensor(loose(iota(shape, "float64")).sub(minus).astype(dtype), { device })),
    of: (data, dtype) => loose(tensor(loose(data), { dtype: loose(dtype), device })),
  };
}

/** A full description of the result of a program; every tensor in it must be on `device`. */
export function told(value: unknown, device: Device): unknown {
  if (Array.isArray(value)) return value.map((one) => told(one, device));
  if (typeof value !== "object" || value === null || !("dtype" in value)) return value;
  const x = loose(value);
  assertEquals(x.device, device);
  const whole = !x.dtype.startsWith("f") && !x.dtype.startsWith("bf");
  const elements = x.toArray(whole ? { bigint: true } : {});
  const { dtype, shape, rank, size, nbytes, access, ownership, isContiguous } = x;
  return { dtype, shape, rank, size, nbytes, access, ownership, isContiguous, elements };
}

/** A program with the same result on every device. */
export type Program = (site: Site) => unknown;

/** Programs by subject; none of them has to wait for the device. */
export const PROGRAMS: Record<string, Record<string, Program>> = {
  creation: {
    zeros: ({ device }) => zeros([2, 3], { dtype: "int64", device }),
    "nothing at all": ({ device }) => zeros([0, 3], { device }),
    ones: ({ device }) => ones([3], { dtype: "bfloat16", device }),
    "full by a number": ({ device }) => full([2, 2], -0.5, { device }),
    "full by a bigint": ({ device }) => full([2], 2n ** 60n, { device }),
    "full by a boolean": ({ device }) => full([2], true, { device }),
    extremes: ({ device }) => [
      fullMin([2], { dtype: "int8", device }),
      fullMax([2], { dtype: "float16", device }),
    ],
    scalar: ({ device }) => scalar(4, { device }),
    "as another one": ({ count }) => {
      const x = count([2, 2], "float16");
      return [zerosLike(x), onesLike(x), fullLike(x, 3)];
    },
    "nested arrays": ({ device }) => tensor([[1, 2], [3, 4]], { device }),
    "of bools and bigints": ({ device }) => [
      tensor([true, false], { device }),
      tensor([1n, -1n], { device }),
    ],
    "typed array, cast": ({ device }) =>
      tensor(new Int16Array([1, -2, 300, 4]), { dtype: "uint8", shape: [2, 2], device }),
    "another tensor": ({ count }) => tensor(count([2, 3]), { shape: [3, 2] }),
    "another tensor, cast": ({ count }) => tensor(count([2, 3]).T, { dtype: "int8" }),
    arange: ({ device }) => [
      arange(5, { device }),
      arange(5, 1, -2, { dtype: "int64", device }),
      arange(0, 1, 0.25, { dtype: "float16", device }),
    ],
    linspace: ({ device }) => linspace(0, 1, 5, { endpoint: false, device }),
    eye: ({ device }) => eye(3, 4, { k: 1, dtype: "int32", device }),
    meshgrid: ({ count }) => meshgrid([count([2]), count([3])]),
    "random bits": ({ device }) => random.bits(random.key(1), [5], { device }),
    uniform: ({ device }) => [
      random.uniform(random.key(1), [2, 3], { device }),
      random.uniform(random.key(1), [7], { low: -2, high: 3, dtype: "float16", device }),
    ],
    normal: ({ device }) => random.normal(random.key(1), [9], { mean: 1, std: 2, device }),
    integers: ({ device }) =>
      random.integers(random.key(1), [9], -3, 40, { dtype: "int8", device }),
    permutation: ({ device }) => random.permutation(random.key(1), 20, { device }),
    deviates: ({ device }) => [
      random.gamma(random.key(1), [5], 2.5, { scale: 2, device }),
      random.truncatedNormal(random.key(3), [4], { low: 1, high: 3, device }),
    ],
    // Logarithms differ in their last bits.
    "functions of uniforms": ({ device }) =>
      (["exponential", "laplace", "gumbel"] as const).map((name) =>
        random[name](random.key(1), [20], { scale: 3, device }).mul(4).round()
      ),
    choices: ({ device, count }) => [
      random.choice(random.key(3), 9, [4], { replace: false, device }),
      random.choice(random.key(3), count([3, 2]), [4]),
      random.shuffle(random.key(4), count([6, 2])),
    ],
  },
  views: {
    slices: ({ count }) => {
      const x = count([4, 5]);
      return [
        x.slice(1),
        x.slice(":, ::-2"),
        x.slice(range(3, 0), Slice.from(2)),
        x.slice("...", null, 1),
        x.sliceAxis(1, "1:3"),
      ];
    },
    axes: ({ count }) => {
      const x = count([2, 1, 3]);
      return [
        x.T,
        x.mT,
        x.permute(2, 0, 1),
        x.swapAxes(0, 2),
        x.moveAxis(0, -1),
        x.squeeze(1),
        x.expandDims(0),
        x.flip(2),
        x.flip(),
        x.broadcastTo([2, 4, 3]),
      ];
    },
    diagonal: ({ count }) => count([3, 3]).diagonal(1),
    "reshape, a view and a copy": ({ count }) => {
      const x = count([2, 3]);
      return [x.reshape([3, 2]), x.T.reshape([6]), x.T.flatten(), x.view(), x.readonly()];
    },
    "parts and rows": ({ count }) => {
      const x = count([3, 4]);
      return [x.split(2, 1), x.split([1], 0), x.unstack(0), [...x], [...x.iterate(1, -2)]];
    },
    "the last of several writes to one place": ({ count, of, device }) => {
      // As many places as make 4 bytes of each no multiple of the alignment of memory.
      const x = zeros([513, 1], { device });
      const places = [512, 3, 512, 7, 512];
      x.set([of(places, "int32")], count([5, 1]).add(1));
      x.set([of(places.toReversed(), "int64")], count([5, 1]).add(6));
      return x;
    },
    "writes through views": ({ count }) => {
      const x = count([3, 4]);
      x.slice(":, 1").fill_(9);
      x.T.slice(0).add_(1);
      x.set([2], x.slice(0));
      x.set(["1:, ::2"], 7);
      x.set([":-1"], x.slice("1:"));
      return x;
    },
    "broadcast together": ({ count }) => broadcastTensors(count([3]), count([2, 1])),
  },
  indexing: {
    arrays: ({ count }) => {
      const x = count([3, 4]);
      return [x.slice([2, 0, -1]), x.slice(":", [1, 1]), x.slice([0, 2], [3, -4]), x.slice(1, [0])];
    },
    "tensors of every integer dtype": ({ count, of }) => {
      const x = count([3, 4, 2]);
      const dtypes = ["int8", "uint8", "int32", "int64", "uint64"] as const;
      return dtypes.map((dtype) => x.slice(":", of([[3, 0], [1, 2]], dtype)));
    },
    "writing by arrays and tensors": ({ count, of }) => {
      const x = count([3, 4]);
      x.set([[0, 0, 2]], of([[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]]));
      x.set([":", of([1, 3], "int64")], -1);
      x.set([[1]], of([[70], [71]], "int16").slice(0));
      return x;
    },
    take: ({ count, of }) => {
      const x = count([3, 4]);
      return [x.take([1, 0]), x.take(2, 1), x.take(of([[0], [2]], "int32"), 0)];
    },
    "along an axis": ({ count, of }) => {
      const x = count([2, 3]);
      const picks = of([[2, 0], [1, 1]], "int32");
      const y = count([2, 3]);
      y.putAlongAxis_(picks, of([[-1, -2], [-3, -4]]), 1);
      return [x.takeAlongAxis(picks, 1), y];
    },
    "64-bit elements": ({ of }) => {
      const x = of([2n ** 40n, -3n, 2n ** 62n]);
      x.set([[0, 2]], x.slice([2, 1]));
      return x;
    },
    where: ({ count }) => {
      const x = count([2, 3], "int32", 2);
      return [where(x.greater(0), x, 0), where(x.equal(0), 1.5, x.astype("float32"))];
    },
  },
  joining: {
    concat: ({ count }) => [
      concat([count([2, 3]), count([1, 3], "int32")]),
      concat([count([2, 3]).T, count([3, 1])], 1),
      concat([count([2, 2]), count([3])] as never, null),
    ],
    stack: ({ count }) => [stack([count([3]), count([3], "float64")], 1)],
    "concat into an output": ({ count, device }) => {
      const out = zeros([2, 4], { device });
      concat([count([1, 4]), count([1, 4], "int8")], 0, { out });
      return out;
    },
    "joins of parts of joins": ({ count }) => {
      const x = count([1, 4, 3]), wide = count([2, 70]);
      const [a, b] = x.mul(2).split(2, 1) as [typeof x, typeof x];
      const c = b.neg(), rows = x.sum(2, { keepDims: true }).add(x);
      const inner = concat([a, b, c, c.add(1)], 1);
      const outer = concat([rows, inner, x, rows.slice(":", "1:3")], 1);
      return [
        outer.square(),
        inner.slice(":", "3:6").sum(1),
        stack([rows.max(2), rows.min(2)]),
        concat([rows.max(2), x.mul(3)] as never, null),
        concat([wide.neg(), wide.add(1).square(), wide, wide.matmul(wide.T.mul(wide.T.sum(0)))], 1),
      ];
    },
    tile: ({ count }) => count([2, 2]).tile([2, 1, 3]),
    repeat: ({ count }) => {
      const x = count([2, 3]);
      return [x.repeat(2), x.repeat(3, 0), x.repeat([2, 0, 1], 1)];
    },
    roll: ({ count }) => [count([2, 3]).roll(1), count([2, 3]).roll([1, -1], [0, 1])],
    pad: ({ count }) => {
      const x = count([2, 3]);
      return [
        x.pad(1),
        x.pad([1, 2], { value: 5 }),
        ...["edge", "reflect", "wrap"].map((mode) => x.pad([[1, 0], [2, 2]], { mode })),
      ];
    },
    triangles: ({ count }) => [count([3, 4]).tril(1), count([2, 3, 3], "bool").triu()],
    diff: ({ count }) => count([3, 4]).square().diff(2),
    sort: ({ of }) => {
      const x = of([[3, NaN, -1, 3], [0, 8, 2, 2]]);
      return [
        x.sort(),
        x.sort(0, { descending: true }),
        x.argsort(),
        x.T.argsort(0, { descending: true }),
        of([[3, 1], [2, 2]], "uint64").sort(),
        ...Object.values(x.topk(2, 0)),
        ...Object.values(x.topk(3, -1, { largest: false, sorted: false })),
      ];
    },
    selection: ({ of }) => {
      const x = of([[3, NaN, -1, 3], [0, 8, 2, 2]]);
      return [
        x.partition(1),
        x.argpartition([0, 1], 0),
        x.median(0),
        x.nanquantile([0.25, 1]),
        of([[3, 1], [2, 2]], "uint64").percentile(40, 1),
        ...Object.values(x.mode(1)),
      ];
    },
  },
  elementwise: {
    "dtypes that promote": ({ count }) => [
      count([2, 3]).add(count([3], "int8")),
      count([2, 3], "int32").mul(count([2, 1], "uint8")),
      count([2], "float16").div(count([2], "bfloat16").add(1)),
    ],
    scalars: ({ count }) => [
      count([3]).mul(2.5),
      count([3], "int8").add(1),
      count([3], "bool").add(1n),
      count([3]).pow(2),
      count([3], "int32").div(2),
      count([3], "int64").less(2),
    ],
    "strided operands": ({ count }) => count([4, 6]).slice("::2, ::-3").add(count([2, 2]).T),
    "stacks of transposed matrices": ({ count }) =>
      count([3, 40, 20]).add(count([3, 20, 40]).permute(0, 2, 1)),
    "rows of packs, with gaps": ({ count }) =>
      count([5, 48]).slice(":, 8:40").mul(count([5, 32])).add(count([5, 1])),
    functions: ({ count }) => {
      const x = count([7]).sub(3).div(2);
      return [x.exp(), x.gelu(), x.isfinite(), x.sign(), x.round(), x.clip(-1, 1), x.clip(null, 0)];
    },
    "into outputs": ({ count, device }) => {
      const out = zeros([2, 3], { dtype: "float64", device });
      count([2, 3]).add(count([3]), { out: out.T.T });
      const strided = zeros([3, 4], { device });
      count([3, 2]).neg({ out: strided.slice(":, ::2") });
      return [out, strided];
    },
    "in place": ({ count }) => {
      const x = count([4, 4]);
      x.add_(1).mul_(x).sqrt_().clip_(2, 3).fill_(5).sub_(count([4]));
      return x;
    },
    "outputs that overlap an operand": ({ count }) => {
      const x = count([4, 4]);
      x.add(1, { out: x.T });
      x.slice("1:").add_(x.slice(":-1"));
      return x;
    },
    casts: ({ count }) =>
      (["bool", "uint8", "int64", "float16", "bfloat16", "float64"] as const).map((dtype) =>
        count([2, 3], "float32", 2).T.astype(dtype)
      ),
    isclose: ({ count }) => [
      count([3]).isclose(count([3]).add(1e-9)),
      count([3], "int64").isclose(2),
    ],
    "nothing to do": ({ count, device }) => [
      zeros([0, 2], { device }).add(1),
      zeros([2, 0], { device }).T.exp(),
      count([3, 2]).slice("2:1").mul(2),
    ],
  },
  reductions: {
    sums: ({ count }) => {
      const x = count([3, 4]);
      return [
        x.sum(),
        x.sum(0),
        x.T.sum(1, { keepDims: true }),
        x.sum(1, { dtype: "float64" }),
        count([3, 4], "uint8").sum(1),
        x.slice(":, ::2").prod([0, 1]),
      ];
    },
    "means and variances": ({ count }) => {
      const x = count([3, 4], "float16");
      return [x.mean(0), x.var(1, { correction: 1 }), x.std(), count([5], "int32").std()];
    },
    "of what is empty": ({ device }) => [
      zeros([0, 3], { device }).sum(0),
      zeros([2, 0], { device }).prod(1),
    ],
    extremes: ({ count }) => [count([3, 4]).max(1), count([3, 4], "int64").min(), count([4]).any()],
    "compensated sums": ({ device }) => {
      const x = loose(full([30_000, 3], 0.1, { dtype: "float64", device }));
      const sums = [x.sum(0), x.T.copy().sum(1), x.slice(":, 0").sum()];
      return sums.map((sum) => loose(sum).sub(3000).abs().less(4e-12));
    },
    "extremes of what is all the same": ({ of, count }) => [
      of([false, false]).max(),
      of([true, true]).min(),
      of([-Infinity, -Infinity]).max(),
      count([2], "uint8").mul(0).add(255).min(),
    ],
    positions: ({ count }) => [count([3, 4]).sin().argmax(1), count([3, 4]).cos().argmin()],
    counts: ({ count }) => [count([3, 4]).countNonzero(), count([2, 2]).all(1)],
    "into an output": ({ count, device }) => {
      const out = zeros([6], { dtype: "float64", device });
      count([3, 4]).sum(1, { out: out.slice("::2") });
      return out;
    },
    scans: ({ count }) => [
      count([3, 4]).cumulativeSum(0),
      count([4], "int8").cumulativeSum(0, { includeInitial: true }),
      count([2, 3]).add(1).cumulativeProd(1, { dtype: "float64" }),
    ],
    norms: ({ count }) =>
      [1, 2, 3, 0, Infinity, -Infinity].map((ord) => count([2, 3]).norm(1, { ord })),
    logsumexp: ({ count }) => [count([2, 3]).logsumexp(1), count([2, 3], "int32").logsumexp()],
  },
  rows: {
    softmax: ({ count }) => [
      count([2, 3]).softmax(),
      count([2, 3], "float16").T.softmax(0),
      count([2, 3], "int32").logSoftmax(1),
      count([2, 3, 2]).logSoftmax(1),
    ],
    attention: ({ count, of, device }) => {
      const heads = (shape: number[], dtype: DType = "float32") =>
        count(shape, dtype).mul(0.1).sin();
      const [q, k] = [heads([2, 4, 3, 8]), heads([2, 2, 5, 8])];
      // Positive, so that nothing cancels.
      const v = heads([2, 2, 5, 6]).add(2);
      const rows = heads([2, 3, 4, 8]).permute(0, 2, 1, 3);
      const out = zeros([2, 3, 4, 6], { device });
      attention(rows, k, v, { out: loose(out).permute(0, 2, 1, 3), causal: true });
      const far = heads([2, 2, 5, 8], "float64");
      return [
        attention(q, k, v),
        attention(q, k, v, { mask: of([0, -1, 2, -Infinity, 0.5]), scale: 0.5 }),
        attention(q, k, v, { mask: count([2, 1, 3, 5]).sin().greater(-0.5), causal: true }),
        attention(q, k, v, { mask: count([4, 1, 5]).cos() }),
        attention(q.astype("float16"), k.astype("float16"), v.astype("float16")),
        attention(far, far, far.add(2), { causal: true }),
        out,
      ];
    },
    layerNorm: ({ count, device }) => {
      const x = count([2, 3, 4]).sin();
      const weight = count([4], "float64");
      const out = zeros([2, 3, 4], { device });
      x.layerNorm(-1, { out });
      return [x.layerNorm(), x.layerNorm([0, 2], { weight, bias: ones([1], { device }) }), out];
    },
    rmsNorm: ({ count }) => {
      const x = count([2, 3]).add(1);
      return [x.rmsNorm(), x.T.rmsNorm(0, { weight: count([3]), epsilon: 1 })];
    },
  },
  products: {
    matmul: ({ count }) => [
      count([2, 3]).matmul(count([3, 4])),
      count([3, 2]).T.matmul(count([2, 3]).T),
      count([3]).matmul(count([3, 2])),
      count([2, 3]).matmul(count([3])),
      count([2, 0]).matmul(count([0, 2])),
    ],
    "of integers and mixed dtypes": ({ count }) => [
      count([2, 3], "int8").matmul(count([3, 2], "int8")),
      count([2, 3], "int8").matmul(count([3, 2], "int8"), { dtype: "int32" }),
      count([4, 8], "int8").matmul(count([8, 4], "int8").mul(-5), { dtype: "int32" }),
      count([2, 2], "int64").matmul(count([2, 2], "int32")),
      count([2, 2], "float16").matmul(count([2, 2], "float32")),
    ],
    batches: ({ count }) => [
      count([2, 1, 2, 3]).matmul(count([4, 3, 2])),
      count([5, 2, 3]).matmul(count([3, 2])),
    ],
    "batches that are strided inside": ({ count, device }) => {
      const [x, y] = [count([2, 1, 2, 6]).slice("..., ::2"), count([4, 6, 3]).slice(":, ::2")];
      const out = zeros([4, 2, 2, 6], { device });
      x.matmul(y, { out: out.permute(1, 0, 2, 3).slice("..., ::2") });
      return [x.matmul(y), y.matmul(count([3])), out];
    },
    "into an output": ({ count, device }) => {
      const out = zeros([2, 4], { device });
      count([2, 3]).matmul(count([3, 2]), { out: out.slice(":, ::2") });
      const x = count([2, 2]);
      x.matmul(x, { out: x });
      return [out, x];
    },
    "dot, outer, linear": ({ count }) => [
      count([3]).dot(count([3])),
      count([2]).outer(count([3], "int8")),
      count([2, 3]).linear(count([4, 3]), count([4])),
      count([2, 2, 3]).linear(count([4, 3])),
    ],
    "packed weights, activations and residuals": ({ count }) => {
      const packed = pack(count([4, 3]));
      const half = pack(count([4, 3], "bfloat16"));
      return [
        count([2, 3]).linear(packed),
        count([2, 3]).linear(half, count([4]), { activation: "relu", add: count([2, 4]) }),
        count([3, 2], "bfloat16").T.linear(half),
        count([2, 3]).linear(count([4, 3]), undefined, { activation: "relu", add: count([2, 4]) }),
      ];
    },
  },
  ownership: {
    copies: ({ count }) => {
      const x = count([2, 3]);
      return [
        x.T.copy(),
        x.T.contiguous(),
        x.contiguous(),
        x.slice(1).intoOwned(),
        x.T.intoOwnedKeepLayout(),
      ];
    },
    "copy on write, the copy is written": ({ count }) => {
      const x = count([2, 3]);
      const y = x.intoCow();
      const before = y.ownership;
      const row = y.slice(1);
      row.fill_(9);
      return [before, x, y, row];
    },
    "copy on write, the original is written": ({ count }) => {
      const x = count([4, 3]);
      const y = x.slice("1:3").intoCow();
      x.fill_(0);
      return [x, y];
    },
    moves: ({ count }) => {
      const x = count([2, 3]);
      const y = x.intoOwned();
      return [x.isDisposed, y, y.slice("1:").intoOwned()];
    },
  },
};

/** Programs that wait for the device, as control flow depends on values. */
export const WAITING: Record<string, Program> = {
  "masks pick and write": ({ count, of }) => {
    const x = count([3, 4]);
    const y = count([3, 4]);
    y.set([y.greater(5)], -1);
    y.set([[true, false, true], 0], of([7, 8]));
    return [x.slice(x.remainder(3).equal(0)), x.slice([true, false, true]), y];
  },
  "draws by parameters and weights": ({ device, count, of }) => [
    random.poisson(random.key(2), [2, 3], of([1, 20, 300])),
    random.categorical(random.key(1), count([4, 3]), { axis: 0, shape: [2] }),
    random.choice(random.key(2), count([5, 2]), [3], { p: of([1, 2, 0, 3, 4]) }),
    random.multivariateNormal(random.key(5), [3], of([0, 1]), of([[2, 1], [1, 2]]), { device }),
  ],
  nonzero: ({ count }) => [count([2, 3]).remainder(2).nonzero(), count([1]).nonzero()],
  oneHot: ({ of }) => [of([2, 0], "uint8").oneHot(3), of([1n]).oneHot(2)],
  allclose: ({ count }) => [count([3]).allclose(count([3])), count([3]).allclose(7)],
};

/**
 * The work list: every row that the benchmark times, with its NumPy twin beside it.
 *
 * A row names its inputs, so that all peers make arrays of the same dtypes and shapes, says what
 * rowmajor does with them, and has NumPy's statement for the same. Knows nothing of clocks,
 * processes or tables.
 *
 * @module
 */
import * as rm from "../mod.ts";

/** An input array: normal floats, integers from 1 to 100, random bools, or indexes below `below`. */
export interface Input {
  /** The element type. */
  readonly dtype: rm.DType;
  /** The size of each axis. */
  readonly shape: readonly number[];
  /** For indexes: one more than the largest. */
  readonly below?: number;
}

/** What the project wants of a row; a row that misses it is marked. */
export interface Goal {
  /** At most this many nanoseconds for each element. */
  readonly ns?: number;
  /** At most this much of NumPy's time. */
  readonly ratio?: number;
}

/** The tensors of a row, by the names of its inputs. */
export type Tensors = Record<string, rm.AnyTensor>;

/** One thing to time. */
export interface Row {
  /** Rows of a group share a geometric mean. */
  readonly group: string;
  /** Unique in the list. */
  readonly name: string;
  /** When given, times are shown for each of so many elements; else for the call. */
  readonly elements?: number;
  /** Left out of short runs. */
  readonly long?: boolean;
  /** See {@link Goal}. */
  readonly goal?: Goal;
  /** Shared by all peers, by name. */
  readonly inputs: Readonly<Record<string, Input>>;
  /** Prepares the call that is timed. */
  readonly body: (x: Tensors) => () => unknown;
  /** The same in Python, on the same names; absent when NumPy has no such thing. */
  readonly numpy?: string;
}

const { Slice, range } = rm;

function of(dtype: rm.DType, ...shape: number[]): Input {
  return { dtype, shape };
}

const f32 = (...shape: number[]): Input => of("float32", ...shape);
const i32 = (...shape: number[]): Input => of("int32", ...shape);

type Made = Omit<Row, "group" | "elements" | "goal">;

/** A row from its parts. */
function row(
  name: string,
  inputs: Record<string, Input>,
  body: Row["body"],
  numpy?: string,
  more: Partial<Row> = {},
): Made & Partial<Row> {
  return { name, inputs, body, numpy, ...more };
}

function group(group: string, common: Partial<Row>, rows: (Made & Partial<Row>)[]): Row[] {
  return rows.map((one) => ({ ...common, ...one, group }));
}

// ---- calls -------------------------------------------------------------------------------------

const x = { x: f32(64, 32, 16) };
const step2 = Slice.from(2).to(40).step(2);
const back = Slice.full().step(-1);

const views = group("views", { goal: { ratio: 1 } }, [
  row("transpose", x, ({ x }) => () => x.T, "x.T"),
  row("permute (2, 0, 1)", x, ({ x }) => () => x.permute(2, 0, 1), "x.transpose(2, 0, 1)"),
  row("swap axes", x, ({ x }) => () => x.swapAxes(0, 2), "x.swapaxes(0, 2)"),
  row("reshape", x, ({ x }) => () => x.reshape([128, 256]), "x.reshape(128, 256)"),
  row("reshape with -1", x, ({ x }) => () => x.reshape([512, -1]), "x.reshape(512, -1)"),
  row("unsqueeze", x, ({ x }) => () => x.unsqueeze(), "x[None]"),
  row("squeeze", { x: f32(1, 64, 32) }, ({ x }) => () => x.squeeze(0), "x.squeeze(0)"),
  row("flip one axis", x, ({ x }) => () => x.flip(0), "x[::-1]"),
  row("broadcast to", x, ({ x }) => () => x.broadcastTo([8, 64, 32, 16]), "broadcast_to(x)"),
  row("slice by 1 number", x, ({ x }) => () => x.slice(3), "x[3]"),
  row("slice by 2 numbers", x, ({ x }) => () => x.slice(3, 5), "x[3, 5]"),
  row("slice by a Slice", x, ({ x }) => () => x.slice(step2), "x[step2]"),
  row("slice by 2 Slices", x, ({ x }) => () => x.slice(step2, back), "x[step2, back]"),
  row("slice by a new Slice", x, ({ x }) => () => x.slice(new Slice(2, 40, 2)), "x[2:40:2]"),
  row("slice by a range", x, ({ x }) => () => x.slice(range(2, 40)), "x[2:40]"),
  row(
    "slice by Slice, number",
    x,
    ({ x }) => () => x.slice(step2, 3, back),
    "x[step2, 3, back]",
  ),
  row("slice by a string", x, ({ x }) => () => x.slice("2:40:2, 3, :"), "x[2:40:2, 3, :]"),
]);

const pair = (dtype: rm.DType) => ({ a: of(dtype, 16), b: of(dtype, 16) });

const dispatch = group("dispatch", {}, [
  row("add 16 float32", pair("float32"), ({ a, b }) => () => a.add(b), "a + b", {
    goal: { ratio: 0.6 },
  }),
  row("add 16 int32", pair("int32"), ({ a, b }) => () => a.add(b), "a + b", {
    goal: { ratio: 0.6 },
  }),
  row("add 16 float64", pair("float64"), ({ a, b }) => () => a.add(b), "a + b"),
  row(
    "add 16 float32, out",
    { ...pair("float32"), o: f32(16) },
    ({ a, b, o }) => () => a.add(b, { out: o }),
    "np.add(a, b, out=o)",
  ),
  row("add 16 in place", pair("float32"), ({ a, b }) => () => a.add_(b), "a.__iadd__(b)"),
  row("add 16 and a scalar", pair("float32"), ({ a }) => () => a.add(1), "a + 1"),
  row("add [4, 4] and [4]", { a: f32(4, 4), b: f32(4) }, ({ a, b }) => () => a.add(b), "a + b"),
  row("add float32 and int32", { a: f32(16), b: i32(16) }, ({ a, b }) => () => a.add(b), "a + b"),
  row("relu 16", pair("float32"), ({ a }) => () => a.relu(), "np.maximum(a, 0)"),
  row("sum 16", pair("float32"), ({ a }) => () => a.sum(), "a.sum()"),
  row("sum [4, 4] over axis 1", { a: f32(4, 4) }, ({ a }) => () => a.sum(1), "a.sum(1)"),
  row(
    "matmul [4, 4]",
    { a: f32(4, 4), b: f32(4, 4) },
    ({ a, b }) => () => a.matmul(b),
    "a @ b",
  ),
  row("zeros [4]", {}, () => () => rm.zeros([4]), "np.zeros(4, np.float32)"),
  row("tensor of 4 numbers", {}, () => () => rm.tensor([1, 2, 3, 4]), "np.array([1., 2., 3., 4.])"),
  row("item", { a: f32(1) }, ({ a }) => () => a.item(), "a.item()"),
  row("get one element", { a: f32(4, 4) }, ({ a }) => () => a.get(1, 2), "a.item(1, 2)"),
]);

// ---- loops -------------------------------------------------------------------------------------
// Results are disposed of, as NumPy's reference counts do by themselves: their memory is used again.

const N = 1_000_000;
const side = 1000;
const square = { a: f32(side, side), b: f32(side, side) };

const adds = group("loops: add", { elements: N }, [
  ...(["float32", "int32"] as const).flatMap((dtype) => {
    const goal = { goal: { ns: 1.5 } };
    const a = of(dtype, side, side);
    const whole = { a: of(dtype, N), b: of(dtype, N) };
    return [
      row(`${dtype} 1e6`, whole, ({ a, b }) => () => a.add(b).dispose(), "a + b", goal),
      row(
        `${dtype} row broadcast`,
        { a, b: of(dtype, side) },
        ({ a, b }) => () => a.add(b).dispose(),
        "a + b",
        goal,
      ),
      row(
        `${dtype} column broadcast`,
        { a, b: of(dtype, side, 1) },
        ({ a, b }) => () => a.add(b).dispose(),
        "a + b",
        goal,
      ),
      row(`${dtype} and a scalar`, { a }, ({ a }) => () => a.add(2).dispose(), "a + 2", goal),
    ];
  }),
  row("float32 not disposed", { a: f32(N), b: f32(N) }, ({ a, b }) => () => a.add(b), "a + b"),
  row(
    "float32 into out",
    { a: f32(N), b: f32(N), o: f32(N) },
    ({ a, b, o }) => () => a.add(b, { out: o }),
    "np.add(a, b, out=o)",
  ),
  row("float64 1e6", { a: of("float64", N), b: of("float64", N) }, addBoth, "a + b"),
  row("uint8 1e6", { a: of("uint8", N), b: of("uint8", N) }, addBoth, "a + b"),
  row("float32 + int32", { a: f32(N), b: i32(N) }, addBoth, "np.add(a, b, dtype=np.float32)"),
  row("float32 1e3", { a: f32(1e3), b: f32(1e3) }, addBoth, "a + b", { elements: 1e3 }),
  row("float32 1e4", { a: f32(1e4), b: f32(1e4) }, addBoth, "a + b", { elements: 1e4, long: true }),
  row("float32 1e5", { a: f32(1e5), b: f32(1e5) }, addBoth, "a + b", { elements: 1e5, long: true }),
  row("float32 1e7", { a: f32(1e7), b: f32(1e7) }, addBoth, "a + b", { elements: 1e7, long: true }),
]);

function addBoth({ a, b }: Tensors): () => unknown {
  return () => a.add(b).dispose();
}

const strided = group("loops: strided", { elements: N }, [
  row("add transposed", square, ({ a, b }) => () => a.add(b.T).dispose(), "a + b.T"),
  row(
    "add both transposed",
    square,
    ({ a, b }) => () => a.T.add(b.T).dispose(),
    "np.ascontiguousarray(a.T + b.T)",
  ),
  row("add reversed", square, ({ a, b }) => () => a.add(b.flip()).dispose(), "a + b[::-1, ::-1]"),
  row(
    "add every other column",
    { a: f32(side, side), b: f32(side, 2 * side) },
    ({ a, b }) => () => a.add(b.slice(":, ::2")).dispose(),
    "a + b[:, ::2]",
  ),
  row("copy transposed", square, ({ a }) => () => a.T.contiguous().dispose(), "a.T.copy()"),
  row(
    "copy permuted (2, 0, 1)",
    { a: f32(100, 100, 100) },
    ({ a }) => () => a.permute(2, 0, 1).contiguous().dispose(),
    "a.transpose(2, 0, 1).copy()",
  ),
]);

const functions = group("loops: functions", { elements: N }, [
  ...(["mul", "div", "maximum"] as const).map((name) =>
    row(
      `${name} float32`,
      { a: f32(N), b: f32(N) },
      ({ a, b }) => () => a[name](b).dispose(),
      { mul: "a * b", div: "a / b", maximum: "np.maximum(a, b)" }[name],
    )
  ),
  row("less float32", { a: f32(N), b: f32(N) }, ({ a, b }) => () => a.less(b).dispose(), "a < b"),
  row("mul int32", { a: i32(N), b: i32(N) }, ({ a, b }) => () => a.mul(b).dispose(), "a * b"),
  row(
    "floor divide int32",
    { a: i32(N), b: i32(N) },
    ({ a, b }) => () => a.floorDivide(b).dispose(),
    "a // b",
  ),
  ...(["sqrt", "exp", "tanh", "sin"] as const).map((name) =>
    row(`${name} float32`, { a: f32(N) }, ({ a }) => () => a[name]().dispose(), `np.${name}(a)`)
  ),
  row(
    "where float32",
    { c: of("bool", N), a: f32(N), b: f32(N) },
    ({ c, a, b }) => () => rm.where(c as rm.Tensor<"bool">, a, b).dispose(),
    "np.where(c, a, b)",
  ),
  row(
    "softmax float32",
    { a: f32(side, side) },
    ({ a }) => () => a.softmax(1).dispose(),
    "softmax(a)",
  ),
]);

const casts = group("loops: casts", { elements: N }, [
  row(
    "float32 to int32",
    { a: f32(N) },
    ({ a }) => () => a.astype("int32").dispose(),
    "a.astype(np.int32)",
  ),
  row(
    "int32 to float32",
    { a: i32(N) },
    ({ a }) => () => a.astype("float32").dispose(),
    "a.astype(np.float32)",
  ),
  row(
    "float32 to float64",
    { a: f32(N) },
    ({ a }) => () => a.astype("float64").dispose(),
    "a.astype(np.float64)",
  ),
]);

const M = 100_000;

/** The dtypes that JavaScript has no fast arithmetic for, and what is done with each. */
const NARROW = ["float16", "int64", "bfloat16", "uint64"] as const;
const ON_NARROW: readonly [op: string, body: Row["body"], numpy: string][] = [
  ["add", addBoth, "a + b"],
  ["mul", ({ a, b }) => () => a.mul(b).dispose(), "a * b"],
  ["less", ({ a, b }) => () => a.less(b).dispose(), "a < b"],
  ["maximum", ({ a, b }) => () => a.maximum(b).dispose(), "np.maximum(a, b)"],
  ["div", ({ a, b }) => () => a.div(b).dispose(), "a / b"],
  ["floor divide", ({ a, b }) => () => a.floorDivide(b).dispose(), "a // b"],
  ["sum", ({ a }) => () => a.sum().dispose(), "a.sum()"],
  ["max", ({ a }) => () => a.max().dispose(), "a.max()"],
  ["to float32", ({ a }) => () => a.astype("float32").dispose(), "a.astype(np.float32)"],
];

const narrow = group(
  "loops: 16- and 64-bit",
  { elements: M, goal: { ns: 6 } },
  NARROW.flatMap((dtype, i) => {
    const twin = (text: string): string | undefined => dtype === "bfloat16" ? undefined : text;
    const long = i >= 2;
    return [
      ...ON_NARROW.map(([op, body, numpy]) =>
        row(`${dtype} ${op}`, { a: of(dtype, M), b: of(dtype, M) }, body, twin(numpy), {
          long: long && op !== "add",
        })
      ),
      row(
        `${dtype} add transposed`,
        { a: of(dtype, 300, 300), b: of(dtype, 300, 300) },
        ({ a, b }) => () => a.add(b.T).dispose(),
        twin("a + b.T"),
        { elements: 90_000, long },
      ),
      row(
        `float32 to ${dtype}`,
        { a: f32(M) },
        ({ a }) => () => a.astype(dtype).dispose(),
        twin(`a.astype(np.${dtype})`),
        { long },
      ),
    ];
  }),
);

const reductions = group("loops: reductions", { elements: N }, [
  row("sum, all", square, ({ a }) => () => a.sum().dispose(), "a.sum()"),
  row("sum over axis 0", square, ({ a }) => () => a.sum(0).dispose(), "a.sum(0)"),
  row("sum over axis 1", square, ({ a }) => () => a.sum(1).dispose(), "a.sum(1)"),
  row("sum of int32", { a: i32(N) }, ({ a }) => () => a.sum().dispose(), "a.sum()"),
  row("sum of float64", { a: of("float64", N) }, ({ a }) => () => a.sum().dispose(), "a.sum()"),
  row("max, all", square, ({ a }) => () => a.max().dispose(), "a.max()"),
  row("max over axis 0", square, ({ a }) => () => a.max(0).dispose(), "a.max(0)"),
  row("argmax, all", square, ({ a }) => () => a.argmax().dispose(), "a.argmax()"),
  row("argmax over axis 1", square, ({ a }) => () => a.argmax(1).dispose(), "a.argmax(1)"),
  row("mean over axis 1", square, ({ a }) => () => a.mean(1).dispose(), "a.mean(1)"),
  row("var over axis 1", square, ({ a }) => () => a.var(1).dispose(), "a.var(1)"),
  row("cumulative sum", { a: f32(N) }, ({ a }) => () => a.cumulativeSum().dispose(), "a.cumsum()"),
  row(
    "cumulative sum, axis 0",
    square,
    ({ a }) => () => a.cumulativeSum(0).dispose(),
    "a.cumsum(0)",
  ),
]);

const moves = group("sort and gather", {}, [
  row("sort 1e5", { a: f32(M) }, ({ a }) => () => a.sort().dispose(), "np.sort(a)", {
    elements: M,
  }),
  row(
    "argsort 1e5",
    { a: f32(M) },
    ({ a }) => () => a.argsort().dispose(),
    "a.argsort(kind='stable')",
    { elements: M },
  ),
  row(
    "take 1000 rows of 64",
    { a: f32(10_000, 64), i: { dtype: "int32", shape: [1000], below: 10_000 } },
    ({ a, i }) => () => a.take(i, 0).dispose(),
    "a.take(i, 0)",
    { elements: 64_000 },
  ),
  row(
    "concat 2 of 5e5",
    { a: f32(N / 2), b: f32(N / 2) },
    ({ a, b }) => () => rm.concat([a, b]).dispose(),
    "np.concatenate([a, b])",
    { elements: N },
  ),
  row(
    "nonzero of 1e5",
    { a: of("bool", M) },
    ({ a }) => () => a.nonzero()[0].dispose(),
    "a.nonzero()",
    { elements: M },
  ),
]);

function product(dtype: rm.DType, n: number, more: Partial<Row> = {}): Made & Partial<Row> {
  return row(
    `${dtype} ${n}`,
    { a: of(dtype, n, n), b: of(dtype, n, n) },
    ({ a, b }) => () => a.matmul(b).dispose(),
    dtype === "bfloat16" ? undefined : "a @ b",
    { elements: n ** 3, ...more },
  );
}

const products = group("matmul, per multiply-add", {}, [
  product("float32", 16),
  product("float32", 64),
  product("float32", 256),
  row(
    "float32 256, transposed",
    { a: f32(256, 256), b: f32(256, 256) },
    ({ a, b }) => () => a.matmul(b.T).dispose(),
    "a @ b.T",
    { elements: 256 ** 3 },
  ),
  row(
    "float32 32 × [64, 64]",
    { a: f32(32, 64, 64), b: f32(32, 64, 64) },
    ({ a, b }) => () => a.matmul(b).dispose(),
    "a @ b",
    { elements: 32 * 64 ** 3 },
  ),
  product("float64", 64),
  product("int32", 64),
  product("float16", 64),
  product("int64", 64),
  product("float32", 1024, { long: true }),
  product("float64", 256, { long: true }),
]);

/** All rows, in the order of the table. */
export const WORK: readonly Row[] = [
  ...views,
  ...dispatch,
  ...adds,
  ...strided,
  ...functions,
  ...casts,
  ...narrow,
  ...reductions,
  ...moves,
  ...products,
];

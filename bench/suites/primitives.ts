/**
 * Single ops beside NumPy and PyTorch.
 *
 * A row names its inputs, so that all sides make arrays of the same dtypes and shapes, and contains
 * the call of rowmajor and the equivalent statement for each other library.
 *
 * @module
 */
import * as rm from "../../mod.ts";
import type { AnyTensor, Goal, Input, Row, ServedRow, Suite } from "../harness/suite.ts";

/** A tensor of a row. */
type Body = (x: Record<string, AnyTensor>) => () => unknown;

/** A row without a group. */
interface Part extends Pick<Row, "name" | "long" | "heavy"> {
  /** If given, times are per element; else per call. */
  readonly elements?: number;
  /** Included in measurements of memory. */
  readonly memory?: boolean;
  readonly inputs: ServedRow["inputs"];
  /** Prepares the timed call. */
  readonly body: Body;
  readonly numpy: string | undefined;
  readonly torch: string | undefined;
}

const { Slice, range } = rm;

function of(dtype: rm.DType, ...shape: number[]): Input {
  return { dtype, shape };
}

function indexes(dtype: rm.DType, shape: readonly number[], high: number): Input {
  return { dtype, shape, kind: "integers", low: 0, high };
}

const f32 = (...shape: number[]): Input => of("float32", ...shape);
const i32 = (...shape: number[]): Input => of("int32", ...shape);

/** One statement for both, or NumPy's and PyTorch's. */
type Twins = string | readonly [numpy: string | undefined, torch: string | undefined];

/** A row from its parts. */
function row(
  name: string,
  inputs: Record<string, Input>,
  body: Body,
  twins: Twins,
  more: Partial<Part> = {},
): Part {
  const [numpy, torch] = typeof twins === "string" ? [twins, twins] : twins;
  return { name, inputs, body, numpy, torch, ...more };
}

function group(group: string, common: Partial<Part>, parts: readonly Part[]): ServedRow[] {
  return parts.flatMap((part) => {
    const { elements, memory, body, numpy, torch, ...rest } = { ...common, ...part };
    const unit = group === "matmul" ? "multiply-add" : "element";
    const row: ServedRow = {
      ...rest,
      group,
      call: (x) => ({ run: body(x) }),
      statements: {
        ...(numpy === undefined ? {} : { NumPy: numpy }),
        ...(torch === undefined ? {} : { PyTorch: torch }),
      },
      ...(elements === undefined ? {} : { per: { unit, count: elements } }),
    };
    if (!memory) return [row];
    const { per: _, ...whole } = row;
    return [row, { ...whole, group: "memory", long: true, unit: "bytes" as const }];
  });
}

const long = { long: true };

// Loops dispose of results, as reference counts do in Python, so that their memory is reused.

const addBoth: Body = ({ a, b }) => () => a.add(b).dispose();
const addInto: Body = ({ a, b, o }) => () => a.add(b, { out: o });
const ADD_INTO: Twins = ["np.add(a, b, out=o)", "torch.add(a, b, out=o)"];

// ---- views -------------------------------------------------------------------------------------

const x = { x: f32(64, 32, 16) };
const step2 = Slice.from(2).to(40).step(2);
const back = Slice.full().step(-1);

const views = group("views", {}, [
  row("transpose", x, ({ x }) => () => x.T, ["x.T", "x.permute(2, 1, 0)"]),
  row("permute (2, 0, 1)", x, ({ x }) => () => x.permute(2, 0, 1), [
    "x.transpose(2, 0, 1)",
    "x.permute(2, 0, 1)",
  ]),
  row("swap axes", x, ({ x }) => () => x.swapAxes(0, 2), "x.swapaxes(0, 2)"),
  row("reshape", x, ({ x }) => () => x.reshape([128, 256]), "x.reshape(128, 256)"),
  row("reshape with -1", x, ({ x }) => () => x.reshape([512, -1]), "x.reshape(512, -1)"),
  row("unsqueeze", x, ({ x }) => () => x.unsqueeze(), ["x[None]", "x.unsqueeze(0)"]),
  row("squeeze", { x: f32(1, 64, 32) }, ({ x }) => () => x.squeeze(0), "x.squeeze(0)"),
  // PyTorch has no negative strides: it would copy.
  row("flip one axis", x, ({ x }) => () => x.flip(0), ["x[::-1]", undefined]),
  row("broadcast to", x, ({ x }) => () => x.broadcastTo([8, 64, 32, 16]), [
    "np.broadcast_to(x, (8, 64, 32, 16))",
    "x.expand(8, 64, 32, 16)",
  ]),
  row("slice by 1 number", x, ({ x }) => () => x.slice(3), "x[3]"),
  row("slice by 1 number, shape", x, ({ x }) => () => x.slice(3).shape, "x[3].shape"),
  row("slice by 2 numbers", x, ({ x }) => () => x.slice(3, 5), "x[3, 5]"),
  row("slice by a Slice", x, ({ x }) => () => x.slice(step2), "x[step2]"),
  row("slice by 2 Slices", x, ({ x }) => () => x.slice(step2, back), [
    "x[step2, back]",
    undefined,
  ]),
  row("slice by a new Slice", x, ({ x }) => () => x.slice(new Slice(2, 40, 2)), "x[2:40:2]"),
  row("slice by a range", x, ({ x }) => () => x.slice(range(2, 40)), "x[2:40]"),
  row("slice by Slice, number", x, ({ x }) => () => x.slice(step2, 3, back), [
    "x[step2, 3, back]",
    undefined,
  ]),
  row("slice by a string", x, ({ x }) => () => x.slice("2:40:2, 3, :"), "x[2:40:2, 3, :]"),
]);

// ---- small sizes -------------------------------------------------------------------------------

const pair = (dtype: rm.DType, size = 16) => ({ a: of(dtype, size), b: of(dtype, size) });
const triple = (size: number) => ({ a: f32(size), b: f32(size), o: f32(size) });

const small = group("small sizes", {}, [
  row("add 16 float32", pair("float32"), ({ a, b }) => () => a.add(b), "a + b"),
  row("add 16 float32, disposed", pair("float32"), addBoth, "a + b"),
  row("add 16 int32", pair("int32"), ({ a, b }) => () => a.add(b), "a + b"),
  row("add 16 float64", pair("float64"), ({ a, b }) => () => a.add(b), "a + b"),
  row("add 16 float32, out", triple(16), addInto, ADD_INTO),
  row("add 16 in place", pair("float32"), ({ a, b }) => () => a.add_(b), [
    "a.__iadd__(b)",
    "a.add_(b)",
  ]),
  row("add 16 and a scalar", pair("float32"), ({ a }) => () => a.add(1), "a + 1"),
  row("add [4, 4] and [4]", { a: f32(4, 4), b: f32(4) }, ({ a, b }) => () => a.add(b), "a + b"),
  row("add float32 and int32", { a: f32(16), b: i32(16) }, ({ a, b }) => () => a.add(b), "a + b"),
  row("add 100 float32", pair("float32", 100), addBoth, "a + b", long),
  row("add 100 float32, out", triple(100), addInto, ADD_INTO, long),
  row("add 1e3 float32", pair("float32", 1e3), addBoth, "a + b"),
  row("add 1e3 float32, out", triple(1e3), addInto, ADD_INTO, long),
  row("relu 16", pair("float32"), ({ a }) => () => a.relu(), ["np.maximum(a, 0)", "a.relu()"]),
  row("sum 16", pair("float32"), ({ a }) => () => a.sum(), "a.sum()"),
  row("sum [4, 4] over axis 1", { a: f32(4, 4) }, ({ a }) => () => a.sum(1), "a.sum(1)"),
  row("softmax [4, 10]", { a: f32(4, 10) }, ({ a }) => () => a.softmax(1), [
    "softmax(a)",
    "a.softmax(1)",
  ], long),
  row("matmul [4, 4]", { a: f32(4, 4), b: f32(4, 4) }, ({ a, b }) => () => a.matmul(b), "a @ b"),
  row("zeros [4]", {}, () => () => rm.zeros([4]), ["np.zeros(4, np.float32)", "torch.zeros(4)"]),
  row("zeros [1000]", {}, () => () => rm.zeros([1000]).dispose(), [
    "np.zeros(1000, np.float32)",
    "torch.zeros(1000)",
  ], long),
  row("tensor of 4 numbers", {}, () => () => rm.tensor([1, 2, 3, 4]), [
    "np.array([1., 2., 3., 4.], np.float32)",
    "torch.tensor([1., 2., 3., 4.])",
  ]),
  row("item", { a: f32(1) }, ({ a }) => () => a.item(), "a.item()"),
  row("get one element", { a: f32(4, 4) }, ({ a }) => () => a.get(1, 2), [
    "a.item(1, 2)",
    "a[1, 2].item()",
  ]),
]);

// ---- elementwise -------------------------------------------------------------------------------

const N = 1_000_000;
const M = 100_000;
const side = 1000;
const square = { a: f32(side, side), b: f32(side, side) };
const positive = { a: { ...f32(N), kind: "positive" as const } };

const adds: Part[] = [
  ...(["float32", "int32"] as const).flatMap((dtype) => [
    row(`${dtype} add 1e6`, pair(dtype, N), addBoth, "a + b"),
    row(`${dtype} add a scalar`, pair(dtype, N), ({ a }) => () => a.add(2).dispose(), "a + 2"),
  ]),
  row("float32 add 1e6, not disposed", pair("float32", N), ({ a, b }) => () => a.add(b), "a + b"),
  row("float32 add 1e6, out", triple(N), addInto, ADD_INTO),
  row("float64 add 1e6", pair("float64", N), addBoth, "a + b"),
  row("uint8 add 1e6", pair("uint8", N), addBoth, "a + b"),
  row("float32 + int32", { a: f32(N), b: i32(N) }, addBoth, [
    "np.add(a, b, dtype=np.float32)",
    "a + b",
  ]),
  ...([["1e4", 1e4], ["1e5", 1e5], ["1e7", 1e7]] as const).flatMap(([name, size]) => {
    const more = { elements: size, ...long };
    return [
      row(`float32 add ${name}`, pair("float32", size), addBoth, "a + b", {
        ...more,
        memory: size === 1e7,
      }),
      row(`float32 add ${name}, out`, triple(size), addInto, ADD_INTO, more),
    ];
  }),
];

/** Functions of one float32 array: rowmajor's name, its inputs, NumPy and PyTorch. */
const FUNCTIONS: readonly [
  "sqrt" | "exp" | "log" | "log1p" | "sin" | "tanh" | "sigmoid" | "gelu" | "relu",
  Record<string, Input>,
  Twins,
  Partial<Part>?,
][] = [
  ["sqrt", positive, ["np.sqrt(a)", "a.sqrt()"]],
  ["exp", { a: f32(N) }, ["np.exp(a)", "a.exp()"]],
  ["log", positive, ["np.log(a)", "a.log()"], long],
  ["log1p", positive, ["np.log1p(a)", "a.log1p()"], long],
  ["sin", { a: f32(N) }, ["np.sin(a)", "a.sin()"]],
  ["tanh", { a: f32(N) }, ["np.tanh(a)", "a.tanh()"]],
  ["sigmoid", { a: f32(N) }, ["1 / (1 + np.exp(-a))", "a.sigmoid()"], long],
  // NumPy has no error function.
  ["gelu", { a: f32(N) }, [undefined, "F.gelu(a)"], long],
  ["relu", { a: f32(N) }, ["np.maximum(a, 0)", "a.relu()"], long],
];

const functions: Part[] = [
  ...(["mul", "div", "maximum"] as const).map((name) =>
    row(
      `float32 ${name}`,
      pair("float32", N),
      ({ a, b }) => () => a[name](b).dispose(),
      {
        mul: "a * b",
        div: "a / b",
        maximum: ["np.maximum(a, b)", "torch.maximum(a, b)"] as const,
      }[name],
    )
  ),
  row("float32 less", pair("float32", N), ({ a, b }) => () => a.less(b).dispose(), "a < b"),
  row("int32 mul", pair("int32", N), ({ a, b }) => () => a.mul(b).dispose(), "a * b"),
  row(
    "int32 floor divide",
    pair("int32", N),
    ({ a, b }) => () => a.floorDivide(b).dispose(),
    "a // b",
  ),
  row("int32 squared", { a: i32(N) }, ({ a }) => () => a.pow(2).dispose(), "a ** 2", long),
  ...(["int32", "int64"] as const).map((dtype) =>
    row(
      `${dtype} floor divide by 7`,
      { a: of(dtype, N) },
      ({ a }) => () => a.floorDivide(7).dispose(),
      "a // 7",
      long,
    )
  ),
  row(
    "float64 floor divide",
    pair("float64", N),
    ({ a, b }) => () => a.floorDivide(b).dispose(),
    "a // b",
    long,
  ),
  row(
    "float32 remainder",
    pair("float32", N),
    ({ a, b }) => () => a.remainder(b).dispose(),
    "a % b",
    long,
  ),
  row(
    "float32 clip",
    { a: f32(N) },
    ({ a }) => () => a.clip(-1, 1).dispose(),
    "a.clip(-1, 1)",
    long,
  ),
  ...FUNCTIONS.map(([name, inputs, twins, more]) =>
    row(`float32 ${name}`, inputs, ({ a }) => () => a[name]().dispose(), twins, more)
  ),
  row(
    "relu(a * b + c)",
    { ...pair("float32", N), c: f32(N) },
    ({ a, b, c }) => () => rm.scope(() => a.mul(b).add(c).relu()).dispose(),
    ["np.maximum(a * b + c, 0)", "torch.relu(a * b + c)"],
    { memory: true, ...long },
  ),
  row(
    "where",
    { c: of("bool", N), ...pair("float32", N) },
    ({ c, a, b }) => () => rm.where(c as rm.Tensor<"bool">, a, b).dispose(),
    ["np.where(c, a, b)", "torch.where(c, a, b)"],
  ),
  // np.zeros leaves the zeroing to the first write, so each peer writes once.
  row("zeros of 1e6, add_ 1", {}, () => () => rm.zeros([N]).add_(1).dispose(), [
    `z = np.zeros(${N}, np.float32); z += 1`,
    `z = torch.zeros(${N}); z += 1`,
  ], long),
];

const casts: Part[] = [
  ["float32", "int32"],
  ["int32", "float32"],
  ["float32", "float64"],
  ["float64", "float32"],
  ["uint8", "float32"],
].map(([from, to], i) =>
  row(
    `${from} to ${to}`,
    { a: of(from as rm.DType, N) },
    ({ a }) => () => a.astype(to as rm.DType).dispose(),
    [`a.astype(np.${to})`, `a.to(torch.${to})`],
    { long: i >= 3 },
  )
);

/** The dtypes without fast arithmetic in JavaScript, and the ops timed for each. */
const NARROW = ["float16", "int64", "bfloat16", "uint64"] as const;
const NARROW_MAP: readonly [op: string, body: Body, twins: Twins][] = [
  ["add", addBoth, "a + b"],
  ["mul", ({ a, b }) => () => a.mul(b).dispose(), "a * b"],
  ["less", ({ a, b }) => () => a.less(b).dispose(), "a < b"],
  ["maximum", ({ a, b }) => () => a.maximum(b).dispose(), [
    "np.maximum(a, b)",
    "torch.maximum(a, b)",
  ]],
  ["div", ({ a, b }) => () => a.div(b).dispose(), "a / b"],
  ["floor divide", ({ a, b }) => () => a.floorDivide(b).dispose(), "a // b"],
  ["to float32", ({ a }) => () => a.astype("float32").dispose(), [
    "a.astype(np.float32)",
    "a.to(torch.float32)",
  ]],
];
const NARROW_FOLD: typeof NARROW_MAP = [
  ["sum", ({ a }) => () => a.sum().dispose(), "a.sum()"],
  ["max", ({ a }) => () => a.max().dispose(), "a.max()"],
];

/** Rows of each of those dtypes; NumPy has no bfloat16, PyTorch little for uint64. */
function narrow(
  make: (dtype: typeof NARROW[number]) => readonly Part[],
): Part[] {
  return NARROW.flatMap((dtype, i) =>
    make(dtype).map((one) => ({
      elements: M,
      ...one,
      long: i >= 2 && one.name !== `${dtype} add`,
      numpy: dtype === "bfloat16" ? undefined : one.numpy,
      torch: dtype === "uint64" ? undefined : one.torch,
    }))
  );
}

const elementwise = group("elementwise", { elements: N }, [
  ...adds,
  ...functions,
  ...casts,
  ...narrow((dtype) => [
    ...NARROW_MAP.map(([op, body, twins]) => row(`${dtype} ${op}`, pair(dtype, M), body, twins)),
    row(`float32 to ${dtype}`, { a: f32(M) }, ({ a }) => () => a.astype(dtype).dispose(), [
      `a.astype(np.${dtype})`,
      `a.to(torch.${dtype})`,
    ]),
  ]),
]);

// ---- layouts -----------------------------------------------------------------------------------

/** A dense copy with the axes in another order. */
function permuted(name: string, shape: number[], axes: string): Part {
  const order = axes.split(", ").map(Number);
  const body: Body = ({ a }) => () => a.permute(...order).contiguous().dispose();
  const twins = [`a.transpose(${axes}).copy()`, `a.permute(${axes}).contiguous()`] as const;
  return row(name, { a: f32(...shape) }, body, twins, { elements: shape.reduce((n, m) => n * m) });
}

const layouts = group("layouts", { elements: N }, [
  ...(["float32", "int32"] as const).flatMap((dtype) => {
    const a = of(dtype, side, side);
    return [
      row(`${dtype} add a row`, { a, b: of(dtype, side) }, addBoth, "a + b"),
      row(`${dtype} add a column`, { a, b: of(dtype, side, 1) }, addBoth, "a + b"),
    ];
  }),
  row("add transposed", square, ({ a, b }) => () => a.add(b.T).dispose(), "a + b.T"),
  row("add both transposed", square, ({ a, b }) => () => a.T.add(b.T).dispose(), [
    "np.ascontiguousarray(a.T + b.T)",
    "(a.T + b.T).contiguous()",
  ]),
  row("add reversed", square, ({ a, b }) => () => a.add(b.flip()).dispose(), [
    "a + b[::-1, ::-1]",
    "a + b.flip(0, 1)",
  ]),
  row(
    "add every other column",
    { a: f32(side, side), b: f32(side, 2 * side) },
    ({ a, b }) => () => a.add(b.slice(":, ::2")).dispose(),
    "a + b[:, ::2]",
  ),
  row("copy transposed", square, ({ a }) => () => a.T.contiguous().dispose(), [
    "a.T.copy()",
    "a.T.contiguous()",
  ]),
  row("copy reversed", square, ({ a }) => () => a.flip().contiguous().dispose(), [
    "a[::-1, ::-1].copy()",
    "a.flip(0, 1)",
  ], long),
  permuted("copy permuted (2, 0, 1)", [100, 100, 100], "2, 0, 1"),
  permuted("copy of an image, channels first", [224, 224, 3], "2, 0, 1"),
  permuted("copy of an image, channels last", [3, 224, 224], "1, 2, 0"),
  row(
    "copy of a reversed row, 64 times",
    { a: f32(1024) },
    ({ a }) => () => a.flip().broadcastTo([64, 1024]).contiguous().dispose(),
    ["np.broadcast_to(a[::-1], (64, 1024)).copy()", "a.flip(0).expand(64, 1024).contiguous()"],
    { elements: 64 * 1024 },
  ),
  ...narrow((dtype) => [
    row(
      `${dtype} copy transposed`,
      { a: of(dtype, 300, 300) },
      ({ a }) => () => a.T.contiguous().dispose(),
      ["a.T.copy()", "a.T.contiguous()"],
      { elements: 90_000 },
    ),
    row(
      `${dtype} add transposed`,
      { a: of(dtype, 300, 300), b: of(dtype, 300, 300) },
      ({ a, b }) => () => a.add(b.T).dispose(),
      "a + b.T",
      { elements: 90_000 },
    ),
  ]),
]);

// ---- reductions --------------------------------------------------------------------------------

const reductions = group("reductions", { elements: N }, [
  row("sum, all", square, ({ a }) => () => a.sum().dispose(), "a.sum()"),
  row("sum over axis 0", square, ({ a }) => () => a.sum(0).dispose(), "a.sum(0)"),
  row("sum over axis 1", square, ({ a }) => () => a.sum(1).dispose(), "a.sum(1)"),
  row("sum of int32", { a: i32(N) }, ({ a }) => () => a.sum().dispose(), "a.sum()"),
  row("sum of float64", { a: of("float64", N) }, ({ a }) => () => a.sum().dispose(), "a.sum()"),
  row("max, all", square, ({ a }) => () => a.max().dispose(), "a.max()"),
  row("max over axis 0", square, ({ a }) => () => a.max(0).dispose(), ["a.max(0)", "a.amax(0)"]),
  row("max over axis 1", square, ({ a }) => () => a.max(1).dispose(), [
    "a.max(1)",
    "a.amax(1)",
  ], long),
  row("argmax, all", square, ({ a }) => () => a.argmax().dispose(), "a.argmax()"),
  row("argmax over axis 0", square, ({ a }) => () => a.argmax(0).dispose(), "a.argmax(0)", long),
  row("argmax over axis 1", square, ({ a }) => () => a.argmax(1).dispose(), "a.argmax(1)"),
  row("mean, all", square, ({ a }) => () => a.mean().dispose(), "a.mean()", long),
  row("mean over axis 1", square, ({ a }) => () => a.mean(1).dispose(), "a.mean(1)"),
  row("var, all", square, ({ a }) => () => a.var().dispose(), ["a.var()", "a.var(correction=0)"], {
    ...long,
  }),
  row("var over axis 1", square, ({ a }) => () => a.var(1).dispose(), [
    "a.var(1)",
    "a.var(1, correction=0)",
  ]),
  row("logsumexp over axis 0", { a: f32(64, 1024) }, ({ a }) => () => a.logsumexp(0).dispose(), [
    "m = a.max(0); np.log(np.exp(a - m).sum(0)) + m",
    "a.logsumexp(0)",
  ], { elements: 64 * 1024 }),
  row("norm, all", square, ({ a }) => () => a.norm().dispose(), ["np.linalg.norm(a)", "a.norm()"]),
  row("norm over axis 0", square, ({ a }) => () => a.norm(0).dispose(), [
    "np.linalg.norm(a, axis=0)",
    "a.norm(dim=0)",
  ]),
  row("norm of order 3", square, ({ a }) => () => a.norm(null, { ord: 3 }).dispose(), [
    "np.linalg.norm(a.ravel(), 3)",
    "a.norm(3)",
  ]),
  row(
    "sum of every other column",
    square,
    ({ a }) => () => a.slice(":, ::2").sum().dispose(),
    "a[:, ::2].sum()",
    { elements: N / 2 },
  ),
  row("sum of columns of 1e5, 4 wide", { a: f32(M, 4) }, ({ a }) => () => a.sum(0).dispose(), [
    "a.sum(0)",
    "a.sum(0)",
  ], { elements: 4 * M, ...long }),
  row(
    "int64 cumulative sum, axis 1",
    { a: of("int64", side, side) },
    ({ a }) => () => a.cumulativeSum(1).dispose(),
    "a.cumsum(1)",
    long,
  ),
  row("sum of rows of 10", { a: f32(N / 10, 10) }, ({ a }) => () => a.sum(1).dispose(), "a.sum(1)"),
  row("cumulative sum", { a: f32(N) }, ({ a }) => () => a.cumulativeSum().dispose(), "a.cumsum(0)"),
  row(
    "cumulative sum, axis 0",
    square,
    ({ a }) => () => a.cumulativeSum(0).dispose(),
    "a.cumsum(0)",
  ),
  row(
    "cumulative sum down 3 columns, float64",
    { a: of("float64", 1e5, 3) },
    ({ a }) => () => a.cumulativeSum(0).dispose(),
    "a.cumsum(0)",
    { elements: 3e5 },
  ),
  row(
    "mean of 3 columns, uint8",
    { a: of("uint8", 3e5, 3) },
    ({ a }) => () => a.mean(0).dispose(),
    ["a.mean(0)", "a.float().mean(0)"],
    { elements: 9e5 },
  ),
  row("softmax", square, ({ a }) => () => a.softmax(1).dispose(), [
    "softmax(a)",
    "a.softmax(1)",
  ]),
  row("log-softmax", square, ({ a }) => () => a.logSoftmax(1).dispose(), [
    "log_softmax(a)",
    "a.log_softmax(1)",
  ], long),
  row(
    "layer norm",
    { a: f32(side, side), g: f32(side), b: f32(side) },
    ({ a, g, b }) => () => a.layerNorm(1, { weight: g, bias: b }).dispose(),
    ["layer_norm(a, g, b)", "F.layer_norm(a, (1000,), g, b)"],
    long,
  ),
  row(
    "RMS norm",
    { a: f32(side, side), g: f32(side) },
    ({ a, g }) => () => a.rmsNorm(1, { weight: g }).dispose(),
    ["rms_norm(a, g)", "F.rms_norm(a, (1000,), g)"],
    long,
  ),
  ...narrow((dtype) =>
    NARROW_FOLD.map(([op, body, twins]) => row(`${dtype} ${op}`, pair(dtype, M), body, twins))
  ),
]);

// ---- sort and gather ---------------------------------------------------------------------------

const moves = group("sort and gather", {}, [
  row("sort 1e5", { a: f32(M) }, ({ a }) => () => a.sort().dispose(), [
    "np.sort(a)",
    "torch.sort(a)",
  ], { elements: M }),
  row("argsort 1e5", { a: f32(M) }, ({ a }) => () => a.argsort().dispose(), [
    "a.argsort(kind='stable')",
    "torch.argsort(a, stable=True)",
  ], { elements: M }),
  row(
    "sort 1000 rows of 100 float64",
    { a: of("float64", 1000, 100) },
    ({ a }) => () => a.sort(1).dispose(),
    ["np.sort(a, 1)", "torch.sort(a, 1)"],
    { elements: M },
  ),
  row(
    "argsort 1000 rows of 100",
    { a: f32(1000, 100) },
    ({ a }) => () => a.argsort(1).dispose(),
    ["a.argsort(1, kind='stable')", "torch.argsort(a, dim=1, stable=True)"],
    { elements: M },
  ),
  row(
    "topk 50 of 50257",
    { a: f32(50_257) },
    ({ a }) => () => {
      const { values, indices } = a.topk(50);
      values.dispose();
      indices.dispose();
    },
    ["np.argpartition(a, -50)[-50:]", "torch.topk(a, 50)"],
    { elements: 50_257 },
  ),
  row(
    "take 1000 rows of 64",
    { a: f32(10_000, 64), i: indexes("int32", [1000], 10_000) },
    ({ a, i }) => () => a.take(i, 0).dispose(),
    ["a.take(i, 0)", "a.index_select(0, i)"],
    { elements: 64_000 },
  ),
  row(
    "take along axis 1 of 1000 by 128",
    { a: f32(1000, 128), i: indexes("int64", [1000, 128], 128) },
    ({ a, i }) => () => a.takeAlongAxis(i, 1).dispose(),
    ["np.take_along_axis(a, i, 1)", "a.gather(1, i)"],
    { elements: 128_000 },
  ),
  row(
    "scatter-add 1e5 into 1000",
    {
      a: f32(1000),
      i: indexes("int64", [M], 1000),
      b: f32(M),
    },
    ({ a, i, b }) => () => a.set([i], b, { accumulate: true }),
    ["np.add.at(a, i, b)", "a.scatter_add_(0, i, b)"],
    { elements: M },
  ),
  row(
    "scatter-add 4096 rows of 64",
    {
      a: f32(1000, 64),
      i: indexes("int64", [4096], 1000),
      b: f32(4096, 64),
    },
    ({ a, i, b }) => () => a.set([i], b, { accumulate: true }),
    ["np.add.at(a, i, b)", "a.index_add_(0, i, b)"],
    { elements: 4096 * 64 },
  ),
  row(
    "stack 64 rows of 784",
    { a: f32(64, 784) },
    ({ a }) => () => rm.stack(a.unstack()).dispose(),
    ["np.stack([*a])", "torch.stack(a.unbind())"],
    { elements: 64 * 784 },
  ),
  row(
    "to nested arrays and back, 64 by 64",
    { a: f32(64, 64) },
    ({ a }) => () => rm.tensor(a.toArray() as number[][]).dispose(),
    ["np.array(a.tolist(), np.float32)", "torch.tensor(a.tolist())"],
    { elements: 64 * 64 },
  ),
  row("arange of 1e6", {}, () => () => rm.arange(N).dispose(), [
    `np.arange(${N}, dtype=np.float32)`,
    `torch.arange(${N}, dtype=torch.float32)`,
  ], { elements: N, ...long }),
  row("concat 2 of 5e5", pair("float32", N / 2), ({ a, b }) => () => rm.concat([a, b]).dispose(), [
    "np.concatenate([a, b])",
    "torch.cat([a, b])",
  ], { elements: N }),
  row("pad, mode reflect", square, ({ a }) => () => a.pad(3, { mode: "reflect" }).dispose(), [
    'np.pad(a, 3, mode="reflect")',
    'F.pad(a[None], (3, 3, 3, 3), mode="reflect")',
  ]),
  row(
    "nonzero of 1e5",
    { a: of("bool", M) },
    ({ a }) => () => a.nonzero()[0].dispose(),
    "a.nonzero()",
    { elements: M },
  ),
]);

// ---- matmul ------------------------------------------------------------------------------------

const product: Body = ({ a, b }) => () => a.matmul(b).dispose();

/** Two square matrices; time is shown for each multiplication and addition. */
function squares(dtype: rm.DType, n: number, more: Partial<Part> = {}): Part {
  const inputs = { a: of(dtype, n, n), b: of(dtype, n, n) };
  return row(`${dtype} ${n}`, inputs, product, "a @ b", { elements: n ** 3, ...more });
}

/** A perceptron with two hidden layers, as long as a batch of handwritten digits needs. */
function perceptron(batch: number): Part {
  return row(
    `MLP 784-256-128-10, batch ${batch}`,
    {
      x: f32(batch, 784),
      w1: f32(256, 784),
      b1: f32(256),
      w2: f32(128, 256),
      b2: f32(128),
      w3: f32(10, 128),
      b3: f32(10),
    },
    ({ x, w1, b1, w2, b2, w3, b3 }) => () =>
      rm.scope((): rm.Tensor<rm.DType> => {
        const h1: rm.Tensor<rm.DType> = x.linear(w1, b1).relu();
        const h2: rm.Tensor<rm.DType> = h1.linear(w2, b2).relu();
        return h2.linear(w3, b3).softmax(1);
      }).dispose(),
    [
      "h = np.maximum(x @ w1.T + b1, 0); h = np.maximum(h @ w2.T + b2, 0); " +
      "y = softmax(h @ w3.T + b3)",
      "h = torch.relu(F.linear(x, w1, b1)); h = torch.relu(F.linear(h, w2, b2)); " +
      "y = torch.softmax(F.linear(h, w3, b3), 1)",
    ],
    { elements: batch * (784 * 256 + 256 * 128 + 128 * 10), memory: batch > 1, ...long },
  );
}

/** Sizes of float32 and float64; the rest of a short run's are 16, 64 and 256. */
const SIZES = [16, 32, 64, 128, 256, 512, 1024, 2048];
const SHORT = ["float32 16", "float32 64", "float32 256", "float64 64"];

const products = group("matmul", {}, [
  ...(["float32", "float64"] as const).flatMap((dtype) =>
    SIZES.map((n) =>
      squares(dtype, n, {
        long: !SHORT.includes(`${dtype} ${n}`),
        heavy: n > 1024 || (n === 1024 && dtype === "float64"),
        memory: n === 1024 && dtype === "float32",
      })
    )
  ),
  row(
    "float32 256, transposed",
    { a: f32(256, 256), b: f32(256, 256) },
    ({ a, b }) => () => a.matmul(b.T).dispose(),
    "a @ b.T",
    { elements: 256 ** 3 },
  ),
  row(
    "float32 512, transposed first",
    { a: f32(512, 512), b: f32(512, 512) },
    ({ a, b }) => () => a.T.matmul(b).dispose(),
    "a.T @ b",
    { elements: 512 ** 3, ...long },
  ),
  row(
    "float32 [1024, 1024] × [1024]",
    { a: f32(1024, 1024), b: f32(1024) },
    product,
    "a @ b",
    { elements: 1024 ** 2, ...long },
  ),
  row("float32 [100000, 10] × [10]", { a: f32(1e5, 10), b: f32(10) }, product, "a @ b", {
    elements: 1e6,
  }),
  row("float32 [100000, 3] × [3, 3]", { a: f32(1e5, 3), b: f32(3, 3) }, product, "a @ b", {
    elements: 9e5,
  }),
  row("float32 10000 × [4, 4]", { a: f32(1e4, 4, 4), b: f32(1e4, 4, 4) }, product, "a @ b", {
    elements: 1e4 * 4 ** 3,
  }),
  row("float32 32 × [64, 64]", { a: f32(32, 64, 64), b: f32(32, 64, 64) }, product, "a @ b", {
    elements: 32 * 64 ** 3,
  }),
  row(
    "float32 32 × [128, 64] × [64, 128]",
    { a: f32(32, 128, 64), b: f32(32, 64, 128) },
    product,
    "a @ b",
    { elements: 32 * 128 * 64 * 128, ...long },
  ),
  squares("int32", 64),
  squares("int32", 256, long),
  squares("float16", 64),
  squares("float16", 512, long),
  squares("int64", 64),
  perceptron(1),
  perceptron(64),
]);

/** A process that does nothing yet. */
const idle: ServedRow = {
  group: "memory",
  name: "idle process",
  unit: "bytes",
  long: true,
  inputs: {},
  call: () => ({ run: () => {} }),
  statements: { NumPy: "None", PyTorch: "None" },
};

const all = [...products, ...elementwise, ...reductions, ...layouts, ...small, ...views, ...moves];

// ---- goals -------------------------------------------------------------------------------------

// Committed before the code was tuned.

/**
 * The goals of the JavaScript backend, with one thread; ratios are to NumPy's time. The first
 * pattern that `group/name` matches counts.
 */
const JS_GOALS: readonly (readonly [rows: RegExp, goal: Goal])[] = [
  [/^views\//, { ratio: 1, beside: "NumPy" }],
  [/^small sizes\/add 16 (float32|int32)$/, { ratio: 0.6, beside: "NumPy" }],
  [/^(elementwise|layouts)\/(float32|int32) add (1e6|a scalar|a row|a column)$/, { ns: 1.5 }],
  [/^(elementwise|reductions|layouts)\/(b?float16|u?int64) /, { ns: 6 }],
  [/^elementwise\/float32 to (b?float16|u?int64)$/, { ns: 6 }],
];

/** The goal of a row of the native backend. */
function goalOf(row: string): Goal | undefined {
  if (row.startsWith("memory/")) return undefined;
  if (row.startsWith("views/")) return { ratio: 1.5 };
  if (/^sort and gather\/(arg)?sort /.test(row)) return { ratio: 2.5 };
  if (/^small sizes\/add 16 \w+\d\d(, disposed)?$/.test(row)) return { ratio: 0.5 };
  return { ratio: 1.3 };
}

/** The groups of the overall mean. Views and sorting are separate. */
const COUNTED = ["matmul", "elementwise", "reductions", "layouts", "small sizes"];

/** The suite. */
export const suite: Suite = {
  title: "Primitives beside NumPy and PyTorch",
  groups: Object.fromEntries(
    [...COUNTED, "views", "sort and gather", "memory"].map((name) => [name, name]),
  ),
  rows: [...all, idle],
  python: ["NumPy", "PyTorch"],
  spins: /^matmul\//,
  rounds: 7,
  ms: 20,
  beside: "fastest",
  lines: "group",
  overall: COUNTED,
  goal: (row, backend, threads) =>
    backend === "native"
      ? goalOf(row)
      : threads > 1
      ? undefined
      : JS_GOALS.find(([rows]) => rows.test(row))?.[1],
  meanGoal: (group) => group === "overall" ? 0.8 : COUNTED.includes(group) ? 1 : undefined,
};

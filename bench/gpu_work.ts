/**
 * The GPU work list: rows with the bytes that they must move or the operations that they must
 * perform, the promises of docs/gpu.md, and PyTorch's equivalent statement.
 *
 * Knows nothing of clocks, processes or tables.
 *
 * @module
 */
import * as rm from "../mod.ts";
import { compile } from "../src/compile/mod.ts";
import * as nn from "../src/nn/mod.ts";
import { QUANT, type QuantName } from "../src/ops/quantized/formats.ts";

/** An input array: normal floats, integers from 1 to 100, or indexes < `below`. */
export interface Input {
  readonly dtype: rm.DType;
  readonly shape: readonly number[];
  /** For indexes: one more than the largest. */
  readonly below?: number;
  /** Floats without their signs: for logarithms and roots. */
  readonly positive?: boolean;
}

/** The tensors of a row, by the names of its inputs. */
export type Tensors = Record<string, rm.Tensor<rm.DType>>;

/** One thing to time. */
export interface GpuRow {
  /** Unique. */
  readonly name: string;
  /** The kernel family, by its name in docs/gpu.md. */
  readonly group: string;
  /** The inputs; PyTorch makes the same, or `torchInputs`. */
  readonly inputs: Readonly<Record<string, Input>>;
  readonly torchInputs?: Readonly<Record<string, Input>>;
  /** The minimum number of bytes read and written. */
  readonly bytes?: number;
  /** Floating-point operations. */
  readonly flops?: number;
  /** The promised TB/s or TFLOP/s on an H200. */
  readonly target?: number;
  /** Prepares the timed call. Results are disposed of. */
  readonly body: (x: Tensors) => () => unknown;
  /** The same in PyTorch, if there is an equivalent. */
  readonly torch?: string;
  /** True if the host's time for a call counts, not the device's. */
  readonly host?: boolean;
}

const WIDTH: Record<string, number> = {
  bool: 1,
  int8: 1,
  uint8: 1,
  int32: 4,
  int64: 8,
  float16: 2,
  bfloat16: 2,
  float32: 4,
  float64: 8,
};

function sizeOf({ dtype, shape }: Input): number {
  return shape.reduce((a, b) => a * b, 1) * WIDTH[dtype]!;
}

const of = (dtype: rm.DType, ...shape: number[]): Input => ({ dtype, shape });
const loose = (x: rm.AnyTensor): rm.Tensor<"float32"> => x as rm.Tensor<"float32">;

/** A weight whose blocks are alike, on the device. */
function quantizedWeight(format: QuantName, shape: readonly [number, number]): rm.AnyTensor {
  const { size, bytes } = QUANT[format];
  const blocks = new Uint8Array(shape[0] * shape[1] / size * bytes);
  // Halves of 0x2222 are 0.012.
  blocks.fill(0x22);
  const make = rm.fromBuffer as (data: Uint8Array, options: object) => rm.AnyTensor;
  return make(blocks, { dtype: format, shape }).to("cuda");
}

/**
 * Quantized weights: the bytes of blocks count, as they are read. PyTorch multiplies by the same
 * numbers as float16. Products are graphs of one call.
 */
function quantizedWork(scale: number): GpuRow[] {
  const group = "quantized weights";
  const [columns, depth] = scale === 1 ? [4096, 14336] as const : [64, 512] as const;
  const w = of("float16", columns, depth);
  const bytesOf = (format: QuantName): number =>
    columns * depth / QUANT[format].size * QUANT[format].bytes;
  const rows: GpuRow[] = [];
  for (const format of ["q4_k", "q8_0"] as const) {
    rows.push({
      group,
      name: `numbers of ${columns} × ${depth} ${format}`,
      inputs: {},
      bytes: bytesOf(format) + 4 * columns * depth,
      target: 3.4,
      body: (x) => {
        x.w = quantizedWeight(format, [columns, depth]);
        return () => loose(x.w!).dequantize().dispose();
      },
    });
  }
  const products = [
    ...(["q4_k", "q8_0", "q4_0", "q5_k", "q6_k"] as const).map((format) => [format, 1] as const),
    ...[2, 4, 8, 64].map((count) => ["q4_k", count] as const),
  ];
  for (const [format, count] of products) {
    const a = of("float16", count, depth);
    rows.push({
      group,
      name: `linear, ${count} × ${depth} float16 by ${format}`,
      inputs: { a },
      torchInputs: { a, w },
      bytes: bytesOf(format) + sizeOf(a) + 2 * count * columns,
      ...(count === 1 ? { target: 2.4 } : {}),
      body: (x) => {
        x.w = quantizedWeight(format, [columns, depth]);
        // The host would take longer than the device.
        const work = (): void => rm.scope(() => void x.a!.linear(x.w as never));
        work();
        const step = rm.capture("cuda", work);
        return () => step.run();
      },
      torch: "F.linear(a, w)",
    });
  }
  return rows;
}

type AddRow = (
  group: string,
  name: string,
  target: number | undefined,
  inputs: Record<string, Input>,
  output: Input | number,
  body: GpuRow["body"],
  torch: string | undefined,
  more?: Partial<GpuRow>,
) => void;

/** Adds the rows of complex numbers and transforms. `n` is the number of complex64 elements. */
function addComplex(add: AddRow, n: number): void {
  const pairs = of("float32", n, 2);
  const rows = Math.max(1, n / 4096);
  const joined = (x: rm.AnyTensor): rm.AnyTensor =>
    rm.complex(loose(x).slice("..., 0"), loose(x).slice("..., 1"));
  const numbers = "torch.view_as_complex(a)";
  add(
    "complex numbers",
    "mul complex64",
    undefined,
    { a: pairs, b: pairs },
    pairs,
    ({ a, b }) => {
      const [x, y] = [joined(a!), joined(b!)];
      return () => (x as rm.Tensor<"complex64">).mul(y as rm.Tensor<"complex64">).dispose();
    },
    `${numbers} * torch.view_as_complex(b)`,
  );
  add("complex numbers", "exp complex64", undefined, { a: pairs }, pairs, ({ a }) => {
    const x = joined(a!) as rm.Tensor<"complex64">;
    return () => x.exp().dispose();
  }, `${numbers}.exp()`);
  add("Fourier transforms", "fft of rows of 4096", undefined, { a: pairs }, pairs, ({ a }) => {
    const x = joined(a!).reshape([rows, n / rows]);
    return () => rm.fft.fft(x).dispose();
  }, `torch.fft.fft(${numbers}.reshape(${rows}, -1))`);
  add(
    "Fourier transforms",
    "rfft of rows of 4096",
    undefined,
    { a: of("float32", rows, n / rows) },
    {
      dtype: "float32",
      shape: [n],
    },
    ({ a }) => () => rm.fft.rfft(a!).dispose(),
    "torch.fft.rfft(a)",
  );
}

/** Adds the rows of linear algebra: matrices of `n` rows, and batches of small ones. */
function addLinalg(add: AddRow, n: number, batch: number): void {
  const one = of("float32", n, n), many = of("float32", batch, 16, 16);
  const group = "linear algebra";
  const made: [string, Input, GpuRow["body"], string][] = [
    ["solve", one, ({ a }) => () => rm.linalg.solve(a!, a!).dispose(), "torch.linalg.solve(a, a)"],
    ["inv", one, ({ a }) => () => rm.linalg.inv(a!).dispose(), "torch.linalg.inv(a)"],
    ["inv of 16 rows", many, ({ a }) => () => rm.linalg.inv(a!).dispose(), "torch.linalg.inv(a)"],
    ["qr", one, ({ a }) => () => rm.scope(() => void rm.linalg.qr(a!)), "torch.linalg.qr(a)"],
    ["eigh", one, ({ a }) => () => rm.scope(() => void rm.linalg.eigh(a!)), "torch.linalg.eigh(a)"],
    [
      "svd",
      one,
      ({ a }) => () => rm.scope(() => void rm.linalg.svd(a!, { fullMatrices: false })),
      "torch.linalg.svd(a, full_matrices=False)",
    ],
  ];
  for (const [name, input, body, torch] of made) {
    const rows = input === one ? ` of ${n} rows` : "";
    add(group, `${name}${rows} float32`, undefined, { a: input }, input, body, torch);
  }
}

/**
 * The rows. `scale` divides the number of elements, for machines on which kernels are emulated: 1 on
 * a GPU.
 */
export function gpuWork(scale: number): GpuRow[] {
  const n = Math.max(4096, 2 ** 27 / scale);
  const side = Math.max(32, Math.round(Math.sqrt(n / 4) / 32) * 32);
  const m = Math.max(32, 8192 / Math.ceil(Math.sqrt(scale)));
  const rows: GpuRow[] = [];
  const add: AddRow = (group, name, target, inputs, output, body, torch, more = {}) => {
    const read = Object.values(inputs).reduce((sum, input) => sum + sizeOf(input), 0);
    const bytes = read + (typeof output === "number" ? output : sizeOf(output));
    const others = { ...(torch ? { torch } : {}), ...(target ? { target } : {}) };
    rows.push({ group, name, inputs, bytes, body, ...others, ...more });
  };

  for (const dtype of ["float32", "bfloat16", "float64"] as const) {
    const x = of(dtype, n);
    add(
      "elementwise",
      `add ${dtype}`,
      4.0,
      { a: x, b: x },
      x,
      ({ a, b }) => () => a!.add(b!).dispose(),
      "a + b",
    );
  }
  const f32 = of("float32", n);
  const bf16 = of("bfloat16", n);
  for (const op of ["exp", "tanh", "relu", "sigmoid"] as const) {
    add(
      "elementwise",
      `${op} float32`,
      4.0,
      { a: f32 },
      f32,
      ({ a }) => () => a![op]().dispose(),
      `torch.${op}(a)`,
    );
  }
  for (const dtype of ["float32", "bfloat16"] as const) {
    const x = of(dtype, n);
    const gelu: GpuRow["body"] = ({ a }) => () => a!.gelu().dispose();
    add("elementwise", `gelu ${dtype}`, 4.0, { a: x }, x, gelu, "F.gelu(a)");
  }
  for (const op of ["exp", "tanh", "sigmoid"] as const) {
    const body: GpuRow["body"] = ({ a }) => () => a![op]().dispose();
    add("elementwise", `${op} bfloat16`, 4.0, { a: bf16 }, bf16, body, `torch.${op}(a)`);
  }
  add("elementwise", "gelu(a * b + 1) float32, a program", 4.0, { a: f32, b: f32 }, f32, (x) => {
    const program = compile((a: rm.AnyTensor, b: rm.AnyTensor) =>
      loose(a).mul(loose(b)).add(1).gelu()
    );
    return () => program(x.a!, x.b!).dispose();
  }, "F.gelu(a * b + 1)");
  add(
    "elementwise",
    "a * 2 float32",
    4.0,
    { a: f32 },
    f32,
    ({ a }) => () => a!.mul(2).dispose(),
    "a * 2",
  );
  add("elementwise", "add int32", 4.0, { a: of("int32", n), b: of("int32", n) }, of("int32", n), (
    { a, b },
  ) =>
  () => a!.add(b!).dispose(), "a + b");
  add(
    "broadcast",
    "add row",
    3.6,
    {
      a: of("float32", side * 4, side),
      b: of("float32", side),
    },
    of("float32", side * 4, side),
    ({ a, b }) => () => a!.add(b!).dispose(),
    "a + b",
  );
  add(
    "broadcast",
    "add column",
    3.6,
    {
      a: of("float32", side * 4, side),
      b: of("float32", side * 4, 1),
    },
    of("float32", side * 4, side),
    ({ a, b }) => () => a!.add(b!).dispose(),
    "a + b",
  );
  add(
    "broadcast",
    "cast float32 to bfloat16",
    3.6,
    { a: f32 },
    bf16,
    ({ a }) => () => a!.astype("bfloat16").dispose(),
    "a.to(torch.bfloat16)",
  );
  add(
    "broadcast",
    "every second column",
    3.6,
    { a: of("float32", side * 2, side) },
    of("float32", side * 2, side / 2),
    ({ a }) => {
      const view = a!.slice(":, ::2");
      return () => view.copy().dispose();
    },
    "a[:, ::2].contiguous()",
  );
  add(
    "mixed",
    "add float32 and bfloat16",
    3.6,
    { a: f32, b: bf16 },
    f32,
    ({ a, b }) => () => a!.add(b!).dispose(),
    "a + b",
  );
  for (const dtype of ["float32", "bfloat16"] as const) {
    add(
      "transposing copy",
      `transpose ${dtype}`,
      3.4,
      { a: of(dtype, side * 4, side) },
      of(dtype, side * 4, side),
      ({ a }) => () => a!.T.copy().dispose(),
      "a.T.contiguous()",
    );
  }
  add(
    "transposing copy",
    "add of transposed",
    3.4,
    {
      a: of("float32", side * 2, side * 2),
      b: of("float32", side * 2, side * 2),
    },
    of("float32", side * 2, side * 2),
    ({ a, b }) => () => a!.add(b!.T).dispose(),
    "a + b.T",
  );
  add(
    "reductions",
    "sum of all float32",
    3.9,
    { a: f32 },
    0,
    ({ a }) => () => a!.sum().dispose(),
    "a.sum()",
  );
  add("reductions", "sum of rows float32", 3.9, { a: of("float32", side * 4, side) }, 0, (
    { a },
  ) =>
  () => a!.sum(1).dispose(), "a.sum(1)");
  // The widths of models: none is a power of two.
  for (const dtype of ["float32", "bfloat16"] as const) {
    for (const width of [768, 3072, 5120]) {
      const x = of(dtype, Math.ceil(n / width), width);
      const body: GpuRow["body"] = ({ a }) => () => a!.sum(1).dispose();
      add("reductions", `sum of rows of ${width} ${dtype}`, 3.9, { a: x }, 0, body, "a.sum(1)");
    }
  }
  add("reductions", "sum of columns float32", 3.6, { a: of("float32", side * 4, side) }, 0, (
    { a },
  ) =>
  () => a!.sum(0).dispose(), "a.sum(0)");
  add("reductions", "sum of columns bfloat16", 3.6, { a: of("bfloat16", side * 4, side) }, 0, (
    { a },
  ) =>
  () => a!.sum(0).dispose(), "a.sum(0)");
  add("reductions", "max of rows bfloat16", 3.9, { a: of("bfloat16", side * 4, side) }, 0, (
    { a },
  ) =>
  () => a!.max(1).dispose(), "a.amax(1)");
  add("reductions", "argmax of rows float32", 3.9, { a: of("float32", side * 4, side) }, 0, (
    { a },
  ) =>
  () => a!.argmax(1).dispose(), "a.argmax(1)");
  add(
    "scans",
    "cumulative sum of rows",
    undefined,
    { a: of("float32", side * 4, side) },
    of("float32", side * 4, side),
    ({ a }) => () => a!.cumulativeSum(1).dispose(),
    "a.cumsum(1)",
  );
  const rowInput = of("float32", n / 1024, 1024);
  const rowInput16 = of("bfloat16", n / 4096, 4096);
  add(
    "rows",
    "softmax float32, 1024",
    3.8,
    { a: rowInput },
    rowInput,
    ({ a }) => () => a!.softmax(-1).dispose(),
    "torch.softmax(a, -1)",
  );
  add(
    "rows",
    "softmax bfloat16, 4096",
    3.8,
    { a: rowInput16 },
    rowInput16,
    ({ a }) => () => a!.softmax(-1).dispose(),
    "torch.softmax(a, -1)",
  );
  add(
    "rows",
    "layer norm float32, 1024",
    3.8,
    {
      a: rowInput,
      w: of("float32", 1024),
      b: of("float32", 1024),
    },
    rowInput,
    ({ a, w, b }) => () => a!.layerNorm(-1, { weight: w!, bias: b! }).dispose(),
    "F.layer_norm(a, (1024,), w, b)",
  );
  add(
    "rows",
    "layer norm bfloat16, 4096",
    3.8,
    { a: rowInput16, w: of("float32", 4096), b: of("float32", 4096) },
    rowInput16,
    ({ a, w, b }) => () => a!.layerNorm(-1, { weight: w!, bias: b! }).dispose(),
    "F.layer_norm(a, (4096,), w.to(a.dtype), b.to(a.dtype))",
  );
  const tokens = of("float32", Math.ceil(n / 50257), 50257);
  add(
    "rows",
    "softmax float32, 50257",
    2.5,
    { a: tokens },
    tokens,
    ({ a }) => () => a!.softmax(-1).dispose(),
    "torch.softmax(a, -1)",
  );
  const narrow = of("float32", Math.ceil(n / 768), 768);
  const weights = { w: of("float32", 768), b: of("float32", 768) };
  add(
    "rows",
    "layer norm float32, 768",
    3.8,
    { a: narrow, ...weights },
    narrow,
    ({ a, w, b }) => () => a!.layerNorm(-1, { weight: w!, bias: b! }).dispose(),
    "F.layer_norm(a, (768,), w, b)",
  );
  add(
    "rows",
    "rms norm bfloat16, 4096",
    3.8,
    { a: rowInput16, w: of("bfloat16", 4096) },
    rowInput16,
    ({ a, w }) => () => a!.rmsNorm(-1, { weight: w! }).dispose(),
    "F.rms_norm(a, (4096,), w)",
  );
  const picks = Math.max(64, n / 1024);
  add(
    "gather",
    "rows of 256 float32",
    3.5,
    {
      a: of("float32", picks * 2, 256),
      i: { dtype: "int32", shape: [picks], below: picks * 2 },
    },
    0,
    ({ a, i }) => () => a!.take(i!, 0).dispose(),
    "a[i]",
    { bytes: 2 * picks * 1024 },
  );
  add(
    "scatter",
    "into rows of 256 float32",
    undefined,
    {
      a: of("float32", picks * 2, 256),
      i: { dtype: "int32", shape: [picks], below: picks * 2 },
      b: of("float32", picks, 256),
    },
    0,
    ({ a, i, b }) => () => a!.set([i!], b!),
    "a.index_put_((i,), b)",
    { bytes: 2 * picks * 1024 },
  );
  // Every value is read, and about 0.8 as many rows are picked, each read and written.
  add(
    "scatter-add",
    "to rows of 256 float32",
    1.5,
    {
      a: of("float32", picks * 2, 256),
      i: { dtype: "int32", shape: [picks], below: picks * 2 },
      b: of("float32", picks, 256),
    },
    0,
    ({ a, i, b }) => () => a!.set([i!], b!, { accumulate: true }),
    "a.index_add_(0, i, b)",
    { bytes: 2.5 * picks * 1024 },
  );
  add(
    "nonzero",
    "places of float32 above 0",
    undefined,
    { a: f32 },
    0,
    ({ a }) => () => {
      for (const places of a!.greater(0).nonzero()) places.dispose();
    },
    "(a > 0).nonzero()",
  );
  add("random", "uniform float32", 3.0, {}, f32, () => {
    const key = rm.random.key(1);
    return () => rm.random.uniform(key, [n], { device: "cuda" } as never).dispose();
  }, "torch.rand(N, device='cuda')".replace("N", String(n)));
  add("sort", "sort float32", undefined, { a: of("float32", n / 8) }, of("float32", n / 8), (
    { a },
  ) =>
  () => a!.sort().dispose(), "a.sort()");
  addComplex(add, n / 8);
  addLinalg(add, scale === 1 ? 1024 : 40, scale === 1 ? 4096 : 3);
  for (const [dtype, target] of [["bfloat16", 760], ["float32", undefined]] as const) {
    const x = of(dtype, m, m);
    add(
      "matmul",
      `${m} × ${m} ${dtype}`,
      target,
      { a: x, b: x },
      x,
      ({ a, b }) => () => a!.matmul(b!).dispose(),
      "a @ b",
      { flops: 2 * m ** 3 },
    );
  }
  // A token or a few: the weights are what is read.
  for (const count of [1, 8]) {
    const given = { a: of("bfloat16", count, m), w: of("bfloat16", m, m) };
    const body: GpuRow["body"] = ({ a, w }) => () => a!.linear(w!).dispose();
    add(
      "matmul",
      `linear, ${count} × ${m} bfloat16`,
      3.6,
      given,
      of("bfloat16", count, m),
      body,
      "F.linear(a, w)",
    );
  }
  rows.push(...quantizedWork(scale));
  const batch = of("bfloat16", Math.max(4, Math.round(256 / scale)), 512, 512);
  add(
    "matmul",
    "batches of 512 × 512 bfloat16",
    undefined,
    { a: batch, b: batch },
    batch,
    ({ a, b }) => () => a!.matmul(b!).dispose(),
    "a @ b",
    { flops: 2 * batch.shape[0]! * 512 ** 3 },
  );
  const length = scale === 1 ? 2048 : 32;
  for (
    const [columns, causal, target] of [[64, false, 300], [64, true, 250], [
      128,
      false,
      300,
    ]] as const
  ) {
    const heads = of("bfloat16", 4, 16, length, columns);
    add(
      "attention",
      `16 heads of ${columns}, ${length} tokens, bfloat16${causal ? ", causal" : ""}`,
      target,
      { q: heads, k: heads, v: heads },
      heads,
      ({ q, k, v }) => () => nn.attention(q!, k!, v!, { causal }).dispose(),
      `F.scaled_dot_product_attention(q, k, v, is_causal=${causal ? "True" : "False"})`,
      { flops: (causal ? 2 : 4) * 64 * length ** 2 * columns },
    );
  }
  const image = of("float32", scale === 1 ? 32 : 1, 64, 56, 56);
  add(
    "conv",
    "3 × 3, 64 to 64, 56 × 56 float32",
    undefined,
    { x: image, w: of("float32", 64, 64, 3, 3) },
    image,
    ({ x, w }) => () => nn.conv2d(x!, w!, undefined, { padding: 1 }).dispose(),
    "F.conv2d(x, w, padding=1)",
    { flops: 2 * image.shape[0]! * 64 * 64 * 9 * 56 ** 2 },
  );
  // PyTorch multiplies no int32 on a GPU.
  for (
    const [dtype, size, torch] of [["int8", m, "torch._int_mm(a, b)"], ["int32", m / 4]] as const
  ) {
    const x = of(dtype, size, size);
    add(
      "matmul of integers",
      `${size} × ${size} ${dtype} to int32`,
      undefined,
      { a: x, b: x },
      of("int32", size, size),
      ({ a, b }) => () => a!.matmul(b!, { dtype: "int32" }).dispose(),
      torch,
      { flops: 2 * size ** 3 },
    );
  }
  const bytes = of("int8", m, m);
  add(
    "matmul of integers",
    `${m} × ${m} int8 to int32, b transposed`,
    undefined,
    { a: bytes, b: bytes },
    of("int32", m, m),
    ({ a, b }) => () => a!.matmul(b!.T, { dtype: "int32" }).dispose(),
    "torch._int_mm(a, b.T)",
    { flops: 2 * m ** 3 },
  );
  add(
    "matmul",
    "linear + bias bfloat16",
    760,
    {
      a: of("bfloat16", m, m),
      w: of("bfloat16", m, m),
      b: of("bfloat16", m),
    },
    0,
    ({ a, w, b }) => () => a!.linear(w!, b!).dispose(),
    "F.linear(a, w, b)",
    {
      flops: 2 * m ** 3,
    },
  );
  add(
    "host",
    "add of 16: time to queue",
    undefined,
    {
      a: of("float32", 16),
      b: of("float32", 16),
    },
    0,
    ({ a, b }) => () => a!.add(b!).dispose(),
    "a + b",
    { host: true },
  );
  add(
    "host",
    "add of 16 and read it",
    undefined,
    {
      a: of("float32", 16),
      b: of("float32", 16),
    },
    0,
    ({ a, b }) => () => a!.add(b!).toTypedArray(),
    "(a + b).cpu()",
    { host: true },
  );
  const large = of("float32", n / 8);
  const read: GpuRow["body"] = ({ a }) => () => a!.toTypedArray();
  add("host", `read ${sizeOf(large) >> 20} MiB`, undefined, { a: large }, 0, read, "a.cpu()", {
    host: true,
  });
  const write: GpuRow["body"] = () => {
    const x = rm.ones([n / 8]);
    return () => x.to("cuda").dispose();
  };
  add(
    "host",
    `write ${sizeOf(large) >> 20} MiB`,
    undefined,
    {},
    large,
    write,
    undefined,
    { host: true },
  );
  return rows;
}

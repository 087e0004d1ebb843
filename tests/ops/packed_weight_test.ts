/**
 * Products with packed weights, and the epilogue of `linear`, against sums in double precision: on
 * every backend and instruction set, for the dtypes and layouts that kernels tell apart.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { describe, it } from "node:test";
import {
  type AnyTensor,
  ArgumentError,
  DeviceError,
  DisposedError,
  DTypeError,
  keep,
  memory,
  pack,
  PackedWeight,
  random,
  scope,
  ShapeError,
  type Tensor,
  tensor,
  zeros,
} from "../../mod.ts";
import type { DType } from "../../src/base/dtype.ts";
import { NativeBackend } from "../../src/backend/native/backend.ts";
import { JsBackend } from "../../src/backend/js/backend.ts";
import { MAP } from "../../src/table/table.ts";
import { FLOAT } from "../../src/backend/js/primitives.ts";
import type { Call } from "../../src/table/op.ts";
import { MIRROR } from "../device/mirror.ts";
import { assertRefused, loose } from "../support.ts";
import { amountIn } from "../support/engine.ts";
import { BACKENDS, using } from "./table/backends.ts";

const ACTIVATIONS = [undefined, "relu", "gelu", "silu", "tanh", "sigmoid"] as const;
type Activation = (typeof ACTIVATIONS)[number];

/** Half of a unit in the last place of 1; for 16-bit floats float32 sums add to it. */
const ROUNDING: Readonly<Record<string, number>> = {
  float32: 2 ** -24,
  float16: 2 ** -11,
  bfloat16: 2 ** -8,
};

const NATIVES = BACKENDS.filter(({ on }) => on instanceof NativeBackend);

function activate(activation: Activation, x: number): number {
  if (activation === undefined) return x;
  return activation === "relu" ? Math.max(x, 0) : (FLOAT[activation] as (x: number) => number)(x);
}

/** The elements as numbers, in row-major order. */
function numbers(x: AnyTensor): number[] {
  return Array.from(loose(x).astype("float64").toTypedArray() as Float64Array);
}

/** The elements as they are stored. */
function bitsOf(x: AnyTensor): ArrayLike<number> {
  return loose(x).contiguous().toTypedArray();
}

/** Throws unless all numbers are equal; faster than assertEquals for many. */
function assertSame(got: ArrayLike<number>, expected: ArrayLike<number>, about: string): void {
  assertEquals(got.length, expected.length, about);
  for (let i = 0; i < got.length; i++) {
    if (!Object.is(got[i], expected[i])) assertEquals(got[i], expected[i], `${about}, at ${i}`);
  }
}

/** Row-major results in double precision, and the sums of the sizes of their terms. */
function model(
  x: AnyTensor,
  w: AnyTensor,
  bias: AnyTensor | undefined,
  activation: Activation,
  add: AnyTensor | undefined,
): { values: number[]; sizes: number[] } {
  const [columns, depth] = w.shape as [number, number];
  const [xs, ws] = [numbers(x), numbers(w)];
  const [bs, rs] = [bias && numbers(bias), add && numbers(add)];
  const [values, sizes]: [number[], number[]] = [[], []];
  const rows = x.shape.slice(0, -1).reduce((product: number, n) => product * n, 1);
  for (let i = 0; i < rows; i++) {
    for (let j = 0; j < columns; j++) {
      let [sum, size] = [bs ? bs[j]! : 0, bs ? Math.abs(bs[j]!) : 0];
      for (let p = 0; p < depth; p++) {
        const term = xs[i * depth + p]! * ws[j * depth + p]!;
        sum += term;
        size += Math.abs(term);
      }
      const residual = rs ? rs[i * columns + j]! : 0;
      values.push(activate(activation, sum) + residual);
      sizes.push(size + Math.abs(residual));
    }
  }
  return { values, sizes };
}

/**
 * Sums of float32 are right within `depth` roundings in the worst case; random ones are within a
 * few. Functions are within three units, and no steeper than 1.13. If the op is composed of others,
 * each of up to four steps rounds.
 */
function assertNear(
  y: AnyTensor,
  expected: ReturnType<typeof model>,
  composed: boolean,
  about: string,
): void {
  const got = numbers(y);
  assertEquals(got.length, expected.values.length, about);
  const unit = ROUNDING[y.dtype]!;
  for (const [i, value] of expected.values.entries()) {
    const rounding = composed ? 4 * unit * (expected.sizes[i]! + 1) : 1.1 * unit * Math.abs(value);
    const allowed = rounding + 2 ** -24 * (8 * expected.sizes[i]! + 4) +
      (y.dtype === "float16" ? 2 ** -24 : 0);
    const error = Math.abs(got[i]! - value);
    assert(error <= allowed, `${about}: element ${i} is ${got[i]}, not ${value}`);
  }
}

/** The same values as `x`, [n, depth], in another layout. */
const LAYOUTS: Readonly<Record<string, (x: Tensor<DType>) => AnyTensor>> = {
  contiguous: (x) => x,
  "some rows": (x) => loose(x).repeat(2, 0).slice("::2"),
  "rows in reverse": (x) => loose(x).flip(0).copy().flip(0),
  "at an offset": (x) => loose(x).pad([[3, 0], [5, 2]]).slice("3:, 5:-2"),
  transposed: (x) => loose(x).T.copy().T,
  "every second column": (x) => loose(x).repeat(2, 1).slice(":, ::2"),
  "batch axes": (x) => loose(x).reshape([1, x.shape[0], 1, x.shape[1]]),
  "a batch that is no run of rows": (x) => {
    const [n, depth] = x.shape as unknown as [number, number];
    if (n % 2 !== 0) return x;
    return loose(x).reshape([2, n / 2, depth]).pad([[0, 0], [0, 1], [0, 0]]).slice(":, :-1");
  },
};

const DTYPES: readonly (readonly [x: DType, w: DType])[] = [
  ["float32", "float32"],
  ["float32", "bfloat16"],
  ["float32", "float16"],
  ["bfloat16", "bfloat16"],
  ["float16", "float16"],
  ["float16", "float32"],
  ["bfloat16", "float16"],
];
const ROWS = [...Array.from({ length: 20 }, (_, i) => i + 1), 64, 129];
const DEPTHS = [33, 1, 520, 7, 64, 0];
const COLUMNS = [100, 32, 1, 65, 31, 64, 33];

/** How many products there are of each number of rows, and of a large number. */
const [SMALL, LARGE] = [amountIn(2, 1, 4), amountIn(1, 1, 2)];

describe("linear with a packed weight", () => {
  let next = 0;
  /** Goes through all of a list; the lists have other lengths, so that all pairs come up. */
  const pick = <T>(list: readonly T[], step: number): T =>
    list[Math.floor(next / step) % list.length]!;
  for (const [dtype, weightDType] of DTYPES) {
    it(`${dtype} by ${weightDType}: rows, layouts, sizes, epilogues, outputs`, () => {
      for (const n of ROWS) {
        for (let repeat = 0; repeat < (n > 20 ? LARGE : SMALL); repeat++) {
          next++;
          const [depth, columns] = [pick(DEPTHS, 1), pick(COLUMNS, 1)];
          const layout = pick(Object.keys(LAYOUTS), 1);
          const activation = pick(ACTIVATIONS, 3);
          const keys = random.split(random.key(next), 4);
          const draw = (k: number, shape: number[], like: DType): Tensor<DType> =>
            loose(random.normal(keys[k]!, shape)).astype(like);
          const x = draw(0, [n, depth], dtype);
          const w = draw(1, [columns, depth], weightDType);
          const bias = pick([true, false, true], 1) ? draw(2, [columns], dtype) : undefined;
          const flat = pick([true, false], 1) ? draw(3, [n, columns], dtype) : undefined;
          const expected = model(x, w, bias, activation, flat);
          for (const { name, on } of BACKENDS) {
            using(on, () => {
              const device = typeof on === "string" ? on : "cpu";
              const to = <T extends AnyTensor | undefined>(one: T): T =>
                one && loose(one).to(device);
              const left = LAYOUTS[layout]!(to(x));
              const packed = pack(to(w) as Tensor<"float32">);
              const shape = [...left.shape.slice(0, -1), columns];
              const add = flat && loose(to(flat)).copy().reshape(shape);
              const about = `${name}, [${left.shape}] ${layout} by [${w.shape}], ${activation}, ` +
                `bias ${bias !== undefined}, add ${flat !== undefined}`;
              const y = loose(left).linear(packed, to(bias), { activation, add });
              assertEquals([...y.shape], shape, about);
              assertEquals(y.dtype, loose(left).linear(to(w), to(bias), { add }).dtype, about);
              assertNear(y.cpu(), expected, on === MIRROR, about);
              // Outputs with gaps, of another float dtype, and the residual itself.
              const wide = loose(zeros([...shape, 2] as number[], { dtype: "float64", device }));
              const out = wide.slice("..., 1");
              assertEquals(loose(left).linear(packed, to(bias), { activation, add, out }), out);
              assertSame(numbers(out.cpu()), numbers(y.cpu()), about);
              assert(numbers(wide.slice("..., 0").cpu()).every((one) => one === 0), about);
              if (add !== undefined && add.dtype === y.dtype) {
                loose(left).linear(packed, to(bias), { activation, add, out: add });
                assertSame(numbers(add.cpu()), numbers(y.cpu()), about);
              }
            });
          }
        }
      }
    });
  }

  it("a vector, no rows, no columns", () => {
    for (const { on } of BACKENDS) {
      using(on, () => {
        const device = typeof on === "string" ? on : "cpu";
        const w = loose(tensor([[1, 2], [3, 4], [5, 6]])).to(device);
        const packed = pack(w as Tensor<"float32", [3, 2]>);
        const x = loose(tensor([1, 10])).to(device);
        assertEquals(x.linear(packed).toArray(), [21, 43, 65]);
        assertEquals(x.linear(packed, undefined, { add: x.linear(packed) }).toArray(), [
          42,
          86,
          130,
        ]);
        assertEquals(loose(zeros([0, 2], { device })).linear(packed).shape, [0, 3]);
        const none = pack(loose(zeros([0, 2], { device })) as Tensor<"float32", [0, 2]>);
        assertEquals([x.linear(none).shape, none.bytes], [[0], 0]);
      });
    }
  });

  it("weights of any layout, and without columns beyond the last one", () => {
    const w = random.normal(random.key(1), [70, 40]);
    const x = random.normal(random.key(2), [3, 20]);
    for (const dtype of ["float32", "float16", "bfloat16"] as const) {
      const some = w.astype(dtype).slice("::-1, ::2");
      const plain = x.linear(pack(some.copy())).toArray();
      assertEquals(x.linear(pack(some)).toArray(), plain);
      assertEquals(x.linear(pack(some.T.copy().T)).toArray(), plain);
    }
    assertEquals(pack(w).bytes, 96 * 40 * 4);
    assertEquals(pack(w.astype("bfloat16")).bytes, 96 * 40 * 2);
  });

  it("infinities and NaN stay in their rows and columns", () => {
    const x = tensor([[1, 1], [Infinity, 1], [NaN, 1], [1, 1]]);
    const w = tensor([[1, 1], [0, 1], [Infinity, 1]]);
    for (const { on } of BACKENDS) {
      if (on === MIRROR) continue;
      using(on, () => {
        assertEquals(x.linear(pack(w)).toArray(), [
          [2, 1, Infinity],
          [Infinity, NaN, Infinity],
          [NaN, NaN, NaN],
          [2, 1, Infinity],
        ]);
      });
    }
  });

  it("a backend without the kernel multiplies by the unpacked weight", () => {
    class Plain extends JsBackend {
      override supports(call: Call): boolean {
        return call.op.name !== "linearPacked" && super.supports(call);
      }
    }
    for (const dtype of ["float32", "bfloat16"] as const) {
      const w = random.normal(random.key(1), [35, 6]).astype(dtype);
      const x = random.normal(random.key(2), [2, 6]);
      using(new Plain(), () => {
        const y = x.linear(pack(w), undefined, { activation: "silu", add: zeros([2, 35]) });
        assertEquals(y.toArray(), x.linear(w).silu().toArray());
      });
    }
  });
});

describe("linear with a packed weight in C", () => {
  it("a row has the same bits among any number of rows, and by any number of threads", () => {
    for (const dtype of ["float32", "float16", "bfloat16"] as const) {
      const w = random.normal(random.key(1), [75, 1030]).astype(dtype);
      for (const own of new Set(["float32", dtype] as const)) {
        // The rows are 4 KB and more apart, in steps of 4 KB and not.
        for (const width of [1030, 2048]) {
          const all = random.normal(random.key(2), [150, width]).astype(own).slice(":, :1030");
          for (const { on, name } of NATIVES) {
            using(on, () => {
              const native = on as NativeBackend;
              const packed = pack(w);
              const threads = native.threads;
              try {
                native.setThreads(1);
                const whole = all.linear(packed, undefined, { activation: "gelu" });
                for (const n of [1, 2, 3, 4, 5, 6, 7, 13, 14, 15, 33, 129]) {
                  const y = all.slice(`:${n}`).linear(packed, undefined, { activation: "gelu" });
                  assertSame(bitsOf(y), bitsOf(whole.slice(`:${n}`)), `${name} ${n}`);
                }
                native.setThreads(2);
                native.setShareAll(true);
                const shared = all.linear(packed, undefined, { activation: "gelu" });
                assertSame(bitsOf(shared), bitsOf(whole), name);
                const one = all.slice(":1").linear(packed, undefined, { activation: "gelu" });
                assertSame(bitsOf(one), bitsOf(whole.slice(":1")), name);
              } finally {
                native.setShareAll(false);
                native.setThreads(threads);
              }
            });
          }
        }
      }
    }
  });
});

describe("linear with a weight that is not packed", () => {
  it("activations and residuals are those of the ops", () => {
    const x = random.normal(random.key(1), [4, 5]);
    for (const dtype of ["float32", "float64", "float16", "int32"] as const) {
      const w = loose(random.normal(random.key(2), [3, 5]).mul(3).astype(dtype));
      const bias = loose(random.normal(random.key(3), [3]).mul(3).astype(dtype));
      const add = loose(random.normal(random.key(4), [4, 3]).mul(3).astype(dtype));
      const left = loose(x.mul(3).astype(dtype));
      for (const activation of ACTIVATIONS) {
        const name = activation ?? "copy";
        const plain = left.linear(w, bias)[name]();
        const y = left.linear(w, bias, { activation });
        assertEquals([y.dtype, y.toArray()], [plain.dtype, plain.toArray()]);
        const sum = left.linear(w, bias, { activation, add });
        assertEquals([sum.dtype, sum.toArray()], [plain.dtype, plain.add(add).toArray()]);
        const out = zeros([4, 3], { dtype: "float64" });
        assertEquals(left.linear(w, undefined, { activation, add, out }), out);
        assertEquals(out.toArray(), left.linear(w)[name]().add(add).toArray());
        const only = zeros([4, 3], { dtype: "float64" });
        left.linear(w, bias, { activation, out: only });
        assertEquals(only.toArray(), plain.toArray());
      }
    }
    assert(ACTIVATIONS.every((name) => name === undefined || name in MAP));
  });

  it("a residual of another dtype promotes", () => {
    const [x, w] = [tensor([[1, 2]]), tensor([[1, 1]])];
    const add = tensor([[0.5]], { dtype: "float64" });
    assertEquals(x.linear(w, undefined, { add }).dtype, "float64");
    const half = x.astype("float16").linear(w.astype("float16"), undefined, { add: tensor([[2]]) });
    assertEquals([half.dtype, half.toArray()], ["float32", [[5]]]);
  });
});

describe("pack", () => {
  it("shape, dtype, device and bytes", () => {
    const packed = pack(zeros([33, 2], { dtype: "bfloat16" }));
    assertEquals([...packed.shape], [33, 2]);
    assertEquals([packed.dtype, packed.device, packed.bytes], ["bfloat16", "cpu", 256]);
    assertEquals(Object.keys(packed), ["shape", "dtype", "device", "bytes"]);
    assert(packed instanceof PackedWeight);
    assert(Object.isFrozen(packed.shape));
  });

  it("copies the weight", () => {
    const w = tensor([[1, 2]]);
    const packed = pack(w);
    w.fill_(0);
    w.dispose();
    assertEquals(tensor([1, 1]).linear(packed).toArray(), [3]);
  });

  it("weights that cannot be packed", () => {
    const refuse = loose(pack);
    const line = tensor([1, 2]);
    assertRefused(() => refuse(line), ShapeError, ["pack", "[2]", "[O, I]"], line);
    const ints = zeros([2, 2], { dtype: "int32" });
    assertRefused(() => refuse(ints), DTypeError, ["pack", "int32", "bfloat16", "astype"], ints);
    const wide = zeros([2, 2], { dtype: "float64" });
    assertRefused(() => refuse(wide), DTypeError, ["float64", "float32"], wide);
    assertThrows(() => refuse([[1]]), DTypeError, "pack");
    assertThrows(() => refuse(pack(zeros([1, 1]))), DTypeError, "pack");
    const gone = zeros([2, 2]);
    gone.dispose();
    assertThrows(() => pack(gone), DisposedError, "pack");
  });

  it("products that do not exist", () => {
    const x = loose(zeros([4, 2]));
    const packed = pack(zeros([3, 2]));
    assertRefused(() => loose(zeros([4, 3])).linear(packed), ShapeError, "inner sizes 3 and 2", x);
    assertRefused(() => loose(tensor(1)).linear(packed), ShapeError, "linear");
    assertRefused(
      () => x.linear(packed, zeros([4])),
      ShapeError,
      "the bias must have shape [3]",
      x,
    );
    assertRefused(
      () => x.linear(packed, undefined, { add: zeros([3]) }),
      ShapeError,
      "the residual must have shape [4, 3]",
      x,
    );
    const add = zeros([4, 3], { dtype: "float64" });
    for (
      const run of [
        () => x.astype("float64").linear(packed),
        () => x.linear(packed, zeros([3], { dtype: "float64" })),
        () => x.linear(packed, undefined, { add }),
      ]
    ) assertRefused(run, DTypeError, ["float64", "astype", "packed"], x, add);
    const activation = "softplus";
    assertRefused(() => x.linear(packed, undefined, { activation }), ArgumentError, "relu", x);
    assertThrows(() => x.linear(packed, undefined, { gelu: true }), TypeError, "activation, add");
    const out = zeros([4, 3], { dtype: "int32" });
    assertRefused(() => x.linear(packed, undefined, { out }), DTypeError, "int32", x, out);
    assertThrows(() => x.matmul(packed), DTypeError, "tensor");
    assertThrows(() => x.to(MIRROR).linear(packed), DeviceError, "linear");
  });

  it("integers and bool promote, as they do with the weight itself", () => {
    const packed = pack(tensor([[1, 2]]));
    for (const dtype of ["int8", "int32", "bool"] as const) {
      const x = loose(tensor([[1, 1]]).astype(dtype));
      const y = x.linear(packed);
      assertEquals([y.dtype, y.toArray()], ["float32", [[3]]]);
      assertEquals(y.dtype, x.linear(tensor([[1, 2]])).dtype);
    }
  });

  it("dispose frees it, and products with it are errors", () => {
    const packed = pack(zeros([64, 64]));
    packed.dispose();
    packed.dispose();
    assertThrows(() => zeros([1, 64]).linear(packed), DisposedError, "packed weight was disposed");
    const other = pack(zeros([64, 64]));
    other[Symbol.dispose]();
    assertThrows(() => zeros([1, 64]).linear(other), DisposedError);
  });

  it("scopes dispose of it unless they return or keep it", () => {
    const x = tensor([[1, 1]]);
    let lost: PackedWeight<"float32", [1, 2]> | undefined;
    let kept: PackedWeight<"float32", [1, 2]> | undefined;
    const held = scope(() => {
      lost = pack(tensor([[1, 2]]));
      kept = keep(pack(tensor([[3, 4]])));
      return { layers: [pack(tensor([[5, 6]]))] };
    });
    assertThrows(() => x.linear(lost!), DisposedError);
    assertEquals(x.linear(kept!).toArray(), [[7]]);
    assertEquals(x.linear(held.layers[0]!).toArray(), [[11]]);
  });

  it("neither packing nor products leave memory behind", () => {
    const w = random.normal(random.key(1), [300, 200]).astype("bfloat16");
    const xs = [random.normal(random.key(2), [20, 200]), random.normal(random.key(3), [200, 20]).T];
    const bias = zeros([300], { dtype: "float16" });
    const add = zeros([20, 300]);
    const round = (): void => {
      const packed = pack(w);
      for (const x of xs) x.linear(packed, bias, { activation: "gelu", add }).dispose();
      packed.dispose();
    };
    for (const { on } of BACKENDS) {
      if (on === MIRROR) continue;
      using(on, () => {
        round();
        // Garbage collectors may free other memory meanwhile.
        const { bytes, pooledBytes } = memory();
        for (let i = 0; i < 5; i++) round();
        assert(memory().bytes <= bytes);
        assertEquals(memory().pooledBytes, pooledBytes);
      });
    }
  });
});

it("a weight that is packed again takes the memory of the one before", () => {
  const w = zeros([512, 512]);
  const packAgain = (): void => pack(w).dispose();
  for (let i = 0; i < 3; i++) packAgain();
  const { bytes } = memory();
  for (let i = 0; i < 50; i++) packAgain();
  // What other tests have left may be collected meanwhile.
  assert(memory().bytes <= bytes);
});

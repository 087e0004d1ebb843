/**
 * Complex tensors as programs make, read and print them; files of them; what is refused.
 *
 * @module
 */
import { assertEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import {
  complex,
  concat,
  defineOp,
  DTypeError,
  eye,
  full,
  fullMin,
  io,
  ones,
  promoteTypes,
  scalar,
  ShapeError,
  tensor,
  where,
  zeros,
} from "../../mod.ts";
import * as rm from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import { type Any, assertRefused, loose } from "../support.ts";

const i = { re: 0, im: 1 };
const z = (): Any => tensor([{ re: 1, im: 2 }, { re: 3, im: -4 }]);

test("Complex dtypes: tensors of values, parts and interleaved arrays", () => {
  assertEquals(z().dtype, "complex64");
  assertEquals(z().toArray(), [{ re: 1, im: 2 }, { re: 3, im: -4 }]);
  assertEquals(z().get(1), { re: 3, im: -4 });
  assertEquals(JSON.stringify(z()), '[{"re":1,"im":2},{"re":3,"im":-4}]');
  assertEquals([...z().data], [1, 2, 3, -4]);
  assertEquals(loose(tensor)([1, i]).toArray(), [{ re: 1, im: 0 }, i]);
  assertEquals(tensor([[i]], { dtype: "complex128" }).shape, [1, 1]);
  const pairs = tensor(new Float32Array([1, 2, 3, 4]), { dtype: "complex64", shape: [1, 2] });
  assertEquals(pairs.toArray(), [[{ re: 1, im: 2 }, { re: 3, im: 4 }]]);
  assertEquals(tensor(new Float32Array([1, 2]), { dtype: "complex128" }).shape, [2]);
  assertThrows(
    () => tensor(new Float32Array(3), { dtype: "complex64" }),
    ShapeError,
    "Cannot make a tensor of 3 numbers in complex64",
  );
  for (const dtype of ["float32", "float64", "float16"] as const) {
    const refused = () => tensor([1, { re: 1, im: 2 }] as never, { dtype });
    assertThrows(refused, DTypeError, "it is a complex number");
  }
  assertEquals(complex(tensor([1, 2]), tensor([[3], [4]])).shape, [2, 2]);
  assertEquals(complex(tensor([1]), tensor([2], { dtype: "float64" })).dtype, "complex128");
  assertEquals(full([2], i).toArray(), [i, i]);
  assertEquals(scalar(i).item(), i);
  assertEquals(eye(1, { dtype: "complex64" }).toArray(), [[{ re: 1, im: 0 }]]);
  assertEquals(zeros([1], { dtype: "complex128" }).toArray(), [{ re: 0, im: 0 }]);
});

test("Complex dtypes: text", () => {
  assertEquals(String(z()), "tensor([1+2i, 3-4i], shape [2], complex64)");
  const x = tensor([[{ re: 0.5, im: 0 }], [{ re: -10, im: NaN }]]);
  assertEquals(
    String(x),
    "tensor([[  0.5+0i],\n        [-10+NaNi]], shape [2, 1], complex64)",
  );
});

test("Complex dtypes: promotion, and scalars that keep the precision", () => {
  assertEquals(promoteTypes("complex64", "float32"), "complex64");
  assertEquals(promoteTypes("complex64", "float64"), "complex128");
  assertEquals(promoteTypes("int64", "complex64"), "complex64");
  assertEquals(promoteTypes("bool", "complex128"), "complex128");
  assertEquals(tensor([1, 2]).mul(i).dtype, "complex64");
  assertEquals(tensor([1], { dtype: "float64" }).add(i).dtype, "complex128");
  assertEquals(tensor([1], { dtype: "int32" }).add(i).toArray(), [{ re: 1, im: 1 }]);
  assertEquals(z().add(1).dtype, "complex64");
  assertEquals(z().mul(2n).toArray(), [{ re: 2, im: 4 }, { re: 6, im: -8 }]);
  assertEquals(concat([z(), tensor([5])]).get(2), { re: 5, im: 0 });
  assertEquals(where(tensor([true, false]), z(), i).toArray(), [{ re: 1, im: 2 }, i]);
  assertEquals(tensor([1, 2]).equal(i).toArray(), [false, false]);
});

test("Complex dtypes: what has an order, or would lose imaginary parts, is refused", () => {
  const x = z();
  const unordered = "floor ceil trunc round max min argmax argmin sort argsort erf sigmoid relu " +
    "gelu silu softmax logsumexp";
  for (const name of unordered.split(" ")) {
    assertRefused(() => x[name](), DTypeError, "complex64", x);
  }
  const binary = "less lessEqual greater greaterEqual maximum minimum atan2 hypot copysign " +
    "logaddexp remainder floorDivide bitwiseAnd nextafter";
  for (const name of binary.split(" ")) assertRefused(() => x[name](x), DTypeError, "complex64", x);
  assertRefused(() => x.clip(0, 1), DTypeError, "Cannot clip complex64", x);
  assertRefused(() => x.topk(1), DTypeError, "Cannot topk complex64", x);
  assertRefused(() => x.astype("float32"), DTypeError, "real(), imag() and abs()", x);
  assertRefused(() => x.astype("bool"), DTypeError, "Cannot astype complex64 to bool", x);
  const real = tensor([1, 2]) as Any;
  assertRefused(() => real.add_(i), DTypeError, "Cannot add_ into float32", real);
  assertRefused(() => real.set([0], i), DTypeError, "write its real part", real);
  assertRefused(() => x.exp({ out: real }), DTypeError, "Cannot exp into float32", x, real);
  assertRefused(() => complex(x, 1), DTypeError, "Cannot complex complex64", x);
  assertThrows(() => fullMin([1], { dtype: "complex64" }), DTypeError, "no order");
  assertThrows(() => full([1], i, { dtype: "float32" }), DTypeError, "it is a complex number");
});

test("Complex dtypes: canCast, resultType and finfo know them", () => {
  const { canCast, finfo, resultType } = loose(rm);
  // As real dtypes do: float32 holds integers of 16 bits, float64 all others.
  for (const [from, single] of [["int16", true], ["int32", false], ["int64", false]] as const) {
    assertEquals(canCast(from, "complex64"), single, from);
    assertEquals(canCast(from, "complex128"), true, from);
  }
  assertEquals(canCast("complex64", "float64"), false);
  assertEquals(canCast("float64", "complex64"), false);
  assertEquals(resultType("float64", i), "complex128");
  assertEquals(resultType("float32", i), "complex64");
  assertEquals(resultType("int32", i), "complex64");
  assertEquals(resultType(1, i), "complex64");
  assertEquals(resultType("complex128", i, 1), "complex128");
  assertEquals([resultType(1n, 1.5), resultType(1.5, 1n)], ["float32", "float32"]);
  assertEquals(finfo("complex64"), finfo("float32"));
  assertEquals(finfo("complex128"), finfo("float64"));
  assertThrows(() => rm.isdtype("int8", Object.create(null)), DTypeError);
});

test("Complex dtypes: running extremes, softmax and norms are refused by name", () => {
  for (const name of ["cumulativeMax", "cumulativeMin", "softmax", "logSoftmax"]) {
    assertRefused(() => loose(z())[name](0), DTypeError, `Cannot ${name} complex64: it takes`);
  }
  for (const name of ["layerNorm", "rmsNorm"]) {
    assertRefused(() => loose(z())[name](0), DTypeError, `Cannot ${name} complex64: it takes`);
    assertRefused(
      () => loose(ones([2]))[name](0, { weight: z() }),
      DTypeError,
      `Cannot ${name} complex64: it takes`,
    );
  }
});

test("Complex dtypes: indexing, writing, joining and views", () => {
  const x = z();
  assertEquals(x.flip().toArray(), [{ re: 3, im: -4 }, { re: 1, im: 2 }]);
  assertEquals(x.slice([1, 0, 1]).shape, [3]);
  assertEquals(zeros([2], { dtype: "complex64" }).set([[0, 0]], i, { accumulate: true }).get(0), {
    re: 0,
    im: 2,
  });
  assertEquals(ones([2, 2], { dtype: "complex64" }).tril().countNonzero().item(), 3);
  assertEquals(x.nonzero().map((one: Any) => one.toArray()), [[0, 1]]);
  assertEquals(x.pad([[1, 0]]).get(0), { re: 0, im: 0 });
  assertEquals(x.isclose(x.add(1e-9)).toArray(), [true, true]);
  assertEquals([x.equals(z()), x.allclose(x.mul(1.1))], [true, false]);
  assertEquals(x.diff().toArray(), [{ re: 2, im: -6 }]);
});

test("Complex dtypes: npy, npz and safetensors", async () => {
  const x = z();
  for (const one of [x, x.astype("complex128")]) {
    assertEquals(loose(io.decodeNpy(io.encodeNpy(one))).equals(one), true);
    assertEquals(loose(await io.decodeNpz(await io.encodeNpz({ one }))).one.equals(one), true);
  }
  const file = io.decodeSafetensors(io.encodeSafetensors({ x }));
  assertEquals(loose(file.get("x")).equals(x), true);
  assertThrows(
    () => io.encodeSafetensors({ x: x.astype("complex128") }),
    DTypeError,
    "Cannot encodeSafetensors complex128",
  );
});

test("Complex dtypes: compiled functions give what they give alone", () => {
  const f = (x: Any): Any => [x.mul(i).add(1).exp(), x.real().mul(2).add(x.imag()), x.matmul(x)];
  const compiled = compile(f) as Any;
  for (let round = 0; round < 3; round++) {
    const x = complex(tensor([[1, 2], [3, 4]]), tensor([[0.5, 1], [2, round]]));
    const plain = (all: Any[]): unknown => all.map((one) => one.toArray());
    assertEquals(plain(compiled(x)), plain(f(x)));
  }
  compiled.dispose();
});

test("Complex variances have the float dtype that is asked for", () => {
  const x = tensor([{ re: 1, im: 2 }, { re: 3, im: -1 }, { re: 0, im: 0.5 }]) as Any;
  const where = tensor([1, 1, 0]).astype("bool");
  for (const given of [x, x.astype("complex128")]) {
    for (const dtype of ["float32", "float64"] as const) {
      const near = (made: Any, expected: number) => {
        assertEquals(made.dtype, dtype);
        assertEquals(Math.abs(made.item() - expected) < 1e-6, true, `${made.item()}`);
      };
      // np.var, np.std
      near(given.var(null, { dtype }), 3.0555555555555554);
      near(given.std(null, { dtype, correction: 1 }), 2.140872096444188);
      near(given.var(0, { dtype, where }), 3.25);
      near(given.std(0, { dtype, where, keepDims: true }), 1.8027756377319946);
      const out = zeros([], { dtype });
      given.var(null, { dtype, out });
      near(out, 3.0555555555555554);
    }
    for (const options of [{}, { where }]) {
      for (const dtype of ["float16", "bfloat16", "complex64"]) {
        assertRefused(() => given.var(null, { dtype, ...options }), DTypeError, "var");
      }
    }
  }
});

test("Ops of a program: functions take complex numbers as pairs, expressions refuse them", () => {
  const turned = defineOp({
    name: "turnedPairs",
    infer: ([x]) => ({ shape: x!.shape, dtype: x!.dtype }),
    run([x], [out]) {
      for (let k = 0; k < x!.data.length; k += 2) {
        out!.data[k] = -x!.data[k + 1]!;
        out!.data[k + 1] = x!.data[k]!;
      }
    },
  });
  assertEquals(loose(turned(z())).toArray(), z().mul(i).toArray());
  assertEquals(loose(turned(z().slice("::-1"))).get(0), { re: 4, im: 3 });
  const product = defineOp({ name: "productPlusOne", expr: "x * y + 1" });
  for (const y of [z(), tensor([1, 2])]) {
    assertRefused(() => product(z(), y), DTypeError, "productPlusOne complex64");
    assertRefused(() => product(y, z()), DTypeError, "productPlusOne complex64");
  }
  assertRefused(() => loose(product)(tensor([1]), i), DTypeError, "productPlusOne");
});

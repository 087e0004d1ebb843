/**
 * Activations as PyTorch computes them; integers, outputs, names, errors.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import {
  ArgumentError,
  AxisError,
  defineOp,
  DTypeError,
  ones,
  random,
  ShapeError,
  tensor,
  TraceError,
  zeros,
} from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import { type Any, assertRefused, loose } from "../support.ts";
import { ACTIVATIONS } from "../ops/nn_programs.ts";
import { BACKENDS, using } from "../ops/table/backends.ts";
import { testGolden } from "./golden.ts";

testGolden("activation");

const NAMES = [...Object.keys(ACTIVATIONS), "gelu"] as readonly "gelu"[];

for (const { name, on } of BACKENDS) {
  const device = loose(typeof on === "string" ? on : "cpu");
  test(`activations of integers are float32, and outputs may have another dtype, ${name}`, () =>
    using(on, () => {
      const x = tensor([[-3, -1, 0], [1, 2, 7]], { dtype: "int16" }).to(device);
      const out = zeros([2, 3], { dtype: "float64" }).to(device);
      for (const of of NAMES) {
        const expected = nn[of](x.astype("float32"));
        const made = nn[of](x);
        assertEquals(made.dtype, "float32", of);
        assertEquals(String(made.cpu()), String(expected.cpu()), of);
        assert(Object.is(nn[of](x, { out }), out), of);
        // What is computed in float32 is not more exact in float64.
        assertEquals(String(out.astype("float32").cpu()), String(expected.cpu()), of);
      }
    }));
}

test("activations join the elementwise ops around them in programs", () => {
  const f = (x: Any, y: Any) => nn.swiglu(nn.mish(x.add(y)), nn.elu(y, { alpha: 2 })).mul(3).sub(x);
  for (const { name, on, compiled } of BACKENDS) {
    if (compiled === undefined) continue;
    using(on, () => {
      for (const dtype of ["float16", "float32", "float64"] as const) {
        const [x, y] = [1, 2].map((k) => random.normal(random.key(k), [50, 40]).astype(dtype));
        const program = compile(f);
        assertEquals(String(program(x, y)), String(f(x, y)), `${name}, ${dtype}`);
        assertEquals(program.explain()[0]!.data.ops.map(({ op }) => op), ["chain"]);
        program.dispose();
      }
    });
  }
});

test("programs may define ops of the names of activations", () => {
  const mish = loose(defineOp({ name: "mish", expr: "x + 1" }));
  assertEquals(mish(tensor([1])).toArray(), [2]);
  assertEquals(nn.mish(tensor([0])).toArray(), [0]);
});

test("parameters of activations are numbers of the program", () => {
  const f = compile((x: Any, slope: Any) => nn.leakyRelu(x, { negativeSlope: slope }));
  assertThrows(() => f(ones([2]), 0.5), TraceError, "argument 1");
  const fixed = compile((x: Any) => nn.leakyRelu(x, { negativeSlope: 0.5 }));
  assertEquals(fixed(tensor([-1])).toArray(), [-0.5]);
});

test("arguments that do not fit are refused", () => {
  const x = ones([2, 3]);
  for (const of of NAMES) {
    assertRefused(() => nn[of](loose(ones([2]).greater(0))), DTypeError, [of, "bool"]);
    assertRefused(() => nn[of](loose([1])), DTypeError, [of, "tensor"]);
    assertThrows(() => nn[of](x, loose({ axis: 1 })), TypeError, "axis");
    assertRefused(() => nn[of](x, { out: zeros([3]) }), ShapeError, [of, "[2, 3]"], x);
  }
  assertRefused(() => nn.elu(x, { alpha: NaN }), ArgumentError, ["elu", "alpha", "NaN"], x);
  assertRefused(() => nn.celu(x, { alpha: 0 }), ArgumentError, ["celu", "alpha 0"], x);
  assertRefused(() => nn.softplus(x, { beta: 0 }), ArgumentError, ["softplus", "beta 0"], x);
  assertRefused(() => nn.hardTanh(x, { min: 2 }), ArgumentError, ["hardTanh", "min 2", "1"], x);
  assertRefused(
    () => nn.gelu(x, { approximate: loose("erf") }),
    ArgumentError,
    ["gelu", '"erf"', '"tanh"'],
    x,
  );
  assertRefused(() => nn.glu(x), ShapeError, ["glu", "[2, 3]", "axis 1"], x);
  assertRefused(() => nn.glu(x, 2), AxisError, ["glu", "2"], x);
  assertRefused(() => nn.prelu(x, ones([2])), ShapeError, ["prelu", "[2]", "3 channels"], x);
  assertRefused(() => nn.prelu(x, ones([1, 3])), ShapeError, ["prelu", "[1, 3]"], x);
  assertRefused(() => nn.prelu(ones([3]), ones([3])), AxisError, ["prelu", "[3]"]);
  assertRefused(() => nn.swiglu(x, ones([3])), ShapeError, ["swiglu", "[2, 3]", "[3]"], x);
  assertRefused(
    () => nn.swiglu(x, loose(ones([2, 3], { dtype: "float16" }))),
    DTypeError,
    ["swiglu", "float32", "float16"],
    x,
  );
});

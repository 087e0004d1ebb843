/**
 * Recurrent layers as ONNX defines them, on all backends; their errors.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { test } from "node:test";
import { ArgumentError, ones, ShapeError, tensor, zeros } from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import { type Cell, type RecurrentAttributes, recurrentLayer } from "../../src/ops/recurrent/op.ts";
import { type Any, assertRefused, loose } from "../support.ts";
import { type OnnxCase, testOnnxCases } from "./onnx_golden.ts";
import { BACKENDS, using } from "./table/backends.ts";

const CELLS: Readonly<Record<string, Cell>> = { LSTM: "lstm", GRU: "gru", RNN: "plain" };
/** The activations with an alpha or a beta among ONNX's attributes. */
const ALPHAS = ["affine", "leakyRelu", "thresholdedRelu", "scaledTanh", "hardSigmoid", "elu"];
const BETAS = ["affine", "scaledTanh", "hardSigmoid"];

function attributesOf({ op, attributes }: OnnxCase): RecurrentAttributes {
  const cell = CELLS[op]!;
  const { direction = "forward", activations, clip } = attributes;
  const reversed = direction === "bidirectional" ? [false, true] : [direction === "reverse"];
  const alphas = [...attributes.activation_alpha ?? []];
  const betas = [...attributes.activation_beta ?? []];
  const all = (activations as string[] | undefined)?.map((given): Any => {
    const name = given[0]!.toLowerCase() + given.slice(1);
    return {
      name,
      alpha: ALPHAS.includes(name) ? alphas.shift() : undefined,
      beta: BETAS.includes(name) ? betas.shift() : undefined,
    };
  });
  const each = (all?.length ?? 0) / reversed.length;
  return {
    cell,
    reversed,
    ...all && { activations: reversed.map((_, d) => all.slice(d * each, (d + 1) * each)) },
    ...clip && { clip },
    resetsAfter: attributes.linear_before_reset === 1,
    coupled: attributes.input_forget === 1,
  };
}

testOnnxCases("recurrent", 2e-5, (one, [x, w, r, b, lengths, hidden, cell, p]) => {
  const made: Any = recurrentLayer(
    "recurrent",
    x,
    { w, r, b, p },
    attributesOf(one),
    { hidden, cell, lengths },
  );
  const outputs = [made.output.moveAxis(2, 1), made.hidden];
  return made.cell === undefined ? outputs : [...outputs, made.cell];
});

test("a program runs the steps of a layer by one kernel", () => {
  const program = compile((x: Any): Any =>
    recurrentLayer("gru", x, { w: ones([1, 6, 3]), r: ones([1, 6, 2]) }, { cell: "gru" }).output
  );
  program(ones([50, 1, 3]));
  const [report] = program.explain();
  if (report!.data.executor === "native") {
    assertEquals(report!.data.kernels < 6, true, String(report));
    assertEquals(report!.data.ops.every(({ dispatched }) => dispatched === undefined), true);
  }
  program.dispose();
});

for (const { name, on } of BACKENDS) {
  test(`recurrent layers of no steps, no batch and other dtypes, ${name}`, () =>
    using(on, () => {
      const device = loose(typeof on === "string" ? on : "cpu");
      const layer = (x: Any, dtype: Any = "float32"): Any => {
        const [w, r] = [ones([1, 8, 3], { dtype }), ones([1, 8, 2], { dtype })]
          .map((one) => loose(one).to(device));
        return recurrentLayer("lstm", x.to(device), { w, r }, { cell: "lstm" });
      };
      const none = layer(zeros([0, 2, 3]));
      assertEquals([...none.output.shape], [0, 2, 1, 2]);
      assertEquals(none.hidden.toArray(), [[[0, 0], [0, 0]]]);
      assertEquals([...layer(zeros([2, 0, 3])).hidden.shape], [1, 0, 2]);
      const wanted = layer(ones([3, 1, 3])).output;
      for (const dtype of ["float16", "bfloat16", "float64"] as const) {
        const made = layer(ones([3, 1, 3], { dtype }), dtype);
        assertEquals([made.output.dtype, made.cell.dtype], [dtype, dtype]);
        const close = made.output.astype("float32").allclose(wanted, { rtol: 0.01 });
        assertEquals(close, true, dtype);
      }
    }));
}

test("recurrent layers refuse what does not fit", () => {
  const x = ones([4, 2, 3]);
  const [w, r] = [ones([1, 8, 3]), ones([1, 8, 2])];
  const layer = (more: object, attributes: object = {}, options: object = {}) => () =>
    recurrentLayer(
      "lstm",
      x,
      { w, r, ...more } as Any,
      { cell: "lstm", ...attributes } as Any,
      options as Any,
    );
  assertRefused(layer({ r: ones([1, 6, 2]) }), ShapeError, ["weight", "[1, 8, 2]"], x);
  assertRefused(layer({ b: ones([1, 8]) }), ShapeError, ["biases", "[1, 16]"], x);
  assertRefused(layer({ p: ones([1, 8]) }), ShapeError, ["peepholes", "[1, 6]"], x);
  const lengths = tensor([1], { dtype: "int32" });
  assertRefused(layer({}, {}, { lengths }), ShapeError, ["lengths", "[2]"], x);
  assertRefused(layer({}, {}, { hidden: ones([1, 2]) }), ShapeError, ["first states", "[1, 2]"], x);
  assertRefused(layer({}, { clip: -1 }), ArgumentError, ["clip -1"], x);
  assertRefused(layer({}, { cell: "rnn" }), ArgumentError, ["cell", "plain"], x);
  assertRefused(layer({}, { gates: [0, 1, 2, 2] }), ArgumentError, ["gates"], x);
  const activations = [[{ name: "tanh" }, { name: "gelu" }, { name: "tanh" }]];
  assertRefused(layer({}, { activations }), ArgumentError, ["activation", "gelu"], x);
  assertRefused(layer({}, { activations: [[]] }), ArgumentError, ["activations", "3 functions"], x);
  assertRefused(layer({}, { reversed: [] }), ArgumentError, ["directions 0"], x);
});

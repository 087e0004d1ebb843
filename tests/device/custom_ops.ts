/**
 * Ops that programs define, and their tests for every backend.
 *
 * @module
 */
import { assertEquals, assertThrows } from "@std/assert";
import { defineOp, DeviceError, DTypeError, finfo, tensor } from "../../mod.ts";
import { assertRefused, loose } from "../support.ts";

/** A definition, its operands, and its equivalent in JavaScript. */
interface Elementwise {
  readonly name: string;
  readonly expr: string;
  readonly parameters?: readonly string[];
  readonly options?: Record<string, number>;
  readonly means: (x: number, y: number, z: number) => number | boolean;
}

const DEFINITIONS: readonly Elementwise[] = [
  { name: "customCube", expr: "x * x * x", means: (x) => x ** 3 },
  {
    name: "customLeaky",
    expr: "x > 0 ? x : slope * x",
    parameters: ["slope"],
    options: { slope: 0.25 },
    means: (x) => x > 0 ? x : x / 4,
  },
  { name: "customHalf", expr: "1 / 2 + x * 007", means: (x) => 0.5 + 7 * x },
  {
    name: "customWave",
    expr: "amplitude * sin(2.5e-1 * x) + offset - -1",
    parameters: ["amplitude", "offset"],
    options: { amplitude: 3, offset: -1 },
    means: (x) => 3 * Math.sin(x / 4) + -1 + 1,
  },
  {
    name: "customBlend",
    expr: "maximum(x, y) * sigmoid(z) + (x == y ? 1 : pow(abs(y), 0.5))",
    means: (x, y, z) =>
      Math.max(x, y) / (1 + Math.exp(-z)) + (x === y ? 1 : Math.sqrt(Math.abs(y))),
  },
  {
    name: "customNear",
    expr: "!(abs(x - y) > tolerance) && isfinite(x) || x < -1000",
    parameters: ["tolerance"],
    options: { tolerance: 1 },
    means: (x, y) => Math.abs(x - y) <= 1 && Number.isFinite(x) || x < -1000,
  },
];

const OPS = new Map(
  DEFINITIONS.map(({ name, expr, parameters }) => [
    name,
    loose(defineOp({ name, expr, ...parameters && { parameters } })),
  ]),
);

const topTwo = loose(defineOp({
  name: "customTopTwo",
  infer: ([x]) => [
    { shape: [...x!.shape.slice(0, -1), 2], dtype: x!.dtype },
    { shape: [...x!.shape.slice(0, -1), 2], dtype: "int32" as const },
  ],
  run([x], [values, indices]) {
    const n = x!.shape.at(-1)!;
    for (let row = 0; row * n < x!.data.length; row++) {
      const order = Array.from({ length: n }, (_, i) => i)
        .sort((i, j) => Number(x!.data[row * n + j]) - Number(x!.data[row * n + i]));
      for (let k = 0; k < 2; k++) {
        values!.data[2 * row + k] = x!.data[row * n + order[k]!]!;
        indices!.data[2 * row + k] = order[k]!;
      }
    }
  },
}));

const VALUES = [[-3, -1.5, -0.5, 0], [0.25, 1, 2, 3.5]];

/** The tests on `device`, by name. */
export const CUSTOM_OP_TESTS: Record<string, (device: string) => void> = {
  "elementwise ops by an expression, of every float dtype, layout and operand": (device) => {
    for (const { name, means, options } of DEFINITIONS) {
      const op = OPS.get(name)!;
      for (const dtype of ["float32", "float64", "float16", "bfloat16"] as const) {
        const x = loose(tensor(VALUES, { dtype })).to(device);
        const y = loose(tensor([[1], [2]], { dtype })).to(device);
        const operands = [x, y, 0.5].slice(0, means.length);
        const made = op(...operands, { ...options });
        const flipped = op(...operands.map((one) => one.T ?? one), { ...options });
        const expected = VALUES.map((row, i) => row.map((value) => means(value, i + 1, 0.5)));
        if (typeof expected[0]![0] === "boolean") {
          assertEquals([made.dtype, made.toArray()], ["bool", expected]);
        } else {
          assertEquals(made.dtype, dtype);
          const error = made.sub(tensor(expected as number[][], { dtype }).to(loose(device))).abs();
          const bound = 64 * finfo(dtype).eps;
          if (error.max().item() > bound) throw new Error(`${name} of ${dtype}: ${made}`);
        }
        assertEquals(flipped.T.toArray(), made.toArray(), `${name} of ${dtype}, transposed`);
      }
    }
  },

  "elementwise ops take integers as float32, write into out, and refuse what does not fit": (
    device,
  ) => {
    const x = loose(tensor([[1, 2], [3, 4]], { dtype: "int16" })).to(device);
    const cube = OPS.get("customCube")!, near = OPS.get("customNear")!;
    assertEquals([cube(x).dtype, cube(x).toArray()], ["float32", [[1, 8], [27, 64]]]);
    const out = loose(tensor([[0, 0], [0, 0]], { dtype: "float64" })).to(device);
    assertEquals(cube(x, { out }) === out && out.toArray(), [[1, 8], [27, 64]]);
    assertEquals(cube(loose(tensor(2)).to(device)).item(), 8);
    const mask = x.greater(2);
    assertRefused(() => cube(mask), DTypeError, ["customCube", "bool"], x);
    assertRefused(() => near(x, x, { tolerance: 1 }), DTypeError, ["customNear", "int16"], x);
    const f = x.astype("float32");
    assertThrows(() => near(f, f), DTypeError, "tolerance");
    assertThrows(() => near(f, f, { tolerance: 1n }), DTypeError, "tolerance");
    assertThrows(() => near(f), TypeError, "2 operands");
    assertThrows(() => near(f, f, { tolerances: 1 }), TypeError, "tolerances");
    assertThrows(() => cube("x"), DTypeError, "customCube");
  },

  "ops by a function give several outputs, of any layout, on the CPU only": (device) => {
    const x = loose(tensor([[3, 1], [9, 2], [4, 8]])).to(device).T;
    if (device !== "cpu") {
      assertRefused(() => topTwo(x), DeviceError, ["customTopTwo", device, "cpu()"], x);
      return;
    }
    const [values, indices] = topTwo(x);
    assertEquals(values.toArray(), [[9, 4], [8, 2]]);
    assertEquals([indices.dtype, indices.toArray()], ["int32", [[1, 2], [2, 1]]]);
  },
};

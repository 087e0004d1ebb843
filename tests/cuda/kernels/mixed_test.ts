/**
 * Arithmetic of float32 with other dtypes on CUDA, whose kernels cast as they load, compared with
 * the CPU: runs, rows, columns and scalars.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import { type DType, tensor } from "../../../mod.ts";
import { allFamilies, usualFamilies } from "../../../src/backend/cuda/families.ts";
import type { Any } from "../../support.ts";
import { openCudaForTests, whyNoCuda } from "../support/device.ts";
import { assertListed, recordKernels } from "../support/kernels.ts";

const OPS = ["add", "sub", "mul", "div", "minimum", "maximum", "copysign"] as const;
const OTHERS = ["bool", "uint8", "int32", "float16", "bfloat16"] as const;
const [ROWS, COLUMNS] = [37, 24];

function operand(dtype: DType, device: string, shape: readonly number[], from: number): Any {
  const size = shape.reduce((all, n) => all * n, 1);
  const values = Array.from({ length: size }, (_, i) => {
    const value = ((i + from) * 389) % 61 / (dtype === "float32" ? 7 : 1);
    return dtype === "bool" ? value > 30 : dtype === "uint8" ? value : value - 20;
  });
  const x: Any = tensor(values as never, { dtype }).reshape([...shape]);
  return device === "cpu" ? x : x.to(device);
}

/** Both operands by the kernel that they need. */
const CASES: Record<string, (dtype: DType, device: string, from: number) => Any> = {
  contiguous: (dtype, device, from) => operand(dtype, device, [ROWS * COLUMNS], from),
  vectorized: (dtype, device, from) =>
    operand(dtype, device, from === 0 ? [ROWS, COLUMNS] : [COLUMNS], from),
  strided: (dtype, device, from) =>
    operand(dtype, device, from === 0 ? [ROWS, 7] : [ROWS, 1], from),
};

const reason = whyNoCuda();
if (reason !== undefined) test(`mixed dtypes on CUDA (${reason})`, { skip: true }, () => {});
else {
  const mixed = OPS.map((op) => `${op} mixed`);
  const families = allFamilies().filter(({ name }) => mixed.includes(name));
  openCudaForTests({ families: [...usualFamilies(), ...families] });
  const launched = recordKernels();
  for (const other of OTHERS) {
    test(`float32 with ${other}: what CUDA and the CPU give is the same`, () => {
      for (const name of OPS) {
        for (const [kernel, make] of Object.entries(CASES)) {
          for (const [x, y] of [["float32", other], [other, "float32"]] as const) {
            const run = (device: string): unknown =>
              make(x, device, 0)[name](make(y, device, 5)).toArray();
            launched.clear();
            assertEquals(run("cuda"), run("cpu"), `${name} of ${x} and ${y}, ${kernel}`);
            const used = [...launched];
            assert(used.some((one) => one.endsWith(`_${kernel}`)), `${kernel}: ${used}`);
            assertListed(launched, 1);
          }
        }
      }
    });
  }
  test("quotients of integers, and a scalar", () => {
    const run = (device: string): unknown[] => {
      const x = operand("int32", device, [1000], 1);
      return [x.div(operand("int32", device, [1000], 2)).toArray(), x.div(3).toArray()];
    };
    launched.clear();
    assertEquals(run("cuda"), run("cpu"));
    assert([...launched].every((name) => name.startsWith("div_f32_of_i32_")), `${[...launched]}`);
  });
}

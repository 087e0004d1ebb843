/**
 * The functions of nn on a device, whose expressions are kernels of their own there.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { random, Tensor } from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import { grad } from "../../src/grad/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import { NN_PROGRAMS } from "../ops/nn_programs.ts";
import { operands } from "../ops/programs.ts";
import { type Any, loose } from "../support.ts";

/** The tests on `device`, by name. */
export const NN_TESTS: Record<string, (device: string) => void> = {
  ...Object.fromEntries(
    // Those without operands make tensors on the CPU.
    NN_PROGRAMS.filter(([, program]) => program.length > 0).map(([name, program]) => [
      `${name} gives the results of the CPU`,
      (device) => {
        const here = operands();
        const there = Object.fromEntries(
          Object.entries(here).map(([key, x]) => [key, x.to(device)]),
        );
        const [expected, made] = [program(here), program(there)].map((one) => [one].flat());
        assertEquals(made!.length, expected!.length);
        expected!.forEach((one, k) => {
          const x = loose(made![k]);
          assert(one instanceof Tensor && x instanceof Tensor);
          assertEquals(x.device, device);
          assert(loose(x.cpu()).allclose(one, { rtol: 1e-5, atol: 1e-6, equalNan: true }), `${x}`);
        });
      },
    ]),
  ),

  "convolutions, direct ones and Winograd's, give the results of the CPU": (device) => {
    const make = (key: number, shape: number[]): Any => random.normal(random.key(key), shape);
    const [x, bias] = [make(1, [2, 4, 7, 9]), make(2, [6])];
    const cases: [weight: Any, options: nn.ConvOptions][] = [
      [make(3, [6, 4, 3, 3]), { padding: 1 }],
      [make(3, [6, 4, 3, 3]), { padding: 1, winograd: true }],
      [make(4, [6, 4, 3, 2]), { padding: [[0, 2], 1], stride: 2 }],
      [make(5, [6, 2, 2, 2]), { groups: 2, dilation: 2 }],
    ];
    for (const [weight, options] of cases) {
      const expected: Any = nn.conv2d(x, weight, bias, options);
      const there = [x, weight, bias].map((one) => one.to(device)) as [Any, Any, Any];
      const made: Any = nn.conv2d(...there, options);
      assertEquals(made.device, device);
      const error = { rtol: 1e-4, atol: 1e-4 };
      assert(made.cpu().allclose(expected, error), JSON.stringify(options));
    }
  },

  "derivatives of convolutions and pooling are those of the CPU": (device) => {
    const make = (key: number, shape: number[]): Any => random.normal(random.key(key), shape);
    const [x, bias] = [make(1, [2, 4, 8, 9]), make(2, [6])];
    const loss = ([x, weight, bias]: Any[], options: nn.ConvOptions): Any => {
      const y: Any = nn.maxPool2d(nn.conv2d(x, weight, bias, options), 2);
      return y.mul(y).sum();
    };
    const cases: [shape: number[], options: nn.ConvOptions][] = [
      [[6, 4, 3, 3], { padding: 1 }],
      [[6, 4, 3, 2], { padding: [[0, 2], 1], stride: 2 }],
      [[6, 2, 2, 2], { groups: 2, dilation: 2 }],
    ];
    for (const [shape, options] of cases) {
      const by = loose(grad)((all: Any[]) => loss(all, options));
      const all = [x, make(3, shape), bias];
      const expected: Any[] = by(all), made: Any[] = by(all.map((one) => one.to(device)));
      made.forEach((one, k) => {
        assertEquals(one.device, device);
        const error = { rtol: 1e-4, atol: 1e-4 };
        assert(one.cpu().allclose(expected[k], error), `${JSON.stringify(options)}: ${k}`);
      });
    }
  },

  "activations join the ops around them in programs, with the same results": (device) => {
    const f = (x: Any, y: Any): Any => nn.swiglu(nn.mish(x.add(y)), nn.elu(y, { alpha: 2 })).sub(x);
    for (const dtype of ["float16", "float32"] as const) {
      const [x, y] = [1, 2].map((k) =>
        random.normal(random.key(k), [50, 40]).astype(dtype).to(loose(device))
      );
      const program = compile(f);
      assertEquals(String(loose(program(x, y)).cpu()), String(f(x, y).cpu()), dtype);
      assertEquals(program.explain()[0]!.data.ops.map(({ op }) => op), ["chain"]);
    }
  },
};

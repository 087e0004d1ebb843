/**
 * The functions of nn on a CUDA device: the emulator's, or a real one. Their expressions are compiled
 * as kernels.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import { random, Tensor } from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import { NN_PROGRAMS } from "../ops/nn_programs.ts";
import { operands } from "../ops/programs.ts";
import { type Any, loose } from "../support.ts";
import { openCudaForTests, whyNoCuda } from "./support/device.ts";

const reason = whyNoCuda();
if (reason !== undefined) test(`nn on CUDA (${reason})`, { skip: true }, () => {});
else {
  openCudaForTests();
  for (const [name, program] of NN_PROGRAMS) {
    test(`${name} gives the results of the CPU`, () => {
      const here = operands();
      const there = Object.fromEntries(
        Object.entries(here).map(([key, x]) => [key, x.to("cuda")]),
      );
      const [expected, made] = [program(here), program(there)].map((one) => [one].flat());
      assertEquals(made!.length, expected!.length);
      expected!.forEach((one, k) => {
        const x = loose(made![k]);
        assert(one instanceof Tensor && x instanceof Tensor);
        assertEquals(x.device, "cuda");
        assert(loose(x.cpu()).allclose(one, { rtol: 1e-5, atol: 1e-6, equalNan: true }), `${x}`);
      });
    });
  }

  test("activations join the ops around them in programs, with the same results", () => {
    const f = (x: Any, y: Any): Any => nn.swiglu(nn.mish(x.add(y)), nn.elu(y, { alpha: 2 })).sub(x);
    for (const dtype of ["float16", "float32"] as const) {
      const [x, y] = [1, 2].map((k) =>
        random.normal(random.key(k), [50, 40]).astype(dtype).to("cuda")
      );
      const program = compile(f);
      assertEquals(String(program(x, y).cpu()), String(f(x, y).cpu()), dtype);
      assertEquals(program.explain()[0]!.data.ops.map(({ op }) => op), ["chain"]);
    }
  });
}

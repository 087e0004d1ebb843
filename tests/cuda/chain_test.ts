/**
 * Chains of elementwise ops on a CUDA device: the emulator's, or a real one.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { test } from "node:test";
import { DTYPES } from "../../src/base/dtype.ts";
import { memoryOf } from "../../src/core/dispatch.ts";
import { sendTo } from "../../src/memory/device.ts";
import { isOperand } from "../../src/memory/operand.ts";
import { chains, describeChain, eagerly, EXACT_OPS, fused } from "../ops/chains.ts";
import { openCudaForTests, whyNoCuda } from "./support/device.ts";
import { recordKernels } from "./support/kernels.ts";

const reason = whyNoCuda();
if (reason !== undefined) test(`chains on CUDA (${reason})`, { skip: true }, () => {});
else {
  openCudaForTests();
  test("chains of exact ops give the results of the CPU, by one kernel each", () => {
    const launched = recordKernels();
    fc.assert(
      fc.property(chains(10, DTYPES, EXACT_OPS), (chain) => {
        const expected = eagerly(chain);
        const memory = memoryOf("cuda", "test on");
        const inputs = chain.inputs.map((input) =>
          isOperand(input) ? { ...input, storage: sendTo(memory, input.storage) } : input
        );
        assertEquals(fused({ ...chain, inputs }), expected, describeChain(chain));
      }),
      // Each chain is compiled; those of one seed are compiled once.
      { numRuns: 24, seed: 1, endOnFailure: true },
    );
    assert([...launched].every((name) => name.startsWith("chain_")), `launched ${[...launched]}`);
    assert(launched.size >= 20);
  });
}

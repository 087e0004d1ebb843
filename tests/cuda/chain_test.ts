/**
 * Chains of elementwise ops on a CUDA device: the emulator's, or a real one.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { test } from "node:test";
import { arange } from "../../mod.ts";
import { DTYPES } from "../../src/base/dtype.ts";
import { memoryOf } from "../../src/core/dispatch.ts";
import { sendTo } from "../../src/memory/device.ts";
import { isOperand } from "../../src/memory/operand.ts";
import { chains, describeChain, eagerly, EXACT_OPS, fused } from "../ops/chains.ts";
import { compile } from "../../src/compile/mod.ts";
import { type Any, loose } from "../support.ts";
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

  test("chains over packs, parts of packs, single elements and addresses between packs", () => {
    const program = compile((a: Any, b: Any, c: Any) => {
      const x = a.astype("float32").mul(b.astype("float32")).add(c);
      return [x, x.neg().astype("bfloat16")];
    });
    for (const n of [1, 7, 1024, 4096, 4099, 9001]) {
      for (const from of [0, 1]) {
        const inputs = (["bfloat16", "int32", "float32"] as const).map((dtype, k) =>
          loose(arange(n + from).remainder(251).astype(dtype)).slice(`${k === 2 ? from : 0}:`)
            .slice(`:${n}`)
        );
        for (const single of [false, true]) {
          const given = inputs.map((x, k) => single && k === 1 ? x.slice(":1") : x);
          const results = program(...given.map((x) => x.to("cuda")) as [Any, Any, Any]);
          const expected = program(...given as [Any, Any, Any]);
          results.forEach((x, k) => {
            assertEquals(String(x.cpu().toArray()), String(expected[k]!.toArray()), `${n} ${from}`);
          });
        }
      }
    }
  });
}

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
import { isOperand, type Operand } from "../../src/memory/operand.ts";
import { chains, describeChain, eagerly, EXACT_OPS, fused, namedChains } from "../ops/chains.ts";
import { place } from "../ops/table/operands.ts";
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
    assert(
      [...launched].every((name) => name.startsWith("ops_chain_")),
      `launched ${[...launched]}`,
    );
    assert(launched.size >= 20);
  });

  test("parameters of chains may have the names of anything in CUDA C", () => {
    const make = (): Operand => place("float32", [3], [1, 2, 3]);
    const own = namedChains(make());
    const given = make();
    const there = { ...given, storage: sendTo(memoryOf("cuda", "test on"), given.storage) };
    namedChains(there).forEach((chain, i) => assertEquals(fused(chain), fused(own[i]!)));
  });

  test("chains over packs, parts of packs, single elements and addresses between packs", () => {
    const program = compile((a: Any, b: Any, c: Any) => {
      const x = a.astype("float32").mul(b.astype("float32")).add(c);
      return [x, x.neg().astype("bfloat16")];
    });
    const launched = recordKernels();
    for (const n of [1, 7, 1024, 4096, 4099, 9001]) {
      const whole = (["bfloat16", "int32", "float32"] as const).map((dtype) =>
        loose(arange(n + 1).remainder(251).astype(dtype))
      );
      for (const from of [0, 1]) {
        for (const single of [false, true]) {
          // Views on the device, whose memory begins between packs.
          const run = (device: string): Any[] => {
            const [a, b, c] = whole.map((x, k) =>
              x.to(device).slice(`${from}:${single && k === 1 ? from + 1 : from + n}`)
            );
            return program(a, b, c).map((x) => loose(x).cpu().toArray());
          };
          assertEquals(run("cuda"), run("cpu"), `${n} from ${from}`);
        }
      }
    }
    assert(
      [...launched].some((name) => name.startsWith("ops_chain_")),
      `launched ${[...launched]}`,
    );
  });
}

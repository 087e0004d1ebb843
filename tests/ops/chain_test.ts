/**
 * Chains of elementwise ops against the same ops one by one: every op and dtype on every backend,
 * several outputs, broadcasting, views, given outputs, and malformed chains.
 *
 * @module
 */
import { assert, assertEquals, assertStrictEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { describe, it } from "node:test";
import { DTypeError, ReadOnlyError, ShapeError } from "../../mod.ts";
import { DTYPE, type DTypeInfo } from "../../src/base/dtype.ts";
import { DisposedError } from "../../src/base/errors.ts";
import { dispatch, performCall } from "../../src/core/dispatch.ts";
import { dispose } from "../../src/core/handles.ts";
import type { Operand } from "../../src/memory/operand.ts";
import type { ChainStep } from "../../src/ops/chain/steps.ts";
import type { MapOp } from "../../src/table/op.ts";
import { MAP } from "../../src/table/table.ts";
import {
  chainCall,
  chains,
  describeChain,
  eagerly,
  fused,
  namedChains,
  type RandomChain,
} from "./chains.ts";
import { amountIn } from "../support/engine.ts";
import { ALL_BACKENDS as BACKENDS, using } from "./table/backends.ts";
import { place, read } from "./table/operands.ts";

/** A step of an op that keeps its dtype. */
function step(op: MapOp, inputs: number[], compute: DTypeInfo = DTYPE.float32): ChainStep {
  const result = op.result === "bool" ? DTYPE.bool : compute;
  return { op, compute, result, inputs, parameters: op.parameters.map(() => 0) };
}

function vector(...values: number[]): Operand {
  return place("float32", [values.length], values);
}

/** 2 x + 1, with both steps as outputs. */
function line(x: Operand): RandomChain {
  return {
    inputs: [x, 2, 1],
    steps: [step(MAP.mul, [0, 1]), step(MAP.add, [3, 2])],
    outputs: [1, 0],
    shape: x.layout.shape,
  };
}

describe("chain", () => {
  for (const { name, on } of BACKENDS) {
    if (typeof on === "string") continue;
    it(`property: ${name}: a chain gives the bits of its ops one by one`, () => {
      fc.assert(
        fc.property(chains(12), (chain) => {
          using(on, () => {
            assertEquals(fused(chain), eagerly(chain), describeChain(chain));
          });
        }),
        { numRuns: amountIn(100, 30, 100) },
      );
    });
  }

  for (const { name, on } of BACKENDS) {
    it(`${name}: outputs go to given tensors, of other dtypes and layouts too`, () => {
      using(on, () => {
        const x = place("float32", [3], [1, 2, 3]);
        const first = place("float64", [3], [0, 0, 0], { step: [-2] });
        const second = place("float32", [3], [0, 0, 0]);
        const call = chainCall(line(x), [first, second]);
        performCall(call);
        assertStrictEquals(call.outputs[0], first);
        assertStrictEquals(call.outputs[1], second);
        assertEquals([read(first), read(second)], [[3, 5, 7], [2, 4, 6]]);
        // The second output is missing, and the first one is the input.
        assertEquals(fused(line(second), [second]), [[5, 9, 13], [4, 8, 12]]);
        assertEquals(read(second), [5, 9, 13]);
      });
    });
  }

  it("scalars take the dtype of their step, and comparisons with any number are right", () => {
    const bytes = place("uint8", [3], [0, 200, 255]);
    const of = (op: MapOp, value: number): RandomChain => ({
      inputs: [bytes, value],
      steps: [step(op, [0, 1], DTYPE.uint8)],
      outputs: [0],
      shape: [3],
    });
    for (const { on } of BACKENDS) {
      if (typeof on === "string") continue;
      using(on, () => {
        assertEquals(fused(of(MAP.less, 300)), [[1, 1, 1]]);
        assertEquals(fused(of(MAP.greaterEqual, -1)), [[1, 1, 1]]);
        assertEquals(fused(of(MAP.greater, 199.5)), [[0, 1, 1]]);
        assertEquals(fused(of(MAP.equal, NaN)), [[0, 0, 0]]);
      });
    }
  });

  it("more chains than are kept still run", () => {
    using(BACKENDS[0]!.on, () => {
      for (let i = 0; i < 300; i++) {
        // The binary digits of i choose the ops.
        const steps = Array.from(
          { length: 9 },
          (_, bit) => step((i >> bit & 1) === 1 ? MAP.neg : MAP.abs, [bit]),
        );
        const chain = { inputs: [vector(2)], steps, outputs: [8], shape: [1] };
        assertEquals(fused(chain), [[(i >> 8 & 1) === 1 ? -2 : 2]]);
        assertEquals(fused(chain), eagerly(chain));
      }
    });
  });

  it("an empty shape, and a step of a smaller shape than the outputs", () => {
    for (const { on } of BACKENDS) {
      if (typeof on === "string") continue;
      using(on, () => {
        const empty = place("float32", [0, 3], []);
        assertEquals(fused(line(empty)), [[], []]);
        const [x, y] = [vector(1, 2), place("float32", [2, 1], [10, 20])];
        const steps = [step(MAP.neg, [0]), step(MAP.add, [2, 1])];
        const chain = { inputs: [x, y], steps, outputs: [0, 1], shape: [2, 2] };
        assertEquals(fused(chain), [[-1, -2, -1, -2], [9, 8, 19, 18]]);
      });
    }
  });

  for (const { name, on } of BACKENDS) {
    if (typeof on === "string") continue;
    it(`${name}: parameters may have the names of anything in generated code`, () => {
      for (const chain of namedChains(vector(1, 2, 3))) {
        const expected = chain.steps.reduce(
          (values, { parameters: [k] }, s) => values.map((x) => x * k! + (s % 2 === 0 ? 2 : 3)),
          [1, 2, 3],
        );
        using(on, () => {
          assertEquals(fused(chain), [expected], describeChain(chain));
          assertEquals(eagerly(chain), [expected], describeChain(chain));
        });
      }
    });
  }

  it("errors name the op and leave everything as it was", () => {
    const x = vector(1, 2);
    const bad = (changes: Partial<RandomChain>, out?: Operand[]): void =>
      performCall(chainCall({ ...line(x), ...changes }, out));
    assertThrows(() => bad({ shape: [3] }), ShapeError, "chain");
    assertThrows(() => bad({ inputs: ["x" as never, 2, 1] }), DTypeError, "chain");
    assertThrows(() => bad({}, [vector(0)]), ShapeError, "chain");
    assertThrows(() => bad({}, [place("int32", [2], [0, 0])]), DTypeError, "chain");
    const stretched = place("float32", [2], [0, 0], { stretch: [0] });
    assertThrows(() => bad({}, [stretched]), ReadOnlyError, "chain");
    const gone = dispatch(MAP.neg, [x]);
    dispose(gone);
    assertThrows(() => bad({ inputs: [gone, 2, 1] }), DisposedError, "chain");
    assertEquals(read(x), [1, 2]);
  });

  it("a malformed chain is an internal error", () => {
    const x = vector(1, 2);
    const whole = line(x);
    const mul = whole.steps[0]!;
    const malformed: Partial<RandomChain>[] = [
      { shape: [1] },
      { steps: [] },
      { outputs: [] },
      { outputs: [2] },
      { outputs: [0, 0] },
      { steps: [step(MAP.mul, [0, 3])], outputs: [0] },
      { steps: [step(MAP.mul, [0, -1])], outputs: [0] },
      { steps: [step(MAP.mul, [0])], outputs: [0] },
      { steps: [step(MAP.mul, [1, 2])], outputs: [0] },
      { steps: [step(MAP.where, [0, 1, 2])], outputs: [0] },
      { steps: [{ ...mul, result: DTYPE.float64 }], outputs: [0] },
      { steps: [{ ...mul, parameters: [1] }], outputs: [0] },
      { steps: [step(MAP.bitwiseAnd, [0, 1])], outputs: [0] },
      { steps: Array.from({ length: 33 }, () => mul), outputs: [0] },
      { inputs: [...new Array(17).fill(x)], outputs: [0], steps: [mul] },
      { inputs: [x, ...new Array(33).fill(1)], outputs: [0], steps: [mul] },
      { inputs: [2, 1, 1] },
    ];
    for (const changes of malformed) {
      const error = assertThrows(
        () => performCall(chainCall({ ...whole, ...changes })),
        Error,
        "malformed chain",
      );
      assert(error.constructor === Error);
    }
  });
});

/**
 * Chains in C: as calls with many buffers, over several tasks and threads, in place, with large
 * outputs, and for expressions of programs.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { defineOp } from "../../mod.ts";
import { NO_DTYPE } from "../../src/base/dtype.ts";
import { NativeError } from "../../src/base/errors.ts";
import { Layout } from "../../src/base/layout.ts";
import { ATTRIBUTES } from "../../src/base/plan.ts";
import { JsBackend } from "../../src/backend/js/backend.ts";
import { chainNumbers, hasChainKernels } from "../../src/backend/native/chain.ts";
import { exprChain } from "../../src/backend/native/expr_chain.ts";
import { NativeProgram } from "../../src/backend/native/program.ts";
import { CHAIN_AT, STATUS } from "../../src/backend/ffi/abi.ts";
import { DTYPE, type DType, DTYPES } from "../../src/base/dtype.ts";
import { CHAIN } from "../../src/ops/chain/op.ts";
import { dispatch } from "../../src/core/dispatch.ts";
import type { Operand } from "../../src/memory/operand.ts";
import { allocate } from "../../src/memory/pool.ts";
import type { ChainStep } from "../../src/ops/chain/steps.ts";
import { type Call, type MapOp, type Op, OPS } from "../../src/table/op.ts";
import { MAP } from "../../src/table/table.ts";
import {
  chainCall,
  chains,
  describeChain,
  eagerly,
  EXACT_OPS,
  fused,
  type RandomChain,
} from "./chains.ts";
import { RUNS_ALL } from "../support/amount.ts";
import { amountIn, IN_BUN } from "../support/engine.ts";
import { using } from "./table/backends.ts";
import { type Num, place, read, sample } from "./table/operands.ts";
import { check, LEVELS, native, shim } from "../native/support.ts";

const RUNS = amountIn(100, 30, 150);

const numberOf = (op: Op): number => native.numberOf(op);

/** A contiguous output for each of a chain. */
function outputsOf({ steps, outputs, shape }: RandomChain): Operand[] {
  const layout = Layout.contiguous(shape);
  return outputs.map((s) => ({
    storage: allocate(steps[s]!.result.name, layout.size, false),
    layout,
    flags: 0,
  }));
}

/** Runs a chain with any number of buffers, in a program; false if it has no kernel. */
function runInProgram(call: Call): void {
  const { numbers, operands } = chainNumbers(call, numberOf)!;
  const program = new NativeProgram(shim, {
    buffers: operands.map(({ storage: { array } }) => ({ kind: "bound", bytes: array.byteLength })),
    calls: [{
      kernel: numberOf(CHAIN),
      compute: NO_DTYPE,
      dtypes: operands.map(({ storage }) => storage.info.id),
      buffers: operands.map((_, k) => k),
      numbers,
    }],
    arenaBytes: 0,
  });
  const frame = program.acquire()!;
  frame.bindAll(0, operands.map(({ storage }) => storage.array));
  frame.run();
  frame.release();
  program.free();
}

/** The outputs of a chain in C; undefined if an op has no kernel for its dtype. */
function inC(chain: RandomChain, outputs = outputsOf(chain)): Num[][] | undefined {
  const call = chainCall(chain, outputs);
  if (!hasChainKernels(chain.steps, numberOf)) return undefined;
  try {
    runInProgram(call);
  } catch (error) {
    if (error instanceof NativeError && error.status === STATUS.unsupported) return undefined;
    throw error;
  }
  return outputs.map((out) => read(out));
}

/**
 * Runs `body` for every instruction set, in Bun for the best one, and one or two threads, which share
 * even small work.
 */
function everywhere(body: (about: string) => void): void {
  const before = native.threads;
  native.setShareAll(true);
  try {
    for (const level of IN_BUN && !RUNS_ALL ? LEVELS.slice(-1) : LEVELS) {
      for (const threads of [1, 2]) {
        native.setLevel(level);
        native.setThreads(threads);
        using(native, () => body(`level ${level}, ${threads} threads`));
      }
    }
  } finally {
    native.setShareAll(false);
    native.setLevel(0);
    native.setThreads(before);
  }
}

check("property: chains of many buffers give the bits of their ops one by one", () => {
  let ran = 0;
  fc.assert(
    fc.property(chains(12), (chain) => {
      everywhere((about) => {
        const expected = eagerly(chain);
        const made = inC(chain);
        if (made === undefined) return;
        ran++;
        assertEquals(made, expected, `${about}: ${describeChain(chain)}`);
      });
    }),
    { numRuns: RUNS },
  );
  assert(ran > RUNS, `${ran} chains had kernels`);
});

/** A step of a float32 chain. */
function step(op: MapOp, ...inputs: number[]): ChainStep {
  const result = op.result === "bool" ? DTYPE.bool : DTYPE.float32;
  return { op, compute: DTYPE.float32, result, inputs, parameters: [] };
}

function float32(shape: number[], seed: number, order?: number[]): Operand {
  const size = shape.reduce((a, b) => a * b, 1);
  return place("float32", shape, sample("float32", [-4, 4], size, seed), order && { order });
}

/** gelu(a · b + c) − a, and the product, of [m, n], one of n and one of [m, 1], or all of [m, n]. */
function layered(m: number, n: number, transposed: boolean): RandomChain {
  const order = transposed ? [1, 0] : undefined;
  return {
    inputs: [float32([m, n], 1), float32(transposed ? [m, n] : [n], 2, order), float32([m, 1], 3)],
    steps: [step(MAP.mul, 0, 1), step(MAP.add, 3, 2), step(MAP.gelu, 4), step(MAP.sub, 5, 0)],
    outputs: [0, 3],
    shape: [m, n],
  };
}

check("chains over several tasks: rows, columns, tiles, short and long rows", () => {
  for (
    const [m, n, transposed] of [
      [1, 70001, false],
      [300, 129, false],
      [4000, 5, false],
      [20, 3001, false],
      [300, 300, true],
      [130, 517, true],
    ] as const
  ) {
    const chain = layered(m, n, transposed);
    everywhere((about) => assertEquals(inC(chain), eagerly(chain), `${about}: ${m}, ${n}`));
  }
});

check("outputs beyond the caches are stored past them", () => {
  const n = (1 << 22) + 77;
  const x = float32([n], 4);
  const chain: RandomChain = {
    inputs: [x, 2],
    steps: [step(MAP.mul, 0, 1), step(MAP.add, 2, 0)],
    outputs: [1],
    shape: [n],
  };
  const [out] = outputsOf(chain);
  using(native, () => runInProgram(chainCall(chain, [out!])));
  const [from, to] = [x.storage.array, out!.storage.array] as Float32Array[];
  for (let i = 0; i < n; i++) {
    if (!Object.is(to[i], Math.fround(Math.fround(from[i]! * 2) + from[i]!))) {
      throw new Error(`element ${i} is ${to[i]}`);
    }
  }
});

check("outputs may be inputs of the same elements, read before or after", () => {
  for (const n of [5, 700, 40000]) {
    const [x, y] = [float32([n], 5), float32([n], 6)];
    // The first output overwrites x, which later steps read.
    const chain: RandomChain = {
      inputs: [x, y],
      steps: [step(MAP.add, 0, 1), step(MAP.mul, 2, 0), step(MAP.exp, 3), step(MAP.sub, 4, 1)],
      outputs: [0, 3],
      shape: [n],
    };
    everywhere((about) => {
      const expected = eagerly(chain);
      const copies = [float32([n], 5), float32([n], 6)];
      assertEquals(inC({ ...chain, inputs: copies }, copies), expected, `${about}: ${n}`);
    });
  }
});

check("the dispatched chain writes over its input, and so does each step", () => {
  using(native, () => {
    const x = float32([1000], 7);
    const chain: RandomChain = {
      inputs: [x, 3],
      steps: [step(MAP.mul, 0, 1), step(MAP.add, 2, 0)],
      outputs: [1],
      shape: [1000],
    };
    const expected = eagerly(chain);
    const { storage } = x;
    const { version } = storage;
    assert(native.supports(chainCall(chain)));
    assertEquals(fused(chain), expected);
    assertEquals(fused(chain, [x]), expected);
    assertEquals(read(x), expected[0]);
    assert(x.storage === storage && storage.version > version);
  });
});

check("malformed numbers are refused", () => {
  const chain: RandomChain = {
    inputs: [float32([8], 1)],
    steps: [step(MAP.exp, 0)],
    outputs: [0],
    shape: [8],
  };
  const out = outputsOf(chain);
  const { numbers, operands } = chainNumbers(chainCall(chain, out), numberOf)!;
  const [to, from] = operands.map(({ storage }) => storage);
  const { id } = DTYPE.float32;
  const run = (numbers: Float64Array, outId = id): number =>
    shim.rm_run(
      numberOf(CHAIN),
      outId | id << 8 | NO_DTYPE << 16 | NO_DTYPE << 24,
      id,
      numbers,
      to!.array,
      from!.array,
      null,
      null,
    );
  assertEquals(run(numbers.slice()), STATUS.ok);
  const changed = (at: number, value: number): number => {
    const copy = numbers.slice();
    copy[at] = value;
    return run(copy);
  };
  assertEquals(changed(ATTRIBUTES + CHAIN_AT.outputs, 0), STATUS.badArgument);
  assertEquals(changed(ATTRIBUTES + CHAIN_AT.outputs, 2), STATUS.badArgument);
  assertEquals(changed(ATTRIBUTES + CHAIN_AT.steps, 0), STATUS.badArgument);
  assertEquals(changed(ATTRIBUTES + CHAIN_AT.steps, 33), STATUS.badArgument);
  assertEquals(run(numbers.slice(), DTYPE.float64.id), STATUS.badArgument);
  const outside = { ...out[0]!, layout: Layout.contiguous([8], 1) };
  assertThrows(() => chainNumbers(chainCall(chain, [outside]), numberOf), NativeError, "operand 0");
});

// ---- expressions of programs -------------------------------------------------------------------

const EXPRESSIONS = [
  "x * x * x",
  "x > 0 ? x : 0.25 * x",
  "x * sigmoid(2 * x)",
  "-x + abs(x) / 3 - sqrt(x * x)",
  "(x < 0.5 && !(y > 0.25)) || isnan(x)",
  "maximum(x, y) * sigmoid(z) + (x == y ? 1 : pow(abs(y), 0.5))",
  "round(x) - floor(y) + trunc(z) * sign(x)",
  "atan2(x, y) + copysign(1, z)",
  "1 - 2 / 4 + x",
  "x",
  "x != y ? isfinite(x) : x < 1 || y >= 2",
];

let defined = 0;

/** Defines an op by an expression; returns it. */
function opOf(expr: string): MapOp {
  const name = `chained${defined++}`;
  defineOp({ name, expr });
  return OPS.get(name) as MapOp;
}

check("expressions of programs run in C, as the same ops one by one", () => {
  for (const expr of EXPRESSIONS) {
    const op = opOf(expr);
    for (const dtype of ["float32", "float64", "float16", "bfloat16", "int32"] as const) {
      if (op.dtypes === "f" && dtype === "int32") continue;
      const compute = dtype === "int32" ? DTYPE.float32 : DTYPE[dtype];
      const inputs = [1, 2, 3].slice(0, op.arity)
        .map((seed) => place(dtype as DType, [70], sample(dtype, [-3, 3], 70, seed, seed === 2)));
      const result = op.result === "bool" ? DTYPE.bool : compute;
      const { constants, steps } = exprChain(op, compute, [], result)!;
      assert(hasChainKernels(steps, numberOf), expr);
      // Constants become inputs, after the operands.
      const moved = steps.map((one) => ({
        ...one,
        inputs: one.inputs.map((value) =>
          value < 0 ? op.arity - 1 - value : value < op.arity ? value : value + constants.length
        ),
      }));
      // Steps compute 16-bit floats and integers in float32.
      const work = compute === DTYPE.float64 ? compute : DTYPE.float32;
      const cast = inputs.map((x) => dispatch(MAP.copy, [x], { dtype: work.name }));
      const chain: RandomChain = {
        inputs: [...cast, ...constants.map(({ value }) => value)],
        steps: moved,
        outputs: [steps.length - 1],
        shape: [70],
      };
      everywhere((about) => {
        const whole: RandomChain = {
          inputs,
          steps: [{ op, compute, result, inputs: inputs.map((_, k) => k), parameters: [] }],
          outputs: [0],
          shape: [70],
        };
        const expected = eagerly(chain);
        assertEquals(eagerly(whole), expected, `${about}: ${expr} of ${dtype}`);
        assertEquals(inC(whole), expected, `${about}: ${expr} of ${dtype} as a step`);
      });
    }
  }
});

check("expressions that are too long for a chain run in JavaScript", () => {
  const sum = Array.from({ length: 40 }, (_, i) => `x * ${i + 2}`).join(" + ");
  const op = opOf(sum);
  assertEquals(exprChain(op, DTYPE.float32, [], DTYPE.float32), null);
  using(native, () => {
    const chain: RandomChain = {
      inputs: [float32([9], 1)],
      steps: [{ ...step(op, 0), op }],
      outputs: [0],
      shape: [9],
    };
    assertEquals(fused(chain), eagerly(chain));
    assertEquals(inC(chain), undefined);
  });
});

/** Ops of several roundings: between them, JavaScript keeps more digits of 16-bit floats than C. */
const SEVERAL: ReadonlySet<string> = new Set(["lerp", "addcmul", "addcdiv"]);

check("property: exact chains are those of JavaScript", () => {
  const js = new JsBackend();
  let ran = 0;
  fc.assert(
    fc.property(chains(8, DTYPES, EXACT_OPS), (chain) => {
      const isRounded = chain.steps.some(({ op, compute }) =>
        SEVERAL.has(op.name) && compute.kind === "f" && compute.bytes === 2
      );
      const made = isRounded ? undefined : inC(chain);
      if (made === undefined) return;
      ran++;
      assertEquals(made, using(js, () => eagerly(chain)), describeChain(chain));
    }),
    { numRuns: amountIn(50, 40, 50) },
  );
  assert(ran > 25, `${ran} chains had kernels`);
});

check(
  "float32 steps in registers: each op, on each side, with rows, scalars and conditions",
  () => {
    const [m, n] = [9, 213];
    const inputs = [
      float32([m, n], 11),
      float32([m, n], 12),
      float32([n], 13),
      float32([m, 1], 14),
    ];
    const unary = [MAP.neg, MAP.abs, MAP.square, MAP.relu, MAP.sqrt, MAP.reciprocal];
    const binary = [MAP.add, MAP.sub, MAP.mul, MAP.div, MAP.minimum, MAP.maximum];
    const compare = [
      ...[MAP.less, MAP.lessEqual, MAP.greater, MAP.greaterEqual, MAP.equal, MAP.notEqual],
    ];
    const programs = [
      ...unary.map((op) => [step(op, 0), step(op, 4), step(MAP.add, 5, 4)]),
      // The value of the step before is the first operand, the second, or both.
      ...binary.flatMap((op) =>
        [1, 2, 3].flatMap((other) => [
          [step(op, 0, other), step(op, 4, other)],
          [step(op, other, 0), step(op, other, 4), step(op, 5, 5)],
        ])
      ),
      // The condition, its values and those of the step before, in each place.
      ...compare.flatMap((op) =>
        [1, 2, 3].flatMap((other) => [
          [step(MAP.neg, 0), step(op, 4, other), step(MAP.where, 5, 4, other)],
          [step(op, other, 0), step(MAP.mul, 0, 1), step(MAP.where, 4, other, 5)],
          [step(op, 0, other), step(MAP.mul, 0, 1), step(MAP.where, 4, 5, 5)],
        ])
      ),
    ];
    for (const steps of programs) {
      // The last result alone, and with the first, which later steps read from its output.
      const first = steps[0]!.result === DTYPE.bool ? [] : [0];
      for (const outputs of [[steps.length - 1], [steps.length - 1, ...first]]) {
        const chain = { inputs, steps, outputs, shape: [m, n] };
        everywhere((about) => {
          assertEquals(inC(chain), eagerly(chain), `${about}: ${describeChain(chain)}`);
        });
      }
    }
  },
);

check("float32 steps in registers: products with scalars, which later steps may compute", () => {
  const shape = [9, 213];
  const { mul, add, sub, div, square, neg } = MAP;
  /** Two matrices, a number, and one for each row. */
  const inputs = (): Operand[] => [
    ...[float32(shape, 31), float32(shape, 32), float32([], 33), float32([9, 1], 34)],
  ];
  const programs = [
    ...[add, sub, mul, div].flatMap((op) =>
      [2, 3].flatMap((s) => [
        [step(mul, 0, s), step(square, 1), step(op, 4, 5)],
        [step(mul, s, 0), step(square, 1), step(op, 5, 4)],
      ])
    ),
    ...[add, div].flatMap((op) => [
      // Of a result, twice, of two products, and of one that two steps read.
      [step(neg, 0), step(mul, 4, 2), step(square, 1), step(op, 5, 6)],
      [step(mul, 0, 2), step(square, 1), step(op, 4, 4), step(add, 5, 6)],
      [step(mul, 0, 2), step(mul, 1, 3), step(square, 1), step(op, 4, 5), step(add, 6, 7)],
      [step(mul, 0, 2), step(square, 1), step(op, 4, 5), step(add, 6, 4)],
      [step(mul, 0, 2), step(square, 1), step(op, 4, 3), step(add, 5, 6)],
      // The value of the step before is what the product is of.
      [step(square, 0), step(mul, 4, 2), step(add, 1, 4), step(op, 5, 6)],
    ]),
  ];
  for (const steps of programs) {
    const last = steps.length - 1;
    for (const outputs of [[last], [last, 0], [last, 1]]) {
      // Outputs are new, or the last one is the first input, which the product may be of.
      for (const place of [-1, outputs.length - 1]) {
        everywhere((about) => {
          const chain = { inputs: inputs(), steps, outputs, shape };
          const expected = eagerly(chain);
          const targets = outputsOf(chain);
          if (place >= 0) targets[place] = chain.inputs[0]!;
          assertEquals(
            inC(chain, targets),
            expected,
            `${about}, ${place}: ${describeChain(chain)}`,
          );
        });
      }
    }
  }
});

check("float32 steps in registers: blocks of other rows, and scalars of rows", () => {
  // A block of one row is contiguous in the output, those of 16 rows are not.
  for (const [shape, order] of [[[17, 100], [1, 0]], [[3, 33, 130], [0, 2, 1]]] as const) {
    const chain = {
      inputs: [float32([...shape], 21, [...order]), float32([], 22)],
      steps: [step(MAP.exp, 0), step(MAP.mul, 2, 1), step(MAP.add, 3, 1)],
      outputs: [2],
      shape: [...shape],
    };
    everywhere((about) => assertEquals(inC(chain), eagerly(chain), `${about}: ${shape}`));
  }
  const [a, b, x] = [float32([5, 1], 23), float32([5, 1], 24), float32([5, 300], 25)];
  const one = float32([], 26);
  for (const inputs of [[a, b, x], [a, one, x], [one, a, x], [a, a, x]]) {
    for (const op of [MAP.add, MAP.less]) {
      const last = op === MAP.less ? step(MAP.where, 3, 2, 0) : step(MAP.mul, 3, 2);
      const chain = {
        inputs,
        steps: [step(op, 0, 1), last],
        outputs: [1],
        shape: [5, 300],
      };
      everywhere((about) => {
        assertEquals(inC(chain), eagerly(chain), `${about}: ${describeChain(chain)}`);
      });
    }
  }
});

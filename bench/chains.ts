/**
 * Times chains of elementwise ops on 1e6 float32: as the calls of a program, and as one call.
 *
 *     deno run -A bench/chains.ts [--threads=N] [--rounds=N] [--name=TEXT]
 *
 * Prints a JSON line for each: the shortest of the rounds in microseconds, and the time as one call
 * relative to that of the calls, which keep no intermediate result longer than they need it.
 *
 * @module
 */
import { parseArgs } from "node:util";
import { type AnyTensor, arange, ones, random, setThreads, type Tensor, where } from "../mod.ts";
import { CHAIN } from "../src/ops/chain/op.ts";
import { dispatch, performCall } from "../src/core/dispatch.ts";
import { tidy } from "../src/core/handles.ts";
import { interpret } from "../src/core/interpreter.ts";
import { isOperand, type Operand } from "../src/memory/operand.ts";
import type { ChainAttributes, ChainStep } from "../src/ops/chain/steps.ts";
import type { Call, Input, MapOp } from "../src/table/op.ts";

const { values: options } = parseArgs({
  options: {
    threads: { type: "string", default: "1" },
    rounds: { type: "string", default: "200" },
    name: { type: "string", default: "" },
  },
});

/** Shapes of operands do not matter here. */
type T = Tensor<"float32", number[]>;

interface Work {
  readonly name: string;
  readonly inputs: readonly AnyTensor[];
  readonly run: (...inputs: T[]) => AnyTensor;
}

const [ROWS, COLUMNS] = [1000, 1000];
const N = ROWS * COLUMNS;

function numbers(...shape: number[]): AnyTensor {
  return random.normal(random.key(shape.length), shape) as AnyTensor;
}

const [a, b, c] = [numbers(N), numbers(N), numbers(N)];
const [x, r] = [numbers(ROWS, COLUMNS), numbers(ROWS, COLUMNS)];
const [row, other] = [numbers(COLUMNS), numbers(COLUMNS)];
const [column, scale] = [numbers(ROWS, 1), ones([ROWS, 1]).add(0.5)];
const pixels = arange(0, N).remainder(256).astype("uint8") as AnyTensor;

const WORK: readonly Work[] = [
  { name: "relu(a * b + c)", inputs: [a, b, c], run: (a, b, c) => a.mul(b).add(c).relu() },
  {
    name: "gelu(x * 1.25 + 0.5) + r",
    inputs: [a, b],
    run: (x, r) => x.mul(1.25).add(0.5).gelu().add(r),
  },
  {
    name: "gelu(x * s + row) + r",
    inputs: [x, row, r],
    run: (x, row, r) => x.mul(1.25).add(row).gelu().add(r),
  },
  { name: "x * sigmoid(x)", inputs: [a], run: (x) => x.mul(x.sigmoid()) },
  {
    name: "(x - row) * row",
    inputs: [x, row, other],
    run: (x, row, other) => x.sub(row).mul(other),
  },
  {
    name: "clip((x - column) / column, -2, 2)",
    inputs: [x, column, scale],
    run: (x, column, scale) => x.sub(column).div(scale).clip(-2, 2),
  },
  {
    name: "uint8 to (x / 255 - 0.45) * 4.4",
    inputs: [pixels],
    run: (x) => (x.astype("float32") as T).div(255).sub(0.45).mul(4.4),
  },
  {
    name: "where(x > 0, x, x * 0.01) + r",
    inputs: [a, b],
    run: (x, r) => where(x.greater(0), x, x.mul(0.01)).add(r) as AnyTensor,
  },
  {
    name: "gelu by tanh",
    inputs: [a],
    run: (x) => {
      const inner = x.mul(x).mul(0.044715).add(1).mul(x).mul(0.7978845608);
      return inner.tanh().add(1).mul(x).mul(0.5);
    },
  },
];

/** The calls of `run` as a chain. */
function chainOf({ inputs: tensors, run }: Work): { inputs: Input[]; chain: ChainAttributes } {
  const inputs: Input[] = tensors.slice() as never;
  // Dispatch replaces scalars in calls.
  const recorded: { call: Call; reads: Input[] }[] = [];
  const recorder = {
    run(call: Call): void {
      recorded.push({ call, reads: call.inputs.slice() });
      performCall(call);
    },
    read: () => {},
  };
  const made = interpret(recorder, () => run(...tensors as T[]));
  for (const { reads } of recorded) {
    for (const input of reads) if (!isOperand(input)) inputs.push(input);
  }
  // Scalars in the order of the calls, after the tensors.
  let scalar = tensors.length;
  const steps: ChainStep[] = [];
  const valueOf = (input: Input): number => {
    if (!isOperand(input)) return scalar++;
    const step = recorded.findIndex(({ call }) => call.outputs[0]!.storage === input.storage);
    return step >= 0
      ? inputs.length + step
      : tensors.findIndex((one) => (one as Operand).storage === input.storage);
  };
  for (const { call, reads } of recorded) {
    steps.push({
      op: call.op as MapOp,
      compute: call.compute,
      result: call.outputs[0]!.storage.info,
      inputs: reads.map(valueOf),
      parameters: [],
    });
  }
  const shape = (made as Operand).layout.shape;
  return { inputs, chain: { steps, outputs: [steps.length - 1], shape } };
}

/** Microseconds of one call of `run`. */
function time(run: () => void): number {
  const start = performance.now();
  run();
  return (performance.now() - start) * 1000;
}

setThreads(Number(options.threads));
for (const work of WORK.filter(({ name }) => name.includes(options.name))) {
  const { inputs, chain } = chainOf(work);
  const out = dispatch(CHAIN, inputs.slice(), chain);
  const ways: Record<string, () => void> = {
    eager: () => tidy(() => work.run(...work.inputs as T[])).dispose(),
    chain: () => (dispatch(CHAIN, inputs.slice(), chain) as AnyTensor).dispose(),
    chainOut: () => void dispatch(CHAIN, inputs.slice(), chain, out),
  };
  const times = Object.fromEntries(Object.keys(ways).map((way) => [way, [] as number[]]));
  for (let round = -2; round < Number(options.rounds); round++) {
    for (const [way, run] of Object.entries(ways)) {
      const taken = time(run);
      if (round >= 0) times[way]!.push(taken);
    }
  }
  const [eager, one, into] = Object.values(times).map((each) => Math.min(...each)) as [
    number,
    number,
    number,
  ];
  console.log(JSON.stringify({
    name: work.name,
    steps: chain.steps.length,
    threads: Number(options.threads),
    runtime: "Bun" in globalThis ? "bun" : "deno",
    eager: Math.round(eager),
    chain: Math.round(one),
    chainOut: Math.round(into),
    ratio: Number((one / eager).toFixed(2)),
    ratioOut: Number((into / eager).toFixed(2)),
  }));
}

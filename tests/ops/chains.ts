/**
 * Random chains of elementwise ops: as the calls of a program, and as one call.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import fc from "fast-check";
import "../../mod.ts";
import { CHAIN } from "../../src/ops/chain/op.ts";
import { DTYPE, type DType, DTYPES, type Scalar } from "../../src/base/dtype.ts";
import { dispatch, performCall } from "../../src/core/dispatch.ts";
import { environment } from "../../src/backend/js/environment.ts";
import { isOperand, type Operand } from "../../src/memory/operand.ts";
import type { ChainAttributes, ChainStep } from "../../src/ops/chain/steps.ts";
import { Call, type MapOp } from "../../src/table/op.ts";
import { MAP } from "../../src/table/table.ts";
import { expressionOp } from "../../src/table/user_expr.ts";
import { arrange, type Num, place, read, sample, type View } from "./table/operands.ts";

/** A chain with its inputs. */
export interface RandomChain extends ChainAttributes {
  readonly inputs: (Operand | Scalar)[];
}

const OPS = Object.values(MAP) as readonly MapOp[];

/** The ops with one correct result, which is the same on every backend. */
export const EXACT_OPS: readonly MapOp[] = OPS.filter(({ ulp }) => ulp === 0);

/** Shapes of results, some of which take several blocks of kernels. */
const SHAPES = [[1], [7], [40], [3, 5], [2, 3, 4], [20, 33], [1500], [3, 700], [40, 40], []];

type Generate = fc.GeneratorValue;

function oneOf<T>(g: Generate, choices: readonly T[]): T {
  return choices[g(fc.nat, choices.length - 1)]!;
}

function anInput(g: Generate, shape: readonly number[], dtypes: readonly DType[]): Operand {
  const dtype = oneOf(g, dtypes);
  const kind = oneOf(g, ["whole", "whole", "row", "column", "one"]);
  const own = kind === "row"
    ? shape.slice(-1)
    : shape.map((n, axis) =>
      kind === "one" || (kind === "column" && axis === shape.length - 1) ? 1 : n
    );
  const layout = oneOf(g, ["dense", "dense", "dense", "transposed", "stepped", "stretched"]);
  const view: View = layout === "transposed"
    ? { order: own.map((_, axis) => own.length - 1 - axis) }
    : layout === "stepped"
    ? { step: own.map((_, axis) => axis % 2 === 0 ? 2 : -1) }
    : layout === "stretched" && own.length > 0
    ? { stretch: [g(fc.nat, own.length - 1)] }
    : {};
  const [{ shape: sizes }] = arrange(own, view);
  const values = sample(dtype, [-4, 9], sizes.reduce((a, b) => a * b, 1), g(fc.nat, 1000));
  // Equal elements along stretched axes share a place: the last one written stays.
  return place(dtype, own, values, view);
}

const SCALARS: readonly Scalar[] = [0, 1, 2, -1, 0.5, 3, 2.5, -7, 300, true, false, 5n, Infinity];

/** Runs one op as programs do; undefined if it does not take its operands. */
function attempt(
  op: MapOp,
  operands: readonly (Operand | Scalar)[],
  parameters: readonly number[],
): Call | undefined {
  const attributes = Object.fromEntries(op.parameters.map((name, i) => [name, parameters[i]]));
  const call = new Call(op, op.name, [...operands], attributes);
  try {
    performCall(call);
    return call;
  } catch (error) {
    if (error instanceof TypeError || error instanceof RangeError) return undefined;
    throw error;
  }
}

/** A random chain of at most `most` steps of `ops` over inputs of `dtypes`. */
export function chains(
  most: number,
  dtypes: readonly DType[] = DTYPES,
  ops: readonly MapOp[] = OPS,
): fc.Arbitrary<RandomChain> {
  return fc.gen().map((g): RandomChain => {
    const shape = oneOf(g, SHAPES);
    // Chains of one dtype have more ops that take it.
    const few = g(fc.boolean) ? dtypes : [oneOf(g, dtypes)];
    const inputs: (Operand | Scalar)[] = [];
    const count = g(fc.integer, { min: 1, max: 4 });
    for (let k = 0; k < count; k++) inputs.push(anInput(g, shape, few));
    for (let k = g(fc.nat, 2); k > 0; k--) inputs.push(oneOf(g, SCALARS));
    const values: (Operand | Scalar)[] = inputs.slice();
    const steps: ChainStep[] = [];
    const wanted = g(fc.integer, { min: 1, max: most });
    for (let tries = 0; steps.length < wanted && tries < 8 * wanted; tries++) {
      const op = oneOf(g, ops);
      // Half of the operands are the latest values, so that chains are long.
      const reads = Array.from(
        { length: op.arity },
        () =>
          g(fc.boolean)
            ? values.length - 1 - g(fc.nat, Math.min(2, values.length - 1))
            : g(fc.nat, values.length - 1),
      );
      if (!reads.some((value) => isOperand(values[value]))) continue;
      const parameters = op.parameters.map((_, i) => [0.01, 0.5, 1][i]!);
      const operands = reads.map((value) => values[value]!);
      if (op === MAP.copy) {
        const from = (operands[0] as Operand).storage.info;
        const to = DTYPE[oneOf(g, few)];
        values.push(dispatch(op, operands, { dtype: to.name }));
        steps.push({ op, compute: from, result: to, inputs: reads, parameters });
        continue;
      }
      const call = attempt(op, operands, parameters);
      if (call === undefined) continue;
      const made = call.outputs[0]!;
      values.push(made);
      const { compute } = call;
      steps.push({ op, compute, result: made.storage.info, inputs: reads, parameters });
    }
    if (steps.length === 0) {
      const { info } = (inputs[0] as Operand).storage;
      steps.push({ op: MAP.copy, compute: info, result: info, inputs: [0], parameters: [] });
    }
    const outputs = steps.map((_, s) => s)
      .filter((s) => s === steps.length - 1 || (s % 3 === 0 && g(fc.nat, 3) === 0)).slice(-8);
    return { inputs, steps, outputs, shape };
  });
}

/** The outputs of a chain by calls of its ops, as the calls of a program. */
export function eagerly({ inputs, steps, outputs, shape }: RandomChain): Num[][] {
  const values: (Operand | Scalar)[] = inputs.slice();
  for (const { op, result, inputs: reads, parameters } of steps) {
    const operands = reads.map((value) => values[value]!);
    if (op === MAP.copy) values.push(dispatch(op, operands, { dtype: result.name }));
    else values.push(attempt(op, operands, parameters)!.outputs[0]!);
  }
  return outputs.map((s) => read(values[inputs.length + s] as Operand, shape));
}

/** The call of a chain. */
export function chainCall({ inputs, steps, outputs, shape }: RandomChain, out?: Operand[]): Call {
  return new Call(CHAIN, "chain", inputs.slice(), { steps, outputs, shape }, out ?? []);
}

/** The outputs of a chain as one call, which may write them to given ones. */
export function fused(chain: RandomChain, out?: Operand[]): Num[][] {
  const call = chainCall(chain, out);
  performCall(call);
  return call.outputs.map((out) => {
    assertEquals(out.layout.shape, chain.shape);
    return read(out);
  });
}

/** A description for messages. */
export function describeChain({ inputs, steps, outputs, shape }: RandomChain): string {
  const values = inputs.map((input) =>
    isOperand(input)
      ? `${input.storage.info.name}[${input.layout.shape}]/${input.layout.strides}`
      : String(input)
  );
  const lines = steps.map(({ op, compute, result, inputs: reads }, s) =>
    `${s + inputs.length} = ${op.name}(${reads}) in ${compute.name} to ${result.name}`
  );
  return `[${shape}] of ${values.join(", ")}: ${lines.join("; ")}; outputs ${outputs}`;
}

/** Names like those in generated code: of loops, temporaries, kernels, languages and functions. */
const NAMES = [
  ...("k0 k1 k10 A0 A1 A o B C p t0 t1 t0_ t1_ t0_l t1_h t2_x c0 c1 n0 n1 s0_0 s1_0 i0_0 i1_1 j0 j1 u v " +
    "ue ve w q d c e r rl rh s sum error position best end h a1 arrays numbers env slow low high words")
    .split(" "),
  ..."v0 v1 v_x v0_k v1_k v_v_x at i N in to from out0 work acc apply inputs operands pack".split(
    " ",
  ),
  ..."float double int auto const struct template class let return new this null undefined".split(
    " ",
  ),
  ..."NAN INFINITY RM_UNROLL rm_f32 rm_exp_f32 int64_t threadIdx nullptr constructor arguments"
    .split(" "),
  ...Object.keys(environment()),
].filter((name, i, all) => all.indexOf(name) === i);

/** An op for each of {@link NAMES}, which has a parameter of that name. */
const NAMED_OPS = NAMES.map((name, i) =>
  expressionOp({
    name: `named_${i}`,
    arity: 2,
    text: `x * ${name} + y`,
    gives: "number",
    parameters: [name],
  })
);

/** Chains of ops with parameters of all kinds of names, in several lengths, on `x` of float32. */
export function namedChains(x: Operand): RandomChain[] {
  const made: RandomChain[] = [];
  for (let at = 0, length = 1; at < NAMED_OPS.length; at += length, length = 1 + made.length % 24) {
    const ops = NAMED_OPS.slice(at, at + length);
    const steps = ops.map((op, s): ChainStep => ({
      op,
      compute: DTYPE.float32,
      result: DTYPE.float32,
      inputs: [s === 0 ? 0 : 3 + s - 1, s % 2 + 1],
      parameters: [(at + s) % 3 - 1],
    }));
    made.push({ inputs: [x, 2, 3], steps, outputs: [steps.length - 1], shape: x.layout.shape });
  }
  return made;
}

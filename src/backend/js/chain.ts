/**
 * Chains in JavaScript: one loop for all steps, with the rounding of the loops of each.
 *
 * @module
 */
import { DTYPE, type DTypeInfo, type TypedArray } from "../../base/dtype.ts";
import { type Plan, planMaps } from "../../base/plan.ts";
import { chainForm } from "../../ops/chain/op.ts";
import { readElement, writeElement } from "../../memory/element.ts";
import { isOperand } from "../../memory/operand.ts";
import { Storage } from "../../memory/storage.ts";
import type { ChainAttributes, ChainForm } from "../../ops/chain/steps.ts";
import { isCondition } from "../../ops/chain/steps.ts";
import type { Call } from "../../table/op.ts";
import { exprFor, MAP } from "../../table/table.ts";
import { Emitter, functionOf, number, parameterName, type Value } from "./emit.ts";
import { environment } from "./environment.ts";
import { header, mapLoops } from "./loops.ts";

/** A generated loop: the plan's numbers, the arrays of its operands, constants and parameters. */
type ChainLoop = (
  plan: Float64Array,
  arrays: readonly TypedArray[],
  numbers: readonly number[],
) => void;

/** The most loops that are kept: those used last. */
const MAX_LOOPS = 256;

/** The loops by what they depend on, the one used last at the end. */
const loops = new Map<string, ChainLoop>();

/** Whether a chain has a loop: 64-bit integers are pairs of words, which only single ops compute. */
export function runsChain({ inputs, attributes }: Call, generate: boolean): boolean {
  const { steps } = attributes as ChainAttributes;
  return generate && !inputs.some((input) => isOperand(input) && input.storage.info.wide) &&
    !steps.some(({ compute, result }) => compute.wide || result.wide);
}

/** Runs a chain. */
export function chain(call: Call): void {
  const form = chainForm(call);
  const { outputs } = call;
  const operands = [...outputs, ...form.operands];
  const plan = planMaps(
    outputs.map(({ layout }) => layout),
    form.operands.map(({ layout }) => layout),
  );
  if (plan.size === 0) return;
  const dtypes = operands.map(({ storage }) => storage.info);
  const key = keyOf(form, plan, dtypes);
  let loop = loops.get(key);
  if (loop === undefined) loop = compile(form, plan, dtypes, outputs.length);
  else loops.delete(key);
  loops.set(key, loop);
  if (loops.size > MAX_LOOPS) loops.delete(loops.keys().next().value!);
  loop(plan.data, operands.map(({ storage }) => storage.array), numbersOf(form));
}

function keyOf({ steps, outputs }: ChainForm, plan: Plan, dtypes: readonly DTypeInfo[]): string {
  const { rank, tiled, needsInt64Index, innerStrideKey } = plan;
  const texts = steps.map(({ op, compute, result, inputs }) =>
    `${op.id}.${compute.id}.${result.id}.${inputs.join(".")}`
  );
  const ids = dtypes.map(({ id }) => id).join(".");
  const variant = [rank, Number(tiled), Number(needsInt64Index), innerStrideKey].join(".");
  return `${texts.join(",")};${outputs.join(".")};${ids};${variant}`;
}

/** The constants, as elements of their dtypes, and the parameters of all steps. */
function numbersOf({ constants, steps }: ChainForm): number[] {
  const elements = constants.map(({ value, dtype }) => {
    const element = new Storage(new dtype.array(1), dtype, true, false);
    writeElement(element, 0, value);
    return Number(readElement(element, 0));
  });
  return [...elements, ...steps.flatMap(({ parameters }) => parameters)];
}

function compile(
  form: ChainForm,
  plan: Plan,
  dtypes: readonly DTypeInfo[],
  outputs: number,
): ChainLoop {
  const arrays = dtypes.map((_, k) => `A${k} = arrays[${k}]`);
  const constants = form.constants.map((_, c) => `k${c} = numbers[${c}]`);
  let next = constants.length;
  const parameters = form.steps.flatMap(({ op }, s) =>
    op.parameters.map((name) => `${parameterName(name, s)} = numbers[${next++}]`)
  );
  const source = [
    `const ${[...arrays, ...constants, ...parameters].join(", ")};`,
    header({ parameters: [] }, plan),
    ...mapLoops(plan, (strides, index) => bodyOf(form, dtypes, outputs, strides, index)),
  ].join("\n");
  return functionOf("chain", ["p", "arrays", "numbers"], source, environment()) as ChainLoop;
}

/** One element: all loads, all steps, all stores, so that outputs may be inputs. */
function bodyOf(
  { steps, outputs: made, operands }: ChainForm,
  dtypes: readonly DTypeInfo[],
  outputs: number,
  strides: readonly number[],
  index: (k: number) => string,
): { hoisted: string; body: string } {
  const emit = new Emitter();
  const values: [value: Value, dtype: DTypeInfo][] = [];
  const load = (k: number): void => {
    const dtype = dtypes[outputs + k]!;
    values[k] = [emit.load(dtype.name, `A${outputs + k}`, index(outputs + k)), dtype];
  };
  for (let k = 0; k < operands.length; k++) if (strides[outputs + k] === 0) load(k);
  const hoisted = emit.take();
  for (let k = 0; k < operands.length; k++) if (strides[outputs + k] !== 0) load(k);
  steps.forEach(({ op, compute, result, inputs }, s) => {
    const names: Record<string, Value> = {};
    inputs.forEach((input, k) => {
      const name = "xyz"[k]!;
      if (input < 0) names[name] = number(`k${-1 - input}`);
      else {
        const [value, dtype] = values[input]!;
        names[name] = isCondition(op, k) ? value : castTo(emit, value, dtype, compute);
      }
    });
    for (const name of op.parameters) names[name] = number(parameterName(name, s));
    const value = op === MAP.copy
      ? castTo(emit, names["x"]!, compute, result)
      : rounded(emit, emit.compute(exprFor(op, compute.kind), names, compute.name, true), result);
    values.push([held(emit, value), result]);
  });
  made.forEach((s, k) =>
    emit.store(dtypes[k]!.name, `A${k}`, index(k), values[operands.length + s]![0])
  );
  return { hoisted, body: emit.take() };
}

/** Casts as a store and a load would: no integer is -0. */
function castTo(emit: Emitter, value: Value, from: DTypeInfo, to: DTypeInfo): Value {
  const cast = emit.cast(value, from.name, to.name);
  const truncates = from.kind === "f" && (to.kind === "i" || to.kind === "u");
  return truncates && cast.kind === "number" ? number(emit.hold(`${cast.text} + 0`)) : cast;
}

/** The result of an expression as an element of its dtype; comparisons give booleans. */
function rounded(emit: Emitter, value: Value, dtype: DTypeInfo): Value {
  if (dtype !== DTYPE.bool || value.kind !== "number") return emit.settle(value, dtype.name);
  return number(`(${value.text} ? 1 : 0)`);
}

/** A value that several steps may read. */
function held(emit: Emitter, value: Value): Value {
  return value.kind === "number" && !/^\w+$/.test(value.text)
    ? number(emit.hold(value.text))
    : value;
}

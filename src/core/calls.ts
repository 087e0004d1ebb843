/**
 * State that dispatch keeps between calls: pooled calls, the layout and operands of scalars, and the
 * calls that are made of others.
 *
 * @module
 */
import { type Complex, DTYPE, type DTypeInfo, type Scalar } from "../base/dtype.ts";
import { OpError } from "../base/errors.ts";
import { Layout } from "../base/layout.ts";
import { ATTRIBUTES, type Plan } from "../base/plan.ts";
import { formatShape, sameShape } from "../base/shape.ts";
import { writeElement } from "../memory/element.ts";
import { isOperand, type Operand } from "../memory/operand.ts";
import { Storage } from "../memory/storage.ts";
import { Call, type ElementOp, type Input, type Op } from "../table/op.ts";

/**
 * The pooled call of `op`, or a new one if that is in use or was lost to an error. Values equal to
 * the last ones are not written again: writing a reference costs more than a comparison.
 */
export function takeCall(op: Op, name: string, inputs: number, attributes: unknown): Call {
  const call = op.idle;
  if (call === null || call.inputs.length !== inputs) {
    const all: Input[] = new Array(inputs).fill(undefined);
    // The place of an output is empty before the call, which no reader of outputs has to consider.
    return new Call(op, name, all, attributes, [undefined as never]);
  }
  op.idle = null;
  if (call.name !== name) call.name = name;
  if (attributes !== undefined) call.attributes = attributes;
  return call;
}

/** Ends a call from {@link takeCall}, clears its references, and returns its first output. */
export function giveCall(call: Call): Operand {
  const { inputs, outputs } = call;
  const result = outputs[0]!;
  const count = inputs.length;
  inputs[0] = undefined;
  if (count > 1) inputs[1] = undefined;
  if (count > 2) inputs[2] = undefined;
  // Empty, as before the call.
  outputs[0] = undefined as never;
  call.memo = undefined;
  call.attributes = undefined;
  call.op.idle = call;
  return result;
}

/** The layout of a single element. */
export const SCALAR_LAYOUT: Layout = Layout.contiguous([]);

/** Operands of one element on the CPU, for scalars: by slot and dtype. */
const scalars: Operand[][] = [[], [], []];

/** An operand with the value `value`, valid until the next use of the same slot. */
export function scalarOperand(value: Scalar | Complex, info: DTypeInfo, slot: number): Operand {
  const operand = scalars[slot]![info.id] ??= {
    storage: new Storage(new info.array(info.lanes), info, true, false),
    layout: SCALAR_LAYOUT,
    flags: 0,
  };
  // The two most frequent dtypes; each line sees one class of arrays.
  if (info === DTYPE.float32) (operand.storage.array as Float32Array)[0] = Number(value);
  else if (info === DTYPE.float64) (operand.storage.array as Float64Array)[0] = Number(value);
  else writeElement(operand.storage, 0, value);
  return operand;
}

/**
 * Writes the numbers of the op's expressions into the plan; `count` is the number of reduced
 * elements.
 */
export function setParameters(
  plan: Plan,
  op: ElementOp,
  attributes: Record<string, number | boolean | undefined> | undefined,
  count: number,
): void {
  op.parameters.forEach((name, i) =>
    plan.data[ATTRIBUTES + i] = name === "count"
      ? Math.max(0, count - Number(attributes?.["correction"] ?? 0))
      : Number(attributes?.[name])
  );
}

// ---- calls made of others ------------------------------------------------------------------------

/** A call whose parts run, and the one that it is a part of. */
interface Composed {
  readonly call: Call;
  readonly outer: Composed | null;
  readonly depth: number;
}

/** The innermost call whose parts run. */
let innermost: Composed | null = null;

/** Calls that are this deep within others are compared with those. */
const DEEP = 64;

/**
 * Runs `body`, the parts of `call`.
 *
 * Throws an OpError if an op is made of itself, for operands of the same kinds: it would never end.
 */
export function composed<R>(call: Call, body: () => R): R {
  const outer = innermost;
  const depth = outer === null ? 1 : outer.depth + 1;
  if (depth % DEEP === 0) checkProgress(call, outer);
  innermost = { call, outer, depth };
  try {
    return body();
  } finally {
    innermost = outer;
  }
}

function checkProgress(call: Call, outer: Composed | null): void {
  let count = 0;
  for (let at = outer; at !== null; at = at.outer) if (isSameKind(at.call, call)) count++;
  // Several ops may be made of one another.
  if (count < DEEP / 8) return;
  const shapes = call.inputs.filter(isOperand).map(({ layout, storage }) =>
    `${storage.info.name} ${formatShape(layout.shape)}`
  );
  throw new OpError(
    `Cannot ${call.name} ${shapes.join(", ")}: the op is made of itself, endlessly`,
  );
}

/** Whether the parts of two calls are the same: these depend on no values. */
function isSameKind(a: Call, b: Call): boolean {
  if (a.op !== b.op || a.inputs.length !== b.inputs.length) return false;
  const own: Record<string, unknown> = a.attributes ?? {}, other = b.attributes ?? {};
  const keys = Object.keys(own);
  if (keys.length !== Object.keys(other).length) return false;
  return keys.every((key) => Object.is(own[key], other[key])) && a.inputs.every((x, k) => {
    const y = b.inputs[k];
    if (!isOperand(x) || !isOperand(y)) return Object.is(x, y);
    return x.storage.info === y.storage.info && x.storage.device === y.storage.device &&
      x.layout.offset === y.layout.offset && sameShape(x.layout.shape, y.layout.shape) &&
      sameShape(x.layout.strides, y.layout.strides);
  });
}

/**
 * The memory traffic and the arithmetic of calls, from the shapes of their operands.
 *
 * @module
 */
import { sizeOf } from "../base/shape.ts";
import { CHAIN } from "../ops/chain/op.ts";
import { isOperand, type Operand } from "../memory/operand.ts";
import type { ConvWeightAttributes } from "../ops/conv/problem.ts";
import type { ChainAttributes } from "../ops/chain/steps.ts";
import { isTableOp, type Op } from "../table/op.ts";

/** The cost of a call; undefined where it is unknown. */
export interface Cost {
  /** The bytes of the inputs read and of the outputs written. */
  readonly bytes: number | undefined;
  /** The number of operations on numbers. */
  readonly flops: number | undefined;
}

/** What the cost of a call depends on, besides its inputs. */
export interface CostedCall {
  readonly op: Op;
  readonly outputs: readonly Operand[];
  readonly attributes: unknown;
}

const elementsIn = (x: Operand): number => x.layout.size;
const last = ({ layout: { shape } }: Operand): number => shape.at(-1) ?? 1;

/** The bytes of the different elements of `x`: those along stride 0 are one. */
function bytesOf({ layout: { shape, strides, size }, storage: { info } }: Operand): number {
  if (size === 0) return 0;
  const distinct = shape.reduce((n, length, i) => strides[i] === 0 ? n : n * length, 1);
  return distinct * info.bytes;
}

/** The bytes of operands, each counted once. */
const sum = (all: readonly Operand[]): number =>
  [...new Set(all)].reduce((n, x) => n + bytesOf(x), 0);

const product = (inputs: readonly Operand[], [out]: readonly Operand[]): number =>
  2 * elementsIn(out!) * last(inputs[0]!);

/** The number of operations of kernel ops with a formula of their own. */
const FLOPS: Readonly<
  Record<
    string,
    (inputs: readonly Operand[], outputs: readonly Operand[], attributes: unknown) => number
  >
> = {
  matmul: product,
  linear: product,
  linearPacked: product,
  attention: ([q, k, v], [out]) => {
    const keys = k!.layout.shape.at(-2)!;
    const rows = elementsIn(out!) / Math.max(1, last(v!));
    return 2 * rows * keys * (last(q!) + last(v!));
  },
  conv: ([, weight], [out]) => {
    const { shape, size } = weight!.layout;
    return 2 * elementsIn(out!) * size / Math.max(1, shape[0]!);
  },
  convLast: (_, [out], attributes) =>
    2 * elementsIn(out!) * sizeOf((attributes as ConvWeightAttributes).weight.slice(1)),
  outer: (_, [out]) => elementsIn(out!),
};

function flopsOf(
  { op, outputs, attributes }: CostedCall,
  inputs: readonly Operand[],
): number | undefined {
  if (op === CHAIN) {
    const { steps, shape } = attributes as ChainAttributes;
    const size = sizeOf(shape);
    return size * steps.filter((step) => step.op.name !== "copy").length;
  }
  if (op.kind === "view" || op.moves || op.name === "copy") return 0;
  if (op.kind === "map") return elementsIn(outputs[0]!);
  if (isTableOp(op)) return elementsIn(inputs[0]!);
  return FLOPS[op.name]?.(inputs, outputs, attributes);
}

/** Ops that read as many elements of the first input as they give, at the places of the others. */
const GATHERS: ReadonlySet<string> = new Set(["gather", "index", "take", "takeAlongAxis"]);

/** The traffic of an op that writes its first input. */
function writtenBytes(call: CostedCall, inputs: readonly Operand[]): number | undefined {
  const [target, second] = inputs;
  switch (call.op.name) {
    case "random":
      return bytesOf(target!);
    case "ravelIndex":
      return 2 * bytesOf(target!) + bytesOf(second!);
    case "scatter":
      return sum(inputs.slice(1)) + elementsIn(second!) * target!.storage.info.bytes;
    case "scatterAdd":
      return sum(inputs.slice(1)) + 2 * elementsIn(second!) * target!.storage.info.bytes;
    default:
      // How many elements an index selects is known only to its parts.
      return undefined;
  }
}

/**
 * The cost of a call that has run, with the inputs that it had before; `views` are outputs that
 * only show memory of the inputs.
 */
export function costOf(
  call: CostedCall,
  inputs: readonly Operand[],
  views: readonly Operand[],
): Cost {
  const flops = flopsOf(call, inputs);
  const { op } = call;
  if (op.writes !== undefined) return { bytes: writtenBytes(call, inputs), flops };
  const written = call.outputs.filter((out) => isOperand(out) && !views.includes(out));
  // Creation without a copy.
  if (op.name === "fromBuffer" || written.length === 0) return { bytes: 0, flops };
  const read = GATHERS.has(op.name) ? sum(written) + sum(inputs.slice(1)) : sum(inputs);
  return { bytes: read + sum(written), flops };
}

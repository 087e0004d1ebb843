/**
 * Recurrent layers as one op: all steps of an LSTM, a GRU or a plain layer, from the products with their
 * inputs, with all options of PyTorch's modules and of ONNX's operators.
 *
 * @module
 */
import { DTYPE, type DType } from "../../base/dtype.ts";
import { ArgumentError, ShapeError } from "../../base/errors.ts";
import { formatShape, sameShape } from "../../base/shape.ts";
import { describe } from "../../base/text.ts";
import { apply, applyInto, applyView } from "../../core/apply.ts";
import { cast, contiguousCopy, writeCopy, writeValue } from "../../core/copy.ts";
import { dispatchAll } from "../../core/dispatch.ts";
import { tidy } from "../../core/handles.ts";
import { kernelCopy } from "../../core/prepare.ts";
import { rowDType } from "../softmax_norm/problem.ts";
import { empty, part } from "../../core/composite.ts";
import { isOperand, type Operand } from "../../memory/operand.ts";
import { checkDevice, checkKind, checkOperand } from "../../table/infer.ts";
import { type Call, type Input, makeOp, type Op, type OutputSpec } from "../../table/op.ts";
import { MAP } from "../../table/table.ts";
import { VIEWS } from "../../table/views.ts";
import { AFFINE, expression } from "../chain/expression.ts";
import { fullOperand } from "../create/full.ts";
import { concat, stack } from "../join/op.ts";
import { bytesGroup, matmulInteger, packBytes } from "../linear/bytes.ts";
import { linear } from "../linear/op.ts";
import { GROUP_ROWS } from "../quantized/groups.ts";
import { quantizeDynamic, roundToBytes } from "../reduce/quantize_dynamic.ts";

/** The kinds of layers. */
export const CELLS = ["lstm", "gru", "plain"] as const;
export type Cell = (typeof CELLS)[number];

/** The gates of each kind, and the tensors of its state. */
export const CELL_SIZES = {
  lstm: { gates: 4, states: 2 },
  gru: { gates: 3, states: 1 },
  plain: { gates: 1, states: 1 },
} as const satisfies Record<Cell, object>;

/**
 * The places of the gates among the rows of weights: input, output, forget and cell gate; update, reset
 * and new gate, of which the last one comes last; 0.
 */
export const GATE_ORDERS = {
  onnx: { lstm: [0, 1, 2, 3], gru: [0, 1, 2], plain: [0] },
  torch: { lstm: [0, 3, 1, 2], gru: [1, 0, 2], plain: [0] },
} as const;

/** The name of an activation, as ONNX has it in lower camel case. */
export type RecurrentFunction =
  | "sigmoid"
  | "tanh"
  | "relu"
  | "affine"
  | "leakyRelu"
  | "thresholdedRelu"
  | "scaledTanh"
  | "hardSigmoid"
  | "elu"
  | "softsign"
  | "softplus";

/** An activation with its numbers. */
export interface RecurrentActivation {
  readonly name: RecurrentFunction;
  readonly alpha?: number | undefined;
  readonly beta?: number | undefined;
}

/** A function of the op table, or an expression with its parameters and their defaults. */
interface Activation {
  readonly op: (typeof MAP)["tanh" | "sigmoid" | "relu"] | ReturnType<typeof expression>;
  readonly defaults: Readonly<{ alpha?: number; beta?: number }>;
}

const own = (
  name: string,
  text: string,
  defaults: Activation["defaults"],
): Activation => ({ op: expression(`recurrent_${name}`, text, Object.keys(defaults)), defaults });

/** The activations, with ONNX's defaults. */
const FUNCTIONS: Readonly<Record<RecurrentFunction, Activation>> = {
  sigmoid: { op: MAP.sigmoid, defaults: {} },
  tanh: { op: MAP.tanh, defaults: {} },
  relu: { op: MAP.relu, defaults: {} },
  affine: own("affine", "alpha * x + beta", { alpha: 1, beta: 0 }),
  leakyRelu: own("leakyRelu", "x >= 0 ? x : alpha * x", { alpha: 0.01 }),
  thresholdedRelu: own("thresholdedRelu", "x >= alpha ? x : 0", { alpha: 1 }),
  scaledTanh: own("scaledTanh", "alpha * tanh(beta * x)", { alpha: 1, beta: 1 }),
  hardSigmoid: own("hardSigmoid", "minimum(maximum(alpha * x + beta, 0), 1)", {
    alpha: 0.2,
    beta: 0.5,
  }),
  elu: own("elu", "x >= 0 ? x : alpha * expm1(x)", { alpha: 1 }),
  softsign: own("softsign", "x / (1 + fabs(x))", {}),
  softplus: own("softplus", "logaddexp(x, 0)", {}),
};

/** The names of all activations. */
export const RECURRENT_FUNCTIONS = Object.keys(FUNCTIONS) as RecurrentFunction[];

/** Attributes of {@link RECURRENT}; those with a default may be missing. */
export interface RecurrentAttributes {
  readonly cell: Cell;
  /** The places of the gates; ONNX's by default. */
  readonly gates?: readonly number[];
  /** For each direction, whether it runs from the last step to the first; one that does not by default. */
  readonly reversed?: readonly boolean[];
  /**
   * For each direction, the activations: of the input, output and forget gates, of the cell gate and of
   * the cell; of the update and reset gates and of the new gate; of the state. σ, tanh and tanh; σ and
   * tanh; tanh by default.
   */
  readonly activations?: readonly (readonly RecurrentActivation[])[];
  /** The limit of the sums that gates get, and its negative; none by default. */
  readonly clip?: number;
  /**
   * Of a GRU, whether the reset gate multiplies the product of the state and the weight, with its bias;
   * the state by default.
   */
  readonly resetsAfter?: boolean;
  /** Of an LSTM, whether the forget gate is 1 less the input gate. */
  readonly coupled?: boolean;
}

/** The places of the inputs. */
export const RECURRENT_INPUTS = {
  products: 0,
  weight: 1,
  initial: 2,
  peepholes: 3,
  bias: 4,
  lengths: 5,
  scales: 6,
} as const;

/** The sizes of a call. */
export interface RecurrentSizes {
  readonly steps: number;
  readonly batch: number;
  readonly size: number;
  readonly directions: number;
}

/** The sizes of an inferred call. */
export function recurrentSizes(call: Call): RecurrentSizes {
  const [steps, batch, directions, size] = call.specs[0]!.shape as [number, number, number, number];
  return { steps, batch, directions, size };
}

const DEFAULTS: Readonly<Record<Cell, readonly RecurrentActivation[]>> = {
  lstm: [{ name: "sigmoid" }, { name: "tanh" }, { name: "tanh" }],
  gru: [{ name: "sigmoid" }, { name: "tanh" }],
  plain: [{ name: "tanh" }],
};

/** The activations of a direction. */
export function activationsOf(
  { cell, activations }: RecurrentAttributes,
  direction: number,
): readonly RecurrentActivation[] {
  return activations?.[direction] ?? DEFAULTS[cell];
}

// ---- checks ------------------------------------------------------------------------------------

function checkAttributes(name: string, attributes: RecurrentAttributes): number {
  const { cell, gates, reversed = [false], activations, clip } = attributes;
  const fail = (what: string, given: unknown, wanted: string): ArgumentError =>
    new ArgumentError(`Cannot ${name} with ${what} ${describe(given)}: it is ${wanted}`);
  if (!CELLS.includes(cell)) throw fail("cell", cell, `one of ${CELLS.join(", ")}`);
  if (reversed.length < 1 || reversed.length > 2) {
    throw fail("directions", reversed.length, "1 or 2");
  }
  const count = CELL_SIZES[cell].gates;
  const isOrder = gates === undefined || (gates.length === count &&
    gates.every((_, i) => gates.includes(i)) && (cell !== "gru" || gates[2] === 2));
  if (!isOrder) throw fail("gates", gates, `the places of ${count} gates, of a GRU the last one 2`);
  if (clip !== undefined && !(clip > 0)) throw fail("clip", clip, "a number above 0");
  if (activations !== undefined && activations.length !== reversed.length) {
    throw fail("activations", activations.length, `${reversed.length} lists`);
  }
  for (let d = 0; d < reversed.length; d++) {
    const list = activationsOf(attributes, d);
    if (list.length !== DEFAULTS[cell].length) {
      throw fail("activations", list.length, `${DEFAULTS[cell].length} functions`);
    }
    for (const one of list) {
      if (!RECURRENT_FUNCTIONS.includes(one.name)) {
        throw fail("activation", one.name, `one of ${RECURRENT_FUNCTIONS.join(", ")}`);
      }
    }
  }
  return reversed.length;
}

function infer(call: Call): readonly OutputSpec[] {
  const { inputs, name } = call;
  const attributes = call.attributes as RecurrentAttributes;
  const directions = checkAttributes(name, attributes);
  const { gates, states } = CELL_SIZES[attributes.cell];
  const [products, weight] = inputs;
  checkOperand(products, name);
  checkOperand(weight, name);
  const { info } = products.storage;
  const { shape } = products.layout;
  const [initial, scales] = [inputs[RECURRENT_INPUTS.initial], inputs[RECURRENT_INPUTS.scales]];
  const isOfBytes = scales !== undefined;
  if (isOfBytes && attributes.cell !== "lstm") {
    throw new ArgumentError(`Cannot ${name} with a weight of bytes: only an LSTM has one`);
  }
  checkOperand(initial, name);
  const size = (isOfBytes ? initial : weight).layout.shape.at(-1) ?? 0;
  if (shape.length !== 3) {
    throw new ShapeError(
      `Cannot ${name} products of shape ${formatShape(shape)}: they have steps, a batch and gates`,
    );
  }
  const [steps, batch] = shape as [number, number];
  const wanted: Readonly<Record<keyof typeof RECURRENT_INPUTS, readonly number[]>> = {
    products: [steps, batch, directions * gates * size],
    weight: isOfBytes
      ? [directions, Math.ceil(gates * size / GROUP_ROWS), bytesGroup(size)]
      : [directions, gates * size, size],
    initial: [states, directions, batch, size],
    peepholes: [directions, 3 * size],
    bias: [directions, size],
    lengths: [batch],
    scales: [directions, gates * size],
  };
  for (const key in wanted) {
    const what = key as keyof typeof wanted;
    const x = inputs[RECURRENT_INPUTS[what]];
    if (x === undefined && RECURRENT_INPUTS[what] > RECURRENT_INPUTS.initial) continue;
    checkOperand(x, name);
    checkDevice(products.storage, x.storage, name);
    const isInteger = what === "lengths" || what === "weight" && isOfBytes;
    checkKind(x.storage.info, isInteger ? "iu" : "f", name);
    if (sameShape(x.layout.shape, wanted[what])) continue;
    throw new ShapeError(
      `Cannot ${name} with ${what} of shape ${formatShape(x.layout.shape)}: it must have shape ` +
        formatShape(wanted[what]),
    );
  }
  return [
    { shape: [steps, batch, directions, size], dtype: info },
    { shape: [states, directions, batch, size], dtype: info },
  ];
}

// ---- by other ops ------------------------------------------------------------------------------

const KEPT = expression("kept", "x * y + z");
const COUPLED = expression("coupled", "(1 - x) * y + z");
const BLENDED = expression("blended", "y + x * (z - y)");

/** The operands of one direction. */
interface Direction {
  readonly weight: Operand;
  /** The scales of the columns of a weight of bytes. */
  readonly scales: Operand | undefined;
  readonly peepholes: Operand | undefined;
  readonly bias: Operand | undefined;
  readonly activations: readonly RecurrentActivation[];
}

function at(x: Operand, axis: number, index: number): Operand {
  return part(x, x.layout.selectAxis(axis, index));
}

/** Columns or elements [from, from + count) of the last axis. */
function cut(x: Operand, from: number, count: number): Operand {
  return part(x, x.layout.sliceAxis(x.layout.rank - 1, from, count, 1));
}

function activate(
  { clip }: RecurrentAttributes,
  { name, alpha, beta }: RecurrentActivation,
  x: Operand,
): Operand {
  const { op, defaults } = FUNCTIONS[name];
  const limited = clip === undefined || clip === Infinity ? x : apply(MAP.clip, x, -clip, clip);
  const numbers = { alpha: alpha ?? defaults.alpha, beta: beta ?? defaults.beta };
  const { parameters } = op;
  if (parameters.length === 0) return apply(op, limited);
  const attributes = Object.fromEntries(
    parameters.map((key) => [key, numbers[key as "alpha" | "beta"]]),
  );
  return applyInto(op, "recurrent", limited, undefined, undefined, undefined, attributes);
}

const compute = (op: typeof KEPT, x: Operand, y: Operand, z: Operand): Operand =>
  applyInto(op, "recurrent", x, y, z, undefined);

/** The product of states [B, H], rounded to bytes row by row, with groups of bytes, plus `add`. */
function byteProduct(states: Operand, groups: Operand, scales: Operand, add: Operand): Operand {
  const { bytes, scale, zero } = roundToBytes(states, 1);
  const [depth, columns] = [states.layout.shape[1]!, scales.layout.size];
  const sums = matmulInteger("recurrent", bytes, { groups, depth, columns }, zero);
  return compute(AFFINE, cast(sums, "float32"), apply(MAP.mul, scale, scales), add);
}

/** The states after a step, from the product with its input. */
function step(
  attributes: RecurrentAttributes,
  { weight, scales, peepholes, bias, activations: [f, g, h] }: Direction,
  input: Operand,
  [state, cell]: readonly Operand[],
): Operand[] {
  const { cell: kind, coupled, resetsAfter } = attributes;
  const gates: readonly number[] = attributes.gates ?? GATE_ORDERS.onnx[kind];
  const n = state!.layout.shape[1]!;
  const gateOf = (x: Operand, k: number): Operand => cut(x, gates[k]! * n, n);
  if (kind === "plain") {
    return [activate(attributes, f!, linear(state!, weight, undefined, { add: input }))];
  }
  if (kind === "gru") {
    const rows = (first: number, count: number): Operand =>
      part(weight, weight.layout.sliceAxis(0, first * n, count * n, 1));
    const own = linear(state!, rows(0, 2), undefined, { add: cut(input, 0, 2 * n) });
    const both = activate(attributes, f!, own);
    const [update, reset] = [gateOf(both, 0), gateOf(both, 1)];
    const last = rows(2, 1), added = cut(input, 2 * n, n);
    const sum = resetsAfter
      ? compute(AFFINE, reset, linear(state!, last, bias), added)
      : linear(apply(MAP.mul, reset, state!), last, bias, { add: added });
    return [compute(BLENDED, update, activate(attributes, g!, sum), state!)];
  }
  const sums = scales === undefined
    ? linear(state!, weight, undefined, { add: input })
    : byteProduct(state!, weight, scales, input);
  const peeking = (k: number, from: Operand): Operand => {
    const sum = gateOf(sums, k);
    return peepholes === undefined ? sum : compute(AFFINE, cut(peepholes, k * n, n), from, sum);
  };
  const entered = activate(attributes, f!, peeking(0, cell!));
  const added = apply(MAP.mul, entered, activate(attributes, g!, gateOf(sums, 3)));
  const made = coupled
    ? compute(COUPLED, entered, cell!, added)
    : compute(KEPT, activate(attributes, f!, peeking(2, cell!)), cell!, added);
  const shown = activate(attributes, f!, peeking(1, made));
  return [apply(MAP.mul, shown, activate({ cell: kind }, h!, made)), made];
}

/** The definition, of operands of one dtype of at least 32 bits. */
function decompose(call: Call): Operand[] {
  const { steps, batch, size, directions } = recurrentSizes(call);
  const attributes = call.attributes as RecurrentAttributes;
  const { cell, reversed = [false] } = attributes;
  const { gates, states } = CELL_SIZES[cell];
  const [products, weight, initial, peepholes, bias, lengths, scales] = call.inputs as (
    | Operand
    | undefined
  )[];
  const [outputs, finals] = call.specs.map(({ shape }) => empty(shape, products!));
  if (size === 0 || batch === 0) return [outputs!, finals!];
  for (let d = 0; d < directions; d++) {
    const direction: Direction = {
      weight: at(weight!, 0, d),
      scales: scales && at(scales, 0, d),
      peepholes: peepholes && at(peepholes, 0, d),
      bias: bias && at(bias, 0, d),
      activations: activationsOf(attributes, d),
    };
    let state = Array.from({ length: states }, (_, s) => at(at(initial!, 0, s), 0, d));
    for (let k = 0; k < steps; k++) {
      const t = reversed[d] ? steps - 1 - k : k;
      state = tidy(() => {
        const input = cut(at(products!, 0, t), d * gates * size, gates * size);
        const made = step(attributes, direction, input, state);
        const out = at(at(outputs!, 0, t), 1, d);
        if (lengths === undefined) {
          writeCopy(out, made[0]!);
          return made;
        }
        // A sequence that is over keeps its state.
        const column = applyView(VIEWS.reshape, lengths, "reshape", [batch, 1]);
        const runs = apply(MAP.greater, column, t);
        writeCopy(out, apply(MAP.where, runs, made[0]!, 0));
        return made.map((one, s) => apply(MAP.where, runs, one, state[s]!));
      });
    }
    state.forEach((one, s) => writeCopy(at(at(finals!, 0, s), 0, d), one));
  }
  if (steps === 0) writeValue(outputs!, 0);
  return [outputs!, finals!];
}

/**
 * All steps of a layer. Inputs: the products with the inputs, with biases [T, B, D · G · H]; the
 * recurrent weight [D, G · H, H]; the first states [S, D, B, H], of an LSTM those of the cells second;
 * peepholes [D, 3 · H] of the input, output and forget gate; the bias of the product of a GRU's new gate
 * [D, H]; how many steps each sequence has [B]; the scales [D, 4 · H] of the columns of an LSTM's weight,
 * which is groups of bytes then, so that rows of the state are rounded to bytes in each step. Outputs: the state after each step [T, B, D, H], 0 after
 * the last one of a sequence, and the last states [S, D, B, H].
 */
export const RECURRENT: Op = makeOp({
  kind: "kernel",
  name: "recurrent",
  contiguous: [0, 1, 2, 3, 4, 5, 6],
  infer,
  prepare(call) {
    const { dtype } = call.specs[0]!;
    let inputs: Input[] | null = null;
    call.inputs.forEach((x, i) => {
      if (!isOperand(x)) return;
      const wanted = i === RECURRENT_INPUTS.lengths ? DTYPE.int32 : dtype;
      const isOfBytes = i === RECURRENT_INPUTS.weight && x.storage.info === DTYPE.int8;
      if (isOfBytes || x.storage.info === wanted) return;
      inputs ??= call.inputs.slice();
      inputs[i] = kernelCopy(x, wanted);
    });
    return inputs === null ? null : { inputs };
  },
  decompose,
});

/** The operands of {@link recurrent} that may be missing. */
export interface RecurrentOptions {
  readonly peepholes?: Operand | undefined;
  readonly bias?: Operand | undefined;
  readonly lengths?: Operand | undefined;
  /** The scales of a weight of bytes. */
  readonly scales?: Operand | undefined;
}

/** The outputs and the last states of a layer; see {@link RECURRENT}. */
export function recurrent(
  name: string,
  products: Operand,
  weight: Operand,
  initial: Operand,
  attributes: RecurrentAttributes,
  { peepholes, bias, lengths, scales }: RecurrentOptions = {},
): [outputs: Operand, states: Operand] {
  const inputs: Input[] = [products, weight, initial, peepholes, bias, lengths, scales];
  while (inputs.at(-1) === undefined) inputs.pop();
  const [outputs, states] = dispatchAll(RECURRENT, inputs, attributes, name);
  return [outputs!, states!];
}

/** The weights of {@link recurrentLayer}. */
export interface RecurrentLayerWeights {
  /** [D, G · H, I] */
  readonly w: Operand;
  /** [D, G · H, H] */
  readonly r: Operand;
  /** The biases of both products: [D, 2 · G · H]. */
  readonly b?: Operand | undefined;
  /** Peepholes of an LSTM: [D, 3 · H]. */
  readonly p?: Operand | undefined;
}

/** The first states of {@link recurrentLayer}, zeros by default, and the lengths of its sequences. */
export interface RecurrentLayerInputs {
  /** [D, B, H] */
  readonly hidden?: Operand | undefined;
  /** [D, B, H] */
  readonly cell?: Operand | undefined;
  /** [B] */
  readonly lengths?: Operand | undefined;
}

/** The states after each step [T, B, D, H], and the last ones: [D, B, H] each. */
export interface RecurrentResults {
  readonly output: Operand;
  readonly hidden: Operand;
  readonly cell: Operand | undefined;
}

/**
 * A layer with inputs x: [T, B, I], as ONNX's LSTM, GRU and RNN define it: the product with all inputs,
 * then {@link recurrent}. Gives the states after each step [T, B, D, H], and the last ones: [D, B, H]
 * each. 16-bit floats are computed in float32.
 */
export function recurrentLayer(
  name: string,
  x: Operand,
  given: RecurrentLayerWeights,
  attributes: RecurrentAttributes,
  { hidden, cell, lengths }: RecurrentLayerInputs = {},
): RecurrentResults {
  checkAttributes(name, attributes);
  return tidy(() => {
    const { gates } = CELL_SIZES[attributes.cell];
    const { name: dtype } = x.storage.info, wide = rowDType(x.storage.info).name;
    const [w, r] = [cast(given.w, wide), cast(given.r, wide)];
    const [b, p] = [given.b && cast(given.b, wide), given.p && cast(given.p, wide)];
    const [directions, rows, columns] = w.layout.shape as [number, number, number];
    const size = rows / gates;
    const wanted = [directions, 2 * rows];
    if (b !== undefined && !sameShape(b.layout.shape, wanted)) {
      throw new ShapeError(
        `Cannot ${name} with biases of shape ${
          formatShape(b.layout.shape)
        }: they must have shape ` +
          formatShape(wanted),
      );
    }
    const flat = (one: Operand, shape: number[]): Operand =>
      applyView(VIEWS.reshape, one, "reshape", shape);
    const columnsOf = (one: Operand, from: number, count: number): Operand =>
      applyView(VIEWS.narrow, one, "narrow", 1, from, count);
    let sum: Operand | undefined, bias: Operand | undefined;
    if (b !== undefined) {
      const [first, second] = [columnsOf(b, 0, rows), columnsOf(b, rows, rows)];
      if (attributes.cell === "gru" && attributes.resetsAfter) {
        bias = columnsOf(second, 2 * size, size);
        const own = apply(MAP.add, columnsOf(first, 0, 2 * size), columnsOf(second, 0, 2 * size));
        sum = concat([own, columnsOf(first, 2 * size, size)], 1);
      } else sum = apply(MAP.add, first, second);
    }
    const products = linear(
      cast(x, wide),
      flat(w, [directions * rows, columns]),
      sum && flat(sum, [directions * rows]),
    );
    const options = { peepholes: p, bias, lengths };
    return fromProducts(name, products, r, attributes, { hidden, cell }, options, dtype);
  });
}

/** The last part of a layer: all steps, from the products with the inputs. */
function fromProducts(
  name: string,
  products: Operand,
  weight: Operand,
  attributes: RecurrentAttributes,
  { hidden, cell }: RecurrentLayerInputs,
  options: RecurrentOptions,
  dtype: DType,
): RecurrentResults {
  const { gates, states } = CELL_SIZES[attributes.cell];
  const { storage: { info, device }, layout: { shape: [, batch, columns] } } = products;
  const directions = attributes.reversed?.length ?? 1;
  const shape = [directions, batch!, columns! / gates / directions];
  const firsts = [hidden, cell].slice(0, states).map((one): Operand => {
    if (one === undefined) return fullOperand(name, shape, 0, info.name, device);
    if (sameShape(one.layout.shape, shape)) return cast(one, info.name);
    throw new ShapeError(
      `Cannot ${name} with first states of shape ${formatShape(one.layout.shape)}: they must ` +
        `have shape ${formatShape(shape)}`,
    );
  });
  const initial = states === 1
    ? applyView(VIEWS.expandDims, firsts[0]!, "expandDims", 0)
    : stack(firsts, 0);
  const [output, last] = recurrent(name, products, weight, initial, attributes, options);
  const stateOf = (s: number): Operand =>
    cast(applyView(VIEWS.selectAxis, last, "selectAxis", 0, s), dtype);
  return {
    output: cast(output, dtype),
    hidden: stateOf(0),
    cell: states === 2 ? stateOf(1) : undefined,
  };
}

/** The weights of {@link lstmOfBytes}; see {@link packLstm}. */
export interface PackedLstm {
  /** The groups of both products, one after the other: int8. */
  readonly groups: Operand;
  readonly directions: number;
  /** The lengths of inputs and states. */
  readonly inputs: number;
  readonly size: number;
}

/** A weight of bytes of an LSTM. */
export interface LstmBytes {
  /** [D, I, 4 · H], or [D, H, 4 · H] for the states. */
  readonly weight: Operand;
  /** Zero points, of the dtype of the weight: [D], or [D, 4 · H]. */
  readonly zeros?: Operand | undefined;
}

/** Scales or zero points as [D, 4 · H]. */
function perColumn(name: string, given: Operand, directions: number, columns: number): Operand {
  const { shape, size } = given.layout;
  const isOne = size === directions;
  if (!isOne && !sameShape(shape, [directions, columns])) {
    throw new ShapeError(
      `Cannot ${name} with scales or zero points of shape ${formatShape(shape)}: they have ` +
        `${formatShape([directions])} or ${formatShape([directions, columns])}`,
    );
  }
  const rows = applyView(VIEWS.reshape, given, "reshape", isOne ? [directions, 1] : [...shape]);
  return contiguousCopy(applyView(VIEWS.broadcastTo, rows, "broadcastTo", [directions, columns]));
}

/** The weights of an LSTM of bytes, packed once. */
export function packLstm(name: string, w: LstmBytes, r: LstmBytes): PackedLstm {
  return tidy(() => {
    const [directions, inputs, columns] = w.weight.layout.shape as [number, number, number];
    const size = columns / 4;
    const wanted = [directions, size, columns];
    if (w.weight.layout.rank !== 3 || !sameShape(r.weight.layout.shape, wanted)) {
      const [one, other] = [w, r].map(({ weight }) => formatShape(weight.layout.shape));
      throw new ShapeError(
        `Cannot ${name} with weights of shapes ${one} and ${other}: they have [D, I, 4 · H] and ` +
          "[D, H, 4 · H]",
      );
    }
    const all = [w, r].flatMap(({ weight, zeros }) => {
      const own = zeros && perColumn(name, zeros, directions, columns);
      return Array.from(
        { length: directions },
        (_, d) => packBytes(name, at(weight, 0, d), own && at(own, 0, d)).groups,
      );
    });
    const flat = all.map((one) => applyView(VIEWS.reshape, one, "reshape", [one.layout.size]));
    return { groups: concat(flat, 0), directions, inputs, size };
  });
}

/**
 * An LSTM with inputs x [T, B, I] and weights of bytes with `scales` [D] or [D, 4 · H] of both, as ONNX
 * Runtime's DynamicQuantizeLSTM: x is rounded to bytes by its range, and each row of the state, in each
 * step, by its own.
 */
export function lstmOfBytes(
  name: string,
  x: Operand,
  { groups, directions, inputs, size }: PackedLstm,
  scales: { readonly w: Operand; readonly r: Operand },
  { b, p }: Pick<RecurrentLayerWeights, "b" | "p">,
  attributes: RecurrentAttributes,
  { lengths, ...firsts }: RecurrentLayerInputs = {},
): RecurrentResults {
  if (attributes.cell !== "lstm") {
    throw new ArgumentError(`Cannot ${name} with a weight of bytes: only an LSTM has one`);
  }
  if (checkAttributes(name, attributes) !== directions) {
    throw new ArgumentError(`Cannot ${name}: the weights are of ${directions} directions`);
  }
  return tidy(() => {
    const columns = 4 * size, count = Math.ceil(columns / GROUP_ROWS);
    const [ofInputs, ofStates] = [inputs, size].map((depth) => count * bytesGroup(depth)) as [
      number,
      number,
    ];
    const groupsAt = (from: number, length: number, shape: number[]): Operand =>
      applyView(
        VIEWS.reshape,
        part(groups, groups.layout.sliceAxis(0, from, length, 1)),
        "reshape",
        shape,
      );
    const { bytes, scale, zero } = quantizeDynamic(name, x);
    const wScales = perColumn(name, scales.w, directions, columns);
    const products = Array.from({ length: directions }, (_, d) => {
      const own = groupsAt(d * ofInputs, ofInputs, [count, bytesGroup(inputs)]);
      const sums = matmulInteger(name, bytes, { groups: own, depth: inputs, columns }, zero);
      const factors = apply(MAP.mul, scale, at(wScales, 0, d));
      const wide = cast(sums, "float32");
      if (b === undefined) return apply(MAP.mul, wide, factors);
      const biases = at(b, 0, d);
      return compute(
        AFFINE,
        wide,
        factors,
        apply(
          MAP.add,
          ...[0, 1].map((k) => cut(biases, k * columns, columns)) as [Operand, Operand],
        ),
      );
    });
    const weight = groupsAt(directions * ofInputs, directions * ofStates, [
      ...[directions, count, bytesGroup(size)],
    ]);
    const options = {
      peepholes: p,
      lengths,
      scales: perColumn(name, scales.r, directions, columns),
    };
    const whole = directions === 1 ? products[0]! : concat(products, 2);
    return fromProducts(name, whole, weight, attributes, firsts, options, "float32");
  });
}

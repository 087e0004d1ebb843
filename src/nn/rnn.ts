/**
 * Recurrent layers: LSTM, GRU and plain ones, with the weights of PyTorch's modules.
 *
 * The product with all inputs is one product; each time step is one product and a few expressions.
 *
 * @module
 */
import { ShapeError } from "../base/errors.ts";
import { formatShape, lengthOf, listIn, sameShape } from "../base/shape.ts";
import { apply, applyInto, applyView } from "../core/apply.ts";
import { cast } from "../core/copy.ts";
import { tidy } from "../core/handles.ts";
import { rowDType } from "../ops/softmax_norm/problem.ts";
import type { Operand } from "../memory/operand.ts";
import { checkOptions } from "../table/infer.ts";
import type { MapOp } from "../table/op.ts";
import { MAP } from "../table/table.ts";
import { VIEWS } from "../table/views.ts";
import { zeros } from "../tensor/create.ts";
import { concat, stack } from "../ops/join/op.ts";
import { linear } from "../ops/linear/op.ts";
import type { AnyTensor } from "../tensor/tensor.ts";
import {
  badArgument,
  checkChoice,
  checkFlag,
  floats,
  floatsBeside,
  type Like,
} from "./arguments.ts";
import { expression } from "../ops/chain/expression.ts";

/**
 * The weights of one layer in one direction, with G gates: 4 of an LSTM (input, forget, cell,
 * output), 3 of a GRU (reset, update, new), 1 of a plain layer.
 */
export interface RecurrentWeights {
  /** For inputs: [G · H, I]. */
  readonly weightIh: AnyTensor;
  /** For the state: [G · H, H]. */
  readonly weightHh: AnyTensor;
  /** Added to the product with inputs: [G · H]. */
  readonly biasIh?: AnyTensor;
  /** Added to the product with the state: [G · H]. */
  readonly biasHh?: AnyTensor;
}

/** Options of {@link gru}. */
export interface RecurrentOptions {
  /** Whether each layer also runs from the last time step to the first. */
  readonly bidirectional?: boolean;
  /** Whether the input is [B, T, I], and the output too. */
  readonly batchFirst?: boolean;
  /** The state before the first step, of each layer and direction: [L, B, H]; zeros by default. */
  readonly hidden?: AnyTensor;
}

/** Options of {@link lstm}. */
export interface LstmOptions extends RecurrentOptions {
  /** The cells before the first step, as `hidden`. */
  readonly cell?: AnyTensor;
}

/** Options of {@link rnn}. */
export interface RnnOptions extends RecurrentOptions {
  /** What the sum of the products goes through; `"tanh"` by default. */
  readonly nonlinearity?: "tanh" | "relu";
}

/** The result of {@link gru} and {@link rnn}. */
export interface RecurrentResult<X extends AnyTensor> {
  /** The state of the last layer after each step: [T, B, D · H] of D directions. */
  readonly output: Like<X>;
  /** The state of each layer and direction after its last step: [L, B, H]. */
  readonly hidden: Like<X>;
}

/** The result of {@link lstm}. */
export interface LstmResult<X extends AnyTensor> extends RecurrentResult<X> {
  /** The cells of each layer and direction after its last step: [L, B, H]. */
  readonly cell: Like<X>;
}

// ---- cells -------------------------------------------------------------------------------------

/** Weights in the dtype of the arithmetic. */
interface Weights {
  readonly ih: Operand;
  readonly hh: Operand;
  readonly biasIh: Operand | undefined;
  readonly biasHh: Operand | undefined;
}

/** A kind of recurrent layer. */
interface Cell {
  readonly name: string;
  readonly gates: number;
  /** How many tensors the state has; the first one is the output. */
  readonly states: number;
  /** Whether both biases can be added at once. */
  readonly joinsBiases: boolean;
  /** The state after a step, from the product with its input, with bias. */
  step(input: Operand, state: readonly Operand[], weights: Weights): Operand[];
}

/** Gates `k` to `k` + `count` of a product: [B, G · H]. */
function gates(x: Operand, k: number, size: number, count = 1): Operand {
  return applyView(VIEWS.narrow, x, "narrow", 1, k * size, count * size);
}

const GATED_TANH = expression("gatedTanh", "sigmoid(x) * tanh(y)");
const KEPT = expression("kept", "sigmoid(x) * y + z");
const RECALLED = expression("recalled", "tanh(x + sigmoid(y) * z)");
const BLENDED = expression("blended", "y + sigmoid(x) * (z - y)");

function compute(name: string, op: MapOp, x: Operand, y: Operand, z?: Operand): Operand {
  return applyInto(op, name, x, y, z, undefined);
}

const LSTM: Cell = {
  name: "lstm",
  gates: 4,
  states: 2,
  joinsBiases: true,
  step(input, [h, c], { hh }) {
    const size = h!.layout.shape[1]!;
    const sums = linear(h!, hh, undefined, { add: input });
    const [i, f, g, o] = [0, 1, 2, 3].map((k) => gates(sums, k, size));
    const cell = compute("lstm", KEPT, f!, c!, compute("lstm", GATED_TANH, i!, g!));
    return [compute("lstm", GATED_TANH, o!, cell), cell];
  },
};

const GRU: Cell = {
  name: "gru",
  gates: 3,
  states: 1,
  joinsBiases: false,
  step(input, [h], { hh, biasHh }) {
    const size = h!.layout.shape[1]!;
    const own = linear(h!, hh, biasHh);
    const both = apply(MAP.add, gates(input, 0, size, 2), gates(own, 0, size, 2));
    const [reset, update] = [0, 1].map((k) => gates(both, k, size));
    const made = compute("gru", RECALLED, gates(input, 2, size), reset!, gates(own, 2, size));
    return [compute("gru", BLENDED, update!, made, h!)];
  },
};

function plainCell(nonlinearity: "tanh" | "relu"): Cell {
  return {
    name: "rnn",
    gates: 1,
    states: 1,
    joinsBiases: true,
    step: (input, [h], { hh }) => [
      apply(MAP[nonlinearity], linear(h!, hh, undefined, { add: input })),
    ],
  };
}

// ---- checks ------------------------------------------------------------------------------------

function checkShapeIs(name: string, what: string, x: Operand, wanted: readonly number[]): void {
  if (sameShape(x.layout.shape, wanted)) return;
  throw new ShapeError(
    `Cannot ${name} with ${what} of shape ${formatShape(x.layout.shape)}: it must have shape ` +
      formatShape(wanted),
  );
}

/** The checked weights of layer `k` for inputs of `columns` elements, and the size of the state. */
function weightsOf(
  { name, gates, joinsBiases }: Cell,
  x: Operand,
  given: RecurrentWeights,
  columns: number,
  k: number,
): [Weights, number] {
  if (typeof given !== "object" || given === null) {
    throw badArgument(name, `weights ${k}`, given, "an object of weightIh, weightHh and biases");
  }
  checkOptions(name, given, ["weightIh", "weightHh", "biasIh", "biasHh"]);
  const dtype = rowDType(x.storage.info).name;
  const own = (what: keyof RecurrentWeights): Operand => floatsBeside(x, given[what], name);
  const [ih, hh] = [own("weightIh"), own("weightHh")];
  const size = hh.layout.shape.at(-1) ?? 0;
  const rows = gates * size;
  checkShapeIs(name, `weightHh ${k}`, hh, [rows, size]);
  checkShapeIs(name, `weightIh ${k}`, ih, [rows, columns]);
  const [biasIh, biasHh] = (["biasIh", "biasHh"] as const).map((what) => {
    if (given[what] === undefined) return undefined;
    const bias = own(what);
    checkShapeIs(name, `${what} ${k}`, bias, [rows]);
    return cast(bias, dtype);
  });
  const both = joinsBiases && biasIh !== undefined && biasHh !== undefined;
  const joined = both ? apply(MAP.add, biasIh, biasHh) : joinsBiases ? biasIh ?? biasHh : biasIh;
  return [{ ih: cast(ih, dtype), hh: cast(hh, dtype), biasIh: joined, biasHh }, size];
}

/** The states before the first step: of each layer and direction, [B, H]. */
function statesOf(
  name: string,
  what: string,
  x: Operand,
  given: unknown,
  shape: readonly number[],
): Operand[] {
  const dtype = rowDType(x.storage.info).name;
  if (given === undefined) {
    const device = x.storage.device as "cpu";
    const zero = zeros(shape.slice(1) as number[], { dtype, device });
    return new Array(shape[0]!).fill(zero);
  }
  const own = floatsBeside(x, given, name);
  checkShapeIs(name, what, own, shape);
  const wide = cast(own, dtype);
  return Array.from(
    { length: shape[0]! },
    (_, k) => applyView(VIEWS.selectAxis, wide, "selectAxis", 0, k),
  );
}

// ---- layers ------------------------------------------------------------------------------------

/** Runs all steps of a layer in one direction: the output of each step, and the last state. */
function runLayer(
  cell: Cell,
  x: Operand,
  weights: Weights,
  first: readonly Operand[],
  backwards: boolean,
): [outputs: Operand[], state: readonly Operand[]] {
  const steps = x.layout.shape[0]!;
  const products = linear(x, weights.ih, weights.biasIh);
  const outputs: Operand[] = new Array(steps);
  let state = first;
  for (let k = 0; k < steps; k++) {
    const at = backwards ? steps - 1 - k : k;
    state = tidy(() => {
      const input = applyView(VIEWS.selectAxis, products, "selectAxis", 0, at);
      return cell.step(input, state, weights);
    });
    outputs[at] = state[0]!;
  }
  return [outputs, state];
}

const OPTIONS = ["bidirectional", "batchFirst", "hidden"];

/** The outputs of the last layer, and the last states of all. */
function recur(
  cell: Cell,
  given: unknown,
  weights: RecurrentWeights | readonly RecurrentWeights[],
  { bidirectional = false, batchFirst = false, ...initial }: LstmOptions,
): Operand[] {
  const { name } = cell;
  const directions = checkFlag(name, "bidirectional", bidirectional) ? 2 : 1;
  const x = floats(given, name);
  const { info } = x.storage;
  if (x.layout.shape.length !== 3 || x.layout.shape.includes(0)) {
    const axes = checkFlag(name, "batchFirst", batchFirst) ? "[B, T, I]" : "[T, B, I]";
    throw new ShapeError(
      `Cannot ${name} shape ${
        formatShape(x.layout.shape)
      }: it takes ${axes} of at least one element`,
    );
  }
  const byTime = checkFlag(name, "batchFirst", batchFirst)
    ? applyView(VIEWS.swapAxes, x, "swapAxes", 0, 1)
    : x;
  const length = lengthOf(weights) ?? 1;
  if (length === 0 || length % directions !== 0) {
    throw badArgument(
      name,
      "weights",
      weights,
      `an array with ${directions === 2 ? "2 members" : "one member"} for each layer`,
    );
  }
  const batch = byTime.layout.shape[1]!;
  let columns = byTime.layout.shape[2]!;
  const checkedOf = (one: unknown, k: number): ReturnType<typeof weightsOf> => {
    const made = weightsOf(cell, x, one as RecurrentWeights, columns, k);
    if (k % directions === directions - 1) columns = directions * made[1];
    return made;
  };
  const checked = listIn(weights, checkedOf, length) ?? [checkedOf(weights, 0)];
  const [, size] = checked[0]!;
  checked.forEach(([{ hh }, other], k) => {
    if (other !== size) checkShapeIs(name, `weightHh ${k}`, hh, [cell.gates * size, size]);
  });
  const shape = [length, batch, size];
  const states = [initial.hidden, initial.cell].slice(0, cell.states)
    .map((one, k) => statesOf(name, k === 0 ? "hidden" : "cell", x, one, shape));
  const last: (readonly Operand[])[] = [];
  const time = batchFirst ? 1 : 0;
  let input = cast(byTime, rowDType(info).name);
  for (let k = 0; k < length; k += directions) {
    const final = k + directions === length;
    const parts = Array.from({ length: directions }, (_, d) => {
      const first = states.map((one) => one[k + d]!);
      const [outputs, state] = runLayer(cell, input, checked[k + d]![0], first, d === 1);
      last.push(state);
      return stack(outputs, final ? time : 0);
    });
    input = parts.length === 1 ? parts[0]! : concat(parts, 2);
  }
  const finals = states.map((_, s) => stack(last.map((state) => state[s]!), 0));
  return [input, ...finals].map((one) => cast(one, info.name));
}

/**
 * Long short-term memory: x: [T, B, I] and the weights of each layer, or of one, give the outputs
 * [T, B, H], and the states after the last step. `weights` are in PyTorch's order: with
 * `bidirectional`, each layer's forward ones before its backward ones. For each step:
 *
 * i, f, o = σ(W x + b + U h + b′), g = tanh(W x + b + U h + b′), c = f · c + i · g, h = o · tanh(c)
 *
 * In a program, the steps are unrolled. Weights are cast to the dtype of x; 16-bit floats are
 * computed in float32.
 *
 * @throws {DTypeError} For tensors that are not of floats.
 * @throws {ShapeError} For x of another rank or without elements, and for weights and states that
 *   do not fit.
 *
 * @example
 * ```ts
 * const weights = { weightIh: ones([4, 2]), weightHh: zeros([4, 1]) };
 * const { output, cell } = nn.lstm(zeros([3, 1, 2]), weights);
 * [output.shape, cell.shape]; // => [[3, 1, 1], [1, 1, 1]]
 * ```
 */
export function lstm<X extends AnyTensor>(
  x: X,
  weights: RecurrentWeights | readonly RecurrentWeights[],
  options?: LstmOptions,
): LstmResult<X>;
export function lstm(
  x: AnyTensor,
  weights: RecurrentWeights | readonly RecurrentWeights[],
  options: LstmOptions = {},
): Readonly<Record<"output" | "hidden" | "cell", Operand>> {
  checkOptions("lstm", options, [...OPTIONS, "cell"]);
  const [output, hidden, cell] = tidy(() => recur(LSTM, x, weights, options));
  return { output: output!, hidden: hidden!, cell: cell! };
}

/**
 * Gated recurrent units, with arguments and results as for {@link lstm}, but without cells. For each
 * step:
 *
 * r, z = σ(W x + b + U h + b′), n = tanh(W x + b + r · (U h + b′)), h = (1 − z) · n + z · h
 *
 * @throws As {@link lstm}.
 *
 * @example
 * ```ts
 * const weights = { weightIh: ones([3, 2]), weightHh: zeros([3, 1]) };
 * nn.gru(zeros([3, 1, 2]), weights, { hidden: ones([1, 1, 1]) }).hidden.toArray(); // => [[[0.125]]]
 * ```
 */
export function gru<X extends AnyTensor>(
  x: X,
  weights: RecurrentWeights | readonly RecurrentWeights[],
  options?: RecurrentOptions,
): RecurrentResult<X>;
export function gru(
  x: AnyTensor,
  weights: RecurrentWeights | readonly RecurrentWeights[],
  options: RecurrentOptions = {},
): Readonly<Record<"output" | "hidden", Operand>> {
  checkOptions("gru", options, OPTIONS);
  const [output, hidden] = tidy(() => recur(GRU, x, weights, options));
  return { output: output!, hidden: hidden! };
}

/**
 * A plain recurrent layer, h = tanh(W x + b + U h + b′) for each step, with arguments and results as
 * for {@link gru}.
 *
 * @throws As {@link lstm}.
 *
 * @example
 * ```ts
 * const weights = { weightIh: ones([1, 1]), weightHh: ones([1, 1]) };
 * const options = { nonlinearity: "relu" } as const;
 * nn.rnn(ones([3, 1, 1]), weights, options).output.toArray(); // => [[[1]], [[2]], [[3]]]
 * ```
 */
export function rnn<X extends AnyTensor>(
  x: X,
  weights: RecurrentWeights | readonly RecurrentWeights[],
  options?: RnnOptions,
): RecurrentResult<X>;
export function rnn(
  x: AnyTensor,
  weights: RecurrentWeights | readonly RecurrentWeights[],
  options: RnnOptions = {},
): Readonly<Record<"output" | "hidden", Operand>> {
  checkOptions("rnn", options, [...OPTIONS, "nonlinearity"]);
  const { nonlinearity = "tanh", ...rest } = options;
  const known = checkChoice("rnn", "nonlinearity", nonlinearity, ["tanh", "relu"]);
  const [output, hidden] = tidy(() => recur(plainCell(known), x, weights, rest));
  return { output: output!, hidden: hidden! };
}

/**
 * Recurrent layers: LSTM, GRU and plain ones, with the weights of PyTorch's modules.
 *
 * The product with all inputs is one product; all steps are one op.
 *
 * @module
 */
import { ShapeError } from "../base/errors.ts";
import { formatShape, lengthOf, listIn, sameShape } from "../base/shape.ts";
import { applyView } from "../core/apply.ts";
import { cast, contiguousCopy } from "../core/copy.ts";
import { tidy } from "../core/handles.ts";
import { rowDType } from "../ops/softmax_norm/problem.ts";
import type { Operand } from "../memory/operand.ts";
import { checkOptions } from "../table/infer.ts";
import { VIEWS } from "../table/views.ts";
import { zeros } from "../tensor/create.ts";
import { concat, stack } from "../ops/join/op.ts";
import {
  CELL_SIZES,
  GATE_ORDERS,
  type RecurrentAttributes,
  recurrentLayer,
} from "../ops/recurrent/op.ts";
import type { AnyTensor } from "../tensor/tensor.ts";
import {
  badArgument,
  checkChoice,
  checkFlag,
  floats,
  floatsBeside,
  type Like,
} from "./arguments.ts";

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

/** A kind of layer. */
interface Kind {
  readonly name: string;
  readonly attributes: RecurrentAttributes;
}

/** Weights in the dtype of the arithmetic. */
interface Weights {
  readonly ih: Operand;
  readonly hh: Operand;
  readonly biasIh: Operand | undefined;
  readonly biasHh: Operand | undefined;
}

const LSTM: Kind = {
  name: "lstm",
  attributes: { cell: "lstm", gates: GATE_ORDERS.torch.lstm },
};
const GRU: Kind = {
  name: "gru",
  attributes: { cell: "gru", gates: GATE_ORDERS.torch.gru, resetsAfter: true },
};

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
  { name, attributes: { cell } }: Kind,
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
  const rows = CELL_SIZES[cell].gates * size;
  checkShapeIs(name, `weightHh ${k}`, hh, [rows, size]);
  checkShapeIs(name, `weightIh ${k}`, ih, [rows, columns]);
  const [biasIh, biasHh] = (["biasIh", "biasHh"] as const).map((what) => {
    if (given[what] === undefined) return undefined;
    const bias = own(what);
    checkShapeIs(name, `${what} ${k}`, bias, [rows]);
    return cast(bias, dtype);
  });
  return [{ ih: cast(ih, dtype), hh: cast(hh, dtype), biasIh, biasHh }, size];
}

/** The states before the first step: of each layer and direction, [L, B, H]; undefined for zeros. */
function statesOf(
  name: string,
  what: string,
  x: Operand,
  given: unknown,
  shape: readonly number[],
): Operand | undefined {
  if (given === undefined) return undefined;
  const own = floatsBeside(x, given, name);
  checkShapeIs(name, what, own, shape);
  return own;
}

// ---- layers ------------------------------------------------------------------------------------

/** Biases of both products of one direction: [2 · G · H]; undefined without any. */
function biasesOf({ biasIh, biasHh, hh }: Weights): Operand | undefined {
  if (biasIh === undefined && biasHh === undefined) return undefined;
  const { storage: { info, device }, layout: { shape } } = hh;
  const zero = (): Operand => zeros([shape[0]!], { dtype: info.name, device: device as "cpu" });
  return concat([biasIh ?? zero(), biasHh ?? zero()], 0);
}

/** One tensor of those of all directions. */
function joined(all: readonly Operand[]): Operand {
  const [first] = all;
  return all.length === 1 ? applyView(VIEWS.expandDims, first!, "expandDims", 0) : stack(all, 0);
}

/** Directions with biases beside others get zeros. */
function joinedBiases(all: readonly Weights[]): Operand | undefined {
  const own = all.map(biasesOf);
  if (own.every((one) => one === undefined)) return undefined;
  return joined(own.map((one, d) => {
    if (one !== undefined) return one;
    const { storage: { info, device }, layout: { shape } } = all[d]!.hh;
    return zeros([2 * shape[0]!], { dtype: info.name, device: device as "cpu" });
  }));
}

function plainKind(nonlinearity: "tanh" | "relu"): Kind {
  const name = nonlinearity;
  return { name: "rnn", attributes: { cell: "plain", activations: [[{ name }]] } };
}

const OPTIONS = ["bidirectional", "batchFirst", "hidden"];

/** The outputs of the last layer, and the last states of all. */
function recur(
  kind: Kind,
  given: unknown,
  weights: RecurrentWeights | readonly RecurrentWeights[],
  { bidirectional = false, batchFirst = false, ...initial }: LstmOptions,
): Operand[] {
  const { name, attributes } = kind;
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
    const made = weightsOf(kind, x, one as RecurrentWeights, columns, k);
    if (k % directions === directions - 1) columns = directions * made[1];
    return made;
  };
  const checked = listIn(weights, checkedOf, length) ?? [checkedOf(weights, 0)];
  const [, size] = checked[0]!;
  checked.forEach(([{ hh }, other], k) => {
    if (other !== size) {
      checkShapeIs(name, `weightHh ${k}`, hh, [CELL_SIZES[attributes.cell].gates * size, size]);
    }
  });
  const shape = [length, batch, size];
  const { states } = CELL_SIZES[attributes.cell];
  const first = [initial.hidden, initial.cell].slice(0, states)
    .map((one, k) => statesOf(name, k === 0 ? "hidden" : "cell", x, one, shape));
  const reversed = directions === 2 ? [false, true] : [false];
  const { activations } = attributes;
  const spread = activations && { activations: reversed.map(() => activations[0]!) };
  const finals: Operand[][] = first.map(() => []);
  let input = cast(byTime, rowDType(info).name);
  for (let k = 0; k < length; k += directions) {
    const own = checked.slice(k, k + directions).map(([one]) => one);
    const made = { w: joined(own.map(({ ih }) => ih)), r: joined(own.map(({ hh }) => hh)) };
    const [hidden, cell] = first.map((one) =>
      one && applyView(VIEWS.narrow, one, "narrow", 0, k, directions)
    );
    const { output, ...last } = recurrentLayer(
      name,
      input,
      { ...made, b: joinedBiases(own) },
      { ...attributes, ...spread, reversed },
      { hidden, cell },
    );
    finals[0]!.push(last.hidden);
    if (last.cell !== undefined) finals[1]!.push(last.cell);
    input = applyView(VIEWS.reshape, output, "reshape", [
      ...output.layout.shape.slice(0, 2),
      directions * size,
    ]);
  }
  // In the order of its memory, also if the batch comes first.
  const output = batchFirst
    ? contiguousCopy(applyView(VIEWS.swapAxes, input, "swapAxes", 0, 1), info.name)
    : cast(input, info.name);
  const last = finals.map((all) => all.length === 1 ? all[0]! : concat(all, 0));
  return [output, ...last.map((one) => cast(one, info.name))];
}

/**
 * Long short-term memory: x: [T, B, I] and the weights of each layer, or of one, give the outputs
 * [T, B, H], and the states after the last step. `weights` are in PyTorch's order: with
 * `bidirectional`, each layer's forward ones before its backward ones. For each step:
 *
 * i, f, o = σ(W x + b + U h + b′), g = tanh(W x + b + U h + b′), c = f · c + i · g, h = o · tanh(c)
 *
 * On the CPU, all steps of float32 are one kernel. Weights are cast to the dtype of x; 16-bit floats are
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
  const [output, hidden] = tidy(() => recur(plainKind(known), x, weights, rest));
  return { output: output!, hidden: hidden! };
}

/**
 * Recurrent layers.
 *
 * @module
 */
import { formatShape } from "../../base/shape.ts";
import {
  type Cell,
  lstmOfBytes,
  packLstm,
  RECURRENT_FUNCTIONS,
  type RecurrentActivation,
  type RecurrentAttributes,
  recurrentLayer,
  type RecurrentLayerInputs,
  type RecurrentResults,
} from "../../ops/recurrent/op.ts";
import type { Call, Implementation } from "../graph/call.ts";
import type { T, Value } from "../graph/values.ts";

/** The activations of which the first parameter, or both, are read from the lists of attributes. */
const WITH_ALPHA = [
  ...["affine", "leakyRelu", "thresholdedRelu", "scaledTanh", "hardSigmoid", "elu"],
];
const WITH_BETA = ["affine", "scaledTanh", "hardSigmoid"];

/** The activations of each direction; undefined for those that a layer has by default. */
function activationsOf(
  call: Call,
  cell: Cell,
  directions: number,
): RecurrentActivation[][] | undefined {
  const names = call.node.strings("activations");
  if (names === undefined || names.length === 0) return undefined;
  const each = cell === "lstm" ? 3 : cell === "gru" ? 2 : 1;
  if (names.length !== each * directions) {
    call.fail(`${names.length} activations for ${directions} directions of ${each}`);
  }
  const alphas = [...call.node.floats("activation_alpha") ?? []];
  const betas = [...call.node.floats("activation_beta") ?? []];
  const all = names.map((given): RecurrentActivation => {
    const name = RECURRENT_FUNCTIONS.find((one) => one.toLowerCase() === given.toLowerCase()) ??
      call.fail(`activation ${given} is not one of ${RECURRENT_FUNCTIONS.join(", ")}`);
    const alpha = WITH_ALPHA.includes(name) ? alphas.shift() : undefined;
    const beta = WITH_BETA.includes(name) ? betas.shift() : undefined;
    return {
      name,
      ...(alpha === undefined ? {} : { alpha }),
      ...(beta === undefined ? {} : { beta }),
    };
  });
  return Array.from({ length: directions }, (_, k) => all.slice(k * each, (k + 1) * each));
}

/** Whether each direction runs from the last step to the first. */
const DIRECTIONS: Readonly<Record<string, readonly boolean[]>> = {
  forward: [false],
  reverse: [true],
  bidirectional: [false, true],
};

/** How the layer of a call runs, and its inputs with steps first. */
function setup(call: Call, cell: Cell, directions: number) {
  const { node } = call;
  const direction = node.string("direction", "forward").toLowerCase();
  const reversed = Object.hasOwn(DIRECTIONS, direction) ? DIRECTIONS[direction]! : (
    call.fail(`direction ${direction} is not known`)
  );
  // Batches come first, where the layout is 1.
  const isTurned = node.int("layout", 0) === 1;
  const turn = (x: T): T => isTurned ? x.swapAxes(0, 1) : x;
  const turned = (x: T | undefined): T | undefined => x === undefined ? undefined : turn(x);
  const x = call.tensor(0);
  if (x.rank !== 3 || directions !== reversed.length) {
    call.failShape(
      `inputs ${
        formatShape(x.shape)
      } and weights of ${directions} for ${reversed.length} directions`,
    );
  }
  const activations = activationsOf(call, cell, reversed.length);
  const isLstm = cell === "lstm";
  const attributes: RecurrentAttributes = {
    ...{ cell, reversed, resetsAfter: node.flag("linear_before_reset") },
    ...(activations === undefined ? {} : { activations }),
    ...(node.has("clip") ? { clip: node.float("clip") } : {}),
    ...(isLstm ? { coupled: node.flag("input_forget") } : {}),
  };
  const inputs: RecurrentLayerInputs = {
    lengths: call.optional(4),
    hidden: turned(call.optional(5)),
    cell: isLstm ? turned(call.optional(6)) : undefined,
  };
  const outputs = (made: RecurrentResults): readonly Value[] => {
    const output = made.output as T;
    const all: T = isTurned ? output.swapAxes(0, 1) : output.moveAxis(2, 1);
    const last = turn(made.hidden as T);
    return made.cell === undefined ? [all, last] : [all, last, turn(made.cell as T)];
  };
  return { x: turn(x), attributes, inputs, outputs };
}

const recurrent = (cell: Cell): Implementation => (call) => {
  const [w, r] = [call.tensor(1), call.tensor(2)];
  if (w.rank !== 3) call.failShape(`weights of shape ${formatShape(w.shape)}`);
  const { x, attributes, inputs, outputs } = setup(call, cell, w.shape[0]!);
  const p = cell === "lstm" ? call.optional(7) : undefined;
  const weights = { w, r, b: call.optional(3), p };
  return outputs(recurrentLayer(call.node.op, x, weights, attributes, inputs));
};

/** An LSTM with weights [D, I, 4 · H] of 8 bits, for states that are rounded to 8 bits too. */
function quantizedLstm(call: Call): readonly Value[] {
  const { op } = call.node;
  const pack = () =>
    packLstm(
      op,
      { weight: call.tensor(1), zeros: call.optional(9) },
      { weight: call.tensor(2), zeros: call.optional(11) },
    );
  const packed = call.prepare([1, 2, 9, 11], pack) ?? pack();
  const { x, attributes, inputs, outputs } = setup(call, "lstm", packed.directions);
  const scales = { w: call.tensor(8), r: call.tensor(10) };
  const options = { b: call.optional(3), p: call.optional(7) };
  return outputs(lstmOfBytes(op, x, packed, scales, options, attributes, inputs));
}

/** The ops. */
export const RECURRENT: Readonly<Record<string, Implementation>> = {
  LSTM: recurrent("lstm"),
  GRU: recurrent("gru"),
  RNN: recurrent("plain"),
  "com.microsoft.DynamicQuantizeLSTM": quantizedLstm,
};

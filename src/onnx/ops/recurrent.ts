/**
 * Recurrent layers.
 *
 * @module
 */
import { formatShape } from "../../base/shape.ts";
import {
  type Cell,
  RECURRENT_FUNCTIONS,
  type RecurrentActivation,
  recurrentLayer,
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

/** The weights of a layer: [D, G · H, I] and [D, G · H, H]. */
interface Weights {
  readonly w: T;
  readonly r: T;
}

/** A layer of a call, with weights that may be made of its inputs. */
function layer(call: Call, cell: Cell, { w, r }: Weights): readonly Value[] {
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
  if (x.rank !== 3 || w.rank !== 3 || w.shape[0] !== reversed.length) {
    call.failShape(
      `inputs ${formatShape(x.shape)} and weights ${formatShape(w.shape)} of ` +
        `${reversed.length} directions`,
    );
  }
  const activations = activationsOf(call, cell, reversed.length);
  const isLstm = cell === "lstm";
  const made = recurrentLayer(
    node.op,
    turn(x),
    { w, r, b: call.optional(3), p: isLstm ? call.optional(7) : undefined },
    {
      ...{ cell, reversed, resetsAfter: node.flag("linear_before_reset") },
      ...(activations === undefined ? {} : { activations }),
      ...(node.has("clip") ? { clip: node.float("clip") } : {}),
      ...(isLstm ? { coupled: node.flag("input_forget") } : {}),
    },
    {
      lengths: call.optional(4),
      hidden: turned(call.optional(5)),
      cell: isLstm ? turned(call.optional(6)) : undefined,
    },
  );
  const output = made.output as T;
  const all: T = isTurned ? output.swapAxes(0, 1) : output.moveAxis(2, 1);
  const last = turn(made.hidden as T);
  return made.cell === undefined ? [all, last] : [all, last, turn(made.cell as T)];
}

const recurrent = (cell: Cell): Implementation => (call) =>
  layer(call, cell, { w: call.tensor(1), r: call.tensor(2) });

/** An LSTM with weights [D, I, 4 · H] of 8 bits. They are multiplied by their scales first. */
function quantizedLstm(call: Call): readonly Value[] {
  const weight = (k: number, scale: number): T => {
    const w = call.tensor(k);
    // One scale for each direction, or for each of its columns.
    const spread = (x: T): T =>
      x.rank === 2 ? x.unsqueeze(1) : x.reshape([x.size === 1 ? 1 : x.size, 1, 1]);
    const zero = call.optional(scale + 1);
    const wide: T = w.astype("float32");
    const centered: T = zero === undefined ? wide : wide.sub(spread(zero).astype("float32"));
    return centered.mul(spread(call.tensor(scale))).swapAxes(1, 2);
  };
  return layer(call, "lstm", { w: weight(1, 8), r: weight(2, 10) });
}

/** The ops. */
export const RECURRENT: Readonly<Record<string, Implementation>> = {
  LSTM: recurrent("lstm"),
  GRU: recurrent("gru"),
  RNN: recurrent("plain"),
  "com.microsoft.DynamicQuantizeLSTM": quantizedLstm,
};

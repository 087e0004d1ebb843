/**
 * Feed-forward parts with a gate.
 *
 * @module
 */
import * as nn from "../../nn/mod.ts";
import type { Tensor } from "../../tensor/tensor.ts";
import type { AnyWeights, Intermediate, Model, Part, State, Tokens } from "./step.ts";

/** The inner state of a feed-forward part. */
type Inner = Tensor<"float32", [Tokens, Intermediate]>;

/** What a gate goes through. */
export type GateActivation = (gate: Inner) => Inner;

/** x · sigmoid(x). */
export const silu: GateActivation = (gate) => gate.silu();
/** gelu, with its approximation by a tanh. */
export const geluTanh: GateActivation = (gate) => nn.gelu(gate, { approximate: "tanh" });

/** What differs between families. */
export interface MlpOptions {
  /** What the gate goes through; silu by default. */
  readonly activation?: GateActivation;
  /** True if the gate and the other product are one tensor. */
  readonly fused?: boolean;
}

const BIAS = { bias: "optional" } as const;

/** The gate, and what it multiplies. */
function products(
  w: AnyWeights,
  { names, sizes: { hidden, intermediate } }: Model,
  fused: boolean,
): (x: State) => readonly [gate: Inner, up: Inner] {
  if (!fused) {
    const gateUp = nn.fuse(
      w.linear(names.gate, intermediate, hidden, BIAS),
      w.linear(names.up, intermediate, hidden, BIAS),
    );
    return (x) => gateUp(x);
  }
  const both = w.linear(names.gateUp, 2 * intermediate, hidden, BIAS);
  return (x) => {
    const [gate, up] = both(x).split(2, -1);
    const shape = [x.shape[0], intermediate] as const;
    return [gate!.asShape(shape), up!.asShape(shape)];
  };
}

/** down(activation(gate(x)) · up(x)). */
export function gatedMlp(w: AnyWeights, model: Model, options: MlpOptions = {}): Part {
  const { activation = silu, fused = false } = options;
  const { names, sizes: { hidden, intermediate } } = model;
  const gateUp = products(w, model, fused);
  const down = w.linear(names.down, hidden, intermediate, BIAS);
  return (x, _, add) => {
    const [gate, up] = gateUp(x);
    return down(activation(gate).mul(up), { add });
  };
}

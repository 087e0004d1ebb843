/**
 * Short convolutions over tokens, between two gates.
 *
 * @module
 */
import type { Tensor } from "../../tensor/tensor.ts";
import type { LayerPlace } from "../config/config.ts";
import type { AnyWeights, Hidden, Model, Part, State } from "./step.ts";

/** The tokens that a convolution sees, if a config does not have their number. */
const USUAL_LENGTH = 3;

/** The factors of each of `length` tokens, and the shift. */
interface Kernel {
  readonly factors: readonly Tensor<"float32", [Hidden]>[];
  readonly bias: Tensor<"float32", [Hidden]> | undefined;
}

/** The kernel of a depthwise convolution: [hidden, 1, length] in safetensors, [hidden, length] in GGUF. */
function kernelOf(w: AnyWeights, name: string, hidden: Hidden, length: number): () => Kernel {
  const isFlat = w.info(`${name}.weight`)?.shape.length === 2;
  const weight = isFlat ? [hidden, length] : [hidden, 1, length];
  const parts = { weight, bias: { shape: [hidden], optional: true } };
  return w.layer(name, parts, ({ weight, bias }, own) => {
    const rows = weight.astype("float32").reshape([hidden, length]);
    const kernel: Kernel = {
      factors: Array.from({ length }, (_, i) => own(rows.slice(":", i).contiguous())),
      bias: bias && own(bias.astype("float32").asShape([hidden])),
    };
    return () => kernel;
  });
}

/**
 * C · convolution(B · x), where B, C and x are products of the state, and the convolution sees each
 * token and those before it.
 */
export function shortConvolution(w: AnyWeights, model: Model, place: LayerPlace): Part {
  const { names, sizes: { hidden }, config: { convolution: length = USUAL_LENGTH } } = model;
  const bias = { bias: "optional" } as const;
  const input = w.linear(names.convolutionInput, 3 * hidden, hidden, bias);
  const kernel = kernelOf(w, names.convolution, hidden, length);
  const output = w.linear(names.convolutionOutput, hidden, hidden, bias);
  return (state, memory, add) => {
    const shape = [state.shape[0], hidden] as const;
    const [b, c, x] = input(state).split(3, -1).map((part) => part.asShape(shape)) as [
      State,
      State,
      State,
    ];
    const { factors, bias: shift } = kernel();
    const inputs = memory.inputs(place, b.mul(x), length);
    const seen = factors.map((factor, i) => inputs[i]!.mul(factor));
    const sum = seen.reduce((a, one) => a.add(one)).asShape(shape);
    return output(c.mul(shift === undefined ? sum : sum.add(shift)), { add });
  };
}

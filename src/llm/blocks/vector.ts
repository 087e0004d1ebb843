/**
 * Single tensors of a file that no layer of nn has.
 *
 * @module
 */
import type { Tensor } from "../../tensor/tensor.ts";
import type { AnyWeights } from "./step.ts";

/** The tensor with the whole name `name` [size], as float32. */
export function vector<const N extends number>(
  w: AnyWeights,
  name: string,
  size: N,
): () => Tensor<"float32", [N]> {
  const at = name.lastIndexOf(".");
  const [path, last] = [name.slice(0, Math.max(0, at)), name.slice(at + 1)];
  return w.layer(path, { [last]: [size] }, (tensors, own) => {
    const all = own(tensors[last]!.astype("float32").asShape([size]));
    return () => all;
  });
}

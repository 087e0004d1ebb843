/**
 * The states of tokens to one vector for each text.
 *
 * @module
 */
import { where } from "../api/functions/tensors.ts";
import { arange } from "../tensor/create.ts";
import type { Tensor } from "../tensor/tensor.ts";
import type { Lengths, State } from "./encoders/parts.ts";

/** How the states of the tokens of a text become one vector. */
export type Pooling = "mean" | "cls" | "last" | "max";

/** The names of {@link Pooling}. */
export const POOLINGS: readonly Pooling[] = ["mean", "cls", "last", "max"];

/** A vector for each text: [B, D]. */
export type Vectors = Tensor<"float32", [number, number]>;

/** One vector for each text of a batch. */
export function pool(x: State, lengths: Lengths, pooling: Pooling): Vectors {
  const [texts, count, size] = x.shape;
  if (pooling === "cls") return x.slice(":", 0).asShape([texts, size]);
  if (pooling === "last") {
    const last = arange(texts, { dtype: "int32" }).mul(count).add(lengths).sub(1);
    return x.reshape([-1, size]).take(last, 0).asShape([texts, size]);
  }
  const counted = arange(count, { dtype: "int32" }).less(lengths.reshape([-1, 1]))
    .reshape([texts, count, 1]);
  if (pooling === "max") {
    return where(counted, x, -Infinity).max(1).asShape([texts, size]);
  }
  return x.mul(counted.astype("float32")).sum(1)
    .div(lengths.astype("float32").reshape([-1, 1])).asShape([texts, size]);
}

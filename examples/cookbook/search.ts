/**
 * Vector search: the items most similar to each query, by the cosine.
 *
 * @module
 */
import { scope, type Tensor } from "../../mod.ts";

/** Rows of length 1. */
export function normalize(rows: Tensor): Tensor {
  return scope(() => rows.div(rows.square().sum(1, { keepDims: true }).sqrt()));
}

/** The `k` most similar items of each query, best first: cosines and int32 indices, both [q, k]. */
export function search(
  items: Tensor,
  queries: Tensor,
  k: number,
): { scores: Tensor; indices: Tensor<"int32"> } {
  return scope(() => {
    const { values, indices } = normalize(queries).matmul(items.T).topk(k);
    return { scores: values, indices: indices };
  });
}

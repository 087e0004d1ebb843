/**
 * Access in types: a parameter that is only read takes writable tensors too, and internals are not
 * assignable.
 *
 * @module
 */
import { type AnyTensor, type ReadonlyTensor, type Tensor, zeros } from "./api.ts";

const x = zeros([2, 2]);
const frozen = x.readonly();

export function show(y: Tensor<"float32", [number, number], "cpu", "read">): string {
  return y.mul(2).toString();
}
export function sum(y: ReadonlyTensor<"float32", [2, 2]>): number {
  return y.sum().item();
}

show(x);
show(frozen);
sum(x);
sum(frozen);
export const view: Tensor<"float32", [2], "cpu", "read"> = frozen.slice(0);

// @ts-expect-error: read-only
export const writable: Tensor<"float32", [2, 2], "cpu"> = frozen;
// @ts-expect-error: read-only
frozen.add_(1);
// @ts-expect-error: perhaps read-only
(frozen as AnyTensor).exp_();
// @ts-expect-error: immutable
x.layout = frozen.layout;

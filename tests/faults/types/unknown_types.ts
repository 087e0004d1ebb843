/**
 * Fault 24: a tensor of unknown shape needs `asShape` where a shape is fixed.
 *
 * @module
 */
import type { Tensor } from "../../../mod.ts";

declare const dynamic: Tensor;

export const checked: Tensor<"float32", [2, 2]> = dynamic.asShape([2, 2]);
// @ts-expect-error: Target requires 2 element(s) but source may have fewer.
export const unchecked: Tensor<"float32", [2, 2]> = dynamic;

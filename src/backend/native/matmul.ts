/**
 * The kernel of products of matrices.
 *
 * @module
 */
import { gemmOf, isPlainGemm } from "../../ops/matmul/problem.ts";
import { planProduct } from "../ffi/matrices.ts";
import type { Kernel } from "./kernel.ts";

let matrices = new Float64Array(64);

/** The kernel. */
export const matmul: Kernel = {
  supports: isPlainGemm,
  prepare(call) {
    const problem = gemmOf(call);
    matrices = planProduct("matmul", matrices, problem, 10);
    const { c, a, b } = problem;
    return { numbers: matrices, out: c.storage, a: a.storage, b: b.storage };
  },
};

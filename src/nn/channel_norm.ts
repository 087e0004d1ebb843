/**
 * The arithmetic of norms over channels, for the functions and the layers.
 *
 * @module
 */
import { apply, applyInto, applyView } from "../core/apply.ts";
import type { Operand } from "../memory/operand.ts";
import { MAP } from "../table/table.ts";
import { VIEWS } from "../table/views.ts";
import { normalizeAlong } from "../ops/softmax_norm/op.ts";
import { AFFINE } from "../ops/chain/expression.ts";

/** Options of norms over channels. */
export interface ChannelNormOptions {
  /** Added before the square root; 1e-5 by default. */
  readonly epsilon?: number | undefined;
}

/** x · scale + shift, each a vector with an element for each channel of x: [N, C, …]. */
export function affine(
  x: Operand,
  scale: Operand | undefined,
  shift: Operand | undefined,
): Operand {
  const ones = x.layout.shape.slice(2).fill(1);
  const aligned = (vector: Operand): Operand =>
    applyView(VIEWS.reshape, vector, "reshape", [...vector.layout.shape, ...ones]);
  if (scale === undefined) return shift === undefined ? x : apply(MAP.add, x, aligned(shift));
  if (shift === undefined) return apply(MAP.mul, x, aligned(scale));
  return applyInto(AFFINE, "affine", x, aligned(scale), aligned(shift), undefined);
}

/** The scale and the shift of a batch norm, from vectors in the dtype of the arithmetic. */
export function foldStatistics(
  weight: Operand | undefined,
  bias: Operand | undefined,
  mean: Operand,
  variance: Operand,
  epsilon: number,
): [scale: Operand, shift: Operand] {
  const inverse = apply(MAP.rsqrt, apply(MAP.add, variance, epsilon));
  const scale = weight === undefined ? inverse : apply(MAP.mul, inverse, weight);
  const moved = apply(MAP.mul, mean, scale);
  return [scale, bias === undefined ? apply(MAP.neg, moved) : apply(MAP.sub, bias, moved)];
}

/** x: [N, C, …] normalized over each of `groups` groups of channels with all positions. */
export function normalizeGroups(x: Operand, groups: number, epsilon: number): Operand {
  const { shape } = x.layout;
  const channels = shape[1]!;
  const size = shape.slice(2).reduce((n, m) => n * m, groups === 0 ? 0 : channels / groups);
  const rows = applyView(VIEWS.reshape, x, "reshape", [shape[0]!, groups, size]);
  const normal = normalizeAlong("layerNorm", rows, -1, { epsilon });
  return applyView(VIEWS.reshape, normal, "reshape", [...shape]);
}

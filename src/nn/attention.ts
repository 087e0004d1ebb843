/**
 * Attention of queries to keys and values.
 *
 * @module
 */
import { DTypeError, ShapeError } from "../base/errors.ts";
import { formatShape } from "../base/shape.ts";
import { apply, applyView } from "../core/apply.ts";
import { ownOperand } from "../core/foreign.ts";
import { tidy } from "../core/handles.ts";
import type { Operand } from "../memory/operand.ts";
import { checkOptions } from "../table/infer.ts";
import { MAP } from "../table/table.ts";
import { VIEWS } from "../table/views.ts";
import { attention as attend } from "../ops/attention/op.ts";
import { arange } from "../tensor/create.ts";
import type { AnyTensor, Tensor } from "../tensor/tensor.ts";

/** Options of {@link attention}. */
export interface AttentionOptions {
  /** The factor of the products of queries and keys; 1 / √D by default. */
  readonly scale?: number;
  /**
   * If true, queries see the first keys only: the last query sees all, each one before it one key
   * less.
   */
  readonly causal?: boolean;
  /**
   * Broadcasts to [..., H, M, N]. A bool mask is true for keys that a query sees; a mask of floats is
   * added to the scores.
   */
  readonly mask?: AnyTensor;
  /** A limit that the scores approach, before the mask: `softCap` · tanh(score / `softCap`). */
  readonly softCap?: number;
  /** Integers of shape [B], for operands of 4 axes: how many keys of each batch element count. */
  readonly lengths?: AnyTensor;
  /** The result is written here. */
  readonly out?: AnyTensor;
}

/** True for keys below the length of their batch element: [B, 1, 1, N]. */
function lengthMask(lengths: Operand, q: Operand, n: number): Operand {
  const { storage: { info }, layout: { shape } } = lengths;
  if (info.kind !== "i" && info.kind !== "u") {
    throw new DTypeError(`Cannot attention with lengths of ${info.name}: they are integers`);
  }
  const { shape: queries } = q.layout;
  if (queries.length !== 4 || shape.length !== 1 || shape[0] !== queries[0]) {
    throw new ShapeError(
      `Cannot attention with lengths of shape ${formatShape(shape)} and queries ` +
        `${formatShape(queries)}: there is one length for each first index of [B, H, M, D]`,
    );
  }
  const columns = applyView(VIEWS.reshape, lengths, "reshape", [shape[0]!, 1, 1, 1]);
  const { device } = q.storage;
  const keys = arange(n, { dtype: "int32", device: device as "cpu" });
  return apply(MAP.less, keys, columns);
}

/** Both masks: two of bool, or one of bool and one that is added. */
function joined(mask: Operand, seen: Operand): Operand {
  return mask.storage.info.kind === "b"
    ? apply(MAP.logicalAnd, mask, seen)
    : apply(MAP.where, seen, mask, -Infinity);
}

/**
 * softmax(scale · q kᵀ + mask) v for each head: queries [..., H, M, D], keys [..., Hk, N, D] and
 * values [..., Hk, N, Dv] give [..., H, M, Dv]. Groups of H / Hk consecutive heads of queries share a
 * head of keys and values. Axes before the heads broadcast. The scores of long inputs are computed in
 * blocks and never stored as a whole on the CPU.
 *
 * 16-bit floats are computed in float32. A query that sees no key gives 0, as in PyTorch and ONNX. Keys
 * and values that a query does not see never matter to it, even if they are NaN or infinite: those
 * beyond `lengths` or the causal limit, and those where the mask is false or -Infinity.
 *
 * @throws {ShapeError} For shapes that do not fit.
 * @throws {DTypeError} For operands that are not floats.
 *
 * @example
 * ```ts
 * const q = ones([1, 2, 4, 8]); // [batch, heads, queries, columns]
 * const [k, v] = [ones([1, 1, 6, 8]), ones([1, 1, 6, 3])];
 * nn.attention(q, k, v, { lengths: tensor([5], { dtype: "int32" }) }).shape; // => [1, 2, 4, 3]
 * ```
 */
export function attention<Q extends AnyTensor, K extends AnyTensor, W extends AnyTensor>(
  q: Q,
  k: K,
  v: W,
  options?: AttentionOptions,
): Tensor<Q["dtype"], number[], Q["device"]>;
export function attention(
  q: AnyTensor,
  k: AnyTensor,
  v: AnyTensor,
  options: AttentionOptions = {},
): Operand {
  checkOptions("attention", options, ["scale", "causal", "mask", "softCap", "lengths", "out"]);
  const { lengths, mask, ...rest } = options;
  const [queries, keys, values] = [q, k, v].map((x) => ownOperand(x, "attention")) as [
    Operand,
    Operand,
    Operand,
  ];
  return tidy(() => {
    let seen = mask === undefined ? undefined : ownOperand(mask, "attention");
    if (lengths !== undefined) {
      const n = keys.layout.shape.at(-2) ?? 0;
      const short = lengthMask(ownOperand(lengths, "attention"), queries, n);
      seen = seen === undefined ? short : joined(seen, short);
    }
    return attend(queries, keys, values, seen === undefined ? rest : { ...rest, mask: seen });
  });
}

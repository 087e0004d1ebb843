/**
 * The memory of a step of one or more texts, in pages.
 *
 * @module
 */
import type { DType } from "../../base/dtype.ts";
import { concat, quantize, stack } from "../../api/functions/tensors.ts";
import * as nn from "../../nn/mod.ts";
import type { AnyTensor, Tensor } from "../../tensor/tensor.ts";
import type * as t from "../../types/mod.ts";
import type { LayerPlace } from "../config/config.ts";
import type {
  Attended,
  Heads,
  Hidden,
  Memory,
  Pace,
  Scores,
  ShapedAngles,
  Sizes,
  State,
  Stepped,
  Tokens,
} from "./step.ts";

/** {@link Past}, with the shapes of what it has. */
export interface ShapedPast {
  readonly pools: readonly Tensor<DType, [number, 2, number, number, number, number]>[];
  readonly pages: readonly Tensor<DType, [number, number]>[];
  readonly lengths: Tensor<DType, [number]>;
  readonly convolved?: Tensor<"float32", [number, number, number, Hidden]> | undefined;
}

/** Keys or values of some dtype. */
type Rows = Tensor<DType, number[], t.Device>;

/** What a step is of. */
interface StepPlan {
  readonly angles: readonly ShapedAngles[];
  readonly past: ShapedPast;
  readonly pace: Pace;
  /** The dtype of the cache. */
  readonly dtype: nn.CacheDType;
  readonly sizes: Sizes;
}

/** The memory of M tokens of each of B texts. */
export class StepMemory implements Memory {
  readonly angles: readonly ShapedAngles[];
  readonly pace: Pace;
  readonly #past: ShapedPast;
  readonly #dtype: nn.CacheDType;
  readonly #texts: number;
  readonly #queries: Sizes["queries"];
  readonly #rows: AnyTensor[][];
  readonly #inputs: State[] = [];

  constructor({ angles, past, pace, dtype, sizes }: StepPlan) {
    this.angles = angles;
    this.pace = pace;
    this.#past = past;
    this.#dtype = dtype;
    this.#texts = past.lengths.shape[0];
    this.#queries = sizes.queries;
    this.#rows = past.pools.map(() => []);
  }

  /** [heads, B · M, columns] by texts: [B, heads, M, columns]; without the first axis for one text. */
  #byText<D extends DType>(x: Tensor<D, number[], t.Device>): Tensor<D, number[], t.Device> {
    if (this.#texts === 1) return x;
    const [heads, all, columns] = x.shape as [number, number, number];
    return x.reshape([heads, this.#texts, all / this.#texts, columns]).swapAxes(0, 1);
  }

  /** Rows for the cache, and what later tokens will see of them. */
  #kept(x: Heads): { readonly row: AnyTensor; readonly seen: Rows } {
    if (this.#dtype === "q8_0") {
      const row = quantize(x, "q8_0");
      return { row, seen: row.dequantize() };
    }
    const row = x.astype(this.#dtype);
    return { row, seen: row };
  }

  attend({ pool, slot }: LayerPlace, q: Heads, k: Heads, v: Heads, scores: Scores): Attended {
    const { pools, pages, lengths } = this.#past;
    const [keys, values] = [this.#kept(k), this.#kept(v)];
    this.#rows[pool]!.push(keys.row, values.row);
    const data = pools[pool]!, table = pages[pool]!;
    const isOne = this.#texts === 1;
    const cached = {
      keys: data.slice(slot, 0),
      values: data.slice(slot, 1),
      length: isOne ? lengths.slice(0) : lengths,
      pages: isOne ? table.slice(0) : table,
    };
    // A token sees itself as later ones do: what they compute does not depend on how a text is cut.
    const how = { ...scores, stepwise: this.pace === "steps" };
    const [ownK, ownV] = [this.#byText(keys.seen), this.#byText(values.seen)];
    const seen = nn.cachedAttention(this.#byText(q), ownK, ownV, cached, how);
    return seen.swapAxes(-3, -2).reshape([q.shape[1], this.#queries]);
  }

  inputs({ slot }: LayerPlace, x: State, length: number): readonly State[] {
    this.#inputs.push(x);
    const [all, hidden] = x.shape;
    const count = all / this.#texts;
    const own = x.reshape([this.#texts, count, hidden]);
    const rows = concat([this.#past.convolved!.slice(":", slot), own], 1);
    return Array.from(
      { length },
      (_, i) => rows.slice(":", `${i}:${i + count}`).reshape([all, hidden]),
    );
  }

  /** What the layers kept. */
  kept(): Pick<Stepped, "rows" | "convolved"> {
    const rows = this.#rows.map((each) => {
      const [heads, count, columns] = each[0]!.shape as [number, Tokens, number];
      return stack(each).reshape([each.length / 2, 2, heads, count, columns]);
    });
    return { rows, convolved: this.#inputs.length === 0 ? undefined : stack(this.#inputs) };
  }
}
